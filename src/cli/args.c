/* args.c: words and flags of a verb, checked against its rows; then path, query and body. */
#include <time.h>

#include "base/units.h"
#include "cli/cli.h"

void call_fini(struct call *call)
{
    json_decref(call->args);
    call->args = NULL;
}

const char *arg_str(const struct call *call, const char *name)
{
    return json_string_value(json_object_get(call->args, name));
}

bool arg_bool(const struct call *call, const char *name)
{
    return json_is_true(json_object_get(call->args, name));
}

static void flag_spell(const char *name, char *buf, size_t size)
{
    str_printf(buf, size, "--%s", name);
    for (char *p = buf + 2; *p; p++)
        if (*p == '_')
            *p = '-';
}

/* "18:05" is the next such time; "2026-12-01 18:05" and "2026-12-01" are local. */
static bool time_words(const char *s, char *ret_text, size_t size)
{
    struct tm tm = {.tm_isdst = -1};
    time_t now = time(NULL), t;
    utime_t parsed;
    const char *end;
    bool clock = strlen(s) <= 5;

    if (time_parse(s, &parsed) == ERR_OK)
        return str_copy(ret_text, size, s);
    if (clock) {
        localtime_r(&now, &tm);
        tm.tm_sec = 0;
        end = strptime(s, "%H:%M", &tm);
        tm.tm_isdst = -1;
    } else {
        end = strptime(s, strlen(s) > 10 ? "%Y-%m-%d %H:%M" : "%Y-%m-%d", &tm);
    }
    if (!end || *end)
        return false;
    t = mktime(&tm);
    if (clock && t <= now) {
        tm.tm_mday++;
        tm.tm_isdst = -1;
        t = mktime(&tm);
    }
    time_format((utime_t)t * MS_PER_S, ret_text, size);
    return t > 0;
}

static bool is_amount(const char *s)
{
    size_t whole = strspn(s, "0123456789");
    size_t part = s[whole] == '.' ? strspn(s + whole + 1, "0123456789") : 0;

    return whole > 0 && s[whole + (part ? part + 1 : 0)] == '\0';
}

static int wrong(struct cli *c, const char *flag, const char *value, const char *like)
{
    return fail_usage(c, tr("%s %s: expected something such as %s"), flag, value, like);
}

/* Puts one value under its name. Exit code, 0 when it is good. */
static int arg_set(struct cli *c, struct call *call, const struct arg *a, const char *value)
{
    char flag[64], text[64];
    int64_t n;

    flag_spell(a->name, flag, sizeof(flag));
    if (!str_utf8_ok(value))
        return wrong(c, flag, "?", "UTF-8");
    if (a->type != ARG_LIST && json_object_get(call->args, a->name))
        return fail_usage(c, tr("%s is given twice"), flag);
    switch (a->type) {
    case ARG_I64:
        if (str_parse_i64(value, 0, INT64_MAX, &n) != ERR_OK)
            return wrong(c, flag, value, "2");
        return json_object_set_new(call->args, a->name, json_integer(n));
    case ARG_DURATION:
        if (duration_parse(value, &n) != ERR_OK)
            return wrong(c, flag, value, "90s, 30m, 4h, 2h30m, 1d");
        break;
    case ARG_SIZE:
        if (size_parse_mib(value, &n) != ERR_OK)
            return wrong(c, flag, value, "512MiB, 8GiB, 200GB");
        break;
    case ARG_TIME:
        if (!time_words(value, text, sizeof(text)))
            return wrong(c, flag, value, "18:05, 2026-12-01 18:05, 2026-12-01T10:05:00Z");
        value = text;
        break;
    case ARG_MONEY:
        if (!is_amount(value))
            return wrong(c, flag, value, "1.98");
        break;
    case ARG_LIST: {
        json_t *list = json_object_get(call->args, a->name);
        if (!list)
            json_object_set_new(call->args, a->name, list = json_array());
        return json_array_append_new(list, json_string(value));
    }
    case ARG_BOOL:
        return json_object_set_new(call->args, a->name, json_true());
    case ARG_STR:
    case ARG_OBJ:
        break;
    }
    return json_object_set_new(call->args, a->name, json_string(value));
}

static const struct arg *flag_find(const struct verb *v, const char *word, size_t len)
{
    const struct arg *a;
    char flag[64];

    for (size_t i = 0; (a = verb_arg(v, i)); i++) {
        flag_spell(a->name, flag, sizeof(flag));
        if (a->place != ARG_PATH && strlen(flag) == len && memcmp(flag, word, len) == 0)
            return a;
        if (len == 2 && memcmp(word, "-f", 2) == 0 && str_eq(a->name, "follow"))
            return a;
        if (len == 2 && memcmp(word, "-o", 2) == 0 && str_eq(a->name, "output"))
            return a;
    }
    return NULL;
}

static int unknown_flag(struct cli *c, const struct verb *v, const char *word)
{
    const struct arg *a;
    char flag[64], best[64] = "";
    size_t near = 4;

    for (size_t i = 0; (a = verb_arg(v, i)); i++) {
        flag_spell(a->name, flag, sizeof(flag));
        size_t d = str_distance(word, flag);
        if (a->place != ARG_PATH && d < near) {
            near = d;
            str_copy(best, sizeof(best), flag);
        }
    }
    if (*best)
        return fail_usage(c, tr("%s has no flag %s; did you mean %s?"), v->cli, word, best);
    return fail_usage(c, tr("%s has no flag %s"), v->cli, word);
}

/* One --flag; uses argv[*i + 1] as its value where it needs one. */
static int parse_flag(struct cli *c, struct call *call, int argc, char **argv, int *i)
{
    const char *word = argv[*i], *eq = strchr(word, '=');
    size_t len = eq ? (size_t)(eq - word) : strlen(word);
    const struct arg *a = flag_find(call->verb, word, len);

    if (!a)
        return unknown_flag(c, call->verb, word);
    if (a->type == ARG_BOOL)
        return eq ? fail_usage(c, tr("%.*s takes no value"), (int)len, word)
                  : arg_set(c, call, a, "");
    if (eq)
        return arg_set(c, call, a, eq + 1);
    if (*i + 1 >= argc)
        return fail_usage(c, tr("%s needs a value"), word);
    return arg_set(c, call, a, argv[++*i]);
}

/* The next argument that is taken as a word and not yet there. */
static const struct arg *next_word(const struct call *call)
{
    const struct arg *a;

    for (size_t i = 0; (a = verb_arg(call->verb, i)); i++)
        if (a->place == ARG_PATH && !json_object_get(call->args, a->name))
            return a;
    for (size_t i = 0; (a = verb_arg(call->verb, i)); i++)
        if (a->place != ARG_PATH && arg_is_word(call->verb, a) &&
            !json_object_get(call->args, a->name))
            return a;
    return NULL;
}

static int parse_word(struct cli *c, struct call *call, const char *word)
{
    const struct arg *a = next_word(call);

    if (a)
        return arg_set(c, call, a, word);
    const char *filter = arg_str(call, "filter");
    if (str_eq(call->verb->cli, "offers") && filter) { /* filters are words joined by blanks */
        json_t *both = json_sprintf("%s %s", filter, word);
        return json_object_set_new(call->args, "filter", both);
    }
    return fail_usage(c, tr("%s: one word too many: %s"), call->verb->cli, word);
}

static int check_required(struct cli *c, const struct call *call)
{
    const struct arg *a;
    char flag[64];

    for (size_t i = 0; (a = verb_arg(call->verb, i)); i++) {
        if (!a->required || json_object_get(call->args, a->name))
            continue;
        if (str_eq(call->verb->name, "login") || str_eq(call->verb->name, "key_add"))
            continue; /* they find or ask for it */
        flag_spell(a->name, flag, sizeof(flag));
        if (a->place == ARG_PATH)
            return fail_usage(c, tr("%s: %s is missing (%s)"), call->verb->cli, flag + 2,
                              tr(a->help));
        return fail_usage(c, tr("%s: %s is missing (%s)"), call->verb->cli, flag, tr(a->help));
    }
    return 0;
}

int args_parse(struct cli *c, const struct verb *verb, int argc, char **argv, struct call *ret_call)
{
    struct call *call = ret_call;

    *call = (struct call){.verb = verb, .args = json_object()};
    for (int i = 0; i < argc; i++) {
        if (str_eq(argv[i], "--")) {
            call->has_rest = true;
            call->rest = argv + i + 1;
            call->rest_count = argc - i - 1;
            break;
        }
        bool flag = argv[i][0] == '-' && argv[i][1] != '\0';
        int e = flag ? parse_flag(c, call, argc, argv, &i) : parse_word(c, call, argv[i]);
        if (e)
            return e;
    }
    bool takes_rest =
        str_eq(verb->cli, "rent") || str_eq(verb->cli, "ssh") || str_eq(verb->cli, "exec");
    if (call->has_rest && !takes_rest)
        return fail_usage(c, tr("%s takes no command after --"), verb->cli);
    for (int i = 0; str_eq(verb->cli, "rent") && i < call->rest_count; i++) {
        static const struct arg command = {NULL, ARG_BODY, "command", ARG_LIST, false, ""};
        int e = arg_set(c, call, &command, call->rest[i]);
        if (e)
            return e;
    }
    return check_required(c, call);
}

static bool in_template(const char *path, const char *name)
{
    char hole[72];

    return str_printf(hole, sizeof(hole), "{%s}", name) && strstr(path, hole);
}

static void add_query(struct strbuf *out, bool *first, const char *name, const json_t *v)
{
    char number[32] = "true";

    if (json_is_integer(v))
        str_printf(number, sizeof(number), "%" PRId64, (int64_t)json_integer_value(v));
    strbuf_addf(out, "%s%s=", *first ? "?" : "&", name);
    url_escape(out, json_is_string(v) ? json_string_value(v) : number);
    *first = false;
}

void call_path(struct cli *c, const struct call *call, struct strbuf *out)
{
    const struct verb *v = call->verb;
    const struct arg *a;
    bool first = true;

    for (const char *p = v->path; *p; p++) {
        char name[64], number[32];
        size_t n = strcspn(p, "}");
        if (*p != '{' || !str_printf(name, sizeof(name), "%.*s", (int)(n - 1), p + 1)) {
            strbuf_add_n(out, p, 1);
            continue;
        }
        const json_t *value = json_object_get(call->args, name);
        if (json_is_integer(value)) {
            str_printf(number, sizeof(number), "%" PRId64, (int64_t)json_integer_value(value));
            strbuf_add(out, number);
        } else {
            url_escape(out, json_string_value(value) ? json_string_value(value) : "");
        }
        p += n;
    }
    for (size_t i = 0; (a = verb_arg(v, i)); i++) {
        const json_t *value = json_object_get(call->args, a->name);
        if (a->place == ARG_QUERY && value)
            add_query(out, &first, a->name, value);
    }
    if (c->dry_run && v->flags & VERB_DRYRUN)
        add_query(out, &first, "dry_run", NULL);
}

char *call_body(struct cli *c UNUSED, const struct call *call)
{
    AUTO_JSON json_t *body = json_object();
    const struct arg *a;

    if (str_eq(call->verb->method, "GET") || str_eq(call->verb->method, "DELETE"))
        return NULL;
    for (size_t i = 0; (a = verb_arg(call->verb, i)); i++) {
        json_t *value = json_object_get(call->args, a->name);
        bool sent = a->place == ARG_BODY ||
                    (a->place == ARG_PATH && !in_template(call->verb->path, a->name));
        if (sent && value)
            json_object_set(body, a->name, value);
    }
    return json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
}

#define PAGES_MAX 1000

/* Puts the items of the following pages behind those of the first. False when one did not come. */
static bool call_pages(struct cli *c, const char *path, struct answer *a)
{
    json_t *items = json_object_get(a->json, "items");

    for (int n = 0; n < PAGES_MAX && field_is(a->json, "next_cursor"); n++) {
        AUTO_STRBUF struct strbuf next = {0};
        AUTO_ANSWER struct answer page = {0};
        strbuf_init(&next, 64 * 1024);
        answer_init(&page);
        strbuf_addf(&next, "%s%scursor=", path, strchr(path, '?') ? "&" : "?");
        url_escape(&next, field_str(a->json, "next_cursor"));
        if (!api_get(c, strbuf_str(&next), &page)) {
            a->exit = page.exit;
            return false;
        }
        json_array_extend(items, json_object_get(page.json, "items"));
        json_object_set(a->json, "next_cursor", json_object_get(page.json, "next_cursor"));
    }
    AUTO_FREE char *whole = json_dumps(a->json, JSON_COMPACT);
    strbuf_reset(&a->body);
    strbuf_add(&a->body, whole ? whole : "{}");
    return true;
}

/* The name nearest to what was typed, where the server knows no such instance. */
static void suggest_instance(struct cli *c, const char *typed)
{
    AUTO_ANSWER struct answer all = {0};
    size_t near = 3, i;
    json_t *o;
    const char *best = NULL;

    answer_init(&all);
    if (!api_call(c, "GET", "/v1/instances", NULL, CALL_QUIET, &all))
        return;
    json_array_foreach(json_object_get(all.json, "items"), i, o)
    {
        size_t d = str_distance(typed, field_str(o, "name"));
        if (d < near && d > 0) {
            near = d;
            best = field_str(o, "name");
        }
    }
    if (best)
        say(c, tr("Did you mean %s?"), best);
}

bool call_send(struct cli *c, const struct call *call, struct answer *a)
{
    AUTO_STRBUF struct strbuf path = {0};
    AUTO_FREE char *body = call_body(c, call);

    strbuf_init(&path, 64 * 1024);
    call_path(c, call, &path);
    if (!api_call(c, call->verb->method, strbuf_str(&path), body,
                  call->verb->flags & VERB_IDEM && !c->dry_run ? CALL_IDEM : 0, a)) {
        if (a->status == 404 && arg_str(call, "instance"))
            suggest_instance(c, arg_str(call, "instance"));
        return false;
    }
    return !field_is(a->json, "next_cursor") || call_pages(c, strbuf_str(&path), a);
}
