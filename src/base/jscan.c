#include "base/jscan.h"

#include "base/msg.h"
#include "base/str.h"

void jscan_init(struct jscan *s, const void *bytes, size_t len)
{
    *s = (struct jscan){.at = bytes, .end = (const char *)bytes + len};
}

static bool fail(struct jscan *s, const char *fault)
{
    s->fault = s->fault ? s->fault : fault;
    s->at = s->end;
    return false;
}

static bool cut_short(struct jscan *s)
{
    return fail(s, N_("it ends in the middle"));
}

static bool not_json(struct jscan *s)
{
    return s->at >= s->end ? cut_short(s) : fail(s, N_("it is not JSON"));
}

static void blanks(struct jscan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

static bool take(struct jscan *s, char c)
{
    blanks(s);
    if (s->fault || s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

enum jscan_type jscan_peek(struct jscan *s)
{
    blanks(s);
    if (s->fault || s->at >= s->end)
        return JSCAN_NONE;
    switch (*s->at) {
    case '{':
        return JSCAN_OBJECT;
    case '[':
        return JSCAN_ARRAY;
    case '"':
        return JSCAN_TEXT;
    case 't':
    case 'f':
    case 'n':
        return JSCAN_WORD;
    default:
        return *s->at == '-' || (*s->at >= '0' && *s->at <= '9') ? JSCAN_NUMBER : JSCAN_NONE;
    }
}

/* The text may be JSON all the same, with another kind of value at this place. */
static bool not_wanted(struct jscan *s)
{
    return jscan_peek(s) == JSCAN_NONE ? not_json(s)
                                       : fail(s, N_("a value of another kind was expected"));
}

static bool enter(struct jscan *s, char c)
{
    if (s->depth >= JSCAN_DEPTH_MAX)
        return fail(s, N_("it is nested too deeply"));
    if (!take(s, c))
        return not_wanted(s);
    s->depth++;
    s->filled &= ~(UINT64_C(1) << s->depth);
    s->objects &= ~(UINT64_C(1) << s->depth);
    s->objects |= c == '{' ? UINT64_C(1) << s->depth : 0;
    return true;
}

bool jscan_object(struct jscan *s)
{
    return enter(s, '{');
}

bool jscan_array(struct jscan *s)
{
    return enter(s, '[');
}

/* The next entry of the level: a comma before every one but the first, or the level's end. */
static bool entry(struct jscan *s, char close)
{
    uint64_t bit = UINT64_C(1) << s->depth;

    if (s->fault)
        return false;
    CHECK(s->depth > 0);
    if (take(s, close)) {
        s->depth--;
        return false;
    }
    if ((s->filled & bit) && !take(s, ','))
        return not_json(s);
    s->filled |= bit;
    return true;
}

bool jscan_item(struct jscan *s)
{
    return entry(s, ']');
}

/* One character of a text; 0 at its end. */
static int text_char(struct jscan *s)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    unsigned value = 0;

    if (*s->at == '"')
        return 0;
    if ((unsigned char)*s->at < 0x20)
        return not_json(s);
    if (*s->at != '\\')
        return (unsigned char)*s->at;
    if (++s->at >= s->end)
        return cut_short(s);
    const char *known = memchr(names, *s->at, sizeof(names) - 1);
    if (known)
        return means[known - names];
    if (*s->at != 'u' || s->end - s->at < 5)
        return not_json(s);
    for (int i = 0; i < 4; i++) {
        char c = *++s->at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 99;
        if (digit == 99)
            return not_json(s);
        value = value * 16 + digit;
    }
    return value >= 0x20 && value < 0x7F ? (int)value : '?';
}

bool jscan_text(struct jscan *s, char *buf, size_t size)
{
    size_t n = 0;

    if (!take(s, '"'))
        return not_wanted(s);
    for (;; s->at++) {
        if (s->at >= s->end)
            return cut_short(s);
        int c = text_char(s);
        if (s->fault)
            return false;
        if (c == 0)
            break;
        if (n + 1 < size)
            buf[n] = (char)c;
        n++;
    }
    s->at++;
    if (size > 0)
        buf[n < size ? n : 0] = '\0';
    return true;
}

bool jscan_key(struct jscan *s, char *buf, size_t size)
{
    if (!entry(s, '}'))
        return false;
    return jscan_text(s, buf, size) && (take(s, ':') || not_json(s));
}

static bool word(struct jscan *s, const char *w)
{
    size_t n = strlen(w);

    if ((size_t)(s->end - s->at) < n || memcmp(s->at, w, n) != 0)
        return false;
    s->at += n;
    return true;
}

static bool is_digit(const struct jscan *s)
{
    return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

/* A number's text; whole: no exponent and nothing but zeros after the point. */
static bool number(struct jscan *s, bool *ret_whole, bool *ret_fits, int64_t *ret_v)
{
    int64_t v = 0;

    blanks(s);
    bool minus = s->at < s->end && *s->at == '-';
    *ret_whole = *ret_fits = true;
    s->at += minus;
    if (!is_digit(s))
        return not_json(s);
    for (; is_digit(s); s->at++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *s->at - '0', &v))
            *ret_fits = false;
    if (!minus && __builtin_sub_overflow(0, v, &v))
        *ret_fits = false;
    if (s->at < s->end && *s->at == '.') {
        for (s->at++; is_digit(s); s->at++)
            *ret_whole &= *s->at == '0';
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        *ret_whole = false;
        s->at++;
        s->at += s->at < s->end && (*s->at == '+' || *s->at == '-');
        while (is_digit(s))
            s->at++;
    }
    *ret_v = v;
    return true;
}

bool jscan_i64(struct jscan *s, int64_t *ret_v)
{
    bool whole, fits;
    int64_t v;

    if (jscan_peek(s) != JSCAN_NUMBER)
        return s->at >= s->end ? cut_short(s) : fail(s, N_("a whole number was expected"));
    if (!number(s, &whole, &fits, &v))
        return false;
    if (!whole)
        return fail(s, N_("a whole number was expected"));
    if (!fits)
        return fail(s, N_("a number is too large"));
    *ret_v = v;
    return true;
}

bool jscan_bool(struct jscan *s, bool *ret_v)
{
    if (jscan_peek(s) == JSCAN_WORD && word(s, "true"))
        *ret_v = true;
    else if (jscan_peek(s) == JSCAN_WORD && word(s, "false"))
        *ret_v = false;
    else
        return s->at >= s->end ? cut_short(s) : fail(s, N_("true or false was expected"));
    return true;
}

static bool skip_scalar(struct jscan *s)
{
    bool whole, fits;
    int64_t v;
    char none[1];

    switch (jscan_peek(s)) {
    case JSCAN_TEXT:
        return jscan_text(s, none, sizeof(none));
    case JSCAN_NUMBER:
        return number(s, &whole, &fits, &v);
    case JSCAN_WORD:
        return word(s, "true") || word(s, "false") || word(s, "null") || not_json(s);
    case JSCAN_NONE:
    case JSCAN_OBJECT:
    case JSCAN_ARRAY:
        break;
    }
    return not_json(s);
}

bool jscan_skip(struct jscan *s)
{
    unsigned base = s->depth;
    char key[1];

    do {
        enum jscan_type t = jscan_peek(s);
        if (t == JSCAN_OBJECT ? !jscan_object(s)
                              : (t == JSCAN_ARRAY ? !jscan_array(s) : !skip_scalar(s)))
            return false;
        /* leave what is finished, step to the next value of what is not */
        while (s->depth > base) {
            bool more = s->objects >> s->depth & 1 ? jscan_key(s, key, sizeof(key)) : jscan_item(s);
            if (more)
                break;
            if (s->fault)
                return false;
        }
    } while (s->depth > base);
    return true;
}

bool jscan_end(struct jscan *s)
{
    blanks(s);
    return !s->fault && s->depth == 0 && s->at == s->end;
}
