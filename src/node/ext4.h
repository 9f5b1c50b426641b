/* ext4.h: the file system inside a disk image: made and checked by e2fsprogs, grown by ioctl where
 * the kernel allows it, its fill read from the superblock. */
#pragma once

#include "base/err.h"

/* A fresh sparse file at path with an empty file system of size_mib. A few blocks are kept back for
 * the machine's root, so that a disk filled by its guest can still be mounted and served. */
enum err ext4_make(const char *path, int64_t size_mib, struct refusal *why);
/* Bytes the file system itself spans; ERR_CORRUPT when there is none. */
enum err ext4_size(int fd, int64_t *ret_bytes, struct refusal *why);
/* Of a file system that is not mounted. */
enum err ext4_usage(int fd, int64_t *ret_used_mib, int64_t *ret_inodes, int64_t *ret_inodes_used,
                    struct refusal *why);
/* Fills the whole image; check first, resize then. Safe to repeat. */
enum err ext4_grow_offline(const char *path, struct refusal *why);
/* dev: the mounted device. */
enum err ext4_grow_online(const char *dev, int64_t bytes, struct refusal *why);
/* Tries it for real on a small file system in memory. */
bool ext4_online_grow_probe(void);
