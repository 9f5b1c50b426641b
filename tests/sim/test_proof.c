/* A bill file: exported from books that a whole life made, counted again, and every way to change
 * it that was thought of. */
#include "bill_lab.h"

#include "app/funds.h"

static uint64_t rnd(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x;
}

static void others(struct world *w, int n)
{
    struct world_reply r;
    char body[160];

    for (int i = 0; i < n; i++) {
        assert_true(str_printf(body, sizeof(body),
                               "{\"project\":\"other\",\"amount\":\"%d.000000\"}", i + 1));
        assert_int_equal(world_call(w, &r, &w->operator, "topup", body, "other"), ERR_OK);
        world_reply_fini(&r);
    }
}

/* Hours across two midnights (UTC), with prices that move, a silence, stops, disks, others' money.
 */
static struct world *lived(void)
{
    struct world *w = world_new();

    call_ok(w, "project_create", "{\"name\":\"other\"}", "other");
    w->round_ms = 600000;
    world_pass(w, INT64_C(86400000) - 1800000);
    w->round_ms = 20000;
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"no_end\":true}", NULL);
    call_ok(w, "instance_create", "{\"cpu\":2,\"memory\":\"1GiB\",\"name\":\"b\",\"no_end\":true}",
            NULL);
    others(w, 3);
    world_pass(w, 1500000);
    world_price(w, "gpu.RTX 4090", "3.1", "hour"); /* a cut: at once */
    world_pass(w, 900000);
    w->nodes[0].cut = true; /* silent: free */
    world_pass(w, 120000);
    w->nodes[0].cut = false;
    world_pass(w, 300000);
    call_ok(w, "instance_stop", NULL, "a");
    world_pass(w, 600000);
    call_ok(w, "instance_start", "{\"no_end\":true}", "a");
    others(w, 2);
    world_pass(w, 300000);
    call_ok(w, "instance_stop", NULL, "a");
    call_ok(w, "instance_stop", NULL, "b");
    world_pass(w, 60000);
    others(w, 1);
    w->round_ms = 600000;
    world_pass(w, INT64_C(86400000));
    return w;
}

static void exported(struct world *w, struct lab_file *ret_f)
{
    struct refusal why;
    int64_t line;

    *ret_f = (struct lab_file){0};
    assert_int_equal(lab_read(w, "bill_export", "2026-03", ret_f, NULL), ERR_OK);
    line = lab_check(ret_f, NULL, &why);
    if (line) {
        char text[400];

        refusal_text(&why, LANG_EN, text, sizeof(text));
        print_message("# %s\n# %s\n", text, ret_f->line[line - 1]);
    }
    assert_int_equal(line, 0);
}

static size_t count_of(const struct lab_file *f, const char *kind)
{
    size_t n = 0;

    for (size_t i = 0; i < f->len; i++)
        n += lab_is(f->line[i], kind);
    return n;
}

static void a_life_is_counted_again(void **state UNUSED)
{
    static const char *const kinds[] = {
        "head", "price",   "lease",   "gap",      "key",  "boot", "slice", "window",
        "span", "journal", "account", "transfer", "rows", "day",  "total", "end"};
    struct world *w = lived();
    struct lab_file f;

    exported(w, &f);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!count_of(&f, kinds[i]))
            print_message("# no line of kind %s\n", kinds[i]);
        assert_true(count_of(&f, kinds[i]) > 0);
    }
    print_message("# %zu lines, %zu slices, %zu transfers, %zu days\n", f.len,
                  count_of(&f, "slice"), count_of(&f, "transfer"), count_of(&f, "day"));
    /* a head that was published is in it; another one is not */
    for (size_t i = 0; i < f.len; i++) {
        char head[2 * LEDGER_HASH_SIZE + 1], *at;

        if (!lab_is(f.line[i], "day") || !strstr(f.line[i], "\"final\":true"))
            continue;
        at = strstr(f.line[i], "\"hash\":\"") + 8;
        assert_true(str_printf(head, sizeof(head), "%.64s", at));
        assert_int_equal(lab_check(&f, head, NULL), 0);
        head[5] = head[5] == '0' ? '1' : '0';
        assert_int_not_equal(lab_check(&f, head, NULL), 0);
    }
    lab_file_fini(&f);
    world_done(w);
}

static void one_changed_byte_is_named(void **state UNUSED)
{
    struct world *w = lived();
    uint64_t x = 88172645463325252u;
    struct lab_file f;

    exported(w, &f);
    for (int n = 0; n < 1000; n++) {
        size_t i = rnd(&x) % f.len, at = rnd(&x) % strlen(f.line[i]);
        char old = f.line[i][at], new = (char)(rnd(&x) % 255 + 1);

        if (new == old || new == '\n')
            continue;
        f.line[i][at] = new;
        int64_t line = lab_check(&f, NULL, NULL);
        if (line != (int64_t)i + 1)
            print_message("# byte %zu of line %zu, '%c' for '%c': line %ld is named: %.120s\n", at,
                          i + 1, new, old, line, f.line[i]);
        assert_int_equal(line, i + 1);
        f.line[i][at] = old;
    }
    assert_int_equal(lab_check(&f, NULL, NULL), 0);
    lab_file_fini(&f);
    world_done(w);
}

/* Every digit of every number that money or time hangs on, sealed anew by somebody with a key. */
static bool means_nothing(const char *line, const char *at)
{
    /* names, marks for the reader, and what only says when something was said */
    static const char *const keys[] = {
        "\"name\":", "\"simulated\":", "\"since_ms\":", "\"project\":", "\"group\":", NULL};
    char key[80] = "";

    for (const char *p = at; p > line; p--)
        if (*p == ':' && p > line + 2 && p[-1] == '"') {
            const char *q = p - 2;

            while (q > line && *q != '"')
                q--;
            (void)str_printf(key, sizeof(key), "%.*s", (int)(p - q + 1), q);
            break;
        }
    for (size_t i = 0; keys[i]; i++)
        if (str_eq(key, keys[i]))
            return true;
    return false;
}

static void a_forged_number_is_named_although_it_was_sealed_anew(void **state UNUSED)
{
    static const char *const kinds[] = {"window", "span", "transfer", "rows",
                                        "total",  "day",  "account"};
    struct world *w = lived();
    uint64_t x = 314159265358979u;
    struct lab_file f;
    int tried = 0;

    exported(w, &f);
    lab_seal(&f);
    assert_int_equal(lab_check(&f, NULL, NULL), 0);
    for (int n = 0; n < 400; n++) {
        size_t i = rnd(&x) % f.len, len = strlen(f.line[i]) - LAB_TAIL;
        char *at = f.line[i] + rnd(&x) % len, old = *at;
        bool known = lab_is(f.line[i], "slice") && at < strstr(f.line[i], "],");

        for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
            known |= lab_is(f.line[i], kinds[k]);
        if (!known || old < '0' || old > '9' || means_nothing(f.line[i], at))
            continue;
        if (lab_is(f.line[i], "slice") && strchr(at, ',') > strstr(f.line[i], "],"))
            continue; /* when it was received */
        *at = (char)(old == '9' ? '1' : old + 1);
        lab_seal(&f);
        if (!lab_check(&f, NULL, NULL))
            print_message("# not seen: '%c' for '%c' at %zu of %s\n", *at, old,
                          (size_t)(at - f.line[i]), f.line[i]);
        assert_int_not_equal(lab_check(&f, NULL, NULL), 0);
        *at = old;
        tried++;
    }
    assert_true(tried > 100);
    lab_seal(&f);
    assert_int_equal(lab_check(&f, NULL, NULL), 0);
    lab_file_fini(&f);
    world_done(w);
}

static void a_line_left_out_or_doubled_is_seen_although_it_was_sealed_anew(void **state UNUSED)
{
    static const char *const kinds[] = {"price",    "lease", "window", "span",
                                        "transfer", "rows",  "account"};
    struct world *w = lived();
    struct lab_file f;

    exported(w, &f);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
        for (size_t i = 0; i < f.len; i++) {
            char *line = f.line[i];

            if (!lab_is(line, kinds[k]))
                continue;
            memmove(&f.line[i], &f.line[i + 1], (--f.len - i) * sizeof(f.line[0]));
            lab_seal(&f);
            if (!lab_check(&f, NULL, NULL))
                print_message("# left out and not seen: %s\n", line);
            assert_int_not_equal(lab_check(&f, NULL, NULL), 0);
            memmove(&f.line[i + 1], &f.line[i], (f.len++ - i) * sizeof(f.line[0]));
            f.line[i] = line;
            break;
        }
    lab_file_fini(&f);
    world_done(w);
}

static void a_month_that_is_over_and_charged_is_closed(void **state UNUSED)
{
    struct world *w = lived();
    struct lab_file f;

    w->round_ms = 3600000;
    world_pass(w, 32 * INT64_C(86400000));
    exported(w, &f);
    assert_non_null(strstr(f.line[0], "\"open\":false"));
    lab_file_fini(&f);
    world_done(w);
}

static void pages_are_one_file(void **state UNUSED)
{
    struct world *w = world_new();
    struct lab_file f = {0};
    struct refusal why;
    int pages = 0;

    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"no_end\":true}", NULL);
    w->round_ms = 20000;
    world_pass(w, 13 * INT64_C(3600000));
    assert_int_equal(lab_read(w, "bill_export", "2026-03", &f, &pages), ERR_OK);
    assert_true(pages > 1);
    print_message("# %zu lines on %d pages\n", f.len, pages);
    assert_int_equal(lab_check(&f, NULL, &why), 0);
    lab_file_fini(&f);
    world_done(w);
}

static int64_t micro_of(const json_t *o, const char *key)
{
    const char *text = text_of(o, key);
    struct currency ccy;
    struct money m;

    assert_int_equal(currency_get("CNY", &ccy), ERR_OK);
    assert_int_equal(money_parse(text, ccy, &m), ERR_OK);
    return m.u;
}

/* What the table of columns demands of every row. */
static void focus_row_is_right(const json_t *o)
{
    static const char *const must[] = {"BilledCost",      "BillingAccountId", "BillingAccountName",
                                       "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
                                       "ChargeCategory",  "ChargePeriodEnd",  "ChargePeriodStart",
                                       "ContractedCost",  "EffectiveCost",    "InvoiceIssuerName",
                                       "ListCost",        "ProviderName",     "PublisherName",
                                       "ServiceCategory", "ServiceName",      "ChargeFrequency"};
    static const char *const all[] = {
#define FOCUS(name) #name,
#include "app/focus.def"
#undef FOCUS
    };
    const char *category = text_of(o, "ChargeCategory");
    size_t n = 0;
    void *at = json_object_iter((json_t *)(uintptr_t)o);

    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)o, at), n++) {
        const json_t *v = json_object_iter_value(at);

        assert_true(n < ARRAY_LEN(all));
        assert_string_equal(json_object_iter_key(at), all[n]);
        assert_true(json_is_null(v) || (json_is_string(v) && json_string_length(v) > 0));
    }
    assert_int_equal(n, ARRAY_LEN(all));
    for (size_t i = 0; i < ARRAY_LEN(must); i++)
        assert_true(*text_of(o, must[i]));
    assert_true(str_eq(category, "Usage") || str_eq(category, "Purchase") ||
                str_eq(category, "Tax") || str_eq(category, "Credit") ||
                str_eq(category, "Adjustment"));
    if (str_eq(category, "Usage") && !*text_of(o, "ChargeClass")) {
        assert_true(*text_of(o, "ConsumedQuantity") && *text_of(o, "ConsumedUnit") &&
                    *text_of(o, "PricingQuantity") && *text_of(o, "PricingUnit") &&
                    *text_of(o, "SkuId") && *text_of(o, "SkuPriceId") && *text_of(o, "ResourceId"));
        assert_string_equal(text_of(o, "ChargeFrequency"), "Usage-Based");
    } else {
        assert_string_not_equal(text_of(o, "ChargeFrequency"), "Usage-Based");
        assert_false(*text_of(o, "ConsumedQuantity"));
    }
    for (size_t i = 0; i < 4; i++) {
        static const char *const times[] = {"BillingPeriodStart", "BillingPeriodEnd",
                                            "ChargePeriodStart", "ChargePeriodEnd"};
        const char *t = text_of(o, times[i]);

        assert_true(strlen(t) == 20 && t[19] == 'Z' && t[10] == 'T');
    }
    assert_true(strcmp(text_of(o, "ChargePeriodStart"), text_of(o, "ChargePeriodEnd")) < 0);
}

static void focus_rows_add_up(void **state UNUSED)
{
    struct world *w = lived();
    struct lab_file f = {0};
    int64_t sum = 0, total;
    json_t *bill;

    w->round_ms = 3600000;
    world_pass(w, 32 * INT64_C(86400000));
    assert_int_equal(lab_read(w, "usage_focus", "2026-03", &f, NULL), ERR_OK);
    assert_true(f.len > 10);
    for (size_t i = 0; i < f.len; i++) {
        AUTO_JSON json_t *o = json_loads(f.line[i], 0, NULL);

        assert_non_null(o);
        focus_row_is_right(o);
        sum += micro_of(o, "BilledCost");
    }
    lab_file_fini(&f);
    exported(w, &f);
    bill = json_loads(f.line[f.len - 2], 0, NULL);
    assert_int_equal(str_parse_i64(text_of(bill, "rated_u"), 0, INT64_MAX, &total), ERR_OK);
    json_decref(bill);
    /* an invoice's rows end in whole coins: the residue is a row of its own */
    assert_true(sum == total || (sum % 10000 == 0 && total - sum < 10000 && total > sum));
    lab_file_fini(&f);
    world_done(w);
}

static void published_heads_are_in_the_file(void **state UNUSED)
{
    struct world *w = lived();
    json_t *heads = get(w, "ledger_heads", NULL), *o;
    struct lab_file f;
    size_t i, seen = 0;

    exported(w, &f);
    json_array_foreach(json_object_get(heads, "items"), i, o) seen +=
        lab_check(&f, text_of(o, "hash"), NULL) == 0;
    assert_true(json_array_size(json_object_get(heads, "items")) >= 2);
    assert_int_equal(seen, json_array_size(json_object_get(heads, "items")));
    assert_non_null(strstr(f.line[0], text_of(heads, "key")));
    json_decref(heads);
    lab_file_fini(&f);
    world_done(w);
}

static void a_line_is_explained(void **state UNUSED)
{
    struct world *w = lived();
    struct world_reply r;
    json_t *o = get(w, "bill_explain", "1"), *span;
    int64_t sum = 0, v, want;
    size_t i;

    json_array_foreach(json_object_get(o, "spans"), i, span)
    {
        assert_int_equal(str_parse_i64(text_of(span, "quantity"), 0, INT64_MAX, &v), ERR_OK);
        sum += v;
    }
    assert_int_equal(str_parse_i64(text_of(o, "quantity"), 0, INT64_MAX, &want), ERR_OK);
    assert_int_equal(sum, want);
    assert_true(strstr(text_of(o, "formula"), "floor") && *text_of(o, "price_version"));
    json_decref(o);
    assert_int_equal(world_call(w, &r, &w->user, "bill_explain", NULL, "999"), ERR_NOT_FOUND);
    world_reply_fini(&r);
    world_done(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_life_is_counted_again),
    cmocka_unit_test(focus_rows_add_up),
    cmocka_unit_test(published_heads_are_in_the_file),
    cmocka_unit_test(a_line_is_explained),
    cmocka_unit_test(one_changed_byte_is_named),
    cmocka_unit_test(a_forged_number_is_named_although_it_was_sealed_anew),
    cmocka_unit_test(a_line_left_out_or_doubled_is_seen_although_it_was_sealed_anew),
    cmocka_unit_test(a_month_that_is_over_and_charged_is_closed),
    cmocka_unit_test(pages_are_one_file),
};
RUN_TESTS(tests)
