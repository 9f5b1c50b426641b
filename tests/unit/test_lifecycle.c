/* The pure rules of leases, instances, placing and offers. */
#include "../support/tap.h"

#include "base/str.h"
#include "domain/instance.h"
#include "domain/lease.h"
#include "domain/node.h"
#include "domain/offer.h"
#include "domain/place.h"

static struct lease granted(void)
{
    return (struct lease){
        .id = {"lea_a"}, .granted_at = 1000, .paid_until = 601000, .ends_at = UTIME_NEVER};
}

static unsigned event(struct lease *l, enum lease_event_kind kind, utime_t at, utime_t now,
                      enum end_reason reason)
{
    struct lease_event ev = {.kind = kind, .at = at, .reason = reason};
    struct lease_step step;
    struct refusal why = {0};

    assert_int_equal(lease_decide(l, &ev, now, &step), ERR_OK);
    *l = step.next;
    assert_int_equal(lease_check(l, &why), ERR_OK);
    return step.effects;
}

static void a_lease_goes_through_its_life_in_order(void **state UNUSED)
{
    struct lease l = granted();

    assert_string_equal(lease_want(&l), "run");
    assert_int_equal(event(&l, LEASE_EV_READY, 5000, 6000, END_NONE), LEASE_FX_READY);
    assert_int_equal(l.ready_at, 5000);
    assert_int_equal(event(&l, LEASE_EV_STOP, 9000, 9000, END_USER_STOP),
                     LEASE_FX_STOP | LEASE_FX_TELL);
    assert_string_equal(lease_want(&l), "stop");
    event(&l, LEASE_EV_ENDED, 11000, 12000, END_GUEST_EXIT);
    assert_int_equal(l.stop_at, 9000);
    assert_int_equal(l.reason, END_USER_STOP);
    assert_string_equal(lease_want(&l), "clean");
    assert_int_equal(event(&l, LEASE_EV_CLEAN, 0, 13000, END_NONE), LEASE_FX_FREE | LEASE_FX_TELL);
    assert_null(lease_want(&l));
}

static void what_is_said_twice_or_too_late_changes_nothing(void **state UNUSED)
{
    struct lease l = granted();

    assert_int_equal(event(&l, LEASE_EV_CLEAN, 0, 2000, END_NONE), 0);
    event(&l, LEASE_EV_READY, 5000, 6000, END_NONE);
    assert_int_equal(event(&l, LEASE_EV_READY, 5500, 6000, END_NONE), 0);
    event(&l, LEASE_EV_ENDED, 8000, 9000, END_IDLE);
    assert_int_equal(event(&l, LEASE_EV_STOP, 9500, 9500, END_USER_STOP), 0);
    assert_int_equal(event(&l, LEASE_EV_ENDED, 9900, 9900, END_GUEST_EXIT), 0);
    assert_int_equal(l.reason, END_IDLE);
}

static void an_end_is_never_claimed_into_the_future_or_before_the_grant(void **state UNUSED)
{
    struct lease a = granted(), b = granted(), c = granted();

    event(&a, LEASE_EV_READY, 999999, 6000, END_NONE);
    assert_int_equal(a.ready_at, 6000);
    event(&a, LEASE_EV_ENDED, 999999, 7000, END_IDLE);
    assert_int_equal(a.ended_at, 7000);
    event(&b, LEASE_EV_ENDED, 1, 7000, END_START_FAILED);
    assert_int_equal(b.ended_at, 1000);
    event(&c, LEASE_EV_READY, 2000, 2000, END_NONE);
    event(&c, LEASE_EV_ENDED, 700000, 700000, END_BALANCE);
    assert_int_equal(c.stop_at, 601000); /* nothing after what is paid */
}

static void what_never_ran_is_killed_not_asked(void **state UNUSED)
{
    struct lease l = granted();

    event(&l, LEASE_EV_STOP, 2000, 2000, END_USER_STOP);
    assert_string_equal(lease_want(&l), "kill");
}

static void an_instance_that_never_ran_leaves_nothing(void **state UNUSED)
{
    struct instance i = {.state = INSTANCE_PREPARING};

    assert_int_equal(instance_next(&i, INSTANCE_EV_STOP, false), INSTANCE_RELEASING);
    assert_int_equal(instance_next(&i, INSTANCE_EV_FAIL, false), INSTANCE_FAILED);
    assert_int_equal(instance_next(&i, INSTANCE_EV_STOP, true), INSTANCE_STOPPING);
    assert_int_equal(instance_next(&i, INSTANCE_EV_FAIL, true), INSTANCE_STOPPING);
}

static void a_stopped_instance_is_kept_for_a_stated_time(void **state UNUSED)
{
    struct instance i = {.state = INSTANCE_STOPPING};
    struct instance n = instance_decide(&i, INSTANCE_EV_CLOSED, true, 5000, 1000);

    assert_int_equal(n.state, INSTANCE_STOPPED);
    assert_int_equal(n.kept_until, 6000);
    assert_int_equal(n.since, 5000);
    n = instance_decide(&n, INSTANCE_EV_START, true, 5500, 1000);
    assert_int_equal(n.kept_until, 0);
}

static void every_state_names_only_what_it_can_do(void **state UNUSED)
{
    struct refusal why = {0};
    struct instance i = {.name = "exp", .state = INSTANCE_STOPPED};

    assert_int_equal(instance_allow(&i, INSTANCE_ACT_STOP, &why), ERR_STATE);
    assert_string_equal(why.params[1].value, "stopped");
    assert_string_equal(why.params[3].value, "start, resize, release, port open");
    for (int s = 0; s < INSTANCE_STATE_COUNT; s++) {
        i.state = (enum instance_state)s;
        /* what may be stopped or released does move when it is */
        if (instance_may(&i, INSTANCE_ACT_STOP))
            assert_int_not_equal(instance_next(&i, INSTANCE_EV_STOP, true), i.state);
        if (instance_may(&i, INSTANCE_ACT_RELEASE))
            assert_int_not_equal(instance_next(&i, INSTANCE_EV_RELEASE, true), i.state);
        if (instance_is_gone(i.state))
            for (int e = 0; e < INSTANCE_EVENT_COUNT; e++)
                assert_int_equal(instance_next(&i, (enum instance_event)e, true), i.state);
    }
}

static void silence_is_counted_only_while_we_listen(void **state UNUSED)
{
    struct node n = {.seen_at = 1000, .state = NODE_READY};

    assert_int_equal(node_state_at(&n, 30999, 0, 30000), NODE_READY);
    assert_int_equal(node_state_at(&n, 31000, 0, 30000), NODE_SILENT);
    assert_int_equal(node_state_at(&n, 900000, 890000, 30000), NODE_READY);
    n.drain = true;
    assert_int_equal(node_state_at(&n, 2000, 0, 30000), NODE_DRAINING);
    n.seen_at = 0;
    assert_int_equal(node_state_at(&n, 2000, 0, 30000), NODE_NEW);
}

static void an_anchor_is_only_lowered(void **state UNUSED)
{
    assert_int_equal(node_anchor(0, 10000, 400), 9600);
    assert_int_equal(node_anchor(9600, 20000, 10300), 9600); /* came late */
    assert_int_equal(node_anchor(9600, 20000, 10450), 9550); /* came faster */
}

static void versions_compare_by_their_numbers(void **state UNUSED)
{
    assert_int_equal(version_compare("550.54.14", "535"), 1);
    assert_int_equal(version_compare("535.9", "535.10"), -1);
    assert_int_equal(version_compare("12.4", "12.4.0"), 0);
    assert_int_equal(version_compare("", "1"), -1);
}

static struct node machine(const char *name, const char *model, int32_t cards)
{
    struct node n = {.state = NODE_READY,
                     .cores = 16,
                     .memory_mib = 65536,
                     .disk_mib = 1 << 20,
                     .port_min = 20000,
                     .port_max = 20099,
                     .gpu_count = cards};

    assert_true(str_copy(n.name, sizeof(n.name), name) && str_copy(n.id.s, ID_SIZE, name));
    assert_true(str_copy(n.driver, sizeof(n.driver), "535.1"));
    for (int32_t i = 0; i < cards; i++) {
        assert_true(str_copy(n.gpus[i].model, GPU_MODEL_SIZE, model));
        assert_true(str_printf(n.gpus[i].uuid, UUID_SIZE, "%s-%d", name, i));
        n.gpus[i].healthy = true;
    }
    return n;
}

static struct place_ask cards(const char *model, int32_t count)
{
    struct place_ask ask = {.shape = {.gpu_count = count},
                            .disk_mib = 20480,
                            .ports = 1,
                            .need_driver = "",
                            .need_cuda = ""};

    assert_true(str_copy(ask.shape.gpu_model, GPU_MODEL_SIZE, model));
    return ask;
}

static void the_tightest_machine_is_taken(void **state UNUSED)
{
    static struct node n[2];
    struct place_node at[2] = {{.node = &n[0]}, {.node = &n[1]}};
    struct place_ask ask = cards("RTX 4090", 2);
    struct place_result r;

    n[0] = machine("big", "RTX 4090", 8);
    n[1] = machine("small", "RTX 4090", 2);
    place_decide(&ask, at, 2, NULL, &r);
    assert_int_equal(r.best, 1);
    assert_int_equal(r.shape.cpu_milli, 16000); /* both cards: all of the machine */
    n[1].gpus[0].healthy = false;
    place_decide(&ask, at, 2, NULL, &r);
    assert_int_equal(r.best, 0);
    assert_int_equal(r.shape.cpu_milli, 4000);
}

static void each_machine_says_what_is_missing(void **state UNUSED)
{
    static struct node n[4];
    struct place_node at[4] = {{.node = &n[0]}, {.node = &n[1]}, {.node = &n[2]}, {.node = &n[3]}};
    struct place_ask ask = cards("RTX 4090", 2);
    struct place_why why[4];
    struct place_result r;

    n[0] = machine("a", "RTX 4090", 2);
    n[0].gpus[1].lease = (struct id){"lea_x"};
    n[1] = machine("b", "A100", 2);
    n[2] = machine("c", "RTX 4090", 2);
    n[2].state = NODE_SILENT;
    n[3] = machine("d", "RTX 4090", 2);
    at[3].disk_mib_used = 1 << 20;
    place_decide(&ask, at, 4, why, &r);
    assert_int_equal(r.best, -1);
    assert_int_equal(why[0].bar, PLACE_CARDS);
    assert_int_equal(why[0].have, 1);
    assert_int_equal(why[1].bar, PLACE_MODEL);
    assert_int_equal(why[2].bar, PLACE_STATE);
    assert_int_equal(why[3].bar, PLACE_DISK);
    assert_true(r.ever);
    assert_int_equal(r.near.gpu_count, 1);
    ask.shape.gpu_count = 3;
    place_decide(&ask, at, 4, why, &r);
    assert_false(r.ever);
}

static void who_asks_alone_gets_an_empty_machine_and_keeps_it(void **state UNUSED)
{
    static struct node n[2];
    struct place_node at[2] = {{.node = &n[0]}, {.node = &n[1]}};
    struct place_ask ask = cards("RTX 4090", 1);
    struct place_why why[2];
    struct place_result r;

    n[0] = machine("a", "RTX 4090", 2);
    n[1] = machine("b", "RTX 4090", 2);
    at[0].leases = 1; /* a seat without a card does as well */
    ask.shape.exclusive = true;
    place_decide(&ask, at, 2, why, &r);
    assert_int_equal(r.best, 1);
    assert_int_equal(why[0].bar, PLACE_EXCLUSIVE);
    at[1].leases = 1;
    at[1].exclusive = true;
    place_decide(&ask, at, 2, why, &r);
    assert_int_equal(r.best, -1);
    assert_true(r.ever);
    assert_int_equal(r.near.gpu_count, 1); /* beside others it can be had */
    assert_false(r.near.exclusive);
    ask.shape.gpu_count = 2;
    n[0].gpus[0].healthy = false;
    at[0].leases = 0;
    place_decide(&ask, at, 2, why, &r); /* alone with one card */
    assert_int_equal(r.near.gpu_count, 1);
    assert_true(r.near.exclusive);
    ask.shape.gpu_count = 1;
    ask.shape.exclusive = false;
    place_decide(&ask, at, 2, why, &r);
    assert_int_equal(r.best, 0);
    assert_int_equal(why[1].bar, PLACE_EXCLUSIVE);
    ask.shape = (struct shape){.cpu_milli = 1000, .memory_mib = 512};
    place_decide(&ask, &at[1], 1, why, &r); /* nor a seat beside it */
    assert_int_equal(r.best, -1);
}

static void an_image_that_needs_a_newer_driver_is_not_placed(void **state UNUSED)
{
    static struct node n;
    struct place_node at = {.node = &n};
    struct place_ask ask = cards("RTX 4090", 1);
    struct place_why why;
    struct place_result r;

    n = machine("a", "RTX 4090", 2);
    ask.need_driver = "550";
    place_decide(&ask, &at, 1, &why, &r);
    assert_int_equal(why.bar, PLACE_DRIVER);
    ask.need_driver = "535";
    place_decide(&ask, &at, 1, &why, &r);
    assert_int_equal(r.best, 0);
}

static void a_model_that_is_asked_for_more_is_dearer(void **state UNUSED)
{
    static struct node n[2];
    const struct demand_seen seen[] = {
        {.shape = {.gpu_model = "RTX 4090", .gpu_count = 1}, .count = 300},
        {.shape = {.gpu_model = "A100", .gpu_count = 1}, .count = 100},
        {.shape = {.gpu_model = "H100", .gpu_count = 1}, .count = 1}};
    struct place_market m = {.seen = seen, .count = 2, .scarcity_max_pct = 400};
    struct place_price p[PLACE_PRICES_MAX];

    n[0] = machine("a", "RTX 4090", 2);
    n[1] = machine("b", "A100", 2);
    n[1].gpus[0].lease = (struct id){"lea_x"};
    /* of equal numbers of cards one is asked for three times as often; the guess counts as 8 */
    assert_int_equal(place_prices(n, 2, &m, p), 2);
    assert_string_equal(p[0].model, "A100");
    assert_int_equal(p[0].cards, 2);
    assert_int_equal(p[0].free, 1);
    assert_float_equal(p[0].asked, 0.25, 0.001);
    assert_float_equal(p[0].price, 0.5, 0.05);
    assert_float_equal(p[1].price, 1.5, 0.1);
    m.scarcity_min_pct = 80;
    m.scarcity_max_pct = 120;
    assert_int_equal(place_prices(n, 2, &m, p), 2);
    assert_float_equal(p[0].price, 0.8, 0.001);
    assert_float_equal(p[1].price, 1.2, 0.001);
    m.count = 3; /* what nobody has is asked for, and is no model of the platform */
    assert_int_equal(place_prices(n, 2, &m, p), 2);
    m.count = 0; /* nothing came lately: what runs now */
    m.scarcity_min_pct = 0;
    m.scarcity_max_pct = 400;
    assert_int_equal(place_prices(n, 2, &m, p), 2);
    assert_float_equal(p[0].asked, 1, 0.001);
    assert_true(p[0].price > p[1].price);
}

static void a_seat_goes_where_cards_are_fewest(void **state UNUSED)
{
    static struct node n[2];
    struct place_node at[2] = {{.node = &n[0]}, {.node = &n[1]}};
    struct place_ask ask = {
        .shape = {.cpu_milli = 4000, .memory_mib = 8192}, .need_driver = "", .need_cuda = ""};
    struct place_result r;

    n[0] = machine("cards", "RTX 4090", 2);
    n[1] = machine("plain", "", 0);
    place_decide(&ask, at, 2, NULL, &r);
    assert_int_equal(r.best, 1);
    ask.shape.cpu_milli = 64000;
    place_decide(&ask, at, 2, NULL, &r);
    assert_int_equal(r.best, -1);
    assert_int_equal(r.near.cpu_milli, 16000);
}

static void a_model_is_found_as_people_type_it(void **state UNUSED)
{
    assert_int_equal(place_model_match("rtx4090", "RTX 4090"), 1);
    assert_true(place_model_match("4090", "RTX 4090") < place_model_match("4090", "RTX 4090 D"));
    assert_int_equal(place_model_match("4080", "RTX 4090"), 0);
}

static struct offer offer_of(const char *gpu, int64_t vram, int64_t price_u, int32_t count)
{
    struct offer o = {.vram_mib = vram, .price_u = price_u, .count_max = count, .free = count};

    assert_true(str_copy(o.gpu, sizeof(o.gpu), gpu));
    return o;
}

static void a_filter_keeps_what_was_asked_for_in_order(void **state UNUSED)
{
    struct offer o[3] = {offer_of("RTX 4090", 24564, 1980000, 2),
                         offer_of("A100", 81920, 7000000, 8),
                         offer_of("RTX 3090", 24576, 980000, 1)};
    struct offer_filter f;
    struct refusal why = {0};

    assert_int_equal(offer_filter_parse("vram>=24 price<3 order=price", &f, &why), ERR_OK);
    assert_true(offer_matches(&f, &o[0]));
    assert_false(offer_matches(&f, &o[1]));
    offer_sort(&f, o, 3);
    assert_string_equal(o[0].gpu, "RTX 3090");
    assert_int_equal(offer_filter_parse("order=-vram", &f, &why), ERR_OK);
    offer_sort(&f, o, 3);
    assert_string_equal(o[0].gpu, "A100");
    assert_int_equal(offer_filter_parse("gpu=4090 count>=2 trust>=partner", &f, &why), ERR_OK);
    assert_int_equal(offer_filter_parse("colour=red", &f, &why), ERR_VALIDATION);
    assert_int_equal(offer_filter_parse("price<cheap", &f, &why), ERR_VALIDATION);
    assert_int_equal(offer_filter_parse("price", &f, &why), ERR_VALIDATION);
}

static void test_a_rental_of_seconds_is_not_signalled_before_it_runs(void **state)
{
    struct lease l = {
        .grace_ms = 30000, .granted_at = 1000, .paid_until = 601000, .ends_at = UTIME_NEVER};

    (void)state;
    assert_int_equal(lease_grace_ms(&l), 30000);
    l.ends_at = 13000;
    assert_int_equal(lease_grace_ms(&l), 3000);
    l.ends_at = 500;
    assert_int_equal(lease_grace_ms(&l), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_rental_of_seconds_is_not_signalled_before_it_runs),
    cmocka_unit_test(a_lease_goes_through_its_life_in_order),
    cmocka_unit_test(what_is_said_twice_or_too_late_changes_nothing),
    cmocka_unit_test(an_end_is_never_claimed_into_the_future_or_before_the_grant),
    cmocka_unit_test(what_never_ran_is_killed_not_asked),
    cmocka_unit_test(an_instance_that_never_ran_leaves_nothing),
    cmocka_unit_test(a_stopped_instance_is_kept_for_a_stated_time),
    cmocka_unit_test(every_state_names_only_what_it_can_do),
    cmocka_unit_test(silence_is_counted_only_while_we_listen),
    cmocka_unit_test(an_anchor_is_only_lowered),
    cmocka_unit_test(versions_compare_by_their_numbers),
    cmocka_unit_test(the_tightest_machine_is_taken),
    cmocka_unit_test(each_machine_says_what_is_missing),
    cmocka_unit_test(who_asks_alone_gets_an_empty_machine_and_keeps_it),
    cmocka_unit_test(an_image_that_needs_a_newer_driver_is_not_placed),
    cmocka_unit_test(a_seat_goes_where_cards_are_fewest),
    cmocka_unit_test(a_model_that_is_asked_for_more_is_dearer),
    cmocka_unit_test(a_model_is_found_as_people_type_it),
    cmocka_unit_test(a_filter_keeps_what_was_asked_for_in_order),
};
RUN_TESTS(tests)
