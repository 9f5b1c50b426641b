#include "golden.h"

#include <stdio.h>

#include "base/units.h"

bool golden_fail(struct golden *g, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (!g->error[0])
        vsnprintf(g->error, sizeof(g->error), fmt, ap);
    va_end(ap);
    return false;
}

bool golden_ok(struct golden *g, enum err e, const char *doing)
{
    return e == ERR_OK || golden_fail(g, "%s: %s", doing, err_code(e));
}

/* ---- inputs ---- */

json_t *golden_get(struct golden *g, const json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);

    if (v)
        *vec_push(&g->marks) = (struct golden_mark){o, key};
    return json_is_null(v) ? NULL : v;
}

bool golden_has(struct golden *g, const char *key)
{
    return golden_get(g, g->in, key) != NULL;
}

bool golden_i64_or(struct golden *g, const json_t *o, const char *key, int64_t def, int64_t *ret_v)
{
    json_t *v = golden_get(g, o, key);

    if (v && !json_is_integer(v))
        return golden_fail(g, "%s is not an integer", key);
    *ret_v = v ? json_integer_value(v) : def;
    return true;
}

bool golden_i64(struct golden *g, const json_t *o, const char *key, int64_t *ret_v)
{
    if (!golden_get(g, o, key))
        return golden_fail(g, "%s is missing", key);
    return golden_i64_or(g, o, key, 0, ret_v);
}

bool golden_text(struct golden *g, const json_t *o, const char *key, const char *def,
                 const char **ret_s)
{
    json_t *v = golden_get(g, o, key);

    if (v && !json_is_string(v))
        return golden_fail(g, "%s is not text", key);
    *ret_s = v ? json_string_value(v) : def;
    return true;
}

bool golden_bool(struct golden *g, const json_t *o, const char *key, bool def, bool *ret_v)
{
    json_t *v = golden_get(g, o, key);

    if (v && !json_is_boolean(v))
        return golden_fail(g, "%s is not true or false", key);
    *ret_v = v ? json_is_true(v) : def;
    return true;
}

bool golden_pair(struct golden *g, const json_t *o, const char *key, int64_t *ret_n, int64_t *ret_d)
{
    json_t *v = golden_get(g, o, key);

    if (!json_is_array(v) || json_array_size(v) != 2 || !json_is_integer(json_array_get(v, 0)) ||
        !json_is_integer(json_array_get(v, 1)))
        return golden_fail(g, "%s is not a pair of integers", key);
    *ret_n = json_integer_value(json_array_get(v, 0));
    *ret_d = json_integer_value(json_array_get(v, 1));
    return true;
}

bool golden_list(struct golden *g, const json_t *o, const char *key, json_t **ret_list)
{
    json_t *v = golden_get(g, o, key);

    if (!json_is_array(v) || json_array_size(v) < 1 || json_array_size(v) > GOLDEN_ITEMS_MAX)
        return golden_fail(g, "%s is not a list", key);
    *ret_list = v;
    return true;
}

bool golden_i64s(struct golden *g, const json_t *o, const char *key, int64_t *ret_v, size_t max,
                 size_t *ret_n)
{
    json_t *list, *item;
    size_t i;

    if (!golden_list(g, o, key, &list))
        return false;
    if (json_array_size(list) > max)
        return golden_fail(g, "%s is too long", key);
    json_array_foreach(list, i, item)
    {
        if (!json_is_integer(item))
            return golden_fail(g, "%s holds something other than integers", key);
        ret_v[i] = json_integer_value(item);
    }
    *ret_n = json_array_size(list);
    return true;
}

static bool parse_time(struct golden *g, const json_t *v, const char *key, utime_t after_ms,
                       utime_t *ret_t)
{
    utime_t t;

    if (!json_is_string(v) || calendar_parse(&g->zone, json_string_value(v), &t) != ERR_OK)
        return golden_fail(g, "%s is not a time", key);
    bool bare = json_string_value(v)[2] == ':';
    if (bare && after_ms != INT64_MIN)
        while (t < after_ms)
            t += (utime_t)DAY_S * MS_PER_S;
    *ret_t = t;
    return true;
}

bool golden_time(struct golden *g, const json_t *o, const char *key, utime_t after_ms,
                 utime_t *ret_t)
{
    return parse_time(g, golden_get(g, o, key), key, after_ms, ret_t);
}

bool golden_span(struct golden *g, const json_t *o, const char *key, utime_t *ret_from,
                 utime_t *ret_to)
{
    json_t *v = golden_get(g, o, key);

    if (!json_is_array(v) || json_array_size(v) != 2)
        return golden_fail(g, "%s is not a pair of times", key);
    return parse_time(g, json_array_get(v, 0), key, INT64_MIN, ret_from) &&
           parse_time(g, json_array_get(v, 1), key, *ret_from, ret_to);
}

bool golden_mul(struct golden *g, int64_t a, int64_t b, int64_t *ret_v)
{
    return !__builtin_mul_overflow(a, b, ret_v) || golden_fail(g, "a quantity does not fit");
}

bool golden_gpus(struct golden *g, int64_t *ret_n)
{
    return golden_i64_or(g, g->in, "gpus", 1, ret_n) &&
           (*ret_n >= 0 || golden_fail(g, "gpus is negative"));
}

bool golden_minor(struct golden *g, int64_t *ret_minor_u)
{
    const char *code;
    struct currency ccy;

    if (!golden_text(g, g->in, "ccy", "CNY", &code) ||
        !golden_ok(g, currency_get(code, &ccy), "ccy") ||
        !golden_i64_or(g, g->in, "minor_u", currency_minor_u(ccy), ret_minor_u))
        return false;
    return *ret_minor_u > 0 || golden_fail(g, "minor_u is not positive");
}

bool golden_inclusive(struct golden *g, bool *ret_inclusive)
{
    const char *code;

    return golden_text(g, g->in, "ccy", "CNY", &code) &&
           golden_bool(g, g->in, "inclusive", str_eq(code, "CNY"), ret_inclusive);
}

/* The best price per 24 h: in card-seconds, so once per card. A budget's cap_u is no price. */
static bool add_cap(struct golden *g, const json_t *o, struct rate *r)
{
    int64_t gpus;

    if (str_eq(g->area, "budget") || !golden_get(g, o, "cap_u"))
        return true;
    return golden_gpus(g, &gpus) && golden_i64(g, o, "cap_u", &r->cap_u) &&
           golden_mul(g, r->cap_u, MAX(gpus, (int64_t)1), &r->cap_u) &&
           golden_mul(g, DAY_S, MAX(gpus, (int64_t)1), &r->cap_qty) &&
           golden_ok(g, rate_check(r), "cap_u");
}

/* What a price is per when the row does not say: an hour, for disks a day, for traffic a GiB. */
static int64_t usual_per(const struct golden *g)
{
    if (str_eq(g->area, "storage") || str_eq(g->area, "arrears"))
        return DAY_S;
    return str_eq(g->area, "traffic") ? INT64_C(1) << 30 : 3600;
}

bool golden_rate_named(struct golden *g, const json_t *o, const char *price_key,
                       const char *per_key, struct rate *ret_r)
{
    struct price_rate price;
    int64_t n = 1, d = 1, row_per;

    if (!golden_i64(g, o, price_key, &price.p) ||
        !golden_i64_or(g, g->in, per_key, usual_per(g), &row_per) ||
        !golden_i64_or(g, o, per_key, row_per, &price.d) ||
        !golden_ok(g, rate_flat(price, ret_r), price_key))
        return false;
    if (golden_has(g, "discount") && (!golden_pair(g, g->in, "discount", &n, &d) ||
                                      !golden_ok(g, rate_scale(ret_r, n, d), "discount")))
        return false;
    return o == g->in || !golden_get(g, o, "discount") ||
           (golden_pair(g, o, "discount", &n, &d) &&
            golden_ok(g, rate_scale(ret_r, n, d), "discount"));
}

bool golden_rate(struct golden *g, const json_t *o, struct rate *ret_r)
{
    return golden_rate_named(g, o, "price_u", "per", ret_r) && add_cap(g, g->in, ret_r) &&
           (o == g->in || add_cap(g, o, ret_r));
}

/* ---- results ---- */

void golden_put(struct golden *g, const char *key, int64_t v)
{
    json_object_set_new(g->out, key, json_integer(v));
}

void golden_put_text(struct golden *g, const char *key, const char *s)
{
    json_object_set_new(g->out, key, s ? json_string(s) : json_null());
}

void golden_put_json(struct golden *g, const char *key, json_t *v)
{
    json_object_set_new(g->out, key, v);
}

/* An instant is kept as such, so that it can be compared with any way of writing it. */
json_t *golden_time_json(int64_t t_s)
{
    return json_pack("{s:I}", "$time_s", (json_int_t)t_s);
}

void golden_put_time(struct golden *g, const char *key, int64_t t_s)
{
    golden_put_json(g, key, golden_time_json(t_s));
}

/* ---- judging ---- */

static const struct {
    const char *area;
    golden_fn *fn;
} areas[] = {
    {"per-second", golden_usage},
    {"price-precision", golden_usage},
    {"discount", golden_usage},
    {"day-cap", golden_usage},
    {"month-border", golden_usage},
    {"dst", golden_usage},
    {"leap-second", golden_usage},
    {"price-change", golden_usage},
    {"auto-release", golden_auto_release},
    {"dedupe", golden_deliveries},
    {"ordering", golden_deliveries},
    {"clock-jump", golden_clock_jump},
    {"evidence", golden_evidence},
    {"controller-down", golden_controller_down},
    {"spot", golden_spot},
    {"storage", golden_storage},
    {"traffic", golden_traffic},
    {"late-usage", golden_late},
    {"voucher", golden_voucher},
    {"package", golden_package},
    {"day-plan", golden_day_plan},
    {"conversion", golden_conversion},
    {"tax", golden_tax},
    {"invoice", golden_invoice},
    {"currency", golden_invoice},
    {"refund", golden_refund},
    {"calendar", golden_calendar},
    {"budget", golden_budget},
    {"arrears", golden_arrears},
    {"hold", golden_hold},
    {"payout", golden_payout},
    {"fx", golden_fx},
    {"focus", golden_focus},
    {"quote", golden_quote},
};

static bool marked(const struct golden *g, const json_t *o, const char *key)
{
    for (size_t i = 0; i < g->marks.len; i++)
        if (g->marks.at[i].object == o && str_eq(g->marks.at[i].key, key))
            return true;
    return false;
}

/* Nothing of the inputs may have been overlooked. */
static bool check_marks(struct golden *g, const json_t *v)
{
    const char *key;
    json_t *item;
    size_t i;

    if (json_is_array(v)) {
        json_array_foreach(v, i, item) if (!check_marks(g, item)) return false;
    } else if (json_is_object(v)) {
        json_object_foreach((json_t *)(uintptr_t)v, key, item)
        {
            if (!marked(g, v, key))
                return golden_fail(g, "unknown key %s for area %s", key, g->area);
            if (!check_marks(g, item))
                return false;
        }
    }
    return true;
}

static bool differ(struct golden *g, const char *path, const json_t *want, const json_t *got)
{
    char *a = json_dumps(want, JSON_ENCODE_ANY | JSON_COMPACT);
    char *b = got ? json_dumps(got, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

    golden_fail(g, "%s expected %.80s got %.80s", path, a ? a : "?", b ? b : "nothing");
    free(a);
    free(b);
    return false;
}

/* Who paid what: somebody who is not named paid nothing. */
static bool same_payers(struct golden *g, const char *path, json_t *want, json_t *got)
{
    const char *key;
    json_t *item;

    json_object_foreach(want, key, item) if (!json_is_integer(item) ||
                                             json_integer_value(item) !=
                                                 json_integer_value(json_object_get(
                                                     got, key))) return differ(g, path, want, got);
    json_object_foreach(got, key, item) if (json_integer_value(item) !=
                                            json_integer_value(json_object_get(
                                                want, key))) return differ(g, path, want, got);
    return true;
}

static bool same(struct golden *g, const char *path, json_t *want, json_t *got)
{
    const json_t *at = json_object_get(got, "$time_s");
    const char *key;
    json_t *item;
    size_t i;
    utime_t t;

    if (at)
        return (json_is_string(want) &&
                calendar_parse(&g->zone, json_string_value(want), &t) == ERR_OK &&
                t == json_integer_value(at) * MS_PER_S) ||
               differ(g, path, want, got);
    if (json_is_object(want) && json_is_object(got)) {
        if (str_eq(path, "used"))
            return same_payers(g, path, want, got);
        json_object_foreach(want, key,
                            item) if (!same(g, key, item, json_object_get(got, key))) return false;
        return true;
    }
    if (json_is_array(want) && json_is_array(got) &&
        json_array_size(want) == json_array_size(got)) {
        json_array_foreach(want, i,
                           item) if (!same(g, path, item, json_array_get(got, i))) return false;
        return true;
    }
    return (got && json_equal(want, got)) || differ(g, path, want, got);
}

/* The zone of the row: built in, or from the machine's zone files. */
static bool load_zone(struct golden *g)
{
    const char *name;
    char path[128];

    g->has_zone = golden_has(g, "tz");
    if (!golden_text(g, g->in, "tz", "Asia/Shanghai", &name))
        return false;
    if (zone_builtin(name, &g->zone))
        return true;
    if (strstr(name, "..") || name[0] == '/' ||
        !str_printf(path, sizeof(path), "/usr/share/zoneinfo/%s", name))
        return golden_fail(g, "tz is not a zone");
    FILE *f = fopen(path, "rbe");
    if (!f)
        return golden_fail(g, "no zone file for %s", name);
    g->zone_data = mem_alloc(GOLDEN_LINE_MAX);
    size_t len = fread(g->zone_data, 1, GOLDEN_LINE_MAX, f);
    fclose(f);
    return golden_ok(g, zone_parse(name, g->zone_data, len, &g->zone), "tz");
}

static bool judge(struct golden *g, json_t *expected)
{
    const char *code;
    struct currency ccy;
    size_t i = 0;

    if (!json_is_object(g->in) || !json_is_object(expected) || json_object_size(expected) == 0)
        return golden_fail(g, "inputs and expected must be objects with something in them");
    while (i < ARRAY_LEN(areas) && !str_eq(areas[i].area, g->area))
        i++;
    if (i == ARRAY_LEN(areas))
        return golden_fail(g, "unknown area %s", g->area);
    /* any row may say in which currency its numbers are */
    if (golden_has(g, "ccy") && (!golden_text(g, g->in, "ccy", "", &code) ||
                                 !golden_ok(g, currency_get(code, &ccy), "ccy")))
        return false;
    return load_zone(g) && areas[i].fn(g) && check_marks(g, g->in) &&
           same(g, "result", expected, g->out);
}

bool golden_skips(const char *line)
{
    return !*line || *line == '\n' || *line == '#' || str_starts(line, "id\t");
}

bool golden_line(const char *line, struct strbuf *ret_text)
{
    struct golden g = {.out = json_object()};
    char *copy = mem_strdup(line), *cells[6], *next = copy;
    json_t *expected = NULL;
    struct refusal why;
    bool passed = false;
    size_t n = 0;

    copy[strcspn(copy, "\r\n")] = '\0';
    while (n < ARRAY_LEN(cells) && next)
        cells[n++] = strsep(&next, "\t");
    if (n < 5) {
        golden_fail(&g, "expected five columns or more, got %zu", n);
    } else if (json_parse(cells[3], strlen(cells[3]), GOLDEN_LINE_MAX, &g.in, &why) != ERR_OK ||
               json_parse(cells[4], strlen(cells[4]), GOLDEN_LINE_MAX, &expected, &why) != ERR_OK) {
        golden_fail(&g, "inputs or expected are not JSON");
    } else {
        g.area = cells[1];
        passed = judge(&g, expected);
    }
    strbuf_addf(ret_text, "%s %s %s %s", passed ? "ok" : "FAILED", n > 0 ? cells[0] : "?",
                n > 1 ? cells[1] : "?", n > 2 ? cells[2] : "?");
    if (!passed)
        strbuf_addf(ret_text, ": %s", g.error[0] ? g.error : "failed");
    json_decref(g.in);
    json_decref(g.out);
    json_decref(expected);
    vec_fini(&g.marks);
    free(g.zone_data);
    free(copy);
    return passed;
}
