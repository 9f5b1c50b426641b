#include "store/rows_package.h"

#include "store/sql.h"

static const struct col package_cols[] = {
    TEXT_COL(struct package_row, id),
    TEXT_COL(struct package_row, project),
    TEXT_COL(struct package_row, sku),
    BIGINT_COL(struct package_row, seconds),
    TEXT_COL(struct package_row, price),
    TEXT_COL(struct package_row, offer),
    BIGINT_COL(struct package_row, start_s),
    BIGINT_COL(struct package_row, expires_s),
    BIGINT_COL(struct package_row, paid_u),
    BIGINT_COL(struct package_row, recognised_u),
    BIGINT_COL(struct package_row, recognised_s),
    BIGINT_COL(struct package_row, lapsed_u),
    BIGINT_COL(struct package_row, lapsed),
    BIGINT_COL(struct package_row, done_at),
};
ROW_TYPE(package_type, "package", struct package_row, package_cols, 1);

static const struct col part_cols[] = {
    TEXT_COL(struct package_part, transfer),  TEXT_COL(struct package_part, lease),
    BIGINT_COL(struct package_part, n),       TEXT_COL(struct package_part, package),
    TEXT_COL(struct package_part, price),     BIGINT_COL(struct package_part, from_s),
    BIGINT_COL(struct package_part, until_s), BIGINT_COL(struct package_part, amount),
    BIGINT_COL(struct package_part, used),
};
ROW_TYPE(part_type, "package_part", struct package_part, part_cols, 1);

enum err package_row_save(struct store *s, const struct package_row *p)
{
    return row_save(s, &package_type, p);
}

enum err package_row_get(struct store *s, struct id id, struct package_row *ret_p)
{
    return row_get(s, &package_type, ret_p, "WHERE id=?", "t", id.s);
}

enum err package_row_open(struct store *s, struct id project, struct package_list *ret_l)
{
    return row_list(s, &package_type, ret_l, "WHERE project=? AND done_at=0 ORDER BY id", "t",
                    project.s);
}

enum err package_row_open_all(struct store *s, struct package_list *ret_l)
{
    return row_list(s, &package_type, ret_l, "WHERE done_at=0 ORDER BY project, id", "");
}

enum err package_row_list(struct store *s, struct id project, struct package_list *ret_l)
{
    return row_list(s, &package_type, ret_l, "WHERE project=? ORDER BY id", "t", project.s);
}

enum err package_part_save(struct store *s, const struct package_part *p)
{
    return row_save(s, &part_type, p);
}

enum err package_part_of(struct store *s, struct id lease, struct package_part_list *ret_l)
{
    struct kept_list kept;

    TRY(row_kept(s, &part_type, &kept, "WHERE lease=? ORDER BY n", "t", lease.s));
    row_kept_copy(&part_type, &kept, ret_l);
    return ERR_OK;
}

enum err package_part_clear(struct store *s, struct id lease)
{
    return sql_run(s, "DELETE FROM package_part WHERE lease=?", "t", lease.s);
}

enum err package_part_used(struct store *s, struct id package, int64_t *ret_qty)
{
    struct sql q = sql_open(s, "SELECT coalesce(sum(used),0) FROM package_part WHERE package=?",
                            "t", package.s);

    *ret_qty = sql_next(&q) ? sql_i64(&q, 0) : 0;
    return sql_close(&q);
}
