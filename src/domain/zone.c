/* zone.c: reader of IANA TZif data (RFC 8536, RFC 9636) and of the POSIX rule in its footer.
 *
 * Before the first transition the first type holds; inside the table the last transition at or
 * before the instant; after the table the footer's rule, else the last type for ever. Files that
 * count leap seconds ("right/") are refused: instants here are POSIX time. */
#include "domain/calendar.h"

#include "base/str.h"
#include "base/units.h"

#define HEADER_SIZE 44
#define TYPE_SIZE 6
#define OFFSET_MAX_S (26 * 3600)

bool zone_builtin(const char *name, struct zone *ret_z)
{
    struct zone z = {.has_rule = true};

    if (str_eq(name, "Asia/Shanghai"))
        z.std_offset_s = z.first_offset_s = 8 * 3600;
    else if (!str_eq(name, "UTC"))
        return false;
    bool ok = str_copy(z.name, sizeof(z.name), name);
    CHECK(ok);
    *ret_z = z;
    return true;
}

static uint32_t read_u32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t read_i64(const unsigned char *p)
{
    return (int64_t)((uint64_t)read_u32(p) << 32 | read_u32(p + 4));
}

static int64_t time_at(const struct zone *z, size_t i)
{
    return z->wide_times ? read_i64(z->times + 8 * i) : (int32_t)read_u32(z->times + 4 * i);
}

static int32_t type_offset(const struct zone *z, size_t i)
{
    return (int32_t)read_u32(z->infos + TYPE_SIZE * z->types[i]);
}

/* ---- the POSIX rule of the footer ---- */

static bool rule_number(const char **s, int max, int *ret_v)
{
    int v = 0;

    if (**s < '0' || **s > '9')
        return false;
    for (; **s >= '0' && **s <= '9'; (*s)++) {
        v = v * 10 + (**s - '0');
        if (v > max)
            return false;
    }
    *ret_v = v;
    return true;
}

static bool rule_name(const char **s)
{
    const char *p = *s;
    bool quoted = *p == '<';

    p += quoted;
    const char *from = p;
    while ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
           (quoted && ((*p >= '0' && *p <= '9') || *p == '+' || *p == '-')))
        p++;
    if (p - from < 3 || (quoted && *p++ != '>'))
        return false;
    *s = p;
    return true;
}

/* [+-]hh[:mm[:ss]] as seconds. */
static bool rule_time(const char **s, int hours_max, int32_t *ret_s)
{
    int hour, minute = 0, second = 0;
    bool negative = **s == '-';

    if (**s == '-' || **s == '+')
        (*s)++;
    if (!rule_number(s, hours_max, &hour))
        return false;
    if (**s == ':') {
        (*s)++;
        if (!rule_number(s, 59, &minute))
            return false;
        if (**s == ':') {
            (*s)++;
            if (!rule_number(s, 59, &second))
                return false;
        }
    }
    int32_t t = hour * 3600 + minute * 60 + second;
    *ret_s = negative ? -t : t;
    return true;
}

static bool rule_day(const char **s, struct zone_rule_day *ret_d)
{
    struct zone_rule_day d = {.kind = 'N', .time_s = 2 * 3600};

    if (*(*s)++ != ',')
        return false;
    if (**s == 'M') {
        (*s)++;
        d.kind = 'M';
        if (!rule_number(s, 12, &d.month) || *(*s)++ != '.' || !rule_number(s, 5, &d.week) ||
            *(*s)++ != '.' || !rule_number(s, 6, &d.day) || d.month < 1 || d.week < 1)
            return false;
    } else {
        if (**s == 'J') {
            (*s)++;
            d.kind = 'J';
        }
        if (!rule_number(s, 365, &d.day) || (d.kind == 'J' && d.day < 1))
            return false;
    }
    if (**s == '/') {
        (*s)++;
        if (!rule_time(s, 167, &d.time_s))
            return false;
    }
    *ret_d = d;
    return true;
}

static bool parse_rule(struct zone *z, const char *s)
{
    int32_t west;

    if (!*s)
        return true; /* the last type holds for ever */
    if (!rule_name(&s) || !rule_time(&s, 24, &west))
        return false;
    z->has_rule = true;
    z->std_offset_s = -west;
    if (!*s)
        return true;
    z->has_dst = true;
    z->dst_offset_s = z->std_offset_s + 3600;
    if (!rule_name(&s))
        return false;
    if (*s != ',') {
        if (!rule_time(&s, 24, &west))
            return false;
        z->dst_offset_s = -west;
    }
    return rule_day(&s, &z->dst_start) && rule_day(&s, &z->dst_finish) && !*s;
}

/* Days since the epoch on which a rule falls in a year. */
static int64_t rule_days(const struct zone_rule_day *d, int64_t year)
{
    if (d->kind == 'N')
        return date_to_days(year, 1, 1) + d->day;
    if (d->kind == 'J') {
        bool after_february = d->day >= 60 && calendar_month_days(year, 2) == 29;
        return date_to_days(year, 1, 1) + d->day - 1 + after_february;
    }
    int64_t first = date_to_days(year, d->month, 1);
    int64_t weekday = ((first + 4) % 7 + 7) % 7; /* 1970-01-01 was a Thursday */
    int64_t day = (d->day - weekday + 7) % 7 + 7 * (d->week - 1);
    while (day >= calendar_month_days(year, d->month))
        day -= 7;
    return first + day;
}

static int64_t rule_year(const struct zone *z, int64_t t_s)
{
    int64_t local = t_s + z->std_offset_s, year;
    int month, day;

    date_from_days(local / DAY_S - (local % DAY_S < 0), &year, &month, &day);
    return year;
}

static void rule_changes(const struct zone *z, int64_t year, int64_t *ret_start,
                         int64_t *ret_finish)
{
    *ret_start = rule_days(&z->dst_start, year) * DAY_S + z->dst_start.time_s - z->std_offset_s;
    *ret_finish = rule_days(&z->dst_finish, year) * DAY_S + z->dst_finish.time_s - z->dst_offset_s;
}

/* The last change at or before t_s decides; it can belong to the year before or after, where a rule
 * lies hours off its day. A summer time that begins where another ends goes on. */
static int32_t rule_offset(const struct zone *z, int64_t t_s)
{
    int64_t year = rule_year(z, t_s), last = INT64_MIN, start, finish;
    bool dst = false;

    for (int64_t y = year - 1; z->has_dst && y <= year + 1; y++) {
        rule_changes(z, y, &start, &finish);
        if (finish <= t_s && finish > last) {
            last = finish;
            dst = false;
        }
        if (start <= t_s && start >= last) {
            last = start;
            dst = true;
        }
    }
    return dst ? z->dst_offset_s : z->std_offset_s;
}

/* ---- the file ---- */

struct block {
    size_t ut_count, std_count, leap_count, time_count, type_count, char_count;
    size_t time_size;
    const unsigned char *data;
    size_t size;
};

static bool read_block(const unsigned char *p, size_t len, size_t time_size, struct block *ret_b)
{
    if (len < HEADER_SIZE || memcmp(p, "TZif", 4) != 0)
        return false;
    struct block b = {.time_size = time_size, .data = p + HEADER_SIZE};
    size_t *counts[6] = {&b.ut_count,   &b.std_count,  &b.leap_count,
                         &b.time_count, &b.type_count, &b.char_count};
    for (size_t i = 0; i < 6; i++) {
        *counts[i] = read_u32(p + 20 + 4 * i);
        if (*counts[i] > 1 << 20)
            return false;
    }
    b.size = b.time_count * (time_size + 1) + b.type_count * TYPE_SIZE + b.char_count +
             b.leap_count * (time_size + 4) + b.std_count + b.ut_count;
    if (b.size > len - HEADER_SIZE)
        return false;
    *ret_b = b;
    return true;
}

static bool load_block(struct zone *z, const struct block *b)
{
    if (b->type_count < 1 || b->type_count > 256 || b->leap_count > 0)
        return false;
    z->times = b->data;
    z->types = b->data + b->time_count * b->time_size;
    z->infos = z->types + b->time_count;
    z->time_count = b->time_count;
    z->wide_times = b->time_size == 8;
    for (size_t i = 0; i < b->type_count; i++) {
        int32_t offset = (int32_t)read_u32(z->infos + TYPE_SIZE * i);
        if (offset > OFFSET_MAX_S || offset < -OFFSET_MAX_S)
            return false;
    }
    for (size_t i = 0; i < b->time_count; i++)
        if (z->types[i] >= b->type_count || (i > 0 && time_at(z, i) <= time_at(z, i - 1)))
            return false;
    z->first_offset_s = (int32_t)read_u32(z->infos);
    return true;
}

static bool load_footer(struct zone *z, const unsigned char *p, size_t len)
{
    char rule[128];

    if (len < 2 || p[0] != '\n')
        return false;
    const unsigned char *end = memchr(p + 1, '\n', len - 1);
    if (!end || (size_t)(end - p) > sizeof(rule))
        return false;
    size_t n = (size_t)(end - p) - 1;
    memcpy(rule, p + 1, n);
    rule[n] = '\0';
    return strlen(rule) == n && parse_rule(z, rule);
}

enum err zone_parse(const char *name, const void *data, size_t len, struct zone *ret_z)
{
    const unsigned char *p = data;
    struct zone z = {0};
    struct block b;

    if (!str_copy(z.name, sizeof(z.name), name) || !read_block(p, len, 4, &b))
        return ERR_VALIDATION;
    if (p[4] >= '2') {
        size_t skip = HEADER_SIZE + b.size;
        if (!read_block(p + skip, len - skip, 8, &b) || !load_block(&z, &b) ||
            !load_footer(&z, b.data + b.size, len - (size_t)(b.data + b.size - p)))
            return ERR_VALIDATION;
    } else if (p[4] != 0 || !load_block(&z, &b)) {
        return ERR_VALIDATION;
    }
    *ret_z = z;
    return ERR_OK;
}

/* Number of transitions at or before t_s. */
static size_t count_until(const struct zone *z, int64_t t_s)
{
    size_t low = 0, high = z->time_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (time_at(z, middle) <= t_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t zone_offset(const struct zone *z, int64_t t_s)
{
    size_t passed = count_until(z, t_s);

    if (passed == z->time_count && z->has_rule)
        return rule_offset(z, t_s);
    return passed == 0 ? z->first_offset_s : type_offset(z, passed - 1);
}

int64_t zone_next_change(const struct zone *z, int64_t t_s)
{
    size_t passed = count_until(z, t_s);
    int64_t best = INT64_MAX;

    if (passed < z->time_count)
        return time_at(z, passed);
    if (!z->has_dst)
        return best;
    int64_t year = rule_year(z, t_s);
    for (int64_t y = year - 1; y <= year + 1; y++) {
        int64_t start, finish;
        rule_changes(z, y, &start, &finish);
        if (start > t_s)
            best = MIN(best, start);
        if (finish > t_s)
            best = MIN(best, finish);
    }
    return best;
}
