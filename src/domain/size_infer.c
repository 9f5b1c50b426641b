/* Memory of inference on one card.
 *
 *   transformers  W + max(KV(prompt + new), KV(prompt) + prompt * (3 f + 4 h) * 2 B)
 *                 before 4.45: all logits of the prompt in 16 and in 32 bit, rotary tables a layer
 *   llama.cpp     W + KV + ubatch * 4 * (V + k h); without flash attention the scores instead when
 *                 they are more: a * context * ubatch * 4
 *   engines       W + KV in whole blocks + sequences * V * c + what is no tensor */
#include <math.h>

#include "domain/size_sum.h"

#define SRC_WEIGHTS "tensor sizes of the configuration or header"
#define SRC_CACHE "2 * layers * KV heads * head size * bytes, to the byte"
#define BLOCK 16            /* tokens that an engine takes at once */
#define ROPE_TOKENS 32768.0 /* length of the rotary tables of older transformers */

static bool engine(const struct size_job *j)
{
    return j->framework == SIZE_VLLM || j->framework == SIZE_SGLANG || j->framework == SIZE_TRTLLM;
}

static double cache(const struct size_sum *s, int64_t tokens)
{
    const struct size_job *j = s->j;
    int64_t t = engine(j) ? (tokens + BLOCK - 1) / BLOCK * BLOCK : tokens;

    return (double)size_kv_sequence(s->m, &j->kv, t, j->tp) * (double)j->batch / (double)j->pp;
}

static double prefill(const struct size_sum *s, double prompt)
{
    const struct size_model *m = s->m;
    double f = m->moe.experts > 0 ? (double)MAX(m->moe.shared_ffn, m->moe.active * m->moe.ffn)
                                  : (double)m->ffn;
    double tokens = prompt * (double)s->j->batch;
    double wide =
        s->c[SIZE_C_PREFILL] * tokens * (3 * f + 4 * (double)m->hidden) * 2 / (double)s->j->tp;

    if (s->j->old_logits)
        wide = MAX(wide, s->c[SIZE_C_OLD_LOGIT] * tokens * (double)m->vocab);
    return wide;
}

static void weights(struct size_sum *s, const struct size_rank *k)
{
    const struct size_job *j = s->j;
    double w = size_rank_weights(s, k);
    bool quantised = size_format_row(j->weights)->kind == SIZE_KIND_HF;

    size_add(s, SIZE_WEIGHTS, w, SRC_WEIGHTS, "%.0f parameters on a card as %s", k->total,
             size_format_row(j->weights)->name);
    s->load_peak = w;
    if (!quantised)
        return;
    if (s->m->tied && j->framework == SIZE_TRANSFORMERS && j->weights == SIZE_FP8)
        size_add(s, SIZE_WEIGHTS, 2 * s->p.embed, "FP8 checkpoints store a tied head again",
                 "%.0f * 2 B", s->p.embed);
    if (s->m->tied && j->framework == SIZE_TRANSFORMERS && j->weights == SIZE_AWQ4)
        s->load_peak += 2 * s->p.embed; /* and AWQ ones are tied after loading */
    double copies = j->weights == SIZE_GPTQ4 || j->weights == SIZE_GPTQ8 ? s->c[SIZE_C_DEQUANT_GPTQ]
                                                                         : s->c[SIZE_C_DEQUANT_AWQ];
    if (j->head_quantised)
        size_add(s, SIZE_ACTIVATIONS, s->c[SIZE_C_HEAD_LOAD] * 4 * s->p.embed,
                 "a quantised head while it is made, fitted", "2 * %.0f * 2 B", s->p.embed);
    else if (j->weights != SIZE_FP8 && j->weights != SIZE_W8A8 && !engine(j))
        size_add(s, SIZE_ACTIVATIONS, copies * 2 * s->p.matrix_max,
                 "16-bit copies that kernels keep, fitted", "%.2f * %.0f * 2 B", copies,
                 s->p.matrix_max);
}

static void transformers(struct size_sum *s)
{
    const struct size_job *j = s->j;
    double whole = cache(s, j->seq), start = cache(s, j->seq - j->generate);
    double wide = prefill(s, (double)(j->seq - j->generate));

    if (whole >= start + wide || j->generate == j->seq) {
        size_add(s, SIZE_CACHE, whole, SRC_CACHE, "%" PRId64 " tokens * %" PRId64, j->seq,
                 j->batch);
    } else {
        size_add(s, SIZE_CACHE, start, SRC_CACHE, "the prompt: %" PRId64 " tokens * %" PRId64,
                 j->seq - j->generate, j->batch);
        size_add(s, SIZE_ACTIVATIONS, wide, "while the prompt is read, fitted",
                 "%" PRId64 " tokens * (3 f + 4 h) * 2 B", (j->seq - j->generate) * j->batch);
    }
    if (j->old_logits)
        size_add(s, SIZE_FRAMEWORK_PART,
                 (double)(s->m->layers * s->m->head_dim) * 4 * ROPE_TOKENS / (double)j->pp,
                 "rotary tables of every layer", "%" PRId64 " layers * %.0f * %" PRId64 " * 4 B",
                 s->m->layers, ROPE_TOKENS, s->m->head_dim);
    if (j->measure != SIZE_ALLOCATED)
        size_add(s, SIZE_FRAGMENTATION, s->c[SIZE_C_CACHE_COPY] * whole,
                 "a cache that grows is copied, fitted", "%.2f of the cache",
                 s->c[SIZE_C_CACHE_COPY]);
}

static void llamacpp(struct size_sum *s)
{
    const struct size_job *j = s->j;
    double u = (double)MIN(j->ubatch, j->seq), h = (double)s->m->hidden;
    double out = u * 4 * ((double)s->m->vocab + (double)j->head_rows * h);
    double scores = 0;

    size_add(s, SIZE_CACHE, cache(s, j->seq), SRC_CACHE, "%" PRId64 " tokens of context", j->seq);
    if (j->attention == SIZE_EAGER) /* scores, their mask, and the layer's own tensors */
        scores =
            u * 4 * (double)j->seq * (double)(s->m->heads + 1 + (s->m->window > 0)) + u * 4 * 5 * h;
    size_add(s, SIZE_LOGITS, out, "llama.cpp compute buffer, to the byte",
             "%.0f * 4 * (%" PRId64 " + %" PRId64 " * %.0f)", u, s->m->vocab, j->head_rows, h);
    if (scores > out)
        size_add(s, SIZE_ACTIVATIONS, scores - out, "scores without flash attention",
                 "%.0f tokens * %" PRId64 " context * %" PRId64 " heads * 4 B", u, j->seq,
                 s->m->heads);
}

static void serving(struct size_sum *s)
{
    const struct size_job *j = s->j;
    double n = (double)(j->sequences_max > 0 ? j->sequences_max : 256);

    size_add(s, SIZE_CACHE, cache(s, j->seq), SRC_CACHE,
             "%" PRId64 " tokens in blocks of %d * %" PRId64 " sequences", j->seq, BLOCK, j->batch);
    size_add(s, SIZE_LOGITS, s->c[SIZE_C_SAMPLER] * n * (double)s->m->vocab,
             "the engine's trial step, fitted", "%.0f sequences * %" PRId64 " * %.1f B", n,
             s->m->vocab, s->c[SIZE_C_SAMPLER]);
    size_add(s, SIZE_FRAMEWORK_PART, s->c[SIZE_C_NON_TORCH] * 1e9,
             "what the engine holds besides tensors, fitted", "%.2f GB", s->c[SIZE_C_NON_TORCH]);
}

void size_inference(struct size_sum *s)
{
    struct size_rank k;

    size_rank(s->m, s->j, &k);
    weights(s, &k);
    if (engine(s->j))
        serving(s);
    else if (s->j->framework == SIZE_LLAMACPP)
        llamacpp(s);
    else
        transformers(s);
}
