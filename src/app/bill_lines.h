/* bill_lines.h: the lines of a month's bill, one by one, in their order and with their numbers. */
#pragma once

#include "app/close.h"
#include "domain/bill.h"

/* As they were closed (st), or (NULL) as they would be now: then nothing is printed, and what is
 * only known at the close is not there yet (credits). Reader. Errors are those of the rows and of
 * fn. */
enum err bill_lines(const struct books *b, const struct period *month,
                    const struct statement_row *st, line_fn *fn, void *user);
/* A line of usage, by its price version: what bill_formula writes. */
enum err bill_line_priced(const struct books *b, const struct line_row *l,
                          struct bill_line *ret_line);
