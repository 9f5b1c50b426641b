/* funds_disk.c: time of disks (money.md 1.8). A disk is its own subject; what runs for it:
 *
 *   free       system disk before its lease is ready, of a failed instance; anything closed
 *   disk       attached to a lease that is ready: paid from the lease's hold, never past it
 *   stopped    system disk of a stopped instance: from cash, then the receivable
 *   detached   data disk beside no running lease: from cash, then the receivable
 *
 * Seconds count while the node is heard; the cursor says up to where all is decided. */
#include "app/funds_int.h"

#include <stdlib.h>

enum err disk_advance(const struct books *b, const struct fund_lease *l, struct fund_disk *d,
                      int64_t to_s, bool heard, struct refusal *why)
{
    int64_t from = d->cursor_s;
    struct rating r;

    if (d->closed || d->meter == MONEY_FREE || to_s <= from)
        return ERR_OK;
    if (heard) {
        if (d->meter == METER_DISK && l)
            to_s = MIN(to_s, l->paid_until_s);
        if (to_s <= from)
            return ERR_OK;
        rating_of_disk(d, &r);
        enum err e = rating_add(b, &r, from, to_s, why);
        if (e != ERR_OK && e != ERR_PRICE_UNKNOWN) /* without a price it is free */
            return e;
    }
    d->cursor_s = to_s;
    return money_disk_save(b->store, d);
}

enum err funds_disk_open(struct store *s, struct id project, struct id instance, struct id node,
                         const struct funds_disk *d, utime_t ready_ms)
{
    struct fund_disk row;
    enum err e = money_disk_get(s, d->id, &row);
    int64_t from, to;

    if (e != ERR_NOT_FOUND)
        return e;
    meter_billable(ready_ms, ready_ms, &from, &to);
    row = (struct fund_disk){.disk = d->id,
                             .project = project,
                             .instance = instance,
                             .node = node,
                             .kind = d->kind,
                             .size_mib = d->size_mib,
                             .meter = d->kind == DISK_DATA ? METER_DISK_DETACHED : MONEY_FREE,
                             .started_s = from,
                             .cursor_s = from};
    row.before = row.meter;
    return money_disk_save(s, &row);
}

/* Up to now when the node was heard a moment ago; what is older and unheard stays free. */
static enum err advance_now(const struct books *b, const struct fund_lease *l, struct fund_disk *d,
                            struct refusal *why)
{
    return disk_advance(b, l, d, b->now_s, b->now_s - d->cursor_s <= FUNDS_DISK_TRUST_S, why);
}

static enum err disk_lease(struct store *s, const struct fund_disk *d, struct fund_lease *ret_l,
                           bool *ret_found)
{
    *ret_found = false;
    if (!d->lease.s[0])
        return ERR_OK;
    TRY(money_lease_get(s, d->lease, ret_l));
    *ret_found = !ret_l->settled;
    return ERR_OK;
}

enum err funds_disk_grow(struct store *s, utime_t now, struct id disk, int64_t size_mib,
                         struct refusal *why)
{
    struct term_plan *plan;
    struct fund_lease l;
    struct fund_disk d;
    struct books b;
    bool leased;

    enum err e = money_disk_get(s, disk, &d);
    if (e == ERR_NOT_FOUND)
        return ERR_OK; /* nothing is counted yet; its lease or open will say the size */
    TRY(e);
    TRY(books_open(s, now, d.project, &b, why));
    TRY(disk_lease(s, &d, &l, &leased));
    TRY(advance_now(&b, leased ? &l : NULL, &d, why));
    d.size_mib = size_mib;
    TRY(money_disk_save(s, &d));
    if (!leased || b.now_s >= l.paid_until_s)
        return ERR_OK;
    plan = mem_alloc(sizeof(*plan));
    e = lease_plan(&b, &l, RATING_ANEW, l.paid_until_s, plan, why);
    if (e == ERR_OK)
        e = lease_rehold(&b, &l, plan, why);
    free(plan);
    return e;
}

enum err funds_disk_close(struct store *s, utime_t now, struct id disk)
{
    struct fund_lease l;
    struct refusal why;
    struct fund_disk d;
    struct books b;
    bool leased;

    enum err e = money_disk_get(s, disk, &d);
    if (e == ERR_NOT_FOUND)
        return ERR_OK; /* it never cost anything */
    TRY(e);
    if (d.closed)
        return ERR_OK;
    TRY(books_open(s, now, d.project, &b, &why));
    TRY(disk_lease(s, &d, &l, &leased));
    TRY(advance_now(&b, leased ? &l : NULL, &d, &why));
    d.closed = true;
    TRY(money_disk_save(s, &d));
    return leased ? ERR_OK : funds_post_free(&b, &why);
}

enum err funds_disk_detach(struct store *s, utime_t now, struct id disk)
{
    struct fund_lease l;
    struct refusal why;
    struct fund_disk d;
    struct books b;
    bool leased;

    enum err e = money_disk_get(s, disk, &d);
    if (e == ERR_NOT_FOUND)
        return ERR_OK; /* its time has not begun */
    TRY(e);
    /* The platform stopped its instance: a data disk of no lease is free for no other reason. */
    bool spared = d.meter == MONEY_FREE && d.kind == DISK_DATA && !d.lease.s[0];
    if (d.closed || (d.meter != METER_DISK && !spared))
        return ERR_OK;
    TRY(books_open(s, now, d.project, &b, &why));
    TRY(disk_lease(s, &d, &l, &leased));
    TRY(advance_now(&b, leased ? &l : NULL, &d, &why));
    d.meter = METER_DISK_DETACHED;
    d.cursor_s = MAX(d.cursor_s, b.now_s);
    d.started_s = d.cursor_s;
    d.lease = (struct id){0};
    return money_disk_save(s, &d);
}

enum err funds_node_time(struct store *s, utime_t now, struct id node, utime_t to_ms, bool heard)
{
    struct fund_disk_list disks = {0};
    struct refusal why;
    enum err e = money_disk_of_node(s, node, &disks);

    for (size_t i = 0; i < disks.len && e == ERR_OK; i++) {
        struct fund_disk *d = &disks.at[i];
        struct fund_lease l;
        struct books b;
        bool leased = false;
        int64_t to_s = heard ? to_ms / MS_PER_S : (to_ms + MS_PER_S - 1) / MS_PER_S;

        if (d->meter == MONEY_FREE || to_s <= d->cursor_s)
            continue;
        e = books_open(s, now, d->project, &b, &why);
        if (e == ERR_OK)
            e = disk_lease(s, d, &l, &leased);
        if (e == ERR_OK)
            e = disk_advance(&b, leased ? &l : NULL, d, to_s, heard, &why);
    }
    vec_fini(&disks);
    return e;
}
