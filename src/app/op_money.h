/* op_money.h: what the money operations share. */
#pragma once

#include "app/core.h"
#include "app/funds_int.h"
#include "app/op_people.h"

/* "card-second", "core-second", "MiB-second", "byte" */
const char *meter_unit(enum meter m);
/* The answer about a wallet. */
void wallet_write(struct op *op, const struct project *p, const struct funds_wallet *w);
/* rate_code: "1980000/3600" of one price */
void json_rate(struct json_writer *w, const char *key, const struct rate *r);
/* A money argument of the body in ccy, above or equal to zero. ERR_VALIDATION. */
enum err money_arg(struct op *op, const char *name, struct currency ccy, int64_t *ret_u);
/* The month asked for in the query, or the one that holds now. */
enum err month_arg(struct op *op, const struct books *b, bool *ret_given, struct period *ret_p);
/* A query text or NULL; borrowed. */
const char *query_arg(const struct op *op, const char *name);
