#include "store/sql.h"

static const struct col user_cols[] = {
    TEXT_COL(struct user, id),           TEXT_COL(struct user, name),
    BOOL_COL(struct user, is_operator),  REF_COL(struct user, project),
    BIGINT_COL(struct user, created_at),
};
ROW_TYPE(user_row, "user", struct user, user_cols, 1);
static const struct row_finder user_finder = {
    "WHERE ?1=?1 AND name=?2", "WHERE ?1=?1 AND id>=?2 AND id<?3 LIMIT 2", "user", "admin user ls"};

static const struct col project_cols[] = {
    TEXT_COL(struct project, id),           TEXT_COL(struct project, name),
    TEXT_COL(struct project, currency),     TEXT_COL(struct project, zone),
    BIGINT_COL(struct project, created_at),
};
ROW_TYPE(project_row, "project", struct project, project_cols, 1);
static const struct row_finder project_finder = {
    "WHERE ?1=?1 AND name=?2", "WHERE ?1=?1 AND id>=?2 AND id<?3 LIMIT 2", "project", "project ls"};

static const struct col token_cols[] = {
    TEXT_COL(struct token, id),           TEXT_COL(struct token, user),
    REF_COL(struct token, project),       TEXT_COL(struct token, hash),
    TEXT_COL(struct token, label),        INT_COL(struct token, role),
    BIGINT_COL(struct token, created_at), BIGINT_COL(struct token, used_at),
    BIGINT_COL(struct token, expires_at),
};
ROW_TYPE(token_row, "token", struct token, token_cols, 1);

static const struct col key_cols[] = {
    TEXT_COL(struct ssh_key, id),          TEXT_COL(struct ssh_key, user),
    TEXT_COL(struct ssh_key, name),        TEXT_COL(struct ssh_key, public_key),
    TEXT_COL(struct ssh_key, fingerprint), BIGINT_COL(struct ssh_key, created_at),
};
ROW_TYPE(key_row, "ssh_key", struct ssh_key, key_cols, 1);
static const struct row_finder key_finder = {
    "WHERE user=?1 AND name=?2", "WHERE user=?1 AND id>=?2 AND id<?3 LIMIT 2", "key", "key ls"};

enum err store_user_get(struct store *s, struct id id, struct user *ret_u)
{
    return row_get(s, &user_row, ret_u, "WHERE id=?", "t", id.s);
}

enum err store_user_get_name(struct store *s, const char *name, struct user *ret_u)
{
    return row_get(s, &user_row, ret_u, "WHERE name=?", "t", name);
}

enum err store_user_lookup(struct store *s, const char *text, struct user *ret_u,
                           struct refusal *why)
{
    return row_lookup(s, &user_row, ret_u, &user_finder, (struct id){""}, text, why);
}

enum err store_user_save(struct store *s, const struct user *u)
{
    return row_save(s, &user_row, u);
}

enum err store_user_list(struct store *s, struct user_list *ret_l)
{
    return row_list(s, &user_row, ret_l, "ORDER BY name", "");
}

enum err store_project_get(struct store *s, struct id id, struct project *ret_p)
{
    struct kept_list kept;

    TRY(row_kept(s, &project_row, &kept, "WHERE id=?", "t", id.s));
    memset(ret_p, 0, sizeof(*ret_p));
    if (kept.len == 0)
        return ERR_NOT_FOUND;
    *ret_p = *(const struct project *)kept.at;
    return ERR_OK;
}

enum err store_project_get_name(struct store *s, const char *name, struct project *ret_p)
{
    return row_get(s, &project_row, ret_p, "WHERE name=?", "t", name);
}

enum err store_project_lookup(struct store *s, const char *text, struct project *ret_p,
                              struct refusal *why)
{
    return row_lookup(s, &project_row, ret_p, &project_finder, (struct id){""}, text, why);
}

enum err store_project_save(struct store *s, const struct project *p)
{
    return row_save(s, &project_row, p);
}

enum err store_project_list(struct store *s, struct project_list *ret_l)
{
    return row_list(s, &project_row, ret_l, "ORDER BY name", "");
}

enum err store_project_list_of(struct store *s, struct id user, struct project_list *ret_l)
{
    return row_list(s, &project_row, ret_l,
                    "WHERE id IN (SELECT project FROM member WHERE user=?) ORDER BY name", "t",
                    user.s);
}

enum err store_member_role(struct store *s, struct id project, struct id user, enum role *ret_r)
{
    struct sql q =
        sql_open(s, "SELECT role FROM member WHERE project=? AND user=?", "tt", project.s, user.s);

    *ret_r = sql_next(&q) ? (enum role)sql_i64(&q, 0) : ROLE_NONE;
    return sql_close(&q);
}

enum err store_member_set(struct store *s, struct id project, struct id user, enum role r)
{
    if (r == ROLE_NONE)
        return sql_run(s, "DELETE FROM member WHERE project=? AND user=?", "tt", project.s, user.s);
    return sql_run(s,
                   "INSERT INTO member(project, user, role) VALUES(?,?,?) "
                   "ON CONFLICT(project, user) DO UPDATE SET role=excluded.role",
                   "tti", project.s, user.s, (int64_t)r);
}

enum err store_member_list(struct store *s, struct id project, struct member_list *ret_l)
{
    struct sql q = sql_open(s,
                            "SELECT m.user, u.name, m.role FROM member m JOIN user u ON "
                            "u.id=m.user WHERE m.project=? ORDER BY u.name",
                            "t", project.s);

    while (sql_next(&q)) {
        struct member *m = vec_push(ret_l);

        m->project = project;
        (void)str_copy(m->user.s, sizeof(m->user.s), sql_text(&q, 0));
        (void)str_copy(m->user_name, sizeof(m->user_name), sql_text(&q, 1));
        m->role = (enum role)sql_i64(&q, 2);
    }
    return sql_close(&q);
}

enum err store_token_get_hash(struct store *s, const char *hash, struct token *ret_t)
{
    return row_get(s, &token_row, ret_t, "WHERE hash=?", "t", hash);
}

enum err store_token_get(struct store *s, struct id user, struct id id, struct token *ret_t)
{
    return row_get(s, &token_row, ret_t, "WHERE user=? AND id=?", "tt", user.s, id.s);
}

enum err store_token_save(struct store *s, const struct token *t)
{
    return row_save(s, &token_row, t);
}

enum err store_token_remove(struct store *s, struct id user, struct id id)
{
    TRY(sql_run(s, "DELETE FROM token WHERE user=? AND id=?", "tt", user.s, id.s));
    return sql_changes(s) ? ERR_OK : ERR_NOT_FOUND;
}

enum err store_token_list(struct store *s, struct id user, struct token_list *ret_l)
{
    return row_list(s, &token_row, ret_l, "WHERE user=? ORDER BY created_at, id", "t", user.s);
}

enum err store_code_save(struct store *s, const char *hash, struct id user, utime_t expires_at)
{
    return sql_run(s, "INSERT INTO login_code(hash, user, expires_at) VALUES(?,?,?)", "tti", hash,
                   user.s, expires_at);
}

enum err store_code_take(struct store *s, const char *hash, utime_t now, struct id *ret_user)
{
    struct sql q =
        sql_open(s, "SELECT user FROM login_code WHERE hash=? AND expires_at>?", "ti", hash, now);
    bool found = sql_next(&q);

    if (found)
        (void)str_copy(ret_user->s, sizeof(ret_user->s), sql_text(&q, 0));
    TRY(sql_close(&q));
    TRY(sql_run(s, "DELETE FROM login_code WHERE hash=? OR expires_at<=?", "ti", hash, now));
    return found ? ERR_OK : ERR_NOT_FOUND;
}

enum err store_key_save(struct store *s, const struct ssh_key *k)
{
    return row_save(s, &key_row, k);
}

enum err store_key_remove(struct store *s, struct id user, struct id id)
{
    TRY(sql_run(s, "DELETE FROM ssh_key WHERE user=? AND id=?", "tt", user.s, id.s));
    return sql_changes(s) ? ERR_OK : ERR_NOT_FOUND;
}

enum err store_key_lookup(struct store *s, struct id user, const char *text, struct ssh_key *ret_k,
                          struct refusal *why)
{
    return row_lookup(s, &key_row, ret_k, &key_finder, user, text, why);
}

enum err store_key_list(struct store *s, struct id user, struct ssh_key_list *ret_l)
{
    return row_list(s, &key_row, ret_l, "WHERE user=? ORDER BY name", "t", user.s);
}

enum err store_key_list_project(struct store *s, struct id project, struct ssh_key_list *ret_l)
{
    _Static_assert(ROLE_MEMBER == 2, "the number in the query");
    return row_list(s, &key_row, ret_l,
                    "WHERE user IN (SELECT user FROM member WHERE project=? AND role>=2) "
                    "ORDER BY id",
                    "t", project.s);
}
