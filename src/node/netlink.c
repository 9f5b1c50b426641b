#include "node/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

#define OTHER_NAME_SIZE 128 /* the kernel's ALTIFNAMSIZ */
#define REPLY_SIZE ((size_t)64 << 10)

void nl_begin(struct nl_msg *m, uint16_t type, uint16_t flags, const void *body, size_t size)
{
    static uint32_t seq;
    struct nlmsghdr h = {
        .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags, .nlmsg_seq = ++seq};

    memset(m, 0, sizeof(*m));
    CHECK(NLMSG_SPACE(size) <= sizeof(m->buf));
    m->len = NLMSG_SPACE(size);
    h.nlmsg_len = (uint32_t)m->len;
    memcpy(m->buf, &h, sizeof(h));
    memcpy(m->buf + NLMSG_HDRLEN, body, size);
}

static void length_set(struct nl_msg *m)
{
    uint32_t len = (uint32_t)m->len;

    memcpy(m->buf + offsetof(struct nlmsghdr, nlmsg_len), &len, sizeof(len));
}

void nl_attr(struct nl_msg *m, uint16_t type, const void *data, size_t size)
{
    struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + size), .nla_type = type};

    CHECK(m->len + NLA_HDRLEN + NLA_ALIGN(size) <= sizeof(m->buf));
    memcpy(m->buf + m->len, &a, sizeof(a));
    if (size)
        memcpy(m->buf + m->len + NLA_HDRLEN, data, size);
    m->len += NLA_HDRLEN + NLA_ALIGN(size);
    length_set(m);
}

size_t nl_nest(struct nl_msg *m, uint16_t type)
{
    size_t at = m->len;

    nl_attr(m, type | NLA_F_NESTED, NULL, 0);
    return at;
}

void nl_nest_close(struct nl_msg *m, size_t at)
{
    uint16_t len = (uint16_t)(m->len - at);

    memcpy(m->buf + at, &len, sizeof(len));
}

const char *nl_find(const char *p, size_t size, uint16_t type, size_t *ret_size)
{
    struct nlattr a;

    while (size >= NLA_HDRLEN) {
        memcpy(&a, p, sizeof(a));
        if (a.nla_len < NLA_HDRLEN || a.nla_len > size)
            return NULL;
        if ((a.nla_type & NLA_TYPE_MASK) == type) {
            *ret_size = a.nla_len - NLA_HDRLEN;
            return p + NLA_HDRLEN;
        }
        size_t step = MIN((size_t)NLA_ALIGN(a.nla_len), size);
        p += step;
        size -= step;
    }
    return NULL;
}

int nl_open(int protocol)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
}

int nl_open_in(int ns_fd, int protocol)
{
    AUTO_CLOSE int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    if (home < 0 || setns(ns_fd, CLONE_NEWNET) != 0)
        return -1;
    int fd = nl_open(protocol);
    int saved = errno;
    CHECK(setns(home, CLONE_NEWNET) == 0);
    errno = saved;
    return fd;
}

/* True when the conversation is over; *ret_error is its result. */
static bool answer_take(const char *buf, size_t size, uint32_t seq, nl_each_fn *each, void *user,
                        int *ret_error)
{
    while (size >= NLMSG_HDRLEN) {
        struct nlmsghdr h;
        memcpy(&h, buf, sizeof(h));
        if (h.nlmsg_len < NLMSG_HDRLEN || h.nlmsg_len > size)
            break;
        if (h.nlmsg_type == NLMSG_ERROR && h.nlmsg_len >= NLMSG_HDRLEN + sizeof(int)) {
            int error;
            memcpy(&error, buf + NLMSG_HDRLEN, sizeof(error));
            if (error != 0 || h.nlmsg_seq == seq) {
                *ret_error = -error;
                return true;
            }
        } else if (h.nlmsg_type == NLMSG_DONE) {
            *ret_error = 0;
            return true;
        } else if (h.nlmsg_seq == seq && each) {
            each(user, buf, h.nlmsg_len);
        }
        size_t step = MIN((size_t)NLMSG_ALIGN(h.nlmsg_len), size);
        buf += step;
        size -= step;
    }
    return false;
}

/* The sequence number of the last message but one of a batch, or of the only message. */
static uint32_t seq_awaited(const char *bytes, size_t size)
{
    uint32_t seq = 0;
    struct nlmsghdr h;

    for (size_t at = 0; at + NLMSG_HDRLEN <= size; at += NLMSG_ALIGN(h.nlmsg_len)) {
        memcpy(&h, bytes + at, sizeof(h));
        CHECK(h.nlmsg_len >= NLMSG_HDRLEN);
        if (h.nlmsg_flags & (NLM_F_ACK | NLM_F_DUMP))
            seq = h.nlmsg_seq;
    }
    return seq;
}

int nl_talk(int fd, const void *bytes, size_t size, nl_each_fn *each, void *user)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    AUTO_FREE char *buf = mem_alloc(REPLY_SIZE);
    uint32_t seq = seq_awaited(bytes, size);
    int error = 0;

    if (fd < 0)
        return EBADF;
    if (sendto(fd, bytes, size, 0, (struct sockaddr *)&kernel, sizeof(kernel)) != (ssize_t)size)
        return errno;
    for (;;) {
        ssize_t n = recv(fd, buf, REPLY_SIZE, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (answer_take(buf, (size_t)n, seq, each, user, &error))
            return error;
    }
}

static int talk(int fd, const struct nl_msg *m)
{
    return nl_talk(fd, m->buf, m->len, NULL, NULL);
}

struct link_seen {
    char name[IFNAMSIZ], other[OTHER_NAME_SIZE];
    int index;
    uint64_t rx_bytes, tx_bytes;
};

static void attr_other_name(struct link_seen *l, const char *p, size_t size)
{
    struct nlattr a;

    while (size >= NLA_HDRLEN) {
        memcpy(&a, p, sizeof(a));
        if (a.nla_len < NLA_HDRLEN || a.nla_len > size)
            return;
        if ((a.nla_type & NLA_TYPE_MASK) == IFLA_ALT_IFNAME && !l->other[0])
            str_printf(l->other, sizeof(l->other), "%.*s", a.nla_len - NLA_HDRLEN, p + NLA_HDRLEN);
        size_t step = MIN((size_t)NLA_ALIGN(a.nla_len), size);
        p += step;
        size -= step;
    }
}

static bool link_parse(const void *msg, size_t size, struct link_seen *l)
{
    struct ifinfomsg info;
    struct nlmsghdr h;
    struct nlattr a;
    const char *p = msg;
    struct rtnl_link_stats64 stats;

    memset(l, 0, sizeof(*l));
    if (size < NLMSG_SPACE(sizeof(info)))
        return false;
    memcpy(&h, p, sizeof(h));
    if (h.nlmsg_type != RTM_NEWLINK)
        return false;
    memcpy(&info, p + NLMSG_HDRLEN, sizeof(info));
    l->index = info.ifi_index;
    for (size_t at = NLMSG_SPACE(sizeof(info)); at + NLA_HDRLEN <= size;
         at += NLA_ALIGN(a.nla_len)) {
        memcpy(&a, p + at, sizeof(a));
        if (a.nla_len < NLA_HDRLEN || at + a.nla_len > size)
            break;
        const char *data = p + at + NLA_HDRLEN;
        size_t len = a.nla_len - NLA_HDRLEN;
        uint16_t type = a.nla_type & NLA_TYPE_MASK;
        if (type == IFLA_IFNAME)
            str_printf(l->name, sizeof(l->name), "%.*s", (int)len, data);
        else if (type == IFLA_PROP_LIST)
            attr_other_name(l, data, len);
        else if (type == IFLA_STATS64 && len >= sizeof(stats)) {
            memcpy(&stats, data, sizeof(stats));
            l->rx_bytes = stats.rx_bytes;
            l->tx_bytes = stats.tx_bytes;
        }
    }
    return true;
}

static void seen_one(void *user, const void *msg, size_t size)
{
    struct link_seen l;

    if (link_parse(msg, size, &l))
        *(struct link_seen *)user = l;
}

static int link_get(int fd, const char *name, struct link_seen *ret_l)
{
    struct ifinfomsg info = {0};
    struct nl_msg m;

    nl_begin(&m, RTM_GETLINK, NLM_F_ACK, &info, sizeof(info));
    nl_attr(&m, strlen(name) < IFNAMSIZ ? IFLA_IFNAME : IFLA_ALT_IFNAME, name, strlen(name) + 1);
    memset(ret_l, 0, sizeof(*ret_l));
    int error = nl_talk(fd, m.buf, m.len, seen_one, ret_l);
    return error ? error : ret_l->index > 0 ? 0 : ENODEV;
}

bool link_is_owned(int fd, const char *name)
{
    struct link_seen l;

    return link_get(fd, name, &l) == 0 && l.other[0];
}

int link_index(int fd, const char *name, int *ret_index)
{
    struct link_seen l;
    int error = link_get(fd, name, &l);

    if (!error)
        *ret_index = l.index;
    return error;
}

int link_counters(int fd, const char *name, int64_t *ret_rx, int64_t *ret_tx)
{
    struct link_seen l;
    int error = link_get(fd, name, &l);

    if (!error) {
        *ret_rx = (int64_t)l.rx_bytes;
        *ret_tx = (int64_t)l.tx_bytes;
    }
    return error;
}

struct link_walk {
    link_each_fn *each;
    void *user; /* borrowed */
};

static void walk_one(void *user, const void *msg, size_t size)
{
    struct link_walk *w = user;
    struct link_seen l;

    if (link_parse(msg, size, &l))
        w->each(w->user, l.name, l.other);
}

int link_each(int fd, link_each_fn *each, void *user)
{
    struct link_walk w = {.each = each, .user = user};
    struct ifinfomsg info = {0};
    struct nl_msg m;

    nl_begin(&m, RTM_GETLINK, NLM_F_DUMP, &info, sizeof(info));
    return nl_talk(fd, m.buf, m.len, walk_one, &w);
}

int link_add_bridge(int fd, const char *name, const uint8_t mac[MAC_SIZE])
{
    struct ifinfomsg info = {0};
    struct nl_msg m;

    nl_begin(&m, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &info, sizeof(info));
    nl_attr(&m, IFLA_IFNAME, name, strlen(name) + 1);
    nl_attr(&m, IFLA_ADDRESS, mac, MAC_SIZE);
    size_t kind = nl_nest(&m, IFLA_LINKINFO);
    nl_attr(&m, IFLA_INFO_KIND, "bridge", 6);
    nl_nest_close(&m, kind);
    return talk(fd, &m);
}

int link_add_veth(int fd, const char *name, const uint8_t mac[MAC_SIZE], const char *peer,
                  const uint8_t peer_mac[MAC_SIZE], int peer_ns_fd)
{
    struct ifinfomsg info = {0};
    uint32_t ns = (uint32_t)peer_ns_fd;
    struct nl_msg m;

    nl_begin(&m, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &info, sizeof(info));
    nl_attr(&m, IFLA_IFNAME, name, strlen(name) + 1);
    nl_attr(&m, IFLA_ADDRESS, mac, MAC_SIZE);
    size_t kind = nl_nest(&m, IFLA_LINKINFO);
    nl_attr(&m, IFLA_INFO_KIND, "veth", 4);
    size_t data = nl_nest(&m, IFLA_INFO_DATA);
    size_t other = nl_nest(&m, VETH_INFO_PEER);
    CHECK(m.len + sizeof(info) <= sizeof(m.buf));
    memcpy(m.buf + m.len, &info, sizeof(info));
    m.len += NLA_ALIGN(sizeof(info));
    nl_attr(&m, IFLA_IFNAME, peer, strlen(peer) + 1);
    nl_attr(&m, IFLA_ADDRESS, peer_mac, MAC_SIZE);
    nl_attr(&m, IFLA_NET_NS_FD, &ns, sizeof(ns));
    nl_nest_close(&m, other);
    nl_nest_close(&m, data);
    nl_nest_close(&m, kind);
    return talk(fd, &m);
}

int link_up(int fd, int index)
{
    struct ifinfomsg info = {.ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    struct nl_msg m;

    nl_begin(&m, RTM_NEWLINK, NLM_F_ACK, &info, sizeof(info));
    return talk(fd, &m);
}

int link_master(int fd, int index, int bridge)
{
    struct ifinfomsg info = {.ifi_index = index};
    uint32_t master = (uint32_t)bridge;
    struct nl_msg m;

    nl_begin(&m, RTM_NEWLINK, NLM_F_ACK, &info, sizeof(info));
    nl_attr(&m, IFLA_MASTER, &master, sizeof(master));
    return talk(fd, &m);
}

int link_isolate(int fd, int index)
{
    struct ifinfomsg info = {.ifi_family = AF_BRIDGE, .ifi_index = index};
    uint8_t on = 1;
    struct nl_msg m;

    nl_begin(&m, RTM_SETLINK, NLM_F_ACK, &info, sizeof(info));
    size_t at = nl_nest(&m, IFLA_PROTINFO);
    nl_attr(&m, IFLA_BRPORT_ISOLATED, &on, 1);
    nl_nest_close(&m, at);
    return talk(fd, &m);
}

int link_name_add(int fd, int index, const char *other_name)
{
    struct ifinfomsg info = {.ifi_index = index};
    struct nl_msg m;

    nl_begin(&m, RTM_NEWLINKPROP, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND | NLM_F_ACK, &info,
             sizeof(info));
    size_t at = nl_nest(&m, IFLA_PROP_LIST);
    nl_attr(&m, IFLA_ALT_IFNAME, other_name, strlen(other_name) + 1);
    nl_nest_close(&m, at);
    return talk(fd, &m);
}

int link_remove(int fd, int index)
{
    struct ifinfomsg info = {.ifi_index = index};
    struct nl_msg m;

    nl_begin(&m, RTM_DELLINK, NLM_F_ACK, &info, sizeof(info));
    return talk(fd, &m);
}

int addr_add(int fd, int index, uint32_t addr, uint8_t bits)
{
    struct ifaddrmsg info = {
        .ifa_family = AF_INET, .ifa_prefixlen = bits, .ifa_index = (uint32_t)index};
    uint32_t net = htonl(addr);
    struct nl_msg m;

    nl_begin(&m, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, &info, sizeof(info));
    nl_attr(&m, IFA_LOCAL, &net, sizeof(net));
    nl_attr(&m, IFA_ADDRESS, &net, sizeof(net));
    return talk(fd, &m);
}

int route_add(int fd, int index, uint32_t dst, uint8_t bits, uint32_t gateway)
{
    struct rtmsg info = {.rtm_family = AF_INET,
                         .rtm_dst_len = bits,
                         .rtm_table = RT_TABLE_MAIN,
                         .rtm_protocol = RTPROT_STATIC,
                         .rtm_scope = gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
                         .rtm_type = RTN_UNICAST};
    uint32_t to = htonl(dst), via = htonl(gateway), oif = (uint32_t)index;
    struct nl_msg m;

    nl_begin(&m, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, &info, sizeof(info));
    if (bits)
        nl_attr(&m, RTA_DST, &to, sizeof(to));
    if (gateway)
        nl_attr(&m, RTA_GATEWAY, &via, sizeof(via));
    nl_attr(&m, RTA_OIF, &oif, sizeof(oif));
    return talk(fd, &m);
}

static void neigh_begin(struct nl_msg *m, uint16_t type, uint16_t flags, int index, uint32_t addr)
{
    struct ndmsg info = {.ndm_family = AF_INET, .ndm_ifindex = index, .ndm_state = NUD_PERMANENT};
    uint32_t net = htonl(addr);

    nl_begin(m, type, flags | NLM_F_ACK, &info, sizeof(info));
    nl_attr(m, NDA_DST, &net, sizeof(net));
}

int neigh_set(int fd, int index, uint32_t addr, const uint8_t mac[MAC_SIZE])
{
    struct nl_msg m;

    neigh_begin(&m, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, index, addr);
    nl_attr(&m, NDA_LLADDR, mac, MAC_SIZE);
    return talk(fd, &m);
}

int neigh_remove(int fd, int index, uint32_t addr)
{
    struct nl_msg m;

    neigh_begin(&m, RTM_DELNEIGH, 0, index, addr);
    return talk(fd, &m);
}
