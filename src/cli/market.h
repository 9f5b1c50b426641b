/* market.h: books of what other platforms ask: dated rows that are only ever added. One thread. */
#pragma once

#include "cli/cli.h"

#define MARKET_MAX ((size_t)256 * 1024)
#define MARKET_ROWS_MAX 1000

struct market_row {
    char provider[64], card[64], low[32], high[32], currency[8], date[16], source[256];
};
struct market {
    struct market_row *row; /* owned; MARKET_ROWS_MAX of them */
    size_t count;
};
/* Adds the rows of a book. ERR_NOT_FOUND; ERR_VALIDATION with file, line and why. */
enum err market_read(const char *path, struct market *m, struct refusal *why);
/* What a row lacks, in the user's language; NULL when it is whole. */
const char *market_row_wrong(const struct market_row *r);
/* The operator's and the user's own books, beside the one that is installed. */
#define MARKET_SYSTEM "/etc/suanli/market.toml"
char *market_own(struct cli *c); /* owned by the caller */
