/* bill_check_use.c: what was used: signed slices, the seconds they prove, windows and what they
 * cost.
 *
 * A second of cards or of a seat may be charged when slices of one lease of that instance cover it
 * whole, inside [ready, stop) and outside the times its node was not heard. Disks have no slices:
 * their time is the platform's word, and only that no second is charged twice is checked. */
#include "cli/bill_check_int.h"

#include "base/msg.h"
#include "cli/cli.h"
#include "domain/evidence.h"
#include "domain/meter.h"

#define SLICE_NUMBERS 17
#define TIME_MAX (INT64_C(1) << 52) /* ms; so that no sum of times passes 64 bits */

static bool time_ok(int64_t t)
{
    return t >= 0 && t < TIME_MAX;
}

static struct check_lease *lease_now(struct bill_check *c)
{
    return c->has_lease ? &c->leases.at[c->leases.len - 1] : NULL;
}

static bool meter_read(struct check_row *r, const char *key, enum meter *ret_m)
{
    const char *name = row_text(r, key);

    for (int m = 0; m < METER_COUNT; m++)
        if (str_eq(meter_name((enum meter)m), name)) {
            *ret_m = (enum meter)m;
            return true;
        }
    return false;
}

/* ---- leases */

static int by_begin(const void *a, const void *b)
{
    const struct span_ms *x = a, *y = b;

    return x->from < y->from ? -1 : x->from > y->from;
}

/* Sorted, and one where they touch. */
static void spans_merge(struct spans_ms *l)
{
    size_t n = 0;

    if (l->len > 1)
        qsort(l->at, l->len, sizeof(l->at[0]), by_begin);
    for (size_t i = 0; i < l->len; i++) {
        if (n > 0 && l->at[i].from <= l->at[n - 1].to)
            l->at[n - 1].to = MAX(l->at[n - 1].to, l->at[i].to);
        else
            l->at[n++] = l->at[i];
    }
    l->len = n;
}

static int by_boot(const void *a, const void *b)
{
    const struct check_boot_span *x = a, *y = b;
    int order = strcmp(x->boot, y->boot);

    return order ? order : by_begin(&x->s, &y->s);
}

enum err check_lease_over(struct bill_check *c)
{
    struct check_lease *l = lease_now(c);

    if (!l)
        return ERR_OK;
    spans_merge(&l->cover);
    spans_merge(&l->gaps);
    if (c->told.len > 1)
        qsort(c->told.at, c->told.len, sizeof(c->told.at[0]), by_boot);
    for (size_t i = 1; i < c->told.len; i++)
        if (str_eq(c->told.at[i - 1].boot, c->told.at[i].boot) &&
            c->told.at[i].s.from < c->told.at[i - 1].s.to)
            return check_differs(c, tr("the node signed one moment of lease %s twice"), l->id.s);
    vec_fini(&c->told);
    c->has_lease = false;
    return ERR_OK;
}

enum err check_lease_line(struct bill_check *c, struct check_row *r)
{
    struct check_lease l = {0};
    char node[ID_SIZE];
    bool meter;

    TRY(check_lease_over(c));
    (void)row_copy(r, "id", l.id.s, sizeof(l.id.s));
    (void)row_copy(r, "instance", l.instance.s, sizeof(l.instance.s));
    (void)row_copy(r, "node", node, sizeof(node));
    l.epoch = row_i64(r, "epoch");
    meter = meter_read(r, "meter", &l.meter);
    (void)row_copy(r, "sku", l.sku, sizeof(l.sku));
    l.per_second = row_num(r, "per_second");
    l.exclusive = row_flag(r, "exclusive");
    l.started_s = row_i64(r, "started_s");
    l.ready_ms = row_i64(r, "ready_ms");
    l.stop_ms = row_time(r, "stop_ms");
    l.paid_until_s = row_i64(r, "paid_until_s");
    l.reclaimed_ms = row_i64(r, "reclaimed_ms");
    l.free_within_s = row_i64(r, "free_within_s");
    if (r->bad)
        return ERR_OK;
    if (!meter || (l.meter != METER_GPU && l.meter != METER_CPU) || l.per_second < 0 ||
        (l.exclusive && l.meter != METER_GPU) || !time_ok(l.ready_ms) || !time_ok(l.started_s) ||
        !time_ok(l.paid_until_s) || !time_ok(l.reclaimed_ms) || l.free_within_s < 0 ||
        (l.reclaimed_ms && (!str_starts(l.sku, "spot.") || l.reclaimed_ms > l.stop_ms)))
        return check_differs(c, tr("not a lease"));
    if (c->leases.len && strcmp(c->leases.at[c->leases.len - 1].id.s, l.id.s) >= 0)
        return check_differs(c, tr("leases out of order"));
    *vec_push(&c->leases) = l;
    c->has_lease = true;
    c->has_boot = false;
    c->counts.leases++;
    return ERR_OK;
}

enum err check_gap_line(struct bill_check *c, struct check_row *r)
{
    struct check_lease *l = lease_now(c);
    struct span_ms s = {.from = row_i64(r, "from_ms"), .to = row_time(r, "to_ms")};

    if (r->bad)
        return ERR_OK;
    if (!l || c->has_boot || !time_ok(s.from) || s.to < s.from)
        return check_differs(c, tr("not a time in which a node was silent"));
    *vec_push(&l->gaps) = s;
    return ERR_OK;
}

enum err check_key_line(struct bill_check *c, struct check_row *r)
{
    struct check_key k = {.n = row_i64(r, "n")};
    const char *text = row_text(r, "key");

    k.since_ms = row_i64(r, "since_ms");
    if (r->bad)
        return ERR_OK;
    if (!lease_now(c) || c->has_boot || k.n <= 0 || !hex_read(text, k.key, sizeof(k.key)))
        return check_differs(c, tr("not the key of a node"));
    for (size_t i = 0; i < c->keys.len; i++)
        if (c->keys.at[i].n == k.n && memcmp(c->keys.at[i].key, k.key, sizeof(k.key)) != 0)
            return check_differs(c, tr("one key with two values"));
    *vec_push(&c->keys) = k;
    return ERR_OK;
}

enum err check_boot_line(struct bill_check *c, struct check_row *r)
{
    (void)row_copy(r, "boot", c->boot, sizeof(c->boot));
    c->boot_key = row_i64(r, "key");
    if (r->bad)
        return ERR_OK;
    if (!lease_now(c))
        return check_differs(c, tr("a boot without a lease"));
    c->has_boot = true;
    return ERR_OK;
}

/* ---- slices */

static enum err slice_signed(struct bill_check *c, const struct evidence *e, const char *text,
                             utime_t received_ms)
{
    unsigned char bytes[EVIDENCE_BYTES_MAX], sig[SIGN_SIZE];
    const struct check_key *k = NULL;

    for (size_t i = 0; i < c->keys.len; i++)
        if (c->keys.at[i].n == c->boot_key)
            k = &c->keys.at[i];
    if (!c->boot_key && !text[0]) {
        /* A node that never showed a key; one that did is not believed without it. */
        for (size_t i = 0; i < c->keys.len; i++)
            if (e->running && received_ms >= c->keys.at[i].since_ms)
                return check_differs(c, tr("slice %ld is not signed, and its node has a key"),
                                     e->seq);
        c->counts.unsigned_slices++;
        return ERR_OK;
    }
    if (!k || !hex_read(text, sig, sizeof(sig)) ||
        !sign_check(k->key, bytes, evidence_bytes(e, bytes), sig))
        return check_differs(c, tr("slice %ld was not signed so by its node"), e->seq);
    return ERR_OK;
}

/* The node's own times on the ledger clock: no longer, no earlier than it said. */
static bool times_fit(const struct evidence *e, bool is_signed, int64_t anchor, utime_t t0,
                      utime_t t1)
{
    if (!time_ok(e->t0_ms) || !time_ok(e->t1_ms) || e->t1_ms < e->t0_ms || !time_ok(t0) ||
        !time_ok(t1) || anchor <= -TIME_MAX || anchor >= TIME_MAX || t1 < t0)
        return false;
    if (!is_signed)
        return anchor == 0 && e->t0_ms == t0 && e->t1_ms == t1;
    return t1 <= anchor + e->t1_ms && t0 == MIN(anchor + e->t0_ms, t1);
}

enum err check_slice_line(struct bill_check *c, struct check_row *r)
{
    struct check_lease *l = lease_now(c);
    const json_t *v = row_array(r, "v");
    const char *sig = row_text(r, "sig");
    int64_t n[SLICE_NUMBERS];

    if (r->bad)
        return ERR_OK;
    if (!l || !c->has_boot || json_array_size(v) != SLICE_NUMBERS)
        return check_differs(c, tr("not a slice"));
    for (size_t i = 0; i < SLICE_NUMBERS; i++) {
        if (!json_is_integer(json_array_get(v, i)))
            return check_differs(c, tr("not a slice"));
        n[i] = json_integer_value(json_array_get(v, i));
    }
    struct evidence e = {.lease = l->id,
                         .seq = n[0],
                         .epoch = l->epoch,
                         .running = n[1] != 0,
                         .gpus_ok = n[2] != 0,
                         .t0_ms = n[3],
                         .t1_ms = n[4],
                         .cpu_us = n[5],
                         .memory_bytes = n[6],
                         .rx_bytes = n[7],
                         .tx_bytes = n[8],
                         .disk_used_mib = n[9],
                         .gpu_util_pct = n[10],
                         .gpu_memory_mib = n[11]};
    bool boot_signed = c->boot_key != 0;
    bool flags = (n[1] | 1) == 1 && (n[2] | 1) == 1 && (n[15] | 1) == 1;
    bool late = boot_signed && n[14] > n[16]; /* nothing is proven before it happened */
    bool counts = n[1] && (l->meter != METER_GPU || n[15]);

    memcpy(e.boot, c->boot, sizeof(e.boot));
    if (!flags || late || (n[15] && !n[2]) || !times_fit(&e, boot_signed, n[12], n[13], n[14]))
        return check_differs(c, tr("the times of slice %ld do not fit"), e.seq);
    TRY(slice_signed(c, &e, sig, n[16]));
    c->counts.slices++;
    if (!counts)
        return ERR_OK;
    *vec_push(&l->cover) = (struct span_ms){n[13], n[14]};
    if (e.tx_bytes > 0 && __builtin_add_overflow(l->tx_bytes, e.tx_bytes, &l->tx_bytes))
        l->tx_bytes = INT64_MAX;
    if (e.rx_bytes > 0 && __builtin_add_overflow(l->rx_bytes, e.rx_bytes, &l->rx_bytes))
        l->rx_bytes = INT64_MAX;
    if (c->boot_key) {
        struct check_boot_span *t = vec_push(&c->told);

        memcpy(t->boot, c->boot, sizeof(t->boot));
        t->s = (struct span_ms){e.t0_ms, e.t1_ms};
    }
    return ERR_OK;
}

/* ---- windows */

static bool in_gap(const struct check_lease *l, int64_t s)
{
    for (size_t i = 0; i < l->gaps.len; i++)
        if (l->gaps.at[i].from < (s + 1) * MS_PER_S && l->gaps.at[i].to > s * MS_PER_S)
            return true;
    return false;
}

/* How far the lease proves whole seconds from s on; s: not even that one. */
static int64_t proven_from(const struct check_lease *l, int64_t s)
{
    size_t lo = 0, hi = l->cover.len;
    utime_t from = s * MS_PER_S;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (l->cover.at[mid].to <= from)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == l->cover.len || l->cover.at[lo].from > from || l->ready_ms == 0 || from < l->ready_ms)
        return s;
    int64_t end = MIN(l->cover.at[lo].to, l->stop_ms) / MS_PER_S;
    if (l->gaps.len == 0)
        return MAX(end, s);
    while (s < end && !in_gap(l, s))
        s++;
    return s;
}

/* The window is of what the lease runs, or of the node that it has alone. */
static bool lease_makes(const struct check_lease *l, const struct check_window *w,
                        int64_t per_second)
{
    if (!str_eq(l->instance.s, w->instance.s))
        return false;
    if (w->meter == METER_NODE)
        return l->exclusive && per_second == 1 && str_starts(w->sku, "exclusive.") &&
               str_eq(w->sku + strlen("exclusive."), l->sku);
    return l->meter == w->meter && l->per_second == per_second;
}

/* Every second of [from, to) is proven by some lease; ret_s: the first that is not. */
static bool proven(struct bill_check *c, const struct check_window *w, int64_t per_second,
                   int64_t from_s, int64_t to_s, int64_t *ret_s)
{
    while (from_s < to_s) {
        int64_t best = from_s;

        for (size_t i = 0; i < c->leases.len; i++) {
            const struct check_lease *l = &c->leases.at[i];

            if (lease_makes(l, w, per_second))
                best = MAX(best, proven_from(l, from_s));
        }
        *ret_s = from_s;
        if (best == from_s)
            return false;
        from_s = best;
    }
    return true;
}

static struct check_window *window_now(struct bill_check *c)
{
    return c->windows.len ? &c->windows.at[c->windows.len - 1] : NULL;
}

/* instance empty: of the whole project, whose tiers count it together */
static int64_t bytes_of(const struct bill_check *c, enum meter m, struct id instance)
{
    int64_t sum = 0;

    for (size_t i = 0; i < c->leases.len; i++) {
        const struct check_lease *l = &c->leases.at[i];

        if ((!instance.s[0] || str_eq(l->instance.s, instance.s)) &&
            __builtin_add_overflow(sum, m == METER_EGRESS ? l->tx_bytes : l->rx_bytes, &sum))
            return INT64_MAX;
    }
    return sum;
}

/* Cards of a spot run that the platform took back within its free time (money.md 1.7). Of an open
 * month the run may not be over yet. */
static bool reclaimed_free(const struct bill_check *c, const struct check_window *w)
{
    if (w->meter != METER_GPU || (c->said.open && w->reversed_u == 0))
        return false;
    for (size_t i = 0; i < c->leases.len; i++) {
        const struct check_lease *l = &c->leases.at[i];
        int64_t from_s, to_s;

        if (!str_eq(l->id.s, w->subject.s) || !l->reclaimed_ms || !l->ready_ms)
            continue;
        meter_billable(l->ready_ms, MIN(l->stop_ms, l->paid_until_s * MS_PER_S), &from_s, &to_s);
        return spot_is_free(from_s, to_s, true, l->free_within_s);
    }
    return false;
}

enum err check_window_over(struct bill_check *c)
{
    struct check_window *w = window_now(c);
    int64_t cost;

    if (!w)
        return ERR_OK;
    if (w->sum_qty != w->qty)
        return check_differs(c, tr("window %s: its spans make %ld, it says %ld"), w->id, w->sum_qty,
                             w->qty);
    if (meter_is_traffic(w->meter) && w->qty > bytes_of(c, w->meter, w->instance))
        return check_differs(c, tr("window %s: more bytes than its slices sent"), w->id);
    if (rate_total(&c->prices.at[w->price].v.rate, w->qty, &cost) != ERR_OK || cost != w->rated_u)
        return check_differs(c, tr("window %s costs %ld by its price, it says %ld"), w->id, cost,
                             w->rated_u);
    if (!c->said.open && w->posted_u != w->rated_u - w->reversed_u)
        return check_differs(c, tr("window %s: charged is %ld, it costs %ld"), w->id, w->posted_u,
                             w->rated_u - w->reversed_u);
    if (w->reversed_u != (reclaimed_free(c, w) ? w->rated_u : 0))
        return check_differs(c, tr("window %s: %ld was given back, by its run it is %ld"), w->id,
                             w->reversed_u, reclaimed_free(c, w) ? w->rated_u : 0);
    return ERR_OK;
}

/* Its seconds are those that a lease proves. */
static bool of_lease(const struct check_window *w)
{
    return w->meter == METER_GPU || w->meter == METER_CPU || w->meter == METER_NODE;
}

static bool price_find(const struct bill_check *c, const char *id, size_t *ret_i)
{
    for (size_t i = 0; i < c->prices.len; i++)
        if (str_eq(c->prices.at[i].v.id.s, id)) {
            *ret_i = i;
            return true;
        }
    return false;
}

/* Seconds that a plan or a package covers: its own price, which is 0. */
static bool is_covered(const struct bill_check *c, const struct check_window *w)
{
    const struct check_price *p = &c->prices.at[w->price];

    return w->meter == METER_GPU && p->v.rate.tier_count == 1 && p->v.rate.tiers[0].p == 0 &&
           (str_starts(p->sku, "plan.pln_") || str_starts(p->sku, "package.pkg_"));
}

/* Seconds of a run at the spot price whose tick was above the bid of its instance. */
static bool of_bid(const struct bill_check *c, const struct check_window *w)
{
    const struct check_price *p = &c->prices.at[w->price];

    return str_starts(w->sku, "spot.") && str_starts(p->sku, "bid.") &&
           str_eq(p->sku + strlen("bid."), w->instance.s);
}

enum err check_window_line(struct bill_check *c, struct check_row *r)
{
    struct check_window w = {0};
    bool meter;

    TRY(check_window_over(c));
    (void)row_copy(r, "id", w.id, sizeof(w.id));
    (void)row_copy(r, "subject", w.subject.s, sizeof(w.subject.s));
    (void)row_copy(r, "instance", w.instance.s, sizeof(w.instance.s));
    meter = meter_read(r, "meter", &w.meter);
    (void)row_copy(r, "sku", w.sku, sizeof(w.sku));
    bool priced = price_find(c, row_text(r, "price"), &w.price);
    w.qty = row_num(r, "qty");
    w.rated_u = row_num(r, "rated_u");
    w.posted_u = row_num(r, "posted_u");
    w.reversed_u = row_num(r, "reversed_u");
    (void)row_flag(r, "simulated");
    if (r->bad)
        return ERR_OK;
    if (!meter || w.qty < 0 || w.rated_u < 0)
        return check_differs(c, tr("not a window"));
    if (!priced ||
        !(str_eq(c->prices.at[w.price].sku, w.sku) || is_covered(c, &w) || of_bid(c, &w)))
        return check_differs(c, tr("window %s has no price here"), w.id);
    for (size_t i = 0; i < c->windows.len; i++)
        if (str_eq(c->windows.at[i].id, w.id) ||
            (str_eq(c->windows.at[i].subject.s, w.subject.s) && c->windows.at[i].meter == w.meter &&
             c->windows.at[i].price == w.price))
            return check_differs(c, tr("window %s twice"), w.id);
    *vec_push(&c->windows) = w;
    c->counts.windows++;
    if (micro_add(c->counts.rated_u, w.rated_u, &c->counts.rated_u) != ERR_OK ||
        micro_add(c->counts.posted_u, w.posted_u, &c->counts.posted_u) != ERR_OK)
        return check_differs(c, tr("the sum passes what can be counted"));
    return ERR_OK;
}

/* The version of the window is the one that binds [from, to) of something that began at started. */
static bool binds(const struct bill_check *c, size_t price, int64_t started_s, int64_t from_s,
                  int64_t to_s)
{
    struct price_version v[PRICE_VERSIONS_MAX];
    struct price_part part[2];
    size_t n = 0, at = SIZE_MAX, parts = 0;

    for (size_t i = 0; i < c->prices.len && n < ARRAY_LEN(v); i++)
        if (str_eq(c->prices.at[i].sku, c->prices.at[price].sku)) {
            if (i == price)
                at = n;
            v[n++] = c->prices.at[i].v;
        }
    return price_split(v, n, MIN(started_s, from_s), from_s, to_s, part, ARRAY_LEN(part), &parts) ==
               ERR_OK &&
           parts == 1 && part[0].version == at;
}

static bool dearer(const struct rate *a, const struct rate *b)
{
    return price_cheaper((struct price_rate){b->tiers[0].p, b->d},
                         (struct price_rate){a->tiers[0].p, a->d});
}

/* Each second of a spot run costs the smaller of the tick (a version of the SKU) and the bid. */
static bool spot_right(const struct bill_check *c, const struct check_window *w, int64_t from_s,
                       int64_t to_s)
{
    const struct check_price *price = &c->prices.at[w->price], *bid = NULL;
    struct price_version v[PRICE_VERSIONS_MAX];
    struct price_part part[PRICE_VERSIONS_MAX];
    size_t n = 0, parts = 0;

    for (size_t i = 0; i < c->prices.len && n < ARRAY_LEN(v); i++) {
        const struct check_price *p = &c->prices.at[i];

        if (str_starts(p->sku, "bid.") && str_eq(p->sku + strlen("bid."), w->instance.s))
            bid = p;
        if (str_eq(p->sku, w->sku))
            v[n++] = p->v;
    }
    if (!bid || price_split(v, n, from_s, from_s, to_s, part, ARRAY_LEN(part), &parts) != ERR_OK)
        return false;
    for (size_t i = 0; i < parts; i++) {
        const struct price_version *tick = &v[part[i].version];

        if (price == bid ? dearer(&bid->v.rate, &tick->rate)
                         : !str_eq(tick->id.s, price->v.id.s) || dearer(&tick->rate, &bid->v.rate))
            return false;
    }
    return true;
}

static bool price_right(const struct bill_check *c, const struct check_window *w, int64_t from_s,
                        int64_t to_s)
{
    if (is_covered(c, w)) /* they cost nothing; what they were bought for is a transfer */
        return c->prices.at[w->price].v.valid_from_s <= from_s;
    if (str_starts(w->sku, "spot."))
        return spot_right(c, w, from_s, to_s);
    /* A disk's price binds from when its meter began, which may be any time since it is valid. */
    if (!of_lease(w) && !meter_is_traffic(w->meter))
        return binds(c, w->price, c->prices.at[w->price].v.valid_from_s, from_s, to_s);
    for (size_t i = 0; i < c->leases.len; i++)
        if ((!w->instance.s[0] || str_eq(c->leases.at[i].instance.s, w->instance.s)) &&
            proven_from(&c->leases.at[i], from_s) > from_s &&
            binds(c, w->price, c->leases.at[i].started_s, from_s, to_s))
            return true;
    return false;
}

enum err check_span_line(struct bill_check *c, struct check_row *r)
{
    struct check_window *w = window_now(c);
    int64_t from = row_i64(r, "from_s"), to = row_i64(r, "to_s");
    int64_t per = row_num(r, "per_second"), qty = row_num(r, "qty"), want = 0, first = 0;

    if (r->bad)
        return ERR_OK;
    if (!w || from < c->month.from_s || to > c->said.cut_s || to <= from || qty < 0 || per < 0)
        return check_differs(c, tr("a span outside of the month or of time"));
    if (!meter_is_traffic(w->meter) && (__builtin_mul_overflow(to - from, per, &want) || want != qty))
        return check_differs(c, tr("%ld s at %ld a second are not %ld"), to - from, per, qty);
    if (of_lease(w) && !proven(c, w, per, from, to, &first))
        return check_differs(c, tr("second %ld is charged and nothing proves it"), first);
    if (!price_right(c, w, from, to))
        return check_differs(c, tr("price version %s does not bind these seconds"),
                             c->prices.at[w->price].v.id.s);
    w->from_s = w->to_s ? MIN(w->from_s, from) : from;
    w->to_s = MAX(w->to_s, to);
    if (__builtin_add_overflow(w->sum_qty, qty, &w->sum_qty))
        return check_differs(c, tr("the sum passes what can be counted"));
    if (!meter_is_traffic(w->meter))
        *vec_push(&c->seconds) =
            (struct check_second){w->subject, w->meter == METER_NODE, from, to, c->counts.lines};
    return ERR_OK;
}

static int by_subject(const void *a, const void *b)
{
    const struct check_second *x = a, *y = b;
    int order = strcmp(x->subject.s, y->subject.s);

    if (!order)
        order = x->node - y->node;
    return order ? order : x->from_s < y->from_s ? -1 : x->from_s > y->from_s;
}

enum err check_seconds_over(struct bill_check *c)
{
    if (c->seconds.len > 1)
        qsort(c->seconds.at, c->seconds.len, sizeof(c->seconds.at[0]), by_subject);
    for (size_t i = 1; i < c->seconds.len; i++) {
        const struct check_second *a = &c->seconds.at[i - 1], *b = &c->seconds.at[i];

        if (str_eq(a->subject.s, b->subject.s) && a->node == b->node && b->from_s < a->to_s) {
            c->counts.lines = MAX(a->line, b->line);
            return check_differs(c, tr("second %ld of %s is charged twice"), b->from_s,
                                 b->subject.s);
        }
    }
    return ERR_OK;
}
