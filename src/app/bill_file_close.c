/* bill_file_close.c: the lines of a closed month: its statement as it was closed, and what was
 * invoiced of it. */
#include "app/bill_file.h"

static void month_text(struct bill_file *f, const char *key, int64_t year, int month)
{
    json_strf(f->json, key, "%04" PRId64 "-%02d", year, month);
}

static void statement_line(struct bill_file *f)
{
    const struct statement_row *st = &f->st;

    bill_line_begin(f, "statement");
    json_str(f->json, "id", st->id);
    json_str(f->json, "number", st->number);
    json_i64(f->json, "closed_ms", st->closed_ms);
    bill_num(f, "minor_u", st->minor_u);
    json_i64(f->json, "lines", st->line_count);
    bill_num(f, "total_u", st->total_u);
    bill_num(f, "residue_u", st->residue_u);
    bill_num(f, "lines_minor", st->lines_minor);
    bill_num(f, "net_minor", st->net_minor);
    bill_num(f, "tax_minor", st->tax_minor);
    bill_num(f, "payable_minor", st->payable_minor);
    json_str(f->json, "seller", st->seller);
    json_str(f->json, "buyer", st->buyer);
    json_flag(f->json, "business", st->business);
    json_flag(f->json, "id_valid", st->id_valid);
    json_str(f->json, "category", st->category);
    json_str(f->json, "reason", st->reason);
    bill_line_finish(f);
}

static enum err row_line(void *user, const struct line_row *l)
{
    struct bill_file *f = user;
    int64_t before = 0;

    if (l->kind == LINE_CORRECTION)
        TRY(proof_posted(f->store, l->source, f->seq_before, &before));
    bill_line_begin(f, "line");
    json_i64(f->json, "n", l->n);
    json_str(f->json, "kind", line_kind_name(l->kind));
    json_str(f->json, "source", l->source);
    json_str(f->json, "subject", l->subject);
    json_str(f->json, "name", l->subject_name);
    json_str(f->json, "meter", l->meter != METER_NONE ? meter_name((enum meter)l->meter) : "");
    json_str(f->json, "sku", l->sku);
    json_str(f->json, "price", l->price.s);
    bill_num(f, "qty_from", l->qty_from);
    bill_num(f, "qty_to", l->qty_to);
    bill_num(f, "before_u", before);
    bill_num(f, "amount_u", l->amount_u);
    bill_num(f, "printed_minor", l->printed_minor);
    json_i64(f->json, "tax", l->tax_group);
    json_i64(f->json, "from_s", l->from_s);
    json_i64(f->json, "to_s", l->to_s);
    month_text(f, "month", l->year, l->month);
    json_flag(f->json, "simulated", l->simulated);
    bill_line_finish(f);
    return ERR_OK;
}

static void tax_line(struct bill_file *f, const struct statement_tax_row *g)
{
    bill_line_begin(f, "tax");
    json_i64(f->json, "n", g->n);
    json_str(f->json, "country", g->country);
    json_str(f->json, "class", g->class);
    json_str(f->json, "category", g->category);
    bill_num(f, "rate_n", g->rate_n);
    bill_num(f, "rate_d", g->rate_d);
    json_flag(f->json, "inclusive", g->inclusive);
    bill_num(f, "base_minor", g->base_minor);
    bill_num(f, "net_minor", g->net_minor);
    bill_num(f, "tax_minor", g->tax_minor);
    bill_num(f, "gross_minor", g->gross_minor);
    bill_line_finish(f);
}

static void invoice_line(struct bill_file *f, const struct invoice_row *r)
{
    bill_line_begin(f, "invoice");
    json_str(f->json, "number", r->number);
    json_str(f->json, "kind", r->kind ? "credit_note" : "invoice");
    json_str(f->json, "prev", r->prev);
    json_str(f->json, "reason", r->reason);
    json_i64(f->json, "issued_ms", r->issued_ms);
    bill_num(f, "net_minor", r->net_minor);
    bill_num(f, "tax_minor", r->tax_minor);
    bill_num(f, "payable_minor", r->payable_minor);
    bill_line_finish(f);
}

enum err bill_file_statement(struct bill_file *f)
{
    struct statement_tax_list taxes = {0};
    struct invoice_list invoices = {0};
    struct ledger_day_row before;

    if (!f->st.closed)
        return ERR_OK;
    TRY(proof_day_before(f->store, f->month.from_s / DAY_S, &before));
    f->seq_before = before.seq;
    statement_line(f);
    TRY(line_each(f->store, f->st.id, row_line, f));
    enum err e = statement_tax_list(f->store, f->st.id, &taxes);
    for (size_t i = 0; i < taxes.len && e == ERR_OK; i++)
        tax_line(f, &taxes.at[i]);
    if (e == ERR_OK)
        e = invoice_of_statement(f->store, f->st.id, &invoices);
    for (size_t i = 0; i < invoices.len && e == ERR_OK; i++)
        invoice_line(f, &invoices.at[i]);
    vec_fini(&taxes);
    vec_fini(&invoices);
    return e;
}

struct corrected {
    struct store *store;
    struct window_list *windows;
};

/* A correction's window is of an earlier month; only its price is needed. */
static enum err add_window(void *user, const struct line_row *l)
{
    struct corrected *c = user;
    struct window_row w;

    if (l->kind != LINE_CORRECTION)
        return ERR_OK;
    TRY(money_window_get(c->store, l->source, &w));
    *vec_push(c->windows) = w;
    return ERR_OK;
}

enum err bill_file_corrected(struct bill_file *f, struct window_list *io_l)
{
    struct corrected c = {f->store, io_l};

    return f->st.closed ? line_each(f->store, f->st.id, add_window, &c) : ERR_OK;
}
