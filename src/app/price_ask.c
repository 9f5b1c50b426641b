#include "app/price_ask.h"

#include <stdlib.h>

#include "base/msg.h"
#include "base/units.h"
#include "domain/package.h"

struct unit {
    const char *name;
    int64_t d; /* base units in one */
};

/* "gpu.<model>" that leaves room for the prefixes of its plans */
static bool is_card(const char *sku)
{
    return str_starts(sku, "gpu.") && strlen(sku) > strlen("gpu.") &&
           strlen("plan.month.") + strlen(sku) < SKU_SIZE;
}

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
        {"ingress", {"GiB", INT64_C(1) << 30}},
    };
    struct package_terms package;
    const char *covered;
    enum plan plan;

    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (str_eq(sku, units[i].sku)) {
            *ret_u = units[i].unit;
            return true;
        }
    if (plan_sku_parse(sku, &plan, &covered)) {
        *ret_u = (struct unit){plan_name(plan), 1};
        return is_card(covered);
    }
    if (package_sku_parse(sku, &package)) {
        *ret_u = (struct unit){"package", 1};
        return strlen(sku) < SKU_SIZE &&
               (str_eq(package.covered, "gpu") || is_card(package.covered));
    }
    *ret_u = (struct unit){"hour", 3600};
    if (str_starts(sku, "exclusive."))
        return is_card(sku + strlen("exclusive."));
    return is_card(str_starts(sku, "spot.") ? sku + strlen("spot.") : sku);
}

static enum err read_sku(struct op *op, struct price_row *row, struct unit *ret_u)
{
    const char *sku = people_arg(op, "sku", ""), *unit = people_arg(op, "unit", NULL);

    if (!unit_of(sku, ret_u))
        return people_invalid(op, "sku",
                              N_("one of gpu.MODEL, spot.gpu.MODEL, exclusive.gpu.MODEL, "
                                 "plan.day|week|month|year.gpu.MODEL, "
                                 "package.HOURS.day|week|month|year.gpu[.MODEL], cpu.seat, disk, "
                                 "disk.stopped, disk.detached, egress, ingress"));
    if (unit && !str_eq(unit, ret_u->name))
        return people_invalid(op, "unit", ret_u->name);
    (void)str_copy(row->sku, sizeof(row->sku), sku);
    (void)str_copy(row->unit, sizeof(row->unit), ret_u->name);
    return ERR_OK;
}

/* "FROM:PRICE": from so many units on (in one project and month) a unit costs that. */
static enum err read_tiers(struct op *op, const struct unit *u, struct currency ccy,
                           struct price_row *row)
{
    struct rate r = {.d = u->d, .tier_count = 1, .tiers = {{0, INT64_MAX, row->p}}};
    const json_t *v;
    size_t n;

    json_array_foreach(json_object_get(op->body, "tier"), n, v)
    {
        const char *text = json_string_value(v), *colon = strchr(text, ':');
        struct rate_tier *t = &r.tiers[r.tier_count];
        char from[24];
        struct money m;
        int64_t units;

        if (r.tier_count == RATE_TIERS_MAX || !colon ||
            !str_printf(from, sizeof(from), "%.*s", (int)MIN(colon - text, 23), text) ||
            str_parse_i64(from, 1, INT64_MAX / u->d - 1, &units) != ERR_OK ||
            money_parse(colon + 1, ccy, &m) != ERR_OK)
            return people_invalid(op, "tier", N_("UNITS:PRICE, such as 100:0.5; at most seven"));
        *t = (struct rate_tier){.from = units * u->d, .to = INT64_MAX, .p = m.u};
        r.tiers[r.tier_count - 1].to = t->from;
        r.tier_count++;
    }
    if (rate_check(&r) != ERR_OK)
        return people_invalid(op, "tier", N_("tiers rise, each begins above the one before"));
    rate_tiers_write(&r, row->tiers, sizeof(row->tiers));
    return ERR_OK;
}

static bool is_spot(const struct price_row *row)
{
    return str_starts(row->sku, "spot.");
}

static enum err read_extras(struct op *op, const struct unit *u, struct currency ccy,
                            struct price_row *row)
{
    const char *refund = people_arg(op, "refund", NULL);
    bool plan = u->d == 1 && !str_eq(u->name, "package"), hours = str_eq(u->name, "hour");
    enum plan_policy policy = PLAN_PRO_RATA;
    int64_t fee = 0;

    if (json_object_get(op->body, "tier") && (u->d == 1 || is_spot(row)))
        return people_invalid(op, "tier", N_("plans, packages and spot have one price"));
    TRY(read_tiers(op, u, ccy, row));
    if (people_arg(op, "day_cap", NULL)) {
        if (!hours || is_spot(row))
            return people_invalid(op, "day_cap", N_("only cards and cores have one"));
        TRY(money_arg(op, "day_cap", ccy, &row->cap_u));
        row->cap_qty = DAY_S;
    }
    if (refund && (!plan || !plan_policy_find(refund, &policy)))
        return people_invalid(op, "refund", N_("pro_rata or clawback, of a plan"));
    CHECK(json_get_i64(op->body, "fee", 0, &fee));
    if (fee < 0 || fee > 100 || (fee > 0 && policy != PLAN_CLAWBACK))
        return people_invalid(op, "fee", N_("0 to 100 percent, with --refund clawback"));
    row->policy = (int32_t)policy;
    row->fee_pct = (int32_t)fee;
    return ERR_OK;
}

enum err price_ask_read(struct op *op, struct price_row *ret_row)
{
    const char *code = people_arg(op, "currency", core_config_of(op->core)->currency);
    const char *from = people_arg(op, "from", NULL);
    struct price_row row = {.id = core_id(op->core, "prc"), .notice_s = PRICE_NOTICE_S};
    struct currency ccy;
    struct unit u;
    utime_t at = op->now;

    TRY(read_sku(op, &row, &u));
    if (currency_get(code, &ccy) != ERR_OK)
        return people_invalid(op, "currency", N_("a currency such as CNY"));
    if (from && (time_parse(from, &at) != ERR_OK || at < op->now))
        return people_invalid(op, "from", N_("a price is never changed for the past"));
    TRY(money_arg(op, "price", ccy, &row.unit_u));
    memcpy(row.currency, ccy.code, sizeof(row.currency));
    row.p = row.unit_u;
    row.d = u.d;
    row.valid_from_s = from ? (at + MS_PER_S - 1) / MS_PER_S : op->now / MS_PER_S;
    row.announced_s = op->now / MS_PER_S;
    if (is_spot(&row))
        row.notice_s = 0; /* a tick binds what runs at once; the bid is the renter's bound */
    TRY(read_extras(op, &u, ccy, &row));
    *ret_row = row;
    return ERR_OK;
}

/* The book of the row's SKU with the row in its place; ret_index: where. */
static enum err book_with(struct op *op, const struct price_row *row, struct prices *ret_p,
                          size_t *ret_index)
{
    struct currency ccy;
    size_t i = 0;

    TRY(currency_get(row->currency, &ccy));
    enum err e = prices_load(op->store, ccy, row->sku, ret_p, NULL);
    if (e != ERR_OK && e != ERR_PRICE_UNKNOWN)
        return e;
    for (i = 0; i < ret_p->n; i++)
        if (str_eq(ret_p->v[i].id.s, row->id.s)) {
            *ret_index = i;
            return ERR_OK;
        }
    if (ret_p->n >= PRICE_VERSIONS_MAX)
        return refusef(&op->why, ERR_TOO_LARGE, "what", "%s", row->sku);
    struct price_version *v = mem_alloc((ret_p->n + 1) * sizeof(v[0]));
    for (i = ret_p->n; i > 0 && ret_p->v[i - 1].valid_from_s > row->valid_from_s; i--)
        v[i] = ret_p->v[i - 1];
    v[i] = (struct price_version){.id = row->id,
                                  .valid_from_s = row->valid_from_s,
                                  .announced_s = row->announced_s,
                                  .notice_s = row->notice_s};
    e = price_row_rate(row, &v[i].rate);
    if (i > 0)
        memcpy(v, ret_p->v, i * sizeof(v[0]));
    free(ret_p->v);
    ret_p->v = v;
    ret_p->n++;
    *ret_index = i;
    return e;
}

static int by_project(const void *a, const void *b)
{
    return strcmp(((const struct fund_lease *)a)->project.s,
                  ((const struct fund_lease *)b)->project.s);
}

/* The SKU is that of the node which it has alone. */
static bool holds_node(const struct fund_lease *l, const char *sku)
{
    struct rating r;

    return rating_of_node(l, &r) && str_eq(r.sku, sku);
}

/* Running leases of the SKU and currency that the version will bind. */
static enum err reach_leases(struct op *op, const struct price_row *row, const struct prices *book,
                             size_t index, struct price_reach *io_r)
{
    struct fund_lease_list leases = {0};
    enum err e = money_lease_open_all(op->store, &leases);
    char last[ID_SIZE] = "";
    bool ours = false;

    if (leases.len > 0)
        qsort(leases.at, leases.len, sizeof(leases.at[0]), by_project);
    for (size_t i = 0; i < leases.len && e == ERR_OK; i++) {
        const struct fund_lease *l = &leases.at[i];
        bool next = !str_eq(last, l->project.s);

        if (!str_eq(l->sku, row->sku) && !holds_node(l, row->sku))
            continue;
        if (next) {
            struct project p;

            e = store_project_get(op->store, l->project, &p);
            ours = e == ERR_OK && str_eq(p.currency, row->currency);
            memcpy(last, l->project.s, sizeof(last));
        }
        int64_t at = ours ? price_binds_at(book->v, book->n, l->started_s, index) : INT64_MAX;
        if (at == INT64_MAX)
            continue;
        io_r->leases++;
        io_r->projects += io_r->projects == 0 || next;
        io_r->binds_s = MIN(io_r->binds_s, MAX(at, row->announced_s));
    }
    vec_fini(&leases);
    return e;
}

static enum err reach_disks(struct op *op, const struct price_row *row, struct price_reach *io_r)
{
    for (enum meter m = METER_DISK; m <= METER_DISK_DETACHED; m++) {
        char sku[SKU_SIZE];

        funds_sku(m, "", sku);
        if (str_eq(sku, row->sku))
            return money_disk_count(op->store, row->currency, m, &io_r->leases, &io_r->projects);
    }
    return ERR_OK;
}

enum err price_reach_of(struct op *op, const struct price_row *row, bool counted,
                        struct price_reach *ret_r)
{
    struct price_reach r = {.binds_s = INT64_MAX};
    AUTO_PRICES struct prices book = {0};
    struct price_row old;
    size_t index = 0;

    TRY(book_with(op, row, &book, &index));
    if (index > 0) {
        r.follows = true;
        r.before = book.v[index - 1].rate;
        TRY(money_price_get(op->store, book.v[index - 1].id, &old));
        r.before_unit_u = old.unit_u;
    }
    if (counted) {
        TRY(reach_leases(op, row, &book, index, &r));
        TRY(reach_disks(op, row, &r));
    }
    if (r.binds_s == INT64_MAX)
        r.binds_s = price_binds_at(book.v, book.n, row->announced_s, index);
    if (r.binds_s == INT64_MAX && !r.follows) /* the first of its book */
        r.binds_s = row->valid_from_s;
    *ret_r = r;
    return ERR_OK;
}

bool price_needs_second(const struct op *op, const struct price_row *row,
                        const struct price_reach *reach)
{
    const struct core_config *cfg = core_config_of(op->core);
    char tiers[RATE_TIERS_TEXT_SIZE];
    int64_t more, limit;

    if (!reach->follows || is_spot(row) ||
        (cfg->price_second_pct == 0 && cfg->price_second_amount == 0))
        return false;
    rate_tiers_write(&reach->before, tiers, sizeof(tiers));
    if (!str_eq(tiers, row->tiers) || reach->before.cap_qty != row->cap_qty ||
        reach->before.cap_u != row->cap_u)
        return true; /* tiers and caps have no one size of a change */
    more = row->unit_u > reach->before_unit_u ? row->unit_u - reach->before_unit_u
                                              : reach->before_unit_u - row->unit_u;
    if (cfg->price_second_amount > 0 && more > cfg->price_second_amount * MICRO_PER_MAJOR)
        return true;
    return cfg->price_second_pct > 0 &&
           micro_mul_div(reach->before_unit_u, cfg->price_second_pct, 100, &limit) == ERR_OK &&
           more > limit;
}
