/* Reserved plans in the books: covered seconds cost nothing, conversion is at a second, what is
 * left early comes back by its rule, revenue is earned month by month. */
#include "../support/books.h"
#include "app/funds_plan.h"

#define NOW(s) ((T0_S + (s)) * MS_PER_S)

static void offer(struct store *s, const char *id, const char *sku, int64_t u, int32_t policy,
                  int32_t fee)
{
    struct price_row r = {.id = id_of(id),
                          .currency = "CNY",
                          .p = u,
                          .d = 1,
                          .unit_u = u,
                          .policy = policy,
                          .fee_pct = fee,
                          .valid_from_s = T0_S - 86400,
                          .announced_s = T0_S - 86400,
                          .notice_s = PRICE_NOTICE_S};

    assert_true(str_copy(r.sku, sizeof(r.sku), sku));
    assert_true(str_copy(r.unit, sizeof(r.unit), "day"));
    ok(money_price_add(s, &r));
}

static struct books at(struct store *s, int64_t second)
{
    struct refusal why = {0};
    struct books b;

    ok(books_open(s, NOW(second), id_of("prj_one"), &b, &why));
    return b;
}

static struct plan_ask ask(const char *plan, enum calendar_unit unit)
{
    struct plan_ask a = {.instance = id_of("ins_a"), .gpu = "RTX 4090", .cards = 1, .unit = unit};

    assert_true(str_printf(a.id.s, ID_SIZE, "pln_%s", plan));
    assert_true(str_printf(a.price.s, ID_SIZE, "prc_%s", plan));
    return a;
}

static struct plan_row buy(struct store *s, int64_t second, struct plan_ask a)
{
    struct books b = at(s, second);
    struct refusal why = {0};
    struct plan_row p;

    ok(plan_open(&b, &a, &p, &why));
    ok(plan_rehold(&b, p.instance, &why));
    ok(plan_pay(&b, &p, &a.spender, &why));
    return p;
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

static void open_lease(struct store *s)
{
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct refusal why = {0};
    struct funds_term t;

    l.disk_count = 0;
    ok(funds_lease_open(s, T0, 3600 * 3, &l, &t, &why));
    ok(funds_lease_ready(s, l.lease, T0));
}

/* B14: 5432 s on-demand, then a day plan; evidence of the whole time comes late and in pieces. */
static void test_conversion(void **state)
{
    (void)state;
    struct store *s = books_new(100000000);
    struct refusal why = {0};
    int64_t cost;

    offer(s, "prc_day", "plan.day.gpu.RTX 4090", 40000000, PLAN_PRO_RATA, 0);
    open_lease(s);
    struct plan_row p = buy(s, 5432, ask("a", CALENDAR_DAY));
    assert_int_equal(p.end_s, T0_S + 5432 + 86400);
    assert_int_equal(balance(s, "deferred", "pln_a"), 40000000);
    check_books(s, NOW(5432));
    (void)run_for(s, "lea_a", 1, 0, 9000000);
    check_books(s, NOW(9000));
    ok(funds_lease_settle(s, NOW(9000), id_of("lea_a"), NOW(9000), false, &why));
    ok(funds_spent(s, id_of("ins_a"), &cost));
    assert_int_equal(cost, 2987600);
    assert_int_equal(balance(s, "cash", "prj_one"), 100000000 - 42987600);
    check_books(s, NOW(9000));
    struct window_list w = {0};
    ok(money_window_all(s, &w));
    assert_int_equal(w.len, 2);
    for (size_t i = 0; i < w.len; i++)
        if (str_eq(w.at[i].price.s, "prc_a"))
            assert_int_equal(w.at[i].qty, 9000 - 5432);
    vec_fini(&w);
    store_close(s);
}

static void test_refusals(void **state)
{
    (void)state;
    struct store *s = books_new(50000000);
    struct refusal why = {0};
    struct plan_row p;

    offer(s, "prc_day", "plan.day.gpu.RTX 4090", 40000000, PLAN_PRO_RATA, 0);
    struct books b = at(s, 10);
    struct plan_ask a = ask("m", CALENDAR_MONTH);
    assert_int_equal(plan_quote(&b, &a, &p, &why), ERR_PRICE_UNKNOWN);
    p = buy(s, 10, ask("a", CALENDAR_DAY));
    a = ask("b", CALENDAR_DAY);
    assert_int_equal(plan_quote(&b, &a, &p, &why), ERR_PLAN_COVERED);
    a.instance = id_of("ins_b");
    ok(plan_open(&b, &a, &p, &why));
    assert_int_equal(plan_pay(&b, &p, &a.spender, &why), ERR_BALANCE);
    store_close(s);
}

/* More cards than were bought, other cards and seats are not covered; nor is what lies outside. */
static void test_cover(void **state)
{
    (void)state;
    struct store *s = books_new(200000000);
    struct cover c[COVERS_MAX];
    struct rating r = {.instance = id_of("ins_a"), .meter = METER_GPU, .qty_per_s = 1};
    size_t n;

    offer(s, "prc_day", "plan.day.gpu.RTX 4090", 40000000, PLAN_PRO_RATA, 0);
    (void)buy(s, 100, ask("a", CALENDAR_DAY));
    struct books b = at(s, 100);
    funds_sku(METER_GPU, "RTX 4090", r.sku);
    ok(cover_split(&b, &r, T0_S, T0_S + 200000, c, &n));
    assert_int_equal(n, 3);
    assert_string_equal(c[1].price.s, "prc_a");
    assert_int_equal(c[1].from_s, T0_S + 100);
    assert_int_equal(c[1].to_s, T0_S + 86500);
    assert_false(c[2].price.s[0]);
    ok(cover_split(&b, &r, T0_S, T0_S + 100, c, &n));
    assert_true(n == 1 && !c[0].price.s[0]);
    r.qty_per_s = 2;
    ok(cover_split(&b, &r, T0_S, T0_S + 200000, c, &n));
    assert_int_equal(n, 1);
    r.qty_per_s = 1;
    r.meter = METER_CPU;
    ok(cover_split(&b, &r, T0_S, T0_S + 200000, c, &n));
    assert_int_equal(n, 1);
    r.meter = METER_GPU;
    funds_sku(METER_GPU, "A100", r.sku);
    ok(cover_split(&b, &r, T0_S, T0_S + 200000, c, &n));
    assert_int_equal(n, 1);
    store_close(s);
}

/* The quote of a covered instance: the plan's part at 0, the rest at the hourly price. */
static void test_quote(void **state)
{
    (void)state;
    struct store *s = books_new(200000000);
    struct funds_ask a = {.project = id_of("prj_one"),
                          .instance = id_of("ins_a"),
                          .shape = lease_ask("lea_a", "ins_a", 1).shape,
                          .for_s = 86400 + 3600};
    struct refusal why = {0};
    struct funds_quote q;

    a.shape.system_disk_mib = 0;
    offer(s, "prc_day", "plan.day.gpu.RTX 4090", 40000000, PLAN_PRO_RATA, 0);
    (void)buy(s, 0, ask("a", CALENDAR_DAY));
    ok(funds_quote(s, NOW(0), TERM_S, &a, &q, &why));
    assert_int_equal(q.line_count, 2);
    assert_int_equal(q.lines[0].qty, 86400);
    assert_int_equal(q.lines[0].amount_u, 0);
    assert_int_equal(q.lines[1].qty, 3600);
    assert_int_equal(q.total_u, 1980000);
    assert_int_equal(q.hour_u, 0);
    assert_int_equal(q.hold_u, 0);
    int64_t run, stopped;
    ok(funds_rates(s, NOW(0), a.project, a.instance, &a.shape, NULL, 0, &run, &stopped, &why));
    assert_int_equal(run, 0);
    ok(funds_rates(s, NOW(86400), a.project, a.instance, &a.shape, NULL, 0, &run, &stopped, &why));
    assert_int_equal(run, 1980000);
    store_close(s);
}

/* A month of 1200.00 left after 10 d 6 h: 410 is used (B58); earlier months were earned already. */
static void test_pro_rata(void **state)
{
    (void)state;
    struct store *s = books_new(2000000000);
    struct refusal why = {0};
    struct plan_back back;

    offer(s, "prc_mon", "plan.month.gpu.RTX 4090", 1240000000, PLAN_PRO_RATA, 0);
    struct plan_row p = buy(s, 0, ask("a", CALENDAR_MONTH));
    assert_int_equal(p.end_s - p.start_s, 31 * 86400);
    struct books b = at(s, 885600);
    ok(plan_release(&b, &p, false, &back, &why));
    assert_int_equal(back.consumed_u, 410000000);
    assert_int_equal(back.refund_u, 830000000);
    assert_int_equal(balance(s, "deferred", "pln_a"), 0);
    assert_int_equal(balance(s, "revenue.compute", "CNY"), 410000000);
    assert_int_equal(balance(s, "cash", "prj_one"), 2000000000 - 410000000);
    assert_int_equal(p.over_s, T0_S + 885600);
    check_books(s, NOW(885600));
    store_close(s);
}

/* Used time at the hourly price and a tenth of the discount; revenue that was earned by time
 * already is turned back where the rule gives less. */
static void test_clawback(void **state)
{
    (void)state;
    struct store *s = books_new(2000000000);
    struct refusal why = {0};
    struct plan_back back;

    offer(s, "prc_day", "plan.day.gpu.RTX 4090", 24000000, PLAN_CLAWBACK, 10);
    struct plan_row p = buy(s, 0, ask("a", CALENDAR_DAY));
    struct books b = at(s, 36000);
    int64_t used;
    ok(plan_used(&b, &p, &used));
    ok(plan_release(&b, &p, false, &back, &why));
    /* 10 h: 19.80 on demand, 10.00 by the plan, fee 0.98 */
    assert_int_equal(back.consumed_u, 19800000 + 980000);
    assert_int_equal(used, back.consumed_u);
    assert_int_equal(back.refund_u, 24000000 - 20780000);
    check_books(s, NOW(36000));
    /* nothing after its end, all of it at its end */
    struct plan_term t = {.start_s = 0, .end_s = 10, .cards = 1, .paid_u = 7};
    ok(plan_consumed(&t, 10, &used));
    assert_int_equal(used, 7);
    ok(plan_consumed(&t, -5, &used));
    assert_int_equal(used, 0);
    store_close(s);
}

/* Bought on 1 March 08:00 in Shanghai for a month: March earns to its border, April the rest. */
static void test_earned(void **state)
{
    (void)state;
    struct store *s = books_new(2000000000);
    struct refusal why = {0};
    int64_t march = 31 * 86400 - 8 * 3600;

    offer(s, "prc_mon", "plan.month.gpu.RTX 4090", 1000000000, PLAN_PRO_RATA, 0);
    struct plan_row p = buy(s, 0, ask("a", CALENDAR_MONTH));
    struct books b = at(s, march - 1);
    ok(plan_recognise(&b, &p, &why));
    assert_int_equal(p.recognised_u, 0);
    b = at(s, march);
    ok(plan_recognise(&b, &p, &why));
    assert_int_equal(p.recognised_u, INT64_C(1000000000) * march / (31 * 86400));
    ok(plan_recognise(&b, &p, &why)); /* again is nothing */
    assert_int_equal(balance(s, "deferred", "pln_a"), 1000000000 - p.recognised_u);
    b = at(s, 31 * 86400);
    ok(plan_recognise(&b, &p, &why));
    assert_int_equal(p.recognised_u, 1000000000);
    assert_int_equal(p.state, PLAN_OVER);
    assert_int_equal(balance(s, "deferred", "pln_a"), 0);
    check_books(s, NOW(31 * 86400));
    store_close(s);
}

/* The anchor stays: a plan of 31 January has its next end on 31 March; terms touch. */
static void test_renewal(void **state)
{
    (void)state;
    struct store *s = books_new(2000000000);
    struct funds_spender spender = {0};
    struct refusal why = {0};
    struct plan_row next;
    struct civil c = {.year = 2027, .month = 1, .day = 31, .hour = 12};
    struct zone z;

    assert_true(zone_builtin("Asia/Shanghai", &z));
    int64_t start = civil_instant(&z, &c) - T0_S;
    offer(s, "prc_mon", "plan.month.gpu.RTX 4090", 500000000, PLAN_PRO_RATA, 0);
    struct plan_row p = buy(s, start, ask("a", CALENDAR_MONTH));
    c.month = 2;
    c.day = 28;
    assert_int_equal(p.end_s, civil_instant(&z, &c));
    struct books b = at(s, p.end_s - T0_S - 60);
    ok(plan_renew(&b, &p, id_of("pln_b"), id_of("prc_b"), &spender, &next, &why));
    c.month = 3;
    c.day = 31;
    assert_int_equal(next.start_s, p.end_s);
    assert_int_equal(next.end_s, civil_instant(&z, &c));
    assert_int_equal(next.term, 2);
    assert_int_equal(balance(s, "cash", "prj_one"), 1000000000);
    check_books(s, NOW(p.end_s - T0_S - 60));
    store_close(s);
}

static int64_t counted(struct store *s, int64_t now_s)
{
    struct budget_list rows = {0};
    struct budget *money = NULL;
    struct books b = at(s, now_s);
    int64_t u;

    ok(budgets_load(&b, &rows, &money));
    u = money[0].posted_u;
    free(money);
    vec_fini(&rows);
    return u;
}

/* A budget has room for a plan or it is not bought; what is bought counts, on its day, and what
 * comes back of it counts no more. */
static void test_budget(void **state)
{
    (void)state;
    struct store *s = books_new(2000000000);
    struct budget_row row = {.project = id_of("prj_one"), .name = "cap", .cap_u = 45000000};
    struct refusal why = {0};
    struct plan_back back;
    struct plan_row p, first;

    offer(s, "prc_day", "plan.day.gpu.RTX 4090", 40000000, PLAN_PRO_RATA, 0);
    open_lease(s);
    ok(money_budget_save(s, &row));
    first = buy(s, 60, ask("a", CALENDAR_DAY));
    struct books b = at(s, 60);
    assert_int_equal(counted(s, 60), 40000000);
    struct plan_ask a = ask("b", CALENDAR_DAY);
    a.instance = id_of("ins_b");
    ok(plan_open(&b, &a, &p, &why));
    assert_int_equal(plan_pay(&b, &p, &a.spender, &why), ERR_BUDGET);
    b = at(s, 60 + 43200);
    ok(plan_release(&b, &first, false, &back, &why));
    assert_int_equal(back.refund_u, 20000000);
    assert_int_equal(counted(s, 60 + 43200), 20000000);
    assert_int_equal(plan_pay(&b, &p, &a.spender, &why), ERR_BUDGET); /* 25 of 40 is left */
    row.period = BUDGET_DAY; /* it was bought and given back on the first day */
    ok(money_budget_save(s, &row));
    assert_int_equal(counted(s, 2 * 86400), 0);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"on-demand becomes a plan at a second", test_conversion, 0, 0, 0},
        {"what is not offered, covered or paid is refused", test_refusals, 0, 0, 0},
        {"it covers its cards in its time, nothing else", test_cover, 0, 0, 0},
        {"the quote knows what is covered", test_quote, 0, 0, 0},
        {"left early, pro rata", test_pro_rata, 0, 0, 0},
        {"left early, clawback", test_clawback, 0, 0, 0},
        {"months earn their share", test_earned, 0, 0, 0},
        {"renewals keep the anchor", test_renewal, 0, 0, 0},
        {"budgets bind plans", test_budget, 0, 0, 0},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
