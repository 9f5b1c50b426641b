#include "app/fx.h"

#include "app/op_people.h"
#include "base/msg.h"
#include "domain/payout.h"

#define PAIR_MAX (INT64_C(1000000000000) - 1)
#define DECIMALS_MAX 9

/* "7.1234": digits, and after a point one to nine more. */
static bool decimal_parse(const char *text, int64_t *ret_n, int64_t *ret_d)
{
    size_t whole = strspn(text, "0123456789"), more = 0;
    char digits[32];
    int64_t d = 1;

    if (text[whole] == '.')
        more = strspn(text + whole + 1, "0123456789");
    if (whole == 0 || more > DECIMALS_MAX || (text[whole] == '.' && more == 0) ||
        text[whole + (more ? more + 1 : 0)] ||
        !str_printf(digits, sizeof(digits), "%.*s%.*s", (int)MIN(whole, sizeof(digits)), text,
                    (int)more, text + whole + 1))
        return false;
    for (size_t i = 0; i < more; i++)
        d *= 10;
    *ret_d = d;
    return str_parse_i64(digits, 0, PAIR_MAX, ret_n) == ERR_OK;
}

bool fx_pair_parse(const char *text, int64_t *ret_n, int64_t *ret_d)
{
    const char *slash = strchr(text, '/');
    char first[16];

    if (!slash)
        return decimal_parse(text, ret_n, ret_d);
    return (size_t)(slash - text) < sizeof(first) &&
           str_printf(first, sizeof(first), "%.*s", (int)(slash - text), text) &&
           str_parse_i64(first, 0, PAIR_MAX, ret_n) == ERR_OK &&
           str_parse_i64(slash + 1, 1, PAIR_MAX, ret_d) == ERR_OK;
}

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
