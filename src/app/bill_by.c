#include "app/bill_by.h"

#include <stdlib.h>

#include "app/bill_lines.h"
#include "app/usage_cost.h"
#include "base/msg.h"

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
/* What the lines say of one window, and how much of it is on its days already. */
struct part {
    char window[LEDGER_KEY_SIZE];
    int64_t from_s, year;
    int32_t month;
    int64_t u;
};
struct groups {
    struct group *at; /* owned */
    size_t len, cap;
    struct op *op;
    const struct books *b;
    const struct period *month;
    enum bill_by by;
    struct {
        struct part *at; /* owned; by day: sorted by window once all are there */
        size_t len, cap;
    } parts;
};

static void groups_fini(struct groups *g)
{
    vec_fini(&g->parts);
    vec_fini(g);
}
#define AUTO_GROUPS CLEANUP(groups_fini)

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

static const char *gpu_name(const struct line_row *w)
{
    switch ((enum meter)w->meter) {
    case METER_GPU:
        return str_starts(w->sku, "gpu.") ? w->sku + strlen("gpu.") : w->sku;
    case METER_CPU:
        return "cpu";
    case METER_DISK:
    case METER_DISK_STOPPED:
    case METER_DISK_DETACHED:
        return "disk";
    case METER_EGRESS:
    case METER_INGRESS:
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
static enum err user_name(struct groups *g, const struct line_row *l, char ret_name[NAME_SIZE])
{
    struct instance *i;
    struct window_row w;
    struct user u;
    enum err e = money_window_get(g->op->store, l->source, &w);

    CHECK(str_copy(ret_name, NAME_SIZE, "-"));
    if (e != ERR_OK || !w.instance.s[0])
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    i = mem_alloc(sizeof(*i));
    e = store_instance_get_any(g->op->store, w.instance, i);
    if (e == ERR_OK)
        e = store_user_get(g->op->store, i->owner, &u);
    if (e == ERR_OK)
        memcpy(ret_name, u.name, NAME_SIZE);
    mem_free_ptr(&i);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err day_add(struct groups *g, int64_t at_s, int64_t u)
{
    struct period day;
    char name[NAME_SIZE];

    period_day_at(&g->b->zone, at_s, &day);
    period_format(&day, name, sizeof(name));
    return group_add(g, name, u);
}

/* A line's group: what was used has a card, a user or days; what was bought has a day; what belongs
 * to none of them is a group by itself. */
static enum err add_line(void *user, const struct line_row *l)
{
    struct groups *g = user;
    char name[NAME_SIZE];

    if (l->kind == LINE_CHARGE && g->by == BILL_BY_DAY)
        return day_add(g, l->from_s, l->amount_u);
    if (l->kind == LINE_CHARGE)
        return group_add(g, l->sku, l->amount_u);
    if (l->kind == LINE_CREDIT || (l->kind == LINE_CORRECTION && g->by == BILL_BY_DAY))
        return group_add(g, line_kind_name(l->kind), l->amount_u);
    if (g->by == BILL_BY_GPU)
        return group_add(g, gpu_name(l), l->amount_u);
    if (g->by == BILL_BY_USER) {
        TRY(user_name(g, l, name));
        return group_add(g, name, l->amount_u);
    }
    struct part *x = vec_push(&g->parts);

    *x = (struct part){.from_s = l->from_s, .year = l->year, .month = l->month, .u = l->amount_u};
    memcpy(x->window, l->source, sizeof(x->window));
    return ERR_OK;
}

static int by_window(const void *a, const void *b)
{
    return strcmp(((const struct part *)a)->window, ((const struct part *)b)->window);
}

/* The lines of one window together: what was given back of it is not on its days. */
static enum err parts_join(struct groups *g)
{
    size_t n = 0;

    if (g->parts.len > 1)
        qsort(g->parts.at, g->parts.len, sizeof(g->parts.at[0]), by_window);
    for (size_t i = 0; i < g->parts.len; i++) {
        struct part *last = n ? &g->parts.at[n - 1] : NULL;

        if (last && str_eq(last->window, g->parts.at[i].window))
            TRY(micro_add(last->u, g->parts.at[i].u, &last->u));
        else
            g->parts.at[n++] = g->parts.at[i];
    }
    g->parts.len = n;
    return ERR_OK;
}

/* A stretch of use, as far as the bill has it: what came after the close is in a later one. */
static enum err add_day(void *arg, const struct usage_cost *c)
{
    struct groups *g = arg;
    struct part key, *x;
    int64_t u;

    memcpy(key.window, c->window->id, sizeof(key.window));
    x = g->parts.len ? bsearch(&key, g->parts.at, g->parts.len, sizeof(key), by_window) : NULL;
    u = x ? MIN(c->u, MAX(x->u, (int64_t)0)) : 0;
    if (u == 0)
        return ERR_OK;
    x->u -= u;
    return day_add(g, c->from_s, u);
}

static enum err add_days(struct groups *g)
{
    TRY(parts_join(g));
    TRY(usage_cost_month(g->b, g->month->year, g->month->month, add_day, g));
    for (size_t i = 0; i < g->parts.len; i++) {
        const struct part *x = &g->parts.at[i];

        if (x->u == 0)
            continue;
        if (x->year == g->month->year && x->month == g->month->month)
            TRY(day_add(g, x->from_s, x->u));
        else
            TRY(group_add(g, line_kind_name(LINE_REVERSAL), x->u));
    }
    return ERR_OK;
}

/* What a close adds to its lines: the residue that went back, taxes on top. */
static enum err add_close(struct groups *g, const struct statement_row *st)
{
    int64_t tax_u = (st->payable_minor - st->lines_minor) * st->minor_u;

    if (st->residue_u)
        TRY(group_add(g, "residue", -st->residue_u));
    return tax_u ? group_add(g, "tax", tax_u) : ERR_OK;
}

static void write_group(struct op *op, const char *name, int64_t u, struct currency ccy)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "name", name);
    json_money(&op->out, "amount", u, ccy);
    json_object_finish(&op->out);
}

static enum err add_amount(void *user, const struct line_row *l)
{
    int64_t *sum = user;

    return micro_add(*sum, l->amount_u, sum);
}

/* What a project pays for a month: as closed, or what its lines come to so far. */
static enum err project_sum(const struct books *b, const struct period *month, int64_t *ret_u)
{
    struct statement_row st;
    enum err e = close_statement(b->store, b->project, month->year, month->month, &st);

    *ret_u = 0;
    if (e == ERR_NOT_FOUND)
        return bill_lines(b, month, NULL, add_amount, ret_u);
    if (e == ERR_OK)
        *ret_u = st.payable_minor * st.minor_u;
    return e;
}

/* Every project that the caller may look into, in its own zone and currency. */
static enum err write_projects(struct op *op, const struct period *month)
{
    struct project_list projects = {0};
    enum err e = store_project_list_of(op->store, op->who.user, &projects);

    for (size_t i = 0; i < projects.len && e == ERR_OK; i++) {
        struct period own;
        struct books b;
        int64_t sum;

        e = books_open(op->store, op->now, projects.at[i].id, &b, &op->why);
        if (e == ERR_OK) {
            period_month(&b.zone, month->year, month->month, &own);
            e = project_sum(&b, &own, &sum);
        }
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
                             const struct statement_row *st, enum bill_by by)
{
    AUTO_GROUPS struct groups g = {.op = op, .b = b, .month = month, .by = by};

    TRY(bill_lines(b, month, st, add_line, &g));
    if (by == BILL_BY_DAY)
        TRY(add_days(&g));
    if (st)
        TRY(add_close(&g, st));
    if (g.len > 1)
        qsort(g.at, g.len, sizeof(g.at[0]), by_name);
    for (size_t i = 0; i < g.len; i++)
        write_group(op, g.at[i].name, g.at[i].u, b->ccy);
    return ERR_OK;
}

enum err bill_by_write(struct op *op, const struct books *b, const struct period *month,
                       const struct statement_row *st, enum bill_by by)
{
    enum err e = ERR_OK;

    json_str(&op->out, "by", by == BILL_BY_NONE ? NULL : words[by]);
    json_array_begin(&op->out, "groups");
    if (by == BILL_BY_PROJECT)
        e = write_projects(op, month);
    else if (by != BILL_BY_NONE)
        e = write_groups(op, b, month, st, by);
    json_array_finish(&op->out);
    return e;
}
