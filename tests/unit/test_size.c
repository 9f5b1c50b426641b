/* Exact figures of the sizing: parameters, cache, formats, GGUF files, ZeRO states, engines'
 * budgets. Every printed figure is reproduced to its last digit. */
#include "../support/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "domain/size.h"

#define MIB 1048576.0

static int64_t cell_i64(const char *s)
{
    int64_t v = -1;

    assert_int_equal(str_parse_i64(s, 0, INT64_MAX / 4, &v), ERR_OK);
    return v;
}

static int64_t more(const char *moe, const char *key)
{
    const char *s = strstr(moe, key);

    return s ? strtoll(s + strlen(key), NULL, 10) : 0;
}

/* A row of sizing-models.tsv as its formula counts it: two RMS norms, bias on q, k and v only. */
static struct size_model row_model(char *const *cell)
{
    struct size_model m = {.layers = cell_i64(cell[1]),
                           .hidden = cell_i64(cell[2]),
                           .ffn = cell_i64(cell[3]),
                           .heads = cell_i64(cell[4]),
                           .kv_heads = cell_i64(cell[5]),
                           .head_dim = cell_i64(cell[6]),
                           .vocab = cell_i64(cell[7]),
                           .tied = cell[8][0] == '1',
                           .qkv_bias = cell[9][0] == '1',
                           .gated = cell[10][0] == '1',
                           .qk_norm = str_starts(cell[0], "Qwen3")};

    m.moe.experts = more(cell[11], "experts=");
    m.moe.ffn = more(cell[11], "expert_ffn=");
    m.moe.shared_ffn = more(cell[11], "shared_ffn=");
    m.moe.shared_gate = m.moe.shared_ffn > 0;
    size_model_default(&m);
    return m;
}

static void params_of_every_model(void **state)
{
    char line[1024];
    size_t rows = 0;
    FILE *f = fopen(GOLDEN "/sizing-models.tsv", "re");

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        char *cell[16] = {0}, *save = NULL;
        size_t n = 0;
        for (char *s = strtok_r(line, "\t\n", &save); s && n < 16;
             s = strtok_r(NULL, "\t\n", &save))
            cell[n++] = s;
        if (str_eq(cell[0], "name"))
            continue;
        struct size_model m = row_model(cell);
        const struct size_kv kv = {0};
        struct refusal why;
        assert_int_equal(size_model_check(&m, &why), ERR_OK);
        if (!strstr(cell[14], "approximate")) /* their formula leaves biases and norms out */
            assert_int_equal(size_params_total(&m), cell_i64(cell[12]));
        assert_int_equal(size_kv_token(&m, &kv), cell_i64(cell[13]));
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, 43);
}

static struct size_model llama3_8b(void)
{
    struct size_model m = {.layers = 32,
                           .hidden = 4096,
                           .ffn = 14336,
                           .heads = 32,
                           .kv_heads = 8,
                           .vocab = 128256,
                           .gated = true};

    size_model_default(&m);
    return m;
}

static struct size_model deepseek_v3(void)
{
    struct size_model m = {.layers = 61,
                           .hidden = 7168,
                           .ffn = 18432,
                           .heads = 128,
                           .vocab = 129280,
                           .gated = true,
                           .mla = {1536, 512, 128, 64, 128},
                           .moe = {.experts = 256,
                                   .active = 8,
                                   .ffn = 2048,
                                   .shared_ffn = 2048,
                                   .dense_first = 3,
                                   .router_bias = true}};

    m.head_dim = 128;
    size_model_default(&m);
    return m;
}

static void latent_attention_and_experts(void **state)
{
    struct size_model m = deepseek_v3();
    struct size_kv kv = {0}, naive = {.mla_naive = true}, q8 = {.k = SIZE_Q8_0, .v = SIZE_Q8_0};

    (void)state;
    /* GGUF logs print 671.026 B; 37 B of them are active */
    assert_int_equal(llround((double)size_params_total(&m) / 1e6), 671026);
    assert_int_equal(llround((double)size_params_active(&m) / 1e9), 38);
    assert_int_equal(size_kv_token(&m, &kv), 70272);
    assert_int_equal(size_kv_token(&m, &naive), 61 * (24576 + 16384) * 2);
    assert_int_equal(size_kv_token(&m, &q8), 61 * 576 * 34 / 32);
    m.mtp_layers = 1;
    assert_true(size_params_total(&m) > INT64_C(682000000000));
    m.mtp_layers = 0;
    m.vocab = 163840; /* Kimi-K2 */
    m.heads = m.kv_heads = 64;
    m.moe.experts = 384;
    m.moe.dense_first = 1;
    assert_int_equal(llround((double)size_params_total(&m) / 1e9), 1026);
    struct size_model mixtral = {.layers = 32,
                                 .hidden = 4096,
                                 .ffn = 14336,
                                 .heads = 32,
                                 .kv_heads = 8,
                                 .vocab = 32000,
                                 .gated = true,
                                 .moe = {.experts = 8, .active = 2, .ffn = 14336}};
    size_model_default(&mixtral);
    assert_int_equal(llround((double)size_params_total(&mixtral) / 1e8), 467);
    assert_int_equal(llround((double)size_params_active(&mixtral) / 1e8), 129);
}

static void bits_of_formats(void **state)
{
    static const struct {
        const char *name;
        double bits;
    } row[] = {
        {"f32", 32},         {"bf16", 16},           {"q8_0", 8.5},         {"q4_0", 4.5},
        {"q4_1", 5.0},       {"q5_0", 5.5},          {"q5_1", 6.0},         {"iq4_nl", 4.5},
        {"iq4_xs", 4.25},    {"tq1_0", 1.6875},      {"tq2_0", 2.0625},     {"nf4", 4.5},
        {"q2_k", 2.625},     {"q3_k", 3.4375},       {"q4_k", 4.5},         {"q5_k", 5.5},
        {"q6_k", 6.5625},    {"iq1_s", 1.5625},      {"iq1_m", 1.75},       {"mxfp4", 4.25},
        {"iq2_xs", 2.3125},  {"iq2_s", 2.5625},      {"iq3_xxs", 3.0625},   {"iq3_s", 3.4375},
        {"iq2_xxs", 2.0625}, {"gptq-int4", 4.15625}, {"gptq-int8", 8.1875}, {"awq", 4.15625}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        enum size_format f = size_format_named(row[i].name);
        assert_true(f != SIZE_FORMAT_NONE && size_bits(f) == row[i].bits);
        assert_true(size_format_row(f)->gguf < 0 ||
                    size_format_gguf(size_format_row(f)->gguf) == f);
    }
    assert_int_equal(lround(size_bits(SIZE_NF4_DQ) * 1000), 4127);
    assert_int_equal(lround(size_bits(SIZE_FP8) * 1000), 8002);
    assert_int_equal(size_format_named("Q4_K_M"), SIZE_FILE_Q4_K_M);
    assert_int_equal(size_format_named("q4_k_m"), SIZE_FILE_Q4_K_M);
    assert_int_equal(size_format_named("fp16"), SIZE_F16);
    assert_int_equal(size_format_named("nonsense"), SIZE_FORMAT_NONE);
}

static void gguf_mixtures_of_llama(void **state)
{
    static const struct {
        const char *file;
        int bits; /* of a weight, ten-thousandths, as the quantiser's page prints them */
        int gib;  /* hundredths */
    } row[] = {{"IQ1_S", 20042, 187},   {"IQ1_M", 21460, 201},  {"IQ2_XXS", 23824, 223},
               {"IQ2_XS", 25882, 242},  {"IQ2_S", 27403, 256},  {"IQ2_M", 29294, 274},
               {"IQ3_XXS", 32548, 304}, {"IQ3_S", 36606, 342},  {"IQ3_M", 37628, 352},
               {"IQ4_XS", 44597, 417},  {"IQ4_NL", 46818, 438}, {"Q2_K_S", 29697, 278},
               {"Q2_K", 31593, 295},    {"Q3_K_S", 36429, 341}, {"Q3_K_L", 42979, 402},
               {"Q4_K_S", 46672, 436},  {"Q4_K_M", 48944, 458}, {"Q5_K_S", 55704, 521},
               {"Q5_K_M", 57036, 533},  {"Q6_K", 65633, 614},   {"Q8_0", 85008, 795}};
    struct size_model m = llama3_8b();

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        double bytes = (double)size_gguf_bytes(&m, size_format_named(row[i].file));
        print_message("# %s %.4f\n", row[i].file, bytes * 8 / 8030261248.0);
        assert_int_equal(lround(bytes * 8 / 8030261248.0 * 1e4), row[i].bits);
        assert_true(labs(lround(bytes / SIZE_GIB * 100) - row[i].gib) <= 1);
    }
}

static void quantised_bytes(void **state)
{
    struct size_model m = {
        .layers = 32, .hidden = 4096, .ffn = 11008, .heads = 32, .vocab = 32000, .gated = true};

    (void)state;
    size_model_default(&m);
    assert_int_equal(size_params_total(&m), 6738415616);
    assert_int_equal(size_weight_bytes(&m, SIZE_BF16), 2 * INT64_C(6738415616));
    /* double quantisation saves 0.373 bits of each weight: 0.30 GB of the layers' 6.476e9 */
    double saved = (double)(size_weight_bytes(&m, SIZE_NF4) - size_weight_bytes(&m, SIZE_NF4_DQ));
    assert_true(fabs(saved - 0.373 / 8 * 6476005376.0) < 1e6);
    m.weight_bytes = 4567;
    m.stored = SIZE_AWQ4;
    assert_int_equal(size_weight_bytes(&m, SIZE_AWQ4), 4567); /* a header is believed */
    assert_int_equal(size_weight_bytes(&m, SIZE_BF16), 2 * INT64_C(6738415616));
}

static void adapters(void **state)
{
    struct size_model m = {.layers = 28,
                           .hidden = 3072,
                           .ffn = 8192,
                           .heads = 24,
                           .kv_heads = 8,
                           .head_dim = 128,
                           .vocab = 128256,
                           .tied = true,
                           .gated = true};
    struct size_job j = {.task = SIZE_LORA, .rank = 32, .targets = SIZE_Q | SIZE_V};

    (void)state;
    size_model_default(&m);
    assert_int_equal(size_params_total(&m), 3212749824);
    assert_int_equal(size_adapter_params(&m, &j), 9175040);
    j.rank = 64;
    assert_int_equal(size_adapter_params(&m, &j), 18350080);
    j.rank = 10;
    j.targets = SIZE_GATE | SIZE_UP | SIZE_DOWN;
    assert_int_equal(size_adapter_params(&m, &j), 9461760);
    j.rank = 32;
    j.targets = SIZE_Q | SIZE_V;
    j.dora = true;
    assert_int_equal(size_adapter_params(&m, &j), 9289728);
}

static void sliding_windows_and_hybrids(void **state)
{
    struct size_model m = {.layers = 62,
                           .hidden = 5376,
                           .ffn = 21504,
                           .heads = 32,
                           .kv_heads = 16,
                           .head_dim = 128,
                           .vocab = 262208,
                           .tied = true,
                           .gated = true,
                           .norms = 4,
                           .window = 1024,
                           .window_every = 6};
    struct size_kv whole = {.window_full = true}, kv = {0};

    (void)state;
    size_model_default(&m);
    assert_true((double)size_kv_sequence(&m, &whole, 131072, 1) / MIB == 63488);
    int64_t each = 2 * 16 * 128 * 2;
    assert_int_equal(size_kv_sequence(&m, &kv, 131072, 1), each * (10 * 131072 + 52 * 1024));
    assert_int_equal(size_kv_sequence(&m, &kv, 512, 1), each * 62 * 512);
    assert_int_equal(size_kv_sequence(&m, &kv, 512, 64), each / 16 * 62 * 512); /* one head */
    m.window = 0;
    m.kv_layers = 8;
    m.state_bytes = 1000;
    assert_int_equal(size_kv_sequence(&m, &kv, 10, 1), each * 8 * 10 + 1000);
}

/* Hundredths of GiB, as the estimator's page prints them. */
static void zero_goldens(void **state)
{
    static const struct {
        enum size_shard shard;
        bool opt, params, init;
        int gpu, host;
    } row[] = {{SIZE_ZERO2, false, false, false, 1593, -1},
               {SIZE_ZERO2, true, false, false, 531, 12745},
               {SIZE_ZERO3, false, false, true, 609, 143},
               {SIZE_ZERO3, true, false, true, 78, -1},
               {SIZE_ZERO3, true, true, true, 12, 7169}};
    struct size_zero z;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        size_zero_states(2851e6, 32e6, 8, 1, row[i].shard, row[i].opt, row[i].params, row[i].init,
                         &z);
        assert_int_equal(lround(z.gpu / SIZE_GIB * 100), row[i].gpu);
        if (row[i].host >= 0)
            assert_int_equal(lround(z.host / SIZE_GIB * 100), row[i].host);
    }
    /* t5-large on 4 cards, whole MiB */
    size_zero_states(737.67e6, 32.90e6, 4, 1, SIZE_ZERO3, false, false, false, &z);
    assert_int_equal((int64_t)(z.gpu / MIB), 3291);
    size_zero_states(737.67e6, 32.90e6, 4, 1, SIZE_ZERO3, true, true, false, &z);
    assert_int_equal((int64_t)(z.gpu / MIB), 125);
    size_zero_states(737.67e6, 32.90e6, 4, 1, SIZE_ZERO3, true, false, false, &z);
    assert_int_equal((int64_t)(z.gpu / MIB), 477);
}

static double expect(const struct size_model *m, struct size_job j, enum size_part part)
{
    struct size_result r;
    struct refusal why;

    size_job_default(m, &j);
    assert_int_equal(size_estimate(m, &j, &r, &why), ERR_OK);
    return (double)r.part[part].expected;
}

static void states_of_recipes(void **state)
{
    struct size_model m = llama3_8b();
    double p = (double)size_params_total(&m);
    struct size_job j = {.task = SIZE_FULL,
                         .precision = SIZE_MIXED,
                         .seq = 128,
                         .accumulate = 2,
                         .framework = SIZE_DEEPSPEED};

    (void)state;
    /* mixed: 2 + 2 + 4 + 8 */
    assert_true(expect(&m, j, SIZE_WEIGHTS) == 2 * p && expect(&m, j, SIZE_STATES) == 12 * p);
    j.framework = SIZE_MEGATRON; /* 18 P; with a distributed optimizer (6 + 12/N) P */
    double whole =
        expect(&m, j, SIZE_WEIGHTS) + expect(&m, j, SIZE_GRADIENTS) + expect(&m, j, SIZE_STATES);
    assert_true(whole == 18 * p);
    j.distributed_optimizer = true;
    j.dp = 8;
    whole =
        expect(&m, j, SIZE_WEIGHTS) + expect(&m, j, SIZE_GRADIENTS) + expect(&m, j, SIZE_STATES);
    assert_true(fabs(whole - (6 + 12.0 / 8) * p) < 4);
    j = (struct size_job){.task = SIZE_FULL,
                          .precision = SIZE_PURE16,
                          .seq = 128,
                          .accumulate = 2,
                          .framework = SIZE_TORCHTUNE};
    whole =
        expect(&m, j, SIZE_WEIGHTS) + expect(&m, j, SIZE_GRADIENTS) + expect(&m, j, SIZE_STATES);
    assert_true(whole == 8 * p);
    j.precision = SIZE_PURE32;
    whole =
        expect(&m, j, SIZE_WEIGHTS) + expect(&m, j, SIZE_GRADIENTS) + expect(&m, j, SIZE_STATES);
    assert_true(whole == 16 * p);
    j.precision = SIZE_PURE16;
    j.optimizer = SIZE_SGD;
    assert_true(expect(&m, j, SIZE_STATES) == 0);
}

/* Budgets as serving engines printed them: GiB, hundredths. */
static void engine_budgets(void **state)
{
    static const struct {
        double util, total, weights, activation, other;
        int printed;
    } row[] = {{0.9, 79.18, 13.47, 7.38, 0.13, 5028},  {0.9, 79.18, 33.88, 4.84, 0.55, 3200},
               {0.9, 79.18, 14.99, 4.76, 0.13, 5138},  {0.9, 79.18, 1.12, 5.56, 0.13, 6445},
               {0.9, 79.18, 61.03, 5.64, 0.14, 445},   {0.9, 79.18, 30.59, 5.64, 0.54, 3449},
               {0.95, 79.18, 44.76, 2.12, 0.14, 2820}, {0.9, 79.22, 14.96, 1.26, 1.79, 5329},
               {0.9, 39.5, 14.96, 9.37, 0.1, 1112}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        double kv = row[i].util * row[i].total - row[i].weights - row[i].activation - row[i].other;
        assert_true(fabs(kv * 100 - row[i].printed) <= 5);
    }
    /* blocks and tokens to bytes */
    assert_int_equal(llround(5691 * 16 * 131072.0 / SIZE_GIB * 100), 1112);
    assert_int_equal(llround(14815 * 16 * 204800.0 / SIZE_GIB * 100), 4521);
    assert_int_equal(size_kv_tokens(5691LL * 16 * 131072 + 131071, 131072, 16), 5691 * 16);
    /* TensorRT-LLM: 0.9 of what is free; 263,008 tokens of 65,536 B are the printed 16.05 GiB */
    assert_int_equal(lround(0.9 * 17.83 * 100), 1605);
    assert_int_equal(lround(263008 * 65536.0 / SIZE_GIB * 100), 1605);
    assert_int_equal(size_kv_tokens(263008LL * 65536 + 5, 65536, 32), 263008);
    assert_int_equal(size_kv_tokens(-5, 65536, 32), 0);
}

static void budget_of_a_card(void **state)
{
    struct size_model m = llama3_8b();
    struct size_job j = {.framework = SIZE_VLLM, .seq = 16000};
    struct size_budget b;
    struct refusal why;

    (void)state;
    size_job_default(&m, &j);
    int64_t h100 = (int64_t)(79.18 * SIZE_GIB), small = (int64_t)(8 * SIZE_GIB);
    assert_int_equal(size_budget(&m, &j, h100, &b, &why), ERR_OK);
    assert_int_equal(b.weights, 16060522496);
    assert_true(llabs(b.taken - b.weights - b.activations - b.non_torch - b.cache.expected) <= 4);
    assert_true(b.cache.low < b.cache.expected && b.cache.expected < b.cache.high);
    assert_int_equal(b.tokens, b.cache.expected / 131072 / 16 * 16);
    assert_int_equal(b.sequences, b.cache.expected / (131072 * INT64_C(16000)));
    assert_int_equal(size_budget(&m, &j, small, &b, &why), ERR_OK); /* it will not start */
    assert_true(b.cache.expected < 0 && b.tokens == 0 && b.sequences == 0);
    assert_int_equal(size_budget(&m, &j, 0, &b, &why), ERR_VALIDATION);
}

/* llama.cpp's output buffer, to the byte: n_ubatch * 4 * (V + k h). */
static void compute_buffer(void **state)
{
    static const struct {
        int64_t hidden, vocab, ubatch, rows, mib100;
    } row[] = {{5376, 262208, 512, 1, 52262},  {4096, 151936, 512, 2, 31275},
               {5120, 151936, 1024, 2, 63350}, {4096, 128256, 512, 2, 26650},
               {2560, 128256, 512, 1, 25550},  {7168, 163840, 512, 1, 33400}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct size_model m = {
            .layers = 1, .hidden = row[i].hidden, .ffn = 1, .heads = 1, .vocab = row[i].vocab};
        struct size_job j = {.framework = SIZE_LLAMACPP,
                             .attention = SIZE_FLASH,
                             .seq = 4096,
                             .ubatch = row[i].ubatch,
                             .head_rows = row[i].rows,
                             .weights = SIZE_FILE_Q4_0};
        size_model_default(&m);
        double bytes = expect(&m, j, SIZE_LOGITS);
        assert_true(fabs(bytes / MIB * 100 - (double)row[i].mib100) <= 1);
    }
}

static void flops_and_disk(void **state)
{
    struct size_model m = llama3_8b();
    struct size_job j = {.task = SIZE_PRETRAIN, .seq = 2048};
    struct size_disk d;
    double p = 8030261248.0, attention = 12 * 32 * 32 * 128 * 2048.0 / 2;

    (void)state;
    size_job_default(&m, &j);
    assert_true(size_flops_token(&m, &j) == 6 * p + attention);
    j.recompute = SIZE_RECOMPUTE;
    assert_true(fabs(size_flops_token(&m, &j) - (8 * p + attention * 4 / 3)) < 1e3);
    j.task = SIZE_LORA;
    j.recompute = SIZE_KEEP;
    assert_true(size_flops_token(&m, &j) == 4 * p + attention);
    j.task = SIZE_INFER;
    assert_true(fabs(size_flops_token(&m, &j) - (2 * p + attention / 3)) < 1e3);
    j.task = SIZE_FULL;
    size_disk(&m, &j, 20000000000, 1000000000, 3, &d);
    assert_int_equal(d.download, 16060522496);
    assert_int_equal(d.checkpoint, 14 * 8030261248LL);
    assert_int_equal(d.checkpoints, 3 * d.checkpoint);
    assert_true(llabs(d.total - (int64_t)((21e9 + 16060522496.0 + 42 * p) / 0.85)) < 4);
}

static void refusals(void **state)
{
    struct size_model m = llama3_8b(), bad = m;
    struct size_job j = {.seq = 2048};
    struct size_result r;
    struct refusal why;

    (void)state;
    size_job_default(&m, &j);
    bad.layers = INT64_MAX;
    assert_int_equal(size_estimate(&bad, &j, &r, &why), ERR_VALIDATION);
    bad = m;
    bad.kv_heads = 5;
    assert_int_equal(size_estimate(&bad, &j, &r, &why), ERR_VALIDATION);
    bad = m;
    bad.hidden = 1 << 20;
    bad.ffn = 1 << 22;
    bad.layers = 10000;
    assert_int_equal(size_estimate(&bad, &j, &r, &why), ERR_VALIDATION);
    struct size_job k = j;
    k.tp = 3;
    assert_int_equal(size_estimate(&m, &k, &r, &why), ERR_VALIDATION);
    k = j;
    k.task = SIZE_LORA;
    k.weights = SIZE_FILE_Q4_K_M;
    assert_int_equal(size_estimate(&m, &k, &r, &why), ERR_VALIDATION);
    k.task = SIZE_FULL;
    k.weights = SIZE_NF4;
    assert_int_equal(size_estimate(&m, &k, &r, &why), ERR_VALIDATION);
    k = j;
    k.seq = INT64_C(1) << 28;
    k.batch = INT64_C(1) << 24;
    assert_int_equal(size_estimate(&m, &k, &r, &why), ERR_VALIDATION);
    k = j;
    k.generate = 4096;
    assert_int_equal(size_estimate(&m, &k, &r, &why), ERR_VALIDATION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(params_of_every_model),
        cmocka_unit_test(latent_attention_and_experts),
        cmocka_unit_test(bits_of_formats),
        cmocka_unit_test(gguf_mixtures_of_llama),
        cmocka_unit_test(quantised_bytes),
        cmocka_unit_test(adapters),
        cmocka_unit_test(sliding_windows_and_hybrids),
        cmocka_unit_test(zero_goldens),
        cmocka_unit_test(states_of_recipes),
        cmocka_unit_test(engine_budgets),
        cmocka_unit_test(budget_of_a_card),
        cmocka_unit_test(compute_buffer),
        cmocka_unit_test(flops_and_disk),
        cmocka_unit_test(refusals),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
