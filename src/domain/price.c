#include "domain/price.h"

enum err price_at(const struct price_version *v, size_t n, int64_t t_s, size_t *ret_index)
{
    for (size_t i = n; i-- > 0;)
        if (v[i].valid_from_s <= t_s) {
            *ret_index = i;
            return ERR_OK;
        }
    return ERR_PRICE_UNKNOWN;
}

/* The second at which version j would bind a running lease that is bound by cur now. */
static int64_t binds_from(const struct price_version *cur, const struct price_version *j)
{
    int64_t noticed;

    if (!rate_rises(&cur->rate, &j->rate))
        return j->valid_from_s;
    if (__builtin_add_overflow(j->announced_s, j->notice_s, &noticed))
        return INT64_MAX;
    return MAX(noticed, j->valid_from_s);
}

/* The first change after cur took over at now_s: a later version whose turn comes first. */
static bool next_binding(const struct price_version *v, size_t n, size_t cur, int64_t now_s,
                         size_t *ret_next, int64_t *ret_at_s)
{
    bool found = false;

    for (size_t j = cur + 1; j < n; j++) {
        int64_t at = MAX(binds_from(&v[cur], &v[j]), now_s);
        if (!found || at <= *ret_at_s) {
            *ret_next = j;
            *ret_at_s = at;
            found = true;
        }
    }
    return found;
}

enum err price_split(const struct price_version *v, size_t n, int64_t started_s, int64_t from_s,
                     int64_t to_s, struct price_part *ret_parts, size_t max, size_t *ret_count)
{
    size_t cur, next = 0, count = 0;
    int64_t now = started_s, at = 0;

    if (from_s >= to_s) {
        *ret_count = 0;
        return ERR_OK;
    }
    if (started_s > from_s)
        return ERR_VALIDATION;
    TRY(price_at(v, n, started_s, &cur));
    while (now < to_s) {
        bool more = next_binding(v, n, cur, now, &next, &at);
        int64_t end = more ? MIN(at, to_s) : to_s;
        if (end > from_s && end > now) {
            if (count == max)
                return ERR_TOO_LARGE;
            ret_parts[count++] = (struct price_part){cur, MAX(now, from_s), end};
        }
        now = end;
        if (more)
            cur = next;
    }
    *ret_count = count;
    return ERR_OK;
}

int64_t price_binds_at(const struct price_version *v, size_t n, int64_t started_s, size_t index)
{
    int64_t now = started_s, at = 0;
    size_t cur, next = 0;

    if (price_at(v, n, started_s, &cur) != ERR_OK)
        return INT64_MAX;
    while (cur != index) {
        if (!next_binding(v, n, cur, now, &next, &at))
            return INT64_MAX;
        cur = next;
        now = at;
    }
    return now;
}

enum err price_split_months(const struct zone *z, struct price_part *parts, size_t max,
                            size_t *io_count)
{
    for (size_t i = 0; i < *io_count; i++) {
        struct period month;

        period_month_at(z, parts[i].from_s, &month);
        if (parts[i].to_s <= month.to_s)
            continue;
        if (*io_count == max)
            return ERR_TOO_LARGE;
        memmove(&parts[i + 1], &parts[i], (*io_count - i) * sizeof(parts[0]));
        (*io_count)++;
        parts[i].to_s = month.to_s;
        parts[i + 1].from_s = month.to_s;
    }
    return ERR_OK;
}

/* a < b as fractions */
bool price_cheaper(struct price_rate a, struct price_rate b)
{
    return (__int128)a.p * b.d < (__int128)b.p * a.d;
}

enum err spot_rate_run(const struct spot_tick *ticks, size_t n, int64_t from_s, int64_t to_s,
                       int64_t qty_per_s, struct price_rate bid, struct spot_part *ret_parts,
                       size_t max, size_t *ret_count, int64_t *ret_total_u)
{
    size_t count = 0;
    int64_t total = 0;

    if (from_s < to_s && (n == 0 || ticks[0].at_s > from_s))
        return ERR_PRICE_UNKNOWN;
    for (size_t i = 0; i < n && qty_per_s >= 0; i++) {
        int64_t begin = MAX(ticks[i].at_s, from_s), qty;
        int64_t end = i + 1 < n ? MIN(ticks[i + 1].at_s, to_s) : to_s;
        struct spot_part part = {.from_s = begin, .to_s = end, .price = ticks[i].price};
        struct rate rate;

        if (end <= begin)
            continue;
        if (count == max)
            return ERR_TOO_LARGE;
        if (bid.d > 0 && price_cheaper(bid, part.price))
            part.price = bid;
        TRY(rate_flat(part.price, &rate));
        if (__builtin_mul_overflow(end - begin, qty_per_s, &qty))
            return ERR_MONEY_RANGE;
        TRY(rate_total(&rate, qty, &part.charge_u));
        TRY(micro_add(total, part.charge_u, &total));
        ret_parts[count++] = part;
    }
    *ret_count = count;
    *ret_total_u = total;
    return ERR_OK;
}

enum err spot_second_max(struct price_rate bid, int64_t qty_per_s, int64_t *ret_u)
{
    int64_t u;

    if (bid.p < 0 || qty_per_s < 0)
        return ERR_VALIDATION;
    TRY(micro_mul_div(bid.p, qty_per_s, bid.d, &u));
    return micro_add(u, 2, ret_u); /* ⌈x⌉ + 1 <= ⌊x⌋ + 2 */
}

bool spot_is_free(int64_t from_s, int64_t to_s, bool ended_by_platform, int64_t free_within_s)
{
    return ended_by_platform && to_s - from_s <= free_within_s;
}
