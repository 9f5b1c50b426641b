/* Month close of many lines beside a plain SQLite GROUP BY of the same windows in the same run:
 * time of both, their ratio, and how much the close added to the process's peak memory.
 *
 *     month_close [LINES]      default 1,000,000; 100,000 under ./check */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../support/books.h"
#include "app/close.h"
#include "store/sql.h"

#define CLOSED ((T0_S + INT64_C(35) * DAY_S) * MS_PER_S)
#define GROW_MAX_KIB (64 * 1024)

static int64_t now_us(void)
{
    struct timespec t;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static int64_t peak_kib(void)
{
    struct rusage u;

    CHECK(getrusage(RUSAGE_SELF, &u) == 0);
    return u.ru_maxrss;
}

/* One window, one span and one posted charge a line; the journal's hashes are not looked at here.
 */
static void fill(struct store *s, int64_t n)
{
    static const char windows[] =
        "WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM k WHERE i<?1) "
        "INSERT INTO rating_window(id, project, instance, subject, lease, meter, sku, price, year, "
        "month, qty, rated_u, posted_u, posts, from_s, to_s, simulated) SELECT 'w'||i, 'prj_one', "
        "'ins_'||i, 'ins_'||i, '', 0, 'gpu.RTX 4090', 'prc_gpu1', 2026, 3, 7*(i%97+1), "
        "7*(i%97+1)*550, 7*(i%97+1)*550, 1, ?2+i%2000000, ?2+i%2000000+7, 0 FROM k";
    static const char charges[] =
        "INSERT INTO transfer(id, ledger, dr, cr, amount, step, pending, kind, grp, owner, "
        "effective_ms, expires_ms, booked_ms, prev_hash, hash) SELECT 'chg.1.'||id, 'CNY', "
        "'cash.prj_one', 'revenue.compute.CNY', rated_u, 0, '', 'charge', 'g', id, 1, 0, 1, "
        "zeroblob(32), zeroblob(32) FROM rating_window";

    ok(sql_script(s, "INSERT OR IGNORE INTO account(id, ledger, flags, lim, dr_posted, dr_pending, "
                     "cr_posted, cr_pending) VALUES('cash.prj_one','CNY',0,0,0,0,0,0), "
                     "('revenue.compute.CNY','CNY',0,0,0,0,0,0)"));
    ok(store_begin(s));
    ok(sql_run(s, windows, "ii", n, T0_S));
    ok(sql_run(s, charges, ""));
    ok(store_commit(s));
}

static int64_t time_group_by(struct store *s)
{
    int64_t begin = now_us(), sum = 0, groups = 0;
    struct sql q = sql_open(s,
                            "SELECT subject, meter, price, sum(rated_u) FROM rating_window "
                            "WHERE project='prj_one' AND year=2026 AND month=3 "
                            "GROUP BY subject, meter, price ORDER BY 1, 2, 3",
                            "");

    while (sql_next(&q)) {
        sum += sql_i64(&q, 3);
        groups++;
    }
    ok(sql_close(&q));
    CHECK(sum > 0 && groups > 0);
    return MAX(now_us() - begin, INT64_C(1));
}

int main(int argc, char **argv)
{
    int64_t n = argc > 1 ? strtoll(argv[1], NULL, 10) : 1000000;
    char dir[] = "/var/tmp/month-close-XXXXXX", path[64];
    struct project p = {
        .id = id_of("prj_one"), .name = "one", .currency = "CNY", .zone = "Asia/Shanghai"};
    struct id_maker ids = id_maker_seeded(7);
    struct close_result r;
    struct refusal why = {0};
    struct store *s = NULL;

    CHECK(mkdtemp(dir) && str_printf(path, sizeof(path), "%s/store.db", dir));
    ok(store_open(path, STORE_WRITE, &s, &why));
    ok(store_migrate(s, &why));
    ok(store_project_save(s, &p));
    ok(funds_init(s, &ids));
    prices_add(s);
    fill(s, n);
    int64_t group_us = time_group_by(s), before = peak_kib(), begin = now_us();
    ok(store_begin(s));
    ok(close_next(s, CLOSED, p.id, &r, &why));
    ok(store_commit(s));
    int64_t close_us = MAX(now_us() - begin, INT64_C(1)), grown = peak_kib() - before;
    CHECK(r.what == CLOSE_DONE && r.statement.line_count == n);
    store_close(s);
    for (size_t i = 0; i < 3; i++) {
        static const char *const ends[] = {"", "-wal", "-shm"};
        char file[80];
        CHECK(str_printf(file, sizeof(file), "%s%s", path, ends[i]));
        (void)unlink(file);
    }
    (void)rmdir(dir);
    printf("1..1\n# %" PRId64 " lines: closed in %" PRId64 " ms, %" PRId64
           " lines/s; GROUP BY %" PRId64 " ms; ratio %" PRId64 ".%" PRId64 "; peak memory grew by "
           "%" PRId64 " KiB to %" PRId64 " KiB\n",
           n, close_us / 1000, n * 1000000 / close_us, group_us / 1000, close_us / group_us,
           close_us * 10 / group_us % 10, grown, peak_kib());
    printf("%s 1 - a month of %" PRId64 " lines closes in flat memory\n",
           grown < GROW_MAX_KIB ? "ok" : "not ok", n);
    return grown < GROW_MAX_KIB ? 0 : 1;
}
