/* cmd_rent.c: what can be had, at what price, and having it. */
#include <stdlib.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/table.h"

/* "gpu=4009 price<3" → "4009"; NULL when no card is named. Owned by the caller. */
static char *filter_card(const char *filter)
{
    const char *p = filter ? strstr(filter, "gpu=") : NULL;

    return p ? strndup(p + 4, strcspn(p + 4, " ")) : NULL;
}

static size_t card_distance(const char *typed, const char *model)
{
    size_t best = str_distance(typed, model);
    AUTO_FREE char *copy = mem_strdup(model);

    for (char *p = copy, *save; (p = strtok_r(p, " -", &save)); p = NULL)
        best = MIN(best, str_distance(typed, p));
    return best;
}

/* Names what there is when the named card is not: the near one first, else all. */
static void card_suggest(struct cli *c, const char *typed, const json_t *said)
{
    AUTO_ANSWER struct answer all = {0};
    AUTO_STRBUF struct strbuf models = {0};
    const char *best = NULL;
    size_t near = 3, i;
    json_t *o;

    answer_init(&all);
    strbuf_init(&models, 2048);
    if (!typed || !api_call(c, "GET", "/v1/offers", NULL, CALL_QUIET, &all))
        return;
    json_array_foreach(json_object_get(all.json, "items"), i, o)
    {
        const char *model = field_str(o, "gpu");
        if (!*model || strstr(strbuf_str(&models), model))
            continue;
        strbuf_addf(&models, "%s%s", models.len ? ", " : "", model);
        size_t d = card_distance(typed, model);
        if (d == 0)
            return; /* the name was right */
        if (d < near) {
            near = d;
            best = model;
        }
    }
    if (best && strstr(field_str(said, "detail"), best))
        return; /* the server has named it */
    if (best)
        say(c, tr("There is no card %s. Did you mean %s?"), typed, best);
    else if (models.len)
        say(c, tr("There is no card %s. Cards here: %s"), typed, models.data);
}

static void offer_row(struct table *t, const json_t *o)
{
    char text[64];
    bool card = field_is(o, "gpu");

    table_addf(t, "%s%s%s%s", card ? field_str(o, "gpu") : tr("CPU only"),
               field_bool(o, "simulated") ? " (" : "",
               field_bool(o, "simulated") ? tr("simulated") : "",
               field_bool(o, "simulated") ? ")" : "");
    size_format_mib(field_i64(o, "vram_mib"), text, sizeof(text));
    table_add(t, card ? text : "-");
    table_addf(t, "%" PRId64, field_i64(o, "free"));
    table_addf(t, "%" PRId64, field_i64(o, "count_max"));
    text_money(json_object_get(o, "price_hour"), text, sizeof(text));
    table_addf(t, "%s%s", text, tr("/h"));
    table_addf(t, "%" PRId64, field_i64(o, "cpu_max"));
    size_format_mib(field_i64(o, "memory_mib_max"), text, sizeof(text));
    table_add(t, text);
    text_money(json_object_get(o, "disk_gib_day"), text, sizeof(text));
    table_add(t, text);
    table_addf(t, "%s", field_str(o, "node"));
}

/* Each kind once, below the table: what keeps a renter from his neighbours. */
static void print_isolation(const json_t *items)
{
    AUTO_STRBUF struct strbuf kinds = {0};
    size_t i;
    json_t *o;

    strbuf_init(&kinds, 4096);
    json_array_foreach(items, i, o)
    {
        const char *kind = field_str(o, "isolation");

        if (!*kind || strstr(strbuf_str(&kinds), kind))
            continue;
        strbuf_add(&kinds, kinds.len ? ", " : "");
        text_clean(kind, &kinds);
    }
    if (kinds.len)
        printf(tr("Isolation: %s.\n"), strbuf_str(&kinds));
}

int cmd_offers(struct cli *c, struct call *call)
{
    static const char *const head[] = {
        N_("CARD"),  N_("VRAM"),   N_("FREE"),         N_("MOST"), N_("PRICE"),
        N_("CORES"), N_("MEMORY"), N_("DISK GiB/day"), N_("NODE"), NULL};
    AUTO_ANSWER struct answer a = {0};
    struct table t;
    size_t i;
    json_t *o;

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    const json_t *items = json_object_get(a.json, "items");
    if (json_array_size(items) == 0) {
        AUTO_FREE char *card = filter_card(arg_str(call, "filter"));
        say(c, "%s", tr("Nothing fits now."));
        card_suggest(c, card, NULL);
    }
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    if (json_array_size(items) == 0)
        return 0;
    table_init(&t, head, "<>>>>>>><");
    json_array_foreach(items, i, o) offer_row(&t, o);
    table_print(&t, stdout, c->color);
    table_fini(&t);
    print_isolation(items);
    return 0;
}

/* "card-second" → a quantity people read: 4h x 2 is beyond a text; base units stay exact. */
static void print_lines(FILE *to, const json_t *lines, bool simulated)
{
    static const char *const head[] = {N_("FOR"), N_("QUANTITY"), N_("UNIT"), N_("AMOUNT"), NULL};
    struct table t;
    size_t i;
    json_t *o;
    char money[64], what[160];

    if (json_array_size(lines) == 0)
        return;
    table_init(&t, head, "<><>");
    json_array_foreach(lines, i, o)
    {
        text_money(json_object_get(o, "amount"), money, sizeof(money));
        bool mark = simulated && str_starts(field_str(o, "sku"), "gpu.");
        str_printf(what, sizeof(what), "%s%s%s%s", field_str(o, "sku"), mark ? " (" : "",
                   mark ? tr("simulated") : "", mark ? ")" : "");
        table_add(&t, what);
        table_add(&t, field_str(o, "quantity"));
        table_add(&t, field_str(o, "unit"));
        table_add(&t, money);
    }
    table_print(&t, to, false);
    table_fini(&t);
}

static void plan_line(FILE *to, const char *label, const char *text)
{
    AUTO_STRBUF struct strbuf b = {0}, clean = {0};

    strbuf_init(&b, 4096);
    strbuf_init(&clean, 4096);
    table_pad(&b, tr(label), 12, false);
    text_clean(text, &clean);
    fprintf(to, "  %s %s\n", strbuf_str(&b), strbuf_str(&clean));
}

static void plan_linef(FILE *to, const char *label, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void plan_linef(FILE *to, const char *label, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    plan_line(to, label, text);
}

static const char *money_of_field(const json_t *o, const char *key, char *buf, size_t size)
{
    text_money(json_object_get(o, key), buf, size);
    return buf;
}

static void plan_what(FILE *to, const struct call *call, bool simulated)
{
    const json_t *count = json_object_get(call->args, "count"),
                 *cpu = json_object_get(call->args, "cpu");
    const json_t *disks = json_object_get(call->args, "disk");
    const char *gpu = arg_str(call, "gpu"), *memory = arg_str(call, "memory");
    char size[40] = "";
    int64_t mib;
    size_t i;
    json_t *v;

    if (gpu)
        plan_linef(to, N_("card"), "%" PRId64 " x %s%s%s",
                   count ? (int64_t)json_integer_value(count) : 1, gpu, simulated ? " " : "",
                   simulated ? tr("(simulated: no real card)") : "");
    if (cpu)
        plan_linef(to, N_("cores"), "%" PRId64, (int64_t)json_integer_value(cpu));
    if (memory && size_parse_mib(memory, &mib) == ERR_OK) {
        size_format_mib(mib, size, sizeof(size));
        plan_line(to, N_("memory"), size);
    }
    if (arg_str(call, "image"))
        plan_line(to, N_("image"), arg_str(call, "image"));
    json_array_foreach(disks, i, v)
    {
        const char *text = json_string_value(v), *colon = strchr(text, ':');
        if (colon && size_parse_mib(colon + 1, &mib) == ERR_OK) {
            size_format_mib(mib, size, sizeof(size));
            plan_linef(to, N_("data disk"), "%.*s %s", (int)(colon - text), text, size);
        } else {
            plan_line(to, N_("data disk"), text);
        }
    }
}

static void plan_end(FILE *to, const struct call *call)
{
    const char *then = arg_str(call, "then"), *idle = arg_str(call, "idle");
    const char *after = then && str_eq(then, "release") ? tr("then release") : tr("then stop");
    char at[64];

    if (arg_bool(call, "no_end")) {
        plan_line(to, N_("ends"), tr("never by itself (--no-end)"));
    } else if (arg_str(call, "until")) {
        text_time(arg_str(call, "until"), at, sizeof(at));
        plan_linef(to, N_("ends"), tr("%s, %s"), at, after);
    } else if (arg_str(call, "for")) {
        plan_linef(to, N_("ends"), tr("after %s of running, %s"), arg_str(call, "for"), after);
    }
    if (json_object_get(call->args, "idle") || !str_eq(call->verb->cli, "quote"))
        plan_linef(to, N_("idle"), tr("after %s without work: %s"), idle ? idle : "30m",
                   arg_str(call, "idle_action") ? arg_str(call, "idle_action") : tr("stop"));
}

/* The box with all prices, before anything is spent. */
static void print_plan(FILE *to, const struct call *call, const json_t *q)
{
    char a[64], b[64];

    fprintf(to, "%s\n", tr("Plan"));
    plan_what(to, call, field_bool(q, "simulated"));
    plan_end(to, call);
    plan_linef(to, N_("price"), tr("%s/h running, %s/h stopped"),
               money_of_field(q, "price_hour", a, sizeof(a)),
               money_of_field(q, "price_hour_stopped", b, sizeof(b)));
    if (arg_bool(call, "exclusive"))
        plan_line(to, N_("the node"), tr("yours alone while it runs"));
    if (field_is(q, "bid"))
        plan_linef(to, N_("at most"), tr("%s per card-hour, the bid; the spot price moves"),
                   money_of_field(q, "bid", a, sizeof(a)));
    if (field_is(q, "free_if_reclaimed_s")) {
        text_duration(field_i64(q, "free_if_reclaimed_s"), a, sizeof(a));
        plan_linef(to, N_("spot"),
                   tr("its cards cost nothing when they are reclaimed within %s of a start"), a);
    }
    plan_linef(to, arg_bool(call, "no_end") ? N_("an hour") : N_("whole time"),
               tr("%s (of it tax %s)"), money_of_field(q, "total", a, sizeof(a)),
               money_of_field(q, "tax", b, sizeof(b)));
    plan_linef(to, N_("start needs"), tr("%s; available %s"),
               money_of_field(q, "start_need", a, sizeof(a)),
               money_of_field(q, "available", b, sizeof(b)));
    plan_linef(to, N_("held first"), tr("%s, given back as it is used"),
               money_of_field(q, "hold", a, sizeof(a)));
    print_lines(to, json_object_get(q, "lines"), field_bool(q, "simulated"));
}

static void arg_default(struct call *call, const char *name, const char *value)
{
    if (value && !json_object_get(call->args, name))
        json_object_set_new(call->args, name, json_string(value));
}

static int fill_defaults(struct cli *c, struct call *call)
{
    int64_t s;
    bool ended = arg_str(call, "for") || arg_str(call, "until") || arg_bool(call, "no_end");

    if (!json_object_get(call->args, "cpu"))
        arg_default(call, "gpu", c->cfg.rent_gpu);
    arg_default(call, "image", c->cfg.rent_image);
    if (!arg_str(call, "gpu") && !json_object_get(call->args, "cpu"))
        return fail_usage(c, tr("%s: --gpu MODEL or --cpu N is missing"), call->verb->cli);
    if (c->cfg.rent_for && duration_parse(c->cfg.rent_for, &s) != ERR_OK)
        return fail_usage(c, tr("the configured \"for\" is no duration: %s"), c->cfg.rent_for);
    if (!ended && !arg_str(call, "plan")) /* a plan has its own end */
        arg_default(call, "for", c->cfg.rent_for ? c->cfg.rent_for : "4h");
    return 0;
}

/* Asks for the price of what `rent` was told: the arguments that a quote knows too. */
static bool quote_get(struct cli *c, const struct call *call, struct answer *a)
{
    struct call q = {.verb = verb_find("quote"), .args = json_object()};
    const struct arg *row;

    for (size_t i = 0; (row = verb_arg(q.verb, i)); i++) {
        json_t *v = json_object_get(call->args, row->name);
        if (v)
            json_object_set(q.args, row->name, v);
    }
    bool ok = call_send(c, &q, a);
    call_fini(&q);
    return ok;
}

int cmd_quote(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    char until[64];
    int e = fill_defaults(c, call);

    answer_init(&a);
    if (e)
        return e;
    if (!call_send(c, call, &a)) {
        card_suggest(c, arg_str(call, "gpu"), a.json);
        return a.exit;
    }
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    print_plan(stdout, call, a.json);
    text_time(field_str(a.json, "valid_until"), until, sizeof(until));
    printf(tr("This price holds until %s. Rent it: suanli rent with the same flags and --quote "
              "TEXT\n"),
           until);
    puts(field_str(a.json, "quote"));
    if (!field_bool(a.json, "fits"))
        fail_problem(c, json_object_get(a.json, "why"));
    return 0;
}

static void say_running(struct cli *c UNUSED, const json_t *o)
{
    char price[64], at[64];
    const char *name = field_str(o, "name");
    bool release = str_eq(field_str(o, "then"), "release");

    text_money(json_object_get(o, "rate_now"), price, sizeof(price));
    printf(tr("Running. %s/h. "), price);
    if (field_is(o, "ends_at")) {
        text_time(field_str(o, "ends_at"), at, sizeof(at));
        printf(release ? tr("Releases %s unless extended.") : tr("Stops %s unless extended."), at);
    } else {
        fputs(tr("It has no end of its own."), stdout);
    }
    if (field_bool(o, "simulated") && field_i64(o, "gpu_count") > 0 && !field_bool(o, "no_gpu"))
        printf(" %s", tr("Its card is simulated."));
    printf("\nsuanli ssh %s | suanli code %s | suanli stop %s\n", name, name, name);
}

static void say_interrupted(struct cli *c, const json_t *o)
{
    char price[64];
    const char *name = field_str(o, "name");

    text_money(json_object_get(o, "price_hour"), price, sizeof(price));
    if (str_eq(field_str(o, "state"), "running"))
        say(c, tr("%s goes on running at %s/h."), name, price);
    else
        say(c, tr("%s goes on starting; it costs nothing until it runs, then %s/h."), name, price);
    say(c, tr("Look: suanli show %s   Stop: suanli stop %s   End and erase: suanli release %s"),
        name, name, name);
}

/* After an accepted rent or start: waits, shows the steps, ends with the running line. */
static int follow_start(struct cli *c, const struct verb *v, struct answer *a)
{
    AUTO_FREE char *id = mem_strdup(field_str(a->json, "id"));
    int e = 0;

    if (!c->no_wait)
        e = wait_state(c, id, "running", c->timeout_s, a);
    if (c->json && a->status >= 200 && a->status < 300)
        view_json(a);
    if (e == 130)
        say_interrupted(c, a->json);
    if (e || c->json)
        return e;
    if (c->quiet)
        return view_print(c, v, a);
    if (c->no_wait)
        printf(tr("%s is %s. suanli show %s\n"), field_str(a->json, "name"),
               field_str(a->json, "state_text"), field_str(a->json, "name"));
    else
        say_running(c, a->json);
    return 0;
}

/* Enter goes on; 0, or 130 when nothing is to be rented. */
static int rent_ask(struct cli *c)
{
    if (c->dry_run || !c->ask || c->yes || c->json || c->quiet)
        return 0;
    fputs(tr("Enter rents it, Ctrl-C leaves. "), stderr);
    int ch = answer_wait() ? getchar() : EOF;
    for (; ch != '\n' && ch != EOF; ch = getchar())
        ;
    if (ch != EOF)
        return 0;
    say(c, "\n%s", tr("Nothing was rented."));
    return 130;
}

/* The offer of a card and plan; NULL: none, or the words fit more than one. */
static const json_t *plan_offer(const json_t *offers, const char *gpu, const char *plan)
{
    const json_t *found = NULL, *o;
    size_t i;

    json_array_foreach(offers, i, o)
    {
        if (!str_eq(field_str(o, "plan"), plan) || !strcasestr(field_str(o, "gpu"), gpu))
            continue;
        if (found)
            return NULL;
        found = o;
    }
    return found;
}

/* What a plan costs and gives, and the question. The price seen goes with the request: the server
 * refuses another one. Without an offer the server says why. */
static int rent_reserved(struct cli *c, struct call *call)
{
    struct call ls = {.verb = verb_find("plan ls"), .args = json_object()};
    AUTO_ANSWER struct answer a = {0};
    char price[64], hourly[64] = "-", at[64];

    answer_init(&a);
    bool ok = call_send(c, &ls, &a);
    call_fini(&ls);
    if (!ok)
        return a.exit;
    const json_t *o =
        plan_offer(json_object_get(a.json, "offers"),
                   arg_str(call, "gpu") ? arg_str(call, "gpu") : "", arg_str(call, "plan"));
    if (!o)
        return 0;
    arg_default(call, "price", field_str(json_object_get(o, "price"), "amount"));
    if (c->quiet || c->json)
        return 0;
    money_of_field(o, "price", price, sizeof(price));
    if (field_is(o, "ondemand"))
        money_of_field(o, "ondemand", hourly, sizeof(hourly));
    text_time(field_str(o, "ends_at"), at, sizeof(at));
    fprintf(stderr, "%s\n", tr("Plan"));
    plan_what(stderr, call, false);
    plan_linef(stderr, N_("price"), tr("%s per card for a %s (on-demand %s); paid now"), price,
               arg_str(call, "plan"), hourly);
    plan_linef(stderr, N_("ends"), "%s, %s", at,
               arg_bool(call, "renew")   ? tr("renews")
               : arg_bool(call, "go_on") ? tr("on-demand")
                                         : tr("then stop"));
    plan_linef(stderr, N_("left early"), "%s, %" PRId64 "%%", field_str(o, "refund"),
               field_i64(o, "fee"));
    return rent_ask(c);
}

/* The plan and the question; 0 to go on. */
static int rent_plan(struct cli *c, struct call *call, struct answer *q)
{
    if (!quote_get(c, call, q)) {
        card_suggest(c, arg_str(call, "gpu"), q->json);
        return q->exit;
    }
    if (!c->quiet && !c->json)
        print_plan(stderr, call, q->json);
    if (!field_bool(q->json, "fits") && !arg_bool(call, "queue")) {
        const json_t *why = json_object_get(q->json, "why");
        if (c->json) {
            AUTO_FREE char *text = json_dumps(why, JSON_COMPACT);
            puts(text ? text : "{}");
        }
        int code = fail_problem(c, why);
        card_suggest(c, arg_str(call, "gpu"), why);
        return code;
    }
    int e = rent_ask(c);
    if (e)
        return e;
    json_object_set(call->args, "quote", json_object_get(q->json, "quote"));
    return 0;
}

int cmd_rent(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer q = {0}, a = {0};
    int e = fill_defaults(c, call);

    answer_init(&q);
    answer_init(&a);
    if (!e && !arg_str(call, "quote"))
        e = arg_str(call, "plan") ? rent_reserved(c, call) : rent_plan(c, call, &q);
    if (e)
        return e;
    interrupt_watch();
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->dry_run) {
        if (c->json)
            view_json(&a);
        say(c, "%s", tr("Dry run: nothing was rented."));
        return 0;
    }
    return follow_start(c, call->verb, &a);
}

int cmd_start(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    char price[64];
    bool ended = arg_str(call, "for") || arg_str(call, "until") || arg_bool(call, "no_end");

    answer_init(&a);
    if (!ended)
        arg_default(call, "for", c->cfg.rent_for ? c->cfg.rent_for : "4h");
    interrupt_watch();
    if (!call_send(c, call, &a))
        return a.exit;
    if (!c->dry_run)
        return follow_start(c, call->verb, &a);
    if (c->json)
        view_json(&a);
    text_money(json_object_get(a.json, "price_hour"), price, sizeof(price));
    say(c, tr("Dry run: %s would start at %s/h."), field_str(a.json, "name"), price);
    return 0;
}
