/* funds_post.c: the journal. Every move of money goes through ledger_post.
 *
 * Accounts of a project: cash (never overdrawn), terms (what a lease's hold posts into and its
 * windows' charges leave at once: zero after every group, never overdrawn, so charges cannot pass
 * what was held), receivable (storage of an empty wallet). Of the platform, per currency:
 * bank.topup, revenue.compute, revenue.storage, revenue.traffic. */
#include "app/funds_int.h"

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
    if (str_starts(id, "cash.") || str_starts(id, "terms."))
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

static enum err add_account(const struct books *b, struct account_list *l, const char *id)
{
    if (!id[0])
        return ERR_OK;
    for (size_t i = 0; i < l->len; i++)
        if (str_eq(l->at[i].id, id))
            return ERR_OK;
    return account_load(b->store, id, b->ccy, vec_push(l));
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
        TRY(add_account(b, accounts, group[i].dr));
        TRY(add_account(b, accounts, group[i].cr));
    }
    for (size_t i = 0; i < existing->len; i++) {
        TRY(add_account(b, accounts, existing->at[i].dr));
        TRY(add_account(b, accounts, existing->at[i].cr));
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

static const char *revenue_of(enum meter m)
{
    switch (m) {
    case METER_GPU:
    case METER_CPU:
        return "revenue.compute";
    case METER_DISK:
    case METER_DISK_STOPPED:
    case METER_DISK_DETACHED:
        return "revenue.storage";
    case METER_EGRESS:
        return "revenue.traffic";
    case METER_COUNT:
        break;
    }
    CHECK(false);
    return "";
}

/* A charge names its window; its amount is F(Q) less what is posted of it (I13). suffix tells two
 * parts of one charge apart. */
static struct ledger_transfer charge_of(const struct books *b, const struct window_row *w,
                                        const char *group, const char *dr_kind, const char *suffix,
                                        int64_t u)
{
    struct ledger_transfer t = transfer_of(b, group, "charge");
    bool ok = str_printf(t.id, sizeof(t.id), "chg.%" PRId64 "%s.%s", w->posts + 1, suffix, w->id) &&
              str_copy(t.owner, sizeof(t.owner), w->id);

    CHECK(ok);
    account_id(t.dr, dr_kind, b->project.s);
    account_id(t.cr, revenue_of(w->meter), b->ccy.code);
    t.amount = u;
    return t;
}

struct transfer_group {
    struct ledger_transfer *at; /* owned */
    size_t len, cap;
};

static enum err windows_posted(const struct books *b, struct window_list *l)
{
    for (size_t i = 0; i < l->len; i++) {
        l->at[i].posted_u = l->at[i].rated_u;
        l->at[i].posts++;
        TRY(money_window_save(b->store, &l->at[i]));
    }
    return ERR_OK;
}

/* Resolves the lease's hold: post what its windows cost, the rest returns; then a charge each. */
static void settle_hold(const struct books *b, const struct fund_lease *l,
                        const struct window_list *windows, int64_t used_u, const char *group,
                        struct transfer_group *g)
{
    if (l->hold[0]) {
        struct ledger_transfer *t = vec_push(g);
        bool ok;

        *t = transfer_of(b, group, used_u > 0 ? "charge" : "release");
        t->step = used_u > 0 ? LEDGER_POST : LEDGER_VOID;
        t->amount = used_u;
        ok = str_printf(t->id, sizeof(t->id), "end.%s", l->hold) &&
             str_copy(t->pending, sizeof(t->pending), l->hold) &&
             str_copy(t->owner, sizeof(t->owner), l->lease.s);
        CHECK(ok);
    }
    for (size_t i = 0; i < windows->len; i++) {
        const struct window_row *w = &windows->at[i];

        *vec_push(g) = charge_of(b, w, group, "terms", "", w->rated_u - w->posted_u);
    }
}

static void new_hold(const struct books *b, struct fund_lease *l, int64_t hold_u,
                     int64_t paid_until_s, const char *group, struct transfer_group *g)
{
    struct ledger_transfer *t;
    bool ok;

    l->hold[0] = '\0';
    l->hold_u = hold_u;
    if (hold_u == 0)
        return;
    t = vec_push(g);
    *t = transfer_of(b, group, "hold");
    t->step = LEDGER_PENDING;
    t->amount = hold_u;
    t->expires_ms = (paid_until_s + FUNDS_HOLD_KEEP_S) * MS_PER_S;
    ok = str_printf(t->id, sizeof(t->id), "hold.%s.%" PRId64, l->lease.s, l->terms) &&
         str_copy(t->owner, sizeof(t->owner), l->lease.s);
    CHECK(ok);
    account_id(t->dr, "cash", b->project.s);
    account_id(t->cr, "terms", b->project.s);
    memcpy(l->hold, t->id, sizeof(l->hold));
}

enum err lease_move(const struct books *b, struct fund_lease *l, int64_t hold_u,
                    int64_t paid_until_s, struct refusal *why)
{
    struct window_list windows = {0};
    struct transfer_group g = {0};
    char group[LEDGER_KEY_SIZE];
    int64_t used = 0, posted, released;
    enum err e = money_window_open_lease(b->store, l->lease, &windows);

    l->terms++;
    bool ok = str_printf(group, sizeof(group), "term.%s.%" PRId64, l->lease.s, l->terms);
    CHECK(ok);
    for (size_t i = 0; i < windows.len && e == ERR_OK; i++)
        e = micro_add(used, windows.at[i].rated_u - windows.at[i].posted_u, &used);
    if (e == ERR_OK && term_settle(l->hold_u, used, &posted, &released) != ERR_OK)
        e = refusef(why, ERR_INTERNAL, "why", "lease %s used %" PRId64 " of a hold of %" PRId64,
                    l->lease.s, used, l->hold_u);
    if (e == ERR_OK) {
        settle_hold(b, l, &windows, used, group, &g);
        new_hold(b, l, hold_u, paid_until_s, group, &g);
        e = ledger_post(b, g.at, g.len, why);
    }
    if (e == ERR_OK)
        e = windows_posted(b, &windows);
    vec_fini(&windows);
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
    p.posted_at = b->now;
    return money_project_save(b->store, &p);
}

enum err funds_post_free(const struct books *b, struct refusal *why)
{
    struct window_list windows = {0};
    struct transfer_group g = {0};
    struct ledger_account cash = {0};
    char id[LEDGER_KEY_SIZE], group[LEDGER_KEY_SIZE];
    enum err e = money_window_open_free(b->store, b->project, &windows);

    account_id(id, "cash", b->project.s);
    if (e == ERR_OK)
        e = account_load(b->store, id, b->ccy, &cash);
    int64_t rest = ledger_available(&cash);
    bool ok = str_printf(group, sizeof(group), "free.%s.%" PRId64, b->project.s, b->now);
    CHECK(ok);
    for (size_t i = 0; i < windows.len && e == ERR_OK; i++) {
        const struct window_row *w = &windows.at[i];
        int64_t u = w->rated_u - w->posted_u, from_cash = MIN(u, rest);

        rest -= from_cash;
        if (from_cash > 0)
            *vec_push(&g) = charge_of(b, w, group, "cash", "", from_cash);
        if (u > from_cash)
            *vec_push(&g) = charge_of(b, w, group, "receivable", "r", u - from_cash);
        if (g.len + 2 > LEDGER_GROUP_MAX) {
            windows.len = i + 1; /* the others come with the next call */
            break;
        }
    }
    if (e == ERR_OK)
        e = ledger_post(b, g.at, g.len, why);
    if (e == ERR_OK)
        e = windows_posted(b, &windows);
    if (e == ERR_OK && windows.len > 0)
        e = funds_posted_note(b);
    vec_fini(&windows);
    vec_fini(&g);
    return e;
}

enum err funds_arrears_since(struct store *s, struct id project, utime_t *ret_ms)
{
    struct fund_project p;

    TRY(money_project_get(s, project, &p));
    *ret_ms = p.arrears_since;
    return ERR_OK;
}

enum err funds_topup(struct store *s, utime_t now, struct id project, struct id id,
                     int64_t amount_u, const char *note, struct refusal *why)
{
    struct topup_row row = {.project = project, .amount = amount_u, .at = now};
    struct ledger_transfer g[2];
    struct ledger_account owed;
    char receivable[LEDGER_KEY_SIZE];
    struct books b;
    size_t n = 1;

    TRY(books_open(s, now, project, &b, why));
    if (amount_u <= 0 || !str_copy(row.note, sizeof(row.note), note)) {
        (void)refusef(why, ERR_VALIDATION, "field", "%s", amount_u <= 0 ? "amount" : "note");
        refusal_set(why, "why", amount_u <= 0 ? "must be above zero" : "is too long");
        return ERR_VALIDATION;
    }
    TRY(funds_post_free(&b, why));
    g[0] = transfer_of(&b, id.s, "topup");
    account_id(g[0].id, "topup", id.s);
    account_id(g[0].dr, "bank.topup", b.ccy.code);
    account_id(g[0].cr, "cash", project.s);
    g[0].amount = amount_u;
    account_id(receivable, "receivable", project.s);
    TRY(account_load(s, receivable, b.ccy, &owed));
    if (ledger_balance(&owed) < 0) {
        g[n] = transfer_of(&b, id.s, "repay");
        account_id(g[n].id, "repay", id.s);
        memcpy(g[n].dr, g[0].cr, sizeof(g[n].dr));
        memcpy(g[n].cr, receivable, sizeof(g[n].cr));
        g[n].amount = MIN(amount_u, -ledger_balance(&owed));
        n++;
    }
    TRY(ledger_post(&b, g, n, why));
    TRY(funds_posted_note(&b));
    memcpy(row.id, g[0].id, sizeof(row.id));
    return money_topup_save(s, &row);
}
