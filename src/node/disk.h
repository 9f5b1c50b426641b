/* disk.h: what stands behind the seam in drivers.h, for disk.c, erase.c, strays.c and tests.
 *
 * A disk is DISKS/<id>.img, a sparse file with ext4 in it; ids of owners on it are 0..65535 and
 * each lease sees its own range through an id-mapped mount, so a disk can move between leases.
 * DISKS/<id>.rec exists from the first moment of an erase on; a disk with a record is never
 * attached again. All of a disk's size counts against the pool, whatever it uses. */
#pragma once

#include <sys/stat.h>

#include "node/drivers.h"

#define DISK_MIB_MIN 32
#define DISK_MIB_MAX (64 * 1024 * 1024) /* 64 TiB */
#define MIB ((int64_t)1 << 20)

struct disk_record {
    enum disk_state state; /* DISK_NONE: no record */
    int64_t bytes, ms;     /* overwritten so far, time spent on it */
};

enum err disk_path(const struct node_paths *p, struct id disk, const char *suffix,
                   char ret_path[PATH_MAX], struct refusal *why);
enum err disk_record_load(const struct node_paths *p, struct id disk, struct disk_record *ret_r,
                          struct refusal *why);
enum err disk_record_save(const struct node_paths *p, struct id disk, const struct disk_record *r,
                          struct refusal *why);
/* Opens the image and keeps others from attaching or erasing it while the descriptor lives.
 * ERR_NOT_FOUND, ERR_DISK_IN_USE. */
enum err disk_lock(const struct node_paths *p, struct id disk, int *ret_fd, struct stat *ret_st,
                   struct refusal *why);
/* The pool: its size, and what is free after all disks have got all they were promised. */
enum err disk_pool(const struct node_paths *p, int64_t *ret_mib, int64_t *ret_free_mib,
                   struct refusal *why);
