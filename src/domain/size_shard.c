/* How parameters and their states are spread over cards.
 *
 *   rank       (L/p layers + ends of the stage) / t;  experts / (ep * t)
 *   ZeRO-1/2   optimizer (and gradients) / N;  ZeRO-3 and FSDP: all / N
 *
 * DeepSpeed's own estimators are here as well: they are goldens of the formulas. */
#include "domain/size_sum.h"

void size_rank(const struct size_model *m, const struct size_job *j, struct size_rank *ret_k)
{
    struct size_params p;
    double t = (double)j->tp, pp = (double)j->pp;

    size_params(m, &p);
    if (m->params_exact > 0)
        p.linear = MAX(p.experts, p.linear + ((double)m->params_exact - p.total));
    double stage = (double)((m->layers + j->pp - 1) / j->pp) / (double)m->layers; /* fullest */
    double ends = pp > 1 ? MAX(p.embed, p.head) : p.embed + p.head;
    *ret_k = (struct size_rank){.linear = (p.linear - p.experts) * stage / t,
                                .experts = p.experts * stage / ((double)j->ep * t),
                                .ends = ends / t,
                                .other = p.other * stage,
                                .layer = p.layer};
    ret_k->total = ret_k->linear + ret_k->experts + ret_k->ends + ret_k->other;
}

double size_rank_weights(const struct size_sum *s, const struct size_rank *k)
{
    double bytes = (double)size_weight_bytes(s->m, s->j->weights);
    double total = (double)size_params_total(s->m), bits = size_bits(s->j->weights) / 8;

    if (size_format_row(s->j->weights)->kind != SIZE_KIND_HF || s->m->weight_bytes > 0)
        return bytes * MIN(1, k->total / total);
    double linear = k->linear + k->experts, all = s->p.linear;
    double scales = s->j->weights == SIZE_INT8 || s->j->weights == SIZE_W8A8
                        ? 4 * s->p.rows * (all > 0 ? linear / all : 0)
                        : 0;
    if (s->j->weights == SIZE_MXFP4) { /* only experts; vLLM pads them to whole blocks of 256 */
        int64_t f = s->m->moe.ffn;
        double pad =
            s->j->framework == SIZE_VLLM && f > 0 ? (double)((f + 255) / 256 * 256) / (double)f : 1;
        return k->experts * bits * pad + 2 * (k->linear + k->ends + k->other);
    }
    return linear * bits + scales + 2 * (k->ends + k->other);
}

void size_zero_states(double params, double largest_layer, int64_t gpus, int64_t nodes,
                      enum size_shard shard, bool offload_optimizer, bool offload_params,
                      bool zero_init, struct size_zero *ret_z)
{
    double all = (double)(gpus * nodes), per = (double)gpus, extra = 1.5;

    *ret_z = (struct size_zero){0};
    if (shard != SIZE_ZERO3 && shard != SIZE_FSDP) {
        ret_z->gpu = offload_optimizer ? 2 * params : 4 * params + 16 * params / all;
        ret_z->host =
            offload_optimizer ? params * MAX(4 * all, 16) * extra : params * 4 * per * extra;
        return;
    }
    double largest = 4 * largest_layer, start = 4 * params * per; /* every process loads all */
    if (offload_optimizer && offload_params) {
        ret_z->gpu = largest;
        ret_z->host =
            (zero_init ? 18 * params / (double)nodes : MAX(start, 18 * params / (double)nodes)) *
            extra;
    } else if (offload_optimizer) {
        ret_z->gpu = largest + 2 * params / all;
        ret_z->host =
            (zero_init ? 16 * params / (double)nodes : MAX(start, 16 * params / (double)nodes)) *
            extra;
    } else {
        ret_z->gpu = largest + 18 * params / all;
        ret_z->host = zero_init ? largest_layer * 4 * per * extra : start * extra;
    }
}
