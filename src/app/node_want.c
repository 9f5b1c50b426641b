/* What should be on a node: complete each time, read from what is committed. */
#include "app/core_int.h"
#include "app/image_ref.h"
#include "app/lifecycle.h"
#include "app/node_sync.h"
#include "app/outbox.h"

#define PIDS_MAX_DEFAULT 4096

/* Durations, never instants: counted from the moment the node's request arrived (op->now). */
static int64_t duration(const struct op *op, utime_t until)
{
    return until > op->now ? until - op->now : 0;
}

static enum err write_keys(struct op *op, struct id project)
{
    struct ssh_key_list keys = {0};
    enum err e = store_key_list_project(op->store, project, &keys);

    json_array_begin(&op->out, "keys");
    VEC_FOREACH (k, &keys)
        json_str(&op->out, NULL, k->public_key);
    json_array_finish(&op->out);
    vec_fini(&keys);
    return e;
}

static enum err write_disks(struct op *op, const struct instance *i)
{
    json_str(&op->out, "system_disk", i->system_disk.s);
    json_array_begin(&op->out, "data");
    for (int32_t n = 0; n < i->data_count; n++) {
        struct disk d;

        TRY(store_disk_get_any(op->store, i->data_disk[n], &d));
        json_object_begin(&op->out, NULL);
        json_str(&op->out, "disk", d.id.s);
        json_str(&op->out, "mount", d.mount);
        json_object_finish(&op->out);
    }
    json_array_finish(&op->out);
    return ERR_OK;
}

static enum err write_spec(struct op *op, const struct instance *i)
{
    CLEANUP(store_spec_fini) struct instance_spec spec;
    enum err e = store_spec_get(op->store, i->id, &spec);

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    json_raw(&op->out, "argv", spec.argv ? spec.argv : "[]");
    json_raw(&op->out, "env", spec.env ? spec.env : "[]");
    json_array_begin(&op->out, "ports");
    for (int32_t n = 0; n < i->port_count; n++) {
        json_object_begin(&op->out, NULL);
        json_i64(&op->out, "guest", i->ports[n].guest);
        json_i64(&op->out, "host", i->ports[n].host);
        json_object_finish(&op->out);
    }
    json_array_finish(&op->out);
    return ERR_OK;
}

static void write_bounds(struct op *op, const struct lease *l)
{
    json_i64(&op->out, "paid_for_ms", duration(op, l->paid_until));
    if (l->ends_at == UTIME_NEVER)
        json_none(&op->out, "ends_in_ms");
    else
        json_i64(&op->out, "ends_in_ms", duration(op, l->ends_at));
    json_i64(&op->out, "grace_ms", lease_grace_ms(l));
    json_str(&op->out, "reason", l->reason == END_NONE ? NULL : end_reason_name(l->reason));
}

/* The cards, and what is paid for: the first-boot report compares. */
static enum err write_cards(struct op *op, const struct lease *l)
{
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;

    json_array_begin(&op->out, "gpus");
    for (int32_t k = 0; k < l->gpu_count; k++)
        json_str(&op->out, NULL, l->gpus[k]);
    json_array_finish(&op->out);
    if (!l->gpu_count)
        return ERR_OK;
    TRY(store_node_get(op->store, l->node, n));
    for (int32_t k = 0; k < n->gpu_count; k++) {
        if (str_eq(n->gpus[k].uuid, l->gpus[0]))
            json_i64(&op->out, "gpu_memory_mib", n->gpus[k].memory_mib);
    }
    return ERR_OK;
}

static enum err write_lease(struct op *op, const struct lease *l)
{
    struct instance i;

    TRY(store_instance_get_any(op->store, l->instance, &i));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "lease", l->id.s);
    json_str(&op->out, "instance", i.id.s);
    json_str(&op->out, "name", i.name);
    json_i64(&op->out, "epoch", l->epoch);
    json_str(&op->out, "want", lease_want(l));
    write_bounds(op, l);
    json_str(&op->out, "image", i.image);
    json_i64(&op->out, "cpu_milli", l->cpu_milli);
    json_i64(&op->out, "memory_mib", l->memory_mib);
    json_i64(&op->out, "pids_max", PIDS_MAX_DEFAULT);
    TRY(write_cards(op, l));
    json_str(&op->out, "gpu_model", l->gpu_count > 0 ? i.shape.gpu_model : NULL);
    TRY(write_disks(op, &i));
    TRY(write_spec(op, &i));
    TRY(write_keys(op, i.project));
    json_i64(&op->out, "idle_s", i.idle_s);
    json_str(&op->out, "idle_action", i.idle_action == IDLE_ACTION_STOP ? "stop" : "notice");
    json_flag(&op->out, "want_logs", true);
    json_flag(&op->out, "simulated", i.simulated);
    json_object_finish(&op->out);
    return ERR_OK;
}

static enum err write_leases(struct op *op, struct id node)
{
    struct lease_list leases = {0};
    enum err e = store_lease_list_node(op->store, node, &leases);

    json_array_begin(&op->out, "leases");
    for (size_t n = 0; e == ERR_OK && n < leases.len; n++)
        e = write_lease(op, &leases.at[n]);
    json_array_finish(&op->out);
    vec_fini(&leases);
    return e;
}

static enum err write_node_disks(struct op *op, struct id node)
{
    struct disk_list disks = {0};
    enum err e = store_disk_list_node(op->store, node, &disks);

    json_array_begin(&op->out, "disks");
    VEC_FOREACH (d, &disks) {
        json_object_begin(&op->out, NULL);
        json_str(&op->out, "disk", d->id.s);
        json_str(&op->out, "instance", d->instance.s[0] ? d->instance.s : NULL);
        json_i64(&op->out, "size_mib", d->size_mib);
        json_str(&op->out, "want", d->life == DISK_LIFE_ERASING ? "erased" : "present");
        json_object_finish(&op->out);
    }
    json_array_finish(&op->out);
    vec_fini(&disks);
    return e;
}

static enum err write_images(struct op *op)
{
    struct image_list images = {0};
    enum err e = store_image_list(op->store, &images);

    json_array_begin(&op->out, "images");
    for (size_t n = 0; n < images.len; n++) {
        bool again = image_is_ref(images.at[n].digest); /* asked for in "resolve" */

        for (size_t k = 0; k < n; k++)
            again |= str_eq(images.at[k].digest, images.at[n].digest);
        if (again)
            continue;
        json_object_begin(&op->out, NULL);
        json_str(&op->out, "digest", images.at[n].digest);
        json_str(&op->out, "source", images.at[n].source);
        json_str(&op->out, "want", "present");
        json_object_finish(&op->out);
    }
    json_array_finish(&op->out);
    vec_fini(&images);
    return e;
}

static void write_kill(struct op *op, const struct outbox_list *box)
{
    json_array_begin(&op->out, "kill_unknown");
    VEC_FOREACH (o, box)
        if (str_eq(o->kind, "kill_unknown"))
            json_str(&op->out, NULL, o->target);
    json_array_finish(&op->out);
}

static enum err write_ack(struct op *op, struct id node)
{
    const char *boot = "", *older = "";
    struct node_boot b;
    enum err e;

    (void)json_get_str(op->body, "boot", "", &boot);
    (void)json_get_str(op->body, "slices_boot", "", &older);
    e = store_node_boot_get(op->store, node, older[0] ? older : boot, &b);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    json_i64(&op->out, "ack_seq", b.ack_seq);
    return ERR_OK;
}

enum err node_want_write(struct op *op)
{
    struct id node = op->who.node;
    struct outbox_list box = {0};
    int64_t version;
    enum err e;

    if (store_node_version(op->store, node, &version) != ERR_OK)
        return refuse(&op->why, ERR_NODE_AUTH);
    json_object_begin(&op->out, NULL);
    json_i64(&op->out, "version", version);
    TRY(write_ack(op, node));
    json_str(&op->out, "node", node.s);
    e = store_outbox_list(op->store, node, &box);
    if (e == ERR_OK)
        e = write_leases(op, node);
    if (e == ERR_OK)
        e = write_node_disks(op, node);
    if (e == ERR_OK)
        e = write_images(op);
    if (e == ERR_OK)
        e = image_resolve_write(op, &op->out);
    write_kill(op, &box);
    vec_fini(&box);
    TRY(e);
    json_object_finish(&op->out);
    return ERR_OK;
}
