/* funds_int.h: inside app/funds*.c and the money operations. See funds.h for the rules. */
#pragma once

#include "app/funds.h"
#include "store/rows_money.h"

#define FUNDS_HOLD_KEEP_S DAY_S /* a hold lives that long after paid_until, then it is settled */
#define FUNDS_POST_EVERY_S 3600 /* disk time outside of leases is posted that often by itself */
#define FUNDS_DISK_TRUST_S                                                                         \
    60 /* a disk's time is charged only when its node was heard that lately */

/* One project's side of the books at one moment. */
struct books {
    struct store *store; /* borrowed */
    utime_t now;
    int64_t now_s;
    struct id project;
    struct currency ccy;
    struct zone zone; /* borrows nothing that ends before the process */
};
enum err books_open(struct store *s, utime_t now, struct id project, struct books *ret_b,
                    struct refusal *why);

/* All versions of one SKU, in the order of price.h. */
struct prices {
    struct price_version *v; /* owned */
    size_t n;
};
/* Of the book of that currency. ERR_PRICE_UNKNOWN (sku) when there is none. */
enum err prices_load(struct store *s, struct currency ccy, const char *sku, struct prices *ret_p,
                     struct refusal *why);
/* The rate of a row: price, tiers, cap. */
enum err price_row_rate(const struct price_row *row, struct rate *ret_r);
void prices_fini(struct prices *p);
#define AUTO_PRICES CLEANUP(prices_fini)

/* Which resource packages can cover what runs (funds_package.h). */
enum rating_packages {
    RATING_BY_MONEY, /* none: what the price book says */
    RATING_HELD,     /* what the lease's present hold reserved */
    RATING_ANEW,     /* what a hold that is made now could reserve */
};

/* What runs and is rated: a lease's compute, a disk, traffic. */
struct rating {
    struct id instance, subject;
    struct id lease;   /* whose hold pays; empty: none */
    struct id spender; /* the lease whose budgets it counts for; empty: none */
    enum meter meter;
    char sku[SKU_SIZE];
    int64_t started_s; /* prices bind from here */
    int64_t qty_per_s;
    bool simulated;
    enum rating_packages packages;
    struct id node; /* where the evidence came from; boot "" for disks */
    char boot[40];
    int64_t seq;
};
/* Rates [from_s, to_s) into its windows, price by price, month by month. */
enum err rating_add(const struct books *b, const struct rating *r, int64_t from_s, int64_t to_s,
                    struct refusal *why);
/* Rates a quantity (bytes) at one second, or as much of it as room_u pays. */
enum err rating_add_qty(const struct books *b, const struct rating *r, int64_t at_s, int64_t qty,
                        int64_t room_u, struct refusal *why);
/* The rate that a window was rated with. */
enum err window_rate(struct store *s, const struct window_row *w, struct rate *ret_r);

/* Windows of a term that is planned. */
#define PLAN_MAX 96
#define COVERS_MAX 40
/* A part of [from_s, to_s); price empty: nothing covers it, it goes by the price book. */
struct cover {
    int64_t from_s, to_s;
    struct id price;
    struct id package; /* the package that covers it; empty: none (a plan, or nothing) */
};
struct term_plan {
    size_t n;
    int64_t start_s;
    enum meter meter[PLAN_MAX];
    char sku[METER_COUNT][SKU_SIZE]; /* of the windows of a meter */
    struct rate rates[PLAN_MAX];
    struct term_window w[PLAN_MAX];
    char window[PLAN_MAX][LEDGER_KEY_SIZE]; /* its id: parts of one go on where the last ended */
    size_t covers;
    struct cover cover[COVERS_MAX]; /* what packages cover of it */
};
/* r would run over [from_s, to_s); from_s >= start_s. */
enum err plan_add(const struct books *b, struct term_plan *p, const struct rating *r,
                  int64_t from_s, int64_t to_s, struct refusal *why);

/* The price that binds r at that second. */
enum err rating_price(const struct books *b, const struct rating *r, int64_t at_s,
                      struct id *ret_id, struct rate *ret_r, struct refusal *why);

void rating_of_lease(const struct fund_lease *l, struct rating *ret_r);
/* Of having its node alone; false: it has not. */
bool rating_of_node(const struct fund_lease *l, struct rating *ret_r);
/* Of a disk as it is now; meter MONEY_FREE has none. */
void rating_of_disk(const struct fund_disk *d, struct rating *ret_r);

/* ---- ledger */

/* The kind of the platform's account that a meter's charges go to: "revenue.compute". */
const char *meter_revenue(enum meter m);
void account_id(char ret_id[LEDGER_KEY_SIZE], const char *kind, const char *of);
/* Missing: as it would be made, with zero balances. */
enum err account_load(struct store *s, const char *id, struct currency ccy,
                      struct ledger_account *ret_a);
/* Applies a group: loads what it touches, asks the ledger, saves. All or (by the caller's
 * savepoint) nothing. */
enum err ledger_post(const struct books *b, struct ledger_transfer *group, size_t n,
                     struct refusal *why);
/* A transfer of this project's currency, posted now, one phase. */
struct ledger_transfer transfer_of(const struct books *b, const char *group, const char *kind);

struct fund_parts; /* fund_source.h */
/* Ends the lease's hold (post what its windows cost, release the rest, a charge per window) and
 * makes the next one of these parts and of what packages cover of the plan (both NULL: none), in
 * one group; changes l, does not save it. */
enum err lease_move(const struct books *b, struct fund_lease *l, const struct fund_parts *parts,
                    const struct term_plan *plan, int64_t paid_until_s, struct refusal *why);
/* Posts all that is rated outside of leases: from the sources in order, then from the receivable.
 */
enum err funds_post_free(const struct books *b, struct refusal *why);
/* The same for seconds before at_s: vouchers that end then still pay. */
enum err funds_post_free_at(const struct books *b, int64_t at_s, struct refusal *why);
/* Before anything is rated outside of leases from at_s on: when a voucher ended by then and nothing
 * was posted since, what is rated so far is its to pay, so it is posted as of that end. */
enum err funds_post_ended(const struct books *b, int64_t at_s, struct refusal *why);
/* Money that came: from → cash ("topup.<id>", the idempotency key), then out of it what is owed:
 * arrears first, then the credit line. What was rated before is posted first. amount_u > 0. */
enum err funds_cash_in(const struct books *b, struct id id, const char *from, int64_t amount_u,
                       struct refusal *why);
/* The same, with transfers that stand or fall with it (exchange). */
#define FUNDS_LINKED_MAX 2
enum err funds_cash_in_with(const struct books *b, struct id id, const char *from, int64_t amount_u,
                            const struct ledger_transfer *linked, size_t linked_count,
                            struct refusal *why);
/* Something is owed since now, or nothing any more; and all is posted up to now. */
enum err funds_posted_note(const struct books *b);

/* What all sources can pay for that now, after holds and what is rated and not posted outside
 * leases; never negative. */
enum err available_of(const struct books *b, enum meter meter, const char *sku, int64_t *ret_u);
/* What each budget has and has left; parallel to the list. All of the project, also those that only
 * warn. */
enum err budgets_load(const struct books *b, struct budget_list *ret_l, struct budget **ret_b);
/* The budgets that can stop one lease. */
struct lease_budgets {
    struct budget_list rows; /* owned, and so the others; parallel */
    struct budget *money;
    int64_t
        *rest_u; /* what a term of this lease may take, so that all under the cap end together */
};
/* plan: of the lease, up to until_s; back_u: what its present hold gives back. */
enum err budgets_of_lease(const struct books *b, const struct fund_lease *l,
                          const struct term_plan *plan, int64_t until_s, int64_t back_u,
                          struct lease_budgets *ret_b);
void lease_budgets_fini(struct lease_budgets *x);
#define AUTO_BUDGETS CLEANUP(lease_budgets_fini)
/* The least that is left of the budgets that cover a lease; INT64_MAX: none does. */
enum err budgets_room(const struct books *b, struct id lease, int64_t *ret_u);
/* It can stop what this one spends. */
bool budget_stops(const struct budget_row *row, const struct funds_spender *who);
/* Something is bought at once: every budget that can stop it has that much left. ERR_BUDGET. */
enum err budget_room(const struct books *b, const struct funds_spender *spender, int64_t need_u,
                     struct refusal *why);
/* Whose money a lease spends, from what opens it. */
enum err lease_scopes_save(struct store *s, const struct funds_lease *l);
/* Once a minute: events at 50, 80 and 100 % and at 24 h, 6 h, 1 h and 10 min of time left. */
enum err budgets_alert(const struct books *b);
void budget_span(const struct books *b, enum budget_period p, int64_t *ret_from_s,
                 int64_t *ret_to_s);

/* ---- leases and disks */

/* Rates the disk up to to_s (never past what a hold covers) and moves its cursor; saves. */
enum err disk_advance(const struct books *b, const struct fund_lease *l, struct fund_disk *d,
                      int64_t to_s, bool heard, struct refusal *why);
/* What a slice proves of a lease that is not settled; saves how far the lease is. */
enum err slice_take(const struct books *b, struct fund_lease *l, const struct slice_row *r,
                    struct refusal *why);
/* funds_slices_accept where the source says which is the oldest it still has (0: it did not say).
 */
enum err slices_accept(struct store *s, utime_t now, struct id node, const char *boot,
                       utime_t anchor_ms, const struct funds_slice *slices, size_t n,
                       int64_t oldest, struct funds_accepted *ret_a, struct refusal *why);
/* What its present hold has not spent. */
enum err lease_hold_rest(const struct books *b, const struct fund_lease *l, int64_t *ret_u);
/* All windows of a lease, each from its cursor to until_s; packages: RATING_HELD for what is held,
 * RATING_ANEW for what will be. */
enum err lease_plan(const struct books *b, const struct fund_lease *l,
                    enum rating_packages packages, int64_t until_s, struct term_plan *ret_p,
                    struct refusal *why);

/* Replaces the hold by one that pays the whole plan up to the same paid_until; saves the lease.
 * ERR_BALANCE, ERR_BUDGET when there is not that much. */
enum err lease_rehold(const struct books *b, struct fund_lease *l, const struct term_plan *plan,
                      struct refusal *why);

/* ERR_BALANCE with short, need, have. */
enum err refuse_balance(struct refusal *why, struct currency ccy, int64_t need_u, int64_t have_u);
/* ERR_BUDGET with name, left, need. */
enum err refuse_budget(struct refusal *why, struct currency ccy, const struct budget_row *b,
                       int64_t left_u, int64_t need_u);
