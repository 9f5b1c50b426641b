/* A channel's file against the books, line by line; and paying in another currency. */
#include "../support/books.h"
#include "app/clearing.h"

static void a_line_is_read_or_refused_whole(void **state)
{
    (void)state;
    struct payment_line l;

    assert_true(clearing_parse("pay-1,ord_a,payment,100.00,CNY,2026-03-01T08:00:00Z", &l));
    assert_string_equal(l.reference, "pay-1");
    assert_string_equal(l.order_id, "ord_a");
    assert_int_equal(l.kind, LINE_PAYMENT);
    assert_int_equal(l.amount_u, 100000000);
    assert_int_equal(l.at, T0 + 8 * 3600 * 1000);
    assert_true(clearing_parse("pay-1,,refund,7,JPY,1772323200", &l));
    assert_int_equal(l.kind, LINE_REFUND);
    assert_int_equal(l.amount_u, 7000000);
    assert_int_equal(l.at, T0);
    static const char *const bad[] = {
        "",
        "pay-1",
        ",ord,payment,1.00,CNY,1",
        "p,o,gift,1.00,CNY,1",
        "p,o,payment,1.001,CNY,1",
        "p,o,payment,-1.00,CNY,1",
        "p,o,payment,0,CNY,1",
        "p,o,payment,0.5,JPY,1",
        "p,o,payment,1.00,XYZ,1",
        "p,o,payment,1.00,CNY,soon",
        "p,o,payment,1.00,CNY,1026-03-01T08:00:00Z",
        "p,o,payment,1.00,CNY,1,more",
        "p,o,payment,99999999999999999999,CNY,1",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(clearing_parse(bad[i], &l));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_line_is_read_or_refused_whole),
};
RUN_TESTS(tests)
