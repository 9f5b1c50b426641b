#include "store/rows_queue.h"

#include "base/vec.h"
#include "store/sql.h"

static const struct col terms_cols[] = {
    TEXT_COL(struct queue_terms, project),
    BIGINT_COL(struct queue_terms, share),
    BIGINT_COL(struct queue_terms, cards_max),
    INT_COL(struct queue_terms, priority),
};
ROW_TYPE(terms_row, "queue_project", struct queue_terms, terms_cols, 1);

static const struct col told_cols[] = {
    TEXT_COL(struct queue_told, instance),  BIGINT_COL(struct queue_told, place),
    BIGINT_COL(struct queue_told, waiting), BIGINT_COL(struct queue_told, early),
    BIGINT_COL(struct queue_told, likely),  BIGINT_COL(struct queue_told, late),
    TEXT_COL(struct queue_told, node),
};
ROW_TYPE(told_row, "queue_wait", struct queue_told, told_cols, 1);

enum err store_queue_terms_save(struct store *s, const struct queue_terms *t)
{
    return row_save(s, &terms_row, t);
}

enum err store_queue_terms_list(struct store *s, struct queue_terms_list *ret_l)
{
    return row_list(s, &terms_row, ret_l, "ORDER BY project", "");
}

enum err store_queue_told_get(struct store *s, struct id instance, struct queue_told *ret_t)
{
    return row_get(s, &told_row, ret_t, "WHERE instance=?", "t", instance.s);
}

enum err store_queue_told_save(struct store *s, const struct queue_told *t)
{
    return row_save(s, &told_row, t);
}

enum err store_queue_told_prune(struct store *s)
{
    return sql_run(s,
                   "DELETE FROM queue_wait WHERE instance NOT IN "
                   "(SELECT id FROM instance WHERE state=?)",
                   "i", (int64_t)INSTANCE_QUEUED);
}

static enum err leases(struct sql q, struct queue_lease_list *ret_l)
{
    while (sql_next(&q)) {
        struct queue_lease l = {.granted_at = sql_i64(&q, 2),
                                .stop_at = sql_i64(&q, 3),
                                .ended_at = sql_i64(&q, 4),
                                .ends_at = sql_i64(&q, 5)};

        (void)str_copy(l.lease.s, sizeof(l.lease.s), sql_text(&q, 0));
        (void)str_copy(l.project.s, sizeof(l.project.s), sql_text(&q, 1));
        *vec_push(ret_l) = l;
    }
    return sql_close(&q);
}

enum err store_queue_lease_list(struct store *s, struct queue_lease_list *ret_l)
{
    return leases(sql_open(s,
                           "SELECT l.id, i.project, l.granted_at, l.stop_at, l.ended_at, l.ends_at "
                           "FROM lease l JOIN instance i ON i.id=l.instance "
                           "WHERE l.state<>? ORDER BY l.id",
                           "i", (int64_t)LEASE_CLOSED),
                  ret_l);
}

enum err store_queue_lease_ended(struct store *s, int64_t limit, struct queue_lease_list *ret_l)
{
    return leases(sql_open(s,
                           "SELECT l.id, i.project, l.granted_at, l.stop_at, l.ended_at, l.ends_at "
                           "FROM lease l JOIN instance i ON i.id=l.instance "
                           "WHERE l.ended_at>0 AND l.ends_at<? ORDER BY l.ended_at DESC LIMIT ?",
                           "ii", UTIME_NEVER, limit),
                  ret_l);
}
