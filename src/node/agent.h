/* agent.h: the unprivileged main loop (see docs/node-protocol.md). */
#pragma once

#include "node/config.h"

/* Runs until SIGTERM (returns 0) or until it cannot go on (returns the exit status). priv_fd is
 * its end of the SOCK_SEQPACKET pair to the helper (privmsg.h); end of file there means that the
 * helper died: return 1, the supervisor starts both again. Already the configured user. */
int agent_main(const struct node_config *cfg, int priv_fd);
