/* privcheck.h: the door of the root helper. Nothing of a request is used before it passed. Pure:
 * no system call, so that a fuzzer can run it. */
#pragma once

#include "node/config.h"
#include "node/gpu.h"

/* All fields that the operation uses have their form and are inside this node's own ranges and
 * inventory; afterwards req->text is NUL-terminated and every string inside it ends. */
enum err priv_check(struct priv_req *req, const struct node_config *cfg,
                    const struct gpu_list *gpus, struct refusal *why);
