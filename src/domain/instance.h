/* instance.h: the states of product.md 3 and what moves them. Pure.
 *
 * An instance follows its lease: nothing here holds devices or money. `ran` says whether any lease
 * of it was ever ready: one that never ran leaves nothing behind (a failed or cancelled create is
 * released or failed and its system disk erased), one that ran keeps its disks. */
#pragma once

#include "domain/types.h"

enum instance_event {
    INSTANCE_EV_PLACED,  /* from the queue: a lease was granted */
    INSTANCE_EV_START,   /* on its disks again: a lease was granted */
    INSTANCE_EV_READY,   /* reachable */
    INSTANCE_EV_STOP,    /* accepted from the user, or its lease ended by itself */
    INSTANCE_EV_RELEASE, /* data is to go */
    INSTANCE_EV_FAIL,    /* its lease ended before it was ready */
    INSTANCE_EV_CLOSED,  /* its node removed everything of the lease */
    INSTANCE_EV_ERASED,  /* its system disk is proven to be gone */
    INSTANCE_EV_SILENT,  /* no proof of life from its node */
    INSTANCE_EV_HEARD,
    INSTANCE_EV_RECLAIM, /* notice that the platform takes its spot cards back */
};
#define INSTANCE_EVENT_COUNT (INSTANCE_EV_RECLAIM + 1)

/* Next state, or cur->state when the event changes nothing. */
enum instance_state instance_next(const struct instance *cur, enum instance_event ev, bool ran);
/* Applies it: state, since, kept_until. keep_ms: how long a stopped disk is kept. */
struct instance instance_decide(const struct instance *cur, enum instance_event ev, bool ran,
                                utime_t now, int64_t keep_ms);

enum instance_action {
    INSTANCE_ACT_STOP,
    INSTANCE_ACT_START,
    INSTANCE_ACT_EXTEND,
    INSTANCE_ACT_RESIZE,
    INSTANCE_ACT_RELEASE,
    INSTANCE_ACT_PORTS,
};
#define INSTANCE_ACTION_COUNT (INSTANCE_ACT_PORTS + 1)
const char *instance_action_name(enum instance_action a); /* "stop" */
bool instance_may(const struct instance *i, enum instance_action a);
/* ERR_STATE with name, state, action, actions. */
enum err instance_allow(const struct instance *i, enum instance_action a, struct refusal *why);

bool instance_is_gone(enum instance_state s);   /* released or failed */
bool instance_bills_gpu(enum instance_state s); /* the card (or seat) meter runs */
bool instance_bills_disk(enum instance_state s);
enum err instance_check(const struct instance *i, const struct lease *lease_or_null,
                        struct refusal *why);
