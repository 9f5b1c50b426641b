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
