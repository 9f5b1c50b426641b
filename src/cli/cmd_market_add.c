/* cmd_market_add.c: one more dated price into a book. Rows are never changed: what was noted stays
 * as history, and the same price twice is refused. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/market.h"

/* Texts go between quotes, on one line. */
static bool plain(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7F || *s == '"' || *s == '\\')
            return false;
    return true;
}

static int row_take(struct cli *c, struct call *call, struct market_row *r)
{
    const struct {
        const char *flag;
        char *to;
        size_t size;
    } field[] = {{"provider", r->provider, sizeof(r->provider)},
                 {"card", r->card, sizeof(r->card)},
                 {"low", r->low, sizeof(r->low)},
                 {"high", r->high, sizeof(r->high)},
                 {"currency", r->currency, sizeof(r->currency)},
                 {"date", r->date, sizeof(r->date)},
                 {"source", r->source, sizeof(r->source)}};
    time_t now = time(NULL);
    struct tm tm;

    for (size_t i = 0; i < ARRAY_LEN(field); i++) {
        const char *s = arg_str(call, field[i].flag);
        if (s && (!plain(s) || !str_copy(field[i].to, field[i].size, s)))
            return fail_usage(c, tr("--%s: a short text without quotes"), field[i].flag);
    }
    if (!*r->high)
        (void)str_copy(r->high, sizeof(r->high), r->low);
    if (!*r->date) {
        gmtime_r(&now, &tm);
        (void)str_printf(r->date, sizeof(r->date), "%04d-%02d-%02d", tm.tm_year + 1900,
                         tm.tm_mon + 1, tm.tm_mday);
    }
    const char *wrong = market_row_wrong(r);
    return wrong ? fail_usage(c, "%s", wrong) : 0;
}

static bool is_noted(const struct market *m, const struct market_row *r)
{
    for (size_t i = 0; i < m->count; i++)
        if (str_eq(m->row[i].provider, r->provider) && str_eq(m->row[i].card, r->card) &&
            str_eq(m->row[i].currency, r->currency) && str_eq(m->row[i].date, r->date))
            return true;
    return false;
}

static void row_write(const struct market_row *r, size_t n, struct strbuf *b)
{
    strbuf_addf(b,
                "%s[row-%zu]\nprovider = \"%s\"\ncard = \"%s\"\nlow = \"%s\"\nhigh = \"%s\"\n"
                "currency = \"%s\"\ndate = \"%s\"\nsource = \"%s\"\n",
                b->len ? "\n" : "", n, r->provider, r->card, r->low, r->high, r->currency, r->date,
                r->source);
}

static void path_print(const char *path)
{
    AUTO_STRBUF struct strbuf b = {0};
    struct json_writer w;

    strbuf_init(&b, 64 * 1024);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_str(&w, "file", path);
    json_object_finish(&w);
    puts(strbuf_str(&b));
}

int cmd_market_add(struct cli *c, struct call *call)
{
    AUTO_FREE char *own = market_own(c);
    AUTO_FREE char *old = NULL;
    AUTO_FREE struct market_row *rows = mem_alloc(MARKET_ROWS_MAX * sizeof(*rows));
    AUTO_STRBUF struct strbuf b = {0};
    const char *path = arg_str(call, "file") ? arg_str(call, "file") : own;
    struct market m = {.row = rows};
    struct market_row r = {0};
    struct refusal why;
    int e = row_take(c, call, &r);

    if (e)
        return e;
    strbuf_init(&b, MARKET_MAX);
    if (access(path, F_OK) == 0) {
        if (market_read(path, &m, &why) != ERR_OK ||
            file_read(path, MARKET_MAX, &old, &why) != ERR_OK)
            return fail(c, &why);
        strbuf_add(&b, old);
    }
    if (is_noted(&m, &r))
        return fail_usage(c, tr("%s has a price of %s on %s already; rows are never changed"), path,
                          r.card, r.date);
    row_write(&r, m.count + 1, &b);
    if (b.overflow || m.count == MARKET_ROWS_MAX)
        return fail_usage(c, tr("%s is full; name another with --file"), path);
    if (file_write(path, strbuf_str(&b), 0644, &why) != ERR_OK)
        return fail(c, &why);
    if (c->json)
        path_print(path);
    else
        say(c, tr("Noted in %s: %s, %s, %s-%s %s, %s."), path, r.provider, r.card, r.low, r.high,
            r.currency, r.date);
    return 0;
}
