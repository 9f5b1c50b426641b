/* funds_post.c: the journal. Every move of money goes through ledger_post.
 *
 * Accounts of a project: its sources (fund_source.h), terms (what the parts of a lease's hold post
 * into and its windows' charges leave at once: zero after every group, never overdrawn, so charges
 * cannot pass what was held), receivable (storage of an empty wallet). Of the platform, per
 * currency: bank.topup, clearing.<channel>, promo.expense, breakage, revenue.compute,
 * revenue.storage, revenue.traffic. */
#include "app/fund_source.h"
#include "app/funds_package.h"

#include <stdlib.h>

void account_id(char ret_id[LEDGER_KEY_SIZE], const char *kind, const char *of)
{
    bool ok = str_printf(ret_id, LEDGER_KEY_SIZE, "%s.%s", kind, of);

    CHECK(ok);
}

enum err account_load(struct store *s, const char *id, struct currency ccy,
                      struct ledger_account *ret_a)
{
    enum err e = money_account_get(s, id, ret_a);

    if (e != ERR_NOT_FOUND)
        return e;
    *ret_a = (struct ledger_account){0};
    bool ok = str_copy(ret_a->id, sizeof(ret_a->id), id) &&
              str_copy(ret_a->ledger, sizeof(ret_a->ledger), ccy.code);
    CHECK(ok);
    static const char *const bounded[] = {"cash.",   "terms.",    "gift.",   "voucher.",
                                          "credit.", "deferred.", "package."};
    for (size_t i = 0; i < ARRAY_LEN(bounded); i++)
        if (str_starts(id, bounded[i]))
            ret_a->flags = LEDGER_NO_OVERDRAFT;
    return ERR_OK;
}

struct ledger_transfer transfer_of(const struct books *b, const char *group, const char *kind)
{
    struct ledger_transfer t = {.step = LEDGER_POSTED, .effective_ms = b->now};
    bool ok = str_copy(t.ledger, sizeof(t.ledger), b->ccy.code) &&
              str_copy(t.group, sizeof(t.group), group) && str_copy(t.kind, sizeof(t.kind), kind);

    CHECK(ok);
    return t;
}

/* ledger: of the transfer that names it; an account that is new is of that one. */
static enum err add_account(const struct books *b, struct account_list *l, const char *id,
                            const char *ledger)
{
    struct ledger_account *a;

    if (!id[0])
        return ERR_OK;
    for (size_t i = 0; i < l->len; i++)
        if (str_eq(l->at[i].id, id))
            return ERR_OK;
    a = vec_push(l);
    enum err e = money_account_get(b->store, id, a);
    if (e != ERR_NOT_FOUND)
        return e;
    TRY(account_load(b->store, id, b->ccy, a));
    CHECK(str_copy(a->ledger, sizeof(a->ledger), ledger));
    return ERR_OK;
}

/* What a group touches: its own ids, the holds it resolves and their resolutions, all accounts. */
static enum err load_view(const struct books *b, const struct ledger_transfer *group, size_t n,
                          struct transfer_list *existing, struct account_list *accounts)
{
    for (size_t i = 0; i < n; i++) {
        TRY(money_transfer_find(b->store, group[i].id, existing));
        if (group[i].pending[0]) {
            TRY(money_transfer_find(b->store, group[i].pending, existing));
            TRY(money_transfer_resolution(b->store, group[i].pending, existing));
        }
        TRY(add_account(b, accounts, group[i].dr, group[i].ledger));
        TRY(add_account(b, accounts, group[i].cr, group[i].ledger));
    }
    for (size_t i = 0; i < existing->len; i++) {
        TRY(add_account(b, accounts, existing->at[i].dr, existing->at[i].ledger));
        TRY(add_account(b, accounts, existing->at[i].cr, existing->at[i].ledger));
    }
    return ERR_OK;
}

static enum err save_group(const struct books *b, const struct account_list *accounts,
                           const struct ledger_transfer *group, size_t n,
                           const unsigned char head[LEDGER_HASH_SIZE])
{
    for (size_t i = 0; i < accounts->len; i++)
        TRY(money_account_save(b->store, &accounts->at[i]));
    for (size_t i = 0; i < n; i++)
        TRY(money_transfer_add(b->store, &group[i]));
    return money_day_save(b->store, b->now_s / DAY_S, head);
}

enum err ledger_post(const struct books *b, struct ledger_transfer *group, size_t n,
                     struct refusal *why)
{
    struct transfer_list existing = {0};
    struct account_list accounts = {0};
    unsigned char head[LEDGER_HASH_SIZE];
    bool replayed = false;
    enum err e = load_view(b, group, n, &existing, &accounts);

    if (e == ERR_OK)
        e = money_transfer_head(b->store, head);
    if (e == ERR_OK) {
        struct ledger_view view = {.accounts = accounts.at,
                                   .account_count = accounts.len,
                                   .existing = existing.at,
                                   .existing_count = existing.len};

        e = ledger_apply(&view, group, n, b->now, head, &replayed, why);
    }
    if (e == ERR_OK && !replayed && n > 0)
        e = save_group(b, &accounts, group, n, head);
    vec_fini(&existing);
    vec_fini(&accounts);
    return e;
}

const char *meter_revenue(enum meter m)
{
    switch (m) {
    case METER_GPU:
    case METER_CPU:
    case METER_NODE:
        return "revenue.compute";
    case METER_DISK:
    case METER_DISK_STOPPED:
    case METER_DISK_DETACHED:
        return "revenue.storage";
    case METER_EGRESS:
    case METER_INGRESS:
        return "revenue.traffic";
    case METER_NONE:
    case METER_COUNT:
        break;
    }
    CHECK(false);
    return "";
}

/* A charge names its window; its amount is F(Q) less what is posted of it (I13), or one source's
 * part of that: part tells them apart. */
static struct ledger_transfer charge_of(const struct books *b, const struct window_row *w,
                                        const char *group, const char *account, size_t part,
                                        int64_t u)
{
    struct ledger_transfer t = transfer_of(b, group, "charge");
    char suffix[16] = "";
    bool ok = part == 0 || str_printf(suffix, sizeof(suffix), "p%zu", part);

    ok = ok &&
         str_printf(t.id, sizeof(t.id), "chg.%" PRId64 "%s.%s", w->posts + 1, suffix, w->id) &&
         str_copy(t.owner, sizeof(t.owner), w->id) && str_copy(t.dr, sizeof(t.dr), account);
    CHECK(ok);
    account_id(t.cr, meter_revenue(w->meter), b->ccy.code);
    t.amount = u;
    return t;
}

static enum err windows_posted(const struct books *b, struct window_list *l)
{
    for (size_t i = 0; i < l->len; i++) {
        l->at[i].posted_u = l->at[i].rated_u;
        l->at[i].posts++;
        TRY(money_window_save(b->store, &l->at[i]));
    }
    return ERR_OK;
}

/* Resolves the parts of the lease's hold: each posts what evidence used of it, its rest returns;
 * then a charge for each window. */
static void settle_hold(const struct books *b, const struct fund_lease *l,
                        const struct part_list *parts, const struct window_list *windows,
                        const char *group, struct transfer_list *g)
{
    char terms[LEDGER_KEY_SIZE];

    account_id(terms, "terms", b->project.s);
    for (size_t i = 0; i < parts->len; i++) {
        const struct part_row *p = &parts->at[i];
        struct ledger_transfer *t = vec_push(g);
        bool ok;

        *t = transfer_of(b, group, p->used_u > 0 ? "charge" : "release");
        t->step = p->used_u > 0 ? LEDGER_POST : LEDGER_VOID;
        t->amount = p->used_u;
        ok = str_printf(t->id, sizeof(t->id), "end.%s", p->transfer) &&
             str_copy(t->pending, sizeof(t->pending), p->transfer) &&
             str_copy(t->owner, sizeof(t->owner), l->lease.s);
        CHECK(ok);
    }
    for (size_t i = 0; i < windows->len; i++) {
        const struct window_row *w = &windows->at[i];

        *vec_push(g) = charge_of(b, w, group, terms, 0, w->rated_u - w->posted_u);
    }
}

/* A pending transfer for each part; fills rows, which the caller saves after the group. */
static enum err new_hold(const struct books *b, struct fund_lease *l,
                         const struct fund_parts *parts, int64_t paid_until_s, const char *group,
                         struct transfer_list *g, struct part_list *rows)
{
    l->hold[0] = '\0';
    l->hold_u = 0;
    for (size_t i = 0; parts && i < parts->len; i++) {
        const struct fund_part *p = &parts->at[i];
        struct ledger_transfer *t = vec_push(g);
        struct part_row *row = vec_push(rows);
        bool ok;

        *t = transfer_of(b, group, "hold");
        t->step = LEDGER_PENDING;
        t->amount = p->amount_u;
        t->expires_ms = (paid_until_s + FUNDS_HOLD_KEEP_S) * MS_PER_S;
        ok = str_printf(t->id, sizeof(t->id), "hold.%s.%" PRId64, l->lease.s, l->terms) &&
             (i == 0 || str_printf(t->id, sizeof(t->id), "hold.%s.%" PRId64 ".%zu", l->lease.s,
                                   l->terms, i)) &&
             str_copy(t->owner, sizeof(t->owner), l->lease.s) &&
             str_copy(t->dr, sizeof(t->dr), p->account);
        CHECK(ok);
        account_id(t->cr, "terms", b->project.s);
        *row = (struct part_row){.lease = l->lease,
                                 .n = (int64_t)i,
                                 .meter = (int32_t)p->meter,
                                 .until_s = p->until_s,
                                 .amount_u = p->amount_u};
        memcpy(row->transfer, t->id, sizeof(row->transfer));
        memcpy(row->account, p->account, sizeof(row->account));
        if (i == 0)
            memcpy(l->hold, t->id, sizeof(l->hold));
        TRY(micro_add(l->hold_u, p->amount_u, &l->hold_u));
    }
    return ERR_OK;
}

/* What the windows of the lease used must be what was put on the parts of its hold. */
static enum err check_used(const struct fund_lease *l, const struct window_list *windows,
                           const struct part_list *parts, struct refusal *why)
{
    int64_t used = 0, put = 0, posted, released;

    for (size_t i = 0; i < windows->len; i++)
        TRY(micro_add(used, windows->at[i].rated_u - windows->at[i].posted_u, &used));
    for (size_t i = 0; i < parts->len; i++)
        TRY(micro_add(put, parts->at[i].used_u, &put));
    if (term_settle(l->hold_u, used, &posted, &released) == ERR_OK && used == put)
        return ERR_OK;
    return refusef(why, ERR_INTERNAL, "why",
                   "lease %s used %" PRId64 ", %" PRId64 " of it held, of a hold of %" PRId64,
                   l->lease.s, used, put, l->hold_u);
}

static enum err parts_renew(const struct books *b, struct id lease, const struct part_list *rows)
{
    TRY(wallet_part_clear(b->store, lease));
    for (size_t i = 0; i < rows->len; i++)
        TRY(wallet_part_save(b->store, &rows->at[i]));
    return ERR_OK;
}

enum err lease_move(const struct books *b, struct fund_lease *l, const struct fund_parts *parts,
                    const struct term_plan *plan, int64_t paid_until_s, struct refusal *why)
{
    struct package_part_list covered = {0};
    struct window_list windows = {0};
    struct part_list old = {0}, rows = {0};
    struct transfer_list g = {0};
    char group[LEDGER_KEY_SIZE];
    enum err e = money_window_open_lease(b->store, l->lease, &windows);

    l->terms++;
    bool ok = str_printf(group, sizeof(group), "term.%s.%" PRId64, l->lease.s, l->terms);
    CHECK(ok);
    if (e == ERR_OK)
        e = wallet_part_list(b->store, l->lease, &old);
    if (e == ERR_OK)
        e = check_used(l, &windows, &old, why);
    if (e == ERR_OK) {
        settle_hold(b, l, &old, &windows, group, &g);
        e = new_hold(b, l, parts, paid_until_s, group, &g, &rows);
    }
    if (e == ERR_OK)
        e = package_move(b, l, plan, paid_until_s, group, &g, &covered);
    if (e == ERR_OK)
        e = ledger_post(b, g.at, g.len, why);
    if (e == ERR_OK)
        e = parts_renew(b, l->lease, &rows);
    if (e == ERR_OK)
        e = package_renew(b, l->lease, &covered);
    if (e == ERR_OK)
        e = windows_posted(b, &windows);
    vec_fini(&windows);
    vec_fini(&old);
    vec_fini(&rows);
    vec_fini(&covered);
    vec_fini(&g);
    return e;
}

enum err funds_posted_note(const struct books *b)
{
    struct ledger_account owed;
    struct fund_project p;
    char id[LEDGER_KEY_SIZE];

    account_id(id, "receivable", b->project.s);
    TRY(account_load(b->store, id, b->ccy, &owed));
    TRY(money_project_get(b->store, b->project, &p));
    bool owes = ledger_balance(&owed) < 0;
    if (owes != (p.arrears_since != 0))
        p.arrears_since = owes ? b->now : 0;
    p.posted_at = MAX(p.posted_at, b->now);
    return money_project_save(b->store, &p);
}

/* What one window costs outside of leases, from the sources in order and then on account. */
static enum err charge_free(const struct books *b, struct fund_sources *s,
                            const struct window_row *w, const char *group, int64_t at_s,
                            struct fund_parts *parts, struct transfer_list *g)
{
    char receivable[LEDGER_KEY_SIZE];
    int64_t unpaid;
    size_t first = parts->len;

    TRY(fund_take(b, s, w->meter, w->sku, at_s - 1, INT64_MAX, w->rated_u - w->posted_u, parts,
                  &unpaid));
    for (size_t i = first; i < parts->len; i++)
        *vec_push(g) =
            charge_of(b, w, group, parts->at[i].account, i - first, parts->at[i].amount_u);
    account_id(receivable, "receivable", b->project.s);
    if (unpaid > 0)
        *vec_push(g) = charge_of(b, w, group, receivable, parts->len - first + 1, unpaid);
    return ERR_OK;
}

enum err funds_post_free_at(const struct books *b, int64_t at_s, struct refusal *why)
{
    struct window_list windows = {0};
    struct transfer_list g = {0};
    struct fund_parts parts = {0};
    struct fund_sources s;
    char group[LEDGER_KEY_SIZE];
    enum err e = money_window_open_free(b->store, b->project, &windows);

    if (e == ERR_OK && windows.len > 0)
        e = fund_sources_posted(b, &s);
    bool ok = str_printf(group, sizeof(group), "free.%s.%" PRId64, b->project.s, b->now);
    CHECK(ok);
    for (size_t i = 0; i < windows.len && e == ERR_OK; i++) {
        e = charge_free(b, &s, &windows.at[i], group, at_s, &parts, &g);
        if (g.len + FUND_GRANTS_MAX + 4 > LEDGER_GROUP_MAX) {
            windows.len = i + 1; /* the others come with the next call */
            break;
        }
    }
    for (size_t i = 0; i < g.len; i++)
        g.at[i].effective_ms = MIN(b->now, at_s * MS_PER_S);
    if (e == ERR_OK)
        e = ledger_post(b, g.at, g.len, why);
    if (e == ERR_OK)
        e = windows_posted(b, &windows);
    if (e == ERR_OK)
        e = funds_posted_note(b);
    vec_fini(&windows);
    vec_fini(&g);
    vec_fini(&parts);
    return e;
}

enum err funds_post_ended(const struct books *b, int64_t at_s, struct refusal *why)
{
    struct grant_list grants = {0};
    struct fund_project p;
    enum err e = wallet_grant_open(b->store, b->project, &grants);
    int64_t end = INT64_MAX;

    if (e == ERR_OK && grants.len > 0)
        e = money_project_get(b->store, b->project, &p);
    for (size_t i = 0; i < grants.len && e == ERR_OK; i++)
        if (grants.at[i].expires_s > p.posted_at / MS_PER_S && grants.at[i].expires_s <= at_s)
            end = MIN(end, grants.at[i].expires_s);
    vec_fini(&grants);
    return e == ERR_OK && end != INT64_MAX ? funds_post_free_at(b, end, why) : e;
}

enum err funds_post_free(const struct books *b, struct refusal *why)
{
    TRY(funds_post_ended(b, b->now_s, why));
    return funds_post_free_at(b, b->now_s + 1, why);
}

enum err funds_arrears_since(struct store *s, struct id project, utime_t *ret_ms)
{
    struct fund_project p;

    TRY(money_project_get(s, project, &p));
    *ret_ms = p.arrears_since;
    return ERR_OK;
}

/* Pays what one account owes out of the cash that just came; io_left: what of it is left. */
static enum err add_repay(const struct books *b, struct id id, const char *debt, const char *kind,
                          struct ledger_transfer *g, size_t *io_n, int64_t *io_left)
{
    struct ledger_account owed;
    struct ledger_transfer *t = &g[*io_n];
    int64_t u;

    *t = transfer_of(b, id.s, "repay");
    account_id(t->id, kind, id.s);
    account_id(t->dr, "cash", b->project.s);
    account_id(t->cr, debt, b->project.s);
    TRY(account_load(b->store, t->cr, b->ccy, &owed));
    u = MIN(*io_left, -ledger_balance(&owed));
    if (u <= 0)
        return ERR_OK;
    t->amount = u;
    *io_left -= u;
    ++*io_n;
    return ERR_OK;
}

enum err funds_cash_in_with(const struct books *b, struct id id, const char *from, int64_t amount_u,
                            const struct ledger_transfer *linked, size_t linked_count,
                            struct refusal *why)
{
    struct ledger_transfer g[3 + FUNDS_LINKED_MAX];
    int64_t left = amount_u;
    size_t n = 1;

    TRY(funds_post_free(b, why));
    g[0] = transfer_of(b, id.s, "topup");
    account_id(g[0].id, "topup", id.s);
    CHECK(str_copy(g[0].dr, sizeof(g[0].dr), from));
    CHECK(str_copy(g[0].owner, sizeof(g[0].owner), id.s));
    account_id(g[0].cr, "cash", b->project.s);
    g[0].amount = amount_u;
    TRY(add_repay(b, id, "receivable", "repay", g, &n, &left));
    TRY(add_repay(b, id, "credit", "repaycr", g, &n, &left));
    CHECK(linked_count <= FUNDS_LINKED_MAX);
    for (size_t i = 0; i < linked_count; i++)
        g[n++] = linked[i];
    TRY(ledger_post(b, g, n, why));
    return funds_posted_note(b);
}

enum err funds_cash_in(const struct books *b, struct id id, const char *from, int64_t amount_u,
                       struct refusal *why)
{
    return funds_cash_in_with(b, id, from, amount_u, NULL, 0, why);
}

enum err funds_topup(struct store *s, utime_t now, struct id project, struct id id,
                     int64_t amount_u, const char *note, struct refusal *why)
{
    struct topup_row row = {.project = project, .amount = amount_u, .at = now};
    char bank[LEDGER_KEY_SIZE];
    struct books b;

    TRY(books_open(s, now, project, &b, why));
    if (amount_u <= 0 || !str_copy(row.note, sizeof(row.note), note)) {
        (void)refusef(why, ERR_VALIDATION, "field", "%s", amount_u <= 0 ? "amount" : "note");
        refusal_set(why, "why", amount_u <= 0 ? "must be above zero" : "is too long");
        return ERR_VALIDATION;
    }
    account_id(bank, "bank.topup", b.ccy.code);
    TRY(funds_cash_in(&b, id, bank, amount_u, why));
    account_id(row.id, "topup", id.s);
    return money_topup_save(s, &row);
}
