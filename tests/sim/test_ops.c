/* Operations as people use them, on the simulated world. */
#include "life.h"

static bool event_seen(struct world *w, const char *kind)
{
    struct event_list list = {0};
    bool seen = false;

    assert_int_equal(store_event_list(w->store, (struct id){""}, (struct id){""}, 0, 10000, &list),
                     ERR_OK);
    VEC_FOREACH (e, &list)
        seen |= str_eq(e->kind, kind);
    vec_fini(&list);
    return seen;
}

static int events_of(struct world *w, const char *kind)
{
    struct event_list list = {0};
    int n = 0;

    assert_int_equal(store_event_list(w->store, (struct id){""}, (struct id){""}, 0, 10000, &list),
                     ERR_OK);
    VEC_FOREACH (e, &list)
        n += str_eq(e->kind, kind);
    vec_fini(&list);
    return n;
}

/* Long waits: the nodes are heard of every ten minutes only. */
static void wait_days(struct world *w, int days)
{
    w->round_ms = 600000;
    world_pass(w, days * INT64_C(86400000));
    w->round_ms = 5000;
}

static void a_stopped_instance_warns_and_goes_after_fifteen_days(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL);
    world_pass(w, 10000);
    call_ok(w, "instance_stop", NULL, "a");
    world_pass(w, 15000);
    wait_days(w, 7);
    assert_int_equal(events_of(w, "instance.keep_notice"), 0);
    wait_days(w, 7);
    world_pass(w, 120000);
    assert_int_equal(events_of(w, "instance.keep_notice"), 3);
    assert_int_equal(world_state(w, "a"), INSTANCE_STOPPED);
    wait_days(w, 2);
    assert_int_equal(world_state(w, "a"), INSTANCE_RELEASED);
    assert_int_equal(w->nodes[0].disk_count, 0);
    world_done(w);
}

static void an_end_can_be_moved(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"for\":\"10m\"}", NULL);
    world_pass(w, 300000);
    call_ok(w, "instance_extend", "{\"by\":\"10m\"}", "a");
    world_pass(w, 600000);
    assert_int_equal(world_state(w, "a"), INSTANCE_RUNNING);
    call_not(w, "instance_extend", NULL, "a", ERR_VALIDATION);
    call_not(w, "instance_extend", "{\"until\":\"2020-01-01T00:00:00Z\"}", "a", ERR_VALIDATION);
    world_pass(w, 350000);
    assert_int_equal(world_state(w, "a"), INSTANCE_STOPPED);
    call_not(w, "instance_extend", "{\"by\":\"10m\"}", "a", ERR_STATE);
    world_done(w);
}

static void a_stopped_instance_takes_another_shape(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL);
    world_pass(w, 10000);
    call_not(w, "instance_resize", "{\"cpu\":2}", "a", ERR_STATE);
    call_ok(w, "instance_stop", NULL, "a");
    world_pass(w, 15000);
    call_ok(w, "instance_resize", "{\"gpu\":\"4090\",\"count\":2,\"system_disk\":\"30GiB\"}", "a");
    call_not(w, "instance_resize", "{\"system_disk\":\"10GiB\"}", "a", ERR_VALIDATION);
    call_ok(w, "instance_start", NULL, "a");
    world_pass(w, 10000);
    AUTO_JSON json_t *seen = get(w, "instance_get", "a");
    int64_t count = 0;
    assert_true(json_get_i64(seen, "gpu_count", 0, &count));
    assert_int_equal(count, 2);
    assert_int_equal(w->nodes[0].disks[0].size_mib, 30720);
    world_done(w);
}

static int64_t size_of_system_disk(struct world *w)
{
    AUTO_JSON json_t *list = get(w, "disk_list", NULL);
    int64_t mib = 0;

    assert_true(json_get_i64(json_array_get(json_object_get(list, "items"), 0), "size_mib", 0,
                             &mib));
    return mib;
}

static void a_disk_grows_only_as_far_as_its_node_and_wallet_go(void **state UNUSED)
{
    struct world *w = world_new();
    char id[ID_SIZE];

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL);
    world_pass(w, 10000);
    call_ok(w, "instance_stop", NULL, "a");
    world_pass(w, 15000);
    call_not(w, "instance_resize", "{\"system_disk\":\"1000000TiB\"}", "a", ERR_VALIDATION);
    call_not(w, "instance_resize", "{\"system_disk\":\"900000GiB\"}", "a", ERR_NO_SPACE);
    AUTO_JSON json_t *list = get(w, "disk_list", NULL);
    const char *text = NULL;
    assert_true(json_get_str(json_array_get(json_object_get(list, "items"), 0), "id", NULL, &text));
    assert_true(str_copy(id, sizeof(id), text));
    call_ok(w, "disk_grow", "{\"size\":\"30GiB\"}", id);
    call_not(w, "instance_resize", "{\"system_disk\":\"25GiB\"}", "a", ERR_VALIDATION);
    assert_int_equal(size_of_system_disk(w), 30720);
    call_ok(w, "instance_resize", "{\"system_disk\":\"31GiB\"}", "a");
    assert_int_equal(size_of_system_disk(w), 31744);
    world_done(w);
}

static void an_end_stays_a_time_that_can_be_written(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"a\",\"until\":\"9999-12-31T23:59:58Z\"}", NULL);
    call_not(w, "instance_extend", "{\"by\":\"2s\"}", "a", ERR_VALIDATION);
    call_ok(w, "instance_extend", "{\"by\":\"1s\"}", "a");
    world_done(w);
}

static void two_disks_never_share_a_place(void **state UNUSED)
{
    struct world *w = world_new();

    call_not(w, "instance_create",
             "{\"gpu\":\"4090\",\"name\":\"a\",\"disk\":[\"x:1GiB\",\"data:1GiB\"]}", NULL,
             ERR_VALIDATION);
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"a\",\"disk\":[\"data:1GiB\",\"x:1GiB\"]}", NULL);
    world_done(w);
}

static void ports_are_published_and_closed(void **state UNUSED)
{
    struct world *w = world_new();
    struct world_reply r;

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"port\":[\"8888\"]}", NULL);
    world_pass(w, 10000);
    world_submit(w, &r, &w->user, "instance_ports_set", NULL, "", "a", "6006");
    assert_true(world_batch(w));
    assert_int_equal(r.code, ERR_OK);
    AUTO_JSON json_t *seen = json_loads(r.answer, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(seen, "ports")), 3);
    world_reply_fini(&r);
    world_submit(w, &r, &w->user, "instance_ports_remove", NULL, "", "a", "8888");
    assert_true(world_batch(w));
    assert_int_equal(r.code, ERR_OK);
    world_reply_fini(&r);
    world_submit(w, &r, &w->user, "instance_ports_remove", NULL, "", "a", "22");
    assert_true(world_batch(w));
    assert_int_equal(r.code, ERR_VALIDATION);
    world_reply_fini(&r);
    world_done(w);
}

static void a_moved_price_is_never_taken_silently(void **state UNUSED)
{
    struct world *w = world_new();

    AUTO_JSON json_t *offers = get(w, "offer_list", NULL);
    const json_t *first = json_array_get(json_object_get(offers, "items"), 0);
    assert_string_equal(amount_of(first, "price_hour"), "0.36"); /* the seat: cheapest first */
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"price\":\"3.6\",\"name\":\"a\"}", NULL);
    w->now_ms += 5000;
    world_price(w, "gpu.RTX 4090", "4.2", "hour");
    w->now_ms += 5000;
    call_not(w, "instance_create", "{\"gpu\":\"4090\",\"price\":\"3.6\"}", NULL, ERR_OFFER_CHANGED);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"price\":\"4.2\"}", NULL);
    world_done(w);
}

static void money_that_passes_the_gate_once_makes_one_instance(void **state UNUSED)
{
    struct world *w = world_new();
    struct world_reply r[50];
    int made = 0;

    world_add_node(w, "RTX 4090", 8);
    /* 4.00 is what an hour and a day of disk need; the wallet has it once */
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"count\":8,\"name\":\"big\",\"for\":\"3h\"}",
            NULL);
    world_pass(w, 10000);
    world_price(w, "gpu.RTX 4090", "90", "hour");
    w->now_ms += 2000;
    for (int i = 0; i < 50; i++)
        world_submit(w, &r[i], &w->user, "instance_create", "{\"gpu\":\"4090\",\"for\":\"10h\"}",
                     "", NULL, NULL);
    assert_true(world_batch(w));
    for (int i = 0; i < 50; i++) {
        made += r[i].code == ERR_OK;
        if (r[i].code != ERR_OK)
            assert_int_equal(r[i].code, ERR_BALANCE);
        world_reply_fini(&r[i]);
    }
    assert_int_equal(made, 1);
    world_done(w);
}

static void the_balance_ends_it_to_the_second_and_disks_stay(void **state UNUSED)
{
    struct world *w = world_new();

    world_price(w, "gpu.RTX 4090", "95", "hour");
    w->now_ms += 2000;
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"no_end\":true}", NULL);
    world_pass(w, 4 * 3600000);
    assert_int_equal(world_state(w, "a"), INSTANCE_STOPPED);
    AUTO_JSON json_t *seen = get(w, "instance_get", "a");
    assert_string_equal(text_of(seen, "reason"), "balance");
    call_not(w, "instance_start", NULL, "a", ERR_BALANCE);
    world_done(w);
}

static void a_budget_ends_it_and_says_so(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "budget_set", "{\"cap\":\"5\"}", "small");
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"no_end\":true}", NULL);
    world_pass(w, 2 * 3600000);
    assert_int_equal(world_state(w, "a"), INSTANCE_STOPPED);
    AUTO_JSON json_t *seen = get(w, "instance_get", "a");
    assert_string_equal(text_of(seen, "reason"), "budget");
    world_done(w);
}

static void a_drained_node_takes_nothing_new_and_goes_when_empty(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL);
    world_pass(w, 10000);
    call_not(w, "node_remove", NULL, "node0", ERR_STATE);
    call_ok(w, "node_drain", NULL, "node0");
    call_not(w, "instance_create", "{\"gpu\":\"4090\"}", NULL, ERR_CAPACITY_NONE);
    call_not(w, "node_remove", NULL, "node0", ERR_IN_USE);
    assert_int_equal(world_state(w, "a"), INSTANCE_RUNNING);
    call_ok(w, "node_drain", "{\"off\":true}", "node0");
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"b\"}", NULL);
    call_ok(w, "instance_release", NULL, "a");
    call_ok(w, "instance_release", NULL, "b");
    world_pass(w, 30000);
    call_ok(w, "node_drain", NULL, "node0");
    call_ok(w, "node_remove", NULL, "node0");
    w->nodes[0].cut = true; /* its token is gone */
    call_not(w, "instance_create", "{\"gpu\":\"4090\"}", NULL, ERR_NOT_FOUND);
    AUTO_JSON json_t *seen = get(w, "instance_list", NULL);
    assert_int_equal(json_array_size(json_object_get(seen, "items")), 0);
    world_done(w);
}

static void an_unknown_guest_is_shown_and_ended_only_on_demand(void **state UNUSED)
{
    struct world *w = world_new();
    struct principal who = {.node = w->nodes[0].id};
    struct world_reply r;
    int64_t sent;
    json_t *report = simnode_report(&w->nodes[0], w->now_ms, 0, &sent);
    char *body;

    assert_int_equal(json_object_set_new(report, "unknown",
                                         json_pack("[{s:s,s:i}]", "lease", "lea_stray", "pid", 7)),
                     0);
    body = json_dumps(report, 0);
    json_decref(report);
    world_submit(w, &r, &who, "node_sync", body, "", NULL, NULL);
    assert_true(world_batch(w));
    assert_non_null(strstr(r.answer, "\"kill_unknown\":[]"));
    world_reply_fini(&r);
    AUTO_JSON json_t *nodes = get(w, "node_list", NULL);
    const json_t *unknown =
        json_object_get(json_array_get(json_object_get(nodes, "items"), 0), "unknown");
    assert_string_equal(json_string_value(json_array_get(unknown, 0)), "lea_stray");
    world_submit(w, &r, &w->operator, "node_kill_unknown", NULL, "", "node0", "lea_other");
    assert_true(world_batch(w));
    assert_int_equal(r.code, ERR_NOT_FOUND);
    world_reply_fini(&r);
    world_submit(w, &r, &w->operator, "node_kill_unknown", NULL, "", "node0", "lea_stray");
    assert_true(world_batch(w));
    assert_int_equal(r.code, ERR_OK);
    world_reply_fini(&r);
    /* repeated until the node says that it acted */
    for (int i = 0; i < 2; i++) {
        world_submit(w, &r, &who, "node_sync", body, "", NULL, NULL);
        assert_true(world_batch(w));
        assert_non_null(strstr(r.answer, "\"kill_unknown\":[\"lea_stray\"]"));
        if (i == 1)
            simnode_answer(&w->nodes[0], sent, r.answer);
        world_reply_fini(&r);
    }
    free(body);
    report = simnode_report(&w->nodes[0], ++w->now_ms, 0, &sent);
    body = json_dumps(report, 0);
    json_decref(report);
    world_submit(w, &r, &who, "node_sync", body, "", NULL, NULL);
    assert_true(world_batch(w));
    assert_non_null(strstr(r.answer, "\"kill_unknown\":[]"));
    world_reply_fini(&r);
    free(body);
    world_done(w);
}

static void an_image_that_asks_too_much_names_the_driver(void **state UNUSED)
{
    struct world *w = world_new();
    struct image i = {.created_at = WORLD_T0};

    assert_true(str_copy(i.name, sizeof(i.name), "new") &&
                str_copy(i.digest, sizeof(i.digest), "sha256:new") &&
                str_copy(i.need_driver, sizeof(i.need_driver), "560"));
    assert_int_equal(store_image_save(w->store, &i), ERR_OK);
    call_not(w, "instance_create", "{\"gpu\":\"4090\",\"image\":\"new\"}", NULL, ERR_IMAGE_DRIVER);
    call_not(w, "instance_create", "{\"gpu\":\"4090\",\"image\":\"none\"}", NULL,
             ERR_IMAGE_NOT_FOUND);
    world_done(w);
}

static void an_image_that_could_not_be_fetched_says_so(void **state UNUSED)
{
    struct world *w = world_new();
    struct image i = {.created_at = WORLD_T0, .name = "x", .source = "oci:/x:y", .digest = "ref:1"};
    struct node_image n = {
        .node = w->nodes[0].id, .digest = "ref:1", .state = "failed", .error = "image_not_found"};

    assert_int_equal(store_image_save(w->store, &i), ERR_OK);
    call_not(w, "instance_create", "{\"gpu\":\"4090\",\"image\":\"x\"}", NULL, ERR_UNAVAILABLE);
    assert_int_equal(store_node_image_save(w->store, &n), ERR_OK);
    call_not(w, "instance_create", "{\"gpu\":\"4090\",\"image\":\"x\"}", NULL, ERR_IMAGE_PULL);
    world_done(w);
}

static void what_an_image_needs_is_learned_from_the_node_that_has_it(void **state UNUSED)
{
    struct world *w = world_new();
    struct image i = {.created_at = WORLD_T0};
    struct principal who = {.node = w->nodes[0].id};
    struct world_reply r;
    int64_t sent;

    assert_true(str_copy(i.name, sizeof(i.name), "new") &&
                str_copy(i.digest, sizeof(i.digest), "sha256:new"));
    assert_int_equal(store_image_save(w->store, &i), ERR_OK);
    AUTO_JSON json_t *report = simnode_report(&w->nodes[0], ++w->now_ms, 0, &sent);
    json_object_set_new(report, "images",
                        json_pack("[{s:s,s:s,s:i,s:s,s:s}]", "digest", "sha256:new", "state",
                                  "ready", "bytes", 1, "need_driver", "", "need_cuda", "99.1"));
    AUTO_FREE char *body = json_dumps(report, 0);
    world_submit(w, &r, &who, "node_sync", body, "", NULL, NULL);
    assert_true(world_batch(w));
    assert_int_equal(r.code, ERR_OK);
    world_reply_fini(&r);
    assert_int_equal(store_image_get(w->store, "new", &i), ERR_OK);
    assert_string_equal(i.need_cuda, "99.1");
    call_not(w, "instance_create", "{\"gpu\":\"4090\",\"image\":\"new\"}", NULL, ERR_IMAGE_DRIVER);
    call_ok(w, "instance_create", "{\"cpu\":1,\"memory\":\"1GiB\",\"image\":\"new\"}", NULL);
    world_done(w);
}

/* The node says that each disk of it holds so much. */
static void disks_tell(struct world *w, int used_mib)
{
    struct principal who = {.node = w->nodes[0].id};
    struct world_reply r;
    json_t *disk;
    int64_t sent;
    size_t i;
    AUTO_JSON json_t *report = simnode_report(&w->nodes[0], ++w->now_ms, 0, &sent);

    json_array_foreach(json_object_get(report, "disks"), i, disk)
    {
        json_object_set_new(disk, "used_mib", json_integer(used_mib));
    }
    AUTO_FREE char *body = json_dumps(report, 0);
    world_submit(w, &r, &who, "node_sync", body, "", NULL, NULL);
    assert_true(world_batch(w));
    assert_int_equal(r.code, ERR_OK);
    world_reply_fini(&r);
}

static void a_disk_warns_at_80_and_95_percent_each_once(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"cpu\":1,\"memory\":\"1GiB\",\"system_disk\":\"256MiB\"}",
            NULL);
    world_pass(w, 10000);
    disks_tell(w, 203); /* 80 % of 256 is 204.8 */
    assert_int_equal(events_of(w, "disk.warning"), 0);
    disks_tell(w, 205);
    disks_tell(w, 242);
    assert_int_equal(events_of(w, "disk.warning"), 1);
    disks_tell(w, 244);
    disks_tell(w, 250);
    assert_int_equal(events_of(w, "disk.warning"), 2);
    world_done(w);
}

static void every_command_leaves_an_audit_row(void **state UNUSED)
{
    struct world *w = world_new();
    struct audit_list list = {0};

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL);
    call_not(w, "instance_start", NULL, "a", ERR_STATE);
    assert_int_equal(store_audit_list(w->store, w->user.project, 0, 2, &list), ERR_OK);
    assert_int_equal(list.len, 2);
    assert_string_equal(list.at[0].action, "instance_start");
    assert_string_equal(list.at[0].result, "state");
    assert_string_equal(list.at[1].action, "instance_create");
    assert_string_equal(list.at[1].result, "ok");
    assert_string_equal(list.at[1].actor, "ann");
    vec_fini(&list);
    world_done(w);
}

static void what_a_node_tells_of_idleness_reaches_the_feed(void **state UNUSED)
{
    struct world *w = world_new();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL);
    world_pass(w, 10000);
    simnode_guest_exit(&w->nodes[0], &w->nodes[0].leases[0], w->now_ms, "idle", 0);
    world_pass(w, 15000);
    AUTO_JSON json_t *seen = get(w, "instance_get", "a");
    assert_string_equal(text_of(seen, "state"), "stopped");
    assert_string_equal(text_of(seen, "reason"), "idle");
    assert_true(event_seen(w, "instance.stopped"));
    world_done(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_stopped_instance_warns_and_goes_after_fifteen_days),
    cmocka_unit_test(an_end_can_be_moved),
    cmocka_unit_test(a_stopped_instance_takes_another_shape),
    cmocka_unit_test(a_disk_grows_only_as_far_as_its_node_and_wallet_go),
    cmocka_unit_test(an_end_stays_a_time_that_can_be_written),
    cmocka_unit_test(two_disks_never_share_a_place),
    cmocka_unit_test(ports_are_published_and_closed),
    cmocka_unit_test(a_moved_price_is_never_taken_silently),
    cmocka_unit_test(money_that_passes_the_gate_once_makes_one_instance),
    cmocka_unit_test(the_balance_ends_it_to_the_second_and_disks_stay),
    cmocka_unit_test(a_budget_ends_it_and_says_so),
    cmocka_unit_test(a_drained_node_takes_nothing_new_and_goes_when_empty),
    cmocka_unit_test(an_unknown_guest_is_shown_and_ended_only_on_demand),
    cmocka_unit_test(an_image_that_asks_too_much_names_the_driver),
    cmocka_unit_test(an_image_that_could_not_be_fetched_says_so),
    cmocka_unit_test(what_an_image_needs_is_learned_from_the_node_that_has_it),
    cmocka_unit_test(a_disk_warns_at_80_and_95_percent_each_once),
    cmocka_unit_test(every_command_leaves_an_audit_row),
    cmocka_unit_test(what_a_node_tells_of_idleness_reaches_the_feed),
};
RUN_TESTS(tests)
