/* cmd_focus.c: usage as FOCUS 1.2 CSV with its metadata file. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/units.h"
#include "cli/cli.h"

static const char *const columns[] = {
#define FOCUS(name) #name,
#include "app/focus.def"
#undef FOCUS
};

static void header(FILE *to)
{
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        fprintf(to, "%s%s", i ? "," : "", columns[i]);
    fputc('\n', to);
}

/* Quoted where it must be; nothing for null. */
static void cell(FILE *to, const char *s)
{
    if (s[strcspn(s, ",\"\r\n")] == '\0') {
        fputs(s, to);
        return;
    }
    fputc('"', to);
    for (; *s; s++)
        fprintf(to, *s == '"' ? "\"%c" : "%c", *s);
    fputc('"', to);
}

static bool on_row(void *user, const json_t *item, const char *raw UNUSED)
{
    FILE *to = user;

    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        if (i)
            fputc(',', to);
        cell(to, field_str(item, columns[i]));
    }
    fputc('\n', to);
    return !ferror(to) && !interrupted();
}

struct rows {
    bool some;
};
static bool on_json(void *user, const json_t *item UNUSED, const char *raw)
{
    struct rows *r = user;

    printf("%s%s", r->some ? "," : "", raw);
    r->some = true;
    return !interrupted();
}

static bool metadata(const char *name)
{
    AUTO_STRBUF struct strbuf path = {0};
    char now[40];
    FILE *to;

    strbuf_init(&path, 4096);
    strbuf_addf(&path, "%s.meta.json", name);
    to = fopen(strbuf_str(&path), "w");
    if (!to)
        return false;
    time_format((utime_t)time(NULL) * MS_PER_S, now, sizeof(now));
    fprintf(to,
            "{\"FocusVersion\":\"1.2\",\"DataGenerator\":\"suanli " CLI_VERSION "\","
            "\"CreationDate\":\"%s\",\"NumericPrecision\":6,\"Columns\":%zu}\n",
            now, ARRAY_LEN(columns));
    return fclose(to) == 0;
}

static int fail_write(struct cli *c, const char *name)
{
    struct refusal why = {0};

    (void)refusef(&why, ERR_SYSTEM, "call", "write %s", name);
    refusal_set(&why, "why", strerror(errno));
    return fail(c, &why);
}

int usage_focus(struct cli *c, struct call *call)
{
    const char *name = arg_str(call, "output"), *month = arg_str(call, "month");
    AUTO_ANSWER struct answer a = {0};
    AUTO_STRBUF struct strbuf path = {0};
    FILE *to = name ? fopen(name, "w") : stdout;

    if (!to)
        return fail_write(c, name);
    answer_init(&a);
    strbuf_init(&path, 4096);
    strbuf_add(&path, "/v1/usage/focus");
    if (month) {
        strbuf_add(&path, "?month=");
        url_escape(&path, month);
    }
    interrupt_watch();
    if (c->json && !name) {
        struct rows r = {0};

        fputs("{\"items\":[", stdout);
        bool all = api_stream(c, strbuf_str(&path), false, on_json, &r, &a);
        puts("],\"next_cursor\":null}");
        return all ? 0 : a.exit;
    }
    header(to);
    bool ok = api_stream(c, strbuf_str(&path), false, on_row, to, &a);
    bool written = !ferror(to) && (name ? fclose(to) == 0 : fflush(to) == 0);
    if (interrupted())
        return 130;
    if (!ok)
        return a.exit;
    return written && (!name || metadata(name)) ? 0 : fail_write(c, name ? name : "stdout");
}
