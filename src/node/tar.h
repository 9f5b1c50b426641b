/* tar.h: reads a layer's tar as it streams by and says no to what an image has no business holding.
 * Pure: bytes in, verdict out. It refuses by form alone; the unpacking that follows is confined all
 * the same, so a reader that sees a name differently gains nothing.
 *
 * Refused (ERR_IMAGE_HOSTILE): parent and absolute paths, control characters in names, device
 * nodes, sparse files, entries below a link or doubled in the same layer, hard links by absolute or
 * parent path, malformed whiteouts, proc, sys or dev that is no folder, attributes that steer an
 * overlay, damaged headers, and anything above the limits. */
#pragma once

#include "base/err.h"

struct tar_limits {
    int64_t bytes_max, entries_max; /* over all layers of an image */
    int depth_max;
    size_t path_max;
};

struct tar_set {  /* of 64-bit hashes; 0 is an empty place */
    uint64_t *at; /* owned */
    size_t cap, len;
};

enum tar_part { TAR_HEADER, TAR_SKIP, TAR_EXTRA, TAR_END };

struct tar_scan {
    const struct tar_limits *limits; /* borrowed */
    int64_t bytes, entries;          /* so far, over all layers */
    enum tar_part part;
    unsigned char block[512];
    size_t have;       /* of the block */
    int64_t left;      /* of TAR_SKIP or TAR_EXTRA, padding included */
    int64_t extra_len; /* of the extra header's own bytes */
    char extra_type;   /* x g L K */
    char *extra;       /* owned */
    char *path, *link; /* owned: from extra headers, for the next entry */
    int64_t size;      /* from an extra header; -1: none */
    bool zero_seen;
    struct tar_set seen, links; /* of this layer */
};

void tar_scan_init(struct tar_scan *t, const struct tar_limits *limits);
void tar_scan_fini(struct tar_scan *t);
void tar_layer_begin(struct tar_scan *t);
enum err tar_feed(struct tar_scan *t, const void *bytes, size_t size, struct refusal *why);
enum err tar_layer_finish(struct tar_scan *t, struct refusal *why);
