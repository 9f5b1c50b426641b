/* bill_by.h: the same month in other cuts. The groups add up to the month's total. Reader. */
#pragma once

#include "app/op_money.h"

enum bill_by { BILL_BY_NONE, BILL_BY_PROJECT, BILL_BY_GPU, BILL_BY_USER, BILL_BY_DAY };
/* The word of the query "by". ERR_VALIDATION. */
enum err bill_by_arg(struct op *op, enum bill_by *ret_by);
/* Writes "by" and "groups" of the bill. */
enum err bill_by_write(struct op *op, const struct books *b, const struct period *month,
                       enum bill_by by);
