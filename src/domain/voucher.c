#include "domain/voucher.h"

bool voucher_covers(const struct voucher *v, enum meter meter)
{
    return !v->barred && (v->scope == VOUCHER_SCOPE_ALL || (v->scope & (1u << meter)) != 0);
}

/* True when a pays before b. */
static bool pays_first(const struct voucher *a, const struct voucher *b, int64_t charge_u)
{
    int64_t a_deducts = MIN(a->left_u, charge_u), b_deducts = MIN(b->left_u, charge_u);

    if (a->gift != b->gift)
        return b->gift;
    if (a->expires_s != b->expires_s)
        return a->expires_s < b->expires_s;
    if (a_deducts != b_deducts)
        return a_deducts > b_deducts;
    if (a->left_u != b->left_u)
        return a->left_u < b->left_u;
    return strcmp(a->id, b->id) < 0;
}

void voucher_rank(const struct voucher *v, size_t n, enum meter meter, int64_t at_s,
                  int64_t charge_u, size_t *ret_order, size_t *ret_count)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        size_t place = count;

        if (v[i].left_u <= 0 || v[i].expires_s <= at_s || !voucher_covers(&v[i], meter))
            continue;
        for (; place > 0 && pays_first(&v[i], &v[ret_order[place - 1]], charge_u); place--)
            ret_order[place] = ret_order[place - 1];
        ret_order[place] = i;
        count++;
    }
    *ret_count = count;
}

static int64_t take(int64_t *from_u, int64_t *rest_u)
{
    int64_t u = MIN(MAX(*from_u, (int64_t)0), *rest_u);

    *from_u -= u;
    *rest_u -= u;
    return u;
}

enum err fund_charge(struct funds *f, enum meter meter, int64_t at_s, int64_t charge_u,
                     size_t *order, int64_t *ret_used, struct funding *ret_funding)
{
    size_t count;
    int64_t rest = charge_u;

    if (charge_u < 0)
        return ERR_VALIDATION;
    voucher_rank(f->vouchers, f->voucher_count, meter, at_s, charge_u, order, &count);
    for (size_t i = 0; i < f->voucher_count; i++)
        ret_used[i] = 0;
    for (size_t i = 0; i < count; i++)
        ret_used[order[i]] = take(&f->vouchers[order[i]].left_u, &rest);
    struct funding out = {0};
    out.gift_u = take(&f->gift_u, &rest);
    out.cash_u = take(&f->cash_u, &rest);
    out.credit_u = take(&f->credit_u, &rest);
    out.unpaid_u = rest;
    *ret_funding = out;
    return ERR_OK;
}

enum err fund_available(const struct funds *f, enum meter meter, int64_t at_s, int64_t *ret_u)
{
    int64_t sum = 0;

    for (size_t i = 0; i < f->voucher_count; i++)
        if (f->vouchers[i].expires_s > at_s && voucher_covers(&f->vouchers[i], meter))
            TRY(micro_add(sum, MAX(f->vouchers[i].left_u, (int64_t)0), &sum));
    TRY(micro_add(sum, MAX(f->gift_u, (int64_t)0), &sum));
    TRY(micro_add(sum, MAX(f->cash_u, (int64_t)0), &sum));
    return micro_add(sum, MAX(f->credit_u, (int64_t)0), ret_u);
}

enum err voucher_expire(struct voucher *v, size_t n, int64_t now_s, int64_t *ret_breakage_u)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        if (v[i].expires_s <= now_s)
            TRY(micro_add(sum, v[i].left_u, &sum));
    for (size_t i = 0; i < n; i++)
        if (v[i].expires_s <= now_s)
            v[i].left_u = 0;
    *ret_breakage_u = sum;
    return ERR_OK;
}

int64_t voucher_cut(const struct voucher *v, size_t n, int64_t from_s, int64_t to_s)
{
    int64_t cut = to_s;

    for (size_t i = 0; i < n; i++)
        if (v[i].left_u > 0 && v[i].expires_s > from_s && v[i].expires_s < cut)
            cut = v[i].expires_s;
    return cut;
}

void package_take(int64_t left_qty, int64_t qty, int64_t *ret_covered, int64_t *ret_rest)
{
    *ret_covered = MIN(MAX(left_qty, (int64_t)0), qty);
    *ret_rest = qty - *ret_covered;
}

void fund_topup(int64_t debt_u, int64_t topup_u, int64_t *ret_debt_left_u, int64_t *ret_cash_u)
{
    int64_t paid = MIN(debt_u, topup_u);

    *ret_debt_left_u = debt_u - paid;
    *ret_cash_u = topup_u - paid;
}

int64_t arrears_wipe_s(int64_t zero_s, int64_t retention_s)
{
    int64_t wipe;

    return __builtin_add_overflow(zero_s, retention_s, &wipe) ? INT64_MAX : wipe;
}

enum err arrears_owed(const struct rate *rate, int64_t qty_per_s, int64_t zero_s, int64_t now_s,
                      int64_t retention_s, int64_t *ret_u)
{
    int64_t end = MIN(now_s, arrears_wipe_s(zero_s, retention_s)), qty;

    if (__builtin_mul_overflow(MAX(end - zero_s, (int64_t)0), qty_per_s, &qty))
        return ERR_MONEY_RANGE;
    return rate_total(rate, qty, ret_u);
}
