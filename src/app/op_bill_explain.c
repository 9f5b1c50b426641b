/* op_bill_explain.c: the sum of one line of a bill by hand: usage as what was used when, at which
 * price version, multiplied, added and cut; something bought as its price and what came back; a
 * voucher or gift as the lines that it paid. */
#include "app/bill_lines.h"
#include "app/op_money.h"
#include "base/msg.h"
#include "store/rows_proof.h"

#define SPANS_MAX 5000
#define PARTS_SHOWN 8 /* in a formula; the list has them all */

struct explain {
    struct op *op;
    const struct books *b;
    const struct period *month;
    const struct statement_row *st; /* NULL: the month is open */
    int64_t want;
    struct line_row line;
    bool found;
};

static enum err pick(void *user, const struct line_row *l)
{
    struct explain *x = user;

    if (l->n == x->want) {
        x->line = *l;
        x->found = true;
    }
    return ERR_OK;
}

/* ---- usage ---- */

static void write_span(struct op *op, const struct span_row *s)
{
    json_object_begin(&op->out, NULL);
    json_time(&op->out, "from", s->from_s * MS_PER_S);
    json_time(&op->out, "to", s->to_s * MS_PER_S);
    json_i64(&op->out, "seconds", s->to_s - s->from_s);
    json_strf(&op->out, "per_second", "%" PRId64, s->qty_per_s);
    json_strf(&op->out, "quantity", "%" PRId64, s->qty);
    json_object_finish(&op->out);
}

/* What raised the window from the line's first quantity to its last. */
static enum err write_spans(struct op *op, const struct line_row *l)
{
    struct span_list spans = {0};
    int64_t qty = 0, shown = 0;
    enum err e = proof_spans_rated(op->store, l->source, &spans);

    json_array_begin(&op->out, "spans");
    for (size_t i = 0; i < spans.len && e == ERR_OK && qty < l->qty_to; i++) {
        struct span_row s = spans.at[i];
        int64_t before = MIN(MAX(l->qty_from - qty, 0), s.qty);
        int64_t after = MAX(qty + s.qty - l->qty_to, 0);

        qty += s.qty;
        if (s.qty_per_s) {
            s.from_s += before / s.qty_per_s;
            s.to_s -= after / s.qty_per_s;
        }
        s.qty -= before + after;
        if (s.qty > 0 && shown++ < SPANS_MAX)
            write_span(op, &s);
    }
    json_array_finish(&op->out);
    vec_fini(&spans);
    return e;
}

static enum err write_usage(struct explain *x)
{
    struct json_writer *out = &x->op->out;
    const struct line_row *l = &x->line;
    char formula[BILL_FORMULA_SIZE], price[RATE_TEXT_SIZE];
    struct bill_line line;
    struct price_row row;

    TRY(bill_line_priced(x->b, l, &line));
    TRY(money_price_get(x->op->store, l->price, &row));
    bill_formula(&line, formula, sizeof(formula));
    rate_format(&line.rate, x->b->ccy, line.unit, price, sizeof(price));
    json_str(out, "meter", meter_name(line.meter));
    json_str(out, "unit", line.unit);
    json_str(out, "price_version", l->price.s);
    json_str(out, "price", price);
    json_time(out, "price_from", row.valid_from_s * MS_PER_S);
    TRY(write_spans(x->op, l));
    json_strf(out, "quantity", "%" PRId64, line.qty_to - line.qty_from);
    json_array_begin(out, "parts");
    json_array_finish(out);
    json_str(out, "formula", formula);
    return ERR_OK;
}

/* ---- sums of whole amounts ---- */

static void no_usage(struct explain *x)
{
    static const char *const fields[] = {"meter", "unit", "price_version", "price"};

    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        json_none(&x->op->out, fields[i]);
    json_none(&x->op->out, "price_from");
    json_array_begin(&x->op->out, "spans");
    json_array_finish(&x->op->out);
    json_none(&x->op->out, "quantity");
    json_array_begin(&x->op->out, "parts");
}

struct parts {
    struct strbuf text; /* "10 + 20 - 5" */
    int64_t n, sum_u;
};

/* n: number of a line; 0: none. */
static enum err part(struct explain *x, struct parts *p, const char *name, int64_t n, int64_t u)
{
    struct json_writer *out = &x->op->out;

    json_object_begin(out, NULL);
    json_str(out, "name", name);
    if (n)
        json_i64(out, "line", n);
    else
        json_none(out, "line");
    json_money(out, "amount", u, x->b->ccy);
    json_object_finish(out);
    if (p->n++ < PARTS_SHOWN)
        strbuf_addf(&p->text, "%s%" PRId64,
                    p->n == 1 ? (u < 0 ? "-" : "")
                    : u < 0   ? " - "
                              : " + ",
                    u < 0 ? -u : u);
    return micro_add(p->sum_u, u, &p->sum_u);
}

static void write_sum(struct explain *x, struct parts *p)
{
    char amount[MONEY_TEXT_SIZE + 8];

    json_array_finish(&x->op->out);
    money_format_ccy(money_of(p->sum_u, x->b->ccy), amount, sizeof(amount));
    json_strf(&x->op->out, "formula", "%s%s = %" PRId64 " u = %s", strbuf_str(&p->text),
              p->n > PARTS_SHOWN ? " ..." : "", p->sum_u, amount);
}

static enum err write_charge(struct explain *x, struct parts *p)
{
    const struct line_row *l = &x->line;
    int64_t paid;

    TRY(purchase_paid(x->op->store, l->source, &paid));
    TRY(part(x, p, msg_tr(x->op->lang, N_("bought")), 0, paid));
    if (paid != l->amount_u)
        TRY(part(x, p, msg_tr(x->op->lang, N_("given back")), 0, l->amount_u - paid));
    return ERR_OK;
}

struct credit_work {
    struct explain *x;
    struct parts *p;
};

/* What the credit's account paid of one line. */
static enum err paid_of(struct explain *x, const struct line_row *l, int64_t *ret_u)
{
    struct charge_source_list sources = {0};
    struct store *s = x->op->store;
    int64_t from_u = 0;
    enum err e = ERR_OK;

    *ret_u = 0;
    if (l->kind == LINE_CHARGE) {
        e = purchase_credits(s, l->source, x->st->to_s * MS_PER_S, &sources);
    } else {
        struct window_row w;
        struct rate rate;

        TRY(money_window_get(s, l->source, &w));
        if (w.reversed_u) /* nobody paid it in the end, as close_write.c counts */
            return ERR_OK;
        TRY(window_rate(s, &w, &rate));
        TRY(rate_total(&rate, l->qty_from, &from_u));
        e = charge_source_list(s, l->source, from_u, from_u + l->amount_u, true, &sources);
    }
    for (size_t i = 0; i < sources.len && e == ERR_OK; i++)
        if (str_eq(sources.at[i].dr, x->line.source))
            e = micro_add(*ret_u, sources.at[i].amount_u, ret_u);
    vec_fini(&sources);
    return e;
}

static enum err credit_line(void *user, const struct line_row *l)
{
    struct credit_work *c = user;
    int64_t u;

    if (l->kind == LINE_CREDIT || l->kind == LINE_REVERSAL || l->amount_u == 0 ||
        l->tax_group != c->x->line.tax_group)
        return ERR_OK;
    TRY(paid_of(c->x, l, &u));
    return u == 0 ? ERR_OK : part(c->x, c->p, l->sku, l->n, -u);
}

static enum err write_parts(struct explain *x)
{
    struct parts p = {0};
    struct credit_work c = {x, &p};
    enum err e;

    strbuf_init(&p.text, BILL_FORMULA_SIZE);
    no_usage(x);
    e = x->line.kind == LINE_CHARGE ? write_charge(x, &p)
                                    : bill_lines(x->b, x->month, x->st, credit_line, &c);
    if (e == ERR_OK && p.sum_u != x->line.amount_u)
        e = ERR_CORRUPT;
    write_sum(x, &p);
    strbuf_fini(&p.text);
    return e;
}

/* ---- */

static enum err write_explained(struct explain *x, const char *month)
{
    struct json_writer *out = &x->op->out;
    const struct line_row *l = &x->line;

    json_object_begin(out, NULL);
    json_i64(out, "n", l->n);
    json_str(out, "kind", line_kind_name(l->kind));
    json_str(out, "month", month);
    json_strf(out, "charge_month", "%04" PRId64 "-%02d", l->year, l->month);
    json_str(out, "zone", x->b->zone.name);
    json_str(out, "subject", l->subject);
    json_str(out, "sku", l->sku[0] ? l->sku : NULL);
    TRY(l->meter == METER_NONE ? write_parts(x) : write_usage(x));
    json_money(out, "amount", l->amount_u, x->b->ccy);
    json_object_finish(out);
    return ERR_OK;
}

enum err op_bill_explain(struct op *op)
{
    struct statement_row st;
    struct period month;
    struct books b;
    struct explain x = {.op = op, .b = &b, .month = &month};
    char text[16];
    bool given;

    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    TRY(month_arg(op, &b, &given, &month));
    period_format(&month, text, sizeof(text));
    if (str_parse_i64(op->path_arg[0], 1, INT64_MAX, &x.want) != ERR_OK)
        x.want = 0;
    enum err e = close_statement(op->store, b.project, month.year, month.month, &st);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    x.st = e == ERR_OK ? &st : NULL;
    TRY(bill_lines(&b, &month, x.st, pick, &x));
    if (x.found)
        return write_explained(&x, text);
    (void)refusef(&op->why, ERR_NOT_FOUND, "what", "%s", "bill line");
    refusal_set(&op->why, "name", op->path_arg[0]);
    refusal_setf(&op->why, "verb", "bill %s", text);
    return ERR_NOT_FOUND;
}
