/* rows_budget.c: budgets, whose money a lease spends, and what each of them spent per day. */
#include "store/rows_money.h"
#include "store/sql.h"

static const struct col budget_cols[] = {
    TEXT_COL(struct budget_row, project),   TEXT_COL(struct budget_row, name),
    BIGINT_COL(struct budget_row, cap_u),   INT_COL(struct budget_row, period),
    INT_COL(struct budget_row, scope),      TEXT_COL(struct budget_row, scope_of),
    BOOL_COL(struct budget_row, notify),    INT_COL(struct budget_row, alert_pct),
    BIGINT_COL(struct budget_row, alert_s), BIGINT_COL(struct budget_row, alert_from_s),
};
ROW_TYPE(budget_type, "budget", struct budget_row, budget_cols, 2);

enum err money_budget_save(struct store *s, const struct budget_row *b)
{
    return row_save(s, &budget_type, b);
}

enum err money_budget_get(struct store *s, struct id project, const char *name,
                          struct budget_row *ret_b)
{
    return row_get(s, &budget_type, ret_b, "WHERE project=? AND name=?", "tt", project.s, name);
}

enum err money_budget_remove(struct store *s, struct id project, const char *name)
{
    TRY(sql_run(s, "DELETE FROM budget WHERE project=? AND name=?", "tt", project.s, name));
    return sql_changes(s) > 0 ? ERR_OK : ERR_NOT_FOUND;
}

enum err money_budget_list(struct store *s, struct id project, struct budget_list *ret_l)
{
    return row_list(s, &budget_type, ret_l, "WHERE project=? ORDER BY name", "t", project.s);
}

enum err money_budget_of_lease(struct store *s, struct id project, struct id lease,
                               struct budget_list *ret_l)
{
    return row_list(
        s, &budget_type, ret_l,
        "WHERE project=?1 AND EXISTS (SELECT 1 FROM lease_scope l WHERE "
        "l.lease=?2 AND l.scope=budget.scope AND l.scope_of=budget.scope_of) ORDER BY name",
        "tt", project.s, lease.s);
}

enum err money_scope_save(struct store *s, struct id lease, enum budget_scope scope, const char *of)
{
    return sql_run(s, "INSERT INTO lease_scope(lease, scope, scope_of) VALUES(?,?,?)", "tit",
                   lease.s, (int64_t)scope, of);
}

enum err money_scope_day_add(struct store *s, struct id project, struct id lease, int64_t from_s,
                             int64_t u)
{
    return sql_run(s,
                   "INSERT INTO scope_day(project, scope, scope_of, from_s, rated_u) "
                   "SELECT ?1, scope, scope_of, ?3, ?4 FROM lease_scope WHERE lease=?2 "
                   "ON CONFLICT DO UPDATE SET rated_u=rated_u+excluded.rated_u",
                   "ttii", project.s, lease.s, from_s, u);
}

enum err money_scope_day_sum(struct store *s, const struct budget_row *b, int64_t from_s,
                             int64_t to_s, int64_t *ret_u)
{
    return sql_one_i64(
        sql_open(s,
                 "SELECT coalesce(sum(rated_u),0) FROM scope_day WHERE project=? AND "
                 "scope=? AND scope_of=? AND from_s>=? AND from_s<?",
                 "titii", b->project.s, (int64_t)b->scope, b->scope_of, from_s, to_s),
        ret_u);
}

enum err money_scope_pending(struct store *s, const struct budget_row *b, int64_t *ret_u)
{
    int64_t held = 0, used = 0;

    TRY(sql_one_i64(
        sql_open(s,
                 "SELECT coalesce(sum(l.hold_u),0) FROM fund_lease l JOIN lease_scope c "
                 "ON c.lease=l.lease WHERE l.project=? AND l.settled=0 AND c.scope=? AND "
                 "c.scope_of=?",
                 "tit", b->project.s, (int64_t)b->scope, b->scope_of),
        &held));
    TRY(sql_one_i64(
        sql_open(s,
                 "SELECT coalesce(sum(w.rated_u-w.posted_u),0) FROM rating_window w JOIN "
                 "lease_scope c ON c.lease=w.lease WHERE w.project=? AND "
                 "w.rated_u<>w.posted_u AND c.scope=? AND c.scope_of=?",
                 "tit", b->project.s, (int64_t)b->scope, b->scope_of),
        &used));
    *ret_u = held - used;
    return ERR_OK;
}

enum err money_lease_of_scope(struct store *s, const struct budget_row *b, struct id_list *ret_l)
{
    struct sql q = sql_open(s,
                            "SELECT l.lease FROM fund_lease l JOIN lease_scope c ON "
                            "c.lease=l.lease WHERE l.project=? AND l.settled=0 AND c.scope=? AND "
                            "c.scope_of=? ORDER BY l.lease",
                            "tit", b->project.s, (int64_t)b->scope, b->scope_of);

    while (sql_next(&q)) {
        struct id *id = vec_push(ret_l);

        (void)str_copy(id->s, sizeof(id->s), sql_text(&q, 0));
    }
    return sql_close(&q);
}
