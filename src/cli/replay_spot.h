/* replay_spot.h: a pool with spot and on-demand tasks in it, played through time. What
 * replay_spot.c reads and shows, and what spot_play.c plays. */
#pragma once

#include "cli/replay.h"
#include "domain/reclaim.h"

/* The list comes so often, one after the other: with few, all is over before the first checkpoint.
 */
#define SPOT_ROUNDS 12
#define SPOT_ROUNDS_MAX 100

struct spot_task {
    int64_t at_s, run_s;
    int32_t kind; /* index of spot_history.kind */
};

struct spot_kind { /* tasks that ask for the same */
    struct pool_demand demand;
    int64_t weight; /* of a second of its work */
};

struct spot_history {
    VEC(struct pool_node) node;
    VEC(struct spot_kind) kind;
    VEC(struct spot_task) task; /* by arrival */
    int64_t cards, checkpoint_s, rounds;
    double load, speed;
    int64_t never; /* tasks that fit no empty node; left out */
};

struct spot_outcome {
    const char *policy;
    bool youngest;
    int64_t evicted;  /* leases called back */
    double lost_h;    /* card-hours of work they had not saved */
    double held_h;    /* card-hours they had run since they started */
    int64_t reclaims; /* on-demand tasks that room was made for */
    int64_t on_demand, on_demand_waited, on_demand_started;
    int64_t starved; /* seen waiting though calling all spot back would do */
    double on_demand_wait_s;
    int64_t spot, spot_started; /* tasks; starts of them, again after a reclaim too */
    double used;                /* share of the cards from the first to the last arrival */
    double cpu_ms, choose_ms;
};

/* Plays the history once. False: interrupted. */
bool spot_play(struct cli *c, const struct spot_history *h, struct spot_outcome *o);
