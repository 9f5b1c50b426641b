/* cmd_size.c: suanli size. Answers from tables in the program; the platform's offers are asked for
 * once, quickly, and never waited for. */
#include <stdlib.h>

#include "cli/model_file.h"
#include "cli/size_screen.h"
#include "domain/model.h"
#include "domain/size_learn.h"

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

/* Runs of ours of the same family and framework: they move the interval. Asked for only when the
 * server has just answered. */
static void runs_load(struct cli *c, struct size_screen *s)
{
    AUTO_ANSWER struct answer a = {0};
    AUTO_FREE double *ratio = mem_alloc(SIZE_LEARN_MAX * sizeof(*ratio));
    struct size_spread prior = size_spread(size_family(&s->ask.job));
    char family[SIZE_FAMILY_KEY];
    size_t i, n = 0;
    json_t *o;

    answer_init(&a);
    if (!str_eq(s->offers_said, "live") && !str_eq(s->offers_said, "none"))
        return;
    if (!api_call(c, "GET", "/v1/size/runs", NULL, CALL_QUIET | CALL_QUICK, &a))
        return;
    size_family_key(s->ask.model.name, family);
    json_array_foreach(json_object_get(a.json, "runs"), i, o)
    {
        int64_t estimate = field_i64(o, "estimate"), measured = field_i64(o, "measured");
        if (n < SIZE_LEARN_MAX && estimate > 0 && measured > 0 &&
            str_eq(field_str(o, "model_family"), family) &&
            str_eq(field_str(o, "framework"), size_framework_name(s->ask.job.framework)))
            ratio[n++] = (double)measured / (double)estimate;
    }
    if (n > 0)
        size_learn(&prior, ratio, n, &s->ask.learned);
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
    offers_load(c, s);
    runs_load(c, s);
    TRY(size_ask_estimate(&s->ask, &s->ask.job, &s->result, why));
    return size_choose(&s->ask, s->offers, s->offer_count, &s->choice, why);
}

/* ---- --compare ---------------------------------------------------------------------------------
 */

/* The question as the API takes it; a file's config.json travels in it. NULL: not possible. */
static json_t *question_make(struct call *call, struct refusal *why)
{
    static const char *const ours[] = {"list", "all", "compare", "explain"};
    const char *word = arg_str(call, "config") ? arg_str(call, "config") : arg_str(call, "model");
    AUTO_JSON json_t *q = json_copy(call->args);

    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        json_object_del(q, ours[i]);
    if (word && (arg_str(call, "config") || model_file_meant(word))) {
        AUTO_FREE char *inside = path_join(word, "config.json");
        AUTO_FREE char *text = NULL;
        json_t *config = NULL;
        size_t n = strlen(word);
        bool json = n > 5 && str_eq(word + n - 5, ".json");
        if (file_read(json ? word : inside, MODEL_CONFIG_MAX, &text, why) != ERR_OK ||
            json_parse(text, strlen(text), MODEL_CONFIG_MAX, &config, why) != ERR_OK)
            return NULL;
        json_object_set_new(q, "config", config);
    }
    return TAKE(q);
}

static void compare_print(const json_t *o)
{
    const json_t *was = json_object_get(o, "estimated"), *is = json_object_get(o, "learned");
    double gib = SIZE_GIB;

    printf(tr("%s: measured %.2f GiB of a card, estimated %.2f (%.2f to %.2f): %s\n"),
           field_str(o, "instance"), (double)field_i64(o, "measured") / gib,
           (double)field_i64(was, "expected") / gib, (double)field_i64(was, "low") / gib,
           (double)field_i64(was, "high") / gib,
           field_bool(o, "inside") ? tr("inside") : tr("outside"));
    printf(tr("From now on for %s under %s: %.2f to %.2f GiB, by %" PRId64 " runs of yours.\n"),
           field_str(o, "model_family"), field_str(o, "framework"),
           (double)field_i64(is, "low") / gib, (double)field_i64(is, "high") / gib,
           field_i64(o, "runs"));
}

static int compare(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    AUTO_JSON json_t *body = json_object();
    struct refusal why = {0};
    json_t *question = question_make(call, &why);

    answer_init(&a);
    if (!question)
        return why.code == ERR_NOT_FOUND || why.code == ERR_SYSTEM
                   ? fail_usage(c, "%s", tr("--compare takes a known name or a config.json"))
                   : fail_words(c, &why);
    json_object_set_new(body, "size", question);
    json_object_set_new(body, "instance", json_string(arg_str(call, "compare")));
    char *text = json_dumps(body, JSON_COMPACT);
    CHECK(text);
    bool ok = api_call(c, "POST", "/v1/size/compare", text, 0, &a);
    free(text);
    if (!ok)
        return a.exit;
    if (c->json)
        view_json(&a);
    else
        compare_print(a.json);
    return 0;
}

int cmd_size(struct cli *c, struct call *call)
{
    AUTO_FREE struct size_screen *s = mem_alloc(sizeof(*s));
    struct refusal why = {0};
    int e = 0;

    if (arg_bool(call, "list"))
        return names_print(c);
    if (arg_str(call, "compare"))
        return compare(c, call);
    if (arg_str(call, "cases"))
        return cmd_size_cases(c, arg_str(call, "cases"));
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
