/* op_key.c: SSH keys of a user. A change reaches running instances through what their nodes are
 * told next. */
#include "app/op_people.h"
#include "app/sshkey.h"
#include "base/msg.h"

#define KEYS_MAX 50

enum err page_open(struct op *op, struct page *ret_p)
{
    *ret_p = (struct page){0};
    TRY(cursor_read(op, &ret_p->limit, ret_p->after));
    ret_p->started = !ret_p->after[0];
    json_object_begin(&op->out, NULL);
    json_array_begin(&op->out, "items");
    return ERR_OK;
}

bool page_takes(struct page *p, const char *pos)
{
    if (!p->started) {
        p->started = str_eq(p->after, pos);
        return false;
    }
    if (p->taken == p->limit) {
        p->more = true;
        return false;
    }
    p->taken++;
    CHECK(str_copy(p->last, sizeof(p->last), pos));
    return true;
}

enum err page_close(struct op *op, struct page *p)
{
    if (!p->started)
        return refuse(&op->why, ERR_CURSOR);
    TRY(cursor_finish(op, p->more ? p->last : NULL));
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err people_keys_moved(struct op *op, const struct id *project)
{
    struct lease_list leases = {0};
    struct instance *i = mem_alloc(sizeof(*i));
    enum role role;

    enum err e = store_lease_list_live(op->store, &leases);
    for (size_t k = 0; e == ERR_OK && k < leases.len; k++) {
        bool concerned = false;
        e = store_instance_get_any(op->store, leases.at[k].instance, i);
        if (e == ERR_OK && project)
            concerned = str_eq(i->project.s, project->s);
        else if (e == ERR_OK) {
            e = store_member_role(op->store, i->project, op->who.user, &role);
            concerned = e == ERR_OK && role != ROLE_NONE;
        }
        if (e == ERR_OK && concerned)
            e = store_node_bump(op->store, leases.at[k].node);
    }
    vec_fini(&leases);
    mem_free_ptr(&i);
    return people_try(op, e);
}

static void write_key(struct op *op, const struct ssh_key *k)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", k->id.s);
    json_str(&op->out, "name", k->name);
    json_str(&op->out, "fingerprint", k->fingerprint);
    json_time(&op->out, "created_at", k->created_at);
    json_object_finish(&op->out);
}

enum err op_key_list(struct op *op)
{
    struct ssh_key_list list = {0};
    struct page page;

    enum err e = page_open(op, &page);
    if (e == ERR_OK)
        e = people_try(op, store_key_list(op->store, op->who.user, &list));
    for (size_t i = 0; e == ERR_OK && i < list.len; i++)
        if (page_takes(&page, list.at[i].id.s))
            write_key(op, &list.at[i]);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

static bool name_taken(const struct ssh_key_list *list, const char *name)
{
    for (size_t i = 0; i < list->len; i++)
        if (str_eq(list->at[i].name, name))
            return true;
    return false;
}

/* A name from the key's comment when none was given: "alice@laptop" → "alice-laptop". */
static void default_name(const struct ssh_key_list *list, const char *comment, char buf[NAME_SIZE])
{
    char stem[40];
    size_t n = 0;

    for (const char *p = comment; *p && n < sizeof(stem) - 1; p++) {
        char c = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
        bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (letter || (n > 0 && stem[n - 1] != '-'))
            stem[n++] = letter ? c : '-';
    }
    while (n > 0 && stem[n - 1] == '-')
        n--;
    stem[n] = '\0';
    CHECK(str_copy(buf, NAME_SIZE, n ? stem : "key"));
    for (int i = 2; name_taken(list, buf); i++)
        CHECK(str_printf(buf, NAME_SIZE, "%s-%d", n ? stem : "key", i));
}

static enum err add_key(struct op *op, const struct ssh_key_list *list, struct ssh_key *k)
{
    const char *name = people_arg(op, "name", NULL);
    struct sshkey parsed;

    TRY(sshkey_parse(people_arg(op, "public_key", ""), &parsed, &op->why));
    for (size_t i = 0; i < list->len; i++)
        if (str_eq(list->at[i].fingerprint, parsed.fingerprint))
            return people_exists(op, "key", list->at[i].name);
    if (list->len >= KEYS_MAX)
        return people_invalid(op, "public_key", N_("you have 50 keys; remove some first"));
    if (!name) {
        default_name(list, parsed.comment, k->name);
    } else if (!str_is_name(name)) {
        return people_invalid(op, "name", N_("1 to 63 of a-z, 0-9 and -"));
    } else {
        if (name_taken(list, name))
            return people_exists(op, "key", name);
        CHECK(str_copy(k->name, sizeof(k->name), name));
    }
    k->id = core_id(op->core, "key");
    k->user = op->who.user;
    k->created_at = op->now;
    memcpy(k->public_key, parsed.text, sizeof(k->public_key));
    memcpy(k->fingerprint, parsed.fingerprint, sizeof(k->fingerprint));
    return people_try(op, store_key_save(op->store, k));
}

enum err op_key_add(struct op *op)
{
    struct ssh_key_list list = {0};
    struct ssh_key k = {0};

    enum err e = people_try(op, store_key_list(op->store, op->who.user, &list));
    if (e == ERR_OK)
        e = add_key(op, &list, &k);
    vec_fini(&list);
    TRY(e);
    TRY(people_keys_moved(op, NULL));
    write_key(op, &k);
    return ERR_OK;
}

enum err op_key_remove(struct op *op)
{
    struct ssh_key k;

    TRY(store_key_lookup(op->store, op->who.user, op->path_arg[0], &k, &op->why));
    TRY(people_try(op, store_key_remove(op->store, op->who.user, k.id)));
    TRY(people_keys_moved(op, NULL));
    json_object_begin(&op->out, NULL);
    json_object_finish(&op->out);
    return ERR_OK;
}
