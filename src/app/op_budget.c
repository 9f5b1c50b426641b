/* op_budget.c: caps on what a project's leases may cost. Terms are granted only inside the rest of
 * every budget, so a cap is never passed by one unit; a cap below what is spent or held already
 * would be, and is refused. */
#include "app/op_money.h"

#include <stdlib.h>

#include "base/msg.h"

static const char *const periods[] = {
    [BUDGET_TOTAL] = "total",
    [BUDGET_MONTH] = "month",
    [BUDGET_DAY] = "day",
};

static void write_budget(struct op *op, const struct books *b, const struct budget_row *row,
                         const struct budget *money)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "name", row->name);
    json_money(&op->out, "cap", row->cap_u, b->ccy);
    json_str(&op->out, "period", periods[row->period]);
    json_money(&op->out, "spent", money->posted_u, b->ccy);
    json_money(&op->out, "held", money->pending_u, b->ccy);
    json_money(&op->out, "left", budget_rest(money), b->ccy);
    json_object_finish(&op->out);
}

enum err op_budget_list(struct op *op)
{
    struct budget_list list = {0};
    struct budget *money = NULL;
    struct page page;
    struct books b;

    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    TRY(page_open(op, &page));
    enum err e = budgets_load(&b, &list, &money);
    for (size_t i = 0; i < list.len && e == ERR_OK; i++)
        if (page_takes(&page, list.at[i].name))
            write_budget(op, &b, &list.at[i], &money[i]);
    free(money);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

static enum err read_budget(struct op *op, const struct books *b, struct budget_row *row)
{
    const char *period = people_arg(op, "period", periods[BUDGET_TOTAL]);
    bool known = false;

    row->project = b->project;
    if (!str_is_name(op->path_arg[0]))
        return people_invalid(op, "name", N_("1 to 63 of a-z, 0-9 and -"));
    (void)str_copy(row->name, sizeof(row->name), op->path_arg[0]);
    TRY(money_arg(op, "cap", b->ccy, &row->cap_u));
    for (size_t i = 0; i < ARRAY_LEN(periods); i++)
        if (str_eq(period, periods[i])) {
            row->period = (enum budget_period)i;
            known = true;
        }
    return known ? ERR_OK : people_invalid(op, "period", N_("day, month or total"));
}

enum err op_budget_set(struct op *op)
{
    struct budget_list list = {0};
    struct budget *money = NULL;
    struct budget_row row = {0};
    struct books b;

    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    TRY(read_budget(op, &b, &row));
    (void)str_copy(op->object, sizeof(op->object), row.name);
    TRY(money_budget_save(op->store, &row));
    enum err e = budgets_load(&b, &list, &money);
    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        if (!str_eq(list.at[i].name, row.name))
            continue;
        if (money[i].posted_u + money[i].pending_u > row.cap_u)
            e = people_invalid(op, "cap", N_("is below what is spent or held already"));
        else
            write_budget(op, &b, &row, &money[i]);
    }
    free(money);
    vec_fini(&list);
    return e;
}

enum err op_budget_remove(struct op *op)
{
    enum err e = money_budget_remove(op->store, op->who.project, op->path_arg[0]);

    (void)str_copy(op->object, sizeof(op->object), op->path_arg[0]);
    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "budget", op->path_arg[0], "budget ls");
    TRY(e);
    json_object_begin(&op->out, NULL);
    json_object_finish(&op->out);
    return ERR_OK;
}
