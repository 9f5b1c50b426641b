/* The bill file of a closed month with every kind of line: usage, plan, spot, tiered traffic, disks
 * in each state, a purchase, vouchers, gifts, two taxes, the residue; counted again, and every
 * changed byte named. */
#include "bill_lab.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/funds.h"

static void by_operator(struct world *w, const char *op, const char *body)
{
    by_operator_at(w, op, body, NULL);
}

static void voucher(struct world *w)
{
    AUTO_JSON json_t *o = NULL;
    struct world_reply r;

    assert_int_equal(world_call(w, &r, &w->operator, "voucher_create",
                                "{\"amount\":\"0.123456\",\"scope\":\"compute\"}", NULL),
                     ERR_OK);
    o = json_loads(r.answer, 0, NULL);
    world_reply_fini(&r);
    const json_t *code = json_array_get(json_object_get(o, "codes"), 0);
    assert_true(json_is_string(code));
    char body[100];
    assert_true(str_printf(body, sizeof(body), "{\"code\":\"%s\"}", json_string_value(code)));
    call_ok(w, "voucher_redeem", body, NULL);
}

static void rules(struct world *w)
{
    by_operator(w, "seller_set", "{\"name\":\"Suan Ltd\",\"country\":\"CN\"}");
    by_operator(w, "tax_set", "{\"country\":\"CN\",\"rate\":\"6%\"}");
    by_operator(w, "tax_set",
                "{\"country\":\"CN\",\"rate\":\"13%\",\"sku\":\"disk\",\"class\":\"storage\","
                "\"exclusive\":true}");
    by_operator(w, "price_set",
                "{\"sku\":\"egress\",\"price\":\"0.8\",\"unit\":\"GiB\",\"tier\":[\"1:0.3\"]}");
    by_operator(w, "price_set", "{\"sku\":\"ingress\",\"price\":\"0\",\"unit\":\"GiB\"}");
    by_operator(w, "topup",
                "{\"project\":\"lab\",\"amount\":\"0.200001\",\"gift\":true,\"note\":\"hello\"}");
    voucher(w);
    world_price(w, "plan.day.gpu.RTX 4090", "9", "day");
    world_price(w, "spot.gpu.RTX 4090", "0.9", "hour");
}

/* March, closed in April. */
static struct world *lived(void)
{
    struct world *w = world_new();

    rules(w);
    w->round_ms = 20000;
    w->nodes[0].tx_bytes = 60 << 20;
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"no_end\":true}", NULL);
    call_ok(w, "instance_create", "{\"cpu\":2,\"memory\":\"1GiB\",\"name\":\"b\",\"no_end\":true}",
            NULL);
    world_pass(w, 400000);
    call_ok(w, "instance_stop", NULL, "b");
    call_ok(w, "plan_convert", "{\"plan\":\"day\",\"go_on\":true}", "a");
    world_pass(w, 400000);
    call_ok(w, "instance_stop", NULL, "a");
    world_pass(w, 60000);
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"s\",\"for\":\"2h\",\"spot\":true,\"bid\":\"1.2\"}", NULL);
    world_pass(w, 300000);
    world_price(w, "spot.gpu.RTX 4090", "2.5", "hour"); /* passes the bid */
    world_pass(w, 200000);
    call_ok(w, "instance_stop", NULL, "s");
    world_pass(w, 60000);
    world_price(w, "spot.gpu.RTX 4090", "0.9", "hour");
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"r\",\"for\":\"2h\",\"spot\":true}", NULL);
    world_pass(w, 300000);
    world_price(w, "exclusive.gpu.RTX 4090", "0.5", "hour");
    call_ok(w, "instance_stop", NULL, "b"); /* it sat on the node */
    by_operator_at(w, "instance_reclaim", "{\"project\":\"lab\",\"reason\":\"a gang waits\"}", "r");
    world_pass(w, 300000);
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"x\",\"for\":\"10m\",\"exclusive\":true}", NULL);
    world_pass(w, 900000);
    w->nodes[0].tx_bytes = 0;
    w->round_ms = 6 * 3600000;
    world_pass(w, INT64_C(36) * 86400000);
    return w;
}

static size_t lines_with(const struct lab_file *f, const char *kind, const char *text)
{
    size_t n = 0;

    for (size_t i = 0; i < f->len; i++)
        n += lab_is(f->line[i], kind) && strstr(f->line[i], text);
    return n;
}

static void exported(struct world *w, const char *month, struct lab_file *ret_f)
{
    struct refusal why;
    char text[400];

    *ret_f = (struct lab_file){0};
    assert_int_equal(lab_read(w, "bill_export", month, ret_f, NULL), ERR_OK);
    int64_t line = lab_check(ret_f, NULL, &why);
    if (line) {
        refusal_text(&why, LANG_EN, text, sizeof(text));
        print_message("# %s\n# %s\n", text, ret_f->line[line - 1]);
        for (size_t i = 0; i < ret_f->len; i++)
            if (lab_is(ret_f->line[i], "line") || lab_is(ret_f->line[i], "statement") ||
                lab_is(ret_f->line[i], "tax"))
                print_message("# %s\n", ret_f->line[i]);
    }
    assert_int_equal(line, 0);
}

static uint64_t rnd(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x;
}

static void bytes_are_named(struct lab_file *f, int times)
{
    uint64_t x = 88172645463325252u;

    for (int n = 0; n < times; n++) {
        size_t i = rnd(&x) % f->len, at = rnd(&x) % strlen(f->line[i]);
        char old = f->line[i][at], new = (char)(rnd(&x) % 255 + 1);

        if (new == old || new == '\n')
            continue;
        f->line[i][at] = new;
        assert_int_equal(lab_check(f, NULL, NULL), i + 1);
        f->line[i][at] = old;
    }
    assert_int_equal(lab_check(f, NULL, NULL), 0);
}

/* Digits of what the statement says, sealed anew: all that money hangs on. */
static void forged_digits_are_seen(struct lab_file *f)
{
    static const char *const keys[] = {
        "\"minor_u\":\"",   "\"lines\":",         "\"total_u\":\"",    "\"residue_u\":\"",
        "\"net_minor\":\"", "\"lines_minor\":\"", "\"tax_minor\":\"",  "\"payable_minor\":\"",
        "\"n\":",           "\"qty_to\":\"",      "\"amount_u\":\"",   "\"printed_minor\":\"",
        "\"rate_n\":\"",    "\"base_minor\":\"",  "\"gross_minor\":\""};
    int tried = 0;

    lab_seal(f);
    assert_int_equal(lab_check(f, NULL, NULL), 0);
    for (size_t i = 0; i < f->len; i++) {
        if (!lab_is(f->line[i], "statement") && !lab_is(f->line[i], "line") &&
            !lab_is(f->line[i], "tax"))
            continue;
        for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
            char *at = strstr(f->line[i], keys[k]);

            if (!at)
                continue;
            at += strlen(keys[k]) + (at[strlen(keys[k])] == '-');
            char old = *at;
            *at = (char)(old == '9' ? '1' : old + 1);
            lab_seal(f);
            if (!lab_check(f, NULL, NULL))
                print_message("# not seen: %s in %s\n", keys[k], f->line[i]);
            assert_int_not_equal(lab_check(f, NULL, NULL), 0);
            *at = old;
            tried++;
        }
    }
    print_message("# %d digits forged\n", tried);
    assert_true(tried > 20);
    lab_seal(f);
    assert_int_equal(lab_check(f, NULL, NULL), 0);
}

static void left_out_lines_are_seen(struct lab_file *f)
{
    for (size_t i = 0; i < f->len; i++) {
        char *line = f->line[i];

        if (!lab_is(line, "line") && !lab_is(line, "tax") && !lab_is(line, "statement"))
            continue;
        memmove(&f->line[i], &f->line[i + 1], (--f->len - i) * sizeof(f->line[0]));
        lab_seal(f);
        assert_int_not_equal(lab_check(f, NULL, NULL), 0);
        memmove(&f->line[i + 1], &f->line[i], (f->len++ - i) * sizeof(f->line[0]));
        f->line[i] = line;
    }
    lab_seal(f);
}

/* By a program that shares no code with the product. */
static void recounted(const struct lab_file *f)
{
    char path[] = "/tmp/test_proof_close.XXXXXX";
    char program[] = "python3", script[] = RECOUNT, *argv[] = {program, script, path, NULL};
    int status = -1;
    pid_t pid;
    int fd = mkstemp(path);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

    CHECK(out);
    for (size_t i = 0; i < f->len; i++)
        assert_true(fprintf(out, "%s\n", f->line[i]) > 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(posix_spawnp(&pid, program, NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)unlink(path);
    assert_int_equal(status, 0);
}

static void a_closed_month_is_counted_again(void **state UNUSED)
{
    struct world *w = lived();
    struct lab_file f;

    exported(w, "2026-03", &f);
    assert_int_equal(lines_with(&f, "statement", "\"number\":\"B-CNY-2026-"), 1);
    print_message("# usage %zu, plan %zu, bid %zu, egress %zu, charge %zu, voucher %zu, gift %zu, "
                  "tax %zu\n",
                  lines_with(&f, "line", "\"usage\""), lines_with(&f, "price", "\"plan.pln_"),
                  lines_with(&f, "price", "\"bid.ins_"), lines_with(&f, "line", "\"egress\""),
                  lines_with(&f, "line", "\"charge\""), lines_with(&f, "line", "\"voucher."),
                  lines_with(&f, "line", "\"gift."), lines_with(&f, "tax", ""));
    assert_true(lines_with(&f, "line", "\"meter\":\"gpu\"") > 0);
    assert_true(lines_with(&f, "line", "\"sku\":\"spot.") > 0);
    assert_true(lines_with(&f, "line", "\"kind\":\"reversal\"") > 0);
    assert_true(lines_with(&f, "line", "\"meter\":\"node\"") > 0);
    assert_true(lines_with(&f, "transfer", "\"kind\":\"reversal\"") > 0);
    assert_true(lines_with(&f, "line", "\"meter\":\"egress\"") > 0);
    assert_true(lines_with(&f, "line", "\"meter\":\"ingress\"") > 0);
    assert_true(lines_with(&f, "line", "\"sku\":\"disk\"") > 0);
    assert_true(lines_with(&f, "line", "\"sku\":\"disk.stopped\"") > 0);
    assert_true(lines_with(&f, "line", "\"kind\":\"charge\"") > 0);
    assert_true(lines_with(&f, "line", "\"source\":\"voucher.") > 0);
    assert_true(lines_with(&f, "line", "\"source\":\"gift.") > 0);
    assert_int_equal(lines_with(&f, "tax", "\"inclusive\":true"), 1);
    assert_int_equal(lines_with(&f, "tax", "\"inclusive\":false"), 1);
    assert_true(lines_with(&f, "transfer", "\"kind\":\"residue\"") == 1);
    assert_true(lines_with(&f, "transfer", "\"kind\":\"tax\"") >= 2);
    recounted(&f);
    bytes_are_named(&f, 1000);
    forged_digits_are_seen(&f);
    left_out_lines_are_seen(&f);
    lab_file_fini(&f);
    world_done(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_closed_month_is_counted_again),
};
RUN_TESTS(tests)
