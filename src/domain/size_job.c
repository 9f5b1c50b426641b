/* A job: what it means when something is not said, what is refused, how many adapter parameters,
 * FLOPs and bytes of disk it has. */
#include "base/msg.h"
#include "domain/size_sum.h"

#define STEP_MAX ((int64_t)1 << 40) /* tokens of one step */

void size_job_default(const struct size_model *m, struct size_job *j)
{
    int64_t *one[] = {&j->batch, &j->accumulate, &j->dp, &j->tp,
                      &j->pp,    &j->cp,         &j->ep, &j->pp_virtual};

    for (size_t i = 0; i < ARRAY_LEN(one); i++)
        if (*one[i] == 0)
            *one[i] = 1;
    if (j->weights == SIZE_FORMAT_NONE)
        j->weights = m->stored != SIZE_FORMAT_NONE && j->task == SIZE_INFER ? m->stored
                     : j->task == SIZE_QLORA                                ? SIZE_NF4_DQ
                                                                            : SIZE_BF16;
    if (j->seq == 0)
        j->seq = m->context_max > 0 ? MIN(m->context_max, 2048) : 2048;
    if (j->rank == 0 && (j->task == SIZE_LORA || j->task == SIZE_QLORA))
        j->rank = 16;
    if (j->targets == 0)
        j->targets = SIZE_TARGET_ALL;
    if (j->utilisation == 0)
        j->utilisation = 0.9;
    if (j->ubatch == 0)
        j->ubatch = 512;
    if (j->head_rows == 0)
        j->head_rows = 2;
}

static enum err no(struct refusal *why, const char *field, const char *text)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%s", field);

    refusal_set(why, "why", text);
    return e;
}

static enum err check_numbers(const struct size_job *j, struct refusal *why)
{
    const struct {
        const char *field;
        int64_t value, max;
    } bound[] = {
        {"--seq", j->seq, 1 << 28},
        {"--batch", j->batch, 1 << 24},
        {"--grad-accum", j->accumulate, 1 << 24},
        {"dp", j->dp, 1 << 20},
        {"tp", j->tp, 1 << 12},
        {"pp", j->pp, 1 << 12},
        {"cp", j->cp, 1 << 12},
        {"ep", j->ep, 1 << 12},
        {"--virtual", j->pp_virtual, 1 << 12},
        {"--ubatch", j->ubatch, 1 << 20},
        {"--head-rows", j->head_rows, 1 << 10},
    };

    for (size_t i = 0; i < ARRAY_LEN(bound); i++)
        if (bound[i].value < 1 || bound[i].value > bound[i].max)
            return no(why, bound[i].field,
                      N_("it must be at least 1, and no more than can be run"));
    if (j->rank < 0 || j->rank > 1 << 16)
        return no(why, "--rank", N_("it must be at least 1, and no more than can be run"));
    if (j->generate < 0 || j->generate > j->seq)
        return no(why, "--generate", N_("it is part of the sequence and cannot be longer"));
    if (j->sequences_max < 0 || j->sequences_max > 1 << 24)
        return no(why, "--sequences", N_("it must be at least 1, and no more than can be run"));
    if (j->seq > STEP_MAX / j->batch)
        return no(why, "--batch", N_("so many tokens at once fit nowhere"));
    return ERR_OK;
}

enum err size_job_check(const struct size_model *m, const struct size_job *j, struct refusal *why)
{
    TRY(check_numbers(j, why));
    if (j->pp > m->layers)
        return no(why, "pp", N_("there are fewer layers than stages"));
    if (j->tp > m->heads || m->heads % j->tp != 0)
        return no(why, "tp", N_("it must divide the number of heads"));
    if (j->ep > 1 && (m->moe.experts == 0 || m->moe.experts % j->ep != 0))
        return no(why, "ep", N_("it must divide the number of experts"));
    if (!(j->utilisation > 0 && j->utilisation <= 1))
        return no(why, "--utilisation", N_("it must lie between 0 and 1 (0 % and 100 %)"));
    enum size_kind kind = size_format_row(j->weights)->kind;
    if (j->task != SIZE_INFER && (kind == SIZE_KIND_BLOCK || kind == SIZE_KIND_MIX))
        return no(why, "--weights", N_("GGUF files are for inference: train from safetensors"));
    if ((j->task == SIZE_FULL || j->task == SIZE_PRETRAIN) && kind != SIZE_KIND_PLAIN &&
        j->weights != SIZE_FP8)
        return no(why, "--weights", N_("quantised weights cannot be trained; an adapter can"));
    return ERR_OK;
}

int64_t size_adapter_params(const struct size_model *m, const struct size_job *j)
{
    double r = (double)j->rank, h = (double)m->hidden, q, k, v, o, n = 0;
    double f =
        (double)(m->moe.experts > 0 ? m->moe.ffn * m->moe.experts + m->moe.shared_ffn : m->ffn);
    double mlps = m->moe.experts > 0 ? (double)m->moe.experts + (m->moe.shared_ffn > 0) : 1;
    double dv = (double)(m->value_dim ? m->value_dim : m->head_dim), out = (double)m->heads * dv;

    q = (double)(m->heads * m->head_dim);
    k = (double)(m->kv_heads * m->head_dim);
    v = (double)m->kv_heads * dv;
    if (m->mla.kv_lora > 0) {
        q = (double)(m->heads * (m->mla.nope + m->mla.rope));
        k = (double)(m->mla.kv_lora + m->mla.rope);
        v = 0; /* keys and values come from one latent matrix */
        out = (double)(m->heads * m->mla.value);
    }
    o = h;
    n += j->targets & SIZE_Q ? h + q : 0;
    n += j->targets & SIZE_K ? h + k : 0;
    n += j->targets & SIZE_V && v > 0 ? h + v : 0;
    n += j->targets & SIZE_O ? out + o : 0;
    n += j->targets & SIZE_GATE && m->gated ? mlps * h + f : 0;
    n += j->targets & SIZE_UP ? mlps * h + f : 0;
    n += j->targets & SIZE_DOWN ? f + mlps * h : 0;
    n *= r * (double)m->layers;
    if (j->targets & SIZE_HEAD)
        n += r * (h + (double)m->vocab);
    if (j->dora) /* one magnitude for every output */
        n += (double)m->layers *
             ((j->targets & SIZE_Q ? q : 0) + (j->targets & SIZE_K ? k : 0) +
              (j->targets & SIZE_V ? v : 0) + (j->targets & SIZE_O ? o : 0) +
              (j->targets & SIZE_GATE && m->gated ? f : 0) + (j->targets & SIZE_UP ? f : 0) +
              (j->targets & SIZE_DOWN ? mlps * h : 0));
    return size_whole(n);
}

double size_flops_token(const struct size_model *m, const struct size_job *j)
{
    double active = (double)size_params_active(m), forward = 2 * active;
    double d = m->mla.kv_lora > 0 ? (double)(m->mla.nope + m->mla.rope) : (double)m->head_dim;
    double attends = (double)(m->kv_layers > 0 ? m->kv_layers : m->layers);
    double span = (double)j->seq;

    if (m->window > 0 && m->window < j->seq)
        span = m->window_every > 0
                   ? (span + (double)(m->window_every - 1) * 2 * (double)m->window) /
                         (double)m->window_every
                   : 2 * (double)m->window;
    double attention = 12 * attends * (double)m->heads * d * span / 2; /* causal, with backward */
    bool frozen = j->task == SIZE_LORA || j->task == SIZE_QLORA;

    if (j->task == SIZE_INFER)
        return forward + attention / 3;
    double again = j->recompute == SIZE_RECOMPUTE ? forward : 0;
    double more = j->recompute == SIZE_RECOMPUTE ? 4.0 / 3 : 1;
    return (frozen ? 2 * forward : 3 * forward) + again + attention * more;
}

void size_disk(const struct size_model *m, const struct size_job *j, int64_t image, int64_t data,
               int64_t keep, struct size_disk *ret_d)
{
    double params = (double)size_params_total(m), adapters = (double)size_adapter_params(m, j);
    enum size_kind kind = size_format_row(j->weights)->kind;
    double stored = (double)size_weight_bytes(m, kind == SIZE_KIND_HF && j->task == SIZE_QLORA
                                                     ? SIZE_BF16 /* quantised while loading */
                                                     : j->weights);

    *ret_d = (struct size_disk){.download = size_whole(stored)};
    if (j->task == SIZE_INFER && kind == SIZE_KIND_MIX && m->weight_bytes == 0)
        ret_d->convert = size_whole(2 * params); /* a 16-bit file that is quantised here */
    switch (j->task) {
    case SIZE_LORA:
    case SIZE_QLORA:
        ret_d->checkpoint = size_whole(12 * adapters);
        break; /* 4 and Adam's 8 */
    case SIZE_FULL:
    case SIZE_PRETRAIN:
        ret_d->checkpoint = size_whole((j->precision == SIZE_PURE16 ? 6 : 14) * params);
        break;
    case SIZE_INFER:
    case SIZE_TASKS:
        break;
    }
    ret_d->checkpoints = (int64_t)MIN((double)ret_d->checkpoint * (double)MAX(keep, 0), 9e15);
    double sum = (double)image + (double)data + (double)ret_d->download + (double)ret_d->convert +
                 (double)ret_d->checkpoints;
    ret_d->total = (int64_t)MIN(sum / 0.85, 9e15);
}
