/* funds_package.h: resource packages in the books (money.md 1.5; domain/package.h).
 *
 *   bought       sources → deferred.<package> (kind purchase), and on the ledger of card-seconds
 *                issued.card-seconds → package.<package> (kind issue)
 *   a term       what it may use of a package is pending on package.<package>, so that no other
 *                lease counts with it; a lease that is cut short or idle gives it back
 *   its seconds  windows at the package's own price version, which costs 0; they take no money hold
 *   once a day   deferred.<package> → revenue.compute (kind recognise): ⌊paid·used/bought⌋
 *   its end      what is left lapses: the seconds to lapsed.card-seconds, their money to breakage
 *
 * A second is covered after reserved plans and before any money. Never refunded, never renewed.
 * Core thread; errors as in funds.h. */
#pragma once

#include "app/funds_plan.h"
#include "domain/package.h"
#include "store/rows_package.h"

#define PACKAGES_MAX 16 /* open packages of one project; the next one is refused */

/* What can cover r, in the order of use. */
struct package_sources {
    struct package p[PACKAGES_MAX];
    struct id ids[PACKAGES_MAX], prices[PACKAGES_MAX]; /* as loaded; p[].id points here */
    size_t n;
};
enum err package_load(const struct books *b, const struct rating *r, struct package_sources *ret_x);
/* Cuts what no plan covers of [from_s, to_s) where packages begin to cover or end; appends to c and
 * takes what is covered out of x. ERR_TOO_LARGE. */
enum err package_split(struct package_sources *x, int64_t qty_per_s, int64_t from_s, int64_t to_s,
                       struct cover c[COVERS_MAX], size_t *io_n);
/* qty card-seconds of what the lease's hold reserved of a package were used. */
enum err package_use(const struct books *b, struct id lease, struct id package, int64_t qty,
                     struct refusal *why);
/* r's next second that nothing covers, as far as the packages of now go; to_s: none before it. */
enum err package_reach(const struct books *b, const struct rating *r, int64_t to_s, int64_t *ret_s);

/* Inside lease_move: posts what was used of the present reservations, gives the rest back, and
 * (plan, may be NULL) reserves what the plan covers before until_s. Appends to g; ret_rows: to be
 * saved by package_renew after the group. */
enum err package_move(const struct books *b, const struct fund_lease *l,
                      const struct term_plan *plan, int64_t until_s, const char *group,
                      struct transfer_list *g, struct package_part_list *ret_rows);
enum err package_renew(const struct books *b, struct id lease,
                       const struct package_part_list *rows);

struct package_ask {
    struct id id, price; /* "pkg_…", "prc_…": new */
    const char *sku;     /* what is bought: "package.100.month.gpu.RTX 4090"; borrowed */
    struct funds_spender spender;
};
/* What it would be; nothing is written. ERR_PRICE_UNKNOWN: not offered; ERR_TOO_LARGE:
 * PACKAGES_MAX are open. */
enum err package_quote(const struct books *b, const struct package_ask *ask,
                       struct package_row *ret_p, struct refusal *why);
/* The same, paid; what runs uses it from now on. ERR_BALANCE, ERR_BUDGET. */
enum err package_buy(const struct books *b, const struct package_ask *ask,
                     struct package_row *ret_p, struct refusal *why);

struct package_view {
    int64_t used, reserved, left; /* card-seconds; left: neither used nor reserved nor lapsed */
};
enum err package_look(const struct books *b, const struct package_row *p,
                      struct package_view *ret_v); /* reader */
/* Books what is earned, ends what is over. Once a minute. */
enum err packages_tick(struct store *s, utime_t now, struct refusal *why);
