/* funds_plan.h: reserved plans in the books (money.md 1.4, 1.7; domain/plan.h).
 *
 *   bought      sources → deferred.<plan> (kind purchase); a price version of its own that costs 0
 *   its seconds windows at that version: rated, quoted, billed and proven like any other
 *   month ends  deferred.<plan> → revenue.compute (kind recognise): ⌊paid·t⌋ of what is over
 *   released    deferred.<plan> → back to what paid, by the policy it was bought under
 *
 * A plan covers the cards of one instance, as many as it was bought for or fewer; its seat without
 * cards and its disks are paid as ever. Core thread; errors as in funds.h. */
#pragma once

#include "app/funds_int.h"
#include "domain/plan.h"
#include "store/rows_plan.h"

/* Cuts where plans of r's instance begin or end, and then packages. ERR_TOO_LARGE. */
enum err cover_split(const struct books *b, const struct rating *r, int64_t from_s, int64_t to_s,
                     struct cover ret_c[COVERS_MAX], size_t *ret_n);
/* What a covered second costs. */
struct rate cover_rate(void);

struct plan_ask {
    struct id id, price; /* "pln_…", "prc_…": new */
    struct id instance;
    const char *gpu; /* model; borrowed */
    int64_t cards;
    enum calendar_unit unit;
    bool renew, go_on;
    struct funds_spender spender; /* whose budgets it counts for */
};
/* What a term that begins now would be; nothing is written. ERR_PRICE_UNKNOWN: not offered;
 * ERR_PLAN_COVERED: a plan covers it already. */
enum err plan_quote(const struct books *b, const struct plan_ask *ask, struct plan_row *ret_p,
                    struct refusal *why);
/* plan_quote, and from now on its seconds are covered; it is not paid yet: plan_pay, in the same
 * savepoint. */
enum err plan_open(const struct books *b, const struct plan_ask *ask, struct plan_row *ret_p,
                   struct refusal *why);
/* ERR_BALANCE, ERR_BUDGET. */
enum err plan_pay(const struct books *b, const struct plan_row *p,
                  const struct funds_spender *spender, struct refusal *why);
/* The hold of the instance's lease is made anew: less while a plan covers it. */
enum err plan_rehold(const struct books *b, struct id instance, struct refusal *why);
/* The next term at today's price, paid. Its id and price version are new. */
enum err plan_renew(const struct books *b, struct plan_row *p, struct id id, struct id price,
                    const struct funds_spender *spender, struct plan_row *ret_next,
                    struct refusal *why);

struct plan_back {
    int64_t consumed_u, refund_u, lapsed_u; /* sum: paid */
};
/* Ends it at a second (whole: as if it had never been, for what never ran), gives back the rest. */
enum err plan_release(const struct books *b, struct plan_row *p, bool whole,
                      struct plan_back *ret_back, struct refusal *why);
/* What of paid_u would be used up when it were left now. */
enum err plan_used(const struct books *b, const struct plan_row *p, int64_t *ret_u);
/* What of paid_u is earned by at_s. */
enum err plan_earned(const struct plan_row *p, int64_t at_s, int64_t *ret_u);
/* Books what was earned up to the last month border, or all when it is over. */
enum err plan_recognise(const struct books *b, struct plan_row *p, struct refusal *why);
