/* engine.h: who gives devices. The control plane decides what should run; an engine makes it so and
 * reports facts. It never waits: an order is accepted or refused at once, its outcome comes back by
 * the node's report. An order is idempotent on (lease, epoch).
 *
 * "local" is the only engine that is built in: the nodes themselves are level-triggered, so its
 * order is that the node is told again what should be there (docs/node-protocol.md). Slurm and
 * Kubernetes come behind the same calls as programs of their own. Core thread. */
#pragma once

#include "domain/types.h"

enum engine_flag {
    ENGINE_QUEUES = 1,    /* takes more than it can run now */
    ENGINE_EXTENDS = 2,   /* an end may be moved while it runs */
    ENGINE_KEEPS_END = 4, /* ends a lease by itself when nobody is left to say so */
};

struct engine;
struct engine_driver {
    const char *name;
    unsigned flags;
    enum err (*submit)(struct engine *e, const struct lease *l, struct refusal *why);
    enum err (*stop)(struct engine *e, const struct lease *l); /* soft or hard as the lease says */
    enum err (*extend)(struct engine *e, const struct lease *l);
    enum err (*forget)(struct engine *e, const struct lease *l); /* all is removed */
};
struct engine {
    const struct engine_driver *driver; /* borrowed */
    struct id *told;                    /* owned: nodes with something new to be told, each once */
    size_t told_count, told_cap;
};

void engine_local_init(struct engine *e);
void engine_fini(struct engine *e);
/* Something else (disk, image, key) is wanted of a node. */
void engine_tell(struct engine *e, struct id node);
/* Takes one node off the list; false: none is left. */
bool engine_told(struct engine *e, struct id *ret_node);
