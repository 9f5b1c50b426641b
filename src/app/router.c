#include "app/router.h"

#include <stdlib.h>

#include "base/units.h"
#include "domain/money.h"

#define SEGMENTS_MAX 10
#define STR_MAX 4096
#define LIST_ITEMS_MAX 64
#define IDEM_KEY_MAX (TEXT_SIZE - 1)

/* escapes */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool percent_decode(const char *s, size_t n, char *ret_text, size_t size, bool plus_is_blank)
{
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '%') {
            int hi = n - i > 2 ? hex_digit(s[i + 1]) : -1;
            int lo = hi >= 0 ? hex_digit(s[i + 2]) : -1;
            if (hi < 0 || lo < 0)
                return false;
            c = (unsigned char)(hi * 16 + lo);
            i += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (c < 0x20 || c == 0x7F || len + 1 >= size)
            return false;
        ret_text[len++] = (char)c;
    }
    ret_text[len] = '\0';
    return str_utf8_ok(ret_text);
}

/* routes */

struct segments {
    struct {
        const char *s;
        size_t n;
    } at[SEGMENTS_MAX];
    size_t len;
};

/* "/a/b" → a, b. False: does not start with '/', an empty segment, too many. */
static bool split(const char *path, struct segments *ret_s)
{
    ret_s->len = 0;
    if (path[0] != '/')
        return false;
    for (const char *p = path; *p == '/';) {
        size_t n = strcspn(++p, "/");
        if (n == 0 || ret_s->len == SEGMENTS_MAX)
            return false;
        ret_s->at[ret_s->len].s = p;
        ret_s->at[ret_s->len++].n = n;
        p += n;
    }
    return true;
}

static bool row_fits(const struct op_row *row, const struct segments *got)
{
    struct segments want;

    CHECK(split(row->path, &want));
    if (want.len != got->len)
        return false;
    for (size_t i = 0; i < want.len; i++)
        if (want.at[i].s[0] != '{' &&
            (want.at[i].n != got->at[i].n || memcmp(want.at[i].s, got->at[i].s, want.at[i].n) != 0))
            return false;
    return true;
}

static bool take_args(const struct op_row *row, const struct segments *got, struct route *r)
{
    struct segments want;
    char text[512];
    size_t n = 0;

    CHECK(split(row->path, &want));
    for (size_t i = 0; i < want.len; i++) {
        if (want.at[i].s[0] != '{')
            continue;
        CHECK(n < OP_PATH_ARGS_MAX);
        if (!percent_decode(got->at[i].s, got->at[i].n, text, sizeof(text), false))
            return false;
        r->path_arg[n++] = mem_strdup(text);
    }
    return true;
}

void route_fini(struct route *r)
{
    for (size_t i = 0; i < OP_PATH_ARGS_MAX; i++)
        free(TAKE(r->path_arg[i]));
}

static enum err no_route(const char *path, struct refusal *why)
{
    enum err e = refusef(why, ERR_NOT_FOUND, "what", "address");

    refusal_set(why, "name", str_utf8_ok(path) ? path : "?");
    refusal_set(why, "verb", "help");
    return e;
}

enum err router_match(const char *method, const char *path, struct route *ret_r,
                      char ret_allow[ALLOW_SIZE], struct refusal *why)
{
    struct segments got;
    bool any = false;

    *ret_r = (struct route){0};
    ret_allow[0] = '\0';
    if (!split(path, &got))
        return no_route(path, why);
    for (size_t i = 0; i < op_row_count; i++) {
        const struct op_row *row = &op_rows[i];
        if (!row_fits(row, &got))
            continue;
        if (!str_eq(method, op_method_name(row->method))) {
            size_t n = strlen(ret_allow);
            CHECK(str_printf(ret_allow + n, ALLOW_SIZE - n, "%s%s", any ? ", " : "",
                             op_method_name(row->method)));
            any = true;
            continue;
        }
        if (!take_args(row, &got, ret_r)) {
            route_fini(ret_r);
            return no_route(path, why);
        }
        ret_r->row = row;
        return ERR_OK;
    }
    return any ? refusef(why, ERR_METHOD, "method", "%.20s", method) : no_route(path, why);
}

/* arguments */

static enum err invalid(struct refusal *why, const char *field, const char *text)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%.60s", field);

    refusal_set(why, "why", text);
    return e;
}

static bool plain_text(const char *s)
{
    if (strlen(s) > STR_MAX)
        return false;
    for (; *s; s++)
        if (((unsigned char)*s < 0x20 && *s != '\n' && *s != '\t') || *s == 0x7F)
            return false;
    return true;
}

/* NULL when the text is of the type, else what was expected. */
static const char *text_fault(enum arg_type type, const char *s)
{
    int64_t n;
    utime_t t;
    struct currency ccy;
    struct money m;

    switch (type) {
    case ARG_STR:
        return plain_text(s) ? NULL : N_("text without control characters, at most 4096 bytes");
    case ARG_I64:
        return str_parse_i64(s, INT64_MIN, INT64_MAX, &n) == ERR_OK ? NULL : N_("a whole number");
    case ARG_BOOL:
        return str_eq(s, "true") || str_eq(s, "false") ? NULL : N_("true or false");
    case ARG_DURATION:
        return duration_parse(s, &n) == ERR_OK ? NULL : N_("a duration such as 90s, 2h30m or 1d");
    case ARG_SIZE:
        return size_parse_mib(s, &n) == ERR_OK ? NULL : N_("a size such as 8GiB or 200GB");
    case ARG_TIME:
        return time_parse(s, &t) == ERR_OK ? NULL : N_("a time such as 2026-01-31T16:00:00Z");
    case ARG_MONEY:
        CHECK(currency_get("CNY", &ccy) == ERR_OK);
        return money_parse(s, ccy, &m) == ERR_OK ? NULL
                                                 : N_("an amount as text, such as \"12.50\"");
    case ARG_LIST:
    case ARG_OBJ:
        break;
    }
    return N_("not possible in a query");
}

static const char *list_fault(const json_t *v)
{
    if (!json_is_array(v) || json_array_size(v) > LIST_ITEMS_MAX)
        return N_("a list of at most 64 texts");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i);
        if (!json_is_string(item) || !plain_text(json_string_value(item)))
            return N_("a list of at most 64 texts");
    }
    return NULL;
}

static const char *value_fault(enum arg_type type, const json_t *v)
{
    switch (type) {
    case ARG_I64:
        return json_is_integer(v) ? NULL : N_("a whole number");
    case ARG_BOOL:
        return json_is_boolean(v) ? NULL : N_("true or false");
    case ARG_LIST:
        return list_fault(v);
    case ARG_OBJ:
        return json_is_object(v) ? NULL : N_("an object");
    case ARG_STR:
    case ARG_DURATION:
    case ARG_SIZE:
    case ARG_TIME:
    case ARG_MONEY:
        break;
    }
    if (!json_is_string(v))
        return type == ARG_STR ? N_("a text") : text_fault(type, "");
    return text_fault(type, json_string_value(v));
}

static const struct op_arg *find_arg(const struct op_row *row, enum arg_place place,
                                     const char *name)
{
    size_t n;
    const struct op_arg *args = op_args_of(row, &n);

    for (size_t i = 0; i < n; i++) {
        enum arg_place at =
            args[i].place == ARG_PATH && !op_arg_in_path(row, &args[i]) ? ARG_BODY : args[i].place;
        if (at == place && str_eq(args[i].name, name))
            return &args[i];
    }
    return NULL;
}

enum err router_path_args(const struct route *r, struct refusal *why)
{
    struct segments want;
    size_t n = 0;

    CHECK(split(r->row->path, &want));
    for (size_t i = 0; i < want.len; i++) {
        char name[NAME_SIZE];
        if (want.at[i].s[0] != '{')
            continue;
        CHECK(str_printf(name, sizeof(name), "%.*s", (int)want.at[i].n - 2, want.at[i].s + 1));
        const struct op_arg *arg = find_arg(r->row, ARG_PATH, name);
        const char *fault = arg ? text_fault(arg->type, r->path_arg[n]) : NULL;
        if (fault)
            return invalid(why, name, fault);
        n++;
    }
    return ERR_OK;
}

/* Arguments that every row of a kind takes. */
static bool common_type(const struct op_row *row, const char *name, enum arg_type *ret_t)
{
    if (op_is_list(row) && str_eq(name, "limit"))
        *ret_t = ARG_I64;
    else if (op_is_list(row) && str_eq(name, "cursor"))
        *ret_t = ARG_STR;
    else if ((row->flags & OPF_DRYRUN) && str_eq(name, "dry_run"))
        *ret_t = ARG_BOOL;
    else if ((row->flags & OPF_STREAM) && str_eq(name, "last_event_id"))
        *ret_t = ARG_STR; /* the header of that name, for those who cannot set one */
    else
        return false;
    return true;
}

static enum err take_pair(const struct op_row *row, const char *name, const char *value, json_t *q,
                          struct refusal *why)
{
    const struct op_arg *arg = find_arg(row, ARG_QUERY, name);
    enum arg_type type = arg ? arg->type : ARG_STR;
    int64_t n;

    if (!arg && !common_type(row, name, &type))
        return invalid(why, name, N_("this operation does not take it"));
    if (json_object_get(q, name))
        return invalid(why, name, N_("given twice"));
    const char *fault = text_fault(type, value);
    if (!fault && !arg && str_eq(name, "limit") && str_parse_i64(value, 1, LIMIT_MAX, &n) != ERR_OK)
        fault = N_("1 to 200");
    if (fault)
        return invalid(why, name, fault);
    CHECK(json_object_set_new(q, name, json_string(value)) == 0);
    return ERR_OK;
}

static enum err require_all(const struct op_row *row, enum arg_place place, const json_t *o,
                            struct refusal *why)
{
    size_t n;
    const struct op_arg *args = op_args_of(row, &n);

    for (size_t i = 0; i < n; i++)
        if (args[i].required && find_arg(row, place, args[i].name) == &args[i] &&
            json_is_null(json_object_get(o, args[i].name) ? json_object_get(o, args[i].name)
                                                          : json_null()))
            return invalid(why, args[i].name, N_("it is required"));
    return ERR_OK;
}

enum err router_query(const struct op_row *row, const char *query, json_t **ret_q,
                      struct refusal *why)
{
    AUTO_JSON json_t *q = json_object();
    AUTO_FREE char *value = mem_alloc(STR_MAX + 1);
    char name[NAME_SIZE];

    for (const char *p = query; *p;) {
        size_t n = strcspn(p, "&");
        const char *eq = memchr(p, '=', n);
        size_t name_len = eq ? (size_t)(eq - p) : n;
        if (!percent_decode(p, name_len, name, sizeof(name), true))
            return invalid(why, "query", N_("a name that is not one"));
        if (!percent_decode(eq ? eq + 1 : "", eq ? n - name_len - 1 : 0, value, STR_MAX + 1, true))
            return invalid(why, name, N_("a value with a bad escape"));
        if (n > 0)
            TRY(take_pair(row, name, value, q, why));
        p += n;
        if (*p == '&')
            p++;
    }
    TRY(require_all(row, ARG_QUERY, q, why));
    *ret_q = TAKE(q);
    return ERR_OK;
}

static enum err check_members(const struct op_row *row, json_t *body, struct refusal *why)
{
    const char *name;
    json_t *v;

    json_object_foreach(body, name, v)
    {
        const struct op_arg *arg = find_arg(row, ARG_BODY, name);
        enum arg_type type = arg ? arg->type : ARG_STR;
        if (!arg && !((row->flags & OPF_DRYRUN) && str_eq(name, "dry_run") &&
                      common_type(row, name, &type)))
            return invalid(why, name, N_("this operation does not take it"));
        if (json_is_null(v))
            continue;
        const char *fault = value_fault(type, v);
        if (fault)
            return invalid(why, name, fault);
    }
    return require_all(row, ARG_BODY, body, why);
}

enum err router_body(const struct op_row *row, const char *body, size_t len, size_t len_max,
                     json_t **ret_b, struct refusal *why)
{
    AUTO_JSON json_t *b = NULL;

    if (len == 0)
        b = json_object();
    else
        TRY(json_parse(body, len, len_max, &b, why));
    if (!json_is_object(b))
        return refusef(why, ERR_BAD_JSON, "why", "an object is expected");
    /* A node's report is held against docs/node-protocol.md where it is read. */
    if (row->access != ACCESS_NODE)
        TRY(check_members(row, b, why));
    *ret_b = TAKE(b);
    return ERR_OK;
}

bool router_dry_run(const struct op_row *row, const json_t *query, const json_t *body)
{
    const char *q = NULL;
    bool b = false;

    if (!(row->flags & OPF_DRYRUN))
        return false;
    return (query && json_get_str(query, "dry_run", NULL, &q) && q && str_eq(q, "true")) ||
           (body && json_get_bool(body, "dry_run", false, &b) && b);
}

enum err router_idem_key(const struct op_row *row, const char *key, bool dry_run,
                         struct refusal *why)
{
    size_t n = strlen(key);

    if (!(row->flags & OPF_IDEM) || (dry_run && n == 0))
        return ERR_OK;
    if (n == 0)
        return refuse(why, ERR_IDEMPOTENCY_MISSING);
    for (size_t i = 0; i < n; i++)
        if (key[i] <= 0x20 || key[i] >= 0x7F || n > IDEM_KEY_MAX)
            return invalid(why, "Idempotency-Key", N_("1 to 199 printable characters"));
    return ERR_OK;
}
