/* place_cache.c: the scores of the demands seen lately, kept up to date node by node. Nodes stand
 * in blocks whose best is kept, so that a decision looks at the changed blocks and at one line each
 * of the others. */
#include <math.h>

#include "base/mem.h"
#include "domain/place_int.h"

static void cache_free(struct place_cache *c)
{
    if (!c)
        return;
    mem_free_ptr(&c->score);
    mem_free_ptr(&c->loss);
    mem_free_ptr(&c->best);
    mem_free_ptr(&c->best_key);
    mem_free_ptr(&c->at);
    mem_free_ptr(&c);
}

void place_caches_drop(struct placer *pl)
{
    for (size_t i = 0; i < pl->caches; i++)
        cache_free(pl->cache[i]);
    pl->caches = 0;
}

static struct place_cache *cache_new(const struct placer *pl)
{
    struct place_cache *c = mem_alloc(sizeof(*c));

    c->score = mem_alloc((pl->nodes + 1) * sizeof(*c->score));
    c->loss = mem_alloc((pl->nodes + 1) * sizeof(*c->loss));
    c->best = mem_alloc((pl->blocks + 1) * sizeof(*c->best));
    c->best_key = mem_alloc((pl->blocks + 1) * sizeof(*c->best_key));
    c->at = mem_alloc((pl->blocks + 1) * sizeof(*c->at));
    return c;
}

static bool same_demand(const struct pool_demand *a, const struct pool_demand *b)
{
    return a->cpu_milli == b->cpu_milli && a->milli == b->milli && a->cards == b->cards &&
           a->memory_mib == b->memory_mib && a->models == b->models && a->disk_mib == b->disk_mib &&
           a->ports == b->ports && a->zones == b->zones && a->pinned == b->pinned &&
           a->price_max == b->price_max && a->plan == b->plan && a->trust_min == b->trust_min &&
           a->exclusive == b->exclusive && a->linked == b->linked;
}

/* Its cache, new or the one used longest ago when none is left. How many parts there are makes no
 * difference to a node's score. */
struct place_cache *place_cache_get(struct placer *pl, const struct pool_demand *d)
{
    size_t oldest = 0;

    for (size_t i = 0; i < pl->caches; i++) {
        struct place_cache *c = pl->cache[i];

        if (same_demand(&c->demand, d)) {
            if (i) { /* frequent ones are found first */
                pl->cache[i] = pl->cache[i / 2];
                pl->cache[i / 2] = c;
            }
            c->used = ++pl->decisions;
            return c;
        }
        if (c->used < pl->cache[oldest]->used)
            oldest = i;
    }
    if (pl->caches < pl->caches_max) {
        oldest = pl->caches++;
        pl->cache[oldest] = cache_new(pl);
    }
    struct place_cache *c = pl->cache[oldest];
    c->demand = *d;
    c->used = ++pl->decisions;
    c->filled = c->ever_known = false;
    c->patterns = 0;
    return c;
}

static float toll_of(const struct placer *pl, const struct place_cache *c, uint64_t pattern)
{
    return (float)place_guards_toll(&pl->guards, pattern, c->demand.cards,
                                    place_types_that_hold(pl, &c->demand));
}

static uint16_t pattern_index(const struct placer *pl, struct place_cache *c, uint64_t pattern)
{
    for (size_t i = 0; i < c->patterns; i++)
        if (c->pattern[i] == pattern)
            return (uint16_t)i;
    if (c->patterns == PLACE_LOSSES_MAX)
        return 0;
    c->pattern[c->patterns] = pattern;
    c->toll[c->patterns] = toll_of(pl, c, pattern);
    return (uint16_t)c->patterns++;
}

void place_cache_rescan(struct placer *pl, struct place_cache *c, size_t block)
{
    size_t from = block * PLACE_BLOCK, to = MIN(from + PLACE_BLOCK, pl->nodes);
    float best = -INFINITY;
    size_t at = from;

    for (size_t i = from; i < to; i++) {
        float v = c->score[i] - c->toll[c->loss[i]];

        if (v < best || (v == best && pl->spot[i].key > pl->spot[at].key))
            continue;
        best = v;
        at = i;
    }
    c->best[block] = best;
    c->best_key[block] = pl->spot[at].key;
    c->at[block] = (uint32_t)at;
}

static void score_set(struct placer *pl, struct place_cache *c, uint32_t node)
{
    uint64_t pattern;

    c->score[node] = place_score_node(pl, &c->demand, node, &pattern, NULL);
    c->loss[node] = pattern_index(pl, c, pattern);
}

/* A node of the block has a new score: its best is looked for only when it was the best. */
static void block_note(struct placer *pl, struct place_cache *c, uint32_t node)
{
    size_t b = node / PLACE_BLOCK;
    float v = c->score[node] - c->toll[c->loss[node]];
    bool better = v > c->best[b] || (v == c->best[b] && pl->spot[node].key < c->best_key[b]);

    if (better) {
        c->best[b] = v;
        c->best_key[b] = pl->spot[node].key;
        c->at[b] = node;
    } else if (c->at[b] == node) {
        pl->block_stamp[b] = pl->now;
    }
}

/* From the log of changes; false: it reaches not far enough back. */
static bool catch_up(struct placer *pl, struct place_cache *c)
{
    if (!c->filled || pl->log_at - c->seen > pl->log_size)
        return false;
    pl->now++;
    for (; c->seen < pl->log_at; c->seen++) {
        uint32_t node = pl->log[c->seen & (pl->log_size - 1)];

        if (pl->stamp[node] == pl->now)
            continue;
        pl->stamp[node] = pl->now;
        score_set(pl, c, node);
        block_note(pl, c, node);
    }
    return true;
}

/* All nodes anew. Most are like one that was just looked at. */
static void fill(struct placer *pl, struct place_cache *c)
{
    bool alike = !c->demand.pinned && !c->demand.linked;
    uint32_t seen[PLACE_TWINS];

    memset(seen, 0xff, sizeof(seen));
    for (uint32_t i = 0; i < pl->nodes; i++) {
        uint32_t *k = &seen[pl->spot[i].alike % PLACE_TWINS];

        if (alike && *k != UINT32_MAX && pl->spot[i].alike == pl->spot[*k].alike) {
            c->score[i] = c->score[*k];
            c->loss[i] = c->loss[*k];
        } else {
            score_set(pl, c, i);
            *k = i;
        }
    }
}

void place_cache_refresh(struct placer *pl, struct place_cache *c)
{
    bool all = !catch_up(pl, c);

    if (all)
        fill(pl, c);
    if (c->epoch != pl->guards.epoch || !c->filled) {
        all = true;
        for (size_t i = 0; i < c->patterns; i++)
            c->toll[i] = toll_of(pl, c, c->pattern[i]);
    }
    for (size_t b = 0; b < pl->blocks; b++)
        if (all || pl->block_stamp[b] == pl->now)
            place_cache_rescan(pl, c, b);
    c->seen = pl->log_at;
    c->epoch = pl->guards.epoch;
    c->filled = true;
}
