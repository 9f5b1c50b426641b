/* model_config.c: the fields of a Hugging Face config.json. The same thing has many names there;
 * the tables below say which. What an architecture adds that no field says (norms, biases, whether
 * the head is tied) is a trait of its model_type. */
#include <stdlib.h>

#include "base/jscan.h"
#include "base/msg.h"
#include "base/str.h"
#include "domain/model.h"

#define VALUE_MAX INT64_C(2147483647)
#define NESTED_MAX 2

struct config {
    int64_t layers, hidden, ffn, heads, kv, head_dim, vocab, context, tied, attention_bias;
    int64_t mlp_bias, multi_query, new_decoder, parallel_attn;
    int64_t experts, active, moe_ffn, shared_ffn, shared, dense_first, sparse_step, mtp;
    int64_t q_lora, kv_lora, nope, rope, value, window, use_window, pattern, full_every;
    int64_t lin_keys, lin_key_dim, lin_values, lin_value_dim;
    int64_t full, sliding, linear; /* layers of each kind that are listed */
    int64_t bits, load_4, load_8, double_quant;
    struct {
        int64_t layers, hidden, embed, ffn, patch, image, merge, out;
    } tower;
    char kind[40], dtype[16], method[24];
    bool inner_kind; /* kind is that of the text part */
};
#define UNSAID (-1)

enum type { WHOLE, FLAG, TEXT };
struct field {
    const char *key;
    enum type type;
    size_t at;
};
#define AT(f) offsetof(struct config, f)

static const struct field fields[] = {
    {"num_hidden_layers", WHOLE, AT(layers)},
    {"n_layer", WHOLE, AT(layers)},
    {"n_layers", WHOLE, AT(layers)},
    {"num_layers", WHOLE, AT(layers)},
    {"hidden_size", WHOLE, AT(hidden)},
    {"n_embd", WHOLE, AT(hidden)},
    {"d_model", WHOLE, AT(hidden)},
    {"intermediate_size", WHOLE, AT(ffn)},
    {"ffn_hidden_size", WHOLE, AT(ffn)},
    {"ffn_dim", WHOLE, AT(ffn)},
    {"n_inner", WHOLE, AT(ffn)},
    {"num_attention_heads", WHOLE, AT(heads)},
    {"n_head", WHOLE, AT(heads)},
    {"n_heads", WHOLE, AT(heads)},
    {"num_key_value_heads", WHOLE, AT(kv)},
    {"num_kv_heads", WHOLE, AT(kv)},
    {"multi_query_group_num", WHOLE, AT(kv)},
    {"head_dim", WHOLE, AT(head_dim)},
    {"kv_channels", WHOLE, AT(head_dim)},
    {"vocab_size", WHOLE, AT(vocab)},
    {"padded_vocab_size", WHOLE, AT(vocab)},
    {"max_position_embeddings", WHOLE, AT(context)},
    {"n_positions", WHOLE, AT(context)},
    {"seq_length", WHOLE, AT(context)},
    {"tie_word_embeddings", FLAG, AT(tied)},
    {"attention_bias", FLAG, AT(attention_bias)},
    {"mlp_bias", FLAG, AT(mlp_bias)},
    {"multi_query", FLAG, AT(multi_query)},
    {"new_decoder_architecture", FLAG, AT(new_decoder)},
    {"num_local_experts", WHOLE, AT(experts)},
    {"num_experts", WHOLE, AT(experts)},
    {"n_routed_experts", WHOLE, AT(experts)},
    {"num_experts_per_tok", WHOLE, AT(active)},
    {"num_experts_per_token", WHOLE, AT(active)},
    {"moe_intermediate_size", WHOLE, AT(moe_ffn)},
    {"shared_expert_intermediate_size", WHOLE, AT(shared_ffn)},
    {"n_shared_experts", WHOLE, AT(shared)},
    {"first_k_dense_replace", WHOLE, AT(dense_first)},
    {"decoder_sparse_step", WHOLE, AT(sparse_step)},
    {"num_nextn_predict_layers", WHOLE, AT(mtp)},
    {"q_lora_rank", WHOLE, AT(q_lora)},
    {"kv_lora_rank", WHOLE, AT(kv_lora)},
    {"qk_nope_head_dim", WHOLE, AT(nope)},
    {"qk_rope_head_dim", WHOLE, AT(rope)},
    {"v_head_dim", WHOLE, AT(value)},
    {"sliding_window", WHOLE, AT(window)},
    {"use_sliding_window", FLAG, AT(use_window)},
    {"sliding_window_pattern", WHOLE, AT(pattern)},
    {"_sliding_window_pattern", WHOLE, AT(pattern)},
    {"full_attention_interval", WHOLE, AT(full_every)},
    {"linear_num_key_heads", WHOLE, AT(lin_keys)},
    {"linear_key_head_dim", WHOLE, AT(lin_key_dim)},
    {"linear_num_value_heads", WHOLE, AT(lin_values)},
    {"linear_value_head_dim", WHOLE, AT(lin_value_dim)},
    {"model_type", TEXT, AT(kind)},
    {"torch_dtype", TEXT, AT(dtype)},
    {"dtype", TEXT, AT(dtype)},
};
static const struct field quant_fields[] = {
    {"quant_method", TEXT, AT(method)},
    {"bits", WHOLE, AT(bits)},
    {"load_in_4bit", FLAG, AT(load_4)},
    {"load_in_8bit", FLAG, AT(load_8)},
    {"bnb_4bit_use_double_quant", FLAG, AT(double_quant)},
};
static const struct field tower_fields[] = {
    {"num_hidden_layers", WHOLE, AT(tower.layers)}, {"depth", WHOLE, AT(tower.layers)},
    {"hidden_size", WHOLE, AT(tower.hidden)},       {"embed_dim", WHOLE, AT(tower.embed)},
    {"intermediate_size", WHOLE, AT(tower.ffn)},    {"patch_size", WHOLE, AT(tower.patch)},
    {"image_size", WHOLE, AT(tower.image)},         {"spatial_merge_size", WHOLE, AT(tower.merge)},
    {"out_hidden_size", WHOLE, AT(tower.out)},
};

enum trait {
    PLAIN_MLP = 1 << 0,
    LAYERNORM = 1 << 1,
    ONE_NORM = 1 << 2,
    FOUR_NORMS = 1 << 3,
    QKV_BIAS = 1 << 4,
    OUT_BIAS = 1 << 5,
    MLP_BIAS = 1 << 6,
    HEAD_BIAS = 1 << 7,
    TIED = 1 << 8,
    QK_NORM = 1 << 9,
    POSITIONS = 1 << 10,
    SHARED_GATE = 1 << 11,
    HALF_FFN = 1 << 12, /* the field says twice the width */
    ROUTER_BIAS = 1 << 13,
    WINDOW_2 = 1 << 14, /* every other layer has no window */
    WINDOW_6 = 1 << 15,
    NO_WINDOW = 1 << 16, /* the field is there and unused unless use_sliding_window */
    OLD_GPT = LAYERNORM | PLAIN_MLP | QKV_BIAS | OUT_BIAS | MLP_BIAS,
};
static const struct {
    const char *kind;
    unsigned traits;
} kinds[] = {
    {"llama", 0},
    {"mistral", 0},
    {"mixtral", 0},
    {"qwen", QKV_BIAS | HALF_FFN},
    {"qwen2", QKV_BIAS | NO_WINDOW},
    {"qwen2_moe", QKV_BIAS | SHARED_GATE | NO_WINDOW},
    {"qwen2_vl", QKV_BIAS | NO_WINDOW},
    {"qwen2_5_vl", QKV_BIAS | NO_WINDOW},
    {"qwen2_5_vl_text", QKV_BIAS | NO_WINDOW},
    {"qwen2_vl_text", QKV_BIAS | NO_WINDOW},
    {"qwen3", QK_NORM | NO_WINDOW},
    {"qwen3_moe", QK_NORM | NO_WINDOW},
    {"qwen3_vl_text", QK_NORM | NO_WINDOW},
    {"qwen3_vl_moe_text", QK_NORM | NO_WINDOW},
    {"qwen3_next", QK_NORM | SHARED_GATE | NO_WINDOW},
    {"gemma", TIED},
    {"gemma2", TIED | FOUR_NORMS | WINDOW_2},
    {"gemma3", TIED | FOUR_NORMS | QK_NORM | WINDOW_6},
    {"gemma3_text", TIED | FOUR_NORMS | QK_NORM | WINDOW_6},
    {"phi", OLD_GPT | ONE_NORM | HEAD_BIAS},
    {"phi3", 0},
    {"phimoe", LAYERNORM | QKV_BIAS | OUT_BIAS | HEAD_BIAS},
    {"gpt2", OLD_GPT | TIED | POSITIONS},
    {"gpt_neox", OLD_GPT},
    {"gptj", LAYERNORM | PLAIN_MLP | MLP_BIAS | ONE_NORM | HEAD_BIAS},
    {"gpt_bigcode", OLD_GPT | TIED | POSITIONS},
    {"starcoder2", OLD_GPT},
    {"falcon", LAYERNORM | PLAIN_MLP | TIED | ONE_NORM},
    {"opt", OLD_GPT | TIED | POSITIONS},
    {"bloom", OLD_GPT | TIED},
    {"mpt", LAYERNORM | PLAIN_MLP | TIED},
    {"stablelm", LAYERNORM},
    {"chatglm", QKV_BIAS},
    {"glm", QKV_BIAS},
    {"glm4", QKV_BIAS | FOUR_NORMS},
    {"glm4_moe", QKV_BIAS | ROUTER_BIAS},
    {"deepseek", 0},
    {"deepseek_v2", 0},
    {"deepseek_v3", ROUTER_BIAS},
    {"kimi_k2", ROUTER_BIAS},
    {"baichuan", 0},
    {"internlm", 0},
    {"internlm2", 0},
    {"internlm3", 0},
    {"cohere", LAYERNORM | ONE_NORM | TIED},
    {"cohere2", LAYERNORM | ONE_NORM | TIED},
    {"olmo", 0},
    {"olmo2", 0},
    {"olmoe", QK_NORM},
    {"granite", 0},
    {"granitemoe", 0},
    {"minicpm", TIED},
    {"minicpm3", TIED},
    {"nemotron", LAYERNORM | PLAIN_MLP},
    {"exaone", 0},
    {"smollm3", TIED},
    {"seed_oss", QKV_BIAS},
    {"ernie4_5", TIED},
    {"gpt_oss", QKV_BIAS | OUT_BIAS | ROUTER_BIAS | WINDOW_2},
    {"yi", 0},
    {"aquila", 0},
    {"mimo", QKV_BIAS},
};

static const unsigned *traits_of(const char *kind)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (str_eq(kinds[i].kind, kind))
            return &kinds[i].traits;
    return NULL;
}

static enum err broken(struct refusal *why, const char *field, const char *text)
{
    enum err e = refuse(why, ERR_MODEL_FILE);

    refusal_setf(why, "what", "config.json%s%s", field && *field ? ": " : "", field ? field : "");
    refusal_set(why, "why", text);
    return e;
}

static bool text_take(struct jscan *s, const struct field *f, struct config *c)
{
    if (f->at == AT(kind))
        return jscan_text(s, c->kind, sizeof(c->kind));
    if (f->at == AT(dtype))
        return jscan_text(s, c->dtype, sizeof(c->dtype));
    return jscan_text(s, c->method, sizeof(c->method));
}

static bool field_take(struct jscan *s, const struct field *f, struct config *c)
{
    bool flag;

    if (jscan_peek(s) == JSCAN_WORD && *s->at == 'n')
        return jscan_skip(s); /* null: not said */
    if (f->type == TEXT)
        return text_take(s, f, c);
    int64_t *to = (int64_t *)(void *)((char *)c + f->at);
    if (f->type == FLAG) {
        if (!jscan_bool(s, &flag))
            return false;
        *to = flag;
        return true;
    }
    if (!jscan_i64(s, to))
        return false;
    if (*to > VALUE_MAX)
        s->fault = N_("a number is too large");
    *to = MAX(*to, (int64_t)0);
    return !s->fault;
}

static const struct field *field_find(const struct field *list, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(list[i].key, key))
            return &list[i];
    return NULL;
}

static bool flat_object(struct jscan *s, const struct field *list, size_t count, struct config *c,
                        char *key, size_t size)
{
    if (jscan_peek(s) != JSCAN_OBJECT)
        return jscan_skip(s);
    if (!jscan_object(s))
        return false;
    while (jscan_key(s, key, size)) {
        const struct field *f = field_find(list, count, key);
        /* what another version keeps in another form there is none of our business */
        bool mine = f && (jscan_peek(s) == JSCAN_NUMBER || jscan_peek(s) == JSCAN_WORD ||
                          jscan_peek(s) == JSCAN_TEXT);
        if (!(mine ? field_take(s, f, c) : jscan_skip(s)))
            return false;
    }
    return !s->fault;
}

static bool layer_types(struct jscan *s, struct config *c)
{
    char text[32];

    if (jscan_peek(s) != JSCAN_ARRAY)
        return jscan_skip(s);
    if (!jscan_array(s))
        return false;
    c->full = c->sliding = c->linear = 0;
    while (jscan_item(s)) {
        if (jscan_peek(s) != JSCAN_TEXT ? !jscan_skip(s) : !jscan_text(s, text, sizeof(text)))
            return false;
        c->full += str_eq(text, "full_attention");
        c->sliding += str_eq(text, "sliding_attention");
        c->linear += str_eq(text, "linear_attention");
    }
    return !s->fault;
}

static bool is_text_part(const char *key)
{
    return str_eq(key, "text_config") || str_eq(key, "llm_config") ||
           str_eq(key, "language_config") || str_eq(key, "thinker_config");
}

static bool config_object(struct jscan *s, struct config *c, int nested, char *key, size_t size)
{
    if (!jscan_object(s))
        return false;
    while (jscan_key(s, key, size)) {
        const struct field *f = field_find(fields, ARRAY_LEN(fields), key);
        bool ok;
        if (f && f->at == AT(kind) && nested == 0 && c->inner_kind)
            ok = jscan_skip(s);
        else if (f)
            ok = field_take(s, f, c);
        else if (nested < NESTED_MAX && is_text_part(key) && jscan_peek(s) == JSCAN_OBJECT)
            ok = config_object(s, c, nested + 1, key, size);
        else if (str_eq(key, "layer_types"))
            ok = layer_types(s, c);
        else if (str_eq(key, "quantization_config"))
            ok = flat_object(s, quant_fields, ARRAY_LEN(quant_fields), c, key, size);
        else if (str_eq(key, "vision_config") || str_eq(key, "audio_config"))
            ok = flat_object(s, tower_fields, ARRAY_LEN(tower_fields), c, key, size);
        else
            ok = jscan_skip(s);
        if (!ok)
            return false;
    }
    c->inner_kind |= nested > 0 && traits_of(c->kind);
    return !s->fault;
}

static enum size_format stored_of(const struct config *c)
{
    if (str_eq(c->method, "awq"))
        return SIZE_AWQ4;
    if (str_eq(c->method, "gptq"))
        return c->bits == 8 ? SIZE_GPTQ8 : SIZE_GPTQ4;
    if (str_eq(c->method, "fp8") || str_eq(c->method, "fbgemm_fp8"))
        return SIZE_FP8;
    if (str_eq(c->method, "mxfp4"))
        return SIZE_MXFP4;
    if (str_eq(c->method, "compressed-tensors"))
        return SIZE_W8A8;
    if (str_eq(c->method, "bitsandbytes") && c->load_8 == 1)
        return SIZE_INT8;
    if (str_eq(c->method, "bitsandbytes"))
        return c->double_quant == 1 ? SIZE_NF4_DQ : SIZE_NF4;
    return size_format_named(c->dtype);
}

static void take_moe(const struct config *c, unsigned traits, struct size_model *m)
{
    m->moe = (struct size_moe){
        .experts = c->experts,
        .active = c->active,
        .ffn = c->moe_ffn ? c->moe_ffn : c->ffn,
        .shared_ffn = c->shared_ffn ? c->shared_ffn : c->shared * c->moe_ffn,
        .dense_first = c->dense_first,
        .every = c->sparse_step,
        .shared_gate = (traits & SHARED_GATE) && c->shared_ffn > 0,
        .router_bias = (traits & ROUTER_BIAS) != 0,
    };
}

static void take_window(const struct config *c, unsigned traits, struct size_model *m)
{
    if ((traits & NO_WINDOW) && c->use_window != 1 && c->sliding == 0)
        return;
    if (c->full + c->sliding > 0 && c->sliding == 0)
        return;
    m->window = c->window;
    if (c->window == 0)
        return;
    if (c->sliding > 0)
        m->window_every = c->full > 0 ? (c->full + c->sliding) / c->full : 0;
    else if (c->pattern > 0)
        m->window_every = c->pattern;
    else
        m->window_every = traits & WINDOW_2 ? 2 : (traits & WINDOW_6 ? 6 : 0);
}

/* Layers without attention (a gated delta rule): their matrices, and the state of a sequence. */
static void take_linear(const struct config *c, struct size_model *m)
{
    int64_t keys = c->lin_keys * c->lin_key_dim, values = c->lin_values * c->lin_value_dim;
    int64_t full = c->linear > 0 ? c->full : (c->full_every > 0 ? c->layers / c->full_every : 0);

    if (keys == 0 || values == 0 || full <= 0 || full >= c->layers || keys > 1 << 20 ||
        values > 1 << 20 || c->layers > 10000)
        return;
    m->kv_layers = full;
    m->linear_params = c->hidden * (2 * keys + 2 * values + 2 * c->lin_values) +
                       4 * (2 * keys + values) + values * c->hidden;
    m->state_bytes =
        (c->layers - full) * (values * c->lin_key_dim * 4 + 3 * (2 * keys + values) * 2);
}

static void take_tower(const struct config *c, struct size_model *m)
{
    /* Qwen2-VL says its width as embed_dim, and hidden_size is then the text model's */
    bool wide = c->tower.embed > 0 && c->tower.hidden > 0;
    int64_t h = c->tower.embed > 0 ? c->tower.embed : c->tower.hidden;
    int64_t f = c->tower.ffn ? c->tower.ffn : 4 * h, out = wide ? c->tower.hidden : c->tower.out;

    if (c->tower.layers <= 0 || c->tower.layers > 1000 || h <= 0 || h > 100000 || f > 1000000)
        return;
    /* towers that name an output width have gated MLPs, and merge neighbours in two matrices */
    int64_t merge = MIN(MAX(c->tower.merge, (int64_t)1), (int64_t)64), side = h * merge * merge;
    bool merges = out > 0 && out <= 100000 && side <= 1000000;
    m->tower_params = c->tower.layers * (4 * h * h + (merges && !wide ? 3 : 2) * h * f + 13 * h);
    m->tower_params += merges ? side * side + side * out : 0;
    if (c->tower.patch > 0 && c->tower.patch <= 1000 && c->tower.image > 0 &&
        c->tower.image <= 100000) {
        int64_t patches = c->tower.image / c->tower.patch;
        m->tower_params += 3 * c->tower.patch * c->tower.patch * h + patches * patches * h;
        m->tower_tokens = patches * patches / (merge * merge);
    }
}

static void take_shape(const struct config *c, unsigned traits, struct size_model *m)
{
    *m = (struct size_model){
        .layers = c->layers,
        .hidden = c->hidden,
        .ffn = traits & HALF_FFN ? c->ffn / 2 : c->ffn,
        .heads = c->heads,
        .kv_heads = c->multi_query == 1 && c->new_decoder != 1 ? 1 : c->kv,
        .head_dim = c->head_dim,
        .vocab = c->vocab,
        .norms = traits & ONE_NORM ? 1 : (traits & FOUR_NORMS ? 4 : 2),
        .norm = traits & LAYERNORM ? SIZE_LAYERNORM : SIZE_RMS,
        .tied = c->tied == UNSAID ? (traits & TIED) != 0 : c->tied == 1,
        .gated = !(traits & PLAIN_MLP),
        .qkv_bias = (traits & QKV_BIAS) || c->attention_bias == 1,
        .out_bias = (traits & OUT_BIAS) || (c->attention_bias == 1 && !(traits & QKV_BIAS)),
        .mlp_bias = (traits & MLP_BIAS) || c->mlp_bias == 1,
        .head_bias = (traits & HEAD_BIAS) != 0,
        .qk_norm = (traits & QK_NORM) != 0,
        .positions = traits & POSITIONS ? c->context : 0,
        .context_max = c->context,
        .mtp_layers = c->mtp,
        .stored = stored_of(c),
    };
    if (m->ffn == 0)
        m->ffn = 4 * c->hidden;
    if (c->kv_lora > 0)
        m->mla = (struct size_mla){c->q_lora, c->kv_lora, c->nope, c->rope, c->value};
    if (c->experts > 1)
        take_moe(c, traits, m);
    take_window(c, traits, m);
    take_linear(c, m);
    take_tower(c, m);
    size_model_default(m);
}

static enum err need(const struct config *c, struct refusal *why)
{
    const struct {
        const char *name;
        int64_t v;
    } needed[] = {{"num_hidden_layers", c->layers},
                  {"hidden_size", c->hidden},
                  {"num_attention_heads", c->heads},
                  {"vocab_size", c->vocab}};

    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (needed[i].v <= 0)
            return broken(why, needed[i].name, N_("it is missing"));
    return ERR_OK;
}

enum err model_config(const void *bytes, size_t len, const char *like, struct size_model *ret_m,
                      struct refusal *why)
{
    struct config c = {.tied = UNSAID};
    struct size_model m;
    struct jscan s;
    char key[64] = "";

    if (len > MODEL_CONFIG_MAX)
        return broken(why, NULL, N_("it is larger than any configuration"));
    jscan_init(&s, bytes, len);
    if (jscan_peek(&s) != JSCAN_OBJECT)
        return broken(why, NULL, N_("it is not JSON"));
    if (!config_object(&s, &c, 0, key, sizeof(key)) || !jscan_end(&s))
        return broken(why, s.fault == NULL || str_starts(s.fault, "it ") ? NULL : key,
                      s.fault ? s.fault : N_("it is not JSON"));
    const unsigned *traits = traits_of(like ? like : c.kind);
    if (!traits) {
        enum err e =
            refusef(why, ERR_MODEL_KIND, "kind", "%s", like ? like : (c.kind[0] ? c.kind : "-"));
        return e;
    }
    TRY(need(&c, why));
    take_shape(&c, *traits, &m);
    (void)str_copy(m.name, sizeof(m.name), c.kind);
    TRY(size_model_check(&m, why));
    *ret_m = m;
    return ERR_OK;
}
