#include "domain/lease.h"

/* Row: state; column: event. The state after it; the same state: nothing happens. */
static const enum lease_state lease_table[LEASE_STATE_COUNT][LEASE_EVENT_COUNT] = {
    /*                  ready           stop            ended        clean */
    [LEASE_GRANTED] = {LEASE_RUNNING, LEASE_STOPPING, LEASE_ENDED, LEASE_GRANTED},
    [LEASE_RUNNING] = {LEASE_RUNNING, LEASE_STOPPING, LEASE_ENDED, LEASE_RUNNING},
    [LEASE_STOPPING] = {LEASE_STOPPING, LEASE_STOPPING, LEASE_ENDED, LEASE_STOPPING},
    [LEASE_ENDED] = {LEASE_ENDED, LEASE_ENDED, LEASE_ENDED, LEASE_CLOSED},
    [LEASE_CLOSED] = {LEASE_CLOSED, LEASE_CLOSED, LEASE_CLOSED, LEASE_CLOSED},
};

static const char *const lease_states[LEASE_STATE_COUNT] = {"granted", "running", "stopping",
                                                            "ended", "closed"};

int64_t lease_grace_ms(const struct lease *l)
{
    utime_t end = MIN(l->paid_until, l->ends_at);

    return MIN(l->grace_ms, MAX(end - l->granted_at, (utime_t)0) / 4);
}

bool lease_by_platform(enum end_reason r)
{
    return r == END_NODE_LOST || r == END_OPERATOR || r == END_RECLAIMED;
}

const char *lease_state_name(enum lease_state s)
{
    CHECK((size_t)s < LEASE_STATE_COUNT);
    return lease_states[s];
}

/* The last moment that can cost anything: money and end bound every lease. */
static utime_t lease_bound(const struct lease *l, utime_t at)
{
    return MIN(at, MIN(l->paid_until, l->ends_at));
}

static void lease_end(struct lease *l, const struct lease_event *ev, utime_t now)
{
    utime_t from = l->ready_at ? l->ready_at : l->granted_at;

    l->ended_at = MAX(from, MIN(ev->at, now));
    if (!l->stop_at) {
        l->stop_at = MAX(from, lease_bound(l, l->ended_at));
        l->reason = ev->reason;
    } else {
        l->stop_at = MIN(l->stop_at, l->ended_at);
    }
    l->exit_code = ev->exit_code;
}

enum err lease_decide(const struct lease *cur, const struct lease_event *ev, utime_t now,
                      struct lease_step *ret_step)
{
    struct lease next = *cur;
    unsigned fx = 0;

    if ((size_t)cur->state >= LEASE_STATE_COUNT || (size_t)ev->kind >= LEASE_EVENT_COUNT)
        return ERR_INTERNAL;
    next.state = lease_table[cur->state][ev->kind];
    if (next.state != cur->state) {
        switch (ev->kind) {
        case LEASE_EV_READY:
            next.ready_at = MAX(cur->granted_at, MIN(ev->at, now));
            fx = LEASE_FX_READY;
            break;
        case LEASE_EV_STOP:
            next.stop_at =
                MAX(cur->ready_at ? cur->ready_at : cur->granted_at, lease_bound(cur, now));
            next.reason = ev->reason;
            fx = LEASE_FX_STOP | LEASE_FX_TELL;
            break;
        case LEASE_EV_ENDED:
            lease_end(&next, ev, now);
            fx = LEASE_FX_STOP | LEASE_FX_SETTLE | LEASE_FX_TELL;
            break;
        case LEASE_EV_CLEAN:
            fx = LEASE_FX_FREE | LEASE_FX_TELL;
            break;
        }
    }
    ret_step->next = next;
    ret_step->effects = fx;
    return ERR_OK;
}

const char *lease_want(const struct lease *l)
{
    switch (l->state) {
    case LEASE_GRANTED:
    case LEASE_RUNNING:
        return "run";
    case LEASE_STOPPING:
        /* what never ran has nothing to save */
        return l->ready_at ? "stop" : "kill";
    case LEASE_ENDED:
        return "clean";
    case LEASE_CLOSED:
        return NULL;
    }
    return NULL;
}

static enum err lease_bad(const struct lease *l, const char *text, struct refusal *why)
{
    (void)refusef(why, ERR_CORRUPT, "what", "%s", l->id.s);
    refusal_set(why, "why", text);
    return ERR_CORRUPT;
}

enum err lease_check(const struct lease *l, struct refusal *why)
{
    if ((size_t)l->state >= LEASE_STATE_COUNT)
        return lease_bad(l, "unknown state", why);
    if (l->granted_at <= 0 || l->paid_until < l->granted_at)
        return lease_bad(l, "not paid from its grant on", why);
    if (l->ready_at && l->ready_at < l->granted_at)
        return lease_bad(l, "ready before it was granted", why);
    if (l->stop_at && l->stop_at < l->granted_at)
        return lease_bad(l, "stopped before it was granted", why);
    if (l->state == LEASE_RUNNING && (!l->ready_at || l->stop_at || l->ended_at))
        return lease_bad(l, "running but not ready, or stopped", why);
    if (l->state == LEASE_GRANTED && (l->ready_at || l->stop_at || l->ended_at))
        return lease_bad(l, "granted but ready or stopped", why);
    if (l->state >= LEASE_STOPPING && !l->stop_at)
        return lease_bad(l, "over without a stop", why);
    if (l->state >= LEASE_ENDED && (!l->ended_at || l->reason == END_NONE))
        return lease_bad(l, "ended without time or reason", why);
    if (l->ended_at && l->stop_at > l->ended_at)
        return lease_bad(l, "charged after its end", why);
    return ERR_OK;
}
