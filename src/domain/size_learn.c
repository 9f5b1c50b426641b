#include "domain/size_learn.h"

#include <math.h>

#define QUANTILE_90 1.645 /* both sides: 90 % lie within */
#define WIDTH_MIN 0.01    /* no interval is surer than 1 % to either side */

void size_family_key(const char *name, char buf[SIZE_FAMILY_KEY])
{
    const char *slash = strrchr(name, '/');
    size_t n = 0;

    for (const char *p = slash && slash[1] ? slash + 1 : name; *p;) {
        size_t k = strcspn(p, "-_ "), digits = strspn(p, "0123456789.");
        bool size = digits > 0 && digits + 1 == k && strchr("bBmMtT", p[digits]);
        if (size || n + k + 2 > SIZE_FAMILY_KEY)
            break;
        if (n > 0)
            buf[n++] = '-';
        for (size_t i = 0; i < k; i++)
            buf[n++] = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] - 'A' + 'a') : p[i];
        p += k + (p[k] != '\0');
    }
    buf[n] = '\0';
}

void size_learn(const struct size_spread *prior, const double *ratio, size_t n,
                struct size_spread *ret_s)
{
    const double k0 = SIZE_LEARN_PRIOR;
    double m0 = (log(prior->low) + log(prior->high)) / 2;
    double s0 = (log(prior->high) - log(prior->low)) / (2 * QUANTILE_90);
    double sum = k0 * m0, k = k0, most = 1, squares = 0;

    for (size_t i = 0; i < n; i++) {
        if (!(ratio[i] >= SIZE_LEARN_RATIO_MIN && ratio[i] <= SIZE_LEARN_RATIO_MAX))
            continue;
        sum += log(ratio[i]);
        most = MAX(most, ratio[i]);
        k += 1;
    }
    *ret_s = *prior;
    if (k <= k0)
        return;
    double m = sum / k;
    for (size_t i = 0; i < n; i++)
        if (ratio[i] >= SIZE_LEARN_RATIO_MIN && ratio[i] <= SIZE_LEARN_RATIO_MAX)
            squares += (log(ratio[i]) - m) * (log(ratio[i]) - m);
    double s = sqrt((k0 * s0 * s0 + k0 * (m - m0) * (m - m0) + squares) / k);
    double wide = QUANTILE_90 * s * sqrt(1 + 1 / k);
    ret_s->low = MIN(exp(m - wide), 1 - WIDTH_MIN);
    ret_s->high = MAX(MAX(exp(m + wide), most), 1 + WIDTH_MIN);
    ret_s->rows = prior->rows + (int64_t)(k - k0);
}
