#include "app/image_ref.h"

#include <sodium.h>

#include "app/op_people.h"

void image_ref_of(const char *source, char ret_digest[DIGEST_SIZE])
{
    unsigned char sum[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof(sum) + 1];

    CHECK(crypto_hash_sha256(sum, (const unsigned char *)source, strlen(source)) == 0);
    CHECK(sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum)));
    CHECK(str_printf(ret_digest, DIGEST_SIZE, "ref:%s", hex));
}

bool image_is_ref(const char *digest)
{
    return str_starts(digest, "ref:");
}

enum err image_resolve_write(struct op *op, struct json_writer *w)
{
    struct image_list list = {0};
    bool any = false;

    enum err e = people_try(op, store_image_list(op->store, &list));
    for (size_t i = 0; i < list.len; i++) {
        if (!image_is_ref(list.at[i].digest))
            continue;
        if (!any)
            json_array_begin(w, "resolve");
        any = true;
        json_str(w, NULL, list.at[i].source);
    }
    if (any)
        json_array_finish(w);
    vec_fini(&list);
    return e;
}

static bool row_ok(const json_t *row, const char **ret_source, char digest[DIGEST_SIZE])
{
    *ret_source = NULL;
    return json_is_object(row) && json_get_str(row, "source", NULL, ret_source) && *ret_source &&
           json_get_text(row, "digest", digest, DIGEST_SIZE) && str_starts(digest, "sha256:") &&
           strlen(digest) == 7 + 64 && strspn(digest + 7, "0123456789abcdef") == 64;
}

/* What a source could not be resolved for is kept where the state of images is read from. */
static enum err keep_error(struct op *op, const char *source, const json_t *error)
{
    struct node_image n = {.node = op->who.node, .state = "failed"};
    const char *code = NULL;

    if (!json_is_object(error) || !json_get_str(error, "code", NULL, &code) || !code)
        return ERR_OK;
    image_ref_of(source, n.digest);
    (void)str_copy(n.error, sizeof(n.error), code);
    return people_try(op, store_node_image_save(op->store, &n));
}

enum err image_resolved_take(struct op *op, const json_t *resolved)
{
    struct image_list list = {0};
    bool moved = false;

    if (!json_is_array(resolved) || json_array_size(resolved) == 0)
        return ERR_OK;
    enum err e = people_try(op, store_image_list(op->store, &list));
    for (size_t k = 0; e == ERR_OK && k < json_array_size(resolved); k++) {
        const json_t *row = json_array_get(resolved, k);
        char digest[DIGEST_SIZE];
        const char *source;
        bool good = row_ok(row, &source, digest);
        if (!good && source)
            e = keep_error(op, source, json_object_get(row, "error"));
        for (size_t i = 0; good && e == ERR_OK && i < list.len; i++) {
            if (!image_is_ref(list.at[i].digest) || !str_eq(list.at[i].source, source))
                continue;
            memcpy(list.at[i].digest, digest, sizeof(list.at[i].digest));
            e = people_try(op, store_image_save(op->store, &list.at[i]));
            moved = true;
        }
    }
    vec_fini(&list);
    return e == ERR_OK && moved ? people_nodes_moved(op) : e;
}
