/* place_mix.h: the mix of demand, as far as placement needs to know it: which kinds of parts are
 * asked for, and how often. Given (a histogram of the operator's own), or learnt from the demands
 * as they come. Pure.
 *
 * The table is bounded: when it is full, the lightest kind gives way to the new one and leaves it
 * its weight, so that a kind that comes often is kept whatever its neighbours do. */
#pragma once

#include "domain/pool.h"

#define PLACE_KINDS_MAX 512
#define PLACE_FADE_EVERY 8192 /* demands after which what was seen counts half */

struct place_kind {
    int32_t cards, milli, cpu_milli;
    int64_t memory_mib;
    uint64_t models; /* 0: any */
    double weight;
};

struct place_mix {
    struct place_kind kind[PLACE_KINDS_MAX];
    size_t count;
    double total;  /* of the weights */
    uint64_t seen; /* demands learnt, not given */
};

/* Adds weight to the kind of each part of the demand. */
void place_mix_add(struct place_mix *m, const struct pool_demand *d, double weight);
/* One more demand came; old ones fade. */
void place_mix_see(struct place_mix *m, const struct pool_demand *d);
/* What to expect of a pool before anything was seen: one, two, four and eight whole cards with
 * their part of a machine; `weight` in all. */
void place_mix_guess(struct place_mix *m, const struct pool *p, double weight);
/* The kinds in an order of their own values (cards, share, models, cores, memory), so that nothing
 * depends on who came first. */
void place_mix_sort(struct place_mix *m);
