/* tax.h: tax per group of one (jurisdiction, rate), half up on the minor unit (money.md 1.4).
 *
 * Price without tax: base = Σ printed lines of the group, tax = half_up(base·n/d), gross = base +
 * tax. Price with tax inside: net = half_up(gross·d/(d+n)), tax = gross − net, never rounded on its
 * own. Amounts are whole minor units, >= 0. Pure. */
#pragma once

#include "domain/bill.h"

struct tax_rate {
    int64_t n, d; /* 6 % = 6/100; n >= 0, d > 0 */
};
struct tax_group {
    int64_t net_minor, tax_minor, gross_minor;
};
/* half_up(a·n/d), away from zero. */
enum err tax_half_up(int64_t a, int64_t n, int64_t d, int64_t *ret_v);
/* amount is the gross when inclusive, else the net. */
enum err tax_of(int64_t amount_minor, struct tax_rate rate, bool inclusive,
                struct tax_group *ret_group);
/* The same for an amount of any sign: one below zero is the mirror of the same above it. */
enum err tax_of_signed(int64_t amount_minor, struct tax_rate rate, bool inclusive,
                       struct tax_group *ret_g);
/* Net of each printed line of an inclusive group, adding up to the group's net (largest remainder).
 */
enum err tax_line_nets(const int64_t *gross_minor, size_t n, int64_t net_minor,
                       struct bill_share *scratch, int64_t *ret_net_minor);

/* Which treatment a sale gets. Countries are ISO 3166 codes ("" unknown). */
enum tax_category {
    TAX_STANDARD, /* "S" */
    TAX_REVERSE,  /* "AE": the buyer, a business in another member state, accounts for it */
    TAX_ZERO,     /* "Z": the rate is 0 */
    TAX_OUTSIDE,  /* "O": a business outside the union */
};
struct tax_sale {
    char seller[3], buyer[3];
    bool business, vat_id_valid;
};
struct tax_decision {
    enum tax_category category;
    struct tax_rate rate;
    bool vat_id_refused; /* a business abroad without a valid id is taxed, and told why */
};
struct tax_decision tax_decide(const struct tax_sale *sale, struct tax_rate rate);
const char *tax_category_code(enum tax_category c);
bool tax_in_union(const char *country);

/* A quote and a bill: the same lines through the same arithmetic (I24). Lines in µ are cut to whole
 * minor units as a sum, then taxed as one group. ret_minor: printed line amounts, or NULL. */
struct tax_bill {
    struct bill_total total;
    struct tax_group tax;
};
enum err tax_bill(int64_t minor_u, const int64_t *lines_u, size_t n, struct tax_rate rate,
                  bool inclusive, struct bill_share *scratch, int64_t *ret_minor,
                  struct tax_bill *ret_b);
