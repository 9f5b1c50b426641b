#include "../support/tap.h"

#include "base/str.h"
#include "base/units.h"
#include "domain/payout.h"
#include "domain/refund.h"
#include "domain/tax.h"
#include "domain/voucher.h"

static void a_line_prints_its_own_sum(void **state)
{
    struct bill_line l = {.meter = METER_GPU, .unit = "card-s", .qty_to = 43200};
    char buf[BILL_FORMULA_SIZE];

    (void)state;
    assert_int_equal(currency_get("CNY", &l.ccy), ERR_OK);
    assert_int_equal(rate_flat((struct price_rate){1980000, 3600}, &l.rate), ERR_OK);
    assert_int_equal(bill_rate(&l), ERR_OK);
    assert_int_equal(l.amount_u, 23760000);
    bill_formula(&l, buf, sizeof(buf));
    assert_string_equal(buf, "floor((43200 card-s x 1980000) / 3600) = 23760000 u = 23.76 CNY");
    l.qty_from = 7;
    l.qty_to = 18;
    l.rate.tiers[0].p = 1990000;
    assert_int_equal(bill_rate(&l), ERR_OK);
    bill_formula(&l, buf, sizeof(buf));
    assert_string_equal(buf, "floor((18 card-s x 1990000) / 3600) - floor((7 card-s x 1990000) / "
                             "3600) = 6081 u = 0.006081 CNY");
}

static void the_longest_formula_fits(void **state)
{
    struct bill_line l = {.unit = "MiB-s", .qty_from = INT64_MAX - 1, .qty_to = INT64_MAX};
    char buf[BILL_FORMULA_SIZE];

    (void)state;
    assert_int_equal(currency_get("CNY", &l.ccy), ERR_OK);
    l.rate = (struct rate){
        .d = INT64_MAX, .tier_count = RATE_TIERS_MAX, .cap_u = INT64_MAX, .cap_qty = INT64_MAX};
    for (size_t i = 0; i < RATE_TIERS_MAX; i++)
        l.rate.tiers[i] = (struct rate_tier){
            INT64_C(1000000000000000000) * (int64_t)i,
            i + 1 < RATE_TIERS_MAX ? INT64_C(1000000000000000000) * (int64_t)(i + 1) : INT64_MAX,
            INT64_MAX};
    l.amount_u = INT64_MIN;
    bill_formula(&l, buf, sizeof(buf));
    assert_true(strlen(buf) > 100);
}

static void lines_add_up_to_what_is_payable(void **state)
{
    const int64_t lines[5] = {15000, 25000, 25000, -15000, 10000};
    struct bill_share scratch[5];
    struct bill_total t;
    int64_t minor[5];

    (void)state;
    assert_int_equal(bill_close(10000, lines, 5, scratch, minor, &t), ERR_OK);
    assert_int_equal(t.payable_minor, 6);
    assert_int_equal(t.residue_u, 0);
    assert_int_equal(minor[0] + minor[1] + minor[2] + minor[3] + minor[4], 6);
    assert_int_equal(minor[3], -2);
    assert_int_equal(bill_close(10000, &lines[3], 1, scratch, minor, &t), ERR_VALIDATION);
    assert_int_equal(bill_close(10000, lines, 0, scratch, minor, &t), ERR_OK);
    assert_int_equal(t.payable_minor, 0);
    const int64_t huge[2] = {INT64_MAX, 1};
    assert_int_equal(bill_close(10000, huge, 2, scratch, minor, &t), ERR_MONEY_RANGE);
}

static void a_split_without_weights_goes_to_the_first(void **state)
{
    const int64_t none[3] = {0}, negative[1] = {-1};
    struct bill_share scratch[3];
    int64_t parts[3];

    (void)state;
    assert_int_equal(bill_split(7, none, 3, scratch, parts), ERR_OK);
    assert_int_equal(parts[0], 7);
    assert_int_equal(parts[2], 0);
    assert_int_equal(bill_split(7, negative, 1, scratch, parts), ERR_VALIDATION);
    assert_int_equal(bill_split(7, none, 0, scratch, parts), ERR_VALIDATION);
    assert_int_equal(bill_split(-7, none, 1, scratch, parts), ERR_VALIDATION);
}

static void late_usage_goes_to_an_open_month(void **state)
{
    struct bill_slot slot;
    struct zone z;
    utime_t usage, closed, received;

    (void)state;
    assert_true(zone_builtin("Asia/Shanghai", &z));
    assert_int_equal(time_parse("2026-01-31T23:40:00+08:00", &usage), ERR_OK);
    assert_int_equal(time_parse("2026-02-04T00:00:00+08:00", &closed), ERR_OK);
    assert_int_equal(time_parse("2026-02-04T00:00:00+08:00", &received), ERR_OK);
    bill_slot_for(&z, usage / 1000, received / 1000 - 1, closed / 1000, &slot);
    assert_false(slot.correction);
    assert_int_equal(slot.period.month, 1);
    bill_slot_for(&z, usage / 1000, received / 1000, closed / 1000, &slot);
    assert_true(slot.correction);
    assert_int_equal(slot.period.month, 2);
    bill_slot_for(&z, usage / 1000, received / 1000 + 90 * DAY_S, closed / 1000, &slot);
    assert_int_equal(slot.period.month, 5);
    bill_slot_for(&z, usage / 1000, INT64_MAX / 4, INT64_MAX, &slot);
    assert_false(slot.correction);
}

static void tax_is_half_up_away_from_zero(void **state)
{
    int64_t v;

    (void)state;
    assert_int_equal(tax_half_up(25, 1, 10, &v), ERR_OK);
    assert_int_equal(v, 3);
    assert_int_equal(tax_half_up(-25, 1, 10, &v), ERR_OK);
    assert_int_equal(v, -3);
    assert_int_equal(tax_half_up(24, 1, 10, &v), ERR_OK);
    assert_int_equal(v, 2);
    assert_int_equal(tax_half_up(INT64_MIN, 1, 1, &v), ERR_MONEY_RANGE);
    assert_int_equal(tax_half_up(1, 1, 0, &v), ERR_VALIDATION);
}

static void tax_treatment_follows_the_sale(void **state)
{
    struct tax_sale s = {.seller = "IE", .buyer = "FR", .business = true, .vat_id_valid = true};
    struct tax_rate rate = {20, 100};

    (void)state;
    assert_string_equal(tax_category_code(tax_decide(&s, rate).category), "AE");
    assert_int_equal(tax_decide(&s, rate).rate.n, 0);
    s.vat_id_valid = false;
    assert_string_equal(tax_category_code(tax_decide(&s, rate).category), "S");
    assert_true(tax_decide(&s, rate).vat_id_refused);
    memcpy(s.buyer, "IE", 3);
    assert_false(tax_decide(&s, rate).vat_id_refused);
    memcpy(s.buyer, "US", 3);
    assert_string_equal(tax_category_code(tax_decide(&s, rate).category), "O");
    s.business = false;
    assert_string_equal(tax_category_code(tax_decide(&s, rate).category), "S");
    assert_string_equal(tax_category_code(tax_decide(&s, (struct tax_rate){0, 1}).category), "Z");
}

static void quote_and_bill_share_one_sum(void **state)
{
    const int64_t lines[3] = {250000000, 75000000, 16000000};
    struct bill_share scratch[3];
    struct tax_bill b;
    int64_t minor[3];

    (void)state;
    assert_int_equal(
        tax_bill(10000, lines, 3, (struct tax_rate){20, 100}, false, scratch, minor, &b), ERR_OK);
    assert_int_equal(b.tax.net_minor, 34100);
    assert_int_equal(b.tax.gross_minor, 40920);
    assert_int_equal(minor[0], 25000);
    assert_int_equal(tax_bill(10000, lines, 3, (struct tax_rate){1, 0}, false, scratch, minor, &b),
                     ERR_VALIDATION);
}

static void vouchers_end_exactly_at_their_expiry(void **state)
{
    struct voucher v = {.id = "V", .left_u = 100, .expires_s = 1000};
    struct funds f = {&v, 1, 0, 0, 0};
    struct funding paid;
    size_t order[1];
    int64_t used[1], u;

    (void)state;
    assert_int_equal(voucher_cut(&v, 1, 900, 2000), 1000);
    assert_int_equal(voucher_cut(&v, 1, 1000, 2000), 2000);
    assert_int_equal(fund_charge(&f, METER_GPU, 999, 40, order, used, &paid), ERR_OK);
    assert_int_equal(used[0], 40);
    assert_int_equal(fund_charge(&f, METER_GPU, 1000, 40, order, used, &paid), ERR_OK);
    assert_int_equal(used[0], 0);
    assert_int_equal(paid.unpaid_u, 40);
    assert_int_equal(fund_available(&f, METER_GPU, 999, &u), ERR_OK);
    assert_int_equal(u, 60);
    assert_int_equal(voucher_expire(&v, 1, 1000, &u), ERR_OK);
    assert_int_equal(u, 60);
    assert_int_equal(voucher_expire(&v, 1, 1000, &u), ERR_OK);
    assert_int_equal(u, 0);
    assert_int_equal(fund_charge(&f, METER_GPU, 0, -1, order, used, &paid), ERR_VALIDATION);
}

static void debt_is_bounded_and_paid_first(void **state)
{
    int64_t u, debt, cash;
    struct rate r;

    (void)state;
    assert_int_equal(rate_flat((struct price_rate){10000, 86400}, &r), ERR_OK);
    assert_int_equal(arrears_owed(&r, 100, 0, 3 * 86400, ARREARS_RETENTION_S, &u), ERR_OK);
    assert_int_equal(u, 3000000);
    assert_int_equal(arrears_owed(&r, 100, 0, 99 * 86400, ARREARS_RETENTION_S, &u), ERR_OK);
    assert_int_equal(u, 15000000);
    assert_int_equal(arrears_owed(&r, 100, 5, 4, ARREARS_RETENTION_S, &u), ERR_OK);
    assert_int_equal(u, 0);
    fund_topup(3000000, 20000000, &debt, &cash);
    assert_int_equal(debt, 0);
    assert_int_equal(cash, 17000000);
    assert_int_equal(arrears_wipe_s(INT64_MAX, 1), INT64_MAX);
}

static void refunds_and_shares_refuse_nonsense(void **state)
{
    struct refund_paid paid = {10, 20, 30};
    struct payout_share too_much[2] = {{101, 100}, {0, 0}}, bad[2] = {{1, 0}, {0, 0}};
    struct exchange e;
    struct refund r;
    int64_t part[2], u;

    (void)state;
    assert_int_equal(refund_split(paid, 61, &r), ERR_VALIDATION);
    assert_int_equal(refund_split(paid, -1, &r), ERR_VALIDATION);
    assert_int_equal(refund_pro_rata(100, 1, 0, &u), ERR_VALIDATION);
    assert_int_equal(refund_recognised(100, 0, 10, 50, &u), ERR_OK);
    assert_int_equal(u, 100);
    assert_int_equal(payout_total(too_much, 2, 100, part), ERR_VALIDATION);
    assert_int_equal(payout_total(bad, 2, 100, part), ERR_VALIDATION);
    assert_int_equal(payout_total(bad, 0, 100, part), ERR_VALIDATION);
    assert_int_equal(payout_total(&bad[1], 1, 100, part), ERR_OK);
    assert_int_equal(part[0], 100);
    assert_int_equal(exchange_compute(100, 0, 1, 0, 1, &e), ERR_VALIDATION);
    assert_int_equal(exchange_compute(100, 1, 1, 2, 1, &e), ERR_VALIDATION);
    assert_int_equal(exchange_compute(INT64_MAX, 2, 1, 0, 1, &e), ERR_MONEY_RANGE);
}

static void tax_below_zero_is_the_mirror_of_the_same_above(void **state)
{
    (void)state;
    const struct tax_rate rates[] = {{6, 100}, {13, 100}, {19, 100}, {0, 1}};
    const int64_t amounts[] = {1, 7, 99, 15000, 123456789};

    for (size_t r = 0; r < ARRAY_LEN(rates); r++)
        for (size_t i = 0; i < ARRAY_LEN(amounts); i++)
            for (int inclusive = 0; inclusive < 2; inclusive++) {
                struct tax_group up, down;

                assert_int_equal(tax_of_signed(amounts[i], rates[r], inclusive, &up), ERR_OK);
                assert_int_equal(tax_of_signed(-amounts[i], rates[r], inclusive, &down), ERR_OK);
                assert_int_equal(down.net_minor, -up.net_minor);
                assert_int_equal(down.tax_minor, -up.tax_minor);
                assert_int_equal(down.gross_minor, -up.gross_minor);
                assert_int_equal(up.net_minor + up.tax_minor, up.gross_minor);
            }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(tax_below_zero_is_the_mirror_of_the_same_above),
    cmocka_unit_test(a_line_prints_its_own_sum),
    cmocka_unit_test(the_longest_formula_fits),
    cmocka_unit_test(lines_add_up_to_what_is_payable),
    cmocka_unit_test(a_split_without_weights_goes_to_the_first),
    cmocka_unit_test(late_usage_goes_to_an_open_month),
    cmocka_unit_test(tax_is_half_up_away_from_zero),
    cmocka_unit_test(tax_treatment_follows_the_sale),
    cmocka_unit_test(quote_and_bill_share_one_sum),
    cmocka_unit_test(vouchers_end_exactly_at_their_expiry),
    cmocka_unit_test(debt_is_bounded_and_paid_first),
    cmocka_unit_test(refunds_and_shares_refuse_nonsense),
};
RUN_TESTS(tests)
