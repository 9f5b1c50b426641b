/* router.h: bytes of a request into a call: which row of operations.def, its arguments decoded and
 * held against their ARG rows. Pure; any thread. Who may do it is authn.h, what it does the core.
 */
#pragma once

#include "app/op_table.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 200

struct route {
    const struct op_row *row;
    char *path_arg[OP_PATH_ARGS_MAX]; /* owned, decoded, UTF-8; NULL beyond the path's own */
};
void route_fini(struct route *r);

/* Finds the row. ERR_NOT_FOUND for an address that is not ours (also: empty segments, bad escapes,
 * control characters); ERR_METHOD with ret_allow filled ("GET, POST") when only the method is
 * wrong. path is as sent, without the query. */
#define ALLOW_SIZE 48
enum err router_match(const char *method, const char *path, struct route *ret_r,
                      char ret_allow[ALLOW_SIZE], struct refusal *why);

/* The query as an object of strings: names known to the row (and limit, cursor on lists, dry_run
 * where it is taken), each once, of the right type. ERR_VALIDATION with field and why. */
enum err router_query(const struct op_row *row, const char *query, json_t **ret_q,
                      struct refusal *why);
/* The body as an object: known names, right types, required ones there. len 0 counts as {}.
 * ERR_BAD_JSON, ERR_TOO_LARGE, ERR_VALIDATION. */
enum err router_body(const struct op_row *row, const char *body, size_t len, size_t len_max,
                     json_t **ret_b, struct refusal *why);
/* Types of path arguments (ports). */
enum err router_path_args(const struct route *r, struct refusal *why);
/* dry_run of the body or the query. */
bool router_dry_run(const struct op_row *row, const json_t *query, const json_t *body);
/* A key of 1 to 200 printable characters where the row needs one. ERR_IDEMPOTENCY_MISSING. */
enum err router_idem_key(const struct op_row *row, const char *key, bool dry_run,
                         struct refusal *why);

/* "%41" and such decoded; false: bad escape, NUL or control character, or not UTF-8. */
bool percent_decode(const char *s, size_t n, char *ret_text, size_t size, bool plus_is_blank);
