#include "cli/place_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"

#define COLUMNS_MAX 32
#define LINE_MAX_SIZE 4096

/* A CSV file with a head; the fields wanted, by name. */
struct csv {
    FILE *file;
    const char *path;
    const char *const *want;
    size_t wants;
    int column[COLUMNS_MAX]; /* of each wanted; -1: not there */
    size_t line;
    char text[LINE_MAX_SIZE];
    char *field[COLUMNS_MAX]; /* of the current line, by want; "" when not there */
};

static enum err csv_wrong(struct refusal *why, const struct csv *c, const char *text)
{
    (void)refusef(why, ERR_VALIDATION, "field", "%s:%zu", c->path, c->line);
    refusal_set(why, "why", text);
    return ERR_VALIDATION;
}

/* Splits at commas, in place; quotes are not used in these files. */
static size_t split(char *line, char **ret_field, size_t max)
{
    size_t n = 0;

    line[strcspn(line, "\r\n")] = '\0';
    for (char *p = line; p && n < max; n++) {
        ret_field[n] = p;
        p = strchr(p, ',');
        if (p)
            *p++ = '\0';
    }
    return n;
}

static enum err csv_head(struct csv *c, size_t needed, struct refusal *why)
{
    char *head[COLUMNS_MAX];
    size_t n;

    c->line = 1;
    if (!fgets(c->text, sizeof(c->text), c->file))
        return csv_wrong(why, c, tr("the file is empty"));
    n = split(c->text, head, COLUMNS_MAX);
    for (size_t w = 0; w < c->wants; w++) {
        c->column[w] = -1;
        for (size_t i = 0; i < n; i++)
            if (str_eq(head[i], c->want[w]))
                c->column[w] = (int)i;
        if (c->column[w] < 0 && w < needed) {
            (void)refusef(why, ERR_VALIDATION, "field", "%s", c->path);
            refusal_setf(why, "why", tr("the head has no column %s"), c->want[w]);
            return ERR_VALIDATION;
        }
    }
    return ERR_OK;
}

/* The file is the caller's: it closes it, whatever came of its head. */
static enum err csv_open(struct csv *c, FILE *file, size_t needed, struct refusal *why)
{
    c->file = file;
    if (file)
        return csv_head(c, needed, why);
    (void)refusef(why, ERR_VALIDATION, "field", "%s", c->path);
    refusal_set(why, "why", strerror(errno));
    return ERR_VALIDATION;
}

static void file_close(FILE **f)
{
    if (*f)
        fclose(*f);
}
#define AUTO_FILE CLEANUP(file_close)

/* false at the end. */
static bool csv_next(struct csv *c)
{
    char *field[COLUMNS_MAX];
    size_t n;

    do {
        c->line++;
        if (!fgets(c->text, sizeof(c->text), c->file))
            return false;
    } while (!c->text[strspn(c->text, " \r\n")]);
    n = split(c->text, field, COLUMNS_MAX);
    for (size_t w = 0; w < c->wants; w++)
        c->field[w] = c->column[w] >= 0 && (size_t)c->column[w] < n ? field[c->column[w]]
                                                                    : c->text + strlen(c->text);
    return true;
}

/* Whole numbers, or such as "1024.0". */
static bool amount(const char *s, int64_t max, int64_t *ret_v)
{
    size_t digits = strspn(s, "0123456789");
    char whole[24];

    if (!digits || digits >= sizeof(whole) || (s[digits] && s[digits] != '.'))
        return false;
    if (s[digits] == '.' && s[digits + 1 + strspn(s + digits + 1, "0123456789")])
        return false;
    memcpy(whole, s, digits);
    whole[digits] = '\0';
    return str_parse_i64(whole, 0, max, ret_v) == ERR_OK;
}

static bool model_get(struct trace *t, const char *name, uint8_t *ret_model)
{
    for (size_t i = 0; i < t->models; i++)
        if (str_eq(t->model[i], name)) {
            *ret_model = (uint8_t)i;
            return true;
        }
    if (t->models == POOL_MODELS_MAX || !*name ||
        !str_copy(t->model[t->models], TRACE_NAME_SIZE, name))
        return false;
    *ret_model = (uint8_t)t->models++;
    return true;
}

/* nodes */

struct row {
    struct pool_node node;
    char name[TRACE_NAME_SIZE];
};

static enum err node_parse(struct csv *c, struct trace *t, uint64_t salt, struct row *ret_r,
                           struct refusal *why)
{
    struct row r = {.node = {.plans = 1 << POOL_ON_DEMAND | 1 << POOL_SPOT | 1 << POOL_RESERVED}};
    int64_t cpu, mib, cards;
    uint8_t model = 0;

    if (!*c->field[0] || !str_utf8_ok(c->field[0]) ||
        !str_copy(r.name, sizeof(r.name), c->field[0]))
        return csv_wrong(why, c, tr("sn must be a name of at most 63 bytes"));
    if (!amount(c->field[1], 1000000000, &cpu) || !amount(c->field[2], 1LL << 40, &mib) ||
        !amount(c->field[3], TRACE_CARDS_MAX, &cards))
        return csv_wrong(why, c, tr("cpu_milli, memory_mib and gpu (at most 32) must be numbers"));
    if (cards && !model_get(t, c->field[4], &model))
        return csv_wrong(why, c, tr("model must be a name; at most 64 different ones"));
    r.node.cpu_milli = r.node.cpu_free_milli = (int32_t)cpu;
    r.node.memory_mib = r.node.memory_free_mib = mib;
    r.node.card_count = (int32_t)cards;
    for (int64_t i = 0; i < cards; i++)
        r.node.card[i] = (struct pool_card){.free_milli = POOL_WHOLE, .model = model};
    r.node.key = pool_key(r.name) ^ salt * 0x9e3779b97f4a7c15ULL;
    *ret_r = r;
    return ERR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = pool_key(((const struct row *)a)->name);
    uint64_t y = pool_key(((const struct row *)b)->name);

    return x < y ? -1 : x > y ? 1 : by_name(a, b);
}

/* Equal machines side by side, as fleets are often named. */
static int by_type(const void *va, const void *vb)
{
    const struct row *a = va, *b = vb;

    if (a->node.card_count != b->node.card_count)
        return a->node.card_count > b->node.card_count ? -1 : 1;
    if (a->node.cpu_milli != b->node.cpu_milli)
        return a->node.cpu_milli < b->node.cpu_milli ? -1 : 1;
    return by_name(a, b);
}

static enum err rows_read(struct csv *c, struct trace *t, uint64_t salt, struct row **ret_rows,
                          size_t *ret_count, struct refusal *why)
{
    size_t count = 0, cap = 0;

    while (csv_next(c)) {
        if (count == POOL_NODES_MAX)
            return csv_wrong(why, c, tr("too many nodes"));
        if (count == cap) {
            cap = cap ? cap * 2 : 256;
            *ret_rows = mem_realloc(*ret_rows, cap, sizeof(**ret_rows));
        }
        TRY(node_parse(c, t, salt, &(*ret_rows)[count], why));
        count++;
    }
    *ret_count = count;
    return count ? ERR_OK : csv_wrong(why, c, tr("there is no row"));
}

enum err trace_nodes_load(const char *path, enum trace_order order, uint64_t salt,
                          struct trace *ret_t, struct refusal *why)
{
    static const char *const want[] = {"sn", "cpu_milli", "memory_mib", "gpu", "model"};
    static int (*const orders[])(const void *, const void *) = {by_name, by_hash, by_type};
    AUTO_FREE struct row *rows = NULL;
    struct csv c = {.path = path, .want = want, .wants = ARRAY_LEN(want)};
    AUTO_FILE FILE *file = fopen(path, "re");
    size_t count = 0;
    enum err e = csv_open(&c, file, ARRAY_LEN(want), why);

    pool_init(&ret_t->pool);
    if (e == ERR_OK)
        e = rows_read(&c, ret_t, salt, &rows, &count, why);
    if (e != ERR_OK)
        return e;
    qsort(rows, count, sizeof(*rows), by_name);
    for (size_t i = 1; i < count; i++)
        if (str_eq(rows[i].name, rows[i - 1].name)) {
            (void)refusef(why, ERR_VALIDATION, "field", "%s", path);
            refusal_setf(why, "why", tr("node %s is there twice"), rows[i].name);
            return ERR_VALIDATION;
        }
    qsort(rows, count, sizeof(*rows), orders[order]);
    ret_t->node = mem_alloc(count * sizeof(*ret_t->node));
    for (size_t i = 0; i < count; i++) {
        (void)pool_add(&ret_t->pool, &rows[i].node);
        memcpy(ret_t->node[i], rows[i].name, TRACE_NAME_SIZE);
    }
    return ERR_OK;
}

/* tasks */

static enum err spec_parse(struct csv *c, struct trace *t, char *spec, uint64_t *ret_models,
                           struct refusal *why)
{
    uint64_t models = 0;
    char *next;

    for (char *p = spec; p && *p; p = next) {
        uint8_t model;

        next = strchr(p, '|');
        if (next)
            *next++ = '\0';
        if (*p && !model_get(t, p, &model))
            return csv_wrong(why, c, tr("gpu_spec must be models such as \"A|B\""));
        models |= *p ? 1ULL << model : 0;
    }
    *ret_models = models;
    return ERR_OK;
}

static enum err task_parse(struct csv *c, struct trace *t, struct trace_task *ret_task,
                           struct refusal *why)
{
    struct trace_task task = {.count = 1};
    int64_t cpu, mib, cards, milli = 0;

    if (!*c->field[0] || !str_utf8_ok(c->field[0]) ||
        !str_copy(task.name, sizeof(task.name), c->field[0]))
        return csv_wrong(why, c, tr("name must be there and have at most 63 bytes"));
    if (!amount(c->field[1], 1000000000, &cpu) || !amount(c->field[2], 1LL << 40, &mib) ||
        !amount(c->field[3], TRACE_CARDS_MAX, &cards))
        return csv_wrong(why, c,
                         tr("cpu_milli, memory_mib and num_gpu (at most 32) must be numbers"));
    if (cards && (!amount(c->field[4], 1000000, &milli) || !milli))
        return csv_wrong(why, c, tr("gpu_milli must be a number from 1 to 1000"));
    if (*c->field[6] && !amount(c->field[6], 1000000000, &task.count))
        return csv_wrong(why, c, tr("count must be a number"));
    task.demand = (struct pool_demand){.cards = (int32_t)cards,
                                       .milli = (int32_t)MIN(milli, (int64_t)POOL_WHOLE),
                                       .cpu_milli = (int32_t)cpu,
                                       .memory_mib = mib};
    if (cards)
        TRY(spec_parse(c, t, c->field[5], &task.demand.models, why));
    *ret_task = task;
    return ERR_OK;
}

enum err trace_tasks_load(const char *path, struct trace *t, struct trace_tasks *ret_tasks,
                          struct refusal *why)
{
    static const char *const want[] = {"name",      "cpu_milli", "memory_mib", "num_gpu",
                                       "gpu_milli", "gpu_spec",  "count"};
    struct csv c = {.path = path, .want = want, .wants = ARRAY_LEN(want)};
    AUTO_FILE FILE *file = fopen(path, "re");
    enum err e = csv_open(&c, file, 5, why);
    size_t cap = 0;

    *ret_tasks = (struct trace_tasks){0};
    while (e == ERR_OK && csv_next(&c)) {
        if (ret_tasks->count == TRACE_ROWS_MAX) {
            e = csv_wrong(why, &c, tr("too many rows"));
            break;
        }
        if (ret_tasks->count == cap) {
            cap = cap ? cap * 2 : 1024;
            ret_tasks->at = mem_realloc(ret_tasks->at, cap, sizeof(*ret_tasks->at));
        }
        e = task_parse(&c, t, &ret_tasks->at[ret_tasks->count], why);
        ret_tasks->count += e == ERR_OK;
    }
    if (e == ERR_OK && !ret_tasks->count)
        e = csv_wrong(why, &c, tr("there is no row"));
    if (e != ERR_OK)
        trace_tasks_fini(ret_tasks);
    return e;
}

void trace_mix(const struct trace_tasks *tasks, struct place_mix *ret_mix)
{
    *ret_mix = (struct place_mix){0};
    for (size_t i = 0; i < tasks->count; i++)
        place_mix_add(ret_mix, &tasks->at[i].demand, (double)tasks->at[i].count);
}

void trace_fini(struct trace *t)
{
    pool_fini(&t->pool);
    free(t->node);
    t->node = NULL;
}

void trace_tasks_fini(struct trace_tasks *t)
{
    free(t->at);
    *t = (struct trace_tasks){0};
}
