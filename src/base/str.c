#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

void strbuf_init(struct strbuf *b, size_t max)
{
    *b = (struct strbuf){.max = max};
}

void strbuf_fini(struct strbuf *b)
{
    free(b->data);
    *b = (struct strbuf){0};
}

void strbuf_reset(struct strbuf *b)
{
    b->len = 0;
    b->overflow = false;
    if (b->data)
        b->data[0] = '\0';
}

void strbuf_add_n(struct strbuf *b, const void *p, size_t n)
{
    if (n > b->max - MIN(b->len, b->max)) {
        b->overflow = true;
        n = b->max - MIN(b->len, b->max);
    }
    if (b->len + n + 1 > b->cap) {
        b->cap = MAX(b->len + n + 1, b->cap * 2);
        b->data = mem_realloc(b->data, b->cap, 1);
    }
    if (n)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void strbuf_add(struct strbuf *b, const char *s)
{
    strbuf_add_n(b, s, strlen(s));
}

void strbuf_addv(struct strbuf *b, const char *fmt, va_list ap)
{
    char small[512];
    va_list again;

    va_copy(again, ap);
    int n = vsnprintf(small, sizeof(small), fmt, ap);
    if (n >= 0 && (size_t)n < sizeof(small)) {
        strbuf_add_n(b, small, (size_t)n);
    } else if (n >= 0) {
        AUTO_FREE char *big = mem_alloc((size_t)n + 1);
        vsnprintf(big, (size_t)n + 1, fmt, again);
        strbuf_add_n(b, big, (size_t)n);
    }
    va_end(again);
}

void strbuf_addf(struct strbuf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    strbuf_addv(b, fmt, ap);
    va_end(ap);
}

const char *strbuf_str(const struct strbuf *b)
{
    return b->data ? b->data : "";
}

char *strbuf_take(struct strbuf *b)
{
    char *s = b->data ? b->data : mem_strdup("");

    b->data = NULL;
    b->len = b->cap = 0;
    return s;
}

bool str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_copy(char *dst, size_t size, const char *src)
{
    size_t n = strlen(src);

    CHECK(size > 0);
    dst[0] = '\0';
    if (n >= size)
        return false;
    memcpy(dst, src, n + 1);
    return true;
}

bool str_printf(char *dst, size_t size, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(dst, size, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= size) {
        dst[0] = '\0';
        return false;
    }
    return true;
}

/* Decodes one code point; returns its length, 0 when the bytes are not UTF-8. */
static size_t utf8_next(const char *s, uint32_t *ret_cp)
{
    const unsigned char *u = (const unsigned char *)s;
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = u[0] < 0x80 ? 1 : u[0] >> 5 == 6 ? 2 : u[0] >> 4 == 14 ? 3 : u[0] >> 3 == 30 ? 4 : 0;
    uint32_t cp = n == 1 ? u[0] : n ? u[0] & (0x7Fu >> n) : 0;

    for (size_t i = 1; i < n; i++) {
        if ((u[i] & 0xC0) != 0x80)
            return 0;
        cp = cp << 6 | (u[i] & 0x3F);
    }
    if (n == 0 || cp < least[n] || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        return 0;
    *ret_cp = cp;
    return n;
}

bool str_utf8_ok(const char *s)
{
    uint32_t cp;

    while (*s) {
        size_t n = utf8_next(s, &cp);
        if (n == 0)
            return false;
        s += n;
    }
    return true;
}

static bool is_wide(uint32_t c)
{
    return (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF && c != 0x303F) ||
           (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
           (c >= 0xFFE0 && c <= 0xFFE6) || (c >= 0x1F300 && c <= 0x1F64F) ||
           (c >= 0x20000 && c <= 0x3FFFD);
}

size_t str_width(const char *s)
{
    size_t width = 0;
    uint32_t cp;

    while (*s) {
        size_t n = utf8_next(s, &cp);
        if (n == 0) {
            n = 1;
            cp = '?';
        }
        bool none = (cp >= 0x300 && cp <= 0x36F) || (cp >= 0x200B && cp <= 0x200F) || cp < 0x20;
        width += none ? 0 : is_wide(cp) ? 2 : 1;
        s += n;
    }
    return width;
}

size_t str_distance(const char *a, const char *b)
{
    size_t n = strnlen(a, 64), m = strnlen(b, 64);
    size_t d[3][65];

    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *cur = d[i % 3], *prev = d[(i - 1) % 3], *prev2 = d[(i + 1) % 3];
        cur[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t sub = prev[j - 1] + (a[i - 1] != b[j - 1]);
            cur[j] = MIN(MIN(prev[j] + 1, cur[j - 1] + 1), sub);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cur[j] = MIN(cur[j], prev2[j - 2] + 1);
        }
    }
    return d[n % 3][m];
}

enum err str_parse_i64(const char *s, int64_t min, int64_t max, int64_t *ret_v)
{
    bool neg = *s == '-';
    int64_t v = 0;

    s += neg;
    if (!*s)
        return ERR_VALIDATION;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, 10, &v) ||
            (neg ? __builtin_sub_overflow(v, *s - '0', &v)
                 : __builtin_add_overflow(v, *s - '0', &v)))
            return ERR_VALIDATION;
    }
    if (v < min || v > max)
        return ERR_VALIDATION;
    *ret_v = v;
    return ERR_OK;
}

bool str_is_name(const char *s)
{
    size_t n = 0;

    for (; s[n]; n++) {
        bool alnum = (s[n] >= 'a' && s[n] <= 'z') || (s[n] >= '0' && s[n] <= '9');
        if (!(alnum || (n > 0 && s[n] == '-')) || n >= 63)
            return false;
    }
    return n > 0;
}
