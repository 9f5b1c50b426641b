#include "store/sql.h"

static enum err damaged(struct refusal *why, const char *text)
{
    (void)refusef(why, ERR_CORRUPT, "what", "store");
    refusal_set(why, "why", text);
    return ERR_CORRUPT;
}

enum err store_integrity(struct store *s, struct refusal *why)
{
    char text[REFUSAL_VALUE_MAX] = "";
    struct sql q = sql_open(s, "PRAGMA integrity_check(1)", "");

    if (sql_next(&q))
        (void)str_printf(text, sizeof(text), "%.180s", sql_text(&q, 0));
    if (sql_close(&q) != ERR_OK || !str_eq(text, "ok"))
        return damaged(why, text[0] ? text : "it is not a store of this program");
    q = sql_open(s, "PRAGMA foreign_key_check", "");
    bool dangling = sql_next(&q);
    if (dangling)
        (void)str_printf(text, sizeof(text), "a row of %.100s refers to nothing", sql_text(&q, 0));
    if (sql_close(&q) != ERR_OK || dangling)
        return damaged(why, text);
    q = sql_open(s, "SELECT count(*) FROM sqlite_master WHERE name IN ('meta','user','lease')", "");
    bool ours = sql_next(&q) && sql_i64(&q, 0) == 3;
    if (sql_close(&q) != ERR_OK || !ours)
        return damaged(why, "it is not a store of this program");
    return ERR_OK;
}
