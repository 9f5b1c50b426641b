/* cmd_money.c: the wallet and the bill. Amounts are shown as the server wrote them. */
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

/* Only when there is some. */
static void wallet_some(const char *label, const json_t *o, const char *key, const char *tail)
{
    if (!money_is_zero(json_object_get(o, key)))
        wallet_line(label, o, key, tail);
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
    wallet_some(N_("vouchers"), a.json, "vouchers", tr("  pay before cash, inside their scope"));
    wallet_some(N_("gift"), a.json, "gift", "");
    wallet_line(N_("cash"), a.json, "cash", "");
    if (!money_is_zero(json_object_get(a.json, "credit_limit")) ||
        !money_is_zero(json_object_get(a.json, "credit_used"))) {
        char limit[96];

        text_money(json_object_get(a.json, "credit_limit"), text, sizeof(text));
        (void)str_printf(limit, sizeof(limit), tr("  of %s"), text);
        wallet_line(N_("credit used"), a.json, "credit_used", limit);
    }
    wallet_some(N_("owed"), a.json, "owed", tr("  for kept disks"));
    wallet_line(N_("running"), a.json, "burn_hour", tr("/h"));
    if (field_is(a.json, "lasts_s")) {
        text_duration(field_i64(a.json, "lasts_s"), text, sizeof(text));
        printf(tr("At this rate it lasts %s.\n"), text);
    }
    if (field_is(a.json, "package_lapses_at")) {
        char until[64];

        text_card_hours(field_i64(a.json, "package_s"), text, sizeof(text));
        text_time(field_str(a.json, "package_lapses_at"), until, sizeof(until));
        printf(tr("Packages: %s left to use on cards; the first lapses %s.\n"), text, until);
    }
    return 0;
}

/* What is not the usage of the month itself says so: "work (correction of 2026-03)". */
static void bill_subject(const json_t *o, struct strbuf *out)
{
    const char *name = field_str(o, "subject_name"), *kind = field_str(o, "kind");

    text_clean(*name ? name : field_str(o, "subject"), out);
    if (str_eq(kind, "correction"))
        strbuf_addf(out, tr(" (correction of %s)"), field_str(o, "charge_month"));
    if (str_eq(kind, "credit"))
        strbuf_add(out, tr(" (credit)"));
    if (field_bool(o, "simulated"))
        strbuf_addf(out, " (%s)", tr("simulated"));
}

/* A line of the bill is three of the screen: what and how much; when and at which price; the sum.
 * "bill explain" asks for it by its number. */
static void bill_line(const json_t *o)
{
    AUTO_STRBUF struct strbuf subject = {0}, line = {0};
    char from[64], to[64], amount[64];

    strbuf_init(&subject, 4096);
    strbuf_init(&line, 8192);
    bill_subject(o, &subject);
    text_time_exact(field_str(o, "from"), from, sizeof(from));
    text_time_exact(field_str(o, "to"), to, sizeof(to));
    text_money(json_object_get(o, "amount"), amount, sizeof(amount));
    strbuf_addf(&line, "%3" PRId64 "  ", field_i64(o, "n"));
    table_pad(&line, strbuf_str(&subject), 32, false);
    strbuf_add(&line, "  ");
    table_pad(&line, field_str(o, "sku"), 24, false);
    strbuf_add(&line, " ");
    table_pad(&line, amount, 14, true);
    printf("%s\n     %s - %s  %s\n     %s\n", strbuf_str(&line), from, to,
           field_str(o, "price_version"), field_str(o, "formula"));
}

static void print_lines(const json_t *lines)
{
    AUTO_STRBUF struct strbuf head = {0};
    size_t i;
    json_t *o;

    if (json_array_size(lines) == 0)
        return;
    strbuf_init(&head, 512);
    strbuf_add(&head, "  #  ");
    table_pad(&head, tr("SUBJECT"), 34, false);
    table_pad(&head, tr("FOR"), 25, false);
    table_pad(&head, tr("AMOUNT"), 14, true);
    puts(strbuf_str(&head));
    json_array_foreach(lines, i, o) bill_line(o);
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

/* How a closed month ends: what was given back, tax, what it comes to. */
static void bill_closed(const json_t *bill)
{
    char text[64], tax[64];
    json_t *t;
    size_t i;

    if (!field_is(bill, "number"))
        return;
    text_money(json_object_get(bill, "residue"), text, sizeof(text));
    printf(tr("Given back below the smallest unit: %s\n"), text);
    json_array_foreach(json_object_get(bill, "taxes"), i, t)
    {
        text_money(json_object_get(t, "net"), text, sizeof(text));
        text_money(json_object_get(t, "tax"), tax, sizeof(tax));
        printf(tr("Tax %s (%s, %s): net %s, tax %s\n"), field_str(t, "country"),
               field_str(t, "class"), field_str(t, "rate"), text, tax);
    }
    text_money(json_object_get(bill, "payable"), text, sizeof(text));
    printf(tr("Closed as %s: %s (%s)\n"), field_str(bill, "number"), text,
           field_str(bill, "tax_reason"));
}

int cmd_bill(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    char text[64];

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    text_zone(c, field_str(a.json, "zone"));
    say(c, tr("Bill of %s, %s (zone %s)"), field_str(a.json, "project"), field_str(a.json, "month"),
        field_str(a.json, "zone"));
    if (field_is(a.json, "by"))
        print_groups(c, a.json);
    else
        print_lines(json_object_get(a.json, "lines"));
    text_money(json_object_get(a.json, "total"), text, sizeof(text));
    printf(tr("Total %s\n"), text);
    bill_closed(a.json);
    if (field_bool(a.json, "simulated"))
        puts(tr("Lines marked (simulated) are of simulated cards."));
    return 0;
}
