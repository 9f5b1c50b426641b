/* P8 and the law of conversion, in the books: what is quoted is what is billed, whatever the prices
 * look like and whatever a plan covers; each second that runs is paid once, by its plan or by the
 * price that binds it, however late and in however many pieces its evidence comes. */
#include <stdio.h>

#include "../support/books.h"
#include "app/fund_source.h"
#include "app/funds_plan.h"
#include "app/funds_spot.h"
#include "app/supply.h"
#include "tape.h"

static struct store *base;

static bool books_hold(struct tape *t, utime_t now)
{
    struct funds_check c;
    struct refusal why = {0};

    TAPE_MUST(t, funds_check_run(base, now, &c, &why) == ERR_OK);
    for (size_t i = 0; i < c.n; i++)
        if (!c.rows[i].pass && !str_starts(c.rows[i].text, "not proven"))
            return tape_fail(t, "%s: %s", c.rows[i].id, c.rows[i].text);
    return true;
}

static enum err add_price(const char *id, const char *sku, const struct rate *r, int64_t from_s)
{
    struct price_row row = {.id = id_of(id),
                            .currency = "CNY",
                            .p = r->tiers[0].p,
                            .d = r->d,
                            .unit = "hour",
                            .unit_u = r->tiers[0].p,
                            .cap_u = r->cap_u,
                            .cap_qty = r->cap_qty,
                            .valid_from_s = from_s,
                            .announced_s = from_s,
                            .notice_s = PRICE_NOTICE_S};

    rate_tiers_write(r, row.tiers, sizeof(row.tiers));
    assert_true(str_copy(row.sku, sizeof(row.sku), sku));
    return money_price_add(base, &row);
}

static struct rate draw_rate(struct tape *t, int64_t d, int64_t quantity)
{
    struct rate r = {.d = d, .tier_count = 1};

    r.tiers[0] = (struct rate_tier){0, INT64_MAX, tape_range(t, 0, 9000000)};
    if (tape_chance(t, 40)) {
        r.tiers[0].to = tape_range(t, 1, quantity);
        r.tiers[1] = (struct rate_tier){r.tiers[0].to, INT64_MAX, tape_range(t, 0, 9000000)};
        r.tier_count = 2;
    }
    if (tape_chance(t, 30)) {
        r.cap_qty = tape_range(t, 1, quantity);
        r.cap_u = tape_range(t, 0, 90000000);
    }
    return r;
}

static struct books at(int64_t second)
{
    struct refusal why = {0};
    struct books b;

    ok(books_open(base, (T0_S + second) * MS_PER_S, id_of("prj_one"), &b, &why));
    return b;
}

static bool buy(struct tape *t, int64_t second, int64_t cards, struct plan_row *ret_p)
{
    struct books b = at(second);
    struct refusal why = {0};
    struct plan_ask ask = {.id = id_of("pln_a"),
                           .price = id_of("prc_pln"),
                           .instance = id_of("ins_a"),
                           .gpu = "RTX 4090",
                           .cards = cards,
                           .unit = CALENDAR_DAY};

    TAPE_MUST(t, plan_open(&b, &ask, ret_p, &why) == ERR_OK);
    TAPE_MUST(t, plan_rehold(&b, ret_p->instance, &why) == ERR_OK);
    TAPE_MUST(t, plan_pay(&b, ret_p, &ask.spender, &why) == ERR_OK);
    return true;
}

/* Evidence of [from, to) s of the life that began at T0, in pieces. */
static bool prove(struct tape *t, int64_t from_s, int64_t to_s, int64_t now_s, int64_t *io_seq)
{
    struct funds_accepted a;
    struct refusal why = {0};

    while (from_s < to_s) {
        int64_t end = MIN(to_s, from_s + tape_range(t, 1, 4000));
        struct funds_slice one = slice_of("lea_a", ++*io_seq, from_s * 1000, end * 1000);

        enum err e = slices_accept(base, (T0_S + now_s) * MS_PER_S, id_of("nod_one"), "boot1", T0,
                                   &one, 1, 0, &a, &why);
        if (e != ERR_OK)
            return tape_fail(t, "evidence: %s %s", err_code(e),
                             why.param_count ? why.params[0].value : "");
        from_s = end;
    }
    TAPE_MUST(t, funds_node_time(base, (T0_S + now_s) * MS_PER_S, id_of("nod_one"),
                                 (T0_S + to_s) * MS_PER_S, true) == ERR_OK);
    return true;
}

/* ---- P8 ---- */

static bool quote_and_live(struct tape *t)
{
    int64_t for_s = tape_range(t, 1, 20000), cost = 0, disk = 0, seq = 0;
    struct rate gpu = draw_rate(t, 3600, 8 * for_s), store = draw_rate(t, DISK_D, for_s << 15);
    struct funds_lease l = lease_ask("lea_a", "ins_a", (int32_t)tape_range(t, 0, 4));
    l.shape.exclusive = l.shape.gpu_count > 0 && tape_chance(t, 20);
    struct funds_ask ask = {.project = l.project, .instance = l.instance, .for_s = for_s};
    struct refusal why = {0};
    struct funds_quote q;
    struct funds_term term;
    struct plan_row plan;

    TAPE_MUST(t, add_price("prc_gpu2", "gpu.RTX 4090", &gpu, T0_S - 10) == ERR_OK);
    TAPE_MUST(t, add_price("prc_cpu2", "cpu.seat", &gpu, T0_S - 10) == ERR_OK);
    TAPE_MUST(t, add_price("prc_dsk2", "disk", &store, T0_S - 10) == ERR_OK);
    if (tape_chance(t, 50)) {
        if (!buy(t, -tape_range(t, 0, 86399), tape_range(t, 1, 4), &plan))
            return false;
    }
    l.ends_at = (T0_S + for_s) * MS_PER_S;
    ask.shape = l.shape;
    TAPE_MUST(t, funds_quote(base, T0, TERM_S, &ask, &q, &why) == ERR_OK);
    TAPE_MUST(t, funds_lease_open(base, T0, for_s, &l, &term, &why) == ERR_OK);
    TAPE_MUST(t, term.paid_until == l.ends_at);
    TAPE_MUST(t, funds_lease_ready(base, l.lease, T0) == ERR_OK);
    if (!prove(t, 0, for_s, for_s, &seq))
        return false;
    TAPE_MUST(t, funds_lease_settle(base, l.ends_at, l.lease, l.ends_at, false, &why) == ERR_OK);
    TAPE_MUST(t, funds_spent(base, l.instance, &cost) == ERR_OK);
    (void)disk;
    if (cost != q.total_u)
        return tape_fail(t, "quoted %" PRId64 ", billed %" PRId64, q.total_u, cost);
    return books_hold(t, l.ends_at);
}

static bool law_quote(struct tape *t)
{
    TAPE_MUST(t, store_begin(base) == ERR_OK);
    bool held = quote_and_live(t);
    store_rollback(base);
    return held;
}

/* ---- conversion ---- */

struct life {
    int64_t whole_s, cards;
    int64_t convert_s, release_s; /* > whole_s: it is not */
    int64_t cut_s;                /* a lower price from here on */
    int64_t p1, p2;
    bool late; /* all evidence comes at the end */
};

/* ⌊P·Q/D⌋ of each price for the seconds that no plan covers. */
static int64_t oracle(const struct life *x)
{
    int64_t seconds[2] = {0, 0};

    for (int64_t s = 0; s < x->whole_s; s++)
        if (s < x->convert_s || s >= x->release_s)
            seconds[s >= x->cut_s]++;
    return x->p1 * seconds[0] * x->cards / 3600 + x->p2 * seconds[1] * x->cards / 3600;
}

static bool happen(struct tape *t, const struct life *x, int64_t s, struct plan_row *plan,
                   struct plan_back *back)
{
    struct refusal why = {0};
    struct books b = at(s);

    if (s == x->cut_s) {
        struct rate r;

        TAPE_MUST(t, rate_flat((struct price_rate){x->p2, 3600}, &r) == ERR_OK);
        TAPE_MUST(t, add_price("prc_gpu3", "gpu.RTX 4090", &r, T0_S + s) == ERR_OK);
    }
    if (s == x->convert_s && !buy(t, s, x->cards, plan))
        return false;
    if (s == x->release_s && s > x->convert_s)
        TAPE_MUST(t, plan_release(&b, plan, false, back, &why) == ERR_OK);
    return books_hold(t, (T0_S + s) * MS_PER_S);
}

static bool live(struct tape *t, const struct life *x)
{
    struct funds_lease l = lease_ask("lea_a", "ins_a", (int32_t)x->cards);
    struct refusal why = {0};
    struct plan_row plan = {0};
    struct plan_back back = {0};
    struct funds_term term;
    int64_t seq = 0, proven = 0, cost = 0, end_ms = (T0_S + x->whole_s) * MS_PER_S;
    struct rate r;

    l.disk_count = 0;
    TAPE_MUST(t, rate_flat((struct price_rate){x->p1, 3600}, &r) == ERR_OK);
    TAPE_MUST(t, add_price("prc_gpu2", "gpu.RTX 4090", &r, T0_S - 10) == ERR_OK);
    TAPE_MUST(t, funds_lease_open(base, T0, x->whole_s, &l, &term, &why) == ERR_OK);
    TAPE_MUST(t, funds_lease_ready(base, l.lease, T0) == ERR_OK);
    for (int64_t s = 1; s < x->whole_s; s++) {
        if (s != x->cut_s && s != x->convert_s && s != x->release_s)
            continue;
        if (!x->late) {
            if (!prove(t, proven, s, s, &seq))
                return false;
            proven = s;
        }
        if (!happen(t, x, s, &plan, &back))
            return false;
    }
    if (!prove(t, proven, x->whole_s, x->whole_s, &seq))
        return false;
    TAPE_MUST(t, funds_lease_settle(base, end_ms, l.lease, end_ms, false, &why) == ERR_OK);
    TAPE_MUST(t, funds_spent(base, l.instance, &cost) == ERR_OK);
    if (cost != oracle(x))
        return tape_fail(t, "charged %" PRId64 ", the rule says %" PRId64, cost, oracle(x));
    TAPE_MUST(t, back.consumed_u + back.refund_u + back.lapsed_u ==
                     (plan.state == PLAN_RELEASED ? plan.paid_u : 0));
    return books_hold(t, end_ms);
}

static bool law_conversion(struct tape *t)
{
    struct life x = {.whole_s = tape_range(t, 2, 9000),
                     .cards = tape_range(t, 1, 4),
                     .p1 = tape_range(t, 1, 9000000),
                     .late = tape_chance(t, 50)};

    x.convert_s = tape_range(t, 1, x.whole_s);
    x.release_s = tape_chance(t, 50) ? tape_range(t, x.convert_s + 1, x.whole_s + 1) : INT64_MAX;
    x.cut_s = tape_chance(t, 50) ? tape_range(t, 1, x.whole_s) : INT64_MAX;
    x.p2 = tape_range(t, 0, x.p1 - 1);
    TAPE_MUST(t, store_begin(base) == ERR_OK);
    bool held = live(t, &x);
    store_rollback(base);
    return held;
}

/* ---- spot ---- */

#define TICKS_MAX 8
struct market {
    struct spot_tick at[TICKS_MAX];
    size_t n;
    struct price_rate bid;
};

/* ⌊P·Q/D⌋ per price version; seconds above the bid are one version more. */
static int64_t spot_oracle(const struct market *m, int64_t whole_s, int64_t cards)
{
    int64_t seconds[TICKS_MAX + 1] = {0}, sum = 0;

    for (int64_t s = 0; s < whole_s; s++) {
        size_t k = 0;
        while (k + 1 < m->n && m->at[k + 1].at_s <= T0_S + s)
            k++;
        seconds[m->at[k].price.p > m->bid.p ? TICKS_MAX : k]++;
    }
    for (size_t k = 0; k < m->n; k++)
        sum += m->at[k].price.p * seconds[k] * cards / 3600;
    return sum + m->bid.p * seconds[TICKS_MAX] * cards / 3600;
}

static bool add_tick(struct tape *t, struct market *m, int64_t second)
{
    struct spot_tick *x = &m->at[m->n];
    struct rate r;

    *x = (struct spot_tick){.at_s = T0_S + second, .price = {tape_range(t, 0, 9000000), 3600}};
    if (m->n == 0)
        x->price.p = MIN(x->price.p, m->bid.p);
    TAPE_MUST(t, rate_flat(x->price, &r) == ERR_OK);
    struct price_row row = {.sku = "spot.gpu.RTX 4090",
                            .currency = "CNY",
                            .p = x->price.p,
                            .d = 3600,
                            .unit = "hour",
                            .valid_from_s = x->at_s,
                            .announced_s = x->at_s};
    assert_true(str_printf(row.id.s, ID_SIZE, "prc_tick%zu", m->n));
    m->n++;
    TAPE_MUST(t, money_price_add(base, &row) == ERR_OK);
    return true;
}

/* Who pays for the run and who earns by it. */
struct parties {
    struct grant_row grant;
    struct supplier x;
};

static bool parties_add(struct tape *t, struct parties *w)
{
    struct refusal why = {0};
    struct books b = at(0);

    *w = (struct parties){.grant = {.id = id_of("vou_a"),
                                    .project = b.project,
                                    .amount_u = tape_range(t, 1, 9000000),
                                    .expires_s = T0_S + tape_range(t, 1, 6000),
                                    .at = T0},
                          .x = {.id = id_of("sup_one"),
                                .name = "one",
                                .user = id_of("usr_one"),
                                .share_n = tape_range(t, 0, 100),
                                .share_d = 100,
                                .created_at = T0}};
    TAPE_MUST(t, fund_grant(&b, &w->grant, &why) == ERR_OK);
    TAPE_MUST(t, supply_save(base, &w->x) == ERR_OK);
    TAPE_MUST(t, supply_node_set(base, id_of("nod_one"), w->x.id, T0) == ERR_OK);
    return true;
}

static int64_t balance_of(const char *account)
{
    struct ledger_account a;
    struct books b = at(0);

    ok(account_load(base, account, b.ccy, &a));
    return ledger_balance(&a);
}

/* What was charged in the end was paid, and the rest is where it came from: the voucher, or what
 * lapsed of it, and the cash. The supplier has his share of each window, rounded down. */
static bool parties_even(struct tape *t, struct parties *w, int64_t end_s, int64_t cash_u,
                         int64_t cost_u)
{
    utime_t now = (T0_S + end_s) * MS_PER_S;
    struct window_list windows = {0};
    struct supply_balance had;
    struct refusal why = {0};
    int64_t paid_u, want = 0;

    TAPE_MUST(t, fund_lapse(base, now + FUND_LAPSE_AFTER_S * MS_PER_S, &why) == ERR_OK);
    int64_t voucher_u = balance_of("voucher.vou_a") + balance_of("breakage.CNY");
    TAPE_MUST(t, voucher_u <= w->grant.amount_u);
    TAPE_MUST(t, w->grant.expires_s > T0_S + end_s || balance_of("voucher.vou_a") == 0);
    paid_u = cash_u - balance_of("cash.prj_one") + w->grant.amount_u - voucher_u;
    if (paid_u != cost_u)
        return tape_fail(t, "paid %" PRId64 " of %" PRId64, paid_u, cost_u);
    TAPE_MUST(t, supply_share(base, now, &why) == ERR_OK);
    TAPE_MUST(t, supply_balance(base, now, &w->x, "CNY", &had) == ERR_OK);
    TAPE_MUST(t, money_window_all(base, &windows) == ERR_OK);
    for (size_t i = 0; i < windows.len; i++)
        want += (windows.at[i].posted_u - windows.at[i].reversed_u) * w->x.share_n / 100;
    vec_fini(&windows);
    TAPE_MUST(t, had.held_u + had.payable_u == want);
    return true;
}

static bool spot_live(struct tape *t)
{
    struct market m = {.bid = {tape_range(t, 1, 9000000), 3600}};
    struct funds_lease l = lease_ask("lea_a", "ins_a", (int32_t)tape_range(t, 1, 4));
    struct spot_ask ask = {
        .instance = l.instance, .price = id_of("prc_bid"), .gpu = "RTX 4090", .bid_u = m.bid.p};
    int64_t whole_s = tape_length(t, 4000), now = 0, proven = 0, seq = 0, cost;
    struct refusal why = {0};
    struct funds_term term;
    struct books b = at(0);

    struct parties w;
    int64_t cash_u = balance_of("cash.prj_one");

    l.disk_count = 0;
    l.spot = true;
    if (!add_tick(t, &m, -100) || !parties_add(t, &w))
        return false;
    TAPE_MUST(t, spot_bid_set(&b, &ask, &why) == ERR_OK);
    TAPE_MUST(t, funds_lease_open(base, T0, TERM_S, &l, &term, &why) == ERR_OK);
    TAPE_MUST(t, funds_lease_ready(base, l.lease, T0) == ERR_OK);
    while (now < whole_s) {
        now = MIN(whole_s, now + tape_range(t, 1, 299));
        if (now < whole_s && m.n < TICKS_MAX && tape_chance(t, 40) && !add_tick(t, &m, now))
            return false;
        if (tape_chance(t, 50)) {
            if (!prove(t, proven, now, now, &seq))
                return false;
            proven = now;
        }
        TAPE_MUST(t, funds_lease_renew(base, (T0_S + now) * MS_PER_S, TERM_S, l.lease, &term,
                                       &why) == ERR_OK);
        TAPE_MUST(t, fund_lapse(base, (T0_S + now) * MS_PER_S, &why) == ERR_OK);
        if (tape_chance(t, 20))
            TAPE_MUST(t, supply_share(base, (T0_S + now) * MS_PER_S, &why) == ERR_OK);
        if (tape_moment(t) && !books_hold(t, (T0_S + now) * MS_PER_S))
            return false;
    }
    if (!prove(t, proven, whole_s, whole_s, &seq))
        return false;
    bool taken = tape_chance(t, 50);
    struct reclaim_row back = {.lease = l.lease,
                               .instance = l.instance,
                               .decided_ms = (T0_S + whole_s) * MS_PER_S,
                               .ends_ms = (T0_S + whole_s) * MS_PER_S,
                               .free_within_s = tape_range(t, 0, 4000)};
    if (taken)
        TAPE_MUST(t, reclaim_row_save(base, &back) == ERR_OK);
    TAPE_MUST(t, funds_lease_settle(base, (T0_S + whole_s) * MS_PER_S, l.lease,
                                    (T0_S + whole_s) * MS_PER_S, taken, &why) == ERR_OK);
    TAPE_MUST(t, funds_spent(base, l.instance, &cost) == ERR_OK);
    int64_t want = spot_oracle(&m, whole_s, l.shape.gpu_count);
    if (taken && whole_s <= back.free_within_s)
        want = 0;
    if (cost != want)
        return tape_fail(t, "charged %" PRId64 ", the rule says %" PRId64, cost, want);
    return parties_even(t, &w, whole_s, cash_u, cost) && books_hold(t, (T0_S + whole_s) * MS_PER_S);
}

static bool law_spot(struct tape *t)
{
    TAPE_MUST(t, store_begin(base) == ERR_OK);
    bool held = spot_live(t);
    store_rollback(base);
    return held;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"P8 what is quoted is what is billed", law_quote, 2},
        {"each second is paid once, by its plan or its price", law_conversion, 2},
        {"a second at the spot price costs min(tick, bid), a run taken back in time nothing",
         law_spot, 1},
    };
    struct price_row offer = {.id = {"prc_day"},
                              .sku = "plan.day.gpu.RTX 4090",
                              .currency = "CNY",
                              .p = 40000000,
                              .d = 1,
                              .unit = "day",
                              .unit_u = 40000000,
                              .policy = PLAN_CLAWBACK,
                              .fee_pct = 20,
                              .valid_from_s = T0_S - 200000,
                              .announced_s = T0_S - 200000};

    base = books_new(INT64_C(100000000000));
    ok(money_price_add(base, &offer));
    int rc = tape_main(tests, ARRAY_LEN(tests), argc, argv);
    store_close(base);
    return rc;
}
