/* rows_wallet.h: rows of the wallet (migration 0007): vouchers, grants, parts of holds, purchases,
 * channels and orders. Used by app/fund_*.c and the money operations only; rules as in
 * rows_money.h. */
#pragma once

#include "store/rows_money.h"

struct batch_row {
    struct id id;
    char note[TEXT_SIZE];
    char currency[CURRENCY_SIZE];
    int64_t amount_u, count;
    int64_t scope; /* bits of enum meter, 0: all */
    char sku[MONEY_SKU_SIZE];
    bool gift;
    int64_t expires_s; /* exclusive; INT64_MAX: never */
    int64_t per_project;
    utime_t at, revoked_at; /* revoked_at 0: good */
};
struct batch_list {
    struct batch_row *at;
    size_t len, cap;
};
enum err wallet_batch_save(struct store *s, const struct batch_row *b);
enum err wallet_batch_get(struct store *s, struct id id, struct batch_row *ret_b);
enum err wallet_batch_list(struct store *s, struct batch_list *ret_l); /* newest first */
/* Codes of a batch that were redeemed; project empty: by anybody. */
enum err wallet_batch_redeemed(struct store *s, struct id batch, struct id project, int64_t *ret_n);

struct code_row {
    char hash[HASH_TEXT_SIZE];
    struct id batch;
    char project[ID_SIZE]; /* "" until it is redeemed */
    utime_t at;
};
enum err wallet_code_save(struct store *s, const struct code_row *c);
enum err wallet_code_get(struct store *s, const char *hash, struct code_row *ret_c);

struct grant_row {
    struct id id, project;
    char batch[ID_SIZE]; /* "": no code */
    int64_t amount_u;
    int64_t scope;
    char sku[MONEY_SKU_SIZE];
    bool gift;
    int64_t expires_s;
    utime_t at, done_at; /* done_at 0: open */
};
struct grant_list {
    struct grant_row *at;
    size_t len, cap;
};
enum err wallet_grant_save(struct store *s, const struct grant_row *g);
enum err wallet_grant_get(struct store *s, struct id id, struct grant_row *ret_g);
enum err wallet_grant_open(struct store *s, struct id project, struct grant_list *ret_l);
enum err wallet_grant_list(struct store *s, struct id project, struct grant_list *ret_l);
/* Open grants of all projects that expire at or before until_s. */
enum err wallet_grant_over(struct store *s, int64_t until_s, struct grant_list *ret_l);

/* The operator's limit; 0 when none was set. */
enum err wallet_credit_get(struct store *s, struct id project, int64_t *ret_limit_u);
enum err wallet_credit_set(struct store *s, struct id project, int64_t limit_u, utime_t at);

struct part_row {
    char transfer[LEDGER_KEY_SIZE]; /* the pending transfer */
    struct id lease;
    int64_t n; /* order in which parts of one meter pay */
    char account[LEDGER_KEY_SIZE];
    int32_t meter;   /* -1: any */
    int64_t until_s; /* exclusive: pays seconds before it; INT64_MAX */
    int64_t amount_u, used_u;
};
struct part_list {
    struct part_row *at;
    size_t len, cap;
};
enum err wallet_part_save(struct store *s, const struct part_row *p);
/* Only used_u of a part that is stored. */
enum err wallet_part_used(struct store *s, const struct part_row *p);
enum err wallet_part_list(struct store *s, struct id lease, struct part_list *ret_l); /* by n */
enum err wallet_part_clear(struct store *s, struct id lease);

struct purchase_row {
    struct id id, project;
    char account[LEDGER_KEY_SIZE]; /* where the money went */
    utime_t at;
    int64_t voucher_u, gift_u, cash_u, credit_u;
    int64_t back_gift_u, back_cash_u, back_credit_u, lapsed_u;
    int64_t refunds;
};
enum err wallet_purchase_save(struct store *s, const struct purchase_row *p);
enum err wallet_purchase_get(struct store *s, struct id id, struct purchase_row *ret_p);

enum channel_kind { CHANNEL_TEST, CHANNEL_HMAC, CHANNEL_ED25519 };
struct channel_row {
    char name[NAME_SIZE];
    enum channel_kind kind;
    char key[80];        /* hex */
    char pay[TEXT_SIZE]; /* where to pay: text with {order}, shown to the renter */
    utime_t at;
    bool off;
};
struct channel_list {
    struct channel_row *at;
    size_t len, cap;
};
enum err wallet_channel_save(struct store *s, const struct channel_row *c);
enum err wallet_channel_get(struct store *s, const char *name, struct channel_row *ret_c);
enum err wallet_channel_list(struct store *s, struct channel_list *ret_l);

enum order_state { ORDER_OPEN, ORDER_PAID };
struct order_row {
    struct id id, project;
    char channel[NAME_SIZE];
    int64_t amount_u;
    char currency[CURRENCY_SIZE];
    enum order_state state;
    utime_t at, until, paid_at; /* paid_at 0: not yet */
    char reference[TEXT_SIZE];  /* the channel's own id of the payment */
    int64_t refunded_u;
};
struct order_list {
    struct order_row *at;
    size_t len, cap;
};
enum err wallet_order_save(struct store *s, const struct order_row *o);
enum err wallet_order_get(struct store *s, struct id id, struct order_row *ret_o);
enum err wallet_order_by_payment(struct store *s, const char *channel, const char *reference,
                                 struct order_row *ret_o);
enum err wallet_order_list(struct store *s, struct id project, struct order_list *ret_l);
/* Paid and not refunded in full, the newest first. */
enum err wallet_order_refundable(struct store *s, struct id project, struct order_list *ret_l);

/* True when the nonce is new (and now kept); false: ret_hash is what it came with. */
enum err wallet_nonce_take(struct store *s, const char *channel, const char *nonce,
                           const char *hash, utime_t at, bool *ret_new,
                           char ret_hash[HASH_TEXT_SIZE]);
enum err wallet_nonce_prune(struct store *s, utime_t before);

/* Posted rows of the journal that touch accounts of one project's wallet (cash, gift, credit,
 * receivable, its grants), with seq above after and booked in [from_ms, to_ms), in order. */
struct move_row {
    int64_t seq;
    struct ledger_transfer t; /* without the chain */
};
struct move_list {
    struct move_row *at;
    size_t len, cap;
};
enum err wallet_moves(struct store *s, struct id project, utime_t from_ms, utime_t to_ms,
                      int64_t after, int64_t limit, struct move_list *ret_l);
/* Credits − debits of an account, posted before that moment or at a seq up to `upto`. */
enum err wallet_balance_at(struct store *s, const char *account, utime_t before_ms, int64_t upto,
                           int64_t *ret_u);
/* Σ of top-ups by channels and the operator that reached cash, and Σ that went back from it. */
enum err wallet_received(struct store *s, struct id project, int64_t *ret_in_u,
                         int64_t *ret_back_u);
