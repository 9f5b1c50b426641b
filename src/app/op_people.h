/* op_people.h: what the handlers about people, keys, images, audit and events share. */
#pragma once

#include "app/core.h"
#include "app/cursor.h"

/* Refusals in op->why; each returns its code. */
enum err people_not_found(struct op *op, const char *what, const char *name, const char *verb);
enum err people_invalid(struct op *op, const char *field, const char *why);
enum err people_exists(struct op *op, const char *what, const char *name);
/* ERR_OK stays; anything else becomes the store's refusal. */
enum err people_try(struct op *op, enum err e);
/* A text of the body, def when absent; borrowed. */
const char *people_arg(const struct op *op, const char *name, const char *def);

/* Who may enter the instances of a project changed (project), or the keys of the caller did (NULL):
 * nodes with a live lease of such a project are told. */
enum err people_keys_moved(struct op *op, const struct id *project);

/* Every node wants something else now. */
enum err people_nodes_moved(struct op *op);

/* One page of a list that is read whole: page_open, page_takes for each item, page_close. */
struct page {
    int64_t limit, taken;
    char after[CURSOR_POS_SIZE], last[CURSOR_POS_SIZE];
    bool started, more;
};
enum err page_open(struct op *op, struct page *ret_p); /* writes {"items":[ */
bool page_takes(struct page *p, const char *pos);      /* pos: what identifies the item */
/* ERR_CURSOR: the item where the page should begin is gone. */
enum err page_close(struct op *op, struct page *p);
