#include "domain/size_ask.h"

#include "base/msg.h"
#include "domain/model.h"

static const char *const tasks[] = {"infer", "lora", "qlora", "full", "pretrain"};
static const char *const frameworks[] = {"transformers", "axolotl",    "unsloth",   "litgpt",
                                         "torchtune",    "torchtitan", "deepspeed", "megatron",
                                         "llama.cpp",    "vllm",       "sglang",    "tensorrt-llm"};
static const char *const optimizers[] = {"adamw",        "adamw-8bit", "adamw-paged",
                                         "adafactor",    "lion",       "sgd",
                                         "sgd-momentum", "muon",       "galore"};
static const char *const precisions[] = {"mixed", "bf16", "fp32"};
static const char *const attentions[] = {"eager", "sdpa", "flash"};
static const char *const recomputes[] = {"none", "selective", "full"};
static const char *const shards[] = {"ddp", "zero1", "zero2", "zero3", "fsdp"};
static const char *const losses[] = {"plain", "chunked", "fused"};

_Static_assert(ARRAY_LEN(tasks) == SIZE_TASKS, "a name for each");
_Static_assert(ARRAY_LEN(frameworks) == SIZE_FRAMEWORKS, "a name for each");
_Static_assert(ARRAY_LEN(optimizers) == SIZE_OPTIMIZERS, "a name for each");

const char *size_task_name(enum size_task t)
{
    return tasks[t];
}

const char *size_framework_name(enum size_framework f)
{
    return frameworks[f];
}

const char *size_optimizer_name(enum size_optimizer o)
{
    return optimizers[o];
}

const char *size_precision_name(enum size_precision p)
{
    return precisions[p];
}

const char *size_attention_name(enum size_attention a)
{
    return attentions[a];
}

const char *size_recompute_name(enum size_recompute r)
{
    return recomputes[r];
}

const char *size_shard_name(enum size_shard s)
{
    return shards[s];
}

void size_layout_name(const struct size_job *j, char *buf, size_t size)
{
    const struct {
        const char *name;
        int64_t v;
    } part[] = {{"dp", j->dp}, {"tp", j->tp}, {"pp", j->pp}, {"cp", j->cp}, {"ep", j->ep}};
    struct strbuf b = {0};

    strbuf_init(&b, 128);
    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        if (part[i].v > 1)
            strbuf_addf(&b, "%s%s=%" PRId64, b.len ? " " : "", part[i].name, part[i].v);
    if (j->dp > 1 && j->shard != SIZE_DDP)
        strbuf_addf(&b, " %s", shards[j->shard]);
    if (!str_copy(buf, size, strbuf_str(&b)))
        buf[0] = '\0';
    strbuf_fini(&b);
}

static enum err no(struct refusal *why, const char *field, const char *text)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%.60s", field);

    refusal_set(why, "why", text);
    return e;
}

static void assume(struct size_ask *a, const char *flag, const char *why, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
static void assume(struct size_ask *a, const char *flag, const char *why, const char *fmt, ...)
{
    struct strbuf b = {0};
    va_list ap;

    CHECK(a->assumed_count < SIZE_ASSUMED_MAX);
    strbuf_init(&b, sizeof(a->assumed[0].value) - 1);
    va_start(ap, fmt);
    strbuf_addv(&b, fmt, ap);
    va_end(ap);
    a->assumed[a->assumed_count].flag = flag;
    a->assumed[a->assumed_count].why = why;
    (void)str_copy(a->assumed[a->assumed_count].value, sizeof(a->assumed[0].value), strbuf_str(&b));
    a->assumed_count++;
    strbuf_fini(&b);
}

struct word {
    const char *field;
    const char *const *names;
    size_t count;
    int *to;
    bool *given;
};

static bool word_find(const struct word *w, const char *text, int *ret_i)
{
    static const struct {
        const char *other, *name;
    } same[] = {{"inference", "infer"},
                {"serve", "infer"},
                {"finetune", "full"},
                {"sft", "full"},
                {"hf", "transformers"},
                {"trl", "transformers"},
                {"peft", "transformers"},
                {"accelerate", "transformers"},
                {"llama-factory", "transformers"},
                {"llamacpp", "llama.cpp"},
                {"gguf", "llama.cpp"},
                {"trtllm", "tensorrt-llm"},
                {"adam", "adamw"},
                {"adamw_8bit", "adamw-8bit"},
                {"paged_adamw_8bit", "adamw-paged"},
                {"on", "full"},
                {"off", "none"},
                {"flash2", "flash"},
                {"fp16", "bf16"},
                {"pure", "bf16"},
                {"amp", "mixed"}};

    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        for (size_t k = 0; str_eq(text, same[i].other) && k < w->count; k++)
            if (str_eq(same[i].name, w->names[k])) {
                *ret_i = (int)k;
                return true;
            }
    for (size_t k = 0; k < w->count; k++)
        if (str_eq(text, w->names[k])) {
            *ret_i = (int)k;
            return true;
        }
    return false;
}

static enum err words_take(const json_t *args, const struct word *w, size_t count,
                           struct refusal *why)
{
    for (size_t i = 0; i < count; i++) {
        struct strbuf b = {0};
        const char *text;
        if (!json_get_str(args, w[i].field, NULL, &text))
            return no(why, w[i].field, N_("a text"));
        *w[i].given = text != NULL;
        if (!text || word_find(&w[i], text, w[i].to))
            continue;
        strbuf_init(&b, REFUSAL_VALUE_MAX - 1);
        for (size_t k = 0; k < w[i].count; k++)
            strbuf_addf(&b, "%s%s", k ? ", " : "", w[i].names[k]);
        enum err e = no(why, w[i].field, strbuf_str(&b));
        strbuf_fini(&b);
        return e;
    }
    return ERR_OK;
}

struct whole {
    const char *field;
    int64_t *to, min, max;
};

static enum err wholes_take(const json_t *args, const struct whole *w, size_t count,
                            struct refusal *why)
{
    for (size_t i = 0; i < count; i++) {
        int64_t v;
        if (!json_get_i64(args, w[i].field, INT64_MIN, &v))
            return no(why, w[i].field, N_("a whole number"));
        if (v == INT64_MIN)
            continue;
        if (v < w[i].min || v > w[i].max) {
            enum err e = refusef(why, ERR_VALIDATION, "field", "%s", w[i].field);
            refusal_setf(why, "why", "%" PRId64 " ... %" PRId64, w[i].min, w[i].max);
            return e;
        }
        *w[i].to = v;
    }
    return ERR_OK;
}

/* "dp=2,tp=4,zero=3": ranks by name; fsdp stands alone. */
static enum err parallel_take(const char *text, struct size_ask *a, struct refusal *why)
{
    static const char like[] = N_("such as dp=8,fsdp or tp=4,pp=2 or dp=4,zero=3");
    struct size_job *j = &a->job;
    const struct {
        const char *name;
        int64_t *to;
    } ranks[] = {{"dp", &j->dp}, {"tp", &j->tp}, {"pp", &j->pp}, {"cp", &j->cp}, {"ep", &j->ep}};
    char one[32];

    for (const char *p = text; *p;) {
        size_t k = strcspn(p, ",");
        int64_t v = 1;
        bool found = false;
        if (!str_printf(one, sizeof(one), "%.*s", (int)MIN(k, sizeof(one)), p))
            return no(why, "parallel", like);
        char *eq = strchr(one, '=');
        if (eq) {
            *eq = '\0';
            if (str_parse_i64(eq + 1, 0, 4096, &v) != ERR_OK)
                return no(why, "parallel", like);
        }
        if (str_eq(one, "fsdp")) {
            j->shard = SIZE_FSDP;
            j->dp = eq && v > 0 ? v : j->dp;
            found = true;
        } else if (str_eq(one, "zero") && eq && v <= 3) {
            j->shard = (enum size_shard)((int)SIZE_DDP + (int)v);
            found = true;
        }
        for (size_t i = 0; !found && eq && v > 0 && i < ARRAY_LEN(ranks); i++)
            if (str_eq(one, ranks[i].name)) {
                *ranks[i].to = v;
                found = true;
            }
        if (!found)
            return no(why, "parallel", like);
        p += k + (p[k] == ',');
    }
    a->layout = true;
    return ERR_OK;
}

static enum err targets_take(const char *text, struct size_job *j, struct refusal *why)
{
    static const struct {
        const char *name;
        unsigned bits;
    } names[] = {{"q", SIZE_Q},
                 {"k", SIZE_K},
                 {"v", SIZE_V},
                 {"o", SIZE_O},
                 {"gate", SIZE_GATE},
                 {"up", SIZE_UP},
                 {"down", SIZE_DOWN},
                 {"head", SIZE_HEAD},
                 {"attention", SIZE_TARGET_ATTN},
                 {"all", SIZE_TARGET_ALL},
                 {"all-linear", SIZE_TARGET_ALL}};
    char one[32];

    for (const char *p = text; *p;) {
        size_t k = strcspn(p, ","), n = k;
        unsigned bits = 0;
        if (k > 5 && memcmp(p + k - 5, "_proj", 5) == 0)
            n = k - 5;
        bool fits = str_printf(one, sizeof(one), "%.*s", (int)MIN(n, sizeof(one)), p);
        for (size_t i = 0; fits && i < ARRAY_LEN(names); i++)
            bits |= str_eq(one, names[i].name) ? names[i].bits : 0;
        if (!bits)
            return no(why, "targets", N_("such as q,v or attention or all"));
        j->targets |= bits;
        p += k + (p[k] == ',');
    }
    return ERR_OK;
}

static enum err texts_take(const json_t *args, struct size_ask *a, struct refusal *why)
{
    struct size_job *j = &a->job;
    const char *quant, *kv, *offload, *parallel, *targets;

    if (!json_get_str(args, "quant", NULL, &quant) || !json_get_str(args, "kv", NULL, &kv) ||
        !json_get_str(args, "offload", NULL, &offload) ||
        !json_get_str(args, "parallel", NULL, &parallel) ||
        !json_get_str(args, "targets", NULL, &targets))
        return no(why, "quant", N_("a text"));
    if (quant && (j->weights = size_format_named(quant)) == SIZE_FORMAT_NONE)
        return no(why, "quant", N_("such as bf16, fp8, int8, nf4, awq, gptq-int4 or Q4_K_M"));
    if (kv && (j->kv.k = j->kv.v = size_format_named(kv)) == SIZE_FORMAT_NONE)
        return no(why, "kv", N_("such as bf16, fp8, q8_0 or q4_0"));
    if (offload && str_eq(offload, "optimizer"))
        j->offload_optimizer = true;
    else if (offload && (str_eq(offload, "params") || str_eq(offload, "all")))
        j->offload_optimizer = j->offload_params = true;
    else if (offload && str_eq(offload, "activations"))
        j->activation_offload = true;
    else if (offload)
        return no(why, "offload", "optimizer, params, activations");
    if (targets)
        TRY(targets_take(targets, j, why));
    return parallel ? parallel_take(parallel, a, why) : ERR_OK;
}

/* A count such as "10M"; 0 when it is not given. */
static enum err count_take(const json_t *args, const char *field, int64_t *to, struct refusal *why)
{
    const char *text;

    if (!json_get_str(args, field, NULL, &text))
        return no(why, field, N_("a text"));
    if (text && !model_params_parse(text, to))
        return no(why, field, N_("such as 7B, 350M or 20000"));
    return ERR_OK;
}

/* ---- the model ---------------------------------------------------------------------------------
 */

static enum err numbers_take(const json_t *args, struct size_model *m, struct refusal *why)
{
    const struct whole numbers[] = {
        {"layers", &m->layers, 1, 10000},
        {"hidden", &m->hidden, 1, 1 << 20},
        {"ffn", &m->ffn, 1, 1 << 22},
        {"heads", &m->heads, 1, 1 << 16},
        {"kv_heads", &m->kv_heads, 1, 1 << 16},
        {"head_dim", &m->head_dim, 1, 1 << 16},
        {"vocab", &m->vocab, 1, 1 << 26},
        {"experts", &m->moe.experts, 0, 1 << 16},
        {"active_experts", &m->moe.active, 0, 1 << 16},
        {"expert_ffn", &m->moe.ffn, 1, 1 << 22},
    };

    return wholes_take(args, numbers, ARRAY_LEN(numbers), why);
}

/* Numbers alone: what they leave open is taken from the known model of the nearest size. */
static enum err model_from_numbers(const json_t *args, int64_t params, struct size_ask *a,
                                   struct refusal *why)
{
    struct size_model said = {0}, *m = &a->model;

    TRY(numbers_take(args, &said, why));
    bool whole = said.layers && said.hidden && said.heads && said.vocab;
    if (whole) {
        *m = said;
        m->gated = true;
        m->ffn = m->ffn ? m->ffn : 4 * m->hidden;
        m->moe.ffn = m->moe.experts && !m->moe.ffn ? m->ffn : m->moe.ffn;
    } else if (params) {
        const struct model_row *near = model_near(params);
        *m = near->m;
        a->shape_of = near->m.name;
        TRY(numbers_take(args, m, why));
    } else {
        return no(why, "model",
                  N_("a name, a file, or --params (and --layers, --hidden, --heads, "
                     "--vocab)"));
    }
    m->params_exact = params;
    m->stored = SIZE_FORMAT_NONE;
    (void)str_copy(m->name, sizeof(m->name), "numbers");
    a->source = "numbers";
    size_model_default(m);
    return size_model_check(m, why);
}

static enum err model_take(const json_t *args, struct size_ask *a, struct refusal *why)
{
    const char *name;
    int64_t params = 0;

    if (!json_get_str(args, "model", NULL, &name))
        return no(why, "model", N_("a text"));
    TRY(count_take(args, "params", &params, why));
    if (a->model.layers > 0)
        return ERR_OK;
    if (!name || !*name)
        return model_from_numbers(args, params, a, why);
    TRY(model_named(name, &a->model, why));
    a->source = "table";
    return size_model_check(&a->model, why);
}

/* ---- what nobody gave --------------------------------------------------------------------------
 */

static bool trains(const struct size_job *j)
{
    return j->task != SIZE_INFER;
}

struct said {
    bool task, framework, precision, optimizer, recompute, attention, loss;
    int64_t batch, micro, accumulate;
};

static void assume_lengths(struct size_ask *a)
{
    struct size_job *j = &a->job;
    int64_t most = a->model.context_max;

    if (j->seq == 0) {
        int64_t usual = trains(j) ? 2048 : 4096;
        j->seq = most > 0 ? MIN(most, usual) : usual;
        assume(a, "--seq",
               trains(j) ? N_("usual; the longest sample decides, not the mean")
                         : N_("prompt and answer of a usual chat"),
               "%" PRId64, j->seq);
    }
    if (!trains(j) && j->generate == 0)
        j->generate = MIN(j->seq / 2, (int64_t)2048);
}

static void assume_batch(struct size_ask *a, const struct said *said)
{
    struct size_job *j = &a->job;
    int64_t ranks = MAX(j->dp, (int64_t)1);

    if (!trains(j)) {
        j->batch = a->sequences = said->batch ? said->batch : 1;
        if (!said->batch)
            assume(a, "--batch", N_("one request at a time; many: --batch 16"), "1");
        return;
    }
    j->batch = said->micro ? said->micro : 1;
    j->accumulate = said->accumulate;
    if (!said->micro)
        assume(a, "--micro-batch", N_("least memory; accumulation makes up for it"), "1");
    if (said->batch)
        j->accumulate = MAX(said->batch / (j->batch * ranks), (int64_t)1);
    else if (!said->accumulate) {
        j->accumulate = MAX(16 / (j->batch * ranks), (int64_t)1);
        assume(a, "--grad-accum", N_("16 samples a step, as recipes do"), "%" PRId64,
               j->accumulate);
    }
}

static void assume_recipe(struct size_ask *a, const struct said *said)
{
    struct size_job *j = &a->job;

    if (!said->framework) {
        j->framework = SIZE_TRANSFORMERS;
        if (a->model.type_count && size_format_row(a->model.stored)->kind == SIZE_KIND_BLOCK)
            j->framework = SIZE_LLAMACPP;
        assume(a, "--framework", N_("what most guides use"), "%s", frameworks[j->framework]);
    }
    if (trains(j) && !said->precision) {
        j->precision = j->task == SIZE_FULL || j->task == SIZE_PRETRAIN ? SIZE_MIXED : SIZE_PURE16;
        assume(a, "--precision",
               j->precision == SIZE_MIXED ? N_("32-bit master weights train safely")
                                          : N_("the frozen base is kept in 16 bit"),
               "%s", precisions[j->precision]);
    }
    if (trains(j) && !said->optimizer) {
        j->optimizer = SIZE_ADAMW;
        assume(a, "--optimizer", N_("the default of every trainer"), "adamw");
    }
    if (trains(j) && !said->recompute) {
        j->recompute = SIZE_RECOMPUTE;
        assume(a, "--checkpointing", N_("a third more time saves most activations"), "full");
    }
    if (!said->attention) {
        j->attention = SIZE_SDPA;
        assume(a, "--attention", N_("PyTorch's default; needs no square of the length"), "sdpa");
    }
    if ((j->task == SIZE_LORA || j->task == SIZE_QLORA) && j->rank == 0) {
        j->rank = 16;
        assume(a, "--rank", N_("enough for most adapters"), "16");
    }
    if ((j->task == SIZE_LORA || j->task == SIZE_QLORA) && j->targets == 0) {
        j->targets = SIZE_TARGET_ALL;
        assume(a, "--targets", N_("all linear layers learn best"), "all");
    }
}

static void assume_weights(struct size_ask *a)
{
    struct size_job *j = &a->job;
    const struct size_model *m = &a->model;

    if (j->weights != SIZE_FORMAT_NONE)
        return;
    if (j->task == SIZE_QLORA) {
        j->weights = SIZE_NF4_DQ;
        assume(a, "--quant", N_("QLoRA's own: 4 bit with quantised scales"), "nf4-dq");
    } else if (j->task == SIZE_INFER && m->stored != SIZE_FORMAT_NONE && m->stored != SIZE_F32) {
        j->weights = m->stored;
        assume(a, "--quant", N_("as the model is stored"), "%s", size_format_row(m->stored)->name);
    } else {
        j->weights = SIZE_BF16;
        assume(a, "--quant", N_("16 bit, as models are published"), "bf16");
    }
}

static void assume_work(struct size_ask *a)
{
    struct size_job *j = &a->job;

    if (!trains(j))
        return;
    if (a->tokens == 0 && j->task == SIZE_PRETRAIN) {
        int64_t params = size_params_total(&a->model);
        a->tokens = params > INT64_MAX / 20 ? INT64_MAX / 20 : 20 * params;
        assume(a, "--tokens", N_("20 for each parameter, the compute-optimal rule"), "%" PRId64 "M",
               a->tokens / 1000000);
    } else if (a->tokens == 0) {
        a->tokens = 10000000;
        assume(a, "--tokens", N_("10,000 samples of 1,000; yours decides the cost"), "10M");
    }
    if (a->epochs == 0) {
        a->epochs = j->task == SIZE_PRETRAIN ? 1 : 3;
        assume(a, "--epochs",
               j->task == SIZE_PRETRAIN ? N_("every token once") : N_("usual for small data"),
               "%" PRId64, a->epochs);
    }
}

static enum err job_take(const json_t *args, struct size_ask *a, struct said *said,
                         struct refusal *why)
{
    struct size_job *j = &a->job;
    int task = SIZE_LORA, framework = 0, optimizer = 0, precision = 0, attention = SIZE_SDPA;
    int recompute = SIZE_KEEP, loss = SIZE_LOSS_PLAIN;
    const struct word words[] = {
        {"task", tasks, ARRAY_LEN(tasks), &task, &said->task},
        {"framework", frameworks, ARRAY_LEN(frameworks), &framework, &said->framework},
        {"optimizer", optimizers, ARRAY_LEN(optimizers), &optimizer, &said->optimizer},
        {"precision", precisions, ARRAY_LEN(precisions), &precision, &said->precision},
        {"attention", attentions, ARRAY_LEN(attentions), &attention, &said->attention},
        {"checkpointing", recomputes, ARRAY_LEN(recomputes), &recompute, &said->recompute},
        {"loss", losses, ARRAY_LEN(losses), &loss, &said->loss},
    };
    const struct whole wholes[] = {
        {"seq", &j->seq, 1, INT64_C(100000000)},
        {"generate", &j->generate, 1, INT64_C(100000000)},
        {"batch", &said->batch, 1, 1000000},
        {"micro_batch", &said->micro, 1, 1000000},
        {"grad_accum", &said->accumulate, 1, 1000000},
        {"rank", &j->rank, 1, 65536},
        {"epochs", &a->epochs, 1, 100000},
    };

    TRY(words_take(args, words, ARRAY_LEN(words), why));
    TRY(wholes_take(args, wholes, ARRAY_LEN(wholes), why));
    TRY(texts_take(args, a, why));
    TRY(count_take(args, "tokens", &a->tokens, why));
    if (task != SIZE_INFER && framework >= SIZE_LLAMACPP)
        return no(why, "framework",
                  N_("it only serves; to train: transformers, axolotl, unsloth, deepspeed, "
                     "megatron ..."));
    j->task = (enum size_task)task;
    j->framework = (enum size_framework)framework;
    j->optimizer = (enum size_optimizer)optimizer;
    j->precision = (enum size_precision)precision;
    j->attention = (enum size_attention)attention;
    j->recompute = (enum size_recompute)recompute;
    j->loss = (enum size_loss)loss;
    if (!json_get_bool(args, "compile", false, &j->compile) ||
        !json_get_bool(args, "dora", false, &j->dora))
        return no(why, "compile", N_("true or false"));
    return ERR_OK;
}

enum err size_ask_read(const json_t *args, struct size_ask *a, struct refusal *why)
{
    struct said said = {0};
    struct size_job *j = &a->job;

    TRY(model_take(args, a, why));
    TRY(job_take(args, a, &said, why));
    if (a->shape_of)
        assume(a, "--params", N_("the shape of the known model of that size"), "%.46s",
               a->shape_of);
    if (!said.task)
        assume(a, "--task", N_("done first by most; full, qlora, infer, pretrain"), "lora");
    assume_lengths(a);
    assume_batch(a, &said);
    assume_recipe(a, &said);
    assume_weights(a);
    assume_work(a);
    int64_t ranks = MAX(j->dp, (int64_t)1) * MAX(j->tp, (int64_t)1) * MAX(j->cp, (int64_t)1);
    if (j->ep > 1 && ranks % j->ep != 0)
        return no(why, "parallel", N_("ep must divide dp x tp x cp: experts lie on those ranks"));
    a->cards = ranks * MAX(j->pp, (int64_t)1);
    size_job_default(&a->model, j);
    return size_job_check(&a->model, j, why);
}

enum err size_ask_estimate(const struct size_ask *a, const struct size_job *j,
                           struct size_result *ret_r, struct refusal *why)
{
    if (a->learned.rows == 0)
        return size_estimate(&a->model, j, ret_r, why);
    return size_estimate_with(&a->model, j, size_coefs(), &a->learned, ret_r, why);
}
