/* rows_revenue.h: what the journal moved in and out of the platform's revenue. Read only. */
#pragma once

#include "store/rows_money.h"

/* Transfers of one sort in one revenue account ("revenue.*", "breakage.*"). */
struct revenue_row {
    char account[LEDGER_KEY_SIZE], currency[LEDGER_KEY_SIZE];
    char kind[24];    /* of the transfers */
    char owner[8];    /* how their owners' ids begin: "pln_"; of others: whatever stands there */
    int32_t meter;    /* of the window they charge; METER_NONE: of none */
    bool spot;        /* … at the spot price */
    int64_t u, count; /* in less out */
};
struct revenue_list {
    struct revenue_row *at;
    size_t len, cap;
};
/* Booked in [from, to); by account. */
enum err revenue_row_list(struct store *s, utime_t from_ms, utime_t to_ms,
                          struct revenue_list *ret_l);
