#include "store/sql.h"

_Static_assert(DISK_LIFE_ERASED == 3 && DISK_DATA == 1, "the numbers in the queries");

static const struct col disk_cols[] = {
    TEXT_COL(struct disk, id),
    TEXT_COL(struct disk, project),
    REF_COL(struct disk, node),
    REF_COL(struct disk, instance),
    TEXT_COL(struct disk, name),
    INT_COL(struct disk, kind),
    INT_COL(struct disk, life),
    BIGINT_COL(struct disk, size_mib),
    BIGINT_COL(struct disk, used_mib),
    TEXT_COL(struct disk, mount),
    BIGINT_COL(struct disk, created_at),
    BIGINT_COL(struct disk, ready_at),
    BIGINT_COL(struct disk, kept_until),
    TEXT_COL(struct disk, erased_method),
    BIGINT_COL(struct disk, erased_bytes),
    BIGINT_COL(struct disk, erase_ms),
};
ROW_TYPE(disk_row, "disk", struct disk, disk_cols, 1);
static const struct row_finder disk_finder = {
    "WHERE project=?1 AND kind=1 AND name=?2 ORDER BY life, created_at DESC LIMIT 1",
    "WHERE project=?1 AND id>=?2 AND id<?3 LIMIT 2", "disk", "disk ls"};

static const struct col image_cols[] = {
    TEXT_COL(struct image, name),        TEXT_COL(struct image, digest),
    TEXT_COL(struct image, source),      BIGINT_COL(struct image, bytes),
    TEXT_COL(struct image, need_driver), TEXT_COL(struct image, need_cuda),
    BOOL_COL(struct image, is_default),  BIGINT_COL(struct image, created_at),
};
ROW_TYPE(image_row, "image", struct image, image_cols, 1);

static const struct col node_image_cols[] = {
    TEXT_COL(struct node_image, node),  TEXT_COL(struct node_image, digest),
    TEXT_COL(struct node_image, state), BIGINT_COL(struct node_image, bytes),
    TEXT_COL(struct node_image, error),
};
ROW_TYPE(node_image_row, "node_image", struct node_image, node_image_cols, 2);

enum err store_disk_get(struct store *s, struct id project, struct id id, struct disk *ret_d)
{
    return row_get(s, &disk_row, ret_d, "WHERE project=? AND id=?", "tt", project.s, id.s);
}

enum err store_disk_get_any(struct store *s, struct id id, struct disk *ret_d)
{
    return row_get(s, &disk_row, ret_d, "WHERE id=?", "t", id.s);
}

enum err store_disk_lookup(struct store *s, struct id project, const char *text, struct disk *ret_d,
                           struct refusal *why)
{
    return row_lookup(s, &disk_row, ret_d, &disk_finder, project, text, why);
}

enum err store_disk_save(struct store *s, const struct disk *d)
{
    return row_save(s, &disk_row, d);
}

enum err store_disk_list(struct store *s, struct id project, bool all, struct disk_list *ret_l)
{
    if (all)
        return row_list(s, &disk_row, ret_l, "WHERE project=? ORDER BY kind DESC, name, id", "t",
                        project.s);
    return row_list(s, &disk_row, ret_l, "WHERE project=? AND life<>3 ORDER BY kind DESC, name, id",
                    "t", project.s);
}

enum err store_disk_list_node(struct store *s, struct id node, struct disk_list *ret_l)
{
    return row_list(s, &disk_row, ret_l, "WHERE node=? AND life<>3 ORDER BY id", "t", node.s);
}

enum err store_disk_list_instance(struct store *s, struct id instance, struct disk_list *ret_l)
{
    return row_list(s, &disk_row, ret_l, "WHERE instance=? ORDER BY kind, created_at, id", "t",
                    instance.s);
}

enum err store_disk_list_any(struct store *s, struct disk_list *ret_l)
{
    return row_list(s, &disk_row, ret_l, "ORDER BY id", "");
}

enum err store_image_get(struct store *s, const char *name_or_digest, struct image *ret_i)
{
    return row_get(s, &image_row, ret_i, "WHERE name=?1 OR digest=?1 ORDER BY name<>?1 LIMIT 1",
                   "t", name_or_digest);
}

enum err store_image_default(struct store *s, struct image *ret_i)
{
    return row_get(s, &image_row, ret_i, "WHERE is_default LIMIT 1", "");
}

enum err store_image_save(struct store *s, const struct image *i)
{
    if (i->is_default)
        TRY(sql_run(s, "UPDATE image SET is_default=0 WHERE name<>?", "t", i->name));
    return row_save(s, &image_row, i);
}

enum err store_image_needs_set(struct store *s, const char *digest, const char *driver,
                               const char *cuda)
{
    return sql_run(s,
                   "UPDATE image SET need_driver=?2, need_cuda=?3 "
                   "WHERE digest=?1 AND (need_driver<>?2 OR need_cuda<>?3)",
                   "ttt", digest, driver, cuda);
}

enum err store_image_remove(struct store *s, const char *name)
{
    TRY(sql_run(s, "DELETE FROM image WHERE name=?", "t", name));
    return sql_changes(s) ? ERR_OK : ERR_NOT_FOUND;
}

enum err store_image_list(struct store *s, struct image_list *ret_l)
{
    return row_list(s, &image_row, ret_l, "ORDER BY name", "");
}

enum err store_node_image_save(struct store *s, const struct node_image *i)
{
    return row_save(s, &node_image_row, i);
}

enum err store_node_image_list(struct store *s, const char *digest, struct node_image_list *ret_l)
{
    return row_list(s, &node_image_row, ret_l, "WHERE digest=? ORDER BY node", "t", digest);
}
