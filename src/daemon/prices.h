/* prices.h: the first prices, from a file: lines "SKU PRICE UNIT" such as "gpu.RTX 4090 1.98 hour";
 * '#' starts a comment. Through the core, so they are checked, versioned and audited like any
 * other. */
#pragma once

#include "app/core.h"

/* Does nothing when the store has prices. ERR_VALIDATION {field, why}: field is FILE:LINE. Before
 * the core has a thread of its own. */
enum err prices_load_file(struct core *core, struct store *store, const char *path,
                          const struct core_now *now, struct refusal *why);
