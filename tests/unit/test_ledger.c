#include "../support/tap.h"

#include "base/str.h"
#include "domain/ledger.h"

#define JOURNAL_MAX 32

static struct {
    struct ledger_account accounts[6];
    struct ledger_transfer journal[JOURNAL_MAX];
    size_t count;
    unsigned char head[LEDGER_HASH_SIZE];
    struct refusal why;
} b;

static int setup(void **state)
{
    static const struct ledger_account chart[] = {
        {.id = "bank", .ledger = "CNY"},
        {.id = "cash", .ledger = "CNY", .flags = LEDGER_NO_OVERDRAFT},
        {.id = "debt", .ledger = "CNY", .flags = LEDGER_NO_OVERDRAFT, .limit = 50},
        {.id = "frozen", .ledger = "CNY", .flags = LEDGER_CLOSED},
        {.id = "revenue", .ledger = "CNY"},
        {.id = "wallet", .ledger = "USD", .flags = LEDGER_NO_OVERDRAFT},
    };

    (void)state;
    memset(&b, 0, sizeof(b));
    memcpy(b.accounts, chart, sizeof(chart));
    return 0;
}

static struct ledger_transfer make(const char *id, const char *dr, const char *cr, int64_t amount)
{
    struct ledger_transfer t = {.amount = amount, .ledger = "CNY", .kind = "test"};

    assert_true(str_copy(t.id, sizeof(t.id), id) && str_copy(t.dr, sizeof(t.dr), dr) &&
                str_copy(t.cr, sizeof(t.cr), cr));
    return t;
}

static struct ledger_transfer hold(const char *id, int64_t amount)
{
    struct ledger_transfer t = make(id, "cash", "revenue", amount);

    t.step = LEDGER_PENDING;
    t.expires_ms = 5000;
    assert_true(str_copy(t.owner, sizeof(t.owner), "lea_1"));
    return t;
}

static struct ledger_transfer resolve(const char *id, enum ledger_step step, const char *pending,
                                      int64_t amount)
{
    struct ledger_transfer t = {.step = step, .amount = amount};

    assert_true(str_copy(t.id, sizeof(t.id), id) &&
                str_copy(t.pending, sizeof(t.pending), pending));
    return t;
}

static enum err apply_at(struct ledger_transfer *group, size_t n, utime_t now, bool *ret_replayed)
{
    struct ledger_view v = {b.accounts, ARRAY_LEN(b.accounts), b.journal, b.count};
    enum err e = ledger_apply(&v, group, n, now, b.head, ret_replayed, &b.why);

    for (size_t i = 0; e == ERR_OK && !*ret_replayed && i < n; i++)
        b.journal[b.count++] = group[i];
    return e;
}

static enum err apply(struct ledger_transfer t)
{
    bool replayed;

    return apply_at(&t, 1, 1000, &replayed);
}

static enum err prove(utime_t now)
{
    struct ledger_account fold[ARRAY_LEN(b.accounts)];
    const struct ledger_transfer *by_id[JOURNAL_MAX], *resolutions[JOURNAL_MAX];
    struct ledger_book book = {
        b.accounts, ARRAY_LEN(b.accounts), b.journal, b.count, now, fold, by_id, resolutions};

    return ledger_check(&book, &b.why);
}

static void assert_broken(const char *invariant)
{
    assert_int_equal(prove(0), ERR_CORRUPT);
    assert_true(str_starts(b.why.params[0].value, invariant));
}

static void cash_never_goes_below_zero(void **state)
{
    (void)state;
    assert_int_equal(apply(make("1", "bank", "cash", 100)), ERR_OK);
    assert_int_equal(apply(make("2", "cash", "revenue", 101)), ERR_LEDGER_OVERDRAFT);
    assert_string_equal(b.why.params[0].value, "cash");
    assert_string_equal(b.why.params[2].value, "100");
    assert_int_equal(apply(hold("3", 60)), ERR_OK);
    assert_int_equal(apply(make("4", "cash", "revenue", 41)), ERR_LEDGER_OVERDRAFT);
    assert_int_equal(apply(make("5", "cash", "revenue", 40)), ERR_OK);
    assert_int_equal(ledger_available(&b.accounts[1]), 0);
    assert_int_equal(ledger_balance(&b.accounts[1]), 60);
    assert_int_equal(prove(0), ERR_OK);
}

static void a_limit_bounds_a_debt(void **state)
{
    (void)state;
    assert_int_equal(apply(make("1", "debt", "revenue", 51)), ERR_LEDGER_OVERDRAFT);
    assert_int_equal(apply(make("2", "debt", "revenue", 50)), ERR_OK);
    assert_int_equal(ledger_available(&b.accounts[2]), 0);
    assert_int_equal(ledger_balance(&b.accounts[2]), -50);
}

static void a_hold_is_posted_in_part_and_only_once(void **state)
{
    (void)state;
    assert_int_equal(apply(make("1", "bank", "cash", 100)), ERR_OK);
    assert_int_equal(apply(hold("h", 80)), ERR_OK);
    assert_int_equal(apply(resolve("p", LEDGER_POST, "h", 81)), ERR_VALIDATION);
    assert_int_equal(apply(resolve("p", LEDGER_POST, "h", 30)), ERR_OK);
    assert_int_equal(ledger_available(&b.accounts[1]), 70);
    assert_int_equal(apply(resolve("q", LEDGER_VOID, "h", 0)), ERR_STATE);
    assert_int_equal(apply(resolve("r", LEDGER_POST, "nothing", 0)), ERR_NOT_FOUND);
    assert_int_equal(apply(resolve("s", LEDGER_POST, "1", 0)), ERR_NOT_FOUND);
    assert_string_equal(b.journal[2].dr, "cash"); /* filled in from the hold */
    assert_int_equal(prove(9999), ERR_OK);
}

static void an_expiry_waits_for_its_time_and_a_leak_is_found(void **state)
{
    struct ledger_transfer t = resolve("x", LEDGER_EXPIRE, "h", 0);
    bool replayed;

    (void)state;
    assert_int_equal(apply(make("1", "bank", "cash", 100)), ERR_OK);
    assert_int_equal(apply(hold("h", 80)), ERR_OK);
    assert_int_equal(apply(t), ERR_VALIDATION);
    assert_int_equal(prove(5000), ERR_OK);
    assert_int_equal(prove(5001), ERR_CORRUPT);
    assert_true(str_starts(b.why.params[0].value, "I19"));
    assert_int_equal(apply_at(&t, 1, 5000, &replayed), ERR_OK);
    assert_int_equal(prove(9999), ERR_OK);
    assert_int_equal(ledger_available(&b.accounts[1]), 100);
}

static void a_group_is_all_or_nothing(void **state)
{
    struct ledger_transfer group[3] = {make("1", "bank", "cash", 100), hold("h", 50),
                                       make("2", "cash", "revenue", 51)};
    struct ledger_account before[ARRAY_LEN(b.accounts)];
    bool replayed;

    (void)state;
    memcpy(before, b.accounts, sizeof(before));
    assert_int_equal(apply_at(group, 3, 1000, &replayed), ERR_LEDGER_OVERDRAFT);
    assert_memory_equal(before, b.accounts, sizeof(before));
    group[2].amount = 50;
    assert_int_equal(apply_at(group, 3, 1000, &replayed), ERR_OK);
    assert_int_equal(ledger_available(&b.accounts[1]), 0);
    /* old hold posted, rest returned, new hold made: one group, as at each renewal */
    struct ledger_transfer renew[2] = {resolve("p", LEDGER_POST, "h", 20), hold("h2", 30)};
    assert_int_equal(apply_at(renew, 2, 1000, &replayed), ERR_OK);
    assert_int_equal(ledger_available(&b.accounts[1]), 0);
    assert_int_equal(prove(0), ERR_OK);
}

static void the_same_id_is_the_same_transfer(void **state)
{
    struct ledger_transfer t = make("1", "bank", "cash", 100), other = t;
    struct ledger_transfer half[2] = {t, make("2", "bank", "cash", 1)};
    struct ledger_transfer twice[2] = {make("3", "bank", "cash", 1), make("3", "bank", "cash", 1)};
    bool replayed;

    (void)state;
    assert_int_equal(apply_at(&t, 1, 1000, &replayed), ERR_OK);
    assert_false(replayed);
    t = make("1", "bank", "cash", 100);
    assert_int_equal(apply_at(&t, 1, 2000, &replayed), ERR_OK);
    assert_true(replayed);
    assert_int_equal(b.accounts[1].cr_posted, 100);
    other.amount = 99;
    assert_int_equal(apply(other), ERR_LEDGER_CONFLICT);
    assert_int_equal(apply_at(half, 2, 1000, &replayed), ERR_LEDGER_CONFLICT);
    assert_int_equal(apply_at(twice, 2, 1000, &replayed), ERR_LEDGER_CONFLICT);
}

static void malformed_transfers_are_refused(void **state)
{
    struct ledger_transfer t;

    (void)state;
    assert_int_equal(apply(make("", "bank", "cash", 1)), ERR_VALIDATION);
    assert_int_equal(apply(make("1", "bank", "cash", -1)), ERR_VALIDATION);
    assert_int_equal(apply(make("1", "bank", "bank", 1)), ERR_VALIDATION);
    assert_int_equal(apply(make("1", "bank", "nobody", 1)), ERR_NOT_FOUND);
    assert_int_equal(apply(make("1", "bank", "wallet", 1)), ERR_CURRENCY);
    assert_int_equal(apply(make("1", "bank", "frozen", 1)), ERR_STATE);
    t = hold("1", 1);
    t.expires_ms = 0;
    assert_int_equal(apply(t), ERR_VALIDATION);
    t = make("1", "bank", "cash", 1);
    assert_true(str_copy(t.pending, sizeof(t.pending), "h"));
    assert_int_equal(apply(t), ERR_VALIDATION);
    assert_int_equal(apply(make("1", "bank", "revenue", INT64_MAX)), ERR_OK);
    assert_int_equal(apply(make("2", "bank", "revenue", 1)), ERR_MONEY_RANGE);
    assert_int_equal(prove(0), ERR_OK);
}

static void the_proof_names_what_is_broken(void **state)
{
    (void)state;
    assert_int_equal(apply(make("1", "bank", "cash", 100)), ERR_OK);
    assert_int_equal(apply(hold("h", 80)), ERR_OK);
    assert_int_equal(apply(resolve("p", LEDGER_POST, "h", 30)), ERR_OK);
    assert_int_equal(prove(0), ERR_OK);
    b.accounts[1].cr_posted++;
    assert_broken("I2");
    b.accounts[1].cr_posted--;
    b.journal[0].amount++;
    assert_broken("I4");
    b.journal[0].amount--;
    b.journal[1] = b.journal[0];
    assert_broken("I5");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(cash_never_goes_below_zero, setup),
    cmocka_unit_test_setup(a_limit_bounds_a_debt, setup),
    cmocka_unit_test_setup(a_hold_is_posted_in_part_and_only_once, setup),
    cmocka_unit_test_setup(an_expiry_waits_for_its_time_and_a_leak_is_found, setup),
    cmocka_unit_test_setup(a_group_is_all_or_nothing, setup),
    cmocka_unit_test_setup(the_same_id_is_the_same_transfer, setup),
    cmocka_unit_test_setup(malformed_transfers_are_refused, setup),
    cmocka_unit_test_setup(the_proof_names_what_is_broken, setup),
};
RUN_TESTS(tests)
