/* An exclusive instance has its node alone: it waits until nobody is there, and nobody comes. */
#include "life.h"

static struct world *world_alone(void)
{
    struct world *w = world_new();

    world_price(w, "exclusive.gpu.RTX 4090", "0.5", "hour");
    return w;
}

static void nobody_comes_while_it_runs(void **state UNUSED)
{
    struct world *w = world_alone();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"x\",\"exclusive\":true}", NULL);
    world_pass(w, 20000);
    call_not(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL, ERR_CAPACITY_NONE);
    call_not(w, "instance_create", "{\"cpu\":1,\"name\":\"b\"}", NULL, ERR_CAPACITY_NONE);
    AUTO_JSON json_t *seen = get(w, "offer_list", NULL);
    const json_t *offer = json_array_get(json_object_get(seen, "items"), 0);
    assert_int_equal(json_integer_value(json_object_get(offer, "free")), 0);
    assert_false(json_is_true(json_object_get(offer, "alone_now")));
    call_ok(w, "instance_stop", NULL, "x");
    world_pass(w, 20000);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL);
    world_done(w);
}

static void it_does_not_come_to_others(void **state UNUSED)
{
    struct world *w = world_alone();

    call_ok(w, "instance_create", "{\"cpu\":1,\"memory\":\"1GiB\",\"name\":\"b\"}", NULL);
    call_not(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"x\",\"exclusive\":true}", NULL,
             ERR_CAPACITY_NONE);
    world_add_node(w, "RTX 4090", 2); /* another node is empty */
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"x\",\"exclusive\":true}", NULL);
    world_pass(w, 20000);
    world_done(w);
}

static void it_waits_in_line_for_a_whole_node(void **state UNUSED)
{
    struct world *w = world_alone();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"for\":\"5m\"}", NULL);
    world_pass(w, 20000);
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"x\",\"exclusive\":true,\"queue\":true,\"for\":\"20m\"}",
            NULL);
    assert_int_equal(world_state(w, "x"), INSTANCE_QUEUED);
    world_pass(w, 400000);
    assert_int_equal(world_state(w, "a"), INSTANCE_STOPPED);
    assert_int_equal(world_state(w, "x"), INSTANCE_RUNNING);
    call_ok(w, "instance_create", /* and others wait for it */
            "{\"gpu\":\"4090\",\"name\":\"c\",\"queue\":true,\"for\":\"1h\"}", NULL);
    assert_int_equal(world_state(w, "c"), INSTANCE_QUEUED);
    world_pass(w, 900000);
    assert_int_equal(world_state(w, "c"), INSTANCE_RUNNING);
    world_done(w);
}

static void without_cards_it_is_not_alone(void **state UNUSED)
{
    struct world *w = world_alone();

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"x\",\"exclusive\":true}", NULL);
    world_pass(w, 20000);
    call_ok(w, "instance_stop", NULL, "x");
    world_pass(w, 20000);
    call_ok(w, "instance_start", "{\"no_gpu\":true}", "x");
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL);
    world_pass(w, 20000);
    call_ok(w, "instance_stop", NULL, "x");
    world_pass(w, 20000);
    call_not(w, "instance_start", "{}", "x", ERR_CAPACITY_NONE); /* alone again: a is there */
    world_done(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_comes_while_it_runs),
        cmocka_unit_test(it_does_not_come_to_others),
        cmocka_unit_test(it_waits_in_line_for_a_whole_node),
        cmocka_unit_test(without_cards_it_is_not_alone),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
