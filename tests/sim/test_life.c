/* Whole lives of instances on the real core with simulated nodes. */
#include "life.h"

static void it_runs_stops_and_is_released(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"exp\",\"for\":\"2h\"}", NULL);
    assert_int_equal(world_state(w, "exp"), INSTANCE_PREPARING);
    world_pass(w, 10000);
    assert_int_equal(world_state(w, "exp"), INSTANCE_RUNNING);
    world_pass(w, 600000);
    AUTO_JSON json_t *seen = get(w, "instance_get", "exp");
    assert_string_equal(text_of(seen, "state"), "running");
    assert_string_equal(text_of(json_object_get(seen, "ssh"), "user"), "root");
    call_ok(w, "instance_stop", NULL, "exp");
    assert_int_equal(world_state(w, "exp"), INSTANCE_STOPPING);
    world_pass(w, 15000);
    assert_int_equal(world_state(w, "exp"), INSTANCE_STOPPED);
    call_ok(w, "instance_release", NULL, "exp");
    world_pass(w, 15000);
    assert_int_equal(world_state(w, "exp"), INSTANCE_RELEASED);
    assert_int_equal(w->nodes[0].lease_count, 0);
    assert_int_equal(w->nodes[0].disk_count, 0);
    world_done(w);
}

static void a_cancelled_create_leaves_nothing_and_costs_nothing(void **state UNUSED)
{
    for (int64_t wait = 0; wait <= 6000; wait += 1000) {
        struct world *w = world_new();

        call_ok(w, "instance_create",
                "{\"gpu\":\"4090\",\"name\":\"exp\",\"for\":\"2h\",\"disk\":[\"d1:1GiB\"]}", NULL);
        w->nodes[0].cut = false;
        w->now_ms += wait;
        if (wait)
            world_sync(w, 0, false, false);
        simnode_live(&w->nodes[0], w->now_ms);
        call_ok(w, wait % 2000 ? "instance_stop" : "instance_release", NULL, "exp");
        world_pass(w, 30000);
        assert_int_equal(world_state(w, "exp"), INSTANCE_RELEASED);
        AUTO_JSON json_t *wallet = get(w, "wallet_get", NULL);
        assert_string_equal(amount_of(wallet, "cash"), "100.00");
        assert_string_equal(amount_of(wallet, "held"), "0.00");
        assert_int_equal(w->nodes[0].lease_count, 0);
        assert_int_equal(w->nodes[0].disk_count, 0);
        world_done(w);
    }
}

static void a_failed_start_costs_nothing_and_says_why(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"exp\",\"image\":\"bad\",\"disk\":[\"d1:1GiB\"]}", NULL);
    world_pass(w, 40000);
    assert_int_equal(world_state(w, "exp"), INSTANCE_FAILED);
    AUTO_JSON json_t *seen = get(w, "instance_get", "exp");
    assert_string_equal(text_of(seen, "reason"), "start_failed");
    assert_string_equal(text_of(json_object_get(seen, "why"), "code"), "runtime");
    AUTO_JSON json_t *wallet = get(w, "wallet_get", NULL);
    assert_string_equal(amount_of(wallet, "cash"), "100.00");
    assert_string_equal(amount_of(wallet, "held"), "0.00");
    assert_int_equal(w->nodes[0].disk_count, 0);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"exp\",\"disk\":[\"d1:1GiB\"]}",
            NULL);
    world_pass(w, 10000);
    assert_int_equal(world_state(w, "exp"), INSTANCE_RUNNING);
    world_done(w);
}

static void fifty_calls_for_the_last_card_make_one_instance(void **state UNUSED)
{
    struct world *w = world_new();
    struct world_reply r[50];
    int made = 0, refused = 0;

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"first\"}", NULL);
    for (int i = 0; i < 50; i++)
        world_submit(w, &r[i], &w->user, "instance_create", "{\"gpu\":\"4090\"}", "", NULL, NULL);
    assert_true(world_batch(w));
    for (int i = 0; i < 50; i++) {
        made += r[i].code == ERR_OK;
        if (r[i].code != ERR_OK) {
            assert_int_equal(r[i].code, ERR_CAPACITY_NONE);
            assert_string_equal(r[i].why.params[1].key, "why");
            assert_non_null(strstr(r[i].why.params[1].value, "cards 0/1"));
            refused++;
        }
        world_reply_fini(&r[i]);
    }
    assert_int_equal(made, 1);
    assert_int_equal(refused, 49);
    world_done(w);
}

static void the_nearest_change_that_fits_is_named(void **state UNUSED)
{
    struct world *w = world_new();
    struct world_reply r;

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"first\"}", NULL);
    assert_int_equal(
        world_call(w, &r, &w->user, "instance_create", "{\"gpu\":\"4090\",\"count\":2}", NULL),
        ERR_CAPACITY_NONE);
    assert_string_equal(r.why.params[2].value, "suanli rent --gpu 'RTX 4090' --count 1");
    world_reply_fini(&r);
    call_not(w, "instance_create", "{\"gpu\":\"4090\",\"count\":3}", NULL, ERR_CAPACITY_NEVER);
    call_not(w, "instance_create", "{\"gpu\":\"4080\"}", NULL, ERR_NOT_FOUND);
    world_done(w);
}

static void the_same_key_is_one_effect_also_after_a_restart(void **state UNUSED)
{
    static const char body[] = "{\"gpu\":\"4090\",\"name\":\"exp\"}";
    struct world *w = world_new();
    struct world_reply a, b;

    world_submit(w, &a, &w->user, "instance_create", body, "k1", NULL, NULL);
    assert_true(world_batch(w));
    assert_int_equal(a.code, ERR_OK);
    world_restart(w);
    world_submit(w, &b, &w->user, "instance_create", body, "k1", NULL, NULL);
    assert_true(world_batch(w));
    assert_int_equal(b.code, ERR_OK);
    assert_true(b.replayed);
    assert_string_equal(a.answer, b.answer);
    world_reply_fini(&a);
    world_reply_fini(&b);
    world_submit(w, &b, &w->user, "instance_create", "{\"gpu\":\"4090\"}", "k1", NULL, NULL);
    assert_true(world_batch(w));
    assert_int_equal(b.code, ERR_IDEMPOTENCY_MISMATCH);
    world_reply_fini(&b);
    world_submit(w, &b, &w->user, "instance_create", body, "k2", NULL, NULL);
    assert_true(world_batch(w));
    assert_int_equal(b.code, ERR_EXISTS);
    world_reply_fini(&b);
    call_ok(w, "instance_release", NULL, "exp");
    world_pass(w, 20000);
    world_submit(w, &b, &w->user, "instance_create", body, "k2", NULL,
                 NULL); /* refusals do not bind */
    assert_true(world_batch(w));
    assert_int_equal(b.code, ERR_OK);
    world_reply_fini(&b);
    world_done(w);
}

static void a_dry_run_changes_nothing(void **state UNUSED)
{
    struct world *w = world_new();
    int64_t before, after;

    assert_int_equal(store_node_version(w->store, w->nodes[0].id, &before), ERR_OK);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"exp\",\"dry_run\":true}", NULL);
    call_not(w, "instance_get", NULL, "exp", ERR_NOT_FOUND);
    assert_int_equal(store_node_version(w->store, w->nodes[0].id, &after), ERR_OK);
    assert_int_equal(before, after);
    AUTO_JSON json_t *wallet = get(w, "wallet_get", NULL);
    assert_string_equal(amount_of(wallet, "held"), "0.00");
    world_done(w);
}

static void it_ends_by_itself_when_its_time_is_over(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"for\":\"20m\"}", NULL);
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"b\",\"for\":\"20m\",\"then\":\"release\"}", NULL);
    world_pass(w, 1150000);
    assert_int_equal(world_state(w, "a"), INSTANCE_RUNNING);
    world_pass(w, 100000);
    assert_int_equal(world_state(w, "a"), INSTANCE_STOPPED);
    assert_int_equal(world_state(w, "b"), INSTANCE_RELEASED);
    AUTO_JSON json_t *seen = get(w, "instance_get", "a");
    assert_string_equal(text_of(seen, "reason"), "end_reached");
    world_done(w);
}

static void a_cut_node_ends_its_guests_and_both_sides_agree_later(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"for\":\"5h\"}", NULL);
    world_pass(w, 60000);
    w->nodes[0].cut = true;
    world_pass(w, 40000);
    assert_int_equal(world_state(w, "a"), INSTANCE_UNREACHABLE);
    world_pass(w, 20 * 60000);
    assert_int_equal(w->nodes[0].leases[0].phase, SIM_ENDED);
    assert_int_equal(world_state(w, "a"), INSTANCE_UNREACHABLE);
    call_not(w, "instance_create", "{\"gpu\":\"4090\"}", NULL, ERR_CAPACITY_NONE);
    w->nodes[0].cut = false;
    world_pass(w, 20000);
    assert_int_equal(world_state(w, "a"), INSTANCE_STOPPED);
    AUTO_JSON json_t *seen = get(w, "instance_get", "a");
    assert_string_equal(text_of(seen, "reason"), "node_lost"); /* the money was there */
    call_ok(w, "instance_start", "{\"for\":\"1h\"}", "a");
    world_pass(w, 20000);
    assert_int_equal(world_state(w, "a"), INSTANCE_RUNNING);
    world_done(w);
}

static void a_short_cut_is_free_and_goes_on(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"for\":\"5h\"}", NULL);
    world_pass(w, 60000);
    w->nodes[0].cut = true;
    world_pass(w, 100000);
    assert_int_equal(world_state(w, "a"), INSTANCE_UNREACHABLE);
    w->nodes[0].cut = false;
    world_pass(w, 20000);
    assert_int_equal(world_state(w, "a"), INSTANCE_RUNNING);
    world_done(w);
}

static void a_wall_clock_step_stops_new_starts_only(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"for\":\"5h\"}", NULL);
    world_pass(w, 60000);
    w->wall_off_ms = 3600000;
    world_pass(w, 5000);
    call_not(w, "instance_create", "{\"gpu\":\"4090\"}", NULL, ERR_CLOCK_STEP);
    world_restart(w);
    call_not(w, "instance_create", "{\"gpu\":\"4090\"}", NULL, ERR_CLOCK_STEP);
    world_pass(w, 1200000);
    assert_int_equal(world_state(w, "a"), INSTANCE_RUNNING);
    call_ok(w, "check_run", "{\"clear_clock\":true}", NULL);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\"}", NULL);
    world_done(w);
}

static void a_seat_without_cards_starts_on_the_same_disk(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"count\":2}", NULL);
    world_pass(w, 10000);
    call_ok(w, "instance_stop", NULL, "a");
    world_pass(w, 15000);
    call_ok(w, "instance_start", "{\"no_gpu\":true}", "a");
    world_pass(w, 10000);
    AUTO_JSON json_t *seen = get(w, "instance_get", "a");
    assert_string_equal(text_of(seen, "state"), "running");
    assert_true(json_is_true(json_object_get(seen, "no_gpu")));
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"b\",\"count\":2,\"cpu\":4}", NULL);
    world_done(w);
}

static void a_data_disk_outlives_its_instance(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"disk\":[\"d1:10GiB\"]}",
            NULL);
    world_pass(w, 10000);
    call_ok(w, "instance_release", NULL, "a");
    world_pass(w, 20000);
    assert_int_equal(world_state(w, "a"), INSTANCE_RELEASED);
    AUTO_JSON json_t *disk = get(w, "disk_get", "d1");
    assert_string_equal(text_of(disk, "state"), "ready");
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"b\",\"disk\":[\"d1\"]}", NULL);
    world_pass(w, 10000);
    call_not(w, "disk_remove", NULL, "d1", ERR_DISK_IN_USE);
    call_ok(w, "instance_release", "{\"with_disks\":true}", "b");
    world_pass(w, 20000);
    assert_int_equal(world_state(w, "b"), INSTANCE_RELEASED);
    assert_int_equal(w->nodes[0].disk_count, 0);
    world_done(w);
}

static void a_release_ends_the_price_of_its_disks_at_once(void **state UNUSED)
{
    struct world *w = world_new();

    world_topup(w, "10000");
    world_price(w, "disk", "100", "GiB-day");
    world_price(w, "disk.detached", "0", "GiB-day");
    w->now_ms += 2000;
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"disk\":[\"d1:10GiB\"]}",
            NULL);
    world_pass(w, 10000);
    call_ok(w, "instance_release", NULL, "a");
    AUTO_JSON json_t *at_once = get(w, "instance_get", "a");
    world_pass(w, 40000);
    assert_int_equal(world_state(w, "a"), INSTANCE_RELEASED);
    AUTO_JSON json_t *later = get(w, "instance_get", "a");
    assert_string_equal(amount_of(later, "spent"), amount_of(at_once, "spent"));
    world_done(w);
}

static void a_waiting_instance_starts_when_a_card_is_free(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"count\":2}", NULL);
    world_pass(w, 10000);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"b\",\"queue\":true}", NULL);
    world_pass(w, 10000);
    assert_int_equal(world_state(w, "b"), INSTANCE_QUEUED);
    call_ok(w, "instance_stop", NULL, "a");
    world_pass(w, 30000);
    assert_int_equal(world_state(w, "b"), INSTANCE_RUNNING);
    world_done(w);
}

static void waiting_ends_with_the_end_that_was_asked_for(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"count\":2}", NULL);
    world_pass(w, 10000);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"b\",\"queue\":true,\"for\":\"1m\"}",
            NULL);
    world_pass(w, 50000);
    assert_int_equal(world_state(w, "b"), INSTANCE_QUEUED);
    world_pass(w, 20000);
    assert_int_equal(world_state(w, "b"), INSTANCE_RELEASED);
    AUTO_JSON json_t *seen = get(w, "instance_get", "b");
    assert_string_equal(text_of(seen, "reason"), "end_reached");
    world_done(w);
}

static void a_full_disk_of_the_store_changes_nothing(void **state UNUSED)
{
    struct world *w = mem_alloc(sizeof(*w));
    struct world_reply r;

    world_init(w, 7, true);
    world_image(w, "base", "sha256:base", true);
    world_price(w, "gpu.RTX 4090", "3.6", "hour");
    world_price(w, "disk", "0.01", "GiB-day");
    world_price(w, "disk.stopped", "0.005", "GiB-day");
    world_add_node(w, "RTX 4090", 2);
    world_topup(w, "100");
    store_fail_commit(w->store, 1);
    world_submit(w, &r, &w->user, "instance_create", "{\"gpu\":\"4090\",\"name\":\"exp\"}", "k1",
                 NULL, NULL);
    assert_false(world_batch(w));
    assert_int_equal(r.code, ERR_STORE);
    world_reply_fini(&r);
    world_restart(w);
    call_not(w, "instance_get", NULL, "exp", ERR_NOT_FOUND);
    world_submit(w, &r, &w->user, "instance_create", "{\"gpu\":\"4090\",\"name\":\"exp\"}", "k1",
                 NULL, NULL);
    assert_true(world_batch(w));
    assert_int_equal(r.code, ERR_OK);
    assert_false(r.replayed);
    world_reply_fini(&r);
    world_done(w);
}

static void a_node_waits_until_something_new_is_wanted(void **state UNUSED)
{
    struct world *w = world_new();
    struct principal who = {.node = w->nodes[0].id};
    struct world_reply r = {0};
    int64_t sent;
    char *body;
    json_t *report;

    world_sync(w, 0, false, false);
    report = simnode_report(&w->nodes[0], w->now_ms, 20000, &sent);
    body = json_dumps(report, 0);
    json_decref(report);
    world_submit(w, &r, &who, "node_sync", body, "", NULL, NULL);
    assert_true(world_batch(w));
    assert_false(r.come);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL);
    assert_true(r.come);
    simnode_answer(&w->nodes[0], sent, r.answer);
    assert_int_equal(w->nodes[0].lease_count, 1);
    world_reply_fini(&r);
    free(body);
    report = simnode_report(&w->nodes[0], w->now_ms, 20000, &sent);
    body = json_dumps(report, 0);
    json_decref(report);
    world_submit(w, &r, &who, "node_sync", body, "", NULL, NULL);
    for (int i = 0; i < 4 && !r.come; i++) {
        w->now_ms += 5100;
        assert_true(world_batch(w));
    }
    assert_true(r.come);
    world_reply_fini(&r);
    free(body);
    world_done(w);
}

static void a_report_of_an_overtaken_boot_does_not_deafen_us(void **state UNUSED)
{
    struct world *w = world_new();
    struct principal who = {.node = w->nodes[0].id};
    struct world_reply r;
    int64_t sent;
    json_t *report;
    char *late;

    simnode_reboot(&w->nodes[0], w->now_ms); /* of this boot nothing arrives in time */
    report = simnode_report(&w->nodes[0], w->now_ms, 0, &sent);
    late = json_dumps(report, 0);
    json_decref(report);
    simnode_reboot(&w->nodes[0], w->now_ms);
    world_pass(w, 10000);
    world_submit(w, &r, &who, "node_sync", late, "", NULL, NULL);
    assert_true(world_batch(w));
    world_reply_fini(&r);
    free(late);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL);
    world_pass(w, 15000);
    assert_int_equal(world_state(w, "a"), INSTANCE_RUNNING);
    world_done(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(it_runs_stops_and_is_released),
    cmocka_unit_test(a_cancelled_create_leaves_nothing_and_costs_nothing),
    cmocka_unit_test(a_failed_start_costs_nothing_and_says_why),
    cmocka_unit_test(fifty_calls_for_the_last_card_make_one_instance),
    cmocka_unit_test(the_nearest_change_that_fits_is_named),
    cmocka_unit_test(the_same_key_is_one_effect_also_after_a_restart),
    cmocka_unit_test(a_dry_run_changes_nothing),
    cmocka_unit_test(it_ends_by_itself_when_its_time_is_over),
    cmocka_unit_test(a_cut_node_ends_its_guests_and_both_sides_agree_later),
    cmocka_unit_test(a_short_cut_is_free_and_goes_on),
    cmocka_unit_test(a_wall_clock_step_stops_new_starts_only),
    cmocka_unit_test(a_seat_without_cards_starts_on_the_same_disk),
    cmocka_unit_test(a_data_disk_outlives_its_instance),
    cmocka_unit_test(a_release_ends_the_price_of_its_disks_at_once),
    cmocka_unit_test(a_waiting_instance_starts_when_a_card_is_free),
    cmocka_unit_test(waiting_ends_with_the_end_that_was_asked_for),
    cmocka_unit_test(a_full_disk_of_the_store_changes_nothing),
    cmocka_unit_test(a_node_waits_until_something_new_is_wanted),
    cmocka_unit_test(a_report_of_an_overtaken_boot_does_not_deafen_us),
};
RUN_TESTS(tests)
