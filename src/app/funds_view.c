/* funds_view.c: what is there and what runs; and the minute's upkeep. */
#include "app/fund_source.h"
#include "app/funds_package.h"
#include "app/funds_spot.h"

#include <stdlib.h>

#include "base/msg.h"
#include "base/units.h"

void json_money(struct json_writer *w, const char *key, int64_t u, struct currency ccy)
{
    char text[MONEY_TEXT_SIZE];

    money_format(money_of(u, ccy), text, sizeof(text));
    json_object_begin(w, key);
    json_str(w, "amount", text);
    json_str(w, "currency", ccy.code);
    json_object_finish(w);
}

/* All that burns money of a project now, as windows from zero: rates at this second. */
#define BURN_MAX 512
#define BURN_LOOK_S INT64_C(2592000) /* cards that plans or packages cover so long burn nothing */
struct burn {
    size_t n;
    struct rate rates[BURN_MAX];
    struct term_window w[BURN_MAX];
    bool running; /* some lease is ready and not stopped */
};

static enum err burn_add(const struct books *b, struct burn *x, const struct rating *r,
                         struct refusal *why)
{
    int64_t from_s = b->now_s, horizon = b->now_s + BURN_LOOK_S;
    struct id price;
    struct rating paid = *r;

    if (x->n == BURN_MAX || r->qty_per_s == 0)
        return ERR_OK;
    if (r->meter == METER_GPU)
        TRY(package_reach(b, r, horizon, &from_s));
    if (from_s == horizon)
        return ERR_OK;
    paid.packages = RATING_BY_MONEY;
    enum err e = rating_price(b, &paid, from_s, &price, &x->rates[x->n], why);
    if (e != ERR_OK)
        return e == ERR_PRICE_UNKNOWN ? ERR_OK : e; /* without a price it is free */
    x->w[x->n] = (struct term_window){.rate = &x->rates[x->n],
                                      .qty_per_s = r->qty_per_s,
                                      .from_s = from_s - b->now_s,
                                      .to_s = INT64_MAX};
    x->n++;
    return ERR_OK;
}

static enum err burn_load(const struct books *b, struct burn *x, struct refusal *why)
{
    struct fund_lease_list leases = {0};
    struct fund_disk_list disks = {0};
    struct rating r;
    enum err e = money_lease_open(b->store, b->project, &leases);

    for (size_t i = 0; i < leases.len && e == ERR_OK; i++) {
        const struct fund_lease *l = &leases.at[i];

        if (!l->ready_ms || l->stop_ms <= b->now || l->paid_until_s <= b->now_s)
            continue;
        x->running = true;
        rating_of_lease(l, &r);
        e = burn_add(b, x, &r, why);
        if (e == ERR_OK && rating_of_node(l, &r))
            e = burn_add(b, x, &r, why);
    }
    if (e == ERR_OK)
        e = money_disk_of_project(b->store, b->project, &disks);
    for (size_t i = 0; i < disks.len && e == ERR_OK; i++) {
        if (disks.at[i].meter == MONEY_FREE)
            continue;
        rating_of_disk(&disks.at[i], &r);
        e = burn_add(b, x, &r, why);
    }
    vec_fini(&leases);
    vec_fini(&disks);
    return e;
}

static enum err hour_of(const struct term_window *w, size_t n, int64_t *ret_u)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t u;

        TRY(term_cost(&w[i], 1, 3600, &u));
        TRY(micro_add(sum, u, &sum));
    }
    *ret_u = sum;
    return ERR_OK;
}

/* What packages have left, and when the first of them lapses. */
static enum err packages_left(const struct books *b, struct funds_wallet *w)
{
    struct package_list open = {0};
    enum err e = package_row_open(b->store, b->project, &open);

    for (size_t i = 0; i < open.len && e == ERR_OK; i++) {
        struct package_view v;

        e = package_look(b, &open.at[i], &v);
        if (e != ERR_OK || v.left == 0 || open.at[i].expires_s <= b->now_s)
            continue;
        w->package_s += v.left;
        if (w->package_end_s == 0 || open.at[i].expires_s < w->package_end_s)
            w->package_end_s = open.at[i].expires_s;
    }
    vec_fini(&open);
    return e;
}

static enum err wallet_of(const struct books *b, struct funds_wallet *ret_w, bool *ret_running,
                          struct refusal *why)
{
    AUTO_FREE struct burn *x = mem_alloc(sizeof(*x));
    struct funds_wallet w = {.ccy = b->ccy};
    struct fund_sources s;
    int64_t held = 0, free_u = 0, left;

    TRY(fund_sources_load(b, NULL, &s, why));
    TRY(money_window_unposted(b->store, b->project, &held, &free_u));
    TRY(burn_load(b, x, why));
    TRY(hour_of(x->w, x->n, &w.burn_hour_u));
    /* disk time that is rated and will be posted within the hour is as good as paid */
    w.cash_u = s.cash_u - s.unposted_cash_u;
    w.gift_u = s.gift_u - s.unposted_gift_u;
    w.held_u = s.held_u;
    w.owed_u = s.owed_u + s.unposted_owed_u;
    w.credit_limit_u = s.credit_limit_u;
    w.credit_used_u = s.credit_used_u + s.unposted_credit_u;
    for (size_t i = 0; i < s.f.voucher_count; i++)
        if (s.grants[i].expires_s > b->now_s)
            TRY(micro_add(w.voucher_u, s.grants[i].left_u, &w.voucher_u));
    TRY(fund_have(&s, METER_GPU, NULL, b->now_s, &w.available_u));
    TRY(micro_add(w.available_u, w.held_u, &left));
    w.lasts_s = x->n > 0 ? budget_runway_s(MAX(left - held, (int64_t)0), x->w, x->n) : INT64_MAX;
    TRY(packages_left(b, &w));
    *ret_running = x->running;
    *ret_w = w;
    return ERR_OK;
}

enum err funds_wallet(struct store *s, utime_t now, struct id project, struct funds_wallet *ret_w,
                      struct refusal *why)
{
    struct books b;
    bool running;

    TRY(books_open(s, now, project, &b, why));
    return wallet_of(&b, ret_w, &running, why);
}

enum err funds_spent(struct store *s, struct id instance, int64_t *ret_u)
{
    return money_window_sum_instance(s, instance, ret_u);
}

enum err funds_spent_disk(struct store *s, struct id disk, int64_t *ret_u)
{
    return money_window_sum_subject(s, disk, ret_u);
}

/* µ per hour of a SKU that has been bound since started_s. */
static enum err hour_rate(const struct books *b, enum meter m, const char *model,
                          struct id instance, int64_t started_s, int64_t qty_per_s, int64_t *io_u,
                          struct refusal *why)
{
    struct rating r = {
        .instance = instance, .meter = m, .started_s = started_s, .qty_per_s = qty_per_s};
    struct spot_row spot;
    struct rate rate;
    struct id price;
    int64_t u;

    funds_sku(m, model, r.sku);
    if (m == METER_GPU && spot_row_get(b->store, instance, &spot) == ERR_OK)
        spot_sku(r.sku);
    TRY(rating_price(b, &r, b->now_s, &price, &rate, why));
    TRY(rate_total(&rate, qty_per_s * 3600, &u));
    return micro_add(*io_u, u, io_u);
}

enum err funds_rates(struct store *s, utime_t now, struct id project, struct id instance,
                     const struct shape *shape, const struct funds_disk *disks, size_t disk_count,
                     int64_t *ret_run_hour_u, int64_t *ret_stopped_hour_u, struct refusal *why)
{
    struct fund_lease l;
    struct books b;
    int64_t run = 0, stopped = 0, started;
    bool cards = shape->gpu_count > 0;

    TRY(books_open(s, now, project, &b, why));
    enum err e = money_lease_of_instance(s, instance, &l);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    started = e == ERR_OK && !l.settled ? l.started_s : b.now_s;
    TRY(hour_rate(&b, cards ? METER_GPU : METER_CPU, shape->gpu_model, instance, started,
                  cards ? shape->gpu_count : (shape->cpu_milli + 999) / 1000, &run, why));
    if (shape->exclusive)
        TRY(hour_rate(&b, METER_NODE, shape->gpu_model, (struct id){0}, started, 1, &run, why));
    for (size_t i = 0; i < disk_count; i++) {
        struct fund_disk d = {.started_s = b.now_s};
        enum meter m = disks[i].kind == DISK_SYSTEM ? METER_DISK_STOPPED : METER_DISK_DETACHED;

        e = money_disk_get(s, disks[i].id, &d);
        if (e != ERR_OK && e != ERR_NOT_FOUND)
            return e;
        TRY(hour_rate(&b, METER_DISK, "", (struct id){0}, started, disks[i].size_mib, &run, why));
        TRY(hour_rate(&b, m, "", (struct id){0},
                      e == ERR_OK && d.meter == (int32_t)m ? d.started_s : b.now_s,
                      disks[i].size_mib, &stopped, why));
    }
    *ret_run_hour_u = run;
    *ret_stopped_hour_u = stopped;
    return ERR_OK;
}

enum err funds_disk_rate(struct store *s, utime_t now, struct id disk, int64_t *ret_hour_u)
{
    struct refusal why;
    struct fund_disk d;
    struct books b;
    int64_t u = 0;

    enum err e = money_disk_get(s, disk, &d);
    if (e == ERR_OK && d.meter != MONEY_FREE && !d.closed) {
        TRY(books_open(s, now, d.project, &b, &why));
        TRY(hour_rate(&b, (enum meter)d.meter, "", (struct id){0}, d.started_s, d.size_mib, &u,
                      &why));
    } else if (e != ERR_OK && e != ERR_NOT_FOUND) {
        return e;
    }
    *ret_hour_u = u;
    return ERR_OK;
}

/* ---- upkeep ---- */

/* Hours of the alert that the remaining time has reached; 0: none (money.md 1.7). */
static int32_t alert_of(int64_t lasts_s)
{
    static const int32_t hours[] = {1, 6, 24};

    for (size_t i = 0; i < ARRAY_LEN(hours); i++)
        if (lasts_s <= (int64_t)hours[i] * 3600)
            return hours[i];
    return 0;
}

static enum err alert_project(const struct books *b, struct refusal *why)
{
    struct event ev = {.at = b->now, .project = b->project};
    struct fund_project p;
    struct funds_wallet w;
    char text[MONEY_TEXT_SIZE + 8], lasts[32];
    bool running;

    TRY(wallet_of(b, &w, &running, why));
    TRY(money_project_get(b->store, b->project, &p));
    int32_t alert = running ? alert_of(w.lasts_s) : 0;
    if (alert == p.alert)
        return ERR_OK;
    bool worse = alert != 0 && (p.alert == 0 || alert < p.alert);
    p.alert = alert;
    TRY(money_project_save(b->store, &p));
    if (!worse)
        return ERR_OK;
    money_format_ccy(money_of(w.available_u + w.held_u, b->ccy), text, sizeof(text));
    duration_format(MAX(w.lasts_s, (int64_t)0), lasts, sizeof(lasts));
    bool ok =
        str_copy(ev.kind, sizeof(ev.kind), "wallet.low") &&
        str_copy(ev.text, sizeof(ev.text),
                 N_("The balance of {left} lasts {lasts} at what runs now; then it stops.")) &&
        str_printf(ev.data, sizeof(ev.data), "{\"left\":\"%s\",\"lasts\":\"%s\",\"hours\":\"%d\"}",
                   text, lasts, alert);
    CHECK(ok);
    return store_event_add(b->store, &ev);
}

static enum err expire_holds(struct store *s, utime_t now, struct refusal *why)
{
    struct fund_lease_list leases = {0};
    enum err e = money_lease_open_all(s, &leases);

    for (size_t i = 0; i < leases.len && e == ERR_OK; i++) {
        int64_t until_s = leases.at[i].paid_until_s;

        if (now / MS_PER_S >= until_s + FUNDS_HOLD_KEEP_S)
            e = funds_lease_settle(s, now, leases.at[i].lease, until_s * MS_PER_S, true, why);
    }
    vec_fini(&leases);
    return e;
}

/* I4: the head of the journal's chain at the end of each day goes out with the events, so that a
 * later change of the journal shows. */
static enum err publish_head(struct store *s, utime_t now)
{
    char hash[2 * LEDGER_HASH_SIZE + 1], at[40];
    struct event ev = {.at = now};
    int64_t day, published;
    enum err e = money_day_last(s, now / MS_PER_S / DAY_S, &day, hash);

    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    TRY(store_meta_get_i64(s, "ledger.head_day", 0, &published));
    if (day <= published)
        return ERR_OK;
    time_format(day * DAY_S * MS_PER_S, at, sizeof(at));
    bool ok = str_copy(ev.kind, sizeof(ev.kind), "ledger.head") &&
              str_copy(ev.text, sizeof(ev.text), N_("The journal ends {day} with {hash}.")) &&
              str_printf(ev.data, sizeof(ev.data), "{\"day\":\"%.10s\",\"hash\":\"%s\"}", at, hash);
    CHECK(ok);
    TRY(store_event_add(s, &ev));
    return store_meta_set_i64(s, "ledger.head_day", day);
}

enum err funds_tick(struct store *s, utime_t now, struct refusal *why)
{
    struct id_list open = {0};
    struct project_list projects = {0};
    struct books b;
    enum err e = expire_holds(s, now, why);

    if (e == ERR_OK)
        e = fund_lapse(s, now, why);
    if (e == ERR_OK)
        e = packages_tick(s, now, why);
    if (e == ERR_OK)
        e = money_window_open_projects(s, &open);
    for (size_t i = 0; i < open.len && e == ERR_OK; i++) {
        struct fund_project p;

        e = money_project_get(s, open.at[i], &p);
        if (e == ERR_OK && now - p.posted_at >= FUNDS_POST_EVERY_S * MS_PER_S)
            e = books_open(s, now, open.at[i], &b, why);
        else
            continue;
        if (e == ERR_OK)
            e = funds_post_free(&b, why);
    }
    if (e == ERR_OK)
        e = store_project_list(s, &projects);
    for (size_t i = 0; i < projects.len && e == ERR_OK; i++) {
        e = books_open(s, now, projects.at[i].id, &b, why);
        if (e == ERR_OK)
            e = alert_project(&b, why);
        if (e == ERR_OK)
            e = budgets_alert(&b);
    }
    vec_fini(&open);
    vec_fini(&projects);
    return e == ERR_OK ? publish_head(s, now) : e;
}
