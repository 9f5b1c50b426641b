#include "domain/refund.h"

enum err refund_pro_rata(int64_t paid_u, int64_t used, int64_t total, int64_t *ret_consumed_u)
{
    if (paid_u < 0 || total <= 0)
        return ERR_VALIDATION;
    return micro_mul_div(paid_u, MIN(MAX(used, (int64_t)0), total), total, ret_consumed_u);
}

enum err refund_claw_back(int64_t paid_u, int64_t used_s, int64_t total_s,
                          const struct rate *ondemand, int64_t qty_per_s, int64_t fee_n,
                          int64_t fee_d, struct refund_clawback *ret_c)
{
    struct refund_clawback c = {0};
    int64_t used = MIN(MAX(used_s, (int64_t)0), total_s), qty, plan_part, sum;

    if (fee_n < 0 || qty_per_s < 0)
        return ERR_VALIDATION;
    TRY(refund_pro_rata(paid_u, used, total_s, &plan_part));
    if (__builtin_mul_overflow(used, qty_per_s, &qty))
        return ERR_MONEY_RANGE;
    TRY(rate_total(ondemand, qty, &c.ondemand_used_u));
    c.discount_enjoyed_u = MAX(c.ondemand_used_u - plan_part, (int64_t)0);
    TRY(micro_mul_div(c.discount_enjoyed_u, fee_n, fee_d, &c.fee_u));
    TRY(micro_add(c.ondemand_used_u, c.fee_u, &sum));
    c.consumed_u = MIN(sum, paid_u);
    *ret_c = c;
    return ERR_OK;
}

enum err refund_split(struct refund_paid paid, int64_t consumed_u, struct refund *ret_r)
{
    struct refund r = {.consumed_u = consumed_u};
    int64_t money, back[2];
    struct bill_share scratch[2];

    if (paid.voucher_u < 0 || paid.gift_u < 0 || paid.cash_u < 0 || consumed_u < 0)
        return ERR_VALIDATION;
    TRY(micro_add(paid.gift_u, paid.cash_u, &money));
    TRY(micro_add(money, paid.voucher_u, &r.paid_u));
    if (consumed_u > r.paid_u)
        return ERR_VALIDATION;
    int64_t by_voucher = MIN(paid.voucher_u, consumed_u);
    r.voucher_forfeit_u = paid.voucher_u - by_voucher;
    r.refund_u = money - (consumed_u - by_voucher);
    const int64_t weights[2] = {paid.gift_u, paid.cash_u};
    TRY(bill_split(r.refund_u, weights, 2, scratch, back));
    r.gift_u = back[0];
    r.cash_u = back[1];
    *ret_r = r;
    return ERR_OK;
}

enum err refund_recognised(int64_t paid_u, int64_t from_s, int64_t to_s, int64_t at_s,
                           int64_t *ret_u)
{
    return refund_pro_rata(paid_u, at_s - from_s, to_s - from_s, ret_u);
}
