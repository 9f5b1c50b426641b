/* priv.h: the root helper's main loop. */
#pragma once

#include "node/config.h"

/* In the private mount namespace, as root. Serves fd (privmsg.h) until its other end is gone
 * (returns 0). Guards live on without it. */
int priv_main(const struct node_config *cfg, int fd);
