/* From "this instance is wanted" to a granted lease: place, ports, disks, money, node. */
#include "app/core_int.h"
#include "app/lifecycle.h"
#include "app/outbox.h"
#include "base/msg.h"

struct shape life_run_shape(const struct core_config *cfg, const struct instance *i)
{
    struct shape s = i->shape;

    if (!i->no_gpu || !s.gpu_count)
        return s;
    s.gpu_model[0] = 0;
    s.gpu_count = 0;
    s.exclusive = false;
    s.cpu_milli = 1000;
    s.memory_mib = cfg->seat_memory_mib;
    return s;
}

int64_t life_for_s(const struct op *op, const struct instance *i)
{
    if (i->ends_at == UTIME_NEVER)
        return 0;
    return MAX((i->ends_at - op->now + MS_PER_S - 1) / MS_PER_S, (int64_t)1);
}

void life_spender(const struct instance *i, struct funds_spender *ret_s)
{
    ret_s->user = i->owner;
    memcpy(ret_s->labels, i->labels, sizeof(ret_s->labels));
}

enum err life_ask(struct op *op, const struct instance *i, int64_t for_s, struct funds_ask *ret_ask)
{
    struct funds_ask ask = {
        .project = i->project, .instance = i->id, .spot = i->plan == PLAN_SPOT, .for_s = for_s};

    life_spender(i, &ask.spender);
    ask.shape = life_run_shape(core_config_of(op->core), i);
    for (int32_t n = 0; n < i->data_count; n++) {
        struct disk d;

        TRY(store_disk_get_any(op->store, i->data_disk[n], &d));
        ask.data_mib[ask.data_count++] = d.size_mib;
    }
    *ret_ask = ask;
    return ERR_OK;
}

/* placing */

void life_pool_fini(struct life_pool *c)
{
    vec_fini(&c->nodes);
    free(c->at);
    free(c->why);
    market_fini(&c->market);
}

enum err life_pool_load(struct op *op, struct life_pool *c)
{
    TRY(market_load(op->store, core_config_of(op->core), op->now, &c->market));
    TRY(store_node_list(op->store, &c->nodes));
    c->at = mem_alloc((c->nodes.len + 1) * sizeof(*c->at));
    c->why = mem_alloc((c->nodes.len + 1) * sizeof(*c->why));
    for (size_t n = 0; n < c->nodes.len; n++) {
        struct node_used u;

        TRY(store_node_used(op->store, c->nodes.at[n].id, &u));
        c->at[n] = (struct place_node){.node = &c->nodes.at[n],
                                       .cpu_milli_used = u.cpu_milli,
                                       .memory_mib_used = u.memory_mib,
                                       .disk_mib_used = u.disk_mib,
                                       .ports_used = (int32_t)u.ports,
                                       .leases = (int32_t)u.leases,
                                       .exclusive = u.exclusive};
    }
    return ERR_OK;
}

static void why_line(struct strbuf *b, const struct node *n, const struct place_why *w)
{
    strbuf_addf(b, "%s%s: ", b->len ? "; " : "", n->name);
    switch (w->bar) {
    case PLACE_FITS:
        break;
    case PLACE_PINNED:
        strbuf_add(b, "its disks are elsewhere");
        break;
    case PLACE_MODEL:
        strbuf_add(b, "no such card");
        break;
    case PLACE_DRIVER:
        strbuf_addf(b, "driver %s", n->driver[0] ? n->driver : "none");
        break;
    case PLACE_CUDA:
        strbuf_addf(b, "CUDA %s", n->cuda[0] ? n->cuda : "none");
        break;
    case PLACE_STATE:
        strbuf_add(b, n->state == NODE_DRAINING ? "draining" : "not heard of");
        break;
    case PLACE_EXCLUSIVE:
        strbuf_add(b, w->need ? "somebody has it alone" : "others run there");
        break;
    case PLACE_CARDS:
    case PLACE_PORTS:
        strbuf_addf(b, "%s %" PRId64 "/%" PRId64, place_bar_name(w->bar), w->have, w->need);
        break;
    case PLACE_CPU:
        strbuf_addf(b, "cores %" PRId64 "/%" PRId64, w->have / 1000, (w->need + 999) / 1000);
        break;
    case PLACE_MEMORY:
    case PLACE_DISK:
        strbuf_addf(b, "%s %" PRId64 "/%" PRId64 " MiB", place_bar_name(w->bar), w->have, w->need);
        break;
    }
}

static void near_text(const struct place_ask *ask, const struct shape *near, char *buf, size_t size)
{
    if (near->gpu_count)
        (void)str_printf(buf, size, "suanli rent --gpu '%s' --count %d%s", near->gpu_model,
                         near->gpu_count, near->exclusive ? " --exclusive" : "");
    else if (near->cpu_milli)
        (void)str_printf(buf, size, "suanli rent --cpu %d --memory %" PRId64 "MiB",
                         near->cpu_milli / 1000, near->memory_mib);
    else
        (void)str_printf(buf, size, "suanli offers%s%s%s", ask->shape.gpu_count ? " 'gpu=" : "",
                         ask->shape.gpu_model, ask->shape.gpu_count ? "'" : "");
}

static void nodes_that_can(const struct place_ask *ask, const struct life_pool *c,
                           struct strbuf *out)
{
    struct place_result r;

    for (size_t n = 0; n < c->nodes.len; n++) {
        place_decide(ask, &c->at[n], 1, NULL, &r);
        if (r.ever)
            strbuf_addf(out, "%s%s", out->len ? ", " : "", c->nodes.at[n].name);
    }
}

/* All that stands in the way is what the image asks of the driver. */
static enum err refuse_driver(struct op *op, const struct place_ask *ask, const struct life_pool *c,
                              size_t at)
{
    const struct node *n = &c->nodes.at[at];
    AUTO_STRBUF struct strbuf can;
    bool cuda = c->why[at].bar == PLACE_CUDA;

    strbuf_init(&can, REFUSAL_VALUE_MAX - 1);
    nodes_that_can(ask, c, &can);
    (void)refusef(&op->why, ERR_IMAGE_DRIVER, "need", "%s %s", cuda ? "CUDA" : "driver",
                  cuda ? ask->need_cuda : ask->need_driver);
    const char *have = cuda ? n->cuda : n->driver;
    refusal_setf(&op->why, "have", "%s %s", cuda ? "CUDA" : "driver", have[0] ? have : "none");
    refusal_set(&op->why, "fit", can.len ? strbuf_str(&can) : "suanli image ls");
    return ERR_IMAGE_DRIVER;
}

static enum err refuse_place(struct op *op, const struct place_ask *ask, const struct life_pool *c,
                             const struct place_result *r)
{
    AUTO_STRBUF struct strbuf why;
    char fit[REFUSAL_VALUE_MAX];
    size_t driver = SIZE_MAX;
    bool others = false;

    strbuf_init(&why, REFUSAL_VALUE_MAX - 1);
    for (size_t n = 0; n < c->nodes.len; n++) {
        why_line(&why, &c->nodes.at[n], &c->why[n]);
        if (c->why[n].bar == PLACE_DRIVER || c->why[n].bar == PLACE_CUDA)
            driver = n;
        else if (c->why[n].bar != PLACE_MODEL && c->why[n].bar != PLACE_PINNED)
            others = true;
    }
    if (driver != SIZE_MAX && !others)
        return refuse_driver(op, ask, c, driver);
    near_text(ask, &r->near, fit, sizeof(fit));
    (void)refusef(&op->why, r->ever ? ERR_CAPACITY_NONE : ERR_CAPACITY_NEVER, "what", "%s",
                  ask->shape.gpu_count ? ask->shape.gpu_model : "cpu");
    refusal_set(&op->why, "why", why.len ? strbuf_str(&why) : "-");
    refusal_set(&op->why, "fit", fit);
    return op->why.code;
}

static enum err ask_disks(struct op *op, const struct instance *i, struct place_ask *ask)
{
    if (!i->system_disk.s[0])
        ask->disk_mib += i->shape.system_disk_mib;
    else
        ask->pinned = i->node;
    for (int32_t n = 0; n < i->data_count; n++) {
        struct disk d;

        TRY(store_disk_get_any(op->store, i->data_disk[n], &d));
        if (!d.node.s[0])
            ask->disk_mib += d.size_mib;
        else if (ask->pinned.s[0] && !str_eq(ask->pinned.s, d.node.s))
            return refusef(&op->why, ERR_VALIDATION, "field", "disk %s", d.name);
        else
            ask->pinned = d.node;
    }
    return ERR_OK;
}

enum err life_place_ask(struct op *op, const struct instance *i, struct image *ret_image,
                        struct place_ask *ret_ask)
{
    struct place_ask ask = {.shape = life_run_shape(core_config_of(op->core), i)};
    enum err e = store_image_get(op->store, i->image, ret_image);

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    ask.need_driver = ret_image->need_driver;
    ask.need_cuda = ret_image->need_cuda;
    for (int32_t n = 0; n < i->port_count; n++)
        ask.ports += !i->ports[n].host;
    TRY(ask_disks(op, i, &ask));
    *ret_ask = ask;
    return ERR_OK;
}

static enum err place_on(struct op *op, const struct instance *i, struct id node,
                         struct place_result *ret_r, struct node *ret_node)
{
    CLEANUP(life_pool_fini) struct life_pool c = {0};
    struct image image = {0};
    struct place_ask ask;

    TRY(life_place_ask(op, i, &image, &ask));
    if (node.s[0] && !ask.pinned.s[0])
        ask.pinned = node;
    TRY(life_pool_load(op, &c));
    ask.market = &c.market.seen;
    place_decide(&ask, c.at, c.nodes.len, c.why, ret_r);
    if (ret_r->best < 0)
        return refuse_place(op, &ask, &c, ret_r);
    *ret_node = c.nodes.at[ret_r->best];
    return ERR_OK;
}

enum err life_place(struct op *op, const struct instance *i, struct place_result *ret_r,
                    struct node *ret_node)
{
    return place_on(op, i, (struct id){""}, ret_r, ret_node);
}

enum err life_ports(struct op *op, struct instance *i, const struct node *n)
{
    for (int32_t k = 0; k < i->port_count; k++) {
        int64_t port = n->port_min;

        for (; !i->ports[k].host && port && port <= n->port_max; port++) {
            bool taken;

            TRY(store_host_port_taken(op->store, n->id, port, &taken));
            for (int32_t other = 0; other < k; other++)
                taken |= i->ports[other].host == port;
            if (!taken)
                i->ports[k].host = (uint16_t)port;
        }
        if (!i->ports[k].host)
            return refusef(&op->why, ERR_CAPACITY_NONE, "what", "%s", "port");
    }
    return ERR_OK;
}

/* the grant */

static enum err make_system_disk(struct op *op, struct instance *i)
{
    struct disk d = {.id = core_id(op->core, "dsk"),
                     .project = i->project,
                     .node = i->node,
                     .instance = i->id,
                     .kind = DISK_SYSTEM,
                     .size_mib = i->shape.system_disk_mib,
                     .created_at = op->now};

    CHECK(str_copy(d.mount, sizeof(d.mount), "/"));
    i->system_disk = d.id;
    TRY(store_instance_save(op->store, i));
    return store_disk_save(op->store, &d);
}

static enum err place_disks(struct op *op, struct instance *i, struct funds_lease *fl)
{
    struct disk_list disks = {0};
    enum err e;

    if (!i->system_disk.s[0])
        TRY(make_system_disk(op, i));
    e = store_disk_list_instance(op->store, i->id, &disks);
    for (size_t n = 0; e == ERR_OK && n < disks.len && n < FUNDS_DISKS_MAX; n++) {
        struct disk *d = &disks.at[n];

        fl->disks[fl->disk_count++] =
            (struct funds_disk){.id = d->id, .kind = d->kind, .size_mib = d->size_mib};
        if (!d->node.s[0]) {
            d->node = i->node;
            e = store_disk_save(op->store, d);
        }
    }
    vec_fini(&disks);
    return e;
}

static enum err lease_epoch(struct op *op, struct id instance, int64_t *ret_epoch)
{
    struct lease_list list = {0};
    enum err e = store_lease_list_instance(op->store, instance, &list);

    *ret_epoch = (int64_t)list.len + 1;
    vec_fini(&list);
    return e;
}

static enum err lease_make(struct op *op, const struct instance *i, const struct node *n,
                           const struct place_result *r, struct lease *ret_l)
{
    struct lease l = {.id = core_id(op->core, "lea"),
                      .instance = i->id,
                      .node = n->id,
                      .state = LEASE_GRANTED,
                      .granted_at = op->now,
                      .paid_until = op->now,
                      .ends_at = i->ends_at,
                      .grace_ms = op->core->config.stop_grace_ms,
                      .gpu_count = r->shape.gpu_count,
                      .cpu_milli = r->shape.cpu_milli,
                      .memory_mib = r->shape.memory_mib,
                      .exclusive = r->shape.exclusive};

    TRY(lease_epoch(op, i->id, &l.epoch));
    for (int32_t k = 0; k < l.gpu_count; k++)
        memcpy(l.gpus[k], n->gpus[r->gpu[k]].uuid, UUID_SIZE);
    *ret_l = l;
    return ERR_OK;
}

static enum err lease_pay(struct op *op, const struct instance *i, struct funds_lease *fl,
                          struct lease *l, const struct place_result *r)
{
    struct funds_term term;

    fl->project = i->project;
    life_spender(i, &fl->spender);
    fl->instance = i->id;
    fl->lease = l->id;
    fl->node = l->node;
    fl->epoch = l->epoch;
    fl->shape = r->shape;
    fl->spot = i->plan == PLAN_SPOT;
    fl->ends_at = l->ends_at;
    fl->simulated = i->simulated;
    TRY(funds_lease_open(op->store, op->now, op->core->config.term_s, fl, &term, &op->why));
    l->paid_until = term.paid_until;
    l->limit = (int32_t)term.limit;
    return store_lease_save(op->store, l);
}

static enum err gate(struct op *op, const struct instance *i)
{
    int64_t for_s = life_for_s(op, i);
    struct funds_ask ask;
    struct funds_quote q;

    TRY(life_ask(op, i, for_s, &ask));
    TRY(funds_quote(op->store, op->now, op->core->config.term_s, &ask, &q, &op->why));
    return funds_gate(op->store, op->now, &ask, &q, &op->why);
}

enum err life_grant(struct op *op, struct instance *i, enum instance_event ev)
{
    return life_grant_on(op, i, ev, (struct id){""});
}

enum err life_grant_on(struct op *op, struct instance *i, enum instance_event ev, struct id node)
{
    struct funds_lease fl = {0};
    struct place_result r;
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;
    struct lease l;

    if (core_clock_alarm(op->core))
        return refuse(&op->why, ERR_CLOCK_STEP);
    TRY(place_on(op, i, node, &r, n));
    TRY(gate(op, i));
    i->node = n->id;
    i->simulated = n->simulated;
    if (!i->no_gpu)
        i->shape = r.shape;
    TRY(life_ports(op, i, n));
    TRY(place_disks(op, i, &fl));
    TRY(lease_make(op, i, n, &r, &l));
    i->lease = l.id;
    i->reason = END_NONE;
    i->why = (struct refusal){0};
    *i = instance_decide(i, ev, true, op->now, 0);
    TRY(store_instance_save(op->store, i));
    TRY(store_lease_save(op->store, &l));
    TRY(lease_pay(op, i, &fl, &l, &r));
    TRY(op->core->engine.driver->submit(&op->core->engine, &l, &op->why));
    return event_emit(op, i->project, i->id, "instance.preparing", N_("{name} is being prepared."),
                      "{s:s,s:s}", "name", i->name, "node", n->name);
}
