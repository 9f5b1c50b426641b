#include "domain/place_why.h"

#include <stdlib.h>

#include "base/mem.h"

static const char *const names[] = {"nothing", "cards", "share",     "nodes", "cpu",  "memory",
                                    "disk",    "ports", "price",     "trust", "link", "zone",
                                    "model",   "plan",  "exclusive", "pinned"};

_Static_assert(ARRAY_LEN(names) == WHY_CHANGE_COUNT, "one name per change");

/* What dropping a condition counts as, beside the part of an amount that is given up. */
static const double price_of[WHY_CHANGE_COUNT] = {
    [WHY_LINK] = 0.3, [WHY_ZONE] = 0.4,      [WHY_MODEL] = 0.5,
    [WHY_PLAN] = 0.6, [WHY_EXCLUSIVE] = 0.7, [WHY_PINNED] = 0.9,
};

const char *why_change_name(enum why_change c)
{
    CHECK((size_t)c < ARRAY_LEN(names));
    return names[c];
}

/* groups */

static struct why_group *group_of(struct why_not *w, const struct pool_node *n, enum pool_bar bar)
{
    struct why_group g = {.model = n->card_count ? n->card[0].model : 0,
                          .card_count = n->card_count,
                          .cpu_milli = n->cpu_milli,
                          .memory_mib = n->memory_mib,
                          .bar = bar};

    for (size_t i = 0; i < w->groups; i++) {
        const struct why_group *k = &w->group[i];

        if (k->model == g.model && k->card_count == g.card_count && k->bar == bar &&
            k->cpu_milli == g.cpu_milli && k->memory_mib == g.memory_mib)
            return &w->group[i];
    }
    if (w->groups == WHY_GROUPS_MAX)
        return &w->group[WHY_GROUPS_MAX - 1];
    w->group[w->groups] = g;
    return &w->group[w->groups++];
}

static void groups_find(const struct pool *p, const struct pool_demand *d, struct why_not *w)
{
    int64_t could = 0;

    for (size_t i = 0; i < p->count; i++) {
        const struct pool_node *n = &p->node[i];
        int64_t need = 0, have = 0;
        enum pool_bar bar = pool_bar(n, d, &need, &have);
        bool ever = pool_bar_empty(n, d) == POOL_FITS;

        could += ever;
        if (bar == POOL_FITS)
            continue;
        struct why_group *g = group_of(w, n, bar);
        bool closer = bar == POOL_PRICE ? need < g->need : have > g->have;

        if (!g->nodes || closer) {
            g->need = need;
            g->have = have;
        }
        g->nodes++;
        g->ever |= ever;
    }
    w->ever = could >= MAX(d->nodes, 1);
}

/* changes of an amount */

static int64_t amount_get(const struct pool_demand *d, enum why_change c)
{
    switch (c) {
    case WHY_CARDS:
        return d->cards;
    case WHY_SHARE:
        return d->milli;
    case WHY_CPU:
        return d->cpu_milli;
    case WHY_MEMORY:
        return d->memory_mib;
    case WHY_DISK:
        return d->disk_mib;
    case WHY_PORTS:
        return d->ports;
    case WHY_PRICE:
        return d->price_max;
    case WHY_TRUST:
        return d->trust_min;
    case WHY_NOTHING:
    case WHY_NODES:
    case WHY_LINK:
    case WHY_ZONE:
    case WHY_MODEL:
    case WHY_PLAN:
    case WHY_EXCLUSIVE:
    case WHY_PINNED:
    case WHY_CHANGE_COUNT:
        break;
    }
    return 0;
}

static void amount_set(struct pool_demand *d, enum why_change c, int64_t v)
{
    if (c == WHY_CARDS)
        d->cards = (int32_t)v;
    else if (c == WHY_SHARE)
        d->milli = (int32_t)v;
    else if (c == WHY_CPU)
        d->cpu_milli = (int32_t)v;
    else if (c == WHY_MEMORY)
        d->memory_mib = v;
    else if (c == WHY_DISK)
        d->disk_mib = v;
    else if (c == WHY_PORTS)
        d->ports = (int32_t)v;
    else if (c == WHY_PRICE)
        d->price_max = v;
    else
        d->trust_min = (uint8_t)v;
}

/* Cards with the share free: all of them, or (linked) the most in one NVLink group. */
static int64_t cards_there(const struct pool_node *n, const struct pool_demand *d)
{
    int64_t most = 0;

    for (int32_t i = 0; i < n->card_count; i++) {
        int64_t count = 0;

        for (int32_t k = 0; k < n->card_count; k++)
            count += pool_card_fits(&n->card[k], d) &&
                     (!d->linked || (n->card[k].link && n->card[k].link == n->card[i].link));
        most = MAX(most, count);
    }
    return most;
}

/* The largest share that d->cards cards still have free; 0: none. */
static int64_t share_there(const struct pool_node *n, const struct pool_demand *d)
{
    struct pool_demand less = *d;
    int64_t best = 0;

    for (int32_t i = 0; i < n->card_count; i++) {
        less.milli = n->card[i].free_milli;
        if (less.milli > best && less.milli < d->milli && pool_fits(n, &less))
            best = less.milli;
    }
    return best;
}

/* What the amount would have to be on this node. */
static int64_t amount_there(const struct pool_node *n, const struct pool_demand *d,
                            enum why_change c)
{
    if (c == WHY_CARDS)
        return cards_there(n, d);
    if (c == WHY_SHARE)
        return share_there(n, d);
    if (c == WHY_CPU)
        return n->cpu_free_milli;
    if (c == WHY_MEMORY)
        return n->memory_free_mib;
    if (c == WHY_DISK)
        return n->disk_free_mib;
    if (c == WHY_PORTS)
        return n->ports_free;
    return c == WHY_PRICE ? n->price[d->plan] : n->trust;
}

static bool amount_least(enum why_change c, int64_t v)
{
    return v > 0 || c == WHY_MEMORY || c == WHY_DISK || c == WHY_PORTS || c == WHY_TRUST;
}

static int by_size(const void *va, const void *vb)
{
    int64_t a = *(const int64_t *)va, b = *(const int64_t *)vb;

    return a < b ? -1 : a > b;
}

static void keep(struct why_not *w, double *cheapest, double cost, enum why_change c,
                 const struct pool_demand *d)
{
    if (w->change != WHY_NOTHING && cost >= *cheapest)
        return;
    *cheapest = cost;
    w->change = c;
    w->fit = *d;
}

static void try_amount(const struct pool *p, const struct pool_demand *d, enum why_change c,
                       struct why_not *w, double *cheapest)
{
    int64_t *v = mem_alloc((p->count + 1) * sizeof(*v)), asked = amount_get(d, c);
    size_t count = 0, parts = (size_t)MAX(d->nodes, 1);
    struct pool_demand t = *d;

    for (size_t i = 0; i < p->count && asked > 0; i++) {
        int64_t there = pool_fits(&p->node[i], d) ? asked : amount_there(&p->node[i], d, c);

        amount_set(&t, c, there);
        if (amount_least(c, there) && pool_fits(&p->node[i], &t))
            v[count++] = c == WHY_PRICE ? -there : there;
    }
    if (count >= parts) {
        qsort(v, count, sizeof(*v), by_size);
        int64_t to = c == WHY_PRICE ? -v[count - parts] : v[count - parts];

        amount_set(&t, c, to);
        double part = (double)(c == WHY_PRICE ? to - asked : asked - to) / (double)asked;
        keep(w, cheapest, part, c, &t);
    }
    mem_free_ptr(&v);
}

/* changes of a condition */

static int64_t count_fits(const struct pool *p, const struct pool_demand *d)
{
    int64_t count = 0;

    for (size_t i = 0; i < p->count; i++)
        count += pool_fits(&p->node[i], d);
    return count;
}

static void try_demand(const struct pool *p, const struct pool_demand *t, enum why_change c,
                       struct why_not *w, double *cheapest)
{
    if (count_fits(p, t) >= MAX(t->nodes, 1))
        keep(w, cheapest, price_of[c], c, t);
}

static void try_conditions(const struct pool *p, const struct pool_demand *d, struct why_not *w,
                           double *cheapest)
{
    struct pool_demand t = *d;

    t.linked = false;
    if (d->linked)
        try_demand(p, &t, WHY_LINK, w, cheapest);
    t = *d;
    t.zones = 0;
    if (d->zones)
        try_demand(p, &t, WHY_ZONE, w, cheapest);
    t = *d;
    t.models = 0;
    if (d->models)
        try_demand(p, &t, WHY_MODEL, w, cheapest);
    for (int plan = 0; plan < POOL_PLAN_COUNT; plan++) {
        t = *d;
        t.plan = (enum pool_plan)plan;
        if (t.plan != d->plan)
            try_demand(p, &t, WHY_PLAN, w, cheapest);
    }
    t = *d;
    t.exclusive = false;
    if (d->exclusive)
        try_demand(p, &t, WHY_EXCLUSIVE, w, cheapest);
    t = *d;
    t.pinned = 0;
    if (d->pinned)
        try_demand(p, &t, WHY_PINNED, w, cheapest);
}

void why_not_find(const struct pool *p, const struct pool_demand *d, struct why_not *ret_why)
{
    static const enum why_change amounts[] = {WHY_CARDS, WHY_SHARE, WHY_CPU,   WHY_MEMORY,
                                              WHY_DISK,  WHY_PORTS, WHY_PRICE, WHY_TRUST};
    int64_t fit = count_fits(p, d);
    double cheapest = 0;

    *ret_why = (struct why_not){.change = WHY_NOTHING};
    groups_find(p, d, ret_why);
    if (d->nodes > 1 && fit > 0 && fit < d->nodes) {
        struct pool_demand t = *d;

        t.nodes = (int32_t)fit;
        keep(ret_why, &cheapest, (double)(d->nodes - fit) / d->nodes, WHY_NODES, &t);
    }
    for (size_t i = 0; i < ARRAY_LEN(amounts); i++)
        try_amount(p, d, amounts[i], ret_why, &cheapest);
    try_conditions(p, d, ret_why, &cheapest);
}
