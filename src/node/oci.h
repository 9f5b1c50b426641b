/* oci.h: the part of an import that runs confined (unpack.c): reads manifest, config and layers of
 * /layout, writes /work/image.erofs and /work/config.json. Every blob's content was checked against
 * its name before; here layers are checked once more, uncompressed, against the config. */
#pragma once

#include "base/err.h"

enum err oci_unpack(const char *digest, int64_t space, struct refusal *why);
