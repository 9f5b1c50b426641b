/* The line on the real core: who starts when there is not room for everybody. Two cards on a
 * node. */
#include "life.h"

#define MINUTE INT64_C(60000)

/* Another project of the same user, with money. */
static struct principal other_project(struct world *w)
{
    struct principal p = w->user;
    struct world_reply r;

    assert_int_equal(world_call(w, &r, &w->user, "project_create", "{\"name\":\"vision\"}", NULL),
                     ERR_OK);
    AUTO_JSON json_t *o = json_loads(r.answer, 0, NULL);
    assert_true(str_copy(p.project.s, sizeof(p.project.s), text_of(o, "id")));
    assert_true(str_copy(p.project_name, sizeof(p.project_name), "vision"));
    world_reply_fini(&r);
    assert_int_equal(world_call(w, &r, &w->operator, "topup",
                                "{\"project\":\"vision\",\"amount\":\"100\"}", NULL),
                     ERR_OK);
    world_reply_fini(&r);
    return p;
}

static void enqueue(struct world *w, const struct principal *who, const char *name, int cards,
                    const char *how_long)
{
    struct world_reply r;
    char body[200];

    assert_true(str_printf(body, sizeof(body),
                           "{\"gpu\":\"4090\",\"count\":%d,\"name\":\"%s\",\"queue\":true,"
                           "\"for\":\"%s\",\"then\":\"release\"}",
                           cards, name, how_long));
    assert_int_equal(world_call(w, &r, who, "instance_create", body, NULL), ERR_OK);
    world_reply_fini(&r);
}

static bool is_in(struct world *w, const struct principal *who, const char *name, const char *state)
{
    struct world_reply r;

    assert_int_equal(world_call(w, &r, who, "instance_get", NULL, name), ERR_OK);
    AUTO_JSON json_t *o = json_loads(r.answer, 0, NULL);
    bool is = str_eq(text_of(o, "state"), state);
    world_reply_fini(&r);
    return is;
}

static void set_terms(struct world *w, const char *body, const char *project)
{
    struct world_reply r;

    assert_int_equal(world_call(w, &r, &w->operator, "queue_set", body, project), ERR_OK);
    world_reply_fini(&r);
}

/* Minutes until each of the names (prefix, number) was first seen at work; -1: never. After six
 * minutes of work each is released. */
static void watch(struct world *w, const struct principal *who, char prefix, int count, int *at,
                  int minute)
{
    char name[8];

    for (int i = 0; i < count; i++) {
        assert_true(str_printf(name, sizeof(name), "%c%d", prefix, i));
        if (at[i] < 0 && is_in(w, who, name, "running"))
            at[i] = minute;
        if (at[i] >= 0 && minute == at[i] + 6) {
            struct world_reply r;

            assert_int_equal(world_call(w, &r, who, "instance_release", NULL, name), ERR_OK);
            world_reply_fini(&r);
        }
    }
}

/* One project fills the line, the other comes later: both get their half, nobody starves. */
static void the_second_project_does_not_wait_for_the_whole_line_of_the_first(void **state UNUSED)
{
    struct world *w = world_new();
    struct principal vision = other_project(w);
    int a[10], b[4], at_half = 0;
    char name[8];

    for (int i = 0; i < 10; i++) {
        a[i] = -1;
        assert_true(str_printf(name, sizeof(name), "a%d", i));
        enqueue(w, &w->user, name, 1, "10h");
    }
    world_pass(w, MINUTE);
    for (int i = 0; i < 4; i++) {
        b[i] = -1;
        assert_true(str_printf(name, sizeof(name), "b%d", i));
        enqueue(w, &vision, name, 1, "10h");
    }
    for (int m = 0; m < 70; m++) {
        watch(w, &w->user, 'a', 10, a, m);
        watch(w, &vision, 'b', 4, b, m);
        world_pass(w, MINUTE);
    }
    for (int i = 0; i < 10; i++) { /* all came */
        assert_true(a[i] >= 0);
        at_half += a[i] <= b[3];
    }
    for (int i = 0; i < 4; i++)
        assert_true(b[i] >= 0);
    print_message("# the second project's came at %d, %d, %d, %d; by then %d of the first\n", b[0],
                  b[1], b[2], b[3], at_half);
    /* one came with the turn after what ran already, then one beside each of the first's */
    assert_true(MIN(MIN(b[0], b[1]), MIN(b[2], b[3])) < 10);
    assert_true(at_half >= 3 && at_half <= 7);
    world_done(w);
}

/* Small ones keep coming, also from those who do not wait in line; two cards at once still come. */
static void small_rents_do_not_keep_the_whole_node_out(void **state UNUSED)
{
    struct world *w = world_new();
    bool came = false;
    char name[8];

    enqueue(w, &w->user, "s0", 1, "5m");
    world_pass(w, 2 * MINUTE);
    enqueue(w, &w->user, "s1", 1, "5m");
    world_pass(w, MINUTE / 2);
    enqueue(w, &w->user, "big", 2, "2h");
    for (int i = 2; i < 20 && !came; i++) {
        struct world_reply r;
        char body[120];

        assert_true(str_printf(name, sizeof(name), "s%d", i));
        assert_true(str_printf(body, sizeof(body),
                               "{\"gpu\":\"4090\",\"name\":\"%s\",\"for\":\"5m\"}", name));
        /* no card, or one that is held for who waits: never taken from it */
        assert_int_equal(world_call(w, &r, &w->user, "instance_create", body, NULL),
                         ERR_CAPACITY_NONE);
        world_reply_fini(&r);
        world_pass(w, MINUTE);
        came = !is_in(w, &w->user, "big", "queued");
    }
    assert_true(came);
    world_done(w);
}

/* Who waits sees its place and when it is expected to start. */
static void the_place_and_the_start_are_told(void **state UNUSED)
{
    struct world *w = world_new();
    struct world_reply r;

    enqueue(w, &w->user, "a", 2, "30m");
    world_pass(w, MINUTE / 2);
    enqueue(w, &w->user, "b", 1, "2h");
    enqueue(w, &w->user, "c", 2, "2h");
    AUTO_JSON json_t *b = get(w, "instance_get", "b");
    const json_t *wait = json_object_get(b, "wait");
    assert_int_equal(json_integer_value(json_object_get(wait, "waiting")), 2);
    AUTO_JSON json_t *a = get(w, "instance_get", "a");
    AUTO_JSON json_t *c = get(w, "instance_get", "c");
    /* two cards are the whole node: c goes first */
    assert_string_equal(text_of(json_object_get(c, "wait"), "likely"), text_of(a, "ends_at"));
    assert_true(strcmp(text_of(wait, "likely"), text_of(a, "ends_at")) > 0);
    assert_int_equal(world_call(w, &r, &w->operator, "queue_list", NULL, NULL), ERR_OK);
    AUTO_JSON json_t *all = json_loads(r.answer, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(all, "items")), 2);
    world_reply_fini(&r);
    world_pass(w, 34 * MINUTE);
    AUTO_JSON json_t *later = get(w, "instance_get", "b");
    AUTO_JSON json_t *last = get(w, "instance_get", "c");
    bool b_waits = str_eq(text_of(later, "state"), "queued");
    bool c_waits = str_eq(text_of(last, "state"), "queued");
    assert_true(b_waits != c_waits);
    assert_true(b_waits == json_is_object(json_object_get(later, "wait")));
    world_done(w);
}

/* A project's limit holds with nobody else in line; more than it is refused at once. */
static void a_limit_is_kept(void **state UNUSED)
{
    struct world *w = world_new();

    set_terms(w, "{\"limit\":1}", "lab");
    call_not(w, "instance_create", "{\"gpu\":\"4090\",\"count\":2,\"queue\":true}", NULL,
             ERR_CAPACITY_NEVER);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\"}", NULL);
    call_not(w, "instance_create", "{\"gpu\":\"4090\"}", NULL, ERR_CAPACITY_NONE);
    enqueue(w, &w->user, "b", 1, "2h");
    world_pass(w, MINUTE);
    assert_true(is_in(w, &w->user, "b", "queued"));
    set_terms(w, "{\"limit\":0}", "lab");
    world_pass(w, MINUTE / 2);
    assert_false(is_in(w, &w->user, "b", "queued"));
    world_done(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_second_project_does_not_wait_for_the_whole_line_of_the_first),
    cmocka_unit_test(small_rents_do_not_keep_the_whole_node_out),
    cmocka_unit_test(the_place_and_the_start_are_told),
    cmocka_unit_test(a_limit_is_kept),
};
RUN_TESTS(tests)
