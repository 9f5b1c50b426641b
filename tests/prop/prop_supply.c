/* P10 of money.md 4 (I26) in the books: what machines earn is shared by the whole of each window,
 * not slice by slice; it waits for its dispute window; what is reversed, also after a payout, is
 * taken back once; what leaves are whole coins from the threshold on. */
#include <stdio.h>

#include "../support/books.h"
#include "app/supply.h"
#include "store/sql.h"
#include "tape.h"

#define STEPS_MAX 40
#define CASH_U INT64_C(100000000000)

static struct store *base;

struct world {
    utime_t now;
    int64_t used, names, paid_u;
    struct supplier x;
};

/* One whole number that a query gives. */
static int64_t number(const char *text)
{
    struct sql q = sql_open(base, text, "");
    int64_t v = INT64_MIN;

    if (sql_next(&q))
        v = sql_i64(&q, 0);
    return sql_close(&q) == ERR_OK ? v : INT64_MIN;
}

/* What was charged of a window less what was reversed. */
#define GROSS                                                                                      \
    "(SELECT w.id, w.posted_u-coalesce((SELECT sum(amount) FROM transfer t WHERE t.owner=w.id "    \
    "AND t.kind='reversal'),0) AS u, (SELECT node FROM usage_span s WHERE s.rating_window=w.id "   \
    "LIMIT 1) AS node FROM rating_window w)"

/* ---- steps ---- */

static bool use(struct tape *t, struct world *w)
{
    struct rating r = {.meter = METER_GPU, .qty_per_s = tape_range(t, 1, 8)};
    int64_t from_s;
    struct refusal why = {0};
    struct books b;
    int instance = (int)tape_range(t, 0, 3);

    w->now += INT64_C(201) * MS_PER_S; /* no second twice */
    from_s = w->now / MS_PER_S - 201;
    r.started_s = from_s;
    CHECK(str_copy(r.sku, sizeof(r.sku), "gpu.RTX 4090"));
    CHECK(str_printf(r.subject.s, ID_SIZE, "ins_%d", instance));
    r.instance = r.subject;
    r.node =
        id_of(instance == 3 ? "nod_own" : "nod_one"); /* the platform's own: shared with nobody */
    TAPE_MUST(t, books_open(base, w->now, id_of("prj_one"), &b, &why) == ERR_OK);
    TAPE_MUST(t, rating_add(&b, &r, from_s, from_s + tape_range(t, 1, 200), &why) == ERR_OK);
    TAPE_MUST(t, funds_post_free(&b, &why) == ERR_OK);
    return true;
}

/* A part, or all, of what a window was charged goes back. */
static bool reverse(struct tape *t, struct world *w)
{
    struct sql q =
        sql_open(base, "SELECT id, u FROM " GROSS " WHERE u>0 ORDER BY u%97, id LIMIT 1", "");
    char window[LEDGER_KEY_SIZE] = "";
    struct ledger_transfer x;
    struct refusal why = {0};
    int64_t u = 0;
    struct books b;

    if (sql_next(&q)) {
        CHECK(str_copy(window, sizeof(window), sql_text(&q, 0)));
        u = sql_i64(&q, 1);
    }
    TAPE_MUST(t, sql_close(&q) == ERR_OK);
    if (u == 0)
        return true;
    TAPE_MUST(t, books_open(base, w->now, id_of("prj_one"), &b, &why) == ERR_OK);
    char id[ID_SIZE];
    CHECK(str_printf(id, sizeof(id), "rev_%d", (int)++w->names));
    x = transfer_of(&b, id, "reversal");
    CHECK(str_copy(x.id, sizeof(x.id), id));
    memcpy(x.owner, window, sizeof(x.owner));
    account_id(x.dr, "revenue.compute", "CNY");
    account_id(x.cr, "cash", "prj_one");
    x.amount = u - tape_range(t, 0, u - 1);
    TAPE_MUST(t, ledger_post(&b, &x, 1, &why) == ERR_OK);
    return true;
}

static bool pay_out(struct tape *t, struct world *w)
{
    struct supply_balance before, after;
    struct refusal why = {0};
    struct payout p;
    char id[ID_SIZE];

    CHECK(str_printf(id, sizeof(id), "pay_%d", (int)++w->names));
    TAPE_MUST(t, supply_balance(base, w->now, &w->x, "CNY", &before) == ERR_OK);
    TAPE_MUST(t, supply_payout(base, w->now, &w->x, "CNY", id_of(id), &p, &why) == ERR_OK);
    TAPE_MUST(t, supply_balance(base, w->now, &w->x, "CNY", &after) == ERR_OK);
    int64_t due =
        before.payable_u > 0 && before.payable_u >= w->x.threshold_u ? before.payable_u : 0;
    TAPE_MUST(t, p.amount_u == due - due % 10000 && p.carried_u == before.payable_u - p.amount_u);
    TAPE_MUST(t, after.payable_u == p.carried_u && after.held_u == before.held_u);
    w->paid_u += p.amount_u;
    TAPE_MUST(t, after.paid_u == w->paid_u);
    return true;
}

/* ---- what must hold ---- */

static bool laws(struct tape *t, struct world *w, bool proof)
{
    struct supply_balance b;
    struct funds_check c;
    struct refusal why = {0};

    TAPE_MUST(t, supply_balance(base, w->now, &w->x, "CNY", &b) == ERR_OK);
    TAPE_MUST(t, b.held_u >= 0 && b.paid_u == w->paid_u);
    TAPE_MUST(t, b.held_u + b.payable_u + b.paid_u ==
                     number("SELECT coalesce(sum(shared_u),0) FROM supplier_gross"));
    if (!proof)
        return true;
    TAPE_MUST(t, funds_check_run(base, w->now, &c, &why) == ERR_OK);
    for (size_t i = 0; i < c.n; i++)
        if (!c.rows[i].pass)
            return tape_fail(t, "%s: %s", c.rows[i].id, c.rows[i].text);
    return true;
}

/* Everything is shared: each window by its whole, and of the held exactly what waited long enough
 * was let go. */
static bool share(struct tape *t, struct world *w)
{
    struct refusal why = {0};
    struct sql q;
    int64_t want = 0, held = 0, gone = 0;
    int64_t before_day = (w->now / MS_PER_S - w->x.dispute_s) / DAY_S;

    TAPE_MUST(t, supply_share(base, w->now, &why) == ERR_OK);
    for (q = sql_open(base, "SELECT u FROM " GROSS " WHERE node='nod_one'", ""); sql_next(&q);)
        want += sql_i64(&q, 0) * w->x.share_n / w->x.share_d;
    TAPE_MUST(t, sql_close(&q) == ERR_OK);
    TAPE_MUST(t, number("SELECT coalesce(sum(shared_u),0) FROM supplier_gross") == want);
    q = sql_open(
        base, "SELECT amount, booked_ms, cr LIKE '%.held.%' FROM transfer WHERE kind='share'", "");
    while (sql_next(&q))
        if (sql_i64(&q, 2) && sql_i64(&q, 1) / MS_PER_S / DAY_S < before_day)
            gone += sql_i64(&q, 0);
        else if (sql_i64(&q, 2))
            held += sql_i64(&q, 0);
    TAPE_MUST(t, sql_close(&q) == ERR_OK);
    TAPE_MUST(t,
              number("SELECT coalesce(sum(amount),0) FROM transfer WHERE kind='release'") == gone);
    struct supply_balance b;
    TAPE_MUST(t, supply_balance(base, w->now, &w->x, "CNY", &b) == ERR_OK && b.held_u == held);
    return true;
}

static bool step(struct tape *t, struct world *w)
{
    switch (tape_below(t, 9)) {
    case 0:
    case 1:
    case 2:
        return use(t, w);
    case 3:
        return reverse(t, w);
    case 4:
    case 5:
        return share(t, w);
    case 6:
        return pay_out(t, w);
    default:
        w->now += tape_range(t, 1, 72) * 3600 * MS_PER_S;
        return true;
    }
}

static bool run_world(struct tape *t)
{
    struct world w = {.now = T0 + 3600 * MS_PER_S};
    int64_t steps = tape_length(t, STEPS_MAX);

    w.x = (struct supplier){.id = id_of("sup_one"),
                            .name = "one",
                            .user = id_of("usr_one"),
                            .share_d = tape_range(t, 1, 1000),
                            .dispute_s = tape_range(t, 0, 7) * DAY_S,
                            .threshold_u = tape_chance(t, 30) ? tape_size(t, 100000000) : 0,
                            .created_at = T0};
    w.x.share_n = tape_range(t, 0, w.x.share_d);
    TAPE_MUST(t, supply_save(base, &w.x) == ERR_OK);
    TAPE_MUST(t, supply_node_set(base, id_of("nod_one"), w.x.id, T0) == ERR_OK);
    for (int64_t i = 0; i < steps; i++)
        if (!step(t, &w) || !laws(t, &w, tape_chance(t, 10)))
            return false;
    if (!share(t, &w))
        return false;
    w.now += 9 * DAY_S * MS_PER_S;
    return share(t, &w) && pay_out(t, &w) && laws(t, &w, true);
}

static bool law_supply(struct tape *t)
{
    TAPE_MUST(t, store_begin(base) == ERR_OK);
    bool held = run_world(t);
    store_rollback(base);
    return held;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"P10 what machines earn is shared whole, held, taken back once and paid out", law_supply,
         5},
    };

    base = books_new(CASH_U);
    int rc = tape_main(tests, ARRAY_LEN(tests), argc, argv);
    store_close(base);
    return rc;
}
