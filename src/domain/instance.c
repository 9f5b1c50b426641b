#include "domain/instance.h"

#define SAME INSTANCE_STATE_COUNT /* in the table: the event changes nothing */
#define Q INSTANCE_QUEUED
#define P INSTANCE_PREPARING
#define R INSTANCE_RUNNING
#define M INSTANCE_PREEMPTING
#define T INSTANCE_STOPPING
#define S INSTANCE_STOPPED
#define U INSTANCE_UNREACHABLE
#define X INSTANCE_RELEASING
#define Z INSTANCE_RELEASED
#define F INSTANCE_FAILED
#define _ SAME

/* clang-format off */
/* A table is read in columns. Of an instance that ran; one that never did takes the other way below. */
static const enum instance_state table[INSTANCE_STATE_COUNT][INSTANCE_EVENT_COUNT] = {
    /*                       placed start ready stop release fail closed erased silent heard reclaim */
    [INSTANCE_QUEUED] =      {P,    _,    _,    Z,   Z,      F,   _,     _,     _,     _,     _},
    [INSTANCE_PREPARING] =   {_,    _,    R,    T,   X,      T,   S,     _,     _,     _,     _},
    [INSTANCE_RUNNING] =     {_,    _,    _,    T,   X,      T,   S,     _,     U,     _,     M},
    [INSTANCE_PREEMPTING] =  {_,    _,    _,    T,   X,      T,   S,     _,     U,     _,     _},
    [INSTANCE_STOPPING] =    {_,    _,    _,    _,   X,      _,   S,     _,     _,     _,     _},
    [INSTANCE_STOPPED] =     {_,    P,    _,    _,   X,      _,   _,     _,     _,     _,     _},
    [INSTANCE_UNREACHABLE] = {_,    _,    _,    T,   X,      T,   S,     _,     _,     R,     _},
    [INSTANCE_RELEASING] =   {_,    _,    _,    _,   _,      _,   _,     Z,     _,     _,     _},
    [INSTANCE_RELEASED] =    {_,    _,    _,    _,   _,      _,   _,     _,     _,     _,     _},
    [INSTANCE_FAILED] =      {_,    _,    _,    _,   _,      _,   _,     _,     _,     _,     _},
};
/* clang-format on */

enum instance_state instance_next(const struct instance *cur, enum instance_event ev, bool ran)
{
    enum instance_state to;

    CHECK((size_t)cur->state < INSTANCE_STATE_COUNT && (size_t)ev < INSTANCE_EVENT_COUNT);
    to = table[cur->state][ev];
    if (!ran && cur->state == INSTANCE_PREPARING) {
        if (ev == INSTANCE_EV_STOP) /* a cancelled create: nothing of it is kept */
            to = INSTANCE_RELEASING;
        else if (ev == INSTANCE_EV_FAIL)
            to = INSTANCE_FAILED;
    }
    return to == SAME ? cur->state : to;
}

struct instance instance_decide(const struct instance *cur, enum instance_event ev, bool ran,
                                utime_t now, int64_t keep_ms)
{
    struct instance next = *cur;

    next.state = instance_next(cur, ev, ran);
    if (next.state == cur->state)
        return next;
    next.since = now;
    next.version++;
    next.kept_until = next.state == INSTANCE_STOPPED ? now + keep_ms : 0;
    return next;
}

static const char *const actions[INSTANCE_ACTION_COUNT] = {"stop",   "start",   "extend",
                                                           "resize", "release", "port open"};

const char *instance_action_name(enum instance_action a)
{
    CHECK((size_t)a < INSTANCE_ACTION_COUNT);
    return actions[a];
}

#define ACT(a) (1u << INSTANCE_ACT_##a)
static const unsigned allowed[INSTANCE_STATE_COUNT] = {
    [INSTANCE_QUEUED] = ACT(STOP) | ACT(RELEASE),
    [INSTANCE_PREPARING] = ACT(STOP) | ACT(EXTEND) | ACT(RELEASE) | ACT(PORTS),
    [INSTANCE_RUNNING] = ACT(STOP) | ACT(EXTEND) | ACT(RELEASE) | ACT(PORTS),
    [INSTANCE_PREEMPTING] = ACT(STOP) | ACT(RELEASE),
    [INSTANCE_STOPPING] = ACT(RELEASE),
    [INSTANCE_STOPPED] = ACT(START) | ACT(RESIZE) | ACT(RELEASE) | ACT(PORTS),
    [INSTANCE_UNREACHABLE] = ACT(STOP) | ACT(EXTEND) | ACT(RELEASE),
    [INSTANCE_RELEASING] = 0,
    [INSTANCE_RELEASED] = 0,
    [INSTANCE_FAILED] = 0,
};

bool instance_may(const struct instance *i, enum instance_action a)
{
    CHECK((size_t)i->state < INSTANCE_STATE_COUNT && (size_t)a < INSTANCE_ACTION_COUNT);
    return (allowed[i->state] & (1u << (unsigned)a)) != 0;
}

enum err instance_allow(const struct instance *i, enum instance_action a, struct refusal *why)
{
    char list[80] = "";
    size_t len = 0;

    if (instance_may(i, a))
        return ERR_OK;
    for (size_t n = 0; n < INSTANCE_ACTION_COUNT; n++) {
        size_t add = strlen(actions[n]);

        if (!instance_may(i, (enum instance_action)n) || len + add + 3 > sizeof(list))
            continue;
        if (len) {
            memcpy(list + len, ", ", 3);
            len += 2;
        }
        memcpy(list + len, actions[n], add + 1);
        len += add;
    }
    (void)refusef(why, ERR_STATE, "name", "%s", i->name);
    refusal_set(why, "state", instance_state_name(i->state));
    refusal_set(why, "action", instance_action_name(a));
    refusal_set(why, "actions", len ? list : "-");
    return ERR_STATE;
}

bool instance_is_gone(enum instance_state s)
{
    return s == INSTANCE_RELEASED || s == INSTANCE_FAILED;
}

bool instance_bills_gpu(enum instance_state s)
{
    return s == INSTANCE_RUNNING || s == INSTANCE_PREEMPTING;
}

bool instance_bills_disk(enum instance_state s)
{
    return instance_bills_gpu(s) || s == INSTANCE_STOPPING || s == INSTANCE_STOPPED;
}

static enum err instance_bad(const struct instance *i, const char *text, struct refusal *why)
{
    (void)refusef(why, ERR_CORRUPT, "what", "%s", i->id.s);
    refusal_set(why, "why", text);
    return ERR_CORRUPT;
}

enum err instance_check(const struct instance *i, const struct lease *l, struct refusal *why)
{
    bool holds = l && l->state != LEASE_CLOSED;

    if ((size_t)i->state >= INSTANCE_STATE_COUNT)
        return instance_bad(i, "unknown state", why);
    if (instance_bills_gpu(i->state) && (!holds || l->state != LEASE_RUNNING))
        return instance_bad(i, "running without a running lease", why);
    if (i->state == INSTANCE_PREPARING && !holds)
        return instance_bad(i, "preparing without a lease", why);
    if ((i->state == INSTANCE_STOPPED || i->state == INSTANCE_QUEUED ||
         i->state == INSTANCE_RELEASED) &&
        holds)
        return instance_bad(i, "at rest with a lease that holds devices", why);
    if (i->state == INSTANCE_STOPPED && !i->kept_until)
        return instance_bad(i, "stopped without a date when its data goes", why);
    if (i->state == INSTANCE_STOPPED && i->reason == END_NONE)
        return instance_bad(i, "stopped without a reason", why);
    return ERR_OK;
}
