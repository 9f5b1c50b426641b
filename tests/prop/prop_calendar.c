/* P6: all zones, any anchor, sixty years: periods tile, seconds are exact, loops end. The second
 * opinion on offsets is the C library's, which reads the same zone files with other code. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/str.h"
#include "base/units.h"
#include "domain/calendar.h"
#include "tape.h"

#define ZONES_MAX 700
#define ZONE_BYTES_MAX 65536
#define ROOT "/usr/share/zoneinfo/"
#define YEARS_S (INT64_C(60) * 366 * DAY_S)

static struct {
    struct zone zone;
    char *data;
} zones[ZONES_MAX];
static size_t zone_count;

static int add_zone(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    const char *name = path + sizeof(ROOT) - 1;
    size_t len;
    FILE *f;

    (void)st;
    (void)ftw;
    if (kind != FTW_F || zone_count == ZONES_MAX || str_starts(name, "right/") ||
        str_starts(name, "posix/") || !(f = fopen(path, "rbe")))
        return 0;
    char *data = mem_alloc(ZONE_BYTES_MAX);
    len = fread(data, 1, ZONE_BYTES_MAX, f);
    fclose(f);
    if (len < 4 || memcmp(data, "TZif", 4) != 0) {
        free(data);
        return 0;
    }
    enum err e = zone_parse(name, data, len, &zones[zone_count].zone);
    CHECK(e == ERR_OK); /* every zone file of the machine is understood */
    zones[zone_count++].data = data;
    return 0;
}

static const struct zone *any_zone(struct tape *t)
{
    return &zones[tape_below(t, zone_count)].zone;
}

static int64_t any_instant(struct tape *t)
{
    return tape_range(t, 0, YEARS_S + YEARS_S / 2); /* 1970 to 2060 */
}

static void libc_zone(const struct zone *z)
{
    static const struct zone *loaded;
    char tz[ZONE_NAME_SIZE + 2];

    if (z == loaded)
        return;
    bool fits = str_printf(tz, sizeof(tz), ":%s", z->name);
    CHECK(fits);
    setenv("TZ", tz, 1);
    tzset();
    loaded = z;
}

static bool law_offsets(struct tape *t)
{
    const struct zone *z = any_zone(t);
    int64_t at = any_instant(t);

    libc_zone(z);
    for (int i = 0; i < 6; i++) {
        time_t when = (time_t)at;
        struct tm tm;
        struct civil c;

        TAPE_MUST(t, localtime_r(&when, &tm) != NULL);
        if (tm.tm_gmtoff != zone_offset(z, at))
            return tape_fail(t, "%s at %" PRId64 ": %ld, not %d", z->name, at, tm.tm_gmtoff,
                             zone_offset(z, at));
        civil_from(z, at, &c);
        TAPE_MUST(t, c.year == tm.tm_year + 1900 && c.month == tm.tm_mon + 1 &&
                         c.day == tm.tm_mday && c.hour == tm.tm_hour && c.minute == tm.tm_min &&
                         c.second == tm.tm_sec);
        /* on both sides of the next change */
        int64_t next = zone_next_change(z, at);
        TAPE_MUST(t, next > at);
        if (next == INT64_MAX)
            return true;
        TAPE_MUST(t, zone_offset(z, next - 1) == zone_offset(z, at));
        at = next - (i % 2 == 0);
    }
    return true;
}

/* Months touch; each is as long as its days; its border is the first instant of that month. */
static bool law_months(struct tape *t)
{
    const struct zone *z = any_zone(t);
    int64_t at = any_instant(t), begin;
    struct period month, day, around;

    period_month_at(z, at, &month);
    TAPE_MUST(t, month.from_s <= at && at < month.to_s);
    begin = month.from_s;
    for (int i = 0; i < 13; i++) {
        struct period next = month;
        struct civil c;

        period_next(z, &next);
        TAPE_MUST(t, next.from_s == month.to_s && month.to_s > month.from_s);
        TAPE_MUST(t, month.to_s - month.from_s >= 27 * DAY_S &&
                         month.to_s - month.from_s <= 32 * DAY_S);
        civil_from(z, month.from_s - 1, &c);
        TAPE_MUST(t, c.year * 12 + c.month < month.year * 12 + month.month);
        civil_from(z, month.from_s, &c);
        TAPE_MUST(t, c.year * 12 + c.month >= month.year * 12 + month.month);
        period_month_at(z, month.to_s - 1, &around);
        TAPE_MUST(t, around.from_s == month.from_s);
        begin += month.to_s - month.from_s;
        month = next;
    }
    TAPE_MUST(t, begin == month.from_s);
    int64_t sum = 0;
    period_day(z, month.year, month.month, 1, &day);
    TAPE_MUST(t, day.from_s == month.from_s);
    while (day.from_s < month.to_s && day.month == month.month) {
        sum += day.to_s - day.from_s;
        period_next(z, &day);
    }
    TAPE_MUST(t, sum == month.to_s - month.from_s && day.from_s == month.to_s);
    period_day_at(z, at, &day);
    TAPE_MUST(t, day.from_s <= at && at < day.to_s);
    return true;
}

/* Renewals of a plan tile the line for sixty years and keep the anchor. */
static bool law_renewals(struct tape *t)
{
    const struct zone *z = any_zone(t);
    int64_t start = any_instant(t) / 2;
    enum calendar_unit unit = tape_chance(t, 20) ? CALENDAR_YEAR : CALENDAR_MONTH;
    int64_t last = unit == CALENDAR_YEAR ? 60 : 720, n = tape_range(t, 1, last);
    int64_t before = n == 1 ? start : calendar_plan_end(z, start, unit, n - 1);
    struct civil anchor, c;

    civil_from(z, start, &anchor);
    for (int i = 0; i < 12; i++, n++) {
        int64_t end = calendar_plan_end(z, start, unit, n);
        int64_t months = anchor.year * 12 + anchor.month - 1 + n * (unit == CALENDAR_YEAR ? 12 : 1);
        int day = MIN(anchor.day, calendar_month_days(months / 12, (int)(months % 12) + 1));

        TAPE_MUST(t, end > before);
        civil_from(z, end, &c);
        bool exact = c.year * 12 + c.month - 1 == months && c.day == day && c.hour == anchor.hour &&
                     c.minute == anchor.minute && c.second == anchor.second;
        /* where that reading does not exist, it is the reading moved on by the gap */
        bool gap = zone_offset(z, end) > zone_offset(z, end - DAY_S - 7200);
        TAPE_MUST(t, exact || gap);
        before = end;
    }
    return true;
}

static bool law_round_trip(struct tape *t)
{
    const struct zone *z = any_zone(t);
    int64_t at = any_instant(t), back, first;
    struct civil c, again;

    civil_from(z, at, &c);
    back = civil_instant(z, &c);
    first = civil_first(z, &c);
    civil_from(z, back, &again);
    TAPE_MUST(t, c.year == again.year && c.month == again.month && c.day == again.day &&
                     c.hour == again.hour && c.minute == again.minute && c.second == again.second);
    TAPE_MUST(t, back <= at && first <= back && at - back <= 2 * DAY_S);
    return true;
}

/* Foreign bytes: any answer but a crash, and what is accepted can be used. */
static bool law_damaged(struct tape *t)
{
    size_t i = tape_below(t, zone_count), len = 0;
    static unsigned char copy[ZONE_BYTES_MAX];
    struct zone z;

    memcpy(copy, zones[i].data, 8192);
    for (uint64_t hits = tape_below(t, 6); hits > 0; hits--)
        copy[tape_below(t, tape_chance(t, 50) ? 100 : 2500)] = (unsigned char)tape_below(t, 256);
    len = tape_chance(t, 50) ? tape_below(t, 8192) : 8192;
    if (zone_parse("damaged", copy, len, &z) != ERR_OK)
        return true;
    int64_t at = any_instant(t);
    struct period month;
    period_month_at(&z, at, &month);
    TAPE_MUST(t, month.from_s <= at && at < month.to_s);
    return true;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"P6 offsets equal the C library's in every zone", law_offsets, 0},
        {"P6 months and days tile in every zone", law_months, 0},
        {"P6 renewals tile sixty years and keep their anchor", law_renewals, 0},
        {"P6 a reading and its instant are the same thing", law_round_trip, 0},
        {"P15 a damaged zone file is refused or usable", law_damaged, 0},
    };

    nftw(ROOT, add_zone, 16, FTW_PHYS);
    if (zone_count < 100) {
        printf("1..0 # SKIP no zone files in " ROOT "\n");
        return 0;
    }
    printf("# %zu zones\n", zone_count);
    return tape_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
