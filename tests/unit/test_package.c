/* Resource packages: which one covers a second, what a term reserves of them, what is charged when
 * they are empty or over, what is earned and what lapses. */
#include "../support/books.h"
#include "app/funds_package.h"

#define NOW(s) ((T0_S + (s)) * MS_PER_S)
#define CARD "RTX 4090"

static void offer(struct store *s, const char *id, const char *sku, int64_t u)
{
    struct price_row r = {.id = id_of(id),
                          .currency = "CNY",
                          .p = u,
                          .d = 1,
                          .unit = "package",
                          .unit_u = u,
                          .valid_from_s = T0_S - 86400,
                          .announced_s = T0_S - 86400,
                          .notice_s = PRICE_NOTICE_S};

    assert_true(str_copy(r.sku, sizeof(r.sku), sku));
    ok(money_price_add(s, &r));
}

static struct books at(struct store *s, int64_t second)
{
    struct refusal why = {0};
    struct books b;

    ok(books_open(s, NOW(second), id_of("prj_one"), &b, &why));
    return b;
}

static struct package_ask ask(const char *id, const char *sku)
{
    struct package_ask a = {.sku = sku};

    assert_true(str_printf(a.id.s, ID_SIZE, "pkg_%s", id));
    assert_true(str_printf(a.price.s, ID_SIZE, "prc_%s", id));
    return a;
}

static struct package_row buy(struct store *s, int64_t second, const char *id, const char *sku)
{
    struct package_ask a = ask(id, sku);
    struct books b = at(s, second);
    struct refusal why = {0};
    struct package_row p;

    ok(package_buy(&b, &a, &p, &why));
    check_books(s, NOW(second));
    return p;
}

static struct package_view look(struct store *s, int64_t second, const char *id)
{
    struct books b = at(s, second);
    struct package_row p;
    struct package_view v;

    ok(package_row_get(s, id_of(id), &p));
    ok(package_look(&b, &p, &v));
    return v;
}

static int64_t balance(struct store *s, const char *kind, const char *of)
{
    struct ledger_account a = {0};
    char id[LEDGER_KEY_SIZE];

    account_id(id, kind, of);
    enum err e = money_account_get(s, id, &a);
    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    return e == ERR_OK ? ledger_balance(&a) : 0;
}

static struct funds_term open_lease(struct store *s, const char *lease, const char *instance,
                                    int32_t cards, int64_t term_s)
{
    struct funds_lease l = lease_ask(lease, instance, cards);
    struct refusal why = {0};
    struct funds_term t;

    l.disk_count = 0;
    ok(funds_lease_open(s, T0, term_s, &l, &t, &why));
    ok(funds_lease_ready(s, l.lease, T0));
    check_books(s, T0);
    return t;
}

static int64_t spent(struct store *s, const char *instance)
{
    int64_t u;

    ok(funds_spent(s, id_of(instance), &u));
    return u;
}

static void test_skus(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "package.10.month",     "package.0.month.gpu", "package.010.day.gpu",
        "package.1.hour.gpu",   "package.x.day.gpu.A", "package.1.day.gpu.",
        "package.1.day.disk",   "package..day.gpu",    "plan.day.gpu.A",
        "package.-1.day.gpu.A", "package.1.day.gpux",  "package.1000001.day.gpu",
    };
    struct package_terms t;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(package_sku_parse(bad[i], &t));
    assert_true(package_sku_parse("package.100.month.gpu.RTX 4090", &t));
    assert_int_equal(t.hours, 100);
    assert_int_equal(t.unit, CALENDAR_MONTH);
    assert_string_equal(t.covered, "gpu.RTX 4090");
    assert_true(package_covers("gpu", "gpu.RTX 4090"));
    assert_true(package_covers("gpu.RTX 4090", "gpu.RTX 4090"));
    assert_false(package_covers("gpu.RTX 4090", "gpu.H100"));
    assert_false(package_covers("gpu", "spot.gpu.RTX 4090"));
    assert_false(package_covers("gpu", "cpu.seat"));
}

static void test_order(void **state)
{
    (void)state;
    struct package p[] = {
        {.id = "d", .wide = true, .left = 100, .expires_s = 50},
        {.id = "c", .left = 5, .expires_s = 200},
        {.id = "b", .left = 100, .from_s = 30, .expires_s = 100},
        {.id = "a", .left = 5, .expires_s = 200},
    };
    /* b is first as soon as it begins; then a and c by their ids, then the wide one */
    static const struct {
        const char *id;
        int64_t to;
    } want[] = {{"a", 2}, {"c", 4}, {"d", 30}, {"b", 80}, {"", 90}};
    int64_t from = 0, to;
    size_t i;

    package_rank(p, 4);
    for (size_t k = 0; k < ARRAY_LEN(want); k++) {
        bool covered = package_next(p, 4, 2, from, 90, &i, &to);

        assert_int_equal(covered, want[k].id[0] != '\0');
        if (covered)
            assert_string_equal(p[i].id, want[k].id);
        assert_int_equal(to, want[k].to);
        from = to;
    }
}

/* B47: 10 h bought, 12.5 h used, in terms of ten minutes. */
static void test_overflow(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct refusal why = {0};
    struct funds_term t;
    int64_t seq = 1;

    offer(s, "prc_o", "package.10.month.gpu.RTX 4090", 15000000);
    (void)buy(s, 0, "a", "package.10.month.gpu.RTX 4090");
    assert_int_equal(balance(s, "deferred", "pkg_a"), 15000000);
    (void)open_lease(s, "lea_a", "ins_a", 1, TERM_S);
    for (int64_t now = 300; now <= 45000; now += 300) {
        struct funds_slice one = slice_of("lea_a", seq++, (now - 300) * 1000, now * 1000);

        assert_int_equal(deliver(s, NOW(now), &one, 1).taken, 1);
        ok(funds_lease_renew(s, NOW(now), TERM_S, id_of("lea_a"), &t, &why));
        assert_true(t.extended);
    }
    check_books(s, NOW(45000));
    ok(funds_lease_settle(s, NOW(45000), id_of("lea_a"), NOW(45000), false, &why));
    assert_int_equal(spent(s, "ins_a"), 4950000);
    assert_int_equal(look(s, 45000, "pkg_a").used, 36000);
    assert_int_equal(look(s, 45000, "pkg_a").left, 0);
    ok(packages_tick(s, NOW(45000), &why));
    assert_int_equal(balance(s, "deferred", "pkg_a"), 0);
    assert_int_equal(balance(s, "revenue.compute", "CNY"), 15000000 + 4950000);
    assert_int_equal(balance(s, "covered", PACKAGE_LEDGER), 36000);
    check_books(s, NOW(45000));
    store_close(s);
}

/* Two leases never reserve the same seconds: what one has, the other pays. */
static void test_shared(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct refusal why = {0};

    offer(s, "prc_o", "package.1.day.gpu", 1000000);
    (void)buy(s, 0, "a", "package.1.day.gpu");
    struct funds_term one = open_lease(s, "lea_a", "ins_a", 1, 2000);
    struct funds_term two = open_lease(s, "lea_b", "ins_b", 1, 2000);
    assert_int_equal(one.hold_u, 0);
    assert_int_equal(two.hold_u, 400 * 1980000 / 3600);
    assert_int_equal(look(s, 0, "pkg_a").reserved, 3600);
    assert_int_equal(look(s, 0, "pkg_a").left, 0);
    /* the first ends early and gives back: the second has it with its next term */
    ok(funds_lease_settle(s, NOW(0), id_of("lea_a"), NOW(0), false, &why));
    assert_int_equal(look(s, 0, "pkg_a").left, 2000);
    ok(funds_lease_renew(s, NOW(1), 3600, id_of("lea_b"), &two, &why));
    assert_int_equal(two.hold_u, 1 * 1980000 / 3600);
    check_books(s, NOW(1));
    store_close(s);
}

/* A term that its end makes shorter reserves no more than it will run. */
static void test_short_term(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 2);
    struct refusal why = {0};
    struct funds_term t;

    offer(s, "prc_o", "package.10.day.gpu", 1000000);
    (void)buy(s, 0, "a", "package.10.day.gpu");
    l.disk_count = 0;
    l.ends_at = NOW(250);
    ok(funds_lease_open(s, T0, TERM_S, &l, &t, &why));
    assert_int_equal(t.paid_until, NOW(250));
    assert_int_equal(look(s, 0, "pkg_a").reserved, 500);
    check_books(s, T0);
    store_close(s);
}

/* Its end is exclusive and cuts at the second; what is left lapses, its money too. */
static void test_expiry(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct refusal why = {0};

    offer(s, "prc_o", "package.100.day.gpu.RTX 4090", 36000000);
    (void)buy(s, -86300, "a", "package.100.day.gpu.RTX 4090");
    (void)open_lease(s, "lea_a", "ins_a", 2, 300);
    struct funds_slice one = slice_of("lea_a", 1, 0, 300000);
    assert_int_equal(deliver(s, NOW(300), &one, 1).taken, 1);
    check_books(s, NOW(300));
    ok(funds_lease_settle(s, NOW(300), id_of("lea_a"), NOW(300), false, &why));
    assert_int_equal(spent(s, "ins_a"), 200 * 2 * 1980000 / 3600);
    assert_int_equal(look(s, 300, "pkg_a").used, 200);
    ok(packages_tick(s, NOW(100 + 179), &why));
    assert_int_equal(balance(s, "breakage", "CNY"), 0);
    ok(packages_tick(s, NOW(100 + 180), &why));
    assert_int_equal(balance(s, "breakage", "CNY"), 36000000 - 20000);
    assert_int_equal(balance(s, "deferred", "pkg_a"), 0);
    assert_int_equal(balance(s, "package", "pkg_a"), 0);
    assert_int_equal(balance(s, "lapsed", PACKAGE_LEDGER), 360000 - 200);
    check_books(s, NOW(300));
    ok(packages_tick(s, NOW(400), &why)); /* once */
    check_books(s, NOW(400));
    store_close(s);
}

/* Bought while something runs: its seconds from now on, not those that are still to be proven. */
static void test_bought_late(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct refusal why = {0};

    offer(s, "prc_o", "package.10.day.gpu", 1000000);
    (void)open_lease(s, "lea_a", "ins_a", 1, 3600);
    (void)buy(s, 1000, "a", "package.10.day.gpu");
    struct funds_slice one = slice_of("lea_a", 1, 0, 3600000);
    assert_int_equal(deliver(s, NOW(3600), &one, 1).taken, 1);
    check_books(s, NOW(3600));
    ok(funds_lease_settle(s, NOW(3600), id_of("lea_a"), NOW(3600), false, &why));
    assert_int_equal(spent(s, "ins_a"), 550000);
    assert_int_equal(look(s, 3600, "pkg_a").used, 2600);
    store_close(s);
}

static void test_refused(void **state)
{
    (void)state;
    struct store *s = books_new(20000000);
    struct budget_row cap = {.project = id_of("prj_one"),
                             .name = "cap",
                             .scope = BUDGET_PROJECT,
                             .period = BUDGET_MONTH,
                             .cap_u = 5000000};
    struct package_ask a = ask("a", "package.10.day.gpu"), dear = ask("b", "package.9.day.gpu");
    struct package_ask none = ask("c", "package.8.day.gpu");
    struct refusal why = {0};
    struct package_row p;

    offer(s, "prc_o", "package.10.day.gpu", 1000000);
    offer(s, "prc_d", "package.9.day.gpu", 30000000);
    struct books b = at(s, 0);
    assert_int_equal(package_buy(&b, &none, &p, &why), ERR_PRICE_UNKNOWN);
    ok(store_mark(s));
    assert_int_equal(package_buy(&b, &dear, &p, &why), ERR_BALANCE);
    ok(store_mark_undo(s));
    ok(money_budget_save(s, &cap));
    ok(store_mark(s));
    assert_int_equal(package_buy(&b, &dear, &p, &why), ERR_BUDGET);
    ok(store_mark_undo(s));
    for (int i = 0; i < 5; i++) { /* five fill the budget */
        char id[8];

        assert_true(str_printf(id, sizeof(id), "n%d", i));
        (void)buy(s, 0, id, "package.10.day.gpu");
    }
    assert_int_equal(package_quote(&b, &a, &p, &why), ERR_OK);
    ok(store_mark(s));
    assert_int_equal(package_buy(&b, &a, &p, &why), ERR_BUDGET);
    ok(store_mark_undo(s));
    check_books(s, T0);
    store_close(s);
}

/* The quote shows what a package covers; the price per hour stays the price. */
static void test_quote(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct funds_ask a = {.project = id_of("prj_one"), .for_s = 7200};
    struct refusal why = {0};
    struct funds_quote q;

    offer(s, "prc_o", "package.1.day.gpu", 1000000);
    (void)buy(s, 0, "a", "package.1.day.gpu");
    a.shape = lease_ask("lea_a", "ins_a", 1).shape;
    a.shape.system_disk_mib = 0;
    ok(funds_quote(s, T0, TERM_S, &a, &q, &why));
    assert_int_equal(q.hour_u, 1980000);
    assert_int_equal(q.hour_unit_u, 1980000);
    assert_int_equal(q.total_u, 1980000);
    assert_int_equal(q.hold_u, 0);
    assert_int_equal(q.need_u, 0);
    assert_int_equal(q.line_count, 2);
    assert_string_equal(q.lines[0].price.s, "prc_a");
    assert_int_equal(q.lines[0].qty, 3600);
    store_close(s);
}

/* What runs on a package burns nothing until the package is used up. */
static void test_wallet(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct refusal why = {0};
    struct funds_wallet w;

    offer(s, "prc_o", "package.2.day.gpu", 1000000);
    (void)buy(s, 0, "a", "package.2.day.gpu");
    ok(funds_wallet(s, T0, id_of("prj_one"), &w, &why));
    assert_int_equal(w.package_s, 7200);
    assert_int_equal(w.package_end_s, T0_S + 86400);
    (void)open_lease(s, "lea_a", "ins_a", 1, TERM_S);
    ok(funds_wallet(s, T0, id_of("prj_one"), &w, &why));
    assert_int_equal(w.package_s, 6600);
    assert_int_equal(w.held_u, 0);
    assert_int_equal(w.burn_hour_u, 0);
    assert_int_equal(w.lasts_s, 7200 + 50 * 3600);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"what is a package", test_skus, 0, 0, 0},
        {"narrower before wider, earlier end first, cut at each second", test_order, 0, 0, 0},
        {"what a package does not cover is charged on demand", test_overflow, 0, 0, 0},
        {"two leases never count with the same seconds", test_shared, 0, 0, 0},
        {"a shorter term reserves less", test_short_term, 0, 0, 0},
        {"its end is exclusive; what is left lapses", test_expiry, 0, 0, 0},
        {"bought while something runs: from this second on", test_bought_late, 0, 0, 0},
        {"no offer, no money, no budget", test_refused, 0, 0, 0},
        {"the quote knows what is covered", test_quote, 0, 0, 0},
        {"the wallet knows what is left and how long it lasts", test_wallet, 0, 0, 0},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
