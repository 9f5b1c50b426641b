/* Laws of the sizing over any plausible model and job: it never shrinks when there is more to do,
 * parts add up, sharding never costs a rank, intervals are in order, and absurd input is refused.
 */
#include <stdio.h>
#include <stdlib.h>

#include "domain/size.h"
#include "tape.h"

static void any_model(struct tape *t, struct size_model *m)
{
    int64_t groups = INT64_C(1) << tape_range(t, 0, 4);

    *m = (struct size_model){.layers = 1 + tape_range(t, 0, 99),
                             .head_dim = 64 << tape_range(t, 0, 2),
                             .kv_heads = 1 + tape_range(t, 0, 15),
                             .vocab = 1000 + tape_size(t, 260000),
                             .gated = !tape_chance(t, 30),
                             .tied = tape_chance(t, 30),
                             .qkv_bias = tape_chance(t, 30),
                             .qk_norm = tape_chance(t, 20)};
    m->heads = m->kv_heads * groups;
    m->hidden = 64 * (1 + tape_range(t, 0, 160));
    m->ffn = 256 * (1 + tape_range(t, 0, 100));
    if (tape_chance(t, 20))
        m->norm = SIZE_LAYERNORM;
    if (tape_chance(t, 20)) {
        m->moe = (struct size_moe){.experts = 8 << tape_range(t, 0, 4), .active = 2, .ffn = 512};
        m->moe.shared_ffn = tape_chance(t, 50) ? 1024 : 0;
        m->moe.dense_first = tape_range(t, 0, MIN(m->layers, INT64_C(3)));
    }
    if (tape_chance(t, 15))
        m->mla = (struct size_mla){tape_chance(t, 50) ? 1536 : 0, 512, 128, 64, 128};
    if (tape_chance(t, 20)) {
        m->window = 1024;
        m->window_every = tape_range(t, 0, 6);
    }
    size_model_default(m);
}

static void any_job(struct tape *t, const struct size_model *m, struct size_job *j)
{
    static const enum size_format hf[] = {SIZE_BF16,  SIZE_NF4,  SIZE_NF4_DQ, SIZE_INT8,
                                          SIZE_GPTQ4, SIZE_AWQ4, SIZE_FP8};

    *j = (struct size_job){.task = (enum size_task)tape_range(t, 0, SIZE_TASKS - 1),
                           .framework = (enum size_framework)tape_range(t, 0, SIZE_FRAMEWORKS - 1),
                           .precision = (enum size_precision)tape_range(t, 0, 2),
                           .optimizer = (enum size_optimizer)tape_range(t, 0, SIZE_OPTIMIZERS - 1),
                           .recompute = (enum size_recompute)tape_range(t, 0, 2),
                           .attention = (enum size_attention)tape_range(t, 0, 2),
                           .loss = (enum size_loss)tape_range(t, 0, 2),
                           .shard = (enum size_shard)tape_range(t, 0, SIZE_FSDP),
                           .measure = (enum size_measure)tape_range(t, 0, 2),
                           .seq = 1 + tape_size(t, 20000),
                           .batch = 1 + tape_range(t, 0, 7),
                           .accumulate = 1 + tape_range(t, 0, 3),
                           .dp = INT64_C(1) << tape_range(t, 0, 5),
                           .rank = 1 + tape_range(t, 0, 255)};
    j->compile = tape_chance(t, 20);
    j->adapter32 = tape_chance(t, 50);
    j->offload_optimizer = tape_chance(t, 10);
    j->optimizer_in_backward = tape_chance(t, 10);
    j->targets = (unsigned)tape_range(t, 1, 255);
    j->old_logits = tape_chance(t, 10);
    if (j->task == SIZE_INFER)
        j->generate = tape_range(t, 0, j->seq);
    if (j->task == SIZE_INFER || j->task == SIZE_LORA || j->task == SIZE_QLORA)
        j->weights = hf[tape_range(t, 0, (int64_t)ARRAY_LEN(hf) - 1)];
    size_job_default(m, j);
}

static bool estimated(const struct size_model *m, const struct size_job *j, struct size_result *r)
{
    struct refusal why = {0};
    enum err e = size_estimate(m, j, r, &why);

    if (e != ERR_OK)
        printf("# refused: %s, %s\n", why.params[0].value, why.params[1].value);
    return e == ERR_OK;
}

/* The sizes drawn here are no absurd ones, so nothing may be refused. */
static bool any_case(struct tape *t, struct size_model *m, struct size_job *j,
                     struct size_result *r)
{
    any_model(t, m);
    any_job(t, m, j);
    return estimated(m, j, r);
}

static bool law_monotone(struct tape *t)
{
    struct size_model m, bigger;
    struct size_job j, more;
    struct size_result a, b;

    TAPE_MUST(t, any_case(t, &m, &j, &a));
    more = j;
    more.seq += 1 + tape_size(t, 1000);
    TAPE_MUST(t, estimated(&m, &more, &b) && b.total.expected >= a.total.expected - SIZE_PARTS);
    more = j;
    more.batch += 1 + tape_range(t, 0, 7);
    TAPE_MUST(t, estimated(&m, &more, &b) && b.total.expected >= a.total.expected - SIZE_PARTS);
    more = j;
    more.rank += 1 + tape_range(t, 0, 63);
    TAPE_MUST(t, estimated(&m, &more, &b) && b.total.expected >= a.total.expected - SIZE_PARTS);
    TAPE_MUST(t, size_adapter_params(&m, &more) >= size_adapter_params(&m, &j));
    bigger = m;
    bigger.layers += 1 + tape_range(t, 0, 15);
    TAPE_MUST(t, estimated(&bigger, &j, &b) && b.total.expected >= a.total.expected - SIZE_PARTS);
    TAPE_MUST(t, size_params_total(&bigger) > size_params_total(&m));
    TAPE_MUST(t, b.kv_token >= a.kv_token && b.flops_token >= a.flops_token);
    return true;
}

static bool law_sums(struct tape *t)
{
    struct size_model m;
    struct size_job j;
    struct size_result r;
    int64_t low = 0, expected = 0, high = 0;

    TAPE_MUST(t, any_case(t, &m, &j, &r));
    for (int p = 0; p < SIZE_PARTS; p++) {
        struct size_range *x = &r.part[p];
        TAPE_MUST(t, x->low >= 0 && x->low <= x->expected && x->expected <= x->high);
        low += x->low;
        expected += x->expected;
        high += x->high;
    }
    TAPE_MUST(t, low == r.total.low && expected == r.total.expected && high == r.total.high);
    TAPE_MUST(t, r.step_count > 0 && r.step_count <= SIZE_STEPS_MAX && r.params > 0);
    TAPE_MUST(t, r.active <= r.params && r.load_peak >= 0 && r.part[r.binding].expected > 0);
    return true;
}

/* What --explain prints adds up to what is shown. */
static bool law_steps(struct tape *t)
{
    struct size_model m;
    struct size_job j;
    struct size_result r;
    int64_t sum = 0;

    TAPE_MUST(t, any_case(t, &m, &j, &r));
    for (size_t i = 0; i < r.step_count; i++) {
        TAPE_MUST(t, r.step[i].source && r.step[i].text[0]);
        sum += r.step[i].bytes;
    }
    int64_t slack = SIZE_STEPS_MAX + SIZE_PARTS;
    TAPE_MUST(t, llabs(sum - r.total.expected) <= slack);
    return true;
}

static int64_t states(const struct size_result *r)
{
    return r->part[SIZE_WEIGHTS].expected + r->part[SIZE_GRADIENTS].expected +
           r->part[SIZE_STATES].expected + r->part[SIZE_ADAPTERS].expected;
}

static bool law_sharding(struct tape *t)
{
    struct size_model m;
    struct size_job j;
    struct size_result one, many, more;

    TAPE_MUST(t, any_case(t, &m, &j, &one));
    if (j.task == SIZE_INFER)
        return true;
    j.accumulate = 2; /* gradients are there in both */
    j.dp = 1;
    TAPE_MUST(t, estimated(&m, &j, &one));
    j.dp = 2 + tape_range(t, 0, 62);
    TAPE_MUST(t, estimated(&m, &j, &many) && states(&many) <= states(&one) + SIZE_PARTS);
    j.dp *= 2;
    TAPE_MUST(t, estimated(&m, &j, &more) && states(&more) <= states(&many) + SIZE_PARTS);
    return true;
}

static bool law_recompute(struct tape *t)
{
    struct size_model m;
    struct size_job j;
    struct size_result kept, again;

    TAPE_MUST(t, any_case(t, &m, &j, &kept));
    if (j.task == SIZE_INFER || m.layers < 8)
        return true;
    j.recompute = SIZE_KEEP;
    TAPE_MUST(t, estimated(&m, &j, &kept));
    j.recompute = SIZE_RECOMPUTE;
    TAPE_MUST(t, estimated(&m, &j, &again));
    TAPE_MUST(t, again.total.expected <= kept.total.expected + SIZE_PARTS);
    return true;
}

static int64_t any_number(struct tape *t)
{
    static const int64_t edge[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_C(1) << 53, 1 << 20, 128};

    return tape_chance(t, 40) ? edge[tape_range(t, 0, (int64_t)ARRAY_LEN(edge) - 1)]
                              : tape_size(t, INT64_MAX / 2);
}

/* Anything at all: refused with a reason or answered in order; the sanitizers look for the rest. */
static bool law_absurd(struct tape *t)
{
    struct size_model m;
    struct size_job j;
    struct size_result r;
    struct size_budget b;
    struct refusal why = {0};

    any_model(t, &m);
    any_job(t, &m, &j);
    int64_t *field[] = {&m.layers,
                        &m.hidden,
                        &m.ffn,
                        &m.heads,
                        &m.kv_heads,
                        &m.head_dim,
                        &m.vocab,
                        &m.value_dim,
                        &m.positions,
                        &m.norms,
                        &m.window,
                        &m.window_every,
                        &m.kv_layers,
                        &m.state_bytes,
                        &m.linear_params,
                        &m.tower_params,
                        &m.params_exact,
                        &m.weight_bytes,
                        &m.moe.experts,
                        &m.moe.ffn,
                        &m.moe.every,
                        &m.mla.kv_lora,
                        &m.mla.q_lora,
                        &m.mtp_layers,
                        &j.seq,
                        &j.batch,
                        &j.rank,
                        &j.dp,
                        &j.tp,
                        &j.pp,
                        &j.cp,
                        &j.ep,
                        &j.generate,
                        &j.accumulate,
                        &j.ubatch,
                        &j.pp_virtual,
                        &j.sequences_max,
                        &j.head_rows};
    for (int64_t n = tape_range(t, 0, 3); n >= 0; n--)
        *field[tape_range(t, 0, (int64_t)ARRAY_LEN(field) - 1)] = any_number(t);
    enum err e = size_estimate(&m, &j, &r, &why);
    TAPE_MUST(t, e == ERR_OK || (e == ERR_VALIDATION && why.param_count == 2));
    if (e == ERR_OK)
        TAPE_MUST(t, r.total.low <= r.total.expected && r.total.expected <= r.total.high &&
                         r.total.low >= 0);
    e = size_budget(&m, &j, any_number(t), &b, &why);
    TAPE_MUST(t, e == ERR_OK || e == ERR_VALIDATION);
    return true;
}

/* A GGUF file lies between its smallest and its largest type, and never gains from fewer layers. */
static bool law_gguf(struct tape *t)
{
    struct size_model m;

    any_model(t, &m);
    enum size_format f = (enum size_format)tape_range(t, SIZE_FILE_Q2_K, SIZE_FORMATS - 1);
    int64_t bytes = size_gguf_bytes(&m, f);
    TAPE_MUST(t, bytes > size_weight_bytes(&m, SIZE_IQ1_S) / 2);
    TAPE_MUST(t, bytes <= size_weight_bytes(&m, SIZE_F32));
    m.layers++;
    TAPE_MUST(t, size_gguf_bytes(&m, f) > bytes - bytes / 8);
    return true;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"more to do never takes less", law_monotone, 30},
        {"parts add up, intervals are in order", law_sums, 50},
        {"the formulas shown add up", law_steps, 30},
        {"sharding never raises a rank's states", law_sharding, 30},
        {"recomputing never takes more", law_recompute, 20},
        {"absurd input is refused, never overflows", law_absurd, 50},
        {"GGUF files lie between their types", law_gguf, 10},
    };

    return tape_main(tests, ARRAY_LEN(tests), argc, argv);
}
