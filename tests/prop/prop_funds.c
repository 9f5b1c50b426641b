/* Laws of the money where it meets the store: P1 (evidence), P4 and P5 (terms, holds, budgets) of
 * money.md 4, with every law of funds_check at drawn moments and the end; the lives also have
 * vouchers of random scopes and ends, gifts, a credit line and purchases (P2, P9, P10). One store
 * in memory serves all cases; a case is a transaction that is rolled back. A crash is a command
 * whose savepoint is undone. */
#include <stdio.h>

#include "../support/books.h"
#include "app/fund_source.h"
#include "tape.h"

#define SLICES_MAX 24
#define LEASES_MAX 3
#define STEPS_MAX 80

static struct store *base;

static bool books_hold(struct tape *t, utime_t now)
{
    struct funds_check c;
    struct refusal why = {0};

    TAPE_MUST(t, funds_check_run(base, now, &c, &why) == ERR_OK);
    for (size_t i = 0; i < c.n; i++)
        if (!c.rows[i].pass && !str_starts(c.rows[i].text, "not proven"))
            return tape_fail(t, "%s: %s", c.rows[i].id, c.rows[i].text);
    return true;
}

/* ---- P1 ---- */

struct evidence {
    struct funds_slice slices[SLICES_MAX];
    size_t n;
    utime_t ready_ms, end_ms;
};

static void draw_evidence(struct tape *t, struct evidence *e)
{
    utime_t at = tape_range(t, 0, 3000);

    e->n = (size_t)tape_length(t, SLICES_MAX);
    e->ready_ms = T0 + at;
    for (size_t i = 0; i < e->n; i++) {
        utime_t from = at + (tape_chance(t, 10) ? tape_range(t, 0, 5000) : 0);
        utime_t back = tape_chance(t, 5) ? tape_range(t, 0, 1500) : 0; /* overlaps the last one */

        at = from + tape_range(t, 1, 10000);
        e->slices[i] = slice_of("lea_a", (int64_t)i + 1, MAX(from - back, (utime_t)0), at);
        e->slices[i].running = !tape_chance(t, 5);
        e->slices[i].gpus_ok = !tape_chance(t, 5);
    }
    e->end_ms = T0 + at - (tape_chance(t, 20) ? tape_range(t, 0, 4000) : 0);
}

static bool send(struct tape *t, const struct evidence *e, const struct funds_slice *s, size_t n)
{
    struct funds_accepted a;
    struct refusal why = {0};

    TAPE_MUST(t, store_mark(base) == ERR_OK);
    TAPE_MUST(t, slices_accept(base, e->end_ms + 60000, id_of("nod_one"), "boot1", T0, s, n, 0, &a,
                               &why) == ERR_OK);
    TAPE_MUST(t, a.conflicts == 0);
    if (tape_chance(t, 10))
        TAPE_MUST(t, store_mark_undo(base) == ERR_OK); /* it crashed: nothing was acknowledged */
    else
        TAPE_MUST(t, store_mark_keep(base) == ERR_OK);
    return true;
}

/* ret_u: what the lease cost; -1 with a message when a law broke. */
static bool one_delivery(struct tape *t, const struct evidence *e, bool in_order, int64_t *ret_u)
{
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_term term;
    struct refusal why = {0};
    size_t order[SLICES_MAX];

    l.disk_count = 0;
    TAPE_MUST(t, store_begin(base) == ERR_OK);
    TAPE_MUST(t, funds_lease_open(base, T0, TERM_S, &l, &term, &why) == ERR_OK);
    TAPE_MUST(t, funds_lease_ready(base, l.lease, e->ready_ms) == ERR_OK);
    TAPE_MUST(t, funds_lease_stop(base, l.lease, e->end_ms) == ERR_OK);
    for (size_t i = 0; i < e->n; i++)
        order[i] = i;
    if (!in_order) {
        tape_shuffle(t, order, e->n);
        for (size_t i = 0; i < e->n; i++) {
            size_t first = order[i], n = (size_t)tape_range(t, 1, 4);
            if (!send(t, e, &e->slices[first], MIN(n, e->n - first)))
                return false;
        }
    }
    /* at last everything arrives, as the node repeats it until acknowledged */
    struct funds_accepted a;
    TAPE_MUST(t, funds_slices_accept(base, e->end_ms + 60000, id_of("nod_one"), "boot1", T0,
                                     e->slices, e->n, &a, &why) == ERR_OK);
    TAPE_MUST(t, a.ack_seq == (int64_t)e->n);
    if (!books_hold(t, e->end_ms + 60000))
        return false;
    TAPE_MUST(t, funds_lease_settle(base, e->end_ms + 60000, l.lease, e->end_ms, false, &why) ==
                     ERR_OK);
    if (!books_hold(t, e->end_ms + 60000))
        return false;
    TAPE_MUST(t, funds_spent(base, l.instance, ret_u) == ERR_OK);
    return true;
}

/* An exact reading of the rule, ms by ms, without cursors: the first slice that goes beyond a
 * moment decides about it; a second is charged when every moment of it counts, before the end. */
static int64_t oracle(const struct evidence *e)
{
    int64_t seconds = 0, from = (e->ready_ms + 999) / 1000, to = e->end_ms / 1000;
    size_t i = 0;

    for (int64_t s = from; s < to; s++) {
        bool whole = true;
        for (utime_t ms = s * 1000 - T0; ms < (s + 1) * 1000 - T0; ms++) {
            while (i < e->n && e->slices[i].t1_ms <= ms)
                i++;
            whole = whole && i < e->n && e->slices[i].t0_ms <= ms && e->slices[i].running &&
                    e->slices[i].gpus_ok;
        }
        seconds += whole;
    }
    return seconds * 550;
}

static bool law_evidence(struct tape *t)
{
    struct evidence e;
    int64_t plain = -1, wild = -1;

    draw_evidence(t, &e);
    bool held = one_delivery(t, &e, true, &plain);
    store_rollback(base);
    if (!held)
        return false;
    held = one_delivery(t, &e, false, &wild);
    store_rollback(base);
    if (!held)
        return false;
    TAPE_MUST(t, plain == wild);
    if (plain != oracle(&e))
        return tape_fail(t, "charged %" PRId64 ", the rule says %" PRId64, plain, oracle(&e));
    return true;
}

/* ---- P4, P5 ---- */

struct seat {
    char lease[ID_SIZE], instance[ID_SIZE];
    bool open, ready, stopped;
    int64_t disk_mib;
    utime_t slices_ms; /* boot clock: covered up to here */
};
struct world {
    utime_t now;
    int64_t seq, names;
    int64_t bought, bought_u; /* the last purchase; 0: none to give back */
    struct seat seats[LEASES_MAX];
};

static enum err do_open(struct tape *t, struct world *w, struct seat *s)
{
    struct funds_term term;
    struct funds_quote q;
    struct refusal why = {0};
    bool old_disk = s->instance[0] && tape_chance(t, 50); /* starts a stopped one again */

    assert_true(str_printf(s->lease, ID_SIZE, "lea_%" PRId64, ++w->names));
    if (!old_disk) {
        assert_true(str_printf(s->instance, ID_SIZE, "ins_%" PRId64, w->names));
        s->disk_mib = tape_range(t, 64, 400000);
    }
    struct funds_lease l = lease_ask(s->lease, s->instance, (int32_t)tape_range(t, 0, 4));
    l.shape.exclusive = l.shape.gpu_count > 0 && tape_chance(t, 20);
    l.disks[0].size_mib = s->disk_mib;
    l.shape.system_disk_mib = s->disk_mib;
    if (tape_chance(t, 30))
        l.ends_at = w->now + tape_range(t, 1, 900) * 1000;
    assert_true(str_printf(l.spender.user.s, ID_SIZE, "usr_%" PRId64, tape_range(t, 0, 1)));
    if (tape_chance(t, 50))
        assert_true(
            str_printf(l.spender.labels, TEXT_SIZE, "a=b,team=%" PRId64, tape_range(t, 0, 1)));
    struct funds_ask ask = {
        .project = l.project, .spender = l.spender, .shape = l.shape, .for_s = 600};
    TRY(funds_quote(base, w->now, TERM_S, &ask, &q, &why));
    TRY(funds_gate(base, w->now, &ask, &q, &why));
    TRY(funds_lease_open(base, w->now, TERM_S, &l, &term, &why));
    *s = (struct seat){.open = true, .disk_mib = s->disk_mib, .slices_ms = w->now - T0};
    memcpy(s->lease, l.lease.s, ID_SIZE);
    memcpy(s->instance, l.instance.s, ID_SIZE);
    return ERR_OK;
}

static enum err do_slice(struct tape *t, struct world *w, struct seat *s)
{
    utime_t boot = w->now - T0;
    utime_t to = tape_chance(t, 40) ? MIN(boot, s->slices_ms + tape_range(t, 1, 400000)) : boot;
    struct funds_slice one = slice_of(s->lease, w->seq + 1, s->slices_ms, to);
    struct funds_accepted a;
    struct refusal why = {0};

    one.running = !tape_chance(t, 3);
    one.tx_bytes = 1;
    one.rx_bytes = 5;
    TRY(funds_slices_accept(base, w->now, id_of("nod_one"), "boot1", T0, &one, 1, &a, &why));
    w->seq++;
    s->slices_ms = to;
    return ERR_OK;
}

static enum err do_price(struct tape *t, struct world *w)
{
    static const char *const skus[] = {"gpu.RTX 4090", "cpu.seat", "exclusive.gpu.RTX 4090", "disk",
                                       "disk.stopped"};
    size_t i = (size_t)tape_below(t, ARRAY_LEN(skus));
    int64_t started = 0;
    struct price_row r = {.currency = "CNY",
                          .p = tape_range(t, 0, 9000000),
                          .d = i < 3 ? 3600 : DISK_D,
                          .announced_s = w->now / 1000,
                          .notice_s = PRICE_NOTICE_S};

    TRY(money_started_last(base, &started));
    r.valid_from_s = MAX(w->now / 1000 + tape_range(t, 0, 700), started + 1);
    assert_true(str_printf(r.id.s, ID_SIZE, "prc_%" PRId64, ++w->names));
    assert_true(str_copy(r.sku, sizeof(r.sku), skus[i]));
    return money_price_add(base, &r);
}

static enum err do_topup(struct tape *t, struct world *w)
{
    struct refusal why = {0};
    char id[ID_SIZE];

    assert_true(str_printf(id, ID_SIZE, "tra_%" PRId64, ++w->names));
    return funds_topup(base, w->now, id_of("prj_one"), id_of(id), tape_range(t, 1, 3000000), "",
                       &why);
}

static enum err do_grant(struct tape *t, struct world *w, const struct books *b)
{
    static const unsigned scopes[] = {0,
                                      0,
                                      1u << METER_GPU | 1u << METER_CPU,
                                      1u << METER_GPU | 1u << METER_NODE,
                                      1u << METER_DISK | 1u << METER_DISK_STOPPED,
                                      1u << METER_EGRESS};
    struct grant_row g = {.project = b->project,
                          .amount_u = tape_range(t, 1, 400000),
                          .scope = scopes[tape_below(t, ARRAY_LEN(scopes))],
                          .gift = tape_chance(t, 30),
                          .expires_s = b->now_s + tape_range(t, 1, 1500),
                          .at = b->now};
    struct refusal why = {0};

    if (tape_chance(t, 20)) {
        g.scope = 0;
        assert_true(str_copy(g.sku, sizeof(g.sku), tape_chance(t, 50) ? "disk" : "gpu.RTX 4090"));
    }
    assert_true(str_printf(g.id.s, ID_SIZE, "vch_%" PRId64, ++w->names));
    return fund_grant(b, &g, &why);
}

/* Buys something, or gives back what was bought last. */
static enum err do_purchase(struct tape *t, struct world *w, const struct books *b)
{
    struct fund_purchase p = {.account = "deferred.all",
                              .meter = tape_chance(t, 50) ? METER_GPU : METER_DISK,
                              .sku = "gpu.RTX 4090",
                              .amount_u = tape_range(t, 0, 300000)};
    struct fund_split x, again;
    struct fund_back back;
    struct refusal why = {0};

    if (w->bought && tape_chance(t, 50)) {
        struct id id = {""};

        assert_true(str_printf(id.s, ID_SIZE, "pur_%" PRId64, w->bought));
        int64_t consumed = tape_range(t, 0, w->bought_u);
        TRY(fund_refund(b, id, consumed, &back, &why));
        w->bought = 0;
        return consumed + back.gift_u + back.cash_u + back.credit_u + back.lapsed_u == w->bought_u
                   ? ERR_OK
                   : ERR_INTERNAL;
    }
    assert_true(str_printf(p.id.s, ID_SIZE, "pur_%" PRId64, ++w->names));
    TRY(fund_pay(b, &p, &x, &why));
    TRY(fund_pay(b, &p, &again, &why));
    w->bought = w->names;
    w->bought_u = p.amount_u;
    return memcmp(&x, &again, sizeof(x)) == 0 ? ERR_OK : ERR_INTERNAL;
}

static enum err do_money(struct tape *t, struct world *w)
{
    struct refusal why = {0};
    struct books b;
    struct id id = {""};

    TRY(books_open(base, w->now, id_of("prj_one"), &b, &why));
    switch (tape_below(t, 6)) {
    case 0:
        return do_topup(t, w);
    case 1:
        assert_true(str_printf(id.s, ID_SIZE, "gft_%" PRId64, ++w->names));
        return fund_gift(&b, id, tape_range(t, 1, 200000), &why);
    case 2:
        return fund_credit_set(&b, tape_range(t, 0, 1000000), &why);
    case 3:
        return do_purchase(t, w, &b);
    default:
        return do_grant(t, w, &b);
    }
}

static enum err step_seat(struct tape *t, struct world *w, struct seat *s)
{
    struct funds_term term;
    struct refusal why = {0};
    char disk[ID_SIZE];

    if (!s->open)
        return do_open(t, w, s);
    if (!s->ready && tape_chance(t, 60)) {
        utime_t at = MAX(w->now - tape_range(t, 0, 20000), s->slices_ms + T0);
        TRY(funds_lease_ready(base, id_of(s->lease), at));
        s->ready = true;
        s->slices_ms = at - T0;
        return ERR_OK;
    }
    switch (tape_below(t, 8)) {
    case 0:
    case 1:
    case 2:
        return s->ready ? do_slice(t, w, s) : ERR_OK;
    case 3:
    case 4:
        return funds_lease_renew(base, w->now, TERM_S, id_of(s->lease), &term, &why);
    case 5:
        return funds_lease_stop(base, id_of(s->lease), w->now - tape_range(t, 0, 90000));
    case 6:
        assert_true(str_printf(disk, ID_SIZE, "dsk_%s", s->instance));
        TRY(funds_disk_grow(base, w->now, id_of(disk), s->disk_mib + 1000, &why));
        s->disk_mib += 1000;
        return ERR_OK;
    case 7:
        TRY(funds_lease_settle(base, w->now, id_of(s->lease), w->now - tape_range(t, 0, 2000),
                               false, &why));
        s->open = false;
        return ERR_OK;
    }
    return ERR_OK;
}

/* A cap above what is committed; lower ones are refused by budget_set. */
static enum err do_budget(struct tape *t, struct world *w)
{
    static const char *const of[] = {"", "usr_1", "team=1"};
    struct budget_row b = {.project = id_of("prj_one"), .cap_u = INT64_MAX / 4};
    struct budget_list list = {0};
    struct budget *money = NULL;
    struct refusal why = {0};
    struct books books;

    b.scope = (enum budget_scope)tape_below(t, ARRAY_LEN(of));
    assert_true(str_copy(b.scope_of, sizeof(b.scope_of), of[b.scope]));
    assert_true(str_printf(b.name, sizeof(b.name), "cap%d", (int)b.scope));
    TRY(money_budget_save(base, &b));
    TRY(books_open(base, w->now, b.project, &books, &why));
    TRY(budgets_load(&books, &list, &money));
    for (size_t i = 0; i < list.len; i++)
        if (str_eq(list.at[i].name, b.name))
            b.cap_u = money[i].posted_u + money[i].pending_u + tape_range(t, 0, 2000000);
    free(money);
    vec_fini(&list);
    return money_budget_save(base, &b);
}

static enum err step(struct tape *t, struct world *w)
{
    struct refusal why = {0};

    switch (tape_below(t, 13)) {
    case 0:
    case 12:
        return do_money(t, w);
    case 1:
        return do_price(t, w);
    case 2:
        return funds_node_time(base, w->now, id_of("nod_one"), w->now, !tape_chance(t, 30));
    case 3:
        return funds_tick(base, w->now, &why);
    case 4:
        return do_budget(t, w);
    default:
        return step_seat(t, w, &w->seats[tape_below(t, LEASES_MAX)]);
    }
}

static bool refused_well(enum err e)
{
    return e == ERR_OK || e == ERR_BALANCE || e == ERR_BUDGET || e == ERR_VALIDATION ||
           e == ERR_TOO_LARGE;
}

/* As the core does: a term is renewed when half of it is over; now and then that is forgotten. */
static bool keep_paid(struct tape *t, struct world *w)
{
    for (size_t i = 0; i < LEASES_MAX; i++) {
        struct refusal why = {0};
        struct funds_term term;
        struct fund_lease l;

        if (!w->seats[i].open || tape_chance(t, 3))
            continue;
        TAPE_MUST(t, money_lease_get(base, id_of(w->seats[i].lease), &l) == ERR_OK);
        if (l.paid_until_s - w->now / 1000 < TERM_S / 2)
            TAPE_MUST(t, funds_lease_renew(base, w->now, TERM_S, l.lease, &term, &why) == ERR_OK);
    }
    return true;
}

static bool run_world(struct tape *t, struct world *w)
{
    int64_t steps = tape_length(t, STEPS_MAX);
    struct funds_wallet wallet;
    struct refusal why = {0};

    for (int64_t i = 0; i < steps; i++) {
        w->now += tape_chance(t, 3) ? tape_range(t, 0, 90000000) : tape_range(t, 0, 60000);
        TAPE_MUST(t, funds_tick(base, w->now, &why) == ERR_OK); /* holds expire by a tick */
        if (!keep_paid(t, w))
            return false;
        struct world before = *w;
        TAPE_MUST(t, store_mark(base) == ERR_OK);
        enum err e = step(t, w);
        if (!refused_well(e))
            return tape_fail(t, "step %" PRId64 ": %s", i, err_code(e));
        if (e != ERR_OK || tape_chance(t, 8)) {
            TAPE_MUST(t, store_mark_undo(base) == ERR_OK);
            before.names = w->names;
            *w = before;
        } else {
            TAPE_MUST(t, store_mark_keep(base) == ERR_OK);
        }
        if (tape_moment(t) && !books_hold(t, w->now))
            return false;
    }
    if (!books_hold(t, w->now))
        return false;
    /* everybody is gone for good: evidence decides, and no hold is left */
    TAPE_MUST(t, funds_tick(base, w->now + INT64_C(200000000), &why) == ERR_OK);
    TAPE_MUST(t, funds_wallet(base, w->now, id_of("prj_one"), &wallet, &why) == ERR_OK);
    TAPE_MUST(t, wallet.held_u == 0);
    TAPE_MUST(t, wallet.cash_u >= 0);
    /* and every grant is over, to the last unit */
    struct grant_list open = {0};
    enum err e = wallet_grant_over(base, w->now / 1000 + 199000, &open);
    size_t left = open.len;
    vec_fini(&open);
    TAPE_MUST(t, e == ERR_OK && left == 0);
    return books_hold(t, w->now + INT64_C(200000000));
}

static bool law_lives(struct tape *t)
{
    struct world w = {.now = T0};

    TAPE_MUST(t, store_begin(base) == ERR_OK);
    bool held = run_world(t, &w);
    store_rollback(base);
    return held;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"P1 evidence in any slicing, order, number and crash costs the same", law_evidence, 2},
        {"P4 P5 random lives keep every law: floors, caps, holds, books", law_lives, 2},
    };

    base = books_new(20000000);
    price_add(base, "prc_ing", "ingress", 0, INT64_C(1) << 30, T0_S - 86400, T0_S - 86400);
    price_add(base, "prc_egr", "egress", 800000, INT64_C(1) << 30, T0_S - 86400, T0_S - 86400);
    int rc = tape_main(tests, ARRAY_LEN(tests), argc, argv);
    store_close(base);
    return rc;
}
