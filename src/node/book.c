#include "node/book_record.h"

#include "base/log.h"

#include <stdlib.h>

#define SAME_END_MS 500

/* ---- leases, disks, images in memory ---- */

struct lease_row *book_lease(struct book *b, struct id lease)
{
    VEC_FOREACH (l, &b->leases)
        if (str_eq((*l)->want.lease.s, lease.s))
            return *l;
    return NULL;
}

struct lease_row *book_lease_add(struct book *b, struct id lease)
{
    struct lease_row *l = mem_alloc(sizeof(*l));

    l->want.lease = lease;
    l->want.paid_until = l->want.ends_at = UTIME_NEVER;
    memcpy(l->boot, b->boot, sizeof(l->boot));
    l->exit_code = -1;
    l->cards_ok = true;
    *vec_push(&b->leases) = l;
    return l;
}

void book_lease_free(struct lease_row *l)
{
    free(l->report);
    free(l->log_data);
    free(l);
}

void book_lease_renew(struct book *b, struct lease_row *l)
{
    struct want_lease want = l->want;
    bool named = l->named;

    free(l->report);
    free(l->log_data);
    memset(l, 0, sizeof(*l));
    l->want = want;
    l->named = named;
    l->phase = REC_NEW;
    l->epoch = want.epoch;
    memcpy(l->boot, b->boot, sizeof(l->boot));
    l->exit_code = -1;
    l->cards_ok = true;
}

struct disk_row *book_disk(struct book *b, struct id disk)
{
    VEC_FOREACH (d, &b->disks)
        if (str_eq((*d)->want.disk.s, disk.s))
            return *d;
    return NULL;
}

struct image_row *book_image_add(struct book *b, const char *digest)
{
    struct image_row *m = mem_alloc(sizeof(*m));

    (void)str_copy(m->want.digest, sizeof(m->want.digest), digest);
    m->want.present = true;
    m->unsaved = true;
    *vec_push(&b->images) = m;
    return m;
}

struct image_row *book_image(struct book *b, const char *digest)
{
    VEC_FOREACH (m, &b->images)
        if (str_eq((*m)->want.digest, digest))
            return *m;
    return NULL;
}

void book_tomb_add(struct book *b, struct id lease, int64_t epoch)
{
    if (b->tombs.len == BOOK_TOMBS_MAX) {
        memmove(b->tombs.at, b->tombs.at + 1, (b->tombs.len - 1) * sizeof(*b->tombs.at));
        b->tombs.len--;
    }
    *vec_push(&b->tombs) = (struct tomb){lease, epoch};
}

void book_lease_drop(struct book *b, struct lease_row *l, bool tomb)
{
    book_drop_save(b, l->want.lease, tomb ? l->epoch : 0);
    if (tomb)
        book_tomb_add(b, l->want.lease, l->epoch);
    VEC_DROP(&b->leases, l);
    book_lease_free(l);
}

void book_disk_drop(struct book *b, struct disk_row *d)
{
    book_disk_save(b, d, true);
    VEC_DROP(&b->disks, d);
    free(d);
}

void book_image_drop(struct book *b, struct image_row *m)
{
    book_image_save(b, m, true);
    VEC_DROP(&b->images, m);
    free(m);
}

void book_slice_add(struct book *b, const struct lease_row *l, struct meter_slice *s)
{
    memcpy(s->boot, b->boot, sizeof(b->boot));
    s->seq = b->seq_next++;
    s->lease = l->want.lease;
    s->epoch = l->epoch;
    book_slice_sign(b, s);
    *vec_push(&b->slices) = *s;
    book_slice_save(b, s, book_idle_mark(l));
}

void book_slices_drop(struct book *b, const char *boot, int64_t seq)
{
    size_t kept = 0;

    for (size_t i = 0; i < b->slices.len; i++)
        if (!str_eq(b->slices.at[i].boot, boot) || b->slices.at[i].seq > seq)
            b->slices.at[kept++] = b->slices.at[i];
    b->slices.len = kept;
}

void book_slices_ack(struct book *b, const char *boot, int64_t seq)
{
    size_t before = b->slices.len;

    book_slices_drop(b, boot, seq);
    if (b->slices.len == before)
        return;
    book_ack_save(b, boot, seq);
}

bool book_lease_settled(const struct book *b, const struct lease_row *l)
{
    for (size_t i = 0; i < b->slices.len; i++)
        if (str_eq(b->slices.at[i].lease.s, l->want.lease.s))
            return false;
    return l->told;
}

/* ---- taking an answer ---- */

static utime_t end_merge(utime_t old, utime_t told)
{
    bool same =
        old != UTIME_NEVER && told != UTIME_NEVER && told >= old && told - old < SAME_END_MS;

    return same ? old : told;
}

static bool want_differs(const struct want_lease *a, const struct want_lease *b)
{
    struct want_lease x = *a, y = *b;

    /* What is not kept in the journal does not make a record. */
    memset(x.notices, 0, sizeof(x.notices));
    memset(y.notices, 0, sizeof(y.notices));
    x.notice_count = y.notice_count = 0;
    x.want_logs = y.want_logs = false;
    return memcmp(&x, &y, sizeof(x)) != 0;
}

static void lease_merge(struct book *b, struct lease_row *l, const struct want_lease *told)
{
    struct want_lease next = *told;
    bool was_named = l->named;

    l->named = true;
    if (l->phase != REC_NONE && told->epoch < l->want.epoch) {
        log_warn("lease=%s epoch=%" PRId64 " is below %" PRId64 ": ignored", told->lease.s,
                 told->epoch, l->want.epoch);
        return;
    }
    if (told->want != REC_RUN) {
        /* An end does not repeat the shape. */
        next = l->want;
        next.epoch = told->epoch;
        next.want = told->want;
        next.reason = told->reason;
        next.grace_ms = told->grace_ms;
        if (next.instance.s[0] == '\0')
            next.instance = told->instance;
        next.want_logs = told->want_logs;
    } else {
        next.paid_until = end_merge(l->want.paid_until, told->paid_until);
        next.ends_at = end_merge(l->want.ends_at, told->ends_at);
    }
    bool ports = memcmp(next.ports, l->want.ports, sizeof(next.ports)) != 0 ||
                 next.port_count != l->want.port_count;
    bool keys = !str_eq(next.keys, l->want.keys);
    bool changed = want_differs(&next, &l->want) || !was_named;
    l->want = next;
    l->ports_set = l->ports_set && !ports;
    l->keys_set = l->keys_set && !keys;
    if (changed && l->phase != REC_NONE)
        book_lease_save(b, l);
}

static struct lease_row *lease_told(struct book *b, const struct want_lease *told)
{
    struct lease_row *l = book_lease(b, told->lease);

    if (l != NULL)
        return l;
    l = book_lease_add(b, told->lease);
    VEC_FOREACH (t, &b->tombs)
        if (str_eq(t->lease.s, told->lease.s) && t->epoch >= told->epoch) {
            /* Ended and forgotten here before: it never comes back in that epoch. */
            l->phase = REC_ENDED;
            l->epoch = l->want.epoch = t->epoch;
            l->end = told->reason != END_NONE ? told->reason : END_OPERATOR;
            l->cleaned = true;
        }
    return l;
}

static void disks_take(struct book *b, const struct want *w)
{
    VEC_FOREACH (d, &b->disks)
        (*d)->named = false;
    for (size_t i = 0; i < w->disk_count; i++) {
        struct disk_row *d = book_disk(b, w->disks[i].disk);
        bool fresh = d == NULL;

        if (fresh) {
            d = mem_alloc(sizeof(*d));
            *vec_push(&b->disks) = d;
        }
        bool changed = fresh || memcmp(&d->want, &w->disks[i], sizeof(d->want)) != 0;
        if (changed) {
            /* A new wish gets a try at once. */
            d->failures = 0;
            d->retry_at = 0;
            d->seen_at = 0;
            d->order = DISK_ORDER_NONE;
            (void)refuse(&d->why, ERR_OK);
        }
        d->want = w->disks[i];
        d->named = true;
        if (changed)
            book_disk_save(b, d, false);
    }
}

static void resolves_take(struct book *b, const struct want *w)
{
    size_t kept = 0;

    VEC_FOREACH (r, &b->resolves)
        r->named = false;
    for (size_t i = 0; i < w->resolve_count; i++) {
        struct resolve_row *found = NULL;

        VEC_FOREACH (r, &b->resolves)
            if (str_eq(r->source, w->resolve[i]))
                found = r;
        if (found == NULL) {
            found = vec_push(&b->resolves);
            (void)str_copy(found->source, sizeof(found->source), w->resolve[i]);
        }
        found->named = true;
    }
    for (size_t i = 0; i < b->resolves.len; i++)
        if (b->resolves.at[i].named || b->resolves.at[i].fetching)
            b->resolves.at[kept++] = b->resolves.at[i];
    b->resolves.len = kept;
}

static bool image_changed(const struct image_row *m, const struct want_image *w)
{
    return m->unsaved || memcmp(&m->want, w, sizeof(m->want)) != 0;
}

static void images_take(struct book *b, const struct want *w)
{
    VEC_FOREACH (m, &b->images)
        (*m)->named = false;
    for (size_t i = 0; i < w->image_count; i++) {
        struct image_row *m = book_image(b, w->images[i].digest);

        if (m == NULL)
            m = book_image_add(b, w->images[i].digest);
        bool changed = image_changed(m, &w->images[i]);
        m->want = w->images[i];
        m->named = true;
        m->unsaved = false;
        if (changed) {
            m->retry_at = 0;
            book_image_save(b, m, false);
        }
    }
}

void book_take(struct book *b, const struct want *w)
{
    bool *was = mem_alloc(b->leases.len + 1);
    size_t known = b->leases.len;

    for (size_t i = 0; i < known; i++)
        was[i] = b->leases.at[i]->named;
    for (size_t i = 0; i < w->lease_count; i++)
        lease_merge(b, lease_told(b, &w->leases[i]), &w->leases[i]);
    for (size_t i = 0; i < known; i++) {
        struct lease_row *l = b->leases.at[i];
        bool told = false;

        for (size_t k = 0; k < w->lease_count; k++)
            told = told || str_eq(w->leases[k].lease.s, l->want.lease.s);
        l->named = told;
        if (was[i] && !told && l->phase != REC_NONE)
            book_lease_save(b, l);
    }
    free(was);
    disks_take(b, w);
    images_take(b, w);
    resolves_take(b, w);
}

/* The machine was started anew: what had begun ended with the last proof of it. */
static void boot_pass(struct book *b)
{
    for (size_t i = 0; i < b->leases.len;) {
        struct lease_row *l = b->leases.at[i];

        if (str_eq(l->boot, b->boot) || l->phase == REC_ENDED) {
            i++;
            continue;
        }
        if (l->phase == REC_STARTED) {
            l->phase = REC_ENDED;
            l->end = l->stop_reason != END_NONE ? l->stop_reason : END_NODE_LOST;
            l->ended = l->ready > 0 ? MAX(l->meter.t0, l->ready) : l->ready;
            l->meter.open = false;
            l->named = true;
            book_lease_save(b, l);
            log_warn("lease=%s ended with the machine's last boot", l->want.lease.s);
            i++;
        } else {
            book_lease_drop(b, l, false);
        }
    }
}

enum err book_open(struct book *b, const char *dir, const char *boot, bool *ret_fresh,
                   struct refusal *why)
{
    memset(b, 0, sizeof(*b));
    (void)str_copy(b->boot, sizeof(b->boot), boot);
    b->seq_next = 1;
    TRY(book_key_open(b, dir, why));
    TRY(journal_open(dir, book_replay, b, &b->journal, ret_fresh, why));
    boot_pass(b);
    return journal_sync(b->journal, why);
}

void book_close(struct book *b)
{
    VEC_FOREACH (l, &b->leases)
        book_lease_free(*l);
    VEC_FOREACH (d, &b->disks)
        free(*d);
    VEC_FOREACH (m, &b->images)
        free(*m);
    vec_fini(&b->leases);
    vec_fini(&b->disks);
    vec_fini(&b->images);
    vec_fini(&b->resolves);
    vec_fini(&b->slices);
    vec_fini(&b->tombs);
    journal_close(b->journal);
    b->journal = NULL;
}

enum err book_sync(struct book *b, struct refusal *why)
{
    TRY(journal_sync(b->journal, why));
    return journal_compact(b->journal, book_dump, b, false, why);
}
