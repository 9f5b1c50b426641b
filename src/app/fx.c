#include "app/fx.h"

#include "app/op_people.h"
#include "base/msg.h"
#include "domain/payout.h"

enum err fx_order_make(struct op *op, const struct order_row *o, struct currency dst,
                       struct fx_order *ret_x)
{
    struct fx_order x = {0};
    struct fx_rate r;
    struct exchange e;
    enum err err = fx_rate_get(op->store, o->currency, dst.code, &r);

    if (err == ERR_NOT_FOUND)
        return people_invalid(op, "currency",
                              N_("there is no rate from it to the wallet's currency"));
    TRY(people_try(op, err));
    TRY(exchange_compute(o->amount_u, r.n, r.d, r.spread_n, r.spread_d, &e));
    if (e.dst_u == 0)
        return people_invalid(op, "amount",
                              N_("it is not worth one unit of the wallet's currency"));
    x.n = r.n;
    x.d = r.d;
    x.spread_n = r.spread_n;
    x.spread_d = r.spread_d;
    x.fee_u = e.fee_u;
    x.converted_u = e.converted_u;
    x.dst_u = e.dst_u;
    CHECK(str_copy(x.order_id, sizeof(x.order_id), o->id.s));
    memcpy(x.dst, dst.code, sizeof(x.dst));
    TRY(people_try(op, fx_order_save(op->store, &x)));
    *ret_x = x;
    return ERR_OK;
}

static struct ledger_transfer leg(const struct books *b, const struct order_row *o,
                                  const char *name, const char *clearing, const char *to, int64_t u)
{
    struct ledger_transfer t = transfer_of(b, o->id.s, "fx");
    char id[LEDGER_KEY_SIZE];

    account_id(id, name, o->id.s);
    memcpy(t.id, id, sizeof(t.id));
    CHECK(str_copy(t.ledger, sizeof(t.ledger), o->currency));
    CHECK(str_copy(t.owner, sizeof(t.owner), o->id.s));
    CHECK(str_copy(t.dr, sizeof(t.dr), clearing));
    account_id(t.cr, to, o->currency);
    t.amount = u;
    return t;
}

enum err fx_order_paid(const struct books *b, const struct order_row *o, const char *clearing,
                       struct refusal *why)
{
    struct ledger_transfer legs[2];
    struct fx_order x;
    char from[LEDGER_KEY_SIZE];
    size_t n = 1;

    TRY(fx_order_get(b->store, o->id, &x));
    CHECK(str_eq(x.dst, b->ccy.code));
    legs[0] = leg(b, o, "fx", clearing, "fx", x.converted_u);
    if (x.fee_u > 0)
        legs[n++] = leg(b, o, "fxfee", clearing, "revenue.fx", x.fee_u);
    account_id(from, "fx", b->ccy.code);
    return funds_cash_in_with(b, o->id, from, x.dst_u, legs, n, why);
}
