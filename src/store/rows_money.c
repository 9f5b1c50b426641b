#include "store/rows_close.h"

#include "store/sql.h"

static const struct col account_cols[] = {
    TEXT_COL(struct ledger_account, id),
    TEXT_COL(struct ledger_account, ledger),
    INT_COL(struct ledger_account, flags),
    COL_AS("lim", COL_BIGINT, struct ledger_account, limit),
    BIGINT_COL(struct ledger_account, dr_posted),
    BIGINT_COL(struct ledger_account, dr_pending),
    BIGINT_COL(struct ledger_account, cr_posted),
    BIGINT_COL(struct ledger_account, cr_pending),
};
ROW_TYPE(account_type, "account", struct ledger_account, account_cols, 1);

enum err money_account_get(struct store *s, const char *id, struct ledger_account *ret_a)
{
    return row_get(s, &account_type, ret_a, "WHERE id=?", "t", id);
}

enum err money_account_save(struct store *s, const struct ledger_account *a)
{
    return row_save(s, &account_type, a);
}

enum err money_account_list(struct store *s, struct account_list *ret_l)
{
    return row_list(s, &account_type, ret_l, "ORDER BY id", "");
}

static const struct col topup_cols[] = {
    TEXT_COL(struct topup_row, id),       TEXT_COL(struct topup_row, project),
    BIGINT_COL(struct topup_row, amount), TEXT_COL(struct topup_row, note),
    BIGINT_COL(struct topup_row, at),
};
ROW_TYPE(topup_type, "topup", struct topup_row, topup_cols, 1);

enum err money_topup_save(struct store *s, const struct topup_row *t)
{
    return row_save(s, &topup_type, t);
}

static const struct col window_cols[] = {
    TEXT_COL(struct window_row, id),         TEXT_COL(struct window_row, project),
    TEXT_COL(struct window_row, instance),   TEXT_COL(struct window_row, subject),
    TEXT_COL(struct window_row, lease),      INT_COL(struct window_row, meter),
    TEXT_COL(struct window_row, sku),        TEXT_COL(struct window_row, price),
    BIGINT_COL(struct window_row, year),     INT_COL(struct window_row, month),
    BIGINT_COL(struct window_row, qty),      BIGINT_COL(struct window_row, rated_u),
    BIGINT_COL(struct window_row, posted_u), BIGINT_COL(struct window_row, posts),
    BIGINT_COL(struct window_row, from_s),   BIGINT_COL(struct window_row, to_s),
    BOOL_COL(struct window_row, simulated),  BIGINT_COL(struct window_row, reversed_u),
};
ROW_TYPE(window_type, "rating_window", struct window_row, window_cols, 1);

enum err money_window_get(struct store *s, const char *id, struct window_row *ret_w)
{
    return row_get(s, &window_type, ret_w, "WHERE id=?", "t", id);
}

enum err money_window_save(struct store *s, const struct window_row *w)
{
    return row_save(s, &window_type, w);
}

enum err money_window_rated(struct store *s, const struct window_row *w)
{
    return sql_run(
        s, "UPDATE rating_window SET lease=?, qty=?, rated_u=?, from_s=?, to_s=? WHERE id=?",
        "tiiiit", w->lease.s, w->qty, w->rated_u, w->from_s, w->to_s, w->id);
}

enum err money_window_open_lease(struct store *s, struct id lease, struct window_list *ret_l)
{
    return row_list(s, &window_type, ret_l,
                    "WHERE project=(SELECT project FROM fund_lease WHERE lease=?1) AND lease=?1 "
                    "AND rated_u<>posted_u ORDER BY id",
                    "t", lease.s);
}

enum err money_window_open_free(struct store *s, struct id project, struct window_list *ret_l)
{
    return row_list(s, &window_type, ret_l,
                    "WHERE project=? AND lease='' AND rated_u<>posted_u ORDER BY id", "t",
                    project.s);
}

enum err money_window_month(struct store *s, struct id project, int64_t year, int month,
                            struct window_list *ret_l)
{
    return row_list(s, &window_type, ret_l,
                    "WHERE project=? AND year=? AND month=? ORDER BY from_s, subject, meter, id",
                    "tii", project.s, year, (int64_t)month);
}

struct window_visit {
    window_fn *fn;
    void *user;
};

static enum err window_visit(void *user, void *row)
{
    const struct window_visit *v = user;

    return v->fn(v->user, row);
}

enum err window_each(struct store *s, struct id project, int64_t year, int month, window_fn *fn,
                     void *user)
{
    struct window_visit v = {fn, user};
    struct window_row row;

    return row_each(s, &window_type, &row, window_visit, &v,
                    "WHERE project=? AND year=? AND month=? ORDER BY from_s, subject, meter, id",
                    "tii", project.s, year, (int64_t)month);
}

enum err money_window_subject(struct store *s, struct id subject, enum meter meter,
                              struct window_list *ret_l)
{
    return row_list(s, &window_type, ret_l,
                    "WHERE id>=?1||'/' AND id<?1||'0' AND meter=?2 ORDER BY id", "ti", subject.s,
                    (int64_t)meter);
}

enum err money_window_all(struct store *s, struct window_list *ret_l)
{
    return row_list(s, &window_type, ret_l, "ORDER BY from_s, subject, meter, id", "");
}

enum err money_window_sum_instance(struct store *s, struct id instance, int64_t *ret_u)
{
    return sql_one_i64(
        sql_open(s,
                 "SELECT coalesce(sum(rated_u-reversed_u),0) FROM rating_window WHERE instance=?",
                 "t", instance.s),
        ret_u);
}

enum err money_window_sum_subject(struct store *s, struct id subject, int64_t *ret_u)
{
    return sql_one_i64(
        sql_open(s, "SELECT coalesce(sum(rated_u-reversed_u),0) FROM rating_window WHERE subject=?",
                 "t", subject.s),
        ret_u);
}

enum err money_window_unposted(struct store *s, struct id project, int64_t *ret_held_u,
                               int64_t *ret_free_u)
{
    struct sql q = sql_open(s,
                            "SELECT coalesce(sum(CASE WHEN lease<>'' THEN rated_u-posted_u END),0),"
                            " coalesce(sum(CASE WHEN lease='' THEN rated_u-posted_u END),0) "
                            "FROM rating_window WHERE project=? AND rated_u<>posted_u",
                            "t", project.s);

    if (sql_next(&q)) {
        *ret_held_u = sql_i64(&q, 0);
        *ret_free_u = sql_i64(&q, 1);
    }
    return sql_close(&q);
}

enum err money_window_open_projects(struct store *s, struct id_list *ret_l)
{
    struct sql q = sql_open(s,
                            "SELECT DISTINCT project FROM rating_window "
                            "WHERE rated_u<>posted_u AND lease='' ORDER BY project",
                            "");

    while (sql_next(&q)) {
        struct id *id = vec_push(ret_l);

        (void)str_copy(id->s, sizeof(id->s), sql_text(&q, 0));
    }
    return sql_close(&q);
}

static const struct col lease_cols[] = {
    TEXT_COL(struct fund_lease, lease),
    TEXT_COL(struct fund_lease, project),
    TEXT_COL(struct fund_lease, instance),
    TEXT_COL(struct fund_lease, node),
    BIGINT_COL(struct fund_lease, epoch),
    INT_COL(struct fund_lease, meter),
    TEXT_COL(struct fund_lease, sku),
    BIGINT_COL(struct fund_lease, qty_per_s),
    BOOL_COL(struct fund_lease, simulated),
    BIGINT_COL(struct fund_lease, started_s),
    BIGINT_COL(struct fund_lease, held_from_s),
    BIGINT_COL(struct fund_lease, ready_ms),
    BIGINT_COL(struct fund_lease, stop_ms),
    BIGINT_COL(struct fund_lease, ends_at),
    BIGINT_COL(struct fund_lease, paid_until_s),
    BIGINT_COL(struct fund_lease, cursor_ms),
    BIGINT_COL(struct fund_lease, billed_s),
    TEXT_COL(struct fund_lease, hold),
    BIGINT_COL(struct fund_lease, hold_u),
    BIGINT_COL(struct fund_lease, terms),
    BOOL_COL(struct fund_lease, settled),
    BOOL_COL(struct fund_lease, exclusive),
};
ROW_TYPE(lease_type, "fund_lease", struct fund_lease, lease_cols, 1);

enum err money_lease_get(struct store *s, struct id lease, struct fund_lease *ret_l)
{
    return row_get(s, &lease_type, ret_l, "WHERE lease=?", "t", lease.s);
}

enum err money_lease_save(struct store *s, const struct fund_lease *l)
{
    return row_save(s, &lease_type, l);
}

enum err money_lease_moved(struct store *s, const struct fund_lease *l)
{
    return sql_run(s, "UPDATE fund_lease SET cursor_ms=?, billed_s=? WHERE lease=?", "iit",
                   l->cursor_ms, l->billed_s, l->lease.s);
}

enum err money_lease_open(struct store *s, struct id project, struct fund_lease_list *ret_l)
{
    return row_list(s, &lease_type, ret_l, "WHERE project=? AND settled=0 ORDER BY lease", "t",
                    project.s);
}

enum err money_lease_open_all(struct store *s, struct fund_lease_list *ret_l)
{
    return row_list(s, &lease_type, ret_l, "WHERE settled=0 ORDER BY lease", "");
}

enum err money_lease_of_instance(struct store *s, struct id instance, struct fund_lease *ret_l)
{
    return row_get(s, &lease_type, ret_l,
                   "WHERE instance=? ORDER BY settled, started_s DESC, terms LIMIT 1", "t",
                   instance.s);
}

enum err money_lease_all(struct store *s, struct fund_lease_list *ret_l)
{
    return row_list(s, &lease_type, ret_l, "ORDER BY lease", "");
}

static const struct col disk_cols[] = {
    TEXT_COL(struct fund_disk, disk),       TEXT_COL(struct fund_disk, project),
    TEXT_COL(struct fund_disk, instance),   TEXT_COL(struct fund_disk, node),
    TEXT_COL(struct fund_disk, lease),      INT_COL(struct fund_disk, kind),
    BIGINT_COL(struct fund_disk, size_mib), INT_COL(struct fund_disk, meter),
    INT_COL(struct fund_disk, before),      BIGINT_COL(struct fund_disk, started_s),
    BIGINT_COL(struct fund_disk, cursor_s), BOOL_COL(struct fund_disk, simulated),
    BOOL_COL(struct fund_disk, closed),
};
ROW_TYPE(disk_type, "fund_disk", struct fund_disk, disk_cols, 1);

enum err money_disk_get(struct store *s, struct id disk, struct fund_disk *ret_d)
{
    return row_get(s, &disk_type, ret_d, "WHERE disk=?", "t", disk.s);
}

enum err money_disk_save(struct store *s, const struct fund_disk *d)
{
    return row_save(s, &disk_type, d);
}

enum err money_disk_of_node(struct store *s, struct id node, struct fund_disk_list *ret_l)
{
    return row_list(s, &disk_type, ret_l, "WHERE node=? AND closed=0 ORDER BY disk", "t", node.s);
}

enum err money_disk_of_lease(struct store *s, struct id lease, struct fund_disk_list *ret_l)
{
    return row_list(s, &disk_type, ret_l, "WHERE lease=? AND lease<>'' ORDER BY disk", "t",
                    lease.s);
}

enum err money_disk_of_project(struct store *s, struct id project, struct fund_disk_list *ret_l)
{
    return row_list(s, &disk_type, ret_l, "WHERE project=? AND closed=0 ORDER BY disk", "t",
                    project.s);
}

enum err money_started_last(struct store *s, int64_t *ret_s)
{
    return sql_one_i64(
        sql_open(s,
                 "SELECT max(coalesce((SELECT max(started_s) FROM fund_lease WHERE "
                 "settled=0),0), coalesce((SELECT max(started_s) FROM fund_disk WHERE "
                 "closed=0),0))",
                 ""),
        ret_s);
}

enum err money_disk_count(struct store *s, const char *currency, enum meter m, int64_t *ret_n,
                          int64_t *ret_projects)
{
    struct sql q = sql_open(s,
                            "SELECT count(*), count(DISTINCT d.project) FROM fund_disk d "
                            "JOIN project p ON p.id=d.project "
                            "WHERE d.meter=? AND d.closed=0 AND p.currency=?",
                            "it", (int64_t)m, currency);

    if (sql_next(&q)) {
        *ret_n = sql_i64(&q, 0);
        *ret_projects = sql_i64(&q, 1);
    }
    return sql_close(&q);
}

static const struct col project_cols[] = {
    TEXT_COL(struct fund_project, project),
    BIGINT_COL(struct fund_project, arrears_since),
    BIGINT_COL(struct fund_project, posted_at),
    INT_COL(struct fund_project, alert),
};
ROW_TYPE(project_type, "fund_project", struct fund_project, project_cols, 1);

enum err money_project_get(struct store *s, struct id project, struct fund_project *ret_p)
{
    enum err e = row_get(s, &project_type, ret_p, "WHERE project=?", "t", project.s);

    if (e != ERR_NOT_FOUND)
        return e;
    *ret_p = (struct fund_project){.project = project};
    return ERR_OK;
}

enum err money_project_save(struct store *s, const struct fund_project *p)
{
    return row_save(s, &project_type, p);
}
