/* cmd_login.c: who we are, whether everything is in order, and our keys. */
#include <stdlib.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

/* Reads one line without showing it; a one-time code is a secret until it is used. */
static char *read_hidden(const char *prompt)
{
    struct termios old, hidden;
    char buf[256] = "";
    bool tty = tcgetattr(STDIN_FILENO, &old) == 0;

    if (tty) {
        hidden = old;
        hidden.c_lflag &= (tcflag_t)~ECHO;
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
    }
    fputs(prompt, stderr);
    char *got = answer_wait() ? fgets(buf, sizeof(buf), stdin) : NULL;
    if (tty)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
    fputc('\n', stderr);
    buf[strcspn(buf, "\r\n")] = '\0';
    return got && *buf ? mem_strdup(buf) : NULL;
}

static int code_get(struct cli *c, const struct call *call, char **ret_code)
{
    const char *given = arg_str(call, "code"), *file = arg_str(call, "code_file");
    struct refusal why;
    char *text = NULL;

    if (given) {
        *ret_code = mem_strdup(given);
        return 0;
    }
    if (file) {
        enum err e = file_read(str_eq(file, "-") ? "/dev/stdin" : file, 4096, &text, &why);
        if (e != ERR_OK)
            return fail(c, &why);
        text[strcspn(text, "\r\n")] = '\0';
        *ret_code = text;
        return 0;
    }
    if (!c->ask)
        return fail_usage(c, "%s", tr("login: --code CODE or --code-file FILE is missing"));
    *ret_code = read_hidden(tr("One-time code: "));
    return *ret_code ? 0 : fail_usage(c, "%s", tr("login: no code was given"));
}

int cmd_login(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    AUTO_FREE char *code = NULL;
    struct refusal why;
    char host[128] = "";
    int e;

    answer_init(&a);
    if (!c->cfg.url)
        return fail_usage(c, "%s", tr("login: --url https://HOST is missing"));
    e = code_get(c, call, &code);
    if (e)
        return e;
    if (!arg_str(call, "label") && gethostname(host, sizeof(host) - 1) == 0)
        json_object_set_new(call->args, "label", json_string(host));
    json_object_set_new(call->args, "code", json_string(code));
    free(c->cfg.token);
    c->cfg.token = NULL;
    if (!call_send(c, call, &a))
        return a.exit;
    if (config_save_login(&c->cfg, field_str(a.json, "token"), &why) != ERR_OK)
        return fail(c, &why);
    say(c, tr("Logged in as %s, project %s (%s)."), field_str(a.json, "user"),
        field_str(a.json, "project"), field_str(a.json, "role"));
    say(c, "%s", tr("Next: suanli offers"));
    if (c->json)
        view_json(&a);
    else if (c->quiet)
        view_id(a.json);
    return 0;
}

int cmd_whoami(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    printf(tr("%s, project %s (%s) at %s\n"), field_str(a.json, "user"),
           field_str(a.json, "project"), field_str(a.json, "role"), c->cfg.url);
    if (field_bool(a.json, "simulated"))
        puts(tr("This platform offers simulated cards."));
    return 0;
}

/* The first of ~/.ssh/id_*.pub, the modern ones first. Owned by the caller; NULL: none. */
static char *key_default(void)
{
    static const char *const names[] = {"id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub"};
    const char *home = getenv("HOME");
    AUTO_FREE char *folder = path_join(home ? home : "/", ".ssh");

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *path = path_join(folder, names[i]);
        if (access(path, R_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

int cmd_key_add(struct cli *c, struct call *call)
{
    const char *given = arg_str(call, "public_key");
    AUTO_FREE char *path = given ? mem_strdup(given) : key_default();
    AUTO_FREE char *text = NULL;
    AUTO_ANSWER struct answer a = {0};
    struct refusal why;

    answer_init(&a);
    if (!path)
        return fail_usage(c, "%s",
                          tr("key add: no ~/.ssh/id_*.pub; make one: ssh-keygen -t ed25519"));
    if (!strchr(path, ' ')) {
        if (file_read(path, 16384, &text, &why) != ERR_OK)
            return fail(c, &why);
        if (strstr(text, "PRIVATE KEY"))
            return fail_usage(
                c, tr("key add: %s is a private key; it stays here. Give the .pub file"), path);
        text[strcspn(text, "\r\n")] = '\0';
        json_object_set_new(call->args, "public_key", json_string(text));
    }
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    printf(tr("Key %s added (%s).\n"), field_str(a.json, "name"), field_str(a.json, "fingerprint"));
    return 0;
}

struct checks {
    struct cli *c;
    struct json_writer w;
    bool ok;
};

/* One line of the doctor: what, how it is, and the fix when it is not well. */
static void check(struct checks *k, const char *what, bool ok, const char *found, const char *fix)
{
    k->ok = k->ok && ok;
    json_object_begin(&k->w, NULL);
    json_str(&k->w, "check", what);
    json_flag(&k->w, "ok", ok);
    json_str(&k->w, "found", found);
    json_str(&k->w, "fix", ok ? NULL : fix);
    json_object_finish(&k->w);
    if (k->c->json)
        return;
    AUTO_STRBUF struct strbuf b = {0};
    strbuf_init(&b, 8192);
    text_clean(found, &b);
    printf("%-4s %s: %s\n", ok ? "ok" : "BAD", tr(what), strbuf_str(&b));
    if (!ok && *fix)
        printf("     %s%s\n", tr("fix: "), fix);
}

/* False: nothing behind it can be asked. */
static bool check_server(struct checks *k)
{
    AUTO_ANSWER struct answer a = {0};
    char text[256], next[512] = "suanli login --url https://HOST";

    answer_init(&a);
    if (!k->c->cfg.url) {
        check(k, N_("server"), false, tr("no address is configured"), next);
        return false;
    }
    bool up = api_call(k->c, "GET", "/healthz", NULL, CALL_QUIET, &a) || a.status > 0;
    refusal_text(&a.why, k->c->lang, next, sizeof(next));
    check(k, N_("server"), up, up ? k->c->cfg.url : next,
          tr("check the address (--url), the network and --ca"));
    if (!up)
        return false;
    if (a.date_s > 0) {
        int64_t skew = a.date_s - (int64_t)time(NULL);
        str_printf(text, sizeof(text), tr("%+" PRId64 " s against the server"), skew);
        check(k, N_("clock"), skew >= -5 && skew <= 5, text,
              tr("set the clock: timedatectl set-ntp true"));
    }
    if (api_call(k->c, "GET", "/v1/openapi.json", NULL, CALL_QUIET, &a)) {
        const char *version = field_str(json_object_get(a.json, "info"), "version");
        str_printf(text, sizeof(text), tr("the server speaks API %.20s, this program API %s"),
                   version, API_VERSION);
        check(k, N_("version"), str_eq(version, API_VERSION), text,
              tr("use the same version on both sides"));
    }
    return true;
}

static void check_account(struct checks *k)
{
    AUTO_ANSWER struct answer a = {0};
    char text[256];

    answer_init(&a);
    bool in = k->c->cfg.token && api_call(k->c, "GET", "/v1/me", NULL, CALL_QUIET, &a);
    str_printf(text, sizeof(text), "%.60s (%.30s)", field_str(a.json, "user"),
               k->c->cfg.token_from ? k->c->cfg.token_from : "");
    check(k, N_("who you are"), in,
          in                ? text
          : k->c->cfg.token ? tr("the token is refused")
                            : tr("not logged in"),
          "suanli login");
    if (!in)
        return;
    if (api_call(k->c, "GET", "/v1/keys", NULL, CALL_QUIET, &a)) {
        size_t n = json_array_size(json_object_get(a.json, "items"));
        str_printf(text, sizeof(text), tr("%zu known to the server"), n);
        check(k, N_("SSH keys"), n > 0, text, "suanli key add");
    }
    if (api_call(k->c, "GET", "/v1/offers", NULL, CALL_QUIET, &a)) {
        size_t n = json_array_size(json_object_get(a.json, "items"));
        str_printf(text, sizeof(text), tr("%zu offers now"), n);
        check(k, N_("what can be rented"), n > 0, text, "suanli admin node ls");
    }
}

static bool in_path(const char *program)
{
    const char *path = getenv("PATH");
    AUTO_FREE char *copy = mem_strdup(path ? path : "");

    for (char *p = copy, *save; (p = strtok_r(p, ":", &save)); p = NULL) {
        AUTO_FREE char *file = path_join(p, program);
        if (access(file, X_OK) == 0)
            return true;
    }
    return false;
}

static void check_nodes(struct checks *k)
{
    AUTO_ANSWER struct answer a = {0};
    size_t i;
    json_t *o;
    char text[256];

    answer_init(&a);
    if (!k->c->cfg.token || !api_call(k->c, "GET", "/v1/admin/nodes", NULL, CALL_QUIET, &a))
        return; /* for operators only */
    json_array_foreach(json_object_get(a.json, "items"), i, o)
    {
        const char *state = field_str(o, "state");
        str_printf(text, sizeof(text), "%.60s: %.20s", field_str(o, "name"), state);
        check(k, N_("node"), str_eq(state, "ready"), text,
              str_eq(state, "draining") ? "suanli admin node drain NAME --off"
                                        : tr("look at the log of suanli-node there"));
        size_t unknown = json_array_size(json_object_get(o, "unknown"));
        str_printf(text, sizeof(text), tr("%.60s: %zu guests of no lease"), field_str(o, "name"),
                   unknown);
        if (unknown)
            check(k, N_("node"), false, text, "suanli admin node kill-unknown NODE LEASE");
    }
}

int cmd_doctor(struct cli *c, struct call *call UNUSED)
{
    AUTO_STRBUF struct strbuf json = {0};
    struct checks k = {.c = c, .ok = true};

    strbuf_init(&json, 1 << 20);
    json_writer_init(&k.w, &json);
    json_object_begin(&k.w, NULL);
    json_array_begin(&k.w, "checks");
    if (check_server(&k)) {
        check_account(&k);
        check_nodes(&k);
    }
    AUTO_FREE char *key = key_default();
    check(&k, N_("own key"), key || c->cfg.identity,
          key               ? key
          : c->cfg.identity ? c->cfg.identity
                            : "-",
          "ssh-keygen -t ed25519");
    bool ssh = in_path("ssh");
    check(&k, N_("ssh client"), ssh, ssh ? "ssh" : tr("not found"),
          "apt-get install openssh-client");
    json_array_finish(&k.w);
    json_flag(&k.w, "ok", k.ok);
    json_object_finish(&k.w);
    if (c->json)
        puts(strbuf_str(&json));
    return k.ok ? 0 : 1;
}
