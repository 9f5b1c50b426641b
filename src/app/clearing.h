/* clearing.h: payment files of a channel against the books (对账; I28 of money.md 1.11).
 *
 * A paid order left its money on clearing.<channel>.<ccy> when the wallet was credited. A line of
 * the channel's file that says the same (order, reference, amount) moves it on to
 * bank.<channel>.<ccy>; so clearing holds exactly what no file has shown yet. A line that says
 * something else is money that is there and that nobody can name: it goes to
 * suspense.<channel>.<ccy> with its reason and an age, until it is matched by a late notice or
 * resolved by the operator. A line counts once by (channel, kind, reference).
 *
 * Inside the caller's transaction; core thread, except "reader". */
#pragma once

#include "app/channel.h"
#include "store/rows_clearing.h"

/* One line "reference,order,kind,amount,currency,time": kind payment or refund, amount decimal,
 * time RFC 3339 or seconds. false: not such a line. Pure. */
bool clearing_parse(const char *text, struct payment_line *ret_l);

enum clearing_verdict {
    CLEARING_MATCHED,
    CLEARING_SUSPENSE,
    CLEARING_KNOWN,    /* the same line was there already */
    CLEARING_CONFLICT, /* another content under a known reference: nothing was done */
};
enum err clearing_take(struct op *op, struct payment_line *io_l,
                       enum clearing_verdict *ret_verdict);
/* Looks at everything in suspense again: a notice may have come since. Once a minute by the tick,
 * and after an import. */
enum err clearing_rematch(struct op *op);
/* Ends a line in suspense. credit: its open order, of the same amount, is credited; returned: the
 * money was sent back (a payment) or came back (a refund). ERR_STATE: not in suspense;
 * ERR_VALIDATION: credit where it cannot be. */
enum err clearing_resolve(struct op *op, struct payment_line *io_l, bool credit);
/* "not_credited" */
const char *clearing_reason(enum line_reason r);
