/* bill_check_int.h: between bill_check*.c. */
#pragma once

#include "base/vec.h"
#include "cli/bill_check.h"

struct span_ms {
    utime_t from, to;
};
struct spans_ms {
    struct span_ms *at;
    size_t len, cap;
};

struct check_price {
    char sku[48];
    struct price_version v;
};
struct check_key {
    int64_t n;
    utime_t since_ms;
    unsigned char key[SIGN_KEY_SIZE];
};
struct check_lease {
    struct id id, instance;
    enum meter meter;
    char sku[48];
    int64_t epoch, per_second, started_s;
    bool exclusive; /* it had its node alone */
    utime_t ready_ms, stop_ms;
    int64_t paid_until_s;
    utime_t reclaimed_ms;  /* the platform took it back; 0: it did not */
    int64_t free_within_s; /* then it costs nothing when it was no longer than that */
    int64_t rx_bytes;
    int64_t tx_bytes;      /* of slices that count */
    struct spans_ms gaps;  /* not heard */
    struct spans_ms cover; /* what slices prove, sorted and merged when the lease is over */
};
struct check_window {
    char id[LEDGER_KEY_SIZE];
    struct id subject, instance;
    enum meter meter;
    char sku[48];
    size_t price;
    int64_t qty, rated_u, posted_u, reversed_u; /* as the file says; posted_u: without reversed_u */
    int64_t sum_qty, charged_u;     /* as counted */
    int64_t from_s, to_s;           /* of its spans */
    bool billed, back;              /* the statement has a line of it; and one that gives it back */
};
struct check_second { /* seconds of a subject that some window has */
    struct id subject;
    bool node; /* of having a node alone: beside the cards */
    int64_t from_s, to_s, line;
};
struct check_account {
    char id[LEDGER_KEY_SIZE];
    int64_t opening_u, closing_u, balance_u;
};

/* A closed month. */
#define CHECK_TAXES_MAX 16
struct check_line {
    enum line_kind kind;
    char source[LEDGER_KEY_SIZE];
    struct id price;
    int64_t n, tax, line;
    int64_t qty_from, qty_to, amount_u, printed_minor, from_s, to_s;
    int64_t from_u;   /* what the window cost before */
    int64_t before_u; /* what the journal had charged before the file's first row */
};
struct check_tax {
    struct tax_rate rate;
    bool inclusive;
    char account[LEDGER_KEY_SIZE];
    int64_t base_minor;
    struct tax_group g;
    int64_t line, sum_minor, moved_u; /* as counted */
};
struct check_invoice {
    char number[NAME_SIZE];
    int64_t net_minor, tax_minor, rest_minor;
    bool mistake; /* taken back as one */
};
struct check_statement {
    bool here, strange; /* strange: the close moved what no close moves */
    char id[LEDGER_KEY_SIZE], category[8];
    struct tax_sale sale;
    int64_t minor_u, lines, total_u, residue_u, lines_minor, net_minor, tax_minor, payable_minor;
    int64_t back_u; /* residue that the journal gave back */
};
struct check_charge { /* a charge of the journal: posted to a window, or by a source of a term */
    char owner[LEDGER_KEY_SIZE], dr[LEDGER_KEY_SIZE], group[LEDGER_KEY_SIZE];
    int64_t seq, amount;
    bool posted;
};
struct check_bought {
    char id[LEDGER_KEY_SIZE];
    int64_t u;
    bool here, billed; /* bought in this month; the statement has a line of it */
};
struct check_part { /* what an account paid: of something bought, or of a tax group */
    char id[LEDGER_KEY_SIZE], account[LEDGER_KEY_SIZE];
    int64_t tax, u;
};

struct bill_check {
    struct bill_counts counts;
    struct bill_said said;
    struct refusal *why; /* of the call in work */
    unsigned char digest[LEDGER_HASH_SIZE], want_head[LEDGER_HASH_SIZE];
    bool wants_head, found_head, ended, has_lease, has_journal;
    int rank;                 /* lines come in the order of their kinds */
    struct zone zone, before; /* before: its months ended with the begin of this one */
    unsigned char *tzif[2];   /* owned; what they borrow */
    bool has_zone, has_before;
    char before_name[ZONE_NAME_SIZE];
    struct id project;
    struct period month;
    struct check_statement st;
    VEC(struct check_line) lines;
    VEC(struct check_tax) taxes;
    VEC(struct check_invoice) invoices;
    VEC(struct check_charge) charges;
    VEC(struct check_bought) bought;
    VEC(struct check_part) parts, credits;
    VEC(struct check_price) prices;
    VEC(struct check_key) keys;
    VEC(struct check_lease) leases;
    VEC(struct check_window) windows;
    VEC(struct check_second) seconds;
    VEC(struct check_account) accounts;
    /* of the lease in work */
    struct spans_ms raw; /* on the clock of the boot in work */
    VEC(struct check_boot_span {
        char boot[40];
        struct span_ms s;
    })
    told;
    char boot[40];
    int64_t boot_key;
    bool has_boot;
    /* of the journal */
    int64_t seq;
    unsigned char chain[LEDGER_HASH_SIZE];
};

/* One line being read: its members in the only order that is right. */
struct check_row {
    struct bill_check *c;
    json_t *o;
    void *at; /* iterator */
    bool bad;
};
const char *row_text(struct check_row *r, const char *key);
int64_t row_i64(struct check_row *r, const char *key);
int64_t row_num(struct check_row *r, const char *key); /* a string of digits */
bool row_flag(struct check_row *r, const char *key);
const json_t *row_array(struct check_row *r, const char *key);
utime_t row_time(struct check_row *r, const char *key); /* null: UTIME_NEVER */
bool row_copy(struct check_row *r, const char *key, char *buf, size_t size);

enum err check_differs(struct bill_check *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* One kind of line each. */
typedef enum err check_kind(struct bill_check *c, struct check_row *r);
check_kind check_lease_line, check_gap_line, check_key_line, check_boot_line, check_slice_line,
    check_window_line, check_span_line, check_journal_line, check_account_line, check_transfer_line,
    check_rows_line, check_day_line, check_statement_line, check_row_line, check_tax_line,
    check_invoice_line;
/* What is only known when all lines of a sort are there. */
enum err check_lease_over(struct bill_check *c);
enum err check_window_over(struct bill_check *c);
enum err check_seconds_over(struct bill_check *c);
enum err check_journal_over(struct bill_check *c);
enum err check_statement_over(struct bill_check *c);
enum err check_close_over(struct bill_check *c); /* after the journal */
/* Windows by id, for the lines and the journal. */
void check_windows_sort(struct bill_check *c);
struct check_window *check_window_find(struct bill_check *c, const char *id);
/* A posted row of the journal, for a closed month; io_own: it belongs to the close. */
enum err check_close_transfer(struct bill_check *c, const struct ledger_transfer *t, bool *io_own);
void check_close_fini(struct bill_check *c);
