#include "app/supply.h"

#include "app/funds_int.h"
#include "domain/payout.h"

#define DUE_MAX 500 /* sources a tick shares; the next one goes on */

static enum err books_of_platform(struct store *s, utime_t now, const char *currency,
                                  struct books *ret_b)
{
    *ret_b = (struct books){.store = s, .now = now, .now_s = now / MS_PER_S};
    return currency_get(currency, &ret_b->ccy);
}

static void provider_account(char ret_id[LEDGER_KEY_SIZE], struct id supplier, const char *part,
                             struct currency ccy)
{
    CHECK(str_printf(ret_id, LEDGER_KEY_SIZE, "provider.%s.%s.%s", supplier.s, part, ccy.code));
}

/* The supplier's part of what a source brought since it was shared last. */
static enum err share(struct store *s, utime_t now, const struct supply_due *d, struct refusal *why)
{
    struct supplier x;
    const struct payout_share shares[] = {{d->known.share_n, d->known.share_d}, {0, 0}};
    struct supply_gross g = d->known;
    struct ledger_transfer t;
    struct books b;
    int64_t part[2];

    TRY(supply_get(s, g.supplier, &x));
    TRY(books_of_platform(s, now, g.currency, &b));
    TRY(payout_delta(shares, 2, g.gross_u, d->gross_u, part));
    g.gross_u = d->gross_u;
    g.shared_u += part[0];
    g.posts++;
    if (part[0] != 0) {
        char group[LEDGER_KEY_SIZE];

        CHECK(str_printf(group, sizeof(group), "shr.%" PRId64 ".%s", g.posts, g.source));
        t = transfer_of(&b, group, part[0] > 0 ? "share" : "share_back");
        memcpy(t.id, group, sizeof(t.id));
        CHECK(str_copy(t.owner, sizeof(t.owner), g.source));
        account_id(t.dr, meter_revenue(d->meter), b.ccy.code);
        provider_account(t.cr, g.supplier, x.dispute_s > 0 ? "held" : "payable", b.ccy);
        t.amount = part[0];
        if (part[0] < 0) {
            memcpy(t.cr, t.dr, sizeof(t.cr));
            provider_account(t.dr, g.supplier, "payable", b.ccy);
            t.amount = -part[0];
        }
        TRY(ledger_post(&b, &t, 1, why));
    }
    if (part[0] > 0 && x.dispute_s > 0)
        TRY(supply_day_add(s, g.supplier, g.currency, b.now_s / DAY_S, part[0]));
    return supply_gross_save(s, &g);
}

/* A day's earnings whose dispute window is over. */
static enum err release(struct store *s, utime_t now, struct supply_day *day, struct refusal *why)
{
    char group[LEDGER_KEY_SIZE];
    struct ledger_transfer t;
    struct books b;

    TRY(books_of_platform(s, now, day->currency, &b));
    CHECK(str_printf(group, sizeof(group), "rel.%s.%s.%" PRId64, day->supplier.s, day->currency,
                     day->day));
    t = transfer_of(&b, group, "release");
    memcpy(t.id, group, sizeof(t.id));
    provider_account(t.dr, day->supplier, "held", b.ccy);
    provider_account(t.cr, day->supplier, "payable", b.ccy);
    t.amount = day->held_u;
    TRY(ledger_post(&b, &t, 1, why));
    day->released = true;
    return supply_day_save(s, day);
}

static enum err release_all(struct store *s, utime_t now, struct refusal *why)
{
    struct supplier_list suppliers = {0};
    enum err e = supply_list(s, &suppliers);

    for (size_t i = 0; i < suppliers.len && e == ERR_OK; i++) {
        struct supply_day_list days = {0};
        /* the whole day must be over, and then the window */
        int64_t before = (now / MS_PER_S - suppliers.at[i].dispute_s) / DAY_S;

        e = supply_day_list(s, suppliers.at[i].id, before, &days);
        for (size_t k = 0; k < days.len && e == ERR_OK; k++)
            e = release(s, now, &days.at[k], why);
        vec_fini(&days);
    }
    vec_fini(&suppliers);
    return e;
}

/* Shares at most DUE_MAX sources. */
static enum err share_some(struct store *s, utime_t now, bool *ret_more, struct refusal *why)
{
    struct supply_due_list due = {0};
    enum err e = supply_due_list(s, DUE_MAX, &due);

    for (size_t i = 0; i < due.len && e == ERR_OK; i++)
        e = share(s, now, &due.at[i], why);
    *ret_more = due.len == DUE_MAX;
    vec_fini(&due);
    return e;
}

enum err supply_share(struct store *s, utime_t now, struct refusal *why)
{
    bool more = true;

    while (more)
        TRY(share_some(s, now, &more, why));
    return release_all(s, now, why);
}

enum err supply_tick(struct store *s, utime_t now, struct refusal *why)
{
    int64_t hour = now / MS_PER_S / 3600, last;
    bool more;

    TRY(store_meta_get_i64(s, "supply.hour", 0, &last));
    if (hour == last)
        return ERR_OK;
    TRY(share_some(s, now, &more, why));
    TRY(release_all(s, now, why));
    return more ? ERR_OK : store_meta_set_i64(s, "supply.hour", hour);
}

enum err supply_balance(struct store *s, utime_t now, const struct supplier *x,
                        const char *currency, struct supply_balance *ret_b)
{
    struct ledger_account held, payable;
    struct payout_list paid = {0};
    char id[LEDGER_KEY_SIZE];
    struct books b;

    TRY(books_of_platform(s, now, currency, &b));
    *ret_b = (struct supply_balance){.ccy = b.ccy};
    provider_account(id, x->id, "held", b.ccy);
    TRY(account_load(s, id, b.ccy, &held));
    provider_account(id, x->id, "payable", b.ccy);
    TRY(account_load(s, id, b.ccy, &payable));
    ret_b->held_u = ledger_balance(&held);
    ret_b->payable_u = ledger_balance(&payable);
    enum err e = supply_payout_list(s, x->id, &paid);
    for (size_t i = 0; i < paid.len && e == ERR_OK; i++)
        if (str_eq(paid.at[i].currency, currency))
            e = micro_add(ret_b->paid_u, paid.at[i].amount_u, &ret_b->paid_u);
    vec_fini(&paid);
    return e;
}

enum err supply_payout(struct store *s, utime_t now, const struct supplier *x, const char *currency,
                       struct id id, struct payout *ret_p, struct refusal *why)
{
    struct payout p = {.id = id, .supplier = x->id, .at = now};
    struct supply_balance have;
    struct ledger_transfer t;
    struct books b;
    int64_t minor;

    TRY(supply_balance(s, now, x, currency, &have));
    TRY(books_of_platform(s, now, currency, &b));
    CHECK(str_copy(p.currency, sizeof(p.currency), currency));
    TRY(payout_run(have.payable_u, 0, x->threshold_u, &p.amount_u, &p.carried_u));
    minor = currency_minor_u(b.ccy);
    p.amount_u -= p.amount_u % minor; /* whole minor units leave; the rest stays payable */
    p.carried_u = have.payable_u - p.amount_u;
    *ret_p = p;
    if (p.amount_u == 0)
        return ERR_OK;
    t = transfer_of(&b, id.s, "payout");
    CHECK(str_copy(t.id, sizeof(t.id), id.s));
    CHECK(str_copy(t.owner, sizeof(t.owner), x->id.s));
    provider_account(t.dr, x->id, "payable", b.ccy);
    account_id(t.cr, "bank.payout", b.ccy.code);
    t.amount = p.amount_u;
    TRY(ledger_post(&b, &t, 1, why));
    return supply_payout_save(s, &p);
}
