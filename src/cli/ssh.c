/* ssh.c: the OpenSSH client does the talking. It is told the host key that the API gave, in a file
 * of our own, so the first connection is as sure as the tenth. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

void shell_quote(struct strbuf *out, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";

    if (*word && word[strspn(word, plain)] == '\0') {
        strbuf_add(out, word);
        return;
    }
    strbuf_add(out, "'");
    for (; *word; word++) {
        if (*word == '\'')
            strbuf_add(out, "'\\''");
        else
            strbuf_add_n(out, word, 1);
    }
    strbuf_add(out, "'");
}

void ssh_word(struct ssh_words *w, const char *fmt, ...)
{
    AUTO_STRBUF struct strbuf b = {0};
    va_list ap;

    CHECK((size_t)w->count + 1 < ARRAY_LEN(w->word));
    strbuf_init(&b, 1 << 20);
    va_start(ap, fmt);
    strbuf_addv(&b, fmt, ap);
    va_end(ap);
    w->word[w->count++] = strbuf_take(&b);
}

void ssh_words_fini(struct ssh_words *w)
{
    for (int i = 0; i < w->count; i++)
        free(w->word[i]);
    *w = (struct ssh_words){0};
}

/* The server's words end up in a file and in arguments: only what an address can hold passes. */
static bool is_host(const char *s)
{
    static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:";

    return *s && *s != '-' && s[strspn(s, ok)] == '\0';
}

static bool is_host_key(const char *s)
{
    static const char ok[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=-@. _";

    return *s && s[strspn(s, ok)] == '\0' && strchr(s, ' ');
}

static bool address_ok(const json_t *ssh)
{
    int64_t port = field_i64(ssh, "port");

    return is_host(field_str(ssh, "host")) && is_host(field_str(ssh, "user")) &&
           is_host_key(field_str(ssh, "host_key")) && port > 0 && port < 65536;
}

/* One line a instance under its id; the id is the alias we connect by, so ports and addresses may
 * change. Rewritten whole. */
static enum err known_hosts_set(const char *path, const char *id, const char *key,
                                struct refusal *why)
{
    AUTO_FREE char *old = NULL;
    AUTO_STRBUF struct strbuf out = {0};
    enum err e = file_read(path, 4 << 20, &old, why);
    size_t n = strlen(id);

    if (e != ERR_NOT_FOUND)
        TRY(e);
    strbuf_init(&out, 4 << 20);
    for (const char *line = old; line && *line;) {
        size_t len = strcspn(line, "\n");
        if (strncmp(line, id, n) != 0 || line[n] != ' ')
            strbuf_addf(&out, "%.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
    strbuf_addf(&out, "%s %s\n", id, key);
    if (old && str_eq(old, strbuf_str(&out)))
        return ERR_OK;
    return file_write(path, strbuf_str(&out), 0600, why);
}

int ssh_words_make(struct cli *c, const json_t *o, struct ssh_words *ret_w)
{
    const json_t *ssh = json_object_get(o, "ssh");
    AUTO_FREE char *known = path_join(c->cfg.folder, "known_hosts");
    const char *id = field_str(o, "id");
    struct refusal why;

    *ret_w = (struct ssh_words){0};
    if (!address_ok(ssh) || !is_host(id)) {
        (void)refusef(&why, ERR_PROTOCOL, "why", "%s",
                      tr("the server gave no SSH address and host key"));
        return fail(c, &why);
    }
    if (known_hosts_set(known, id, field_str(ssh, "host_key"), &why) != ERR_OK)
        return fail(c, &why);
    ssh_word(ret_w, "ssh");
    ssh_word(ret_w, "-oUserKnownHostsFile=\"%s\"", known);
    ssh_word(ret_w, "-oGlobalKnownHostsFile=/dev/null");
    ssh_word(ret_w, "-oStrictHostKeyChecking=yes");
    ssh_word(ret_w, "-oHostKeyAlias=%s", id);
    ssh_word(ret_w, "-oCheckHostIP=no");
    ssh_word(ret_w, "-oUpdateHostKeys=no");
    ssh_word(ret_w, "-oServerAliveInterval=15");
    ssh_word(ret_w, "-oConnectTimeout=15");
    if (c->cfg.identity)
        ssh_word(ret_w, "-i%s", c->cfg.identity);
    ssh_word(ret_w, "-p%" PRId64, field_i64(ssh, "port"));
    ssh_word(ret_w, "%s@%s", field_str(ssh, "user"), field_str(ssh, "host"));
    return 0;
}

int ssh_instance(struct cli *c, const char *name, struct answer *a)
{
    AUTO_STRBUF struct strbuf path = {0};
    struct refusal why;

    strbuf_init(&path, 4096);
    strbuf_add(&path, "/v1/instances/");
    url_escape(&path, name);
    if (!api_get(c, strbuf_str(&path), a))
        return a->exit;
    const char *state = field_str(a->json, "state");
    if (str_eq(state, "preparing") || str_eq(state, "queued")) {
        AUTO_FREE char *id = mem_strdup(field_str(a->json, "id"));
        interrupt_watch();
        return wait_state(c, id, "running", c->timeout_s, a);
    }
    if (str_eq(state, "running") || str_eq(state, "preempting") || str_eq(state, "unreachable"))
        return 0;
    (void)refusef(&why, ERR_STATE, "name", "%s", field_str(a->json, "name"));
    refusal_set(&why, "state", field_str(a->json, "state_text"));
    refusal_set(&why, "action", "ssh");
    bool start = false;
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(a->json, "actions"), i, v) start =
        start || (json_is_string(v) && str_eq(json_string_value(v), "start"));
    refusal_setf(&why, "actions", "suanli %s %s", start ? "start" : "show",
                 field_str(a->json, "name"));
    return fail(c, &why);
}

/* One word goes as it is (the remote shell reads it); several are quoted, so that they arrive as
 * they were typed. */
static void add_command(struct ssh_words *w, const struct call *call)
{
    AUTO_STRBUF struct strbuf b = {0};

    strbuf_init(&b, 1 << 20);
    for (int i = 0; i < call->rest_count; i++) {
        strbuf_add(&b, i ? " " : "");
        if (call->rest_count == 1)
            strbuf_add(&b, call->rest[i]);
        else
            shell_quote(&b, call->rest[i]);
    }
    if (b.len)
        ssh_word(w, "%s", b.data);
}

static int ssh_exec(struct cli *c, struct ssh_words *w)
{
    struct refusal why;

    fflush(NULL);
    execvp(w->word[0], w->word);
    (void)refusef(&why, ERR_SYSTEM, "call", "ssh");
    refusal_set(&why, "why", strerror(errno));
    fail(c, &why);
    return 255;
}

int cmd_ssh(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    CLEANUP(ssh_words_fini) struct ssh_words w = {0};
    int e;

    answer_init(&a);
    e = ssh_instance(c, arg_str(call, "instance"), &a);
    if (e)
        return e;
    if (c->json) { /* how to connect, for programs */
        AUTO_FREE char *text = json_dumps(json_object_get(a.json, "ssh"), JSON_COMPACT);
        puts(text ? text : "{}");
        return 0;
    }
    e = ssh_words_make(c, a.json, &w);
    if (e)
        return e;
    add_command(&w, call);
    return ssh_exec(c, &w);
}

int cmd_exec(struct cli *c, struct call *call)
{
    if (call->rest_count == 0)
        return fail_usage(c, "%s", tr("exec: the command is missing: suanli exec NAME -- COMMAND"));
    if (c->json)
        return fail_usage(c, "%s",
                          tr("exec: its output is the command's own; --json has no meaning"));
    return cmd_ssh(c, call);
}

/* The folder an editor opens: where the data disk is, else the home. */
static const char *work_folder(const json_t *o)
{
    size_t i;
    json_t *d;

    json_array_foreach(json_object_get(o, "disks"), i,
                       d) if (str_eq(field_str(d, "kind"), "data") &&
                              *field_str(d, "mount") == '/') return field_str(d, "mount");
    return "/root";
}

static const char *find_editor(void)
{
    static const char *const editors[] = {"code", "cursor", "codium"};
    const char *path = getenv("PATH");

    for (size_t i = 0; i < ARRAY_LEN(editors); i++) {
        AUTO_FREE char *copy = mem_strdup(path ? path : "");
        for (char *p = copy, *save; (p = strtok_r(p, ":", &save)); p = NULL) {
            AUTO_FREE char *file = path_join(p, editors[i]);
            if (access(file, X_OK) == 0)
                return editors[i];
        }
    }
    return NULL;
}

int cmd_code(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    AUTO_STRBUF struct strbuf uri = {0};
    const char *editor = find_editor();
    int e;

    answer_init(&a);
    e = ssh_instance(c, arg_str(call, "instance"), &a);
    if (e)
        return e;
    const char *folder = arg_str(call, "folder") ? arg_str(call, "folder") : work_folder(a.json);
    strbuf_init(&uri, 4096);
    strbuf_addf(&uri, "vscode-remote://ssh-remote+%s%s", field_str(a.json, "name"), folder);
    if (c->json) {
        AUTO_JSON json_t *o = json_pack("{s:[s,s,s]}", "command", editor ? editor : "code",
                                        "--folder-uri", strbuf_str(&uri));
        AUTO_FREE char *text = json_dumps(o, JSON_COMPACT);
        puts(text ? text : "{}");
        return 0;
    }
    if (!editor || c->dry_run) {
        say(c, "%s", tr("No editor was found here. Once: suanli ssh-config. Then:"));
        printf("code --folder-uri %s\n", strbuf_str(&uri));
        return 0;
    }
    fflush(NULL);
    execlp(editor, editor, "--folder-uri", strbuf_str(&uri), (char *)NULL);
    return 1;
}
