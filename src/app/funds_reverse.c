/* funds_reverse.c: a spot run that the platform took back within its free time costs nothing for its
 * cards (money.md 1.7, B30).
 *
 * It is decided when the lease is settled: nothing is charged to it any more. Each of its windows of
 * cards goes back whole, in a group of its own, by transfers equal and opposite to those that paid
 * it: to the voucher, gift, cash or credit line it came from. Disk and traffic stay. A voucher that
 * has ended lapses again. A month waits for each spot run that may still be free
 * (spot_row_unsettled), so a reversal stands in the statement of its usage and never in a closed one. */
#include "app/fund_source.h"
#include "app/funds_spot.h"

#include "app/close.h"
#include "base/msg.h"
#include "domain/price.h"
#include "store/rows_plan.h"
#include "store/rows_proof.h"

/* A grant that lapsed meanwhile is looked at again. */
static enum err grant_wake(const struct books *b, const char *account)
{
    struct grant_row g;
    struct id id = {0};
    enum err e;

    if (!str_starts(account, "voucher."))
        return ERR_OK;
    CHECK(str_copy(id.s, sizeof(id.s), account + strlen("voucher.")));
    e = wallet_grant_get(b->store, id, &g);
    if (e != ERR_OK || g.done_at == 0)
        return e;
    g.done_at = 0;
    return wallet_grant_save(b->store, &g);
}

/* What a credit line lent is paid back first; when it was paid back meanwhile, it is cash. */
static enum err credit_part(const struct books *b, const char *account, int64_t u, int64_t *ret_u)
{
    struct ledger_account a;

    *ret_u = u;
    if (!str_starts(account, "credit."))
        return ERR_OK;
    TRY(account_load(b->store, account, b->ccy, &a));
    *ret_u = MIN(u, MAX(-ledger_balance(&a), (int64_t)0));
    return ERR_OK;
}

static void add_back(const struct books *b, const struct window_row *w, const char *group,
                     const char *from, const char *to, int64_t u, struct transfer_list *g)
{
    struct ledger_transfer *t;
    bool ok;

    if (u == 0)
        return;
    t = vec_push(g);
    *t = transfer_of(b, group, "reversal");
    t->amount = u;
    ok = str_printf(t->id, sizeof(t->id), "rev.%zu.%s", g->len, w->id) &&
         str_copy(t->owner, sizeof(t->owner), w->id) && str_copy(t->dr, sizeof(t->dr), from) &&
         str_copy(t->cr, sizeof(t->cr), to);
    CHECK(ok);
}

static enum err sources_back(const struct books *b, const struct window_row *w,
                             const struct charge_source_list *sources, struct transfer_list *g)
{
    char group[LEDGER_KEY_SIZE], cash[LEDGER_KEY_SIZE];
    bool ok = str_printf(group, sizeof(group), "rev.%s", w->id);

    CHECK(ok);
    account_id(cash, "cash", b->project.s);
    for (size_t i = 0; i < sources->len; i++) {
        const struct charge_source *s = &sources->at[i];
        int64_t u;

        TRY(credit_part(b, s->dr, s->amount_u, &u));
        add_back(b, w, group, s->cr, s->dr, u, g);
        add_back(b, w, group, s->cr, cash, s->amount_u - u, g);
        TRY(grant_wake(b, s->dr));
    }
    return ERR_OK;
}

/* The budgets that counted it, day by day as it was counted. */
static enum err days_back(const struct books *b, const struct window_row *w)
{
    struct span_list spans = {0};
    struct rate rate;
    int64_t qty = 0;
    enum err e = window_rate(b->store, w, &rate);

    if (e == ERR_OK)
        e = proof_spans(b->store, w->id, INT64_MAX, &spans);
    for (size_t i = 0; i < spans.len; i++) {
        const struct span_row *s = &spans.at[i];

        for (int64_t at = s->from_s; at < s->to_s && e == ERR_OK;) {
            struct period day;
            int64_t end, more, u = 0;

            period_day_at(&b->zone, at, &day);
            end = MIN(day.to_s, s->to_s);
            more = (end - at) * s->qty_per_s;
            e = rate_delta(&rate, qty, qty + more, &u);
            if (e == ERR_OK && u > 0)
                e = money_scope_day_add(b->store, b->project, w->lease, day.from_s, -u);
            qty += more;
            at = end;
        }
    }
    vec_fini(&spans);
    return e;
}

static enum err window_back(const struct books *b, struct window_row *w, struct refusal *why)
{
    struct charge_source_list sources = {0};
    struct transfer_list g = {0};
    enum err e;

    if (w->posted_u == 0 || w->reversed_u != 0)
        return ERR_OK;
    e = charge_source_list(b->store, w->id, 0, w->posted_u, true, &sources);
    if (e == ERR_OK)
        e = sources_back(b, w, &sources, &g);
    if (e == ERR_OK)
        e = ledger_post(b, g.at, g.len, why);
    if (e == ERR_OK)
        e = days_back(b, w);
    w->reversed_u = w->posted_u;
    if (e == ERR_OK)
        e = money_window_save(b->store, w);
    vec_fini(&sources);
    vec_fini(&g);
    return e;
}

/* What the renter is told; u is what was given back. */
static enum err tell(const struct books *b, const struct fund_lease *l, bool is_free, int64_t u)
{
    struct event ev = {.at = b->now, .project = b->project, .instance = l->instance};
    const char *said = is_free ? N_("{name} was reclaimed within its free time: its cards cost "
                                    "nothing, {amount} was given back.")
                               : N_("{name} was reclaimed after its free time: what its cards ran "
                                    "is charged.");
    char text[MONEY_TEXT_SIZE + 8], name[NAME_SIZE];

    TRY(close_subject_name(b->store, l->instance, name));
    money_format_ccy(money_of(u, b->ccy), text, sizeof(text));
    bool ok = str_copy(ev.kind, sizeof(ev.kind),
                       is_free ? "instance.reclaim_free" : "instance.reclaim_charged") &&
              str_copy(ev.text, sizeof(ev.text), said) &&
              str_printf(ev.data, sizeof(ev.data), "{\"name\":\"%s\",\"amount\":\"%s\"}", name,
                         text);
    CHECK(ok);
    return store_event_add(b->store, &ev);
}

enum err spot_settle(const struct books *b, const struct fund_lease *l, struct refusal *why)
{
    struct window_list windows = {0};
    struct reclaim_row r;
    int64_t from_s, to_s, sum = 0;
    enum err e = reclaim_row_get(b->store, l->lease, &r);

    if (e == ERR_NOT_FOUND || (e == ERR_OK && !l->ready_ms))
        return ERR_OK;
    TRY(e);
    meter_billable(l->ready_ms, MIN(l->stop_ms, l->paid_until_s * MS_PER_S), &from_s, &to_s);
    if (!spot_is_free(from_s, to_s, true, r.free_within_s))
        return tell(b, l, false, 0);
    e = money_window_subject(b->store, l->lease, METER_GPU, &windows);
    for (size_t i = 0; i < windows.len && e == ERR_OK; i++) {
        e = window_back(b, &windows.at[i], why);
        if (e == ERR_OK)
            e = micro_add(sum, windows.at[i].reversed_u, &sum);
    }
    vec_fini(&windows);
    return e == ERR_OK ? tell(b, l, true, sum) : e;
}
