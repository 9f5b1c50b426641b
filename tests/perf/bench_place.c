/* How well and how fast demands are placed: the engine beside a plain loop over all nodes that
 * takes the best fit, on a fleet made here and, where the traces lie (SUANLI_TRACES, else
 * ../shared/traces beside the repository), on the public workload "openb" by its published
 * protocol. Prints TAP; speeds are processor time, only their ratio to the plain loop is asserted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/place_trace.h"

static int tests, failed;

static void ok(bool good, const char *fmt, ...)
{
    va_list ap;

    failed += !good;
    printf("%s %d - ", good ? "ok" : "not ok", ++tests);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

static double cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t draw(uint64_t *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 2685821657736338717ULL;
}

/* the plain loop */

struct flat { /* what a best fit needs of a node, close together */
    int32_t cpu_milli, free_milli;
    int64_t memory_mib;
    uint64_t models;
    int16_t card[8];
};

static void flat_set(struct flat *f, const struct pool_node *n)
{
    *f = (struct flat){.cpu_milli = n->cpu_free_milli, .memory_mib = n->memory_free_mib};
    for (int32_t i = 0; i < n->card_count && i < 8; i++) {
        f->card[i] = n->card[i].free_milli;
        f->free_milli += n->card[i].free_milli;
        f->models |= 1ULL << n->card[i].model;
    }
}

/* Index of the best fit, or -1. */
static int64_t plain(const struct flat *f, size_t count, const struct pool_demand *d)
{
    double best = 1e9;
    int64_t at = -1;

    for (size_t i = 0; i < count; i++) {
        int32_t fit = 0;

        if (f[i].cpu_milli < d->cpu_milli || f[i].memory_mib < d->memory_mib ||
            (d->models && !(f[i].models & d->models)))
            continue;
        for (int32_t k = 0; k < 8; k++)
            fit += f[i].card[k] >= d->milli;
        if (d->cards && fit < d->cards)
            continue;
        double rest = 0.5 * f[i].cpu_milli / 128000 + 0.5 * f[i].free_milli / 8000;
        if (rest < best) {
            best = rest;
            at = (int64_t)i;
        }
    }
    return at;
}

/* a run */

struct run {
    double at95, at100, end; /* allocated, percent */
    double first;            /* asked when the first was refused, percent */
    double engine_s, plain_s;
    double warm_s; /* of the first tenth of the decisions: most kinds come for the first time */
    double p99_us;
    int64_t decisions;
    uint64_t places; /* a hash of where everything went, by the keys of the nodes */
    bool whole;      /* pool_check at the end */
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* f NULL: nothing is timed here, a look at the clock takes as long as a tenth of a decision. */
static void one_decision(struct placer *pl, struct pool *p, struct flat *f,
                         const struct pool_demand *d, struct run *r, double *took)
{
    struct pool_part part;
    double t0 = f ? cpu_now() : 0;
    enum place_answer a = placer_decide(pl, d, &part);

    if (a == PLACE_PLACED)
        placer_start(pl, d, &part, 1);
    if (f) {
        double t1 = cpu_now();
        volatile int64_t sink = plain(f, p->count, d);

        (void)sink;
        r->plain_s += cpu_now() - t1;
        *took = t1 - t0;
        r->engine_s += *took;
        if (a == PLACE_PLACED)
            flat_set(&f[part.node], &p->node[part.node]);
    }
    r->decisions++;
    if (a == PLACE_PLACED)
        r->places = r->places * 31 + p->node[part.node].key;
}

static void run(struct pool *p, const struct place_mix *mix, const struct trace_tasks *tasks,
                const size_t *order, size_t count, enum place_policy policy, bool beside,
                struct run *ret_r)
{
    struct place_limits limits = {.policy = policy, .scarcity_max = PLACE_SCARCITY_MAX};
    struct placer *pl = placer_new(p, &limits, mix);
    struct flat *f = beside ? mem_alloc((p->count + 1) * sizeof(*f)) : NULL;
    double *took = mem_alloc((count + 1) * sizeof(*took));
    double whole = (double)p->cards * POOL_WHOLE, asked = 0;

    *ret_r = (struct run){0};
    for (size_t i = 0; f && i < p->count; i++)
        flat_set(&f[i], &p->node[i]);
    double begun = cpu_now();
    for (size_t i = 0; i < count; i++) {
        const struct pool_demand *d = &tasks->at[order[i]].demand;
        uint64_t was = ret_r->places;

        one_decision(pl, p, f, d, ret_r, &took[i]);
        asked += (double)d->cards * d->milli;
        if (ret_r->places == was && ret_r->first <= 0)
            ret_r->first = 100 * asked / whole;
        ret_r->end = 100 * (whole - (double)p->free_milli) / whole;
        if (asked < 0.95 * whole)
            ret_r->at95 = ret_r->end;
        if (asked < whole)
            ret_r->at100 = ret_r->end;
    }
    if (!f)
        ret_r->engine_s = cpu_now() - begun;
    for (size_t i = 0; f && i < count / 10; i++)
        ret_r->warm_s += took[i];
    qsort(took, count, sizeof(*took), by_value);
    ret_r->p99_us = took[count * 99 / 100] * 1e6;
    ret_r->whole = pool_check(p);
    placer_free(pl);
    free(f);
    free(took);
}

/* The protocol: the list shuffled, then drawn again until 130 % of the cards are asked for. */
static size_t *arrivals(const struct trace_tasks *tasks, double whole, uint64_t seed,
                        size_t *ret_count)
{
    size_t *order = mem_alloc(4 * tasks->count * sizeof(*order) + 1), count = tasks->count;
    double asked = 0;

    for (size_t i = 0; i < count; i++) {
        order[i] = i;
        asked += (double)tasks->at[i].demand.cards * tasks->at[i].demand.milli;
    }
    for (size_t i = count - 1; i > 0; i--) {
        size_t k = (size_t)(draw(&seed) % (i + 1)), was = order[i];

        order[i] = order[k];
        order[k] = was;
    }
    while (asked < 1.3 * whole && count < 4 * tasks->count) {
        order[count] = (size_t)(draw(&seed) % tasks->count);
        asked +=
            (double)tasks->at[order[count]].demand.cards * tasks->at[order[count]].demand.milli;
        count++;
    }
    *ret_count = count;
    return order;
}

/* a fleet made here */

static void made_fleet(struct pool *p, size_t count, uint64_t seed)
{
    pool_init(p);
    for (size_t i = 0; i < count; i++) {
        static const struct {
            int32_t cards, cpu;
            uint8_t model;
        } builds[] = {{8, 96000, 0}, {8, 128000, 1}, {4, 48000, 2}, {2, 64000, 3}, {1, 16000, 3}};
        size_t b = (size_t)(draw(&seed) % 10);
        size_t k = b < 5 ? 0 : b < 6 ? 1 : b < 7 ? 2 : b < 9 ? 3 : 4;
        struct pool_node n = {.key = draw(&seed) | 1, .plans = 7, .card_count = builds[k].cards};

        n.cpu_milli = n.cpu_free_milli = builds[k].cpu;
        n.memory_mib = n.memory_free_mib = builds[k].cpu / 1000 * 4096;
        for (int32_t c = 0; c < n.card_count; c++)
            n.card[c] = (struct pool_card){.free_milli = POOL_WHOLE, .model = builds[k].model};
        (void)pool_add(p, &n);
    }
}

static void made_tasks(struct trace_tasks *t, size_t count, uint64_t seed)
{
    static const int32_t shares[] = {1000, 1000, 1000, 1000, 810, 470, 320, 650, 230, 160};
    static const int32_t cpus[] = {3000, 4000, 8000, 11000, 12000};

    t->at = mem_alloc(count * sizeof(*t->at));
    t->count = count;
    for (size_t i = 0; i < count; i++) {
        uint64_t u = draw(&seed) % 100;
        struct pool_demand *d = &t->at[i].demand;

        t->at[i].count = 1;
        d->cards = u < 12 ? 0 : u < 96 ? 1 : u < 98 ? 2 : u < 99 ? 4 : 8;
        d->milli = d->cards == 1 ? shares[draw(&seed) % 10] : d->cards ? POOL_WHOLE : 0;
        d->cpu_milli = cpus[draw(&seed) % 5] * (d->cards > 1 ? d->cards : 1);
        d->cpu_milli = d->cpu_milli > 88000 ? 88000 : d->cpu_milli;
        d->memory_mib = d->cpu_milli / 1000 * 2048;
        d->models = d->cards && u < 16 ? 1ULL << draw(&seed) % 2 : 0;
    }
}

static void told(const char *what, const struct run *alone, const struct run *beside)
{
    double n = (double)beside->decisions, warm_n = (double)(beside->decisions / 10);

    printf("# %s: %.0f decisions/s, p99 %.1f us; the plain loop %.0f/s\n", what,
           (double)alone->decisions / alone->engine_s, beside->p99_us, n / beside->plain_s);
    printf("# %s, each one timed: %.0f/s in the first tenth, %.0f/s after it\n", what,
           warm_n / beside->warm_s, (n - warm_n) / (beside->engine_s - beside->warm_s));
}

static void made_here(void)
{
    struct place_mix *mix = mem_alloc(sizeof(*mix));
    struct trace_tasks t;
    struct pool p;
    struct run fast, ahead;
    size_t count, *order;

    made_tasks(&t, 3000, 88172645463325252ULL);
    trace_mix(&t, mix);
    made_fleet(&p, 400, 42);
    order = arrivals(&t, (double)p.cards * POOL_WHOLE, 7, &count);
    run(&p, mix, &t, order, count, PLACE_FAST, true, &fast);
    pool_fini(&p);
    made_fleet(&p, 400, 42);
    run(&p, mix, &t, order, count, PLACE_AHEAD, false, &ahead);
    pool_fini(&p);
    ok(fast.whole && ahead.whole, "400 nodes: nothing was promised twice");
    ok(fast.first > 90 && ahead.first > 90, "nothing is refused below 90 %% (%.1f, %.1f)",
       fast.first, ahead.first);
    ok(ahead.end >= fast.end - 0.5, "looking ahead sells as much: %.2f %% and %.2f %%", ahead.end,
       fast.end);
    free(order);
    trace_tasks_fini(&t);
    free(mix);
}

static void large_fleet(void)
{
    struct place_mix *mix = mem_alloc(sizeof(*mix));
    struct trace_tasks t;
    struct pool p;
    struct run r, alone;
    size_t count = 20000, *order = mem_alloc(count * sizeof(*order));

    made_tasks(&t, 3000, 88172645463325252ULL);
    trace_mix(&t, mix);
    made_fleet(&p, 100000, 42);
    for (size_t i = 0; i < count; i++)
        order[i] = i % t.count;
    run(&p, mix, &t, order, count, PLACE_FAST, true, &r);
    pool_fini(&p);
    made_fleet(&p, 100000, 42);
    run(&p, mix, &t, order, count, PLACE_FAST, false, &alone);
    told("fast, 100,000 nodes", &alone, &r);
    ok(r.engine_s * 2 < r.plain_s, "100,000 nodes: at least twice as fast as a plain loop (%.1f)",
       r.plain_s / r.engine_s);
    pool_fini(&p);
    free(order);
    trace_tasks_fini(&t);
    free(mix);
}

/* openb */

static bool openb_path(char *buf, size_t size, const char *name)
{
    const char *env = getenv("SUANLI_TRACES");

    CHECK(str_printf(buf, size, "%s/openb/%s.csv", env ? env : SOURCE_ROOT "/../shared/traces",
                     name));
    return access(buf, R_OK) == 0;
}

static void openb_run(const char *variant, enum trace_order by, enum place_policy policy,
                      uint64_t seed, bool beside, struct run *ret_r)
{
    struct place_mix *mix = mem_alloc(sizeof(*mix));
    struct trace trace = {0};
    struct trace_tasks t;
    struct refusal why;
    char path[512], name[64];
    size_t count, *order;

    CHECK(openb_path(path, sizeof(path), "openb_node_list_gpu_node"));
    CHECK(trace_nodes_load(path, by, 0, &trace, &why) == ERR_OK);
    CHECK(str_printf(name, sizeof(name), "openb_pod_list_%s", variant));
    CHECK(openb_path(path, sizeof(path), name));
    CHECK(trace_tasks_load(path, &trace, &t, &why) == ERR_OK);
    trace_mix(&t, mix);
    order = arrivals(&t, (double)trace.pool.cards * POOL_WHOLE, seed, &count);
    run(&trace.pool, mix, &t, order, count, policy, beside, ret_r);
    free(order);
    trace_tasks_fini(&t);
    trace_fini(&trace);
    free(mix);
}

static void openb(void)
{
    static const struct {
        const char *variant;
        double at100;
    } want[] = {{"default", 96.0},
                {"gpuspec33", 94.9},
                {"cpu250", 94.6},
                {"gpushare100", 87.4},
                {"multigpu50", 97.3}};
    char path[512];
    struct run r, other;

    if (!openb_path(path, sizeof(path), "openb_node_list_gpu_node")) {
        printf("ok %d - openb # SKIP no trace at %s\n", ++tests, path);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        openb_run(want[i].variant, TRACE_NAME, PLACE_AHEAD, 42, false, &r);
        ok(r.whole && r.at100 >= want[i].at100, "openb %s: %.2f %% allocated at 100 %% requested",
           want[i].variant, r.at100);
        if (i == 0)
            ok(r.first >= 95, "openb default: nothing is refused up to 95 %% (%.1f)", r.first);
    }
    openb_run("default", TRACE_NAME, PLACE_FAST, 42, true, &r);
    openb_run("default", TRACE_NAME, PLACE_FAST, 42, false, &other);
    told("fast, openb, 1,213 nodes", &other, &r);
    ok(r.at100 >= 95.0, "openb default, fast: %.2f %% at 100 %% requested", r.at100);
    ok(r.engine_s < r.plain_s * 4, "openb: at most four times a plain loop (%.2f)",
       r.engine_s / r.plain_s);
    for (int by = TRACE_HASH; by <= TRACE_TYPED; by++) {
        openb_run("default", (enum trace_order)by, PLACE_FAST, 42, false, &other);
        ok(other.places == r.places, "another order of the nodes: every task on the same node");
    }
    openb_run("default", TRACE_NAME, PLACE_AHEAD, 42, true, &r);
    openb_run("default", TRACE_NAME, PLACE_AHEAD, 42, false, &other);
    told("look-ahead, openb, 1,213 nodes", &other, &r);
}

int main(void)
{
    made_here();
    large_fleet();
    openb();
    printf("1..%d\n", tests);
    return failed > 0;
}
