/* main.c: flags of every verb, the verb itself, and who carries it out. */
#include <curl/curl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/cli.h"

/* Screens made by hand; every other operation goes through cmd_api. */
static const struct {
    const char *cli;
    cmd_run *run;
} commands[] = {
    {"login", cmd_login},
    {"whoami", cmd_whoami},
    {"offers", cmd_offers},
    {"quote", cmd_quote},
    {"rent", cmd_rent},
    {"ls", cmd_ls},
    {"show", cmd_show},
    {"stop", cmd_stop},
    {"admin reclaim", cmd_reclaim},
    {"start", cmd_start},
    {"extend", cmd_extend},
    {"resize", cmd_resize},
    {"release", cmd_release},
    {"ssh", cmd_ssh},
    {"exec", cmd_exec},
    {"cp", cmd_cp},
    {"code", cmd_code},
    {"ssh-config", cmd_ssh_config},
    {"logs", cmd_logs},
    {"events", cmd_events},
    {"usage export", cmd_usage},
    {"wallet", cmd_wallet},
    {"wallet statement", cmd_statement},
    {"wallet topup", cmd_topup},
    {"wallet pay", cmd_topup},
    {"bill", cmd_bill},
    {"review", cmd_review},
    {"admin reconcile import", cmd_reconcile_import},
    {"plan ls", cmd_plan_ls},
    {"invoice pdf", cmd_invoice_pdf},
    {"invoice export", cmd_invoice_export},
    {"invoice show", cmd_invoice_show},
    {"bill export", cmd_bill_export},
    {"bill verify", cmd_bill_verify},
    {"bill explain", cmd_bill_explain},
    {"key add", cmd_key_add},
    {"disk rm", cmd_disk_rm},
    {"port open", cmd_port},
    {"port close", cmd_port},
    {"admin check", cmd_check},
    {"doctor", cmd_doctor},
    {"tco", cmd_tco},
    {"market", cmd_market},
    {"market add", cmd_market_add},
    {"size", cmd_size},
    {"admin init", cmd_admin_init},
    {"admin restore", cmd_admin_restore},
    {"admin replay", cmd_replay},
    {"admin place", cmd_admin_place},
    {"completion", cmd_completion},
    {"help", cmd_help},
    {"man", cmd_man},
    {"version", cmd_version},
};

/* Operations that destroy and have no screen of their own. */
static const struct {
    const char *cli, *question;
} destroys[] = {
    {"admin node rm", N_("Remove this node?")},
    {"admin node kill-unknown", N_("End this guest?")},
    {"plan release", N_("Leave this plan early? (--dry-run shows what comes back)")},
    {"admin invoice credit", N_("Take this invoice back by a credit note?")},
    {"admin voucher revoke", N_("Make the codes worthless that nobody redeemed?")},
    {"admin channel rm", N_("Take no more payments by this channel?")},
};

int cmd_api(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};

    answer_init(&a);
    for (size_t i = 0; i < ARRAY_LEN(destroys); i++) {
        int e = str_eq(destroys[i].cli, call->verb->cli)
                    ? confirm(c, "--yes", tr(destroys[i].question))
                    : 0;
        if (e)
            return e;
    }
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->dry_run)
        say(c, "%s", tr("Dry run: nothing was changed."));
    int e = view_print(c, call->verb, &a);
    if (!c->json && !c->quiet && str_eq(call->verb->schema, "none"))
        say(c, "%s", tr("Done."));
    return e;
}

int cmd_check(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    view_print(c, call->verb, &a);
    return field_bool(a.json, "pass") ? 0 : 1;
}

static cmd_run *command_of(const struct verb *v)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (str_eq(commands[i].cli, v->cli))
            return commands[i].run;
    return cmd_api;
}

struct globals {
    struct config_flags cfg;
    const char *timeout;
    bool json, quiet, yes, dry_run, no_wait, no_color, utc, help, version;
};

/* A flag of every verb at argv[i]; number of words it took, 0 when it is none, -1 without value. */
static int global_flag(struct globals *g, int argc, char **argv, int i)
{
    const struct {
        const char *name, *alias;
        bool *flag;
    } bools[] = {{"--json", "--json", &g->json},
                 {"--quiet", "-q", &g->quiet},
                 {"--yes", "-y", &g->yes},
                 {"--dry-run", "--dry-run", &g->dry_run},
                 {"--no-wait", "--no-wait", &g->no_wait},
                 {"--no-color", "--no-color", &g->no_color},
                 {"--utc", "--utc", &g->utc},
                 {"--help", "-h", &g->help},
                 {"--version", "-V", &g->version}};
    const struct {
        const char *name;
        const char **value;
    } values[] = {{"--url", &g->cfg.url},     {"--ca", &g->cfg.ca},
                  {"--lang", &g->cfg.lang},   {"--profile", &g->cfg.profile},
                  {"--timeout", &g->timeout}, {"--token-file", &g->cfg.token_file}};

    for (size_t k = 0; k < ARRAY_LEN(bools); k++) {
        if (str_eq(argv[i], bools[k].name) || str_eq(argv[i], bools[k].alias)) {
            *bools[k].flag = true;
            return 1;
        }
    }
    for (size_t k = 0; k < ARRAY_LEN(values); k++) {
        size_t n = strlen(values[k].name);
        if (strncmp(argv[i], values[k].name, n) != 0 || (argv[i][n] && argv[i][n] != '='))
            continue;
        if (!argv[i][n] && i + 1 >= argc)
            return -1;
        *values[k].value = argv[i][n] ? argv[i] + n + 1 : argv[i + 1];
        return argv[i][n] ? 1 : 2;
    }
    return 0;
}

/* Takes the flags of every verb out of argv (up to "--"); the rest stays in order. */
static const char *take_globals(struct globals *g, int *argc, char **argv)
{
    int n = 0;

    for (int i = 0; i < *argc;) {
        int took = str_eq(argv[i], "--") ? 0 : global_flag(g, *argc, argv, i);
        if (took < 0)
            return argv[i];
        if (str_eq(argv[i], "--")) {
            while (i < *argc)
                argv[n++] = argv[i++];
            break;
        }
        if (took == 0)
            argv[n++] = argv[i];
        i += took ? took : 1;
    }
    *argc = n;
    return NULL;
}

static int unknown_verb(struct cli *c, int argc, char **argv)
{
    AUTO_STRBUF struct strbuf two = {0};
    const char *real = verb_synonym(argv[0]), *near;

    strbuf_init(&two, 256);
    strbuf_add(&two, argv[0]);
    if (argc > 1)
        strbuf_addf(&two, " %s", argv[1]);
    for (size_t i = 0; i < verb_count && argc <= 2;
         i++) /* "disk", "admin node" alone: their verbs */
        if (str_starts(verbs[i].cli, strbuf_str(&two)) && verbs[i].cli[two.len] == ' ')
            return fail_usage(c, tr("%s needs another word; see: suanli help %s"), strbuf_str(&two),
                              argv[0]);
    near = argc > 1 ? verb_near(strbuf_str(&two)) : NULL;
    near = near ? near : verb_near(argv[0]);
    if (str_eq(argv[0], "rm") || str_eq(argv[0], "down") || str_eq(argv[0], "destroy") ||
        str_eq(argv[0], "scancel") || str_eq(argv[0], "terminate") || str_eq(argv[0], "kill"))
        return fail_usage(c, tr("%s: stop or release? stop keeps the data, release erases it"),
                          argv[0]);
    if (real)
        return fail_usage(c, tr("%s is called %s here: suanli %s"), argv[0], real, real);
    if (near)
        return fail_usage(c, tr("there is no verb %s; did you mean %s?"), strbuf_str(&two), near);
    return fail_usage(c, tr("there is no verb %s"), argv[0]);
}

/* Synonyms with the same meaning and arguments are carried out; the real name is said once. */
static void translate_synonym(struct cli *c, int argc, char **argv)
{
    const char *real = argc ? verb_synonym(argv[0]) : NULL;
    int words;

    if (!real || strchr(real, ' ') || verb_match(argc, argv, &words))
        return;
    say(c, tr("(%s is called %s here)"), argv[0], real);
    argv[0] = (char *)(uintptr_t)real;
}

static int no_words(struct cli *c)
{
    char *ls[] = {(char *)(uintptr_t) "ls"};
    struct call call;

    if (!c->cfg.token || !c->cfg.url || c->json)
        return c->json ? fail_usage(c, "%s", tr("a verb is missing")) : help_short(c, stdout);
    if (args_parse(c, verb_find("ls"), 0, ls, &call) != 0)
        return 2;
    int e = cmd_ls(c, &call);
    call_fini(&call);
    return e;
}

static int run_verb(struct cli *c, int argc, char **argv, bool help)
{
    int words;
    struct call call = {0};
    const struct verb *v;

    translate_synonym(c, argc, argv);
    v = verb_match(argc, argv, &words);
    if (argc && str_eq(argv[0], "help") && argc > 2) { /* help admin node ls */
        AUTO_STRBUF struct strbuf topic = {0};
        strbuf_init(&topic, 256);
        for (int i = 1; i < argc; i++)
            strbuf_addf(&topic, "%s%s", i > 1 ? " " : "", argv[i]);
        v = verb_find(strbuf_str(&topic));
        return v ? help_verb(c, v, stdout) : unknown_verb(c, argc - 1, argv + 1);
    }
    if (!v)
        return help ? help_short(c, stdout) : unknown_verb(c, argc, argv);
    c->command = v->cli;
    if (help)
        return help_verb(c, v, stdout);
    if (c->dry_run && !(v->flags & VERB_DRYRUN))
        return fail_usage(c, tr("%s has no --dry-run; nothing was done"), v->cli);
    int e = args_parse(c, v, argc - words, argv + words, &call);
    if (!e)
        e = command_of(v)(c, &call);
    call_fini(&call);
    return e;
}

static enum lang choose_lang(const struct cli *c)
{
    const char *env[] = {c->cfg.lang, getenv("LC_ALL"), getenv("LC_MESSAGES"), getenv("LANG")};

    for (size_t i = 0; i < ARRAY_LEN(env); i++)
        if (env[i] && *env[i])
            return msg_lang(env[i]);
    return LANG_EN;
}

static int setup(struct cli *c, const struct globals *g)
{
    struct refusal why;
    const char *term = getenv("TERM");
    enum err e = config_load(&c->cfg, &g->cfg, &why);

    c->json = g->json;
    c->quiet = g->quiet;
    c->yes = g->yes;
    c->dry_run = g->dry_run;
    c->no_wait = g->no_wait;
    c->utc = g->utc;
    c->lang = choose_lang(c);
    tr_set(c->lang);
    c->ask = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    c->bar = isatty(STDERR_FILENO) && term && !str_eq(term, "dumb");
    c->color = isatty(STDOUT_FILENO) && term && !str_eq(term, "dumb") && !g->no_color &&
               !(getenv("NO_COLOR") && *getenv("NO_COLOR"));
    if (e != ERR_OK)
        return fail(c, &why);
    if (g->utc)
        setenv("TZ", "UTC0", 1);
    if (g->timeout && duration_parse(g->timeout, &c->timeout_s) != ERR_OK)
        return fail_usage(c, tr("%s %s: expected something such as %s"), "--timeout", g->timeout,
                          "90s, 10m");
    return 0;
}

int main(int argc, char **argv)
{
    struct cli c = {.program = argv[0]};
    struct globals g = {0};
    int n = argc - 1, e;
    char **words = argv + 1;
    bool completing = n > 0 && str_eq(words[0], "__complete");

    signal(SIGPIPE, SIG_DFL);
    const char *lacking = completing ? NULL : take_globals(&g, &n, words);
    e = setup(&c, &g);
    if (!e && lacking)
        e = fail_usage(&c, tr("%s needs a value"), lacking);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    if (e)
        ;
    else if (completing)
        e = complete_print(&c, n - 1, words + 1);
    else if (g.version)
        e = cmd_version(&c, NULL);
    else if (n == 0 && g.help)
        e = help_short(&c, stdout);
    else
        e = n == 0 ? no_words(&c) : run_verb(&c, n, words, g.help);
    client_fini();
    curl_global_cleanup();
    config_fini(&c.cfg);
    if ((fflush(stdout) != 0 || ferror(stdout)) && e == 0) {
        (void)fprintf(stderr, "%s\n", tr("error: the output could not be written"));
        e = 1;
    }
    return e;
}
