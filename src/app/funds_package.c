#include "app/funds_package.h"

#include <stdlib.h>

#include "app/fund_source.h"
#include "base/msg.h"
#include "base/units.h"

static void units_id(const struct package_row *p, char ret_id[LEDGER_KEY_SIZE])
{
    account_id(ret_id, "package", p->id.s);
}

static enum err units_load(const struct books *b, const struct package_row *p,
                           struct ledger_account *ret_a)
{
    char id[LEDGER_KEY_SIZE];

    units_id(p, id);
    return account_load(b->store, id, b->ccy, ret_a);
}

static struct ledger_transfer units_transfer(const struct books *b, const char *group,
                                             const char *kind)
{
    struct ledger_transfer t = transfer_of(b, group, kind);

    CHECK(str_copy(t.ledger, sizeof(t.ledger), PACKAGE_LEDGER));
    return t;
}

/* ---- what is covered ---- */

static struct id *price_of(struct package_sources *x, const char *id)
{
    for (size_t i = 0; i < x->n; i++)
        if (str_eq(x->ids[i].s, id))
            return &x->prices[i];
    CHECK(false);
    return NULL;
}

/* What the lease's hold reserved and evidence did not use. */
static enum err load_held(const struct books *b, struct id lease, struct package_sources *x)
{
    struct package_part_list parts = {0};
    enum err e = package_part_of(b->store, lease, &parts);

    for (size_t i = 0; i < parts.len && x->n < PACKAGES_MAX; i++) {
        const struct package_part *p = &parts.at[i];

        x->ids[x->n] = p->package;
        x->prices[x->n] = p->price;
        x->p[x->n] = (struct package){.id = x->ids[x->n].s,
                                      .left = p->amount - p->used,
                                      .from_s = p->from_s,
                                      .expires_s = p->until_s};
        x->n++;
    }
    vec_fini(&parts);
    return e;
}

static int64_t reserved_of(const struct package_part_list *parts, struct id package)
{
    for (size_t i = 0; i < parts->len; i++)
        if (str_eq(parts->at[i].package.s, package.s))
            return parts->at[i].amount - parts->at[i].used;
    return 0;
}

/* What is free, and what the lease would give back of its present hold. */
static enum err load_anew(const struct books *b, const struct rating *r, struct package_sources *x)
{
    struct package_part_list parts = {0};
    struct package_list open = {0};
    enum err e = package_row_open(b->store, b->project, &open);

    if (e == ERR_OK && r->lease.s[0])
        e = package_part_of(b->store, r->lease, &parts);
    for (size_t i = 0; i < open.len && e == ERR_OK && x->n < PACKAGES_MAX; i++) {
        const struct package_row *p = &open.at[i];
        struct ledger_account a;

        if (!package_covers(p->sku, r->sku))
            continue;
        e = units_load(b, p, &a);
        x->ids[x->n] = p->id;
        x->prices[x->n] = p->price;
        x->p[x->n] = (struct package){.id = x->ids[x->n].s,
                                      .wide = str_eq(p->sku, "gpu"),
                                      .left = ledger_available(&a) + reserved_of(&parts, p->id),
                                      .from_s = p->start_s,
                                      .expires_s = p->expires_s};
        x->n++;
    }
    vec_fini(&open);
    vec_fini(&parts);
    package_rank(x->p, x->n);
    return e;
}

enum err package_load(const struct books *b, const struct rating *r, struct package_sources *x)
{
    x->n = 0;
    if (r->meter != METER_GPU || r->packages == RATING_BY_MONEY)
        return ERR_OK;
    return r->packages == RATING_HELD ? load_held(b, r->lease, x) : load_anew(b, r, x);
}

enum err package_split(struct package_sources *x, int64_t qty_per_s, int64_t from_s, int64_t to_s,
                       struct cover c[COVERS_MAX], size_t *io_n)
{
    while (from_s < to_s) {
        struct cover part = {.from_s = from_s, .to_s = to_s};
        size_t i;

        if (*io_n == COVERS_MAX)
            return ERR_TOO_LARGE;
        if (package_next(x->p, x->n, qty_per_s, from_s, to_s, &i, &part.to_s)) {
            CHECK(str_copy(part.package.s, sizeof(part.package.s), x->p[i].id));
            part.price = *price_of(x, x->p[i].id);
        }
        c[(*io_n)++] = part;
        from_s = part.to_s;
    }
    return ERR_OK;
}

enum err package_reach(const struct books *b, const struct rating *r, int64_t to_s, int64_t *ret_s)
{
    struct rating x = *r;
    struct cover c[COVERS_MAX];
    size_t n;

    x.packages = RATING_ANEW;
    *ret_s = to_s;
    TRY(cover_split(b, &x, b->now_s, to_s, c, &n));
    for (size_t i = 0; i < n; i++)
        if (!c[i].price.s[0])
            *ret_s = MIN(*ret_s, c[i].from_s);
    return ERR_OK;
}

enum err package_use(const struct books *b, struct id lease, struct id package, int64_t qty,
                     struct refusal *why)
{
    struct package_part_list parts = {0};
    enum err e = package_part_of(b->store, lease, &parts);

    for (size_t i = 0; i < parts.len && e == ERR_OK && qty > 0; i++) {
        struct package_part *p = &parts.at[i];

        if (!str_eq(p->package.s, package.s) || p->amount - p->used < qty)
            continue;
        p->used += qty;
        qty = 0;
        e = package_part_save(b->store, p);
    }
    vec_fini(&parts);
    if (e == ERR_OK && qty > 0)
        e = refusef(why, ERR_INTERNAL, "why", "lease %s used %" PRId64 " more of %s than it held",
                    lease.s, qty, package.s);
    return e;
}

/* ---- holds ---- */

static void settle_parts(const struct books *b, const struct fund_lease *l, const char *group,
                         const struct package_part_list *parts, struct transfer_list *g)
{
    for (size_t i = 0; i < parts->len; i++) {
        const struct package_part *p = &parts->at[i];
        struct ledger_transfer *t = vec_push(g);

        *t = units_transfer(b, group, p->used > 0 ? "cover" : "release");
        t->step = p->used > 0 ? LEDGER_POST : LEDGER_VOID;
        t->amount = p->used;
        bool ok = str_printf(t->id, sizeof(t->id), "end.%s", p->transfer) &&
                  str_copy(t->pending, sizeof(t->pending), p->transfer) &&
                  str_copy(t->owner, sizeof(t->owner), l->lease.s);
        CHECK(ok);
    }
}

/* What the plan covers before until_s, package by package, in the order of use. */
static enum err reserve(const struct books *b, const struct fund_lease *l,
                        const struct term_plan *plan, int64_t until_s,
                        struct package_part_list *rows)
{
    for (size_t i = 0; i < plan->covers; i++) {
        const struct cover *c = &plan->cover[i];
        int64_t s = MIN(c->to_s, until_s) - c->from_s;
        struct package_part *row = NULL;
        struct package_row p;

        if (s <= 0)
            continue;
        for (size_t k = 0; k < rows->len; k++)
            if (str_eq(rows->at[k].package.s, c->package.s))
                row = &rows->at[k];
        if (!row) {
            TRY(package_row_get(b->store, c->package, &p));
            row = vec_push(rows);
            *row = (struct package_part){.lease = l->lease,
                                         .n = (int64_t)rows->len - 1,
                                         .package = p.id,
                                         .price = p.price,
                                         .from_s = p.start_s,
                                         .until_s = p.expires_s};
            CHECK(str_printf(row->transfer, sizeof(row->transfer), "cover.%s.%" PRId64 ".%zu",
                             l->lease.s, l->terms, rows->len - 1));
        }
        row->amount += s * l->qty_per_s;
    }
    return ERR_OK;
}

enum err package_move(const struct books *b, const struct fund_lease *l,
                      const struct term_plan *plan, int64_t until_s, const char *group,
                      struct transfer_list *g, struct package_part_list *ret_rows)
{
    struct package_part_list old = {0};
    enum err e = package_part_of(b->store, l->lease, &old);

    if (e == ERR_OK)
        settle_parts(b, l, group, &old, g);
    vec_fini(&old);
    TRY(e);
    if (plan)
        TRY(reserve(b, l, plan, until_s, ret_rows));
    for (size_t i = 0; i < ret_rows->len; i++) {
        const struct package_part *p = &ret_rows->at[i];
        struct ledger_transfer *t = vec_push(g);

        *t = units_transfer(b, group, "hold");
        t->step = LEDGER_PENDING;
        t->amount = p->amount;
        t->expires_ms = (until_s + FUNDS_HOLD_KEEP_S) * MS_PER_S;
        memcpy(t->id, p->transfer, sizeof(t->id));
        CHECK(str_copy(t->owner, sizeof(t->owner), l->lease.s));
        account_id(t->dr, "package", p->package.s);
        account_id(t->cr, "covered", PACKAGE_LEDGER);
    }
    return ERR_OK;
}

enum err package_renew(const struct books *b, struct id lease, const struct package_part_list *rows)
{
    TRY(package_part_clear(b->store, lease));
    for (size_t i = 0; i < rows->len; i++)
        TRY(package_part_save(b->store, &rows->at[i]));
    return ERR_OK;
}

/* ---- buying ---- */

static enum err room_for_one(const struct books *b, struct refusal *why)
{
    struct package_list open = {0};
    enum err e = package_row_open(b->store, b->project, &open);

    if (e == ERR_OK && open.len >= PACKAGES_MAX)
        e = refusef(why, ERR_TOO_LARGE, "what", "%s", "the list of open packages");
    vec_fini(&open);
    return e;
}

enum err package_quote(const struct books *b, const struct package_ask *ask,
                       struct package_row *ret_p, struct refusal *why)
{
    struct package_row p = {.id = ask->id,
                            .project = b->project,
                            .price = ask->price,
                            .start_s = b->now_s,
                            .recognised_s = b->now_s};
    struct package_terms terms;
    struct rate rate;

    if (!package_sku_parse(ask->sku, &terms))
        return refusef(why, ERR_PRICE_UNKNOWN, "sku", "%s", ask->sku);
    TRY(funds_price(b->store, b->now, b->ccy, ask->sku, &p.offer, &rate, why));
    TRY(rate_total(&rate, 1, &p.paid_u));
    CHECK(str_copy(p.sku, sizeof(p.sku), terms.covered));
    p.seconds = terms.hours * 3600;
    p.expires_s = calendar_plan_end(&b->zone, b->now_s, terms.unit, 1);
    TRY(room_for_one(b, why));
    *ret_p = p;
    return ERR_OK;
}

/* As a plan's: no unit, no list shows it. */
static enum err cover_price(const struct books *b, const struct package_row *p)
{
    struct price_row row = {
        .id = p->price, .d = 1, .valid_from_s = p->start_s, .announced_s = p->start_s};
    bool ok = str_printf(row.sku, sizeof(row.sku), "package.%s", p->id.s) &&
              str_copy(row.currency, sizeof(row.currency), b->ccy.code);

    CHECK(ok);
    return money_price_add(b->store, &row);
}

/* It counts for the budgets of who bought it, on its day. */
static enum err budget_take(const struct books *b, const struct package_row *p,
                            const struct funds_spender *spender, struct refusal *why)
{
    struct funds_lease scopes = {.lease = p->id, .spender = *spender};
    struct period day;

    TRY(budget_room(b, spender, p->paid_u, why));
    TRY(lease_scopes_save(b->store, &scopes));
    period_day_at(&b->zone, b->now_s, &day);
    return p->paid_u > 0 ? money_scope_day_add(b->store, b->project, p->id, day.from_s, p->paid_u)
                         : ERR_OK;
}

static enum err pay(const struct books *b, const struct package_row *p, struct refusal *why)
{
    struct fund_purchase buy = {
        .id = p->id, .meter = METER_GPU, .sku = p->sku, .amount_u = p->paid_u};
    struct ledger_transfer t = units_transfer(b, p->id.s, "issue");
    char account[LEDGER_KEY_SIZE];
    struct fund_split split;

    account_id(account, "deferred", p->id.s);
    buy.account = account;
    TRY(fund_pay(b, &buy, &split, why));
    account_id(t.id, "issue", p->id.s);
    account_id(t.dr, "issued", PACKAGE_LEDGER);
    units_id(p, t.cr);
    CHECK(str_copy(t.owner, sizeof(t.owner), p->id.s));
    t.amount = p->seconds;
    return ledger_post(b, &t, 1, why);
}

/* What runs reserves of it from now on, not only with its next term. */
static enum err rehold_all(const struct books *b, const struct package_row *p, struct refusal *why)
{
    struct fund_lease_list leases = {0};
    enum err e = money_lease_open(b->store, b->project, &leases);

    for (size_t i = 0; i < leases.len && e == ERR_OK; i++)
        if (leases.at[i].stop_ms == UTIME_NEVER && package_covers(p->sku, leases.at[i].sku))
            e = plan_rehold(b, leases.at[i].instance, why);
    vec_fini(&leases);
    return e;
}

enum err package_buy(const struct books *b, const struct package_ask *ask,
                     struct package_row *ret_p, struct refusal *why)
{
    TRY(package_quote(b, ask, ret_p, why));
    TRY(cover_price(b, ret_p));
    TRY(budget_take(b, ret_p, &ask->spender, why));
    TRY(package_row_save(b->store, ret_p));
    TRY(pay(b, ret_p, why));
    return rehold_all(b, ret_p, why);
}

/* ---- what is left, what is earned ---- */

enum err package_look(const struct books *b, const struct package_row *p,
                      struct package_view *ret_v)
{
    struct ledger_account a;
    int64_t used;

    TRY(units_load(b, p, &a));
    TRY(package_part_used(b->store, p->id, &used));
    *ret_v = (struct package_view){.used = a.dr_posted - p->lapsed + used,
                                   .reserved = a.dr_pending - used,
                                   .left = ledger_available(&a)};
    return ERR_OK;
}

static struct ledger_transfer money_out(const struct books *b, const struct package_row *p,
                                        const char *kind, const char *to, int64_t u)
{
    struct ledger_transfer t = transfer_of(b, p->id.s, kind);
    bool ok;

    ok = str_printf(t.id, sizeof(t.id), "%s.%s.%" PRId64, kind, p->id.s, b->now_s) &&
         str_copy(t.owner, sizeof(t.owner), p->id.s);
    CHECK(ok);
    account_id(t.dr, "deferred", p->id.s);
    account_id(t.cr, to, b->ccy.code);
    t.amount = u;
    return t;
}

static enum err recognise(const struct books *b, struct package_row *p, int64_t used,
                          struct refusal *why)
{
    struct ledger_transfer t;
    int64_t earned;

    TRY(package_earned(p->paid_u, p->seconds, used, &earned));
    p->recognised_s = b->now_s;
    if (earned > p->recognised_u) {
        t = money_out(b, p, "recognise", "revenue.compute", earned - p->recognised_u);
        TRY(ledger_post(b, &t, 1, why));
        p->recognised_u = earned;
    }
    return ERR_OK;
}

/* Unused seconds and the money that stood for them. */
static enum err lapse(const struct books *b, struct package_row *p, int64_t left,
                      struct refusal *why)
{
    struct ledger_transfer g[2];
    size_t n = 0;

    p->lapsed = left;
    p->lapsed_u = p->paid_u - p->recognised_u;
    if (left > 0) {
        g[n] = units_transfer(b, p->id.s, "lapsed");
        account_id(g[n].id, "lapsed", p->id.s);
        units_id(p, g[n].dr);
        account_id(g[n].cr, "lapsed", PACKAGE_LEDGER);
        CHECK(str_copy(g[n].owner, sizeof(g[n].owner), p->id.s));
        g[n++].amount = left;
    }
    if (p->lapsed_u > 0)
        g[n++] = money_out(b, p, "breakage", "breakage", p->lapsed_u);
    return ledger_post(b, g, n, why);
}

static enum err told(const struct books *b, const struct package_row *p)
{
    struct event ev = {.at = b->now, .project = p->project};
    bool ok = str_copy(ev.kind, sizeof(ev.kind), "package.ended") &&
              str_copy(ev.text, sizeof(ev.text),
                       p->lapsed > 0 ? N_("Package {package} is over; {left} card-seconds of it "
                                          "were never used.")
                                     : N_("Package {package} is used up.")) &&
              str_printf(ev.data, sizeof(ev.data), "{\"package\":\"%s\",\"left\":\"%" PRId64 "\"}",
                         p->id.s, p->lapsed);

    CHECK(ok);
    return store_event_add(b->store, &ev);
}

/* What a hold reserved before its end may still be proven a while after it. */
static enum err tick_one(const struct books *b, struct package_row *p, struct refusal *why)
{
    bool over = b->now_s >= p->expires_s + FUND_LAPSE_AFTER_S;
    struct ledger_account a;
    struct package_view v;
    struct period day;

    TRY(package_look(b, p, &v));
    TRY(units_load(b, p, &a));
    bool end = a.dr_pending == 0 && (over || v.used == p->seconds);
    period_day_at(&b->zone, b->now_s, &day);
    if (!end && p->recognised_s >= day.from_s)
        return ERR_OK;
    TRY(recognise(b, p, v.used, why));
    if (end) {
        TRY(lapse(b, p, v.left, why));
        p->done_at = b->now;
        TRY(told(b, p));
    }
    return package_row_save(b->store, p);
}

enum err packages_tick(struct store *s, utime_t now, struct refusal *why)
{
    struct package_list open = {0};
    enum err e = package_row_open_all(s, &open);

    for (size_t i = 0; i < open.len && e == ERR_OK; i++) {
        struct books b;

        e = books_open(s, now, open.at[i].project, &b, why);
        if (e == ERR_OK)
            e = tick_one(&b, &open.at[i], why);
    }
    vec_fini(&open);
    return e;
}
