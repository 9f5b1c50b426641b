/* sha256.h: SHA-256 (FIPS 180-4). Pure, so that the ledger's chain needs no library and anybody can
 * check it with `sha256sum`. */
#pragma once

#include "base/base.h"

#define SHA256_SIZE 32

struct sha256 {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[64];
};
void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
void sha256_finish(struct sha256 *s, unsigned char ret_hash[SHA256_SIZE]);
