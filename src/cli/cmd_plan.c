/* cmd_plan.c: plans: what can be bought beside its hourly price, and what there is. */
#include "cli/cli.h"
#include "cli/table.h"

static void money_cell(struct table *t, const json_t *o, const char *key)
{
    char text[64];

    if (field_is(o, key))
        text_money(json_object_get(o, key), text, sizeof(text));
    table_add(t, field_is(o, key) ? text : "-");
}

static void time_cell(struct table *t, const json_t *o, const char *key)
{
    char text[64];

    text_time(field_str(o, key), text, sizeof(text));
    table_add(t, text);
}

/* "clawback, 10%" */
static void rule_cell(struct table *t, const json_t *o)
{
    if (field_i64(o, "fee") > 0)
        table_addf(t, "%s %d%%", field_str(o, "refund"), (int)field_i64(o, "fee"));
    else
        table_add(t, field_str(o, "refund"));
}

static void offers_print(struct cli *c, const json_t *list)
{
    static const char *const head[] = {N_("CARD"), N_("PLAN"),    N_("PRICE"), N_("ON-DEMAND"),
                                       N_("ENDS"), N_("IF LEFT"), NULL};
    struct table t;
    size_t i;
    json_t *o;

    table_init(&t, head, "<<>><<");
    json_array_foreach(list, i, o)
    {
        table_add(&t, field_str(o, "gpu"));
        table_add(&t, field_str(o, "plan"));
        money_cell(&t, o, "price");
        money_cell(&t, o, "ondemand");
        time_cell(&t, o, "ends_at");
        rule_cell(&t, o);
    }
    say(c, "%s", tr("Plans for one card, bought now:"));
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

static void mine_print(struct cli *c, const json_t *list)
{
    static const char *const head[] = {N_("ID"),   N_("INSTANCE"), N_("PLAN"), N_("ENDS"),
                                       N_("THEN"), N_("PAID"),     N_("BACK"), NULL};
    struct table t;
    size_t i;
    json_t *o;

    table_init(&t, head, "<<<<<>>");
    json_array_foreach(list, i, o)
    {
        bool runs = str_eq(field_str(o, "state"), "running");

        table_add(&t, field_str(o, "id"));
        table_add(&t, field_is(o, "instance_name") ? field_str(o, "instance_name")
                                                   : field_str(o, "instance"));
        table_addf(&t, "%s, %d × %s", field_str(o, "plan"), (int)field_i64(o, "gpu_count"),
                   field_str(o, "gpu"));
        time_cell(&t, o, runs ? "ends_at" : "over_at");
        table_add(&t, !runs                    ? tr(field_str(o, "state"))
                      : field_bool(o, "renew") ? tr("renews")
                      : field_bool(o, "go_on") ? tr("on-demand")
                                               : tr("stops"));
        money_cell(&t, o, "paid");
        money_cell(&t, o, "given_back");
    }
    say(c, "%s", tr("Your plans (BACK: given back, or what leaving now would give back):"));
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

static void hours_cell(struct table *t, int64_t seconds)
{
    char text[32];

    text_card_hours(seconds, text, sizeof(text));
    table_add(t, text);
}

static void card_cell(struct table *t, const json_t *o)
{
    table_add(t, field_is(o, "gpu") ? field_str(o, "gpu") : tr("any card"));
}

static void package_offers_print(struct cli *c, const json_t *list)
{
    static const char *const head[] = {N_("CARD"),      N_("HOURS"), N_("FOR A"), N_("PRICE"),
                                       N_("ON-DEMAND"), N_("ENDS"),  NULL};
    struct table t;
    size_t i;
    json_t *o;

    table_init(&t, head, "<><>><");
    json_array_foreach(list, i, o)
    {
        card_cell(&t, o);
        table_addf(&t, "%" PRId64, field_i64(o, "hours"));
        table_add(&t, field_str(o, "plan"));
        money_cell(&t, o, "price");
        money_cell(&t, o, "ondemand");
        time_cell(&t, o, "lapses_at");
    }
    say(c, "%s", tr("Packages of card-hours, bought now (suanli plan buy):"));
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

static void packages_print(struct cli *c, const json_t *list)
{
    static const char *const head[] = {N_("ID"),   N_("CARD"),   N_("STATE"), N_("BOUGHT"),
                                       N_("LEFT"), N_("IN USE"), N_("ENDS"),  NULL};
    struct table t;
    size_t i;
    json_t *o;

    table_init(&t, head, "<<<>>><");
    json_array_foreach(list, i, o)
    {
        table_add(&t, field_str(o, "id"));
        card_cell(&t, o);
        table_add(&t, tr(field_str(o, "state")));
        hours_cell(&t, field_i64(o, "bought_s"));
        hours_cell(&t, field_i64(o, "left_s"));
        hours_cell(&t, field_i64(o, "reserved_s"));
        time_cell(&t, o, "lapses_at");
    }
    say(c, "%s", tr("Your packages (IN USE: what the running terms reserve):"));
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

/* Those sections that have something to show. */
static void packages_part(struct cli *c, const json_t *answer)
{
    const json_t *offers = json_object_get(answer, "package_offers");
    const json_t *mine = json_object_get(answer, "packages");

    if (json_array_size(offers) > 0)
        package_offers_print(c, offers);
    if (json_array_size(mine) > 0)
        packages_print(c, mine);
}

int cmd_plan_ls(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    const json_t *offers = json_object_get(a.json, "offers");
    const json_t *mine = json_object_get(a.json, "items");
    if (json_array_size(offers) > 0)
        offers_print(c, offers);
    else
        say(c, "%s", tr("No plans are offered here."));
    if (json_array_size(mine) > 0)
        mine_print(c, mine);
    packages_part(c, a.json);
    return 0;
}
