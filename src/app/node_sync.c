/* What a node says, taken in. The order matters: that it is there, its inventory, disks, leases
 * that became ready, evidence, leases that ended; so that evidence always finds what it belongs to.
 */
#include "app/node_sync.h"

#include <sodium.h>

#include "app/core_int.h"
#include "app/image_ref.h"
#include "app/lifecycle.h"
#include "app/node_evidence.h"
#include "app/outbox.h"
#include "base/msg.h"
#include "domain/meter.h"
#include "domain/node.h"

#define SLICES_MAX 256
#define SLICES_FULL 200 /* a report takes so many at most */
#define LEASES_MAX 1024

static int64_t get_i64(const json_t *o, const char *key, int64_t def)
{
    int64_t v = def;

    return json_get_i64(o, key, def, &v) ? v : def;
}

static bool get_bool(const json_t *o, const char *key, bool def)
{
    bool v = def;

    return json_get_bool(o, key, def, &v) ? v : def;
}

static const char *get_str(const json_t *o, const char *key)
{
    const char *v = "";

    return json_get_str(o, key, "", &v) ? v : "";
}

static bool get_id(const json_t *o, const char *key, struct id *ret_id)
{
    return str_copy(ret_id->s, sizeof(ret_id->s), get_str(o, key)) && ret_id->s[0];
}

/* The node still has evidence that did not fit into this report; it sends the oldest first. */
static bool evidence_to_come(const json_t *body)
{
    return get_str(body, "slices_boot")[0] ||
           json_array_size(json_object_get(body, "slices")) >= SLICES_FULL;
}

int64_t node_sync_wait_ms(const struct core_request *r)
{
    int64_t v = get_i64(r->body, "wait_ms", 0);

    return v < 0 || evidence_to_come(r->body) ? 0 : MIN(v, (int64_t)NODE_WAIT_MS_MAX);
}

int64_t node_sync_seen(const struct core_request *r)
{
    return get_i64(r->body, "seen", 0);
}

static enum err protocol(struct op *op, const char *why)
{
    return refusef(&op->why, ERR_PROTOCOL, "why", "%s", why);
}

/* One report being taken. */
struct report {
    struct op *op;
    const json_t *body;
    struct node node, was;
    struct node_boot boot;
    bool new_boot, was_silent;
    struct node_word word;
    bool late; /* overtaken by a newer report: nothing of it is taken */
};

/* the node itself */

static enum err take_boot(struct report *r)
{
    struct op *op = r->op;
    const char *boot = get_str(r->body, "boot");
    int64_t boot_ms = get_i64(r->body, "boot_ms", -1);
    enum err e;

    if (!boot[0] || strlen(boot) >= sizeof(r->boot.boot) || boot_ms < 0)
        return protocol(op, "boot and boot_ms are needed");
    e = store_node_boot_get(op->store, r->node.id, boot, &r->boot);
    if (e == ERR_NOT_FOUND) {
        r->boot = (struct node_boot){.node = r->node.id, .first_at = op->now};
        (void)str_copy(r->boot.boot, sizeof(r->boot.boot), boot);
    } else if (e != ERR_OK) {
        return e;
    }
    r->new_boot = !str_eq(r->node.boot, boot);
    /* one request at a time: what comes after a newer one of its boot was under way all the while;
     * what is late from an earlier boot is overtaken again by the next report of this one */
    r->late = boot_ms < r->boot.last_boot_ms;
    if (r->late)
        return ERR_OK;
    r->boot.last_boot_ms = boot_ms;
    r->boot.anchor_ms = node_anchor(r->boot.anchor_ms, op->now, boot_ms);
    (void)str_copy(r->node.boot, sizeof(r->node.boot), boot);
    r->node.anchor_ms = r->boot.anchor_ms;
    return store_node_boot_save(op->store, &r->boot);
}

static bool take_gpu(struct node_gpu *g, const json_t *o)
{
    *g = (struct node_gpu){.memory_mib = get_i64(o, "memory_mib", 0),
                           .simulated = get_bool(o, "simulated", false),
                           .healthy = get_bool(o, "healthy", true),
                           .util_pct = (int32_t)get_i64(o, "util_pct", 0)};
    return json_get_text(o, "uuid", g->uuid, sizeof(g->uuid)) && g->uuid[0] &&
           json_get_text(o, "model", g->model, sizeof(g->model)) && g->model[0];
}

static enum err take_gpus(struct report *r, const json_t *gpus)
{
    struct node *n = &r->node;
    const json_t *o;
    size_t i;

    n->gpu_count = 0;
    json_array_foreach(gpus, i, o)
    {
        if (n->gpu_count == NODE_GPUS_MAX || !take_gpu(&n->gpus[n->gpu_count], o))
            return protocol(r->op, "a card of the inventory");
        for (int32_t k = 0; k < n->gpu_count; k++)
            if (str_eq(n->gpus[k].uuid, n->gpus[n->gpu_count].uuid))
                return protocol(r->op, "one card twice in the inventory");
        for (int32_t k = 0; k < r->was.gpu_count; k++)
            if (str_eq(r->was.gpus[k].uuid, n->gpus[n->gpu_count].uuid))
                n->gpus[n->gpu_count].lease = r->was.gpus[k].lease;
        n->gpu_count++;
    }
    return ERR_OK;
}

#define TAKE_TEXT(o, key, dst) (void)str_copy(dst, sizeof(dst), get_str(o, key))

static enum err take_inventory(struct report *r)
{
    const json_t *o = json_object_get(r->body, "inventory");
    struct node *n = &r->node;

    if (!json_is_object(o)) /* nothing is guessed: what was known stays */
        return ERR_OK;
    n->cores = (int32_t)get_i64(o, "cores", n->cores);
    n->memory_mib = get_i64(o, "memory_mib", n->memory_mib);
    n->disk_mib = get_i64(o, "disk_mib", n->disk_mib);
    n->simulated = get_bool(o, "simulated", n->simulated);
    n->online_grow = get_bool(o, "online_grow", n->online_grow);
    n->port_min = (uint16_t)get_i64(o, "port_min", n->port_min);
    n->port_max = (uint16_t)get_i64(o, "port_max", n->port_max);
    TAKE_TEXT(o, "driver", n->driver);
    TAKE_TEXT(o, "cuda", n->cuda);
    TAKE_TEXT(o, "runtime", n->runtime);
    TAKE_TEXT(o, "cgroup", n->cgroup);
    TAKE_TEXT(o, "kernel", n->kernel);
    TAKE_TEXT(o, "ssh_host", n->ssh_host);
    return json_is_array(json_object_get(o, "gpus")) ? take_gpus(r, json_object_get(o, "gpus"))
                                                     : ERR_OK;
}

static enum err node_save_seen(struct report *r)
{
    r->node.seen_at = r->op->now;
    return store_node_save(r->op->store, &r->node);
}

static enum err take_node(struct report *r)
{
    struct op *op = r->op;
    utime_t was_seen;

    if (store_node_get(op->store, op->who.node, &r->node) != ERR_OK)
        return refuse(&op->why, ERR_NODE_AUTH);
    r->was = r->node;
    was_seen = r->node.seen_at;
    r->was_silent = r->node.state == NODE_SILENT;
    TRY(take_boot(r));
    if (r->late)
        return ERR_OK;
    TRY(life_node_heard(op, &r->node));
    TRY(take_inventory(r));
    TRY(node_word_take(op, &r->node, get_str(json_object_get(r->body, "inventory"), "key"),
                       &r->word));
    /* most reports bring nothing new about the machine itself */
    if (memcmp(&r->was, &r->node, sizeof(r->was)) == 0)
        TRY(store_node_seen(op->store, r->node.id, op->now));
    else
        TRY(node_save_seen(r));
    r->node.seen_at = op->now;
    /* a reboot or a silence: nobody proved that its disks could be reached meanwhile */
    return funds_node_time(op->store, op->now, r->node.id, op->now,
                           was_seen && !r->was_silent && !r->new_boot);
}

/* disks and images */

static enum err disk_warning(struct report *r, const struct disk *d, int64_t was_used)
{
    for (int pct = 95; pct >= 80; pct -= 15) {
        int64_t mark = d->size_mib * pct / 100;

        if (d->used_mib < mark || was_used >= mark || !mark)
            continue;
        return event_emit(r->op, d->project, d->instance, "disk.warning",
                          N_("Disk {name} is {pct} percent full."), "{s:s,s:s,s:i}", "name",
                          d->name[0] ? d->name : d->id.s, "disk", d->id.s, "pct", pct);
    }
    return ERR_OK;
}

static enum err take_disk(struct report *r, const json_t *o)
{
    struct op *op = r->op;
    const char *state = get_str(o, "state");
    const json_t *erase = json_object_get(o, "erase");
    struct disk d;
    struct id id;
    enum err e;

    if (!get_id(o, "disk", &id))
        return protocol(op, "a disk without id");
    e = store_disk_get_any(op->store, id, &d);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && !str_eq(d.node.s, r->node.id.s)))
        return ERR_OK; /* not ours to judge */
    TRY(e);
    if (str_eq(state, "erased"))
        return life_disk_erased(op, &d,
                                get_str(erase, "method")[0] ? get_str(erase, "method") : "basic",
                                get_i64(erase, "bytes", 0), get_i64(erase, "ms", 0));
    if (!str_eq(state, "ready") && !str_eq(state, "attached"))
        return ERR_OK;
    TRY(life_disk_ready(op, &d));
    int64_t was_used = d.used_mib;
    d.used_mib = get_i64(o, "used_mib", d.used_mib);
    if (d.used_mib == was_used)
        return ERR_OK;
    TRY(store_disk_save(op->store, &d));
    return disk_warning(r, &d, was_used);
}

static enum err take_image(struct report *r, const json_t *o)
{
    struct node_image i = {.node = r->node.id, .bytes = get_i64(o, "bytes", 0)};
    char driver[32], cuda[16];

    if (!json_get_text(o, "digest", i.digest, sizeof(i.digest)) || !i.digest[0] ||
        !json_get_text(o, "state", i.state, sizeof(i.state)))
        return protocol(r->op, "an image without digest or state");
    TAKE_TEXT(json_object_get(o, "error"), "code", i.error);
    TRY(store_node_image_save(r->op->store, &i));
    /* What an image asks of the driver is known once some node has it. */
    if (!json_object_get(o, "need_driver") && !json_object_get(o, "need_cuda"))
        return ERR_OK;
    if (!json_get_text(o, "need_driver", driver, sizeof(driver)) ||
        !json_get_text(o, "need_cuda", cuda, sizeof(cuda)))
        return protocol(r->op, "an image's needs");
    return store_image_needs_set(r->op->store, i.digest, driver, cuda);
}

/* leases */

/* The times of a lease that ended with an earlier boot are on that boot's clock. */
/* A moment of the node's on our clock: of this boot, or of the one that the lease names. */
static enum err ledger_time(const struct report *r, const json_t *lease, int64_t boot_ms,
                            utime_t *ret_t)
{
    const char *boot = get_str(lease, "boot");
    struct node_boot b = r->boot;
    enum err e = ERR_OK;

    if (boot[0] && !str_eq(boot, b.boot))
        e = store_node_boot_get(r->op->store, r->node.id, boot, &b);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && !b.anchor_ms)) {
        *ret_t = r->op->now; /* never heard of: the books' own bounds decide */
        return ERR_OK;
    }
    *ret_t = MIN(b.anchor_ms + boot_ms, r->op->now);
    return e;
}

static bool lease_of(struct report *r, const json_t *o, struct lease *ret_l, enum err *ret_e)
{
    struct id id;

    *ret_e = ERR_OK;
    if (!get_id(o, "lease", &id))
        return false;
    *ret_e = store_lease_get(r->op->store, id, ret_l);
    if (*ret_e == ERR_NOT_FOUND)
        *ret_e = ERR_OK;
    else if (*ret_e == ERR_OK)
        return str_eq(ret_l->node.s, r->node.id.s) && get_i64(o, "epoch", 0) == ret_l->epoch;
    return false;
}

/* For those outside; in the guest its node says so, also while nobody is here to be told. */
static enum err idle_notice(struct report *r, const struct instance *i, int64_t was, int64_t now_s)
{
    int64_t mark = i->idle_s / 6 * 5;

    if (mark <= 0 || was >= mark || now_s < mark)
        return ERR_OK;
    return event_emit(r->op, i->project, i->id, "lease.idle_notice",
                      i->idle_action == IDLE_ACTION_STOP
                          ? N_("{name} is idle and will be stopped soon.")
                          : N_("{name} is idle."),
                      "{s:s,s:I}", "name", i->name, "idle_s", (json_int_t)now_s);
}

/* Cards that idle while others of the same lease work: named once, when they begin to. */
static enum err idle_cards_notice(struct report *r, const json_t *o, const struct instance *i,
                                  bool was)
{
    size_t n = json_array_size(json_object_get(o, "idle_cards"));

    if (!n || was)
        return ERR_OK;
    return event_emit(r->op, i->project, i->id, "lease.idle_cards",
                      N_("{count} of {all} cards of {name} are idle; a smaller shape would do."),
                      "{s:s,s:i,s:i,s:O}", "name", i->name, "count", (int)n, "all",
                      i->shape.gpu_count, "cards", json_object_get(o, "idle_cards"));
}

static enum err report_event(struct report *r, const struct instance *i, const struct lease_fact *f,
                             bool was_ok)
{
    if (f->report_ok || !was_ok)
        return ERR_OK;
    return event_emit(r->op, i->project, i->id, "instance.report_mismatch",
                      N_("{name} did not get what it pays for; it is not charged."), "{s:s}",
                      "name", i->name);
}

static enum err take_fact(struct report *r, const json_t *o, const struct lease *l,
                          const struct instance *i)
{
    const json_t *report = json_object_get(o, "report");
    CLEANUP(store_fact_fini) struct lease_fact f;
    enum err e = store_fact_get(r->op->store, l->id, &f);
    bool was_ok = e == ERR_NOT_FOUND || f.report_ok, had_cards = e == ERR_NOT_FOUND || f.cards_ok;
    int64_t was_idle = f.idle_s;
    bool were_idle = f.idle_cards > 0;

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    f.step = (int32_t)get_i64(o, "step", f.step);
    f.step_count = (int32_t)get_i64(o, "step_count", f.step_count);
    TAKE_TEXT(o, "detail", f.detail);
    f.disk_used_mib = get_i64(o, "disk_used_mib", f.disk_used_mib);
    f.memory_peak_mib = get_i64(o, "memory_peak_mib", f.memory_peak_mib);
    f.gpu_memory_peak_mib = get_i64(o, "gpu_memory_peak_mib", f.gpu_memory_peak_mib);
    f.idle_s = get_i64(o, "idle_s", 0);
    f.report_ok = get_bool(o, "report_ok", was_ok);
    f.cards_ok = get_bool(o, "gpus_ok", true);
    f.idle_cards = (int32_t)json_array_size(json_object_get(o, "idle_cards"));
    if (json_is_object(report)) {
        char *text = json_dumps(report, JSON_COMPACT);

        CHECK(text);
        free(f.report);
        f.report = text;
    }
    f.said_at = r->op->now;
    TRY(store_fact_save(r->op->store, &f));
    TRY(report_event(r, i, &f, was_ok));
    if (had_cards && !f.cards_ok)
        TRY(event_emit(r->op, i->project, i->id, "instance.card_lost",
                       N_("A card of {name} does not answer; it is not charged meanwhile."),
                       "{s:s}", "name", i->name));
    TRY(idle_cards_notice(r, o, i, were_idle));
    return idle_notice(r, i, was_idle, f.idle_s);
}

static enum err take_ready(struct report *r, const json_t *o, struct lease *l)
{
    int64_t ready = get_i64(o, "ready_boot_ms", -1);
    struct lease_event ev = {.kind = LEASE_EV_READY};
    const char *key = get_str(o, "host_key");
    struct instance i;

    TRY(store_instance_get_any(r->op->store, l->instance, &i));
    if (key[0] && !str_eq(key, i.host_key) && str_copy(i.host_key, sizeof(i.host_key), key))
        TRY(store_instance_save(r->op->store, &i));
    TRY(take_fact(r, o, l, &i));
    if (ready < 0)
        return ERR_OK;
    TRY(ledger_time(r, o, ready, &ev.at));
    TRY(life_lease(r->op, l, &ev, NULL));
    return str_eq(get_str(o, "state"), "running") ? life_lease_alive(r->op, l) : ERR_OK;
}

static void take_error(const json_t *o, struct refusal *why)
{
    const json_t *error = json_object_get(o, "error"), *v;
    json_t *params = json_object_get(error, "params");
    const char *key;
    enum err code;

    *why = (struct refusal){0};
    if (!err_find(get_str(error, "code"), &code) || code == ERR_OK)
        return;
    (void)refuse(why, code);
    json_object_foreach(params, key, v)
    {
        if (json_is_string(v) && why->param_count < REFUSAL_PARAMS_MAX && strlen(key) < 12)
            refusal_set(why, key, json_string_value(v));
    }
}

/* A guest is bounded by money and by its end; which of the two it was is the books' word. */
static enum end_reason end_of(const json_t *o, const struct lease *l)
{
    enum end_reason reason = END_NONE;

    if (!end_reason_find(get_str(o, "end"), &reason) || reason == END_NONE)
        reason = END_NODE_LOST;
    return reason == END_BALANCE ? life_unpaid_reason(l) : reason;
}

static enum err take_end(struct report *r, const json_t *o, struct lease *l)
{
    struct lease_event ev = {.kind = LEASE_EV_ENDED};
    int64_t ended = get_i64(o, "ended_boot_ms", -1);
    struct refusal why;

    if (!str_eq(get_str(o, "state"), "ended"))
        return ERR_OK;
    ev.at = r->op->now;
    if (ended >= 0)
        TRY(ledger_time(r, o, ended, &ev.at));
    ev.reason = end_of(o, l);
    ev.exit_code = (int32_t)get_i64(o, "exit_code", 0);
    take_error(o, &why);
    TRY(life_lease(r->op, l, &ev, &why));
    if (!get_bool(o, "clean", false))
        return ERR_OK;
    ev.kind = LEASE_EV_CLEAN;
    return life_lease(r->op, l, &ev, NULL);
}

typedef enum err lease_taker(struct report *r, const json_t *o, struct lease *l);

static enum err each_lease(struct report *r, lease_taker *take)
{
    const json_t *o;
    size_t i;

    json_array_foreach(json_object_get(r->body, "leases"), i, o)
    {
        struct lease l;
        enum err e;

        if (lease_of(r, o, &l, &e))
            e = take(r, o, &l);
        TRY(e);
    }
    return ERR_OK;
}

/* evidence */

static enum err take_slice(struct report *r, const char *boot, const json_t *o,
                           struct funds_slice *s, int64_t *io_refused)
{
    CLEANUP(store_fact_fini) struct lease_fact f = {0};
    enum err e;

    *s = (struct funds_slice){.seq = get_i64(o, "seq", -1),
                              .epoch = get_i64(o, "epoch", 0),
                              .running = str_eq(get_str(o, "state"), "running"),
                              .t0_ms = get_i64(o, "t0", -1),
                              .t1_ms = get_i64(o, "t1", -1),
                              .cpu_us = get_i64(o, "cpu_us", 0),
                              .memory_bytes = get_i64(o, "memory_bytes", 0),
                              .rx_bytes = get_i64(o, "rx_bytes", 0),
                              .tx_bytes = get_i64(o, "tx_bytes", 0),
                              .disk_used_mib = get_i64(o, "disk_used_mib", 0),
                              .gpu_util_pct = get_i64(o, "gpu_util_pct", 0),
                              .gpu_memory_mib = get_i64(o, "gpu_memory_mib", 0),
                              .gpus_ok = get_i64(o, "gpus_ok", 1) != 0};
    if (!get_id(o, "lease", &s->lease) || s->seq < 0 || s->t0_ms < 0 || s->t1_ms < s->t0_ms)
        return protocol(r->op, "a slice");
    if (json_is_false(json_object_get(o, "gpus_ok")))
        s->gpus_ok = false;
    TRY(node_word_check(&r->word, boot, get_str(o, "sig"), s, io_refused));
    e = store_fact_get(r->op->store, s->lease, &f);
    if (e == ERR_OK && !f.report_ok)
        s->gpus_ok = false;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* A boot that nobody heard of while it lasted has no place on our clock: nothing of it can be
 * charged, so it is acknowledged and the operator is told. */
static enum err drop_slices(struct report *r, const char *boot, const json_t *slices)
{
    struct node_boot b = {.node = r->node.id, .first_at = r->op->now};
    const json_t *o;
    size_t i;

    if (!str_copy(b.boot, sizeof(b.boot), boot))
        return protocol(r->op, "slices_boot");
    json_array_foreach(slices, i, o) b.ack_seq = MAX(b.ack_seq, get_i64(o, "seq", 0));
    TRY(store_node_boot_save(r->op->store, &b));
    return event_emit(r->op, (struct id){""}, (struct id){""}, "node.evidence_lost",
                      N_("Node {node} sent evidence of a boot that was never heard of; it is not "
                         "charged."),
                      "{s:s}", "node", r->node.name);
}

static enum err take_slices(struct report *r)
{
    const json_t *slices = json_object_get(r->body, "slices"), *o;
    const char *boot = get_str(r->body, "slices_boot");
    struct node_boot b = r->boot;
    struct funds_accepted a;
    AUTO_FREE struct funds_slice *list = NULL;
    size_t i, n = json_array_size(slices);
    int64_t refused = 0;
    enum err e;

    if (!n)
        return ERR_OK;
    if (n > SLICES_MAX)
        return protocol(r->op, "too many slices at once");
    if (boot[0] && !str_eq(boot, b.boot)) {
        e = store_node_boot_get(r->op->store, r->node.id, boot, &b);
        if (e == ERR_NOT_FOUND || (e == ERR_OK && !b.anchor_ms))
            return drop_slices(r, boot, slices);
        TRY(e);
    }
    list = mem_alloc(n * sizeof(*list));
    json_array_foreach(slices, i, o)
    {
        TRY(take_slice(r, b.boot, o, &list[i], &refused));
        /* by its own words of that boot, and no more than passed here meanwhile */
        list[i].heard_ms = meter_evidenced_ms(b.last_boot_ms, r->op->now - b.anchor_ms);
    }
    TRY(funds_slices_accept(r->op->store, r->op->now, r->node.id, b.boot, b.anchor_ms, list, n, &a,
                            &r->op->why));
    b.ack_seq = MAX(b.ack_seq, a.ack_seq);
    TRY(node_word_tell(r->op, &r->node, &r->word, refused));
    return store_node_boot_save(r->op->store, &b);
}

static enum err take_evidence(struct report *r UNUSED, const json_t *o UNUSED, struct lease *l)
{
    utime_t until;

    TRY(funds_evidence_until(r->op->store, l->id, &until));
    if (until == l->evidence_until)
        return ERR_OK;
    l->evidence_until = until;
    return store_lease_save(r->op->store, l);
}

/* the rest */

static enum err take_unknown(struct report *r)
{
    struct op *op = r->op;
    const json_t *o;
    size_t i;

    if (!get_bool(r->body, "full", true))
        return ERR_OK;
    json_array_foreach(json_object_get(r->body, "unknown"), i, o)
    {
        struct node_unknown u = {
            .node = r->node.id, .pid = get_i64(o, "pid", 0), .seen_at = op->now};

        if (i >= LEASES_MAX || !json_get_text(o, "lease", u.lease, sizeof(u.lease)))
            return protocol(op, "an unknown guest");
        TRY(store_unknown_save(op->store, &u));
    }
    return store_unknown_clear(op->store, r->node.id, op->now);
}

static enum err take_log(struct report *r, const json_t *o)
{
    const char *text = get_str(o, "data_b64");
    size_t max = strlen(text) / 4 * 3 + 3, n;
    AUTO_FREE unsigned char *raw = mem_alloc(max);
    struct lease l;
    enum err e;

    if (sodium_base642bin(raw, max, text, strlen(text), NULL, &n, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0)
        return protocol(r->op, "output that is no base64");
    struct id id;
    if (!get_id(o, "lease", &id))
        return protocol(r->op, "output without a lease");
    e = store_lease_get(r->op->store, id, &l);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && !str_eq(l.node.s, r->node.id.s)))
        return ERR_OK;
    TRY(e);
    return store_log_add(r->op->store, l.id, get_i64(o, "from", 0), raw, n);
}

static enum err each_item(struct report *r, const char *key,
                          enum err (*take)(struct report *r, const json_t *o))
{
    const json_t *o;
    size_t i;

    json_array_foreach(json_object_get(r->body, key), i, o) TRY(take(r, o));
    return ERR_OK;
}

enum err op_node_sync(struct op *op)
{
    struct report *r = mem_alloc(sizeof(*r));
    AUTO_FREE struct report *owned UNUSED = r;

    r->op = op;
    r->body = op->body;
    if (get_i64(op->body, "proto", 0) != 1)
        return protocol(op, "proto is not 1");
    TRY(take_node(r));
    if (r->late)
        return ERR_OK;
    TRY(store_outbox_ack(op->store, r->node.id, get_i64(op->body, "seen", 0)));
    TRY(each_item(r, "disks", take_disk));
    TRY(each_item(r, "images", take_image));
    TRY(image_resolved_take(op, json_object_get(r->body, "resolved")));
    TRY(each_lease(r, take_ready));
    TRY(take_slices(r));
    TRY(each_lease(r, take_evidence));
    if (!evidence_to_come(r->body)) /* what is settled takes no more of it */
        TRY(each_lease(r, take_end));
    TRY(take_unknown(r));
    return each_item(r, "logs", take_log);
}
