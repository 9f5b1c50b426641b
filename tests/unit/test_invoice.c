/* Invoices of closed months: who gets one, of what, and how it is taken back. */
#include "../support/books.h"
#include "app/fund_source.h"
#include "app/invoice.h"
#include "store/sql.h"

#define MARCH_END ((T0_S + INT64_C(31) * DAY_S - 8 * 3600) * MS_PER_S)
#define CLOSED (MARCH_END + INT64_C(72) * 3600 * MS_PER_S)

static struct books books_at(struct store *s, utime_t now)
{
    struct books b;
    struct refusal why = {0};

    ok(books_open(s, now, id_of("prj_one"), &b, &why));
    return b;
}

/* Card-seconds of March at 0.55 each thousand. */
static void use(struct store *s, int64_t from_s, int64_t seconds)
{
    struct books b = books_at(s, T0 + 20 * INT64_C(86400000));
    struct rating r = {.instance = id_of("ins_a"),
                       .subject = id_of("ins_a"),
                       .meter = METER_GPU,
                       .sku = "gpu.RTX 4090",
                       .started_s = T0_S,
                       .qty_per_s = 1};
    struct refusal why = {0};

    ok(rating_add(&b, &r, T0_S + from_s, T0_S + from_s + seconds, &why));
    ok(funds_post_free(&b, &why));
}

static void parties(struct store *s, const char *country, bool business, bool valid)
{
    struct party_row seller = {.name = "seller", .country = "DE", .business = true};
    struct party_row buyer = {.project = "prj_one",
                              .name = "buyer",
                              .tax_id = "X1",
                              .business = business,
                              .id_valid = valid};
    struct tax_rule_row rule = {
        .country = "DE", .class = "standard", .n = 19, .d = 100, .inclusive = true};

    struct tax_rule_list known = {0};

    assert_true(str_copy(buyer.country, sizeof(buyer.country), country));
    ok(party_save(s, &seller));
    ok(party_save(s, &buyer));
    ok(tax_rule_list_all(s, &known));
    if (known.len == 0)
        ok(tax_rule_add(s, &rule));
    vec_fini(&known);
}

static struct statement_row shut(struct store *s)
{
    struct close_result r;
    struct refusal why = {0};

    ok(close_next(s, CLOSED, id_of("prj_one"), &r, &why));
    assert_int_equal(r.what, CLOSE_DONE);
    return r.statement;
}

static enum err issue(struct store *s, struct invoice_row *ret_r)
{
    struct books b = books_at(s, CLOSED + 1000);
    struct refusal why = {0};
    struct period march;

    period_month(&b.zone, 2026, 3, &march);
    return invoice_issue(s, CLOSED + 1000, id_of("prj_one"), &march, ret_r, &why);
}

static int64_t balance(struct store *s, const char *account)
{
    struct ledger_account a;

    ok(account_load(s, account, (struct currency){.code = "CNY"}, &a));
    return ledger_balance(&a);
}

/* 2.00 of the month by a voucher and 0.50 by a gift: what is left is invoiced. */
static void test_credits(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct books b = books_at(s, T0 + 10);
    struct grant_row g = {.id = id_of("vch_a"),
                          .project = b.project,
                          .amount_u = 2000000,
                          .expires_s = T0_S + 90 * INT64_C(86400),
                          .at = T0 + 10};
    struct refusal why = {0};
    struct invoice_row r;

    ok(fund_grant(&b, &g, &why));
    ok(fund_gift(&b, id_of("gft_a"), 500000, &why));
    parties(s, "DE", false, false);
    use(s, 0, 10000); /* 5.50 */
    struct statement_row st = shut(s);
    assert_int_equal(st.line_count, 3);
    assert_int_equal(st.total_u, 3000000);
    ok(issue(s, &r));
    assert_int_equal(r.payable_minor, 300);
    assert_int_equal(r.net_minor, 252); /* 3.00 x 100 / 119 = 2.521 */
    assert_int_equal(r.tax_minor, 48);
    check_books(s, CLOSED + 2000);
}

/* The sources of a lease's hold: what the terms account passed on. */
static void test_lease_credits(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct books b = books_at(s, T0);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_term term;
    struct refusal why = {0};
    struct sql q;

    ok(fund_gift(&b, id_of("gft_a"), 100000, &why));
    l.disk_count = 0;
    ok(funds_lease_open(s, T0, TERM_S, &l, &term, &why));
    ok(funds_lease_ready(s, l.lease, T0));
    run_for(s, "lea_a", 1, 0, 300000);
    ok(funds_lease_settle(s, T0 + 300000, l.lease, T0 + 300000, false, &why));
    struct statement_row st = shut(s);
    assert_int_equal(st.line_count, 2);
    assert_int_equal(st.total_u, 300 * 550 - 100000);
    q = sql_open(s, "SELECT source, amount_u FROM statement_line WHERE kind=3", "");
    assert_true(sql_next(&q));
    assert_string_equal(sql_text(&q, 0), "gift.prj_one");
    assert_int_equal(sql_i64(&q, 1), -100000);
    ok(sql_close(&q));
    check_books(s, CLOSED + 2000);
}

static void test_refusals(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(1000000);
    struct invoice_row r, again;

    assert_int_equal(issue(s, &r), ERR_INVOICE_EMPTY);
    use(s, 0, 10000); /* 5.50, of which 4.50 is owed */
    assert_int_equal(issue(s, &r), ERR_MONTH_OPEN);
    parties(s, "FR", true, true);
    struct statement_row st = shut(s);
    assert_string_equal(st.reason, "reverse_charge");
    assert_int_equal(st.tax_minor, 0);
    assert_int_equal(issue(s, &r), ERR_INVOICE_UNPAID);
    topup(s, CLOSED + 500, "tra_more", 9000000);
    parties(s, "FR", true, false);
    assert_int_equal(issue(s, &r), ERR_TAX_CHANGED);
    ok(sql_script(s, "UPDATE party SET name='' WHERE project='prj_one'"));
    assert_int_equal(issue(s, &r), ERR_PROFILE);
    parties(s, "FR", true, true);
    ok(issue(s, &r));
    assert_string_equal(r.number, "INV-CNY-2026-000001");
    ok(issue(s, &again));
    assert_string_equal(again.number, r.number);
    check_books(s, CLOSED + 2000);
}

static void test_take_back(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct invoice_row r, note, second;
    struct refusal why = {0};
    int64_t rest, cash;

    parties(s, "DE", false, false);
    use(s, 0, 10000);
    shut(s);
    ok(issue(s, &r));
    cash = balance(s, "cash.prj_one");
    ok(invoice_take_back(s, CLOSED + 2000, r.number, "mistake", 0, &note, &why));
    assert_string_equal(note.number, "CRN-CNY-2026-000001");
    assert_int_equal(note.payable_minor, -550);
    assert_int_equal(balance(s, "cash.prj_one"), cash);
    ok(issue(s, &second));
    assert_string_equal(second.number, "INV-CNY-2026-000002");
    int64_t tax = balance(s, "tax.output.DE.19/100.CNY");
    ok(invoice_take_back(s, CLOSED + 2000, second.number, "return", 100, &note, &why));
    assert_int_equal(note.tax_minor, -16); /* 1.00 - 0.84 */
    assert_int_equal(balance(s, "cash.prj_one"), cash + 1000000);
    assert_int_equal(balance(s, "tax.output.DE.19/100.CNY"), tax - 160000);
    ok(invoice_rest(s, &second, &rest));
    assert_int_equal(rest, 450);
    assert_int_equal(invoice_take_back(s, CLOSED + 2000, second.number, "return", 451, &note, &why),
                     ERR_VALIDATION);
    ok(invoice_take_back(s, CLOSED + 2000, second.number, "return", 0, &note, &why));
    assert_int_equal(balance(s, "tax.output.DE.19/100.CNY"), 0);
    assert_int_equal(balance(s, "cash.prj_one"), cash + 5500000);
    assert_int_equal(invoice_take_back(s, CLOSED + 2000, note.number, "return", 0, &note, &why),
                     ERR_VALIDATION);
    assert_int_equal(invoice_take_back(s, CLOSED + 2000, "INV-none", "return", 0, &note, &why),
                     ERR_NOT_FOUND);
    assert_int_equal(sql_script(s, "UPDATE invoice SET payable_minor=1, tax_minor=1-net_minor"),
                     ERR_STORE);
    check_books(s, CLOSED + 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"vouchers and gifts are credits and not invoiced", test_credits, 0, 0, 0},
        {"what a hold's sources paid is told off to the lines", test_lease_credits, 0, 0, 0},
        {"what is open, empty, owed, nameless or taxed otherwise is refused", test_refusals, 0, 0,
         0},
        {"a mistake moves no money, a return gives net and tax back to the last unit",
         test_take_back, 0, 0, 0},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
