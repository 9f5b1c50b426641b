/* rows_money_usage.c: the journal, and evidence with what was rated from it: rows with hashes. */
#include "store/rows_money.h"

#include "store/sql.h"

static enum err load_hash(struct sql *q, int col, unsigned char *ret_hash)
{
    size_t n;
    const void *p = sql_blob(q, col, &n);

    if (n != LEDGER_HASH_SIZE)
        return ERR_STORE;
    memcpy(ret_hash, p, LEDGER_HASH_SIZE);
    return ERR_OK;
}

static bool load_text(struct sql *q, int col, char *buf, size_t size)
{
    return str_copy(buf, size, sql_text(q, col));
}

#define TRANSFER_COLS                                                                              \
    "id, ledger, dr, cr, amount, step, pending, kind, grp, owner, effective_ms, expires_ms, "      \
    "booked_ms, prev_hash, hash"

static enum err transfer_load(struct sql *q, struct ledger_transfer *t)
{
    bool ok =
        load_text(q, 0, t->id, sizeof(t->id)) && load_text(q, 1, t->ledger, sizeof(t->ledger)) &&
        load_text(q, 2, t->dr, sizeof(t->dr)) && load_text(q, 3, t->cr, sizeof(t->cr)) &&
        load_text(q, 6, t->pending, sizeof(t->pending)) &&
        load_text(q, 7, t->kind, sizeof(t->kind)) && load_text(q, 8, t->group, sizeof(t->group)) &&
        load_text(q, 9, t->owner, sizeof(t->owner));

    t->amount = sql_i64(q, 4);
    t->step = (enum ledger_step)sql_i64(q, 5);
    t->effective_ms = sql_i64(q, 10);
    t->expires_ms = sql_i64(q, 11);
    t->booked_ms = sql_i64(q, 12);
    if (!ok)
        return ERR_STORE;
    TRY(load_hash(q, 13, t->prev_hash));
    return load_hash(q, 14, t->hash);
}

static enum err transfer_collect(struct sql q, struct transfer_list *io_l)
{
    enum err e = ERR_OK;

    while (e == ERR_OK && sql_next(&q))
        e = transfer_load(&q, vec_push(io_l));
    TRY(sql_close(&q));
    return e;
}

enum err money_transfer_find(struct store *s, const char *id, struct transfer_list *io_l)
{
    return transfer_collect(
        sql_open(s, "SELECT " TRANSFER_COLS " FROM transfer WHERE id=?", "t", id), io_l);
}

enum err money_transfer_resolution(struct store *s, const char *pending, struct transfer_list *io_l)
{
    return transfer_collect(
        sql_open(s, "SELECT " TRANSFER_COLS " FROM transfer WHERE pending=? AND pending<>''", "t",
                 pending),
        io_l);
}

enum err money_transfer_list(struct store *s, struct transfer_list *ret_l)
{
    return transfer_collect(sql_open(s, "SELECT " TRANSFER_COLS " FROM transfer ORDER BY seq", ""),
                            ret_l);
}

enum err money_transfer_page(struct store *s, int64_t from, int64_t to, struct transfer_list *ret_l)
{
    return transfer_collect(
        sql_open(s, "SELECT " TRANSFER_COLS " FROM transfer WHERE seq>=? AND seq<? ORDER BY seq",
                 "ii", from, to),
        ret_l);
}

enum err money_transfer_add(struct store *s, const struct ledger_transfer *t)
{
    return sql_run(s,
                   "INSERT INTO transfer(" TRANSFER_COLS ") VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                   "ttttiitttt"
                   "iiibb",
                   t->id, t->ledger, t->dr, t->cr, t->amount, (int64_t)t->step, t->pending, t->kind,
                   t->group, t->owner, t->effective_ms, t->expires_ms, t->booked_ms, t->prev_hash,
                   sizeof(t->prev_hash), t->hash, sizeof(t->hash));
}

enum err money_transfer_head(struct store *s, unsigned char ret_hash[LEDGER_HASH_SIZE])
{
    struct sql q = sql_open(s, "SELECT hash FROM transfer ORDER BY seq DESC LIMIT 1", "");
    enum err e = ERR_OK;

    memset(ret_hash, 0, LEDGER_HASH_SIZE);
    if (sql_next(&q))
        e = load_hash(&q, 0, ret_hash);
    TRY(sql_close(&q));
    return e;
}

enum err money_day_save(struct store *s, int64_t day, const unsigned char hash[LEDGER_HASH_SIZE])
{
    return sql_run(s,
                   "INSERT INTO ledger_day(day, seq, hash) "
                   "VALUES(?, (SELECT max(seq) FROM transfer), ?) "
                   "ON CONFLICT(day) DO UPDATE SET seq=excluded.seq, hash=excluded.hash",
                   "ib", day, hash, (size_t)LEDGER_HASH_SIZE);
}

enum err money_day_last(struct store *s, int64_t before, int64_t *ret_day,
                        char ret_hash[2 * LEDGER_HASH_SIZE + 1])
{
    struct sql q = sql_open(s,
                            "SELECT day, lower(hex(hash)) FROM ledger_day WHERE day<? "
                            "ORDER BY day DESC LIMIT 1",
                            "i", before);
    enum err e = ERR_NOT_FOUND;

    if (sql_next(&q)) {
        *ret_day = sql_i64(&q, 0);
        e = load_text(&q, 1, ret_hash, 2 * LEDGER_HASH_SIZE + 1) ? ERR_OK : ERR_STORE;
    }
    TRY(sql_close(&q));
    return e;
}

#define SLICE_COLS                                                                                 \
    "node, boot, seq, lease, epoch, running, gpus_ok, t0_ms, t1_ms, done, received_ms, cpu_us, "   \
    "memory_bytes, rx_bytes, tx_bytes, disk_used_mib, gpu_util_pct, gpu_memory_mib, payload"

static enum err slice_load(struct sql *q, struct slice_row *r)
{
    bool ok = load_text(q, 0, r->node.s, sizeof(r->node.s)) &&
              load_text(q, 1, r->boot, sizeof(r->boot)) &&
              load_text(q, 3, r->lease, sizeof(r->lease));

    r->seq = sql_i64(q, 2);
    r->epoch = sql_i64(q, 4);
    r->running = sql_i64(q, 5) != 0;
    r->gpus_ok = sql_i64(q, 6) != 0;
    r->t0_ms = sql_i64(q, 7);
    r->t1_ms = sql_i64(q, 8);
    r->done = sql_i64(q, 9) != 0;
    r->received_ms = sql_i64(q, 10);
    r->cpu_us = sql_i64(q, 11);
    r->memory_bytes = sql_i64(q, 12);
    r->rx_bytes = sql_i64(q, 13);
    r->tx_bytes = sql_i64(q, 14);
    r->disk_used_mib = sql_i64(q, 15);
    r->gpu_util_pct = sql_i64(q, 16);
    r->gpu_memory_mib = sql_i64(q, 17);
    return ok ? load_hash(q, 18, r->payload) : ERR_STORE;
}

static enum err slice_collect(struct sql q, struct slice_list *io_l)
{
    enum err e = ERR_OK;

    while (e == ERR_OK && sql_next(&q))
        e = slice_load(&q, vec_push(io_l));
    TRY(sql_close(&q));
    return e;
}

enum err money_slice_get(struct store *s, struct id node, const char *boot, int64_t seq,
                         struct slice_row *ret_r)
{
    struct sql q =
        sql_open(s, "SELECT " SLICE_COLS " FROM usage_slice WHERE node=? AND boot=? AND seq=?",
                 "tti", node.s, boot, seq);
    enum err e = ERR_NOT_FOUND;

    if (sql_next(&q))
        e = slice_load(&q, ret_r);
    TRY(sql_close(&q));
    return e;
}

enum err money_slice_next(struct store *s, struct id node, const char *boot, int64_t after,
                          struct slice_row *ret_r)
{
    struct sql q = sql_open(s,
                            "SELECT " SLICE_COLS " FROM usage_slice WHERE node=? AND boot=? AND "
                            "seq>? ORDER BY seq LIMIT 1",
                            "tti", node.s, boot, after);
    enum err e = ERR_NOT_FOUND;

    if (sql_next(&q))
        e = slice_load(&q, ret_r);
    TRY(sql_close(&q));
    return e;
}

enum err money_slice_add(struct store *s, const struct slice_row *r, bool *ret_new)
{
    TRY(sql_run(
        s,
        "INSERT INTO usage_slice(" SLICE_COLS ") VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) "
        "ON CONFLICT DO NOTHING",
        "ttitiiiiiiiiiiiiiib", r->node.s, r->boot, r->seq, r->lease, r->epoch, (int64_t)r->running,
        (int64_t)r->gpus_ok, r->t0_ms, r->t1_ms, (int64_t)r->done, r->received_ms, r->cpu_us,
        r->memory_bytes, r->rx_bytes, r->tx_bytes, r->disk_used_mib, r->gpu_util_pct,
        r->gpu_memory_mib, r->payload, sizeof(r->payload)));
    *ret_new = sql_changes(s) > 0;
    return ERR_OK;
}

enum err money_slice_done(struct store *s, struct id node, const char *boot, int64_t seq)
{
    return sql_run(s, "UPDATE usage_slice SET done=1 WHERE node=? AND boot=? AND seq=?", "tti",
                   node.s, boot, seq);
}

enum err money_slice_waiting(struct store *s, struct id node, const char *boot, int64_t *ret_n)
{
    struct sql q = sql_open(s,
                            "SELECT count(*) FROM usage_slice WHERE node=?1 AND boot=?2 AND seq>"
                            "(SELECT coalesce(max(ack_seq),0) FROM usage_boot WHERE node=?1 AND "
                            "boot=?2) AND done=0",
                            "tt", node.s, boot);

    *ret_n = 0;
    if (sql_next(&q))
        *ret_n = sql_i64(&q, 0);
    return sql_close(&q);
}

enum err money_slice_parked(struct store *s, struct id lease, struct slice_list *ret_l)
{
    return slice_collect(sql_open(s,
                                  "SELECT " SLICE_COLS " FROM usage_slice WHERE lease=? AND done=0 "
                                  "ORDER BY t0_ms, boot, seq",
                                  "t", lease.s),
                         ret_l);
}

enum err money_slice_list(struct store *s, struct id lease, utime_t from_ms, utime_t to_ms,
                          utime_t begin_ms, int64_t limit, struct slice_list *ret_l)
{
    return slice_collect(sql_open(s,
                                  "SELECT " SLICE_COLS " FROM usage_slice WHERE lease=? AND "
                                  "t1_ms>? AND t0_ms<? AND t0_ms>=? "
                                  "ORDER BY t0_ms, boot, seq LIMIT ?",
                                  "tiiii", lease.s, from_ms, to_ms, begin_ms, limit),
                         ret_l);
}

enum err money_boot_get(struct store *s, struct id node, const char *boot, int64_t *ret_ack)
{
    struct sql q =
        sql_open(s, "SELECT ack_seq FROM usage_boot WHERE node=? AND boot=?", "tt", node.s, boot);

    *ret_ack = 0;
    if (sql_next(&q))
        *ret_ack = sql_i64(&q, 0);
    return sql_close(&q);
}

enum err money_boot_set(struct store *s, struct id node, const char *boot, int64_t ack)
{
    return sql_run(s,
                   "INSERT INTO usage_boot(node, boot, ack_seq) VALUES(?,?,?) "
                   "ON CONFLICT(node, boot) DO UPDATE SET ack_seq=excluded.ack_seq",
                   "tti", node.s, boot, ack);
}

#define SPAN_COLS "rating_window, from_s, to_s, qty_per_s, qty, node, boot, seq"

enum err money_span_add(struct store *s, const struct span_row *r)
{
    return sql_run(s, "INSERT INTO usage_span(" SPAN_COLS ") VALUES(?,?,?,?,?,?,?,?)", "tiiiitti",
                   r->rating_window, r->from_s, r->to_s, r->qty_per_s, r->qty, r->node.s, r->boot,
                   r->seq);
}

enum err money_span_extend(struct store *s, const struct span_row *r, bool *ret_done)
{
    TRY(sql_run(s,
                "UPDATE usage_span SET to_s=?1, qty=qty+?2 WHERE rating_window=?3 AND to_s=?4 AND "
                "qty_per_s=?5 AND boot='' AND node=?6",
                "iitiit", r->to_s, r->qty, r->rating_window, r->from_s, r->qty_per_s, r->node.s));
    *ret_done = sql_changes(s) > 0;
    return ERR_OK;
}

static enum err span_collect(struct sql q, struct span_list *io_l)
{
    bool ok = true;

    while (ok && sql_next(&q)) {
        struct span_row *r = vec_push(io_l);

        r->id = sql_i64(&q, 8);
        ok = load_text(&q, 0, r->rating_window, sizeof(r->rating_window)) &&
             load_text(&q, 5, r->node.s, sizeof(r->node.s)) &&
             load_text(&q, 6, r->boot, sizeof(r->boot));
        r->from_s = sql_i64(&q, 1);
        r->to_s = sql_i64(&q, 2);
        r->qty_per_s = sql_i64(&q, 3);
        r->qty = sql_i64(&q, 4);
        r->seq = sql_i64(&q, 7);
    }
    TRY(sql_close(&q));
    return ok ? ERR_OK : ERR_STORE;
}

enum err money_span_disks(struct store *s, struct id project, int64_t from_id, int64_t limit,
                          struct span_list *ret_l)
{
    return span_collect(
        sql_open(s,
                 "SELECT rating_window, s.from_s, s.to_s, qty_per_s, s.qty, node, "
                 "boot, seq, s.id FROM usage_span s JOIN rating_window w "
                 "ON w.id=s.rating_window WHERE w.project=? AND s.boot='' AND s.id>=? "
                 "ORDER BY s.id LIMIT ?",
                 "tii", project.s, from_id, limit),
        ret_l);
}

enum err money_span_slice(struct store *s, const struct slice_row *r, struct span_list *ret_l)
{
    return span_collect(
        sql_open(s,
                 "SELECT " SPAN_COLS ", id FROM usage_span "
                 "WHERE node=? AND boot=? AND seq=? AND boot<>'' ORDER BY from_s, id",
                 "tti", r->node.s, r->boot, r->seq),
        ret_l);
}
