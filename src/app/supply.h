/* supply.h: what the machines of suppliers earn, and when it is paid out (money.md 1.3 T5, I26).
 *
 * The gross of a source is what was charged of a rating window less what was reversed, or what is
 * recognised of a plan. Once an hour the difference to what was shared before moves from the
 * platform's revenue to the supplier: up into provider.<id>.held, where it waits for the dispute
 * window (without one: into payable); down (a refund) out of provider.<id>.payable, which may go
 * below zero and is then recovered, once, from what comes next. Vouchers and gifts of the platform
 * are its own expense: the supplier is paid in full. Inside the caller's transaction; core thread.
 */
#pragma once

#include "app/funds.h"
#include "store/rows_supply.h"

/* Shares all that is new and releases days whose dispute window is over. */
enum err supply_share(struct store *s, utime_t now, struct refusal *why);
/* The same once an hour, a part at a time. */
enum err supply_tick(struct store *s, utime_t now, struct refusal *why);

struct supply_balance {
    struct currency ccy;
    int64_t held_u, payable_u, paid_u; /* payable below 0: to be recovered; paid: all time */
};
enum err supply_balance(struct store *s, utime_t now, const struct supplier *x,
                        const char *currency, struct supply_balance *ret_b);

/* One run for one supplier and currency: whole minor units leave when the threshold is reached; the
 * rest is carried on. Nothing to pay: amount_u 0, nothing is written. */
enum err supply_payout(struct store *s, utime_t now, const struct supplier *x, const char *currency,
                       struct id id, struct payout *ret_p, struct refusal *why);
