/* model.h: what a model is, from what people have at hand: its name, a Hugging Face config.json,
 * the headers of safetensors files, their index, or the header of a GGUF file.
 *
 * Works on bytes that somebody else read; foreign, possibly hostile. Nothing is trusted: sizes are
 * bounded before they are used, memory stays flat (no allocation), time is linear in the bytes.
 * Refusals are ERR_MODEL_UNKNOWN (a name or an architecture that is not known) and ERR_MODEL_FILE
 * (`what` is not what it should be: `why`). The caller sets `what` to the file's name.
 * Pure, any thread. */
#pragma once

#include "domain/size.h"

#define MODEL_CONFIG_MAX ((size_t)4 << 20)  /* config.json */
#define MODEL_INDEX_MAX ((size_t)32 << 20)  /* *.safetensors.index.json */
#define MODEL_HEADER_MAX ((size_t)64 << 20) /* header of a safetensors file */
#define MODEL_GGUF_MAX ((size_t)64 << 20)   /* header and tensor table of a GGUF file */
#define MODEL_TENSORS_MAX 400000

/* ---- by name (data/models.tsv, in the program) ------------------------------------------------
 */

struct model_row {
    const char *aliases; /* further names, by commas; NULL: none */
    struct size_model m;
};
extern const struct model_row model_rows[];
extern const size_t model_row_count;
/* "Qwen2.5-7B", "qwen2.5 7b instruct", "meta-llama/Llama-3.1-8B": owner, case, blanks and words
 * such as instruct do not count. A format in the name (awq, fp8, Q4_K_M, 4bit) goes to
 * ret_m->stored. ret_m is complete (size_model_default). Refused with the nearest name. */
enum err model_named(const char *name, struct size_model *ret_m, struct refusal *why);
/* The row whose shape is nearest to so many parameters (dense ones only). */
const struct model_row *model_near(int64_t params);
/* "7B", "6.7b", "350M", "1.1T", "7615616512". */
bool model_params_parse(const char *s, int64_t *ret_n);

/* ---- by file ----------------------------------------------------------------------------------
 */

/* A config.json. like: count an architecture that is not known as this one ("llama"); NULL: refuse
 * it. */
enum err model_config(const void *bytes, size_t len, const char *like, struct size_model *ret_m,
                      struct refusal *why);

/* Sums over the tensors of one or more files. */
struct model_tensors {
    struct size_type_sum type[SIZE_TYPES_MAX];
    size_t type_count;
    int64_t bytes, count;
    int64_t layers, experts;              /* one more than the highest number seen */
    int64_t vocab, hidden;                /* of the embedding */
    int64_t q, kv, head, ffn, expert_ffn; /* rows of the projections; head: of a q or k norm */
    bool has_head, has_bias, adapter;
};
/* Bytes of the JSON header, from the first 8 bytes of a file of file_size (8 + header <= it). */
enum err model_safetensors_header(const uint8_t first[8], int64_t file_size, size_t *ret_len,
                                  struct refusal *why);
/* Adds the tensors of a header; data is what follows it in the file, -1 when the file is cut. */
enum err model_safetensors_add(const void *json, size_t len, int64_t data, struct model_tensors *t,
                               struct refusal *why);
/* metadata.total_size of an index; 0 when it does not say. */
enum err model_index(const void *bytes, size_t len, int64_t *ret_total, struct refusal *why);
/* What the tensors say goes into m: exact bytes and types, and parameters unless they are packed.
 * Without a config (m->layers 0) the shape as well, as far as tensors can tell; with one, tensors
 * that are far from all of it are refused. */
enum err model_take_tensors(const struct model_tensors *t, struct size_model *m,
                            struct refusal *why);

/* The beginning of a GGUF file, whole or cut after its tensor table. Of the first of several parts
 * weight_bytes stays 0: the caller adds up the files. */
enum err model_gguf(const void *bytes, size_t len, struct size_model *ret_m, struct refusal *why);
