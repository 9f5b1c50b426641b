/* Resource packages in the books: whatever runs, however late, in however many pieces and with
 * whatever gaps its evidence comes, all leases together never use more than a package holds, each
 * proven card-second is covered or charged at its price, once, and covered ones cost nothing. */
#include <stdio.h>

#include "../support/books.h"
#include "app/funds_package.h"
#include "tape.h"

#define LEASES_MAX 3
#define DAY 86400

static struct store *base;

struct life {
    char lease[16], instance[16];
    int64_t cards, proven, seq;
    int64_t seconds; /* proven ones */
    bool over;
};

static bool books_hold(struct tape *t, int64_t now_s)
{
    struct funds_check c;
    struct refusal why = {0};

    TAPE_MUST(t, funds_check_run(base, (T0_S + now_s) * MS_PER_S, &c, &why) == ERR_OK);
    for (size_t i = 0; i < c.n; i++)
        if (!c.rows[i].pass && !str_starts(c.rows[i].text, "not proven"))
            return tape_fail(t, "%s: %s", c.rows[i].id, c.rows[i].text);
    return true;
}

static struct books at(int64_t second)
{
    struct refusal why = {0};
    struct books b;

    ok(books_open(base, (T0_S + second) * MS_PER_S, id_of("prj_one"), &b, &why));
    return b;
}

static bool buy(struct tape *t, int64_t second, int n)
{
    static const char *const skus[] = {"package.1.day.gpu.RTX 4090", "package.1.day.gpu"};
    struct package_ask ask = {.sku = skus[tape_range(t, 0, 1)]};
    struct books b = at(second);
    struct refusal why = {0};
    struct package_row p;

    assert_true(str_printf(ask.id.s, ID_SIZE, "pkg_%d", n));
    assert_true(str_printf(ask.price.s, ID_SIZE, "prc_pkg%d", n));
    enum err e = package_buy(&b, &ask, &p, &why);
    return e == ERR_OK ? true : tape_fail(t, "buying: %s", err_code(e));
}

static bool open_life(struct tape *t, struct life *x, int n)
{
    struct funds_lease l;
    struct funds_term term;
    struct refusal why = {0};

    *x = (struct life){.cards = tape_range(t, 1, 4)};
    assert_true(str_printf(x->lease, sizeof(x->lease), "lea_%d", n));
    assert_true(str_printf(x->instance, sizeof(x->instance), "ins_%d", n));
    l = lease_ask(x->lease, x->instance, (int32_t)x->cards);
    l.disk_count = 0;
    TAPE_MUST(t, funds_lease_open(base, T0, TERM_S, &l, &term, &why) == ERR_OK);
    TAPE_MUST(t, funds_lease_ready(base, l.lease, T0) == ERR_OK);
    return true;
}

/* Evidence up to now_s, of which a piece may be missing. */
static bool prove(struct tape *t, struct life *x, int64_t now_s, bool gaps)
{
    char boot[24];
    struct funds_accepted a;
    struct refusal why = {0};
    int64_t from = x->proven;

    assert_true(str_printf(boot, sizeof(boot), "boot_%s", x->lease));
    while (from < now_s) {
        int64_t end = MIN(now_s, from + tape_range(t, 1, 700));
        struct funds_slice one = slice_of(x->lease, ++x->seq, from * 1000, end * 1000);

        if (gaps && tape_chance(t, 25)) {
            x->seq--;
        } else {
            enum err e = slices_accept(base, (T0_S + now_s) * MS_PER_S, id_of("nod_one"), boot, T0,
                                       &one, 1, 0, &a, &why);
            if (e != ERR_OK)
                return tape_fail(t, "evidence: %s %s", err_code(e),
                                 why.param_count ? why.params[0].value : "");
            x->seconds += end - from;
        }
        from = end;
    }
    x->proven = now_s;
    return true;
}

static bool end_life(struct tape *t, struct life *x, int64_t now_s)
{
    utime_t ms = (T0_S + now_s) * MS_PER_S;
    struct refusal why = {0};

    x->over = true;
    TAPE_MUST(t, funds_lease_settle(base, ms, id_of(x->lease), ms, false, &why) == ERR_OK);
    return true;
}

/* Card-seconds of an instance at a price of 0, and what all of them cost. */
static void sums(const struct life *x, int64_t *ret_covered, int64_t *ret_qty, int64_t *ret_u)
{
    struct window_list w = {0};

    *ret_covered = *ret_qty = *ret_u = 0;
    ok(money_window_all(base, &w));
    for (size_t i = 0; i < w.len; i++) {
        if (!str_eq(w.at[i].instance.s, x->instance))
            continue;
        *ret_qty += w.at[i].qty;
        *ret_u += w.at[i].rated_u;
        if (!str_eq(w.at[i].price.s, "prc_gpu1"))
            *ret_covered += w.at[i].qty;
    }
    vec_fini(&w);
}

static bool judge(struct tape *t, const struct life *x, size_t n, int64_t bought, int64_t alone)
{
    int64_t all = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t covered, qty, u;

        sums(&x[i], &covered, &qty, &u);
        if (qty != x[i].seconds * x[i].cards)
            return tape_fail(t, "%" PRId64 " proven, %" PRId64 " rated", x[i].seconds * x[i].cards,
                             qty);
        if (u != (qty - covered) * 1980000 / 3600)
            return tape_fail(t, "%" PRId64 " for %" PRId64 " not covered", u, qty - covered);
        all += covered;
    }
    if (all > bought)
        return tape_fail(t, "%" PRId64 " covered of %" PRId64, all, bought);
    return alone < 0 || all == alone
               ? true
               : tape_fail(t, "%" PRId64 " covered, the rule says %" PRId64, all, alone);
}

static bool live(struct tape *t, size_t n, int packages, bool gaps)
{
    int64_t whole_s = tape_length(t, 5000), now = 0, end_s = tape_range(t, 1, 6000);
    struct life x[LEASES_MAX];
    struct refusal why = {0};
    struct funds_term term;
    int bought = 0;

    if (!buy(t, end_s - DAY, bought++))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!open_life(t, &x[i], (int)i))
            return false;
    while (now < whole_s) {
        now = MIN(whole_s, now + tape_range(t, 1, 290));
        if (bought < packages && tape_chance(t, 20) && !buy(t, now, bought++))
            return false;
        for (size_t i = 0; i < n; i++) {
            if (x[i].over)
                continue;
            if (tape_chance(t, 60) && !prove(t, &x[i], now, gaps))
                return false;
            if (n > 1 && tape_chance(t, 4) && !end_life(t, &x[i], now))
                return false;
            if (!x[i].over)
                TAPE_MUST(t, funds_lease_renew(base, (T0_S + now) * MS_PER_S, TERM_S,
                                               id_of(x[i].lease), &term, &why) == ERR_OK);
        }
        TAPE_MUST(t, packages_tick(base, (T0_S + now) * MS_PER_S, &why) == ERR_OK);
        if (tape_moment(t) && !books_hold(t, now))
            return false;
    }
    for (size_t i = 0; i < n; i++)
        if (!x[i].over && (!prove(t, &x[i], whole_s, gaps) || !end_life(t, &x[i], whole_s)))
            return false;
    TAPE_MUST(t, packages_tick(base, (T0_S + whole_s + DAY + 200) * MS_PER_S, &why) == ERR_OK);
    int64_t alone = n > 1 || packages > 1 || gaps
                        ? -1
                        : MIN(MIN(whole_s, end_s), 3600 / x[0].cards) * x[0].cards;
    return judge(t, x, n, bought * INT64_C(3600), alone) && books_hold(t, whole_s + DAY + 200);
}

static bool undone(struct tape *t, size_t n, int packages, bool gaps)
{
    TAPE_MUST(t, store_begin(base) == ERR_OK);
    bool held = live(t, n, packages, gaps);
    store_rollback(base);
    return held;
}

static bool law_shared(struct tape *t)
{
    size_t n = (size_t)tape_range(t, 1, LEASES_MAX);

    return undone(t, n, (int)tape_range(t, 1, 3), tape_chance(t, 50));
}

static bool law_alone(struct tape *t)
{
    return undone(t, 1, 1, false);
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"leases never use more than packages hold; the rest is charged", law_shared, 1},
        {"one lease uses its package first, up to its end", law_alone, 1},
    };
    struct price_row offer = {.id = {"prc_off"},
                              .currency = "CNY",
                              .p = 1500001,
                              .d = 1,
                              .unit = "package",
                              .unit_u = 1500001,
                              .valid_from_s = T0_S - 200000,
                              .announced_s = T0_S - 200000};

    base = books_new(INT64_C(100000000000));
    assert_true(str_copy(offer.sku, sizeof(offer.sku), "package.1.day.gpu"));
    ok(money_price_add(base, &offer));
    offer.id = id_of("prc_off2");
    assert_true(str_copy(offer.sku, sizeof(offer.sku), "package.1.day.gpu.RTX 4090"));
    ok(money_price_add(base, &offer));
    int rc = tape_main(tests, ARRAY_LEN(tests), argc, argv);
    store_close(base);
    return rc;
}
