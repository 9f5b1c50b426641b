#include "../support/tap.h"

#include "node/meter.h"

#define SLICES_MAX 20000

struct sink {
    struct meter_slice at[SLICES_MAX];
    size_t count;
};
static struct sink sink;

static void keep(void *user, struct meter_slice *s)
{
    struct sink *k = user;

    assert_true(k->count < SLICES_MAX);
    k->at[k->count++] = *s;
}

static struct meter_sample at(utime_t now, int64_t cpu, bool ok)
{
    return (struct meter_sample){.now = now, .mono = now, .gpus_ok = ok, .total = {cpu, cpu, cpu}};
}

static void whole(const struct sink *k, utime_t from, utime_t to, int64_t cpu)
{
    utime_t t = from;
    int64_t sum = 0;

    for (size_t i = 0; i < k->count; i++) {
        assert_int_equal(k->at[i].t0, t);
        assert_true(k->at[i].t1 > k->at[i].t0);
        assert_true(k->at[i].t1 - k->at[i].t0 <= METER_SLICE_MS_MAX);
        t = k->at[i].t1;
        sum += k->at[i].cpu_us;
    }
    assert_int_equal(t, to);
    assert_int_equal(sum, cpu);
}

static int64_t live_ms(const struct sink *k)
{
    int64_t ms = 0;

    for (size_t i = 0; i < k->count; i++)
        ms += k->at[i].voided ? 0 : k->at[i].t1 - k->at[i].t0;
    return ms;
}

static void test_slices_cover_ready_to_end(void **state)
{
    struct meter_lease m;

    (void)state;
    sink.count = 0;
    meter_begin(&m, 12345, 0, true);
    for (utime_t t = 13000; t <= 100000; t += 1003) {
        struct meter_sample s = at(t, t, true);
        meter_feed(&m, &s, 10000, keep, &sink);
    }
    struct meter_sample s = at(101000, 101000, true);
    meter_end(&m, 100777, &s, 10000, keep, &sink);
    whole(&sink, 12345, 100777, 101000);
    assert_int_equal(live_ms(&sink), 100777 - 12345);
    assert_int_equal(sink.count, 10);
    assert_false(m.open);
}

static void test_a_restart_anywhere_loses_and_doubles_nothing(void **state)
{
    (void)state;
    for (utime_t cut = 20000; cut < 60000; cut += 777) {
        struct meter_lease m;

        sink.count = 0;
        meter_begin(&m, 5000, 0, true);
        for (utime_t t = 6000; t < cut; t += 1000) {
            struct meter_sample s = at(t, t, true);
            meter_feed(&m, &s, 10000, keep, &sink);
        }
        assert_true(sink.count > 0);
        struct meter_slice last = sink.at[sink.count - 1];
        meter_resume(&m, &last);
        struct meter_sample s = at(100000, 100000, true);
        meter_feed(&m, &s, 10000, keep, &sink);
        meter_end(&m, 100500, &s, 10000, keep, &sink);
        whole(&sink, 5000, 100500, 100000);
    }
}

static void test_a_lost_card_stops_evidence_at_the_last_good_sample(void **state)
{
    struct meter_lease m;

    (void)state;
    sink.count = 0;
    meter_begin(&m, 1000, 0, true);
    for (utime_t t = 2000; t <= 50000; t += 1000) {
        struct meter_sample s = at(t, 0, t < 20000 || t > 30000);
        meter_feed(&m, &s, 10000, keep, &sink);
    }
    meter_cut(&m, 10000, keep, &sink);
    whole(&sink, 1000, 50000, 0);
    assert_int_equal(live_ms(&sink), 18000 + 19000);
    for (size_t i = 0; i < sink.count; i++)
        assert_int_equal(sink.at[i].gpus_ok, !sink.at[i].voided);
}

static void test_slept_time_is_void_and_the_rest_counts(void **state)
{
    struct meter_lease m;

    (void)state;
    sink.count = 0;
    meter_begin(&m, 1000, 0, true);
    struct meter_sample s = at(9000, 0, true);
    meter_feed(&m, &s, 10000, keep, &sink);
    s.now = 3610000; /* one hour later by the boot clock, one second by the monotonic one */
    s.mono = 10000;
    meter_feed(&m, &s, 10000, keep, &sink);
    meter_end(&m, s.now, &s, 10000, keep, &sink);
    whole(&sink, 1000, 3610000, 0);
    assert_int_equal(live_ms(&sink), 9000);
}

static void test_a_stall_of_the_keeper_is_void_and_the_rest_counts(void **state)
{
    struct meter_lease m;

    (void)state;
    sink.count = 0;
    meter_begin(&m, 1000, 0, true);
    for (utime_t t = 2000; t <= 20000; t += 1000) {
        struct meter_sample s = at(t, 0, true);
        meter_feed(&m, &s, 10000, keep, &sink);
    }
    struct meter_sample s = at(620000, 0, true);
    s.doubt = true;
    meter_feed(&m, &s, 10000, keep, &sink);
    s = at(630000, 0, true);
    meter_feed(&m, &s, 10000, keep, &sink);
    meter_end(&m, 630000, &s, 10000, keep, &sink);
    whole(&sink, 1000, 630000, 0);
    assert_int_equal(live_ms(&sink), 19000 + 10000);
}

static void test_a_guest_that_ended_while_nobody_looked_counts_to_its_own_end(void **state)
{
    struct meter_lease m;

    (void)state;
    sink.count = 0;
    meter_begin(&m, 1000, 0, true);
    struct meter_sample s = at(500000, 7, true);
    meter_end(&m, 250000, &s, 10000, keep, &sink);
    whole(&sink, 1000, 250000, 7);
    meter_end(&m, 400000, &s, 10000, keep, &sink);
    whole(&sink, 1000, 250000, 7);
}

static void test_without_word_of_the_end_it_is_the_last_proof(void **state)
{
    struct meter_lease m;

    (void)state;
    sink.count = 0;
    meter_begin(&m, 1000, 0, true);
    for (utime_t t = 2000; t <= 25000; t += 1000) {
        struct meter_sample s = at(t, 0, true);
        meter_feed(&m, &s, 10000, keep, &sink);
    }
    meter_cut(&m, 10000, keep, &sink);
    whole(&sink, 1000, 25000, 0);
}

static void test_counters_that_go_back_bill_nothing_twice(void **state)
{
    struct meter_lease m;

    (void)state;
    sink.count = 0;
    meter_begin(&m, 0, 0, true);
    struct meter_sample s = at(10000, 500, true);
    meter_feed(&m, &s, 10000, keep, &sink);
    s = at(20000, 0, true);
    meter_feed(&m, &s, 10000, keep, &sink);
    whole(&sink, 0, 20000, 500);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_slices_cover_ready_to_end),
    cmocka_unit_test(test_a_restart_anywhere_loses_and_doubles_nothing),
    cmocka_unit_test(test_a_lost_card_stops_evidence_at_the_last_good_sample),
    cmocka_unit_test(test_slept_time_is_void_and_the_rest_counts),
    cmocka_unit_test(test_a_stall_of_the_keeper_is_void_and_the_rest_counts),
    cmocka_unit_test(test_a_guest_that_ended_while_nobody_looked_counts_to_its_own_end),
    cmocka_unit_test(test_without_word_of_the_end_it_is_the_last_proof),
    cmocka_unit_test(test_counters_that_go_back_bill_nothing_twice),
};
RUN_TESTS(tests)
