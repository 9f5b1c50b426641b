/* sshkey.h: an SSH public key as people paste it, checked down to its numbers. Pure; any thread. */
#pragma once

#include "store/store.h"

#define SSHKEY_RSA_BITS_MIN 2048
#define SSHKEY_COMMENT_MAX 80

struct sshkey {
    char text[KEY_TEXT_SIZE];    /* "ssh-ed25519 AAAA… comment": no options, one line */
    char fingerprint[NAME_SIZE]; /* "SHA256:…" as ssh-keygen -l prints it */
    char comment[NAME_SIZE];     /* cut to fit */
};
/* Takes ed25519, RSA from 2048 bits, ECDSA on the NIST curves and both sk- kinds.
 * ERR_VALIDATION (field public_key) tells what is wrong: a private key, options in front, an old
 * kind, a short or damaged key. */
enum err sshkey_parse(const char *line, struct sshkey *ret_k, struct refusal *why);
