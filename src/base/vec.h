/* vec.h: a growing array of values: VEC(struct slice) v = {0}; *vec_push(&v) = x; vec_fini(&v). */
#pragma once

#include <stdlib.h>

#include "base/mem.h"

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *at; /* owned */                                                                      \
        size_t len, cap;                                                                           \
    }
#define vec_push(v)                                                                                \
    ({                                                                                             \
        if ((v)->len == (v)->cap) {                                                                \
            (v)->cap = (v)->cap ? (v)->cap * 2 : 8;                                                \
            (v)->at = mem_realloc((v)->at, (v)->cap, sizeof(*(v)->at));                            \
        }                                                                                          \
        memset(&(v)->at[(v)->len], 0, sizeof(*(v)->at));                                           \
        &(v)->at[(v)->len++];                                                                      \
    })
#define vec_fini(v)                                                                                \
    do {                                                                                           \
        free((v)->at);                                                                             \
        (v)->at = NULL;                                                                            \
        (v)->len = (v)->cap = 0;                                                                   \
    } while (0)
/* An empty list has no array, and nothing is added to a null pointer. */
#define VEC_FOREACH(item, v)                                                                       \
    for (__typeof__(&*(v)->at) item = (v)->at; item && item < (v)->at + (v)->len; item++)
