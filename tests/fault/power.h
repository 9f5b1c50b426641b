/* power.h: what a disk may hold after the power went: all that was synced, and of the rest what the
 * draw says. A file that was made or removed stays so only when its folder was synced since. */
#pragma once

#include "calls.h"

#define POWER_SECTOR 512
enum power_draw {
    POWER_NOTHING, /* only what was synced */
    POWER_TORN,    /* all but the end of the last write */
    POWER_ANY,     /* some of the calls, of a write some sectors; and a wild -shm */
};
/* Writes the files of folder as they are when the power goes after the first n of ops; before the
 * first they were those of from (all of it synced), whose names end in ends[] (NULL-terminated)
 * after stem. io_x: state of the draw, not 0. */
void power_cut(const char *from, const char *folder, const char *stem, const char *const *ends,
               const struct calls *c, size_t n, enum power_draw draw, uint64_t *io_x);
/* The next number of that state, below n. */
uint64_t power_below(uint64_t *io_x, uint64_t n);
/* Copies those files as they are; those that from lacks are removed in folder. */
void power_copy(const char *from, const char *folder, const char *stem, const char *const *ends);
/* The bytes of those files, to see whether they are others now. */
struct power_state *power_state_read(const char *folder, const char *stem, const char *const *ends);
bool power_state_eq(const struct power_state *a, const struct power_state *b);
void power_state_free(struct power_state *s); /* NULL is fine */
