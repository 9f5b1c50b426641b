/* size_rows.h: runs that were held against their estimate (suanli size --compare), and what was
 * measured of an instance. Same promises as store.h. */
#pragma once

#include "store/store.h"

struct size_run {
    struct id project, instance;
    char family[48], framework[24], task[12];
    int64_t estimate, measured; /* bytes of one card */
    utime_t at;
};
struct size_run_list {
    struct size_run *at;
    size_t len, cap;
};
/* One row an instance: holding it against another estimate replaces the first. */
enum err store_size_run_save(struct store *s, const struct size_run *r);
/* The project's, the latest first, at most 1000. */
enum err store_size_run_list(struct store *s, struct id project, struct size_run_list *ret_l);
/* Highest card memory that evidence shows of an instance of the project, MiB of one card (that of
 * all its cards divided by their number); 0: none. */
enum err store_gpu_memory_peak(struct store *s, struct id project, struct id instance,
                               int64_t *ret_mib);
