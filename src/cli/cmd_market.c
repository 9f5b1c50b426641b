/* cmd_market.c: what other platforms ask, from a dated file. Never mixed with our own offers. */
#include <stdlib.h>
#include <unistd.h>

#include "cli/market.h"
#include "cli/table.h"
#include "domain/money.h"

/* The file lies beside us: in the build tree or where it was installed. */
static char *market_path(void)
{
    static const char *const places[] = {".", "../share/suanli"};
    char exe[512], path[640], *slash;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (n <= 0)
        return NULL;
    exe[n] = '\0';
    slash = strrchr(exe, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; slash && i < ARRAY_LEN(places); i++)
        if (str_printf(path, sizeof(path), "%s/%s/market.toml", exe, places[i]) &&
            access(path, R_OK) == 0)
            return mem_strdup(path);
    return NULL;
}

static enum err broken(struct refusal *why, const char *path, size_t line, const char *text)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%s:%zu", path, line);

    refusal_set(why, "why", text);
    return e;
}

static enum err row_set(struct market_row *r, const struct toml_line *l, const char **ret_text)
{
    struct {
        const char *key;
        char *to;
        size_t size;
    } field[] = {{"provider", r->provider, sizeof(r->provider)},
                 {"card", r->card, sizeof(r->card)},
                 {"low", r->low, sizeof(r->low)},
                 {"high", r->high, sizeof(r->high)},
                 {"currency", r->currency, sizeof(r->currency)},
                 {"date", r->date, sizeof(r->date)},
                 {"source", r->source, sizeof(r->source)}};

    for (size_t i = 0; i < ARRAY_LEN(field); i++) {
        if (!str_eq(l->key, field[i].key))
            continue;
        if (str_utf8_ok(l->value) && str_copy(field[i].to, field[i].size, l->value))
            return ERR_OK;
        *ret_text = tr("this value is too long or not UTF-8");
        return ERR_VALIDATION;
    }
    *ret_text = tr("known keys: provider, card, low, high, currency, date, source");
    return ERR_VALIDATION;
}

/* Is what is there whole: a price range in a currency, and a day? NULL when it is. */
const char *market_row_wrong(const struct market_row *r)
{
    struct currency ccy;
    struct money low, high;

    if (!*r->provider || !*r->card || !*r->source)
        return tr("a row needs provider, card and source");
    if (currency_get(r->currency, &ccy) != ERR_OK)
        return tr("currency must be a code such as CNY");
    if (money_parse(r->low, ccy, &low) != ERR_OK || money_parse(r->high, ccy, &high) != ERR_OK ||
        low.u < 0 || high.u < low.u)
        return tr("low and high must be amounts such as \"3.5\", low not above high");
    if (strlen(r->date) != 10 || r->date[4] != '-' || r->date[7] != '-' ||
        strspn(r->date, "0123456789-") != 10)
        return tr("date must be a day such as 2026-11-30");
    return NULL;
}

static enum err market_parse(const char *path, char *text, struct market *m, struct refusal *why)
{
    size_t at = 0, begun = 0, first = m->count;
    const char *wrong;
    char *next;

    for (char *line = text; line; line = next) {
        struct toml_line l;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        at++;
        if (toml_line_parse(line, &l, why) != ERR_OK)
            return broken(why, path, at, tr("expected [name] or key = \"text\""));
        if (l.kind == TOML_EMPTY)
            continue;
        if (l.kind == TOML_KEY) {
            if (m->count == first)
                return broken(why, path, at, tr("a row begins with [name]"));
            if (row_set(&m->row[m->count - 1], &l, &wrong) != ERR_OK)
                return broken(why, path, at, wrong);
            continue;
        }
        if (m->count > first && (wrong = market_row_wrong(&m->row[m->count - 1])))
            return broken(why, path, begun, wrong);
        if (m->count == MARKET_ROWS_MAX)
            return broken(why, path, at, tr("more than 1000 rows"));
        begun = at;
        m->row[m->count++] = (struct market_row){0};
    }
    if (m->count > first && (wrong = market_row_wrong(&m->row[m->count - 1])))
        return broken(why, path, begun, wrong);
    return ERR_OK;
}

enum err market_read(const char *path, struct market *m, struct refusal *why)
{
    AUTO_FREE char *text = NULL;

    TRY(file_read(path, MARKET_MAX, &text, why));
    return market_parse(path, text, m, why);
}

char *market_own(struct cli *c)
{
    return path_join(c->cfg.folder, "market.toml");
}

/* The installed book, then the operator's and the user's own where there are any. */
static enum err books_read(struct cli *c, const char *installed, struct market *m,
                           struct refusal *why)
{
    AUTO_FREE char *own = market_own(c);
    const char *const more[] = {MARKET_SYSTEM, own};

    TRY(market_read(installed, m, why));
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        enum err e = access(more[i], F_OK) == 0 ? market_read(more[i], m, why) : ERR_OK;
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

static bool is_newest(const struct market *m, size_t i)
{
    const struct market_row *r = &m->row[i];

    for (size_t k = 0; k < m->count; k++) {
        int newer = strcmp(m->row[k].date, r->date);
        if (str_eq(m->row[k].provider, r->provider) && str_eq(m->row[k].card, r->card) &&
            str_eq(m->row[k].currency, r->currency) && (newer > 0 || (newer == 0 && k > i)))
            return false;
    }
    return true;
}

static void print_json(const struct market *m, const bool *shown)
{
    AUTO_STRBUF struct strbuf b = {0};
    struct json_writer w;

    strbuf_init(&b, 4 << 20);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_array_begin(&w, "items");
    for (size_t i = 0; i < m->count; i++) {
        const struct market_row *r = &m->row[i];
        if (!shown[i])
            continue;
        json_object_begin(&w, NULL);
        json_str(&w, "provider", r->provider);
        json_str(&w, "card", r->card);
        json_str(&w, "unit", "card-hour");
        json_object_begin(&w, "low");
        json_str(&w, "amount", r->low);
        json_str(&w, "currency", r->currency);
        json_object_finish(&w);
        json_object_begin(&w, "high");
        json_str(&w, "amount", r->high);
        json_str(&w, "currency", r->currency);
        json_object_finish(&w);
        json_str(&w, "date", r->date);
        json_str(&w, "source", r->source);
        json_object_finish(&w);
    }
    json_array_finish(&w);
    json_none(&w, "next_cursor");
    json_object_finish(&w);
    puts(strbuf_str(&b));
}

static void print_table(struct cli *c, const struct market *m, const bool *shown)
{
    static const char *const head[] = {N_("PROVIDER"), N_("CARD"),   N_("PER CARD-HOUR"),
                                       N_("DATE"),     N_("SOURCE"), NULL};
    struct table t;

    table_init(&t, head, "<<><<");
    for (size_t i = 0; i < m->count; i++) {
        const struct market_row *r = &m->row[i];
        if (!shown[i])
            continue;
        table_add(&t, r->provider);
        table_add(&t, r->card);
        table_addf(&t, "%s-%s %s", r->low, r->high, r->currency);
        table_add(&t, r->date);
        table_add(&t, r->source);
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
    say(c, "%s", tr("Prices of others on those days, for comparison; ours: suanli offers"));
    say(c, "%s",
        tr("Rule of thumb: peers ask a third to a half of a cloud's price; spot is 50-70 % off."));
}

int cmd_market(struct cli *c, struct call *call)
{
    AUTO_FREE char *own = market_path();
    AUTO_FREE struct market_row *rows = mem_alloc(MARKET_ROWS_MAX * sizeof(*rows));
    AUTO_FREE bool *shown = mem_alloc(MARKET_ROWS_MAX * sizeof(*shown));
    const char *path = arg_str(call, "file") ? arg_str(call, "file") : own;
    const char *card = arg_str(call, "card");
    struct market m = {.row = rows};
    struct refusal why;
    size_t found = 0;

    if (!path)
        return fail_usage(c, "%s", tr("market.toml is not installed; name it with --file FILE"));
    enum err e =
        arg_str(call, "file") ? market_read(path, &m, &why) : books_read(c, path, &m, &why);
    if (e == ERR_NOT_FOUND)
        return fail_usage(c, tr("--file: there is no file %s"), path);
    if (e != ERR_OK)
        return fail(c, &why);
    for (size_t i = 0; i < m.count; i++) {
        shown[i] = (!card || strcasestr(m.row[i].card, card)) &&
                   (arg_bool(call, "history") || is_newest(&m, i));
        found += shown[i];
    }
    if (found == 0 && card)
        return fail_usage(c, tr("no price of a card %s is in %s"), card, path);
    if (c->json)
        print_json(&m, shown);
    else
        print_table(c, &m, shown);
    return 0;
}
