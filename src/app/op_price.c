/* op_price.c: the price book. A version never changes; a new one is valid from now or later. */
#include "app/op_money.h"
#include "base/msg.h"
#include "base/units.h"

struct unit {
    const char *name;
    int64_t d; /* base units in one */
};

/* What a SKU is sold by, and the base units in one of it: never rounded (money.md 1.1). */
static bool unit_of(const char *sku, struct unit *ret_u)
{
    static const struct {
        const char *sku;
        struct unit unit;
    } units[] = {
        {"cpu.seat", {"hour", 3600}},
        {"disk", {"GiB-day", INT64_C(1024) * DAY_S}},
        {"disk.stopped", {"GiB-day", INT64_C(1024) * DAY_S}},
        {"disk.detached", {"GiB-day", INT64_C(1024) * DAY_S}},
        {"egress", {"GiB", INT64_C(1) << 30}},
    };

    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (str_eq(sku, units[i].sku)) {
            *ret_u = units[i].unit;
            return true;
        }
    *ret_u = (struct unit){"hour", 3600};
    return str_starts(sku, "gpu.") && strlen(sku) > strlen("gpu.") && strlen(sku) < SKU_SIZE;
}

static enum err price_rate_of(const struct price_row *row, struct rate *ret_r)
{
    return rate_flat((struct price_rate){row->p, row->d}, ret_r);
}

/* The second at which it binds what runs already: a rise after its notice. */
static int64_t binds_running(const struct price_row *row, const struct rate *before)
{
    struct rate rate;

    if (!before || price_rate_of(row, &rate) != ERR_OK || !rate_rises(before, &rate))
        return row->valid_from_s;
    return MAX(row->valid_from_s, row->announced_s + row->notice_s);
}

/* affected < 0: not asked. before: the price it follows, or NULL. */
static enum err write_price(struct op *op, const struct price_row *row, const struct rate *before,
                            int64_t affected)
{
    struct currency ccy;
    struct rate rate;

    TRY(currency_get(core_config_of(op->core)->currency, &ccy));
    TRY(price_rate_of(row, &rate));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", row->id.s);
    json_str(&op->out, "sku", row->sku);
    json_money(&op->out, "price", row->unit_u, ccy);
    json_str(&op->out, "unit", row->unit);
    json_rate(&op->out, "rate", &rate);
    json_time(&op->out, "valid_from", row->valid_from_s * MS_PER_S);
    json_time(&op->out, "announced_at", row->announced_s * MS_PER_S);
    if (affected < 0)
        json_none(&op->out, "affected");
    else
        json_i64(&op->out, "affected", affected);
    json_time(&op->out, "binds_running_from", binds_running(row, before) * MS_PER_S);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_price_list(struct op *op)
{
    struct price_row_list list = {0};
    struct page page;
    enum err e = page_open(op, &page);

    if (e == ERR_OK)
        e = money_price_list_all(op->store, &list);
    for (size_t i = 0; e == ERR_OK && i < list.len; i++) {
        struct rate before;
        bool follows = i > 0 && str_eq(list.at[i - 1].sku, list.at[i].sku);

        if (follows)
            e = price_rate_of(&list.at[i - 1], &before);
        if (e == ERR_OK && page_takes(&page, list.at[i].id.s))
            e = write_price(op, &list.at[i], follows ? &before : NULL, -1);
    }
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

/* Running instances (or disks) that pay by this SKU now. */
static enum err count_affected(struct op *op, const char *sku, int64_t *ret_n)
{
    struct fund_lease_list leases = {0};
    enum err e = money_lease_open_all(op->store, &leases);
    int64_t n = 0, disks = 0;

    for (size_t i = 0; i < leases.len; i++)
        n += str_eq(leases.at[i].sku, sku);
    vec_fini(&leases);
    TRY(e);
    for (enum meter m = METER_DISK; m <= METER_DISK_DETACHED; m++) {
        char of[SKU_SIZE];

        funds_sku(m, "", of);
        if (str_eq(of, sku))
            TRY(money_disk_count(op->store, m, &disks));
    }
    *ret_n = n + disks;
    return ERR_OK;
}

static enum err read_price(struct op *op, struct price_row *row)
{
    const char *sku = people_arg(op, "sku", ""), *unit = people_arg(op, "unit", NULL);
    const char *from = people_arg(op, "from", NULL);
    struct currency ccy;
    struct unit u;
    utime_t at = op->now;

    if (!unit_of(sku, &u))
        return people_invalid(op, "sku",
                              N_("one of gpu.MODEL, cpu.seat, disk, disk.stopped, disk.detached, "
                                 "egress"));
    if (unit && !str_eq(unit, u.name))
        return people_invalid(op, "unit", u.name);
    if (from && (time_parse(from, &at) != ERR_OK || at < op->now))
        return people_invalid(op, "from", N_("a price is never changed for the past"));
    TRY(currency_get(core_config_of(op->core)->currency, &ccy));
    TRY(money_arg(op, "price", ccy, &row->unit_u));
    (void)str_copy(row->sku, sizeof(row->sku), sku);
    (void)str_copy(row->unit, sizeof(row->unit), u.name);
    row->id = core_id(op->core, "prc");
    row->p = row->unit_u;
    row->d = u.d;
    row->valid_from_s = from ? (at + MS_PER_S - 1) / MS_PER_S : op->now / MS_PER_S;
    row->announced_s = op->now / MS_PER_S;
    row->notice_s = PRICE_NOTICE_S;
    return ERR_OK;
}

enum err op_price_set(struct op *op)
{
    AUTO_PRICES struct prices known = {0};
    struct price_row row = {0};
    const struct rate *before = NULL;
    int64_t affected, started = 0;

    TRY(read_price(op, &row));
    (void)str_copy(op->object, sizeof(op->object), row.sku);
    enum err e = prices_load(op->store, row.sku, &known, NULL);
    if (e != ERR_OK && e != ERR_PRICE_UNKNOWN)
        return e;
    /* what started in this very second keeps the price that it was shown */
    TRY(money_started_last(op->store, &started));
    row.valid_from_s = MAX(row.valid_from_s, started + 1);
    for (size_t i = 0; i < known.n; i++)
        if (known.v[i].valid_from_s <= row.valid_from_s)
            before = &known.v[i].rate;
    if (known.n >= PRICE_VERSIONS_MAX)
        return refusef(&op->why, ERR_TOO_LARGE, "what", "%s", row.sku);
    TRY(count_affected(op, row.sku, &affected));
    TRY(money_price_add(op->store, &row));
    return write_price(op, &row, before, affected);
}
