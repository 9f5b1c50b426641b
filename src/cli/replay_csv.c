/* replay_csv.c: histories as files. Every refusal names file and line. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cli/replay.h"

enum err csv_wrong(const struct csv *f, const char *what, struct refusal *ret_why)
{
    enum err e = refusef(ret_why, ERR_VALIDATION, "field", "%s:%zu", f->path, f->line);

    refusal_set(ret_why, "why", what);
    return e;
}

static void split(struct csv *f)
{
    char *next;

    f->fields = 0;
    for (char *at = f->text; at; at = next) {
        next = strchr(at, ',');
        if (next)
            *next++ = '\0';
        if (f->fields < REPLAY_COLUMNS_MAX)
            f->field[f->fields++] = at;
    }
}

bool csv_next(struct csv *f)
{
    ssize_t n;

    while ((n = getline(&f->text, &f->size, f->file)) >= 0) {
        f->line++;
        while (n > 0 && (f->text[n - 1] == '\n' || f->text[n - 1] == '\r'))
            f->text[--n] = '\0';
        if (n == 0)
            continue;
        split(f);
        return true;
    }
    return false;
}

enum err csv_open(struct csv *f, const char *path, const char *const *wanted, size_t required,
                  struct refusal *ret_why)
{
    *f = (struct csv){.path = path, .file = fopen(path, "rbe")};
    if (!f->file) {
        enum err e = refusef(ret_why, ERR_VALIDATION, "field", "%s", path);
        refusal_set(ret_why, "why", strerror(errno));
        return e;
    }
    if (!csv_next(f))
        return csv_wrong(f, tr("the file is empty"), ret_why);
    for (size_t i = 0; wanted[i]; i++) {
        CHECK(i < REPLAY_COLUMNS_MAX);
        f->column[i] = -1;
        for (size_t k = 0; k < f->fields; k++)
            if (str_eq(f->field[k], wanted[i]))
                f->column[i] = (int)k;
        char lacking[128];
        if (f->column[i] >= 0 || i >= required)
            continue;
        str_printf(lacking, sizeof(lacking), tr("the head line lacks the column %s"), wanted[i]);
        return csv_wrong(f, lacking, ret_why);
    }
    return ERR_OK;
}

const char *csv_str(const struct csv *f, size_t column)
{
    int at = f->column[column];

    return at >= 0 && (size_t)at < f->fields ? f->field[at] : "";
}

enum err csv_i64(const struct csv *f, size_t column, int64_t min, int64_t max, int64_t *ret_v,
                 struct refusal *ret_why)
{
    const char *s = csv_str(f, column);
    size_t whole = strcspn(s, ".");
    char text[32];

    /* "66.0": fractions of a second are cut */
    if (whole == 0 || whole >= sizeof(text) ||
        strspn(s + whole, ".0123456789") != strlen(s + whole))
        return csv_wrong(f, tr("a number is missing or wrong"), ret_why);
    memcpy(text, s, whole);
    text[whole] = '\0';
    if (str_parse_i64(text, min, max, ret_v) != ERR_OK)
        return csv_wrong(f, tr("a number is missing or wrong"), ret_why);
    return ERR_OK;
}

void csv_close(struct csv *f)
{
    if (f->file)
        fclose(f->file);
    free(f->text);
    *f = (struct csv){0};
}

bool replay_load(const char *text, double *ret_share)
{
    char *end;
    double v;

    *ret_share = 0;
    if (str_eq(text, "recorded"))
        return true;
    if (strspn(text, "0123456789.") == 0)
        return false;
    v = strtod(text, &end);
    if (*end == '%') {
        v /= 100;
        end++;
    }
    if (*end != '\0' || !(v >= 0.01 && v <= 100))
        return false;
    *ret_share = v;
    return true;
}

double replay_cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}
