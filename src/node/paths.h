/* paths.h: the node's folders and the forms of names that may become part of a path. */
#pragma once

#include <sys/types.h>

#include "node/drivers.h"

/* Makes what is missing and sets owners and modes. state: absolute, exists or its parent does.
 * The agent's user owns STATE/agent; everything else is root's. run and tag are not set here: they
 * are the configuration's. */
enum err paths_init(const char *state, uid_t agent_uid, gid_t agent_gid,
                    struct node_paths *ret_paths, struct refusal *why);
/* An id of ours: letters, '_', letters and digits; nothing that could leave a folder. */
bool paths_id_ok(struct id id);
/* "sha256:" and 64 small hex digits. */
bool paths_digest_ok(const char *digest);
/* A name below the agent's staging folder: no slash, no leading dot. */
bool paths_name_ok(const char *name);
