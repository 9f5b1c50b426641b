#include "domain/rate.h"

#include "base/str.h"

typedef unsigned __int128 wide;

enum err rate_flat(struct price_rate price, struct rate *ret_r)
{
    struct rate r = {.d = price.d, .tier_count = 1, .tiers = {{0, INT64_MAX, price.p}}};

    TRY(rate_check(&r));
    *ret_r = r;
    return ERR_OK;
}

enum err rate_check(const struct rate *r)
{
    if (r->d <= 0 || r->tier_count < 1 || r->tier_count > RATE_TIERS_MAX || r->tiers[0].from != 0 ||
        r->cap_qty < 0 || r->cap_u < 0)
        return ERR_VALIDATION;
    for (size_t i = 0; i < r->tier_count; i++) {
        const struct rate_tier *t = &r->tiers[i];
        bool last = i + 1 == r->tier_count;

        if (t->p < 0 || t->to <= t->from || (t->to == INT64_MAX) != last ||
            (!last && r->tiers[i + 1].from != t->to))
            return ERR_VALIDATION;
    }
    return ERR_OK;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

enum err rate_scale(struct rate *r, int64_t n, int64_t d)
{
    struct rate out = *r;

    if (n < 0 || d <= 0)
        return ERR_VALIDATION;
    int64_t g = gcd(d, n);
    n /= g;
    d /= g;
    /* what all prices share with the new denominator cancels, so long chains of discounts fit */
    int64_t common = d;
    for (size_t i = 0; i < r->tier_count; i++)
        common = gcd(common, r->tiers[i].p);
    d /= common;
    if (__builtin_mul_overflow(r->d, d, &out.d))
        return ERR_MONEY_RANGE;
    for (size_t i = 0; i < r->tier_count; i++)
        if (__builtin_mul_overflow(r->tiers[i].p / common, n, &out.tiers[i].p))
            return ERR_MONEY_RANGE;
    TRY(rate_check(&out));
    *r = out;
    return ERR_OK;
}

/* Σ P·quantity over the tiers. Tiers do not overlap, so it stays below 2^63 · 2^63. */
static wide tier_sum(const struct rate *r, int64_t q)
{
    wide sum = 0;

    for (size_t i = 0; i < r->tier_count && r->tiers[i].from < q; i++)
        sum += (wide)r->tiers[i].p * (uint64_t)(MIN(q, r->tiers[i].to) - r->tiers[i].from);
    return sum;
}

enum err rate_total(const struct rate *r, int64_t q, int64_t *ret_u)
{
    wide u;

    if (q < 0)
        return ERR_VALIDATION;
    if (r->cap_qty > 0) {
        wide whole = MIN(tier_sum(r, r->cap_qty) / (uint64_t)r->d, (wide)r->cap_u);
        wide rest = MIN(tier_sum(r, q % r->cap_qty) / (uint64_t)r->d, (wide)r->cap_u);
        u = whole * (uint64_t)(q / r->cap_qty) + rest;
    } else {
        u = tier_sum(r, q) / (uint64_t)r->d;
    }
    if (u > INT64_MAX)
        return ERR_MONEY_RANGE;
    *ret_u = (int64_t)u;
    return ERR_OK;
}

enum err rate_delta(const struct rate *r, int64_t a, int64_t b, int64_t *ret_u)
{
    int64_t before, after;

    if (a < 0 || b < a)
        return ERR_VALIDATION;
    TRY(rate_total(r, a, &before));
    TRY(rate_total(r, b, &after));
    *ret_u = after - before;
    return ERR_OK;
}

static bool affords(const struct rate *r, int64_t a, int64_t n, int64_t budget_u)
{
    int64_t b, u;

    return !__builtin_add_overflow(a, n, &b) && rate_delta(r, a, b, &u) == ERR_OK && u <= budget_u;
}

/* T4 in closed form for one price counted from zero: ((B+1)·D − 1) div P. */
static int64_t affordable_flat(const struct rate *r, int64_t budget_u, int64_t n_max)
{
    wide q = (((wide)budget_u + 1) * (uint64_t)r->d - 1) / (uint64_t)r->tiers[0].p;

    return q < (wide)n_max ? (int64_t)q : n_max;
}

int64_t rate_affordable(const struct rate *r, int64_t a, int64_t budget_u, int64_t n_max)
{
    int64_t low = 0, high = n_max;

    if (budget_u < 0 || n_max <= 0)
        return 0;
    if (a == 0 && r->tier_count == 1 && r->cap_qty == 0 && r->tiers[0].p > 0)
        return affordable_flat(r, budget_u, n_max);
    /* F is monotone: low is affordable, everything above high is not */
    while (low < high) {
        int64_t middle = low + (high - low) / 2 + 1;
        if (affords(r, a, middle, budget_u))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

bool rate_rises(const struct rate *from, const struct rate *to)
{
    size_t i = 0, j = 0;

    while (i < from->tier_count && j < to->tier_count) {
        if ((wide)to->tiers[j].p * (uint64_t)from->d > (wide)from->tiers[i].p * (uint64_t)to->d)
            return true;
        int64_t end = MIN(from->tiers[i].to, to->tiers[j].to);
        bool both = from->tiers[i].to == to->tiers[j].to;
        if (both || from->tiers[i].to == end)
            i++;
        if (both || to->tiers[j].to == end)
            j++;
    }
    /* losing a cap, or a dearer one, is a rise as well; other cap lengths are not comparable */
    if (from->cap_qty == 0)
        return false;
    return to->cap_qty != from->cap_qty || to->cap_u > from->cap_u;
}

void rate_format(const struct rate *r, struct currency ccy, const char *unit, char *buf,
                 size_t size)
{
    char amount[MONEY_TEXT_SIZE], piece[120];
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, size - 1);
    for (size_t i = 0; i < r->tier_count; i++) {
        money_format_ccy(money_of(r->tiers[i].p, ccy), amount, sizeof(amount));
        bool ok = str_printf(piece, sizeof(piece), "%s%s / %" PRId64 " %s", i ? "; " : "", amount,
                             r->d, unit);
        strbuf_add(&b, ok ? piece : "");
        if (r->tiers[i].from > 0)
            strbuf_addf(&b, " from %" PRId64, r->tiers[i].from);
    }
    if (r->cap_qty > 0) {
        money_format_ccy(money_of(r->cap_u, ccy), amount, sizeof(amount));
        strbuf_addf(&b, ", at most %s per %" PRId64 " %s", amount, r->cap_qty, unit);
    }
    bool ok = str_copy(buf, size, strbuf_str(&b));
    CHECK(ok);
}
