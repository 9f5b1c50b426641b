/* replay_jobs.c: a history of jobs through the queue: the policy asked for, and first come first
 * served with EASY backfill beside it, both with the same estimates and the same placement. */
#include <stdlib.h>

#include "base/units.h"
#include "cli/replay.h"
#include "cli/table.h"
#include "domain/queue.h"

#define DAY_S 86400
#define CARDS_MAX 1000000

struct job {
    int64_t at_s, run_s, estimate_s, wait_s;
    int32_t cards;
};

/* Rows of the table: gangs of at least so many cards. */
static const int32_t bands[] = {1, 2, 4, 8, 9, 17, 33};
#define BANDS ARRAY_LEN(bands)
#define BAND_GANGS BANDS /* eight and more */
#define BAND_ALL (BANDS + 1)

struct waits {
    int64_t jobs, longest_s, p90_s;
    double sum_s;
};

struct outcome {
    const char *policy;
    struct waits band[BANDS + 2];
    int64_t over_day; /* jobs that waited longer than a day */
    double used,
        used_waiting; /* share of the cards: first start to last arrival; while any waited */
    double waiting_h; /* how long anybody waited */
    int64_t end_s;
    double cpu_ms;
};

struct replay {
    VEC(struct job) jobs;
    int64_t cards, per_node;
    double load;  /* offered, of the pool */
    double speed; /* arrivals so many times as fast as recorded */
};

static int by_arrival(const void *a, const void *b)
{
    const struct job *x = a, *y = b;

    return x->at_s < y->at_s ? -1 : x->at_s > y->at_s;
}

/* What a renter would type: the true time, rounded up. */
static int64_t rounded(int64_t run_s)
{
    static const int64_t steps[] = {600, 3600, 4 * 3600, DAY_S, 7 * DAY_S, 30 * DAY_S};

    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        if (run_s <= steps[i])
            return steps[i];
    return steps[ARRAY_LEN(steps) - 1];
}

static enum err jobs_read(const char *path, bool exact, struct replay *r, struct refusal *why)
{
    static const char *const wanted[] = {"timestamp", "duration", "num_gpus", NULL};
    AUTO_CSV struct csv f;

    TRY(csv_open(&f, path, wanted, 3, why));
    while (csv_next(&f)) {
        struct job j;
        char text[64];
        utime_t at;
        int64_t cards;
        /* "2017-10-09 07:01:55": no zone is told, and none is needed */
        if (!str_printf(text, sizeof(text), "%sZ", csv_str(&f, 0)))
            return csv_wrong(&f, tr("expected a time such as 2026-12-01 18:05:00"), why);
        if (strlen(text) > 10 && text[10] == ' ')
            text[10] = 'T';
        if (time_parse(text, &at) != ERR_OK)
            return csv_wrong(&f, tr("expected a time such as 2026-12-01 18:05:00"), why);
        j.at_s = at / MS_PER_S;
        TRY(csv_i64(&f, 1, 0, INT64_C(100) * 365 * DAY_S, &j.run_s, why));
        TRY(csv_i64(&f, 2, 1, CARDS_MAX, &cards, why));
        j.cards = (int32_t)cards;
        j.run_s = MAX(j.run_s, 1);
        j.estimate_s = exact ? j.run_s : rounded(j.run_s);
        if (r->jobs.len == REPLAY_ROWS_MAX)
            return csv_wrong(&f, tr("too many rows"), why);
        *vec_push(&r->jobs) = j;
    }
    if (r->jobs.len == 0)
        return csv_wrong(&f, tr("the file is empty"), why);
    qsort(r->jobs.at, r->jobs.len, sizeof(r->jobs.at[0]), by_arrival);
    return ERR_OK;
}

/* Arrivals come so much faster that what they ask for is `load` of the cards. */
static void jobs_scale(struct replay *r, double load)
{
    int64_t first = r->jobs.at[0].at_s, span = r->jobs.at[r->jobs.len - 1].at_s - first;
    double work = 0;

    VEC_FOREACH (j, &r->jobs)
        work += (double)j->run_s * j->cards;
    r->speed = 1;
    r->load = span > 0 ? work / (double)span / (double)r->cards : 0;
    if (load <= 0 || r->load <= 0)
        return;
    r->speed = load / r->load;
    r->load = load;
    VEC_FOREACH (j, &r->jobs)
        j->at_s = first + (int64_t)((double)(j->at_s - first) / r->speed);
}

static struct queue_demand demand_of(const struct replay *r, size_t i)
{
    const struct job *j = &r->jobs.at[i];
    int32_t per = (int32_t)r->per_node;

    return (struct queue_demand){.id = i,
                                 .nodes = j->cards <= per ? 1 : (j->cards + per - 1) / per,
                                 .cards = MIN(j->cards, per),
                                 .since_s = j->at_s,
                                 .run_s = j->estimate_s};
}

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static bool in_band(const struct job *j, size_t band)
{
    if (band == BAND_ALL || band == BAND_GANGS)
        return band == BAND_ALL || j->cards >= 8;
    return j->cards >= bands[band] && (band + 1 == BANDS || j->cards < bands[band + 1]);
}

static void waits_fill(const struct replay *r, size_t band, struct waits *w)
{
    AUTO_FREE int64_t *all = mem_alloc(sizeof(*all) * r->jobs.len);

    VEC_FOREACH (j, &r->jobs) {
        if (!in_band(j, band))
            continue;
        all[w->jobs++] = j->wait_s;
        w->sum_s += (double)j->wait_s;
        w->longest_s = MAX(w->longest_s, j->wait_s);
    }
    if (w->jobs == 0)
        return;
    qsort(all, (size_t)w->jobs, sizeof(*all), by_size);
    w->p90_s = all[(w->jobs * 9 + 9) / 10 - 1];
}

static void usage_count(const struct queue *q, int64_t from_s, int64_t to_s, int64_t last_s,
                        struct outcome *o)
{
    double cards = (double)(q->cards - q->free);

    o->used += cards * (double)MAX(MIN(to_s, last_s) - MIN(from_s, last_s), INT64_C(0));
    if (q->waiting) {
        o->used_waiting += cards * (double)(to_s - from_s);
        o->waiting_h += (double)(to_s - from_s) / 3600;
    }
}

static bool run_policy(struct cli *c, struct replay *r, const struct queue_rules *rules,
                       struct outcome *o)
{
    struct queue q;
    struct queue_plan plan = {0};
    struct replay_ends ends = {0};
    size_t next = 0;
    int64_t first = r->jobs.at[0].at_s, last = r->jobs.at[r->jobs.len - 1].at_s, now = first;
    double begun = replay_cpu_ms();

    queue_init(&q, rules);
    for (int64_t i = 0; i < r->cards / r->per_node; i++)
        queue_node_add(&q, (uint64_t)(i + 1) * UINT64_C(0x9E3779B97F4A7C15), (int32_t)r->per_node);
    while ((next < r->jobs.len || ends.v.len) && !interrupted()) {
        int64_t to = ends.v.len ? ends.v.at[0].at_s : INT64_MAX;
        if (next < r->jobs.len)
            to = MIN(to, r->jobs.at[next].at_s);
        usage_count(&q, now, to, last, o);
        now = to;
        while (ends.v.len && ends.v.at[0].at_s == now)
            queue_end(&q, replay_ends_pop(&ends).item, now);
        for (; next < r->jobs.len && r->jobs.at[next].at_s == now; next++) {
            struct queue_demand d = demand_of(r, next);
            queue_enter(&q, &d);
            if (next % (r->jobs.len / 10 + 1) == 0)
                progress_line(c, tr("%s: %zu of %zu jobs"), o->policy, next, r->jobs.len);
        }
        queue_decide(&q, now, &plan);
        VEC_FOREACH (slot, &plan.start) {
            struct job *j = &r->jobs.at[q.run.at[*slot].demand.id];
            j->wait_s = now - j->at_s;
            replay_ends_push(&ends, (struct replay_end){.at_s = now + j->run_s, .item = *slot});
        }
    }
    progress_end(c);
    o->end_s = now;
    o->cpu_ms = replay_cpu_ms() - begun;
    o->used /= (double)r->cards * (double)MAX(last - first, INT64_C(1));
    o->used_waiting /= o->waiting_h > 0 ? (double)r->cards * o->waiting_h * 3600 : 1;
    for (size_t b = 0; b < ARRAY_LEN(o->band); b++)
        waits_fill(r, b, &o->band[b]);
    VEC_FOREACH (j, &r->jobs)
        o->over_day += j->wait_s > DAY_S;
    vec_fini(&ends.v);
    queue_plan_fini(&plan);
    queue_fini(&q);
    return !interrupted();
}

/* ---- showing ---- */

static void band_name(size_t band, char *buf, size_t size)
{
    if (band == BAND_ALL)
        str_printf(buf, size, "%s", tr("all"));
    else if (band == BAND_GANGS)
        str_printf(buf, size, "%s", tr("8 and more"));
    else if (band + 1 == BANDS)
        str_printf(buf, size, "%" PRId32 "+", bands[band]);
    else if (bands[band] + 1 == bands[band + 1])
        str_printf(buf, size, "%" PRId32, bands[band]);
    else
        str_printf(buf, size, "%" PRId32 "-%" PRId32, bands[band], bands[band + 1] - 1);
}

static void wait_text(double s, char *buf, size_t size)
{
    if (s < 60)
        str_printf(buf, size, "%.0fs", s);
    else
        text_duration((int64_t)s, buf, size);
}

static void table_show(struct cli *c, const struct outcome *o, size_t n)
{
    static const char *const head[] = {N_("POLICY"), N_("CARDS"),   N_("JOBS"), N_("MEAN WAIT"),
                                       N_("P90"),    N_("LONGEST"), NULL};
    struct table t;
    char text[64];

    table_init(&t, head, "<<>>>>");
    for (size_t b = 0; b < ARRAY_LEN(o->band); b++) {
        for (size_t i = 0; i < n; i++) {
            const struct waits *w = &o[i].band[b];
            if (w->jobs == 0)
                continue;
            table_add(&t, o[i].policy);
            band_name(b, text, sizeof(text));
            table_add(&t, text);
            table_addf(&t, "%" PRId64, w->jobs);
            wait_text(w->sum_s / (double)w->jobs, text, sizeof(text));
            table_add(&t, text);
            wait_text((double)w->p90_s, text, sizeof(text));
            table_add(&t, text);
            wait_text((double)w->longest_s, text, sizeof(text));
            table_add(&t, text);
        }
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

static void outcome_show(struct cli *c, const struct replay *r, const struct outcome *o, size_t n)
{
    table_show(c, o, n);
    printf("\n");
    for (size_t i = 0; i < n; i++) {
        printf(tr("%s: cards used %.2f %%, while anybody waited %.1f %%"), o[i].policy,
               100 * o[i].used, 100 * o[i].used_waiting);
        printf("\n");
        printf(tr("%s: %" PRId64 " waited longer than a day; CPU %.0f ms"), o[i].policy,
               o[i].over_day, o[i].cpu_ms);
        printf("\n");
    }
    printf(tr("%zu jobs on %" PRId64 " nodes of %" PRId64 " cards, offered load %.1f %% "
              "(arrivals %.2f times as fast)"),
           r->jobs.len, r->cards / r->per_node, r->per_node, 100 * r->load, r->speed);
    printf("\n");
    if (o->band[BAND_ALL].longest_s == 0)
        printf("%s\n", tr("Nobody waits: the pool is larger than the work. Try --load 70%."));
}

static void outcome_json(const struct replay *r, const struct outcome *o, size_t n)
{
    AUTO_STRBUF struct strbuf b = {0};
    struct json_writer w;
    char text[64];

    strbuf_init(&b, 1 << 20);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_i64(&w, "jobs", (int64_t)r->jobs.len);
    json_i64(&w, "cards", r->cards);
    json_i64(&w, "cards_per_node", r->per_node);
    json_strf(&w, "load", "%.4f", r->load);
    json_strf(&w, "speed", "%.4f", r->speed);
    json_array_begin(&w, "policies");
    for (size_t i = 0; i < n; i++) {
        json_object_begin(&w, NULL);
        json_str(&w, "policy", o[i].policy);
        json_strf(&w, "used", "%.6f", o[i].used);
        json_strf(&w, "used_waiting", "%.6f", o[i].used_waiting);
        json_i64(&w, "waited_over_day", o[i].over_day);
        json_i64(&w, "span_s", o[i].end_s - r->jobs.at[0].at_s);
        json_i64(&w, "cpu_ms", (int64_t)o[i].cpu_ms);
        json_array_begin(&w, "gangs");
        for (size_t k = 0; k < ARRAY_LEN(o->band); k++) {
            const struct waits *at = &o[i].band[k];
            json_object_begin(&w, NULL);
            str_printf(text, sizeof(text), "%s", k == BAND_ALL ? "all" : "8 and more");
            if (k < BAND_GANGS)
                band_name(k, text, sizeof(text));
            json_str(&w, "cards", text);
            json_i64(&w, "jobs", at->jobs);
            json_i64(&w, "mean_wait_s", at->jobs ? (int64_t)(at->sum_s / (double)at->jobs) : 0);
            json_i64(&w, "p90_wait_s", at->p90_s);
            json_i64(&w, "longest_wait_s", at->longest_s);
            json_object_finish(&w);
        }
        json_array_finish(&w);
        json_object_finish(&w);
    }
    json_array_finish(&w);
    json_object_finish(&w);
    puts(strbuf_str(&b));
}

/* ---- the command ---- */

static int flags_take(struct cli *c, struct call *call, struct replay *r, bool *ret_exact,
                      double *ret_load)
{
    const char *estimate = arg_str(call, "estimate"), *load = arg_str(call, "load");
    const json_t *gpus = json_object_get(call->args, "gpus");
    const json_t *per = json_object_get(call->args, "per_node");

    r->cards = json_integer_value(gpus);
    r->per_node = per ? json_integer_value(per) : 8;
    if (!gpus || r->cards < 1 || r->cards > CARDS_MAX)
        return fail_usage(c, tr("%s %s: expected something such as %s"), "--gpus", "", "2400");
    if (r->per_node < 1 || r->per_node > QUEUE_NODE_CARDS_MAX || r->cards % r->per_node)
        return fail_usage(c, "%s", tr("--per-node: 1 to 64, and --gpus must be a multiple of it"));
    if (estimate && !str_eq(estimate, "rounded") && !str_eq(estimate, "true"))
        return fail_usage(c, tr("%s %s: expected something such as %s"), "--estimate", estimate,
                          "rounded, true");
    *ret_exact = estimate && str_eq(estimate, "true");
    *ret_load = 0;
    if (load && !replay_load(load, ret_load))
        return fail_usage(c, tr("%s %s: expected something such as %s"), "--load", load, "70%");
    return 0;
}

/* A job that no empty pool could hold is told at once, with its line of the sorted list unknown but
 * its size known. */
static int sizes_check(struct cli *c, const struct replay *r)
{
    struct refusal why;

    VEC_FOREACH (j, &r->jobs) {
        int64_t nodes = (j->cards + r->per_node - 1) / r->per_node;
        if (nodes <= r->cards / r->per_node)
            continue;
        (void)refusef(&why, ERR_VALIDATION, "field", "%s", "--gpus");
        refusal_setf(&why, "why", tr("a job asks for %" PRId32 " cards and could never start"),
                     j->cards);
        return fail(c, &why);
    }
    return 0;
}

int replay_jobs(struct cli *c, struct call *call)
{
    static const struct {
        const char *name;
        const struct queue_rules *rules;
    } policies[] = {
        {"ours", &queue_rules_ours}, {"easy", &queue_rules_easy}, {"fifo", &queue_rules_fifo}};
    const char *policy = arg_str(call, "policy") ? arg_str(call, "policy") : "ours";
    struct replay r = {0};
    struct outcome out[2] = {0};
    struct refusal why;
    size_t chosen = 0, n = 0;
    double load;
    bool exact;
    int e = flags_take(c, call, &r, &exact, &load);

    while (chosen < ARRAY_LEN(policies) && !str_eq(policies[chosen].name, policy))
        chosen++;
    if (!e && chosen == ARRAY_LEN(policies))
        e = fail_usage(c, tr("%s %s: expected something such as %s"), "--policy", policy,
                       "ours, easy, fifo");
    if (!e && jobs_read(arg_str(call, "jobs"), exact, &r, &why) != ERR_OK)
        e = fail(c, &why);
    e = e ? e : sizes_check(c, &r);
    if (!e) {
        jobs_scale(&r, load);
        interrupt_watch();
    }
    for (size_t i = 0; !e && i < 2; i++) { /* the one asked for, and the reference beside it */
        size_t k = i == 0 ? chosen : 1;
        if (i == 1 && k == chosen)
            break;
        out[n].policy = policies[k].name;
        if (run_policy(c, &r, policies[k].rules, &out[n++]))
            continue;
        (void)refuse(&why, ERR_INTERRUPTED);
        e = fail(c, &why);
    }
    if (!e && c->json)
        outcome_json(&r, out, n);
    else if (!e)
        outcome_show(c, &r, out, n);
    vec_fini(&r.jobs);
    return e;
}
