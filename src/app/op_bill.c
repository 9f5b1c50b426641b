/* op_bill.c: the bill of a month. A line is one rating window: what was used, at which price
 * version, and the formula anybody can type into a calculator; the sum is exact to the micro-unit.
 * A closed month is shown as it was closed, never computed again. */
#include "app/bill_by.h"
#include "app/close.h"
#include "app/op_money.h"
#include "base/msg.h"

/* What it costs by its price version; a credit has none. */
static enum err write_rated(struct op *op, const struct books *b, const struct line_row *l)
{
    struct window_row w = {.meter = (enum meter)l->meter, .price = l->price};
    struct bill_line line = {
        .price = l->price, .ccy = b->ccy, .qty_from = l->qty_from, .qty_to = l->qty_to};
    char formula[BILL_FORMULA_SIZE];

    if (l->meter == METER_COUNT) {
        json_none(&op->out, "meter");
        json_none(&op->out, "unit");
        json_none(&op->out, "price");
        json_none(&op->out, "price_version");
        json_none(&op->out, "formula");
        return ERR_OK;
    }
    TRY(window_rate(op->store, &w, &line.rate));
    TRY(bill_rate(&line));
    if (l->kind == LINE_REVERSAL) { /* all of it back to nothing */
        line.qty_from = l->qty_to;
        line.qty_to = l->qty_from;
        line.amount_u = -line.amount_u;
    }
    CHECK(line.amount_u == l->amount_u);
    CHECK(str_copy(line.unit, sizeof(line.unit), meter_unit(w.meter)));
    bill_formula(&line, formula, sizeof(formula));
    json_str(&op->out, "meter", meter_name(w.meter));
    json_str(&op->out, "unit", line.unit);
    json_rate(&op->out, "price", &line.rate);
    json_str(&op->out, "price_version", l->price.s);
    json_str(&op->out, "formula", formula);
    return ERR_OK;
}

/* minor_u 0: the month is open and nothing is printed yet. */
static enum err write_line(struct op *op, const struct books *b, const struct line_row *l,
                           int64_t minor_u)
{
    json_object_begin(&op->out, NULL);
    json_i64(&op->out, "n", l->n);
    json_str(&op->out, "kind", line_kind_name(l->kind));
    json_str(&op->out, "subject", l->subject);
    json_str(&op->out, "subject_name", l->subject_name[0] ? l->subject_name : l->subject);
    json_str(&op->out, "sku", l->sku);
    json_strf(&op->out, "quantity", "%" PRId64,
              l->kind == LINE_REVERSAL ? l->qty_from - l->qty_to : l->qty_to - l->qty_from);
    json_strf(&op->out, "quantity_from", "%" PRId64,
              l->kind == LINE_REVERSAL ? l->qty_to : l->qty_from);
    TRY(write_rated(op, b, l));
    json_money(&op->out, "amount", l->amount_u, b->ccy);
    if (minor_u)
        json_money(&op->out, "printed", l->printed_minor * minor_u, b->ccy);
    else
        json_none(&op->out, "printed");
    json_strf(&op->out, "charge_month", "%04" PRId64 "-%02d", l->year, l->month);
    json_time(&op->out, "from", l->from_s * MS_PER_S);
    json_time(&op->out, "to", l->to_s * MS_PER_S);
    json_flag(&op->out, "simulated", l->simulated);
    json_object_finish(&op->out);
    return ERR_OK;
}

struct bill {
    struct op *op;
    const struct books *b;
    int64_t n, total_u, minor_u;
    bool simulated;
};

static enum err live_line(struct bill *bill, const struct window_row *w, enum line_kind kind,
                          int64_t qty_from, int64_t qty_to, int64_t u)
{
    struct line_row l;

    close_line_of(w, kind, qty_from, qty_to, u, &l);
    l.n = ++bill->n;
    bill->simulated |= l.simulated;
    TRY(close_subject_name(bill->op->store, w->subject, l.subject_name));
    TRY(micro_add(bill->total_u, u, &bill->total_u));
    return write_line(bill->op, bill->b, &l, 0);
}

static enum err live_window(void *user, const struct window_row *w)
{
    return w->qty == 0 ? ERR_OK : live_line(user, w, LINE_USAGE, 0, w->qty, w->rated_u);
}

static enum err live_reversal(void *user, const struct window_row *w)
{
    return w->reversed_u == 0 ? ERR_OK
                              : live_line(user, w, LINE_REVERSAL, 0, w->qty, -w->reversed_u);
}

static enum err live_purchases(struct bill *bill, const struct period *month)
{
    struct purchase_line_list list = {0};
    const struct books *b = bill->b;
    enum err e = purchase_line_list(b->store, b->project, month->from_s * MS_PER_S,
                                    month->to_s * MS_PER_S, &list);

    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        struct line_row l;

        close_line_of_purchase(&list.at[i], month, &l);
        if (l.amount_u <= 0)
            continue;
        l.n = ++bill->n;
        e = micro_add(bill->total_u, l.amount_u, &bill->total_u);
        if (e == ERR_OK)
            e = write_line(bill->op, b, &l, 0);
    }
    vec_fini(&list);
    return e;
}

static enum err live_lines(struct bill *bill, const struct period *month)
{
    struct late_list late = {0};
    const struct books *b = bill->b;
    bool closed = false;
    enum err e;

    TRY(close_is_closed(b->store, b->project, month, &closed));
    if (closed) /* it was empty; what came later is in a later month */
        return ERR_OK;
    TRY(window_each(b->store, b->project, month->year, month->month, live_window, bill));
    e = late_list_month(b->store, b->project, month->year, month->month, &late);
    for (size_t i = 0; i < late.len && e == ERR_OK; i++) {
        struct window_row w;

        e = money_window_get(b->store, late.at[i].rating_window, &w);
        w.from_s = late.at[i].from_s;
        w.to_s = late.at[i].to_s;
        if (e == ERR_OK)
            e = live_line(bill, &w, LINE_CORRECTION, late.at[i].qty_from, late.at[i].qty_to,
                          late.at[i].amount_u);
    }
    vec_fini(&late);
    if (e == ERR_OK)
        e = live_purchases(bill, month);
    return e == ERR_OK ? window_each(b->store, b->project, month->year, month->month, live_reversal,
                                     bill)
                       : e;
}

static enum err closed_line(void *user, const struct line_row *l)
{
    struct bill *bill = user;

    return write_line(bill->op, bill->b, l, bill->minor_u);
}

static void write_no_close(struct op *op)
{
    static const char *const fields[] = {"number", "closed_at", "residue",   "net",
                                         "tax",    "payable",   "tax_reason"};

    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        json_none(&op->out, fields[i]);
}

static enum err write_close(struct op *op, const struct statement_row *st, struct currency ccy)
{
    struct statement_tax_list groups = {0};
    enum err e = statement_tax_list(op->store, st->id, &groups);

    json_str(&op->out, "number", st->number);
    json_time(&op->out, "closed_at", st->closed_ms);
    json_money(&op->out, "residue", st->residue_u, ccy);
    json_money(&op->out, "net", st->net_minor * st->minor_u, ccy);
    json_money(&op->out, "tax", st->tax_minor * st->minor_u, ccy);
    json_money(&op->out, "payable", st->payable_minor * st->minor_u, ccy);
    json_str(&op->out, "tax_reason", msg_tr(op->lang, tax_reason_text(st->reason)));
    json_array_begin(&op->out, "taxes");
    for (size_t i = 0; i < groups.len; i++) {
        const struct statement_tax_row *g = &groups.at[i];

        json_object_begin(&op->out, NULL);
        json_str(&op->out, "country", g->country);
        json_str(&op->out, "class", g->class);
        json_str(&op->out, "category", g->category);
        json_strf(&op->out, "rate", "%" PRId64 "/%" PRId64, g->rate_n, g->rate_d);
        json_flag(&op->out, "inclusive", g->inclusive);
        json_money(&op->out, "net", g->net_minor * st->minor_u, ccy);
        json_money(&op->out, "tax", g->tax_minor * st->minor_u, ccy);
        json_money(&op->out, "gross", g->gross_minor * st->minor_u, ccy);
        json_object_finish(&op->out);
    }
    json_array_finish(&op->out);
    vec_fini(&groups);
    return e;
}

enum err op_bill_get(struct op *op)
{
    struct statement_row st;
    struct project p;
    struct period month;
    enum bill_by by;
    struct books b;
    struct bill bill = {.op = op, .b = &b};
    char text[16];
    bool given;

    TRY(people_try(op, store_project_get(op->store, op->who.project, &p)));
    TRY(books_open(op->store, op->now, p.id, &b, &op->why));
    TRY(month_arg(op, &b, &given, &month));
    TRY(bill_by_arg(op, &by));
    period_format(&month, text, sizeof(text));
    enum err e = close_statement(op->store, p.id, month.year, month.month, &st);
    bool closed = e == ERR_OK;
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "project", p.name);
    json_str(&op->out, "month", text);
    json_str(&op->out, "zone", closed ? st.zone : zone_at(&b.zone, month.from_s)->name);
    json_time(&op->out, "from", (closed ? st.from_s : month.from_s) * MS_PER_S);
    json_time(&op->out, "to", (closed ? st.to_s : month.to_s) * MS_PER_S);
    json_array_begin(&op->out, "lines");
    bill.minor_u = closed ? st.minor_u : 0;
    TRY(closed ? line_each(op->store, st.id, closed_line, &bill) : live_lines(&bill, &month));
    json_array_finish(&op->out);
    TRY(bill_by_write(op, &b, &month, by));
    json_money(&op->out, "total", closed ? st.total_u : bill.total_u, b.ccy);
    if (closed) {
        TRY(write_close(op, &st, b.ccy));
    } else {
        write_no_close(op);
        json_array_begin(&op->out, "taxes");
        json_array_finish(&op->out);
    }
    json_flag(&op->out, "simulated", closed ? st.simulated : bill.simulated);
    json_object_finish(&op->out);
    return ERR_OK;
}
