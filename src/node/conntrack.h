/* conntrack.h: ends connections that an earlier rule let in. Works in the present network
 * namespace. */
#pragma once

#include "base/err.h"

/* Forgets every tracked IPv4 connection that was turned towards address (host order) and, unless
 * guest_port is 0, came in by host_port for that port of it. Best effort: returns 0 or an errno. */
int conntrack_forget(uint32_t address, uint16_t guest_port, uint16_t host_port);
