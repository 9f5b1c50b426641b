/* outbox.h: what goes out of the core besides the answer: rows written in the same transaction. */
#pragma once

#include "app/op.h"
#include "store/store.h"

/* One event of the feed. text: English key of the catalogue with {key} parameters; fmt: jansson's
 * json_pack format of its data, such as "{s:s,s:I}". project and instance may be empty. */
enum err event_emit(struct op *op, struct id project, struct id instance, const char *kind,
                    const char *text, const char *fmt, ...);
/* The text of an event in lang: {key} filled from its data. */
void event_text(const struct event *e, enum lang lang, char *buf, size_t size);
/* Tells the node to end a guest that belongs to no lease. */
enum err outbox_kill_unknown(struct op *op, struct id node, const char *lease);
