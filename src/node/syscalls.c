#include "node/syscalls.h"

#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <sys/socket.h>

static const char *const guest_calls[] = {
#define ALLOW(name) #name,
#include "seccomp.def"
#undef ALLOW
};

#if defined(__x86_64__)
#define ARCH_NAME "SCMP_ARCH_X86_64"
#elif defined(__aarch64__)
#define ARCH_NAME "SCMP_ARCH_AARCH64"
#else
#error "no list of system calls for this architecture"
#endif

/* CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET */
#define CLONE_NAMESPACES 0x7E020000

static void rule_arg(struct json_writer *w, const char *call, int64_t value, int64_t value_two,
                     const char *op)
{
    json_object_begin(w, NULL);
    json_array_begin(w, "names");
    json_str(w, NULL, call);
    json_array_finish(w);
    json_str(w, "action", "SCMP_ACT_ALLOW");
    json_array_begin(w, "args");
    json_object_begin(w, NULL);
    json_i64(w, "index", 0);
    json_i64(w, "value", value);
    json_i64(w, "valueTwo", value_two);
    json_str(w, "op", op);
    json_object_finish(w);
    json_array_finish(w);
    json_object_finish(w);
}

void seccomp_guest_write(struct json_writer *w)
{
    static const int64_t personas[] = {0x0, 0x0008, 0x20000, 0x20008, 0x40000, 0xffffffff};
    static const int64_t families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

    json_object_begin(w, "seccomp");
    json_str(w, "defaultAction", "SCMP_ACT_ERRNO");
    json_i64(w, "defaultErrnoRet", EPERM);
    json_array_begin(w, "architectures");
    json_str(w, NULL, ARCH_NAME);
    json_array_finish(w);
    json_array_begin(w, "syscalls");
    json_object_begin(w, NULL);
    json_array_begin(w, "names");
    for (size_t i = 0; i < ARRAY_LEN(guest_calls); i++)
        json_str(w, NULL, guest_calls[i]);
    json_array_finish(w);
    json_str(w, "action", "SCMP_ACT_ALLOW");
    json_object_finish(w);
    rule_arg(w, "clone", CLONE_NAMESPACES, 0, "SCMP_CMP_MASKED_EQ");
    for (size_t i = 0; i < ARRAY_LEN(families); i++)
        rule_arg(w, "socket", families[i], 0, "SCMP_CMP_EQ");
    for (size_t i = 0; i < ARRAY_LEN(personas); i++)
        rule_arg(w, "personality", personas[i], 0, "SCMP_CMP_EQ");
    json_object_begin(w, NULL);
    json_array_begin(w, "names");
    json_str(w, NULL, "clone3");
    json_array_finish(w);
    json_str(w, "action", "SCMP_ACT_ERRNO");
    json_i64(w, "errnoRet", ENOSYS);
    json_object_finish(w);
    json_array_finish(w);
    json_object_finish(w);
}

// clang-format off
/* What a guard needs once it has its descriptors. */
static const char *const guard_calls[] = {
    "read", "write", "pread64", "pwrite64", "openat", "close", "fsync", "fdatasync", "rename",
    "renameat", "renameat2", "unlink", "unlinkat", "lseek", "fstat", "newfstatat", "statx",
    "poll", "ppoll", "timerfd_settime", "timerfd_gettime", "clock_gettime", "wait4", "waitid",
    "pidfd_open", "pidfd_send_signal", "kill", "accept4", "recvmsg", "recvfrom", "sendmsg",
    "sendto", "connect", "getsockopt", "fcntl", "fchmod", "fchown", "ftruncate", "exit_group",
    "exit", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "brk", "mmap",
    "munmap", "mremap", "getpid", "gettid", "tgkill", "getuid", "restart_syscall", "nanosleep",
    "clock_nanosleep", "futex", "getrandom", "mprotect", "writev", "readv",
#ifdef __SANITIZE_ADDRESS__
    "sigaltstack",
#endif
};
// clang-format on

enum err seccomp_guard_apply(struct refusal *why)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    bool ok = ctx != NULL;

    for (size_t i = 0; ok && i < ARRAY_LEN(guard_calls); i++)
        ok = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(guard_calls[i]),
                              0) == 0;
    ok = ok && seccomp_load(ctx) == 0;
    seccomp_release(ctx);
    return ok ? ERR_OK : refusef(why, ERR_SYSTEM, "call", "seccomp");
}
