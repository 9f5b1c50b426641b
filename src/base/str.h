/* str.h: growing text with a maximum from birth, and small string helpers. */
#pragma once

#include <stdarg.h>

#include "base/err.h"
#include "base/mem.h"

/* Always NUL-terminated once something was added. Passing max sets overflow and drops the rest. */
struct strbuf {
    char *data; /* owned */
    size_t len, cap, max;
    bool overflow;
};
void strbuf_init(struct strbuf *b, size_t max);
void strbuf_fini(struct strbuf *b);
void strbuf_add(struct strbuf *b, const char *s);
void strbuf_add_n(struct strbuf *b, const void *p, size_t n);
void strbuf_addf(struct strbuf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void strbuf_addv(struct strbuf *b, const char *fmt, va_list ap);
void strbuf_reset(struct strbuf *b);            /* empty, memory kept */
const char *strbuf_str(const struct strbuf *b); /* "" when nothing was added */
char *strbuf_take(struct strbuf *b);            /* owned by the caller; the buffer is empty again */
#define AUTO_STRBUF CLEANUP(strbuf_fini)

static inline bool str_eq(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}
bool str_starts(const char *s, const char *prefix);
/* Copies src whole or, when it does not fit, returns false and leaves dst empty. */
bool str_copy(char *dst, size_t size, const char *src);
/* Printed into a fixed array; false (and an empty dst) when it does not fit. */
bool str_printf(char *dst, size_t size, const char *fmt, ...) PRINTF_LIKE(3, 4);
bool str_utf8_ok(const char *s);
/* Columns on a terminal: CJK and full-width forms count two, combining marks none. */
size_t str_width(const char *s);
/* Edit distance (insert, delete, replace, swap), for "did you mean"; at most 64 bytes each. */
size_t str_distance(const char *a, const char *b);
/* Whole decimal int64 in [min, max], no sign but '-', no blanks. */
enum err str_parse_i64(const char *s, int64_t min, int64_t max, int64_t *ret_v);
/* A name a user gives: 1-63 of a-z 0-9 - (ascii, starts with a letter or digit). */
bool str_is_name(const char *s);
