/* op_reclaim.c: the operator takes the cards of a spot run back. */
#include "app/ask.h"
#include "app/funds_spot.h"
#include "app/lifecycle.h"
#include "app/op_people.h"
#include "app/view.h"
#include "base/msg.h"
#include "store/rows_plan.h"

/* By its id, of whatever project; by its name, of the project that was named or the caller's. */
static enum err find(struct op *op, struct instance *ret_i)
{
    const char *name = people_arg(op, "project", NULL);
    struct id id = {""}, project = op->who.project;
    struct project p;

    if (str_copy(id.s, sizeof(id.s), op->path_arg[0]) &&
        store_instance_get_any(op->store, id, ret_i) == ERR_OK)
        return ERR_OK;
    if (name) {
        TRY(store_project_lookup(op->store, name, &p, &op->why));
        project = p.id;
    }
    return store_instance_lookup(op->store, project, op->path_arg[0], ret_i, &op->why);
}

static enum err refuse_reclaim(struct op *op, const struct instance *i)
{
    (void)refusef(&op->why, ERR_STATE, "name", "%s", i->name);
    refusal_set(&op->why, "state", instance_state_name(i->state));
    refusal_set(&op->why, "action", "reclaim");
    refusal_set(&op->why, "actions", "-");
    return ERR_STATE;
}

enum err op_instance_reclaim(struct op *op)
{
    const char *reason = people_arg(op, "reason", "");
    struct reclaim_row told;
    struct instance i;
    struct spot_row spot;

    TRY(find(op, &i));
    (void)str_copy(op->object, sizeof(op->object), i.id.s);
    if (!str_copy(told.reason, sizeof(told.reason), reason))
        return people_invalid(op, "reason", N_("is too long"));
    if (i.plan != PLAN_SPOT || spot_row_get(op->store, i.id, &spot) != ERR_OK)
        return refusef(&op->why, ERR_NOT_SPOT, "name", "%s", i.name);
    bool already = i.lease.s[0] ? reclaim_row_get(op->store, i.lease, &told) == ERR_OK
                                : i.reason == END_RECLAIMED;
    if (already)
        return view_instance(op, NULL, &i); /* the first decision stands, also when all is over */
    if (!i.lease.s[0] || i.state == INSTANCE_STOPPING || i.state == INSTANCE_RELEASING)
        return refuse_reclaim(op, &i);
    TRY(life_reclaim(op, &i, spot.free_within_s, reason));
    TRY(store_instance_get_any(op->store, i.id, &i));
    return view_instance(op, NULL, &i);
}
