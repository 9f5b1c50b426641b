#include <stdlib.h>
#include <time.h>

#include "base/units.h"
#include "cli/cli.h"

static enum lang language;

void tr_set(enum lang lang)
{
    language = lang;
}

const char *tr(const char *english)
{
    return msg_tr(language, english);
}

/* Length of the unsafe sequence at s: C0 and C1 controls, DEL, direction and zero-width marks. */
static size_t unsafe_len(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;

    if (u[0] < 0x20 || u[0] == 0x7F)
        return 1;
    if (u[0] == 0xC2 && u[1] >= 0x80 && u[1] <= 0x9F)
        return 2;
    if (u[0] == 0xE2 && u[1] == 0x80 &&
        ((u[2] >= 0x8B && u[2] <= 0x8F) || (u[2] >= 0xA8 && u[2] <= 0xAE)))
        return 3;
    if (u[0] == 0xE2 && u[1] == 0x81 && u[2] >= 0xA6 && u[2] <= 0xA9)
        return 3;
    return 0;
}

void text_clean(const char *s, struct strbuf *out)
{
    while (*s) {
        size_t n = unsafe_len(s);
        if (n == 0)
            strbuf_add_n(out, s, 1);
        else if (*s == '\n' || *s == '\t')
            strbuf_add(out, " ");
        s += n ? n : 1;
    }
}

/* Talk may have several lines; everything else unsafe goes. */
static void print_clean(FILE *to, const char *s)
{
    AUTO_STRBUF struct strbuf b = {0};

    strbuf_init(&b, 1 << 20);
    while (*s) {
        size_t n = *s == '\n' ? 0 : unsafe_len(s);
        if (n == 0)
            strbuf_add_n(&b, s, 1);
        s += n ? n : 1;
    }
    fputs(strbuf_str(&b), to);
}

void say(struct cli *c, const char *fmt, ...)
{
    AUTO_STRBUF struct strbuf b = {0};
    va_list ap;

    progress_end(c);
    strbuf_init(&b, 1 << 20);
    va_start(ap, fmt);
    strbuf_addv(&b, fmt, ap);
    va_end(ap);
    print_clean(stderr, strbuf_str(&b));
    fputc('\n', stderr);
}

/* One line what, one line why, one line next, code and request id last. */
static void print_error(struct cli *c, const char *code, const char *what, const char *why,
                        const char *next, const char *request_id)
{
    say(c, "%s%s   [%s]", tr("error: "), what, code);
    if (why && *why && !str_eq(why, what))
        say(c, "%s%s", tr("  why: "), why);
    if (next && *next)
        say(c, "%s%s", tr("  try: "), next);
    if (request_id && *request_id)
        say(c, "%s%s", tr("  request id: "), request_id);
}

static void print_problem_json(const struct refusal *why, const char *what, const char *next)
{
    AUTO_STRBUF struct strbuf b = {0};
    struct json_writer w;

    strbuf_init(&b, 64 * 1024);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_str(&w, "code", err_code(why->code));
    json_str(&w, "title", what);
    json_str(&w, "detail", what);
    json_str(&w, "next", next);
    json_i64(&w, "status", err_http(why->code));
    json_none(&w, "request_id");
    json_object_begin(&w, "params");
    for (size_t i = 0; i < why->param_count; i++)
        json_str(&w, why->params[i].key, why->params[i].value);
    json_object_finish(&w);
    json_object_finish(&w);
    puts(strbuf_str(&b));
}

int fail(struct cli *c, const struct refusal *why)
{
    char what[1024], next[512];

    refusal_text(why, c->lang, what, sizeof(what));
    refusal_next(why, c->lang, next, sizeof(next));
    if (c->json)
        print_problem_json(why, what, next);
    print_error(c, err_code(why->code), what, NULL, next, NULL);
    return err_exit(why->code);
}

int fail_words(struct cli *c, struct refusal *why)
{
    for (size_t i = 0; i < why->param_count; i++) {
        const char *key = why->params[i].key;
        const char *text =
            str_eq(key, "why") || str_eq(key, "what") ? tr(why->params[i].value) : NULL;
        char copy[REFUSAL_VALUE_MAX];
        if (text && text != why->params[i].value && str_copy(copy, sizeof(copy), text))
            str_copy(why->params[i].value, sizeof(why->params[i].value), copy);
    }
    return fail(c, why);
}

int fail_usage(struct cli *c, const char *fmt, ...)
{
    char text[REFUSAL_VALUE_MAX];
    struct refusal why;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)refusef(&why, ERR_USAGE, "what", "%s", text);
    refusal_set(&why, "verb", c->command ? c->command : "all");
    return fail(c, &why);
}

int fail_problem(struct cli *c, const json_t *problem)
{
    const char *code = field_str(problem, "code"), *title = field_str(problem, "title");
    const char *detail = field_str(problem, "detail");
    enum err e;

    print_error(c, *code ? code : "internal", *title ? title : detail, detail,
                field_str(problem, "next"), field_str(problem, "request_id"));
    return err_find(code, &e) && e != ERR_OK ? err_exit(e) : 1;
}

int fail_answer(struct cli *c, const struct answer *a)
{
    if (a->status == 0)
        return fail(c, &a->why);
    if (!json_is_object(a->json) || !field_is(a->json, "code")) {
        struct refusal why;
        (void)refusef(&why, a->status >= 500 ? ERR_UNAVAILABLE : ERR_PROTOCOL, "why", "HTTP %ld",
                      a->status);
        return fail(c, &why);
    }
    if (c->json)
        view_json(a);
    return fail_problem(c, a->json);
}

const char *field_str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

int64_t field_i64(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

bool field_bool(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

bool field_is(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return v && !json_is_null(v);
}

/* Signs people know; every other currency is written by its code. */
static const char *currency_sign(const char *code)
{
    static const struct {
        const char *code, *sign;
    } known[] = {{"CNY", "¥"}, {"USD", "$"}, {"EUR", "€"}, {"GBP", "£"}, {"HKD", "HK$"}};

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (str_eq(known[i].code, code))
            return known[i].sign;
    return NULL;
}

/* Drops zeros behind the second decimal: 1.880000 → 1.88, 2 → 2.00, 0.000019 stays. */
static void amount_trim(const char *amount, bool pad, char *buf, size_t size)
{
    const char *dot = strchr(amount, '.');
    size_t whole = dot ? (size_t)(dot - amount) : strlen(amount), keep = dot ? strlen(dot + 1) : 0;

    while (keep > (pad ? 2u : 0u) && dot[keep] == '0')
        keep--;
    snprintf(buf, size, "%.*s", (int)whole, amount);
    if (keep == 0 && !pad)
        return;
    size_t n = strnlen(buf, size);
    snprintf(buf + n, size - n, ".%.*s%.*s", (int)keep, dot ? dot + 1 : "",
             (int)(keep < 2 ? 2 - keep : 0), "00");
}

void text_money(const json_t *money, char *buf, size_t size)
{
    const char *amount = field_str(money, "amount"), *code = field_str(money, "currency");
    const char *sign = currency_sign(code), *minus = *amount == '-' ? "-" : "";
    char trimmed[64];

    if (!*amount) {
        snprintf(buf, size, "-");
        return;
    }
    amount_trim(amount + (*amount == '-'), !str_eq(code, "JPY") && !str_eq(code, "KRW"), trimmed,
                sizeof(trimmed));
    if (sign)
        snprintf(buf, size, "%s%s%s", minus, sign, trimmed);
    else
        snprintf(buf, size, "%s%s %s", minus, code, trimmed);
}

bool money_is_zero(const json_t *money)
{
    const char *amount = field_str(money, "amount");

    return amount[strspn(amount, "-0.")] == '\0';
}

static void time_text(const char *rfc3339, bool exact, char *buf, size_t size)
{
    utime_t t;
    struct tm tm, now;
    char zone[8] = "", out[40];

    if (!*rfc3339 || time_parse(rfc3339, &t) != ERR_OK) {
        snprintf(buf, size, "%s", *rfc3339 ? "?" : "-");
        return;
    }
    time_t s = (time_t)(t / MS_PER_S), n = time(NULL);
    localtime_r(&s, &tm);
    localtime_r(&n, &now);
    bool today = !exact && tm.tm_year == now.tm_year && tm.tm_yday == now.tm_yday;
    if (exact)
        strftime(out, sizeof(out), "%Y-%m-%d %H:%M:%S", &tm);
    else if (today)
        strftime(out, sizeof(out), "%H:%M", &tm);
    else
        strftime(out, sizeof(out), "%Y-%m-%d %H:%M", &tm);
    strftime(zone, sizeof(zone), "%z", &tm); /* +0800 */
    snprintf(buf, size, "%s%.3s:%s", out, zone, strlen(zone) == 5 ? zone + 3 : "00");
}

void text_zone(const struct cli *c, const char *zone)
{
    static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/";

    if (!c->utc && *zone && *zone != '/' && zone[strspn(zone, ok)] == '\0') {
        setenv("TZ", zone, 1);
        tzset();
    }
}

void text_time(const char *rfc3339, char *buf, size_t size)
{
    time_text(rfc3339, false, buf, size);
}

void text_time_exact(const char *rfc3339, char *buf, size_t size)
{
    time_text(rfc3339, true, buf, size);
}

void text_card_hours(int64_t seconds, char *buf, size_t size)
{
    int minutes = (int)(seconds / 60 % 60);

    if (minutes > 0)
        (void)str_printf(buf, size, "%" PRId64 "h %dm", seconds / 3600, minutes);
    else
        (void)str_printf(buf, size, "%" PRId64 "h", seconds / 3600);
}

void text_duration(int64_t s, char *buf, size_t size)
{
    static const struct {
        const char *name;
        int64_t s;
    } unit[] = {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}};
    size_t i = 0;

    if (s < 0)
        s = 0;
    while (i < 3 && s < unit[i].s)
        i++;
    int64_t rest = i < 3 ? s % unit[i].s / unit[i + 1].s : 0;
    if (rest)
        snprintf(buf, size, "%" PRId64 "%s %" PRId64 "%s", s / unit[i].s, unit[i].name, rest,
                 unit[i + 1].name);
    else
        snprintf(buf, size, "%" PRId64 "%s", s / unit[i].s, unit[i].name);
}

void text_bytes(int64_t bytes, char *buf, size_t size)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t i = 0;
    int64_t tenths = bytes * (bytes < INT64_MAX / 10 ? 10 : 1);

    for (; tenths >= 10240 && i + 1 < ARRAY_LEN(unit); i++)
        tenths /= 1024;
    if (i == 0 || tenths >= 1000)
        snprintf(buf, size, "%" PRId64 " %s", tenths / 10, unit[i]);
    else
        snprintf(buf, size, "%" PRId64 ".%d %s", tenths / 10, (int)(tenths % 10), unit[i]);
}

void text_card(const json_t *o, struct strbuf *out)
{
    char memory[40];

    if (field_is(o, "gpu") && !field_bool(o, "no_gpu")) {
        strbuf_addf(out, "%" PRId64 " x ", field_i64(o, "gpu_count"));
        text_clean(field_str(o, "gpu"), out);
        if (field_bool(o, "simulated"))
            strbuf_addf(out, " (%s)", tr("simulated"));
        return;
    }
    size_format_mib(field_i64(o, "memory_mib"), memory, sizeof(memory));
    strbuf_addf(out, tr("CPU %" PRId64 ", %s"), field_i64(o, "cpu"), memory);
    if (field_bool(o, "no_gpu"))
        strbuf_addf(out, " (%s)", tr("no card"));
}
