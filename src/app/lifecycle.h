/* lifecycle.h: the one place where instances, leases, disks and money move together. Called by
 * operations, node reports and ticks, always inside a savepoint of the core's transaction. The
 * rules are in domain/instance.h, lease.h and place.h; money is funds.h.
 *
 * Errors: refusals in op->why; ERR_STORE (the core fills the reason). */
#pragma once

#include "app/core.h"
#include "app/funds.h"
#include "app/market.h"
#include "domain/instance.h"
#include "domain/lease.h"
#include "domain/place.h"
#include "store/store.h"

/* What it runs with: its shape, or a small seat on the same disks when started without cards. */
struct shape life_run_shape(const struct core_config *cfg, const struct instance *i);
/* Whose budgets it counts for. */
void life_spender(const struct instance *i, struct funds_spender *ret_s);
/* The same as a question about money. for_s 0: no end. */
enum err life_ask(struct op *op, const struct instance *i, int64_t for_s,
                  struct funds_ask *ret_ask);
/* Seconds from now to its end; 0: no end. */
int64_t life_for_s(const struct op *op, const struct instance *i);

/* Places the instance, holds its first term, grants a lease and tells the node: or changes nothing
 * that the savepoint would not undo. ev: INSTANCE_EV_PLACED or _START. Saves the instance.
 * ERR_CAPACITY_NONE, ERR_CAPACITY_NEVER, ERR_IMAGE_DRIVER, ERR_CLOCK_STEP, ERR_BALANCE, ERR_BUDGET.
 */
enum err life_grant(struct op *op, struct instance *i, enum instance_event ev);
/* The same on that node only; empty: on any. */
enum err life_grant_on(struct op *op, struct instance *i, enum instance_event ev, struct id node);
/* Only the question: where would it go, and why nowhere. */
enum err life_place(struct op *op, const struct instance *i, struct place_result *ret_r,
                    struct node *ret_node);
/* All nodes with what is taken there. */
struct life_pool {
    struct node_list nodes; /* owned */
    struct place_node *at;  /* owned */
    struct place_why *why;  /* owned */
    struct market market;
};
enum err life_pool_load(struct op *op, struct life_pool *p);
void life_pool_fini(struct life_pool *p);
/* What the instance asks of a node. ret_image owns texts of the answer. ERR_VALIDATION: its disks
 * are on two nodes. */
enum err life_place_ask(struct op *op, const struct instance *i, struct image *ret_image,
                        struct place_ask *ret_ask);
/* A free host port of the node for every published port that has none yet. */
enum err life_ports(struct op *op, struct instance *i, const struct node *n);

/* Something happened to a lease (its node said so, a user, a deadline). why: of a failed start, or
 * NULL. l is the row; updated and saved, with all that follows for its instance and money. */
enum err life_lease(struct op *op, struct lease *l, const struct lease_event *ev,
                    const struct refusal *why);
/* i->ends_at was moved: saves it and tells its lease and node. ERR_BALANCE, ERR_BUDGET. */
enum err life_end_set(struct op *op, const struct instance *i);
/* Stop and release as accepted now; i is updated and saved. */
enum err life_stop(struct op *op, struct instance *i, enum end_reason reason);
enum err life_release(struct op *op, struct instance *i, bool with_disks, enum end_reason reason);

/* The platform takes a spot run back: it gets its notice and ends after it; one that is not reachable
 * ends now. Whatever ends it from here on, it was reclaimed. i is a live spot instance that was not
 * taken back yet; updated and saved. reason: said to the renter, "": nothing; borrowed. */
enum err life_reclaim(struct op *op, struct instance *i, int64_t free_within_s, const char *reason);
enum err life_disk_ready(struct op *op, struct disk *d);
/* To be erased: free of charge from now on. It must not be in a live lease. */
enum err life_disk_erase(struct op *op, struct disk *d);
enum err life_disk_erased(struct op *op, struct disk *d, const char *method, int64_t bytes,
                          int64_t ms);
/* Why a lease ended at paid_until: the budget, the balance, or nobody could renew it in time. */
enum end_reason life_unpaid_reason(const struct lease *l);

enum err life_node_silent(struct op *op, struct node *n);
/* It spoke again: gaps end here. Instances come back when it says that they run. */
enum err life_node_heard(struct op *op, struct node *n);
/* Its node says that the lease runs. */
enum err life_lease_alive(struct op *op, const struct lease *l);
