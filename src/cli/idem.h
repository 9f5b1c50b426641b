/* idem.h: the Idempotency-Key of an act is stored before it is sent, with the exact body. When the
 * answer is lost, the same command typed again within a minute sends the same key and body, and the
 * server answers what it did the first time. */
#pragma once

#include "cli/config.h"

#define IDEM_KEY_SIZE 40
#define IDEM_LIFE_S 60

struct idem {
    char key[IDEM_KEY_SIZE];
    char *body; /* owned: the body to send; NULL when there is none */
    char *path; /* owned: the file that remembers it; NULL: could not be stored */
    int fd; /* owned: it, locked while we live; the same act typed at once elsewhere is another */
    bool again; /* continues an earlier try */
};
/* act: what makes two commands the same act (method, server, path, what was asked for). */
void idem_open(struct idem *i, const struct config *cfg, const char *act, const char *body);
/* An answer came: forget. */
void idem_done(struct idem *i);
void idem_fini(struct idem *i);
