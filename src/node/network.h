/* network.h: what stands behind the seam in drivers.h, for network.c, strays.c and tests.
 *
 *   host namespace                node namespace                       guest namespace
 *   link (base+size-3) ── up0 (base+size-2) · br0 (base+1) ── g<address> ── eth0 (address/32)
 *
 * The node namespace is held by a process of its own, so that it outlives the helper; its pin
 * RUN/network/netns is only this mount namespace's handle. MACs follow from addresses and
 * neighbours are set for ever, so nothing waits for ARP and nothing can be stale. */
#pragma once

#include "node/netlink.h"
#include "node/drivers.h"

#define NETWORK_BRIDGE "br0"
#define NETWORK_UPLINK "up0"

/* The node namespace; ERR_NETWORK_SETUP when network_init has not made it. */
enum err network_open(const struct node_paths *p, int *ret_fd, struct refusal *why);
/* Whether an instance may have it. */
bool network_address_ok(const struct node_net *n, uint32_t address);
