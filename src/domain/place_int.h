/* place_int.h: what the files of the placement engine share. */
#pragma once

#include "domain/place_engine.h"

#define PLACE_TWINS 1024                  /* states remembered while all nodes are looked at */
#define PLACE_BLOCK 64                    /* nodes whose best is kept together */
#define PLACE_LOSSES_MAX 1024             /* patterns of guards that one demand can hurt */
#define PLACE_LOSS_BITS 2                 /* of a pattern a guard: 0 to 3 places */
#define PLACE_MEMO_MOST ((size_t)1 << 18) /* pairs of states whose worth is kept */
#define PLACE_MEMO_NODE 64                /* of them a node, while there is room */
#define PLACE_CPU_STEP 250

struct place_guard { /* large demands alike in cards and in the machines that could hold them */
    int32_t cards;
    uint64_t types;               /* bit per type of machine that could hold one when empty */
    double rate;                  /* share of the demands */
    double cpu_milli, memory_mib; /* of an average one */
    double mean, spread;          /* places that one demand of the mix uses up, and its variance */
    int64_t places;               /* where one could start now */
    double due;                   /* chance that places run short */
};

struct place_guards {
    struct place_guard guard[PLACE_GUARDS_MAX];
    size_t count;
    uint64_t epoch; /* moves when a `due` does */
};

struct place_spot {  /* what the scores read of a node, close together */
    uint64_t hash;   /* of its cores, cards and type */
    uint64_t key;    /* of the pool's node */
    uint64_t alike;  /* hash of all that a score reads of the node but key and NVLink groups */
    uint32_t guards; /* bit per guard with a place here */
    float idle;      /* place_look_idle */
    int32_t cpu_free_milli;
    int16_t most_free; /* of its cards */
    uint8_t type;
};

struct place_cache { /* the scores of one demand */
    struct pool_demand demand;
    uint64_t used, seen, epoch; /* last decision; position in the log; of the guards */
    bool filled, ever_known, ever;
    float *score;       /* owned, a node: without the guards; -inf: does not fit */
    uint16_t *loss;     /* owned, a node: index in pattern */
    float *best;        /* owned, a block, guards taken off */
    uint64_t *best_key; /* owned, a block: of its node, read where bests are equal */
    uint32_t *at;       /* owned, a block: its node */
    uint64_t pattern[PLACE_LOSSES_MAX]; /* places lost, PLACE_LOSS_BITS a guard */
    float toll[PLACE_LOSSES_MAX];
    size_t patterns;
};

struct place_memo {
    uint64_t key;
    float idle;
};

struct placer {
    struct pool *pool; /* borrowed */
    struct place_limits limits;
    struct place_mix mix, ranked; /* as it grows; as the scores see it */
    uint64_t refit_at;            /* of mix.seen */
    struct place_look look;
    struct place_guards guards;
    double scarcity[POOL_MODELS_MAX];
    double pull;
    double cpu_max, cards_max; /* of the largest build */
    size_t nodes, blocks;      /* that the arrays are made for */
    struct place_spot *spot;   /* owned, a node */
    uint32_t *log;             /* owned: nodes as they changed, a ring */
    size_t log_size;           /* a power of two */
    uint64_t log_at;
    uint32_t *stamp, *block_stamp; /* owned: what the current refresh has met */
    uint32_t now;
    uint64_t decisions;
    unsigned stale;                              /* changes since the guards were weighed */
    struct place_cache *cache[PLACE_CACHES_MAX]; /* owned */
    size_t caches, caches_max;
    struct place_memo *memo; /* owned: memo_pairs times two */
    size_t memo_pairs;       /* a power of two */
};

void place_guards_build(struct place_guards *g, const struct place_mix *m,
                        const struct look_type *type, size_t types);
/* Places of a guard on a node with so many whole cards, cores and memory free. */
int64_t place_guard_places(const struct place_guard *g, int64_t whole, int64_t cpu_milli,
                           int64_t memory_mib);
bool place_guard_watches(const struct place_guard *g, const struct pool_node *n, uint32_t type);
/* `demands`: to come before the pool is full. */
void place_guards_due(struct place_guards *g, double demands);
/* What the pattern costs a demand of so many cards that could be held by `types`. */
double place_guards_toll(const struct place_guards *g, uint64_t pattern, int32_t cards,
                         uint64_t types);

/* place_score.c */
void place_spot_set(struct placer *pl, uint32_t node);
float place_score_node(struct placer *pl, const struct pool_demand *d, uint32_t node,
                       uint64_t *ret_pattern, struct pool_part *ret_part);
uint64_t place_types_that_hold(const struct placer *pl, const struct pool_demand *d);

/* place_cache.c */
struct place_cache *place_cache_get(struct placer *pl, const struct pool_demand *d);
void place_cache_refresh(struct placer *pl, struct place_cache *c);
void place_cache_rescan(struct placer *pl, struct place_cache *c, size_t block);
void place_caches_drop(struct placer *pl);
