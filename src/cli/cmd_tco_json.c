/* cmd_tco_json.c: suanli tco --json. Amounts are money objects, everything else is a number in the
 * unit that its name ends with. */
#include <math.h>

#include "cli/tco_ask.h"

static void number(struct json_writer *w, const char *key, double v)
{
    char text[32];

    if (!isfinite(v)) {
        json_none(w, key);
        return;
    }
    str_printf(text, sizeof(text), "%.10g", v);
    json_raw(w, key, text);
}

static void money(struct json_writer *w, const struct tco_ask *a, const char *key, int64_t minor)
{
    char text[MONEY_TEXT_SIZE];
    struct money m;

    if (money_from_minor(minor, a->ccy, &m) != ERR_OK) {
        json_none(w, key);
        return;
    }
    money_format(m, text, sizeof(text));
    json_object_begin(w, key);
    json_str(w, "amount", text);
    json_str(w, "currency", a->ccy.code);
    json_object_finish(w);
}

static void rate_money(struct json_writer *w, const struct tco_ask *a, const char *key, double v)
{
    int64_t minor;

    if (tco_minor(v, a->in.exp, &minor) == ERR_OK)
        money(w, a, key, minor);
    else
        json_none(w, key);
}

static void write_input(struct json_writer *w, const struct tco_ask *a, const struct tco_result *r)
{
    json_object_begin(w, "input");
    json_str(w, "currency", a->ccy.code);
    json_i64(w, "cards", r->cards);
    number(w, "utilisation", r->util);
    number(w, "years", r->years);
    number(w, "useful_hours", r->hours);
    number(w, "price_hour", r->price);
    number(w, "month_h", TCO_MONTH_H);
    number(w, "year_h", TCO_YEAR_H);
    json_array_begin(w, "assumed");
    for (size_t i = 0; i < a->assumed_count; i++) {
        json_object_begin(w, NULL);
        json_str(w, "flag", a->assumed[i].flag);
        json_str(w, "value", a->assumed[i].value);
        json_str(w, "why", tr(a->assumed[i].why));
        json_object_finish(w);
    }
    json_array_finish(w);
    if (a->usage.given) {
        json_object_begin(w, "usage");
        json_i64(w, "months", a->usage.months);
        number(w, "card_hours", a->usage.hours);
        number(w, "idle_share", a->usage.idle);
        rate_money(w, a, "amount", tco_from_micro(a->usage.amount.u));
        json_object_finish(w);
    }
    json_object_finish(w);
}

static void write_lines(struct json_writer *w, const struct tco_ask *a, const struct tco_result *r)
{
    static const char *const rent[] = {"card_hours", "storage", "traffic", "accidents"};
    static const char *const own[] = {"machines",  "network", "residual",    "hosting",
                                      "power",     "staff",   "maintenance", "licences",
                                      "insurance", "finance"};
    static const char *const option[] = {"hourly", "plan", "spot", "own", "mixed"};

    json_object_begin(w, "rent_lines");
    for (size_t i = 0; i < TCO_RENT_LINES; i++)
        money(w, a, rent[i], r->rent_line[i]);
    json_object_finish(w);
    money(w, a, "rent", r->rent);
    json_object_begin(w, "own_lines");
    for (size_t i = 0; i < TCO_OWN_LINES; i++)
        money(w, a, own[i], r->own_line[i]);
    json_object_finish(w);
    money(w, a, "own", r->own);
    json_object_begin(w, "options");
    for (size_t i = 0; i < TCO_OPTIONS; i++)
        if (r->has[i])
            money(w, a, option[i], r->option[i]);
    json_object_finish(w);
    json_str(w, "cheapest", option[r->best]);
    money(w, a, "margin", r->margin);
    if (r->has[TCO_MIXED])
        json_i64(w, "mixed_own_cards", r->mixed_own);
}

static void write_even(struct json_writer *w, const struct tco_ask *a, const struct tco_result *r)
{
    rate_money(w, a, "rent_month", r->rent_month);
    rate_money(w, a, "running_month", r->run_month);
    rate_money(w, a, "net_month", r->net_month);
    number(w, "break_even_months", r->even_month >= 0 ? r->even_month : NAN);
    number(w, "break_even_months_discounted", r->even_discounted >= 0 ? r->even_discounted : NAN);
    number(w, "break_even_utilisation", r->even_util);
    if (r->has_npv)
        money(w, a, "present_value_of_buying", r->npv);
    number(w, "own_hour", r->own_hour);
    rate_money(w, a, "depreciation_year", r->depreciation_year);
    if (r->plan_hours > 0)
        number(w, "plan_from_hours", r->plan_hours);
    if (a->in.spot > 0) {
        number(w, "spot_effective_hour", r->spot_price);
        number(w, "spot_overhead", r->spot_overhead);
        number(w, "spot_checkpoint_h", r->spot_tau_h);
    }
    if (a->job_hours > 0) {
        rate_money(w, a, "job_rented", a->job_hours * r->price);
        rate_money(w, a, "job_owned", a->job_hours * r->own_hour);
    }
}

static void write_sense(struct json_writer *w, const struct tco_ask *a, const struct tco_result *r)
{
    static const char *const knob[] = {"utilisation", "price", "capex", "residual", "staff"};
    static const int rule[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10};
    struct tco_year y;

    json_array_begin(w, "rules");
    for (size_t i = 0; i < TCO_RULES; i++)
        if (r->fired & 1u << i)
            json_i64(w, NULL, rule[i]);
    json_array_finish(w);
    if (r->ruled)
        json_i64(w, "decided_by_rule", rule[r->rule]);
    else
        json_none(w, "decided_by_rule");
    json_array_begin(w, "sensitivity");
    for (size_t i = 0; i < r->sense_count; i++) {
        const struct tco_sense *s = &r->sense[i];
        json_object_begin(w, NULL);
        json_str(w, "input", knob[s->knob]);
        number(w, "low", s->low);
        number(w, "high", s->high);
        money(w, a, "rent_minus_own_low", s->at_low);
        money(w, a, "rent_minus_own_high", s->at_high);
        json_flag(w, "flips", s->flips);
        json_object_finish(w);
    }
    json_array_finish(w);
    json_array_begin(w, "years");
    for (size_t i = 0; i < tco_year_count(&a->in); i++) {
        tco_year_get(&a->in, i, &y);
        json_object_begin(w, NULL);
        json_i64(w, "year", (int64_t)i + 1);
        number(w, "length", y.length);
        money(w, a, "rent", y.rent);
        money(w, a, "own", y.own);
        money(w, a, "rent_sum", y.rent_sum);
        money(w, a, "own_sum", y.own_sum);
        json_object_finish(w);
    }
    json_array_finish(w);
}

void tco_print_json(const struct tco_ask *a, const struct tco_result *r)
{
    AUTO_STRBUF struct strbuf b = {0};
    struct json_writer w;

    strbuf_init(&b, 1 << 20);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_str(&w, "verdict", tco_verdict_code(r->verdict));
    json_str(&w, "figures_alone", tco_verdict_code(r->arithmetic));
    write_input(&w, a, r);
    write_lines(&w, a, r);
    write_even(&w, a, r);
    write_sense(&w, a, r);
    json_object_finish(&w);
    puts(strbuf_str(&b));
}
