#include "app/usage_cost.h"

#include "store/rows_review.h"

#define PAGE_SPANS 5000

struct walk {
    const struct books *b;
    struct window_row window; /* the present one; id "": none yet */
    struct rate rate;
    int64_t qty; /* of it so far */
    usage_cost_taker *take;
    void *arg;
};

static enum err enter_window(struct walk *w, const char *id)
{
    if (str_eq(w->window.id, id))
        return ERR_OK;
    TRY(money_window_get(w->b->store, id, &w->window));
    w->qty = 0;
    return window_rate(w->b->store, &w->window, &w->rate);
}

static enum err take_part(struct walk *w, const struct review_span *s, int64_t from_s, int64_t to_s,
                          int64_t qty)
{
    struct usage_cost c = {.window = &w->window,
                           .from_s = from_s,
                           .to_s = to_s,
                           .qty = qty,
                           .gpu_util_pct = s->gpu_util_pct};

    TRY(rate_delta(&w->rate, w->qty, w->qty + qty, &c.u));
    if (w->window.reversed_u)
        c.u = 0;
    w->qty += qty;
    return w->take(w->arg, &c);
}

/* The time of a disk may have grown over the end of a day: cut there. */
static enum err take_span(struct walk *w, const struct review_span *s)
{
    int64_t from = s->from_s;

    TRY(enter_window(w, s->rating_window));
    if (s->qty_per_s == 0) /* traffic: a quantity at one second */
        return take_part(w, s, s->from_s, s->to_s, s->qty);
    while (from < s->to_s) {
        struct period day;
        int64_t to;

        period_day_at(&w->b->zone, from, &day);
        to = MIN(s->to_s, day.to_s);
        TRY(take_part(w, s, from, to, (to - from) * s->qty_per_s));
        from = to;
    }
    return ERR_OK;
}

enum err usage_cost_month(const struct books *b, int64_t year, int month, usage_cost_taker *take,
                          void *arg)
{
    struct walk w = {.b = b, .take = take, .arg = arg};
    char after[LEDGER_KEY_SIZE] = "";
    int64_t after_id = 0;
    bool more = true;
    enum err e = ERR_OK;

    while (more && e == ERR_OK) {
        struct review_span_list page = {0};

        e = review_span_page(b->store, b->project, year, month, after, after_id, PAGE_SPANS, &page);
        for (size_t i = 0; i < page.len && e == ERR_OK; i++)
            e = take_span(&w, &page.at[i]);
        more = page.len == PAGE_SPANS;
        if (more) {
            memcpy(after, page.at[page.len - 1].rating_window, sizeof(after));
            after_id = page.at[page.len - 1].id;
        }
        vec_fini(&page);
    }
    return e;
}
