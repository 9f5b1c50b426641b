/* term.h: what may run next, and for how long (money.md 1.9, product.md 4).
 *
 * A lease runs in terms. Before a term, F(Q+n·L) − F(Q) of every meter is held; the term is made
 * shorter (to the second, and maximal) when funds or a budget would not cover it. So
 * posted + pending <= funds at every commit. Pure. */
#pragma once

#include "domain/ledger.h"
#include "domain/rate.h"

#define TERM_DEFAULT_S 600
#define TERM_GATE_COMPUTE_S 3600
#define TERM_GATE_DISK_S 86400

/* One rating window during a term (or any interval that is planned). */
struct term_window {
    const struct rate *rate; /* borrowed */
    int64_t qty_from;        /* cumulative quantity already rated in this window */
    int64_t qty_per_s;
    int64_t from_s, to_s; /* active part, seconds from the start of the term; to_s INT64_MAX: all */
    bool disk;            /* counts towards the 24 h of the start gate, not the first hour */
};

/* Σ F(Q+n·t) − F(Q) of all windows when they run t seconds. */
enum err term_cost(const struct term_window *w, size_t n, int64_t t_s, int64_t *ret_u);
/* The largest t <= t_max_s whose cost is <= limit_u; 0 when even one second is too much. */
int64_t term_seconds(const struct term_window *w, size_t n, int64_t limit_u, int64_t t_max_s);

enum term_limit { TERM_FULL, TERM_BY_END, TERM_BY_FUNDS, TERM_BY_BUDGET };

struct term_ask {
    const struct term_window *windows; /* borrowed */
    size_t window_count;
    int64_t start_s;              /* where this term begins: the old paid_until, or now */
    int64_t length_s;             /* wanted: TERM_DEFAULT_S */
    int64_t ends_at_s;            /* INT64_MAX: no end */
    int64_t available_u;          /* all sources together */
    const int64_t *budget_rest_u; /* borrowed; rest of every budget that binds this lease */
    size_t budget_count;
};
struct term {
    int64_t length_s; /* 0: nothing more may run */
    int64_t hold_u;
    int64_t paid_until_s;
    enum term_limit limit; /* what made it shorter than wanted */
    size_t budget;         /* index, when limit is TERM_BY_BUDGET */
};
enum err term_grant(const struct term_ask *ask, struct term *ret_term);

/* Start gate: the first hour (whole_s, if shorter; 0: open end) of compute and 24 h of disk must be
 * covered. ret_need_u is set either way. ERR_BALANCE with short, need, have. */
enum err term_gate(const struct term_window *w, size_t n, int64_t whole_s, struct money available,
                   int64_t *ret_need_u, struct refusal *why);

/* Spreads amount_u over sources in deduction order: ret_used_u[i] <= have_u[i]. ERR_BALANCE when
 * they do not suffice. Used for holds (have: available) and for settling (have: held). */
enum err term_fund(int64_t amount_u, const int64_t *have_u, size_t n, int64_t *ret_used_u);

/* End of a term: used_u of hold_u is posted, the rest released. used_u > hold_u cannot be: the term
 * was granted for its whole length (ERR_INTERNAL). */
enum err term_settle(int64_t hold_u, int64_t used_u, int64_t *ret_posted_u,
                     int64_t *ret_released_u);
