#include "node/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum err sys_fail(struct refusal *why, const char *call)
{
    const char *text = strerrordesc_np(errno);

    return sys_refuse(why, ERR_SYSTEM, "call", call, "why", text ? text : "unknown", NULL);
}

enum err sys_refuse(struct refusal *why, enum err code, ...)
{
    va_list ap;
    const char *key;
    enum err e = refuse(why, code);

    va_start(ap, code);
    while ((key = va_arg(ap, const char *)))
        refusal_set(why, key, va_arg(ap, const char *));
    va_end(ap);
    return e;
}

void sys_clear(struct refusal *why)
{
    if (why)
        *why = (struct refusal){.code = ERR_OK};
}

bool sys_write_all(int fd, const char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

enum err sys_dir_sync(const char *path, struct refusal *why)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) != 0)
        return sys_fail(why, "sync of a folder");
    return ERR_OK;
}

enum err sys_write_durable(const char *path, const void *data, size_t len, mode_t mode,
                           struct refusal *why)
{
    char temp[PATH_MAX], folder[PATH_MAX];

    if (!str_printf(temp, sizeof(temp), "%s.new", path) || !str_copy(folder, sizeof(folder), path))
        return refusef(why, ERR_INTERNAL, "why", "path too long");
    char *slash = strrchr(folder, '/');
    CHECK(slash);
    *slash = '\0';
    AUTO_CLOSE int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0 || !sys_write_all(fd, data, len) || fsync(fd) != 0)
        return sys_fail(why, "write of a record");
    if (rename(temp, path) != 0)
        return sys_fail(why, "rename of a record");
    return sys_dir_sync(folder, why);
}

enum err sys_write_text(const char *path, const char *text, struct refusal *why)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || !sys_write_all(fd, text, strlen(text)))
        return sys_fail(why, path);
    return ERR_OK;
}

ssize_t sys_read_small(const char *path, char *buf, size_t size)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;

    if (fd < 0)
        return -1;
    while (len < size - 1) {
        ssize_t n = read(fd, buf + len, size - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    buf[len] = '\0';
    return (ssize_t)len;
}

enum err sys_dir_ensure(const char *path, mode_t mode, uid_t uid, gid_t gid, struct refusal *why)
{
    struct stat st;

    if (mkdir(path, mode) != 0 && errno != EEXIST)
        return sys_fail(why, path);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return sys_fail(why, path);
    if ((st.st_uid != uid || st.st_gid != gid) && fchown(fd, uid, gid) != 0)
        return sys_fail(why, path);
    if ((st.st_mode & 07777) != mode && fchmod(fd, mode) != 0)
        return sys_fail(why, path);
    return ERR_OK;
}

static bool remove_below(int fd, dev_t dev, unsigned depth);

static bool remove_one(int dirfd, const char *name, dev_t dev, unsigned depth)
{
    struct stat st;

    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return true;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode) ||
        st.st_dev != dev || depth == 0)
        return false;
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    return remove_below(fd, dev, depth - 1) && unlinkat(dirfd, name, AT_REMOVEDIR) == 0;
}

/* Takes fd. The depth bound keeps a tree made by strangers from eating the stack. */
static bool remove_below(int fd, dev_t dev, unsigned depth)
{
    DIR *dir = fdopendir(fd);
    bool all = true;
    struct dirent *e;

    if (!dir) {
        close(fd);
        return false;
    }
    while ((e = readdir(dir)))
        if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
            all = remove_one(dirfd(dir), e->d_name, dev, depth) && all;
    closedir(dir);
    return all;
}

bool sys_remove_tree(int dirfd, const char *name)
{
    struct stat st;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT;
    return remove_one(dirfd, name, st.st_dev, 512);
}

bool sys_is_mount(const char *path)
{
    struct statx sx;

    return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &sx) == 0 &&
           (sx.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static _Noreturn void tool_child(const struct sys_tool *t, int in, int out)
{
    char *const env[] = {(char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", (char *)"LC_ALL=C",
                         (char *)t->env, NULL};
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if ((t->netns_fd > 0 && setns(t->netns_fd, CLONE_NEWNET) != 0) || dup2(in, 0) < 0 ||
        dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    if (t->prepare && !t->prepare(t->prepare_arg))
        _exit(126);
    close_range(3, ~0U, 0);
    execvpe(t->argv[0], (char *const *)t->argv, env);
    _exit(127);
}

/* Keeps the last part of what came, with line ends as blanks. */
static void output_add(struct sys_tool *t, char *p, size_t n)
{
    size_t have = strlen(t->output), room = sizeof(t->output) - 1;

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] < ' ')
            p[i] = ' ';
    if (n > room) {
        p += n - room;
        n = room;
    }
    if (have + n > room) {
        size_t cut = have + n - room;
        memmove(t->output, t->output + cut, have - cut);
        have -= cut;
    }
    memcpy(t->output + have, p, n);
    t->output[have + n] = '\0';
}

/* Feeds stdin and drains stdout until the tool has closed both; false at the time-out. */
static bool tool_pump(struct sys_tool *t, int in, int out, utime_t until)
{
    struct clock *clock = clock_system();
    const char *left = t->input ? t->input : "";
    char buf[4096];

    fcntl(in, F_SETFL, O_NONBLOCK);
    if (!*left)
        close(TAKE_FD(in));
    for (;;) {
        utime_t now = clock->boot_ms(clock);
        struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = in, .events = POLLOUT}};
        if (now >= until)
            break;
        if (poll(fds, 2, (int)MIN(until - now, (utime_t)1000)) < 0 && errno != EINTR)
            break;
        if (in >= 0 && fds[1].revents) {
            ssize_t n = write(in, left, strlen(left));
            left += n > 0 ? n : 0;
            if (!*left || (n < 0 && errno != EAGAIN && errno != EINTR))
                close(TAKE_FD(in));
        }
        if (fds[0].revents) {
            ssize_t n = read(out, buf, sizeof(buf));
            if (n == 0)
                return true;
            if (n > 0)
                output_add(t, buf, (size_t)n);
        }
    }
    if (in >= 0)
        close(in);
    return false;
}

enum err sys_tool_run(struct sys_tool *t, struct refusal *why)
{
    struct clock *clock = clock_system();
    utime_t until = clock->boot_ms(clock) + (t->timeout_ms ? t->timeout_ms : 60 * MS_PER_S);
    int in[2], out[2], status = 0;

    t->output[0] = '\0';
    if (pipe2(in, O_CLOEXEC) != 0)
        return sys_fail(why, "pipe");
    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        return sys_fail(why, "pipe");
    }
    pid_t pid = fork();
    if (pid == 0)
        tool_child(t, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    if (pid < 0) {
        close(in[1]);
        close(out[0]);
        return sys_fail(why, "fork");
    }
    bool done = tool_pump(t, in[1], out[0], until);
    close(out[0]);
    if (!done)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!done || !WIFEXITED(status) || WEXITSTATUS(status) > t->ok_max) {
        const char *said = t->output[0] ? t->output : "not runnable";
        return sys_refuse(why, ERR_SYSTEM, "call", t->argv[0], "why", done ? said : "timed out",
                          NULL);
    }
    return ERR_OK;
}

bool sys_file_copy(const char *from, int to_dir, const char *name, mode_t mode)
{
    AUTO_CLOSE int in = open(from, O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int out = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    ssize_t n;

    if (in < 0 || out < 0)
        return false;
    do {
        n = sendfile(out, in, NULL, 1 << 20);
    } while (n > 0);
    return n == 0 && fchmod(out, mode) == 0;
}
