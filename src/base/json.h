/* json.h: JSON out by a small streaming writer, JSON in by jansson (64-bit integers, strict UTF-8,
 * duplicate keys refused, depth and size bounded before parsing).
 *
 * Money never travels as a JSON number: see domain/money.h. */
#pragma once

#include <jansson.h>

#include "base/str.h"

#define JSON_DEPTH_MAX 32

/* Writer: commas and quoting are its business; misuse is a CHECK. */
struct json_writer {
    struct strbuf *out; /* borrowed */
    unsigned depth;
    bool comma[JSON_DEPTH_MAX];
};
void json_writer_init(struct json_writer *w, struct strbuf *out);
void json_object_begin(struct json_writer *w, const char *key); /* key NULL in arrays, at the top */
void json_object_finish(struct json_writer *w);
void json_array_begin(struct json_writer *w, const char *key);
void json_array_finish(struct json_writer *w);
void json_str(struct json_writer *w, const char *key, const char *v); /* v NULL → null */
void json_strf(struct json_writer *w, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
void json_i64(struct json_writer *w, const char *key, int64_t v);
void json_flag(struct json_writer *w, const char *key, bool v);
void json_none(struct json_writer *w, const char *key);
void json_time(struct json_writer *w, const char *key,
               utime_t t); /* RFC 3339; UTIME_NEVER, 0 → null */
void json_raw(struct json_writer *w, const char *key,
              const char *json); /* already JSON; NULL → null */

/* Reader. */
enum err json_parse(const char *text, size_t len, size_t len_max, json_t **ret_v,
                    struct refusal *why);
void json_free_ptr(json_t **v);
#define AUTO_JSON CLEANUP(json_free_ptr)
/* Typed access: absent or null gives def; a wrong type gives false. */
bool json_get_str(const json_t *o, const char *key, const char *def, const char **ret_v);
bool json_get_i64(const json_t *o, const char *key, int64_t def, int64_t *ret_v);
bool json_get_bool(const json_t *o, const char *key, bool def, bool *ret_v);
/* Copies into a fixed array; false when it is not a string or does not fit. */
bool json_get_text(const json_t *o, const char *key, char *buf, size_t size);
