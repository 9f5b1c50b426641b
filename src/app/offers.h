/* offers.h: what can be rented now, for the operations that need it. Readers and the core. */
#pragma once

#include "app/op.h"
#include "domain/offer.h"

struct offer_list {
    struct offer *at; /* owned */
    size_t len, cap;
};
/* All offers of nodes that are ready and of what has a price, unsorted. */
enum err offers_load(struct op *op, struct offer_list *ret_l);
void offers_fini(struct offer_list *l);
