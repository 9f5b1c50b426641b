/* What a supplier's machines earn, when it may be paid out, and what a refund takes back. */
#include <stdlib.h>

#include "../support/books.h"
#include "app/supply.h"
#include "store/rows_plan.h"
#include "store/rows_proof.h"

#define S INT64_C(1000)
#define DAY (INT64_C(86400) * S)

static struct supplier supplier_new(struct store *s, int64_t n, int64_t d, int64_t threshold_u)
{
    struct supplier x = {.id = id_of("sup_one"),
                         .name = "one",
                         .user = id_of("usr_one"),
                         .share_n = n,
                         .share_d = d,
                         .dispute_s = 7 * 86400,
                         .threshold_u = threshold_u,
                         .created_at = T0};

    ok(supply_save(s, &x));
    ok(supply_node_set(s, id_of("nod_one"), x.id, T0));
    return x;
}

/* A lease of one card over [at, at + seconds), settled. */
static void used(struct store *s, const char *name, utime_t at, int64_t seconds, int64_t *io_seq)
{
    char lease[ID_SIZE], instance[ID_SIZE];
    struct funds_term t;
    struct refusal why = {0};

    assert_true(str_printf(lease, ID_SIZE, "lea_%s", name));
    assert_true(str_printf(instance, ID_SIZE, "ins_%s", name));
    struct funds_lease l = lease_ask(lease, instance, 1);
    l.disk_count = 0;
    ok(funds_lease_open(s, at, TERM_S, &l, &t, &why));
    ok(funds_lease_ready(s, l.lease, at));
    *io_seq = run_for(s, lease, *io_seq, at - T0, at - T0 + seconds * S);
    ok(funds_lease_settle(s, at + seconds * S, l.lease, at + seconds * S, false, &why));
}

static struct supply_balance balance(struct store *s, utime_t now, const struct supplier *x)
{
    struct supply_balance b;

    ok(supply_balance(s, now, x, "CNY", &b));
    return b;
}

/* What the journal charged the renter for all windows: the figure of his bill file. */
static int64_t charged(struct store *s)
{
    struct window_list l = {0};
    int64_t sum = 0, one;

    ok(money_window_all(s, &l));
    for (size_t i = 0; i < l.len; i++) {
        ok(proof_posted(s, l.at[i].id, INT64_MAX, &one));
        sum += one;
    }
    free(l.at);
    return sum;
}

static void tick(struct store *s, utime_t now)
{
    struct refusal why = {0};

    ok(supply_tick(s, now, &why));
    check_books(s, now);
}

static void earnings_are_held_then_payable_then_paid_in_whole_cents(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct supplier x = supplier_new(s, 2, 3, 0);
    struct refusal why = {0};
    struct payout p;
    int64_t seq = 1;

    used(s, "a", T0, 100, &seq); /* 55,000 u */
    assert_int_equal(charged(s), 55000);
    tick(s, T0 + 3600 * S);
    assert_int_equal(charged(s), 55000);                /* the share is no matter of the renter */
    assert_int_equal(balance(s, T0, &x).held_u, 36666); /* floor of 36,666.67 */
    tick(s, T0 + 2 * 3600 * S);                         /* again: nothing new */
    assert_int_equal(balance(s, T0, &x).held_u, 36666);
    tick(s, T0 + 7 * DAY); /* the day must be over, and then seven more */
    ok(supply_payout(s, T0 + 7 * DAY, &x, "CNY", id_of("pay_0"), &p, &why));
    assert_int_equal(p.amount_u, 0); /* the dispute window is open */
    tick(s, T0 + 9 * DAY);
    assert_int_equal(balance(s, T0, &x).held_u, 0);
    assert_int_equal(balance(s, T0, &x).payable_u, 36666);
    ok(supply_payout(s, T0 + 9 * DAY, &x, "CNY", id_of("pay_1"), &p, &why));
    assert_int_equal(p.amount_u, 30000);
    assert_int_equal(p.carried_u, 6666);
    assert_int_equal(balance(s, T0, &x).payable_u, 6666);
    assert_int_equal(balance(s, T0, &x).paid_u, 30000);
    check_books(s, T0 + 9 * DAY);
}

static void shares_follow_the_whole_not_each_slice(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct supplier x = supplier_new(s, 1, 7, 0);
    int64_t seq = 1;
    struct funds_term t;
    struct refusal why = {0};
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);

    l.disk_count = 0;
    ok(funds_lease_open(s, T0, TERM_S, &l, &t, &why));
    ok(funds_lease_ready(s, l.lease, T0));
    for (int64_t at = 0; at < 7200; at += 300) {
        seq = run_for(s, "lea_a", seq, at * S, (at + 300) * S);
        ok(funds_lease_renew(s, T0 + (at + 300) * S, TERM_S, l.lease, &t, &why));
        ok(store_meta_set_i64(s, "supply.hour", 0));
        tick(s, T0 + (at + 300) * S);
    }
    ok(funds_lease_settle(s, T0 + 7200 * S, l.lease, T0 + 7200 * S, false, &why));
    ok(store_meta_set_i64(s, "supply.hour", 0));
    tick(s, T0 + 7201 * S);
    assert_int_equal(balance(s, T0, &x).held_u, 2 * 1980000 / 7);
}

/* Gives back a part of what a window was charged. */
static void reverse(struct store *s, utime_t now, const char *id, int64_t u)
{
    struct window_list windows = {0};
    struct refusal why = {0};
    struct ledger_transfer t;
    struct books b;

    ok(money_window_all(s, &windows));
    ok(books_open(s, now, id_of("prj_one"), &b, &why));
    t = transfer_of(&b, id, "reversal");
    assert_true(str_copy(t.id, sizeof(t.id), id));
    memcpy(t.owner, windows.at[0].id, sizeof(t.owner));
    account_id(t.dr, "revenue.compute", "CNY");
    account_id(t.cr, "cash", "prj_one");
    t.amount = u;
    ok(ledger_post(&b, &t, 1, &why));
    vec_fini(&windows);
}

static void a_refund_after_a_payout_is_recovered_once(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct supplier x = supplier_new(s, 80, 100, 0);
    struct refusal why = {0};
    struct payout p;
    int64_t seq = 1;

    used(s, "a", T0, 3600 / 6, &seq); /* 330,000 u: 264,000 of it */
    tick(s, T0 + 9 * DAY);
    tick(s, T0 + 17 * DAY);
    ok(supply_payout(s, T0 + 17 * DAY, &x, "CNY", id_of("pay_1"), &p, &why));
    assert_int_equal(p.amount_u, 260000);
    reverse(s, T0 + 17 * DAY, "rev_1", 100000);
    tick(s, T0 + 18 * DAY);
    assert_int_equal(balance(s, T0, &x).payable_u, 4000 - 80000);
    tick(s, T0 + 19 * DAY);
    assert_int_equal(balance(s, T0, &x).payable_u, 4000 - 80000); /* once */
    ok(supply_payout(s, T0 + 19 * DAY, &x, "CNY", id_of("pay_2"), &p, &why));
    assert_int_equal(p.amount_u, 0);
    assert_int_equal(p.carried_u, 4000 - 80000);
}

static void what_does_not_reach_the_threshold_is_carried_on(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct supplier x = supplier_new(s, 1, 1, 50000);
    struct refusal why = {0};
    struct payout p;
    int64_t seq = 1;

    used(s, "a", T0, 80, &seq); /* 44,000 */
    tick(s, T0 + DAY);
    tick(s, T0 + 10 * DAY);
    ok(supply_payout(s, T0 + 10 * DAY, &x, "CNY", id_of("pay_1"), &p, &why));
    assert_int_equal(p.amount_u, 0);
    assert_int_equal(p.carried_u, 44000);
}

static void a_plan_is_shared_as_it_is_earned(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct supplier x = supplier_new(s, 80, 100, 0);
    struct plan_row p = {.id = id_of("pln_1"),
                         .project = id_of("prj_one"),
                         .instance = id_of("ins_a"),
                         .sku = "gpu.RTX 4090",
                         .cards = 1,
                         .term = 1,
                         .start_s = T0_S,
                         .end_s = T0_S + 30 * 86400,
                         .price = id_of("prc_gpu1"),
                         .paid_u = 900000,
                         .recognised_u = 300001};
    int64_t seq = 1;

    used(s, "a", T0, 10, &seq);
    ok(plan_row_save(s, &p));
    ok(supply_share(s, T0 + DAY, &(struct refusal){0}));
    assert_int_equal(balance(s, T0, &x).held_u, 4400 + 240000);
    p.recognised_u = 200000; /* released early: less was earned after all */
    p.refunded_u = 700000;
    ok(plan_row_save(s, &p));
    ok(supply_share(s, T0 + DAY, &(struct refusal){0}));
    assert_int_equal(balance(s, T0, &x).held_u, 4400 + 240000);
    assert_int_equal(balance(s, T0, &x).payable_u, 160000 - 240000);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(earnings_are_held_then_payable_then_paid_in_whole_cents),
    cmocka_unit_test(shares_follow_the_whole_not_each_slice),
    cmocka_unit_test(a_refund_after_a_payout_is_recovered_once),
    cmocka_unit_test(a_plan_is_shared_as_it_is_earned),
    cmocka_unit_test(what_does_not_reach_the_threshold_is_carried_on),
};
RUN_TESTS(tests)
