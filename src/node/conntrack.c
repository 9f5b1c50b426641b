#include "node/conntrack.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include "base/vec.h"
#include "node/netlink.h"

#define TUPLE_MAX 128

struct flow {
    char tuple[TUPLE_MAX]; /* CTA_TUPLE_ORIG's content, as it came */
    size_t tuple_len;
    char id[4];
    bool has_id;
};

struct flow_scan {
    uint32_t address;
    uint16_t guest_port, host_port;
    VEC(struct flow) found;
};

static void message_begin(struct nl_msg *m, uint16_t op, uint16_t flags)
{
    struct nfgenmsg info = {.nfgen_family = AF_INET, .version = NFNETLINK_V0};

    nl_begin(m, (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | op), flags, &info, sizeof(info));
}

/* A tuple's source address and ports, host order; zero where it has none. */
static void tuple_read(const char *p, size_t size, uint32_t *ret_source, uint16_t *ret_from,
                       uint16_t *ret_to)
{
    size_t n = 0;
    uint32_t address = 0;
    uint16_t from = 0, to = 0;
    const char *ip = nl_find(p, size, CTA_TUPLE_IP, &n);
    const char *v = ip ? nl_find(ip, n, CTA_IP_V4_SRC, &n) : NULL;

    if (v && n == sizeof(address))
        memcpy(&address, v, sizeof(address));
    const char *proto = nl_find(p, size, CTA_TUPLE_PROTO, &n);
    size_t proto_size = n;
    v = proto ? nl_find(proto, proto_size, CTA_PROTO_SRC_PORT, &n) : NULL;
    if (v && n == sizeof(from))
        memcpy(&from, v, sizeof(from));
    v = proto ? nl_find(proto, proto_size, CTA_PROTO_DST_PORT, &n) : NULL;
    if (v && n == sizeof(to))
        memcpy(&to, v, sizeof(to));
    *ret_source = ntohl(address);
    *ret_from = ntohs(from);
    *ret_to = ntohs(to);
}

static void scan_one(void *user, const void *msg, size_t size)
{
    struct flow_scan *s = user;
    size_t skip = NLMSG_SPACE(sizeof(struct nfgenmsg)), orig_len, reply_len, n;
    uint32_t source;
    uint16_t from, to;

    if (size < skip)
        return;
    const char *p = (const char *)msg + skip;
    const char *orig = nl_find(p, size - skip, CTA_TUPLE_ORIG, &orig_len);
    const char *reply = nl_find(p, size - skip, CTA_TUPLE_REPLY, &reply_len);
    if (!orig || !reply || orig_len > TUPLE_MAX)
        return;
    tuple_read(reply, reply_len, &source, &from, &to);
    if (source != s->address || (s->guest_port && from != s->guest_port))
        return;
    tuple_read(orig, orig_len, &source, &from, &to);
    if (s->guest_port && to != s->host_port)
        return;
    struct flow *f = vec_push(&s->found);
    memcpy(f->tuple, orig, orig_len);
    f->tuple_len = orig_len;
    const char *id = nl_find(p, size - skip, CTA_ID, &n);
    if (id && n == sizeof(f->id)) {
        memcpy(f->id, id, sizeof(f->id));
        f->has_id = true;
    }
}

static int flow_remove(int fd, const struct flow *f)
{
    struct nl_msg m;

    message_begin(&m, IPCTNL_MSG_CT_DELETE, NLM_F_ACK);
    nl_attr(&m, CTA_TUPLE_ORIG | NLA_F_NESTED, f->tuple, f->tuple_len);
    if (f->has_id)
        nl_attr(&m, CTA_ID, f->id, sizeof(f->id));
    return nl_talk(fd, m.buf, m.len, NULL, NULL);
}

int conntrack_forget(uint32_t address, uint16_t guest_port, uint16_t host_port)
{
    struct flow_scan s = {.address = address, .guest_port = guest_port, .host_port = host_port};
    AUTO_CLOSE int fd = nl_open(NETLINK_NETFILTER);
    struct nl_msg m;

    message_begin(&m, IPCTNL_MSG_CT_GET, NLM_F_DUMP);
    int error = nl_talk(fd, m.buf, m.len, scan_one, &s);
    /* One that has ended by itself meanwhile is no error. */
    for (size_t i = 0; i < s.found.len; i++)
        (void)!flow_remove(fd, &s.found.at[i]);
    vec_fini(&s.found);
    return error;
}
