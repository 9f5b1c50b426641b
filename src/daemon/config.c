#include "daemon/config.h"

#include <errno.h>
#include <stdlib.h>

#include "base/msg.h"
#include "base/str.h"
#include "domain/calendar.h"
#include "domain/money.h"

#define CONFIG_MAX (256 * 1024)

enum key_type {
    TYPE_PATH,
    TYPE_TEXT,
    TYPE_NAME,
    TYPE_FLAG,
    TYPE_LISTEN,
    TYPE_CURRENCY,
    TYPE_ZONE,
    TYPE_LANG,
    TYPE_LEVEL,
    TYPE_METRICS,
    TYPE_NUMBER
};
struct key {
    const char *name, *def, *help;
    enum key_type type;
    size_t offset;
    int64_t def_int, min, max;
};

static const struct key keys[] = {
#define KEY(n, t, d, h)                                                                            \
    {.name = #n,                                                                                   \
     .type = TYPE_##t,                                                                             \
     .def = d,                                                                                     \
     .help = h,                                                                                    \
     .offset = offsetof(struct daemon_config, n)},
#define KEY_INT(n, d, lo, hi, h)                                                                   \
    {.name = #n,                                                                                   \
     .type = TYPE_NUMBER,                                                                          \
     .def_int = d,                                                                                 \
     .min = lo,                                                                                    \
     .max = hi,                                                                                    \
     .help = h,                                                                                    \
     .offset = offsetof(struct daemon_config, n)},
#include "daemon/config.def"
#undef KEY
#undef KEY_INT
};

static char *text_of(const struct daemon_config *c, const struct key *k)
{
    return (char *)(uintptr_t)c + k->offset;
}

static int64_t *number_of(const struct daemon_config *c, const struct key *k)
{
    return (int64_t *)(void *)((char *)(uintptr_t)c + k->offset);
}

static enum err bad(const char *where, const char *key, const char *text, struct refusal *why)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%.190s", where);

    refusal_setf(why, "why", "%s: %s", key, text);
    return e;
}

static bool one_of(const char *s, const char *a, const char *b, const char *c, const char *d)
{
    return str_eq(s, a) || str_eq(s, b) || (c && str_eq(s, c)) || (d && str_eq(s, d));
}

static bool listen_parse(const char *s, char *host, size_t size, uint16_t *ret_port)
{
    const char *colon = strrchr(s, ':');
    const char *from = s;
    int64_t port;

    host[0] = '\0';
    *ret_port = 0;
    if (str_eq(s, "off"))
        return true;
    if (!colon || str_parse_i64(colon + 1, 0, 65535, &port) != ERR_OK)
        return false;
    size_t n = (size_t)(colon - s);
    if (n > 2 && s[0] == '[' && s[n - 1] == ']') { /* [::1]:7700 */
        from++;
        n -= 2;
    }
    *ret_port = (uint16_t)port;
    return n > 0 && n < size && str_printf(host, size, "%.*s", (int)n, from);
}

size_t config_zone_read(const char *name, void *data, size_t size)
{
    char path[300];
    FILE *f;

    if (!*name || name[0] == '/' || strstr(name, "..") ||
        !str_printf(path, sizeof(path), "/usr/share/zoneinfo/%s", name) || !(f = fopen(path, "re")))
        return 0;
    size_t n = fread(data, 1, size, f);
    (void)fclose(f);
    return n;
}

/* Built in, or a file of the system's tz database. */
static bool zone_known(const char *name)
{
    unsigned char data[CONFIG_ZONE_MAX];
    struct zone z;

    return zone_builtin(name, &z) ||
           zone_parse(name, data, config_zone_read(name, data, sizeof(data)), &z) == ERR_OK;
}

/* NULL when the text is of the key's type, else what was expected. */
static const char *text_fault(const struct key *k, const char *s)
{
    char host[64];
    uint16_t port;
    struct currency ccy;

    switch (k->type) {
    case TYPE_PATH:
        return !*s || (s[0] == '/' && !strstr(s, "/../")) ? NULL : N_("an absolute path");
    case TYPE_FLAG:
        return one_of(s, "yes", "no", NULL, NULL) ? NULL : N_("yes or no");
    case TYPE_NAME:
        return !*s || str_is_name(s) ? NULL : N_("1 to 63 of a-z, 0-9 and -");
    case TYPE_LISTEN:
        return listen_parse(s, host, sizeof(host), &port)
                   ? NULL
                   : N_("ADDRESS:PORT such as 127.0.0.1:7700");
    case TYPE_CURRENCY:
        return currency_get(s, &ccy) == ERR_OK ? NULL : N_("a currency such as CNY");
    case TYPE_ZONE:
        return zone_known(s) ? NULL : N_("a time zone such as Asia/Shanghai");
    case TYPE_LANG:
        return one_of(s, "zh-CN", "en", NULL, NULL) ? NULL : N_("zh-CN or en");
    case TYPE_LEVEL:
        return one_of(s, "debug", "info", "warn", "error") ? NULL
                                                           : N_("debug, info, warn or error");
    case TYPE_METRICS:
        return one_of(s, "local", "token", NULL, NULL) ? NULL : N_("local or token");
    case TYPE_TEXT:
    case TYPE_NUMBER:
        break;
    }
    return NULL;
}

static enum err value_set(const struct key *k, const char *s, const char *where,
                          struct daemon_config *c, struct refusal *why)
{
    if (k->type == TYPE_NUMBER) {
        char range[80];
        if (str_parse_i64(s, k->min, k->max, number_of(c, k)) == ERR_OK)
            return ERR_OK;
        CHECK(str_printf(range, sizeof(range), "%" PRId64 " to %" PRId64, k->min, k->max));
        return bad(where, k->name, range, why);
    }
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            return bad(where, k->name, N_("control characters are not taken"), why);
    /* Nothing of a longer default stays behind the end. */
    memset(text_of(c, k), 0, 256);
    if (!str_utf8_ok(s) || !str_copy(text_of(c, k), 256, s))
        return bad(where, k->name, N_("at most 255 bytes of UTF-8"), why);
    const char *fault = text_fault(k, s);
    return fault ? bad(where, k->name, fault, why) : ERR_OK;
}

static const char *near_key(const char *name)
{
    const char *best = NULL;
    size_t best_d = 4;

    for (size_t i = 0; i < ARRAY_LEN(keys) && strlen(name) <= 64; i++) {
        size_t d = str_distance(name, keys[i].name);
        if (d < best_d) {
            best_d = d;
            best = keys[i].name;
        }
    }
    return best;
}

static char *trim(char *s)
{
    s += strspn(s, " \t");
    for (size_t n = strlen(s); n && strchr(" \t\r", s[n - 1]); n--)
        s[n - 1] = '\0';
    return s;
}

static enum err line_read(char *line, const char *where, bool *seen, struct daemon_config *c,
                          struct refusal *why)
{
    char *text = trim(line), *eq = strchr(text, '=');
    enum err e;

    if (!*text || *text == '#')
        return ERR_OK;
    if (!eq)
        return bad(where, text, N_("\"key = value\" is expected"), why);
    *eq = '\0';
    const char *name = trim(text);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (!str_eq(keys[i].name, name))
            continue;
        if (seen[i])
            return bad(where, name, N_("given twice"), why);
        seen[i] = true;
        return value_set(&keys[i], trim(eq + 1), where, c, why);
    }
    const char *near = near_key(name);
    e = refusef(why, ERR_VALIDATION, "field", "%.190s", where);
    refusal_setf(why, "why",
                 near ? "there is no key %.60s; did you mean %s?"
                      : "there is no key %.60s; suanlid -n lists them",
                 name, near);
    return e;
}

static enum err check_whole(struct daemon_config *c, struct refusal *why)
{
    CHECK(listen_parse(c->listen, c->host, sizeof(c->host), &c->port));
    if (!c->tls_cert[0] != !c->tls_key[0])
        return bad(c->tls_cert[0] ? "tls_key" : "tls_cert", "tls",
                   N_("tls_cert and tls_key belong together"), why);
    if (!c->host[0] && !c->unix_socket[0])
        return bad("listen", "listen", N_("neither listen nor unix_socket is set"), why);
    if (c->host[0] && !c->tls_cert[0] && !str_starts(c->host, "127.") && !str_eq(c->host, "::1"))
        return bad("listen", "listen",
                   N_("an address that is not loopback needs tls_cert and tls_key"), why);
    if (c->scarcity_min_pct > c->scarcity_max_pct)
        return bad("scarcity_min_pct", "scarcity_min_pct", N_("it is above scarcity_max_pct"), why);
    if (!c->store[0])
        return bad("store", "store", N_("it must be set"), why);
    return ERR_OK;
}

enum err daemon_config_parse(const char *name, const char *text, struct daemon_config *ret_c,
                             struct refusal *why)
{
    struct daemon_config c = {0};
    bool seen[ARRAY_LEN(keys)] = {0};
    AUTO_FREE char *copy = mem_strdup(text);
    char where[256], *next = copy;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (keys[i].type == TYPE_NUMBER)
            *number_of(&c, &keys[i]) = keys[i].def_int;
        else
            TRY(value_set(&keys[i], keys[i].def, "default", &c, why));
    for (unsigned n = 1; next; n++) {
        char *line = next, *end = strchr(line, '\n');
        next = end ? end + 1 : NULL;
        if (end)
            *end = '\0';
        if (!str_printf(where, sizeof(where), "%.200s:%u", name, n))
            return refuse(why, ERR_INTERNAL);
        TRY(line_read(line, where, seen, &c, why));
    }
    TRY(check_whole(&c, why));
    *ret_c = c;
    return ERR_OK;
}

enum err daemon_config_load(const char *path, struct daemon_config *ret_c, struct refusal *why)
{
    AUTO_FREE char *text = mem_alloc(CONFIG_MAX + 1);
    FILE *f = fopen(path, "re");

    if (!f) {
        enum err e = refusef(why, ERR_VALIDATION, "field", "%.190s", path);
        refusal_set(why, "why", strerror(errno));
        return e;
    }
    size_t n = fread(text, 1, CONFIG_MAX + 1, f);
    bool failed = ferror(f) != 0;
    (void)fclose(f);
    if (failed || n > CONFIG_MAX)
        return bad(path, "file", failed ? N_("it could not be read") : N_("it is too large"), why);
    text[n] = '\0';
    if (strlen(text) != n)
        return bad(path, "file", N_("it is not text"), why);
    return daemon_config_parse(path, text, ret_c, why);
}

void daemon_config_print(const struct daemon_config *c, enum lang lang, FILE *out)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct key *k = &keys[i];
        fprintf(out, "# %s\n", msg_tr(lang, k->help));
        if (k->type == TYPE_NUMBER)
            fprintf(out, "%s = %" PRId64 "\n", k->name, *number_of(c, k));
        else
            /* Emptied on purpose is not the same as left at its default. */
            fprintf(out, "%s%s = %s\n", *text_of(c, k) || *k->def ? "" : "#", k->name,
                    text_of(c, k));
    }
}
