/* Laws of reclaim, over any pool with spot and other leases in it. Small pools, so that the best
 * choice can be found by trying every set of leases. */
#include <stdio.h>
#include <stdlib.h>

#include "domain/reclaim.h"
#include "tape.h"

#define NODES_MAX 4
#define LEASES_MAX 10
#define NOW_S 100000

struct world {
    struct pool pool;
    struct reclaim r;
    struct reclaim_plan plan;
    struct pool_demand demand[LEASES_MAX];
    struct pool_part part[LEASES_MAX][NODES_MAX];
    int64_t saved_s[LEASES_MAX];
    bool spot[LEASES_MAX];
    int32_t slot[LEASES_MAX];
    int leases;
};

static void world_fini(struct world *w)
{
    reclaim_plan_fini(&w->plan);
    reclaim_fini(&w->r);
    pool_fini(&w->pool);
}

static void any_demand(struct tape *t, struct pool_demand *d, bool plain)
{
    *d = (struct pool_demand){.nodes = tape_chance(t, 25) ? (int32_t)tape_range(t, 2, 3) : 1,
                              .cards = (int32_t)tape_range(t, 1, 4),
                              .milli = 1000};
    if (plain)
        return;
    if (tape_chance(t, 30)) {
        d->cards = 1;
        d->milli = (int32_t)tape_range(t, 1, 9) * 100;
    }
    if (tape_chance(t, 10))
        d->cards = d->milli = 0;
    d->cpu_milli = (int32_t)tape_range(t, 0, 8) * 1000;
    d->memory_mib = tape_range(t, 0, 8);
    if (tape_chance(t, 10))
        d->models = 1 + tape_below(t, 3);
}

static void any_pool(struct tape *t, struct world *w, bool plain)
{
    int nodes = (int)tape_range(t, 1, NODES_MAX);

    pool_init(&w->pool);
    for (int i = 0; i < nodes; i++) {
        struct pool_node n = {.key = 10 + (uint64_t)i,
                              .memory_mib = 16,
                              .cpu_milli = 16000,
                              .plans = (1 << POOL_PLAN_COUNT) - 1,
                              .card_count = plain ? 4 : (int32_t)tape_range(t, 1, 4)};
        n.memory_free_mib = n.memory_mib;
        n.cpu_free_milli = n.cpu_milli;
        for (int32_t k = 0; k < n.card_count; k++)
            n.card[k] =
                (struct pool_card){.free_milli = POOL_WHOLE, .model = (uint8_t)tape_below(t, 2)};
        pool_add(&w->pool, &n);
    }
    reclaim_init(&w->r, &w->pool);
}

/* Starts it on the first nodes that take it, from a chosen one on. */
static bool start(struct tape *t, struct world *w)
{
    int i = w->leases;
    const struct pool_demand *d = &w->demand[i];
    uint32_t from = (uint32_t)tape_below(t, w->pool.count);
    int32_t got = 0;

    for (uint32_t k = 0; k < w->pool.count && got < d->nodes; k++) {
        uint32_t node = (from + k) % (uint32_t)w->pool.count;
        if (pool_fits(&w->pool.node[node], d))
            pool_pick(&w->pool, node, d, &w->part[i][got++]);
    }
    if (got < d->nodes)
        return false;
    for (int32_t k = 0; k < got; k++) {
        pool_start(&w->pool, d, &w->part[i][k]);
        reclaim_touch(&w->r, w->part[i][k].node);
    }
    return true;
}

static void any_world(struct tape *t, struct world *w, bool plain)
{
    *w = (struct world){0};
    any_pool(t, w, plain);
    for (int n = (int)tape_range(t, 0, LEASES_MAX); n > 0; n--) {
        int i = w->leases;
        any_demand(t, &w->demand[i], plain);
        w->saved_s[i] = NOW_S - tape_size(t, 5000);
        w->spot[i] = !tape_chance(t, 25);
        if (!start(t, w))
            continue;
        if (w->spot[i])
            w->slot[i] =
                reclaim_add(&w->r, (uint64_t)i + 1, &w->demand[i], w->part[i], w->saved_s[i], 0);
        w->leases++;
    }
}

static int64_t loss_of(const struct world *w, int i)
{
    return (NOW_S - w->saved_s[i]) * w->r.lease.at[w->slot[i]].weight;
}

/* Would the demand fit if these leases (bits) were gone? By the pool alone. */
static bool fits_without(struct world *w, const struct pool_demand *d, unsigned gone)
{
    struct pool_node keep[NODES_MAX];
    int32_t fit = 0;

    memcpy(keep, w->pool.node, sizeof(keep[0]) * w->pool.count);
    int64_t free_milli = w->pool.free_milli;
    for (int i = 0; i < w->leases; i++)
        for (int32_t k = 0; gone >> i & 1 && k < w->demand[i].nodes; k++)
            pool_end(&w->pool, &w->demand[i], &w->part[i][k]);
    for (size_t n = 0; n < w->pool.count; n++)
        fit += pool_fits(&w->pool.node[n], d);
    memcpy(w->pool.node, keep, sizeof(keep[0]) * w->pool.count);
    w->pool.free_milli = free_milli;
    return fit >= d->nodes;
}

static unsigned spot_set(const struct world *w)
{
    unsigned all = 0;

    for (int i = 0; i < w->leases; i++)
        all |= (unsigned)w->spot[i] << i;
    return all;
}

static unsigned victim_set(const struct world *w)
{
    unsigned set = 0;

    VEC_FOREACH (slot, &w->plan.victim)
        set |= 1u << (w->r.lease.at[*slot].id - 1);
    return set;
}

/* Suffices, needs every victim, says so when nothing is needed or nothing helps. */
static bool needed(struct tape *t, struct world *w)
{
    struct pool_demand d;

    any_world(t, w, false);
    any_demand(t, &d, false);
    enum reclaim_answer a = reclaim_choose(&w->r, &d, NOW_S, &w->plan);
    unsigned victims = victim_set(w);
    TAPE_MUST(t, (a == RECLAIM_FITS) == fits_without(w, &d, 0));
    TAPE_MUST(t, (a == RECLAIM_NOT) == !fits_without(w, &d, spot_set(w)));
    TAPE_MUST(t, (a == RECLAIM_TAKE) == (victims != 0));
    if (a != RECLAIM_TAKE)
        return true;
    TAPE_MUST(t, (victims & ~spot_set(w)) == 0 && fits_without(w, &d, victims));
    TAPE_MUST(t, w->plan.node.len == (size_t)d.nodes);
    int64_t loss = 0;
    for (int i = 0; i < w->leases; i++) {
        if (!(victims >> i & 1))
            continue;
        loss += loss_of(w, i);
        TAPE_MUST(t, !fits_without(w, &d, victims & ~(1u << i)));
    }
    TAPE_MUST(t, loss == w->plan.loss);
    return true;
}

static bool law_needed(struct tape *t)
{
    struct world w;
    bool held = needed(t, &w);

    world_fini(&w);
    return held;
}

static int64_t best_loss(struct world *w, const struct pool_demand *d)
{
    int64_t best = INT64_MAX;
    unsigned all = spot_set(w);

    for (unsigned set = all;; set = (set - 1) & all) {
        int64_t loss = 0;
        for (int i = 0; i < w->leases; i++)
            loss += set >> i & 1 ? loss_of(w, i) : 0;
        if (loss < best && fits_without(w, d, set))
            best = loss;
        if (set == 0)
            return best;
    }
}

/* Whole nodes: no set of leases loses less, as long as no lease spans nodes. */
static bool least(struct tape *t, struct world *w)
{
    struct pool_demand d = {.nodes = (int32_t)tape_range(t, 1, 2), .cards = 4, .milli = 1000};

    any_world(t, w, true);
    for (int i = 0; i < w->leases; i++)
        if (w->demand[i].nodes > 1)
            return true;
    if (reclaim_choose(&w->r, &d, NOW_S, &w->plan) != RECLAIM_NOT)
        TAPE_MUST(t, w->plan.loss == best_loss(w, &d));
    return true;
}

static bool law_least(struct tape *t)
{
    struct world w;
    bool held = least(t, &w);

    world_fini(&w);
    return held;
}

/* The same leases, added in another order: the same victims. */
static bool order_free(struct tape *t, struct world *w)
{
    size_t order[LEASES_MAX];
    struct pool_demand d;
    struct reclaim other;
    struct reclaim_plan plan = {0};
    bool same;

    any_world(t, w, false);
    any_demand(t, &d, false);
    tape_shuffle(t, order, (size_t)w->leases);
    reclaim_init(&other, &w->pool);
    for (int i = 0; i < w->leases; i++)
        if (w->spot[order[i]])
            reclaim_add(&other, order[i] + 1, &w->demand[order[i]], w->part[order[i]],
                        w->saved_s[order[i]], 0);
    same = reclaim_choose(&w->r, &d, NOW_S, &w->plan) == reclaim_choose(&other, &d, NOW_S, &plan) &&
           plan.victim.len == w->plan.victim.len && plan.loss == w->plan.loss;
    for (size_t i = 0; same && i < plan.victim.len; i++)
        same = other.lease.at[plan.victim.at[i]].id == w->r.lease.at[w->plan.victim.at[i]].id;
    for (size_t i = 0; same && i < plan.node.len; i++)
        same = plan.node.at[i] == w->plan.node.at[i];
    reclaim_plan_fini(&plan);
    reclaim_fini(&other);
    TAPE_MUST(t, same);
    return true;
}

static bool law_order_free(struct tape *t)
{
    struct world w;
    bool held = order_free(t, &w);

    world_fini(&w);
    return held;
}

/* What has notice is not taken twice; cancelled, everything is as before. */
static bool cancelled(struct tape *t, struct world *w)
{
    struct pool_demand d;
    struct reclaim_plan again = {0};
    bool ok = true;

    any_world(t, w, false);
    any_demand(t, &d, false);
    if (reclaim_choose(&w->r, &d, NOW_S, &w->plan) != RECLAIM_TAKE)
        return true;
    unsigned first = victim_set(w);
    reclaim_notice(&w->r, &w->plan, 7);
    (void)reclaim_choose(&w->r, &d, NOW_S, &again);
    VEC_FOREACH (slot, &again.victim)
        ok = ok && !(first >> (w->r.lease.at[*slot].id - 1) & 1);
    reclaim_cancel(&w->r, 8, &again);
    ok = ok && again.victim.len == 0;
    reclaim_cancel(&w->r, 7, &again);
    ok = ok && again.victim.len == w->plan.victim.len;
    ok = ok && reclaim_choose(&w->r, &d, NOW_S, &w->plan) == RECLAIM_TAKE;
    ok = ok && victim_set(w) == first;
    reclaim_plan_fini(&again);
    TAPE_MUST(t, ok);
    return true;
}

static bool law_cancelled(struct tape *t)
{
    struct world w;
    bool held = cancelled(t, &w);

    world_fini(&w);
    return held;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"the victims suffice, and without any one of them the demand would not fit", law_needed,
         0},
        {"for whole nodes no set of leases loses less", law_least, 0},
        {"the order of leases changes nothing", law_order_free, 0},
        {"notice is given once, and taken back when the demand goes away", law_cancelled, 0},
    };

    return tape_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
