/* focus.h: inside the FOCUS export (op_focus.c, focus_commit.c). */
#pragma once

#include "app/funds_package.h"
#include "app/op_money.h"
#include "store/rows_close.h"

#define FOCUS_VALUE_SIZE 256

enum focus_column {
#define FOCUS(name) C_##name,
#include "app/focus.def"
#undef FOCUS
    FOCUS_COLUMNS
};

/* How much of packages was used, in the order of the bill's lines. */
struct focus_used {
    struct id package;
    int64_t qty;
};
struct focus_used_list {
    struct focus_used *at;
    size_t len, cap;
};

struct focus {
    struct op *op;
    struct books b;
    struct project project;
    char issuer[FOCUS_VALUE_SIZE]; /* the seller */
    struct period month;
    struct statement_row st; /* number "": not closed */
    struct focus_used_list used;
    char v[FOCUS_COLUMNS][FOCUS_VALUE_SIZE]; /* of the row in work; "": null */
};

#define SET(f, column, ...) ((void)str_printf((f)->v[C_##column], FOCUS_VALUE_SIZE, __VA_ARGS__))

void focus_row_begin(struct focus *f);
void focus_row_write(struct focus *f);
void focus_time(char v[FOCUS_VALUE_SIZE], int64_t s);
/* n/d with up to nine decimals, cut. */
void focus_decimal(char v[FOCUS_VALUE_SIZE], __int128 n, __int128 d);
void focus_money(struct focus *f, char v[FOCUS_VALUE_SIZE], int64_t u);
/* BilledCost, the three others equal to it, and x_PostedMicro. */
void focus_cost(struct focus *f, int64_t u);

/* ---- commitments: what was bought ahead
 *
 * E(t) of a plan is what of its price is over at second t: ⌊paid·(t−start)/(end−start)⌋
 * (domain/refund.h), and from the second on at which it was released what was not given back. E(u)
 * of a package is ⌊paid·u/seconds⌋ (domain/package.h) of its first u card-seconds. A row that takes
 * it from a to b has the EffectiveCost E(b) − E(a): used seconds in their rows, all others of a
 * month in one Unused row, so that a whole term adds up to what was paid and not given back, to
 * the micro-unit. What was used late of a month that was closed is a Used row with the
 * Correction class, and the same seconds leave Unused again. */

struct commitment {
    bool is_package, is_late;
    struct plan_row plan;
    struct package_row package;
    int64_t kept_u; /* of what was paid, what never came back */
};
/* What covers a window, by its price version. false: nothing. */
enum err commitment_of_window(const struct focus *f, const struct window_row *w,
                              struct commitment *ret_c, bool *ret_found);
/* The row in work is usage that c covers: [from_s, to_s), qty card-seconds. */
enum err commitment_used(struct focus *f, const struct commitment *c, int64_t from_s, int64_t to_s,
                         int64_t qty);
/* The same, late, of a month in which it was called unused: the row that takes it back. */
enum err commitment_restored(struct focus *f, const struct commitment *c, int64_t from_s,
                             int64_t to_s, int64_t qty);
/* What was bought: the row of a purchase line. */
enum err commitment_purchase(struct focus *f, const struct line_row *l);
/* What came back this month of earlier months' purchases: on no statement, so without its number.
 */
enum err commitment_backs(struct focus *f);
/* One row for each plan and package: what nobody used of this month (of a package: of its life). */
enum err commitment_unused(struct focus *f);
