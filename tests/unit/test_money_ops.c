/* The money operations as their callers see them, through the core. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/books.h"
#include "app/core.h"

#define S INT64_C(1000)

struct desk {
    struct store *s;
    struct core *c;
    utime_t now_ms; /* both clocks */
    int calls;
    const char *user;
    json_t *answer; /* owned */
    char *text;     /* owned */
    enum err code;
};

static void on_reply(void *user, const struct core_reply *r)
{
    struct desk *d = user;

    d->code = r->code;
    free(d->text);
    json_decref(d->answer);
    d->answer = NULL;
    d->text = NULL;
    if (r->code != ERR_OK)
        return;
    d->text = mem_alloc(r->answer_len + 1);
    memcpy(d->text, r->answer, r->answer_len);
    d->answer = json_loads(d->text, 0, NULL);
}

static struct core_now now_of(const struct desk *d)
{
    struct core_now now = {.wall_ms = d->now_ms, .boot_ms = d->now_ms - T0 + 1000};

    assert_true(str_copy(now.boot, sizeof(now.boot), "ctl"));
    return now;
}

static void desk_open_with(struct desk *d, int64_t cash_u, const char *backup_dir,
                           struct core_config config)
{
    struct refusal why = {0};
    struct core_now now;

    *d = (struct desk){.s = books_new(cash_u), .now_ms = T0, .user = "usr_one"};
    assert_true(str_copy(config.backup_dir, sizeof(config.backup_dir), backup_dir));
    now = now_of(d);
    ok(core_init(&d->c, d->s, &config, id_maker_seeded(3), &now, &why));
}

static void desk_open(struct desk *d, int64_t cash_u, const char *backup_dir)
{
    desk_open_with(d, cash_u, backup_dir, core_config_default());
}

static void desk_close(struct desk *d)
{
    core_fini(d->c);
    store_close(d->s);
    free(d->text);
    json_decref(d->answer);
}

/* args: a JSON object; what the path needs is in path. */
static enum err call(struct desk *d, const char *name, const char *path, const char *args)
{
    struct core_request r = {.lang = LANG_EN,
                             .reply = on_reply,
                             .reply_user = d,
                             .who = {.user = id_of(d->user),
                                     .project = id_of("prj_one"),
                                     .role = ROLE_OWNER,
                                     .is_operator = true}};
    struct core_now now;
    struct refusal why = {0};

    for (size_t i = 0; i < op_row_count; i++)
        if (str_eq(op_rows[i].name, name))
            r.row = &op_rows[i];
    CHECK(r.row);
    d->now_ms += 10;
    now = now_of(d);
    r.boot_ms = now.boot_ms;
    if (path)
        r.path_arg[0] = mem_strdup(path);
    if (r.row->flags & OPF_IDEM)
        assert_true(str_printf(r.idem_key, sizeof(r.idem_key), "key-%d", d->calls++));
    r.body = json_loads(args, 0, NULL);
    r.query = json_loads(args, 0, NULL);
    r.dry_run = json_is_true(json_object_get(r.body, "dry_run"));
    if (r.row->flags & OPF_READ) {
        core_read(d->c, d->s, &r, &now);
        core_request_fini(&r);
        return d->code;
    }
    ok(core_submit(d->c, &r));
    ok(core_run_batch(d->c, &now, &why));
    return d->code;
}

static const char *amount(const struct desk *d, const char *field)
{
    return json_string_value(json_object_get(json_object_get(d->answer, field), "amount"));
}

static void lease_life(struct desk *d, utime_t run_ms)
{
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_term t;
    struct refusal why = {0};

    ok(funds_lease_open(d->s, T0 + 100, TERM_S, &l, &t, &why));
    ok(funds_lease_ready(d->s, l.lease, T0 + 1500));
    run_for(d->s, "lea_a", 1, 1500, run_ms);
    ok(funds_lease_settle(d->s, T0 + run_ms, l.lease, T0 + run_ms, false, &why));
    d->now_ms = T0 + run_ms;
}

static void test_wallet(void **state)
{
    (void)state;
    struct desk d;

    desk_open(&d, 0, "");
    ok(call(&d, "topup", NULL, "{\"project\":\"one\",\"amount\":\"12.5\",\"dry_run\":true}"));
    assert_string_equal(amount(&d, "cash"), "12.50");
    ok(call(&d, "wallet_get", NULL, "{}"));
    assert_string_equal(amount(&d, "cash"), "0.00");
    ok(call(&d, "topup", NULL, "{\"project\":\"one\",\"amount\":\"12.5\",\"note\":\"cash\"}"));
    d.calls--; /* the same key again */
    ok(call(&d, "topup", NULL, "{\"project\":\"one\",\"amount\":\"12.5\",\"note\":\"cash\"}"));
    ok(call(&d, "wallet_get", NULL, "{}"));
    assert_string_equal(amount(&d, "available"), "12.50");
    assert_true(json_is_null(json_object_get(d.answer, "lasts_s")));
    assert_int_equal(call(&d, "topup", NULL, "{\"project\":\"one\",\"amount\":\"-1\"}"),
                     ERR_VALIDATION);
    assert_int_equal(call(&d, "topup", NULL, "{\"project\":\"two\",\"amount\":\"1\"}"),
                     ERR_NOT_FOUND);
    desk_close(&d);
}

/* Exit status of recompute.py over DIR/1 (usage) and DIR/0 (bill). */
static int run_recompute(const char *dir)
{
    char usage[64], bill[64];
    int status = -1;
    pid_t pid;

    assert_true(str_printf(usage, sizeof(usage), "%s/1", dir));
    assert_true(str_printf(bill, sizeof(bill), "%s/0", dir));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is TAP */
        (void)execlp("python3", "python3", RECOMPUTE, usage, bill, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Writes both files and lets the independent program compute the bill again. */
static void test_recompute(void **state)
{
    (void)state;
    char dir[] = "/tmp/money-ops-XXXXXX", command[600];
    struct desk d;

    assert_non_null(mkdtemp(dir));
    desk_open(&d, 100000000, "");
    lease_life(&d, 95200);
    ok(call(&d, "bill_get", NULL, "{}"));
    assert_int_equal(json_array_size(json_object_get(d.answer, "lines")), 2);
    /* [2, 95) s of a card and of its disk */
    assert_string_equal(amount(&d, "total"), "0.051365");
    for (int i = 0; i < 2; i++) {
        char path[64];
        ok(call(&d, i ? "usage_export" : "bill_get", NULL, "{}"));
        assert_true(str_printf(path, sizeof(path), "%s/%d", dir, i));
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_true(fputs(d.text, f) >= 0);
        assert_int_equal(fclose(f), 0);
    }
    assert_int_equal(run_recompute(dir), 0);
    assert_true(str_printf(command, sizeof(command), "%s/0", dir));
    assert_int_equal(unlink(command), 0);
    command[strlen(command) - 1] = '1';
    assert_int_equal(unlink(command), 0);
    assert_int_equal(rmdir(dir), 0);
    desk_close(&d);
}

static void test_pages(void **state)
{
    (void)state;
    struct desk d;
    int64_t lines = 0;
    char args[200] = "{}";

    desk_open(&d, 100000000, "");
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_term t;
    struct refusal why = {0};
    ok(funds_lease_open(d.s, T0, TERM_S, &l, &t, &why));
    ok(funds_lease_ready(d.s, l.lease, T0));
    for (int64_t i = 0; i < 12000; i++) {
        struct funds_slice one = slice_of("lea_a", i + 1, i * 10, i * 10 + 10);
        deliver(d.s, T0 + 200 * S, &one, 1);
    }
    for (int pages = 1;; pages++) {
        const char *next = NULL;
        char *save = NULL;
        ok(call(&d, "usage_export", NULL, args));
        for (char *line = strtok_r(d.text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            json_t *row = json_loads(line, 0, NULL);
            assert_non_null(row);
            next = json_string_value(json_object_get(row, "next"));
            lines += next == NULL;
            if (next)
                assert_true(str_printf(args, sizeof(args), "{\"after\":\"%s\"}", next));
            json_decref(row);
        }
        if (pages == 3)
            break;
    }
    assert_int_equal(lines, 12000);
    desk_close(&d);
}

static void test_prices(void **state)
{
    (void)state;
    struct desk d;

    desk_open(&d, 100000000, "");
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_term t;
    struct refusal why = {0};
    ok(funds_lease_open(d.s, T0, TERM_S, &l, &t, &why));
    ok(call(&d, "price_set", NULL,
            "{\"sku\":\"gpu.RTX 4090\",\"price\":\"2.98\",\"dry_run\":true}"));
    assert_int_equal(json_integer_value(json_object_get(d.answer, "affected")), 1);
    assert_string_equal(json_string_value(json_object_get(d.answer, "rate")), "2980000/3600");
    ok(call(&d, "price_set", NULL, "{\"sku\":\"gpu.RTX 4090\",\"price\":\"2.98\"}"));
    /* a rise reaches what runs after seven days */
    assert_string_equal(json_string_value(json_object_get(d.answer, "binds_running_from")),
                        "2026-03-08T00:00:00Z");
    ok(call(&d, "price_set", NULL, "{\"sku\":\"disk\",\"price\":\"0.012\",\"unit\":\"GiB-day\"}"));
    assert_string_equal(json_string_value(json_object_get(d.answer, "rate")), "12000/88473600");
    assert_int_equal(
        call(&d, "price_set", NULL, "{\"sku\":\"disk\",\"price\":\"1\",\"unit\":\"hour\"}"),
        ERR_VALIDATION);
    assert_int_equal(call(&d, "price_set", NULL, "{\"sku\":\"gpu.\",\"price\":\"1\"}"),
                     ERR_VALIDATION);
    assert_int_equal(call(&d, "price_set", NULL,
                          "{\"sku\":\"disk\",\"price\":\"1\","
                          "\"from\":\"2026-01-01T00:00:00Z\"}"),
                     ERR_VALIDATION);
    ok(call(&d, "price_list", NULL, "{}"));
    assert_int_equal(json_array_size(json_object_get(d.answer, "items")), 8);
    desk_close(&d);
}

static const char *text_of(const struct desk *d, const char *field)
{
    return json_string_value(json_object_get(d->answer, field));
}

/* Two prices that take effect in the same second: the later one counts, against what runs. */
static void test_price_preview(void **state)
{
    (void)state;
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct refusal why = {0};
    struct funds_term t;
    struct desk d;

    desk_open(&d, 100000000, "");
    ok(funds_lease_open(d.s, T0, TERM_S, &l, &t, &why));
    ok(call(&d, "price_set", NULL,
            "{\"sku\":\"gpu.RTX 4090\",\"price\":\"3.50\",\"from\":\"2026-03-02T00:00:00Z\"}"));
    assert_string_equal(amount(&d, "price_before"), "1.98");
    /* below 3.50, which never comes to bind, but above the 1.98 that is paid */
    ok(call(&d, "price_set", NULL,
            "{\"sku\":\"gpu.RTX 4090\",\"price\":\"2.50\",\"from\":\"2026-03-02T00:00:00Z\"}"));
    assert_string_equal(text_of(&d, "binds_running_from"), "2026-03-08T00:00:00Z");
    assert_int_equal(json_integer_value(json_object_get(d.answer, "affected_projects")), 1);
    ok(call(&d, "price_set", NULL, "{\"sku\":\"gpu.RTX 4090\",\"price\":\"1.50\"}"));
    assert_string_equal(text_of(&d, "binds_running_from"), "2026-03-01T00:00:01Z");
    desk_close(&d);
}

/* Another currency is another book; tiers count what a project sends; a day costs its cap. */
static void test_price_books(void **state)
{
    (void)state;
    struct currency usd, jpy;
    struct rate rate;
    struct desk d;
    struct id id;
    int64_t u;

    desk_open(&d, 100000000, "");
    ok(currency_get("USD", &usd));
    ok(currency_get("JPY", &jpy));
    ok(call(
        &d, "price_set", NULL,
        "{\"sku\":\"gpu.RTX 4090\",\"price\":\"0.30\",\"currency\":\"USD\",\"day_cap\":\"5\"}"));
    assert_string_equal(text_of(&d, "rate"), "300000/3600,5000000/86400");
    assert_true(json_is_null(json_object_get(d.answer, "price_before")));
    ok(funds_price(d.s, d.now_ms, usd, "gpu.RTX 4090", &id, &rate, NULL));
    ok(rate_total(&rate, 86400 + 3600, &u));
    assert_int_equal(u, 5300000);
    assert_int_equal(funds_price(d.s, d.now_ms, jpy, "gpu.RTX 4090", &id, &rate, NULL),
                     ERR_PRICE_UNKNOWN);
    ok(call(&d, "price_set", NULL,
            "{\"sku\":\"egress\",\"price\":\"0.8\",\"tier\":[\"100:0.5\",\"1000:0.2\"]}"));
    assert_string_equal(text_of(&d, "rate"),
                        "800000/1073741824;107374182400:500000;1073741824000:200000");
    assert_int_equal(call(&d, "price_set", NULL,
                          "{\"sku\":\"egress\",\"price\":\"1\",\"tier\":[\"10:0.5\",\"10:0.4\"]}"),
                     ERR_VALIDATION);
    assert_int_equal(
        call(&d, "price_set", NULL, "{\"sku\":\"egress\",\"price\":\"1\",\"tier\":[\"x:0.5\"]}"),
        ERR_VALIDATION);
    assert_int_equal(
        call(&d, "price_set", NULL, "{\"sku\":\"disk\",\"price\":\"1\",\"currency\":\"ABC\"}"),
        ERR_VALIDATION);
    assert_int_equal(
        call(&d, "price_set", NULL, "{\"sku\":\"disk\",\"price\":\"1\",\"day_cap\":\"1\"}"),
        ERR_VALIDATION);
    assert_int_equal(
        call(&d, "price_set", NULL, "{\"sku\":\"cpu.seat\",\"price\":\"1\",\"fee\":5}"),
        ERR_VALIDATION);
    desk_close(&d);
}

/* Traffic of two instances of a project goes up the same tiers. */
static void test_price_tiers_live(void **state)
{
    (void)state;
    struct window_list windows = {0};
    struct refusal why = {0};
    struct funds_term t;
    struct desk d;

    desk_open(&d, 100000000, "");
    ok(call(&d, "price_set", NULL, "{\"sku\":\"egress\",\"price\":\"2\",\"tier\":[\"1:1\"]}"));
    for (int k = 0; k < 2; k++) {
        struct funds_lease l = lease_ask(k ? "lea_b" : "lea_a", k ? "ins_b" : "ins_a", 1);
        struct funds_slice one;

        ok(funds_lease_open(d.s, T0 + 5000, TERM_S, &l, &t, &why));
        ok(funds_lease_ready(d.s, l.lease, T0 + 5000));
        one = slice_of(k ? "lea_b" : "lea_a", k + 1, 5000, 15000);
        one.tx_bytes = INT64_C(1) << 30;
        assert_int_equal(deliver(d.s, T0 + 15000, &one, 1).taken, 1);
    }
    ok(money_window_all(d.s, &windows));
    bool seen = false;
    for (size_t i = 0; i < windows.len; i++)
        if (windows.at[i].meter == METER_EGRESS) {
            assert_false(seen);
            seen = true;
            assert_int_equal(windows.at[i].rated_u, 3000000);
            assert_string_equal(windows.at[i].subject.s, "prj_one");
        }
    assert_true(seen);
    vec_fini(&windows);
    check_books(d.s, T0 + 20000);
    ok(call(&d, "bill_get", NULL, "{}"));
    desk_close(&d);
}

static void test_price_second(void **state)
{
    (void)state;
    struct core_config config = core_config_default();
    char path[ID_SIZE];
    struct desk d;

    config.price_second_pct = 20;
    desk_open_with(&d, 100000000, "", config);
    ok(call(&d, "price_set", NULL, "{\"sku\":\"gpu.RTX 4090\",\"price\":\"2.376\"}"));
    assert_string_equal(text_of(&d, "state"), "set"); /* exactly 20 percent */
    ok(call(&d, "price_set", NULL, "{\"sku\":\"gpu.RTX 4090\",\"price\":\"1\"}"));
    assert_string_equal(text_of(&d, "state"), "proposed");
    assert_string_equal(text_of(&d, "proposed_by"), "usr_one");
    assert_true(str_copy(path, sizeof(path), text_of(&d, "id")));
    assert_int_equal(call(&d, "price_approve", path, "{}"), ERR_APPROVAL_OWN);
    ok(call(&d, "price_list", NULL, "{}"));
    assert_int_equal(json_array_size(json_object_get(d.answer, "items")), 8);
    d.user = "usr_two";
    d.now_ms += 60000;
    ok(call(&d, "price_approve", path, "{\"dry_run\":true}"));
    ok(call(&d, "price_approve", path, "{}"));
    assert_string_equal(text_of(&d, "state"), "set");
    assert_string_equal(text_of(&d, "announced_at"), "2026-03-01T00:01:00Z");
    assert_int_equal(call(&d, "price_approve", path, "{}"), ERR_NOT_FOUND);
    ok(call(&d, "price_set", NULL, "{\"sku\":\"gpu.RTX 4090\",\"price\":\"9\"}"));
    assert_true(str_copy(path, sizeof(path), text_of(&d, "id")));
    ok(call(&d, "price_withdraw", path, "{}"));
    assert_int_equal(call(&d, "price_withdraw", path, "{}"), ERR_NOT_FOUND);
    assert_int_equal(call(&d, "price_approve", "prc_none", "{}"), ERR_NOT_FOUND);
    desk_close(&d);
}

static void test_budgets(void **state)
{
    (void)state;
    struct desk d;

    desk_open(&d, 100000000, "");
    lease_life(&d, 95200);
    ok(call(&d, "budget_set", "lab", "{\"cap\":\"10\",\"period\":\"month\"}"));
    assert_string_equal(amount(&d, "spent"), "0.051365");
    assert_string_equal(amount(&d, "left"), "9.948635");
    assert_int_equal(call(&d, "budget_set", "lab", "{\"cap\":\"0.05\"}"), ERR_VALIDATION);
    assert_int_equal(call(&d, "budget_set", "lab", "{\"cap\":\"1\",\"period\":\"year\"}"),
                     ERR_VALIDATION);
    ok(call(&d, "budget_list", NULL, "{}"));
    assert_int_equal(json_array_size(json_object_get(d.answer, "items")), 1);
    ok(call(&d, "budget_remove", "lab", "{}"));
    assert_int_equal(call(&d, "budget_remove", "lab", "{}"), ERR_NOT_FOUND);
    desk_close(&d);
}

static void test_check(void **state)
{
    (void)state;
    struct ledger_account cash;
    struct desk d;

    desk_open(&d, 100000000, "");
    lease_life(&d, 95200);
    ok(call(&d, "check_run", NULL, "{}"));
    assert_true(json_is_true(json_object_get(d.answer, "pass")));
    assert_true(json_array_size(json_object_get(d.answer, "rows")) >= 18);
    ok(money_account_get(d.s, "cash.prj_one", &cash));
    cash.cr_posted += 7;
    ok(money_account_save(d.s, &cash));
    ok(call(&d, "check_run", NULL, "{}"));
    assert_true(json_is_false(json_object_get(d.answer, "pass")));
    desk_close(&d);
}

static void test_backup(void **state)
{
    (void)state;
    char dir[] = "/tmp/money-ops-XXXXXX", path[64];
    struct store *copy = NULL;
    struct refusal why = {0};
    struct project p;
    struct desk d;

    desk_open(&d, 100, "");
    assert_int_equal(call(&d, "backup", NULL, "{\"name\":\"a.db\"}"), ERR_UNSUPPORTED);
    desk_close(&d);
    assert_non_null(mkdtemp(dir));
    desk_open(&d, 100, dir);
    assert_int_equal(call(&d, "backup", NULL, "{\"name\":\"../a.db\"}"), ERR_VALIDATION);
    assert_int_equal(call(&d, "backup", NULL, "{\"name\":\".a\"}"), ERR_VALIDATION);
    ok(call(&d, "topup", NULL, "{\"project\":\"one\",\"amount\":\"1\"}"));
    desk_close(&d);
    assert_true(str_printf(path, sizeof(path), "%s/live.db", dir));
    /* a store on disk, as the daemon has it */
    ok(store_open(path, STORE_WRITE, &copy, &why));
    ok(store_migrate(copy, &why));
    struct project one = {.id = id_of("prj_one"), .name = "one", .currency = "CNY", .zone = "UTC"};
    ok(store_project_save(copy, &one));
    ok(store_begin(copy));
    int64_t bytes = 0;
    assert_true(str_printf(path, sizeof(path), "%s/copy.db", dir));
    ok(store_backup(copy, path, &bytes, &why));
    store_rollback(copy);
    store_close(copy);
    assert_true(bytes > 0);
    copy = NULL;
    ok(store_open(path, STORE_READ, &copy, &why));
    ok(store_project_get(copy, one.id, &p));
    store_close(copy);
    static const char *const files[] = {"live.db", "live.db-wal", "live.db-shm",
                                        "copy.db", "copy.db-wal", "copy.db-shm"};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        assert_true(str_printf(path, sizeof(path), "%s/%s", dir, files[i]));
        (void)unlink(path);
    }
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"a top-up credits once for a key, a dry run nothing", test_wallet, 0, 0, 0},
        {"a bill is computed again from the usage export alone", test_recompute, 0, 0, 0},
        {"a long export comes in pages without loss", test_pages, 0, 0, 0},
        {"a price is exact, never retroactive, and says who it reaches", test_prices, 0, 0, 0},
        {"a preview counts from what really binds", test_price_preview, 0, 0, 0},
        {"each currency has a book; tiers and day caps", test_price_books, 0, 0, 0},
        {"a project goes up one flight of tiers", test_price_tiers_live, 0, 0, 0},
        {"a large change needs a second operator", test_price_second, 0, 0, 0},
        {"a budget says what is spent, and no cap is below it", test_budgets, 0, 0, 0},
        {"the check passes a good store and finds a bad one", test_check, 0, 0, 0},
        {"a backup is a whole store in the configured folder", test_backup, 0, 0, 0},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
