#include "../support/tap.h"

#include "domain/idle.h"

static const struct idle_rule two_cards = {
    .idle_ms = 1800000, .action = IDLE_ACTION_STOP, .gpu_count = 2, .cpu_milli = 4000};

static enum idle_verdict step(struct idle_state *s, const struct idle_rule *r, utime_t now, int a,
                              int b, int64_t cpu_us, struct idle_result *ret)
{
    struct idle_sample x = {.now = now, .cpu_us = cpu_us};

    x.util_pct[0] = a;
    x.util_pct[1] = b;
    idle_step(s, r, &x, ret);
    return ret->verdict;
}

static void test_notice_first_then_action_each_once(void **state)
{
    struct idle_state s = {.window_at = 0};
    struct idle_result r;
    int warned = 0, acted = 0;

    (void)state;
    for (utime_t t = 1000; t <= 2000000; t += 1000) {
        enum idle_verdict v = step(&s, &two_cards, t, 4, 0, 0, &r);

        if (v == IDLE_WARN) {
            warned++;
            assert_int_equal(t, 1000 + 1800000 - IDLE_LEAD_MS);
            assert_int_equal(r.left_ms, IDLE_LEAD_MS);
        }
        if (v == IDLE_ACT) {
            acted++;
            assert_int_equal(t, 1000 + 1800000);
        }
    }
    assert_int_equal(warned, 1);
    assert_int_equal(acted, 1);
}

static void test_work_on_one_card_keeps_the_lease_but_names_the_other(void **state)
{
    struct idle_state s = {.window_at = 0};
    struct idle_result r;
    int partial = 0;

    (void)state;
    for (utime_t t = 1000; t <= 4000000; t += 1000) {
        enum idle_verdict v = step(&s, &two_cards, t, 90, 0, 0, &r);

        assert_true(v == IDLE_NOTHING || v == IDLE_PARTIAL);
        if (v == IDLE_PARTIAL) {
            partial++;
            assert_int_equal(r.cards, 2);
        }
    }
    assert_int_equal(partial, 1);
    assert_int_equal(r.idle_ms, 0);
}

static void test_a_card_that_cannot_be_read_is_busy(void **state)
{
    struct idle_state s = {.window_at = 0};
    struct idle_result r;

    (void)state;
    for (utime_t t = 1000; t <= 4000000; t += 1000)
        assert_int_not_equal(step(&s, &two_cards, t, 0, -1, 0, &r), IDLE_ACT);
}

static void test_a_seat_without_cards_goes_by_cpu(void **state)
{
    const struct idle_rule seat = {.idle_ms = 120000, .cpu_milli = 2000};
    struct idle_state s = {.window_at = 0};
    struct idle_result r;
    int64_t cpu = 0;
    int acted = 0;

    (void)state;
    /* A blip of 20 ms every ten seconds (a keep-alive) is far under 2 % of two cores. */
    for (utime_t t = 1000; t <= 200000; t += 1000) {
        cpu += t % 10000 == 0 ? 20000 : 0;
        acted += step(&s, &seat, t, 0, 0, cpu, &r) == IDLE_ACT ? 1 : 0;
    }
    assert_int_equal(acted, 1);
    /* 5 % of two cores is work. */
    memset(&s, 0, sizeof(s));
    for (utime_t t = 1000; t <= 400000; t += 1000) {
        cpu += 100000;
        assert_int_not_equal(step(&s, &seat, t, 0, 0, cpu, &r), IDLE_ACT);
    }
}

static void test_slept_time_is_not_idle(void **state)
{
    struct idle_state s = {.window_at = 0};
    struct idle_result r;

    (void)state;
    (void)step(&s, &two_cards, 1000, 90, 90, 0, &r);
    idle_skip(&s, 7200000);
    (void)step(&s, &two_cards, 7202000, 0, 0, 0, &r);
    assert_int_equal(r.idle_ms, 1000);
    assert_int_equal(r.verdict, IDLE_NOTHING);
}

static void test_work_after_the_notice_takes_it_back(void **state)
{
    struct idle_state s = {.window_at = 0};
    struct idle_result r;
    int warned = 0;

    (void)state;
    for (utime_t t = 1000; t <= 7000000; t += 1000) {
        int busy = t % 1700000 == 0 ? 50 : 0;
        enum idle_verdict v = step(&s, &two_cards, t, busy, 0, 0, &r);

        assert_int_not_equal(v, IDLE_ACT);
        warned += v == IDLE_WARN ? 1 : 0;
    }
    assert_int_equal(warned, 4);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_notice_first_then_action_each_once),
    cmocka_unit_test(test_work_on_one_card_keeps_the_lease_but_names_the_other),
    cmocka_unit_test(test_a_card_that_cannot_be_read_is_busy),
    cmocka_unit_test(test_a_seat_without_cards_goes_by_cpu),
    cmocka_unit_test(test_slept_time_is_not_idle),
    cmocka_unit_test(test_work_after_the_notice_takes_it_back),
};
RUN_TESTS(tests)
