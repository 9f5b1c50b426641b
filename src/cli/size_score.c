/* size_score.c: how far the estimate is off on cases it was not fitted to. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/size_cases.h"

#define UNSAFE 1.05

#define ARRAY(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define FOLD(group, coefs, spreads) {group, coefs, spreads},
static const struct {
    const char *group;
    double coef[SIZE_COEFS];
    struct size_spread spread[SIZE_FAMILIES];
} folds[] = {
#include "cli/size_folds.def"
};
#undef FOLD
#undef ARRAY

struct case_goal case_goal(enum case_family f)
{
    static const struct case_goal goal[CASE_FAMILIES] = {
        [CASE_EXACT] = {0.005, 0.005}, [CASE_INFER] = {0.015, 0.05}, [CASE_LORA] = {0.05, 0.12},
        [CASE_QLORA] = {0.07, 0.18},   [CASE_FULL] = {0.05, 0.12},   [CASE_BUDGET] = {0.05, 0}};

    return goal[f];
}

static bool has_verdict(enum case_family f)
{
    return f != CASE_EXACT && f != CASE_BUDGET; /* a part is no verdict */
}

bool case_judge(const struct size_case *c, struct case_verdict *ret_v)
{
    const double *coef = size_coefs();
    struct size_spread spread = size_spread(size_family(&c->job));
    struct case_verdict v = {0};

    for (size_t i = 0; i < ARRAY_LEN(folds); i++)
        if (str_eq(folds[i].group, c->group)) {
            coef = folds[i].coef;
            spread = folds[i].spread[size_family(&c->job)];
            v.left_out = c->family != CASE_EXACT;
        }
    if (!case_estimate(c, coef, &spread, &v.predicted) || c->bytes == 0)
        return false;
    double off = (double)v.predicted.expected - (double)c->bytes;
    v.error = off / (c->family == CASE_BUDGET ? (double)c->card : (double)c->bytes);
    int64_t slack = c->resolution / 2; /* the printed figure is no finer */
    v.inside = c->bytes >= v.predicted.low - slack && c->bytes <= v.predicted.high + slack;
    v.unsafe = has_verdict(c->family) && (double)c->bytes > UNSAFE * (double)v.predicted.high;
    *ret_v = v;
    return true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int64_t n, double q)
{
    return n > 0 ? sorted[(int64_t)floor(q * (double)(n - 1) + 0.5)] : 0;
}

void cases_score(const struct size_case *c, size_t n, struct case_score ret_s[CASE_FAMILIES])
{
    AUTO_FREE double *error = mem_alloc((n + 1) * sizeof(*error));

    for (int f = 0; f < CASE_FAMILIES; f++) {
        struct case_score s = {0};
        struct case_verdict v;
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            if (!c[i].scored || c[i].family != (enum case_family)f || !case_judge(&c[i], &v))
                continue;
            error[s.n++] = fabs(v.error);
            sum += fabs(v.error);
            s.inside += v.inside;
            s.unsafe += v.unsafe;
            s.left_out += v.left_out;
        }
        qsort(error, (size_t)s.n, sizeof(*error), by_value);
        s.mean = s.n > 0 ? sum / (double)s.n : 0;
        s.median = quantile(error, s.n, 0.5);
        s.p90 = quantile(error, s.n, 0.9);
        ret_s[f] = s;
    }
}
