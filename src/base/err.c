#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct err_row {
    const char *name;
    int http;
    int exit;
    const char *text[2];
    const char *next[2];
};

static const struct err_row rows[ERR_COUNT] = {
    [ERR_OK] = {"OK", 200, 0, {"", ""}, {"", ""}},
#define ERR(name, http, exit, en, en_next, zh, zh_next)                                            \
    [ERR_##name] = {#name, http, exit, {en, zh}, {en_next, zh_next}},
#include "base/errors.def"
#undef ERR
};

void base_check_failed(const char *cond, const char *file, int line)
{
    char buf[512];
    int n = snprintf(buf, sizeof(buf), "invariant broken: %s (%s:%d)\n", cond, file, line);

    if (n > 0)
        (void)!write(STDERR_FILENO, buf, MIN((size_t)n, sizeof(buf) - 1));
    abort();
}

enum err refuse(struct refusal *why, enum err code)
{
    if (why) {
        why->code = code;
        why->param_count = 0;
    }
    return code;
}

/* Copies at most size - 1 bytes and never ends inside a UTF-8 sequence. */
static void copy_utf8(char *dst, size_t size, const char *src)
{
    size_t n = strnlen(src, size);

    if (n >= size) {
        n = size - 1;
        while (n > 0 && ((unsigned char)src[n] & 0xC0) == 0x80)
            n--;
    }
    memcpy(dst, src, n);
    dst[n] = '\0';
}

void refusal_set(struct refusal *why, const char *key, const char *value)
{
    if (!why)
        return;
    CHECK(why->param_count < REFUSAL_PARAMS_MAX);
    CHECK(strlen(key) < sizeof(why->params[0].key));
    copy_utf8(why->params[why->param_count].key, sizeof(why->params[0].key), key);
    copy_utf8(why->params[why->param_count].value, REFUSAL_VALUE_MAX, value);
    why->param_count++;
}

static void set_va(struct refusal *why, const char *key, const char *fmt, va_list ap)
{
    char buf[REFUSAL_VALUE_MAX * 2];

    vsnprintf(buf, sizeof(buf), fmt, ap);
    refusal_set(why, key, buf);
}

void refusal_setf(struct refusal *why, const char *key, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set_va(why, key, fmt, ap);
    va_end(ap);
}

enum err refusef(struct refusal *why, enum err code, const char *key, const char *fmt, ...)
{
    va_list ap;
    enum err e = refuse(why, code);

    va_start(ap, fmt);
    set_va(why, key, fmt, ap);
    va_end(ap);
    return e;
}

const char *err_code(enum err e)
{
    static _Thread_local char code[48];
    const char *name = rows[(unsigned)e < ERR_COUNT ? e : ERR_INTERNAL].name;
    size_t i;

    for (i = 0; name[i] && i < sizeof(code) - 1; i++)
        code[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + ('a' - 'A') : name[i]);
    code[i] = '\0';
    return code;
}

bool err_find(const char *code, enum err *ret_e)
{
    for (int i = 0; i < ERR_COUNT; i++)
        if (strcmp(err_code((enum err)i), code) == 0) {
            *ret_e = (enum err)i;
            return true;
        }
    return false;
}

int err_http(enum err e)
{
    return rows[(unsigned)e < ERR_COUNT ? e : ERR_INTERNAL].http;
}

int err_exit(enum err e)
{
    return rows[(unsigned)e < ERR_COUNT ? e : ERR_INTERNAL].exit;
}

static const char *param_find(const struct refusal *why, const char *key, size_t len)
{
    for (size_t i = 0; i < why->param_count; i++)
        if (strlen(why->params[i].key) == len && memcmp(why->params[i].key, key, len) == 0)
            return why->params[i].value;
    return "";
}

static void fill(const struct refusal *why, const char *tmpl, char *buf, size_t size)
{
    size_t out = 0;

    for (const char *p = tmpl; *p && out + 1 < size;) {
        const char *end = *p == '{' ? strchr(p, '}') : NULL;
        if (!end) {
            buf[out++] = *p++;
            continue;
        }
        const char *v = param_find(why, p + 1, (size_t)(end - p - 1));
        copy_utf8(buf + out, size - out, v);
        out += strlen(buf + out);
        p = end + 1;
    }
    buf[out] = '\0';
}

void refusal_text(const struct refusal *why, enum lang lang, char *buf, size_t size)
{
    fill(why, rows[why->code].text[lang], buf, size);
}

void refusal_next(const struct refusal *why, enum lang lang, char *buf, size_t size)
{
    fill(why, rows[why->code].next[lang], buf, size);
}
