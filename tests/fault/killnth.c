/* killnth PID N: kills the process PID at its N-th system call from now on, counted over all its
 * threads; N = 0 only counts. Writes "attached" when it counts, and on TERM, INT or the end of the
 * process a line "calls COUNT killed|alive|gone". The children that PID forks are not followed.
 *
 * Kept small on purpose: strace counts per system call and thread, a fault test needs one count. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t stop_wanted;

static void on_stop(int sig)
{
    (void)sig;
    stop_wanted = 1;
}

static bool attach_all(pid_t pid)
{
    char path[64];
    bool any = false;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *d = opendir(path);
    if (!d)
        return false;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
        if (tid <= 0)
            continue;
        if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE) == 0 &&
            ptrace(PTRACE_INTERRUPT, tid, 0, 0) == 0)
            any = true;
    }
    closedir(d);
    return any;
}

static void detach_all(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *d = opendir(path);
    if (!d)
        return;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
        int status;
        if (tid <= 0)
            continue;
        ptrace(PTRACE_INTERRUPT, tid, 0, 0);
        waitpid(tid, &status, __WALL);
        ptrace(PTRACE_DETACH, tid, 0, 0);
    }
    closedir(d);
}

/* One stop of one thread. True when it was the entry of a system call: entries and exits alternate
 * per thread; PTRACE_GET_SYSCALL_INFO tells which this is. */
static bool is_entry(pid_t tid)
{
    struct __ptrace_syscall_info info = {0};

    return ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) > 0 &&
           info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

static void resume(pid_t tid, int status)
{
    int sig = WSTOPSIG(status), event = status >> 16;

    if (event == PTRACE_EVENT_STOP || event || sig == (SIGTRAP | 0x80) || sig == SIGTRAP)
        sig = 0;
    ptrace(PTRACE_SYSCALL, tid, 0, sig);
}

int main(int argc, char **argv)
{
    pid_t pid = argc == 3 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    long want = argc == 3 ? strtol(argv[2], NULL, 10) : 0, calls = 0;
    struct sigaction sa = {.sa_handler = on_stop};
    const char *end = "alive";

    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    if (pid <= 0 || !attach_all(pid)) {
        fprintf(stderr, "killnth: cannot attach to %s\n", argc > 1 ? argv[1] : "(no pid)");
        return 2;
    }
    puts("attached");
    fflush(stdout);
    while (!stop_wanted) {
        int status;
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0 && errno == EINTR)
            continue;
        if (tid < 0) {
            end = "gone";
            break;
        }
        if (!WIFSTOPPED(status))
            continue;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80) && is_entry(tid) && ++calls == want) {
            kill(pid, SIGKILL);
            end = "killed";
            break;
        }
        resume(tid, status);
    }
    if (stop_wanted)
        detach_all(pid);
    printf("calls %ld %s\n", calls, end);
    return 0;
}
