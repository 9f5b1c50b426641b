#include "domain/plan.h"

#include "base/str.h"

static const char *const policies[] = {
    [PLAN_PRO_RATA] = "pro_rata",
    [PLAN_CLAWBACK] = "clawback",
};

const char *plan_policy_name(enum plan_policy p)
{
    CHECK((size_t)p < ARRAY_LEN(policies));
    return policies[p];
}

bool plan_policy_find(const char *name, enum plan_policy *ret_p)
{
    for (size_t i = 0; i < ARRAY_LEN(policies); i++)
        if (str_eq(name, policies[i])) {
            *ret_p = (enum plan_policy)i;
            return true;
        }
    return false;
}

enum plan plan_of_unit(enum calendar_unit u)
{
    switch (u) {
    case CALENDAR_DAY:
        return PLAN_DAY;
    case CALENDAR_WEEK:
        return PLAN_WEEK;
    case CALENDAR_MONTH:
        return PLAN_MONTH;
    case CALENDAR_YEAR:
        return PLAN_YEAR;
    case CALENDAR_HOUR:
        break;
    }
    return PLAN_ON_DEMAND;
}

bool plan_unit_find(const char *name, enum plan *ret_plan, enum calendar_unit *ret_unit)
{
    enum calendar_unit u;

    if (!calendar_unit_find(name, &u) || plan_of_unit(u) == PLAN_ON_DEMAND)
        return false;
    *ret_plan = plan_of_unit(u);
    *ret_unit = u;
    return true;
}

bool plan_sku(enum plan p, const char *sku, char *buf, size_t size)
{
    return str_printf(buf, size, "plan.%s.%s", plan_name(p), sku);
}

bool plan_sku_parse(const char *sku, enum plan *ret_plan, const char **ret_covered)
{
    for (enum plan p = PLAN_DAY; p <= PLAN_YEAR; p++) {
        const char *name = plan_name(p);
        size_t n = strlen("plan.") + strlen(name);

        if (str_starts(sku, "plan.") && str_starts(sku + strlen("plan."), name) && sku[n] == '.' &&
            str_starts(sku + n + 1, "gpu.") && strlen(sku + n + 1) > strlen("gpu.")) {
            *ret_plan = p;
            *ret_covered = sku + n + 1;
            return true;
        }
    }
    return false;
}

enum err plan_consumed(const struct plan_term *t, int64_t at_s, int64_t *ret_u)
{
    int64_t total = t->end_s - t->start_s, used = at_s - t->start_s; /* refund.h cuts it */
    struct refund_clawback c;

    if (total <= 0 || t->cards <= 0)
        return ERR_VALIDATION;
    if (t->policy != PLAN_CLAWBACK || !t->ondemand || used >= total)
        return refund_pro_rata(t->paid_u, used, total, ret_u);
    TRY(refund_claw_back(t->paid_u, used, total, t->ondemand, t->cards, t->fee_pct, 100, &c));
    *ret_u = c.consumed_u;
    return ERR_OK;
}
