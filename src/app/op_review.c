/* op_review.c: what a month was used for, what stood idle, where it goes, and what a plan would
 * have cost; all from the account's own usage and prices. */
#include <stdlib.h>

#include "app/op_money.h"
#include "app/usage_cost.h"
#include "base/msg.h"
#include "domain/idle.h"
#include "domain/plan.h"
#include "store/rows_review.h"

#define PAST_MONTHS 3
#define STEADY_PCT 120 /* the busiest of them at most this much of the quietest */

struct used {
    struct period month;
    int64_t total_u, gpu_u, idle_u; /* idle_u: part of gpu_u under the idle load */
    int64_t card_s, idle_s;
};

static enum err add_use(void *arg, const struct usage_cost *c)
{
    struct used *x = arg;

    TRY(micro_add(x->total_u, c->u, &x->total_u));
    if (c->window->meter != METER_GPU)
        return ERR_OK;
    TRY(micro_add(x->gpu_u, c->u, &x->gpu_u));
    x->card_s += c->qty;
    if (c->gpu_util_pct < 0 || c->gpu_util_pct >= IDLE_GPU_PCT)
        return ERR_OK;
    x->idle_s += c->qty;
    return micro_add(x->idle_u, c->u, &x->idle_u);
}

static enum err used_load(const struct books *b, const struct period *month, struct used *ret_x)
{
    *ret_x = (struct used){.month = *month};
    return usage_cost_month(b, month->year, month->month, add_use, ret_x);
}

static void write_used(struct op *op, const char *key, const struct books *b, const struct used *x)
{
    char text[16];

    period_format(&x->month, text, sizeof(text));
    json_object_begin(&op->out, key);
    json_str(&op->out, "month", text);
    json_money(&op->out, "total", x->total_u, b->ccy);
    json_money(&op->out, "gpu", x->gpu_u, b->ccy);
    json_i64(&op->out, "card_seconds", x->card_s);
    json_i64(&op->out, "idle_card_seconds", x->idle_s);
    json_money(&op->out, "idle_cost", x->idle_u, b->ccy);
    json_object_finish(&op->out);
}

/* What it comes to when what runs now goes on to the end of the month. */
static enum err forecast(struct op *op, const struct books *b, const struct used *x, int64_t *ret_u)
{
    struct funds_wallet w;
    int64_t left_s = x->month.to_s - b->now_s;

    *ret_u = x->total_u;
    if (left_s <= 0 || b->now_s < x->month.from_s)
        return ERR_OK;
    TRY(funds_wallet(op->store, op->now, b->project, &w, &op->why));
    __int128 more = (__int128)w.burn_hour_u * left_s / 3600;
    if (more > INT64_MAX)
        return ERR_MONEY_RANGE;
    return micro_add(x->total_u, (int64_t)more, ret_u);
}

/* Three full months with cards in each, none much busier than another. */
static bool is_steady(const struct used *past)
{
    int64_t least = INT64_MAX, most = 0;

    for (size_t i = 0; i < PAST_MONTHS; i++) {
        least = MIN(least, past[i].card_s);
        most = MAX(most, past[i].card_s);
    }
    return least > 0 && (__int128)most * 100 <= (__int128)least * STEADY_PCT;
}

/* What a month would have cost when every instance that is dearer than a monthly plan had one. */
static enum err plan_month(struct op *op, const struct books *b, const struct period *month,
                           int64_t *ret_paid_u, int64_t *ret_plan_u, int64_t *ret_plans)
{
    struct review_instance_list list = {0};
    enum err e = review_instance_list(op->store, b->project, month->year, month->month, &list);

    *ret_paid_u = *ret_plan_u = *ret_plans = 0;
    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        const struct review_instance *x = &list.at[i];
        struct refusal none = {0};
        char sku[MONEY_SKU_SIZE];
        int64_t unit_u = 0, best = x->paid_u, price;

        bool offered = plan_sku(PLAN_MONTH, x->sku, sku, sizeof(sku)) &&
                       funds_price_unit(op->store, op->now, b->ccy, sku, &unit_u, &none) == ERR_OK;
        if (offered && !__builtin_mul_overflow(unit_u, x->cards, &price) && price < best) {
            best = price;
            *ret_plans += x->cards;
        }
        e = micro_add(*ret_paid_u, x->paid_u, ret_paid_u);
        if (e == ERR_OK)
            e = micro_add(*ret_plan_u, best, ret_plan_u);
    }
    vec_fini(&list);
    return e;
}

/* Of the months together; only when it would have paid in each of them. */
static enum err write_plan(struct op *op, const struct books *b, const struct used *past,
                           bool steady)
{
    int64_t paid = 0, would = 0, cards = INT64_MAX;
    bool pays = steady;

    for (size_t i = 0; i < PAST_MONTHS && pays; i++) {
        int64_t paid_u, plan_u, plans;

        TRY(plan_month(op, b, &past[i].month, &paid_u, &plan_u, &plans));
        pays = plan_u < paid_u;
        cards = MIN(cards, plans);
        TRY(micro_add(paid, paid_u, &paid));
        TRY(micro_add(would, plan_u, &would));
    }
    if (!pays) {
        json_none(&op->out, "plan");
        return ERR_OK;
    }
    json_object_begin(&op->out, "plan");
    json_i64(&op->out, "cards", cards);
    json_money(&op->out, "paid", paid, b->ccy);
    json_money(&op->out, "would_have_cost", would, b->ccy);
    json_money(&op->out, "saves", paid - would, b->ccy);
    json_object_finish(&op->out);
    return ERR_OK;
}

static enum err past_load(const struct books *b, const struct period *month, struct used *ret_past)
{
    struct period at = *month;

    for (size_t i = PAST_MONTHS; i-- > 0;) {
        period_month_at(&b->zone, at.from_s - 1, &at);
        TRY(used_load(b, &at, &ret_past[i]));
    }
    return ERR_OK;
}

enum err op_review_get(struct op *op)
{
    struct used now, past[PAST_MONTHS];
    struct period month;
    struct project p;
    struct books b;
    int64_t forecast_u;
    bool given;

    TRY(people_try(op, store_project_get(op->store, op->who.project, &p)));
    TRY(books_open(op->store, op->now, p.id, &b, &op->why));
    TRY(month_arg(op, &b, &given, &month));
    TRY(used_load(&b, &month, &now));
    TRY(past_load(&b, &month, past));
    TRY(forecast(op, &b, &now, &forecast_u));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "project", p.name);
    json_str(&op->out, "zone", p.zone);
    write_used(op, "month", &b, &now);
    json_money(&op->out, "forecast", forecast_u, b.ccy);
    json_array_begin(&op->out, "past");
    for (size_t i = 0; i < PAST_MONTHS; i++)
        write_used(op, NULL, &b, &past[i]);
    json_array_finish(&op->out);
    bool steady = is_steady(past);
    json_flag(&op->out, "steady", steady);
    TRY(write_plan(op, &b, past, steady));
    json_object_finish(&op->out);
    return ERR_OK;
}
