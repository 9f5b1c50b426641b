/* Laws of the queue, over any pool and any mix of demands. The second opinion on what is taken is a
 * plain count kept here. */
#include <stdio.h>
#include <stdlib.h>

#include "domain/queue.h"
#include "tape.h"

#define NODES_MAX 4
#define DEMANDS_MAX 24

struct world {
    struct queue q;
    struct queue_plan plan;
    uint64_t key[NODES_MAX];
    int32_t cards[NODES_MAX], taken[NODES_MAX];
    int32_t nodes, projects;
    bool suits[2][NODES_MAX]; /* suit 1 and 2, by node */
    struct queue_demand demand[DEMANDS_MAX];
    int64_t real_s[DEMANDS_MAX]; /* how long it runs in truth */
    int64_t started_s[DEMANDS_MAX], left_s[DEMANDS_MAX];
    int32_t slot[DEMANDS_MAX];
    int demands;
    int64_t now_s;
};

static void any_rules(struct tape *t, struct queue_rules *r)
{
    static const struct queue_rules *const known[] = {&queue_rules_ours, &queue_rules_easy,
                                                      &queue_rules_fifo};

    *r = *known[tape_below(t, 3)];
    if (r->backfill && tape_chance(t, 30))
        r->reservations = (int)tape_range(t, 0, 4);
}

static void any_demand(struct tape *t, struct world *w)
{
    struct queue_demand *d = &w->demand[w->demands];

    *d = (struct queue_demand){
        .id = (uint64_t)w->demands + 1,
        .project = (int32_t)tape_below(t, (uint64_t)w->projects),
        .priority = (int32_t)tape_size(t, QUEUE_PRIORITY_MAX),
        .suit = tape_chance(t, 40) ? (int32_t)tape_below(t, 3) : 0,
        .nodes = 1 + (tape_chance(t, 30) ? (int32_t)tape_below(t, NODES_MAX) : 0),
        .cards = 1 + (int32_t)tape_below(t, tape_chance(t, 5) ? QUEUE_NODE_CARDS_MAX : 8),
        .since_s = w->now_s,
        .run_s = 1000 + tape_size(t, 100000)};
    w->real_s[w->demands] =
        tape_chance(t, 50) ? d->run_s : 1 + tape_range(t, 0, MIN(3 * d->run_s, INT64_C(1000000)));
    w->started_s[w->demands] = w->left_s[w->demands] = -1;
    w->demands++;
}

/* nodes in the given order; the keys go with them */
static void world_make(struct world *w, const struct queue_rules *rules, const int64_t *shares,
                       const int32_t *limits, const size_t *order)
{
    queue_init(&w->q, rules);
    for (int32_t i = 1; i < w->projects; i++)
        queue_project_add(&w->q, shares[i], limits[i]);
    for (int32_t i = 0; i < w->nodes; i++)
        queue_node_add(&w->q, w->key[order[i]], w->cards[order[i]]);
    for (size_t k = 0; k < ARRAY_LEN(w->suits); k++) {
        bool fits[NODES_MAX] = {false};
        for (int32_t i = 0; i < w->nodes; i++)
            fits[i] = w->suits[k][order[i]];
        CHECK(queue_suit_add(&w->q, fits) == (int32_t)k + 1);
    }
}

static void world_fini(struct world *w)
{
    queue_plan_fini(&w->plan);
    queue_fini(&w->q);
}

static void any_world(struct tape *t, struct world *w, struct queue_rules *rules, int64_t *shares,
                      int32_t *limits)
{
    *w = (struct world){.nodes = 1 + (int32_t)tape_below(t, NODES_MAX),
                        .projects = 1 + (int32_t)tape_below(t, 3)};
    any_rules(t, rules);
    for (int32_t i = 0; i < w->nodes; i++) {
        w->key[i] = 1 + 8 * tape_below(t, 4) + (uint64_t)i;
        w->cards[i] = tape_chance(t, 30) ? (int32_t)tape_range(t, 1, QUEUE_NODE_CARDS_MAX) : 8;
    }
    for (size_t k = 0; k < ARRAY_LEN(w->suits); k++)
        for (int32_t i = 0; i < w->nodes; i++)
            w->suits[k][i] = tape_chance(t, 60);
    for (int32_t i = 1; i < w->projects; i++) {
        shares[i] = tape_range(t, 0, 4);
        limits[i] = tape_chance(t, 50) ? (int32_t)tape_range(t, 1, 12) : 0;
    }
}

static int32_t node_of_key(const struct world *w, uint64_t key)
{
    for (int32_t i = 0; i < w->nodes; i++)
        if (w->key[i] == key)
            return i;
    return -1;
}

static bool count(struct tape *t, struct world *w, const struct queue_run *r, int sign)
{
    for (int32_t i = 0; i < r->demand.nodes; i++) {
        int32_t n = node_of_key(w, w->q.nodes.at[r->node[i]].key);
        TAPE_MUST(t, n >= 0);
        TAPE_MUST(t, r->demand.suit == 0 || w->suits[r->demand.suit - 1][n]);
        w->taken[n] += sign * r->demand.cards;
        TAPE_MUST(t, w->taken[n] >= 0 && w->taken[n] <= w->cards[n]);
        for (int32_t k = 0; k < i; k++)
            TAPE_MUST(t, r->node[k] != r->node[i]);
    }
    return true;
}

static bool enter(struct world *w, int i)
{
    if (!queue_possible(&w->q, &w->demand[i]))
        return false;
    queue_enter(&w->q, &w->demand[i]);
    return true;
}

static bool decide(struct tape *t, struct world *w)
{
    queue_decide(&w->q, w->now_s, &w->plan);
    VEC_FOREACH (s, &w->plan.start) {
        const struct queue_run *r = &w->q.run.at[*s];
        int i = (int)r->demand.id - 1;
        TAPE_MUST(t, w->started_s[i] < 0 && w->left_s[i] < 0);
        w->started_s[i] = w->now_s;
        w->slot[i] = *s;
        if (!count(t, w, r, 1))
            return false;
    }
    for (int32_t p = 0; p < w->projects; p++) {
        const struct queue_project *at = &w->q.projects.at[p];
        TAPE_MUST(t, at->limit == 0 || at->used <= at->limit);
    }
    return true;
}

static int64_t end_of(const struct world *w, int i)
{
    bool runs = w->started_s[i] >= 0 && w->left_s[i] < 0;

    return runs ? MAX(w->started_s[i] + w->real_s[i], w->now_s) : INT64_MAX;
}

/* What ends next ends, all of it; false: nothing runs. */
static bool end_next(struct tape *t, struct world *w, bool *ret_ok)
{
    int64_t now = INT64_MAX;

    for (int i = 0; i < w->demands; i++)
        now = MIN(now, end_of(w, i));
    for (int i = 0; i < w->demands; i++) {
        if (now == INT64_MAX || end_of(w, i) > now)
            continue;
        w->left_s[i] = now;
        *ret_ok = count(t, w, &w->q.run.at[w->slot[i]], -1) && *ret_ok;
        queue_end(&w->q, w->slot[i], now);
    }
    w->now_s = now == INT64_MAX ? w->now_s : now;
    return now != INT64_MAX;
}

static bool steps(struct tape *t, struct world *w)
{
    size_t in_order[NODES_MAX] = {0, 1, 2, 3};
    struct queue_rules rules;
    int64_t shares[3] = {0};
    int32_t limits[3] = {0};
    bool ok = true;

    any_world(t, w, &rules, shares, limits);
    world_make(w, &rules, shares, limits, in_order);
    for (int n = (int)tape_range(t, 1, DEMANDS_MAX); n > 0; n--) {
        any_demand(t, w);
        if (!enter(w, w->demands - 1))
            w->left_s[w->demands - 1] = w->now_s;
        if (tape_chance(t, 70) && !decide(t, w))
            return false;
        if (tape_chance(t, 10)) {
            int i = (int)tape_below(t, (uint64_t)w->demands);
            bool waits = w->started_s[i] < 0 && w->left_s[i] < 0;
            TAPE_MUST(t, queue_leave(&w->q, &w->demand[i]) == waits);
            w->left_s[i] = waits ? w->now_s : w->left_s[i];
        }
        if (tape_chance(t, 20) && end_next(t, w, &ok) && !(ok && decide(t, w)))
            return false;
        w->now_s += tape_size(t, 1000);
    }
    return true;
}

static bool law_no_overcommit(struct tape *t)
{
    struct world w = {0};
    bool held = steps(t, &w);

    world_fini(&w);
    return held;
}

/* Who could run in an empty pool runs in the end, whatever the estimates were worth. */
static bool drained(struct tape *t, struct world *w)
{
    bool ok = true;

    if (!steps(t, w) || !decide(t, w))
        return false;
    while (ok && end_next(t, w, &ok))
        if (!ok || !decide(t, w))
            return false;
    for (int i = 0; i < w->demands; i++)
        TAPE_MUST(t, w->left_s[i] >= 0);
    for (int32_t i = 0; i < w->nodes; i++)
        TAPE_MUST(t, w->taken[i] == 0);
    TAPE_MUST(t, w->q.waiting == 0 && w->q.free == w->q.cards);
    return true;
}

static bool law_all_served(struct tape *t)
{
    struct world w = {0};
    bool held = drained(t, &w);

    world_fini(&w);
    return held;
}

/* The same nodes and demands in another order: the same plan. */
static bool same_plan(struct tape *t, struct world *a, struct world *b)
{
    TAPE_MUST(t, a->plan.start.len == b->plan.start.len);
    TAPE_MUST(t, a->plan.reservation.len == b->plan.reservation.len);
    for (size_t i = 0; i < a->plan.start.len; i++) {
        const struct queue_run *x = &a->q.run.at[a->plan.start.at[i]];
        const struct queue_run *y = &b->q.run.at[b->plan.start.at[i]];
        TAPE_MUST(t, x->demand.id == y->demand.id);
        for (int32_t k = 0; k < x->demand.nodes; k++)
            TAPE_MUST(t, a->q.nodes.at[x->node[k]].key == b->q.nodes.at[y->node[k]].key);
    }
    for (size_t i = 0; i < a->plan.reservation.len; i++) {
        const struct queue_reservation *x = &a->plan.reservation.at[i];
        const struct queue_reservation *y = &b->plan.reservation.at[i];
        TAPE_MUST(t, x->id == y->id && x->start_s == y->start_s);
        TAPE_MUST(t, a->q.nodes.at[x->first_node].key == b->q.nodes.at[y->first_node].key);
    }
    return true;
}

static bool order_free(struct tape *t, struct world *a, struct world *b)
{
    size_t in_order[NODES_MAX] = {0, 1, 2, 3}, nodes[NODES_MAX], demands[DEMANDS_MAX];
    struct queue_rules rules;
    int64_t shares[3] = {0};
    int32_t limits[3] = {0};

    any_world(t, a, &rules, shares, limits);
    for (int n = (int)tape_range(t, 1, DEMANDS_MAX); n > 0; n--) {
        any_demand(t, a);
        a->now_s += tape_size(t, 100000);
    }
    *b = *a;
    for (size_t i = 0; i < DEMANDS_MAX; i++)
        demands[i] = i;
    memcpy(nodes, in_order, sizeof(nodes));
    tape_shuffle(t, nodes, (size_t)a->nodes);
    tape_shuffle(t, demands, (size_t)a->demands);
    world_make(a, &rules, shares, limits, in_order);
    world_make(b, &rules, shares, limits, nodes);
    for (int i = 0; i < a->demands; i++)
        (void)enter(a, i);
    for (int i = 0; i < a->demands; i++)
        (void)enter(b, (int)demands[i]);
    for (;;) {
        bool ok = true;
        if (!decide(t, a) || !decide(t, b) || !same_plan(t, a, b))
            return false;
        if (!end_next(t, a, &ok))
            return true;
        TAPE_MUST(t, end_next(t, b, &ok) && a->now_s == b->now_s);
    }
}

static bool law_order_free(struct tape *t)
{
    struct world a = {0}, b = {0};
    bool held = order_free(t, &a, &b);

    world_fini(&a);
    world_fini(&b);
    return held;
}

/* Run times as estimated and nobody else comes: the estimate is the start, and who is first in line
 * starts no later than its reservation says, whoever was let in before it. */
static bool foretold(struct tape *t, struct world *w)
{
    size_t in_order[NODES_MAX] = {0, 1, 2, 3};
    struct queue_rules rules;
    struct queue_estimate e;
    int64_t told[DEMANDS_MAX], held_s = INT64_MAX, shares[3] = {0};
    int32_t limits[3] = {0};
    int first = -1;
    bool ok = true;

    any_world(t, w, &rules, shares, limits);
    world_make(w, &rules, shares, limits, in_order);
    for (int n = (int)tape_range(t, 1, DEMANDS_MAX); n > 0; n--) {
        any_demand(t, w);
        w->real_s[w->demands - 1] = w->demand[w->demands - 1].run_s;
        if (!enter(w, w->demands - 1))
            w->left_s[w->demands - 1] = 0;
    }
    if (!decide(t, w))
        return false;
    for (int i = 0; i < w->demands; i++) {
        told[i] = -1;
        if (w->started_s[i] >= 0 || w->left_s[i] >= 0)
            continue;
        queue_estimate(&w->q, w->demand[i].id, 1000, &e);
        TAPE_MUST(t, e.early_s == e.likely_s && e.likely_s == e.late_s);
        told[i] = e.likely_s;
    }
    /* who waits for a limit has no reservation and may come before those that have one */
    if (w->plan.reservation.len && rules.order == QUEUE_ARRIVAL && !limits[1] && !limits[2]) {
        first = (int)w->plan.reservation.at[0].id - 1;
        held_s = w->plan.reservation.at[0].start_s;
    }
    while (ok && end_next(t, w, &ok))
        if (!ok || !decide(t, w))
            return false;
    for (int i = 0; i < w->demands; i++)
        TAPE_MUST(t, told[i] < 0 || told[i] == w->started_s[i]);
    TAPE_MUST(t, first < 0 || w->started_s[first] <= held_s);
    return true;
}

static bool law_foretold(struct tape *t)
{
    struct world w = {0};
    bool held = foretold(t, &w);

    world_fini(&w);
    return held;
}

/* What is asked back was borrowed, ran long enough, leaves its project its share, and lets the
 * first in line start at once. */
static bool given_back(struct tape *t, struct world *w)
{
    size_t in_order[NODES_MAX] = {0, 1, 2, 3};
    struct queue_rules rules;
    int64_t shares[3] = {0}, used[3] = {0};
    int32_t limits[3] = {0};
    bool gave[3] = {false};

    any_world(t, w, &rules, shares, limits);
    rules = queue_rules_ours;
    rules.min_run_s = tape_range(t, 1, 3000);
    memset(limits, 0, sizeof(limits));
    world_make(w, &rules, shares, limits, in_order);
    for (int n = (int)tape_range(t, 1, DEMANDS_MAX); n > 0; n--) {
        any_demand(t, w);
        if (!enter(w, w->demands - 1))
            w->left_s[w->demands - 1] = 0;
        if (!decide(t, w))
            return false;
        if (w->plan.give_back.len)
            break;
        w->now_s += tape_size(t, 2000);
    }
    if (!w->plan.give_back.len)
        return true;
    int first = (int)w->plan.reservation.at[0].id - 1;
    for (int32_t p = 0; p < w->projects; p++)
        used[p] = w->q.projects.at[p].used;
    int32_t back = 0;
    VEC_FOREACH (slot, &w->plan.give_back)
        back += w->q.run.at[*slot].demand.cards;
    VEC_FOREACH (slot, &w->plan.give_back) { /* none of them could stay */
        const struct queue_run *r = &w->q.run.at[*slot];
        const struct queue_node *n = &w->q.nodes.at[r->node[0]];
        TAPE_MUST(t, n->cards - n->busy + back - r->demand.cards < w->demand[first].cards);
    }
    for (size_t i = 0; i < w->plan.give_back.len; i++) {
        int32_t slot = w->plan.give_back.at[i];
        const struct queue_run *r = &w->q.run.at[slot];
        TAPE_MUST(t, w->now_s - r->started_s >= rules.min_run_s);
        used[r->demand.project] -= r->demand.cards;
        gave[r->demand.project] = true;
        w->left_s[r->demand.id - 1] = w->now_s;
        if (!count(t, w, r, -1))
            return false;
        queue_end(&w->q, slot, w->now_s);
    }
    for (int32_t p = 0; p < w->projects; p++)
        TAPE_MUST(t, !gave[p] || used[p] * w->q.share_sum >= w->q.cards * shares[p]);
    if (!decide(t, w))
        return false;
    TAPE_MUST(t, w->started_s[first] == w->now_s);
    return true;
}

static bool law_given_back(struct tape *t)
{
    struct world w = {0};
    bool held = given_back(t, &w);

    world_fini(&w);
    return held;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"no node, no project limit is ever passed; who left never starts", law_no_overcommit, 0},
        {"with departures every waiting demand is served in the end", law_all_served, 0},
        {"the order of nodes and demands changes nothing", law_order_free, 0},
        {"starts come when they were estimated, reservations are kept", law_foretold, 0},
        {"what is asked back was borrowed, and lets the first in line start", law_given_back, 0},
    };

    return tape_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
