/* funds_rate.c: from seconds to windows. The only place that raises a window's quantity.
 *
 * [from, to) is cut where another price version begins to bind (price_split), at month borders of
 * the project's zone (each a window of its own) and at its days (for budgets). Each part raises its
 * window from Q to Q+q and costs F(Q+q) - F(Q); so any cutting of the same seconds gives the same
 * windows. */
#include "app/close.h"
#include "app/fund_source.h"
#include "app/funds_package.h"
#include "app/funds_spot.h"

#include <stdlib.h>

/* The project's zone; after a change, the one it follows for what was before. */
static enum err books_zone(struct store *s, const struct project *p, struct zone *ret_z,
                           struct refusal *why)
{
    struct zone_change c;
    enum err e = zone_change_get(s, p->id, &c);
    const struct zone *before = e == ERR_OK ? funds_zone_kept(c.before) : NULL;

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (funds_zone(e == ERR_OK ? c.zone : p->zone, ret_z) && (before || e == ERR_NOT_FOUND)) {
        if (before)
            zone_follow(ret_z, before, c.since_s);
        return ERR_OK;
    }
    (void)refusef(why, ERR_UNSUPPORTED, "what", "%s", e == ERR_OK ? c.zone : p->zone);
    refusal_set(why, "why", "this billing zone was not loaded at the start");
    return ERR_UNSUPPORTED;
}

enum err books_open(struct store *s, utime_t now, struct id project, struct books *ret_b,
                    struct refusal *why)
{
    struct books b = {.store = s, .now = now, .now_s = now / MS_PER_S, .project = project};
    struct project p;
    enum err e = store_project_get(s, project, &p);

    if (e == ERR_NOT_FOUND) {
        (void)refusef(why, e, "name", "%s", project.s);
        refusal_set(why, "what", "project");
        refusal_set(why, "verb", "project ls");
    }
    TRY(e);
    if (currency_get(p.currency, &b.ccy) != ERR_OK)
        return refusef(why, ERR_CURRENCY, "got", "%s", p.currency);
    TRY(books_zone(s, &p, &b.zone, why));
    *ret_b = b;
    return ERR_OK;
}

void prices_fini(struct prices *p)
{
    free(p->v);
    *p = (struct prices){0};
}

enum err price_row_rate(const struct price_row *row, struct rate *ret_r)
{
    return rate_of_tiers((struct price_rate){row->p, row->d}, row->tiers, row->cap_u, row->cap_qty,
                         ret_r);
}

static enum err price_of_row(const struct price_row *r, struct price_version *ret_v)
{
    *ret_v = (struct price_version){.id = r->id,
                                    .valid_from_s = r->valid_from_s,
                                    .announced_s = r->announced_s,
                                    .notice_s = r->notice_s};
    return price_row_rate(r, &ret_v->rate);
}

enum err prices_load(struct store *s, struct currency ccy, const char *sku, struct prices *ret_p,
                     struct refusal *why)
{
    struct price_row_list rows = {0};
    enum err e = money_price_list(s, ccy.code, sku, &rows);

    *ret_p = (struct prices){0};
    if (e == ERR_OK && rows.len == 0)
        e = refusef(why, ERR_PRICE_UNKNOWN, "sku", "%s", sku);
    if (e == ERR_OK) {
        ret_p->v = mem_alloc(rows.len * sizeof(ret_p->v[0]));
        ret_p->n = rows.len;
        for (size_t i = 0; i < rows.len && e == ERR_OK; i++)
            e = price_of_row(&rows.at[i], &ret_p->v[i]);
    }
    vec_fini(&rows);
    return e;
}

enum err window_rate(struct store *s, const struct window_row *w, struct rate *ret_r)
{
    struct price_row row;

    TRY(money_price_get(s, w->price, &row));
    return price_row_rate(&row, ret_r);
}

static void window_id(const struct books *b, const struct rating *r, struct id price, int64_t at_s,
                      char ret_id[LEDGER_KEY_SIZE], struct period *ret_month)
{
    period_month_at(&b->zone, at_s, ret_month);
    bool ok = str_printf(ret_id, LEDGER_KEY_SIZE, "%s/%d/%s/%04" PRId64 "%02d", r->subject.s,
                         (int)r->meter, price.s, ret_month->year, ret_month->month);
    CHECK(ok);
}

/* ret_new: not stored yet. */
static enum err window_load(const struct books *b, const struct rating *r, struct id price,
                            int64_t at_s, struct window_row *ret_w, bool *ret_new)
{
    char id[LEDGER_KEY_SIZE];
    struct period month;
    enum err e;

    window_id(b, r, price, at_s, id, &month);
    e = money_window_get(b->store, id, ret_w);
    *ret_new = e == ERR_NOT_FOUND;
    if (e != ERR_NOT_FOUND)
        return e;
    *ret_w = (struct window_row){.project = b->project,
                                 .instance = r->instance,
                                 .subject = r->subject,
                                 .meter = r->meter,
                                 .price = price,
                                 .year = month.year,
                                 .month = month.month,
                                 .from_s = at_s,
                                 .to_s = at_s,
                                 .simulated = r->simulated};
    memcpy(ret_w->id, id, sizeof(id));
    (void)str_copy(ret_w->sku, sizeof(ret_w->sku), r->sku);
    return ERR_OK;
}

/* One part of one window and one day. */
static enum err rate_part(const struct books *b, const struct rating *r,
                          const struct price_version *v, int64_t from_s, int64_t to_s, int64_t qty,
                          int64_t day_s, struct refusal *why)
{
    struct window_row w;
    int64_t to, u;
    bool done = false, new;

    TRY(window_load(b, r, v->id, from_s, &w, &new));
    if (__builtin_add_overflow(w.qty, qty, &to))
        return ERR_MONEY_RANGE;
    TRY(rate_delta(&v->rate, w.qty, to, &u));
    w.qty = to;
    TRY(micro_add(w.rated_u, u, &w.rated_u));
    w.lease = r->lease;
    w.from_s = MIN(w.from_s, from_s);
    w.to_s = MAX(w.to_s, to_s);
    TRY(new ? money_window_save(b->store, &w) : money_window_rated(b->store, &w));
    TRY(close_note_late(b, &w, to - qty, u, from_s, to_s));
    if (r->lease.s[0])
        TRY(fund_use(b, r->lease, r->meter, to_s, u, why));
    if (u > 0 && r->spender.s[0])
        TRY(money_scope_day_add(b->store, b->project, r->spender, day_s, u));

    struct span_row span = {.from_s = from_s,
                            .to_s = to_s,
                            .qty_per_s = r->qty_per_s,
                            .qty = qty,
                            .node = r->node,
                            .seq = r->seq};
    memcpy(span.rating_window, w.id, sizeof(span.rating_window));
    (void)str_copy(span.boot, sizeof(span.boot), r->boot);
    if (!r->boot[0])
        TRY(money_span_extend(b->store, &span, &done));
    return done ? ERR_OK : money_span_add(b->store, &span);
}

/* Cut at days, for budgets, and where a voucher ends: what runs up to there is paid with it. */
static enum err rate_days(const struct books *b, const struct rating *r,
                          const struct price_version *v, int64_t from_s, int64_t to_s,
                          struct refusal *why)
{
    while (from_s < to_s) {
        struct period day;
        int64_t end, cut, qty;

        period_day_at(&b->zone, from_s, &day);
        end = MIN(to_s, day.to_s);
        TRY(fund_cut(b, r->lease, from_s, end + 1, &cut));
        end = MIN(end, cut);
        if (__builtin_mul_overflow(end - from_s, r->qty_per_s, &qty))
            return ERR_MONEY_RANGE;
        TRY(rate_part(b, r, v, from_s, end, qty, day.from_s, why));
        if (end == cut && !r->lease.s[0])
            TRY(funds_post_free_at(b, cut, why));
        from_s = end;
    }
    return ERR_OK;
}

static enum err split(const struct books *b, const struct prices *p, const struct rating *r,
                      int64_t from_s, int64_t to_s, struct price_part *ret_parts, size_t max,
                      size_t *ret_n, struct refusal *why)
{
    enum err e =
        price_split(p->v, p->n, MIN(r->started_s, from_s), from_s, to_s, ret_parts, max, ret_n);

    if (e == ERR_PRICE_UNKNOWN)
        return refusef(why, e, "sku", "%s", r->sku);
    TRY(e);
    return price_split_months(&b->zone, ret_parts, max, ret_n);
}

/* The version of the book that binds, or what the renter bid at most. */
static enum err paying(const struct books *b, const struct rating *r, const struct price_version *v,
                       struct price_version *ret_v)
{
    struct price_version bid;

    *ret_v = *v;
    if (!spot_is(r->sku))
        return ERR_OK;
    TRY(spot_bid(b, r->instance, &bid));
    *ret_v = *spot_pays(v, &bid);
    return ERR_OK;
}

#define PARTS_MAX 64
/* By the price book. */
static enum err rate_priced(const struct books *b, const struct rating *r, int64_t from_s,
                            int64_t to_s, struct refusal *why)
{
    AUTO_PRICES struct prices p = {0};
    struct price_part parts[PARTS_MAX];
    size_t n;

    TRY(prices_load(b->store, b->ccy, r->sku, &p, why));
    TRY(split(b, &p, r, from_s, to_s, parts, PARTS_MAX, &n, why));
    for (size_t i = 0; i < n; i++) {
        struct price_version pays;

        TRY(paying(b, r, &p.v[parts[i].version], &pays));
        TRY(rate_days(b, r, &pays, parts[i].from_s, parts[i].to_s, why));
    }
    return ERR_OK;
}

/* At the price of a plan or package. */
static enum err rate_covered(const struct books *b, const struct rating *r, const struct cover *c,
                             struct refusal *why)
{
    const struct price_version v = {.id = c->price, .rate = cover_rate()};
    struct price_part parts[PARTS_MAX] = {{0, c->from_s, c->to_s}};
    size_t n = 1;

    TRY(price_split_months(&b->zone, parts, PARTS_MAX, &n));
    for (size_t i = 0; i < n; i++)
        TRY(rate_days(b, r, &v, parts[i].from_s, parts[i].to_s, why));
    return c->package.s[0]
               ? package_use(b, r->lease, c->package, (c->to_s - c->from_s) * r->qty_per_s, why)
               : ERR_OK;
}

enum err rating_add(const struct books *b, const struct rating *r, int64_t from_s, int64_t to_s,
                    struct refusal *why)
{
    struct cover c[COVERS_MAX];
    size_t n;

    if (from_s >= to_s || r->qty_per_s == 0)
        return ERR_OK;
    if (!r->lease.s[0])
        TRY(funds_post_ended(b, from_s, why));
    TRY(cover_split(b, r, from_s, to_s, c, &n));
    for (size_t i = 0; i < n; i++)
        TRY(c[i].price.s[0] ? rate_covered(b, r, &c[i], why)
                            : rate_priced(b, r, c[i].from_s, c[i].to_s, why));
    return ERR_OK;
}

enum err rating_add_qty(const struct books *b, const struct rating *r, int64_t at_s, int64_t qty,
                        int64_t room_u, struct refusal *why)
{
    AUTO_PRICES struct prices p = {0};
    struct price_part part;
    struct window_row w;
    struct period day;
    bool new;
    size_t n;

    TRY(funds_post_ended(b, at_s, why));
    TRY(prices_load(b->store, b->ccy, r->sku, &p, why));
    TRY(split(b, &p, r, at_s, at_s + 1, &part, 1, &n, why));
    TRY(window_load(b, r, p.v[part.version].id, at_s, &w, &new));
    qty = rate_affordable(&p.v[part.version].rate, w.qty, room_u, qty);
    if (qty == 0)
        return ERR_OK;
    period_day_at(&b->zone, at_s, &day);
    return rate_part(b, r, &p.v[part.version], at_s, at_s + 1, qty, day.from_s, why);
}

enum err rating_price(const struct books *b, const struct rating *r, int64_t at_s,
                      struct id *ret_id, struct rate *ret_r, struct refusal *why)
{
    AUTO_PRICES struct prices p = {0};
    struct price_part part;
    struct cover c[COVERS_MAX];
    size_t n;

    TRY(cover_split(b, r, at_s, at_s + 1, c, &n));
    if (c[0].price.s[0]) {
        *ret_id = c[0].price;
        *ret_r = cover_rate();
        return ERR_OK;
    }
    TRY(prices_load(b->store, b->ccy, r->sku, &p, why));
    TRY(split(b, &p, r, at_s, at_s + 1, &part, 1, &n, why));
    struct price_version pays;

    if (r->instance.s[0])
        TRY(paying(b, r, &p.v[part.version], &pays));
    else
        pays = p.v[part.version];
    *ret_id = pays.id;
    *ret_r = pays.rate;
    return ERR_OK;
}

/* Where the next part of a window begins: after the parts of it that are planned already. */
static enum err plan_from(const struct term_plan *p, const struct window_row *w, int64_t *ret_qty)
{
    *ret_qty = w->qty;
    for (size_t i = 0; i < p->n; i++) {
        const struct term_window *x = &p->w[i];
        int64_t qty;

        if (!str_eq(p->window[i], w->id))
            continue;
        if (__builtin_mul_overflow(x->to_s - x->from_s, x->qty_per_s, &qty) ||
            __builtin_add_overflow(x->qty_from, qty, ret_qty))
            return ERR_MONEY_RANGE;
    }
    return ERR_OK;
}

/* Windows at the price book's prices. */
static enum err plan_priced(const struct books *b, struct term_plan *p, const struct rating *r,
                            int64_t from_s, int64_t to_s, struct refusal *why)
{
    AUTO_PRICES struct prices prices = {0};
    struct price_part parts[PARTS_MAX];
    size_t n;

    TRY(prices_load(b->store, b->ccy, r->sku, &prices, why));
    TRY(split(b, &prices, r, from_s, to_s, parts, PARTS_MAX, &n, why));
    for (size_t i = 0; i < n; i++) {
        struct window_row w;
        bool new;

        if (p->n == PLAN_MAX)
            return refusef(why, ERR_TOO_LARGE, "what", "%s", "the term");
        TRY(window_load(b, r, prices.v[parts[i].version].id, parts[i].from_s, &w, &new));
        TRY(plan_from(p, &w, &w.qty));
        memcpy(p->window[p->n], w.id, sizeof(w.id));
        p->meter[p->n] = r->meter;
        memcpy(p->sku[r->meter], r->sku, sizeof(r->sku));
        p->rates[p->n] = prices.v[parts[i].version].rate;
        p->w[p->n] = (struct term_window){.rate = &p->rates[p->n],
                                          .qty_from = w.qty,
                                          .qty_per_s = r->qty_per_s,
                                          .from_s = parts[i].from_s - p->start_s,
                                          .to_s = parts[i].to_s - p->start_s,
                                          .disk = r->meter == METER_DISK};
        p->n++;
    }
    return ERR_OK;
}

/* A run at the spot price may meet any tick: each second at its most. */
static enum err plan_spot(const struct books *b, struct term_plan *p, const struct rating *r,
                          int64_t from_s, int64_t to_s, struct refusal *why)
{
    struct price_version bid;
    int64_t u;

    if (p->n == PLAN_MAX)
        return refusef(why, ERR_TOO_LARGE, "what", "%s", "the term");
    TRY(spot_bid(b, r->instance, &bid));
    TRY(spot_second_max((struct price_rate){bid.rate.tiers[0].p, bid.rate.d}, r->qty_per_s, &u));
    TRY(rate_flat((struct price_rate){u, 1}, &p->rates[p->n]));
    p->meter[p->n] = r->meter;
    memcpy(p->sku[r->meter], r->sku, sizeof(r->sku));
    p->window[p->n][0] = '\0';
    p->w[p->n] = (struct term_window){.rate = &p->rates[p->n],
                                      .qty_per_s = 1,
                                      .from_s = from_s - p->start_s,
                                      .to_s = to_s - p->start_s};
    p->n++;
    return ERR_OK;
}

enum err plan_add(const struct books *b, struct term_plan *p, const struct rating *r,
                  int64_t from_s, int64_t to_s, struct refusal *why)
{
    struct cover c[COVERS_MAX];
    size_t n;

    if (from_s >= to_s || r->qty_per_s == 0)
        return ERR_OK;
    CHECK(from_s >= p->start_s);
    TRY(cover_split(b, r, from_s, to_s, c, &n));
    for (size_t i = 0; i < n; i++) {
        if (c[i].package.s[0]) {
            CHECK(p->covers < COVERS_MAX); /* cards are one rating of a plan */
            p->cover[p->covers++] = c[i];
        } else if (!c[i].price.s[0]) { /* what is covered costs 0 and needs no hold */
            TRY(spot_is(r->sku) ? plan_spot(b, p, r, c[i].from_s, c[i].to_s, why)
                                : plan_priced(b, p, r, c[i].from_s, c[i].to_s, why));
        }
    }
    return ERR_OK;
}

void rating_of_lease(const struct fund_lease *l, struct rating *ret_r)
{
    *ret_r = (struct rating){.instance = l->instance,
                             .subject = l->instance,
                             .lease = l->lease,
                             .spender = l->lease,
                             .meter = l->meter,
                             .started_s = l->started_s,
                             .qty_per_s = l->qty_per_s,
                             .simulated = l->simulated,
                             .packages = RATING_HELD,
                             .node = l->node};
    (void)str_copy(ret_r->sku, sizeof(ret_r->sku), l->sku);
    if (spot_is(l->sku)) /* a run of its own: a reclaim takes it back whole */
        ret_r->subject = l->lease;
}

bool rating_of_node(const struct fund_lease *l, struct rating *ret_r)
{
    if (!l->exclusive)
        return false;
    rating_of_lease(l, ret_r);
    funds_sku(METER_NODE, l->sku + strlen("gpu."), ret_r->sku);
    ret_r->meter = METER_NODE;
    ret_r->qty_per_s = 1;
    ret_r->packages = RATING_BY_MONEY;
    return true;
}

void rating_of_disk(const struct fund_disk *d, struct rating *ret_r)
{
    *ret_r = (struct rating){.subject = d->disk,
                             .meter = (enum meter)d->meter,
                             .started_s = d->started_s,
                             .qty_per_s = d->size_mib,
                             .simulated = d->simulated,
                             .node = d->node};
    CHECK(d->meter != MONEY_FREE);
    if (d->kind == DISK_SYSTEM)
        ret_r->instance = d->instance;
    if (d->meter == METER_DISK)
        ret_r->lease = ret_r->spender = d->lease;
    funds_sku(ret_r->meter, "", ret_r->sku);
}

void funds_sku(enum meter m, const char *gpu_model, char ret_sku[SKU_SIZE])
{
    static const char *const names[METER_COUNT] = {
        [METER_CPU] = "cpu.seat",
        [METER_DISK] = "disk",
        [METER_DISK_STOPPED] = "disk.stopped",
        [METER_DISK_DETACHED] = "disk.detached",
        [METER_EGRESS] = "egress",
        [METER_INGRESS] = "ingress",
    };
    bool ok;

    CHECK((size_t)m < METER_COUNT);
    if (m == METER_GPU || m == METER_NODE)
        ok = str_printf(ret_sku, SKU_SIZE, m == METER_GPU ? "gpu.%s" : "exclusive.gpu.%s",
                        gpu_model);
    else
        ok = str_copy(ret_sku, SKU_SIZE, names[m]);
    CHECK(ok);
}
