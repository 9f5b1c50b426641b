#include "render/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define NOBODY 65534
#define MEMORY_MAX ((rlim_t)1 << 30)
#define SECONDS_MAX 30

#ifdef __SANITIZE_ADDRESS__
/* The leak checker of a test build would trace this process, which the sandbox does not allow. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

/* What text layout needs beside its inputs. A library may ask for more: it is told EPERM and goes
 * on without (caches it would like to write). */
static const char *const calls[] = {
    "access",
    "arch_prctl",
    "brk",
    "clock_getres",
    "clock_gettime",
    "close",
    "dup",
    "exit",
    "exit_group",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fcntl",
    "fstat",
    "fstatfs",
    "futex",
    "getcwd",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getppid",
    "getrandom",
    "getrlimit",
    "gettid",
    "gettimeofday",
    "getuid",
    "ioctl",
    "lseek",
    "lstat",
    "madvise",
    "membarrier",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "newfstatat",
    "pread64",
    "prlimit64",
    "read",
    "readlink",
    "readlinkat",
    "readv",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_getattr",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    "sigaltstack",
    "stat",
    "statfs",
    "statx",
    "sysinfo",
    "tgkill",
    "uname",
    "write",
    "writev",
};

static bool allow_calls(scmp_filter_ctx f)
{
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        int nr = seccomp_syscall_resolve_name(calls[i]);

        if (nr != __NR_SCMP_ERROR && seccomp_rule_add(f, SCMP_ACT_ALLOW, nr, 0) != 0)
            return false;
    }
    /* files to read only, threads only */
    return seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                            SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY)) ==
               0 &&
           seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(open), 1,
                            SCMP_A1(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY)) ==
               0 &&
           seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)) == 0 &&
           seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0;
}

static bool filter(void)
{
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    bool ok = f && allow_calls(f) && seccomp_load(f) == 0;

    if (f)
        seccomp_release(f);
    return ok;
}

static bool limit(int what, rlim_t value)
{
    struct rlimit r = {value, value};

    return setrlimit(what, &r) == 0;
}

enum err sandbox_enter(struct refusal *why)
{
    bool nobody =
        geteuid() != 0 || (setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);

    if (!nobody)
        return refusef(why, ERR_SYSTEM, "call", "setuid");
#ifndef __SANITIZE_ADDRESS__ /* its shadow memory alone is larger */
    if (!limit(RLIMIT_AS, MEMORY_MAX))
        return refusef(why, ERR_SYSTEM, "call", "setrlimit");
#endif
    if (!limit(RLIMIT_CPU, SECONDS_MAX) || !limit(RLIMIT_CORE, 0))
        return refusef(why, ERR_SYSTEM, "call", "setrlimit");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !filter())
        return refusef(why, ERR_SYSTEM, "call", "seccomp");
    return ERR_OK;
}
