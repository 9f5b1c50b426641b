/* reconcile.h: what a node does next, from what is wanted, what its journal says and what it finds.
 *
 * Pure and level-triggered: the same table gives the same actions; when nothing is left to do the
 * list is empty. A row is filled by the agent from three sources and thrown away after the pass.
 * Times are boot-time ms of the node.
 *
 * Laws (tests/unit/test_reconcile.c): nothing happens for an epoch below the journal's; an ended
 * (lease, epoch) is never started; a guest starts only when its image and all its disks are there;
 * a lease that nobody names is not touched, except that its own end still comes; a disk that was
 * erased or is being erased is never handed to a guest; repeated passes converge. */
#pragma once

#include "domain/types.h"

#define RECONCILE_LEASES_MAX 256
#define RECONCILE_DISKS_MAX 512
#define RECONCILE_IMAGES_MAX 64
#define RECONCILE_ACTIONS_MAX                                                                      \
    (2 * RECONCILE_LEASES_MAX + RECONCILE_DISKS_MAX + RECONCILE_IMAGES_MAX)

enum rec_want { REC_UNNAMED, REC_RUN, REC_STOP, REC_KILL, REC_CLEAN };
/* What the journal says of the lease. */
enum rec_phase {
    REC_NONE,
    REC_NEW,     /* taken; nothing was asked of the helper */
    REC_STARTED, /* the start was ordered (written before the order) */
    REC_ENDED,   /* over for good in this epoch */
};
enum rec_guest { REC_GUEST_NONE, REC_GUEST_PREPARING, REC_GUEST_RUNNING, REC_GUEST_ENDED };
enum rec_item { REC_ITEM_NONE, REC_ITEM_WORKING, REC_ITEM_READY, REC_ITEM_FAILED };
enum rec_disk_state {
    REC_DISK_NONE,
    REC_DISK_READY,
    REC_DISK_ATTACHED,
    REC_DISK_ERASING,
    REC_DISK_ERASED,
    REC_DISK_BROKEN,
};
enum rec_disk_want { REC_DISK_UNNAMED, REC_DISK_PRESENT, REC_DISK_GONE };

struct rec_lease {
    struct id lease;
    enum rec_want want;
    int64_t want_epoch;
    utime_t paid_until, ends_at; /* as last told; UTIME_NEVER: none */
    int64_t grace_ms;
    char image[DIGEST_SIZE];
    struct id disks[INSTANCE_DISKS_MAX + 1];
    int32_t disk_count;
    /* journal */
    enum rec_phase phase;
    int64_t epoch;
    bool was_ready;  /* the guest was seen reachable in this epoch */
    bool cleaned;    /* nothing of it is left */
    bool settled;    /* all its slices are acknowledged, its end was told */
    bool idle_due;   /* the idle rule asks for the stop */
    bool devices_ok; /* its cards are here and healthy; looked at before a start only */
    /* found */
    bool found; /* the helper answered about it: an unknown guest state is never acted upon */
    enum rec_guest guest;
    int64_t guest_epoch;
    utime_t guard_soft, guard_hard; /* what its guard enforces now */
    enum rec_want asked;            /* REC_STOP or REC_KILL already sent, else REC_UNNAMED */
};

struct rec_disk {
    struct id disk;
    enum rec_disk_want want;
    int64_t want_mib;
    bool found;
    enum rec_disk_state state;
    int64_t size_mib;
    enum err fail; /* of the last try to make it; ERR_OK: none */
    bool retry;    /* no order under way, and no failure or its back-off is over */
};

struct rec_image {
    char digest[DIGEST_SIZE];
    bool want;
    enum rec_item state;
    bool retry; /* no failure, its back-off is over, or a lease came that was not told of it */
};

enum rec_action_kind {
    REC_TAKE,      /* lease: write it into the journal with want_epoch */
    REC_START,     /* lease: journal, then order the start with its deadlines */
    REC_DEADLINE,  /* lease: tell the guard soft and hard */
    REC_ASK_STOP,  /* lease: signal now, kill after the grace */
    REC_ASK_KILL,  /* lease: at once */
    REC_END,       /* lease: journal its end, reason in `end` (END_NONE: from what is found) */
    REC_REMOVE,    /* lease: remove all that is left of it */
    REC_FORGET,    /* lease: drop the record */
    REC_DISK_MAKE, /* disk: create or grow to want_mib */
    REC_DISK_ERASE,
    REC_DISK_FORGET,
    REC_IMAGE_FETCH,
    REC_IMAGE_REMOVE,
};

struct rec_action {
    enum rec_action_kind kind;
    size_t index; /* of the row in the table its kind names */
    utime_t soft, hard;
    enum end_reason end;
    enum err why;           /* REC_END with END_START_FAILED: the error shown */
    char name[DIGEST_SIZE]; /* its parameter: image digest or disk id */
};

struct rec_table {
    struct rec_lease leases[RECONCILE_LEASES_MAX];
    size_t lease_count;
    struct rec_disk disks[RECONCILE_DISKS_MAX];
    size_t disk_count;
    struct rec_image images[RECONCILE_IMAGES_MAX];
    size_t image_count;
    bool online_grow;
};

struct rec_actions {
    struct rec_action at[RECONCILE_ACTIONS_MAX];
    size_t count;
};

void reconcile_decide(const struct rec_table *t, utime_t now, struct rec_actions *ret_actions);
/* The two ends of a lease: hard = min(paid, ends); the signal a grace earlier, never before 0. */
void reconcile_deadline(const struct rec_lease *l, utime_t *ret_soft, utime_t *ret_hard);
/* balance where the money ends first, else end_reached */
enum end_reason reconcile_deadline_reason(utime_t paid_until, utime_t ends_at);
