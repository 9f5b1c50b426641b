#include "store/sql.h"

#include <pthread.h>
#include <stdlib.h>

#include "store/kept.h"

#define LOG_PAGES 8192
#define CACHE_SIZE 1024 /* slots; far more than there are statements in the program */

struct cached {
    const void *type; /* row type, or NULL */
    const void *text;
    sqlite3_stmt *st; /* owned */
    struct table_set tables;
};

struct store {
    sqlite3 *db; /* owned */
    enum store_mode mode;
    bool broken;
    bool in_transaction;
    int fail_commit;
    char why[REFUSAL_VALUE_MAX];
    int64_t data_version; /* moves when another connection has written */
    struct kept kept;
    struct day_sums sums;
    struct cached cache[CACHE_SIZE];
};

/* Errors after which nothing that this connection wrote can be trusted to reach the disk. */
static bool error_breaks(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
        return true;
    }
    return false;
}

static enum err store_failed(struct store *s, int rc, const char *what)
{
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, sizeof(s->why) - 1);
    strbuf_addf(&b, "%s: %s (%d)", sqlite3_errmsg(s->db), sqlite3_errstr(rc), rc);
    if (what)
        strbuf_addf(&b, " in %.80s", what);
    if (!str_copy(s->why, sizeof(s->why), strbuf_str(&b)))
        (void)str_copy(s->why, sizeof(s->why), sqlite3_errstr(rc));
    if (s->mode == STORE_WRITE && error_breaks(rc))
        s->broken = true;
    return ERR_STORE;
}

enum err store_refuse(struct store *s, struct refusal *why)
{
    return refusef(why, ERR_STORE, "why", "%s", s->why[0] ? s->why : "unknown");
}

bool store_is_broken(const struct store *s)
{
    return s->broken;
}

enum err sql_script(struct store *s, const char *text)
{
    int rc = sqlite3_exec(s->db, text, NULL, NULL, NULL);

    kept_forget(&s->kept);
    return rc == SQLITE_OK ? ERR_OK : store_failed(s, rc, text);
}

/* Nobody asks how much memory all connections use; to count it takes a lock each time. */
static void sqlite_once(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

enum err store_log_max(struct store *s, int pages)
{
    int rc = sqlite3_wal_autocheckpoint(s->db, pages);

    return rc == SQLITE_OK ? ERR_OK : store_failed(s, rc, NULL);
}

static enum err store_setup(struct store *s)
{
    int rc;

    kept_init(&s->kept);
    (void)sqlite3_set_authorizer(s->db, kept_authorize, &s->kept);
    sqlite3_extended_result_codes(s->db, 1);
    sqlite3_busy_timeout(s->db, 5000);
    if (s->mode == STORE_READ) {
        rc = sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        if (rc != SQLITE_OK)
            return store_failed(s, rc, NULL);
        return sql_script(s, "PRAGMA query_only=ON");
    }
    TRY(sql_script(s, "PRAGMA journal_mode=WAL"));
    TRY(sql_script(s, "PRAGMA synchronous=FULL"));
    TRY(store_log_max(s, LOG_PAGES));
    TRY(sql_script(s, "PRAGMA cache_size=-65536"));
    return sql_script(s, "PRAGMA foreign_keys=ON");
}

enum err store_open(const char *path, enum store_mode mode, struct store **ret_s,
                    struct refusal *why)
{
    struct store *s = mem_alloc(sizeof(*s));
    int flags =
        mode == STORE_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    enum err e;
    int rc;

    CHECK(pthread_once(&once, sqlite_once) == 0);
    rc = sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    s->mode = mode;
    e = rc == SQLITE_OK ? store_setup(s) : store_failed(s, rc, path);
    if (e != ERR_OK) {
        e = store_refuse(s, why);
        store_close(s);
        return e;
    }
    *ret_s = s;
    return ERR_OK;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < CACHE_SIZE; i++)
        sqlite3_finalize(s->cache[i].st);
    kept_fini(&s->kept);
    vec_fini(&s->sums);
    CHECK(sqlite3_close(s->db) == SQLITE_OK);
    free(s);
}

void store_close_ptr(struct store **s)
{
    store_close(*s);
    *s = NULL;
}

enum err store_backup(struct store *s, const char *path, int64_t *ret_bytes, struct refusal *why)
{
    /* The last commit, seen by a connection of its own: s may be inside a transaction that writes.
     */
    const char *file = sqlite3_db_filename(s->db, "main");
    sqlite3 *to = NULL, *from = NULL;
    sqlite3_backup *b = NULL;
    int rc = sqlite3_open_v2(path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    int64_t pages = 0;

    if (rc == SQLITE_OK && file && file[0])
        rc = sqlite3_open_v2(file, &from, SQLITE_OPEN_READONLY, NULL);
    if (rc == SQLITE_OK && from)
        rc = sqlite3_db_config(from, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (rc == SQLITE_OK)
        b = sqlite3_backup_init(to, "main", from ? from : s->db, "main");
    if (b) {
        rc = sqlite3_backup_step(b, -1);
        pages = sqlite3_backup_pagecount(b);
        (void)sqlite3_backup_finish(b);
    } else if (rc == SQLITE_OK) {
        rc = sqlite3_errcode(to);
    }
    sqlite3_close(from);
    if (rc != SQLITE_DONE) {
        enum err e = refusef(why, ERR_STORE, "why", "%s: %s", path, sqlite3_errstr(rc));

        sqlite3_close(to);
        return e;
    }
    sqlite3_close(to);
    *ret_bytes = pages * 4096;
    return ERR_OK;
}

/* transactions */

static enum err store_usable(struct store *s)
{
    return s->broken ? ERR_STORE : ERR_OK;
}

enum err store_begin(struct store *s)
{
    TRY(store_usable(s));
    CHECK(!s->in_transaction);
    int64_t version = 0;

    TRY(sql_run(s, s->mode == STORE_WRITE ? "BEGIN IMMEDIATE" : "BEGIN", ""));
    s->in_transaction = true;
    if (s->mode == STORE_WRITE)
        TRY(sql_one_i64(sql_open(s, "PRAGMA data_version", ""), &version));
    if (version != s->data_version)
        kept_forget(&s->kept);
    s->data_version = version;
    return ERR_OK;
}

enum err store_commit(struct store *s)
{
    CHECK(s->in_transaction);
    if (s->fail_commit && --s->fail_commit == 0) {
        s->broken = true;
        (void)str_copy(s->why, sizeof(s->why), "database or disk is full");
    }
    TRY(store_usable(s));
    TRY(money_scope_day_flush(s));
    TRY(sql_run(s, "COMMIT", ""));
    s->in_transaction = false;
    return ERR_OK;
}

void store_rollback(struct store *s)
{
    if (!s->in_transaction)
        return;
    s->in_transaction = false;
    s->sums.len = 0;
    kept_forget(&s->kept);
    /* A failed statement may have rolled back by itself. */
    if (!sqlite3_get_autocommit(s->db) && sql_script(s, "ROLLBACK") != ERR_OK)
        s->broken = true;
}

enum err store_mark(struct store *s)
{
    TRY(store_usable(s));
    TRY(money_scope_day_flush(s));
    return sql_run(s, "SAVEPOINT command", "");
}

enum err store_mark_keep(struct store *s)
{
    TRY(store_usable(s));
    return sql_run(s, "RELEASE command", "");
}

enum err store_mark_undo(struct store *s)
{
    s->sums.len = 0; /* what there was before the mark was written at the mark */
    kept_forget(&s->kept);
    TRY(sql_run(s, "ROLLBACK TO command", ""));
    return sql_run(s, "RELEASE command", "");
}

int64_t store_changes(struct store *s)
{
    return sqlite3_total_changes64(s->db);
}

void store_fail_commit(struct store *s, int n)
{
    s->fail_commit = n;
    if (!n)
        s->broken = false;
}

/* statements */

static struct cached *cache_slot(struct store *s, const void *type, const void *text)
{
    size_t at = (((uintptr_t)text >> 2) * 31 + ((uintptr_t)type >> 3)) % CACHE_SIZE;

    for (size_t i = 0; i < CACHE_SIZE; i++, at = (at + 1) % CACHE_SIZE) {
        struct cached *c = &s->cache[at];

        if (!c->text || (c->type == type && c->text == text))
            return c;
    }
    CHECK(!"statement cache full");
    return NULL;
}

static struct sql sql_prepare(struct store *s, struct cached *c, const void *type, const void *key,
                              const char *text)
{
    struct sql q = {.store = s};

    if (!c->st) {
        s->kept.target = &c->tables;
        int rc = sqlite3_prepare_v3(s->db, text, -1, SQLITE_PREPARE_PERSISTENT, &c->st, NULL);

        s->kept.target = NULL;
        if (rc != SQLITE_OK) {
            q.err = store_failed(s, rc, text);
            return q;
        }
        c->type = type;
        c->text = key;
    }
    CHECK(!sqlite3_stmt_busy(c->st));
    if (c->tables.sums && s->sums.len)
        q.err = money_scope_day_flush(s);
    q.st = c->st;
    q.tables = &c->tables;
    return q;
}

/* life: SQLITE_STATIC when the values stay until the statement is closed. */
static void sql_bind(struct sql *q, sqlite3_destructor_type life, const char *fmt, va_list ap)
{
    int rc = SQLITE_OK, at = 1;

    if (q->err != ERR_OK)
        return;
    CHECK(sqlite3_bind_parameter_count(q->st) == (int)strlen(fmt));
    for (; *fmt && rc == SQLITE_OK; fmt++, at++) {
        if (*fmt == 't') {
            rc = sqlite3_bind_text(q->st, at, va_arg(ap, const char *), -1, life);
        } else if (*fmt == 'i') {
            rc = sqlite3_bind_int64(q->st, at, va_arg(ap, int64_t));
        } else {
            const void *p = va_arg(ap, const void *);

            CHECK(*fmt == 'b');
            rc = sqlite3_bind_blob64(q->st, at, p, va_arg(ap, size_t), life);
        }
    }
    if (rc != SQLITE_OK)
        q->err = store_failed(q->store, rc, NULL);
}

struct sql sql_open(struct store *s, const char *text, const char *fmt, ...)
{
    struct sql q = sql_prepare(s, cache_slot(s, NULL, text), NULL, text, text);
    va_list ap;

    va_start(ap, fmt);
    sql_bind(&q, SQLITE_TRANSIENT, fmt, ap);
    va_end(ap);
    return q;
}

bool sql_next(struct sql *q)
{
    int rc;

    if (q->err != ERR_OK)
        return false;
    if (q->store->broken && !sqlite3_stmt_readonly(q->st)) {
        q->err = ERR_STORE;
        return false;
    }
    q->store->kept.target = q->tables; /* when the schema is new, it is prepared again */
    rc = sqlite3_step(q->st);
    q->store->kept.target = NULL;
    kept_written(&q->store->kept, q->tables);
    if (rc == SQLITE_ROW)
        return true;
    if (rc != SQLITE_DONE)
        q->err = store_failed(q->store, rc, sqlite3_sql(q->st));
    return false;
}

int64_t sql_i64(struct sql *q, int col)
{
    return sqlite3_column_int64(q->st, col);
}

const char *sql_text(struct sql *q, int col)
{
    const unsigned char *t = sqlite3_column_text(q->st, col);

    return t ? (const char *)t : "";
}

const void *sql_blob(struct sql *q, int col, size_t *ret_n)
{
    const void *p = sqlite3_column_blob(q->st, col);

    *ret_n = p ? (size_t)sqlite3_column_bytes(q->st, col) : 0;
    return p;
}

enum err sql_close(struct sql *q)
{
    if (q->st) {
        (void)sqlite3_reset(q->st);
        (void)sqlite3_clear_bindings(q->st);
    }
    return q->err;
}

enum err sql_one_i64(struct sql q, int64_t *ret_v)
{
    if (sql_next(&q))
        *ret_v = sql_i64(&q, 0);
    return sql_close(&q);
}

enum err sql_run(struct store *s, const char *text, const char *fmt, ...)
{
    struct sql q = sql_prepare(s, cache_slot(s, NULL, text), NULL, text, text);
    va_list ap;

    va_start(ap, fmt);
    sql_bind(&q, SQLITE_STATIC, fmt, ap);
    va_end(ap);
    (void)sql_next(&q);
    return sql_close(&q);
}

bool sql_in_transaction(const struct store *s)
{
    return s->in_transaction;
}

struct day_sums *sql_sums(struct store *s)
{
    return &s->sums;
}

int64_t sql_changes(struct store *s)
{
    return sqlite3_changes(s->db);
}

int64_t sql_last_id(struct store *s)
{
    return sqlite3_last_insert_rowid(s->db);
}

/* rows by their tables of columns */

static void refusal_pack(const struct refusal *why, struct strbuf *out)
{
    strbuf_add(out, why->code == ERR_OK ? "" : err_code(why->code));
    for (size_t i = 0; why->code != ERR_OK && i < why->param_count; i++) {
        strbuf_addf(out, "\n%s=", why->params[i].key);
        for (const char *c = why->params[i].value; *c; c++)
            strbuf_add_n(out, *c == '\n' ? " " : c, 1);
    }
}

static void refusal_unpack(struct refusal *why, const char *text)
{
    AUTO_FREE char *copy = mem_strdup(text);
    char *rest = copy, *line = strsep(&rest, "\n");
    enum err code = ERR_OK;

    memset(why, 0, sizeof(*why));
    if (!line[0] || !err_find(line, &code))
        return;
    (void)refuse(why, code);
    while ((line = strsep(&rest, "\n"))) {
        char *eq = strchr(line, '=');

        if (eq && why->param_count < REFUSAL_PARAMS_MAX) {
            *eq = 0;
            refusal_set(why, line, eq + 1);
        }
    }
}

static int col_bind(sqlite3_stmt *st, int at, const struct col *c, const char *row)
{
    const char *p = row + c->offset;
    int64_t v = 0;

    switch (c->kind) {
    case COL_TEXT:
        return sqlite3_bind_text(st, at, p, -1, SQLITE_STATIC);
    case COL_REF:
        return *p ? sqlite3_bind_text(st, at, p, -1, SQLITE_STATIC) : sqlite3_bind_null(st, at);
    case COL_REFUSAL: {
        AUTO_STRBUF struct strbuf b;

        strbuf_init(&b, 4096);
        refusal_pack((const struct refusal *)(const void *)p, &b);
        return sqlite3_bind_text(st, at, strbuf_str(&b), -1, SQLITE_TRANSIENT);
    }
    case COL_INT:
        v = *(const int32_t *)(const void *)p;
        break;
    case COL_BIGINT:
        v = *(const int64_t *)(const void *)p;
        break;
    case COL_BOOL:
        v = *(const bool *)(const void *)p;
        break;
    case COL_U16:
        v = *(const uint16_t *)(const void *)p;
        break;
    }
    return sqlite3_bind_int64(st, at, v);
}

static enum err col_load(struct sql *q, int at, const struct col *c, char *row)
{
    char *p = row + c->offset;
    int64_t v = sqlite3_column_int64(q->st, at);

    switch (c->kind) {
    case COL_TEXT:
    case COL_REF:
        if (str_copy(p, c->size, sql_text(q, at)))
            return ERR_OK;
        (void)str_printf(q->store->why, sizeof(q->store->why), "%s is longer than %zu", c->name,
                         c->size);
        return ERR_STORE;
    case COL_REFUSAL:
        refusal_unpack((struct refusal *)(void *)p, sql_text(q, at));
        return ERR_OK;
    case COL_INT:
        *(int32_t *)(void *)p = (int32_t)v;
        return ERR_OK;
    case COL_BIGINT:
        *(int64_t *)(void *)p = v;
        return ERR_OK;
    case COL_BOOL:
        *(bool *)(void *)p = v != 0;
        return ERR_OK;
    case COL_U16:
        *(uint16_t *)(void *)p = (uint16_t)v;
        return ERR_OK;
    }
    return ERR_STORE;
}

static enum err row_load(struct sql *q, const struct row_type *t, void *ret_row)
{
    for (size_t i = 0; i < t->col_count; i++)
        TRY(col_load(q, (int)i, &t->cols[i], ret_row));
    return ERR_OK;
}

static void save_text(struct strbuf *b, const struct row_type *t)
{
    strbuf_addf(b, "INSERT INTO %s(", t->table);
    for (size_t i = 0; i < t->col_count; i++)
        strbuf_addf(b, "%s\"%s\"", i ? "," : "", t->cols[i].name);
    strbuf_add(b, ") VALUES(");
    for (size_t i = 0; i < t->col_count; i++)
        strbuf_add(b, i ? ",?" : "?");
    strbuf_add(b, ") ON CONFLICT(");
    for (size_t i = 0; i < t->key_count; i++)
        strbuf_addf(b, "%s\"%s\"", i ? "," : "", t->cols[i].name);
    strbuf_add(b, t->key_count < t->col_count ? ") DO UPDATE SET " : ") DO NOTHING");
    for (size_t i = t->key_count; i < t->col_count; i++)
        strbuf_addf(b, "%s\"%s\"=excluded.\"%s\"", i == t->key_count ? "" : ",", t->cols[i].name,
                    t->cols[i].name);
}

enum err row_save(struct store *s, const struct row_type *t, const void *row)
{
    struct cached *c = cache_slot(s, t, t->table);
    AUTO_STRBUF struct strbuf b;
    struct sql q;

    strbuf_init(&b, 16384);
    if (!c->st)
        save_text(&b, t);
    q = sql_prepare(s, c, t, t->table, strbuf_str(&b));
    for (size_t i = 0; q.err == ERR_OK && i < t->col_count; i++) {
        int rc = col_bind(q.st, (int)i + 1, &t->cols[i], row);

        if (rc != SQLITE_OK)
            q.err = store_failed(s, rc, t->table);
    }
    (void)sql_next(&q);
    return sql_close(&q);
}

static struct sql row_select(struct store *s, const struct row_type *t, const char *tail,
                             const char *fmt, va_list ap)
{
    struct cached *c = cache_slot(s, t, tail);
    AUTO_STRBUF struct strbuf b;
    struct sql q;

    strbuf_init(&b, 16384);
    if (!c->st) {
        strbuf_add(&b, "SELECT ");
        for (size_t i = 0; i < t->col_count; i++)
            strbuf_addf(&b, "%s%s.\"%s\"", i ? "," : "", t->table, t->cols[i].name);
        strbuf_addf(&b, " FROM %s %s", t->table, tail);
    }
    q = sql_prepare(s, c, t, tail, strbuf_str(&b));
    sql_bind(&q, SQLITE_STATIC, fmt, ap);
    return q;
}

enum err row_get(struct store *s, const struct row_type *t, void *ret_row, const char *tail,
                 const char *fmt, ...)
{
    enum err e = ERR_NOT_FOUND;
    struct sql q;
    va_list ap;

    va_start(ap, fmt);
    q = row_select(s, t, tail, fmt, ap);
    va_end(ap);
    memset(ret_row, 0, t->size);
    if (sql_next(&q))
        e = row_load(&q, t, ret_row);
    TRY(sql_close(&q));
    return e;
}

/* VEC of any row type: at, len, cap, as vec.h lays it out. */
struct any_list {
    char *at;
    size_t len, cap;
};

static enum err rows_collect(struct sql *q, const struct row_type *t, struct any_list *l)
{
    enum err e = ERR_OK;

    while (e == ERR_OK && sql_next(q)) {
        if (l->len == l->cap) {
            l->cap = l->cap ? l->cap * 2 : 1;
            l->at = mem_realloc(l->at, l->cap, t->size);
        }
        memset(l->at + l->len * t->size, 0, t->size);
        e = row_load(q, t, l->at + l->len * t->size);
        l->len++;
    }
    TRY(sql_close(q));
    return e;
}

enum err row_list(struct store *s, const struct row_type *t, void *list, const char *tail,
                  const char *fmt, ...)
{
    struct any_list *l = list;
    struct sql q;
    va_list ap;

    va_start(ap, fmt);
    q = row_select(s, t, tail, fmt, ap);
    va_end(ap);
    return rows_collect(&q, t, l);
}

static size_t kept_key(char key[KEPT_KEY_MAX], const char *fmt, va_list ap)
{
    size_t n = 0;

    for (; *fmt; fmt++) {
        const char *text = va_arg(ap, const char *);
        size_t len = strlen(text) + 1;

        CHECK(*fmt == 't');
        CHECK(len <= KEPT_KEY_MAX - n);
        memcpy(key + n, text, len);
        n += len;
    }
    return n;
}

enum err row_kept(struct store *s, const struct row_type *t, struct kept_list *ret_l,
                  const char *tail, const char *fmt, ...)
{
    bool valid = s->mode == STORE_WRITE && s->in_transaction;
    struct kept_rows row = {.type = t, .tail = tail};
    const struct kept_rows *found = NULL;
    struct any_list l = {0};
    struct sql q;
    va_list ap;

    va_start(ap, fmt);
    row.key_len = kept_key(row.key, fmt, ap);
    va_end(ap);
    if (valid)
        found = kept_find(&s->kept, t, tail, row.key, row.key_len);
    if (!found) {
        va_start(ap, fmt);
        q = row_select(s, t, tail, fmt, ap);
        va_end(ap);
        enum err e = rows_collect(&q, t, &l);

        if (e != ERR_OK) {
            free(l.at);
            return e;
        }
        row.at = l.at;
        row.len = l.len;
        found = kept_put(&s->kept, t->table, valid, &row);
    }
    *ret_l = (struct kept_list){found->at, found->len};
    return ERR_OK;
}

void row_kept_copy(const struct row_type *t, const struct kept_list *from, void *list)
{
    struct any_list *l = list;

    if (from->len == 0)
        return;
    if (l->cap < l->len + from->len) {
        l->cap = l->len + from->len;
        l->at = mem_realloc(l->at, l->cap, t->size);
    }
    memcpy(l->at + l->len * t->size, from->at, from->len * t->size);
    l->len += from->len;
}

enum err row_each(struct store *s, const struct row_type *t, void *row, row_fn *fn, void *user,
                  const char *tail, const char *fmt, ...)
{
    enum err e = ERR_OK;
    struct sql q;
    va_list ap;

    va_start(ap, fmt);
    q = row_select(s, t, tail, fmt, ap);
    va_end(ap);
    while (e == ERR_OK && sql_next(&q)) {
        memset(row, 0, t->size);
        e = row_load(&q, t, row);
        if (e == ERR_OK)
            e = fn(user, row);
    }
    TRY(sql_close(&q));
    return e;
}

enum err row_lookup(struct store *s, const struct row_type *t, void *ret_row,
                    const struct row_finder *f, struct id scope, const char *text,
                    struct refusal *why)
{
    struct any_list found = {0};
    enum err e = row_get(s, t, ret_row, f->by_name, "tt", scope.s, text);
    size_t len = strlen(text);

    if (e == ERR_OK)
        return ERR_OK;
    if (e == ERR_NOT_FOUND && len >= 4 && len < ID_SIZE) {
        char last[ID_SIZE + 1];

        /* '~' sorts after every letter of an id */
        CHECK(str_printf(last, sizeof(last), "%s~", text));
        e = row_list(s, t, &found, f->by_id, "ttt", scope.s, text, last);
        if (e == ERR_OK && found.len == 1)
            memcpy(ret_row, found.at, t->size);
        else if (e == ERR_OK)
            e = found.len ? ERR_AMBIGUOUS : ERR_NOT_FOUND;
    }
    vec_fini(&found);
    if (e == ERR_STORE)
        return store_refuse(s, why);
    if (e != ERR_OK) {
        (void)refusef(why, e, "what", "%s", f->what);
        refusal_set(why, "name", text);
        refusal_set(why, "verb", f->verb);
    }
    return e;
}
