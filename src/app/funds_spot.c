#include "app/funds_spot.h"

#include "store/rows_plan.h"

#define HOUR_S 3600

bool spot_is(const char *sku)
{
    return str_starts(sku, "spot.");
}

void spot_sku(char io_sku[SKU_SIZE])
{
    char card[SKU_SIZE];

    memcpy(card, io_sku, sizeof(card));
    bool fits = str_printf(io_sku, SKU_SIZE, "spot.%s", card);
    CHECK(fits); /* price_ask knows no longer model */
}

static struct price_rate flat(const struct rate *r)
{
    return (struct price_rate){r->tiers[0].p, r->d};
}

const struct price_version *spot_pays(const struct price_version *v,
                                      const struct price_version *bid)
{
    return price_cheaper(flat(&bid->rate), flat(&v->rate)) ? bid : v;
}

enum err spot_bid_check(const struct books *b, const char *gpu, int64_t *io_bid_u,
                        struct refusal *why)
{
    char sku[SKU_SIZE], text[MONEY_TEXT_SIZE + 8];
    struct rate tick;
    struct id id;
    int64_t hour_u;

    funds_sku(METER_GPU, gpu, sku);
    if (*io_bid_u == 0)
        TRY(funds_price_unit(b->store, b->now, b->ccy, sku, io_bid_u, why));
    spot_sku(sku);
    TRY(funds_price(b->store, b->now, b->ccy, sku, &id, &tick, why));
    if (!price_cheaper((struct price_rate){*io_bid_u, HOUR_S}, flat(&tick)))
        return ERR_OK;
    TRY(rate_total(&tick, HOUR_S, &hour_u));
    (void)refuse(why, ERR_BID_LOW);
    money_format_ccy(money_of(hour_u, b->ccy), text, sizeof(text));
    refusal_set(why, "price", text);
    money_format_ccy(money_of(*io_bid_u, b->ccy), text, sizeof(text));
    refusal_set(why, "bid", text);
    return ERR_BID_LOW;
}

enum err spot_bid_set(const struct books *b, const struct spot_ask *ask, struct refusal *why)
{
    struct spot_row spot = {
        .instance = ask->instance, .bid = ask->price, .free_within_s = ask->free_within_s};
    struct price_row row = {.id = ask->price,
                            .p = ask->bid_u,
                            .d = HOUR_S,
                            .valid_from_s = b->now_s,
                            .announced_s = b->now_s};

    TRY(spot_bid_check(b, ask->gpu, &row.p, why));
    row.unit_u = row.p;
    bool ok = str_printf(row.sku, sizeof(row.sku), "bid.%s", ask->instance.s) &&
              str_copy(row.currency, sizeof(row.currency), b->ccy.code);
    CHECK(ok);
    TRY(money_price_add(b->store, &row));
    return spot_row_save(b->store, &spot);
}

enum err spot_bid(const struct books *b, struct id instance, struct price_version *ret_v)
{
    struct price_row row;
    struct spot_row spot;

    TRY(spot_row_get(b->store, instance, &spot));
    TRY(money_price_get(b->store, spot.bid, &row));
    *ret_v = (struct price_version){.id = row.id, .valid_from_s = row.valid_from_s};
    return price_row_rate(&row, &ret_v->rate);
}
