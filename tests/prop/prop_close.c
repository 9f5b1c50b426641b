/* Laws of closed months over live rows: P7, P12 and P14 of money.md 4 with I20–I23, I27. Usage
 * comes in time, late and very late; vouchers, gifts, cash and arrears pay it; months close, crash
 * while closing, and are invoiced. One store in memory serves all cases; a case is a transaction
 * that is rolled back. */
#include <stdio.h>

#include "../support/books.h"
#include "app/fund_source.h"
#include "app/invoice.h"
#include "app/op.h"
#include "store/sql.h"
#include "tape.h"

#define STEPS_MAX 40
#define SEEN_MAX 64

static struct store *base;

/* What a statement was when it was first seen: lines weighted by their place, totals, tax. */
struct seen {
    char id[CLOSE_ID_SIZE];
    int64_t sums[4];
};
struct world {
    utime_t now;
    int64_t used, names;
    struct seen seen[SEEN_MAX];
    size_t seen_count;
};

static bool fold_statement(struct tape *t, const char *id, int64_t ret_sums[4])
{
    struct sql q = sql_open(base,
                            "SELECT sum(l.n*l.amount_u), sum(l.n*(l.printed_minor+7)), "
                            "s.payable_minor*3+s.tax_minor+s.residue_u, "
                            "(SELECT sum(n*3*gross_minor+tax_minor) FROM statement_tax "
                            "WHERE statement=s.id) FROM statement s JOIN statement_line l ON "
                            "l.statement=s.id WHERE s.id=?",
                            "t", id);

    TAPE_MUST(t, sql_next(&q));
    for (int i = 0; i < 4; i++)
        ret_sums[i] = sql_i64(&q, i);
    TAPE_MUST(t, sql_close(&q) == ERR_OK);
    return true;
}

/* I23: what was closed before is what it was. New statements are remembered. */
static bool frozen(struct tape *t, struct world *w)
{
    struct statement_list all = {0};
    bool held = statement_list(base, id_of("prj_one"), &all) == ERR_OK && all.len < SEEN_MAX;

    for (size_t i = 0; i < all.len && held; i++) {
        struct seen now = {0};
        size_t k = 0;

        memcpy(now.id, all.at[i].id, sizeof(now.id));
        held = fold_statement(t, now.id, now.sums);
        while (k < w->seen_count && !str_eq(w->seen[k].id, now.id))
            k++;
        if (k == w->seen_count)
            w->seen[w->seen_count++] = now;
        else if (memcmp(&w->seen[k], &now, sizeof(now)) != 0)
            held = tape_fail(t, "%s changed", now.id);
    }
    vec_fini(&all);
    return held;
}

static bool laws(struct tape *t, struct world *w)
{
    struct funds_check c;
    struct refusal why = {0};

    TAPE_MUST(t, funds_check_run(base, w->now, &c, &why) == ERR_OK);
    for (size_t i = 0; i < c.n; i++)
        if (!c.rows[i].pass && !str_starts(c.rows[i].text, "not proven"))
            return tape_fail(t, "%s: %s", c.rows[i].id, c.rows[i].text);
    return frozen(t, w);
}

static bool open_books(struct tape *t, const struct world *w, struct books *ret_b)
{
    struct refusal why = {0};

    TAPE_MUST(t, books_open(base, w->now, id_of("prj_one"), ret_b, &why) == ERR_OK);
    return true;
}

/* Seconds that nobody used yet, of a month that has begun. */
static bool use(struct tape *t, struct world *w)
{
    static const char *const skus[] = {"gpu.RTX 4090", "cpu.seat"};
    struct rating r = {.started_s = T0_S, .qty_per_s = tape_range(t, 1, 8)};
    int64_t months = (w->now / MS_PER_S - T0_S) / (31 * DAY_S);
    int64_t from = T0_S + tape_range(t, 0, months) * 31 * DAY_S + ++w->used * 200;
    size_t kind = (size_t)tape_below(t, 2);
    struct refusal why = {0};
    struct books b;

    if ((from + 200) * MS_PER_S > w->now)
        return true;
    r.meter = kind ? METER_CPU : METER_GPU;
    CHECK(str_copy(r.sku, sizeof(r.sku), skus[kind]));
    CHECK(str_printf(r.subject.s, ID_SIZE, "ins_%d", (int)tape_range(t, 0, 3)));
    r.instance = r.subject;
    if (!open_books(t, w, &b))
        return false;
    enum err e = rating_add(&b, &r, from, from + tape_range(t, 1, 200), &why);
    TAPE_MUST(t, e == ERR_OK);
    return true;
}

static bool pay(struct tape *t, struct world *w)
{
    struct refusal why = {0};
    struct books b;
    char id[ID_SIZE];

    if (!open_books(t, w, &b))
        return false;
    CHECK(str_printf(id, sizeof(id), "tra_%d", (int)++w->names));
    switch (tape_below(t, 4)) {
    case 0:
        TAPE_MUST(t, funds_post_free(&b, &why) == ERR_OK);
        break;
    case 1:
        TAPE_MUST(t, funds_topup(base, w->now, b.project, id_of(id), tape_range(t, 1, 900000), "",
                                 &why) == ERR_OK);
        break;
    case 2:
        TAPE_MUST(t, fund_gift(&b, id_of(id), tape_range(t, 1, 90000), &why) == ERR_OK);
        break;
    default: {
        struct grant_row g = {.id = id_of(id),
                              .project = b.project,
                              .amount_u = tape_range(t, 1, 90000),
                              .expires_s = b.now_s + tape_range(t, 1, 90) * DAY_S,
                              .at = w->now};
        enum err e = fund_grant(&b, &g, &why);
        TAPE_MUST(t, e == ERR_OK || e == ERR_TOO_LARGE);
    }
    }
    return true;
}

static bool buy(struct tape *t, struct world *w)
{
    char id[ID_SIZE], account[LEDGER_KEY_SIZE];
    struct fund_purchase p = {.account = account,
                              .meter = METER_GPU,
                              .sku = "gpu.RTX 4090",
                              .amount_u = tape_range(t, 1, 200000)};
    struct refusal why = {0};
    struct fund_split split;
    struct fund_back back;
    struct books b;

    if (!open_books(t, w, &b))
        return false;
    CHECK(str_printf(id, sizeof(id), "rsv_%d", (int)++w->names));
    account_id(account, "deferred", id);
    p.id = id_of(id);
    enum err e = fund_pay(&b, &p, &split, &why);
    TAPE_MUST(t, e == ERR_OK || e == ERR_BALANCE);
    if (e == ERR_OK && tape_chance(t, 30))
        TAPE_MUST(t, fund_refund(&b, p.id, tape_range(t, 0, p.amount_u), &back, &why) == ERR_OK);
    return true;
}

static enum err close_once(const struct world *w, struct close_result *ret_r)
{
    struct refusal why = {0};

    return close_next(base, w->now, id_of("prj_one"), ret_r, &why);
}

/* A crash inside leaves the old state, doing it again gives the same. */
static bool shut(struct tape *t, struct world *w)
{
    struct close_result first, again;

    TAPE_MUST(t, store_mark(base) == ERR_OK);
    TAPE_MUST(t, close_once(w, &first) == ERR_OK);
    TAPE_MUST(t, store_mark_undo(base) == ERR_OK);
    if (!laws(t, w))
        return false;
    TAPE_MUST(t, close_once(w, &again) == ERR_OK);
    TAPE_MUST(t, first.what == again.what && first.month.from_s == again.month.from_s);
    if (first.what != CLOSE_DONE)
        return true;
    TAPE_MUST(t, str_eq(first.statement.number, again.statement.number) &&
                     first.statement.payable_minor == again.statement.payable_minor &&
                     first.statement.line_count == again.statement.line_count);
    TAPE_MUST(t, first.statement.total_u == first.statement.lines_minor * first.statement.minor_u +
                                                first.statement.residue_u);
    return true;
}

static bool invoice(struct tape *t, struct world *w)
{
    static const char *const reasons[] = {"return", "mistake", "allowance", "refunded"};
    struct invoice_row r, same, back;
    struct refusal why = {0};
    struct period month;
    struct books b;
    int64_t rest;

    if (!open_books(t, w, &b))
        return false;
    period_month(&b.zone, 2026, (int)tape_range(t, 3, 8), &month);
    enum err e = invoice_issue(base, w->now, b.project, &month, &r, &why);
    TAPE_MUST(t, e == ERR_OK || e == ERR_MONTH_OPEN || e == ERR_INVOICE_EMPTY ||
                     e == ERR_INVOICE_UNPAID);
    if (e != ERR_OK)
        return true;
    TAPE_MUST(t, invoice_issue(base, w->now, b.project, &month, &same, &why) == ERR_OK);
    TAPE_MUST(t, str_eq(r.number, same.number));
    TAPE_MUST(t, invoice_rest(base, &r, &rest) == ERR_OK && rest >= 0);
    if (rest == 0 || tape_chance(t, 60))
        return true;
    int64_t amount = tape_range(t, 1, rest);
    e = invoice_take_back(base, w->now, r.number, reasons[tape_below(t, ARRAY_LEN(reasons))],
                          amount, &back, &why);
    TAPE_MUST(t, e == ERR_OK || (e == ERR_VALIDATION && amount != r.payable_minor));
    TAPE_MUST(t, e != ERR_OK || back.payable_minor == -amount);
    return true;
}

static bool step(struct tape *t, struct world *w)
{
    switch (tape_below(t, 10)) {
    case 0:
    case 1:
    case 2:
        return use(t, w);
    case 3:
    case 4:
        return pay(t, w);
    case 5:
        w->now += tape_range(t, 1, 20) * DAY_S * MS_PER_S;
        return true;
    case 6:
        return buy(t, w);
    case 7:
        return invoice(t, w);
    default:
        return shut(t, w);
    }
}

static void rules(struct tape *t)
{
    static const struct {
        const char *country, *prefix;
        int64_t n;
        bool inclusive;
    } sets[3][2] = {
        {{"CN", "", 6, true}, {"CN", "gpu.", 13, true}},
        {{"DE", "", 19, false}, {"DE", "cpu", 7, false}},
        {{"", "", 0, true}, {"", "", 0, true}},
    };
    size_t set = (size_t)tape_below(t, 3);
    struct party_row seller = {.name = "seller", .business = true};
    struct party_row buyer = {.project = "prj_one", .name = "buyer"};

    CHECK(str_copy(seller.country, sizeof(seller.country), sets[set][0].country));
    ok(party_save(base, &seller));
    ok(party_save(base, &buyer));
    for (size_t i = 0; i < 2 && set < 2; i++) {
        struct tax_rule_row r = {.class = "standard",
                                 .n = sets[set][i].n,
                                 .d = 100,
                                 .inclusive = sets[set][i].inclusive};

        CHECK(str_copy(r.country, sizeof(r.country), sets[set][i].country) &&
              str_copy(r.prefix, sizeof(r.prefix), sets[set][i].prefix));
        ok(tax_rule_add(base, &r));
    }
}

static int64_t one_sum(const char *text)
{
    struct sql q = sql_open(base, text, "");
    int64_t v = INT64_MIN;

    if (sql_next(&q))
        v = sql_i64(&q, 0);
    return sql_close(&q) == ERR_OK ? v : INT64_MIN;
}

static bool integer(const json_t *row, const char *key, int64_t *ret_v)
{
    const char *v = json_string_value(json_object_get(row, key));

    return v && str_parse_i64(v, INT64_MIN, INT64_MAX, ret_v) == ERR_OK;
}

/* One row read back: its invoice is this one, its cost is in both columns the same, and of a usage
 * row what its price and quantities give. */
static bool focus_row(struct tape *t, const struct statement_row *st, const char *line, size_t len,
                      int64_t *io_sum_u)
{
    AUTO_JSON json_t *row = json_loadb(line, len, 0, NULL);
    const char *cost = json_string_value(json_object_get(row, "BilledCost"));
    const char *number = json_string_value(json_object_get(row, "InvoiceId"));
    int64_t u, p, d, from, to;
    struct currency ccy;
    struct money m;

    TAPE_MUST(t, row && cost && number && str_eq(number, st->number));
    TAPE_MUST(t, currency_get(json_string_value(json_object_get(row, "BillingCurrency")), &ccy) ==
                     ERR_OK);
    TAPE_MUST(t, money_parse(cost, ccy, &m) == ERR_OK && integer(row, "x_PostedMicro", &u));
    TAPE_MUST(t, m.u == u);
    *io_sum_u += u;
    if (!integer(row, "x_PriceNumerator", &p))
        return true;
    TAPE_MUST(t, integer(row, "x_PriceDenominator", &d) && integer(row, "x_QuantityFrom", &from) &&
                     integer(row, "x_QuantityTo", &to));
    TAPE_MUST(t, u == p * to / d - p * from / d);
    return true;
}

/* P14: the rows of each closed month, written and read back, add up to what it asks for. */
static bool focus_adds_up(struct tape *t, const struct world *w, const struct statement_row *st)
{
    AUTO_STRBUF struct strbuf out;
    char month[16];
    int64_t sum_u = 0;

    CHECK(str_printf(month, sizeof(month), "%04" PRId64 "-%02d", st->year, st->month));
    AUTO_JSON json_t *query = json_pack("{s:s}", "month", month);
    struct op op = {
        .store = base, .now = w->now, .who = {.project = id_of("prj_one")}, .query = query};
    strbuf_init(&out, 8 << 20);
    json_writer_init(&op.out, &out);
    TAPE_MUST(t, op_usage_focus(&op) == ERR_OK && !out.overflow);
    for (const char *at = strbuf_str(&out), *end; (end = strchr(at, '\n')); at = end + 1)
        if (!focus_row(t, st, at, (size_t)(end - at), &sum_u))
            return false;
    TAPE_MUST(t, sum_u == st->payable_minor * st->minor_u);
    return true;
}

static bool all_focus(struct tape *t, const struct world *w)
{
    struct statement_list all = {0};
    bool held = statement_list(base, id_of("prj_one"), &all) == ERR_OK;

    for (size_t i = 0; i < all.len && held; i++)
        held = !all.at[i].closed || focus_adds_up(t, w, &all.at[i]);
    vec_fini(&all);
    return held;
}

/* Everything closes in the end: then what the statements say is what the journal moved, and what
 * vouchers and gifts paid stands on them as credits, to the last unit. */
static bool all_closed(struct tape *t, struct world *w)
{
    struct close_result r;

    w->now += INT64_C(200) * DAY_S * MS_PER_S;
    do
        TAPE_MUST(t, close_once(w, &r) == ERR_OK);
    while (r.what == CLOSE_DONE || r.what == CLOSE_EMPTY);
    TAPE_MUST(t, r.what == CLOSE_NOT_DUE);
    TAPE_MUST(t, one_sum("SELECT coalesce(sum(amount_u),0) FROM statement_line WHERE kind<2") ==
                     one_sum("SELECT coalesce(sum(rated_u),0) FROM rating_window"));
    TAPE_MUST(t, one_sum("SELECT -coalesce(sum(amount_u),0) FROM statement_line WHERE kind=3") ==
                     one_sum("SELECT coalesce(sum(CASE WHEN kind='back' THEN -amount ELSE amount "
                             "END),0) FROM transfer WHERE (kind IN ('charge','purchase') AND (dr "
                             "LIKE 'voucher.%' OR dr LIKE 'gift.%')) OR (kind='back' AND cr LIKE "
                             "'gift.%')"));
    return laws(t, w) && all_focus(t, w);
}

static bool run_world(struct tape *t)
{
    struct world w = {.now = T0 + INT64_C(40) * DAY_S * MS_PER_S};
    int64_t steps = tape_length(t, STEPS_MAX);

    rules(t);
    for (int64_t i = 0; i < steps; i++)
        if (!step(t, &w) || (tape_moment(t) && !laws(t, &w)))
            return false;
    if (!laws(t, &w))
        return false;
    return all_closed(t, &w);
}

static bool law_months(struct tape *t)
{
    TAPE_MUST(t, store_begin(base) == ERR_OK);
    bool held = run_world(t);
    store_rollback(base);
    return held;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"P7 P12 P14 closed months are frozen, complete and add up, whatever comes late",
         law_months, 2},
    };

    base = books_new(3000000);
    int rc = tape_main(tests, ARRAY_LEN(tests), argc, argv);
    store_close(base);
    return rc;
}
