/* jscan.h: JSON read in one pass, without a tree: memory stays flat whatever the text holds. For
 * foreign files of many MB of which a few values are wanted; answers of ours use base/json.h.
 *
 * The caller walks: jscan_object() and then jscan_key() until false; for every key it takes the
 * value with one of the take functions or jscan_skip(). The first fault is kept in `fault` (static,
 * a catalogue key) and ends everything: all later calls give false. Pure; time is linear. */
#pragma once

#include "base/base.h"

#define JSCAN_DEPTH_MAX 60

enum jscan_type { JSCAN_NONE, JSCAN_OBJECT, JSCAN_ARRAY, JSCAN_TEXT, JSCAN_NUMBER, JSCAN_WORD };

struct jscan {
    const char *at, *end; /* borrowed */
    const char *fault;    /* NULL: none so far */
    unsigned depth;
    uint64_t filled, objects; /* a bit for each level: had an entry; is an object */
};
void jscan_init(struct jscan *s, const void *bytes, size_t len);
/* What comes next; nothing is taken. */
enum jscan_type jscan_peek(struct jscan *s);
bool jscan_object(struct jscan *s); /* enters one */
/* The next key, "" when it is longer than size allows; false at the end of the object. */
bool jscan_key(struct jscan *s, char *buf, size_t size);
bool jscan_array(struct jscan *s); /* enters one */
bool jscan_item(struct jscan *s);  /* true: a value follows; false at the end of the array */
/* Takes a text: escapes are decoded ('?' outside ASCII escapes); "" when it does not fit. */
bool jscan_text(struct jscan *s, char *buf, size_t size);
/* Takes a whole number (a fraction of zeros is allowed). What does not fit is a fault. */
bool jscan_i64(struct jscan *s, int64_t *ret_v);
bool jscan_bool(struct jscan *s, bool *ret_v);
bool jscan_skip(struct jscan *s); /* takes any value */
bool jscan_end(struct jscan *s);  /* nothing but blanks is left */
