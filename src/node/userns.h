/* userns.h: what image.c and the tests need beside the seam in drivers.h. */
#pragma once

#include "node/drivers.h"

/* Ranges start well above ordinary users and the usual subordinate ids and stay below 2^31, where
 * some programs turn ids negative. The range just below the first belongs to image imports. */
#define USERNS_BASE (17u * USERNS_IDS)
#define USERNS_IMPORT_BASE (16u * USERNS_IDS)
#define USERNS_SLOTS 29000

/* Writes the maps of a process that has made itself a user namespace: ids 0..65535 → base. */
enum err userns_map(int pid, uint32_t base, struct refusal *why);
