/* bill_check.h: counts a bill file again, offline (docs/bill-file.md). Fed line by line, it
 * recomputes checksums, signatures, seconds, windows, charges, the journal's chain, balances and
 * totals with the functions of src/domain, and stops at the first line that differs.
 *
 * No I/O, no clock. The file is foreign bytes: everything in it is checked before it is used. */
#pragma once

#include "base/json.h"
#include "base/sign.h"
#include "domain/calendar.h"
#include "domain/ledger.h"
#include "domain/price.h"
#include "domain/tax.h"
#include "domain/types.h"

#define BILL_LINE_MAX ((size_t)1 << 20)

struct bill_counts {
    int64_t lines, leases, slices, unsigned_slices, windows, transfers, others, days;
    int64_t rated_u, posted_u;
    int64_t head_day; /* the last final day head; its hash */
    char head[2 * LEDGER_HASH_SIZE + 1];
};
struct bill_said { /* what the file says of itself */
    char project[NAME_SIZE], month[16], zone[ZONE_NAME_SIZE];
    char key[SIGN_KEY_TEXT];
    struct currency ccy;
    bool open;
    int64_t cut_s;
    char number[NAME_SIZE]; /* of the statement; "": the month is not closed */
    int64_t payable_minor, minor_u; /* minor_u: of one of them */
    int64_t statement_lines;
};

struct bill_check;
/* want_head: hex of a published daily head that must be in the chain; NULL: any. */
struct bill_check *bill_check_new(const char *want_head);
void bill_check_free_ptr(struct bill_check **c);
#define AUTO_BILL_CHECK CLEANUP(bill_check_free_ptr)
/* One line without its end. ERR_BILL_DIFFERS (line, why: in the language of tr()). */
enum err bill_check_line(struct bill_check *c, const char *text, size_t len, struct refusal *why);
/* The file is over: whole? */
enum err bill_check_finish(struct bill_check *c, struct refusal *why);
const struct bill_counts *bill_check_counts(const struct bill_check *c);
const struct bill_said *bill_check_said(const struct bill_check *c);
