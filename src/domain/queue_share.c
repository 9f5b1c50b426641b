#include "domain/queue_int.h"

#include <stdlib.h>

/* A lease that may be asked back: its project borrowed, and it ran long enough. */
struct borrowed {
    int32_t slot, node, cards;
    int64_t work; /* card-seconds since it started */
    uint64_t id;
};

struct givers {
    VEC(struct borrowed) lease; /* by node, the least work first */
    VEC(int64_t) over;          /* by project: cards above its share that are still there */
};

double queue_share_cards(const struct queue *q, int32_t project)
{
    const struct queue_project *p = &q->projects.at[project];

    return q->share_sum ? (double)q->cards * (double)p->share / (double)q->share_sum : 0;
}

static int by_node(const void *a, const void *b)
{
    const struct borrowed *x = a, *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->work != y->work)
        return x->work < y->work ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void givers_fill(const struct queue *q, struct givers *g)
{
    for (int32_t p = 0; p < (int32_t)q->projects.len; p++) {
        double over = (double)q->projects.at[p].used - queue_share_cards(q, p);
        *vec_push(&g->over) = over > 0 ? (int64_t)over : 0;
    }
    for (int32_t i = 0; i < (int32_t)q->run.len; i++) {
        const struct queue_run *r = &q->run.at[i];
        if (!r->there || r->demand.nodes > 1 || q->now_s - r->started_s < q->rules.min_run_s ||
            r->demand.cards > g->over.at[r->demand.project])
            continue;
        *vec_push(&g->lease) =
            (struct borrowed){i, r->node[0], r->demand.cards,
                              (q->now_s - r->started_s) * r->demand.cards, r->demand.id};
    }
    if (g->lease.len)
        qsort(g->lease.at, g->lease.len, sizeof(g->lease.at[0]), by_node);
}

/* The leases [from, to) are of one node: those that would make k cards free there, the least work
 * first, none that can stay. False: they do not suffice. */
static bool node_give(const struct queue *q, struct givers *g, size_t from, size_t to, int32_t k,
                      struct queue_plan *ret_plan, int64_t *ret_work)
{
    const struct queue_node *n = &q->nodes.at[g->lease.at[from].node];
    int32_t lack = k - (n->cards - n->busy), got = 0;
    int64_t took[QUEUE_NODE_CARDS_MAX] = {0};
    size_t taken[QUEUE_NODE_CARDS_MAX], count = 0;

    for (size_t i = from; i < to && got < lack; i++) {
        const struct borrowed *b = &g->lease.at[i];
        int32_t project = q->run.at[b->slot].demand.project;
        int64_t of_project = b->cards;
        for (size_t j = 0; j < count; j++)
            if (q->run.at[g->lease.at[taken[j]].slot].demand.project == project)
                of_project += took[j];
        if (of_project > g->over.at[project])
            continue;
        took[count] = b->cards;
        taken[count++] = i;
        got += b->cards;
    }
    if (lack <= 0 || got < lack)
        return false;
    ret_plan->give_back.len = 0;
    *ret_work = 0;
    for (size_t j = count; j-- > 0;) { /* the last one taken cost most: can an earlier one stay? */
        const struct borrowed *b = &g->lease.at[taken[j]];
        if (got - b->cards >= lack) {
            got -= b->cards;
            continue;
        }
        *vec_push(&ret_plan->give_back) = b->slot;
        *ret_work += b->work;
    }
    return true;
}

void queue_share_give(struct queue *q, struct queue_plan *plan)
{
    struct givers g = {0};
    struct queue_plan best = {0}, one = {0};
    const struct queue_reservation *r = plan->reservation.len ? &plan->reservation.at[0] : NULL;
    int64_t least = INT64_MAX, work;
    uint64_t key = 0;

    if (!r || q->rules.min_run_s == 0 || q->share_sum == 0 || r->nodes > 1 ||
        (double)q->projects.at[r->project].used + r->cards > queue_share_cards(q, r->project))
        return;
    givers_fill(q, &g);
    for (size_t from = 0, to; from < g.lease.len; from = to) {
        int32_t node = g.lease.at[from].node;
        for (to = from; to < g.lease.len && g.lease.at[to].node == node; to++)
            ;
        if (!queue_suits(q, r->suit, node) || !node_give(q, &g, from, to, r->cards, &one, &work) ||
            work > least || (work == least && q->nodes.at[node].key > key))
            continue;
        struct queue_plan spare = best;
        best = one;
        one = spare;
        least = work;
        key = q->nodes.at[node].key;
    }
    VEC_FOREACH (slot, &best.give_back)
        *vec_push(&plan->give_back) = *slot;
    list_fini(&best.give_back);
    list_fini(&one.give_back);
    list_fini(&g.lease);
    list_fini(&g.over);
}
