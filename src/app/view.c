#include "app/view.h"

#include "app/problem.h"
#include "base/msg.h"
#include "base/units.h"
#include "domain/node.h"
#include "store/rows_plan.h"

enum err view_currency(struct op *op, struct id project, struct currency *ret_ccy)
{
    struct project p;

    TRY(store_project_get(op->store, project, &p));
    return currency_get(p.currency, ret_ccy);
}

static void text_or_none(struct json_writer *w, const char *key, const char *v)
{
    json_str(w, key, v[0] ? v : NULL);
}

/* For the catalogue. */
static const char *const state_texts[INSTANCE_STATE_COUNT] = {
    N_("queued"),  N_("preparing"),   N_("running"),   N_("preempting"), N_("stopping"),
    N_("stopped"), N_("unreachable"), N_("releasing"), N_("released"),   N_("failed")};

static const char *const reason_texts[END_REASON_COUNT] = {
    [END_NONE] = "",
    [END_USER_STOP] = N_("stopped by its user"),
    [END_USER_RELEASE] = N_("released by its user"),
    [END_REACHED] = N_("its end was reached"),
    [END_IDLE] = N_("it was idle"),
    [END_BUDGET] = N_("the budget was used up"),
    [END_BALANCE] = N_("the balance was used up"),
    [END_RECLAIMED] = N_("reclaimed"),
    [END_NODE_LOST] = N_("its node was lost"),
    [END_GUEST_EXIT] = N_("the guest ended by itself"),
    [END_GUEST_OOM] = N_("the guest ran out of memory"),
    [END_GPU_OOM] = N_("a card ran out of memory"),
    [END_START_FAILED] = N_("it could not be started"),
    [END_OPERATOR] = N_("ended by the operator"),
};

static void view_problem(struct op *op, const char *key, const struct refusal *why)
{
    AUTO_STRBUF struct strbuf b = {0};

    if (why->code == ERR_OK) {
        json_none(&op->out, key);
        return;
    }
    strbuf_init(&b, 16384);
    problem_write(why, op->lang, op->request_id, &b);
    json_raw(&op->out, key, strbuf_str(&b));
}

/* Everything that an instance's answer is made from. */
struct instance_view {
    const struct instance *i; /* borrowed */
    struct lease lease;       /* the live one; id empty: none */
    struct lease_fact fact;
    struct node node, held; /* held: for it, while it waits */
    struct queue_told told;
    struct disk_list disks;
    struct spot_row spot;       /* instance empty: not at the spot price */
    struct reclaim_row reclaim; /* of the live lease; lease empty: none */
    struct shape runs;
    struct currency ccy;
    int64_t run_hour_u, stopped_hour_u, spent_u;
};

static void instance_view_free(struct instance_view **vp)
{
    store_fact_fini(&(*vp)->fact);
    vec_fini(&(*vp)->disks);
    free(*vp);
}

static enum err load_money(struct op *op, struct instance_view *v)
{
    struct funds_disk disks[FUNDS_DISKS_MAX];
    size_t n = 0;
    enum err e;

    VEC_FOREACH (d, &v->disks)
        if (n < FUNDS_DISKS_MAX && d->life <= DISK_LIFE_READY)
            disks[n++] = (struct funds_disk){.id = d->id, .kind = d->kind, .size_mib = d->size_mib};
    e = funds_rates(op->store, op->now, v->i->project, v->i->id, &v->runs, disks, n, &v->run_hour_u,
                    &v->stopped_hour_u, &op->why);
    if (e == ERR_PRICE_UNKNOWN) /* no longer sold: what runs goes on with its own binding */
        op->why = (struct refusal){0};
    else
        TRY(e);
    return funds_spent(op->store, v->i->id, &v->spent_u);
}

static enum err load_wait(struct op *op, struct instance_view *v)
{
    enum err e;

    if (v->i->state != INSTANCE_QUEUED)
        return ERR_OK;
    e = store_queue_told_get(op->store, v->i->id, &v->told);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    return v->told.node.s[0] ? store_node_get(op->store, v->told.node, &v->held) : ERR_OK;
}

static enum err instance_view_load(struct op *op, struct instance_view *v)
{
    enum err e;

    v->runs = life_run_shape(core_config_of(op->core), v->i);
    if (v->i->lease.s[0]) {
        TRY(store_lease_get(op->store, v->i->lease, &v->lease));
        e = store_fact_get(op->store, v->i->lease, &v->fact);
        if (e != ERR_OK && e != ERR_NOT_FOUND)
            return e;
    }
    if (v->i->node.s[0])
        TRY(store_node_get(op->store, v->i->node, &v->node));
    if (v->i->plan == PLAN_SPOT) {
        e = spot_row_get(op->store, v->i->id, &v->spot);
        if (e == ERR_OK)
            e = reclaim_row_get(op->store, v->i->lease, &v->reclaim);
        if (e != ERR_OK && e != ERR_NOT_FOUND)
            return e;
    }
    TRY(load_wait(op, v));
    TRY(store_disk_list_instance(op->store, v->i->id, &v->disks));
    TRY(view_currency(op, v->i->project, &v->ccy));
    return load_money(op, v);
}

void view_wait(struct json_writer *w, const char *key, const struct queue_told *t, const char *node)
{
    if (!t) {
        json_none(w, key);
        return;
    }
    json_object_begin(w, key);
    json_i64(w, "place", t->place);
    json_i64(w, "waiting", t->waiting);
    json_time(w, "early", t->early);
    json_time(w, "likely", t->likely);
    json_time(w, "late", t->late);
    text_or_none(w, "node", node);
    json_object_finish(w);
}

static void write_state(struct op *op, const struct instance_view *v)
{
    const struct instance *i = v->i;
    struct json_writer *w = &op->out;
    utime_t kept = i->kept_until;

    if (i->state == INSTANCE_STOPPING)
        kept = i->since + core_config_of(op->core)->keep_stopped_ms;
    json_str(w, "state", instance_state_name(i->state));
    json_str(w, "state_text", msg_tr(op->lang, state_texts[i->state]));
    json_str(w, "reason", i->reason == END_NONE ? NULL : end_reason_name(i->reason));
    json_str(w, "reason_text",
             i->reason == END_NONE ? NULL : msg_tr(op->lang, reason_texts[i->reason]));
    view_problem(op, "why", &i->why);
    view_wait(w, "wait", v->told.place ? &v->told : NULL, v->held.name);
    json_time(w, "since", i->since);
    json_time(w, "created_at", i->created_at);
    json_time(w, "ends_at", i->ends_at);
    json_str(w, "then", i->then == END_ACTION_RELEASE ? "release" : "stop");
    json_time(w, "paid_until", v->lease.paid_until);
    json_time(w, "kept_until", kept);
}

static void write_shape(struct op *op, const struct instance_view *v)
{
    const struct instance *i = v->i;
    struct json_writer *w = &op->out;

    text_or_none(w, "gpu", i->shape.gpu_model);
    json_i64(w, "gpu_count", i->shape.gpu_count);
    json_str(w, "plan", plan_name(i->plan));
    if (v->spot.instance.s[0])
        json_i64(w, "free_if_reclaimed_s", v->spot.free_within_s);
    else
        json_none(w, "free_if_reclaimed_s");
    json_time(w, "reclaimed_at", v->reclaim.decided_ms);
    text_or_none(w, "reclaim_reason", v->reclaim.reason);
    json_flag(w, "no_gpu", i->no_gpu);
    json_flag(w, "exclusive", i->shape.exclusive);
    json_i64(w, "cpu", (v->runs.cpu_milli + 999) / 1000);
    json_i64(w, "memory_mib", v->runs.memory_mib);
    json_flag(w, "simulated", i->simulated);
    text_or_none(w, "image", i->image_name);
    text_or_none(w, "image_digest", i->image);
    text_or_none(w, "node", v->node.name);
    text_or_none(w, "lease", i->lease.s);
}

static void write_disks(struct op *op, const struct instance_view *v)
{
    struct json_writer *w = &op->out;

    json_array_begin(w, "disks");
    VEC_FOREACH (d, &v->disks) {
        json_object_begin(w, NULL);
        json_str(w, "id", d->id.s);
        text_or_none(w, "name", d->name);
        json_str(w, "kind", d->kind == DISK_SYSTEM ? "system" : "data");
        json_i64(w, "size_mib", d->size_mib);
        json_i64(w, "used_mib", d->used_mib);
        text_or_none(w, "mount", d->mount);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void write_reach(struct op *op, const struct instance_view *v)
{
    const struct instance *i = v->i;
    const char *host = v->node.ssh_host[0] ? v->node.ssh_host : "127.0.0.1";
    struct json_writer *w = &op->out;
    uint16_t ssh = 0;

    json_array_begin(w, "ports");
    for (int32_t n = 0; n < i->port_count; n++) {
        if (i->ports[n].guest == 22)
            ssh = i->ports[n].host;
        json_object_begin(w, NULL);
        json_i64(w, "guest", i->ports[n].guest);
        json_i64(w, "host", i->ports[n].host);
        json_strf(w, "address", "%s:%u", host, i->ports[n].host);
        json_object_finish(w);
    }
    json_array_finish(w);
    if (!ssh || !i->host_key[0]) {
        json_none(w, "ssh");
        return;
    }
    json_object_begin(w, "ssh");
    json_str(w, "host", host);
    json_i64(w, "port", ssh);
    json_str(w, "user", core_config_of(op->core)->ssh_user);
    json_str(w, "host_key", i->host_key);
    json_object_finish(w);
}

static void write_step(struct op *op, const struct instance_view *v)
{
    if (v->i->state != INSTANCE_PREPARING || !v->fact.step_count) {
        json_none(&op->out, "step");
        return;
    }
    json_object_begin(&op->out, "step");
    json_i64(&op->out, "n", v->fact.step);
    json_i64(&op->out, "count", v->fact.step_count);
    json_str(&op->out, "text", v->fact.detail);
    json_object_finish(&op->out);
}

static void write_money(struct op *op, const struct instance_view *v)
{
    enum instance_state s = v->i->state;
    int64_t now_u = 0;

    if (instance_bills_gpu(s))
        now_u = v->run_hour_u;
    else if (instance_bills_disk(s))
        now_u = v->stopped_hour_u;
    json_money(&op->out, "price_hour", v->run_hour_u, v->ccy);
    json_money(&op->out, "price_hour_stopped", v->stopped_hour_u, v->ccy);
    json_money(&op->out, "rate_now", now_u, v->ccy);
    json_money(&op->out, "spent", v->spent_u, v->ccy);
    json_flag(&op->out, "billing_gpu", instance_bills_gpu(s));
    json_flag(&op->out, "billing_disk", instance_bills_disk(s));
}

static void write_actions(struct op *op, const struct instance *i)
{
    char labels[TEXT_SIZE], *rest = labels, *one;

    json_array_begin(&op->out, "actions");
    for (int a = 0; a < INSTANCE_ACTION_COUNT; a++)
        if (instance_may(i, (enum instance_action)a))
            json_str(&op->out, NULL, instance_action_name((enum instance_action)a));
    json_array_finish(&op->out);
    json_array_begin(&op->out, "labels");
    memcpy(labels, i->labels, sizeof(labels));
    while ((one = strsep(&rest, ",")))
        if (*one)
            json_str(&op->out, NULL, one);
    json_array_finish(&op->out);
}

static enum err write_instance(struct op *op, const char *key, const struct instance_view *v)
{
    const struct instance *i = v->i;
    struct json_writer *w = &op->out;

    json_object_begin(w, key);
    json_str(w, "id", i->id.s);
    json_str(w, "name", i->name);
    json_str(w, "project", i->project.s);
    write_state(op, v);
    write_shape(op, v);
    write_disks(op, v);
    write_reach(op, v);
    write_step(op, v);
    write_money(op, v);
    write_actions(op, i);
    json_i64(w, "idle_after_s", i->idle_s);
    json_str(w, "idle_action", i->idle_action == IDLE_ACTION_STOP ? "stop" : "notice");
    json_raw(w, "report", v->fact.report);
    if (v->node.seen_at && !instance_is_gone(i->state))
        json_i64(w, "truth_age_s", MAX(op->now - v->node.seen_at, (int64_t)0) / MS_PER_S);
    else
        json_none(w, "truth_age_s");
    json_object_finish(w);
    return ERR_OK;
}

enum err view_instance(struct op *op, const char *key, const struct instance *i)
{
    CLEANUP(instance_view_free) struct instance_view *v = mem_alloc(sizeof(*v));

    v->i = i;
    TRY(instance_view_load(op, v));
    return write_instance(op, key, v);
}

static const char *const disk_lives[] = {"wanted", "ready", "erasing", "erased"};

enum err view_disk(struct op *op, const char *key, const struct disk *d)
{
    struct json_writer *w = &op->out;
    struct instance *i = mem_alloc(sizeof(*i));
    AUTO_FREE struct instance *owned UNUSED = i;
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned_node UNUSED = n;
    int64_t hour_u = 0, spent_u = 0;
    struct currency ccy;

    TRY(view_currency(op, d->project, &ccy));
    if (d->instance.s[0])
        TRY(store_instance_get_any(op->store, d->instance, i));
    if (d->node.s[0])
        TRY(store_node_get(op->store, d->node, n));
    if (d->ready_at) {
        TRY(funds_disk_rate(op->store, op->now, d->id, &hour_u));
        TRY(funds_spent_disk(op->store, d->id, &spent_u));
    }
    json_object_begin(w, key);
    json_str(w, "id", d->id.s);
    text_or_none(w, "name", d->name);
    json_str(w, "kind", d->kind == DISK_SYSTEM ? "system" : "data");
    json_str(w, "state", disk_lives[d->life]);
    json_i64(w, "size_mib", d->size_mib);
    json_i64(w, "used_mib", d->used_mib);
    text_or_none(w, "instance", i->name);
    text_or_none(w, "mount", d->mount);
    text_or_none(w, "node", n->name);
    json_money(w, "price_hour", hour_u, ccy);
    json_money(w, "spent", spent_u, ccy);
    json_time(w, "kept_until", d->kept_until);
    text_or_none(w, "erased", d->life == DISK_LIFE_ERASED ? d->erased_method : "");
    json_time(w, "created_at", d->created_at);
    json_object_finish(w);
    return ERR_OK;
}

static void write_gpus(struct json_writer *w, const struct node *n)
{
    json_array_begin(w, "gpus");
    for (int32_t k = 0; k < n->gpu_count; k++) {
        const struct node_gpu *g = &n->gpus[k];

        json_object_begin(w, NULL);
        json_str(w, "uuid", g->uuid);
        json_str(w, "model", g->model);
        json_i64(w, "memory_mib", g->memory_mib);
        json_flag(w, "healthy", g->healthy);
        json_flag(w, "simulated", g->simulated);
        text_or_none(w, "lease", g->lease.s);
        json_object_finish(w);
    }
    json_array_finish(w);
}

enum err view_node(struct op *op, const char *key, const struct node *n)
{
    struct node_unknown_list unknown = {0};
    struct json_writer *w = &op->out;
    struct node_used used;
    enum err e;

    TRY(store_node_used(op->store, n->id, &used));
    json_object_begin(w, key);
    json_str(w, "id", n->id.s);
    json_str(w, "name", n->name);
    json_str(w, "state", node_state_name(n->state));
    json_time(w, "seen_at", n->seen_at);
    json_i64(w, "cores", n->cores);
    json_i64(w, "cores_free", MAX((n->cores * 1000ll - used.cpu_milli) / 1000, 0ll));
    json_i64(w, "memory_mib", n->memory_mib);
    json_i64(w, "memory_mib_free", MAX(n->memory_mib - used.memory_mib, (int64_t)0));
    json_i64(w, "disk_mib", n->disk_mib);
    json_i64(w, "disk_mib_free", MAX(n->disk_mib - used.disk_mib, (int64_t)0));
    text_or_none(w, "runtime", n->runtime);
    text_or_none(w, "cgroup", n->cgroup);
    text_or_none(w, "driver", n->driver);
    text_or_none(w, "cuda", n->cuda);
    json_flag(w, "simulated", n->simulated);
    write_gpus(w, n);
    e = store_unknown_list(op->store, n->id, &unknown);
    json_array_begin(w, "unknown");
    VEC_FOREACH (u, &unknown)
        json_str(w, NULL, u->lease);
    json_array_finish(w);
    vec_fini(&unknown);
    json_object_finish(w);
    return e;
}
