/* What every command leaves behind: meta values, stored answers, audit, events, outbox. */
#include "store/sql.h"

static const struct col audit_cols[] = {
    BIGINT_COL(struct audit, id),       BIGINT_COL(struct audit, at),
    TEXT_COL(struct audit, project),    TEXT_COL(struct audit, user),
    TEXT_COL(struct audit, actor),      TEXT_COL(struct audit, action),
    TEXT_COL(struct audit, object),     TEXT_COL(struct audit, result),
    TEXT_COL(struct audit, request_id),
};
ROW_TYPE(audit_row, "audit", struct audit, audit_cols, 1);

static const struct col event_cols[] = {
    BIGINT_COL(struct event, id),     BIGINT_COL(struct event, at), TEXT_COL(struct event, project),
    TEXT_COL(struct event, instance), TEXT_COL(struct event, kind), TEXT_COL(struct event, text),
    TEXT_COL(struct event, data),
};
ROW_TYPE(event_row, "event", struct event, event_cols, 1);

static const struct col outbox_cols[] = {
    BIGINT_COL(struct outbox, id),      TEXT_COL(struct outbox, node),
    TEXT_COL(struct outbox, kind),      TEXT_COL(struct outbox, target),
    BIGINT_COL(struct outbox, version), TEXT_COL(struct outbox, body),
    BIGINT_COL(struct outbox, at),
};
ROW_TYPE(outbox_row, "outbox", struct outbox, outbox_cols, 1);

enum err store_meta_get(struct store *s, const char *key, char *buf, size_t size, bool *ret_found)
{
    struct sql q = sql_open(s, "SELECT value FROM meta WHERE key=?", "t", key);

    buf[0] = 0;
    *ret_found = sql_next(&q) && str_copy(buf, size, sql_text(&q, 0));
    return sql_close(&q);
}

enum err store_meta_set(struct store *s, const char *key, const char *value)
{
    return sql_run(s,
                   "INSERT INTO meta(key, value) VALUES(?,?) "
                   "ON CONFLICT(key) DO UPDATE SET value=excluded.value",
                   "tt", key, value);
}

enum err store_meta_get_i64(struct store *s, const char *key, int64_t def, int64_t *ret_v)
{
    char text[32];
    bool found;

    TRY(store_meta_get(s, key, text, sizeof(text), &found));
    if (!found || str_parse_i64(text, INT64_MIN, INT64_MAX, ret_v) != ERR_OK)
        *ret_v = def;
    return ERR_OK;
}

enum err store_meta_set_i64(struct store *s, const char *key, int64_t v)
{
    char text[32];

    CHECK(str_printf(text, sizeof(text), "%" PRId64, v));
    return store_meta_set(s, key, text);
}

enum err store_idem_get(struct store *s, struct id project, const char *key, struct idem *ret_i)
{
    struct sql q = sql_open(s, "SELECT hash, answer, at FROM idem WHERE project=? AND key=?", "tt",
                            project.s, key);
    bool found = sql_next(&q);

    *ret_i = (struct idem){.project = project};
    if (found) {
        (void)str_copy(ret_i->key, sizeof(ret_i->key), key);
        (void)str_copy(ret_i->hash, sizeof(ret_i->hash), sql_text(&q, 0));
        ret_i->answer = mem_strdup(sql_text(&q, 1));
        ret_i->at = sql_i64(&q, 2);
    }
    TRY(sql_close(&q));
    return found ? ERR_OK : ERR_NOT_FOUND;
}

enum err store_idem_save(struct store *s, const struct idem *i)
{
    return sql_run(s, "INSERT INTO idem(project, key, hash, answer, at) VALUES(?,?,?,?,?)", "tttti",
                   i->project.s, i->key, i->hash, i->answer, i->at);
}

enum err store_idem_prune(struct store *s, utime_t before)
{
    return sql_run(s, "DELETE FROM idem WHERE at<?", "i", before);
}

void store_idem_fini(struct idem *i)
{
    free(i->answer);
    i->answer = NULL;
}

enum err store_audit_add(struct store *s, struct audit *a)
{
    TRY(sql_run(s,
                "INSERT INTO audit(at, project, user, actor, action, object, result, request_id) "
                "VALUES(?,?,?,?,?,?,?,?)",
                "ittttttt", a->at, a->project.s, a->user.s, a->actor, a->action, a->object,
                a->result, a->request_id));
    a->id = sql_last_id(s);
    return ERR_OK;
}

enum err store_audit_list(struct store *s, struct id project, int64_t before, int64_t limit,
                          struct audit_list *ret_l)
{
    if (before <= 0)
        before = INT64_MAX;
    return row_list(s, &audit_row, ret_l,
                    "WHERE (?1='' OR project=?1) AND id<?2 ORDER BY id DESC LIMIT ?3", "tii",
                    project.s, before, limit);
}

enum err store_event_add(struct store *s, struct event *e)
{
    TRY(sql_run(s, "INSERT INTO event(at, project, instance, kind, text, data) VALUES(?,?,?,?,?,?)",
                "ittttt", e->at, e->project.s, e->instance.s, e->kind, e->text, e->data));
    e->id = sql_last_id(s);
    return ERR_OK;
}

enum err store_event_list(struct store *s, struct id project, struct id instance, int64_t after,
                          int64_t limit, struct event_list *ret_l)
{
    if (!project.s[0])
        return row_list(s, &event_row, ret_l,
                        "WHERE id>?1 AND (?2='' OR instance=?2) ORDER BY id LIMIT ?3", "iti", after,
                        instance.s, limit);
    return row_list(s, &event_row, ret_l,
                    "WHERE project=?1 AND id>?2 AND (?3='' OR instance=?3) ORDER BY id LIMIT ?4",
                    "titi", project.s, after, instance.s, limit);
}

enum err store_event_last(struct store *s, int64_t *ret_id)
{
    struct sql q = sql_open(s, "SELECT coalesce(max(id), 0) FROM event", "");

    *ret_id = sql_next(&q) ? sql_i64(&q, 0) : 0;
    return sql_close(&q);
}

enum err store_outbox_add(struct store *s, struct outbox *o)
{
    TRY(sql_run(s, "INSERT INTO outbox(node, kind, target, version, body, at) VALUES(?,?,?,?,?,?)",
                "tttiti", o->node.s, o->kind, o->target, o->version, o->body, o->at));
    o->id = sql_last_id(s);
    return ERR_OK;
}

enum err store_outbox_list(struct store *s, struct id node, struct outbox_list *ret_l)
{
    return row_list(s, &outbox_row, ret_l, "WHERE node=? ORDER BY id LIMIT 100", "t", node.s);
}

enum err store_outbox_ack(struct store *s, struct id node, int64_t seen)
{
    return sql_run(s, "DELETE FROM outbox WHERE node=? AND version<=?", "ti", node.s, seen);
}
