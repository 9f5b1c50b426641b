#include "domain/queue_int.h"

#define OVERRUN_S 600 /* what ran past its estimate is expected to take so much longer */

/* Found on gang jobs at 60 to 95 % load; docs/queue.md has the neighbours and their figures. */
const struct queue_rules queue_rules_ours = {.order = QUEUE_DUE,
                                             .backfill = true,
                                             .reservations = 16,
                                             .patience_per_run = 2,
                                             .patience_of_backlog = 0.5,
                                             .patience_min_s = 12 * 3600,
                                             .patience_max_s = 240 * 3600,
                                             .whole_lead_s = 48 * 3600};
const struct queue_rules queue_rules_easy = {
    .order = QUEUE_ARRIVAL, .backfill = true, .reservations = 1};
const struct queue_rules queue_rules_fifo = {.order = QUEUE_ARRIVAL};

static bool whole(const struct queue *q, const struct queue_demand *d)
{
    int32_t most = d->suit ? q->suits.at[d->suit - 1].widest : 0;

    if (d->nodes > 1)
        return true;
    for (int32_t c = QUEUE_NODE_CARDS_MAX; c > 0 && !most; c--)
        most = q->nodes_of[c] ? c : 0;
    return d->cards >= most;
}

void queue_init(struct queue *q, const struct queue_rules *rules)
{
    *q = (struct queue){.rules = *rules};
    CHECK(rules->reservations >= 0 && rules->reservations <= QUEUE_RESERVATIONS_MAX);
    for (int i = 0; i <= QUEUE_NODE_CARDS_MAX; i++)
        q->by_free[i] = -1;
    queue_project_add(q, 0, 0);
}

void queue_fini(struct queue *q)
{
    VEC_FOREACH (r, &q->run)
        mem_free_ptr(&r->node);
    VEC_FOREACH (c, &q->classes) {
        list_fini(&(*c)->list);
        mem_free_ptr(c);
    }
    VEC_FOREACH (s, &q->suits)
        mem_free_ptr(&s->fits);
    list_fini(&q->suits);
    list_fini(&q->nodes);
    list_fini(&q->run);
    list_fini(&q->spare_slots);
    list_fini(&q->classes);
    list_fini(&q->projects);
    list_fini(&q->picked);
    list_fini(&q->nodes_picked);
    list_fini(&q->held);
    list_fini(&q->when);
}

void queue_plan_fini(struct queue_plan *p)
{
    list_fini(&p->start);
    list_fini(&p->reservation);
    list_fini(&p->give_back);
}

/* ---- nodes ---- */

static void node_link(struct queue *q, int32_t i)
{
    struct queue_node *n = &q->nodes.at[i];
    int32_t f = n->cards - n->busy;

    n->prev = -1;
    n->next = q->by_free[f];
    if (n->next >= 0)
        q->nodes.at[n->next].prev = i;
    q->by_free[f] = i;
}

static void node_unlink(struct queue *q, int32_t i)
{
    struct queue_node *n = &q->nodes.at[i];

    if (n->prev >= 0)
        q->nodes.at[n->prev].next = n->next;
    else
        q->by_free[n->cards - n->busy] = n->next;
    if (n->next >= 0)
        q->nodes.at[n->next].prev = n->prev;
}

int32_t queue_node_add(struct queue *q, uint64_t key, int32_t cards)
{
    int32_t i = (int32_t)q->nodes.len;

    CHECK(cards >= 1 && cards <= QUEUE_NODE_CARDS_MAX && q->nodes.len < INT32_MAX);
    CHECK(q->suits.len == 0);
    *vec_push(&q->nodes) = (struct queue_node){.key = key, .cards = cards, .held_s = INT64_MAX};
    node_link(q, i);
    q->cards += cards;
    q->free += cards;
    q->nodes_of[cards]++;
    return i;
}

int32_t queue_project_add(struct queue *q, int64_t share, int32_t limit)
{
    CHECK(share >= 0 && share <= INT32_MAX && limit >= 0);
    CHECK(q->projects.len < QUEUE_PROJECTS_MAX);
    *vec_push(&q->projects) = (struct queue_project){.share = share, .limit = limit};
    q->share_sum += share;
    return (int32_t)q->projects.len - 1;
}

int32_t queue_suit_add(struct queue *q, const bool *fits)
{
    struct queue_suit s = {.fits = mem_dup(fits, MAX(q->nodes.len, (size_t)1))};

    for (size_t i = 0; i < q->nodes.len; i++)
        if (fits[i])
            s.widest = MAX(s.widest, q->nodes.at[i].cards);
    CHECK(q->suits.len < INT32_MAX);
    *vec_push(&q->suits) = s;
    return (int32_t)q->suits.len;
}

/* The k cards with the estimate `end` become busy or free again. */
static void node_take(struct queue *q, int32_t i, int32_t k, int64_t end)
{
    struct queue_node *n = &q->nodes.at[i];
    int32_t at = n->busy;

    CHECK(k >= 1 && n->busy + k <= n->cards);
    node_unlink(q, i);
    while (at > 0 && n->end_s[at - 1] > end) {
        n->end_s[at - 1 + k] = n->end_s[at - 1];
        at--;
    }
    for (int32_t j = 0; j < k; j++)
        n->end_s[at + j] = end;
    n->busy += k;
    q->free -= k;
    node_link(q, i);
}

static void node_give(struct queue *q, int32_t i, int32_t k, int64_t end)
{
    struct queue_node *n = &q->nodes.at[i];
    int32_t at = 0;

    node_unlink(q, i);
    while (at < n->busy && n->end_s[at] != end)
        at++;
    CHECK(at + k <= n->busy && n->end_s[at + k - 1] == end);
    memmove(&n->end_s[at], &n->end_s[at + k], sizeof(n->end_s[0]) * (size_t)(n->busy - at - k));
    n->busy -= k;
    q->free += k;
    node_link(q, i);
}

/* When k cards of the node are free, by the estimates. */
static int64_t node_free_at(const struct queue *q, const struct queue_node *n, int32_t k)
{
    int32_t lack = k - (n->cards - n->busy);

    if (lack <= 0)
        return q->now_s;
    int64_t t = n->end_s[lack - 1];
    return t > q->now_s ? t : q->now_s + OVERRUN_S;
}

/* May k more cards be taken until `end` without breaking the reservation there? */
static bool node_open(const struct queue_node *n, int32_t k, int64_t end)
{
    return end <= n->held_s || k <= n->spare;
}

/* ---- who waits ---- */

bool queue_possible(const struct queue *q, const struct queue_demand *d)
{
    int64_t nodes = 0;
    const struct queue_project *p = &q->projects.at[d->project];

    for (int32_t c = d->cards; c <= QUEUE_NODE_CARDS_MAX && d->suit == 0; c++)
        nodes += q->nodes_of[c];
    for (size_t i = 0; i < q->nodes.len && d->suit; i++)
        nodes += q->nodes.at[i].cards >= d->cards && queue_suits(q, d->suit, (int32_t)i);
    return nodes >= d->nodes && (p->limit == 0 || (int64_t)d->nodes * d->cards <= p->limit);
}

static struct queue_class *class_find(struct queue *q, const struct queue_demand *d, bool make)
{
    struct queue_class *c = NULL;

    VEC_FOREACH (at, &q->classes) {
        c = *at;
        if (c->run_s == d->run_s && c->cards == d->cards && c->nodes == d->nodes &&
            c->project == d->project && c->priority == d->priority && c->suit == d->suit)
            return c;
    }
    if (!make)
        return NULL;
    c = mem_alloc(sizeof(*c));
    c->project = d->project;
    c->priority = d->priority;
    c->suit = d->suit;
    c->nodes = d->nodes;
    c->cards = d->cards;
    c->run_s = d->run_s;
    c->whole = whole(q, d);
    *vec_push(&q->classes) = c;
    return c;
}

static bool before(const struct queue_demand *a, const struct queue_demand *b)
{
    return a->since_s < b->since_s || (a->since_s == b->since_s && a->id < b->id);
}

void queue_enter(struct queue *q, const struct queue_demand *d)
{
    CHECK(d->nodes >= 1 && d->cards >= 1 && d->cards <= QUEUE_NODE_CARDS_MAX && d->run_s > 0);
    CHECK(d->project >= 0 && (size_t)d->project < q->projects.len);
    CHECK(d->suit >= 0 && (size_t)d->suit <= q->suits.len);
    CHECK(d->priority >= 0 && d->priority <= QUEUE_PRIORITY_MAX && queue_possible(q, d));
    struct queue_class *c = class_find(q, d, true);
    if (c->head > 1024 && c->head > c->list.len / 2) {
        c->list.len -= c->head;
        memmove(c->list.at, c->list.at + c->head, sizeof(*d) * c->list.len);
        c->head = 0;
    }
    (void)vec_push(&c->list);
    size_t i = c->list.len - 1;
    while (i > c->head && before(d, &c->list.at[i - 1])) {
        c->list.at[i] = c->list.at[i - 1];
        i--;
    }
    c->list.at[i] = *d;
    q->waiting++;
    q->backlog += (double)d->run_s * d->nodes * d->cards;
}

static void class_remove(struct queue *q, struct queue_class *c, size_t i)
{
    memmove(&c->list.at[c->head + 1], &c->list.at[c->head], sizeof(c->list.at[0]) * (i - c->head));
    c->head++;
    q->waiting--;
    q->backlog -= (double)c->run_s * c->nodes * c->cards;
}

bool queue_leave(struct queue *q, const struct queue_demand *d)
{
    struct queue_class *c = class_find(q, d, false);

    for (size_t i = c ? c->head : 0; c && i < c->list.len; i++) {
        if (c->list.at[i].id == d->id) {
            class_remove(q, c, i);
            return true;
        }
    }
    return false;
}

/* ---- who runs ---- */

int32_t queue_run_add(struct queue *q, const struct queue_demand *d, int64_t started_s,
                      const int32_t *nodes)
{
    int32_t slot = (int32_t)q->run.len;
    struct queue_run *r;

    if (q->spare_slots.len)
        slot = q->spare_slots.at[--q->spare_slots.len];
    else
        (void)vec_push(&q->run);
    r = &q->run.at[slot];
    *r = (struct queue_run){.demand = *d,
                            .started_s = started_s,
                            .ends_s = started_s + d->run_s,
                            .node = mem_dup(nodes, sizeof(*nodes) * (size_t)d->nodes),
                            .there = true};
    for (int32_t i = 0; i < d->nodes; i++)
        node_take(q, nodes[i], d->cards, r->ends_s);
    q->projects.at[d->project].used += d->nodes * d->cards;
    return slot;
}

void queue_learn(struct queue *q, int64_t run_s, int64_t ran_s)
{
    CHECK(run_s > 0);
    int64_t part = MIN(ran_s, run_s * 2) * 16 / run_s;

    q->ratio[part < 0 ? 0 : MIN(part, (int64_t)ARRAY_LEN(q->ratio) - 1)]++;
}

void queue_take_back(struct queue *q, int32_t slot)
{
    struct queue_run *r = &q->run.at[slot];
    const struct queue_demand *d = &r->demand;

    CHECK(r->there);
    for (int32_t i = 0; i < d->nodes; i++)
        node_give(q, r->node[i], d->cards, r->ends_s);
    q->projects.at[d->project].used -= d->nodes * d->cards;
    mem_free_ptr(&r->node);
    r->node = NULL;
    r->there = false;
    *vec_push(&q->spare_slots) = slot;
}

void queue_end(struct queue *q, int32_t slot, int64_t now_s)
{
    const struct queue_run *r = &q->run.at[slot];

    queue_learn(q, r->demand.run_s, now_s - r->started_s);
    queue_take_back(q, slot);
}

/* ---- deciding ---- */

/* The better of two nodes with as many free cards: the one that ends nearest to `end`, so that
 * nodes become empty as a whole. */
static int64_t misfit(const struct queue_node *n, int64_t end)
{
    int64_t last = n->busy ? n->end_s[n->busy - 1] : end;

    return last > end ? last - end : end - last;
}

static int pick_order(const void *a, const void *b)
{
    const struct queue_pick *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* The fullest node that takes it, so that empty nodes stay empty. */
static bool place_one(struct queue *q, const struct queue_class *c, int64_t end)
{
    for (int32_t f = c->cards; f <= QUEUE_NODE_CARDS_MAX; f++) {
        struct queue_pick best = {.node = -1};
        for (int32_t i = q->by_free[f]; i >= 0; i = q->nodes.at[i].next) {
            const struct queue_node *n = &q->nodes.at[i];
            struct queue_pick p = {misfit(n, end), n->key, i};
            if ((best.node < 0 || pick_order(&p, &best) < 0) && node_open(n, c->cards, end) &&
                queue_suits(q, c->suit, i))
                best = p;
        }
        if (best.node >= 0) {
            *vec_push(&q->picked) = best;
            return true;
        }
    }
    return false;
}

/* Fills picked with the nodes that would take the first of the class now. */
static bool place(struct queue *q, const struct queue_class *c)
{
    int64_t end = q->now_s + c->run_s;

    q->picked.len = 0;
    if ((int64_t)c->nodes * c->cards > q->free)
        return false;
    if (c->nodes == 1)
        return place_one(q, c, end);
    for (int32_t f = c->cards; f <= QUEUE_NODE_CARDS_MAX; f++)
        for (int32_t i = q->by_free[f]; i >= 0; i = q->nodes.at[i].next)
            if (node_open(&q->nodes.at[i], c->cards, end) && queue_suits(q, c->suit, i))
                *vec_push(&q->picked) = (struct queue_pick){f, q->nodes.at[i].key, i};
    if (q->picked.len < (size_t)c->nodes)
        return false;
    qsort(q->picked.at, q->picked.len, sizeof(q->picked.at[0]), pick_order);
    return true;
}

static const struct queue_demand *class_first(const struct queue_class *c)
{
    return &c->list.at[c->at];
}

static void start(struct queue *q, struct queue_class *c, struct queue_plan *plan)
{
    struct queue_demand d = *class_first(c);

    q->nodes_picked.len = 0;
    for (int32_t i = 0; i < d.nodes; i++) {
        struct queue_node *n = &q->nodes.at[q->picked.at[i].node];
        if (q->now_s + d.run_s > n->held_s)
            n->spare -= d.cards;
        *vec_push(&q->nodes_picked) = q->picked.at[i].node;
        q->when_cards = 0;
    }
    *vec_push(&plan->start) = queue_run_add(q, &d, q->now_s, q->nodes_picked.at);
    class_remove(q, c, c->at);
    c->at++;
}

/* When each node has k cards free, side by side: the same k is asked for again and again. */
static void when_fill(struct queue *q, int32_t k)
{
    q->when.len = 0;
    VEC_FOREACH (n, &q->nodes)
        *vec_push(&q->when) =
            n->cards < k || n->held_s != INT64_MAX ? INT64_MAX : node_free_at(q, n, k);
    q->when_cards = k;
}

static int32_t when_first(const struct queue *q, int32_t suit)
{
    const int64_t *when = q->when.at;
    int32_t best = -1;

    for (int32_t i = 0; i < (int32_t)q->when.len; i++)
        if (queue_suits(q, suit, i) &&
            (best < 0 || when[i] < when[best] ||
             (when[i] == when[best] && q->nodes.at[i].key < q->nodes.at[best].key)))
            best = i;
    return best;
}

/* Fills picked with the nodes that can take the first of the class earliest, in that order. Gangs
 * are small against the pool: picking the first again and again is cheaper than sorting it. */
static bool hold_pick(struct queue *q, const struct queue_class *c)
{
    int32_t there = 0;

    if (q->when_cards != c->cards)
        when_fill(q, c->cards);
    q->picked.len = 0;
    for (size_t i = 0; i < q->when.len; i++)
        there += q->when.at[i] != INT64_MAX && queue_suits(q, c->suit, (int32_t)i);
    if (there < c->nodes)
        return false;
    for (int32_t k = 0; k < c->nodes; k++) {
        int32_t i = when_first(q, c->suit);
        *vec_push(&q->picked) = (struct queue_pick){q->when.at[i], 0, i};
        q->when.at[i] = INT64_MAX;
    }
    return true;
}

static void hold(struct queue *q, const struct queue_class *c, struct queue_plan *plan)
{
    struct queue_reservation *r;

    if (!hold_pick(q, c))
        return; /* all that would do are held for others */
    r = vec_push(&plan->reservation);
    r->id = class_first(c)->id;
    r->start_s = q->picked.at[c->nodes - 1].at;
    r->nodes = c->nodes;
    r->cards = c->cards;
    r->project = c->project;
    r->suit = c->suit;
    r->first_node = q->picked.at[0].node;
    for (int32_t i = 0; i < c->nodes; i++) {
        struct queue_node *n = &q->nodes.at[q->picked.at[i].node];
        int32_t busy = n->busy;
        while (busy > 0 && n->end_s[n->busy - busy] <= r->start_s)
            busy--;
        n->held_s = r->start_s;
        n->spare = MAX(n->cards - busy - c->cards, 0);
        *vec_push(&q->held) = q->picked.at[i].node;
    }
}

/* Who has its share waits behind who has not. All of a project alike, whatever the demand's size,
 * so that the small ones of a project never pass its large ones; and the same for each project, so
 * that giving back changes nobody's place: who gave back would else take the cards again. */
static int64_t set_back(const struct queue *q, const struct queue_class *c)
{
    double used = (double)q->projects.at[c->project].used;

    if (q->share_sum == 0 || used < queue_share_cards(q, c->project))
        return 0;
    return q->rules.patience_max_s + q->rules.whole_lead_s;
}

static bool class_before(const struct queue_class *a, const struct queue_class *b)
{
    if (a->due != b->due)
        return a->due < b->due;
    return before(class_first(a), class_first(b));
}

static void sift(struct queue_class **heap, size_t n, size_t i)
{
    for (;;) {
        size_t least = i, l = 2 * i + 1;
        if (l < n && class_before(heap[l], heap[least]))
            least = l;
        if (l + 1 < n && class_before(heap[l + 1], heap[least]))
            least = l + 1;
        if (least == i)
            return;
        struct queue_class *c = heap[i];
        heap[i] = heap[least];
        heap[least] = c;
        i = least;
    }
}

/* The longest patience now: what the whole queue would take, in part. A short queue is near to
 * first come first served, a long one sorts itself out. */
static double patience_cap(const struct queue *q)
{
    double s = q->backlog / (double)q->cards * q->rules.patience_of_backlog;

    return MIN(MAX(s, (double)q->rules.patience_min_s), (double)q->rules.patience_max_s);
}

static int64_t due_of(const struct queue *q, const struct queue_class *c, int64_t since_s)
{
    if (q->rules.order == QUEUE_ARRIVAL)
        return since_s;
    double s = MIN((double)c->run_s * q->rules.patience_per_run, q->cap_s);
    if (!c->whole)
        s += MIN((double)q->rules.whole_lead_s, q->cap_s);
    return since_s + ((int64_t)s >> (2 * c->priority)) + set_back(q, c);
}

static void due_set(const struct queue *q, struct queue_class *c)
{
    c->due = due_of(q, c, class_first(c)->since_s);
}

int64_t queue_due(const struct queue *q, const struct queue_demand *d)
{
    struct queue_class c = {.project = d->project,
                            .priority = d->priority,
                            .suit = d->suit,
                            .nodes = d->nodes,
                            .cards = d->cards,
                            .run_s = d->run_s,
                            .whole = whole(q, d)};

    return due_of(q, &c, d->since_s);
}

/* What waits for its project's own limit, or for nodes, keeps its place under the limit: else small
 * demands of the project would use the limit up for ever. */
static bool over_limit(const struct queue *q, const struct queue_class *c)
{
    const struct queue_project *p = &q->projects.at[c->project];

    return p->limit > 0 && p->used + p->promised + (int64_t)c->nodes * c->cards > p->limit;
}

static void promise(struct queue *q, const struct queue_class *c)
{
    q->projects.at[c->project].promised += (int64_t)c->nodes * c->cards;
}

/* Looks at the first of the class; false: there is nothing more to be had from the class. */
static bool look(struct queue *q, struct queue_class *c, struct queue_plan *plan)
{
    if (over_limit(q, c)) {
        promise(q, c);
        return false;
    }
    if (!c->blocked && place(q, c)) {
        start(q, c, plan);
    } else {
        c->blocked = true; /* nothing becomes free while we decide */
        if (plan->reservation.len >= (size_t)q->rules.reservations)
            return false;
        hold(q, c, plan);
        promise(q, c);
        c->at++;
    }
    return c->at < c->list.len;
}

static size_t heap_make(struct queue *q)
{
    size_t n = 0;

    for (size_t i = 0; i < q->classes.len; i++) {
        struct queue_class *c = q->classes.at[i];
        c->at = c->head;
        c->blocked = false;
        if (c->head == c->list.len)
            continue;
        due_set(q, c);
        q->classes.at[i] = q->classes.at[n];
        q->classes.at[n++] = c;
    }
    for (size_t i = n / 2; i-- > 0;)
        sift(q->classes.at, n, i);
    return n;
}

void queue_decide(struct queue *q, int64_t now_s, struct queue_plan *plan)
{
    size_t n;

    CHECK(now_s >= q->now_s);
    q->now_s = now_s;
    plan->start.len = plan->reservation.len = plan->give_back.len = 0;
    VEC_FOREACH (i, &q->held)
        q->nodes.at[*i].held_s = INT64_MAX;
    VEC_FOREACH (p, &q->projects)
        p->promised = 0;
    q->held.len = 0;
    q->when_cards = 0;
    q->cap_s = patience_cap(q);
    n = heap_make(q);
    while (n > 0) {
        struct queue_class *c = q->classes.at[0];
        int64_t due = c->due;
        due_set(q, c); /* its project may borrow now, by what another class started */
        if (c->due > due) {
            sift(q->classes.at, n, 0);
            continue;
        }
        bool more = look(q, c, plan);
        if (!more && c->blocked && !q->rules.backfill)
            break;
        if (more) {
            due_set(q, c);
        } else { /* c stays in the list, behind the heap */
            q->classes.at[0] = q->classes.at[--n];
            q->classes.at[n] = c;
        }
        sift(q->classes.at, n, 0);
    }
    queue_share_give(q, plan);
}
