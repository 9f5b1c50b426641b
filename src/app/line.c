#include "app/line.h"

#include "app/core_int.h"
#include "app/lifecycle.h"
#include "domain/pool.h"
#include "domain/queue.h"

#define TELL_MS 30000       /* estimates are made anew so often */
#define TELL_SLACK_MS 60000 /* … and written when they moved by more */
#define PLAY_STEPS 256      /* ends that an estimate looks ahead */
#define LEARN_LEASES 256    /* ended leases that estimates learn from */
#define ROUNDS_MAX 64       /* decisions of a tick: each starts something or rules a node out */

struct line_node { /* a node's cards of one model */
    size_t node;   /* in the pool */
    const char *model;
};
struct line_project {
    struct id id;
    int32_t index, priority;
};
struct line_wait {
    struct instance *i; /* in the list */
    struct queue_demand demand;
    bool *fits; /* owned; by node of the queue */
    bool in;    /* it waits there, or was started there */
    int64_t due;
};
struct line {
    struct queue q;
    struct queue_plan plan;
    struct life_pool pool;
    struct instance_list list;
    struct queue_terms_list terms;
    VEC(struct line_node) nodes;
    VEC(struct line_project) projects;
    VEC(struct line_wait) waits; /* those that ask for cards */
};

static void line_fini(struct line *l)
{
    VEC_FOREACH (w, &l->waits)
        free(w->fits);
    vec_fini(&l->waits);
    vec_fini(&l->projects);
    vec_fini(&l->nodes);
    vec_fini(&l->terms);
    vec_fini(&l->list);
    life_pool_fini(&l->pool);
    queue_plan_fini(&l->plan);
    queue_fini(&l->q);
}

/* loading */

static struct queue_terms terms_of(const struct queue_terms_list *list, struct id project)
{
    VEC_FOREACH (t, list)
        if (str_eq(t->project.s, project.s))
            return *t;
    return (struct queue_terms){.project = project, .share = 1};
}

enum err line_terms(struct op *op, struct id project, struct queue_terms *ret_t)
{
    struct queue_terms_list list = {0};
    enum err e = store_queue_terms_list(op->store, &list);

    *ret_t = terms_of(&list, project);
    vec_fini(&list);
    return e;
}

static const struct line_project *project_of(struct line *l, struct id id)
{
    VEC_FOREACH (p, &l->projects)
        if (str_eq(p->id.s, id.s))
            return p;
    struct queue_terms t = terms_of(&l->terms, id);
    struct line_project p = {.id = id, .priority = t.priority};

    if (l->q.projects.len < QUEUE_PROJECTS_MAX) /* the rest is one project without a share */
        p.index = queue_project_add(&l->q, t.share, (int32_t)t.cards_max);
    *vec_push(&l->projects) = p;
    return &l->projects.at[l->projects.len - 1];
}

static bool counts(const struct node_gpu *g, const char *model)
{
    return (g->healthy || g->lease.s[0]) && str_eq(g->model, model);
}

static void add_node(struct line *l, size_t at)
{
    const struct node *n = l->pool.at[at].node;

    for (int32_t g = 0; g < n->gpu_count; g++) {
        const char *model = n->gpus[g].model;
        char name[ID_SIZE + GPU_MODEL_SIZE];
        int32_t cards = 0;

        for (int32_t k = 0; k < n->gpu_count; k++) {
            if (k < g && counts(&n->gpus[k], model))
                cards = INT32_MIN; /* seen already */
            cards += counts(&n->gpus[k], model);
        }
        if (cards <= 0)
            continue;
        CHECK(str_printf(name, sizeof(name), "%s%s", n->id.s, model));
        queue_node_add(&l->q, pool_key(name), cards);
        *vec_push(&l->nodes) = (struct line_node){at, model};
    }
}

/* All cards of a line_node: what has its node alone takes them from everybody. */
static int32_t all_cards(const struct line *l, const struct line_node *ln)
{
    const struct node *n = l->pool.at[ln->node].node;
    int32_t all = 0;

    for (int32_t k = 0; k < n->gpu_count; k++)
        all += counts(&n->gpus[k], ln->model);
    return all;
}

static int lease_by_id(const void *key, const void *lease)
{
    return strcmp(key, ((const struct queue_lease *)lease)->lease.s);
}

static int64_t seconds(int64_t ms)
{
    return MAX((ms + MS_PER_S - 1) / MS_PER_S, (int64_t)1);
}

/* Up to whole minutes: what is announced alike waits in one class of the queue. */
static int64_t minutes(int64_t s)
{
    return (s + 59) / 60 * 60;
}

/* How long a lease will have run by what is known. */
static int64_t run_of(const struct op *op, const struct queue_lease *x)
{
    if (x->stop_at || x->ends_at <= op->now) /* it is being cleared away */
        return seconds(op->now + core_config_of(op->core)->stop_grace_ms - x->granted_at);
    if (x->ends_at == UTIME_NEVER)
        return seconds(op->now - x->granted_at) + LINE_OPEN_S;
    return seconds(x->ends_at - x->granted_at);
}

static void add_runs(struct op *op, struct line *l, int32_t at, const struct queue_lease_list *list)
{
    const struct line_node *ln = &l->nodes.at[at];
    const struct node *n = l->pool.at[ln->node].node;

    for (int32_t g = 0; g < n->gpu_count; g++) {
        const char *lease = n->gpus[g].lease.s;
        struct queue_demand d = {.nodes = 1};
        bool first = lease[0] && str_eq(n->gpus[g].model, ln->model);

        for (int32_t k = 0; k < n->gpu_count && first; k++) {
            bool same = str_eq(n->gpus[k].lease.s, lease) && str_eq(n->gpus[k].model, ln->model);

            first = !same || k >= g;
            d.cards += same;
        }
        if (!first)
            continue;
        if (l->pool.at[ln->node].exclusive)
            d.cards = all_cards(l, ln);
        const struct queue_lease *x =
            list->len ? bsearch(lease, list->at, list->len, sizeof(*x), lease_by_id) : NULL;
        struct queue_lease none = {.granted_at = op->now, .ends_at = op->now};
        d.id = pool_key(lease);
        d.project = x ? project_of(l, x->project)->index : 0;
        x = x ? x : &none;
        d.run_s = run_of(op, x);
        (void)queue_run_add(&l->q, &d, x->granted_at / MS_PER_S, &at);
    }
}

static enum err load_pool(struct op *op, struct line *l)
{
    struct queue_lease_list leases = {0};
    enum err e;

    TRY(store_queue_terms_list(op->store, &l->terms));
    TRY(life_pool_load(op, &l->pool));
    for (size_t n = 0; n < l->pool.nodes.len; n++)
        add_node(l, n);
    e = store_queue_lease_list(op->store, &leases);
    for (size_t n = 0; e == ERR_OK && n < l->nodes.len; n++)
        add_runs(op, l, (int32_t)n, &leases);
    vec_fini(&leases);
    return e;
}

/* The nodes that would do if their cards were free. */
static void suit_fill(struct line *l, const struct place_ask *ask, bool *fits)
{
    for (size_t n = 0; n < l->nodes.len; n++) {
        const struct line_node *ln = &l->nodes.at[n];

        if (!str_eq(ln->model, ask->shape.gpu_model))
            continue;
        struct place_why w = place_one(ask, &l->pool.at[ln->node]);
        fits[n] = w.ever &&
                  (w.bar == PLACE_FITS || w.bar == PLACE_CARDS || w.bar == PLACE_EXCLUSIVE);
    }
}

/* The cards that must be free where it goes: of a node alone all of the largest that would do. */
static int32_t cards_wanted(const struct line *l, const struct place_ask *ask, const bool *fits)
{
    int32_t most = ask->shape.gpu_count;

    for (size_t n = 0; ask->shape.exclusive && n < l->nodes.len; n++)
        if (fits[n])
            most = MAX(most, all_cards(l, &l->nodes.at[n]));
    return most;
}

static void enter(struct line *l, struct line_wait *w)
{
    w->demand.suit = queue_suit_add(&l->q, w->fits);
    w->in = queue_possible(&l->q, &w->demand);
    if (w->in)
        queue_enter(&l->q, &w->demand);
}

static enum err add_wait(struct op *op, struct line *l, struct instance *i)
{
    struct image image = {0};
    struct place_ask ask;
    int64_t for_s = life_for_s(op, i);

    TRY(life_place_ask(op, i, &image, &ask));
    if (!ask.shape.gpu_count)
        return ERR_OK;
    const struct line_project *p = project_of(l, i->project);
    struct line_wait *w = vec_push(&l->waits);
    *w = (struct line_wait){.i = i,
                            .fits = mem_alloc((l->nodes.len + 1) * sizeof(bool)),
                            .demand = {.id = pool_key(i->id.s),
                                       .project = p->index,
                                       .priority = p->priority,
                                       .nodes = 1,
                                       .cards = ask.shape.gpu_count,
                                       .since_s = i->since / MS_PER_S,
                                       .run_s = minutes(for_s ? for_s : LINE_OPEN_S)}};
    suit_fill(l, &ask, w->fits);
    w->demand.cards = cards_wanted(l, &ask, w->fits);
    enter(l, w);
    return ERR_OK;
}

/* Who waits. also: an instance that asks and is not in line, or NULL. */
static enum err line_list(struct op *op, struct line *l, const struct instance *also)
{
    struct queue_rules rules = queue_rules_ours;

    rules.min_run_s = 0; /* what is rented is not asked back */
    queue_init(&l->q, &rules);
    TRY(store_instance_list_state(op->store, INSTANCE_QUEUED, &l->list));
    VEC_FOREACH (i, &l->list)
        if (also && str_eq(i->id.s, also->id.s))
            also = NULL;
    if (also)
        *vec_push(&l->list) = *also;
    return ERR_OK;
}

static enum err line_load(struct op *op, struct line *l)
{
    TRY(load_pool(op, l));
    for (size_t n = 0; n < l->list.len; n++)
        TRY(add_wait(op, l, &l->list.at[n]));
    return ERR_OK;
}

static struct line_wait *wait_of(struct line *l, uint64_t id)
{
    VEC_FOREACH (w, &l->waits)
        if (w->demand.id == id)
            return w;
    return NULL;
}

static const struct node *node_of(const struct line *l, int32_t at)
{
    return l->pool.at[l->nodes.at[at].node].node;
}

/* starting */

/* Why it still waits is always to be seen. */
static enum err why_save(struct op *op, struct id instance)
{
    struct instance i;

    TRY(store_instance_get_any(op->store, instance, &i));
    if (i.why.code == op->why.code)
        return ERR_OK;
    i.why = op->why;
    return store_instance_save(op->store, &i);
}

/* ret_why: ERR_OK, or why not: then nothing was changed. */
static enum err start_one(struct op *op, struct instance *i, struct id node, enum err *ret_why)
{
    struct instance *x = mem_dup(i, sizeof(*i)); /* a refusal comes late: x is half changed then */
    AUTO_FREE struct instance *owned UNUSED = x;
    enum err e;

    *ret_why = ERR_OK;
    TRY(store_mark(op->store));
    e = life_grant_on(op, x, INSTANCE_EV_PLACED, node);
    if (e == ERR_OK) {
        *i = *x;
        return store_mark_keep(op->store);
    }
    TRY(store_mark_undo(op->store));
    if (e == ERR_STORE)
        return ERR_STORE;
    *ret_why = e;
    TRY(why_save(op, i->id));
    op->why = (struct refusal){0};
    return ERR_OK;
}

/* It cannot be had there now for another reason than cards: it looks elsewhere. */
static void rule_out(struct line *l, struct line_wait *w, int32_t at)
{
    w->fits[at] = false;
    enter(l, w);
}

/* ret_again: somebody was refused, which leaves room for others. */
static enum err start_all(struct op *op, struct line *l, bool *ret_started, bool *ret_again)
{
    *ret_again = false;
    for (size_t n = 0; n < l->plan.start.len; n++) {
        int32_t slot = l->plan.start.at[n], at = l->q.run.at[slot].node[0];
        struct line_wait *w = wait_of(l, l->q.run.at[slot].demand.id);
        enum err why;

        CHECK(w);
        TRY(start_one(op, w->i, node_of(l, at)->id, &why));
        *ret_started |= why == ERR_OK;
        if (why == ERR_OK)
            continue;
        *ret_again = true;
        queue_take_back(&l->q, slot);
        w->in = false; /* who cannot pay holds nothing */
        if (why == ERR_CAPACITY_NONE || why == ERR_CAPACITY_NEVER)
            rule_out(l, w, at);
    }
    return ERR_OK;
}

static int seat_order(const void *a, const void *b)
{
    const struct line_wait *x = a, *y = b;

    if (x->demand.priority != y->demand.priority)
        return x->demand.priority > y->demand.priority ? -1 : 1;
    if (x->demand.since_s != y->demand.since_s)
        return x->demand.since_s < y->demand.since_s ? -1 : 1;
    return x->demand.id < y->demand.id ? -1 : x->demand.id > y->demand.id;
}

static enum err start_seats(struct op *op, struct line *l, bool *ret_started)
{
    VEC(struct line_wait) seats = {0};
    enum err e = ERR_OK, why;

    VEC_FOREACH (i, &l->list) {
        if (life_run_shape(core_config_of(op->core), i).gpu_count)
            continue;
        *vec_push(&seats) =
            (struct line_wait){.i = i,
                               .demand = {.id = pool_key(i->id.s),
                                          .priority = terms_of(&l->terms, i->project).priority,
                                          .since_s = i->since / MS_PER_S}};
    }
    if (seats.len)
        qsort(seats.at, seats.len, sizeof(seats.at[0]), seat_order);
    for (size_t n = 0; e == ERR_OK && n < seats.len; n++) {
        e = start_one(op, seats.at[n].i, (struct id){""}, &why);
        *ret_started |= why == ERR_OK;
    }
    vec_fini(&seats);
    return e;
}

/* telling */

static int by_due(const void *a, const void *b)
{
    const struct line_wait *x = *(struct line_wait *const *)a, *y = *(struct line_wait *const *)b;

    if (x->due != y->due)
        return x->due < y->due ? -1 : 1;
    return seat_order(x, y);
}

static int by_id(const void *a, const void *b)
{
    const struct queue_wait *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static utime_t told_time(int64_t s)
{
    return s == INT64_MAX ? 0 : s * MS_PER_S;
}

static bool moved(utime_t a, utime_t b)
{
    return a > b + TELL_SLACK_MS || b > a + TELL_SLACK_MS || !a != !b;
}

static enum err told_save(struct op *op, const struct queue_told *t)
{
    struct queue_told was;
    enum err e = store_queue_told_get(op->store, t->instance, &was);

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (e == ERR_OK && was.place == t->place && was.waiting == t->waiting &&
        str_eq(was.node.s, t->node.s) && !moved(was.early, t->early) &&
        !moved(was.likely, t->likely) && !moved(was.late, t->late))
        return ERR_OK;
    return store_queue_told_save(op->store, t);
}

static struct queue_told told_of(const struct op *op, const struct line *l,
                                 const struct line_wait *w, const struct queue_estimate *e)
{
    struct queue_told t = {.instance = w->i->id};
    bool starts = false;

    VEC_FOREACH (slot, &l->plan.start)
        starts |= l->q.run.at[*slot].there && l->q.run.at[*slot].demand.id == w->demand.id;
    if (starts) {
        t.early = t.likely = t.late = op->now;
    } else if (w->in) {
        t.early = told_time(e->early_s);
        t.likely = told_time(e->likely_s);
        t.late = told_time(e->late_s);
    }
    VEC_FOREACH (r, &l->plan.reservation)
        if (r->id == w->demand.id)
            t.node = node_of(l, r->first_node)->id;
    return t;
}

static enum err learn(struct op *op, struct line *l)
{
    struct queue_lease_list ended = {0};
    enum err e = store_queue_lease_ended(op->store, LEARN_LEASES, &ended);

    VEC_FOREACH (x, &ended)
        queue_learn(&l->q, seconds(x->ends_at - x->granted_at),
                    (x->ended_at - x->granted_at) / MS_PER_S);
    vec_fini(&ended);
    return e;
}

/* The last decision stands; who was started is no more in the list of the store. */
static enum err tell_all(struct op *op, struct line *l)
{
    size_t n = l->waits.len, k = 0;
    struct queue_wait *waits = mem_alloc((n + 1) * sizeof(*waits));
    AUTO_FREE struct queue_wait *owned UNUSED = waits;
    struct line_wait **order = mem_alloc((n + 1) * sizeof(struct line_wait *));
    AUTO_FREE struct line_wait **owned_order UNUSED = order;

    TRY(learn(op, l));
    for (size_t i = 0; i < n; i++) {
        struct line_wait *w = &l->waits.at[i];

        if (w->i->state != INSTANCE_QUEUED)
            continue;
        w->due = queue_due(&l->q, &w->demand);
        waits[k] = (struct queue_wait){.id = w->demand.id};
        order[k++] = w;
    }
    qsort(order, k, sizeof(struct line_wait *), by_due);
    qsort(waits, k, sizeof(*waits), by_id);
    queue_estimate_all(&l->q, PLAY_STEPS, waits, k);
    for (size_t i = 0; i < k; i++) {
        struct queue_wait key = {.id = order[i]->demand.id};
        const struct queue_wait *w = bsearch(&key, waits, k, sizeof(key), by_id);
        struct queue_told t = told_of(op, l, order[i], &w->start);

        t.place = (int64_t)i + 1;
        t.waiting = (int64_t)k;
        TRY(told_save(op, &t));
    }
    op->core->line_told_ms = op->now;
    return store_queue_told_prune(op->store);
}

/* entries */

static enum err end_late(struct op *op)
{
    struct instance_list list = {0};
    enum err e = store_instance_list_state(op->store, INSTANCE_QUEUED, &list);

    for (size_t n = 0; e == ERR_OK && n < list.len; n++)
        if (list.at[n].ends_at <= op->now)
            e = life_stop(op, &list.at[n], END_REACHED);
    vec_fini(&list);
    return e;
}

enum err line_tick(struct op *op)
{
    CLEANUP(line_fini) struct line l = {0};
    bool started = false, again = true;

    TRY(end_late(op));
    TRY(line_list(op, &l, NULL));
    if (!l.list.len)
        return ERR_OK;
    TRY(line_load(op, &l));
    for (int round = 0; again && round < ROUNDS_MAX; round++) {
        queue_decide(&l.q, op->now / MS_PER_S, &l.plan);
        TRY(start_all(op, &l, &started, &again));
    }
    TRY(start_seats(op, &l, &started));
    if (started || op->now - op->core->line_told_ms >= TELL_MS)
        return tell_all(op, &l);
    return ERR_OK;
}

static enum err refuse_limit(struct op *op, const struct instance *i, enum err code, int64_t limit)
{
    (void)refusef(&op->why, code, "what", "%s", i->shape.gpu_model);
    refusal_setf(&op->why, "why", "the project's limit is %" PRId64 " cards", limit);
    refusal_set(&op->why, "fit", code == ERR_CAPACITY_NONE ? "suanli rent --queue" : "suanli ls");
    return code;
}

enum err line_admit(struct op *op, const struct instance *i, struct id *ret_node)
{
    CLEANUP(line_fini) struct line l = {0};
    const struct line_wait *w;
    struct queue_terms t;

    *ret_node = (struct id){""};
    TRY(line_list(op, &l, i));
    TRY(line_terms(op, i->project, &t));
    if (l.list.len == 1 && !t.cards_max)
        return ERR_OK;
    TRY(line_load(op, &l));
    w = wait_of(&l, pool_key(i->id.s));
    if (w && t.cards_max && w->demand.cards > t.cards_max)
        return refuse_limit(op, i, ERR_CAPACITY_NEVER, t.cards_max);
    if (!w || !w->in) /* a seat; or placing says why not */
        return ERR_OK;
    queue_decide(&l.q, op->now / MS_PER_S, &l.plan);
    VEC_FOREACH (slot, &l.plan.start)
        if (l.q.run.at[*slot].demand.id == w->demand.id)
            *ret_node = node_of(&l, l.q.run.at[*slot].node[0])->id;
    if (ret_node->s[0])
        return ERR_OK;
    if (t.cards_max && l.q.projects.at[w->demand.project].used + w->demand.cards > t.cards_max)
        return refuse_limit(op, i, ERR_CAPACITY_NONE, t.cards_max);
    (void)refusef(&op->why, ERR_CAPACITY_NONE, "what", "%s", i->shape.gpu_model);
    refusal_set(&op->why, "why", "others wait for these cards");
    refusal_set(&op->why, "fit", "suanli rent --queue");
    return ERR_CAPACITY_NONE;
}

enum err line_tell(struct op *op)
{
    CLEANUP(line_fini) struct line l = {0};

    TRY(line_list(op, &l, NULL));
    if (!l.list.len)
        return ERR_OK;
    TRY(line_load(op, &l));
    queue_decide(&l.q, op->now / MS_PER_S, &l.plan);
    return tell_all(op, &l);
}
