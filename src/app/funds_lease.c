/* funds_lease.c: terms of a lease: open, renew, ready, stop, settle.
 *
 * At every commit, for every lease that is not settled:
 *   hold >= (rated - posted of its windows) + F over [cursor of each window, paid_until)
 * so evidence can always be paid and money is never short at the end (money.md 1.9). The first part
 * is posted when the hold is replaced; the second is what term_grant plans. Prices known at
 * planning are in the plan; a version set later can only be cheaper before its notice is over. */
#include "app/fund_source.h"
#include "app/funds_spot.h"

#include <stdlib.h>

static int64_t ceil_s(utime_t ms)
{
    int64_t from, to;

    meter_billable(ms, ms, &from, &to);
    return from;
}

enum err refuse_balance(struct refusal *why, struct currency ccy, int64_t need_u, int64_t have_u)
{
    char text[MONEY_TEXT_SIZE + 8];
    enum err e = refuse(why, ERR_BALANCE);

    have_u = MAX(have_u, (int64_t)0);
    money_format_ccy(money_of(MAX(need_u - have_u, (int64_t)0), ccy), text, sizeof(text));
    refusal_set(why, "short", text);
    money_format_ccy(money_of(need_u, ccy), text, sizeof(text));
    refusal_set(why, "need", text);
    money_format_ccy(money_of(have_u, ccy), text, sizeof(text));
    refusal_set(why, "have", text);
    return e;
}

enum err refuse_budget(struct refusal *why, struct currency ccy, const struct budget_row *b,
                       int64_t left_u, int64_t need_u)
{
    char text[MONEY_TEXT_SIZE + 8];
    enum err e = refusef(why, ERR_BUDGET, "name", "%s", b->name);

    money_format_ccy(money_of(left_u, ccy), text, sizeof(text));
    refusal_set(why, "left", text);
    money_format_ccy(money_of(need_u, ccy), text, sizeof(text));
    refusal_set(why, "need", text);
    return e;
}

enum err available_of(const struct books *b, enum meter meter, const char *sku, int64_t *ret_u)
{
    struct fund_sources s;

    TRY(fund_sources_load(b, NULL, &s, NULL));
    return fund_have(&s, meter, sku, b->now_s, ret_u);
}

enum err lease_plan(const struct books *b, const struct fund_lease *l,
                    enum rating_packages packages, int64_t until_s, struct term_plan *ret_p,
                    struct refusal *why)
{
    struct fund_disk_list disks = {0};
    struct rating r;
    int64_t from = l->ready_ms ? l->billed_s : MAX(l->held_from_s, b->now_s);
    enum err e = money_disk_of_lease(b->store, l->lease, &disks);

    ret_p->n = ret_p->covers = 0;
    ret_p->start_s = MIN(from, until_s);
    for (size_t i = 0; i < disks.len; i++)
        if (disks.at[i].meter == METER_DISK && !disks.at[i].closed)
            ret_p->start_s = MIN(ret_p->start_s, disks.at[i].cursor_s);
    rating_of_lease(l, &r);
    r.packages = packages;
    if (e == ERR_OK) /* nothing is rated past an accepted stop */
        e = plan_add(b, ret_p, &r, from, MIN(until_s, l->stop_ms / MS_PER_S), why);
    if (e == ERR_OK && rating_of_node(l, &r))
        e = plan_add(b, ret_p, &r, from, MIN(until_s, l->stop_ms / MS_PER_S), why);
    for (size_t i = 0; i < disks.len && e == ERR_OK; i++) {
        struct fund_disk d = disks.at[i];
        int64_t disk_from = d.cursor_s;

        if (d.closed)
            continue;
        if (d.meter != METER_DISK) { /* not ready yet: it will run at the price of the lease */
            d.meter = METER_DISK;
            d.started_s = l->started_s;
            disk_from = from;
        }
        rating_of_disk(&d, &r);
        e = plan_add(b, ret_p, &r, disk_from, until_s, why);
    }
    vec_fini(&disks);
    return e;
}

/* What the present hold has not spent. */
enum err lease_hold_rest(const struct books *b, const struct fund_lease *l, int64_t *ret_u)
{
    struct window_list windows = {0};
    int64_t used = 0;
    enum err e = money_window_open_lease(b->store, l->lease, &windows);

    for (size_t i = 0; i < windows.len && e == ERR_OK; i++)
        e = micro_add(used, windows.at[i].rated_u - windows.at[i].posted_u, &used);
    vec_fini(&windows);
    *ret_u = l->hold_u - used;
    return e;
}

/* What can be granted, and who pays it. */
struct grant {
    struct term t;
    struct lease_budgets budgets;
    struct fund_parts parts; /* of the hold */
};

static void grant_fini(struct grant *g)
{
    lease_budgets_fini(&g->budgets);
    vec_fini(&g->parts);
}
#define AUTO_GRANT CLEANUP(grant_fini)

/* The hold of what was granted, from the sources; shorter when they or limit_u do not pay for all
 * of it. */
static enum err grant_fund(const struct books *b, const struct fund_lease *l,
                           const struct term_plan *plan, int64_t limit_u, struct grant *g,
                           struct refusal *why)
{
    struct fund_sources *s = mem_alloc(sizeof(*s));
    int64_t length_s = g->t.length_s;
    enum err e = fund_sources_load(b, l, s, why);

    if (e == ERR_OK)
        e = fund_plan(b, s, plan, limit_u, &length_s, &g->parts);
    free(s);
    TRY(e);
    if (length_s < g->t.length_s) {
        g->t.length_s = length_s;
        g->t.limit = TERM_BY_FUNDS;
    }
    g->t.paid_until_s = plan->start_s + length_s;
    g->t.hold_u = 0;
    for (size_t i = 0; i < g->parts.len; i++)
        TRY(micro_add(g->t.hold_u, g->parts.at[i].amount_u, &g->t.hold_u));
    return ERR_OK;
}

static enum err grant(const struct books *b, const struct fund_lease *l,
                      const struct term_plan *plan, int64_t until_s, struct grant *g,
                      struct refusal *why)
{
    int64_t back, limit_u = INT64_MAX;

    TRY(lease_hold_rest(b, l, &back));
    TRY(budgets_of_lease(b, l, plan, until_s, back, &g->budgets));
    for (size_t i = 0; i < g->budgets.rows.len; i++)
        limit_u = MIN(limit_u, MAX(g->budgets.rest_u[i], (int64_t)0));
    struct term_ask ask = {.windows = plan->w,
                           .window_count = plan->n,
                           .start_s = plan->start_s,
                           .length_s = MAX(until_s - plan->start_s, (int64_t)0),
                           .ends_at_s =
                               l->ends_at == UTIME_NEVER ? INT64_MAX : l->ends_at / MS_PER_S,
                           .available_u = INT64_MAX, /* the sources say below */
                           .budget_rest_u = g->budgets.rest_u,
                           .budget_count = g->budgets.rows.len};

    TRY(term_grant(&ask, &g->t));
    return grant_fund(b, l, plan, limit_u, g, why);
}

/* Why the plan could not be held up to until_s. */
static enum err refuse_term(const struct books *b, const struct fund_lease *l,
                            const struct grant *g, const struct term_plan *plan, int64_t until_s,
                            struct refusal *why)
{
    int64_t need = 0, have = 0;
    size_t i = g->t.budget;

    switch (g->t.limit) {
    case TERM_BY_BUDGET:
        TRY(term_cost(plan->w, plan->n, until_s - plan->start_s, &need));
        return refuse_budget(why, b->ccy, &g->budgets.rows.at[i], budget_rest(&g->budgets.money[i]),
                             need);
    case TERM_BY_FUNDS:
    case TERM_FULL:
        TRY(term_cost(plan->w, plan->n, until_s - plan->start_s, &need));
        TRY(available_of(b, l->meter, l->sku, &have));
        return refuse_balance(why, b->ccy, need, have);
    case TERM_BY_END:
        (void)refusef(why, ERR_VALIDATION, "field", "ends_at");
        refusal_set(why, "why", "is not in the future");
        return ERR_VALIDATION;
    }
    return ERR_INTERNAL;
}

/* Holds up to until_s or as far as ends_at, funds and budgets go. Nothing changes when that is not
 * later than paid_until. */
static enum err lease_extend(const struct books *b, struct fund_lease *l, int64_t until_s,
                             bool first, struct funds_term *ret_term, struct refusal *why)
{
    AUTO_FREE struct term_plan *plan = mem_alloc(sizeof(*plan));
    AUTO_GRANT struct grant g = {0};

    TRY(lease_plan(b, l, RATING_ANEW, until_s, plan, why));
    TRY(grant(b, l, plan, until_s, &g, why));
    ret_term->extended = g.t.paid_until_s > l->paid_until_s;
    ret_term->limit = g.t.limit;
    if (first && !ret_term->extended)
        return refuse_term(b, l, &g, plan, b->now_s + 1, why);
    if (ret_term->extended) {
        TRY(lease_move(b, l, &g.parts, plan, g.t.paid_until_s, why));
        l->paid_until_s = g.t.paid_until_s;
        l->held_from_s = b->now_s;
        TRY(money_lease_save(b->store, l));
    }
    ret_term->paid_until = l->paid_until_s * MS_PER_S;
    ret_term->hold_u = l->hold_u;
    return ERR_OK;
}

enum err lease_rehold(const struct books *b, struct fund_lease *l, const struct term_plan *plan,
                      struct refusal *why)
{
    AUTO_GRANT struct grant g = {0};

    TRY(grant(b, l, plan, l->paid_until_s, &g, why));
    if (g.t.paid_until_s < l->paid_until_s && g.t.limit != TERM_BY_END)
        return refuse_term(b, l, &g, plan, l->paid_until_s, why);
    if (g.t.paid_until_s < l->paid_until_s) { /* its end moved, but so far it may still run */
        g.t.length_s = l->paid_until_s - plan->start_s;
        TRY(grant_fund(b, l, plan, INT64_MAX, &g, why));
        if (g.t.paid_until_s < l->paid_until_s)
            return refuse_term(b, l, &g, plan, l->paid_until_s, why);
    }
    TRY(lease_move(b, l, &g.parts, plan, l->paid_until_s, why));
    l->held_from_s = b->now_s;
    return money_lease_save(b->store, l);
}

static enum err disk_join(const struct books *b, const struct funds_lease *l,
                          const struct funds_disk *d, struct refusal *why)
{
    struct fund_disk row;
    enum err e = money_disk_get(b->store, d->id, &row);

    if (e == ERR_NOT_FOUND)
        row = (struct fund_disk){.disk = d->id,
                                 .project = b->project,
                                 .kind = d->kind,
                                 .meter = MONEY_FREE,
                                 .started_s = b->now_s,
                                 .cursor_s = b->now_s};
    else
        TRY(e);
    if (row.lease.s[0])
        return refusef(why, ERR_INTERNAL, "why", "disk %s belongs to lease %s", d->id.s,
                       row.lease.s);
    if (row.meter != MONEY_FREE && row.kind == DISK_SYSTEM)
        TRY(disk_advance(b, NULL, &row, b->now_s, true, why));
    row.instance = l->instance;
    row.node = l->node;
    row.lease = l->lease;
    row.size_mib = d->size_mib;
    row.simulated = l->simulated;
    row.closed = false;
    row.before = row.meter;
    if (row.kind == DISK_SYSTEM)
        row.meter = MONEY_FREE; /* preparing is free */
    return money_disk_save(b->store, &row);
}

enum err funds_lease_open(struct store *s, utime_t now, int64_t term_s, const struct funds_lease *l,
                          struct funds_term *ret_term, struct refusal *why)
{
    struct books b;
    struct fund_lease row;

    TRY(books_open(s, now, l->project, &b, why));
    if (money_lease_of_instance(s, l->instance, &row) == ERR_OK && !row.settled)
        return refusef(why, ERR_INTERNAL, "why", "lease %s of the instance is not settled",
                       row.lease.s);
    row = (struct fund_lease){.lease = l->lease,
                              .project = l->project,
                              .instance = l->instance,
                              .node = l->node,
                              .epoch = l->epoch,
                              .simulated = l->simulated,
                              .started_s = b.now_s,
                              .held_from_s = b.now_s,
                              .stop_ms = UTIME_NEVER,
                              .ends_at = l->ends_at,
                              .paid_until_s = b.now_s};
    row.exclusive = l->shape.exclusive;
    row.meter = l->shape.gpu_count > 0 ? METER_GPU : METER_CPU;
    row.qty_per_s = l->shape.gpu_count > 0 ? l->shape.gpu_count : (l->shape.cpu_milli + 999) / 1000;
    funds_sku(row.meter, l->shape.gpu_model, row.sku);
    if (l->spot && row.meter == METER_GPU)
        spot_sku(row.sku);
    TRY(money_lease_save(s, &row));
    TRY(lease_scopes_save(s, l));
    for (int32_t i = 0; i < l->disk_count; i++)
        TRY(disk_join(&b, l, &l->disks[i], why));
    return lease_extend(&b, &row, b.now_s + term_s, true, ret_term, why);
}

enum err funds_lease_renew(struct store *s, utime_t now, int64_t term_s, struct id lease,
                           struct funds_term *ret_term, struct refusal *why)
{
    struct fund_lease l;
    struct books b;

    TRY(money_lease_get(s, lease, &l));
    TRY(books_open(s, now, l.project, &b, why));
    *ret_term = (struct funds_term){.paid_until = l.paid_until_s * MS_PER_S, .hold_u = l.hold_u};
    if (l.settled || l.stop_ms != UTIME_NEVER || b.now_s >= l.paid_until_s)
        return ERR_OK;
    return lease_extend(&b, &l, b.now_s + term_s, false, ret_term, why);
}

enum err funds_lease_end_set(struct store *s, struct id lease, utime_t ends_at)
{
    struct fund_lease l;

    TRY(money_lease_get(s, lease, &l));
    l.ends_at = ends_at;
    return money_lease_save(s, &l);
}

enum err funds_lease_ready(struct store *s, struct id lease, utime_t ready_ms)
{
    struct fund_disk_list disks = {0};
    struct fund_lease l;
    struct refusal why;
    struct books b;

    TRY(money_lease_get(s, lease, &l));
    if (l.ready_ms || l.settled)
        return ERR_OK;
    TRY(books_open(s, ready_ms, l.project, &b, &why));
    /* what the hold does not cover is not charged: it was made later than the guest was reachable
     */
    l.ready_ms = MAX(ready_ms, l.held_from_s * MS_PER_S);
    l.cursor_ms = l.ready_ms;
    l.billed_s = ceil_s(l.ready_ms);
    TRY(money_lease_save(s, &l));
    enum err e = money_disk_of_lease(s, lease, &disks);
    for (size_t i = 0; i < disks.len && e == ERR_OK; i++) {
        struct fund_disk *d = &disks.at[i];

        if (d->closed)
            continue;
        e = disk_advance(&b, &l, d, l.billed_s, true, &why);
        d->meter = METER_DISK;
        d->started_s = l.started_s;
        d->cursor_s = MAX(d->cursor_s, l.billed_s);
        if (e == ERR_OK)
            e = money_disk_save(s, d);
    }
    vec_fini(&disks);
    return e;
}

enum err funds_lease_stop(struct store *s, struct id lease, utime_t stop_ms)
{
    struct fund_lease l;

    TRY(money_lease_get(s, lease, &l));
    if (l.settled || stop_ms >= l.stop_ms)
        return ERR_OK;
    l.stop_ms = MAX(stop_ms, l.ready_ms ? l.billed_s * MS_PER_S : 0);
    return money_lease_save(s, &l);
}

/* The lease is over for its disks: rated to the end, then at the price of their new state. */
static enum err disk_leave(const struct books *b, const struct fund_lease *l, struct fund_disk *d,
                           int64_t end_s, bool by_platform, struct refusal *why)
{
    bool ran = l->ready_ms != 0;

    if (!d->closed && d->meter == METER_DISK)
        TRY(disk_advance(b, l, d, MIN(end_s, l->paid_until_s), true, why));
    if (!d->closed) {
        int64_t at = MAX(d->cursor_s, end_s);

        enum meter m;

        if (ran)
            d->meter = meter_for_disk(INSTANCE_STOPPED, d->kind, by_platform, &m) ? (int32_t)m
                                                                                  : MONEY_FREE;
        else if (d->kind == DISK_SYSTEM)
            d->meter = d->before;
        if (ran || d->kind == DISK_SYSTEM) {
            d->started_s = at;
            d->cursor_s = at;
        }
    }
    d->lease = (struct id){0};
    return money_disk_save(b->store, d);
}

enum err funds_lease_settle(struct store *s, utime_t now, struct id lease, utime_t end_ms,
                            bool by_platform, struct refusal *why)
{
    struct slice_list parked = {0};
    struct fund_disk_list disks = {0};
    struct fund_lease l;
    struct books b;
    enum err e;

    TRY(money_lease_get(s, lease, &l));
    if (l.settled)
        return ERR_OK;
    TRY(books_open(s, now, l.project, &b, why));
    if (end_ms < l.stop_ms)
        l.stop_ms = MAX(end_ms, l.ready_ms ? l.billed_s * MS_PER_S : 0);
    e = money_slice_parked(s, lease, &parked);
    for (size_t i = 0; i < parked.len && e == ERR_OK; i++) {
        const struct slice_row *r = &parked.at[i];

        e = slice_take(&b, &l, r, why);
        if (e == ERR_OK)
            e = money_slice_done(s, r->node, r->boot, r->seq);
    }
    if (e == ERR_OK)
        e = money_disk_of_lease(s, lease, &disks);
    for (size_t i = 0; i < disks.len && e == ERR_OK; i++)
        e = disk_leave(&b, &l, &disks.at[i], end_ms / MS_PER_S, by_platform, why);
    if (e == ERR_OK)
        e = lease_move(&b, &l, NULL, NULL, 0, why);
    l.settled = true;
    if (e == ERR_OK)
        e = money_lease_save(s, &l);
    if (e == ERR_OK)
        e = spot_settle(&b, &l, why);
    if (e == ERR_OK)
        e = funds_post_free(&b, why);
    vec_fini(&parked);
    vec_fini(&disks);
    return e;
}
