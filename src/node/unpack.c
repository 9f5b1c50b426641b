#include "node/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/oci.h"
#include "node/sys.h"
#include "node/userns.h"

struct verdict {
    enum err e;
    struct refusal why;
};

/* In the new namespaces, still root: a root folder with nothing of the machine but /usr. */

static bool bind_here(const char *from, const char *to, unsigned long flags)
{
    return mount(from, to, NULL, MS_BIND, NULL) == 0 &&
           mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | flags, NULL) == 0;
}

/* /bin and its like are links on today's systems, folders on others. */
static bool system_folder(const char *name)
{
    char from[16], target[64];
    ssize_t n;

    str_printf(from, sizeof(from), "/%s", name);
    n = readlink(from, target, sizeof(target) - 1);
    if (n > 0) {
        target[n] = '\0';
        return symlink(target, name) == 0;
    }
    if (access(from, F_OK) != 0)
        return true;
    return mkdir(name, 0755) == 0 && bind_here(from, name, MS_RDONLY | MS_NOSUID | MS_NODEV);
}

static bool root_build(const char *folder)
{
    static const char *const folders[] = {"usr", "lib", "lib64", "bin", "sbin"};
    char root[PATH_MAX], layout[PATH_MAX], work[PATH_MAX];

    if (!str_printf(root, sizeof(root), "%s/root", folder) ||
        !str_printf(layout, sizeof(layout), "%s/layout", folder) ||
        !str_printf(work, sizeof(work), "%s/work", folder))
        return false;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=755") != 0 ||
        chdir(root) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (!system_folder(folders[i]))
            return false;
    mkdir("layout", 0755);
    mkdir("work", 0755);
    mkdir("proc", 0755);
    mkdir("dev", 0755);
    mkdir("tmp", 01777);
    int null = open("dev/null", O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    if (null < 0)
        return false;
    close(null);
    return bind_here(layout, "layout", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC) &&
           bind_here(work, "work", MS_NOSUID | MS_NODEV | MS_NOEXEC) &&
           mount("/dev/null", "dev/null", NULL, MS_BIND, NULL) == 0 &&
           mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0 &&
           syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 &&
           chdir("/") == 0;
}

static void limit(int what, rlim_t value)
{
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)what, &now) == 0) {
        struct rlimit r = {.rlim_cur = MIN(value, now.rlim_max),
                           .rlim_max = MIN(value, now.rlim_max)};
        setrlimit((__rlimit_resource_t)what, &r);
    }
}

/* Everything but the two pipes goes; then the ids of the range, and no way back up. */
static bool rights_drop(int in, int out)
{
    char go;

    if (unshare(CLONE_NEWUSER) != 0 || write(out, "u", 1) != 1 || read(in, &go, 1) != 1)
        return false;
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NOFILE, 1024);
    limit(RLIMIT_FSIZE, (rlim_t)image_limits.tar.bytes_max * 2);
    if (setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return false;
    /* Dies with the importer. The change of ids has cleared an earlier wish of this kind, and a
     * parent in another pid namespace is seen dead by its end of the pipe only. */
    struct pollfd parent = {.fd = in};
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && poll(&parent, 1, 0) == 0;
}

static _Noreturn void inside(const char *folder, const char *digest, int64_t space, int in, int out)
{
    struct verdict v = {.e = ERR_SYSTEM};
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    /* Two numbers out of the way survive, whatever the pipes had. */
    if (dup3(in, 510, O_CLOEXEC) < 0 || dup3(out, 511, O_CLOEXEC) < 0)
        _exit(1);
    close_range(3, 509, 0);
    close_range(512, ~0U, 0);
    if (!root_build(folder))
        v.e = sys_fail(&v.why, "confinement of the unpacker");
    else if (!rights_drop(510, 511))
        v.e = sys_fail(&v.why, "user namespace of the unpacker");
    else
        v.e = oci_unpack(digest, space, &v.why);
    (void)!write(511, &v, sizeof(v));
    _exit(0);
}

/* What comes out of the confinement is believed in form only. */
static enum err verdict_take(const struct verdict *v, struct refusal *why)
{
    if ((unsigned)v->e >= ERR_COUNT || v->why.param_count > REFUSAL_PARAMS_MAX)
        return refusef(why, ERR_INTERNAL, "why", "unpacker");
    enum err e = refuse(why, v->e);
    for (size_t i = 0; v->e != ERR_OK && i < v->why.param_count; i++) {
        char key[sizeof(v->why.params[0].key)], value[REFUSAL_VALUE_MAX];
        memcpy(key, v->why.params[i].key, sizeof(key));
        memcpy(value, v->why.params[i].value, sizeof(value));
        key[sizeof(key) - 1] = value[sizeof(value) - 1] = '\0';
        refusal_set(why, key, str_utf8_ok(value) ? value : "?");
    }
    return e;
}

/* False at the time-out or when the child is gone. */
static bool read_until(int fd, void *buf, size_t size, utime_t until)
{
    struct clock *clock = clock_system();
    size_t have = 0;

    while (have < size) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        utime_t now = clock->boot_ms(clock);
        if (now >= until)
            return false;
        if (poll(&p, 1, (int)MIN(until - now, (utime_t)1000)) <= 0)
            continue;
        ssize_t n = read(fd, (char *)buf + have, size - have);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        have += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* The child says "u" when it has its user namespace, gets its maps and a go, and gives a verdict.
 * If it never gets so far, its first byte is the start of a verdict. */
static enum err converse(int pid, int to, int from, struct refusal *why)
{
    struct clock *clock = clock_system();
    utime_t until = clock->boot_ms(clock) + image_limits.time_ms_max;
    struct verdict v = {.e = ERR_OK};
    char first;

    if (!read_until(from, &first, 1, until))
        return refusef(why, ERR_IMAGE_HOSTILE, "why", "the unpacker died");
    if (first == 'u') {
        TRY(userns_map(pid, USERNS_IMPORT_BASE, why));
        if (write(to, "g", 1) != 1)
            return sys_fail(why, "unpacker");
        if (!read_until(from, &v, sizeof(v), until))
            return refusef(why, ERR_IMAGE_HOSTILE, "why", "%s",
                           clock->boot_ms(clock) >= until ? "it took too long to unpack"
                                                          : "the unpacker died");
    } else {
        memcpy(&v, &first, 1);
        if (!read_until(from, (char *)&v + 1, sizeof(v) - 1, until))
            return refusef(why, ERR_INTERNAL, "why", "unpacker");
    }
    return verdict_take(&v, why);
}

enum err unpack_run(const char *folder, const char *digest, int64_t space, struct refusal *why)
{
    int to[2], from[2];

    if (pipe2(to, O_CLOEXEC) != 0)
        return sys_fail(why, "pipe");
    if (pipe2(from, O_CLOEXEC) != 0) {
        close(to[0]);
        close(to[1]);
        return sys_fail(why, "pipe");
    }
    pid_t pid = (pid_t)syscall(SYS_clone,
                               CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                                   CLONE_NEWUTS | SIGCHLD,
                               0, 0, 0, 0);
    if (pid == 0)
        inside(folder, digest, space, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    enum err e =
        pid < 0 ? sys_fail(why, "clone of the unpacker") : converse(pid, to[1], from[0], why);
    close(to[1]);
    close(from[0]);
    if (pid > 0) {
        /* Pid 1 of its namespace: nothing of it is left after this. */
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    return e;
}
