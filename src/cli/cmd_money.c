/* cmd_money.c: the wallet and the bill. Amounts are shown as the server wrote them. */
#include <stdlib.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/table.h"

static void wallet_line(const char *label, const json_t *o, const char *key, const char *tail)
{
    AUTO_STRBUF struct strbuf b = {0};
    char text[64];

    strbuf_init(&b, 512);
    table_pad(&b, tr(label), 12, false);
    text_money(json_object_get(o, key), text, sizeof(text));
    table_pad(&b, text, 14, true);
    printf("%s%s\n", strbuf_str(&b), tail);
}

int cmd_wallet(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    char text[64];

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    wallet_line(N_("available"), a.json, "available", "");
    wallet_line(N_("held"), a.json, "held", tr("  for the running terms, given back as used"));
    wallet_line(N_("cash"), a.json, "cash", "");
    if (!money_is_zero(json_object_get(a.json, "owed")))
        wallet_line(N_("owed"), a.json, "owed", tr("  for kept disks"));
    wallet_line(N_("running"), a.json, "burn_hour", tr("/h"));
    if (field_is(a.json, "lasts_s")) {
        text_duration(field_i64(a.json, "lasts_s"), text, sizeof(text));
        printf(tr("At this rate it lasts %s.\n"), text);
    }
    return 0;
}

/* A bill is read in the zone it was made in, which it names. */
static void use_zone(const char *zone)
{
    static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/";

    if (*zone && *zone != '/' && zone[strspn(zone, ok)] == '\0') {
        setenv("TZ", zone, 1);
        tzset();
    }
}

static void bill_row(struct table *t, const json_t *o)
{
    char text[64];
    const char *name = field_str(o, "subject_name");
    bool simulated = field_bool(o, "simulated");

    table_addf(t, "%s%s%s%s", *name ? name : field_str(o, "subject"), simulated ? " (" : "",
               simulated ? tr("simulated") : "", simulated ? ")" : "");
    table_add(t, field_str(o, "sku"));
    text_time_exact(field_str(o, "from"), text, sizeof(text));
    table_add(t, text);
    text_time_exact(field_str(o, "to"), text, sizeof(text));
    table_add(t, text);
    table_addf(t, "%s %s", field_str(o, "quantity"), field_str(o, "unit"));
    table_add(t, field_str(o, "price_version"));
    text_money(json_object_get(o, "amount"), text, sizeof(text));
    table_add(t, text);
    table_add(t, field_str(o, "formula"));
}

static void print_groups(struct cli *c, const json_t *bill)
{
    static const char *const by[][2] = {
        {"project", N_("PROJECT")}, {"gpu", N_("FOR")}, {"user", N_("USER")}, {"day", N_("DAY")}};
    const char *head[] = {"", N_("AMOUNT"), NULL};
    struct table t;
    size_t i;
    json_t *o;

    for (i = 0; i < ARRAY_LEN(by); i++)
        if (str_eq(field_str(bill, "by"), by[i][0]))
            head[0] = by[i][1];
    table_init(&t, head, "<>");
    json_array_foreach(json_object_get(bill, "groups"), i, o)
    {
        char text[64];

        table_add(&t, field_str(o, "name"));
        text_money(json_object_get(o, "amount"), text, sizeof(text));
        table_add(&t, text);
    }
    if (t.cells > t.columns)
        table_print(&t, stdout, c->color);
    table_fini(&t);
}

int cmd_bill(struct cli *c, struct call *call)
{
    static const char *const head[] = {N_("SUBJECT"), N_("FOR"),      N_("FROM"),
                                       N_("TO"),      N_("QUANTITY"), N_("PRICE"),
                                       N_("AMOUNT"),  N_("FORMULA"),  NULL};
    AUTO_ANSWER struct answer a = {0};
    struct table t;
    size_t i;
    json_t *o;
    char text[64];

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    if (!c->utc)
        use_zone(field_str(a.json, "zone"));
    say(c, tr("Bill of %s, %s (zone %s)"), field_str(a.json, "project"), field_str(a.json, "month"),
        field_str(a.json, "zone"));
    if (field_is(a.json, "by")) {
        print_groups(c, a.json);
    } else {
        table_init(&t, head, "<<<<><><");
        json_array_foreach(json_object_get(a.json, "lines"), i, o) bill_row(&t, o);
        if (t.cells > t.columns)
            table_print(&t, stdout, c->color);
        table_fini(&t);
    }
    text_money(json_object_get(a.json, "total"), text, sizeof(text));
    printf(tr("Total %s\n"), text);
    if (field_bool(a.json, "simulated"))
        puts(tr("Lines marked (simulated) are of simulated cards."));
    return 0;
}
