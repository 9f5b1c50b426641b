/* place.h: which node takes a shape, or why none does. Pure.
 *
 * Whole cards and whole shares of a machine. A node fits when every constraint holds; among those
 * that fit the placement engine chooses (place_engine.h, the fast policy): where the least of the
 * cards is spoilt for the demand that is expected, which is what came lately and a little of every
 * usual size. Equal nodes go by a hash of their id.
 * When none fits, each candidate says its first unmet constraint in the order of the enum, and the
 * nearest change that would fit is found: fewer cards of the same model, else another model with as
 * many cards, else a smaller seat; what was
 * asked for alone, else beside others. */
#pragma once

#include "domain/types.h"

#define PLACE_NODES_MAX 1024

enum place_bar {
    PLACE_FITS,
    PLACE_PINNED, /* its disks are on another node */
    PLACE_MODEL,  /* no such card there */
    PLACE_DRIVER, /* the image needs a newer driver */
    PLACE_CUDA,   /* … or CUDA */
    PLACE_STATE,  /* new, draining or silent */
    PLACE_EXCLUSIVE, /* others run there, or one has it alone */
    PLACE_CARDS,  /* not enough of them free */
    PLACE_CPU,
    PLACE_MEMORY,
    PLACE_DISK,
    PLACE_PORTS,
};

struct place_node {          /* a node and what is taken there */
    const struct node *node; /* borrowed */
    int64_t cpu_milli_used, memory_mib_used, disk_mib_used;
    int32_t ports_used;
    int32_t leases; /* that run there */
    bool exclusive; /* one of them has it alone */
};

struct place_market {               /* what the scores expect, and the operator's limits */
    const struct demand_seen *seen; /* borrowed */
    size_t count;                   /* 0: what runs now stands in */
    int64_t scarcity_min_pct, scarcity_max_pct; /* of a price; 100 is even */
};

struct place_price { /* a model's */
    char model[GPU_MODEL_SIZE];
    int32_t cards, free;
    double asked; /* share of the cards asked for lately that are bound to it */
    double price; /* scarcity as the engine counts it (place_engine.h), limits applied */
};

struct place_ask {
    struct shape shape; /* cpu_milli, memory_mib 0 with cards: their share of the machine */
    int64_t disk_mib;   /* all that is to be made there */
    int32_t ports;
    struct id pinned;                    /* empty: any */
    const char *need_driver, *need_cuda; /* borrowed; "": none */
    const struct place_market *market;   /* borrowed; NULL: what runs now, the engine's limits */
};

struct place_why { /* per candidate */
    enum place_bar bar;
    int64_t need, have;
    bool ever; /* it would fit if nothing were taken there */
};

struct place_result {
    int best;                       /* index, or -1 */
    struct shape shape;             /* as granted on the best node: shares filled in */
    int32_t gpu[INSTANCE_GPUS_MAX]; /* indexes of the node's cards */
    bool ever;                      /* some node could hold it when empty */
    /* nearest change, when best is -1; gpu_count 0 and cpu_milli 0: there is none */
    struct shape near;
};

/* What one node says alone. */
struct place_why place_one(const struct place_ask *ask, const struct place_node *p);
/* ret_why: n entries, or NULL. */
void place_decide(const struct place_ask *ask, const struct place_node *nodes, size_t n,
                  struct place_why *ret_why, struct place_result *ret_r);
/* How scarce each model is, from the same mix of demand as a decision, by name. The number of them,
 * PLACE_PRICES_MAX at most. */
#define PLACE_PRICES_MAX 64
size_t place_prices(const struct node *nodes, size_t n, const struct place_market *market,
                    struct place_price *ret_p);
/* What one more instance could get there now: cards of a model free and healthy. */
int32_t place_free(const struct node *n, const char *model);
const char *place_bar_name(enum place_bar b); /* "cards" */
/* The part of a machine that goes with count of its cards. */
void place_share(const struct node *n, int32_t count, int32_t *ret_cpu_milli, int64_t *ret_mib);
/* "4090", "rtx4090" against "RTX 4090": 0 no match, else the smaller the nearer (1 is the same). */
size_t place_model_match(const char *typed, const char *model);
