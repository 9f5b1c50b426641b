/* books.h: a store in memory with one project, prices and money; for tests of the money. */
#pragma once

#include <stdlib.h>

#include "app/funds_check.h"
#include "app/funds_int.h"
#include "tap.h"

#define T0_S INT64_C(1772323200) /* 2026-03-01T00:00:00Z: 08:00 in Shanghai */
#define T0 (T0_S * MS_PER_S)
#define TERM_S 600

#define ok(call)                                                                                   \
    do {                                                                                           \
        enum err ok_e = (call);                                                                    \
        if (ok_e != ERR_OK)                                                                        \
            print_message("# %s: %s\n", #call, err_code(ok_e));                                    \
        assert_int_equal(ok_e, ERR_OK);                                                            \
    } while (0)

static inline struct id id_of(const char *text)
{
    struct id id = {""};

    assert_true(str_copy(id.s, sizeof(id.s), text));
    return id;
}

static inline void price_add(struct store *s, const char *id, const char *sku, int64_t p, int64_t d,
                             int64_t valid_from_s, int64_t announced_s)
{
    struct price_row r = {.id = id_of(id),
                          .currency = "CNY",
                          .p = p,
                          .d = d,
                          .unit_u = p,
                          .valid_from_s = valid_from_s,
                          .announced_s = announced_s,
                          .notice_s = PRICE_NOTICE_S};

    assert_true(str_copy(r.sku, sizeof(r.sku), sku));
    assert_true(str_copy(r.unit, sizeof(r.unit), "hour"));
    ok(money_price_add(s, &r));
}

#define DISK_D (INT64_C(1024) * 86400)
/* 1.98 an hour and card; 0.90 an hour for a node alone; 0.01, 0.005, 0.007 a GiB-day */
static inline void prices_add(struct store *s)
{
    price_add(s, "prc_gpu1", "gpu.RTX 4090", 1980000, 3600, T0_S - 86400, T0_S - 86400);
    price_add(s, "prc_exc1", "exclusive.gpu.RTX 4090", 900000, 3600, T0_S - 86400, T0_S - 86400);
    price_add(s, "prc_cpu1", "cpu.seat", 50000, 3600, T0_S - 86400, T0_S - 86400);
    price_add(s, "prc_dsk1", "disk", 10000, DISK_D, T0_S - 86400, T0_S - 86400);
    price_add(s, "prc_sto1", "disk.stopped", 5000, DISK_D, T0_S - 86400, T0_S - 86400);
    price_add(s, "prc_det1", "disk.detached", 7000, DISK_D, T0_S - 86400, T0_S - 86400);
}

static inline void topup(struct store *s, utime_t now, const char *id, int64_t u)
{
    struct refusal why;

    ok(funds_topup(s, now, id_of("prj_one"), id_of(id), u, "", &why));
}

static inline struct store *books_new(int64_t cash_u)
{
    struct project p = {.id = id_of("prj_one"),
                        .name = "one",
                        .currency = "CNY",
                        .zone = "Asia/Shanghai",
                        .created_at = T0};
    struct id_maker ids = id_maker_seeded(7);
    struct store *s = NULL;
    struct refusal why = {0};

    ok(store_open(":memory:", STORE_WRITE, &s, &why));
    ok(store_migrate(s, &why));
    ok(store_project_save(s, &p));
    ok(funds_init(s, &ids));
    prices_add(s);
    if (cash_u > 0)
        topup(s, T0, "tra_first", cash_u);
    return s;
}

static inline void check_books(struct store *s, utime_t now)
{
    struct funds_check c;
    struct refusal why = {0};

    ok(funds_check_run(s, now, &c, &why));
    for (size_t i = 0; i < c.n; i++)
        if (!c.rows[i].pass)
            print_message("# %s broken: %s\n", c.rows[i].id, c.rows[i].text);
    assert_true(c.pass);
}

static inline struct funds_lease lease_ask(const char *lease, const char *instance, int32_t gpus)
{
    struct funds_lease l = {.project = id_of("prj_one"),
                            .instance = id_of(instance),
                            .lease = id_of(lease),
                            .node = id_of("nod_one"),
                            .epoch = 1,
                            .shape = {.gpu_model = "RTX 4090",
                                      .gpu_count = gpus,
                                      .cpu_milli = 4000,
                                      .memory_mib = 8192,
                                      .system_disk_mib = 20480},
                            .ends_at = UTIME_NEVER,
                            .disk_count = 1};

    assert_true(str_printf(l.disks[0].id.s, ID_SIZE, "dsk_%s", instance));
    l.disks[0].kind = DISK_SYSTEM;
    l.disks[0].size_mib = 20480;
    return l;
}

static inline struct funds_slice slice_of(const char *lease, int64_t seq, utime_t t0, utime_t t1)
{
    return (struct funds_slice){.seq = seq,
                                .lease = id_of(lease),
                                .epoch = 1,
                                .running = true,
                                .gpus_ok = true,
                                .t0_ms = t0,
                                .t1_ms = t1};
}

/* boot clock of the tests' node = ledger clock - T0 */
static inline struct funds_accepted deliver(struct store *s, utime_t now,
                                            const struct funds_slice *slices, size_t n)
{
    struct funds_accepted a;
    struct refusal why = {0};

    ok(slices_accept(s, now, id_of("nod_one"), "boot1", T0, slices, n, 0, &a, &why));
    return a;
}

/* Slices of 10 s over [from, to) ms of the boot clock, delivered one by one as they end. */
static inline int64_t run_for(struct store *s, const char *lease, int64_t seq, utime_t from,
                              utime_t to)
{
    while (from < to) {
        utime_t end = MIN(from + 10000, to);
        struct funds_slice one = slice_of(lease, seq, from, end);
        struct funds_accepted a = deliver(s, T0 + end, &one, 1);

        assert_int_equal(a.ack_seq, seq);
        ok(funds_node_time(s, T0 + end, id_of("nod_one"), T0 + end, true));
        seq++;
        from = end;
    }
    return seq;
}

static inline int64_t available(struct store *s, utime_t now)
{
    struct funds_wallet w;

    ok(funds_wallet(s, now, id_of("prj_one"), &w, NULL));
    return w.available_u;
}
