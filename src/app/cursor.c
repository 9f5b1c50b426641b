#include "app/cursor.h"

#include <sodium.h>

#include "app/router.h"
#include "store/store.h"

#define KEY_META "cursor.key"
#define MAC_SIZE 16

enum err cursor_init(struct store *s, struct id_maker *ids)
{
    unsigned char raw[32];
    char hex[65];
    bool found;

    TRY(store_meta_get(s, KEY_META, hex, sizeof(hex), &found));
    if (found)
        return ERR_OK;
    ids->fill(ids, raw, sizeof(raw));
    CHECK(sodium_bin2hex(hex, sizeof(hex), raw, sizeof(raw)));
    return store_meta_set(s, KEY_META, hex);
}

/* MAC over operation, project and position. */
static enum err cursor_mac(struct op *op, const char *pos, unsigned char ret_mac[MAC_SIZE])
{
    char hex[65];
    unsigned char key[32];
    char text[TEXT_SIZE];
    bool found;

    if (store_meta_get(op->store, KEY_META, hex, sizeof(hex), &found) != ERR_OK)
        return store_refuse(op->store, &op->why);
    if (!found || sodium_hex2bin(key, sizeof(key), hex, strlen(hex), NULL, NULL, NULL) != 0)
        return refusef(&op->why, ERR_INTERNAL, "why", "there is no cursor key");
    CHECK(str_printf(text, sizeof(text), "%s\n%s\n%s", op->row->name, op->who.project.s, pos));
    CHECK(crypto_generichash(ret_mac, MAC_SIZE, (const unsigned char *)text, strlen(text), key,
                             sizeof(key)) == 0);
    return ERR_OK;
}

enum err cursor_make(struct op *op, const char *pos, char ret_cursor[CURSOR_SIZE])
{
    unsigned char raw[MAC_SIZE + CURSOR_POS_SIZE];
    size_t n = strlen(pos);

    CHECK(n > 0 && n < CURSOR_POS_SIZE);
    TRY(cursor_mac(op, pos, raw));
    memcpy(raw + MAC_SIZE, pos, n);
    CHECK(sodium_bin2base64(ret_cursor, CURSOR_SIZE, raw, MAC_SIZE + n,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING));
    return ERR_OK;
}

static enum err cursor_open(struct op *op, const char *cursor, char ret_pos[CURSOR_POS_SIZE])
{
    unsigned char raw[MAC_SIZE + CURSOR_POS_SIZE], mac[MAC_SIZE];
    size_t n;

    if (sodium_base642bin(raw, sizeof(raw) - 1, cursor, strlen(cursor), NULL, &n, NULL,
                          sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 ||
        n <= MAC_SIZE)
        return refuse(&op->why, ERR_CURSOR);
    raw[n] = '\0';
    const char *pos = (const char *)raw + MAC_SIZE;
    if (strlen(pos) != n - MAC_SIZE)
        return refuse(&op->why, ERR_CURSOR);
    TRY(cursor_mac(op, pos, mac));
    if (sodium_memcmp(mac, raw, MAC_SIZE) != 0)
        return refuse(&op->why, ERR_CURSOR);
    CHECK(str_copy(ret_pos, CURSOR_POS_SIZE, pos));
    return ERR_OK;
}

enum err cursor_read(struct op *op, int64_t *ret_limit, char ret_pos[CURSOR_POS_SIZE])
{
    const char *limit = NULL, *cursor = NULL;

    *ret_limit = LIMIT_DEFAULT;
    ret_pos[0] = '\0';
    if (json_get_str(op->query, "limit", NULL, &limit) && limit)
        TRY(str_parse_i64(limit, 1, LIMIT_MAX, ret_limit));
    if (json_get_str(op->query, "cursor", NULL, &cursor) && cursor)
        return cursor_open(op, cursor, ret_pos);
    return ERR_OK;
}

enum err cursor_finish(struct op *op, const char *pos)
{
    char cursor[CURSOR_SIZE];

    json_array_finish(&op->out);
    if (pos) {
        TRY(cursor_make(op, pos, cursor));
        json_str(&op->out, "next_cursor", cursor);
    } else {
        json_none(&op->out, "next_cursor");
    }
    return ERR_OK;
}
