/* rows_supply.h: suppliers, what their machines earned, payouts. Amounts in micro-units of the
 * currency that is named. */
#pragma once

#include "store/rows_money.h"

struct supplier {
    struct id id;
    char name[NAME_SIZE];
    struct id user; /* who sees its statements */
    int64_t share_n, share_d;
    int64_t dispute_s;   /* how long what it earned stays held */
    int64_t threshold_u; /* less than this is not paid out but carried on; of any currency */
    utime_t created_at;
};
struct supplier_list {
    struct supplier *at;
    size_t len, cap;
};
enum err supply_save(struct store *s, const struct supplier *x);
enum err supply_get(struct store *s, struct id id, struct supplier *ret_x);
enum err supply_get_name(struct store *s, const char *name, struct supplier *ret_x);
enum err supply_get_user(struct store *s, struct id user, struct supplier *ret_x);
enum err supply_list(struct store *s, struct supplier_list *ret_l);

/* A node has one supplier or none (ERR_NOT_FOUND). */
enum err supply_node_set(struct store *s, struct id node, struct id supplier, utime_t now);
enum err supply_node_clear(struct store *s, struct id node);
enum err supply_node_count(struct store *s, struct id supplier, int64_t *ret_n);

struct supply_gross {
    char source[LEDGER_KEY_SIZE]; /* a window, or a plan */
    struct id supplier;
    char currency[CURRENCY_SIZE];
    int64_t share_n, share_d, gross_u, shared_u, posts;
};
enum err supply_gross_save(struct store *s, const struct supply_gross *g);

/* A source whose gross is another than what was shared of it; first time: with the supplier and the
 * share of its node. */
struct supply_due {
    struct supply_gross known;
    enum meter meter;
    int64_t gross_u;
};
struct supply_due_list {
    struct supply_due *at;
    size_t len, cap;
};
/* At most limit windows. What was reversed is no gross. */
enum err supply_due_list(struct store *s, int64_t limit, struct supply_due_list *ret_l);

/* Whose machine a window ran on, and his share of it: as it was shared, or as his node has it now.
 * ERR_NOT_FOUND: the platform's own. */
struct supply_share_of {
    char name[NAME_SIZE];
    int64_t n, d;
};
enum err supply_share_get(struct store *s, const char *window, struct id node,
                          struct supply_share_of *ret_x);

struct supply_day {
    struct id supplier;
    char currency[CURRENCY_SIZE];
    int64_t day, held_u;
    bool released;
};
struct supply_day_list {
    struct supply_day *at;
    size_t len, cap;
};
enum err supply_day_add(struct store *s, struct id supplier, const char *currency, int64_t day,
                        int64_t u);
enum err supply_day_save(struct store *s, const struct supply_day *d);
/* Days of a supplier before `before` that are not released, with something in them. */
enum err supply_day_list(struct store *s, struct id supplier, int64_t before,
                         struct supply_day_list *ret_l);

struct payout {
    struct id id, supplier;
    char currency[CURRENCY_SIZE];
    int64_t amount_u, carried_u; /* carried: what stayed payable; below 0: still to be recovered */
    utime_t at;
    char reference[NAME_SIZE]; /* of the bank; "" until paid */
    utime_t paid_at;           /* 0: not yet */
};
struct payout_list {
    struct payout *at;
    size_t len, cap;
};
enum err supply_payout_save(struct store *s, const struct payout *p);
enum err supply_payout_get(struct store *s, struct id id, struct payout *ret_p);
/* supplier empty: all. In the order of time. */
enum err supply_payout_list(struct store *s, struct id supplier, struct payout_list *ret_l);

/* A line of a supplier's month: a window of it, or a plan that began in it (quantity: cards). */
struct supply_line {
    char source[LEDGER_KEY_SIZE], sku[MONEY_SKU_SIZE];
    struct id subject, node;
    char currency[CURRENCY_SIZE];
    int64_t qty, gross_u, shared_u;
};
struct supply_line_list {
    struct supply_line *at;
    size_t len, cap;
};
enum err supply_line_list(struct store *s, struct id supplier, int64_t year, int month,
                          struct supply_line_list *ret_l);
/* Currencies that a supplier earned in. */
struct currency_row {
    char code[CURRENCY_SIZE];
};
struct currency_list {
    struct currency_row *at;
    size_t len, cap;
};
enum err supply_currencies(struct store *s, struct id supplier, struct currency_list *ret_l);
