#include "store/rows_clearing.h"

#include "store/sql.h"

static const struct col line_cols[] = {
    BIGINT_COL(struct payment_line, id),          TEXT_COL(struct payment_line, channel),
    INT_COL(struct payment_line, kind),           TEXT_COL(struct payment_line, reference),
    TEXT_COL(struct payment_line, order_id),      BIGINT_COL(struct payment_line, amount_u),
    TEXT_COL(struct payment_line, currency),      BIGINT_COL(struct payment_line, at),
    TEXT_COL(struct payment_line, file),          BIGINT_COL(struct payment_line, imported_at),
    INT_COL(struct payment_line, state),          INT_COL(struct payment_line, reason),
    BIGINT_COL(struct payment_line, resolved_at), TEXT_COL(struct payment_line, resolution),
};
ROW_TYPE(line_type, "payment_line", struct payment_line, line_cols, 1);

enum err clearing_line_save(struct store *s, struct payment_line *io_l)
{
    if (io_l->id == 0) {
        struct sql q = sql_open(s, "SELECT coalesce(max(id),0)+1 FROM payment_line", "");

        if (sql_next(&q))
            io_l->id = sql_i64(&q, 0);
        TRY(sql_close(&q));
    }
    return row_save(s, &line_type, io_l);
}

enum err clearing_line_get(struct store *s, int64_t id, struct payment_line *ret_l)
{
    return row_get(s, &line_type, ret_l, "WHERE id=?", "i", id);
}

enum err clearing_line_find(struct store *s, const char *channel, enum line_side kind,
                            const char *reference, struct payment_line *ret_l)
{
    return row_get(s, &line_type, ret_l, "WHERE channel=? AND kind=? AND reference=?", "tit",
                   channel, (int64_t)kind, reference);
}

enum err clearing_line_open(struct store *s, struct payment_line_list *ret_l)
{
    return row_list(s, &line_type, ret_l, "WHERE state=1 ORDER BY at, id", "");
}

enum err clearing_matched(struct store *s, const char *order, enum line_side kind, int64_t *ret_u)
{
    struct sql q = sql_open(s,
                            "SELECT coalesce(sum(amount_u),0) FROM payment_line WHERE order_id=? "
                            "AND kind=? AND state=0",
                            "ti", order, (int64_t)kind);

    if (sql_next(&q))
        *ret_u = sql_i64(&q, 0);
    return sql_close(&q);
}

#define SHOWN(kind)                                                                                \
    "coalesce((SELECT sum(amount_u) FROM payment_line l WHERE l.order_id=o.id AND l.kind=" kind    \
    " AND l.state=0),0)"

enum err clearing_waiting(struct store *s, struct id project, struct waiting_list *ret_l)
{
    struct sql q = sql_open(
        s,
        "SELECT o.id, " SHOWN("0") "=0, o.refunded_u-" SHOWN(
            "1") " FROM topup_order o JOIN "
                 "channel c ON c.name=o.channel WHERE (?1='' OR o.project=?1) AND o.state=1 AND "
                 "c.kind<>0 "
                 "AND (" SHOWN("0") "=0 OR o.refunded_u<>" SHOWN("1") ") ORDER BY o.paid_at, o.id",
        "t", project.s);
    enum err e = ERR_OK;

    while (sql_next(&q)) {
        struct waiting_row *w = vec_push(ret_l);

        if (!str_copy(w->order.id.s, sizeof(w->order.id.s), sql_text(&q, 0)))
            e = ERR_STORE;
        w->payment = sql_i64(&q, 1) != 0;
        w->refunds_u = sql_i64(&q, 2);
    }
    TRY(sql_close(&q));
    for (size_t i = 0; i < ret_l->len && e == ERR_OK; i++)
        e = wallet_order_get(s, ret_l->at[i].order.id, &ret_l->at[i].order);
    return e;
}

enum err clearing_sums(struct store *s, struct clearing_sum_list *ret_l)
{
    struct sql q = sql_open(
        s,
        "SELECT k.channel, k.currency, "
        "coalesce((SELECT sum(amount_u) FROM topup_order o WHERE o.channel=k.channel AND "
        "o.currency=k.currency AND o.state=1),0), coalesce((SELECT sum(refunded_u) FROM "
        "topup_order o WHERE o.channel=k.channel AND o.currency=k.currency),0), "
        "sum(CASE WHEN l.state=0 AND l.kind=0 THEN l.amount_u ELSE 0 END), "
        "sum(CASE WHEN l.state=0 AND l.kind=1 THEN l.amount_u ELSE 0 END), "
        "sum(CASE WHEN l.state=1 AND l.kind=0 THEN l.amount_u ELSE 0 END), "
        "sum(CASE WHEN l.state=1 AND l.kind=1 THEN l.amount_u ELSE 0 END), "
        "sum(coalesce(l.state=1,0)), coalesce(min(CASE WHEN l.state=1 THEN l.at END),0) "
        "FROM (SELECT DISTINCT channel, currency FROM topup_order UNION SELECT DISTINCT channel, "
        "currency FROM payment_line) k LEFT JOIN payment_line l ON l.channel=k.channel AND "
        "l.currency=k.currency WHERE (SELECT kind FROM channel c WHERE c.name=k.channel)<>0 GROUP "
        "BY k.channel, k.currency ORDER BY 1, 2",
        "");
    bool ok = true;

    while (sql_next(&q)) {
        struct clearing_sum *x = vec_push(ret_l);
        int64_t *sums[] = {&x->credited_u, &x->sent_back_u,     &x->shown_u,       &x->shown_back_u,
                           &x->suspense_u, &x->suspense_back_u, &x->suspense_count};

        ok = ok && str_copy(x->channel, sizeof(x->channel), sql_text(&q, 0)) &&
             str_copy(x->currency, sizeof(x->currency), sql_text(&q, 1));
        for (size_t i = 0; i < ARRAY_LEN(sums); i++)
            *sums[i] = sql_i64(&q, (int)i + 2);
        x->suspense_since = sql_i64(&q, 9);
    }
    TRY(sql_close(&q));
    return ok ? ERR_OK : ERR_STORE;
}

static const struct col rate_cols[] = {
    TEXT_COL(struct fx_rate, src),        TEXT_COL(struct fx_rate, dst),
    BIGINT_COL(struct fx_rate, at),       BIGINT_COL(struct fx_rate, n),
    BIGINT_COL(struct fx_rate, d),        BIGINT_COL(struct fx_rate, spread_n),
    BIGINT_COL(struct fx_rate, spread_d),
};
ROW_TYPE(rate_type, "fx_rate", struct fx_rate, rate_cols, 3);

enum err fx_rate_save(struct store *s, const struct fx_rate *r)
{
    return row_save(s, &rate_type, r);
}

enum err fx_rate_get(struct store *s, const char *src, const char *dst, struct fx_rate *ret_r)
{
    return row_get(s, &rate_type, ret_r, "WHERE src=? AND dst=? ORDER BY at DESC LIMIT 1", "tt",
                   src, dst);
}

enum err fx_rate_list(struct store *s, struct fx_rate_list *ret_l)
{
    return row_list(s, &rate_type, ret_l, "ORDER BY src, dst, at DESC", "");
}

static const struct col fx_order_cols[] = {
    TEXT_COL(struct fx_order, order_id),   TEXT_COL(struct fx_order, dst),
    BIGINT_COL(struct fx_order, n),        BIGINT_COL(struct fx_order, d),
    BIGINT_COL(struct fx_order, spread_n), BIGINT_COL(struct fx_order, spread_d),
    BIGINT_COL(struct fx_order, fee_u),    BIGINT_COL(struct fx_order, converted_u),
    BIGINT_COL(struct fx_order, dst_u),
};
ROW_TYPE(fx_order_type, "fx_order", struct fx_order, fx_order_cols, 1);

enum err fx_order_save(struct store *s, const struct fx_order *o)
{
    return row_save(s, &fx_order_type, o);
}

enum err fx_order_get(struct store *s, struct id order, struct fx_order *ret_o)
{
    return row_get(s, &fx_order_type, ret_o, "WHERE order_id=?", "t", order.s);
}
