/* Cursors and one-time codes as callers send them. A cursor that was not made here is never taken;
 * one that was, is, and only for its own list. */
#include <sodium.h>
#include <stdlib.h>

#include "app/authn.h"
#include "app/cursor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct store *store;
static char good[CURSOR_SIZE];

static struct op op_of(const struct op_row *row, json_t *query)
{
    struct op op = {.row = row, .store = store, .query = query};

    CHECK(str_copy(op.who.project.s, sizeof(op.who.project.s), "prj_1"));
    return op;
}

static void prepare(void)
{
    struct id_maker ids = id_maker_seeded(1);
    struct refusal why = {0};
    struct op_row row = {.name = "key_list"};

    if (store)
        return;
    CHECK(sodium_init() >= 0);
    CHECK(store_open(":memory:", STORE_WRITE, &store, &why) == ERR_OK);
    CHECK(store_migrate(store, &why) == ERR_OK);
    CHECK(cursor_init(store, &ids) == ERR_OK);
    struct op op = op_of(&row, NULL);
    CHECK(cursor_make(&op, "key_123", good) == ERR_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct op_row row = {.name = "key_list"}, other = {.name = "token_list"};
    char pos[CURSOR_POS_SIZE], code[SECRET_SIZE], again[SECRET_SIZE];
    int64_t limit;
    char *text = malloc(size + 1);

    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    prepare();
    json_t *query = json_pack("{s:s%}", "cursor", text, strlen(text));
    if (query) {
        struct op op = op_of(&row, query);
        enum err e = cursor_read(&op, &limit, pos);
        CHECK(text[0] == '\0' || e == (str_eq(text, good) ? ERR_OK : ERR_CURSOR) ||
              (e == ERR_OK && str_eq(pos, "key_123")));
        op = op_of(&other, query);
        CHECK(text[0] == '\0' || cursor_read(&op, &limit, pos) == ERR_CURSOR);
    }
    json_decref(query);
    if (authn_code_norm(text, code))
        CHECK(authn_code_norm(code, again) && str_eq(code, again));
    free(text);
    return 0;
}
