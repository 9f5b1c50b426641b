/* Who pays: vouchers, gifts, cash, credit line; ends of vouchers to the second; purchases. */
#include "../support/books.h"
#include <sodium.h>

#include "app/channel.h"
#include "app/fund_source.h"
#include "store/migrate.h"
#include "store/sql.h"

#define S INT64_C(1000)
#define CARD_U INT64_C(550) /* µ a card-second */

static struct books books_at(struct store *s, utime_t now)
{
    struct books b;
    struct refusal why = {0};

    ok(books_open(s, now, id_of("prj_one"), &b, &why));
    return b;
}

static void grant(struct store *s, utime_t now, const char *id, int64_t u, int64_t expires_s,
                  unsigned scope, const char *sku)
{
    struct books b = books_at(s, now);
    struct grant_row g = {.id = id_of(id),
                          .project = b.project,
                          .amount_u = u,
                          .scope = scope,
                          .expires_s = expires_s,
                          .at = now};
    struct refusal why = {0};

    assert_true(str_copy(g.sku, sizeof(g.sku), sku));
    ok(fund_grant(&b, &g, &why));
}

static void gift(struct store *s, utime_t now, const char *id, int64_t u)
{
    struct books b = books_at(s, now);
    struct refusal why = {0};

    ok(fund_gift(&b, id_of(id), u, &why));
}

static int64_t balance(struct store *s, const char *account)
{
    struct ledger_account a;

    ok(account_load(s, account, (struct currency){.code = "CNY"}, &a));
    return ledger_balance(&a);
}

static struct funds_lease seat(const char *lease)
{
    struct funds_lease l = lease_ask(lease, "ins_a", 1);

    l.disk_count = 0;
    return l;
}

static struct funds_term begin(struct store *s, utime_t now, const struct funds_lease *l)
{
    struct funds_term t = {0};
    struct refusal why = {0};

    ok(funds_lease_open(s, now, TERM_S, l, &t, &why));
    check_books(s, now);
    ok(funds_lease_ready(s, l->lease, now));
    return t;
}

static void finish(struct store *s, utime_t now, const struct funds_lease *l, utime_t end)
{
    struct refusal why = {0};

    check_books(s, now);
    ok(funds_lease_settle(s, now, l->lease, end, false, &why));
    check_books(s, now);
}

static void test_order(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(10000000);
    struct funds_lease l = seat("lea_a");

    grant(s, T0, "vch_a", 60000, T0_S + 86400, 0, "");
    grant(s, T0, "vch_b", 40000, T0_S + 3600, 0, ""); /* ends first, pays first */
    gift(s, T0, "gft_a", 50000);
    struct funds_term t = begin(s, T0, &l);
    assert_int_equal(t.hold_u, 600 * CARD_U);
    assert_int_equal(available(s, T0), 10000000 - (600 * CARD_U - 150000));
    run_for(s, "lea_a", 1, 0, 100 * S); /* 55000 */
    finish(s, T0 + 100 * S, &l, T0 + 100 * S);
    assert_int_equal(balance(s, "voucher.vch_b"), 0);
    assert_int_equal(balance(s, "voucher.vch_a"), 45000);
    assert_int_equal(balance(s, "gift.prj_one"), 50000);
    assert_int_equal(balance(s, "cash.prj_one"), 10000000);
}

static void test_end_cuts_term(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(10000000);
    struct funds_lease l = seat("lea_a");
    struct funds_slice hole;
    struct refusal why = {0};

    grant(s, T0, "vch_a", 1000000, T0_S + 300, 0, "");
    struct funds_term t = begin(s, T0, &l);
    assert_int_equal(t.paid_until, T0 + 600 * S);
    assert_int_equal(t.hold_u, 600 * CARD_U + 1);
    int64_t seq = run_for(s, "lea_a", 1, 0, 100 * S);
    hole = slice_of("lea_a", seq++, 100 * S, 200 * S);
    hole.running = false;
    (void)deliver(s, T0 + 200 * S, &hole, 1);
    seq = run_for(s, "lea_a", seq, 200 * S, 295 * S);
    /* one slice over the end: its seconds up to 300 are the voucher's */
    seq = run_for(s, "lea_a", seq, 295 * S, 305 * S);
    run_for(s, "lea_a", seq, 305 * S, 500 * S);
    ok(funds_tick(s, T0 + 490 * S, &why)); /* what the hold has of it does not lapse */
    finish(s, T0 + 500 * S, &l, T0 + 500 * S);
    assert_int_equal(balance(s, "cash.prj_one"), 10000000 - 200 * CARD_U);
    ok(funds_tick(s, T0 + 500 * S, &why));
    assert_int_equal(balance(s, "voucher.vch_a"), 0);
    assert_int_equal(balance(s, "breakage.CNY"), 1000000 - 200 * CARD_U);
    check_books(s, T0 + 500 * S);
}

/* Renewed before the end of its voucher, the lease runs on without it. */
static void test_renew_over_end(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(10000000);
    struct funds_lease l = seat("lea_a");
    struct funds_term t;
    struct refusal why = {0};

    grant(s, T0, "vch_a", 1000000, T0_S + 700, 0, "");
    begin(s, T0, &l);
    int64_t seq = run_for(s, "lea_a", 1, 0, 400 * S);
    ok(funds_lease_renew(s, T0 + 400 * S, TERM_S, l.lease, &t, &why));
    assert_true(t.extended);
    assert_int_equal(t.paid_until, T0 + 1000 * S);
    check_books(s, T0 + 400 * S);
    run_for(s, "lea_a", seq, 400 * S, 800 * S);
    finish(s, T0 + 800 * S, &l, T0 + 800 * S);
    assert_int_equal(balance(s, "voucher.vch_a"), 1000000 - 700 * CARD_U);
    assert_int_equal(balance(s, "cash.prj_one"), 10000000 - 100 * CARD_U);
}

/* With nothing but a voucher the cards stop at the second at which it ends. */
static void test_only_voucher(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(0);
    struct funds_lease l = seat("lea_a");

    grant(s, T0, "vch_a", 1000000, T0_S + 77, 0, "");
    struct funds_term t = begin(s, T0, &l);
    assert_int_equal(t.paid_until, T0 + 77 * S);
    assert_int_equal(t.limit, TERM_BY_FUNDS);
    run_for(s, "lea_a", 1, 0, 90 * S);
    finish(s, T0 + 90 * S, &l, T0 + 90 * S);
    assert_int_equal(balance(s, "voucher.vch_a"), 1000000 - 77 * CARD_U);
}

static void test_scopes(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(0);
    struct funds_lease l = seat("lea_a");
    struct funds_term t;
    struct refusal why = {0};

    grant(s, T0, "vch_d", 1000000, T0_S + 86400, 1u << METER_DISK, "");
    grant(s, T0, "vch_o", 1000000, T0_S + 86400, 0, "gpu.H100");
    assert_int_equal(funds_lease_open(s, T0, TERM_S, &l, &t, &why), ERR_BALANCE);
    AUTO_STORE struct store *s2 = books_new(0);
    grant(s2, T0, "vch_s", 1000000, T0_S + 86400, 0, "gpu.RTX 4090");
    grant(s2, T0, "vch_d", 1000000, T0_S + 86400, 1u << METER_DISK, "");
    l = lease_ask("lea_a", "ins_a", 1);
    begin(s2, T0, &l);
    run_for(s2, "lea_a", 1, 0, 100 * S);
    finish(s2, T0 + 100 * S, &l, T0 + 100 * S);
    assert_int_equal(balance(s2, "voucher.vch_s"), 1000000 - 100 * CARD_U);
    assert_int_equal(balance(s2, "voucher.vch_d"), 1000000 - INT64_C(100) * 20480 * 10000 / DISK_D);
}

/* A detached disk: the second of the voucher's end is cash's. */
static void test_disk_cut(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(10000000);
    struct funds_disk d = {
        .id = id_of("dsk_data"), .kind = DISK_DATA, .size_mib = INT64_C(1024) * 1024};
    struct refusal why = {0};
    struct books b;
    int64_t all = 205 * (INT64_C(1024) * 1024) * 7000 / DISK_D;
    int64_t first = 100 * (INT64_C(1024) * 1024) * 7000 / DISK_D;

    grant(s, T0, "vch_a", 1000000, T0_S + 100, 0, "");
    ok(funds_disk_open(s, id_of("prj_one"), id_of(""), id_of("nod_one"), &d, T0));
    for (int64_t at = 5; at <= 205; at += 10)
        ok(funds_node_time(s, T0 + at * S, id_of("nod_one"), T0 + at * S, true));
    b = books_at(s, T0 + 205 * S);
    ok(funds_post_free(&b, &why));
    check_books(s, T0 + 205 * S);
    assert_int_equal(balance(s, "voucher.vch_a"), 1000000 - first);
    assert_int_equal(balance(s, "cash.prj_one"), 10000000 - (all - first));
}

static void test_credit(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(0);
    struct funds_lease l = seat("lea_a");
    struct funds_term t;
    struct funds_wallet w;
    struct refusal why = {0};
    struct books b = books_at(s, T0);

    assert_int_equal(funds_lease_open(s, T0, TERM_S, &l, &t, &why), ERR_BALANCE);
    AUTO_STORE struct store *s2 = books_new(0);
    b = books_at(s2, T0);
    ok(fund_credit_set(&b, 200 * CARD_U, &why));
    t = begin(s2, T0, &l);
    assert_int_equal(t.paid_until, T0 + 200 * S);
    ok(fund_credit_set(&b, 0, &why)); /* what is held stays held */
    run_for(s2, "lea_a", 1, 0, 150 * S);
    finish(s2, T0 + 150 * S, &l, T0 + 150 * S);
    ok(funds_wallet(s2, T0 + 150 * S, b.project, &w, &why));
    assert_int_equal(w.credit_used_u, 150 * CARD_U);
    assert_int_equal(w.available_u, 0);
    topup(s2, T0 + 160 * S, "tra_b", 100 * CARD_U);
    assert_int_equal(balance(s2, "credit.prj_one"), -50 * CARD_U);
    topup(s2, T0 + 170 * S, "tra_c", 100 * CARD_U);
    assert_int_equal(balance(s2, "credit.prj_one"), 0);
    assert_int_equal(available(s2, T0 + 170 * S), 50 * CARD_U);
    check_books(s2, T0 + 170 * S);
}

static void test_purchase(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(1000);
    struct fund_purchase p = {.id = id_of("pur_a"),
                              .account = "deferred.rsv_a",
                              .meter = METER_GPU,
                              .sku = "gpu.RTX 4090",
                              .amount_u = 700};
    struct books b = books_at(s, T0);
    struct fund_split x, again;
    struct fund_back back;
    struct refusal why = {0};

    grant(s, T0, "vch_a", 100, T0_S + 86400, 1u << METER_GPU, "");
    gift(s, T0, "gft_a", 200);
    ok(fund_preview(&b, &p, &x, &why));
    ok(fund_pay(&b, &p, &x, &why));
    assert_int_equal(x.voucher_u, 100);
    assert_int_equal(x.gift_u, 200);
    assert_int_equal(x.cash_u, 400);
    ok(fund_pay(&b, &p, &again, &why)); /* once */
    assert_memory_equal(&x, &again, sizeof(x));
    assert_int_equal(balance(s, "deferred.rsv_a"), 700);
    p.amount_u = 701;
    assert_int_equal(fund_pay(&b, &p, &x, &why), ERR_LEDGER_CONFLICT);
    p.id = id_of("pur_b");
    assert_int_equal(fund_pay(&b, &p, &x, &why), ERR_BALANCE);
    assert_int_equal(fund_refund(&b, id_of("pur_a"), 701, &back, &why), ERR_VALIDATION);
    /* 60 of the voucher used: 40 of it lapse, 600 come back in the ratio 200 : 400 */
    ok(fund_refund(&b, id_of("pur_a"), 60, &back, &why));
    assert_int_equal(back.lapsed_u, 40);
    assert_int_equal(back.gift_u, 200);
    assert_int_equal(back.cash_u, 400);
    assert_int_equal(balance(s, "deferred.rsv_a"), 60);
    assert_int_equal(balance(s, "breakage.CNY"), 40);
    assert_int_equal(fund_refund(&b, id_of("pur_a"), 60, &back, &why), ERR_STATE);
    assert_int_equal(fund_refund(&b, id_of("pur_x"), 60, &back, &why), ERR_NOT_FOUND);
    check_books(s, T0);
}

/* Time that was rated before a voucher came is not the voucher's to pay. */
static void test_grant_later(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(10000000);
    struct funds_disk d = {
        .id = id_of("dsk_data"), .kind = DISK_DATA, .size_mib = INT64_C(1024) * 1024};
    struct refusal why = {0};
    struct books b;

    ok(funds_disk_open(s, id_of("prj_one"), id_of(""), id_of("nod_one"), &d, T0));
    for (int64_t at = 10; at <= 100; at += 10)
        ok(funds_node_time(s, T0 + at * S, id_of("nod_one"), T0 + at * S, true));
    grant(s, T0 + 100 * S, "vch_a", 1000000, T0_S + 86400, 0, "");
    b = books_at(s, T0 + 100 * S);
    ok(funds_post_free(&b, &why));
    assert_int_equal(balance(s, "voucher.vch_a"), 1000000);
    assert_true(balance(s, "cash.prj_one") < 10000000);
    check_books(s, T0 + 100 * S);
}

/* Nothing is rated for a while around the end: what was there before it is the voucher's all the
 * same, and nothing of what comes later. */
static void test_end_in_a_gap(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(10000000);
    struct funds_disk d = {
        .id = id_of("dsk_data"), .kind = DISK_DATA, .size_mib = INT64_C(1024) * 1024};
    struct refusal why = {0};
    int64_t first = 100 * (INT64_C(1024) * 1024) * 7000 / DISK_D;

    grant(s, T0, "vch_a", 1000000, T0_S + 150, 0, "");
    ok(funds_disk_open(s, id_of("prj_one"), id_of(""), id_of("nod_one"), &d, T0));
    ok(funds_node_time(s, T0 + 50 * S, id_of("nod_one"), T0 + 50 * S, true));
    ok(funds_node_time(s, T0 + 100 * S, id_of("nod_one"), T0 + 100 * S, true));
    ok(funds_node_time(s, T0 + 200 * S, id_of("nod_one"), T0 + 200 * S, false)); /* not heard */
    for (int64_t at = 210; at <= 400; at += 10)
        ok(funds_node_time(s, T0 + at * S, id_of("nod_one"), T0 + at * S, true));
    ok(funds_tick(s, T0 + 400 * S, &why));
    struct books b = books_at(s, T0 + 400 * S);
    ok(funds_post_free(&b, &why));
    check_books(s, T0 + 400 * S);
    assert_int_equal(balance(s, "breakage.CNY"), 1000000 - first);
    assert_true(balance(s, "cash.prj_one") < 10000000);
}

/* Holds made before there were parts go on as one part that pays everything. */
static void test_old_hold(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(10000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    const char *move = NULL;
    char statement[1024];

    for (size_t i = 0; i < migration_count && !move; i++)
        move = strstr(migrations[i].sql, "INSERT INTO hold_part");
    CHECK(move);
    assert_true(str_printf(statement, sizeof(statement), "%.*s",
                           (int)(strchr(move, ';') - move + 1), move));
    begin(s, T0, &l);
    int64_t seq = run_for(s, "lea_a", 1, 0, 100 * S);
    struct part_list parts = {0};
    ok(wallet_part_list(s, l.lease, &parts));
    assert_int_equal(parts.len, 2); /* one transfer now instead of two, as it was */
    vec_fini(&parts);
    ok(sql_script(s, "UPDATE fund_lease SET hold_u=(SELECT amount_u FROM hold_part WHERE n=0) "));
    ok(sql_script(s, "DELETE FROM hold_part"));
    ok(sql_script(s, statement));
    ok(wallet_part_list(s, l.lease, &parts));
    assert_int_equal(parts.len, 1);
    assert_int_equal(parts.at[0].meter, -1);
    assert_true(parts.at[0].used_u > 100 * CARD_U);
    vec_fini(&parts);
    (void)run_for(s, "lea_a", seq, 100 * S, 200 * S);
    struct refusal why = {0};
    ok(funds_lease_settle(s, T0 + 200 * S, l.lease, T0 + 200 * S, false, &why));
    assert_int_equal(balance(s, "cash.prj_one"),
                     10000000 - 200 * CARD_U - INT64_C(200) * 20480 * 10000 / DISK_D);
}

/* "No meter" had the number behind the last one: what was written so is read as none, also in what
 * is closed. */
static void test_old_none(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(10000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct fund_disk_list disks = {0};
    const struct migration *move = NULL;

    for (size_t i = 0; i < migration_count && !move; i++)
        move = str_eq(migrations[i].name, "0017_meter_none.sql") ? &migrations[i] : NULL;
    CHECK(move);
    begin(s, T0, &l);
    ok(sql_script(s, "PRAGMA foreign_keys=OFF")); /* the line's statement is not of interest */
    ok(sql_script(s, "UPDATE fund_disk SET meter=6, before=6; INSERT INTO statement_line VALUES("
                     "'sta', 1, 3, '', '', '', 6, '', '', 0, 0, -5, 0, 0, 0, 0, 2026, 3, 0)"));
    ok(sql_script(s, move->sql));
    ok(money_disk_of_lease(s, l.lease, &disks));
    assert_true(disks.len > 0);
    for (size_t i = 0; i < disks.len; i++) {
        assert_int_equal(disks.at[i].meter, MONEY_FREE);
        assert_int_equal(disks.at[i].before, MONEY_FREE);
    }
    vec_fini(&disks);
    struct sql q = sql_open(s, "SELECT meter FROM statement_line", "");
    assert_true(sql_next(&q));
    assert_int_equal(sql_i64(&q, 0), METER_NONE);
    ok(sql_close(&q));
    assert_int_equal(sql_script(s, "UPDATE statement_line SET n=2"), ERR_STORE);
}

/* What the credit line paid comes back to it first. */
static void test_credit_purchase(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(300);
    struct fund_purchase p = {
        .id = id_of("pur_a"), .account = "deferred.rsv_a", .meter = METER_GPU, .amount_u = 1000};
    struct books b = books_at(s, T0);
    struct fund_split x;
    struct fund_back back;
    struct refusal why = {0};

    ok(fund_credit_set(&b, 5000, &why));
    ok(fund_pay(&b, &p, &x, &why));
    assert_int_equal(x.cash_u, 300);
    assert_int_equal(x.credit_u, 700);
    ok(fund_refund(&b, p.id, 200, &back, &why));
    assert_int_equal(back.credit_u, 700);
    assert_int_equal(back.cash_u, 100);
    assert_int_equal(balance(s, "credit.prj_one"), 0);
    check_books(s, T0);
}

static void sign(const struct channel_row *c, const char *text, char ret_hex[65])
{
    unsigned char key[32], mac[crypto_auth_hmacsha256_BYTES];

    assert_int_equal(sodium_hex2bin(key, sizeof(key), c->key, 64, NULL, NULL, NULL), 0);
    crypto_auth_hmacsha256(mac, (const unsigned char *)text, strlen(text), key);
    (void)sodium_bin2hex(ret_hex, 65, mac, sizeof(mac));
}

static void test_notice(void **state)
{
    (void)state;
    struct channel_row c = {.name = "pay", .kind = CHANNEL_HMAC};
    struct channel_notice n = {"pay", "ord_a", "10.00", "CNY", "r1", "n1", 5}, m;
    char text[CHANNEL_TEXT_SIZE], other[CHANNEL_TEXT_SIZE], hex[65];
    struct refusal why = {0};

    memset(c.key, 'a', 64);
    ok(channel_notice_text(&n, text));
    assert_string_equal(text, "suanli-notice-1\npay\nord_a\n10.00\nCNY\nr1\n5\nn1");
    sign(&c, text, hex);
    ok(channel_notice_check(&c, text, hex, &why));
    const char **fields[] = {&m.channel, &m.order, &m.amount, &m.currency, &m.reference, &m.nonce};
    for (size_t i = 0; i <= ARRAY_LEN(fields); i++) {
        m = n;
        if (i < ARRAY_LEN(fields))
            *fields[i] = "x";
        else
            m.time_s++;
        ok(channel_notice_text(&m, other));
        assert_int_equal(channel_notice_check(&c, other, hex, &why), ERR_NOTICE_SIGNATURE);
        if (i < ARRAY_LEN(fields)) { /* no field can be moved into the next */
            *fields[i] = "a\nb";
            assert_int_equal(channel_notice_text(&m, other), ERR_VALIDATION);
        }
    }
    assert_int_equal(channel_notice_check(&c, text, "", &why), ERR_NOTICE_SIGNATURE);
    c.off = true;
    assert_int_equal(channel_notice_check(&c, text, hex, &why), ERR_NOTICE_SIGNATURE);
    c = (struct channel_row){.name = "test", .kind = CHANNEL_TEST};
    assert_int_equal(channel_notice_check(&c, text, hex, &why), ERR_NOTICE_SIGNATURE);
}

static void test_many(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(0);
    struct funds_lease l = seat("lea_a");
    struct books b = books_at(s, T0);
    struct grant_row g = {.id = id_of("vch_more"),
                          .project = id_of("prj_one"),
                          .amount_u = 1,
                          .expires_s = T0_S + 10};
    struct refusal why = {0};
    char id[16];

    for (int i = 0; i < FUND_GRANTS_MAX; i++) {
        assert_true(str_printf(id, sizeof(id), "vch_%02d", i));
        grant(s, T0, id, 10 * CARD_U, T0_S + 10 + 7 * i, 0, "");
    }
    assert_int_equal(fund_grant(&b, &g, &why), ERR_TOO_LARGE);
    struct funds_term t = begin(s, T0, &l);
    run_for(s, "lea_a", 1, 0, 400 * S);
    finish(s, T0 + 400 * S, &l, T0 + 400 * S);
    assert_true(t.paid_until >= T0 + 200 * S);
    for (int64_t at = 0; at <= 600; at += 60)
        ok(funds_tick(s, T0 + (400 + at) * S, &why));
    check_books(s, T0 + 1000 * S);
    assert_int_equal(balance(s, "breakage.CNY") + balance(s, "revenue.compute.CNY"),
                     FUND_GRANTS_MAX * 10 * CARD_U);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"the earlier end pays first, then gift, then cash", test_order, 0, 0, 0},
        {"a voucher pays up to the second of its end, the rest of it lapses", test_end_cuts_term, 0,
         0, 0},
        {"a lease is renewed over the end of its voucher", test_renew_over_end, 0, 0, 0},
        {"with nothing but a voucher the cards stop when it ends", test_only_voucher, 0, 0, 0},
        {"a voucher pays inside its scope and SKU only", test_scopes, 0, 0, 0},
        {"a detached disk's seconds are cut where the voucher ends", test_disk_cut, 0, 0, 0},
        {"a credit line lends up to its limit and is repaid first", test_credit, 0, 0, 0},
        {"a purchase is paid in order, once, and refunded in the paid ratio", test_purchase, 0, 0,
         0},
        {"a voucher does not pay for what was before it", test_grant_later, 0, 0, 0},
        {"an end in a gap leaves the voucher what was before it", test_end_in_a_gap, 0, 0, 0},
        {"a hold of before there were parts goes on", test_old_hold, 0, 0, 0},
        {"no meter of before is still no meter", test_old_none, 0, 0, 0},
        {"what credit paid comes back to it first", test_credit_purchase, 0, 0, 0},
        {"a notice is signed over every field", test_notice, 0, 0, 0},
        {"as many vouchers as there may be end one after another", test_many, 0, 0, 0},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
