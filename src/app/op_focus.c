/* op_focus.c: the FOCUS 1.2 rows of a month, one JSON object a line with every column (null:
 * absent).
 *
 * A usage row is one hour of one rating window: it raises the window's quantity from x_QuantityFrom
 * to x_QuantityTo and costs F(to) − F(from), so that any sum of rows is what was charged. Once the
 * month is closed the rows carry its number, and credits, corrections, the residue and taxes on top
 * are rows too: Σ BilledCost of a number is what it asks for. */
#include "app/funds_int.h"
#include "app/op_money.h"
#include "store/rows_close.h"
#include "store/rows_proof.h"

#include <stdio.h>

#define VALUE_SIZE 256
#define HOUR_S 3600

enum column {
#define FOCUS(name) C_##name,
#include "app/focus.def"
#undef FOCUS
    COLUMNS
};
static const char *const names[] = {
#define FOCUS(name) #name,
#include "app/focus.def"
#undef FOCUS
};

struct focus {
    struct op *op;
    struct books b;
    struct project project;
    struct period month;
    struct statement_row st; /* number "": not closed */
    char v[COLUMNS][VALUE_SIZE];
};

#define SET(f, column, ...) ((void)str_printf((f)->v[C_##column], VALUE_SIZE, __VA_ARGS__))

static void write_row(struct focus *f)
{
    struct json_writer *j = &f->op->out;

    json_writer_init(j, j->out);
    json_object_begin(j, NULL);
    for (size_t i = 0; i < COLUMNS; i++)
        json_str(j, names[i], f->v[i][0] ? f->v[i] : NULL);
    json_object_finish(j);
    strbuf_add(j->out, "\n");
}

static void set_time(char v[VALUE_SIZE], int64_t s)
{
    struct zone utc;
    struct civil c;

    CHECK(zone_builtin("UTC", &utc));
    civil_from(&utc, s, &c);
    (void)str_printf(v, VALUE_SIZE, "%04" PRId64 "-%02d-%02dT%02d:%02d:%02dZ", c.year, c.month,
                     c.day, c.hour, c.minute, c.second);
}

/* n/d with up to nine decimals, cut. */
static void set_decimal(char v[VALUE_SIZE], __int128 n, __int128 d)
{
    __int128 whole = n / d, part = (n % d) * 1000000000 / d;

    (void)str_printf(v, VALUE_SIZE, "%" PRId64 ".%09" PRId64, (int64_t)whole, (int64_t)part);
}

static void set_cost(struct focus *f, int64_t u)
{
    char text[MONEY_TEXT_SIZE];

    money_format(money_of(u, f->b.ccy), text, sizeof(text));
    SET(f, BilledCost, "%s", text);
    SET(f, EffectiveCost, "%s", text);
    SET(f, ListCost, "%s", text);
    SET(f, ContractedCost, "%s", text);
    SET(f, x_PostedMicro, "%" PRId64, u);
}

/* What every row says. */
static void row_begin(struct focus *f)
{
    memset(f->v, 0, sizeof(f->v));
    SET(f, BillingAccountId, "%s", f->project.id.s);
    SET(f, BillingAccountName, "%s", f->project.name);
    SET(f, BillingAccountType, "Project");
    SET(f, SubAccountId, "%s", f->project.id.s);
    SET(f, SubAccountName, "%s", f->project.name);
    SET(f, SubAccountType, "Project");
    SET(f, BillingCurrency, "%s", f->b.ccy.code);
    set_time(f->v[C_BillingPeriodStart], f->month.from_s);
    set_time(f->v[C_BillingPeriodEnd], f->month.to_s);
    SET(f, InvoiceIssuerName, "Suanli");
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
    [METER_EGRESS] = {"Networking", "Network Connectivity", "Traffic", "GB", "B", 1000000000},
};

/* "team=vision,run" as {"team":"vision","run":""}. */
static void set_tags(struct focus *f, const char *labels)
{
    AUTO_STRBUF struct strbuf out = {0};
    struct json_writer w;
    char copy[TEXT_SIZE], *save = NULL;

    if (!labels[0] || !str_copy(copy, sizeof(copy), labels))
        return;
    strbuf_init(&out, VALUE_SIZE - 1);
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

static enum err usage_begin(struct focus *f, const struct window_row *w, const struct rate *rate)
{
    const struct service *s = &services[w->meter];

    row_begin(f);
    SET(f, ChargeCategory, "Usage");
    SET(f, ChargeFrequency, "Usage-Based");
    SET(f, PricingCategory, "Standard");
    SET(f, PricingUnit, "%s", s->unit);
    SET(f, ConsumedUnit, "%s", s->consumed);
    SET(f, ServiceCategory, "%s", s->category);
    SET(f, ServiceSubcategory, "%s", s->subcategory);
    SET(f, ServiceName, "%s", s->name);
    SET(f, SkuId, "%s", w->sku);
    SET(f, SkuMeter, "%s", meter_name(w->meter));
    SET(f, SkuPriceId, "%s", w->price.s);
    set_decimal(f->v[C_ListUnitPrice], (__int128)rate->tiers[0].p * s->per_unit,
                (__int128)rate->d * MICRO_PER_MAJOR);
    memcpy(f->v[C_ContractedUnitPrice], f->v[C_ListUnitPrice], VALUE_SIZE);
    SET(f, x_PriceNumerator, "%" PRId64, rate->tiers[0].p);
    SET(f, x_PriceDenominator, "%" PRId64, rate->d);
    SET(f, x_Window, "%s", w->id);
    SET(f, x_Simulated, "%s", w->simulated ? "true" : "false");
    return set_resource(f, w);
}

/* [from, to) of one hour raises the window from a to b. */
static enum err usage_row(struct focus *f, const struct window_row *w, const struct rate *rate,
                          const struct span_row *span, int64_t from_s, int64_t to_s, int64_t a,
                          int64_t b)
{
    const struct service *s = &services[w->meter];
    int64_t u;

    TRY(rate_delta(rate, a, b, &u));
    TRY(usage_begin(f, w, rate));
    set_time(f->v[C_ChargePeriodStart], from_s);
    set_time(f->v[C_ChargePeriodEnd], to_s);
    set_decimal(f->v[C_PricingQuantity], b - a, s->per_unit);
    SET(f, ConsumedQuantity, "%" PRId64, b - a);
    SET(f, ChargeDescription, "%s, %" PRId64 " %s", w->sku, b - a, meter_unit(w->meter));
    if (w->meter == METER_GPU)
        SET(f, SkuPriceDetails, "{\"GpuCount\":%" PRId64 ",\"x_GpuModel\":\"%s\"}", span->qty_per_s,
            w->sku + strlen("gpu."));
    SET(f, x_QuantityFrom, "%" PRId64, a);
    SET(f, x_QuantityTo, "%" PRId64, b);
    set_cost(f, u);
    write_row(f);
    return ERR_OK;
}

/* Hour rows of a window up to quantity max. */
static enum err window_rows(struct focus *f, const struct window_row *w, int64_t max)
{
    struct span_list spans = {0};
    struct rate rate;
    int64_t qty = 0;
    enum err e = window_rate(f->op->store, w, &rate);

    if (e == ERR_OK)
        e = proof_spans(f->op->store, w->id, INT64_MAX, &spans);
    for (size_t i = 0; i < spans.len && e == ERR_OK; i++) {
        const struct span_row *s = &spans.at[i];

        for (int64_t at = s->from_s; at < s->to_s && qty < max && e == ERR_OK;) {
            int64_t end = MIN((at / HOUR_S + 1) * HOUR_S, s->to_s);
            int64_t more = s->qty_per_s ? (end - at) * s->qty_per_s : s->qty;
            int64_t to = MIN(qty + more, max);

            if (!s->qty_per_s)
                end = s->to_s;
            e = usage_row(f, w, &rate, s, at, end, qty, to);
            qty = to;
            at = end;
        }
    }
    vec_fini(&spans);
    return e;
}

/* A row of a closed month that is no usage of it. */
static void other_row(struct focus *f, const char *category, const char *class, const char *text,
                      int64_t u)
{
    row_begin(f);
    SET(f, ChargeCategory, "%s", category);
    SET(f, ChargeClass, "%s", class);
    SET(f, ChargeFrequency, "One-Time");
    SET(f, ChargeDescription, "%s", text);
    SET(f, ServiceCategory, "Other");
    SET(f, ServiceName, "Suanli");
    memcpy(f->v[C_ChargePeriodStart], f->v[C_BillingPeriodStart], VALUE_SIZE);
    memcpy(f->v[C_ChargePeriodEnd], f->v[C_BillingPeriodEnd], VALUE_SIZE);
    set_cost(f, u);
    write_row(f);
}

#define REVERSAL_TEXT "spot run reclaimed within its free time, given back"

static enum err line_rows(void *user, const struct line_row *l)
{
    struct focus *f = user;
    struct window_row w;

    switch (l->kind) {
    case LINE_USAGE:
        TRY(money_window_get(f->op->store, l->source, &w));
        return window_rows(f, &w, l->qty_to);
    case LINE_CORRECTION:
        other_row(f, "Usage", "Correction", l->sku, l->amount_u);
        return ERR_OK;
    case LINE_CHARGE:
        other_row(f, l->amount_u < 0 ? "Credit" : "Purchase", "", l->sku, l->amount_u);
        return ERR_OK;
    case LINE_CREDIT:
        other_row(f, "Credit", "", l->source, l->amount_u);
        return ERR_OK;
    case LINE_REVERSAL:
        other_row(f, "Credit", "", REVERSAL_TEXT, l->amount_u);
        return ERR_OK;
    }
    return ERR_CORRUPT;
}

static enum err closed_rows(struct focus *f)
{
    struct statement_tax_list taxes = {0};
    enum err e = line_each(f->op->store, f->st.id, line_rows, f);

    if (e == ERR_OK && f->st.residue_u)
        other_row(f, "Adjustment", "", "residue below the smallest coin, given back",
                  -f->st.residue_u);
    if (e == ERR_OK)
        e = statement_tax_list(f->op->store, f->st.id, &taxes);
    for (size_t i = 0; e == ERR_OK && i < taxes.len; i++)
        if (!taxes.at[i].inclusive && taxes.at[i].tax_minor)
            other_row(f, "Tax", "", taxes.at[i].class, taxes.at[i].tax_minor * f->st.minor_u);
    vec_fini(&taxes);
    return e;
}

static enum err open_rows(struct focus *f)
{
    struct window_list windows = {0};
    enum err e =
        money_window_month(f->op->store, f->project.id, f->month.year, f->month.month, &windows);

    for (size_t i = 0; i < windows.len && e == ERR_OK; i++)
        e = window_rows(f, &windows.at[i], windows.at[i].qty);
    for (size_t i = 0; i < windows.len && e == ERR_OK; i++)
        if (windows.at[i].reversed_u)
            other_row(f, "Credit", "", REVERSAL_TEXT, -windows.at[i].reversed_u);
    vec_fini(&windows);
    return e;
}

enum err op_usage_focus(struct op *op)
{
    struct focus *f = mem_alloc(sizeof(*f));
    AUTO_FREE struct focus *owned UNUSED = f;
    struct statement_list closed = {0};
    bool given;

    f->op = op;
    TRY(people_try(op, store_project_get(op->store, op->who.project, &f->project)));
    TRY(books_open(op->store, op->now, f->project.id, &f->b, &op->why));
    TRY(month_arg(op, &f->b, &given, &f->month));
    enum err e = statement_list(op->store, f->project.id, &closed);
    for (size_t i = 0; i < closed.len; i++)
        if (closed.at[i].year == f->month.year && closed.at[i].month == f->month.month &&
            closed.at[i].closed)
            f->st = closed.at[i];
    vec_fini(&closed);
    if (e == ERR_OK)
        e = f->st.number[0] ? closed_rows(f) : open_rows(f);
    return people_try(op, e);
}
