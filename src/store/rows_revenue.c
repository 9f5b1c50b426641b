/* rows_revenue.c: what the journal moved in and out of the platform's revenue. */
#include "store/rows_revenue.h"

#include "store/sql.h"

enum err revenue_row_list(struct store *s, utime_t from_ms, utime_t to_ms,
                          struct revenue_list *ret_l)
{
    struct sql q = sql_open(
        s,
        "SELECT account, ledger, kind, owner, meter, spot, sum(u), count(*) FROM (SELECT a.id AS "
        "account, t.ledger, t.kind, CASE WHEN w.id IS NULL THEN substr(t.owner,1,4) ELSE '' END AS "
        "owner, coalesce(w.meter,-1) AS meter, coalesce(w.sku LIKE 'spot.%',0) AS spot, "
        "CASE WHEN t.cr=a.id THEN t.amount ELSE -t.amount END AS u FROM account a JOIN transfer t "
        "ON t.cr=a.id OR t.dr=a.id LEFT JOIN rating_window w ON w.id=t.owner WHERE (a.id LIKE "
        "'revenue.%' OR a.id LIKE 'breakage.%') AND t.step IN (0,2) AND t.booked_ms>=? AND "
        "t.booked_ms<?) GROUP BY account, kind, owner, meter, spot ORDER BY account, kind, owner, "
        "meter, spot",
        "ii", from_ms, to_ms);
    bool ok = true;

    while (sql_next(&q)) {
        struct revenue_row *r = vec_push(ret_l);

        ok = ok && str_copy(r->account, sizeof(r->account), sql_text(&q, 0)) &&
             str_copy(r->currency, sizeof(r->currency), sql_text(&q, 1)) &&
             str_copy(r->kind, sizeof(r->kind), sql_text(&q, 2)) &&
             str_copy(r->owner, sizeof(r->owner), sql_text(&q, 3));
        r->meter = (int32_t)sql_i64(&q, 4);
        r->spot = sql_i64(&q, 5) != 0;
        r->u = sql_i64(&q, 6);
        r->count = sql_i64(&q, 7);
    }
    TRY(sql_close(&q));
    return ok ? ERR_OK : ERR_STORE;
}
