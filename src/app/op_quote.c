/* op_quote.c: a signed price for one intended rental: the same lines, rates and gate that the
 * rental itself will meet, and whether it could be had now. Nothing is stored or kept free. */
#include "app/ask.h"
#include "app/op_money.h"
#include "app/lifecycle.h"
#include "app/problem.h"
#include "app/view.h"
#include "base/msg.h"
#include "base/units.h"

struct wanted {
    struct funds_ask ask;
    struct instance i; /* as it would be, for placing */
};

static enum err read_disks(struct op *op, struct wanted *w)
{
    struct ask_disk disks[INSTANCE_DISKS_MAX];
    int32_t n = 0;

    TRY(ask_disks(op, disks, &n));
    for (int32_t k = 0; k < n; k++) {
        struct disk d = {.size_mib = disks[k].size_mib};

        if (disks[k].existing.s[0]) {
            TRY(people_try(op, store_disk_get(op->store, op->who.project, disks[k].existing, &d)));
            w->i.data_disk[w->i.data_count++] = d.id;
        } else {
            w->i.shape.system_disk_mib += d.size_mib; /* room for it on the node */
        }
        w->ask.data_mib[w->ask.data_count++] = d.size_mib;
    }
    return ERR_OK;
}

static enum err read_wanted(struct op *op, struct wanted *w)
{
    const char *egress = people_arg(op, "egress", NULL);
    struct image image;
    int64_t mib = 0;

    w->ask.project = w->i.project = op->who.project;
    w->ask.spender.user = op->who.user;
    TRY(ask_shape(op, &w->ask.shape));
    TRY(ask_end(op, &w->i.ends_at));
    TRY(ask_image(op, &image));
    w->i.shape = w->ask.shape;
    memcpy(w->i.image, image.digest, sizeof(w->i.image));
    memcpy(w->i.image_name, image.name, sizeof(w->i.image_name));
    w->i.port_count = 1; /* SSH */
    w->i.ports[0].guest = 22;
    TRY(read_disks(op, w));
    w->ask.for_s = life_for_s(op, &w->i);
    if (json_get_bool(op->body, "spot", false, &w->ask.spot) && w->ask.spot &&
        w->ask.shape.gpu_count == 0)
        return ask_bad(op, "spot", N_("only cards have a spot price"));
    if (w->ask.spot && w->ask.shape.exclusive)
        return ask_bad(op, "exclusive", N_("not at the spot price"));
    if (people_arg(op, "bid", NULL) && !w->ask.spot)
        return ask_bad(op, "bid", N_("goes with --spot"));
    if (w->ask.spot) {
        struct currency ccy;

        TRY(view_currency(op, op->who.project, &ccy));
        if (people_arg(op, "bid", NULL))
            TRY(money_arg(op, "bid", ccy, &w->ask.bid_u));
    }
    if (egress && size_parse_mib(egress, &mib) != ERR_OK)
        return ask_bad(op, "egress", N_("a size such as 8GiB"));
    w->ask.egress_bytes = mib << 20;
    return ERR_OK;
}

static void write_lines(struct op *op, const struct funds_quote *q)
{
    json_array_begin(&op->out, "lines");
    for (size_t i = 0; i < q->line_count; i++) {
        const struct funds_line *l = &q->lines[i];
        struct bill_line line = {.meter = l->meter,
                                 .rate = l->rate,
                                 .ccy = q->ccy,
                                 .qty_to = l->qty,
                                 .amount_u = l->amount_u};
        char formula[BILL_FORMULA_SIZE];

        CHECK(str_copy(line.unit, sizeof(line.unit), meter_unit(l->meter)));
        bill_formula(&line, formula, sizeof(formula));
        json_object_begin(&op->out, NULL);
        json_str(&op->out, "meter", meter_name(l->meter));
        json_str(&op->out, "sku", l->sku);
        json_strf(&op->out, "quantity", "%" PRId64, l->qty);
        json_str(&op->out, "unit", line.unit);
        json_rate(&op->out, "price", &l->rate);
        json_str(&op->out, "price_version", l->price.s);
        json_money(&op->out, "amount", l->amount_u, q->ccy);
        json_str(&op->out, "formula", formula);
        json_object_finish(&op->out);
    }
    json_array_finish(&op->out);
}

/* All cards of the model here are simulated: whichever node served it, so would be what it got. */
static enum err model_simulated(struct op *op, const struct shape *shape, bool *ret_simulated)
{
    struct node_list nodes = {0};
    enum err e = store_node_list(op->store, &nodes);
    bool some = false, all = true;

    for (size_t n = 0; n < nodes.len; n++)
        for (int32_t g = 0; g < nodes.at[n].gpu_count; g++)
            if (str_eq(nodes.at[n].gpus[g].model, shape->gpu_model)) {
                some = true;
                all = all && (nodes.at[n].simulated || nodes.at[n].gpus[g].simulated);
            }
    vec_fini(&nodes);
    *ret_simulated = some && all;
    return e;
}

/* Why it cannot be had now: no place, or not enough money. ERR_OK in ret_why: it can. */
static enum err find_fit(struct op *op, const struct wanted *w, const struct funds_quote *q,
                         bool *ret_simulated, struct refusal *ret_why)
{
    struct place_result place;
    struct node *node = mem_alloc(sizeof(*node));
    enum err e = life_place(op, &w->i, &place, node);

    *ret_simulated = e == ERR_OK && w->ask.shape.gpu_count > 0 && node->simulated;
    mem_free_ptr(&node);
    if (e == ERR_STORE)
        return e;
    *ret_why = (struct refusal){0};
    if (e != ERR_OK)
        *ret_why = op->why;
    if (e != ERR_OK && w->ask.shape.gpu_count > 0)
        TRY(model_simulated(op, &w->ask.shape, ret_simulated));
    if (e == ERR_OK && funds_gate(op->store, op->now, &w->ask, q, ret_why) == ERR_STORE)
        return ERR_STORE;
    op->why = (struct refusal){0};
    return ERR_OK;
}

static void write_why(struct op *op, const struct refusal *why)
{
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, 8192);
    if (why->code != ERR_OK)
        problem_write(why, op->lang, op->request_id, &b);
    json_raw(&op->out, "why", why->code == ERR_OK ? NULL : strbuf_str(&b));
}

static enum err write_quote(struct op *op, const struct wanted *w, const struct funds_quote *q)
{
    struct id id = core_id(op->core, "quo");
    char text[FUNDS_QUOTE_SIZE];
    struct refusal why;
    bool simulated;
    utime_t until;

    TRY(find_fit(op, w, q, &simulated, &why));
    TRY(funds_quote_sign(op->store, op->now, &w->ask, q, id, text, &until));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", id.s);
    json_str(&op->out, "quote", text);
    json_time(&op->out, "valid_until", until);
    json_flag(&op->out, "simulated", simulated);
    json_money(&op->out, "price_hour", q->hour_u, q->ccy);
    json_money(&op->out, "price_hour_stopped", q->hour_stopped_u, q->ccy);
    write_lines(op, q);
    json_money(&op->out, "net", q->total_u, q->ccy);
    json_money(&op->out, "tax", 0, q->ccy);
    json_money(&op->out, "total", q->total_u, q->ccy);
    if (w->ask.spot) {
        json_money(&op->out, "bid", q->bid_u, q->ccy);
        json_i64(&op->out, "free_if_reclaimed_s", core_config_of(op->core)->spot_free_s);
    } else {
        json_none(&op->out, "bid");
        json_none(&op->out, "free_if_reclaimed_s");
    }
    json_money(&op->out, "hold", q->hold_u, q->ccy);
    json_money(&op->out, "start_need", q->need_u, q->ccy);
    json_money(&op->out, "available", q->available_u, q->ccy);
    json_flag(&op->out, "fits", why.code == ERR_OK);
    write_why(op, &why);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_quote_create(struct op *op)
{
    struct wanted *w = mem_alloc(sizeof(*w));
    struct funds_quote q;
    enum err e = read_wanted(op, w);

    if (e == ERR_OK)
        e = funds_quote(op->store, op->now, core_config_of(op->core)->term_s, &w->ask, &q,
                        &op->why);
    if (e == ERR_OK)
        e = write_quote(op, w, &q);
    mem_free_ptr(&w);
    return e;
}
