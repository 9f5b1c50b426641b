#include "domain/place.h"

#include "domain/node.h"

static const char *const bars[] = {"fits",  "pinned", "model",  "driver", "cuda", "state",
                                   "cards", "cpu",    "memory", "disk",   "ports"};

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

static struct place_why candidate(const struct place_ask *ask, const struct place_node *p)
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

/* Smaller is better. */
static int fit_compare(const struct place_ask *ask, const struct place_node *a,
                       const struct place_node *b)
{
    int64_t ca = place_free(a->node, ask->shape.gpu_model);
    int64_t cb = place_free(b->node, ask->shape.gpu_model);
    int64_t ra = (int64_t)a->node->cores * 1000 - a->cpu_milli_used;
    int64_t rb = (int64_t)b->node->cores * 1000 - b->cpu_milli_used;

    /* a seat goes where cards are fewest, so that they stay for those who need them */
    if (!ask->shape.gpu_count) {
        ca = a->node->gpu_count;
        cb = b->node->gpu_count;
    }
    if (ca != cb)
        return ca < cb ? -1 : 1;
    if (ra != rb)
        return ra < rb ? -1 : 1;
    return strcmp(a->node->name, b->node->name);
}

static bool fits_somewhere(const struct place_ask *ask, const struct place_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (candidate(ask, &nodes[i]).bar == PLACE_FITS)
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

static void pick_cards(const struct place_ask *ask, const struct node *n, struct place_result *r)
{
    int32_t got = 0;

    for (int32_t i = 0; i < n->gpu_count && got < ask->shape.gpu_count; i++)
        if (n->gpus[i].healthy && !n->gpus[i].lease.s[0] &&
            strcmp(n->gpus[i].model, ask->shape.gpu_model) == 0)
            r->gpu[got++] = i;
    CHECK(got == ask->shape.gpu_count);
}

void place_decide(const struct place_ask *ask, const struct place_node *nodes, size_t n,
                  struct place_why *ret_why, struct place_result *ret_r)
{
    *ret_r = (struct place_result){.best = -1};
    for (size_t i = 0; i < n; i++) {
        struct place_why w = candidate(ask, &nodes[i]);

        if (ret_why)
            ret_why[i] = w;
        ret_r->ever |= w.ever;
        if (w.bar == PLACE_FITS &&
            (ret_r->best < 0 || fit_compare(ask, &nodes[i], &nodes[ret_r->best]) < 0))
            ret_r->best = (int)i;
    }
    if (ret_r->best >= 0) {
        ret_r->shape = shape_on(ask, nodes[ret_r->best].node);
        pick_cards(ask, nodes[ret_r->best].node, ret_r);
    } else if (ask->shape.gpu_count) {
        ret_r->near = nearest_cards(ask, nodes, n);
    } else {
        ret_r->near = nearest_seat(ask, nodes, n);
    }
}
