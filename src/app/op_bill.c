/* op_bill.c: the bill of a month. A line is one rating window: what was used, at which price
 * version, and the formula anybody can type into a calculator; the sum is exact to the micro-unit.
 */
#include "app/bill_by.h"

static enum err subject_name(struct op *op, const struct window_row *w, char ret_name[NAME_SIZE])
{
    struct instance *i = mem_alloc(sizeof(*i));
    struct disk d = {0};
    enum err e;

    if (str_starts(w->subject.s, "dsk_")) {
        e = store_disk_get_any(op->store, w->subject, &d);
        (void)str_copy(ret_name, NAME_SIZE, d.name);
    } else {
        e = store_instance_get_any(op->store, w->subject, i);
        (void)str_copy(ret_name, NAME_SIZE, i->name);
    }
    mem_free_ptr(&i);
    if (e == ERR_NOT_FOUND)
        ret_name[0] = '\0';
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err write_line(struct op *op, const struct books *b, const struct window_row *w,
                           int64_t n)
{
    struct bill_line line = {.subject = w->subject,
                             .meter = w->meter,
                             .price = w->price,
                             .ccy = b->ccy,
                             .qty_to = w->qty};
    char name[NAME_SIZE], formula[BILL_FORMULA_SIZE];

    TRY(window_rate(op->store, w, &line.rate));
    TRY(bill_rate(&line));
    CHECK(line.amount_u == w->rated_u);
    CHECK(str_copy(line.unit, sizeof(line.unit), meter_unit(w->meter)));
    bill_formula(&line, formula, sizeof(formula));
    TRY(subject_name(op, w, name));
    json_object_begin(&op->out, NULL);
    json_i64(&op->out, "n", n);
    json_str(&op->out, "subject", w->subject.s);
    json_str(&op->out, "subject_name", name[0] ? name : w->subject.s);
    json_str(&op->out, "meter", meter_name(w->meter));
    json_str(&op->out, "sku", w->sku);
    json_strf(&op->out, "quantity", "%" PRId64, w->qty);
    json_str(&op->out, "unit", line.unit);
    json_rate(&op->out, "price", &line.rate);
    json_str(&op->out, "price_version", w->price.s);
    json_money(&op->out, "amount", w->rated_u, b->ccy);
    json_str(&op->out, "formula", formula);
    json_time(&op->out, "from", w->from_s * MS_PER_S);
    json_time(&op->out, "to", w->to_s * MS_PER_S);
    json_flag(&op->out, "simulated", w->simulated);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_bill_get(struct op *op)
{
    struct window_list windows = {0};
    struct project p;
    struct period month;
    enum bill_by by;
    struct books b;
    char text[16];
    int64_t total = 0, n = 0;
    bool given, simulated = false;

    TRY(people_try(op, store_project_get(op->store, op->who.project, &p)));
    TRY(books_open(op->store, op->now, p.id, &b, &op->why));
    TRY(month_arg(op, &b, &given, &month));
    TRY(bill_by_arg(op, &by));
    period_format(&month, text, sizeof(text));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "project", p.name);
    json_str(&op->out, "month", text);
    json_str(&op->out, "zone", p.zone);
    json_time(&op->out, "from", month.from_s * MS_PER_S);
    json_time(&op->out, "to", month.to_s * MS_PER_S);
    json_array_begin(&op->out, "lines");
    enum err e = money_window_month(op->store, p.id, month.year, month.month, &windows);
    for (size_t i = 0; i < windows.len && e == ERR_OK; i++) {
        if (windows.at[i].qty == 0)
            continue;
        simulated |= windows.at[i].simulated;
        e = write_line(op, &b, &windows.at[i], ++n);
        if (e == ERR_OK)
            e = micro_add(total, windows.at[i].rated_u, &total);
    }
    vec_fini(&windows);
    TRY(e);
    json_array_finish(&op->out);
    TRY(bill_by_write(op, &b, &month, by));
    json_money(&op->out, "total", total, b.ccy);
    json_flag(&op->out, "simulated", simulated);
    json_object_finish(&op->out);
    return ERR_OK;
}
