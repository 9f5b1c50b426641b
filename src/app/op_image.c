/* op_image.c: which images are offered. Their content is the nodes' business: a node fetches what
 * is wanted here and says how that went. */
#include "app/image_ref.h"
#include "app/op_people.h"
#include "base/msg.h"

static bool is_digest(const char *s)
{
    if (!str_starts(s, "sha256:") || strlen(s) != 7 + 64)
        return false;
    return strspn(s + 7, "0123456789abcdef") == 64;
}

/* Image names may carry a version: "pytorch-2.1:cpu". */
static bool is_image_name(const char *s)
{
    size_t n = strlen(s);

    return n > 0 && n < NAME_SIZE && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-_:/") == n &&
           s[0] != '.' && s[0] != '-' && s[0] != '/' && s[0] != ':' && !strstr(s, "..");
}

/* How far the nodes are: failed nowhere but where it was tried, ready as soon as one has it. */
static enum err image_state(struct op *op, const struct image *i, const char **ret_state,
                            int64_t *ret_bytes)
{
    struct node_image_list list = {0};
    bool ready = false, failed = false;

    enum err e = people_try(op, store_node_image_list(op->store, i->digest, &list));
    *ret_bytes = i->bytes;
    for (size_t k = 0; k < list.len; k++) {
        ready = ready || str_eq(list.at[k].state, "ready");
        failed = failed || str_eq(list.at[k].state, "failed");
        *ret_bytes = list.at[k].bytes ? list.at[k].bytes : *ret_bytes;
    }
    vec_fini(&list);
    *ret_state = ready ? "ready" : failed ? "failed" : "working";
    return e;
}

static enum err write_image(struct op *op, const struct image *i)
{
    const char *state;
    int64_t bytes;

    TRY(image_state(op, i, &state, &bytes));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "name", i->name);
    json_str(&op->out, "digest", image_is_ref(i->digest) ? NULL : i->digest);
    json_str(&op->out, "source", i->source);
    json_i64(&op->out, "bytes", bytes);
    json_flag(&op->out, "default", i->is_default);
    json_str(&op->out, "need_driver", i->need_driver[0] ? i->need_driver : NULL);
    json_str(&op->out, "need_cuda", i->need_cuda[0] ? i->need_cuda : NULL);
    json_str(&op->out, "state", state);
    json_time(&op->out, "created_at", i->created_at);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_image_list(struct op *op)
{
    struct image_list list = {0};
    struct page page;

    enum err e = page_open(op, &page);
    if (e == ERR_OK)
        e = people_try(op, store_image_list(op->store, &list));
    for (size_t i = 0; e == ERR_OK && i < list.len; i++)
        if (page_takes(&page, list.at[i].name))
            e = write_image(op, &list.at[i]);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

enum err people_nodes_moved(struct op *op)
{
    struct node_list nodes = {0};

    enum err e = store_node_list(op->store, &nodes);
    for (size_t i = 0; e == ERR_OK && i < nodes.len; i++)
        e = store_node_bump(op->store, nodes.at[i].id);
    vec_fini(&nodes);
    return people_try(op, e);
}

/* The digest that was given, or the one in the reference ("docker://…@sha256:…"), or a stand-in
 * until a node has found out. */
static enum err take_digest(struct op *op, struct image *i)
{
    const char *digest = people_arg(op, "digest", NULL);
    const char *at = strchr(i->source, '@');

    if (!digest && at && is_digest(at + 1))
        digest = at + 1;
    if (!digest) {
        image_ref_of(i->source, i->digest);
        return ERR_OK;
    }
    if (!is_digest(digest))
        return people_invalid(op, "digest", N_("sha256: and 64 hex digits"));
    if (at && is_digest(at + 1) && !str_eq(at + 1, digest))
        return people_invalid(op, "digest", N_("it is not the one in the source"));
    CHECK(str_copy(i->digest, sizeof(i->digest), digest));
    return ERR_OK;
}

static enum err clear_default(struct op *op)
{
    struct image_list list = {0};

    enum err e = store_image_list(op->store, &list);
    for (size_t k = 0; e == ERR_OK && k < list.len; k++)
        if (list.at[k].is_default) {
            list.at[k].is_default = false;
            e = store_image_save(op->store, &list.at[k]);
        }
    vec_fini(&list);
    return people_try(op, e);
}

enum err op_image_add(struct op *op)
{
    const char *name = people_arg(op, "name", ""), *source = people_arg(op, "source", "");
    struct image i = {.created_at = op->now}, old;

    if (!is_image_name(name))
        return people_invalid(op, "name", N_("1 to 63 of a-z, 0-9 and . - _ : /"));
    if ((!str_starts(source, "docker://") && !str_starts(source, "oci:/") &&
         !str_starts(source, "recipe:")) ||
        strpbrk(source, " \n\t") || !str_copy(i.source, sizeof(i.source), source))
        return people_invalid(op, "source", N_("docker://…, oci:/folder or recipe:NAME"));
    CHECK(str_copy(i.name, sizeof(i.name), name));
    CHECK(json_get_bool(op->body, "default", false, &i.is_default));
    TRY(take_digest(op, &i));
    enum err e = store_image_get(op->store, name, &old);
    if (e == ERR_OK && str_eq(old.name, name)) {
        /* The same image again is done already; another one needs another name. */
        if (image_is_ref(i.digest) && str_eq(old.source, i.source))
            memcpy(i.digest, old.digest, sizeof(i.digest));
        if (!str_eq(old.digest, i.digest) || !str_eq(old.source, i.source))
            return people_exists(op, "image", name);
        i.created_at = old.created_at;
        i.bytes = old.bytes;
        i.is_default = i.is_default || old.is_default;
        memcpy(i.need_driver, old.need_driver, sizeof(i.need_driver));
        memcpy(i.need_cuda, old.need_cuda, sizeof(i.need_cuda));
    } else if (e != ERR_OK && e != ERR_NOT_FOUND) {
        return people_try(op, e);
    }
    if (i.is_default)
        TRY(clear_default(op));
    TRY(people_try(op, store_image_save(op->store, &i)));
    TRY(people_nodes_moved(op));
    return write_image(op, &i);
}

/* An instance that is not gone starts from it again: its nodes must keep it. */
static enum err image_used(struct op *op, const struct image *i, char ret_by[NAME_SIZE])
{
    struct instance_list list = {0};

    ret_by[0] = '\0';
    enum err e = people_try(op, store_instance_list_any(op->store, &list));
    for (size_t k = 0; e == ERR_OK && k < list.len && !ret_by[0]; k++)
        if (str_eq(list.at[k].image, i->digest) && list.at[k].state != INSTANCE_RELEASED &&
            list.at[k].state != INSTANCE_FAILED)
            CHECK(str_copy(ret_by, NAME_SIZE, list.at[k].id.s));
    vec_fini(&list);
    return e;
}

enum err op_image_remove(struct op *op)
{
    char by[NAME_SIZE];
    struct image i;
    enum err e = store_image_get(op->store, op->path_arg[0], &i);

    if (e == ERR_NOT_FOUND || (e == ERR_OK && !str_eq(i.name, op->path_arg[0])))
        return people_not_found(op, "image", op->path_arg[0], "image ls");
    TRY(people_try(op, e));
    TRY(image_used(op, &i, by));
    if (by[0]) {
        (void)refusef(&op->why, ERR_IN_USE, "what", "image");
        refusal_set(&op->why, "name", i.name);
        refusal_set(&op->why, "by", by);
        return ERR_IN_USE;
    }
    TRY(people_try(op, store_image_remove(op->store, i.name)));
    TRY(people_nodes_moved(op));
    json_object_begin(&op->out, NULL);
    json_object_finish(&op->out);
    return ERR_OK;
}
