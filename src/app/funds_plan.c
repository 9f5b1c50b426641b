#include "app/funds_plan.h"

#include <stdlib.h>

#include "app/fund_source.h"
#include "app/funds_package.h"
#include "base/units.h"

/* ---- what is covered ---- */

struct rate cover_rate(void)
{
    struct rate r;
    enum err e = rate_flat((struct price_rate){0, 1}, &r);

    CHECK(e == ERR_OK);
    return r;
}

static enum err cover_add(struct cover *c, size_t *n, int64_t from_s, int64_t to_s, struct id price)
{
    if (from_s >= to_s)
        return ERR_OK;
    if (*n == COVERS_MAX)
        return ERR_TOO_LARGE;
    c[(*n)++] = (struct cover){.from_s = from_s, .to_s = to_s, .price = price};
    return ERR_OK;
}

enum err cover_split(const struct books *b, const struct rating *r, int64_t from_s, int64_t to_s,
                     struct cover ret_c[COVERS_MAX], size_t *ret_n)
{
    AUTO_FREE struct package_sources *x = mem_alloc(sizeof(*x));
    struct plan_list plans = {0};
    size_t n = 0;
    enum err e = package_load(b, r, x);

    if (e == ERR_OK && r->meter == METER_GPU && r->instance.s[0])
        e = plan_row_cover(b->store, r->instance, from_s, to_s, &plans);
    for (size_t i = 0; i < plans.len && e == ERR_OK; i++) {
        const struct plan_row *p = &plans.at[i];
        int64_t begin = MAX(p->start_s, from_s);
        int64_t end = MIN(p->over_s ? p->over_s : p->end_s, to_s);

        if (!str_eq(p->sku, r->sku) || p->cards < r->qty_per_s || begin >= end)
            continue;
        e = package_split(x, r->qty_per_s, from_s, begin, ret_c, &n);
        if (e == ERR_OK)
            e = cover_add(ret_c, &n, begin, end, p->price);
        from_s = MAX(from_s, end);
    }
    vec_fini(&plans);
    if (e == ERR_OK)
        e = package_split(x, r->qty_per_s, from_s, to_s, ret_c, &n);
    *ret_n = n;
    return e;
}

/* ---- buying ---- */

static enum err offered(const struct books *b, struct plan_row *p, struct refusal *why)
{
    char sku[MONEY_SKU_SIZE];
    struct price_row row;
    struct rate rate;

    if (!plan_sku(plan_of_unit((enum calendar_unit)p->unit), p->sku, sku, sizeof(sku)))
        return refusef(why, ERR_PRICE_UNKNOWN, "sku", "%s", p->sku);
    TRY(funds_price(b->store, b->now, b->ccy, sku, &p->offer, &rate, why));
    TRY(money_price_get(b->store, p->offer, &row));
    p->policy = row.policy;
    p->fee_pct = row.fee_pct;
    return rate_total(&rate, p->cards, &p->paid_u);
}

/* The on-demand price of a clawback is that of the second it was bought. */
static enum err ondemand(const struct books *b, struct plan_row *p, struct refusal *why)
{
    struct rate rate;

    if (p->policy != PLAN_CLAWBACK)
        return ERR_OK;
    return funds_price(b->store, b->now, b->ccy, p->sku, &p->ondemand, &rate, why);
}

static enum err free_of_plans(const struct books *b, const struct plan_row *p, struct refusal *why)
{
    struct plan_list plans = {0};
    enum err e = plan_row_cover(b->store, p->instance, p->start_s, p->end_s, &plans);

    if (e == ERR_OK && plans.len > 0) {
        char until[40];

        time_format(plans.at[plans.len - 1].end_s * MS_PER_S, until, sizeof(until));
        e = refusef(why, ERR_PLAN_COVERED, "plan", "%s", plans.at[plans.len - 1].id.s);
        refusal_set(why, "until", until);
    }
    vec_fini(&plans);
    return e;
}

enum err plan_quote(const struct books *b, const struct plan_ask *ask, struct plan_row *ret_p,
                    struct refusal *why)
{
    struct plan_row p = {.id = ask->id,
                         .project = b->project,
                         .instance = ask->instance,
                         .cards = ask->cards,
                         .unit = (int32_t)ask->unit,
                         .anchor_s = b->now_s,
                         .term = 1,
                         .start_s = b->now_s,
                         .end_s = calendar_plan_end(&b->zone, b->now_s, ask->unit, 1),
                         .price = ask->price,
                         .renew = ask->renew,
                         .go_on = ask->go_on,
                         .bought_at = b->now};

    funds_sku(METER_GPU, ask->gpu, p.sku);
    TRY(offered(b, &p, why));
    TRY(ondemand(b, &p, why));
    TRY(free_of_plans(b, &p, why));
    *ret_p = p;
    return ERR_OK;
}

/* A price version of its own, so that its seconds are windows like any other. No unit: nobody set
 * it, and no list shows it. */
static enum err cover_price(const struct books *b, const struct plan_row *p)
{
    struct price_row row = {
        .id = p->price, .d = 1, .valid_from_s = p->start_s, .announced_s = p->start_s};
    bool ok = str_printf(row.sku, sizeof(row.sku), "plan.%s", p->id.s) &&
              str_copy(row.currency, sizeof(row.currency), b->ccy.code);

    CHECK(ok);
    return money_price_add(b->store, &row);
}

enum err plan_open(const struct books *b, const struct plan_ask *ask, struct plan_row *ret_p,
                   struct refusal *why)
{
    TRY(plan_quote(b, ask, ret_p, why));
    TRY(cover_price(b, ret_p));
    return plan_row_save(b->store, ret_p);
}

/* u more (or less) of it, on the day it was bought. */
static enum err budget_count(const struct books *b, const struct plan_row *p, int64_t u)
{
    struct period day;

    period_day_at(&b->zone, p->bought_at / MS_PER_S, &day);
    return u == 0 ? ERR_OK : money_scope_day_add(b->store, b->project, p->id, day.from_s, u);
}

/* The budgets of those whose money it is have room for it, and count it. */
static enum err budget_take(const struct books *b, const struct plan_row *p,
                            const struct funds_spender *spender, struct refusal *why)
{
    struct funds_lease scopes = {.lease = p->id, .spender = *spender};

    TRY(budget_room(b, spender, p->paid_u, why));
    TRY(lease_scopes_save(b->store, &scopes));
    return budget_count(b, p, p->paid_u);
}

static void deferred_id(const struct plan_row *p, char ret_id[LEDGER_KEY_SIZE])
{
    account_id(ret_id, "deferred", p->id.s);
}

enum err plan_pay(const struct books *b, const struct plan_row *p,
                  const struct funds_spender *spender, struct refusal *why)
{
    struct fund_purchase buy = {
        .id = p->id, .meter = METER_GPU, .sku = p->sku, .amount_u = p->paid_u};
    char account[LEDGER_KEY_SIZE];
    struct fund_split split;

    TRY(budget_take(b, p, spender, why));
    deferred_id(p, account);
    buy.account = account;
    return fund_pay(b, &buy, &split, why);
}

enum err plan_rehold(const struct books *b, struct id instance, struct refusal *why)
{
    struct term_plan *plan = NULL;
    struct fund_lease l;
    enum err e = money_lease_of_instance(b->store, instance, &l);

    if (e == ERR_NOT_FOUND || (e == ERR_OK && (l.settled || l.paid_until_s <= b->now_s)))
        return ERR_OK;
    TRY(e);
    plan = mem_alloc(sizeof(*plan));
    e = lease_plan(b, &l, RATING_ANEW, l.paid_until_s, plan, why);
    if (e == ERR_OK)
        e = lease_rehold(b, &l, plan, why);
    free(plan);
    return e;
}

enum err plan_renew(const struct books *b, struct plan_row *p, struct id id, struct id price,
                    const struct funds_spender *spender, struct plan_row *ret_next,
                    struct refusal *why)
{
    struct plan_row next = *p;

    next.id = id;
    next.price = price;
    next.before = p->id;
    next.term++;
    next.start_s = p->end_s;
    next.end_s = calendar_plan_end(&b->zone, p->anchor_s, (enum calendar_unit)p->unit, next.term);
    next.recognised_u = next.refunded_u = 0;
    next.renew_told = false;
    next.bought_at = b->now;
    TRY(offered(b, &next, why));
    TRY(ondemand(b, &next, why));
    TRY(free_of_plans(b, &next, why));
    TRY(cover_price(b, &next));
    TRY(plan_row_save(b->store, &next));
    TRY(plan_rehold(b, next.instance, why));
    TRY(plan_pay(b, &next, spender, why));
    p->renew = false; /* done */
    TRY(plan_row_save(b->store, p));
    *ret_next = next;
    return ERR_OK;
}

/* ---- what is earned, what is given back ---- */

enum err plan_earned(const struct plan_row *p, int64_t at_s, int64_t *ret_u)
{
    if (p->over_s && at_s >= p->over_s) {
        *ret_u = p->paid_u - p->refunded_u;
        return ERR_OK;
    }
    if (at_s >= p->end_s) {
        *ret_u = p->paid_u;
        return ERR_OK;
    }
    return refund_recognised(p->paid_u, p->start_s, p->end_s, MAX(at_s, p->start_s), ret_u);
}

/* Moves revenue so that earned_u is in the books, effective at a second. */
static enum err recognise_to(const struct books *b, struct plan_row *p, int64_t earned_u,
                             int64_t at_s, struct refusal *why)
{
    bool up = earned_u >= p->recognised_u;
    struct ledger_transfer t = transfer_of(b, p->id.s, up ? "recognise" : "reversal");
    char deferred[LEDGER_KEY_SIZE], revenue[LEDGER_KEY_SIZE];
    bool ok;

    if (earned_u == p->recognised_u)
        return ERR_OK;
    deferred_id(p, deferred);
    account_id(revenue, "revenue.compute", b->ccy.code);
    memcpy(t.dr, up ? deferred : revenue, sizeof(t.dr));
    memcpy(t.cr, up ? revenue : deferred, sizeof(t.cr));
    ok = str_printf(t.id, sizeof(t.id), "rec.%s.%" PRId64 ".%" PRId64, p->id.s, at_s, earned_u) &&
         str_copy(t.owner, sizeof(t.owner), p->id.s);
    CHECK(ok);
    t.effective_ms = at_s * MS_PER_S;
    t.amount = up ? earned_u - p->recognised_u : p->recognised_u - earned_u;
    TRY(ledger_post(b, &t, 1, why));
    p->recognised_u = earned_u;
    return ERR_OK;
}

enum err plan_recognise(const struct books *b, struct plan_row *p, struct refusal *why)
{
    struct period month;
    int64_t at, earned;

    period_month_at(&b->zone, b->now_s, &month);
    at = b->now_s >= p->end_s ? p->end_s : month.from_s;
    if (at <= p->start_s)
        return ERR_OK;
    TRY(plan_earned(p, at, &earned));
    if (earned > p->recognised_u)
        TRY(recognise_to(b, p, earned, at, why));
    if (b->now_s >= p->end_s) {
        p->state = PLAN_OVER;
        p->over_s = p->end_s;
    }
    return plan_row_save(b->store, p);
}

static enum err consumed_at(const struct books *b, const struct plan_row *p, int64_t at_s,
                            int64_t *ret_u)
{
    struct plan_term t = {.start_s = p->start_s,
                          .end_s = p->end_s,
                          .cards = p->cards,
                          .paid_u = p->paid_u,
                          .policy = (enum plan_policy)p->policy,
                          .fee_pct = p->fee_pct};
    struct price_row row;
    struct rate rate;

    if (p->ondemand.s[0]) {
        TRY(money_price_get(b->store, p->ondemand, &row));
        TRY(price_row_rate(&row, &rate));
        t.ondemand = &rate;
    }
    return plan_consumed(&t, at_s, ret_u);
}

enum err plan_used(const struct books *b, const struct plan_row *p, int64_t *ret_u)
{
    if (p->state == PLAN_RUNS)
        return consumed_at(b, p, b->now_s, ret_u);
    *ret_u = p->paid_u - p->refunded_u;
    return ERR_OK;
}

static enum err give_back(const struct books *b, const struct plan_row *p, int64_t consumed_u,
                          struct plan_back *ret_back, struct refusal *why)
{
    struct fund_back back;

    TRY(fund_refund(b, p->id, consumed_u, &back, why));
    *ret_back = (struct plan_back){.consumed_u = consumed_u, .lapsed_u = back.lapsed_u};
    ret_back->refund_u = p->paid_u - consumed_u - back.lapsed_u;
    return ERR_OK;
}

enum err plan_release(const struct books *b, struct plan_row *p, bool whole,
                      struct plan_back *ret_back, struct refusal *why)
{
    int64_t consumed = 0, at = MAX(MIN(b->now_s, p->end_s), p->start_s);

    CHECK(p->state == PLAN_RUNS);
    if (!whole)
        TRY(consumed_at(b, p, at, &consumed));
    TRY(recognise_to(b, p, consumed, at, why));
    TRY(give_back(b, p, consumed, ret_back, why));
    TRY(budget_count(b, p, -ret_back->refund_u));
    p->refunded_u = p->paid_u - consumed;
    p->state = PLAN_RELEASED;
    p->over_s = whole ? p->start_s : at;
    p->renew = false;
    TRY(plan_row_save(b->store, p));
    return plan_rehold(b, p->instance, why);
}
