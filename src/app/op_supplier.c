/* op_supplier.c: suppliers, their nodes, what they earned, and payouts. */
#include <stdlib.h>

#include "app/op_money.h"
#include "app/supply.h"
#include "base/msg.h"
#include "base/units.h"

#define DISPUTE_DEFAULT_S (7 * DAY_S)
#define SHARE_DEFAULT "80"

static enum err named(struct op *op, struct supplier *ret_x)
{
    enum err e = supply_get_name(op->store, op->path_arg[0], ret_x);

    (void)str_copy(op->object, sizeof(op->object), op->path_arg[0]);
    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "supplier", op->path_arg[0], "admin supplier ls");
    return people_try(op, e);
}

static enum err write_balances(struct op *op, const struct supplier *x)
{
    struct currency_list list = {0};
    enum err e = supply_currencies(op->store, x->id, &list);

    json_array_begin(&op->out, "balances");
    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        struct supply_balance b;

        e = supply_balance(op->store, op->now, x, list.at[i].code, &b);
        if (e != ERR_OK)
            break;
        json_object_begin(&op->out, NULL);
        json_money(&op->out, "held", b.held_u, b.ccy);
        json_money(&op->out, "payable", b.payable_u, b.ccy);
        json_money(&op->out, "paid", b.paid_u, b.ccy);
        json_object_finish(&op->out);
    }
    json_array_finish(&op->out);
    vec_fini(&list);
    return e;
}

static enum err write_supplier(struct op *op, const struct supplier *x)
{
    char text[MONEY_TEXT_SIZE], dispute[32];
    struct currency any;
    struct user u;
    int64_t nodes = 0;

    TRY(store_user_get(op->store, x->user, &u));
    TRY(supply_node_count(op->store, x->id, &nodes));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", x->id.s);
    json_str(&op->out, "name", x->name);
    json_str(&op->out, "user", u.name);
    json_strf(&op->out, "share", "%" PRId64 "/%" PRId64, x->share_n, x->share_d);
    if (x->dispute_s > 0)
        duration_format(x->dispute_s, dispute, sizeof(dispute));
    else
        CHECK(str_copy(dispute, sizeof(dispute), "none"));
    json_str(&op->out, "dispute", dispute);
    TRY(currency_get("CNY", &any));
    money_format(money_of(x->threshold_u, any), text, sizeof(text));
    json_str(&op->out, "threshold", text);
    json_i64(&op->out, "nodes", nodes);
    TRY(write_balances(op, x));
    json_object_finish(&op->out);
    return ERR_OK;
}

/* "80" (per cent) or "4/5". */
static enum err read_share(struct op *op, struct supplier *x, const char *def)
{
    const char *text = people_arg(op, "share", def);
    char *end = NULL;
    int64_t n, d = 100;

    if (!text)
        return ERR_OK;
    n = strtoll(text, &end, 10);
    if (end != text && *end == '/') {
        text = end + 1;
        d = strtoll(text, &end, 10);
    }
    if (end == text || *end || n < 0 || d <= 0 || n > d || d > 1000000)
        return people_invalid(op, "share", N_("per cent such as 80, or a fraction such as 4/5"));
    x->share_n = n;
    x->share_d = d;
    return ERR_OK;
}

static enum err read_terms(struct op *op, struct supplier *x, const char *share)
{
    const char *dispute = people_arg(op, "dispute", NULL);
    const char *threshold = people_arg(op, "threshold", NULL);
    struct currency any;
    struct money m;

    TRY(read_share(op, x, share));
    if (dispute && str_eq(dispute, "none"))
        x->dispute_s = 0;
    else if (dispute && duration_parse(dispute, &x->dispute_s) != ERR_OK)
        return people_invalid(op, "dispute", N_("a duration such as 7d, or none"));
    TRY(currency_get("CNY", &any)); /* a threshold is a bare number: of each currency */
    if (threshold && (money_parse(threshold, any, &m) != ERR_OK || m.u < 0))
        return people_invalid(op, "threshold", N_("an amount such as 100, of any currency"));
    x->threshold_u = threshold ? m.u : x->threshold_u;
    return ERR_OK;
}

enum err op_supplier_add(struct op *op)
{
    struct supplier x = {.dispute_s = DISPUTE_DEFAULT_S, .created_at = op->now}, other;
    const char *user = people_arg(op, "user", "");
    struct user u;

    if (!str_is_name(op->path_arg[0]))
        return people_invalid(op, "name", N_("1 to 63 of a-z, 0-9 and -"));
    (void)str_copy(op->object, sizeof(op->object), op->path_arg[0]);
    enum err e = supply_get_name(op->store, op->path_arg[0], &other);
    if (e == ERR_OK)
        return people_exists(op, "supplier", other.name);
    if (e != ERR_NOT_FOUND)
        return people_try(op, e);
    e = store_user_get_name(op->store, user, &u);
    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "user", user, "admin user ls");
    TRY(people_try(op, e));
    e = supply_get_user(op->store, u.id, &other);
    if (e == ERR_OK)
        return people_exists(op, "supplier", other.name);
    if (e != ERR_NOT_FOUND)
        return people_try(op, e);
    TRY(read_terms(op, &x, SHARE_DEFAULT));
    x.id = core_id(op->core, "sup");
    x.user = u.id;
    CHECK(str_copy(x.name, sizeof(x.name), op->path_arg[0]));
    TRY(supply_save(op->store, &x));
    return write_supplier(op, &x);
}

enum err op_supplier_set(struct op *op)
{
    struct supplier x;

    TRY(named(op, &x));
    TRY(read_terms(op, &x, NULL));
    TRY(supply_save(op->store, &x));
    return write_supplier(op, &x);
}

enum err op_supplier_list(struct op *op)
{
    struct supplier_list list = {0};
    struct page page;

    TRY(page_open(op, &page));
    enum err e = supply_list(op->store, &list);
    for (size_t i = 0; i < list.len && e == ERR_OK; i++)
        if (page_takes(&page, list.at[i].name))
            e = write_supplier(op, &list.at[i]);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

static enum err node_of(struct op *op, struct id *ret_id)
{
    struct node *n = mem_alloc(sizeof(*n));
    enum err e = store_node_lookup(op->store, op->path_arg[1], n, &op->why);

    *ret_id = n->id;
    mem_free_ptr(&n);
    return e;
}

enum err op_supplier_node_add(struct op *op)
{
    struct supplier x;
    struct id node;

    TRY(named(op, &x));
    TRY(node_of(op, &node));
    TRY(supply_node_set(op->store, node, x.id, op->now));
    return write_supplier(op, &x);
}

enum err op_supplier_node_remove(struct op *op)
{
    struct supplier x;
    struct id node;

    TRY(named(op, &x));
    TRY(node_of(op, &node));
    enum err e = supply_node_clear(op->store, node);
    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "node", op->path_arg[1], "admin supplier ls");
    TRY(people_try(op, e));
    return write_supplier(op, &x);
}

/* ---- statements ---- */

static enum err write_line(struct op *op, const struct supply_line *l, struct currency ccy)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "source", l->source);
    json_str(&op->out, "sku", l->sku);
    json_str(&op->out, "subject", l->subject.s);
    json_str(&op->out, "node", l->node.s);
    json_strf(&op->out, "quantity", "%" PRId64, l->qty);
    json_money(&op->out, "gross", l->gross_u, ccy);
    json_money(&op->out, "earned", l->shared_u, ccy);
    json_object_finish(&op->out);
    return ERR_OK;
}

/* The month is that of the bills the lines stand on. */
static enum err write_statement(struct op *op, const struct supplier *x)
{
    struct supply_line_list lines = {0};
    struct period month;
    struct zone zone;
    const char *given = query_arg(op, "month");
    char text[16];

    CHECK(funds_zone("Asia/Shanghai", &zone)); /* as projects have it unless they say otherwise */
    if (!given)
        period_month_at(&zone, op->now / MS_PER_S, &month);
    else if (period_parse(&zone, given, &month) != ERR_OK || month.day != 0)
        return people_invalid(op, "month", N_("a month such as 2026-03"));
    period_format(&month, text, sizeof(text));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "supplier", x->name);
    json_str(&op->out, "month", text);
    json_array_begin(&op->out, "lines");
    enum err e = supply_line_list(op->store, x->id, month.year, month.month, &lines);
    for (size_t i = 0; i < lines.len && e == ERR_OK; i++) {
        struct currency ccy;

        e = currency_get(lines.at[i].currency, &ccy);
        if (e == ERR_OK)
            e = write_line(op, &lines.at[i], ccy);
    }
    vec_fini(&lines);
    json_array_finish(&op->out);
    if (e == ERR_OK)
        e = write_balances(op, x);
    json_object_finish(&op->out);
    return e;
}

enum err op_supplier_statement(struct op *op)
{
    struct supplier x;
    enum err e = supply_get_user(op->store, op->who.user, &x);

    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "supplier", op->who.user_name, "whoami");
    TRY(people_try(op, e));
    return write_statement(op, &x);
}

enum err op_admin_supplier_statement(struct op *op)
{
    struct supplier x;

    TRY(named(op, &x));
    return write_statement(op, &x);
}

/* ---- payouts ---- */

static enum err write_payout(struct op *op, const struct payout *p)
{
    struct supplier x;
    struct currency ccy;

    TRY(supply_get(op->store, p->supplier, &x));
    TRY(currency_get(p->currency, &ccy));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", p->id.s);
    json_str(&op->out, "supplier", x.name);
    json_money(&op->out, "amount", p->amount_u, ccy);
    json_money(&op->out, "carried", p->carried_u, ccy);
    json_time(&op->out, "at", p->at);
    json_str(&op->out, "state", p->paid_at ? "paid" : "ordered");
    json_str(&op->out, "reference", p->reference[0] ? p->reference : NULL);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_payout_list(struct op *op)
{
    struct payout_list list = {0};
    struct page page;

    TRY(page_open(op, &page));
    enum err e = supply_payout_list(op->store, (struct id){0}, &list);
    for (size_t i = 0; i < list.len && e == ERR_OK; i++)
        if (page_takes(&page, list.at[i].id.s))
            e = write_payout(op, &list.at[i]);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

static enum err run_one(struct op *op, const struct supplier *x)
{
    struct currency_list list = {0};
    enum err e = supply_currencies(op->store, x->id, &list);

    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        struct payout p;

        e = supply_payout(op->store, op->now, x, list.at[i].code, core_id(op->core, "pay"), &p,
                          &op->why);
        if (e == ERR_OK && p.amount_u > 0)
            e = write_payout(op, &p);
    }
    vec_fini(&list);
    return e;
}

enum err op_payout_run(struct op *op)
{
    const char *only = people_arg(op, "supplier", NULL);
    struct supplier_list list = {0};
    bool found = !only;

    TRY(supply_share(op->store, op->now, &op->why));
    json_object_begin(&op->out, NULL);
    json_array_begin(&op->out, "items");
    enum err e = supply_list(op->store, &list);
    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        if (only && !str_eq(only, list.at[i].name))
            continue;
        found = true;
        e = run_one(op, &list.at[i]);
    }
    vec_fini(&list);
    TRY(e);
    if (!found)
        return people_not_found(op, "supplier", only, "admin supplier ls");
    json_array_finish(&op->out);
    json_none(&op->out, "next_cursor");
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_payout_paid(struct op *op)
{
    const char *reference = people_arg(op, "reference", "");
    struct payout p;
    struct id id = {0};

    (void)str_copy(op->object, sizeof(op->object), op->path_arg[0]);
    enum err e = str_copy(id.s, sizeof(id.s), op->path_arg[0])
                     ? supply_payout_get(op->store, id, &p)
                     : ERR_NOT_FOUND;
    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "payout", op->path_arg[0], "admin payout ls");
    TRY(people_try(op, e));
    if (p.paid_at)
        return people_invalid(op, "payout", N_("it was paid already"));
    if (!reference[0] || !str_copy(p.reference, sizeof(p.reference), reference))
        return people_invalid(op, "reference", N_("the bank's reference, at most 63 bytes"));
    p.paid_at = op->now;
    TRY(supply_payout_save(op->store, &p));
    return write_payout(op, &p);
}
