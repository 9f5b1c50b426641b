#include "node/priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "node/helperint.h"
#include "node/paths.h"
#include "node/privcheck.h"
#include "node/sshd.h"
#include "node/sys.h"

#define TICK_MS 1000

static struct helper_state *state; /* for helper_child only */

void helper_child(void)
{
    sigset_t none;

    close(state->fd);
    close(state->signal_fd);
    /* A guard that kept it would lock the next helper out. */
    close(state->lock_fd);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void helper_leases_each(const struct node_paths *p, bool (*fn)(void *arg, struct id lease),
                        void *arg)
{
    DIR *dir = opendir(p->leases);
    struct dirent *entry;
    bool more = true;

    while (dir && more && (entry = readdir(dir))) {
        struct id lease;
        if (str_copy(lease.s, sizeof(lease.s), entry->d_name) && paths_id_ok(lease))
            more = fn(arg, lease);
    }
    if (dir)
        closedir(dir);
}

/* ---- guards ---- */

static bool adopt_one(void *arg, struct id lease)
{
    struct helper_state *h = arg;
    struct guest_record *rec AUTO_FREE = mem_alloc(sizeof(*rec));
    char run[GUEST_PATH_SIZE];
    struct refusal why;
    int lock = -1;

    CHECK(guest_run_path(&h->env.cfg.paths, lease, "", run));
    if (guest_load(&h->env.cfg.paths, lease, rec, &why) != ERR_OK || rec->state == GUEST_ENDED ||
        guest_lock(&h->env.cfg.paths, lease, &lock) != ERR_OK)
        return true;
    /* Gone where the last holder of the private mounts died too, or the machine came up anew. */
    if (sys_dir_ensure(run, 0711, 0, 0, &why) != ERR_OK)
        log_error("event=no_run_folder lease=%s", lease.s);
    /* Between the two its guard may have written the end. */
    if (guest_load(&h->env.cfg.paths, lease, rec, &why) == ERR_OK && rec->state != GUEST_ENDED) {
        pid_t pid = fork();
        if (pid == 0) {
            helper_child();
            guard_main_adopt(&h->env, rec, lock);
        }
        if (pid < 0)
            log_error("event=guard_not_started lease=%s", lease.s);
    }
    close(lock);
    return true;
}

void helper_adopt(struct helper_state *h)
{
    helper_leases_each(&h->env.cfg.paths, adopt_one, h);
}

/* ---- one request ---- */

static enum err request_act(struct helper_state *h, struct priv_req *req, struct priv_rep *rep)
{
    TRY(priv_check(req, &h->env.cfg, h->env.gpus, &rep->why));
    switch ((enum priv_op)req->op) {
    case PRIV_HELLO:
        return priv_hello(h, rep);
    case PRIV_IMAGE_IMPORT:
    case PRIV_IMAGE_STAT:
    case PRIV_IMAGE_REMOVE:
        return priv_image(h, req, rep);
    case PRIV_DISK_ENSURE:
    case PRIV_DISK_STAT:
    case PRIV_DISK_ERASE:
    case PRIV_DISK_FORGET:
        return priv_disk(h, req, rep);
    case PRIV_GUEST_START:
        return priv_start(h, req, rep);
    case PRIV_GUEST_STAT:
    case PRIV_GUEST_DEADLINE:
    case PRIV_GUEST_STOP:
    case PRIV_GUEST_CLEAN:
    case PRIV_GUEST_LOG:
    case PRIV_KEYS_SET:
    case PRIV_NOTICE:
    case PRIV_REPORT:
    case PRIV_PORTS_SET:
    case PRIV_METER:
        return priv_guest(h, req, rep);
    case PRIV_LIST:
        return priv_list(h, rep);
    case PRIV_INSTANCE_FORGET:
        sshd_host_key_forget(&h->env.cfg.paths, req->lease);
        return ERR_OK;
    }
    return refuse(&rep->why, ERR_PROTOCOL);
}

/* False: the agent is gone. */
static bool request_serve(struct helper_state *h)
{
    static struct priv_req req;
    static struct priv_rep rep;
    ssize_t n;

    memset(&req, 0, sizeof(req));
    n = recv(h->fd, &req, sizeof(req), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        return false;
    memset(&rep, 0, sizeof(rep));
    enum err e = n == (ssize_t)sizeof(req)
                     ? request_act(h, &req, &rep)
                     : refusef(&rep.why, ERR_PROTOCOL, "why", "a message of %zd bytes", n);
    rep.version = PRIV_VERSION;
    rep.op = req.op;
    rep.serial = req.serial;
    rep.error = (uint32_t)e;
    if (send(h->fd, &rep, sizeof(rep), MSG_NOSIGNAL) != (ssize_t)sizeof(rep))
        return errno == EAGAIN;
    return true;
}

static void children_reap(struct helper_state *h)
{
    struct signalfd_siginfo info;
    bool guard_ended = false;
    pid_t pid;

    while (read(h->signal_fd, &info, sizeof(info)) > 0)
        ;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        guard_ended |= !jobs_ended(&h->jobs, pid);
    if (guard_ended)
        helper_adopt(h);
}

/* ---- start ---- */

/* One helper at a time: a new one waits for the last breath of the old. */
static enum err lock_take(const struct node_paths *p, int *ret_fd, struct refusal *why)
{
    char path[GUEST_PATH_SIZE];

    CHECK(str_printf(path, sizeof(path), "%s/helper.lock", p->priv));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        return sys_fail(why, "lock of the helper");
    *ret_fd = fd;
    return ERR_OK;
}

static enum err folders_make(struct node_config *cfg, struct refusal *why)
{
    static const char *const names[] = {"", "/leases", "/runtime"};
    struct passwd *pw = getpwnam(cfg->user);
    struct node_paths paths;
    char path[GUEST_PATH_SIZE];

    if (!pw)
        return refusef(why, ERR_VALIDATION, "field", "user");
    TRY(paths_init(cfg->state, pw->pw_uid, pw->pw_gid, &paths, why));
    CHECK(str_copy(paths.run, sizeof(paths.run), cfg->paths.run) &&
          str_copy(paths.tag, sizeof(paths.tag), cfg->paths.tag));
    cfg->paths = paths;
    CHECK(str_printf(path, sizeof(path), "%s/jobs", paths.priv));
    TRY(sys_dir_ensure(path, 0700, 0, 0, why));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CHECK(str_printf(path, sizeof(path), "%s%s", paths.run, names[i]));
        TRY(sys_dir_ensure(path, i == 2 ? 0700 : 0711, 0, 0, why));
    }
    return ERR_OK;
}

static enum err starts_prepare(struct helper_state *h, struct refusal *why)
{
    struct helper_env *env = &h->env;

    TRY(sshd_bundle_init(&env->cfg.paths, env->cfg.ssh_server, env->server, why));
    TRY(container_runtime_init(&env->cfg, env->cfg.runtime, &env->runtime, why));
    return network_init(&env->cfg.paths, &env->cfg.net, why);
}

static void refusal_log(const char *event, const struct refusal *why)
{
    char text[512];

    refusal_text(why, LANG_EN, text, sizeof(text));
    log_error("event=%s why=\"%s\"", event, text);
}

static enum err helper_init(struct helper_state *h, const struct node_config *cfg, int fd,
                            struct refusal *why)
{
    sigset_t chld;

    h->env.cfg = *cfg;
    h->env.runtime.fd = -1;
    h->env.gpus = mem_alloc(sizeof(*h->env.gpus));
    h->fd = fd;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    h->signal_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    CHECK(h->signal_fd >= 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "suanli-priv");
    TRY(folders_make(&h->env.cfg, why));
    TRY(lock_take(&h->env.cfg.paths, &h->lock_fd, why));
    cgroup_init(h->env.cfg.cgroup);
    jobs_init(&h->jobs, &h->env.cfg.paths);
    if (inject_init(&h->env.cfg, h->env.gpus, why) != ERR_OK)
        refusal_log("cards_not_read", why);
    h->starts_possible = starts_prepare(h, &h->start_why) == ERR_OK;
    if (!h->starts_possible)
        refusal_log("starts_impossible", &h->start_why);
    return ERR_OK;
}

int priv_main(const struct node_config *cfg, int fd)
{
    struct helper_state *h = mem_alloc(sizeof(*h));
    struct refusal why = {0};
    utime_t adopt_next = 0;

    state = h;
    umask(022);
    if (helper_init(h, cfg, fd, &why) != ERR_OK) {
        refusal_log("helper_not_started", &why);
        return 1;
    }
    log_info("event=helper_ready runtime=%s ssh=%s", h->env.runtime.name, h->env.server);
    for (;;) {
        struct pollfd p[2] = {{.fd = h->fd, .events = POLLIN},
                              {.fd = h->signal_fd, .events = POLLIN}};
        if (guest_now() >= adopt_next) {
            helper_adopt(h);
            adopt_next = guest_now() + TICK_MS;
        }
        if (poll(p, 2, TICK_MS) < 0 && errno != EINTR)
            return 1;
        if (p[1].revents)
            children_reap(h);
        if (p[0].revents && !request_serve(h))
            return 0;
    }
}
