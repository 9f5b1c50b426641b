/* funds_check.h: proves the laws of money.md 1.11 on a whole store: the journal folded again, all
 * spans rated again, every hold against what it must cover. Reads only; any thread with its own
 * store. Tests, the simulator and `admin check` share it. */
#pragma once

#include "store/store.h"

struct funds_check_row {
    char id[4]; /* "I1" … "I28" */
    bool pass;
    char text[TEXT_SIZE]; /* the first violation, or "" */
};
struct funds_check {
    struct funds_check_row rows[32];
    size_t n;
    bool pass;
};
/* I5, I18 and I24 hold when a transfer is applied, a term is granted and a quote is made: nothing of
 * them is left to see in a store but ids that are unique, and that is what I5 proves. I18 and I24
 * are laws of the tests (prop_money, prop_plan) and have no row. */
enum err funds_check_run(struct store *s, utime_t now, struct funds_check *ret_c,
                         struct refusal *why);
