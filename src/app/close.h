/* close.h: the end of a month (money.md 1.4, 1.6): from rated windows to a statement that never
 * changes.
 *
 * A month of a project's billing zone is closed once, after its collection window of 72 h and in
 * the order of months, when all of it is posted. The statement takes a line per window (subject,
 * meter, price version), a correction per window of an earlier month that usage reached after that
 * month was closed, and a credit for what vouchers and gifts paid. payable = ⌊Σ / m⌋ minor units;
 * the residue goes back to the wallet (抹零); printed lines by largest remainder; tax per group.
 * The caller's savepoint makes it all or nothing. Lines are streamed: memory does not grow with
 * them.
 *
 * As in funds.h: inside the caller's transaction, core thread except what says "reader". */
#pragma once

#include "app/funds_int.h"
#include "domain/tax.h"
#include "store/rows_close.h"

/* ---- tax ---- */

#define TAX_GROUPS_MAX 16
enum tax_reason {
    TAX_REASON_NONE, /* no rule was set: rate 0 */
    TAX_REASON_DOMESTIC,
    TAX_REASON_DESTINATION,   /* a consumer elsewhere in the union: his country's rate */
    TAX_REASON_NO_RULE_THERE, /* … but there is no rule of his country: the seller's rate */
    TAX_REASON_REVERSE,
    TAX_REASON_OUTSIDE,
    TAX_REASON_ID_REFUSED, /* a business abroad whose id is not known to be valid is taxed */
};
struct tax_book {
    struct tax_rule_list rules; /* owned */
    struct party_row seller, buyer;
    int64_t at_s;
    enum tax_reason reason;                          /* of all groups so far */
    struct statement_tax_row groups[TAX_GROUPS_MAX]; /* without amounts */
    int32_t group_count;
};
/* The rules that hold at an instant and both parties as they are now. Reader. */
enum err tax_book_open(struct store *s, struct id project, int64_t at_s, struct tax_book *ret_t);
void tax_book_fini(struct tax_book *t);
/* The group of a SKU, added when it is new. ERR_TOO_LARGE: more than TAX_GROUPS_MAX. */
enum err tax_book_group(struct tax_book *t, const char *sku, int32_t *ret_group,
                        struct refusal *why);
const char *tax_reason_code(enum tax_reason r);
/* An English key of the catalogue; of a code that was stored. */
const char *tax_reason_text(const char *code);
/* "tax.output.CN.6/100.CNY" */
void close_tax_account(const struct statement_tax_row *g, struct currency ccy,
                       char ret_id[LEDGER_KEY_SIZE]);

/* ---- close ---- */

struct close_result {
    enum { CLOSE_DONE, CLOSE_EMPTY, CLOSE_NOT_DUE, CLOSE_WAITS } what;
    struct period month;            /* the month that was looked at */
    struct statement_row statement; /* CLOSE_DONE */
    char waits[LEDGER_KEY_SIZE];    /* CLOSE_WAITS: a window that is not posted yet */
};
/* Closes the first open month of a project when its collection window is over. One month a call:
 * call again until it is CLOSE_NOT_DUE or CLOSE_WAITS. */
enum err close_next(struct store *s, utime_t now, struct id project, struct close_result *ret_r,
                    struct refusal *why);
/* The statement of a month. Reader. ERR_NOT_FOUND: not closed, or nothing was in it. */
enum err close_statement(struct store *s, struct id project, int64_t year, int month,
                         struct statement_row *ret_s);
/* Is that month closed? Reader. */
enum err close_is_closed(struct store *s, struct id project, const struct period *month,
                         bool *ret_closed);
/* A window was raised from qty_from by u, for seconds from from_s on: when its month is closed, the
 * difference is billed in the month that runs now, as a correction (bill_slot_for). */
enum err close_note_late(const struct books *b, const struct window_row *w, int64_t qty_from,
                         int64_t u, int64_t from_s, int64_t to_s);
/* A bill's line of a window; without its number and the subject's name. */
void close_line_of(const struct window_row *w, enum line_kind kind, int64_t qty_from,
                   int64_t qty_to, int64_t u, struct line_row *ret_l);
/* A bill's line of something bought at once. */
void close_line_of_purchase(const struct purchase_line *p, const struct period *month,
                            struct line_row *ret_l);
/* Name of an instance or a disk, or "". Reader. */
enum err close_subject_name(struct store *s, struct id subject, char ret_name[NAME_SIZE]);
