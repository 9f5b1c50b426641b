#include "../support/tap.h"

#include <stdlib.h>

#include "base/str.h"
#include "node/imageneed.h"

static struct image_need read_of(const char *config)
{
    AUTO_JSON json_t *v = NULL;
    struct image_need n;

    assert_int_equal(json_parse(config, strlen(config), 65536, &v, NULL), ERR_OK);
    image_need_read(v, &n);
    return n;
}

static void all_that_is_required_holds(void **state)
{
    (void)state;
    struct image_need n = read_of("{\"env\":[\"NVIDIA_REQUIRE_CUDA=cuda>=12.4,driver>=550\","
                                  "\"NVIDIA_REQUIRE_MORE=cuda>=12.10 cuda>=11.0\"]}");

    assert_string_equal(n.cuda, "12.10");
    assert_string_equal(n.driver, "550");
}

static void an_alternative_for_a_brand_is_passed_over(void **state)
{
    (void)state;
    struct image_need n =
        read_of("{\"env\":[\"NVIDIA_REQUIRE_CUDA=brand=tesla,driver>=470,driver<471 cuda>=12.1 "
                "brand=geforce,driver>=535\"]}");

    assert_string_equal(n.cuda, "12.1");
    assert_string_equal(n.driver, "");
    n = read_of("{\"env\":[\"NVIDIA_REQUIRE_CUDA=cuda>=12.1\",\"NVIDIA_DISABLE_REQUIRE=true\"]}");
    assert_string_equal(n.cuda, "");
}

static void a_label_is_the_last_word(void **state)
{
    (void)state;
    struct image_need n =
        read_of("{\"env\":[\"NVIDIA_REQUIRE_CUDA=cuda>=12.4\",\"PYTORCH_VERSION=2.4.0\"],"
                "\"labels\":{\"suanli.need.cuda\":\"11.8\",\"suanli.need.driver\":\"520.61.05\"}}");

    assert_string_equal(n.cuda, "11.8");
    assert_string_equal(n.driver, "520.61.05");
    assert_string_equal(n.framework, "PyTorch 2.4.0");
}

static void the_framework_pair_is_told(void **state)
{
    (void)state;
    struct image_need n =
        read_of("{\"env\":[\"PYTORCH_VERSION=2.4.0a0+f70bd71\",\"CUDA_VERSION=12.5.1.007\"]}");

    assert_string_equal(n.framework, "PyTorch 2.4.0a0+f70bd71, CUDA 12.5.1.007");
    n = read_of("{\"labels\":{\"suanli.framework\":\"JAX 0.4, CUDA 12\"}}");
    assert_string_equal(n.framework, "JAX 0.4, CUDA 12");
}

static void nonsense_is_no_need(void **state)
{
    static const char *const nonsense[] = {
        "{}",
        "[]",
        "{\"env\":\"x\",\"labels\":[]}",
        "{\"env\":[1,null,\"NVIDIA_REQUIRE_CUDA\",\"NVIDIA_REQUIRE_CUDA=\"]}",
        "{\"env\":[\"NVIDIA_REQUIRE_CUDA=cuda>=,driver>=\\u001b[31m\"]}",
        "{\"env\":[\"NVIDIA_REQUIRE_CUDA=cuda>=1.2.3.4.5.6.7.8.9.1.2.3\"]}",
        "{\"labels\":{\"suanli.need.cuda\":\"twelve\",\"suanli.framework\":\"a\\u001b[2J\"}}",
        "{\"env\":[\"PYTORCH_VERSION=\\u001b]0;x\\u0007\"]}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(nonsense); i++) {
        struct image_need n = read_of(nonsense[i]);
        assert_true(!n.driver[0] && !n.cuda[0] && !n.framework[0]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(all_that_is_required_holds),
    cmocka_unit_test(an_alternative_for_a_brand_is_passed_over),
    cmocka_unit_test(a_label_is_the_last_word),
    cmocka_unit_test(the_framework_pair_is_told),
    cmocka_unit_test(nonsense_is_no_need),
};
RUN_TESTS(tests)
