#include "domain/term.h"

enum err term_cost(const struct term_window *w, size_t n, int64_t t_s, int64_t *ret_u)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t active = MIN(t_s, w[i].to_s) - w[i].from_s, qty, end, u;

        if (active <= 0)
            continue;
        if (__builtin_mul_overflow(active, w[i].qty_per_s, &qty) ||
            __builtin_add_overflow(w[i].qty_from, qty, &end))
            return ERR_MONEY_RANGE;
        TRY(rate_delta(w[i].rate, w[i].qty_from, end, &u));
        TRY(micro_add(sum, u, &sum));
    }
    *ret_u = sum;
    return ERR_OK;
}

/* A cost that cannot be counted is one that nobody can pay. */
static bool covers(const struct term_window *w, size_t n, int64_t t_s, int64_t limit_u)
{
    int64_t u;

    return term_cost(w, n, t_s, &u) == ERR_OK && u <= limit_u;
}

int64_t term_seconds(const struct term_window *w, size_t n, int64_t limit_u, int64_t t_max_s)
{
    int64_t low = 0, high = t_max_s;

    if (limit_u < 0 || t_max_s <= 0)
        return 0;
    if (covers(w, n, t_max_s, limit_u))
        return t_max_s;
    while (low < high) { /* cost is monotone in t: low is covered, above high is not */
        int64_t middle = low + (high - low) / 2 + 1;
        if (covers(w, n, middle, limit_u))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

enum err term_grant(const struct term_ask *ask, struct term *ret_term)
{
    struct term t = {.length_s = ask->length_s, .limit = TERM_FULL};
    int64_t to_end;

    if (ask->length_s < 0)
        return ERR_VALIDATION;
    if (!__builtin_sub_overflow(ask->ends_at_s, ask->start_s, &to_end) && to_end < t.length_s) {
        t.length_s = MAX(to_end, 0);
        t.limit = TERM_BY_END;
    }
    int64_t s = term_seconds(ask->windows, ask->window_count, ask->available_u, t.length_s);
    if (s < t.length_s) {
        t.length_s = s;
        t.limit = TERM_BY_FUNDS;
    }
    for (size_t i = 0; i < ask->budget_count; i++) {
        s = term_seconds(ask->windows, ask->window_count, ask->budget_rest_u[i], t.length_s);
        if (s < t.length_s) {
            t.length_s = s;
            t.limit = TERM_BY_BUDGET;
            t.budget = i;
        }
    }
    TRY(term_cost(ask->windows, ask->window_count, t.length_s, &t.hold_u));
    if (__builtin_add_overflow(ask->start_s, t.length_s, &t.paid_until_s))
        return ERR_MONEY_RANGE;
    *ret_term = t;
    return ERR_OK;
}

enum err term_gate(const struct term_window *w, size_t n, int64_t whole_s, struct money available,
                   int64_t *ret_need_u, struct refusal *why)
{
    int64_t compute_s = whole_s > 0 ? MIN(whole_s, TERM_GATE_COMPUTE_S) : TERM_GATE_COMPUTE_S;
    int64_t need = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t u;

        if (term_cost(&w[i], 1, w[i].disk ? TERM_GATE_DISK_S : compute_s, &u) != ERR_OK ||
            micro_add(need, u, &need) != ERR_OK)
            return refuse(why, ERR_MONEY_RANGE);
    }
    *ret_need_u = need;
    if (available.u >= need)
        return ERR_OK;

    char text[MONEY_TEXT_SIZE + 8];
    int64_t have = MAX(available.u, 0);
    enum err e = refuse(why, ERR_BALANCE);
    money_format_ccy(money_of(need - have, available.ccy), text, sizeof(text));
    refusal_set(why, "short", text);
    money_format_ccy(money_of(need, available.ccy), text, sizeof(text));
    refusal_set(why, "need", text);
    money_format_ccy(money_of(have, available.ccy), text, sizeof(text));
    refusal_set(why, "have", text);
    return e;
}

enum err term_fund(int64_t amount_u, const int64_t *have_u, size_t n, int64_t *ret_used_u)
{
    int64_t rest = amount_u;

    if (amount_u < 0)
        return ERR_VALIDATION;
    for (size_t i = 0; i < n; i++) {
        ret_used_u[i] = MIN(rest, MAX(have_u[i], 0));
        rest -= ret_used_u[i];
    }
    return rest == 0 ? ERR_OK : ERR_BALANCE;
}

enum err term_settle(int64_t hold_u, int64_t used_u, int64_t *ret_posted_u, int64_t *ret_released_u)
{
    if (used_u < 0 || used_u > hold_u)
        return ERR_INTERNAL;
    *ret_posted_u = used_u;
    *ret_released_u = hold_u - used_u;
    return ERR_OK;
}
