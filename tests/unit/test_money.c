#include "../support/tap.h"

#include <stdio.h>

#include "base/sha256.h"
#include "base/str.h"
#include "domain/money.h"
#include "domain/rate.h"

static struct currency ccy(const char *code)
{
    struct currency c;

    assert_int_equal(currency_get(code, &c), ERR_OK);
    return c;
}

static void currencies_have_their_digits(void **state)
{
    struct currency c;

    (void)state;
    assert_int_equal(currency_minor_u(ccy("CNY")), 10000);
    assert_int_equal(currency_minor_u(ccy("JPY")), 1000000);
    assert_int_equal(currency_minor_u(ccy("KWD")), 1000);
    assert_int_equal(currency_minor_u(ccy("BHD")), 1000);
    assert_int_equal(currency_minor_u(ccy("CLF")), 100);
    assert_int_equal(currency_get("ZZZ", &c), ERR_CURRENCY);
    assert_int_equal(currency_get("cny", &c), ERR_CURRENCY);
    assert_int_equal(currency_get("", &c), ERR_CURRENCY);
}

static void amounts_of_two_currencies_do_not_mix(void **state)
{
    struct money m;

    (void)state;
    assert_int_equal(money_add(money_of(1, ccy("CNY")), money_of(1, ccy("USD")), &m), ERR_CURRENCY);
    assert_int_equal(money_sub(money_of(1, ccy("CNY")), money_of(1, ccy("USD")), &m), ERR_CURRENCY);
}

static void sums_that_do_not_fit_are_refused(void **state)
{
    struct currency c = ccy("CNY");
    struct money m = money_of(7, c);
    int64_t u = 7;

    (void)state;
    assert_int_equal(money_add(money_of(INT64_MAX, c), money_of(1, c), &m), ERR_MONEY_RANGE);
    assert_int_equal(money_sub(money_of(INT64_MIN, c), money_of(1, c), &m), ERR_MONEY_RANGE);
    assert_int_equal(money_neg(money_of(INT64_MIN, c), &m), ERR_MONEY_RANGE);
    assert_int_equal(money_from_minor(INT64_MAX, c, &m), ERR_MONEY_RANGE);
    assert_int_equal(m.u, 7); /* results are set only on success */
    assert_int_equal(micro_mul_div(INT64_MAX, 2, 1, &u), ERR_MONEY_RANGE);
    assert_int_equal(micro_mul_div(1, 1, 0, &u), ERR_MONEY_RANGE);
    assert_int_equal(u, 7);
    assert_int_equal(micro_mul_div(INT64_MAX, INT64_MAX, INT64_MAX, &u), ERR_OK);
    assert_int_equal(u, INT64_MAX);
    assert_int_equal(micro_mul_div(-7, 1, 2, &u), ERR_OK);
    assert_int_equal(u, -4); /* mathematical floor */
}

static void text_is_exact_to_the_micro_unit(void **state)
{
    static const struct {
        const char *text;
        int64_t u;
        const char *again;
    } good[] = {
        {"0", 0, "0.00"},
        {"12", 12000000, "12.00"},
        {"1.98", 1980000, "1.98"},
        {"0.000001", 1, "0.000001"},
        {"-0.5", -500000, "-0.50"},
        {"1.2345670000", 1234567, "1.234567"},
        {"007.10", 7100000, "7.10"},
        {"9223372036854.775807", INT64_MAX, "9223372036854.775807"},
        {"-9223372036854.775808", INT64_MIN, "-9223372036854.775808"},
    };
    char buf[MONEY_TEXT_SIZE];
    struct money m;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(money_parse(good[i].text, ccy("CNY"), &m), ERR_OK);
        assert_int_equal(m.u, good[i].u);
        money_format(m, buf, sizeof(buf));
        assert_string_equal(buf, good[i].again);
    }
    money_format_ccy(money_of(12000000, ccy("JPY")), buf, sizeof(buf));
    assert_string_equal(buf, "12 JPY");
    money_format_ccy(money_of(1500, ccy("KWD")), buf, sizeof(buf));
    assert_string_equal(buf, "0.0015 KWD");
}

static void text_that_is_no_amount_is_refused(void **state)
{
    static const char *const bad[] = {"",    "-",  ".5",  "5.",  "1,5",         "+1",
                                      " 1",  "1 ", "1e3", "0x1", "1.2.3",       "0.0000001",
                                      "--1", "1-", "NaN", "1.",  "\xEF\xBC\x91"};
    struct money m = money_of(7, ccy("CNY"));

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(money_parse(bad[i], ccy("CNY"), &m), ERR_VALIDATION);
    assert_int_equal(money_parse("9223372036854.775808", ccy("CNY"), &m), ERR_MONEY_RANGE);
    assert_int_equal(money_parse("99999999999999999999999999", ccy("CNY"), &m), ERR_MONEY_RANGE);
    assert_int_equal(m.u, 7);
}

static void the_border_to_minor_units_floors(void **state)
{
    int64_t minor, residue;
    struct money m;

    (void)state;
    money_to_minor(money_of(1234567891, ccy("CNY")), &minor, &residue);
    assert_int_equal(minor, 123456);
    assert_int_equal(residue, 7891);
    money_to_minor(money_of(-1, ccy("CNY")), &minor, &residue);
    assert_int_equal(minor, -1);
    assert_int_equal(residue, 9999);
    money_to_minor(money_of(INT64_MIN, ccy("CLF")), &minor, &residue);
    assert_true(residue >= 0 && residue < 100);
    assert_int_equal(money_from_minor(123456, ccy("CNY"), &m), ERR_OK);
    assert_int_equal(m.u, 1234560000);
}

static void bad_rates_are_refused(void **state)
{
    struct rate r;

    (void)state;
    assert_int_equal(rate_flat((struct price_rate){1, 0}, &r), ERR_VALIDATION);
    assert_int_equal(rate_flat((struct price_rate){-1, 1}, &r), ERR_VALIDATION);
    assert_int_equal(rate_flat((struct price_rate){1, 1}, &r), ERR_OK);
    int64_t u;
    assert_int_equal(rate_total(&r, -1, &u), ERR_VALIDATION);
    assert_int_equal(rate_delta(&r, 5, 4, &u), ERR_VALIDATION);
    r.tiers[0].to = 100; /* the last tier must have no end */
    assert_int_equal(rate_check(&r), ERR_VALIDATION);
    r.tier_count = 2;
    r.tiers[1] = (struct rate_tier){101, INT64_MAX, 1}; /* a gap */
    assert_int_equal(rate_check(&r), ERR_VALIDATION);
    r.tiers[1].from = 100;
    assert_int_equal(rate_check(&r), ERR_OK);
    r.tier_count = RATE_TIERS_MAX + 1;
    assert_int_equal(rate_check(&r), ERR_VALIDATION);
}

static void slices_telescope_and_the_boundary_holds(void **state)
{
    struct rate r;
    int64_t a, b, whole;

    (void)state;
    assert_int_equal(rate_flat((struct price_rate){1990000, 3600}, &r), ERR_OK);
    assert_int_equal(rate_delta(&r, 0, 18, &a), ERR_OK);
    assert_int_equal(rate_delta(&r, 18, 60, &b), ERR_OK);
    assert_int_equal(rate_total(&r, 60, &whole), ERR_OK);
    assert_int_equal(a + b, whole);
    assert_int_equal(rate_flat((struct price_rate){INT64_MAX, INT64_MAX}, &r), ERR_OK);
    assert_int_equal(rate_total(&r, INT64_MAX, &whole), ERR_OK);
    assert_int_equal(whole, INT64_MAX);
    assert_int_equal(rate_flat((struct price_rate){INT64_MAX, 1}, &r), ERR_OK);
    assert_int_equal(rate_total(&r, 2, &whole), ERR_MONEY_RANGE);
}

static void affordable_is_the_last_second_that_fits(void **state)
{
    struct rate r;

    (void)state;
    assert_int_equal(rate_flat((struct price_rate){1990000, 3600}, &r), ERR_OK);
    assert_int_equal(rate_affordable(&r, 0, 1000000, INT64_MAX), 1809);
    assert_int_equal(rate_affordable(&r, 0, -1, INT64_MAX), 0);
    assert_int_equal(rate_affordable(&r, 0, 1000000, 5), 5);
    assert_int_equal(rate_flat((struct price_rate){0, 3600}, &r), ERR_OK);
    assert_int_equal(rate_affordable(&r, 0, 0, 777), 777); /* what is free never ends */
}

static void discounts_never_round(void **state)
{
    struct rate r, full;
    int64_t u;

    (void)state;
    assert_int_equal(rate_flat((struct price_rate){1990000, 3600}, &r), ERR_OK);
    full = r;
    assert_int_equal(rate_scale(&full, 0, 100), ERR_OK);
    assert_int_equal(rate_total(&full, 123456, &u), ERR_OK);
    assert_int_equal(u, 0); /* a full discount is exactly nothing */
    for (int i = 0; i < 7; i++)
        assert_int_equal(rate_scale(&r, 95, 100), ERR_OK);
    assert_int_equal(rate_scale(&r, 1, 0), ERR_VALIDATION);
    assert_int_equal(rate_scale(&r, INT64_MAX, 1), ERR_MONEY_RANGE);
    assert_int_equal(rate_total(&r, 3600, &u), ERR_OK);
    assert_int_equal(u, 1389691); /* 1,990,000 x 0.95^7 = 1,389,691.2 */
}

static void a_rise_is_seen_in_tiers_and_caps(void **state)
{
    struct rate a, b;

    (void)state;
    assert_int_equal(rate_flat((struct price_rate){100, 3600}, &a), ERR_OK);
    assert_int_equal(rate_flat((struct price_rate){2, 72}, &b), ERR_OK);
    assert_false(rate_rises(&a, &b)); /* the same price in other words */
    b.tier_count = 2;
    b.tiers[0] = (struct rate_tier){0, 10, 1};
    b.tiers[1] = (struct rate_tier){10, INT64_MAX, 3};
    assert_true(rate_rises(&a, &b));
    b.tiers[1].p = 2;
    assert_false(rate_rises(&a, &b));
    b = a;
    a.cap_u = 5;
    a.cap_qty = 10;
    assert_true(rate_rises(&a, &b)); /* losing the cap */
    b.cap_u = 5;
    b.cap_qty = 10;
    assert_false(rate_rises(&a, &b));
    b.cap_u = 6;
    assert_true(rate_rises(&a, &b));
}

static void rates_print_their_pair(void **state)
{
    char buf[RATE_TEXT_SIZE];
    struct rate r;

    (void)state;
    assert_int_equal(rate_flat((struct price_rate){1980000, 3600}, &r), ERR_OK);
    rate_format(&r, ccy("CNY"), "card-s", buf, sizeof(buf));
    assert_string_equal(buf, "1.98 CNY / 3600 card-s");
    r.cap_u = 40000000;
    r.cap_qty = 86400;
    rate_format(&r, ccy("CNY"), "card-s", buf, sizeof(buf));
    assert_string_equal(buf, "1.98 CNY / 3600 card-s, at most 40.00 CNY per 86400 card-s");
}

static void hash_is_sha256(void **state)
{
    static const char *const want[] = {
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
    };
    static const char *const in[] = {"", "abc",
                                     "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"};
    unsigned char hash[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(in); i++) {
        struct sha256 s;
        sha256_init(&s);
        for (const char *p = in[i]; *p; p++) /* in pieces */
            sha256_add(&s, p, 1);
        sha256_finish(&s, hash);
        for (size_t b = 0; b < sizeof(hash); b++)
            snprintf(hex + 2 * b, 3, "%02x", hash[b]);
        assert_string_equal(hex, want[i]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(currencies_have_their_digits),
    cmocka_unit_test(amounts_of_two_currencies_do_not_mix),
    cmocka_unit_test(sums_that_do_not_fit_are_refused),
    cmocka_unit_test(text_is_exact_to_the_micro_unit),
    cmocka_unit_test(text_that_is_no_amount_is_refused),
    cmocka_unit_test(the_border_to_minor_units_floors),
    cmocka_unit_test(bad_rates_are_refused),
    cmocka_unit_test(slices_telescope_and_the_boundary_holds),
    cmocka_unit_test(affordable_is_the_last_second_that_fits),
    cmocka_unit_test(discounts_never_round),
    cmocka_unit_test(a_rise_is_seen_in_tiers_and_caps),
    cmocka_unit_test(rates_print_their_pair),
    cmocka_unit_test(hash_is_sha256),
};
RUN_TESTS(tests)
