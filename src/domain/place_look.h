/* place_look.h: what a node's free capacity is worth to the demand that is expected. Pure.
 *
 * Two estimates of the card share of a node that will stay unused, in thousandths of a card:
 *
 *   fragmentation  what an average next demand cannot use there: for each kind all idle share when
 * it does not fit, else the idle share of the cards that are too full for it; weighted by how often
 * the kind comes (the measure of "fragmentation gradient descent"). look-ahead     what is left
 * idle after the node was offered LOOK_LENGTH demands drawn from the mix, taking each that fits on
 * its tightest card, averaged over LOOK_STREAMS fixed sequences; plus a tenth of the fragmentation.
 * Seats without cards are offered to a kind of machine as often as the fleet has to host them
 * there: they fill the machines with the most cores to spare first.
 *
 * Both look at cores and cards only; the caller checks everything else when it places. */
#pragma once

#include "domain/place_mix.h"

#define LOOK_TYPES_MAX 64
#define LOOK_STREAMS 64
#define LOOK_LENGTH 60
#define LOOK_STEPS_MAX 32 /* card sizes that the skipping of a stream tells apart */

enum place_policy { PLACE_FAST, PLACE_AHEAD };

struct look_type { /* machines of one build */
    int32_t cpu_milli, cards;
    int64_t memory_mib;
    uint8_t model; /* of its first card */
    int64_t count;
};

struct look_state { /* a node, seen from the mix */
    int32_t cpu_milli, cards;
    uint32_t type;
    int16_t free[POOL_CARDS_MAX];
    uint8_t model[POOL_CARDS_MAX];
};

struct look_group { /* kinds that differ in cores alone */
    int32_t cards, milli;
    uint64_t models;
    size_t from, to; /* in the thresholds, ascending */
};

struct look_offer { /* one demand of a stream */
    int32_t cpu_milli;
    int16_t milli;
    uint8_t cards;
    float luck; /* a seat is offered where this is below the type's share */
    uint64_t models;
};

struct place_look {
    enum place_policy policy;
    struct look_type type[LOOK_TYPES_MAX];
    size_t types;
    struct look_group group[PLACE_KINDS_MAX];
    size_t groups;
    int32_t threshold[PLACE_KINDS_MAX]; /* cores, by group */
    double reach[PLACE_KINDS_MAX];      /* share of demand with at most that many cores */
    float seats[LOOK_TYPES_MAX];        /* share of the seats offered there */
    struct look_offer offer[LOOK_STREAMS][LOOK_LENGTH];
    int16_t step[LOOK_STEPS_MAX]; /* card sizes, ascending */
    size_t steps;
    uint8_t next[LOOK_STREAMS][LOOK_STEPS_MAX][LOOK_LENGTH + 1];
    double card_milli; /* share of cards that an average demand asks for */
};

/* type, types and policy are set; builds the rest. The mix is sorted and not empty. */
void place_look_build(struct place_look *l, const struct place_mix *m);
/* Share of the node's cards that stays unused, milli. */
double place_look_idle(const struct place_look *l, const struct look_state *s);
