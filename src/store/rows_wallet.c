#include "store/rows_wallet.h"

#include "store/sql.h"

static const struct col batch_cols[] = {
    TEXT_COL(struct batch_row, id),          TEXT_COL(struct batch_row, note),
    TEXT_COL(struct batch_row, currency),    BIGINT_COL(struct batch_row, amount_u),
    BIGINT_COL(struct batch_row, count),     BIGINT_COL(struct batch_row, scope),
    TEXT_COL(struct batch_row, sku),         BOOL_COL(struct batch_row, gift),
    BIGINT_COL(struct batch_row, expires_s), BIGINT_COL(struct batch_row, per_project),
    BIGINT_COL(struct batch_row, at),        BIGINT_COL(struct batch_row, revoked_at),
};
ROW_TYPE(batch_type, "voucher_batch", struct batch_row, batch_cols, 1);

enum err wallet_batch_save(struct store *s, const struct batch_row *b)
{
    return row_save(s, &batch_type, b);
}

enum err wallet_batch_get(struct store *s, struct id id, struct batch_row *ret_b)
{
    return row_get(s, &batch_type, ret_b, "WHERE id=?", "t", id.s);
}

enum err wallet_batch_list(struct store *s, struct batch_list *ret_l)
{
    return row_list(s, &batch_type, ret_l, "ORDER BY at DESC, id DESC", "");
}

enum err wallet_batch_redeemed(struct store *s, struct id batch, struct id project, int64_t *ret_n)
{
    *ret_n = 0;
    return sql_one_i64(sql_open(s,
                                "SELECT count(*) FROM voucher_code WHERE batch=?1 AND project<>'' "
                                "AND (?2='' OR project=?2)",
                                "tt", batch.s, project.s),
                       ret_n);
}

static const struct col code_cols[] = {
    TEXT_COL(struct code_row, hash),
    TEXT_COL(struct code_row, batch),
    TEXT_COL(struct code_row, project),
    BIGINT_COL(struct code_row, at),
};
ROW_TYPE(code_type, "voucher_code", struct code_row, code_cols, 1);

enum err wallet_code_save(struct store *s, const struct code_row *c)
{
    return row_save(s, &code_type, c);
}

enum err wallet_code_get(struct store *s, const char *hash, struct code_row *ret_c)
{
    return row_get(s, &code_type, ret_c, "WHERE hash=?", "t", hash);
}

static const struct col grant_cols[] = {
    TEXT_COL(struct grant_row, id),      TEXT_COL(struct grant_row, project),
    TEXT_COL(struct grant_row, batch),   BIGINT_COL(struct grant_row, amount_u),
    BIGINT_COL(struct grant_row, scope), TEXT_COL(struct grant_row, sku),
    BOOL_COL(struct grant_row, gift),    BIGINT_COL(struct grant_row, expires_s),
    BIGINT_COL(struct grant_row, at),    BIGINT_COL(struct grant_row, done_at),
};
ROW_TYPE(grant_type, "fund_grant", struct grant_row, grant_cols, 1);

enum err wallet_grant_save(struct store *s, const struct grant_row *g)
{
    return row_save(s, &grant_type, g);
}

enum err wallet_grant_open(struct store *s, struct id project, struct grant_list *ret_l)
{
    return row_list(s, &grant_type, ret_l, "WHERE project=? AND done_at=0 ORDER BY expires_s, id",
                    "t", project.s);
}

enum err wallet_grant_list(struct store *s, struct id project, struct grant_list *ret_l)
{
    return row_list(s, &grant_type, ret_l, "WHERE project=? ORDER BY done_at<>0, expires_s, id",
                    "t", project.s);
}

enum err wallet_grant_get(struct store *s, struct id id, struct grant_row *ret_g)
{
    return row_get(s, &grant_type, ret_g, "WHERE id=?", "t", id.s);
}

enum err wallet_grant_over(struct store *s, int64_t until_s, struct grant_list *ret_l)
{
    return row_list(s, &grant_type, ret_l, "WHERE done_at=0 AND expires_s<=? ORDER BY id", "i",
                    until_s);
}

enum err wallet_credit_get(struct store *s, struct id project, int64_t *ret_limit_u)
{
    *ret_limit_u = 0;
    return sql_one_i64(
        sql_open(s, "SELECT limit_u FROM credit_line WHERE project=?", "t", project.s),
        ret_limit_u);
}

enum err wallet_credit_set(struct store *s, struct id project, int64_t limit_u, utime_t at)
{
    return sql_run(
        s,
        "INSERT INTO credit_line(project, limit_u, at) VALUES(?,?,?) ON CONFLICT(project)"
        " DO UPDATE SET limit_u=excluded.limit_u, at=excluded.at",
        "tii", project.s, limit_u, (int64_t)at);
}

static const struct col part_cols[] = {
    TEXT_COL(struct part_row, transfer),   TEXT_COL(struct part_row, lease),
    BIGINT_COL(struct part_row, n),        TEXT_COL(struct part_row, account),
    INT_COL(struct part_row, meter),       BIGINT_COL(struct part_row, until_s),
    BIGINT_COL(struct part_row, amount_u), BIGINT_COL(struct part_row, used_u),
};
ROW_TYPE(part_type, "hold_part", struct part_row, part_cols, 1);

enum err wallet_part_save(struct store *s, const struct part_row *p)
{
    return row_save(s, &part_type, p);
}

enum err wallet_part_used(struct store *s, const struct part_row *p)
{
    return sql_run(s, "UPDATE hold_part SET used_u=? WHERE transfer=?", "it", p->used_u,
                   p->transfer);
}

enum err wallet_part_list(struct store *s, struct id lease, struct part_list *ret_l)
{
    struct kept_list kept;

    TRY(row_kept(s, &part_type, &kept, "WHERE lease=? ORDER BY n", "t", lease.s));
    row_kept_copy(&part_type, &kept, ret_l);
    return ERR_OK;
}

enum err wallet_part_clear(struct store *s, struct id lease)
{
    return sql_run(s, "DELETE FROM hold_part WHERE lease=?", "t", lease.s);
}

static const struct col purchase_cols[] = {
    TEXT_COL(struct purchase_row, id),
    TEXT_COL(struct purchase_row, project),
    TEXT_COL(struct purchase_row, account),
    BIGINT_COL(struct purchase_row, at),
    BIGINT_COL(struct purchase_row, voucher_u),
    BIGINT_COL(struct purchase_row, gift_u),
    BIGINT_COL(struct purchase_row, cash_u),
    BIGINT_COL(struct purchase_row, credit_u),
    BIGINT_COL(struct purchase_row, back_gift_u),
    BIGINT_COL(struct purchase_row, back_cash_u),
    BIGINT_COL(struct purchase_row, back_credit_u),
    BIGINT_COL(struct purchase_row, lapsed_u),
    BIGINT_COL(struct purchase_row, refunds),
};
ROW_TYPE(purchase_type, "purchase", struct purchase_row, purchase_cols, 1);

enum err wallet_purchase_save(struct store *s, const struct purchase_row *p)
{
    return row_save(s, &purchase_type, p);
}

enum err wallet_purchase_get(struct store *s, struct id id, struct purchase_row *ret_p)
{
    return row_get(s, &purchase_type, ret_p, "WHERE id=?", "t", id.s);
}

static const struct col channel_cols[] = {
    TEXT_COL(struct channel_row, name), INT_COL(struct channel_row, kind),
    TEXT_COL(struct channel_row, key),  TEXT_COL(struct channel_row, pay),
    BIGINT_COL(struct channel_row, at), BOOL_COL(struct channel_row, off),
};
ROW_TYPE(channel_type, "channel", struct channel_row, channel_cols, 1);

enum err wallet_channel_save(struct store *s, const struct channel_row *c)
{
    return row_save(s, &channel_type, c);
}

enum err wallet_channel_get(struct store *s, const char *name, struct channel_row *ret_c)
{
    return row_get(s, &channel_type, ret_c, "WHERE name=?", "t", name);
}

enum err wallet_channel_list(struct store *s, struct channel_list *ret_l)
{
    return row_list(s, &channel_type, ret_l, "ORDER BY name", "");
}

static const struct col order_cols[] = {
    TEXT_COL(struct order_row, id),           TEXT_COL(struct order_row, project),
    TEXT_COL(struct order_row, channel),      BIGINT_COL(struct order_row, amount_u),
    TEXT_COL(struct order_row, currency),     INT_COL(struct order_row, state),
    BIGINT_COL(struct order_row, at),         BIGINT_COL(struct order_row, until),
    BIGINT_COL(struct order_row, paid_at),    TEXT_COL(struct order_row, reference),
    BIGINT_COL(struct order_row, refunded_u),
};
ROW_TYPE(order_type, "topup_order", struct order_row, order_cols, 1);

enum err wallet_order_save(struct store *s, const struct order_row *o)
{
    return row_save(s, &order_type, o);
}

enum err wallet_order_get(struct store *s, struct id id, struct order_row *ret_o)
{
    return row_get(s, &order_type, ret_o, "WHERE id=?", "t", id.s);
}

enum err wallet_order_by_payment(struct store *s, const char *channel, const char *reference,
                                 struct order_row *ret_o)
{
    return row_get(s, &order_type, ret_o, "WHERE channel=? AND reference=? AND state=1", "tt",
                   channel, reference);
}

enum err wallet_order_list(struct store *s, struct id project, struct order_list *ret_l)
{
    return row_list(s, &order_type, ret_l, "WHERE project=? ORDER BY at DESC, id DESC LIMIT 200",
                    "t", project.s);
}

enum err wallet_order_refundable(struct store *s, struct id project, struct order_list *ret_l)
{
    return row_list(s, &order_type, ret_l,
                    "WHERE project=? AND state=1 AND refunded_u<amount_u AND "
                    "id NOT IN (SELECT order_id FROM fx_order) "
                    "ORDER BY paid_at DESC, id DESC",
                    "t", project.s);
}

enum err wallet_nonce_take(struct store *s, const char *channel, const char *nonce,
                           const char *hash, utime_t at, bool *ret_new,
                           char ret_hash[HASH_TEXT_SIZE])
{
    struct sql q = sql_open(s, "SELECT hash FROM channel_nonce WHERE channel=? AND nonce=?", "tt",
                            channel, nonce);
    bool known = sql_next(&q);

    if (known)
        (void)str_copy(ret_hash, HASH_TEXT_SIZE, sql_text(&q, 0));
    TRY(sql_close(&q));
    *ret_new = !known;
    if (known)
        return ERR_OK;
    return sql_run(s, "INSERT INTO channel_nonce(channel, nonce, hash, at) VALUES(?,?,?,?)", "ttti",
                   channel, nonce, hash, (int64_t)at);
}

enum err wallet_nonce_prune(struct store *s, utime_t before)
{
    return sql_run(s, "DELETE FROM channel_nonce WHERE at<?", "i", (int64_t)before);
}

#define WALLET_ACCOUNTS                                                                            \
    "(SELECT 'cash.'||?1 UNION ALL SELECT 'gift.'||?1 UNION ALL SELECT 'credit.'||?1 "             \
    "UNION ALL SELECT 'receivable.'||?1 UNION ALL "                                                \
    "SELECT 'voucher.'||id FROM fund_grant WHERE project=?1)"

enum err wallet_moves(struct store *s, struct id project, utime_t from_ms, utime_t to_ms,
                      int64_t after, int64_t limit, struct move_list *ret_l)
{
    struct sql q = sql_open(
        s,
        "SELECT seq, id, ledger, dr, cr, amount, step, pending, kind, grp, owner, effective_ms, "
        "booked_ms FROM transfer WHERE seq IN (SELECT seq FROM transfer WHERE dr "
        "IN " WALLET_ACCOUNTS " UNION SELECT seq FROM transfer WHERE cr IN " WALLET_ACCOUNTS
        ") AND booked_ms>=?2 AND booked_ms<?3 AND seq>?4 AND step IN (0,2) AND amount>0 "
        "ORDER BY seq LIMIT ?5",
        "tiiii", project.s, (int64_t)from_ms, (int64_t)to_ms, after, limit);

    while (sql_next(&q)) {
        struct move_row *r = vec_push(ret_l);

        r->seq = sql_i64(&q, 0);
        (void)str_copy(r->t.id, sizeof(r->t.id), sql_text(&q, 1));
        (void)str_copy(r->t.ledger, sizeof(r->t.ledger), sql_text(&q, 2));
        (void)str_copy(r->t.dr, sizeof(r->t.dr), sql_text(&q, 3));
        (void)str_copy(r->t.cr, sizeof(r->t.cr), sql_text(&q, 4));
        r->t.amount = sql_i64(&q, 5);
        r->t.step = (enum ledger_step)sql_i64(&q, 6);
        (void)str_copy(r->t.pending, sizeof(r->t.pending), sql_text(&q, 7));
        (void)str_copy(r->t.kind, sizeof(r->t.kind), sql_text(&q, 8));
        (void)str_copy(r->t.group, sizeof(r->t.group), sql_text(&q, 9));
        (void)str_copy(r->t.owner, sizeof(r->t.owner), sql_text(&q, 10));
        r->t.effective_ms = sql_i64(&q, 11);
        r->t.booked_ms = sql_i64(&q, 12);
    }
    return sql_close(&q);
}

enum err wallet_balance_at(struct store *s, const char *account, utime_t before_ms, int64_t upto,
                           int64_t *ret_u)
{
    *ret_u = 0;
    return sql_one_i64(
        sql_open(s,
                 "SELECT coalesce((SELECT sum(amount) FROM transfer WHERE cr=?1 AND step IN (0,2) "
                 "AND (booked_ms<?2 OR seq<=?3)),0)-coalesce((SELECT sum(amount) FROM transfer "
                 "WHERE dr=?1 AND step IN (0,2) AND (booked_ms<?2 OR seq<=?3)),0)",
                 "tii", account, (int64_t)before_ms, upto),
        ret_u);
}

enum err wallet_received(struct store *s, struct id project, int64_t *ret_in_u, int64_t *ret_back_u)
{
    struct sql q = sql_open(
        s,
        "SELECT coalesce((SELECT sum(amount) FROM transfer WHERE cr='cash.'||?1 AND kind='topup'),"
        "0), coalesce((SELECT sum(amount) FROM transfer WHERE dr='cash.'||?1 AND kind='refund'),0)",
        "t", project.s);

    *ret_in_u = *ret_back_u = 0;
    if (sql_next(&q)) {
        *ret_in_u = sql_i64(&q, 0);
        *ret_back_u = sql_i64(&q, 1);
    }
    return sql_close(&q);
}
