#include "daemon/pdf.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define PATH_SIZE 4096

/* Beside this program (a build folder keeps it in a folder of its own), else where it is installed.
 */
static bool find_program(char ret_path[PATH_SIZE])
{
    static const char *const beside[] = {"suanli-invoice", "../render/suanli-invoice"};
    char self[PATH_SIZE];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n > 0) {
        self[n] = '\0';
        char *slash = strrchr(self, '/');
        for (size_t i = 0; slash && i < ARRAY_LEN(beside); i++)
            if (str_printf(ret_path, PATH_SIZE, "%.*s/%s", (int)(slash - self), self, beside[i]) &&
                access(ret_path, X_OK) == 0)
                return true;
    }
    return str_copy(ret_path, PATH_SIZE, SUANLI_LIBEXEC "/suanli-invoice") &&
           access(ret_path, X_OK) == 0;
}

/* In the child of a process with threads: system calls only. */
static void child(const char *path, int fd)
{
    char *const words[] = {(char *)(uintptr_t) "suanli-invoice", NULL};
    char *const env[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin",
                         (char *)(uintptr_t) "LANG=C.UTF-8", NULL};
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || dup2(fd, STDIN_FILENO) < 0 ||
        dup2(fd, STDOUT_FILENO) < 0 || close_range(STDERR_FILENO, ~0U, 0) != 0)
        _exit(126);
    (void)execve(path, words, env);
    _exit(127);
}

struct talk {
    int fd;
    const char *json;
    size_t len, sent;
    struct strbuf *out;
    utime_t until_ms;
};

/* 1: done, 0: go on, -1: it failed. */
static int talk_once(struct talk *t)
{
    struct pollfd p = {.fd = t->fd, .events = (short)(POLLIN | (t->sent < t->len ? POLLOUT : 0))};
    char part[65536];
    int64_t left = t->until_ms - clock_system()->boot_ms(clock_system());
    int n = left > 0 ? poll(&p, 1, (int)left) : 0;

    if (n < 0)
        return errno == EINTR ? 0 : -1;
    if (n == 0) {
        errno = ETIMEDOUT;
        return -1;
    }
    if ((p.revents & POLLOUT) && t->sent < t->len) {
        ssize_t k = send(t->fd, t->json + t->sent, t->len - t->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k > 0)
            t->sent += (size_t)k;
        else if (k < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        if (t->sent == t->len && shutdown(t->fd, SHUT_WR) != 0)
            return -1;
    }
    if (p.revents & (POLLIN | POLLHUP)) {
        ssize_t k = recv(t->fd, part, sizeof(part), MSG_DONTWAIT);
        if (k == 0)
            return 1;
        if (k < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        if (t->out->len + (size_t)k > PDF_MAX)
            return -1;
        strbuf_add_n(t->out, part, (size_t)k);
    }
    return 0;
}

static enum err run(const char *path, struct talk *t, struct refusal *why)
{
    int fd[2], status = 0, done;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0)
        return refusef(why, ERR_SYSTEM, "call", "socketpair");
    pid_t pid = fork();
    if (pid == 0)
        child(path, fd[1]);
    close(fd[1]);
    t->fd = fd[0];
    t->until_ms = clock_system()->boot_ms(clock_system()) + PDF_WAIT_MS;
    do
        done = pid > 0 ? talk_once(t) : -1;
    while (done == 0);
    bool late = done < 0 && errno == ETIMEDOUT;
    close(fd[0]);
    if (pid > 0) {
        if (done < 0)
            (void)kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    if (late)
        return refusef(why, ERR_TIMEOUT, "what", "suanli-invoice");
    if (done < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return refusef(why, ERR_SYSTEM, "call", "suanli-invoice");
    return ERR_OK;
}

enum err pdf_render(const char *json, size_t len, char **ret_pdf, size_t *ret_len,
                    struct refusal *why)
{
    AUTO_STRBUF struct strbuf out;
    struct talk t = {.json = json, .len = len, .out = &out};
    char path[PATH_SIZE];

    strbuf_init(&out, PDF_MAX + 1);
    if (!find_program(path)) {
        (void)refusef(why, ERR_UNSUPPORTED, "what", "PDF");
        refusal_set(why, "why", "suanli-invoice is not installed");
        return ERR_UNSUPPORTED;
    }
    TRY(run(path, &t, why));
    if (out.len < 5 || memcmp(out.data, "%PDF-", 5) != 0)
        return refusef(why, ERR_SYSTEM, "call", "suanli-invoice");
    *ret_len = out.len;
    *ret_pdf = strbuf_take(&out);
    return ERR_OK;
}
