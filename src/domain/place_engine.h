/* place_engine.h: which nodes of a pool take a demand. Pure, deterministic, incremental.
 *
 * Among the nodes where every constraint holds the one with the highest score wins. The score, in
 * thousandths of a card, is what placing there spoils, with its sign turned:
 *
 *   + growth of the card share that stays unused on the node (place_look.h)
 *   + a pull to the tighter node: PLACE_PULL_x of what would be left of it, cores and cards
 *   + scarcity: the price of the node's model above the cheapest model that would do, for each card
 *     taken. The price of a model is (share of the demand bound to it) / (its share of the cards),
 *     between the operator's limits
 *   + the guard: for each kind of large demand that could start in fewer places afterwards, its
 *     cards times the chance that those places run short: the places now against the demands of
 *     that kind still to come before the pool is full
 *
 * Scores are real numbers. Equal ones go by the smaller remainder, then by the hash of the node
 * (pool_node.key), so that neither names nor the order of nodes matter.
 *
 * Scores are kept for each demand seen lately and each node; a start or an end touches one node.
 * The memory is bounded by PLACE_CACHES_MAX and PLACE_CACHE_BYTES. One thread. */
#pragma once

#include "domain/place_look.h"

#define PLACE_PULL_FAST 60.0 /* milli for a node of the largest build that stays empty */
#define PLACE_PULL_AHEAD 5.0
#define PLACE_SCARCITY 600.0   /* milli a card and unit of price */
#define PLACE_SCARCITY_MAX 4.0 /* a limit that seldom binds */
#define PLACE_CACHES_MAX 256   /* demands whose scores are kept */
#define PLACE_CACHE_BYTES ((size_t)256 << 20)
#define PLACE_GUARDS_MAX 24 /* kinds of large demand that are guarded */

enum place_answer {
    PLACE_PLACED,
    PLACE_NOT_NOW, /* something that is taken stands in the way */
    PLACE_NEVER,   /* it would not fit if nothing were taken */
};

struct place_limits { /* the operator's */
    enum place_policy policy;
    double scarcity_min, scarcity_max; /* of a model's price; both 0: scarcity plays no part */
};

struct placer;

/* The pool stays the caller's, outlives the placer and changes through it alone (or placer_touch,
 * placer_refit). The mix is copied; empty: a guess stands in until demands were seen. */
struct placer *placer_new(struct pool *pool, const struct place_limits *limits,
                          const struct place_mix *mix);
void placer_free(struct placer *pl);
void placer_free_ptr(struct placer **pl); /* for CLEANUP */

/* ret_part: max(d->nodes, 1) of them, on nodes of their own; nothing is taken yet. */
enum place_answer placer_decide(struct placer *pl, const struct pool_demand *d,
                                struct pool_part *ret_part);
void placer_start(struct placer *pl, const struct pool_demand *d, const struct pool_part *part,
                  size_t parts);
void placer_end(struct placer *pl, const struct pool_demand *d, const struct pool_part *part,
                size_t parts);
/* The mix learns from a demand. The scores follow at once when the mix has doubled, later every
 * few thousand demands. */
void placer_see(struct placer *pl, const struct pool_demand *d);
/* A node was changed outside. */
void placer_touch(struct placer *pl, uint32_t node);
/* Nodes were added, or the mix shall count now. */
void placer_refit(struct placer *pl);

/* Score of a demand on a node where it fits, counted anew, to the bit as a decision counts it; -inf
 * where it does not. */
double placer_score(struct placer *pl, const struct pool_demand *d, uint32_t node);
/* The price of a model as the score counts it. */
double placer_scarcity(const struct placer *pl, unsigned model);
const struct place_mix *placer_mix(const struct placer *pl);
