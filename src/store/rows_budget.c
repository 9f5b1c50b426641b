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

struct scope_row {
    struct id lease;
    int64_t scope;
    char scope_of[TEXT_SIZE];
};
static const struct col scope_cols[] = {
    TEXT_COL(struct scope_row, lease),
    BIGINT_COL(struct scope_row, scope),
    TEXT_COL(struct scope_row, scope_of),
};
ROW_TYPE(scope_type, "lease_scope", struct scope_row, scope_cols, 3);

/* More are written first: then it is of many projects or users, and adding up saves nothing. */
#define SUMS_MAX 64

static enum err sum_add(struct store *s, struct id project, const struct scope_row *r,
                        int64_t from_s, int64_t u)
{
    struct day_sums *l = sql_sums(s);
    struct day_sum *x;

    for (size_t i = 0; i < l->len; i++) {
        x = &l->at[i];
        if (x->from_s == from_s && x->scope == r->scope && str_eq(x->scope_of, r->scope_of) &&
            str_eq(x->project.s, project.s))
            return __builtin_add_overflow(x->u, u, &x->u) ? ERR_MONEY_RANGE : ERR_OK;
    }
    if (l->len == SUMS_MAX)
        TRY(money_scope_day_flush(s));
    x = vec_push(l);
    *x = (struct day_sum){.project = project, .scope = r->scope, .from_s = from_s, .u = u};
    memcpy(x->scope_of, r->scope_of, sizeof(x->scope_of));
    return ERR_OK;
}

enum err money_scope_day_add(struct store *s, struct id project, struct id lease, int64_t from_s,
                             int64_t u)
{
    const struct scope_row *r;
    struct kept_list scopes;

    TRY(row_kept(s, &scope_type, &scopes, "WHERE lease=?", "t", lease.s));
    r = scopes.at;
    for (size_t i = 0; i < scopes.len; i++)
        TRY(sum_add(s, project, &r[i], from_s, u));
    return sql_in_transaction(s) ? ERR_OK : money_scope_day_flush(s);
}

enum err money_scope_day_flush(struct store *s)
{
    struct day_sums *l = sql_sums(s);
    size_t n = l->len;

    l->len = 0; /* the statement below touches the table itself */
    for (size_t i = 0; i < n; i++)
        TRY(sql_run(s,
                    "INSERT INTO scope_day(project, scope, scope_of, from_s, rated_u) "
                    "VALUES(?,?,?,?,?) "
                    "ON CONFLICT DO UPDATE SET rated_u=rated_u+excluded.rated_u",
                    "titii", l->at[i].project.s, l->at[i].scope, l->at[i].scope_of, l->at[i].from_s,
                    l->at[i].u));
    return ERR_OK;
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
