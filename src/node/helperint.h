/* helperint.h: inside of the root helper: priv.c is its loop, priv_*.c are its answers. One thread;
 * nothing here waits for anything slower than a small file. */
#pragma once

#include "node/guard.h"
#include "node/job.h"
#include "node/start.h"

struct helper_state {
    struct helper_env env;
    struct jobs jobs;
    int fd, signal_fd, lock_fd; /* owned */
    bool starts_possible;
    struct refusal start_why; /* why not */
    utime_t strays_at;
};

/* Closes what belongs to the helper alone and makes signals ordinary again; in every child. */
void helper_child(void);
/* Every lease folder that nobody guards gets a guard again, or its end. */
void helper_adopt(struct helper_state *h);

/* Answers; rep is zeroed. The error goes to rep->error by the caller. */
enum err priv_hello(struct helper_state *h, struct priv_rep *rep);
enum err priv_image(struct helper_state *h, const struct priv_req *req, struct priv_rep *rep);
enum err priv_disk(struct helper_state *h, const struct priv_req *req, struct priv_rep *rep);
enum err priv_start(struct helper_state *h, const struct priv_req *req, struct priv_rep *rep);
enum err priv_guest(struct helper_state *h, const struct priv_req *req, struct priv_rep *rep);
enum err priv_list(struct helper_state *h, struct priv_rep *rep);

/* Calls fn with every lease that has a folder, until it returns false. */
void helper_leases_each(const struct node_paths *p, bool (*fn)(void *arg, struct id lease),
                        void *arg);
