/* The estimate as a whole: states and activations from size_train.c or size_infer.c, what a process
 * holds besides, the interval that measured cases allow, and the part that binds. */
#include "base/msg.h"
#include "base/str.h"
#include "domain/size_sum.h"

#define BYTES_MAX 9007199254740992.0 /* 2^53 */
#define GB 1e9

static const double fitted[SIZE_COEFS] = {
#define FIT(id, value, rows) [SIZE_C_##id] = value,
#define SPREAD(family, low, high, rows)
#include "domain/size_fit.def"
#undef FIT
#undef SPREAD
};

static const struct size_spread spreads[SIZE_FAMILIES] = {
#define FIT(id, value, rows)
#define SPREAD(family, low, high, rows) [SIZE_FAMILY_##family] = {low, high, rows},
#include "domain/size_fit.def"
#undef FIT
#undef SPREAD
};

const double *size_coefs(void)
{
    return fitted;
}

struct size_spread size_spread(enum size_family f)
{
    return spreads[f];
}

enum size_family size_family(const struct size_job *j)
{
    switch (j->task) {
    case SIZE_LORA:
        return SIZE_FAMILY_LORA;
    case SIZE_QLORA:
        return SIZE_FAMILY_QLORA;
    case SIZE_FULL:
    case SIZE_PRETRAIN:
        return SIZE_FAMILY_FULL;
    case SIZE_INFER:
    case SIZE_TASKS:
        break;
    }
    if (j->framework == SIZE_VLLM || j->framework == SIZE_SGLANG || j->framework == SIZE_TRTLLM)
        return SIZE_FAMILY_ENGINE;
    if (j->measure != SIZE_ALLOCATED)
        return SIZE_FAMILY_INFER_PROCESS;
    return size_format_row(j->weights)->kind == SIZE_KIND_PLAIN ? SIZE_FAMILY_INFER
                                                                : SIZE_FAMILY_INFER_QUANT;
}

const char *size_family_name(enum size_family f)
{
    static const char *const name[] = {
        "inference", "inference-quantised", "inference-process", "lora", "qlora", "full", "engine"};

    return name[f];
}

const char *size_part_name(enum size_part p)
{
    static const char *const name[] = {N_("weights"),   N_("adapters"),    N_("gradients"),
                                       N_("optimizer"), N_("activations"), N_("logits"),
                                       N_("KV cache"),  N_("framework"),   N_("fragmentation")};

    CHECK(p >= 0 && p < SIZE_PARTS);
    return name[p];
}

void size_add(struct size_sum *s, enum size_part part, double bytes, const char *source,
              const char *fmt, ...)
{
    s->part[part] += bytes;
    if (bytes == 0 || !s->explain || s->r->step_count == SIZE_STEPS_MAX)
        return;
    struct size_step *step = &s->r->step[s->r->step_count++];
    struct strbuf text;
    va_list ap;
    strbuf_init(&text, SIZE_STEP_MAX - 1);
    va_start(ap, fmt);
    strbuf_addv(&text, fmt, ap);
    va_end(ap);
    *step = (struct size_step){.part = part, .source = source};
    step->bytes = bytes < BYTES_MAX && bytes > -BYTES_MAX ? (int64_t)bytes : 0;
    if (!str_copy(step->text, sizeof(step->text), strbuf_str(&text)))
        step->text[0] = '\0';
    strbuf_fini(&text);
}

/* What the process holds besides tensors, as far as the measure counts it. */
static void besides(struct size_sum *s)
{
    const struct size_job *j = s->j;
    double moving = MAX(s->part[SIZE_ACTIVATIONS] + s->part[SIZE_LOGITS], s->passing);
    bool several = j->dp * j->tp * j->pp * j->cp > 1;

    size_add(s, SIZE_FRAMEWORK_PART, s->c[SIZE_C_WORKSPACE] * GB, "matrix workspace, fitted",
             "%.3f GB", s->c[SIZE_C_WORKSPACE]);
    if (j->measure == SIZE_ALLOCATED)
        return;
    size_add(s, SIZE_FRAGMENTATION, s->c[SIZE_C_FRAGMENT] * moving,
             "reserved by the allocator, not in use, fitted", "%.2f of %.0f B",
             s->c[SIZE_C_FRAGMENT], moving);
    if (j->measure == SIZE_RESERVED)
        return;
    double context = s->c[j->task == SIZE_INFER ? SIZE_C_CONTEXT_INFER : SIZE_C_CONTEXT];
    size_add(s, SIZE_FRAMEWORK_PART, context * GB, "context and kernels of the process, fitted",
             "%.2f GB", context);
    if (several && j->task != SIZE_INFER)
        size_add(s, SIZE_FRAMEWORK_PART, s->c[SIZE_C_COMMUNICATION] * GB,
                 "collectives between cards, fitted", "%.2f GB", s->c[SIZE_C_COMMUNICATION]);
}

/* An engine takes what it is given; its versions differ by a few GiB, whatever the model's size. */
static struct size_spread engine_spread(const struct size_spread *spread, double total)
{
    double band = MIN(SIZE_ENGINE_BAND / MAX(total, 1.0), 0.9);

    return (struct size_spread){1 - band, 1 + band, spread->rows};
}

/* The interval of the whole is put on the parts that are estimated: what is counted stays as it is,
 * so the low end is never below it. Gradients and optimizer states are no less sure than the recipe
 * is: they give way when the estimated parts are too small for the low end. */
static void ranges(struct size_sum *s, const struct size_spread *given)
{
    static const enum size_part soft[] = {SIZE_ACTIVATIONS, SIZE_LOGITS, SIZE_FRAMEWORK_PART,
                                          SIZE_FRAGMENTATION};
    double total = 0, moving = 0, share[SIZE_PARTS] = {0};
    struct size_spread spread = *given;

    for (int p = 0; p < SIZE_PARTS; p++)
        total += s->part[p];
    for (size_t i = 0; i < ARRAY_LEN(soft); i++)
        moving += share[soft[i]] = s->part[soft[i]];
    if (size_family(s->j) == SIZE_FAMILY_ENGINE && spread.rows == 0)
        spread = engine_spread(given, total);
    double down = MIN(total * (1 - spread.low), moving), up = total * (spread.high - 1);
    double recipe = s->part[SIZE_GRADIENTS] + s->part[SIZE_STATES];
    double rest = MIN(total * (1 - spread.low) - down, recipe);
    struct size_result *r = s->r;
    for (int p = 0; p < SIZE_PARTS; p++) {
        double part = s->part[p], of = moving > 0  ? share[p] / moving
                                       : total > 0 ? part / total
                                                   : 0;
        r->part[p].expected = (int64_t)part;
        double less = down * of;
        if (recipe > 0 && (p == SIZE_GRADIENTS || p == SIZE_STATES))
            less += rest * part / recipe;
        r->part[p].low = MIN((int64_t)(part - less), r->part[p].expected);
        r->part[p].high = MAX((int64_t)(part + up * of), r->part[p].expected);
        if (p == SIZE_LOGITS)
            r->part[p].high += (int64_t)s->maybe;
        r->part[p].low = MAX(r->part[p].low, (int64_t)0);
        r->total.low += r->part[p].low;
        r->total.expected += r->part[p].expected;
        r->total.high += r->part[p].high;
    }
}

static enum size_part binding(const struct size_result *r)
{
    enum size_part best = SIZE_WEIGHTS;

    for (int p = 0; p < SIZE_PARTS; p++)
        if (p != SIZE_FRAMEWORK_PART && r->part[p].expected > r->part[best].expected)
            best = (enum size_part)p;
    return best;
}

static void facts(struct size_sum *s, int64_t rows)
{
    struct size_result *r = s->r;
    const struct size_job *j = s->j;
    bool adapter = j->task == SIZE_LORA || j->task == SIZE_QLORA;

    r->params = size_params_total(s->m);
    r->active = size_params_active(s->m);
    r->trainable = adapter ? size_adapter_params(s->m, j) : j->task == SIZE_INFER ? 0 : r->params;
    r->kv_token = size_kv_token(s->m, &j->kv);
    r->kv_sequence = size_kv_sequence(s->m, &j->kv, j->seq, j->tp);
    r->flops_token = size_flops_token(s->m, j);
    r->load_peak = (int64_t)s->load_peak;
    r->host = (int64_t)s->host;
    r->binding = binding(r);
    r->family = size_family(j);
    r->family_rows = rows;
}

static enum err estimate(const struct size_model *m, const struct size_job *j,
                         const double coef[SIZE_COEFS], const struct size_spread *spread,
                         bool explain, struct size_result *ret_r, struct refusal *why)
{
    struct size_model model = *m;
    struct size_result r = {0};
    double total = 0;

    TRY(size_model_check(m, why));
    TRY(size_job_check(m, j, why));
    if (j->framework == SIZE_LITGPT)
        model.tied = false; /* it keeps a head of its own */
    struct size_sum s = {.m = &model, .j = j, .c = coef, .r = &r, .explain = explain};
    size_params(&model, &s.p);
    if (j->task == SIZE_INFER)
        size_inference(&s);
    else
        size_training(&s);
    besides(&s);
    for (int p = 0; p < SIZE_PARTS; p++)
        total += s.part[p];
    if (!((total + s.maybe) * spread->high < BYTES_MAX) || !(s.load_peak < BYTES_MAX) ||
        !(s.host < BYTES_MAX)) {
        enum err e = refusef(why, ERR_VALIDATION, "field", "%s", "--seq");
        refusal_set(why, "why", N_("so much memory exists nowhere"));
        return e;
    }
    ranges(&s, spread);
    facts(&s, spread->rows);
    *ret_r = r;
    return ERR_OK;
}

enum err size_estimate_with(const struct size_model *m, const struct size_job *j,
                            const double coef[SIZE_COEFS], const struct size_spread *spread,
                            struct size_result *ret_r, struct refusal *why)
{
    return estimate(m, j, coef, spread, coef == fitted, ret_r, why);
}

enum err size_estimate(const struct size_model *m, const struct size_job *j,
                       struct size_result *ret_r, struct refusal *why)
{
    struct size_spread spread = size_spread(size_family(j));

    return estimate(m, j, fitted, &spread, true, ret_r, why);
}
