/* funds_budget.c: caps on what a project, a user or a label may spend.
 *
 * A lease counts for the budgets of its project, of the user who rented it and of its labels, as
 * they were when it opened. A term is granted only inside what each of them leaves. All leases
 * under one cap end at the same second: the grant of one leaves the others what they need up to
 * that second (budget.h), so nobody takes the rest alone. A budget that only warns stops nothing.
 */
#include "app/funds_int.h"

#include <stdlib.h>

#include "base/msg.h"
#include "base/units.h"

void budget_span(const struct books *b, enum budget_period p, int64_t *ret_from_s,
                 int64_t *ret_to_s)
{
    struct period at = {.from_s = 0, .to_s = INT64_MAX};

    switch (p) {
    case BUDGET_TOTAL:
        break;
    case BUDGET_MONTH:
        period_month_at(&b->zone, b->now_s, &at);
        break;
    case BUDGET_DAY:
        period_day_at(&b->zone, b->now_s, &at);
        break;
    }
    *ret_from_s = at.from_s;
    *ret_to_s = at.to_s;
}

/* posted: all that is rated in the period; pending: what holds may still take. */
static enum err budget_fill(const struct books *b, const struct budget_row *row,
                            struct budget *ret_m)
{
    int64_t from, to;

    ret_m->cap_u = row->cap_u;
    budget_span(b, row->period, &from, &to);
    TRY(money_scope_day_sum(b->store, row, from, to, &ret_m->posted_u));
    return money_scope_pending(b->store, row, &ret_m->pending_u);
}

enum err budgets_load(const struct books *b, struct budget_list *ret_l, struct budget **ret_b)
{
    *ret_b = NULL;
    TRY(money_budget_list(b->store, b->project, ret_l));
    if (ret_l->len == 0)
        return ERR_OK;
    *ret_b = mem_alloc(ret_l->len * sizeof(**ret_b));
    for (size_t i = 0; i < ret_l->len; i++)
        TRY(budget_fill(b, &ret_l->at[i], &(*ret_b)[i]));
    return ERR_OK;
}

static bool has_label(const char *labels, const char *label)
{
    size_t n = strlen(label);

    for (const char *at = labels; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, label, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    }
    return false;
}

bool budget_stops(const struct budget_row *row, const struct funds_spender *who)
{
    if (row->notify)
        return false;
    switch (row->scope) {
    case BUDGET_PROJECT:
        return true;
    case BUDGET_USER:
        return str_eq(row->scope_of, who->user.s);
    case BUDGET_LABEL:
        return has_label(who->labels, row->scope_of);
    }
    return false;
}

enum err budget_room(const struct books *b, const struct funds_spender *spender, int64_t need_u,
                     struct refusal *why)
{
    struct budget_list rows = {0};
    struct budget *money = NULL;
    enum err e = budgets_load(b, &rows, &money);

    for (size_t i = 0; i < rows.len && e == ERR_OK; i++)
        if (budget_stops(&rows.at[i], spender) && budget_rest(&money[i]) < need_u)
            e = refuse_budget(why, b->ccy, &rows.at[i], budget_rest(&money[i]), need_u);
    free(money);
    vec_fini(&rows);
    return e;
}

enum err lease_scopes_save(struct store *s, const struct funds_lease *l)
{
    char labels[TEXT_SIZE], *rest = labels, *one;

    TRY(money_scope_save(s, l->lease, BUDGET_PROJECT, ""));
    if (l->spender.user.s[0])
        TRY(money_scope_save(s, l->lease, BUDGET_USER, l->spender.user.s));
    memcpy(labels, l->spender.labels, sizeof(labels));
    while ((one = strsep(&rest, ",")))
        if (one[0])
            TRY(money_scope_save(s, l->lease, BUDGET_LABEL, one));
    return ERR_OK;
}

enum err budgets_room(const struct books *b, struct id lease, int64_t *ret_u)
{
    struct budget_list rows = {0};
    int64_t room = INT64_MAX;
    enum err e = money_budget_of_lease(b->store, b->project, lease, &rows);

    for (size_t i = 0; i < rows.len && e == ERR_OK; i++) {
        struct budget money;

        if (rows.at[i].notify)
            continue;
        e = budget_fill(b, &rows.at[i], &money);
        if (e == ERR_OK)
            room = MIN(room, budget_rest(&money));
    }
    vec_fini(&rows);
    *ret_u = room;
    return e;
}

/* ---- all under one cap end together ---- */

struct members {
    struct budget_member *at; /* owned */
    struct term_plan **plans; /* owned, and each of them */
    size_t n;
};

static void members_fini(struct members *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->plans[i]);
    free(m->at);
    free(m->plans);
}
#define AUTO_MEMBERS CLEANUP(members_fini)

static struct budget_member member_of(const struct fund_lease *l, const struct term_plan *plan)
{
    return (struct budget_member){.windows = plan->w,
                                  .window_count = plan->n,
                                  .start_s = plan->start_s,
                                  .ends_at_s = l->ends_at == UTIME_NEVER ? INT64_MAX
                                                                         : l->ends_at / MS_PER_S};
}

/* Adds a lease that goes on, with what it costs up to until_s, or (stopped, at its end) what it
 * holds. */
static enum err member_add(const struct books *b, struct id lease, int64_t until_s, bool held,
                           struct members *m, struct refusal *why)
{
    struct term_plan *plan = mem_alloc(sizeof(*plan));
    struct budget_member *x = &m->at[m->n];
    struct fund_lease l;

    m->plans[m->n++] = plan;
    plan->n = 0;
    TRY(money_lease_get(b->store, lease, &l));
    if (l.stop_ms == UTIME_NEVER && b->now_s < l.paid_until_s)
        TRY(lease_plan(b, &l, RATING_HELD, MAX(until_s, l.paid_until_s), plan, why));
    *x = member_of(&l, plan);
    return held ? lease_hold_rest(b, &l, &x->held_u) : ERR_OK;
}

/* Leases under a budget, except one. held: count what they hold. */
static enum err members_load(const struct books *b, const struct budget_row *row, struct id except,
                             int64_t until_s, bool held, struct members *ret_m, struct refusal *why)
{
    struct id_list leases = {0};
    enum err e = money_lease_of_scope(b->store, row, &leases);

    ret_m->at = mem_alloc((leases.len + 1) * sizeof(ret_m->at[0]));
    ret_m->plans = mem_alloc((leases.len + 1) * sizeof(struct term_plan *));
    for (size_t i = 0; i < leases.len && e == ERR_OK; i++)
        if (!str_eq(leases.at[i].s, except.s))
            e = member_add(b, leases.at[i], until_s, held, ret_m, why);
    vec_fini(&leases);
    return e;
}

/* What one budget leaves for a term of the lease up to until_s. */
static enum err joint_rest(const struct books *b, const struct budget_row *row,
                           const struct budget *money, const struct fund_lease *l,
                           const struct term_plan *plan, int64_t until_s, int64_t back_u,
                           int64_t *ret_u, struct refusal *why)
{
    AUTO_MEMBERS struct members m = {0};
    int64_t last, free_u = money->cap_u - money->posted_u;

    *ret_u = free_u - (money->pending_u - back_u);
    TRY(members_load(b, row, l->lease, until_s, true, &m, why));
    if (m.n == 0)
        return ERR_OK;
    m.plans[m.n] = NULL; /* the last place is this lease's; its plan is the caller's */
    m.at[m.n] = member_of(l, plan);
    last = budget_joint_until(free_u, m.at, m.n + 1, MIN(plan->start_s, until_s), until_s);
    if (last >= until_s)
        return ERR_OK;
    return term_cost(plan->w, plan->n, last - plan->start_s, ret_u);
}

enum err budgets_of_lease(const struct books *b, const struct fund_lease *l,
                          const struct term_plan *plan, int64_t until_s, int64_t back_u,
                          struct lease_budgets *ret_b)
{
    struct budget_list rows = {0};
    struct refusal why = {0};
    enum err e = money_budget_of_lease(b->store, b->project, l->lease, &rows);

    ret_b->money = mem_alloc((rows.len + 1) * sizeof(ret_b->money[0]));
    ret_b->rest_u = mem_alloc((rows.len + 1) * sizeof(ret_b->rest_u[0]));
    for (size_t i = 0; i < rows.len && e == ERR_OK; i++) {
        size_t k = ret_b->rows.len;

        if (rows.at[i].notify)
            continue;
        *vec_push(&ret_b->rows) = rows.at[i];
        e = budget_fill(b, &rows.at[i], &ret_b->money[k]);
        if (e == ERR_OK)
            e = joint_rest(b, &rows.at[i], &ret_b->money[k], l, plan, until_s, back_u,
                           &ret_b->rest_u[k], &why);
    }
    vec_fini(&rows);
    return e;
}

void lease_budgets_fini(struct lease_budgets *x)
{
    vec_fini(&x->rows);
    free(x->money);
    free(x->rest_u);
}

/* ---- warnings ---- */

static const int alert_percents[] = {50, 80, 100};
static const int64_t alert_left_s[] = {600, 3600, 6 * 3600, 24 * 3600};

/* How long what runs under a budget goes on, at most a day and a second; INT64_MAX: nothing runs.
 */
static enum err runway(const struct books *b, const struct budget_row *row,
                       const struct budget *money, int64_t *ret_s)
{
    const int64_t far = b->now_s + DAY_S + 1;
    AUTO_MEMBERS struct members m = {0};
    struct refusal why = {0};
    size_t windows = 0;

    *ret_s = INT64_MAX;
    TRY(members_load(b, row, (struct id){0}, far, false, &m, &why));
    for (size_t i = 0; i < m.n; i++)
        windows += m.at[i].window_count;
    if (windows > 0)
        *ret_s =
            budget_joint_until(money->cap_u - money->posted_u, m.at, m.n, b->now_s, far) - b->now_s;
    return ERR_OK;
}

static enum err tell(const struct books *b, const char *kind, const char *text,
                     const struct budget_row *row, const char *left, int percent)
{
    struct event ev = {.at = b->now, .project = b->project};
    bool ok =
        str_copy(ev.kind, sizeof(ev.kind), kind) && str_copy(ev.text, sizeof(ev.text), text) &&
        str_printf(ev.data, sizeof(ev.data), "{\"name\":\"%s\",\"percent\":\"%d\",\"left\":\"%s\"}",
                   row->name, percent, left);

    CHECK(ok);
    return store_event_add(b->store, &ev);
}

static enum err tell_used(const struct books *b, const struct budget_row *row,
                          const struct budget *money, int percent)
{
    char left[MONEY_TEXT_SIZE + 8];

    money_format_ccy(money_of(budget_rest(money), b->ccy), left, sizeof(left));
    if (percent < 100)
        return tell(b, "budget.used", N_("Budget {name}: {percent} % is used, {left} is left."),
                    row, left, percent);
    return tell(b, "budget.used",
                row->notify ? N_("Budget {name} is used up. It only warns: what runs goes on.")
                            : N_("Budget {name} is used up: what runs under it stops."),
                row, left, percent);
}

static enum err tell_left(const struct books *b, const struct budget_row *row, int64_t left_s)
{
    char left[32];

    duration_format(left_s, left, sizeof(left));
    return tell(
        b, "budget.low",
        row->notify
            ? N_("Budget {name} lasts {left} at what runs now. It only warns.")
            : N_("Budget {name} lasts {left} at what runs now; then what runs under it stops."),
        row, left, 0);
}

static enum err alert_one(const struct books *b, struct budget_row *row, const struct budget *money)
{
    int percent = budget_alert(money, alert_percents, ARRAY_LEN(alert_percents));
    int64_t left_s, reached_s = 0, from_s, to_s;
    struct budget_row before = *row;

    budget_span(b, row->period, &from_s, &to_s);
    if (row->alert_from_s != from_s) { /* a new period: tell all again */
        row->alert_pct = 0;
        row->alert_s = 0;
        row->alert_from_s = from_s;
    }
    TRY(runway(b, row, money, &left_s));
    for (size_t i = ARRAY_LEN(alert_left_s); i > 0; i--)
        if (left_s <= alert_left_s[i - 1] && b->now_s + left_s < to_s)
            reached_s = alert_left_s[i - 1];
    if (left_s == 0)
        percent = 100; /* less than a second of it is left */
    if (percent > row->alert_pct)
        TRY(tell_used(b, row, money, percent));
    else if (reached_s && (row->alert_s == 0 || reached_s < row->alert_s))
        TRY(tell_left(b, row, left_s));
    row->alert_pct = MAX(percent, 0);
    row->alert_s = reached_s;
    if (row->alert_pct == before.alert_pct && row->alert_s == before.alert_s &&
        row->alert_from_s == before.alert_from_s)
        return ERR_OK;
    return money_budget_save(b->store, row);
}

enum err budgets_alert(const struct books *b)
{
    struct budget_list rows = {0};
    struct budget *money = NULL;
    enum err e = budgets_load(b, &rows, &money);

    for (size_t i = 0; i < rows.len && e == ERR_OK; i++)
        e = alert_one(b, &rows.at[i], &money[i]);
    free(money);
    vec_fini(&rows);
    return e;
}
