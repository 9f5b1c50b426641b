/* usage_cost.h: what each stretch of usage cost. The parts of a window add up to what it was rated,
 * in any grouping (I27): a span that raises the quantity from a to b costs F(b) - F(a). Reader. */
#pragma once

#include "app/funds_int.h"

struct usage_cost {
    const struct window_row *window; /* borrowed for the call */
    int64_t from_s, to_s;            /* inside one day of the project's zone */
    int64_t qty, u;
    int64_t gpu_util_pct; /* -1: nobody measured it */
};
typedef enum err usage_cost_taker(void *arg, const struct usage_cost *c);
/* All of a month, window by window, in the order of rating; stops at the first error of take. */
enum err usage_cost_month(const struct books *b, int64_t year, int month, usage_cost_taker *take,
                          void *arg);
