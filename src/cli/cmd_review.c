/* cmd_review.c: a month looked back at. The server counts; what an own machine would have cost is
 * computed here, with the figures that suanli tco assumes. */
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/table.h"
#include "cli/tco_ask.h"

static double hours_of(const json_t *month, const char *key)
{
    return (double)field_i64(month, key) / 3600;
}

static void month_row(struct table *t, const json_t *o)
{
    char text[64];

    table_add(t, field_str(o, "month"));
    table_addf(t, "%.2f", hours_of(o, "card_seconds"));
    table_addf(t, "%.2f", hours_of(o, "idle_card_seconds"));
    text_money(json_object_get(o, "idle_cost"), text, sizeof(text));
    table_add(t, text);
    text_money(json_object_get(o, "gpu"), text, sizeof(text));
    table_add(t, text);
    text_money(json_object_get(o, "total"), text, sizeof(text));
    table_add(t, text);
}

static void print_months(struct cli *c, const json_t *review)
{
    static const char *const head[] = {
        N_("MONTH"),      N_("CARD-HOURS"), N_("IDLE"), N_("IDLE COST"),
        N_("CARDS COST"), N_("TOTAL"),      NULL};
    struct table t;
    size_t i;
    json_t *o;

    table_init(&t, head, "<>>>>>");
    json_array_foreach(json_object_get(review, "past"), i, o) month_row(&t, o);
    month_row(&t, json_object_get(review, "month"));
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

static bool money_read(const json_t *o, struct money *ret_m)
{
    struct currency ccy;

    return currency_get(field_str(o, "currency"), &ccy) == ERR_OK &&
           money_parse(field_str(o, "amount"), ccy, ret_m) == ERR_OK;
}

/* Of the three months before, when they were alike. */
static void print_own(const json_t *review)
{
    double hours = 0, paid_u = 0;
    struct money one = {0}, own;
    char text[MONEY_TEXT_SIZE + 8], was[MONEY_TEXT_SIZE + 8];
    size_t i, n = 0;
    json_t *o;

    json_array_foreach(json_object_get(review, "past"), i, o)
    {
        if (!money_read(json_object_get(o, "gpu"), &one))
            return;
        hours += hours_of(o, "card_seconds");
        paid_u += (double)one.u;
        n++;
    }
    if (n == 0 || hours <= 0 ||
        !tco_own_month(one.ccy, hours / (double)n, paid_u / 1e6 / hours, &own))
        return;
    money_format_ccy(own, text, sizeof(text));
    money_format_ccy(money_of((int64_t)(paid_u / (double)n), one.ccy), was, sizeof(was));
    printf(
        tr("An own machine would have cost about %s a month instead of %s (over 3 years, figures "
           "assumed).\n"),
        text, was);
    puts(tr("  See every line and put in your own figures: suanli tco --from-usage"));
}

static void print_plan(const json_t *plan)
{
    char paid[64], would[64];

    text_money(json_object_get(plan, "paid"), paid, sizeof(paid));
    text_money(json_object_get(plan, "would_have_cost"), would, sizeof(would));
    printf(tr("Monthly plans would have cost %s instead of %s in these three months.\n"), would,
           paid);
    puts(tr("  See what is offered: suanli plan ls"));
}

int cmd_review(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    const json_t *month;
    char text[64];

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    month = json_object_get(a.json, "month");
    print_months(c, a.json);
    if (field_i64(month, "card_seconds") > 0) {
        text_money(json_object_get(month, "idle_cost"), text, sizeof(text));
        printf(tr("%.0f %% of this month's card-hours ran under 5 %% load: %s.\n"),
               100 * hours_of(month, "idle_card_seconds") / hours_of(month, "card_seconds"), text);
    }
    text_money(json_object_get(a.json, "forecast"), text, sizeof(text));
    printf(tr("If what runs now goes on, the month comes to %s.\n"), text);
    if (!field_bool(a.json, "steady"))
        return 0;
    if (json_is_object(json_object_get(a.json, "plan")))
        print_plan(json_object_get(a.json, "plan"));
    print_own(a.json);
    return 0;
}
