/* tick.h: what time does. Part of a batch, once a second. */
#pragma once

#include "app/core.h"

/* ERR_STORE only; what fails for one instance is undone and logged, the others go on. */
enum err tick_run(struct core *c, utime_t now);
