/* bill_check_close.c: a closed month: its lines against windows and prices, what is printed by
 * largest remainder, taxes, what is payable, what was invoiced, and all of it against the journal:
 * who paid, what was bought, what the close gave back and took as tax. */
#include "cli/bill_check_int.h"

#include <stdlib.h>

#include "base/msg.h"
#include "cli/cli.h"

#define MINOR_MAX (INT64_C(1) << 50)

/* ---- lines */

enum err check_statement_line(struct bill_check *c, struct check_row *r)
{
    struct check_statement *s = &c->st;
    char month[16], id[LEDGER_KEY_SIZE], text[TEXT_SIZE];

    (void)row_copy(r, "id", s->id, sizeof(s->id));
    (void)row_copy(r, "number", c->said.number, sizeof(c->said.number));
    int64_t closed_ms = row_i64(r, "closed_ms");
    s->minor_u = row_num(r, "minor_u");
    s->lines = row_i64(r, "lines");
    s->total_u = row_num(r, "total_u");
    s->residue_u = row_num(r, "residue_u");
    s->lines_minor = row_num(r, "lines_minor");
    s->net_minor = row_num(r, "net_minor");
    s->tax_minor = row_num(r, "tax_minor");
    s->payable_minor = row_num(r, "payable_minor");
    (void)row_copy(r, "seller", s->sale.seller, sizeof(s->sale.seller));
    (void)row_copy(r, "buyer", s->sale.buyer, sizeof(s->sale.buyer));
    s->sale.business = row_flag(r, "business");
    s->sale.vat_id_valid = row_flag(r, "id_valid");
    (void)row_copy(r, "category", s->category, sizeof(s->category));
    (void)row_copy(r, "reason", text, sizeof(text));
    if (r->bad)
        return ERR_OK;
    s->here = true;
    c->said.payable_minor = s->payable_minor;
    c->said.minor_u = s->minor_u;
    c->said.statement_lines = s->lines;
    (void)str_printf(month, sizeof(month), "%.4s%.2s", c->said.month, c->said.month + 5);
    if (!str_printf(id, sizeof(id), "st.%s.%s", c->project.s, month) || !str_eq(id, s->id))
        return check_differs(c, tr("not the statement of this month"));
    if (closed_ms / MS_PER_S < c->month.to_s + BILL_COLLECT_S)
        return check_differs(c, tr("closed before its time for late usage was over"));
    if (s->minor_u != currency_minor_u(c->said.ccy))
        return check_differs(c, tr("not the smallest coin of its currency"));
    return ERR_OK;
}

/* What it says of a window of this month. */
static enum err usage_right(struct bill_check *c, struct check_line *l, const char *subject,
                            const char *sku, const char *meter)
{
    struct check_window *w = check_window_find(c, l->source);
    int64_t cost = 0;

    if (!w || w->billed)
        return check_differs(c, tr("line %ld: window %s is not here, or twice"), l->n, l->source);
    w->billed = true;
    if (!str_eq(w->subject.s, subject) || !str_eq(w->sku, sku) ||
        !str_eq(meter_name(w->meter), meter) ||
        !str_eq(c->prices.at[w->price].v.id.s, l->price.s) || l->qty_from != 0 ||
        l->qty_to > w->qty || l->from_s < w->from_s || l->to_s > w->to_s ||
        (l->qty_to == w->qty && (l->from_s != w->from_s || l->to_s != w->to_s)))
        return check_differs(c, tr("line %ld is not what window %s says"), l->n, l->source);
    if (rate_delta(&c->prices.at[w->price].v.rate, 0, l->qty_to, &cost) != ERR_OK ||
        cost != l->amount_u)
        return check_differs(c, tr("line %ld costs %ld by its price, it says %ld"), l->n, cost,
                             l->amount_u);
    return ERR_OK;
}

/* Usage of an earlier month that came when that was closed. */
static enum err correction_right(struct bill_check *c, struct check_line *l, const char *sku)
{
    const struct check_price *p = NULL;
    int64_t cost = 0;

    for (size_t i = 0; i < c->prices.len; i++)
        if (str_eq(c->prices.at[i].v.id.s, l->price.s))
            p = &c->prices.at[i];
    if (!p || (!str_eq(p->sku, sku) && !str_starts(p->sku, "plan.") && !str_starts(p->sku, "bid.")))
        return check_differs(c, tr("line %ld has no price here"), l->n);
    if (check_window_find(c, l->source) || l->from_s >= c->month.from_s)
        return check_differs(c, tr("line %ld corrects its own month"), l->n);
    if (rate_total(&p->v.rate, l->qty_from, &l->from_u) != ERR_OK ||
        rate_delta(&p->v.rate, l->qty_from, l->qty_to, &cost) != ERR_OK || cost != l->amount_u)
        return check_differs(c, tr("line %ld costs %ld by its price, it says %ld"), l->n, cost,
                             l->amount_u);
    return l->before_u >= 0 && l->before_u <= l->from_u + l->amount_u
               ? ERR_OK
               : check_differs(c, tr("line %ld: more was charged before than it costs"), l->n);
}

/* A window of this month that was given back: its line of usage, below zero. */
static enum err reversal_right(struct bill_check *c, struct check_line *l, const char *subject,
                               const char *sku, const char *meter)
{
    struct check_window *w = check_window_find(c, l->source);

    if (!w || w->back)
        return check_differs(c, tr("line %ld: window %s is not here, or twice"), l->n, l->source);
    w->back = true;
    if (!str_eq(w->subject.s, subject) || !str_eq(w->sku, sku) ||
        !str_eq(meter_name(w->meter), meter) ||
        !str_eq(c->prices.at[w->price].v.id.s, l->price.s) || l->qty_from != 0 ||
        l->qty_to != w->qty || l->from_s != w->from_s || l->to_s != w->to_s ||
        l->amount_u != -w->reversed_u || l->amount_u == 0)
        return check_differs(c, tr("line %ld is not what window %s says"), l->n, l->source);
    return ERR_OK;
}

static enum err line_right(struct bill_check *c, struct check_line *l, const char *subject,
                           const char *sku, const char *meter)
{
    switch (l->kind) {
    case LINE_USAGE:
        return usage_right(c, l, subject, sku, meter);
    case LINE_CORRECTION:
        return correction_right(c, l, sku);
    case LINE_CHARGE:
        if (l->qty_from || l->qty_to || l->before_u || l->price.s[0] || l->amount_u <= 0)
            return check_differs(c, tr("line %ld is nothing that was bought"), l->n);
        return ERR_OK;
    case LINE_REVERSAL:
        return reversal_right(c, l, subject, sku, meter);
    case LINE_CREDIT:
        if (l->qty_from || l->qty_to || l->before_u || l->price.s[0] || l->amount_u > 0 ||
            !str_eq(subject, l->source))
            return check_differs(c, tr("line %ld is no credit"), l->n);
        return ERR_OK;
    }
    return ERR_OK;
}

enum err check_row_line(struct bill_check *c, struct check_row *r)
{
    struct check_line l = {.n = row_i64(r, "n"), .line = c->counts.lines};
    bool kind = line_kind_find(row_text(r, "kind"), &l.kind);
    char month[16];

    (void)row_copy(r, "source", l.source, sizeof(l.source));
    const char *subject = row_text(r, "subject");
    (void)row_text(r, "name");
    const char *meter = row_text(r, "meter"), *sku = row_text(r, "sku");
    (void)row_copy(r, "price", l.price.s, sizeof(l.price.s));
    l.qty_from = row_num(r, "qty_from");
    l.qty_to = row_num(r, "qty_to");
    l.before_u = row_num(r, "before_u");
    l.amount_u = row_num(r, "amount_u");
    l.printed_minor = row_num(r, "printed_minor");
    l.tax = row_i64(r, "tax");
    l.from_s = row_i64(r, "from_s");
    l.to_s = row_i64(r, "to_s");
    (void)row_copy(r, "month", month, sizeof(month));
    (void)row_flag(r, "simulated");
    if (r->bad)
        return ERR_OK;
    const struct check_line *last = c->lines.len ? &c->lines.at[c->lines.len - 1] : NULL;
    if (!c->st.here || !kind || l.n != (int64_t)c->lines.len + 1 || l.tax < 0 ||
        l.tax >= CHECK_TAXES_MAX || (last && last->kind > l.kind) || l.qty_from < 0 ||
        l.qty_to < l.qty_from || l.to_s < l.from_s)
        return check_differs(c, tr("not a line of a statement"));
    if ((l.kind == LINE_CORRECTION) == str_eq(month, c->said.month))
        return check_differs(c, tr("line %ld is of another month"), l.n);
    if (l.kind != LINE_CORRECTION && (l.from_s < c->month.from_s || l.to_s > c->month.to_s))
        return check_differs(c, tr("line %ld is of another month"), l.n);
    TRY(line_right(c, &l, subject, sku, meter));
    *vec_push(&c->lines) = l;
    return ERR_OK;
}

enum err check_tax_line(struct bill_check *c, struct check_row *r)
{
    struct check_tax t = {.line = c->counts.lines};
    char class[TEXT_SIZE], category[8], country[4];
    int64_t n = row_i64(r, "n");

    (void)row_copy(r, "country", country, sizeof(country));
    (void)row_copy(r, "class", class, sizeof(class));
    (void)row_copy(r, "category", category, sizeof(category));
    t.rate.n = row_num(r, "rate_n");
    t.rate.d = row_num(r, "rate_d");
    t.inclusive = row_flag(r, "inclusive");
    t.base_minor = row_num(r, "base_minor");
    t.g.net_minor = row_num(r, "net_minor");
    t.g.tax_minor = row_num(r, "tax_minor");
    t.g.gross_minor = row_num(r, "gross_minor");
    if (r->bad)
        return ERR_OK;
    if (!c->st.here || n != (int64_t)c->taxes.len || n >= CHECK_TAXES_MAX || t.rate.n < 0 ||
        t.rate.d <= 0 || t.rate.n > MINOR_MAX || t.rate.d > MINOR_MAX)
        return check_differs(c, tr("not a group of taxes"));
    struct tax_sale sale = c->st.sale;
    if (!sale.buyer[0])
        memcpy(sale.buyer, sale.seller, sizeof(sale.buyer));
    struct tax_decision d = tax_decide(&sale, t.rate);
    if (!str_eq(tax_category_code(d.category), category) || d.rate.n != t.rate.n ||
        (n == 0 && !str_eq(category, c->st.category)))
        return check_differs(c, tr("tax group %ld: its treatment is not that of this sale"), n);
    bool ok = str_printf(t.account, sizeof(t.account), "tax.output.%s.%" PRId64 "/%" PRId64 ".%s",
                         country, t.rate.n, t.rate.d, c->said.ccy.code);
    if (!ok)
        return check_differs(c, tr("not a group of taxes"));
    *vec_push(&c->taxes) = t;
    return ERR_OK;
}

enum err check_invoice_line(struct bill_check *c, struct check_row *r)
{
    struct check_invoice v = {0};
    char prev[NAME_SIZE];
    const char *kind, *reason;

    (void)row_copy(r, "number", v.number, sizeof(v.number));
    kind = row_text(r, "kind");
    (void)row_copy(r, "prev", prev, sizeof(prev));
    reason = row_text(r, "reason");
    (void)row_i64(r, "issued_ms");
    v.net_minor = row_num(r, "net_minor");
    v.tax_minor = row_num(r, "tax_minor");
    v.rest_minor = row_num(r, "payable_minor");
    if (r->bad)
        return ERR_OK;
    bool note = str_eq(kind, "credit_note");
    int64_t sum;
    if (!c->st.here || (!note && !str_eq(kind, "invoice")) ||
        micro_add(v.net_minor, v.tax_minor, &sum) != ERR_OK || sum != v.rest_minor)
        return check_differs(c, tr("invoice %s does not add up"), v.number);
    if (!note) {
        for (size_t i = 0; i < c->invoices.len; i++)
            if (!c->invoices.at[i].mistake || str_eq(c->invoices.at[i].number, v.number))
                return check_differs(c, tr("invoice %s: the month was invoiced before"), v.number);
        if (v.net_minor != c->st.net_minor || v.rest_minor != c->st.payable_minor)
            return check_differs(c, tr("invoice %s is not what the statement asks for"), v.number);
        *vec_push(&c->invoices) = v;
        return ERR_OK;
    }
    struct check_invoice *of = NULL;
    for (size_t i = 0; i < c->invoices.len; i++)
        if (str_eq(c->invoices.at[i].number, prev))
            of = &c->invoices.at[i];
    if (!of || v.net_minor > 0 || v.tax_minor > 0 ||
        micro_add(of->rest_minor, v.rest_minor, &of->rest_minor) != ERR_OK || of->rest_minor < 0)
        return check_differs(c, tr("credit note %s takes back more than was invoiced"), v.number);
    of->mistake |= str_eq(reason, "mistake");
    return ERR_OK;
}

/* ---- the statement is whole */

/* Printed by largest remainder; what is payable before taxes; bases of the tax groups. */
static enum err lines_over(struct bill_check *c)
{
    size_t n = c->lines.len;
    AUTO_FREE int64_t *u = mem_alloc((n + 1) * sizeof(*u));
    AUTO_FREE int64_t *printed = mem_alloc((n + 1) * sizeof(*printed));
    AUTO_FREE struct bill_share *scratch = mem_alloc((n + 1) * sizeof(*scratch));
    struct bill_total total;

    if (c->st.lines != (int64_t)n)
        return check_differs(c, tr("%ld lines are said, %ld are here"), c->st.lines, (int64_t)n);
    for (size_t i = 0; i < n; i++)
        u[i] = c->lines.at[i].amount_u;
    if (bill_close(c->st.minor_u, u, n, scratch, printed, &total) != ERR_OK ||
        total.total_u != c->st.total_u || total.residue_u != c->st.residue_u ||
        total.payable_minor != c->st.lines_minor)
        return check_differs(c, tr("the statement is %ld micro-units, its lines make %ld"),
                             c->st.total_u, total.total_u);
    for (size_t i = 0; i < n; i++) {
        const struct check_line *l = &c->lines.at[i];

        if (l->printed_minor != printed[i]) {
            c->counts.lines = l->line;
            return check_differs(c,
                                 tr("line %ld is printed as %ld, by largest remainder it is %ld"),
                                 l->n, l->printed_minor, printed[i]);
        }
        if (l->tax >= (int64_t)c->taxes.len)
            return check_differs(c, tr("line %ld has no tax group here"), l->n);
        TRY(micro_add(c->taxes.at[l->tax].sum_minor, printed[i], &c->taxes.at[l->tax].sum_minor));
    }
    return ERR_OK;
}

enum err check_statement_over(struct bill_check *c)
{
    int64_t net = 0, tax = 0, gross = 0;

    if (!c->st.here)
        return ERR_OK;
    TRY(lines_over(c));
    for (size_t i = 0; i < c->windows.len; i++)
        if (c->windows.at[i].reversed_u && !c->windows.at[i].back)
            return check_differs(c, tr("window %s was given back, no line says so"),
                                 c->windows.at[i].id);
    for (size_t i = 0; i < c->taxes.len; i++) {
        const struct check_tax *t = &c->taxes.at[i];
        struct tax_group g;

        if (t->sum_minor != t->base_minor ||
            tax_of_signed(t->base_minor, t->rate, t->inclusive, &g) != ERR_OK ||
            g.net_minor != t->g.net_minor || g.tax_minor != t->g.tax_minor ||
            g.gross_minor != t->g.gross_minor) {
            c->counts.lines = t->line;
            return check_differs(c, tr("tax group %ld: %ld in lines; it says %ld and tax %ld"),
                                 (int64_t)i, t->sum_minor, t->base_minor, t->g.tax_minor);
        }
        if (micro_add(net, g.net_minor, &net) != ERR_OK ||
            micro_add(tax, g.tax_minor, &tax) != ERR_OK ||
            micro_add(gross, g.gross_minor, &gross) != ERR_OK)
            return check_differs(c, tr("the sum passes what can be counted"));
    }
    if (net != c->st.net_minor || tax != c->st.tax_minor || gross != c->st.payable_minor)
        return check_differs(c, tr("payable is %ld of the smallest coin, it says %ld"), gross,
                             c->st.payable_minor);
    return ERR_OK;
}

/* ---- the journal */

static struct check_bought *bought_of(struct bill_check *c, const char *owner)
{
    for (size_t i = 0; i < c->bought.len; i++)
        if (str_eq(c->bought.at[i].id, owner))
            return &c->bought.at[i];
    struct check_bought *b = vec_push(&c->bought);
    *b = (struct check_bought){.u = 0};
    (void)str_copy(b->id, sizeof(b->id), owner);
    return b;
}

/* Bought at once in this month, and what came back of it in this month. */
static enum err bought_add(struct bill_check *c, const struct ledger_transfer *t)
{
    bool back = str_eq(t->kind, "back");
    struct check_bought *b = bought_of(c, t->owner);
    struct check_part *p = vec_push(&c->parts);

    b->here |= !back && t->effective_ms >= c->month.from_s * MS_PER_S;
    *p = (struct check_part){.u = back ? -t->amount : t->amount};
    memcpy(p->account, back ? t->cr : t->dr, sizeof(p->account));
    memcpy(p->id, t->owner, sizeof(p->id));
    return micro_add(b->u, p->u, &b->u);
}

/* What the close itself moved. */
static enum err closing_add(struct bill_check *c, const struct ledger_transfer *t)
{
    if (str_eq(t->kind, "residue") && str_starts(t->dr, "rounding.") && str_starts(t->cr, "cash."))
        return micro_add(c->st.back_u, t->amount, &c->st.back_u);
    if (str_eq(t->kind, "tax"))
        for (size_t i = 0; i < c->taxes.len; i++) {
            struct check_tax *x = &c->taxes.at[i];
            bool inside = str_starts(t->dr, "revenue.");

            if (x->inclusive == inside && str_eq(x->account, t->cr))
                return micro_add(x->moved_u, t->amount, &x->moved_u);
        }
    c->st.strange = true;
    return ERR_OK;
}

enum err check_close_transfer(struct bill_check *c, const struct ledger_transfer *t, bool *io_own)
{
    if (!c->st.here)
        return ERR_OK;
    if (str_eq(t->owner, c->st.id)) {
        *io_own = true;
        return closing_add(c, t);
    }
    if ((str_eq(t->kind, "purchase") || str_eq(t->kind, "back")) && t->owner[0] &&
        t->effective_ms < c->month.to_s * MS_PER_S)
        return bought_add(c, t);
    if (str_eq(t->kind, "charge")) {
        struct check_charge *p = vec_push(&c->charges);

        *p = (struct check_charge){
            .seq = c->seq, .amount = t->amount, .posted = t->step == LEDGER_POSTED};
        memcpy(p->owner, t->owner, sizeof(p->owner));
        memcpy(p->dr, t->dr, sizeof(p->dr));
        memcpy(p->group, t->group, sizeof(p->group));
    }
    return ERR_OK;
}

static int by_owner(const void *a, const void *b)
{
    const struct check_charge *x = a, *y = b;
    int order = strcmp(x->owner, y->owner);

    return order ? order : (x->seq > y->seq) - (x->seq < y->seq);
}

static int by_group(const void *a, const void *b)
{
    const struct check_charge *x = a, *y = b;
    int order = strcmp(x->group, y->group);

    return order ? order : (x->seq > y->seq) - (x->seq < y->seq);
}

/* The first charge of an owner (by_owner) or a group (by_group). */
static size_t first_of(const struct check_charge *at, size_t n, bool owner, const char *key)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (strcmp(owner ? at[mid].owner : at[mid].group, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static enum err credit_add(struct bill_check *c, const char *account, int64_t tax, int64_t u)
{
    if (!str_starts(account, "voucher.") && !str_starts(account, "gift."))
        return ERR_OK;
    for (size_t i = 0; i < c->credits.len; i++)
        if (c->credits.at[i].tax == tax && str_eq(c->credits.at[i].account, account))
            return micro_add(c->credits.at[i].u, u, &c->credits.at[i].u);
    struct check_part *p = vec_push(&c->credits);
    *p = (struct check_part){.tax = tax, .u = u};
    (void)str_copy(p->account, sizeof(p->account), account);
    return ERR_OK;
}

/* The sources of one term that paid [skip, skip + u) of this charge: told off against the charges
 * of the term in the order of the journal. */
static enum err term_add(struct bill_check *c, const struct check_charge *groups,
                         const struct check_charge *charge, int64_t tax, int64_t skip, int64_t u)
{
    size_t n = c->charges.len, first = first_of(groups, n, false, charge->group);
    int64_t from = skip, at = 0, own = INT64_MAX;

    for (size_t i = first; i < n && str_eq(groups[i].group, charge->group); i++)
        if (groups[i].posted && str_eq(groups[i].owner, charge->owner))
            own = MIN(own, groups[i].seq);
    for (size_t i = first; i < n && str_eq(groups[i].group, charge->group); i++)
        if (groups[i].posted && groups[i].seq < own)
            TRY(micro_add(from, groups[i].amount, &from));
    for (size_t i = first; i < n && str_eq(groups[i].group, charge->group); i++) {
        int64_t end, to;

        if (groups[i].posted)
            continue;
        TRY(micro_add(at, groups[i].amount, &end));
        TRY(micro_add(from, u, &to));
        if (MIN(end, to) > MAX(at, from))
            TRY(credit_add(c, groups[i].dr, tax, MIN(end, to) - MAX(at, from)));
        at = end;
    }
    return ERR_OK;
}

/* Who paid what a line of usage costs. ret_paid: all that the journal charged up to its end. */
static enum err line_payers(struct bill_check *c, const struct check_charge *groups,
                            const struct check_line *l, int64_t *ret_paid)
{
    int64_t at = l->before_u, to;

    TRY(micro_add(l->from_u, l->amount_u, &to));
    for (size_t i = first_of(c->charges.at, c->charges.len, true, l->source);
         i < c->charges.len && str_eq(c->charges.at[i].owner, l->source); i++) {
        const struct check_charge *p = &c->charges.at[i];
        int64_t end, part;

        if (!p->posted)
            continue;
        TRY(micro_add(at, p->amount, &end));
        part = MIN(end, to) - MAX(at, l->from_u);
        if (part > 0)
            TRY(str_starts(p->dr, "terms.")
                    ? term_add(c, groups, p, l->tax, MAX(l->from_u - at, (int64_t)0), part)
                    : credit_add(c, p->dr, l->tax, part));
        at = end;
    }
    *ret_paid = at;
    return ERR_OK;
}

static enum err line_paid(struct bill_check *c, const struct check_charge *groups,
                          const struct check_line *l)
{
    int64_t paid;

    if (l->kind == LINE_CREDIT)
        return ERR_OK;
    if (l->kind == LINE_CHARGE) {
        struct check_bought *b = bought_of(c, l->source);

        if (b->billed || !b->here || b->u != l->amount_u) {
            c->counts.lines = l->line;
            return check_differs(c, tr("line %ld: the journal has %ld for what was bought"), l->n,
                                 b->u);
        }
        b->billed = true;
        for (size_t i = 0; i < c->parts.len; i++)
            if (str_eq(c->parts.at[i].id, l->source))
                TRY(credit_add(c, c->parts.at[i].account, l->tax, c->parts.at[i].u));
        return ERR_OK;
    }
    const struct check_window *w = check_window_find(c, l->source);
    if (w && w->reversed_u) /* nobody paid it in the end: what was charged is back */
        return ERR_OK;
    TRY(line_payers(c, groups, l, &paid));
    if (paid >= l->from_u + l->amount_u)
        return ERR_OK;
    c->counts.lines = l->line;
    return check_differs(c, tr("line %ld: it costs %ld, the journal charged %ld"), l->n,
                         l->from_u + l->amount_u, paid);
}

/* Each credit line is what its account paid of its tax group, and there is one for each. */
static enum err credits_over(struct bill_check *c)
{
    for (size_t i = 0; i < c->lines.len; i++) {
        const struct check_line *l = &c->lines.at[i];
        struct check_part *of = NULL;

        if (l->kind != LINE_CREDIT)
            continue;
        for (size_t k = 0; k < c->credits.len; k++)
            if (c->credits.at[k].tax == l->tax && str_eq(c->credits.at[k].account, l->source))
                of = &c->credits.at[k];
        if ((of ? of->u : 0) != -l->amount_u) {
            c->counts.lines = l->line;
            return check_differs(c, tr("line %ld: %s paid %ld, it says %ld"), l->n, l->source,
                                 of ? of->u : 0, -l->amount_u);
        }
        if (of)
            of->u = 0;
    }
    for (size_t k = 0; k < c->credits.len; k++)
        if (c->credits.at[k].u != 0)
            return check_differs(c, tr("%s paid %ld that the statement does not say"),
                                 c->credits.at[k].account, c->credits.at[k].u);
    return ERR_OK;
}

/* What the close moved is what the statement says: residue, and tax by account. */
static enum err moves_over(struct bill_check *c)
{
    if (c->st.strange || c->st.back_u != c->st.residue_u)
        return check_differs(c, tr("the residue is %ld, the journal gave back %ld"),
                             c->st.residue_u, c->st.back_u);
    for (size_t i = 0; i < c->taxes.len; i++) {
        struct check_tax *t = &c->taxes.at[i], *first = t;
        int64_t u = 0;

        for (size_t k = i; k-- > 0;)
            if (c->taxes.at[k].inclusive == t->inclusive &&
                str_eq(c->taxes.at[k].account, t->account))
                first = &c->taxes.at[k];
        if (__builtin_mul_overflow(MAX(t->g.tax_minor, (int64_t)0), c->st.minor_u, &u) ||
            micro_sub(first->moved_u, u, &first->moved_u) != ERR_OK)
            return check_differs(c, tr("the sum passes what can be counted"));
    }
    for (size_t i = 0; i < c->taxes.len; i++)
        if (c->taxes.at[i].moved_u != 0) {
            c->counts.lines = c->taxes.at[i].line;
            return check_differs(c, tr("tax group %ld: the journal moved %ld more than it says"),
                                 (int64_t)i, c->taxes.at[i].moved_u);
        }
    return ERR_OK;
}

enum err check_close_over(struct bill_check *c)
{
    size_t n = c->charges.len;

    if (!c->st.here)
        return ERR_OK;
    AUTO_FREE struct check_charge *groups = mem_alloc((n + 1) * sizeof(*groups));
    if (n > 0) {
        memcpy(groups, c->charges.at, n * sizeof(*groups));
        qsort(groups, n, sizeof(*groups), by_group);
        qsort(c->charges.at, n, sizeof(*groups), by_owner);
    }
    for (size_t i = 0; i < c->lines.len; i++) {
        enum err e = line_paid(c, groups, &c->lines.at[i]);

        if (e == ERR_MONEY_RANGE)
            return check_differs(c, tr("the sum passes what can be counted"));
        TRY(e);
    }
    for (size_t i = 0; i < c->bought.len; i++)
        if (c->bought.at[i].here && !c->bought.at[i].billed && c->bought.at[i].u > 0)
            return check_differs(c, tr("%s was bought and is not in the statement"),
                                 c->bought.at[i].id);
    TRY(credits_over(c));
    return moves_over(c);
}

void check_close_fini(struct bill_check *c)
{
    vec_fini(&c->lines);
    vec_fini(&c->taxes);
    vec_fini(&c->invoices);
    vec_fini(&c->charges);
    vec_fini(&c->bought);
    vec_fini(&c->parts);
    vec_fini(&c->credits);
}
