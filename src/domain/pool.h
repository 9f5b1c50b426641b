/* pool.h: what a fleet has, what is taken of it, and what is asked for. Pure.
 *
 * The state that placement (place_*.h), the queue and reclaim look at. Nodes are an array; a node
 * is named by its index, and by `key`, a hash of its id, where two are equally good: nothing here
 * or above ever depends on the order in which nodes were added. A start and an end touch one node,
 * and an end is the exact inverse of its start.
 *
 * Shares of a core and of a card are thousandths (milli), memory and disks MiB, prices micro-units
 * per card and hour. A demand asks for `nodes` equal parts, each on a node of its own. */
#pragma once

#include "base/base.h"

#define POOL_CARDS_MAX 64  /* on one node */
#define POOL_MODELS_MAX 64 /* kinds of cards in one pool: bits of pool_demand.models */
#define POOL_NODES_MAX 200000
#define POOL_PARTS_MAX 4096 /* nodes of one gang */
#define POOL_WHOLE 1000     /* a whole card, milli */

/* How a holding is paid; a node may take some of them only (a machine its owner can call back takes
 * spot alone). */
enum pool_plan { POOL_ON_DEMAND, POOL_SPOT, POOL_RESERVED, POOL_PLAN_COUNT };

struct pool_card {
    int16_t free_milli; /* 0..1000 */
    uint8_t model;      /* index below POOL_MODELS_MAX */
    uint8_t link;       /* cards with the same number reach each other by NVLink; 0: none */
    bool out;           /* broken: takes nothing; what runs there may end */
};

struct pool_node {
    uint64_t key; /* hash of the node's id; unique in its pool */
    int64_t memory_mib, memory_free_mib;
    int64_t disk_mib, disk_free_mib;
    int32_t cpu_milli, cpu_free_milli;
    int32_t ports, ports_free;
    int32_t holdings;               /* parts that run here */
    int64_t price[POOL_PLAN_COUNT]; /* per card and hour; 0: not priced here */
    uint8_t plans;                  /* 1 << plan for each that it takes */
    uint8_t zone;                   /* below 64 */
    uint8_t trust;                  /* the higher the more is known of its owner */
    bool drain;                     /* takes nothing new */
    bool exclusive;                 /* held whole by an exclusive part */
    int32_t card_count;
    struct pool_card card[POOL_CARDS_MAX];
};

struct pool_demand {
    int32_t nodes;      /* parts, each on a node of its own; 0 counts as 1 */
    int32_t cards;      /* a part; 0: a seat without cards */
    int32_t milli;      /* of each card: 1..1000; 0 with no cards */
    int32_t cpu_milli;  /* a part */
    int64_t memory_mib; /* a part */
    int64_t disk_mib;   /* a part */
    int32_t ports;      /* a part */
    uint64_t models;    /* bit per model that will do; 0: any */
    uint64_t zones;     /* bit per zone that will do; 0: any */
    uint64_t pinned;    /* key of the only node that will do; 0: any */
    int64_t price_max;  /* per card and hour; 0: no limit */
    enum pool_plan plan;
    uint8_t trust_min;
    bool exclusive; /* nobody else on its nodes */
    bool linked;    /* the cards of a part reach each other by NVLink */
};

struct pool_part { /* where one part of a demand runs */
    uint32_t node;
    int32_t cards;
    uint8_t card[POOL_CARDS_MAX]; /* indexes on the node, ascending */
};

struct pool {
    struct pool_node *node; /* owned */
    size_t count, cap;
    int64_t cards;      /* that are not out */
    int64_t free_milli; /* of them */
    uint64_t models;    /* bit per model that is there */
};

/* In the order in which a node is looked at: the first that does not hold is told. */
enum pool_bar {
    POOL_FITS,
    POOL_PINNED,
    POOL_MODEL, /* no card there is of a model that will do */
    POOL_ZONE,
    POOL_TRUST,
    POOL_PLAN,  /* the node does not take that plan */
    POOL_PRICE, /* dearer than the limit */
    POOL_DRAIN,
    POOL_EXCLUSIVE, /* others run there, or one runs there alone */
    POOL_CARDS,     /* with that share free */
    POOL_LINK,      /* enough cards, not in one NVLink group */
    POOL_CPU,
    POOL_MEMORY,
    POOL_DISK,
    POOL_PORTS,
    POOL_BAR_COUNT,
};

void pool_init(struct pool *p);
void pool_fini(struct pool *p);
/* The index of the new node, whose free amounts are as given. POOL_NODES_MAX at most. */
uint32_t pool_add(struct pool *p, const struct pool_node *n);

/* ret_need, ret_have: the amounts of the bar that does not hold, or NULL. */
enum pool_bar pool_bar(const struct pool_node *n, const struct pool_demand *d, int64_t *ret_need,
                       int64_t *ret_have);
/* The same as if nothing were taken on the node. */
enum pool_bar pool_bar_empty(const struct pool_node *n, const struct pool_demand *d);
static inline bool pool_fits(const struct pool_node *n, const struct pool_demand *d)
{
    return pool_bar(n, d, NULL, NULL) == POOL_FITS;
}
bool pool_card_fits(const struct pool_card *c, const struct pool_demand *d);
/* The cards a part takes on a node where it fits: the fullest that suffice, and cards of the
 * smallest NVLink group when it must be linked. */
void pool_pick(const struct pool *p, uint32_t node, const struct pool_demand *d,
               struct pool_part *ret_part);

/* The part must fit: CHECKed. */
void pool_start(struct pool *p, const struct pool_demand *d, const struct pool_part *part);
/* What pool_start took is given back, card for card. */
void pool_end(struct pool *p, const struct pool_demand *d, const struct pool_part *part);

/* Nothing negative, nothing above what the node has; the sums are those of the nodes. */
bool pool_check(const struct pool *p);

const char *pool_bar_name(enum pool_bar b); /* "cards" */
uint64_t pool_key(const char *id);          /* the hash of a node's id; never 0 */
