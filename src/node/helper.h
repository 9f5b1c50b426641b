/* helper.h: the agent's side of privmsg.h: one request, one reply, in order. The helper answers
 * at once (slow work runs in its children), so a call waits at most HELPER_WAIT_MS. Single thread.
 */
#pragma once

#include "node/privmsg.h"

#define HELPER_WAIT_MS 10000

struct helper {
    int fd; /* borrowed: SOCK_SEQPACKET */
    uint64_t serial;
    bool gone; /* end of file: the helper died; nothing will work any more */
};

/* Fills version, op and serial of req. Errors: what the helper refused (why filled),
 * ERR_UNAVAILABLE (gone), ERR_TIMEOUT (its answer is dropped when it comes), ERR_PROTOCOL. */
enum err helper_call(struct helper *h, enum priv_op op, struct priv_req *req,
                     struct priv_rep *ret_rep, struct refusal *why);
/* A request with nothing but the id. */
enum err helper_ask(struct helper *h, enum priv_op op, struct id id, struct priv_rep *ret_rep,
                    struct refusal *why);
