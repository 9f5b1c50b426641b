/* The spot price in the books: a second costs min(tick, bid), ticks come while it runs, the hold is
 * made for the bid. Examples B29 and B31 of the golden rows, live. */
#include "../support/books.h"
#include "app/close.h"
#include "app/fund_source.h"
#include "app/funds_spot.h"
#include "app/supply.h"
#include "store/rows_plan.h"

#define NOW(s) ((T0_S + (s)) * MS_PER_S)

static void tick(struct store *s, const char *id, int64_t p, int64_t at_s)
{
    struct price_row r = {.id = id_of(id),
                          .sku = "spot.gpu.RTX 4090",
                          .currency = "CNY",
                          .p = p,
                          .d = 3600,
                          .unit = "hour",
                          .unit_u = p,
                          .valid_from_s = T0_S + at_s,
                          .announced_s = T0_S + at_s};

    ok(money_price_add(s, &r));
}

static enum err bid(struct store *s, const char *instance, int64_t u)
{
    struct spot_ask ask = {.instance = id_of(instance), .gpu = "RTX 4090", .bid_u = u};
    struct refusal why = {0};
    struct books b;

    assert_true(str_printf(ask.price.s, ID_SIZE, "prc_%s", instance));
    ok(books_open(s, T0, id_of("prj_one"), &b, &why));
    return spot_bid_set(&b, &ask, &why);
}

static struct funds_lease run(struct store *s, const char *lease, const char *instance,
                              int64_t term_s)
{
    struct funds_lease l = lease_ask(lease, instance, 1);
    struct refusal why = {0};
    struct funds_term t;

    l.spot = true;
    l.disk_count = 0;
    ok(funds_lease_open(s, T0, term_s, &l, &t, &why));
    assert_int_equal(t.paid_until, NOW(term_s));
    ok(funds_lease_ready(s, l.lease, T0));
    return l;
}

static int64_t part(struct store *s, const char *price)
{
    struct window_list w = {0};
    int64_t u = -1;

    ok(money_window_all(s, &w));
    for (size_t i = 0; i < w.len; i++)
        if (str_eq(w.at[i].price.s, price)) {
            assert_string_equal(w.at[i].subject.s, "lea_a");
            u = w.at[i].rated_u;
        }
    vec_fini(&w);
    return u;
}

static void test_ticks(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct refusal why = {0};
    int64_t cost;

    tick(s, "prc_t1", 12000000, -5);
    ok(bid(s, "ins_a", 20000000));
    struct funds_lease l = run(s, "lea_a", "ins_a", 3600);
    int64_t seq = run_for(s, "lea_a", 1, 0, 1200000);
    tick(s, "prc_t2", 13500000, 1200); /* binds what runs at once */
    (void)run_for(s, "lea_a", seq, 1200000, 2730000);
    check_books(s, NOW(2730));
    ok(funds_lease_settle(s, NOW(2730), l.lease, NOW(2730), false, &why));
    assert_int_equal(part(s, "prc_t1"), 4000000);
    assert_int_equal(part(s, "prc_t2"), 5737500);
    ok(funds_spent(s, l.instance, &cost));
    assert_int_equal(cost, 9737500);
    check_books(s, NOW(2730));
    store_close(s);
}

static void test_bid(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct refusal why = {0};
    int64_t run_u, stopped_u;

    tick(s, "prc_t1", 13500000, -5);
    assert_int_equal(bid(s, "ins_a", 13000000), ERR_BID_LOW);
    assert_int_equal(bid(s, "ins_a", 0), ERR_BID_LOW); /* the on-demand price is 1.98 */
    ok(bid(s, "ins_a", 14000000));
    struct funds_lease l = run(s, "lea_a", "ins_a", 3720);
    tick(s, "prc_t2", 16000000, 3600);
    ok(funds_rates(s, NOW(10), l.project, l.instance, &l.shape, NULL, 0, &run_u, &stopped_u, &why));
    assert_int_equal(run_u, 13500000);
    (void)run_for(s, "lea_a", 1, 0, 3720000);
    check_books(s, NOW(3720));
    ok(funds_lease_settle(s, NOW(3720), l.lease, NOW(3720), true, &why));
    assert_int_equal(part(s, "prc_t1"), 13500000);
    assert_int_equal(part(s, "prc_ins_a"), 466666);
    assert_int_equal(part(s, "prc_t2"), -1);
    check_books(s, NOW(3720));
    store_close(s);
}

/* The platform took the run back at that second: it ends by it. */
static void reclaim(struct store *s, const char *lease, int64_t at_s, int64_t free_within_s)
{
    struct reclaim_row r = {.lease = id_of(lease),
                            .instance = id_of("ins_a"),
                            .decided_ms = NOW(at_s),
                            .ends_ms = NOW(at_s),
                            .free_within_s = free_within_s};

    ok(reclaim_row_save(s, &r));
}

static int64_t spent(struct store *s)
{
    int64_t u;

    ok(funds_spent(s, id_of("ins_a"), &u));
    return u;
}

/* Runs ins_a over [0, whole_s) with the ticks of B29 and B30, takes it back at whole_s. */
static void reclaimed_run(struct store *s, int64_t whole_s, int64_t free_within_s)
{
    struct refusal why = {0};

    tick(s, "prc_t1", 12000000, -5);
    ok(bid(s, "ins_a", 20000000));
    struct funds_lease l = run(s, "lea_a", "ins_a", 3600);
    int64_t seq = run_for(s, "lea_a", 1, 0, 1200000);
    tick(s, "prc_t2", 13500000, 1200);
    (void)run_for(s, "lea_a", seq, 1200000, whole_s * MS_PER_S);
    reclaim(s, "lea_a", whole_s, free_within_s);
    ok(funds_lease_settle(s, NOW(whole_s), l.lease, NOW(whole_s), true, &why));
    check_books(s, NOW(whole_s));
}

static void test_reclaimed_in_time_costs_nothing(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);

    reclaimed_run(s, 2730, 3600);
    assert_int_equal(part(s, "prc_t1"), 4000000); /* what was used stays said */
    assert_int_equal(part(s, "prc_t2"), 5737500);
    assert_int_equal(spent(s), 0);
    assert_int_equal(available(s, NOW(2730)), 100000000);
    struct refusal why = {0}; /* settled again: nothing more comes back */
    ok(funds_lease_settle(s, NOW(2740), id_of("lea_a"), NOW(2740), true, &why));
    assert_int_equal(available(s, NOW(2740)), 100000000);
    store_close(s);
}

static void test_reclaimed_late_is_billed(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);

    reclaimed_run(s, 2730, 2729);
    assert_int_equal(spent(s), 9737500);
    store_close(s);
    s = books_new(100000000);
    reclaimed_run(s, 2730, 2730); /* to the second */
    assert_int_equal(spent(s), 0);
    store_close(s);
}

/* 5.00, for 2,000 s from now. */
static void voucher(const struct books *b)
{
    struct grant_row g = {.id = id_of("vou_a"),
                          .project = b->project,
                          .amount_u = 5000000,
                          .expires_s = T0_S + 2000,
                          .at = T0};
    struct refusal why = {0};

    ok(fund_grant(b, &g, &why));
}

/* Back to where it came from; a voucher that ended meanwhile lapses, and no cash is made of it. */
static void test_goes_back_to_its_sources(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct refusal why = {0};
    struct ledger_account a;
    int64_t counted_u = -1;
    struct books b;

    ok(books_open(s, T0, id_of("prj_one"), &b, &why));
    voucher(&b);
    reclaimed_run(s, 2730, 3600);
    ok(account_load(s, "voucher.vou_a", b.ccy, &a));
    assert_int_equal(ledger_balance(&a), 5000000);
    ok(money_scope_day_sum(s, &(struct budget_row){.project = b.project}, T0_S - DAY_S,
                           T0_S + DAY_S, &counted_u));
    assert_int_equal(counted_u, 0); /* budgets count it no more */
    ok(account_load(s, "cash.prj_one", b.ccy, &a));
    assert_int_equal(ledger_balance(&a), 100000000);
    ok(fund_lapse(s, NOW(2730), &why));
    ok(account_load(s, "voucher.vou_a", b.ccy, &a));
    assert_int_equal(ledger_balance(&a), 0);
    ok(account_load(s, "breakage.CNY", b.ccy, &a));
    assert_int_equal(ledger_balance(&a), 5000000);
    check_books(s, NOW(2730));
    store_close(s);
}

/* The voucher lapsed, the credit line was paid back while the run was not settled yet. */
static void test_goes_back_after_they_changed(void **state)
{
    (void)state;
    struct store *s = books_new(0);
    struct refusal why = {0};
    struct ledger_account a;
    struct funds_term term;
    struct books b;

    ok(books_open(s, T0, id_of("prj_one"), &b, &why));
    ok(fund_credit_set(&b, 50000000, &why));
    voucher(&b);
    tick(s, "prc_t1", 12000000, -5);
    ok(bid(s, "ins_a", 20000000));
    struct funds_lease l = run(s, "lea_a", "ins_a", 1900);
    int64_t seq = run_for(s, "lea_a", 1, 0, 1800000);
    ok(funds_lease_renew(s, NOW(1800), 1000, l.lease, &term, &why));
    seq = run_for(s, "lea_a", seq, 1800000, 2700000);
    ok(funds_lease_renew(s, NOW(2700), 1000, l.lease, &term, &why));
    (void)run_for(s, "lea_a", seq, 2700000, 2730000);
    ok(fund_lapse(s, NOW(2730), &why));
    topup(s, NOW(2730), "tra_late", 30000000);
    reclaim(s, "lea_a", 2730, 3600);
    ok(funds_lease_settle(s, NOW(2730), l.lease, NOW(2730), true, &why));
    check_books(s, NOW(2730));
    ok(fund_lapse(s, NOW(2731), &why));
    ok(account_load(s, "voucher.vou_a", b.ccy, &a));
    assert_int_equal(ledger_balance(&a), 0);
    ok(account_load(s, "credit.prj_one", b.ccy, &a));
    assert_int_equal(ledger_balance(&a), 0); /* nothing is used, nothing more than lent */
    ok(account_load(s, "cash.prj_one", b.ccy, &a));
    assert_int_equal(ledger_balance(&a), 30000000);
    assert_int_equal(spent(s), 0);
    check_books(s, NOW(2731));
    store_close(s);
}

#define MARCH_END_S (31 * DAY_S - 8 * 3600) /* after T0: 2026-04-01 in Shanghai */

/* A run that is ready ten minutes before the month's end and was heard for heard_s; all that it cost
 * is posted. */
static struct store *night_run(int64_t heard_s, int64_t free_within_s)
{
    struct spot_ask ask = {.instance = id_of("ins_a"),
                           .price = id_of("prc_ins_a"),
                           .gpu = "RTX 4090",
                           .bid_u = 20000000,
                           .free_within_s = free_within_s};
    struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    int64_t at = MARCH_END_S - 600;
    struct refusal why = {0};
    struct funds_term t;
    struct books b;
    struct rating disk = {.subject = id_of("dsk_kept"), /* 0.70 for a day */
                          .meter = METER_DISK_DETACHED,
                          .sku = "disk.detached",
                          .started_s = T0_S,
                          .qty_per_s = 102400};

    tick(s, "prc_t1", 12000000, -5);
    ok(books_open(s, NOW(DAY_S), id_of("prj_one"), &b, &why));
    ok(rating_add(&b, &disk, T0_S, T0_S + DAY_S, &why));
    ok(books_open(s, T0, id_of("prj_one"), &b, &why));
    ok(spot_bid_set(&b, &ask, &why));
    l.spot = true;
    l.disk_count = 0;
    ok(funds_lease_open(s, NOW(at), TERM_S, &l, &t, &why));
    ok(funds_lease_ready(s, l.lease, NOW(at)));
    (void)run_for(s, "lea_a", 1, at * MS_PER_S, (at + heard_s) * MS_PER_S);
    ok(funds_lease_renew(s, NOW(at + heard_s), TERM_S, l.lease, &t, &why));
    return s;
}

static struct close_result close_march(struct store *s)
{
    struct close_result r;
    struct refusal why = {0};

    ok(close_next(s, NOW(MARCH_END_S + 72 * 3600), id_of("prj_one"), &r, &why));
    return r;
}

/* A closed month never changes: it is not closed while a run of it may still turn out to be free,
 * decided or not, heard of or not. */
static void test_the_month_waits_for_it(void **state)
{
    (void)state;
    static const int64_t heard_s[] = {300, 0};

    for (size_t k = 0; k < ARRAY_LEN(heard_s); k++) {
        AUTO_STORE struct store *s = night_run(heard_s[k], 3600);
        utime_t at = NOW(MARCH_END_S + 72 * 3600);
        struct refusal why = {0};

        struct close_result r = close_march(s);
        assert_int_equal(r.what, CLOSE_WAITS);
        assert_string_equal(r.waits, "lea_a");
        reclaim(s, "lea_a", MARCH_END_S + 72 * 3600, 3600);
        assert_int_equal(close_march(s).what, CLOSE_WAITS);
        ok(funds_lease_settle(s, at, id_of("lea_a"), at, true, &why));
        r = close_march(s);
        assert_int_equal(r.what, CLOSE_DONE);
        assert_int_equal(r.statement.line_count, heard_s[k] ? 3 : 1);
        assert_int_equal(r.statement.total_u, 700000); /* its disk */
        assert_int_equal(available(s, at), 99300000);
        check_books(s, at);
    }
}

static void test_the_month_waits_no_longer(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = night_run(300, 299); /* it will be billed whatever comes */

    struct close_result r = close_march(s);
    assert_int_equal(r.what, CLOSE_DONE);
    assert_int_equal(r.statement.total_u, 1700000);
}

/* A machine's supplier gives its share back, also when it was paid out already. */
static void test_the_supplier_gives_it_back(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct supplier x = {.id = id_of("sup_one"),
                         .name = "one",
                         .user = id_of("usr_one"),
                         .share_n = 80,
                         .share_d = 99,
                         .created_at = T0};
    struct supply_balance had;
    struct refusal why = {0};
    struct payout p;

    ok(supply_save(s, &x));
    ok(supply_node_set(s, id_of("nod_one"), x.id, T0));
    tick(s, "prc_t1", 12000000, -5);
    ok(bid(s, "ins_a", 20000000));
    struct funds_lease l = run(s, "lea_a", "ins_a", 1800);
    struct funds_term t;
    (void)run_for(s, "lea_a", 1, 0, 1300000);
    ok(funds_lease_renew(s, NOW(1300), 1000, l.lease, &t, &why));
    ok(supply_share(s, NOW(1300), &why));
    ok(supply_share(s, NOW(2 * DAY_S), &why));
    ok(supply_payout(s, NOW(2 * DAY_S), &x, "CNY", id_of("pay_1"), &p, &why));
    assert_int_equal(p.amount_u, INT64_C(4333333) * 80 / 99 / 10000 * 10000);
    reclaim(s, "lea_a", 1300, 3600);
    ok(funds_lease_settle(s, NOW(2 * DAY_S), l.lease, NOW(1300), true, &why));
    ok(supply_share(s, NOW(2 * DAY_S + 1), &why));
    ok(supply_share(s, NOW(4 * DAY_S), &why));
    ok(supply_balance(s, NOW(4 * DAY_S), &x, "CNY", &had));
    assert_int_equal(had.held_u, 0);
    assert_int_equal(had.payable_u, -p.amount_u); /* once */
    assert_int_equal(spent(s), 0);
    check_books(s, NOW(4 * DAY_S));
}

/* Without a spot price there is none; the wallet must hold the bid, not the tick. */
static void test_refused(void **state)
{
    (void)state;
    struct store *s = books_new(1000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_ask ask = {.project = l.project, .shape = l.shape, .spot = true, .for_s = 600};
    struct refusal why = {0};
    struct funds_quote q;

    ask.shape.system_disk_mib = 0;
    assert_int_equal(bid(s, "ins_a", 1), ERR_PRICE_UNKNOWN);
    assert_int_equal(funds_quote(s, T0, TERM_S, &ask, &q, &why), ERR_PRICE_UNKNOWN);
    tick(s, "prc_t1", 600000, -5);
    ok(funds_quote(s, T0, TERM_S, &ask, &q, &why));
    assert_int_equal(q.bid_u, 1980000);
    assert_int_equal(q.total_u, 100000);
    assert_int_equal(q.hold_u, 600 * 552); /* 550 a second, and what windows keep back */
    ask.bid_u = 500000;
    assert_int_equal(funds_quote(s, T0, TERM_S, &ask, &q, &why), ERR_BID_LOW);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"each second costs its tick", test_ticks, 0, 0, 0},
        {"no second costs more than the bid", test_bid, 0, 0, 0},
        {"reclaimed within its free time it costs nothing", test_reclaimed_in_time_costs_nothing, 0, 0,
         0},
        {"reclaimed after it, it is billed", test_reclaimed_late_is_billed, 0, 0, 0},
        {"what is given back goes where it came from", test_goes_back_to_its_sources, 0, 0, 0},
        {"also when that lapsed or was paid back meanwhile", test_goes_back_after_they_changed, 0, 0,
         0},
        {"a month waits for a run that may be free", test_the_month_waits_for_it, 0, 0, 0},
        {"and for none that is not", test_the_month_waits_no_longer, 0, 0, 0},
        {"its supplier gives the share back", test_the_supplier_gives_it_back, 0, 0, 0},
        {"no price, a low bid, and what is held", test_refused, 0, 0, 0},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
