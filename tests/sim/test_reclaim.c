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

/* What the feed told the renter in the last event of a kind, with its values; "": there is none. */
static void told(struct world *w, const char *kind, const char *want)
{
    struct event_list feed = {0};
    bool seen = false, right = false;

    assert_int_equal(store_event_list(w->store, w->user.project, (struct id){""}, 0, 1000, &feed),
                     ERR_OK);
    for (size_t i = 0; i < feed.len; i++)
        if (strcmp(feed.at[i].kind, kind) == 0) {
            seen = true;
            right = strstr(feed.at[i].text, want) || strstr(feed.at[i].data, want);
        }
    vec_fini(&feed);
    assert_true(want[0] ? right : !seen);
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
    told(w, "instance.reclaimed", "a gang waits");
    told(w, "instance.reclaim_free", "cost nothing");
    told(w, "instance.reclaim_charged", "");
    world_done(w);
}

/* Σ of the bill's lines of one kind, and how many; of cards only. */
static int64_t lines_u(struct world *w, const char *kind, int *ret_n)
{
    AUTO_JSON json_t *bill = get(w, "bill_get", NULL);
    struct currency ccy;
    int64_t u = 0;
    json_t *l;
    size_t i;

    assert_int_equal(currency_get("CNY", &ccy), ERR_OK);
    *ret_n = 0;
    json_array_foreach(json_object_get(bill, "lines"), i, l) {
        struct money m;

        if (strcmp(text_of(l, "kind"), kind) != 0 || strcmp(text_of(l, "meter"), "gpu") != 0)
            continue;
        assert_int_equal(money_parse(amount_of(l, "amount"), ccy, &m), ERR_OK);
        u += m.u;
        ++*ret_n;
    }
    return u;
}

/* When the instance was reachable, the whole second after it, as world time. */
static int64_t ready_ms(struct world *w)
{
    struct refusal why = {0};
    struct instance i;
    struct fund_lease l;

    assert_int_equal(store_instance_lookup(w->store, w->user.project, "s", &i, &why), ERR_OK);
    assert_int_equal(money_lease_get(w->store, i.lease, &l), ERR_OK);
    assert_true(l.ready_ms > 0);
    return (l.ready_ms + 999) / 1000 * 1000 - WORLD_T0;
}

/* B30 of the golden rows: 1200 s at 12 and 1530 s at 13.5 an hour, then taken back. */
static void the_golden_run_is_given_back(void **state UNUSED)
{
    struct world *w = world_new();
    int64_t at;
    int n;

    world_price(w, "spot.gpu.RTX 4090", "12", "hour");
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"s\",\"for\":\"3h\",\"spot\":true,\"bid\":\"20\"}", NULL);
    world_pass(w, 20000);
    at = ready_ms(w);
    world_pass(w, at + 1200000 - w->now_ms);
    world_price(w, "spot.gpu.RTX 4090", "13.5", "hour");
    world_pass(w, at + 2610000 - w->now_ms); /* its notice is 120 s */
    take_back(w);
    world_pass(w, 180000);
    reads(w, "reason", "reclaimed");
    assert_int_equal(lines_u(w, "usage", &n), 9737500);
    assert_int_equal(n, 2);
    assert_int_equal(lines_u(w, "reversal", &n), -9737500);
    assert_int_equal(n, 2);
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
    told(w, "instance.reclaim_charged", "is charged");
    told(w, "instance.reclaim_free", "");
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
    take_back(w); /* it is so already */
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
    take_back(w); /* when all is over, too */
    reads(w, "state", "stopped");
    world_done(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_told_and_ends_by_its_notice),
        cmocka_unit_test(the_golden_run_is_given_back),
        cmocka_unit_test(after_its_free_time_it_is_billed),
        cmocka_unit_test(the_decision_counts_not_who_ends_it),
        cmocka_unit_test(only_spot_is_taken_back),
        cmocka_unit_test(one_that_is_not_reachable_ends_now),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
