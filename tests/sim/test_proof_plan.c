/* A bill file with seconds that a plan covers, with a run at the spot price whose market passes the
 * bid, and with the money of both: counted again, and not when a price in it is another. */
#include "bill_lab.h"

#include "app/funds.h"
#include "store/rows_plan.h"

static struct world *lived(void)
{
    struct world *w = world_new();

    w->round_ms = 20000;
    world_price(w, "plan.day.gpu.RTX 4090", "9", "day");
    world_price(w, "spot.gpu.RTX 4090", "0.9", "hour");
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"no_end\":true}", NULL);
    world_pass(w, 300000);
    call_ok(w, "plan_convert", "{\"plan\":\"day\",\"go_on\":true}", "a");
    world_pass(w, 600000);
    call_ok(w, "instance_stop", NULL, "a");
    world_pass(w, 60000);
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"s\",\"for\":\"2h\",\"spot\":true,\"bid\":\"1.2\"}", NULL);
    world_pass(w, 300000);
    world_price(w, "spot.gpu.RTX 4090", "1.1", "hour");
    world_pass(w, 300000);
    world_price(w, "spot.gpu.RTX 4090", "2.5", "hour"); /* passes the bid */
    world_pass(w, 300000);
    call_ok(w, "instance_stop", NULL, "s");
    w->round_ms = 600000;
    world_pass(w, 7200000);
    return w;
}

static void a_plan_and_a_spot_run_are_counted_again(void **state UNUSED)
{
    struct world *w = lived();
    struct lab_file f = {0};
    struct refusal why;
    size_t plans = 0, bids = 0;
    char text[400];

    assert_int_equal(lab_read(w, "bill_export", "2026-03", &f, NULL), ERR_OK);
    int64_t line = lab_check(&f, NULL, &why);
    if (line) {
        refusal_text(&why, LANG_EN, text, sizeof(text));
        print_message("# %s\n# %s\n", text, f.line[line - 1]);
    }
    assert_int_equal(line, 0);
    for (size_t i = 0; i < f.len; i++) {
        plans += lab_is(f.line[i], "price") && strstr(f.line[i], "\"plan.pln_");
        bids += lab_is(f.line[i], "price") && strstr(f.line[i], "\"bid.ins_");
    }
    assert_int_equal(plans, 1);
    assert_int_equal(bids, 1);
    lab_file_fini(&f);
    world_done(w);
}

/* A day that renews itself: the instance lives through the border, and ends with the term that does
 * not renew any more. */
static void a_plan_renews_when_asked_and_ends_its_instance(void **state UNUSED)
{
    struct world *w = world_new();
    struct plan_list plans = {0};
    struct instance i;
    char id[ID_SIZE];

    w->round_ms = 20000;
    world_price(w, "plan.day.gpu.RTX 4090", "9", "day");
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"a\",\"plan\":\"day\",\"renew\":true}", NULL);
    world_pass(w, INT64_C(25) * 3600000);
    assert_int_equal(plan_row_running(w->store, &plans), ERR_OK);
    assert_int_equal(plans.len, 1);
    assert_int_equal(plans.at[0].term, 2);
    assert_true(plans.at[0].renew);
    assert_int_equal(store_instance_get_any(w->store, plans.at[0].instance, &i), ERR_OK);
    assert_int_equal(i.state, INSTANCE_RUNNING);
    assert_int_equal(i.ends_at, plans.at[0].end_s * MS_PER_S);
    memcpy(id, plans.at[0].id.s, sizeof(id));
    call_ok(w, "plan_renew", "{\"off\":true}", id);
    world_pass(w, INT64_C(24) * 3600000);
    vec_fini(&plans);
    assert_int_equal(plan_row_running(w->store, &plans), ERR_OK);
    assert_int_equal(plans.len, 0);
    assert_int_equal(store_instance_get_any(w->store, i.id, &i), ERR_OK);
    assert_int_equal(i.state, INSTANCE_STOPPED);
    assert_int_equal(i.reason, END_REACHED);
    assert_int_equal(i.plan, PLAN_ON_DEMAND);
    vec_fini(&plans);
    world_done(w);
}

/* Card-hours that run out while two instances use them: counted again, and closed. */
static void a_package_is_counted_again(void **state UNUSED)
{
    struct world *w = world_new();
    struct lab_file f = {0};
    size_t packages = 0;

    w->round_ms = 20000;
    world_price(w, "package.1.day.gpu", "1.5", "package");
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"no_end\":true}", NULL);
    world_pass(w, 300000);
    call_ok(w, "package_buy", "{\"hours\":1,\"plan\":\"day\"}", NULL);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"b\",\"no_end\":true}", NULL);
    world_pass(w, 3000000);
    call_ok(w, "instance_stop", NULL, "a");
    call_ok(w, "instance_stop", NULL, "b");
    w->round_ms = 600000;
    world_pass(w, INT64_C(26) * 3600000);
    assert_int_equal(lab_read(w, "bill_export", "2026-03", &f, NULL), ERR_OK);
    struct refusal why;
    char text[400];
    int64_t line = lab_check(&f, NULL, &why);
    if (line) {
        refusal_text(&why, LANG_EN, text, sizeof(text));
        print_message("# %s\n# %s\n", text, f.line[line - 1]);
    }
    assert_int_equal(line, 0);
    for (size_t i = 0; i < f.len; i++)
        packages += lab_is(f.line[i], "price") && strstr(f.line[i], "\"package.pkg_");
    assert_int_equal(packages, 1);
    lab_file_fini(&f);
    world_done(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_and_a_spot_run_are_counted_again),
        cmocka_unit_test(a_package_is_counted_again),
        cmocka_unit_test(a_plan_renews_when_asked_and_ends_its_instance),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
