/* op_revenue.c: what the platform earned in a month: of everything that is sold, by kind and
 * currency, as the journal booked it; and of each plan, what is earned and what is still deferred.
 */
#include "app/funds_plan.h"
#include "app/op_money.h"
#include "base/msg.h"
#include "store/rows_revenue.h"

static enum err write_month(struct op *op, const struct plan_row *p, int64_t from_s, int64_t to_s)
{
    struct project project;
    struct currency ccy;
    int64_t before, after;

    TRY(store_project_get(op->store, p->project, &project));
    TRY(currency_get(project.currency, &ccy));
    TRY(plan_earned(p, from_s, &before));
    TRY(plan_earned(p, to_s, &after));
    if (before == after && p->over_s && p->over_s <= from_s)
        return ERR_OK;
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "plan", p->id.s);
    json_str(&op->out, "project", project.name);
    json_str(&op->out, "sku", p->sku);
    json_money(&op->out, "paid", p->paid_u, ccy);
    json_money(&op->out, "earned_before", before, ccy);
    json_money(&op->out, "earned", after - before, ccy);
    json_money(&op->out, "deferred", p->over_s && p->over_s <= to_s ? 0 : p->paid_u - after, ccy);
    json_object_finish(&op->out);
    return ERR_OK;
}

/* ---- everything that is sold ---- */

static const char *sold_meter(const struct revenue_row *r)
{
    switch ((enum meter)r->meter) {
    case METER_GPU:
    case METER_CPU:
        return r->spot ? "spot" : "on-demand";
    case METER_NODE:
        return "exclusive";
    case METER_DISK:
    case METER_DISK_STOPPED:
    case METER_DISK_DETACHED:
        return "disk";
    case METER_EGRESS:
    case METER_INGRESS:
        return "traffic";
    case METER_NONE:
    case METER_COUNT:
        break;
    }
    return r->kind;
}

/* What was sold; else the kind of the transfers: tax, residue, credit note, exchange fee. */
static const char *sold_as(const struct revenue_row *r)
{
    if (str_starts(r->account, "breakage."))
        return "lapsed";
    if (str_eq(r->kind, "tax") || str_eq(r->kind, "residue"))
        return r->kind;
    if (str_eq(r->owner, "pln_"))
        return "plan";
    if (str_eq(r->owner, "pkg_"))
        return "package";
    return sold_meter(r);
}

struct sum {
    const char *name, *currency; /* borrowed */
    int64_t u, count;
};
struct sums {
    struct sum *at; /* owned */
    size_t len, cap;
};

static enum err sum_add(struct sums *l, const char *name, const struct revenue_row *r)
{
    size_t i = 0;

    while (i < l->len && !(str_eq(l->at[i].name, name) && str_eq(l->at[i].currency, r->currency)))
        i++;
    if (i == l->len)
        *vec_push(l) = (struct sum){.name = name, .currency = r->currency};
    l->at[i].count += r->count;
    return micro_add(l->at[i].u, r->u, &l->at[i].u);
}

static enum err write_sums(struct op *op, const char *key, const char *name, const struct sums *l)
{
    json_array_begin(&op->out, key);
    for (size_t i = 0; i < l->len; i++) {
        struct currency ccy;

        TRY(currency_get(l->at[i].currency, &ccy));
        json_object_begin(&op->out, NULL);
        json_str(&op->out, name, l->at[i].name);
        json_money(&op->out, "amount", l->at[i].u, ccy);
        json_i64(&op->out, "transfers", l->at[i].count);
        json_object_finish(&op->out);
    }
    json_array_finish(&op->out);
    return ERR_OK;
}

static enum err write_sold(struct op *op, const struct period *month)
{
    struct sums sold = {0}, accounts = {0}, totals = {0};
    struct revenue_list list = {0};
    enum err e =
        revenue_row_list(op->store, month->from_s * MS_PER_S, month->to_s * MS_PER_S, &list);

    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        e = sum_add(&sold, sold_as(&list.at[i]), &list.at[i]);
        if (e == ERR_OK)
            e = sum_add(&accounts, list.at[i].account, &list.at[i]);
        if (e == ERR_OK)
            e = sum_add(&totals, list.at[i].currency, &list.at[i]);
    }
    if (e == ERR_OK)
        e = write_sums(op, "sold", "kind", &sold);
    if (e == ERR_OK)
        e = write_sums(op, "accounts", "account", &accounts);
    if (e == ERR_OK)
        e = write_sums(op, "totals", "currency", &totals);
    vec_fini(&sold);
    vec_fini(&accounts);
    vec_fini(&totals);
    vec_fini(&list);
    return e;
}

/* Months of the platform's zone; each plan's own books close in its project's zone. */
enum err op_revenue_get(struct op *op)
{
    const char *text = query_arg(op, "month");
    struct plan_list list = {0};
    struct period month;
    struct zone zone;
    char name[16];

    if (!funds_zone(core_config_of(op->core)->zone, &zone))
        return refusef(&op->why, ERR_UNSUPPORTED, "what", "%s", core_config_of(op->core)->zone);
    period_month_at(&zone, op->now / MS_PER_S, &month);
    if (text && (period_parse(&zone, text, &month) != ERR_OK || month.day != 0))
        return people_invalid(op, "month", N_("a month such as 2026-03"));
    period_format(&month, name, sizeof(name));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "month", name);
    TRY(write_sold(op, &month));
    json_array_begin(&op->out, "plans");
    enum err e = plan_row_between(op->store, month.from_s, month.to_s, &list);
    for (size_t i = 0; i < list.len && e == ERR_OK; i++)
        e = write_month(op, &list.at[i], month.from_s, month.to_s);
    vec_fini(&list);
    TRY(e);
    json_array_finish(&op->out);
    json_object_finish(&op->out);
    return ERR_OK;
}
