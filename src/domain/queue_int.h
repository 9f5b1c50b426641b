/* queue_int.h: what the files of the queue share. */
#pragma once

#include "domain/queue.h"

/* Demands that differ in nothing but who and when: among them only the first can be next. */
struct queue_class {
    int32_t project, priority, suit, nodes, cards;
    int64_t run_s;
    bool whole;
    VEC(struct queue_demand) list; /* by (since_s, id), from head on */
    size_t head;
    /* while deciding */
    size_t at; /* the next one to be looked at */
    bool blocked;
    int64_t due;
};

static inline bool queue_suits(const struct queue *q, int32_t suit, int32_t node)
{
    return suit == 0 || q->suits.at[suit - 1].fits[node];
}

/* Cards that are a project's own by its share. */
double queue_share_cards(const struct queue *q, int32_t project);
/* Fills plan->give_back for the first in line, if its project is below its share. */
void queue_share_give(struct queue *q, struct queue_plan *plan);

/* vec_fini without the C library: the domain frees through base. */
#define list_fini(v)                                                                               \
    do {                                                                                           \
        mem_free_ptr(&(v)->at);                                                                    \
        (v)->at = NULL;                                                                            \
        (v)->len = (v)->cap = 0;                                                                   \
    } while (0)
