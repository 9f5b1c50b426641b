/* cmd_tco_usage.c: suanli tco --from-usage. The bill says card-hours and what they cost, the raw
 * usage says how many cards ran at the same time and how much of it they were idle. */
#include <stdlib.h>
#include <time.h>

#include "base/units.h"
#include "cli/tco_ask.h"

#define MONTHS_MAX 24
#define EDGES_MAX 400000
#define IDLE_BELOW_PCT 5

struct edge {
    int64_t at_s, cards; /* cards more (or fewer) from here on */
};
struct reader {
    struct cli *c;
    struct edge *edge; /* owned */
    size_t count, cap;
    char next[96];
    int64_t busy_cs, all_cs; /* card-seconds */
    bool full;
};

static void edge_add(struct reader *r, int64_t at_s, int64_t cards)
{
    if (r->count == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 256;
        r->edge = mem_realloc(r->edge, r->cap, sizeof(*r->edge));
    }
    r->edge[r->count++] = (struct edge){at_s, cards};
}

static bool on_slice(void *user, const json_t *o, const char *raw UNUSED)
{
    struct reader *r = user;
    int64_t from = field_i64(o, "billed_from_s"), to = field_i64(o, "billed_to_s");
    int64_t cards = field_i64(o, "gpu_count");

    if (*field_str(o, "next"))
        return str_copy(r->next, sizeof(r->next), field_str(o, "next"));
    if (!str_eq(field_str(o, "meter"), "gpu") || from <= 0 || to <= from ||
        to - from > 40 * INT64_C(86400) || cards <= 0 || cards > 1000000)
        return true;
    if (r->count + 2 > EDGES_MAX) {
        r->full = true;
        return false;
    }
    edge_add(r, from, cards);
    edge_add(r, to, -cards);
    r->all_cs += (to - from) * cards;
    r->busy_cs += field_i64(o, "gpu_util_pct") >= IDLE_BELOW_PCT ? (to - from) * cards : 0;
    return !interrupted();
}

static int read_usage(struct reader *r, const char *month)
{
    int e = 0;

    do {
        AUTO_STRBUF struct strbuf path = {0};
        AUTO_ANSWER struct answer a = {0};
        answer_init(&a);
        strbuf_init(&path, 512);
        strbuf_addf(&path, "/v1/usage?month=%s", month);
        if (*r->next) {
            strbuf_add(&path, "&after=");
            url_escape(&path, r->next);
        }
        r->next[0] = '\0';
        if (!api_stream(r->c, strbuf_str(&path), false, on_slice, r, &a) && !r->full)
            e = a.exit;
    } while (!e && *r->next && !r->full && !interrupted());
    if (!e && r->full)
        return fail_usage(r->c, "%s",
                          tr("--months: too much usage to read at once; ask for fewer"));
    return interrupted() ? 130 : e;
}

static int read_bill(struct cli *c, const char *month, struct tco_usage *u)
{
    AUTO_STRBUF struct strbuf path = {0};
    AUTO_ANSWER struct answer a = {0};
    size_t i;
    json_t *o;

    answer_init(&a);
    strbuf_init(&path, 128);
    strbuf_addf(&path, "/v1/bill?month=%s", month);
    if (!api_get(c, strbuf_str(&path), &a))
        return a.exit;
    json_array_foreach(json_object_get(a.json, "lines"), i, o)
    {
        const json_t *amount = json_object_get(o, "amount");
        struct currency ccy;
        struct money m;
        int64_t seconds;
        if (!str_eq(field_str(o, "meter"), "gpu"))
            continue;
        bool ok = currency_get(field_str(amount, "currency"), &ccy) == ERR_OK &&
                  money_parse(field_str(amount, "amount"), ccy, &m) == ERR_OK &&
                  str_parse_i64(field_str(o, "quantity"), 0, INT64_MAX, &seconds) == ERR_OK;
        if (ok && u->hours <= 0 && u->amount.u == 0)
            u->amount = money_of(0, ccy);
        if (!ok || money_add(u->amount, m, &u->amount) != ERR_OK) {
            struct refusal why;
            (void)refusef(&why, ERR_PROTOCOL, "why", "%s", strbuf_str(&path));
            return fail(c, &why);
        }
        u->hours += (double)seconds / 3600;
    }
    return 0;
}

static int edge_order(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;

    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    return x->cards < y->cards ? -1 : x->cards > y->cards; /* ends before begins */
}

static void use_of(const struct reader *r, int64_t now_s, struct tco_usage *u)
{
    int64_t cards = 0;

    if (r->count == 0)
        return;
    qsort(r->edge, r->count, sizeof(*r->edge), edge_order);
    for (size_t i = 0; i < r->count; i++) {
        cards += r->edge[i].cards;
        u->cards = MAX(u->cards, cards);
    }
    int64_t end = MAX(now_s, r->edge[r->count - 1].at_s);
    u->window_h = (double)(end - r->edge[0].at_s) / 3600;
    u->idle = r->all_cs > 0 ? 1 - (double)r->busy_cs / (double)r->all_cs : 0;
}

int tco_usage_load(struct cli *c, int64_t months, struct tco_ask *a)
{
    struct tco_usage *u = &a->usage;
    struct reader r = {.c = c};
    time_t now = time(NULL);
    struct tm tm;
    int e = 0;

    if (months < 1 || months > MONTHS_MAX)
        return fail_usage(c, "%s", tr("--months must lie between 1 and 24"));
    gmtime_r(&now, &tm);
    interrupt_watch();
    for (int64_t i = 0; i < months && !e; i++) {
        int64_t month = (tm.tm_year + 1900) * 12 + tm.tm_mon - i;
        char text[16];
        str_printf(text, sizeof(text), "%04" PRId64 "-%02" PRId64, month / 12, month % 12 + 1);
        e = read_bill(c, text, u);
        e = e ? e : read_usage(&r, text);
    }
    if (!e)
        use_of(&r, (int64_t)now, u);
    free(r.edge);
    if (e)
        return e;
    if (u->hours <= 0 || u->cards == 0 || u->window_h <= 0)
        return fail_usage(c,
                          tr("--from-usage: no card-hours in the last %d months; give --price "
                             "and --utilisation"),
                          (int)months);
    u->given = true;
    u->months = months;
    a->in.cards = u->cards;
    a->in.price = tco_from_micro(u->amount.u) / u->hours;
    a->in.util = MIN(u->hours / ((double)u->cards * u->window_h), 1.0);
    return 0;
}
