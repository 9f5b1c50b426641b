/* lease.h: the life of one lease. Pure.
 *
 *   GRANTED  --ready-->  RUNNING  --stop-->  STOPPING  --ended-->  ENDED  --clean-->  CLOSED
 *      \________________________stop, ended___/                      (never skipped: devices are
 *                                                                     free when the node proved it)
 * Money: cards count from ready to the first of stop, ended, paid_until, ends_at. A stop is never
 * moved later, an end never before the grant and never in the future. What is said twice, or too
 * late, changes nothing. */
#pragma once

#include "domain/types.h"

enum lease_event_kind { LEASE_EV_READY, LEASE_EV_STOP, LEASE_EV_ENDED, LEASE_EV_CLEAN };
#define LEASE_EVENT_COUNT (LEASE_EV_CLEAN + 1)
#define LEASE_STATE_COUNT (LEASE_CLOSED + 1)

struct lease_event {
    enum lease_event_kind kind;
    utime_t at; /* when it happened, ledger clock; the node's claim is clamped here */
    enum end_reason reason;
    int32_t exit_code;
};

enum lease_effect {
    LEASE_FX_READY = 1,  /* card seconds count from next.ready_at */
    LEASE_FX_STOP = 2,   /* they count up to next.stop_at */
    LEASE_FX_SETTLE = 4, /* evidence is complete: post it, release the hold */
    LEASE_FX_FREE = 8,   /* cards and seat are free again */
    LEASE_FX_TELL = 16,  /* something else is wanted of the node now */
};

struct lease_step {
    struct lease next;
    unsigned effects;
};
/* ERR_OK also when nothing changes (effects 0). */
enum err lease_decide(const struct lease *cur, const struct lease_event *ev, utime_t now,
                      struct lease_step *ret_step);
/* What the node is to do with it: "run", "stop", "kill", "clean"; NULL: it need not be named. */
const char *lease_want(const struct lease *l);
/* How long before the hard end the stop signal goes out: the lease's grace, but never more than a
 * quarter of all the time it has, so that a rental of seconds is not signalled before it runs. */
int64_t lease_grace_ms(const struct lease *l);
/* Not the renter's doing: what was stopped so costs nothing (money.md 1.8). */
bool lease_by_platform(enum end_reason r);
const char *lease_state_name(enum lease_state s);
/* Its invariants; ERR_CORRUPT with what and why. */
enum err lease_check(const struct lease *l, struct refusal *why);
