/* rows_package.h: resource packages (migration 0015). As in rows_money.h: nothing here decides
 * anything. Quantities in card-seconds. */
#pragma once

#include "store/rows_money.h"

struct package_row {
    struct id id, project;
    char sku[MONEY_SKU_SIZE]; /* what it covers: "gpu.<model>" or "gpu" */
    int64_t seconds;          /* bought */
    struct id price;          /* what a covered second costs: 0 */
    struct id offer;          /* the version it was bought at */
    int64_t start_s, expires_s;
    int64_t paid_u;       /* what deferred.<id> got */
    int64_t recognised_u; /* of paid_u, in the books as revenue */
    int64_t recognised_s; /* up to this day */
    int64_t lapsed_u;     /* of paid_u, to breakage */
    int64_t lapsed;       /* card-seconds that nobody used */
    utime_t done_at;      /* 0: open */
};
struct package_list {
    struct package_row *at;
    size_t len, cap;
};
enum err package_row_save(struct store *s, const struct package_row *p);
enum err package_row_get(struct store *s, struct id id, struct package_row *ret_p);
enum err package_row_open(struct store *s, struct id project, struct package_list *ret_l);
enum err package_row_open_all(struct store *s, struct package_list *ret_l);
/* All of a project, by id. */
enum err package_row_list(struct store *s, struct id project, struct package_list *ret_l);

struct package_part {
    char transfer[LEDGER_KEY_SIZE]; /* the pending transfer */
    struct id lease;
    int64_t n; /* the order in which they are used */
    struct id package, price;
    int64_t from_s, until_s; /* covers seconds in [from_s, until_s) */
    int64_t amount, used;
};
struct package_part_list {
    struct package_part *at;
    size_t len, cap;
};
enum err package_part_save(struct store *s, const struct package_part *p);
enum err package_part_of(struct store *s, struct id lease, struct package_part_list *ret_l);
enum err package_part_clear(struct store *s, struct id lease);
/* Used of holds that are not posted yet. */
enum err package_part_used(struct store *s, struct id package, int64_t *ret_qty);
