/* size_sum.h: what the files of the estimate share. Private to src/domain/size_*.c. */
#pragma once

#include "domain/size.h"

/* Versions of an engine differ by that much to each side (eleven budgets). */
#define SIZE_ENGINE_BAND (3.5 * SIZE_GIB)

/* Whole bytes; what is beyond 2^53 is 2^53, which every check refuses. */
static inline int64_t size_whole(double bytes)
{
    return bytes < 9007199254740992.0 ? (int64_t)bytes : (int64_t)1 << 53;
}

/* One estimate being put together: bytes of one card, part by part. */
struct size_sum {
    const struct size_model *m;
    const struct size_job *j;
    const double *c; /* constants */
    struct size_params p;
    double part[SIZE_PARTS];
    double load_peak, host;
    double maybe;   /* logits on top, should a fused loss fall back for this model */
    double passing; /* training: activations and logits at their fullest, whatever the peak is */
    struct size_result *r;
    bool explain; /* steps are written down */
};

/* The share of the parameters that one rank of a job holds (tensor, pipeline and expert split; the
 * fullest stage). */
struct size_rank {
    double linear, experts, ends, other; /* linear without experts */
    double total;
    double layer; /* the largest layer, whole */
};
void size_rank(const struct size_model *m, const struct size_job *j, struct size_rank *ret_k);

/* Adds to a part and writes down why. */
void size_add(struct size_sum *s, enum size_part part, double bytes, const char *source,
              const char *fmt, ...) PRINTF_LIKE(5, 6);
void size_training(struct size_sum *s);
void size_inference(struct size_sum *s);
/* Bytes that a card keeps of the weights when it holds `rank` of all parameters. */
double size_rank_weights(const struct size_sum *s, const struct size_rank *k);
