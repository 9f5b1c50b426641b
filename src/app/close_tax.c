/* close_tax.c: which rate a SKU is sold at, to whom, and why. */
#include "app/close.h"

#include "base/msg.h"

static const struct {
    const char *code, *text;
} reasons[] = {
    [TAX_REASON_NONE] = {"no_rule", N_("no tax rule is set")},
    [TAX_REASON_DOMESTIC] = {"domestic", N_("the rate of the seller's country")},
    [TAX_REASON_DESTINATION] = {"destination", N_("a consumer in another member state: the rate "
                                                  "of his country")},
    [TAX_REASON_NO_RULE_THERE] = {"no_rule_there", N_("no rule is set for the buyer's country: the "
                                                      "rate of the seller's country")},
    [TAX_REASON_REVERSE] = {"reverse_charge", N_("reverse charge: the buyer accounts for the tax")},
    [TAX_REASON_OUTSIDE] = {"outside", N_("a business outside the union: not subject to tax "
                                          "here")},
    [TAX_REASON_ID_REFUSED] = {"id_not_valid", N_("a business abroad whose tax id was not found "
                                                  "valid is taxed like a consumer")},
};

const char *tax_reason_code(enum tax_reason r)
{
    CHECK((size_t)r < ARRAY_LEN(reasons));
    return reasons[r].code;
}

const char *tax_reason_text(const char *code)
{
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (str_eq(reasons[i].code, code))
            return reasons[i].text;
    return "";
}

enum err tax_book_open(struct store *s, struct id project, int64_t at_s, struct tax_book *ret_t)
{
    *ret_t = (struct tax_book){.at_s = at_s};
    TRY(party_get(s, "", &ret_t->seller));
    TRY(party_get(s, project.s, &ret_t->buyer));
    return tax_rule_list_all(s, &ret_t->rules);
}

void tax_book_fini(struct tax_book *t)
{
    vec_fini(&t->rules);
}

/* The longest prefix wins, of one prefix the latest that holds. */
static const struct tax_rule_row *rule_of(const struct tax_book *t, const char *country,
                                          const char *sku)
{
    const struct tax_rule_row *best = NULL;

    for (size_t i = 0; i < t->rules.len; i++) {
        const struct tax_rule_row *r = &t->rules.at[i];

        if (!str_eq(r->country, country) || !str_starts(sku, r->prefix) || r->from_s > t->at_s)
            continue;
        if (!best || strlen(r->prefix) >= strlen(best->prefix))
            best = r;
    }
    return best;
}

static enum tax_reason reason_of(const struct tax_decision *d, bool destination, bool found_there)
{
    if (d->vat_id_refused)
        return TAX_REASON_ID_REFUSED;
    if (d->category == TAX_REVERSE)
        return TAX_REASON_REVERSE;
    if (d->category == TAX_OUTSIDE)
        return TAX_REASON_OUTSIDE;
    if (destination)
        return found_there ? TAX_REASON_DESTINATION : TAX_REASON_NO_RULE_THERE;
    return TAX_REASON_DOMESTIC;
}

/* The group without number and amounts, and why. */
static enum tax_reason decide(const struct tax_book *t, const char *sku,
                              struct statement_tax_row *ret_g)
{
    const char *seller = t->seller.country;
    const char *buyer = t->buyer.country[0] ? t->buyer.country : seller;
    struct tax_sale sale = {.business = t->buyer.business, .vat_id_valid = t->buyer.id_valid};
    bool destination =
        !sale.business && !str_eq(seller, buyer) && tax_in_union(seller) && tax_in_union(buyer);
    const struct tax_rule_row *there = destination ? rule_of(t, buyer, sku) : NULL;
    const struct tax_rule_row *rule = there ? there : rule_of(t, seller, sku);
    struct tax_decision d;
    bool ok = str_copy(sale.seller, sizeof(sale.seller), seller) &&
              str_copy(sale.buyer, sizeof(sale.buyer), buyer);

    CHECK(ok);
    d = tax_decide(&sale, rule ? (struct tax_rate){rule->n, rule->d} : (struct tax_rate){0, 1});
    *ret_g = (struct statement_tax_row){
        .rate_n = d.rate.n, .rate_d = d.rate.d, .inclusive = rule ? rule->inclusive : true};
    ok = str_copy(ret_g->country, sizeof(ret_g->country), rule ? rule->country : seller) &&
         str_copy(ret_g->class, sizeof(ret_g->class), rule ? rule->class : "") &&
         str_copy(ret_g->category, sizeof(ret_g->category), tax_category_code(d.category));
    CHECK(ok);
    return rule ? reason_of(&d, destination, there != NULL) : TAX_REASON_NONE;
}

static bool same_group(const struct statement_tax_row *a, const struct statement_tax_row *b)
{
    return str_eq(a->country, b->country) && str_eq(a->class, b->class) &&
           str_eq(a->category, b->category) && a->rate_n == b->rate_n && a->rate_d == b->rate_d &&
           a->inclusive == b->inclusive;
}

enum err tax_book_group(struct tax_book *t, const char *sku, int32_t *ret_group,
                        struct refusal *why)
{
    struct statement_tax_row g;
    enum tax_reason reason = decide(t, sku, &g);

    t->reason = MAX(t->reason, reason);
    for (int32_t i = 0; i < t->group_count; i++)
        if (same_group(&t->groups[i], &g)) {
            *ret_group = i;
            return ERR_OK;
        }
    if (t->group_count == TAX_GROUPS_MAX) {
        (void)refusef(why, ERR_TOO_LARGE, "what", "%s", "the number of tax groups");
        refusal_setf(why, "max", "%d", TAX_GROUPS_MAX);
        return ERR_TOO_LARGE;
    }
    g.n = t->group_count;
    t->groups[t->group_count] = g;
    *ret_group = t->group_count++;
    return ERR_OK;
}
