/* op_topup.c: orders to top up a wallet, money back, the credit line. */
#include "app/channel.h"
#include "app/fund_source.h"
#include "app/fx.h"
#include "app/op_money.h"
#include "app/outbox.h"
#include "base/msg.h"

#define ORDER_LIFE_MS ((int64_t)86400 * MS_PER_S)
#define REFUND_PARTS_MAX 64

/* What is paid or paid back is a whole number of the smallest coin. */
static enum err whole_money_arg(struct op *op, struct currency ccy, int64_t *ret_u)
{
    TRY(money_arg(op, "amount", ccy, ret_u));
    if (*ret_u == 0 || *ret_u % currency_minor_u(ccy) != 0)
        return people_invalid(op, "amount", N_("above zero, in whole cents of the currency"));
    return ERR_OK;
}

/* The channel's text with its {order} filled in. */
static void pay_text(const struct channel_row *c, const struct order_row *o,
                     char ret_text[2 * TEXT_SIZE])
{
    const char *hole = strstr(c->pay, "{order}");
    bool ok = hole ? str_printf(ret_text, 2 * TEXT_SIZE, "%.*s%s%s", (int)(hole - c->pay), c->pay,
                                o->id.s, hole + strlen("{order}"))
                   : str_copy(ret_text, 2 * TEXT_SIZE, c->pay);

    CHECK(ok);
    if (c->kind == CHANNEL_TEST)
        CHECK(str_printf(ret_text, 2 * TEXT_SIZE, "suanli wallet pay %s", o->id.s));
}

/* What an order in another currency becomes; null: it is in the wallet's own. */
static enum err write_exchange(struct op *op, const struct order_row *o, struct currency ccy)
{
    struct fx_order x;
    struct currency dst;
    enum err e = fx_order_get(op->store, o->id, &x);

    if (e == ERR_NOT_FOUND) {
        json_none(&op->out, "exchange");
        return ERR_OK;
    }
    TRY(people_try(op, e));
    TRY(currency_get(x.dst, &dst));
    json_object_begin(&op->out, "exchange");
    json_strf(&op->out, "rate", "%" PRId64 "/%" PRId64, x.n, x.d);
    json_money(&op->out, "fee", x.fee_u, ccy);
    json_money(&op->out, "converted", x.converted_u, ccy);
    json_money(&op->out, "credited", x.dst_u, dst);
    json_object_finish(&op->out);
    return ERR_OK;
}

static enum err write_order(struct op *op, const struct order_row *o)
{
    static const char *const states[] = {[ORDER_OPEN] = "open", [ORDER_PAID] = "paid"};
    struct channel_row c;
    struct currency ccy;
    char pay[2 * TEXT_SIZE];

    TRY(people_try(op, wallet_channel_get(op->store, o->channel, &c)));
    TRY(currency_get(o->currency, &ccy));
    pay_text(&c, o, pay);
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", o->id.s);
    json_str(&op->out, "channel", o->channel);
    json_flag(&op->out, "test", c.kind == CHANNEL_TEST);
    json_money(&op->out, "amount", o->amount_u, ccy);
    json_str(&op->out, "state", states[o->state]);
    json_str(&op->out, "pay", o->state == ORDER_OPEN ? pay : NULL);
    json_time(&op->out, "created_at", o->at);
    json_time(&op->out, "pay_until", o->until);
    if (o->paid_at)
        json_time(&op->out, "paid_at", o->paid_at);
    else
        json_none(&op->out, "paid_at");
    json_str(&op->out, "reference", o->reference[0] ? o->reference : NULL);
    json_money(&op->out, "refunded", o->refunded_u, ccy);
    TRY(write_exchange(op, o, ccy));
    json_object_finish(&op->out);
    return ERR_OK;
}

/* The one channel there is, when none is named. */
static enum err default_channel(struct op *op, char ret_name[NAME_SIZE])
{
    struct channel_list list = {0};
    size_t n = 0;
    enum err e = people_try(op, wallet_channel_list(op->store, &list));

    for (size_t i = 0; i < list.len; i++)
        if (!list.at[i].off && list.at[i].kind != CHANNEL_TEST && n++ == 0)
            memcpy(ret_name, list.at[i].name, NAME_SIZE);
    vec_fini(&list);
    TRY(e);
    if (n == 0)
        CHECK(str_copy(ret_name, NAME_SIZE, CHANNEL_TEST_NAME));
    return n <= 1 ? ERR_OK : people_invalid(op, "channel", N_("a channel the operator named"));
}

enum err op_order_create(struct op *op)
{
    struct order_row o = {.id = core_id(op->core, "ord"),
                          .project = op->who.project,
                          .at = op->now,
                          .until = op->now + ORDER_LIFE_MS};
    struct channel_row c;
    struct currency ccy;
    struct books b;
    char name[NAME_SIZE];

    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    if (currency_get(people_arg(op, "currency", b.ccy.code), &ccy) != ERR_OK)
        return people_invalid(op, "currency", N_("a currency such as CNY or USD"));
    TRY(whole_money_arg(op, ccy, &o.amount_u));
    if (!str_copy(name, sizeof(name), people_arg(op, "channel", "")))
        return people_invalid(op, "channel", N_("a channel the operator named"));
    if (!name[0])
        TRY(default_channel(op, name));
    TRY(channel_find(op, name, &c));
    memcpy(o.channel, c.name, sizeof(o.channel));
    memcpy(o.currency, ccy.code, sizeof(o.currency));
    (void)str_copy(op->object, sizeof(op->object), o.id.s);
    TRY(people_try(op, wallet_order_save(op->store, &o)));
    if (!currency_eq(ccy, b.ccy)) {
        struct fx_order x;

        TRY(fx_order_make(op, &o, b.ccy, &x));
    }
    return write_order(op, &o);
}

enum err op_order_list(struct op *op)
{
    struct order_list list = {0};
    struct page page;

    TRY(page_open(op, &page));
    enum err e = people_try(op, wallet_order_list(op->store, op->who.project, &list));
    for (size_t i = 0; i < list.len && e == ERR_OK; i++)
        if (page_takes(&page, list.at[i].id.s))
            e = write_order(op, &list.at[i]);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

/* Plays the payer on the test channel: no money moves outside, and everything says so. */
enum err op_order_pay_test(struct op *op)
{
    struct id id = {""};
    struct order_row o;
    struct channel_row c;
    char reference[TEXT_SIZE];
    enum err e = ERR_NOT_FOUND;
    bool paid;

    if (str_copy(id.s, sizeof(id.s), op->path_arg[0]))
        e = wallet_order_get(op->store, id, &o);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && !str_eq(o.project.s, op->who.project.s)))
        return people_not_found(op, "order", op->path_arg[0], "wallet orders");
    TRY(people_try(op, e));
    (void)str_copy(op->object, sizeof(op->object), o.id.s);
    TRY(channel_find(op, o.channel, &c));
    if (c.kind != CHANNEL_TEST) {
        (void)refusef(&op->why, ERR_UNSUPPORTED, "what", "%s", "wallet pay");
        refusal_set(&op->why, "why", "this order is paid at its channel");
        return ERR_UNSUPPORTED;
    }
    CHECK(str_printf(reference, sizeof(reference), "test-%s", o.id.s));
    TRY(channel_order_paid(op, &o, reference, &paid));
    return write_order(op, &o);
}

/* One part of a refund: back to where it came from. */
static struct ledger_transfer refund_part(const struct books *b, struct id refund, size_t n,
                                          const char *channel, const char *owner, int64_t u)
{
    struct ledger_transfer t = transfer_of(b, refund.s, "refund");
    char kind[LEDGER_KEY_SIZE];
    bool ok = str_printf(t.id, sizeof(t.id), "refund.%s.%zu", refund.s, n) &&
              str_copy(t.owner, sizeof(t.owner), owner);

    CHECK(ok);
    account_id(t.dr, "cash", b->project.s);
    if (channel)
        account_id(kind, "clearing", channel);
    account_id(t.cr, channel ? kind : "bank.topup", b->ccy.code);
    t.amount = u;
    return t;
}

struct refund_plan {
    struct ledger_transfer at[REFUND_PARTS_MAX];
    size_t n;
    int64_t left_u; /* still to be found */
};

/* Orders first, the newest first; then what the operator put in without a channel. */
static enum err plan_refund(struct op *op, const struct books *b, struct id refund,
                            const char *only, struct refund_plan *p)
{
    struct order_list orders = {0};
    int64_t in_u, back_u, other_u;
    enum err e = people_try(op, wallet_order_refundable(op->store, b->project, &orders));

    if (e == ERR_OK)
        e = people_try(op, wallet_received(op->store, b->project, &in_u, &back_u));
    if (e == ERR_OK)
        e = micro_sub(in_u, back_u, &other_u);
    for (size_t i = 0; i < orders.len && e == ERR_OK; i++) {
        struct order_row *o = &orders.at[i];
        int64_t rest = o->amount_u - o->refunded_u, u = MIN(rest, p->left_u);

        other_u -= rest;
        if (u == 0 || (only && !str_eq(only, o->id.s)) || p->n + 1 == REFUND_PARTS_MAX)
            continue;
        p->at[p->n] = refund_part(b, refund, p->n, o->channel, o->id.s, u);
        p->n++;
        p->left_u -= u;
        o->refunded_u += u;
        e = people_try(op, wallet_order_save(op->store, o));
    }
    vec_fini(&orders);
    TRY(e);
    int64_t u = only ? 0 : MIN(other_u, p->left_u);
    if (u > 0) {
        p->at[p->n] = refund_part(b, refund, p->n, NULL, b->project.s, u);
        p->n++;
        p->left_u -= u;
    }
    return ERR_OK;
}

static enum err refuse_refund(struct op *op, const struct books *b, int64_t need_u, int64_t have_u)
{
    char need[MONEY_TEXT_SIZE + 8], have[MONEY_TEXT_SIZE + 8];

    money_format_ccy(money_of(need_u, b->ccy), need, sizeof(need));
    money_format_ccy(money_of(have_u, b->ccy), have, sizeof(have));
    (void)refusef(&op->why, ERR_REFUND_LIMIT, "want", "%s", need);
    refusal_set(&op->why, "have", have);
    return ERR_REFUND_LIMIT;
}

static void write_refund(struct op *op, const struct project *p, const struct books *b,
                         struct id id, int64_t u, const struct refund_plan *plan)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", id.s);
    json_str(&op->out, "project", p->name);
    json_money(&op->out, "amount", u, b->ccy);
    json_array_begin(&op->out, "parts");
    for (size_t i = 0; i < plan->n; i++) {
        const struct ledger_transfer *t = &plan->at[i];

        json_object_begin(&op->out, NULL);
        json_str(&op->out, "to", t->cr);
        json_str(&op->out, "order", str_eq(t->owner, b->project.s) ? NULL : t->owner);
        json_money(&op->out, "amount", t->amount, b->ccy);
        json_object_finish(&op->out);
    }
    json_array_finish(&op->out);
    json_object_finish(&op->out);
}

/* At most what is left of the cash, and of it what came in: gifts, vouchers and money that is held
 * do not leave. */
enum err op_refund_create(struct op *op)
{
    struct id id = core_id(op->core, "rfd");
    AUTO_FREE struct refund_plan *plan = mem_alloc(sizeof(*plan));
    struct fund_sources s;
    struct project p;
    struct books b;
    int64_t u;
    char text[MONEY_TEXT_SIZE + 8];

    TRY(store_project_lookup(op->store, people_arg(op, "project", ""), &p, &op->why));
    (void)str_copy(op->object, sizeof(op->object), p.name);
    TRY(books_open(op->store, op->now, p.id, &b, &op->why));
    TRY(whole_money_arg(op, b.ccy, &u));
    TRY(funds_post_free(&b, &op->why));
    TRY(fund_sources_load(&b, NULL, &s, &op->why));
    if (u > s.f.cash_u)
        return refuse_refund(op, &b, u, s.f.cash_u);
    plan->left_u = u;
    TRY(plan_refund(op, &b, id, people_arg(op, "order", NULL), plan));
    if (plan->left_u > 0)
        return refuse_refund(op, &b, u, u - plan->left_u);
    TRY(ledger_post(&b, plan->at, plan->n, &op->why));
    money_format_ccy(money_of(u, b.ccy), text, sizeof(text));
    TRY(event_emit(op, p.id, (struct id){""}, "wallet.refund", N_("{amount} was paid back."),
                   "{s:s,s:s}", "amount", text, "refund", id.s));
    write_refund(op, &p, &b, id, u, plan);
    return ERR_OK;
}

enum err op_credit_set(struct op *op)
{
    struct funds_wallet w;
    struct project p;
    struct books b;
    int64_t u;

    TRY(store_project_lookup(op->store, op->path_arg[0], &p, &op->why));
    (void)str_copy(op->object, sizeof(op->object), p.name);
    TRY(books_open(op->store, op->now, p.id, &b, &op->why));
    TRY(money_arg(op, "limit", b.ccy, &u));
    TRY(fund_credit_set(&b, u, &op->why));
    TRY(funds_wallet(op->store, op->now, p.id, &w, &op->why));
    wallet_write(op, &p, &w);
    return ERR_OK;
}
