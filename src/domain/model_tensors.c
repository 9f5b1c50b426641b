/* model_tensors.c: headers of safetensors files: names, types, shapes and offsets of tensors. */
#include "base/jscan.h"
#include "base/msg.h"
#include "base/str.h"
#include "domain/model.h"

#define DIMS_MAX 8
#define NAME_TEXT_MAX 160

static enum err broken(struct refusal *why, const char *text)
{
    enum err e = refuse(why, ERR_MODEL_FILE);

    refusal_set(why, "what", "safetensors");
    refusal_set(why, "why", text);
    return e;
}

enum err model_safetensors_header(const uint8_t first[8], int64_t file_size, size_t *ret_len,
                                  struct refusal *why)
{
    uint64_t n = 0;

    for (int i = 7; i >= 0; i--)
        n = n << 8 | first[i];
    if (file_size < 8)
        return broken(why, N_("it ends in the middle"));
    if (n > MODEL_HEADER_MAX)
        return broken(why, N_("its header says it is larger than any header"));
    if ((int64_t)n > file_size - 8)
        return broken(why, N_("it ends before its header does"));
    *ret_len = (size_t)n;
    return ERR_OK;
}

struct tensor {
    char name[NAME_TEXT_MAX];
    enum size_format type;
    int64_t dim[DIMS_MAX], begin, end, params;
    size_t dims;
};

static enum size_format type_named(const char *s)
{
    static const struct {
        const char *name;
        enum size_format type;
    } types[] = {{"BF16", SIZE_BF16}, {"F16", SIZE_F16},     {"F32", SIZE_F32},
                 {"F64", SIZE_F64},   {"I8", SIZE_I8},       {"U8", SIZE_I8},
                 {"BOOL", SIZE_I8},   {"I16", SIZE_I16},     {"U16", SIZE_I16},
                 {"I32", SIZE_I32},   {"U32", SIZE_I32},     {"I64", SIZE_I64},
                 {"U64", SIZE_I64},   {"F8_E4M3", SIZE_FP8}, {"F8_E5M2", SIZE_FP8}};

    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (str_eq(types[i].name, s))
            return types[i].type;
    return SIZE_FORMAT_NONE;
}

static bool numbers_take(struct jscan *s, int64_t *to, size_t max, size_t *ret_n)
{
    size_t n = 0;

    if (!jscan_array(s))
        return false;
    while (jscan_item(s)) {
        if (n == max)
            s->fault = N_("a tensor has too many dimensions");
        if (s->fault || !jscan_i64(s, &to[n]))
            return false;
        if (to[n] < 0)
            s->fault = N_("a size is negative");
        n++;
    }
    *ret_n = n;
    return !s->fault;
}

static bool tensor_take(struct jscan *s, struct tensor *t)
{
    char key[24], type[16];
    int64_t offsets[2];
    size_t n = 0;

    if (!jscan_object(s))
        return false;
    while (jscan_key(s, key, sizeof(key))) {
        bool ok;
        if (str_eq(key, "dtype")) {
            ok = jscan_text(s, type, sizeof(type));
            t->type = ok ? type_named(type) : SIZE_FORMAT_NONE;
        } else if (str_eq(key, "shape")) {
            ok = numbers_take(s, t->dim, DIMS_MAX, &t->dims);
        } else if (str_eq(key, "data_offsets")) {
            ok = numbers_take(s, offsets, 2, &n);
        } else {
            ok = jscan_skip(s);
        }
        if (!ok)
            return false;
    }
    if (s->fault)
        return false;
    t->params = 1;
    for (size_t i = 0; i < t->dims; i++)
        if (__builtin_mul_overflow(t->params, t->dim[i], &t->params))
            s->fault = N_("a number is too large");
    if (n != 2 || offsets[1] < offsets[0])
        s->fault = N_("a tensor has no place in the file");
    else if (t->type == SIZE_FORMAT_NONE)
        s->fault = N_("a tensor has an unknown type");
    if (s->fault)
        return false;
    t->begin = offsets[0];
    t->end = offsets[1];
    return true;
}

/* Offsets are of the file alone, so that a tensor has exactly the bytes of its shape and type. */
static const char *tensor_fault(const struct tensor *t, int64_t data)
{
    int64_t each = size_format_row(t->type)->bytes / size_format_row(t->type)->weights, want;

    each = t->type == SIZE_FP8 ? 1 : each;
    if (__builtin_mul_overflow(t->params, each, &want))
        return N_("a number is too large");
    if (t->end - t->begin != want)
        return N_("a tensor's bytes do not fit its shape");
    if (data >= 0 && t->end > data)
        return N_("a tensor lies behind the end of the file");
    return NULL;
}

static int64_t number_at(const char *s)
{
    int64_t n = 0;

    for (int i = 0; s[i] >= '0' && s[i] <= '9' && i < 6; i++)
        n = n * 10 + (s[i] - '0');
    return n;
}

static bool ends(const char *s, const char *tail)
{
    size_t a = strlen(s), b = strlen(tail);

    return a >= b && str_eq(s + a - b, tail);
}

/* What a tensor's name and shape tell about the model. */
static void shape_note(const struct tensor *t, struct model_tensors *m)
{
    static const char *const layer_words[] = {"layers.", ".h.", "blocks."};
    const char *at = NULL;
    int64_t rows = t->dims > 0 ? t->dim[0] : 0, columns = t->dims > 1 ? t->dim[1] : 0;
    bool tower = strstr(t->name, "vision") || strstr(t->name, "visual");

    m->adapter |= strstr(t->name, "lora_A") != NULL || strstr(t->name, "lora_B") != NULL;
    if (tower)
        return;
    for (size_t i = 0; !at && i < ARRAY_LEN(layer_words); i++) {
        at = strstr(t->name, layer_words[i]);
        if (at)
            m->layers = MAX(m->layers, number_at(at + strlen(layer_words[i])) + 1);
    }
    at = strstr(t->name, "experts.");
    if (at && at[8] >= '0' && at[8] <= '9')
        m->experts = MAX(m->experts, number_at(at + 8) + 1);
    if (ends(t->name, "embed_tokens.weight") || ends(t->name, "wte.weight") ||
        ends(t->name, "tok_embeddings.weight")) {
        m->vocab = rows;
        m->hidden = columns;
    }
    m->has_head |= ends(t->name, "lm_head.weight") || ends(t->name, "output.weight");
    if (ends(t->name, "q_proj.weight"))
        m->q = rows;
    else if (ends(t->name, "k_proj.weight"))
        m->kv = rows;
    else if (ends(t->name, "q_norm.weight") && t->dims == 1)
        m->head = rows;
    else if (ends(t->name, "q_proj.bias"))
        m->has_bias = true;
    else if (ends(t->name, "up_proj.weight") && at)
        m->expert_ffn = rows;
    else if (ends(t->name, "up_proj.weight"))
        m->ffn = rows;
}

static bool sum_add(const struct tensor *t, struct model_tensors *m)
{
    size_t i = 0;

    while (i < m->type_count && m->type[i].type != t->type)
        i++;
    if (i == SIZE_TYPES_MAX)
        return false;
    m->type_count = MAX(m->type_count, i + 1);
    m->type[i].type = t->type;
    return !__builtin_add_overflow(m->type[i].params, t->params, &m->type[i].params) &&
           !__builtin_add_overflow(m->type[i].bytes, t->end - t->begin, &m->type[i].bytes) &&
           !__builtin_add_overflow(m->bytes, t->end - t->begin, &m->bytes);
}

enum err model_safetensors_add(const void *json, size_t len, int64_t data, struct model_tensors *m,
                               struct refusal *why)
{
    struct jscan s;
    struct tensor t;

    jscan_init(&s, json, len);
    if (!jscan_object(&s))
        return broken(why, s.fault);
    t = (struct tensor){0};
    while (jscan_key(&s, t.name, sizeof(t.name))) {
        if (str_eq(t.name, "__metadata__") ? !jscan_skip(&s) : !tensor_take(&s, &t))
            break;
        if (!str_eq(t.name, "__metadata__")) {
            const char *fault = tensor_fault(&t, data);
            if (fault)
                return broken(why, fault);
            if (++m->count > MODEL_TENSORS_MAX || !sum_add(&t, m))
                return broken(why, N_("it lists more than any model has"));
            shape_note(&t, m);
        }
        t = (struct tensor){0};
    }
    if (s.fault || !jscan_end(&s))
        return broken(why, s.fault ? s.fault : N_("it is not JSON"));
    return ERR_OK;
}

enum err model_index(const void *bytes, size_t len, int64_t *ret_total, struct refusal *why)
{
    struct jscan s;
    char key[32];
    int64_t total = 0;

    jscan_init(&s, bytes, len);
    if (!jscan_object(&s))
        return broken(why, s.fault);
    while (jscan_key(&s, key, sizeof(key))) {
        if (!str_eq(key, "metadata") || jscan_peek(&s) != JSCAN_OBJECT) {
            if (!jscan_skip(&s))
                break;
            continue;
        }
        if (!jscan_object(&s))
            break;
        while (jscan_key(&s, key, sizeof(key)))
            if (str_eq(key, "total_size") ? !jscan_i64(&s, &total) : !jscan_skip(&s))
                break;
    }
    if (s.fault || !jscan_end(&s))
        return broken(why, s.fault ? s.fault : N_("it is not JSON"));
    if (total < 0)
        return broken(why, N_("a size is negative"));
    *ret_total = total;
    return ERR_OK;
}

static enum err shape_take(const struct model_tensors *t, struct size_model *m, struct refusal *why)
{
    int64_t head = t->head ? t->head : (t->q % 128 == 0 && t->kv % 128 == 0 ? 128 : 64);

    if (t->adapter)
        return broken(why, N_("it holds an adapter, not a model; name the base model"));
    if (!t->layers || !t->hidden || !t->q || !t->kv || !(t->ffn || t->expert_ffn))
        return broken(why, N_("its tensors do not tell the shape; put its config.json beside it"));
    m->layers = t->layers;
    m->hidden = t->hidden;
    m->vocab = t->vocab;
    m->head_dim = head;
    m->heads = t->q / head;
    m->kv_heads = t->kv / head;
    m->ffn = t->ffn ? t->ffn : t->expert_ffn;
    m->gated = true;
    m->tied = !t->has_head;
    m->qkv_bias = t->has_bias;
    m->qk_norm = t->head > 0;
    if (t->experts > 1)
        m->moe = (struct size_moe){
            .experts = t->experts, .active = MIN(t->experts, (int64_t)2), .ffn = t->expert_ffn};
    size_model_default(m);
    return size_model_check(m, why);
}

/* A download that stopped half way must not be sized as a small model. Packed weights are counted
 * in bytes: two bits each at least. */
static bool is_partial(const struct model_tensors *t, const struct size_model *m, int64_t params,
                       bool packed)
{
    struct size_params p;

    size_params(m, &p);
    return packed ? (double)t->bytes < p.total / 8 : (double)params < 0.75 * p.total;
}

enum err model_take_tensors(const struct model_tensors *t, struct size_model *m,
                            struct refusal *why)
{
    bool shaped = m->layers > 0, packed = false;
    int64_t params = 0;
    size_t main = 0;

    if (!shaped)
        TRY(shape_take(t, m, why));
    for (size_t i = 0; i < t->type_count; i++) {
        params += t->type[i].params; /* each at most its bytes, whose sum fits */
        packed |= t->type[i].type == SIZE_I32 || t->type[i].type == SIZE_I8;
        main = t->type[i].bytes > t->type[main].bytes ? i : main;
    }
    if (shaped && is_partial(t, m, params, packed))
        return broken(why, N_("it holds far less than its config.json describes: is it whole?"));
    m->weight_bytes = t->bytes;
    if (packed)
        return ERR_OK;
    m->params_exact = params;
    m->type_count = t->type_count;
    memcpy(m->type, t->type, sizeof(m->type));
    if (t->type_count > 0)
        m->stored = t->type[main].type;
    return ERR_OK;
}
