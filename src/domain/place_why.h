/* place_why.h: why a demand finds no place, and the nearest change with which it would. Pure.
 *
 * Each group of like machines that stop at the same constraint says its need and the most that one
 * of them has. Then every single change of the demand is tried: less of one amount, or one
 * condition dropped. Of those that would fit now the one that gives up the smallest part is named;
 * making exactly that change makes the demand fit the pool as it is. */
#pragma once

#include "domain/pool.h"

#define WHY_GROUPS_MAX 64 /* more are counted with the last */

enum why_change {
    WHY_NOTHING, /* no single change would do */
    WHY_CARDS,   /* fewer, a part */
    WHY_SHARE,   /* less of each card */
    WHY_NODES,   /* fewer parts */
    WHY_CPU,
    WHY_MEMORY,
    WHY_DISK,
    WHY_PORTS,
    WHY_PRICE,     /* a higher limit */
    WHY_TRUST,     /* a lower least trust */
    WHY_LINK,      /* cards without NVLink between them */
    WHY_ZONE,      /* any zone */
    WHY_MODEL,     /* any model */
    WHY_PLAN,      /* another plan */
    WHY_EXCLUSIVE, /* beside others */
    WHY_PINNED,    /* any node */
    WHY_CHANGE_COUNT,
};

struct why_group {
    uint8_t model; /* of the machines' first card */
    int32_t card_count, cpu_milli;
    int64_t memory_mib;
    enum pool_bar bar;
    int64_t need, have;
    int64_t nodes;
    bool ever; /* one of them would hold it if nothing were taken there */
};

struct why_not {
    struct why_group group[WHY_GROUPS_MAX];
    size_t groups;
    bool ever; /* it would fit if nothing were taken */
    enum why_change change;
    struct pool_demand fit; /* the demand with that change; meaningless with WHY_NOTHING */
};

/* The demand does not fit; when it does, the groups are those that would not take it. */
void why_not_find(const struct pool *p, const struct pool_demand *d, struct why_not *ret_why);
const char *why_change_name(enum why_change c); /* "cards" */
