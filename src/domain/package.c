#include "domain/package.h"

#include <stdlib.h>

#include "base/str.h"
#include "domain/money.h"
#include "domain/plan.h"

#define PREFIX "package."

bool package_sku_parse(const char *sku, struct package_terms *ret_t)
{
    char hours[16], unit[16];
    const char *at = sku, *dot;
    enum plan plan;

    if (!str_starts(sku, PREFIX))
        return false;
    at += strlen(PREFIX);
    dot = strchr(at, '.');
    if (!dot || !str_printf(hours, sizeof(hours), "%.*s", (int)MIN(dot - at, 15), at) ||
        str_parse_i64(hours, 1, PACKAGE_HOURS_MAX, &ret_t->hours) != ERR_OK || hours[0] == '0')
        return false;
    at = dot + 1;
    dot = strchr(at, '.');
    if (!dot || !str_printf(unit, sizeof(unit), "%.*s", (int)MIN(dot - at, 15), at) ||
        !plan_unit_find(unit, &plan, &ret_t->unit))
        return false;
    ret_t->covered = dot + 1;
    return str_eq(ret_t->covered, "gpu") ||
           (str_starts(ret_t->covered, "gpu.") && strlen(ret_t->covered) > strlen("gpu."));
}

bool package_covers(const char *covered, const char *sku)
{
    return str_eq(covered, sku) || (str_eq(covered, "gpu") && str_starts(sku, "gpu."));
}

static int by_use(const void *a, const void *b)
{
    const struct package *x = a, *y = b;

    if (x->wide != y->wide)
        return x->wide ? 1 : -1;
    if (x->expires_s != y->expires_s)
        return x->expires_s < y->expires_s ? -1 : 1;
    return strcmp(x->id, y->id);
}

void package_rank(struct package *p, size_t n)
{
    if (n > 0)
        qsort(p, n, sizeof(p[0]), by_use);
}

bool package_next(struct package *p, size_t n, int64_t qty_per_s, int64_t from_s, int64_t to_s,
                  size_t *ret_i, int64_t *ret_to_s)
{
    int64_t end = to_s;

    for (size_t i = 0; i < n; i++) {
        if (p[i].left < qty_per_s || p[i].expires_s <= from_s)
            continue;
        if (p[i].from_s > from_s) { /* one that is used earlier begins inside the part */
            end = MIN(end, p[i].from_s);
            continue;
        }
        end = MIN(end, p[i].expires_s);
        end = from_s + MIN(end - from_s, p[i].left / qty_per_s);
        p[i].left -= (end - from_s) * qty_per_s;
        *ret_i = i;
        *ret_to_s = end;
        return true;
    }
    *ret_to_s = end;
    return false;
}

enum err package_earned(int64_t paid_u, int64_t seconds, int64_t used, int64_t *ret_u)
{
    if (seconds <= 0 || used < 0 || used > seconds)
        return ERR_VALIDATION;
    return micro_mul_div(paid_u, used, seconds, ret_u);
}
