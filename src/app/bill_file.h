/* bill_file.h: the lines of a bill file (docs/bill-file.md): what a renter keeps to count his bill
 * again at home. Each line is one canonical JSON object whose last member is the running checksum
 * over everything before it; the last line carries the platform's seal over all. Reader. */
#pragma once

#include "app/close.h"
#include "store/rows_plan.h"
#include "store/rows_proof.h"

#define BILL_SUM_TEXT 17 /* 16 hex digits and NUL */

struct bill_file {
    struct store *store;      /* borrowed */
    struct json_writer *json; /* borrowed; its buffer takes the lines */
    struct books b;
    struct project project;
    struct period month;
    int64_t cut_s;               /* everything used before it is in the file, nothing after */
    int64_t seq_to;              /* journal rows up to here */
    int64_t seq_before;          /* the row before the first, once the statement is written */
    struct statement_row st;     /* closed false: the month is not closed */
    struct account_ids accounts; /* owned: of the project */
    bool open;                   /* more may come: usage of this month, or charges of it */
    /* where the file is, carried from page to page */
    int64_t lines, windows, rated_u, posted_u;
    unsigned char digest[LEDGER_HASH_SIZE];
    size_t line_at; /* where the line in work begins */
};

/* Line by line. */
void bill_line_begin(struct bill_file *f, const char *kind);
void bill_line_finish(struct bill_file *f);
void bill_num(struct bill_file *f, const char *key, int64_t v); /* as a string: any 64 bits */

/* What the file says of itself, the zone, the prices. */
enum err bill_file_head(struct bill_file *f);
/* One lease with its slices from from_ms on, until the page is full: ret_next is where to go on,
 * or -1. */
struct bill_boot {
    char boot[40];
    int64_t key;
};
enum err bill_file_lease(struct bill_file *f, struct id lease, utime_t from_ms,
                         struct bill_boot *io_boot, utime_t *ret_next);
/* All windows with their spans, accounts; what the journal begins with. */
enum err bill_file_windows(struct bill_file *f);
enum err bill_file_accounts(struct bill_file *f, int64_t *ret_seq);
/* The statement of a closed month, its lines and taxes, what was invoiced of it; nothing while the
 * month is open. */
enum err bill_file_statement(struct bill_file *f);
/* Adds the windows of earlier months that the statement corrects. */
enum err bill_file_corrected(struct bill_file *f, struct window_list *io_l);
/* Rows of the journal from seq on; ret_next: 0 when all are there. */
enum err bill_file_rows(struct bill_file *f, int64_t seq, int64_t *ret_next);
enum err bill_file_finish(struct bill_file *f);
#define BILL_PAGE_BYTES (1 << 20)
bool bill_page_full(const struct bill_file *f);
