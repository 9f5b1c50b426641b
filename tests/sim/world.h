/* world.h: the real core on a real store, a virtual clock and simulated nodes. Everything a test or
 * the simulator does goes through here; all time is virtual. */
#pragma once

#include "app/core.h"
#include "app/op_table.h"
#include "simnode.h"

#define WORLD_NODES_MAX 4
#define WORLD_LOG_PAGES 1000 /* a short log: its end comes within a test */
#define WORLD_T0 INT64_C(1772323200000) /* 2026-03-01T00:00:00Z */

struct world {
    char dir[64], file[96]; /* of the store; "" in memory */
    struct store *store;    /* owned */
    struct core *core;      /* owned */
    struct core_config config;
    uint64_t seed, boots;
    int64_t now_ms;      /* true time since the world began; the boot clock of the control plane */
    int64_t round_ms;    /* world_pass: each node syncs once in it */
    int64_t wall_off_ms; /* what is wrong with its wall clock */
    struct principal user, operator;
    struct simnode nodes[WORLD_NODES_MAX];
    int node_count;
    int64_t requests;
};

struct world_reply {
    bool come;
    enum err code;
    struct refusal why;
    char *answer; /* owned; JSON */
    bool replayed;
};
void world_reply_fini(struct world_reply *r);

/* in_file: a store that survives a crash; else in memory. */
void world_init(struct world *w, uint64_t seed, bool in_file);
void world_fini(struct world *w);
void world_add_node(struct world *w, const char *model, int gpus);
void world_price(struct world *w, const char *sku, const char *price, const char *unit);
void world_topup(struct world *w, const char *amount);
void world_image(struct world *w, const char *name, const char *digest, bool is_default);

/* Submits; nothing happens before world_batch. args: JSON of the body, or NULL; path arguments
 * NULL-terminated. key "" : none. r must live until its reply came. */
void world_submit(struct world *w, struct world_reply *r, const struct principal *who,
                  const char *op, const char *body, const char *key, const char *path0,
                  const char *path1);
/* Runs a batch; false when the store failed (the process would end here). */
bool world_batch(struct world *w);
/* submit, batch, reply. */
enum err world_call(struct world *w, struct world_reply *r, const struct principal *who,
                    const char *op, const char *body, const char *path0);
/* kill -9 and start again: what was not committed is gone. */
void world_restart(struct world *w);
/* The same in two halves, for who looks at the file, or puts another there, in between. */
void world_close(struct world *w);
void world_open(struct world *w);
/* One sync of a node, answered. lose_answer: it never arrives. twice: delivered two times. */
void world_sync(struct world *w, int node, bool lose_answer, bool twice);
/* Time passes: nodes live, each syncs every few seconds unless cut, the core ticks. */
void world_pass(struct world *w, int64_t ms);
/* The instance's state by its name, id or start. */
enum instance_state world_state(struct world *w, const char *instance);
/* Cheap laws over the whole store and the nodes; false and a text when one is broken. */
bool world_laws(struct world *w, char *text, size_t size);
/* All of them: `admin check`. */
bool world_check(struct world *w, char *text, size_t size);
