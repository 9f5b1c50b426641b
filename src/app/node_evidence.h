/* node_evidence.h: whose word a slice is. The first key that a node shows is its key; evidence with
 * another, or a wrong signature, is of nothing: taken, so that the node may drop it, and not
 * charged; an event tells the operator, at most one an hour. A node that never showed a key (an
 * older version) is believed by its token alone, and its slices stay unsigned. Core thread. */
#pragma once

#include "app/core_int.h"
#include "app/funds.h"
#include "store/rows_proof.h"

struct node_word {
    bool keyed;   /* slices must be signed with key */
    bool refused; /* it shows another key than the one that is known */
    struct node_key key;
};
/* From the inventory's "key" (NULL or "": none shown). ERR_PROTOCOL: no key. */
enum err node_word_take(struct op *op, const struct node *n, const char *key,
                        struct node_word *ret_w);
/* Checks the signature text of a slice of that boot: f->key and f->sig are set, or the slice is
 * made void and *io_refused counts it. */
enum err node_word_check(const struct node_word *w, const char *boot, const char *sig,
                         struct funds_slice *f, int64_t *io_refused);
/* Says that evidence was refused, unless it was said within the hour. */
enum err node_word_tell(struct op *op, const struct node *n, struct node_word *w, int64_t refused);
