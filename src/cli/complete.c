/* complete.c: completion. The scripts ask this program (suanli __complete WORDS...), so they never
 * go stale; live names come from the server and are kept for 30 s. */
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "domain/model.h"

#define NAMES_LIFE_S 30

static const char bash_script[] = "_suanli() {\n"
                                  "  local cur=${COMP_WORDS[COMP_CWORD]} IFS=$'\\n'\n"
                                  "  COMPREPLY=($(compgen -W \"$(suanli __complete "
                                  "\"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\" -- \"$cur\"))\n"
                                  "}\n"
                                  "complete -o default -F _suanli suanli\n";
static const char zsh_script[] =
    "#compdef suanli\n"
    "_suanli() {\n"
    "  local -a words_now\n"
    "  words_now=(${(f)\"$(suanli __complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"})\n"
    "  compadd -a words_now || _files\n"
    "}\n"
    "compdef _suanli suanli\n";
static const char fish_script[] = "function __suanli_complete\n"
                                  "  set -l words (commandline -opc) (commandline -ct)\n"
                                  "  suanli __complete $words[2..-1] 2>/dev/null\n"
                                  "end\n"
                                  "complete -c suanli -f -a '(__suanli_complete)'\n"
                                  "complete -c suanli -n '__fish_seen_subcommand_from cp' -F\n";

int cmd_completion(struct cli *c, struct call *call)
{
    static const struct {
        const char *shell, *script;
    } all[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
    const char *shell = arg_str(call, "shell");

    if (c->json)
        return fail_usage(c, "%s", tr("completion: its output is a script; --json has no meaning"));
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (!str_eq(all[i].shell, shell))
            continue;
        fputs(all[i].script, stdout);
        return 0;
    }
    return fail_usage(c, tr("completion: bash, zsh or fish, not %s"), shell);
}

/* Prints each once that begins with what was typed. */
static void offer(const char *word, const char *prefix, char seen[][64], size_t *n)
{
    if (!str_starts(word, prefix) || *n >= 256)
        return;
    for (size_t i = 0; i < *n; i++)
        if (str_eq(seen[i], word))
            return;
    if (str_copy(seen[*n], 64, word))
        (*n)++;
    puts(word);
}

/* Verbs are typed word by word: those whose words so far are the ones typed. */
static void complete_verb(int argc, char **argv)
{
    static char seen[256][64];
    size_t n = 0;
    const char *cur = argc ? argv[argc - 1] : "";

    for (size_t i = 0; i < verb_count; i++) {
        const char *p = verbs[i].cli;
        int k = 0;
        for (; k + 1 < argc && *p; k++) {
            size_t len = strcspn(p, " ");
            if (strlen(argv[k]) != len || memcmp(argv[k], p, len) != 0)
                break;
            p += len + (p[len] == ' ');
        }
        char word[64];
        if (*p && (k + 1 == argc || argc == 0) &&
            str_printf(word, sizeof(word), "%.*s", (int)strcspn(p, " "), p))
            offer(word, cur, seen, &n);
    }
}

static void complete_flags(const struct verb *v, const char *cur)
{
    static char seen[256][64];
    static const char *const global[] = {"--json",    "--quiet",   "--yes",
                                         "--dry-run", "--no-wait", "--timeout",
                                         "--lang",    "--profile", "--help"};
    const struct arg *a;
    size_t n = 0;
    char flag[64];

    for (size_t i = 0; (a = verb_arg(v, i)); i++) {
        str_printf(flag, sizeof(flag), "--%s", a->name);
        for (char *p = flag + 2; *p; p++)
            *p = (char)(*p == '_' ? '-' : *p);
        if (a->place != ARG_PATH)
            offer(flag, cur, seen, &n);
    }
    for (size_t i = 0; i < ARRAY_LEN(global); i++)
        offer(global[i], cur, seen, &n);
}

/* The list whose names an argument takes. */
static const char *names_path(const char *arg)
{
    static const struct {
        const char *arg, *path;
    } all[] = {{"instance", "/v1/instances"}, {"disk", "/v1/disks"},       {"image", "/v1/images"},
               {"key", "/v1/keys"},           {"project", "/v1/projects"}, {"token", "/v1/tokens"},
               {"node", "/v1/admin/nodes"},   {"user", "/v1/admin/users"}, {"gpu", "/v1/offers"}};

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (str_eq(all[i].arg, arg))
            return all[i].path;
    return NULL;
}

static char *cache_file(struct cli *c, const char *path)
{
    AUTO_STRBUF struct strbuf b = {0};

    strbuf_init(&b, 512);
    strbuf_addf(&b, "names-%s", c->cfg.profile);
    for (; *path; path++)
        strbuf_add(&b, *path == '/' ? "-" : (char[]){*path, 0});
    return path_join(c->cfg.cache, strbuf_str(&b));
}

/* Names of the list, one a line; from the cache when it is young. Owned by the caller. */
static char *names_get(struct cli *c, const char *path)
{
    AUTO_FREE char *file = cache_file(c, path);
    AUTO_ANSWER struct answer a = {0};
    AUTO_STRBUF struct strbuf b = {0};
    struct stat st;
    char *text = NULL;
    size_t i;
    json_t *o;

    answer_init(&a);
    if (stat(file, &st) == 0 && st.st_mtime + NAMES_LIFE_S > time(NULL) &&
        file_read(file, 1 << 20, &text, NULL) == ERR_OK)
        return text;
    strbuf_init(&b, 1 << 20);
    if (api_call(c, "GET", path, NULL, CALL_QUIET, &a)) {
        json_array_foreach(json_object_get(a.json, "items"), i, o)
        {
            const char *name = field_str(o, "name");
            name = *name ? name : *field_str(o, "gpu") ? field_str(o, "gpu") : field_str(o, "id");
            text_clean(name, &b);
            strbuf_add(&b, "\n");
        }
        (void)!file_write(file, strbuf_str(&b), 0600, NULL);
    }
    return strbuf_take(&b);
}

static void complete_names(struct cli *c, const char *arg, const char *cur)
{
    static char seen[256][64];
    const char *path = names_path(str_eq(arg, "compare") ? "instance" : arg);
    size_t n = 0;

    for (size_t i = 0; str_eq(arg, "model") && i < model_row_count; i++)
        offer(model_rows[i].m.name, cur, seen, &n);
    if (!path)
        return;
    AUTO_FREE char *names = names_get(c, path);
    for (char *p = names, *save; (p = strtok_r(p, "\n", &save)); p = NULL)
        offer(p, cur, seen, &n);
}

static void complete_value(struct cli *c, const struct verb *v, int argc, char **argv)
{
    const char *cur = argv[argc - 1], *prev = argc > 1 ? argv[argc - 2] : "";
    const struct arg *a;
    int words = 0;

    if (str_starts(prev, "--")) {
        AUTO_FREE char *name = mem_strdup(prev + 2);
        for (char *p = name; *p; p++)
            *p = (char)(*p == '-' ? '_' : *p);
        complete_names(c, name, cur);
        return;
    }
    for (int i = 0; i + 1 < argc; i++)
        words += argv[i][0] != '-';
    for (size_t i = 0; (a = verb_arg(v, i)); i++)
        if (arg_is_word(v, a) && words-- == 0)
            complete_names(c, str_eq(v->cli, "cp") ? "instance" : a->name, cur);
    if (str_eq(v->cli, "completion"))
        puts("bash\nzsh\nfish");
}

int complete_print(struct cli *c, int argc, char **argv)
{
    int words;
    const struct verb *v = verb_match(argc > 0 ? argc - 1 : 0, argv, &words);

    if (argc > 0 && v && str_starts(argv[argc - 1], "-"))
        complete_flags(v, argv[argc - 1]);
    else if (argc > words && v)
        complete_value(c, v, argc - words, argv + words);
    if (!v || argc == words + 1)
        complete_verb(argc, argv);
    return 0;
}
