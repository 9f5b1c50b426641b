/* setup.h: what happens to a store beside serving it: its lock, the first operator, restoring a
 * copy. */
#pragma once

#include "daemon/config.h"
#include "store/store.h"

/* Takes STORE.lock for the life of the process, so that a second daemon refuses. ret_fd: owned,
 * keep it open. ERR_IN_USE {what, name, by}: by tells which process holds it since when. */
enum err setup_lock(const struct daemon_config *c, int *ret_fd, struct refusal *why);
/* Opens for writing and brings the schema up to date. The lock is held. */
enum err setup_store(const struct daemon_config *c, struct store **ret_s, struct refusal *why);
/* Loads the billing zones of the configuration and of every project. Before any second thread.
 * ERR_VALIDATION {field, why}: one is not in the system's tz database. */
enum err setup_zones(const struct daemon_config *c, struct store *store, struct refusal *why);
/* What the configuration says about content: prices when there are none yet, the default image. */
enum err setup_content(const struct daemon_config *c, struct store *store, struct refusal *why);

/* suanlid admin-code: makes the operator "admin" when there is none and a one-time login code for
 * him, printed on stdout. While a daemon runs it hands the code's hash over by a file beside the
 * store that only the daemon's user can write. */
enum err setup_admin_code(const struct daemon_config *c, struct refusal *why);
/* suanlid restore: checks the copy, puts it in the place of the store (the old one is kept beside
 * it) and marks it: no new leases until every node reported. */
enum err setup_restore(const struct daemon_config *c, const char *file, struct refusal *why);
