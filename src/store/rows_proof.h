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
