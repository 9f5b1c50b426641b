/* card.h: accelerators by public specification (data/gpus.tsv, in the program). What a card can
 * hold, how fast it computes and reads, and how many of them are joined by a fast link. Pure. */
#pragma once

#include "base/base.h"

struct card_row {
    const char *name;
    const char *match; /* words, lower case, that name the card in other people's spelling */
    const char *vendor;
    int64_t memory_gib;    /* nominal */
    int64_t usable_mib;    /* what a process can have */
    double bandwidth_gbps; /* memory, GB/s; 0 unknown */
    double tflops16;       /* dense 16-bit with 32-bit sums */
    bool bf16;
    double achievable_tflops; /* measured matrix products; 0: not measured */
    double fp8_tflops;        /* 0: none */
    const char *capability;
    int64_t domain;   /* cards joined by a fast link: tensor parallelism stays inside */
    double link_gbps; /* 0 unknown */
    const char *mig;  /* "1g.10gb x7;2g.20gb x3"; NULL none */
    const char *note;
};
extern const struct card_row card_rows[];
extern const size_t card_row_count;

/* The row a driver, an operator or a person means ("NVIDIA A100-SXM4-80GB", "4090"): all words of
 * `match` occur, the memory is within a tenth (memory_mib 0: not said; then the first of equal
 * names), and the most telling row wins. NULL: none. */
const struct card_row *card_find(const char *name, int64_t memory_mib);
/* The next slice of *pos (start with row->mig): its profile name, its usable MiB (5 % under the
 * name), how many a card gives. False at the end. */
bool card_slice_next(const char **pos, char name[16], int64_t *ret_mib, int64_t *ret_count);
