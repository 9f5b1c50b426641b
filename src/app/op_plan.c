/* op_plan.c: plans that are bought, renewed, left; and what they earn. */
#include "app/op_plan.h"

#include "app/ask.h"
#include "app/funds_spot.h"
#include "app/op_money.h"
#include "app/op_package.h"
#include "app/outbox.h"
#include "app/view.h"
#include "base/log.h"
#include "base/msg.h"
#include "base/units.h"

#define RENEW_BEFORE_S 3600

static bool flag(const struct op *op, const char *name)
{
    bool v = false;

    return json_get_bool(op->body, name, false, &v) && v;
}

/* ---- what it looks like ---- */

static const char *const states[] = {
    [PLAN_RUNS] = "running",
    [PLAN_OVER] = "over",
    [PLAN_RELEASED] = "released",
};

static void write_rule(struct op *op, int32_t policy, int32_t fee_pct)
{
    json_str(&op->out, "refund", plan_policy_name((enum plan_policy)policy));
    json_i64(&op->out, "fee", fee_pct);
}

static enum err write_plan(struct op *op, const struct books *b, const struct plan_row *p)
{
    struct instance *i = mem_alloc(sizeof(*i));
    AUTO_FREE struct instance *owned UNUSED = i;
    enum err e = store_instance_get_any(op->store, p->instance, i);
    int64_t used;

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    TRY(plan_used(b, p, &used));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", p->id.s);
    json_str(&op->out, "state", states[p->state]);
    json_str(&op->out, "plan", plan_name(plan_of_unit((enum calendar_unit)p->unit)));
    json_str(&op->out, "instance", p->instance.s);
    json_str(&op->out, "instance_name", e == ERR_OK ? i->name : NULL);
    json_str(&op->out, "gpu", p->sku + strlen("gpu."));
    json_i64(&op->out, "gpu_count", p->cards);
    json_time(&op->out, "starts_at", p->start_s * MS_PER_S);
    json_time(&op->out, "ends_at", p->end_s * MS_PER_S);
    if (p->over_s)
        json_time(&op->out, "over_at", p->over_s * MS_PER_S);
    else
        json_none(&op->out, "over_at");
    json_i64(&op->out, "term", p->term);
    json_flag(&op->out, "renew", p->renew);
    json_flag(&op->out, "go_on", p->go_on);
    json_money(&op->out, "paid", p->paid_u, b->ccy);
    write_rule(op, p->policy, p->fee_pct);
    json_money(&op->out, "used", used, b->ccy);
    json_money(&op->out, "given_back", p->paid_u - used, b->ccy);
    json_str(&op->out, "price_version", p->price.s);
    json_object_finish(&op->out);
    return ERR_OK;
}

/* What the term costs at the hourly price, for one card; false: it has none. */
static enum err ondemand_of(const struct books *b, const char *sku, int64_t seconds, int64_t *ret_u,
                            bool *ret_there)
{
    struct rate rate;
    struct id id;
    enum err e = funds_price(b->store, b->now, b->ccy, sku, &id, &rate, NULL);

    *ret_there = e == ERR_OK;
    if (e != ERR_OK)
        return e == ERR_PRICE_UNKNOWN ? ERR_OK : e;
    return rate_total(&rate, seconds, ret_u);
}

static enum err write_offer(struct op *op, const struct books *b, const struct price_row *row)
{
    enum calendar_unit unit;
    const char *covered;
    enum plan plan;
    int64_t end, u = 0;
    bool there;

    if (!plan_sku_parse(row->sku, &plan, &covered) ||
        !plan_unit_find(plan_name(plan), &plan, &unit))
        return ERR_OK;
    end = calendar_plan_end(&b->zone, b->now_s, unit, 1);
    TRY(ondemand_of(b, covered, end - b->now_s, &u, &there));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "gpu", covered + strlen("gpu."));
    json_str(&op->out, "plan", plan_name(plan));
    json_money(&op->out, "price", row->unit_u, b->ccy);
    if (there)
        json_money(&op->out, "ondemand", u, b->ccy);
    else
        json_none(&op->out, "ondemand");
    json_time(&op->out, "ends_at", end * MS_PER_S);
    write_rule(op, row->policy, row->fee_pct);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err offers_write(struct op *op, const struct books *b, const char *key, offer_writer *write)
{
    struct price_row_list list = {0};
    enum err e = money_price_list_all(op->store, &list);

    json_array_begin(&op->out, key);
    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        const struct price_row *row = &list.at[i], *next = row + 1;
        bool last = i + 1 == list.len || !str_eq(next->sku, row->sku) ||
                    !str_eq(next->currency, row->currency) || next->valid_from_s > b->now_s;

        if (last && str_eq(row->currency, b->ccy.code) && row->valid_from_s <= b->now_s &&
            row->unit[0])
            e = write(op, b, row);
    }
    vec_fini(&list);
    json_array_finish(&op->out);
    return e;
}

enum err op_plan_list(struct op *op)
{
    struct plan_list list = {0};
    struct id after = {""};
    char pos[CURSOR_POS_SIZE];
    int64_t limit;
    struct books b;

    TRY(cursor_read(op, &limit, pos));
    if (!str_copy(after.s, sizeof(after.s), pos))
        return refuse(&op->why, ERR_CURSOR);
    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    json_object_begin(&op->out, NULL);
    TRY(offers_write(op, &b, "offers", write_offer));
    TRY(packages_write(op, &b));
    json_array_begin(&op->out, "items");
    enum err e = plan_row_list(op->store, b.project, after, limit + 1, &list);
    for (size_t i = 0; i < list.len && i < (size_t)limit && e == ERR_OK; i++)
        e = write_plan(op, &b, &list.at[i]);
    if (e == ERR_OK)
        e = cursor_finish(op, list.len > (size_t)limit ? list.at[limit - 1].id.s : NULL);
    vec_fini(&list);
    TRY(e);
    json_object_finish(&op->out);
    return ERR_OK;
}

/* ---- buying ---- */

enum err price_seen(struct op *op, const struct books *b, int64_t paid_u, int64_t pieces)
{
    char text[MONEY_TEXT_SIZE + 8];
    int64_t seen_u, all_u;

    if (!people_arg(op, "price", NULL))
        return ERR_OK;
    TRY(money_arg(op, "price", b->ccy, &seen_u));
    if (!__builtin_mul_overflow(seen_u, pieces, &all_u) && all_u == paid_u)
        return ERR_OK;
    (void)refuse(&op->why, ERR_OFFER_CHANGED);
    money_format_ccy(money_of(seen_u, b->ccy), text, sizeof(text));
    refusal_set(&op->why, "old", text);
    money_format_ccy(money_of(paid_u / pieces, b->ccy), text, sizeof(text));
    refusal_set(&op->why, "new", text);
    return ERR_OFFER_CHANGED;
}

enum err plan_begin(struct op *op, struct instance *i, struct plan_row *ret_p)
{
    const char *name = people_arg(op, "plan", "");
    struct plan_ask ask = {.id = core_id(op->core, "pln"),
                           .price = core_id(op->core, "prc"),
                           .instance = i->id,
                           .gpu = i->shape.gpu_model,
                           .cards = i->shape.gpu_count,
                           .renew = flag(op, "renew"),
                           .go_on = flag(op, "go_on")};
    enum plan plan;
    struct books b;

    if (!plan_unit_find(name, &plan, &ask.unit))
        return people_invalid(op, "plan", N_("day, week, month or year"));
    if (i->shape.gpu_count == 0 || i->plan == PLAN_SPOT)
        return people_invalid(op, "plan", N_("only cards have plans, and not at the spot price"));
    if (people_arg(op, "for", NULL) || people_arg(op, "until", NULL) || flag(op, "no_end") ||
        flag(op, "queue"))
        return people_invalid(op, "plan",
                              N_("a plan begins now and has its own end: no --for, --until, "
                                 "--no-end or --queue"));
    TRY(books_open(op->store, op->now, i->project, &b, &op->why));
    TRY(plan_open(&b, &ask, ret_p, &op->why));
    TRY(price_seen(op, &b, ret_p->paid_u, ret_p->cards));
    i->plan = plan;
    i->ends_at = ask.go_on ? UTIME_NEVER : ret_p->end_s * MS_PER_S;
    return store_instance_save(op->store, i);
}

enum err spot_begin(struct op *op, struct instance *i)
{
    struct spot_ask ask = {.instance = i->id,
                           .price = core_id(op->core, "prc"),
                           .gpu = i->shape.gpu_model,
                           .free_within_s = core_config_of(op->core)->spot_free_s};
    struct books b;

    if (!flag(op, "spot"))
        return people_invalid(op, "bid", N_("goes with --spot"));
    if (i->shape.gpu_count == 0)
        return people_invalid(op, "spot", N_("only cards have a spot price"));
    if (i->shape.exclusive)
        return people_invalid(op, "exclusive", N_("not at the spot price"));
    if (people_arg(op, "plan", NULL))
        return people_invalid(op, "spot", N_("either a plan or the spot price"));
    TRY(books_open(op->store, op->now, i->project, &b, &op->why));
    if (people_arg(op, "bid", NULL))
        TRY(money_arg(op, "bid", b.ccy, &ask.bid_u));
    TRY(spot_bid_set(&b, &ask, &op->why));
    i->plan = PLAN_SPOT;
    return store_instance_save(op->store, i);
}

enum err plan_settle(struct op *op, const struct instance *i, const struct plan_row *p)
{
    char paid[MONEY_TEXT_SIZE + 8];
    struct funds_spender spender;
    struct books b;

    TRY(books_open(op->store, op->now, p->project, &b, &op->why));
    life_spender(i, &spender);
    TRY(plan_pay(&b, p, &spender, &op->why));
    money_format_ccy(money_of(p->paid_u, b.ccy), paid, sizeof(paid));
    return event_emit(op, i->project, i->id, "plan.bought",
                      N_("Plan {plan} of {name} was bought for {paid}."), "{s:s,s:s,s:s}", "plan",
                      p->id.s, "name", i->name, "paid", paid);
}

enum err plan_refuse_resize(struct op *op, const struct instance *i)
{
    struct plan_list plans = {0};
    int64_t now_s = op->now / MS_PER_S;
    enum err e = plan_row_cover(op->store, i->id, now_s, INT64_MAX, &plans);

    if (e == ERR_OK && plans.len > 0) {
        char until[40];

        time_format(plans.at[0].end_s * MS_PER_S, until, sizeof(until));
        e = refusef(&op->why, ERR_PLAN_COVERED, "plan", "%s", plans.at[0].id.s);
        refusal_set(&op->why, "until", until);
    }
    vec_fini(&plans);
    return e;
}

static enum err answer(struct op *op, struct id plan)
{
    struct plan_row p;
    struct books b;

    TRY(plan_row_get(op->store, plan, &p));
    TRY(books_open(op->store, op->now, p.project, &b, &op->why));
    return write_plan(op, &b, &p);
}

enum err op_plan_convert(struct op *op)
{
    struct plan_row p;
    struct instance i;
    struct books b;

    TRY(store_instance_lookup(op->store, op->who.project, op->path_arg[0], &i, &op->why));
    (void)str_copy(op->object, sizeof(op->object), i.id.s);
    if (!instance_may(&i, INSTANCE_ACT_START)) /* what is stopped may be covered too */
        TRY(instance_allow(&i, INSTANCE_ACT_EXTEND, &op->why));
    TRY(plan_begin(op, &i, &p));
    TRY(books_open(op->store, op->now, i.project, &b, &op->why));
    TRY(plan_rehold(&b, i.id, &op->why));
    TRY(plan_settle(op, &i, &p));
    TRY(life_end_set(op, &i));
    return answer(op, p.id);
}

/* ---- renewing, leaving ---- */

static enum err lookup(struct op *op, struct plan_row *ret_p)
{
    TRY(plan_row_lookup(op->store, op->who.project, op->path_arg[0], ret_p, &op->why));
    (void)str_copy(op->object, sizeof(op->object), ret_p->id.s);
    if (ret_p->state == PLAN_RUNS)
        return ERR_OK;
    (void)refusef(&op->why, ERR_STATE, "name", "%s", ret_p->id.s);
    refusal_set(&op->why, "state", states[ret_p->state]);
    refusal_set(&op->why, "action", op->row->cli);
    refusal_set(&op->why, "actions", "plan convert");
    return ERR_STATE;
}

enum err op_plan_renew(struct op *op)
{
    struct plan_row p;

    TRY(lookup(op, &p));
    p.renew = !flag(op, "off");
    p.renew_told = false;
    TRY(plan_row_save(op->store, &p));
    return answer(op, p.id);
}

enum err op_plan_release(struct op *op)
{
    struct plan_back back;
    struct plan_row p;
    struct instance i;
    struct books b;

    TRY(lookup(op, &p));
    TRY(store_instance_get_any(op->store, p.instance, &i));
    TRY(books_open(op->store, op->now, p.project, &b, &op->why));
    if (!flag(op, "go_on") && instance_may(&i, INSTANCE_ACT_STOP))
        TRY(life_stop(op, &i, END_USER_STOP));
    i.plan = PLAN_ON_DEMAND;
    TRY(store_instance_save(op->store, &i));
    TRY(plan_release(&b, &p, false, &back, &op->why));
    TRY(event_emit(op, p.project, p.instance, "plan.released",
                   N_("Plan {plan} of {name} was left early."), "{s:s,s:s}", "plan", p.id.s, "name",
                   i.name));
    return answer(op, p.id);
}

/* ---- time ---- */

static enum err renew_now(struct op *op, const struct books *b, struct plan_row *p,
                          struct instance *i)
{
    struct funds_spender spender;
    struct plan_row next;

    life_spender(i, &spender);
    TRY(plan_renew(b, p, core_id(op->core, "pln"), core_id(op->core, "prc"), &spender, &next,
                   &op->why));
    if (!next.go_on && i->ends_at != UTIME_NEVER) {
        i->ends_at = MAX(i->ends_at, next.end_s * MS_PER_S);
        TRY(life_end_set(op, i));
    }
    return event_emit(op, p->project, p->instance, "plan.renewed",
                      N_("The plan of {name} was renewed: {plan}."), "{s:s,s:s}", "name", i->name,
                      "plan", next.id.s);
}

/* Tried each minute of the last hour; said once when it cannot be. */
static enum err try_renew(struct op *op, const struct books *b, struct plan_row *p,
                          struct instance *i)
{
    struct plan_row old = *p;
    char text[TEXT_SIZE];

    TRY(store_mark(op->store));
    enum err e = renew_now(op, b, p, i);
    if (e == ERR_OK)
        return store_mark_keep(op->store);
    TRY(store_mark_undo(op->store));
    if (e == ERR_STORE)
        return e;
    *p = old;
    refusal_text(&op->why, LANG_EN, text, sizeof(text));
    op->why = (struct refusal){0};
    if (p->renew_told)
        return ERR_OK;
    p->renew_told = true;
    TRY(plan_row_save(op->store, p));
    return event_emit(op, p->project, p->instance, "plan.not_renewed",
                      N_("The plan of {name} could not be renewed: {why}"), "{s:s,s:s}", "name",
                      i->name, "why", text);
}

/* No term covers the instance any more. */
static enum err plan_left(struct op *op, const struct books *b, struct instance *i)
{
    struct plan_list rest = {0};
    enum err e = plan_row_cover(op->store, i->id, b->now_s, INT64_MAX, &rest);
    bool none = e == ERR_OK && rest.len == 0;

    vec_fini(&rest);
    TRY(e);
    if (!none)
        return ERR_OK;
    i->plan = PLAN_ON_DEMAND;
    return store_instance_save(op->store, i);
}

static enum err plan_tick(struct op *op, struct plan_row *p)
{
    struct plan_back back;
    struct instance i;
    struct books b;
    bool ran;

    TRY(books_open(op->store, op->now, p->project, &b, &op->why));
    TRY(store_instance_get_any(op->store, p->instance, &i));
    TRY(store_instance_ran(op->store, i.id, &ran));
    if (i.state == INSTANCE_FAILED && !ran) {
        TRY(plan_release(&b, p, true, &back, &op->why));
        return event_emit(op, p->project, i.id, "plan.given_back",
                          N_("{name} never ran; plan {plan} was given back whole."), "{s:s,s:s}",
                          "name", i.name, "plan", p->id.s);
    }
    if (p->renew && !instance_is_gone(i.state) && i.state != INSTANCE_RELEASING &&
        b.now_s >= p->end_s - RENEW_BEFORE_S && b.now_s < p->end_s)
        TRY(try_renew(op, &b, p, &i));
    TRY(plan_recognise(&b, p, &op->why));
    if (p->state != PLAN_OVER)
        return ERR_OK;
    TRY(plan_left(op, &b, &i));
    return event_emit(op, p->project, i.id, "plan.ended", N_("Plan {plan} of {name} is over."),
                      "{s:s,s:s}", "plan", p->id.s, "name", i.name);
}

enum err plans_tick(struct op *op)
{
    struct plan_list list = {0};
    enum err e = plan_row_running(op->store, &list);

    for (size_t k = 0; k < list.len && e == ERR_OK; k++) {
        e = store_mark(op->store);
        if (e == ERR_OK)
            e = plan_tick(op, &list.at[k]);
        if (e == ERR_OK) {
            e = store_mark_keep(op->store);
        } else if (e != ERR_STORE) {
            log_warn("tick plan %s: %s", list.at[k].id.s, err_code(e));
            op->why = (struct refusal){0};
            e = store_mark_undo(op->store);
        }
    }
    vec_fini(&list);
    return e;
}
