/* cmd_size.c: suanli size. Answers from tables in the program; the platform's offers are asked for
 * once, quickly, and never waited for. */
#include <stdlib.h>

#include "cli/model_file.h"
#include "cli/size_screen.h"
#include "domain/model.h"

#define OFFERS_PATH "/v1/offers?limit=200"

static int names_print(struct cli *c)
{
    AUTO_STRBUF struct strbuf b = {0};
    struct json_writer w;

    strbuf_init(&b, 1 << 20);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_array_begin(&w, "items");
    for (size_t i = 0; i < model_row_count; i++) {
        struct size_model m = model_rows[i].m;
        size_model_default(&m);
        if (!c->json) {
            printf("%-22s %7.2f B\n", m.name, (double)size_params_total(&m) / 1e9);
            continue;
        }
        json_object_begin(&w, NULL);
        json_str(&w, "name", m.name);
        json_i64(&w, "params", size_params_total(&m));
        json_object_finish(&w);
    }
    json_array_finish(&w);
    json_none(&w, "next_cursor");
    json_object_finish(&w);
    if (c->json)
        puts(strbuf_str(&b));
    return 0;
}

/* One offer of the list; false when it is none of cards. */
static bool offer_take(const json_t *o, struct offer *to, struct currency *ccy)
{
    const json_t *price = json_object_get(o, "price_hour");
    struct money m;

    *to = (struct offer){.vram_mib = field_i64(o, "vram_mib"),
                         .free = (int32_t)MIN(field_i64(o, "free"), (int64_t)INT32_MAX),
                         .count_max = (int32_t)MIN(field_i64(o, "count_max"), (int64_t)INT32_MAX),
                         .simulated = field_bool(o, "simulated")};
    if (!*field_str(o, "gpu") || !str_copy(to->gpu, sizeof(to->gpu), field_str(o, "gpu")) ||
        !str_copy(to->id.s, sizeof(to->id.s), field_str(o, "id")) || to->vram_mib <= 0 ||
        to->vram_mib > INT64_C(1) << 40 ||
        currency_get(field_str(price, "currency"), ccy) != ERR_OK ||
        money_parse(field_str(price, "amount"), *ccy, &m) != ERR_OK || m.u < 0)
        return false;
    to->price_u = m.u;
    return true;
}

static void offers_load(struct cli *c, struct size_screen *s)
{
    AUTO_ANSWER struct answer a = {0};
    size_t i;
    json_t *o;

    answer_init(&a);
    s->offers_said = "not_configured";
    if (!c->cfg.url || !c->cfg.token)
        return;
    if (!api_call(c, "GET", OFFERS_PATH, NULL, CALL_QUIET | CALL_QUICK, &a)) {
        s->offers_said = a.status ? "refused" : "unreachable";
        return;
    }
    const json_t *items = json_object_get(a.json, "items");
    s->offers = mem_alloc((json_array_size(items) + 1) * sizeof(*s->offers));
    json_array_foreach(items, i, o)
    {
        struct currency ccy;
        if (!offer_take(o, &s->offers[s->offer_count], &ccy) ||
            (s->ccy.code[0] && !currency_eq(s->ccy, ccy)))
            continue;
        s->ccy = ccy;
        s->offer_count++;
    }
    s->offers_said = s->offer_count ? "live" : "none";
}

/* The word, or --config, as a file when it means one. */
static enum err model_load(struct call *call, struct size_ask *a, struct refusal *why)
{
    const char *word = arg_str(call, "model"), *config = arg_str(call, "config");

    if (config)
        return model_file_load(config, arg_str(call, "like"), &a->model, &a->source, why);
    if (word && model_file_meant(word))
        return model_file_load(word, arg_str(call, "like"), &a->model, &a->source, why);
    return ERR_OK;
}

static void print_json(const struct size_screen *s)
{
    AUTO_STRBUF struct strbuf b = {0};
    struct json_writer w;

    strbuf_init(&b, 4 << 20);
    json_writer_init(&w, &b);
    size_json(&w, &s->ask, &s->result, &s->choice, s->ccy, s->offers_said, s->explain);
    puts(strbuf_str(&b));
}

static enum err size_answer(struct cli *c, struct call *call, struct size_screen *s,
                            struct refusal *why)
{
    TRY(model_load(call, &s->ask, why));
    TRY(size_ask_read(call->args, &s->ask, why));
    TRY(size_estimate(&s->ask.model, &s->ask.job, &s->result, why));
    offers_load(c, s);
    return size_choose(&s->ask, s->offers, s->offer_count, &s->choice, why);
}

int cmd_size(struct cli *c, struct call *call)
{
    AUTO_FREE struct size_screen *s = mem_alloc(sizeof(*s));
    struct refusal why = {0};
    int e = 0;

    if (arg_bool(call, "list"))
        return names_print(c);
    s->explain = arg_bool(call, "explain");
    s->all = arg_bool(call, "all");
    if (size_answer(c, call, s, &why) != ERR_OK)
        e = fail_words(c, &why);
    else if (c->json)
        print_json(s);
    else if (c->quiet)
        printf("%" PRId64 "\n", s->result.total.expected);
    else
        size_print(c, s);
    size_choice_fini(&s->choice);
    free(s->offers);
    return e;
}
