/* op_bill_explain.c: the sum of one line of a bill by hand: what was used when, at which price
 * version, multiplied, added and cut. */
#include "app/op_money.h"
#include "store/rows_proof.h"

#define SPANS_MAX 5000

static enum err write_spans(struct op *op, const struct window_row *w, int64_t *ret_qty)
{
    struct span_list spans = {0};
    enum err e = proof_spans(op->store, w->id, INT64_MAX, &spans);

    *ret_qty = 0;
    json_array_begin(&op->out, "spans");
    for (size_t i = 0; i < spans.len && e == ERR_OK; i++) {
        const struct span_row *s = &spans.at[i];

        *ret_qty += s->qty;
        if (i >= SPANS_MAX)
            continue;
        json_object_begin(&op->out, NULL);
        json_time(&op->out, "from", s->from_s * MS_PER_S);
        json_time(&op->out, "to", s->to_s * MS_PER_S);
        json_i64(&op->out, "seconds", s->to_s - s->from_s);
        json_strf(&op->out, "per_second", "%" PRId64, s->qty_per_s);
        json_strf(&op->out, "quantity", "%" PRId64, s->qty);
        json_object_finish(&op->out);
    }
    json_array_finish(&op->out);
    vec_fini(&spans);
    return e;
}

static enum err write_line(struct op *op, const struct books *b, const struct window_row *w,
                           int64_t n, const char *month)
{
    struct bill_line line = {.subject = w->subject,
                             .meter = w->meter,
                             .price = w->price,
                             .ccy = b->ccy,
                             .qty_to = w->qty};
    char formula[BILL_FORMULA_SIZE], price[RATE_TEXT_SIZE];
    struct price_row row;
    int64_t qty;

    TRY(window_rate(op->store, w, &line.rate));
    TRY(money_price_get(op->store, w->price, &row));
    TRY(bill_rate(&line));
    CHECK(str_copy(line.unit, sizeof(line.unit), meter_unit(w->meter)));
    bill_formula(&line, formula, sizeof(formula));
    rate_format(&line.rate, b->ccy, line.unit, price, sizeof(price));
    json_object_begin(&op->out, NULL);
    json_i64(&op->out, "n", n);
    json_str(&op->out, "month", month);
    json_str(&op->out, "zone", b->zone.name);
    json_str(&op->out, "subject", w->subject.s);
    json_str(&op->out, "meter", meter_name(w->meter));
    json_str(&op->out, "sku", w->sku);
    json_str(&op->out, "unit", line.unit);
    json_str(&op->out, "price_version", w->price.s);
    json_str(&op->out, "price", price);
    json_time(&op->out, "price_from", row.valid_from_s * MS_PER_S);
    TRY(write_spans(op, w, &qty));
    json_strf(&op->out, "quantity", "%" PRId64, qty);
    json_str(&op->out, "formula", formula);
    json_money(&op->out, "amount", line.amount_u, b->ccy);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_bill_explain(struct op *op)
{
    struct window_list windows = {0};
    struct period month;
    struct books b;
    char text[16];
    int64_t want = 0, n = 0;
    bool given, found = false;

    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    TRY(month_arg(op, &b, &given, &month));
    period_format(&month, text, sizeof(text));
    if (str_parse_i64(op->path_arg[0], 1, INT64_MAX, &want) != ERR_OK)
        want = 0;
    enum err e = money_window_month(op->store, b.project, month.year, month.month, &windows);
    for (size_t i = 0; i < windows.len && e == ERR_OK && !found; i++) {
        if (windows.at[i].qty == 0 || ++n != want)
            continue;
        found = true;
        e = write_line(op, &b, &windows.at[i], n, text);
    }
    vec_fini(&windows);
    if (e != ERR_OK || found)
        return e;
    (void)refusef(&op->why, ERR_NOT_FOUND, "what", "%s", "bill line");
    refusal_set(&op->why, "name", op->path_arg[0]);
    refusal_setf(&op->why, "verb", "bill %s", text);
    return ERR_NOT_FOUND;
}
