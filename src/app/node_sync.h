/* node_sync.h: the control plane's side of docs/node-protocol.md. A report is taken in a command of
 * its own (op_node_sync); the answer is written from what is committed. */
#pragma once

#include "app/core.h"

#define NODE_WAIT_MS_MAX 60000

int64_t node_sync_wait_ms(const struct core_request *r);
int64_t node_sync_seen(const struct core_request *r);
/* What should be on the node of op->who. op->now: when its request arrived. */
enum err node_want_write(struct op *op);
