/* view.h: rows as the answers of schemas.def. Readers and the core. */
#pragma once

#include "app/lifecycle.h"
#include "store/rows_queue.h"

/* key NULL: at the top or in a list. */
enum err view_instance(struct op *op, const char *key, const struct instance *i);
enum err view_disk(struct op *op, const char *key, const struct disk *d);
enum err view_node(struct op *op, const char *key, const struct node *n);
/* t: what it was told last, or NULL; node: name of what is held for it, or "". */
void view_wait(struct json_writer *w, const char *key, const struct queue_told *t,
               const char *node);
/* The currency of a project. */
enum err view_currency(struct op *op, struct id project, struct currency *ret_ccy);
