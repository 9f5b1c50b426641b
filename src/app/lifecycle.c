#include "app/lifecycle.h"

#include "app/core_int.h"
#include "app/outbox.h"
#include "base/msg.h"
#include "base/units.h"
#include "store/rows_plan.h"

static void tell(struct op *op, struct id node)
{
    if (node.s[0])
        engine_tell(&op->core->engine, node);
}

/* What the feed says when an instance has come into a state. */
static const struct {
    const char *kind, *text;
} state_events[INSTANCE_STATE_COUNT] = {
    [INSTANCE_QUEUED] = {"instance.queued", N_("{name} waits in line.")},
    [INSTANCE_PREPARING] = {"instance.preparing", N_("{name} is being prepared.")},
    [INSTANCE_RUNNING] = {"instance.running", N_("{name} is running and reachable.")},
    [INSTANCE_PREEMPTING] = {"instance.preempting",
                             N_("{name} is being reclaimed; it stops at {ends}.")},
    [INSTANCE_STOPPING] = {"instance.stopping",
                           N_("{name} is stopping ({reason}); its cards cost nothing any more.")},
    [INSTANCE_STOPPED] = {"instance.stopped",
                          N_("{name} is stopped ({reason}); its disks are kept.")},
    [INSTANCE_UNREACHABLE] = {"instance.unreachable",
                              N_("{name} is unreachable: no proof of life from its node. It costs "
                                 "nothing meanwhile.")},
    [INSTANCE_RELEASING] = {"instance.releasing",
                            N_("{name} is being released; its data is erased.")},
    [INSTANCE_RELEASED] = {"instance.released", N_("{name} is released; its data is erased.")},
    [INSTANCE_FAILED] = {"instance.failed", N_("{name} could not be started; it cost nothing.")},
};

static enum err state_event(struct op *op, const struct instance *i)
{
    char ends[40] = "";

    if (i->ends_at != UTIME_NEVER)
        time_format(i->ends_at, ends, sizeof(ends));
    return event_emit(op, i->project, i->id, state_events[i->state].kind,
                      state_events[i->state].text, "{s:s,s:s,s:s,s:s}", "name", i->name, "reason",
                      end_reason_name(i->reason), "state", instance_state_name(i->state), "ends",
                      ends);
}

/* Moves it along its table; says so when it moved. The row is saved either way. */
static enum err instance_move(struct op *op, struct instance *i, enum instance_event ev)
{
    struct instance next;
    bool ran;

    TRY(store_instance_ran(op->store, i->id, &ran));
    next = instance_decide(i, ev, ran, op->now, op->core->config.keep_stopped_ms);
    bool moved = next.state != i->state;
    *i = next;
    TRY(store_instance_save(op->store, i));
    if (moved && i->state == INSTANCE_RELEASED)
        TRY(store_log_remove(op->store, i->id));
    return moved ? state_event(op, i) : ERR_OK;
}

/* disks */

enum err life_disk_ready(struct op *op, struct disk *d)
{
    struct funds_disk fd = {.id = d->id, .kind = d->kind, .size_mib = d->size_mib};

    if (d->life != DISK_LIFE_WANTED)
        return ERR_OK;
    d->life = DISK_LIFE_READY;
    d->ready_at = op->now;
    TRY(store_disk_save(op->store, d));
    TRY(funds_disk_open(op->store, d->project, d->instance, d->node, &fd, d->ready_at));
    if (d->kind == DISK_SYSTEM)
        return ERR_OK;
    return event_emit(op, d->project, d->instance, "disk.ready", N_("Disk {name} is ready."),
                      "{s:s,s:s}", "name", d->name, "disk", d->id.s);
}

enum err life_disk_erase(struct op *op, struct disk *d)
{
    bool made = d->ready_at != 0;

    if (d->life == DISK_LIFE_ERASING || d->life == DISK_LIFE_ERASED)
        return ERR_OK;
    d->life = DISK_LIFE_ERASING;
    TRY(store_disk_save(op->store, d));
    if (made)
        TRY(funds_disk_close(op->store, op->now, d->id));
    if (!d->node.s[0]) /* no node ever knew of it */
        return life_disk_erased(op, d, "none", 0, 0);
    tell(op, d->node);
    return ERR_OK;
}

/* From the accepted release on: what will be erased costs nothing, what is kept is detached. */
static enum err instance_disks_released(struct op *op, struct id instance)
{
    struct disk_list disks = {0};
    enum err e = store_disk_list_instance(op->store, instance, &disks);

    for (size_t n = 0; e == ERR_OK && n < disks.len; n++) {
        const struct disk *d = &disks.at[n];
        bool goes = d->kind == DISK_SYSTEM || (d->kept_until && d->kept_until <= op->now);

        e = goes ? funds_disk_close(op->store, op->now, d->id)
                 : funds_disk_detach(op->store, op->now, d->id);
    }
    vec_fini(&disks);
    return e;
}

/* All that was to be erased with the instance is gone. */
static enum err instance_disks_gone(struct op *op, struct id instance, bool *ret_gone)
{
    struct disk_list disks = {0};
    enum err e = store_disk_list_instance(op->store, instance, &disks);

    *ret_gone = true;
    VEC_FOREACH (d, &disks)
        *ret_gone &= d->life == DISK_LIFE_ERASED;
    vec_fini(&disks);
    return e;
}

enum err life_disk_erased(struct op *op, struct disk *d, const char *method, int64_t bytes,
                          int64_t ms)
{
    struct id was_in = d->instance;
    struct instance i;
    bool gone;

    if (d->life != DISK_LIFE_ERASING)
        return ERR_OK;
    d->life = DISK_LIFE_ERASED;
    (void)str_copy(d->erased_method, sizeof(d->erased_method), method);
    d->erased_bytes = bytes;
    d->erase_ms = ms;
    if (d->kind == DISK_DATA)
        d->instance = (struct id){""};
    TRY(store_disk_save(op->store, d));
    tell(op, d->node);
    TRY(event_emit(op, d->project, was_in, "disk.erased",
                   N_("Disk {name} is erased ({method}, {bytes} bytes)."), "{s:s,s:s,s:s,s:I}",
                   "name", d->name[0] ? d->name : d->id.s, "disk", d->id.s, "method",
                   d->erased_method, "bytes", (json_int_t)bytes));
    if (!was_in.s[0])
        return ERR_OK;
    TRY(store_instance_get_any(op->store, was_in, &i));
    TRY(instance_disks_gone(op, was_in, &gone));
    return gone && i.state == INSTANCE_RELEASING ? instance_move(op, &i, INSTANCE_EV_ERASED)
                                                 : ERR_OK;
}

static enum err disk_part(struct op *op, const struct instance *i, struct disk *d, bool ran)
{
    bool born_with_it = !ran && d->created_at == i->created_at;
    bool goes = d->kept_until && d->kept_until <= op->now;

    if (d->kind == DISK_SYSTEM || born_with_it || goes)
        return life_disk_erase(op, d);
    d->instance = (struct id){""};
    d->mount[0] = 0;
    return store_disk_save(op->store, d);
}

/* Nothing of a lease is left: its system disk is erased, data disks are detached or go too. */
static enum err instance_take_apart(struct op *op, struct instance *i)
{
    struct disk_list disks = {0};
    enum err e = store_disk_list_instance(op->store, i->id, &disks);
    bool ran = false, gone;

    if (e == ERR_OK)
        e = store_instance_ran(op->store, i->id, &ran);
    for (size_t n = 0; e == ERR_OK && n < disks.len; n++)
        e = disk_part(op, i, &disks.at[n], ran);
    vec_fini(&disks);
    TRY(e);
    i->port_count = 0;
    TRY(store_instance_save(op->store, i));
    TRY(instance_disks_gone(op, i->id, &gone));
    return gone && i->state == INSTANCE_RELEASING ? instance_move(op, i, INSTANCE_EV_ERASED)
                                                  : ERR_OK;
}

/* leases */

static enum err lease_money(struct op *op, const struct lease *l, unsigned fx)
{
    if (fx & LEASE_FX_READY)
        TRY(funds_lease_ready(op->store, l->id, l->ready_at));
    if (fx & LEASE_FX_STOP)
        TRY(funds_lease_stop(op->store, l->id, l->stop_at));
    if (fx & LEASE_FX_SETTLE)
        TRY(funds_lease_settle(op->store, op->now, l->id, l->ended_at, lease_by_platform(l->reason),
                               &op->why));
    return ERR_OK;
}

/* Why it ends in the end: a decision to take it back stands before whatever comes after it. */
static enum err end_of(struct op *op, struct id lease, enum end_reason *io_reason)
{
    struct reclaim_row r;
    enum err e = lease.s[0] ? reclaim_row_get(op->store, lease, &r) : ERR_NOT_FOUND;

    if (e == ERR_OK)
        *io_reason = END_RECLAIMED;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* The lease is over by itself or by its node's word; what that makes of the instance. */
static enum err instance_lease_over(struct op *op, struct instance *i, const struct lease *l,
                                    const struct refusal *why)
{
    bool failed = !l->ready_at;
    enum instance_event ev = failed ? INSTANCE_EV_FAIL : INSTANCE_EV_STOP;

    if (i->state == INSTANCE_RELEASING || i->state == INSTANCE_STOPPING)
        return ERR_OK; /* that is what everybody waits for; the reason stays the accepted one */
    i->reason = l->reason;
    if (failed) {
        i->reason = END_START_FAILED;
        if (why && why->code != ERR_OK)
            i->why = *why;
        else
            (void)refusef(&i->why, ERR_RUNTIME, "why", "%s", end_reason_name(l->reason));
    }
    if (!failed && l->reason == END_REACHED && i->then == END_ACTION_RELEASE)
        ev = INSTANCE_EV_RELEASE;
    if (ev == INSTANCE_EV_RELEASE)
        TRY(instance_disks_released(op, i->id));
    return instance_move(op, i, ev);
}

static enum err instance_lease_closed(struct op *op, struct instance *i)
{
    i->lease = (struct id){""};
    TRY(instance_move(op, i, INSTANCE_EV_CLOSED));
    return i->state == INSTANCE_RELEASING || i->state == INSTANCE_FAILED
               ? instance_take_apart(op, i)
               : ERR_OK;
}

enum err life_lease(struct op *op, struct lease *l, const struct lease_event *ev,
                    const struct refusal *why)
{
    struct lease_event of = *ev;
    struct lease_step step;
    struct instance i;

    TRY(end_of(op, l->id, &of.reason));
    TRY(lease_decide(l, &of, op->now, &step));
    if (!step.effects)
        return ERR_OK;
    *l = step.next;
    CHECK(lease_check(l, NULL) == ERR_OK);
    TRY(store_lease_save(op->store, l));
    TRY(lease_money(op, l, step.effects));
    if (step.effects & LEASE_FX_TELL)
        tell(op, l->node);
    TRY(store_instance_get_any(op->store, l->instance, &i));
    if (!str_eq(i.lease.s, l->id.s))
        return ERR_OK;
    switch (ev->kind) {
    case LEASE_EV_READY:
        i.why = (struct refusal){0};
        return instance_move(op, &i, INSTANCE_EV_READY);
    case LEASE_EV_STOP:
        return ERR_OK; /* whoever stopped it moved the instance */
    case LEASE_EV_ENDED:
        return instance_lease_over(op, &i, l, why);
    case LEASE_EV_CLEAN:
        return instance_lease_closed(op, &i);
    }
    return ERR_OK;
}

static enum err lease_stop(struct op *op, struct instance *i, enum end_reason reason)
{
    struct lease_event ev = {.kind = LEASE_EV_STOP, .at = op->now, .reason = reason};
    struct lease l;

    if (!i->lease.s[0])
        return ERR_OK;
    TRY(store_lease_get(op->store, i->lease, &l));
    TRY(life_lease(op, &l, &ev, NULL));
    return op->core->engine.driver->stop(&op->core->engine, &l);
}

enum err life_end_set(struct op *op, const struct instance *i)
{
    struct funds_term term;
    struct lease l;

    TRY(store_instance_save(op->store, i));
    if (!i->lease.s[0])
        return ERR_OK;
    TRY(store_lease_get(op->store, i->lease, &l));
    l.ends_at = i->ends_at;
    TRY(funds_lease_end_set(op->store, l.id, l.ends_at));
    if (l.paid_until < l.ends_at) {
        TRY(funds_lease_renew(op->store, op->now, core_config_of(op->core)->term_s, l.id, &term,
                              &op->why));
        l.paid_until = term.paid_until;
        l.limit = (int32_t)term.limit;
    }
    TRY(store_lease_save(op->store, &l));
    return store_node_bump(op->store, l.node);
}

enum err life_stop(struct op *op, struct instance *i, enum end_reason reason)
{
    TRY(end_of(op, i->lease, &reason));
    i->reason = reason;
    TRY(lease_stop(op, i, reason));
    TRY(instance_move(op, i, INSTANCE_EV_STOP));
    return i->lease.s[0] || !instance_is_gone(i->state) ? ERR_OK : instance_take_apart(op, i);
}

enum err life_release(struct op *op, struct instance *i, bool with_disks, enum end_reason reason)
{
    struct disk_list disks = {0};
    enum err e = ERR_OK;

    if (with_disks) {
        e = store_disk_list_instance(op->store, i->id, &disks);
        for (size_t n = 0; e == ERR_OK && n < disks.len; n++) {
            disks.at[n].kept_until = op->now;
            e = store_disk_save(op->store, &disks.at[n]);
        }
        vec_fini(&disks);
        TRY(e);
    }
    TRY(end_of(op, i->lease, &reason));
    i->reason = reason;
    TRY(lease_stop(op, i, reason));
    TRY(instance_disks_released(op, i->id));
    TRY(instance_move(op, i, INSTANCE_EV_RELEASE));
    return i->lease.s[0] ? ERR_OK : instance_take_apart(op, i);
}

enum err life_reclaim(struct op *op, struct instance *i, int64_t free_within_s, const char *reason)
{
    bool told = i->state == INSTANCE_RUNNING;
    utime_t notice_ms = told ? op->core->config.spot_notice_s * MS_PER_S : 0;
    struct reclaim_row r = {.lease = i->lease,
                            .instance = i->id,
                            .decided_ms = op->now,
                            .ends_ms = MIN(op->now + notice_ms, i->ends_at),
                            .free_within_s = free_within_s};

    CHECK(str_copy(r.reason, sizeof(r.reason), reason));
    TRY(reclaim_row_save(op->store, &r));
    if (reason[0])
        TRY(event_emit(op, i->project, i->id, "instance.reclaimed",
                       N_("The platform takes {name} back: {why}"), "{s:s,s:s}", "name", i->name,
                       "why", reason));
    if (!told)
        return life_stop(op, i, END_RECLAIMED);
    i->ends_at = r.ends_ms;
    TRY(instance_move(op, i, INSTANCE_EV_RECLAIM));
    return life_end_set(op, i);
}

enum end_reason life_unpaid_reason(const struct lease *l)
{
    switch ((enum term_limit)l->limit) {
    case TERM_BY_BUDGET:
        return END_BUDGET;
    case TERM_BY_FUNDS:
        return END_BALANCE;
    case TERM_FULL:
    case TERM_BY_END:
        return END_NODE_LOST;
    }
    return END_NODE_LOST;
}

/* nodes */

static enum err lease_gap_open(struct op *op, const struct lease *l)
{
    struct lease_gap gap = {.lease = l->id, .from_ms = op->now, .to_ms = UTIME_NEVER};
    struct instance i;

    if (l->state != LEASE_RUNNING)
        return ERR_OK;
    TRY(store_gap_save(op->store, &gap));
    TRY(store_instance_get_any(op->store, l->instance, &i));
    return instance_move(op, &i, INSTANCE_EV_SILENT);
}

enum err life_node_silent(struct op *op, struct node *n)
{
    struct lease_list leases = {0};
    enum err e;

    n->state = NODE_SILENT;
    TRY(store_node_save(op->store, n));
    e = store_lease_list_node(op->store, n->id, &leases);
    for (size_t k = 0; e == ERR_OK && k < leases.len; k++)
        e = lease_gap_open(op, &leases.at[k]);
    vec_fini(&leases);
    TRY(e);
    return event_emit(op, (struct id){""}, (struct id){""}, "node.silent",
                      N_("Node {node} is silent."), "{s:s}", "node", n->name);
}

static enum err lease_gap_close(struct op *op, const struct lease *l)
{
    struct lease_gap_list gaps = {0};
    enum err e = store_gap_list(op->store, l->id, &gaps);

    for (size_t k = 0; e == ERR_OK && k < gaps.len; k++) {
        if (gaps.at[k].to_ms != UTIME_NEVER)
            continue;
        gaps.at[k].to_ms = op->now;
        e = store_gap_save(op->store, &gaps.at[k]);
    }
    vec_fini(&gaps);
    return e;
}

enum err life_node_heard(struct op *op, struct node *n)
{
    struct lease_list leases = {0};
    bool was_new = n->state == NODE_NEW;
    enum err e;

    if (n->state != NODE_SILENT && !was_new)
        return ERR_OK;
    e = store_lease_list_node(op->store, n->id, &leases);
    for (size_t k = 0; e == ERR_OK && k < leases.len; k++)
        e = lease_gap_close(op, &leases.at[k]);
    vec_fini(&leases);
    TRY(e);
    n->state = n->drain ? NODE_DRAINING : NODE_READY;
    return event_emit(op, (struct id){""}, (struct id){""}, "node.ready",
                      was_new ? N_("Node {node} has joined.") : N_("Node {node} is back."), "{s:s}",
                      "node", n->name);
}

enum err life_lease_alive(struct op *op, const struct lease *l)
{
    struct instance i;

    if (l->state != LEASE_RUNNING)
        return ERR_OK;
    TRY(store_instance_get_any(op->store, l->instance, &i));
    if (i.state != INSTANCE_UNREACHABLE || !str_eq(i.lease.s, l->id.s))
        return ERR_OK;
    enum end_reason reason = END_NONE;
    TRY(end_of(op, l->id, &reason));
    TRY(instance_move(op, &i, INSTANCE_EV_HEARD));
    return reason == END_RECLAIMED ? instance_move(op, &i, INSTANCE_EV_RECLAIM) : ERR_OK;
}
