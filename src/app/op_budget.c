/* op_budget.c: caps on what the leases of a project, a user or a label may cost. Terms are granted
 * only inside the rest of every budget that covers them, so a cap is never passed by one unit; a
 * cap below what is spent or held already would be, and is refused. */
#include "app/op_money.h"

#include <stdlib.h>

#include "base/msg.h"

static const char *const periods[] = {
    [BUDGET_TOTAL] = "total",
    [BUDGET_MONTH] = "month",
    [BUDGET_DAY] = "day",
};
static const char *const on_cap[] = {"stop", "notify"};

static enum err write_scope(struct op *op, const struct budget_row *row)
{
    char text[TEXT_SIZE + 8];
    struct user u;
    bool ok = true;

    switch (row->scope) {
    case BUDGET_PROJECT:
        ok = str_copy(text, sizeof(text), "project");
        break;
    case BUDGET_USER: {
        struct id id = {0};

        ok = str_copy(id.s, sizeof(id.s), row->scope_of);
        TRY(store_user_get(op->store, id, &u));
        ok = ok && str_printf(text, sizeof(text), "user:%s", u.name);
        break;
    }
    case BUDGET_LABEL:
        ok = str_printf(text, sizeof(text), "label:%s", row->scope_of);
        break;
    }
    CHECK(ok);
    json_str(&op->out, "scope", text);
    return ERR_OK;
}

static enum err write_budget(struct op *op, const struct books *b, const struct budget_row *row,
                             const struct budget *money)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "name", row->name);
    TRY(write_scope(op, row));
    json_money(&op->out, "cap", row->cap_u, b->ccy);
    json_str(&op->out, "period", periods[row->period]);
    json_str(&op->out, "on_cap", on_cap[row->notify]);
    json_money(&op->out, "spent", money->posted_u, b->ccy);
    json_money(&op->out, "held", money->pending_u, b->ccy);
    json_money(&op->out, "left", budget_rest(money), b->ccy);
    json_object_finish(&op->out);
    return ERR_OK;
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
            e = write_budget(op, &b, &list.at[i], &money[i]);
    free(money);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

/* Index of a word in a list of n; the field and what it may be when it is none of them. */
static enum err read_word(struct op *op, const char *field, const char *const words[], size_t n,
                          const char *allowed, size_t *io_index)
{
    const char *given = people_arg(op, field, words[*io_index]);

    for (size_t i = 0; i < n; i++)
        if (str_eq(given, words[i])) {
            *io_index = i;
            return ERR_OK;
        }
    return people_invalid(op, field, allowed);
}

/* Whose money: the project's, that of one of its members, or of a label. */
static enum err read_scope(struct op *op, struct budget_row *row)
{
    const char *user = people_arg(op, "user", NULL), *label = people_arg(op, "label", NULL);
    struct user u;
    enum role role;

    if (user && label)
        return people_invalid(op, "label", N_("a budget is for a user or for a label, not both"));
    if (user) {
        enum err e = store_user_get_name(op->store, user, &u);

        if (e == ERR_OK)
            e = store_member_role(op->store, row->project, u.id, &role);
        if (e == ERR_NOT_FOUND)
            return people_not_found(op, "user", user, "project ls");
        TRY(people_try(op, e));
        row->scope = BUDGET_USER;
        (void)str_copy(row->scope_of, sizeof(row->scope_of), u.id.s);
    } else if (label) {
        if (!strchr(label, '=') || label[0] == '=' || strchr(label, ',') ||
            !str_copy(row->scope_of, sizeof(row->scope_of), label))
            return people_invalid(op, "label", N_("labels are k=v, without commas"));
        row->scope = BUDGET_LABEL;
    }
    return ERR_OK;
}

/* What is given replaces what is there. */
static enum err read_budget(struct op *op, const struct books *b, struct budget_row *row)
{
    size_t period = row->period, notify = row->notify;

    TRY(read_scope(op, row));
    if (row->cap_u < 0 || json_object_get(op->body, "cap"))
        TRY(money_arg(op, "cap", b->ccy, &row->cap_u));
    TRY(read_word(op, "period", periods, ARRAY_LEN(periods), N_("day, month or total"), &period));
    TRY(read_word(op, "on_cap", on_cap, ARRAY_LEN(on_cap), N_("stop or notify"), &notify));
    row->period = (enum budget_period)period;
    row->notify = notify == 1;
    row->alert_pct = 0;
    row->alert_s = 0;
    return ERR_OK;
}

/* Saves it when it holds already: nothing under it is spent or held beyond its cap. */
static enum err budget_store(struct op *op, const struct books *b, const struct budget_row *row)
{
    struct budget_list list = {0};
    struct budget *money = NULL;

    TRY(money_budget_save(op->store, row));
    enum err e = budgets_load(b, &list, &money);
    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        if (!str_eq(list.at[i].name, row->name))
            continue;
        if (!row->notify && money[i].posted_u + money[i].pending_u > row->cap_u)
            e = people_invalid(op, "cap", N_("is below what is spent or held already"));
        else
            e = write_budget(op, b, row, &money[i]);
    }
    free(money);
    vec_fini(&list);
    return e;
}

static enum err budget_write(struct op *op, bool fresh)
{
    struct budget_row row = {.cap_u = -1};
    struct books b;

    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    if (!str_is_name(op->path_arg[0]))
        return people_invalid(op, "name", N_("1 to 63 of a-z, 0-9 and -"));
    (void)str_copy(op->object, sizeof(op->object), op->path_arg[0]);
    enum err e = money_budget_get(op->store, b.project, op->path_arg[0], &row);
    if (e == ERR_OK && fresh)
        return people_exists(op, "budget", row.name);
    if (e == ERR_NOT_FOUND) {
        row.project = b.project;
        (void)str_copy(row.name, sizeof(row.name), op->path_arg[0]);
    } else {
        TRY(people_try(op, e));
    }
    TRY(read_budget(op, &b, &row));
    return budget_store(op, &b, &row);
}

enum err op_budget_create(struct op *op)
{
    return budget_write(op, true);
}

enum err op_budget_set(struct op *op)
{
    return budget_write(op, false);
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
