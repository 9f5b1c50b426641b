/* reclaim.h: which spot leases are called back so that a demand fits. Pure: no clock, no I/O.
 *
 * Taken is what loses the least work: for each lease the time since its last checkpoint times its
 * weight; among equal losses the fewest leases. Never more than needed: without any one of the
 * victims the demand would not fit (that is proven for each plan before it is given). Losses are
 * compared node by node, exactly where whole nodes are asked for; where part of a node suffices
 * two greedy ways are tried and the better one is taken.
 *
 * A plan is carried out by notice: what has notice is promised to its demand, counts as neither
 * free nor takeable for others, and is kept after all when the demand goes away in time.
 *
 * The pool is borrowed, outlives this, and is changed by the caller: after pool_start or pool_end
 * of a spot lease call reclaim_add or reclaim_drop, after any other change of a node reclaim_touch.
 * Deterministic: ties go by pool_node.key and the leases' ids, never by the order of either. One
 * thread. Memory grows with nodes and leases. */
#pragma once

#include "base/vec.h"
#include "domain/pool.h"

struct reclaim_lease {
    uint64_t id; /* of the caller, unique */
    struct pool_demand demand;
    struct pool_part *part; /* owned; MAX(demand.nodes, 1) */
    int64_t saved_s;        /* what was done until then is kept */
    int64_t weight;         /* of a second of its work; at least cards * milli over all parts */
    uint64_t noticed_for;   /* the demand it goes for; 0: none */
    bool there;
};

struct reclaim_node { /* of the spot leases without notice */
    VEC(int32_t) slot;
    int64_t free_milli; /* of the node's cards */
    int64_t spot_milli;
    int64_t weight, weight_saved; /* sums of weight and weight * saved_s */
    int64_t saved_last_s;         /* the latest */
};

struct reclaim_work; /* scratch */
struct reclaim {
    const struct pool *pool;
    VEC(struct reclaim_lease) lease;
    VEC(int32_t) spare;
    VEC(struct reclaim_node) node;
    struct reclaim_work *work;
};

void reclaim_init(struct reclaim *r, const struct pool *pool);
void reclaim_fini(struct reclaim *r);
/* Copies all it is given; weight is raised to what the cards weigh. Returns the slot. */
int32_t reclaim_add(struct reclaim *r, uint64_t id, const struct pool_demand *d,
                    const struct pool_part *part, int64_t saved_s, int64_t weight);
void reclaim_drop(struct reclaim *r, int32_t slot);
void reclaim_saved(struct reclaim *r, int32_t slot, int64_t saved_s); /* a checkpoint */
void reclaim_touch(struct reclaim *r, uint32_t node);

enum reclaim_answer {
    RECLAIM_FITS, /* nothing need be taken */
    RECLAIM_TAKE, /* the victims suffice */
    RECLAIM_NOT,  /* all spot leases together would not suffice */
};

struct reclaim_plan {
    VEC(int32_t) victim; /* slots, by id of the lease */
    VEC(uint32_t) node;  /* where the demand fits afterwards, as many as it asks for */
    int64_t loss;        /* weight-seconds */
};
void reclaim_plan_fini(struct reclaim_plan *p);

/* ret_plan is emptied first; victims only with RECLAIM_TAKE. Nothing is changed. */
enum reclaim_answer reclaim_choose(struct reclaim *r, const struct pool_demand *d, int64_t now_s,
                                   struct reclaim_plan *ret_plan);
/* The victims of a plan have notice for this demand (not 0). */
void reclaim_notice(struct reclaim *r, const struct reclaim_plan *p, uint64_t demand);
/* The demand is gone: what had notice for it and still runs may stay. ret_plan->victim lists it. */
void reclaim_cancel(struct reclaim *r, uint64_t demand, struct reclaim_plan *ret_plan);
