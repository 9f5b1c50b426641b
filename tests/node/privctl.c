/* privctl: one message to the root helper, for tests: privctl DOOR OP [key=value ...]
 * Prints the answer as "key=value" lines; exits 0 when it is no error, 1 when it is, 2 without one.
 *
 *   hello | list | image-import digest= name= | image-stat digest= | image-remove digest=
 *   disk-ensure disk= size= | disk-stat disk= | disk-erase disk= | disk-forget disk=
 *   start lease= instance= image= host= disk= data=ID:MOUNT cpu= memory= pids= gpu= address=
 * port=G:H arg= env= epoch= soft= hard=   (data, gpu, port, arg and env may be repeated)
 *   stat|clean|meter lease= | deadline lease= epoch= soft= hard= | stop lease= epoch= grace=
 *   log lease= from= | keys|notice|report lease= text= | ports lease= port=G:H | forget instance=
 * soft, hard: milliseconds from now; "never"; "none" (0). */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "node/gpu.h"

static struct priv_req req = {.version = PRIV_VERSION, .serial = 1};
static struct priv_rep rep;

static const struct {
    const char *name;
    enum priv_op op;
} ops[] = {{"hello", PRIV_HELLO},
           {"list", PRIV_LIST},
           {"image-import", PRIV_IMAGE_IMPORT},
           {"image-stat", PRIV_IMAGE_STAT},
           {"image-remove", PRIV_IMAGE_REMOVE},
           {"disk-ensure", PRIV_DISK_ENSURE},
           {"disk-stat", PRIV_DISK_STAT},
           {"disk-erase", PRIV_DISK_ERASE},
           {"disk-forget", PRIV_DISK_FORGET},
           {"start", PRIV_GUEST_START},
           {"stat", PRIV_GUEST_STAT},
           {"deadline", PRIV_GUEST_DEADLINE},
           {"stop", PRIV_GUEST_STOP},
           {"clean", PRIV_GUEST_CLEAN},
           {"log", PRIV_GUEST_LOG},
           {"keys", PRIV_KEYS_SET},
           {"notice", PRIV_NOTICE},
           {"report", PRIV_REPORT},
           {"ports", PRIV_PORTS_SET},
           {"meter", PRIV_METER},
           {"forget", PRIV_INSTANCE_FORGET}};

static int64_t number(const char *s)
{
    return strtoll(s, NULL, 10);
}

static utime_t moment(const char *s)
{
    struct timespec ts;

    if (str_eq(s, "none"))
        return 0;
    if (str_eq(s, "never"))
        return UTIME_NEVER;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (utime_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + number(s);
}

static void list_add(char *list, size_t size, const char *text)
{
    size_t at = 0;

    while (list[at])
        at += strlen(list + at) + 1;
    CHECK(at + strlen(text) + 2 <= size);
    memcpy(list + at, text, strlen(text) + 1);
}

static void id_set(struct id *id, const char *text)
{
    snprintf(id->s, sizeof(id->s), "%s", text);
}

static void port_add(const char *text)
{
    char *rest;
    struct priv_port *p = &req.guest.ports[req.guest.port_count++];

    p->guest = (uint16_t)strtol(text, &rest, 10);
    p->host = (uint16_t)(*rest == ':' ? strtol(rest + 1, NULL, 10) : 0);
}

static void guest_field(const char *k, const char *v)
{
    struct priv_guest *g = &req.guest;

    if (str_eq(k, "instance"))
        id_set(&g->instance, v);
    else if (str_eq(k, "image"))
        snprintf(g->image, sizeof(g->image), "%s", v);
    else if (str_eq(k, "host"))
        snprintf(g->hostname, sizeof(g->hostname), "%s", v);
    else if (str_eq(k, "disk"))
        id_set(&g->system_disk, v);
    else if (str_eq(k, "data")) {
        const char *colon = strchr(v, ':');
        snprintf(g->data[g->data_count].disk.s, ID_SIZE, "%.*s", (int)(colon - v), v);
        snprintf(g->data[g->data_count++].mount, 64, "%s", colon + 1);
    } else if (str_eq(k, "cpu"))
        g->cpu_milli = (int32_t)number(v);
    else if (str_eq(k, "memory"))
        g->memory_mib = number(v);
    else if (str_eq(k, "pids"))
        g->pids_max = (int32_t)number(v);
    else if (str_eq(k, "gpu"))
        snprintf(g->gpus[g->gpu_count++], GPU_UUID_SIZE, "%s", v);
    else if (str_eq(k, "address"))
        g->address = ntohl(inet_addr(v));
    else if (str_eq(k, "port"))
        port_add(v);
    else if (str_eq(k, "arg"))
        list_add(g->argv, sizeof(g->argv), v);
    else if (str_eq(k, "env"))
        list_add(g->env, sizeof(g->env), v);
    else if (str_eq(k, "epoch"))
        g->epoch = number(v);
    else if (str_eq(k, "soft"))
        g->soft_end_boot_ms = moment(v);
    else if (str_eq(k, "hard"))
        g->hard_end_boot_ms = moment(v);
}

static void field(const char *k, const char *v)
{
    if (str_eq(k, "lease") || (str_eq(k, "disk") && req.op != PRIV_GUEST_START) ||
        (str_eq(k, "instance") && req.op == PRIV_INSTANCE_FORGET))
        id_set(&req.lease, v);
    else if (req.op == PRIV_GUEST_START || req.op == PRIV_PORTS_SET)
        guest_field(k, v);
    else if (str_eq(k, "digest"))
        snprintf(req.image.digest, sizeof(req.image.digest), "%s", v);
    else if (str_eq(k, "name"))
        snprintf(req.image.name, sizeof(req.image.name), "%s", v);
    else if (str_eq(k, "size"))
        req.disk.size_mib = number(v);
    else if (str_eq(k, "from"))
        req.log.from = (uint64_t)number(v);
    else if (str_eq(k, "epoch"))
        req.deadline.epoch = number(v);
    else if (str_eq(k, "soft"))
        req.deadline.soft_end_boot_ms = moment(v);
    else if (str_eq(k, "hard"))
        req.deadline.hard_end_boot_ms = moment(v);
    else if (str_eq(k, "grace"))
        req.deadline.grace_ms = number(v);
    else if (str_eq(k, "text"))
        req.text_len = (uint32_t)snprintf(req.text, sizeof(req.text), "%s", v);
}

static void guest_print(void)
{
    static const char *const states[] = {"none", "preparing", "running", "ended"};

    printf("state=%s\nstep=%u\nepoch=%lld\npid=%d\nguard_alive=%d\noom=%d\nkilled_at_deadline=%d\n"
           "exit_code=%d\nstarted=%lld\nready=%lld\nended=%lld\nsoft=%lld\nhard=%lld\nfail=%s\n"
           "host_key=%s\n",
           states[rep.guest.state & 3], rep.guest.step, (long long)rep.guest.epoch, rep.guest.pid,
           rep.guest.guard_alive, rep.guest.oom, rep.guest.killed_at_deadline, rep.guest.exit_code,
           (long long)rep.guest.started_boot_ms, (long long)rep.guest.ready_boot_ms,
           (long long)rep.guest.ended_boot_ms, (long long)rep.guest.deadline.soft_end_boot_ms,
           (long long)rep.guest.deadline.hard_end_boot_ms, err_code((enum err)rep.guest.fail),
           rep.guest.host_key);
    for (int i = 0; i < GUEST_STEP_COUNT; i++)
        printf("step_us%d=%u\n", i, rep.guest.step_us[i]);
}

static void answer_print(void)
{
    char text[512];

    printf("error=%s\n", err_code((enum err)rep.error));
    if (rep.why.code) {
        refusal_text(&rep.why, LANG_EN, text, sizeof(text));
        printf("why=%s\n", text);
    }
    if (req.op == PRIV_HELLO)
        printf("runtime=%s\ncgroup=%s\nssh=%s\npool=%lld\n", rep.hello.runtime, rep.hello.cgroup,
               rep.hello.ssh_server, (long long)rep.hello.pool_mib);
    else if (req.op == PRIV_GUEST_STAT)
        guest_print();
    else if (req.op == PRIV_IMAGE_STAT)
        printf("state=%u\nbytes=%lld\nfail=%s\n", rep.image.state, (long long)rep.image.bytes,
               err_code((enum err)rep.image.fail));
    else if (req.op == PRIV_DISK_STAT)
        printf("state=%u\nsize=%lld\nused=%lld\n", rep.disk.state, (long long)rep.disk.size_mib,
               (long long)rep.disk.used_mib);
    else if (req.op == PRIV_METER)
        printf("cpu_us=%lld\nmemory=%lld\npids=%lld\noom_kills=%lld\nrx=%lld\ntx=%lld\n",
               (long long)rep.meter.cpu_us, (long long)rep.meter.memory_bytes,
               (long long)rep.meter.pids, (long long)rep.meter.oom_kills,
               (long long)rep.meter.rx_bytes, (long long)rep.meter.tx_bytes);
    else if (req.op == PRIV_GUEST_LOG)
        printf("next=%llu\n---\n%.*s", (unsigned long long)rep.log.next, (int)rep.text_len,
               rep.text);
    else if (req.op == PRIV_LIST) {
        for (uint32_t i = 0; i < rep.list.lease_count; i++)
            printf("lease=%s\n", rep.list.leases[i].s);
        for (uint32_t i = 0; i < rep.list.disk_count; i++)
            printf("disk=%s\n", rep.list.disks[i].s);
        for (uint32_t i = 0; i < rep.list.stray_count; i++)
            printf("stray=%s\n", rep.list.strays[i]);
    }
}

/* The UUIDs of simulated cards: privctl --cards SPEC SEED */
static int cards_print(const char *spec, const char *seed)
{
    static struct gpu_list list;
    struct gpu *g;

    if (gpu_open(spec, seed, "", &g, NULL) != ERR_OK || gpu_read(g, &list, NULL) != ERR_OK)
        return 1;
    for (size_t i = 0; i < list.count; i++)
        printf("%s\n", list.at[i].uuid);
    gpu_close(g);
    return 0;
}

int main(int argc, char **argv)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int size = 1 << 18, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (argc == 4 && str_eq(argv[1], "--cards"))
        return cards_print(argv[2], argv[3]);
    if (argc < 3 || !str_copy(a.sun_path, sizeof(a.sun_path), argv[1]))
        return 2;
    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        req.op = str_eq(ops[i].name, argv[2]) ? (uint32_t)ops[i].op : req.op;
    for (int i = 3; i < argc; i++) {
        char *eq = strchr(argv[i], '=');
        if (!eq)
            return 2;
        *eq = '\0';
        field(argv[i], eq + 1);
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
        send(fd, &req, sizeof(req), 0) != (ssize_t)sizeof(req) ||
        recv(fd, &rep, sizeof(rep), 0) != (ssize_t)sizeof(rep))
        return 2;
    answer_print();
    return rep.error == ERR_OK ? 0 : 1;
}
