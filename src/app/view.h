/* view.h: rows as the answers of schemas.def. Readers and the core. */
#pragma once

#include "app/lifecycle.h"

/* key NULL: at the top or in a list. */
enum err view_instance(struct op *op, const char *key, const struct instance *i);
enum err view_disk(struct op *op, const char *key, const struct disk *d);
enum err view_node(struct op *op, const char *key, const struct node *n);
/* The currency of a project. */
enum err view_currency(struct op *op, struct id project, struct currency *ret_ccy);
