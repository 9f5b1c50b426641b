/* cmd_size_view.c: the answer of suanli size on a screen of 80 columns: what the model is, memory
 * by part, what decides it and what would lower it, cards, what it costs here, the plan, and what
 * was taken without being said. Memory is in GiB (2^30 B), disks in GB (10^9 B), as everywhere. */
#include <stdlib.h>

#include "cli/size_screen.h"
#include "cli/table.h"

#define SCREEN_WIDTH 80
#define OFFERS_SHOWN 8
#define GB 1000000000.0

static const char *const part_text[SIZE_PARTS] = {
    [SIZE_WEIGHTS] = N_("weights"),
    [SIZE_ADAPTERS] = N_("adapters"),
    [SIZE_GRADIENTS] = N_("gradients"),
    [SIZE_STATES] = N_("optimizer states"),
    [SIZE_ACTIVATIONS] = N_("activations"),
    [SIZE_LOGITS] = N_("logits"),
    [SIZE_CACHE] = N_("KV cache"),
    [SIZE_FRAMEWORK_PART] = N_("framework and context"),
    [SIZE_FRAGMENTATION] = N_("fragmentation"),
};
/* Where the model came from; size_ask and model_file say these words. */
static const char *const source_text[] UNUSED = {N_("table"), N_("numbers")};
static const char *const verdict_text[] = {
    [SIZE_NO] = N_("no"), [SIZE_TIGHT] = N_("tight"), [SIZE_FITS] = N_("fits")};

static void gib(int64_t bytes, char *buf, size_t size)
{
    snprintf(buf, size, "%.2f", (double)bytes / SIZE_GIB);
}

/* "7,615,616,512" */
static void grouped(int64_t v, char *buf, size_t size)
{
    char digits[32];
    size_t n = 0;

    snprintf(digits, sizeof(digits), "%" PRId64, v);
    for (size_t i = 0, len = strlen(digits); i < len && n + 2 < size; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            buf[n++] = ',';
        buf[n++] = digits[i];
    }
    buf[n] = '\0';
}

/* Rounded to what can be paid. "-" when there is no amount. */
static const char *amount(const struct size_screen *s, int64_t u)
{
    static char ring[8][48];
    static size_t at;
    char *buf = ring[at++ % ARRAY_LEN(ring)];
    int64_t minor, residue;
    struct money m;

    if (u < 0 || !s->ccy.code[0])
        return "-";
    money_to_minor(money_of(u, s->ccy), &minor, &residue);
    if (residue * 2 >= currency_minor_u(s->ccy))
        minor++;
    if (money_from_minor(minor, s->ccy, &m) == ERR_OK)
        money_format_ccy(m, buf, sizeof(ring[0]));
    else
        snprintf(buf, sizeof(ring[0]), "-");
    return buf;
}

static const char *span(int64_t seconds)
{
    static char ring[4][32];
    static size_t at;
    char *buf = ring[at++ % ARRAY_LEN(ring)];

    if (seconds <= 0)
        return "-";
    text_duration(seconds, buf, sizeof(ring[0]));
    return buf;
}

/* Words in lines of the screen's width; indent for all but the first. */
static void wrapped(const char *head, const char *words)
{
    size_t indent = str_width(head) + 1, column = indent;

    printf("%s", head);
    for (const char *p = words; *p;) {
        char word[64];
        size_t n = strcspn(p, ";");
        str_printf(word, sizeof(word), "%.*s%s", (int)n, p, p[n] ? "," : "");
        if (column + str_width(word) + 1 > SCREEN_WIDTH) {
            printf("\n%*s", (int)indent - 1, "");
            column = indent;
        }
        printf(" %s", word);
        column += str_width(word) + 1;
        p += n + (p[n] == ';');
    }
    putchar('\n');
}

static void print_question(const struct size_screen *s)
{
    const struct size_ask *a = &s->ask;
    const struct size_job *j = &a->job;
    char params[40], active[40], layout[64];

    grouped(s->result.params, params, sizeof(params));
    grouped(s->result.active, active, sizeof(active));
    printf(tr("%s: %s parameters"), a->model.name, params);
    if (s->result.active != s->result.params)
        printf(tr(", %s active"), active);
    printf(tr("\n%" PRId64 " layers (%s)"), a->model.layers, tr(a->source));
    size_layout_name(j, layout, sizeof(layout));
    printf("; %s, %s, %s\n", size_task_name(j->task), size_framework_name(j->framework),
           size_format_row(j->weights)->name);
    if (j->task == SIZE_INFER)
        printf(tr("%" PRId64 " tokens, requests at once: %" PRId64), j->seq, j->batch);
    else
        printf(tr("%" PRId64 " tokens x %" PRId64 " samples x %" PRId64 " accumulated"), j->seq,
               j->batch, MAX(j->accumulate, (int64_t)1));
    printf("%s%s\n", layout[0] ? ", " : "", layout);
    if (a->model.context_max > 0 && j->seq > a->model.context_max)
        printf(
            tr("The model was made for %" PRId64 " tokens: longer needs its context stretched.\n"),
            a->model.context_max);
}

static void print_memory(struct cli *c, const struct size_screen *s)
{
    static const char *const head[] = {N_("MEMORY OF ONE CARD, GiB"), N_("LOW"), N_("EXPECTED"),
                                       N_("HIGH"), NULL};
    const struct size_result *r = &s->result;
    struct table t;
    char text[32];

    table_init(&t, head, "<>>>");
    for (int i = 0; i <= SIZE_PARTS; i++) {
        const struct size_range *p = i < SIZE_PARTS ? &r->part[i] : &r->total;
        if (p->high == 0)
            continue;
        table_add(&t, i < SIZE_PARTS ? tr(part_text[i]) : tr("total"));
        gib(p->low, text, sizeof(text));
        table_add(&t, text);
        gib(p->expected, text, sizeof(text));
        table_add(&t, text);
        gib(p->high, text, sizeof(text));
        table_add(&t, text);
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
    if (r->load_peak > 0)
        printf(tr("While loading: up to %.2f GiB.\n"), (double)r->load_peak / SIZE_GIB);
    if (r->host > 0)
        printf(tr("Main memory for what is offloaded: %.1f GiB.\n"), (double)r->host / SIZE_GIB);
    if (r->family_rows > 0)
        printf(tr("The interval rests on %" PRId64 " measured runs (%s).\n"), r->family_rows,
               size_family_name(r->family));
    else
        printf("%s\n", tr("The interval rests on the formula alone: no measured run is like it."));
}

/* The least change that lets a smaller card do: "activation checkpointing brings it under 24 GiB".
 */
static void print_step_down(const struct size_screen *s)
{
    int64_t now = size_class_gib(s->result.total.expected);
    const struct size_way *best = NULL;

    for (size_t i = 0; i < s->choice.way_count; i++) {
        const struct size_way *w = &s->choice.ways[i];
        if (w->class_gib && (!now || w->class_gib < now) &&
            (!best || w->total.expected > best->total.expected))
            best = w;
    }
    if (best)
        printf(tr("Least change: %s brings it under %" PRId64 " GiB.\n"), tr(best->text),
               best->class_gib);
}

static void print_ways(struct cli *c, const struct size_screen *s)
{
    static const char *const head[] = {N_("WHAT WOULD LOWER IT"), N_("GiB"), N_("CARD FROM"),
                                       N_("FLAGS"), NULL};
    const struct size_result *r = &s->result;
    struct table t;

    printf(tr("\nWhat decides: %s, %.0f %% of the expected need.\n"), tr(part_text[r->binding]),
           100.0 * (double)r->part[r->binding].expected /
               (double)MAX(r->total.expected, (int64_t)1));
    if (s->choice.way_count == 0)
        return;
    table_init(&t, head, "<>><");
    for (size_t i = 0; i < s->choice.way_count; i++) {
        const struct size_way *w = &s->choice.ways[i];
        table_add(&t, tr(w->text));
        table_addf(&t, "%.2f", (double)w->total.expected / SIZE_GIB);
        if (w->class_gib)
            table_addf(&t, "%" PRId64 " GiB", w->class_gib);
        else
            table_add(&t, "-");
        table_add(&t, w->flags);
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
    print_step_down(s);
}

/* Every card under the smallest number of it that holds the job. */
static void print_cards(const struct size_screen *s)
{
    static const int64_t counts[SIZE_COUNTS] = {1, 2, 4, 8, 16};
    const struct size_places *all = &s->choice.places;
    bool any = false, old = false;

    for (size_t k = 0; k < SIZE_COUNTS; k++) {
        AUTO_STRBUF struct strbuf b = {0};
        char head[64];
        strbuf_init(&b, 16384);
        for (size_t i = 0; i < all->len; i++) {
            bool fewer = all->at[i].count != counts[k];
            for (size_t n = 0; n < i && !fewer; n++)
                fewer = str_eq(all->at[n].name, all->at[i].name);
            if (fewer)
                continue;
            bool fp16 = all->at[i].card && !all->at[i].card->bf16;
            old |= fp16;
            strbuf_addf(&b, "%s%s%s%s", b.len ? ";" : "", all->at[i].name,
                        all->at[i].verdict == SIZE_TIGHT ? "*" : "", fp16 ? "~" : "");
        }
        if (!b.len)
            continue;
        if (!any)
            printf("\n%s\n", tr("CARDS THAT HOLD IT (* only just: the high end does not fit)"));
        any = true;
        str_printf(head, sizeof(head), tr("%2" PRId64 " x"), counts[k]);
        wrapped(head, strbuf_str(&b));
    }
    if (old)
        printf("%s\n", tr("~ without bf16: there it must run in fp16."));
    if (!any)
        printf("\n%s\n",
               tr("No card of the catalogue holds it, not even 16 of one kind: lower it first."));
}

static void print_slices(const struct size_screen *s)
{
    AUTO_STRBUF struct strbuf b = {0};

    if (s->ask.job.dp > 1 || s->ask.job.tp > 1 || s->ask.job.pp > 1)
        return;
    strbuf_init(&b, 4096);
    for (size_t i = 0; i < card_row_count; i++) {
        const char *pos = card_rows[i].mig;
        char name[16];
        int64_t mib, count;
        bool found = false;
        while (!found && card_slice_next(&pos, name, &mib, &count))
            found = count > 1 && s->result.total.high <= mib * 1048576;
        if (found)
            strbuf_addf(&b, "%s%s %s", b.len ? ";" : "", card_rows[i].name, name);
    }
    if (b.len)
        wrapped(tr("MIG slices:"), strbuf_str(&b));
}

static void place_row(struct table *t, const struct size_screen *s, const struct size_place *p)
{
    char layout[64];

    size_layout_name(&p->job, layout, sizeof(layout));
    table_addf(t, "%" PRId64 " x %s", p->count, p->offer ? p->offer->gpu : p->name);
    table_addf(t, "%.1f/%.1f", (double)p->need.expected / SIZE_GIB, (double)p->usable / SIZE_GIB);
    table_add(t, p->offer && p->offer->free < p->count ? tr("busy now")
                                                       : tr(verdict_text[p->verdict]));
    if (s->ask.job.task == SIZE_INFER) {
        table_addf(t, "%" PRId64, p->tokens_s);
        table_addf(t, "%" PRId64, p->tokens_s_all);
        table_addf(t, "%" PRId64, p->sequences);
        table_add(t, amount(s, p->cost_u));
    } else {
        table_add(t, layout);
        table_addf(t, "%s", span(p->seconds.expected));
        table_add(t, span(p->seconds.high));
        table_add(t, amount(s, p->cost_u));
    }
}

static void places_head(struct table *t, const struct size_screen *s, const char *title)
{
    const char *serve[] = {title,     N_("NEEDS/GIVES"), N_("VERDICT"),  N_("TOK/S"),
                           N_("ALL"), N_("SEQS"),        N_("PER HOUR"), NULL};
    const char *train[] = {title,      N_("NEEDS/GIVES"), N_("VERDICT"), N_("LAYOUT"),
                           N_("TIME"), N_("AT MOST"),     N_("COST"),    NULL};

    table_init(t, s->ask.job.task == SIZE_INFER ? serve : train,
               s->ask.job.task == SIZE_INFER ? "<><>>>>" : "<><<>>>");
}

/* Cards that many have or rent: what stands in for offers where there are none. */
static bool is_common(const struct size_choice *f, size_t i)
{
    static const char *const common[] = {
        "T4",   "RTX 3090",       "RTX 4090",       "L4",       "L20",
        "L40S", "A100 SXM4 80GB", "H100 SXM5 80GB", "H20 96GB", "Ascend 910B2/B3"};

    for (size_t n = 0; n < i; n++)
        if (str_eq(f->places.at[n].name, f->places.at[i].name))
            return false; /* more of it than needed */
    for (size_t k = 0; k < ARRAY_LEN(common); k++)
        if (str_eq(f->places.at[i].name, common[k]))
            return true;
    return i == f->small;
}

/* The answer in a line: what to take, and what it costs where that is known. */
static void print_short(const struct size_screen *s)
{
    const struct size_choice *f = &s->choice;
    size_t i = f->cheap != SIZE_MAX ? f->cheap : f->small;

    if (i == SIZE_MAX)
        return;
    const struct size_place *p = &f->places.at[i];
    printf(tr("Take %" PRId64 " x %s: needs %.1f of %.1f GiB"), p->count,
           p->offer ? p->offer->gpu : p->name, (double)p->need.expected / SIZE_GIB,
           (double)p->usable / SIZE_GIB);
    if (s->ask.job.task != SIZE_INFER && p->seconds.expected > 0)
        printf(tr("; about %s, at most %s"), span(p->seconds.expected), span(p->seconds.high));
    if (p->cost_u >= 0 && s->ask.job.task != SIZE_INFER)
        printf(tr("; about %s here"), amount(s, p->cost_u));
    else if (p->cost_u >= 0)
        printf(tr("; %s an hour here"), amount(s, p->cost_u));
    printf("\n\n");
}

static void print_places(struct cli *c, const struct size_screen *s)
{
    const struct size_choice *f = &s->choice;
    struct table t;
    size_t shown = 0;
    bool live = f->cheap != SIZE_MAX;

    if (f->places.len == 0)
        return;
    places_head(&t, s, live ? N_("HERE NOW") : N_("FOR INSTANCE"));
    for (size_t i = 0; i < f->places.len; i++) {
        const struct size_place *p = &f->places.at[i];
        bool here = live && p->offer && (shown < OFFERS_SHOWN || i == f->cheap);
        if (!s->all && !here && (live || !is_common(f, i)))
            continue;
        place_row(&t, s, p);
        shown++;
    }
    putchar('\n');
    table_print(&t, stdout, c->color);
    table_fini(&t);
    if (s->ask.job.task == SIZE_INFER && s->ask.job.framework >= SIZE_VLLM)
        printf(tr("The engine fills %.0f %% of the card whatever it needs; SEQS counts with "
                  "that.\n"),
               100 * s->ask.job.utilisation);
    if (str_eq(s->offers_said, "not_configured"))
        printf("%s\n", tr("Prices here: suanli login first; nothing above needed a server."));
    else if (str_eq(s->offers_said, "none") || (str_eq(s->offers_said, "live") && !live))
        printf("%s\n", tr("Nothing that holds it is offered here now."));
    else if (!live)
        printf("%s\n", tr("The platform did not answer in time: no prices. suanli doctor"));
}

static void print_plan(struct cli *c, const struct size_screen *s)
{
    static const char *const head[] = {N_("STAGE"), N_("CARDS"), N_("FOR"),
                                       N_("COST"),  N_("WHY"),   NULL};
    const struct size_choice *f = &s->choice;
    char line[SIZE_RENT_MAX];
    struct table t;

    putchar('\n');
    table_init(&t, head, "<<>><");
    for (size_t i = 0; i < f->stage_count; i++) {
        const struct size_stage *st = &f->stage[i];
        table_add(&t, tr(st->name));
        if (st->found)
            table_addf(&t, "%" PRId64 " x %s", st->place.count,
                       st->place.offer ? st->place.offer->gpu : st->place.name);
        else
            table_add(&t, "-");
        table_add(&t, st->hours > 0 ? span(st->hours * 3600) : "-");
        table_add(&t, amount(s, st->cost_u));
        table_add(&t, tr(st->why));
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
    for (size_t i = 0; i < f->stage_count; i++)
        if (size_rent_line(&f->stage[i], line, sizeof(line)))
            printf("  %s\n", line);
    printf(tr("Disk: %.0f GB: download %.0f, checkpoints %.0f, conversion %.0f; 15 %% free.\n"),
           (double)f->disk.total / GB, (double)f->disk.download / GB,
           (double)f->disk.checkpoints / GB, (double)f->disk.convert / GB);
}

static void print_advice(const struct size_screen *s)
{
    for (size_t i = 0; i < s->choice.advice_count; i++) {
        const struct size_advice *x = &s->choice.advice[i];
        double need = (double)x->need / SIZE_GIB;
        switch (x->kind) {
        case SIZE_ADVICE_QUANTISE:
            printf(tr("Advice: in 4 bit it needs %.1f GiB and runs on: %s."), need, x->subject);
            break;
        case SIZE_ADVICE_QLORA:
            printf(tr("Advice: as QLoRA it needs %.1f GiB and runs on: %s."), need, x->subject);
            break;
        case SIZE_ADVICE_CARD:
            printf(tr("Advice: serving needs no training card; %s holds its %.1f GiB."), x->subject,
                   need);
            break;
        case SIZE_ADVICE_DISTIL:
            printf(tr("Advice: distilled into %s it would need %.1f GiB."), x->subject, need);
            break;
        }
        if (x->saves_u > 0)
            printf(tr(" It saves %s an hour."), amount(s, x->saves_u));
        putchar('\n');
    }
}

static void print_assumed(struct cli *c, const struct size_screen *s)
{
    static const char *const head[] = {N_("TAKEN"), N_("AS"), N_("BECAUSE"), NULL};
    struct table t;

    if (s->ask.assumed_count == 0)
        return;
    putchar('\n');
    table_init(&t, head, "<<<");
    for (size_t i = 0; i < s->ask.assumed_count; i++) {
        table_add(&t, s->ask.assumed[i].flag);
        table_add(&t, s->ask.assumed[i].value);
        table_add(&t, tr(s->ask.assumed[i].why));
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

static void print_steps(const struct size_screen *s)
{
    char bytes[40];

    printf("\n%s\n", tr("FORMULAS, in bytes"));
    for (size_t i = 0; i < s->result.step_count; i++) {
        const struct size_step *st = &s->result.step[i];
        grouped(st->bytes, bytes, sizeof(bytes));
        printf("%s = %s\n    %s\n    [%s]\n", tr(part_text[st->part]), bytes, st->text, st->source);
    }
    printf("%s\n", tr("disk = (image 20 GiB + download + conversion + data + checkpoints) / 0.85"));
    if (s->ask.job.task == SIZE_INFER || s->choice.small == SIZE_MAX)
        return;
    const struct size_place *p = &s->choice.places.at[s->choice.small];
    if (p->card)
        printf(tr("time on %" PRId64 " x %s: %.3g FLOP a token x %" PRId64 " tokens x %" PRId64
                  " / (%" PRId64 " x %.0f TFLOPS x %.0f %%), and setting up\n"),
               p->count, p->name, s->result.flops_token, s->ask.tokens, s->ask.epochs, p->count,
               p->card->tflops16, 100 * size_efficiency(&p->job, p->card, p->count));
}

void size_print(struct cli *c, const struct size_screen *s)
{
    print_question(s);
    print_short(s);
    print_memory(c, s);
    print_ways(c, s);
    print_cards(s);
    print_slices(s);
    print_places(c, s);
    print_plan(c, s);
    print_advice(s);
    print_assumed(c, s);
    if (s->explain)
        print_steps(s);
}
