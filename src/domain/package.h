/* package.h: resource packages: card-hours bought ahead, used second by second (money.md 1.5).
 *
 * A package is sold by price rows of their own: "package.<hours>.<unit>.gpu.<model>", or
 * "package.<hours>.<unit>.gpu" for cards of any model. It holds card-seconds, has an exclusive end
 * and covers a second of an instance whole (all its cards) or not at all. Which one covers it: one
 * for a model before one for any, then the earlier end, then the id. Pure. */
#pragma once

#include "domain/calendar.h"
#include "domain/types.h"

#define PACKAGE_LEDGER "card-seconds"
#define PACKAGE_HOURS_MAX 1000000

struct package_terms {
    int64_t hours;
    enum calendar_unit unit; /* how long it lasts: day, week, month, year */
    const char *covered;     /* "gpu.<model>" or "gpu"; points into the SKU */
};
/* False for any other SKU. */
bool package_sku_parse(const char *sku, struct package_terms *ret_t);
/* covered: as in package_terms; sku: what runs, such as "gpu.RTX 4090" (never at the spot price).
 */
bool package_covers(const char *covered, const char *sku);

struct package {
    const char *id; /* borrowed */
    bool wide;      /* for any model */
    int64_t left;   /* card-seconds */
    int64_t from_s; /* covers seconds in [from_s, expires_s) */
    int64_t expires_s;
};
/* Puts them in the order in which they are used. */
void package_rank(struct package *p, size_t n);
/* The part of [from_s, to_s) that begins at from_s and is covered by one package or (false) by
 * none; ret_to_s: its end. p is in the order of package_rank; what is covered leaves it. */
bool package_next(struct package *p, size_t n, int64_t qty_per_s, int64_t from_s, int64_t to_s,
                  size_t *ret_i, int64_t *ret_to_s);
/* What of paid_u is earned when so many of its seconds are used: ⌊paid·used/seconds⌋. */
enum err package_earned(int64_t paid_u, int64_t seconds, int64_t used, int64_t *ret_u);
