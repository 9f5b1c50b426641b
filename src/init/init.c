/* suanli-init: PID 1 of every guest. Static, so that it runs in any image; it lies in a read-only
 * mount of ours. It mounts nothing and opens nothing of the host.
 *
 *   init SERVER [--cwd DIR] [-- COMMAND ARG...]      SERVER: openssh, dropbear or none
 *
 * It starts the SSH server and keeps it up, runs COMMAND if there is one, passes signals on, reaps
 * orphans. Without a command the guest lives until it is told to end; with one it ends when the
 * command ends, and with its exit code. TERM: the command (or, without one, everything) is asked to
 * end; what has not ended a moment later dies with PID 1. The guard bounds how long that may take.
 * PWR: the end of the lease is near. What the renter runs is asked to end; SSH stays until the end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINGER_S 2
#define RESTART_S 1

struct plan {
    const char *server, *cwd;
    char **command; /* borrowed; NULL: none */
};

static const char *const openssh_argv[] = {"/.suanli/ld.so",
                                           "--inhibit-cache",
                                           "--library-path",
                                           "/.suanli/lib",
                                           "--preload",
                                           "/.suanli/names.so",
                                           "/.suanli/sshd",
                                           "-r",
                                           "-D",
                                           "-e",
                                           "-f",
                                           "/.suanli/lease/sshd_config",
                                           NULL};
/* -E log to stderr, -F foreground, -s keys only, -m no message of the day (its is the image's) */
static const char *const dropbear_argv[] = {"/.suanli/ld.so",
                                            "--inhibit-cache",
                                            "--library-path",
                                            "/.suanli/lib",
                                            "--preload",
                                            "/.suanli/names.so",
                                            "/.suanli/dropbear",
                                            "-E",
                                            "-F",
                                            "-s",
                                            "-r",
                                            "/.suanli/lease/host_key.dropbear",
                                            "-p",
                                            "22",
                                            NULL};
/* Nothing of the image's environment reaches the server; OpenSSL reads no file of the image. */
static const char *const server_env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                                         "OPENSSL_CONF=/dev/null", NULL};

extern char **environ;

static void child_ready(const char *oom_score)
{
    sigset_t none;
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    /* When memory runs out the renter's work goes before the way in. */
    if (fd >= 0) {
        if (write(fd, oom_score, strlen(oom_score)) < 0)
            errno = 0;
        close(fd);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
}

static pid_t server_start(const struct plan *p)
{
    const char *const *argv = strcmp(p->server, "openssh") == 0 ? openssh_argv : dropbear_argv;

    if (strcmp(p->server, "none") == 0)
        return -1;
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    child_ready("500");
    if (chdir("/") < 0)
        _exit(126);
    execve(argv[0], (char *const *)argv, (char *const *)server_env);
    dprintf(STDERR_FILENO, "the SSH server could not be started: %s\n", strerror(errno));
    _exit(127);
}

static pid_t command_start(const struct plan *p)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    child_ready("700");
    if (chdir(p->cwd) < 0 && chdir("/") < 0)
        _exit(126);
    execvpe(p->command[0], p->command, environ);
    dprintf(STDERR_FILENO, "%s: %s\n", p->command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static int status_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Everybody is asked to end; PID 1 itself is not among -1. Returns when all are gone, or after
 * LINGER_S: the end of PID 1 takes the rest along. */
static void all_end(const sigset_t *wanted)
{
    struct timespec left = {.tv_sec = LINGER_S}, step = {.tv_nsec = 50000000};

    kill(-1, SIGTERM);
    kill(-1, SIGHUP);
    kill(-1, SIGCONT);
    for (int i = 0; i < LINGER_S * 20 && left.tv_sec; i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            return;
        sigtimedwait(wanted, NULL, &step);
    }
}

/* Our own SSH server and its sessions run from our loader and keep its name. (Where a program lies
 * cannot be asked of a session that gave its privileges up.) */
static bool is_server(const char *pid)
{
    char path[64], name[16] = "";

    snprintf(path, sizeof(path), "/proc/%.16s/comm", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true; /* gone */
    ssize_t n = read(fd, name, sizeof(name) - 1);
    close(fd);
    return n <= 0 || strcmp(name, "ld.so\n") == 0;
}

/* TERM to all but PID 1 and the SSH server: the work may be saved, the shells stay. */
static void work_end(void)
{
    DIR *d = opendir("/proc");

    if (!d)
        return;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid > 1 && !is_server(e->d_name))
            kill(pid, SIGTERM);
    }
    closedir(d);
}

static bool plan_read(int argc, char **argv, struct plan *ret_plan)
{
    struct plan p = {.cwd = "/root"};
    int i = 1;

    if (argc < 2)
        return false;
    p.server = argv[i++];
    if (i + 1 < argc && strcmp(argv[i], "--cwd") == 0) {
        p.cwd = argv[i + 1];
        i += 2;
    }
    if (i < argc && strcmp(argv[i], "--") == 0 && i + 1 < argc)
        p.command = argv + i + 1;
    *ret_plan = p;
    return true;
}

static int run(const struct plan *p, const sigset_t *wanted)
{
    pid_t server = server_start(p), command = p->command ? command_start(p) : -1;
    struct timespec tick = {.tv_sec = 60};
    bool ending = false;

    for (;;) {
        int sig = sigtimedwait(wanted, NULL, &tick), status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == command) {
                all_end(wanted);
                return status_code(status);
            }
            if (pid == server)
                server = 0;
        }
        if (sig == SIGTERM || sig == SIGINT) {
            if (command < 0) {
                all_end(wanted);
                return 0;
            }
            ending = true;
        }
        if (sig == SIGPWR)
            work_end();
        else if (command > 0 && sig > 0 && sig != SIGCHLD)
            kill(command, sig);
        /* A server that dies at once must not become a busy loop. */
        tick.tv_sec = server == 0 && !ending ? RESTART_S : 60;
        if (server == 0 && !ending && sig < 0)
            server = server_start(p);
    }
}

int main(int argc, char **argv)
{
    static const int passed[] = {SIGCHLD, SIGTERM, SIGINT,   SIGHUP, SIGQUIT,
                                 SIGUSR1, SIGUSR2, SIGWINCH, SIGPWR};
    struct plan p;
    sigset_t wanted;

    if (argc == 2 && strcmp(argv[1], "--probe") == 0)
        return 0;
    if (!plan_read(argc, argv, &p)) {
        dprintf(STDERR_FILENO, "usage: init SERVER [--cwd DIR] [-- COMMAND ARG...]\n");
        return 2;
    }
    sigemptyset(&wanted);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        sigaddset(&wanted, passed[i]);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    umask(022);
    /* The server's unprivileged half is locked into this empty folder. */
    if (mkdir("/run/sshd", 0755) < 0 && errno != EEXIST)
        dprintf(STDERR_FILENO, "/run/sshd: %s\n", strerror(errno));
    return run(&p, &wanted);
}
