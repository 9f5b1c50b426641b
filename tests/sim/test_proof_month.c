/* A month with every kind of line and of money: its bill file counts, every changed byte of it is
 * named, each line is explained. */
#include "whole_month.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/heads.h"

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
    CHECK(out);
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

/* ---- published heads ---- */

/* All pages of `ledger heads`, as lines of the file. */
static void heads_told(struct strbuf *text)
{
    char cursor[400] = "";

    do {
        json_t *o = NULL, *one;
        struct core_request r = {.who = w->user, .reply = take_json, .reply_user = &o};
        struct core_now now = {.wall_ms = WORLD_T0 + w->now_ms, .boot_ms = w->now_ms};
        size_t i;

        for (i = 0; i < op_row_count; i++)
            if (str_eq(op_rows[i].name, "ledger_heads"))
                r.row = &op_rows[i];
        r.query = *cursor ? json_pack("{s:s}", "cursor", cursor) : json_object();
        r.body = json_object();
        core_read(w->core, w->store, &r, &now);
        core_request_fini(&r);
        assert_non_null(o);
        json_array_foreach(json_object_get(o, "items"), i, one)
        {
            int64_t rows;

            assert_true(json_get_i64(one, "rows", 0, &rows));
            strbuf_addf(text, "%s %" PRId64 " %s\n", text_of(one, "day"), rows,
                        text_of(one, "hash"));
        }
        assert_true(str_copy(cursor, sizeof(cursor), text_of(o, "next_cursor")));
        json_decref(o);
    } while (*cursor);
}

/* Appended to as days end; what is there already is not written again. */
static void the_published_file_is_what_ledger_heads_says(void **state UNUSED)
{
    char dir[] = "/tmp/test_proof_heads.XXXXXX", store[80], path[80], bytes[65536];
    int64_t today = (WORLD_T0 + w->now_ms) / DAY_MS;
    AUTO_STRBUF struct strbuf text = {0};
    struct refusal why = {0};
    FILE *f;

    strbuf_init(&text, sizeof(bytes));
    heads_told(&text);
    assert_non_null(mkdtemp(dir));
    assert_true(str_printf(store, sizeof(store), "%s/store.db", dir) &&
                str_printf(path, sizeof(path), "%s/ledger-heads", dir));
    assert_int_equal(heads_append(w->store, store, today - 20, &why), ERR_OK);
    assert_int_equal(heads_append(w->store, store, today - 20, &why), ERR_OK);
    assert_int_equal(heads_append(w->store, store, today, &why), ERR_OK);
    f = fopen(path, "r");
    assert_non_null(f);
    bytes[fread(bytes, 1, sizeof(bytes) - 1, f)] = '\0';
    assert_int_equal(fclose(f), 0);
    (void)unlink(path);
    (void)rmdir(dir);
    assert_true(text.len > 1000);
    assert_string_equal(bytes, strbuf_str(&text));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_kind_is_in_the_file_and_it_counts),
    cmocka_unit_test(a_program_of_its_own_counts_the_same),
    cmocka_unit_test(each_line_is_explained),
    cmocka_unit_test(the_published_file_is_what_ledger_heads_says),
    cmocka_unit_test(a_thousand_changed_bytes_are_named),
};

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, live, over);
}
