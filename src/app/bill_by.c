#include "app/bill_by.h"

#include <stdlib.h>

#include "app/usage_cost.h"
#include "base/msg.h"
#include "store/rows_close.h"

static const char *const words[] = {"", "project", "gpu", "user", "day"};

enum err bill_by_arg(struct op *op, enum bill_by *ret_by)
{
    const char *text = query_arg(op, "by");

    *ret_by = BILL_BY_NONE;
    for (size_t i = 1; text && i < ARRAY_LEN(words); i++)
        if (str_eq(text, words[i]))
            *ret_by = (enum bill_by)i;
    if (text && *ret_by == BILL_BY_NONE)
        return people_invalid(op, "by", N_("project, gpu, user or day"));
    return ERR_OK;
}

struct group {
    char name[NAME_SIZE];
    int64_t u;
};
struct groups {
    struct group *at; /* owned */
    size_t len, cap;
    struct op *op;
    const struct books *b;
    enum bill_by by;
};

static enum err group_add(struct groups *g, const char *name, int64_t u)
{
    size_t i = 0;

    while (i < g->len && !str_eq(g->at[i].name, name))
        i++;
    if (i == g->len) {
        struct group *x = vec_push(g);

        (void)str_copy(x->name, sizeof(x->name), name);
    }
    return micro_add(g->at[i].u, u, &g->at[i].u);
}

static const char *gpu_name(const struct window_row *w)
{
    switch (w->meter) {
    case METER_GPU:
        return str_starts(w->sku, "gpu.") ? w->sku + strlen("gpu.") : w->sku;
    case METER_CPU:
        return "cpu";
    case METER_DISK:
    case METER_DISK_STOPPED:
    case METER_DISK_DETACHED:
        return "disk";
    case METER_EGRESS:
        return "traffic";
    case METER_NODE:
        return w->sku + strlen("exclusive.gpu.");
    case METER_NONE:
    case METER_COUNT:
        break;
    }
    return "";
}

/* Who rented it; a data disk is the project's. */
static enum err user_name(struct groups *g, const struct window_row *w, char ret_name[NAME_SIZE])
{
    struct instance *i;
    struct user u;

    CHECK(str_copy(ret_name, NAME_SIZE, "-"));
    if (!w->instance.s[0])
        return ERR_OK;
    i = mem_alloc(sizeof(*i));
    enum err e = store_instance_get_any(g->op->store, w->instance, i);
    if (e == ERR_OK)
        e = store_user_get(g->op->store, i->owner, &u);
    if (e == ERR_OK)
        memcpy(ret_name, u.name, NAME_SIZE);
    mem_free_ptr(&i);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err add_window(struct groups *g, const struct window_row *w)
{
    char name[NAME_SIZE];

    if (g->by == BILL_BY_GPU)
        return group_add(g, gpu_name(w), w->rated_u - w->reversed_u);
    TRY(user_name(g, w, name));
    return group_add(g, name, w->rated_u - w->reversed_u);
}

static enum err add_day(void *arg, const struct usage_cost *c)
{
    struct groups *g = arg;
    struct period day;
    char name[NAME_SIZE];

    period_day_at(&g->b->zone, c->from_s, &day);
    period_format(&day, name, sizeof(name));
    return group_add(g, name, c->u);
}

/* What was bought is on the bill of its month too: on its day, else as a part of its own. */
static enum err add_purchases(struct groups *g, const struct period *month)
{
    struct purchase_line_list list = {0};
    enum err e = purchase_line_list(g->b->store, g->b->project, month->from_s * MS_PER_S,
                                    month->to_s * MS_PER_S, &list);

    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        const struct purchase_line *p = &list.at[i];
        char name[NAME_SIZE];
        struct period day;

        if (p->amount_u <= 0)
            continue;
        CHECK(str_copy(name, sizeof(name),
                       str_starts(p->account, "deferred.") ? "plan" : "purchase"));
        if (g->by == BILL_BY_DAY) {
            period_day_at(&g->b->zone, p->at / MS_PER_S, &day);
            period_format(&day, name, sizeof(name));
        }
        e = group_add(g, name, p->amount_u);
    }
    vec_fini(&list);
    return e;
}

static void write_group(struct op *op, const char *name, int64_t u, struct currency ccy)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "name", name);
    json_money(&op->out, "amount", u, ccy);
    json_object_finish(&op->out);
}

/* Every project that the caller may look into, in its own zone and currency. */
static enum err write_projects(struct op *op, const struct period *month)
{
    struct project_list projects = {0};
    enum err e = store_project_list_of(op->store, op->who.user, &projects);

    for (size_t i = 0; i < projects.len && e == ERR_OK; i++) {
        struct window_list windows = {0};
        struct books b;
        int64_t sum = 0;

        e = books_open(op->store, op->now, projects.at[i].id, &b, &op->why);
        if (e == ERR_OK)
            e = money_window_month(op->store, b.project, month->year, month->month, &windows);
        for (size_t k = 0; k < windows.len && e == ERR_OK; k++)
            e = micro_add(sum, windows.at[k].rated_u - windows.at[k].reversed_u, &sum);
        vec_fini(&windows);
        if (e == ERR_OK)
            write_group(op, projects.at[i].name, sum, b.ccy);
    }
    vec_fini(&projects);
    return e;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct group *)a)->name, ((const struct group *)b)->name);
}

static enum err write_groups(struct op *op, const struct books *b, const struct period *month,
                             enum bill_by by)
{
    struct groups g = {.op = op, .b = b, .by = by};
    struct window_list windows = {0};
    enum err e = ERR_OK;

    if (by == BILL_BY_DAY)
        e = usage_cost_month(b, month->year, month->month, add_day, &g);
    else
        e = money_window_month(op->store, b->project, month->year, month->month, &windows);
    for (size_t i = 0; i < windows.len && e == ERR_OK; i++)
        e = add_window(&g, &windows.at[i]);
    if (e == ERR_OK)
        e = add_purchases(&g, month);
    if (g.len > 1)
        qsort(g.at, g.len, sizeof(g.at[0]), by_name);
    for (size_t i = 0; i < g.len && e == ERR_OK; i++)
        write_group(op, g.at[i].name, g.at[i].u, b->ccy);
    vec_fini(&windows);
    vec_fini(&g);
    return e;
}

enum err bill_by_write(struct op *op, const struct books *b, const struct period *month,
                       enum bill_by by)
{
    enum err e = ERR_OK;

    json_str(&op->out, "by", by == BILL_BY_NONE ? NULL : words[by]);
    json_array_begin(&op->out, "groups");
    if (by == BILL_BY_PROJECT)
        e = write_projects(op, month);
    else if (by != BILL_BY_NONE)
        e = write_groups(op, b, month, by);
    json_array_finish(&op->out);
    return e;
}
