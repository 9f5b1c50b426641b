/* size_cases.c: rows of sizing-cases.tsv as models and jobs. Settings are "key=value;…"; a later
 * value of a key counts. What a row leaves out is taken as its framework's own recipe has it. */
#include "cli/size_cases.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/msg.h"
#include "base/str.h"
#include "domain/model.h"

#define COLUMNS 15
#define SEQ_UNKNOWN 2048 /* the default of the estimate */
#define SEQ_SHORT 512    /* a batch of short texts: rows that name such a data set */
#define HOST_LOAD 40e9   /* a model beyond this is not loaded whole on any card of its day */

const char *case_family_name(enum case_family f)
{
    static const char *const name[] = {
        N_("weights, files, KV"), N_("inference peak"), N_("LoRA"), N_("QLoRA"), N_("full"),
        N_("engine budget"),      N_("pre-training")};

    return name[f];
}

/* ---- settings ---------------------------------------------------------------------------------
 */

static bool setting(const struct size_case *c, const char *key, char *buf, size_t size)
{
    size_t n = strlen(key);
    const char *found = NULL;

    for (const char *s = c->settings; s; s = strchr(s, ';')) {
        s += *s == ';';
        if (strncmp(s, key, n) == 0 && s[n] == '=')
            found = s + n + 1;
    }
    buf[0] = '\0';
    if (!found)
        return false;
    size_t len = strcspn(found, ";");
    len = MIN(len, size - 1);
    memcpy(buf, found, len);
    buf[len] = '\0';
    return true;
}

/* The first number in a setting; def when there is none. */
static double number(const struct size_case *c, const char *key, double def)
{
    char buf[128], *end;

    if (!setting(c, key, buf, sizeof(buf)))
        return def;
    const char *s = buf;
    s += strspn(s, "<=>r ");
    double v = strtod(s, &end);
    if (end == s)
        return def;
    return *end == 'T' ? v * 1e12 : *end == 'B' ? v * 1e9 : v;
}

static bool says(const struct size_case *c, const char *key, const char *text)
{
    char buf[160];

    return setting(c, key, buf, sizeof(buf)) && strstr(buf, text) != NULL;
}

static int64_t whole(const struct size_case *c, const char *key, int64_t def)
{
    double v = number(c, key, (double)def);

    return v >= -1e15 && v <= 1e15 ? (int64_t)v : def;
}

/* ---- figures that follow from sizes alone ------------------------------------------------------
 */

static double cache_bits(const char *s)
{
    static const struct {
        const char *name;
        double bits;
    } f[] = {{"f16", 16},   {"fp16", 16},  {"bf16", 16},  {"q8_0", 8.5}, {"iq4_nl", 4.5},
             {"q4_0", 4.5}, {"q4_1", 5.0}, {"q5_0", 5.5}, {"q5_1", 6.0}, {"fp8", 8}};

    for (size_t i = 0; i < ARRAY_LEN(f); i++)
        if (str_starts(s, f[i].name))
            return f[i].bits;
    return 0;
}

/* "K_q8_0_V_f16", "MLA_latent_q8_0", "naive_(non-MLA)_K_f16_V_f16", "f16". */
static double cache_case(const struct size_case *c)
{
    char kv[64];
    double layers = number(c, "n_layer", number(c, "L", 0)), tokens = number(c, "n_ctx", 0);
    double k = number(c, "n_embd_k_gqa", 0), v = number(c, "n_embd_v_gqa", 0);

    if (number(c, "tokens", 0) > 0 || number(c, "blocks", 0) > 0) {
        tokens = number(c, "tokens", number(c, "blocks", 0) * number(c, "block", 16));
        k = v = number(c, "n_kv", 0) * number(c, "hd", 0);
    }
    if (!setting(c, "kv", kv, sizeof(kv)))
        return 0;
    if (k == 0 && number(c, "n_embd", 0) > 0)
        k = v = number(c, "n_embd", 0); /* no grouping */
    if (number(c, "kv_layers", 0) > 0 && k == 0) {
        layers = number(c, "kv_layers", 0);
        k = (double)(c->model.kv_heads * c->model.head_dim);
        v = k;
    }
    if (strstr(kv, "MLA_latent")) {
        const char *s = strstr(kv, "transposed") ? "f16" : kv + strlen("MLA_latent_");
        double twice = strstr(kv, "transposed") ? 512 : 0; /* ranks of DeepSeek V2, V3 and Kimi */
        return layers * tokens * (512 + 64 + twice) * cache_bits(s) / 8;
    }
    const char *ks = strstr(kv, "K_"), *vs = strstr(kv, "_V_");
    double kb = cache_bits(ks ? ks + 2 : kv), vb = cache_bits(vs ? vs + 3 : kv);
    return layers * tokens * (k * kb + v * vb) / 8;
}

/* llama.cpp's buffer, from the log's own numbers; heads of the model when they are known. */
static double buffer_case(const struct size_case *c)
{
    struct size_model m = c->model;
    struct size_job j = {.framework = SIZE_LLAMACPP, .measure = SIZE_ALLOCATED};
    struct size_result r;
    double coef[SIZE_COEFS] = {0};
    const struct size_spread none = {1, 1, 0};

    if (!c->known)
        m = (struct size_model){.layers = 1, .heads = 1, .gated = true};
    m.hidden = whole(c, "n_embd", 0);
    m.vocab = whole(c, "n_vocab", 0);
    if (!c->known)
        m.head_dim = m.hidden;
    size_model_default(&m);
    j.seq = whole(c, "n_ctx", 512);
    j.ubatch = whole(c, "n_ubatch", 512);
    j.head_rows = whole(c, "embd_rows", 2);
    j.attention = says(c, "fa", "0") ? SIZE_EAGER : SIZE_FLASH;
    size_job_default(&m, &j);
    struct refusal why;
    if (size_estimate_with(&m, &j, coef, &none, &r, &why) != ERR_OK)
        return 0;
    return (double)(r.part[SIZE_LOGITS].expected + r.part[SIZE_ACTIVATIONS].expected);
}

static enum size_format weights_named(const struct size_case *c, enum size_format def)
{
    char buf[64];

    if (!setting(c, "weights", buf, sizeof(buf)) && !setting(c, "base", buf, sizeof(buf)) &&
        !setting(c, "dtype", buf, sizeof(buf)) && !setting(c, "ftype", buf, sizeof(buf)))
        return def;
    if (strstr(buf, "w8a8"))
        return SIZE_W8A8;
    if (str_eq(buf, "int4"))
        return SIZE_GPTQ4;
    if (strstr(buf, "original fp32"))
        return SIZE_F32;
    if (strstr(buf, "bnb 4-bit"))
        return SIZE_NF4;
    enum size_format f = size_format_named(buf);
    return f != SIZE_FORMAT_NONE ? f : def;
}

static double weights_case(const struct size_case *c)
{
    double params = number(c, "params", 0), bpw = number(c, "bpw", 0);
    enum size_format f = weights_named(c, SIZE_BF16);

    if (params > 0 && bpw > 0)
        return params * bpw / 8;
    if (!c->known)
        return 0;
    struct size_job j = {.tp = whole(c, "tp", 1), .weights = f, .framework = c->job.framework};
    struct size_result r;
    const struct size_spread none = {1, 1, 0};
    struct refusal why;
    size_job_default(&c->model, &j);
    if (size_estimate_with(&c->model, &j, size_coefs(), &none, &r, &why) != ERR_OK)
        return 0;
    return (double)r.part[SIZE_WEIGHTS].expected;
}

/* ---- jobs -------------------------------------------------------------------------------------
 */

static enum size_framework framework(const struct size_case *c)
{
    static const struct {
        const char *in;
        enum size_framework f;
    } known[] = {{"litgpt", SIZE_LITGPT},   {"torchtune", SIZE_TORCHTUNE},
                 {"axolotl", SIZE_AXOLOTL}, {"torchtitan", SIZE_TORCHTITAN},
                 {"unsloth", SIZE_UNSLOTH}, {"DeepSpeed", SIZE_DEEPSPEED}};
    char buf[96];

    if (setting(c, "framework", buf, sizeof(buf)))
        for (size_t i = 0; i < ARRAY_LEN(known); i++)
            if (strstr(buf, known[i].in))
                return known[i].f;
    if (says(c, "engine", "vLLM"))
        return SIZE_VLLM;
    if (says(c, "engine", "TensorRT"))
        return SIZE_TRTLLM;
    if (strstr(c->settings, "runtime="))
        return SIZE_LLAMACPP;
    return strstr(c->settings, "num-layers=") ? SIZE_MEGATRON : SIZE_TRANSFORMERS;
}

static enum size_measure measure(const struct size_case *c)
{
    static const char *const allocated[] = {"allocated", "active", "resident", "peak memory per",
                                            "torch max"};

    if (says(c, "framework", "peft+accelerate"))
        return SIZE_ALLOCATED; /* its examples print torch's own maximum */
    for (size_t i = 0; i < ARRAY_LEN(allocated); i++)
        if (strstr(c->measures, allocated[i]))
            return SIZE_ALLOCATED;
    if (strstr(c->measures, "reserved"))
        return SIZE_RESERVED;
    return str_eq(c->measures, "peak") ? SIZE_ALLOCATED : SIZE_PROCESS;
}

static enum size_optimizer optimizer(const struct size_case *c)
{
    char buf[64] = "";

    setting(c, "optimizer", buf, sizeof(buf));
    if (strstr(buf, "Paged") || strstr(buf, "paged"))
        return SIZE_ADAMW_PAGED;
    if (strstr(buf, "8bit") || strstr(buf, "per recipe"))
        return SIZE_ADAMW_8BIT; /* torchtune's single-card recipe */
    return SIZE_ADAMW;
}

static unsigned targets(const struct size_case *c)
{
    char buf[96];
    unsigned t = 0;

    if (!setting(c, "lora_targets", buf, sizeof(buf)) && !setting(c, "targets", buf, sizeof(buf)))
        return SIZE_TARGET_ALL;
    if (str_eq(buf, "q,v"))
        return SIZE_Q | SIZE_V;
    if (strstr(buf, "all"))
        return SIZE_TARGET_ALL | (strstr(buf, "head") ? SIZE_HEAD : 0);
    t |= strstr(buf, "q_proj") ? SIZE_Q : 0;
    t |= strstr(buf, "k_proj") ? SIZE_K : 0;
    t |= strstr(buf, "v_proj") ? SIZE_V : 0;
    t |= strstr(buf, "gate_proj") ? SIZE_GATE : 0;
    t |= strstr(buf, "up_proj") ? SIZE_UP : 0;
    t |= strstr(buf, "down_proj") ? SIZE_DOWN : 0;
    return t ? t : SIZE_TARGET_ALL;
}

static void sharding(const struct size_case *c, struct size_job *j)
{
    int64_t gpus = whole(c, "gpus", 1);

    j->dp = whole(c, "fsdp", gpus);
    if (strstr(c->task, "ZeRO3") || says(c, "sharding", "ZeRO") || says(c, "framework", "ZeRO-3"))
        j->shard = SIZE_ZERO3;
    else if (says(c, "sharding", "FSDP") || says(c, "framework", "FSDP") ||
             strstr(c->task, "FSDP") || j->framework == SIZE_TORCHTITAN)
        j->shard = SIZE_FSDP;
    else if (says(c, "zero", "2"))
        j->shard = SIZE_ZERO2;
    if (says(c, "sharding", "offload") || says(c, "cpu_offload", "1"))
        j->offload_optimizer = j->offload_params = true;
    if (says(c, "ds", "offload"))
        j->offload_optimizer = true;
    j->tp = whole(c, "tp", whole(c, "tensor-model-parallel-size", 1));
    j->pp = whole(c, "pp", whole(c, "pipeline-model-parallel-size", 1));
    j->cp = whole(c, "cp", whole(c, "context-parallel-size", 1));
    j->ep = whole(c, "expert-model-parallel-size", 1);
    j->sequence_parallel =
        says(c, "sequence-parallel", "true") || (j->framework == SIZE_TORCHTITAN && j->tp > 1);
    j->distributed_optimizer = says(c, "use-distributed-optimizer", "true");
    if (j->framework == SIZE_TORCHTITAN)
        j->dp *= j->cp; /* it shards over both */
    if (j->distributed_optimizer)
        j->dp = MAX(gpus / (j->tp * j->pp * j->cp), 1);
}

static enum size_precision precision(const struct size_case *c, const struct size_job *j)
{
    char buf[64];

    if (!setting(c, "precision", buf, sizeof(buf)) && j->framework == SIZE_TRANSFORMERS &&
        strstr(c->settings, "peft") && !says(c, "ds", "offload"))
        return SIZE_PURE32; /* the library loads 32 bit unless told otherwise */
    if (j->framework == SIZE_TORCHTITAN || j->framework == SIZE_MEGATRON)
        return SIZE_MIXED;
    return says(c, "framework", "finetune.py") ? SIZE_MIXED : SIZE_PURE16;
}

static void training_job(struct size_case *c)
{
    struct size_job *j = &c->job;
    bool recipe = says(c, "grad_ckpt", "per recipe"), lora = strstr(c->task, "LoRA") != NULL;

    j->task = strstr(c->task, "QLoRA")  ? SIZE_QLORA
              : lora                    ? SIZE_LORA
              : str_eq(c->task, "full") ? SIZE_FULL
                                        : SIZE_PRETRAIN;
    sharding(c, j);
    j->precision = precision(c, j);
    j->optimizer = optimizer(c);
    j->optimizer_in_backward = says(c, "optim_in_bwd", "1") || says(c, "optimizer", "in_bwd") ||
                               (says(c, "optimizer", "per recipe") && !lora);
    bool selective = says(c, "ac", "selective") ||
                     (j->framework == SIZE_TORCHTITAN && !strstr(c->settings, "ac="));
    j->recompute = says(c, "grad_ckpt", "1") || says(c, "ac", "full") || recipe ? SIZE_RECOMPUTE
                   : selective                                                  ? SIZE_SELECTIVE
                                                                                : SIZE_KEEP;
    j->attention = SIZE_FLASH;
    j->loss = says(c, "cut_ce", "1")                                   ? SIZE_LOSS_FUSED
              : says(c, "chunked_ce", "1") || says(c, "seq", "packed") ? SIZE_LOSS_CHUNKED
                                                                       : SIZE_LOSS_PLAIN;
    j->compile = says(c, "compile", "1");
    j->activation_offload = says(c, "act_offload", "1");
    int64_t unsaid = strstr(c->settings, "dataset=") ? SEQ_SHORT : SEQ_UNKNOWN;
    j->seq = whole(c, "seq", whole(c, "max_seq", whole(c, "seq-length", unsaid)));
    j->host_load = c->known && 2 * (double)size_params_total(&c->model) > HOST_LOAD;
    if (j->shard == SIZE_FSDP && !strstr(c->settings, "grad_ckpt") &&
        j->framework != SIZE_TORCHTITAN)
        j->recompute = SIZE_RECOMPUTE; /* recipes for several cards have it on */
    c->recompute_unsaid = !strstr(c->settings, "grad_ckpt") && !strstr(c->settings, "ac=");
    c->length_unsaid = !strstr(c->settings, "seq") || says(c, "packed", "0");
    j->batch = whole(c, "micro_batch",
                     whole(c, "batch", whole(c, "local_batch", whole(c, "micro-batch-size", 1))));
    j->accumulate = j->framework == SIZE_LITGPT ? 2 : whole(c, "grad_accum", 1);
    if (whole(c, "global-batch-size", 0) > 0)
        j->accumulate = MAX(whole(c, "global-batch-size", 0) / (j->batch * j->dp), 1);
    j->rank = whole(c, "lora_r", whole(c, "lora", whole(c, "r", 8)));
    j->targets = targets(c);
    j->adapter32 = j->framework != SIZE_LITGPT && j->framework != SIZE_TORCHTUNE;
    j->head_quantised = j->framework == SIZE_LITGPT && j->task == SIZE_QLORA;
    j->weights = weights_named(c, j->task == SIZE_QLORA         ? SIZE_NF4_DQ
                                  : j->precision == SIZE_PURE32 ? SIZE_F32
                                                                : SIZE_BF16);
    if (j->framework == SIZE_AXOLOTL && j->weights == SIZE_NF4)
        j->weights = SIZE_NF4_DQ; /* its default */
    if (j->task == SIZE_FULL || j->task == SIZE_PRETRAIN)
        j->weights = j->precision == SIZE_PURE32 ? SIZE_F32 : SIZE_BF16;
    c->states_only = strstr(c->measures, "between steps") != NULL;
    c->load_only = strstr(c->settings, "phase=init") || strstr(c->settings, "phase=model init");
}

static void inference_job(struct size_case *c)
{
    struct size_job *j = &c->job;
    int64_t prompt = whole(c, "prompt", 1);

    j->task = SIZE_INFER;
    j->weights = weights_named(c, SIZE_BF16);
    j->generate = whole(c, "generate", whole(c, "new_tokens", 0));
    if (strstr(c->measures, "resident")) {
        j->generate += prompt; /* the prompt's own peak is over */
        prompt = 0;
        c->settled = true;
    }
    j->seq = MAX(prompt + j->generate, 1);
    j->batch = whole(c, "batch", 1);
    j->pp = whole(c, "gpus", 1);
    j->old_logits = says(c, "framework", "4.38");
    j->head_quantised =
        j->framework == SIZE_LITGPT && size_format_row(j->weights)->kind == SIZE_KIND_HF;
    c->times = (double)j->pp;
}

static void budget_job(struct size_case *c)
{
    struct size_job *j = &c->job;

    j->task = SIZE_INFER;
    j->weights =
        weights_named(c, c->model.stored != SIZE_FORMAT_NONE ? c->model.stored : SIZE_BF16);
    double given = number(c, "given_weights", 0);
    if (given > 0 && !strstr(c->settings, ";weights=")) { /* the row knows them, not their format */
        c->model.weight_bytes = (int64_t)(given * SIZE_GIB * (double)whole(c, "tp", 1));
        c->model.stored = j->weights;
    }
    j->utilisation = number(c, "util", number(c, "util_printed", 0.9));
    j->tp = whole(c, "tp", 1);
    j->seq = whole(c, "max_model_len", 8192);
    if (says(c, "engine", "v0"))       /* it made logits of every token of its trial step */
        j->sequences_max = j->seq / 4; /* 10 B an entry; a sampled sequence 40 B */
    double gib = number(c, "total_GiB", number(c, "total_GiB_printed", 0));
    char gpu[64];
    if (gib == 0 && setting(c, "gpu", gpu, sizeof(gpu))) {
        const char *s = strchr(gpu, ' ');
        gib = s ? strtod(s, NULL) : 0;
    }
    c->card = (int64_t)(gib * SIZE_GIB);
}

/* ---- what a row is -----------------------------------------------------------------------------
 */

static bool is_cache(const struct size_case *c)
{
    return str_starts(c->measures, "KV cache") || str_starts(c->measures, "KV bytes") ||
           strstr(c->measures, "paged KV cache") || strstr(c->settings, "tokens=");
}

static void classify(struct size_case *c)
{
    char first = c->family_name[0];
    const char *m = c->measures;

    c->skip = N_("nothing with a goal");
    if (first == 'B' || first == 'C' || first == 'D') {
        bool budget = strstr(m, "budget") || strstr(m, "KV budget");
        bool file = str_starts(m, "GGUF") || str_starts(m, "disk") || str_starts(m, "model size");
        bool weights = str_starts(m, "weights"), buffer = str_starts(m, "compute buffer");
        if (budget && !is_cache(c)) {
            c->family = CASE_BUDGET;
            c->skip = NULL;
        } else if (file || weights || buffer || is_cache(c)) {
            c->family = CASE_EXACT;
            c->skip = NULL;
        }
        return;
    }
    bool trained = strchr("EFGHLM", first) != NULL;
    if (str_eq(c->task, "inference") && (first == 'A' || first == 'E' || first == 'F')) {
        c->family = CASE_INFER;
        c->skip = NULL;
    } else if (trained &&
               (str_eq(c->task, "full") || str_eq(c->task, "LoRA") || str_eq(c->task, "QLoRA") ||
                str_eq(c->task, "LoRA+ZeRO3") || str_eq(c->task, "LoRA+FSDP"))) {
        c->family = c->task[0] == 'f' ? CASE_FULL : c->task[0] == 'Q' ? CASE_QLORA : CASE_LORA;
        c->skip = str_starts(m, "mean") ? N_("a mean, not a peak") : NULL;
    } else if (str_eq(c->task, "pre-training")) {
        c->family = CASE_PRETRAIN;
        c->skip = NULL;
    }
}

/* Megatron rows give the whole architecture. */
static bool model_from_settings(struct size_case *c)
{
    struct size_model *m = &c->model;

    if (whole(c, "num-layers", 0) == 0)
        return false;
    *m = (struct size_model){.layers = whole(c, "num-layers", 0),
                             .hidden = whole(c, "hidden-size", 0),
                             .heads = whole(c, "num-attention-heads", 0),
                             .kv_heads = whole(c, "num-query-groups", 0),
                             .head_dim = whole(c, "kv-channels", 0),
                             .vocab = whole(c, "vocab-size", 131072),
                             .norm = SIZE_LAYERNORM};
    m->gated = says(c, "swiglu", "true");
    m->tied = !says(c, "untie-embeddings-and-output-weights", "true");
    m->qkv_bias = m->out_bias = m->mlp_bias = !says(c, "disable-bias-linear", "true");
    m->ffn = whole(c, "ffn-hidden-size", 4 * m->hidden);
    m->moe.experts = whole(c, "num-experts", 0);
    m->moe.active = whole(c, "moe-router-topk", 0);
    m->moe.ffn = whole(c, "moe-ffn-hidden-size", m->moe.experts ? m->ffn : 0);
    size_model_default(m);
    return true;
}

static void understand(struct size_case *c)
{
    char name[96];
    struct refusal why;

    c->times = 1;
    classify(c);
    str_copy(name, sizeof(name), c->model_name);
    name[strcspn(name, "(,")] = '\0';
    char *format = strstr(name, "-w8a8"); /* in the settings as well */
    if (format)
        *format = '\0';
    for (size_t n = strlen(name); n > 0 && name[n - 1] == ' '; n--)
        name[n - 1] = '\0';
    c->known = model_from_settings(c) || model_named(name, &c->model, &why) == ERR_OK;
    c->job.framework = framework(c);
    c->job.measure = measure(c);
    if (c->family == CASE_EXACT && !c->skip) {
        c->exact = strstr(c->measures, "buffer") ? buffer_case(c)
                   : is_cache(c)                 ? cache_case(c)
                                                 : weights_case(c);
        c->known = c->exact > 0;
    } else if (c->family == CASE_BUDGET) {
        budget_job(c);
        c->known = c->known && c->card > 0;
    } else if (c->family == CASE_INFER) {
        inference_job(c);
    } else if (!c->skip) {
        training_job(c);
    }
    if (strstr(c->measures, "summed over GPUs") && c->family != CASE_INFER)
        c->times = (double)whole(c, "gpus", 1);
    size_job_default(&c->model, &c->job);
    if (!c->known && !c->skip)
        c->skip = N_("model or sizes not known");
    if (!str_eq(c->kind, "measured"))
        c->skip = str_starts(c->kind, "measured") ? N_("suspect") : N_("not measured");
    if (strstr(c->note, "do not score"))
        c->skip = N_("its note says so");
    c->scored = !c->skip;
}

/* ---- reading -----------------------------------------------------------------------------------
 */

static enum err broken(struct refusal *why, const char *name, size_t line, const char *text)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%s:%zu", name, line);

    refusal_set(why, "why", text);
    return e;
}

static bool case_parse(char *line, struct size_case *c)
{
    char *cell[COLUMNS] = {0};
    size_t n = 0;

    line[strcspn(line, "\r\n")] = '\0';
    for (char *s = line; s && n < COLUMNS; n++) {
        cell[n] = s;
        s = strchr(s, '\t');
        if (s)
            *s++ = '\0';
    }
    if (n < COLUMNS - 1)
        return false;
    *c = (struct size_case){0};
    if (!str_copy(c->id, sizeof(c->id), cell[0]) ||
        !str_copy(c->model_name, sizeof(c->model_name), cell[1]) ||
        !str_copy(c->task, sizeof(c->task), cell[3]) ||
        !str_copy(c->settings, sizeof(c->settings), cell[4]) ||
        !str_copy(c->family_name, sizeof(c->family_name), cell[10]) ||
        !str_copy(c->group, sizeof(c->group), cell[11]) ||
        !str_copy(c->kind, sizeof(c->kind), cell[12]))
        return false;
    if (cell[14])
        memcpy(c->note, cell[14], MIN(strlen(cell[14]), sizeof(c->note) - 1));
    memcpy(c->measures, cell[8], MIN(strlen(cell[8]), sizeof(c->measures) - 1));
    return str_parse_i64(cell[7], INT64_MIN / 4, INT64_MAX / 4, &c->bytes) == ERR_OK &&
           str_parse_i64(cell[13], 0, INT64_MAX / 4, &c->resolution) == ERR_OK;
}

enum err cases_read(FILE *f, const char *name, struct size_case **ret_c, size_t *ret_n,
                    struct refusal *why)
{
    char line[CASE_LINE_MAX];
    size_t n = 0, cap = 0, at = 0;
    AUTO_FREE struct size_case *c = NULL;

    while (fgets(line, sizeof(line), f)) {
        at++;
        if (!strchr(line, '\n') && !feof(f))
            return broken(why, name, at, N_("the line is too long"));
        if (at == 1 || line[0] == '\n' || line[0] == '#')
            continue;
        if (n == CASES_MAX)
            return broken(why, name, at, N_("there are too many rows"));
        if (n == cap) {
            cap = MAX(cap * 2, (size_t)256);
            c = mem_realloc(c, cap, sizeof(*c));
        }
        if (!case_parse(line, &c[n]))
            return broken(why, name, at,
                          N_("expected the 15 columns of sizing-cases.tsv, bytes in the eighth"));
        understand(&c[n++]);
    }
    *ret_c = TAKE(c);
    *ret_n = n;
    return ERR_OK;
}

/* The peak of a job as its row measured it: loading counts when it was seen. */
static bool peak_of(const struct size_case *c, const struct size_job *j,
                    const double coef[SIZE_COEFS], const struct size_spread *spread,
                    struct size_range *ret_r)
{
    struct size_result r;
    struct refusal why;

    if (size_estimate_with(&c->model, j, coef, spread, &r, &why) != ERR_OK)
        return false;
    *ret_r = r.total;
    if (c->states_only) {
        double e = (double)(r.part[SIZE_WEIGHTS].expected + r.part[SIZE_GRADIENTS].expected +
                            r.part[SIZE_STATES].expected);
        *ret_r = (struct size_range){(int64_t)(e * spread->low), (int64_t)e,
                                     (int64_t)(e * spread->high)};
        return true;
    }
    bool reset = j->task == SIZE_QLORA; /* such runs count from after the loading */
    if (c->load_only || (r.load_peak > r.total.expected && !c->settled && !reset)) {
        double e = (double)r.load_peak;
        *ret_r = (struct size_range){(int64_t)(e * spread->low), r.load_peak,
                                     (int64_t)(e * spread->high)};
    }
    return true;
}

/* What was not said may have been otherwise: half to twice the length, no recomputation. */
static void widen(const struct size_case *c, const double coef[SIZE_COEFS],
                  const struct size_spread *spread, struct size_range *r)
{
    struct size_job less = c->job, more = c->job;
    struct size_range other;

    if (c->length_unsaid) {
        less.seq = MAX(less.seq / 2, 1);
        more.seq *= 2;
    }
    if (c->recompute_unsaid && !c->length_unsaid)
        more.recompute = SIZE_KEEP;
    if (peak_of(c, &less, coef, spread, &other))
        r->low = MIN(r->low, other.low);
    if (peak_of(c, &more, coef, spread, &other))
        r->high = MAX(r->high, other.high);
    more = c->job;
    more.recompute = c->recompute_unsaid ? SIZE_KEEP : more.recompute;
    if (peak_of(c, &more, coef, spread, &other))
        r->high = MAX(r->high, other.high);
}

bool case_estimate(const struct size_case *c, const double coef[SIZE_COEFS],
                   const struct size_spread *spread, struct size_range *ret_r)
{
    struct size_range t;
    struct refusal why;

    if (!c->known)
        return false;
    if (c->family == CASE_EXACT) {
        *ret_r = (struct size_range){(int64_t)(c->exact * 0.995), (int64_t)c->exact,
                                     (int64_t)(c->exact * 1.005)};
        return true;
    }
    if (c->family == CASE_BUDGET) {
        struct size_budget b;
        if (size_budget_with(&c->model, &c->job, coef, c->card, &b, &why) != ERR_OK)
            return false;
        *ret_r = b.cache;
        return true;
    }
    if (!peak_of(c, &c->job, coef, spread, &t))
        return false;
    if (c->job.task != SIZE_INFER && (c->length_unsaid || c->recompute_unsaid))
        widen(c, coef, spread, &t);
    *ret_r = (struct size_range){(int64_t)((double)t.low * c->times),
                                 (int64_t)((double)t.expected * c->times),
                                 (int64_t)((double)t.high * c->times)};
    return true;
}
