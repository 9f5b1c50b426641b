/* replay_spot.c: nodes and tasks as files; what calling spot back costs, ours beside youngest
 * first. */
#include <stdlib.h>

#include "base/units.h"
#include "cli/replay_spot.h"
#include "cli/table.h"

#define CORES_PER_CARD 16 /* what work without cards weighs */

struct models {
    char name[POOL_MODELS_MAX][32];
    size_t count;
};

/* Index of the model; POOL_MODELS_MAX: no room, or not there and not to be added. */
static size_t model_find(struct models *m, const char *name, size_t len, bool add)
{
    for (size_t i = 0; i < m->count; i++)
        if (strlen(m->name[i]) == len && memcmp(m->name[i], name, len) == 0)
            return i;
    if (!add || m->count == POOL_MODELS_MAX || len >= sizeof(m->name[0]))
        return POOL_MODELS_MAX;
    memcpy(m->name[m->count], name, len);
    return m->count++;
}

static enum err nodes_read(const char *path, struct models *m, struct spot_history *h,
                           struct refusal *why)
{
    static const char *const wanted[] = {"sn", "cpu_milli", "memory_mib", "gpu", "model", NULL};
    AUTO_CSV struct csv f;

    TRY(csv_open(&f, path, wanted, 5, why));
    while (csv_next(&f)) {
        struct pool_node n = {.key = pool_key(csv_str(&f, 0)), .plans = (1 << POOL_PLAN_COUNT) - 1};
        int64_t cpu, cards;
        const char *model = csv_str(&f, 4);
        TRY(csv_i64(&f, 1, 0, INT32_MAX, &cpu, why));
        TRY(csv_i64(&f, 2, 0, INT64_C(1) << 40, &n.memory_mib, why));
        TRY(csv_i64(&f, 3, 0, POOL_CARDS_MAX, &cards, why));
        size_t at = cards ? model_find(m, model, strlen(model), true) : 0;
        if (at == POOL_MODELS_MAX || h->node.len == POOL_NODES_MAX)
            return csv_wrong(&f, tr("too many rows"), why);
        n.cpu_milli = n.cpu_free_milli = (int32_t)cpu;
        n.memory_free_mib = n.memory_mib;
        n.card_count = (int32_t)cards;
        for (int32_t i = 0; i < n.card_count; i++)
            n.card[i] = (struct pool_card){.free_milli = POOL_WHOLE, .model = (uint8_t)at};
        h->cards += cards;
        *vec_push(&h->node) = n;
    }
    return h->cards ? ERR_OK : csv_wrong(&f, tr("the file is empty"), why);
}

/* "V100M16|V100M32": the bits of those that are there; none of them: a bit of nobody. */
static uint64_t models_bits(struct models *m, const char *spec)
{
    uint64_t bits = 0;

    for (const char *s = spec; *s; s += *s == '|') {
        size_t len = strcspn(s, "|"), at = model_find(m, s, len, false);
        bits |= at < POOL_MODELS_MAX ? UINT64_C(1) << at : 0;
        s += len;
    }
    return *spec && !bits ? UINT64_C(1) << (POOL_MODELS_MAX - 1) : bits;
}

static bool same_demand(const struct pool_demand *a, const struct pool_demand *b)
{
    return a->cards == b->cards && a->milli == b->milli && a->cpu_milli == b->cpu_milli &&
           a->memory_mib == b->memory_mib && a->models == b->models && a->plan == b->plan;
}

static int32_t kind_of(struct spot_history *h, const struct pool_demand *d)
{
    for (size_t i = 0; i < h->kind.len; i++)
        if (same_demand(&h->kind.at[i].demand, d))
            return (int32_t)i;
    *vec_push(&h->kind) = (struct spot_kind){.demand = *d,
                                             .weight = d->cards ? (int64_t)d->cards * d->milli
                                                                : d->cpu_milli / CORES_PER_CARD};
    return (int32_t)h->kind.len - 1;
}

static bool possible(const struct spot_history *h, const struct pool_demand *d)
{
    VEC_FOREACH (n, &h->node)
        if (pool_fits(n, d))
            return true;
    return false;
}

static enum err task_read(struct csv *f, struct models *m, struct spot_history *h,
                          struct refusal *why)
{
    int64_t cpu, cards, milli, from, to;
    struct pool_demand d = {.nodes = 1};

    TRY(csv_i64(f, 0, 0, INT32_MAX, &cpu, why));
    TRY(csv_i64(f, 1, 0, INT64_C(1) << 40, &d.memory_mib, why));
    TRY(csv_i64(f, 2, 0, POOL_CARDS_MAX, &cards, why));
    TRY(csv_i64(f, 3, 0, POOL_WHOLE, &milli, why));
    TRY(csv_i64(f, 4, 0, INT64_C(1) << 40, &from, why));
    TRY(csv_i64(f, 5, from, INT64_C(1) << 40, &to, why));
    if (cards > 0 && milli == 0)
        return csv_wrong(f, tr("a number is missing or wrong"), why);
    d.cpu_milli = (int32_t)cpu;
    d.cards = (int32_t)cards;
    d.milli = cards ? (int32_t)milli : 0;
    d.models = cards ? models_bits(m, csv_str(f, 7)) : 0;
    d.plan = str_eq(csv_str(f, 6), "BE") ? POOL_SPOT : POOL_ON_DEMAND;
    size_t kinds = h->kind.len;
    int32_t kind = kind_of(h, &d);
    if (h->kind.len > kinds && !possible(h, &d))
        h->kind.at[kind].weight = -1;
    if (h->kind.at[kind].weight < 0) {
        h->never++;
        return ERR_OK;
    }
    if (h->task.len == REPLAY_ROWS_MAX)
        return csv_wrong(f, tr("too many rows"), why);
    *vec_push(&h->task) = (struct spot_task){from, MAX(to - from, (int64_t)1), kind};
    return ERR_OK;
}

static int by_arrival(const void *a, const void *b)
{
    const struct spot_task *x = a, *y = b;

    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    if (x->run_s != y->run_s)
        return x->run_s < y->run_s ? -1 : 1;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

static enum err tasks_read(const char *path, struct models *m, struct spot_history *h,
                           struct refusal *why)
{
    static const char *const wanted[] = {"cpu_milli", "memory_mib",    "num_gpu",
                                         "gpu_milli", "creation_time", "deletion_time",
                                         "qos",       "gpu_spec",      NULL};
    AUTO_CSV struct csv f;

    TRY(csv_open(&f, path, wanted, 7, why));
    while (csv_next(&f))
        TRY(task_read(&f, m, h, why));
    if (h->task.len == 0)
        return csv_wrong(&f, tr("the file is empty"), why);
    qsort(h->task.at, h->task.len, sizeof(h->task.at[0]), by_arrival);
    return ERR_OK;
}

/* ---- the load ---- */

/* Cards asked for at a time, on average while the last list comes, if arrivals were so fast and
 * everything started at once. */
static double offered(const struct spot_history *h, size_t tasks, int64_t window_s, double speed)
{
    double from = (double)window_s * (double)(h->rounds - 1) / speed;
    double to = (double)window_s * (double)h->rounds / speed, sum = 0;

    for (size_t i = 0; i < tasks; i++) {
        const struct spot_task *t = &h->task.at[i];
        const struct pool_demand *d = &h->kind.at[t->kind].demand;
        for (int64_t round = 0; round < h->rounds; round++) {
            double at = ((double)t->at_s + (double)window_s * (double)round) / speed;
            double both = MIN(at + (double)t->run_s, to) - MAX(at, from);
            sum += both > 0 ? both * d->cards * d->milli : 0;
        }
    }
    return sum / POOL_WHOLE / (to - from);
}

/* Times are counted from where the bulk of the arrivals begins (what came before is there from the
 * start); the list comes `rounds` times; arrivals are sped up until they ask for `load`. */
static void tasks_scale(struct spot_history *h, double load)
{
    size_t n = h->task.len;
    int64_t zero = h->task.at[n / 200].at_s, window = 1;
    double low = 1e-3, high = 1e9;

    for (size_t i = 0; i < n; i++) {
        h->task.at[i].at_s = MAX(h->task.at[i].at_s - zero, (int64_t)0);
        window = MAX(window, h->task.at[i].at_s + 1);
    }
    for (int i = 0; load > 0 && i < 100; i++) {
        double mid = low + (high - low) / 2;
        if (high / low > 4)
            mid = MAX(low * 2, mid / 1e3);
        if (offered(h, n, window, mid) < load * (double)h->cards)
            low = mid;
        else
            high = mid;
    }
    h->speed = load > 0 ? high : 1;
    h->load = offered(h, n, window, h->speed) / (double)h->cards;
    for (int64_t round = 1; round < h->rounds && h->task.len + n <= REPLAY_ROWS_MAX; round++) {
        for (size_t i = 0; i < n; i++) {
            struct spot_task t = h->task.at[i];
            t.at_s += window * round;
            *vec_push(&h->task) = t;
        }
    }
    VEC_FOREACH (t, &h->task)
        t->at_s = (int64_t)((double)t->at_s / h->speed);
    qsort(h->task.at, h->task.len, sizeof(h->task.at[0]), by_arrival);
}

/* ---- showing ---- */

static void outcome_show(struct cli *c, const struct spot_history *h, const struct spot_outcome *o,
                         size_t n)
{
    static const char *const head[] = {N_("POLICY"),      N_("EVICTED"), N_("LOST CARD-H"),
                                       N_("HELD CARD-H"), N_("WAITED"),  N_("COULD HAVE STARTED"),
                                       N_("CARDS USED"),  NULL};
    struct table t;

    table_init(&t, head, "<>>>>>>");
    for (size_t i = 0; i < n; i++) {
        table_add(&t, o[i].policy);
        table_addf(&t, "%" PRId64, o[i].evicted);
        table_addf(&t, "%.1f", o[i].lost_h);
        table_addf(&t, "%.1f", o[i].held_h);
        table_addf(&t, "%" PRId64, o[i].on_demand - o[i].on_demand_started + o[i].on_demand_waited);
        table_addf(&t, "%" PRId64, o[i].starved);
        table_addf(&t, "%.2f %%", 100 * o[i].used);
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
    printf("\n");
    for (size_t i = 0; i < n; i++) {
        printf(tr("%s: room made for %" PRId64 " of %" PRId64 " on-demand tasks; CPU %.0f ms, "
                  "%.2f ms a choice"),
               o[i].policy, o[i].reclaims, o[i].on_demand, o[i].cpu_ms,
               o[i].reclaims ? o[i].choose_ms / (double)o[i].reclaims : 0);
        printf("\n");
    }
    printf(tr("%zu tasks on %zu nodes with %" PRId64 " cards, offered load %.1f %% (arrivals %.1f "
              "times as fast)"),
           h->task.len, h->node.len, h->cards, 100 * h->load, h->speed);
    printf("\n");
    if (h->never)
        printf(tr("%" PRId64 " tasks left out: no empty node could hold them"), h->never);
    printf("%s", h->never ? "\n" : "");
}

static void outcome_json(const struct spot_history *h, const struct spot_outcome *o, size_t n)
{
    AUTO_STRBUF struct strbuf b = {0};
    struct json_writer w;

    strbuf_init(&b, 1 << 20);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_i64(&w, "tasks", (int64_t)h->task.len);
    json_i64(&w, "nodes", (int64_t)h->node.len);
    json_i64(&w, "cards", h->cards);
    json_i64(&w, "left_out", h->never);
    json_i64(&w, "rounds", h->rounds);
    json_strf(&w, "load", "%.4f", h->load);
    json_strf(&w, "speed", "%.4f", h->speed);
    json_array_begin(&w, "policies");
    for (size_t i = 0; i < n; i++) {
        json_object_begin(&w, NULL);
        json_str(&w, "policy", o[i].policy);
        json_i64(&w, "evicted", o[i].evicted);
        json_strf(&w, "lost_card_hours", "%.3f", o[i].lost_h);
        json_strf(&w, "held_card_hours", "%.3f", o[i].held_h);
        json_i64(&w, "reclaims", o[i].reclaims);
        json_i64(&w, "on_demand", o[i].on_demand);
        json_i64(&w, "on_demand_started", o[i].on_demand_started);
        json_i64(&w, "on_demand_waited", o[i].on_demand_waited);
        json_i64(&w, "could_have_started", o[i].starved);
        json_i64(&w, "spot", o[i].spot);
        json_i64(&w, "spot_starts", o[i].spot_started);
        json_strf(&w, "used", "%.6f", o[i].used);
        json_i64(&w, "cpu_ms", (int64_t)o[i].cpu_ms);
        json_object_finish(&w);
    }
    json_array_finish(&w);
    json_object_finish(&w);
    puts(strbuf_str(&b));
}

static int flags_take(struct cli *c, struct call *call, struct spot_history *h, double *ret_load,
                      bool *ret_youngest)
{
    const char *load = arg_str(call, "load"), *policy = arg_str(call, "policy");
    const char *checkpoint = arg_str(call, "checkpoint");
    const json_t *rounds = json_object_get(call->args, "rounds");

    *ret_load = 1.1;
    h->rounds = rounds ? json_integer_value(rounds) : SPOT_ROUNDS;
    if (h->rounds < 1 || h->rounds > SPOT_ROUNDS_MAX)
        return fail_usage(c, tr("%s %s: expected something such as %s"), "--rounds", "", "12");
    h->checkpoint_s = 1800;
    if (!arg_str(call, "nodes") || !arg_str(call, "tasks"))
        return fail_usage(c, "%s",
                          tr("give --jobs FILE, or --spot with --nodes FILE and --tasks FILE"));
    if (load && !replay_load(load, ret_load))
        return fail_usage(c, tr("%s %s: expected something such as %s"), "--load", load, "110%");
    if (checkpoint && duration_parse(checkpoint, &h->checkpoint_s) != ERR_OK)
        return fail_usage(c, tr("%s %s: expected something such as %s"), "--checkpoint", checkpoint,
                          "30m");
    *ret_youngest = policy && str_eq(policy, "youngest");
    if (policy && !*ret_youngest && !str_eq(policy, "ours"))
        return fail_usage(c, tr("%s %s: expected something such as %s"), "--policy", policy,
                          "ours, youngest");
    return 0;
}

int replay_spot(struct cli *c, struct call *call)
{
    struct spot_outcome out[2] = {{.policy = "ours"}, {.policy = "youngest", .youngest = true}};
    struct spot_history h = {0};
    struct models models = {0};
    struct refusal why;
    double load;
    bool youngest = false;
    int e = flags_take(c, call, &h, &load, &youngest);

    if (!e && (nodes_read(arg_str(call, "nodes"), &models, &h, &why) != ERR_OK ||
               tasks_read(arg_str(call, "tasks"), &models, &h, &why) != ERR_OK))
        e = fail(c, &why);
    if (!e) {
        tasks_scale(&h, load);
        interrupt_watch();
    }
    struct spot_outcome *first = youngest ? &out[1] : out;
    size_t n = youngest ? 1 : 2;
    for (size_t i = 0; !e && i < n; i++) {
        if (spot_play(c, &h, &first[i]))
            continue;
        (void)refuse(&why, ERR_INTERRUPTED);
        e = fail(c, &why);
    }
    if (!e && c->json)
        outcome_json(&h, first, n);
    else if (!e)
        outcome_show(c, &h, first, n);
    vec_fini(&h.node);
    vec_fini(&h.kind);
    vec_fini(&h.task);
    return e;
}
