#include "store/size_rows.h"

#include "store/sql.h"

static const struct col run_cols[] = {
    TEXT_COL(struct size_run, project),    TEXT_COL(struct size_run, instance),
    TEXT_COL(struct size_run, family),     TEXT_COL(struct size_run, framework),
    TEXT_COL(struct size_run, task),       BIGINT_COL(struct size_run, estimate),
    BIGINT_COL(struct size_run, measured), BIGINT_COL(struct size_run, at),
};
ROW_TYPE(run_row, "size_run", struct size_run, run_cols, 2);

enum err store_size_run_save(struct store *s, const struct size_run *r)
{
    return row_save(s, &run_row, r);
}

enum err store_size_run_list(struct store *s, struct id project, struct size_run_list *ret_l)
{
    return row_list(s, &run_row, ret_l, "WHERE project=? ORDER BY at DESC, instance LIMIT 1000",
                    "t", project.s);
}

enum err store_gpu_memory_peak(struct store *s, struct id project, struct id instance,
                               int64_t *ret_mib)
{
    struct sql q = sql_open(s,
                            "SELECT coalesce(max(u.gpu_memory_mib / l.qty_per_s), 0) "
                            "FROM fund_lease l JOIN usage_slice u ON u.lease=l.lease "
                            "WHERE l.instance=? AND l.project=? AND l.meter=? AND l.qty_per_s>0",
                            "tti", instance.s, project.s, (int64_t)METER_GPU);

    *ret_mib = 0;
    if (sql_next(&q))
        *ret_mib = sql_i64(&q, 0);
    return sql_close(&q);
}
