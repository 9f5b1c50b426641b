/* rows_clearing.h: lines of payment files, rates of exchange. Amounts in micro-units. */
#pragma once

#include "store/rows_wallet.h"

enum line_side { LINE_PAYMENT, LINE_REFUND };
enum line_state { LINE_MATCHED, LINE_SUSPENSE, LINE_RESOLVED };
enum line_reason { /* why a line is in suspense */
                   LINE_FINE,
                   LINE_NO_ORDER,     /* the file names an order that is not known here */
                   LINE_NOT_CREDITED, /* it is paid there, but no notice came */
                   LINE_AMOUNT,       /* another amount or currency */
                   LINE_REFERENCE,    /* the order was paid by another payment */
                   LINE_NOT_REFUNDED, /* money went back that the books did not send */
};
struct payment_line {
    int64_t id;
    char channel[NAME_SIZE];
    enum line_side kind;
    char reference[TEXT_SIZE], order_id[TEXT_SIZE];
    int64_t amount_u;
    char currency[CURRENCY_SIZE];
    utime_t at; /* as the file says */
    char file[NAME_SIZE];
    utime_t imported_at;
    enum line_state state;
    enum line_reason reason;
    utime_t resolved_at; /* 0: not */
    char resolution[NAME_SIZE];
};
struct payment_line_list {
    struct payment_line *at;
    size_t len, cap;
};
/* id 0: a new one; sets it. */
enum err clearing_line_save(struct store *s, struct payment_line *io_l);
enum err clearing_line_get(struct store *s, int64_t id, struct payment_line *ret_l);
enum err clearing_line_find(struct store *s, const char *channel, enum line_side kind,
                            const char *reference, struct payment_line *ret_l);
/* In suspense, oldest first. */
enum err clearing_line_open(struct store *s, struct payment_line_list *ret_l);
/* Σ of an order's matched lines of a side. */
enum err clearing_matched(struct store *s, const char *order, enum line_side kind, int64_t *ret_u);

/* A paid order whose money no file has shown yet, or shown in part. */
struct waiting_row {
    struct order_row order;
    int64_t refunds_u; /* sent back and not shown yet */
    bool payment;      /* the payment is not shown yet */
};
struct waiting_list {
    struct waiting_row *at;
    size_t len, cap;
};
/* project empty: all; the oldest first. Orders of test channels have no file and are left out. */
enum err clearing_waiting(struct store *s, struct id project, struct waiting_list *ret_l);

/* Sums of one channel and currency; a test channel has no files and is left out. */
struct clearing_sum {
    char channel[NAME_SIZE], currency[CURRENCY_SIZE];
    int64_t credited_u, sent_back_u; /* by the books */
    int64_t shown_u, shown_back_u;   /* matched lines of the files */
    int64_t suspense_u, suspense_back_u;
    int64_t suspense_count;
    utime_t suspense_since; /* the oldest; 0: none */
};
struct clearing_sum_list {
    struct clearing_sum *at;
    size_t len, cap;
};
enum err clearing_sums(struct store *s, struct clearing_sum_list *ret_l);

struct fx_rate {
    char src[CURRENCY_SIZE], dst[CURRENCY_SIZE];
    utime_t at;
    int64_t n, d, spread_n, spread_d;
};
struct fx_rate_list {
    struct fx_rate *at;
    size_t len, cap;
};
enum err fx_rate_save(struct store *s, const struct fx_rate *r);
/* The one that holds now. */
enum err fx_rate_get(struct store *s, const char *src, const char *dst, struct fx_rate *ret_r);
enum err fx_rate_list(struct store *s, struct fx_rate_list *ret_l); /* the newest first */

struct fx_order {
    char order_id[ID_SIZE], dst[CURRENCY_SIZE];
    int64_t n, d, spread_n, spread_d;
    int64_t fee_u, converted_u; /* of the order's currency */
    int64_t dst_u;
};
enum err fx_order_save(struct store *s, const struct fx_order *o);
enum err fx_order_get(struct store *s, struct id order, struct fx_order *ret_o);
