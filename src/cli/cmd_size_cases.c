/* cmd_size_cases.c: suanli size --cases FILE. Every row of a file in the format of sizing-cases.tsv
 * beside what the estimate says of it, then the errors by family. */
#include <math.h>
#include <stdlib.h>

#include "cli/size_cases.h"
#include "cli/size_screen.h"
#include "cli/table.h"

static void row_print(struct table *t, const struct size_case *c)
{
    struct case_verdict v;
    char name[27];

    size_t n = MIN(strlen(c->model_name), sizeof(name) - 1);

    memcpy(name, c->model_name, n);
    name[n] = '\0';
    table_add(t, c->id);
    table_add(t, name);
    table_add(t, tr(case_family_name(c->family)));
    table_addf(t, "%.3f", (double)c->bytes / SIZE_GIB);
    if (!case_judge(c, &v) || (c->skip && !c->scored && v.predicted.expected == 0)) {
        table_add(t, "-");
        table_add(t, "-");
        table_add(t, tr(c->skip ? c->skip : "-"));
        return;
    }
    table_addf(t, "%.3f", (double)v.predicted.expected / SIZE_GIB);
    table_addf(t, "%+.2f %%", 100 * v.error);
    table_add(t, !c->scored ? tr(c->skip)
                 : v.unsafe ? tr("unsafe")
                 : v.inside ? ""
                            : tr("outside"));
}

static void family_print(struct table *t, enum case_family f, const struct case_score *s)
{
    struct case_goal goal = case_goal(f);

    table_add(t, tr(case_family_name(f)));
    table_addf(t, "%" PRId64, s->n);
    table_addf(t, "%.2f %%", 100 * s->mean);
    table_addf(t, "%.2f %%", 100 * s->median);
    table_addf(t, "%.2f %%", 100 * s->p90);
    table_addf(t, "%.0f %%", s->n > 0 ? 100 * (double)s->inside / (double)s->n : 0);
    table_addf(t, "%" PRId64, s->unsafe);
    if (goal.p90 > 0)
        table_addf(t, "%.1f / %.1f %%", 100 * goal.median, 100 * goal.p90);
    else if (goal.median > 0)
        table_addf(t, "%.1f %%", 100 * goal.median);
    else
        table_add(t, "-");
}

static void cases_print(struct cli *c, const struct size_case *cases, size_t n)
{
    static const char *const row_head[] = {
        N_("ID"), N_("MODEL"), N_("FIGURE"), N_("MEASURED"), N_("ESTIMATE"), N_("ERROR"), "", NULL};
    static const char *const head[] = {N_("FIGURE"), N_("ROWS"), N_("MEAN"),
                                       N_("MEDIAN"), N_("P90"),  N_("INSIDE"),
                                       N_("UNSAFE"), N_("GOAL"), NULL};
    struct case_score score[CASE_FAMILIES];
    struct table rows, families;
    int64_t left_out = 0, all = 0;

    table_init(&rows, row_head, "<<<>>><");
    for (size_t i = 0; i < n; i++)
        row_print(&rows, &cases[i]);
    printf("%s\n", tr("Memory in GiB"));
    table_print(&rows, stdout, c->color);
    table_fini(&rows);
    cases_score(cases, n, score);
    table_init(&families, head, "<>>>>>>>");
    for (int f = 0; f < CASE_FAMILIES; f++) {
        if (score[f].n > 0)
            family_print(&families, (enum case_family)f, &score[f]);
        left_out += score[f].left_out;
        all += f == CASE_EXACT ? 0 : score[f].n;
    }
    printf("\n");
    table_print(&families, stdout, c->color);
    table_fini(&families);
    printf(
        tr("%d of %d rows are of models behind the constants: judged without their own model.\n"),
        (int)left_out, (int)all);
}

static void row_json(struct json_writer *w, const struct size_case *c)
{
    struct case_verdict v;

    json_object_begin(w, NULL);
    json_str(w, "id", c->id);
    json_str(w, "model", c->model_name);
    json_str(w, "task", c->task);
    json_str(w, "figure", case_family_name(c->family));
    json_i64(w, "measured_bytes", c->bytes);
    if (case_judge(c, &v)) {
        json_i64(w, "predicted_bytes", v.predicted.expected);
        json_i64(w, "low_bytes", v.predicted.low);
        json_i64(w, "high_bytes", v.predicted.high);
        json_i64(w, "error_ppm", llround(v.error * 1e6));
        json_flag(w, "left_out", v.left_out);
        json_flag(w, "inside", v.inside);
        json_flag(w, "unsafe", v.unsafe);
    }
    json_flag(w, "scored", c->scored);
    if (c->skip)
        json_str(w, "reason", c->skip);
    json_object_finish(w);
}

static void family_json(struct json_writer *w, enum case_family f, const struct case_score *s)
{
    struct case_goal goal = case_goal(f);

    json_object_begin(w, NULL);
    json_str(w, "figure", case_family_name(f));
    json_i64(w, "rows", s->n);
    json_i64(w, "mean_ppm", llround(s->mean * 1e6));
    json_i64(w, "median_ppm", llround(s->median * 1e6));
    json_i64(w, "p90_ppm", llround(s->p90 * 1e6));
    json_i64(w, "inside", s->inside);
    json_i64(w, "unsafe", s->unsafe);
    json_i64(w, "left_out", s->left_out);
    json_i64(w, "goal_median_ppm", llround(goal.median * 1e6));
    json_i64(w, "goal_p90_ppm", llround(goal.p90 * 1e6));
    json_object_finish(w);
}

static void cases_json(const struct size_case *cases, size_t n)
{
    AUTO_STRBUF struct strbuf b = {0};
    struct case_score score[CASE_FAMILIES];
    struct json_writer w;

    strbuf_init(&b, 64 << 20);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_array_begin(&w, "rows");
    for (size_t i = 0; i < n; i++)
        row_json(&w, &cases[i]);
    json_array_finish(&w);
    cases_score(cases, n, score);
    json_array_begin(&w, "families");
    for (int f = 0; f < CASE_FAMILIES; f++)
        if (score[f].n > 0)
            family_json(&w, (enum case_family)f, &score[f]);
    json_array_finish(&w);
    json_object_finish(&w);
    puts(strbuf_str(&b));
}

static enum err load(const char *path, struct size_case **ret_c, size_t *ret_n, struct refusal *why)
{
    FILE *f = fopen(path, "re");

    if (!f) {
        enum err e = refusef(why, ERR_VALIDATION, "field", "%s", path);
        refusal_set(why, "why", N_("no such file can be read"));
        return e;
    }
    enum err e = cases_read(f, path, ret_c, ret_n, why);
    fclose(f);
    return e;
}

int cmd_size_cases(struct cli *c, const char *path)
{
    AUTO_FREE struct size_case *cases = NULL;
    struct refusal why;
    size_t n = 0;
    enum err e = load(path, &cases, &n, &why);

    if (e != ERR_OK)
        return fail_words(c, &why);
    if (c->json)
        cases_json(cases, n);
    else
        cases_print(c, cases, n);
    return 0;
}
