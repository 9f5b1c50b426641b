/* config.h: suanlid's configuration, read once at start. Unknown and doubled keys are errors with a
 * line number and the near name. Single thread. */
#pragma once

#include <stdio.h>

#include "base/err.h"

struct daemon_config {
#define KEY(name, type, def, help) char name[256];
#define KEY_INT(name, def, min, max, help) int64_t name;
#include "daemon/config.def"
#undef KEY
#undef KEY_INT
    char host[64]; /* of listen; "" with listen = off */
    uint16_t port;
};
/* Fills all defaults, reads path, checks the whole. ERR_VALIDATION {field, why}: field is
 * "FILE:LINE" or the key. */
enum err daemon_config_load(const char *path, struct daemon_config *ret_c, struct refusal *why);
/* The same from text already at hand (name stands for the file in errors). */
enum err daemon_config_parse(const char *name, const char *text, struct daemon_config *ret_c,
                             struct refusal *why);
/* The bytes of a zone in the system's tz database; 0: there is none of that name. */
#define CONFIG_ZONE_MAX (64 * 1024)
size_t config_zone_read(const char *name, void *data, size_t size);
/* Every key with its value and help, in a form that daemon_config_load reads back. */
void daemon_config_print(const struct daemon_config *c, enum lang lang, FILE *out);
