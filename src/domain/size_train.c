/* Memory of training on one card.
 *
 *   states       weights, gradients, optimizer by recipe and sharding
 *   activations  tokens * layers kept * (h and f wide tensors), plus one layer when recomputed
 *   logits       tokens * vocabulary * c, on the last stage
 *   peak         the end of the forward pass, or the optimizer's step, whichever is more: gradients
 *                are there during the forward pass only when several micro-batches are summed up */
#include <math.h>

#include "domain/size_sum.h"

#define SRC_STATES "recipe of the optimizer and sharding (ZeRO, arXiv 1910.02054)"
#define SRC_ACTIVATIONS "tensors kept for the backward pass (after arXiv 2205.05198), fitted"
#define CHUNKS 8.0        /* of a chunked loss */
#define CHECKPOINT 2.0    /* bytes of h a token and layer boundary */
#define SHARD_BYTES 5e9   /* of one file of a checkpoint, the usual limit */
#define GALORE_SHARE 0.25 /* rank over hidden size, the usual setting */

struct recipe {
    double weights, grads, states; /* bytes a parameter */
    double ends;                   /* further state bytes of embeddings (8-bit optimizers) */
};

static double optimizer_bytes(const struct size_job *j, double width)
{
    switch (j->optimizer) {
    case SIZE_ADAMW:
        return 2 * width;
    case SIZE_ADAMW_8BIT:
        return 2;
    case SIZE_ADAMW_PAGED:
        return 0;
    case SIZE_ADAFACTOR:
        return 0.01 * width;
    case SIZE_LION:
        return width;
    case SIZE_SGD:
        return 0;
    case SIZE_SGD_MOMENTUM:
        return width;
    case SIZE_MUON:
        return width;
    case SIZE_GALORE:
        return 2 * width * GALORE_SHARE;
    case SIZE_OPTIMIZERS:
        break;
    }
    return 2 * width;
}

static bool shards_all(const struct size_job *j)
{
    return j->shard == SIZE_ZERO3 || j->shard == SIZE_FSDP;
}

static struct recipe recipe(const struct size_job *j)
{
    bool eight = j->optimizer == SIZE_ADAMW_8BIT;

    if (j->precision == SIZE_PURE16)
        return (struct recipe){2, 2, optimizer_bytes(j, 2), eight ? 6 : 0};
    if (j->precision == SIZE_PURE32)
        return (struct recipe){4, 4, optimizer_bytes(j, 4), eight ? 6 : 0};
    switch ((int)j->framework) {
    case SIZE_DEEPSPEED:
        return (struct recipe){2, 2, 4 + optimizer_bytes(j, 4), eight ? 6 : 0};
    case SIZE_MEGATRON:
        return (struct recipe){2, 4, 4 + optimizer_bytes(j, 4), eight ? 6 : 0};
    default:
        break;
    }
    if (shards_all(j) && j->shard == SIZE_ZERO3) /* DeepSpeed under another name */
        return (struct recipe){2, 4, 4 + optimizer_bytes(j, 4), eight ? 6 : 0};
    return (struct recipe){4, 4, optimizer_bytes(j, 4), eight ? 6 : 0}; /* masters in the module */
}

static bool adapts(const struct size_job *j)
{
    return j->task == SIZE_LORA || j->task == SIZE_QLORA;
}

/* GPTQ, AWQ and the like come quantised; nf4 and int8 are made while loading. */
static bool stored_quantised(const struct size_job *j)
{
    return j->weights != SIZE_NF4 && j->weights != SIZE_NF4_DQ && j->weights != SIZE_INT8;
}

/* h + f a layer keeps for one token, in bytes, without what trained matrices add. */
static double token_layer(const struct size_sum *s, double *ret_width)
{
    const struct size_model *m = s->m;
    bool moe = m->moe.experts > 0;
    double h = (double)m->hidden;
    double f = moe ? (double)(m->moe.active * m->moe.ffn + m->moe.shared_ffn) : (double)m->ffn;
    double kv =
        m->mla.kv_lora > 0
            ? (double)(m->heads * (m->mla.nope + m->mla.rope + m->mla.value))
            : (double)(m->kv_heads * (m->head_dim + (m->value_dim ? m->value_dim : m->head_dim)));

    *ret_width = f;
    return s->c[SIZE_C_HIDDEN] * h +
           (m->norm == SIZE_RMS ? s->c[SIZE_C_NORM] * (double)m->norms * h : 0) +
           s->c[SIZE_C_MLP] * 2 * f * (m->gated ? 3 : 1) + s->c[SIZE_C_KV] * 2 * kv;
}

/* Inputs that matrices keep for their own gradient or for that of an adapter. */
static double token_inputs(const struct size_sum *s, double f)
{
    const struct size_job *j = s->j;
    double h = (double)s->m->hidden, ad = (double)(s->m->heads * s->m->head_dim), bytes = 0;
    double inputs = s->m->norms < 2 ? 1.5 : 2.5; /* parallel blocks share one */
    unsigned t = j->targets;

    if (!adapts(j))
        return s->c[SIZE_C_INPUT] * 2 * (2 * h + ad + f);
    if (j->adapter32) { /* each adapter casts its own input */
        bytes = 4 * h *
                    (!!(t & SIZE_Q) + !!(t & SIZE_K) + !!(t & SIZE_V) +
                     (s->m->gated && t & SIZE_GATE) + !!(t & SIZE_UP)) +
                4 * ad * !!(t & SIZE_O) + 4 * f * !!(t & SIZE_DOWN);
    } else {
        bytes = 2 * h * !!(t & (SIZE_Q | SIZE_K | SIZE_V)) + 2 * ad * !!(t & SIZE_O) +
                2 * h * !!(t & (SIZE_GATE | SIZE_UP)) + 2 * f * !!(t & SIZE_DOWN);
    }
    bytes *= s->c[SIZE_C_INPUT];
    if (!stored_quantised(j) &&
        size_format_row(j->weights)->kind == SIZE_KIND_HF) /* bitsandbytes */
        bytes += s->c[SIZE_C_QUANT_INPUT] * 2 * (f + inputs * h);
    return bytes;
}

static double tensor_share(const struct size_job *j) /* of a layer's activations on one rank */
{
    double t = (double)j->tp;

    return j->sequence_parallel ? 1 / t : (10 + 24 / t) / 34;
}

/* Layers whose activations are alive on the fullest stage. */
static double layers_kept(const struct size_model *m, const struct size_job *j)
{
    double layers = (double)m->layers, p = (double)j->pp, v = (double)j->pp_virtual;

    if (p <= 1)
        return layers;
    double micro = (double)MAX(j->accumulate, 1); /* a stage cannot hold more than there are */
    double alive = MIN(micro, p) / p;
    return ceil(layers / p) * p * alive * (v > 1 ? 1 + (p - 1) / (p * v) : 1);
}

static void activations(struct size_sum *s, double *ret_live)
{
    const struct size_job *j = s->j;
    double tokens = (double)j->batch * ceil((double)j->seq / (double)j->cp), f = 0;
    double layer = token_layer(s, &f);
    double layers = layers_kept(s->m, j), h = (double)s->m->hidden;
    double heads = (double)s->m->heads / (double)j->tp;

    layer += token_inputs(s, f);
    layer *= tensor_share(j);
    if (j->attention == SIZE_EAGER) /* scores, probabilities, their dropout mask */
        layer += 5 * heads * (double)j->seq / (double)j->cp;
    if (j->compile)
        layer *= s->c[SIZE_C_COMPILE];
    *ret_live = tokens * layer;
    if (j->recompute == SIZE_RECOMPUTE) {
        double kept = j->activation_offload ? 0 : CHECKPOINT * tokens * layers * h;
        kept /= j->sequence_parallel ? (double)j->tp : 1;
        size_add(s, SIZE_ACTIVATIONS, kept + *ret_live, SRC_ACTIVATIONS,
                 "%.0f tokens * %.0f boundaries * %.0f * 2 B + one layer at %.0f B a token", tokens,
                 layers, h, layer);
        return;
    }
    double kept = j->recompute == SIZE_SELECTIVE ? s->c[SIZE_C_SELECTIVE] * layers : layers;
    size_add(s, SIZE_ACTIVATIONS, *ret_live * MAX(kept, 1), SRC_ACTIVATIONS,
             "%.0f tokens * %.1f layers * %.0f B", tokens, kept, layer);
}

/* 4-bit training in transformers keeps embeddings, head and norms in 32 bit. */
static bool keeps_32(const struct size_job *j)
{
    return size_format_row(j->weights)->kind == SIZE_KIND_HF && j->weights != SIZE_FP8 &&
           j->framework == SIZE_TRANSFORMERS;
}

static void logits(struct size_sum *s)
{
    const struct size_job *j = s->j;
    double tokens = (double)j->batch * ceil((double)j->seq / (double)j->cp);
    double v = (double)s->m->vocab / (double)j->tp, share = 1;

    if (j->loss == SIZE_LOSS_CHUNKED)
        share = 1 / CHUNKS;
    if (j->loss == SIZE_LOSS_FUSED)
        share = s->c[SIZE_C_FUSED];
    double each = s->c[keeps_32(j) ? SIZE_C_LOGIT_32 : SIZE_C_LOGIT];
    if (adapts(j) && j->targets & SIZE_HEAD)
        each += 4; /* the adapter's own logits and their sum with the head's */
    if (j->loss == SIZE_LOSS_FUSED)
        s->maybe = each * tokens * v * (1 - share);
    size_add(s, SIZE_LOGITS, each * tokens * v * share,
             "logits in 16 and 32 bit and their gradient, fitted",
             "%.0f tokens * %.0f entries * %.1f B * %.2f", tokens, v, each, share);
}

/* What a sharded model gathers while it runs: two layers and an end; never more than is kept
 * elsewhere (`all`, bytes of what is sharded). */
static double gathered(const struct size_sum *s, const struct size_rank *k, double all)
{
    const struct size_job *j = s->j;

    if (!shards_all(j) || j->dp <= 1)
        return 0;
    double bits = adapts(j) ? size_bits(j->weights) / 8 : 2;
    double end = MAX(s->p.embed, s->p.head) / (double)j->tp;
    double whole = 2 * k->layer * bits / (double)j->tp + 2 * MIN(end, k->ends);
    if (j->framework == SIZE_LITGPT && !adapts(j))
        whole = 2 * k->total; /* it gathers the whole model to save it */
    /* with gradients: 16 bit of one layer and 32 bit while they are summed, beside 2 * 2 B */
    double grads = adapts(j) || j->offload_params ? 1 : 2.5;
    return MIN(s->c[SIZE_C_UNSHARD] * whole * grads, all * (1 - 1 / (double)j->dp));
}

static double upcast(const struct size_sum *s, const struct size_rank *k)
{
    return keeps_32(s->j) ? s->c[SIZE_C_UPCAST] * 2 * (k->ends + k->other) : 0;
}

static double dequantised(const struct size_sum *s)
{
    const struct size_job *j = s->j;

    if (size_format_row(j->weights)->kind != SIZE_KIND_HF)
        return 0;
    if (j->head_quantised)
        return s->c[SIZE_C_HEAD_LOAD] * 2 * 2 * (s->m->tied ? s->p.embed : s->p.head);
    return 2 * s->p.matrix_max; /* a 16-bit copy of one matrix at a time */
}

static void adapter_states(struct size_sum *s, const struct size_rank *k, double shards)
{
    const struct size_job *j = s->j;
    double n = (double)size_adapter_params(s->m, j) / (double)(j->tp * j->pp);
    double width = j->adapter32 ? 4 : 2, all = shards_all(j) ? shards : 1;
    double base = size_rank_weights(s, k), spread = shards_all(j) ? shards : 1;

    size_add(s, SIZE_WEIGHTS, (j->offload_params ? 0 : base / spread) + upcast(s, k) / spread,
             "tensor sizes of the configuration", "%.0f B of frozen weights (%s) / %.0f ranks",
             base, size_format_row(j->weights)->name, spread);
    size_add(s, SIZE_WEIGHTS, gathered(s, k, base), "layers that a rank gathers to use them",
             "2 layers of %.0f parameters and an end", k->layer);
    size_add(s, SIZE_ACTIVATIONS, dequantised(s), "16-bit copy while a quantised matrix is used",
             "largest matrix or head, 16 bit");
    size_add(s, SIZE_ADAPTERS, n * width / all, "rank * (in + out) of every target",
             "%.0f adapter parameters * %.0f B / %.0f", n, width, all);
    size_add(s, SIZE_GRADIENTS, n * width / MAX(all, j->shard == SIZE_ZERO2 ? shards : 1),
             SRC_STATES, "%.0f * %.0f B", n, width);
    double states = j->shard == SIZE_DDP ? 1 : shards;
    double each = optimizer_bytes(j, width);
    size_add(s, SIZE_STATES, j->offload_optimizer ? 0 : n * each / states, SRC_STATES,
             "%.0f * %.1f B / %.0f", n, each, states);
}

static void full_states(struct size_sum *s, const struct size_rank *k, double shards)
{
    const struct size_job *j = s->j;
    struct recipe r = recipe(j);
    double all = shards_all(j) ? shards : 1, grads = j->shard >= SIZE_ZERO2 ? shards : 1;
    double states = j->shard >= SIZE_ZERO1 || j->distributed_optimizer ? shards : 1;
    double g = j->optimizer_in_backward ? r.grads * (k->ends + k->layer) : r.grads * k->total;

    size_add(s, SIZE_WEIGHTS, j->offload_params ? 0 : r.weights * k->total / all, SRC_STATES,
             "%.0f parameters * %.0f B / %.0f", k->total, r.weights, all);
    size_add(s, SIZE_WEIGHTS, gathered(s, k, r.weights * k->total + g),
             "layers that a rank gathers to use them", "2 layers of %.0f parameters and an end",
             k->layer);
    size_add(s, SIZE_GRADIENTS, j->offload_params ? 0 : g / grads, SRC_STATES,
             "%.0f B / %.0f ranks", g, grads);
    double o = r.states * k->total + r.ends * k->ends;
    size_add(s, SIZE_STATES, j->offload_optimizer ? 0 : o / states, SRC_STATES,
             "%.0f parameters * %.1f B / %.0f", k->total, r.states, states);
    if (j->offload_optimizer || j->offload_params)
        s->host = (r.weights + r.grads + r.states) * k->total * 1.5;
}

/* An unfused AdamW step makes a copy of all it steps on; fused, 8-bit and sharded ones do not. */
static double foreach_copy(const struct size_sum *s)
{
    const struct size_job *j = s->j;
    struct size_rank k;

    if (adapts(j) || j->framework != SIZE_TRANSFORMERS || j->precision != SIZE_MIXED ||
        j->optimizer != SIZE_ADAMW || j->shard != SIZE_DDP)
        return 0;
    size_rank(s->m, j, &k);
    return s->c[SIZE_C_FOREACH] * 4 * k.total;
}

/* Of two moments the fuller: all activations (gradients only when they are summed up), or the
 * optimizer's step (all gradients, one layer). */
static void peak(struct size_sum *s, double live)
{
    double grads = s->part[SIZE_GRADIENTS];
    double passes = s->part[SIZE_ACTIVATIONS] + s->part[SIZE_LOGITS];

    bool held = adapts(s->j) || s->j->accumulate > 1 || s->j->optimizer_in_backward ||
                s->j->framework == SIZE_MEGATRON; /* its gradients have buffers of their own */
    double step = foreach_copy(s);

    s->passing = passes;
    if (passes + (held ? grads : 0) >= grads + live + step) {
        if (held)
            return;
        size_add(s, SIZE_GRADIENTS, -grads, "they come while activations go",
                 "no gradients at the fullest moment: the end of the forward pass");
        return;
    }
    size_add(s, SIZE_GRADIENTS, step, "an unfused optimizer step, fitted", "a 32-bit copy");
    size_add(s, SIZE_ACTIVATIONS, MIN(live, s->part[SIZE_ACTIVATIONS]) - s->part[SIZE_ACTIVATIONS],
             "they go while gradients come", "fullest at the optimizer's step: one layer is left");
    size_add(s, SIZE_LOGITS, -s->part[SIZE_LOGITS], "they go while gradients come", "no logits");
}

void size_training(struct size_sum *s)
{
    const struct size_job *j = s->j;
    struct size_rank k;
    double live = 0, shards = (double)MAX(j->dp, 1);

    size_rank(s->m, j, &k);
    activations(s, &live);
    logits(s);
    if (adapts(j))
        adapter_states(s, &k, shards);
    else
        full_states(s, &k, shards);
    peak(s, live);
    double base = size_rank_weights(s, &k), spread = j->shard == SIZE_ZERO3 ? shards : 1;
    s->load_peak = j->host_load || j->offload_params ? 0 : base / spread;
    if (j->shard == SIZE_FSDP) /* wraps a whole model, layer by layer, unless the host does that */
        s->load_peak += gathered(s, &k, base);
    s->load_peak += dequantised(s);
    if (j->task == SIZE_QLORA && !stored_quantised(j)) /* one file of the 16-bit checkpoint */
        s->load_peak += MIN(SHARD_BYTES, 2 * (double)size_params_total(s->m));
}
