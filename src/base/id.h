/* id.h: ids are a type prefix and random letters: ins_k3v9…; 24 bytes with the NUL.
 * struct id is a value; the type lives in domain use as well (making one is base only). */
#pragma once

#include "base/err.h"

#define ID_SIZE 24
#define ID_RANDOM_LEN 14 /* of a 32-letter alphabet: 70 bits */

struct id {
    char s[ID_SIZE];
};

/* Source of randomness, so that a simulation can be replayed from a seed. */
struct id_maker {
    void (*fill)(struct id_maker *m, void *buf, size_t size);
    uint64_t state; /* of the seeded maker */
};
struct id_maker id_maker_system(void);                     /* getrandom */
struct id_maker id_maker_seeded(uint64_t seed);            /* tests only */
struct id id_make(struct id_maker *m, const char *prefix); /* prefix without '_', 2-4 letters */
