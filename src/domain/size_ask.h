/* size_ask.h: what somebody asked of the sizing, word by word: the words become a model and a job,
 * and every figure that nobody gave is noted with the reason for what was taken instead. The same
 * words are flags of the command line and members of the API's body. Pure, any thread. */
#pragma once

#include "base/json.h"
#include "domain/size.h"

#define SIZE_ASSUMED_MAX 24

struct size_ask {
    struct size_model model;
    struct size_job job;
    const char *source;         /* static: "table", "numbers" or what the caller read it from */
    const char *shape_of;       /* numbers alone: the model whose shape was taken; NULL none */
    int64_t tokens, epochs;     /* training: of one pass over the data; passes */
    int64_t sequences;          /* inference: wanted at the same time */
    int64_t disk_gib;           /* of the data set */
    bool layout;                /* parallelism was given: no other is tried */
    int64_t cards;              /* product of the layout, 1 without */
    struct size_spread learned; /* interval by runs of ours; rows 0: the calibration's */
    struct {
        const char *flag; /* static */
        char value[48];
        const char *why; /* static, catalogue key */
    } assumed[SIZE_ASSUMED_MAX];
    size_t assumed_count;
};

/* Reads everything but files. a->model is what a file said, or all zero: then `model` names it or
 * the numbers (params, layers, hidden …) make it. Members of args that do not belong here are left
 * alone. Refusals: ERR_MODEL_UNKNOWN; ERR_VALIDATION (field, why). */
enum err size_ask_read(const json_t *args, struct size_ask *a, struct refusal *why);

/* size_estimate with the interval of a. */
enum err size_ask_estimate(const struct size_ask *a, const struct size_job *j,
                           struct size_result *ret_r, struct refusal *why);

/* Names of the enums, as flags and JSON say them. */
const char *size_task_name(enum size_task t);
const char *size_framework_name(enum size_framework f);
const char *size_optimizer_name(enum size_optimizer o);
const char *size_precision_name(enum size_precision p);
const char *size_attention_name(enum size_attention a);
const char *size_recompute_name(enum size_recompute r);
const char *size_shard_name(enum size_shard s);
/* "dp=4 fsdp", "tp=2", "1 card". */
void size_layout_name(const struct size_job *j, char *buf, size_t size);
