#include "domain/types.h"

static const char *const instance_states[INSTANCE_STATE_COUNT] = {
    "queued",  "preparing",   "running",   "preempting", "stopping",
    "stopped", "unreachable", "releasing", "released",   "failed"};

static const char *const end_reasons[END_REASON_COUNT] = {
    "none",      "user_stop", "user_release", "end_reached", "idle",    "budget",       "balance",
    "reclaimed", "node_lost", "guest_exit",   "guest_oom",   "gpu_oom", "start_failed", "operator"};

static const char *const meters[METER_COUNT] = {
    "gpu", "cpu", "disk", "disk_stopped", "disk_detached", "egress", "node", "ingress"};

static const char *const roles[] = {"none", "viewer", "member", "owner", "supplier", "operator"};

static const char *const plans[] = {"on_demand", "spot", "day", "week", "month", "year"};

static bool find_name(const char *const *names, size_t count, const char *name, size_t *ret_i)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) {
            *ret_i = i;
            return true;
        }
    return false;
}

const char *instance_state_name(enum instance_state s)
{
    CHECK((size_t)s < ARRAY_LEN(instance_states));
    return instance_states[s];
}

bool instance_state_find(const char *name, enum instance_state *ret_s)
{
    size_t i;

    if (!find_name(instance_states, ARRAY_LEN(instance_states), name, &i))
        return false;
    *ret_s = (enum instance_state)i;
    return true;
}

const char *end_reason_name(enum end_reason r)
{
    CHECK((size_t)r < ARRAY_LEN(end_reasons));
    return end_reasons[r];
}

bool end_reason_find(const char *name, enum end_reason *ret_r)
{
    size_t i;

    if (!find_name(end_reasons, ARRAY_LEN(end_reasons), name, &i))
        return false;
    *ret_r = (enum end_reason)i;
    return true;
}

bool meter_is_traffic(enum meter m)
{
    return m == METER_EGRESS || m == METER_INGRESS;
}

const char *meter_name(enum meter m)
{
    CHECK((size_t)m < ARRAY_LEN(meters));
    return meters[m];
}

const char *role_name(enum role r)
{
    CHECK((size_t)r < ARRAY_LEN(roles));
    return roles[r];
}

bool role_find(const char *name, enum role *ret_r)
{
    size_t i;

    if (!find_name(roles, ARRAY_LEN(roles), name, &i))
        return false;
    *ret_r = (enum role)i;
    return true;
}

const char *plan_name(enum plan p)
{
    CHECK((size_t)p < ARRAY_LEN(plans));
    return plans[p];
}
