/* help.c: help of everything, from the same rows as the verbs. Fits 80 columns. */
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/table.h"

static const struct {
    int code;
    const char *text;
} exit_codes[] = {
    {0, N_("done")},
    {1, N_("error")},
    {2, N_("asked wrongly (usage)")},
    {3, N_("not found")},
    {4, N_("not logged in, or not allowed")},
    {5, N_("conflict: wrong state, changed offer")},
    {6, N_("no capacity")},
    {7, N_("money: balance or budget")},
    {8, N_("timed out or unreachable; the work goes on")},
    {9, N_("unavailable, try again")},
    {11, N_("erase not yet proven")},
    {130, N_("interrupted")},
    {255, N_("ssh, exec: the connection failed; else the command's own code")},
};

const char *const global_flags[][2] = {
    {"--json", N_("one JSON document on stdout, nothing else (with -f: one a line)")},
    {"-q, --quiet", N_("ids only")},
    {"-y, --yes", N_("answer yes to questions")},
    {"--dry-run", N_("say what would happen, change nothing")},
    {"--no-wait", N_("do not wait for the work to be done")},
    {"--timeout TIME", N_("wait at most so long, such as 90s")},
    {"--lang LANG", N_("en or zh")},
    {"--profile NAME", N_("which login of the configuration")},
    {"--url URL", N_("the server: https://HOST or unix:/path")},
    {"--ca FILE", N_("certificate authority of the server")},
    {"--token-file FILE", N_("token from a file")},
    {"--utc", N_("times in UTC")},
    {"--no-color", N_("no colour (also NO_COLOR)")},
    {"-h, --help", N_("help of a verb")},
    {NULL, NULL}};

#define HELP_WIDTH 80

/* Bytes of s that fit into width columns, cut at a blank where there is one. */
static size_t wrap_len(const char *s, size_t width)
{
    size_t n = 0, blank = 0;

    while (s[n]) {
        size_t next = n + 1;
        while (((unsigned char)s[next] & 0xC0) == 0x80)
            next++;
        AUTO_FREE char *part = strndup(s, next);
        if (str_width(part) > width)
            return blank ? blank : n;
        if (s[n] == ' ')
            blank = n;
        n = next;
    }
    return n;
}

static void two_columns(FILE *to, const char *left, const char *right, size_t width)
{
    AUTO_STRBUF struct strbuf b = {0};

    strbuf_init(&b, 8192);
    table_pad(&b, left, width, false);
    size_t indent = MAX(str_width(strbuf_str(&b)), width) + 4;
    fprintf(to, "  %s  ", strbuf_str(&b));
    for (;;) {
        size_t n = wrap_len(right, indent + 20 < HELP_WIDTH ? HELP_WIDTH - indent : 20);
        fprintf(to, "%.*s\n", (int)n, right);
        right += n + (right[n] == ' ');
        if (!*right)
            return;
        fprintf(to, "%*s", (int)indent, "");
    }
}

int help_short(struct cli *c UNUSED, FILE *to)
{
    static const char *const daily[] = {"login",   "offers", "rent",   "ls",   "ssh",
                                        "cp",      "logs",   "extend", "stop", "start",
                                        "release", "wallet", "bill"};

    fprintf(to, "%s\n\n", tr("suanli: rent a GPU, reach it, end it, know what it cost"));
    fputs("  suanli login --url https://HOST --code CODE\n  suanli offers\n"
          "  suanli rent --gpu 4090 --for 4h\n\n",
          to);
    for (size_t i = 0; i < ARRAY_LEN(daily); i++)
        two_columns(to, daily[i], tr(verb_find(daily[i])->summary), 8);
    fprintf(
        to, "\n%s\n",
        tr("All verbs: suanli help all   One: suanli help VERB   Codes: suanli help exit-codes"));
    return 0;
}

static void usage_line(const struct verb *v, FILE *to)
{
    const struct arg *a;
    bool flags = false;

    fprintf(to, "%s suanli %s", tr("Usage:"), v->cli);
    for (size_t i = 0; (a = verb_arg(v, i)); i++) {
        if (!arg_is_word(v, a)) {
            flags = true;
            continue;
        }
        bool must = a->required && !str_eq(v->cli, "key add");
        AUTO_FREE char *name = mem_strdup(a->name);
        for (char *p = name; *p; p++)
            *p = (char)(*p == '_' ? '-' : *p >= 'a' && *p <= 'z' ? *p - 32 : *p);
        fprintf(to, must ? " %s" : " [%s]", name);
    }
    if (flags)
        fputs(" [--FLAGS]", to);
    if (str_eq(v->cli, "rent") || str_eq(v->cli, "ssh"))
        fputs(" [-- COMMAND...]", to);
    if (str_eq(v->cli, "exec"))
        fputs(" -- COMMAND...", to);
    fputc('\n', to);
}

static const char *type_word(enum arg_type type)
{
    static const char *const word[] = {
        [ARG_STR] = "TEXT",    [ARG_I64] = "N",     [ARG_BOOL] = "",
        [ARG_DURATION] = "4h", [ARG_SIZE] = "8GiB", [ARG_TIME] = "18:05",
        [ARG_MONEY] = "1.98",  [ARG_LIST] = "TEXT", [ARG_OBJ] = "JSON"};

    return word[type];
}

int help_verb(struct cli *c UNUSED, const struct verb *v, FILE *to)
{
    const struct arg *a;

    two_columns(to, "", tr(v->summary), 0);
    fputc('\n', to);
    for (size_t i = 0; i < example_count; i++)
        if (str_eq(examples[i].cli, v->cli))
            fprintf(to, "  %s\n", examples[i].text);
    fputc('\n', to);
    usage_line(v, to);
    for (size_t i = 0; (a = verb_arg(v, i)); i++) {
        char flag[64], spelled[96];
        bool word = a->place == ARG_PATH;
        str_printf(flag, sizeof(flag), "%s%s", word ? "" : "--", a->name);
        for (char *p = flag; *p; p++)
            *p = (char)(*p == '_' ? '-' : word && *p >= 'a' && *p <= 'z' ? *p - 32 : *p);
        str_printf(spelled, sizeof(spelled), "%s%s%s%s", str_eq(flag, "--follow") ? "-f, " : "",
                   flag, word || a->type == ARG_BOOL ? "" : " ", word ? "" : type_word(a->type));
        two_columns(to, spelled, tr(a->help), 22);
    }
    if (v->flags & VERB_DRYRUN)
        two_columns(to, "--dry-run", tr("say what would happen, change nothing"), 22);
    fprintf(to, "\n%s\n", tr("Flags of every verb: suanli help flags"));
    return 0;
}

static int help_all(FILE *to)
{
    for (size_t i = 0; i < verb_count; i++)
        if (*verbs[i].cli)
            two_columns(to, verbs[i].cli, tr(verbs[i].summary), 24);
    return 0;
}

static int help_exit_codes(FILE *to)
{
    char code[8];

    for (size_t i = 0; i < ARRAY_LEN(exit_codes); i++) {
        str_printf(code, sizeof(code), "%d", exit_codes[i].code);
        two_columns(to, code, tr(exit_codes[i].text), 4);
    }
    return 0;
}

static int help_config(struct cli *c, FILE *to)
{
    fprintf(to, "%s\n\n",
            tr("Order: flag, then SUANLI_* of the environment, then ./.suanli.toml, then:"));
    fprintf(to, "  %s/config.toml\n\n", c->cfg.folder);
    fputs("  lang = \"zh\"\n  for = \"4h\"\n  image = \"debian\"\n  gpu = \"4090\"\n  profile = "
          "\"default\"\n\n"
          "  [profile.default]\n  url = \"https://gpu.example.org\"\n  ca = \"/etc/ssl/own.pem\"\n"
          "  token = \"...\"\n  identity = \"/home/mei/.ssh/id_ed25519\"\n\n"
          "  SUANLI_URL SUANLI_TOKEN SUANLI_CA SUANLI_PROFILE SUANLI_LANG SUANLI_FOR\n"
          "  SUANLI_IMAGE SUANLI_GPU SUANLI_IDENTITY\n\n",
          to);
    fprintf(to, "%s\n",
            tr("A project's ./.suanli.toml may set profile, lang, for, image and gpu only."));
    return 0;
}

static int help_flags(FILE *to)
{
    for (size_t i = 0; global_flags[i][0]; i++)
        two_columns(to, global_flags[i][0], tr(global_flags[i][1]), 20);
    return 0;
}

/* The rows as data, for programs. */
static int help_json(void)
{
    AUTO_STRBUF struct strbuf b = {0};
    struct json_writer w;
    const struct arg *a;

    strbuf_init(&b, 1 << 20);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_array_begin(&w, "verbs");
    for (size_t i = 0; i < verb_count; i++) {
        if (!*verbs[i].cli)
            continue;
        json_object_begin(&w, NULL);
        json_str(&w, "verb", verbs[i].cli);
        json_str(&w, "summary", tr(verbs[i].summary));
        json_flag(&w, "dry_run", verbs[i].flags & VERB_DRYRUN);
        json_array_begin(&w, "args");
        for (size_t k = 0; (a = verb_arg(&verbs[i], k)); k++) {
            json_object_begin(&w, NULL);
            json_str(&w, "name", a->name);
            json_flag(&w, "word", arg_is_word(&verbs[i], a));
            json_flag(&w, "required", a->required);
            json_str(&w, "help", tr(a->help));
            json_object_finish(&w);
        }
        json_array_finish(&w);
        json_array_begin(&w, "examples");
        for (size_t k = 0; k < example_count; k++)
            if (str_eq(examples[k].cli, verbs[i].cli))
                json_str(&w, NULL, examples[k].text);
        json_array_finish(&w);
        json_object_finish(&w);
    }
    json_array_finish(&w);
    json_object_finish(&w);
    puts(strbuf_str(&b));
    return 0;
}

int cmd_help(struct cli *c, struct call *call)
{
    const char *topic = arg_str(call, "topic");
    const struct verb *v = topic ? verb_find(topic) : NULL;
    size_t n = topic ? strlen(topic) : 0;
    bool group = false;

    if (c->json)
        return help_json();
    if (!topic)
        return help_short(c, stdout);
    if (v)
        return help_verb(c, v, stdout);
    if (str_eq(topic, "all"))
        return help_all(stdout);
    if (str_eq(topic, "exit-codes"))
        return help_exit_codes(stdout);
    if (str_eq(topic, "config"))
        return help_config(c, stdout);
    if (str_eq(topic, "flags"))
        return help_flags(stdout);
    for (size_t i = 0; i < verb_count; i++) { /* "disk": all its verbs */
        if (strncmp(verbs[i].cli, topic, n) != 0 || verbs[i].cli[n] != ' ')
            continue;
        two_columns(stdout, verbs[i].cli, tr(verbs[i].summary), 24);
        group = true;
    }
    return group ? 0 : fail_usage(c, tr("there is no help on %s; see: suanli help all"), topic);
}

int cmd_version(struct cli *c, struct call *call UNUSED)
{
    if (c->json)
        puts("{\"version\":\"" CLI_VERSION "\"}");
    else
        puts("suanli " CLI_VERSION);
    return 0;
}
