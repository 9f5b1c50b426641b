/* queue.h: the only way from thread to thread: a bounded queue of pointers. Who pops owns the item.
 * Any thread may push or pop. */
#pragma once

#include "base/base.h"

struct queue;

struct queue *queue_new(size_t max); /* owned by the caller */
void queue_free(struct queue *q);    /* the caller has emptied it and joined its users */
/* false when it is full or closed: the item stays the caller's. Never waits. */
bool queue_push(struct queue *q, void *item);
/* Waits up to wait_ms for a first item, then takes what is there, at most max, oldest first.
 * 0: nothing came in time, or the queue is closed and empty. */
size_t queue_pop(struct queue *q, void **ret_items, size_t max, int64_t wait_ms);
/* No more pushes; poppers get what is left and then 0 at once. */
void queue_close(struct queue *q);
bool queue_closed(struct queue *q);
size_t queue_len(struct queue *q);
