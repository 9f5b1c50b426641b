/* cmd_tco.c: rent or buy. Figures come from flags, from a form on a terminal, from the account's
 * own use, or from defaults that are printed with their reason. No server is needed (but for
 * --from-usage). Amounts are parsed as money and cross into the estimate by tco_from_micro. */
#include <stdlib.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/tco_ask.h"

void tco_assume(struct tco_ask *a, const char *flag, const char *why, const char *fmt, ...)
{
    va_list ap;

    CHECK(a->assumed_count < TCO_ASSUMED_MAX);
    a->assumed[a->assumed_count].flag = flag;
    a->assumed[a->assumed_count].why = why;
    va_start(ap, fmt);
    vsnprintf(a->assumed[a->assumed_count].value, sizeof(a->assumed[0].value), fmt, ap);
    va_end(ap);
    a->assumed_count++;
}

/* "0.6", "60%", "3": digits with at most one point. */
static bool number_parse(const char *s, double *ret_v)
{
    size_t whole = strspn(s, "0123456789"), n = whole;

    if (whole == 0 || whole > 15)
        return false;
    if (s[n] == '.') {
        size_t part = strspn(s + n + 1, "0123456789");
        if (part == 0 || part > 15)
            return false;
        n += 1 + part;
    }
    double v = strtod(s, NULL);
    bool percent = s[n] == '%' && s[n + 1] == '\0';
    if (s[n] != '\0' && !percent)
        return false;
    *ret_v = percent ? v / 100 : v;
    return true;
}

static void flag_name(const char *name, char *buf, size_t size)
{
    str_printf(buf, size, "--%s", name);
    for (char *p = buf; *p; p++)
        if (*p == '_')
            *p = '-';
}

static int wrong(struct cli *c, const char *name, const char *value, const char *like)
{
    char flag[64];

    flag_name(name, flag, sizeof(flag));
    return fail_usage(c, tr("%s %s: expected something such as %s"), flag, value, like);
}

struct number {
    const char *name;
    double *to;
};

static int numbers_take(struct cli *c, struct call *call, const struct number *n, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *s = arg_str(call, n[i].name);
        if (s && !number_parse(s, n[i].to))
            return wrong(c, n[i].name, s, "0.6, 60%, 3");
    }
    return 0;
}

static int amounts_take(struct cli *c, struct call *call, struct currency ccy,
                        const struct number *n, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *s = arg_str(call, n[i].name);
        struct money m;
        if (!s)
            continue;
        if (money_parse(s, ccy, &m) != ERR_OK)
            return wrong(c, n[i].name, s, "1000000, 19.80");
        *n[i].to = tco_from_micro(m.u);
    }
    return 0;
}

static int durations_take(struct cli *c, struct call *call, const struct number *n, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *s = arg_str(call, n[i].name);
        int64_t seconds;
        if (!s)
            continue;
        if (duration_parse(s, &seconds) != ERR_OK)
            return wrong(c, n[i].name, s, "2m, 10m, 24h");
        *n[i].to = (double)seconds / 3600;
    }
    return 0;
}

/* "8:0.3,4:50%": so many cards for that share of the hours. */
static int demand_take(struct cli *c, const char *text, struct tco_input *in)
{
    AUTO_FREE char *copy = mem_strdup(text);
    char *next;

    for (char *step = copy; step; step = next) {
        char *colon = strchr(step, ':');
        int64_t cards;
        double share;
        next = strchr(step, ',');
        if (next)
            *next++ = '\0';
        if (!colon || (next && colon >= next) || in->demand_count == TCO_DEMAND_MAX)
            return wrong(c, "demand", text, "8:0.3,4:0.5");
        *colon = '\0';
        if (str_parse_i64(step, 0, 1000000, &cards) != ERR_OK || !number_parse(colon + 1, &share))
            return wrong(c, "demand", text, "8:0.3,4:0.5");
        in->demand[in->demand_count++] = (struct tco_demand){cards, share};
    }
    for (size_t i = 0; i < in->demand_count; i++)
        if (in->demand[i].cards > 0 && in->demand[i].share > 0)
            return 0;
    return wrong(c, "demand", text, "8:0.3,4:0.5");
}

/* What is assumed where nothing is given: per card, in the currencies that the sources speak of. */
struct basis {
    const char *code;
    double price, capex, hosting, maintenance, salary;
    const char *price_why, *capex_why, *hosting_why, *maintenance_why, *salary_why;
};
static const struct basis bases[] = {
    {"CNY", 20, 125000, 5000, 0, 300000,
     N_("an A100-80 hour: inside PAI 18-35 and TI-ONE 15-30 of suanli market"),
     N_("an 8-card A100 server costs 0.8-1.2 million: the middle, per card"),
     N_("hosting of 8 cards costs 30-50 thousand a year: the middle, per card"), "",
     N_("one operator, fully charged: an assumption of ours")},
    {"USD", 3.5, 43750, 2295, 1875, 0, N_("an H100 hour: the middle of published 2.50-4.50"),
     N_("8 H100 cost 300-400 thousand: the middle, per card"),
     N_("10.2 kW at 150 a kW-month for 8 cards, per card"),
     N_("operations of 15,000 a year for 8 cards, per card"), ""},
};

static const struct basis *basis_find(struct currency ccy)
{
    for (size_t i = 0; i < ARRAY_LEN(bases); i++)
        if (str_eq(bases[i].code, ccy.code))
            return &bases[i];
    return NULL;
}

static bool given(const struct call *call, const char *name)
{
    return json_object_get(call->args, name) != NULL;
}

/* A currency without figures of its own needs the three that decide. */
static int basis_need(struct cli *c, const struct call *call, const struct tco_ask *a)
{
    static const char *const need[] = {"price", "capex", "hosting"};

    for (size_t i = 0; i < ARRAY_LEN(need); i++)
        if (!given(call, need[i]) && !(i == 0 && a->usage.given))
            return fail_usage(c, tr("--%s is missing: there is no usual figure in %s"), need[i],
                              a->ccy.code);
    return 0;
}

static void assume_shape(const struct call *call, struct tco_ask *a)
{
    struct tco_input *in = &a->in;
    bool curve = in->demand_count > 0;

    if (!given(call, "cards") && !curve && !a->usage.given) {
        in->cards = 8;
        tco_assume(a, "--cards", N_("one usual server"), "8");
    }
    for (size_t i = 0; curve && i < in->demand_count; i++)
        in->cards = MAX(in->cards, in->demand[i].cards);
    if (!given(call, "utilisation") && !curve && !a->usage.given) {
        in->util = in->weeks > 0 ? 1 : TCO_BUY_FROM;
        if (in->weeks > 0)
            tco_assume(a, "--utilisation", N_("a short project uses its cards all the time"), "1");
        else
            tco_assume(a, "--utilisation",
                       N_("the use from which buying is said to pay; your own decides"), "0.6");
    }
    if (!given(call, "years") && in->weeks <= 0) {
        in->years = 3;
        tco_assume(a, "--years", N_("cards live 3 to 5 years"), "3");
    }
    if (!given(call, "residual"))
        tco_assume(a, "--residual",
                   N_("careful: after 18-24 months about half is said; see the sensitivity"), "0");
}

static void assume_money(const struct call *call, struct tco_ask *a, const struct basis *b)
{
    struct tco_input *in = &a->in;
    double n = (double)in->cards;

    if (!given(call, "price") && !a->usage.given) {
        in->price = b->price;
        tco_assume(a, "--price", b->price_why, "%g %s", b->price, b->code);
    }
    if (!given(call, "capex")) {
        in->capex = n * b->capex;
        tco_assume(a, "--capex", b->capex_why, "%.0f %s", in->capex, b->code);
    }
    if (!given(call, "hosting") && !given(call, "power_kw")) {
        in->hosting = n * b->hosting;
        tco_assume(a, "--hosting", b->hosting_why, "%.0f %s", in->hosting, b->code);
    }
    if (!given(call, "maintenance") && b->maintenance > 0) {
        in->maintenance = n * b->maintenance;
        tco_assume(a, "--maintenance", b->maintenance_why, "%.0f %s", in->maintenance, b->code);
    }
    if (!given(call, "salary") && b->salary > 0) {
        in->salary = b->salary;
        tco_assume(a, "--salary", b->salary_why, "%.0f %s", in->salary, b->code);
    }
}

static int assume_rest(struct cli *c, const struct call *call, struct tco_ask *a)
{
    struct tco_input *in = &a->in;

    if (!given(call, "staff"))
        tco_assume(a, "--staff",
                   N_("people you have anyway; 8 cards alone need one: see the sensitivity"), "0");
    else if (in->staff > 0 && in->salary <= 0)
        return fail_usage(c, tr("--%s is missing: there is no usual figure in %s"), "salary",
                          a->ccy.code);
    if (in->kw > 0) {
        if (!given(call, "power_load"))
            tco_assume(a, "--power-load", N_("usual in training"), "%g", in->load = 0.7);
        if (!given(call, "pue"))
            tco_assume(a, "--pue", N_("a usual machine room"), "%g", in->pue = 1.5);
        if (!given(call, "tariff") && !str_eq(a->ccy.code, "CNY"))
            return fail_usage(c, tr("--%s is missing: there is no usual figure in %s"), "tariff",
                              a->ccy.code);
        if (!given(call, "tariff"))
            tco_assume(a, "--tariff", N_("commercial power, per kWh"), "%g CNY", in->tariff = 0.8);
    }
    if (in->spot > 0) {
        if (!given(call, "spot_mtbf"))
            tco_assume(a, "--spot-mtbf", N_("reclaimed once a day"), "%.0f h",
                       in->spot_mtbf_h = 24);
        if (!given(call, "checkpoint") && in->job_h <= 0) {
            in->checkpoint_h = 2 / 60.0;
            tco_assume(a, "--checkpoint", N_("a few GB to a local disk"), "2m");
        }
        if (!given(call, "restart")) {
            in->restart_h = 10 / 60.0;
            tco_assume(a, "--restart", N_("a new card, image and data"), "10m");
        }
    }
    if (in->accident_chance > 0) {
        if (!given(call, "accident_hours"))
            tco_assume(a, "--accident-hours", N_("an instance forgotten for a week"), "%.0f",
                       in->accident_hours = TCO_FORGOTTEN_H);
        if (!given(call, "accident_cards"))
            tco_assume(a, "--accident-cards", N_("one card"), "%.0f", in->accident_cards = 1);
    }
    return 0;
}

static int flags_take(struct cli *c, struct call *call, struct tco_ask *a)
{
    struct tco_input *in = &a->in;
    const struct number numbers[] = {
        {"utilisation", &in->util},
        {"years", &in->years},
        {"weeks", &in->weeks},
        {"staff", &in->staff},
        {"residual", &in->residual},
        {"price_drop", &in->price_drop},
        {"vat", &in->vat},
        {"discount", &in->discount},
        {"rate", &in->rate},
        {"network_share", &in->network_share},
        {"power_kw", &in->kw},
        {"power_load", &in->load},
        {"pue", &in->pue},
        {"storage_gb", &in->storage_gb},
        {"pull_gb", &in->pull_gb},
        {"pulls", &in->pulls},
        {"accident_chance", &in->accident_chance},
        {"accident_hours", &in->accident_hours},
        {"accident_cards", &in->accident_cards},
        {"job_hours", &a->job_hours},
    };
    const struct number amounts[] = {
        {"price", &in->price},
        {"capex", &in->capex},
        {"hosting", &in->hosting},
        {"salary", &in->salary},
        {"maintenance", &in->maintenance},
        {"licences", &in->licences},
        {"insurance", &in->insurance},
        {"finance", &in->finance},
        {"tariff", &in->tariff},
        {"rack", &in->rack},
        {"plan", &in->plan},
        {"spot", &in->spot},
        {"storage_price", &in->storage_price},
        {"traffic_price", &in->traffic_price},
    };
    const struct number durations[] = {{"spot_mtbf", &in->spot_mtbf_h},
                                       {"checkpoint", &in->checkpoint_h},
                                       {"restart", &in->restart_h},
                                       {"job", &in->job_h}};
    int e = numbers_take(c, call, numbers, ARRAY_LEN(numbers));

    e = e ? e : amounts_take(c, call, a->ccy, amounts, ARRAY_LEN(amounts));
    e = e ? e : durations_take(c, call, durations, ARRAY_LEN(durations));
    if (!e && arg_str(call, "demand"))
        e = demand_take(c, arg_str(call, "demand"), in);
    if (given(call, "cards"))
        in->cards = json_integer_value(json_object_get(call->args, "cards"));
    in->vat_reclaimable = arg_bool(call, "vat_reclaimable");
    in->data_stays = arg_bool(call, "data_stays");
    in->steady = arg_bool(call, "steady");
    in->special = arg_bool(call, "special");
    in->room = arg_bool(call, "room");
    in->latency = arg_bool(call, "latency");
    in->prototype = arg_bool(call, "prototype");
    in->long_jobs = arg_bool(call, "long_jobs");
    return e;
}

/* Two flags that say the same thing, or one that says nothing without another. */
static int flags_agree(struct cli *c, const struct call *call)
{
    static const char *const either[][2] = {
        {"demand", "cards"},      {"demand", "utilisation"},     {"years", "weeks"},
        {"from_usage", "demand"}, {"from_usage", "utilisation"}, {"job", "checkpoint"}};
    static const char *const with[][2] = {{"power_load", "power_kw"},
                                          {"pue", "power_kw"},
                                          {"tariff", "power_kw"},
                                          {"spot_mtbf", "spot"},
                                          {"checkpoint", "spot"},
                                          {"restart", "spot"},
                                          {"job", "spot"},
                                          {"storage_gb", "storage_price"},
                                          {"storage_price", "storage_gb"},
                                          {"pulls", "pull_gb"},
                                          {"pull_gb", "traffic_price"},
                                          {"traffic_price", "pull_gb"},
                                          {"pull_gb", "pulls"},
                                          {"accident_hours", "accident_chance"},
                                          {"months", "from_usage"},
                                          {"accident_cards", "accident_chance"}};
    char a[64], b[64];

    for (size_t i = 0; i < ARRAY_LEN(either); i++) {
        flag_name(either[i][0], a, sizeof(a));
        flag_name(either[i][1], b, sizeof(b));
        if (given(call, either[i][0]) && given(call, either[i][1]))
            return fail_usage(c, tr("give either %s or %s"), a, b);
    }
    for (size_t i = 0; i < ARRAY_LEN(with); i++) {
        flag_name(with[i][0], a, sizeof(a));
        flag_name(with[i][1], b, sizeof(b));
        if (given(call, with[i][0]) && !given(call, with[i][1]))
            return fail_usage(c, tr("%s needs %s as well"), a, b);
    }
    return 0;
}

/* Seven questions; an empty answer keeps what stands in brackets. */
static int form_fill(struct cli *c, struct call *call)
{
    static const struct {
        const char *name, *text, *usual;
    } question[] = {
        {"cards", N_("How many cards"), "8"},
        {"utilisation", N_("Share of their hours that they work"), "60%"},
        {"price", N_("Rent of a card-hour, CNY"), "20"},
        {"capex", N_("Price of the machines, CNY"), N_("125000 a card")},
        {"hosting", N_("Hosting a year, CNY"), N_("5000 a card")},
        {"staff", N_("Persons to run them (0.1 = a tenth)"), "0"},
        {"years", N_("Years to look at"), "3"},
    };

    say(c, "%s", tr("Rent or buy. Enter keeps what stands in brackets; flags: suanli help tco"));
    for (size_t i = 0; i < ARRAY_LEN(question); i++) {
        char answer[64];
        int64_t cards;
        fprintf(stderr, "%s [%s]: ", tr(question[i].text), tr(question[i].usual));
        fflush(stderr);
        if (!answer_wait() || !fgets(answer, sizeof(answer), stdin))
            return fail_usage(c, "%s", tr("the form was not filled in"));
        answer[strcspn(answer, "\r\n")] = '\0';
        if (!*answer)
            continue;
        if (i > 0)
            json_object_set_new(call->args, question[i].name, json_string(answer));
        else if (str_parse_i64(answer, 1, 1000000, &cards) == ERR_OK)
            json_object_set_new(call->args, question[i].name, json_integer(cards));
        else
            return wrong(c, question[i].name, answer, "8");
    }
    return 0;
}

static int ask_fill(struct cli *c, struct call *call, struct tco_ask *a)
{
    const char *code = arg_str(call, "currency") ? arg_str(call, "currency") : "CNY";
    const json_t *months = json_object_get(call->args, "months");
    int e = flags_agree(c, call);

    if (e)
        return e;
    if (currency_get(code, &a->ccy) != ERR_OK)
        return wrong(c, "currency", code, "CNY, USD");
    if (arg_bool(call, "from_usage")) {
        e = tco_usage_load(c, months ? json_integer_value(months) : 3, a);
        if (!e && arg_str(call, "currency") && !str_eq(code, a->usage.amount.ccy.code)) {
            struct refusal why;
            (void)refusef(&why, ERR_CURRENCY, "what", "%s", "--currency");
            refusal_set(&why, "got", code);
            refusal_set(&why, "want", a->usage.amount.ccy.code);
            return fail(c, &why);
        }
        a->ccy = e ? a->ccy : a->usage.amount.ccy;
    }
    if (e)
        return e;
    a->in.exp = currency_exp(a->ccy);
    e = flags_take(c, call, a);
    if (e)
        return e;
    const struct basis *b = basis_find(a->ccy);
    if (!b && (e = basis_need(c, call, a)))
        return e;
    assume_shape(call, a);
    if (b)
        assume_money(call, a, b);
    return assume_rest(c, call, a);
}

bool tco_own_month(struct currency ccy, double card_hours, double price_hour,
                   struct money *ret_month)
{
    const struct basis *b = basis_find(ccy);
    struct call none = {.args = json_object()};
    struct tco_ask a = {.ccy = ccy};
    struct tco_result r;
    struct refusal why;
    bool pays = false;

    if (b && card_hours > 0) {
        a.in.exp = currency_exp(ccy);
        a.in.cards = (int64_t)(card_hours / TCO_MONTH_H) + 1;
        a.in.util = card_hours / (TCO_MONTH_H * (double)a.in.cards);
        a.in.price = price_hour;
        a.usage.given = true;
        assume_shape(&none, &a);
        assume_money(&none, &a, b);
        pays = tco_decide(&a.in, &r, &why) == ERR_OK && r.own < r.rent &&
               money_from_minor(r.own / (int64_t)(a.in.years * 12), ccy, ret_month) == ERR_OK;
    }
    json_decref(none.args);
    return pays;
}

int cmd_tco(struct cli *c, struct call *call)
{
    struct tco_ask a = {0};
    struct tco_result r;
    struct refusal why;
    int e = 0;

    if (c->ask && !c->json && !c->quiet && json_object_size(call->args) == 0)
        e = form_fill(c, call);
    e = e ? e : ask_fill(c, call, &a);
    if (e)
        return e;
    if (tco_decide(&a.in, &r, &why) != ERR_OK)
        return fail_words(c, &why);
    if (c->json)
        tco_print_json(&a, &r);
    else if (c->quiet)
        puts(tco_verdict_code(r.verdict));
    else
        tco_print(c, &a, &r);
    return 0;
}
