/* heads.h: the daily heads of the journal in a file beside the store, one line a day, only ever
 * appended to: "2026-03-01 ROWS HASH". Copy it to where the operator cannot reach. Core thread. */
#pragma once

#include "store/store.h"

/* Adds the days before today that the file does not have yet; synced. */
enum err heads_append(struct store *s, const char *store_path, int64_t today, struct refusal *why);
