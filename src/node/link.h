/* link.h: the one HTTP request in flight to the control plane (docs/node-protocol.md), by libcurl's
 * multi interface in the agent's only thread: link_wait() is also the agent's poll(). */
#pragma once

#include <poll.h>

#include "base/err.h"

struct link;

struct link_answer {
    int status; /* HTTP status; 0: no answer (error says why) */
    char *body; /* owned by the taker; NUL-terminated */
    size_t len;
    utime_t sent_boot_ms; /* when the request went out */
    char error[160];
};

/* control: "unix:/path", "https://host:port", or "http://" to a loopback address. ca_file may be
 * "" (the system's own). The token file is read before each request, so it may be replaced.
 * Errors: ERR_USAGE, ERR_SYSTEM. ret_link is owned (link_close). */
enum err link_open(const char *control, const char *ca_file, const char *token_file,
                   struct link **ret_link, struct refusal *why);
void link_close(struct link *l);
bool link_busy(const struct link *l);
/* Sends body (taken), dropping the one in flight. wait_ms: how long the other side may hold it. */
void link_send(struct link *l, char *body, int64_t wait_ms);
void link_cancel(struct link *l);
/* Moves bytes; waits up to timeout_ms for them or for one of fds (revents are not set). */
void link_wait(struct link *l, struct pollfd *fds, size_t count, int64_t timeout_ms);
/* True once for each request that is over (not for a dropped one). */
bool link_take(struct link *l, struct link_answer *ret_answer);
/* 1-30 s, doubling with each failure in a row, jittered from half to whole. */
int64_t link_backoff_ms(uint32_t failures, uint32_t random);
