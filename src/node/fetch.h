/* fetch.h: brings an image to this machine, with no rights but the agent's. */
#pragma once

#include "node/config.h"

/* source: "docker://…", "oci:/…", "recipe:<name>" (docs/node-protocol.md). Makes
 * STAGING/<name> an OCI layout, ready for PRIV_IMAGE_IMPORT, and says its manifest's digest, which
 * is `digest` unless that is "" (not known yet). A recipe must have been built
 * into the configured folder (STATE/recipes) by images/build, which needs more rights.
 * Blocking, in a child of the agent; killed at any time, a rest in STAGING/<name> does no harm.
 * Errors: ERR_IMAGE_NOT_FOUND, ERR_IMAGE_DIGEST, ERR_IMAGE_PULL, ERR_NO_SPACE, ERR_SYSTEM. */
enum err fetch_image(const struct node_config *cfg, const char *source, const char *digest,
                     const char *name, char ret_digest[PRIV_DIGEST_SIZE], struct refusal *why);
