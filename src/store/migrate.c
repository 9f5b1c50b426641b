#include "store/migrate.h"

#include "store/sql.h"

static enum err migration_known(struct store *s, const struct migration *m, bool *ret_applied,
                                struct refusal *why)
{
    struct sql q =
        sql_open(s, "SELECT checksum FROM migration WHERE number=?", "i", (int64_t)m->number);
    bool same = true;

    *ret_applied = sql_next(&q);
    if (*ret_applied)
        same = str_eq(sql_text(&q, 0), m->checksum);
    if (sql_close(&q) != ERR_OK)
        return store_refuse(s, why);
    if (!same) {
        (void)refusef(why, ERR_CORRUPT, "what", "%s", m->name);
        refusal_set(why, "why", "it was changed after it had been applied");
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

static enum err migration_apply(struct store *s, const struct migration *m)
{
    TRY(store_begin(s));
    TRY(sql_script(s, m->sql));
    TRY(sql_run(s, "INSERT INTO migration(number, name, checksum) VALUES(?,?,?)", "itt",
                (int64_t)m->number, m->name, m->checksum));
    return store_commit(s);
}

enum err store_migrate(struct store *s, struct refusal *why)
{
    int64_t newest = 0;
    struct sql q;

    if (sql_script(s, "CREATE TABLE IF NOT EXISTS migration(number INTEGER PRIMARY KEY, "
                      "name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT") != ERR_OK)
        return store_refuse(s, why);
    q = sql_open(s, "SELECT coalesce(max(number), 0) FROM migration", "");
    if (sql_next(&q))
        newest = sql_i64(&q, 0);
    if (sql_close(&q) != ERR_OK)
        return store_refuse(s, why);
    if (newest > (int64_t)migration_count) {
        (void)refusef(why, ERR_CORRUPT, "what", "%s", "The store");
        refusal_setf(why, "why", "it is of a newer version (%" PRId64 ")", newest);
        return ERR_CORRUPT;
    }
    for (size_t i = 0; i < migration_count; i++) {
        bool applied = false;

        TRY(migration_known(s, &migrations[i], &applied, why));
        if (applied)
            continue;
        if (migration_apply(s, &migrations[i]) != ERR_OK) {
            store_rollback(s);
            return store_refuse(s, why);
        }
    }
    return ERR_OK;
}
