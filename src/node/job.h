/* job.h: slow work of the helper, each piece in a child of its own. At most one job per (kind,
 * key); how the last one ended is kept in STATE/priv/jobs/, so that a question after a restart of
 * the helper still has its answer. A job dies with the helper and is asked for again. */
#pragma once

#include "node/config.h"

enum job_kind {
    JOB_IMPORT,
    JOB_IMAGE_REMOVE,
    JOB_DISK,
    JOB_ERASE,
    JOB_CLEAN,
    JOB_PORTS,
    JOB_STRAYS,
    JOB_KIND_COUNT
};

#define JOBS_MAX 64

struct jobs {
    const struct node_paths *paths; /* borrowed */
    struct job {
        int pid; /* 0: free */
        enum job_kind kind;
        char key[80];
    } at[JOBS_MAX];
};

/* In the child: what to do; arg is the caller's. */
typedef enum err (*job_fn)(void *arg, struct refusal *why);

void jobs_init(struct jobs *j, const struct node_paths *p);
bool jobs_running(const struct jobs *j, enum job_kind kind, const char *key);
/* Already running: ERR_OK, nothing started. ERR_BUSY: too many at once. in_child closes what the
 * helper has open. */
enum err jobs_start(struct jobs *j, enum job_kind kind, const char *key, job_fn fn, void *arg,
                    void (*in_child)(void), struct refusal *why);
/* A child of ours ended: true when it was a job. */
bool jobs_ended(struct jobs *j, int pid);
/* ERR_OK: the last one succeeded, or there was none. */
enum err jobs_last(const struct jobs *j, enum job_kind kind, const char *key,
                   struct refusal *ret_why);
void jobs_forget(const struct jobs *j, enum job_kind kind, const char *key);
