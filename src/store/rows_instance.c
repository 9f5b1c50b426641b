#include "store/sql.h"

#define GONE_STATES "8, 9" /* released, failed; as in the migration's indexes */
_Static_assert(INSTANCE_RELEASED == 8 && INSTANCE_FAILED == 9, "the numbers in the queries");

static const struct col instance_cols[] = {
    TEXT_COL(struct instance, id),
    TEXT_COL(struct instance, project),
    TEXT_COL(struct instance, owner),
    TEXT_COL(struct instance, name),
    TEXT_COL(struct instance, labels),
    INT_COL(struct instance, state),
    INT_COL(struct instance, reason),
    COL_AS("why", COL_REFUSAL, struct instance, why),
    BIGINT_COL(struct instance, since),
    BIGINT_COL(struct instance, created_at),
    BIGINT_COL(struct instance, ends_at),
    INT_COL(struct instance, then),
    BIGINT_COL(struct instance, kept_until),
    COL_AS("gpu_model", COL_TEXT, struct instance, shape.gpu_model),
    COL_AS("gpu_count", COL_INT, struct instance, shape.gpu_count),
    COL_AS("cpu_milli", COL_INT, struct instance, shape.cpu_milli),
    COL_AS("memory_mib", COL_BIGINT, struct instance, shape.memory_mib),
    COL_AS("system_disk_mib", COL_BIGINT, struct instance, shape.system_disk_mib),
    COL_AS("exclusive", COL_BOOL, struct instance, shape.exclusive),
    BOOL_COL(struct instance, no_gpu),
    BOOL_COL(struct instance, simulated),
    INT_COL(struct instance, plan),
    TEXT_COL(struct instance, image),
    TEXT_COL(struct instance, image_name),
    REF_COL(struct instance, node),
    REF_COL(struct instance, lease),
    REF_COL(struct instance, system_disk),
    TEXT_COL(struct instance, host_key),
    BIGINT_COL(struct instance, idle_s),
    INT_COL(struct instance, idle_action),
    TEXT_COL(struct instance, price_gpu),
    TEXT_COL(struct instance, price_cpu),
    BIGINT_COL(struct instance, version),
};
ROW_TYPE(instance_row, "instance", struct instance, instance_cols, 1);
/* A name may be that of instances that are gone, too; the live one wins. */
static const struct row_finder instance_finder = {
    "WHERE project=?1 AND name=?2 ORDER BY state IN (" GONE_STATES "), created_at DESC LIMIT 1",
    "WHERE project=?1 AND id>=?2 AND id<?3 LIMIT 2", "instance", "ls --all"};

static enum err instance_load_ports(struct store *s, struct instance *i)
{
    struct sql q = sql_open(
        s, "SELECT guest, host FROM instance_port WHERE instance=? ORDER BY guest", "t", i->id.s);

    while (sql_next(&q) && i->port_count < INSTANCE_PORTS_MAX) {
        i->ports[i->port_count].guest = (uint16_t)sql_i64(&q, 0);
        i->ports[i->port_count++].host = (uint16_t)sql_i64(&q, 1);
    }
    return sql_close(&q);
}

/* Data disks are where disk.instance says; the struct's list is made from there. */
static enum err instance_load_parts(struct store *s, struct instance *i)
{
    struct sql q = sql_open(
        s, "SELECT id FROM disk WHERE instance=? AND kind=1 ORDER BY created_at, id", "t", i->id.s);

    _Static_assert(DISK_DATA == 1, "the number in the query");
    while (sql_next(&q) && i->data_count < INSTANCE_DISKS_MAX) {
        struct id *d = &i->data_disk[i->data_count++];

        (void)str_copy(d->s, sizeof(d->s), sql_text(&q, 0));
    }
    TRY(sql_close(&q));
    return instance_load_ports(s, i);
}

enum err store_instance_get(struct store *s, struct id project, struct id id,
                            struct instance *ret_i)
{
    TRY(row_get(s, &instance_row, ret_i, "WHERE project=? AND id=?", "tt", project.s, id.s));
    return instance_load_parts(s, ret_i);
}

enum err store_instance_get_any(struct store *s, struct id id, struct instance *ret_i)
{
    TRY(row_get(s, &instance_row, ret_i, "WHERE id=?", "t", id.s));
    return instance_load_parts(s, ret_i);
}

enum err store_instance_lookup(struct store *s, struct id project, const char *text,
                               struct instance *ret_i, struct refusal *why)
{
    TRY(row_lookup(s, &instance_row, ret_i, &instance_finder, project, text, why));
    return instance_load_parts(s, ret_i);
}

enum err store_instance_save(struct store *s, const struct instance *i)
{
    TRY(row_save(s, &instance_row, i));
    TRY(sql_run(s, "DELETE FROM instance_port WHERE instance=?", "t", i->id.s));
    for (int32_t n = 0; n < i->port_count; n++)
        TRY(sql_run(s,
                    "INSERT INTO instance_port(instance, guest, host, node) "
                    "VALUES(?,?,?,nullif(?,''))",
                    "tiit", i->id.s, (int64_t)i->ports[n].guest, (int64_t)i->ports[n].host,
                    i->node.s));
    return ERR_OK;
}

static enum err instance_load_list(struct store *s, struct instance_list *l)
{
    for (size_t i = 0; i < l->len; i++)
        TRY(instance_load_parts(s, &l->at[i]));
    return ERR_OK;
}

enum err store_instance_list(struct store *s, struct id project, bool all, struct id after,
                             int64_t limit, struct instance_list *ret_l)
{
    if (limit <= 0)
        limit = INT64_MAX;
    if (all)
        TRY(row_list(s, &instance_row, ret_l, "WHERE project=? AND id>? ORDER BY id LIMIT ?", "tti",
                     project.s, after.s, limit));
    else
        TRY(row_list(s, &instance_row, ret_l,
                     "WHERE project=? AND id>? AND state NOT IN (" GONE_STATES
                     ") ORDER BY id LIMIT ?",
                     "tti", project.s, after.s, limit));
    return instance_load_list(s, ret_l);
}

enum err store_instance_list_state(struct store *s, enum instance_state state,
                                   struct instance_list *ret_l)
{
    TRY(row_list(s, &instance_row, ret_l,
                 "WHERE state=? AND state NOT IN (" GONE_STATES ") ORDER BY created_at, id", "i",
                 (int64_t)state));
    return instance_load_list(s, ret_l);
}

enum err store_instance_list_any(struct store *s, struct instance_list *ret_l)
{
    TRY(row_list(s, &instance_row, ret_l, "ORDER BY id", ""));
    return instance_load_list(s, ret_l);
}

enum err store_instance_name_taken(struct store *s, struct id project, const char *name,
                                   bool *ret_taken)
{
    struct sql q = sql_open(
        s, "SELECT 1 FROM instance WHERE project=? AND name=? AND state NOT IN (" GONE_STATES ")",
        "tt", project.s, name);

    *ret_taken = sql_next(&q);
    return sql_close(&q);
}

enum err store_host_port_taken(struct store *s, struct id node, int64_t port, bool *ret_taken)
{
    struct sql q =
        sql_open(s, "SELECT 1 FROM instance_port WHERE node=? AND host=?", "ti", node.s, port);

    *ret_taken = sql_next(&q);
    return sql_close(&q);
}

enum err store_instance_ran(struct store *s, struct id instance, bool *ret_ran)
{
    struct sql q = sql_open(s, "SELECT 1 FROM lease WHERE instance=? AND ready_at<>0 LIMIT 1", "t",
                            instance.s);

    *ret_ran = sql_next(&q);
    return sql_close(&q);
}

enum err store_spec_save(struct store *s, const struct instance_spec *p)
{
    return sql_run(s,
                   "INSERT INTO instance_spec(instance, argv, env) VALUES(?,?,?) "
                   "ON CONFLICT(instance) DO UPDATE SET argv=excluded.argv, env=excluded.env",
                   "ttt", p->instance.s, p->argv, p->env);
}

enum err store_spec_get(struct store *s, struct id instance, struct instance_spec *ret_p)
{
    struct sql q =
        sql_open(s, "SELECT argv, env FROM instance_spec WHERE instance=?", "t", instance.s);
    bool found = sql_next(&q);

    *ret_p = (struct instance_spec){.instance = instance};
    if (found) {
        ret_p->argv = mem_strdup(sql_text(&q, 0));
        ret_p->env = mem_strdup(sql_text(&q, 1));
    }
    TRY(sql_close(&q));
    return found ? ERR_OK : ERR_NOT_FOUND;
}

void store_spec_fini(struct instance_spec *p)
{
    free(p->argv);
    free(p->env);
    p->argv = p->env = NULL;
}
