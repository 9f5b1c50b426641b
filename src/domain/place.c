#include "domain/place.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "domain/node.h"
#include "domain/place_engine.h"

static const char *const bars[] = {"fits",      "pinned", "model", "driver", "cuda", "state",
                                   "exclusive", "cards",  "cpu",   "memory", "disk", "ports"};

const char *place_bar_name(enum place_bar b)
{
    CHECK((size_t)b < ARRAY_LEN(bars));
    return bars[b];
}

static char fold(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Small letters without blanks, dashes and underscores. */
static size_t model_fold(const char *s, char *out, size_t size)
{
    size_t len = 0;

    for (; *s && len + 1 < size; s++)
        if (*s != ' ' && *s != '-' && *s != '_')
            out[len++] = fold(*s);
    out[len] = 0;
    return len;
}

size_t place_model_match(const char *typed, const char *model)
{
    char t[GPU_MODEL_SIZE], m[GPU_MODEL_SIZE];
    size_t tl = model_fold(typed, t, sizeof(t)), ml = model_fold(model, m, sizeof(m));

    if (!tl || !strstr(m, t))
        return 0;
    return ml - tl + 1;
}

int32_t place_free(const struct node *n, const char *model)
{
    int32_t free_cards = 0;

    for (int32_t i = 0; i < n->gpu_count; i++)
        free_cards +=
            n->gpus[i].healthy && !n->gpus[i].lease.s[0] && strcmp(n->gpus[i].model, model) == 0;
    return free_cards;
}

static int32_t cards_of(const struct node *n, const char *model)
{
    int32_t count = 0;

    for (int32_t i = 0; i < n->gpu_count; i++)
        count += strcmp(n->gpus[i].model, model) == 0;
    return count;
}

void place_share(const struct node *n, int32_t count, int32_t *ret_cpu_milli, int64_t *ret_mib)
{
    int32_t all = MAX(n->gpu_count, 1);

    *ret_cpu_milli = (int32_t)((int64_t)n->cores * 1000 * count / all);
    /* a tenth stays with the machine itself */
    *ret_mib = n->memory_mib / 10 * 9 * count / all;
}

static struct shape shape_on(const struct place_ask *ask, const struct node *n)
{
    struct shape s = ask->shape;
    int32_t cpu;
    int64_t mib;

    if (s.gpu_count) {
        place_share(n, s.gpu_count, &cpu, &mib);
        if (!s.cpu_milli)
            s.cpu_milli = MAX(cpu, 100);
        if (!s.memory_mib)
            s.memory_mib = mib;
    }
    return s;
}

static struct place_why bar(enum place_bar b, int64_t need, int64_t have)
{
    return (struct place_why){.bar = b, .need = need, .have = have};
}

static struct place_why node_bar(const struct place_ask *ask, const struct node *n)
{
    if (ask->pinned.s[0] && strcmp(ask->pinned.s, n->id.s) != 0)
        return bar(PLACE_PINNED, 1, 0);
    if (ask->shape.gpu_count && !cards_of(n, ask->shape.gpu_model))
        return bar(PLACE_MODEL, ask->shape.gpu_count, 0);
    if (ask->need_driver[0] && ask->shape.gpu_count &&
        version_compare(n->driver, ask->need_driver) < 0)
        return bar(PLACE_DRIVER, 1, 0);
    if (ask->need_cuda[0] && ask->shape.gpu_count && version_compare(n->cuda, ask->need_cuda) < 0)
        return bar(PLACE_CUDA, 1, 0);
    return bar(PLACE_FITS, 0, 0);
}

/* The amounts, against a node as it is or (empty) as it would be with nothing taken. */
static struct place_why amount_bar(const struct place_ask *ask, const struct place_node *p,
                                   bool empty)
{
    const struct node *n = p->node;
    struct shape s = shape_on(ask, n);
    int64_t cards = empty ? cards_of(n, s.gpu_model) : place_free(n, s.gpu_model);
    int64_t cpu = (int64_t)n->cores * 1000 - (empty ? 0 : p->cpu_milli_used);
    int64_t mib = n->memory_mib - (empty ? 0 : p->memory_mib_used);
    int64_t disk = n->disk_mib - (empty ? 0 : p->disk_mib_used);
    int64_t ports = (int64_t)n->port_max - n->port_min + 1 - (empty ? 0 : p->ports_used);

    if (!empty && (p->exclusive || (s.exclusive && p->leases)))
        return bar(PLACE_EXCLUSIVE, p->exclusive, p->leases);
    if (s.gpu_count > cards)
        return bar(PLACE_CARDS, s.gpu_count, cards);
    if (s.cpu_milli > cpu)
        return bar(PLACE_CPU, s.cpu_milli, MAX(cpu, (int64_t)0));
    if (s.memory_mib > mib)
        return bar(PLACE_MEMORY, s.memory_mib, MAX(mib, (int64_t)0));
    if (ask->disk_mib > disk)
        return bar(PLACE_DISK, ask->disk_mib, MAX(disk, (int64_t)0));
    if (ask->ports > ports)
        return bar(PLACE_PORTS, ask->ports, MAX(ports, (int64_t)0));
    return bar(PLACE_FITS, 0, 0);
}

struct place_why place_one(const struct place_ask *ask, const struct place_node *p)
{
    struct place_why w = node_bar(ask, p->node);

    if (w.bar != PLACE_FITS)
        return w;
    if (p->node->state != NODE_READY)
        w = bar(PLACE_STATE, 1, 0);
    else
        w = amount_bar(ask, p, false);
    w.ever = amount_bar(ask, p, true).bar == PLACE_FITS;
    return w;
}

static bool fits_somewhere(const struct place_ask *ask, const struct place_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (place_one(ask, &nodes[i]).bar == PLACE_FITS)
            return true;
    return false;
}

static struct shape nearest_cards(const struct place_ask *ask, const struct place_node *nodes,
                                  size_t n)
{
    struct place_ask t = *ask;

    t.shape.cpu_milli = 0;
    t.shape.memory_mib = 0;
    for (t.shape.gpu_count = ask->shape.gpu_count; t.shape.gpu_count > 0; t.shape.gpu_count--)
        if (fits_somewhere(&t, nodes, n))
            return t.shape;
    t.shape.gpu_count = ask->shape.gpu_count;
    for (size_t i = 0; i < n; i++) {
        const struct node *node = nodes[i].node;

        for (int32_t g = 0; g < node->gpu_count; g++) {
            memcpy(t.shape.gpu_model, node->gpus[g].model, GPU_MODEL_SIZE);
            if (fits_somewhere(&t, nodes, n))
                return t.shape;
        }
    }
    return (struct shape){0};
}

static struct shape nearest_seat(const struct place_ask *ask, const struct place_node *nodes,
                                 size_t n)
{
    struct place_ask t = *ask;

    for (int32_t cores = ask->shape.cpu_milli / 1000; cores > 0; cores = cores / 2) {
        t.shape.cpu_milli = cores * 1000;
        t.shape.memory_mib = ask->shape.memory_mib * cores * 1000 / ask->shape.cpu_milli;
        if (fits_somewhere(&t, nodes, n))
            return t.shape;
    }
    return (struct shape){0};
}

/* Beside others what cannot be had alone. */
static struct shape nearest(const struct place_ask *ask, const struct place_node *nodes, size_t n)
{
    struct place_ask t = *ask;
    struct shape s =
        ask->shape.gpu_count ? nearest_cards(ask, nodes, n) : nearest_seat(ask, nodes, n);

    if (!ask->shape.exclusive || s.gpu_count)
        return s;
    t.shape.exclusive = false;
    return nearest_cards(&t, nodes, n);
}

static void pick_cards(const struct place_ask *ask, const struct node *n, struct place_result *r)
{
    int32_t got = 0;

    for (int32_t i = 0; i < n->gpu_count && got < ask->shape.gpu_count; i++)
        if (n->gpus[i].healthy && !n->gpus[i].lease.s[0] &&
            strcmp(n->gpus[i].model, ask->shape.gpu_model) == 0)
            r->gpu[got++] = i;
    CHECK(got == ask->shape.gpu_count);
}

/* choosing */

/* Numbers for the models of these nodes: the place of the first card of the same model. */
struct models {
    const char *name[POOL_MODELS_MAX];
    size_t count;
};

static uint8_t model_number(struct models *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->name[i], name) == 0)
            return (uint8_t)i;
    if (m->count == POOL_MODELS_MAX) /* the rest count as one */
        return POOL_MODELS_MAX - 1;
    m->name[m->count] = name;
    return (uint8_t)m->count++;
}

static struct pool_node pool_node_of(const struct place_node *p, struct models *m)
{
    const struct node *n = p->node;
    int64_t ports = (int64_t)n->port_max - n->port_min + 1;
    struct pool_node r = {
        .key = pool_key(n->id.s),
        .memory_mib = n->memory_mib,
        .memory_free_mib = MAX(n->memory_mib - p->memory_mib_used, (int64_t)0),
        .disk_mib = n->disk_mib,
        .disk_free_mib = MAX(n->disk_mib - p->disk_mib_used, (int64_t)0),
        .cpu_milli = n->cores * 1000,
        .cpu_free_milli = (int32_t)MAX((int64_t)n->cores * 1000 - p->cpu_milli_used, (int64_t)0),
        .ports = (int32_t)ports,
        .ports_free = (int32_t)MAX(ports - p->ports_used, (int64_t)0),
        .plans = UINT8_MAX,
        .drain = n->state != NODE_READY,
        .exclusive = p->exclusive,
        .holdings = p->leases,
        .card_count = n->gpu_count};

    for (int32_t i = 0; i < n->gpu_count; i++)
        r.card[i] = (struct pool_card){.free_milli = n->gpus[i].lease.s[0] ? 0 : POOL_WHOLE,
                                       .model = model_number(m, n->gpus[i].model),
                                       .out = !n->gpus[i].healthy};
    return r;
}

/* What runs on a node, as demand of its kind: cards by lease, with their part of the machine. */
static void mix_of(const struct node *n, struct models *m, struct place_mix *mix)
{
    for (int32_t i = 0; i < n->gpu_count; i++) {
        struct pool_demand d = {.milli = POOL_WHOLE};
        bool first = n->gpus[i].lease.s[0] != 0;

        for (int32_t k = 0; k < n->gpu_count && first; k++) {
            bool same = strcmp(n->gpus[k].lease.s, n->gpus[i].lease.s) == 0;

            first = !same || k >= i;
            d.cards += same;
        }
        if (!first)
            continue;
        place_share(n, d.cards, &d.cpu_milli, &d.memory_mib);
        d.models = 1ULL << model_number(m, n->gpus[i].model);
        place_mix_add(mix, &d, 1);
    }
}

static struct pool_demand demand_of(const struct shape *s, const struct place_ask *ask,
                                    struct models *m)
{
    struct pool_demand d = {.cards = s->gpu_count,
                            .milli = s->gpu_count ? POOL_WHOLE : 0,
                            .cpu_milli = s->cpu_milli,
                            .memory_mib = s->memory_mib,
                            .disk_mib = ask->disk_mib,
                            .ports = ask->ports,
                            .exclusive = s->exclusive};

    if (s->gpu_count)
        d.models = 1ULL << model_number(m, s->gpu_model);
    return d;
}

/* A kind that came lately. A share of the machine is that of the first node with such cards. */
static void mix_seen(const struct demand_seen *k, const struct place_node *nodes, size_t n,
                     struct models *m, struct place_mix *mix)
{
    const struct place_ask ask = {.shape = k->shape};
    struct shape s = k->shape;

    for (size_t i = 0; i < n && s.gpu_count && !(s.cpu_milli && s.memory_mib); i++)
        if (cards_of(nodes[i].node, s.gpu_model))
            s = shape_on(&ask, nodes[i].node);
    struct pool_demand d = demand_of(&s, &ask, m);
    if (d.cards || d.cpu_milli)
        place_mix_add(mix, &d, (double)k->count);
}

struct engine { /* of one question */
    struct pool pool;
    struct models models;
    struct place_mix mix;
    struct placer *placer; /* owned */
};

static struct engine *engine_new(const struct place_node *nodes, size_t n,
                                 const struct place_market *market)
{
    struct place_limits limits = {.policy = PLACE_FAST, .scarcity_max = PLACE_SCARCITY_MAX};
    struct engine *e = mem_alloc(sizeof(*e));
    size_t seen = market ? market->count : 0;

    if (market) {
        limits.scarcity_min = (double)market->scarcity_min_pct / 100;
        limits.scarcity_max = (double)market->scarcity_max_pct / 100;
    }
    pool_init(&e->pool);
    for (size_t i = 0; i < n; i++) {
        struct pool_node one = pool_node_of(&nodes[i], &e->models);

        (void)pool_add(&e->pool, &one);
    }
    for (size_t i = 0; i < n && !seen; i++)
        mix_of(nodes[i].node, &e->models, &e->mix);
    for (size_t i = 0; i < seen; i++)
        mix_seen(&market->seen[i], nodes, n, &e->models, &e->mix);
    e->mix.seen = e->mix.count; /* learnt: a guess of the usual sizes counts as well */
    e->placer = placer_new(&e->pool, &limits, &e->mix);
    return e;
}

static void engine_free(struct engine *e)
{
    placer_free(e->placer);
    pool_fini(&e->pool);
    mem_free_ptr(&e);
}

/* Of the nodes that fit (at least two) the one that the engine takes. */
static int choose(const struct place_ask *ask, const struct place_node *nodes, size_t n,
                  const bool *fits)
{
    struct engine *e = engine_new(nodes, n, ask->market);
    const struct pool_node *at = e->pool.node;
    double most = 0;
    int best = -1;

    for (size_t i = 0; i < n; i++) {
        if (!fits[i])
            continue;
        struct shape s = shape_on(ask, nodes[i].node);
        struct pool_demand d = demand_of(&s, ask, &e->models);
        double score = placer_score(e->placer, &d, (uint32_t)i);

        if (best < 0 || score > most || (score == most && at[i].key < at[best].key)) {
            most = score;
            best = (int)i;
        }
    }
    engine_free(e);
    return best;
}

static int price_compare(const void *a, const void *b)
{
    return strcmp(((const struct place_price *)a)->model, ((const struct place_price *)b)->model);
}

size_t place_prices(const struct node *nodes, size_t n, const struct place_market *market,
                    struct place_price *ret_p)
{
    struct place_node *at = mem_alloc((n + 1) * sizeof(*at));
    double asked = 0;
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        at[i] = (struct place_node){.node = &nodes[i]};
    struct engine *e = engine_new(at, n, market);
    for (size_t k = 0; k < e->mix.count; k++)
        asked += e->mix.kind[k].weight * e->mix.kind[k].cards;
    for (size_t m = 0; m < e->models.count; m++) {
        struct place_price p = {.price = placer_scarcity(e->placer, (unsigned)m)};

        (void)str_copy(p.model, sizeof(p.model), e->models.name[m]);
        for (size_t i = 0; i < n; i++) {
            p.cards += cards_of(&nodes[i], p.model);
            p.free += nodes[i].state == NODE_READY ? place_free(&nodes[i], p.model) : 0;
        }
        for (size_t k = 0; k < e->mix.count && asked > 0; k++)
            if (e->mix.kind[k].models >> m & 1)
                p.asked += e->mix.kind[k].weight * e->mix.kind[k].cards / asked;
        if (p.cards) /* what nobody has is no model of the platform */
            ret_p[count++] = p;
    }
    engine_free(e);
    mem_free_ptr(&at);
    qsort(ret_p, count, sizeof(*ret_p), price_compare);
    return count;
}

void place_decide(const struct place_ask *ask, const struct place_node *nodes, size_t n,
                  struct place_why *ret_why, struct place_result *ret_r)
{
    bool *fits = mem_alloc(n + 1);
    size_t count = 0;

    *ret_r = (struct place_result){.best = -1};
    for (size_t i = 0; i < n; i++) {
        struct place_why w = place_one(ask, &nodes[i]);

        if (ret_why)
            ret_why[i] = w;
        ret_r->ever |= w.ever;
        fits[i] = w.bar == PLACE_FITS;
        count += fits[i];
        if (fits[i])
            ret_r->best = (int)i;
    }
    if (count > 1)
        ret_r->best = choose(ask, nodes, n, fits);
    mem_free_ptr(&fits);
    if (ret_r->best >= 0) {
        ret_r->shape = shape_on(ask, nodes[ret_r->best].node);
        pick_cards(ask, nodes[ret_r->best].node, ret_r);
    } else {
        ret_r->near = nearest(ask, nodes, n);
    }
}
