/* serve.h: the wiring of suanlid: HTTP in front, one core thread that owns the writing store,
 * readers with their own read-only connections, one thread that feeds streams.
 *
 *   HTTP thread: route, arguments, credentials → bounded queue (full: 503)
 *   core thread: authn, authz → core_submit → core_run_batch → answers after the commit
 *   reader:      authn, authz → core_read, or opens a feed and hands it to the feed thread */
#pragma once

#include "daemon/config.h"
#include "store/store.h"

struct serve;
/* Everything up and answering when it returns. store: TAKE, migrated, its lock held. */
enum err serve_start(const struct daemon_config *config, struct store *store, struct serve **ret_s,
                     struct refusal *why);
uint16_t serve_port(const struct serve *s);
/* True when the store broke or the core gave up: the process should end. */
bool serve_failed(const struct serve *s);
/* Answers what is under way, then stops all threads and closes the store. */
void serve_stop(struct serve *s);
