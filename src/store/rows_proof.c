#include "store/rows_proof.h"

#include "store/sql.h"

static enum err load_bytes(struct sql *q, int col, unsigned char *ret_bytes, size_t size)
{
    size_t n;
    const void *p = sql_blob(q, col, &n);

    if (n != size)
        return ERR_STORE;
    memcpy(ret_bytes, p, size);
    return ERR_OK;
}

#define KEY_COLS "id, node, key, since_ms, told_ms, active"

static enum err key_one(struct sql q, struct node_key *ret_k)
{
    struct node_key k = {0};
    enum err e = ERR_NOT_FOUND;

    if (sql_next(&q)) {
        k.id = sql_i64(&q, 0);
        k.since_ms = sql_i64(&q, 3);
        k.told_ms = sql_i64(&q, 4);
        k.active = sql_i64(&q, 5) != 0;
        e = str_copy(k.node.s, sizeof(k.node.s), sql_text(&q, 1))
                ? load_bytes(&q, 2, k.key, sizeof(k.key))
                : ERR_STORE;
    }
    TRY(sql_close(&q));
    if (e == ERR_OK)
        *ret_k = k;
    return e;
}

enum err proof_key_active(struct store *s, struct id node, struct node_key *ret_k)
{
    return key_one(
        sql_open(s, "SELECT " KEY_COLS " FROM node_key WHERE node=? AND active=1", "t", node.s),
        ret_k);
}

enum err proof_key_find(struct store *s, struct id node, const unsigned char key[SIGN_KEY_SIZE],
                        struct node_key *ret_k)
{
    return key_one(sql_open(s, "SELECT " KEY_COLS " FROM node_key WHERE node=? AND key=?", "tb",
                            node.s, key, (size_t)SIGN_KEY_SIZE),
                   ret_k);
}

enum err proof_key_get(struct store *s, int64_t id, struct node_key *ret_k)
{
    return key_one(sql_open(s, "SELECT " KEY_COLS " FROM node_key WHERE id=?", "i", id), ret_k);
}

enum err proof_key_save(struct store *s, struct node_key *io_k)
{
    TRY(sql_run(s,
                "INSERT INTO node_key(node, key, since_ms, told_ms, active) VALUES(?,?,?,?,?) "
                "ON CONFLICT(node, key) DO UPDATE SET since_ms=excluded.since_ms, "
                "told_ms=excluded.told_ms, active=excluded.active",
                "tbiii", io_k->node.s, io_k->key, sizeof(io_k->key), io_k->since_ms, io_k->told_ms,
                (int64_t)io_k->active));
    return proof_key_find(s, io_k->node, io_k->key, io_k);
}

enum err proof_keys_retire(struct store *s, struct id node)
{
    return sql_run(s, "UPDATE node_key SET active=0 WHERE node=?", "t", node.s);
}

#define SIG_COLS "node, boot, seq, node_key, anchor_ms, t0_ms, t1_ms, gpus_ok, sig"

enum err proof_signature_add(struct store *s, const struct signature_row *r)
{
    return sql_run(s, "INSERT INTO usage_signature(" SIG_COLS ") VALUES(?,?,?,?,?,?,?,?,?)",
                   "ttiiiiiib", r->node.s, r->boot, r->seq, r->key, r->anchor_ms, r->t0_ms,
                   r->t1_ms, (int64_t)r->gpus_ok, r->sig, sizeof(r->sig));
}

enum err proof_signature_get(struct store *s, struct id node, const char *boot, int64_t seq,
                             struct signature_row *ret_r)
{
    struct sql q =
        sql_open(s, "SELECT " SIG_COLS " FROM usage_signature WHERE node=? AND boot=? AND seq=?",
                 "tti", node.s, boot, seq);
    struct signature_row r = {.node = node, .seq = seq};
    enum err e = ERR_NOT_FOUND;

    if (sql_next(&q)) {
        r.key = sql_i64(&q, 3);
        r.anchor_ms = sql_i64(&q, 4);
        r.t0_ms = sql_i64(&q, 5);
        r.t1_ms = sql_i64(&q, 6);
        r.gpus_ok = sql_i64(&q, 7) != 0;
        e = str_copy(r.boot, sizeof(r.boot), boot) ? load_bytes(&q, 8, r.sig, sizeof(r.sig))
                                                   : ERR_STORE;
    }
    TRY(sql_close(&q));
    if (e == ERR_OK)
        *ret_r = r;
    return e;
}
