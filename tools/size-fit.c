/* size-fit: moves the constants of src/domain/size_coef.def to what measured cases say.
 *
 *   size-fit CASES.tsv size_fit.def size_folds.def
 *
 * A constant is fitted as a logarithm, by least squares of ln(estimate / measured) over the scored
 * rows, each family weighted by the error that is hoped for, outliers damped (Huber), and held to
 * what physics says by its spread. Then every group of rows is left out in turn: the constants
 * fitted without it (size_folds.def) are the ones it is scored with, and the intervals (SPREAD) are
 * quantiles of errors made on rows that were not seen. Same input, same output. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/size_cases.h"

#define STEPS 40
#define FOLD_STEPS 12 /* from the fit of all rows on */
#define HUBER 1.5
#define QUANTILE 0.03 /* left out on each side of an interval */
#define MARGIN 0.01   /* added to each side, and three times the usual error: models not seen */

struct rows {
    struct size_case *c;
    size_t n;
};
struct fold {
    const char *group;
    double coef[SIZE_COEFS];
};

static const double prior[SIZE_COEFS] = {
#define COEF(id, value, spread, text) value,
#include "domain/size_coef.def"
#undef COEF
};
static const double prior_spread[SIZE_COEFS] = {
#define COEF(id, value, spread, text) spread,
#include "domain/size_coef.def"
#undef COEF
};
static const char *const coef_name[SIZE_COEFS] = {
#define COEF(id, value, spread, text) #id,
#include "domain/size_coef.def"
#undef COEF
};

/* Error that is hoped for, by family: one unit of residual. */
static double unit(enum case_family f)
{
    static const double u[CASE_FAMILIES] = {1, 0.02, 0.05, 0.07, 0.07, 0.03, 1};

    return u[f];
}

static bool fitted_row(const struct size_case *c)
{
    return c->scored && c->known && c->family != CASE_EXACT && c->family != CASE_PRETRAIN;
}

static bool ratio(const struct size_case *c, const double coef[SIZE_COEFS], double *ret_r)
{
    const struct size_spread none = {1, 1, 0};
    struct size_range r;

    if (!case_estimate(c, coef, &none, &r) || c->bytes == 0)
        return false;
    if (c->family == CASE_BUDGET) {
        *ret_r = (double)(r.expected - c->bytes) / (double)c->card;
        return true;
    }
    *ret_r = log((double)MAX(r.expected, 1) / (double)c->bytes);
    return true;
}

static double huber_weight(double r)
{
    return fabs(r) <= HUBER ? 1 : HUBER / fabs(r);
}

static bool seen(const struct size_case *c, const char *without)
{
    return fitted_row(c) && !(without && str_eq(c->group, without));
}

static double cost(const struct rows *rows, const double theta[SIZE_COEFS], const char *without)
{
    double coef[SIZE_COEFS], sum = 0, r;

    for (int k = 0; k < SIZE_COEFS; k++) {
        coef[k] = prior[k] * exp(theta[k]);
        sum += theta[k] * theta[k] / (prior_spread[k] * prior_spread[k]);
    }
    for (size_t i = 0; i < rows->n; i++) {
        const struct size_case *c = &rows->c[i];
        if (!seen(c, without) || !ratio(c, coef, &r))
            continue;
        r = fabs(r) / unit(c->family);
        sum += r <= HUBER ? r * r : HUBER * (2 * r - HUBER);
    }
    return sum;
}

/* Normal equations of one Gauss-Newton step around theta. */
static void normal(const struct rows *rows, const double theta[SIZE_COEFS], const char *without,
                   double a[SIZE_COEFS][SIZE_COEFS + 1])
{
    double coef[SIZE_COEFS];

    memset(a, 0, sizeof(double) * SIZE_COEFS * (SIZE_COEFS + 1));
    for (int k = 0; k < SIZE_COEFS; k++) {
        double w = 1 / (prior_spread[k] * prior_spread[k]);
        coef[k] = prior[k] * exp(theta[k]);
        a[k][k] += w;
        a[k][SIZE_COEFS] -= w * theta[k];
    }
    for (size_t i = 0; i < rows->n; i++) {
        const struct size_case *c = &rows->c[i];
        double r, slope[SIZE_COEFS], u = unit(c->family);
        if (!seen(c, without) || !ratio(c, coef, &r))
            continue;
        for (int k = 0; k < SIZE_COEFS; k++) {
            double keep = coef[k], moved = r;
            coef[k] = keep * exp(1e-4);
            slope[k] = ratio(c, coef, &moved) ? (moved - r) / 1e-4 / u : 0;
            coef[k] = keep;
        }
        double w = huber_weight(r / u);
        for (int k = 0; k < SIZE_COEFS; k++) {
            for (int l = 0; l < SIZE_COEFS; l++)
                a[k][l] += w * slope[k] * slope[l];
            a[k][SIZE_COEFS] -= w * slope[k] * r / u;
        }
    }
}

static void solve(double a[SIZE_COEFS][SIZE_COEFS + 1], double damp, double x[SIZE_COEFS])
{
    for (int k = 0; k < SIZE_COEFS; k++)
        a[k][k] *= 1 + damp;
    for (int k = 0; k < SIZE_COEFS; k++) {
        int best = k;
        for (int r = k + 1; r < SIZE_COEFS; r++)
            if (fabs(a[r][k]) > fabs(a[best][k]))
                best = r;
        for (int col = 0; col <= SIZE_COEFS; col++) {
            double t = a[k][col];
            a[k][col] = a[best][col];
            a[best][col] = t;
        }
        for (int r = 0; r < SIZE_COEFS; r++) {
            double f = r == k ? 0 : a[r][k] / a[k][k];
            for (int col = k; f != 0 && col <= SIZE_COEFS; col++)
                a[r][col] -= f * a[k][col];
        }
    }
    for (int k = 0; k < SIZE_COEFS; k++)
        x[k] = a[k][SIZE_COEFS] / a[k][k];
}

/* Levenberg-Marquardt from theta on. */
static void fit(const struct rows *rows, const char *without, int steps, double theta[SIZE_COEFS])
{
    double now = cost(rows, theta, without), damp = 0.01;

    for (int s = 0; s < steps && damp < 1e6; s++) {
        static double a[SIZE_COEFS][SIZE_COEFS + 1];
        double x[SIZE_COEFS], next[SIZE_COEFS];
        normal(rows, theta, without, a);
        solve(a, damp, x);
        for (int k = 0; k < SIZE_COEFS; k++)
            next[k] = theta[k] + MAX(-0.5, MIN(0.5, x[k]));
        double then = cost(rows, next, without);
        if (then < now) {
            memcpy(theta, next, sizeof(next));
            if (now - then < 1e-7 * now)
                break;
            now = then;
            damp = MAX(damp / 5, 1e-9);
        } else {
            damp *= 8;
        }
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Interval of measured / estimate in a family of the domain, errors of `without` left out. */
static struct size_spread spread(const struct rows *rows, const struct fold *fold, size_t folds,
                                 enum size_family family, const char *without)
{
    double r, v[2000];
    size_t n = 0;

    for (size_t i = 0; i < rows->n && n < ARRAY_LEN(v); i++) {
        const struct size_case *c = &rows->c[i];
        if (!seen(c, without) || c->family == CASE_BUDGET || size_family(&c->job) != family)
            continue;
        if (c->length_unsaid || c->recompute_unsaid || c->job.loss == SIZE_LOSS_FUSED)
            continue; /* their intervals are wider for what is not known of them */
        for (size_t k = 0; k < folds; k++)
            if (str_eq(fold[k].group, c->group) && ratio(c, fold[k].coef, &r))
                v[n++] = exp(-r);
    }
    if (n < 5)
        return (struct size_spread){0.8, 1.25, (int64_t)n};
    qsort(v, n, sizeof(v[0]), by_value);
    double at = QUANTILE * (double)(n - 1);
    size_t low = (size_t)floor(at), high = n - 1 - low;
    double from = v[low], to = v[high], middle[ARRAY_LEN(v)];
    for (size_t i = 0; i < n; i++)
        middle[i] = fabs(log(v[i]));
    qsort(middle, n, sizeof(middle[0]), by_value);
    double margin = MARGIN + 3 * middle[n / 2];
    return (struct size_spread){MAX(from - margin, 0.1), to + margin, (int64_t)n};
}

static size_t groups(const struct rows *rows, struct fold *fold, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < rows->n; i++) {
        bool have = !fitted_row(&rows->c[i]);
        for (size_t k = 0; k < n && !have; k++)
            have = str_eq(fold[k].group, rows->c[i].group);
        if (!have && n < max)
            fold[n++].group = rows->c[i].group;
    }
    return n;
}

static const char *const family_id[SIZE_FAMILIES] = {
    "INFER", "INFER_QUANT", "INFER_PROCESS", "LORA", "QLORA", "FULL", "ENGINE"};

/* Rows whose estimate a constant moves. */
static int moved(const struct rows *rows, const double coef[SIZE_COEFS], int k)
{
    double other[SIZE_COEFS], a, b;
    int n = 0;

    memcpy(other, coef, sizeof(other));
    other[k] *= 1.05;
    for (size_t i = 0; i < rows->n; i++)
        n += fitted_row(&rows->c[i]) && ratio(&rows->c[i], coef, &a) &&
             ratio(&rows->c[i], other, &b) && fabs(a - b) > 1e-7;
    return n;
}

static void write_fit(FILE *f, const struct rows *rows, const struct fold *fold, size_t folds,
                      const double coef[SIZE_COEFS])
{
    fprintf(
        f,
        "/* Made by tools/size-fit from tests/golden/sizing-cases.tsv: do not edit. FIT(constant,"
        " value,\n * rows it moves); SPREAD(family, low, high, rows): measured over estimate on "
        "rows not "
        "seen. */\n");
    for (int k = 0; k < SIZE_COEFS; k++)
        fprintf(f, "FIT(%s, %.6g, %d)\n", coef_name[k], coef[k], moved(rows, coef, k));
    for (int s = 0; s < SIZE_FAMILIES; s++) {
        struct size_spread p = spread(rows, fold, folds, (enum size_family)s, NULL);
        fprintf(f, "SPREAD(%s, %.4f, %.4f, %" PRId64 ")\n", family_id[s], p.low, p.high, p.rows);
    }
}

static void write_folds(FILE *f, const struct rows *rows, const struct fold *fold, size_t folds)
{
    fprintf(f,
            "/* Made by tools/size-fit: constants and intervals fitted without one group of rows,"
            " which is\n * scored with them. FOLD(group, constants, spreads). */\n");
    for (size_t k = 0; k < folds; k++) {
        fprintf(f, "FOLD(\"%s\", ARRAY(", fold[k].group);
        for (int i = 0; i < SIZE_COEFS; i++)
            fprintf(f, "%s%.6g", i % 10 ? ", " : i ? ",\n     " : "", fold[k].coef[i]);
        fprintf(f, "),\n     ARRAY(");
        for (int s = 0; s < SIZE_FAMILIES; s++) {
            struct size_spread p = spread(rows, fold, folds, (enum size_family)s, fold[k].group);
            fprintf(f, "%s{%.4f, %.4f, %" PRId64 "}", s ? ", " : "", p.low, p.high, p.rows);
        }
        fprintf(f, "))\n");
    }
}

static void fit_all(const struct rows *rows, const char *fit_path, const char *folds_path)
{
    static struct fold fold[500];
    double theta[SIZE_COEFS] = {0}, coef[SIZE_COEFS];
    size_t folds = groups(rows, fold, ARRAY_LEN(fold));

    fit(rows, NULL, STEPS, theta);
    for (int k = 0; k < SIZE_COEFS; k++)
        coef[k] = prior[k] * exp(theta[k]);
    for (size_t k = 0; k < folds; k++) {
        double t[SIZE_COEFS];
        memcpy(t, theta, sizeof(t));
        fit(rows, fold[k].group, FOLD_STEPS, t);
        for (int i = 0; i < SIZE_COEFS; i++)
            fold[k].coef[i] = prior[i] * exp(t[i]);
    }
    FILE *f = fopen(fit_path, "we");
    FILE *g = fopen(folds_path, "we");
    if (!f || !g) {
        fprintf(stderr, "size-fit: cannot write %s or %s\n", fit_path, folds_path);
        exit(1);
    }
    write_fit(f, rows, fold, folds, coef);
    write_folds(g, rows, fold, folds);
    fclose(f);
    fclose(g);
}

int main(int argc, char **argv)
{
    struct rows rows = {0};
    struct refusal why;
    char text[512];

    if (argc != 4) {
        fprintf(stderr, "usage: size-fit CASES.tsv size_fit.def size_folds.def\n");
        return 2;
    }
    FILE *f = fopen(argv[1], "re");
    if (!f) {
        fprintf(stderr, "size-fit: cannot open %s\n", argv[1]);
        return 1;
    }
    enum err e = cases_read(f, argv[1], &rows.c, &rows.n, &why);
    fclose(f);
    if (e != ERR_OK) {
        refusal_text(&why, LANG_EN, text, sizeof(text));
        fprintf(stderr, "size-fit: %s\n", text);
        return 1;
    }
    fit_all(&rows, argv[2], argv[3]);
    free(rows.c);
    return 0;
}
