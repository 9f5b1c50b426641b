/* bill_by.h: the same month in other cuts. Reader. The groups of an open month add up to its total
 * so far, those of a closed one to what is payable: what belongs to none of them (credits,
 * corrections by day, the residue, taxes on top) is a group by itself. */
#pragma once

#include "app/op_money.h"
#include "store/rows_close.h"

enum bill_by { BILL_BY_NONE, BILL_BY_PROJECT, BILL_BY_GPU, BILL_BY_USER, BILL_BY_DAY };
/* The word of the query "by". ERR_VALIDATION. */
enum err bill_by_arg(struct op *op, enum bill_by *ret_by);
/* Writes "by" and "groups" of the bill; st: as it was closed, NULL: it is open. */
enum err bill_by_write(struct op *op, const struct books *b, const struct period *month,
                       const struct statement_row *st, enum bill_by by);
