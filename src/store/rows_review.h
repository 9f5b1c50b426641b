/* rows_review.h: what a month was used for. Read only; lists are the caller's. */
#pragma once

#include "store/rows_money.h"

struct review_span {
    char rating_window[LEDGER_KEY_SIZE];
    int64_t id, from_s, to_s, qty_per_s, qty;
    int64_t gpu_util_pct; /* of its slice; -1: nobody measured it */
};
struct review_span_list {
    struct review_span *at;
    size_t len, cap;
};
/* Spans of a month by window, in the order in which they were rated; after ("", 0) from the start.
 */
enum err review_span_page(struct store *s, struct id project, int64_t year, int month,
                          const char *after_window, int64_t after_id, int64_t limit,
                          struct review_span_list *ret_l);

struct review_stretch { /* what one lease put into one window of cards or seat */
    char rating_window[LEDGER_KEY_SIZE];
    struct id lease, price;
    int64_t first_s, last_s; /* seconds rated, both inclusive */
};
struct review_stretch_list {
    struct review_stretch *at;
    size_t len, cap;
};
/* Of all projects, but without what packages covered. */
enum err review_stretch_list(struct store *s, struct review_stretch_list *ret_l);

struct review_month { /* a month with windows, and what they come to */
    int64_t year, month, rated_u;
};
struct review_month_list {
    struct review_month *at;
    size_t len, cap;
};
enum err review_month_list(struct store *s, struct id project, struct review_month_list *ret_l);

struct review_instance { /* its cards of one model in a month */
    struct id instance;
    char sku[MONEY_SKU_SIZE];
    int64_t paid_u, card_s, cards; /* cards: the most at once */
};
struct review_instance_list {
    struct review_instance *at;
    size_t len, cap;
};
enum err review_instance_list(struct store *s, struct id project, int64_t year, int month,
                              struct review_instance_list *ret_l);
