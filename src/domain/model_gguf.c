/* model_gguf.c: the header of a GGUF file: keys and values, then the table of tensors. Only what
 * the shape of a model needs is kept; vocabularies and merges are stepped over. */
#include "base/msg.h"
#include "base/str.h"
#include "domain/model.h"

#define KEYS_MAX 65536
#define DIMS_MAX 4

struct gguf {
    const uint8_t *at, *end;
    const char *fault;
    char arch[32];
    struct {
        int64_t layers, hidden, ffn, heads, kv, key, value, vocab, context, window, pattern;
        int64_t experts, active, expert_ffn, shared, dense_first, q_lora, kv_lora, rope, key_mla;
        int64_t value_mla, mtp, kv_layers, split;
    } v;
    bool qk_norm, has_head, qkv_bias, plain_mlp, norm_bias;
    int64_t embed_rows, params;
    struct size_type_sum type[SIZE_TYPES_MAX];
    size_t type_count;
    int64_t bytes;
};

enum value_type {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    BOOL,
    STRING,
    ARRAY,
    U64,
    I64,
    F64,
    VALUE_TYPES
};
static const uint8_t value_size[VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static bool fail(struct gguf *g, const char *fault)
{
    g->fault = g->fault ? g->fault : fault;
    return false;
}

static bool raw(struct gguf *g, size_t n, const uint8_t **ret_p)
{
    if ((size_t)(g->end - g->at) < n)
        return fail(g, N_("it ends before its tensor table does"));
    *ret_p = g->at;
    g->at += n;
    return true;
}

static bool number(struct gguf *g, size_t n, uint64_t *ret_v)
{
    const uint8_t *p;
    uint64_t v = 0;

    if (!raw(g, n, &p))
        return false;
    for (size_t i = n; i > 0; i--)
        v = v << 8 | p[i - 1];
    *ret_v = v;
    return true;
}

/* A text, as it lies in the file. */
static bool text(struct gguf *g, const char **ret_s, size_t *ret_n)
{
    const uint8_t *p = NULL;
    uint64_t n;

    if (!number(g, 8, &n))
        return false;
    if (n > (uint64_t)(g->end - g->at))
        return fail(g, n > UINT32_MAX ? N_("a number is too large")
                                      : N_("it ends before its tensor table does"));
    if (!raw(g, (size_t)n, &p))
        return false;
    *ret_s = (const char *)p;
    *ret_n = (size_t)n;
    return true;
}

static bool is_key(const char *s, size_t n, const char *key)
{
    return strlen(key) == n && memcmp(s, key, n) == 0;
}

/* Where a value of the architecture goes: its key is "ARCH.NAME". */
static int64_t *field_of(struct gguf *g, const char *s, size_t n)
{
    const struct {
        const char *name;
        int64_t *to;
    } fields[] = {
        {"block_count", &g->v.layers},
        {"embedding_length", &g->v.hidden},
        {"feed_forward_length", &g->v.ffn},
        {"attention.head_count", &g->v.heads},
        {"attention.head_count_kv", &g->v.kv},
        {"attention.key_length", &g->v.key},
        {"attention.value_length", &g->v.value},
        {"attention.key_length_mla", &g->v.key_mla},
        {"attention.value_length_mla", &g->v.value_mla},
        {"attention.sliding_window", &g->v.window},
        {"attention.sliding_window_pattern", &g->v.pattern},
        {"attention.q_lora_rank", &g->v.q_lora},
        {"attention.kv_lora_rank", &g->v.kv_lora},
        {"rope.dimension_count", &g->v.rope},
        {"vocab_size", &g->v.vocab},
        {"context_length", &g->v.context},
        {"expert_count", &g->v.experts},
        {"expert_used_count", &g->v.active},
        {"expert_feed_forward_length", &g->v.expert_ffn},
        {"expert_shared_count", &g->v.shared},
        {"leading_dense_block_count", &g->v.dense_first},
        {"nextn_predict_layers", &g->v.mtp},
    };
    size_t arch = strlen(g->arch);

    if (arch == 0 || n <= arch + 1 || memcmp(s, g->arch, arch) != 0 || s[arch] != '.')
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (is_key(s + arch + 1, n - arch - 1, fields[i].name))
            return fields[i].to;
    return NULL;
}

/* Values of an array: of numbers the largest counts (head counts differ by layer in hybrids; layers
 * whose count is zero keep no cache). */
static bool array(struct gguf *g, int64_t *to)
{
    uint64_t type, count, v;
    const uint8_t *p = NULL;
    const char *s;
    size_t n;

    if (!number(g, 4, &type) || !number(g, 8, &count))
        return false;
    if (type >= VALUE_TYPES || type == ARRAY)
        return fail(g, N_("a value has an unknown type"));
    if (count > (uint64_t)(g->end - g->at))
        return fail(g, count > UINT32_MAX ? N_("a number is too large")
                                          : N_("it ends before its tensor table does"));
    if (type == STRING) {
        for (uint64_t i = 0; i < count; i++)
            if (!text(g, &s, &n))
                return false;
        return true;
    }
    if (!to || type == F32 || type == F64 || type == BOOL)
        return raw(g, (size_t)count * value_size[type], &p);
    int64_t most = 0, with = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!number(g, value_size[type], &v))
            return false;
        most = v <= INT32_MAX ? MAX(most, (int64_t)v) : most;
        with += v > 0 && v <= INT32_MAX;
    }
    *to = most;
    if (to == &g->v.kv && with < (int64_t)count)
        g->v.kv_layers = with;
    return true;
}

static bool value(struct gguf *g, const char *key, size_t key_len)
{
    int64_t *to = is_key(key, key_len, "split.count") ? &g->v.split : field_of(g, key, key_len);
    const char *s = NULL;
    uint64_t type, v;
    size_t n = 0;

    if (!number(g, 4, &type))
        return false;
    if (type >= VALUE_TYPES)
        return fail(g, N_("a value has an unknown type"));
    if (type == ARRAY)
        return array(g, to);
    if (type == STRING) {
        if (!text(g, &s, &n))
            return false;
        if (is_key(key, key_len, "general.architecture") &&
            !str_printf(g->arch, sizeof(g->arch), "%.*s", (int)MIN(n, sizeof(g->arch)), s))
            return fail(g, N_("its architecture has no name"));
        return true;
    }
    if (!number(g, value_size[type], &v))
        return false;
    if (to && type != F32 && type != F64 && type != BOOL) {
        if (v > INT32_MAX)
            return fail(g, N_("a number is too large"));
        *to = (int64_t)v;
    }
    return true;
}

static bool tail(const char *s, size_t n, const char *end)
{
    size_t k = strlen(end);

    return n >= k && memcmp(s + n - k, end, k) == 0;
}

static bool type_add(struct gguf *g, enum size_format f, int64_t params, int64_t bytes)
{
    size_t i = 0;

    while (i < g->type_count && g->type[i].type != f)
        i++;
    if (i == SIZE_TYPES_MAX)
        return fail(g, N_("it lists more than any model has"));
    g->type_count = MAX(g->type_count, i + 1);
    g->type[i].type = f;
    if (__builtin_add_overflow(g->type[i].params, params, &g->type[i].params) ||
        __builtin_add_overflow(g->type[i].bytes, bytes, &g->type[i].bytes) ||
        __builtin_add_overflow(g->params, params, &g->params) ||
        __builtin_add_overflow(g->bytes, bytes, &g->bytes))
        return fail(g, N_("a number is too large"));
    return true;
}

static bool tensor(struct gguf *g)
{
    uint64_t dims, type, offset, dim[DIMS_MAX] = {1, 1, 1, 1};
    int64_t params = 1, bytes;
    const char *s;
    size_t n;

    if (!text(g, &s, &n) || !number(g, 4, &dims))
        return false;
    if (dims == 0 || dims > DIMS_MAX)
        return fail(g, N_("a tensor has too many dimensions"));
    for (uint64_t i = 0; i < dims; i++) {
        if (!number(g, 8, &dim[i]))
            return false;
        if (dim[i] > INT64_MAX || __builtin_mul_overflow(params, (int64_t)dim[i], &params))
            return fail(g, N_("a number is too large"));
    }
    if (!number(g, 4, &type) || !number(g, 8, &offset))
        return false;
    enum size_format f = type > INT32_MAX ? SIZE_FORMAT_NONE : size_format_gguf((int)type);
    if (f == SIZE_FORMAT_NONE)
        return fail(g, N_("a tensor has an unknown type"));
    const struct size_format_row *row = size_format_row(f);
    if (params % row->weights || __builtin_mul_overflow(params / row->weights, row->bytes, &bytes))
        return fail(g, N_("a tensor's bytes do not fit its shape"));
    if (is_key(s, n, "token_embd.weight"))
        g->embed_rows = (int64_t)dim[1];
    g->has_head |= is_key(s, n, "output.weight");
    g->qk_norm |= tail(s, n, "attn_q_norm.weight");
    g->qkv_bias |= tail(s, n, "attn_q.bias") || tail(s, n, "attn_qkv.bias");
    g->norm_bias |= is_key(s, n, "output_norm.bias");
    g->plain_mlp &= !tail(s, n, "ffn_gate.weight") && !tail(s, n, "ffn_gate_exps.weight") &&
                    !is_key(s, n, "blk.0.ffn_up_gate.weight");
    return type_add(g, f, params, bytes);
}

static enum err broken(struct refusal *why, const char *text)
{
    enum err e = refuse(why, ERR_MODEL_FILE);

    refusal_set(why, "what", "GGUF");
    refusal_set(why, "why", text);
    return e;
}

static bool head(struct gguf *g, uint64_t *ret_tensors, uint64_t *ret_keys)
{
    const uint8_t *magic = NULL;
    uint64_t version;

    if (!raw(g, 4, &magic) || memcmp(magic, "GGUF", 4) != 0)
        return fail(g, N_("it does not begin as a GGUF file"));
    if (!number(g, 4, &version))
        return false;
    if (version != 2 && version != 3)
        return fail(g, N_("its version of GGUF is not known"));
    if (!number(g, 8, ret_tensors) || !number(g, 8, ret_keys))
        return false;
    if (*ret_tensors > MODEL_TENSORS_MAX || *ret_keys > KEYS_MAX)
        return fail(g, N_("it lists more than any model has"));
    return true;
}

static void shape(const struct gguf *g, struct size_model *m)
{
    *m = (struct size_model){
        .layers = g->v.layers - g->v.mtp,
        .hidden = g->v.hidden,
        .ffn = g->v.ffn ? g->v.ffn : g->v.expert_ffn,
        .heads = g->v.heads,
        .kv_heads = g->v.kv,
        .head_dim = g->v.key,
        .value_dim = g->v.value,
        .vocab = g->embed_rows ? g->embed_rows : g->v.vocab,
        .norm = g->norm_bias ? SIZE_LAYERNORM : SIZE_RMS,
        .tied = !g->has_head,
        .gated = !g->plain_mlp,
        .qkv_bias = g->qkv_bias,
        .qk_norm = g->qk_norm,
        .mtp_layers = g->v.mtp,
        .window = g->v.window,
        .window_every = g->v.pattern,
        .kv_layers = g->v.kv_layers,
        .context_max = g->v.context,
        .params_exact = g->params,
        .weight_bytes = g->bytes,
        .type_count = g->type_count,
    };
    if (g->v.window && !g->v.pattern)
        m->window_every =
            str_starts(g->arch, "gemma2") ? 2 : (str_starts(g->arch, "gemma3") ? 6 : 0);
    if (g->v.kv_lora) {
        int64_t key = g->v.key_mla ? g->v.key_mla : g->v.key;
        m->mla = (struct size_mla){.q_lora = g->v.q_lora,
                                   .kv_lora = g->v.kv_lora,
                                   .nope = key - g->v.rope,
                                   .rope = g->v.rope,
                                   .value = g->v.value_mla ? g->v.value_mla : g->v.value};
        m->kv_heads = m->heads;
        m->head_dim = key;
        m->value_dim = 0;
    }
    if (g->v.experts > 1)
        m->moe = (struct size_moe){.experts = g->v.experts,
                                   .active = g->v.active,
                                   .ffn = g->v.expert_ffn ? g->v.expert_ffn : g->v.ffn,
                                   .shared_ffn = g->v.shared * g->v.expert_ffn,
                                   .dense_first = g->v.dense_first};
    memcpy(m->type, g->type, sizeof(m->type));
    for (size_t i = 0, most = 0; i < g->type_count; i++)
        if (g->type[i].bytes >= g->type[most].bytes) {
            most = i;
            m->stored = g->type[i].type;
        }
    size_model_default(m);
}

/* One part of several: its tensors are not all, so the formula counts, and the bytes are those of
 * all files, which the caller knows. */
static void part_of(struct size_model *m)
{
    m->params_exact = m->weight_bytes = 0;
    m->type_count = 0;
    m->tied = false;
    m->gated = true;
}

enum err model_gguf(const void *bytes, size_t len, struct size_model *ret_m, struct refusal *why)
{
    struct gguf g = {.at = bytes, .end = (const uint8_t *)bytes + len, .plain_mlp = true};
    struct size_model m;
    uint64_t tensors, keys;
    const char *key;
    size_t n;

    if (!head(&g, &tensors, &keys))
        return broken(why, g.fault);
    for (uint64_t i = 0; i < keys; i++)
        if (!text(&g, &key, &n) || !value(&g, key, n))
            return broken(why, g.fault);
    for (uint64_t i = 0; i < tensors; i++)
        if (!tensor(&g))
            return broken(why, g.fault);
    if (!g.v.layers || !g.v.hidden || !g.v.heads)
        return broken(why, N_("it does not describe a language model"));
    shape(&g, &m);
    (void)str_copy(m.name, sizeof(m.name), g.arch);
    if (g.v.split > 1)
        part_of(&m);
    TRY(size_model_check(&m, why));
    *ret_m = m;
    return ERR_OK;
}
