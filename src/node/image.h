/* image.h: what stands behind the seam in drivers.h.
 *
 *   IMAGES/<hex>.erofs   the image, read-only, owners 0-based; exists only when whole
 *   IMAGES/<hex>.json    what the node needs of its config
 *   RUN/images/<hex>     one mount shared by all leases of it (their page cache is one), on demand
 *   IMAGES/.import-<hex> an import under way, or what a crash left of one
 *
 * Limits of an import are image_limits (unpack.h). The importing process parses nothing: it copies
 * blobs whose content has the digest that is their name; all else happens confined. */
#pragma once

#include "node/unpack.h"

/* "erofs-file" (kernel 6.12 or later), "erofs-loop" or "none". */
const char *image_driver(void);
