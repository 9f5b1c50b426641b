/* mounts.h: file systems mounted through descriptors: nothing is visible before it is complete. */
#pragma once

#include "base/err.h"

struct mount_opt {
    const char *key, *value; /* value NULL: a flag */
};

/* A new instance of fs from source, not attached anywhere; attrs: MOUNT_ATTR_*. The reason of a
 * failure is the kernel's own where it gives one. */
enum err mounts_make(const char *fs, const char *source, const struct mount_opt *opts, size_t count,
                     uint64_t attrs, int *ret_fd, struct refusal *why);
/* A detached copy of what is mounted at path. */
enum err mounts_clone(const char *path, int *ret_fd, struct refusal *why);
/* Ids of a detached mount are shifted by the user namespace; set flags are MOUNT_ATTR_*. */
enum err mounts_idmap(int fd, int userns_fd, uint64_t attrs, struct refusal *why);
/* Attaches at the folder target, which is made when missing. */
enum err mounts_attach(int fd, const char *target, struct refusal *why);
