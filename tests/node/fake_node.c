/* fake_node: the agent for real, with a root helper that only remembers. For test_agent.py.
 *
 *   fake_node CONFIG          the agent runs in a child, started again whenever it dies
 *
 * Commands on stdin, one a line; what the helper is asked and what guests do on stdout, as JSON
 * lines. kill · down · up · killat N (the agent dies when its N-th request from now arrives)
 *   killafter N (… when it was answered) · exit LEASE CODE · guard LEASE (guard and guest die)
 *   fail OP TIMES · slow MS (time from start to reachable) · cpu PERMILLE · used MIB · plant LEASE
 *   log TEXT · quit */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "node/agent.h"
#include "node/fetch.h"

#define ROOM 512
#define RESOLVED "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define EXTEND_MS 100 /* the margin of a guard on a busy machine */

struct guest {
    struct id lease;
    struct priv_guest spec;
    struct priv_deadline deadline;
    uint32_t state;
    utime_t started, ready, ended, kill_at, soft_exit;
    int exit_code, starts;
    bool stopping, killed_at_deadline;
};

struct disk {
    struct id disk;
    uint32_t state;
    int64_t size_mib;
    utime_t until;
};

static struct guest guests[ROOM];
static struct disk disks[ROOM];
static char images[ROOM][PRIV_DIGEST_SIZE];
static size_t guest_count, disk_count, image_count;
static struct node_config cfg;
static pid_t agent;
static int priv_fd = -1;
static bool down;
static int64_t kill_at = -1, kill_after = -1, slow_ms = 30, cpu_permille = 500, used_mib = 10;
static struct {
    uint32_t op;
    int times;
} fails;
static char log_text[4096];
static const char *const op_names[] = {
    "?",          "hello",       "image_import", "image_stat",     "image_remove", "disk_ensure",
    "disk_stat",  "disk_erase",  "disk_forget",  "guest_start",    "guest_stat",   "guest_deadline",
    "guest_stop", "guest_clean", "guest_log",    "keys_set",       "notice",       "report",
    "ports_set",  "meter",       "list",         "instance_forget"};

static utime_t now(void)
{
    return clock_system()->boot_ms(clock_system());
}

/* The test's own fetch: the image is there at once, or not at all. */
enum err fetch_image(const struct node_config *c, const char *source, const char *digest,
                     const char *name, char ret_digest[PRIV_DIGEST_SIZE], struct refusal *why)
{
    char path[500];

    if (strstr(source, "missing") != NULL)
        return refusef(why, ERR_IMAGE_NOT_FOUND, "name", "%s", source);
    if (!str_printf(path, sizeof(path), "%s/%s", c->paths.staging, name) || mkdir(path, 0700) != 0)
        return refusef(why, ERR_SYSTEM, "call", "mkdir");
    (void)str_printf(ret_digest, PRIV_DIGEST_SIZE, "%s",
                     digest[0] != '\0' ? digest : "sha256:" RESOLVED);
    return ERR_OK;
}

static void say(const char *what, const char *id, const char *extra)
{
    printf("{\"op\":\"%s\",\"id\":\"%s\",\"boot_ms\":%" PRId64 "%s}\n", what, id, now(), extra);
    fflush(stdout);
}

static struct guest *guest_find(const char *lease)
{
    for (size_t i = 0; i < guest_count; i++)
        if (strcmp(guests[i].lease.s, lease) == 0)
            return &guests[i];
    return NULL;
}

static struct disk *disk_find(const char *disk)
{
    for (size_t i = 0; i < disk_count; i++)
        if (strcmp(disks[i].disk.s, disk) == 0)
            return &disks[i];
    return NULL;
}

static void agent_spawn(void)
{
    int sv[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) != 0)
        exit(1);
    agent = fork();
    if (agent == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(sv[0]);
        _exit(agent_main(&cfg, sv[1]));
    }
    close(sv[1]);
    priv_fd = sv[0];
    say("agent_up", "", "");
}

static void agent_kill(void)
{
    if (agent <= 0)
        return;
    kill(agent, SIGKILL);
    waitpid(agent, NULL, 0);
    agent = 0;
    close(priv_fd);
    priv_fd = -1;
    say("agent_killed", "", "");
}

/* Nobody asked it to. */
static void agent_died(void)
{
    int status = 0;
    char extra[48];

    waitpid(agent, &status, 0);
    agent = 0;
    close(priv_fd);
    priv_fd = -1;
    (void)str_printf(extra, sizeof(extra), ",\"status\":%d", status);
    say("agent_died", "", extra);
}

static void attach(const struct guest *g, uint32_t state)
{
    struct disk *d = disk_find(g->spec.system_disk.s);

    if (d != NULL)
        d->state = state;
    for (uint32_t i = 0; i < g->spec.data_count; i++)
        if ((d = disk_find(g->spec.data[i].disk.s)) != NULL)
            d->state = state;
}

static void guest_end(struct guest *g, int code, bool deadline)
{
    char extra[64];

    g->state = GUEST_ENDED;
    g->ended = now();
    g->exit_code = code;
    g->killed_at_deadline = deadline;
    (void)str_printf(extra, sizeof(extra), ",\"code\":%d,\"deadline\":%d", code, deadline);
    say("ended", g->lease.s, extra);
}

/* What guards do by themselves. */
static void guests_live(void)
{
    for (size_t i = 0; i < guest_count; i++) {
        struct guest *g = &guests[i];
        utime_t t = now();

        if (g->state != GUEST_PREPARING && g->state != GUEST_RUNNING)
            continue;
        if (g->state == GUEST_PREPARING && t >= g->started + slow_ms) {
            g->state = GUEST_RUNNING;
            g->ready = t;
            say("ready", g->lease.s, "");
        }
        if (g->deadline.hard_end_boot_ms > 0 && t + EXTEND_MS >= g->deadline.hard_end_boot_ms)
            guest_end(g, 137, true);
        else if (g->stopping && t >= g->kill_at)
            guest_end(g, 137, false);
    }
    for (size_t i = 0; i < disk_count; i++)
        if (disks[i].state == DISK_ERASING && now() >= disks[i].until)
            disks[i].state = DISK_ERASED;
}

static void guest_start(const struct priv_req *q, struct priv_rep *r)
{
    struct guest *g = guest_find(q->lease.s);
    struct disk *d = disk_find(q->guest.system_disk.s);
    char extra[200];

    if (g != NULL)
        return;
    if (d == NULL || d->state != DISK_READY) {
        say("START_WITHOUT_DISK", q->lease.s, "");
        r->error = ERR_DISK_SETUP;
        return;
    }
    g = &guests[guest_count++];
    memset(g, 0, sizeof(*g));
    g->lease = q->lease;
    g->spec = q->guest;
    g->deadline = (struct priv_deadline){q->guest.epoch, q->guest.soft_end_boot_ms,
                                         q->guest.hard_end_boot_ms, 0};
    g->state = GUEST_PREPARING;
    g->started = now();
    attach(g, DISK_ATTACHED);
    (void)str_printf(extra, sizeof(extra), ",\"hard\":%" PRId64 ",\"address\":%u",
                     q->guest.hard_end_boot_ms, q->guest.address);
    say("started", q->lease.s, extra);
}

static void guest_stat(const struct priv_req *q, struct priv_rep *r)
{
    const struct guest *g = guest_find(q->lease.s);

    if (g == NULL)
        return;
    r->guest.state = g->state;
    r->guest.epoch = g->deadline.epoch;
    r->guest.pid = 1;
    r->guest.guard_alive = g->state != GUEST_ENDED;
    r->guest.killed_at_deadline = g->killed_at_deadline;
    r->guest.exit_code = g->exit_code;
    r->guest.started_boot_ms = g->started;
    r->guest.ready_boot_ms = g->ready;
    r->guest.ended_boot_ms = g->ended;
    r->guest.deadline = g->deadline;
    (void)str_copy(r->guest.host_key, sizeof(r->guest.host_key), "ssh-ed25519 AAAAfake");
}

static void guest_stop(const struct priv_req *q, struct priv_rep *r)
{
    struct guest *g = guest_find(q->lease.s);
    char extra[64];

    if (g == NULL) {
        r->error = ERR_NOT_FOUND;
        return;
    }
    utime_t at = now() + MIN(q->deadline.grace_ms, (int64_t)20);
    g->kill_at = g->stopping ? MIN(g->kill_at, at) : at;
    g->stopping = true;
    (void)str_printf(extra, sizeof(extra), ",\"grace\":%" PRId64, q->deadline.grace_ms);
    say("stop", q->lease.s, extra);
}

static void guest_clean(const struct priv_req *q, struct priv_rep *r)
{
    struct guest *g = guest_find(q->lease.s);

    if (g == NULL)
        return;
    if (g->state != GUEST_ENDED) {
        r->error = ERR_STATE;
        return;
    }
    attach(g, DISK_READY);
    *g = guests[--guest_count];
    say("cleaned", q->lease.s, "");
}

static void guest_tell(const struct priv_req *q, struct priv_rep *r)
{
    struct guest *g = guest_find(q->lease.s);
    char extra[96];

    if (g == NULL) {
        r->error = ERR_NOT_FOUND;
        return;
    }
    if (q->op == PRIV_GUEST_DEADLINE) {
        g->deadline = q->deadline;
        (void)str_printf(extra, sizeof(extra), ",\"hard\":%" PRId64, q->deadline.hard_end_boot_ms);
        say("deadline", q->lease.s, extra);
    } else if (q->op == PRIV_METER) {
        utime_t up = g->ready > 0 ? (g->ended > 0 ? g->ended : now()) - g->ready : 0;

        r->meter.cpu_us = up * cpu_permille;
        r->meter.rx_bytes = up;
        r->meter.tx_bytes = up;
        r->meter.memory_bytes = 1 << 20;
        r->meter.memory_peak_bytes = 300 << 20;
    } else if (q->op == PRIV_GUEST_LOG) {
        size_t len = strlen(log_text);

        r->log.next = len;
        r->text_len = q->log.from < len ? (uint32_t)(len - q->log.from) : 0;
        memcpy(r->text, log_text + len - r->text_len, r->text_len);
    } else if (q->op == PRIV_KEYS_SET || q->op == PRIV_NOTICE || q->op == PRIV_REPORT) {
        say(op_names[q->op], q->lease.s, "");
    }
}

static void disk_op(const struct priv_req *q, struct priv_rep *r)
{
    struct disk *d = disk_find(q->lease.s);

    if (d == NULL && q->op == PRIV_DISK_ENSURE) {
        d = &disks[disk_count++];
        *d = (struct disk){.disk = q->lease, .state = DISK_READY};
        say("disk_made", q->lease.s, "");
    }
    if (d == NULL)
        return;
    if (q->op == PRIV_DISK_ENSURE)
        d->size_mib = q->disk.size_mib > d->size_mib ? q->disk.size_mib : d->size_mib;
    if (q->op == PRIV_DISK_ERASE) {
        if (d->state == DISK_ATTACHED) {
            r->error = ERR_DISK_IN_USE;
            return;
        }
        d->state = DISK_ERASING;
        d->until = now() + 50;
        say("erase", q->lease.s, "");
    }
    if (q->op == PRIV_DISK_FORGET) {
        *d = disks[--disk_count];
        say("disk_forgotten", q->lease.s, "");
        return;
    }
    r->disk.state = d->state;
    r->disk.size_mib = d->size_mib;
    r->disk.used_mib = used_mib;
    r->disk.erased_bytes = d->state == DISK_ERASED ? 4096 : 0;
}

static void image_op(const struct priv_req *q, struct priv_rep *r)
{
    bool there = false;

    for (size_t i = 0; i < image_count; i++)
        there = there || strcmp(images[i], q->image.digest) == 0;
    if (q->op == PRIV_IMAGE_IMPORT && !there) {
        (void)str_copy(images[image_count++], PRIV_DIGEST_SIZE, q->image.digest);
        say("image_imported", q->image.digest, "");
    }
    r->image.state = there ? IMAGE_READY : IMAGE_NONE;
    r->image.bytes = there ? 1000 : 0;
}

static void list_op(struct priv_rep *r)
{
    for (size_t i = 0; i < guest_count; i++)
        r->list.leases[r->list.lease_count++] = guests[i].lease;
}

static void hello_op(struct priv_rep *r)
{
    (void)str_copy(r->hello.runtime, sizeof(r->hello.runtime), "fake");
    (void)str_copy(r->hello.cgroup, sizeof(r->hello.cgroup), "v2");
    r->hello.pool_mib = 100000;
    r->hello.pool_free_mib = 90000;
    r->hello.online_grow = 1;
    r->hello.net_base = 10U << 24;
    r->hello.net_bits = 16;
}

static void answer(const struct priv_req *q, struct priv_rep *r)
{
    if (fails.times > 0 && fails.op == q->op) {
        fails.times--;
        r->error = ERR_RUNTIME;
        (void)refusef(&r->why, ERR_RUNTIME, "why", "planted");
        say("failed", q->lease.s, "");
        return;
    }
    if (q->op == PRIV_HELLO)
        hello_op(r);
    else if (q->op == PRIV_GUEST_START)
        guest_start(q, r);
    else if (q->op == PRIV_GUEST_STAT)
        guest_stat(q, r);
    else if (q->op == PRIV_GUEST_STOP)
        guest_stop(q, r);
    else if (q->op == PRIV_GUEST_CLEAN)
        guest_clean(q, r);
    else if (q->op >= PRIV_DISK_ENSURE && q->op <= PRIV_DISK_FORGET)
        disk_op(q, r);
    else if (q->op >= PRIV_IMAGE_IMPORT && q->op <= PRIV_IMAGE_REMOVE)
        image_op(q, r);
    else if (q->op == PRIV_LIST)
        list_op(r);
    else if (q->op == PRIV_INSTANCE_FORGET)
        say("instance_forget", q->lease.s, "");
    else
        guest_tell(q, r);
}

static void serve(void)
{
    static struct priv_req q;
    static struct priv_rep r;
    ssize_t n = recv(priv_fd, &q, sizeof(q), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        agent_died();
        return;
    }
    if (kill_at >= 0 && kill_at-- == 0) {
        agent_kill();
        return;
    }
    memset(&r, 0, sizeof(r));
    r.version = PRIV_VERSION;
    r.op = q.op;
    r.serial = q.serial;
    if (q.version != PRIV_VERSION || q.op >= ARRAY_LEN(op_names))
        r.error = ERR_PROTOCOL;
    else
        answer(&q, &r);
    if (kill_after >= 0 && kill_after-- == 0) {
        agent_kill();
        return;
    }
    if (send(priv_fd, &r, sizeof(r), MSG_NOSIGNAL) < 0)
        agent_kill();
}

static uint32_t op_find(const char *name)
{
    for (uint32_t i = 0; i < ARRAY_LEN(op_names); i++)
        if (strcmp(op_names[i], name) == 0)
            return i;
    return 0;
}

static void command(char *line)
{
    char word[32] = "", a[64] = "", b[64] = "";

    (void)sscanf(line, "%31s %63s %63s", word, a, b);
    struct guest *g = guest_find(a);
    if (strcmp(word, "kill") == 0)
        agent_kill();
    else if (strcmp(word, "down") == 0 || strcmp(word, "up") == 0)
        down = word[0] == 'd';
    else if (strcmp(word, "killat") == 0)
        kill_at = strtol(a, NULL, 10);
    else if (strcmp(word, "killafter") == 0)
        kill_after = strtol(a, NULL, 10);
    else if (strcmp(word, "slow") == 0)
        slow_ms = strtol(a, NULL, 10);
    else if (strcmp(word, "cpu") == 0)
        cpu_permille = strtol(a, NULL, 10);
    else if (strcmp(word, "used") == 0)
        used_mib = strtol(a, NULL, 10);
    else if (strcmp(word, "log") == 0)
        (void)str_copy(log_text, sizeof(log_text), a);
    else if (strcmp(word, "exit") == 0 && g != NULL)
        guest_end(g, (int)strtol(b, NULL, 10), false);
    else if (strcmp(word, "guard") == 0 && g != NULL)
        guest_end(g, -1, false);
    else if (strcmp(word, "fail") == 0)
        fails.op = op_find(a), fails.times = (int)strtol(b, NULL, 10);
    else if (strcmp(word, "plant") == 0) {
        g = &guests[guest_count++];
        memset(g, 0, sizeof(*g));
        (void)str_copy(g->lease.s, ID_SIZE, a);
        g->state = GUEST_RUNNING;
        g->started = g->ready = now();
        g->deadline.hard_end_boot_ms = UTIME_NEVER;
        g->deadline.epoch = 1;
    }
    if (strcmp(word, "down") == 0)
        agent_kill();
    say("did", word, "");
}

static bool commands_read(void)
{
    static char buf[4096];
    static size_t len;
    ssize_t n = read(0, buf + len, sizeof(buf) - len - 1);
    char *end;

    if (n <= 0)
        return false;
    len += (size_t)n;
    buf[len] = '\0';
    while ((end = strchr(buf, '\n')) != NULL) {
        *end = '\0';
        if (strcmp(buf, "quit") == 0)
            return false;
        command(buf);
        len -= (size_t)(end + 1 - buf);
        memmove(buf, end + 1, len + 1);
    }
    return true;
}

int main(int argc, char **argv)
{
    struct refusal why;
    char text[256];

    if (argc != 2 || config_load(argv[1], &cfg, &why) != ERR_OK) {
        refusal_text(&why, LANG_EN, text, sizeof(text));
        fprintf(stderr, "fake_node: %s\n", argc == 2 ? text : "CONFIG is needed");
        return 2;
    }
    for (;;) {
        struct pollfd p[2] = {{.fd = 0, .events = POLLIN}, {.fd = priv_fd, .events = POLLIN}};

        if (agent == 0 && !down) {
            agent_spawn();
            continue;
        }
        (void)poll(p, 2, 5);
        guests_live();
        if (p[0].revents != 0 && !commands_read())
            break;
        if (priv_fd >= 0 && p[1].revents != 0)
            serve();
    }
    agent_kill();
    return 0;
}
