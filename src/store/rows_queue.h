/* rows_queue.h: the line: what is set for projects, what the waiting were told, who runs. Same
 * promises as store.h. */
#pragma once

#include "store/store.h"

struct queue_terms { /* of a project; without a row: share 1, the rest 0 */
    struct id project;
    int64_t share;     /* weight among the projects that wait or run */
    int64_t cards_max; /* cards at most that run at once out of the line; 0: no limit */
    int32_t priority;  /* 0 … QUEUE_PRIORITY_MAX */
};
struct queue_terms_list {
    struct queue_terms *at;
    size_t len, cap;
};
enum err store_queue_terms_save(struct store *s, const struct queue_terms *t);
enum err store_queue_terms_list(struct store *s, struct queue_terms_list *ret_l);

struct queue_told {
    struct id instance;
    int64_t place, waiting;      /* place in line, from 1, of so many */
    utime_t early, likely, late; /* of the start; 0: cannot be said */
    struct id node;              /* held for it from `likely` on; empty: none yet */
};
/* ERR_NOT_FOUND: nothing was told yet. */
enum err store_queue_told_get(struct store *s, struct id instance, struct queue_told *ret_t);
enum err store_queue_told_save(struct store *s, const struct queue_told *t);
/* Rows of instances that wait no more go. */
enum err store_queue_told_prune(struct store *s);

struct queue_lease { /* a lease that holds cards, or held some */
    struct id lease, project;
    utime_t granted_at, stop_at, ended_at, ends_at;
};
struct queue_lease_list {
    struct queue_lease *at;
    size_t len, cap;
};
/* Those whose devices are not free again, by id. */
enum err store_queue_lease_list(struct store *s, struct queue_lease_list *ret_l);
/* The latest that are over and had an end from the start. */
enum err store_queue_lease_ended(struct store *s, int64_t limit, struct queue_lease_list *ret_l);
