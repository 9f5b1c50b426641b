#include "node/network.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/firewall.h"
#include "node/paths.h"
#include "node/sys.h"

static enum err setup_fail(struct refusal *why, const char *step, int error)
{
    char cause[120];
    const char *text = strerrordesc_np(error);

    str_printf(cause, sizeof(cause), "%s: %s", step, text ? text : "unknown");
    return sys_refuse(why, ERR_NETWORK_SETUP, "why", cause, NULL);
}

/* Turns a driver's ERR_SYSTEM into the network's own refusal. */
static enum err setup_wrap(struct refusal *why, enum err e)
{
    char cause[REFUSAL_VALUE_MAX] = "unknown";

    if (e != ERR_SYSTEM)
        return e;
    if (why)
        refusal_text(why, LANG_EN, cause, sizeof(cause));
    return sys_refuse(why, ERR_NETWORK_SETUP, "why", cause, NULL);
}

#define NET_TRY(step, call)                                                                        \
    do {                                                                                           \
        int _error = (call);                                                                       \
        if (_error)                                                                                \
            return setup_fail(why, step, _error);                                                  \
    } while (0)

static uint32_t range_last(const struct node_net *n)
{
    return n->base | (uint32_t)((1ull << (32 - n->bits)) - 1);
}
static uint32_t bridge_address(const struct node_net *n)
{
    return n->base + 1;
}
static uint32_t host_address(const struct node_net *n)
{
    return range_last(n) - 2;
}
static uint32_t uplink_address(const struct node_net *n)
{
    return range_last(n) - 1;
}

bool network_address_ok(const struct node_net *n, uint32_t address)
{
    return n->bits >= 8 && n->bits <= 28 && address > bridge_address(n) &&
           address < host_address(n);
}

/* side: 1 the end that owns the address, 2 the other one. */
static void mac_of(uint32_t address, uint8_t side, uint8_t mac[MAC_SIZE])
{
    const uint8_t bytes[MAC_SIZE] = {(uint8_t)(side << 2 | 2), 0x53,
                                     (uint8_t)(address >> 24), (uint8_t)(address >> 16),
                                     (uint8_t)(address >> 8),  (uint8_t)address};

    memcpy(mac, bytes, MAC_SIZE);
}

static void port_name(uint32_t address, char name[IFNAMSIZ])
{
    str_printf(name, IFNAMSIZ, "g%08x", address);
}

/* Namespaces and their pins */

static bool is_ns(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 && fs.f_type == NSFS_MAGIC;
}

static void pin_path(const struct node_paths *p, char *buf, size_t size)
{
    CHECK(str_printf(buf, size, "%s/network/netns", p->run));
}

static void holder_path(const struct node_paths *p, char *buf, size_t size)
{
    CHECK(str_printf(buf, size, "%s/netns.holder", p->priv));
}

static int pin_bind(const char *ns, const char *pin)
{
    AUTO_CLOSE int fd = open(pin, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return errno;
    return mount(ns, pin, NULL, MS_BIND, NULL) == 0 ? 0 : errno;
}

static void pin_drop(const char *pin)
{
    while (is_ns(pin) && umount2(pin, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
        continue;
    unlink(pin);
}

enum err network_open(const struct node_paths *p, int *ret_fd, struct refusal *why)
{
    char pin[PATH_MAX];

    pin_path(p, pin, sizeof(pin));
    AUTO_CLOSE int fd = is_ns(pin) ? open(pin, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return setup_fail(why, "the node's namespace", ENOENT);
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

/* Field 22 of /proc/PID/stat; with the pid it names one process for ever (of this boot). 0 when it
 * does not live. */
static int64_t process_start(int pid)
{
    char path[40], text[1024], state = 'Z';
    long long start = 0;

    str_printf(path, sizeof(path), "/proc/%d/stat", pid);
    if (sys_read_small(path, text, sizeof(text)) <= 0)
        return 0;
    char *p = strrchr(text, ')');
    if (!p || sscanf(p + 1,
                     " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                     "%*d %*d %lld",
                     &state, &start) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : start;
}

/* The living holder of an earlier run; 0 when there is none. */
static int holder_find(const struct node_paths *p)
{
    char path[PATH_MAX], text[64];
    long long start;
    int pid;

    holder_path(p, path, sizeof(path));
    if (sys_read_small(path, text, sizeof(text)) <= 0 ||
        sscanf(text, "%d %lld", &pid, &start) != 2 || pid < 2 || start <= 0 ||
        process_start(pid) != start)
        return 0;
    return pid;
}

static _Noreturn void holder_run(int ready, int ns_fd)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    prctl(PR_SET_NAME, "node-netns");
    bool ok = ns_fd >= 0 ? setns(ns_fd, CLONE_NEWNET) == 0 : unshare(CLONE_NEWNET) == 0;
    int pid = ok && chdir("/") == 0 ? getpid() : 0;
    (void)!write(ready, &pid, sizeof(pid));
    close_range(0, ~0U, 0);
    for (;;)
        pause();
}

/* A process that does nothing but keep the namespace: nobody's child, without any descriptor. */
static enum err holder_start(const struct node_paths *p, int ns_fd, int *ret_pid,
                             struct refusal *why)
{
    char path[PATH_MAX], text[64];
    int ready[2], pid = 0;

    if (pipe2(ready, O_CLOEXEC) != 0)
        return sys_fail(why, "pipe");
    pid_t middle = fork();
    if (middle == 0) {
        if (fork() == 0)
            holder_run(ready[1], ns_fd);
        _exit(0);
    }
    close(ready[1]);
    if (middle > 0)
        waitpid(middle, NULL, 0);
    bool ok = read(ready[0], &pid, sizeof(pid)) == (ssize_t)sizeof(pid) && pid > 0;
    close(ready[0]);
    if (!ok)
        return setup_fail(why, "the node's namespace", EPERM);
    holder_path(p, path, sizeof(path));
    str_printf(text, sizeof(text), "%d %" PRId64 "\n", pid, process_start(pid));
    TRY(sys_write_durable(path, text, strlen(text), 0600, why));
    *ret_pid = pid;
    return ERR_OK;
}

/* Adopts the namespace that lives, by its pin or by its holder, or makes one. */
static enum err node_ns_ensure(const struct node_paths *p, struct refusal *why)
{
    char pin[PATH_MAX], ns[64];
    AUTO_CLOSE int fd = -1;
    int holder = holder_find(p);

    CHECK(str_printf(pin, sizeof(pin), "%s/network", p->run));
    TRY(sys_dir_ensure(pin, 0700, 0, 0, why));
    pin_path(p, pin, sizeof(pin));
    if (is_ns(pin) && holder)
        return ERR_OK;
    if (is_ns(pin))
        fd = open(pin, O_RDONLY | O_CLOEXEC);
    if (!holder)
        TRY(holder_start(p, fd, &holder, why));
    if (is_ns(pin))
        return ERR_OK;
    str_printf(ns, sizeof(ns), "/proc/%d/ns/net", holder);
    NET_TRY("pin of the node's namespace", pin_bind(ns, pin));
    return ERR_OK;
}

static void netns_enter(int fd)
{
    CHECK(setns(fd, CLONE_NEWNET) == 0);
}

/* Settings of the namespace we are in; what a kernel lacks is left out. */
static void settings_apply(const char *const (*rows)[2], size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)!sys_write_text(rows[i][0], rows[i][1], NULL);
}

/* The node's namespace */

static enum err uplink_ensure(const struct node_net *n, int node_ns, int host_rt, int node_rt,
                              struct refusal *why)
{
    uint8_t here[MAC_SIZE], there[MAC_SIZE];
    int host = 0, node = 0;

    mac_of(host_address(n), 1, here);
    mac_of(uplink_address(n), 1, there);
    bool have_host = link_index(host_rt, n->link, &host) == 0;
    bool have_node = link_index(node_rt, NETWORK_UPLINK, &node) == 0;
    if (have_host && !have_node)
        return setup_fail(why, "the link's name belongs to something else", EEXIST);
    if (have_node && !have_host)
        NET_TRY("old uplink", link_remove(node_rt, node));
    if (!have_host) {
        NET_TRY("uplink", link_add_veth(host_rt, n->link, here, NETWORK_UPLINK, there, node_ns));
        NET_TRY("uplink", link_index(host_rt, n->link, &host));
        NET_TRY("uplink", link_index(node_rt, NETWORK_UPLINK, &node));
    }
    NET_TRY("address of the link", addr_add(host_rt, host, host_address(n), 30));
    NET_TRY("link", link_up(host_rt, host));
    NET_TRY("address of the uplink", addr_add(node_rt, node, uplink_address(n), 30));
    NET_TRY("uplink", link_up(node_rt, node));
    NET_TRY("neighbour", neigh_set(host_rt, host, uplink_address(n), there));
    NET_TRY("neighbour", neigh_set(node_rt, node, host_address(n), here));
    NET_TRY("route to the instances",
            route_add(host_rt, host, n->base, (uint8_t)n->bits, uplink_address(n)));
    NET_TRY("route out", route_add(node_rt, node, 0, 0, host_address(n)));
    return ERR_OK;
}

static enum err bridge_ensure(const struct node_net *n, int node_rt, struct refusal *why)
{
    uint8_t mac[MAC_SIZE];
    int index;

    mac_of(bridge_address(n), 1, mac);
    int error = link_add_bridge(node_rt, NETWORK_BRIDGE, mac);
    if (error && error != EEXIST)
        return setup_fail(why, "bridge", error);
    NET_TRY("bridge", link_index(node_rt, NETWORK_BRIDGE, &index));
    NET_TRY("address of the bridge", addr_add(node_rt, index, bridge_address(n), (uint8_t)n->bits));
    NET_TRY("bridge", link_up(node_rt, index));
    NET_TRY("loopback", link_up(node_rt, 1));
    return ERR_OK;
}

static enum err host_settings(const struct node_net *n, struct refusal *why)
{
    char path[96];

    str_printf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/route_localnet", n->link);
    TRY(sys_write_text(path, "1", why));
    str_printf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", n->link);
    (void)!sys_write_text(path, "1", NULL);
    return n->nat_out ? sys_write_text("/proc/sys/net/ipv4/ip_forward", "1", why) : ERR_OK;
}

static bool net_ok(const struct node_net *n)
{
    size_t link = strnlen(n->link, sizeof(n->link)), table = strnlen(n->table, sizeof(n->table));
    const char *letters = "abcdefghijklmnopqrstuvwxyz0123456789_-";

    return network_address_ok(n, n->base + 2) && (n->base & (range_last(n) - n->base)) == 0 &&
           link > 0 && link < IFNAMSIZ && strspn(n->link, letters) == link && table > 0 &&
           table < sizeof(n->table) && strspn(n->table, letters) == table;
}

enum err network_init(const struct node_paths *p, const struct node_net *n, struct refusal *why)
{
    static const char *const rows[][2] = {
        {"/proc/sys/net/ipv4/ip_forward", "1"},
        {"/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"},
        {"/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"},
        {"/proc/sys/net/bridge/bridge-nf-call-iptables", "0"},
    };
    AUTO_CLOSE int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int ns = -1;

    sys_clear(why);
    if (!net_ok(n))
        return refusef(why, ERR_VALIDATION, "field", "network range or names");
    if (home < 0)
        return sys_fail(why, "/proc/self/ns/net");
    TRY(setup_wrap(why, node_ns_ensure(p, why)));
    TRY(network_open(p, &ns, why));
    netns_enter(ns);
    settings_apply(rows, ARRAY_LEN(rows));
    netns_enter(home);
    AUTO_CLOSE int host_rt = nl_open(NETLINK_ROUTE);
    AUTO_CLOSE int node_rt = nl_open_in(ns, NETLINK_ROUTE);
    TRY(bridge_ensure(n, node_rt, why));
    TRY(uplink_ensure(n, ns, host_rt, node_rt, why));
    /* Rules before the switches that would let traffic through without them. */
    TRY(setup_wrap(why, firewall_init(n, ns, host_address(n), why)));
    return setup_wrap(why, host_settings(n, why));
}

/* Guests */

static enum err guest_ns_make(const char *pin, struct refusal *why)
{
    /* The namespace belongs to the machine, so its guest can change nothing of it and could not
     * bind low ports nor ping without these. */
    static const char *const rows[][2] = {
        {"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
        {"/proc/sys/net/ipv4/ping_group_range", "0 2147483647"},
        {"/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"},
        {"/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"},
    };
    AUTO_CLOSE int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    if (home < 0 || unshare(CLONE_NEWNET) != 0)
        return setup_fail(why, "network namespace", errno);
    settings_apply(rows, ARRAY_LEN(rows));
    int error = pin_bind("/proc/self/ns/net", pin);
    netns_enter(home);
    return error ? setup_fail(why, "pin of the network namespace", error) : ERR_OK;
}

static enum err guest_inside(const struct node_net *n, uint32_t address, int guest_ns,
                             struct refusal *why)
{
    uint8_t gateway[MAC_SIZE];
    AUTO_CLOSE int rt = nl_open_in(guest_ns, NETLINK_ROUTE);
    int index;

    mac_of(bridge_address(n), 1, gateway);
    NET_TRY("loopback of the instance", link_up(rt, 1));
    NET_TRY("eth0", link_index(rt, "eth0", &index));
    NET_TRY("address of the instance", addr_add(rt, index, address, 32));
    NET_TRY("eth0", link_up(rt, index));
    NET_TRY("neighbour", neigh_set(rt, index, bridge_address(n), gateway));
    NET_TRY("route", route_add(rt, index, bridge_address(n), 32, 0));
    NET_TRY("route", route_add(rt, index, 0, 0, bridge_address(n)));
    return ERR_OK;
}

/* The port first goes up and is fenced, then its other end comes up inside. */
static enum err guest_wire(const struct node_net *n, struct id lease, uint32_t address, int node_ns,
                           int guest_ns, struct refusal *why)
{
    char name[IFNAMSIZ];
    uint8_t inside[MAC_SIZE], outside[MAC_SIZE];
    AUTO_CLOSE int rt = nl_open_in(node_ns, NETLINK_ROUTE);
    int index, bridge;

    mac_of(address, 1, inside);
    mac_of(address, 2, outside);
    port_name(address, name);
    NET_TRY("bridge", link_index(rt, NETWORK_BRIDGE, &bridge));
    NET_TRY("port", link_add_veth(rt, name, outside, "eth0", inside, guest_ns));
    NET_TRY("port", link_index(rt, name, &index));
    NET_TRY("name of the port", link_name_add(rt, index, lease.s));
    NET_TRY("port", link_master(rt, index, bridge));
    NET_TRY("isolation of the port", link_isolate(rt, index));
    NET_TRY("neighbour", neigh_set(rt, bridge, address, inside));
    NET_TRY("port", link_up(rt, index));
    TRY(setup_wrap(why, firewall_source_set(node_ns, name, inside, address, true, why)));
    return guest_inside(n, address, guest_ns, why);
}

/* Whether this address's port is there and is this lease's. */
static bool guest_wired(int node_ns, struct id lease, uint32_t address, bool *ret_other)
{
    char name[IFNAMSIZ];
    AUTO_CLOSE int rt = nl_open_in(node_ns, NETLINK_ROUTE);
    int by_address = 0, by_lease = 0;

    port_name(address, name);
    bool there = link_index(rt, name, &by_address) == 0;
    bool ours = link_index(rt, lease.s, &by_lease) == 0 && by_lease == by_address;
    /* Without an owner's name it is what a killed start left of itself. */
    *ret_other = there && !ours && link_is_owned(rt, name);
    return there && ours;
}

static void port_remove(int node_ns, uint32_t address)
{
    char name[IFNAMSIZ];
    uint8_t mac[MAC_SIZE];
    AUTO_CLOSE int rt = nl_open_in(node_ns, NETLINK_ROUTE);
    int index;

    port_name(address, name);
    mac_of(address, 1, mac);
    (void)!firewall_source_set(node_ns, name, mac, address, false, NULL);
    if (link_index(rt, name, &index) == 0)
        (void)!link_remove(rt, index);
    if (link_index(rt, NETWORK_BRIDGE, &index) == 0)
        (void)!neigh_remove(rt, index, address);
}

enum err network_guest_create(const struct node_paths *p, const struct node_net *n, struct id lease,
                              uint32_t address, const char *pin, struct refusal *why)
{
    AUTO_CLOSE int node_ns = -1;
    bool other;

    sys_clear(why);
    if (!network_address_ok(n, address) || !paths_id_ok(lease))
        return refusef(why, ERR_VALIDATION, "field", "address");
    TRY(network_open(p, &node_ns, why));
    bool wired = guest_wired(node_ns, lease, address, &other);
    if (other)
        return setup_fail(why, "the address is another instance's", EADDRINUSE);
    if (wired && is_ns(pin))
        return ERR_OK;
    /* Half made, or of a start that was killed: begin again. */
    port_remove(node_ns, address);
    pin_drop(pin);
    TRY(guest_ns_make(pin, why));
    AUTO_CLOSE int guest_ns = open(pin, O_RDONLY | O_CLOEXEC);
    enum err e = guest_ns < 0 ? setup_fail(why, pin, errno)
                              : guest_wire(n, lease, address, node_ns, guest_ns, why);
    if (e != ERR_OK) {
        port_remove(node_ns, address);
        pin_drop(pin);
    }
    return e;
}

enum err network_guest_remove(const struct node_paths *p, const struct node_net *n, struct id lease,
                              uint32_t address, const char *pin, struct refusal *why)
{
    AUTO_CLOSE int node_ns = -1;
    bool other;

    sys_clear(why);
    if (!network_address_ok(n, address) || !paths_id_ok(lease))
        return refusef(why, ERR_VALIDATION, "field", "address");
    TRY(network_open(p, &node_ns, why));
    /* The address may have gone to another lease since; then nothing of it is ours. */
    bool wired = guest_wired(node_ns, lease, address, &other);
    if (!other) {
        TRY(setup_wrap(why, firewall_ports_set(n, address, NULL, 0, why)));
        port_remove(node_ns, address);
    }
    pin_drop(pin);
    if (wired && guest_wired(node_ns, lease, address, &other))
        return setup_fail(why, "the port is still there", EBUSY);
    return ERR_OK;
}

enum err network_ports_set(const struct node_net *n, struct id lease UNUSED, uint32_t address,
                           const struct priv_port *ports, size_t count, struct refusal *why)
{
    sys_clear(why);
    if (!network_address_ok(n, address) || count > PRIV_PORTS_MAX)
        return refusef(why, ERR_VALIDATION, "field", "ports");
    for (size_t i = 0; i < count; i++)
        if (ports[i].guest == 0 ||
            (ports[i].host != 0 && (ports[i].host < n->port_min || ports[i].host > n->port_max)))
            return refusef(why, ERR_VALIDATION, "field", "ports");
    return setup_wrap(why, firewall_ports_set(n, address, ports, count, why));
}

enum err network_counters(const struct node_paths *p, struct id lease, int64_t *ret_rx,
                          int64_t *ret_tx)
{
    AUTO_CLOSE int node_ns = -1;

    TRY(network_open(p, &node_ns, NULL));
    AUTO_CLOSE int rt = nl_open_in(node_ns, NETLINK_ROUTE);
    /* Seen from the port, the guest's directions are swapped. */
    return link_counters(rt, lease.s, ret_tx, ret_rx) == 0 ? ERR_OK : ERR_NOT_FOUND;
}

void network_fini(const struct node_paths *p, const struct node_net *n)
{
    char path[PATH_MAX];
    AUTO_CLOSE int rt = nl_open(NETLINK_ROUTE);
    AUTO_CLOSE int node_ns = -1;
    int index, node, holder = holder_find(p);

    firewall_fini(n);
    if (network_open(p, &node_ns, NULL) == ERR_OK) {
        AUTO_CLOSE int node_rt = nl_open_in(node_ns, NETLINK_ROUTE);
        if (link_index(node_rt, NETWORK_UPLINK, &node) == 0 && link_index(rt, n->link, &index) == 0)
            (void)!link_remove(rt, index);
    }
    if (holder)
        kill(holder, SIGKILL);
    pin_path(p, path, sizeof(path));
    pin_drop(path);
    holder_path(p, path, sizeof(path));
    unlink(path);
}
