/* golden_disk.c: storage, traffic, what becomes debt, and the whole price before it is spent. */
#include "golden.h"

#include "domain/meter.h"
#include "domain/tax.h"
#include "domain/voucher.h"

/* ---- storage ---- */

/* Disks are metered in MiB-seconds; a price per GiB-s has 1024 times as many of them. */
struct disk_unit {
    const char *size_key, *qty_key;
    int64_t parts; /* metered units in one unit of the price */
};

static bool disk_unit(struct golden *g, struct disk_unit *ret_u)
{
    const char *unit;

    if (!golden_text(g, g->in, "unit", golden_has(g, "gb") ? "GB-s" : "GiB-s", &unit))
        return false;
    if (str_eq(unit, "GB-s"))
        *ret_u = (struct disk_unit){"gb", "qty_gb_s", 1};
    else if (str_eq(unit, "GiB-s"))
        *ret_u = (struct disk_unit){"gib", "qty_gib_s", 1024};
    else if (str_eq(unit, "MiB-s"))
        *ret_u = (struct disk_unit){"mib", "qty_mib_s", 1};
    else
        return golden_fail(g, "unknown unit %s", unit);
    return true;
}

static bool disk_rate(struct golden *g, const char *price_key, const struct disk_unit *u,
                      struct rate *ret_r)
{
    return golden_rate_named(g, g->in, price_key, "per", ret_r) &&
           golden_mul(g, ret_r->d, u->parts, &ret_r->d);
}

/* PREFIX_days, PREFIX_hours and PREFIX_s, added; without a prefix also the bare words. */
static bool span_of(struct golden *g, const json_t *o, const char *const keys[3], int64_t *ret_s)
{
    static const int64_t units[3] = {DAY_S, 3600, 1};
    int64_t sum = 0, v;

    for (size_t i = 0; i < 3; i++) {
        if (!golden_i64_or(g, o, keys[i], 0, &v) || !golden_mul(g, v, units[i], &v) ||
            !golden_ok(g, micro_add(sum, v, &sum), keys[i]))
            return false;
    }
    *ret_s = sum;
    return true;
}

/* No charge for a disk where the state × meter table says so. */
static bool disk_charged(struct golden *g, const json_t *o, bool *ret_charged)
{
    enum instance_state state;
    const char *name;
    enum meter meter;

    if (!golden_text(g, o, "state", "running", &name))
        return false;
    if (!instance_state_find(name, &state))
        return golden_fail(g, "unknown state %s", name);
    *ret_charged = meter_for_disk(state, DISK_DATA, false, &meter);
    return true;
}

static bool put_disk(struct golden *g, const struct disk_unit *u, const struct rate *r,
                     int64_t units)
{
    int64_t charge;

    if (!golden_ok(g, rate_total(r, units, &charge), "rating"))
        return false;
    golden_put(g, u->qty_key, units / u->parts);
    golden_put(g, "qty", units / u->parts);
    golden_put(g, "charge_u", charge);
    golden_put(g, "total_u", charge);
    return true;
}

static bool disk_segments(struct golden *g, const struct disk_unit *u, const struct rate *r)
{
    static const char *const keys[3] = {"days", "hours", "s"};
    int64_t sum = 0, size, s, units;
    json_t *list, *o;
    size_t i;

    if (!golden_list(g, g->in, "segments", &list))
        return false;
    json_array_foreach(list, i, o)
    {
        bool charged;
        if (!golden_i64(g, o, u->size_key, &size) || !span_of(g, o, keys, &s) ||
            !disk_charged(g, o, &charged) || !golden_mul(g, size, u->parts, &units) ||
            !golden_mul(g, units, charged ? s : 0, &units) ||
            !golden_ok(g, micro_add(sum, units, &sum), "quantity"))
            return false;
    }
    return put_disk(g, u, r, sum);
}

/* Running and stopped seconds at their own rates: two windows. */
static bool disk_two_rates(struct golden *g, const struct disk_unit *u, int64_t size)
{
    static const char *const run_keys[3] = {"run_days", "run_hours", "run_s"};
    static const char *const stop_keys[3] = {"stop_days", "stop_hours", "stop_s"};
    int64_t run_s, stop_s, run, stop, a, b;
    struct rate run_rate, stop_rate;

    if (!disk_rate(g, "run_price_u", u, &run_rate) ||
        !disk_rate(g, "stop_price_u", u, &stop_rate) || !span_of(g, g->in, run_keys, &run_s) ||
        !span_of(g, g->in, stop_keys, &stop_s) || !golden_mul(g, size, u->parts, &size) ||
        !golden_mul(g, size, run_s, &run) || !golden_mul(g, size, stop_s, &stop) ||
        !golden_ok(g, rate_total(&run_rate, run, &a), "rating") ||
        !golden_ok(g, rate_total(&stop_rate, stop, &b), "rating"))
        return false;
    golden_put(g, u->qty_key, (run + stop) / u->parts);
    golden_put_json(g, "parts_u", json_pack("[I,I]", a, b));
    golden_put(g, "total_u", a + b);
    golden_put(g, "charge_u", a + b);
    return true;
}

bool golden_storage(struct golden *g)
{
    static const char *const keys[3] = {"days", "hours", "seconds"};
    static const char *const offline_keys[3] = {"offline_days", "offline_h", "offline_s"};
    struct disk_unit u;
    int64_t size, s, offline_s, units;
    struct rate r;
    bool charged;

    if (!disk_unit(g, &u))
        return false;
    if (golden_has(g, "segments"))
        return disk_rate(g, "price_u", &u, &r) && disk_segments(g, &u, &r);
    if (!golden_i64(g, g->in, u.size_key, &size))
        return false;
    if (golden_has(g, "run_price_u"))
        return disk_two_rates(g, &u, size);
    if (!disk_rate(g, "price_u", &u, &r) || !span_of(g, g->in, keys, &s) ||
        !span_of(g, g->in, offline_keys, &offline_s) || !disk_charged(g, g->in, &charged) ||
        !golden_mul(g, size, u.parts, &units) ||
        !golden_mul(g, units, charged ? MAX(s - offline_s, (int64_t)0) : 0, &units))
        return false;
    return put_disk(g, &u, &r, units);
}

/* ---- traffic ---- */

static bool load_tiers(struct golden *g, struct rate *r)
{
    json_t *list, *t;
    size_t i;

    if (!golden_list(g, g->in, "tiers", &list) || json_array_size(list) > RATE_TIERS_MAX ||
        !golden_i64_or(g, g->in, "per", INT64_C(1) << 30, &r->d))
        return golden_fail(g, "tiers is not a list of at most %d", RATE_TIERS_MAX);
    json_array_foreach(list, i, t)
    {
        json_t *from = json_array_get(t, 0), *to = json_array_get(t, 1), *p = json_array_get(t, 2);
        if (!json_is_integer(from) || !json_is_integer(p) ||
            (!json_is_integer(to) && !json_is_null(to)))
            return golden_fail(g, "tier %zu is not [from, to, price]", i);
        r->tiers[i] = (struct rate_tier){json_integer_value(from),
                                         json_is_null(to) ? INT64_MAX : json_integer_value(to),
                                         json_integer_value(p)};
    }
    r->tier_count = json_array_size(list);
    return golden_ok(g, rate_check(r), "tiers");
}

/* Inside one zone the price version is 0: the line is there, with amount 0. */
static bool traffic_rate(struct golden *g, struct rate *ret_r)
{
    const char *scope;
    int64_t n, d;

    *ret_r = (struct rate){0};
    if (!golden_text(g, g->in, "scope", "internet", &scope))
        return false;
    if (str_eq(scope, "intra-zone")) {
        bool has_price = golden_has(g, "tiers") || golden_has(g, "price_u") || golden_has(g, "per");
        (void)has_price; /* looked at, and without effect there */
        return golden_ok(g, rate_flat((struct price_rate){0, 1}, ret_r), "rating");
    }
    if (!golden_has(g, "tiers"))
        return golden_rate_named(g, g->in, "price_u", "per", ret_r);
    return load_tiers(g, ret_r) &&
           (!golden_has(g, "discount") || (golden_pair(g, g->in, "discount", &n, &d) &&
                                           golden_ok(g, rate_scale(ret_r, n, d), "discount")));
}

/* A list of slices, or of cumulative readings. */
static bool traffic_list(struct golden *g, const struct rate *r, const char *key, bool cumulative)
{
    int64_t v[GOLDEN_ITEMS_MAX], at = 0, u, total = 0;
    json_t *posted = json_array(), *totals = json_array();
    size_t n;

    golden_put_json(g, "posted_u", posted);
    golden_put_json(g, "cumulative_charge_u", totals);
    if (!golden_i64s(g, g->in, key, v, GOLDEN_ITEMS_MAX, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        int64_t next = v[i];
        if ((!cumulative && !golden_ok(g, micro_add(at, v[i], &next), "quantity")) ||
            !golden_ok(g, rate_delta(r, at, next, &u), "rating"))
            return false;
        at = next;
        total += u;
        json_array_append_new(posted, json_integer(u));
        json_array_append_new(totals, json_integer(total));
    }
    golden_put(g, "total_u", total);
    golden_put(g, "charge_u", total);
    return true;
}

bool golden_traffic(struct golden *g)
{
    const char *unit;
    int64_t bytes, u;
    struct rate r;

    if (!traffic_rate(g, &r) || !golden_text(g, g->in, "unit", "B", &unit))
        return false;
    if (golden_has(g, "slices_bytes"))
        return traffic_list(g, &r, "slices_bytes", false);
    if (golden_has(g, "cumulative_bytes"))
        return traffic_list(g, &r, "cumulative_bytes", true);
    if (!golden_i64(g, g->in, "bytes", &bytes) ||
        !golden_ok(g, rate_total(&r, bytes, &u), "rating"))
        return false;
    golden_put(g, "qty", bytes);
    golden_put(g, "charge_u", u);
    golden_put(g, "total_u", u);
    return true;
}

/* ---- arrears ---- */

bool golden_arrears(struct golden *g)
{
    int64_t size, zero, topup_day, topup, days, retention, owed, per_day, debt, cash = 0;
    struct disk_unit u;
    struct rate r;

    if (!disk_unit(g, &u) || !disk_rate(g, "price_u", &u, &r) ||
        !golden_i64(g, g->in, u.size_key, &size) || !golden_mul(g, size, u.parts, &size) ||
        !golden_i64_or(g, g->in, "zero_at_day", 0, &zero) ||
        !golden_i64_or(g, g->in, "retention_days", ARREARS_RETENTION_S / DAY_S, &days) ||
        !golden_i64_or(g, g->in, "topup_day", INT64_MAX / DAY_S, &topup_day) ||
        !golden_i64_or(g, g->in, "topup_u", 0, &topup) || !golden_mul(g, days, DAY_S, &retention) ||
        !golden_mul(g, zero, DAY_S, &zero) || !golden_mul(g, topup_day, DAY_S, &topup_day))
        return false;
    int64_t wipe = arrears_wipe_s(zero, retention), after_wipe;
    if (!golden_ok(g, arrears_owed(&r, size, zero, topup_day, retention, &owed), "arrears") ||
        !golden_ok(g, arrears_owed(&r, size, zero, wipe, retention, &per_day), "arrears") ||
        !golden_ok(g, arrears_owed(&r, size, zero, wipe + DAY_S, retention, &after_wipe),
                   "arrears"))
        return false;
    golden_put(g, "receivable_u", owed);
    golden_put(g, "wipe_day", wipe / DAY_S);
    golden_put(g, "after_wipe_per_day_u", after_wipe - per_day);
    fund_topup(owed, topup, &debt, &cash);
    golden_put(g, "receivable_after_topup_u", debt);
    golden_put(g, "cash_after_topup_u", cash);
    golden_put(g, "cash_min_u", 0); /* zero by the ledger's floor: debt has an account of its own */
    return true;
}

/* ---- quote ---- */

static bool quote_compute(struct golden *g, int64_t *ret_u)
{
    int64_t gpus, hours, seconds, qty;
    struct rate r;

    *ret_u = 0;
    if (!golden_has(g, "price_u"))
        return true;
    return golden_rate(g, g->in, &r) && golden_gpus(g, &gpus) &&
           golden_i64_or(g, g->in, "hours", 0, &hours) &&
           golden_i64_or(g, g->in, "seconds", 0, &seconds) && golden_mul(g, hours, 3600, &hours) &&
           golden_ok(g, micro_add(hours, seconds, &qty), "quantity") &&
           golden_mul(g, qty, gpus, &qty) && golden_ok(g, rate_total(&r, qty, ret_u), "rating");
}

static bool quote_disk(struct golden *g, int64_t *ret_u)
{
    int64_t gib, days, hours, per, qty;
    struct price_rate price;
    const char *unit;
    struct rate r;

    *ret_u = 0;
    if (!golden_has(g, "disk_price_u"))
        return true;
    if (!golden_i64(g, g->in, "disk_price_u", &price.p) ||
        !golden_i64_or(g, g->in, "disk_per", DAY_S, &per) ||
        !golden_text(g, g->in, "disk_unit", "GiB-s", &unit) ||
        !golden_i64_or(g, g->in, "disk_gib", 0, &gib) ||
        !golden_i64_or(g, g->in, "disk_days", 0, &days) ||
        !golden_i64_or(g, g->in, "disk_hours", 0, &hours))
        return false;
    if (!str_eq(unit, "GiB-s"))
        return golden_fail(g, "unknown disk_unit %s", unit);
    return golden_mul(g, per, 1024, &price.d) && golden_ok(g, rate_flat(price, &r), "disk price") &&
           golden_mul(g, gib, 1024, &qty) &&
           golden_mul(g, qty, days * DAY_S + hours * 3600, &qty) &&
           golden_ok(g, rate_total(&r, qty, ret_u), "rating");
}

static bool quote_egress(struct golden *g, int64_t *ret_u)
{
    struct price_rate price = {.d = INT64_C(1) << 30};
    int64_t gib, bytes;
    struct rate r;

    return golden_i64_or(g, g->in, "egress_u", 0, &price.p) &&
           golden_i64_or(g, g->in, "egress_gib", 0, &gib) &&
           golden_mul(g, gib, INT64_C(1) << 30, &bytes) &&
           golden_ok(g, rate_flat(price, &r), "egress price") &&
           golden_ok(g, rate_total(&r, bytes, ret_u), "rating");
}

bool golden_quote(struct golden *g)
{
    struct tax_rate rate = {0, 1};
    struct bill_share scratch[3];
    struct tax_bill bill;
    int64_t lines[3], minor_u;
    bool inclusive;

    if (!quote_compute(g, &lines[0]) || !quote_disk(g, &lines[1]) || !quote_egress(g, &lines[2]) ||
        !golden_minor(g, &minor_u) || !golden_inclusive(g, &inclusive) ||
        (golden_has(g, "rate") && !golden_pair(g, g->in, "rate", &rate.n, &rate.d)) ||
        !golden_ok(g, tax_bill(minor_u, lines, 3, rate, inclusive, scratch, NULL, &bill), "bill"))
        return false;
    golden_put(g, "compute_u", lines[0]);
    golden_put(g, "disk_u", lines[1]);
    golden_put(g, "egress_u", lines[2]);
    golden_put(g, "total_u", bill.total.total_u);
    golden_put(g, "residue_u", bill.total.residue_u);
    golden_put(g, "net_minor", bill.tax.net_minor);
    golden_put(g, "tax_minor", bill.tax.tax_minor);
    golden_put(g, "gross_minor", bill.tax.gross_minor);
    golden_put(g, "payable_minor", bill.tax.gross_minor);
    return true;
}
