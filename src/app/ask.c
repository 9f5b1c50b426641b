#include "app/ask.h"

#include "app/core.h"
#include "app/funds.h"
#include "app/image_ref.h"
#include "base/msg.h"
#include "base/units.h"
#include "domain/money.h"
#include "domain/place.h"

#define COUNT_MAX INSTANCE_GPUS_MAX
#define CORES_MAX 1024
#define DISK_MIB_MIN 64

enum err ask_bad(struct op *op, const char *field, const char *why)
{
    (void)refusef(&op->why, ERR_VALIDATION, "field", "%s", field);
    refusal_set(&op->why, "why", msg_tr(op->lang, why));
    return ERR_VALIDATION;
}

static const char *arg(const struct op *op, const char *name)
{
    const char *v = NULL;

    return json_get_str(op->body, name, NULL, &v) ? v : NULL;
}

static enum err arg_count(struct op *op, const char *name, int64_t max, int64_t *ret_v)
{
    if (!json_get_i64(op->body, name, 0, ret_v) || *ret_v < 0 || *ret_v > max)
        return ask_bad(op, name, N_("outside what is possible"));
    return ERR_OK;
}

static enum err arg_size(struct op *op, const char *name, int64_t *ret_mib)
{
    const char *text = arg(op, name);

    *ret_mib = 0;
    if (text && (size_parse_mib(text, ret_mib) != ERR_OK || *ret_mib > ASK_DISK_MIB_MAX))
        return ask_bad(op, name, N_("a size such as 8GiB"));
    return ERR_OK;
}

/* the model */

struct near {
    char model[GPU_MODEL_SIZE];
    size_t score;
};

static void model_try(struct near *match, struct near *almost, const char *typed, const char *model)
{
    size_t score = place_model_match(typed, model), distance;

    if (score && (!match->score || score < match->score)) {
        match->score = score;
        memcpy(match->model, model, GPU_MODEL_SIZE);
    }
    distance = strlen(typed) < 40 ? str_distance(typed, model) : 64;
    for (const char *word = strchr(model, ' '); word; word = strchr(word + 1, ' '))
        distance = MIN(distance, strlen(typed) < 40 ? str_distance(typed, word + 1) : 64);
    if (!almost->score || distance < almost->score) {
        almost->score = distance;
        memcpy(almost->model, model, GPU_MODEL_SIZE);
    }
}

enum err ask_model(struct op *op, const char *typed, char ret_model[GPU_MODEL_SIZE])
{
    struct node_list nodes = {0};
    struct near match = {0}, almost = {0};
    enum err e = store_node_list(op->store, &nodes);

    VEC_FOREACH (n, &nodes)
        for (int32_t i = 0; i < n->gpu_count; i++)
            model_try(&match, &almost, typed, n->gpus[i].model);
    vec_fini(&nodes);
    TRY(e);
    if (match.score) {
        memcpy(ret_model, match.model, GPU_MODEL_SIZE);
        return ERR_OK;
    }
    (void)refusef(&op->why, ERR_NOT_FOUND, "what", "%s", "card");
    if (almost.score && almost.score <= 3)
        refusal_setf(&op->why, "name",
                     op->lang == LANG_ZH ? "%s（是否指 %s？）" : "%s (did you mean %s?)", typed,
                     almost.model);
    else
        refusal_set(&op->why, "name", typed);
    refusal_set(&op->why, "verb", "offers");
    return ERR_NOT_FOUND;
}

enum err ask_shape(struct op *op, struct shape *ret_s)
{
    const struct core_config *cfg = core_config_of(op->core);
    const char *gpu = arg(op, "gpu");
    struct shape s = {0};
    int64_t count, cores;

    TRY(arg_count(op, "count", COUNT_MAX, &count));
    TRY(arg_count(op, "cpu", CORES_MAX, &cores));
    TRY(arg_size(op, "memory", &s.memory_mib));
    TRY(arg_size(op, "system_disk", &s.system_disk_mib));
    s.cpu_milli = (int32_t)cores * 1000;
    if (!s.system_disk_mib)
        s.system_disk_mib = cfg->system_disk_mib;
    if (s.system_disk_mib < DISK_MIB_MIN)
        return ask_bad(op, "system_disk", N_("too small"));
    if (gpu) {
        TRY(ask_model(op, gpu, s.gpu_model));
        s.gpu_count = count ? (int32_t)count : 1;
    } else if (count) {
        return ask_bad(op, "gpu", N_("which card? see: suanli offers"));
    } else if (!cores) {
        return ask_bad(op, "gpu", N_("give a card, or cpu for a seat without one"));
    } else if (!s.memory_mib) {
        s.memory_mib = cfg->seat_memory_mib * cores;
    }
    CHECK(json_get_bool(op->body, "exclusive", false, &s.exclusive));
    if (s.exclusive && !s.gpu_count)
        return ask_bad(op, "exclusive", N_("only with cards"));
    *ret_s = s;
    return ERR_OK;
}

enum err ask_end(struct op *op, utime_t *ret_ends_at)
{
    const char *len = arg(op, "for"), *until = arg(op, "until");
    int64_t s = core_config_of(op->core)->default_for_s;
    bool no_end = false;

    if (!json_get_bool(op->body, "no_end", false, &no_end) || !!len + !!until + no_end > 1)
        return ask_bad(op, "for", N_("one of for, until and no_end"));
    if (no_end) {
        *ret_ends_at = UTIME_NEVER;
        return ERR_OK;
    }
    if (until) {
        if (time_parse(until, ret_ends_at) != ERR_OK)
            return ask_bad(op, "until", N_("a time such as 2026-03-01T18:00:00+08:00"));
        *ret_ends_at = *ret_ends_at / MS_PER_S * MS_PER_S;
        return *ret_ends_at > op->now ? ERR_OK : ask_bad(op, "until", N_("it lies in the past"));
    }
    if (len && (duration_parse(len, &s) != ERR_OK || s > 10ll * 366 * 86400))
        return ask_bad(op, "for", N_("a duration such as 4h"));
    if (s <= 0)
        return ask_bad(op, "for", N_("an end is part of a rental: for, until or no_end"));
    /* whole seconds: charges are, and so is the end */
    *ret_ends_at = (op->now / MS_PER_S + s) * MS_PER_S;
    return ERR_OK;
}

/* disks */

static enum err disk_known(struct op *op, const struct disk *d, struct ask_disk *a)
{
    struct instance i;

    if (d->kind != DISK_DATA || d->life > DISK_LIFE_READY) {
        (void)refusef(&op->why, ERR_NOT_FOUND, "what", "%s", "disk");
        refusal_set(&op->why, "name", d->name);
        refusal_set(&op->why, "verb", "disk ls");
        return ERR_NOT_FOUND;
    }
    if (d->instance.s[0]) {
        TRY(store_instance_get_any(op->store, d->instance, &i));
        (void)refusef(&op->why, ERR_DISK_IN_USE, "name", "%s", d->name);
        refusal_set(&op->why, "instance", i.name);
        return ERR_DISK_IN_USE;
    }
    if (a->size_mib && a->size_mib != d->size_mib)
        return ask_bad(op, "disk", N_("it exists with another size; use: suanli disk grow"));
    a->existing = d->id;
    a->size_mib = d->size_mib;
    CHECK(str_copy(a->name, sizeof(a->name), d->name));
    return ERR_OK;
}

static enum err ask_disk(struct op *op, const char *text, struct ask_disk *a)
{
    const char *colon = strchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    struct refusal none = {0};
    struct disk d;
    enum err e;

    if (!len || len >= sizeof(a->name))
        return ask_bad(op, "disk", N_("NAME:SIZE or NAME"));
    memcpy(a->name, text, len);
    if (colon && (size_parse_mib(colon + 1, &a->size_mib) != ERR_OK ||
                  a->size_mib > ASK_DISK_MIB_MAX || a->size_mib < DISK_MIB_MIN))
        return ask_bad(op, "disk", N_("a size such as 8GiB"));
    e = store_disk_lookup(op->store, op->who.project, a->name, &d, &none);
    if (e == ERR_OK && (d.life <= DISK_LIFE_READY || !colon))
        return disk_known(op, &d, a);
    if (e != ERR_OK && (e != ERR_NOT_FOUND || !colon)) {
        op->why = none;
        return e;
    }
    return str_is_name(a->name) ? ERR_OK : ask_bad(op, "disk", N_("1 to 63 of a-z, 0-9 and -"));
}

enum err ask_disks(struct op *op, struct ask_disk ret_d[INSTANCE_DISKS_MAX], int32_t *ret_n)
{
    const json_t *v;
    size_t i;

    *ret_n = 0;
    json_array_foreach(json_object_get(op->body, "disk"), i, v)
    {
        struct ask_disk a = {0};

        if (i == INSTANCE_DISKS_MAX)
            return ask_bad(op, "disk", N_("too many disks"));
        TRY(ask_disk(op, json_string_value(v), &a));
        for (int32_t k = 0; k < *ret_n; k++)
            if (str_eq(ret_d[k].name, a.name))
                return ask_bad(op, "disk", N_("the same disk twice"));
        ret_d[(*ret_n)++] = a;
    }
    return ERR_OK;
}

enum err ask_mount(struct op *op, const struct instance *i, struct disk *io_d)
{
    if (!str_printf(io_d->mount, sizeof(io_d->mount), "/root/%s",
                    i->data_count ? io_d->name : "data"))
        return ask_bad(op, "disk", N_("the name is too long"));
    for (int32_t n = 0; n < i->data_count; n++) {
        struct disk other;

        TRY(store_disk_get_any(op->store, i->data_disk[n], &other));
        if (str_eq(other.mount, io_d->mount))
            return ask_bad(op, "disk", N_("/root/data is taken; name the disk called data first"));
    }
    return ERR_OK;
}

enum err ask_disk_afford(struct op *op, const char *sku, int64_t mib)
{
    struct funds_wallet wallet;
    char text[3][MONEY_TEXT_SIZE];
    int64_t day_u, price_u;

    TRY(funds_wallet(op->store, op->now, op->who.project, &wallet, &op->why));
    TRY(funds_price_unit(op->store, op->now, wallet.ccy, sku, &price_u, &op->why));
    TRY(micro_mul_div(price_u, mib, 1024, &day_u));
    if (wallet.available_u >= day_u)
        return ERR_OK;
    money_format(money_of(day_u - wallet.available_u, wallet.ccy), text[0], MONEY_TEXT_SIZE);
    money_format(money_of(day_u, wallet.ccy), text[1], MONEY_TEXT_SIZE);
    money_format(money_of(wallet.available_u, wallet.ccy), text[2], MONEY_TEXT_SIZE);
    (void)refusef(&op->why, ERR_BALANCE, "short", "%s", text[0]);
    refusal_set(&op->why, "need", text[1]);
    refusal_set(&op->why, "have", text[2]);
    return ERR_BALANCE;
}

enum err ask_disk_grow(struct op *op, const struct disk *d, bool idle, const char *field,
                       int64_t mib)
{
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;
    struct node_used used;

    if (mib < d->size_mib)
        return ask_bad(op, field, N_("a disk only grows"));
    if (mib > ASK_DISK_MIB_MAX)
        return ask_bad(op, field, N_("a size such as 8GiB"));
    TRY(store_node_get(op->store, d->node, n));
    TRY(store_node_used(op->store, n->id, &used));
    if (n->disk_mib - used.disk_mib < mib - d->size_mib) {
        (void)refusef(&op->why, ERR_NO_SPACE, "where", "%s", n->name);
        refusal_setf(&op->why, "need", "%" PRId64 " MiB", mib - d->size_mib);
        return ERR_NO_SPACE;
    }
    return idle
               ? ask_disk_afford(op, d->kind == DISK_SYSTEM ? "disk.stopped" : "disk.detached", mib)
               : ERR_OK;
}

enum err ask_price(struct op *op, int64_t *ret_u, bool *ret_given)
{
    const char *text = arg(op, "price");
    struct project p;
    struct currency ccy;
    struct money m;

    *ret_given = text != NULL;
    if (!text)
        return ERR_OK;
    TRY(store_project_get(op->store, op->who.project, &p));
    TRY(currency_get(p.currency, &ccy));
    if (money_parse(text, ccy, &m) != ERR_OK || m.u < 0)
        return ask_bad(op, "price", N_("an amount such as 1.98"));
    *ret_u = m.u;
    return ERR_OK;
}

/* Nothing starts from an image without a digest: why it has none yet. */
static enum err image_waits(struct op *op, const struct image *i)
{
    struct node_image_list list = {0};
    char error[sizeof(list.at[0].error)] = "";
    enum err e = store_node_image_list(op->store, i->digest, &list);

    for (size_t k = 0; k < list.len && !error[0]; k++)
        if (str_eq(list.at[k].state, "failed"))
            (void)str_copy(error, sizeof(error), list.at[k].error);
    vec_fini(&list);
    TRY(e);
    if (error[0])
        return refusef(&op->why, ERR_IMAGE_PULL, "why", "%s, %s: %s", i->name, i->source, error);
    return refusef(&op->why, ERR_UNAVAILABLE, "why",
                   op->lang == LANG_ZH ? "镜像 %s 正在首次拉取"
                                       : "image %s is being fetched for the first time",
                   i->name);
}

enum err ask_image(struct op *op, struct image *ret_i)
{
    const char *name = arg(op, "image");
    enum err e =
        name ? store_image_get(op->store, name, ret_i) : store_image_default(op->store, ret_i);

    if (e == ERR_NOT_FOUND)
        return refusef(&op->why, ERR_IMAGE_NOT_FOUND, "name", "%s", name ? name : "(default)");
    if (e == ERR_OK && image_is_ref(ret_i->digest))
        return image_waits(op, ret_i);
    return e;
}
