#include "domain/bill.h"

#include <stdlib.h>

#include "base/str.h"

static const char *const line_kinds[LINE_KIND_COUNT] = {"usage", "correction", "charge", "credit",
                                                        "reversal"};

const char *line_kind_name(enum line_kind k)
{
    CHECK((size_t)k < LINE_KIND_COUNT);
    return line_kinds[k];
}

bool line_kind_find(const char *name, enum line_kind *ret_k)
{
    for (size_t i = 0; i < LINE_KIND_COUNT; i++)
        if (str_eq(line_kinds[i], name)) {
            *ret_k = (enum line_kind)i;
            return true;
        }
    return false;
}

enum err bill_rate(struct bill_line *l)
{
    return rate_delta(&l->rate, l->qty_from, l->qty_to, &l->amount_u);
}

/* F(q) as text that can be typed into a calculator; in whole micro-units. */
static void add_total(struct strbuf *b, const struct rate *r, int64_t q, const char *unit)
{
    bool first = true;

    strbuf_add(b, r->cap_qty > 0 ? "capped(" : "floor((");
    for (size_t i = 0; i < r->tier_count && (r->tiers[i].from < q || i == 0); i++) {
        int64_t part = MIN(q, r->tiers[i].to) - r->tiers[i].from;
        strbuf_addf(b, "%s%" PRId64 " %s x %" PRId64, first ? "" : " + ", part, unit,
                    r->tiers[i].p);
        first = false;
    }
    strbuf_addf(b, r->cap_qty > 0 ? " / %" PRId64 : ") / %" PRId64 ")", r->d);
    if (r->cap_qty > 0)
        strbuf_addf(b, "; %" PRId64 " per %" PRId64 " %s)", r->cap_u, r->cap_qty, unit);
}

void bill_formula(const struct bill_line *l, char *buf, size_t size)
{
    char amount[MONEY_TEXT_SIZE + 8];
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, size - 1);
    add_total(&b, &l->rate, l->qty_to, l->unit);
    if (l->qty_from > 0) {
        strbuf_add(&b, " - ");
        add_total(&b, &l->rate, l->qty_from, l->unit);
    }
    money_format_ccy(money_of(l->amount_u, l->ccy), amount, sizeof(amount));
    strbuf_addf(&b, " = %" PRId64 " u = %s", l->amount_u, amount);
    bool ok = str_copy(buf, size, strbuf_str(&b));
    CHECK(ok);
}

/* Largest remainder first, ties to the lowest index: a total order, so any sort gives the same. */
static int by_remainder(const void *a, const void *b)
{
    const struct bill_share *x = a, *y = b;

    if (x->remainder != y->remainder)
        return x->remainder > y->remainder ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Gives +1 to the k parts with the largest remainders. */
static void give_rest(struct bill_share *shares, size_t n, int64_t k, int64_t *parts)
{
    CHECK(k >= 0 && (k < (int64_t)n || k == 0));
    qsort(shares, n, sizeof(shares[0]), by_remainder);
    for (size_t i = 0; i < (size_t)k; i++)
        parts[shares[i].index]++;
}

enum err bill_close(int64_t minor_u, const int64_t *lines_u, size_t n, struct bill_share *scratch,
                    int64_t *ret_minor, struct bill_total *ret_total)
{
    struct bill_total t = {0};
    int64_t floors = 0;

    for (size_t i = 0; i < n; i++)
        TRY(micro_add(t.total_u, lines_u[i], &t.total_u));
    if (t.total_u < 0)
        return ERR_VALIDATION;
    micro_to_minor(t.total_u, minor_u, &t.payable_minor, &t.residue_u);
    if (ret_minor) {
        for (size_t i = 0; i < n; i++) {
            scratch[i].index = i;
            micro_to_minor(lines_u[i], minor_u, &ret_minor[i], &scratch[i].remainder);
            floors += ret_minor[i];
        }
        give_rest(scratch, n, t.payable_minor - floors, ret_minor);
    }
    *ret_total = t;
    return ERR_OK;
}

void bill_cut_init(struct bill_cut *c, int64_t minor_u, int64_t *counts)
{
    *c = (struct bill_cut){.minor_u = minor_u, .counts = counts};
}

enum err bill_cut_add(struct bill_cut *c, int64_t line_u)
{
    int64_t minor, remainder;

    micro_to_minor(line_u, c->minor_u, &minor, &remainder);
    TRY(micro_add(c->total.total_u, line_u, &c->total.total_u));
    TRY(micro_add(c->floors, minor, &c->floors));
    c->counts[remainder]++;
    return ERR_OK;
}

enum err bill_cut_decide(struct bill_cut *c)
{
    int64_t rest;

    if (c->total.total_u < 0)
        return ERR_VALIDATION;
    micro_to_minor(c->total.total_u, c->minor_u, &c->total.payable_minor, &c->total.residue_u);
    rest = c->total.payable_minor - c->floors;
    c->above = c->minor_u - 1;
    while (c->above > 0 && c->counts[c->above] <= rest)
        rest -= c->counts[c->above--];
    c->ties = rest;
    return ERR_OK;
}

int64_t bill_cut_line(struct bill_cut *c, int64_t line_u)
{
    int64_t minor, remainder;

    micro_to_minor(line_u, c->minor_u, &minor, &remainder);
    if (remainder > c->above)
        return minor + 1;
    if (remainder == c->above && c->ties > 0) {
        c->ties--;
        return minor + 1;
    }
    return minor;
}

enum err bill_split(int64_t total, const int64_t *weights, size_t n, struct bill_share *scratch,
                    int64_t *ret_parts)
{
    int64_t sum = 0, floors = 0;

    if (n == 0 || total < 0)
        return ERR_VALIDATION;
    for (size_t i = 0; i < n; i++) {
        if (weights[i] < 0)
            return ERR_VALIDATION;
        TRY(micro_add(sum, weights[i], &sum));
    }
    for (size_t i = 0; i < n; i++) {
        int64_t weight = sum > 0 ? weights[i] : i == 0;
        __int128 product = (__int128)total * weight;
        scratch[i].index = i;
        scratch[i].remainder = (int64_t)(product % MAX(sum, (int64_t)1));
        ret_parts[i] = (int64_t)(product / MAX(sum, (int64_t)1));
        floors += ret_parts[i];
    }
    give_rest(scratch, n, total - floors, ret_parts);
    return ERR_OK;
}

void bill_slot_for(const struct zone *z, int64_t usage_s, int64_t received_s, int64_t closed_s,
                   struct bill_slot *ret_slot)
{
    struct bill_slot slot = {0};

    period_month_at(z, usage_s, &slot.period);
    if (received_s >= closed_s) {
        struct period arrival;
        period_month_at(z, received_s, &arrival);
        slot.correction = true;
        period_next(z, &slot.period);
        if (arrival.from_s > slot.period.from_s)
            slot.period = arrival;
    }
    *ret_slot = slot;
}
