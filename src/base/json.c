#include "base/json.h"

#include <stdio.h>

#include "base/units.h"

void json_writer_init(struct json_writer *w, struct strbuf *out)
{
    *w = (struct json_writer){.out = out};
}

static void add_quoted(struct strbuf *out, const char *s)
{
    strbuf_add_n(out, "\"", 1);
    for (const char *p = s; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            strbuf_addf(out, "\\%c", c);
        else if (c == '\n')
            strbuf_add_n(out, "\\n", 2);
        else if (c < 0x20 || c == 0x7F)
            strbuf_addf(out, "\\u%04x", c);
        else
            strbuf_add_n(out, p, 1);
    }
    strbuf_add_n(out, "\"", 1);
}

static void begin_value(struct json_writer *w, const char *key)
{
    if (w->comma[w->depth])
        strbuf_add_n(w->out, ",", 1);
    w->comma[w->depth] = true;
    if (key) {
        add_quoted(w->out, key);
        strbuf_add_n(w->out, ":", 1);
    }
}

static void open_level(struct json_writer *w, const char *key, const char *bracket)
{
    begin_value(w, key);
    strbuf_add(w->out, bracket);
    CHECK(w->depth + 1 < JSON_DEPTH_MAX);
    w->comma[++w->depth] = false;
}

static void close_level(struct json_writer *w, const char *bracket)
{
    CHECK(w->depth > 0);
    w->depth--;
    strbuf_add(w->out, bracket);
}

void json_object_begin(struct json_writer *w, const char *key)
{
    open_level(w, key, "{");
}

void json_object_finish(struct json_writer *w)
{
    close_level(w, "}");
}

void json_array_begin(struct json_writer *w, const char *key)
{
    open_level(w, key, "[");
}

void json_array_finish(struct json_writer *w)
{
    close_level(w, "]");
}

void json_str(struct json_writer *w, const char *key, const char *v)
{
    begin_value(w, key);
    if (!v)
        strbuf_add(w->out, "null");
    else
        add_quoted(w->out, str_utf8_ok(v) ? v : "?");
}

void json_strf(struct json_writer *w, const char *key, const char *fmt, ...)
{
    AUTO_STRBUF struct strbuf b;
    va_list ap;

    strbuf_init(&b, 64 * 1024);
    va_start(ap, fmt);
    strbuf_addv(&b, fmt, ap);
    va_end(ap);
    json_str(w, key, strbuf_str(&b));
}

void json_i64(struct json_writer *w, const char *key, int64_t v)
{
    begin_value(w, key);
    strbuf_addf(w->out, "%" PRId64, v);
}

void json_flag(struct json_writer *w, const char *key, bool v)
{
    begin_value(w, key);
    strbuf_add(w->out, v ? "true" : "false");
}

void json_none(struct json_writer *w, const char *key)
{
    begin_value(w, key);
    strbuf_add(w->out, "null");
}

void json_time(struct json_writer *w, const char *key, utime_t t)
{
    char buf[40];

    if (t == UTIME_NEVER || t == 0) {
        json_none(w, key);
        return;
    }
    time_format(t, buf, sizeof(buf));
    json_str(w, key, buf);
}

void json_raw(struct json_writer *w, const char *key, const char *json)
{
    begin_value(w, key);
    strbuf_add(w->out, json && *json ? json : "null");
}

/* jansson recurses; refuse deep text before it does. Strings are skipped. */
static bool depth_ok(const char *text, size_t len)
{
    unsigned depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < len; i++) {
        if (quoted) {
            if (text[i] == '\\')
                i++;
            else if (text[i] == '"')
                quoted = false;
        } else if (text[i] == '"') {
            quoted = true;
        } else if (text[i] == '{' || text[i] == '[') {
            if (++depth > JSON_DEPTH_MAX)
                return false;
        } else if ((text[i] == '}' || text[i] == ']') && depth > 0) {
            depth--;
        }
    }
    return true;
}

enum err json_parse(const char *text, size_t len, size_t len_max, json_t **ret_v,
                    struct refusal *why)
{
    json_error_t error;

    if (len > len_max) {
        enum err e = refusef(why, ERR_TOO_LARGE, "what", "JSON");
        refusal_setf(why, "max", "%zu", len_max);
        return e;
    }
    if (!depth_ok(text, len))
        return refusef(why, ERR_BAD_JSON, "why", "nested deeper than %d", JSON_DEPTH_MAX);
    json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!v)
        return refusef(why, ERR_BAD_JSON, "why", "line %d: %.120s", error.line, error.text);
    *ret_v = v;
    return ERR_OK;
}

void json_free_ptr(json_t **v)
{
    json_decref(*v);
}

static const json_t *member(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return v && !json_is_null(v) ? v : NULL;
}

bool json_get_str(const json_t *o, const char *key, const char *def, const char **ret_v)
{
    const json_t *v = member(o, key);

    if (v && !json_is_string(v))
        return false;
    *ret_v = v ? json_string_value(v) : def;
    return true;
}

bool json_get_i64(const json_t *o, const char *key, int64_t def, int64_t *ret_v)
{
    const json_t *v = member(o, key);

    if (v && !json_is_integer(v))
        return false;
    *ret_v = v ? json_integer_value(v) : def;
    return true;
}

bool json_get_bool(const json_t *o, const char *key, bool def, bool *ret_v)
{
    const json_t *v = member(o, key);

    if (v && !json_is_boolean(v))
        return false;
    *ret_v = v ? json_boolean_value(v) : def;
    return true;
}

bool json_get_text(const json_t *o, const char *key, char *buf, size_t size)
{
    const char *s;

    return json_get_str(o, key, "", &s) && str_copy(buf, size, s);
}
