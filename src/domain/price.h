/* price.h: price versions over time, and which of them binds a second of a lease (money.md 1.7).
 *
 * The rule: a new start takes the version valid at its first second. In mid-lease a cut (or equal
 * price) is taken at the second it becomes valid; a rise binds a running lease only when its notice
 * is over too: max(valid_from, announced + notice). A later version replaces an earlier one that
 * has not taken effect yet when its own turn comes first. Versions are immutable; each is a rating
 * window of its own. Pure. */
#pragma once

#include "base/id.h"
#include "domain/calendar.h"
#include "domain/rate.h"

#define PRICE_NOTICE_S (7 * DAY_S)
#define PRICE_VERSIONS_MAX 256

struct price_version {
    struct id id;
    struct rate rate;
    int64_t valid_from_s;
    int64_t announced_s;
    int64_t notice_s; /* >= 0 */
};

struct price_part {
    size_t version; /* index */
    int64_t from_s, to_s;
};

/* Versions sorted by valid_from_s (ties: the later in the array replaces the earlier). Index of the
 * version that a start at t_s takes; ERR_PRICE_UNKNOWN when none is valid yet. */
enum err price_at(const struct price_version *v, size_t n, int64_t t_s, size_t *ret_index);
/* Splits [from_s, to_s) of a lease that started at started_s <= from_s into parts, one per binding
 * version, in order. An empty interval gives no part. ERR_PRICE_UNKNOWN, ERR_TOO_LARGE (max). */
enum err price_split(const struct price_version *v, size_t n, int64_t started_s, int64_t from_s,
                     int64_t to_s, struct price_part *ret_parts, size_t max, size_t *ret_count);
/* The first second at which version index binds a lease that started at started_s and runs on;
 * INT64_MAX: never (a later version takes its turn first, or the lease started after it). */
int64_t price_binds_at(const struct price_version *v, size_t n, int64_t started_s, size_t index);
/* Cuts parts further at the month borders of a zone, so that each part is one rating window. */
enum err price_split_months(const struct zone *z, struct price_part *parts, size_t max,
                            size_t *io_count);

/* Spot: the price of each second is the market tick then valid, at most the bid (0: no bid). */
struct spot_tick {
    int64_t at_s;
    struct price_rate price;
};
struct spot_part {
    int64_t from_s, to_s;
    struct price_rate price;
    int64_t charge_u;
};
enum err spot_rate_run(const struct spot_tick *ticks, size_t n, int64_t from_s, int64_t to_s,
                       int64_t qty_per_s, struct price_rate bid, struct spot_part *ret_parts,
                       size_t max, size_t *ret_count, int64_t *ret_total_u);
/* Is a flat price below another? The bid pays when it is. */
bool price_cheaper(struct price_rate a, struct price_rate b);
/* What a second of a run may take at most when every price of it is at most the bid, whatever ticks
 * come and however many windows it is rated in: ⌈P·n/D⌉ + 1 (each window keeps less than one
 * micro-unit back, and a second lies in one). ERR_MONEY_RANGE. */
enum err spot_second_max(struct price_rate bid, int64_t qty_per_s, int64_t *ret_u);
/* True when the compute charge of the run is to be reversed: the platform ended it within
 * free_within_s of its begin. */
bool spot_is_free(int64_t from_s, int64_t to_s, bool ended_by_platform, int64_t free_within_s);
