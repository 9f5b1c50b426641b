/* The surcharge for having a node alone: a line, a hold and a window of its own, for the seconds of
 * the cards; without a price it is not sold. */
#include "../support/books.h"
#include "app/fund_source.h"

#define NOW(s) ((T0_S + (s)) * MS_PER_S)

static struct funds_lease alone(const char *lease, const char *instance, int32_t gpus)
{
    struct funds_lease l = lease_ask(lease, instance, gpus);

    l.shape.exclusive = true;
    l.disk_count = 0;
    return l;
}

static int64_t window_u(struct store *s, enum meter m, int64_t *ret_qty)
{
    struct window_list w = {0};
    int64_t u = 0;

    *ret_qty = 0;
    ok(money_window_all(s, &w));
    for (size_t i = 0; i < w.len; i++)
        if (w.at[i].meter == m) {
            u += w.at[i].rated_u;
            *ret_qty += w.at[i].qty;
        }
    vec_fini(&w);
    return u;
}

static void test_seconds_of_the_cards(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct funds_lease l = alone("lea_a", "ins_a", 2);
    struct refusal why = {0};
    struct funds_wallet wallet;
    struct funds_term t;
    int64_t qty, spent;

    ok(funds_lease_open(s, T0, TERM_S, &l, &t, &why));
    assert_int_equal(t.hold_u, (2 * 1980000 + 900000) / 6); /* both are held together */
    ok(funds_lease_ready(s, l.lease, T0 + 7000));
    (void)run_for(s, "lea_a", 1, 0, 337000);
    check_books(s, NOW(337));
    ok(funds_wallet(s, NOW(337), l.project, &wallet, &why));
    assert_int_equal(wallet.burn_hour_u, 2 * 1980000 + 900000); /* it warns in time */
    ok(funds_lease_settle(s, NOW(337), l.lease, NOW(337), false, &why));
    assert_int_equal(window_u(s, METER_NODE, &qty), 330 * 900000 / 3600);
    assert_int_equal(qty, 330); /* of one node, however many cards */
    assert_int_equal(window_u(s, METER_GPU, &qty), 660 * 1980000 / 3600);
    ok(funds_spent(s, l.instance, &spent));
    assert_int_equal(spent, 330 * (2 * 1980000 + 900000) / 3600);
    assert_int_equal(available(s, NOW(337)), 100000000 - spent);
    check_books(s, NOW(337));
    store_close(s);
}

static void test_quote_has_its_line(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct funds_lease l = alone("lea_a", "ins_a", 1);
    struct funds_ask ask = {.project = l.project, .shape = l.shape, .for_s = 7200};
    char text[FUNDS_QUOTE_SIZE];
    struct refusal why = {0};
    struct funds_quote q;
    utime_t until;

    ask.shape.system_disk_mib = 0;
    ok(funds_quote(s, T0, TERM_S, &ask, &q, &why));
    assert_int_equal(q.line_count, 2);
    assert_string_equal(q.lines[1].sku, "exclusive.gpu.RTX 4090");
    assert_int_equal(q.lines[1].amount_u, 1800000);
    assert_int_equal(q.hour_u, 1980000 + 900000);
    assert_int_equal(q.total_u, 2 * (1980000 + 900000));
    ok(funds_quote_sign(s, T0, &ask, &q, id_of("quo_a"), text, &until));
    ok(funds_quote_check(s, T0, text, &ask, &q, &why));
    ask.shape.exclusive = false; /* another thing */
    ok(funds_quote(s, T0, TERM_S, &ask, &q, &why));
    assert_int_equal(funds_quote_check(s, T0, text, &ask, &q, &why), ERR_QUOTE_INVALID);
    store_close(s);
}

/* Both together end the term: the joint second is the maximal one (T4). */
static void test_ends_with_the_money(void **state)
{
    (void)state;
    struct store *s = books_new(100 * 800 + 799); /* 550 and 250 a second */
    struct funds_lease l = alone("lea_a", "ins_a", 1);
    struct refusal why = {0};
    struct funds_term t;

    ok(funds_lease_open(s, T0, TERM_S, &l, &t, &why));
    assert_int_equal(t.paid_until, NOW(100));
    ok(funds_lease_ready(s, l.lease, T0));
    (void)run_for(s, "lea_a", 1, 0, 100000);
    ok(funds_lease_settle(s, NOW(100), l.lease, NOW(100), false, &why));
    assert_int_equal(available(s, NOW(100)), 799);
    check_books(s, NOW(100));
    store_close(s);
}

static void test_without_a_price_it_is_not_sold(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct funds_lease l = alone("lea_a", "ins_a", 1);
    struct refusal why = {0};
    struct funds_quote q;
    struct funds_term t;

    CHECK(str_copy(l.shape.gpu_model, sizeof(l.shape.gpu_model), "A100"));
    price_add(s, "prc_a100", "gpu.A100", 7200000, 3600, T0_S - 86400, T0_S - 86400);
    struct funds_ask ask = {.project = l.project, .shape = l.shape, .for_s = 7200};

    assert_int_equal(funds_quote(s, T0, TERM_S, &ask, &q, &why), ERR_PRICE_UNKNOWN);
    assert_string_equal(why.params[0].value, "exclusive.gpu.A100");
    assert_int_equal(funds_lease_open(s, T0, TERM_S, &l, &t, &why), ERR_PRICE_UNKNOWN);
    store_close(s);
}

/* A voucher for compute pays it; a rise of its price binds after its notice. */
static void test_voucher_and_rise(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct grant_row g = {.id = id_of("vou_a"),
                          .project = id_of("prj_one"),
                          .amount_u = 200 * 800,
                          .scope = 1u << METER_GPU | 1u << METER_CPU | 1u << METER_NODE,
                          .expires_s = T0_S + 86400,
                          .at = T0};
    struct funds_lease l = alone("lea_a", "ins_a", 1);
    struct refusal why = {0};
    struct funds_term t;
    struct books b;
    int64_t qty;

    ok(books_open(s, T0, id_of("prj_one"), &b, &why));
    ok(fund_grant(&b, &g, &why));
    ok(funds_lease_open(s, T0, TERM_S, &l, &t, &why));
    ok(funds_lease_ready(s, l.lease, T0));
    price_add(s, "prc_exc2", "exclusive.gpu.RTX 4090", 9000000, 3600, T0_S + 10, T0_S + 10);
    (void)run_for(s, "lea_a", 1, 0, 200000);
    ok(funds_lease_settle(s, NOW(200), l.lease, NOW(200), false, &why));
    assert_int_equal(window_u(s, METER_NODE, &qty), 200 * 250);
    ok(wallet_grant_get(s, g.id, &g));
    assert_int_equal(available(s, NOW(200)), 100000000);
    check_books(s, NOW(200));
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"it counts the seconds of the cards, once a node", test_seconds_of_the_cards, 0, 0, 0},
        {"a quote has its line, and is of it only", test_quote_has_its_line, 0, 0, 0},
        {"money ends both at the maximal second", test_ends_with_the_money, 0, 0, 0},
        {"without a price it is not sold", test_without_a_price_it_is_not_sold, 0, 0, 0},
        {"vouchers pay it, a rise waits for its notice", test_voucher_and_rise, 0, 0, 0},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
