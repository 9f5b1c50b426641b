/* cmd_bill_file.c: a bill as one file, and the counting of it again at home. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/bill_check.h"
#include "cli/cli.h"
#include "cli/table.h"

#define NEXT_SIZE 1200

struct page {
    FILE *to; /* borrowed */
    char next[NEXT_SIZE];
    int64_t lines;
};

static bool on_line(void *user, const json_t *item, const char *raw)
{
    struct page *p = user;
    const char *next = field_str(item, "next");

    if (*next && json_object_size(item) == 1)
        return str_copy(p->next, sizeof(p->next), next);
    p->lines++;
    return fputs(raw, p->to) != EOF && fputc('\n', p->to) != EOF && !interrupted();
}

/* All pages; exit code. */
static int fetch(struct cli *c, struct call *call, FILE *to)
{
    AUTO_ANSWER struct answer a = {0};
    AUTO_STRBUF struct strbuf path = {0};
    struct page p = {.to = to};
    bool ok;

    answer_init(&a);
    strbuf_init(&path, 8192);
    interrupt_watch();
    do {
        strbuf_reset(&path);
        call_path(c, call, &path);
        if (*p.next) {
            strbuf_addf(&path, "%cafter=", strchr(strbuf_str(&path), '?') ? '&' : '?');
            url_escape(&path, p.next);
            p.next[0] = '\0';
        }
        ok = api_stream(c, strbuf_str(&path), false, on_line, &p, &a);
        progress_line(c, tr("%ld lines"), p.lines);
    } while (ok && *p.next && !interrupted());
    progress_end(c);
    return interrupted() ? 130 : ok ? 0 : a.exit;
}

static int fail_system(struct cli *c, const char *call, const char *file)
{
    struct refusal why = {0};

    (void)refusef(&why, ERR_SYSTEM, "call", "%s %s", call, file);
    refusal_set(&why, "why", strerror(errno));
    return fail(c, &why);
}

/* Written beside and renamed, so that what is there is whole. */
int cmd_bill_export(struct cli *c, struct call *call)
{
    const char *name = arg_str(call, "output");
    AUTO_STRBUF struct strbuf part = {0};
    FILE *to;
    int e;

    if (!name)
        return fetch(c, call, stdout);
    strbuf_init(&part, 4096);
    strbuf_addf(&part, "%s.part", name);
    to = fopen(strbuf_str(&part), "wx");
    if (!to && errno == EEXIST) { /* of a try that was broken off */
        (void)unlink(strbuf_str(&part));
        to = fopen(strbuf_str(&part), "wx");
    }
    if (!to)
        return fail_system(c, "open", strbuf_str(&part));
    e = fetch(c, call, to);
    bool written = !ferror(to) && fflush(to) == 0 && fsync(fileno(to)) == 0;
    if (fclose(to) != 0 || !written || e != 0) {
        if (e == 0)
            e = fail_system(c, "write", strbuf_str(&part));
        (void)unlink(strbuf_str(&part));
        return e;
    }
    if (rename(strbuf_str(&part), name) != 0)
        return fail_system(c, "rename", name);
    if (c->json)
        printf("{\"written\":true}\n");
    say(c, tr("Written: %s. Count it again at home: suanli bill verify %s"), name, name);
    return 0;
}

/* ---- verify */

static enum err check_file(struct bill_check *check, FILE *from, struct refusal *why)
{
    char *line = NULL; /* of getline */
    size_t size = 0;
    enum err e = ERR_OK;

    for (ssize_t n; e == ERR_OK && (n = getline(&line, &size, from)) > 0;) {
        bool ended = line[n - 1] == '\n';

        /* a line without its end is not whole; a longer one is not ours */
        e = bill_check_line(check, line, (size_t)n - (ended ? 1 : 0), why);
        if (e == ERR_OK && !ended)
            e = bill_check_line(check, "", 0, why);
    }
    free(line);
    return e == ERR_OK ? bill_check_finish(check, why) : e;
}

/* The statement of a closed month; payable: "" while it is open. */
static void print_statement(const struct bill_said *s, const char *payable)
{
    char stamp[40], until[40];

    if (s->number[0]) {
        printf(tr("  statement %s: lines %ld, payable %s\n"), s->number, s->statement_lines,
               payable);
    } else if (s->open) {
        time_format(s->cut_s * MS_PER_S, stamp, sizeof(stamp));
        text_time_exact(stamp, until, sizeof(until));
        printf(tr("  The month is open: this is what was used before %s.\n"), until);
    }
}

static void print_counts(struct cli *c, const struct bill_check *check)
{
    const struct bill_counts *n = bill_check_counts(check);
    const struct bill_said *s = bill_check_said(check);
    char rated[MONEY_TEXT_SIZE + 8], payable[MONEY_TEXT_SIZE + 8] = "";
    int64_t u;

    money_format_ccy(money_of(n->rated_u, s->ccy), rated, sizeof(rated));
    if (s->number[0] && !__builtin_mul_overflow(s->payable_minor, s->minor_u, &u))
        money_format_ccy(money_of(u, s->ccy), payable, sizeof(payable));
    if (c->json) {
        printf("{\"ok\":true,\"month\":\"%s\",\"open\":%s,\"total\":\"%ld\",\"posted\":\"%ld\","
               "\"currency\":\"%s\",\"lines\":%ld,\"windows\":%ld,\"slices\":%ld,"
               "\"unsigned_slices\":%ld,\"transfers\":%ld,\"head\":\"%s\",\"key\":\"%s\","
               "\"statement\":\"%s\",\"statement_lines\":%ld,\"payable\":\"%s\"}\n",
               s->month, s->open ? "true" : "false", n->rated_u, n->posted_u, s->ccy.code, n->lines,
               n->windows, n->slices, n->unsigned_slices, n->transfers, n->head, s->key, s->number,
               s->statement_lines, payable);
        return;
    }
    printf(tr("OK: %s of %s, %s for %ld windows.\n"), s->month, s->project, rated, n->windows);
    print_statement(s, payable);
    printf(tr("  lines %ld: slices signed by their nodes %ld, own rows of the journal %ld,\n"
              "  rows of others %ld, daily heads %ld\n"),
           n->lines, n->slices - n->unsigned_slices, n->transfers, n->others, n->days);
    if (n->unsigned_slices)
        printf(
            tr("  %ld slices are not signed: their node showed no key yet, or they were refused\n"),
            n->unsigned_slices);
    if (n->head[0])
        printf(tr("  last published head: %s\n"), n->head);
    printf(tr("  sealed with key %s\n  (compare both with suanli ledger heads --json)\n"), s->key);
}

int cmd_bill_verify(struct cli *c, struct call *call)
{
    const char *name = arg_str(call, "file"), *head = arg_str(call, "head");
    AUTO_BILL_CHECK struct bill_check *check = bill_check_new(head);
    struct refusal why = {0};
    FILE *from;
    enum err e;

    if (!check)
        return fail_usage(c, tr("--head takes 64 hex digits"));
    from = str_eq(name, "-") ? stdin : fopen(name, "r");
    if (!from)
        return fail_system(c, "open", name);
    e = check_file(check, from, &why);
    if (from != stdin)
        (void)fclose(from);
    if (e != ERR_OK)
        return fail(c, &why);
    print_counts(c, check);
    return 0;
}

/* ---- explain */

static void print_usage(struct cli *c, const json_t *x)
{
    static const char *const head[] = {N_("FROM"),       N_("TO"),       N_("SECONDS"),
                                       N_("PER SECOND"), N_("QUANTITY"), NULL};
    char text[64];
    struct table t;
    json_t *o;
    size_t i;

    text_time_exact(field_str(x, "price_from"), text, sizeof(text));
    printf(tr("Price: %s\n       (version %s, valid from %s)\n"), field_str(x, "price"),
           field_str(x, "price_version"), text);
    table_init(&t, head, "<<>>>");
    json_array_foreach(json_object_get(x, "spans"), i, o)
    {
        text_time_exact(field_str(o, "from"), text, sizeof(text));
        table_add(&t, text);
        text_time_exact(field_str(o, "to"), text, sizeof(text));
        table_add(&t, text);
        table_addf(&t, "%ld", field_i64(o, "seconds"));
        table_add(&t, field_str(o, "per_second"));
        table_add(&t, field_str(o, "quantity"));
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
    printf(tr("Together: %s %s\n"), field_str(x, "quantity"), field_str(x, "unit"));
}

static void print_parts(struct cli *c, const json_t *x)
{
    static const char *const head[] = {N_("WHAT"), N_("LINE"), N_("AMOUNT"), NULL};
    struct table t;
    json_t *o;
    size_t i;

    table_init(&t, head, "<>>");
    json_array_foreach(json_object_get(x, "parts"), i, o)
    {
        char amount[MONEY_TEXT_SIZE + 8];

        table_add(&t, field_str(o, "name"));
        if (json_is_integer(json_object_get(o, "line")))
            table_addf(&t, "%ld", field_i64(o, "line"));
        else
            table_add(&t, "");
        text_money(json_object_get(o, "amount"), amount, sizeof(amount));
        table_add(&t, amount);
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

int cmd_bill_explain(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    text_zone(c, field_str(a.json, "zone"));
    printf(tr("Line %ld of %s: %s of %s\n"), field_i64(a.json, "n"), field_str(a.json, "month"),
           *field_str(a.json, "sku") ? field_str(a.json, "sku") : field_str(a.json, "kind"),
           field_str(a.json, "subject"));
    if (!str_eq(field_str(a.json, "month"), field_str(a.json, "charge_month")))
        printf(tr("It was used in %s and came after that month was closed.\n"),
               field_str(a.json, "charge_month"));
    if (*field_str(a.json, "price"))
        print_usage(c, a.json);
    else
        print_parts(c, a.json);
    printf(tr("Cost: %s\n"), field_str(a.json, "formula"));
    return 0;
}
