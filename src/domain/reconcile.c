/* reconcile.c: the rule, per lease, in the order of the code.
 *
 *   journal | wanted         | found            | does
 *   --------+----------------+------------------+--------------------------------------------
 *   any     | lower epoch    | any              | as if it were not named
 *   none    | named          | any              | take (a running guest of that epoch is adopted)
 *   ended   | higher epoch   | any              | remove what is left, then take anew
 *   other   | higher epoch   | any              | take: the new epoch commands from now on
 *   new     | run            | no image, disk   | wait; a failed one ends it (start_failed)
 *   new     | run            | all there        | start, unless its end has come (end)
 *   new     | stop kill clean| any              | end
 *   started | run, unnamed   | no guest         | never seen reachable: start again; else end
 * (node_lost) started | run            | guest            | deadline where the guard has another
 *   started | stop, idle     | guest            | ask to stop, once
 *   started | kill, clean    | guest            | ask to kill, once
 *   started | any            | past its hard end| ask to kill, every time
 *   started | any            | ended            | end
 *   ended   | any            | anything left    | remove
 *   ended   | unnamed        | nothing left     | forget, once its slices are safe */
#include "domain/reconcile.h"

#include "base/str.h"

static struct rec_action *push(struct rec_actions *a, enum rec_action_kind kind, size_t index)
{
    CHECK(a->count < RECONCILE_ACTIONS_MAX);
    struct rec_action *x = &a->at[a->count++];
    memset(x, 0, sizeof(*x));
    x->kind = kind;
    x->index = index;
    return x;
}

void reconcile_deadline(const struct rec_lease *l, utime_t *ret_soft, utime_t *ret_hard)
{
    utime_t hard = MIN(l->paid_until, l->ends_at);

    *ret_hard = hard;
    *ret_soft = hard == UTIME_NEVER ? UTIME_NEVER : MAX(hard - l->grace_ms, (utime_t)0);
}

enum end_reason reconcile_deadline_reason(utime_t paid_until, utime_t ends_at)
{
    return paid_until < ends_at ? END_BALANCE : END_REACHED;
}

static const struct rec_disk *disk_find(const struct rec_table *t, struct id disk)
{
    for (size_t i = 0; i < t->disk_count; i++)
        if (str_eq(t->disks[i].disk.s, disk.s))
            return &t->disks[i];
    return NULL;
}

static const struct rec_image *image_find(const struct rec_table *t, const char *digest)
{
    for (size_t i = 0; i < t->image_count; i++)
        if (str_eq(t->images[i].digest, digest))
            return &t->images[i];
    return NULL;
}

static void end_failed(struct rec_actions *a, size_t i, enum err why, const char *name)
{
    struct rec_action *x = push(a, REC_END, i);

    x->end = END_START_FAILED;
    x->why = why;
    (void)str_copy(x->name, sizeof(x->name), name);
}

/* True: all disks can be given to the guest now. A disk that can never be ends the lease. */
static bool disks_ready(const struct rec_table *t, size_t i, struct rec_actions *a)
{
    const struct rec_lease *l = &t->leases[i];
    bool ready = true;

    for (int32_t k = 0; k < l->disk_count; k++) {
        const struct rec_disk *d = disk_find(t, l->disks[k]);

        if (d == NULL || d->want != REC_DISK_PRESENT || d->state == REC_DISK_ERASING ||
            d->state == REC_DISK_ERASED || d->state == REC_DISK_BROKEN) {
            end_failed(a, i, ERR_DISK_SETUP, l->disks[k].s);
            return false;
        }
        if (d->fail != ERR_OK && !d->retry) {
            end_failed(a, i, d->fail, l->disks[k].s);
            return false;
        }
        /* Attached is fine for a repeated order only; another holder still has to let go of it. */
        if (!d->found || d->state == REC_DISK_NONE || d->size_mib < d->want_mib ||
            (d->state == REC_DISK_ATTACHED && l->phase != REC_STARTED))
            ready = false;
    }
    return ready;
}

static void start_decide(const struct rec_table *t, size_t i, utime_t now, struct rec_actions *a)
{
    const struct rec_lease *l = &t->leases[i];
    const struct rec_image *image = image_find(t, l->image);
    size_t before = a->count;
    utime_t soft, hard;

    reconcile_deadline(l, &soft, &hard);
    if (hard <= now) {
        push(a, REC_END, i)->end = reconcile_deadline_reason(l->paid_until, l->ends_at);
        return;
    }
    if (image == NULL || (image->state == REC_ITEM_NONE && !image->want) ||
        (image->state == REC_ITEM_FAILED && !image->retry)) {
        end_failed(a, i, ERR_IMAGE_NOT_FOUND, l->image);
        return;
    }
    bool ready = disks_ready(t, i, a);
    if (a->count != before || !ready || image->state != REC_ITEM_READY)
        return;
    if (!l->devices_ok) {
        end_failed(a, i, ERR_UNSUPPORTED, "GPU");
        return;
    }
    struct rec_action *x = push(a, REC_START, i);
    x->soft = soft;
    x->hard = hard;
}

static void new_decide(const struct rec_table *t, size_t i, enum rec_want want, utime_t now,
                       struct rec_actions *a)
{
    switch (want) {
    case REC_UNNAMED:
        break;
    case REC_RUN:
        start_decide(t, i, now, a);
        break;
    case REC_STOP:
    case REC_KILL:
    case REC_CLEAN:
        push(a, REC_END, i);
        break;
    }
}

static void alive_decide(const struct rec_lease *l, size_t i, enum rec_want want, utime_t now,
                         struct rec_actions *a)
{
    utime_t soft, hard;

    reconcile_deadline(l, &soft, &hard);
    if (hard < now) {
        push(a, REC_ASK_KILL, i);
        return;
    }
    /* Once it was asked to stop its end is nearer than these, and stays so. */
    if (want == REC_RUN && !l->idle_due && l->asked == REC_UNNAMED &&
        (l->guard_soft != soft || l->guard_hard != hard)) {
        struct rec_action *x = push(a, REC_DEADLINE, i);

        x->soft = soft;
        x->hard = hard;
    }
    if (want == REC_KILL || want == REC_CLEAN) {
        if (l->asked != REC_KILL)
            push(a, REC_ASK_KILL, i);
    } else if (want == REC_STOP || l->idle_due) {
        if (l->asked == REC_UNNAMED)
            push(a, REC_ASK_STOP, i);
    }
}

static void started_decide(const struct rec_table *t, size_t i, enum rec_want want, utime_t now,
                           struct rec_actions *a)
{
    const struct rec_lease *l = &t->leases[i];

    switch (l->guest) {
    case REC_GUEST_NONE:
        if (l->was_ready)
            push(a, REC_END, i)->end = END_NODE_LOST;
        else if (want == REC_RUN)
            start_decide(t, i, now, a);
        else if (want != REC_UNNAMED)
            push(a, REC_END, i);
        break;
    case REC_GUEST_PREPARING:
    case REC_GUEST_RUNNING:
        alive_decide(l, i, want, now, a);
        break;
    case REC_GUEST_ENDED:
        push(a, REC_END, i);
        break;
    }
}

static void ended_decide(const struct rec_lease *l, size_t i, bool newer, struct rec_actions *a)
{
    if (!l->cleaned)
        push(a, REC_REMOVE, i);
    else if (newer)
        push(a, REC_TAKE, i);
    else if (l->want == REC_UNNAMED && l->settled)
        push(a, REC_FORGET, i);
}

static void lease_decide_row(const struct rec_table *t, size_t i, utime_t now,
                             struct rec_actions *a)
{
    const struct rec_lease *l = &t->leases[i];
    bool lower = l->phase != REC_NONE && l->want_epoch < l->epoch;
    enum rec_want want = lower ? REC_UNNAMED : l->want;
    bool newer = want != REC_UNNAMED && l->phase != REC_NONE && l->want_epoch > l->epoch;

    if (!l->found && l->phase != REC_NEW)
        return;
    switch (l->phase) {
    case REC_NONE:
        if (want != REC_UNNAMED)
            push(a, REC_TAKE, i);
        break;
    case REC_NEW:
        if (newer)
            push(a, REC_TAKE, i);
        else
            new_decide(t, i, want, now, a);
        break;
    case REC_STARTED:
        if (newer)
            push(a, REC_TAKE, i);
        else
            started_decide(t, i, want, now, a);
        break;
    case REC_ENDED:
        ended_decide(l, i, newer, a);
        break;
    }
}

static void disk_decide(const struct rec_table *t, size_t i, struct rec_actions *a)
{
    const struct rec_disk *d = &t->disks[i];

    if (!d->found)
        return;
    switch (d->want) {
    case REC_DISK_UNNAMED:
        if (d->state == REC_DISK_ERASED)
            push(a, REC_DISK_FORGET, i);
        break;
    case REC_DISK_PRESENT:
        if (!d->retry)
            break;
        if (d->state == REC_DISK_NONE ||
            (d->size_mib < d->want_mib &&
             (d->state == REC_DISK_READY || (d->state == REC_DISK_ATTACHED && t->online_grow))))
            push(a, REC_DISK_MAKE, i);
        break;
    case REC_DISK_GONE:
        /* Erasing without an order of ours: whoever worked at it died; it is ordered again. */
        if (d->retry && (d->state == REC_DISK_READY || d->state == REC_DISK_BROKEN ||
                         d->state == REC_DISK_ERASING))
            push(a, REC_DISK_ERASE, i);
        break;
    }
}

static bool image_used(const struct rec_table *t, const char *digest)
{
    for (size_t i = 0; i < t->lease_count; i++) {
        const struct rec_lease *l = &t->leases[i];
        bool over = l->phase == REC_NONE || (l->phase == REC_ENDED && l->cleaned);

        if (str_eq(l->image, digest) && !(over && l->guest == REC_GUEST_NONE))
            return true;
    }
    return false;
}

static void image_decide(const struct rec_table *t, size_t i, struct rec_actions *a)
{
    const struct rec_image *m = &t->images[i];

    switch (m->state) {
    case REC_ITEM_NONE:
    case REC_ITEM_FAILED:
        if (m->want && m->retry)
            push(a, REC_IMAGE_FETCH, i);
        break;
    case REC_ITEM_WORKING:
        break;
    case REC_ITEM_READY:
        if (!m->want && !image_used(t, m->digest))
            push(a, REC_IMAGE_REMOVE, i);
        break;
    }
}

void reconcile_decide(const struct rec_table *t, utime_t now, struct rec_actions *ret_actions)
{
    ret_actions->count = 0;
    for (size_t i = 0; i < t->image_count; i++)
        image_decide(t, i, ret_actions);
    for (size_t i = 0; i < t->disk_count; i++)
        disk_decide(t, i, ret_actions);
    for (size_t i = 0; i < t->lease_count; i++)
        lease_decide_row(t, i, now, ret_actions);
}
