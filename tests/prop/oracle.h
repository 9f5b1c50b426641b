/* oracle.h: exact sums by GMP rationals, for comparison with the integers of the domain. */
#pragma once

#include <gmp.h>

#include "domain/rate.h"
#include "tape.h"

/* ⌊Σ P·quantity / D⌋ with tiers and cap, in integers without limit. */
static inline void oracle_total(mpz_t ret, const struct rate *r, int64_t q)
{
    mpz_t part, whole;

    mpz_init(part);
    mpz_init_set_ui(whole, 0);
    mpz_set_ui(ret, 0);
    int64_t full = r->cap_qty > 0 ? q / r->cap_qty : 0;
    int64_t rest = r->cap_qty > 0 ? q % r->cap_qty : q;
    for (int round = 0; round < 2; round++) {
        int64_t upto = round == 0 ? rest : r->cap_qty;
        mpz_set_ui(whole, 0);
        for (size_t i = 0; i < r->tier_count; i++) {
            int64_t in_tier = MIN(upto, r->tiers[i].to) - r->tiers[i].from;
            if (in_tier <= 0)
                continue;
            mpz_set_si(part, in_tier);
            mpz_mul_si(part, part, r->tiers[i].p);
            mpz_add(whole, whole, part);
        }
        mpz_set_si(part, r->d);
        mpz_fdiv_q(whole, whole, part);
        if (r->cap_qty > 0 && mpz_cmp_si(whole, r->cap_u) > 0)
            mpz_set_si(whole, r->cap_u);
        mpz_mul_si(whole, whole, round == 0 ? 1 : full);
        mpz_add(ret, ret, whole);
    }
    mpz_clear(part);
    mpz_clear(whole);
}

/* A price, plain first: flat, then tiers, then a cap. */
static inline struct rate oracle_rate(struct tape *t, int64_t p_max)
{
    struct rate r = {.d = 1 + tape_size(t, INT64_C(1) << 40), .tier_count = 1};
    uint64_t kind = tape_below(t, 4);

    r.tiers[0] = (struct rate_tier){0, INT64_MAX, tape_size(t, p_max)};
    if (kind == 2) {
        r.tier_count = 1 + tape_below(t, RATE_TIERS_MAX);
        for (size_t i = 0; i < r.tier_count; i++) {
            r.tiers[i].from = i ? r.tiers[i - 1].to : 0;
            r.tiers[i].to = r.tiers[i].from + 1 + tape_size(t, 100000);
            r.tiers[i].p = tape_size(t, p_max);
        }
        r.tiers[r.tier_count - 1].to = INT64_MAX;
    }
    if (kind == 3) {
        r.cap_qty = 1 + tape_size(t, 86400);
        r.cap_u = tape_size(t, INT64_C(1) << 40);
    }
    return r;
}
