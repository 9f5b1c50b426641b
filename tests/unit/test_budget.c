/* Caps of a project, a user, a label: who they stop, when, and what they tell. */
#include "../support/books.h"
#include "store/sql.h"

#define S INT64_C(1000)
#define CARD_U 550 /* 1.98 an hour, by the second */

static void budget_add(struct store *s, const char *name, int64_t cap_u, enum budget_scope scope,
                       const char *of, bool notify)
{
    struct budget_row b = {
        .project = id_of("prj_one"), .cap_u = cap_u, .scope = scope, .notify = notify};

    assert_true(str_copy(b.name, sizeof(b.name), name));
    assert_true(str_copy(b.scope_of, sizeof(b.scope_of), of));
    ok(money_budget_save(s, &b));
}

static struct funds_lease lease_by(const char *lease, const char *instance, const char *user,
                                   const char *labels)
{
    struct funds_lease l = lease_ask(lease, instance, 1);

    l.disk_count = 0; /* cards only: one second is 550 µ */
    l.spender.user = id_of(user);
    assert_true(str_copy(l.spender.labels, sizeof(l.spender.labels), labels));
    return l;
}

static enum err open_at(struct store *s, utime_t now, const struct funds_lease *l,
                        struct funds_term *ret_t)
{
    struct refusal why = {0};
    enum err e = funds_lease_open(s, now, TERM_S, l, ret_t, &why);

    if (e == ERR_OK)
        ok(funds_lease_ready(s, l->lease, now));
    return e;
}

static utime_t renewed(struct store *s, utime_t now, const char *lease)
{
    struct funds_term t = {0};
    struct refusal why = {0};

    ok(funds_lease_renew(s, now, TERM_S, id_of(lease), &t, &why));
    return t.paid_until;
}

static void all_under_one_cap_end_at_the_same_maximal_second(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease a = lease_by("lea_a", "ins_a", "usr_one", ""),
                       b = lease_by("lea_b", "ins_b", "usr_two", ""),
                       c = lease_by("lea_c", "ins_c", "usr_two", "");
    struct funds_term t;
    utime_t until[3] = {0};
    const char *const names[] = {"lea_a", "lea_b", "lea_c"};

    budget_add(s, "cap", 3 * 1000 * CARD_U + 2 * CARD_U + 300, BUDGET_PROJECT, "", false);
    ok(open_at(s, T0, &a, &t));
    ok(open_at(s, T0 + 90 * S, &b, &t));
    ok(open_at(s, T0 + 210 * S, &c, &t));
    for (utime_t now = T0 + 300 * S; now < T0 + 1300 * S; now += 100 * S)
        for (size_t i = 0; i < 3; i++)
            until[i] = MAX(until[i], renewed(s, now, names[i]));
    /* a runs x, b x - 90, c x - 210 seconds: 3x - 300 <= 3002 */
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(until[i], T0 + 1100 * S);
    check_books(s, T0 + 1100 * S);
}

static void a_lone_lease_takes_the_whole_cap(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease a = lease_by("lea_a", "ins_a", "usr_one", "");
    struct funds_term t;

    budget_add(s, "cap", 400 * CARD_U + CARD_U - 1, BUDGET_USER, "usr_one", false);
    ok(open_at(s, T0, &a, &t));
    assert_int_equal(t.paid_until, T0 + 400 * S);
    assert_int_equal(t.limit, TERM_BY_BUDGET);
    assert_int_equal(renewed(s, T0 + 300 * S, "lea_a"), T0 + 400 * S);
    check_books(s, T0 + 300 * S);
}

static void a_cap_stops_whom_it_is_for_and_nobody_else(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease hers = lease_by("lea_a", "ins_a", "usr_one", "team=vision,run=7"),
                       his = lease_by("lea_b", "ins_b", "usr_two", "team=visio"),
                       third = lease_by("lea_c", "ins_c", "usr_two", "run=7");
    struct funds_term t;

    budget_add(s, "user", 500 * CARD_U, BUDGET_USER, "usr_one", false);
    budget_add(s, "label", 100 * CARD_U, BUDGET_LABEL, "team=vision", false);
    budget_add(s, "warns", 1, BUDGET_PROJECT, "", true);
    ok(open_at(s, T0, &hers, &t));
    assert_int_equal(t.paid_until, T0 + 100 * S);
    ok(open_at(s, T0, &his, &t));
    assert_int_equal(t.paid_until, T0 + 600 * S);
    ok(open_at(s, T0, &third, &t));
    assert_int_equal(t.paid_until, T0 + 600 * S);
    check_books(s, T0);
    struct funds_lease again = lease_by("lea_d", "ins_d", "usr_one", "team=vision");
    assert_int_equal(open_at(s, T0, &again, &t), ERR_BUDGET);
    struct funds_ask ask = {.project = id_of("prj_one"), .shape = hers.shape, .for_s = 600};
    struct funds_quote q;
    struct refusal why = {0};
    ok(funds_quote(s, T0, TERM_S, &ask, &q, &why));
    ok(funds_gate(s, T0, &ask, &q, &why));
    CHECK(str_copy(ask.spender.labels, sizeof(ask.spender.labels), "run=1,team=vision2"));
    ok(funds_gate(s, T0, &ask, &q, &why)); /* the beginning of a label is not the label */
    ask.spender = hers.spender;
    assert_int_equal(funds_gate(s, T0, &ask, &q, &why), ERR_BUDGET);
}

static size_t told(struct store *s, const char *kind, const char *data)
{
    struct event_list events = {0};
    size_t n = 0;

    ok(store_event_list(s, id_of("prj_one"), id_of(""), 0, 100, &events));
    for (size_t i = 0; i < events.len; i++)
        n += str_eq(events.at[i].kind, kind) && strstr(events.at[i].data, data);
    vec_fini(&events);
    return n;
}

static void each_level_is_told_once(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease a = lease_by("lea_a", "ins_a", "usr_one", "");
    struct funds_term t;
    struct refusal why;
    int64_t seq = 1;

    budget_add(s, "cap", 2000 * CARD_U, BUDGET_USER, "usr_one", true);
    ok(open_at(s, T0, &a, &t));
    for (int64_t at = 0; at < 2400; at += 60) {
        seq = run_for(s, "lea_a", seq, at * S, (at + 60) * S);
        (void)renewed(s, T0 + (at + 60) * S, "lea_a");
        ok(funds_tick(s, T0 + (at + 60) * S, &why));
    }
    assert_int_equal(told(s, "budget.used", "\"percent\":\"50\""), 1);
    assert_int_equal(told(s, "budget.used", "\"percent\":\"80\""), 1);
    assert_int_equal(told(s, "budget.used", "\"percent\":\"100\""), 1);
    /* 2000 s left at the start: the hour at once, ten minutes at 1,400 s */
    assert_int_equal(told(s, "budget.low", ""), 2);
    check_books(s, T0 + 2400 * S); /* it only warned: what ran went on past the cap */
    int64_t spent = 0;
    ok(funds_spent(s, id_of("ins_a"), &spent));
    assert_int_equal(spent, 2400 * CARD_U);
}

static void a_cap_of_a_day_begins_anew_each_day(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease a = lease_by("lea_a", "ins_a", "usr_one", "");
    struct budget_row b = {.project = id_of("prj_one"),
                           .name = "daily",
                           .cap_u = 3600 * CARD_U,
                           .scope = BUDGET_PROJECT,
                           .period = BUDGET_DAY};
    const int64_t dawn = 16 * 3600; /* midnight in Shanghai */
    struct funds_term t;
    struct refusal why;
    int64_t seq = 1;

    ok(money_budget_save(s, &b));
    ok(open_at(s, T0 + (dawn - 3000) * S, &a, &t));
    for (int64_t at = dawn - 3000; at < dawn + 3000; at += 300) {
        seq = run_for(s, "lea_a", seq, at * S, (at + 300) * S);
        (void)renewed(s, T0 + (at + 300) * S, "lea_a");
        ok(funds_tick(s, T0 + (at + 300) * S, &why));
    }
    assert_int_equal(told(s, "budget.used", "\"percent\":\"50\""), 2); /* once on each day */
    int64_t spent = 0;
    ok(funds_spent(s, id_of("ins_a"), &spent));
    assert_int_equal(spent, 6000 * CARD_U); /* more than a day's cap, on two days */
    check_books(s, T0 + (dawn + 3000) * S);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_cap_of_a_day_begins_anew_each_day),
    cmocka_unit_test(all_under_one_cap_end_at_the_same_maximal_second),
    cmocka_unit_test(a_lone_lease_takes_the_whole_cap),
    cmocka_unit_test(a_cap_stops_whom_it_is_for_and_nobody_else),
    cmocka_unit_test(each_level_is_told_once),
};
RUN_TESTS(tests)
