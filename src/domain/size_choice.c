#include "domain/size_choice.h"

#include <stdlib.h>

#include "base/msg.h"
#include "base/vec.h"
#include "domain/model.h"
#include "domain/size_speed.h"

#define SETUP_S 300       /* until the first step: environment, data, compilation */
#define DOWNLOAD_BPS 50e6 /* of a model, bytes a second */
#define GIB INT64_C(1073741824)
#define MIB INT64_C(1048576)

static const int64_t counts[SIZE_COUNTS] = {1, 2, 4, 8, 16};

const char *size_verdict_name(enum size_verdict v)
{
    static const char *const name[] = {"no", "tight", "fits"};

    return name[v];
}

int64_t size_class_gib(int64_t bytes)
{
    static const int64_t usual[] = {8, 12, 16, 24, 32, 40, 48, 80, 96, 141, 180, 192, 288};

    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if ((double)bytes <= SIZE_FILL * 0.97 * (double)usual[i] * (double)GIB)
            return usual[i];
    return 0;
}

/* One layout and what it needs; many cards share few layouts. */
struct layout {
    int64_t dp, tp, pp;
    enum size_shard shard;
    bool possible;
    struct size_job job;
    struct size_range total, cache;
    int64_t kv_sequence;
};
#define LAYOUTS_MAX 40
struct search {
    const struct size_ask *a;
    const struct offer *offers;
    size_t offer_count;
    struct layout seen[LAYOUTS_MAX];
    size_t seen_count;
    struct size_places *out;
};

static const struct layout *layout_get(struct search *s, int64_t dp, int64_t tp, int64_t pp,
                                       enum size_shard shard)
{
    struct size_result r;

    for (size_t i = 0; i < s->seen_count; i++) {
        const struct layout *l = &s->seen[i];
        if (l->dp == dp && l->tp == tp && l->pp == pp && l->shard == shard)
            return l->possible ? l : NULL;
    }
    if (s->seen_count == LAYOUTS_MAX)
        return NULL;
    struct layout *l = &s->seen[s->seen_count++];
    *l = (struct layout){.dp = dp, .tp = tp, .pp = pp, .shard = shard, .job = s->a->job};
    if (!s->a->layout) {
        l->job.dp = dp;
        l->job.tp = tp;
        l->job.pp = pp;
        l->job.shard = shard;
    }
    l->possible = size_ask_estimate(s->a, &l->job, &r, NULL) == ERR_OK;
    l->total = r.total;
    l->cache = r.part[SIZE_CACHE];
    l->kv_sequence = r.kv_sequence;
    return l->possible ? l : NULL;
}

static enum size_verdict verdict_of(const struct size_range *need, int64_t usable)
{
    if ((double)need->expected > SIZE_FILL * (double)usable)
        return SIZE_NO;
    return need->high <= usable ? SIZE_FITS : SIZE_TIGHT;
}

static bool divides(int64_t n, int64_t of)
{
    return n > 0 && of % n == 0;
}

/* Inference on n cards: tensors are split inside a fast link, layers between links. */
static const struct layout *serve_layout(struct search *s, int64_t domain, int64_t n)
{
    const struct size_model *m = &s->a->model;
    int64_t tp = s->a->job.framework == SIZE_LLAMACPP ? 1 : MIN(domain, n);

    while (tp > 1 && (!divides(tp, n) || !divides(tp, m->heads)))
        tp--;
    if (!divides(n / tp, m->layers) && s->a->job.framework != SIZE_LLAMACPP)
        return NULL;
    return layout_get(s, 1, tp, n / tp, SIZE_DDP);
}

/* Training on n cards: whole copies when one card holds it, else shards. */
static const struct layout *train_layout(struct search *s, int64_t usable, int64_t n)
{
    const struct layout *whole = layout_get(s, n, 1, 1, SIZE_DDP), *shards;
    enum size_verdict v = whole ? verdict_of(&whole->total, usable) : SIZE_NO;

    if (n == 1 || v == SIZE_FITS)
        return whole;
    shards = layout_get(s, n, 1, 1, SIZE_FSDP);
    return shards && (!whole || verdict_of(&shards->total, usable) > v) ? shards : whole;
}

static const struct layout *layout_for(struct search *s, int64_t domain, int64_t usable, int64_t n)
{
    const struct size_job *j = &s->a->job;

    if (s->a->layout) {
        if (n != s->a->cards || (j->tp > 1 && j->tp > domain))
            return NULL;
        return layout_get(s, j->dp, j->tp, j->pp, j->shard);
    }
    return j->task == SIZE_INFER ? serve_layout(s, domain, n) : train_layout(s, usable, n);
}

static const struct offer *offer_for(const struct search *s, const struct card_row *card,
                                     int64_t count)
{
    const struct offer *best = NULL;

    for (size_t i = 0; i < s->offer_count; i++) {
        const struct offer *o = &s->offers[i];
        if (!o->gpu[0] || o->count_max < count || card_find(o->gpu, o->vram_mib) != card)
            continue;
        if (!best || o->price_u < best->price_u)
            best = o;
    }
    return best;
}

static int64_t cost_of(double seconds, int64_t cards, int64_t price_u)
{
    double u = seconds / 3600 * (double)cards * (double)price_u;

    return u < 9e18 ? (int64_t)(u + 0.5) : INT64_MAX;
}

static int64_t setup_s(const struct size_ask *a)
{
    return SETUP_S + (int64_t)((double)size_weight_bytes(&a->model, SIZE_BF16) / DOWNLOAD_BPS);
}

static void train_figures(const struct size_ask *a, struct size_place *p)
{
    int64_t setup = setup_s(a);

    if (p->card)
        size_speed_train(a, &p->job, p->card, p->count, &p->seconds);
    if (p->seconds.expected > 0 || p->card) {
        p->seconds.low += setup;
        p->seconds.expected += setup;
        p->seconds.high += setup;
    }
    if (p->offer && p->seconds.expected > 0) {
        p->cost_u = cost_of((double)p->seconds.expected, p->count, p->offer->price_u);
        p->cost_high_u = cost_of((double)p->seconds.high, p->count, p->offer->price_u);
    }
}

static void serve_figures(const struct size_ask *a, const struct layout *l, struct size_place *p)
{
    int64_t room =
        (int64_t)(SIZE_FILL * (double)p->usable) - (l->total.expected - l->cache.expected);
    struct size_budget b;

    p->sequences = l->kv_sequence > 0 ? MAX(room, (int64_t)0) / l->kv_sequence : 0;
    if (a->job.framework >= SIZE_VLLM && l->tp == 1 &&
        size_budget(&a->model, &p->job, p->usable, &b, NULL) == ERR_OK)
        p->sequences = b.sequences;
    if (p->card)
        size_speed_decode(a, &p->job, p->card, p->count, p->sequences, &p->tokens_s,
                          &p->tokens_s_all);
    if (p->offer) {
        p->cost_u = p->cost_high_u = cost_of(3600, p->count, p->offer->price_u);
        if (p->tokens_s_all > 0)
            p->cost_million_u = cost_of(1e6 / (double)p->tokens_s_all, p->count, p->offer->price_u);
    }
}

static void place_add(struct search *s, const struct card_row *card, const struct offer *known,
                      int64_t usable, int64_t n)
{
    const struct layout *l = layout_for(s, card ? card->domain : 1, usable, n);
    struct size_place p = {.card = card,
                           .usable = usable,
                           .count = n,
                           .cost_u = -1,
                           .cost_high_u = -1,
                           .cost_million_u = -1};

    if (!l || (p.verdict = verdict_of(&l->total, usable)) == SIZE_NO)
        return;
    p.job = l->job;
    p.need = l->total;
    p.offer = known ? (known->count_max >= n ? known : NULL) : offer_for(s, card, n);
    (void)str_copy(p.name, sizeof(p.name), card ? card->name : known->gpu);
    if (s->a->job.task == SIZE_INFER)
        serve_figures(s->a, l, &p);
    else
        train_figures(s->a, &p);
    *vec_push(s->out) = p;
}

static bool format_runs(const struct size_job *j, const struct card_row *card)
{
    /* 8-bit floats are unpacked by newer cards only */
    return j->weights != SIZE_FP8 || card->fp8_tflops > 0 || card->bf16;
}

static void places_find(struct search *s)
{
    for (size_t i = 0; i < card_row_count; i++)
        for (size_t k = 0; k < SIZE_COUNTS; k++)
            if (format_runs(&s->a->job, &card_rows[i]))
                place_add(s, &card_rows[i], NULL, card_rows[i].usable_mib * MIB, counts[k]);
    for (size_t i = 0; i < s->offer_count; i++) {
        const struct offer *o = &s->offers[i];
        if (!o->gpu[0] || card_find(o->gpu, o->vram_mib))
            continue;
        for (size_t k = 0; k < SIZE_COUNTS; k++)
            if (counts[k] <= o->count_max)
                place_add(s, NULL, o, (int64_t)(0.97 * (double)(o->vram_mib * MIB)), counts[k]);
    }
}

static int place_order(const void *a, const void *b)
{
    const struct size_place *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    if (x->usable != y->usable)
        return x->usable < y->usable ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Free here now; what everybody's software runs on; what is busy or unusual. */
static int standing(const struct size_place *p)
{
    if (p->offer)
        return p->offer->free >= p->count ? 0 : 2;
    return p->card && p->card->bf16 && str_eq(p->card->vendor, "NVIDIA") ? 1 : 2;
}

static bool better(const struct size_place *x, const struct size_place *y, int64_t a, int64_t b)
{
    if (standing(x) != standing(y))
        return standing(x) < standing(y);
    if ((x->verdict == SIZE_FITS) != (y->verdict == SIZE_FITS))
        return x->verdict == SIZE_FITS;
    return a < b;
}

/* Fewest cards, then the smallest usual card; of equals the one that is quickest. */
static bool smaller(const struct size_place *x, const struct size_place *y, int64_t slow_x,
                    int64_t slow_y)
{
    int64_t gib_x = x->card ? x->card->memory_gib : x->usable / GIB;
    int64_t gib_y = y->card ? y->card->memory_gib : y->usable / GIB;

    if (x->count == y->count && gib_x == gib_y)
        return better(x, y, slow_x, slow_y);
    return better(x, y, x->count * 10000 + gib_x, y->count * 10000 + gib_y);
}

/* How slow a place is; one whose speed is not known is the slowest. */
static int64_t slowness(const struct size_place *p, bool serving)
{
    int64_t v = serving ? -p->tokens_s : p->seconds.expected;

    return v ? v : INT64_MAX;
}

/* What to weigh two places by when money decides: the job, or an hour of serving. */
static void picks_choose(struct size_choice *f, bool serving)
{
    f->small = f->cheap = f->fast = SIZE_MAX;
    for (size_t i = 0; i < f->places.len; i++) {
        const struct size_place *p = &f->places.at[i];
        int64_t slow = slowness(p, serving);
        if (f->small == SIZE_MAX ||
            smaller(p, &f->places.at[f->small], slow, slowness(&f->places.at[f->small], serving)))
            f->small = i;
        if (p->cost_u >= 0 && (f->cheap == SIZE_MAX || better(p, &f->places.at[f->cheap], p->cost_u,
                                                              f->places.at[f->cheap].cost_u)))
            f->cheap = i;
        if (slow == INT64_MAX)
            continue;
        if (f->fast == SIZE_MAX ||
            better(p, &f->places.at[f->fast], slow, slowness(&f->places.at[f->fast], serving)))
            f->fast = i;
    }
}

/* All places of a question. */
static void search_run(const struct size_ask *a, const struct offer *offers, size_t count,
                       struct size_places *out)
{
    struct search *s = mem_alloc(sizeof(*s));

    *s = (struct search){.a = a, .offers = offers, .offer_count = count, .out = out};
    places_find(s);
    if (out->len > 1)
        qsort(out->at, out->len, sizeof(*out->at), place_order);
    mem_free_ptr(&s);
}

/* The one to take: the cheapest that is offered, else the smallest. */
static bool choose(const struct size_ask *a, const struct offer *offers, size_t count,
                   struct size_place *ret_p)
{
    struct size_choice f = {0};

    search_run(a, offers, count, &f.places);
    picks_choose(&f, a->job.task == SIZE_INFER);
    size_t i = f.cheap != SIZE_MAX ? f.cheap : f.small;
    if (i != SIZE_MAX)
        *ret_p = f.places.at[i];
    mem_free_ptr(&f.places.at);
    return i != SIZE_MAX;
}

/* ---- ways to make it smaller -------------------------------------------------------------------
 */

static void way_try(const struct size_ask *a, const struct size_job *j, int64_t now,
                    const char *text, const char *flags, struct size_choice *f)
{
    struct size_result r;

    if (f->way_count == SIZE_WAYS_MAX || size_job_check(&a->model, j, NULL) != ERR_OK ||
        size_ask_estimate(a, j, &r, NULL) != ERR_OK ||
        (double)r.total.expected > 0.97 * (double)now)
        return;
    struct size_way *w = &f->ways[f->way_count++];
    *w = (struct size_way){
        .text = text, .total = r.total, .class_gib = size_class_gib(r.total.expected)};
    int64_t n = strstr(flags, "--seq") ? j->seq : j->batch;
    size_t k = strcspn(flags, "#"); /* '#' stands for the new figure */
    bool fits = flags[k] ? str_printf(w->flags, sizeof(w->flags), "%.*s%" PRId64, (int)k, flags, n)
                         : str_copy(w->flags, sizeof(w->flags), flags);
    CHECK(fits);
}

static int way_order(const void *a, const void *b)
{
    const struct size_way *x = a, *y = b;

    return x->total.expected < y->total.expected ? -1 : x->total.expected > y->total.expected;
}

#define TRY_WAY(change, text, flags)                                                               \
    do {                                                                                           \
        struct size_job j = a->job;                                                                \
        change;                                                                                    \
        way_try(a, &j, now, text, flags, f);                                                       \
    } while (0)

static void ways_train(const struct size_ask *a, int64_t now, struct size_choice *f)
{
    const struct size_job *was = &a->job;

    if (was->recompute != SIZE_RECOMPUTE)
        TRY_WAY(j.recompute = SIZE_RECOMPUTE, N_("activation checkpointing"),
                "--checkpointing full");
    if (was->batch > 1)
        TRY_WAY(j.batch = 1, N_("micro-batch 1, accumulate more"), "--micro-batch 1");
    if (was->seq > 512)
        TRY_WAY(j.seq = was->seq / 2, N_("half the sequence length"), "--seq #");
    if (was->task == SIZE_LORA || was->task == SIZE_FULL)
        TRY_WAY((j.task = SIZE_QLORA, j.weights = SIZE_NF4_DQ, j.precision = SIZE_PURE16,
                 j.rank = MAX(j.rank, (int64_t)16), j.targets |= SIZE_TARGET_ALL),
                N_("4-bit base and adapter (QLoRA)"), "--task qlora");
    if (was->task == SIZE_FULL)
        TRY_WAY((j.task = SIZE_LORA, j.precision = SIZE_PURE16, j.rank = 16,
                 j.targets = SIZE_TARGET_ALL),
                N_("an adapter, not all weights (LoRA)"), "--task lora");
    if (was->optimizer == SIZE_ADAMW)
        TRY_WAY(j.optimizer = SIZE_ADAMW_8BIT, N_("8-bit optimizer states"),
                "--optimizer adamw-8bit");
    if (was->precision == SIZE_MIXED)
        TRY_WAY(j.precision = SIZE_PURE16, N_("weights and states in 16 bit"), "--precision bf16");
    if (was->loss == SIZE_LOSS_PLAIN)
        TRY_WAY(j.loss = SIZE_LOSS_FUSED, N_("fused loss: never all logits"), "--loss fused");
    if (was->dp <= 1 && was->tp <= 1 && was->pp <= 1)
        TRY_WAY((j.dp = 2, j.shard = SIZE_FSDP), N_("shards on two cards (FSDP)"),
                "--parallel dp=2,fsdp");
    if (!was->offload_optimizer && (was->task == SIZE_FULL || was->task == SIZE_PRETRAIN))
        TRY_WAY(j.offload_optimizer = true, N_("optimizer states in main memory"),
                "--offload optimizer");
}

static void ways_serve(const struct size_ask *a, int64_t now, struct size_choice *f)
{
    const struct size_job *was = &a->job;

    if (size_bits(was->weights) > 8.5)
        TRY_WAY(j.weights = SIZE_FP8, N_("8-bit weights"), "--quant fp8");
    if (size_bits(was->weights) > 5)
        TRY_WAY(j.weights = SIZE_AWQ4, N_("4-bit weights"), "--quant awq");
    if (was->kv.k == SIZE_FORMAT_NONE || size_bits(was->kv.k) > 8)
        TRY_WAY(j.kv.k = j.kv.v = SIZE_FP8, N_("8-bit cache"), "--kv fp8");
    if (was->batch > 1)
        TRY_WAY(j.batch = was->batch / 2, N_("half as many requests at once"), "--batch #");
    if (was->seq > 1024)
        TRY_WAY((j.seq = was->seq / 2, j.generate = MIN(j.generate, j.seq)), N_("half the context"),
                "--seq #");
    if (was->tp <= 1 && was->pp <= 1 && a->model.heads % 2 == 0)
        TRY_WAY(j.tp = 2, N_("split over two cards"), "--parallel tp=2");
}

/* ---- stages ------------------------------------------------------------------------------------
 */

static int64_t disk_gib_of(const struct size_ask *a)
{
    struct size_disk d;

    size_disk(&a->model, &a->job, 0, a->disk_gib * GIB, 2, &d);
    return (d.total + 10 * GIB - 1) / (10 * GIB) * 10;
}

static void stage_add(const struct size_ask *a, const char *name, const char *text,
                      const char *flags, int64_t hours, const struct offer *offers, size_t count,
                      struct size_choice *f)
{
    struct size_stage *st = &f->stage[f->stage_count++];

    *st = (struct size_stage){.name = name, .why = text, .flags = flags, .cost_u = -1};
    st->found = choose(a, offers, count, &st->place);
    if (!st->found)
        return;
    st->hours = hours ? hours : (st->place.seconds.high + 3599) / 3600;
    st->disk_gib = disk_gib_of(a);
    if (st->place.offer && st->hours > 0)
        st->cost_u = cost_of(3600.0 * (double)st->hours, st->place.count, st->place.offer->price_u);
}

static void stages_make(const struct size_ask *a, const struct offer *offers, size_t count,
                        struct size_choice *f)
{
    struct size_ask v = *a;
    bool serving = a->job.task == SIZE_INFER;

    v.layout = false;
    v.job.dp = v.job.tp = v.job.pp = v.job.cp = v.job.ep = 1;
    v.job.shard = SIZE_DDP;
    struct size_ask trial = v, serve = v;
    if (serving) {
        trial.job.weights = size_bits(v.job.weights) > 5 ? SIZE_AWQ4 : v.job.weights;
        trial.job.batch = 1;
        stage_add(&trial, N_("trial"), N_("does it answer well enough?"), "--quant awq --batch 1",
                  2, offers, count, f);
        stage_add(a, N_("serve"), N_("as asked, for a day"), "", 24, offers, count, f);
        return;
    }
    trial.job.task = SIZE_QLORA;
    trial.job.weights = SIZE_NF4_DQ;
    trial.job.precision = SIZE_PURE16;
    trial.job.seq = MIN(v.job.seq, (int64_t)1024);
    trial.job.batch = 1;
    trial.job.recompute = SIZE_RECOMPUTE;
    trial.job.rank = v.job.rank ? v.job.rank : 16;
    trial.job.targets = v.job.targets ? v.job.targets : SIZE_TARGET_ALL;
    trial.tokens = MIN(v.tokens, (int64_t)200000);
    trial.epochs = 1;
    stage_add(&trial, N_("trial"), N_("does the loss fall?"),
              "--task qlora --seq 1024 --tokens 200000", 1, offers, count, f);
    stage_add(a, N_("experiment"), N_("as asked; time at its careful end"), "", 0, offers, count,
              f);
    serve.job.task = SIZE_INFER;
    serve.job.framework = SIZE_TRANSFORMERS;
    serve.job.weights = SIZE_BF16;
    serve.job.generate = MIN(v.job.seq / 2, (int64_t)2048);
    serve.job.batch = 4;
    serve.sequences = 4;
    stage_add(&serve, N_("serve"), N_("four requests at once, for a day"), "--task infer --batch 4",
              24, offers, count, f);
}

/* ---- advice ------------------------------------------------------------------------------------
 */

static void advise(struct size_choice *f, enum size_advice_kind kind, const char *subject,
                   int64_t need, int64_t saves_u)
{
    if (f->advice_count == SIZE_ADVICE_MAX)
        return;
    struct size_advice *x = &f->advice[f->advice_count++];
    *x = (struct size_advice){.kind = kind, .need = need, .saves_u = saves_u};
    (void)str_copy(x->subject, sizeof(x->subject), subject);
}

static int64_t hour_u(const struct size_place *p)
{
    return p->offer ? cost_of(3600, p->count, p->offer->price_u) : -1;
}

/* Another form of the job that asks for a cheaper hour, or for fewer or smaller cards. */
static void advise_other(const struct size_ask *a, const struct size_ask *other,
                         enum size_advice_kind kind, const struct offer *offers, size_t count,
                         struct size_choice *f)
{
    struct size_place now, then;

    if (!choose(other, offers, count, &then))
        return;
    if (!choose(a, offers, count, &now)) {
        advise(f, kind, then.name, then.need.expected, -1);
        return;
    }
    int64_t was = hour_u(&now), is = hour_u(&then);
    if (was > 0 && is >= 0 ? is < was : then.usable * then.count < now.usable * now.count)
        advise(f, kind, then.name, then.need.expected, was > 0 && is >= 0 ? was - is : -1);
}

/* Cards of boards for training, of which eight and more are joined. */
static bool for_training(const struct size_place *p)
{
    return p->card && p->card->domain >= 8;
}

/* Serving on a card that is not made for training, where one of those was the other way. */
static void advise_card(struct size_choice *f)
{
    const size_t pick = f->cheap != SIZE_MAX ? f->cheap : f->small;
    int64_t other = -1;

    if (pick == SIZE_MAX || for_training(&f->places.at[pick]))
        return;
    const struct size_place *p = &f->places.at[pick];
    for (size_t i = 0; i < f->places.len; i++) {
        int64_t u = for_training(&f->places.at[i]) ? hour_u(&f->places.at[i]) : -1;
        if (u >= 0 && (other < 0 || u < other))
            other = u;
    }
    if (f->cheap == SIZE_MAX || other > hour_u(p))
        advise(f, SIZE_ADVICE_CARD, p->name, p->need.expected, other >= 0 ? other - hour_u(p) : -1);
}

/* A smaller model of the same family. */
static void advise_smaller(const struct size_ask *a, struct size_choice *f)
{
    const struct model_row *best = NULL;
    int64_t mine = size_params_total(&a->model), most = 0;
    const char *dash = strrchr(a->model.name, '-'); /* "Llama-3.1-" of Llama-3.1-70B */
    size_t n = dash ? (size_t)(dash - a->model.name) : 0;
    struct size_result r;
    struct size_job j = a->job;

    for (size_t i = 0; n > 0 && mine > INT64_C(25000000000) && i < model_row_count; i++) {
        struct size_model m = model_rows[i].m;
        if (strncmp(m.name, a->model.name, n + 1) != 0)
            continue;
        size_model_default(&m);
        int64_t p = size_params_total(&m);
        if (p * 3 <= mine && p > most) {
            most = p;
            best = &model_rows[i];
        }
    }
    if (!best)
        return;
    struct size_model m = best->m;
    size_model_default(&m);
    j.dp = j.tp = j.pp = 1;
    if (size_estimate(&m, &j, &r, NULL) == ERR_OK)
        advise(f, SIZE_ADVICE_DISTIL, m.name, r.total.expected, -1);
}

static void advice_make(const struct size_ask *a, const struct offer *offers, size_t count,
                        struct size_choice *f)
{
    struct size_ask other = *a;

    if (a->job.task == SIZE_LORA) {
        other.job.task = SIZE_QLORA;
        other.job.weights = SIZE_NF4_DQ;
        advise_other(a, &other, SIZE_ADVICE_QLORA, offers, count, f);
    }
    if (a->job.task != SIZE_INFER)
        return;
    if (size_bits(a->job.weights) > 5) {
        other.job.weights = SIZE_AWQ4;
        advise_other(a, &other, SIZE_ADVICE_QUANTISE, offers, count, f);
    }
    advise_card(f);
    advise_smaller(a, f);
}

enum err size_choose(const struct size_ask *a, const struct offer *offers, size_t offer_count,
                     struct size_choice *ret_c, struct refusal *why)
{
    struct size_choice f = {0};
    struct size_result r;

    TRY(size_ask_estimate(a, &a->job, &r, why));
    search_run(a, offers, offer_count, &f.places);
    picks_choose(&f, a->job.task == SIZE_INFER);
    if (a->job.task == SIZE_INFER)
        ways_serve(a, r.total.expected, &f);
    else
        ways_train(a, r.total.expected, &f);
    qsort(f.ways, f.way_count, sizeof(f.ways[0]), way_order);
    stages_make(a, offers, offer_count, &f);
    advice_make(a, offers, offer_count, &f);
    size_disk(&a->model, &a->job, 20 * GIB, a->disk_gib * GIB, 2, &f.disk);
    *ret_c = f;
    return ERR_OK;
}

void size_choice_fini(struct size_choice *f)
{
    mem_free_ptr(&f->places.at);
}

bool size_rent_line(const struct size_stage *s, char *buf, size_t size)
{
    buf[0] = '\0';
    return s->found && s->place.offer &&
           str_printf(buf, size,
                      "suanli rent --gpu '%s' --count %" PRId64 " --disk data:%" PRId64
                      "GiB --for %" PRId64 "h",
                      s->place.offer->gpu, s->place.count, s->disk_gib, MAX(s->hours, (int64_t)1));
}
