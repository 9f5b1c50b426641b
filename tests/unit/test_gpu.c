/* The library path of the NVML stub comes in LD_LIBRARY_PATH (meson.build). */
#include "../support/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "node/gpu.h"

static char path[64];

static void write_file(const char *text)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int setup(void **state)
{
    (void)state;
    (void)str_printf(path, sizeof(path), "/tmp/test-gpu-%d", (int)getpid());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    return 0;
}

static struct gpu *open_spec(const char *spec)
{
    struct gpu *g = NULL;
    struct refusal why;

    assert_int_equal(gpu_open(spec, "seed", path, &g, &why), ERR_OK);
    return g;
}

static void test_nvml_tells_cards_and_lacks_are_unknown(void **state)
{
    static struct gpu_list l;
    struct refusal why;

    (void)state;
    write_file("GPU-aa|NVIDIA GeForce RTX 4090|24564|100|37|0\nGPU-bb|NVIDIA L40S|46068|0|0|0\n");
    setenv("NVML_STUB", path, 1);
    struct gpu *g = open_spec("nvml");
    assert_int_equal(gpu_read(g, &l, &why), ERR_OK);
    assert_int_equal(l.count, 2);
    assert_string_equal(l.at[0].model, "RTX 4090");
    assert_string_equal(l.at[1].model, "L40S");
    assert_string_equal(l.driver, "550.54.14");
    assert_string_equal(l.cuda, "12.4");
    assert_int_equal(l.at[0].memory_mib, 24564);
    assert_int_equal(l.at[0].memory_used_mib, 100);
    assert_int_equal(l.at[0].util_pct, 37);
    assert_int_equal(l.at[0].temp_c, 55);
    assert_int_equal(l.at[1].minor, 1);
    assert_int_equal(l.at[0].processes, 2);
    assert_int_equal(l.at[0].power_w, -1);
    assert_int_equal(l.at[0].ecc_errors, -1);
    assert_int_equal(l.topology[0][1], 255);
    assert_true(l.at[0].healthy && !l.at[0].simulated && !l.simulated);
    gpu_close(g);
}

static void test_a_card_that_fell_off_keeps_its_name_and_is_not_healthy(void **state)
{
    static struct gpu_list l;
    struct refusal why;

    (void)state;
    write_file("GPU-aa|NVIDIA A100|81920|0|0|0\nGPU-bb|NVIDIA A100|81920|0|0|0\n");
    setenv("NVML_STUB", path, 1);
    struct gpu *g = open_spec("auto");
    assert_int_equal(gpu_read(g, &l, &why), ERR_OK);
    write_file("GPU-aa|NVIDIA A100|81920|0|0|0\nGPU-bb|NVIDIA A100|81920|0|0|1\n");
    assert_int_equal(gpu_read(g, &l, &why), ERR_OK);
    assert_int_equal(l.count, 2);
    assert_true(gpu_find(&l, "GPU-aa")->healthy);
    assert_non_null(gpu_find(&l, "GPU-bb"));
    assert_false(gpu_find(&l, "GPU-bb")->healthy);
    write_file("GPU-aa|NVIDIA A100|81920|0|0|0\n");
    assert_int_equal(gpu_read(g, &l, &why), ERR_OK);
    assert_null(gpu_find(&l, "GPU-bb"));
    unlink(path);
    assert_int_equal(gpu_read(g, &l, &why), ERR_UNAVAILABLE);
    assert_int_equal(l.count, 0);
    gpu_close(g);
}

static void test_without_a_driver_nvml_is_refused_and_auto_is_none(void **state)
{
    static struct gpu_list l;
    struct gpu *g = NULL;
    struct refusal why;

    (void)state;
    unsetenv("NVML_STUB");
    assert_int_equal(gpu_open("nvml", "s", "", &g, &why), ERR_UNSUPPORTED);
    g = open_spec("auto");
    assert_int_equal(gpu_read(g, &l, &why), ERR_OK);
    assert_int_equal(l.count, 0);
    gpu_close(g);
}

static void test_simulated_cards_are_marked_and_obey_their_knobs(void **state)
{
    static struct gpu_list l, other;
    struct refusal why;
    struct gpu *elsewhere = NULL;
    char uuid[GPU_UUID_SIZE];

    (void)state;
    struct gpu *g = open_spec("sim:3*RTX 4090:24564");
    assert_int_equal(gpu_read(g, &l, &why), ERR_OK);
    assert_int_equal(l.count, 3);
    assert_true(l.simulated && l.at[2].simulated && l.at[2].healthy);
    assert_string_equal(l.at[1].model, "RTX 4090");
    memcpy(uuid, l.at[0].uuid, sizeof(uuid));
    assert_string_not_equal(l.at[0].uuid, l.at[1].uuid);
    assert_int_equal(gpu_open("sim:1*RTX 4090:24564", "other seed", path, &elsewhere, &why),
                     ERR_OK);
    assert_int_equal(gpu_read(elsewhere, &other, &why), ERR_OK);
    assert_string_not_equal(other.at[0].uuid, uuid);
    gpu_close(elsewhere);
    write_file("0 util 85\n1 lost 1\nnonsense\n9 util 3\n2 uuid GPU-wrong\n0 used 1000\n");
    assert_int_equal(gpu_read(g, &l, &why), ERR_OK);
    assert_int_equal(gpu_find(&l, uuid)->util_pct, 85);
    assert_int_equal(gpu_find(&l, uuid)->memory_used_mib, 1000);
    assert_false(l.at[1].healthy);
    assert_string_equal(l.at[2].uuid, "GPU-wrong");
    write_file("1 gone 1\n");
    assert_int_equal(gpu_read(g, &l, &why), ERR_OK);
    assert_int_equal(l.count, 2);
    gpu_close(g);
}

static void test_bad_sources_are_refused(void **state)
{
    static const char *const bad[] = {"sim:",    "sim:0*X:1",  "sim:2*:100",
                                      "sim:2*X", "sim:65*X:1", "cuda"};
    struct gpu *g = NULL;
    struct refusal why;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(gpu_open(bad[i], "s", "", &g, &why), ERR_USAGE);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_nvml_tells_cards_and_lacks_are_unknown, setup, teardown),
    cmocka_unit_test_setup_teardown(test_a_card_that_fell_off_keeps_its_name_and_is_not_healthy,
                                    setup, teardown),
    cmocka_unit_test_setup_teardown(test_without_a_driver_nvml_is_refused_and_auto_is_none, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(test_simulated_cards_are_marked_and_obey_their_knobs, setup,
                                    teardown),
    cmocka_unit_test(test_bad_sources_are_refused),
};
RUN_TESTS(tests)
