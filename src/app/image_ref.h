/* image_ref.h: images that were offered without a digest. Until a node has found out which manifest
 * the source is (docs/node-protocol.md: resolve, resolved), the digest column has a stand-in made
 * of the source; nothing starts from a stand-in. */
#pragma once

#include "app/op.h"

void image_ref_of(const char *source, char ret_digest[DIGEST_SIZE]); /* "ref:" + hex */
bool image_is_ref(const char *digest);
/* For node_sync: writes "resolve":[…] of all sources that wait; adds nothing when there are none.
 */
enum err image_resolve_write(struct op *op, struct json_writer *w);
/* For node_sync: takes the request's "resolved" (NULL is fine): those images have their digest
 * now and the nodes were told. Unknown sources and bad rows are passed over. */
enum err image_resolved_take(struct op *op, const json_t *resolved);
