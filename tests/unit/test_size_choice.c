/* From a question to a choice: words become a job and every default is noted, no place is offered
 * that does not hold the job, money follows from time and price, and runs move the interval. */
#include "../support/tap.h"

#include <math.h>
#include <stdlib.h>

#include "base/str.h"
#include "domain/model.h"
#include "domain/size_choice.h"
#include "domain/size_learn.h"
#include "domain/size_speed.h"

static enum err ask_try(const char *json, struct size_ask *a, struct refusal *why)
{
    json_error_t je;
    json_t *o = json_loads(json, 0, &je);

    assert_non_null(o);
    *a = (struct size_ask){0};
    enum err e = size_ask_read(o, a, why);
    json_decref(o);
    return e;
}

static void ask(const char *json, struct size_ask *a)
{
    struct refusal why = {0};

    if (ask_try(json, a, &why) != ERR_OK)
        fail_msg("%s: %s %s", json, why.params[0].value, why.params[1].value);
}

static bool assumed(const struct size_ask *a, const char *flag)
{
    for (size_t i = 0; i < a->assumed_count; i++)
        if (str_eq(a->assumed[i].flag, flag)) {
            assert_true(a->assumed[i].value[0] && a->assumed[i].why[0]);
            return true;
        }
    return false;
}

/* ---- the question ---- */

static void test_defaults_are_noted(void **state UNUSED)
{
    static const char *const lora[] = {
        "--task",      "--seq",       "--micro-batch", "--grad-accum",    "--framework",
        "--precision", "--optimizer", "--rank",        "--checkpointing", "--attention",
        "--targets",   "--quant",     "--tokens",      "--epochs"};
    struct size_ask a;

    ask("{\"model\":\"Qwen2.5-7B\"}", &a);
    for (size_t i = 0; i < ARRAY_LEN(lora); i++)
        if (!assumed(&a, lora[i]))
            fail_msg("%s is not noted", lora[i]);
    assert_int_equal(a.job.task, SIZE_LORA);
    ask("{\"model\":\"Qwen2.5-7B\",\"task\":\"qlora\",\"seq\":512,\"micro_batch\":2,\"batch\":32,"
        "\"framework\":\"trl\",\"precision\":\"bf16\",\"optimizer\":\"adamw_8bit\",\"rank\":8,"
        "\"checkpointing\":\"off\",\"attention\":\"flash\",\"targets\":\"q_proj,v_proj\","
        "\"quant\":\"nf4\",\"tokens\":\"1M\",\"epochs\":1}",
        &a);
    assert_int_equal(a.assumed_count, 0);
    assert_int_equal(a.job.batch, 2);
    assert_int_equal(a.job.accumulate, 16);
    assert_int_equal(a.job.targets, SIZE_Q | SIZE_V);
    assert_int_equal(a.job.optimizer, SIZE_ADAMW_8BIT);
    assert_int_equal(a.job.recompute, SIZE_KEEP);
    assert_int_equal(a.tokens, 1000000);
}

static void test_parallel(void **state UNUSED)
{
    struct size_ask a;
    char text[64];

    ask("{\"model\":\"Llama-3.1-70B\",\"task\":\"full\",\"parallel\":\"dp=8,tp=4,zero=1\"}", &a);
    assert_true(a.layout);
    assert_int_equal(a.cards, 32);
    assert_int_equal(a.job.shard, SIZE_ZERO1);
    size_layout_name(&a.job, text, sizeof(text));
    assert_string_equal(text, "dp=8 tp=4 zero1");
    ask("{\"model\":\"Llama-3.1-70B\",\"parallel\":\"dp=2,fsdp\"}", &a);
    assert_int_equal(a.job.shard, SIZE_FSDP);
    assert_int_equal(a.job.dp, 2);
}

static void test_question_refused(void **state UNUSED)
{
    static const char *const rows[][2] = {
        {"{}", "model"},
        {"{\"model\":\"Qwen2.5-7B\",\"task\":\"dream\"}", "task"},
        {"{\"model\":\"Qwen2.5-7B\",\"task\":7}", "task"},
        {"{\"model\":\"Qwen2.5-7B\",\"seq\":0}", "seq"},
        {"{\"model\":\"Qwen2.5-7B\",\"seq\":9223372036854775807}", "seq"},
        {"{\"model\":\"Qwen2.5-7B\",\"quant\":\"q9\"}", "quant"},
        {"{\"model\":\"Qwen2.5-7B\",\"kv\":\"q9\"}", "kv"},
        {"{\"model\":\"Qwen2.5-7B\",\"parallel\":\"tp\"}", "parallel"},
        {"{\"model\":\"Qwen2.5-7B\",\"parallel\":\"tp=0\"}", "parallel"},
        {"{\"model\":\"Qwen2.5-7B\",\"parallel\":\"zero=4\"}", "parallel"},
        {"{\"model\":\"Mixtral-8x7B\",\"parallel\":\"tp=2,ep=8\"}", "parallel"},
        {"{\"model\":\"Qwen2.5-7B\",\"targets\":\"nothing\"}", "targets"},
        {"{\"model\":\"Qwen2.5-7B\",\"offload\":\"moon\"}", "offload"},
        {"{\"model\":\"Qwen2.5-7B\",\"tokens\":\"-1\"}", "tokens"},
        {"{\"params\":\"7X\"}", "params"},
        {"{\"layers\":2}", "model"},
    };
    struct size_ask a;
    struct refusal why;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(ask_try(rows[i][0], &a, &why), ERR_VALIDATION);
        if (!str_eq(why.params[0].value, rows[i][1]))
            fail_msg("%s: %s, not %s", rows[i][0], why.params[0].value, rows[i][1]);
    }
}

static void test_numbers_alone(void **state UNUSED)
{
    struct size_ask a;

    ask("{\"params\":\"13B\"}", &a);
    assert_string_equal(a.shape_of, "Llama-2-13b");
    assert_int_equal(size_params_total(&a.model), 13000000000);
    ask("{\"layers\":32,\"hidden\":4096,\"ffn\":14336,\"heads\":32,\"kv_heads\":8,\"vocab\":"
        "128256}",
        &a);
    assert_int_equal(size_params_total(&a.model), 8030261248);
}

/* ---- the choice ---- */

static void offers_make(struct offer o[3])
{
    memset(o, 0, 3 * sizeof(*o));
    (void)str_copy(o[0].gpu, sizeof(o[0].gpu), "RTX 4090");
    o[0] = (struct offer){
        .gpu = "RTX 4090", .vram_mib = 24564, .free = 2, .count_max = 2, .price_u = 1980000};
    o[1] = (struct offer){
        .gpu = "A100-SXM4-80GB", .vram_mib = 81920, .free = 8, .count_max = 8, .price_u = 9000000};
    o[2] = (struct offer){
        .gpu = "Mystery 9000", .vram_mib = 98304, .free = 1, .count_max = 1, .price_u = 100000};
}

static void check_place(const struct size_ask *a, const struct size_place *p)
{
    const struct size_job *j = &p->job;
    struct size_result r;

    assert_true(p->verdict != SIZE_NO);
    assert_true((double)p->need.expected <= SIZE_FILL * (double)p->usable);
    assert_int_equal(p->verdict == SIZE_FITS, p->need.high <= p->usable);
    assert_int_equal(MAX(j->dp, (int64_t)1) * MAX(j->tp, (int64_t)1) * MAX(j->pp, (int64_t)1),
                     p->count);
    if (j->tp > 1) {
        assert_true(p->card && j->tp <= p->card->domain);
        assert_int_equal(a->model.heads % j->tp, 0);
    }
    if (j->pp > 1 && j->framework != SIZE_LLAMACPP)
        assert_int_equal(a->model.layers % j->pp, 0);
    /* what is said of the place is what the estimate says of its layout */
    assert_int_equal(size_ask_estimate(a, j, &r, NULL), ERR_OK);
    assert_memory_equal(&r.total, &p->need, sizeof(r.total));
    if (p->offer) {
        assert_true(p->offer->count_max >= p->count);
        if (a->job.task != SIZE_INFER && p->seconds.expected > 0)
            assert_true(fabs((double)p->cost_u - (double)p->seconds.expected / 3600 *
                                                     (double)p->count * (double)p->offer->price_u) <
                        1);
    } else {
        assert_int_equal(p->cost_u, -1);
    }
}

static void test_places_hold_it(void **state UNUSED)
{
    static const char *const rows[] = {
        "{\"model\":\"Qwen2.5-7B\",\"task\":\"lora\"}",
        "{\"model\":\"Llama-3.1-70B\",\"task\":\"infer\",\"framework\":\"vllm\"}",
        ("{\"model\":\"Llama-3.1-70B\",\"task\":\"infer\",\"framework\":\"llama.cpp\","
         "\"quant\":\"Q4_K_M\"}"),
        "{\"model\":\"Qwen2.5-14B\",\"task\":\"infer\",\"batch\":8}",
        "{\"model\":\"Mixtral-8x7B\",\"task\":\"qlora\"}",
        "{\"model\":\"Llama-3.1-8B\",\"task\":\"full\",\"parallel\":\"dp=4,fsdp\"}",
        "{\"model\":\"DeepSeek-V3\",\"task\":\"infer\",\"batch\":4}",
        "{\"model\":\"gpt2\",\"task\":\"pretrain\"}"};
    struct offer offers[3];

    offers_make(offers);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct size_ask a;
        struct size_choice c;
        ask(rows[i], &a);
        assert_int_equal(size_choose(&a, offers, 3, &c, NULL), ERR_OK);
        assert_true(c.places.len > 0);
        for (size_t k = 0; k < c.places.len; k++) {
            check_place(&a, &c.places.at[k]);
            if (a.layout)
                assert_int_equal(c.places.at[k].count, 4);
            if (k > 0)
                assert_true(c.places.at[k - 1].count <= c.places.at[k].count);
        }
        struct size_result r;
        assert_int_equal(size_ask_estimate(&a, &a.job, &r, NULL), ERR_OK);
        for (size_t k = 0; k < c.way_count; k++)
            assert_true(c.ways[k].total.expected < r.total.expected);
        assert_true(c.stage_count >= 2 && c.stage_count <= SIZE_STAGES);
        size_choice_fini(&c);
    }
}

static void test_money(void **state UNUSED)
{
    struct offer offers[3];
    struct size_ask a;
    struct size_choice c, more, none;

    offers_make(offers);
    ask("{\"model\":\"Llama-3.2-3B\",\"task\":\"lora\",\"tokens\":\"10M\"}", &a);
    assert_int_equal(size_choose(&a, offers, 3, &c, NULL), ERR_OK);
    assert_int_not_equal(c.cheap, SIZE_MAX);
    const struct size_place *best = &c.places.at[c.cheap];
    for (size_t i = 0; i < c.places.len; i++)
        if (c.places.at[i].cost_u >= 0 && c.places.at[i].verdict == best->verdict &&
            c.places.at[i].offer->free >= c.places.at[i].count)
            assert_true(c.places.at[i].cost_u >= best->cost_u);
    for (size_t i = 0; i < c.stage_count; i++) {
        char line[SIZE_RENT_MAX];
        assert_true(c.stage[i].found && c.stage[i].cost_u >= 0);
        assert_true(size_rent_line(&c.stage[i], line, sizeof(line)));
        assert_true(str_starts(line, "suanli rent --gpu '"));
    }
    a.tokens *= 10;
    assert_int_equal(size_choose(&a, offers, 3, &more, NULL), ERR_OK);
    assert_int_equal(more.places.len, c.places.len);
    for (size_t i = 0; i < c.places.len; i++)
        assert_true(more.places.at[i].seconds.expected >= c.places.at[i].seconds.expected &&
                    more.places.at[i].cost_u >= c.places.at[i].cost_u);
    assert_int_equal(size_choose(&a, NULL, 0, &none, NULL), ERR_OK);
    assert_int_equal(none.cheap, SIZE_MAX);
    assert_int_not_equal(none.small, SIZE_MAX);
    size_choice_fini(&c);
    size_choice_fini(&more);
    size_choice_fini(&none);
}

/* What is busy is shown, not advised; serving takes the card that is cheaper by the hour. */
static void test_busy_and_advice(void **state UNUSED)
{
    struct offer offers[3];
    struct size_ask a;
    struct size_choice c;
    bool told = false;

    offers_make(offers);
    ask("{\"model\":\"Qwen2.5-1.5B\",\"task\":\"infer\"}", &a);
    assert_int_equal(size_choose(&a, offers, 2, &c, NULL), ERR_OK);
    assert_string_equal(c.places.at[c.cheap].name, "RTX 4090");
    for (size_t i = 0; i < c.advice_count; i++)
        if (c.advice[i].kind == SIZE_ADVICE_CARD) {
            told = true;
            assert_string_equal(c.advice[i].subject, "RTX 4090");
            assert_int_equal(c.advice[i].saves_u, 9000000 - 1980000);
        }
    assert_true(told);
    size_choice_fini(&c);
    offers[0].free = 0;
    assert_int_equal(size_choose(&a, offers, 2, &c, NULL), ERR_OK);
    assert_string_equal(c.places.at[c.cheap].name, "A100 SXM4 80GB");
    size_choice_fini(&c);
}

static void test_unknown_card(void **state UNUSED)
{
    struct offer offers[3];
    struct size_ask a;
    struct size_choice c;
    bool seen = false;

    offers_make(offers);
    ask("{\"model\":\"Qwen2.5-7B\",\"task\":\"lora\"}", &a);
    assert_int_equal(size_choose(&a, offers, 3, &c, NULL), ERR_OK);
    for (size_t i = 0; i < c.places.len; i++)
        if (str_eq(c.places.at[i].name, "Mystery 9000")) {
            seen = true;
            assert_null(c.places.at[i].card);
            assert_int_equal(c.places.at[i].seconds.expected, 0); /* its speed is not known */
            assert_int_equal(c.places.at[i].cost_u, -1);
        }
    assert_true(seen);
    size_choice_fini(&c);
}

static void test_classes(void **state UNUSED)
{
    assert_int_equal(size_class_gib(1), 8);
    assert_int_equal(size_class_gib(INT64_C(20) << 30), 24);
    assert_int_equal(size_class_gib(INT64_C(22) << 30), 32);
    assert_int_equal(size_class_gib(INT64_C(1) << 40), 0);
}

/* ---- speed ---- */

/* Seconds of an iteration of 8 micro-steps as the Qwen README prints them for one A100-80. */
static void test_training_speed(void **state UNUSED)
{
    static const struct {
        const char *task;
        int64_t seq;
        double seconds;
    } rows[] = {{"lora", 256, 1.2},
                {"lora", 512, 1.5},
                {"lora", 8192, 21.3},
                {"qlora", 512, 3.0},
                {"qlora", 4096, 11.6}};
    const struct card_row *card = card_find("A100 80GB", 81920);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct size_ask a;
        struct size_range s;
        char text[160];
        assert_true(str_printf(text, sizeof(text),
                               "{\"model\":\"Qwen-7B\",\"task\":\"%s\",\"seq\":%" PRId64 "}",
                               rows[i].task, rows[i].seq));
        ask(text, &a);
        a.tokens = 8 * rows[i].seq * 1000; /* a thousand iterations */
        a.epochs = 1;
        size_speed_train(&a, &a.job, card, 1, &s);
        double want = rows[i].seconds * 1000;
        if (want < (double)s.low || want > (double)s.high)
            fail_msg("%s %" PRId64 ": %.0f s measured, %" PRId64 " to %" PRId64, rows[i].task,
                     rows[i].seq, want, s.low, s.high);
        assert_true(fabs((double)s.expected - want) < 0.25 * want);
    }
}

/* Decoding with transformers on A100: the shares of bandwidth that were measured. */
static void test_decode_speed(void **state UNUSED)
{
    const struct card_row *card = card_find("A100 80GB", 81920);
    struct size_ask a;
    int64_t one, all;

    ask("{\"model\":\"Qwen2.5-7B\",\"task\":\"infer\",\"seq\":64}", &a);
    size_speed_decode(&a, &a.job, card, 1, 1, &one, &all);
    assert_true(llabs(one - 41) <= 3);
    assert_int_equal(one, all);
    size_speed_decode(&a, &a.job, card, 1, 16, &one, &all);
    assert_true(all > 8 * one);
    ask("{\"model\":\"Qwen2.5-32B\",\"task\":\"infer\",\"seq\":64}", &a);
    size_speed_decode(&a, &a.job, card, 1, 1, &one, &all);
    assert_true(llabs(one - 17) <= 2);
}

/* ---- learning ---- */

static void learn(double low, double high, const double *r, size_t n, struct size_spread *s)
{
    const struct size_spread prior = {.low = low, .high = high, .rows = 10};

    size_learn(&prior, r, n, s);
    assert_true(s->low < 1 && s->high > 1);
    for (size_t i = 0; i < n; i++)
        if (r[i] <= SIZE_LEARN_RATIO_MAX && r[i] >= SIZE_LEARN_RATIO_MIN)
            assert_true(s->high >= r[i]);
}

static void test_learning(void **state UNUSED)
{
    struct size_spread none, few, many, wild, high, same;
    double agree[50], scatter[] = {0.6, 1.4, 0.7, 1.5, 1.3}, above[20], odd[] = {0.01, 100, 1.0};

    for (size_t i = 0; i < ARRAY_LEN(agree); i++)
        agree[i] = 1.0 + 0.005 * (double)((int)(i % 3) - 1);
    for (size_t i = 0; i < ARRAY_LEN(above); i++)
        above[i] = 1.15;
    learn(0.85, 1.2, NULL, 0, &none);
    assert_true(none.low == 0.85 && none.high == 1.2 && none.rows == 10);
    learn(0.85, 1.2, agree, 3, &few);
    learn(0.85, 1.2, agree, 50, &many);
    assert_true(many.high - many.low < few.high - few.low && few.high - few.low < 0.35);
    assert_int_equal(many.rows, 60);
    learn(0.85, 1.2, scatter, ARRAY_LEN(scatter), &wild);
    assert_true(wild.high - wild.low > 0.35 && wild.high >= 1.5);
    learn(0.85, 1.2, above, ARRAY_LEN(above), &high);
    assert_true(high.low > 0.9 && high.high >= 1.15);
    /* what cannot be such a run is left out */
    learn(0.85, 1.2, odd, ARRAY_LEN(odd), &same);
    assert_int_equal(same.rows, 11);
    /* the order of runs does not matter */
    double back[] = {1.3, 1.5, 0.7, 1.4, 0.6};
    learn(0.85, 1.2, back, ARRAY_LEN(back), &same);
    assert_true(fabs(same.low - wild.low) < 1e-12 && fabs(same.high - wild.high) < 1e-12);
}

static void test_learned_interval_is_used(void **state UNUSED)
{
    struct size_ask a;
    struct size_result before, after;

    ask("{\"model\":\"Qwen2.5-7B\"}", &a);
    assert_int_equal(size_ask_estimate(&a, &a.job, &before, NULL), ERR_OK);
    a.learned = (struct size_spread){.low = 0.99, .high = 1.01, .rows = 20};
    assert_int_equal(size_ask_estimate(&a, &a.job, &after, NULL), ERR_OK);
    assert_int_equal(before.total.expected, after.total.expected);
    assert_true(after.total.high - after.total.low < before.total.high - before.total.low);
    assert_int_equal(after.family_rows, 20);
}

static void test_family_key(void **state UNUSED)
{
    static const char *const rows[][2] = {{"Qwen2.5-7B", "qwen2.5"},
                                          {"Qwen/Qwen2.5-72B-Instruct", "qwen2.5"},
                                          {"Llama-3.1-8B", "llama-3.1"},
                                          {"Qwen3-30B-A3B", "qwen3"},
                                          {"Mixtral-8x7B", "mixtral-8x7b"},
                                          {"gpt2", "gpt2"},
                                          {"", ""},
                                          {"Phi-4", "phi-4"}};
    char key[SIZE_FAMILY_KEY], huge[500];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_family_key(rows[i][0], key);
        assert_string_equal(key, rows[i][1]);
    }
    memset(huge, 'a', sizeof(huge));
    huge[sizeof(huge) - 1] = '\0';
    size_family_key(huge, key);
    assert_true(strlen(key) < SIZE_FAMILY_KEY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_noted),
        cmocka_unit_test(test_parallel),
        cmocka_unit_test(test_question_refused),
        cmocka_unit_test(test_numbers_alone),
        cmocka_unit_test(test_places_hold_it),
        cmocka_unit_test(test_money),
        cmocka_unit_test(test_unknown_card),
        cmocka_unit_test(test_busy_and_advice),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_training_speed),
        cmocka_unit_test(test_decode_speed),
        cmocka_unit_test(test_learning),
        cmocka_unit_test(test_learned_interval_is_used),
        cmocka_unit_test(test_family_key),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
