#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

#define FDS_MAX 256

struct tracer {
    pid_t pid;
    const char *folder;
    struct calls *calls;
    char name[FDS_MAX][FILE_OP_NAME]; /* "": not of the folder; ".": the folder itself */
    int64_t pos[FDS_MAX];
    struct __ptrace_syscall_info entry; /* of the call that runs */
    char path[PATH_MAX];                /* its path inside the folder, or "" */
    bool makes;                         /* it makes a file that was not there */
};

static void peek(const struct tracer *t, uint64_t from, void *to, size_t n)
{
    struct iovec mine = {.iov_base = to, .iov_len = n};
    struct iovec his = {.iov_base = (void *)(uintptr_t)from, .iov_len = n};

    CHECK(process_vm_readv(t->pid, &mine, 1, &his, 1, 0) == (ssize_t)n);
}

/* The path argument, when it is in the folder: "." or a name without a slash. */
static void peek_path(struct tracer *t, uint64_t from)
{
    size_t n = 0, folder = strlen(t->folder);

    do {
        CHECK(n < sizeof(t->path));
        peek(t, from + n, &t->path[n], 1);
    } while (t->path[n++]);
    if (str_eq(t->path, t->folder)) {
        CHECK(str_copy(t->path, sizeof(t->path), "."));
    } else if (str_starts(t->path, t->folder) && t->path[folder] == '/' &&
               !strchr(t->path + folder + 1, '/')) {
        memmove(t->path, t->path + folder + 1, strlen(t->path + folder));
        CHECK(strlen(t->path) < FILE_OP_NAME);
    } else {
        t->path[0] = '\0';
    }
}

static const char *name_of(const struct tracer *t, uint64_t fd)
{
    return fd < FDS_MAX ? t->name[fd] : "";
}

static struct file_op *note(struct tracer *t, enum file_op_kind kind, const char *name)
{
    struct file_op *o = vec_push(&t->calls->ops);

    o->kind = kind;
    o->call = t->calls->count;
    CHECK(str_copy(o->name, sizeof(o->name), name));
    return o;
}

static bool opens(uint64_t nr)
{
#ifdef SYS_open
    if (nr == SYS_open)
        return true;
#endif
    return nr == SYS_openat;
}

static bool removes(uint64_t nr)
{
#ifdef SYS_unlink
    if (nr == SYS_unlink)
        return true;
#endif
    return nr == SYS_unlinkat;
}

/* Calls that change files in ways that are not understood here. */
static bool is_strange(uint64_t nr)
{
    static const long strange[] = {SYS_writev,   SYS_pwritev,  SYS_pwritev2, SYS_fallocate,
                                   SYS_sendfile, SYS_dup,      SYS_dup3,     SYS_copy_file_range,
                                   SYS_splice,   SYS_renameat2};

    for (size_t i = 0; i < ARRAY_LEN(strange); i++)
        if (nr == (uint64_t)strange[i])
            return true;
    return false;
}

static void call_begins(struct tracer *t)
{
    const uint64_t *arg = t->entry.entry.args;
    uint64_t nr = t->entry.entry.nr;

    t->path[0] = '\0';
    t->makes = false;
    if (opens(nr) || removes(nr))
        peek_path(t, arg[nr == SYS_openat || nr == SYS_unlinkat]);
    if (opens(nr) && t->path[0]) {
        char whole[PATH_MAX];

        CHECK(str_printf(whole, sizeof(whole), "%s/%s", t->folder, t->path));
        CHECK(!(arg[nr == SYS_openat ? 2 : 1] & O_TRUNC));
        t->makes = access(whole, F_OK) != 0;
    }
    CHECK(!is_strange(nr) || !*name_of(t, arg[0]));
}

static void written(struct tracer *t, uint64_t fd, uint64_t from, int64_t at, size_t n)
{
    struct file_op *o = note(t, FILE_WRITTEN, t->name[fd]);

    o->at = at;
    o->len = n;
    o->bytes = mem_alloc(n);
    peek(t, from, o->bytes, n);
}

static void file_call_ended(struct tracer *t, uint64_t fd, int64_t ret)
{
    const uint64_t *arg = t->entry.entry.args;
    uint64_t nr = t->entry.entry.nr;

    if (nr == SYS_lseek) {
        t->pos[fd] = ret;
    } else if (nr == SYS_read) {
        t->pos[fd] += ret;
    } else if (nr == SYS_write) {
        written(t, fd, arg[1], t->pos[fd], (size_t)ret);
        t->pos[fd] += ret;
    } else if (nr == SYS_pwrite64) {
        written(t, fd, arg[1], (int64_t)arg[3], (size_t)ret);
    } else if (nr == SYS_ftruncate) {
        note(t, FILE_CUT, t->name[fd])->at = (int64_t)arg[1];
    } else if (nr == SYS_fsync || nr == SYS_fdatasync) {
        note(t, str_eq(t->name[fd], ".") ? FOLDER_SYNCED : FILE_SYNCED, t->name[fd]);
    } else if (nr == SYS_close) {
        t->name[fd][0] = '\0';
    }
}

static void call_ended(struct tracer *t, int64_t ret)
{
    uint64_t nr = t->entry.entry.nr, fd = t->entry.entry.args[0];

    if (ret < 0)
        return;
    if (opens(nr) && t->path[0]) {
        CHECK(ret < FDS_MAX);
        CHECK(str_copy(t->name[ret], FILE_OP_NAME, t->path));
        t->pos[ret] = 0;
        if (t->makes)
            note(t, FILE_MADE, t->path);
    } else if (removes(nr) && t->path[0]) {
        note(t, FILE_REMOVED, t->path);
    } else if (*name_of(t, fd)) {
        file_call_ended(t, fd, ret);
    }
}

/* The child stands at the beginning or at the end of a call. True: it was killed. */
static bool at_call(struct tracer *t, const bool *told, long kill_at)
{
    struct __ptrace_syscall_info info = {0};

    CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, t->pid, sizeof(info), &info) > 0);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        t->calls->count++;
        if (told && !t->calls->told_at && __atomic_load_n(told, __ATOMIC_ACQUIRE))
            t->calls->told_at = t->calls->count;
        if (t->calls->count == kill_at) {
            kill(t->pid, SIGKILL);
            return true;
        }
        t->entry = info;
        if (t->folder)
            call_begins(t);
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && t->folder) {
        call_ended(t, info.exit.rval);
    }
    return false;
}

static _Noreturn void child(void (*run)(void *arg), void *arg)
{
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
        _exit(99);
    raise(SIGSTOP);
    run(arg);
    _exit(0);
}

static pid_t wait_for(pid_t pid, int *ret_status)
{
    pid_t got;

    do
        got = waitpid(pid, ret_status, 0);
    while (got < 0 && errno == EINTR);
    return got;
}

void calls_run(void (*run)(void *arg), void *arg, const bool *told, const char *folder,
               long kill_at, struct calls *ret_c)
{
    struct tracer *t = mem_alloc(sizeof(*t));
    int sig = 0;

    *ret_c = (struct calls){0};
    t->folder = folder;
    t->calls = ret_c;
    t->pid = fork();
    CHECK(t->pid >= 0);
    if (t->pid == 0)
        child(run, arg);
    CHECK(wait_for(t->pid, &ret_c->status) == t->pid && WIFSTOPPED(ret_c->status));
    CHECK(ptrace(PTRACE_SETOPTIONS, t->pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
    for (;;) {
        CHECK(ptrace(PTRACE_SYSCALL, t->pid, 0, sig) == 0);
        CHECK(wait_for(t->pid, &ret_c->status) == t->pid);
        if (!WIFSTOPPED(ret_c->status))
            break;
        sig = WSTOPSIG(ret_c->status);
        if (sig != (SIGTRAP | 0x80))
            continue;
        sig = 0;
        if (at_call(t, told, kill_at)) {
            CHECK(wait_for(t->pid, &ret_c->status) == t->pid);
            ret_c->killed = true;
            break;
        }
    }
    free(t);
}

void calls_fini(struct calls *c)
{
    VEC_FOREACH (o, &c->ops)
        free(o->bytes);
    vec_fini(&c->ops);
}
