/* What exists here and belongs to no known lease (S8): reported, never removed from here. */
#include <dirent.h>
#include <linux/netlink.h>
#include <stdio.h>

#include "node/firewall.h"
#include "node/loop.h"
#include "node/network.h"
#include "node/paths.h"
#include "node/sys.h"

struct stray_scan {
    const struct node_paths *p; /* borrowed */
    const struct id *leases;    /* borrowed */
    size_t count;
    struct priv_rep *rep;
    uint32_t ports[PRIV_LIST_MAX]; /* addresses with a port in the node namespace */
    size_t port_count;
};

static bool known(const struct stray_scan *s, const char *lease, size_t len)
{
    for (size_t i = 0; i < s->count; i++)
        if (strlen(s->leases[i].s) == len && memcmp(s->leases[i].s, lease, len) == 0)
            return true;
    return false;
}

static void add(struct stray_scan *s, const char *kind, const char *name)
{
    uint32_t *n = &s->rep->list.stray_count;

    /* A long path keeps its end, which tells more. */
    size_t room = sizeof(s->rep->list.strays[0]) - strlen(kind) - 2, len = strlen(name);
    if (*n < ARRAY_LEN(s->rep->list.strays)) {
        str_printf(s->rep->list.strays[*n], sizeof(s->rep->list.strays[0]), "%s %s", kind,
                   len > room ? name + len - room : name);
        ++*n;
    }
}

/* The lease in a path FOLDER/<lease>/…; false when it is not below the folder. */
static bool below(const char *path, const char *folder, const char **ret_lease, size_t *ret_len)
{
    size_t n = strlen(folder);

    if (strncmp(path, folder, n) != 0 || path[n] != '/')
        return false;
    *ret_lease = path + n + 1;
    *ret_len = strcspn(*ret_lease, "/");
    return *ret_len > 0;
}

static void mounts_scan(struct stray_scan *s)
{
    char line[PATH_MAX + 512], at[PATH_MAX], run[PATH_MAX];
    FILE *f = fopen("/proc/self/mountinfo", "re");
    const char *lease;
    size_t len;

    if (!f)
        return;
    str_printf(run, sizeof(run), "%s/leases", s->p->run);
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "%*d %*d %*s %*s %4095s", at) == 1 &&
            (below(at, run, &lease, &len) || below(at, s->p->leases, &lease, &len)) &&
            !known(s, lease, len))
            add(s, "mount", at);
    fclose(f);
}

static void folders_scan(struct stray_scan *s, const char *folder, const char *kind)
{
    DIR *dir = opendir(folder);
    struct dirent *e;
    struct id id;

    if (!dir)
        return;
    while ((e = readdir(dir)))
        if (str_copy(id.s, sizeof(id.s), e->d_name) && paths_id_ok(id) &&
            !known(s, e->d_name, strlen(e->d_name)))
            add(s, kind, e->d_name);
    closedir(dir);
}

/* A disk's device that is mounted nowhere here has been left by a start or a guest that died. */
static void loop_scan(void *user, const char *name, const char *file)
{
    struct stray_scan *s = user;
    const char *disk;
    char line[PATH_MAX + 512], want[40], text[160];
    size_t len;
    bool mounted = false;

    if (!below(file, s->p->disks, &disk, &len) || !str_starts(disk, "dsk_"))
        return;
    FILE *f = fopen("/proc/self/mountinfo", "re");
    if (!f)
        return;
    str_printf(want, sizeof(want), " /dev/%s ", name);
    while (!mounted && fgets(line, sizeof(line), f))
        mounted = strstr(line, want);
    fclose(f);
    str_printf(text, sizeof(text), "%s %.*s", name, (int)len, disk);
    if (!mounted)
        add(s, "loop", text);
}

static void link_scan(void *user, const char *name, const char *lease)
{
    struct stray_scan *s = user;
    char text[160];
    unsigned address;

    if (sscanf(name, "g%8x", &address) != 1 || strlen(name) != 9)
        return;
    if (s->port_count < ARRAY_LEN(s->ports))
        s->ports[s->port_count++] = address;
    str_printf(text, sizeof(text), "%s %s", name, lease);
    if (!known(s, lease, strlen(lease)))
        add(s, "link", text);
}

static void element_scan(void *user, uint32_t address, const struct priv_port *port)
{
    struct stray_scan *s = user;
    char text[64];

    for (size_t i = 0; i < s->port_count; i++)
        if (s->ports[i] == address)
            return;
    str_printf(text, sizeof(text), "%s %u to %u.%u.%u.%u:%u", port->udp ? "udp" : "tcp", port->host,
               address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255, port->guest);
    add(s, "element", text);
}

void strays_list(const struct node_paths *p, const struct node_net *n, const struct id *leases,
                 size_t count, struct priv_rep *rep)
{
    struct stray_scan s = {.p = p, .leases = leases, .count = count, .rep = rep};
    char run[PATH_MAX];
    int node_ns;

    rep->list.stray_count = 0;
    mounts_scan(&s);
    folders_scan(&s, p->leases, "folder");
    str_printf(run, sizeof(run), "%s/leases", p->run);
    folders_scan(&s, run, "folder");
    loop_each(loop_scan, &s);
    if (network_open(p, &node_ns, NULL) != ERR_OK)
        return;
    AUTO_CLOSE int rt = nl_open_in(node_ns, NETLINK_ROUTE);
    fd_close_ptr(&node_ns);
    if (link_each(rt, link_scan, &s) == 0)
        firewall_each(n, element_scan, &s);
}
