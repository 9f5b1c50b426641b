/* op_plan.h: reserved plans where they meet instances. */
#pragma once

#include "app/funds_plan.h"
#include "app/lifecycle.h"

/* Opens the plan that the request names for an instance, from now on, and makes the plan's end that
 * of the instance; the instance is saved. Pay it with plan_settle in the same savepoint, once its
 * lease is there. ERR_VALIDATION, ERR_PRICE_UNKNOWN, ERR_PLAN_COVERED. */
enum err plan_begin(struct op *op, struct instance *i, struct plan_row *ret_p);
enum err plan_settle(struct op *op, const struct instance *i, const struct plan_row *p);
/* Binds an instance that is rented to the bid of the request. ERR_VALIDATION, ERR_PRICE_UNKNOWN,
 * ERR_BID_LOW. */
enum err spot_begin(struct op *op, struct instance *i);
/* Other cards than its plan was bought for would go uncovered. ERR_PLAN_COVERED. */
enum err plan_refuse_resize(struct op *op, const struct instance *i);
/* The price of one piece that the request says it saw is still it, to the last unit; no price said:
 * fine. ERR_OFFER_CHANGED (old, new: of one piece). */
enum err price_seen(struct op *op, const struct books *b, int64_t paid_u, int64_t pieces);
/* Once a minute: books what is earned, renews, ends, gives back what never ran. */
enum err plans_tick(struct op *op);

/* Writes the array `key` of what can be bought now: write is called with the last version of each
 * price that is valid, in the book of the project's currency, and leaves out what is not its own.
 */
typedef enum err offer_writer(struct op *op, const struct books *b, const struct price_row *row);
enum err offers_write(struct op *op, const struct books *b, const char *key, offer_writer *write);
