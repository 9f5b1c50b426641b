#include "node/guardio.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/guard.h"

#define PUMP_BYTES 65536
#define PUMP_PAUSE_MS 10 /* 64 KiB each: 6 MiB a second at most */
#define PROBE_FAST_MS 10000
#define PROBE_SLOW_STEP_MS 250

/* ---- output ---- */

/* The ring file: bytes at (offset modulo size), and the offset after the newest byte behind them.
 */
static void ring_write(struct output *o, const char *data, size_t n)
{
    while (n) {
        size_t at = (size_t)(o->total % GUARD_RING_SIZE), part = MIN(n, GUARD_RING_SIZE - at);
        if (pwrite(o->ring, data, part, (off_t)at) != (ssize_t)part)
            return; /* a full disk loses output, nothing else */
        o->total += part;
        data += part;
        n -= part;
    }
    if (pwrite(o->ring, &o->total, sizeof(o->total), GUARD_RING_SIZE) < 0)
        errno = 0;
}

bool output_open(struct output *o, const struct node_paths *p, struct id lease, uint64_t total)
{
    char fifo[GUEST_PATH_SIZE], ring[GUEST_PATH_SIZE];
    uint64_t kept;

    if (!guest_run_path(p, lease, "output", fifo) || !guest_path(p, lease, "output", ring))
        return false;
    if (mkfifo(fifo, 0600) < 0 && errno != EEXIST)
        return false;
    o->fifo = open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    o->ring = open(ring, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    o->total = total;
    if (pread(o->ring, &kept, sizeof(kept), GUARD_RING_SIZE) == (ssize_t)sizeof(kept))
        o->total = MAX(total, kept);
    return o->fifo >= 0 && o->ring >= 0;
}

int output_writer_open(const struct node_paths *p, struct id lease)
{
    char fifo[GUEST_PATH_SIZE];

    /* Its own open description: our non-blocking one would fail the guest's writes when it is full.
     */
    return guest_run_path(p, lease, "output", fifo) ? open(fifo, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
                                                    : -1;
}

int output_poll_fd(const struct output *o)
{
    return o->pause_until ? -1 : o->fifo;
}

utime_t output_next(const struct output *o)
{
    return o->pause_until ? o->pause_until : UTIME_NEVER;
}

void output_pump(struct output *o, utime_t now)
{
    static char data[PUMP_BYTES];
    size_t got = 0;

    if (o->pause_until && now < o->pause_until)
        return;
    o->pause_until = 0;
    while (got < PUMP_BYTES) {
        ssize_t n = read(o->fifo, data, PUMP_BYTES - got);
        if (n <= 0)
            return;
        ring_write(o, data, (size_t)n);
        got += (size_t)n;
    }
    o->pause_until = now + PUMP_PAUSE_MS;
}

void output_drain(struct output *o)
{
    static char data[PUMP_BYTES];
    ssize_t n;

    /* A pipe holds at most a megabyte. */
    for (int i = 0; i < 16 && (n = read(o->fifo, data, sizeof(data))) > 0; i++)
        ring_write(o, data, (size_t)n);
}

size_t guard_output_read(const struct node_paths *p, struct id lease, uint64_t from, void *buf,
                         size_t size, uint64_t *ret_next)
{
    char path[GUEST_PATH_SIZE];
    uint64_t total = 0;
    size_t done = 0;

    *ret_next = from;
    CHECK(guest_path(p, lease, "output", path));
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || pread(fd, &total, sizeof(total), GUARD_RING_SIZE) != (ssize_t)sizeof(total))
        return 0;
    if (total > GUARD_RING_SIZE)
        from = MAX(from, total - GUARD_RING_SIZE);
    from = MIN(from, total);
    while (done < size && from < total) {
        size_t at = (size_t)(from % GUARD_RING_SIZE);
        size_t part = MIN(MIN(size - done, (size_t)(total - from)), GUARD_RING_SIZE - at);
        ssize_t n = pread(fd, (char *)buf + done, part, (off_t)at);
        if (n <= 0)
            break;
        done += (size_t)n;
        from += (uint64_t)n;
    }
    *ret_next = from;
    return done;
}

/* ---- probe ---- */

void probe_init(struct probe *pr)
{
    *pr = (struct probe){.fd = -1, .next = UTIME_NEVER};
}

void probe_begin(struct probe *pr, int fd, uint32_t address, utime_t now)
{
    *pr = (struct probe){
        .fd = fd, .address = address, .begun = now, .next = fd < 0 ? UTIME_NEVER : now};
}

int probe_poll_fd(const struct probe *pr)
{
    return pr->connecting || pr->connected ? pr->fd : -1;
}

short probe_poll_events(const struct probe *pr)
{
    return pr->connecting ? POLLOUT : POLLIN;
}

utime_t probe_next(const struct probe *pr)
{
    return pr->next;
}

/* Back to an unconnected socket; the next try is a little later. A SYN that got lost while the link
 * came up would be repeated by the kernel after a second only. */
static void probe_reset(struct probe *pr, utime_t now)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};

    connect(pr->fd, &none, sizeof(none));
    pr->connecting = pr->connected = false;
    pr->got = 0;
    pr->next = now + (now - pr->begun < PROBE_FAST_MS ? GUARD_READY_STEP_MS : PROBE_SLOW_STEP_MS);
}

static void probe_connect(struct probe *pr, utime_t now)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(22), .sin_addr.s_addr = htonl(pr->address)};

    pr->connected = connect(pr->fd, (struct sockaddr *)&a, sizeof(a)) == 0;
    pr->connecting = !pr->connected && errno == EINPROGRESS;
    if (!pr->connected && !pr->connecting)
        probe_reset(pr, now);
    else
        pr->next = now + (pr->connected ? 1000 : GUARD_READY_STEP_MS);
}

bool probe_step(struct probe *pr, utime_t now)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (pr->fd < 0)
        return false;
    if (pr->connecting) {
        struct pollfd p = {.fd = pr->fd, .events = POLLOUT};
        if (poll(&p, 1, 0) == 1) {
            getsockopt(pr->fd, SOL_SOCKET, SO_ERROR, &error, &len);
            pr->connecting = false;
            pr->connected = error == 0;
            if (!pr->connected) {
                probe_reset(pr, now);
                return false;
            }
            /* The server may need a moment for its first words. */
            pr->next = now + 5000;
        }
    }
    if (pr->connected) {
        ssize_t n = recv(pr->fd, pr->banner + pr->got, sizeof(pr->banner) - pr->got, MSG_DONTWAIT);
        pr->got += n > 0 ? (size_t)n : 0;
        if (pr->got == sizeof(pr->banner) && memcmp(pr->banner, "SSH-", 4) == 0) {
            close(pr->fd);
            probe_init(pr);
            return true;
        }
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            probe_reset(pr, now);
            return false;
        }
    }
    if (now < pr->next)
        return false;
    if (pr->connecting || pr->connected)
        probe_reset(pr, now);
    probe_connect(pr, now);
    return false;
}

/* ---- the starter's result ---- */

union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int))];
};

void guardio_result_send(int sock, const struct start_result *r, int fd)
{
    struct start_result copy = *r;
    struct iovec iov = {.iov_base = &copy, .iov_len = sizeof(copy)};
    union control c = {0};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd >= 0) {
        m.msg_control = &c;
        m.msg_controllen = sizeof(c.space);
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(h), &fd, sizeof(fd));
    }
    CHECK(sendmsg(sock, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(copy));
}

bool guardio_result_receive(int sock, struct start_result *ret_r, int *ret_fd)
{
    struct iovec iov = {.iov_base = ret_r, .iov_len = sizeof(*ret_r)};
    union control c = {0};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c.space)};
    ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
    struct cmsghdr *h = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

    *ret_fd = -1;
    if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
        memcpy(ret_fd, CMSG_DATA(h), sizeof(*ret_fd));
    return n == (ssize_t)sizeof(*ret_r);
}
