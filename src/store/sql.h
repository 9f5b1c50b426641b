/* sql.h: inside src/store only. Statements prepared once per connection and found again by the
 * address of their text; rows described by tables of columns, so that a struct and its row cannot
 * drift apart. Errors are kept in the store (store_refuse). */
#pragma once

#include <sqlite3.h>

#include "store/store.h"

struct sql {
    struct store *store;
    sqlite3_stmt *st;
    enum err err;             /* of binding and stepping */
    struct table_set *tables; /* of the statement: what it writes */
};

/* What leases were rated on a day and is not in scope_day yet: it is written before a statement
 * that touches that table, at each savepoint and at the commit; a rollback drops it. */
struct day_sum {
    struct id project;
    int64_t scope, from_s, u;
    char scope_of[TEXT_SIZE];
};
struct day_sums {
    struct day_sum *at;
    size_t len, cap;
};
struct day_sums *sql_sums(struct store *s);
bool sql_in_transaction(const struct store *s); /* of store_begin */
enum err money_scope_day_flush(struct store *s);

/* text must be static: its address is the key of the cache. Values by fmt: t (const char *, ""
 * stays ""), i (int64_t), b (const void *, size_t). */
struct sql sql_open(struct store *s, const char *text, const char *fmt, ...);
bool sql_next(struct sql *q); /* true: a row is there */
int64_t sql_i64(struct sql *q, int col);
const char *sql_text(struct sql *q, int col); /* "" for NULL; valid until the next step */
const void *sql_blob(struct sql *q, int col, size_t *ret_n);
enum err sql_close(struct sql *q); /* always; resets the statement and tells what went wrong */
/* One number of the first row, and closed; ret_v stays as it is when there is none. */
enum err sql_one_i64(struct sql q, int64_t *ret_v);
/* open, one step, close. */
enum err sql_run(struct store *s, const char *text, const char *fmt, ...);
int64_t sql_changes(struct store *s);
int64_t sql_last_id(struct store *s);
enum err sql_script(struct store *s, const char *text); /* several statements, no rows */

enum col_kind { COL_TEXT, COL_REF, COL_INT, COL_BIGINT, COL_BOOL, COL_U16, COL_REFUSAL };
struct col {
    const char *name;
    enum col_kind kind;
    size_t offset, size;
};
#define TEXT_COL(type, field)                                                                      \
    {                                                                                              \
#field, COL_TEXT, offsetof(type, field), sizeof(((type *)0)->field)                        \
    }
/* text whose empty value is NULL: a reference that may be absent */
#define REF_COL(type, field)                                                                       \
    {                                                                                              \
#field, COL_REF, offsetof(type, field), sizeof(((type *)0)->field)                         \
    }
/* enums and int32_t */
#define INT_COL(type, field)                                                                       \
    {                                                                                              \
#field, COL_INT, offsetof(type, field), sizeof(((type *)0)->field)                         \
    }
#define BIGINT_COL(type, field)                                                                    \
    {                                                                                              \
#field, COL_BIGINT, offsetof(type, field), sizeof(((type *)0)->field)                      \
    }
#define BOOL_COL(type, field)                                                                      \
    {                                                                                              \
#field, COL_BOOL, offsetof(type, field), sizeof(((type *)0)->field)                        \
    }
#define U16_COL(type, field)                                                                       \
    {                                                                                              \
#field, COL_U16, offsetof(type, field), sizeof(((type *)0)->field)                         \
    }
/* a column whose name is not the field's path */
#define COL_AS(column, k, type, field)                                                             \
    {                                                                                              \
        column, k, offsetof(type, field), sizeof(((type *)0)->field)                               \
    }

struct row_type {
    const char *table;
    const struct col *cols;
    size_t col_count;
    size_t size;      /* of the struct */
    size_t key_count; /* the first columns are the primary key */
};
#define ROW_TYPE(name, table_name, type, columns, keys)                                            \
    static const struct row_type name = {table_name, columns, ARRAY_LEN(columns), sizeof(type),    \
                                         keys}

/* Insert, or replace the row with the same key. */
enum err row_save(struct store *s, const struct row_type *t, const void *row);
/* tail: static text after "SELECT columns FROM table ", such as "WHERE id=?". ERR_NOT_FOUND. */
enum err row_get(struct store *s, const struct row_type *t, void *ret_row, const char *tail,
                 const char *fmt, ...);
/* Appends all rows. list: a struct of at, len, cap of the row's type. */
enum err row_list(struct store *s, const struct row_type *t, void *list, const char *tail,
                  const char *fmt, ...);
/* All rows as row_list, from memory while nothing wrote to the table (kept.h): the tail reads no
 * other one. fmt: t only. Valid until the next row_kept or write. */
struct kept_list {
    const void *at;
    size_t len;
};
enum err row_kept(struct store *s, const struct row_type *t, struct kept_list *ret_l,
                  const char *tail, const char *fmt, ...);
/* Appends them to a list, as row_list does. */
void row_kept_copy(const struct row_type *t, const struct kept_list *from, void *list);
/* Gives each row in turn; row: scratch of one. Ends at the first error of fn, which may run other
 * statements but not this one again. */
typedef enum err row_fn(void *user, void *row);
enum err row_each(struct store *s, const struct row_type *t, void *row, row_fn *fn, void *user,
                  const char *tail, const char *fmt, ...);
/* Name, id or unambiguous start (4 letters at least) of an id. All texts static; both tails take
 * the scope first ("project=?1", or "?1=?1" when there is none); by_name then the name, by_id the
 * first and the last id and at most two rows. */
struct row_finder {
    const char *by_name, *by_id;
    const char *what, *verb; /* for the refusal */
};
enum err row_lookup(struct store *s, const struct row_type *t, void *ret_row,
                    const struct row_finder *f, struct id scope, const char *text,
                    struct refusal *why);
