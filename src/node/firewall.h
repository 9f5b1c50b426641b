/* firewall.h: the node's rules, fixed when the network is made. What belongs to one instance is
 * only ever an element of a set or map:
 *
 *   host namespace, table `ip NAME`      map `ports`: (protocol, host port) → (address, guest port)
 *   node namespace, table `bridge ports` set `source`: (port's name, MAC, address) that may send
 */
#pragma once

#include "node/drivers.h"
#include "node/netlink.h"

/* Replaces our rules in both namespaces, keeps the elements. host: address of our veth's end here.
 */
enum err firewall_init(const struct node_net *n, int node_ns, uint32_t host, struct refusal *why);
enum err firewall_source_set(int node_ns, const char *port, const uint8_t mac[MAC_SIZE],
                             uint32_t address, bool allowed, struct refusal *why);
/* The published ports of an address, whole. ERR_IN_USE when a host port is somebody else's. */
enum err firewall_ports_set(const struct node_net *n, uint32_t address,
                            const struct priv_port *ports, size_t count, struct refusal *why);
/* Every published port. */
typedef void firewall_each_fn(void *user, uint32_t address, const struct priv_port *port);
void firewall_each(const struct node_net *n, firewall_each_fn *each, void *user);
void firewall_fini(const struct node_net *n);
