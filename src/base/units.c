#include "base/units.h"

#include <stdio.h>

static const char *digits(const char *s, int64_t *ret_v)
{
    int64_t v = 0;

    if (*s < '0' || *s > '9')
        return NULL;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s - '0', &v))
            return NULL;
    *ret_v = v;
    return s;
}

static bool add_part(int64_t *sum, int64_t v, int64_t unit)
{
    int64_t part;

    return !__builtin_mul_overflow(v, unit, &part) && !__builtin_add_overflow(*sum, part, sum);
}

/* D-HH:MM:SS, D-HH:MM, HH:MM:SS. A clock form has all its parts below their limits. */
static enum err parse_clock(const char *s, int64_t *ret_s)
{
    int64_t v, sum = 0, part[3] = {0, 0, 0};
    size_t n = 0;
    const char *dash = strchr(s, '-');

    if (dash) {
        s = digits(s, &v);
        if (s != dash || !add_part(&sum, v, 86400))
            return ERR_VALIDATION;
        s++;
    }
    for (;; s++) {
        s = n < 3 ? digits(s, &part[n++]) : NULL;
        if (!s || (*s && *s != ':'))
            return ERR_VALIDATION;
        if (!*s)
            break;
    }
    if ((n < 3 && !dash) || part[1] > 59 || part[2] > 59 || !add_part(&sum, part[0], 3600) ||
        !add_part(&sum, part[1] * 60 + part[2], 1) || sum == 0)
        return ERR_VALIDATION;
    *ret_s = sum;
    return ERR_OK;
}

enum err duration_parse(const char *s, int64_t *ret_s)
{
    static const struct {
        char c;
        int64_t s;
    } unit[] = {{'w', 604800}, {'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    size_t next = 0;
    int64_t sum = 0, v;

    if (strchr(s, ':'))
        return parse_clock(s, ret_s);
    while (*s) {
        s = digits(s, &v);
        if (!s)
            return ERR_VALIDATION;
        while (next < ARRAY_LEN(unit) && unit[next].c != *s)
            next++;
        if (next == ARRAY_LEN(unit) || !add_part(&sum, v, unit[next++].s))
            return ERR_VALIDATION;
        s++;
    }
    if (sum <= 0)
        return ERR_VALIDATION;
    *ret_s = sum;
    return ERR_OK;
}

void duration_format(int64_t s, char *buf, size_t size)
{
    static const struct {
        char c;
        int64_t s;
    } unit[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    size_t n = 0;

    CHECK(size >= 32 && s >= 0);
    snprintf(buf, size, "0s");
    for (size_t i = 0; i < ARRAY_LEN(unit); i++) {
        if (s / unit[i].s == 0)
            continue;
        n += (size_t)snprintf(buf + n, size - n, "%" PRId64 "%c", s / unit[i].s, unit[i].c);
        s %= unit[i].s;
    }
}

enum err size_parse_mib(const char *s, int64_t *ret_mib)
{
    static const struct {
        const char *name;
        unsigned __int128 bytes;
    } unit[] = {{"MiB", 1 << 20},
                {"GiB", 1 << 30},
                {"TiB", (int64_t)1 << 40},
                {"MB", 1000000},
                {"GB", (int64_t)1000000000},
                {"TB", (int64_t)1000000000000}};
    int64_t v;

    s = digits(s, &v);
    if (!s || v == 0)
        return ERR_VALIDATION;
    for (size_t i = 0; i < ARRAY_LEN(unit); i++) {
        if (strcmp(s, unit[i].name) != 0)
            continue;
        unsigned __int128 mib = ((unsigned __int128)v * unit[i].bytes + ((1 << 20) - 1)) >> 20;
        if (mib > (unsigned __int128)INT64_MAX)
            return ERR_VALIDATION;
        *ret_mib = (int64_t)mib;
        return ERR_OK;
    }
    return ERR_VALIDATION;
}

void size_format_mib(int64_t mib, char *buf, size_t size)
{
    if (mib % 1024 == 0)
        snprintf(buf, size, "%" PRId64 "GiB", mib / 1024);
    else
        snprintf(buf, size, "%" PRId64 "MiB", mib);
}

/* Howard Hinnant's civil-days algorithms, as published. */
int64_t date_to_days(int64_t year, int month, int day)
{
    int64_t y = year - (month <= 2);
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t yoe = y - era * 400;
    int64_t doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;

    return era * 146097 + doe - 719468;
}

void date_from_days(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;

    *ret_day = (int)(doy - (153 * mp + 2) / 5 + 1);
    *ret_month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *ret_year = yoe + era * 400 + (*ret_month <= 2);
}

void time_format(utime_t t, char *buf, size_t size)
{
    int64_t s = t / MS_PER_S - (t % MS_PER_S < 0), days = s / 86400 - (s % 86400 < 0), year;
    int64_t sod = s - days * 86400;
    int month, day;

    date_from_days(days, &year, &month, &day);
    snprintf(buf, size, "%04" PRId64 "-%02d-%02dT%02d:%02d:%02dZ", year, month, day,
             (int)(sod / 3600), (int)(sod / 60 % 60), (int)(sod % 60));
}

/* Exactly n digits followed by sep (0: nothing wanted); returns what comes after. */
static const char *field(const char *s, int n, char sep, int *ret_v)
{
    int v = 0;

    for (int i = 0; i < n; i++, s++) {
        if (*s < '0' || *s > '9')
            return NULL;
        v = v * 10 + (*s - '0');
    }
    *ret_v = v;
    if (sep && *s++ != sep)
        return NULL;
    return s;
}

static const char *parse_fraction(const char *s, int *ret_ms)
{
    int scale = 100;

    *ret_ms = 0;
    if (*s != '.')
        return s;
    for (s++; *s >= '0' && *s <= '9'; s++, scale /= 10)
        *ret_ms += (*s - '0') * scale;
    return s[-1] == '.' ? NULL : s;
}

static const char *parse_offset(const char *s, int *ret_s)
{
    int sign = *s == '-' ? -1 : 1, h, m;

    *ret_s = 0;
    if (*s == 'Z')
        return s + 1;
    if (*s != '+' && *s != '-')
        return NULL;
    if (!(s = field(s + 1, 2, ':', &h)) || !(s = field(s, 2, 0, &m)) || h > 23 || m > 59)
        return NULL;
    *ret_s = sign * (h * 3600 + m * 60);
    return s;
}

enum err time_parse(const char *s, utime_t *ret_t)
{
    static const int month_days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day, h, m, sec, ms, off;

    if (!(s = field(s, 4, '-', &year)) || !(s = field(s, 2, '-', &month)) ||
        !(s = field(s, 2, 'T', &day)) || !(s = field(s, 2, ':', &h)) ||
        !(s = field(s, 2, ':', &m)) || !(s = field(s, 2, 0, &sec)) ||
        !(s = parse_fraction(s, &ms)) || !(s = parse_offset(s, &off)) || *s)
        return ERR_VALIDATION;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (month < 1 || month > 12 || day < 1 || day > month_days[month - 1] ||
        (month == 2 && day == 29 && !leap) || h > 23 || m > 59 || sec > 59)
        return ERR_VALIDATION;
    *ret_t =
        (date_to_days(year, month, day) * 86400 + h * 3600 + m * 60 + sec - off) * MS_PER_S + ms;
    return ERR_OK;
}
