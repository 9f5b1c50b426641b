/* refund.h: early release of a plan, reversals (money.md 1.4, 1.7; I15, I25).
 *
 * consumed is computed, refund = the complement, so that consumed + refund + forfeit = paid. The
 * voucher part is used up first and never comes back; what is left of it lapses. The rest returns
 * to gift and cash in the ratio they were paid. Pure. */
#pragma once

#include "domain/bill.h"

struct refund_paid {
    int64_t voucher_u, gift_u, cash_u;
};
struct refund {
    int64_t paid_u, consumed_u, refund_u;
    int64_t gift_u, cash_u;    /* parts of refund_u */
    int64_t voucher_forfeit_u; /* unused voucher money that lapses */
};
/* ⌊paid·used/total⌋; used is cut to [0, total]. */
enum err refund_pro_rata(int64_t paid_u, int64_t used, int64_t total, int64_t *ret_consumed_u);

struct refund_clawback {
    int64_t ondemand_used_u;    /* what the used time would have cost on demand */
    int64_t discount_enjoyed_u; /* that minus the pro-rata part of the plan; >= 0 */
    int64_t fee_u;              /* ⌊discount·fee⌋ */
    int64_t consumed_u;         /* ondemand + fee, at most what was paid */
};
enum err refund_claw_back(int64_t paid_u, int64_t used_s, int64_t total_s,
                          const struct rate *ondemand, int64_t qty_per_s, int64_t fee_n,
                          int64_t fee_d, struct refund_clawback *ret_c);
/* Who gets what back when consumed_u (<= Σ paid) of a purchase was used. */
enum err refund_split(struct refund_paid paid, int64_t consumed_u, struct refund *ret_r);
/* Part of a plan's price that is earned by at_s: ⌊paid·(at−from)/(to−from)⌋. Months recognise the
 * difference between their borders, so the parts add up. */
enum err refund_recognised(int64_t paid_u, int64_t from_s, int64_t to_s, int64_t at_s,
                           int64_t *ret_u);
