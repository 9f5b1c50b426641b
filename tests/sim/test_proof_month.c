/* A month with every kind of line and of money, lived through the operations of the server: its
 * bill file counts, every changed byte of it is named, each line is explained, and its FOCUS rows
 * add up to what its statement asks for. */
#include "bill_lab.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/funds_int.h"
#include "store/rows_close.h"
#include "store/rows_plan.h"

#define HOUR_MS INT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)
#define APRIL_MS (31 * DAY_MS) /* since the world began */

static struct world *w; /* lived once, for all tests */

static json_t *asked(const struct principal *who, const char *op, const char *body,
                     const char *path)
{
    struct world_reply r;
    char text[400];
    json_t *o;
    enum err e = world_call(w, &r, who, op, body, path);

    refusal_text(&r.why, LANG_EN, text, sizeof(text));
    if (e != ERR_OK)
        print_message("# %s: %s %s\n", op, err_code(e), text);
    assert_int_equal(e, ERR_OK);
    o = json_loads(r.answer, 0, NULL);
    assert_non_null(o);
    world_reply_fini(&r);
    return o;
}

static void by_operator(const char *op, const char *body, const char *path)
{
    by_operator_at(w, op, body, path);
}

static void two_paths(const struct principal *who, const char *op, const char *body,
                      const char *path0, const char *path1)
{
    struct world_reply r;
    char text[400];

    world_submit(w, &r, who, op, body, "", path0, path1);
    assert_true(world_batch(w));
    refusal_text(&r.why, LANG_EN, text, sizeof(text));
    if (!r.come || r.code != ERR_OK)
        print_message("# %s: %s %s\n", op, err_code(r.code), text);
    assert_true(r.come && r.code == ERR_OK);
    world_reply_fini(&r);
}

static void until(int64_t ms, int64_t round_ms)
{
    w->round_ms = round_ms;
    if (ms > w->now_ms)
        world_pass(w, ms - w->now_ms);
    w->round_ms = 20000;
}

static void price(const char *body)
{
    by_operator("price_set", body, NULL);
}

static void zone_there(const char *name)
{
    char path[100], bytes[8192];
    FILE *f;
    size_t n;

    assert_true(str_printf(path, sizeof(path), "/usr/share/zoneinfo/%s", name));
    f = fopen(path, "rb");
    assert_non_null(f);
    n = fread(bytes, 1, sizeof(bytes), f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(funds_zone_add(name, bytes, n), ERR_OK);
}

static void rules(void)
{
    by_operator("seller_set", "{\"name\":\"Suan Ltd\",\"country\":\"CN\"}", NULL);
    by_operator("tax_set", "{\"country\":\"CN\",\"rate\":\"6%\"}", NULL);
    by_operator("tax_set",
                "{\"country\":\"CN\",\"rate\":\"13%\",\"sku\":\"disk\",\"class\":\"storage\","
                "\"exclusive\":true}",
                NULL);
    price("{\"sku\":\"egress\",\"price\":\"0.8\",\"unit\":\"GiB\",\"tier\":[\"1:0.3\"]}");
    price("{\"sku\":\"cpu.seat\",\"price\":\"0.36\",\"unit\":\"hour\",\"day_cap\":\"0.02\"}");
    world_price(w, "plan.day.gpu.RTX 4090", "9", "day");
    world_price(w, "plan.week.gpu.RTX 4090", "40.000001", "week");
    world_price(w, "package.1.day.gpu", "1.5", "package");
    world_price(w, "spot.gpu.RTX 4090", "0.9", "hour");
    world_price(w, "exclusive.gpu.RTX 4090", "0.5", "hour");
    call_ok(w, "invoice_profile_set", "{\"name\":\"Ann\",\"country\":\"CN\"}", NULL);
    two_paths(&w->operator, "fx_set", "{\"rate\":\"7.1234\",\"spread\":\"0.01\"}", "USD", "CNY");
}

static void plan_of(const char *instance, char ret_id[ID_SIZE])
{
    struct plan_list plans = {0};
    struct refusal why;
    struct instance i;

    assert_int_equal(store_instance_lookup(w->store, w->user.project, instance, &i, &why), ERR_OK);
    assert_int_equal(plan_row_running(w->store, &plans), ERR_OK);
    ret_id[0] = '\0';
    for (size_t k = 0; k < plans.len; k++)
        if (str_eq(plans.at[k].instance.s, i.id.s))
            memcpy(ret_id, plans.at[k].id.s, ID_SIZE);
    assert_true(ret_id[0] != '\0');
    vec_fini(&plans);
}

/* March, in the zone of before: something on demand, a plan that goes over the border. */
static void march(void)
{
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"m\",\"no_end\":true}", NULL);
    until(w->now_ms + 300000, 20000);
    call_ok(w, "instance_stop", NULL, "m");
    call_ok(w, "project_zone_set", "{\"zone\":\"Europe/Berlin\"}", "lab");
    until(29 * DAY_MS, 6 * HOUR_MS);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"p\",\"no_end\":true}", NULL);
    until(w->now_ms + 100000, 20000);
    call_ok(w, "plan_convert", "{\"plan\":\"week\",\"go_on\":true}", "p");
    until(w->now_ms + 400000, 20000);
    call_ok(w, "instance_stop", NULL, "p");
    until(APRIL_MS + 10 * HOUR_MS, 6 * HOUR_MS);
}

static void money_comes(void)
{
    AUTO_JSON json_t *codes = asked(&w->operator, "voucher_create",
                                    "{\"amount\":\"0.123456\",\"scope\":\"compute\"}", NULL);
    const json_t *code = json_array_get(json_object_get(codes, "codes"), 0);
    char body[100];

    assert_true(str_printf(body, sizeof(body), "{\"code\":\"%s\"}", json_string_value(code)));
    call_ok(w, "voucher_redeem", body, NULL);
    by_operator("topup", "{\"project\":\"lab\",\"amount\":\"0.200001\",\"gift\":true}", NULL);
    AUTO_JSON json_t *order =
        asked(&w->user, "order_create", "{\"amount\":\"3\",\"currency\":\"USD\"}", NULL);
    call_ok(w, "order_pay_test", NULL, text_of(order, "id"));
    by_operator("credit_set", "{\"limit\":\"60\"}", "lab");
}

/* Cards on demand over a price change, a seat over its day's cap, traffic, disks. */
static void on_demand(void)
{
    w->nodes[0].tx_bytes = 60 << 20;
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"a\",\"no_end\":true,\"disk\":[\"data:10GiB\"]}", NULL);
    call_ok(w, "instance_create", "{\"cpu\":2,\"memory\":\"1GiB\",\"name\":\"b\",\"no_end\":true}",
            NULL);
    until(w->now_ms + 400000, 20000);
    world_price(w, "gpu.RTX 4090", "3.1", "hour"); /* a cut: at once */
    until(w->now_ms + 200000, 20000);
    call_ok(w, "instance_stop", NULL, "b");
    w->nodes[0].tx_bytes = 0;
}

/* Bought ahead: a plan that is left on the same day, the one of March, card-hours. */
static void ahead(void)
{
    char id[ID_SIZE];

    call_ok(w, "plan_convert", "{\"plan\":\"day\",\"go_on\":true}", "a");
    until(w->now_ms + 400000, 20000);
    plan_of("a", id);
    call_ok(w, "plan_release", "{\"go_on\":true}", id);
    plan_of("p", id);
    call_ok(w, "plan_release", NULL, id);
    call_ok(w, "package_buy", "{\"hours\":1,\"plan\":\"day\"}", NULL);
    until(w->now_ms + 700000, 20000);
    call_ok(w, "instance_stop", NULL, "a");
    until(w->now_ms + 60000, 20000);
}

static void spot(void)
{
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"s\",\"for\":\"2h\",\"spot\":true,\"bid\":\"1.2\"}", NULL);
    until(w->now_ms + 300000, 20000);
    world_price(w, "spot.gpu.RTX 4090", "2.5", "hour"); /* passes the bid */
    until(w->now_ms + 200000, 20000);
    call_ok(w, "instance_stop", NULL, "s");
    until(w->now_ms + 60000, 20000);
    world_price(w, "spot.gpu.RTX 4090", "0.9", "hour");
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"r\",\"for\":\"2h\",\"spot\":true}",
            NULL);
    until(w->now_ms + 300000, 20000);
    by_operator("instance_reclaim", "{\"project\":\"lab\",\"reason\":\"a gang waits\"}", "r");
    until(w->now_ms + 300000, 20000);
}

/* A node alone, at its surcharge. */
static void alone(void)
{
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"x\",\"for\":\"1h\",\"exclusive\":true}", NULL);
    until(w->now_ms + 200000, 20000);
    call_ok(w, "instance_stop", NULL, "x");
    until(w->now_ms + 60000, 20000);
}

/* Nothing but the credit line pays; the rest comes later. */
static void on_credit(void)
{
    AUTO_JSON json_t *wallet = asked(&w->user, "wallet_get", NULL, NULL);
    char body[100];

    assert_true(str_printf(body, sizeof(body), "{\"project\":\"lab\",\"amount\":\"%.*s\"}", 5,
                           amount_of(wallet, "cash")));
    by_operator("refund_create", body, NULL);
    until(w->now_ms + 26 * HOUR_MS, 6 * HOUR_MS);  /* the package is over */
    world_price(w, "gpu.RTX 4090", "150", "hour"); /* a rise: for new starts */
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"c\",\"for\":\"10m\"}", NULL);
    until(w->now_ms + 720000, 20000); /* and what it held of the line is settled */
    world_topup(w, "90");
}

/* Seconds of March that are rated when March is closed: what nobody proved is not taken from a
 * node, so they come by the function that takes what was. */
static void late(const char *instance, int64_t from_s, int64_t seconds)
{
    struct rating r = {.meter = METER_GPU, .sku = "gpu.RTX 4090", .qty_per_s = 1};
    struct refusal why = {0};
    struct instance i;
    struct books b;

    assert_int_equal(store_instance_lookup(w->store, w->user.project, instance, &i, &why), ERR_OK);
    r.instance = r.subject = i.id;
    r.started_s = from_s;
    assert_int_equal(store_begin(w->store), ERR_OK);
    assert_int_equal(books_open(w->store, WORLD_T0 + w->now_ms, w->user.project, &b, &why), ERR_OK);
    assert_int_equal(rating_add(&b, &r, from_s, from_s + seconds, &why), ERR_OK);
    assert_int_equal(store_commit(w->store), ERR_OK);
}

static void april_closes(void)
{
    until(APRIL_MS + 5 * DAY_MS, 6 * HOUR_MS);
    late("m", WORLD_T0 / MS_PER_S + 5 * 86400, 1234);
    late("p", WORLD_T0 / MS_PER_S + 30 * 86400, 777);
    until(APRIL_MS + 35 * DAY_MS, 6 * HOUR_MS);
    AUTO_JSON json_t *invoice = asked(&w->user, "invoice_request", "{\"month\":\"2026-04\"}", NULL);
    by_operator("invoice_credit", "{\"reason\":\"allowance\",\"amount\":\"1.01\"}",
                text_of(invoice, "number"));
}

static int live(void **state UNUSED)
{
    w = world_new();
    w->config.test_channel = true;
    world_restart(w);
    zone_there("Europe/Berlin");
    rules();
    march();
    money_comes();
    on_demand();
    ahead();
    spot();
    alone();
    on_credit();
    april_closes();
    return 0;
}

static int over(void **state UNUSED)
{
    world_done(w);
    return 0;
}

/* ---- the bill file ---- */

static size_t lines_with(const struct lab_file *f, const char *kind, const char *text)
{
    size_t n = 0;

    for (size_t i = 0; i < f->len; i++)
        n += lab_is(f->line[i], kind) && strstr(f->line[i], text);
    return n;
}

static void exported(struct lab_file *ret_f)
{
    struct refusal why;
    char text[400];

    *ret_f = (struct lab_file){0};
    assert_int_equal(lab_read(w, "bill_export", "2026-04", ret_f, NULL), ERR_OK);
    int64_t line = lab_check(ret_f, NULL, &why);
    if (line) {
        refusal_text(&why, LANG_EN, text, sizeof(text));
        print_message("# %s\n# %s\n", text, ret_f->line[line - 1]);
    }
    assert_int_equal(line, 0);
}

static void every_kind_is_in_the_file_and_it_counts(void **state UNUSED)
{
    static const struct {
        const char *kind, *text;
    } must[] = {
        {"zone", "Europe/Berlin"},
        {"head", "\"zone_before\":\"Asia/Shanghai\""},
        {"price", "\"sku\":\"plan.pln_"},
        {"price", "\"sku\":\"package.pkg_"},
        {"price", "\"sku\":\"bid.ins_"},
        {"price", "\"cap_u\":\"20000\""},
        {"line", "\"kind\":\"usage\""},
        {"line", "\"kind\":\"correction\""},
        {"line", "\"kind\":\"charge\""},
        {"line", "\"kind\":\"reversal\""},
        {"line", "\"sku\":\"plan\""},
        {"line", "\"sku\":\"package\""},
        {"line", "\"sku\":\"spot."},
        {"line", "\"sku\":\"cpu.seat\""},
        {"line", "\"sku\":\"disk\""},
        {"line", "\"sku\":\"disk.stopped\""},
        {"line", "\"sku\":\"disk.detached\""},
        {"line", "\"meter\":\"egress\""},
        {"line", "\"sku\":\"exclusive.gpu.RTX 4090\""},
        {"line", "\"source\":\"voucher."},
        {"line", "\"source\":\"gift."},
        {"tax", "\"inclusive\":true"},
        {"tax", "\"inclusive\":false"},
        {"invoice", "\"kind\":\"invoice\""},
        {"invoice", "\"kind\":\"credit_note\""},
        {"transfer", "\"kind\":\"residue\""},
        {"transfer", "\"kind\":\"tax\""},
        {"transfer", "\"kind\":\"back\""},
        {"transfer", "\"kind\":\"reversal\""},
        {"transfer", "\"dr\":\"credit."},
        {"transfer", "\"cr\":\"credit."},
        {"transfer", "\"dr\":\"fx."},
        {"statement", "\"number\":\"B-CNY-2026-"},
    };
    struct lab_file f;

    exported(&f);
    for (size_t i = 0; i < ARRAY_LEN(must); i++) {
        if (!lines_with(&f, must[i].kind, must[i].text))
            print_message("# no %s with %s\n", must[i].kind, must[i].text);
        assert_true(lines_with(&f, must[i].kind, must[i].text) > 0);
    }
    assert_int_equal(lines_with(&f, "line", "\"kind\":\"correction\""), 2);
    assert_true(lines_with(&f, "line", "\"sku\":\"gpu.RTX 4090\"") >= 4); /* two prices, covered */
    print_message("# %zu lines\n", f.len);
    lab_file_fini(&f);
}

/* By a program that shares no code with the product. */
static void a_program_of_its_own_counts_the_same(void **state UNUSED)
{
    char path[] = "/tmp/test_proof_month.XXXXXX";
    char program[] = "python3", script[] = RECOUNT, *argv[] = {program, script, path, NULL};
    struct lab_file f;
    int status = -1;
    pid_t pid;

    exported(&f);
    int fd = mkstemp(path);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    assert_non_null(out);
    for (size_t i = 0; i < f.len; i++)
        assert_true(fprintf(out, "%s\n", f.line[i]) > 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(posix_spawnp(&pid, program, NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)unlink(path);
    assert_int_equal(status, 0);
    lab_file_fini(&f);
}

static uint64_t rnd(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x;
}

struct change {
    size_t line, at;
    char byte;
};
static int by_line(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    return (x->line > y->line) - (x->line < y->line);
}

/* In a process of its own, so that the one that counted the lines before goes on: is this change
 * refused, and in its line? */
static bool is_named(struct bill_check *c, struct lab_file *f, const struct change *x)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        struct refusal why = {0};
        enum err e = ERR_OK;

        f->line[x->line][x->at] = x->byte;
        for (size_t i = x->line; i < f->len && e == ERR_OK; i++)
            e = bill_check_line(c, f->line[i], strlen(f->line[i]), &why);
        if (e == ERR_OK)
            e = bill_check_finish(c, &why);
        bool right = bill_check_counts(c)->lines == (int64_t)x->line + 1;
        _exit(e == ERR_BILL_DIFFERS && right ? 0 : 1);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        print_message("# byte %zu of line %zu, %d: %.120s\n", x->at, x->line + 1, x->byte,
                      f->line[x->line]);
    return status == 0;
}

/* No byte is without meaning: whatever is changed, the line that it is in is named. */
static void a_thousand_changed_bytes_are_named(void **state UNUSED)
{
    AUTO_BILL_CHECK struct bill_check *c = bill_check_new(NULL);
    uint64_t x = 88172645463325252u;
    struct change changes[1000];
    struct refusal why;
    struct lab_file f;
    size_t next = 0;

    exported(&f);
    for (size_t n = 0; n < ARRAY_LEN(changes); n++) {
        struct change *of = &changes[n];

        of->line = rnd(&x) % f.len;
        of->at = rnd(&x) % strlen(f.line[of->line]);
        do
            of->byte = (char)(rnd(&x) % 255 + 1);
        while (of->byte == f.line[of->line][of->at]);
    }
    qsort(changes, ARRAY_LEN(changes), sizeof(changes[0]), by_line);
    for (size_t i = 0; i < f.len; i++) {
        for (; next < ARRAY_LEN(changes) && changes[next].line == i; next++)
            assert_true(is_named(c, &f, &changes[next]));
        assert_int_equal(bill_check_line(c, f.line[i], strlen(f.line[i]), &why), ERR_OK);
    }
    assert_int_equal(next, ARRAY_LEN(changes));
    assert_int_equal(bill_check_finish(c, &why), ERR_OK);
    lab_file_fini(&f);
}

/* ---- explain ---- */

static int64_t micro(const json_t *money)
{
    struct currency ccy;
    struct money m;

    assert_int_equal(currency_get("CNY", &ccy), ERR_OK);
    assert_int_equal(money_parse(text_of(money, "amount"), ccy, &m), ERR_OK);
    return m.u;
}

static int64_t number(const json_t *o, const char *key)
{
    int64_t v = 0;

    assert_int_equal(str_parse_i64(text_of(o, key), INT64_MIN, INT64_MAX, &v), ERR_OK);
    return v;
}

static void take_json(void *user, const struct core_reply *r)
{
    json_t **ret_o = user;

    *ret_o = r->code == ERR_OK && r->answer ? json_loads(r->answer, 0, NULL) : NULL;
}

static json_t *of_april(const char *op, const char *path)
{
    json_t *o = NULL;
    struct core_request r = {.who = w->user, .reply = take_json, .reply_user = &o};
    struct core_now now = {.wall_ms = WORLD_T0 + w->now_ms, .boot_ms = w->now_ms};

    for (size_t i = 0; i < op_row_count; i++)
        if (str_eq(op_rows[i].name, op))
            r.row = &op_rows[i];
    r.query = json_pack("{s:s}", "month", "2026-04");
    r.body = json_object();
    r.path_arg[0] = path ? mem_dup(path, strlen(path) + 1) : NULL;
    core_read(w->core, w->store, &r, &now);
    core_request_fini(&r);
    assert_non_null(o);
    return o;
}

static void line_is_explained(const json_t *line, bool ret_kinds[LINE_KIND_COUNT])
{
    char n[24];
    int64_t sum = 0, i64;
    enum line_kind kind;
    json_t *o, *one;
    size_t i;

    assert_true(json_get_i64(line, "n", 0, &i64));
    assert_true(str_printf(n, sizeof(n), "%" PRId64, i64));
    o = of_april("bill_explain", n);
    assert_string_equal(text_of(o, "kind"), text_of(line, "kind"));
    assert_string_equal(text_of(o, "charge_month"), text_of(line, "charge_month"));
    assert_int_equal(micro(json_object_get(o, "amount")), micro(json_object_get(line, "amount")));
    assert_true(line_kind_find(text_of(o, "kind"), &kind));
    ret_kinds[kind] = true;
    char want[40];
    assert_true(str_printf(want, sizeof(want),
                           " = %" PRId64 " u = ", micro(json_object_get(line, "amount"))));
    if (!strstr(text_of(o, "formula"), want))
        print_message("# line %s: %s, not%s\n", n, text_of(o, "formula"), want);
    assert_non_null(strstr(text_of(o, "formula"), want));
    if (*text_of(o, "price")) {
        json_array_foreach(json_object_get(o, "spans"), i, one) sum += number(one, "quantity");
        assert_int_equal(kind == LINE_REVERSAL ? -sum : sum, number(o, "quantity"));
        assert_int_equal(number(line, "quantity"), number(o, "quantity"));
        assert_string_equal(text_of(o, "price_version"), text_of(line, "price_version"));
    } else {
        json_array_foreach(json_object_get(o, "parts"), i, one) sum +=
            micro(json_object_get(one, "amount"));
        assert_int_equal(sum, micro(json_object_get(line, "amount")));
        assert_true(json_array_size(json_object_get(o, "parts")) > 0);
    }
    json_decref(o);
}

static void each_line_is_explained(void **state UNUSED)
{
    AUTO_JSON json_t *bill = of_april("bill_get", NULL);
    bool kinds[LINE_KIND_COUNT] = {0};
    json_t *line;
    size_t i;

    json_array_foreach(json_object_get(bill, "lines"), i, line) line_is_explained(line, kinds);
    for (size_t k = 0; k < LINE_KIND_COUNT; k++)
        assert_true(kinds[k]);
    print_message("# %zu lines explained\n", json_array_size(json_object_get(bill, "lines")));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_kind_is_in_the_file_and_it_counts),
    cmocka_unit_test(a_program_of_its_own_counts_the_same),
    cmocka_unit_test(each_line_is_explained),
    cmocka_unit_test(a_thousand_changed_bytes_are_named),
};

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, live, over);
}
