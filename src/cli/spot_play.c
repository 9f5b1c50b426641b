/* spot_play.c: arrivals, ends and reclaims, in order of time. On-demand comes first and may call
 * spot back; what is called back starts again from its last checkpoint when there is room. A task
 * goes to the fullest node that takes it. */
#include <stdlib.h>

#include "cli/replay_spot.h"

struct run {
    int64_t started_s, left_s; /* of work */
    struct pool_part part;
    int32_t slot; /* of reclaim; -1: not spot, or not running */
    uint32_t version;
    bool runs;
};

struct line { /* the waiting of one kind, first in first out */
    VEC(int32_t) task;
    size_t head;
};

struct play {
    const struct spot_history *h;
    struct spot_outcome *o;
    struct pool pool;
    struct reclaim r;
    struct reclaim_plan plan;
    struct run *run;   /* owned; by task */
    struct line *line; /* owned; by kind */
    struct replay_ends ends;
    VEC(int32_t) spots;        /* tasks that run as spot */
    struct pool_node *cleared; /* owned; scratch of youngest-first */
    bool *touched;
    int64_t now_s;
};

static const struct pool_demand *demand_of(const struct play *p, int32_t task)
{
    return &p->h->kind.at[p->h->task.at[task].kind].demand;
}

static bool is_spot(const struct pool_demand *d)
{
    return d->plan == POOL_SPOT;
}

/* ---- starting and ending ---- */

static void start(struct play *p, int32_t task, uint32_t node)
{
    const struct pool_demand *d = demand_of(p, task);
    struct run *r = &p->run[task];

    pool_pick(&p->pool, node, d, &r->part);
    pool_start(&p->pool, d, &r->part);
    r->started_s = p->now_s;
    r->runs = true;
    r->version++;
    r->slot = -1;
    replay_ends_push(&p->ends, (struct replay_end){p->now_s + r->left_s, task, r->version});
    if (is_spot(d)) {
        r->slot = reclaim_add(&p->r, (uint64_t)task + 1, d, &r->part, p->now_s,
                              p->h->kind.at[p->h->task.at[task].kind].weight);
        *vec_push(&p->spots) = task;
        p->o->spot_started++;
    } else {
        int64_t waited = p->now_s - p->h->task.at[task].at_s;
        reclaim_touch(&p->r, node);
        p->o->on_demand_started++;
        p->o->on_demand_waited += waited > 0;
        p->o->on_demand_wait_s += (double)waited;
    }
}

static void stop(struct play *p, int32_t task)
{
    struct run *r = &p->run[task];

    pool_end(&p->pool, demand_of(p, task), &r->part);
    r->runs = false;
    if (r->slot < 0) {
        reclaim_touch(&p->r, r->part.node);
        return;
    }
    reclaim_drop(&p->r, r->slot);
    r->slot = -1;
    for (size_t i = 0; i < p->spots.len; i++)
        if (p->spots.at[i] == task)
            p->spots.at[i--] = p->spots.at[--p->spots.len];
}

static void wait_for_room(struct play *p, int32_t task)
{
    struct line *l = &p->line[p->h->task.at[task].kind];
    size_t i;

    (void)vec_push(&l->task);
    for (i = l->task.len - 1; i > l->head && l->task.at[i - 1] > task; i--)
        l->task.at[i] = l->task.at[i - 1];
    l->task.at[i] = task; /* tasks are numbered by arrival */
}

/* The fullest node that takes it; -1: none. */
static int64_t best_node(const struct play *p, const struct pool_demand *d)
{
    int64_t best = -1, least = INT64_MAX;

    for (uint32_t i = 0; i < p->pool.count; i++) {
        const struct pool_node *n = &p->pool.node[i];
        int64_t left = p->r.node.at[i].free_milli;
        if (left < (int64_t)d->cards * d->milli)
            continue;
        left = left * 1024 + n->cpu_free_milli / 128;
        if ((left < least || (left == least && n->key < p->pool.node[best].key)) &&
            pool_fits(n, d)) {
            best = i;
            least = left;
        }
    }
    return best;
}

/* ---- calling back ---- */

static int64_t saved_until(const struct play *p, int32_t task)
{
    int64_t since = p->run[task].started_s, every = p->h->checkpoint_s;

    return since + (p->now_s - since) / every * every;
}

static void evict(struct play *p, int32_t task)
{
    struct run *r = &p->run[task];
    const struct pool_demand *d = demand_of(p, task);
    double cards = (double)d->cards * d->milli / POOL_WHOLE;
    int64_t kept = saved_until(p, task);

    p->o->evicted++;
    p->o->lost_h += cards * (double)(p->now_s - kept) / 3600;
    p->o->held_h += cards * (double)(p->now_s - r->started_s) / 3600;
    r->left_s -= kept - r->started_s;
    stop(p, task);
    wait_for_room(p, task);
}

static int by_youth(const void *a, const void *b)
{
    const struct replay_end *x = a, *y = b; /* at_s: when it started */

    if (x->at_s != y->at_s)
        return x->at_s > y->at_s ? -1 : 1;
    return x->item > y->item ? -1 : x->item < y->item;
}

static void give_back(struct pool_node *n, const struct play *p, int32_t task, bool back)
{
    struct pool one = {.node = n, .count = 1};
    struct pool_part part = p->run[task].part;

    part.node = 0;
    if (back)
        pool_end(&one, demand_of(p, task), &part);
    else
        pool_start(&one, demand_of(p, task), &part);
}

/* The reference: the youngest spot leases go, one after the other, until the demand fits somewhere;
 * of them, only those on that node, and none that can stay. Fills plan.victim with tasks. */
static bool youngest_choose(struct play *p, const struct pool_demand *d, uint32_t *ret_node)
{
    AUTO_FREE struct replay_end *young = mem_alloc(sizeof(*young) * (p->spots.len + 1));
    int64_t node = -1;
    size_t n = p->spots.len, upto;

    memset(p->touched, 0, p->pool.count);
    for (size_t i = 0; i < n; i++)
        young[i] =
            (struct replay_end){.at_s = p->run[p->spots.at[i]].started_s, .item = p->spots.at[i]};
    qsort(young, n, sizeof(*young), by_youth);
    for (upto = 0; upto < n && node < 0; upto++) {
        uint32_t at = p->run[young[upto].item].part.node;
        if (!p->touched[at])
            p->cleared[at] = p->pool.node[at];
        p->touched[at] = true;
        give_back(&p->cleared[at], p, young[upto].item, true);
        if (pool_fits(&p->cleared[at], d))
            node = at;
    }
    if (node < 0)
        return false;
    p->plan.victim.len = 0;
    for (size_t i = upto; i-- > 0;) { /* the oldest of them stay if they can */
        if (p->run[young[i].item].part.node != node)
            continue;
        give_back(&p->cleared[node], p, young[i].item, false);
        if (pool_fits(&p->cleared[node], d))
            continue;
        give_back(&p->cleared[node], p, young[i].item, true);
        *vec_push(&p->plan.victim) = young[i].item;
    }
    *ret_node = (uint32_t)node;
    return true;
}

static bool ours_choose(struct play *p, const struct pool_demand *d, uint32_t *ret_node)
{
    VEC_FOREACH (task, &p->spots)
        reclaim_saved(&p->r, p->run[*task].slot, saved_until(p, *task));
    if (reclaim_choose(&p->r, d, p->now_s, &p->plan) != RECLAIM_TAKE)
        return false;
    VEC_FOREACH (slot, &p->plan.victim) /* slots change while they are dropped */
        *slot = (int32_t)p->r.lease.at[*slot].id - 1;
    *ret_node = p->plan.node.at[0];
    return true;
}

static void fill_node(struct play *p, uint32_t node);

/* Makes room for an on-demand task and starts it there. */
static bool reclaim_for(struct play *p, int32_t task)
{
    const struct pool_demand *d = demand_of(p, task);
    double begun = replay_cpu_ms();
    uint32_t node = 0;
    bool found = p->o->youngest ? youngest_choose(p, d, &node) : ours_choose(p, d, &node);

    p->o->choose_ms += replay_cpu_ms() - begun;
    if (!found)
        return false;
    p->o->reclaims++;
    VEC_FOREACH (victim, &p->plan.victim)
        evict(p, *victim);
    start(p, task, node);
    fill_node(p, node);
    return true;
}

/* ---- room on a node ---- */

/* The first in line that fits there; on-demand before spot; -1: nobody. */
static int32_t first_waiting(const struct play *p, const struct pool_node *n, bool spot)
{
    int32_t first = -1;

    for (size_t k = 0; k < p->h->kind.len; k++) {
        const struct line *l = &p->line[k];
        const struct pool_demand *d = &p->h->kind.at[k].demand;
        if (l->head == l->task.len || is_spot(d) != spot)
            continue;
        if ((first < 0 || l->task.at[l->head] < first) && pool_fits(n, d))
            first = l->task.at[l->head];
    }
    return first;
}

static void leave_line(struct play *p, int32_t task)
{
    p->line[p->h->task.at[task].kind].head++;
}

static struct pool_node without_spot(const struct play *p, uint32_t node)
{
    struct pool_node n = p->pool.node[node];

    VEC_FOREACH (slot, &p->r.node.at[node].slot)
        give_back(&n, p, (int32_t)p->r.lease.at[*slot].id - 1, true);
    return n;
}

/* Something became free there: who waits and fits, starts; on-demand also where spot must go. */
static void fill_node(struct play *p, uint32_t node)
{
    int32_t task;

    while ((task = first_waiting(p, &p->pool.node[node], false)) >= 0) {
        leave_line(p, task);
        start(p, task, node);
    }
    struct pool_node n = without_spot(p, node);
    if ((task = first_waiting(p, &n, false)) >= 0) {
        leave_line(p, task);
        bool made = reclaim_for(p, task); /* fills this node or another and comes back here */
        CHECK(made);
        fill_node(p, node);
        return;
    }
    while ((task = first_waiting(p, &p->pool.node[node], true)) >= 0) {
        leave_line(p, task);
        start(p, task, node);
    }
}

static void arrive(struct play *p, int32_t task)
{
    const struct pool_demand *d = demand_of(p, task);
    int64_t node = best_node(p, d);

    p->run[task].left_s = p->h->task.at[task].run_s;
    *(is_spot(d) ? &p->o->spot : &p->o->on_demand) += 1;
    if (node >= 0)
        start(p, task, (uint32_t)node);
    else if (is_spot(d) || !reclaim_for(p, task))
        wait_for_room(p, task);
}

/* Looked at from outside: does an on-demand task wait that would fit if all spot went? */
static void starved_count(struct play *p)
{
    for (uint32_t i = 0; i < p->pool.count; i++) {
        struct pool_node n = without_spot(p, i);
        if (first_waiting(p, &n, false) >= 0) {
            p->o->starved++;
            return;
        }
    }
}

static void play_init(struct play *p, const struct spot_history *h, struct spot_outcome *o)
{
    *p = (struct play){.h = h, .o = o, .now_s = h->task.at[0].at_s};
    pool_init(&p->pool);
    VEC_FOREACH (n, &h->node)
        pool_add(&p->pool, n);
    reclaim_init(&p->r, &p->pool);
    reclaim_touch(&p->r, 0);
    p->run = mem_alloc(sizeof(*p->run) * h->task.len);
    p->line = mem_alloc(sizeof(*p->line) * h->kind.len);
    p->cleared = mem_alloc(sizeof(*p->cleared) * h->node.len);
    p->touched = mem_alloc(sizeof(*p->touched) * h->node.len);
}

static void play_fini(struct play *p)
{
    for (size_t k = 0; k < p->h->kind.len; k++)
        vec_fini(&p->line[k].task);
    vec_fini(&p->ends.v);
    vec_fini(&p->spots);
    reclaim_plan_fini(&p->plan);
    reclaim_fini(&p->r);
    pool_fini(&p->pool);
    free(p->run);
    free(p->line);
    free(p->cleared);
    free(p->touched);
}

static void end_one(struct play *p)
{
    struct replay_end e = replay_ends_pop(&p->ends);
    struct run *r = &p->run[e.item];

    if (!r->runs || r->version != e.version)
        return;
    uint32_t node = r->part.node;
    stop(p, e.item);
    fill_node(p, node);
}

/* From the first to the last arrival; what runs then is of no more interest. */
bool spot_play(struct cli *c, const struct spot_history *h, struct spot_outcome *o)
{
    double begun = replay_cpu_ms(), used = 0;
    size_t next = 0;
    struct play p;

    play_init(&p, h, o);
    while (next < h->task.len && !interrupted()) {
        int64_t to = h->task.at[next].at_s;
        if (p.ends.v.len)
            to = MIN(to, p.ends.v.at[0].at_s);
        used += (double)(p.pool.cards * POOL_WHOLE - p.pool.free_milli) * (double)(to - p.now_s);
        p.now_s = to;
        if (p.ends.v.len && p.ends.v.at[0].at_s == to) {
            end_one(&p);
            continue;
        }
        arrive(&p, (int32_t)next++);
        if (next % 500 == 0)
            starved_count(&p);
        if (next % (h->task.len / 10 + 1) == 0)
            progress_line(c, tr("%s: %zu of %zu tasks"), o->policy, next, h->task.len);
    }
    progress_end(c);
    int64_t span = MAX(p.now_s - h->task.at[0].at_s, (int64_t)1);
    o->used = used / POOL_WHOLE / (double)p.pool.cards / (double)span;
    o->cpu_ms = replay_cpu_ms() - begun;
    bool whole = pool_check(&p.pool);
    CHECK(whole);
    play_fini(&p);
    return !interrupted();
}
