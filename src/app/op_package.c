/* op_package.c: resource packages: what can be bought, what there is, buying. */
#include "app/op_package.h"

#include "app/ask.h"
#include "app/op_money.h"
#include "app/op_plan.h"
#include "app/outbox.h"
#include "base/msg.h"
#include "base/units.h"
#include "domain/plan.h"

static const char *state_of(const struct package_row *p, const struct books *b)
{
    if (p->done_at)
        return p->lapsed > 0 ? "over" : "used";
    return b->now_s < p->expires_s ? "open" : "over";
}

/* Null for a package of cards of any model. */
static void write_card(struct op *op, const char *covered)
{
    json_str(&op->out, "gpu", str_eq(covered, "gpu") ? NULL : covered + strlen("gpu."));
}

static enum err write_package(struct op *op, const struct books *b, const struct package_row *p)
{
    struct package_view v;

    TRY(package_look(b, p, &v));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", p->id.s);
    json_str(&op->out, "state", state_of(p, b));
    write_card(op, p->sku);
    json_i64(&op->out, "bought_s", p->seconds);
    json_i64(&op->out, "used_s", v.used);
    json_i64(&op->out, "reserved_s", v.reserved);
    json_i64(&op->out, "left_s", v.left);
    json_i64(&op->out, "lapsed_s", p->lapsed);
    json_time(&op->out, "starts_at", p->start_s * MS_PER_S);
    json_time(&op->out, "lapses_at", p->expires_s * MS_PER_S);
    json_money(&op->out, "paid", p->paid_u, b->ccy);
    json_str(&op->out, "price_version", p->price.s);
    json_object_finish(&op->out);
    return ERR_OK;
}

/* What its hours cost on demand; null: cards of any model have no one price. */
static enum err write_ondemand(struct op *op, const struct books *b,
                               const struct package_terms *terms)
{
    struct rate rate;
    struct id id;
    int64_t u;
    enum err e = funds_price(b->store, b->now, b->ccy, terms->covered, &id, &rate, NULL);

    if (e == ERR_OK) {
        TRY(rate_total(&rate, terms->hours * 3600, &u));
        json_money(&op->out, "ondemand", u, b->ccy);
        return ERR_OK;
    }
    json_none(&op->out, "ondemand");
    return e == ERR_PRICE_UNKNOWN ? ERR_OK : e;
}

static enum err write_offer(struct op *op, const struct books *b, const struct price_row *row)
{
    struct package_terms terms;

    if (!package_sku_parse(row->sku, &terms))
        return ERR_OK;
    json_object_begin(&op->out, NULL);
    write_card(op, terms.covered);
    json_i64(&op->out, "hours", terms.hours);
    json_str(&op->out, "plan", plan_name(plan_of_unit(terms.unit)));
    json_money(&op->out, "price", row->unit_u, b->ccy);
    TRY(write_ondemand(op, b, &terms));
    json_time(&op->out, "lapses_at",
              calendar_plan_end(&b->zone, b->now_s, terms.unit, 1) * MS_PER_S);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err packages_write(struct op *op, const struct books *b)
{
    struct package_list list = {0};

    TRY(offers_write(op, b, "package_offers", write_offer));
    json_array_begin(&op->out, "packages");
    enum err e = package_row_list(op->store, b->project, &list);
    for (size_t i = 0; i < list.len && e == ERR_OK; i++)
        e = write_package(op, b, &list.at[i]);
    vec_fini(&list);
    json_array_finish(&op->out);
    return e;
}

/* ---- buying ---- */

static enum err read_sku(struct op *op, char ret_sku[SKU_SIZE])
{
    const char *unit = people_arg(op, "plan", ""), *gpu = people_arg(op, "gpu", NULL);
    char model[GPU_MODEL_SIZE];
    enum calendar_unit u;
    enum plan plan;
    int64_t hours;

    CHECK(json_get_i64(op->body, "hours", 0, &hours));
    if (hours < 1 || hours > PACKAGE_HOURS_MAX)
        return people_invalid(op, "hours", N_("whole card-hours, from 1 on"));
    if (!plan_unit_find(unit, &plan, &u))
        return people_invalid(op, "plan", N_("day, week, month or year"));
    if (gpu)
        TRY(ask_model(op, gpu, model));
    if (str_printf(ret_sku, SKU_SIZE, "package.%" PRId64 ".%s.gpu%s%s", hours, unit, gpu ? "." : "",
                   gpu ? model : ""))
        return ERR_OK;
    return refusef(&op->why, ERR_PRICE_UNKNOWN, "sku", "%s", model);
}

enum err op_package_buy(struct op *op)
{
    struct package_ask ask = {.id = core_id(op->core, "pkg"),
                              .price = core_id(op->core, "prc"),
                              .spender = {.user = op->who.user}};
    char sku[SKU_SIZE], paid[MONEY_TEXT_SIZE + 8];
    struct package_row p;
    struct books b;

    TRY(read_sku(op, sku));
    ask.sku = sku;
    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    TRY(package_buy(&b, &ask, &p, &op->why));
    TRY(price_seen(op, &b, p.paid_u, 1));
    (void)str_copy(op->object, sizeof(op->object), p.id.s);
    money_format_ccy(money_of(p.paid_u, b.ccy), paid, sizeof(paid));
    TRY(event_emit(op, b.project, (struct id){""}, "package.bought",
                   N_("Package {package} was bought for {paid}."), "{s:s,s:s}", "package", p.id.s,
                   "paid", paid));
    return write_package(op, &b, &p);
}
