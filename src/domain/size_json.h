/* size_json.h: an answer of the sizing as JSON, one shape for the API and the command line
 * (schemas.def: size). Bytes are whole numbers, money is {amount, currency}. Pure. */
#pragma once

#include "domain/money.h"
#include "domain/size_choice.h"

/* ccy: of the offers; code "" when there are none (then every amount is null). offers: "live", or
 * why there are none (a word: "none", "not_configured", "unreachable"). steps: with every formula.
 */
void size_json(struct json_writer *w, const struct size_ask *a, const struct size_result *r,
               const struct size_choice *c, struct currency ccy, const char *offers, bool steps);
