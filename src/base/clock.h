/* clock.h: time behind a struct, so that a simulator can live through days in a second.
 * wall_ms for display and calendar only; boot_ms (CLOCK_BOOTTIME) for every duration. */
#pragma once

#include "base/base.h"

struct clock {
    utime_t (*wall_ms)(struct clock *c);
    utime_t (*boot_ms)(struct clock *c);
    void *user; /* borrowed */
};
struct clock *clock_system(void); /* static */
/* A new id at each boot of the machine (/proc/sys/kernel/random/boot_id), without dashes. */
#define BOOT_ID_SIZE 33
bool clock_boot_id(char ret_id[BOOT_ID_SIZE]);
