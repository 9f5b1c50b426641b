#include "../support/tap.h"

#include "app/openapi.h"
#include "app/problem.h"
#include "app/router.h"

static enum err match(const char *method, const char *path, struct route *r, char *allow)
{
    struct refusal why = {0};

    return router_match(method, path, r, allow, &why);
}

static const struct op_row *row_of(const char *name)
{
    for (size_t i = 0; i < op_row_count; i++)
        if (str_eq(op_rows[i].name, name))
            return &op_rows[i];
    fail_msg("no operation %s", name);
    return NULL;
}

static void test_every_row_is_found_by_its_own_path(void **state)
{
    (void)state;
    for (size_t i = 0; i < op_row_count; i++) {
        struct route r;
        char path[128] = "", allow[ALLOW_SIZE];
        for (const char *p = op_rows[i].path; *p; p++) {
            size_t n = strlen(path);
            if (*p == '{') {
                assert_true(str_printf(path + n, sizeof(path) - n, "%%41b1"));
                p = strchr(p, '}');
            } else {
                path[n] = *p;
                path[n + 1] = '\0';
            }
        }
        assert_int_equal(match(op_method_name(op_rows[i].method), path, &r, allow), ERR_OK);
        assert_ptr_equal(r.row, &op_rows[i]);
        if (strchr(op_rows[i].path, '{'))
            assert_string_equal(r.path_arg[0], "Ab1");
        route_fini(&r);
    }
}

static void test_tricks_in_a_path_find_nothing(void **state)
{
    static const char *const paths[] = {"",
                                        "/",
                                        "//v1/me",
                                        "/v1//me",
                                        "/v1/me/",
                                        "/V1/me",
                                        "/v1/%6de",
                                        "/v1/./me",
                                        "/v1/x/../me",
                                        "/v1/me;a=b",
                                        "/v1/me%00",
                                        "/v1/instances/%",
                                        "/v1/instances/%4",
                                        "/v1/instances/%zz",
                                        "/v1/instances/%00",
                                        "/v1/instances/%0a",
                                        "/v1/instances/%ff",
                                        "/v1/instances/a/b/c/d/e/f/g/h/i/j",
                                        "http://other/v1/me",
                                        "*",
                                        "/v1/instances/%c0%af"};
    struct route r;
    char allow[ALLOW_SIZE];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        assert_int_equal(match("GET", paths[i], &r, allow), ERR_NOT_FOUND);
}

static void test_a_wrong_method_is_told_the_right_ones(void **state)
{
    struct route r;
    char allow[ALLOW_SIZE];

    (void)state;
    assert_int_equal(match("PATCH", "/v1/tokens", &r, allow), ERR_METHOD);
    assert_string_equal(allow, "GET, POST");
    assert_int_equal(match("get", "/v1/me", &r, allow), ERR_METHOD);
}

static enum err body(const char *op, const char *text, char *field, size_t size)
{
    struct refusal why = {0};
    json_t *b = NULL;
    enum err e = router_body(row_of(op), text, strlen(text), 65536, &b, &why);

    field[0] = '\0';
    if (e == ERR_VALIDATION)
        assert_true(str_copy(field, size, why.params[0].value));
    json_decref(b);
    return e;
}

static void test_a_body_is_held_against_its_rows(void **state)
{
    static const struct {
        const char *op, *text;
        enum err e;
        const char *field;
    } rows[] = {
        {"login", "{\"code\":\"x\"}", ERR_OK, ""},
        {"login", "", ERR_VALIDATION, "code"},
        {"login", "{}", ERR_VALIDATION, "code"},
        {"login", "{\"code\":null}", ERR_VALIDATION, "code"},
        {"login", "{\"code\":1}", ERR_VALIDATION, "code"},
        {"login", "{\"code\":\"x\",\"hacker\":1}", ERR_VALIDATION, "hacker"},
        {"login", "{\"code\":\"x\",\"dry_run\":true}", ERR_VALIDATION, "dry_run"},
        {"login", "[]", ERR_BAD_JSON, ""},
        {"login", "null", ERR_BAD_JSON, ""},
        {"login", "{\"code\":\"x\"", ERR_BAD_JSON, ""},
        {"login", "{\"code\":\"x\",\"code\":\"y\"}", ERR_BAD_JSON, ""},
        {"login", "{\"code\":\"\\u0000\"}", ERR_BAD_JSON, ""},
        {"login", "{\"code\":\"\\u0001\"}", ERR_VALIDATION, "code"},
        {"login", "{\"code\":\"\xff\"}", ERR_BAD_JSON, ""},
        {"instance_create", "{\"for\":\"4h\",\"gpu\":\"4090\",\"dry_run\":true}", ERR_OK, ""},
        {"instance_create", "{\"for\":4}", ERR_VALIDATION, "for"},
        {"instance_create", "{\"for\":\"4\"}", ERR_VALIDATION, "for"},
        {"instance_create", "{\"count\":1.5}", ERR_VALIDATION, "count"},
        {"instance_create", "{\"count\":1e400}", ERR_BAD_JSON, ""},
        {"instance_create", "{\"count\":9223372036854775808}", ERR_BAD_JSON, ""},
        {"instance_create", "{\"count\":9223372036854775807}", ERR_OK, ""},
        {"instance_create", "{\"memory\":\"8\"}", ERR_VALIDATION, "memory"},
        {"instance_create", "{\"price\":1.98}", ERR_VALIDATION, "price"},
        {"instance_create", "{\"price\":\"1.98\"}", ERR_OK, ""},
        {"instance_create", "{\"disk\":\"a\"}", ERR_VALIDATION, "disk"},
        {"instance_create", "{\"disk\":[1]}", ERR_VALIDATION, "disk"},
        {"instance_create", "{\"disk\":[\"a:1GiB\"]}", ERR_OK, ""},
        {"project_create", "{\"name\":\"p\"}", ERR_OK, ""}, /* a word of the CLI, not of the path */
        {"instance_stop", "{\"instance\":\"x\"}", ERR_VALIDATION, "instance"},
    };
    char field[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum err e = body(rows[i].op, rows[i].text, field, sizeof(field));
        if (e != rows[i].e || !str_eq(field, rows[i].field))
            fail_msg("%s %s: %s %s", rows[i].op, rows[i].text, err_code(e), field);
    }
}

static void test_a_query_is_held_against_its_rows(void **state)
{
    static const struct {
        const char *op, *text;
        enum err e;
    } rows[] = {
        {"key_list", "", ERR_OK},
        {"key_list", "limit=200&cursor=abc", ERR_OK},
        {"key_list", "limit=0", ERR_VALIDATION},
        {"key_list", "limit=201", ERR_VALIDATION},
        {"key_list", "limit=-1", ERR_VALIDATION},
        {"key_list", "limit=1&limit=2", ERR_VALIDATION},
        {"key_list", "sort=name", ERR_VALIDATION},
        {"key_list", "limit=%zz", ERR_VALIDATION},
        {"key_list", "%00=1", ERR_VALIDATION},
        {"me", "limit=1", ERR_VALIDATION},
        {"offer_list", "filter=gpu%3D4090%20price%3C3", ERR_OK},
        {"offer_list", "filter=gpu%3D4090+price%3C3", ERR_OK},
        {"instance_list", "all=true", ERR_OK},
        {"instance_list", "all=yes", ERR_VALIDATION},
        {"event_list", "follow=true&last_event_id=12", ERR_OK},
        {"instance_stop", "dry_run=true", ERR_OK},
        {"instance_stop", "dry_run=1", ERR_VALIDATION},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct refusal why = {0};
        json_t *q = NULL;
        enum err e = router_query(row_of(rows[i].op), rows[i].text, &q, &why);
        if (e != rows[i].e)
            fail_msg("%s %s: %s", rows[i].op, rows[i].text, err_code(e));
        json_decref(q);
    }
}

static void test_creating_calls_need_a_key(void **state)
{
    struct refusal why;
    const struct op_row *create = row_of("instance_create"), *me = row_of("me");

    (void)state;
    assert_int_equal(router_idem_key(create, "", false, &why), ERR_IDEMPOTENCY_MISSING);
    assert_int_equal(router_idem_key(create, "k-1", false, &why), ERR_OK);
    assert_int_equal(router_idem_key(create, "a b", false, &why), ERR_VALIDATION);
    assert_int_equal(router_idem_key(create, "", true, &why), ERR_OK);
    assert_int_equal(router_idem_key(me, "", false, &why), ERR_OK);
}

static void test_a_port_in_a_path_must_be_a_number(void **state)
{
    struct route r;
    struct refusal why = {0};
    char allow[ALLOW_SIZE];

    (void)state;
    assert_int_equal(match("PUT", "/v1/instances/a/ports/x", &r, allow), ERR_OK);
    assert_int_equal(router_path_args(&r, &why), ERR_VALIDATION);
    assert_string_equal(why.params[0].value, "port");
    route_fini(&r);
}

static void test_the_openapi_document_is_json_and_refers_to_what_is_there(void **state)
{
    AUTO_STRBUF struct strbuf out;

    (void)state;
    strbuf_init(&out, 1 << 20);
    openapi_write(&out);
    AUTO_JSON json_t *o = NULL;
    assert_int_equal(json_parse(out.data, out.len, 1 << 20, &o, NULL), ERR_OK);
    json_t *schemas = json_object_get(json_object_get(o, "components"), "schemas");
    for (const char *p = strstr(out.data, "#/components/schemas/"); p;
         p = strstr(p + 1, "#/components/schemas/")) {
        char name[64];
        const char *at = p + strlen("#/components/schemas/");
        assert_true(str_printf(name, sizeof(name), "%.*s", (int)strcspn(at, "\""), at));
        if (!json_object_get(schemas, name))
            fail_msg("no schema %s", name);
    }
    for (size_t i = 0; i < op_row_count; i++)
        assert_non_null(json_object_get(json_object_get(o, "paths"), op_rows[i].path));
}

static void test_every_error_has_a_document_in_both_languages(void **state)
{
    (void)state;
    for (int e = 1; e < ERR_COUNT; e++)
        for (int lang = 0; lang < 2; lang++) {
            struct refusal why = {0};
            AUTO_STRBUF struct strbuf out;
            const char *code, *detail, *id;
            int64_t status = 0;
            (void)refuse(&why, (enum err)e);
            strbuf_init(&out, 8192);
            problem_write(&why, (enum lang)lang, "req_1", &out);
            AUTO_JSON json_t *o = NULL;
            assert_int_equal(json_parse(out.data, out.len, 8192, &o, NULL), ERR_OK);
            assert_true(json_get_str(o, "code", NULL, &code) &&
                        json_get_str(o, "detail", NULL, &detail));
            assert_true(json_get_str(o, "request_id", NULL, &id) &&
                        json_get_i64(o, "status", 0, &status));
            assert_string_equal(code, err_code((enum err)e));
            assert_string_equal(id, "req_1");
            assert_int_equal(status, err_http((enum err)e));
            assert_true(status >= 400 && status < 600);
        }
}

static void test_words_inside_a_problem_are_translated_and_params_are_not(void **state)
{
    struct refusal why = {0};
    AUTO_STRBUF struct strbuf out;

    (void)state;
    (void)refusef(&why, ERR_VALIDATION, "field", "code");
    refusal_set(&why, "why", "it is required");
    strbuf_init(&out, 8192);
    problem_write(&why, LANG_ZH, "req_1", &out);
    assert_non_null(strstr(out.data, "code：必填"));
    assert_non_null(strstr(out.data, "\"why\":\"it is required\""));
}

static void test_a_name_spelled_like_one_of_our_words_is_not_translated(void **state)
{
    static const char *const theirs[] = {"name", "field", "verb", "by", "instance", "fit"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(theirs); i++)
        for (int e = 1; e < ERR_COUNT; e++) {
            struct refusal why = {0};
            AUTO_STRBUF struct strbuf out;
            (void)refusef(&why, (enum err)e, theirs[i], "image");
            strbuf_init(&out, 8192);
            problem_write(&why, LANG_ZH, "req_1", &out);
            AUTO_JSON json_t *o = NULL;
            const char *detail, *next;
            assert_int_equal(json_parse(out.data, out.len, 8192, &o, NULL), ERR_OK);
            assert_true(json_get_str(o, "detail", NULL, &detail));
            assert_true(json_get_str(o, "next", NULL, &next));
            char text[1024];
            refusal_text(&why, LANG_ZH, text, sizeof(text));
            assert_string_equal(detail, text);
            refusal_next(&why, LANG_ZH, text, sizeof(text));
            assert_string_equal(next, text);
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_row_is_found_by_its_own_path),
    cmocka_unit_test(test_tricks_in_a_path_find_nothing),
    cmocka_unit_test(test_a_wrong_method_is_told_the_right_ones),
    cmocka_unit_test(test_a_body_is_held_against_its_rows),
    cmocka_unit_test(test_a_query_is_held_against_its_rows),
    cmocka_unit_test(test_creating_calls_need_a_key),
    cmocka_unit_test(test_a_port_in_a_path_must_be_a_number),
    cmocka_unit_test(test_the_openapi_document_is_json_and_refers_to_what_is_there),
    cmocka_unit_test(test_every_error_has_a_document_in_both_languages),
    cmocka_unit_test(test_words_inside_a_problem_are_translated_and_params_are_not),
    cmocka_unit_test(test_a_name_spelled_like_one_of_our_words_is_not_translated),
};
RUN_TESTS(tests)
