/* netlink.h: links, addresses, routes and neighbours by rtnetlink. Each function works in the
 * network namespace its socket was opened in and returns 0 or an errno. IPv4 in host order. */
#pragma once

#include "base/err.h"

#define MAC_SIZE 6

struct nl_msg {
    _Alignas(8) char buf[4096];
    size_t len;
};
void nl_begin(struct nl_msg *m, uint16_t type, uint16_t flags, const void *body, size_t size);
void nl_attr(struct nl_msg *m, uint16_t type, const void *data, size_t size);
size_t nl_nest(struct nl_msg *m, uint16_t type);
void nl_nest_close(struct nl_msg *m, size_t at);
/* The content of the first attribute of this type in p; NULL when there is none. */
const char *nl_find(const char *p, size_t size, uint16_t type, size_t *ret_size);

/* protocol: NETLINK_ROUTE or NETLINK_NETFILTER; -1 with errno. */
int nl_open(int protocol);
/* The same inside the namespace ns_fd; comes back or stops the process. Single thread only. */
int nl_open_in(int ns_fd, int protocol);
/* Sends bytes whose last message asks for an answer; calls each for every message that is none of
 * the frame; ends at the acknowledgement, the end of a dump or an error. */
typedef void nl_each_fn(void *user, const void *msg, size_t size); /* a struct nlmsghdr */
int nl_talk(int fd, const void *bytes, size_t size, nl_each_fn *each, void *user);

int link_index(int fd, const char *name, int *ret_index); /* a name or another name; ENODEV */
int link_add_bridge(int fd, const char *name, const uint8_t mac[MAC_SIZE]);
/* It exists and carries a second name: whose it is. */
bool link_is_owned(int fd, const char *name);
int link_add_veth(int fd, const char *name, const uint8_t mac[MAC_SIZE], const char *peer,
                  const uint8_t peer_mac[MAC_SIZE], int peer_ns_fd);
int link_up(int fd, int index);
int link_master(int fd, int index, int bridge);
int link_isolate(int fd, int index); /* a bridge port: no traffic to other isolated ports */
int link_name_add(int fd, int index, const char *other_name);
int link_remove(int fd, int index);
int link_counters(int fd, const char *name, int64_t *ret_rx, int64_t *ret_tx);
/* Every link; other: its first other name, "" when it has none. */
typedef void link_each_fn(void *user, const char *name, const char *other);
int link_each(int fd, link_each_fn *each, void *user);
int addr_add(int fd, int index, uint32_t addr, uint8_t bits);
/* gateway 0: on the link itself. */
int route_add(int fd, int index, uint32_t dst, uint8_t bits, uint32_t gateway);
int neigh_set(int fd, int index, uint32_t addr, const uint8_t mac[MAC_SIZE]); /* for ever */
int neigh_remove(int fd, int index, uint32_t addr);
