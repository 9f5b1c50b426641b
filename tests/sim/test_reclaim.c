/* The platform takes a spot run back: it gets notice, ends by it, and is free within its time; who
 * ends it from then on changes neither. */
#include "life.h"
#include "store/rows_money.h"

static struct world *with_spot(void)
{
    struct world *w = world_new();

    world_price(w, "spot.gpu.RTX 4090", "0.9", "hour");
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"s\",\"for\":\"5h\",\"spot\":true}",
            NULL);
    world_pass(w, 20000);
    return w;
}

static void take_back(struct world *w)
{
    by_operator_at(w, "instance_reclaim", "{\"project\":\"lab\",\"reason\":\"a gang waits\"}", "s");
}

static void reads(struct world *w, const char *field, const char *want)
{
    AUTO_JSON json_t *seen = get(w, "instance_get", "s");

    assert_string_equal(text_of(seen, field), want);
}

/* What its run cost, its disk aside: micro-units of the bill's lines of cards. */
static int64_t cards_u(struct world *w)
{
    struct window_list all = {0};
    int64_t u = 0;

    assert_int_equal(money_window_all(w->store, &all), ERR_OK);
    for (size_t i = 0; i < all.len; i++)
        if (all.at[i].meter == METER_GPU)
            u += all.at[i].posted_u - all.at[i].reversed_u;
    vec_fini(&all);
    return u;
}

static void it_is_told_and_ends_by_its_notice(void **state UNUSED)
{
    struct world *w = with_spot();

    world_pass(w, 600000);
    take_back(w);
    reads(w, "state", "preempting");
    call_not(w, "instance_extend", "{\"by\":\"1h\"}", "s", ERR_STATE);
    world_pass(w, 100000);
    reads(w, "state", "preempting");
    take_back(w); /* again: nothing new */
    world_pass(w, 60000);
    reads(w, "state", "stopped");
    reads(w, "reason", "reclaimed");
    assert_int_equal(cards_u(w), 0);
    world_done(w);
}

static void after_its_free_time_it_is_billed(void **state UNUSED)
{
    struct world *w = with_spot();

    world_pass(w, 3590000); /* its notice ends after the hour: B31 */
    take_back(w);
    world_pass(w, 180000);
    reads(w, "reason", "reclaimed");
    assert_true(cards_u(w) > 900000);
    world_done(w);
}

static void the_decision_counts_not_who_ends_it(void **state UNUSED)
{
    struct world *w = with_spot();
    struct world_reply r;

    world_pass(w, 60000);
    take_back(w);
    world_pass(w, 10000);
    call_ok(w, "instance_stop", NULL, "s");
    world_pass(w, 60000);
    reads(w, "reason", "reclaimed");
    assert_int_equal(cards_u(w), 0);
    call_ok(w, "instance_start", "{\"for\":\"1h\"}", "s"); /* another run: its own decision */
    world_pass(w, 60000);
    reads(w, "state", "running");
    call_ok(w, "instance_stop", NULL, "s");
    assert_int_equal(
        world_call(w, &r, &w->operator, "instance_reclaim", "{\"project\":\"lab\"}", "s"), ERR_STATE);
    world_reply_fini(&r);
    world_pass(w, 60000);
    reads(w, "reason", "user_stop");
    assert_true(cards_u(w) > 0);
    world_done(w);
}

static void only_spot_is_taken_back(void **state UNUSED)
{
    struct world *w = with_spot();
    struct world_reply r;

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"for\":\"1h\"}", NULL);
    assert_int_equal(
        world_call(w, &r, &w->operator, "instance_reclaim", "{\"project\":\"lab\"}", "a"),
        ERR_NOT_SPOT);
    world_reply_fini(&r);
    world_done(w);
}

/* Its node is silent when it is taken back, and speaks again. */
static void one_that_is_not_reachable_ends_now(void **state UNUSED)
{
    struct world *w = with_spot();

    world_pass(w, 60000);
    w->nodes[0].cut = true;
    world_pass(w, 60000);
    reads(w, "state", "unreachable");
    take_back(w);
    w->nodes[0].cut = false;
    world_pass(w, 60000);
    reads(w, "state", "stopped");
    reads(w, "reason", "reclaimed");
    assert_int_equal(cards_u(w), 0);
    world_done(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_told_and_ends_by_its_notice),
        cmocka_unit_test(after_its_free_time_it_is_billed),
        cmocka_unit_test(the_decision_counts_not_who_ends_it),
        cmocka_unit_test(only_spot_is_taken_back),
        cmocka_unit_test(one_that_is_not_reachable_ends_now),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
