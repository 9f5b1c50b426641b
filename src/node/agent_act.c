#include "node/agent_int.h"

#include "base/log.h"

#define STOP_SAID_MS 1000
#define KILL_AGAIN_MS 1000
#define CLEAN_AGAIN_MS 1000
#define ORDER_AGAIN_MS 2000 /* the helper forgot it, or was started anew */
#define ERASE_ALARM 3

/* ---- the table ---- */

static void row_lease(const struct agent *a, const struct lease_row *l, utime_t now,
                      struct rec_lease *r)
{
    const struct want_lease *w = &l->want;

    memset(r, 0, sizeof(*r));
    r->lease = w->lease;
    r->want = l->named ? w->want : REC_UNNAMED;
    r->want_epoch = w->epoch;
    r->paid_until = w->paid_until;
    r->ends_at = w->ends_at;
    r->grace_ms = w->grace_ms;
    memcpy(r->image, w->image, sizeof(r->image));
    if (w->system_disk.s[0] != '\0')
        r->disks[r->disk_count++] = w->system_disk;
    for (uint32_t i = 0; i < w->data_count; i++)
        r->disks[r->disk_count++] = w->data[i].disk;
    r->phase = l->phase;
    r->epoch = l->epoch;
    r->was_ready = l->ready > 0;
    r->cleaned = l->cleaned;
    r->settled = book_lease_settled(&a->book, l);
    r->idle_due = l->idle_due;
    r->devices_ok = agent_cards_ok(a, w);
    r->found = l->found;
    r->guest = l->guest;
    r->guest_epoch = l->guest_epoch;
    r->guard_soft = l->guard.soft_end_boot_ms;
    r->guard_hard = l->guard.hard_end_boot_ms;
    /* A kill is repeated while it does not help. */
    r->asked = l->asked == REC_KILL && now - l->asked_at > KILL_AGAIN_MS ? REC_STOP : l->asked;
}

static void row_disk(const struct disk_row *d, utime_t now, struct rec_disk *r)
{
    /* While an order is under way the disk is neither failed nor to be ordered again. */
    bool waits = d->order != DISK_ORDER_NONE && now - d->ordered_at < ORDER_AGAIN_MS;

    *r = (struct rec_disk){.disk = d->want.disk,
                           .want = d->named ? d->want.want : REC_DISK_UNNAMED,
                           .want_mib = d->want.size_mib,
                           .found = d->found,
                           .state = d->state,
                           .size_mib = d->size_mib,
                           .fail = d->order != DISK_ORDER_NONE ? ERR_OK : d->why.code,
                           .retry = !waits && now >= d->retry_at};
}

static bool image_asked_since(const struct agent *a, const struct image_row *m)
{
    for (size_t i = 0; i < a->book.leases.len; i++) {
        const struct lease_row *l = a->book.leases.at[i];

        if (l->phase == REC_NEW && l->taken_at > m->failed_at &&
            str_eq(l->want.image, m->want.digest))
            return true;
    }
    return false;
}

static void row_image(const struct agent *a, const struct image_row *m, utime_t now,
                      struct rec_image *r)
{
    memset(r, 0, sizeof(*r));
    memcpy(r->digest, m->want.digest, sizeof(r->digest));
    /* An answer that no longer names an image does not ask for its removal. */
    r->want = m->want.present || !m->named;
    /* While it was not asked for, nothing is known: neither there nor missing. */
    r->state = m->found ? m->state : REC_ITEM_WORKING;
    r->retry = m->failures == 0 || now >= m->retry_at || image_asked_since(a, m);
}

static void table_fill(struct agent *a, utime_t now)
{
    struct rec_table *t = a->table;

    t->lease_count = MIN(a->book.leases.len, (size_t)RECONCILE_LEASES_MAX);
    t->disk_count = MIN(a->book.disks.len, (size_t)RECONCILE_DISKS_MAX);
    t->image_count = MIN(a->book.images.len, (size_t)RECONCILE_IMAGES_MAX);
    t->online_grow = a->hello.hello.online_grow != 0;
    for (size_t i = 0; i < t->lease_count; i++) {
        a->rows[i] = a->book.leases.at[i];
        row_lease(a, a->rows[i], now, &t->leases[i]);
    }
    for (size_t i = 0; i < t->disk_count; i++) {
        a->disks[i] = a->book.disks.at[i];
        row_disk(a->disks[i], now, &t->disks[i]);
    }
    for (size_t i = 0; i < t->image_count; i++) {
        a->images[i] = a->book.images.at[i];
        row_image(a, a->images[i], now, &t->images[i]);
    }
}

/* ---- what is written before it is done ---- */

/* Lowest free address of the node's range above `after`; .0 is the net, .1 the bridge. */
static uint32_t address_take(const struct agent *a, uint32_t after)
{
    uint32_t base = a->hello.hello.net_base, bits = a->hello.hello.net_bits;
    uint32_t last = bits >= 8 && bits <= 30 ? base + (1U << (32 - bits)) - 2 : base + 250;

    for (uint32_t x = MAX(base + 2, after + 1); x <= last; x++) {
        bool used = false;

        for (size_t i = 0; i < a->book.leases.len && !used; i++)
            used = a->book.leases.at[i]->address == x && !a->book.leases.at[i]->cleaned;
        if (!used)
            return x;
    }
    return 0;
}

static void take(struct agent *a, struct lease_row *l, utime_t now)
{
    bool alive = l->guest == REC_GUEST_RUNNING || l->guest == REC_GUEST_PREPARING;

    if (l->phase == REC_NONE || l->phase == REC_ENDED) {
        bool adopt = l->phase == REC_NONE && alive && l->guest_epoch == l->want.epoch;

        book_lease_renew(&a->book, l);
        l->taken_at = now;
        if (adopt) {
            /* It runs, but our records of it are lost: from now on it is proven again. */
            log_warn("lease=%s adopted without a record", l->want.lease.s);
            l->phase = REC_STARTED;
            l->adopted = true;
        }
    }
    l->epoch = l->want.epoch;
    l->seen_at = 0;
    book_lease_save(&a->book, l);
}

/* Why a guest that is found ended did so. */
static enum end_reason found_reason(const struct lease_row *l)
{
    const struct want_lease *w = &l->want;
    utime_t soft = l->guard.soft_end_boot_ms;

    if (l->stop_reason != END_NONE)
        return l->stop_reason;
    if (l->fail != ERR_OK)
        return END_START_FAILED;
    if (l->at_deadline || (soft > 0 && soft != UTIME_NEVER && l->guest_ended >= soft))
        return reconcile_deadline_reason(w->paid_until, w->ends_at);
    if (l->oom)
        return END_GUEST_OOM;
    if (l->ready == 0)
        return END_START_FAILED;
    if (l->guest_exit < 0)
        return END_NODE_LOST;
    return END_GUEST_EXIT;
}

static void error_set(struct agent *a, struct lease_row *l, const struct rec_action *x)
{
    const struct image_row *m = book_image(&a->book, x->name);
    struct disk_row *d = NULL;

    for (size_t i = 0; i < a->book.disks.len; i++)
        if (str_eq(a->book.disks.at[i]->want.disk.s, x->name))
            d = a->book.disks.at[i];
    if (x->why == ERR_OK) {
        l->error = l->fail_why;
        if (l->fail == ERR_OK)
            (void)refusef(&l->error, ERR_RUNTIME, "why", "it ended before it could be reached");
    } else if (m != NULL && m->why.code != ERR_OK) {
        l->error = m->why;
    } else if (d != NULL && d->why.code != ERR_OK) {
        l->error = d->why;
    } else if (x->why == ERR_UNSUPPORTED) {
        (void)refusef(&l->error, x->why, "what", "GPU");
        refusal_set(&l->error, "why", "a card of this lease is not there or not healthy");
    } else {
        (void)refusef(&l->error, x->why, "name", "%s", x->name);
        refusal_set(&l->error, "why", "it is not in a state to be used");
    }
}

static void end_write(struct agent *a, struct lease_row *l, const struct rec_action *x, utime_t now)
{
    bool was_started = l->phase == REC_STARTED;

    if (x->end != END_NONE)
        l->end = x->end;
    else if (was_started && l->guest == REC_GUEST_ENDED)
        l->end = found_reason(l);
    else
        l->end = l->want.reason != END_NONE ? l->want.reason : END_USER_STOP;
    if (l->end == END_START_FAILED)
        error_set(a, l, x);
    l->ended = was_started && l->guest_ended > 0 ? l->guest_ended : now;
    if (was_started && l->guest_ended == 0 && l->ready > 0)
        l->ended = MAX(l->meter.last, l->ready); /* nobody saw it: the last proof */
    if (was_started && l->ready > 0)
        watch_end(a, l, now);
    l->exit_code = l->guest == REC_GUEST_ENDED ? l->guest_exit : -1;
    l->phase = REC_ENDED;
    l->seen_at = 0;
    l->asked_at = now;
    book_lease_save(&a->book, l);
    a->urgent = true;
    log_info("lease=%s epoch=%" PRId64 " ended reason=%s exit=%d", l->want.lease.s, l->epoch,
             end_reason_name(l->end), l->exit_code);
}

static void stop_write(struct agent *a, struct lease_row *l, utime_t now)
{
    enum end_reason r = END_OPERATOR;

    if (l->stop_reason != END_NONE)
        return; /* asked before: the first reason is the true one */
    if (MIN(l->want.paid_until, l->want.ends_at) < now)
        r = reconcile_deadline_reason(l->want.paid_until, l->want.ends_at);
    else if (l->named && l->want.want != REC_RUN && l->want.reason != END_NONE)
        r = l->want.reason;
    else if (l->named && l->want.want == REC_STOP)
        r = END_USER_STOP;
    else if (l->idle_due)
        r = END_IDLE;
    l->stop_reason = r;
    book_lease_save(&a->book, l);
}

static void write_first(struct agent *a, const struct rec_action *x, utime_t now)
{
    switch (x->kind) {
    case REC_TAKE:
        take(a, a->rows[x->index], now);
        break;
    case REC_START:
        if (a->rows[x->index]->address == 0)
            a->rows[x->index]->address = address_take(a, 0);
        a->rows[x->index]->phase = REC_STARTED;
        book_lease_save(&a->book, a->rows[x->index]);
        break;
    case REC_ASK_STOP:
    case REC_ASK_KILL:
        stop_write(a, a->rows[x->index], now);
        break;
    case REC_END:
        end_write(a, a->rows[x->index], x, now);
        break;
    case REC_DEADLINE:
    case REC_REMOVE:
    case REC_FORGET:
    case REC_DISK_MAKE:
    case REC_DISK_ERASE:
    case REC_DISK_FORGET:
    case REC_IMAGE_FETCH:
    case REC_IMAGE_REMOVE:
        break;
    }
}

/* ---- what is done ---- */

static void guest_spec(const struct lease_row *l, const struct rec_action *x, struct priv_guest *g)
{
    const struct want_lease *w = &l->want;

    g->instance = w->instance;
    g->epoch = l->epoch;
    memcpy(g->image, w->image, sizeof(g->image));
    (void)str_printf(g->hostname, sizeof(g->hostname), "%s",
                     str_is_name(w->name) ? w->name : "suanli");
    g->system_disk = w->system_disk;
    for (uint32_t i = 0; i < w->data_count; i++) {
        g->data[i].disk = w->data[i].disk;
        memcpy(g->data[i].mount, w->data[i].mount, sizeof(g->data[i].mount));
    }
    g->data_count = w->data_count;
    g->cpu_milli = w->cpu_milli;
    g->memory_mib = w->memory_mib;
    g->pids_max = w->pids_max;
    memcpy(g->gpus, w->gpus, sizeof(g->gpus));
    g->gpu_count = w->gpu_count;
    g->address = l->address;
    memcpy(g->ports, w->ports, sizeof(g->ports));
    g->port_count = w->port_count;
    memcpy(g->argv, w->argv, sizeof(g->argv));
    memcpy(g->env, w->env, sizeof(g->env));
    g->soft_end_boot_ms = x->soft;
    g->hard_end_boot_ms = x->hard;
}

static void start_fail(struct lease_row *l, enum err e, const struct refusal *why)
{
    /* The helper will not make it: the next pass ends the lease with this. */
    l->guest = REC_GUEST_ENDED;
    l->fail = e;
    l->fail_why = *why;
    l->guest_ended = 0;
    l->guest_exit = -1;
}

static bool refusal_says(const struct refusal *why, const char *value)
{
    for (size_t i = 0; i < why->param_count; i++)
        if (str_eq(why->params[i].value, value))
            return true;
    return false;
}

static void start(struct agent *a, struct lease_row *l, const struct rec_action *x)
{
    struct priv_req req = {.lease = l->want.lease};
    struct priv_rep rep;
    struct refusal why = {.code = ERR_OK};

    guest_spec(l, x, &req.guest);
    enum err e = helper_call(&a->helper, PRIV_GUEST_START, &req, &rep, &why);
    l->seen_at = 0;
    if (e == ERR_IN_USE) {
        /* What an ended lease still holds is let go soon; an address can be another one. */
        if (refusal_says(&why, "address"))
            l->address = address_take(a, l->address);
        l->seen_at = agent_now();
        l->found = false; /* no second try before the next look */
        return;
    }
    if (e == ERR_OK || e == ERR_TIMEOUT || e == ERR_UNAVAILABLE || e == ERR_BUSY) {
        if (e == ERR_OK) {
            l->ports_set = true;
            l->guest = REC_GUEST_PREPARING;
            l->guard.soft_end_boot_ms = x->soft;
            l->guard.hard_end_boot_ms = x->hard;
        }
        a->soft = true;
        return;
    }
    l->seen_at = agent_now();
    start_fail(l, e, &why);
}

static void end_ask(struct agent *a, struct lease_row *l, const struct rec_action *x, utime_t now)
{
    struct priv_req req = {.lease = l->want.lease};
    struct priv_rep rep;
    struct refusal why;
    bool kill = x->kind == REC_ASK_KILL;

    if (kill && now - l->asked_at < KILL_AGAIN_MS && l->asked == REC_KILL)
        return;
    req.deadline.epoch = l->epoch;
    req.deadline.grace_ms = kill ? 0 : l->want.grace_ms;
    enum err e = helper_call(&a->helper, PRIV_GUEST_STOP, &req, &rep, &why);
    if (e == ERR_OK || e == ERR_NOT_FOUND || e == ERR_STATE)
        l->asked = kill ? REC_KILL : REC_STOP;
    else if (now - l->asked_at > STOP_SAID_MS) /* asked again at once, said once */
        log_warn("lease=%s stop: %s", l->want.lease.s, err_code(e));
    l->asked_at = now;
    l->seen_at = 0;
    a->soft = true;
}

static void deadline_push(struct agent *a, struct lease_row *l, const struct rec_action *x)
{
    struct priv_req req = {.lease = l->want.lease};
    struct priv_rep rep;
    struct refusal why;

    req.deadline.epoch = l->epoch;
    req.deadline.soft_end_boot_ms = x->soft;
    req.deadline.hard_end_boot_ms = x->hard;
    enum err e = helper_call(&a->helper, PRIV_GUEST_DEADLINE, &req, &rep, &why);
    if (e == ERR_OK) {
        l->guard.soft_end_boot_ms = x->soft;
        l->guard.hard_end_boot_ms = x->hard;
    } else if (e != ERR_NOT_FOUND && e != ERR_STATE && e != ERR_BUSY) {
        log_warn("lease=%s deadline: %s", l->want.lease.s, err_code(e));
    }
}

void disk_order_failed(struct disk_row *d, utime_t now)
{
    bool erase = d->order == DISK_ORDER_ERASE;

    d->order = DISK_ORDER_NONE;
    d->retry_at = now + (INT64_C(1000) << MIN(d->failures, 9U));
    d->failures++;
    if (erase && d->failures >= ERASE_ALARM)
        log_error("disk=%s erase failed %u times: %s", d->want.disk.s, d->failures,
                  err_code(d->why.code));
    else
        log_warn("disk=%s %s: %s", d->want.disk.s, erase ? "erase" : "make", err_code(d->why.code));
}

static void disk_work(struct agent *a, struct disk_row *d, enum disk_order order, utime_t now)
{
    struct priv_req req = {.lease = d->want.disk};
    struct priv_rep rep;
    struct refusal why = {.code = ERR_OK};

    req.disk.size_mib = d->want.size_mib;
    d->order = order;
    d->ordered_at = now;
    d->seen_at = 0;
    enum err e =
        helper_call(&a->helper, order == DISK_ORDER_ERASE ? PRIV_DISK_ERASE : PRIV_DISK_ENSURE,
                    &req, &rep, &why);
    if (e == ERR_OK && d->state == REC_DISK_NONE)
        d->found = false; /* until it was looked at: "none" is no longer what is known */
    if (e == ERR_OK || e == ERR_BUSY)
        return;
    d->why = why;
    disk_order_failed(d, now);
    a->urgent = true;
}

static bool instance_named(const struct agent *a, struct id instance, const struct disk_row *but)
{
    for (size_t i = 0; i < a->book.disks.len; i++)
        if (a->book.disks.at[i] != but && str_eq(a->book.disks.at[i]->want.instance.s, instance.s))
            return true;
    for (size_t i = 0; i < a->book.leases.len; i++)
        if (str_eq(a->book.leases.at[i]->want.instance.s, instance.s) &&
            !a->book.leases.at[i]->cleaned)
            return true;
    return false;
}

static void disk_drop(struct agent *a, struct disk_row *d)
{
    struct priv_rep rep;
    struct refusal why;
    struct id instance = d->want.instance;

    if (helper_ask(&a->helper, PRIV_DISK_FORGET, d->want.disk, &rep, &why) != ERR_OK) {
        d->seen_at = 0;
        return;
    }
    /* With its last disk an instance is gone, and so are its host keys. */
    if (instance.s[0] != '\0' && !instance_named(a, instance, d) &&
        helper_ask(&a->helper, PRIV_INSTANCE_FORGET, instance, &rep, &why) != ERR_OK)
        log_warn("instance=%s host keys stay", instance.s);
    book_disk_drop(&a->book, d);
}

static void image_drop(struct agent *a, struct image_row *m)
{
    struct priv_req req = {.version = PRIV_VERSION};
    struct priv_rep rep;
    struct refusal why;

    memcpy(req.image.digest, m->want.digest, sizeof(req.image.digest));
    if (helper_call(&a->helper, PRIV_IMAGE_REMOVE, &req, &rep, &why) == ERR_OK)
        a->urgent = true;
    m->found = false;
    m->state = REC_ITEM_NONE;
}

static void clean(struct agent *a, struct lease_row *l, utime_t now)
{
    struct priv_req req = {.lease = l->want.lease};
    struct priv_rep rep;
    struct refusal why;

    if (l->guest == REC_GUEST_NONE) {
        l->seen_at = 0; /* one more look, and it is clean */
        return;
    }
    if (l->clean_at != 0 && now - l->clean_at < CLEAN_AGAIN_MS)
        return;
    l->clean_at = now;
    req.deadline.epoch = l->epoch;
    enum priv_op op = l->guest == REC_GUEST_ENDED ? PRIV_GUEST_CLEAN : PRIV_GUEST_STOP;
    enum err e = helper_call(&a->helper, op, &req, &rep, &why);
    if (e != ERR_OK && e != ERR_STATE && e != ERR_BUSY)
        log_warn("lease=%s clean: %s", l->want.lease.s, err_code(e));
}

static void act_then(struct agent *a, const struct rec_action *x, utime_t now)
{
    switch (x->kind) {
    case REC_START:
        start(a, a->rows[x->index], x);
        break;
    case REC_DEADLINE:
        deadline_push(a, a->rows[x->index], x);
        break;
    case REC_ASK_STOP:
    case REC_ASK_KILL:
        end_ask(a, a->rows[x->index], x, now);
        break;
    case REC_REMOVE:
        clean(a, a->rows[x->index], now);
        break;
    case REC_FORGET:
        book_lease_drop(&a->book, a->rows[x->index], true);
        break;
    case REC_DISK_MAKE:
        disk_work(a, a->disks[x->index], DISK_ORDER_MAKE, now);
        break;
    case REC_DISK_ERASE:
        disk_work(a, a->disks[x->index], DISK_ORDER_ERASE, now);
        break;
    case REC_DISK_FORGET:
        disk_drop(a, a->disks[x->index]);
        break;
    case REC_IMAGE_FETCH:
        images_fetch(a, a->images[x->index]);
        break;
    case REC_IMAGE_REMOVE:
        image_drop(a, a->images[x->index]);
        break;
    case REC_TAKE:
    case REC_END:
        break;
    }
}

/* Small things that follow the guest's state and need no record. */
static void details_push(struct agent *a, struct lease_row *l)
{
    struct priv_rep rep;
    struct refusal why;

    if (l->phase != REC_STARTED ||
        (l->guest != REC_GUEST_PREPARING && l->guest != REC_GUEST_RUNNING))
        return;
    if (!l->keys_set) {
        struct priv_req req = {.lease = l->want.lease};

        req.text_len = (uint32_t)strlen(l->want.keys);
        memcpy(req.text, l->want.keys, req.text_len);
        l->keys_set = helper_call(&a->helper, PRIV_KEYS_SET, &req, &rep, &why) == ERR_OK;
    }
    if (!l->ports_set) {
        struct priv_req req = {.lease = l->want.lease};

        memcpy(req.guest.ports, l->want.ports, sizeof(req.guest.ports));
        req.guest.port_count = l->want.port_count;
        l->ports_set = helper_call(&a->helper, PRIV_PORTS_SET, &req, &rep, &why) == ERR_OK;
    }
    for (uint32_t i = 0; l->guest == REC_GUEST_RUNNING && i < l->want.notice_count; i++)
        if (l->want.notices[i].id > l->notice_seen) {
            l->notice_seen = l->want.notices[i].id;
            book_lease_save(&a->book, l);
            watch_notice(a, l, l->want.notices[i].text);
        }
}

/* Rows of things that are neither wanted nor here. */
static void rows_sweep(struct agent *a)
{
    for (size_t i = a->book.disks.len; i-- > 0;) {
        struct disk_row *d = a->book.disks.at[i];

        if (!d->named && d->found && d->state == REC_DISK_NONE)
            book_disk_drop(&a->book, d);
    }
    for (size_t i = a->book.images.len; i-- > 0;) {
        struct image_row *m = a->book.images.at[i];

        if (!m->named && m->found && m->state == REC_ITEM_NONE && !m->fetching)
            book_image_drop(&a->book, m);
    }
}

bool agent_act(struct agent *a, utime_t now)
{
    size_t done = 0;

    struct rec_actions *x = a->actions;

    table_fill(a, now);
    reconcile_decide(a->table, now, x);
    for (size_t i = 0; i < x->count; i++)
        write_first(a, &x->at[i], now);
    if (!agent_sync(a))
        return false;
    for (size_t i = 0; i < x->count && !a->helper.gone; i++) {
        done += x->at[i].kind == REC_REMOVE ? 0 : 1;
        act_then(a, &x->at[i], now);
    }
    rows_sweep(a);
    VEC_FOREACH (l, &a->book.leases)
        details_push(a, *l);
    (void)agent_sync(a);
    return done > 0;
}

void agent_kill_unknown(struct agent *a, const struct want *w, utime_t now)
{
    for (size_t i = 0; i < w->kill_count; i++) {
        struct priv_rep rep;
        struct refusal why;
        struct lease_row *l = book_lease(&a->book, w->kill_unknown[i]);

        if (l != NULL && l->named)
            continue; /* it is known: the answer's own row commands */
        if (helper_ask(&a->helper, PRIV_GUEST_STAT, w->kill_unknown[i], &rep, &why) != ERR_OK ||
            (l == NULL && rep.guest.state == GUEST_NONE))
            continue;
        if (l == NULL) {
            l = book_lease_add(&a->book, w->kill_unknown[i]);
            l->phase = REC_STARTED;
            l->epoch = l->want.epoch = MAX(rep.guest.epoch, INT64_C(1));
        }
        l->named = true;
        l->want.want = REC_KILL;
        l->want.reason = END_OPERATOR;
        l->taken_at = now;
        l->seen_at = 0;
        a->list_at = 0;
        book_lease_save(&a->book, l);
    }
}
