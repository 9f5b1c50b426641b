/* mem.h: memory. Out of memory aborts: every size a user drives is bounded before it gets here. */
#pragma once

#include "base/base.h"

void *mem_alloc(size_t size);                          /* zeroed, owned by the caller */
void *mem_realloc(void *p, size_t count, size_t size); /* count*size checked for overflow */
char *mem_strdup(const char *s);
void *mem_dup(const void *p, size_t size);
void mem_free_ptr(void *pp); /* for CLEANUP; frees *pp */
#define AUTO_FREE CLEANUP(mem_free_ptr)

/* One arena per request: cheap pieces that die together. Passing the ceiling returns NULL once
 * and for ever (arena_failed), so one check at the end is enough. Single thread. */
struct arena {
    struct arena_block *head; /* owned */
    size_t used;
    size_t ceiling;
    bool failed;
};
void arena_init(struct arena *a, size_t ceiling);
void arena_fini(struct arena *a);
void *arena_alloc(struct arena *a, size_t size); /* zeroed, 16-aligned; NULL above the ceiling */
char *arena_strdup(struct arena *a, const char *s);

void fd_close_ptr(int *fd); /* for CLEANUP; closes when >= 0 */
#define AUTO_CLOSE CLEANUP(fd_close_ptr)
