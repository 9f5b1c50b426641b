/* Operations on disks. */
#include "app/ask.h"
#include "app/cursor.h"
#include "app/lifecycle.h"
#include "app/outbox.h"
#include "app/view.h"
#include "base/msg.h"
#include "base/units.h"

static enum err lookup(struct op *op, struct disk *ret_d)
{
    TRY(store_disk_lookup(op->store, op->who.project, op->path_arg[0], ret_d, &op->why));
    (void)str_copy(op->object, sizeof(op->object), ret_d->id.s);
    return ERR_OK;
}

static enum err size_arg(struct op *op, int64_t *ret_mib)
{
    const char *text = NULL;

    if (!json_get_str(op->body, "size", NULL, &text) || !text ||
        size_parse_mib(text, ret_mib) != ERR_OK || *ret_mib < 64 || *ret_mib > ASK_DISK_MIB_MAX)
        return ask_bad(op, "size", N_("a size such as 8GiB"));
    return ERR_OK;
}

static enum err disk_state(struct op *op, const struct disk *d, const char *state,
                           const char *action)
{
    (void)refusef(&op->why, ERR_STATE, "name", "%s", d->name[0] ? d->name : d->id.s);
    refusal_set(&op->why, "state", state);
    refusal_set(&op->why, "action", action);
    refusal_set(&op->why, "actions", "-");
    return ERR_STATE;
}

/* Not the disk is in the way but the state of the instance. */
static enum err instance_busy(struct op *op, const struct instance *i, const char *action)
{
    (void)refusef(&op->why, ERR_STATE, "name", "%s", i->name);
    refusal_set(&op->why, "state", instance_state_name(i->state));
    refusal_set(&op->why, "action", action);
    refusal_set(&op->why, "actions", i->state == INSTANCE_RUNNING ? "stop" : "-");
    return ERR_STATE;
}

enum err op_disk_list(struct op *op)
{
    struct disk_list list = {0};
    char pos[CURSOR_POS_SIZE];
    const char *last = NULL;
    int64_t limit, taken = 0;
    bool more = false, started;
    enum err e;

    TRY(cursor_read(op, &limit, pos));
    started = !pos[0];
    e = store_disk_list(op->store, op->who.project, false, &list);
    json_object_begin(&op->out, NULL);
    json_array_begin(&op->out, "items");
    for (size_t n = 0; e == ERR_OK && n < list.len && !more; n++) {
        if (!started) {
            started = str_eq(list.at[n].id.s, pos);
            continue;
        }
        more = taken == limit;
        if (more)
            break;
        e = view_disk(op, NULL, &list.at[n]);
        last = list.at[n].id.s;
        taken++;
    }
    if (e == ERR_OK)
        e = started ? cursor_finish(op, more ? last : NULL) : refuse(&op->why, ERR_CURSOR);
    vec_fini(&list);
    TRY(e);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_disk_get(struct op *op)
{
    struct disk d;

    TRY(lookup(op, &d));
    return view_disk(op, NULL, &d);
}

/* A disk of its own lives where there is most room. */
static enum err roomiest_node(struct op *op, int64_t mib, struct id *ret_node)
{
    struct node_list nodes = {0};
    int64_t best = -1;
    enum err e = store_node_list(op->store, &nodes);

    for (size_t n = 0; e == ERR_OK && n < nodes.len; n++) {
        struct node_used used;
        int64_t left;

        e = store_node_used(op->store, nodes.at[n].id, &used);
        left = nodes.at[n].disk_mib - used.disk_mib;
        if (e == ERR_OK && nodes.at[n].state == NODE_READY && left >= mib && left > best) {
            best = left;
            *ret_node = nodes.at[n].id;
        }
    }
    vec_fini(&nodes);
    TRY(e);
    if (best >= 0)
        return ERR_OK;
    (void)refusef(&op->why, ERR_NO_SPACE, "where", "%s", "every node");
    refusal_setf(&op->why, "need", "%" PRId64 " MiB", mib);
    return ERR_NO_SPACE;
}

enum err op_disk_create(struct op *op)
{
    struct disk d = {.project = op->who.project, .kind = DISK_DATA, .created_at = op->now}, old;
    const char *name = NULL;
    struct refusal none = {0};
    enum err e;

    if (!json_get_str(op->body, "name", NULL, &name) || !name || !str_is_name(name))
        return ask_bad(op, "name", N_("1 to 63 of a-z, 0-9 and -"));
    TRY(size_arg(op, &d.size_mib));
    e = store_disk_lookup(op->store, d.project, name, &old, &none);
    if (e == ERR_OK && old.life <= DISK_LIFE_READY && str_eq(old.name, name)) {
        (void)refusef(&op->why, ERR_EXISTS, "what", "%s", "disk");
        refusal_set(&op->why, "name", name);
        return ERR_EXISTS;
    }
    if (e == ERR_STORE)
        return e;
    TRY(ask_disk_afford(op, "disk.detached", d.size_mib));
    TRY(roomiest_node(op, d.size_mib, &d.node));
    d.id = core_id(op->core, "dsk");
    CHECK(str_copy(d.name, sizeof(d.name), name));
    (void)str_copy(op->object, sizeof(op->object), d.id.s);
    TRY(store_disk_save(op->store, &d));
    TRY(store_node_bump(op->store, d.node));
    return view_disk(op, NULL, &d);
}

static enum err grow_lease(struct op *op, const struct instance *i)
{
    struct funds_term term;
    struct lease l;

    if (!i->lease.s[0])
        return ERR_OK;
    TRY(store_lease_get(op->store, i->lease, &l));
    if (l.state > LEASE_RUNNING)
        return ERR_OK;
    TRY(funds_lease_renew(op->store, op->now, core_config_of(op->core)->term_s, l.id, &term,
                          &op->why));
    l.paid_until = term.paid_until;
    l.limit = (int32_t)term.limit;
    return store_lease_save(op->store, &l);
}

/* The shape says how large the system disk is, too. */
static enum err grow_shape(struct op *op, const struct disk *d, struct instance *i)
{
    if (d->kind != DISK_SYSTEM)
        return ERR_OK;
    i->shape.system_disk_mib = d->size_mib;
    return store_instance_save(op->store, i);
}

enum err op_disk_grow(struct op *op)
{
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;
    struct instance i = {0};
    struct disk d;
    int64_t mib;

    TRY(lookup(op, &d));
    TRY(size_arg(op, &mib));
    if (d.life > DISK_LIFE_READY)
        return disk_state(op, &d, "erasing", "disk grow");
    if (!d.node.s[0]) /* its instance waits in line: no node has it yet */
        return disk_state(op, &d, instance_state_name(INSTANCE_QUEUED), "disk grow");
    TRY(store_node_get(op->store, d.node, n));
    if (d.instance.s[0])
        TRY(store_instance_get(op->store, d.project, d.instance, &i));
    TRY(ask_disk_grow(op, &d, !i.lease.s[0], "size", mib));
    if (i.lease.s[0] && !n->online_grow) {
        (void)refusef(&op->why, ERR_UNSUPPORTED, "what", "%s", "disk grow");
        refusal_set(&op->why, "why",
                    msg_tr(op->lang, N_("this node grows disks of stopped instances only")));
        return ERR_UNSUPPORTED;
    }
    TRY(funds_disk_grow(op->store, op->now, d.id, mib, &op->why));
    d.size_mib = mib;
    TRY(store_disk_save(op->store, &d));
    TRY(grow_shape(op, &d, &i));
    TRY(grow_lease(op, &i));
    TRY(store_node_bump(op->store, d.node));
    return view_disk(op, NULL, &d);
}

enum err op_disk_attach(struct op *op)
{
    const char *name = NULL;
    struct instance i;
    struct disk d;

    TRY(lookup(op, &d));
    if (!json_get_str(op->body, "instance", NULL, &name) || !name)
        return ask_bad(op, "instance", N_("a text"));
    TRY(store_instance_lookup(op->store, op->who.project, name, &i, &op->why));
    if (d.kind != DISK_DATA || d.life > DISK_LIFE_READY)
        return disk_state(op, &d, d.kind == DISK_DATA ? "erasing" : "system", "disk attach");
    if (d.instance.s[0]) {
        struct instance by;

        if (str_eq(d.instance.s, i.id.s))
            return view_disk(op, NULL, &d);
        TRY(store_instance_get(op->store, d.project, d.instance, &by));
        (void)refusef(&op->why, ERR_DISK_IN_USE, "name", "%s", d.name);
        refusal_set(&op->why, "instance", by.name);
        return ERR_DISK_IN_USE;
    }
    if (i.state != INSTANCE_STOPPED)
        return instance_busy(op, &i, "disk attach");
    if (i.data_count == INSTANCE_DISKS_MAX)
        return ask_bad(op, "disk", N_("too many disks"));
    if (!str_eq(d.node.s, i.node.s))
        return ask_bad(op, "disk", N_("it is on another node than the instance"));
    TRY(ask_mount(op, &i, &d));
    d.instance = i.id;
    TRY(store_disk_save(op->store, &d));
    return view_disk(op, NULL, &d);
}

enum err op_disk_detach(struct op *op)
{
    struct instance i;
    struct disk d;

    TRY(lookup(op, &d));
    if (!d.instance.s[0])
        return view_disk(op, NULL, &d);
    if (d.kind != DISK_DATA)
        return disk_state(op, &d, "system", "disk detach");
    TRY(store_instance_get(op->store, d.project, d.instance, &i));
    if (i.state != INSTANCE_STOPPED)
        return instance_busy(op, &i, "disk detach");
    d.instance = (struct id){""};
    d.mount[0] = 0;
    TRY(store_disk_save(op->store, &d));
    TRY(funds_disk_detach(op->store, op->now, d.id));
    return view_disk(op, NULL, &d);
}

enum err op_disk_remove(struct op *op)
{
    struct instance i;
    struct disk d;

    TRY(lookup(op, &d));
    if (d.life > DISK_LIFE_READY)
        return view_disk(op, NULL, &d);
    if (d.kind != DISK_DATA)
        return disk_state(op, &d, "system", "disk rm");
    if (d.instance.s[0]) {
        TRY(store_instance_get(op->store, d.project, d.instance, &i));
        (void)refusef(&op->why, ERR_DISK_IN_USE, "name", "%s", d.name);
        refusal_set(&op->why, "instance", i.name);
        return ERR_DISK_IN_USE;
    }
    TRY(life_disk_erase(op, &d));
    return view_disk(op, NULL, &d);
}
