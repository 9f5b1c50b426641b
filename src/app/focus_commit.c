/* focus_commit.c: plans and packages in the FOCUS export: bought, used, unused. */
#include "app/focus.h"

#include "store/rows_proof.h"

#define PLANS_AT_ONCE 100

static const char *commitment_id(const struct commitment *c)
{
    return c->is_package ? c->package.id.s : c->plan.id.s;
}

/* E of focus.h; at: a second, or card-seconds of a package. */
static enum err earned(const struct commitment *c, int64_t at, int64_t *ret_u)
{
    const struct plan_row *p = &c->plan;

    if (c->is_package)
        return package_earned(c->package.paid_u, c->package.seconds, at, ret_u);
    if (p->over_s && at >= p->over_s) {
        *ret_u = c->kept_u;
        return ERR_OK;
    }
    return refund_recognised(p->paid_u, p->start_s, p->end_s, at, ret_u);
}

static enum err earned_between(const struct commitment *c, int64_t from, int64_t to, int64_t *ret_u)
{
    int64_t a, b;

    TRY(earned(c, from, &a));
    TRY(earned(c, to, &b));
    *ret_u = b - a;
    return ERR_OK;
}

static enum err commitment_get(const struct focus *f, const char *id, struct commitment *ret_c,
                               bool *ret_found)
{
    struct id key = {0};
    int64_t back, paid;
    enum err e = ERR_NOT_FOUND;

    *ret_c = (struct commitment){.is_package = str_starts(id, "pkg_")};
    *ret_found = false;
    if (!str_copy(key.s, sizeof(key.s), id))
        return ERR_OK;
    if (ret_c->is_package)
        e = package_row_get(f->op->store, key, &ret_c->package);
    else if (str_starts(id, "pln_"))
        e = plan_row_get(f->op->store, key, &ret_c->plan);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    TRY(purchase_back(f->op->store, id, &back));
    paid = ret_c->is_package ? ret_c->package.paid_u : ret_c->plan.paid_u;
    TRY(micro_sub(paid, back, &ret_c->kept_u));
    *ret_found = true;
    return ERR_OK;
}

enum err commitment_of_window(const struct focus *f, const struct window_row *w,
                              struct commitment *ret_c, bool *ret_found)
{
    struct price_row row;
    const char *of;

    *ret_found = false;
    if (w->meter != METER_GPU)
        return ERR_OK;
    TRY(money_price_get(f->op->store, w->price, &row));
    of = strchr(row.sku, '.');
    if (!of || (!str_starts(row.sku, "plan.pln_") && !str_starts(row.sku, "package.pkg_")))
        return ERR_OK;
    return commitment_get(f, of + 1, ret_c, ret_found);
}

static void set_commitment(struct focus *f, const struct commitment *c)
{
    const struct plan_row *p = &c->plan;

    SET(f, CommitmentDiscountCategory, "Usage");
    SET(f, CommitmentDiscountId, "%s", commitment_id(c));
    SET(f, CommitmentDiscountType, c->is_package ? "Resource Package" : "Reserved Plan");
    SET(f, CommitmentDiscountUnit, c->is_package ? "Card-Seconds" : "Seconds");
    if (c->is_package)
        SET(f, CommitmentDiscountName, "%" PRId64 " card-hours, %s", c->package.seconds / 3600,
            c->package.sku);
    else
        SET(f, CommitmentDiscountName, "%s, %" PRId64 " x %s",
            plan_name(plan_of_unit((enum calendar_unit)p->unit)), p->cards, p->sku);
}

static void set_status(struct focus *f, const char *status, int64_t quantity, int64_t effective_u)
{
    SET(f, PricingCategory, "Committed");
    SET(f, CommitmentDiscountStatus, "%s", status);
    SET(f, CommitmentDiscountQuantity, "%" PRId64, quantity);
    focus_money(f, f->v[C_EffectiveCost], effective_u);
}

/* What of a package earlier lines used, here and in the months before. */
static enum err used_of(struct focus *f, const struct package_row *p, struct focus_used **ret_u)
{
    for (size_t i = 0; i < f->used.len; i++)
        if (str_eq(f->used.at[i].package.s, p->id.s)) {
            *ret_u = &f->used.at[i];
            return ERR_OK;
        }
    *ret_u = vec_push(&f->used);
    **ret_u = (struct focus_used){.package = p->id};
    return proof_price_used(f->op->store, p->price, f->month.year, f->month.month, &(*ret_u)->qty);
}

enum err commitment_used(struct focus *f, const struct commitment *c, int64_t from_s, int64_t to_s,
                         int64_t qty)
{
    struct focus_used *used;
    int64_t from = from_s, to = to_s, u;

    if (c->is_package) {
        TRY(used_of(f, &c->package, &used));
        from = used->qty;
        to = used->qty += qty;
    }
    TRY(earned_between(c, from, to, &u));
    set_commitment(f, c);
    set_status(f, "Used", to - from, u);
    return ERR_OK;
}

/* What rows of a commitment say that are no usage of an instance. */
static void row_of(struct focus *f, const struct commitment *c, int64_t from_s, int64_t to_s)
{
    focus_row_begin(f);
    set_commitment(f, c);
    SET(f, ServiceCategory, "Compute");
    SET(f, ServiceSubcategory, "Containers");
    SET(f, ServiceName, "GPU Rental");
    SET(f, ResourceId, "%s", commitment_id(c));
    SET(f, ResourceName, "%s", f->v[C_CommitmentDiscountName]);
    SET(f, ResourceType, c->is_package ? "Package" : "Plan");
    focus_time(f->v[C_ChargePeriodStart], from_s);
    focus_time(f->v[C_ChargePeriodEnd], MAX(to_s, from_s + 1));
}

/* quantity below 0: what was called unused and was used, as is known now. */
static void unused_row(struct focus *f, const struct commitment *c, int64_t from_s, int64_t to_s,
                       int64_t quantity, int64_t effective_u)
{
    bool back = quantity < 0;
    int64_t cards = c->is_package ? 1 : c->plan.cards;

    row_of(f, c, from_s, to_s);
    SET(f, ChargeCategory, "Usage");
    SET(f, ChargeClass, back ? "Correction" : "");
    SET(f, ChargeFrequency, "Usage-Based");
    SET(f, ChargeDescription, "%s, %" PRId64 " %s %s", f->v[C_CommitmentDiscountName],
        back ? -quantity : quantity, c->is_package ? "card-seconds" : "seconds",
        back ? "that were not unused" : "not used");
    SET(f, SkuId, "%s", c->is_package ? c->package.sku : c->plan.sku);
    SET(f, SkuPriceId, "%s", c->is_package ? c->package.price.s : c->plan.price.s);
    focus_decimal(f->v[C_PricingQuantity], (__int128)quantity * cards, 3600);
    SET(f, PricingUnit, "Hours");
    focus_decimal(f->v[C_ListUnitPrice], 0, 1);
    focus_decimal(f->v[C_ContractedUnitPrice], 0, 1);
    focus_cost(f, 0);
    set_status(f, "Unused", quantity, effective_u);
    focus_row_write(f);
}

enum err commitment_restored(struct focus *f, const struct commitment *c, int64_t from_s,
                             int64_t to_s, int64_t qty)
{
    int64_t from = from_s, to = to_s, u;

    if (c->is_package) {
        struct focus_used *used;

        if (c->package.expires_s > f->month.from_s)
            return ERR_OK; /* nothing of it was called unused yet */
        TRY(used_of(f, &c->package, &used));
        to = used->qty; /* commitment_used has counted it */
        from = to - qty;
    }
    TRY(earned_between(c, from, to, &u));
    unused_row(f, c, from_s, to_s, from - to, -u);
    return ERR_OK;
}

/* ---- bought, and given back ---- */

static enum err set_offer(struct focus *f, const struct commitment *c)
{
    int64_t quantity = c->is_package ? 1 : c->plan.cards, list_u;
    struct price_row row;
    struct rate rate;

    TRY(money_price_get(f->op->store, c->is_package ? c->package.offer : c->plan.offer, &row));
    TRY(price_row_rate(&row, &rate));
    TRY(rate_total(&rate, quantity, &list_u));
    SET(f, SkuId, "%s", row.sku);
    SET(f, SkuPriceId, "%s", row.id.s);
    SET(f, PricingCategory, "Standard");
    SET(f, PricingQuantity, "%" PRId64, quantity);
    SET(f, PricingUnit, c->is_package ? "Packages" : "Cards");
    focus_decimal(f->v[C_ListUnitPrice], rate.tiers[0].p, (__int128)rate.d * MICRO_PER_MAJOR);
    memcpy(f->v[C_ContractedUnitPrice], f->v[C_ListUnitPrice], FOCUS_VALUE_SIZE);
    focus_money(f, f->v[C_ListCost], list_u);
    focus_money(f, f->v[C_ContractedCost], list_u);
    return ERR_OK;
}

static void bought_row(struct focus *f, const struct commitment *c, int64_t u)
{
    const struct plan_row *p = &c->plan;

    if (c->is_package)
        row_of(f, c, c->package.start_s, c->package.expires_s);
    else
        row_of(f, c, p->start_s, p->end_s);
    SET(f, ChargeCategory, "Purchase");
    SET(f, ChargeFrequency, !c->is_package && (p->renew || p->term > 1) ? "Recurring" : "One-Time");
    SET(f, CommitmentDiscountQuantity, "%" PRId64,
        c->is_package ? c->package.seconds : p->end_s - p->start_s);
    focus_cost(f, u);
    focus_money(f, f->v[C_EffectiveCost], 0); /* it is in the rows of its seconds */
}

/* Something that is neither plan nor package. */
static void plain_purchase(struct focus *f, const struct line_row *l)
{
    focus_row_begin(f);
    SET(f, ChargeCategory, "Purchase");
    SET(f, ChargeFrequency, "One-Time");
    SET(f, ChargeDescription, "%s", l->source);
    SET(f, ServiceCategory, "Other");
    SET(f, ServiceSubcategory, "Other (Other)");
    SET(f, ServiceName, "Suanli");
    SET(f, SkuId, "%s", l->sku);
    SET(f, SkuPriceId, "%s", l->source);
    SET(f, PricingCategory, "Standard");
    SET(f, PricingQuantity, "1");
    SET(f, PricingUnit, "Purchases");
    focus_money(f, f->v[C_ListUnitPrice], l->amount_u);
    focus_money(f, f->v[C_ContractedUnitPrice], l->amount_u);
    SET(f, ResourceId, "%s", l->source);
    focus_time(f->v[C_ChargePeriodStart], l->from_s);
    focus_time(f->v[C_ChargePeriodEnd], MAX(l->to_s, l->from_s + 1));
    focus_cost(f, l->amount_u);
}

enum err commitment_purchase(struct focus *f, const struct line_row *l)
{
    struct commitment c;
    bool found;

    TRY(commitment_get(f, l->source, &c, &found));
    if (found) {
        bought_row(f, &c, l->amount_u);
        SET(f, ChargeDescription, "%s", f->v[C_CommitmentDiscountName]);
        TRY(set_offer(f, &c));
    } else {
        plain_purchase(f, l);
    }
    focus_row_write(f);
    return ERR_OK;
}

enum err commitment_backs(struct focus *f)
{
    struct purchase_line_list list = {0};
    enum err e = purchase_back_list(f->op->store, f->project.id, f->month.from_s * MS_PER_S,
                                    f->month.to_s * MS_PER_S, &list);

    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        struct commitment c;
        bool found = false;

        e = commitment_get(f, list.at[i].id, &c, &found);
        if (e != ERR_OK || !found)
            continue;
        bought_row(f, &c, -list.at[i].amount_u);
        SET(f, ChargeClass, "Correction");
        SET(f, ChargeFrequency, "One-Time");
        SET(f, ChargeDescription, "%s, given back", f->v[C_CommitmentDiscountName]);
        f->v[C_InvoiceId][0] = '\0';
        f->v[C_CommitmentDiscountQuantity][0] = '\0';
        focus_row_write(f);
    }
    vec_fini(&list);
    return e;
}

/* ---- what nobody used ---- */

static int span_order(const void *a, const void *b)
{
    const struct span_row *x = a, *y = b;

    return (x->from_s > y->from_s) - (x->from_s < y->from_s);
}

/* What the month's window of a plan had of it, as it is billed, in the order of time. */
static enum err plan_spans(struct focus *f, const struct plan_row *p, struct span_list *ret_l)
{
    char window[LEDGER_KEY_SIZE];
    struct line_row line = {.qty_to = INT64_MAX};
    int64_t qty = 0;
    bool ok = str_printf(window, sizeof(window), "%s/%d/%s/%04" PRId64 "%02d", p->instance.s,
                         METER_GPU, p->price.s, f->month.year, f->month.month);

    CHECK(ok);
    if (f->st.number[0]) {
        enum err e = line_of_source(f->op->store, f->st.id, window, &line);

        if (e != ERR_OK)
            return e == ERR_NOT_FOUND ? ERR_OK : e;
    }
    TRY(proof_spans_rated(f->op->store, window, ret_l));
    for (size_t i = 0; i < ret_l->len; i++) {
        struct span_row *s = &ret_l->at[i];

        if (qty + s->qty > line.qty_to) {
            s->to_s -= (qty + s->qty - line.qty_to) / s->qty_per_s;
            ret_l->len = s->to_s > s->from_s ? i + 1 : i;
            break;
        }
        qty += s->qty;
    }
    if (ret_l->len > 1)
        qsort(ret_l->at, ret_l->len, sizeof(ret_l->at[0]), span_order);
    return ERR_OK;
}

static enum err plan_unused(struct focus *f, const struct plan_row *p)
{
    int64_t from = MAX(p->start_s, f->month.from_s), at = from, seconds = 0, sum = 0, u;
    int64_t to = MIN(MIN(p->over_s ? p->over_s : p->end_s, f->month.to_s), f->b.now_s);
    struct span_list spans = {0};
    struct commitment c;
    bool found;

    TRY(commitment_get(f, p->id.s, &c, &found));
    enum err e = plan_spans(f, p, &spans);
    for (size_t i = 0; i <= spans.len && e == ERR_OK; i++) {
        int64_t end = i < spans.len ? MIN(spans.at[i].from_s, to) : to;

        if (end > at) {
            e = earned_between(&c, at, end, &u);
            seconds += end - at;
            if (e == ERR_OK)
                e = micro_add(sum, u, &sum);
        }
        if (i < spans.len)
            at = MAX(at, spans.at[i].to_s);
    }
    vec_fini(&spans);
    if (e == ERR_OK && p->over_s == p->start_s && p->start_s >= f->month.from_s &&
        p->start_s < f->month.to_s)
        sum = c.kept_u; /* it never covered a second: a voucher that paid it lapsed */
    if (e == ERR_OK && (seconds > 0 || sum != 0))
        unused_row(f, &c, from, to, seconds, sum);
    return e;
}

static enum err plans_unused(struct focus *f)
{
    struct id after = {0};
    enum err e = ERR_OK;
    bool more = true;

    while (more && e == ERR_OK) {
        struct plan_list plans = {0};

        e = plan_row_list(f->op->store, f->project.id, after, PLANS_AT_ONCE, &plans);
        for (size_t i = 0; i < plans.len && e == ERR_OK; i++) {
            const struct plan_row *p = &plans.at[i];

            if (p->start_s < MIN(f->month.to_s, f->b.now_s) &&
                (p->over_s ? p->over_s : p->end_s) >= f->month.from_s)
                e = plan_unused(f, p);
            after = p->id;
        }
        more = plans.len == PLANS_AT_ONCE;
        vec_fini(&plans);
    }
    return e;
}

static enum err package_unused(struct focus *f, const struct package_row *p)
{
    struct focus_used *used;
    struct commitment c;
    int64_t u;
    bool found;

    TRY(commitment_get(f, p->id.s, &c, &found));
    TRY(used_of(f, p, &used));
    if (used->qty >= p->seconds)
        return ERR_OK;
    TRY(earned_between(&c, used->qty, p->seconds, &u));
    unused_row(f, &c, MAX(p->start_s, f->month.from_s), p->expires_s, p->seconds - used->qty, u);
    return ERR_OK;
}

enum err commitment_unused(struct focus *f)
{
    struct package_list packages = {0};
    enum err e = plans_unused(f);

    if (e == ERR_OK)
        e = package_row_list(f->op->store, f->project.id, &packages);
    for (size_t i = 0; i < packages.len && e == ERR_OK; i++)
        if (packages.at[i].expires_s > f->month.from_s &&
            packages.at[i].expires_s <= MIN(f->month.to_s, f->b.now_s))
            e = package_unused(f, &packages.at[i]);
    vec_fini(&packages);
    return e;
}
