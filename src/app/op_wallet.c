/* op_wallet.c: what a project has, and topping it up. */
#include "app/fund_source.h"
#include "app/op_money.h"
#include "app/outbox.h"
#include "base/msg.h"
#include "base/units.h"

const char *meter_unit(enum meter m)
{
    switch (m) {
    case METER_GPU:
        return "card-second";
    case METER_CPU:
        return "core-second";
    case METER_DISK:
    case METER_DISK_STOPPED:
    case METER_DISK_DETACHED:
        return "MiB-second";
    case METER_EGRESS:
    case METER_INGRESS:
        return "byte";
    case METER_NODE:
        return "node-second";
    case METER_NONE:
    case METER_COUNT:
        break;
    }
    CHECK(false);
    return "";
}

void json_rate(struct json_writer *w, const char *key, const struct rate *r)
{
    char code[RATE_CODE_SIZE];

    rate_code(r, code, sizeof(code));
    json_str(w, key, code);
}

const char *query_arg(const struct op *op, const char *name)
{
    const char *v = NULL;

    CHECK(json_get_str(op->query, name, NULL, &v));
    return v;
}

enum err money_arg(struct op *op, const char *name, struct currency ccy, int64_t *ret_u)
{
    const char *text = people_arg(op, name, "");
    struct money m;

    if (money_parse(text, ccy, &m) != ERR_OK || m.u < 0)
        return people_invalid(op, name, N_("an amount such as 12.50"));
    *ret_u = m.u;
    return ERR_OK;
}

enum err month_arg(struct op *op, const struct books *b, bool *ret_given, struct period *ret_p)
{
    const char *text = query_arg(op, "month");

    *ret_given = text != NULL;
    if (!text)
        period_month_at(&b->zone, b->now_s, ret_p);
    else if (period_parse(&b->zone, text, ret_p) != ERR_OK || ret_p->day != 0)
        return people_invalid(op, "month", N_("a month such as 2026-03"));
    return ERR_OK;
}

void wallet_write(struct op *op, const struct project *p, const struct funds_wallet *w)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "project", p->name);
    json_str(&op->out, "currency", w->ccy.code);
    json_money(&op->out, "cash", w->cash_u, w->ccy);
    json_money(&op->out, "gift", w->gift_u, w->ccy);
    json_money(&op->out, "vouchers", w->voucher_u, w->ccy);
    json_money(&op->out, "credit_limit", w->credit_limit_u, w->ccy);
    json_money(&op->out, "credit_used", w->credit_used_u, w->ccy);
    json_money(&op->out, "held", w->held_u, w->ccy);
    json_money(&op->out, "available", w->available_u, w->ccy);
    json_money(&op->out, "owed", w->owed_u, w->ccy);
    json_money(&op->out, "burn_hour", w->burn_hour_u, w->ccy);
    if (w->lasts_s == INT64_MAX)
        json_none(&op->out, "lasts_s");
    else
        json_i64(&op->out, "lasts_s", w->lasts_s);
    json_i64(&op->out, "package_s", w->package_s);
    if (w->package_end_s)
        json_time(&op->out, "package_lapses_at", w->package_end_s * MS_PER_S);
    else
        json_none(&op->out, "package_lapses_at");
    json_object_finish(&op->out);
}

enum err op_wallet_get(struct op *op)
{
    struct funds_wallet w;
    struct project p;

    TRY(people_try(op, store_project_get(op->store, op->who.project, &p)));
    TRY(funds_wallet(op->store, op->now, p.id, &w, &op->why));
    wallet_write(op, &p, &w);
    return ERR_OK;
}

static enum err note_topup(struct op *op, const struct project *p, struct currency ccy, int64_t u)
{
    struct event e = {.at = op->now, .project = p->id};
    char text[MONEY_TEXT_SIZE + 8];

    money_format_ccy(money_of(u, ccy), text, sizeof(text));
    CHECK(str_copy(e.kind, sizeof(e.kind), "wallet.topup"));
    CHECK(str_copy(e.text, sizeof(e.text), N_("{amount} was added to the wallet.")));
    CHECK(str_printf(e.data, sizeof(e.data), "{\"amount\":\"%s\"}", text));
    return people_try(op, store_event_add(op->store, &e));
}

/* A gift with an end is a voucher of its own kind; without one it is gift balance. */
static enum err give(struct op *op, const struct books *b, int64_t u)
{
    struct grant_row g = {.id = core_id(op->core, "gft"),
                          .project = b->project,
                          .amount_u = u,
                          .gift = true,
                          .at = op->now};
    const char *expires = people_arg(op, "expires", NULL);
    char text[MONEY_TEXT_SIZE + 8];
    utime_t until;

    money_format_ccy(money_of(u, b->ccy), text, sizeof(text));
    TRY(event_emit(op, b->project, (struct id){""}, "wallet.gift",
                   N_("{amount} was given to the wallet."), "{s:s}", "amount", text));
    if (!expires)
        return fund_gift(b, g.id, u, &op->why);
    if (time_parse(expires, &until) != ERR_OK || until / MS_PER_S <= b->now_s)
        return people_invalid(op, "expires", N_("a time to come"));
    g.expires_s = until / MS_PER_S;
    return fund_grant(b, &g, &op->why);
}

/* Idempotent by the request's key, which the core keeps with the effect; the transfer has an id of
 * its own. */
enum err op_topup(struct op *op)
{
    struct funds_wallet w;
    struct project p;
    struct books b;
    int64_t u;
    bool gift;

    TRY(store_project_lookup(op->store, people_arg(op, "project", ""), &p, &op->why));
    (void)str_copy(op->object, sizeof(op->object), p.name);
    TRY(books_open(op->store, op->now, p.id, &b, &op->why));
    TRY(money_arg(op, "amount", b.ccy, &u));
    CHECK(json_get_bool(op->body, "gift", false, &gift));
    if (people_arg(op, "expires", NULL) && !gift)
        return people_invalid(op, "expires", N_("with --gift only: cash has no end"));
    if (gift) {
        TRY(give(op, &b, u));
    } else {
        TRY(funds_topup(op->store, op->now, p.id, core_id(op->core, "tra"), u,
                        people_arg(op, "note", ""), &op->why));
        TRY(note_topup(op, &p, b.ccy, u));
    }
    TRY(funds_wallet(op->store, op->now, p.id, &w, &op->why));
    wallet_write(op, &p, &w);
    return ERR_OK;
}
