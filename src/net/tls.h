/* tls.h: certificate and key files into memory. Making them is the installer's business. */
#pragma once

#include "base/err.h"

#define TLS_FILE_MAX (256 * 1024)

struct tls_files {
    char *cert_pem, *key_pem; /* owned */
};
/* ERR_SYSTEM when a file cannot be read; ERR_VALIDATION (field tls_cert or tls_key) when it is not
 * PEM or the key is readable by others. */
enum err tls_load(const char *cert_path, const char *key_path, struct tls_files *ret_t,
                  struct refusal *why);
void tls_fini(struct tls_files *t); /* the key is wiped */
