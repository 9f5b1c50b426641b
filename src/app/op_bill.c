/* op_bill.c: the bill of a month. A line is one rating window: what was used, at which price
 * version, and the formula anybody can type into a calculator; the sum is exact to the micro-unit.
 * A closed month is shown as it was closed, never computed again. */
#include "app/bill_by.h"
#include "app/bill_lines.h"
#include "app/close.h"
#include "app/op_money.h"
#include "base/msg.h"

/* What it costs by its price version; a credit has none. */
static enum err write_rated(struct op *op, const struct books *b, const struct line_row *l)
{
    struct bill_line line;
    char formula[BILL_FORMULA_SIZE];

    if (l->meter == METER_NONE) {
        json_none(&op->out, "meter");
        json_none(&op->out, "unit");
        json_none(&op->out, "price");
        json_none(&op->out, "price_version");
        json_none(&op->out, "formula");
        return ERR_OK;
    }
    TRY(bill_line_priced(b, l, &line));
    bill_formula(&line, formula, sizeof(formula));
    json_str(&op->out, "meter", meter_name(line.meter));
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
    int64_t total_u, minor_u; /* of an open month: summed here; 0 */
    bool simulated;
};

static enum err bill_line(void *user, const struct line_row *l)
{
    struct bill *bill = user;

    if (!bill->minor_u) {
        bill->simulated |= l->simulated;
        TRY(micro_add(bill->total_u, l->amount_u, &bill->total_u));
    }
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
    TRY(bill_lines(&b, &month, closed ? &st : NULL, bill_line, &bill));
    json_array_finish(&op->out);
    TRY(bill_by_write(op, &b, &month, closed ? &st : NULL, by));
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
