/* A node's clock is its own word: whatever it says, no more is charged than passed here as well. */
#include "life.h"
#include "store/rows_money.h"

static void lease_of(struct world *w, struct fund_lease *ret_l)
{
    struct id instance = {0};

    assert_true(str_copy(instance.s, sizeof(instance.s), w->nodes[0].leases[0].instance));
    assert_int_equal(money_lease_of_instance(w->store, instance, ret_l), ERR_OK);
}

static int64_t billed(struct world *w)
{
    struct fund_lease l;

    lease_of(w, &l);
    return l.ready_ms ? l.billed_s - (l.ready_ms + MS_PER_S - 1) / MS_PER_S : 0;
}

static struct world *running(int64_t *ret_since_ms)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"no_end\":true}", NULL);
    *ret_since_ms = w->now_ms;
    world_pass(w, 10000);
    assert_int_equal(world_state(w, "a"), INSTANCE_RUNNING);
    return w;
}

static void a_clock_that_runs_fast_gains_nothing(void **state UNUSED)
{
    for (int64_t fast = 1; fast <= 9; fast += 4) {
        int64_t since;
        struct world *w = running(&since);

        for (int n = 0; n < 120 && world_state(w, "a") == INSTANCE_RUNNING; n++) {
            w->nodes[0].boot_at_ms -= fast * 1000; /* so many seconds too many in each second */
            world_pass(w, 1000);
            assert_true(billed(w) <= (w->now_ms - since) / MS_PER_S + 2);
        }
        assert_true(billed(w) > 0);
        world_done(w);
    }
}

static void a_clock_that_jumps_gains_nothing(void **state UNUSED)
{
    uint64_t x = 88172645463325252u;
    int64_t since;
    struct world *w = running(&since);

    for (int n = 0; n < 300 && world_state(w, "a") == INSTANCE_RUNNING; n++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        w->nodes[0].boot_at_ms -= (int64_t)(x % 4000);
        world_pass(w, (int64_t)(x >> 32) % 3000);
        assert_true(billed(w) <= (w->now_ms - since) / MS_PER_S + 2);
    }
    world_done(w);
}

static void evidence_beyond_the_last_word_of_a_node_counts_for_nothing(void **state UNUSED)
{
    struct world *w;
    struct simnode *n;
    int64_t since, heard;

    w = running(&since);
    n = &w->nodes[0];
    world_sync(w, 0, false, false);
    heard = w->now_ms - n->boot_at_ms;
    for (int k = 0; k < 60; k++) { /* it hardly lives, and meters as if it did */
        w->now_ms += 1000;
        n->boot_at_ms += 900;
        simnode_live(n, w->now_ms);
        for (int s = 0; s < n->slice_count; s++) {
            n->slices[s].t1 += 100000;
            simnode_sign(n, &n->slices[s]);
        }
        world_sync(w, 0, false, false);
    }
    heard = w->now_ms - n->boot_at_ms - heard;
    assert_true(heard < 10000);
    assert_true(billed(w) > 0 && billed(w) <= 10 + heard / MS_PER_S + 2);
    world_done(w);
}

static void
what_was_spooled_while_the_control_plane_was_away_is_paid_up_to_the_lease(void **state UNUSED)
{
    struct fund_lease l;
    int64_t since;
    struct world *w = running(&since);

    lease_of(w, &l);
    int64_t paid = l.paid_until_s;
    w->now_ms += 2 * w->config.term_s * MS_PER_S; /* nobody is here; the node ends it by itself */
    world_restart(w);
    world_pass(w, 30000);
    lease_of(w, &l);
    assert_int_equal(world_state(w, "a"), INSTANCE_STOPPED);
    assert_int_equal(l.paid_until_s, paid);
    assert_true(l.billed_s <= paid && l.billed_s >= paid - 31); /* it ends within its grace */
    world_done(w);
}

static int64_t events(struct world *w, const char *kind)
{
    struct event_list list = {0};
    int64_t n = 0;

    assert_int_equal(store_event_list(w->store, (struct id){""}, (struct id){""}, 0, 10000, &list),
                     ERR_OK);
    for (size_t i = 0; i < list.len; i++)
        n += str_eq(list.at[i].kind, kind);
    vec_fini(&list);
    return n;
}

static void a_slice_without_the_right_signature_is_not_charged(void **state UNUSED)
{
    int64_t since, before;
    struct world *w = running(&since);
    struct simnode *n = &w->nodes[0];

    assert_int_equal(events(w, "node.key"), 1);
    world_sync(w, 0, false, false);
    before = billed(w);
    assert_true(before > 0);
    for (int k = 0; k < 20; k++) {
        w->now_ms += 10000;
        simnode_live(n, w->now_ms);
        for (int s = 0; s < n->slice_count; s++)
            n->slices[s].sig[k] = n->slices[s].sig[k] == '0' ? '1' : '0';
        world_sync(w, 0, false, false);
    }
    assert_int_equal(n->slice_count, 0); /* taken: the node need not keep it */
    assert_true(events(w, "node.evidence_refused") == 1);
    struct fund_lease l;
    lease_of(w, &l);
    int64_t rated = 0;
    assert_int_equal(money_window_sum_instance(w->store, l.instance, &rated), ERR_OK);
    world_pass(w, 20000);
    int64_t after = 0;
    assert_int_equal(money_window_sum_instance(w->store, l.instance, &after), ERR_OK);
    assert_true(rated <= (before + 1) * 1100 && after > rated); /* 3.6 an hour: 1000 a second */
    world_done(w);
}

static void another_key_is_charged_only_after_the_operator_trusts_it(void **state UNUSED)
{
    unsigned char seed[SIGN_SEED_SIZE] = "another";
    struct world_reply r;
    struct fund_lease l;
    int64_t since, before = 0, after = 0;
    struct world *w = running(&since);

    lease_of(w, &l);
    sign_key_of(seed, &w->nodes[0].key);
    world_pass(w, 10000);
    assert_int_equal(money_window_sum_subject(w->store, l.instance, &before), ERR_OK);
    world_pass(w, 60000);
    assert_int_equal(money_window_sum_subject(w->store, l.instance, &after), ERR_OK);
    assert_int_equal(after, before);
    assert_int_equal(events(w, "node.key_refused"), 1);
    assert_int_equal(world_call(w, &r, &w->operator, "node_trust", "{}", w->nodes[0].name), ERR_OK);
    world_reply_fini(&r);
    world_pass(w, 60000);
    assert_int_equal(money_window_sum_subject(w->store, l.instance, &after), ERR_OK);
    assert_true(after > before);
    assert_int_equal(events(w, "node.key"), 2);
    world_done(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_clock_that_runs_fast_gains_nothing),
    cmocka_unit_test(a_clock_that_jumps_gains_nothing),
    cmocka_unit_test(evidence_beyond_the_last_word_of_a_node_counts_for_nothing),
    cmocka_unit_test(a_slice_without_the_right_signature_is_not_charged),
    cmocka_unit_test(another_key_is_charged_only_after_the_operator_trusts_it),
    cmocka_unit_test(what_was_spooled_while_the_control_plane_was_away_is_paid_up_to_the_lease),
};
RUN_TESTS(tests)
