/* place_score.c: what placing one demand on one node spoils (place_engine.h).
 *
 * What a node is worth depends on its cores, its cards and its type alone; the same states come
 * again and again, so it is kept by a hash of them. The hash is a sum over the cards, so that the
 * state after a placement is a few additions away. */
#include <math.h>

#include "domain/place_int.h"

static uint64_t scatter(uint64_t x) /* the finish of a 64-bit mixer */
{
    x ^= x >> 31;
    x *= 0x7fb5d329728ea185ULL;
    x ^= x >> 27;
    x *= 0x81dadef4bc2dd44dULL;
    return x ^ x >> 33;
}

static uint64_t card_hash(const struct pool_card *c, int32_t free_milli)
{
    return scatter((uint64_t)c->model << 16 | (uint64_t)(free_milli + 1));
}

/* Cores count in steps: states that differ by less are worth the same. */
static int32_t cpu_step(int32_t cpu_milli)
{
    return cpu_milli - cpu_milli % PLACE_CPU_STEP;
}

static uint64_t cpu_hash(int32_t cpu_milli)
{
    return scatter((uint64_t)cpu_step(cpu_milli) | (uint64_t)1 << 40);
}

struct after { /* a node as it would be */
    int32_t cpu_milli;
    int32_t taken; /* milli of each card below */
    uint64_t cards;
    uint64_t hash;
};

static double idle_of(struct placer *pl, uint32_t node, const struct after *a)
{
    struct place_memo *m = &pl->memo[(a->hash & (pl->memo_pairs - 1)) * 2];
    const struct pool_node *n = &pl->pool->node[node];
    struct look_state s = {.cpu_milli = cpu_step(a->cpu_milli), .type = pl->spot[node].type};

    if (m[0].key == a->hash)
        return (double)m[0].idle;
    if (m[1].key == a->hash)
        return (double)m[1].idle;
    for (int32_t i = 0; i < n->card_count; i++) {
        if (n->card[i].out)
            continue;
        s.free[s.cards] = (int16_t)(n->card[i].free_milli - (a->cards >> i & 1 ? a->taken : 0));
        s.model[s.cards++] = n->card[i].model;
    }
    m[1] = m[0];
    m[0] = (struct place_memo){a->hash, (float)place_look_idle(&pl->look, &s)};
    return (double)m[0].idle;
}

/* Nodes where every demand that is neither pinned nor linked is worth the same. */
static uint64_t alike_hash(const struct pool_node *n, uint64_t hash)
{
    const uint64_t flags = (uint64_t)n->plans << 24 | (uint64_t)n->zone << 16 |
                           (uint64_t)n->trust << 8 | (uint64_t)n->drain << 2 |
                           (uint64_t)n->exclusive << 1 | (n->holdings ? 1U : 0);

    hash = scatter(hash + ((uint64_t)n->cpu_free_milli << 32 | (uint32_t)n->ports_free));
    hash = scatter(hash + (uint64_t)n->memory_free_mib);
    hash = scatter(hash + (uint64_t)n->disk_free_mib);
    hash = scatter(hash + flags);
    for (size_t i = 0; i < POOL_PLAN_COUNT; i++)
        hash = scatter(hash + (uint64_t)n->price[i]);
    return hash;
}

void place_spot_set(struct placer *pl, uint32_t node)
{
    const struct pool_node *n = &pl->pool->node[node];
    struct place_spot *s = &pl->spot[node];
    struct after a = {.cpu_milli = n->cpu_free_milli};
    int64_t whole = 0;

    a.hash = cpu_hash(n->cpu_free_milli) + scatter((uint64_t)1 << 50 | s->type);
    s->most_free = 0;
    for (int32_t i = 0; i < n->card_count; i++) {
        const struct pool_card *c = &n->card[i];

        if (c->out)
            continue;
        a.hash += card_hash(c, c->free_milli);
        whole += c->free_milli == POOL_WHOLE;
        if (c->free_milli > s->most_free)
            s->most_free = c->free_milli;
    }
    s->hash = a.hash;
    s->alike = alike_hash(n, a.hash);
    s->key = n->key;
    s->cpu_free_milli = n->cpu_free_milli;
    s->idle = (float)idle_of(pl, node, &a);
    s->guards = 0;
    for (size_t k = 0; k < pl->guards.count; k++)
        if (place_guard_watches(&pl->guards.guard[k], n, s->type) &&
            place_guard_places(&pl->guards.guard[k], whole, n->cpu_free_milli, n->memory_free_mib))
            s->guards |= 1U << k;
}

uint64_t place_types_that_hold(const struct placer *pl, const struct pool_demand *d)
{
    uint64_t mask = 0;

    for (size_t t = 0; t < pl->look.types; t++) {
        const struct look_type *k = &pl->look.type[t];

        if (k->cards >= d->cards && k->cpu_milli >= d->cpu_milli &&
            k->memory_mib >= d->memory_mib && (!d->models || d->models >> k->model & 1))
            mask |= 1ULL << t;
    }
    return mask;
}

/* Places that each guard loses on the node, as a pattern. */
static uint64_t losses(const struct placer *pl, const struct pool_demand *d, uint32_t node,
                       const struct after *a)
{
    const struct pool_node *n = &pl->pool->node[node];
    int64_t whole = 0, left = 0;
    uint64_t pattern = 0;

    for (int32_t i = 0; i < n->card_count; i++) {
        bool is = n->card[i].free_milli == POOL_WHOLE && !n->card[i].out;

        whole += is;
        left += is && !(a->cards >> i & 1);
    }
    if (d->exclusive)
        left = 0;
    for (uint32_t bits = pl->spot[node].guards; bits; bits &= bits - 1) {
        int k = __builtin_ctz(bits);
        const struct place_guard *g = &pl->guards.guard[k];
        int64_t was = place_guard_places(g, whole, n->cpu_free_milli, n->memory_free_mib);
        int64_t is = place_guard_places(g, left, a->cpu_milli, n->memory_free_mib - d->memory_mib);

        pattern |= (uint64_t)MIN(was - is, (int64_t)((1 << PLACE_LOSS_BITS) - 1))
                   << (k * PLACE_LOSS_BITS);
    }
    return pattern;
}

static void take(struct after *a, const struct pool_node *n, int32_t card, int32_t milli)
{
    const struct pool_card *c = &n->card[card];

    a->cards |= 1ULL << card;
    a->hash += card_hash(c, c->free_milli - milli) - card_hash(c, c->free_milli);
}

/* One card: of those that suffice the one whose use leaves the node worth most. */
static double best_card(struct placer *pl, const struct pool_demand *d, uint32_t node,
                        const struct after *before, struct after *ret_a)
{
    const struct pool_node *n = &pl->pool->node[node];
    double best = INFINITY;
    int32_t last_free = -1;
    uint8_t last_model = 0;

    for (int32_t i = 0; i < n->card_count; i++) {
        const struct pool_card *c = &n->card[i];
        struct after a = *before;

        if (!pool_card_fits(c, d) || (c->free_milli == last_free && c->model == last_model))
            continue;
        last_free = c->free_milli;
        last_model = c->model;
        take(&a, n, i, d->milli);
        double idle = idle_of(pl, node, &a);
        if (idle < best) {
            best = idle;
            *ret_a = a;
        }
    }
    return best;
}

static double idle_after(struct placer *pl, const struct pool_demand *d, uint32_t node,
                         struct after *ret_a)
{
    const struct pool_node *n = &pl->pool->node[node];
    struct after a = {.cpu_milli = n->cpu_free_milli - d->cpu_milli, .taken = d->milli};
    struct pool_part part;

    a.hash = pl->spot[node].hash + cpu_hash(a.cpu_milli) - cpu_hash(n->cpu_free_milli);
    if (d->cards == 1 && !d->exclusive)
        return best_card(pl, d, node, &a, ret_a);
    if (d->cards) {
        pool_pick(pl->pool, node, d, &part);
        for (int32_t i = 0; i < part.cards; i++)
            take(&a, n, part.card[i], d->milli);
    }
    *ret_a = a;
    if (!d->exclusive)
        return idle_of(pl, node, &a);
    int64_t idle = -(int64_t)d->cards * d->milli; /* nobody else can use what is left */
    for (int32_t i = 0; i < n->card_count; i++)
        idle += n->card[i].out ? 0 : n->card[i].free_milli;
    return (double)idle;
}

/* Price of the cards above the cheapest that would do. */
static double scarcity(const struct placer *pl, const struct pool_demand *d, uint32_t node,
                       const struct after *a)
{
    const struct pool_node *n = &pl->pool->node[node];
    uint64_t will_do = pl->pool->models & (d->models ? d->models : UINT64_MAX);
    double cheapest = INFINITY, sum = 0;

    for (uint64_t bits = will_do; bits; bits &= bits - 1)
        cheapest = fmin(cheapest, pl->scarcity[__builtin_ctzll(bits)]);
    for (uint64_t bits = a->cards; bits; bits &= bits - 1)
        sum += pl->scarcity[n->card[__builtin_ctzll(bits)].model] - cheapest;
    return sum * d->milli / POOL_WHOLE * PLACE_SCARCITY;
}

float place_score_node(struct placer *pl, const struct pool_demand *d, uint32_t node,
                       uint64_t *ret_pattern, struct pool_part *ret_part)
{
    const struct place_spot *s = &pl->spot[node];
    const struct pool_node *n = &pl->pool->node[node];
    double rest = 0;
    struct after a = {0};

    *ret_pattern = 0;
    if (s->cpu_free_milli < d->cpu_milli || (d->cards && s->most_free < d->milli) ||
        !pool_fits(n, d))
        return -INFINITY;
    double spoilt = idle_after(pl, d, node, &a) - (double)s->idle;
    for (int32_t i = 0; i < n->card_count; i++)
        rest += n->card[i].out ? 0 : n->card[i].free_milli;
    rest = 0.5 * (rest - (double)d->cards * d->milli) / (pl->cards_max * POOL_WHOLE) +
           0.5 * a.cpu_milli / pl->cpu_max;
    *ret_pattern = losses(pl, d, node, &a);
    if (ret_part) {
        *ret_part = (struct pool_part){.node = node, .cards = d->cards};
        for (int32_t i = 0, k = 0; i < n->card_count; i++)
            if (a.cards >> i & 1)
                ret_part->card[k++] = (uint8_t)i;
    }
    return (float)-(spoilt + pl->pull * rest + (d->cards ? scarcity(pl, d, node, &a) : 0));
}
