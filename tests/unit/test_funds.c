/* The life of a lease in the books: what is held, what is charged, what is left. */
#include "../support/books.h"
#include "store/sql.h"

#define S INT64_C(1000)

static struct funds_term open_lease(struct store *s, utime_t now, const struct funds_lease *l)
{
    struct funds_term t = {0};
    struct refusal why = {0};

    ok(funds_lease_open(s, now, TERM_S, l, &t, &why));
    return t;
}

static struct funds_term renew(struct store *s, utime_t now, const char *lease)
{
    struct funds_term t = {0};
    struct refusal why = {0};

    ok(funds_lease_renew(s, now, TERM_S, id_of(lease), &t, &why));
    return t;
}

static void settle(struct store *s, utime_t now, const char *lease, utime_t end)
{
    struct refusal why = {0};

    ok(funds_lease_settle(s, now, id_of(lease), end, false, &why));
    check_books(s, now);
}

static int64_t spent(struct store *s, const char *instance)
{
    int64_t u = -1;

    ok(funds_spent(s, id_of(instance), &u));
    return u;
}

static void test_life(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 2);
    struct funds_term t = open_lease(s, T0 + 300, &l);
    struct funds_wallet w;

    assert_int_equal(t.paid_until, T0 + 600 * S);
    /* 600 s x (2 x 1.98/3600 + 20 GiB x 0.01/86400) */
    assert_int_equal(t.hold_u, 660000 + 1388);
    check_books(s, T0 + 300);
    ok(funds_lease_ready(s, l.lease, T0 + 7400));
    int64_t seq = run_for(s, "lea_a", 1, 7400, 507400);
    check_books(s, T0 + 507400);
    t = renew(s, T0 + 507400, "lea_a");
    assert_true(t.extended);
    assert_int_equal(t.paid_until, T0 + 1107 * S);
    check_books(s, T0 + 507400);
    seq = run_for(s, "lea_a", seq, 507400, 800400);
    ok(funds_lease_stop(s, l.lease, T0 + 805900));
    run_for(s, "lea_a", seq, 800400, 810400);
    settle(s, T0 + 811000, "lea_a", T0 + 810400);
    /* [8, 805) s of two cards, [8, 810) s of the disk */
    assert_int_equal(spent(s, "ins_a"), 797 * 1100 + 802 * INT64_C(10000) * 20480 / DISK_D);
    ok(funds_wallet(s, T0 + 811000, id_of("prj_one"), &w, NULL));
    assert_int_equal(w.held_u, 0);
    assert_int_equal(w.cash_u, 100000000 - spent(s, "ins_a"));
    assert_int_equal(w.available_u, w.cash_u);
}

static void test_never_ran(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct refusal why;

    l.disks[1] = (struct funds_disk){id_of("dsk_data"), DISK_DATA, 102400};
    l.disk_count = 2;
    open_lease(s, T0, &l);
    ok(funds_node_time(s, T0 + 60 * S, id_of("nod_one"), T0 + 60 * S, true));
    renew(s, T0 + 500 * S, "lea_a");
    settle(s, T0 + 900 * S, "lea_a", T0 + 890 * S);
    ok(funds_disk_close(s, T0 + 901 * S, l.disks[0].id));
    ok(funds_disk_close(s, T0 + 901 * S, l.disks[1].id));
    ok(funds_node_time(s, T0 + 999 * S, id_of("nod_one"), T0 + 999 * S, true));
    ok(funds_tick(s, T0 + 999 * S, &why));
    assert_int_equal(available(s, T0 + 999 * S), 100000000);
    check_books(s, T0 + 999 * S);
}

static void test_fifty(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(2300000); /* one hour and a day of disk: 2.18 */
    int started = 0, refused = 0;

    for (int i = 0; i < 50; i++) {
        char lease[ID_SIZE], instance[ID_SIZE];
        assert_true(str_printf(lease, sizeof(lease), "lea_%d", i));
        assert_true(str_printf(instance, sizeof(instance), "ins_%d", i));
        struct funds_lease l = lease_ask(lease, instance, 1);
        struct funds_ask ask = {.project = l.project, .shape = l.shape, .for_s = 7200};
        struct funds_quote q;
        struct refusal why = {0};

        ok(funds_quote(s, T0, TERM_S, &ask, &q, &why));
        assert_int_equal(q.need_u, 1980000 + 200000);
        enum err e = funds_gate(s, T0, &ask, &q, &why);
        if (e == ERR_OK) {
            open_lease(s, T0, &l);
            started++;
        } else {
            assert_int_equal(e, ERR_BALANCE);
            assert_int_equal(err_exit(e), 7);
            refused++;
        }
    }
    assert_int_equal(started, 1);
    assert_int_equal(refused, 49);
    check_books(s, T0);
}

static void test_money_ends(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(400000); /* less than one term */
    struct funds_lease l = lease_ask("lea_a", "ins_a", 2);
    struct funds_term t = open_lease(s, T0, &l);
    struct funds_wallet w;

    assert_int_equal(t.limit, TERM_BY_FUNDS);
    int64_t seconds = (t.paid_until - T0) / S, disk = INT64_C(10000) * 20480;
    assert_true(seconds * 1100 + seconds * disk / DISK_D <= 400000);
    assert_true((seconds + 1) * 1100 + (seconds + 1) * disk / DISK_D > 400000);
    ok(funds_lease_ready(s, l.lease, T0));
    run_for(s, "lea_a", 1, 0, 900000); /* a node that does not obey is not paid for it */
    assert_false(renew(s, T0 + 300 * S, "lea_a").extended);
    settle(s, T0 + 900 * S, "lea_a", T0 + 900 * S);
    assert_int_equal(spent(s, "ins_a"), seconds * 1100 + seconds * disk / DISK_D);
    ok(funds_wallet(s, T0 + 900 * S, id_of("prj_one"), &w, NULL));
    assert_true(w.cash_u >= 0);
}

static void test_budget(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct budget_row b = {.project = id_of("prj_one"), .name = "cap", .cap_u = 300000};
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct refusal why = {0};
    struct funds_term t;

    ok(money_budget_save(s, &b));
    t = open_lease(s, T0, &l);
    assert_int_equal(t.limit, TERM_BY_BUDGET);
    check_books(s, T0);
    ok(funds_lease_ready(s, l.lease, T0));
    run_for(s, "lea_a", 1, 0, 400000);
    assert_false(renew(s, T0 + 400 * S, "lea_a").extended);
    struct funds_lease other = lease_ask("lea_b", "ins_b", 1);
    assert_int_equal(funds_lease_open(s, T0 + 400 * S, TERM_S, &other, &t, &why), ERR_BUDGET);
    check_books(s, T0 + 400 * S);
}

#define GIB (INT64_C(1) << 30)

/* A minute on one card at 1.00 a GiB, with so much sent in each of its slices. */
static void send_minute(struct store *s, int64_t bytes)
{
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);

    price_add(s, "prc_out1", "egress", 1000000, GIB, T0_S - 86400, T0_S - 86400);
    open_lease(s, T0, &l);
    ok(funds_lease_ready(s, l.lease, T0));
    for (int64_t n = 0; n < 6; n++) {
        struct funds_slice one = slice_of("lea_a", n + 1, n * 10000, n * 10000 + 10000);

        one.tx_bytes = bytes;
        (void)deliver(s, T0 + n * 10000 + 10000, &one, 1);
        ok(funds_node_time(s, T0 + n * 10000 + 10000, id_of("nod_one"), T0 + n * 10000 + 10000,
                           true));
        check_books(s, T0 + n * 10000 + 10000);
    }
    settle(s, T0 + 60 * S, "lea_a", T0 + 60 * S);
}

static void test_traffic_in(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_slice one = slice_of("lea_a", 1, 0, 10000);
    struct window_list windows = {0};
    int64_t in = 0, out = 0;

    price_add(s, "prc_in1", "ingress", 0, GIB, T0_S - 86400, T0_S - 86400);
    price_add(s, "prc_out1", "egress", 1000000, GIB, T0_S - 86400, T0_S - 86400);
    open_lease(s, T0, &l);
    ok(funds_lease_ready(s, l.lease, T0));
    one.rx_bytes = 3 * GIB;
    one.tx_bytes = GIB;
    (void)deliver(s, T0 + 10000, &one, 1);
    ok(money_window_all(s, &windows));
    for (size_t i = 0; i < windows.len; i++) {
        const struct window_row *w = &windows.at[i];

        if (w->meter == METER_INGRESS) {
            assert_int_equal(w->rated_u, 0);
            in += w->qty;
        }
        out += w->meter == METER_EGRESS ? w->rated_u : 0;
    }
    vec_fini(&windows);
    assert_int_equal(in, 3 * GIB); /* shown, at nothing */
    assert_int_equal(out, 1000000);
    check_books(s, T0 + 10000);
}

static int64_t cash_of(struct store *s, int64_t *ret_owed_u)
{
    struct funds_wallet w;

    ok(funds_wallet(s, T0 + 60 * S, id_of("prj_one"), &w, NULL));
    *ret_owed_u = w.owed_u;
    return w.cash_u;
}

static void test_traffic(void **state)
{
    (void)state;
    const int64_t card_u = 1980000 / 60, hold_u = 330000 + 1388;
    int64_t owed, cash;

    { /* enough money: each byte */
        AUTO_STORE struct store *s = books_new(100000000);
        send_minute(s, GIB / 2);
        cash = cash_of(s, &owed);
        assert_true(100000000 - cash >= 3000000 + card_u && 100000000 - cash < 3000200 + card_u);
        assert_int_equal(owed, 0);
    }
    { /* what no hold needs is 0.05: that much is charged and no more, and nothing is owed */
        AUTO_STORE struct store *s = books_new(hold_u + 50000);
        send_minute(s, GIB / 2);
        cash = cash_of(s, &owed);
        assert_int_equal(owed, 0);
        assert_true(cash >= hold_u - card_u - 200 && cash <= hold_u - card_u);
    }
    { /* a budget is not passed by traffic either, and it counts there */
        AUTO_STORE struct store *s = books_new(100000000);
        struct budget_row b = {.project = id_of("prj_one"), .name = "cap", .cap_u = hold_u + 70000};
        ok(money_budget_save(s, &b));
        send_minute(s, GIB / 2);
        cash = cash_of(s, &owed);
        assert_true(100000000 - cash >= 70000 + card_u && 100000000 - cash <= b.cap_u);
    }
}

static void test_any_order(void **state)
{
    (void)state;
    int64_t want = 0;

    for (unsigned seed = 0; seed < 24; seed++) {
        AUTO_STORE struct store *s = books_new(100000000);
        struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
        struct funds_slice slices[12];
        uint64_t x = seed * 2654435761U + 1;

        open_lease(s, T0, &l);
        ok(funds_lease_ready(s, l.lease, T0 + 2500));
        for (size_t i = 0; i < ARRAY_LEN(slices); i++) {
            utime_t from = 2500 + (utime_t)i * 9300;
            slices[i] = slice_of("lea_a", (int64_t)i + 1, from, from + 9300);
        }
        slices[4].gpus_ok = false; /* a card was away: free */
        for (size_t i = 0; i < 60; i++) {
            size_t at = seed == 0 ? i % ARRAY_LEN(slices) : (x >> 33) % ARRAY_LEN(slices);

            deliver(s, T0 + 200 * S, &slices[at], 1);
            x = x * 6364136223846793005U + 1442695040888963407U;
        }
        deliver(s, T0 + 200 * S, slices, ARRAY_LEN(slices));
        check_books(s, T0 + 200 * S);
        settle(s, T0 + 201 * S, "lea_a", T0 + 120 * S);
        if (seed == 0)
            want = spent(s, "ins_a");
        assert_int_equal(spent(s, "ins_a"), want);
    }
}

static void test_other_payload(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_slice one = slice_of("lea_a", 1, 0, 10000), other = slice_of("lea_a", 1, 0, 19000);
    int64_t before;

    open_lease(s, T0, &l);
    ok(funds_lease_ready(s, l.lease, T0));
    deliver(s, T0 + 20 * S, &one, 1);
    before = spent(s, "ins_a");
    assert_int_equal(deliver(s, T0 + 20 * S, &one, 1).duplicates, 1);
    assert_int_equal(deliver(s, T0 + 20 * S, &other, 1).conflicts, 1);
    assert_int_equal(spent(s, "ins_a"), before);
    check_books(s, T0 + 20 * S);
}

static void test_hole(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_slice one = slice_of("lea_a", 1, 0, 10000),
                       three = slice_of("lea_a", 3, 20000, 30000);
    struct funds_slice nine = slice_of("lea_a", 9, 40000, 50000);
    struct funds_accepted a;
    struct refusal why = {0};

    l.disk_count = 0;
    open_lease(s, T0, &l);
    ok(funds_lease_ready(s, l.lease, T0));
    deliver(s, T0 + 60 * S, &one, 1);
    a = deliver(s, T0 + 60 * S, &three, 1);
    assert_int_equal(a.ack_seq, 1);
    assert_int_equal(a.parked, 1);
    assert_int_equal(spent(s, "ins_a"), 10 * 550);
    /* its journal was lost: a request that begins with 9 says that nothing below will come */
    ok(funds_slices_accept(s, T0 + 60 * S, id_of("nod_one"), "boot1", T0, &nine, 1, &a, &why));
    assert_int_equal(a.ack_seq, 9);
    assert_int_equal(a.parked, 0);
    assert_int_equal(spent(s, "ins_a"), 30 * 550);
    check_books(s, T0 + 60 * S);
}

static void test_gap(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct lease_gap gap = {.lease = id_of("lea_a"), .from_ms = T0 + 30500, .to_ms = T0 + 70200};
    struct funds_slice all[12];

    ok(sql_script(s, "PRAGMA foreign_keys=OFF")); /* the lease's own row is not of interest */
    open_lease(s, T0, &l);
    ok(funds_lease_ready(s, l.lease, T0));
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        all[i] = slice_of("lea_a", (int64_t)i + 1, (utime_t)i * 10000, (utime_t)(i + 1) * 10000);
    deliver(s, T0 + 30 * S, all, 3);
    assert_int_equal(store_gap_save(s, &gap), ERR_OK);
    deliver(s, T0 + 121 * S, all, ARRAY_LEN(all)); /* the node spooled all of it */
    settle(s, T0 + 121 * S, "lea_a", T0 + 120 * S);
    /* free: the seconds 30 to 70 */
    int64_t disk = 120 * INT64_C(10000) * 20480 / DISK_D;
    assert_int_equal(spent(s, "ins_a"), (120 - 41) * INT64_C(550) + disk);
}

static void test_price_moves(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);

    l.disk_count = 0;
    open_lease(s, T0, &l);
    ok(funds_lease_ready(s, l.lease, T0));
    price_add(s, "prc_cut", "gpu.RTX 4090", 1080000, 3600, T0_S + 100, T0_S + 20);
    price_add(s, "prc_rise", "gpu.RTX 4090", 9000000, 3600, T0_S + 200, T0_S + 20);
    run_for(s, "lea_a", 1, 0, 300000);
    check_books(s, T0 + 300 * S);
    settle(s, T0 + 301 * S, "lea_a", T0 + 300 * S);
    assert_int_equal(spent(s, "ins_a"), 100 * 550 + 200 * 300);
    /* a new start takes the rise */
    struct funds_lease again = lease_ask("lea_b", "ins_a", 1);
    again.disk_count = 0;
    assert_int_equal(open_lease(s, T0 + 400 * S, &again).hold_u, 600 * 2500);
}

static void test_month_border(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    /* 2026-03-31 24:00 in Shanghai */
    const utime_t border = (T0_S + 31 * 86400 - 8 * 3600) * MS_PER_S;
    struct window_list march = {0}, april = {0};

    l.disk_count = 0;
    open_lease(s, border - 100 * S, &l);
    ok(funds_lease_ready(s, l.lease, border - 100 * S));
    run_for(s, "lea_a", 1, border - 100 * S - T0, border + 50 * S - T0);
    settle(s, border + 51 * S, "lea_a", border + 50 * S);
    ok(money_window_month(s, l.project, 2026, 3, &march));
    ok(money_window_month(s, l.project, 2026, 4, &april));
    assert_int_equal(march.len, 1);
    assert_int_equal(april.len, 1);
    assert_int_equal(march.at[0].qty, 100);
    assert_int_equal(april.at[0].qty, 50);
    vec_fini(&march);
    vec_fini(&april);
}

/* The bytes are the system's: a machine without them cannot bill by that zone either. */
static bool berlin_load(void)
{
    AUTO_FREE unsigned char *data = mem_alloc(65536);
    FILE *f = fopen("/usr/share/zoneinfo/Europe/Berlin", "re");
    size_t n;

    if (!f)
        return false;
    n = fread(data, 1, 65536, f);
    fclose(f);
    ok(funds_zone_add("Europe/Berlin", data, n));
    ok(funds_zone_add("Europe/Berlin", data, n));
    assert_int_equal(funds_zone_add("Europe/Broken", data, n / 2), ERR_VALIDATION);
    return true;
}

static void test_month_border_in_berlin(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    /* 2026-03-31 24:00 in Berlin: the clocks went forward on the 29th, so 22:00 UTC */
    const utime_t border = (T0_S + 31 * 86400 - 2 * 3600) * MS_PER_S;
    struct window_list march = {0}, april = {0};
    struct refusal why = {0};
    struct project p;
    struct books b;

    ok(store_project_get(s, l.project, &p));
    assert_true(str_copy(p.zone, sizeof(p.zone), "Europe/Nowhere"));
    ok(store_project_save(s, &p));
    assert_int_equal(books_open(s, T0, l.project, &b, &why), ERR_UNSUPPORTED);
    if (!berlin_load()) {
        store_close(TAKE(s));
        skip();
    }
    assert_true(str_copy(p.zone, sizeof(p.zone), "Europe/Berlin"));
    ok(store_project_save(s, &p));
    ok(books_open(s, T0, l.project, &b, &why));
    struct period at;
    period_month_at(&b.zone, T0_S, &at);
    assert_int_equal(at.from_s, T0_S - 3600); /* 1 March 00:00 in winter time */
    assert_int_equal(at.to_s, border / MS_PER_S);
    l.disk_count = 0;
    open_lease(s, border - 100 * S, &l);
    ok(funds_lease_ready(s, l.lease, border - 100 * S));
    run_for(s, "lea_a", 1, border - 100 * S - T0, border + 50 * S - T0);
    settle(s, border + 51 * S, "lea_a", border + 50 * S);
    ok(money_window_month(s, l.project, 2026, 3, &march));
    ok(money_window_month(s, l.project, 2026, 4, &april));
    assert_true(march.len == 1 && april.len == 1);
    assert_int_equal(march.at[0].qty, 100);
    assert_int_equal(april.at[0].qty, 50);
    vec_fini(&march);
    vec_fini(&april);
}

static void test_disk_states(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_disk data = {id_of("dsk_data"), DISK_DATA, 102400};
    struct id node = id_of("nod_one");
    struct refusal why;
    int64_t u;

    ok(funds_disk_open(s, l.project, l.instance, node, &data, T0));
    ok(funds_node_time(s, T0 + 1000 * S, node, T0 + 1000 * S, true));
    l.disks[1] = data;
    l.disk_count = 2;
    open_lease(s, T0 + 1000 * S, &l);
    ok(funds_lease_ready(s, l.lease, T0 + 1010 * S));
    run_for(s, "lea_a", 1, 1010000, 1110000);
    settle(s, T0 + 1110 * S, "lea_a", T0 + 1110 * S);
    ok(funds_node_time(s, T0 + 1210 * S, node, T0 + 1210 * S, true));
    ok(funds_node_time(s, T0 + 9210 * S, node, T0 + 9210 * S, false)); /* unreachable: free */
    ok(funds_node_time(s, T0 + 9220 * S, node, T0 + 9220 * S, true));
    ok(funds_disk_close(s, T0 + 9230 * S, data.id));
    ok(funds_tick(s, T0 + 9990 * S, &why));
    check_books(s, T0 + 9990 * S);
    ok(funds_spent_disk(s, data.id, &u));
    /* detached 1010 + 120 s, attached 100 s */
    assert_int_equal(u, (1010 + 120) * INT64_C(7000) * 102400 / DISK_D +
                            100 * INT64_C(10000) * 102400 / DISK_D);
    ok(funds_spent_disk(s, l.disks[0].id, &u));
    assert_int_equal(u,
                     100 * INT64_C(10000) * 20480 / DISK_D + 110 * INT64_C(5000) * 20480 / DISK_D);
}

static void test_what_the_platform_stopped_costs_nothing(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct funds_disk data = {id_of("dsk_data"), DISK_DATA, 102400};
    struct id node = id_of("nod_one");
    struct refusal why = {0};
    int64_t system_u, data_u;

    ok(funds_disk_open(s, l.project, l.instance, node, &data, T0));
    ok(funds_node_time(s, T0 + 1000 * S, node, T0 + 1000 * S, true));
    l.disks[1] = data;
    l.disk_count = 2;
    open_lease(s, T0 + 1000 * S, &l);
    ok(funds_lease_ready(s, l.lease, T0 + 1010 * S));
    run_for(s, "lea_a", 1, 1010000, 1110000);
    ok(funds_lease_settle(s, T0 + 1110 * S, l.lease, T0 + 1110 * S, true, &why));
    ok(funds_node_time(s, T0 + 9110 * S, node, T0 + 9110 * S, true));
    check_books(s, T0 + 9110 * S);
    ok(funds_spent_disk(s, data.id, &data_u));
    assert_int_equal(data_u, 1010 * INT64_C(7000) * 102400 / DISK_D +
                                 100 * INT64_C(10000) * 102400 / DISK_D);
    ok(funds_spent_disk(s, l.disks[0].id, &system_u));
    assert_int_equal(system_u, 100 * INT64_C(10000) * 20480 / DISK_D);
    /* kept on its own, the data disk has its price again */
    ok(funds_disk_detach(s, T0 + 9110 * S, data.id));
    ok(funds_node_time(s, T0 + 9210 * S, node, T0 + 9210 * S, true));
    ok(funds_spent_disk(s, data.id, &data_u));
    assert_int_equal(data_u, 1110 * INT64_C(7000) * 102400 / DISK_D +
                                 100 * INT64_C(10000) * 102400 / DISK_D);
    check_books(s, T0 + 9210 * S);
}

static void test_arrears(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(1000);
    struct funds_disk data = {id_of("dsk_data"), DISK_DATA, 1024000};
    struct funds_wallet w;
    struct refusal why;
    utime_t since;

    ok(funds_disk_open(s, id_of("prj_one"), id_of(""), id_of("nod_one"), &data, T0));
    ok(funds_node_time(s, T0 + 60 * S, id_of("nod_one"), T0 + 60 * S, true));
    ok(funds_tick(s, T0 + 3661 * S, &why));
    ok(funds_wallet(s, T0 + 3661 * S, id_of("prj_one"), &w, NULL));
    int64_t cost = 60 * INT64_C(7000) * 1024000 / DISK_D;
    assert_int_equal(w.cash_u, 0);
    assert_int_equal(w.owed_u, cost - 1000);
    ok(funds_arrears_since(s, id_of("prj_one"), &since));
    assert_int_equal(since, T0 + 3661 * S);
    topup(s, T0 + 3670 * S, "tra_second", 5000000);
    ok(funds_wallet(s, T0 + 3670 * S, id_of("prj_one"), &w, NULL));
    assert_int_equal(w.owed_u, 0);
    assert_int_equal(w.cash_u, 5000000 - cost + 1000);
    ok(funds_arrears_since(s, id_of("prj_one"), &since));
    assert_int_equal(since, 0);
    check_books(s, T0 + 3670 * S);
}

static void test_topup_once(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(0);
    struct refusal why = {0};

    topup(s, T0, "tra_x", 700);
    topup(s, T0, "tra_x", 700);
    assert_int_equal(available(s, T0), 700);
    assert_int_equal(funds_topup(s, T0, id_of("prj_one"), id_of("tra_x"), 900, "", &why),
                     ERR_LEDGER_CONFLICT);
}

static void test_quote(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 2);
    struct funds_ask ask = {.project = l.project, .shape = l.shape, .for_s = 4 * 3600};
    char text[FUNDS_QUOTE_SIZE];
    struct funds_quote q;
    struct refusal why = {0};
    utime_t until;

    ok(funds_quote(s, T0, TERM_S, &ask, &q, &why));
    assert_int_equal(q.total_u, 4 * 2 * 1980000 + 4 * INT64_C(3600) * 10000 * 20480 / DISK_D);
    assert_int_equal(q.hold_u, open_lease(s, T0, &l).hold_u);
    ok(funds_quote_sign(s, T0, &ask, &q, id_of("quo_1"), text, &until));
    ok(funds_quote_check(s, T0 + 5 * S, text, &ask, &q, &why));
    assert_int_equal(funds_quote_check(s, until, text, &ask, &q, &why), ERR_QUOTE_EXPIRED);
    struct funds_ask more = ask;
    more.shape.gpu_count = 3;
    assert_int_equal(funds_quote_check(s, T0, text, &more, &q, &why), ERR_QUOTE_INVALID);
    text[30] ^= 1;
    assert_int_equal(funds_quote_check(s, T0, text, &ask, &q, &why), ERR_QUOTE_INVALID);
    text[30] ^= 1;
    price_add(s, "prc_cut", "gpu.RTX 4090", 1080000, 3600, T0_S + 10, T0_S + 10);
    ok(funds_quote(s, T0 + 20 * S, TERM_S, &ask, &q, &why));
    assert_int_equal(funds_quote_check(s, T0 + 20 * S, text, &ask, &q, &why), ERR_OFFER_CHANGED);
    assert_int_equal(funds_price_check(&q, 1980000, &why), ERR_OFFER_CHANGED);
    ok(funds_price_check(&q, 1080000, &why));
    /* nothing without a price is started */
    assert_true(str_copy(ask.shape.gpu_model, sizeof(ask.shape.gpu_model), "H100"));
    assert_int_equal(funds_quote(s, T0, TERM_S, &ask, &q, &why), ERR_PRICE_UNKNOWN);
}

static void test_expired_hold(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct refusal why;
    struct funds_wallet w;

    l.disk_count = 0;
    open_lease(s, T0, &l);
    ok(funds_lease_ready(s, l.lease, T0));
    run_for(s, "lea_a", 1, 0, 100000); /* then its node is gone for good */
    ok(funds_tick(s, T0 + (600 + 86400 - 1) * S, &why));
    ok(funds_wallet(s, T0 + 90000 * S, l.project, &w, NULL));
    assert_true(w.held_u > 0);
    ok(funds_tick(s, T0 + (600 + 86400) * S, &why));
    ok(funds_wallet(s, T0 + 90000 * S, l.project, &w, NULL));
    assert_int_equal(w.held_u, 0);
    assert_int_equal(w.cash_u, 100000000 - 100 * 550);
    check_books(s, T0 + 99999 * S);
}

static void test_grow(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(2000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct refusal why = {0};
    int64_t u;

    open_lease(s, T0, &l);
    ok(funds_lease_ready(s, l.lease, T0));
    int64_t seq = run_for(s, "lea_a", 1, 0, 100000);
    ok(funds_disk_grow(s, T0 + 100 * S, l.disks[0].id, 40960, &why));
    check_books(s, T0 + 100 * S);
    run_for(s, "lea_a", seq, 100000, 200000);
    assert_int_equal(funds_disk_grow(s, T0 + 200 * S, l.disks[0].id, INT64_C(40960) * 100000, &why),
                     ERR_BALANCE);
    /* (the caller's savepoint takes the refused one back) */
    ok(funds_spent_disk(s, l.disks[0].id, &u));
    assert_int_equal(u, INT64_C(10000) * (100 * 20480 + 100 * 40960) / DISK_D);
}

static void test_alerts(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(3 * 1980000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct event_list events = {0};
    struct refusal why;

    l.disk_count = 0;
    open_lease(s, T0, &l);
    ok(funds_lease_ready(s, l.lease, T0));
    ok(funds_tick(s, T0 + S, &why)); /* three hours left: the 6 h notice, once */
    ok(funds_tick(s, T0 + 2 * S, &why));
    topup(s, T0 + 3 * S, "tra_b", 100 * 1980000);
    ok(funds_tick(s, T0 + 4 * S, &why));
    ok(store_event_list(s, l.project, id_of(""), 0, 10, &events));
    assert_int_equal(events.len, 1);
    assert_string_equal(events.at[0].kind, "wallet.low");
    vec_fini(&events);
}

static void test_head(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100);
    struct event_list events = {0};
    struct refusal why;

    ok(funds_tick(s, T0 + S, &why)); /* the day is not over */
    ok(funds_tick(s, T0 + 86400 * S, &why));
    ok(funds_tick(s, T0 + 86460 * S, &why));
    ok(store_event_list(s, id_of(""), id_of(""), 0, 10, &events));
    assert_int_equal(events.len, 1);
    assert_string_equal(events.at[0].kind, "ledger.head");
    assert_non_null(strstr(events.at[0].data, "2026-03-01"));
    vec_fini(&events);
}

static void test_check_finds(void **state)
{
    (void)state;
    AUTO_STORE struct store *s = books_new(100000000);
    struct funds_lease l = lease_ask("lea_a", "ins_a", 1);
    struct ledger_account cash;
    struct funds_check c;
    struct fund_lease row;
    struct refusal why;

    open_lease(s, T0, &l);
    ok(money_lease_get(s, l.lease, &row));
    row.hold[0] = '\0';
    ok(money_lease_save(s, &row));
    ok(funds_check_run(s, T0, &c, &why));
    assert_false(c.pass); /* an orphan hold */
    ok(money_account_get(s, "cash.prj_one", &cash));
    cash.cr_posted++;
    ok(money_account_save(s, &cash));
    ok(funds_check_run(s, T0, &c, &why));
    assert_false(c.rows[1].pass); /* I2 */
    cash.cr_posted = 5;           /* below what is held */
    assert_int_equal(money_account_save(s, &cash), ERR_STORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"a lease costs price times evidenced whole seconds, to the last unit", test_life, 0, 0, 0},
        {"a create that never ran costs nothing and holds nothing", test_never_ran, 0, 0, 0},
        {"fifty creates with money for one: one starts, 49 are refused", test_fifty, 0, 0, 0},
        {"a term ends at the last second that money covers", test_money_ends, 0, 0, 0},
        {"a budget is never passed", test_budget, 0, 0, 0},
        {"traffic is paid of what is left, never on credit", test_traffic, 0, 0, 0},
        {"traffic in is metered at its own price", test_traffic_in, 0, 0, 0},
        {"evidence in any order and number gives the same charge", test_any_order, 0, 0, 0},
        {"the same slice again is nothing, other content is refused", test_other_payload, 0, 0, 0},
        {"a slice after a hole waits until its node has nothing older", test_hole, 0, 0, 0},
        {"time in which the node was not heard is free", test_gap, 0, 0, 0},
        {"a price cut counts at its second, a rise only after notice", test_price_moves, 0, 0, 0},
        {"a month border makes a window of its own", test_month_border, 0, 0, 0},
        {"months of a zone with summer time end where its clocks say", test_month_border_in_berlin,
         0, 0, 0},
        {"disks cost by state and are free while unreachable", test_disk_states, 0, 0, 0},
        {"what the platform stopped costs nothing until it starts or a disk is kept alone",
         test_what_the_platform_stopped_costs_nothing, 0, 0, 0},
        {"storage of an empty wallet is owed and paid by the next top-up", test_arrears, 0, 0, 0},
        {"a top-up counts once", test_topup_once, 0, 0, 0},
        {"a signed quote holds until the price moves", test_quote, 0, 0, 0},
        {"a hold nobody speaks for is settled by evidence", test_expired_hold, 0, 0, 0},
        {"growing a disk in a term is held for or refused", test_grow, 0, 0, 0},
        {"a low balance is told once a level", test_alerts, 0, 0, 0},
        {"the head of the journal is published once a day", test_head, 0, 0, 0},
        {"the check finds an orphan hold and a wrong balance", test_check_finds, 0, 0, 0},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
