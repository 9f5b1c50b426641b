#include "domain/tax.h"

enum err tax_half_up(int64_t a, int64_t n, int64_t d, int64_t *ret_v)
{
    if (d <= 0 || n < 0)
        return ERR_VALIDATION;
    unsigned __int128 abs = a < 0 ? (unsigned __int128)(-(__int128)a) : (unsigned __int128)a;
    unsigned __int128 v = (2 * (abs * (uint64_t)n) + (uint64_t)d) / (2 * (unsigned __int128)d);

    if (v > INT64_MAX)
        return ERR_MONEY_RANGE;
    *ret_v = a < 0 ? -(int64_t)v : (int64_t)v;
    return ERR_OK;
}

enum err tax_of(int64_t amount_minor, struct tax_rate rate, bool inclusive,
                struct tax_group *ret_group)
{
    struct tax_group g = {.net_minor = amount_minor, .gross_minor = amount_minor};
    int64_t with_tax;

    if (rate.n < 0 || rate.d <= 0 || amount_minor < 0)
        return ERR_VALIDATION;
    if (inclusive) {
        TRY(micro_add(rate.d, rate.n, &with_tax));
        TRY(tax_half_up(amount_minor, rate.d, with_tax, &g.net_minor));
        g.tax_minor = g.gross_minor - g.net_minor;
    } else {
        TRY(tax_half_up(amount_minor, rate.n, rate.d, &g.tax_minor));
        TRY(micro_add(g.net_minor, g.tax_minor, &g.gross_minor));
    }
    *ret_group = g;
    return ERR_OK;
}

enum err tax_of_signed(int64_t amount_minor, struct tax_rate rate, bool inclusive,
                       struct tax_group *ret_g)
{
    struct tax_group g;

    if (amount_minor >= 0)
        return tax_of(amount_minor, rate, inclusive, ret_g);
    if (amount_minor == INT64_MIN)
        return ERR_MONEY_RANGE;
    TRY(tax_of(-amount_minor, rate, inclusive, &g));
    *ret_g = (struct tax_group){-g.net_minor, -g.tax_minor, -g.gross_minor};
    return ERR_OK;
}

enum err tax_line_nets(const int64_t *gross_minor, size_t n, int64_t net_minor,
                       struct bill_share *scratch, int64_t *ret_net_minor)
{
    return bill_split(net_minor, gross_minor, n, scratch, ret_net_minor);
}

bool tax_in_union(const char *country)
{
    static const char *const members[] = {
        "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "EL", "ES", "FI", "FR", "GR", "HR",
        "HU", "IE", "IT", "LT", "LU", "LV", "MT", "NL", "PL", "PT", "RO", "SE", "SI", "SK"};

    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (strcmp(members[i], country) == 0)
            return true;
    return false;
}

struct tax_decision tax_decide(const struct tax_sale *sale, struct tax_rate rate)
{
    struct tax_decision d = {.category = rate.n == 0 ? TAX_ZERO : TAX_STANDARD, .rate = rate};
    bool abroad = sale->seller[0] && sale->buyer[0] && strcmp(sale->seller, sale->buyer) != 0;

    if (!sale->business || !abroad || !tax_in_union(sale->seller))
        return d;
    if (!tax_in_union(sale->buyer)) {
        d.category = TAX_OUTSIDE;
        d.rate = (struct tax_rate){0, 1};
    } else if (sale->vat_id_valid) {
        d.category = TAX_REVERSE;
        d.rate = (struct tax_rate){0, 1};
    } else {
        d.vat_id_refused = true;
    }
    return d;
}

const char *tax_category_code(enum tax_category c)
{
    static const char *const codes[] = {"S", "AE", "Z", "O"};

    CHECK((size_t)c < ARRAY_LEN(codes));
    return codes[c];
}

enum err tax_bill(int64_t minor_u, const int64_t *lines_u, size_t n, struct tax_rate rate,
                  bool inclusive, struct bill_share *scratch, int64_t *ret_minor,
                  struct tax_bill *ret_b)
{
    struct tax_bill b;

    TRY(bill_close(minor_u, lines_u, n, scratch, ret_minor, &b.total));
    TRY(tax_of(b.total.payable_minor, rate, inclusive, &b.tax));
    *ret_b = b;
    return ERR_OK;
}
