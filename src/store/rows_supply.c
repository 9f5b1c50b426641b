#include "store/rows_supply.h"

#include "store/sql.h"

static const struct col supplier_cols[] = {
    TEXT_COL(struct supplier, id),
    TEXT_COL(struct supplier, name),
    TEXT_COL(struct supplier, user),
    BIGINT_COL(struct supplier, share_n),
    BIGINT_COL(struct supplier, share_d),
    BIGINT_COL(struct supplier, dispute_s),
    BIGINT_COL(struct supplier, threshold_u),
    BIGINT_COL(struct supplier, created_at),
};
ROW_TYPE(supplier_type, "supplier", struct supplier, supplier_cols, 1);

enum err supply_save(struct store *s, const struct supplier *x)
{
    return row_save(s, &supplier_type, x);
}

enum err supply_get(struct store *s, struct id id, struct supplier *ret_x)
{
    return row_get(s, &supplier_type, ret_x, "WHERE id=?", "t", id.s);
}

enum err supply_get_name(struct store *s, const char *name, struct supplier *ret_x)
{
    return row_get(s, &supplier_type, ret_x, "WHERE name=?", "t", name);
}

enum err supply_get_user(struct store *s, struct id user, struct supplier *ret_x)
{
    return row_get(s, &supplier_type, ret_x, "WHERE user=?", "t", user.s);
}

enum err supply_list(struct store *s, struct supplier_list *ret_l)
{
    return row_list(s, &supplier_type, ret_l, "ORDER BY name", "");
}

enum err supply_node_set(struct store *s, struct id node, struct id supplier, utime_t now)
{
    return sql_run(s,
                   "INSERT INTO supplier_node(node, supplier, since_ms) VALUES(?,?,?) ON "
                   "CONFLICT(node) DO UPDATE SET supplier=excluded.supplier, "
                   "since_ms=excluded.since_ms",
                   "tti", node.s, supplier.s, now);
}

enum err supply_node_clear(struct store *s, struct id node)
{
    TRY(sql_run(s, "DELETE FROM supplier_node WHERE node=?", "t", node.s));
    return sql_changes(s) > 0 ? ERR_OK : ERR_NOT_FOUND;
}

enum err supply_node_count(struct store *s, struct id supplier, int64_t *ret_n)
{
    struct sql q =
        sql_open(s, "SELECT count(*) FROM supplier_node WHERE supplier=?", "t", supplier.s);

    if (sql_next(&q))
        *ret_n = sql_i64(&q, 0);
    return sql_close(&q);
}

static const struct col gross_cols[] = {
    TEXT_COL(struct supply_gross, source),     TEXT_COL(struct supply_gross, supplier),
    TEXT_COL(struct supply_gross, currency),   BIGINT_COL(struct supply_gross, share_n),
    BIGINT_COL(struct supply_gross, share_d),  BIGINT_COL(struct supply_gross, gross_u),
    BIGINT_COL(struct supply_gross, shared_u), BIGINT_COL(struct supply_gross, posts),
};
ROW_TYPE(gross_type, "supplier_gross", struct supply_gross, gross_cols, 1);

enum err supply_gross_save(struct store *s, const struct supply_gross *g)
{
    return row_save(s, &gross_type, g);
}

static bool take_text(struct sql *q, int col, char *ret, size_t size)
{
    return str_copy(ret, size, sql_text(q, col));
}

/* Sources: windows, by what was charged less what was reversed, on the node of their first span;
 * plans, by what is recognised of them, on the node of their instance's last lease. */
#define SOURCES                                                                                    \
    "(SELECT w.id, w.project, w.meter, w.posted_u - coalesce((SELECT sum(amount) FROM transfer t " \
    "WHERE t.owner=w.id AND t.kind='reversal'), 0) AS gross, (SELECT node FROM usage_span u "      \
    "WHERE u.rating_window=w.id ORDER BY u.from_s LIMIT 1) AS node FROM rating_window w "          \
    "UNION ALL SELECT p.id, p.project, 0, p.recognised_u, (SELECT node FROM fund_lease l WHERE "   \
    "l.instance=p.instance ORDER BY l.started_s DESC LIMIT 1) FROM plan p)"

enum err supply_due_list(struct store *s, int64_t limit, struct supply_due_list *ret_l)
{
    struct sql q = sql_open(
        s,
        "SELECT o.id, x.id, p.currency, coalesce(g.share_n, x.share_n), coalesce(g.share_d, "
        "x.share_d), coalesce(g.gross_u, 0), coalesce(g.shared_u, 0), coalesce(g.posts, 0), "
        "o.meter, o.gross FROM " SOURCES " o JOIN project p ON p.id=o.project "
        "LEFT JOIN supplier_gross g ON g.source=o.id "
        "LEFT JOIN supplier_node n ON g.source IS NULL AND n.node=o.node "
        "JOIN supplier x ON x.id=coalesce(g.supplier, n.supplier) "
        "WHERE o.gross<>coalesce(g.gross_u, 0) LIMIT ?",
        "i", limit);
    bool ok = true;

    while (sql_next(&q)) {
        struct supply_due *d = vec_push(ret_l);

        ok = ok && take_text(&q, 0, d->known.source, sizeof(d->known.source)) &&
             take_text(&q, 1, d->known.supplier.s, sizeof(d->known.supplier.s)) &&
             take_text(&q, 2, d->known.currency, sizeof(d->known.currency));
        d->known.share_n = sql_i64(&q, 3);
        d->known.share_d = sql_i64(&q, 4);
        d->known.gross_u = sql_i64(&q, 5);
        d->known.shared_u = sql_i64(&q, 6);
        d->known.posts = sql_i64(&q, 7);
        d->meter = (enum meter)sql_i64(&q, 8);
        d->gross_u = sql_i64(&q, 9);
    }
    TRY(sql_close(&q));
    return ok ? ERR_OK : ERR_STORE;
}

static const struct col day_cols[] = {
    TEXT_COL(struct supply_day, supplier), TEXT_COL(struct supply_day, currency),
    BIGINT_COL(struct supply_day, day),    BIGINT_COL(struct supply_day, held_u),
    BOOL_COL(struct supply_day, released),
};
ROW_TYPE(day_type, "supplier_day", struct supply_day, day_cols, 3);

enum err supply_day_add(struct store *s, struct id supplier, const char *currency, int64_t day,
                        int64_t u)
{
    return sql_run(s,
                   "INSERT INTO supplier_day(supplier, currency, day, held_u, released) "
                   "VALUES(?,?,?,?,0) ON CONFLICT DO UPDATE SET held_u=held_u+excluded.held_u",
                   "ttii", supplier.s, currency, day, u);
}

enum err supply_day_save(struct store *s, const struct supply_day *d)
{
    return row_save(s, &day_type, d);
}

enum err supply_day_list(struct store *s, struct id supplier, int64_t before,
                         struct supply_day_list *ret_l)
{
    return row_list(s, &day_type, ret_l,
                    "WHERE supplier=? AND released=0 AND held_u>0 AND day<? ORDER BY day, currency",
                    "ti", supplier.s, before);
}

static const struct col payout_cols[] = {
    TEXT_COL(struct payout, id),          TEXT_COL(struct payout, supplier),
    TEXT_COL(struct payout, currency),    BIGINT_COL(struct payout, amount_u),
    BIGINT_COL(struct payout, carried_u), BIGINT_COL(struct payout, at),
    TEXT_COL(struct payout, reference),   BIGINT_COL(struct payout, paid_at),
};
ROW_TYPE(payout_type, "payout", struct payout, payout_cols, 1);

enum err supply_payout_save(struct store *s, const struct payout *p)
{
    return row_save(s, &payout_type, p);
}

enum err supply_payout_get(struct store *s, struct id id, struct payout *ret_p)
{
    return row_get(s, &payout_type, ret_p, "WHERE id=?", "t", id.s);
}

enum err supply_payout_list(struct store *s, struct id supplier, struct payout_list *ret_l)
{
    return row_list(s, &payout_type, ret_l, "WHERE ?1='' OR supplier=?1 ORDER BY at, id", "t",
                    supplier.s);
}

enum err supply_line_list(struct store *s, struct id supplier, int64_t year, int month,
                          struct supply_line_list *ret_l)
{
    struct sql q = sql_open(
        s,
        "SELECT w.id, w.sku, w.subject, coalesce((SELECT node FROM usage_span u WHERE "
        "u.rating_window=w.id ORDER BY u.from_s LIMIT 1),''), g.currency, w.qty, g.gross_u, "
        "g.shared_u, w.from_s FROM supplier_gross g JOIN rating_window w ON w.id=g.source "
        "WHERE g.supplier=?1 AND w.year=?2 AND w.month=?3 UNION ALL "
        "SELECT p.id, p.sku, p.instance, '', g.currency, p.cards, g.gross_u, g.shared_u, p.start_s "
        "FROM supplier_gross g JOIN plan p ON p.id=g.source WHERE g.supplier=?1 AND "
        "CAST(strftime('%Y',p.start_s,'unixepoch') AS INTEGER)=?2 AND "
        "CAST(strftime('%m',p.start_s,'unixepoch') AS INTEGER)=?3 ORDER BY 9, 1",
        "tii", supplier.s, year, (int64_t)month);
    bool ok = true;

    while (sql_next(&q)) {
        struct supply_line *l = vec_push(ret_l);

        ok = ok && take_text(&q, 0, l->source, sizeof(l->source)) &&
             take_text(&q, 1, l->sku, sizeof(l->sku)) &&
             take_text(&q, 2, l->subject.s, sizeof(l->subject.s)) &&
             take_text(&q, 3, l->node.s, sizeof(l->node.s)) &&
             take_text(&q, 4, l->currency, sizeof(l->currency));
        l->qty = sql_i64(&q, 5);
        l->gross_u = sql_i64(&q, 6);
        l->shared_u = sql_i64(&q, 7);
    }
    TRY(sql_close(&q));
    return ok ? ERR_OK : ERR_STORE;
}

enum err supply_currencies(struct store *s, struct id supplier, struct currency_list *ret_l)
{
    struct sql q =
        sql_open(s, "SELECT DISTINCT currency FROM supplier_gross WHERE supplier=? ORDER BY 1", "t",
                 supplier.s);
    bool ok = true;

    while (sql_next(&q)) {
        struct currency_row *c = vec_push(ret_l);

        ok = ok && take_text(&q, 0, c->code, sizeof(c->code));
    }
    TRY(sql_close(&q));
    return ok ? ERR_OK : ERR_STORE;
}

static enum err share_of(struct sql q, struct supply_share_of *ret_x)
{
    enum err e = ERR_NOT_FOUND;

    if (sql_next(&q)) {
        *ret_x = (struct supply_share_of){.n = sql_i64(&q, 1), .d = sql_i64(&q, 2)};
        e = str_copy(ret_x->name, sizeof(ret_x->name), sql_text(&q, 0)) ? ERR_OK : ERR_STORE;
    }
    TRY(sql_close(&q));
    return e;
}

enum err supply_share_get(struct store *s, const char *window, struct id node,
                          struct supply_share_of *ret_x)
{
    enum err e = share_of(sql_open(s,
                                   "SELECT x.name, g.share_n, g.share_d FROM supplier_gross g "
                                   "JOIN supplier x ON x.id=g.supplier WHERE g.source=?",
                                   "t", window),
                          ret_x);

    if (e != ERR_NOT_FOUND)
        return e;
    return share_of(sql_open(s,
                             "SELECT x.name, x.share_n, x.share_d FROM supplier_node n JOIN "
                             "supplier x ON x.id=n.supplier WHERE n.node=?",
                             "t", node.s),
                    ret_x);
}
