/* fx.h: topping up a wallet in another currency (money.md 1.2, golden rows B75, B89).
 *
 * Exchange is two linked transfers through the liquidity accounts fx.<ccy>, floors in their favour,
 * the spread as a line of its own:
 *     clearing.<channel>.USD → fx.USD            what is converted
 *     clearing.<channel>.USD → revenue.fx.USD    the spread
 *     fx.CNY                 → cash.<project>    floor(converted x rate)
 * The rate is that of the moment the order was made; the order says it. Core thread, inside the
 * caller's savepoint. */
#pragma once

#include "app/funds_int.h"
#include "app/op.h"
#include "store/rows_clearing.h"

/* Fixes the rate of an order whose currency is not the project's. ERR_VALIDATION: no rate is set,
 * or the amount is too small to be worth a unit there. */
enum err fx_order_make(struct op *op, const struct order_row *o, struct currency dst,
                       struct fx_order *ret_x);
/* The order was paid: all legs in one group, debts of the wallet first as with any top-up. */
enum err fx_order_paid(const struct books *b, const struct order_row *o, const char *clearing,
                       struct refusal *why);
/* A rate or share as a pair of integers, each below 10^12: "7.1234" is 71234/10000, "71234/10000"
 * itself. d is above zero, n may be zero. false: not such a text. Pure. */
bool fx_pair_parse(const char *text, int64_t *ret_n, int64_t *ret_d);
