/* rows_proof.h: rows of the proof migration (who signed what) and reads of the journal for a bill
 * that is proven at home. As in rows_money.h: nothing here decides anything; lists are the
 * caller's. */
#pragma once

#include "base/sign.h"
#include "store/rows_money.h"

struct node_key {
    int64_t id; /* 0: not stored yet */
    struct id node;
    unsigned char key[SIGN_KEY_SIZE];
    utime_t since_ms, told_ms;
    bool active;
};
struct node_key_list {
    struct node_key *at;
    size_t len, cap;
};
/* The key that a node's evidence is held against. */
enum err proof_key_active(struct store *s, struct id node, struct node_key *ret_k);
enum err proof_key_find(struct store *s, struct id node, const unsigned char key[SIGN_KEY_SIZE],
                        struct node_key *ret_k);
enum err proof_key_get(struct store *s, int64_t id, struct node_key *ret_k);
/* Inserts (id 0, set on return) or changes active, since and told. */
enum err proof_key_save(struct store *s, struct node_key *io_k);
/* None of a node's keys is active any more. */
enum err proof_keys_retire(struct store *s, struct id node);

struct signature_row {
    struct id node;
    char boot[40];
    int64_t seq, key;
    utime_t anchor_ms, t0_ms, t1_ms;
    bool gpus_ok;
    unsigned char sig[SIGN_SIZE];
};
enum err proof_signature_add(struct store *s, const struct signature_row *r);
enum err proof_signature_get(struct store *s, struct id node, const char *boot, int64_t seq,
                             struct signature_row *ret_r);

/* ---- what a bill file is made of */

/* Up to which second (exclusive) everything that a project used is rated, at most max_s. */
enum err proof_cut(struct store *s, struct id project, int64_t max_s, int64_t *ret_s);
/* The first lease of a project after `after` ("": the very first) with slices that touch
 * [from, to). ERR_NOT_FOUND. */
enum err proof_lease_next(struct store *s, struct id project, const char *after, utime_t from_ms,
                          utime_t to_ms, struct id *ret_lease);
/* Spans of a window before to_s in the order of time; those that touch and have the same quantity
 * per second are one (its node, boot and seq are then of the first). */
enum err proof_spans(struct store *s, const char *window, int64_t to_s, struct span_list *ret_l);
/* The same whole, in the order in which it was rated: quantity [a, b) of a window is the same part
 * of this list whatever came later. */
enum err proof_spans_rated(struct store *s, const char *window, struct span_list *ret_l);
/* What of a price version (one that a package has for itself) bills had before that month. */
enum err proof_price_used(struct store *s, struct id price, int64_t year, int month,
                          int64_t *ret_qty);

struct ledger_day_row {
    int64_t day, seq; /* days since 1970-01-01 UTC; number of its last row */
    unsigned char hash[LEDGER_HASH_SIZE];
};
struct ledger_day_list {
    struct ledger_day_row *at;
    size_t len, cap;
};
/* Days with a head and first <= day, in order, at most limit. */
enum err proof_days(struct store *s, int64_t first, int64_t limit, struct ledger_day_list *ret_l);
/* The last day before `before` with a head; all zero when there is none. */
enum err proof_day_before(struct store *s, int64_t before, struct ledger_day_row *ret_d);
enum err proof_row_last(struct store *s, int64_t *ret_seq); /* 0: the journal is empty */
/* The last row that was booked before to_ms or belongs to a window of that month of the project. */
enum err proof_row_of_month(struct store *s, struct id project, int64_t year, int month,
                            utime_t to_ms, int64_t *ret_seq);
/* The day whose rows include seq; its head so far. */
enum err proof_day_of_row(struct store *s, int64_t seq, struct ledger_day_row *ret_d);
/* The last row that belongs to an owner; 0: none. */
enum err proof_row_of_owner(struct store *s, const char *owner, int64_t *ret_seq);
/* Credits − debits of an account, posted by rows up to seq. */
enum err proof_balance(struct store *s, const char *account, int64_t seq, int64_t *ret_u);
/* What the rows up to seq charged for a window: charges − what took them back. A supplier's share
 * of it is not the renter's and does not count. */
enum err proof_posted(struct store *s, const char *window, int64_t seq, int64_t *ret_u);
struct account_ids {
    char (*at)[LEDGER_KEY_SIZE];
    size_t len, cap;
};
/* Accounts of a project ("cash.prj_…", its vouchers), by id. */
enum err proof_accounts(struct store *s, struct id project, struct account_ids *ret_l);
/* Keys of nodes that signed slices of this lease in [from, to). */
enum err proof_keys_of_lease(struct store *s, struct id lease, utime_t from_ms, utime_t to_ms,
                             struct node_key_list *ret_l);
