/* cursor.h: where a list goes on. Opaque to callers and signed, so that it cannot be made up or
 * carried from one list or project to another. */
#pragma once

#include "app/op.h"

#define CURSOR_SIZE 200
#define CURSOR_POS_SIZE 64

/* Makes the key (meta "cursor.key") when it is missing. Once at start, on the writing store. */
enum err cursor_init(struct store *s, struct id_maker *ids);
/* limit and cursor of the query: ret_pos is the pos given to cursor_make, or "" at the start.
 * ERR_CURSOR. */
enum err cursor_read(struct op *op, int64_t *ret_limit, char ret_pos[CURSOR_POS_SIZE]);
/* pos: the last item's id or number. */
enum err cursor_make(struct op *op, const char *pos, char ret_cursor[CURSOR_SIZE]);
/* Ends a list answer: closes the array, writes next_cursor (pos NULL: it is the last page). */
enum err cursor_finish(struct op *op, const char *pos);
