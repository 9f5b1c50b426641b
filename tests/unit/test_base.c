#include "../support/tap.h"

#include "base/json.h"
#include "base/units.h"

static void test_durations_parse_and_refuse(void **state)
{
    static const struct {
        const char *text;
        int64_t s; /* 0: refused */
    } rows[] = {{"90s", 90},        {"2h30m", 9000},
                {"1d", 86400},      {"1-02:00:00", 93600},
                {"01:00:00", 3600}, {"", 0},
                {"5", 0},           {"-1h", 0},
                {"1m1h", 0},        {"1h 1m", 0},
                {"0s", 0},          {"99999999999999999999s", 0},
                {"1:60:00", 0},     {"9223372036854775807w", 0}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t s = 0;
        enum err e = duration_parse(rows[i].text, &s);
        assert_int_equal(e == ERR_OK, rows[i].s != 0);
        assert_int_equal(s, rows[i].s);
    }
}

static void test_sizes_round_decimal_units_up_to_mib(void **state)
{
    int64_t mib;

    (void)state;
    assert_int_equal(size_parse_mib("20GiB", &mib), ERR_OK);
    assert_int_equal(mib, 20480);
    assert_int_equal(size_parse_mib("200GB", &mib), ERR_OK);
    assert_int_equal(mib, 190735);
    assert_int_equal(size_parse_mib("20", &mib), ERR_VALIDATION);
    assert_int_equal(size_parse_mib("0GiB", &mib), ERR_VALIDATION);
}

static void test_times_survive_the_round_trip(void **state)
{
    utime_t t;
    char buf[40];

    (void)state;
    assert_int_equal(time_parse("2026-01-31T23:59:30+08:00", &t), ERR_OK);
    time_format(t, buf, sizeof(buf));
    assert_string_equal(buf, "2026-01-31T15:59:30Z");
    assert_int_equal(time_parse("2026-02-30T00:00:00Z", &t), ERR_VALIDATION);
    assert_int_equal(time_parse("1969-12-31T23:59:59.5Z", &t), ERR_OK);
    assert_int_equal(t, -500);
}

static void test_refusal_fills_both_languages(void **state)
{
    struct refusal why;
    char buf[256];

    (void)state;
    assert_int_equal(refuse(&why, ERR_NOT_FOUND), ERR_NOT_FOUND);
    refusal_set(&why, "what", "instance");
    refusal_set(&why, "name", "x1");
    refusal_text(&why, LANG_EN, buf, sizeof(buf));
    assert_string_equal(buf, "There is no instance x1.");
    refusal_text(&why, LANG_ZH, buf, sizeof(buf));
    assert_string_equal(buf, "没有找到 instance x1。");
    assert_string_equal(err_code(ERR_OFFER_CHANGED), "offer_changed");
    assert_int_equal(err_exit(ERR_BALANCE), 7);
}

static void test_json_refuses_deep_and_doubled(void **state)
{
    char deep[100];
    AUTO_JSON json_t *v = NULL;

    (void)state;
    memset(deep, '[', sizeof(deep));
    assert_int_equal(json_parse(deep, sizeof(deep), 1000, &v, NULL), ERR_BAD_JSON);
    assert_int_equal(json_parse("{\"a\":1,\"a\":2}", 13, 1000, &v, NULL), ERR_BAD_JSON);
    assert_int_equal(json_parse("{\"a\":1}", 7, 5, &v, NULL), ERR_TOO_LARGE);
    assert_int_equal(json_parse("{\"a\":1}", 7, 1000, &v, NULL), ERR_OK);
}

static void test_width_counts_cjk_double(void **state)
{
    (void)state;
    assert_int_equal(str_width("算力ok"), 6);
    assert_int_equal(str_distance("relase", "release"), 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_durations_parse_and_refuse),
    cmocka_unit_test(test_sizes_round_decimal_units_up_to_mib),
    cmocka_unit_test(test_times_survive_the_round_trip),
    cmocka_unit_test(test_refusal_fills_both_languages),
    cmocka_unit_test(test_json_refuses_deep_and_doubled),
    cmocka_unit_test(test_width_counts_cjk_double),
};
RUN_TESTS(tests)
