/* close_write.c: one statement, in two passes over the month's windows: the first sums, finds who
 * paid and how many lines get one minor unit more; the second writes the lines as printed. */
#include "app/close_int.h"

#include <stdlib.h>

struct credit { /* what one account paid of one tax group: below zero on the bill */
    char account[LEDGER_KEY_SIZE];
    int32_t group;
    int64_t u;
};
struct revenue { /* what one tax group brought to one account of the platform */
    char account[LEDGER_KEY_SIZE];
    int32_t group;
    int64_t u;
};
struct writer {
    const struct books *b;
    struct tax_book tax;
    struct bill_cut cut;
    struct {
        struct credit *at;
        size_t len, cap;
    } credits;
    struct {
        struct revenue *at;
        size_t len, cap;
    } revenues;
    int64_t base_minor[TAX_GROUPS_MAX]; /* Σ printed lines of each group */
    int64_t lines, to_s;
    bool simulated, writing, gifted;
    struct statement_row st;
    struct refusal *why;
};

static struct credit *credit_of(struct writer *w, const char *account, int32_t group)
{
    struct credit *c;

    for (size_t i = 0; i < w->credits.len; i++)
        if (w->credits.at[i].group == group && str_eq(w->credits.at[i].account, account))
            return &w->credits.at[i];
    c = vec_push(&w->credits);
    *c = (struct credit){.group = group};
    CHECK(str_copy(c->account, sizeof(c->account), account));
    return c;
}

static struct revenue *revenue_of(struct writer *w, const char *account, int32_t group)
{
    struct revenue *r;

    for (size_t i = 0; i < w->revenues.len; i++)
        if (w->revenues.at[i].group == group && str_eq(w->revenues.at[i].account, account))
            return &w->revenues.at[i];
    r = vec_push(&w->revenues);
    *r = (struct revenue){.group = group};
    CHECK(str_copy(r->account, sizeof(r->account), account));
    return r;
}

/* Money that nobody paid in: it lowers what is payable and is no part of an invoice. */
static bool is_credit(const char *account)
{
    return str_starts(account, "voucher.") || str_starts(account, "gift.");
}

static enum err credit_add(struct writer *w, const char *account, int32_t group, int64_t u)
{
    struct credit *c = credit_of(w, account, group);

    return micro_sub(c->u, u, &c->u);
}

/* What the window had cost before the quantity of a correction. */
static enum err cost_before(const struct books *b, const struct line_row *l, int64_t *ret_u)
{
    struct window_row w;
    struct rate rate;

    TRY(money_window_get(b->store, l->source, &w));
    TRY(window_rate(b->store, &w, &rate));
    return rate_total(&rate, l->qty_from, ret_u);
}

static enum err sources_add(struct writer *w, const struct line_row *l)
{
    struct charge_source_list sources = {0};
    int64_t from_u = 0;
    enum err e = ERR_OK;

    if (l->kind == LINE_CORRECTION)
        e = cost_before(w->b, l, &from_u);
    if (e == ERR_OK)
        e = charge_source_list(w->b->store, l->source, from_u, from_u + l->amount_u, w->gifted,
                               &sources);
    for (size_t i = 0; i < sources.len && e == ERR_OK; i++) {
        const struct charge_source *c = &sources.at[i];
        struct revenue *r = revenue_of(w, c->cr, l->tax_group);

        e = micro_add(r->u, c->amount_u, &r->u);
        if (e == ERR_OK && is_credit(c->dr))
            e = credit_add(w, c->dr, l->tax_group, c->amount_u);
    }
    vec_fini(&sources);
    return e;
}

/* Bought at once: the revenue comes over its term, the tax is due now. */
static enum err purchase_sources(struct writer *w, const struct line_row *l)
{
    struct charge_source_list sources = {0};
    char account[LEDGER_KEY_SIZE];
    struct revenue *r;
    enum err e = purchase_credits(w->b->store, l->source, w->to_s * MS_PER_S, &sources);

    account_id(account, "revenue.compute", w->b->ccy.code);
    r = revenue_of(w, account, l->tax_group);
    if (e == ERR_OK)
        e = micro_add(r->u, l->amount_u, &r->u);
    for (size_t i = 0; i < sources.len && e == ERR_OK; i++)
        if (is_credit(sources.at[i].dr))
            e = credit_add(w, sources.at[i].dr, l->tax_group, sources.at[i].amount_u);
    vec_fini(&sources);
    return e;
}

/* Who paid it in the end: nobody what was given back. */
static enum err payers(struct writer *w, const struct line_row *l, bool reversed)
{
    if (reversed)
        return ERR_OK;
    return l->kind == LINE_CHARGE ? purchase_sources(w, l) : sources_add(w, l);
}

/* One line in either pass; the order is the same in both. reversed: it or its window's usage was
 * given back. */
static enum err line(struct writer *w, struct line_row *l, bool reversed)
{
    TRY(tax_book_group(&w->tax, l->sku, &l->tax_group, w->why));
    if (!w->writing) {
        w->simulated |= l->simulated;
        w->lines++;
        TRY(payers(w, l, reversed));
        return bill_cut_add(&w->cut, l->amount_u);
    }
    memcpy(l->statement, w->st.id, sizeof(l->statement));
    l->n = ++w->lines;
    l->printed_minor = bill_cut_line(&w->cut, l->amount_u);
    TRY(micro_add(w->base_minor[l->tax_group], l->printed_minor, &w->base_minor[l->tax_group]));
    return line_add(w->b->store, l);
}

void close_line_of(const struct window_row *w, enum line_kind kind, int64_t qty_from,
                   int64_t qty_to, int64_t u, struct line_row *ret_l)
{
    bool ok;

    *ret_l = (struct line_row){.kind = kind,
                               .meter = (int32_t)w->meter,
                               .price = w->price,
                               .qty_from = qty_from,
                               .qty_to = qty_to,
                               .amount_u = u,
                               .from_s = w->from_s,
                               .to_s = w->to_s,
                               .year = w->year,
                               .month = w->month,
                               .simulated = w->simulated};
    ok = str_copy(ret_l->source, sizeof(ret_l->source), w->id) &&
         str_copy(ret_l->subject, sizeof(ret_l->subject), w->subject.s) &&
         str_copy(ret_l->sku, sizeof(ret_l->sku), w->sku);
    CHECK(ok);
}

static enum err window_line(struct writer *w, const struct window_row *win, enum line_kind kind,
                            int64_t qty_from, int64_t qty_to, int64_t u)
{
    struct line_row l;

    close_line_of(win, kind, qty_from, qty_to, u, &l);
    if (w->writing)
        TRY(close_subject_name(w->b->store, win->subject, l.subject_name));
    return line(w, &l, win->reversed_u != 0);
}

static enum err on_window(void *user, const struct window_row *win)
{
    return win->qty == 0 ? ERR_OK : window_line(user, win, LINE_USAGE, 0, win->qty, win->rated_u);
}

static enum err on_reversal(void *user, const struct window_row *win)
{
    return win->reversed_u == 0
               ? ERR_OK
               : window_line(user, win, LINE_REVERSAL, 0, win->qty, -win->reversed_u);
}

static enum err corrections(struct writer *w, const struct period *p)
{
    struct late_list late = {0};
    enum err e = late_list_month(w->b->store, w->b->project, p->year, p->month, &late);

    for (size_t i = 0; i < late.len && e == ERR_OK; i++) {
        const struct late_row *l = &late.at[i];
        struct window_row win;

        e = money_window_get(w->b->store, l->rating_window, &win);
        if (e != ERR_OK || l->qty_from == l->qty_to)
            continue;
        win.from_s = l->from_s;
        win.to_s = l->to_s;
        e = window_line(w, &win, LINE_CORRECTION, l->qty_from, l->qty_to, l->amount_u);
    }
    vec_fini(&late);
    return e;
}

void close_line_of_purchase(const struct purchase_line *p, const struct period *month,
                            struct line_row *ret_l)
{
    bool ok;

    *ret_l = (struct line_row){.kind = LINE_CHARGE,
                               .meter = METER_NONE,
                               .amount_u = p->amount_u,
                               .from_s = p->at / MS_PER_S,
                               .to_s = p->at / MS_PER_S,
                               .year = month->year,
                               .month = month->month};
    ok = str_copy(ret_l->source, sizeof(ret_l->source), p->id) &&
         str_copy(ret_l->subject, sizeof(ret_l->subject), p->account) &&
         str_copy(ret_l->sku, sizeof(ret_l->sku),
                  str_starts(p->account, "deferred.pkg_") ? "package"
                  : str_starts(p->account, "deferred.")   ? "plan"
                                                          : "purchase");
    CHECK(ok);
}

static enum err purchases(struct writer *w, const struct period *p)
{
    struct purchase_line_list list = {0};
    enum err e = purchase_line_list(w->b->store, w->b->project, p->from_s * MS_PER_S,
                                    p->to_s * MS_PER_S, &list);

    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        struct line_row l;

        close_line_of_purchase(&list.at[i], p, &l);
        if (l.amount_u > 0)
            e = line(w, &l, false);
    }
    vec_fini(&list);
    return e;
}

static enum err credits(struct writer *w)
{
    for (size_t i = 0; i < w->credits.len; i++) {
        const struct credit *c = &w->credits.at[i];
        struct line_row l = {.kind = LINE_CREDIT,
                             .meter = METER_NONE,
                             .amount_u = c->u,
                             .tax_group = c->group,
                             .from_s = w->st.from_s,
                             .to_s = w->st.to_s,
                             .year = w->st.year,
                             .month = w->st.month};
        bool ok = str_copy(l.source, sizeof(l.source), c->account) &&
                  str_copy(l.subject, sizeof(l.subject), c->account);

        CHECK(ok);
        if (!w->writing) {
            w->lines++;
            TRY(bill_cut_add(&w->cut, c->u));
            continue;
        }
        memcpy(l.statement, w->st.id, sizeof(l.statement));
        l.n = ++w->lines;
        l.printed_minor = bill_cut_line(&w->cut, c->u);
        TRY(micro_add(w->base_minor[c->group], l.printed_minor, &w->base_minor[c->group]));
        TRY(line_add(w->b->store, &l));
    }
    return ERR_OK;
}

static enum err pass(struct writer *w, const struct period *p, bool writing)
{
    w->writing = writing;
    w->lines = 0;
    TRY(window_each(w->b->store, w->b->project, p->year, p->month, on_window, w));
    TRY(corrections(w, p));
    TRY(purchases(w, p));
    TRY(credits(w));
    return window_each(w->b->store, w->b->project, p->year, p->month, on_reversal, w);
}

static enum err open_statement(struct writer *w, const struct period *p)
{
    struct statement_row *st = &w->st;
    bool ok;

    *st = (struct statement_row){.project = w->b->project,
                                 .year = p->year,
                                 .month = p->month,
                                 .from_s = p->from_s,
                                 .to_s = p->to_s,
                                 .minor_u = w->cut.minor_u,
                                 .closed_ms = w->b->now,
                                 .line_count = w->lines,
                                 .total_u = w->cut.total.total_u,
                                 .residue_u = w->cut.total.residue_u,
                                 .lines_minor = w->cut.total.payable_minor,
                                 .net_minor = w->cut.total.payable_minor,
                                 .payable_minor = w->cut.total.payable_minor,
                                 .business = w->tax.buyer.business,
                                 .id_valid = w->tax.buyer.id_valid,
                                 .simulated = w->simulated};
    close_id(st->id, st->project, st->year, st->month);
    ok = str_copy(st->zone, sizeof(st->zone), zone_at(&w->b->zone, p->from_s)->name) &&
         str_copy(st->currency, sizeof(st->currency), w->b->ccy.code) &&
         str_copy(st->seller, sizeof(st->seller), w->tax.seller.country) &&
         str_copy(st->buyer, sizeof(st->buyer), w->tax.buyer.country) &&
         str_printf(st->series, sizeof(st->series), "B-%s-%04" PRId64, st->currency, st->year);
    CHECK(ok);
    TRY(statement_last(w->b->store, st->series, &st->seq));
    st->seq++;
    ok = str_printf(st->number, sizeof(st->number), "%s-%06" PRId64, st->series, st->seq);
    CHECK(ok);
    TRY(journal_last(w->b->store, &st->journal));
    return statement_save(w->b->store, st);
}

/* ---- what the close moves: residue back, tax to the tax accounts */

struct moves {
    struct ledger_transfer *at; /* owned */
    size_t len, cap;
};

static struct ledger_transfer *move(struct writer *w, struct moves *m, const char *kind, int64_t u)
{
    struct ledger_transfer *t = vec_push(m);
    char group[LEDGER_KEY_SIZE];
    bool ok = str_printf(group, sizeof(group), "close.%s", w->st.id);

    CHECK(ok);
    *t = transfer_of(w->b, group, kind);
    t->amount = u;
    ok = str_printf(t->id, sizeof(t->id), "%s.%zu.%s", kind, m->len, w->st.id) &&
         str_copy(t->owner, sizeof(t->owner), w->st.id);
    CHECK(ok);
    return t;
}

static void tax_account(const struct writer *w, const struct statement_tax_row *g,
                        char ret_id[LEDGER_KEY_SIZE])
{
    close_tax_account(g, w->b->ccy, ret_id);
}

void close_tax_account(const struct statement_tax_row *g, struct currency ccy,
                       char ret_id[LEDGER_KEY_SIZE])
{
    bool ok = str_printf(ret_id, LEDGER_KEY_SIZE, "tax.output.%s.%" PRId64 "/%" PRId64 ".%s",
                         g->country, g->rate_n, g->rate_d, ccy.code);

    CHECK(ok);
}

/* Tax inside the price leaves the revenue accounts in the proportion in which the group fed them.
 */
static enum err move_tax_inside(struct writer *w, const struct statement_tax_row *g,
                                struct moves *m)
{
    int64_t weights[16], parts[16], u;
    struct bill_share scratch[16];
    size_t of[16], n = 0;

    for (size_t i = 0; i < w->revenues.len && n < ARRAY_LEN(of); i++)
        if (w->revenues.at[i].group == g->n) {
            weights[n] = w->revenues.at[i].u;
            of[n++] = i;
        }
    if (n == 0 || __builtin_mul_overflow(g->tax_minor, w->st.minor_u, &u))
        return ERR_MONEY_RANGE;
    TRY(bill_split(u, weights, n, scratch, parts));
    for (size_t i = 0; i < n; i++) {
        struct ledger_transfer *t;

        if (parts[i] == 0)
            continue;
        t = move(w, m, "tax", parts[i]);
        memcpy(t->dr, w->revenues.at[of[i]].account, sizeof(t->dr));
        tax_account(w, g, t->cr);
    }
    return ERR_OK;
}

/* Tax on top of the price is paid by the wallet, and owed when the wallet is empty. */
static enum err move_tax_on_top(struct writer *w, const struct statement_tax_row *g,
                                struct moves *m, int64_t *io_cash_u)
{
    int64_t u, from_cash;

    if (__builtin_mul_overflow(g->tax_minor, w->st.minor_u, &u))
        return ERR_MONEY_RANGE;
    from_cash = MIN(u, *io_cash_u);
    *io_cash_u -= from_cash;
    for (int i = 0; i < 2; i++) {
        int64_t part = i ? u - from_cash : from_cash;
        struct ledger_transfer *t;

        if (part == 0)
            continue;
        t = move(w, m, "tax", part);
        account_id(t->dr, i ? "receivable" : "cash", w->b->project.s);
        tax_account(w, g, t->cr);
    }
    return ERR_OK;
}

static enum err group_tax(struct writer *w, int32_t n, struct moves *m, int64_t *io_cash_u)
{
    struct statement_tax_row *g = &w->tax.groups[n];
    struct tax_group t;

    TRY(tax_of_signed(w->base_minor[n], (struct tax_rate){g->rate_n, g->rate_d}, g->inclusive, &t));
    memcpy(g->statement, w->st.id, sizeof(g->statement));
    g->base_minor = w->base_minor[n];
    g->net_minor = t.net_minor;
    g->tax_minor = t.tax_minor;
    g->gross_minor = t.gross_minor;
    TRY(statement_tax_add(w->b->store, g));
    TRY(micro_add(w->st.net_minor, t.net_minor, &w->st.net_minor));
    TRY(micro_add(w->st.tax_minor, t.tax_minor, &w->st.tax_minor));
    TRY(micro_add(w->st.payable_minor, t.gross_minor, &w->st.payable_minor));
    if (t.tax_minor <= 0)
        return ERR_OK;
    return g->inclusive ? move_tax_inside(w, g, m) : move_tax_on_top(w, g, m, io_cash_u);
}

static enum err settle(struct writer *w)
{
    struct ledger_account cash;
    struct moves m = {0};
    char id[LEDGER_KEY_SIZE];
    enum err e;

    account_id(id, "cash", w->b->project.s);
    TRY(account_load(w->b->store, id, w->b->ccy, &cash));
    int64_t rest = ledger_available(&cash);
    w->st.net_minor = w->st.tax_minor = w->st.payable_minor = 0;
    e = ERR_OK;
    if (w->st.residue_u > 0) {
        struct ledger_transfer *t = move(w, &m, "residue", w->st.residue_u);

        account_id(t->dr, "rounding", w->b->ccy.code);
        account_id(t->cr, "cash", w->b->project.s);
    }
    for (int32_t n = 0; n < w->tax.group_count && e == ERR_OK; n++)
        e = group_tax(w, n, &m, &rest);
    if (e == ERR_OK)
        e = ledger_post(w->b, m.at, m.len, w->why);
    vec_fini(&m);
    TRY(e);
    bool ok = str_copy(w->st.category, sizeof(w->st.category), w->tax.groups[0].category) &&
              str_copy(w->st.reason, sizeof(w->st.reason), tax_reason_code(w->tax.reason));
    CHECK(ok);
    w->st.closed = true;
    TRY(funds_posted_note(w->b));
    return statement_save(w->b->store, &w->st);
}

static enum err write_all(struct writer *w, const struct period *p, bool *ret_empty)
{
    w->to_s = p->to_s;
    TRY(charge_gifted(w->b->store, w->b->project, &w->gifted));
    TRY(tax_book_open(w->b->store, w->b->project, p->to_s - 1, &w->tax));
    TRY(pass(w, p, false));
    *ret_empty = w->lines == 0;
    if (*ret_empty)
        return ERR_OK;
    TRY(bill_cut_decide(&w->cut));
    TRY(open_statement(w, p));
    TRY(pass(w, p, true));
    return settle(w);
}

enum err close_write(const struct books *b, const struct period *p, struct statement_row *ret_s,
                     bool *ret_empty, struct refusal *why)
{
    struct writer *w = mem_alloc(sizeof(*w));
    int64_t minor_u = currency_minor_u(b->ccy);
    AUTO_FREE int64_t *counts = mem_alloc((size_t)minor_u * sizeof(*counts));

    *w = (struct writer){.b = b, .why = why};
    bill_cut_init(&w->cut, minor_u, counts);
    enum err e = write_all(w, p, ret_empty);
    *ret_s = w->st;
    tax_book_fini(&w->tax);
    vec_fini(&w->credits);
    vec_fini(&w->revenues);
    free(w);
    return e;
}
