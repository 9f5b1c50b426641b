#include "node/helper.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"

static enum err gone(struct helper *h, struct refusal *why)
{
    h->gone = true;
    return refusef(why, ERR_UNAVAILABLE, "why", "the root helper is gone");
}

static enum err receive(struct helper *h, utime_t until, struct priv_rep *rep, struct refusal *why)
{
    struct clock *c = clock_system();

    for (;;) {
        struct pollfd p = {.fd = h->fd, .events = POLLIN};
        utime_t left = until - c->boot_ms(c);
        int r = poll(&p, 1, (int)MAX(left, (utime_t)0));

        if (r < 0 && errno == EINTR)
            continue;
        if (r == 0)
            return refusef(why, ERR_TIMEOUT, "what", "the root helper");
        ssize_t n = recv(h->fd, rep, sizeof(*rep), MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return gone(h, why);
        if ((size_t)n != sizeof(*rep) || rep->version != PRIV_VERSION)
            return refusef(why, ERR_PROTOCOL, "why", "helper of another version");
        if (rep->serial == h->serial)
            return ERR_OK;
        /* the late answer of a call that timed out: not ours any more */
    }
}

enum err helper_call(struct helper *h, enum priv_op op, struct priv_req *req,
                     struct priv_rep *ret_rep, struct refusal *why)
{
    struct clock *c = clock_system();
    ssize_t n;

    if (h->gone)
        return gone(h, why);
    req->version = PRIV_VERSION;
    req->op = op;
    req->serial = ++h->serial;
    do {
        n = send(h->fd, req, sizeof(*req), MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(*req))
        return gone(h, why);
    TRY(receive(h, c->boot_ms(c) + HELPER_WAIT_MS, ret_rep, why));
    if (ret_rep->op != (uint32_t)op)
        return refusef(why, ERR_PROTOCOL, "why", "answer to another question");
    if (ret_rep->error != ERR_OK) {
        if (ret_rep->error >= ERR_COUNT)
            return refusef(why, ERR_PROTOCOL, "why", "unknown error of the helper");
        if (why != NULL) {
            *why = ret_rep->why;
            why->code = (enum err)ret_rep->error;
        }
        return (enum err)ret_rep->error;
    }
    return ERR_OK;
}

enum err helper_ask(struct helper *h, enum priv_op op, struct id id, struct priv_rep *ret_rep,
                    struct refusal *why)
{
    struct priv_req req = {.lease = id};

    return helper_call(h, op, &req, ret_rep, why);
}
