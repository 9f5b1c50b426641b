/* problem.h: a refusal as an RFC 9457 problem document in the caller's language. Pure. */
#pragma once

#include "base/json.h"

/* {"type","title","status","code","detail","next","request_id","params"} */
void problem_write(const struct refusal *why, enum lang lang, const char *request_id,
                   struct strbuf *out);
/* Every error of the product with its codes and both texts, {key} unfilled: {"items":[…]}. What
 * "type" of a problem document points at. */
void problem_catalogue_write(struct strbuf *out);
/* Seconds to wait before trying again, for Retry-After; 0: no such header. */
int64_t problem_retry_s(const struct refusal *why);
