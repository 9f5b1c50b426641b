#include "store/rows_plan.h"

#include "store/sql.h"

static const struct col plan_cols[] = {
    TEXT_COL(struct plan_row, id),
    TEXT_COL(struct plan_row, project),
    TEXT_COL(struct plan_row, instance),
    TEXT_COL(struct plan_row, sku),
    BIGINT_COL(struct plan_row, cards),
    INT_COL(struct plan_row, unit),
    BIGINT_COL(struct plan_row, anchor_s),
    BIGINT_COL(struct plan_row, term),
    BIGINT_COL(struct plan_row, start_s),
    BIGINT_COL(struct plan_row, end_s),
    TEXT_COL(struct plan_row, price),
    TEXT_COL(struct plan_row, offer),
    TEXT_COL(struct plan_row, ondemand),
    INT_COL(struct plan_row, policy),
    INT_COL(struct plan_row, fee_pct),
    BIGINT_COL(struct plan_row, paid_u),
    BIGINT_COL(struct plan_row, recognised_u),
    BIGINT_COL(struct plan_row, refunded_u),
    BOOL_COL(struct plan_row, renew),
    BOOL_COL(struct plan_row, renew_told),
    BOOL_COL(struct plan_row, go_on),
    INT_COL(struct plan_row, state),
    BIGINT_COL(struct plan_row, over_s),
    TEXT_COL(struct plan_row, before),
    BIGINT_COL(struct plan_row, bought_at),
};
ROW_TYPE(plan_type, "plan", struct plan_row, plan_cols, 1);

static const struct col spot_cols[] = {
    TEXT_COL(struct spot_row, instance),
    TEXT_COL(struct spot_row, bid),
    BIGINT_COL(struct spot_row, free_within_s),
};
ROW_TYPE(spot_type, "spot", struct spot_row, spot_cols, 1);

static const struct col reclaim_cols[] = {
    TEXT_COL(struct reclaim_row, lease),           TEXT_COL(struct reclaim_row, instance),
    BIGINT_COL(struct reclaim_row, decided_ms),    BIGINT_COL(struct reclaim_row, ends_ms),
    BIGINT_COL(struct reclaim_row, free_within_s), TEXT_COL(struct reclaim_row, reason),
};
ROW_TYPE(reclaim_type, "reclaim", struct reclaim_row, reclaim_cols, 1);

enum err reclaim_row_save(struct store *s, const struct reclaim_row *r)
{
    return row_save(s, &reclaim_type, r);
}

enum err reclaim_row_get(struct store *s, struct id lease, struct reclaim_row *ret_r)
{
    return row_get(s, &reclaim_type, ret_r, "WHERE lease=?", "t", lease.s);
}

enum err spot_row_unsettled(struct store *s, struct id project, int64_t until_s,
                            char ret_lease[LEDGER_KEY_SIZE])
{
    struct sql q = sql_open(
        s,
        "SELECT l.lease FROM fund_lease l LEFT JOIN reclaim r ON r.lease=l.lease LEFT JOIN spot p "
        "ON p.instance=l.instance WHERE l.project=?1 AND l.settled=0 AND l.sku LIKE 'spot.%' AND "
        "l.started_s<?2 AND (l.ready_ms=0 OR l.billed_s-(l.ready_ms+999)/1000<="
        "coalesce(r.free_within_s, p.free_within_s)) ORDER BY l.lease LIMIT 1",
        "ti", project.s, until_s);

    ret_lease[0] = '\0';
    while (sql_next(&q))
        (void)str_copy(ret_lease, LEDGER_KEY_SIZE, sql_text(&q, 0));
    return sql_close(&q);
}

enum err spot_row_save(struct store *s, const struct spot_row *r)
{
    return row_save(s, &spot_type, r);
}

enum err spot_row_get(struct store *s, struct id instance, struct spot_row *ret_r)
{
    return row_get(s, &spot_type, ret_r, "WHERE instance=?", "t", instance.s);
}

enum err plan_row_save(struct store *s, const struct plan_row *p)
{
    return row_save(s, &plan_type, p);
}

enum err plan_row_get(struct store *s, struct id id, struct plan_row *ret_p)
{
    return row_get(s, &plan_type, ret_p, "WHERE id=?", "t", id.s);
}

enum err plan_row_lookup(struct store *s, struct id project, const char *text,
                         struct plan_row *ret_p, struct refusal *why)
{
    static const struct row_finder finder = {
        .by_name = "WHERE project=?1 AND id=?2",
        .by_id = "WHERE project=?1 AND id BETWEEN ?2 AND ?3 LIMIT 2",
        .what = "plan",
        .verb = "plan ls",
    };

    return row_lookup(s, &plan_type, ret_p, &finder, project, text, why);
}

enum err plan_row_cover(struct store *s, struct id instance, int64_t from_s, int64_t to_s,
                        struct plan_list *ret_l)
{
    const struct plan_row *p;
    struct kept_list kept;

    TRY(row_kept(s, &plan_type, &kept, "WHERE instance=? ORDER BY start_s", "t", instance.s));
    p = kept.at;
    for (size_t i = 0; i < kept.len; i++)
        if (p[i].start_s < to_s && p[i].end_s > from_s && (!p[i].over_s || p[i].over_s > from_s))
            *vec_push(ret_l) = p[i];
    return ERR_OK;
}

enum err plan_row_list(struct store *s, struct id project, struct id after, int64_t limit,
                       struct plan_list *ret_l)
{
    return row_list(s, &plan_type, ret_l, "WHERE project=? AND id>? ORDER BY id LIMIT ?", "tti",
                    project.s, after.s, limit);
}

enum err plan_row_running(struct store *s, struct plan_list *ret_l)
{
    return row_list(s, &plan_type, ret_l, "WHERE state=0 ORDER BY end_s, id", "");
}

enum err plan_row_between(struct store *s, int64_t from_s, int64_t to_s, struct plan_list *ret_l)
{
    return row_list(s, &plan_type, ret_l, "WHERE start_s<?2 AND end_s>=?1 ORDER BY id", "ii",
                    from_s, to_s);
}
