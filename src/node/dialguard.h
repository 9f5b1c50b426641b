/* dialguard.h: runs a tool and looks at every connection it opens: none goes to this machine, its
 * private networks or link-local addresses, whatever name, redirect or second look-up led there.
 * Questions to name servers (port 53) pass. The tool itself is trusted; what it talks to is not. */
#pragma once

#include <sys/socket.h>

#include "node/sys.h"

bool dialguard_forbidden(const struct sockaddr *sa);
/* As sys_tool_run(); ERR_FORBIDDEN when a connection was refused. Blocking; the kernel must have
 * seccomp notifications (5.5), else ERR_UNSUPPORTED. */
enum err dialguard_run(struct sys_tool *t, struct refusal *why);
