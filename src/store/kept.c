#include "store/kept.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"

void kept_init(struct kept *k)
{
    k->slots = mem_alloc(KEPT_SLOTS * sizeof(struct kept_rows *));
}

void kept_fini(struct kept *k)
{
    for (size_t i = 0; k->slots && i < KEPT_SLOTS; i++)
        if (k->slots[i]) {
            free(k->slots[i]->at);
            free(k->slots[i]);
        }
    free(k->slots);
    k->slots = NULL;
}

static size_t table_number(struct kept *k, const char *name)
{
    for (size_t i = 0; i < k->name_count; i++)
        if (str_eq(k->names[i], name))
            return i;
    CHECK(k->name_count < KEPT_TABLES_MAX);
    CHECK(str_copy(k->names[k->name_count], sizeof(k->names[0]), name));
    return k->name_count++;
}

int kept_authorize(void *user, int action, const char *a, const char *b, const char *c,
                   const char *d)
{
    struct kept *k = user;
    bool writes = action == SQLITE_INSERT || action == SQLITE_UPDATE || action == SQLITE_DELETE;

    (void)b, (void)c, (void)d;
    if (!k->target || !a || (!writes && action != SQLITE_READ))
        return SQLITE_OK;
    if (str_eq(a, "scope_day"))
        k->target->sums = true;
    if (writes) {
        size_t n = table_number(k, a);

        k->target->writes[n / 64] |= UINT64_C(1) << (n % 64);
    }
    return SQLITE_OK;
}

void kept_written(struct kept *k, const struct table_set *set)
{
    k->clock++;
    for (size_t i = 0; i < ARRAY_LEN(set->writes); i++)
        for (uint64_t left = set->writes[i]; left; left &= left - 1)
            k->written[i * 64 + (size_t)__builtin_ctzll(left)] = k->clock;
}

void kept_forget(struct kept *k)
{
    k->forgotten = ++k->clock;
}

static size_t slot_of(const void *type, const void *tail, const char *key, size_t key_len)
{
    uint64_t h = (uint64_t)(uintptr_t)type * 31 + (uint64_t)(uintptr_t)tail;

    for (size_t i = 0; i < key_len; i++)
        h = (h ^ (unsigned char)key[i]) * UINT64_C(0x100000001b3);
    return (size_t)((h ^ h >> 29) % KEPT_SLOTS);
}

const struct kept_rows *kept_find(const struct kept *k, const void *type, const void *tail,
                                  const char *key, size_t key_len)
{
    const struct kept_rows *r = k->slots[slot_of(type, tail, key, key_len)];

    if (!r || r->type != type || r->tail != tail || r->key_len != key_len ||
        memcmp(r->key, key, key_len) != 0)
        return NULL;
    return r->stamp >= k->written[r->table] && r->stamp >= k->forgotten ? r : NULL;
}

const struct kept_rows *kept_put(struct kept *k, const char *table, bool valid,
                                 const struct kept_rows *row)
{
    struct kept_rows **slot = &k->slots[slot_of(row->type, row->tail, row->key, row->key_len)];

    if (*slot)
        free((*slot)->at);
    else
        *slot = mem_alloc(sizeof(**slot));
    **slot = *row;
    (*slot)->table = table_number(k, table);
    (*slot)->stamp = valid ? k->clock : -1;
    return *slot;
}
