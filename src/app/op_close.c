/* op_close.c: closing months by hand, the rules of tax, and a closed month's bill. */
#include "app/close.h"
#include "app/op_money.h"
#include "base/msg.h"
#include "base/units.h"

/* ---- admin close ---- */

static void write_result(struct op *op, const struct project *p, const struct period *month,
                         const char *state, const char *why, const struct statement_row *st)
{
    struct currency ccy;
    char text[16];

    period_format(month, text, sizeof(text));
    CHECK(currency_get(p->currency, &ccy) == ERR_OK);
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "project", p->name);
    json_str(&op->out, "month", text);
    json_str(&op->out, "state", state);
    json_str(&op->out, "why", why);
    json_str(&op->out, "number", st ? st->number : NULL);
    if (st) {
        json_i64(&op->out, "lines", st->line_count);
        json_money(&op->out, "total", st->total_u, ccy);
        json_money(&op->out, "residue", st->residue_u, ccy);
        json_money(&op->out, "tax", st->tax_minor * st->minor_u, ccy);
        json_money(&op->out, "payable", st->payable_minor * st->minor_u, ccy);
    } else {
        json_i64(&op->out, "lines", 0);
        json_none(&op->out, "total");
        json_none(&op->out, "residue");
        json_none(&op->out, "tax");
        json_none(&op->out, "payable");
    }
    json_object_finish(&op->out);
}

static enum err write_closed(struct op *op, const struct project *p, const struct period *month)
{
    struct statement_row st;
    enum err e = close_statement(op->store, p->id, month->year, month->month, &st);

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    write_result(op, p, month, e == ERR_OK ? "was_closed" : "empty", NULL,
                 e == ERR_OK ? &st : NULL);
    return ERR_OK;
}

/* All open months up to the one that was asked for. */
static enum err close_project(struct op *op, const struct project *p, const char *text)
{
    static const char *const states[] = {[CLOSE_DONE] = "closed",
                                         [CLOSE_EMPTY] = "empty",
                                         [CLOSE_NOT_DUE] = "open",
                                         [CLOSE_WAITS] = "waits"};
    struct period month;
    struct books b;
    bool closed = false;

    TRY(books_open(op->store, op->now, p->id, &b, &op->why));
    if (period_parse(&b.zone, text, &month) != ERR_OK || month.day != 0)
        return people_invalid(op, "month", N_("a month such as 2026-03"));
    TRY(close_is_closed(op->store, p->id, &month, &closed));
    if (closed)
        return write_closed(op, p, &month);
    if (b.now_s < month.to_s + BILL_COLLECT_S) {
        char until[40];

        time_format((month.to_s + BILL_COLLECT_S) * MS_PER_S, until, sizeof(until));
        (void)refusef(&op->why, ERR_MONTH_OPEN, "month", "%s", text);
        refusal_set(&op->why, "until", until);
        return ERR_MONTH_OPEN;
    }
    for (;;) {
        struct close_result r;

        TRY(close_next(op->store, op->now, p->id, &r, &op->why));
        if (r.month.from_s > month.from_s)
            return write_closed(op, p, &month);
        write_result(op, p, &r.month, states[r.what], r.waits[0] ? r.waits : NULL,
                     r.what == CLOSE_DONE ? &r.statement : NULL);
        if (r.month.from_s == month.from_s || r.what == CLOSE_WAITS || r.what == CLOSE_NOT_DUE)
            return ERR_OK;
    }
}

enum err op_close_run(struct op *op)
{
    const char *month = people_arg(op, "month", ""), *only = people_arg(op, "project", NULL);
    struct project_list projects = {0};
    struct project one;
    enum err e;

    (void)str_copy(op->object, sizeof(op->object), month);
    if (only)
        TRY(store_project_lookup(op->store, only, &one, &op->why));
    json_object_begin(&op->out, NULL);
    json_array_begin(&op->out, "projects");
    e = store_project_list(op->store, &projects);
    for (size_t i = 0; i < projects.len && e == ERR_OK; i++)
        if (!only || str_eq(projects.at[i].id.s, one.id.s))
            e = close_project(op, &projects.at[i], month);
    vec_fini(&projects);
    TRY(e);
    json_array_finish(&op->out);
    json_object_finish(&op->out);
    return ERR_OK;
}

/* ---- tax rules ---- */

static void json_rule(struct op *op, const struct tax_rule_row *r)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "country", r->country);
    json_str(&op->out, "sku", r->prefix);
    json_str(&op->out, "class", r->class);
    json_strf(&op->out, "rate", "%" PRId64 "/%" PRId64, r->n, r->d);
    json_flag(&op->out, "inclusive", r->inclusive);
    json_time(&op->out, "valid_from", r->from_s * MS_PER_S);
    json_object_finish(&op->out);
}

enum err op_tax_list(struct op *op)
{
    struct tax_rule_list list = {0};
    struct page page;
    enum err e = page_open(op, &page);

    if (e == ERR_OK)
        e = tax_rule_list_all(op->store, &list);
    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        char pos[CURSOR_POS_SIZE];
        const struct tax_rule_row *r = &list.at[i];

        (void)str_printf(pos, sizeof(pos), "%s/%s/%" PRId64, r->country, r->prefix, r->from_s);
        if (page_takes(&page, pos))
            json_rule(op, r);
    }
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

/* "6%", "19.6%", "6/100" */
static bool rate_parse(const char *text, int64_t *ret_n, int64_t *ret_d)
{
    struct currency any;
    struct money m;
    char part[32];
    size_t len = strlen(text);
    const char *slash = strchr(text, '/');

    CHECK(currency_get("CNY", &any) == ERR_OK);
    if (len < 2 || len >= sizeof(part))
        return false;
    memcpy(part, text, len + 1);
    if (slash) {
        part[slash - text] = '\0';
        return str_parse_i64(part, 0, 1000000, ret_n) == ERR_OK &&
               str_parse_i64(slash + 1, 1, 1000000, ret_d) == ERR_OK && *ret_n <= *ret_d;
    }
    if (part[len - 1] != '%')
        return false;
    part[len - 1] = '\0';
    if (money_parse(part, any, &m) != ERR_OK || m.u < 0 || m.u > 100 * INT64_C(1000000))
        return false;
    *ret_n = m.u;
    *ret_d = 100 * INT64_C(1000000);
    while (*ret_d % 10 == 0 && *ret_n % 10 == 0 && *ret_d > 100) {
        *ret_n /= 10;
        *ret_d /= 10;
    }
    return true;
}

static bool is_country(const char *text)
{
    return strlen(text) == 2 && text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'A' &&
           text[1] <= 'Z';
}

/* A rule that begins at the same second says something about it already. */
static enum err refuse_known(struct op *op, const struct tax_rule_row *r)
{
    struct tax_rule_list list = {0};
    bool known = false;
    enum err e = tax_rule_list_all(op->store, &list);

    for (size_t i = 0; i < list.len; i++)
        known |= str_eq(list.at[i].country, r->country) && str_eq(list.at[i].prefix, r->prefix) &&
                 list.at[i].from_s == r->from_s;
    vec_fini(&list);
    TRY(people_try(op, e));
    return known ? people_exists(op, "tax rule", r->country) : ERR_OK;
}

enum err op_tax_set(struct op *op)
{
    const char *country = people_arg(op, "country", ""), *sku = people_arg(op, "sku", "");
    const char *from = people_arg(op, "from", NULL), *class = people_arg(op, "class", "standard");
    struct tax_rule_row r = {0};
    utime_t at = op->now;
    int64_t closed_s = 0;
    bool exclusive = false;

    if (!is_country(country))
        return people_invalid(op, "country", N_("two capital letters such as CN"));
    if (!rate_parse(people_arg(op, "rate", ""), &r.n, &r.d))
        return people_invalid(op, "rate", N_("a rate such as 6% or 6/100"));
    TRY(people_try(op, statement_newest(op->store, &closed_s)));
    if (from && (time_parse(from, &at) != ERR_OK || at < closed_s * MS_PER_S))
        return people_invalid(op, "from", N_("a tax rule never reaches into a closed month"));
    if (!str_copy(r.prefix, sizeof(r.prefix), sku))
        return people_invalid(op, "sku", N_("one line that is not too long"));
    if (!str_copy(r.class, sizeof(r.class), class))
        return people_invalid(op, "class", N_("one line that is not too long"));
    CHECK(json_get_bool(op->body, "exclusive", false, &exclusive));
    (void)str_copy(r.country, sizeof(r.country), country);
    r.inclusive = !exclusive;
    r.from_s = (at + MS_PER_S - 1) / MS_PER_S;
    TRY(refuse_known(op, &r));
    TRY(people_try(op, tax_rule_add(op->store, &r)));
    json_rule(op, &r);
    return ERR_OK;
}

/* ---- the billing zone ---- */

/* The month that runs ends as it began; the next one is the new zone's. One change at a time: the
 * months before the last one must be closed, so that their borders are written down. */
enum err op_project_zone_set(struct op *op)
{
    const char *name = people_arg(op, "zone", "");
    struct zone_change known, c = {0};
    struct period month, closed;
    struct project p;
    struct books b;
    bool is_closed = true;

    TRY(store_project_lookup(op->store, op->path_arg[0], &p, &op->why));
    TRY(books_open(op->store, op->now, p.id, &b, &op->why));
    if (!funds_zone_kept(name))
        return people_invalid(op, "zone", N_("a zone that this server has loaded, such as UTC"));
    enum err e = zone_change_get(op->store, p.id, &known);
    if (e != ERR_NOT_FOUND)
        TRY(people_try(op, e));
    if (e == ERR_OK && known.since_s < b.now_s) {
        period_month_at(&b.zone, known.since_s - 1, &closed);
        TRY(people_try(op, close_is_closed(op->store, p.id, &closed, &is_closed)));
    }
    if (!is_closed)
        return people_invalid(op, "zone", N_("the last change is not a closed month old yet"));
    period_month_at(&b.zone, b.now_s, &month);
    c = (struct zone_change){.project = p.id, .since_s = month.to_s};
    CHECK(str_copy(c.before, sizeof(c.before), zone_at(&b.zone, b.now_s)->name) &&
          str_copy(c.zone, sizeof(c.zone), name));
    TRY(people_try(op, zone_change_save(op->store, &c)));
    (void)str_copy(op->object, sizeof(op->object), p.name);
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "project", p.name);
    json_str(&op->out, "before", c.before);
    json_str(&op->out, "zone", c.zone);
    json_time(&op->out, "since", c.since_s * MS_PER_S);
    json_object_finish(&op->out);
    return ERR_OK;
}
