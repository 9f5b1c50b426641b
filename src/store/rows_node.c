#include "store/sql.h"

static const struct col node_cols[] = {
    TEXT_COL(struct node, id),          TEXT_COL(struct node, name),
    INT_COL(struct node, state),        BOOL_COL(struct node, drain),
    BIGINT_COL(struct node, seen_at),   TEXT_COL(struct node, boot),
    BIGINT_COL(struct node, anchor_ms), BIGINT_COL(struct node, version),
    INT_COL(struct node, cores),        BIGINT_COL(struct node, memory_mib),
    BIGINT_COL(struct node, disk_mib),  TEXT_COL(struct node, driver),
    TEXT_COL(struct node, cuda),        TEXT_COL(struct node, runtime),
    TEXT_COL(struct node, cgroup),      TEXT_COL(struct node, kernel),
    TEXT_COL(struct node, ssh_host),    U16_COL(struct node, port_min),
    U16_COL(struct node, port_max),     BOOL_COL(struct node, simulated),
    BOOL_COL(struct node, online_grow),
};
ROW_TYPE(node_row, "node", struct node, node_cols, 1);
static const struct row_finder node_finder = {
    "WHERE ?1=?1 AND name=?2 AND NOT removed",
    "WHERE ?1=?1 AND id>=?2 AND id<?3 AND NOT removed LIMIT 2", "node", "admin node ls"};

static const struct col boot_cols[] = {
    TEXT_COL(struct node_boot, node),           TEXT_COL(struct node_boot, boot),
    BIGINT_COL(struct node_boot, anchor_ms),    BIGINT_COL(struct node_boot, ack_seq),
    BIGINT_COL(struct node_boot, last_boot_ms), BIGINT_COL(struct node_boot, first_at),
};
ROW_TYPE(boot_row, "node_boot", struct node_boot, boot_cols, 2);

static const struct col unknown_cols[] = {
    TEXT_COL(struct node_unknown, node),
    TEXT_COL(struct node_unknown, lease),
    BIGINT_COL(struct node_unknown, pid),
    BIGINT_COL(struct node_unknown, seen_at),
};
ROW_TYPE(unknown_row, "node_unknown", struct node_unknown, unknown_cols, 2);

static enum err node_load_gpus(struct store *s, struct node *n)
{
    struct sql q = sql_open(s,
                            "SELECT g.uuid, g.model, g.memory_mib, g.simulated, g.healthy, "
                            "g.util_pct, l.lease FROM node_gpu g LEFT JOIN lease_gpu l "
                            "ON l.uuid=g.uuid AND l.live WHERE g.node=? ORDER BY g.uuid",
                            "t", n->id.s);

    while (sql_next(&q) && n->gpu_count < NODE_GPUS_MAX) {
        struct node_gpu *g = &n->gpus[n->gpu_count++];

        (void)str_copy(g->uuid, sizeof(g->uuid), sql_text(&q, 0));
        (void)str_copy(g->model, sizeof(g->model), sql_text(&q, 1));
        g->memory_mib = sql_i64(&q, 2);
        g->simulated = sql_i64(&q, 3) != 0;
        g->healthy = sql_i64(&q, 4) != 0;
        g->util_pct = (int32_t)sql_i64(&q, 5);
        (void)str_copy(g->lease.s, sizeof(g->lease.s), sql_text(&q, 6));
    }
    return sql_close(&q);
}

enum err store_node_get(struct store *s, struct id id, struct node *ret_n)
{
    TRY(row_get(s, &node_row, ret_n, "WHERE id=?", "t", id.s));
    return node_load_gpus(s, ret_n);
}

enum err store_node_lookup(struct store *s, const char *text, struct node *ret_n,
                           struct refusal *why)
{
    TRY(row_lookup(s, &node_row, ret_n, &node_finder, (struct id){""}, text, why));
    return node_load_gpus(s, ret_n);
}

enum err store_node_get_hash(struct store *s, const char *token_hash, struct node *ret_n)
{
    TRY(row_get(s, &node_row, ret_n, "WHERE id=(SELECT node FROM node_secret WHERE hash=?)", "t",
                token_hash));
    return node_load_gpus(s, ret_n);
}

enum err store_node_save(struct store *s, const struct node *n)
{
    TRY(row_save(s, &node_row, n));
    TRY(sql_run(s, "DELETE FROM node_gpu WHERE node=?", "t", n->id.s));
    for (int32_t i = 0; i < n->gpu_count; i++) {
        const struct node_gpu *g = &n->gpus[i];

        TRY(sql_run(s, "INSERT INTO node_gpu VALUES(?,?,?,?,?,?,?)", "tttiiii", n->id.s, g->uuid,
                    g->model, g->memory_mib, (int64_t)g->simulated, (int64_t)g->healthy,
                    (int64_t)g->util_pct));
    }
    return ERR_OK;
}

enum err store_node_seen(struct store *s, struct id node, utime_t seen_at)
{
    return sql_run(s, "UPDATE node SET seen_at=? WHERE id=?", "it", seen_at, node.s);
}

enum err store_node_set_hash(struct store *s, struct id node, const char *token_hash)
{
    return sql_run(s,
                   "INSERT INTO node_secret(node, hash) VALUES(?,?) "
                   "ON CONFLICT(node) DO UPDATE SET hash=excluded.hash",
                   "tt", node.s, token_hash);
}

enum err store_node_bump(struct store *s, struct id node)
{
    return sql_run(s, "UPDATE node SET version=version+1 WHERE id=?", "t", node.s);
}

enum err store_node_list(struct store *s, struct node_list *ret_l)
{
    TRY(row_list(s, &node_row, ret_l, "WHERE NOT removed ORDER BY name", ""));
    for (size_t i = 0; i < ret_l->len; i++)
        TRY(node_load_gpus(s, &ret_l->at[i]));
    return ERR_OK;
}

enum err store_node_remove(struct store *s, struct id id)
{
    TRY(sql_run(s, "DELETE FROM node_secret WHERE node=?", "t", id.s));
    TRY(sql_run(s, "DELETE FROM node_gpu WHERE node=?", "t", id.s));
    return sql_run(s, "UPDATE node SET removed=1, name=id WHERE id=?", "t", id.s);
}

enum err store_node_boot_get(struct store *s, struct id node, const char *boot,
                             struct node_boot *ret_b)
{
    return row_get(s, &boot_row, ret_b, "WHERE node=? AND boot=?", "tt", node.s, boot);
}

enum err store_node_boot_save(struct store *s, const struct node_boot *b)
{
    return row_save(s, &boot_row, b);
}

enum err store_unknown_save(struct store *s, const struct node_unknown *u)
{
    return row_save(s, &unknown_row, u);
}

enum err store_unknown_clear(struct store *s, struct id node, utime_t before)
{
    return sql_run(s, "DELETE FROM node_unknown WHERE node=? AND seen_at<?", "ti", node.s, before);
}

enum err store_unknown_list(struct store *s, struct id node, struct node_unknown_list *ret_l)
{
    return row_list(s, &unknown_row, ret_l, "WHERE node=? ORDER BY lease", "t", node.s);
}

enum err store_node_version(struct store *s, struct id node, int64_t *ret_v)
{
    struct sql q = sql_open(s, "SELECT version FROM node WHERE id=?", "t", node.s);
    bool found = sql_next(&q);

    *ret_v = found ? sql_i64(&q, 0) : 0;
    TRY(sql_close(&q));
    return found ? ERR_OK : ERR_NOT_FOUND;
}

enum err store_node_used(struct store *s, struct id node, struct node_used *ret_u)
{
    struct sql q = sql_open(
        s,
        "SELECT (SELECT coalesce(sum(cpu_milli), 0) FROM lease WHERE node=?1 AND state<>4), "
        "(SELECT coalesce(sum(memory_mib), 0) FROM lease WHERE node=?1 AND state<>4), "
        "(SELECT coalesce(sum(size_mib), 0) FROM disk WHERE node=?1 AND life<>3), "
        "(SELECT count(*) FROM instance_port WHERE node=?1), "
        "(SELECT count(*) FROM lease WHERE node=?1 AND state<>4), "
        "(SELECT count(*) FROM lease WHERE node=?1 AND state<>4 AND exclusive=1)",
        "t", node.s);

    _Static_assert(LEASE_CLOSED == 4 && DISK_LIFE_ERASED == 3, "the numbers in the query");
    *ret_u = (struct node_used){0};
    if (sql_next(&q))
        *ret_u = (struct node_used){sql_i64(&q, 0), sql_i64(&q, 1), sql_i64(&q, 2),
                                    sql_i64(&q, 3), sql_i64(&q, 4), sql_i64(&q, 5) > 0};
    return sql_close(&q);
}
