/* bill.h: from rated windows to a bill that adds up (money.md 1.4).
 *
 * Money leaves micro-units once a month: payable = ⌊Σu/m⌋ minor units, the residue goes back as its
 * own row, printed line amounts by largest remainder so that they add up to payable. Pure. */
#pragma once

#include "domain/calendar.h"
#include "domain/price.h"
#include "domain/types.h"

/* Lines of a bill, in the order in which it has them. */
enum line_kind {
    LINE_USAGE,      /* of a window */
    LINE_CORRECTION, /* usage of a closed month that came late */
    LINE_CHARGE,     /* bought at once */
    LINE_CREDIT,     /* what a voucher or gift paid; below zero */
    LINE_REVERSAL,   /* a window given back whole; below zero */
};
#define LINE_KIND_COUNT (LINE_REVERSAL + 1)
const char *line_kind_name(enum line_kind k); /* "usage" */
bool line_kind_find(const char *name, enum line_kind *ret_k);

/* One window of a bill: what was used, at which price version, and why it costs what it costs. */
struct bill_line {
    struct id subject; /* instance, disk, account */
    enum meter meter;
    struct id price; /* price version */
    struct rate rate;
    struct currency ccy;
    char unit[16]; /* "card-s", "MiB-s", "B" */
    int64_t from_s, to_s;
    int64_t qty_from, qty_to;
    int64_t amount_u; /* F(qty_to) − F(qty_from) */
    int64_t period_year;
    int period_month;
};
#define BILL_FORMULA_SIZE 640

/* Sets amount_u from rate and quantities. */
enum err bill_rate(struct bill_line *l);
/* "floor((43200 card-s x 1980000) / 3600) = 23760000 u = 23.76 CNY": added up at home as printed.
 */
void bill_formula(const struct bill_line *l, char *buf, size_t size);

struct bill_total {
    int64_t total_u;
    int64_t payable_minor;
    int64_t residue_u;
};
/* Scratch of the two functions below. */
struct bill_share {
    int64_t remainder;
    size_t index;
};
/* Σ lines → payable and residue; ret_minor (n, or NULL) gets the printed amounts. scratch: n. Lines
 * may be negative (credits), the sum may not: ERR_VALIDATION. minor_u: currency_minor_u. */
enum err bill_close(int64_t minor_u, const int64_t *lines_u, size_t n, struct bill_share *scratch,
                    int64_t *ret_minor, struct bill_total *ret_total);
/* The same over lines that nobody keeps in memory, in two passes in the same order: bill_cut_add
 * each line, bill_cut_decide, then bill_cut_line each line for its printed amount. Equal to
 * bill_close for any lines. counts: minor_u cells of the caller, zeroed. */
struct bill_cut {
    int64_t minor_u;
    int64_t *counts; /* borrowed: lines by remainder */
    struct bill_total total;
    int64_t floors;
    int64_t above; /* remainders above it get one more … */
    int64_t ties;  /* … and so many of the next lines whose remainder is it */
};
void bill_cut_init(struct bill_cut *c, int64_t minor_u, int64_t *counts);
enum err bill_cut_add(struct bill_cut *c, int64_t line_u);
/* ERR_VALIDATION: the sum is below zero. */
enum err bill_cut_decide(struct bill_cut *c);
int64_t bill_cut_line(struct bill_cut *c, int64_t line_u);
/* Splits total into parts proportional to weights by largest remainder, ties to the lowest index;
 * Σ parts = total. total and weights >= 0. All weights 0: the first takes all. */
enum err bill_split(int64_t total, const int64_t *weights, size_t n, struct bill_share *scratch,
                    int64_t *ret_parts);

/* Where usage that began at usage_s and arrived at received_s is booked: in its own month until
 * that month is closed (closed_s; INT64_MAX: still open), else in the month it arrived in, at the
 * earliest the one after its own, as a correction that keeps its charge period. */
#define BILL_COLLECT_S (72 * 3600)
struct bill_slot {
    struct period period;
    bool correction;
};
void bill_slot_for(const struct zone *z, int64_t usage_s, int64_t received_s, int64_t closed_s,
                   struct bill_slot *ret_slot);
