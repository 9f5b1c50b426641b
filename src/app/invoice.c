#include "app/invoice.h"

#include "base/msg.h"
#include "base/units.h"

#include <stdlib.h>

static enum err not_found(struct refusal *why, const char *number)
{
    (void)refusef(why, ERR_NOT_FOUND, "name", "%s", number);
    refusal_set(why, "what", "invoice");
    refusal_set(why, "verb", "invoice ls");
    return ERR_NOT_FOUND;
}

static enum err month_open(const struct period *month, struct refusal *why)
{
    char text[16], until[40];

    period_format(month, text, sizeof(text));
    time_format((month->to_s + BILL_COLLECT_S) * MS_PER_S, until, sizeof(until));
    (void)refusef(why, ERR_MONTH_OPEN, "month", "%s", text);
    refusal_set(why, "until", until);
    return ERR_MONTH_OPEN;
}

static enum err find_statement(struct store *s, const struct books *b, const struct period *month,
                               struct statement_row *ret_st, struct refusal *why)
{
    int64_t first = INT64_MAX;
    bool closed = false;
    char text[16];
    enum err e = close_statement(s, b->project, month->year, month->month, ret_st);

    if (e != ERR_NOT_FOUND && e != ERR_OK)
        return e;
    TRY(close_is_closed(s, b->project, month, &closed));
    TRY(billed_first(s, b->project, &first));
    if (!closed && (b->now_s < month->to_s + BILL_COLLECT_S || first < month->to_s))
        return month_open(month, why);
    period_format(month, text, sizeof(text));
    if (e == ERR_NOT_FOUND || ret_st->payable_minor <= 0)
        return refusef(why, ERR_INVOICE_EMPTY, "month", "%s", text);
    return ERR_OK;
}

/* Repayments pay what is owed longest first, so what is owed now is of the latest charges. */
static enum err unpaid_of(const struct books *b, const char *kind, const struct statement_row *st,
                          int64_t *io_u)
{
    struct ledger_account owed;
    char id[LEDGER_KEY_SIZE];
    int64_t later = 0;

    account_id(id, kind, b->project.s);
    TRY(account_load(b->store, id, b->ccy, &owed));
    if (ledger_balance(&owed) >= 0)
        return ERR_OK;
    TRY(receivable_later(b->store, id, st, &later));
    return micro_add(*io_u, MAX(-ledger_balance(&owed) - later, (int64_t)0), io_u);
}

static enum err check_paid(const struct books *b, const struct statement_row *st,
                           struct refusal *why)
{
    char text[MONEY_TEXT_SIZE + 8], month[16];
    int64_t rest = 0;

    TRY(unpaid_of(b, "receivable", st, &rest));
    TRY(unpaid_of(b, "credit", st, &rest));
    if (rest == 0)
        return ERR_OK;
    money_format_ccy(money_of(rest, b->ccy), text, sizeof(text));
    bool ok = str_printf(month, sizeof(month), "%04" PRId64 "-%02d", st->year, st->month);
    CHECK(ok);
    (void)refusef(why, ERR_INVOICE_UNPAID, "owed", "%s", text);
    refusal_set(why, "month", month);
    return ERR_INVOICE_UNPAID;
}

static enum err check_parties(const struct tax_book *t, struct refusal *why)
{
    const char *missing = !t->seller.name[0]                         ? "seller"
                          : !t->buyer.name[0]                        ? "name"
                          : t->buyer.business && !t->buyer.tax_id[0] ? "tax_id"
                                                                     : NULL;

    return missing ? refusef(why, ERR_PROFILE, "field", "%s", missing) : ERR_OK;
}

/* The treatment the month was closed with, against that of the profile as it is now. */
static enum err check_treatment(struct store *s, const struct statement_row *st,
                                const struct statement_tax_list *groups, struct tax_book *t,
                                struct refusal *why)
{
    struct line_sum_list sums = {0};
    enum err e = line_sums(s, st->id, &sums);
    bool same = true;

    for (size_t i = 0; i < sums.len && e == ERR_OK; i++) {
        const struct statement_tax_row *was = &groups->at[sums.at[i].tax_group], *is;
        int32_t group = 0;

        if (sums.at[i].kind == LINE_CREDIT)
            continue;
        e = tax_book_group(t, sums.at[i].sku, &group, why);
        is = &t->groups[group];
        same = same && str_eq(was->category, is->category) && str_eq(was->country, is->country) &&
               was->rate_n == is->rate_n && was->rate_d == is->rate_d;
    }
    vec_fini(&sums);
    TRY(e);
    if (same)
        return ERR_OK;
    (void)refusef(why, ERR_TAX_CHANGED, "old", "%s", st->reason);
    refusal_set(why, "new", tax_reason_code(t->reason));
    return ERR_TAX_CHANGED;
}

/* The next number of a series; nothing but the insert takes it. */
static enum err number_of(const struct books *b, const char *prefix, struct invoice_row *r)
{
    struct civil c;
    bool ok;

    civil_from(&b->zone, b->now_s, &c);
    ok = str_printf(r->series, sizeof(r->series), "%s-%s-%04" PRId64, prefix, b->ccy.code, c.year);
    CHECK(ok);
    TRY(invoice_last(b->store, r->series, &r->seq));
    r->seq++;
    ok = str_printf(r->number, sizeof(r->number), "%s-%06" PRId64, r->series, r->seq);
    CHECK(ok);
    return ERR_OK;
}

/* taxes: parallel to groups. Number, document and rows of one document. */
static enum err issue(const struct books *b, const struct statement_row *st,
                      const struct statement_tax_list *groups, struct invoice_tax_row *taxes,
                      struct invoice_row *r)
{
    AUTO_STRBUF struct strbuf doc;
    bool ok;

    strbuf_init(&doc, 1 << 20);
    r->project = st->project;
    r->issued_ms = b->now;
    ok = str_copy(r->statement, sizeof(r->statement), st->id) &&
         str_copy(r->currency, sizeof(r->currency), st->currency);
    CHECK(ok);
    for (size_t i = 0; i < groups->len; i++) {
        TRY(micro_add(r->net_minor, taxes[i].net_minor, &r->net_minor));
        TRY(micro_add(r->tax_minor, taxes[i].tax_minor, &r->tax_minor));
        TRY(micro_add(r->payable_minor, taxes[i].gross_minor, &r->payable_minor));
    }
    TRY(number_of(b, r->kind ? "CRN" : "INV", r));
    TRY(invoice_document_write(b->store, r, st, groups, taxes, &doc));
    TRY(invoice_add(b->store, r, strbuf_str(&doc)));
    for (size_t i = 0; i < groups->len; i++) {
        memcpy(taxes[i].invoice, r->number, sizeof(taxes[i].invoice));
        taxes[i].n = groups->at[i].n;
        TRY(invoice_tax_add(b->store, &taxes[i]));
    }
    return ERR_OK;
}

enum err invoice_rest(struct store *s, const struct invoice_row *r, int64_t *ret_minor)
{
    struct invoice_list credits = {0};
    int64_t rest = r->payable_minor;
    enum err e = invoice_credits(s, r->number, &credits);

    for (size_t i = 0; i < credits.len && e == ERR_OK; i++)
        e = micro_add(rest, credits.at[i].payable_minor, &rest);
    vec_fini(&credits);
    *ret_minor = rest;
    return e;
}

static enum err taken_back_as_mistake(struct store *s, const char *number, bool *ret_yes)
{
    struct invoice_list credits = {0};
    enum err e = invoice_credits(s, number, &credits);

    *ret_yes = false;
    for (size_t i = 0; i < credits.len; i++)
        *ret_yes |= str_eq(credits.at[i].reason, "mistake");
    vec_fini(&credits);
    return e;
}

/* The invoice of a statement that stands. ERR_NOT_FOUND: none. */
static enum err standing(struct store *s, const char *statement, struct invoice_row *ret_r)
{
    struct invoice_list all = {0};
    enum err e = invoice_of_statement(s, statement, &all);
    bool found = false;

    for (size_t i = 0; i < all.len && e == ERR_OK && !found; i++) {
        bool mistake = false;

        if (all.at[i].kind != 0)
            continue;
        e = taken_back_as_mistake(s, all.at[i].number, &mistake);
        found = e == ERR_OK && !mistake;
        if (found)
            *ret_r = all.at[i];
    }
    vec_fini(&all);
    return e == ERR_OK && !found ? ERR_NOT_FOUND : e;
}

static enum err issue_new(const struct books *b, const struct statement_row *st,
                          struct tax_book *tax, struct invoice_row *ret_r, struct refusal *why)
{
    struct statement_tax_list groups = {0};
    struct invoice_tax_row taxes[TAX_GROUPS_MAX] = {0};
    struct invoice_row r = {0};
    enum err e = statement_tax_list(b->store, st->id, &groups);

    if (e == ERR_OK)
        e = check_treatment(b->store, st, &groups, tax, why);
    for (size_t i = 0; i < groups.len && e == ERR_OK; i++) {
        taxes[i].net_minor = groups.at[i].net_minor;
        taxes[i].tax_minor = groups.at[i].tax_minor;
        taxes[i].gross_minor = groups.at[i].gross_minor;
    }
    if (e == ERR_OK)
        e = issue(b, st, &groups, taxes, &r);
    vec_fini(&groups);
    if (e == ERR_OK)
        *ret_r = r;
    return e;
}

enum err invoice_issue(struct store *s, utime_t now, struct id project, const struct period *month,
                       struct invoice_row *ret_r, struct refusal *why)
{
    struct statement_row st;
    struct tax_book tax;
    struct books b;

    TRY(books_open(s, now, project, &b, why));
    TRY(find_statement(s, &b, month, &st, why));
    enum err e = standing(s, st.id, ret_r);
    if (e != ERR_NOT_FOUND)
        return e;
    TRY(check_paid(&b, &st, why));
    e = tax_book_open(s, project, st.to_s - 1, &tax);
    if (e == ERR_OK)
        e = check_parties(&tax, why);
    if (e == ERR_OK)
        e = issue_new(&b, &st, &tax, ret_r, why);
    tax_book_fini(&tax);
    return e;
}

/* ---- credit notes ---- */

/* What is left of each group of an invoice; parallel to its groups. */
static enum err rest_of_groups(struct store *s, const char *number,
                               struct invoice_tax_row ret_rest[TAX_GROUPS_MAX], size_t *ret_n)
{
    struct invoice_tax_list own = {0};
    struct invoice_list credits = {0};
    enum err e = invoice_tax_list(s, number, &own);

    CHECK(own.len <= TAX_GROUPS_MAX);
    for (size_t i = 0; i < own.len; i++)
        ret_rest[i] = own.at[i];
    *ret_n = own.len;
    if (e == ERR_OK)
        e = invoice_credits(s, number, &credits);
    for (size_t k = 0; k < credits.len && e == ERR_OK; k++) {
        own.len = 0;
        e = invoice_tax_list(s, credits.at[k].number, &own);
        for (size_t i = 0; i < own.len && e == ERR_OK; i++) {
            ret_rest[i].net_minor += own.at[i].net_minor;
            ret_rest[i].tax_minor += own.at[i].tax_minor;
            ret_rest[i].gross_minor += own.at[i].gross_minor;
        }
    }
    vec_fini(&own);
    vec_fini(&credits);
    return e;
}

/* The part of each group that a credit of amount takes back, below zero; by the groups' rests. The
 * last part of a group takes its whole tax, so that nothing is left of it. */
static enum err split_credit(const struct statement_tax_list *groups,
                             const struct invoice_tax_row *rest, int64_t amount,
                             struct invoice_tax_row *ret_taxes)
{
    int64_t weights[TAX_GROUPS_MAX], parts[TAX_GROUPS_MAX];
    struct bill_share scratch[TAX_GROUPS_MAX];

    for (size_t i = 0; i < groups->len; i++)
        weights[i] = MAX(rest[i].gross_minor, (int64_t)0);
    TRY(bill_split(amount, weights, groups->len, scratch, parts));
    for (size_t i = 0; i < groups->len; i++) {
        struct tax_rate rate = {groups->at[i].rate_n, groups->at[i].rate_d};
        struct tax_group t = {rest[i].net_minor, rest[i].tax_minor, rest[i].gross_minor};

        if (parts[i] != rest[i].gross_minor) {
            TRY(tax_of_signed(parts[i], rate, true, &t));
            t.tax_minor = MIN(t.tax_minor, rest[i].tax_minor);
            t.net_minor = t.gross_minor - t.tax_minor;
        }
        ret_taxes[i] = (struct invoice_tax_row){
            .net_minor = -t.net_minor, .tax_minor = -t.tax_minor, .gross_minor = -t.gross_minor};
    }
    return ERR_OK;
}

static void give_back(const struct books *b, const struct invoice_row *r, const char *from,
                      const char *part, size_t group, int64_t minor, struct ledger_transfer *t)
{
    bool ok;

    *t = transfer_of(b, r->number, "credit");
    t->amount = minor * currency_minor_u(b->ccy);
    ok = str_printf(t->id, sizeof(t->id), "credit.%s.%zu.%s", part, group, r->number) &&
         str_copy(t->owner, sizeof(t->owner), r->number) && str_copy(t->dr, sizeof(t->dr), from);
    CHECK(ok);
    if (str_eq(r->reason, "refunded"))
        account_id(t->cr, "revenue.credit", b->ccy.code);
    else
        account_id(t->cr, "cash", b->project.s);
}

/* The wallet gets back what the credit note says; what was refunded before was paid out of revenue,
 * which gets its tax back. */
static enum err pay_back(const struct books *b, const struct invoice_row *r,
                         const struct statement_tax_list *groups,
                         const struct invoice_tax_row *taxes, struct refusal *why)
{
    struct ledger_transfer g[2 * TAX_GROUPS_MAX];
    char revenue[LEDGER_KEY_SIZE], tax[LEDGER_KEY_SIZE];
    size_t n = 0;

    account_id(revenue, "revenue.credit", b->ccy.code);
    for (size_t i = 0; i < groups->len; i++) {
        close_tax_account(&groups->at[i], b->ccy, tax);
        if (taxes[i].net_minor < 0 && !str_eq(r->reason, "refunded"))
            give_back(b, r, revenue, "net", i, -taxes[i].net_minor, &g[n++]);
        if (taxes[i].tax_minor < 0)
            give_back(b, r, tax, "tax", i, -taxes[i].tax_minor, &g[n++]);
    }
    return ledger_post(b, g, n, why);
}

static enum err validation(struct refusal *why, const char *field, const char *text)
{
    (void)refusef(why, ERR_VALIDATION, "field", "%s", field);
    refusal_set(why, "why", text);
    return ERR_VALIDATION;
}

static enum err credit(const struct books *b, const struct invoice_row *old, bool mistake,
                       int64_t amount_minor, struct invoice_row *r, struct refusal *why)
{
    struct statement_tax_list groups = {0};
    struct invoice_tax_row rest[TAX_GROUPS_MAX], taxes[TAX_GROUPS_MAX];
    struct statement_row st;
    size_t n = 0;

    TRY(statement_get(b->store, old->statement, &st));
    TRY(rest_of_groups(b->store, old->number, rest, &n));
    enum err e = statement_tax_list(b->store, st.id, &groups);
    CHECK(e != ERR_OK || groups.len == n);
    if (e == ERR_OK)
        e = split_credit(&groups, rest, amount_minor, taxes);
    if (e == ERR_OK)
        e = issue(b, &st, &groups, taxes, r);
    if (e == ERR_OK && !mistake)
        e = pay_back(b, r, &groups, taxes, why);
    vec_fini(&groups);
    return e;
}

enum err invoice_take_back(struct store *s, utime_t now, const char *number, const char *reason,
                           int64_t amount_minor, struct invoice_row *ret_r, struct refusal *why)
{
    static const char *const reasons[] = {"mistake", "refunded", "return", "service-ended",
                                          "allowance"};
    struct invoice_row old, r = {.kind = 1};
    struct books b;
    bool known = false, mistake = str_eq(reason, "mistake");
    int64_t rest;
    enum err e = invoice_get(s, number, &old);

    if (e == ERR_NOT_FOUND)
        return not_found(why, number);
    TRY(e);
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        known |= str_eq(reasons[i], reason);
    if (!known)
        return validation(why, "reason",
                          N_("one of mistake, refunded, return, service-ended, allowance"));
    if (old.kind != 0)
        return validation(why, "number", N_("a credit note is not taken back"));
    TRY(invoice_rest(s, &old, &rest));
    if (amount_minor == 0)
        amount_minor = rest;
    if (rest == 0 || amount_minor > rest || (mistake && amount_minor != old.payable_minor))
        return validation(why, "amount",
                          mistake ? N_("a mistake takes back the whole invoice, once")
                                  : N_("more than is left of the invoice"));
    TRY(books_open(s, now, old.project, &b, why));
    bool ok =
        str_copy(r.prev, sizeof(r.prev), number) && str_copy(r.reason, sizeof(r.reason), reason);
    CHECK(ok);
    TRY(credit(&b, &old, mistake, amount_minor, &r, why));
    *ret_r = r;
    return ERR_OK;
}
