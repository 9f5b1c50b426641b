/* cgroup.h: what guard and container need beside the seam in drivers.h. */
#pragma once

#include "node/drivers.h"

/* The process is in a cgroup of this lease. */
bool cgroup_has(struct id lease, int pid);
/* SIGKILL to all in it; returns when it is empty or will not get so in 100 ms. */
void cgroup_kill(struct id lease);
