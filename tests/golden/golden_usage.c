/* golden_usage.c: areas where time or quantity becomes a charge. */
#include "golden.h"

#include "base/units.h"
#include "domain/meter.h"

#define VERSIONS_MAX 64
#define PARTS_MAX 4096

static int64_t floor_s(utime_t ms)
{
    return ms / MS_PER_S - (ms % MS_PER_S < 0);
}

/* ---- price versions of a row ---- */

struct book {
    struct price_version versions[VERSIONS_MAX];
    size_t count;
    int64_t started_s; /* of the lease */
};

static bool one_version(struct golden *g, struct book *b)
{
    b->count = 1;
    b->versions[0] = (struct price_version){.valid_from_s = INT64_MIN};
    return golden_rate(g, g->in, &b->versions[0].rate);
}

/* A bare clock reading that lies before a run over midnight means the next day. */
static utime_t into_run(utime_t t, utime_t from_ms, utime_t to_ms)
{
    const utime_t day = (utime_t)DAY_S * MS_PER_S;

    return t >= 0 && t < day && t < from_ms && t + day < to_ms ? t + day : t;
}

/* "versions": each from its "since" (or the "until" of the one before) on. */
static bool list_versions(struct golden *g, struct book *b, utime_t from_ms, utime_t to_ms)
{
    json_t *list, *o;
    size_t i;
    utime_t begin = INT64_MIN, until = INT64_MIN, announced;
    int64_t row_notice;

    if (!golden_list(g, g->in, "versions", &list) || json_array_size(list) > VERSIONS_MAX ||
        !golden_i64_or(g, g->in, "notice_s", PRICE_NOTICE_S, &row_notice))
        return golden_fail(g, "versions is not a list of at most %d", VERSIONS_MAX);
    json_array_foreach(list, i, o)
    {
        struct price_version *v = &b->versions[i];

        begin = until;
        if (golden_get(g, o, "since") && !golden_time(g, o, "since", INT64_MIN, &begin))
            return false;
        if (golden_get(g, o, "until") && !golden_time(g, o, "until", INT64_MIN, &until))
            return false;
        begin = into_run(begin, from_ms, to_ms);
        announced = begin;
        if (golden_get(g, o, "announced") && !golden_time(g, o, "announced", INT64_MIN, &announced))
            return false;
        v->valid_from_s = begin == INT64_MIN ? INT64_MIN : floor_s(begin);
        v->announced_s = announced == INT64_MIN ? INT64_MIN : floor_s(announced);
        if (!golden_rate(g, o, &v->rate) ||
            !golden_i64_or(g, o, "notice_s", row_notice, &v->notice_s))
            return false;
    }
    b->count = json_array_size(list);
    return true;
}

/* "old" and "new": the new one is valid for new starts from its announcement on (or "since"). */
static bool old_and_new(struct golden *g, struct book *b)
{
    const json_t *old = golden_get(g, g->in, "old"), *new = golden_get(g, g->in, "new");
    struct price_version *v = b->versions;
    utime_t announced, since;

    v[0] = (struct price_version){.valid_from_s = INT64_MIN};
    if (!golden_rate(g, old, &v[0].rate) || !golden_rate(g, new, &v[1].rate) ||
        !golden_time(g, new, "announced", INT64_MIN, &announced) ||
        !golden_i64_or(g, new, "notice_s", PRICE_NOTICE_S, &v[1].notice_s))
        return false;
    since = announced;
    if (golden_get(g, new, "since") && !golden_time(g, new, "since", INT64_MIN, &since))
        return false;
    v[1].announced_s = floor_s(announced);
    v[1].valid_from_s = floor_s(since);
    b->count = 2;
    return true;
}

/* Without "started" the lease is one that ran before any change was announced. */
static bool load_book(struct golden *g, struct book *b, utime_t from_ms, utime_t to_ms)
{
    utime_t started;
    bool fine = golden_has(g, "versions")                      ? list_versions(g, b, from_ms, to_ms)
                : golden_has(g, "old") && golden_has(g, "new") ? old_and_new(g, b)
                                                               : one_version(g, b);

    if (!fine)
        return false;
    b->started_s = floor_s(from_ms);
    for (size_t i = 1; i < b->count; i++)
        b->started_s = MIN(b->started_s, b->versions[i].announced_s - 1);
    if (b->versions[0].valid_from_s > b->started_s)
        b->started_s = floor_s(from_ms);
    if (golden_has(g, "started")) {
        if (!golden_time(g, g->in, "started", INT64_MIN, &started))
            return false;
        b->started_s = floor_s(started);
    }
    return true;
}

/* ---- an interval of a run ---- */

struct window {
    int64_t qty, charge_u;
};

/* Parts that share version and month share a window; totals per version and per month come out. */
static bool rate_parts(struct golden *g, const struct book *b, const struct price_part *parts,
                       size_t n, int64_t gpus, int64_t *ret_total_u, int64_t *ret_qty)
{
    struct window versions[VERSIONS_MAX] = {0};
    json_t *list = json_array(), *months = json_object();
    int64_t total = 0, all = 0, u, qty;

    golden_put_json(g, "parts", list);
    golden_put_json(g, "by_month", months);
    for (size_t i = 0; i < n; i++) {
        struct window *w = &versions[parts[i].version];
        char name[16];
        struct period month;

        if (!golden_mul(g, parts[i].to_s - parts[i].from_s, gpus, &qty) ||
            !golden_ok(g, rate_total(&b->versions[parts[i].version].rate, qty, &u), "rating"))
            return false;
        w->qty += qty;
        w->charge_u += u;
        total += u;
        all += qty;
        period_month_at(&g->zone, parts[i].from_s, &month);
        period_format(&month, name, sizeof(name));
        json_t *m = json_object_get(months, name);
        json_object_set_new(
            months, name,
            json_pack("{s:I,s:I}", "qty", qty + json_integer_value(json_object_get(m, "qty")),
                      "charge_u", u + json_integer_value(json_object_get(m, "charge_u"))));
    }
    for (size_t i = 0; i < b->count; i++)
        if (versions[i].qty > 0)
            json_array_append_new(list, json_pack("{s:I,s:I}", "qty", versions[i].qty, "charge_u",
                                                  versions[i].charge_u));
    *ret_total_u = total;
    *ret_qty = all;
    return true;
}

/* Bills [from, to) of a run. Month borders cut it where the row says in which zone. */
static bool bill_interval(struct golden *g, utime_t from_ms, utime_t to_ms, int64_t gpus)
{
    static struct book book; /* large; one row at a time */
    static struct price_part parts[PARTS_MAX];
    int64_t from, to, total, qty;
    struct period month;
    size_t n;

    meter_billable(from_ms, to_ms, &from, &to);
    if (!load_book(g, &book, from_ms, to_ms) ||
        !golden_ok(
            g,
            price_split(book.versions, book.count, book.started_s, from, to, parts, PARTS_MAX, &n),
            "price versions"))
        return false;
    bool by_month = g->has_zone || str_eq(g->area, "month-border");
    if (by_month && !golden_ok(g, price_split_months(&g->zone, parts, PARTS_MAX, &n), "months"))
        return false;
    if (!rate_parts(g, &book, parts, n, gpus, &total, &qty))
        return false;
    period_month_at(&g->zone, from, &month);
    if (month.to_s < to)
        golden_put_time(g, "border_utc", month.to_s);
    golden_put_time(g, "billed_from", from);
    golden_put_time(g, "billed_to", to);
    golden_put(g, "qty", qty);
    golden_put(g, "charge_u", total);
    golden_put(g, "total_u", total);
    return true;
}

/* ---- plain quantities ---- */

static bool bill_slices(struct golden *g, const struct rate *r, int64_t gpus)
{
    int64_t slices[GOLDEN_ITEMS_MAX], done = 0, total = 0, naive = 0, qty, u;
    json_t *posted = json_array();
    size_t n;

    golden_put_json(g, "posted_u", posted);
    if (!golden_i64s(g, g->in, "slices", slices, GOLDEN_ITEMS_MAX, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!golden_mul(g, slices[i], gpus, &qty) ||
            !golden_ok(g, rate_delta(r, done, done + qty, &u), "rating"))
            return false;
        json_array_append_new(posted, json_integer(u));
        total += u;
        done += qty;
        if (!golden_ok(g, rate_total(r, qty, &u), "rating"))
            return false;
        naive += u;
    }
    golden_put(g, "naive_per_slice_floor_u", naive);
    golden_put(g, "qty", done);
    golden_put(g, "charge_u", total);
    golden_put(g, "total_u", total);
    return true;
}

/* Several runs, each rated from zero. */
static bool bill_runs(struct golden *g, const struct rate *r, int64_t gpus, const char *key,
                      int64_t unit_s)
{
    int64_t runs[GOLDEN_ITEMS_MAX], total = 0, qty, u;
    json_t *charges = json_array();
    size_t n;

    golden_put_json(g, "charges_u", charges);
    if (!golden_i64s(g, g->in, key, runs, GOLDEN_ITEMS_MAX, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!golden_mul(g, runs[i], unit_s, &qty) || !golden_mul(g, qty, gpus, &qty) ||
            !golden_ok(g, rate_total(r, qty, &u), "rating"))
            return false;
        json_array_append_new(charges, json_integer(u));
        total += u;
    }
    golden_put(g, "total_u", total);
    return true;
}

/* qty, or any of seconds, hours, days, added. */
static bool sum_quantity(struct golden *g, int64_t gpus, int64_t *ret_qty)
{
    static const struct {
        const char *key;
        int64_t unit;
    } units[] = {{"qty", 1}, {"seconds", 1}, {"hours", 3600}, {"days", DAY_S}};
    int64_t sum = 0, v;
    bool any = false;

    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (!golden_has(g, units[i].key))
            continue;
        any = true;
        if (!golden_i64(g, g->in, units[i].key, &v) || !golden_mul(g, v, units[i].unit, &v) ||
            !golden_ok(g, micro_add(sum, v, &sum), "quantity"))
            return false;
    }
    return any ? golden_mul(g, sum, gpus, ret_qty) : golden_fail(g, "no quantity in the inputs");
}

static bool bill_quantity(struct golden *g, int64_t gpus)
{
    int64_t qty, u;
    struct rate r;

    if (!golden_rate(g, g->in, &r))
        return false;
    if (golden_has(g, "slices"))
        return bill_slices(g, &r, gpus);
    if (golden_has(g, "runs_h"))
        return bill_runs(g, &r, gpus, "runs_h", 3600);
    if (golden_has(g, "runs_s"))
        return bill_runs(g, &r, gpus, "runs_s", 1);
    if (!sum_quantity(g, gpus, &qty) || !golden_ok(g, rate_total(&r, qty, &u), "rating"))
        return false;
    golden_put(g, "qty", qty);
    golden_put(g, "charge_u", u);
    golden_put(g, "total_u", u);
    return true;
}

bool golden_usage(struct golden *g)
{
    int64_t gpus;
    utime_t from, to;
    const char *text;

    /* the unit is a word for people; the price pair says how much of it */
    if (!golden_gpus(g, &gpus) || !golden_text(g, g->in, "unit", "", &text))
        return false;
    if (golden_has(g, "month")) {
        struct period month;
        if (!golden_text(g, g->in, "month", "", &text) ||
            !golden_ok(g, period_parse(&g->zone, text, &month), "month"))
            return false;
        return bill_interval(g, month.from_s * MS_PER_S, month.to_s * MS_PER_S, gpus);
    }
    if (golden_has(g, "run"))
        return golden_span(g, g->in, "run", &from, &to) && bill_interval(g, from, to, gpus);
    if (golden_has(g, "ready"))
        return golden_time(g, g->in, "ready", INT64_MIN, &from) &&
               golden_time(g, g->in, "stop", from, &to) && bill_interval(g, from, to, gpus);
    return bill_quantity(g, gpus);
}

bool golden_auto_release(struct golden *g)
{
    int64_t gpus, left, limit, without, with, a, b;
    struct rate r;

    if (!golden_rate(g, g->in, &r) || !golden_gpus(g, &gpus) ||
        !golden_i64(g, g->in, "left_running_s", &left) ||
        !golden_i64_or(g, g->in, "auto_release_s", left, &limit) ||
        !golden_mul(g, left, gpus, &a) || !golden_mul(g, MIN(left, limit), gpus, &b) ||
        !golden_ok(g, rate_total(&r, a, &without), "rating") ||
        !golden_ok(g, rate_total(&r, b, &with), "rating"))
        return false;
    golden_put(g, "without_u", without);
    golden_put(g, "with_u", with);
    golden_put(g, "saved_u", without - with);
    return true;
}

/* ---- metering ---- */

struct delivery {
    const char *id;
    struct usage_slice slice;
};

static bool load_delivery(struct golden *g, const json_t *o, struct delivery *d)
{
    *d = (struct delivery){.slice = {.qty_per_s = 1}};
    if (!golden_text(g, o, "id", "", &d->id) || !golden_i64(g, o, "t0", &d->slice.t0_s) ||
        !golden_i64(g, o, "t1", &d->slice.t1_s) || !golden_gpus(g, &d->slice.qty_per_s) ||
        !golden_i64_or(g, o, "gpus", d->slice.qty_per_s, &d->slice.qty_per_s) ||
        !golden_bool(g, o, "void", false, &d->slice.voided))
        return false;
    meter_payload_hash(&d->slice);
    return d->id[0] || golden_fail(g, "a delivery has no id");
}

/* The receiving side of a window, as the control plane runs it. */
struct receiver {
    struct delivery known[GOLDEN_ITEMS_MAX];
    struct usage_slice parked[GOLDEN_ITEMS_MAX];
    size_t known_count, parked_count;
    int64_t cursor_s, qty;
};

static void count_gain(struct receiver *r, const struct meter_gain *gain)
{
    r->qty += (gain->to_s - gain->from_s) * gain->qty_per_s;
}

static bool receive(struct golden *g, struct receiver *r, const struct delivery *d,
                    enum meter_verdict *ret_verdict)
{
    struct meter_gain gain, gains[GOLDEN_ITEMS_MAX];
    const struct usage_slice *known = NULL;
    size_t taken;

    for (size_t i = 0; i < r->known_count && !known; i++)
        if (str_eq(r->known[i].id, d->id))
            known = &r->known[i].slice;
    *ret_verdict = meter_dedupe(known, &d->slice);
    if (*ret_verdict != METER_NEW)
        return true;
    if (!golden_ok(g, meter_take(&r->cursor_s, &d->slice, ret_verdict, &gain), "slice"))
        return false;
    r->known[r->known_count++] = *d;
    if (*ret_verdict == METER_PARKED) {
        r->parked[r->parked_count++] = d->slice;
        return true;
    }
    count_gain(r, &gain);
    meter_drain(&r->cursor_s, r->parked, r->parked_count, gains, &taken);
    for (size_t i = 0; i < taken; i++)
        count_gain(r, &gains[i]);
    r->parked_count -= taken;
    memmove(r->parked, r->parked + taken, r->parked_count * sizeof(r->parked[0]));
    return true;
}

bool golden_deliveries(struct golden *g)
{
    static struct receiver r;
    json_t *list, *o, *acks = json_array();
    int64_t u, posted = 0;
    struct rate rate;
    size_t i;

    golden_put_json(g, "acks", acks);
    if (!golden_rate(g, g->in, &rate) || !golden_list(g, g->in, "deliveries", &list))
        return false;
    r = (struct receiver){.cursor_s = INT64_MAX};
    json_array_foreach(list, i, o)
    { /* the lease begins with the first second anybody reports */
        struct delivery d;
        if (!load_delivery(g, o, &d))
            return false;
        r.cursor_s = MIN(r.cursor_s, d.slice.t0_s);
    }
    json_array_foreach(list, i, o)
    {
        enum meter_verdict verdict;
        int64_t before = r.qty;
        struct delivery d;

        if (!load_delivery(g, o, &d) || !receive(g, &r, &d, &verdict) ||
            !golden_ok(g, rate_delta(&rate, before, r.qty, &u), "rating"))
            return false;
        posted += u;
        json_array_append_new(acks, json_string(meter_verdict_name(verdict)));
        if (i == 0)
            golden_put_json(g, "state_after_first",
                            json_pack("{s:I,s:I,s:I}", "charge_u", posted, "qty", r.qty, "parked",
                                      (json_int_t)r.parked_count));
    }
    golden_put(g, "qty", r.qty);
    golden_put(g, "charge_u", posted);
    golden_put(g, "parked", (int64_t)r.parked_count);
    return true;
}

static bool put_charge(struct golden *g, int64_t seconds)
{
    int64_t gpus, qty, u;
    struct rate r;

    if (!golden_rate(g, g->in, &r) || !golden_gpus(g, &gpus) ||
        !golden_mul(g, seconds, gpus, &qty) || !golden_ok(g, rate_total(&r, qty, &u), "rating"))
        return false;
    golden_put(g, "qty", qty);
    golden_put(g, "charge_u", u);
    return true;
}

bool golden_clock_jump(struct golden *g)
{
    int64_t wall, node, own, evidenced;

    if (!golden_i64(g, g->in, "agent_boottime_delta_s", &node) ||
        !golden_i64_or(g, g->in, "controller_boottime_delta_s", node, &own) ||
        !golden_i64_or(g, g->in, "wall_delta_s", own, &wall) ||
        !golden_mul(g, node, MS_PER_S, &node) || !golden_mul(g, own, MS_PER_S, &own) ||
        !golden_mul(g, wall, MS_PER_S, &wall))
        return false;
    evidenced = meter_evidenced_ms(node, own);
    golden_put_text(g, "alarm", meter_clock_stepped(wall, own) ? "clock_step" : NULL);
    return put_charge(g, evidenced / MS_PER_S);
}

/* Billed to the last evidence, whenever the node comes back and as whatever boot. */
bool golden_evidence(struct golden *g)
{
    utime_t ready, last, back, stop;
    int64_t from, to;
    bool rebooted;

    if (!golden_time(g, g->in, "ready", INT64_MIN, &ready) ||
        !golden_time(g, g->in, "last_evidence", INT64_MIN, &last) ||
        !golden_bool(g, g->in, "new_boot_id", false, &rebooted) ||
        (golden_has(g, "node_back") && !golden_time(g, g->in, "node_back", last, &back)))
        return false;
    stop = last;
    if (golden_has(g, "stop") && !golden_time(g, g->in, "stop", ready, &stop))
        return false;
    meter_billable(ready, MIN(last, stop), &from, &to);
    golden_put_time(g, "billed_from", from);
    golden_put_time(g, "billed_to", to);
    return put_charge(g, to - from);
}

/* The first end of a term that falls into the outage is a hard stop; terms that end before or after
 * it are renewed. Without replay of the spool only what was heard before the outage is evidence. */
bool golden_controller_down(struct golden *g)
{
    utime_t ready, granted, down, up, end, stop = INT64_MAX, heard;
    int64_t lease_s, lease_ms, from, to;
    bool replay;

    if (!golden_time(g, g->in, "ready", INT64_MIN, &ready) ||
        !golden_i64_or(g, g->in, "lease_s", 600, &lease_s) ||
        !golden_mul(g, lease_s, MS_PER_S, &lease_ms) ||
        !golden_span(g, g->in, "controller_down", &down, &up) ||
        !golden_bool(g, g->in, "replay", true, &replay) ||
        (golden_has(g, "stop") && !golden_time(g, g->in, "stop", ready, &stop)))
        return false;
    granted = ready;
    if (golden_has(g, "lease_granted_at") &&
        !golden_time(g, g->in, "lease_granted_at", INT64_MIN, &granted))
        return false;
    if (lease_ms <= 0)
        return golden_fail(g, "lease_s is not positive");
    end = granted + lease_ms;
    if (end < down)
        end += (down - end + lease_ms - 1) / lease_ms * lease_ms;
    if (end >= up && stop == INT64_MAX)
        return golden_fail(g, "the lease outlives the outage and nothing else stops it");
    end = end < up ? MIN(end, stop) : stop;
    heard = replay ? end : MIN(end, down);
    meter_billable(ready, heard, &from, &to);
    golden_put_time(g, "stopped_at", end / MS_PER_S);
    return put_charge(g, to - from);
}

bool golden_late(struct golden *g)
{
    static const char *const months[] = {"january",   "february", "march",    "april",
                                         "may",       "june",     "july",     "august",
                                         "september", "october",  "november", "december"};
    utime_t from_ms, to_ms, received, closed;
    struct period own;
    struct bill_slot slot;
    int64_t from, to;
    char text[64];

    if (!golden_span(g, g->in, "slice", &from_ms, &to_ms) ||
        !golden_time(g, g->in, "received", to_ms, &received))
        return false;
    meter_billable(from_ms, to_ms, &from, &to);
    period_month_at(&g->zone, from, &own);
    closed = (own.to_s + BILL_COLLECT_S) * MS_PER_S;
    if (golden_has(g, "closed") && !golden_time(g, g->in, "closed", INT64_MIN, &closed))
        return false;
    bill_slot_for(&g->zone, from, floor_s(received), floor_s(closed), &slot);
    if (!put_charge(g, to - from))
        return false;
    period_format(&slot.period, text, sizeof(text));
    golden_put_text(g, "invoice", text);
    golden_put_text(g, "charge_class", slot.correction ? "Correction" : NULL);
    golden_put_json(g, "charge_period",
                    json_pack("[o,o]", golden_time_json(from), golden_time_json(to)));
    bool named = str_printf(text, sizeof(text), "%s_total_change_u", months[own.month - 1]);
    CHECK(named);
    golden_put(g, text,
               slot.correction ? 0 : json_integer_value(json_object_get(g->out, "charge_u")));
    return true;
}

/* ---- spot ---- */

static bool load_ticks(struct golden *g, struct spot_tick *ticks, size_t *ret_n)
{
    utime_t at = INT64_MIN;
    json_t *list, *o;
    size_t i;

    if (!golden_list(g, g->in, "ticks", &list))
        return false;
    json_array_foreach(list, i, o)
    {
        struct rate r;
        if (!golden_time(g, o, "at", at, &at) || !golden_rate(g, o, &r))
            return false;
        ticks[i] = (struct spot_tick){floor_s(at), {r.tiers[0].p, r.d}};
    }
    *ret_n = json_array_size(list);
    return true;
}

bool golden_spot(struct golden *g)
{
    static struct spot_tick ticks[GOLDEN_ITEMS_MAX];
    static struct spot_part parts[GOLDEN_ITEMS_MAX];
    int64_t from, to, gpus, total, free_s, notice;
    struct price_rate bid = {0};
    json_t *list = json_array();
    const char *ended_by;
    utime_t a, b;
    size_t n, count;

    golden_put_json(g, "parts_u", list);
    if (!golden_has(g, "ticks"))
        return golden_usage(g);
    if (!golden_span(g, g->in, "run", &a, &b) || !golden_gpus(g, &gpus) ||
        !load_ticks(g, ticks, &n) || !golden_text(g, g->in, "ended_by", "user", &ended_by) ||
        !golden_i64_or(g, g->in, "free_if_reclaimed_within_s", -1, &free_s) ||
        !golden_i64_or(g, g->in, "bid_u", 0, &bid.p) ||
        !golden_i64_or(g, g->in, "per", 3600, &bid.d) ||
        !golden_i64_or(g, g->in, "notice_s", 0, &notice))
        return false;
    if (!golden_has(g, "bid_u"))
        bid.d = 0;
    meter_billable(a, b, &from, &to);
    if (!golden_ok(
            g,
            spot_rate_run(ticks, n, from, to, gpus, bid, parts, GOLDEN_ITEMS_MAX, &count, &total),
            "spot"))
        return false;
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(parts[i].charge_u));
    bool is_free = spot_is_free(from, to, str_eq(ended_by, "platform"), free_s);
    golden_put(g, "total_u", is_free ? 0 : total);
    golden_put(g, "reversal_u", is_free ? total : 0);
    return true;
}
