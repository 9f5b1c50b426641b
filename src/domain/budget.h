/* budget.h: a cap that is never passed by one unit (money.md 1.7, I16, I18).
 *
 * rest = cap − posted − pending. Terms are granted only inside the rest of every budget that covers
 * the lease. When the rest is below the sum of the next terms of all members, they get one joint
 * last term: the largest t with Σ increments <= rest. Pure. */
#pragma once

#include "domain/term.h"

struct budget {
    int64_t cap_u;
    int64_t posted_u, pending_u;
};

/* Never negative. */
int64_t budget_rest(const struct budget *b);
/* The joint length for all members' windows (each window may start later: its from_s), at most
 * length_s. The result is maximal: one more second of all would pass the rest. */
int64_t budget_joint_seconds(const struct budget *b, const struct term_window *w, size_t n,
                             int64_t length_s);
/* One lease under a shared cap. */
struct budget_member {
    const struct term_window *windows; /* borrowed; from start_s on */
    size_t window_count;
    int64_t start_s;
    int64_t ends_at_s; /* INT64_MAX: no end */
    int64_t held_u;    /* what its hold may still take, whatever is decided now */
};
/* The latest second up to which all members can run on inside room_u (what the cap leaves when
 * nothing is held), at most until_s, at least from_s. Maximal: one more second of all would pass. A
 * member costs what it needs, at least what it holds. */
int64_t budget_joint_until(int64_t room_u, const struct budget_member *m, size_t n, int64_t from_s,
                           int64_t until_s);
/* The highest alert of percents[] (ascending) reached by posted; -1 when none is. */
int budget_alert(const struct budget *b, const int *percents, size_t n);
/* Seconds left at a burn of price (µ per d seconds); INT64_MAX when nothing burns. */
int64_t budget_runway_s(int64_t available_u, const struct term_window *w, size_t n);
