#include "domain/calendar.h"

#include "base/str.h"
#include "base/units.h"

/* ---- periods and plans: everything below the zone reader rests on civil_first ---- */

int calendar_month_days(int64_t year, int month)
{
    static const int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    CHECK(month >= 1 && month <= 12);
    return days[month - 1] + (month == 2 && leap);
}

void civil_from(const struct zone *z, int64_t t_s, struct civil *ret_c)
{
    int64_t local = t_s + zone_offset(z, t_s);
    int64_t days = local / DAY_S, rest = local % DAY_S;

    if (rest < 0) {
        rest += DAY_S;
        days--;
    }
    date_from_days(days, &ret_c->year, &ret_c->month, &ret_c->day);
    ret_c->hour = (int)(rest / 3600);
    ret_c->minute = (int)(rest / 60 % 60);
    ret_c->second = (int)(rest % 60);
}

/* What the zone's clock reads at c, as seconds since 1970-01-01T00:00 of that clock. */
static int64_t civil_reading(const struct civil *c)
{
    return date_to_days(c->year, c->month, c->day) * DAY_S + c->hour * 3600 + c->minute * 60 +
           c->second;
}

int64_t civil_first(const struct zone *z, const struct civil *c)
{
    int64_t reading = civil_reading(c);
    int64_t t = reading - 2 * DAY_S; /* no zone is further than a day and a bit from UTC */

    for (;;) {
        int64_t next = zone_next_change(z, t);
        int64_t at = reading - zone_offset(z, t);
        if (at <= t)
            return t;
        if (at < next)
            return at;
        t = next;
    }
}

int64_t civil_instant(const struct zone *z, const struct civil *c)
{
    int64_t reading = civil_reading(c);
    int64_t t = civil_first(z, c);

    if (t + zone_offset(z, t) == reading)
        return t;
    return reading - zone_offset(z, t - 1);
}

static void plain_month(const struct zone *z, int64_t year, int month, struct period *ret_p)
{
    struct civil from = {.year = year, .month = month, .day = 1};
    struct civil to = {.year = year + (month == 12), .month = month % 12 + 1, .day = 1};

    *ret_p = (struct period){
        .from_s = civil_first(z, &from), .to_s = civil_first(z, &to), .year = year, .month = month};
}

static void plain_day(const struct zone *z, int64_t year, int month, int day, struct period *ret_p)
{
    struct civil from = {.year = year, .month = month, .day = day}, to = {0};

    date_from_days(date_to_days(year, month, day) + 1, &to.year, &to.month, &to.day);
    *ret_p = (struct period){.from_s = civil_first(z, &from),
                             .to_s = civil_first(z, &to),
                             .year = year,
                             .month = month,
                             .day = day};
}

void zone_follow(struct zone *z, const struct zone *before, int64_t since_s)
{
    struct period first;

    period_month_at(before, since_s, &first);
    z->before = before;
    z->since_s = since_s;
    z->since_year = first.year;
    z->since_month = first.month;
}

const struct zone *zone_at(const struct zone *z, int64_t t_s)
{
    while (z->before && t_s < z->since_s)
        z = z->before;
    return z;
}

/* Nothing of a zone begins before it holds. */
static void cut_period(const struct zone *z, struct period *p)
{
    p->from_s = MAX(p->from_s, z->since_s);
    p->to_s = MAX(p->to_s, p->from_s);
}

void period_month(const struct zone *z, int64_t year, int month, struct period *ret_p)
{
    int64_t first = z->since_year * 12 + z->since_month;

    if (z->before && year * 12 + month < first) {
        period_month(z->before, year, month, ret_p);
        return;
    }
    plain_month(z, year, month, ret_p);
    if (z->before && year * 12 + month == first)
        ret_p->from_s = z->since_s;
    if (z->before)
        cut_period(z, ret_p);
}

void period_day(const struct zone *z, int64_t year, int month, int day, struct period *ret_p)
{
    int64_t at = date_to_days(year, month, day), first;

    if (!z->before) {
        plain_day(z, year, month, day, ret_p);
        return;
    }
    first = date_to_days(z->since_year, z->since_month, 1);
    if (at < first) {
        period_day(z->before, year, month, day, ret_p);
        return;
    }
    plain_day(z, year, month, day, ret_p);
    if (at == first)
        ret_p->from_s = z->since_s;
    cut_period(z, ret_p);
}

void period_next(const struct zone *z, struct period *p)
{
    if (p->day == 0) {
        period_month(z, p->year + (p->month == 12), p->month % 12 + 1, p);
        return;
    }
    int64_t year;
    int month, day;

    date_from_days(date_to_days(p->year, p->month, p->day) + 1, &year, &month, &day);
    period_day(z, year, month, day, p);
}

/* The clock's date began at or before t_s; where it was set back over midnight, a later date has
 * begun as well, so walk on. */
void period_month_at(const struct zone *z, int64_t t_s, struct period *ret_p)
{
    struct civil c;

    z = zone_at(z, t_s);
    civil_from(z, t_s, &c);
    if (z->before && c.year * 12 + c.month < z->since_year * 12 + z->since_month)
        c = (struct civil){.year = z->since_year, .month = z->since_month};
    period_month(z, c.year, c.month, ret_p);
    while (t_s >= ret_p->to_s)
        period_next(z, ret_p);
}

void period_day_at(const struct zone *z, int64_t t_s, struct period *ret_p)
{
    struct civil c;

    z = zone_at(z, t_s);
    civil_from(z, t_s, &c);
    if (z->before && c.year * 12 + c.month < z->since_year * 12 + z->since_month)
        c = (struct civil){.year = z->since_year, .month = z->since_month, .day = 1};
    period_day(z, c.year, c.month, c.day, ret_p);
    while (t_s >= ret_p->to_s)
        period_next(z, ret_p);
}

void period_format(const struct period *p, char *buf, size_t size)
{
    bool ok = p->day ? str_printf(buf, size, "%04" PRId64 "-%02d-%02d", p->year, p->month, p->day)
                     : str_printf(buf, size, "%04" PRId64 "-%02d", p->year, p->month);
    CHECK(ok);
}

/* Exactly n digits. */
static bool take_digits(const char **s, int n, int *ret_v)
{
    int v = 0;

    for (int i = 0; i < n; i++, (*s)++) {
        if (**s < '0' || **s > '9')
            return false;
        v = v * 10 + (**s - '0');
    }
    *ret_v = v;
    return true;
}

static bool take(const char **s, char c)
{
    if (**s != c)
        return false;
    (*s)++;
    return true;
}

enum err period_parse(const struct zone *z, const char *s, struct period *ret_p)
{
    int year, month;

    if (!take_digits(&s, 4, &year) || !take(&s, '-') || !take_digits(&s, 2, &month) || *s ||
        month < 1 || month > 12)
        return ERR_VALIDATION;
    period_month(z, year, month, ret_p);
    return ERR_OK;
}

bool calendar_unit_find(const char *name, enum calendar_unit *ret_u)
{
    static const char *const names[] = {"hour", "day", "week", "month", "year"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_eq(names[i], name)) {
            *ret_u = (enum calendar_unit)i;
            return true;
        }
    return false;
}

static int64_t add_months(const struct zone *z, int64_t start_s, int64_t months)
{
    struct civil c;

    civil_from(z, start_s, &c);
    int64_t index = c.year * 12 + (c.month - 1) + months;
    c.year = index / 12;
    c.month = (int)(index % 12) + 1;
    c.day = MIN(c.day, calendar_month_days(c.year, c.month));
    return civil_instant(z, &c);
}

int64_t calendar_plan_end(const struct zone *z, int64_t start_s, enum calendar_unit unit, int64_t n)
{
    switch (unit) {
    case CALENDAR_HOUR:
        return start_s + n * 3600;
    case CALENDAR_DAY:
        return start_s + n * DAY_S;
    case CALENDAR_WEEK:
        return start_s + n * 7 * DAY_S;
    case CALENDAR_MONTH:
        return add_months(z, start_s, n);
    case CALENDAR_YEAR:
        return add_months(z, start_s, n * 12);
    }
    CHECK(false);
}

/* "10:00:00" with an optional fraction, cut to ms. */
static bool take_clock(const char **s, struct civil *c, int *ret_ms)
{
    int unit = 100, ms = 0;

    if (!take_digits(s, 2, &c->hour) || !take(s, ':') || !take_digits(s, 2, &c->minute) ||
        c->hour > 23 || c->minute > 59)
        return false;
    if (take(s, ':') && (!take_digits(s, 2, &c->second) || c->second > 59))
        return false;
    if (take(s, '.')) {
        if (**s < '0' || **s > '9')
            return false;
        for (; **s >= '0' && **s <= '9'; (*s)++, unit /= 10)
            ms += (**s - '0') * unit;
    }
    *ret_ms = ms;
    return true;
}

enum err calendar_parse(const struct zone *z, const char *s, utime_t *ret_t)
{
    struct civil c = {.year = 1970, .month = 1, .day = 1};
    const char *p = s;
    int year, ms = 0;

    if (take_clock(&p, &c, &ms) && !*p) {
        *ret_t = civil_reading(&c) * MS_PER_S + ms;
        return ERR_OK;
    }
    p = s;
    c = (struct civil){0};
    ms = 0;
    if (!take_digits(&p, 4, &year) || !take(&p, '-') || !take_digits(&p, 2, &c.month) ||
        !take(&p, '-') || !take_digits(&p, 2, &c.day) || c.month < 1 || c.month > 12 || c.day < 1 ||
        c.day > calendar_month_days(year, c.month))
        return ERR_VALIDATION;
    c.year = year;
    if (*p && (!take(&p, 'T') || !take_clock(&p, &c, &ms)))
        return ERR_VALIDATION;
    if (*p)
        return time_parse(s, ret_t); /* an offset follows */
    *ret_t = civil_instant(z, &c) * MS_PER_S + ms;
    return ERR_OK;
}
