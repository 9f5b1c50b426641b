/* op_price.c: the price books, one per currency. A version never changes; a new one is valid from
 * now or later. A change above the configured size waits for a second operator. */
#include "app/price_ask.h"
#include "base/msg.h"

static void write_terms(struct op *op, const struct price_row *row, struct currency ccy)
{
    enum plan plan;
    const char *covered;
    bool is_plan = plan_sku_parse(row->sku, &plan, &covered);

    if (row->cap_qty > 0)
        json_money(&op->out, "day_cap", row->cap_u, ccy);
    else
        json_none(&op->out, "day_cap");
    json_str(&op->out, "refund", is_plan ? plan_policy_name((enum plan_policy)row->policy) : NULL);
    if (is_plan)
        json_i64(&op->out, "fee", row->fee_pct);
    else
        json_none(&op->out, "fee");
}

/* p: the proposal it is, or NULL. counted: reach says what runs. */
static enum err write_price(struct op *op, const struct price_row *row,
                            const struct price_reach *reach, bool counted,
                            const struct proposal_row *p)
{
    struct currency ccy;
    struct rate rate;

    TRY(currency_get(row->currency, &ccy));
    TRY(price_row_rate(row, &rate));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", row->id.s);
    json_str(&op->out, "sku", row->sku);
    json_str(&op->out, "state", p ? "proposed" : "set");
    json_str(&op->out, "proposed_by", p ? p->by_user.s : NULL);
    json_money(&op->out, "price", row->unit_u, ccy);
    if (reach->follows)
        json_money(&op->out, "price_before", reach->before_unit_u, ccy);
    else
        json_none(&op->out, "price_before");
    json_str(&op->out, "unit", row->unit);
    json_rate(&op->out, "rate", &rate);
    write_terms(op, row, ccy);
    json_time(&op->out, "valid_from", row->valid_from_s * MS_PER_S);
    json_time(&op->out, "announced_at", row->announced_s * MS_PER_S);
    if (counted) {
        json_i64(&op->out, "affected", reach->leases);
        json_i64(&op->out, "affected_projects", reach->projects);
    } else {
        json_none(&op->out, "affected");
        json_none(&op->out, "affected_projects");
    }
    if (reach->binds_s == INT64_MAX)
        json_none(&op->out, "binds_running_from");
    else
        json_time(&op->out, "binds_running_from", reach->binds_s * MS_PER_S);
    json_object_finish(&op->out);
    return ERR_OK;
}

static enum err list_proposals(struct op *op, struct page *page)
{
    struct proposal_list list = {0};
    enum err e = money_proposal_open(op->store, &list);

    for (size_t i = 0; e == ERR_OK && i < list.len; i++) {
        struct price_reach reach;

        if (!page_takes(page, list.at[i].price.id.s))
            continue;
        e = price_reach_of(op, &list.at[i].price, true, &reach);
        if (e == ERR_OK)
            e = write_price(op, &list.at[i].price, &reach, true, &list.at[i]);
    }
    vec_fini(&list);
    return e;
}

/* What covers a plan's or a package's seconds is no price that anybody set. */
static bool listed(const struct price_row *row)
{
    return row->unit[0] != '\0';
}

enum err op_price_list(struct op *op)
{
    struct price_row_list list = {0};
    struct page page;
    enum err e = page_open(op, &page);

    if (e == ERR_OK)
        e = money_price_list_all(op->store, &list);
    for (size_t i = 0; e == ERR_OK && i < list.len; i++) {
        struct price_reach reach;

        if (!listed(&list.at[i]) || !page_takes(&page, list.at[i].id.s))
            continue;
        e = price_reach_of(op, &list.at[i], false, &reach);
        if (e == ERR_OK)
            e = write_price(op, &list.at[i], &reach, false, NULL);
    }
    vec_fini(&list);
    if (e == ERR_OK)
        e = list_proposals(op, &page);
    return e == ERR_OK ? page_close(op, &page) : e;
}

/* Into the book; what started in this very second keeps the price that it was shown. */
static enum err add_price(struct op *op, struct price_row *row, struct price_reach *ret_reach)
{
    int64_t started = 0;

    TRY(money_started_last(op->store, &started));
    row->valid_from_s = MAX(row->valid_from_s, started + 1);
    TRY(price_reach_of(op, row, true, ret_reach));
    return money_price_add(op->store, row);
}

enum err op_price_set(struct op *op)
{
    struct proposal_row p = {.by_user = op->who.user};
    struct price_reach reach;

    TRY(price_ask_read(op, &p.price));
    (void)str_copy(op->object, sizeof(op->object), p.price.sku);
    TRY(price_reach_of(op, &p.price, true, &reach));
    if (op->who.user.s[0] && price_needs_second(op, &p.price, &reach)) {
        TRY(money_proposal_save(op->store, &p));
        return write_price(op, &p.price, &reach, true, &p);
    }
    TRY(add_price(op, &p.price, &reach));
    return write_price(op, &p.price, &reach, true, NULL);
}

static enum err open_proposal(struct op *op, struct proposal_row *ret_p)
{
    struct id id = {""};
    enum err e = str_copy(id.s, sizeof(id.s), op->path_arg[0])
                     ? money_proposal_get(op->store, id, ret_p)
                     : ERR_NOT_FOUND;

    if (e == ERR_NOT_FOUND || (e == ERR_OK && ret_p->state != PROPOSAL_OPEN))
        return people_not_found(op, "proposed price", op->path_arg[0], "admin price ls");
    (void)str_copy(op->object, sizeof(op->object), id.s);
    return e;
}

/* Notice runs from here, and nothing before it is touched. */
enum err op_price_approve(struct op *op)
{
    struct proposal_row p;
    struct price_reach reach;

    TRY(open_proposal(op, &p));
    if (str_eq(p.by_user.s, op->who.user.s))
        return refusef(&op->why, ERR_APPROVAL_OWN, "name", "%s", p.price.id.s);
    p.state = PROPOSAL_APPROVED;
    p.decided_by = op->who.user;
    TRY(money_proposal_save(op->store, &p));
    p.price.announced_s = op->now / MS_PER_S;
    p.price.valid_from_s = MAX(p.price.valid_from_s, p.price.announced_s);
    TRY(add_price(op, &p.price, &reach));
    return write_price(op, &p.price, &reach, true, NULL);
}

enum err op_price_withdraw(struct op *op)
{
    struct proposal_row p;

    TRY(open_proposal(op, &p));
    p.state = PROPOSAL_WITHDRAWN;
    p.decided_by = op->who.user;
    TRY(money_proposal_save(op->store, &p));
    json_object_begin(&op->out, NULL);
    json_object_finish(&op->out);
    return ERR_OK;
}
