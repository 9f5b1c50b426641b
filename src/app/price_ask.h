/* price_ask.h: what an operator asks of the price book, read and held against what it reaches. */
#pragma once

#include "app/op_money.h"
#include "domain/plan.h"

/* SKU, unit, price, tiers, cap, refund rule and first second of a request; a new id.
 * ERR_VALIDATION, ERR_CURRENCY. */
enum err price_ask_read(struct op *op, struct price_row *ret_row);

/* What a price would do. */
struct price_reach {
    struct rate before; /* what a new start pays until then */
    int64_t before_unit_u;
    bool follows;             /* before is set */
    int64_t leases, projects; /* running leases (or disks) that it will bind, and their projects */
    int64_t binds_s; /* the first second at which it binds one that runs; INT64_MAX: never */
};
/* row: not in the book yet, or in it. counted: looks at what runs; else binds_s is that of a lease
 * that ran when the price was announced. ERR_TOO_LARGE: its book is full. */
enum err price_reach_of(struct op *op, const struct price_row *row, bool counted,
                        struct price_reach *ret_r);
/* A second operator has to agree: the change is above what the configuration lets one do. */
bool price_needs_second(const struct op *op, const struct price_row *row,
                        const struct price_reach *reach);
