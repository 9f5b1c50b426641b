/* op_size.c: the sizing as an operation: pure tables and formulas, with this platform's offers, and
 * with the interval that the project's own runs have taught. */
#include <stdlib.h>

#include "app/offers.h"
#include "app/view.h"
#include "base/msg.h"
#include "domain/model.h"
#include "domain/size_json.h"
#include "domain/size_learn.h"
#include "store/size_rows.h"

/* A config.json in the question is the model; `model` is then only its name. */
static enum err config_take(struct op *op, const json_t *question, struct size_ask *a)
{
    const json_t *config = json_object_get(question, "config");
    const char *like, *name;

    if (!config || json_is_null(config))
        return ERR_OK;
    if (!json_get_str(question, "like", NULL, &like) ||
        !json_get_str(question, "model", NULL, &name) || !json_is_object(config)) {
        enum err e = refusef(&op->why, ERR_VALIDATION, "field", "config");
        refusal_set(&op->why, "why", N_("an object"));
        return e;
    }
    char *text = json_dumps(config, JSON_COMPACT);
    enum err e = text ? model_config(text, strlen(text), like, &a->model, &op->why)
                      : refusef(&op->why, ERR_TOO_LARGE, "what", "%s", "config");
    free(text);
    if (e == ERR_OK && name)
        (void)str_printf(a->model.name, sizeof(a->model.name), "%.90s", name);
    a->source = "config.json";
    return e;
}

/* The interval of the question's family and framework by the project's runs. */
static enum err learned_take(struct op *op, struct size_ask *a, size_t *ret_runs)
{
    AUTO_FREE double *ratio = mem_alloc(SIZE_LEARN_MAX * sizeof(*ratio));
    struct size_run_list l = {0};
    char family[SIZE_FAMILY_KEY];
    struct size_spread prior = size_spread(size_family(&a->job));
    size_t n = 0;

    size_family_key(a->model.name, family);
    TRY(store_size_run_list(op->store, op->who.project, &l));
    for (size_t i = 0; i < l.len && n < SIZE_LEARN_MAX; i++)
        if (str_eq(l.at[i].family, family) &&
            str_eq(l.at[i].framework, size_framework_name(a->job.framework)))
            ratio[n++] = (double)l.at[i].measured / (double)l.at[i].estimate;
    vec_fini(&l);
    a->learned = (struct size_spread){0};
    if (n > 0)
        size_learn(&prior, ratio, n, &a->learned);
    *ret_runs = n;
    return ERR_OK;
}

static enum err question_take(struct op *op, const json_t *question, struct size_ask *a,
                              size_t *ret_runs)
{
    TRY(config_take(op, question, a));
    TRY(size_ask_read(question, a, &op->why));
    return learned_take(op, a, ret_runs);
}

static enum err answer(struct op *op, struct size_ask *a, const struct offer_list *l)
{
    AUTO_FREE struct size_result *r = mem_alloc(sizeof(*r));
    struct size_choice c = {0};
    struct currency ccy;
    bool explain;

    TRY(size_ask_estimate(a, &a->job, r, &op->why));
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
    size_t runs;

    TRY(question_take(op, op->body, a, &runs));
    TRY(offers_load(op, &l));
    enum err e = answer(op, a, &l);
    offers_fini(&l);
    return e;
}

/* ---- learning ----------------------------------------------------------------------------------
 */

static void write_range(struct json_writer *w, const char *key, const struct size_range *r)
{
    json_object_begin(w, key);
    json_i64(w, "low", r->low);
    json_i64(w, "expected", r->expected);
    json_i64(w, "high", r->high);
    json_object_finish(w);
}

/* What a run cannot be: not measured, or of something else than was asked. */
static enum err run_check(struct op *op, const struct instance *i, const struct size_run *r)
{
    double ratio = (double)r->measured / (double)r->estimate;

    if (r->measured == 0) {
        enum err e = refusef(&op->why, ERR_NOT_FOUND, "what", N_("measured card memory of"));
        refusal_set(&op->why, "name", i->name);
        refusal_set(&op->why, "verb", "ls --all");
        return e;
    }
    if (ratio < SIZE_LEARN_RATIO_MIN || ratio > SIZE_LEARN_RATIO_MAX) {
        enum err e = refusef(&op->why, ERR_VALIDATION, "field", "instance");
        refusal_set(&op->why, "why", N_("what was measured is so far off that it was another job"));
        return e;
    }
    return ERR_OK;
}

static void write_compare(struct op *op, const struct instance *i, const struct size_run *r,
                          const struct size_result *was, const struct size_result *is, size_t runs)
{
    struct json_writer *w = &op->out;

    json_object_begin(w, NULL);
    json_str(w, "instance", i->name);
    json_str(w, "model_family", r->family);
    json_str(w, "framework", r->framework);
    write_range(w, "estimated", &was->total);
    json_i64(w, "measured", r->measured);
    json_flag(w, "inside", r->measured >= was->total.low && r->measured <= was->total.high);
    json_i64(w, "runs", (int64_t)runs);
    write_range(w, "learned", &is->total);
    json_object_finish(w);
}

enum err op_size_compare(struct op *op)
{
    AUTO_FREE struct size_ask *a = mem_alloc(sizeof(*a));
    AUTO_FREE struct size_result *was = mem_alloc(sizeof(*was)), *is = mem_alloc(sizeof(*is));
    const json_t *question = json_object_get(op->body, "size");
    struct size_run run = {.project = op->who.project, .at = op->now};
    struct instance i;
    const char *name;
    int64_t mib;
    size_t runs;

    CHECK(json_get_str(op->body, "instance", "", &name));
    TRY(store_instance_lookup(op->store, op->who.project, name, &i, &op->why));
    TRY(question_take(op, question, a, &runs));
    TRY(size_ask_estimate(a, &a->job, was, &op->why));
    TRY(store_gpu_memory_peak(op->store, op->who.project, i.id, &mib));
    run.instance = i.id;
    run.estimate = was->total.expected;
    run.measured = mib * 1048576;
    size_family_key(a->model.name, run.family);
    (void)str_copy(run.framework, sizeof(run.framework), size_framework_name(a->job.framework));
    (void)str_copy(run.task, sizeof(run.task), size_task_name(a->job.task));
    (void)str_copy(op->object, sizeof(op->object), i.name);
    TRY(run_check(op, &i, &run));
    TRY(store_size_run_save(op->store, &run));
    TRY(learned_take(op, a, &runs));
    TRY(size_ask_estimate(a, &a->job, is, &op->why));
    write_compare(op, &i, &run, was, is, runs);
    return ERR_OK;
}

enum err op_size_runs(struct op *op)
{
    struct size_run_list l = {0};
    struct json_writer *w = &op->out;

    TRY(store_size_run_list(op->store, op->who.project, &l));
    json_object_begin(w, NULL);
    json_array_begin(w, "runs");
    VEC_FOREACH (r, &l) {
        json_object_begin(w, NULL);
        json_str(w, "instance", r->instance.s);
        json_str(w, "model_family", r->family);
        json_str(w, "framework", r->framework);
        json_str(w, "task", r->task);
        json_i64(w, "estimate", r->estimate);
        json_i64(w, "measured", r->measured);
        json_time(w, "at", r->at);
        json_object_finish(w);
    }
    json_array_finish(w);
    json_object_finish(w);
    vec_fini(&l);
    return ERR_OK;
}
