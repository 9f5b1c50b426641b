/* cmd_statement.c: the wallet's statement and its top-up orders. Amounts are shown as the server
 * wrote them. */
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/table.h"

/* All pages of the month as one answer; false when one did not come (a->exit is set). A page that
 * names itself as the next one is the last. */
static bool all_pages(struct cli *c, struct call *call, struct answer *a)
{
    if (!call_send(c, call, a))
        return false;
    while (field_is(a->json, "next")) {
        AUTO_ANSWER struct answer page = {0};

        answer_init(&page);
        json_object_set(call->args, "after", json_object_get(a->json, "next"));
        if (!call_send(c, call, &page)) {
            a->exit = page.exit;
            return false;
        }
        json_array_extend(json_object_get(a->json, "moves"), json_object_get(page.json, "moves"));
        if (json_equal(json_object_get(a->json, "next"), json_object_get(page.json, "next")))
            break;
        json_object_set(a->json, "next", json_object_get(page.json, "next"));
    }
    return true;
}

static const char *amount_of(const json_t *o, const char *key)
{
    return field_str(json_object_get(o, key), "amount");
}

/* Fields are ids, names and decimal numbers: none of them needs quotes. */
static void print_csv(const json_t *answer)
{
    size_t i;
    json_t *o;

    puts("at,source,kind,amount,balance,currency,about,other,transfer");
    json_array_foreach(json_object_get(answer, "moves"), i, o)
        printf("%s,%s,%s,%s,%s,%s,%s,%s,%s\n", field_str(o, "at"), field_str(o, "source"),
               field_str(o, "kind"), amount_of(o, "amount"), amount_of(o, "balance"),
               field_str(answer, "currency"), field_str(o, "about"), field_str(o, "other"),
               field_str(o, "transfer"));
}

static void print_moves(struct cli *c, const json_t *answer)
{
    static const char *const head[] = {N_("TIME"),    N_("SOURCE"), N_("KIND"), N_("AMOUNT"),
                                       N_("BALANCE"), N_("ABOUT"),  NULL};
    struct table t;
    size_t i;
    json_t *o;
    char text[64];

    table_init(&t, head, "<<<>><");
    json_array_foreach(json_object_get(answer, "moves"), i, o)
    {
        text_time_exact(field_str(o, "at"), text, sizeof(text));
        table_add(&t, text);
        table_add(&t, field_str(o, "source"));
        table_add(&t, field_str(o, "kind"));
        table_add(&t, amount_of(o, "amount"));
        table_add(&t, amount_of(o, "balance"));
        table_add(&t, field_str(o, "about"));
    }
    if (t.cells > t.columns)
        table_print(&t, stdout, c->color);
    table_fini(&t);
}

int cmd_statement(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};

    answer_init(&a);
    if (!all_pages(c, call, &a))
        return a.exit;
    if (c->json) {
        AUTO_FREE char *text = json_dumps(a.json, JSON_INDENT(2));

        puts(text ? text : "{}");
        return 0;
    }
    if (arg_bool(call, "csv")) {
        print_csv(a.json);
        return 0;
    }
    text_zone(c, field_str(a.json, "zone"));
    say(c, tr("Statement of %s, %s (zone %s)"), field_str(a.json, "project"),
        field_str(a.json, "month"), field_str(a.json, "zone"));
    print_moves(c, a.json);
    return 0;
}

int cmd_topup(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    int e = view_print(c, call->verb, &a);
    if (field_bool(a.json, "test"))
        say(c, "%s", tr("This channel is a test: no money moves."));
    return e;
}
