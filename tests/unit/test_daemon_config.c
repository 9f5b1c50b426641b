#include "../support/tap.h"

#include <stdlib.h>

#include "base/str.h"
#include "daemon/config.h"

static enum err parse(const char *text, struct daemon_config *c, struct refusal *why)
{
    *why = (struct refusal){0};
    return daemon_config_parse("f", text, c, why);
}

static void test_defaults_serve_loopback_in_chinese(void **state)
{
    struct daemon_config c;
    struct refusal why;

    (void)state;
    assert_int_equal(parse("", &c, &why), ERR_OK);
    assert_string_equal(c.host, "127.0.0.1");
    assert_int_equal(c.port, 7700);
    assert_string_equal(c.language, "zh-CN");
    assert_int_equal(c.term_s, 600);
}

static void test_what_is_printed_reads_back_the_same(void **state)
{
    struct daemon_config a, b;
    struct refusal why;
    char *text = NULL;
    size_t size = 0;

    (void)state;
    assert_int_equal(
        parse("listen = [::1]:0\nterm_s = 60\nzone=UTC\n# comment\nplatform = 算力 1\n", &a, &why),
        ERR_OK);
    FILE *f = open_memstream(&text, &size);
    daemon_config_print(&a, LANG_ZH, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(parse(text, &b, &why), ERR_OK);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_string_equal(b.host, "::1");
    free(text);
}

static void test_mistakes_name_the_line_and_the_near_key(void **state)
{
    static const struct {
        const char *text, *field, *why;
    } rows[] = {
        {"\nlisen = 127.0.0.1:1", "f:2", "there is no key lisen; did you mean listen?"},
        {"term_s = 600\nterm_s = 600", "f:2", "term_s: given twice"},
        {"term_s = x", "f:1", "term_s: 10 to 3600"},
        {"term_s", "f:1", "term_s: \"key = value\" is expected"},
        {"store = suanli.db", "f:1", "store: an absolute path"},
        {"zone = Mars/Base", "f:1", "zone: a time zone such as Asia/Shanghai"},
        {"zone = ../../etc/passwd", "f:1", "zone: a time zone such as Asia/Shanghai"},
        {"currency = XXY", "f:1", "currency: a currency such as CNY"},
        {"listen = 0.0.0.0:80", "listen",
         "listen: an address that is not loopback needs tls_cert and tls_key"},
        {"scarcity_min_pct = 500", "scarcity_min_pct",
         "scarcity_min_pct: it is above scarcity_max_pct"},
        {"tls_cert = /a", "tls_key", "tls: tls_cert and tls_key belong together"},
        {"listen = off\nunix_socket =", "listen", "listen: neither listen nor unix_socket is set"},
        {"listen = 127.0.0.1", "f:1", "listen: ADDRESS:PORT such as 127.0.0.1:7700"},
        {"listen = :80", "f:1", "listen: ADDRESS:PORT such as 127.0.0.1:7700"},
        {"listen = 127.0.0.1:65536", "f:1", "listen: ADDRESS:PORT such as 127.0.0.1:7700"},
    };
    struct daemon_config c;
    struct refusal why;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(parse(rows[i].text, &c, &why), ERR_VALIDATION);
        assert_string_equal(why.params[0].value, rows[i].field);
        assert_string_equal(why.params[1].value, rows[i].why);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_defaults_serve_loopback_in_chinese),
    cmocka_unit_test(test_what_is_printed_reads_back_the_same),
    cmocka_unit_test(test_mistakes_name_the_line_and_the_near_key),
};
RUN_TESTS(tests)
