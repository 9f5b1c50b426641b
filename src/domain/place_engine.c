#include "domain/place_engine.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "domain/place_int.h"

#define GUESS_WEIGHT 8  /* demands that the guess counts as, before others come */
#define REFIT_FIRST 32  /* demands seen before the scores follow */
#define REFIT_MOST 4096 /* and at the latest after so many more */
#define STALE_MOST 16   /* changes before the guards are weighed again */
#define LOG_LEAST 1024

/* what the mix and the fleet say */

static uint32_t type_of(struct placer *pl, const struct pool_node *n)
{
    struct look_type t = {.cpu_milli = n->cpu_milli,
                          .cards = n->card_count,
                          .memory_mib = n->memory_mib,
                          .model = n->card_count ? n->card[0].model : 0};

    for (uint32_t i = 0; i < pl->look.types; i++) {
        const struct look_type *k = &pl->look.type[i];

        if (k->cpu_milli == t.cpu_milli && k->cards == t.cards && k->memory_mib == t.memory_mib &&
            k->model == t.model)
            return i;
    }
    if (pl->look.types == LOOK_TYPES_MAX) /* a zoo: the rest count as the last */
        return LOOK_TYPES_MAX - 1;
    pl->look.type[pl->look.types] = t;
    return (uint32_t)pl->look.types++;
}

static int type_compare(const void *va, const void *vb)
{
    const struct look_type *a = va, *b = vb;

    if (a->cards != b->cards)
        return a->cards < b->cards ? -1 : 1;
    if (a->model != b->model)
        return a->model < b->model ? -1 : 1;
    if (a->cpu_milli != b->cpu_milli)
        return a->cpu_milli < b->cpu_milli ? -1 : 1;
    return (a->memory_mib > b->memory_mib) - (a->memory_mib < b->memory_mib);
}

static void types_build(struct placer *pl)
{
    pl->look.types = 0;
    pl->cpu_max = pl->cards_max = 1;
    for (size_t i = 0; i < pl->nodes; i++) {
        (void)type_of(pl, &pl->pool->node[i]);
        pl->cpu_max = fmax(pl->cpu_max, pl->pool->node[i].cpu_milli);
        pl->cards_max = fmax(pl->cards_max, pl->pool->node[i].card_count);
    }
    /* in an order of their own, not that of the nodes */
    qsort(pl->look.type, pl->look.types, sizeof(pl->look.type[0]), type_compare);
    for (size_t i = 0; i < pl->nodes; i++) {
        pl->spot[i].type = (uint8_t)type_of(pl, &pl->pool->node[i]);
        pl->look.type[pl->spot[i].type].count++;
    }
}

/* Share of the demand bound to a model by its share of the cards; a kind bound to several counts by
 * their cards. */
static void scarcity_build(struct placer *pl)
{
    double cards[POOL_MODELS_MAX] = {0}, bound[POOL_MODELS_MAX] = {0}, all = 0, asked = 0;

    for (size_t i = 0; i < pl->nodes; i++)
        for (int32_t c = 0; c < pl->pool->node[i].card_count; c++) {
            cards[pl->pool->node[i].card[c].model]++;
            all++;
        }
    for (size_t i = 0; i < pl->ranked.count; i++) {
        const struct place_kind *k = &pl->ranked.kind[i];
        double milli = k->weight * k->cards * k->milli, there = 0;

        asked += milli;
        for (uint64_t bits = k->models; bits; bits &= bits - 1)
            there += cards[__builtin_ctzll(bits)];
        for (uint64_t bits = there > 0 ? k->models : 0; bits; bits &= bits - 1)
            bound[__builtin_ctzll(bits)] += milli * cards[__builtin_ctzll(bits)] / there;
    }
    for (size_t m = 0; m < POOL_MODELS_MAX; m++) {
        double price = cards[m] > 0 && asked > 0 ? bound[m] / asked * all / cards[m] : 0;

        price = fmax(price, pl->limits.scarcity_min);
        pl->scarcity[m] = fmin(price, pl->limits.scarcity_max);
    }
}

static int64_t places_on(const struct placer *pl, const struct place_guard *g, uint32_t node)
{
    const struct pool_node *n = &pl->pool->node[node];
    int64_t whole = 0;

    if (!place_guard_watches(g, n, pl->spot[node].type))
        return 0;
    for (int32_t i = 0; i < n->card_count; i++)
        whole += n->card[i].free_milli == POOL_WHOLE && !n->card[i].out;
    return place_guard_places(g, whole, n->cpu_free_milli, n->memory_free_mib);
}

/* sign -1 before a node changes, 1 after. */
static void places_count(struct placer *pl, uint32_t node, int sign)
{
    for (size_t k = 0; k < pl->guards.count; k++)
        pl->guards.guard[k].places += sign * places_on(pl, &pl->guards.guard[k], node);
}

static void guards_weigh(struct placer *pl)
{
    pl->stale = 0;
    place_guards_due(&pl->guards, (double)pl->pool->free_milli / fmax(pl->look.card_milli, 1));
}

static void arrays_make(struct placer *pl)
{
    if (pl->spot && pl->nodes == pl->pool->count)
        return;
    mem_free_ptr(&pl->spot);
    mem_free_ptr(&pl->log);
    mem_free_ptr(&pl->stamp);
    mem_free_ptr(&pl->block_stamp);
    pl->nodes = pl->pool->count;
    pl->blocks = (pl->nodes + PLACE_BLOCK - 1) / PLACE_BLOCK;
    for (pl->log_size = LOG_LEAST; pl->log_size < pl->nodes * 2;)
        pl->log_size *= 2;
    pl->spot = mem_alloc((pl->nodes + 1) * sizeof(*pl->spot));
    pl->log = mem_alloc(pl->log_size * sizeof(*pl->log));
    pl->stamp = mem_alloc((pl->nodes + 1) * sizeof(*pl->stamp));
    pl->block_stamp = mem_alloc((pl->blocks + 1) * sizeof(*pl->block_stamp));
    pl->now = 0;
    for (pl->memo_pairs = 256;
         pl->memo_pairs < PLACE_MEMO_MOST && pl->memo_pairs < pl->nodes * PLACE_MEMO_NODE;)
        pl->memo_pairs *= 2;
    mem_free_ptr(&pl->memo);
    pl->memo = mem_alloc(pl->memo_pairs * 2 * sizeof(*pl->memo));
    size_t each = sizeof(struct place_cache) + pl->nodes * (sizeof(float) + sizeof(uint16_t));
    pl->caches_max = MIN(MAX(PLACE_CACHE_BYTES / each, (size_t)8), (size_t)PLACE_CACHES_MAX);
}

void placer_refit(struct placer *pl)
{
    place_caches_drop(pl);
    arrays_make(pl);
    pl->ranked = pl->mix;
    if (pl->mix.seen || !pl->mix.count)
        place_mix_guess(&pl->ranked, pl->pool, GUESS_WEIGHT);
    if (!pl->ranked.count) { /* no cards at all: a seat */
        struct pool_demand seat = {.cpu_milli = 1000, .memory_mib = 1024};

        place_mix_add(&pl->ranked, &seat, 1);
    }
    place_mix_sort(&pl->ranked);
    types_build(pl);
    place_look_build(&pl->look, &pl->ranked);
    scarcity_build(pl);
    place_guards_build(&pl->guards, &pl->ranked, pl->look.type, pl->look.types);
    memset(pl->memo, 0, pl->memo_pairs * 2 * sizeof(*pl->memo));
    for (uint32_t i = 0; i < pl->nodes; i++) {
        place_spot_set(pl, i);
        places_count(pl, i, 1);
    }
    guards_weigh(pl);
}

struct placer *placer_new(struct pool *pool, const struct place_limits *limits,
                          const struct place_mix *mix)
{
    struct placer *pl = mem_alloc(sizeof(*pl));

    pl->pool = pool;
    pl->limits = *limits;
    pl->look.policy = limits->policy;
    pl->pull = limits->policy == PLACE_FAST ? PLACE_PULL_FAST : PLACE_PULL_AHEAD;
    pl->refit_at = REFIT_FIRST;
    if (mix)
        pl->mix = *mix;
    placer_refit(pl);
    return pl;
}

void placer_free(struct placer *pl)
{
    if (!pl)
        return;
    place_caches_drop(pl);
    mem_free_ptr(&pl->spot);
    mem_free_ptr(&pl->log);
    mem_free_ptr(&pl->stamp);
    mem_free_ptr(&pl->block_stamp);
    mem_free_ptr(&pl->memo);
    mem_free_ptr(&pl);
}

void placer_free_ptr(struct placer **pl)
{
    placer_free(*pl);
}

/* deciding */

/* The best node of the cache, or false. */
static bool best_node(const struct placer *pl, const struct place_cache *c, uint32_t *ret_node)
{
    size_t best = 0;

    for (size_t b = 1; b < pl->blocks; b++)
        if (c->best[b] > c->best[best] ||
            (c->best[b] == c->best[best] && c->best_key[b] < c->best_key[best]))
            best = b;
    if (!pl->blocks || c->best[best] == -INFINITY)
        return false;
    *ret_node = c->at[best];
    return true;
}

static bool ever_fits(const struct placer *pl, struct place_cache *c)
{
    const struct pool_demand *d = &c->demand;
    int32_t left = MAX(d->nodes, 1);

    for (size_t i = 0; i < pl->nodes && left; i++)
        left -= pool_bar_empty(&pl->pool->node[i], d) == POOL_FITS;
    return !left;
}

static enum place_answer refused(const struct placer *pl, struct place_cache *c,
                                 const struct pool_demand *d)
{
    if (!c->ever_known || c->demand.nodes != d->nodes) {
        c->demand.nodes = d->nodes;
        c->ever = ever_fits(pl, c);
        c->ever_known = true;
    }
    return c->ever ? PLACE_NOT_NOW : PLACE_NEVER;
}

enum place_answer placer_decide(struct placer *pl, const struct pool_demand *d,
                                struct pool_part *ret_part)
{
    struct place_cache *c = place_cache_get(pl, d);
    int32_t parts = MAX(d->nodes, 1), got = 0;
    uint64_t pattern;
    uint32_t node;

    CHECK(parts <= POOL_PARTS_MAX && pl->nodes == pl->pool->count);
    place_cache_refresh(pl, c);
    for (; got < parts && best_node(pl, c, &node); got++) {
        CHECK(place_score_node(pl, d, node, &pattern, &ret_part[got]) != -INFINITY);
        if (parts > 1) { /* the next part needs a node of its own */
            c->score[node] = -INFINITY;
            place_cache_rescan(pl, c, node / PLACE_BLOCK);
        }
    }
    for (int32_t i = 0; i < got && parts > 1; i++) {
        node = ret_part[i].node;
        c->score[node] = place_score_node(pl, d, node, &pattern, NULL);
        place_cache_rescan(pl, c, node / PLACE_BLOCK);
    }
    return got == parts ? PLACE_PLACED : refused(pl, c, d);
}

/* what changes */

static void changed(struct placer *pl, uint32_t node)
{
    pl->log[pl->log_at++ & (pl->log_size - 1)] = node;
    place_spot_set(pl, node);
}

/* One part starts or ends. The guards are weighed at once when a place came or went: the next
 * demand must not take the last ones at yesterday's price. */
static void move(struct placer *pl, const struct pool_demand *d, const struct pool_part *part,
                 bool start)
{
    int64_t was[PLACE_GUARDS_MAX];
    bool other = ++pl->stale >= STALE_MOST;

    for (size_t k = 0; k < pl->guards.count; k++)
        was[k] = pl->guards.guard[k].places;
    places_count(pl, part->node, -1);
    if (start)
        pool_start(pl->pool, d, part);
    else
        pool_end(pl->pool, d, part);
    places_count(pl, part->node, 1);
    changed(pl, part->node);
    for (size_t k = 0; k < pl->guards.count; k++)
        other |= was[k] != pl->guards.guard[k].places;
    if (other)
        guards_weigh(pl);
}

void placer_start(struct placer *pl, const struct pool_demand *d, const struct pool_part *part,
                  size_t parts)
{
    for (size_t i = 0; i < parts; i++)
        move(pl, d, &part[i], true);
}

void placer_end(struct placer *pl, const struct pool_demand *d, const struct pool_part *part,
                size_t parts)
{
    for (size_t i = 0; i < parts; i++)
        move(pl, d, &part[i], false);
}

void placer_touch(struct placer *pl, uint32_t node)
{
    CHECK(node < pl->nodes);
    for (size_t k = 0; k < pl->guards.count; k++)
        pl->guards.guard[k].places = 0;
    for (uint32_t i = 0; i < pl->nodes; i++)
        places_count(pl, i, 1);
    changed(pl, node);
    for (size_t i = 0; i < pl->caches; i++)
        pl->cache[i]->ever_known = false;
    guards_weigh(pl);
}

void placer_see(struct placer *pl, const struct pool_demand *d)
{
    place_mix_see(&pl->mix, d);
    if (pl->mix.seen < pl->refit_at)
        return;
    pl->refit_at += MIN(pl->refit_at, (uint64_t)REFIT_MOST);
    placer_refit(pl);
}

double placer_score(struct placer *pl, const struct pool_demand *d, uint32_t node)
{
    uint64_t pattern;
    float score = place_score_node(pl, d, node, &pattern, NULL);
    float toll =
        (float)place_guards_toll(&pl->guards, pattern, d->cards, place_types_that_hold(pl, d));

    return (double)(score - toll);
}

double placer_scarcity(const struct placer *pl, unsigned model)
{
    CHECK(model < POOL_MODELS_MAX);
    return pl->scarcity[model];
}

const struct place_mix *placer_mix(const struct placer *pl)
{
    return &pl->mix;
}
