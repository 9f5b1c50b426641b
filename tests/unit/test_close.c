/* The end of a month: what a statement says, what it moves, and that it never changes. */
#include "../support/books.h"
#include "app/close.h"
#include "store/sql.h"

#define S INT64_C(1000)
#define MARCH_END                                                                                  \
    (T0 + INT64_C(31) * DAY_S * MS_PER_S - 8 * 3600 * S) /* 2026-04-01 in Shanghai                 \
                                                          */
#define COLLECT (INT64_C(72) * 3600 * S)

static struct close_result close_at(struct store *s, utime_t now)
{
    struct close_result r;
    struct refusal why = {0};

    ok(close_next(s, now, id_of("prj_one"), &r, &why));
    return r;
}

/* A lease of one card from T0 + 1.5 s for run_ms, settled. */
static void life(struct store *s, const char *lease, const char *instance, utime_t run_ms)
{
    struct funds_lease l = lease_ask(lease, instance, 1);
    struct funds_term t;
    struct refusal why = {0};

    ok(funds_lease_open(s, T0 + 100, TERM_S, &l, &t, &why));
    ok(funds_lease_ready(s, l.lease, T0 + 1500));
    run_for(s, lease, 1, 1500, run_ms);
    ok(funds_lease_settle(s, T0 + run_ms, l.lease, T0 + run_ms, false, &why));
    ok(funds_disk_close(s, T0 + run_ms, l.disks[0].id));
}

/* A detached disk of 100 GiB for so many seconds of the month. */
static void kept_disk(struct store *s, int64_t seconds)
{
    struct rating r = {.subject = id_of("dsk_kept"),
                       .meter = METER_DISK_DETACHED,
                       .sku = "disk.detached",
                       .started_s = T0_S,
                       .qty_per_s = 102400};
    struct refusal why = {0};
    struct books b;

    ok(books_open(s, T0 + 600 * S, id_of("prj_one"), &b, &why));
    ok(rating_add(&b, &r, T0_S, T0_S + seconds, &why));
    ok(funds_post_free(&b, &why));
}

static int64_t balance(struct store *s, const char *account)
{
    struct ledger_account a;

    ok(money_account_get(s, account, &a));
    return ledger_balance(&a);
}

static void rule(struct store *s, const char *country, const char *prefix, const char *class,
                 int64_t n, bool inclusive)
{
    struct tax_rule_row r = {.n = n, .d = 100, .inclusive = inclusive};

    assert_true(str_copy(r.country, sizeof(r.country), country) &&
                str_copy(r.prefix, sizeof(r.prefix), prefix) &&
                str_copy(r.class, sizeof(r.class), class));
    ok(tax_rule_add(s, &r));
}

static void party(struct store *s, const char *project, const char *country, bool business,
                  bool valid)
{
    struct party_row p = {.business = business, .id_valid = valid};

    assert_true(str_copy(p.project, sizeof(p.project), project) &&
                str_copy(p.country, sizeof(p.country), country));
    ok(party_save(s, &p));
}

static void test_close(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    int64_t cash;

    life(s, "lea_a", "ins_a", 505200);
    cash = balance(s, "cash.prj_one");
    /* 503 s of a card, 503 s of 20 GiB */
    assert_int_equal(100000000 - cash, 503 * 550 + 503 * INT64_C(10000) * 20480 / DISK_D);
    assert_int_equal(close_at(s, MARCH_END + COLLECT - 1).what, CLOSE_NOT_DUE);
    struct close_result r = close_at(s, MARCH_END + COLLECT);
    assert_int_equal(r.what, CLOSE_DONE);
    assert_string_equal(r.statement.number, "B-CNY-2026-000001");
    assert_int_equal(r.statement.line_count, 2);
    assert_int_equal(r.statement.total_u, 277814);
    assert_int_equal(r.statement.payable_minor, 27);
    assert_int_equal(r.statement.residue_u, 7814);
    assert_string_equal(r.statement.reason, "no_rule");
    assert_int_equal(balance(s, "cash.prj_one"), cash + 7814);
    assert_int_equal(balance(s, "rounding.CNY"), -7814);
    check_books(s, MARCH_END + COLLECT);
    /* once */
    assert_int_equal(close_at(s, MARCH_END + COLLECT + 1000).what, CLOSE_NOT_DUE);
    /* an empty month */
    assert_int_equal(close_at(s, MARCH_END + COLLECT + INT64_C(31) * DAY_S * S).what, CLOSE_EMPTY);
    check_books(s, MARCH_END + COLLECT + INT64_C(31) * DAY_S * S);
}

static void test_fixed(void **state)
{
    (void)state;
    static const char *const attacks[] = {
        "UPDATE statement SET payable_minor=1, net_minor=1",
        "DELETE FROM statement",
        "UPDATE statement_line SET printed_minor=0",
        "DELETE FROM statement_line",
        "INSERT INTO statement_line SELECT statement, n+100, kind, source, subject, subject_name, "
        "meter, sku, price, qty_from, qty_to, amount_u, printed_minor, tax_group, from_s, to_s, "
        "year, month, simulated FROM statement_line",
        "UPDATE statement_tax SET tax_minor=0",
        "DELETE FROM statement_tax",
    };
    AUTO_STORE struct store *s = books_new(100000000);

    life(s, "lea_a", "ins_a", 505200);
    assert_int_equal(close_at(s, MARCH_END + COLLECT).what, CLOSE_DONE);
    for (size_t i = 0; i < ARRAY_LEN(attacks); i++)
        assert_int_equal(sql_script(s, attacks[i]), ERR_STORE);
    check_books(s, MARCH_END + COLLECT);
}

static void test_tax_inside(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct statement_tax_list groups = {0};

    party(s, "", "CN", true, true);
    rule(s, "CN", "", "it-service", 6, true);
    rule(s, "CN", "disk", "lease", 13, true);
    life(s, "lea_a", "ins_a", 595200);
    kept_disk(s, INT64_C(3) * DAY_S);
    int64_t compute = balance(s, "revenue.compute.CNY"),
            storage = balance(s, "revenue.storage.CNY");
    struct close_result r = close_at(s, MARCH_END + COLLECT);
    assert_int_equal(r.what, CLOSE_DONE);
    ok(statement_tax_list(s, r.statement.id, &groups));
    assert_int_equal(groups.len, 2);
    const struct statement_tax_row *gpu = &groups.at[1], *disk = &groups.at[0];
    assert_string_equal(gpu->class, "it-service");
    assert_string_equal(disk->class, "lease");
    /* 593 s x 0.55/1000 = 0.326150 and 0.001372 of its disk; 3 days of 100 GiB at 0.7 = 2.10 */
    assert_int_equal(r.statement.payable_minor, 242);
    assert_int_equal(gpu->gross_minor, 32);
    assert_int_equal(disk->gross_minor, 210);
    assert_int_equal(disk->tax_minor, 24); /* 2.10 - 1.86 */
    assert_int_equal(gpu->net_minor, (gpu->gross_minor * 100 * 2 + 106) / 212);
    assert_int_equal(balance(s, "tax.output.CN.6/100.CNY"), gpu->tax_minor * 10000);
    assert_int_equal(balance(s, "revenue.compute.CNY"), compute - gpu->tax_minor * 10000);
    assert_int_equal(balance(s, "revenue.storage.CNY"), storage - disk->tax_minor * 10000);
    assert_string_equal(r.statement.reason, "domestic");
    vec_fini(&groups);
    check_books(s, MARCH_END + COLLECT);
}

static void test_tax_on_top(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(2100000);

    party(s, "", "DE", true, true);
    party(s, "prj_one", "DE", false, false);
    rule(s, "DE", "", "standard", 19, false);
    life(s, "lea_a", "ins_a", 595200);
    int64_t cash = balance(s, "cash.prj_one");
    struct close_result r = close_at(s, MARCH_END + COLLECT);
    assert_int_equal(r.what, CLOSE_DONE);
    assert_int_equal(r.statement.net_minor, 32);
    assert_int_equal(r.statement.tax_minor, 6); /* 6.08 */
    assert_int_equal(r.statement.payable_minor, 38);
    assert_int_equal(balance(s, "cash.prj_one"), cash - 60000 + r.statement.residue_u);
    check_books(s, MARCH_END + COLLECT);
}

static void test_tax_owed(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(2100000);

    party(s, "", "DE", true, true);
    party(s, "prj_one", "DE", false, false);
    rule(s, "DE", "", "standard", 19, false);
    life(s, "lea_a", "ins_a", 595200);
    kept_disk(s, 200000);
    int64_t cash = balance(s, "cash.prj_one");
    struct close_result r = close_at(s, MARCH_END + COLLECT);
    int64_t tax = r.statement.tax_minor * 10000;
    assert_true(cash > 0 && cash < tax); /* not enough for all of the tax */
    assert_int_equal(balance(s, "cash.prj_one"), r.statement.residue_u);
    assert_int_equal(-balance(s, "receivable.prj_one"), tax - cash);
    check_books(s, MARCH_END + COLLECT);
}

static void test_decision(void **state)
{
    (void)state;
    static const struct {
        const char *buyer;
        bool business, valid;
        const char *reason, *category;
        int64_t rate;
    } rows[] = {
        {"DE", false, false, "domestic", "S", 19},
        {"", false, false, "domestic", "S", 19},
        {"FR", true, true, "reverse_charge", "AE", 0},
        {"FR", true, false, "id_not_valid", "S", 19},
        {"FR", false, false, "destination", "S", 20},
        {"PL", false, false, "no_rule_there", "S", 19},
        {"US", true, false, "outside", "O", 0},
    };
    AUTO_STORE struct store *s = books_new(0);
    struct tax_group below;

    ok(tax_of_signed(-119, (struct tax_rate){19, 100}, true, &below));
    assert_true(below.net_minor == -100 && below.tax_minor == -19 && below.gross_minor == -119);
    party(s, "", "DE", true, true);
    rule(s, "DE", "", "standard", 19, false);
    rule(s, "FR", "", "standard", 20, false);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tax_book t;
        struct refusal why = {0};
        int32_t group = -1;

        party(s, "prj_one", rows[i].buyer, rows[i].business, rows[i].valid);
        ok(tax_book_open(s, id_of("prj_one"), T0_S, &t));
        ok(tax_book_group(&t, "gpu.RTX 4090", &group, &why));
        assert_int_equal(group, 0);
        assert_string_equal(tax_reason_code(t.reason), rows[i].reason);
        assert_string_equal(t.groups[0].category, rows[i].category);
        assert_int_equal(t.groups[0].rate_n, rows[i].rate);
        assert_true(tax_reason_text(rows[i].reason)[0] != '\0');
        tax_book_fini(&t);
    }
}

/* Usage that comes when its month is closed: a correction in the month that runs. */
static void test_late(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct books b;
    struct rating r = {.instance = id_of("ins_a"),
                       .subject = id_of("ins_a"),
                       .meter = METER_GPU,
                       .sku = "gpu.RTX 4090",
                       .started_s = T0_S,
                       .qty_per_s = 1};
    struct refusal why = {0};
    struct line_row l;
    utime_t late = MARCH_END + COLLECT + 5 * S;

    ok(books_open(s, T0, id_of("prj_one"), &b, &why));
    ok(rating_add(&b, &r, T0_S, T0_S + 1000, &why));
    struct close_result march = close_at(s, MARCH_END + COLLECT);
    assert_int_equal(march.what, CLOSE_DONE);
    assert_int_equal(march.statement.total_u, 550000);
    ok(books_open(s, late, id_of("prj_one"), &b, &why));
    ok(rating_add(&b, &r, T0_S + 1000, T0_S + 1007, &why));
    ok(rating_add(&b, &r, late / S - 100, late / S, &why));
    ok(funds_post_free(&b, &why));
    check_books(s, late);
    struct close_result april = close_at(s, MARCH_END + 30 * INT64_C(86400000) + COLLECT);
    assert_int_equal(april.what, CLOSE_DONE);
    assert_int_equal(april.statement.line_count, 2);
    assert_int_equal(april.statement.total_u, 107 * 550);
    ok(close_statement(s, id_of("prj_one"), 2026, 3, &march.statement));
    assert_int_equal(march.statement.total_u, 550000);
    struct sql q = sql_open(s,
                            "SELECT qty_from, qty_to, year, month, amount_u FROM statement_line "
                            "WHERE kind=1",
                            "");
    assert_true(sql_next(&q));
    l.qty_from = sql_i64(&q, 0);
    l.qty_to = sql_i64(&q, 1);
    l.month = (int32_t)sql_i64(&q, 3);
    l.amount_u = sql_i64(&q, 4);
    assert_false(sql_next(&q));
    ok(sql_close(&q));
    assert_int_equal(l.qty_from, 1000);
    assert_int_equal(l.qty_to, 1007);
    assert_int_equal(l.month, 3);
    assert_int_equal(l.amount_u, 7 * 550);
    check_books(s, MARCH_END + 30 * INT64_C(86400000) + COLLECT);
}

/* Shanghai to UTC, and to the east as far as it goes: months and days tile over the change. */
static void test_zone(void **state)
{
    (void)state;
    struct zone_change c = {.project = id_of("prj_one"), .since_s = MARCH_END / S};
    static const char *const pairs[][2] = {{"Asia/Shanghai", "UTC"}, {"UTC", "Asia/Shanghai"}};

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct zone before, z;
        struct period month, day, p;
        assert_true(funds_zone(pairs[i][0], &before) && funds_zone(pairs[i][1], &z));
        period_month(&before, 2026, 3, &month);
        zone_follow(&z, funds_zone_kept(pairs[i][0]), month.to_s);
        period_month(&z, 2026, 1, &p);
        period_day_at(&z, p.from_s, &day);
        for (int n = 0; n < 200; n++) {
            struct period was = p, was_day = day;
            if (n < 12) {
                period_next(&z, &p);
                assert_int_equal(p.from_s, was.to_s);
                period_month_at(&z, p.from_s, &was);
                assert_true(was.year == p.year && was.month == p.month && was.to_s == p.to_s);
                period_month_at(&z, p.to_s - 1, &was);
                assert_true(was.month == p.month && was.from_s == p.from_s);
            }
            period_next(&z, &day);
            assert_int_equal(day.from_s, was_day.to_s);
            period_day_at(&z, day.from_s, &was_day);
            assert_true(was_day.day == day.day && was_day.from_s == day.from_s);
        }
        assert_string_equal(zone_at(&z, month.to_s - 1)->name, pairs[i][0]);
        assert_string_equal(zone_at(&z, month.to_s)->name, pairs[i][1]);
    }
    /* a statement of each side */
    AUTO_STORE struct store *s = books_new(100000000);
    life(s, "lea_a", "ins_a", 505200);
    assert_true(str_copy(c.before, sizeof(c.before), "Asia/Shanghai") &&
                str_copy(c.zone, sizeof(c.zone), "UTC"));
    ok(zone_change_save(s, &c));
    struct close_result r = close_at(s, MARCH_END + COLLECT);
    assert_string_equal(r.statement.zone, "Asia/Shanghai");
    assert_int_equal(r.statement.to_s, MARCH_END / S);
    r = close_at(s, MARCH_END + 40 * INT64_C(86400000));
    assert_int_equal(r.what, CLOSE_EMPTY);
    assert_int_equal(r.month.from_s, MARCH_END / S);
    assert_int_equal(r.month.to_s, MARCH_END / S + 30 * DAY_S + 8 * 3600);
    check_books(s, MARCH_END + 40 * INT64_C(86400000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"a month closes once, after its collection window, and gives the residue back", test_close,
         0, 0, 0},
        {"nothing of a closed statement can be changed", test_fixed, 0, 0, 0},
        {"tax inside the price: groups by class, out of the revenue", test_tax_inside, 0, 0, 0},
        {"tax on top of the price: out of the wallet", test_tax_on_top, 0, 0, 0},
        {"tax on top of the price: owed when the wallet is empty", test_tax_owed, 0, 0, 0},
        {"who pays which tax, and why", test_decision, 0, 0, 0},
        {"late usage is a correction in the month that runs", test_late, 0, 0, 0},
        {"another billing zone begins with the next month, and periods tile", test_zone, 0, 0, 0},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
