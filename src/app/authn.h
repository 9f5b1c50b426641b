/* authn.h: who asks. Secrets (tokens, one-time codes, node tokens) are opaque random text; the
 * store has only their BLAKE2b-256. A secret of 160 random bits needs no slow hash, and looking it
 * up by hash leaks nothing about it through time.
 *
 * All functions are called by the thread that owns the store handed in. */
#pragma once

#include "app/core.h"

#define SECRET_SIZE 48
#define BEARER_MAX 128

/* Hex of BLAKE2b-256(secret). */
void authn_hash(const char *secret, char ret_hash[HASH_TEXT_SIZE]);
/* prefix + "_" + 32 letters of a 32-letter alphabet: "slt_…" (tokens), "sln_…" (nodes). */
void authn_secret(struct core *c, const char *prefix, char ret_secret[SECRET_SIZE]);
/* Codes that people type: n letters of 5 bits, in groups of four. Small letters, other separators,
 * o for 0 and l or i for 1 are the same code. ret_code: n + n / 4 bytes. read: false when it is no
 * such code. */
void authn_letters_write(const unsigned char *raw, size_t n, char *ret_code);
bool authn_letters_read(const char *typed, unsigned char *ret_raw, size_t n);
/* A one-time code to be typed: "K3V9-…", 5 groups of 4; 100 bits. */
void authn_code(struct core *c, char ret_code[SECRET_SIZE]);
/* The same from bytes at hand (suanlid admin-code, without a core); size >= 20. */
void authn_code_from(const unsigned char *raw, char ret_code[SECRET_SIZE]);
/* A typed one as it was made. False: not a code.
 */
bool authn_code_norm(const char *typed, char ret_code[SECRET_SIZE]);

/* What a request brought along; fixed arrays, so that it crosses threads. */
struct credentials {
    char token_hash[HASH_TEXT_SIZE]; /* "" when no bearer token came */
    char project[NAME_SIZE];         /* X-Suanli-Project, "" when absent */
    bool malformed;                  /* an Authorization header that is no bearer token */
};
/* The header values as they came; "" when absent. */
void credentials_read(const char *authorization, const char *project, struct credentials *ret_c);

/* Fills ret_who, or refuses: AUTH_REQUIRED, AUTH_INVALID, NODE_AUTH, FORBIDDEN, NOT_FOUND (project
 * override that is not theirs or not there: the same bytes). ret_touch: the token's used_at is old
 * enough to be written again (may be NULL). */
enum err authn_check(struct store *store, const struct op_row *row, const struct credentials *c,
                     utime_t now, struct principal *ret_who, bool *ret_touch, struct refusal *why);
/* Writes used_at; on the writing store only. */
enum err authn_touch(struct store *store, const char *token_hash, utime_t now);

/* Login guesses, by source address: from the fourth failure on each costs a delay that doubles up
 * to a minute. A code has 100 bits: a longer delay would only shut out others behind the same
 * proxy. Owned by the core thread. Bounded: the oldest source is forgotten first. */
#define LOGIN_SOURCES_MAX 1024
struct login_gate {
    struct {
        char peer[64];
        int failures;
        utime_t until_ms, seen_ms; /* boot clock */
    } at[LOGIN_SOURCES_MAX];
    size_t len;
};
/* ERR_RATE_LIMITED with wait_s. */
enum err login_gate_check(struct login_gate *g, const char *peer, utime_t boot_ms,
                          struct refusal *why);
void login_gate_result(struct login_gate *g, const char *peer, utime_t boot_ms, bool good);
