/* What a serving engine leaves for the KV cache of a card.
 *
 *   vLLM, SGLang  utilisation * card - weights - trial step - what is no tensor
 *   TensorRT-LLM  fraction * what is free after loading
 *
 * The trial step (the engine's profiling run) is mostly the sampler: sequences * vocabulary * about
 * 39 B; cards of 70 GiB and more try 1,024 sequences, smaller ones 256. */
#include "base/msg.h"
#include "domain/size_sum.h"

#define BIG_CARD (70 * SIZE_GIB)
#define BLOCK 16

enum err size_budget(const struct size_model *m, const struct size_job *j, int64_t card_bytes,
                     struct size_budget *ret_b, struct refusal *why)
{
    return size_budget_with(m, j, size_coefs(), card_bytes, ret_b, why);
}

enum err size_budget_with(const struct size_model *m, const struct size_job *j,
                          const double c[SIZE_COEFS], int64_t card_bytes, struct size_budget *ret_b,
                          struct refusal *why)
{
    struct size_sum s = {.m = m, .j = j, .c = c};
    struct size_rank k;
    double card = (double)card_bytes;

    TRY(size_model_check(m, why));
    TRY(size_job_check(m, j, why));
    if (card_bytes <= 0 || card >= 1e15) {
        enum err e = refusef(why, ERR_VALIDATION, "field", "%s", "card");
        refusal_set(why, "why", N_("no card has so much memory"));
        return e;
    }
    size_params(m, &s.p);
    size_rank(m, j, &k);
    double n = j->sequences_max > 0 ? (double)j->sequences_max : card >= BIG_CARD ? 1024 : 256;
    double weights = size_rank_weights(&s, &k);
    double trial = c[SIZE_C_SAMPLER] * n * (double)m->vocab;
    double other = (c[SIZE_C_NON_TORCH] + (j->tp > 1 ? c[SIZE_C_COMMUNICATION] : 0)) * 1e9;
    double taken = j->utilisation * card, cache = taken - weights - trial - other;
    if (j->framework == SIZE_TRTLLM) {
        taken = card;
        cache = j->utilisation * (card - weights - trial - other);
    }
    *ret_b = (struct size_budget){.taken = (int64_t)taken,
                                  .weights = (int64_t)weights,
                                  .activations = (int64_t)trial,
                                  .non_torch = (int64_t)other,
                                  .cache = {(int64_t)(cache - SIZE_ENGINE_BAND), (int64_t)cache,
                                            (int64_t)(cache + SIZE_ENGINE_BAND)}};
    int64_t one = size_kv_sequence(m, &j->kv, (j->seq + BLOCK - 1) / BLOCK * BLOCK, j->tp);
    int64_t token = size_kv_sequence(m, &j->kv, 1, j->tp) - m->state_bytes;
    ret_b->tokens = size_kv_tokens(ret_b->cache.expected, token, BLOCK);
    ret_b->sequences = one > 0 && ret_b->cache.expected > 0 ? ret_b->cache.expected / one : 0;
    return ERR_OK;
}
