#include "store/sql.h"

_Static_assert(LEASE_CLOSED == 4, "the number in the queries");
_Static_assert(INSTANCE_QUEUED == 0, "the number in the queries");

static const struct col lease_cols[] = {
    TEXT_COL(struct lease, id),
    TEXT_COL(struct lease, instance),
    TEXT_COL(struct lease, node),
    BIGINT_COL(struct lease, epoch),
    INT_COL(struct lease, state),
    INT_COL(struct lease, gpu_count),
    BIGINT_COL(struct lease, granted_at),
    BIGINT_COL(struct lease, ready_at),
    BIGINT_COL(struct lease, stop_at),
    BIGINT_COL(struct lease, ended_at),
    BIGINT_COL(struct lease, paid_until),
    BIGINT_COL(struct lease, ends_at),
    BIGINT_COL(struct lease, evidence_until),
    BIGINT_COL(struct lease, grace_ms),
    INT_COL(struct lease, reason),
    TEXT_COL(struct lease, hold),
    INT_COL(struct lease, exit_code),
    INT_COL(struct lease, limit),
    INT_COL(struct lease, cpu_milli),
    BIGINT_COL(struct lease, memory_mib),
    BOOL_COL(struct lease, exclusive),
};
ROW_TYPE(lease_row, "lease", struct lease, lease_cols, 1);

static const struct col gap_cols[] = {
    TEXT_COL(struct lease_gap, lease),
    BIGINT_COL(struct lease_gap, from_ms),
    BIGINT_COL(struct lease_gap, to_ms),
};
ROW_TYPE(gap_row, "lease_gap", struct lease_gap, gap_cols, 2);

static enum err lease_load_gpus(struct store *s, struct lease *l)
{
    struct sql q =
        sql_open(s, "SELECT uuid FROM lease_gpu WHERE lease=? ORDER BY slot", "t", l->id.s);

    for (int32_t i = 0; i < INSTANCE_GPUS_MAX && sql_next(&q); i++)
        (void)str_copy(l->gpus[i], sizeof(l->gpus[i]), sql_text(&q, 0));
    return sql_close(&q);
}

static enum err lease_load_list(struct store *s, struct lease_list *l)
{
    for (size_t i = 0; i < l->len; i++)
        TRY(lease_load_gpus(s, &l->at[i]));
    return ERR_OK;
}

enum err store_lease_get(struct store *s, struct id id, struct lease *ret_l)
{
    TRY(row_get(s, &lease_row, ret_l, "WHERE id=?", "t", id.s));
    return lease_load_gpus(s, ret_l);
}

static enum err gpu_taken(struct store *s, const struct lease *l, const char *uuid, bool *ret_taken)
{
    struct sql q = sql_open(s, "SELECT 1 FROM lease_gpu WHERE uuid=? AND live AND lease<>?", "tt",
                            uuid, l->id.s);

    *ret_taken = sql_next(&q);
    return sql_close(&q);
}

enum err store_lease_save(struct store *s, const struct lease *l)
{
    bool live = l->state != LEASE_CLOSED;

    TRY(row_save(s, &lease_row, l));
    for (int32_t i = 0; i < l->gpu_count; i++) {
        bool taken = false;

        if (live)
            TRY(gpu_taken(s, l, l->gpus[i], &taken));
        if (taken)
            return ERR_CAPACITY_NONE;
        TRY(sql_run(s,
                    "INSERT INTO lease_gpu(lease, slot, uuid, live) VALUES(?,?,?,?) "
                    "ON CONFLICT(lease, slot) DO UPDATE SET uuid=excluded.uuid, live=excluded.live",
                    "titi", l->id.s, (int64_t)i, l->gpus[i], (int64_t)live));
    }
    return ERR_OK;
}

enum err store_lease_list_live(struct store *s, struct lease_list *ret_l)
{
    TRY(row_list(s, &lease_row, ret_l, "WHERE state<>4 ORDER BY id", ""));
    return lease_load_list(s, ret_l);
}

enum err store_lease_list_node(struct store *s, struct id node, struct lease_list *ret_l)
{
    TRY(row_list(s, &lease_row, ret_l, "WHERE node=? AND state<>4 ORDER BY id", "t", node.s));
    return lease_load_list(s, ret_l);
}

enum err store_lease_list_instance(struct store *s, struct id instance, struct lease_list *ret_l)
{
    TRY(row_list(s, &lease_row, ret_l, "WHERE instance=? ORDER BY granted_at, id", "t",
                 instance.s));
    return lease_load_list(s, ret_l);
}

enum err store_lease_list_any(struct store *s, struct lease_list *ret_l)
{
    TRY(row_list(s, &lease_row, ret_l, "ORDER BY id", ""));
    return lease_load_list(s, ret_l);
}

/* Cards of a model that no lease holds are not asked for: a start without cards is a seat. */
#define DEMAND_OF_LEASES                                                                           \
    "SELECT CASE WHEN l.gpu_count>0 THEN i.gpu_model ELSE '' END AS model, l.gpu_count AS cards, " \
    "l.cpu_milli AS cpu, l.memory_mib AS mib FROM lease l JOIN instance i ON i.id=l.instance "

enum err store_demand_lately(struct store *s, utime_t since, struct demand_list *ret_l)
{
    struct sql q = sql_open(s,
                            "SELECT model, cards, cpu, mib, COUNT(*) FROM (" DEMAND_OF_LEASES
                            "WHERE l.state<>4 UNION ALL " DEMAND_OF_LEASES
                            "WHERE l.state=4 AND l.ended_at>? UNION ALL "
                            "SELECT gpu_model, gpu_count, cpu_milli, memory_mib FROM instance "
                            "WHERE state=0 AND state NOT IN (8, 9)) "
                            "GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4 LIMIT ?",
                            "ii", since, (int64_t)DEMAND_KINDS_MAX);

    while (sql_next(&q)) {
        struct demand_seen d = {.shape = {.gpu_count = (int32_t)sql_i64(&q, 1),
                                          .cpu_milli = (int32_t)sql_i64(&q, 2),
                                          .memory_mib = sql_i64(&q, 3)},
                                .count = sql_i64(&q, 4)};

        (void)str_copy(d.shape.gpu_model, sizeof(d.shape.gpu_model), sql_text(&q, 0));
        *vec_push(ret_l) = d;
    }
    return sql_close(&q);
}

enum err store_fact_get(struct store *s, struct id lease, struct lease_fact *ret_f)
{
    struct sql q = sql_open(s,
                            "SELECT step, step_count, detail, disk_used_mib, memory_peak_mib, "
                            "gpu_memory_peak_mib, idle_s, report_ok, report, said_at, "
                            "idle_cards, cards_ok FROM lease_fact WHERE lease=?",
                            "t", lease.s);
    bool found = sql_next(&q);

    *ret_f = (struct lease_fact){.lease = lease};
    if (found) {
        ret_f->step = (int32_t)sql_i64(&q, 0);
        ret_f->step_count = (int32_t)sql_i64(&q, 1);
        (void)str_copy(ret_f->detail, sizeof(ret_f->detail), sql_text(&q, 2));
        ret_f->disk_used_mib = sql_i64(&q, 3);
        ret_f->memory_peak_mib = sql_i64(&q, 4);
        ret_f->gpu_memory_peak_mib = sql_i64(&q, 5);
        ret_f->idle_s = sql_i64(&q, 6);
        ret_f->report_ok = sql_i64(&q, 7) != 0;
        ret_f->report = sql_text(&q, 8)[0] ? mem_strdup(sql_text(&q, 8)) : NULL;
        ret_f->said_at = sql_i64(&q, 9);
        ret_f->idle_cards = (int32_t)sql_i64(&q, 10);
        ret_f->cards_ok = sql_i64(&q, 11) != 0;
    }
    TRY(sql_close(&q));
    return found ? ERR_OK : ERR_NOT_FOUND;
}

enum err store_fact_save(struct store *s, const struct lease_fact *f)
{
    return sql_run(
        s,
        "INSERT INTO lease_fact(lease, step, step_count, detail, disk_used_mib, memory_peak_mib, "
        "gpu_memory_peak_mib, idle_s, report_ok, report, said_at, idle_cards, cards_ok) "
        "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?) "
        "ON CONFLICT(lease) DO UPDATE SET step=excluded.step, step_count=excluded.step_count, "
        "detail=excluded.detail, disk_used_mib=excluded.disk_used_mib, "
        "memory_peak_mib=excluded.memory_peak_mib, "
        "gpu_memory_peak_mib=excluded.gpu_memory_peak_mib, idle_s=excluded.idle_s, "
        "report_ok=excluded.report_ok, report=excluded.report, said_at=excluded.said_at, "
        "idle_cards=excluded.idle_cards, cards_ok=excluded.cards_ok",
        "tiitiiiiitiii", f->lease.s, (int64_t)f->step, (int64_t)f->step_count, f->detail,
        f->disk_used_mib, f->memory_peak_mib, f->gpu_memory_peak_mib, f->idle_s,
        (int64_t)f->report_ok, f->report, f->said_at, (int64_t)f->idle_cards, (int64_t)f->cards_ok);
}

void store_fact_fini(struct lease_fact *f)
{
    free(f->report);
    f->report = NULL;
}

enum err store_gap_save(struct store *s, const struct lease_gap *g)
{
    return row_save(s, &gap_row, g);
}

enum err store_gap_list(struct store *s, struct id lease, struct lease_gap_list *ret_l)
{
    struct kept_list kept;

    TRY(row_kept(s, &gap_row, &kept, "WHERE lease=? ORDER BY from_ms", "t", lease.s));
    row_kept_copy(&gap_row, &kept, ret_l);
    return ERR_OK;
}

enum err store_log_end(struct store *s, struct id lease, int64_t *ret_end)
{
    struct sql q = sql_open(s,
                            "SELECT from_byte + length(data) FROM log_chunk WHERE lease=? "
                            "ORDER BY from_byte DESC LIMIT 1",
                            "t", lease.s);

    *ret_end = sql_next(&q) ? sql_i64(&q, 0) : 0;
    return sql_close(&q);
}

enum err store_log_add(struct store *s, struct id lease, int64_t from, const void *data, size_t n)
{
    int64_t have = 0;

    TRY(store_log_end(s, lease, &have));
    if (from < have) { /* repeated: only what is new */
        if (have - from >= (int64_t)n)
            return ERR_OK;
        data = (const char *)data + (have - from);
        n -= (size_t)(have - from);
        from = have;
    }
    if (!n)
        return ERR_OK;
    TRY(sql_run(s, "INSERT INTO log_chunk(lease, from_byte, data) VALUES(?,?,?)", "tib", lease.s,
                from, data, n));
    return sql_run(s, "DELETE FROM log_chunk WHERE lease=? AND from_byte + length(data) <= ?", "ti",
                   lease.s, from + (int64_t)n - LOG_KEEP);
}

enum err store_log_remove(struct store *s, struct id instance)
{
    return sql_run(s,
                   "DELETE FROM log_chunk WHERE lease IN (SELECT id FROM lease WHERE instance=?)",
                   "t", instance.s);
}

enum err store_log_read(struct store *s, struct id lease, int64_t from, struct strbuf *out,
                        int64_t *ret_from)
{
    struct sql q = sql_open(s,
                            "SELECT from_byte, data FROM log_chunk WHERE lease=? AND from_byte + "
                            "length(data) > ? ORDER BY from_byte",
                            "ti", lease.s, from);
    bool first = true;

    *ret_from = from;
    while (sql_next(&q)) {
        int64_t at = sql_i64(&q, 0);
        size_t n, skip = 0;
        const char *p = sql_blob(&q, 1, &n);

        if (first) {
            *ret_from = MAX(at, from);
            skip = at < from ? (size_t)(from - at) : 0;
            first = false;
        }
        if (p && n > skip)
            strbuf_add_n(out, p + skip, n - skip);
    }
    return sql_close(&q);
}
