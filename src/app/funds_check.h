/* funds_check.h: proves the laws of money.md 1.11 on a whole store: the journal folded again, all
 * spans rated again, every hold against what it must cover. Reads only; any thread with its own
 * store. Tests, the simulator and `admin check` share it. */
#pragma once

#include "store/store.h"

struct funds_check_row {
    char id[4]; /* "I1" … "I28" */
    bool pass;
    bool told;            /* not of a store: pass says nothing, text says why */
    char text[TEXT_SIZE]; /* the first violation, or "" */
};
struct funds_check {
    struct funds_check_row rows[32];
    size_t n;
    bool pass;
};
/* I5 of a store: ids are unique. I24: what ran was billed at the price versions that a quote finds
 * for its seconds. I18 (a stop at a cap is maximal) is told, not proven: what was left at the second
 * of a stop is not kept, and a cap that was changed, a hold that was released or money that came
 * back since then would give another answer; prop_money, prop_funds and oracle_books prove it. */
enum err funds_check_run(struct store *s, utime_t now, struct funds_check *ret_c,
                         struct refusal *why);
