/* ssh_config.c: one file of our own, and one Include at the very top of ~/.ssh/config, so that no
 * "Host *" above can override it. Paths are written with ~ so that a copied home works. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

#define SSH_CONFIG_MAX (4 << 20)

/* "/home/mei/.config/suanli/x" → "~/.config/suanli/x" */
static char *tilde(const char *path)
{
    const char *home = getenv("HOME");
    size_t n = home ? strlen(home) : 0;

    return n > 1 && strncmp(path, home, n) == 0 && path[n] == '/' ? path_join("~", path + n + 1)
                                                                  : mem_strdup(path);
}

static bool word_ok(const char *s)
{
    return *s && *s != '-' &&
           s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:")] ==
               '\0';
}

static void add_host(struct cli *c, struct strbuf *out, struct strbuf *known, const json_t *o)
{
    const json_t *ssh = json_object_get(o, "ssh");
    AUTO_FREE char *hosts = path_join(c->cfg.folder, "known_hosts");
    AUTO_FREE char *hosts_tilde = tilde(hosts);
    const char *id = field_str(o, "id"), *name = field_str(o, "name");

    strbuf_addf(out, "Host %s %s\n  HostName %s\n  Port %" PRId64 "\n  User %s\n", name, id,
                field_str(ssh, "host"), field_i64(ssh, "port"), field_str(ssh, "user"));
    strbuf_addf(
        out, "  HostKeyAlias %s\n  UserKnownHostsFile \"%s\"\n  GlobalKnownHostsFile /dev/null\n",
        id, hosts_tilde);
    strbuf_add(out, "  StrictHostKeyChecking yes\n  CheckHostIP no\n  UpdateHostKeys no\n"
                    "  ServerAliveInterval 15\n");
    if (c->cfg.identity) {
        AUTO_FREE char *key = tilde(c->cfg.identity);
        strbuf_addf(out, "  IdentityFile \"%s\"\n", key);
    }
    strbuf_add(out, "\n");
    strbuf_addf(known, "%s %s\n", id, field_str(ssh, "host_key"));
}

static bool host_ok(const json_t *o)
{
    const json_t *ssh = json_object_get(o, "ssh");

    return word_ok(field_str(o, "id")) && word_ok(field_str(o, "name")) &&
           word_ok(field_str(ssh, "host")) && word_ok(field_str(ssh, "user")) &&
           field_i64(ssh, "port") > 0 && str_starts(field_str(ssh, "host_key"), "ssh-") &&
           !strpbrk(field_str(ssh, "host_key"), "\r\n");
}

/* The lines of ~/.ssh/config without our Include, told whether it stood at the top already. */
static void strip_include(const char *text, const char *include, struct strbuf *out, bool *ret_top)
{
    bool first = true;

    *ret_top = false;
    while (*text) {
        size_t len = strcspn(text, "\n");
        bool ours = len == strlen(include) && memcmp(text, include, len) == 0;
        bool blank = len == 0 || *text == '#';
        if (ours && first)
            *ret_top = true;
        if (!ours)
            strbuf_addf(out, "%.*s\n", (int)len, text);
        if (!blank)
            first = false;
        text += len + (text[len] == '\n');
    }
}

static int mode_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (int)(st.st_mode & 0777) : 0600;
}

/* Follows a symbolic link (dotfile folders), so that the link stays one. Owned by the caller. */
static char *user_file(void)
{
    const char *home = getenv("HOME");
    char *path = path_join(home ? home : "/", ".ssh/config");
    char *real = realpath(path, NULL);

    if (!real)
        return path;
    free(path);
    return real;
}

static enum err include_set(const char *own, bool remove, bool *ret_changed, struct refusal *why)
{
    AUTO_FREE char *path = user_file();
    AUTO_FREE char *text = NULL;
    AUTO_FREE char *short_own = tilde(own);
    AUTO_STRBUF struct strbuf include = {0}, rest = {0}, out = {0};
    bool top;
    enum err e = file_read(path, SSH_CONFIG_MAX, &text, why);

    if (e != ERR_NOT_FOUND)
        TRY(e);
    strbuf_init(&include, 8192);
    strbuf_init(&rest, SSH_CONFIG_MAX);
    strbuf_init(&out, SSH_CONFIG_MAX);
    strbuf_addf(&include, "Include \"%s\"", short_own);
    strip_include(text ? text : "", strbuf_str(&include), &rest, &top);
    *ret_changed = remove ? text && !str_eq(text, strbuf_str(&rest)) : !top;
    if (!*ret_changed)
        return ERR_OK;
    if (!remove)
        strbuf_addf(&out, "%s\n", strbuf_str(&include));
    strbuf_add(&out, strbuf_str(&rest));
    return file_write(path, strbuf_str(&out), mode_of(path), why);
}

/* A Host of the same name further down would lose silently: say so. */
static void warn_clash(struct cli *c, const char *name)
{
    AUTO_FREE char *path = user_file();
    AUTO_FREE char *text = NULL;

    if (file_read(path, SSH_CONFIG_MAX, &text, NULL) != ERR_OK)
        return;
    for (char *line = text, *save; (line = strtok_r(line, "\n", &save)); line = NULL) {
        char *word_save, *word = strtok_r(line, " \t=", &word_save);
        if (!word || strcasecmp(word, "Host") != 0)
            continue;
        while ((word = strtok_r(NULL, " \t", &word_save)))
            if (str_eq(word, name))
                say(c,
                    tr("Your own ~/.ssh/config has a Host %s too; ours comes first. The id works "
                       "as a name as well."),
                    name);
    }
}

static int write_hosts(struct cli *c, const char *own, const json_t *items, struct strbuf *names)
{
    AUTO_FREE char *hosts = path_join(c->cfg.folder, "known_hosts");
    AUTO_STRBUF struct strbuf out = {0}, known = {0};
    struct refusal why;
    size_t i;
    json_t *o;
    bool changed;

    strbuf_init(&out, SSH_CONFIG_MAX);
    strbuf_init(&known, SSH_CONFIG_MAX);
    strbuf_add(&out, "# Written by: suanli ssh-config. Changes here are lost.\n");
    json_array_foreach(items, i, o)
    {
        if (!host_ok(o))
            continue;
        add_host(c, &out, &known, o);
        strbuf_addf(names, "%s\n", field_str(o, "name"));
        warn_clash(c, field_str(o, "name"));
    }
    if (file_write(own, strbuf_str(&out), 0600, &why) != ERR_OK ||
        file_write(hosts, strbuf_str(&known), 0600, &why) != ERR_OK ||
        include_set(own, false, &changed, &why) != ERR_OK)
        return fail(c, &why);
    if (changed)
        say(c, "%s", tr("One Include was added at the top of ~/.ssh/config."));
    return 0;
}

int cmd_ssh_config(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    AUTO_FREE char *own = path_join(c->cfg.folder, "ssh_config");
    AUTO_STRBUF struct strbuf names = {0};
    struct refusal why;
    bool changed;
    int e = 0;

    answer_init(&a);
    strbuf_init(&names, 1 << 20);
    if (arg_bool(call, "remove")) {
        if (include_set(own, true, &changed, &why) != ERR_OK)
            return fail(c, &why);
        unlink(own);
        say(c, "%s", tr("Our file and its Include are gone."));
    } else {
        if (!api_get(c, "/v1/instances", &a))
            return a.exit;
        e = write_hosts(c, own, json_object_get(a.json, "items"), &names);
        if (e)
            return e;
    }
    if (c->json) {
        AUTO_JSON json_t *o = json_pack("{s:s,s:[]}", "file", own, "hosts");
        AUTO_FREE char *copy = mem_strdup(strbuf_str(&names));
        for (char *p = copy, *save; (p = strtok_r(p, "\n", &save)); p = NULL)
            json_array_append_new(json_object_get(o, "hosts"), json_string(p));
        AUTO_FREE char *text = json_dumps(o, JSON_COMPACT);
        puts(text ? text : "{}");
    } else {
        fputs(strbuf_str(&names), stdout);
        if (!arg_bool(call, "remove") && !c->quiet)
            say(c, "%s", tr("Now: ssh NAME. After a rent or a restart, run this again."));
    }
    return e;
}
