/* golden_fund.c: what pays a charge, and who is paid from it. */
#include "golden.h"

#include "domain/budget.h"
#include "domain/ledger.h"
#include "domain/meter.h"
#include "domain/payout.h"
#include "domain/voucher.h"

/* ---- vouchers ---- */

static bool meter_bits(struct golden *g, const char *name, unsigned *ret_bits)
{
    static const struct {
        const char *name;
        unsigned bits;
    } names[] = {
        {"gpu", 1u << METER_GPU},
        {"compute", 1u << METER_GPU | 1u << METER_CPU},
        {"cpu", 1u << METER_CPU},
        {"storage", 1u << METER_DISK | 1u << METER_DISK_STOPPED | 1u << METER_DISK_DETACHED},
        {"disk", 1u << METER_DISK | 1u << METER_DISK_STOPPED | 1u << METER_DISK_DETACHED},
        {"traffic", 1u << METER_EGRESS},
        {"egress", 1u << METER_EGRESS},
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_eq(names[i].name, name)) {
            *ret_bits = names[i].bits;
            return true;
        }
    return golden_fail(g, "unknown meter %s", name);
}

static bool load_scope(struct golden *g, const json_t *o, unsigned *ret_scope)
{
    json_t *list = golden_get(g, o, "scope"), *item;
    unsigned bits, scope = VOUCHER_SCOPE_ALL;
    size_t i;

    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item) || !meter_bits(g, json_string_value(item), &bits))
            return golden_fail(g, "scope is not a list of meters");
        scope |= bits;
    }
    *ret_scope = scope;
    return true;
}

struct payers {
    struct voucher vouchers[GOLDEN_ITEMS_MAX];
    struct funds funds;
    struct funding paid;            /* sums over all charges */
    int64_t used[GOLDEN_ITEMS_MAX]; /* by voucher, likewise */
    size_t order[GOLDEN_ITEMS_MAX];
    int64_t last[GOLDEN_ITEMS_MAX];
};

static bool load_vouchers(struct golden *g, struct payers *p, utime_t from_ms)
{
    json_t *list, *o;
    size_t i;

    if (!golden_has(g, "vouchers"))
        return true;
    if (!golden_list(g, g->in, "vouchers", &list))
        return false;
    json_array_foreach(list, i, o)
    {
        struct voucher *v = &p->vouchers[i];
        utime_t expires = INT64_MAX;
        const char *id;

        if (!golden_text(g, o, "id", "", &id) || !str_copy(v->id, sizeof(v->id), id) ||
            !golden_i64(g, o, "left_u", &v->left_u) || !load_scope(g, o, &v->scope))
            return golden_fail(g, "voucher %zu is not one", i);
        if (golden_get(g, o, "exp") && !golden_time(g, o, "exp", from_ms, &expires))
            return false;
        v->expires_s = expires == INT64_MAX ? INT64_MAX : expires / MS_PER_S;
    }
    p->funds.vouchers = p->vouchers;
    p->funds.voucher_count = json_array_size(list);
    return true;
}

static bool pay(struct golden *g, struct payers *p, enum meter meter, int64_t at_s, int64_t u)
{
    struct funding f;

    if (!golden_ok(g, fund_charge(&p->funds, meter, at_s, u, p->order, p->last, &f), "deduction"))
        return false;
    p->paid.gift_u += f.gift_u;
    p->paid.cash_u += f.cash_u;
    p->paid.credit_u += f.credit_u;
    p->paid.unpaid_u += f.unpaid_u;
    for (size_t i = 0; i < p->funds.voucher_count; i++)
        p->used[i] += p->last[i];
    return true;
}

/* A run is cut where a voucher expires; each piece is paid by what is valid in it. */
static bool pay_run(struct golden *g, struct payers *p, enum meter meter, utime_t a, utime_t b,
                    int64_t *ret_charge_u)
{
    int64_t from, to, gpus, total = 0, u, breakage, lapsed = 0;
    struct rate r;

    meter_billable(a, b, &from, &to);
    if (!golden_rate(g, g->in, &r) || !golden_gpus(g, &gpus))
        return false;
    for (int64_t at = from; at < to;) {
        int64_t end = voucher_cut(p->vouchers, p->funds.voucher_count, at, to), q0, q1;
        if (!golden_mul(g, at - from, gpus, &q0) || !golden_mul(g, end - from, gpus, &q1) ||
            !golden_ok(g, rate_delta(&r, q0, q1, &u), "rating") || !pay(g, p, meter, at, u) ||
            !golden_ok(g, voucher_expire(p->vouchers, p->funds.voucher_count, end, &breakage),
                       "expiry"))
            return false;
        lapsed += breakage;
        total += u;
        at = end;
    }
    golden_put(g, "breakage_u", lapsed);
    *ret_charge_u = total;
    return true;
}

static void put_payers(struct golden *g, const struct payers *p)
{
    json_t *used = json_object(), *left = json_object();

    for (size_t i = 0; i < p->funds.voucher_count; i++) {
        json_object_set_new(used, p->vouchers[i].id, json_integer(p->used[i]));
        json_object_set_new(left, p->vouchers[i].id, json_integer(p->vouchers[i].left_u));
    }
    json_object_set_new(used, "gift", json_integer(p->paid.gift_u));
    json_object_set_new(used, "cash", json_integer(p->paid.cash_u));
    json_object_set_new(left, "gift", json_integer(p->funds.gift_u));
    json_object_set_new(left, "cash", json_integer(p->funds.cash_u));
    golden_put_json(g, "used", used);
    golden_put_json(g, "left", left);
    golden_put(g, "cash_left_u", p->funds.cash_u);
    golden_put(g, "gift_left_u", p->funds.gift_u);
    golden_put(g, "unpaid_u", p->paid.unpaid_u);
}

static void put_order(struct golden *g, struct payers *p, enum meter meter, int64_t at_s,
                      int64_t charge_u)
{
    json_t *order = json_array();
    size_t n;

    voucher_rank(p->vouchers, p->funds.voucher_count, meter, at_s, charge_u, p->order, &n);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(order, json_string(p->vouchers[p->order[i]].id));
    golden_put_json(g, "order", order);
}

/* One voucher over several orders, by amount. */
static bool split_voucher(struct golden *g)
{
    static struct bill_share scratch[GOLDEN_ITEMS_MAX];
    int64_t orders[GOLDEN_ITEMS_MAX], parts[GOLDEN_ITEMS_MAX], voucher, sum = 0;
    json_t *split = json_array(), *rest = json_array();
    size_t n;

    golden_put_json(g, "split_u", split);
    golden_put_json(g, "rest_u", rest);
    if (!golden_i64(g, g->in, "voucher_u", &voucher) ||
        !golden_i64s(g, g->in, "orders_u", orders, GOLDEN_ITEMS_MAX, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!golden_ok(g, micro_add(sum, orders[i], &sum), "orders_u"))
            return false;
    if (!golden_ok(g, bill_split(MIN(voucher, sum), orders, n, scratch, parts), "split"))
        return false;
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(split, json_integer(parts[i]));
        json_array_append_new(rest, json_integer(orders[i] - parts[i]));
    }
    golden_put(g, "voucher_left_u", voucher - MIN(voucher, sum));
    return true;
}

bool golden_voucher(struct golden *g)
{
    static struct payers p;
    utime_t a = INT64_MIN, b = 0;
    enum meter meter = METER_GPU;
    const char *name;
    unsigned bits;
    int64_t charge;

    if (golden_has(g, "orders_u"))
        return split_voucher(g);
    p = (struct payers){0};
    if (!golden_text(g, g->in, "meter", "gpu", &name) || !meter_bits(g, name, &bits) ||
        (golden_has(g, "run") && !golden_span(g, g->in, "run", &a, &b)) ||
        !load_vouchers(g, &p, a) || !golden_i64_or(g, g->in, "gift_u", 0, &p.funds.gift_u) ||
        !golden_i64_or(g, g->in, "cash_u", 0, &p.funds.cash_u))
        return false;
    while (!(bits & (1u << meter)))
        meter++;
    if (golden_has(g, "run")) {
        put_order(g, &p, meter, a / MS_PER_S, INT64_MAX);
        if (!pay_run(g, &p, meter, a, b, &charge))
            return false;
    } else {
        if (!golden_i64(g, g->in, "charge_u", &charge))
            return false;
        put_order(g, &p, meter, INT64_MIN, charge);
        if (!pay(g, &p, meter, INT64_MIN, charge))
            return false;
    }
    golden_put(g, "charge_u", charge);
    put_payers(g, &p);
    return true;
}

bool golden_package(struct golden *g)
{
    int64_t left, used, covered, rest, u;
    struct rate r;

    if (!golden_rate(g, g->in, &r) || !golden_i64(g, g->in, "package_gpu_s", &left) ||
        !golden_i64(g, g->in, "used_gpu_s", &used))
        return false;
    package_take(left, used, &covered, &rest);
    if (!golden_ok(g, rate_total(&r, rest, &u), "rating"))
        return false;
    golden_put(g, "package_used", covered);
    golden_put(g, "package_left", left - covered);
    golden_put(g, "charge_u", u);
    return true;
}

/* ---- holds: the real ledger, grant to settlement ---- */

static bool move(struct golden *g, struct ledger_view *v, struct ledger_transfer t,
                 unsigned char *head, struct ledger_transfer *ret_t)
{
    bool replayed;

    if (!golden_ok(g, ledger_apply(v, &t, 1, 1000, head, &replayed, NULL), t.kind))
        return false;
    *ret_t = t;
    return true;
}

static bool run_hold(struct golden *g, const struct term *term, int64_t cash_u, int64_t used_u)
{
    struct ledger_account accounts[3] = {
        {.id = "bank", .ledger = "X"},
        {.id = "cash", .ledger = "X", .flags = LEDGER_NO_OVERDRAFT},
        {.id = "revenue", .ledger = "X"}};
    struct ledger_view v = {.accounts = accounts, .account_count = 3};
    struct ledger_transfer t, journal[3];
    unsigned char head[LEDGER_HASH_SIZE] = {0};
    int64_t posted, released;

    v.existing = journal;
    t = (struct ledger_transfer){.id = "topup",
                                 .ledger = "X",
                                 .dr = "bank",
                                 .cr = "cash",
                                 .amount = cash_u,
                                 .kind = "topup"};
    if (!move(g, &v, t, head, &journal[v.existing_count]))
        return false;
    v.existing_count++;
    t = (struct ledger_transfer){.id = "hold",
                                 .ledger = "X",
                                 .dr = "cash",
                                 .cr = "revenue",
                                 .amount = term->hold_u,
                                 .kind = "hold",
                                 .step = LEDGER_PENDING,
                                 .owner = "lease",
                                 .expires_ms = 1};
    if (!move(g, &v, t, head, &journal[v.existing_count]))
        return false;
    v.existing_count++;
    golden_put(g, "available_during_u", ledger_available(&accounts[1]));
    if (!golden_ok(g, term_settle(term->hold_u, used_u, &posted, &released), "settlement"))
        return false;
    t = (struct ledger_transfer){
        .id = "post", .amount = posted, .kind = "charge", .step = LEDGER_POST, .pending = "hold"};
    if (!move(g, &v, t, head, &journal[v.existing_count]))
        return false;
    golden_put(g, "posted_u", posted);
    golden_put(g, "released_u", released);
    golden_put(g, "cash_after_u", ledger_balance(&accounts[1]));
    return true;
}

bool golden_hold(struct golden *g)
{
    struct term_window w = {.to_s = INT64_MAX};
    struct term_ask ask = {.windows = &w, .window_count = 1, .ends_at_s = INT64_MAX};
    int64_t stopped, used;
    struct term term;
    struct rate r;

    w.rate = &r;
    if (!golden_rate(g, g->in, &r) || !golden_gpus(g, &w.qty_per_s) ||
        !golden_i64(g, g->in, "cash_u", &ask.available_u) ||
        !golden_i64_or(g, g->in, "lease_s", TERM_DEFAULT_S, &ask.length_s) ||
        !golden_i64_or(g, g->in, "stopped_after_s", ask.length_s, &stopped) ||
        !golden_ok(g, term_grant(&ask, &term), "grant") ||
        !golden_ok(g, term_cost(&w, 1, MIN(stopped, term.length_s), &used), "rating"))
        return false;
    golden_put(g, "hold_u", term.hold_u);
    golden_put(g, "granted_s", term.length_s);
    return run_hold(g, &term, ask.available_u, used);
}

/* ---- payouts ---- */

struct parties {
    const char *names[PAYOUT_PARTIES_MAX];
    struct payout_share shares[PAYOUT_PARTIES_MAX];
    size_t count, rest; /* rest: who takes it, in the order of the row */
};

/* The one who takes the rest is put last, as the domain has it; names[] keep the row's order. */
static bool load_parties(struct golden *g, struct parties *p)
{
    json_t *shares = golden_get(g, g->in, "shares"), *v;
    const char *name;
    size_t given = 0;

    p->count = json_object_size(shares);
    p->rest = p->count;
    if (p->count < 1 || p->count > PAYOUT_PARTIES_MAX)
        return golden_fail(g, "shares is not an object of parties");
    size_t i = 0;
    json_object_foreach(shares, name, v)
    {
        p->names[i] = name;
        if (json_is_string(v) && str_eq(json_string_value(v), "rest")) {
            golden_get(g, shares, name);
            if (p->rest < p->count)
                return golden_fail(g, "two parties take the rest");
            p->rest = i;
        } else if (!golden_pair(g, shares, name, &p->shares[given].n, &p->shares[given].d)) {
            return false;
        } else {
            given++;
        }
        i++;
    }
    return p->rest < p->count || golden_fail(g, "nobody takes the rest");
}

/* Index of party i of the row in the domain's order. */
static size_t place_of(const struct parties *p, size_t i)
{
    return i == p->rest ? p->count - 1 : i - (i > p->rest);
}

static void put_party(struct golden *g, const char *name, json_t *v)
{
    char key[64];

    if (str_printf(key, sizeof(key), "%s_u", name))
        golden_put_json(g, key, v);
    else
        json_decref(v);
}

static int64_t party_total(struct golden *g, const char *name)
{
    char key[64];

    return str_printf(key, sizeof(key), "%s_u", name)
               ? json_integer_value(json_object_get(g->out, key))
               : 0;
}

static bool split_slices(struct golden *g, const struct parties *p)
{
    int64_t slices[GOLDEN_ITEMS_MAX], part[PAYOUT_PARTIES_MAX], sums[PAYOUT_PARTIES_MAX] = {0};
    json_t *lists[PAYOUT_PARTIES_MAX], *totals = json_array();
    int64_t at = 0, next;
    size_t n;

    for (size_t i = 0; i < p->count; i++)
        put_party(g, p->names[i], lists[i] = json_array());
    golden_put_json(g, "totals_u", totals);
    if (!golden_i64s(g, g->in, "slices_u", slices, GOLDEN_ITEMS_MAX, &n))
        return false;
    for (size_t s = 0; s < n; s++, at = next) {
        if (!golden_ok(g, micro_add(at, slices[s], &next), "slices_u") ||
            !golden_ok(g, payout_delta(p->shares, p->count, at, next, part), "shares"))
            return false;
        for (size_t i = 0; i < p->count; i++) {
            json_array_append_new(lists[i], json_integer(part[place_of(p, i)]));
            sums[i] += part[place_of(p, i)];
        }
    }
    for (size_t i = 0; i < p->count; i++)
        json_array_append_new(totals, json_integer(sums[i]));
    return true;
}

/* A charge that the platform's own voucher paid is split all the same; the voucher is its expense.
 */
static bool split_gross(struct golden *g, const struct parties *p)
{
    const json_t *paid_by = golden_get(g, g->in, "paid_by");
    int64_t gross, part[PAYOUT_PARTIES_MAX], voucher = 0, other, promo;
    const char *funded_by;

    if (!golden_i64(g, g->in, "gross_u", &gross) ||
        !golden_ok(g, payout_total(p->shares, p->count, gross, part), "shares") ||
        !golden_text(g, g->in, "funded_by", "platform", &funded_by))
        return false;
    if (paid_by && (!golden_i64_or(g, paid_by, "voucher_u", 0, &voucher) ||
                    !golden_i64_or(g, paid_by, "gift_u", 0, &other) ||
                    !golden_i64_or(g, paid_by, "cash_u", 0, &other)))
        return false;
    for (size_t i = 0; i < p->count; i++)
        put_party(g, p->names[i], json_integer(part[place_of(p, i)]));
    promo = str_eq(funded_by, "platform") ? voucher : 0;
    golden_put(g, "promo_expense_u", promo);
    golden_put(g, "platform_net_u", party_total(g, "platform") - promo);
    golden_put(g, "provider_net_u",
               party_total(g, "provider") - (str_eq(funded_by, "provider") ? voucher : 0));
    return true;
}

static bool weekly(struct golden *g)
{
    int64_t weeks[GOLDEN_ITEMS_MAX], threshold, paid, carried = 0;
    json_t *list = json_array();
    size_t n;

    golden_put_json(g, "paid_u", list);
    if (!golden_i64s(g, g->in, "weekly_u", weeks, GOLDEN_ITEMS_MAX, &n) ||
        !golden_i64_or(g, g->in, "threshold_u", 0, &threshold))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!golden_ok(g, payout_run(carried, weeks[i], threshold, &paid, &carried), "payout"))
            return false;
        json_array_append_new(list, json_integer(paid));
    }
    golden_put(g, "carried_u", carried);
    return true;
}

/* Week 1 is paid, then part of it is refunded: the next payout is lower by the share, once. */
static bool clawback(struct golden *g)
{
    struct payout_share shares[2] = {{0}};
    int64_t week1, week2, back, threshold, paid1, carried, paid2, part[2];
    int64_t gross, earned1;

    if (!golden_pair(g, g->in, "share", &shares[0].n, &shares[0].d) ||
        !golden_i64(g, g->in, "week1_gross_u", &week1) ||
        !golden_i64_or(g, g->in, "week2_gross_u", 0, &week2) ||
        !golden_i64_or(g, g->in, "refund_gross_u", 0, &back) ||
        !golden_i64_or(g, g->in, "threshold_u", 0, &threshold) ||
        !golden_ok(g, payout_total(shares, 2, week1, part), "share"))
        return false;
    earned1 = part[0];
    if (!golden_ok(g, payout_run(0, earned1, threshold, &paid1, &carried), "payout") ||
        !golden_i64_or(g, g->in, "paid_week1_u", paid1, &paid1))
        return false;
    carried = earned1 - paid1;
    gross = week1 - back;
    if (!golden_ok(g, payout_delta(shares, 2, week1, gross, part), "refund"))
        return false;
    golden_put(g, "clawback_u", -part[0]);
    carried += part[0];
    if (!golden_ok(g, payout_delta(shares, 2, gross, gross + week2, part), "share") ||
        !golden_ok(g, payout_run(carried, part[0], threshold, &paid2, &carried), "payout"))
        return false;
    golden_put(g, "paid_week1_u", paid1);
    golden_put(g, "paid_week2_u", paid2);
    golden_put(g, "carried_u", carried);
    return true;
}

bool golden_payout(struct golden *g)
{
    struct parties p = {0};

    if (golden_has(g, "weekly_u"))
        return weekly(g);
    if (golden_has(g, "week1_gross_u"))
        return clawback(g);
    if (!load_parties(g, &p))
        return false;
    return golden_has(g, "slices_u") ? split_slices(g, &p) : split_gross(g, &p);
}

/* ---- exchange ---- */

bool golden_fx(struct golden *g)
{
    int64_t src_u, n, d, spread_n = 0, spread_d = 1;
    const char *src, *dst;
    struct currency a, b;
    struct exchange e;
    char leg[2][64];

    if (golden_has(g, "price_u")) /* a price version in the account's own currency: plain rating */
        return golden_usage(g);
    if (!golden_text(g, g->in, "src", "", &src) || !golden_text(g, g->in, "dst", "", &dst) ||
        !golden_ok(g, currency_get(src, &a), "src") ||
        !golden_ok(g, currency_get(dst, &b), "dst") || !golden_i64(g, g->in, "src_u", &src_u) ||
        !golden_pair(g, g->in, "rate", &n, &d) ||
        (golden_has(g, "spread") && !golden_pair(g, g->in, "spread", &spread_n, &spread_d)) ||
        !golden_ok(g, exchange_compute(src_u, n, d, spread_n, spread_d, &e), "exchange"))
        return false;
    golden_put(g, "fee_u", e.fee_u);
    golden_put(g, "converted_src_u", e.converted_u);
    golden_put(g, "dst_u", e.dst_u);
    bool fits = str_printf(leg[0], sizeof(leg[0]), "%s:customer_in->fx.%s", a.code, a.code) &&
                str_printf(leg[1], sizeof(leg[1]), "%s:fx.%s->customer", b.code, b.code);
    CHECK(fits);
    golden_put_json(g, "legs", json_pack("[s,s]", leg[0], leg[1]));
    return true;
}
