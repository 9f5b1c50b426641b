/* offer.h: what can be rented now, and the small language that filters it. Pure. */
#pragma once

#include "domain/types.h"

struct offer {
    struct id id;             /* stable for a node and model */
    char gpu[GPU_MODEL_SIZE]; /* "": a CPU-only seat */
    int64_t vram_mib;
    int32_t free, count_max; /* cards, or cores */
    int32_t cpu_max;         /* cores */
    int64_t memory_mib_max;
    int64_t price_u; /* per card (or core) and hour */
    int64_t exclusive_u;        /* per hour, for having the node alone */
    bool exclusive, node_empty; /* that is sold; nobody is there now */
    struct id node;
    char node_name[NAME_SIZE], driver[32], cuda[16];
    bool simulated;
};

enum offer_field {
    OFFER_GPU,
    OFFER_VRAM,
    OFFER_PRICE,
    OFFER_COUNT,
    OFFER_CPU,
    OFFER_MEMORY,
    OFFER_TRUST,
    OFFER_NODE
};
enum offer_op { OFFER_EQ, OFFER_LE, OFFER_GE, OFFER_LT, OFFER_GT };
struct offer_term {
    enum offer_field field;
    enum offer_op op;
    int64_t value; /* MiB, µ, cards, cores */
    char text[GPU_MODEL_SIZE];
};
#define OFFER_TERMS_MAX 16
enum offer_order { OFFER_BY_PRICE, OFFER_BY_VRAM, OFFER_BY_FREE };
struct offer_filter {
    struct offer_term terms[OFFER_TERMS_MAX];
    size_t count;
    enum offer_order order;
    bool falling;
};

/* "gpu=4090 vram>=24 price<3 count>=2 memory>=64GiB order=price" (order=-price: falling). Numbers
 * of vram are GiB, of price whole money. ERR_VALIDATION with field and why. */
enum err offer_filter_parse(const char *text, struct offer_filter *ret_f, struct refusal *why);
bool offer_matches(const struct offer_filter *f, const struct offer *o);
/* Sorts; ties by price, then id. */
void offer_sort(const struct offer_filter *f, struct offer *offers, size_t n);
