/* suanlid: the control plane.
 *
 *   suanlid -c FILE                serve
 *   suanlid -n [-c FILE]           check the configuration and print it back
 *   suanlid admin-code -c FILE     a one-time code for the operator "admin"
 *   suanlid restore COPY -c FILE   put a copy in the place of the store
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/msg.h"
#include "daemon/serve.h"
#include "daemon/setup.h"

#define PATH_TEXT 320

struct options {
    const char *config, *verb, *file;
    bool check_only;
};

static int usage(FILE *out)
{
    fputs("suanlid -c FILE                serve\n"
          "suanlid -n [-c FILE]           check the configuration and print it back\n"
          "suanlid admin-code -c FILE     a one-time login code for the operator \"admin\"\n"
          "suanlid restore COPY -c FILE   put a copy in the place of the store\n"
          "suanlid --version\n",
          out);
    return out == stdout ? 0 : err_exit(ERR_USAGE);
}

/* The edge: says what, why and next, in the caller's language. */
static int tell(const struct refusal *why)
{
    enum lang lang = msg_lang(getenv("LANG"));
    struct refusal r = {0};
    char text[1024];

    (void)refuse(&r, why->code);
    for (size_t i = 0; i < why->param_count; i++)
        refusal_set(&r, why->params[i].key, msg_tr(lang, why->params[i].value));
    refusal_text(&r, lang, text, sizeof(text));
    fprintf(stderr, "suanlid: %s [%s]\n", text, err_code(why->code));
    refusal_next(&r, lang, text, sizeof(text));
    if (text[0])
        fprintf(stderr, "  %s\n", text);
    return err_exit(why->code);
}

static bool read_options(int argc, char **argv, struct options *ret_o)
{
    struct options o = {0};

    for (int i = 1; i < argc; i++) {
        if (str_eq(argv[i], "-n"))
            o.check_only = true;
        else if (str_eq(argv[i], "-c") && i + 1 < argc && !o.config)
            o.config = argv[++i];
        else if (argv[i][0] == '-')
            return false;
        else if (!o.verb)
            o.verb = argv[i];
        else if (!o.file)
            o.file = argv[i];
        else
            return false;
    }
    bool restore = o.verb && str_eq(o.verb, "restore");
    if (o.verb && !restore && !str_eq(o.verb, "admin-code"))
        return false;
    if (restore != (o.file != NULL) || (!o.check_only && !o.config))
        return false;
    *ret_o = o;
    return true;
}

static void set_log(const struct daemon_config *c)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_eq(names[i], c->log_level))
            log_set((enum log_level)i, "suanlid");
}

/* Waits for a signal to stop, or for a store that broke. */
static bool wait_for_end(const struct serve *s, const sigset_t *signals)
{
    for (;;) {
        struct timespec second = {.tv_sec = 1};
        int sig = sigtimedwait(signals, NULL, &second);
        if (serve_failed(s))
            return false;
        if (sig == SIGTERM || sig == SIGINT)
            return true;
    }
}

/* A descriptor for each connection, and some for the store and ourselves. */
static void raise_descriptors(const struct daemon_config *c)
{
    rlim_t need = (rlim_t)c->connections_max + 256;
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= need)
        return;
    r.rlim_cur = MIN(need, r.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur < need)
        log_warn("event=few_descriptors have=%ju need=%ju", (uintmax_t)r.rlim_cur, (uintmax_t)need);
}

static int serve(const struct daemon_config *c)
{
    struct refusal why = {0};
    struct store *store = NULL;
    struct serve *s = NULL;
    sigset_t signals;
    AUTO_CLOSE int lock = -1;

    /* Threads inherit the mask; only this one looks. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    CHECK(pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0);
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    raise_descriptors(c);
    if (setup_lock(c, &lock, &why) != ERR_OK || setup_store(c, &store, &why) != ERR_OK)
        return tell(&why);
    if (setup_zones(c, store, &why) != ERR_OK || setup_content(c, store, &why) != ERR_OK) {
        store_close(store);
        return tell(&why);
    }
    if (serve_start(c, store, &s, &why) != ERR_OK)
        return tell(&why);
    log_info("event=started listen=%s port=%u unix=%s store=%s", c->host[0] ? c->host : "off",
             serve_port(s), c->unix_socket, c->store);
    bool clean = wait_for_end(s, &signals);
    log_info("event=stopping clean=%d", clean);
    serve_stop(s);
    return clean ? 0 : err_exit(ERR_STORE);
}

/* Root does here what the owner of the store's folder would do: a file of root's among them would
 * keep the daemon out of its own store. */
static bool owner_become(const char *store)
{
    char folder[PATH_TEXT];
    struct stat st;

    CHECK(str_copy(folder, sizeof(folder), store));
    char *slash = strrchr(folder, '/');
    CHECK(slash);
    slash[slash == folder] = '\0';
    if (geteuid() != 0 || stat(folder, &st) < 0 || st.st_uid == 0)
        return true;
    const struct passwd *pw = getpwuid(st.st_uid);
    gid_t gid = pw ? pw->pw_gid : st.st_gid;
    if (setgroups(1, &gid) < 0 || setresgid(gid, gid, gid) < 0 ||
        setresuid(st.st_uid, st.st_uid, st.st_uid) < 0) {
        log_error("event=owner_refused folder=%s why=\"%s\"", folder, strerrordesc_np(errno));
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct daemon_config c;
    struct refusal why = {0};
    struct options o;

    if (argc == 2 && str_eq(argv[1], "--version")) {
        puts("suanlid " SUANLI_VERSION);
        return 0;
    }
    if (argc == 2 && (str_eq(argv[1], "-h") || str_eq(argv[1], "--help")))
        return usage(stdout);
    if (!read_options(argc, argv, &o))
        return usage(stderr);
    (void)umask(0077);
    CHECK(sodium_init() >= 0);
    log_set(LOG_INFO, "suanlid");
    enum err e = o.config ? daemon_config_load(o.config, &c, &why)
                          : daemon_config_parse("default", "", &c, &why);
    if (e != ERR_OK)
        return tell(&why);
    set_log(&c);
    if (o.check_only) {
        daemon_config_print(&c, msg_lang(getenv("LANG")), stdout);
        return 0;
    }
    if (!owner_become(c.store))
        return err_exit(ERR_SYSTEM);
    if (!o.verb)
        return serve(&c);
    e = str_eq(o.verb, "restore") ? setup_restore(&c, o.file, &why) : setup_admin_code(&c, &why);
    return e == ERR_OK ? 0 : tell(&why);
}
