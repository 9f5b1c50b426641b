#include "domain/reclaim.h"

#include <stdlib.h>

/* vec_fini without the C library: the domain frees through base. */
#define list_fini(v)                                                                               \
    do {                                                                                           \
        mem_free_ptr(&(v)->at);                                                                    \
        (v)->at = NULL;                                                                            \
        (v)->len = (v)->cap = 0;                                                                   \
    } while (0)

struct cost { /* of making room on a node */
    int64_t loss;
    int32_t leases;
    bool exact; /* else no more than a lower bound of the loss */
    uint64_t key;
    uint32_t node;
};

struct candidate { /* a spot lease on the node that is looked at */
    int32_t slot, part;
    int64_t loss, milli;
    uint64_t id;
};

struct bytes {
    uint8_t *at; /* owned */
    size_t len, cap;
};

struct reclaim_work {
    VEC(struct cost) heap;
    VEC(struct candidate) candidate;
    VEC(int32_t) best, now; /* victims on one node */
    struct bytes taken;     /* by slot */
    struct bytes done;      /* by node */
    VEC(int32_t) victims;
};

static size_t parts_of(const struct pool_demand *d)
{
    return d->nodes > 1 ? (size_t)d->nodes : 1;
}

static int64_t milli_of(const struct pool_demand *d) /* a part */
{
    return (int64_t)d->cards * d->milli;
}

void reclaim_init(struct reclaim *r, const struct pool *pool)
{
    *r = (struct reclaim){.pool = pool, .work = mem_alloc(sizeof(struct reclaim_work))};
}

void reclaim_fini(struct reclaim *r)
{
    VEC_FOREACH (l, &r->lease)
        mem_free_ptr(&l->part);
    VEC_FOREACH (n, &r->node)
        list_fini(&n->slot);
    list_fini(&r->lease);
    list_fini(&r->spare);
    list_fini(&r->node);
    list_fini(&r->work->heap);
    list_fini(&r->work->candidate);
    list_fini(&r->work->best);
    list_fini(&r->work->now);
    list_fini(&r->work->taken);
    list_fini(&r->work->done);
    list_fini(&r->work->victims);
    mem_free_ptr(&r->work);
}

void reclaim_plan_fini(struct reclaim_plan *p)
{
    list_fini(&p->victim);
    list_fini(&p->node);
}

/* ---- what is kept of each node ---- */

static void nodes_grow(struct reclaim *r)
{
    while (r->node.len < r->pool->count) {
        (void)vec_push(&r->node);
        reclaim_touch(r, (uint32_t)r->node.len - 1);
    }
}

void reclaim_touch(struct reclaim *r, uint32_t node)
{
    nodes_grow(r);
    const struct pool_node *p = &r->pool->node[node];
    struct reclaim_node *n = &r->node.at[node];

    n->free_milli = n->spot_milli = n->weight = n->weight_saved = 0;
    n->saved_last_s = INT64_MIN;
    for (int32_t i = 0; i < p->card_count; i++)
        n->free_milli += p->card[i].out ? 0 : p->card[i].free_milli;
    VEC_FOREACH (slot, &n->slot) {
        const struct reclaim_lease *l = &r->lease.at[*slot];
        if (l->noticed_for)
            continue;
        n->spot_milli += milli_of(&l->demand);
        n->weight += l->weight;
        n->weight_saved += l->weight * l->saved_s;
        n->saved_last_s = MAX(n->saved_last_s, l->saved_s);
    }
}

static void touch_all(struct reclaim *r, const struct reclaim_lease *l)
{
    for (size_t i = 0; i < parts_of(&l->demand); i++)
        reclaim_touch(r, l->part[i].node);
}

int32_t reclaim_add(struct reclaim *r, uint64_t id, const struct pool_demand *d,
                    const struct pool_part *part, int64_t saved_s, int64_t weight)
{
    int32_t slot = (int32_t)r->lease.len;
    size_t parts = parts_of(d);
    int64_t least = MAX(milli_of(d) * (int64_t)parts, (int64_t)1);

    nodes_grow(r);
    if (r->spare.len)
        slot = r->spare.at[--r->spare.len];
    else
        (void)vec_push(&r->lease);
    r->lease.at[slot] = (struct reclaim_lease){.id = id,
                                               .demand = *d,
                                               .part = mem_dup(part, parts * sizeof(*part)),
                                               .saved_s = saved_s,
                                               .weight = MAX(weight, least),
                                               .there = true};
    for (size_t i = 0; i < parts; i++)
        *vec_push(&r->node.at[part[i].node].slot) = slot;
    touch_all(r, &r->lease.at[slot]);
    return slot;
}

void reclaim_drop(struct reclaim *r, int32_t slot)
{
    struct reclaim_lease *l = &r->lease.at[slot];

    CHECK(l->there);
    for (size_t i = 0; i < parts_of(&l->demand); i++) {
        struct reclaim_node *n = &r->node.at[l->part[i].node];
        size_t at = 0;
        while (n->slot.at[at] != slot)
            at++;
        n->slot.at[at] = n->slot.at[--n->slot.len];
    }
    touch_all(r, l);
    mem_free_ptr(&l->part);
    *l = (struct reclaim_lease){0};
    *vec_push(&r->spare) = slot;
}

void reclaim_saved(struct reclaim *r, int32_t slot, int64_t saved_s)
{
    struct reclaim_lease *l = &r->lease.at[slot];

    CHECK(l->there && saved_s >= l->saved_s);
    if (saved_s == l->saved_s)
        return;
    l->saved_s = saved_s;
    touch_all(r, l);
}

/* ---- one node ---- */

static int64_t loss_of(const struct reclaim_lease *l, int64_t now_s)
{
    return MAX(now_s - l->saved_s, (int64_t)0) * l->weight;
}

/* Dear ones are kept first; among equals the small ones, so that few are taken. */
static int by_loss(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->loss != y->loss)
        return x->loss > y->loss ? -1 : 1;
    if (x->milli != y->milli)
        return x->milli < y->milli ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Dear for what they hold are kept first. */
static int by_rate(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    double rx = (double)x->loss / (double)(x->milli + 1);
    double ry = (double)y->loss / (double)(y->milli + 1);

    if (rx < ry || rx > ry)
        return rx > ry ? -1 : 1;
    return by_loss(a, b);
}

/* The node as if all candidates were gone. */
static void node_cleared(struct reclaim *r, uint32_t node, int64_t now_s, struct pool_node *ret_n)
{
    struct reclaim_work *w = r->work;
    struct pool one = {.node = ret_n, .count = 1};

    *ret_n = r->pool->node[node];
    w->candidate.len = 0;
    VEC_FOREACH (slot, &r->node.at[node].slot) {
        const struct reclaim_lease *l = &r->lease.at[*slot];
        int32_t k = 0;
        if (l->noticed_for)
            continue;
        while (l->part[k].node != node)
            k++;
        struct pool_part part = l->part[k];
        part.node = 0;
        pool_end(&one, &l->demand, &part);
        if (!w->taken.at[*slot])
            *vec_push(&w->candidate) =
                (struct candidate){*slot, k, loss_of(l, now_s), milli_of(&l->demand), l->id};
    }
}

/* Keeps, in the order of the candidates, whatever leaves room; the others are the victims. */
static void keep_in_order(struct reclaim *r, const struct pool_demand *d, struct pool_node n,
                          struct cost *ret_c)
{
    struct reclaim_work *w = r->work;
    struct pool one = {.node = &n, .count = 1};

    w->now.len = 0;
    ret_c->loss = ret_c->leases = 0;
    VEC_FOREACH (c, &w->candidate) {
        const struct reclaim_lease *l = &r->lease.at[c->slot];
        struct pool_part part = l->part[c->part];
        part.node = 0;
        pool_start(&one, &l->demand, &part);
        if (pool_fits(&n, d))
            continue;
        pool_end(&one, &l->demand, &part);
        *vec_push(&w->now) = c->slot;
        ret_c->loss += c->loss;
        ret_c->leases++;
    }
}

static bool cheaper(const struct cost *a, const struct cost *b)
{
    return a->loss < b->loss || (a->loss == b->loss && a->leases < b->leases);
}

/* What room for one part costs there; false: not even all spot leases would do. The victims are
 * left in work.best. */
static bool node_cost(struct reclaim *r, const struct pool_demand *d, uint32_t node, int64_t now_s,
                      struct cost *ret_c)
{
    static int (*const orders[])(const void *, const void *) = {by_loss, by_rate};
    struct reclaim_work *w = r->work;
    struct pool_node n;

    node_cleared(r, node, now_s, &n);
    if (!pool_fits(&n, d))
        return false;
    *ret_c = (struct cost){.exact = true, .key = n.key, .node = node};
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        struct cost c = *ret_c;
        if (w->candidate.len)
            qsort(w->candidate.at, w->candidate.len, sizeof(w->candidate.at[0]), orders[i]);
        keep_in_order(r, d, n, &c);
        if (i > 0 && !cheaper(&c, ret_c))
            continue;
        *ret_c = c;
        w->best.len = 0;
        VEC_FOREACH (slot, &w->now)
            *vec_push(&w->best) = *slot;
    }
    return true;
}

/* ---- the nodes against each other ---- */

static bool cost_before(const struct cost *a, const struct cost *b)
{
    if (a->loss != b->loss)
        return a->loss < b->loss;
    if (a->exact != b->exact)
        return b->exact;
    if (a->leases != b->leases)
        return a->leases < b->leases;
    return a->key < b->key;
}

static void sift_down(struct cost *heap, size_t n, size_t i)
{
    struct cost c = heap[i];

    for (;;) {
        size_t l = 2 * i + 1;
        if (l >= n)
            break;
        l += l + 1 < n && cost_before(&heap[l + 1], &heap[l]);
        if (!cost_before(&heap[l], &c))
            break;
        heap[i] = heap[l];
        i = l;
    }
    heap[i] = c;
}

static void heap_push(struct reclaim_work *w, struct cost c)
{
    (void)vec_push(&w->heap);
    size_t i = w->heap.len - 1;
    while (i > 0 && cost_before(&c, &w->heap.at[(i - 1) / 2])) {
        w->heap.at[i] = w->heap.at[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap.at[i] = c;
}

static struct cost heap_pop(struct reclaim_work *w)
{
    struct cost first = w->heap.at[0];

    w->heap.at[0] = w->heap.at[--w->heap.len];
    if (w->heap.len)
        sift_down(w->heap.at, w->heap.len, 0);
    return first;
}

/* No choice of leases there can lose less: every card-second freed weighs at least one. */
static int64_t least_loss(const struct reclaim_node *n, int64_t need, int64_t now_s)
{
    int64_t over = need - n->free_milli;

    if (over <= 0)
        return 0;
    if (over == n->spot_milli)
        return MAX(n->weight * now_s - n->weight_saved, (int64_t)0);
    return over * MAX(now_s - n->saved_last_s, (int64_t)0);
}

static void zeros(struct bytes *b, size_t n)
{
    if (b->cap < n) {
        b->cap = n * 2;
        b->at = mem_realloc(b->at, b->cap, 1);
    }
    b->len = n;
    if (n)
        memset(b->at, 0, n);
}

static void bounds_fill(struct reclaim *r, const struct pool_demand *d, int64_t now_s)
{
    struct reclaim_work *w = r->work;
    int64_t need = milli_of(d);

    nodes_grow(r);
    w->heap.len = 0;
    for (size_t i = 0; i < r->node.len; i++) {
        const struct reclaim_node *n = &r->node.at[i];
        if (n->free_milli + n->spot_milli >= need)
            *vec_push(&w->heap) = (struct cost){.loss = least_loss(n, need, now_s),
                                                .key = r->pool->node[i].key,
                                                .node = (uint32_t)i};
    }
    for (size_t i = w->heap.len / 2; i-- > 0;)
        sift_down(w->heap.at, w->heap.len, i);
    w->victims.len = 0;
    zeros(&w->taken, r->lease.len);
    zeros(&w->done, r->node.len);
}

/* What was taken anyway makes its other nodes cheaper. */
static void take(struct reclaim *r, int32_t slot)
{
    struct reclaim_work *w = r->work;
    const struct reclaim_lease *l = &r->lease.at[slot];

    w->taken.at[slot] = 1;
    *vec_push(&w->victims) = slot;
    for (size_t i = 0; parts_of(&l->demand) > 1 && i < parts_of(&l->demand); i++)
        if (!w->done.at[l->part[i].node])
            heap_push(w, (struct cost){.key = r->pool->node[l->part[i].node].key,
                                       .node = l->part[i].node});
}

/* Takes the cheapest nodes, one after the other, until there are enough. */
static bool nodes_take(struct reclaim *r, const struct pool_demand *d, int64_t now_s)
{
    struct reclaim_work *w = r->work;
    size_t got = 0;

    bounds_fill(r, d, now_s);
    while (got < parts_of(d) && w->heap.len) {
        struct cost c = heap_pop(w), now = {0};
        if (w->done.at[c.node] || !node_cost(r, d, c.node, now_s, &now))
            continue;
        if (!c.exact && w->heap.len && cost_before(&w->heap.at[0], &now)) {
            heap_push(w, now);
            continue;
        }
        w->done.at[c.node] = 1;
        got++;
        VEC_FOREACH (slot, &w->best)
            take(r, *slot);
    }
    return got == parts_of(d);
}

/* ---- never more than needed ---- */

/* Does a part fit on the node once the taken are gone? */
static bool fits_then(struct reclaim *r, const struct pool_demand *d, uint32_t node)
{
    struct pool_node n = r->pool->node[node];
    struct pool one = {.node = &n, .count = 1};

    VEC_FOREACH (slot, &r->node.at[node].slot) {
        const struct reclaim_lease *l = &r->lease.at[*slot];
        int32_t k = 0;
        if (!r->work->taken.at[*slot])
            continue;
        while (l->part[k].node != node)
            k++;
        struct pool_part part = l->part[k];
        part.node = 0;
        pool_end(&one, &l->demand, &part);
    }
    return pool_fits(&n, d);
}

static int by_node_key(const void *a, const void *b)
{
    const struct cost *x = a, *y = b;

    return x->key < y->key ? -1 : x->key > y->key;
}

/* All nodes that matter: those of the victims, and those where it fits already. */
static void nodes_matter(struct reclaim *r, const struct pool_demand *d, struct reclaim_plan *p)
{
    struct reclaim_work *w = r->work;
    int64_t need = milli_of(d);

    for (size_t i = 0; i < r->node.len; i++) {
        w->done.at[i] = r->node.at[i].free_milli >= need && pool_fits(&r->pool->node[i], d);
    }
    VEC_FOREACH (slot, &w->victims) {
        const struct reclaim_lease *l = &r->lease.at[*slot];
        for (size_t k = 0; k < parts_of(&l->demand); k++)
            w->done.at[l->part[k].node] = 1;
    }
    w->heap.len = 0;
    for (size_t i = 0; i < r->node.len; i++)
        if (w->done.at[i])
            *vec_push(&w->heap) = (struct cost){.key = r->pool->node[i].key, .node = (uint32_t)i};
    qsort(w->heap.at, w->heap.len, sizeof(w->heap.at[0]), by_node_key);
    p->node.len = 0;
    VEC_FOREACH (c, &w->heap)
        *vec_push(&p->node) = c->node;
}

/* Nodes of the lease that fit: before and after it is given back, done[] follows. */
static int64_t fits_change(struct reclaim *r, const struct pool_demand *d, int32_t slot)
{
    const struct reclaim_lease *l = &r->lease.at[slot];
    int64_t change = 0;

    for (size_t i = 0; i < parts_of(&l->demand); i++) {
        uint8_t *fits = &r->work->done.at[l->part[i].node];
        change -= *fits;
        *fits = fits_then(r, d, l->part[i].node);
        change += *fits;
    }
    return change;
}

/* Gives back, the dearest first, every victim without which it fits all the same. Where no victim
 * spans nodes nothing can be spared: node_cost kept all it could on each, and nodes that need no
 * victim were taken first. */
static void spare(struct reclaim *r, const struct pool_demand *d, struct reclaim_plan *p,
                  int64_t now_s)
{
    struct reclaim_work *w = r->work;
    int64_t fitting = 0;
    bool spans = false;

    w->candidate.len = 0;
    VEC_FOREACH (slot, &w->victims) {
        const struct reclaim_lease *l = &r->lease.at[*slot];
        *vec_push(&w->candidate) =
            (struct candidate){*slot, 0, loss_of(l, now_s), milli_of(&l->demand), l->id};
        spans |= parts_of(&l->demand) > 1;
    }
    if (!spans)
        return;
    qsort(w->candidate.at, w->candidate.len, sizeof(w->candidate.at[0]), by_loss);
    VEC_FOREACH (node, &p->node) {
        w->done.at[*node] = fits_then(r, d, *node);
        fitting += w->done.at[*node];
    }
    w->victims.len = 0;
    VEC_FOREACH (c, &w->candidate) {
        w->taken.at[c->slot] = 0;
        fitting += fits_change(r, d, c->slot);
        if (fitting >= (int64_t)parts_of(d))
            continue;
        w->taken.at[c->slot] = 1;
        fitting += fits_change(r, d, c->slot);
        *vec_push(&w->victims) = c->slot;
    }
}

static int by_id(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static void plan_fill(struct reclaim *r, const struct pool_demand *d, int64_t now_s,
                      struct reclaim_plan *p)
{
    struct reclaim_work *w = r->work;
    size_t n = 0;

    for (size_t i = 0; i < p->node.len && n < parts_of(d); i++)
        if (fits_then(r, d, p->node.at[i]))
            p->node.at[n++] = p->node.at[i];
    CHECK(n == parts_of(d));
    p->node.len = n;
    w->candidate.len = 0;
    VEC_FOREACH (slot, &w->victims)
        *vec_push(&w->candidate) = (struct candidate){.slot = *slot, .id = r->lease.at[*slot].id};
    if (w->candidate.len)
        qsort(w->candidate.at, w->candidate.len, sizeof(w->candidate.at[0]), by_id);
    VEC_FOREACH (c, &w->candidate) {
        *vec_push(&p->victim) = c->slot;
        p->loss += loss_of(&r->lease.at[c->slot], now_s);
    }
}

enum reclaim_answer reclaim_choose(struct reclaim *r, const struct pool_demand *d, int64_t now_s,
                                   struct reclaim_plan *p)
{
    p->victim.len = p->node.len = 0;
    p->loss = 0;
    if (!nodes_take(r, d, now_s))
        return RECLAIM_NOT;
    nodes_matter(r, d, p);
    spare(r, d, p, now_s);
    plan_fill(r, d, now_s, p);
    return p->victim.len ? RECLAIM_TAKE : RECLAIM_FITS;
}

void reclaim_notice(struct reclaim *r, const struct reclaim_plan *p, uint64_t demand)
{
    CHECK(demand != 0);
    VEC_FOREACH (slot, &p->victim) {
        struct reclaim_lease *l = &r->lease.at[*slot];
        CHECK(l->there && !l->noticed_for);
        l->noticed_for = demand;
        touch_all(r, l);
    }
}

void reclaim_cancel(struct reclaim *r, uint64_t demand, struct reclaim_plan *p)
{
    struct reclaim_work *w = r->work;

    p->victim.len = p->node.len = 0;
    p->loss = 0;
    w->candidate.len = 0;
    for (int32_t i = 0; i < (int32_t)r->lease.len; i++) {
        struct reclaim_lease *l = &r->lease.at[i];
        if (!l->there || l->noticed_for != demand)
            continue;
        l->noticed_for = 0;
        touch_all(r, l);
        *vec_push(&w->candidate) = (struct candidate){.slot = i, .id = l->id};
    }
    if (w->candidate.len)
        qsort(w->candidate.at, w->candidate.len, sizeof(w->candidate.at[0]), by_id);
    VEC_FOREACH (c, &w->candidate)
        *vec_push(&p->victim) = c->slot;
}
