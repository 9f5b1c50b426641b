/* syscalls.h: the two filters: the guest's (written into the runtime's configuration, published as
 * data/seccomp.def) and the guard's own. */
#pragma once

#include "base/json.h"

/* The value of "seccomp" in an OCI configuration. */
void seccomp_guest_write(struct json_writer *w);
/* For good, on the calling process: what a guard needs once it has its descriptors. */
enum err seccomp_guard_apply(struct refusal *why);
