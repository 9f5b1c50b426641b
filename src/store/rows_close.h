/* rows_close.h: rows of closed months and invoices (migration 0006). Used by app/close*.c and
 * app/invoice*.c. As in store.h: ERR_OK, ERR_NOT_FOUND for a missing single row, ERR_STORE; lists
 * are the caller's (vec_fini). Nothing here decides anything. */
#pragma once

#include "domain/bill.h"
#include "store/rows_money.h"

#define CLOSE_ID_SIZE LEDGER_KEY_SIZE
#define COUNTRY_SIZE 3
#define TAX_CLASS_SIZE 32
#define NUMBER_SIZE 48

struct close_state {
    struct id project;
    int64_t until_s; /* closed up to here: the begin of the first open month … */
    int64_t year;    /* … which is this one */
    int32_t month;
};
enum err close_state_get(struct store *s, struct id project, struct close_state *ret_c);
enum err close_state_save(struct store *s, const struct close_state *c);

/* The last change of a project's billing zone: before holds up to since_s. */
struct zone_change {
    struct id project;
    char before[NAME_SIZE], zone[NAME_SIZE];
    int64_t since_s;
};
enum err zone_change_get(struct store *s, struct id project, struct zone_change *ret_c);
enum err zone_change_save(struct store *s, const struct zone_change *c);

struct tax_rule_row {
    char country[COUNTRY_SIZE], prefix[MONEY_SKU_SIZE];
    int64_t from_s;
    char class[TAX_CLASS_SIZE];
    int64_t n, d;
    bool inclusive;
};
struct tax_rule_list {
    struct tax_rule_row *at;
    size_t len, cap;
};
enum err tax_rule_add(struct store *s, const struct tax_rule_row *r);
enum err tax_rule_list_all(struct store *s, struct tax_rule_list *ret_l); /* by key */

struct party_row {
    char project[ID_SIZE]; /* "": the seller */
    char name[TEXT_SIZE], tax_id[NAME_SIZE], address[TEXT_SIZE], country[COUNTRY_SIZE];
    bool business, id_valid;
    utime_t id_checked_ms; /* 0: never */
    char id_note[TEXT_SIZE];
};
/* Missing: all empty. */
enum err party_get(struct store *s, const char *project, struct party_row *ret_p);
enum err party_save(struct store *s, const struct party_row *p);

struct statement_row {
    char id[CLOSE_ID_SIZE];
    struct id project;
    int64_t year;
    int32_t month;
    char zone[NAME_SIZE];
    int64_t from_s, to_s;
    char currency[CURRENCY_SIZE];
    int64_t minor_u;
    char series[NUMBER_SIZE];
    int64_t seq;
    char number[NUMBER_SIZE];
    utime_t closed_ms;
    int64_t journal; /* seq of the last transfer before the close's own */
    int64_t line_count, total_u, residue_u, lines_minor, net_minor, tax_minor, payable_minor;
    char seller[COUNTRY_SIZE], buyer[COUNTRY_SIZE];
    bool business, id_valid;
    char category[4], reason[TEXT_SIZE]; /* of the tax */
    bool simulated, closed;
};
struct statement_list {
    struct statement_row *at;
    size_t len, cap;
};
enum err statement_get(struct store *s, const char *id, struct statement_row *ret_s);
enum err statement_save(struct store *s, const struct statement_row *r);
enum err statement_list(struct store *s, struct id project, struct statement_list *ret_l);
/* The highest number of a series; 0: none. */
enum err statement_last(struct store *s, const char *series, int64_t *ret_seq);

/* The end of the latest month that any project closed; 0: none. */
enum err statement_newest(struct store *s, int64_t *ret_to_s);

struct line_row {
    char statement[CLOSE_ID_SIZE];
    int64_t n;
    enum line_kind kind;
    char source[LEDGER_KEY_SIZE], subject[LEDGER_KEY_SIZE], subject_name[NAME_SIZE];
    int32_t meter; /* enum meter; METER_NONE: none */
    char sku[MONEY_SKU_SIZE];
    struct id price;
    int64_t qty_from, qty_to, amount_u, printed_minor;
    int32_t tax_group;
    int64_t from_s, to_s, year;
    int32_t month;
    bool simulated;
};
enum err line_add(struct store *s, const struct line_row *l);
typedef enum err line_fn(void *user, const struct line_row *l);
enum err line_each(struct store *s, const char *statement, line_fn *fn, void *user);
/* The first line of a source. */
enum err line_of_source(struct store *s, const char *statement, const char *source,
                        struct line_row *ret_l);
/* What statements have taken of a source so far. */
enum err line_billed(struct store *s, const char *source, int64_t *ret_u);

struct line_sum {
    enum line_kind kind;
    char sku[MONEY_SKU_SIZE];
    int32_t tax_group, meter;
    int64_t lines, qty, printed_minor;
};
struct line_sum_list {
    struct line_sum *at;
    size_t len, cap;
};
/* Lines by tax group, kind and SKU. */
enum err line_sums(struct store *s, const char *statement, struct line_sum_list *ret_l);

struct statement_tax_row {
    char statement[CLOSE_ID_SIZE];
    int32_t n;
    char country[COUNTRY_SIZE], class[TAX_CLASS_SIZE], category[4];
    int64_t rate_n, rate_d;
    bool inclusive;
    int64_t base_minor, net_minor, tax_minor, gross_minor;
};
struct statement_tax_list {
    struct statement_tax_row *at;
    size_t len, cap;
};
enum err statement_tax_add(struct store *s, const struct statement_tax_row *r);
enum err statement_tax_list(struct store *s, const char *statement,
                            struct statement_tax_list *ret_l);

struct late_row {
    char rating_window[LEDGER_KEY_SIZE];
    struct id project;
    int64_t year;
    int32_t month;
    int64_t qty_from, qty_to, amount_u, from_s, to_s;
    utime_t received_ms;
};
struct late_list {
    struct late_row *at;
    size_t len, cap;
};
enum err late_get(struct store *s, const char *window, int64_t year, int month,
                  struct late_row *ret_l);
enum err late_save(struct store *s, const struct late_row *l);
enum err late_list_month(struct store *s, struct id project, int64_t year, int month,
                         struct late_list *ret_l);

/* The windows of a month in the order of a bill, one by one. */
typedef enum err window_fn(void *user, const struct window_row *w);
enum err window_each(struct store *s, struct id project, int64_t year, int month, window_fn *fn,
                     void *user);
/* Something that a month's bill takes, rated and not posted: id of its window, or ""; what no lease
 * pays for first. */
enum err window_unposted(struct store *s, struct id project, int64_t year, int month,
                         char ret_id[LEDGER_KEY_SIZE]);
/* The first second of a project that a bill has: of usage or of a purchase; INT64_MAX: none. */
enum err billed_first(struct store *s, struct id project, int64_t *ret_s);

/* Who paid [from_u, to_u) of what a window has cost so far (its charges in the order of the journal
 * follow its quantity), and what it was posted to. What a lease's hold paid came through its terms
 * account; with resolve_terms the sources of a term are told off against its windows in the order
 * of the journal, so their sums are exact. */
struct charge_source {
    char dr[LEDGER_KEY_SIZE], cr[LEDGER_KEY_SIZE];
    int64_t amount_u;
};
struct charge_source_list {
    struct charge_source *at;
    size_t len, cap;
};
enum err charge_source_list(struct store *s, const char *window, int64_t from_u, int64_t to_u,
                            bool resolve_terms, struct charge_source_list *ret_l);
/* Did vouchers or gifts ever belong to the project? */
enum err charge_gifted(struct store *s, struct id project, bool *ret_yes);

/* What was bought at once in [from, to) ms, less what came back of it by then. */
struct purchase_line {
    char id[ID_SIZE], account[LEDGER_KEY_SIZE];
    utime_t at;
    int64_t amount_u;
};
struct purchase_line_list {
    struct purchase_line *at;
    size_t len, cap;
};
enum err purchase_line_list(struct store *s, struct id project, utime_t from_ms, utime_t to_ms,
                            struct purchase_line_list *ret_l);
/* What came back in [from, to) of what was bought before it. */
enum err purchase_back_list(struct store *s, struct id project, utime_t from_ms, utime_t to_ms,
                            struct purchase_line_list *ret_l);
/* What a purchase cost when it was bought, and all that ever came back of it. */
enum err purchase_paid(struct store *s, const char *purchase, int64_t *ret_u);
enum err purchase_back(struct store *s, const char *purchase, int64_t *ret_u);
/* Its vouchers and gifts (dr: the account, amount: what stayed spent). */
enum err purchase_credits(struct store *s, const char *purchase, utime_t to_ms,
                          struct charge_source_list *ret_l);

/* What was put on the tab for months after a statement's. */
enum err receivable_later(struct store *s, const char *account, const struct statement_row *st,
                          int64_t *ret_u);
/* The last transfer of the journal; 0: none. */
enum err journal_last(struct store *s, int64_t *ret_seq);

/* kind 0: invoice, 1: credit note */
struct invoice_row {
    char number[NUMBER_SIZE], series[NUMBER_SIZE];
    int64_t seq;
    int32_t kind;
    struct id project;
    char statement[CLOSE_ID_SIZE], prev[NUMBER_SIZE], reason[NAME_SIZE], currency[CURRENCY_SIZE];
    utime_t issued_ms;
    int64_t net_minor, tax_minor, payable_minor;
};
struct invoice_list {
    struct invoice_row *at;
    size_t len, cap;
};
/* document: the JSON that was issued. */
enum err invoice_add(struct store *s, const struct invoice_row *r, const char *document);
enum err invoice_get(struct store *s, const char *number, struct invoice_row *ret_r);
enum err invoice_document(struct store *s, const char *number, char **ret_text); /* owned */
/* Of a project (or all: ""), newest first; of a statement, in order; credit notes of an invoice. */
enum err invoice_list(struct store *s, const char *project, struct invoice_list *ret_l);
enum err invoice_of_statement(struct store *s, const char *statement, struct invoice_list *ret_l);
enum err invoice_credits(struct store *s, const char *number, struct invoice_list *ret_l);
enum err invoice_last(struct store *s, const char *series, int64_t *ret_seq);
struct invoice_tax_row {
    char invoice[NUMBER_SIZE];
    int32_t n; /* of the statement's group */
    int64_t net_minor, tax_minor, gross_minor;
};
struct invoice_tax_list {
    struct invoice_tax_row *at;
    size_t len, cap;
};
enum err invoice_tax_add(struct store *s, const struct invoice_tax_row *r);
enum err invoice_tax_list(struct store *s, const char *number, struct invoice_tax_list *ret_l);

/* "" when the gateway gave none yet. */
enum err gateway_get(struct store *s, const char *number, char ret_no[NAME_SIZE]);
/* The invoice that a gateway number belongs to, or "". */
enum err gateway_owner(struct store *s, const char *gateway_no, char ret_number[NUMBER_SIZE]);
enum err gateway_add(struct store *s, const char *number, const char *gateway_no, utime_t now);

/* I20–I23 of money.md 1.11, as money_laws. */
extern const struct money_law close_laws[];
extern const size_t close_law_count;
