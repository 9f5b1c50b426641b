/* op_queue.c: the line as the operator sees it, and what is set for projects there. */
#include "app/line.h"
#include "app/op_people.h"
#include "app/view.h"
#include "base/msg.h"
#include "domain/queue.h"

static enum err write_wait(struct op *op, struct id instance)
{
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;
    struct queue_told t;
    enum err e = store_queue_told_get(op->store, instance, &t);

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (e == ERR_OK && t.node.s[0])
        TRY(store_node_get(op->store, t.node, n));
    view_wait(&op->out, "wait", e == ERR_OK ? &t : NULL, n->name);
    return ERR_OK;
}

static enum err write_entry(struct op *op, const struct instance *i)
{
    struct project p;

    TRY(store_project_get(op->store, i->project, &p));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", i->id.s);
    json_str(&op->out, "name", i->name);
    json_str(&op->out, "project", p.name);
    json_str(&op->out, "gpu", i->shape.gpu_count ? i->shape.gpu_model : NULL);
    json_i64(&op->out, "gpu_count", i->shape.gpu_count);
    json_time(&op->out, "since", i->since);
    json_time(&op->out, "ends_at", i->ends_at);
    TRY(write_wait(op, i->id));
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_queue_list(struct op *op)
{
    struct instance_list list = {0};
    struct page page;

    TRY(page_open(op, &page));
    enum err e = people_try(op, store_instance_list_state(op->store, INSTANCE_QUEUED, &list));
    for (size_t n = 0; e == ERR_OK && n < list.len; n++)
        if (page_takes(&page, list.at[n].id.s))
            e = people_try(op, write_entry(op, &list.at[n]));
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

/* A number of the body; what stands there already when absent. */
static enum err number(struct op *op, const char *name, int64_t max, int64_t *io)
{
    int64_t v;

    if (!json_object_get(op->body, name))
        return ERR_OK;
    if (!json_get_i64(op->body, name, *io, &v) || v < 0 || v > max)
        return people_invalid(op, name, N_("a number that is not negative, and not that large"));
    *io = v;
    return ERR_OK;
}

enum err op_queue_set(struct op *op)
{
    struct project p;
    struct queue_terms t;
    int64_t priority;

    (void)str_copy(op->object, sizeof(op->object), op->path_arg[0]);
    TRY(store_project_lookup(op->store, op->path_arg[0], &p, &op->why));
    TRY(people_try(op, line_terms(op, p.id, &t)));
    priority = t.priority;
    TRY(number(op, "share", 1000000, &t.share));
    TRY(number(op, "limit", 1000000, &t.cards_max));
    TRY(number(op, "priority", QUEUE_PRIORITY_MAX, &priority));
    t.priority = (int32_t)priority;
    TRY(people_try(op, store_queue_terms_save(op->store, &t)));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "project", p.name);
    json_i64(&op->out, "share", t.share);
    if (t.cards_max)
        json_i64(&op->out, "limit", t.cards_max);
    else
        json_none(&op->out, "limit");
    json_i64(&op->out, "priority", t.priority);
    json_object_finish(&op->out);
    return ERR_OK;
}
