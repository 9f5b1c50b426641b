#include "../support/tap.h"

#include <stdio.h>

#include "base/str.h"
#include "base/units.h"
#include "domain/calendar.h"
#include "domain/price.h"

static int64_t at(const char *s)
{
    utime_t t;

    assert_int_equal(time_parse(s, &t), ERR_OK);
    return t / MS_PER_S;
}

static struct zone shanghai(void)
{
    struct zone z;

    assert_true(zone_builtin("Asia/Shanghai", &z));
    return z;
}

/* A version 2 file without transitions and with a footer, as `zic -b slim` writes them. */
static size_t make_tzif(unsigned char *buf, const char *footer)
{
    unsigned char header[44] = "TZif2", info[6] = {0};
    size_t n = 0;

    header[39] = 1; /* one type */
    header[43] = 4; /* four letters */
    for (int i = 0; i < 2; i++) {
        memcpy(buf + n, header, sizeof(header));
        n += sizeof(header);
        memcpy(buf + n, info, sizeof(info));
        n += sizeof(info);
        memcpy(buf + n, "ZZZ", 4);
        n += 4;
    }
    n += (size_t)snprintf((char *)buf + n, 100, "\n%s\n", footer);
    return n;
}

static void built_in_zones_need_no_file(void **state)
{
    struct zone z = shanghai();
    struct period p;

    (void)state;
    assert_int_equal(zone_offset(&z, 0), 8 * 3600);
    assert_int_equal(zone_next_change(&z, 0), INT64_MAX);
    assert_int_equal(period_parse(&z, "2026-01", &p), ERR_OK);
    assert_int_equal(p.from_s, at("2025-12-31T16:00:00Z"));
    assert_int_equal(p.to_s, at("2026-01-31T16:00:00Z"));
    assert_true(zone_builtin("UTC", &z));
    assert_int_equal(zone_offset(&z, 0), 0);
    assert_false(zone_builtin("Europe/Berlin", &z));
}

static void footer_rules_are_read(void **state)
{
    static const struct {
        const char *footer, *instant;
        int32_t offset;
    } cases[] = {
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T00:59:59Z", 3600},
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T01:00:00Z", 7200},
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T00:59:59Z", 7200},
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T01:00:00Z", 3600},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-01-01T00:00:00Z", 11 * 3600},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-07-01T00:00:00Z", 10 * 3600},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", "2026-01-01T00:00:00Z", 0},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", "2026-07-01T00:00:00Z", 3600},
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T00:59:59Z", -7200},
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T01:00:00Z", -3600},
        {"<+0545>-5:45", "2026-01-01T00:00:00Z", 20700},
        {"AAA3BBB,J60/0,J300/0", "2028-03-01T02:59:59Z", -3 * 3600}, /* J60 is always 1 March */
        {"AAA3BBB,J60/0,J300/0", "2028-03-01T03:00:00Z", -2 * 3600},
        {"AAA3BBB,59/0,300/0", "2028-02-29T03:00:00Z", -2 * 3600}, /* day 59 counts 29 February */
        {"<-02>2<-01>,0/-1,300/5", "2027-01-01T00:59:59Z", -7200}, /* begins the evening before */
        {"<-02>2<-01>,0/-1,300/5", "2027-01-01T01:00:00Z", -3600},
        {"EST3EDT4,0/0,J365/23", "2026-12-31T23:30:00Z", -4 * 3600}, /* summer time for ever */
        {"EST3EDT4,0/0,J365/23", "2027-01-01T03:30:00Z", -4 * 3600},
    };
    unsigned char buf[512];
    struct zone z;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t n = make_tzif(buf, cases[i].footer);
        assert_int_equal(zone_parse("test", buf, n, &z), ERR_OK);
        assert_int_equal(zone_offset(&z, at(cases[i].instant)), cases[i].offset);
    }
}

static void broken_zone_files_are_refused(void **state)
{
    static const char *const footers[] = {"CET",
                                          "CET-1CEST",
                                          "CET-1CEST,M3.5.0",
                                          "CET-25",
                                          "C-1",
                                          "CET-1CEST,M13.5.0,M1.1.0",
                                          "CET-1CEST,M3.6.0,M10.5.0",
                                          "CET-1 ",
                                          "<+01-1",
                                          "CET-1CEST,J0,J1",
                                          "CET-1CEST,M3.5.7,M10.5.0",
                                          "CET-1CEST,M3.5.0/168,M10.5.0"};
    unsigned char buf[512];
    struct zone z;
    size_t n;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(footers); i++) {
        n = make_tzif(buf, footers[i]);
        assert_int_equal(zone_parse("test", buf, n, &z), ERR_VALIDATION);
    }
    n = make_tzif(buf, "CET-1");
    for (size_t len = 0; len < n; len++) /* a file cut anywhere */
        assert_int_equal(zone_parse("test", buf, len, &z), ERR_VALIDATION);
    assert_int_equal(zone_parse("test", buf, n, &z), ERR_OK);
    buf[31] = 1; /* leap seconds are counted by no instant here */
    assert_int_equal(zone_parse("test", buf, n, &z), ERR_VALIDATION);
}

static void a_day_in_a_zone_can_be_23_or_25_hours(void **state)
{
    unsigned char buf[512];
    struct period p;
    struct zone z;

    (void)state;
    assert_int_equal(zone_parse("Berlin", buf, make_tzif(buf, "CET-1CEST,M3.5.0,M10.5.0/3"), &z),
                     ERR_OK);
    period_day(&z, 2026, 3, 29, &p);
    assert_int_equal(p.to_s - p.from_s, 23 * 3600);
    period_day(&z, 2026, 10, 25, &p);
    assert_int_equal(p.to_s - p.from_s, 25 * 3600);
    period_month(&z, 2026, 10, &p);
    assert_int_equal(p.to_s - p.from_s, 745 * 3600);
}

static void readings_in_gaps_and_folds_are_decided(void **state)
{
    struct civil gap = {2026, 3, 29, 2, 30, 0}, fold = {2026, 10, 25, 2, 30, 0};
    unsigned char buf[512];
    struct zone z;

    (void)state;
    assert_int_equal(zone_parse("Berlin", buf, make_tzif(buf, "CET-1CEST,M3.5.0,M10.5.0/3"), &z),
                     ERR_OK);
    assert_int_equal(civil_instant(&z, &gap), at("2026-03-29T03:30:00+02:00"));
    assert_int_equal(civil_first(&z, &gap), at("2026-03-29T03:00:00+02:00"));
    assert_int_equal(civil_instant(&z, &fold), at("2026-10-25T02:30:00+02:00"));
}

static void plans_keep_their_anchor(void **state)
{
    struct zone z = shanghai();
    int64_t start = at("2026-01-31T10:00:00+08:00");

    (void)state;
    assert_int_equal(calendar_plan_end(&z, start, CALENDAR_MONTH, 1),
                     at("2026-02-28T10:00:00+08:00"));
    assert_int_equal(calendar_plan_end(&z, start, CALENDAR_MONTH, 2),
                     at("2026-03-31T10:00:00+08:00"));
    assert_int_equal(calendar_plan_end(&z, start, CALENDAR_MONTH, 25),
                     at("2028-02-29T10:00:00+08:00"));
    assert_int_equal(calendar_plan_end(&z, start, CALENDAR_HOUR, 3), start + 10800);
    assert_int_equal(calendar_plan_end(&z, start, CALENDAR_WEEK, 2), start + 14 * DAY_S);
    start = at("2028-02-29T00:00:00+08:00");
    assert_int_equal(calendar_plan_end(&z, start, CALENDAR_YEAR, 4),
                     at("2032-02-29T00:00:00+08:00"));
}

static void times_are_read_in_each_form(void **state)
{
    struct zone z = shanghai();
    utime_t t;

    (void)state;
    assert_int_equal(calendar_parse(&z, "10:00:00.400", &t), ERR_OK);
    assert_int_equal(t, 36000400);
    assert_int_equal(calendar_parse(&z, "2026-03-09", &t), ERR_OK);
    assert_int_equal(t / 1000, at("2026-03-09T00:00:00+08:00"));
    assert_int_equal(calendar_parse(&z, "2026-03-09T01:02:03", &t), ERR_OK);
    assert_int_equal(t / 1000, at("2026-03-09T01:02:03+08:00"));
    assert_int_equal(calendar_parse(&z, "2026-03-09T01:02:03Z", &t), ERR_OK);
    assert_int_equal(t / 1000, at("2026-03-09T01:02:03Z"));
    static const char *const bad[] = {"",           "25:00:00",    "10:60:00",
                                      "2026-02-29", "2026-13-01",  "2026-1-1",
                                      "10:00:00x",  "2026-03-09T", "yesterday"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(calendar_parse(&z, bad[i], &t), ERR_VALIDATION);
    struct period p;
    assert_int_equal(period_parse(&z, "2026-13", &p), ERR_VALIDATION);
    assert_int_equal(period_parse(&z, "2026-011", &p), ERR_VALIDATION);
}

static struct price_version version(int64_t p, int64_t from, int64_t announced, int64_t notice)
{
    struct price_version v = {.valid_from_s = from, .announced_s = announced, .notice_s = notice};

    assert_int_equal(rate_flat((struct price_rate){p, 1}, &v.rate), ERR_OK);
    return v;
}

static void a_cut_binds_at_once_and_a_rise_after_its_notice(void **state)
{
    struct price_version v[3] = {version(5, 0, 0, 0), version(7, 100, 50, 200),
                                 version(4, 300, 300, 900)};
    struct price_part parts[8];
    size_t n;

    (void)state;
    assert_int_equal(price_split(v, 3, 10, 10, 400, parts, 8, &n), ERR_OK);
    assert_int_equal(n, 3); /* 5 to 250, 7 to 300, 4 */
    assert_int_equal(parts[0].to_s, 250);
    assert_int_equal(parts[1].to_s, 300);
    assert_int_equal(parts[2].version, 2);
    assert_int_equal(price_split(v, 3, 100, 100, 200, parts, 8, &n), ERR_OK);
    assert_int_equal(n, 1); /* a new start takes the rise at once */
    assert_int_equal(parts[0].version, 1);
}

static void a_rise_that_never_took_effect_is_passed_over(void **state)
{
    struct price_version v[3] = {version(5, 0, 0, 0), version(9, 100, 100, 1000),
                                 version(3, 200, 200, 0)};
    struct price_part parts[8];
    size_t n;

    (void)state;
    assert_int_equal(price_split(v, 3, 0, 0, 5000, parts, 8, &n), ERR_OK);
    assert_int_equal(n, 2);
    assert_int_equal(parts[1].version, 2);
    assert_int_equal(parts[1].from_s, 200);
}

static void without_a_price_nothing_is_rated(void **state)
{
    struct price_version v = version(5, 100, 100, 0);
    struct price_part parts[1];
    size_t n = 9;

    (void)state;
    assert_int_equal(price_split(&v, 1, 50, 50, 60, parts, 1, &n), ERR_PRICE_UNKNOWN);
    assert_int_equal(price_split(&v, 0, 50, 50, 60, parts, 1, &n), ERR_PRICE_UNKNOWN);
    assert_int_equal(price_split(&v, 1, 150, 150, 150, parts, 1, &n), ERR_OK);
    assert_int_equal(n, 0);
}

static void parts_are_cut_at_months(void **state)
{
    struct zone z = shanghai();
    struct price_part parts[4] = {
        {0, at("2026-01-15T00:00:00+08:00"), at("2026-03-02T00:00:00+08:00")}};
    size_t n = 1;

    (void)state;
    assert_int_equal(price_split_months(&z, parts, 4, &n), ERR_OK);
    assert_int_equal(n, 3);
    assert_int_equal(parts[1].from_s, at("2026-02-01T00:00:00+08:00"));
    assert_int_equal(parts[1].to_s, at("2026-03-01T00:00:00+08:00"));
    assert_int_equal(parts[2].to_s, at("2026-03-02T00:00:00+08:00"));
    parts[0].to_s = at("2026-03-02T00:00:00+08:00");
    n = 1;
    assert_int_equal(price_split_months(&z, parts, 2, &n), ERR_TOO_LARGE);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(built_in_zones_need_no_file),
    cmocka_unit_test(footer_rules_are_read),
    cmocka_unit_test(broken_zone_files_are_refused),
    cmocka_unit_test(a_day_in_a_zone_can_be_23_or_25_hours),
    cmocka_unit_test(readings_in_gaps_and_folds_are_decided),
    cmocka_unit_test(plans_keep_their_anchor),
    cmocka_unit_test(times_are_read_in_each_form),
    cmocka_unit_test(a_cut_binds_at_once_and_a_rise_after_its_notice),
    cmocka_unit_test(a_rise_that_never_took_effect_is_passed_over),
    cmocka_unit_test(without_a_price_nothing_is_rated),
    cmocka_unit_test(parts_are_cut_at_months),
};
RUN_TESTS(tests)
