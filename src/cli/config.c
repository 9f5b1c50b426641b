#include "cli/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

#define CONFIG_MAX (256 * 1024)

static enum err system_failed(struct refusal *why, const char *call, const char *path)
{
    enum err e = refusef(why, ERR_SYSTEM, "call", "%s %s", call, path);

    refusal_set(why, "why", strerror(errno));
    return e;
}

char *path_join(const char *a, const char *b)
{
    AUTO_STRBUF struct strbuf s = {0};

    strbuf_init(&s, 8192);
    strbuf_addf(&s, "%s%s%s", a, *a && a[strlen(a) - 1] == '/' ? "" : "/", b);
    return strbuf_take(&s);
}

enum err file_read(const char *path, size_t max, char **ret_text, struct refusal *why)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    AUTO_STRBUF struct strbuf b = {0};
    char part[4096];
    ssize_t n;

    strbuf_init(&b, max);
    if (fd < 0)
        return errno == ENOENT ? refusef(why, ERR_NOT_FOUND, "name", "%s", path)
                               : system_failed(why, "open", path);
    while ((n = read(fd, part, sizeof(part))) > 0)
        strbuf_add_n(&b, part, (size_t)n);
    if (n < 0)
        return system_failed(why, "read", path);
    if (b.overflow) {
        enum err e = refusef(why, ERR_TOO_LARGE, "what", "%s", path);
        refusal_setf(why, "max", "%zu", max);
        return e;
    }
    *ret_text = strbuf_take(&b);
    return ERR_OK;
}

enum err folder_make(const char *path, struct refusal *why)
{
    AUTO_FREE char *p = mem_strdup(path);

    for (char *s = p + 1;; s++) {
        if (*s && *s != '/')
            continue;
        char keep = *s;
        *s = '\0';
        if (mkdir(p, 0700) != 0 && errno != EEXIST)
            return system_failed(why, "mkdir", p);
        *s = keep;
        if (!keep)
            return ERR_OK;
    }
}

enum err file_write(const char *path, const char *text, int mode, struct refusal *why)
{
    AUTO_FREE char *folder = mem_strdup(path);
    AUTO_FREE char *tmp = NULL;
    AUTO_STRBUF struct strbuf name = {0};
    size_t len = strlen(text), done = 0;
    char *slash = strrchr(folder, '/');

    if (slash && slash != folder) {
        *slash = '\0';
        TRY(folder_make(folder, why));
    }
    strbuf_init(&name, 8192);
    strbuf_addf(&name, "%s.%d.tmp", path, (int)getpid());
    tmp = strbuf_take(&name);
    unlink(tmp);
    AUTO_CLOSE int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return system_failed(why, "create", tmp);
    while (done < len) {
        ssize_t n = write(fd, text + done, len - done);
        if (n < 0)
            break;
        done += (size_t)n;
    }
    if (done < len || fsync(fd) != 0 || rename(tmp, path) != 0) {
        enum err e = system_failed(why, "write", path);
        unlink(tmp);
        return e;
    }
    return ERR_OK;
}

static const char *skip_blank(const char *s)
{
    return s + strspn(s, " \t\r");
}

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/* "…" with \" \\ \n \t, or '…' as it stands. Returns what follows, NULL when it is not closed. */
static const char *parse_text(const char *s, char *out, size_t size)
{
    char quote = *s++;
    size_t n = 0;

    for (; *s && *s != quote; s++) {
        char ch = *s;
        if (quote == '"' && ch == '\\') {
            ch = *++s;
            if (!strchr("\"\\nt", ch) || !ch)
                return NULL;
            ch = (char)(ch == 'n' ? '\n' : ch == 't' ? '\t' : ch);
        }
        if (n + 1 >= size)
            return NULL;
        out[n++] = ch;
    }
    out[n] = '\0';
    return *s == quote ? s + 1 : NULL;
}

static bool is_bare(const char *v)
{
    int64_t n;

    return str_eq(v, "true") || str_eq(v, "false") ||
           str_parse_i64(v, INT64_MIN, INT64_MAX, &n) == ERR_OK;
}

static enum err not_toml(struct refusal *why, const char *text)
{
    return refusef(why, ERR_VALIDATION, "why", "%s", text);
}

enum err toml_line_parse(const char *line, struct toml_line *ret_l, struct refusal *why)
{
    struct toml_line l = {.kind = TOML_EMPTY};
    const char *s = skip_blank(line);
    bool table = *s == '[';
    size_t n = 0;

    if (!*s || *s == '#') {
        *ret_l = l;
        return ERR_OK;
    }
    s = skip_blank(s + table);
    while (is_key_char(*s) && n + 1 < sizeof(l.key))
        l.key[n++] = *s++;
    s = skip_blank(s);
    if (n == 0 || *s != (table ? ']' : '='))
        return not_toml(why, table ? "a table is written [name]" : "expected: key = value");
    l.kind = table ? TOML_TABLE : TOML_KEY;
    s = skip_blank(s + 1);
    if (!table && (*s == '"' || *s == '\'')) {
        s = parse_text(s, l.value, sizeof(l.value));
        if (!s)
            return not_toml(why, "the text is not closed, too long or has an unknown escape");
    } else if (!table) {
        n = strcspn(s, " \t\r#");
        if (!str_printf(l.value, sizeof(l.value), "%.*s", (int)n, s) || !is_bare(l.value))
            return not_toml(why, "a value is \"text\", a whole number, true or false");
        s += n;
    }
    s = skip_blank(s);
    if (*s && *s != '#')
        return not_toml(why, "something follows the value");
    *ret_l = l;
    return ERR_OK;
}

enum { FROM_USER, FROM_PROJECT };

/* Where a key of the files belongs; NULL when no such key may stand there. */
static char **config_slot(struct config *cfg, const char *key, bool in_profile, int from)
{
    if (from == FROM_USER && in_profile && str_eq(key, "url"))
        return &cfg->url;
    if (from == FROM_USER && in_profile && str_eq(key, "token"))
        return &cfg->token;
    if (from == FROM_USER && in_profile && str_eq(key, "ca"))
        return &cfg->ca;
    if (from == FROM_USER && str_eq(key, "identity"))
        return &cfg->identity;
    if (!in_profile && str_eq(key, "profile"))
        return &cfg->profile;
    if (!in_profile && str_eq(key, "lang"))
        return &cfg->lang;
    if (str_eq(key, "for"))
        return &cfg->rent_for;
    if (str_eq(key, "image"))
        return &cfg->rent_image;
    if (str_eq(key, "gpu"))
        return &cfg->rent_gpu;
    return NULL;
}

static enum err line_refused(struct refusal *why, const char *path, int number, const char *text)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%s:%d", path, number);

    refusal_set(why, "why", text);
    return e;
}

struct file_pass {
    const char *path;
    int from;
    bool want_profile; /* false: the keys above all tables; true: those of the profile's table */
};

static enum err config_line(struct config *cfg, const struct file_pass *p,
                            const struct toml_line *l, const char *table, int number,
                            struct refusal *why)
{
    char mine[80];
    bool in_profile = *table != '\0';
    struct config probe = {0};

    if (!config_slot(&probe, l->key, in_profile, p->from))
        return line_refused(why, p->path, number,
                            p->from == FROM_PROJECT && config_slot(&probe, l->key, true, FROM_USER)
                                ? "a project's file may not set this; it belongs into your own file"
                                : "unknown key");
    if (in_profile != p->want_profile)
        return ERR_OK;
    str_printf(mine, sizeof(mine), "profile.%s", cfg->profile ? cfg->profile : "default");
    if (in_profile && !str_eq(table, mine))
        return ERR_OK;
    char **slot = config_slot(cfg, l->key, in_profile, p->from);
    if (!*slot)
        *slot = mem_strdup(l->value);
    return ERR_OK;
}

static enum err config_file(struct config *cfg, const struct file_pass *p, struct refusal *why)
{
    AUTO_FREE char *text = NULL;
    char table[64] = "", *next;
    int number = 0;
    enum err e = file_read(p->path, CONFIG_MAX, &text, why);

    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    TRY(e);
    for (char *line = text; line; line = next) {
        struct toml_line l;
        struct refusal inner;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        number++;
        if (toml_line_parse(line, &l, &inner) != ERR_OK)
            return line_refused(why, p->path, number, inner.params[0].value);
        if (l.kind == TOML_TABLE) {
            if (!str_starts(l.key, "profile.") || p->from == FROM_PROJECT)
                return line_refused(why, p->path, number, "the only tables are [profile.NAME]");
            str_copy(table, sizeof(table), l.key);
        } else if (l.kind == TOML_KEY) {
            TRY(config_line(cfg, p, &l, table, number, why));
        }
    }
    return ERR_OK;
}

static void set_from(char **slot, const char *value)
{
    if (!*slot && value && *value)
        *slot = mem_strdup(value);
}

static char *xdg(const char *env, const char *fallback)
{
    const char *base = getenv(env), *home = getenv("HOME");

    if (base && *base == '/')
        return path_join(base, "suanli");
    AUTO_FREE char *under = path_join(home && *home ? home : "/", fallback);
    return path_join(under, "suanli");
}

static enum err token_from_file(struct config *cfg, const char *path, struct refusal *why)
{
    AUTO_FREE char *text = NULL;

    TRY(file_read(path, 4096, &text, why));
    CHECK(text);
    text[strcspn(text, "\r\n")] = '\0';
    set_from(&cfg->token, text);
    return ERR_OK;
}

/* "https://host/" and "https://host" are one server. */
static void trim_slash(char *url)
{
    size_t n = url ? strlen(url) : 0;

    if (n > 1 && url[n - 1] == '/')
        url[n - 1] = '\0';
}

/* A token is sent only where it was made: a --url or SUANLI_URL of its own needs its own token. */
static void bind_token(struct config *cfg, const char *told_url)
{
    struct config file = {.profile = cfg->profile};
    AUTO_FREE char *path = path_join(cfg->folder, "config.toml");
    struct file_pass pass = {path, FROM_USER, true};
    bool good = config_file(&file, &pass, NULL) == ERR_OK && file.token;

    trim_slash(file.url);
    if (good && (!told_url || (file.url && cfg->url && str_eq(cfg->url, file.url)))) {
        cfg->token = TAKE(file.token);
        cfg->token_from = "config.toml";
    }
    file.profile = NULL;
    config_fini(&file);
}

enum err config_load(struct config *cfg, const struct config_flags *flags, struct refusal *why)
{
    *cfg = (struct config){.folder = xdg("XDG_CONFIG_HOME", ".config"),
                           .state = xdg("XDG_STATE_HOME", ".local/state"),
                           .cache = xdg("XDG_CACHE_HOME", ".cache")};
    AUTO_FREE char *user = path_join(cfg->folder, "config.toml");
    struct file_pass passes[] = {
        {".suanli.toml", FROM_PROJECT, false}, {user, FROM_USER, false}, {user, FROM_USER, true}};
    const char *told_url = flags->url ? flags->url : getenv("SUANLI_URL");

    set_from(&cfg->url, told_url);
    set_from(&cfg->ca, flags->ca ? flags->ca : getenv("SUANLI_CA"));
    set_from(&cfg->profile, flags->profile ? flags->profile : getenv("SUANLI_PROFILE"));
    set_from(&cfg->lang, flags->lang ? flags->lang : getenv("SUANLI_LANG"));
    set_from(&cfg->identity, getenv("SUANLI_IDENTITY"));
    set_from(&cfg->rent_for, getenv("SUANLI_FOR"));
    set_from(&cfg->rent_image, getenv("SUANLI_IMAGE"));
    set_from(&cfg->rent_gpu, getenv("SUANLI_GPU"));
    if (flags->token_file) {
        TRY(token_from_file(cfg, flags->token_file, why));
        cfg->token_from = "--token-file";
    } else if (getenv("SUANLI_TOKEN")) {
        set_from(&cfg->token, getenv("SUANLI_TOKEN"));
        cfg->token_from = "SUANLI_TOKEN";
    }
    bool own_token = cfg->token != NULL;
    for (size_t i = 0; i < ARRAY_LEN(passes); i++)
        TRY(config_file(cfg, &passes[i], why));
    trim_slash(cfg->url);
    if (!own_token) {
        mem_free_ptr(&cfg->token);
        cfg->token = NULL;
        bind_token(cfg, told_url && *told_url ? told_url : NULL);
    }
    set_from(&cfg->profile, "default");
    return ERR_OK;
}

void config_fini(struct config *cfg)
{
    char **all[] = {&cfg->url,      &cfg->token,    &cfg->ca,       &cfg->profile,
                    &cfg->lang,     &cfg->identity, &cfg->rent_for, &cfg->rent_image,
                    &cfg->rent_gpu, &cfg->folder,   &cfg->state,    &cfg->cache};

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        free(*all[i]);
        *all[i] = NULL;
    }
}

static void add_key(struct strbuf *out, const char *key, const char *value)
{
    if (!value)
        return;
    strbuf_addf(out, "%s = \"", key);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            strbuf_add(out, "\\");
        strbuf_add_n(out, value, 1);
    }
    strbuf_add(out, "\"\n");
}

static void add_login(struct strbuf *out, const struct config *cfg, const char *token)
{
    /* the file outlives the folder it was typed in */
    AUTO_FREE char *ca = cfg->ca ? realpath(cfg->ca, NULL) : NULL;

    add_key(out, "url", cfg->url);
    add_key(out, "ca", ca ? ca : cfg->ca);
    add_key(out, "token", token);
}

enum err config_save_login(const struct config *cfg, const char *token, struct refusal *why)
{
    AUTO_FREE char *path = path_join(cfg->folder, "config.toml");
    AUTO_FREE char *text = NULL;
    AUTO_STRBUF struct strbuf out = {0};
    char mine[80], *next;
    bool inside = false, done = false;
    enum err e = file_read(path, CONFIG_MAX, &text, why);

    if (e != ERR_NOT_FOUND)
        TRY(e);
    strbuf_init(&out, CONFIG_MAX * 2);
    str_printf(mine, sizeof(mine), "profile.%s", cfg->profile);
    for (char *line = text; line && *line; line = next) {
        struct toml_line l;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        TRY(toml_line_parse(line, &l, why));
        if (l.kind == TOML_TABLE)
            inside = str_eq(l.key, mine);
        bool ours = inside && l.kind == TOML_KEY &&
                    (str_eq(l.key, "url") || str_eq(l.key, "ca") || str_eq(l.key, "token"));
        if (!ours)
            strbuf_addf(&out, "%s\n", line);
        if (inside && l.kind == TOML_TABLE && !done) {
            add_login(&out, cfg, token);
            done = true;
        }
    }
    if (!done) {
        strbuf_addf(&out, "%s[%s]\n", out.len ? "\n" : "", mine);
        add_login(&out, cfg, token);
    }
    return file_write(path, strbuf_str(&out), 0600, why);
}
