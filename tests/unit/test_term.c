#include "../support/tap.h"

#include "base/str.h"
#include "domain/budget.h"
#include "domain/meter.h"
#include "domain/term.h"

static struct rate flat(int64_t p, int64_t d)
{
    struct rate r;

    assert_int_equal(rate_flat((struct price_rate){p, d}, &r), ERR_OK);
    return r;
}

static struct term ask(const struct term_window *w, int64_t available, int64_t ends_in,
                       const int64_t *rests, size_t n)
{
    struct term_ask a = {.windows = w,
                         .window_count = 1,
                         .start_s = 1000,
                         .length_s = 600,
                         .ends_at_s = ends_in == INT64_MAX ? INT64_MAX : 1000 + ends_in,
                         .available_u = available,
                         .budget_rest_u = rests,
                         .budget_count = n};
    struct term t;

    assert_int_equal(term_grant(&a, &t), ERR_OK);
    return t;
}

static void a_term_is_as_long_as_money_end_and_budgets_allow(void **state)
{
    struct rate r = flat(3600000, 3600);
    struct term_window w = {.rate = &r, .qty_per_s = 2, .to_s = INT64_MAX};
    const int64_t rests[2] = {5000000, 30001};
    struct term t = ask(&w, 5000000, INT64_MAX, NULL, 0);

    (void)state;
    assert_int_equal(t.length_s, 600);
    assert_int_equal(t.hold_u, 1200000);
    assert_int_equal(t.paid_until_s, 1600);
    assert_int_equal(t.limit, TERM_FULL);
    t = ask(&w, 5000000, 45, NULL, 0);
    assert_int_equal(t.length_s, 45);
    assert_int_equal(t.limit, TERM_BY_END);
    t = ask(&w, 5000000, -45, NULL, 0);
    assert_int_equal(t.length_s, 0);
    assert_int_equal(t.hold_u, 0);
    t = ask(&w, 19999, INT64_MAX, NULL, 0);
    assert_int_equal(t.length_s, 9);
    assert_int_equal(t.limit, TERM_BY_FUNDS);
    t = ask(&w, 5000000, INT64_MAX, rests, 2);
    assert_int_equal(t.length_s, 15);
    assert_int_equal(t.limit, TERM_BY_BUDGET);
    assert_int_equal(t.budget, 1);
    t = ask(&w, -5, INT64_MAX, NULL, 0);
    assert_int_equal(t.length_s, 0);
}

static void a_hold_goes_on_where_the_window_stands(void **state)
{
    struct rate r = flat(1990000, 3600);
    struct term_window w = {.rate = &r, .qty_from = 7, .qty_per_s = 1, .to_s = INT64_MAX};
    int64_t u;

    (void)state;
    assert_int_equal(term_cost(&w, 1, 11, &u), ERR_OK);
    assert_int_equal(u, 6081); /* F(18) - F(7), not F(11) */
}

static void a_price_change_inside_a_term_is_two_windows(void **state)
{
    struct rate old = flat(1, 1), new = flat(3, 1);
    struct term_window w[2] = {{.rate = &old, .qty_per_s = 1, .to_s = 300},
                               {.rate = &new, .qty_per_s = 1, .from_s = 300, .to_s = INT64_MAX}};
    int64_t u;

    (void)state;
    assert_int_equal(term_cost(w, 2, 600, &u), ERR_OK);
    assert_int_equal(u, 300 + 900);
    assert_int_equal(term_seconds(w, 2, 306, 600), 302);
}

static void costs_beyond_counting_buy_nothing(void **state)
{
    struct rate r = flat(INT64_MAX, 1);
    struct term_window w = {.rate = &r, .qty_per_s = INT64_MAX, .to_s = INT64_MAX};
    int64_t u = 5;

    (void)state;
    assert_int_equal(term_cost(&w, 1, 2, &u), ERR_MONEY_RANGE);
    assert_int_equal(u, 5);
    assert_int_equal(term_seconds(&w, 1, INT64_MAX, 600), 0);
}

static void the_start_gate_wants_an_hour_of_compute_and_a_day_of_disk(void **state)
{
    struct currency cny;
    struct rate card = flat(3600000, 3600), disk = flat(86400, 86400);
    struct term_window w[2] = {{.rate = &card, .qty_per_s = 1, .to_s = INT64_MAX},
                               {.rate = &disk, .qty_per_s = 10, .to_s = INT64_MAX, .disk = true}};
    struct refusal why = {0};
    char text[200];
    int64_t need;

    (void)state;
    assert_int_equal(currency_get("CNY", &cny), ERR_OK);
    assert_int_equal(term_gate(w, 2, 0, money_of(4464000, cny), &need, &why), ERR_OK);
    assert_int_equal(need, 3600000 + 864000);
    assert_int_equal(term_gate(w, 2, 0, money_of(4463999, cny), &need, &why), ERR_BALANCE);
    refusal_text(&why, LANG_EN, text, sizeof(text));
    assert_string_equal(text, "Short by 0.000001 CNY: 4.464 CNY is needed to start, 4.463999 CNY "
                              "is available.");
    assert_int_equal(term_gate(w, 2, 60, money_of(924000, cny), &need, &why), ERR_OK);
    assert_int_equal(need, 60000 + 864000); /* the whole time is shorter than an hour */
    assert_int_equal(term_gate(w, 2, 7200, money_of(4464000, cny), &need, &why), ERR_OK);
    assert_int_equal(need, 3600000 + 864000); /* and never more than one */
}

static void funding_takes_sources_in_order(void **state)
{
    const int64_t have[3] = {10, -5, 100};
    int64_t used[3];

    (void)state;
    assert_int_equal(term_fund(50, have, 3, used), ERR_OK);
    assert_int_equal(used[0], 10);
    assert_int_equal(used[1], 0);
    assert_int_equal(used[2], 40);
    assert_int_equal(term_fund(111, have, 3, used), ERR_BALANCE);
    assert_int_equal(term_fund(-1, have, 3, used), ERR_VALIDATION);
}

static void settling_never_takes_more_than_was_held(void **state)
{
    int64_t posted = 0, released = 0;

    (void)state;
    assert_int_equal(term_settle(600, 95, &posted, &released), ERR_OK);
    assert_int_equal(posted, 95);
    assert_int_equal(released, 505);
    assert_int_equal(term_settle(600, 601, &posted, &released), ERR_INTERNAL);
    assert_int_equal(term_settle(600, -1, &posted, &released), ERR_INTERNAL);
}

static void a_budget_counts_what_is_held(void **state)
{
    static const int percents[] = {50, 80, 100};
    struct budget b = {.cap_u = 1000, .posted_u = 500, .pending_u = 300};
    struct rate r = flat(1, 1);
    struct term_window w = {.rate = &r, .qty_per_s = 2, .to_s = INT64_MAX};

    (void)state;
    assert_int_equal(budget_rest(&b), 200);
    assert_int_equal(budget_joint_seconds(&b, &w, 1, 600), 100);
    assert_int_equal(budget_alert(&b, percents, 3), 50);
    b.posted_u = 499;
    assert_int_equal(budget_alert(&b, percents, 3), -1);
    b.posted_u = 1001;
    assert_int_equal(budget_rest(&b), 0);
    assert_int_equal(budget_alert(&b, percents, 3), 100);
    assert_int_equal(budget_runway_s(200, &w, 1), 100);
    assert_int_equal(budget_runway_s(200, &w, 0), INT64_MAX);
}

static void whole_seconds_inside_the_run_are_billed(void **state)
{
    int64_t from, to;

    (void)state;
    meter_billable(400, 3399, &from, &to);
    assert_int_equal(from, 1);
    assert_int_equal(to, 3);
    meter_billable(100, 900, &from, &to);
    assert_int_equal(from, to);
    meter_billable(1000, 2000, &from, &to);
    assert_int_equal(to - from, 1);
    meter_billable(5000, 1000, &from, &to);
    assert_int_equal(from, to);
    meter_billable(-1500, -1, &from, &to);
    assert_int_equal(from, -1);
    assert_int_equal(to, -1);
}

static struct usage_slice slice(int64_t seq, int64_t t0, int64_t t1)
{
    struct usage_slice s = {.seq = seq, .t0_s = t0, .t1_s = t1, .qty_per_s = 1};

    meter_payload_hash(&s);
    return s;
}

static void usage_counts_once_and_in_order(void **state)
{
    struct usage_slice a = slice(1, 0, 60), b = slice(2, 60, 120), c = slice(3, 100, 180), lie;
    struct meter_gain gain, gains[2];
    enum meter_verdict v;
    int64_t cursor = 0;
    size_t taken;

    (void)state;
    assert_int_equal(meter_dedupe(NULL, &a), METER_NEW);
    assert_int_equal(meter_dedupe(&a, &a), METER_DUPLICATE);
    lie = slice(1, 0, 90);
    assert_int_equal(meter_dedupe(&a, &lie), METER_CONFLICT);
    assert_int_equal(meter_take(&cursor, &c, &v, &gain), ERR_OK);
    assert_int_equal(v, METER_PARKED);
    assert_int_equal(cursor, 0);
    assert_int_equal(meter_take(&cursor, &a, &v, &gain), ERR_OK);
    assert_int_equal(gain.to_s - gain.from_s, 60);
    struct usage_slice parked[2] = {c, b};
    meter_drain(&cursor, parked, 2, gains, &taken);
    assert_int_equal(taken, 2);
    assert_int_equal(gains[0].from_s, 60);
    assert_int_equal(gains[1].from_s, 120); /* only what is beyond the cursor */
    assert_int_equal(gains[1].to_s, 180);
    lie = slice(9, 10, 5);
    assert_int_equal(meter_take(&cursor, &lie, &v, &gain), ERR_VALIDATION);
}

static void a_void_slice_fills_a_gap_for_nothing(void **state)
{
    struct usage_slice s = slice(1, 0, 60);
    struct meter_gain gain;
    enum meter_verdict v;
    int64_t cursor = 0;

    (void)state;
    s.voided = true;
    assert_int_equal(meter_take(&cursor, &s, &v, &gain), ERR_OK);
    assert_int_equal(v, METER_NEW);
    assert_int_equal(cursor, 60);
    assert_int_equal(gain.from_s, gain.to_s);
}

static void states_decide_which_meters_run(void **state)
{
    enum meter m;

    (void)state;
    assert_true(meter_cards_run(INSTANCE_RUNNING));
    assert_true(meter_cards_run(INSTANCE_PREEMPTING));
    assert_false(meter_cards_run(INSTANCE_STOPPING));
    assert_false(meter_cards_run(INSTANCE_UNREACHABLE));
    assert_true(meter_traffic_runs(INSTANCE_STOPPING));
    assert_true(meter_for_disk(INSTANCE_STOPPED, DISK_SYSTEM, false, &m));
    assert_int_equal(m, METER_DISK_STOPPED);
    assert_false(meter_for_disk(INSTANCE_STOPPED, DISK_SYSTEM, true, &m));
    assert_false(meter_for_disk(INSTANCE_STOPPED, DISK_DATA, true, &m));
    assert_true(meter_for_disk(INSTANCE_RELEASED, DISK_DATA, false, &m));
    assert_int_equal(m, METER_DISK_DETACHED);
    assert_false(meter_for_disk(INSTANCE_RELEASED, DISK_SYSTEM, false, &m));
    assert_false(meter_for_disk(INSTANCE_UNREACHABLE, DISK_DATA, false, &m));
    assert_false(meter_for_disk(INSTANCE_FAILED, DISK_SYSTEM, false, &m));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_term_is_as_long_as_money_end_and_budgets_allow),
    cmocka_unit_test(a_hold_goes_on_where_the_window_stands),
    cmocka_unit_test(a_price_change_inside_a_term_is_two_windows),
    cmocka_unit_test(costs_beyond_counting_buy_nothing),
    cmocka_unit_test(the_start_gate_wants_an_hour_of_compute_and_a_day_of_disk),
    cmocka_unit_test(funding_takes_sources_in_order),
    cmocka_unit_test(settling_never_takes_more_than_was_held),
    cmocka_unit_test(a_budget_counts_what_is_held),
    cmocka_unit_test(whole_seconds_inside_the_run_are_billed),
    cmocka_unit_test(usage_counts_once_and_in_order),
    cmocka_unit_test(a_void_slice_fills_a_gap_for_nothing),
    cmocka_unit_test(states_decide_which_meters_run),
};
RUN_TESTS(tests)
