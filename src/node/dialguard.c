/* The kernel stops each connect() of the tool and asks us (seccomp user notification). Three
 * processes: we answer; our child runs the tool and keeps its output; the tool. We must be an
 * ancestor of the tool to read its memory where ptrace is restricted. That the tool could change
 * the address after we have looked is no matter: it is not the adversary. */
#include "node/dialguard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define DNS_PORT 53

/* This machine's own, private and link-local addresses, and what maps onto them. */
static bool v4_forbidden(uint32_t a)
{
    static const struct {
        uint32_t net;
        int bits;
    } rows[] = {{0x00000000, 8},  {0x0a000000, 8},  {0x64400000, 10}, {0x7f000000, 8},
                {0xa9fe0000, 16}, {0xac100000, 12}, {0xc0000000, 24}, {0xc0a80000, 16},
                {0xc6120000, 15}, {0xe0000000, 3}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if ((a ^ rows[i].net) >> (32 - rows[i].bits) == 0)
            return true;
    return false;
}

bool dialguard_forbidden(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET)
        return v4_forbidden(ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr));
    if (sa->sa_family != AF_INET6)
        return true;
    const uint8_t *b = ((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr.s6_addr;
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    static const uint8_t nat64[12] = {0, 0x64, 0xff, 0x9b};
    uint32_t tail = (uint32_t)b[12] << 24 | (uint32_t)b[13] << 16 | (uint32_t)b[14] << 8 | b[15];
    if (memcmp(b, mapped, 12) == 0 || memcmp(b, nat64, 12) == 0)
        return v4_forbidden(tail);
    if (b[0] == 0x20 && b[1] == 0x02) /* 6to4 carries an IPv4 address */
        return v4_forbidden((uint32_t)b[2] << 24 | (uint32_t)b[3] << 16 | (uint32_t)b[4] << 8 |
                            b[5]);
    return (b[0] & 0xe0) != 0x20; /* only global unicast is outside */
}

static bool fd_send(int sock, int fd)
{
    char byte = 'f', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    return sendmsg(sock, &msg, 0) == 1;
}

static int fd_receive(int sock)
{
    char byte, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *c;
    int fd = -1;

    if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) == 1 && (c = CMSG_FIRSTHDR(&msg)) &&
        c->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    return fd;
}

/* In the tool's process, just before exec. Ways to connect without connect() are closed. */
static bool filter_install(void *user)
{
    const int *sock = user;
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
    bool ok = f && seccomp_rule_add(f, SCMP_ACT_NOTIFY, SCMP_SYS(connect), 0) == 0 &&
              seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(io_uring_setup), 0) == 0 &&
              seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(sendto), 1,
                               SCMP_A3(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, MSG_FASTOPEN)) == 0 &&
              seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(sendmsg), 1,
                               SCMP_A2(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, MSG_FASTOPEN)) == 0 &&
              seccomp_load(f) == 0 && fd_send(*sock, seccomp_notify_fd(f));

    if (f)
        seccomp_release(f);
    return ok;
}

static bool address_ok(const struct seccomp_notif *req)
{
    struct sockaddr_storage sa = {0};
    size_t size = MIN((size_t)req->data.args[2], sizeof(sa));
    struct iovec to = {.iov_base = &sa, .iov_len = size};
    struct iovec from = {.iov_base = (void *)(uintptr_t)req->data.args[1], .iov_len = size};

    if (process_vm_readv((pid_t)req->pid, &to, 1, &from, 1, 0) != (ssize_t)size)
        return false;
    if (sa.ss_family != AF_INET && sa.ss_family != AF_INET6)
        return true;
    /* Both families keep the port at the same place. */
    if (ntohs(((const struct sockaddr_in *)(const void *)&sa)->sin_port) == DNS_PORT)
        return true;
    return !dialguard_forbidden((const struct sockaddr *)(const void *)&sa);
}

/* One question; true when the answer was no. */
static bool question_answer(int notify)
{
    struct seccomp_notif *req = NULL;
    struct seccomp_notif_resp *resp = NULL;
    bool refused = false;

    if (seccomp_notify_alloc(&req, &resp) != 0)
        return false;
    if (seccomp_notify_receive(notify, req) == 0) {
        resp->id = req->id;
        refused = !address_ok(req);
        if (refused)
            resp->error = -EACCES;
        else
            resp->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        /* The asker may be gone; then there is nobody to answer. */
        (void)!seccomp_notify_respond(notify, resp);
    }
    seccomp_notify_free(req, resp);
    return refused;
}

struct outcome {
    enum err e;
    char output[sizeof(((struct sys_tool *)0)->output)];
};

static _Noreturn void runner(struct sys_tool *t, int sock, int result)
{
    struct outcome o;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    t->prepare = filter_install;
    t->prepare_arg = &sock;
    o.e = sys_tool_run(t, NULL);
    memcpy(o.output, t->output, sizeof(o.output));
    (void)!write(result, &o, sizeof(o));
    _exit(0);
}

/* Answers until the runner has its result; true when something was refused. */
static bool serve(int sock, int result)
{
    AUTO_CLOSE int notify = -1;
    bool refused = false;

    for (;;) {
        struct pollfd fds[3] = {{.fd = result, .events = POLLIN},
                                {.fd = notify < 0 ? sock : -1, .events = POLLIN},
                                {.fd = notify, .events = POLLIN}};
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return refused;
        if (fds[1].revents)
            notify = fd_receive(sock);
        if (fds[1].revents && notify < 0)
            sock = -1;
        if (fds[2].revents & POLLIN)
            refused = question_answer(notify) || refused;
        else if (fds[2].revents)
            fd_close_ptr(&notify), notify = -1, sock = -1;
        if (fds[0].revents)
            return refused;
    }
}

enum err dialguard_run(struct sys_tool *t, struct refusal *why)
{
    struct outcome o = {.e = ERR_SYSTEM};
    int sock[2], result[2];

    if (seccomp_api_get() < 5)
        return sys_refuse(why, ERR_UNSUPPORTED, "what", "a guarded fetch", "why",
                          "this kernel has no seccomp notifications", NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock) != 0)
        return sys_fail(why, "socketpair");
    if (pipe2(result, O_CLOEXEC) != 0) {
        close(sock[0]);
        close(sock[1]);
        return sys_fail(why, "pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(sock[0]);
        close(result[0]);
        runner(t, sock[1], result[1]);
    }
    close(sock[1]);
    close(result[1]);
    bool refused = pid > 0 && serve(sock[0], result[0]);
    bool told = pid > 0 && read(result[0], &o, sizeof(o)) == (ssize_t)sizeof(o);
    close(sock[0]);
    close(result[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    memcpy(t->output, o.output, sizeof(t->output));
    if (refused)
        return refuse(why, ERR_FORBIDDEN);
    return told && o.e == ERR_OK
               ? ERR_OK
               : sys_refuse(why, ERR_SYSTEM, "call", t->argv[0], "why", t->output, NULL);
}
