/* kept.h: inside src/store only. Rows that were read stay in memory while nothing writes to their
 * table, so what is asked for each slice of usage (the project, its prices, what covers an
 * instance) is not read again for each.
 *
 * Right by construction: SQLite itself tells, when a statement is prepared, which tables it can
 * write (also through triggers); a step of it ends what is kept of them. A rollback, a script and
 * a commit of another connection end all. Answers come from memory only inside a transaction that
 * may write: nobody else can write then. */
#pragma once

#include "base/base.h"

#define KEPT_TABLES_MAX 128
#define KEPT_SLOTS 65536 /* a power of two; a newer answer takes the place of an older one */
#define KEPT_KEY_MAX 160

/* What a statement touches. */
struct table_set {
    uint64_t writes[KEPT_TABLES_MAX / 64];
    bool sums; /* scope_day, which is written late (rows_budget.c) */
};

struct kept_rows {
    const void *type, *tail;
    size_t table, len, key_len;
    int64_t stamp;
    void *at; /* owned */
    char key[KEPT_KEY_MAX];
};

struct kept {
    char names[KEPT_TABLES_MAX][32];
    int64_t written[KEPT_TABLES_MAX]; /* the last write to it, counted by clock */
    size_t name_count;
    int64_t clock, forgotten;
    struct table_set *target; /* of the statement that is prepared now, or NULL */
    struct kept_rows **slots; /* owned, and so each */
};

void kept_init(struct kept *k);
void kept_fini(struct kept *k);
/* For sqlite3_set_authorizer; user: struct kept. Allows all and notes it. */
int kept_authorize(void *user, int action, const char *a, const char *b, const char *c,
                   const char *d);
void kept_written(struct kept *k, const struct table_set *set);
void kept_forget(struct kept *k);
/* NULL: not there, or something was written since. */
const struct kept_rows *kept_find(const struct kept *k, const void *type, const void *tail,
                                  const char *key, size_t key_len);
/* Takes rows. valid false: only lent to the caller, never found. */
const struct kept_rows *kept_put(struct kept *k, const char *table, bool valid,
                                 const struct kept_rows *row);
