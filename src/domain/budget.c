#include "domain/budget.h"

int64_t budget_rest(const struct budget *b)
{
    int64_t committed, rest;

    if (__builtin_add_overflow(b->posted_u, b->pending_u, &committed) ||
        __builtin_sub_overflow(b->cap_u, committed, &rest))
        return 0;
    return MAX(rest, 0);
}

int64_t budget_joint_seconds(const struct budget *b, const struct term_window *w, size_t n,
                             int64_t length_s)
{
    return term_seconds(w, n, budget_rest(b), length_s);
}

/* Members up to until_s inside room_u; what cannot be counted is not. */
static bool joint_fits(int64_t room_u, const struct budget_member *m, size_t n, int64_t until_s)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t run = MAX(MIN(until_s, m[i].ends_at_s) - m[i].start_s, (int64_t)0), u;

        if (term_cost(m[i].windows, m[i].window_count, run, &u) != ERR_OK ||
            micro_add(sum, MAX(u, m[i].held_u), &sum) != ERR_OK)
            return false;
    }
    return sum <= room_u;
}

int64_t budget_joint_until(int64_t room_u, const struct budget_member *m, size_t n, int64_t from_s,
                           int64_t until_s)
{
    int64_t low = from_s, high = until_s;

    if (high <= low || joint_fits(room_u, m, n, high))
        return MAX(high, low);
    while (low < high) { /* monotone in time: low fits or is the start, above high does not */
        int64_t middle = low + (high - low) / 2 + 1;

        if (joint_fits(room_u, m, n, middle))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

int budget_alert(const struct budget *b, const int *percents, size_t n)
{
    int reached = -1;

    for (size_t i = 0; i < n; i++)
        if ((__int128)b->posted_u * 100 >= (__int128)b->cap_u * percents[i])
            reached = percents[i];
    return reached;
}

int64_t budget_runway_s(int64_t available_u, const struct term_window *w, size_t n)
{
    const int64_t for_ever = INT64_C(100) * 366 * 86400;
    int64_t s = term_seconds(w, n, available_u, for_ever);

    return s == for_ever ? INT64_MAX : s;
}
