/* fund_hold.c: what a term's hold is made of, and which part of it a rated second uses.
 *
 *      start          cut (a voucher ends)         until
 *        |--- stretch ---|-------- stretch ----------|
 *   each stretch and meter is funded by itself, for the most it can cost
 *
 * The most: evidence may leave seconds out, so the windows may stand anywhere between where they
 * are and where the plan has them when a stretch begins. F is concave or convex in between, so one
 * of both ends is the worst; one unit more covers where the floors fall. Before the first cut the
 * windows stand where they are, and the plan is exact. */
#include "app/fund_source.h"

/* What a stretch [from, to) of the plan costs at most for one meter; seconds from its start. */
static enum err stretch_cost(const struct term_plan *p, enum meter meter, int64_t from_s,
                             int64_t to_s, int64_t *ret_u)
{
    int64_t sum = 0;

    for (size_t i = 0; i < p->n; i++) {
        const struct term_window *w = &p->w[i];
        int64_t begin = MAX(from_s, w->from_s), end = MIN(to_s, w->to_s), before, low, high = 0;
        struct term_window all = *w;

        if (p->meter[i] != meter || begin >= end)
            continue;
        all.from_s = 0;
        all.to_s = INT64_MAX;
        TRY(term_cost(&all, 1, end - begin, &low));
        before = begin - w->from_s;
        if (before > 0) {
            int64_t qty;

            if (__builtin_mul_overflow(before, w->qty_per_s, &qty) ||
                __builtin_add_overflow(w->qty_from, qty, &all.qty_from))
                return ERR_MONEY_RANGE;
            TRY(term_cost(&all, 1, end - begin, &high));
            TRY(micro_add(MAX(low, high), from_s > 0, &low));
        }
        TRY(micro_add(sum, low, &sum));
    }
    *ret_u = sum;
    return ERR_OK;
}

/* ERR_BALANCE: not all of it can be paid. parts: emptied first. */
static enum err fund_stretches(const struct books *b, const struct fund_sources *s,
                               const struct term_plan *plan, int64_t length_s, int64_t limit_u,
                               struct fund_parts *parts)
{
    struct fund_sources rest = *s;
    int64_t from = 0, sum = 0;

    parts->len = 0;
    rest.f.vouchers = rest.grants;
    while (from < length_s) {
        int64_t until_s = voucher_cut(rest.grants, rest.f.voucher_count, plan->start_s + from,
                                      plan->start_s + length_s);
        int64_t to = until_s - plan->start_s;
        bool last = to == length_s;

        for (enum meter m = 0; m < METER_COUNT; m++) {
            int64_t u, unpaid;

            TRY(stretch_cost(plan, m, from, to, &u));
            if (u == 0)
                continue;
            TRY(micro_add(sum, u, &sum));
            TRY(fund_take(b, &rest, m, plan->sku[m], plan->start_s + from,
                          last ? INT64_MAX : until_s, u, parts, &unpaid));
            if (unpaid > 0)
                return ERR_BALANCE;
        }
        from = to;
    }
    return sum > limit_u || parts->len > FUND_PARTS_MAX ? ERR_BALANCE : ERR_OK;
}

/* Vouchers that end at or after the plan's own end must not pay beyond them either. */
static void bound_parts(const struct fund_sources *s, struct fund_parts *parts)
{
    for (size_t i = 0; i < parts->len; i++)
        for (size_t k = 0; k < s->f.voucher_count; k++)
            if (str_starts(parts->at[i].account, "voucher.") &&
                str_eq(parts->at[i].account + strlen("voucher."), s->grants[k].id))
                parts->at[i].until_s = MIN(parts->at[i].until_s, s->grants[k].expires_s);
}

enum err fund_plan(const struct books *b, const struct fund_sources *s,
                   const struct term_plan *plan, int64_t limit_u, int64_t *io_length_s,
                   struct fund_parts *ret_parts)
{
    int64_t low = 0, high = *io_length_s;
    enum err e = fund_stretches(b, s, plan, high, limit_u, ret_parts);

    if (e != ERR_OK && e != ERR_BALANCE && e != ERR_MONEY_RANGE)
        return e;
    if (e == ERR_OK)
        low = high;
    while (low < high) { /* more seconds never cost less */
        int64_t middle = low + (high - low + 1) / 2;

        e = fund_stretches(b, s, plan, middle, limit_u, ret_parts);
        if (e == ERR_OK)
            low = middle;
        else if (e == ERR_BALANCE || e == ERR_MONEY_RANGE)
            high = middle - 1;
        else
            return e;
    }
    TRY(fund_stretches(b, s, plan, low, INT64_MAX, ret_parts));
    bound_parts(s, ret_parts);
    *io_length_s = low;
    return ERR_OK;
}

enum err fund_use(const struct books *b, struct id lease, enum meter meter, int64_t to_s, int64_t u,
                  struct refusal *why)
{
    struct part_list parts = {0};

    if (u == 0)
        return ERR_OK;
    enum err e = wallet_part_list(b->store, lease, &parts);
    for (size_t i = 0; i < parts.len && u > 0 && e == ERR_OK; i++) {
        struct part_row *p = &parts.at[i];
        int64_t take;

        if ((p->meter != -1 && p->meter != (int32_t)meter) || p->until_s < to_s)
            continue;
        take = MIN(u, p->amount_u - p->used_u);
        if (take == 0)
            continue;
        p->used_u += take;
        u -= take;
        e = wallet_part_used(b->store, p);
    }
    vec_fini(&parts);
    if (e == ERR_OK && u > 0)
        e = refusef(why, ERR_INTERNAL, "why", "lease %s used %" PRId64 " more than its hold",
                    lease.s, u);
    return e;
}
