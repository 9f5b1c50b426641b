#include "node/firewall.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/conntrack.h"
#include "node/nftset.h"
#include "node/sys.h"

#define RULES_MAX 8192
#define NODE_TABLE "ports"
#define NODE_SET "source"
#define HOST_MAP "ports"

static void quad(uint32_t a, char buf[16])
{
    str_printf(buf, 16, "%u.%u.%u.%u", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
}

/* {T} table, {L} our link, {N} the node's range, {H} our end's address. A line that starts with '?'
 * holds only where traffic out is allowed, '!' only where it is not. */
static const char host_rules[] =
    "add table ip {T}\n"
    "add map ip {T} " HOST_MAP " { type inet_proto . inet_service : ipv4_addr . inet_service ; }\n"
    "add chain ip {T} early { type filter hook prerouting priority -300 ; }\n"
    "add chain ip {T} inward { type nat hook prerouting priority -100 ; }\n"
    "add chain ip {T} local { type nat hook output priority -100 ; }\n"
    "add chain ip {T} outward { type nat hook postrouting priority 100 ; }\n"
    "add chain ip {T} input { type filter hook input priority 0 ; }\n"
    "add chain ip {T} output { type filter hook output priority 0 ; }\n"
    "add chain ip {T} forward { type filter hook forward priority 0 ; }\n"
    "flush chain ip {T} early\n"
    "flush chain ip {T} inward\n"
    "flush chain ip {T} local\n"
    "flush chain ip {T} outward\n"
    "flush chain ip {T} input\n"
    "flush chain ip {T} output\n"
    "flush chain ip {T} forward\n"
    /* The link lets loopback addresses be routed (for published ports on 127.0.0.1): never inward.
     */
    "add rule ip {T} early iifname \"{L}\" ip daddr 127.0.0.0/8 counter drop\n"
    "add rule ip {T} early iifname \"{L}\" ip saddr != {N} counter drop\n"
    "add rule ip {T} inward iifname != \"{L}\" fib daddr type local "
    "dnat ip addr . port to meta l4proto . th dport map @" HOST_MAP "\n"
    "add rule ip {T} local fib daddr type local "
    "dnat ip addr . port to meta l4proto . th dport map @" HOST_MAP "\n"
    "add rule ip {T} outward oifname \"{L}\" ip saddr 127.0.0.0/8 snat to {H}\n"
    "?add rule ip {T} outward oifname != \"{L}\" ip saddr {N} masquerade\n"
    "add rule ip {T} input iifname \"{L}\" ct state established,related accept\n"
    "add rule ip {T} input iifname \"{L}\" counter drop\n"
    /* Other users of this machine reach guests by published ports only. */
    "add rule ip {T} output oifname \"{L}\" ct state new ct status dnat accept\n"
    "add rule ip {T} output oifname \"{L}\" ct state new meta skuid 0 accept\n"
    "add rule ip {T} output oifname \"{L}\" ct state new counter drop\n"
    "add rule ip {T} forward iifname \"{L}\" tcp flags syn tcp option maxseg size set rt mtu\n"
    "add rule ip {T} forward oifname \"{L}\" tcp flags syn tcp option maxseg size set rt mtu\n"
    "add rule ip {T} forward iifname \"{L}\" ct state established,related accept\n"
    "add rule ip {T} forward oifname \"{L}\" ct state established,related accept\n"
    "add rule ip {T} forward oifname \"{L}\" ct status dnat accept\n"
    "add rule ip {T} forward oifname \"{L}\" counter drop\n"
    "?add rule ip {T} forward iifname \"{L}\" accept\n"
    "!add rule ip {T} forward iifname \"{L}\" counter drop\n";

/* In the namespace of our own everything may be rewritten. Forwarding there is routed, so instances
 * meet each other at the gateway only, and the gateway drops it; on the bridge their ports are
 * isolated besides. */
static const char node_rules[] =
    "add table inet gate\n"
    "add chain inet gate forward { type filter hook forward priority 0 ; policy drop ; }\n"
    "add chain inet gate input { type filter hook input priority 0 ; policy drop ; }\n"
    "flush chain inet gate forward\n"
    "flush chain inet gate input\n"
    "add rule inet gate forward ct state established,related accept\n"
    "add rule inet gate forward iifname \"up0\" oifname \"br0\" accept\n"
    "add rule inet gate forward iifname \"br0\" oifname \"up0\" ip daddr "
    "{ 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3, {N} } counter drop\n"
    "add rule inet gate forward iifname \"br0\" oifname \"up0\" meta nfproto ipv4 accept\n"
    "add rule inet gate input ct state established,related accept\n"
    "add rule inet gate input iifname \"up0\" icmp type echo-request accept\n"
    "add table bridge " NODE_TABLE "\n"
    "add set bridge " NODE_TABLE " " NODE_SET " { type ifname . ether_addr . ipv4_addr ; }\n"
    "add chain bridge " NODE_TABLE
    " in { type filter hook prerouting priority -300 ; policy drop ; }\n"
    "flush chain bridge " NODE_TABLE " in\n"
    "add rule bridge " NODE_TABLE
    " in ether type ip meta iifname . ether saddr . ip saddr @" NODE_SET " accept\n"
    "add rule bridge " NODE_TABLE
    " in ether type arp meta iifname . ether saddr . arp saddr ip @" NODE_SET
    " meta iifname . arp saddr ether . arp saddr ip @" NODE_SET " accept\n"
    "add rule bridge " NODE_TABLE " in counter drop\n";

static void rules_fill(struct strbuf *b, const char *rules, const struct node_net *n, uint32_t host)
{
    char range[24], here[16];

    quad(n->base, here);
    str_printf(range, sizeof(range), "%s/%u", here, n->bits);
    quad(host, here);
    while (*rules) {
        size_t len = strcspn(rules, "\n");
        bool skip = (*rules == '?' && !n->nat_out) || (*rules == '!' && n->nat_out);
        size_t at = *rules == '?' || *rules == '!';
        for (; !skip && at < len; at++) {
            if (rules[at] == '{' && at + 2 < len && rules[at + 2] == '}') {
                char c = rules[at + 1];
                strbuf_add(b, c == 'T' ? n->table : c == 'L' ? n->link : c == 'N' ? range : here);
                at += 2;
            } else {
                strbuf_add_n(b, rules + at, 1);
            }
        }
        if (!skip)
            strbuf_add(b, "\n");
        rules += len + 1;
    }
}

static enum err rules_load(const char *rules, const struct node_net *n, int ns, uint32_t host,
                           struct refusal *why)
{
    static const char *const argv[] = {"nft", "-f", "-", NULL};
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, RULES_MAX);
    rules_fill(&b, rules, n, host);
    CHECK(!b.overflow);
    struct sys_tool tool = {.argv = argv, .input = strbuf_str(&b), .netns_fd = ns};
    return sys_tool_run(&tool, why);
}

enum err firewall_init(const struct node_net *n, int node_ns, uint32_t host, struct refusal *why)
{
    TRY(rules_load(node_rules, n, node_ns, host, why));
    return rules_load(host_rules, n, 0, host, why);
}

static enum err elems_fail(struct refusal *why, int error)
{
    errno = error;
    return sys_fail(why, "nftables element");
}

enum err firewall_source_set(int node_ns, const char *port, const uint8_t mac[MAC_SIZE],
                             uint32_t address, bool allowed, struct refusal *why)
{
    static const struct nftset set = {NFPROTO_BRIDGE, NODE_TABLE, NODE_SET};
    struct nftset_elem e = {.remove = !allowed, .key_size = 28};
    uint32_t net = htonl(address);
    AUTO_CLOSE int fd = nl_open_in(node_ns, NETLINK_NETFILTER);

    CHECK(strlen(port) < IFNAMSIZ);
    memcpy(e.key, port, strlen(port));
    memcpy(e.key + 16, mac, MAC_SIZE);
    memcpy(e.key + 24, &net, sizeof(net));
    int error = nftset_change(fd, &set, &e, 1);
    if (error && !(error == EEXIST && allowed) && !(error == ENOENT && !allowed))
        return elems_fail(why, error);
    return ERR_OK;
}

static struct nftset_elem port_elem(uint32_t address, const struct priv_port *p, bool remove)
{
    struct nftset_elem e = {.remove = remove, .key_size = 8, .data_size = 8};
    uint32_t net = htonl(address);
    uint16_t host = htons(p->host), guest = htons(p->guest);

    e.key[0] = p->udp ? IPPROTO_UDP : IPPROTO_TCP;
    memcpy(e.key + 4, &host, sizeof(host));
    memcpy(e.data, &net, sizeof(net));
    memcpy(e.data + 4, &guest, sizeof(guest));
    return e;
}

struct port_walk {
    firewall_each_fn *each;
    void *user; /* borrowed */
};

static void walk_one(void *user, const struct nftset_elem *e)
{
    struct port_walk *w = user;
    struct priv_port port = {.udp = e->key[0] == IPPROTO_UDP};
    uint32_t net;

    if (e->key_size != 8 || e->data_size != 8)
        return;
    memcpy(&port.host, e->key + 4, sizeof(port.host));
    memcpy(&port.guest, e->data + 4, sizeof(port.guest));
    memcpy(&net, e->data, sizeof(net));
    port.host = ntohs(port.host);
    port.guest = ntohs(port.guest);
    w->each(w->user, ntohl(net), &port);
}

void firewall_each(const struct node_net *n, firewall_each_fn *each, void *user)
{
    struct port_walk w = {.each = each, .user = user};
    struct nftset map = {NFPROTO_IPV4, n->table, HOST_MAP};
    AUTO_CLOSE int fd = nl_open(NETLINK_NETFILTER);

    (void)!nftset_each(fd, &map, walk_one, &w);
}

/* What is published now is compared with what should be: the kernel's map is the only record. */
struct port_plan {
    uint32_t address;
    const struct priv_port *want; /* borrowed */
    size_t want_count;
    bool there[PRIV_PORTS_MAX];
    uint16_t taken; /* a wanted host port that is another address's; 0: none */
    struct nftset_elem change[NFTSET_CHANGES_MAX];
    size_t change_count;
    struct priv_port gone[PRIV_PORTS_MAX * 2];
    size_t gone_count;
};

static void plan_one(void *user, uint32_t address, const struct priv_port *have)
{
    struct port_plan *plan = user;
    bool same = false;

    for (size_t i = 0; i < plan->want_count; i++) {
        const struct priv_port *w = &plan->want[i];
        if (w->host != have->host || !w->udp != !have->udp)
            continue;
        if (address != plan->address)
            plan->taken = w->host;
        else if (w->guest == have->guest)
            same = plan->there[i] = true;
    }
    if (address == plan->address && !same && plan->gone_count < ARRAY_LEN(plan->gone)) {
        plan->change[plan->change_count++] = port_elem(address, have, true);
        plan->gone[plan->gone_count++] = *have;
    }
}

/* A port that a program of this machine listens on must not be taken from it. */
static bool port_free_here(const struct priv_port *p)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(p->host)};
    AUTO_CLOSE int fd = socket(AF_INET, (p->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    int on = 1;

    return fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
           bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0;
}

static enum err port_refuse(struct refusal *why, uint16_t port, const char *by)
{
    char name[8];

    str_printf(name, sizeof(name), "%u", port);
    return sys_refuse(why, ERR_IN_USE, "what", "port", "name", name, "by", by, NULL);
}

enum err firewall_ports_set(const struct node_net *n, uint32_t address,
                            const struct priv_port *ports, size_t count, struct refusal *why)
{
    struct port_plan plan = {.address = address, .want = ports, .want_count = count};
    struct nftset map = {NFPROTO_IPV4, n->table, HOST_MAP};

    CHECK(count <= PRIV_PORTS_MAX);
    firewall_each(n, plan_one, &plan);
    if (plan.taken)
        return port_refuse(why, plan.taken, "another instance");
    for (size_t i = 0; i < count; i++) {
        if (plan.there[i] || ports[i].host == 0)
            continue;
        if (!port_free_here(&ports[i]))
            return port_refuse(why, ports[i].host, "a program of this machine");
        plan.change[plan.change_count++] = port_elem(address, &ports[i], false);
    }
    AUTO_CLOSE int fd = nl_open(NETLINK_NETFILTER);
    int error = nftset_change(fd, &map, plan.change, plan.change_count);
    if (error)
        return elems_fail(why, error);
    /* What is no longer published ends now, not when its last connection does. */
    for (size_t i = 0; i < plan.gone_count; i++)
        (void)!conntrack_forget(address, plan.gone[i].guest, plan.gone[i].host);
    return ERR_OK;
}

void firewall_fini(const struct node_net *n)
{
    const char *const argv[] = {"nft", "delete", "table", "ip", n->table, NULL};
    struct sys_tool tool = {.argv = argv, .ok_max = 1};

    (void)!sys_tool_run(&tool, NULL);
}
