/* The same month in other cuts: the parts add up to the whole, to the last unit. */
#include "../support/books.h"
#include "app/usage_cost.h"
#include "store/rows_review.h"

#define S INT64_C(1000)
#define DAYS_MAX 40

struct sums {
    int64_t total_u, idle_u, day_u[DAYS_MAX];
    const struct books *b;
};

static enum err add(void *arg, const struct usage_cost *c)
{
    struct sums *x = arg;
    struct period day;

    period_day_at(&x->b->zone, c->from_s, &day);
    assert_true(c->to_s <= day.to_s); /* no part is in two days */
    assert_in_range(day.day, 1, DAYS_MAX - 1);
    x->day_u[day.day] += c->u;
    x->total_u += c->u;
    if (c->gpu_util_pct >= 0 && c->gpu_util_pct < 5 && c->window->meter == METER_GPU)
        x->idle_u += c->u;
    return ERR_OK;
}

static int64_t windows_u(struct store *s, int64_t year, int month)
{
    struct window_list windows = {0};
    int64_t sum = 0;

    ok(money_window_month(s, id_of("prj_one"), year, month, &windows));
    for (size_t i = 0; i < windows.len; i++)
        sum += windows.at[i].rated_u;
    vec_fini(&windows);
    return sum;
}

/* One card for three hours around midnight in Shanghai (16:00Z), idle in the last; its disk stays.
 */
static struct store *some_days(void)
{
    struct store *s = books_new(100000000);
    const utime_t at = T0 + 14 * 3600 * S;
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_term t;
    struct refusal why = {0};

    ok(funds_lease_open(s, at, TERM_S, &l, &t, &why));
    ok(funds_lease_ready(s, l.lease, at));
    for (int64_t n = 0; n < 3 * 360; n++) {
        utime_t from = at - T0 + n * 10 * S;
        struct funds_slice one = slice_of("lea_a", n + 1, from, from + 10 * S);

        one.gpu_util_pct = n < 720 ? 90 : 1;
        (void)deliver(s, T0 + from + 10 * S, &one, 1);
        ok(funds_node_time(s, T0 + from + 10 * S, id_of("nod_one"), T0 + from + 10 * S, true));
        if (n % 30 == 29)
            ok(funds_lease_renew(s, T0 + from + 10 * S, TERM_S, l.lease, &t, &why));
    }
    ok(funds_lease_settle(s, at + 3 * 3600 * S, l.lease, at + 3 * 3600 * S, false, &why));
    ok(funds_node_time(s, T0 + 5 * 86400 * S, id_of("nod_one"), T0 + 5 * 86400 * S, true));
    return s;
}

static void days_add_up_to_the_month_and_idle_time_is_counted(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = some_days();
    struct refusal why = {0};
    struct books b;
    struct sums x = {.b = &b};
    int64_t days_u = 0;

    ok(books_open(s, T0 + 5 * 86400 * S, id_of("prj_one"), &b, &why));
    ok(usage_cost_month(&b, 2026, 3, add, &x));
    assert_int_equal(x.total_u, windows_u(s, 2026, 3));
    assert_true(x.total_u > 3 * 1980000);
    for (size_t i = 0; i < DAYS_MAX; i++)
        days_u += x.day_u[i];
    assert_int_equal(days_u, x.total_u);
    assert_true(x.day_u[1] >= 2 * 1980000 && x.day_u[1] < 2 * 1990000);
    assert_in_range(x.day_u[4], 99999, 100001); /* 20 GiB of a stopped disk for a day */
    assert_int_equal(x.idle_u, 1980000);
}

static void an_instance_is_seen_with_its_cards_and_what_they_cost(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = some_days();
    struct review_instance_list list = {0};

    ok(review_instance_list(s, id_of("prj_one"), 2026, 3, &list));
    assert_int_equal(list.len, 1);
    assert_string_equal(list.at[0].sku, "gpu.RTX 4090");
    assert_int_equal(list.at[0].cards, 1);
    assert_int_equal(list.at[0].card_s, 3 * 3600);
    assert_int_equal(list.at[0].paid_u, 3 * 1980000);
    vec_fini(&list);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(days_add_up_to_the_month_and_idle_time_is_counted),
    cmocka_unit_test(an_instance_is_seen_with_its_cards_and_what_they_cost),
};
RUN_TESTS(tests)
