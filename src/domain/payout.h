/* payout.h: who gets what of a charge, and when it is paid out (money.md 1.3 T5, 1.7; I26).
 *
 * Party j has the cumulative share S_j(G) = ⌊G·n_j/d_j⌋ of the gross G, the last party the rest, so
 * the shares of any slicing telescope and add up to G. Of a single slice the rest can be below 0 by
 * less than a micro-unit for each other party, so the charge is booked to the last party whole and
 * the others' shares, which only grow, are moved out of it. A refund lowers G; what was paid out
 * before is recovered once, from the next payouts. Also currency exchange: two linked transfers
 * through the liquidity accounts, floors in their favour, the spread as its own line. Pure. */
#pragma once

#include "domain/money.h"

#define PAYOUT_PARTIES_MAX 8

struct payout_share {
    int64_t n, d; /* d = 0: the rest (last party only, and the last is always the rest) */
};
/* Cumulative shares of gross_u (n parties). ERR_VALIDATION when the shares pass the whole. */
enum err payout_total(const struct payout_share *shares, size_t n, int64_t gross_u,
                      int64_t *ret_total_u);
/* Shares of the slice that raises the gross from a to b; negative parts when b < a (a refund). */
enum err payout_delta(const struct payout_share *shares, size_t n, int64_t a_u, int64_t b_u,
                      int64_t *ret_part_u);

/* One payout run: earned (may be negative after refunds) joins the carried rest; paid out whole
 * when it reaches the threshold (and is above 0), else carried on. */
enum err payout_run(int64_t carried_u, int64_t earned_u, int64_t threshold_u, int64_t *ret_paid_u,
                    int64_t *ret_carried_u);

struct exchange {
    int64_t fee_u;       /* in the source currency: ⌊src·spread⌋ */
    int64_t converted_u; /* src − fee */
    int64_t dst_u;       /* ⌊converted·rate⌋ */
};
/* rate = n/d of dst per src; spread_n/spread_d of the source amount (0/1: none). */
enum err exchange_compute(int64_t src_u, int64_t rate_n, int64_t rate_d, int64_t spread_n,
                          int64_t spread_d, struct exchange *ret_e);
