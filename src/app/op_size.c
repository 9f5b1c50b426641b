/* op_size.c: the sizing as an operation: pure tables and formulas, with this platform's offers. */
#include <stdlib.h>

#include "app/offers.h"
#include "app/view.h"
#include "base/msg.h"
#include "domain/model.h"
#include "domain/size_json.h"

/* A config.json in the body is the model; `model` is then only its name. */
static enum err config_take(struct op *op, struct size_ask *a)
{
    const json_t *config = json_object_get(op->body, "config");
    const char *like, *name;

    if (!config || json_is_null(config))
        return ERR_OK;
    if (!json_get_str(op->body, "like", NULL, &like) ||
        !json_get_str(op->body, "model", NULL, &name))
        return refuse(&op->why, ERR_INTERNAL);
    char *text = json_dumps(config, JSON_COMPACT);
    enum err e = text ? model_config(text, strlen(text), like, &a->model, &op->why)
                      : refusef(&op->why, ERR_TOO_LARGE, "what", "%s", "config");
    free(text);
    if (e == ERR_OK && name)
        (void)str_printf(a->model.name, sizeof(a->model.name), "%.90s", name);
    a->source = "config.json";
    return e;
}

static enum err answer(struct op *op, struct size_ask *a, const struct offer_list *l)
{
    AUTO_FREE struct size_result *r = mem_alloc(sizeof(*r));
    struct size_choice c = {0};
    struct currency ccy;
    bool explain;

    TRY(size_estimate(&a->model, &a->job, r, &op->why));
    TRY(view_currency(op, op->who.project, &ccy));
    TRY(size_choose(a, l->at, l->len, &c, &op->why));
    size_json(&op->out, a, r, &c, ccy, l->len ? "live" : "none",
              json_get_bool(op->body, "explain", false, &explain) && explain);
    size_choice_fini(&c);
    return ERR_OK;
}

enum err op_size(struct op *op)
{
    AUTO_FREE struct size_ask *a = mem_alloc(sizeof(*a));
    struct offer_list l = {0};

    TRY(config_take(op, a));
    TRY(size_ask_read(op->body, a, &op->why));
    enum err e = offers_load(op, &l);
    if (e == ERR_OK)
        e = answer(op, a, &l);
    offers_fini(&l);
    return e;
}
