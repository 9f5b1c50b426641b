#include "app/bill_lines.h"

#include "app/op_money.h"

struct live {
    const struct books *b;
    line_fn *fn;
    void *user;
    int64_t n;
};

static enum err live_line(struct live *x, const struct window_row *w, enum line_kind kind,
                          int64_t qty_from, int64_t qty_to, int64_t u)
{
    struct line_row l;

    close_line_of(w, kind, qty_from, qty_to, u, &l);
    l.n = ++x->n;
    TRY(close_subject_name(x->b->store, w->subject, l.subject_name));
    return x->fn(x->user, &l);
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

static enum err live_late(struct live *x, const struct period *month)
{
    struct late_list late = {0};
    enum err e = late_list_month(x->b->store, x->b->project, month->year, month->month, &late);

    for (size_t i = 0; i < late.len && e == ERR_OK; i++) {
        const struct late_row *l = &late.at[i];
        struct window_row w;

        e = money_window_get(x->b->store, l->rating_window, &w);
        w.from_s = l->from_s;
        w.to_s = l->to_s;
        if (e == ERR_OK)
            e = live_line(x, &w, LINE_CORRECTION, l->qty_from, l->qty_to, l->amount_u);
    }
    vec_fini(&late);
    return e;
}

static enum err live_purchases(struct live *x, const struct period *month)
{
    struct purchase_line_list list = {0};
    enum err e = purchase_line_list(x->b->store, x->b->project, month->from_s * MS_PER_S,
                                    month->to_s * MS_PER_S, &list);

    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        struct line_row l;

        close_line_of_purchase(&list.at[i], month, &l);
        if (l.amount_u <= 0)
            continue;
        l.n = ++x->n;
        e = x->fn(x->user, &l);
    }
    vec_fini(&list);
    return e;
}

enum err bill_lines(const struct books *b, const struct period *month,
                    const struct statement_row *st, line_fn *fn, void *user)
{
    struct live x = {.b = b, .fn = fn, .user = user};
    bool closed = false;

    if (st)
        return line_each(b->store, st->id, fn, user);
    TRY(close_is_closed(b->store, b->project, month, &closed));
    if (closed) /* it was empty; what came later is in a later month */
        return ERR_OK;
    TRY(window_each(b->store, b->project, month->year, month->month, live_window, &x));
    TRY(live_late(&x, month));
    TRY(live_purchases(&x, month));
    return window_each(b->store, b->project, month->year, month->month, live_reversal, &x);
}

enum err bill_line_priced(const struct books *b, const struct line_row *l,
                          struct bill_line *ret_line)
{
    struct window_row w = {.meter = (enum meter)l->meter, .price = l->price};
    struct bill_line line = {.meter = w.meter,
                             .price = l->price,
                             .ccy = b->ccy,
                             .qty_from = l->qty_from,
                             .qty_to = l->qty_to};

    TRY(window_rate(b->store, &w, &line.rate));
    TRY(bill_rate(&line));
    if (l->kind == LINE_REVERSAL) { /* all of it back to nothing */
        line.qty_from = l->qty_to;
        line.qty_to = l->qty_from;
        line.amount_u = -line.amount_u;
    }
    CHECK(line.amount_u == l->amount_u);
    CHECK(str_copy(line.unit, sizeof(line.unit), meter_unit(w.meter)));
    *ret_line = line;
    return ERR_OK;
}
