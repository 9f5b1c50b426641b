/* rows_review.c: what a month was used for, span by span and by instance. */
#include "store/rows_review.h"

#include "store/sql.h"

enum err review_span_page(struct store *s, struct id project, int64_t year, int month,
                          const char *after_window, int64_t after_id, int64_t limit,
                          struct review_span_list *ret_l)
{
    struct sql q =
        sql_open(s,
                 "SELECT s.rating_window, s.id, s.from_s, s.to_s, s.qty_per_s, s.qty, "
                 "coalesce(u.gpu_util_pct,-1) FROM rating_window w JOIN usage_span s ON "
                 "s.rating_window=w.id "
                 "LEFT JOIN usage_slice u ON u.node=s.node AND u.boot=s.boot AND u.seq=s.seq "
                 "WHERE w.project=? AND w.year=? AND w.month=? AND (s.rating_window, s.id)>(?,?) "
                 "ORDER BY s.rating_window, s.id LIMIT ?",
                 "tiitii", project.s, year, (int64_t)month, after_window, after_id, limit);
    bool ok = true;

    while (sql_next(&q)) {
        struct review_span *x = vec_push(ret_l);

        ok = ok && str_copy(x->rating_window, sizeof(x->rating_window), sql_text(&q, 0));
        x->id = sql_i64(&q, 1);
        x->from_s = sql_i64(&q, 2);
        x->to_s = sql_i64(&q, 3);
        x->qty_per_s = sql_i64(&q, 4);
        x->qty = sql_i64(&q, 5);
        x->gpu_util_pct = sql_i64(&q, 6);
    }
    TRY(sql_close(&q));
    return ok ? ERR_OK : ERR_STORE;
}

enum err review_stretch_list(struct store *s, struct review_stretch_list *ret_l)
{
    struct sql q = sql_open(
        s,
        "SELECT w.id, u.lease, w.price, min(s.from_s), max(s.to_s)-1 FROM rating_window w "
        "JOIN usage_span s ON s.rating_window=w.id JOIN usage_slice u ON u.node=s.node AND "
        "u.boot=s.boot AND u.seq=s.seq WHERE w.meter IN (0,1) AND s.from_s<s.to_s AND NOT EXISTS "
        "(SELECT 1 FROM package p WHERE p.project=w.project AND p.price=w.price) "
        "GROUP BY w.id, u.lease",
        "");
    bool ok = true;

    while (sql_next(&q)) {
        struct review_stretch *x = vec_push(ret_l);

        ok = ok && str_copy(x->rating_window, sizeof(x->rating_window), sql_text(&q, 0));
        ok = ok && str_copy(x->lease.s, ID_SIZE, sql_text(&q, 1)) &&
             str_copy(x->price.s, ID_SIZE, sql_text(&q, 2));
        x->first_s = sql_i64(&q, 3);
        x->last_s = sql_i64(&q, 4);
    }
    TRY(sql_close(&q));
    return ok ? ERR_OK : ERR_STORE;
}

enum err review_month_list(struct store *s, struct id project, struct review_month_list *ret_l)
{
    struct sql q =
        sql_open(s,
                 "SELECT year, month, sum(rated_u-reversed_u) FROM rating_window WHERE project=? "
                 "GROUP BY year, month ORDER BY year, month",
                 "t", project.s);

    while (sql_next(&q)) {
        struct review_month *m = vec_push(ret_l);

        m->year = sql_i64(&q, 0);
        m->month = sql_i64(&q, 1);
        m->rated_u = sql_i64(&q, 2);
    }
    return sql_close(&q);
}

enum err review_instance_list(struct store *s, struct id project, int64_t year, int month,
                              struct review_instance_list *ret_l)
{
    struct sql q = sql_open(
        s,
        "SELECT w.instance, w.sku, sum(w.rated_u-w.reversed_u), sum(w.qty), max(coalesce((SELECT "
        "max(qty_per_s) FROM usage_span s WHERE s.rating_window=w.id),0)) FROM rating_window w "
        "WHERE w.project=? AND w.year=? AND w.month=? AND w.meter=0 GROUP BY w.instance, w.sku "
        "ORDER BY w.sku, w.instance",
        "tii", project.s, year, (int64_t)month);
    bool ok = true;

    while (sql_next(&q)) {
        struct review_instance *x = vec_push(ret_l);

        ok = ok && str_copy(x->instance.s, sizeof(x->instance.s), sql_text(&q, 0)) &&
             str_copy(x->sku, sizeof(x->sku), sql_text(&q, 1));
        x->paid_u = sql_i64(&q, 2);
        x->card_s = sql_i64(&q, 3);
        x->cards = sql_i64(&q, 4);
    }
    TRY(sql_close(&q));
    return ok ? ERR_OK : ERR_STORE;
}
