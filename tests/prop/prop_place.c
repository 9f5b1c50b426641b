/* Laws of placement over any small fleet and any demands: nothing is ever promised twice, an end
 * undoes its start, a larger fleet never refuses more, the order of the nodes plays no part, and a
 * refusal tells the truth. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "domain/place_engine.h"
#include "domain/place_why.h"
#include "tape.h"

#define NODES_MAX 12
#define STEPS_MAX 24
#define PARTS_MAX 4

static void any_node(struct tape *t, size_t i, struct pool_node *n)
{
    *n = (struct pool_node){.key = (uint64_t)i * 7919 + 1,
                            .cpu_milli = (int32_t)tape_range(t, 1, 4) * 8000,
                            .memory_mib = tape_range(t, 1, 4) * 16384,
                            .disk_mib = tape_range(t, 0, 3) * 1000,
                            .ports = (int32_t)tape_range(t, 0, 4),
                            .plans = (uint8_t)tape_range(t, 1, 7),
                            .zone = (uint8_t)tape_below(t, 2),
                            .trust = (uint8_t)tape_below(t, 3),
                            .drain = tape_chance(t, 5),
                            .card_count = (int32_t)tape_below(t, 9)};
    n->plans |= 1 << POOL_ON_DEMAND;
    n->cpu_free_milli = n->cpu_milli;
    n->memory_free_mib = n->memory_mib;
    n->disk_free_mib = n->disk_mib;
    n->ports_free = n->ports;
    for (int p = 0; p < POOL_PLAN_COUNT; p++)
        n->price[p] = tape_range(t, 0, 5) * 1000000;
    uint8_t model = (uint8_t)tape_below(t, 3);
    bool mixed = tape_chance(t, 10);
    for (int32_t c = 0; c < n->card_count; c++)
        n->card[c] = (struct pool_card){.free_milli = POOL_WHOLE,
                                        .model = mixed ? (uint8_t)tape_below(t, 3) : model,
                                        .link = (uint8_t)(c / 4 + (n->card_count > 2)),
                                        .out = tape_chance(t, 3)};
}

static void any_demand(struct tape *t, struct pool_demand *d)
{
    *d = (struct pool_demand){.cards = (int32_t)tape_below(t, 9),
                              .cpu_milli = (int32_t)tape_range(t, 0, 12) * 1000,
                              .memory_mib = tape_range(t, 0, 8) * 4096};
    if (d->cards)
        d->milli = tape_chance(t, 40) ? (int32_t)tape_range(t, 1, 20) * 50 : POOL_WHOLE;
    if (tape_chance(t, 20))
        d->nodes = (int32_t)tape_range(t, 2, PARTS_MAX);
    if (tape_chance(t, 30))
        d->models = tape_range(t, 1, 15);
    if (tape_chance(t, 10))
        d->zones = tape_range(t, 1, 3);
    if (tape_chance(t, 10))
        d->disk_mib = tape_range(t, 1, 1500);
    if (tape_chance(t, 10))
        d->ports = (int32_t)tape_range(t, 1, 3);
    if (tape_chance(t, 10))
        d->price_max = tape_range(t, 1, 5) * 1000000;
    if (tape_chance(t, 10))
        d->trust_min = (uint8_t)tape_range(t, 1, 2);
    if (tape_chance(t, 10))
        d->plan = (enum pool_plan)tape_below(t, POOL_PLAN_COUNT);
    d->exclusive = tape_chance(t, 8);
    d->linked = d->cards > 1 && tape_chance(t, 15);
    if (tape_chance(t, 5))
        d->pinned = tape_below(t, NODES_MAX) * 7919 + 1;
}

static size_t any_pool(struct tape *t, struct pool *p)
{
    size_t count = tape_below(t, NODES_MAX) + 1;

    pool_init(p);
    for (size_t i = 0; i < count; i++) {
        struct pool_node n;

        any_node(t, i, &n);
        (void)pool_add(p, &n);
    }
    return count;
}

static struct placer *any_placer(struct tape *t, struct pool *p)
{
    struct place_limits limits = {.policy = tape_chance(t, 3) ? PLACE_AHEAD : PLACE_FAST,
                                  .scarcity_max = tape_chance(t, 20) ? 0 : PLACE_SCARCITY_MAX};

    return placer_new(p, &limits, NULL);
}

struct held { /* what runs */
    struct pool_demand demand;
    struct pool_part part[PARTS_MAX];
    size_t parts;
};

static bool valid(struct tape *t, const struct pool *p, const struct held *h)
{
    for (size_t i = 0; i < h->parts; i++) {
        TAPE_MUST(t, h->part[i].node < p->count);
        TAPE_MUST(t, pool_fits(&p->node[h->part[i].node], &h->demand));
        TAPE_MUST(t, h->part[i].cards == h->demand.cards);
        for (int32_t c = 0; c < h->part[i].cards; c++) {
            TAPE_MUST(t, c == 0 || h->part[i].card[c] > h->part[i].card[c - 1]);
            TAPE_MUST(
                t, pool_card_fits(&p->node[h->part[i].node].card[h->part[i].card[c]], &h->demand));
        }
        for (size_t k = 0; k < i; k++)
            TAPE_MUST(t, h->part[i].node != h->part[k].node);
    }
    return true;
}

static int64_t fitting(const struct pool *p, const struct pool_demand *d)
{
    int64_t count = 0;

    for (size_t i = 0; i < p->count; i++)
        count += pool_fits(&p->node[i], d);
    return count;
}

/* One demand: placed where it fits, or refused because it does not. */
static bool one_start(struct tape *t, struct pool *p, struct placer *pl, struct held *h,
                      bool *ret_placed)
{
    any_demand(t, &h->demand);
    h->parts = (size_t)MAX(h->demand.nodes, 1);
    if (tape_chance(t, 50))
        placer_see(pl, &h->demand);
    int64_t could = fitting(p, &h->demand);
    enum place_answer a = placer_decide(pl, &h->demand, h->part);

    TAPE_MUST(t, (a == PLACE_PLACED) == (could >= (int64_t)h->parts));
    *ret_placed = a == PLACE_PLACED;
    if (!*ret_placed)
        return true;
    if (!valid(t, p, h))
        return false;
    placer_start(pl, &h->demand, h->part, h->parts);
    TAPE_MUST(t, pool_check(p));
    return true;
}

static bool starts_and_ends(struct tape *t, struct pool *p, struct placer *pl)
{
    static struct held held[STEPS_MAX];
    size_t count = 0;

    for (size_t s = tape_below(t, STEPS_MAX); s > 0; s--) {
        bool placed;

        if (count && tape_chance(t, 30)) {
            size_t i = tape_below(t, count);

            placer_end(pl, &held[i].demand, held[i].part, held[i].parts);
            held[i] = held[--count];
            TAPE_MUST(t, pool_check(p));
            continue;
        }
        if (!one_start(t, p, pl, &held[count], &placed))
            return false;
        count += placed;
    }
    while (count--)
        placer_end(pl, &held[count].demand, held[count].part, held[count].parts);
    return true;
}

static bool law_never_twice(struct tape *t)
{
    struct pool p;
    size_t count = any_pool(t, &p);
    struct pool_node *before = mem_dup(p.node, count * sizeof(*p.node));
    struct placer *pl = any_placer(t, &p);
    bool ok = starts_and_ends(t, &p, pl);

    /* all has ended: everything is as it was */
    if (ok && memcmp(before, p.node, count * sizeof(*p.node)) != 0)
        ok = tape_fail(t, "an end did not undo its start");
    placer_free(pl);
    pool_fini(&p);
    mem_free_ptr(&before);
    return ok;
}

static void fill(struct tape *t, struct pool *p, struct placer *pl)
{
    struct held h;

    for (size_t s = tape_below(t, 12); s > 0; s--) {
        any_demand(t, &h.demand);
        h.parts = (size_t)MAX(h.demand.nodes, 1);
        if (placer_decide(pl, &h.demand, h.part) == PLACE_PLACED)
            placer_start(pl, &h.demand, h.part, h.parts);
    }
    (void)p;
}

static bool law_more_nodes(struct tape *t)
{
    struct pool p;
    struct pool_part part[PARTS_MAX];
    struct pool_demand d;
    struct pool_node n;
    size_t count = any_pool(t, &p);
    struct placer *pl = any_placer(t, &p);

    fill(t, &p, pl);
    any_demand(t, &d);
    enum place_answer before = placer_decide(pl, &d, part);
    any_node(t, count, &n);
    (void)pool_add(&p, &n);
    placer_refit(pl);
    enum place_answer after = placer_decide(pl, &d, part);
    placer_free(pl);
    pool_fini(&p);
    TAPE_MUST(t, before != PLACE_PLACED || after == PLACE_PLACED);
    TAPE_MUST(t, before != PLACE_NOT_NOW || after != PLACE_NEVER);
    return true;
}

static bool law_why_is_true(struct tape *t)
{
    struct pool p;
    struct pool_demand d;
    struct pool_part part[PARTS_MAX];
    static struct why_not w;
    int64_t nodes = 0, told = 0;
    size_t count = any_pool(t, &p);
    struct placer *pl = any_placer(t, &p);
    bool ok = true;

    fill(t, &p, pl);
    any_demand(t, &d);
    if (placer_decide(pl, &d, part) != PLACE_PLACED) {
        why_not_find(&p, &d, &w);
        nodes = (int64_t)count - fitting(&p, &d);
        for (size_t i = 0; i < w.groups; i++)
            told += w.group[i].nodes;
        if (told != nodes)
            ok = tape_fail(t, "%d nodes stand in the way, %d are told", (int)nodes, (int)told);
        else if (w.ever != (placer_decide(pl, &d, part) == PLACE_NOT_NOW))
            ok = tape_fail(t, "never and not now are told apart wrongly");
        else if (w.change != WHY_NOTHING && placer_decide(pl, &w.fit, part) != PLACE_PLACED)
            ok = tape_fail(t, "with the change %s it does not fit", why_change_name(w.change));
    }
    placer_free(pl);
    pool_fini(&p);
    return ok;
}

static bool empty_holds(const struct pool *p, const struct pool_demand *d)
{
    int64_t count = 0;

    for (size_t i = 0; i < p->count; i++)
        count += pool_bar_empty(&p->node[i], d) == POOL_FITS;
    return count >= MAX(d->nodes, 1);
}

static bool law_never_at_once(struct tape *t)
{
    struct pool p;
    struct pool_demand d;
    struct pool_part part[PARTS_MAX];
    size_t count UNUSED = any_pool(t, &p);
    struct placer *pl = any_placer(t, &p);

    fill(t, &p, pl);
    any_demand(t, &d);
    enum place_answer a = placer_decide(pl, &d, part);
    bool could = empty_holds(&p, &d);
    placer_free(pl);
    pool_fini(&p);
    TAPE_MUST(t, a != PLACE_NEVER || !could);
    TAPE_MUST(t, a == PLACE_NEVER || could);
    return true;
}

/* The same fleet listed twice, in two orders, takes the same demands on the same machines. */
static bool law_order(struct tape *t)
{
    struct pool a, b;
    size_t order[NODES_MAX], count = any_pool(t, &a);
    struct place_limits limits = {.policy = tape_chance(t, 3) ? PLACE_AHEAD : PLACE_FAST,
                                  .scarcity_max = PLACE_SCARCITY_MAX};
    bool ok = true;

    for (size_t i = 0; i < count; i++)
        order[i] = i;
    tape_shuffle(t, order, count);
    pool_init(&b);
    for (size_t i = 0; i < count; i++)
        (void)pool_add(&b, &a.node[order[i]]);
    struct placer *pa = placer_new(&a, &limits, NULL), *pb = placer_new(&b, &limits, NULL);
    for (size_t s = tape_below(t, STEPS_MAX); s > 0 && ok; s--) {
        struct held x, y;

        any_demand(t, &x.demand);
        y.demand = x.demand;
        x.parts = y.parts = (size_t)MAX(x.demand.nodes, 1);
        placer_see(pa, &x.demand);
        placer_see(pb, &x.demand);
        enum place_answer ra = placer_decide(pa, &x.demand, x.part);
        enum place_answer rb = placer_decide(pb, &y.demand, y.part);

        ok = ra == rb;
        for (size_t i = 0; i < x.parts && ok && ra == PLACE_PLACED; i++)
            ok = a.node[x.part[i].node].key == b.node[y.part[i].node].key &&
                 memcmp(x.part[i].card, y.part[i].card, (size_t)x.part[i].cards) == 0;
        if (!ok)
            (void)tape_fail(t, "another order of the nodes, another place");
        if (ok && ra == PLACE_PLACED) {
            placer_start(pa, &x.demand, x.part, x.parts);
            placer_start(pb, &y.demand, y.part, y.parts);
        }
    }
    placer_free(pa);
    placer_free(pb);
    pool_fini(&a);
    pool_fini(&b);
    return ok;
}

/* The best of the nodes that are not `taken` yet, every one looked at. */
static uint32_t best_of_all(const struct pool *p, struct placer *pl, const struct pool_demand *d,
                            const bool *taken)
{
    double most = -INFINITY;
    uint32_t best = 0;

    for (uint32_t i = 0; i < p->count; i++) {
        double score = taken[i] ? -INFINITY : placer_score(pl, d, i);

        if (score > most || (score == most && p->node[i].key < p->node[best].key)) {
            most = score;
            best = i;
        }
    }
    return best;
}

/* A few demands come again and again, with ends between them, so that scores are kept, shared by
 * machines in the same state and brought up to date: they decide as if all were counted anew. */
static bool law_plain_loop(struct tape *t)
{
    static struct held held[STEPS_MAX];
    struct pool_demand kind[3];
    size_t count = 0;
    bool ok = true;
    struct pool p;

    (void)any_pool(t, &p);
    struct placer *pl = any_placer(t, &p);
    for (size_t k = 0; k < ARRAY_LEN(kind); k++)
        any_demand(t, &kind[k]);
    for (size_t s = tape_below(t, STEPS_MAX); s > 0 && ok; s--) {
        struct held *h = &held[count];
        bool taken[NODES_MAX] = {false};

        if (count && tape_chance(t, 30)) {
            count--;
            placer_end(pl, &held[count].demand, held[count].part, held[count].parts);
            continue;
        }
        h->demand = kind[tape_below(t, ARRAY_LEN(kind))];
        h->parts = (size_t)MAX(h->demand.nodes, 1);
        if (placer_decide(pl, &h->demand, h->part) != PLACE_PLACED)
            continue;
        for (size_t i = 0; i < h->parts && ok; i++) {
            ok = best_of_all(&p, pl, &h->demand, taken) == h->part[i].node;
            taken[h->part[i].node] = true;
        }
        if (!ok)
            (void)tape_fail(t, "kept scores decide otherwise than a plain loop");
        placer_start(pl, &h->demand, h->part, h->parts);
        count++;
    }
    placer_free(pl);
    pool_fini(&p);
    return ok;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"nothing is promised twice, what fits is placed, ends undo starts", law_never_twice, 0},
        {"a larger fleet never refuses what fitted", law_more_nodes, 0},
        {"a refusal's nearest change makes the demand fit", law_why_is_true, 0},
        {"what can never fit is told so at once, and nothing else", law_never_at_once, 0},
        {"the order of the nodes plays no part", law_order, 0},
        {"kept scores decide as a plain loop over all nodes does", law_plain_loop, 0},
    };

    return tape_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
