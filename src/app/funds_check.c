#include "app/funds_check.h"

#include <stdlib.h>

#include "app/funds_int.h"
#include "app/usage_cost.h"
#include "base/msg.h"
#include "store/rows_close.h"
#include "store/rows_review.h"

static const char *const laws[] = {"I1",  "I2",  "I3",  "I4",  "I5",  "I6",  "I7",
                                   "I8",  "I9",  "I10", "I11", "I12", "I13", "I14",
                                   "I15", "I16", "I17", "I18", "I19", "I20", "I21",
                                   "I22", "I23", "I24", "I25", "I26", "I27", "I28"};
/* proven by one fold of the journal, which stops at the first violation */
static const char *const fold_laws[] = {"I1", "I2", "I3", "I4", "I5", "I6", "I8"};

static void fail(struct funds_check *c, const char *id, const char *text)
{
    c->pass = false;
    for (size_t i = 0; i < c->n; i++) {
        if (!str_eq(c->rows[i].id, id) || !c->rows[i].pass)
            continue;
        c->rows[i].pass = false;
        if (!str_copy(c->rows[i].text, sizeof(c->rows[i].text), text))
            (void)str_copy(c->rows[i].text, sizeof(c->rows[i].text), "broken");
    }
}

static void tell(struct funds_check *c, const char *id, const char *text)
{
    for (size_t i = 0; i < c->n; i++)
        if (str_eq(c->rows[i].id, id)) {
            c->rows[i].told = true;
            (void)str_copy(c->rows[i].text, sizeof(c->rows[i].text), text);
        }
}

/* "I3 cash.prj_…" and why. */
static void fail_fold(struct funds_check *c, const struct refusal *why)
{
    char id[8] = "", text[TEXT_SIZE];
    const char *what = why->param_count > 0 ? why->params[0].value : "I2";
    const char *reason = why->param_count > 1 ? why->params[1].value : "";
    size_t n = strcspn(what, " ");

    if (n < sizeof(id))
        memcpy(id, what, n);
    if (!str_printf(text, sizeof(text), "%.80s: %.100s", what + n + (what[n] == ' '), reason))
        text[0] = '\0';
    fail(c, id, text);
    (void)str_printf(text, sizeof(text), "not proven: %s is broken", id);
    for (size_t i = 0; i < ARRAY_LEN(fold_laws); i++)
        if (!str_eq(fold_laws[i], id))
            fail(c, fold_laws[i], text);
}

static enum err check_fold(struct store *s, utime_t now, struct funds_check *c)
{
    struct account_list accounts = {0};
    struct transfer_list journal = {0};
    struct refusal why = {0};
    enum err e = money_account_list(s, &accounts);

    if (e == ERR_OK)
        e = money_transfer_list(s, &journal);
    if (e == ERR_OK) {
        struct ledger_book book = {.accounts = accounts.at,
                                   .account_count = accounts.len,
                                   .journal = journal.at,
                                   .journal_count = journal.len,
                                   .now_ms = now};

        book.fold = mem_alloc((accounts.len + 1) * sizeof(*book.fold));
        book.by_id = mem_alloc((journal.len + 1) * sizeof(*book.by_id));
        book.resolutions = mem_alloc((journal.len + 1) * sizeof(*book.resolutions));
        if (ledger_check(&book, &why) != ERR_OK)
            fail_fold(c, &why);
        free(book.fold);
        free(book.by_id);
        free(book.resolutions);
    }
    vec_fini(&accounts);
    vec_fini(&journal);
    return e;
}

static enum err check_queries(struct store *s, struct funds_check *c)
{
    for (size_t i = 0; i < money_law_count + close_law_count; i++) {
        const struct money_law *law =
            i < money_law_count ? &money_laws[i] : &close_laws[i - money_law_count];
        char text[TEXT_SIZE];

        TRY(money_law_check(s, law, text, sizeof(text)));
        if (text[0])
            fail(c, law->id, text);
    }
    return ERR_OK;
}

/* I12: F of each window again. */
static enum err check_windows(struct store *s, struct funds_check *c)
{
    struct window_list windows = {0};
    enum err e = money_window_all(s, &windows);

    for (size_t i = 0; i < windows.len && e == ERR_OK; i++) {
        struct rate rate;
        int64_t u = 0;

        e = window_rate(s, &windows.at[i], &rate);
        if (e == ERR_OK &&
            (rate_total(&rate, windows.at[i].qty, &u) != ERR_OK || u != windows.at[i].rated_u))
            fail(c, "I12", windows.at[i].id);
    }
    vec_fini(&windows);
    return e;
}

/* I24: a quote of this second finds the price version that its window was billed at. */
static enum err check_quote(const struct books *b, const struct fund_lease *l,
                            const struct review_stretch *x, int64_t at_s, struct funds_check *c,
                            struct refusal *why)
{
    struct rating r;
    struct rate rate;
    struct id price = {""};
    char text[TEXT_SIZE];
    enum err e;

    rating_of_lease(l, &r);
    r.packages = RATING_BY_MONEY;
    e = rating_price(b, &r, at_s, &price, &rate, why);
    if (e == ERR_STORE || (e == ERR_OK && str_eq(price.s, x->price.s)))
        return e;
    (void)str_printf(text, sizeof(text), "%s second %" PRId64 ": quoted %s", x->rating_window, at_s,
                     e == ERR_OK ? price.s : "nothing");
    fail(c, "I24", text);
    return ERR_OK;
}

static enum err check_quotes(struct store *s, utime_t now, struct funds_check *c,
                             struct refusal *why)
{
    struct review_stretch_list list = {0};
    enum err e = review_stretch_list(s, &list);

    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        const struct review_stretch *x = &list.at[i];
        struct fund_lease l;
        struct books b;

        e = money_lease_get(s, x->lease, &l);
        if (e == ERR_OK)
            e = books_open(s, now, l.project, &b, why);
        if (e == ERR_OK)
            e = check_quote(&b, &l, x, x->first_s, c, why);
        if (e == ERR_OK)
            e = check_quote(&b, &l, x, x->last_s, c, why);
    }
    vec_fini(&list);
    return e;
}

/* I16: no budget is passed, by what was rated and what holds may still take. */
static enum err check_budgets(const struct books *b, struct funds_check *c)
{
    struct budget_list budgets = {0};
    struct budget *money = NULL;
    enum err e = budgets_load(b, &budgets, &money);

    for (size_t i = 0; i < budgets.len && e == ERR_OK; i++)
        if (!budgets.at[i].notify && money[i].posted_u + money[i].pending_u > money[i].cap_u)
            fail(c, "I16", budgets.at[i].name);
    free(money);
    vec_fini(&budgets);
    return e;
}

static enum err add_days(void *arg, const struct usage_cost *c)
{
    int64_t *sum = arg;

    return micro_add(*sum, c->u, sum);
}

/* I27: the days of each month add up to it. */
static enum err check_months(const struct books *b, struct funds_check *c)
{
    struct review_month_list months = {0};
    enum err e = review_month_list(b->store, b->project, &months);

    for (size_t i = 0; i < months.len && e == ERR_OK; i++) {
        const struct review_month *m = &months.at[i];
        char text[TEXT_SIZE];
        int64_t days_u = 0;

        e = usage_cost_month(b, m->year, (int)m->month, add_days, &days_u);
        if (e != ERR_OK || days_u == m->rated_u)
            continue;
        (void)str_printf(text, sizeof(text),
                         "%s %04" PRId64 "-%02" PRId64 ": days %" PRId64 ", month %" PRId64,
                         b->project.s, m->year, m->month, days_u, m->rated_u);
        fail(c, "I27", text);
    }
    vec_fini(&months);
    return e;
}

/* I17: what may still run is held: used + F over [cursor, paid_until) <= hold. */
static enum err check_lease(struct store *s, utime_t now, const struct fund_lease *l,
                            struct funds_check *c, struct refusal *why)
{
    struct term_plan *plan = mem_alloc(sizeof(*plan));
    struct window_list open = {0};
    struct books b;
    int64_t cost = 0;
    enum err e = books_open(s, now, l->project, &b, why);

    if (e == ERR_OK)
        e = lease_plan(&b, l, RATING_HELD, l->paid_until_s, plan, why);
    if (e == ERR_OK)
        e = term_cost(plan->w, plan->n, l->paid_until_s - plan->start_s, &cost);
    if (e == ERR_OK)
        e = money_window_open_lease(s, l->lease, &open);
    for (size_t i = 0; i < open.len && e == ERR_OK; i++)
        e = micro_add(cost, open.at[i].rated_u - open.at[i].posted_u, &cost);
    if (e == ERR_OK && cost > l->hold_u) {
        char text[TEXT_SIZE];

        (void)str_printf(text, sizeof(text), "%s may cost %" PRId64 ", held %" PRId64, l->lease.s,
                         cost, l->hold_u);
        fail(c, "I17", text);
    }
    free(plan);
    vec_fini(&open);
    return e;
}

static enum err check_projects(struct store *s, utime_t now, struct funds_check *c,
                               struct refusal *why)
{
    struct project_list projects = {0};
    struct fund_lease_list leases = {0};
    enum err e = store_project_list(s, &projects);

    for (size_t i = 0; i < projects.len && e == ERR_OK; i++) {
        struct books b;

        e = books_open(s, now, projects.at[i].id, &b, why);
        if (e == ERR_OK)
            e = check_budgets(&b, c);
        if (e == ERR_OK)
            e = check_months(&b, c);
    }
    if (e == ERR_OK)
        e = money_lease_open_all(s, &leases);
    for (size_t i = 0; i < leases.len && e == ERR_OK; i++)
        e = check_lease(s, now, &leases.at[i], c, why);
    vec_fini(&projects);
    vec_fini(&leases);
    return e;
}

enum err funds_check_run(struct store *s, utime_t now, struct funds_check *ret_c,
                         struct refusal *why)
{
    struct funds_check *c = ret_c;

    *c = (struct funds_check){.n = ARRAY_LEN(laws), .pass = true};
    for (size_t i = 0; i < c->n; i++) {
        (void)str_copy(c->rows[i].id, sizeof(c->rows[i].id), laws[i]);
        c->rows[i].pass = true;
    }
    TRY(check_fold(s, now, c));
    TRY(check_queries(s, c));
    tell(c, "I18", N_("not of a store: what a budget left at a past stop is not kept"));
    TRY(check_windows(s, c));
    TRY(check_quotes(s, now, c, why));
    return check_projects(s, now, c, why);
}
