#include "base/sign.h"

#include <sodium.h>

_Static_assert(SIGN_SIZE == crypto_sign_BYTES && SIGN_KEY_SIZE == crypto_sign_PUBLICKEYBYTES &&
                   SIGN_SEED_SIZE == crypto_sign_SEEDBYTES &&
                   sizeof(((struct sign_key *)0)->secret) == crypto_sign_SECRETKEYBYTES,
               "Ed25519");

bool sign_open(void)
{
    return sodium_init() >= 0;
}

void sign_seed(unsigned char ret_seed[SIGN_SEED_SIZE])
{
    randombytes_buf(ret_seed, SIGN_SEED_SIZE);
}

void sign_key_of(const unsigned char seed[SIGN_SEED_SIZE], struct sign_key *ret_k)
{
    int rc = crypto_sign_seed_keypair(ret_k->open, ret_k->secret, seed);

    CHECK(rc == 0);
}

void sign_make(const struct sign_key *k, const void *data, size_t len,
               unsigned char ret_sig[SIGN_SIZE])
{
    int rc = crypto_sign_detached(ret_sig, NULL, data, len, k->secret);

    CHECK(rc == 0);
}

bool sign_check(const unsigned char key[SIGN_KEY_SIZE], const void *data, size_t len,
                const unsigned char sig[SIGN_SIZE])
{
    return crypto_sign_verify_detached(sig, data, len, key) == 0;
}

void hex_write(const unsigned char *bytes, size_t n, char *ret_text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        ret_text[2 * i] = digits[bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_text[2 * n] = '\0';
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_read(const char *text, unsigned char *ret_bytes, size_t n)
{
    if (strlen(text) != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret_bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}
