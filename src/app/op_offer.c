/* What can be rented now: per node and card model, and a seat without a card per node. */
#include "app/cursor.h"
#include "app/lifecycle.h"
#include "app/offers.h"
#include "app/view.h"
#include "base/msg.h"
#include "domain/offer.h"

/* Stable for a node and model: the node's letters and a few of the model's. */
static struct id offer_id(const struct node *n, const char *model)
{
    uint32_t h = 2166136261u;
    struct id id;

    for (const char *c = model; *c; c++)
        h = (h ^ (unsigned char)*c) * 16777619u;
    CHECK(str_printf(id.s, sizeof(id.s), "off_%.12s%04x", n->id.s + 4, h & 0xffff));
    return id;
}

static enum err offer_price(struct op *op, enum meter m, const char *model, int64_t *ret_u,
                            bool *ret_sold)
{
    struct currency ccy;
    char sku[SKU_SIZE];
    enum err e;

    TRY(view_currency(op, op->who.project, &ccy));
    funds_sku(m, model, sku);
    e = funds_price_unit(op->store, op->now, ccy, sku, ret_u, &op->why);
    *ret_sold = e == ERR_OK;
    if (e != ERR_PRICE_UNKNOWN) /* without a price nothing is offered */
        return e;
    op->why = (struct refusal){0};
    return ERR_OK;
}

static void offer_init(struct offer *o, const struct node *n, const struct node_used *u)
{
    o->node = n->id;
    (void)str_copy(o->node_name, sizeof(o->node_name), n->name);
    (void)str_copy(o->driver, sizeof(o->driver), n->driver);
    (void)str_copy(o->cuda, sizeof(o->cuda), n->cuda);
    o->node_empty = u->leases == 0;
    o->cpu_max = u->exclusive
                     ? 0
                     : (int32_t)MAX((n->cores * 1000ll - u->cpu_milli) / 1000, 0ll);
    o->memory_mib_max = MAX(n->memory_mib - u->memory_mib, (int64_t)0);
    o->simulated = n->simulated;
}

static enum err add_cards(struct op *op, struct offer_list *l, const struct node *n,
                          const struct node_used *u, int32_t gpu)
{
    const struct node_gpu *g = &n->gpus[gpu];
    struct offer o = {.vram_mib = g->memory_mib,
                      .free = u->exclusive ? 0 : place_free(n, g->model)};
    bool sold;

    for (int32_t k = 0; k < gpu; k++)
        if (str_eq(n->gpus[k].model, g->model))
            return ERR_OK;
    TRY(offer_price(op, METER_GPU, g->model, &o.price_u, &sold));
    if (!sold)
        return ERR_OK;
    TRY(offer_price(op, METER_NODE, g->model, &o.exclusive_u, &o.exclusive));
    offer_init(&o, n, u);
    o.id = offer_id(n, g->model);
    (void)str_copy(o.gpu, sizeof(o.gpu), g->model);
    o.simulated = g->simulated;
    o.count_max = MIN(o.free, INSTANCE_GPUS_MAX);
    *vec_push(l) = o;
    return ERR_OK;
}

static enum err add_seat(struct op *op, struct offer_list *l, const struct node *n,
                         const struct node_used *u)
{
    struct offer o = {0};
    bool sold;

    TRY(offer_price(op, METER_CPU, "", &o.price_u, &sold));
    if (!sold)
        return ERR_OK;
    offer_init(&o, n, u);
    o.id = offer_id(n, "");
    o.free = o.count_max = o.cpu_max;
    *vec_push(l) = o;
    return ERR_OK;
}

static enum err add_node(struct op *op, struct offer_list *l, const struct node *n)
{
    struct node_used u;

    if (n->state != NODE_READY)
        return ERR_OK;
    TRY(store_node_used(op->store, n->id, &u));
    for (int32_t g = 0; g < n->gpu_count; g++)
        TRY(add_cards(op, l, n, &u, g));
    return add_seat(op, l, n, &u);
}

struct side_prices {
    int64_t disk_u, stopped_u, egress_u;
    bool disk, stopped, egress;
    struct currency ccy;
};

static enum err load_sides(struct op *op, struct side_prices *p)
{
    TRY(view_currency(op, op->who.project, &p->ccy));
    TRY(offer_price(op, METER_DISK, "", &p->disk_u, &p->disk));
    TRY(offer_price(op, METER_DISK_STOPPED, "", &p->stopped_u, &p->stopped));
    return offer_price(op, METER_EGRESS, "", &p->egress_u, &p->egress);
}

static void money_or_none(struct json_writer *w, const char *key, bool there, int64_t u,
                          struct currency ccy)
{
    if (there)
        json_money(w, key, u, ccy);
    else
        json_none(w, key);
}

static void write_offer(struct op *op, const struct offer *o, const struct side_prices *p)
{
    struct json_writer *w = &op->out;

    json_object_begin(w, NULL);
    json_str(w, "id", o->id.s);
    json_str(w, "gpu", o->gpu[0] ? o->gpu : NULL);
    json_i64(w, "vram_mib", o->vram_mib);
    json_i64(w, "free", o->free);
    json_i64(w, "count_max", o->count_max);
    json_i64(w, "cpu_max", o->cpu_max);
    json_i64(w, "memory_mib_max", o->memory_mib_max);
    json_money(w, "price_hour", o->price_u, p->ccy);
    money_or_none(w, "exclusive_hour", o->exclusive, o->exclusive_u, p->ccy);
    json_flag(w, "alone_now", o->exclusive && o->node_empty);
    money_or_none(w, "disk_gib_day", p->disk, p->disk_u, p->ccy);
    money_or_none(w, "disk_stopped_gib_day", p->stopped, p->stopped_u, p->ccy);
    money_or_none(w, "egress_gib", p->egress, p->egress_u, p->ccy);
    json_str(w, "node", o->node_name);
    json_str(w, "driver", o->driver[0] ? o->driver : NULL);
    json_str(w, "cuda", o->cuda[0] ? o->cuda : NULL);
    json_str(w, "isolation", msg_tr(op->lang, N_("shared kernel")));
    json_str(w, "trust", "operator");
    json_flag(w, "simulated", o->simulated);
    json_object_finish(w);
}

static enum err write_page(struct op *op, const struct offer_list *l, const struct offer_filter *f,
                           int64_t limit, const char *pos)
{
    struct side_prices sides;
    const char *last = NULL;
    bool started = !pos[0], more = false;
    int64_t taken = 0;

    TRY(load_sides(op, &sides));
    json_object_begin(&op->out, NULL);
    json_array_begin(&op->out, "items");
    for (size_t n = 0; n < l->len && !more; n++) {
        if (!offer_matches(f, &l->at[n]))
            continue;
        if (!started) {
            started = str_eq(l->at[n].id.s, pos);
            continue;
        }
        more = taken++ == limit;
        if (more)
            break;
        write_offer(op, &l->at[n], &sides);
        last = l->at[n].id.s;
    }
    if (!started)
        return refuse(&op->why, ERR_CURSOR);
    TRY(cursor_finish(op, more ? last : NULL));
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err offers_load(struct op *op, struct offer_list *ret_l)
{
    struct node_list nodes = {0};
    struct offer_list l = {0};
    enum err e = store_node_list(op->store, &nodes);

    for (size_t n = 0; e == ERR_OK && n < nodes.len; n++)
        e = add_node(op, &l, &nodes.at[n]);
    vec_fini(&nodes);
    if (e != ERR_OK)
        offers_fini(&l);
    else
        *ret_l = l;
    return e;
}

void offers_fini(struct offer_list *l)
{
    vec_fini(l);
}

enum err op_offer_list(struct op *op)
{
    struct offer_list l = {0};
    struct offer_filter f;
    char pos[CURSOR_POS_SIZE];
    const char *text = "";
    int64_t limit;

    if (!json_get_str(op->query, "filter", "", &text))
        text = "";
    TRY(offer_filter_parse(text, &f, &op->why));
    TRY(cursor_read(op, &limit, pos));
    TRY(offers_load(op, &l));
    offer_sort(&f, l.at, l.len);
    enum err e = write_page(op, &l, &f, limit, pos);
    offers_fini(&l);
    return e;
}
