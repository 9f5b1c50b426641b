#include "app/tick.h"

#include "app/clearing.h"
#include "app/close.h"
#include "app/core_int.h"
#include "app/lifecycle.h"
#include "app/line.h"
#include "app/op_plan.h"
#include "app/outbox.h"
#include "app/supply.h"
#include "base/log.h"
#include "base/msg.h"
#include "domain/node.h"

#define SLOW_MS 60000
#define OVERDUE_MS 5000
#define CLOSE_MONTHS_MAX 24 /* of one project a minute */
#define DAY_MS (86400ll * 1000)
#define IDEM_KEEP_MS (7 * DAY_MS) /* so long the same key gets the same answer */

/* Runs one thing in a savepoint of its own. */
#define IN_SAVEPOINT(op, name, call)                                                               \
    do {                                                                                           \
        TRY(store_mark((op)->store));                                                              \
        TRY(tick_close(op, name, call));                                                           \
    } while (0)

static enum err tick_close(struct op *op, const char *name, enum err e)
{
    if (e == ERR_OK)
        return store_mark_keep(op->store);
    TRY(store_mark_undo(op->store));
    if (e == ERR_STORE)
        return ERR_STORE;
    log_warn("tick %s: %s %s", name, err_code(e),
             op->why.param_count ? op->why.params[0].value : "");
    op->why = (struct refusal){0};
    return ERR_OK;
}

/* nodes */

static enum err node_tick(struct op *op, struct node *n)
{
    enum node_state state =
        node_state_at(n, op->now, op->core->listening_since, op->core->config.node_silent_ms);

    /* a silent node comes back by its own word only */
    if (state == n->state || n->state == NODE_SILENT)
        return ERR_OK;
    if (state == NODE_SILENT)
        return life_node_silent(op, n);
    n->state = state;
    return store_node_save(op->store, n);
}

static enum err nodes_tick(struct op *op)
{
    struct node_list nodes = {0};
    enum err e = store_node_list(op->store, &nodes);

    for (size_t i = 0; e == ERR_OK && i < nodes.len; i++) {
        e = store_mark(op->store);
        if (e == ERR_OK)
            e = tick_close(op, "node", node_tick(op, &nodes.at[i]));
    }
    vec_fini(&nodes);
    return e;
}

/* leases */

static enum err lease_renew(struct op *op, struct lease *l)
{
    struct funds_term term;
    utime_t was = l->paid_until;
    int32_t limit = l->limit;

    TRY(funds_lease_renew(op->store, op->now, op->core->config.term_s, l->id, &term, &op->why));
    l->paid_until = term.paid_until;
    l->limit = (int32_t)term.limit;
    if (l->paid_until == was && l->limit == limit)
        return ERR_OK;
    TRY(store_lease_save(op->store, l)); /* the limit says later why it ended */
    return l->paid_until == was ? ERR_OK : op->core->engine.driver->extend(&op->core->engine, l);
}

/* Its node is heard and still has it though it should have ended by itself. */
static enum err lease_overdue(struct op *op, const struct lease *l)
{
    struct instance i;
    enum end_reason reason = l->ends_at <= l->paid_until ? END_REACHED : life_unpaid_reason(l);

    TRY(store_instance_get_any(op->store, l->instance, &i));
    if (!str_eq(i.lease.s, l->id.s))
        return ERR_OK;
    if (reason == END_REACHED && i.then == END_ACTION_RELEASE && i.state != INSTANCE_PREEMPTING)
        return life_release(op, &i, false, reason);
    return life_stop(op, &i, reason);
}

static enum err lease_tick(struct op *op, struct lease *l)
{
    utime_t bound = MIN(l->paid_until, l->ends_at);
    int64_t half_ms = op->core->config.term_s * MS_PER_S / 2;
    struct node n;

    if (l->state != LEASE_GRANTED && l->state != LEASE_RUNNING)
        return ERR_OK;
    if (l->paid_until - op->now > half_ms)
        return ERR_OK;
    TRY(store_node_get(op->store, l->node, &n));
    if (n.state == NODE_SILENT)
        return ERR_OK;
    if (l->paid_until < l->ends_at && op->now < bound)
        TRY(lease_renew(op, l));
    bound = MIN(l->paid_until, l->ends_at);
    return op->now > bound + OVERDUE_MS ? lease_overdue(op, l) : ERR_OK;
}

static enum err leases_tick(struct op *op)
{
    struct lease_list leases = {0};
    enum err e = store_lease_list_live(op->store, &leases);

    for (size_t i = 0; e == ERR_OK && i < leases.len; i++) {
        e = store_mark(op->store);
        if (e == ERR_OK)
            e = tick_close(op, "lease", lease_tick(op, &leases.at[i]));
    }
    vec_fini(&leases);
    return e;
}

/* once a minute */

/* Was the mark (a moment before the end) passed since the last slow tick? */
static bool passed(const struct op *op, utime_t until, int64_t before_ms, utime_t last)
{
    return until - before_ms <= op->now && until - before_ms > last;
}

static enum err keep_notice(struct op *op, struct id project, struct id instance, const char *name,
                            utime_t until, utime_t last)
{
    static const int days[] = {1, 3, 7};

    for (size_t k = 0; k < ARRAY_LEN(days); k++)
        if (passed(op, until, days[k] * DAY_MS, last))
            return event_emit(op, project, instance, "instance.keep_notice",
                              N_("The data of {name} will be erased in {days} day(s)."),
                              "{s:s,s:i}", "name", name, "days", days[k]);
    return ERR_OK;
}

static enum err stopped_tick(struct op *op, struct instance *i, utime_t last)
{
    if (i->kept_until && op->now >= i->kept_until)
        return life_release(op, i, false, END_OPERATOR);
    return keep_notice(op, i->project, i->id, i->name, i->kept_until, last);
}

static enum err arrears_disk(struct op *op, struct disk *d, utime_t until, utime_t last)
{
    if (d->kind != DISK_DATA || d->life > DISK_LIFE_READY)
        return ERR_OK;
    if (d->kept_until != until) {
        d->kept_until = until;
        TRY(store_disk_save(op->store, d));
    }
    if (!until)
        return ERR_OK;
    if (op->now >= until && !d->instance.s[0])
        return life_disk_erase(op, d);
    return keep_notice(op, d->project, d->instance, d->name, until, last);
}

/* Storage of an empty wallet is kept for a while, then it goes. */
static enum err arrears_tick(struct op *op, const struct project *p, utime_t last)
{
    struct disk_list disks = {0};
    utime_t since, until;
    enum err e;

    TRY(funds_arrears_since(op->store, p->id, &since));
    until = since ? since + FUNDS_ARREARS_KEEP_S * MS_PER_S : 0;
    e = store_disk_list(op->store, p->id, false, &disks);
    for (size_t n = 0; e == ERR_OK && n < disks.len; n++) {
        struct disk *d = &disks.at[n];

        if (until || (d->kept_until && !d->instance.s[0]))
            e = arrears_disk(op, d, until, last);
    }
    vec_fini(&disks);
    return e;
}

/* Months that are over and collected; each in a savepoint of its own, all old or all new. */
static enum err close_months(struct op *op, struct id project)
{
    struct close_result r = {.what = CLOSE_DONE};

    for (int n = 0; n < CLOSE_MONTHS_MAX && (r.what == CLOSE_DONE || r.what == CLOSE_EMPTY); n++) {
        r.what = CLOSE_NOT_DUE;
        IN_SAVEPOINT(op, "close", close_next(op->store, op->now, project, &r, &op->why));
    }
    return ERR_OK;
}

static enum err slow_tick(struct op *op, utime_t last)
{
    struct instance_list stopped = {0};
    struct project_list projects = {0};
    enum err e = store_instance_list_state(op->store, INSTANCE_STOPPED, &stopped);

    for (size_t n = 0; e == ERR_OK && n < stopped.len; n++) {
        e = store_mark(op->store);
        if (e == ERR_OK)
            e = tick_close(op, "stopped", stopped_tick(op, &stopped.at[n], last));
    }
    vec_fini(&stopped);
    if (e == ERR_OK)
        e = store_project_list(op->store, &projects);
    for (size_t n = 0; e == ERR_OK && n < projects.len; n++) {
        e = store_mark(op->store);
        if (e == ERR_OK)
            e = tick_close(op, "arrears", arrears_tick(op, &projects.at[n], last));
        if (e == ERR_OK)
            e = close_months(op, projects.at[n].id);
    }
    vec_fini(&projects);
    TRY(e);
    TRY(plans_tick(op));
    TRY(store_idem_prune(op->store, op->now - IDEM_KEEP_MS));
    IN_SAVEPOINT(op, "funds", funds_tick(op->store, op->now, &op->why));
    IN_SAVEPOINT(op, "clearing", clearing_rematch(op));
    IN_SAVEPOINT(op, "supply", supply_tick(op->store, op->now, &op->why));
    return store_meta_set_i64(op->store, "tick.slow_ms", op->now);
}

static enum err clock_news(struct op *op)
{
    if (!op->core->alarm_news)
        return ERR_OK;
    TRY(event_emit(op, (struct id){""}, (struct id){""}, "clock.step",
                   N_("The platform's clock jumped; new starts wait for an operator."), "{}"));
    op->core->alarm_news = false;
    return ERR_OK;
}

enum err tick_run(struct core *c, utime_t now)
{
    struct op op = {.core = c, .store = c->store, .now = now};
    utime_t last;

    TRY(clock_news(&op));
    TRY(nodes_tick(&op));
    TRY(leases_tick(&op));
    TRY(line_tick(&op));
    if (now - c->slow_tick_ms < SLOW_MS)
        return ERR_OK;
    TRY(store_meta_get_i64(c->store, "tick.slow_ms", now, &last));
    /* let the nodes speak first after a start */
    if (now - c->listening_since >= SLOW_MS)
        TRY(slow_tick(&op, last));
    c->slow_tick_ms = now;
    return ERR_OK;
}
