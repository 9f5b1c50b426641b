/* supervise.c: one private mount namespace for helper and guards, and two children in it or beside
 * it. The supervisor itself mounts nothing and reads no message. */
#include "node/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "node/helperint.h"
#include "node/sys.h"

#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 2000
#define STEADY_MS 3000 /* up for so long: no crash at the start; the shortest wait again */
#define END_WAIT_MS 5000

struct supervisor {
    const struct node_config *cfg;
    const char *file;
    int mount_ns;  /* owned: the private namespace */
    int signal_fd; /* owned */
    pid_t helper, agent;
};

/* ---- the private mount namespace ---- */

struct guard_search {
    const struct node_paths *paths;
    int fd;
};

static bool guard_namespace(void *arg, struct id lease)
{
    struct guard_search *s = arg;
    struct guest_record *rec AUTO_FREE = mem_alloc(sizeof(*rec));
    char path[64];

    if (guest_load(s->paths, lease, rec, NULL) == ERR_OK &&
        process_is(rec->guard_pid, rec->guard_start) &&
        str_printf(path, sizeof(path), "/proc/%d/ns/mnt", rec->guard_pid))
        s->fd = open(path, O_RDONLY | O_CLOEXEC);
    return s->fd < 0;
}

/* The process that keeps the node's network namespace was born in the private mounts as well. */
static int holder_namespace(const struct node_paths *p)
{
    char path[GUEST_PATH_SIZE], text[64];
    unsigned long long start;
    int pid;

    CHECK(str_printf(path, sizeof(path), "%s/netns.holder", p->priv));
    if (sys_read_small(path, text, sizeof(text)) <= 0 ||
        sscanf(text, "%d %llu", &pid, &start) != 2 || !process_is(pid, start) ||
        !str_printf(path, sizeof(path), "/proc/%d/ns/mnt", pid))
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* In a child: what the namespace looks like before anybody works in it. */
static bool namespace_fill(const struct node_config *cfg)
{
    if (unshare(CLONE_NEWNS) < 0)
        return false;
    /* Nothing of ours is seen outside; what the machine unmounts goes away here too. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
        mount("suanli", cfg->paths.run, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0711") < 0)
        return false;
    /* crun refuses the hybrid layout; without the second tree in sight it uses the first. */
    if (cgroup_layout_probe() == CGROUP_HYBRID)
        umount2("/sys/fs/cgroup/unified", MNT_DETACH);
    return true;
}

static int namespace_make(const struct node_config *cfg)
{
    int ready[2], fd = -1;
    char byte = 0, path[64];

    if (pipe2(ready, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        byte = namespace_fill(cfg) ? 'y' : 'n';
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    close(ready[1]);
    if (pid > 0 && read(ready[0], &byte, 1) == 1 && byte == 'y' &&
        str_printf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid))
        fd = open(path, O_RDONLY | O_CLOEXEC);
    close(ready[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return fd;
}

static int namespace_open(const struct node_config *cfg)
{
    struct guard_search s = {.paths = &cfg->paths, .fd = -1};
    struct refusal why;

    if (sys_dir_ensure(cfg->paths.run, 0711, 0, 0, &why) != ERR_OK)
        return -1;
    s.fd = holder_namespace(&cfg->paths);
    if (s.fd < 0)
        helper_leases_each(&cfg->paths, guard_namespace, &s);
    return s.fd >= 0 ? s.fd : namespace_make(cfg);
}

/* ---- the two children ---- */

static _Noreturn void child_exec(const struct supervisor *s, const char *role, int fd)
{
    char parent[32];
    sigset_t none;

    CHECK(str_printf(parent, sizeof(parent), "--parent=%d", (int)getppid()));
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (strcmp(role, "--role=priv") == 0 && setns(s->mount_ns, CLONE_NEWNS) < 0)
        _exit(126);
    if (fd == 3)
        fcntl(fd, F_SETFD, 0);
    else
        dup2(fd, 3);
    execl("/proc/self/exe", "suanli-node", role, parent, s->file ? "-c" : NULL, s->file,
          (char *)NULL);
    _exit(127);
}

static pid_t child_start(const struct supervisor *s, const char *role, int fd)
{
    pid_t pid = fork();

    if (pid == 0)
        child_exec(s, role, fd);
    return pid;
}

static bool pair_start(struct supervisor *s)
{
    /* Room for a few of the largest messages, whatever the machine's default is. */
    int pair[2], size = 4 * (int)MAX(sizeof(struct priv_req), sizeof(struct priv_rep));

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    for (int i = 0; i < 2; i++)
        setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    s->helper = child_start(s, "--role=priv", pair[0]);
    s->agent = child_start(s, "--role=agent", pair[1]);
    close(pair[0]);
    close(pair[1]);
    return s->helper > 0 && s->agent > 0;
}

/* Both go together: a new helper has a new socket. Guards are not touched. */
static void pair_end(struct supervisor *s)
{
    utime_t until = guest_now() + END_WAIT_MS;

    if (s->agent > 0)
        kill(s->agent, SIGTERM);
    while ((s->agent > 0 || s->helper > 0) && guest_now() < until) {
        if (s->agent > 0 && waitpid(s->agent, NULL, WNOHANG) != 0)
            s->agent = 0;
        if (s->agent == 0 && s->helper > 0)
            kill(s->helper, SIGKILL); /* it keeps nothing in memory that matters */
        if (s->helper > 0 && waitpid(s->helper, NULL, WNOHANG) != 0)
            s->helper = 0;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    if (s->agent > 0) {
        kill(s->agent, SIGKILL);
        waitpid(s->agent, NULL, 0);
    }
    if (s->helper > 0) {
        kill(s->helper, SIGKILL);
        waitpid(s->helper, NULL, 0);
    }
    s->agent = s->helper = 0;
}

/* Waits for a signal; true: asked to end. Orphaned guards of a dead helper are reaped here. */
static bool signal_wait(struct supervisor *s, int64_t wait_ms, bool *ret_died)
{
    struct pollfd p = {.fd = s->signal_fd, .events = POLLIN};
    struct signalfd_siginfo info;
    bool end = false;
    pid_t pid;

    poll(&p, 1, (int)wait_ms);
    while (read(s->signal_fd, &info, sizeof(info)) > 0)
        end |= info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        if (pid == s->helper || pid == s->agent) {
            log_warn("event=child_died child=%s", pid == s->helper ? "priv" : "agent");
            *ret_died = true;
        }
        s->helper = pid == s->helper ? 0 : s->helper;
        s->agent = pid == s->agent ? 0 : s->agent;
    }
    return end;
}

static bool supervisor_init(struct supervisor *s)
{
    char path[GUEST_PATH_SIZE];
    sigset_t wanted;

    if (geteuid() != 0) {
        log_error("event=not_root");
        return false;
    }
    if (mkdir(s->cfg->state, 0755) < 0 && errno != EEXIST) {
        log_error("event=no_state_folder path=%s why=\"%s\"", s->cfg->state,
                  strerrordesc_np(errno));
        return false;
    }
    CHECK(str_printf(path, sizeof(path), "%s/lock", s->cfg->state));
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0) {
        log_error("event=already_running state=%s", s->cfg->state);
        return false;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    s->signal_fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    s->mount_ns = namespace_open(s->cfg);
    if (s->mount_ns < 0)
        log_error("event=no_mount_namespace why=\"%s\"", strerrordesc_np(errno));
    return s->signal_fd >= 0 && s->mount_ns >= 0;
}

int supervise_main(const struct node_config *cfg, const char *file)
{
    struct supervisor s = {.cfg = cfg, .file = file, .mount_ns = -1, .signal_fd = -1};
    int64_t backoff = BACKOFF_MIN_MS;
    bool end = false;

    if (!supervisor_init(&s))
        return 1;
    while (!end) {
        utime_t from = guest_now();
        bool died = !pair_start(&s);
        while (!end && !died)
            end = signal_wait(&s, -1, &died);
        pair_end(&s);
        if (end)
            break;
        backoff =
            guest_now() - from > STEADY_MS ? BACKOFF_MIN_MS : MIN(backoff * 2, BACKOFF_MAX_MS);
        for (utime_t until = guest_now() + backoff; !end && guest_now() < until;)
            end = signal_wait(&s, until - guest_now(), &died);
    }
    cgroup_init(cfg->cgroup);
    cgroup_fini();
    return 0;
}
