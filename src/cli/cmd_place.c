/* cmd_place.c: suanli admin place. Replays a list of demands against a fleet, both from files, with
 * the engine that places every lease; nothing is asked of a server. Demands come in the order of
 * the file and never leave. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/place_trace.h"
#include "cli/table.h"

#define PROGRESS_EVERY 1000

static const int marks[] = {50, 60, 70, 80, 85, 90, 95, 100, 105, 110, 120, 130};

struct replay {
    struct trace trace;
    struct trace_tasks tasks, given; /* given: of --mix; empty: learnt */
    struct placer *placer;           /* owned */
    enum place_policy policy;
    const char *order;
    int64_t seed;
    FILE *log;                  /* owned */
    int64_t whole, asked, used; /* milli: of all cards; summed */
    int64_t placed, refused, never;
    double first_refused;        /* asked then, percent; 0: none */
    double at[ARRAY_LEN(marks)]; /* allocated then, percent */
    size_t reached;
    double cpu_s;
};

static void replay_fini(struct replay *r)
{
    placer_free(r->placer);
    trace_fini(&r->trace);
    trace_tasks_fini(&r->tasks);
    trace_tasks_fini(&r->given);
    if (r->log)
        fclose(r->log);
}

static double cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double percent(const struct replay *r, int64_t milli)
{
    return r->whole ? 100.0 * (double)milli / (double)r->whole : 0;
}

static int words_take(struct cli *c, struct call *call, struct replay *r,
                      enum trace_order *ret_order)
{
    static const char *const orders[] = {"name", "hash", "typed"};
    const char *policy = arg_str(call, "policy");
    json_t *seed = json_object_get(call->args, "seed");
    size_t i = 0;

    r->order = arg_str(call, "order") ? arg_str(call, "order") : "name";
    while (i < ARRAY_LEN(orders) && !str_eq(orders[i], r->order))
        i++;
    if (i == ARRAY_LEN(orders))
        return fail_usage(c, tr("--order %s: expected name, hash or typed"), r->order);
    *ret_order = (enum trace_order)i;
    if (policy && !str_eq(policy, "fast") && !str_eq(policy, "look-ahead"))
        return fail_usage(c, tr("--policy %s: expected fast or look-ahead"), policy);
    r->policy = policy && str_eq(policy, "fast") ? PLACE_FAST : PLACE_AHEAD;
    r->seed = seed ? json_integer_value(seed) : 0;
    return 0;
}

static enum err files_load(struct call *call, struct replay *r, enum trace_order order,
                           struct refusal *why)
{
    const char *mix = arg_str(call, "mix"), *log = arg_str(call, "log");

    TRY(trace_nodes_load(arg_str(call, "nodes"), order, (uint64_t)r->seed, &r->trace, why));
    TRY(trace_tasks_load(arg_str(call, "tasks"), &r->trace, &r->tasks, why));
    if (mix)
        TRY(trace_tasks_load(mix, &r->trace, &r->given, why));
    r->log = log ? fopen(log, "we") : NULL;
    if (log && !r->log) {
        (void)refusef(why, ERR_VALIDATION, "field", "%s", log);
        refusal_set(why, "why", strerror(errno));
        return ERR_VALIDATION;
    }
    r->whole = r->trace.pool.cards * POOL_WHOLE;
    return ERR_OK;
}

static void log_line(struct replay *r, const struct trace_task *t, const struct pool_part *part)
{
    if (!r->log)
        return;
    fprintf(r->log, "%s,%s,", t->name, part ? r->trace.node[part->node] : "");
    for (int32_t i = 0; part && i < part->cards; i++)
        fprintf(r->log, "%s%d", i ? "-" : "", part->card[i]);
    fputc('\n', r->log);
}

static void one_task(struct replay *r, const struct trace_task *t)
{
    const struct pool_demand *d = &t->demand;
    int64_t milli = (int64_t)d->cards * d->milli;
    struct pool_part part;

    if (!r->given.count)
        placer_see(r->placer, d);
    enum place_answer a = placer_decide(r->placer, d, &part);
    r->asked += milli;
    if (a == PLACE_PLACED) {
        placer_start(r->placer, d, &part, 1);
        r->used += milli;
        r->placed++;
    } else {
        r->refused++;
        r->never += a == PLACE_NEVER;
        if (r->first_refused <= 0)
            r->first_refused = percent(r, r->asked);
    }
    log_line(r, t, a == PLACE_PLACED ? &part : NULL);
    /* the last task may end a trifle short of a mark */
    while (r->reached < ARRAY_LEN(marks) && percent(r, r->asked) >= marks[r->reached] * 0.99995)
        r->at[r->reached++] = percent(r, r->used);
}

static bool replay_run(struct cli *c, struct replay *r)
{
    struct place_limits limits = {.policy = r->policy, .scarcity_max = PLACE_SCARCITY_MAX};
    AUTO_FREE struct place_mix *mix = mem_alloc(sizeof(*mix));
    double begun = cpu_now();

    trace_mix(&r->given, mix);
    r->placer = placer_new(&r->trace.pool, &limits, mix);
    for (size_t i = 0; i < r->tasks.count; i++) {
        one_task(r, &r->tasks.at[i]);
        if (c->bar && i % PROGRESS_EVERY == 0)
            progress_line(c, tr("%zu of %zu tasks, %.2f %% of the cards allocated"), i,
                          r->tasks.count, percent(r, r->used));
        if (interrupted())
            return false;
    }
    progress_end(c);
    r->cpu_s = cpu_now() - begun;
    return true;
}

/* Free share of the cards of a model, percent of one card. */
static int64_t idle_of(const struct replay *r, size_t model, int64_t *ret_cards)
{
    int64_t idle = 0;

    *ret_cards = 0;
    for (size_t i = 0; i < r->trace.pool.count; i++)
        for (int32_t k = 0; k < r->trace.pool.node[i].card_count; k++) {
            const struct pool_card *card = &r->trace.pool.node[i].card[k];

            *ret_cards += card->model == model;
            idle += card->model == model ? card->free_milli : 0;
        }
    return idle;
}

static void number(struct json_writer *w, const char *key, double v)
{
    char text[32];

    (void)str_printf(text, sizeof(text), "%.3f", v);
    json_raw(w, key, text);
}

static void print_json(const struct replay *r)
{
    AUTO_STRBUF struct strbuf b = {0};
    struct json_writer w;

    strbuf_init(&b, 1 << 20);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_str(&w, "policy", r->policy == PLACE_FAST ? "fast" : "look-ahead");
    json_str(&w, "order", r->order);
    json_i64(&w, "seed", r->seed);
    json_str(&w, "mix", r->given.count ? "given" : "learnt");
    json_i64(&w, "nodes", (int64_t)r->trace.pool.count);
    json_i64(&w, "cards", r->trace.pool.cards);
    json_i64(&w, "tasks", (int64_t)r->tasks.count);
    json_i64(&w, "placed", r->placed);
    json_i64(&w, "refused", r->refused);
    json_i64(&w, "never", r->never);
    number(&w, "asked_pct", percent(r, r->asked));
    number(&w, "allocated_pct", percent(r, r->used));
    number(&w, "first_refused_pct", r->first_refused);
    json_array_begin(&w, "marks");
    for (size_t i = 0; i < r->reached; i++) {
        json_object_begin(&w, NULL);
        json_i64(&w, "asked_pct", marks[i]);
        number(&w, "allocated_pct", r->at[i]);
        json_object_finish(&w);
    }
    json_array_finish(&w);
    json_array_begin(&w, "models");
    for (size_t m = 0; m < r->trace.models; m++) {
        int64_t cards, idle = idle_of(r, m, &cards);

        json_object_begin(&w, NULL);
        json_str(&w, "model", r->trace.model[m]);
        json_i64(&w, "cards", cards);
        number(&w, "idle_cards", (double)idle / POOL_WHOLE);
        number(&w, "scarcity", placer_scarcity(r->placer, (unsigned)m));
        json_object_finish(&w);
    }
    json_array_finish(&w);
    number(&w, "cpu_s", r->cpu_s);
    json_object_finish(&w);
    puts(strbuf_str(&b));
}

static void print_marks(struct cli *c, const struct replay *r)
{
    static const char *const head[] = {N_("ASKED %"), N_("ALLOCATED %"), NULL};
    struct table t;

    table_init(&t, head, ">>");
    for (size_t i = 0; i < r->reached; i++) {
        table_addf(&t, "%d", marks[i]);
        table_addf(&t, "%.2f", r->at[i]);
    }
    table_addf(&t, "%.2f", percent(r, r->asked));
    table_addf(&t, "%.2f", percent(r, r->used));
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

static void print_models(struct cli *c, const struct replay *r)
{
    static const char *const head[] = {N_("MODEL"), N_("CARDS"), N_("CARDS IDLE"), N_("SCARCITY"),
                                       NULL};
    struct table t;

    table_init(&t, head, "<>>>");
    for (size_t m = 0; m < r->trace.models; m++) {
        int64_t cards, idle = idle_of(r, m, &cards);

        table_add(&t, r->trace.model[m]);
        table_addf(&t, "%" PRId64, cards);
        table_addf(&t, "%.1f", (double)idle / POOL_WHOLE);
        table_addf(&t, "%.2f", placer_scarcity(r->placer, (unsigned)m));
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

static void print_table(struct cli *c, const struct replay *r)
{
    print_marks(c, r);
    putchar('\n');
    print_models(c, r);
    say(c,
        tr("%zu nodes, %lld cards; %lld tasks placed, %lld refused, %lld of them fit no machine "
           "even when it is empty"),
        r->trace.pool.count, (long long)r->trace.pool.cards, (long long)r->placed,
        (long long)r->refused, (long long)r->never);
    if (r->refused)
        say(c, tr("The first was refused when %.2f %% of the cards had been asked for."),
            r->first_refused);
    say(c, tr("%s, the mix of demand %s; %.0f decisions a second of processor time"),
        r->policy == PLACE_FAST ? "fast" : "look-ahead",
        r->given.count ? tr("given") : tr("learnt as it came"),
        r->cpu_s > 0 ? (double)r->tasks.count / r->cpu_s : 0);
}

int cmd_admin_place(struct cli *c, struct call *call)
{
    CLEANUP(replay_fini) struct replay r = {0};
    struct refusal why;
    enum trace_order order = TRACE_NAME;
    int e = words_take(c, call, &r, &order);

    if (e)
        return e;
    if (files_load(call, &r, order, &why) != ERR_OK)
        return fail(c, &why);
    interrupt_watch();
    if (!replay_run(c, &r)) {
        (void)refuse(&why, ERR_INTERRUPTED);
        return fail(c, &why);
    }
    if (r.log && (fflush(r.log) != 0 || ferror(r.log))) {
        (void)refusef(&why, ERR_SYSTEM, "call", "%s", arg_str(call, "log"));
        refusal_set(&why, "why", strerror(errno));
        return fail(c, &why);
    }
    if (c->json)
        print_json(&r);
    else if (c->quiet)
        printf("%.2f\n", percent(&r, r.used));
    else
        print_table(c, &r);
    return 0;
}
