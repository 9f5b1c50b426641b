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
    utime_t ready_ms, stop_ms;
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
    int64_t qty, rated_u, posted_u; /* as the file says */
    int64_t sum_qty, charged_u;     /* as counted */
};
struct check_second { /* seconds of a subject that some window has */
    struct id subject;
    int64_t from_s, to_s, line;
};
struct check_account {
    char id[LEDGER_KEY_SIZE];
    int64_t opening_u, closing_u, balance_u;
};

struct bill_check {
    struct bill_counts counts;
    struct bill_said said;
    struct refusal *why; /* of the call in work */
    unsigned char digest[LEDGER_HASH_SIZE], want_head[LEDGER_HASH_SIZE];
    bool wants_head, found_head, ended, has_lease, has_journal;
    int rank; /* lines come in the order of their kinds */
    struct zone zone;
    unsigned char *tzif; /* owned; what zone borrows */
    bool has_zone;
    char zone_name[ZONE_NAME_SIZE];
    struct period month;
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
    check_rows_line, check_day_line;
/* What is only known when all lines of a sort are there. */
enum err check_lease_over(struct bill_check *c);
enum err check_window_over(struct bill_check *c);
enum err check_seconds_over(struct bill_check *c);
enum err check_journal_over(struct bill_check *c);
