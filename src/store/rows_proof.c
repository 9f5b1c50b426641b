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

enum err proof_cut(struct store *s, struct id project, int64_t max_s, int64_t *ret_s)
{
    struct sql q = sql_open(
        s,
        "SELECT min(?2, coalesce((SELECT min(billed_s) FROM fund_lease WHERE project=?1 AND "
        "settled=0 AND ready_ms>0), ?2), coalesce((SELECT min(cursor_s) FROM fund_disk "
        "WHERE project=?1 AND closed=0 AND meter<>?3), ?2))",
        "tii", project.s, max_s, (int64_t)MONEY_FREE);

    *ret_s = sql_next(&q) ? sql_i64(&q, 0) : max_s;
    return sql_close(&q);
}

enum err proof_lease_next(struct store *s, struct id project, const char *after, utime_t from_ms,
                          utime_t to_ms, struct id *ret_lease)
{
    struct sql q = sql_open(s,
                            "SELECT lease FROM fund_lease f WHERE project=? AND lease>? AND EXISTS("
                            "SELECT 1 FROM usage_slice u WHERE u.lease=f.lease AND u.t1_ms>? AND "
                            "u.t0_ms<?) ORDER BY lease LIMIT 1",
                            "ttii", project.s, after, from_ms, to_ms);
    enum err e = ERR_NOT_FOUND;

    if (sql_next(&q))
        e = str_copy(ret_lease->s, sizeof(ret_lease->s), sql_text(&q, 0)) ? ERR_OK : ERR_STORE;
    TRY(sql_close(&q));
    return e;
}

static enum err span_rows(struct sql *q, const char *window, int64_t to_s, struct span_list *ret_l)
{
    bool ok = true;

    while (ok && sql_next(q)) {
        struct span_row r = {.from_s = sql_i64(q, 0),
                             .to_s = MIN(sql_i64(q, 1), to_s),
                             .qty_per_s = sql_i64(q, 2),
                             .qty = sql_i64(q, 3),
                             .seq = sql_i64(q, 6)};
        struct span_row *last = ret_l->len > 0 ? &ret_l->at[ret_l->len - 1] : NULL;

        ok = str_copy(r.rating_window, sizeof(r.rating_window), window) &&
             str_copy(r.node.s, sizeof(r.node.s), sql_text(q, 4)) &&
             str_copy(r.boot, sizeof(r.boot), sql_text(q, 5));
        r.qty -= (sql_i64(q, 1) - r.to_s) * r.qty_per_s;
        if (last && last->to_s == r.from_s && last->qty_per_s == r.qty_per_s) {
            last->to_s = r.to_s;
            last->qty += r.qty;
        } else {
            *vec_push(ret_l) = r;
        }
    }
    TRY(sql_close(q));
    return ok ? ERR_OK : ERR_STORE;
}

enum err proof_spans(struct store *s, const char *window, int64_t to_s, struct span_list *ret_l)
{
    struct sql q = sql_open(s,
                            "SELECT from_s, to_s, qty_per_s, qty, node, boot, seq FROM usage_span "
                            "WHERE rating_window=? AND from_s<? ORDER BY from_s, id",
                            "ti", window, to_s);

    return span_rows(&q, window, to_s, ret_l);
}

enum err proof_spans_rated(struct store *s, const char *window, struct span_list *ret_l)
{
    struct sql q = sql_open(s,
                            "SELECT from_s, to_s, qty_per_s, qty, node, boot, seq FROM usage_span "
                            "WHERE rating_window=? ORDER BY id",
                            "t", window);

    return span_rows(&q, window, INT64_MAX, ret_l);
}

enum err proof_price_used(struct store *s, struct id price, int64_t year, int month,
                          int64_t *ret_qty)
{
    struct sql q = sql_open(
        s,
        "SELECT (SELECT coalesce(sum(l.qty_to-l.qty_from),0) FROM statement_line l JOIN "
        "statement x ON x.id=l.statement WHERE l.price=?1 AND x.closed AND x.year*12+x.month<?2) "
        "+ (SELECT coalesce(sum(w.qty),0) FROM rating_window w WHERE w.price=?1 AND "
        "w.year*12+w.month<?2 AND NOT EXISTS(SELECT 1 FROM statement x WHERE x.closed AND "
        "x.project=w.project AND x.year=w.year AND x.month=w.month))",
        "ti", price.s, year * 12 + month);

    *ret_qty = sql_next(&q) ? sql_i64(&q, 0) : 0;
    return sql_close(&q);
}

static enum err day_collect(struct sql q, struct ledger_day_list *ret_l)
{
    enum err e = ERR_OK;

    while (e == ERR_OK && sql_next(&q)) {
        struct ledger_day_row *d = vec_push(ret_l);

        d->day = sql_i64(&q, 0);
        d->seq = sql_i64(&q, 1);
        e = load_bytes(&q, 2, d->hash, sizeof(d->hash));
    }
    TRY(sql_close(&q));
    return e;
}

static enum err day_one(struct sql q, struct ledger_day_row *ret_d)
{
    struct ledger_day_list l = {0};
    enum err e = day_collect(q, &l);

    *ret_d = e == ERR_OK && l.len > 0 ? l.at[0] : (struct ledger_day_row){0};
    vec_fini(&l);
    return e;
}

enum err proof_days(struct store *s, int64_t first, int64_t limit, struct ledger_day_list *ret_l)
{
    return day_collect(sql_open(s,
                                "SELECT day, seq, hash FROM ledger_day WHERE day>=? ORDER BY day "
                                "LIMIT ?",
                                "ii", first, limit),
                       ret_l);
}

enum err proof_day_before(struct store *s, int64_t before, struct ledger_day_row *ret_d)
{
    return day_one(sql_open(s,
                            "SELECT day, seq, hash FROM ledger_day WHERE day<? ORDER BY day DESC "
                            "LIMIT 1",
                            "i", before),
                   ret_d);
}

enum err proof_day_of_row(struct store *s, int64_t seq, struct ledger_day_row *ret_d)
{
    return day_one(
        sql_open(s, "SELECT day, seq, hash FROM ledger_day WHERE seq>=? ORDER BY seq LIMIT 1", "i",
                 seq),
        ret_d);
}

static enum err number_one(struct sql q, int64_t *ret_v)
{
    *ret_v = sql_next(&q) ? sql_i64(&q, 0) : 0;
    return sql_close(&q);
}

enum err proof_row_last(struct store *s, int64_t *ret_seq)
{
    return number_one(sql_open(s, "SELECT coalesce(max(seq), 0) FROM transfer", ""), ret_seq);
}

enum err proof_row_of_month(struct store *s, struct id project, int64_t year, int month,
                            utime_t to_ms, int64_t *ret_seq)
{
    return number_one(
        sql_open(s,
                 "SELECT max(coalesce((SELECT max(t.seq) FROM rating_window w JOIN transfer t ON "
                 "t.owner=w.id WHERE w.project=?1 AND w.year=?2 AND w.month=?3), 0), "
                 "coalesce((SELECT max(seq) FROM ledger_day WHERE (day+1)*86400000<=?4), 0), "
                 "coalesce((SELECT max(seq) FROM transfer WHERE booked_ms<?4 AND seq>coalesce("
                 "(SELECT max(seq) FROM ledger_day WHERE (day+1)*86400000<=?4), 0)), 0))",
                 "tiii", project.s, year, (int64_t)month, to_ms),
        ret_seq);
}

enum err proof_row_of_owner(struct store *s, const char *owner, int64_t *ret_seq)
{
    return number_one(
        sql_open(s, "SELECT coalesce(max(seq), 0) FROM transfer WHERE owner=?", "t", owner),
        ret_seq);
}

enum err proof_balance(struct store *s, const char *account, int64_t seq, int64_t *ret_u)
{
    return number_one(
        sql_open(s,
                 "SELECT coalesce((SELECT sum(amount) FROM transfer WHERE cr=?1 AND seq<=?2 AND "
                 "step IN (0, 2)), 0) - coalesce((SELECT sum(amount) FROM transfer WHERE dr=?1 AND "
                 "seq<=?2 AND step IN (0, 2)), 0)",
                 "ti", account, seq),
        ret_u);
}

enum err proof_posted(struct store *s, const char *window, int64_t seq, int64_t *ret_u)
{
    return number_one(
        sql_open(
            s,
            "SELECT coalesce(sum(CASE WHEN cr LIKE 'revenue.%' THEN amount WHEN dr LIKE "
            "'revenue.%' THEN -amount ELSE 0 END), 0) FROM transfer WHERE owner=? AND seq<=? AND "
            "step IN (0, 2) AND cr NOT LIKE 'provider.%' AND dr NOT LIKE 'provider.%'",
            "ti", window, seq),
        ret_u);
}

enum err proof_accounts(struct store *s, struct id project, struct account_ids *ret_l)
{
    struct sql q =
        sql_open(s,
                 "SELECT id FROM account WHERE substr(id, -length(?1)-1)='.'||?1 OR id IN "
                 "(SELECT 'voucher.'||id FROM fund_grant WHERE project=?1) ORDER BY id",
                 "t", project.s);
    bool ok = true;

    while (ok && sql_next(&q))
        ok = str_copy(*vec_push(ret_l), LEDGER_KEY_SIZE, sql_text(&q, 0));
    TRY(sql_close(&q));
    return ok ? ERR_OK : ERR_STORE;
}

enum err proof_keys_of_lease(struct store *s, struct id lease, utime_t from_ms, utime_t to_ms,
                             struct node_key_list *ret_l)
{
    struct sql q = sql_open(
        s,
        "SELECT DISTINCT k.id, k.node, k.key, k.since_ms, k.told_ms, k.active FROM usage_slice u "
        "JOIN usage_signature g ON g.node=u.node AND g.boot=u.boot AND g.seq=u.seq "
        "JOIN node_key k ON k.id=g.node_key WHERE u.lease=? AND u.t1_ms>? AND u.t0_ms<? "
        "ORDER BY k.id",
        "tii", lease.s, from_ms, to_ms);
    enum err e = ERR_OK;

    while (e == ERR_OK && sql_next(&q)) {
        struct node_key *k = vec_push(ret_l);

        k->id = sql_i64(&q, 0);
        k->since_ms = sql_i64(&q, 3);
        e = str_copy(k->node.s, sizeof(k->node.s), sql_text(&q, 1))
                ? load_bytes(&q, 2, k->key, sizeof(k->key))
                : ERR_STORE;
    }
    TRY(sql_close(&q));
    return e;
}
