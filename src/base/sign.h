/* sign.h: Ed25519 signatures (RFC 8032), as libsodium makes them: the node's word about usage, the
 * platform's seal on a bill file. Any thread. sign_open once before the first use. */
#pragma once

#include "base/err.h"

#define SIGN_SEED_SIZE 32
#define SIGN_KEY_SIZE 32 /* public key */
#define SIGN_SIZE 64
#define SIGN_KEY_TEXT (2 * SIGN_KEY_SIZE + 1)
#define SIGN_TEXT (2 * SIGN_SIZE + 1)

struct sign_key {
    unsigned char secret[64]; /* seed and public key, as libsodium keeps them */
    unsigned char open[SIGN_KEY_SIZE];
};

/* False: the library does not work here. */
bool sign_open(void);
void sign_seed(unsigned char ret_seed[SIGN_SEED_SIZE]); /* a fresh random one */
void sign_key_of(const unsigned char seed[SIGN_SEED_SIZE], struct sign_key *ret_k);
void sign_make(const struct sign_key *k, const void *data, size_t len,
               unsigned char ret_sig[SIGN_SIZE]);
bool sign_check(const unsigned char key[SIGN_KEY_SIZE], const void *data, size_t len,
                const unsigned char sig[SIGN_SIZE]);

/* Lower-case hex; text has room for 2n + 1. */
void hex_write(const unsigned char *bytes, size_t n, char *ret_text);
/* False unless text is exactly 2n lower-case hex digits. */
bool hex_read(const char *text, unsigned char *ret_bytes, size_t n);
