#include "node/guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "node/cgroup.h"
#include "node/guardio.h"
#include "node/sshd.h"
#include "node/sys.h"
#include "node/syscalls.h"

#define CALL_WAIT_MS 300
#define CONNECTIONS_MAX 4
#define REACHABLE_MS_MAX 60000 /* a guest that answers nobody for so long has failed to start */

struct guard {
    struct node_paths paths; /* leases = ".": the guard stays in that folder */
    struct guest_record *rec;
    struct guest_progress progress;
    int progress_fd, lock_fd, signal_fd, timer_fd, listen_fd;
    int connections[CONNECTIONS_MAX];
    int starter_fd; /* -1: no start under way */
    pid_t starter;
    int pid_fd;
    bool own_child; /* its exit status comes to us */
    struct output output;
    struct probe probe;
    utime_t alive_next;
    bool soft_sent, stop_sent, killed, starter_killed;
};

static void record_save(struct guard *g, bool durable)
{
    struct refusal why = {0};

    if (guest_save(&g->paths, g->rec, durable, &why) != ERR_OK)
        log_error("event=record_not_saved lease=%s why=\"%s\"", g->rec->lease.s,
                  why.param_count > 1 ? why.params[1].value : "");
}

static void progress_save(struct guard *g)
{
    size_t from = 0, size = sizeof(g->progress);

    /* While the starter runs, the steps in the file are its own. */
    if (g->starter_fd >= 0) {
        from = offsetof(struct guest_progress, alive_boot_ms);
        size = sizeof(g->progress.alive_boot_ms);
    }
    g->progress.output = g->output.total;
    if (pwrite(g->progress_fd, (const char *)&g->progress + from, size, (off_t)from) < 0)
        errno = 0; /* only a display */
}

/* ---- the clock ---- */

static utime_t hard_end(const struct guest_record *rec)
{
    utime_t end = rec->deadline.hard_end_boot_ms;

    if (end == 0)
        end = rec->started_boot_ms + GUARD_BORN_LIMIT_MS;
    return end == UTIME_NEVER ? end : end - GUARD_KILL_AHEAD_MS;
}

static utime_t kill_at(const struct guest_record *rec)
{
    utime_t end = hard_end(rec);

    return rec->stopping ? MIN(end, rec->stop_kill_boot_ms) : end;
}

static void guest_signal(struct guard *g, int sig)
{
    if (g->pid_fd >= 0)
        syscall(SYS_pidfd_send_signal, g->pid_fd, sig, NULL, 0);
}

static utime_t give_up_at(const struct guard *g)
{
    bool waiting = g->pid_fd >= 0 && g->probe.begun && !g->rec->ready_boot_ms && !g->killed;

    return waiting ? g->probe.begun + REACHABLE_MS_MAX : UTIME_NEVER;
}

static void clock_act(struct guard *g)
{
    struct guest_record *rec = g->rec;
    utime_t now = guest_now(), soft = rec->deadline.soft_end_boot_ms;

    if (now >= kill_at(rec) && !g->killed) {
        if (g->starter_fd >= 0) {
            kill(g->starter, SIGKILL);
            g->starter_killed = true;
        }
        guest_signal(g, SIGKILL);
        g->killed = g->pid_fd >= 0;
        rec->killed_at_deadline = now >= hard_end(rec);
    } else if (now >= give_up_at(g)) {
        rec->fail = (uint32_t)refusef(&rec->why, ERR_TIMEOUT, "what", "SSH");
        guest_signal(g, SIGKILL);
        g->killed = true;
    } else if (rec->stopping && !g->stop_sent && g->pid_fd >= 0) {
        guest_signal(g, SIGTERM);
        g->stop_sent = true;
    } else if (soft && soft != UTIME_NEVER && now >= soft && !g->soft_sent && g->pid_fd >= 0) {
        /* The end is near: programs are asked to end, the guest itself has its whole time. */
        guest_signal(g, SIGPWR);
        g->soft_sent = true;
    }
    if (now >= g->alive_next) {
        g->alive_next = now + 1000;
        g->progress.alive_boot_ms = now;
        progress_save(g);
    }
}

static void clock_arm(struct guard *g)
{
    const struct guest_record *rec = g->rec;
    utime_t next = g->alive_next, now = guest_now();

    if (!g->killed)
        next = MIN(next, kill_at(rec));
    next = MIN(next, give_up_at(g));
    if (!g->soft_sent && rec->deadline.soft_end_boot_ms)
        next = MIN(next, rec->deadline.soft_end_boot_ms);
    next = MIN(next, probe_next(&g->probe));
    next = MIN(next, output_next(&g->output));
    /* What is due but cannot be done yet (no guest to signal) must not become a busy loop. */
    next = MAX(next, now + 5);
    struct itimerspec at = {.it_value = {.tv_sec = next / 1000, .tv_nsec = next % 1000 * 1000000}};
    CHECK(timerfd_settime(g->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) == 0);
}

/* ---- the guest's life ---- */

static _Noreturn void guard_end(struct guard *g, int exit_code, utime_t ended)
{
    struct guest_record *rec = g->rec;
    struct priv_rep *rep AUTO_FREE = mem_alloc(sizeof(*rep));

    cgroup_meter(rec->lease, rep);
    rec->oom = rep->meter.oom_kills > 0 && (exit_code == 137 || exit_code < 0);
    rec->exit_code = exit_code;
    rec->ended_boot_ms = ended;
    rec->ready_boot_ms = g->progress.ready_boot_ms;
    rec->step = g->progress.step;
    memcpy(rec->step_us, g->progress.step_us, sizeof(rec->step_us));
    rec->state = GUEST_ENDED;
    output_drain(&g->output);
    progress_save(g);
    record_save(g, true);
    _exit(0);
}

static void guest_ended_check(struct guard *g)
{
    struct pollfd p = {.fd = g->pid_fd, .events = POLLIN};
    int status;

    if (g->pid_fd < 0 || poll(&p, 1, 0) != 1)
        return;
    if (!g->own_child)
        guard_end(g, -1, guest_now());
    if (waitpid(g->rec->pid, &status, WNOHANG) == g->rec->pid)
        guard_end(g, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), guest_now());
}

/* Orphans of the guest's start land here too; the guest itself is waited for by its pid. */
static void orphans_reap(struct guard *g)
{
    siginfo_t info;

    for (;;) {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        if (info.si_pid == g->rec->pid && g->own_child)
            return;
        waitpid(info.si_pid, NULL, WNOHANG);
    }
}

static void guest_found(struct guard *g, int pid)
{
    struct guest_record *rec = g->rec;

    rec->pid = pid;
    rec->pid_start = process_start_ticks(pid);
    g->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    rec->state = GUEST_RUNNING;
    rec->started_boot_ms = guest_now();
    record_save(g, true);
}

static void start_failed(struct guard *g, enum err e, const struct refusal *why)
{
    struct guest_record *rec = g->rec;

    rec->fail = (uint32_t)e;
    rec->why = *why;
    cgroup_kill(rec->lease);
    guard_end(g, -1, guest_now());
}

/* The starter's one message: how it went, the guest's pid, the probe's socket. */
static void starter_read(struct guard *g)
{
    struct start_result r;
    int fd = -1;
    bool whole = guardio_result_receive(g->starter_fd, &r, &fd);

    close(g->starter_fd);
    g->starter_fd = -1;
    struct guest_progress seen;
    if (pread(g->progress_fd, &seen, sizeof(seen), 0) == (ssize_t)sizeof(seen))
        g->progress = seen;
    if (!whole) {
        memset(&r, 0, sizeof(r));
        r.err = refusef(&r.why, g->starter_killed ? ERR_TIMEOUT : ERR_INTERNAL, "why",
                        "the start was cut short");
    }
    if (r.range_base)
        g->rec->range_base = r.range_base;
    (void)str_copy(g->rec->host_key, sizeof(g->rec->host_key), r.host_key);
    if (r.err != ERR_OK)
        start_failed(g, r.err, &r.why);
    guest_found(g, r.pid);
    probe_begin(&g->probe, fd, g->rec->spec.address, guest_now());
}

static void probe_act(struct guard *g)
{
    utime_t now = guest_now();

    if (!probe_step(&g->probe, now))
        return;
    g->progress.ready_boot_ms = g->rec->ready_boot_ms = now;
    if (g->progress.step == GUEST_STEP_SSH)
        g->progress.step_us[GUEST_STEP_SSH] =
            (uint32_t)MAX(1, (now - g->rec->started_boot_ms) * 1000);
    g->progress.step = GUEST_STEP_COUNT;
    progress_save(g);
    record_save(g, false);
}

/* ---- the helper's messages ---- */

static enum err message_act(struct guard *g, const struct guard_msg *m)
{
    struct guest_record *rec = g->rec;
    struct guest_record before = *rec;

    /* An older owner of this lease has nothing to say any more. */
    if (m->deadline.epoch < rec->deadline.epoch)
        return ERR_OK;
    if (m->op == GUARD_STOP) {
        utime_t at = guest_now() + m->deadline.grace_ms;
        rec->stop_kill_boot_ms = rec->stopping ? MIN(rec->stop_kill_boot_ms, at) : at;
        rec->stopping = 1;
    } else {
        rec->deadline = m->deadline;
        /* Extended: the next end is announced again. */
        g->soft_sent = g->soft_sent && rec->deadline.soft_end_boot_ms <= guest_now();
    }
    struct refusal why = {0};
    if (guest_save(&g->paths, rec, true, &why) != ERR_OK && m->op != GUARD_STOP) {
        *rec = before;
        return ERR_SYSTEM;
    }
    return ERR_OK;
}

static void connection_read(struct guard *g, int *fd)
{
    struct guard_msg m;
    ssize_t n = recv(*fd, &m, sizeof(m), MSG_DONTWAIT);
    struct guard_reply r = {.magic = GUARD_MAGIC, .error = ERR_PROTOCOL};

    if (n < 0 && errno == EAGAIN)
        return;
    if (n == (ssize_t)sizeof(m) && m.magic == GUARD_MAGIC &&
        (m.op == GUARD_DEADLINE || m.op == GUARD_STOP))
        r.error = (uint32_t)message_act(g, &m);
    if (n > 0)
        send(*fd, &r, sizeof(r), MSG_DONTWAIT | MSG_NOSIGNAL);
    close(*fd);
    *fd = -1;
}

static void connection_accept(struct guard *g)
{
    int fd = accept4(g->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    for (size_t i = 0; fd >= 0 && i < CONNECTIONS_MAX; i++) {
        if (g->connections[i] < 0) {
            g->connections[i] = fd;
            connection_read(g, &g->connections[i]);
            return;
        }
    }
    if (fd >= 0)
        close(fd);
}

/* ---- set-up and loop ---- */

static enum err privileges_drop(struct refusal *why)
{
    static const cap_value_t kept[] = {CAP_KILL};
    cap_t caps = cap_init();

    if (unshare(CLONE_NEWNET) < 0)
        return sys_fail(why, "unshare");
    bool ok = caps && cap_set_flag(caps, CAP_PERMITTED, 1, kept, CAP_SET) == 0 &&
              cap_set_flag(caps, CAP_EFFECTIVE, 1, kept, CAP_SET) == 0 &&
              prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && cap_set_proc(caps) == 0;
    cap_free(caps);
    if (!ok)
        return sys_fail(why, "capset");
    return seccomp_guard_apply(why);
}

static bool listen_open(struct guard *g)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char path[GUEST_PATH_SIZE];

    if (!guest_run_path(&g->paths, g->rec->lease, "guard", path) ||
        !str_copy(a.sun_path, sizeof(a.sun_path), path))
        return false;
    unlink(path);
    g->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return g->listen_fd >= 0 && bind(g->listen_fd, (struct sockaddr *)&a, sizeof(a)) == 0 &&
           chmod(path, 0600) == 0 && listen(g->listen_fd, CONNECTIONS_MAX) == 0;
}

static void guard_init(struct guard *g, const struct helper_env *env, struct guest_record *rec,
                       int lock_fd)
{
    char path[GUEST_PATH_SIZE];
    sigset_t chld;

    memset(g, 0, sizeof(*g));
    g->paths = env->cfg.paths;
    g->rec = rec;
    g->lock_fd = lock_fd;
    g->starter_fd = g->pid_fd = -1;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        g->connections[i] = -1;
    /* Without capabilities an upper folder may be closed to us: from here on by relative path. */
    CHECK(chdir(g->paths.leases) == 0 && str_copy(g->paths.leases, sizeof(g->paths.leases), "."));
    setsid();
    prctl(PR_SET_NAME, "suanli-guard");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (sys_write_text("/proc/self/oom_score_adj", "-500", NULL) != ERR_OK)
        errno = 0; /* needs CAP_SYS_RESOURCE */
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_SETMASK, &chld, NULL);
    g->signal_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    g->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    CHECK(guest_run_path(&g->paths, rec->lease, "progress", path));
    g->progress_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    CHECK(g->signal_fd >= 0 && g->timer_fd >= 0 && g->progress_fd >= 0);
    CHECK(listen_open(g));
    rec->guard_pid = getpid();
    rec->guard_start = process_start_ticks(getpid());
    probe_init(&g->probe);
}

static void loop_once(struct guard *g)
{
    struct pollfd p[7 + CONNECTIONS_MAX] = {
        {.fd = g->timer_fd, .events = POLLIN},
        {.fd = g->signal_fd, .events = POLLIN},
        {.fd = g->listen_fd, .events = POLLIN},
        {.fd = g->starter_fd, .events = POLLIN},
        {.fd = g->pid_fd, .events = POLLIN},
        {.fd = output_poll_fd(&g->output), .events = POLLIN},
        {.fd = probe_poll_fd(&g->probe), .events = probe_poll_events(&g->probe)}};
    char drain[sizeof(struct signalfd_siginfo)];

    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        p[7 + i] = (struct pollfd){.fd = g->connections[i], .events = POLLIN};
    clock_arm(g);
    if (poll(p, ARRAY_LEN(p), -1) < 0)
        CHECK(errno == EINTR);
    while (read(g->timer_fd, drain, 8) > 0 || read(g->signal_fd, drain, sizeof(drain)) > 0)
        ;
    clock_act(g);
    if (p[2].revents)
        connection_accept(g);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (g->connections[i] >= 0)
            connection_read(g, &g->connections[i]);
    }
    if (p[3].revents)
        starter_read(g);
    output_pump(&g->output, guest_now());
    probe_act(g);
    guest_ended_check(g);
    orphans_reap(g);
    clock_act(g);
}

static _Noreturn void guard_loop(struct guard *g)
{
    struct refusal why = {0};

    if (privileges_drop(&why) != ERR_OK)
        log_error("event=guard_not_confined lease=%s", g->rec->lease.s);
    for (;;)
        loop_once(g);
}

/* Its own child, so that the guard can answer while mounts and the runtime take their time. */
static pid_t starter_spawn(struct guard *g, const struct helper_env *env, int result_fd)
{
    pid_t parent = getpid(), pid = fork();
    struct start_result r;
    int probe = -1;

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    prctl(PR_SET_NAME, "suanli-start");
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int out = output_writer_open(&g->paths, g->rec->lease);
    if (start_guest(env, g->rec, out, g->progress_fd, &r, &probe) != ERR_OK)
        probe = -1;
    guardio_result_send(result_fd, &r, probe);
    _exit(0);
}

static _Noreturn void start_and_guard(struct guard *g, const struct helper_env *env)
{
    int pair[2];

    g->rec->starts++;
    record_save(g, false);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    g->own_child = true;
    g->starter = starter_spawn(g, env, pair[1]);
    close(pair[1]);
    g->starter_fd = pair[0];
    guard_loop(g);
}

void guard_record_init(struct guest_record *rec)
{
    rec->state = GUEST_PREPARING;
    rec->exit_code = -1;
    rec->deadline = (struct priv_deadline){.epoch = rec->spec.epoch,
                                           .soft_end_boot_ms = rec->spec.soft_end_boot_ms,
                                           .hard_end_boot_ms = rec->spec.hard_end_boot_ms};
    rec->started_boot_ms = guest_now();
    CHECK(clock_boot_id(rec->boot));
}

_Noreturn void guard_main_start(const struct helper_env *env, struct guest_record *rec, int lock_fd)
{
    struct guard *g = mem_alloc(sizeof(*g));

    guard_init(g, env, rec, lock_fd);
    CHECK(output_open(&g->output, &g->paths, rec->lease, 0));
    start_and_guard(g, env);
}

/* Cut off in the middle of a start. If the runtime came as far as a process, it lives on: its pid;
 * else all steps are repeated, which finds what is done as done. */
static int start_resume(struct guard *g, const struct helper_env *env)
{
    struct guest_record *rec = g->rec;
    char text[32], path[GUEST_PATH_SIZE];
    struct refusal why = {0};

    CHECK(guest_run_path(&g->paths, rec->lease, "pid", path));
    int pid = sys_read_small(path, text, sizeof(text)) > 0 ? (int)strtol(text, NULL, 10) : 0;
    if (pid > 1 && cgroup_has(rec->lease, pid)) {
        rec->pid_start = process_start_ticks(pid);
        /* What the starter would have told. */
        if (rec->pid_start &&
            userns_range_take(&g->paths, rec->lease, &rec->range_base, &why) == ERR_OK &&
            sshd_host_key(&g->paths, rec->spec.instance, rec->host_key, &why) == ERR_OK)
            return pid;
    }
    enum err e = start_rest_remove(&env->cfg, rec, &why);
    if (e == ERR_OK && !rec->stopping && rec->starts < GUARD_STARTS_MAX)
        start_and_guard(g, env);
    start_failed(g, refusef(&why, ERR_INTERNAL, "why", "the start was cut short"), &why);
    return 0;
}

_Noreturn void guard_main_adopt(const struct helper_env *env, struct guest_record *rec, int lock_fd)
{
    struct guard *g = mem_alloc(sizeof(*g));
    struct refusal why = {0};
    char boot[BOOT_ID_SIZE];
    int probe = -1, pid = rec->pid;

    guard_init(g, env, rec, lock_fd);
    guest_progress_load(&g->paths, rec->lease, &g->progress);
    CHECK(output_open(&g->output, &g->paths, rec->lease, g->progress.output));
    CHECK(clock_boot_id(boot));
    if (!str_eq(boot, rec->boot))
        guard_end(g, -1, 0);
    if (rec->state == GUEST_PREPARING)
        pid = start_resume(g, env);
    if (!process_is(pid, rec->pid_start))
        guard_end(g, -1, g->progress.alive_boot_ms);
    utime_t started = rec->started_boot_ms;
    guest_found(g, pid);
    rec->started_boot_ms = started;
    record_save(g, true);
    if (!g->progress.ready_boot_ms && start_probe_open(&env->cfg, &probe, &why) == ERR_OK)
        probe_begin(&g->probe, probe, rec->spec.address, guest_now());
    log_info("event=guard_replaced lease=%s pid=%d", rec->lease.s, pid);
    guard_loop(g);
}

/* ---- the helper's side ---- */

enum err guard_call(const struct node_paths *p, struct id lease, const struct guard_msg *msg,
                    struct refusal *why)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char path[GUEST_PATH_SIZE];
    struct guard_reply r;
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    CHECK(guest_run_path(p, lease, "guard", path) &&
          str_copy(a.sun_path, sizeof(a.sun_path), path));
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
        send(fd, msg, sizeof(*msg), MSG_NOSIGNAL) != (ssize_t)sizeof(*msg))
        return refusef(why, ERR_UNAVAILABLE, "why", "the guard of %s is being replaced", lease.s);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (poll(&wait, 1, CALL_WAIT_MS) != 1)
        return refuse(why, ERR_BUSY);
    if (recv(fd, &r, sizeof(r), 0) != (ssize_t)sizeof(r) || r.magic != GUARD_MAGIC)
        return refusef(why, ERR_UNAVAILABLE, "why", "the guard of %s is being replaced", lease.s);
    return r.error == ERR_OK ? ERR_OK : refuse(why, (enum err)r.error);
}
