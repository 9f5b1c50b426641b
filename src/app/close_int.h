/* close_int.h: inside app/close*.c. */
#pragma once

#include "app/close.h"

void close_id(char ret_id[CLOSE_ID_SIZE], struct id project, int64_t year, int month);
/* Writes and closes the statement of a month of which all is posted, and posts residue and tax.
 * ret_empty: nothing was in it, and there is no statement. */
enum err close_write(const struct books *b, const struct period *p, struct statement_row *ret_s,
                     bool *ret_empty, struct refusal *why);
