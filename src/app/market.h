/* market.h: the mix of demand that placement expects, read from the store: what runs now, what
 * ended within a day, and what waits in line; and the operator's limits of the scarcity price. A
 * refusal that nobody waits for leaves nothing in the store and does not count. Any thread, with
 * its own store. */
#pragma once

#include "app/core.h"
#include "domain/place.h"

#define MARKET_LATELY_MS (86400ll * 1000)

struct market {
    struct demand_list demand; /* owned */
    struct place_market seen;  /* of it */
};

/* ERR_STORE; ret_m is to be finished in any case. */
enum err market_load(struct store *s, const struct core_config *cfg, utime_t now,
                     struct market *ret_m);
void market_fini(struct market *m);
/* The models of the platform with their prices, PLACE_PRICES_MAX at most, by name. */
enum err market_prices(struct store *s, const struct core_config *cfg, utime_t now,
                       const struct node_list *nodes, struct place_price *ret_p, size_t *ret_count);
