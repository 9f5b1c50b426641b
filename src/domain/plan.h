/* plan.h: reserved plans: a fixed price for the cards of one instance over one term (money.md 1.4,
 * 1.6, 1.7).
 *
 * A plan is sold by price rows of their own, one per card model and length:
 * "plan.month.gpu.<model>", per card and term. Its seconds [start, end) are ordinary windows of a
 * price version that costs 0, so that rating, quote, bill and proof know no plan. Ends are
 * calendar_plan_end of the anchor of its first term. What an early release gives back is said by
 * the policy it was bought under. Pure. */
#pragma once

#include "domain/calendar.h"
#include "domain/refund.h"
#include "domain/types.h"

enum plan_policy {
    PLAN_PRO_RATA, /* the unused share of the time */
    PLAN_CLAWBACK, /* used time at the on-demand price, a fee on the discount; the rest */
};
const char *plan_policy_name(enum plan_policy p); /* "pro_rata" */
bool plan_policy_find(const char *name, enum plan_policy *ret_p);

/* "day", "week", "month", "year": the plans that are bought. */
bool plan_unit_find(const char *name, enum plan *ret_plan, enum calendar_unit *ret_unit);
enum plan plan_of_unit(enum calendar_unit u);
/* "plan.month.gpu.RTX 4090" of "gpu.RTX 4090"; false: too long. */
bool plan_sku(enum plan p, const char *sku, char *buf, size_t size);
/* The same backwards: what is covered, pointing into sku; false for any other SKU. */
bool plan_sku_parse(const char *sku, enum plan *ret_plan, const char **ret_covered);

/* One term as it was bought. */
struct plan_term {
    int64_t start_s, end_s;
    int64_t cards;
    int64_t paid_u;
    enum plan_policy policy;
    int32_t fee_pct;
    const struct rate *ondemand; /* borrowed; of one card; NULL: none, then pro_rata */
};
/* What of paid_u is used up when it is left at at_s: the rest is given back (refund_split). Never
 * more than paid_u, nothing before start_s, all of it at end_s. */
enum err plan_consumed(const struct plan_term *t, int64_t at_s, int64_t *ret_u);
