/* calendar.h: instants, zones and periods (money.md 1.6). Pure: no clock, no files, no libc zone.
 *
 * Instants are whole seconds since the POSIX epoch, UTC (names end in _s). Zones come from the
 * bytes of an IANA TZif file that the caller read; UTC and Asia/Shanghai are built in. A period is
 * [from_s, to_s); the end of one is the start of the next, in every zone and at every change.
 * The bytes given to zone_parse are borrowed by the zone and must outlive it. */
#pragma once

#include "base/err.h"

#define ZONE_NAME_SIZE 48
#define DAY_S 86400

struct zone_rule_day {
    char kind;            /* 'M' month.week.day, 'J' 1..365 without 29 Feb, 'N' 0..365 */
    int month, week, day; /* day alone for J and N */
    int32_t time_s;       /* local seconds after 00:00, −167 h … 167 h */
};

struct zone {
    char name[ZONE_NAME_SIZE];
    /* borrowed, big-endian, from the TZif bytes; none for built-in zones */
    const unsigned char *times, *types, *infos;
    size_t time_count;
    bool wide_times;        /* 8 bytes each, else 4 */
    int32_t first_offset_s; /* before the first transition */
    /* after the last transition */
    bool has_rule, has_dst;
    int32_t std_offset_s, dst_offset_s;
    struct zone_rule_day dst_start, dst_finish;
    /* billing only (zone_follow): another zone's periods up to since_s; NULL: none */
    const struct zone *before;
    int64_t since_s, since_year;
    int since_month;
};

/* UTC and Asia/Shanghai (UTC+8, as it has been since 1991); false for any other name. */
bool zone_builtin(const char *name, struct zone *ret_z);
/* TZif version 1 to 4, with the POSIX rule of the footer. ERR_VALIDATION for anything broken. */
enum err zone_parse(const char *name, const void *data, size_t len, struct zone *ret_z);
/* Seconds east of UTC at that instant. */
int32_t zone_offset(const struct zone *z, int64_t t_s);
/* The next instant after t_s at which the zone's offset may change; INT64_MAX: never again. */
int64_t zone_next_change(const struct zone *z, int64_t t_s);

/* A billing zone that follows another at since_s, the end of one of its months: periods that end by
 * then are before's, the month after is the first of z, from since_s on, whatever its clock reads.
 * So periods tile over the change. before is borrowed. */
void zone_follow(struct zone *z, const struct zone *before, int64_t since_s);
/* The zone whose periods hold at that instant. */
const struct zone *zone_at(const struct zone *z, int64_t t_s);

struct civil {
    int64_t year;
    int month, day; /* 1.. */
    int hour, minute, second;
};
void civil_from(const struct zone *z, int64_t t_s, struct civil *ret_c);
/* The first instant at which the zone's clock reads c or later. Borders of periods use this. */
int64_t civil_first(const struct zone *z, const struct civil *c);
/* The instant of a wall-clock reading: the earlier of two; one that does not exist is moved on by
 * the width of the gap. Ends of plans use this. */
int64_t civil_instant(const struct zone *z, const struct civil *c);
int calendar_month_days(int64_t year, int month);

struct period {
    int64_t from_s, to_s;
    int64_t year;
    int month;
    int day; /* 0: the whole month */
};
/* Month 1..12 of the zone; the month or day (of the zone) that holds an instant. */
void period_month(const struct zone *z, int64_t year, int month, struct period *ret_p);
void period_day(const struct zone *z, int64_t year, int month, int day, struct period *ret_p);
void period_month_at(const struct zone *z, int64_t t_s, struct period *ret_p);
void period_day_at(const struct zone *z, int64_t t_s, struct period *ret_p);
void period_next(const struct zone *z, struct period *p);
/* "2026-01" or "2026-01-31" */
void period_format(const struct period *p, char *buf, size_t size);
/* "2026-01"; ERR_VALIDATION for other text. */
enum err period_parse(const struct zone *z, const char *s, struct period *ret_p);

enum calendar_unit { CALENDAR_HOUR, CALENDAR_DAY, CALENDAR_WEEK, CALENDAR_MONTH, CALENDAR_YEAR };
bool calendar_unit_find(const char *name, enum calendar_unit *ret_u); /* "month" */
/* End of the n-th term (n >= 1) of a plan that began at start_s: hours, days and weeks are fixed
 * seconds; months and years keep the wall-clock time and the anchor day, clamped to the last day
 * of a shorter month (31 Jan → 28 Feb → 31 Mar). */
int64_t calendar_plan_end(const struct zone *z, int64_t start_s, enum calendar_unit unit,
                          int64_t n);

/* "10:00:00" or "10:00:00.400" after 1970-01-01, or RFC 3339, or a date "2026-03-09" (its start in
 * z). ms. ERR_VALIDATION for other text. */
enum err calendar_parse(const struct zone *z, const char *s, utime_t *ret_t);
