/* Operations of the operator on nodes. What a node says itself is node_sync.h. */
#include "app/authn.h"
#include "app/ask.h"
#include "app/cursor.h"
#include "app/lifecycle.h"
#include "app/outbox.h"
#include "app/view.h"
#include "base/msg.h"
#include "store/rows_proof.h"

static enum err lookup(struct op *op, struct node *ret_n)
{
    TRY(store_node_lookup(op->store, op->path_arg[0], ret_n, &op->why));
    (void)str_copy(op->object, sizeof(op->object), ret_n->id.s);
    return ERR_OK;
}

enum err op_node_list(struct op *op)
{
    struct node_list list = {0};
    char pos[CURSOR_POS_SIZE];
    int64_t limit;
    size_t n = 0, end;
    enum err e;

    TRY(cursor_read(op, &limit, pos));
    e = store_node_list(op->store, &list);
    while (e == ERR_OK && pos[0] && n < list.len && strcmp(list.at[n].name, pos) <= 0)
        n++;
    end = MIN(n + (size_t)limit, list.len);
    json_object_begin(&op->out, NULL);
    json_array_begin(&op->out, "items");
    for (; e == ERR_OK && n < end; n++)
        e = view_node(op, NULL, &list.at[n]);
    if (e == ERR_OK)
        e = cursor_finish(op, end < list.len ? list.at[end - 1].name : NULL);
    vec_fini(&list);
    TRY(e);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_node_add(struct op *op)
{
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;
    char secret[SECRET_SIZE], hash[HASH_TEXT_SIZE];
    struct refusal none = {0};
    const char *name = NULL;
    enum err e;

    if (!json_get_str(op->body, "name", NULL, &name) || !name || !str_is_name(name))
        return ask_bad(op, "name", N_("1 to 63 of a-z, 0-9 and -"));
    e = store_node_lookup(op->store, name, n, &none);
    if (e == ERR_OK && str_eq(n->name, name)) {
        (void)refusef(&op->why, ERR_EXISTS, "what", "%s", "node");
        refusal_set(&op->why, "name", name);
        return ERR_EXISTS;
    }
    if (e == ERR_STORE)
        return e;
    *n = (struct node){.id = core_id(op->core, "nod"), .state = NODE_NEW, .version = 1};
    CHECK(str_copy(n->name, sizeof(n->name), name));
    (void)str_copy(op->object, sizeof(op->object), n->id.s);
    authn_secret(op->core, "sln", secret);
    authn_hash(secret, hash);
    TRY(store_node_save(op->store, n));
    TRY(store_node_set_hash(op->store, n->id, hash));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", n->id.s);
    json_str(&op->out, "name", n->name);
    json_str(&op->out, "token", secret);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_node_drain(struct op *op)
{
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;
    bool off = false;

    TRY(lookup(op, n));
    if (!json_get_bool(op->body, "off", false, &off))
        return ask_bad(op, "off", N_("true or false"));
    n->drain = !off;
    if (n->state == NODE_READY || n->state == NODE_DRAINING)
        n->state = n->drain ? NODE_DRAINING : NODE_READY;
    TRY(store_node_save(op->store, n));
    return view_node(op, NULL, n);
}

static enum err node_is_empty(struct op *op, const struct node *n)
{
    struct lease_list leases = {0};
    struct disk_list disks = {0};
    size_t left = 0;
    enum err e = store_lease_list_node(op->store, n->id, &leases);

    if (e == ERR_OK)
        e = store_disk_list_node(op->store, n->id, &disks);
    left = leases.len + disks.len;
    vec_fini(&leases);
    vec_fini(&disks);
    TRY(e);
    if (!left)
        return ERR_OK;
    (void)refusef(&op->why, ERR_IN_USE, "what", "%s", "node");
    refusal_set(&op->why, "name", n->name);
    refusal_setf(&op->why, "by", "%zu leases and disks", left);
    return ERR_IN_USE;
}

enum err op_node_trust(struct op *op)
{
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;

    TRY(lookup(op, n));
    TRY(proof_keys_retire(op->store, n->id));
    return view_node(op, NULL, n);
}

enum err op_node_remove(struct op *op)
{
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;

    TRY(lookup(op, n));
    if (!n->drain && n->state != NODE_NEW) {
        (void)refusef(&op->why, ERR_STATE, "name", "%s", n->name);
        refusal_set(&op->why, "state", "ready");
        refusal_set(&op->why, "action", "node rm");
        refusal_set(&op->why, "actions", "node drain");
        return ERR_STATE;
    }
    TRY(node_is_empty(op, n));
    TRY(store_node_remove(op->store, n->id));
    json_object_begin(&op->out, NULL);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_node_kill_unknown(struct op *op)
{
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;
    struct node_unknown_list list = {0};
    bool known = false;
    enum err e;

    TRY(lookup(op, n));
    e = store_unknown_list(op->store, n->id, &list);
    VEC_FOREACH (u, &list)
        known |= str_eq(u->lease, op->path_arg[1]);
    vec_fini(&list);
    TRY(e);
    if (!known) {
        (void)refusef(&op->why, ERR_NOT_FOUND, "what", "%s", "guest");
        refusal_set(&op->why, "name", op->path_arg[1]);
        refusal_set(&op->why, "verb", "admin node ls");
        return ERR_NOT_FOUND;
    }
    TRY(outbox_kill_unknown(op, n->id, op->path_arg[1]));
    json_object_begin(&op->out, NULL);
    json_object_finish(&op->out);
    return ERR_OK;
}
