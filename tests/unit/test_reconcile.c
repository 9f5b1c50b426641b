#include "../support/tap.h"

#include "base/str.h"
#include "domain/reconcile.h"

/* A model of one machine: a helper that does what it is told after a while, an agent that keeps a
 * journal and may lose everything else, a control plane that changes its mind. */
#define LEASES 4
#define DISKS 6

struct world {
    uint64_t seed;
    utime_t now;
    struct rec_table t; /* rows double as the truth: journal and machine */
    int starts[LEASES]; /* of the current epoch */
    bool ended_once[LEASES];
    int64_t ended_epoch[LEASES];
};

static uint64_t draw(struct world *w, uint64_t below)
{
    w->seed = w->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (w->seed >> 33) % below;
}

static void world_init(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    w->seed = seed;
    w->now = 1000;
    w->t.lease_count = LEASES;
    w->t.disk_count = DISKS;
    w->t.image_count = 1;
    w->t.online_grow = true;
    (void)str_copy(w->t.images[0].digest, DIGEST_SIZE, "sha256:x");
    w->t.images[0].want = true;
    w->t.images[0].retry = true;
    for (size_t i = 0; i < DISKS; i++) {
        (void)str_printf(w->t.disks[i].disk.s, ID_SIZE, "dsk_%zu", i);
        w->t.disks[i].want = REC_DISK_PRESENT;
        w->t.disks[i].want_mib = 100;
        w->t.disks[i].found = true;
        w->t.disks[i].retry = true;
    }
    for (size_t i = 0; i < LEASES; i++) {
        struct rec_lease *l = &w->t.leases[i];

        (void)str_printf(l->lease.s, ID_SIZE, "lea_%zu", i);
        l->want = REC_RUN;
        l->want_epoch = 1;
        l->paid_until = 100000;
        l->ends_at = UTIME_NEVER;
        l->grace_ms = 30;
        (void)str_copy(l->image, DIGEST_SIZE, "sha256:x");
        l->disks[0] = w->t.disks[i].disk;
        l->disk_count = 1;
        l->devices_ok = true;
        l->found = true;
    }
}

static struct rec_disk *world_disk(struct world *w, size_t lease)
{
    return &w->t.disks[lease];
}

static void start_check(struct world *w, size_t i, const struct rec_action *x)
{
    struct rec_lease *l = &w->t.leases[i];
    struct rec_disk *d = world_disk(w, i);

    assert_true(l->phase == REC_NEW || l->phase == REC_STARTED);
    assert_false(w->ended_once[i] && w->ended_epoch[i] >= l->epoch);
    assert_int_equal(l->want_epoch, l->epoch);
    assert_int_equal(l->want, REC_RUN);
    assert_int_equal(w->t.images[0].state, REC_ITEM_READY);
    assert_true(d->state == REC_DISK_READY || d->state == REC_DISK_ATTACHED);
    assert_true(d->want == REC_DISK_PRESENT);
    assert_true(x->hard > w->now);
    assert_true(x->soft <= x->hard);
    l->phase = REC_STARTED;
    if (draw(w, 10) == 0)
        return; /* killed between the journal and the order */
    l->guest = REC_GUEST_PREPARING;
    l->guest_epoch = l->epoch;
    l->guard_soft = x->soft;
    l->guard_hard = x->hard;
    d->state = REC_DISK_ATTACHED;
    w->starts[i]++;
}

static void lease_apply(struct world *w, const struct rec_action *x)
{
    struct rec_lease *l = &w->t.leases[x->index];

    if (x->kind == REC_TAKE) {
        assert_true(l->want_epoch > l->epoch || l->phase == REC_NONE);
        if (l->phase == REC_NONE || l->phase == REC_ENDED) {
            l->phase = l->guest == REC_GUEST_RUNNING ? REC_STARTED : REC_NEW;
            l->cleaned = l->settled = l->was_ready = false;
            l->asked = REC_UNNAMED;
            w->starts[x->index] = 0;
        }
        l->epoch = l->want_epoch;
    } else if (x->kind == REC_START) {
        start_check(w, x->index, x);
    } else if (x->kind == REC_DEADLINE) {
        assert_int_equal(l->want_epoch, l->epoch);
        l->guard_soft = x->soft;
        l->guard_hard = x->hard;
    } else if (x->kind == REC_ASK_STOP || x->kind == REC_ASK_KILL) {
        bool due = MIN(l->paid_until, l->ends_at) < w->now;

        assert_true(due || l->idle_due || (l->want != REC_UNNAMED && l->want != REC_RUN));
        assert_true(due || l->want_epoch == l->epoch || l->idle_due);
        l->asked = x->kind == REC_ASK_STOP ? REC_STOP : REC_KILL;
        l->guard_hard = MIN(l->guard_hard, w->now + (x->kind == REC_ASK_STOP ? l->grace_ms : 0));
    } else if (x->kind == REC_END) {
        assert_true(l->phase == REC_NEW || l->phase == REC_STARTED);
        l->phase = REC_ENDED;
        w->ended_once[x->index] = true;
        w->ended_epoch[x->index] = l->epoch;
    } else if (x->kind == REC_REMOVE) {
        l->guest = REC_GUEST_NONE;
        l->cleaned = true;
        if (world_disk(w, x->index)->state == REC_DISK_ATTACHED)
            world_disk(w, x->index)->state = REC_DISK_READY;
    } else if (x->kind == REC_FORGET) {
        assert_true(l->cleaned && l->settled);
        l->phase = REC_NONE;
        l->epoch = 0;
        l->cleaned = l->settled = false;
    }
}

static void apply(struct world *w, const struct rec_action *x)
{
    if (x->kind == REC_DISK_MAKE) {
        w->t.disks[x->index].size_mib = w->t.disks[x->index].want_mib;
        if (w->t.disks[x->index].state == REC_DISK_NONE)
            w->t.disks[x->index].state = REC_DISK_READY;
    } else if (x->kind == REC_DISK_ERASE) {
        assert_int_equal(w->t.disks[x->index].want, REC_DISK_GONE);
        assert_int_not_equal(w->t.disks[x->index].state, REC_DISK_ATTACHED);
        w->t.disks[x->index].state = REC_DISK_ERASING;
        w->t.disks[x->index].retry = false;
    } else if (x->kind == REC_DISK_FORGET) {
        assert_int_equal(w->t.disks[x->index].state, REC_DISK_ERASED);
        w->t.disks[x->index].state = REC_DISK_NONE;
    } else if (x->kind == REC_IMAGE_FETCH) {
        w->t.images[0].state = REC_ITEM_WORKING;
    } else if (x->kind == REC_IMAGE_REMOVE) {
        for (size_t i = 0; i < LEASES; i++)
            assert_true(w->t.leases[i].guest == REC_GUEST_NONE);
        w->t.images[0].state = REC_ITEM_NONE;
    } else {
        lease_apply(w, x);
    }
}

/* What the machine does by itself: work goes on, guards enforce, guests exit. */
static void world_live(struct world *w, bool calm)
{
    w->now += 10;
    for (size_t i = 0; i < LEASES; i++) {
        struct rec_lease *l = &w->t.leases[i];

        if (l->guest == REC_GUEST_PREPARING && draw(w, 2) == 0) {
            l->guest = REC_GUEST_RUNNING;
            l->was_ready = true;
        }
        if (l->guest != REC_GUEST_NONE && (w->now >= l->guard_hard || (!calm && draw(w, 40) == 0)))
            l->guest = REC_GUEST_ENDED;
        if (l->phase == REC_ENDED)
            l->settled = true;
    }
    /* Only what was ordered goes on; who works at it may die with the disk half erased. */
    for (size_t i = 0; i < DISKS; i++) {
        struct rec_disk *d = &w->t.disks[i];

        if (d->state != REC_DISK_ERASING || draw(w, 2) != 0)
            continue;
        if (!d->retry && (calm || draw(w, 4) != 0))
            d->state = REC_DISK_ERASED;
        d->retry = true;
    }
    if (w->t.images[0].state == REC_ITEM_WORKING && draw(w, 2) == 0)
        w->t.images[0].state = REC_ITEM_READY;
}

/* A forgotten lease leaves its epoch behind, so that being named again does not revive it. */
static void tombs_apply(struct world *w)
{
    for (size_t i = 0; i < LEASES; i++) {
        struct rec_lease *l = &w->t.leases[i];

        if (l->phase == REC_NONE && l->want != REC_UNNAMED && w->ended_once[i]) {
            l->phase = REC_ENDED;
            l->epoch = w->ended_epoch[i];
            l->cleaned = l->settled = true;
        }
    }
}

static void world_wish(struct world *w)
{
    struct rec_lease *l = &w->t.leases[draw(w, LEASES)];

    l->want = (enum rec_want)draw(w, 5);
    l->want_epoch = (int64_t)draw(w, 4);
    l->paid_until = w->now + (utime_t)draw(w, 2000);
    l->ends_at = draw(w, 2) == 0 ? UTIME_NEVER : w->now + (utime_t)draw(w, 2000);
    l->found = draw(w, 10) != 0;
    l->idle_due = draw(w, 20) == 0;
    if (draw(w, 10) == 0)
        w->t.images[0].want = draw(w, 2) == 0;
    if (draw(w, 10) == 0)
        w->t.disks[draw(w, DISKS)].want = (enum rec_disk_want)draw(w, 3);
}

static void test_random_wishes_keep_the_laws_and_settle(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world w;
        struct rec_actions a, again;

        world_init(&w, seed);
        for (int step = 0; step < 400; step++) {
            if (draw(&w, 5) == 0)
                world_wish(&w);
            tombs_apply(&w);
            reconcile_decide(&w.t, w.now, &a);
            reconcile_decide(&w.t, w.now, &again);
            assert_int_equal(a.count, again.count);
            for (size_t i = 0; i < a.count; i++) {
                apply(&w, &a.at[i]);
                if (draw(&w, 50) == 0)
                    break; /* killed here: the rest of the pass is lost */
            }
            world_live(&w, false);
        }
        for (size_t i = 0; i < LEASES; i++) {
            w.t.leases[i].found = true;
            w.t.leases[i].paid_until = w.now + 1000000;
            w.t.leases[i].ends_at = UTIME_NEVER;
        }
        for (int step = 0; step < 60; step++) {
            tombs_apply(&w);
            reconcile_decide(&w.t, w.now, &a);
            for (size_t i = 0; i < a.count; i++)
                apply(&w, &a.at[i]);
            world_live(&w, true);
        }
        tombs_apply(&w);
        reconcile_decide(&w.t, w.now, &a);
        assert_int_equal(a.count, 0);
    }
}

static size_t kinds(const struct rec_actions *a, enum rec_action_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < a->count; i++)
        n += a->at[i].kind == kind ? 1 : 0;
    return n;
}

static void test_a_guest_waits_for_its_disk_and_image(void **state)
{
    struct world w;
    struct rec_actions a;

    (void)state;
    world_init(&w, 1);
    w.t.lease_count = 1;
    w.t.leases[0].phase = REC_NEW;
    w.t.leases[0].epoch = 1;
    reconcile_decide(&w.t, w.now, &a);
    assert_int_equal(kinds(&a, REC_START), 0);
    assert_int_equal(kinds(&a, REC_IMAGE_FETCH), 1);
    assert_int_equal(kinds(&a, REC_DISK_MAKE), DISKS);
    w.t.images[0].state = REC_ITEM_READY;
    reconcile_decide(&w.t, w.now, &a);
    assert_int_equal(kinds(&a, REC_START), 0);
    w.t.disks[0].state = REC_DISK_READY;
    w.t.disks[0].size_mib = 100;
    reconcile_decide(&w.t, w.now, &a);
    assert_int_equal(kinds(&a, REC_START), 1);
}

static void test_a_failed_image_ends_the_lease_before_it_ran(void **state)
{
    struct world w;
    struct rec_actions a;

    (void)state;
    world_init(&w, 1);
    w.t.lease_count = 1;
    w.t.leases[0].phase = REC_NEW;
    w.t.leases[0].epoch = 1;
    w.t.images[0].state = REC_ITEM_FAILED;
    w.t.images[0].retry = false;
    reconcile_decide(&w.t, w.now, &a);
    assert_int_equal(kinds(&a, REC_END), 1);
    assert_int_equal(kinds(&a, REC_START), 0);
}

static void test_the_end_comes_for_a_lease_nobody_names(void **state)
{
    struct world w;
    struct rec_actions a;

    (void)state;
    world_init(&w, 1);
    w.t.lease_count = 1;
    struct rec_lease *l = &w.t.leases[0];
    l->phase = REC_STARTED;
    l->epoch = 1;
    l->want = REC_UNNAMED;
    l->guest = REC_GUEST_RUNNING;
    reconcile_decide(&w.t, 1000, &a);
    assert_int_equal(kinds(&a, REC_ASK_KILL), 0);
    reconcile_decide(&w.t, 100001, &a);
    assert_int_equal(kinds(&a, REC_ASK_KILL), 1);
}

static void test_the_signal_comes_a_grace_before_the_nearer_end(void **state)
{
    struct rec_lease l = {.paid_until = 5000, .ends_at = 9000, .grace_ms = 300};
    utime_t soft, hard;

    (void)state;
    reconcile_deadline(&l, &soft, &hard);
    assert_int_equal(hard, 5000);
    assert_int_equal(soft, 4700);
    assert_int_equal(reconcile_deadline_reason(5000, 9000), END_BALANCE);
    assert_int_equal(reconcile_deadline_reason(9000, 9000), END_REACHED);
    l.paid_until = l.ends_at = UTIME_NEVER;
    reconcile_deadline(&l, &soft, &hard);
    assert_true(hard == UTIME_NEVER && soft == UTIME_NEVER);
}

static void test_a_disk_whose_eraser_died_is_erased_again(void **state)
{
    struct world w;
    struct rec_actions a;

    (void)state;
    world_init(&w, 1);
    w.t.disks[0].want = REC_DISK_GONE;
    w.t.disks[0].state = REC_DISK_ERASING;
    w.t.disks[0].retry = false; /* ordered, under way */
    reconcile_decide(&w.t, w.now, &a);
    assert_int_equal(kinds(&a, REC_DISK_ERASE), 0);
    w.t.disks[0].retry = true;
    reconcile_decide(&w.t, w.now, &a);
    assert_int_equal(kinds(&a, REC_DISK_ERASE), 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_disk_whose_eraser_died_is_erased_again),
    cmocka_unit_test(test_random_wishes_keep_the_laws_and_settle),
    cmocka_unit_test(test_a_guest_waits_for_its_disk_and_image),
    cmocka_unit_test(test_a_failed_image_ends_the_lease_before_it_ran),
    cmocka_unit_test(test_the_end_comes_for_a_lease_nobody_names),
    cmocka_unit_test(test_the_signal_comes_a_grace_before_the_nearer_end),
};
RUN_TESTS(tests)
