#include "node/nftset.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include "base/mem.h"
#include "node/netlink.h"

static void message_begin(struct nl_msg *m, uint16_t type, uint16_t flags, uint8_t family,
                          uint16_t res_id)
{
    struct nfgenmsg info = {
        .nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(res_id)};

    nl_begin(m, type, flags, &info, sizeof(info));
}

static void data_attr(struct nl_msg *m, uint16_t type, const uint8_t *p, size_t size)
{
    size_t at = nl_nest(m, type);

    nl_attr(m, NFTA_DATA_VALUE, p, size);
    nl_nest_close(m, at);
}

static void elem_message(struct nl_msg *m, const struct nftset *s, const struct nftset_elem *e)
{
    uint16_t op = e->remove ? NFT_MSG_DELSETELEM : NFT_MSG_NEWSETELEM;

    message_begin(m, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | op),
                  (uint16_t)(NLM_F_ACK | (e->remove ? 0 : NLM_F_CREATE)), s->family, 0);
    nl_attr(m, NFTA_SET_ELEM_LIST_TABLE, s->table, strlen(s->table) + 1);
    nl_attr(m, NFTA_SET_ELEM_LIST_SET, s->set, strlen(s->set) + 1);
    size_t list = nl_nest(m, NFTA_SET_ELEM_LIST_ELEMENTS);
    size_t one = nl_nest(m, NFTA_LIST_ELEM);
    data_attr(m, NFTA_SET_ELEM_KEY, e->key, e->key_size);
    if (e->data_size && !e->remove)
        data_attr(m, NFTA_SET_ELEM_DATA, e->data, e->data_size);
    nl_nest_close(m, one);
    nl_nest_close(m, list);
}

int nftset_change(int fd, const struct nftset *s, const struct nftset_elem *elems, size_t count)
{
    AUTO_FREE char *batch = NULL;
    size_t len = 0;
    struct nl_msg m;

    CHECK(count <= NFTSET_CHANGES_MAX);
    if (count == 0)
        return 0;
    batch = mem_alloc((count + 2) * 512);
    message_begin(&m, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    memcpy(batch, m.buf, m.len);
    len = m.len;
    for (size_t i = 0; i < count; i++) {
        elem_message(&m, s, &elems[i]);
        CHECK(m.len <= 512);
        memcpy(batch + len, m.buf, m.len);
        len += m.len;
    }
    message_begin(&m, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    memcpy(batch + len, m.buf, m.len);
    len += m.len;
    return nl_talk(fd, batch, len, NULL, NULL);
}

struct elem_walk {
    nftset_each_fn *each;
    void *user; /* borrowed */
};

static uint8_t value_copy(const char *p, size_t size, uint16_t type, uint8_t *dst)
{
    size_t n;

    p = nl_find(p, size, type, &n);
    if (p)
        p = nl_find(p, n, NFTA_DATA_VALUE, &n);
    if (!p || n > NFTSET_KEY_MAX)
        return 0;
    memcpy(dst, p, n);
    return (uint8_t)n;
}

static void walk_one(void *user, const void *msg, size_t size)
{
    struct elem_walk *w = user;
    size_t skip = NLMSG_SPACE(sizeof(struct nfgenmsg)), n;
    struct nlattr a;

    if (size < skip)
        return;
    const char *p = nl_find((const char *)msg + skip, size - skip, NFTA_SET_ELEM_LIST_ELEMENTS, &n);
    while (p && n >= NLA_HDRLEN) {
        struct nftset_elem e = {0};
        memcpy(&a, p, sizeof(a));
        if (a.nla_len < NLA_HDRLEN || a.nla_len > n)
            return;
        e.key_size = value_copy(p + NLA_HDRLEN, a.nla_len - NLA_HDRLEN, NFTA_SET_ELEM_KEY, e.key);
        e.data_size =
            value_copy(p + NLA_HDRLEN, a.nla_len - NLA_HDRLEN, NFTA_SET_ELEM_DATA, e.data);
        if (e.key_size)
            w->each(w->user, &e);
        size_t step = MIN((size_t)NLA_ALIGN(a.nla_len), n);
        p += step;
        n -= step;
    }
}

int nftset_each(int fd, const struct nftset *s, nftset_each_fn *each, void *user)
{
    struct elem_walk w = {.each = each, .user = user};
    struct nl_msg m;

    message_begin(&m, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETSETELEM, NLM_F_DUMP, s->family, 0);
    nl_attr(&m, NFTA_SET_ELEM_LIST_TABLE, s->table, strlen(s->table) + 1);
    nl_attr(&m, NFTA_SET_ELEM_LIST_SET, s->set, strlen(s->set) + 1);
    return nl_talk(fd, m.buf, m.len, walk_one, &w);
}
