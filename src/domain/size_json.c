#include "domain/size_json.h"

static void amount(struct json_writer *w, const char *key, int64_t u, struct currency ccy)
{
    char text[MONEY_TEXT_SIZE];

    if (u < 0 || !ccy.code[0]) {
        json_none(w, key);
        return;
    }
    money_format(money_of(u, ccy), text, sizeof(text));
    json_object_begin(w, key);
    json_str(w, "amount", text);
    json_str(w, "currency", ccy.code);
    json_object_finish(w);
}

static void range(struct json_writer *w, const char *key, const struct size_range *r)
{
    json_object_begin(w, key);
    json_i64(w, "low", r->low);
    json_i64(w, "expected", r->expected);
    json_i64(w, "high", r->high);
    json_object_finish(w);
}

static void i64_or_none(struct json_writer *w, const char *key, int64_t v)
{
    if (v > 0)
        json_i64(w, key, v);
    else
        json_none(w, key);
}

static const char *format_name(enum size_format f)
{
    return f == SIZE_FORMAT_NONE ? NULL : size_format_row(f)->name;
}

static void model(struct json_writer *w, const struct size_ask *a, const struct size_result *r)
{
    const struct size_model *m = &a->model;

    json_object_begin(w, "model");
    json_str(w, "name", m->name);
    json_str(w, "source", a->source);
    json_i64(w, "params", r->params);
    json_i64(w, "params_active", r->active);
    json_i64(w, "params_trained", r->trainable);
    json_i64(w, "layers", m->layers);
    json_i64(w, "hidden", m->hidden);
    json_i64(w, "heads", m->heads);
    json_i64(w, "kv_heads", m->kv_heads);
    json_i64(w, "vocab", m->vocab);
    i64_or_none(w, "experts", m->moe.experts);
    i64_or_none(w, "context_max", m->context_max);
    json_str(w, "stored", format_name(m->stored));
    i64_or_none(w, "stored_bytes", m->weight_bytes);
    json_i64(w, "kv_bytes_token", r->kv_token);
    json_i64(w, "kv_bytes_sequence", r->kv_sequence);
    json_object_finish(w);
}

static void job(struct json_writer *w, const struct size_ask *a)
{
    const struct size_job *j = &a->job;
    char layout[64];

    size_layout_name(j, layout, sizeof(layout));
    json_object_begin(w, "job");
    json_str(w, "task", size_task_name(j->task));
    json_str(w, "framework", size_framework_name(j->framework));
    json_str(w, "quant", format_name(j->weights));
    json_str(w, "precision", size_precision_name(j->precision));
    json_i64(w, "seq", j->seq);
    json_i64(w, "micro_batch", j->batch);
    json_i64(w, "grad_accum", MAX(j->accumulate, (int64_t)1));
    json_str(w, "optimizer", j->task == SIZE_INFER ? NULL : size_optimizer_name(j->optimizer));
    json_str(w, "checkpointing", size_recompute_name(j->recompute));
    json_str(w, "attention", size_attention_name(j->attention));
    i64_or_none(w, "rank", j->task == SIZE_LORA || j->task == SIZE_QLORA ? j->rank : 0);
    json_str(w, "parallel", layout[0] ? layout : NULL);
    i64_or_none(w, "tokens", a->tokens);
    i64_or_none(w, "epochs", a->epochs);
    json_object_finish(w);
}

static void memory(struct json_writer *w, const struct size_result *r)
{
    json_array_begin(w, "parts");
    for (int i = 0; i < SIZE_PARTS; i++) {
        if (r->part[i].high == 0)
            continue;
        json_object_begin(w, NULL);
        json_str(w, "part", size_part_name((enum size_part)i));
        range(w, "bytes", &r->part[i]);
        json_object_finish(w);
    }
    json_array_finish(w);
    range(w, "total", &r->total);
    json_str(w, "binding", size_part_name(r->binding));
    json_i64(w, "load_peak", r->load_peak);
    json_i64(w, "host", r->host);
    json_str(w, "family", size_family_name(r->family));
    json_i64(w, "family_rows", r->family_rows);
}

static void place(struct json_writer *w, const char *key, const struct size_place *p,
                  struct currency ccy)
{
    char layout[64];

    size_layout_name(&p->job, layout, sizeof(layout));
    json_object_begin(w, key);
    json_str(w, "card", p->name);
    json_i64(w, "count", p->count);
    json_str(w, "verdict", size_verdict_name(p->verdict));
    json_str(w, "parallel", layout[0] ? layout : NULL);
    range(w, "need", &p->need);
    json_i64(w, "usable", p->usable);
    if (p->seconds.expected > 0)
        range(w, "seconds", &p->seconds);
    else
        json_none(w, "seconds");
    i64_or_none(w, "sequences", p->sequences);
    i64_or_none(w, "tokens_s", p->tokens_s);
    i64_or_none(w, "tokens_s_all", p->tokens_s_all);
    json_str(w, "offer", p->offer ? p->offer->id.s : NULL);
    json_str(w, "offer_gpu", p->offer ? p->offer->gpu : NULL);
    amount(w, "price_hour", p->offer ? p->offer->price_u : -1, ccy);
    amount(w, "cost", p->cost_u, ccy);
    amount(w, "cost_high", p->cost_high_u, ccy);
    amount(w, "cost_million_tokens", p->cost_million_u, ccy);
    json_object_finish(w);
}

static void pick(struct json_writer *w, const char *key, const struct size_choice *c, size_t i,
                 struct currency ccy)
{
    if (i == SIZE_MAX)
        json_none(w, key);
    else
        place(w, key, &c->places.at[i], ccy);
}

static void slices(struct json_writer *w, const struct size_result *r)
{
    json_array_begin(w, "slices");
    for (size_t i = 0; i < card_row_count; i++) {
        const char *pos = card_rows[i].mig;
        char name[16];
        int64_t mib, count;
        while (card_slice_next(&pos, name, &mib, &count)) {
            if (r->total.high > mib * 1048576)
                continue;
            json_object_begin(w, NULL);
            json_str(w, "card", card_rows[i].name);
            json_str(w, "slice", name);
            json_i64(w, "usable", mib * 1048576);
            json_i64(w, "per_card", count);
            json_object_finish(w);
            break; /* the smallest that holds it */
        }
    }
    json_array_finish(w);
}

static void ways(struct json_writer *w, const struct size_choice *c)
{
    json_array_begin(w, "ways");
    for (size_t i = 0; i < c->way_count; i++) {
        json_object_begin(w, NULL);
        json_str(w, "change", c->ways[i].text);
        json_str(w, "flags", c->ways[i].flags);
        range(w, "total", &c->ways[i].total);
        i64_or_none(w, "card_gib", c->ways[i].class_gib);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void stages(struct json_writer *w, const struct size_choice *c, struct currency ccy)
{
    char rent[SIZE_RENT_MAX];

    json_array_begin(w, "plan");
    for (size_t i = 0; i < c->stage_count; i++) {
        const struct size_stage *s = &c->stage[i];
        json_object_begin(w, NULL);
        json_str(w, "stage", s->name);
        json_str(w, "why", s->why);
        json_str(w, "flags", s->flags);
        if (s->found)
            place(w, "place", &s->place, ccy);
        else
            json_none(w, "place");
        i64_or_none(w, "hours", s->hours);
        i64_or_none(w, "disk_gib", s->disk_gib);
        amount(w, "cost", s->cost_u, ccy);
        json_str(w, "rent", size_rent_line(s, rent, sizeof(rent)) ? rent : NULL);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void advice(struct json_writer *w, const struct size_choice *c, struct currency ccy)
{
    static const char *const kinds[] = {"quantise", "qlora", "inference_card", "smaller_model"};

    json_array_begin(w, "advice");
    for (size_t i = 0; i < c->advice_count; i++) {
        json_object_begin(w, NULL);
        json_str(w, "kind", kinds[c->advice[i].kind]);
        json_str(w, "subject", c->advice[i].subject);
        json_i64(w, "need", c->advice[i].need);
        amount(w, "saves_hour", c->advice[i].saves_u, ccy);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void asked(struct json_writer *w, const struct size_ask *a)
{
    json_array_begin(w, "assumed");
    for (size_t i = 0; i < a->assumed_count; i++) {
        json_object_begin(w, NULL);
        json_str(w, "flag", a->assumed[i].flag);
        json_str(w, "value", a->assumed[i].value);
        json_str(w, "why", a->assumed[i].why);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void formulas(struct json_writer *w, const struct size_result *r, bool steps)
{
    json_array_begin(w, "steps");
    for (size_t i = 0; steps && i < r->step_count; i++) {
        json_object_begin(w, NULL);
        json_str(w, "part", size_part_name(r->step[i].part));
        json_str(w, "formula", r->step[i].text);
        json_i64(w, "bytes", r->step[i].bytes);
        json_str(w, "source", r->step[i].source);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void disk(struct json_writer *w, const struct size_choice *c)
{
    json_object_begin(w, "disk");
    json_i64(w, "download", c->disk.download);
    json_i64(w, "convert", c->disk.convert);
    json_i64(w, "checkpoint", c->disk.checkpoint);
    json_i64(w, "checkpoints", c->disk.checkpoints);
    json_i64(w, "total", c->disk.total);
    json_object_finish(w);
}

void size_json(struct json_writer *w, const struct size_ask *a, const struct size_result *r,
               const struct size_choice *c, struct currency ccy, const char *offers, bool steps)
{
    json_object_begin(w, NULL);
    model(w, a, r);
    job(w, a);
    memory(w, r);
    json_str(w, "offers", offers);
    pick(w, "smallest", c, c->small, ccy);
    pick(w, "cheapest", c, c->cheap, ccy);
    pick(w, "fastest", c, c->fast, ccy);
    json_array_begin(w, "cards");
    for (size_t i = 0; i < c->places.len; i++)
        place(w, NULL, &c->places.at[i], ccy);
    json_array_finish(w);
    slices(w, r);
    ways(w, c);
    disk(w, c);
    stages(w, c, ccy);
    advice(w, c, ccy);
    asked(w, a);
    formulas(w, r, steps);
    json_object_finish(w);
}
