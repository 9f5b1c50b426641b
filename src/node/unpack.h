/* unpack.h: from verified blobs to one EROFS file, by a process that may do nothing else: own user
 * namespace mapped onto a range of its own, own mount, network, pid, ipc and host-name namespaces,
 * a root with the machine's /usr read-only, the blobs read-only and one work folder. */
#pragma once

#include "node/drivers.h"
#include "node/tar.h"

struct image_limits {
    struct tar_limits tar;
    int64_t blob_bytes_max; /* all blobs together, as fetched */
    int64_t time_ms_max;
    int blobs_max;
};
extern struct image_limits image_limits; /* tests lower them */

#define IMAGE_CONFIG_MAX (64 << 10)

/* folder: has layout/ (blobs, root's) and work/ (owned by the import range). On success work/ holds
 * image.erofs and config.json. space: bytes it may fill. Blocking. */
enum err unpack_run(const char *folder, const char *digest, int64_t space, struct refusal *why);
