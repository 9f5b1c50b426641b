/* size_speed.c: how fast a card works on a job. Efficiencies are what was measured and published:
 *   LoRA, A100-80 (Qwen README): 256 tokens 25 %, 512 40 %, 8192 46-55 % of the published rate
 *   QLoRA, same source: 512 tokens 20 %, 4096 42 %
 *   full: torchtitan Llama-3.1-8B on H100 33-39 %, 64 A100 57 %; Megatron 42-54 %
 *   decoding, A100, transformers: 7B 31 %, 32B 57 %, 72B 63 % of the memory bandwidth
 * The interval is a factor 0.65 to 1.6 of the expected time. */
#include <math.h>

#include "domain/size_speed.h"

/* Straight line over the logarithm of the tokens of a micro-step. */
static double between(double tokens, double t0, double e0, double t1, double e1)
{
    if (tokens <= t0)
        return e0;
    if (tokens >= t1)
        return e1;
    return e0 + (e1 - e0) * log2(tokens / t0) / log2(t1 / t0);
}

double size_efficiency(const struct size_job *j, const struct card_row *card, int64_t count)
{
    double tokens = (double)j->seq * (double)j->batch, e;

    if (j->task == SIZE_QLORA)
        e = between(tokens, 512, 0.20, 4096, 0.42);
    else if (j->task == SIZE_LORA)
        e = tokens < 512 ? between(tokens, 256, 0.25, 512, 0.40)
                         : between(tokens, 512, 0.40, 8192, 0.50);
    else
        e = between(tokens, 512, 0.30, 8192, 0.45);
    if (count > 1)
        e *= card->domain >= count ? 0.95 : (card->domain > 1 ? 0.85 : 0.70);
    return e;
}

/* The rate that training efficiencies refer to: published, or what matrix products reach. */
static double rate(const struct card_row *card)
{
    if (card->achievable_tflops > 0)
        return MIN(card->tflops16, card->achievable_tflops / 0.80) * 1e12;
    return card->tflops16 * (str_eq(card->vendor, "NVIDIA") ? 1.0 : 0.6) * 1e12;
}

static int64_t whole(double v)
{
    return v >= 4e18 ? INT64_C(4000000000000000000) : (v <= 0 ? 0 : (int64_t)(v + 0.5));
}

void size_speed_train(const struct size_ask *a, const struct size_job *j,
                      const struct card_row *card, int64_t count, struct size_range *ret_s)
{
    double flops = size_flops_token(&a->model, j) * (double)a->tokens * (double)a->epochs;
    double s = flops / (rate(card) * (double)count * size_efficiency(j, card, count));

    *ret_s = (struct size_range){whole(s * 0.65), whole(s), whole(s * 1.6)};
}

/* Share of the memory bandwidth that decoding reaches. */
static double decode_share(const struct size_job *j, double params)
{
    if (j->framework != SIZE_TRANSFORMERS)
        return 0.60;
    return between(params, 1e9, 0.15, 7e9, 0.31) + between(params, 7e9, 0, 32e9, 0.57 - 0.31) +
           between(params, 32e9, 0, 72e9, 0.06);
}

void size_speed_decode(const struct size_ask *a, const struct size_job *j,
                       const struct card_row *card, int64_t count, int64_t sequences,
                       int64_t *ret_one, int64_t *ret_all)
{
    double total = (double)size_params_total(&a->model);
    double active = (double)size_params_active(&a->model);
    double weights = (double)size_weight_bytes(&a->model, j->weights);
    double cache = (double)size_kv_sequence(&a->model, &j->kv, j->seq, 1);
    double read = card->bandwidth_gbps * 1e9 * decode_share(j, total) *
                  (double)MAX(j->tp, (int64_t)1) * (j->tp > 1 ? 0.85 : 1);
    double n = (double)MAX(sequences, (int64_t)1);
    double touched = MIN(weights, weights * active / total * n);
    double one = read / (weights * active / total + cache);
    double all = n * read / (touched + n * cache / 2);
    double most = rate(card) * (double)count * 0.5 / (2 * active);

    *ret_one = whole(MIN(one, most));
    *ret_all = whole(MAX(MIN(all, most), MIN(one, most)));
}
