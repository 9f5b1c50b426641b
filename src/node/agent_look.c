#include "node/agent_int.h"

#include "base/log.h"

#define LOOK_BUSY_MS 10    /* something is being made: its end should show at once */
#define LOOK_MADE_MS 3     /* a disk is made in a few ms, and a start waits for it */
#define LOOK_ENDING_MS 100 /* around an end */
#define LOOK_CALM_MS 1000
#define LOOK_SLOW_MS 10000
#define LOOK_LIST_MS 30000

enum err agent_hello(struct agent *a, struct refusal *why)
{
    struct priv_req req = {.version = PRIV_VERSION};

    return helper_call(&a->helper, PRIV_HELLO, &req, &a->hello, why);
}

/* ---- cards ---- */

void agent_cards_read(struct agent *a, utime_t now)
{
    struct refusal why;
    static struct gpu_list fresh;
    bool changed;

    if (gpu_read(a->gpu, &fresh, &why) != ERR_OK) {
        if (a->cards_known)
            log_warn("the cards cannot be read");
        changed = a->cards_known;
        a->cards_known = false;
        a->cards.count = 0;
    } else {
        changed = !a->cards_known || fresh.count != a->cards.count;
        for (size_t i = 0; !changed && i < fresh.count; i++)
            changed = !str_eq(fresh.at[i].uuid, a->cards.at[i].uuid) ||
                      fresh.at[i].healthy != a->cards.at[i].healthy;
        a->cards = fresh;
        a->cards_known = true;
    }
    a->cards_at = now;
    if (changed)
        a->urgent = true;
}

bool agent_cards_ok(const struct agent *a, const struct want_lease *w)
{
    if (w->gpu_count == 0)
        return true;
    if (!a->cards_known)
        return false;
    for (uint32_t i = 0; i < w->gpu_count; i++) {
        const struct gpu_card *c = gpu_find(&a->cards, w->gpus[i]);

        if (c == NULL || !c->healthy)
            return false;
    }
    return true;
}

/* ---- guests ---- */

static int64_t lease_pace(const struct lease_row *l, utime_t now)
{
    utime_t end = MIN(l->guard.soft_end_boot_ms, l->guard.hard_end_boot_ms);

    if (l->seen_at == 0)
        return 0;
    switch (l->phase) {
    case REC_NONE:
        return LOOK_CALM_MS;
    case REC_NEW:
        return LOOK_SLOW_MS;
    case REC_STARTED:
        if (!l->found)
            return 2 * LOOK_ENDING_MS;
        if (l->guest == REC_GUEST_PREPARING || (l->guest == REC_GUEST_RUNNING && l->ready == 0))
            return LOOK_BUSY_MS;
        return l->asked != REC_UNNAMED || end - LOOK_CALM_MS < now ? LOOK_ENDING_MS : LOOK_CALM_MS;
    case REC_ENDED:
        if (l->cleaned)
            return INT32_MAX;
        return now - l->asked_at < 5000 ? LOOK_BUSY_MS : LOOK_CALM_MS;
    }
    return LOOK_CALM_MS;
}

static enum rec_guest guest_state_of(uint32_t state)
{
    switch ((enum guest_state)state) {
    case GUEST_PREPARING:
        return REC_GUEST_PREPARING;
    case GUEST_RUNNING:
        return REC_GUEST_RUNNING;
    case GUEST_ENDED:
        return REC_GUEST_ENDED;
    case GUEST_NONE:
        break;
    }
    return REC_GUEST_NONE;
}

static void guest_fill(struct agent *a, struct lease_row *l, const struct priv_rep *rep)
{
    enum rec_guest before = l->guest;

    l->guest = guest_state_of(rep->guest.state);
    l->guest_epoch = rep->guest.epoch;
    l->pid = rep->guest.pid;
    l->guard_alive = rep->guest.guard_alive != 0;
    l->oom = rep->guest.oom != 0;
    l->at_deadline = rep->guest.killed_at_deadline != 0;
    l->guest_exit = rep->guest.exit_code;
    l->guest_ready = rep->guest.ready_boot_ms;
    l->guest_ended = rep->guest.ended_boot_ms;
    /* While its guard is about to write the record there is none to read. */
    if (l->guest != REC_GUEST_PREPARING || rep->guest.deadline.hard_end_boot_ms != 0)
        l->guard = rep->guest.deadline;
    l->fail = rep->guest.fail < ERR_COUNT ? (enum err)rep->guest.fail : ERR_INTERNAL;
    l->fail_why = rep->why;
    l->fail_why.code = l->fail;
    if (l->step != rep->guest.step)
        a->soft = true;
    l->step = rep->guest.step;
    memcpy(l->step_us, rep->guest.step_us, sizeof(l->step_us));
    if (before != l->guest && l->phase == REC_STARTED)
        a->soft = true;
    if (rep->guest.host_key[0] != '\0')
        (void)str_printf(l->host_key, sizeof(l->host_key), "%.255s", rep->guest.host_key);
}

void agent_disks_look_again(struct agent *a, const struct lease_row *l)
{
    struct disk_row *d = book_disk(&a->book, l->want.system_disk);

    if (d != NULL)
        d->seen_at = 0;
    for (uint32_t i = 0; i < l->want.data_count; i++)
        if ((d = book_disk(&a->book, l->want.data[i].disk)) != NULL)
            d->seen_at = 0;
}

static void lease_look(struct agent *a, struct lease_row *l, utime_t now)
{
    struct priv_rep rep;
    struct refusal why;
    enum err e = helper_ask(&a->helper, PRIV_GUEST_STAT, l->want.lease, &rep, &why);

    l->seen_at = now;
    l->found = e == ERR_OK;
    if (!l->found) {
        log_warn("lease=%s stat: %s", l->want.lease.s, err_code(e));
        return;
    }
    guest_fill(a, l, &rep);
    if (l->phase == REC_STARTED && l->guest_ready > 0 && l->ready == 0 &&
        (l->guest == REC_GUEST_RUNNING || l->guest == REC_GUEST_ENDED))
        watch_begin(a, l);
    if (l->phase == REC_ENDED && !l->cleaned && l->guest == REC_GUEST_NONE) {
        l->cleaned = true;
        book_lease_save(&a->book, l);
        agent_disks_look_again(a, l); /* they are let go now */
        a->urgent = true;
    }
}

/* ---- disks ---- */

static int64_t disk_pace(const struct disk_row *d)
{
    if (d->seen_at == 0)
        return 0;
    if (d->order == DISK_ORDER_MAKE)
        return LOOK_MADE_MS;
    switch (d->state) {
    case REC_DISK_ERASING:
        return LOOK_ENDING_MS;
    case REC_DISK_ATTACHED:
        return LOOK_SLOW_MS;
    case REC_DISK_NONE:
    case REC_DISK_READY:
    case REC_DISK_ERASED:
    case REC_DISK_BROKEN:
        break;
    }
    return d->found ? LOOK_LIST_MS : LOOK_CALM_MS;
}

static enum rec_disk_state disk_state_of(uint32_t state)
{
    switch ((enum disk_state)state) {
    case DISK_NONE:
        return REC_DISK_NONE;
    case DISK_READY:
        return REC_DISK_READY;
    case DISK_ATTACHED:
        return REC_DISK_ATTACHED;
    case DISK_ERASING:
        return REC_DISK_ERASING;
    case DISK_ERASED:
        return REC_DISK_ERASED;
    case DISK_BROKEN:
        break;
    }
    return REC_DISK_BROKEN;
}

static bool disk_order_done(const struct disk_row *d)
{
    switch (d->order) {
    case DISK_ORDER_NONE:
        return true;
    case DISK_ORDER_MAKE:
        return d->state != REC_DISK_NONE && d->size_mib >= d->want.size_mib;
    case DISK_ORDER_ERASE:
        return d->state == REC_DISK_ERASED || d->state == REC_DISK_NONE;
    }
    return true;
}

static bool disk_as_wanted(const struct disk_row *d)
{
    if (d->want.want == REC_DISK_GONE)
        return d->state == REC_DISK_ERASED;
    return d->state != REC_DISK_NONE && d->state != REC_DISK_BROKEN &&
           d->size_mib >= d->want.size_mib;
}

/* failed: the error of the last attempt, as the helper remembers it. */
static void disk_order_settle(struct agent *a, struct disk_row *d, enum err failed,
                              const struct refusal *why)
{
    if (failed == ERR_OK) {
        /* Done, by whichever try; that a failed one is not remembered there clears nothing. */
        if (!disk_order_done(d) || (d->order == DISK_ORDER_NONE && !disk_as_wanted(d)))
            return;
        a->urgent = a->urgent || d->order != DISK_ORDER_NONE;
        d->order = DISK_ORDER_NONE;
        d->failures = 0;
        (void)refuse(&d->why, ERR_OK);
        return;
    }
    if (d->order != DISK_ORDER_NONE || d->why.code == ERR_OK) {
        d->why = *why;
        a->urgent = true;
    }
    if (d->order != DISK_ORDER_NONE)
        disk_order_failed(d, agent_now());
}

static void disk_look(struct agent *a, struct disk_row *d, utime_t now)
{
    struct priv_rep rep;
    struct refusal why = {.code = ERR_OK};
    enum err e = helper_ask(&a->helper, PRIV_DISK_STAT, d->want.disk, &rep, &why);

    d->seen_at = now;
    /* ERR_BUSY: it is being made, and neither here nor gone */
    if (e == ERR_UNAVAILABLE || e == ERR_TIMEOUT || e == ERR_PROTOCOL || e == ERR_BUSY) {
        d->found = false;
        return;
    }
    enum rec_disk_state state = disk_state_of(rep.disk.state);
    if (!d->found || state != d->state || d->size_mib != rep.disk.size_mib)
        a->urgent = true;
    d->found = true;
    d->state = state;
    d->size_mib = rep.disk.size_mib;
    d->used_mib = rep.disk.used_mib;
    d->inodes = rep.disk.inodes;
    d->inodes_used = rep.disk.inodes_used;
    d->erased_bytes = rep.disk.erased_bytes;
    d->erase_ms = rep.disk.erase_ms;
    disk_order_settle(a, d, e, &why);
}

/* ---- what lives here and nobody named ---- */

static void list_look(struct agent *a, utime_t now)
{
    struct priv_rep rep;
    struct priv_req req = {.version = PRIV_VERSION};
    struct refusal why;
    size_t before = a->unknown_count;

    a->list_at = now;
    if (helper_call(&a->helper, PRIV_LIST, &req, &rep, &why) != ERR_OK)
        return; /* no answer is not "nothing lives here": the old list stays */
    a->unknown_count = 0;
    for (uint32_t i = 0; i < MIN(rep.list.lease_count, (uint32_t)(PRIV_LIST_MAX / 4)); i++) {
        struct priv_rep stat;
        struct unknown_guest *u = &a->unknown[a->unknown_count];

        if (book_lease(&a->book, rep.list.leases[i]) != NULL ||
            a->unknown_count == AGENT_UNKNOWN_MAX)
            continue;
        u->lease = rep.list.leases[i];
        bool known = helper_ask(&a->helper, PRIV_GUEST_STAT, u->lease, &stat, &why) == ERR_OK;
        u->pid = known ? stat.guest.pid : 0;
        a->unknown_count++;
    }
    a->stray_count = MIN((size_t)rep.list.stray_count, ARRAY_LEN(a->strays));
    for (size_t i = 0; i < a->stray_count; i++)
        (void)str_printf(a->strays[i], sizeof(a->strays[i]), "%.95s", rep.list.strays[i]);
    if (a->unknown_count != before)
        a->urgent = true;
}

/* ---- all ---- */

static bool cards_used(const struct agent *a)
{
    for (size_t i = 0; i < a->book.leases.len; i++)
        if (a->book.leases.at[i]->phase == REC_STARTED && a->book.leases.at[i]->want.gpu_count > 0)
            return true;
    return false;
}

static int64_t cards_pace(const struct agent *a)
{
    return cards_used(a) ? LOOK_CALM_MS : LOOK_SLOW_MS;
}

void agent_look(struct agent *a, utime_t now)
{
    if (a->cards_at == 0 || now - a->cards_at >= cards_pace(a))
        agent_cards_read(a, now);
    VEC_FOREACH (l, &a->book.leases)
        if (now - (*l)->seen_at >= lease_pace(*l, now))
            lease_look(a, *l, now);
    VEC_FOREACH (d, &a->book.disks)
        if (now - (*d)->seen_at >= disk_pace(*d))
            disk_look(a, *d, now);
    images_look(a, now);
    if (a->list_at == 0 || now - a->list_at >= LOOK_LIST_MS)
        list_look(a, now);
    if (a->helper.gone)
        agent_leave(a, 1, "the root helper is gone");
}

utime_t agent_look_due(const struct agent *a, utime_t now)
{
    utime_t due = MIN(a->cards_at + cards_pace(a), a->list_at + LOOK_LIST_MS);

    for (size_t i = 0; i < a->book.leases.len; i++) {
        const struct lease_row *l = a->book.leases.at[i];

        due = MIN(due, l->seen_at + lease_pace(l, now));
    }
    for (size_t i = 0; i < a->book.disks.len; i++) {
        const struct disk_row *d = a->book.disks.at[i];

        due = MIN(due, d->seen_at + disk_pace(d));
        if (d->failures > 0 && d->retry_at > now)
            due = MIN(due, d->retry_at);
    }
    return MIN(due, images_due(a, now));
}
