#include "app/market.h"

#include "app/op_people.h"

enum err market_load(struct store *s, const struct core_config *cfg, utime_t now,
                     struct market *ret_m)
{
    *ret_m = (struct market){0};
    TRY(store_demand_lately(s, now - MARKET_LATELY_MS, &ret_m->demand));
    ret_m->seen = (struct place_market){.seen = ret_m->demand.at,
                                        .count = ret_m->demand.len,
                                        .scarcity_min_pct = cfg->scarcity_min_pct,
                                        .scarcity_max_pct = cfg->scarcity_max_pct};
    return ERR_OK;
}

void market_fini(struct market *m)
{
    vec_fini(&m->demand);
}

enum err market_prices(struct store *s, const struct core_config *cfg, utime_t now,
                       const struct node_list *nodes, struct place_price *ret_p, size_t *ret_count)
{
    CLEANUP(market_fini) struct market m = {0};

    TRY(market_load(s, cfg, now, &m));
    *ret_count = place_prices(nodes->at, nodes->len, &m.seen, ret_p);
    return ERR_OK;
}

static void write_price(struct op *op, const struct core_config *cfg, const struct place_price *p)
{
    char text[32];

    json_object_begin(&op->out, NULL);
    json_str(&op->out, "model", p->model);
    json_i64(&op->out, "cards", p->cards);
    json_i64(&op->out, "free", p->free);
    json_i64(&op->out, "asked_pct", (int64_t)(p->asked * 100 + 0.5));
    CHECK(str_printf(text, sizeof(text), "%.2f", p->price));
    json_str(&op->out, "scarcity", text);
    CHECK(str_printf(text, sizeof(text), "%.2f", (double)cfg->scarcity_min_pct / 100));
    json_str(&op->out, "min", text);
    CHECK(str_printf(text, sizeof(text), "%.2f", (double)cfg->scarcity_max_pct / 100));
    json_str(&op->out, "max", text);
    json_object_finish(&op->out);
}

enum err op_scarcity_list(struct op *op)
{
    const struct core_config *cfg = core_config_of(op->core);
    struct place_price price[PLACE_PRICES_MAX];
    struct node_list nodes = {0};
    size_t count = 0;
    struct page page;

    TRY(page_open(op, &page));
    enum err e = store_node_list(op->store, &nodes);
    if (e == ERR_OK)
        e = market_prices(op->store, cfg, op->now, &nodes, price, &count);
    for (size_t i = 0; e == ERR_OK && i < count; i++)
        if (page_takes(&page, price[i].model))
            write_price(op, cfg, &price[i]);
    vec_fini(&nodes);
    return e == ERR_OK ? page_close(op, &page) : e;
}
