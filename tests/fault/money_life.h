/* money_life.h: a life of three accounts, a supplier and a payment channel that takes each of the
 * steps by which money moves, in one transaction each. */
#pragma once

#include "../sim/world.h"

enum step_kind {
    STEP_CALL,  /* an operation */
    STEP_CLOCK, /* a minute passes: what the control plane does by itself */
    STEP_NODE,  /* the node reports */
};
struct step {
    const char *name;
    enum step_kind kind;
    struct principal who;
    const char *op;
    char body[1024], path[NAME_SIZE]; /* "": none */
    bool keyed;                       /* asked again with the same key, it gives the same answer */
    bool long_log; /* its commit is the one after which the log is moved into the file */
};
/* Lives it. visit(user, w, step) is called where a step is about to be taken, with the store open
 * and its last commits still in its log; then it is taken. */
void money_life(struct world *w, void (*visit)(void *user, struct world *w, const struct step *s),
                void *user);
/* Takes the step in a world that was opened just now. r: filled for STEP_CALL. */
void step_take(struct world *w, const struct step *s, struct world_reply *r);
