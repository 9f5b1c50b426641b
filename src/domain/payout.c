#include "domain/payout.h"

enum err payout_total(const struct payout_share *shares, size_t n, int64_t gross_u,
                      int64_t *ret_total_u)
{
    int64_t given = 0;

    if (n < 1 || n > PAYOUT_PARTIES_MAX || gross_u < 0)
        return ERR_VALIDATION;
    for (size_t i = 0; i + 1 < n; i++) {
        if (shares[i].n < 0 || shares[i].d <= 0)
            return ERR_VALIDATION;
        TRY(micro_mul_div(gross_u, shares[i].n, shares[i].d, &ret_total_u[i]));
        TRY(micro_add(given, ret_total_u[i], &given));
    }
    if (given > gross_u)
        return ERR_VALIDATION;
    ret_total_u[n - 1] = gross_u - given;
    return ERR_OK;
}

enum err payout_delta(const struct payout_share *shares, size_t n, int64_t a_u, int64_t b_u,
                      int64_t *ret_part_u)
{
    int64_t before[PAYOUT_PARTIES_MAX], after[PAYOUT_PARTIES_MAX];

    TRY(payout_total(shares, n, a_u, before));
    TRY(payout_total(shares, n, b_u, after));
    for (size_t i = 0; i < n; i++)
        ret_part_u[i] = after[i] - before[i];
    return ERR_OK;
}

enum err payout_run(int64_t carried_u, int64_t earned_u, int64_t threshold_u, int64_t *ret_paid_u,
                    int64_t *ret_carried_u)
{
    int64_t due;

    TRY(micro_add(carried_u, earned_u, &due));
    bool pays = due > 0 && due >= threshold_u;
    *ret_paid_u = pays ? due : 0;
    *ret_carried_u = pays ? 0 : due;
    return ERR_OK;
}

enum err exchange_compute(int64_t src_u, int64_t rate_n, int64_t rate_d, int64_t spread_n,
                          int64_t spread_d, struct exchange *ret_e)
{
    struct exchange e;

    if (src_u < 0 || rate_n <= 0 || spread_n < 0 || spread_n > spread_d)
        return ERR_VALIDATION;
    TRY(micro_mul_div(src_u, spread_n, spread_d, &e.fee_u));
    e.converted_u = src_u - e.fee_u;
    TRY(micro_mul_div(e.converted_u, rate_n, rate_d, &e.dst_u));
    *ret_e = e;
    return ERR_OK;
}
