/* funds_usage.c: evidence in, once, in order (money.md 1.6, 1.7; I9, I10, I14).
 *
 *   a slice arrives      stored by (node, boot, seq); the same again: nothing; other payload: kept
 *                        out, an event tells the operator
 *   in the order of seq  each slice moves its lease's cursor (ms). A time that no slice covers,
 * that was not "running", or in which cards were missing, is void: no second that it touches is
 * charged. Else the whole seconds between what is decided and min(cursor, stop, paid_until) are
 * rated, without the gaps in which the node was not heard. after a hole         slices wait until
 * the missing seq is here, or the lease is settled. */
#include "app/fund_source.h"

#include <stdlib.h>

#include "base/msg.h"
#include "base/sha256.h"
#include "store/rows_proof.h"

static void hash_i64(struct sha256 *h, int64_t v)
{
    unsigned char bytes[8];

    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)v >> (56 - 8 * i));
    sha256_add(h, bytes, sizeof(bytes));
}

/* Over what the node said, in its own clock: an anchor that moves changes nothing, nor does
 * gpus_ok, in which the control plane has a say. */
static void payload_hash(const struct funds_slice *f, unsigned char ret_hash[SHA256_SIZE])
{
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, f->lease.s, strlen(f->lease.s) + 1);
    hash_i64(&h, f->epoch);
    hash_i64(&h, f->running);
    hash_i64(&h, f->t0_ms);
    hash_i64(&h, f->t1_ms);
    hash_i64(&h, f->cpu_us);
    hash_i64(&h, f->memory_bytes);
    hash_i64(&h, f->rx_bytes);
    hash_i64(&h, f->tx_bytes);
    hash_i64(&h, f->disk_used_mib);
    hash_i64(&h, f->gpu_util_pct);
    hash_i64(&h, f->gpu_memory_mib);
    sha256_finish(&h, ret_hash);
}

static int64_t floor_s(utime_t ms)
{
    return ms / MS_PER_S;
}

static int64_t ceil_s(utime_t ms)
{
    return (ms + MS_PER_S - 1) / MS_PER_S;
}

/* [from, to) without the seconds that touch a gap. */
static enum err rate_outside_gaps(const struct books *b, const struct rating *r, int64_t from_s,
                                  int64_t to_s, int64_t *io_rated_s, struct refusal *why)
{
    struct lease_gap_list gaps = {0};
    enum err e = store_gap_list(b->store, r->lease, &gaps);

    while (e == ERR_OK && from_s < to_s) {
        int64_t end = to_s, next = to_s;

        for (size_t i = 0; i < gaps.len; i++) {
            int64_t g0 = floor_s(gaps.at[i].from_ms);
            int64_t g1 = gaps.at[i].to_ms == UTIME_NEVER ? INT64_MAX : ceil_s(gaps.at[i].to_ms);

            if (g0 < end && g1 > from_s) {
                end = MAX(g0, from_s);
                next = MIN(g1, to_s);
            }
        }
        e = rating_add(b, r, from_s, end, why);
        *io_rated_s += end - from_s;
        from_s = MAX(next, end);
    }
    vec_fini(&gaps);
    return e;
}

/* Traffic of one direction of a slice that was charged; an operator without a price for it gives it
 * away. How much there will be nobody knows when a term is held, so it is paid of what is left:
 * never owed, never past a budget. What is beyond that is not charged at all. */
static enum err rate_traffic(const struct books *b, const struct rating *compute, enum meter m,
                             int64_t bytes, int64_t at_s, struct refusal *why)
{
    struct price_row_list prices = {0};
    struct rating r = *compute;
    int64_t room, left;

    if (bytes <= 0)
        return ERR_OK;
    r.meter = m;
    r.lease = (struct id){0};
    r.qty_per_s = 0;
    funds_sku(m, "", r.sku);
    TRY(money_price_list(b->store, b->ccy.code, r.sku, &prices));
    bool priced = prices.len > 0 && prices.at[0].valid_from_s <= r.started_s;
    for (size_t i = 0; i < prices.len; i++)
        if (prices.at[i].tiers[0]) { /* tiers count what the whole project sends (money.md 1.3) */
            r.subject = b->project;
            r.instance = (struct id){0};
        }
    vec_fini(&prices);
    if (!priced)
        return ERR_OK;
    TRY(available_of(b, r.meter, r.sku, &room)); /* what no hold has, inside every budget */
    TRY(budgets_room(b, r.spender, &left));
    return rating_add_qty(b, &r, at_s, bytes, MIN(room, left), why);
}

/* Moves the cursor over [t0, t1) with the law of meter.h; its unit is ms here. */
static enum err cursor_move(struct fund_lease *l, utime_t t0, utime_t t1, bool voided,
                            bool *ret_gain)
{
    struct usage_slice s = {.t0_s = t0, .t1_s = t1, .qty_per_s = 1, .voided = voided};
    enum meter_verdict verdict;
    struct meter_gain gain;
    utime_t before = l->cursor_ms;

    TRY(meter_take(&l->cursor_ms, &s, &verdict, &gain));
    CHECK(verdict == METER_NEW);
    if (voided && l->cursor_ms > before)
        l->billed_s = MAX(l->billed_s, ceil_s(l->cursor_ms));
    *ret_gain = gain.to_s > gain.from_s;
    return ERR_OK;
}

static void proven_by(struct rating *rating, const struct slice_row *r)
{
    memcpy(rating->boot, r->boot, sizeof(rating->boot));
    rating->seq = r->seq;
}

static enum err lease_take(const struct books *b, struct fund_lease *l, const struct slice_row *r,
                           struct refusal *why)
{
    bool voided = !r->running || (l->meter == METER_GPU && !r->gpus_ok), gain = false;
    struct rating rating;
    int64_t to, rated = 0;

    if (!l->ready_ms || r->t1_ms <= l->cursor_ms)
        return ERR_OK;
    if (r->t0_ms > l->cursor_ms) /* no slice covers it and none is missing */
        TRY(cursor_move(l, l->cursor_ms, r->t0_ms, true, &gain));
    TRY(cursor_move(l, r->t0_ms, r->t1_ms, voided, &gain));
    to = MIN(floor_s(MIN(l->cursor_ms, l->stop_ms)), l->paid_until_s);
    if (!gain || to <= l->billed_s)
        return ERR_OK;
    if (rating_of_node(l, &rating)) {
        proven_by(&rating, r);
        TRY(rate_outside_gaps(b, &rating, l->billed_s, to, &rated, why));
        rated = 0;
    }
    rating_of_lease(l, &rating);
    proven_by(&rating, r);
    TRY(rate_outside_gaps(b, &rating, l->billed_s, to, &rated, why));
    l->billed_s = to;
    if (rated == 0)
        return ERR_OK;
    TRY(rate_traffic(b, &rating, METER_EGRESS, r->tx_bytes, to - 1, why));
    return rate_traffic(b, &rating, METER_INGRESS, r->rx_bytes, to - 1, why);
}

enum err slice_take(const struct books *b, struct fund_lease *l, const struct slice_row *r,
                    struct refusal *why)
{
    TRY(lease_take(b, l, r, why));
    return money_lease_moved(b->store, l);
}

/* One slice whose turn it is. Of an unknown, other node's, older or settled lease: evidence of
 * nothing that is charged. */
static enum err slice_work(struct store *s, utime_t now, const struct slice_row *r,
                           struct refusal *why)
{
    struct id lease = {0};
    struct fund_lease l;
    struct books b;
    enum err e;

    (void)str_copy(lease.s, sizeof(lease.s), r->lease);
    e = money_lease_get(s, lease, &l);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (e == ERR_NOT_FOUND || l.settled || !str_eq(l.node.s, r->node.s) || l.epoch != r->epoch)
        return ERR_OK;
    TRY(books_open(s, now, l.project, &b, why));
    return slice_take(&b, &l, r, why);
}

static enum err slice_row_of(struct id node, const char *boot, utime_t anchor_ms, utime_t now,
                             const struct funds_slice *f, struct slice_row *ret_r,
                             struct refusal *why)
{
    struct slice_row r = {.node = node,
                          .seq = f->seq,
                          .epoch = f->epoch,
                          .running = f->running,
                          .gpus_ok = f->gpus_ok,
                          .received_ms = now,
                          .cpu_us = f->cpu_us,
                          .memory_bytes = f->memory_bytes,
                          .rx_bytes = f->rx_bytes,
                          .tx_bytes = f->tx_bytes,
                          .disk_used_mib = f->disk_used_mib,
                          .gpu_util_pct = f->gpu_util_pct,
                          .gpu_memory_mib = f->gpu_memory_mib};
    int64_t t0, t1;

    if (f->seq < 1 || f->t1_ms < f->t0_ms || __builtin_add_overflow(anchor_ms, f->t0_ms, &t0) ||
        __builtin_add_overflow(anchor_ms, f->t1_ms, &t1) ||
        !str_copy(r.boot, sizeof(r.boot), boot) || !r.boot[0])
        return refusef(why, ERR_PROTOCOL, "why", "slice %" PRId64, f->seq);
    (void)str_copy(r.lease, sizeof(r.lease), f->lease.s);
    r.t1_ms = MIN(t1, now); /* nothing is proven before it happened */
    if (f->heard_ms > 0)    /* nor where no word of the node reaches */
        r.t1_ms = MIN(r.t1_ms, anchor_ms + f->heard_ms);
    r.t0_ms = MIN(t0, r.t1_ms);
    payload_hash(f, r.payload);
    *ret_r = r;
    return ERR_OK;
}

static enum err note_conflict(struct store *s, utime_t now, const struct slice_row *r)
{
    struct event e = {.at = now};

    (void)str_copy(e.kind, sizeof(e.kind), "usage.conflict");
    (void)str_copy(e.text, sizeof(e.text),
                   N_("Node {node} sent slice {seq} again with other content; it was kept out."));
    (void)str_printf(e.data, sizeof(e.data),
                     "{\"node\":\"%s\",\"seq\":\"%" PRId64 "\",\"lease\":\"%s\"}", r->node.s,
                     r->seq, r->lease);
    return store_event_add(s, &e);
}

/* Beside the slice, with what was signed and is not in it. */
static enum err signature_keep(struct store *s, const struct slice_row *r,
                               const struct funds_slice *f, utime_t anchor_ms)
{
    struct signature_row sig = {.node = r->node,
                                .seq = r->seq,
                                .key = f->key,
                                .anchor_ms = anchor_ms,
                                .t0_ms = f->t0_ms,
                                .t1_ms = f->t1_ms,
                                .gpus_ok = f->said_gpus_ok};

    if (!f->key)
        return ERR_OK;
    memcpy(sig.boot, r->boot, sizeof(sig.boot));
    memcpy(sig.sig, f->sig, sizeof(sig.sig));
    return proof_signature_add(s, &sig);
}

/* A slice whose key is stored, or was and is safe since: the same again, or kept out. */
static enum err slice_again(struct store *s, utime_t now, const struct slice_row *r,
                            struct funds_accepted *io_a)
{
    struct usage_slice mine = {0}, old = {0};
    struct slice_row known;
    enum err e = money_slice_get(s, r->node, r->boot, r->seq, &known);

    if (e == ERR_NOT_FOUND) { /* its row was pruned */
        io_a->duplicates++;
        return ERR_OK;
    }
    TRY(e);
    memcpy(mine.payload, r->payload, sizeof(mine.payload));
    memcpy(old.payload, known.payload, sizeof(old.payload));
    if (meter_dedupe(&old, &mine) == METER_DUPLICATE) {
        io_a->duplicates++;
        return ERR_OK;
    }
    io_a->conflicts++;
    return note_conflict(s, now, r);
}

/* Works on the slices whose turn it is: all that is stored below oldest (what is missing there will
 * never come), then as far as there is no hole. */
static enum err work_off(struct store *s, utime_t now, struct id node, const char *boot,
                         int64_t oldest, int64_t *io_ack, struct refusal *why)
{
    struct slice_row r;

    for (;;) {
        enum err e = money_slice_next(s, node, boot, *io_ack, &r);

        if (e != ERR_OK && e != ERR_NOT_FOUND)
            return e;
        if (e == ERR_NOT_FOUND || (r.seq >= oldest && r.seq > MAX(*io_ack + 1, oldest)))
            break;
        if (!r.done) {
            TRY(slice_work(s, now, &r, why));
            TRY(money_slice_done(s, node, boot, r.seq));
        }
        *io_ack = r.seq;
    }
    *io_ack = MAX(*io_ack, oldest - 1);
    return ERR_OK;
}

/* Stores a slice once. The next one of its boot is worked on at once, as work_off would. */
static enum err slice_arrive(struct store *s, utime_t now, const struct funds_slice *f,
                             utime_t anchor_ms, int64_t before, struct slice_row *r,
                             struct funds_accepted *io_a, struct refusal *why)
{
    bool new = false;

    r->done = r->seq == io_a->ack_seq + 1;
    if (r->seq > before)
        TRY(money_slice_add(s, r, &new));
    if (!new)
        return slice_again(s, now, r, io_a);
    io_a->taken++;
    TRY(signature_keep(s, r, f, anchor_ms));
    if (!r->done)
        return ERR_OK;
    io_a->ack_seq = r->seq;
    return slice_work(s, now, r, why);
}

enum err slices_accept(struct store *s, utime_t now, struct id node, const char *boot,
                       utime_t anchor_ms, const struct funds_slice *slices, size_t n,
                       int64_t oldest, struct funds_accepted *ret_a, struct refusal *why)
{
    struct funds_accepted a = {0};
    struct slice_row r;
    int64_t before;

    TRY(money_boot_get(s, node, boot, &before));
    a.ack_seq = before;
    for (size_t i = 0; i < n; i++) {
        TRY(slice_row_of(node, boot, anchor_ms, now, &slices[i], &r, why));
        TRY(slice_arrive(s, now, &slices[i], anchor_ms, before, &r, &a, why));
    }
    TRY(work_off(s, now, node, boot, oldest, &a.ack_seq, why));
    if (a.ack_seq > before)
        TRY(money_boot_set(s, node, boot, a.ack_seq));
    TRY(money_slice_waiting(s, node, boot, &a.parked));
    *ret_a = a;
    return ERR_OK;
}

enum err funds_slices_accept(struct store *s, utime_t now, struct id node, const char *boot,
                             utime_t anchor_ms, const struct funds_slice *slices, size_t n,
                             struct funds_accepted *ret_a, struct refusal *why)
{
    int64_t oldest = n > 0 ? slices[0].seq : 0;

    for (size_t i = 1; i < n; i++)
        oldest = MIN(oldest, slices[i].seq);
    return slices_accept(s, now, node, boot, anchor_ms, slices, n, oldest, ret_a, why);
}

enum err funds_evidence_until(struct store *s, struct id lease, utime_t *ret_ms)
{
    struct fund_lease l;

    TRY(money_lease_get(s, lease, &l));
    *ret_ms = l.cursor_ms;
    return ERR_OK;
}
