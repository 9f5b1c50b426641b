/* supervise.h: the tiny root of the node's processes. */
#pragma once

#include "node/config.h"

/* Keeps the helper and the agent up until SIGTERM; guests and their guards are not its children and
 * live on in any case. file: the configuration, handed on (may be NULL). Returns an exit status. */
int supervise_main(const struct node_config *cfg, const char *file);
