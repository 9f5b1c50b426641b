/* The spot price in the books: a second costs min(tick, bid), ticks come while it runs, the hold is
 * made for the bid. Examples B29 and B31 of the golden rows, live. */
#include "../support/books.h"
#include "app/funds_spot.h"

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
        {"no price, a low bid, and what is held", test_refused, 0, 0, 0},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
