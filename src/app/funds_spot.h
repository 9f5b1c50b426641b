/* funds_spot.h: the spot price in the books (money.md 1.3, 1.7).
 *
 * The market is the book of "spot.gpu.<model>": its versions are ticks, without notice. A second of
 * a run costs min(tick, bid); the bid is a price version of the instance. Each run (lease) is its
 * own subject. Its hold is made for the bid, so that no tick is short of money. Core thread. */
#pragma once

#include "app/funds_int.h"

bool spot_is(const char *sku); /* "spot.…" */
/* Puts "spot." before a card's SKU. */
void spot_sku(char io_sku[SKU_SIZE]);

struct spot_ask {
    struct id instance, price; /* price: "prc_…", new */
    const char *gpu;           /* model; borrowed */
    int64_t bid_u;             /* per card-hour; 0: the on-demand price of now */
    int64_t free_within_s;
};
/* Binds an instance to a bid. ERR_PRICE_UNKNOWN: no spot price (or, without a bid, no on-demand
 * price); ERR_BID_LOW (price, bid): below the tick of now. */
enum err spot_bid_set(const struct books *b, const struct spot_ask *ask, struct refusal *why);
/* The tick and the bid of now for a question without an instance; refuses like spot_bid_set. */
enum err spot_bid_check(const struct books *b, const char *gpu, int64_t *io_bid_u,
                        struct refusal *why);
/* The bid of an instance as a price version. */
enum err spot_bid(const struct books *b, struct id instance, struct price_version *ret_v);
/* The lease is settled. When the platform took it back within its free time, all that its cards cost
 * is given back (funds_reverse.c). Once. */
enum err spot_settle(const struct books *b, const struct fund_lease *l, struct refusal *why);
/* What pays a second whose tick is v: v, or the bid below it. */
const struct price_version *spot_pays(const struct price_version *v,
                                      const struct price_version *bid);
