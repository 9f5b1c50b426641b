/* money.h: amounts that carry their currency, in whole micro-units (money.md 1.1).
 *
 * 1 µ = 10^-6 of the currency's major unit, whatever its number of minor digits. Every sum is
 * checked; nothing rounds here except money_to_minor, which says so. Pure, any thread. */
#pragma once

#include "base/err.h"

#define MICRO_PER_MAJOR 1000000
#define MONEY_TEXT_SIZE 32

struct currency {
    char code[4]; /* ISO 4217, NUL-terminated */
};

struct money {
    int64_t u; /* micro-units, may be negative */
    struct currency ccy;
};

/* Knows the currencies this build can account in. ERR_CURRENCY for any other code. */
enum err currency_get(const char *code, struct currency *ret_ccy);
/* Number of minor digits, 0 (JPY) to 4 (CLF). CHECKs that the currency came from currency_get. */
int currency_exp(struct currency ccy);
/* Micro-units in one minor unit: CNY 10 000, JPY 1 000 000, KWD 1 000. */
int64_t currency_minor_u(struct currency ccy);
bool currency_eq(struct currency a, struct currency b);

/* Bare micro-units: ERR_MONEY_RANGE when the result does not fit. */
enum err micro_add(int64_t a, int64_t b, int64_t *ret_u);
enum err micro_sub(int64_t a, int64_t b, int64_t *ret_u);
/* ⌊a·n/d⌋ with mathematical floor, d > 0, exact in between. ERR_MONEY_RANGE when it does not fit
 * or d <= 0. */
enum err micro_mul_div(int64_t a, int64_t n, int64_t d, int64_t *ret_u);

/* ERR_CURRENCY when the two differ, ERR_MONEY_RANGE when the result does not fit. */
enum err money_add(struct money a, struct money b, struct money *ret_m);
enum err money_sub(struct money a, struct money b, struct money *ret_m);
enum err money_neg(struct money a, struct money *ret_m);
struct money money_of(int64_t u, struct currency ccy);

/* "12", "-0.5", "1.234567": digits, at most one point with digits on both sides, at most six
 * decimals (more are taken only when they are zeros). ERR_VALIDATION for other text or anything
 * finer than a micro-unit, ERR_MONEY_RANGE when it does not fit. */
enum err money_parse(const char *s, struct currency ccy, struct money *ret_m);
/* Exact decimal text: at least the currency's minor digits, no more zeros than those. */
void money_format(struct money m, char *buf, size_t size);
/* "1.98 CNY" */
void money_format_ccy(struct money m, char *buf, size_t size);

/* The border to whole minor units: ⌊u/m⌋ (towards minus infinity) and the residue 0 <= r < m. */
void money_to_minor(struct money m, int64_t *ret_minor, int64_t *ret_residue_u);
void micro_to_minor(int64_t u, int64_t minor_u, int64_t *ret_minor, int64_t *ret_residue_u);
enum err money_from_minor(int64_t minor, struct currency ccy, struct money *ret_m);
