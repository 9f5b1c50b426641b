#include "dump.h"

#include <sqlite3.h>
#include <stdio.h>

#include "base/str.h"
#include "base/vec.h"

#define DUMP_MAX ((size_t)64 << 20)

static void add_value(struct strbuf *b, sqlite3_stmt *st, int i)
{
    static const char digits[] = "0123456789abcdef";
    bool hex = sqlite3_column_type(st, i) == SQLITE_BLOB;
    const char *text = hex ? NULL : (const char *)sqlite3_column_text(st, i);
    const unsigned char *p = hex ? sqlite3_column_blob(st, i) : NULL;

    strbuf_add(b, "|");
    strbuf_add(b, sqlite3_column_name(st, i));
    strbuf_add(b, "=");
    if (!hex)
        strbuf_add(b, text ? text : "NULL");
    for (int k = 0; hex && k < sqlite3_column_bytes(st, i); k++)
        strbuf_add_n(b, (const char[]){digits[p[k] >> 4], digits[p[k] & 15]}, 2);
}

struct dumped {
    char *name;       /* owned; of the table */
    sqlite3_stmt *st; /* owned */
};
struct dumper {
    sqlite3 *db; /* owned */
    VEC(struct dumped) tables;
};

static sqlite3_stmt *prepared(sqlite3 *db, const char *text)
{
    sqlite3_stmt *st = NULL;

    CHECK(sqlite3_prepare_v2(db, text, -1, &st, NULL) == SQLITE_OK);
    return st;
}

struct dumper *dumper_open(const char *file)
{
    struct dumper *d = mem_alloc(sizeof(*d));

    CHECK(sqlite3_open_v2(file, &d->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) ==
          SQLITE_OK);
    CHECK(sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) == SQLITE_OK);
    sqlite3_stmt *names =
        prepared(d->db, "SELECT name FROM sqlite_schema WHERE type='table' ORDER BY name");
    while (sqlite3_step(names) == SQLITE_ROW) {
        struct dumped *t = vec_push(&d->tables);
        char text[200];

        t->name = mem_strdup((const char *)sqlite3_column_text(names, 0));
        CHECK(str_printf(text, sizeof(text), "SELECT * FROM \"%s\"", t->name));
        t->st = prepared(d->db, text);
    }
    sqlite3_finalize(names);
    CHECK(d->tables.len > 0);
    return d;
}

void dumper_close(struct dumper *d)
{
    VEC_FOREACH (t, &d->tables) {
        free(t->name);
        sqlite3_finalize(t->st);
    }
    vec_fini(&d->tables);
    CHECK(sqlite3_close(d->db) == SQLITE_OK);
    free(d);
}

char *dumper_text(struct dumper *d)
{
    struct strbuf b;

    strbuf_init(&b, DUMP_MAX);
    VEC_FOREACH (t, &d->tables) {
        int rc;

        while ((rc = sqlite3_step(t->st)) == SQLITE_ROW) {
            strbuf_add(&b, t->name);
            for (int i = 0; i < sqlite3_column_count(t->st); i++)
                add_value(&b, t->st, i);
            strbuf_add(&b, "\n");
        }
        CHECK(rc == SQLITE_DONE);
        (void)sqlite3_reset(t->st);
    }
    CHECK(!b.overflow && b.len);
    return strbuf_take(&b);
}

char *dump_store(const char *file)
{
    struct dumper *d = dumper_open(file);
    char *text = dumper_text(d);

    dumper_close(d);
    return text;
}

static const char *line_end(const char *at)
{
    const char *end = strchr(at, '\n');

    CHECK(end);
    return end + 1;
}

static bool is_trace(const char *line)
{
    static const char *const traces[] = {"audit|", "sqlite_sequence|name=audit|", "meta|key=clock.",
                                         "meta|key=tick.slow_ms|"};

    for (size_t i = 0; i < ARRAY_LEN(traces); i++)
        if (str_starts(line, traces[i]))
            return true;
    return false;
}

/* Columns that say when something was last said, of the tables of nodes and their leases. */
static void add_untimed(struct strbuf *b, const char *line, size_t n)
{
    static const char *const columns[] = {"|said_at=", "|seen_at="};
    bool skip = false;

    for (size_t i = 0; i < n; i++) {
        skip &= line[i] != '|' && line[i] != '\n';
        for (size_t k = 0; line[i] == '|' && k < ARRAY_LEN(columns); k++)
            skip |= str_starts(line + i, columns[k]);
        if (!skip)
            strbuf_add_n(b, line + i, 1);
    }
}

char *dump_effects(const char *dump)
{
    struct strbuf b;

    strbuf_init(&b, DUMP_MAX);
    for (const char *at = dump, *end; *at; at = end) {
        end = line_end(at);
        if (str_starts(at, "lease_fact|") || str_starts(at, "node|"))
            add_untimed(&b, at, (size_t)(end - at));
        else if (!is_trace(at))
            strbuf_add_n(&b, at, (size_t)(end - at));
    }
    CHECK(!b.overflow && b.len);
    return strbuf_take(&b);
}

bool dump_differs(const char *a, const char *b, char *text, size_t size)
{
    while (*a && *b) {
        size_t n = (size_t)(line_end(a) - a), m = (size_t)(line_end(b) - b);

        if (n != m || memcmp(a, b, n) != 0)
            break;
        a += n;
        b += m;
    }
    if (!*a && !*b)
        return false;
    (void)snprintf(text, size, "%.*s\n  is not\n  %.*s",
                   *a ? (int)MIN(line_end(a) - a - 1, 400) : 0, a,
                   *b ? (int)MIN(line_end(b) - b - 1, 400) : 0, b);
    return true;
}
