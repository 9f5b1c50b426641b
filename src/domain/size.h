/* size.h: how much memory a model needs on each card for a task, from its architecture.
 *
 * An estimate, never a charge: it counts in floating point. Every count that must be exact
 * (parameters, weights, KV cache) stays below 2^53, where doubles are exact whole numbers; what
 * would be larger is refused. Bytes are bytes; GiB = 2^30, GB = 1e9, and the two are never mixed.
 * Pure, any thread. Formulas, sources and measured errors: docs/sizing.md. */
#pragma once

#include "base/err.h"

#define SIZE_NAME_MAX 96
#define SIZE_TYPES_MAX 16 /* tensor types that a header lists */
#define SIZE_STEP_MAX 200
#define SIZE_STEPS_MAX 40
#define SIZE_GIB 1073741824.0

/* ---- how weights are kept -------------------------------------------------------------------- */

enum size_kind { SIZE_KIND_PLAIN, SIZE_KIND_HF, SIZE_KIND_BLOCK, SIZE_KIND_MIX };
enum size_format {
    SIZE_FORMAT_NONE, /* not said: the default of the task */
#define FORMAT(id, name, kind, weights, bytes, gguf) SIZE_##id,
#include "domain/size_format.def"
#undef FORMAT
    SIZE_FORMATS
};
struct size_format_row {
    const char *name;
    enum size_kind kind;
    int64_t weights, bytes; /* of a block */
    int gguf;               /* number in a GGUF tensor table, -1 none */
};
const struct size_format_row *size_format_row(enum size_format f); /* static; NONE has name "" */
/* By name, case counts first ("Q4_K" names the tensor type only as "q4_k"), then without case, then
 * the usual other names (fp16, bf16, int4, 4bit, nf4, bnb-4bit, fp8_e4m3 …). NONE when unknown. */
enum size_format size_format_named(const char *name);
enum size_format size_format_gguf(int type); /* of a GGUF tensor table; NONE when unknown */
double size_bits(enum size_format f);        /* bits a weight, scales included */

/* ---- the model ------------------------------------------------------------------------------- */

enum size_norm { SIZE_RMS, SIZE_LAYERNORM }; /* weight; weight and bias */

/* Multi-head latent attention (DeepSeek V2/V3/R1, Kimi-K2); kv_lora 0: ordinary attention. */
struct size_mla {
    int64_t q_lora, kv_lora, nope, rope, value; /* q_lora 0: queries are not compressed */
};

/* Experts; experts 0: dense. The layers are dense before `dense_first`, and after it every
 * `every`-th is a layer of experts (0 and 1: all). `ffn` of the model is that of dense layers. */
struct size_moe {
    int64_t experts, active;       /* routed ones; of them per token */
    int64_t ffn, shared_ffn;       /* of one routed expert; of all shared ones together */
    int64_t dense_first, every;    /* which layers hold them: see above */
    bool shared_gate, router_bias; /* one h vector; E */
};

/* One line of a header's summary: all tensors of one type. */
struct size_type_sum {
    enum size_format type;
    int64_t params, bytes;
};

/* A transformer. Zero means "none" where that makes sense; size_model_default() fills what follows
 * from the rest (kv_heads, head_dim, norms). */
struct size_model {
    char name[SIZE_NAME_MAX];
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    int64_t value_dim; /* of a KV head's value; 0: head_dim */
    int64_t positions; /* learned position embeddings; 0: rotary or none */
    int64_t norms;     /* of h a layer: 2; Gemma-2 and -3: 4; parallel blocks: 1 */
    enum size_norm norm;
    bool tied;  /* head and embedding are one matrix */
    bool gated; /* SwiGLU, GeGLU: three matrices */
    bool qkv_bias, out_bias, mlp_bias, head_bias;
    bool qk_norm; /* 2d a layer */
    bool no_final_norm;
    struct size_mla mla;
    struct size_moe moe;
    int64_t mtp_layers; /* multi-token prediction: whole layers more, with 2h*h and two norms */
    /* sliding window: `window` tokens in all layers but one of `window_every` (0: all layers) */
    int64_t window, window_every;
    /* hybrids: layers that keep a KV cache (0: all), and what the others keep for a sequence */
    int64_t kv_layers, state_bytes;
    /* parameters of a layer without attention (linear, state space), instead of attention */
    int64_t linear_params;
    /* a vision or audio tower: stays at 16 bit; its tokens count in the sequence */
    int64_t tower_params, tower_tokens;
    int64_t context_max; /* what the model was made for; 0 unknown */
    /* evidence that beats the formula: from a header */
    int64_t params_exact;    /* 0: the formula's */
    int64_t weight_bytes;    /* all tensors as stored; 0: unknown */
    enum size_format stored; /* format of those bytes; NONE unknown */
    struct size_type_sum type[SIZE_TYPES_MAX];
    size_t type_count;
};

void size_model_default(struct size_model *m);
/* Refuses ("field", "why") what no model can be: zero or absurd sizes, heads that do not divide. */
enum err size_model_check(const struct size_model *m, struct refusal *why);

struct size_params {
    double total, active; /* active: used for one token (experts) */
    double embed, head;   /* head 0 when tied */
    double linear;        /* matrices of the layers: what quantisation touches */
    double experts;       /* of those, in routed experts */
    double other;         /* norms, biases, routers, positions, tower */
    double layer;         /* of one layer (the largest kind) */
    double matrix_max;    /* largest single matrix of a layer */
    double rows;          /* outputs of all those matrices: one scale each in 8 bit */
};
/* Of a model that passed size_model_check. */
void size_params(const struct size_model *m, struct size_params *ret_p);
int64_t size_params_total(const struct size_model *m); /* params_exact when known */
int64_t size_params_active(const struct size_model *m);

/* ---- bytes that are exact ---------------------------------------------------------------------
 */

/* All weights in a format; the header's bytes when `f` is what is stored. */
int64_t size_weight_bytes(const struct size_model *m, enum size_format f);
/* One GGUF file of that file type. */
int64_t size_gguf_bytes(const struct size_model *m, enum size_format file);

struct size_kv {
    enum size_format k, v; /* NONE: bf16 */
    bool mla_naive;        /* the runtime unfolds the latent cache */
    bool mla_transposed;   /* and keeps the latent part a second time, transposed */
    bool window_full;      /* the runtime keeps sliding-window layers for the whole context */
};
/* Bytes of one token in all layers with a full cache (no window, no TP). */
int64_t size_kv_token(const struct size_model *m, const struct size_kv *kv);
/* Bytes of a sequence of `tokens` on one of `tp` ranks; the recurrent state is in it. */
int64_t size_kv_sequence(const struct size_model *m, const struct size_kv *kv, int64_t tokens,
                         int64_t tp);
/* vLLM: floor(bytes / (block * bytes a token)) * block tokens. */
int64_t size_kv_tokens(int64_t bytes, int64_t token_bytes, int64_t block);

/* ---- the job --------------------------------------------------------------------------------- */

enum size_task { SIZE_INFER, SIZE_LORA, SIZE_QLORA, SIZE_FULL, SIZE_PRETRAIN, SIZE_TASKS };
enum size_framework {
    SIZE_TRANSFORMERS, /* transformers, TRL, PEFT, accelerate, LLaMA-Factory */
    SIZE_AXOLOTL,
    SIZE_UNSLOTH,
    SIZE_LITGPT,
    SIZE_TORCHTUNE,
    SIZE_TORCHTITAN,
    SIZE_DEEPSPEED,
    SIZE_MEGATRON,
    SIZE_LLAMACPP,
    SIZE_VLLM,
    SIZE_SGLANG,
    SIZE_TRTLLM,
    SIZE_FRAMEWORKS
};
enum size_optimizer {
    SIZE_ADAMW,
    SIZE_ADAMW_8BIT,
    SIZE_ADAMW_PAGED, /* 8 bit, pages go to the host */
    SIZE_ADAFACTOR,
    SIZE_LION,
    SIZE_SGD,
    SIZE_SGD_MOMENTUM,
    SIZE_MUON,
    SIZE_GALORE,
    SIZE_OPTIMIZERS
};
enum size_precision {
    SIZE_MIXED,  /* 32-bit master weights and states, 16-bit compute */
    SIZE_PURE16, /* everything in 16 bit */
    SIZE_PURE32
};
enum size_attention { SIZE_EAGER, SIZE_SDPA, SIZE_FLASH };
enum size_recompute { SIZE_KEEP, SIZE_SELECTIVE, SIZE_RECOMPUTE }; /* activation checkpointing */
enum size_loss { SIZE_LOSS_PLAIN, SIZE_LOSS_CHUNKED, SIZE_LOSS_FUSED };
enum size_shard {
    SIZE_DDP, /* every rank keeps all states; also ZeRO-0 */
    SIZE_ZERO1,
    SIZE_ZERO2,
    SIZE_ZERO3,
    SIZE_FSDP
};
/* What an adapter is put on. */
enum size_target {
    SIZE_Q = 1 << 0,
    SIZE_K = 1 << 1,
    SIZE_V = 1 << 2,
    SIZE_O = 1 << 3,
    SIZE_GATE = 1 << 4,
    SIZE_UP = 1 << 5,
    SIZE_DOWN = 1 << 6,
    SIZE_HEAD = 1 << 7,
    SIZE_TARGET_ATTN = SIZE_Q | SIZE_K | SIZE_V | SIZE_O,
    SIZE_TARGET_ALL = SIZE_TARGET_ATTN | SIZE_GATE | SIZE_UP | SIZE_DOWN
};
/* What a figure counts: torch's allocated, the allocator's reserved, or all a process holds as
 * nvidia-smi shows it (reserved and context). */
enum size_measure { SIZE_PROCESS, SIZE_RESERVED, SIZE_ALLOCATED };

struct size_job {
    enum size_task task;
    enum size_framework framework;
    enum size_format weights; /* NONE: bf16, or nf4-dq for QLoRA */
    struct size_kv kv;
    enum size_precision precision;
    int64_t seq;        /* longest sample, or prompt and answer */
    int64_t generate;   /* of seq, tokens that are generated (inference) */
    int64_t batch;      /* sequences at once on one rank: the micro-batch */
    int64_t accumulate; /* micro-batches a step; 0 and 1: none */
    enum size_optimizer optimizer;
    bool optimizer_in_backward; /* gradients live for one layer only */
    enum size_recompute recompute;
    enum size_attention attention;
    enum size_loss loss;
    bool compile; /* torch.compile */
    bool activation_offload;
    bool head_quantised; /* litgpt quantises the head as well */
    bool old_logits;     /* transformers before 4.45: all logits, and rotary tables a layer */
    bool host_load;      /* the checkpoint never lies on the card twice (no load peak) */
    int64_t rank;        /* of the adapter; 0: default of the task (16) */
    unsigned targets;    /* enum size_target; 0: all linear */
    bool adapter32;      /* adapters in 32 bit (PEFT) or in 16 */
    bool dora;
    int64_t dp, tp, pp, cp, ep; /* 0 and 1: none; dp = shards of ZeRO and FSDP */
    int64_t pp_virtual;         /* interleaved chunks a stage */
    bool sequence_parallel, distributed_optimizer;
    enum size_shard shard;
    bool offload_optimizer, offload_params;
    /* serving engines */
    double utilisation;    /* share of the card an engine takes; 0: 0.9 */
    int64_t sequences_max; /* an engine's own limit; 0: its default */
    int64_t ubatch;        /* llama.cpp: tokens of one step; 0: 512 */
    int64_t head_rows;     /* llama.cpp: hidden states beside the logits, 1 or 2; 0: 2 */
    enum size_measure measure;
};

/* Fills numbers and formats that were left at zero with the usual choice of the task and framework.
 * Choices (enums and flags) are taken as they are. */
void size_job_default(const struct size_model *m, struct size_job *j);
enum err size_job_check(const struct size_model *m, const struct size_job *j, struct refusal *why);

/* ---- the answer ------------------------------------------------------------------------------ */

enum size_family {
    SIZE_FAMILY_INFER,         /* peak of inference, 16-bit weights */
    SIZE_FAMILY_INFER_QUANT,   /* the same, quantised */
    SIZE_FAMILY_INFER_PROCESS, /* as a process holds it, whatever the weights */
    SIZE_FAMILY_LORA,
    SIZE_FAMILY_QLORA,
    SIZE_FAMILY_FULL, /* all weights, pre-training too */
    SIZE_FAMILY_ENGINE,
    SIZE_FAMILIES
};
enum size_part {
    SIZE_WEIGHTS,
    SIZE_ADAPTERS,
    SIZE_GRADIENTS,
    SIZE_STATES, /* optimizer */
    SIZE_ACTIVATIONS,
    SIZE_LOGITS,
    SIZE_CACHE,          /* KV and recurrent state */
    SIZE_FRAMEWORK_PART, /* context, kernels, communication */
    SIZE_FRAGMENTATION,
    SIZE_PARTS
};
struct size_range {
    int64_t low, expected, high;
};
/* One formula with its numbers, for --explain. */
struct size_step {
    enum size_part part;
    char text[SIZE_STEP_MAX]; /* "2 * 28 layers * 4 KV heads * 128 * 2 B * 32,768 tokens" */
    const char *source;       /* static: what it rests on */
    int64_t bytes;
};
struct size_result {
    struct size_range part[SIZE_PARTS], total; /* of the fullest card; parts add up to total */
    enum size_part binding;                    /* the largest part that the job can change */
    int64_t load_peak; /* while weights are loaded or quantised, on one card */
    int64_t host;      /* main memory that offloading needs, of one machine */
    int64_t params, active, trainable;
    int64_t kv_token, kv_sequence; /* bytes: a token; a whole sequence of seq on one rank */
    double flops_token;            /* training: forward, backward and recompute */
    enum size_family family;       /* of the calibration */
    int64_t family_rows;           /* measured cases behind the interval; 0: formula only */
    struct size_step step[SIZE_STEPS_MAX];
    size_t step_count;
};
/* Refused: what the two checks refuse, and what does not fit in 2^53 bytes. A job fits a card when
 * total.high does: that is the figure a verdict goes by. */
enum err size_estimate(const struct size_model *m, const struct size_job *j,
                       struct size_result *ret_r, struct refusal *why);

/* The constants that cases taught (size_coef.def says what each means, size_fit.def how much). */
enum size_coef {
#define COEF(id, value, spread, text) SIZE_C_##id,
#include "domain/size_coef.def"
#undef COEF
    SIZE_COEFS
};
/* What measured cases say of the error: actual bytes lie between low and high times the estimate.
 */
struct size_spread {
    double low, high;
    int64_t rows;
};
enum size_family size_family(const struct size_job *j);
const char *size_family_name(enum size_family f); /* "lora" */
const double *size_coefs(void);                   /* SIZE_COEFS of them, fitted to all cases */
struct size_spread size_spread(enum size_family f);
/* size_estimate with another spread, or other constants (a fold of the calibration; no steps). */
enum err size_estimate_with(const struct size_model *m, const struct size_job *j,
                            const double coef[SIZE_COEFS], const struct size_spread *spread,
                            struct size_result *ret_r, struct refusal *why);
const char *size_part_name(enum size_part p); /* English, for N_() catalogues */

/* Adapter parameters of the job's rank and targets. */
int64_t size_adapter_params(const struct size_model *m, const struct size_job *j);
/* FLOPs of one trained token: 6P, +2P recomputed; frozen base 4P; attention 12*L*a*d*s/2. For
 * inference 2P and a third of the attention. */
double size_flops_token(const struct size_model *m, const struct size_job *j);

struct size_disk {
    int64_t download, convert, checkpoint, checkpoints, total; /* total with 15 % free */
};
/* image and data in bytes as given; keep: checkpoints kept. */
void size_disk(const struct size_model *m, const struct size_job *j, int64_t image, int64_t data,
               int64_t keep, struct size_disk *ret_d);

/* Serving engines: what is left for the cache when an engine takes its share of a card. */
struct size_budget {
    int64_t taken;                           /* utilisation * card */
    int64_t weights, activations, non_torch; /* expected */
    struct size_range cache;                 /* may be negative: it will not start */
    int64_t tokens, sequences;               /* that fit the expected cache; of seq each */
};
enum err size_budget(const struct size_model *m, const struct size_job *j, int64_t card_bytes,
                     struct size_budget *ret_b, struct refusal *why);

enum err size_budget_with(const struct size_model *m, const struct size_job *j,
                          const double coef[SIZE_COEFS], int64_t card_bytes,
                          struct size_budget *ret_b, struct refusal *why);

/* States of DeepSpeed's own estimator, for comparison and goldens: per card and per machine. */
struct size_zero {
    double gpu, host;
};
void size_zero_states(double params, double largest_layer, int64_t gpus, int64_t nodes,
                      enum size_shard shard, bool offload_optimizer, bool offload_params,
                      bool zero_init, struct size_zero *ret_z);
