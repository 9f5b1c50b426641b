/* op_focus.c: the FOCUS 1.2 rows of a month, one JSON object a line with every column (null:
 * absent).
 *
 * A usage row is one hour of one rating window: it raises the window's quantity from x_QuantityFrom
 * to x_QuantityTo and costs F(to) − F(from), so that any sum of rows is what was charged. Once the
 * month is closed the rows carry its number, and credits, the residue and taxes on top are rows
 * too: Σ BilledCost of a number is what it asks for. What was bought ahead: focus.h. */
#include "app/bill_lines.h"
#include "app/focus.h"
#include "base/sha256.h"
#include "base/sign.h"
#include "domain/payout.h"
#include "store/rows_proof.h"
#include "store/rows_supply.h"

#include <stdio.h>

#define HOUR_S 3600

static const char *const names[] = {
#define FOCUS(name) #name,
#include "app/focus.def"
#undef FOCUS
};

void focus_row_write(struct focus *f)
{
    struct json_writer *j = &f->op->out;

    json_writer_init(j, j->out);
    json_object_begin(j, NULL);
    for (size_t i = 0; i < FOCUS_COLUMNS; i++)
        json_str(j, names[i], f->v[i][0] ? f->v[i] : NULL);
    json_object_finish(j);
    strbuf_add(j->out, "\n");
}

void focus_time(char v[FOCUS_VALUE_SIZE], int64_t s)
{
    struct zone utc;
    struct civil c;

    CHECK(zone_builtin("UTC", &utc));
    civil_from(&utc, s, &c);
    (void)str_printf(v, FOCUS_VALUE_SIZE, "%04" PRId64 "-%02d-%02dT%02d:%02d:%02dZ", c.year,
                     c.month, c.day, c.hour, c.minute, c.second);
}

void focus_decimal(char v[FOCUS_VALUE_SIZE], __int128 n, __int128 d)
{
    __int128 whole = n / d, part = (n % d) * 1000000000 / d;

    (void)str_printf(v, FOCUS_VALUE_SIZE, "%" PRId64 ".%09" PRId64, (int64_t)whole, (int64_t)part);
}

void focus_money(struct focus *f, char v[FOCUS_VALUE_SIZE], int64_t u)
{
    money_format(money_of(u, f->b.ccy), v, FOCUS_VALUE_SIZE);
}

void focus_cost(struct focus *f, int64_t u)
{
    focus_money(f, f->v[C_BilledCost], u);
    focus_money(f, f->v[C_EffectiveCost], u);
    focus_money(f, f->v[C_ListCost], u);
    focus_money(f, f->v[C_ContractedCost], u);
    SET(f, x_PostedMicro, "%" PRId64, u);
}

/* What every row says. */
void focus_row_begin(struct focus *f)
{
    memset(f->v, 0, sizeof(f->v));
    SET(f, BillingAccountId, "%s", f->project.id.s);
    SET(f, BillingAccountName, "%s", f->project.name);
    SET(f, BillingAccountType, "Project");
    SET(f, SubAccountId, "%s", f->project.id.s);
    SET(f, SubAccountName, "%s", f->project.name);
    SET(f, SubAccountType, "Project");
    SET(f, BillingCurrency, "%s", f->b.ccy.code);
    focus_time(f->v[C_BillingPeriodStart], f->month.from_s);
    focus_time(f->v[C_BillingPeriodEnd], f->month.to_s);
    SET(f, InvoiceIssuerName, "%s", f->issuer);
    SET(f, ProviderName, "Suanli");
    SET(f, PublisherName, "Suanli");
    SET(f, InvoiceId, "%s", f->st.number);
}

static const struct service {
    const char *category, *subcategory, *name, *unit, *consumed;
    int64_t per_unit; /* base units of the meter in one pricing unit */
} services[METER_COUNT] = {
    [METER_GPU] = {"Compute", "Containers", "GPU Rental", "Hours", "Seconds", HOUR_S},
    [METER_CPU] = {"Compute", "Containers", "CPU Seat", "Hours", "Seconds", HOUR_S},
    [METER_DISK] = {"Storage", "Block Storage", "Disk", "GB-Hours", "MiB-Seconds", HOUR_S * 1024},
    [METER_DISK_STOPPED] = {"Storage", "Block Storage", "Disk", "GB-Hours", "MiB-Seconds",
                            HOUR_S * 1024},
    [METER_DISK_DETACHED] = {"Storage", "Block Storage", "Disk", "GB-Hours", "MiB-Seconds",
                             HOUR_S * 1024},
    [METER_NODE] = {"Compute", "Containers", "Exclusive Node", "Hours", "Seconds", HOUR_S},
    [METER_EGRESS] = {"Networking", "Network Connectivity", "Traffic", "GB", "B", 1000000000},
    [METER_INGRESS] = {"Networking", "Network Connectivity", "Traffic In", "GB", "B", 1000000000},
};

/* "team=vision,run" as {"team":"vision","run":""}. */
static void set_tags(struct focus *f, const char *labels)
{
    AUTO_STRBUF struct strbuf out = {0};
    struct json_writer w;
    char copy[TEXT_SIZE], *save = NULL;

    if (!labels[0] || !str_copy(copy, sizeof(copy), labels))
        return;
    strbuf_init(&out, FOCUS_VALUE_SIZE - 1);
    json_writer_init(&w, &out);
    json_object_begin(&w, NULL);
    for (char *label = strtok_r(copy, ",", &save); label; label = strtok_r(NULL, ",", &save)) {
        char *eq = strchr(label, '=');

        if (eq)
            *eq = '\0';
        json_str(&w, label, eq ? eq + 1 : "");
    }
    json_object_finish(&w);
    if (!out.overflow)
        SET(f, Tags, "%s", strbuf_str(&out));
}

static enum err set_resource(struct focus *f, const struct window_row *w)
{
    struct instance *i = mem_alloc(sizeof(*i));
    AUTO_FREE struct instance *owned UNUSED = i;
    struct disk d;
    bool is_disk = str_starts(w->subject.s, "dsk_");
    enum err e = is_disk ? store_disk_get_any(f->op->store, w->subject, &d)
                         : store_instance_get_any(f->op->store, w->subject, i);

    SET(f, ResourceId, "%s", w->subject.s);
    SET(f, ResourceType, is_disk ? "Disk" : "Instance");
    if (e == ERR_OK)
        SET(f, ResourceName, "%s", is_disk ? d.name : i->name);
    if (e == ERR_OK && !is_disk)
        set_tags(f, i->labels);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* One window on its way into rows. */
struct window_work {
    const struct window_row *w;
    bool late; /* of a month that was closed before */
    struct rate rate;
    struct price_row price;
    bool covered;
    struct commitment by;
    struct prices list; /* what covered seconds would cost by the price book */
    char publisher[NAME_SIZE];
    struct payout_share share[2]; /* of the supplier; the platform has the rest */
};

/* "id\nsku\ncurrency\np\nd\ntiers\ncap_u\ncap_qty\nvalid_from_s\nannounced_s\nnotice_s" hashed. */
static void set_price_hash(struct focus *f, const struct price_row *p)
{
    AUTO_STRBUF struct strbuf text = {0};
    unsigned char hash[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];
    struct sha256 h;

    strbuf_init(&text, 4096);
    strbuf_addf(&text, "%s\n%s\n%s\n%" PRId64 "\n%" PRId64 "\n%s\n", p->id.s, p->sku, p->currency,
                p->p, p->d, p->tiers);
    strbuf_addf(&text, "%" PRId64 "\n%" PRId64 "\n%" PRId64 "\n%" PRId64 "\n%" PRId64, p->cap_u,
                p->cap_qty, p->valid_from_s, p->announced_s, p->notice_s);
    sha256_init(&h);
    sha256_add(&h, strbuf_str(&text), text.len);
    sha256_finish(&h, hash);
    hex_write(hash, sizeof(hash), hex);
    SET(f, x_PriceVersionHash, "%s", hex);
}

static enum err usage_begin(struct focus *f, const struct window_work *k)
{
    const struct window_row *w = k->w;
    const struct service *s = &services[w->meter];

    focus_row_begin(f);
    SET(f, ChargeCategory, "Usage");
    SET(f, ChargeClass, k->late ? "Correction" : "");
    SET(f, ChargeFrequency, "Usage-Based");
    SET(f, PricingCategory, str_starts(w->sku, "spot.") ? "Dynamic" : "Standard");
    SET(f, PricingUnit, "%s", s->unit);
    SET(f, ConsumedUnit, "%s", s->consumed);
    SET(f, ServiceCategory, "%s", s->category);
    SET(f, ServiceSubcategory, "%s", s->subcategory);
    SET(f, ServiceName, "%s", s->name);
    SET(f, SkuId, "%s", w->sku);
    SET(f, SkuMeter, "%s", meter_name(w->meter));
    SET(f, SkuPriceId, "%s", w->price.s);
    focus_decimal(f->v[C_ListUnitPrice], (__int128)k->rate.tiers[0].p * s->per_unit,
                  (__int128)k->rate.d * MICRO_PER_MAJOR);
    memcpy(f->v[C_ContractedUnitPrice], f->v[C_ListUnitPrice], FOCUS_VALUE_SIZE);
    if (k->publisher[0])
        SET(f, PublisherName, "%s", k->publisher);
    SET(f, x_PriceNumerator, "%" PRId64, k->rate.tiers[0].p);
    SET(f, x_PriceDenominator, "%" PRId64, k->rate.d);
    set_price_hash(f, &k->price);
    SET(f, x_Window, "%s", w->id);
    SET(f, x_Simulated, "%s", w->simulated ? "true" : "false");
    return set_resource(f, w);
}

/* What covered seconds would have cost without what covers them: by the version of from_s. */
static enum err set_list(struct focus *f, const struct window_work *k, int64_t from_s, int64_t a,
                         int64_t b)
{
    int64_t u;
    size_t i;

    if (price_at(k->list.v, k->list.n, from_s, &i) != ERR_OK)
        return ERR_OK;
    TRY(rate_delta(&k->list.v[i].rate, a, b, &u));
    focus_money(f, f->v[C_ListCost], u);
    focus_money(f, f->v[C_ContractedCost], u);
    focus_decimal(f->v[C_ListUnitPrice], (__int128)k->list.v[i].rate.tiers[0].p * HOUR_S,
                  (__int128)k->list.v[i].rate.d * MICRO_PER_MAJOR);
    memcpy(f->v[C_ContractedUnitPrice], f->v[C_ListUnitPrice], FOCUS_VALUE_SIZE);
    return ERR_OK;
}

/* The supplier has the cumulative share of what the window cost, the platform the rest. */
static enum err set_shares(struct focus *f, const struct window_work *k, int64_t a, int64_t b)
{
    int64_t from_u, to_u, parts[2];

    TRY(rate_total(&k->rate, a, &from_u));
    TRY(rate_total(&k->rate, b, &to_u));
    TRY(payout_delta(k->share, 2, from_u, to_u, parts));
    SET(f, x_ProviderShareMicro, "%" PRId64, parts[0]);
    SET(f, x_PlatformFeeMicro, "%" PRId64, parts[1]);
    return ERR_OK;
}

/* [from, to) of one hour raises the window from a to b. */
static enum err usage_row(struct focus *f, const struct window_work *k, const struct span_row *span,
                          int64_t from_s, int64_t to_s, int64_t a, int64_t b)
{
    const struct window_row *w = k->w;
    int64_t u;

    TRY(rate_delta(&k->rate, a, b, &u));
    TRY(usage_begin(f, k));
    focus_time(f->v[C_ChargePeriodStart], from_s);
    focus_time(f->v[C_ChargePeriodEnd], to_s);
    focus_decimal(f->v[C_PricingQuantity], b - a, services[w->meter].per_unit);
    SET(f, ConsumedQuantity, "%" PRId64, b - a);
    SET(f, ChargeDescription, "%s, %" PRId64 " %s", w->sku, b - a, meter_unit(w->meter));
    if (w->meter == METER_GPU)
        SET(f, SkuPriceDetails, "{\"GpuCount\":%" PRId64 ",\"x_GpuModel\":\"%s\"}", span->qty_per_s,
            strchr(w->sku, '.') && str_starts(w->sku, "spot.") ? w->sku + strlen("spot.gpu.")
                                                               : w->sku + strlen("gpu."));
    SET(f, x_QuantityFrom, "%" PRId64, a);
    SET(f, x_QuantityTo, "%" PRId64, b);
    focus_cost(f, u);
    TRY(set_shares(f, k, a, b));
    if (k->covered) {
        TRY(set_list(f, k, from_s, a, b));
        TRY(commitment_used(f, &k->by, from_s, to_s, b - a));
    }
    focus_row_write(f);
    return k->covered && k->late ? commitment_restored(f, &k->by, from_s, to_s, b - a) : ERR_OK;
}

/* The hours of one span: its part of quantity [min, max) of the window, whose begin it raises from
 * *io_qty. */
static enum err span_hours(struct focus *f, const struct window_work *k, const struct span_row *s,
                           int64_t min, int64_t max, int64_t *io_qty)
{
    for (int64_t at = s->from_s; at < s->to_s && *io_qty < max;) {
        int64_t end = MIN((at / HOUR_S + 1) * HOUR_S, s->to_s), to;

        if (!s->qty_per_s) { /* bytes: no time to cut by */
            end = s->to_s;
            to = *io_qty + s->qty;
        } else {
            if (*io_qty < min) /* never across: that was charged before */
                end = MIN(end, at + (min - *io_qty + s->qty_per_s - 1) / s->qty_per_s);
            end = MIN(end, at + (max - *io_qty + s->qty_per_s - 1) / s->qty_per_s);
            to = *io_qty + (end - at) * s->qty_per_s;
        }
        to = MIN(to, max);
        if (to > min && to > *io_qty)
            TRY(usage_row(f, k, s, at, end, MAX(*io_qty, min), to));
        *io_qty = to;
        at = end;
    }
    return ERR_OK;
}

static enum err work_open(struct focus *f, struct window_work *k)
{
    TRY(money_price_get(f->op->store, k->w->price, &k->price));
    TRY(price_row_rate(&k->price, &k->rate));
    TRY(commitment_of_window(f, k->w, &k->by, &k->covered));
    enum err e =
        k->covered ? prices_load(f->op->store, f->b.ccy, k->w->sku, &k->list, NULL) : ERR_OK;
    return e == ERR_PRICE_UNKNOWN ? ERR_OK : e; /* it was never sold without */
}

static enum err work_share(struct focus *f, struct window_work *k, struct id node)
{
    struct supply_share_of x;
    enum err e = supply_share_get(f->op->store, k->w->id, node, &x);

    k->share[0] = (struct payout_share){0, 1};
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    k->share[0] = (struct payout_share){x.n, x.d};
    (void)str_copy(k->publisher, sizeof(k->publisher), x.name);
    return ERR_OK;
}

/* Hour rows of what raised a window from quantity min to max, in the order in which it was rated.
 */
static enum err window_rows(struct focus *f, const struct window_row *w, int64_t min, int64_t max,
                            bool late)
{
    struct window_work *k = mem_alloc(sizeof(*k));
    AUTO_FREE struct window_work *owned UNUSED = k;
    struct span_list spans = {0};
    int64_t qty = 0;

    k->w = w;
    k->late = late;
    enum err e = work_open(f, k);
    if (e == ERR_OK)
        e = proof_spans_rated(f->op->store, w->id, &spans);
    if (e == ERR_OK && spans.len)
        e = work_share(f, k, spans.at[0].node);
    for (size_t i = 0; i < spans.len && e == ERR_OK; i++)
        e = span_hours(f, k, &spans.at[i], min, max, &qty);
    vec_fini(&spans);
    prices_fini(&k->list);
    return e;
}

/* A row of a closed month that is no usage of it. */
static void other_row(struct focus *f, const char *category, const char *text, int64_t u)
{
    focus_row_begin(f);
    SET(f, ChargeCategory, "%s", category);
    SET(f, ChargeFrequency, "One-Time");
    SET(f, ChargeDescription, "%s", text);
    SET(f, ServiceCategory, "Other");
    SET(f, ServiceSubcategory, "Other (Other)");
    SET(f, ServiceName, "Suanli");
    memcpy(f->v[C_ChargePeriodStart], f->v[C_BillingPeriodStart], FOCUS_VALUE_SIZE);
    memcpy(f->v[C_ChargePeriodEnd], f->v[C_BillingPeriodEnd], FOCUS_VALUE_SIZE);
    focus_cost(f, u);
    focus_row_write(f);
}

#define REVERSAL_TEXT "spot run reclaimed within its free time, given back"

static enum err line_rows(void *user, const struct line_row *l)
{
    struct focus *f = user;
    struct window_row w;

    switch (l->kind) {
    case LINE_USAGE:
    case LINE_CORRECTION:
        TRY(money_window_get(f->op->store, l->source, &w));
        return window_rows(f, &w, l->qty_from, l->qty_to, l->kind == LINE_CORRECTION);
    case LINE_CHARGE:
        return commitment_purchase(f, l);
    case LINE_CREDIT:
        other_row(f, "Credit", l->source, l->amount_u);
        return ERR_OK;
    case LINE_REVERSAL:
        other_row(f, "Credit", REVERSAL_TEXT, l->amount_u);
        return ERR_OK;
    }
    return ERR_CORRUPT;
}

/* What only a closed month has. */
static enum err close_rows(struct focus *f)
{
    struct statement_tax_list taxes = {0};
    enum err e = statement_tax_list(f->op->store, f->st.id, &taxes);

    if (e == ERR_OK && f->st.residue_u)
        other_row(f, "Adjustment", "residue below the smallest coin, given back", -f->st.residue_u);
    for (size_t i = 0; e == ERR_OK && i < taxes.len; i++)
        if (!taxes.at[i].inclusive && taxes.at[i].tax_minor)
            other_row(f, "Tax", taxes.at[i].class, taxes.at[i].tax_minor * f->st.minor_u);
    vec_fini(&taxes);
    return e;
}

static enum err month_rows(struct focus *f)
{
    bool closed = f->st.number[0] != '\0';

    TRY(bill_lines(&f->b, &f->month, closed ? &f->st : NULL, line_rows, f));
    TRY(commitment_backs(f));
    TRY(commitment_unused(f));
    return closed ? close_rows(f) : ERR_OK;
}

enum err op_usage_focus(struct op *op)
{
    struct focus *f = mem_alloc(sizeof(*f));
    AUTO_FREE struct focus *owned UNUSED = f;
    struct statement_list closed = {0};
    struct party_row seller;
    bool given;

    f->op = op;
    TRY(people_try(op, store_project_get(op->store, op->who.project, &f->project)));
    TRY(books_open(op->store, op->now, f->project.id, &f->b, &op->why));
    TRY(month_arg(op, &f->b, &given, &f->month));
    TRY(party_get(op->store, "", &seller));
    (void)str_copy(f->issuer, sizeof(f->issuer), seller.name[0] ? seller.name : "Suanli");
    enum err e = statement_list(op->store, f->project.id, &closed);
    for (size_t i = 0; i < closed.len; i++)
        if (closed.at[i].year == f->month.year && closed.at[i].month == f->month.month &&
            closed.at[i].closed)
            f->st = closed.at[i];
    vec_fini(&closed);
    if (e == ERR_OK)
        e = month_rows(f);
    vec_fini(&f->used);
    return people_try(op, e);
}
