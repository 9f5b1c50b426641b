/* What a model is, from a name and from foreign bytes: every row of the table counts to the figures
 * that its makers print, files are read to the byte, and what is broken is refused by name. */
#include "../support/tap.h"

#include <stdlib.h>

#include "base/jscan.h"
#include "base/str.h"
#include "domain/card.h"
#include "domain/model.h"

/* ---- names ---- */

static int64_t params_of(const char *name)
{
    struct size_model m;
    struct refusal why;

    assert_int_equal(model_named(name, &m, &why), ERR_OK);
    assert_int_equal(size_model_check(&m, &why), ERR_OK);
    return size_params_total(&m);
}

static void test_names(void **state UNUSED)
{
    static const char *const same[][2] = {
        {"Qwen2.5-7B", "qwen2.5 7b instruct"},
        {"Llama-3.1-8B", "meta-llama/Llama-3.1-8B"},
        {"Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B-Instruct"},
        {"Llama-3-8B", "meta-llama/Meta-Llama-3-8B"},
        {"Llama-3.1-70B", "Llama-3.3-70B-Instruct"},
        {"DeepSeek-V3", "deepseek-ai/DeepSeek-R1"},
        {"Qwen2.5-7B", "DeepSeek-R1-Distill-Qwen-7B"},
        {"Qwen3-30B-A3B", "Qwen/Qwen3-Coder-30B-A3B-Instruct"},
        {"Gemma-3-27b", "google/gemma-3-27b-it"},
        {"Mixtral-8x7B", "mistralai/Mixtral-8x7B-Instruct-v0.1"},
    };
    struct size_model a, b;
    struct refusal why;

    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        assert_int_equal(model_named(same[i][0], &a, &why), ERR_OK);
        if (model_named(same[i][1], &b, &why) != ERR_OK)
            fail_msg("%s is not known", same[i][1]);
        assert_string_equal(a.name, b.name);
    }
}

static void test_name_formats(void **state UNUSED)
{
    static const struct {
        const char *name;
        enum size_format want;
    } rows[] = {{"Qwen2.5-7B-Instruct-AWQ", SIZE_AWQ4},
                {"Qwen2.5-7B-Instruct-GPTQ-Int8", SIZE_GPTQ8},
                {"Qwen2.5-7B-Instruct-GPTQ-Int4", SIZE_GPTQ4},
                {"Qwen3-8B-FP8", SIZE_FP8},
                {"unsloth/Llama-3.1-8B-Instruct-bnb-4bit", SIZE_NF4_DQ},
                {"Llama-3.1-8B-Q4_K_M.gguf", SIZE_FILE_Q4_K_M},
                {"Qwen2.5-7B", SIZE_FORMAT_NONE},
                {"DeepSeek-V3", SIZE_FP8}};
    struct size_model m;
    struct refusal why;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(model_named(rows[i].name, &m, &why), ERR_OK);
        assert_int_equal(m.stored, rows[i].want);
    }
}

static void test_unknown_name(void **state UNUSED)
{
    static const char *const names[] = {"qwen2.6-7b", "", "/", "-", "????", "llama"};
    char huge[5000];
    struct size_model m;
    struct refusal why;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_int_equal(model_named(names[i], &m, &why), ERR_MODEL_UNKNOWN);
    assert_int_equal(model_named("qwen2.6-7b", &m, &why), ERR_MODEL_UNKNOWN);
    assert_string_equal(why.params[1].value, "Qwen2.5-7B");
    memset(huge, 'a', sizeof(huge));
    huge[sizeof(huge) - 1] = '\0';
    assert_int_equal(model_named(huge, &m, &why), ERR_MODEL_UNKNOWN);
}

/* Published parameter counts: exact ones as such, rounded ones to their last digit. */
static void test_counts(void **state UNUSED)
{
    static const struct {
        const char *name;
        int64_t want, within;
    } rows[] = {{"Llama-2-7b", 6738415616, 0},
                {"Llama-3.1-8B", 8030261248, 0},
                {"Llama-3.2-3B", 3212749824, 0},
                {"Llama-3.1-70B", 70553706496, 0},
                {"Llama-3.1-405B", 405853388800, 0},
                {"Qwen2.5-7B", 7615616512, 0},
                {"Phi-4", 14659507200, 0},
                {"Phi-3-mini", 3821079552, 0},
                {"phi-2", 2779683840, 0},
                {"phi-1.5", 1418270720, 0},
                {"falcon-7b", 7217189760, 300000},
                {"Gemma-2b", 2506172416, 0},
                {"Gemma-7b", 8537680896, 0},
                {"Gemma-2-2b", 2614341888, 0},
                {"Gemma-2-9b", 9241705984, 0},
                {"Gemma-3-1b", 999885952, 0},
                {"Gemma-3-27b", 27432406640, 100000000},
                {"Mixtral-8x7B", 46702792704, 0},
                {"Mixtral-8x22B", 140620634112, 0},
                {"Mistral-Nemo", 12247782400, 0},
                {"Mistral-Small-24B", 23572403200, 0},
                {"Qwen3-30B-A3B", 30532122624, 0},
                {"Qwen3-235B-A22B", 235093634560, 0},
                {"Qwen3-8B", 8190735360, 0},
                {"Yi-34B", 34388917248, 0},
                {"DeepSeek-V3", 671026419200, 20000000},
                {"DeepSeek-V2-Lite", 15706484224, 0},
                {"gpt2", 124439808, 0},
                {"TinyLlama", 1100048384, 0},
                {"Baichuan2-7B", 7505973248, 100000},
                {"InternLM2.5-7B", 7737708544, 0}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t got = params_of(rows[i].name);
        if (llabs(got - rows[i].want) > rows[i].within)
            fail_msg("%s: %" PRId64 ", %" PRId64 " wanted", rows[i].name, got, rows[i].want);
    }
}

static void test_every_row(void **state UNUSED)
{
    struct size_model m;
    struct refusal why;

    for (size_t i = 0; i < model_row_count; i++) {
        if (model_named(model_rows[i].m.name, &m, &why) != ERR_OK)
            fail_msg("%s does not find itself", model_rows[i].m.name);
        assert_string_equal(m.name, model_rows[i].m.name);
        assert_int_equal(size_model_check(&m, &why), ERR_OK);
        assert_true(size_params_active(&m) <= size_params_total(&m));
    }
}

static void test_numbers(void **state UNUSED)
{
    static const struct {
        const char *text;
        int64_t want;
    } good[] = {{"7B", 7000000000},
                {"6.7b", 6700000000},
                {"350M", 350000000},
                {"1.1T", 1100000000000},
                {"7615616512", 7615616512}};
    static const char *const bad[] = {"",           "0",   "B",   "-7B",
                                      "7.B",        "7BB", "1e9", "9999999999999999",
                                      "999999999T", "7 B", ".5B", "0.5"};
    int64_t n;

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(model_params_parse(good[i].text, &n));
        assert_int_equal(n, good[i].want);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(model_params_parse(bad[i], &n));
    assert_string_equal(model_near(7000000000)->m.name, "Mistral-7B");
}

/* ---- config.json ---- */

static enum err config(const char *text, struct size_model *m, struct refusal *why)
{
    return model_config(text, strlen(text), NULL, m, why);
}

static void test_config(void **state UNUSED)
{
    struct size_model m, named;
    struct refusal why;

    assert_int_equal(
        config("{\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_size\":3584,"
               "\"intermediate_size\":18944,\"max_position_embeddings\":131072,"
               "\"max_window_layers\":28,\"model_type\":\"qwen2\",\"num_attention_heads\":28,"
               "\"num_hidden_layers\":28,\"num_key_value_heads\":4,\"rms_norm_eps\":1e-06,"
               "\"rope_theta\":1000000.0,\"sliding_window\":131072,\"tie_word_embeddings\":false,"
               "\"torch_dtype\":\"bfloat16\",\"use_sliding_window\":false,\"vocab_size\":152064}",
               &m, &why),
        ERR_OK);
    assert_int_equal(model_named("Qwen2.5-7B", &named, &why), ERR_OK);
    assert_int_equal(size_params_total(&m), size_params_total(&named));
    assert_int_equal(m.window, 0);
    assert_int_equal(m.stored, SIZE_BF16);
    struct size_kv kv = {0};
    assert_int_equal(size_kv_token(&m, &kv), 57344);
}

static void test_config_experts(void **state UNUSED)
{
    struct size_model m;
    struct refusal why;

    assert_int_equal(
        config("{\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,\"intermediate_size\":18432,"
               "\"moe_intermediate_size\":2048,\"num_hidden_layers\":61,\"n_shared_experts\":1,"
               "\"n_routed_experts\":256,\"num_experts_per_tok\":8,\"first_k_dense_replace\":3,"
               "\"moe_layer_freq\":1,\"num_attention_heads\":128,\"num_key_value_heads\":128,"
               "\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,"
               "\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"vocab_size\":129280,"
               "\"tie_word_embeddings\":false,\"quantization_config\":{\"quant_method\":\"fp8\","
               "\"weight_block_size\":[128,128]}}",
               &m, &why),
        ERR_OK);
    assert_int_equal(size_params_total(&m), params_of("DeepSeek-V3"));
    assert_int_equal(m.stored, SIZE_FP8);
    struct size_kv kv = {0};
    assert_int_equal(size_kv_token(&m, &kv), 70272);
}

static void test_config_parts(void **state UNUSED)
{
    struct size_model m;
    struct refusal why;

    /* the text part counts, wherever the outer kind stands; the tower is added */
    assert_int_equal(
        config("{\"text_config\":{\"model_type\":\"gemma3_text\",\"hidden_size\":2560,"
               "\"intermediate_size\":10240,\"num_attention_heads\":8,\"num_key_value_heads\":4,"
               "\"head_dim\":256,\"num_hidden_layers\":34,\"sliding_window\":1024,"
               "\"vocab_size\":262208},\"model_type\":\"gemma3\",\"vision_config\":{"
               "\"hidden_size\":1152,\"image_size\":896,\"intermediate_size\":4304,"
               "\"model_type\":\"siglip_vision_model\",\"num_hidden_layers\":27,"
               "\"patch_size\":14,\"num_attention_heads\":16}}",
               &m, &why),
        ERR_OK);
    assert_true(m.tied);
    assert_int_equal(m.window, 1024);
    assert_int_equal(m.window_every, 6);
    assert_true(llabs(m.tower_params - 417000000) < 10000000);
    assert_true(llabs(size_params_total(&m) - 4300079472) < 20000000);
}

/* Qwen2.5-VL-7B, published as 8,292,166,656: its tower merges four neighbours through an MLP. */
static void test_config_tower(void **state UNUSED)
{
    struct size_model m;
    struct refusal why;

    assert_int_equal(
        config(
            "{\"model_type\":\"qwen2_5_vl\",\"hidden_size\":3584,\"intermediate_size\":18944,"
            "\"num_attention_heads\":28,\"num_hidden_layers\":28,\"num_key_value_heads\":4,"
            "\"tie_word_embeddings\":false,\"vocab_size\":152064,\"vision_config\":{\"depth\":32,"
            "\"hidden_size\":1280,\"intermediate_size\":3420,\"out_hidden_size\":3584,"
            "\"patch_size\":14,\"spatial_merge_size\":2}}",
            &m, &why),
        ERR_OK);
    assert_true(llabs(size_params_total(&m) - 8292166656) < 10000000);
}

static void test_config_broken(void **state UNUSED)
{
    static const struct {
        const char *text;
        enum err want;
        const char *why;
    } rows[] = {
        {"", ERR_MODEL_FILE, "not JSON"},
        {"[]", ERR_MODEL_FILE, "not JSON"},
        {"{\"hidden_size\":", ERR_MODEL_FILE, "ends in the middle"},
        {"{\"hidden_size\":\"big\"}", ERR_MODEL_FILE, "hidden_size|a whole number"},
        {"{\"hidden_size\":9223372036854775808}", ERR_MODEL_FILE, "hidden_size|a number is too"},
        {"{\"hidden_size\":4.5}", ERR_MODEL_FILE, "hidden_size|a whole number"},
        {"{\"hidden_size\":[1]}", ERR_MODEL_FILE, "hidden_size|a whole number"},
        {"{\"model_type\":\"llama\"}", ERR_MODEL_FILE, "num_hidden_layers|it is missing"},
        {"{\"model_type\":\"zebra\",\"num_hidden_layers\":2}", ERR_MODEL_KIND, "zebra|"},
        {"{\"num_hidden_layers\":2}", ERR_MODEL_KIND, "-|"},
        {"{\"a\":1}{", ERR_MODEL_FILE, "not JSON"},
        {"{\"a\":1,}", ERR_MODEL_FILE, "not JSON"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":64,"
         "\"num_attention_heads\":3,\"num_key_value_heads\":2,\"vocab_size\":10}",
         ERR_VALIDATION, "kv_heads|"},
    };
    struct size_model m;
    struct refusal why;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char said[512];
        assert_int_equal(config(rows[i].text, &m, &why), rows[i].want);
        assert_true(str_printf(said, sizeof(said), "%s|%s", why.params[0].value,
                               why.param_count > 1 ? why.params[1].value : ""));
        if (!strstr(said, rows[i].why))
            fail_msg("%s: %s not said", rows[i].text, rows[i].why);
    }
}

static void test_config_deep(void **state UNUSED)
{
    static char text[200000];
    struct size_model m;
    struct refusal why;

    memset(text, '[', sizeof(text));
    memcpy(text, "{\"a\":", 5);
    assert_int_equal(model_config(text, sizeof(text), NULL, &m, &why), ERR_MODEL_FILE);
    assert_string_equal(why.params[1].value, "it is nested too deeply");
    assert_int_equal(model_config("{}", 2, "llama", &m, &why), ERR_MODEL_FILE);
}

/* ---- safetensors ---- */

static void test_safetensors(void **state UNUSED)
{
    static const char text[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"model.embed_tokens.weight\":{\"dtype\":\"BF16\",\"shape\":[1000,256],"
        "\"data_offsets\":[0,512000]},"
        "\"model.layers.0.self_attn.q_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[256,256],"
        "\"data_offsets\":[512000,643072]},"
        "\"model.layers.0.self_attn.k_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[128,256],"
        "\"data_offsets\":[643072,708608]},"
        "\"model.layers.0.mlp.up_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[512,256],"
        "\"data_offsets\":[708608,970752]}}";
    struct model_tensors t = {0};
    struct size_model m = {0};
    struct refusal why;

    assert_int_equal(model_safetensors_add(text, sizeof(text) - 1, 970752, &t, &why), ERR_OK);
    assert_int_equal(model_take_tensors(&t, &m, &why), ERR_OK);
    assert_int_equal(m.weight_bytes, 970752);
    assert_int_equal(size_params_total(&m), 485376);
    assert_int_equal(m.heads, 2);
    assert_int_equal(m.kv_heads, 1);
    assert_int_equal(m.layers, 1);
    assert_true(m.tied);
    assert_int_equal(size_weight_bytes(&m, SIZE_BF16), 970752);
}

static void test_safetensors_broken(void **state UNUSED)
{
    static const char *const rows[][2] = {
        {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}",
         "a number is too large"},
        {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         "a tensor's bytes do not fit its shape"},
        {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[8,16]}}",
         "a tensor lies behind the end of the file"},
        {"{\"a\":{\"dtype\":\"X9\",\"shape\":[4],\"data_offsets\":[0,8]}}",
         "a tensor has an unknown type"},
        {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[-4],\"data_offsets\":[0,8]}}",
         "a size is negative"},
        {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[4]}}", "a tensor has no place in the file"},
        {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,8]}}",
         "a tensor has too many dimensions"},
        {"{\"a\":1}", "a value of another kind was expected"},
        {"{\"a\":x}", "it is not JSON"},
        {"{\"a\":", "it ends in the middle"},
    };
    const uint8_t huge[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, more[8] = {100};
    struct refusal why;
    size_t len;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct model_tensors t = {0};
        assert_int_equal(model_safetensors_add(rows[i][0], strlen(rows[i][0]), 10, &t, &why),
                         ERR_MODEL_FILE);
        assert_string_equal(why.params[1].value, rows[i][1]);
    }
    assert_int_equal(model_safetensors_header(huge, 1 << 30, &len, &why), ERR_MODEL_FILE);
    assert_int_equal(model_safetensors_header(more, 107, &len, &why), ERR_MODEL_FILE);
    assert_int_equal(model_safetensors_header(more, 108, &len, &why), ERR_OK);
    assert_int_equal(len, 100);
    assert_int_equal(model_safetensors_header(more, 4, &len, &why), ERR_MODEL_FILE);
}

static void test_tower_width_beside_the_text_width(void **state UNUSED)
{
    static const char text[] =
        "{\"model_type\":\"qwen2_vl\",\"hidden_size\":3584,\"intermediate_size\":18944,"
        "\"num_hidden_layers\":28,\"num_attention_heads\":28,\"num_key_value_heads\":4,"
        "\"vocab_size\":152064,\"vision_config\":{\"depth\":32,\"embed_dim\":1280,"
        "\"mlp_ratio\":4,\"num_heads\":16,\"hidden_size\":3584,\"patch_size\":14,"
        "\"spatial_merge_size\":2}}";
    struct size_model m;
    struct refusal why;

    assert_int_equal(model_config(text, sizeof(text) - 1, NULL, &m, &why), ERR_OK);
    assert_in_range(m.tower_params, 665000000, 685000000); /* published: 675 M */
}

/* A download that stopped half way: the configuration says how much there should be. */
static void test_safetensors_partial(void **state UNUSED)
{
    struct refusal why;
    static const struct {
        enum size_format type;
        int64_t params, bytes;
        enum err want;
    } rows[] = {{SIZE_BF16, 8030261248, 16060522496, ERR_OK},
                {SIZE_BF16, 6100000000, 12200000000, ERR_OK},
                {SIZE_BF16, 4000000000, 8000000000, ERR_MODEL_FILE},
                {SIZE_I32, 1004000000, 4016000000, ERR_OK},
                {SIZE_I32, 200000000, 800000000, ERR_MODEL_FILE}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct size_model m = {0};
        struct model_tensors t = {.type_count = 1, .count = 1, .bytes = rows[i].bytes};
        t.type[0] = (struct size_type_sum){rows[i].type, rows[i].params, rows[i].bytes};
        assert_int_equal(model_named("Llama-3.1-8B", &m, &why), ERR_OK);
        assert_int_equal(model_take_tensors(&t, &m, &why), rows[i].want);
    }
}

static void test_index(void **state UNUSED)
{
    static const char good[] = "{\"metadata\":{\"total_size\":15231233024},\"weight_map\":{\"a\":"
                               "\"model-00001-of-00004.safetensors\"}}";
    struct refusal why;
    int64_t total;

    assert_int_equal(model_index(good, sizeof(good) - 1, &total, &why), ERR_OK);
    assert_int_equal(total, 15231233024);
    assert_int_equal(model_index(good, sizeof(good) - 9, &total, &why), ERR_MODEL_FILE);
    assert_int_equal(model_index("{\"metadata\":{\"total_size\":-1}}", 30, &total, &why),
                     ERR_MODEL_FILE);
    assert_int_equal(model_index("{}", 2, &total, &why), ERR_OK);
    assert_int_equal(total, 0);
}

/* ---- GGUF ---- */

struct bytes {
    uint8_t at[4096];
    size_t n;
};

static void put(struct bytes *b, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b->at[b->n++] = (uint8_t)(v >> (8 * i));
}

static void put_text(struct bytes *b, const char *s)
{
    put(b, strlen(s), 8);
    memcpy(b->at + b->n, s, strlen(s));
    b->n += strlen(s);
}

static void put_u32(struct bytes *b, const char *key, uint32_t v)
{
    put_text(b, key);
    put(b, 4, 4);
    put(b, v, 4);
}

static void put_tensor(struct bytes *b, const char *name, uint64_t x, uint64_t y, uint32_t type)
{
    put_text(b, name);
    put(b, 2, 4);
    put(b, x, 8);
    put(b, y, 8);
    put(b, type, 4);
    put(b, 0, 8);
}

static void gguf_make(struct bytes *b)
{
    memcpy(b->at, "GGUF", 4);
    b->n = 4;
    put(b, 3, 4);
    put(b, 3, 8);
    put(b, 9, 8);
    put_text(b, "general.architecture");
    put(b, 8, 4);
    put_text(b, "llama");
    put_text(b, "tokenizer.ggml.tokens");
    put(b, 9, 4);
    put(b, 8, 4);
    put(b, 2, 8);
    put_text(b, "a");
    put_text(b, "bc");
    put_u32(b, "llama.block_count", 1);
    put_u32(b, "llama.embedding_length", 256);
    put_u32(b, "llama.feed_forward_length", 512);
    put_u32(b, "llama.attention.head_count", 4);
    put_text(b, "llama.attention.head_count_kv");
    put(b, 9, 4);
    put(b, 5, 4);
    put(b, 1, 8);
    put(b, 2, 4);
    put_u32(b, "llama.context_length", 4096);
    put_text(b, "llama.rope.freq_base");
    put(b, 6, 4);
    put(b, 0x461c4000, 4);
    put_tensor(b, "token_embd.weight", 256, 1000, 12);
    put_tensor(b, "blk.0.ffn_gate.weight", 256, 512, 14);
    put_tensor(b, "output.weight", 256, 1000, 14);
}

static void test_gguf(void **state UNUSED)
{
    struct bytes b = {0};
    struct size_model m;
    struct refusal why;

    gguf_make(&b);
    assert_int_equal(model_gguf(b.at, b.n, &m, &why), ERR_OK);
    assert_int_equal(m.weight_bytes, 1000 * 144 + 512 * 210 + 1000 * 210);
    assert_int_equal(m.params_exact, 256 * 2512);
    assert_int_equal(m.vocab, 1000);
    assert_int_equal(m.kv_heads, 2);
    assert_true(m.gated && !m.tied);
    /* every cut of it is refused, none reads past its end */
    for (size_t n = 0; n < b.n; n++) {
        uint8_t *copy = mem_dup(b.at, n ? n : 1);
        assert_int_equal(model_gguf(copy, n, &m, &why), ERR_MODEL_FILE);
        free(copy);
    }
    /* what follows the table does not matter: a file may be cut anywhere behind it */
    assert_int_equal(model_gguf(b.at, b.n + 100, &m, &why), ERR_OK);
}

static void test_gguf_hostile(void **state UNUSED)
{
    struct bytes good = {0};
    struct size_model m;
    struct refusal why;

    gguf_make(&good);
    /* no byte of it, whatever it becomes, makes a crash or a model that cannot be counted */
    for (size_t i = 0; i < good.n; i++)
        for (int v = 0; v < 256; v += 51) {
            struct bytes b = good;
            b.at[i] = (uint8_t)v;
            enum err e = model_gguf(b.at, b.n, &m, &why);
            if (e != ERR_OK && e != ERR_MODEL_FILE && e != ERR_VALIDATION)
                fail_msg("byte %zu = %d: %d", i, v, (int)e);
        }
    struct bytes b = good;
    b.n = 8;
    put(&b, UINT64_C(1) << 63, 8);
    assert_int_equal(model_gguf(b.at, good.n, &m, &why), ERR_MODEL_FILE);
    b = good;
    b.n = 24;
    put(&b, UINT64_C(1) << 63, 8);
    assert_int_equal(model_gguf(b.at, good.n, &m, &why), ERR_MODEL_FILE);
    assert_string_equal(why.params[1].value, "a number is too large");
}

/* ---- cards ---- */

static void test_cards(void **state UNUSED)
{
    static const struct {
        const char *name;
        int64_t mib;
        const char *want;
    } rows[] = {{"RTX 4090", 24564, "RTX 4090"},
                {"GeForce RTX 4090", 0, "RTX 4090"},
                {"RTX 4090 (simulated)", 24576, "RTX 4090"},
                {"4090 D", 0, "RTX 4090 D"},
                {"A100-SXM4-80GB", 81920, "A100 SXM4 80GB"},
                {"NVIDIA A100-PCIE-40GB", 40960, "A100 PCIe 40GB"},
                {"a100 80gb", 0, "A100 SXM4 80GB"},
                {"H100 80GB HBM3", 81559, "H100 SXM5 80GB"},
                {"H100 PCIe", 81559, "H100 PCIe 80GB"},
                {"RTX 6000 Ada Generation", 49140, "RTX 6000 Ada"},
                {"L40S", 46068, "L40S"},
                {"L4", 23034, "L4"},
                {"Tesla T4", 15360, "T4"},
                {"Ascend 910B3", 65536, "Ascend 910B2/B3"},
                {"H200", 143771, "H200 SXM 141GB"}};
    static const char *const none[] = {"", "Voodoo 2", "RTX", "A", "4090x", "L400"};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct card_row *r = card_find(rows[i].name, rows[i].mib);
        if (!r || !str_eq(r->name, rows[i].want))
            fail_msg("%s is %s, not %s", rows[i].name, r ? r->name : "none", rows[i].want);
    }
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_null(card_find(none[i], 0));
    assert_null(card_find("RTX 4090", 81920));
}

static void test_card_rows(void **state UNUSED)
{
    for (size_t i = 0; i < card_row_count; i++) {
        const struct card_row *r = &card_rows[i];
        const char *pos = r->mig;
        char name[16];
        int64_t mib, count;

        assert_true(r->usable_mib > 0 && r->usable_mib <= r->memory_gib * 1024);
        assert_true(r->tflops16 > 0 && r->domain >= 1 && r->bandwidth_gbps > 0);
        if (card_find(r->name, r->memory_gib * 1024) != r)
            fail_msg("%s does not find itself", r->name);
        while (card_slice_next(&pos, name, &mib, &count))
            assert_true(mib > 0 && count >= 1 && mib <= r->memory_gib * 1024);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_name_formats),
        cmocka_unit_test(test_unknown_name),  cmocka_unit_test(test_counts),
        cmocka_unit_test(test_every_row),     cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_config),        cmocka_unit_test(test_config_experts),
        cmocka_unit_test(test_config_parts),  cmocka_unit_test(test_config_tower),
        cmocka_unit_test(test_config_broken), cmocka_unit_test(test_config_deep),
        cmocka_unit_test(test_safetensors),   cmocka_unit_test(test_safetensors_broken),
        cmocka_unit_test(test_tower_width_beside_the_text_width),
        cmocka_unit_test(test_safetensors_partial),
        cmocka_unit_test(test_index),         cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_gguf_hostile),  cmocka_unit_test(test_cards),
        cmocka_unit_test(test_card_rows),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
