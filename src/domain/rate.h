/* rate.h: the one rating function (money.md 1.3). Quote, running cost, bill and export all call it.
 *
 * A price is a pair (P, D): P micro-units per D base units. A window with the cumulative quantity Q
 * costs F(Q) = ⌊P·Q/D⌋; a slice that raises Q from a to b is posted as F(b) − F(a), so that any
 * slicing of the same usage gives the same total. Tiers share one D. A cap bounds what each cap_qty
 * of quantity may cost ("best price per 24 h"). All are non-decreasing integer functions of Q.
 * Pure, any thread. Errors: ERR_MONEY_RANGE for what does not fit, ERR_VALIDATION for a bad rate.
 */
#pragma once

#include "domain/money.h"

struct price_rate {
    int64_t p; /* µ, >= 0 */
    int64_t d; /* per this many base units, > 0 */
};

#define RATE_TIERS_MAX 8

struct rate_tier {
    int64_t from; /* base units, inclusive */
    int64_t to;   /* exclusive; INT64_MAX: no end */
    int64_t p;    /* µ per d base units inside the tier */
};

struct rate {
    int64_t d;
    size_t tier_count; /* >= 1; tiers touch, the first begins at 0, the last has no end */
    struct rate_tier tiers[RATE_TIERS_MAX];
    int64_t cap_u;   /* what cap_qty of quantity may cost at most */
    int64_t cap_qty; /* 0: no cap */
};

/* One flat price without a cap. */
enum err rate_flat(struct price_rate price, struct rate *ret_r);
/* Looks at tiers, order and signs. Every other function expects a rate that passed. */
enum err rate_check(const struct rate *r);
/* Multiplies the price by n/d without rounding (a 9.5-fold discount is 95/100); n >= 0, d > 0. */
enum err rate_scale(struct rate *r, int64_t n, int64_t d);
/* F(q); q >= 0. */
enum err rate_total(const struct rate *r, int64_t q, int64_t *ret_u);
/* F(b) − F(a); 0 <= a <= b. */
enum err rate_delta(const struct rate *r, int64_t a, int64_t b, int64_t *ret_u);
/* The largest n with F(a+n) − F(a) <= budget_u (0 when budget_u < 0), at most n_max (T4). */
int64_t rate_affordable(const struct rate *r, int64_t a, int64_t budget_u, int64_t n_max);
/* True when to is dearer than from at any quantity (a rise needs notice; a cut does not). */
bool rate_rises(const struct rate *from, const struct rate *to);
/* "1.98 CNY / 3600 s" of a flat rate, "0.8 CNY / 1073741824 B from 107374182400; …" of tiers. */
void rate_format(const struct rate *r, struct currency ccy, const char *unit, char *buf,
                 size_t size);
#define RATE_TEXT_SIZE 512

/* The same rate in whole numbers only, as it is stored and exported: "P/D", then ";FROM:P" for each
 * further tier, then ",CAP/QTY" when there is a cap. What a tier list alone says is the part
 * between: "FROM:P;FROM:P", "" for one price. buf: RATE_CODE_SIZE and RATE_TIERS_TEXT_SIZE. */
#define RATE_TIERS_TEXT_SIZE 320
#define RATE_CODE_SIZE 420
void rate_code(const struct rate *r, char *buf, size_t size);
void rate_tiers_write(const struct rate *r, char *buf, size_t size);
/* The rate of a first price, a tier list and a cap. ERR_VALIDATION for what rate_check refuses or
 * any other text. */
enum err rate_of_tiers(struct price_rate first, const char *tiers, int64_t cap_u, int64_t cap_qty,
                       struct rate *ret_r);
