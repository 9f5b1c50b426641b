/* drv: the node's drivers from the command line, for the tests beside it: drv [STATE] CALL ARGS…
 * Prints "ok key=value …" or "CODE key=value …" (the refusal); the exit status is 0 for both, so
 * that a crash is never taken for a refusal. Each call is a process of its own, as after a restart.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "node/disk.h"
#include "node/drivers.h"
#include "node/fetch.h"
#include "node/image.h"
#include "node/paths.h"

static struct node_paths paths;

static void say(enum err e, const struct refusal *why, const char *text)
{
    printf("%s", err_code(e));
    for (size_t i = 0; e != ERR_OK && i < why->param_count; i++)
        printf(" %s=%s", why->params[i].key, why->params[i].value);
    printf("%s%s\n", *text ? " " : "", text);
}

static struct id id_of(const char *s)
{
    struct id id = {0};

    CHECK(str_copy(id.s, sizeof(id.s), s));
    return id;
}

static int64_t number(const char *s)
{
    int64_t v;

    CHECK(str_parse_i64(s, INT64_MIN, INT64_MAX, &v) == ERR_OK);
    return v;
}

static enum err call_userns(int argc, char **argv, char *text, size_t size, struct refusal *why)
{
    uint32_t base;

    if (str_eq(argv[0], "range-give") && argc == 2) {
        userns_range_give(&paths, id_of(argv[1]));
        return ERR_OK;
    }
    CHECK(str_eq(argv[0], "range-take") && argc == 2);
    TRY(userns_range_take(&paths, id_of(argv[1]), &base, why));
    str_printf(text, size, "base=%u", base);
    return ERR_OK;
}

static enum err disk_facts(struct id disk, char *text, size_t size)
{
    static const char *const names[] = {"none", "ready", "attached", "erasing", "erased", "broken"};
    struct priv_rep rep;

    disk_stat(&paths, disk, &rep);
    str_printf(text, size,
               "state=%s size=%" PRId64 " used=%" PRId64 " inodes=%" PRId64 " inodes_used=%" PRId64
               " erased=%" PRId64 " ms=%" PRId64,
               names[rep.disk.state], rep.disk.size_mib, rep.disk.used_mib, rep.disk.inodes,
               rep.disk.inodes_used, rep.disk.erased_bytes, rep.disk.erase_ms);
    return ERR_OK;
}

static enum err call_disk(int argc, char **argv, char *text, size_t size, struct refusal *why)
{
    const char *verb = argv[0];

    if (str_eq(verb, "disk-grow-probe")) {
        str_printf(text, size, "online=%d", disk_online_grow());
        return ERR_OK;
    }
    if (str_eq(verb, "disk-pool")) {
        int64_t total, left;
        TRY(disk_pool(&paths, &total, &left, why));
        str_printf(text, size, "total=%" PRId64 " free=%" PRId64, total, left);
        return ERR_OK;
    }
    CHECK(argc >= 2);
    struct id disk = id_of(argv[1]);
    if (str_eq(verb, "disk-ensure") && argc == 3)
        return disk_ensure(&paths, disk, number(argv[2]), why);
    if (str_eq(verb, "disk-stat"))
        return disk_facts(disk, text, size);
    if (str_eq(verb, "disk-detach") && argc == 3)
        return disk_detach(&paths, disk, argv[2], why);
    if (str_eq(verb, "disk-erase"))
        return disk_erase(&paths, disk, why);
    if (str_eq(verb, "disk-forget"))
        return disk_forget(&paths, disk, why);
    CHECK(str_eq(verb, "disk-attach") && argc == 4);
    int fd = -1; /* kept until the process ends */
    uint32_t base;
    TRY(userns_range_take(&paths, id_of(argv[2]), &base, why));
    TRY(userns_open(base, &fd, why));
    return disk_attach(&paths, disk, id_of(argv[2]), fd, argv[3], why);
}

/* net-VERB RANGE LINK NAT …; RANGE is 10.213.0.0/16 as base and bits */
static enum err call_net(int argc, char **argv, char *text, size_t size, struct refusal *why)
{
    struct node_net n = {.base = 10u << 24 | 213u << 16,
                         .bits = 16,
                         .port_min = 20000,
                         .port_max = 20999,
                         .table = "drv_test"};
    const char *verb = argv[0];

    CHECK(argc >= 3 && str_copy(n.link, sizeof(n.link), argv[1]));
    n.nat_out = number(argv[2]) != 0;
    if (str_eq(verb, "net-init"))
        return network_init(&paths, &n, why);
    if (str_eq(verb, "net-fini")) {
        network_fini(&paths, &n);
        return ERR_OK;
    }
    CHECK(argc >= 4);
    struct id lease = id_of(argv[3]);
    if (str_eq(verb, "net-counters")) {
        int64_t rx, tx;
        TRY(network_counters(&paths, lease, &rx, &tx));
        str_printf(text, size, "rx=%" PRId64 " tx=%" PRId64, rx, tx);
        return ERR_OK;
    }
    CHECK(argc >= 5);
    uint32_t address = n.base + (uint32_t)number(argv[4]);
    if (str_eq(verb, "net-create") && argc == 6)
        return network_guest_create(&paths, &n, lease, address, argv[5], why);
    if (str_eq(verb, "net-remove") && argc == 6)
        return network_guest_remove(&paths, &n, lease, address, argv[5], why);
    CHECK(str_eq(verb, "net-ports"));
    struct priv_port ports[PRIV_PORTS_MAX] = {0};
    size_t count = 0;
    for (int i = 5; i + 2 < argc; i += 3, count++)
        ports[count] = (struct priv_port){.guest = (uint16_t)number(argv[i]),
                                          .host = (uint16_t)number(argv[i + 1]),
                                          .udp = (uint8_t)number(argv[i + 2])};
    return network_ports_set(&n, lease, address, ports, count, why);
}

/* image-VERB DIGEST …; import takes limits: bytes, entries, ms */
static enum err call_image(int argc, char **argv, char *text, size_t size, struct refusal *why)
{
    static const char *const names[] = {"none", "working", "ready", "failed"};
    const char *verb = argv[0];
    struct priv_rep rep;

    if (str_eq(verb, "image-driver")) {
        str_printf(text, size, "driver=%s", image_driver());
        return ERR_OK;
    }
    CHECK(argc >= 2);
    if (str_eq(verb, "image-import")) {
        CHECK(argc == 3 || argc == 6);
        if (argc == 6) {
            image_limits.tar.bytes_max = number(argv[3]);
            image_limits.tar.entries_max = number(argv[4]);
            image_limits.time_ms_max = number(argv[5]);
        }
        return image_import(&paths, argv[1], argv[2], why);
    }
    if (str_eq(verb, "image-stat")) {
        image_stat(&paths, argv[1], &rep);
        str_printf(text, size, "state=%s bytes=%" PRId64 " driver=%s cuda=%s", names[rep.image.state],
                   rep.image.bytes, rep.image.need_driver, rep.image.need_cuda);
        return ERR_OK;
    }
    if (str_eq(verb, "image-remove"))
        return image_remove(&paths, argv[1], why);
    if (str_eq(verb, "image-config")) {
        AUTO_FREE char *json = NULL;
        TRY(image_config(&paths, argv[1], &json, why));
        str_printf(text, size, "json=%s", json);
        return ERR_OK;
    }
    CHECK(str_eq(verb, "image-mount") && argc == 4);
    uint32_t base;
    int fd = -1; /* kept until the process ends */
    TRY(userns_range_take(&paths, id_of(argv[2]), &base, why));
    TRY(userns_open(base, &fd, why));
    return image_mount(&paths, argv[1], fd, argv[3], why);
}

/* fetch SOURCE DIGEST|- NAME PRIVATE */
static enum err call_fetch(int argc, char **argv, char *text, size_t size, struct refusal *why)
{
    struct node_config cfg = {.paths = paths};
    char digest[PRIV_DIGEST_SIZE];

    CHECK(argc == 5 && str_copy(cfg.state, sizeof(cfg.state), paths.state));
    cfg.private_registries = str_eq(argv[4], "1");
    TRY(fetch_image(&cfg, argv[1], str_eq(argv[2], "-") ? "" : argv[2], argv[3], digest, why));
    str_printf(text, size, "digest=%s", digest);
    return ERR_OK;
}

/* strays KNOWN-LEASE… */
static enum err call_strays(int argc, char **argv, char *text, size_t size)
{
    struct node_net n = {.base = 10u << 24 | 213u << 16, .bits = 16, .table = "drv_test"};
    AUTO_FREE struct priv_rep *rep = mem_alloc(sizeof(*rep));
    struct id leases[16];
    AUTO_STRBUF struct strbuf b;

    CHECK(argc <= 17);
    for (int i = 1; i < argc; i++)
        leases[i - 1] = id_of(argv[i]);
    strays_list(&paths, &n, leases, (size_t)argc - 1, rep);
    strbuf_init(&b, size);
    for (uint32_t i = 0; i < rep->list.stray_count; i++)
        strbuf_addf(&b, "%s;", rep->list.strays[i]);
    str_printf(text, size, "list=%s", strbuf_str(&b));
    return ERR_OK;
}

int main(int argc, char **argv)
{
    struct refusal why = {0};
    char text[2048] = "";

    CHECK(argc >= 3);
    enum err e = paths_init(argv[1], 0, 0, &paths, &why);
    CHECK(str_printf(paths.run, sizeof(paths.run), "%s/run", argv[1]) &&
          str_copy(paths.tag, sizeof(paths.tag), "00000000"));
    (void)!mkdir(paths.run, 0711);
    argc -= 2;
    argv += 2;
    if (e == ERR_OK && str_starts(argv[0], "range-"))
        e = call_userns(argc, argv, text, sizeof(text), &why);
    else if (e == ERR_OK && str_starts(argv[0], "disk-"))
        e = call_disk(argc, argv, text, sizeof(text), &why);
    else if (e == ERR_OK && str_starts(argv[0], "image-"))
        e = call_image(argc, argv, text, sizeof(text), &why);
    else if (e == ERR_OK && str_eq(argv[0], "fetch"))
        e = call_fetch(argc, argv, text, sizeof(text), &why);
    else if (e == ERR_OK && str_eq(argv[0], "strays"))
        e = call_strays(argc, argv, text, sizeof(text));
    else if (e == ERR_OK && str_starts(argv[0], "net-"))
        e = call_net(argc, argv, text, sizeof(text), &why);
    else
        CHECK(e != ERR_OK);
    say(e, &why, text);
    return 0;
}
