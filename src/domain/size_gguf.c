/* A GGUF file type is a mixture: which tensor of which layer is kept in which type. The rules are
 * those of llama.cpp's quantiser (llama_tensor_get_type); an importance matrix is taken where a
 * type needs one, and only there. Rows whose length is no multiple of 256 fall back to a 32-weight
 * type. */
#include "domain/size_sum.h"

enum tensor { T_Q, T_K, T_V, T_O, T_GATE, T_UP, T_DOWN };

struct file {
    enum size_format file, base;
    const struct size_model *m;
    int64_t layers, groups; /* layers; query heads of a KV head */
};

static enum size_format base_type(enum size_format f)
{
    switch ((int)f) {
    case SIZE_FILE_Q2_K:
    case SIZE_FILE_Q2_K_S:
        return SIZE_Q2_K;
    case SIZE_FILE_Q3_K_S:
    case SIZE_FILE_Q3_K_M:
    case SIZE_FILE_Q3_K_L:
        return SIZE_Q3_K;
    case SIZE_FILE_Q4_0:
        return SIZE_Q4_0;
    case SIZE_FILE_Q4_1:
        return SIZE_Q4_1;
    case SIZE_FILE_Q4_K_S:
    case SIZE_FILE_Q4_K_M:
        return SIZE_Q4_K;
    case SIZE_FILE_Q5_0:
        return SIZE_Q5_0;
    case SIZE_FILE_Q5_1:
        return SIZE_Q5_1;
    case SIZE_FILE_Q5_K_S:
    case SIZE_FILE_Q5_K_M:
        return SIZE_Q5_K;
    case SIZE_FILE_Q6_K:
        return SIZE_Q6_K;
    case SIZE_FILE_Q8_0:
        return SIZE_Q8_0;
    case SIZE_FILE_IQ1_S:
        return SIZE_IQ1_S;
    case SIZE_FILE_IQ1_M:
        return SIZE_IQ1_M;
    case SIZE_FILE_IQ2_XXS:
        return SIZE_IQ2_XXS;
    case SIZE_FILE_IQ2_XS:
    case SIZE_FILE_IQ2_S:
        return SIZE_IQ2_XS;
    case SIZE_FILE_IQ2_M:
        return SIZE_IQ2_S;
    case SIZE_FILE_IQ3_XXS:
        return SIZE_IQ3_XXS;
    case SIZE_FILE_IQ3_XS:
    case SIZE_FILE_IQ3_S:
    case SIZE_FILE_IQ3_M:
        return SIZE_IQ3_S;
    case SIZE_FILE_IQ4_NL:
        return SIZE_IQ4_NL;
    case SIZE_FILE_IQ4_XS:
        return SIZE_IQ4_XS;
    default:
        return SIZE_F16;
    }
}

static bool very_small(enum size_format f) /* about 2 bits and fewer */
{
    return f == SIZE_FILE_IQ1_S || f == SIZE_FILE_IQ1_M || f == SIZE_FILE_IQ2_XXS ||
           f == SIZE_FILE_IQ2_XS || f == SIZE_FILE_IQ2_S || f == SIZE_FILE_IQ2_M;
}

static bool upper_two(enum size_format f)
{
    return f == SIZE_FILE_IQ2_S || f == SIZE_FILE_IQ2_M;
}

/* The first and last eighth of the layers, and every third between. */
static bool more_bits(int64_t i, int64_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static enum size_format head_type(const struct file *q)
{
    if (q->m->hidden % 256 != 0)
        return SIZE_Q8_0;
    if (very_small(q->file) || q->file == SIZE_FILE_IQ3_XXS)
        return SIZE_Q5_K;
    return q->base == SIZE_Q8_0 || q->base == SIZE_F16 ? q->base : SIZE_Q6_K;
}

static enum size_format embed_type(const struct file *q)
{
    if (q->m->tied)
        return head_type(q); /* one matrix for both */
    if (upper_two(q->file) || q->file == SIZE_FILE_IQ3_XXS)
        return SIZE_IQ3_S;
    return very_small(q->file) ? SIZE_Q2_K : q->base;
}

static enum size_format value_type(const struct file *q, int64_t i)
{
    bool shared = q->groups >= 4, many = shared || q->m->moe.experts >= 4;
    enum size_format t = q->base;

    if (very_small(q->file))
        return many ? SIZE_Q4_K : upper_two(q->file) ? SIZE_IQ3_S : SIZE_Q2_K;
    switch ((int)q->file) {
    case SIZE_FILE_Q2_K:
        t = shared ? SIZE_Q4_K : SIZE_Q3_K;
        break;
    case SIZE_FILE_IQ3_XS:
    case SIZE_FILE_IQ3_S:
    case SIZE_FILE_IQ3_XXS:
    case SIZE_FILE_Q2_K_S:
        t = shared ? SIZE_Q4_K : q->base;
        break;
    case SIZE_FILE_IQ3_M:
        t = SIZE_Q4_K;
        break;
    case SIZE_FILE_Q3_K_M:
        t = i < 2 ? SIZE_Q5_K : SIZE_Q4_K;
        break;
    case SIZE_FILE_Q3_K_L:
        t = SIZE_Q5_K;
        break;
    case SIZE_FILE_IQ4_NL:
    case SIZE_FILE_IQ4_XS:
        t = shared ? SIZE_Q5_K : q->base;
        break;
    case SIZE_FILE_Q4_K_M:
    case SIZE_FILE_Q5_K_M:
        t = more_bits(i, q->layers) ? SIZE_Q6_K : q->base;
        break;
    case SIZE_FILE_Q4_K_S:
        t = i < 4 ? SIZE_Q5_K : q->base;
        break;
    default:
        break;
    }
    if (q->layers == 80 && q->groups == 8 && (t == SIZE_Q3_K || t == SIZE_Q4_K))
        t = SIZE_Q5_K; /* 70B: values are eight times smaller, and worth the bits */
    return q->m->moe.experts == 8 ? SIZE_Q8_0 : t;
}

static enum size_format query_type(const struct file *q, enum tensor which)
{
    if (q->m->moe.experts == 8 && which == T_K)
        return very_small(q->file) ? SIZE_Q4_K : SIZE_Q8_0;
    if (q->file == SIZE_FILE_IQ3_XS)
        return SIZE_IQ3_XXS;
    return q->file == SIZE_FILE_IQ3_XXS ? SIZE_IQ2_S : q->base;
}

static enum size_format output_type(const struct file *q)
{
    bool eight = q->m->moe.experts == 8;

    if (very_small(q->file)) {
        if (eight)
            return SIZE_Q5_K;
        if (q->file == SIZE_FILE_IQ1_S || q->file == SIZE_FILE_IQ1_M)
            return SIZE_IQ2_XXS;
        return upper_two(q->file) ? SIZE_IQ3_S : q->base;
    }
    switch ((int)q->file) {
    case SIZE_FILE_Q2_K:
        return eight ? SIZE_Q5_K : SIZE_Q3_K;
    case SIZE_FILE_IQ3_XXS:
        return eight ? SIZE_Q5_K : SIZE_IQ3_S;
    case SIZE_FILE_Q3_K_M:
    case SIZE_FILE_IQ3_M:
        return eight ? SIZE_Q5_K : SIZE_Q4_K;
    case SIZE_FILE_Q3_K_L:
        return SIZE_Q5_K;
    case SIZE_FILE_Q3_K_S:
    case SIZE_FILE_IQ3_XS:
    case SIZE_FILE_IQ3_S:
    case SIZE_FILE_Q4_K_S:
    case SIZE_FILE_Q4_K_M:
    case SIZE_FILE_IQ4_NL:
    case SIZE_FILE_IQ4_XS:
        return eight ? SIZE_Q5_K : q->base;
    default:
        return q->base;
    }
}

static enum size_format down_type(const struct file *q, int64_t i)
{
    int64_t n = q->layers;
    bool first = i < n / 8;

    if (very_small(q->file))
        return !first ? q->base : upper_two(q->file) ? SIZE_IQ3_S : SIZE_Q2_K;
    switch ((int)q->file) {
    case SIZE_FILE_Q2_K:
        return SIZE_Q3_K;
    case SIZE_FILE_Q2_K_S:
        return first ? SIZE_Q4_K : q->base;
    case SIZE_FILE_Q3_K_M:
        return i < n / 16 ? SIZE_Q5_K : SIZE_Q4_K;
    case SIZE_FILE_IQ3_M:
        return first ? SIZE_Q4_K : q->base;
    case SIZE_FILE_Q3_K_L:
        return SIZE_Q5_K;
    case SIZE_FILE_Q4_K_M:
        return more_bits(i, n) ? SIZE_Q6_K : q->base;
    case SIZE_FILE_Q5_K_M:
        return more_bits(i, n) ? SIZE_Q6_K : q->base;
    case SIZE_FILE_IQ4_NL:
    case SIZE_FILE_IQ4_XS:
    case SIZE_FILE_Q4_K_S:
        return first ? SIZE_Q5_K : q->base;
    default:
        return q->base;
    }
}

static enum size_format tensor_type(const struct file *q, enum tensor which, int64_t i)
{
    int64_t n = q->layers;

    if (q->file == SIZE_FILE_Q8_0 || q->base == SIZE_F16)
        return q->base;
    switch (which) {
    case T_V:
        return value_type(q, i);
    case T_Q:
    case T_K:
        return query_type(q, which);
    case T_O:
        return output_type(q);
    case T_DOWN:
        return down_type(q, i);
    case T_GATE:
    case T_UP:
        if (q->file == SIZE_FILE_IQ3_XS && i >= n / 8 && i < 7 * n / 8)
            return SIZE_IQ3_XXS;
        break;
    }
    return q->base;
}

/* rows of so many columns, in bytes; falls back when blocks do not fit a row. */
static double matrix(enum size_format t, double columns, double outputs)
{
    int64_t per = size_format_row(t)->weights, c = (int64_t)columns;

    if (per == 256 && c % 256 != 0)
        t = t == SIZE_Q4_K   ? SIZE_Q5_0
            : t == SIZE_Q5_K ? SIZE_Q5_1
            : t == SIZE_Q6_K ? SIZE_Q8_0
                             : SIZE_IQ4_NL;
    if (c % size_format_row(t)->weights != 0)
        t = SIZE_F16;
    return columns * outputs * size_bits(t) / 8;
}

static double attention_bytes(const struct file *q, int64_t i)
{
    const struct size_model *m = q->m;
    double h = (double)m->hidden, a = (double)m->heads, g = (double)m->kv_heads;
    double d = (double)m->head_dim, dv = (double)(m->value_dim ? m->value_dim : m->head_dim);

    if (m->mla.kv_lora > 0) {
        double rq = (double)m->mla.q_lora, rkv = (double)m->mla.kv_lora;
        double qk = a * (double)(m->mla.nope + m->mla.rope), v = (double)m->mla.value;
        double bytes =
            rq > 0 ? matrix(tensor_type(q, T_Q, i), h, rq) + matrix(tensor_type(q, T_Q, i), rq, qk)
                   : matrix(tensor_type(q, T_Q, i), h, qk);
        bytes += matrix(tensor_type(q, T_K, i), h, rkv + (double)m->mla.rope);
        bytes += matrix(tensor_type(q, T_K, i), rkv, a * ((double)m->mla.nope + v));
        return bytes + matrix(tensor_type(q, T_O, i), a * v, h);
    }
    return matrix(tensor_type(q, T_Q, i), h, a * d) + matrix(tensor_type(q, T_K, i), h, g * d) +
           matrix(tensor_type(q, T_V, i), h, g * dv) + matrix(tensor_type(q, T_O, i), a * dv, h);
}

static double mlp_bytes(const struct file *q, int64_t i, double f, double times)
{
    double h = (double)q->m->hidden, bytes = matrix(tensor_type(q, T_UP, i), h, f);

    if (q->m->gated)
        bytes += matrix(tensor_type(q, T_GATE, i), h, f);
    return times * (bytes + matrix(tensor_type(q, T_DOWN, i), f, h));
}

int64_t size_gguf_bytes(const struct size_model *m, enum size_format file)
{
    struct file q = {.file = file,
                     .base = base_type(file),
                     .m = m,
                     .layers = m->layers,
                     .groups = m->heads / m->kv_heads};
    double h = (double)m->hidden, v = (double)m->vocab, bytes = 0;
    int64_t every = MAX(m->moe.every, 1);
    struct size_params p;

    size_params(m, &p);
    for (int64_t i = 0; i < m->layers; i++) {
        bytes += attention_bytes(&q, i);
        int64_t from = i - m->moe.dense_first;
        if (m->moe.experts > 0 && from >= 0 && (from + 1) % every == 0)
            bytes += mlp_bytes(&q, i, (double)m->moe.ffn, (double)m->moe.experts) +
                     (m->moe.shared_ffn ? mlp_bytes(&q, i, (double)m->moe.shared_ffn, 1) : 0);
        else
            bytes += mlp_bytes(&q, i, (double)m->ffn, 1);
    }
    bytes += matrix(embed_type(&q), h, v) + (m->tied ? 0 : matrix(head_type(&q), h, v));
    return size_whole(bytes + 4 * p.other);
}
