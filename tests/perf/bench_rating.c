/* Usage events into exact balances: in memory, and durably through the store; SQLite by hand
 * beside.
 *
 *   bench_rating memory EVENTS             rule only: dedupe, cursor, floor of the total, balance
 *   bench_rating durable FILE EVENTS BATCH [RUN]
 *                                          the product's path: BATCH slices a commit, full sync;
 *                                          RUN (1) slices of a lease follow one another
 *   bench_rating signed EVENTS             Ed25519 checks alone, as each slice pays one
 *   bench_rating sync FILE EVENTS          the disk alone: 4 KiB written and synced, once an event
 *   bench_rating one FILE EVENTS           SQLite by hand: one row a commit, full sync
 *   bench_rating bulk FILE EVENTS          SQLite by hand: all rows in one commit, then GROUP BY
 *
 * Prints one JSON line: events, wall and CPU seconds, the total in micro-units, which all ways of
 * the same EVENTS agree on, and the bytes that the process wrote. Times belong to the caller: this
 * file asserts none. */
#include <fcntl.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../support/books.h"
#include "base/sign.h"

#define LEASES 200 /* of one node: the most slices that a report carries */
#define SLICE_S 10
#define CARD_P 1980000

struct clocks {
    double wall, cpu;
};

static struct clocks clocks_now(void)
{
    struct timespec w, c;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &w) == 0 &&
          clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &c) == 0);
    return (struct clocks){(double)w.tv_sec + (double)w.tv_nsec / 1e9,
                           (double)c.tv_sec + (double)c.tv_nsec / 1e9};
}

/* Of this process, to files; 0 where the kernel does not tell. */
static int64_t bytes_written(void)
{
    FILE *f = fopen("/proc/self/io", "r");
    char line[128];
    int64_t n = 0;

    while (f && fgets(line, sizeof(line), f))
        if (str_starts(line, "wchar: "))
            n = strtoll(line + strlen("wchar: "), NULL, 10);
    if (f)
        (void)fclose(f);
    return n;
}

static void say(const char *way, int64_t events, struct clocks from, int64_t total_u)
{
    struct clocks to = clocks_now();
    struct rusage use;

    CHECK(getrusage(RUSAGE_SELF, &use) == 0);
    printf("{\"way\":\"%s\",\"events\":%" PRId64 ",\"wall_s\":%.6f,\"cpu_s\":%.6f,"
           "\"total_u\":%" PRId64 ",\"peak_kib\":%ld,\"written\":%" PRId64 "}\n",
           way, events, to.wall - from.wall, to.cpu - from.cpu, total_u, use.ru_maxrss,
           bytes_written());
}

/* What any way must come to: each lease's cards by the floor of its whole time. */
static int64_t expected_u(int64_t events)
{
    int64_t sum = 0;

    for (int64_t lease = 0; lease < LEASES; lease++) {
        int64_t slices = events / LEASES + (lease < events % LEASES);

        sum += slices * SLICE_S * CARD_P / 3600;
    }
    return sum;
}

static void in_memory(int64_t events)
{
    static struct {
        struct usage_slice last;
        int64_t cursor_s, qty, balance_u;
    } window[LEASES];
    struct rate rate;
    int64_t total = 0;

    CHECK(rate_flat((struct price_rate){CARD_P, 3600}, &rate) == ERR_OK);
    struct clocks from = clocks_now();
    for (int64_t i = 0; i < events; i++) {
        int64_t k = i % LEASES, t0 = i / LEASES * SLICE_S, u;
        struct usage_slice s = {.seq = i / LEASES,
                                .t0_s = t0,
                                .t1_s = t0 + SLICE_S,
                                .qty_per_s = 1,
                                .meter = METER_GPU};
        enum meter_verdict verdict;
        struct meter_gain gain;

        s.source[0] = 'n';
        if (i >= LEASES && window[k].last.seq == s.seq)
            CHECK(meter_dedupe(&window[k].last, &s) == METER_NEW);
        CHECK(meter_take(&window[k].cursor_s, &s, &verdict, &gain) == ERR_OK);
        CHECK(verdict == METER_NEW);
        int64_t to = window[k].qty + (gain.to_s - gain.from_s) * gain.qty_per_s;
        CHECK(rate_delta(&rate, window[k].qty, to, &u) == ERR_OK);
        CHECK(micro_add(window[k].balance_u, u, &window[k].balance_u) == ERR_OK);
        window[k].qty = to;
        window[k].last = s;
    }
    for (size_t k = 0; k < LEASES; k++)
        total += window[k].balance_u;
    CHECK(total == expected_u(events));
    say("memory", events, from, total);
}

/* ---- the product's path ---- */

static struct store *books_at(const char *path)
{
    struct project p = {.id = id_of("prj_one"),
                        .name = "one",
                        .currency = "CNY",
                        .zone = "Asia/Shanghai",
                        .created_at = T0};
    struct id_maker ids = id_maker_seeded(7);
    struct store *s = NULL;
    struct refusal why = {0};

    CHECK(store_open(path, STORE_WRITE, &s, &why) == ERR_OK);
    CHECK(store_migrate(s, &why) == ERR_OK);
    CHECK(store_begin(s) == ERR_OK);
    CHECK(store_project_save(s, &p) == ERR_OK);
    CHECK(funds_init(s, &ids) == ERR_OK);
    prices_add(s);
    topup(s, T0, "tra_first", INT64_C(1) << 50);
    for (int i = 0; i < LEASES; i++) {
        char lease[ID_SIZE], instance[ID_SIZE];
        struct funds_term t;

        CHECK(str_printf(lease, sizeof(lease), "lea_%d", i));
        CHECK(str_printf(instance, sizeof(instance), "ins_%d", i));
        struct funds_lease l = lease_ask(lease, instance, 1);
        l.disk_count = 0;
        CHECK(funds_lease_open(s, T0, TERM_S, &l, &t, &why) == ERR_OK);
        CHECK(funds_lease_ready(s, l.lease, T0) == ERR_OK);
    }
    CHECK(store_commit(s) == ERR_OK);
    return s;
}

/* Terms are renewed as the core does it, and are part of what is measured. */
static void renew_all(struct store *s, utime_t now)
{
    CHECK(store_begin(s) == ERR_OK);
    for (int i = 0; i < LEASES; i++) {
        struct funds_term t;
        struct refusal why = {0};
        char lease[ID_SIZE];

        CHECK(str_printf(lease, sizeof(lease), "lea_%d", i));
        CHECK(funds_lease_renew(s, now, TERM_S, id_of(lease), &t, &why) == ERR_OK);
    }
    CHECK(store_commit(s) == ERR_OK);
}

static struct funds_slice event_at(int64_t k, int64_t run)
{
    utime_t t0 = (k / (LEASES * run) * run + k % run) * SLICE_S * MS_PER_S;
    char lease[ID_SIZE];

    CHECK(str_printf(lease, sizeof(lease), "lea_%" PRId64, k / run % LEASES));
    return slice_of(lease, k + 1, t0, t0 + SLICE_S * MS_PER_S);
}

/* events: a multiple of LEASES * run, so that all leases come equally far. */
static void durable(const char *path, int64_t events, int64_t batch, int64_t run)
{
    CHECK(run > 0 && batch > 0 && events % (LEASES * run) == 0);
    AUTO_STORE struct store *s = books_at(path);
    AUTO_FREE struct funds_slice *list = mem_alloc((size_t)batch * sizeof(*list));
    struct clocks from = clocks_now();
    utime_t renewed = T0;
    int64_t total = 0, done = 0;

    while (done < events) {
        int64_t n = MIN(batch, events - done);
        int64_t rounds = (done + n - 1) / (LEASES * run) + 1;
        utime_t now = T0 + rounds * run * SLICE_S * MS_PER_S;

        if (now - renewed >= TERM_S / 2 * MS_PER_S) {
            renew_all(s, now);
            renewed = now;
        }
        for (int64_t i = 0; i < n; i++)
            list[i] = event_at(done + i, run);
        CHECK(store_begin(s) == ERR_OK);
        struct funds_accepted a = deliver(s, now, list, (size_t)n);
        CHECK(a.ack_seq == done + n && a.taken == n);
        CHECK(store_commit(s) == ERR_OK);
        done += n;
    }
    for (int i = 0; i < LEASES; i++) {
        char instance[ID_SIZE];
        int64_t u = 0;

        CHECK(str_printf(instance, sizeof(instance), "ins_%d", i));
        CHECK(funds_spent(s, id_of(instance), &u) == ERR_OK);
        total += u;
    }
    CHECK(total == expected_u(events));
    say("durable", events, from, total);
}

static void disk_alone(const char *path, int64_t events)
{
    static const char page[4096] = "suanli";
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    struct clocks from = clocks_now();
    for (int64_t i = 0; i < events; i++)
        CHECK(write(fd, page, sizeof(page)) == (ssize_t)sizeof(page) && fdatasync(fd) == 0);
    say("sync", events, from, 0);
}

static void signatures(int64_t events)
{
    unsigned char key[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES], sig[64];
    unsigned char text[160] = "suanli.slice.1";

    CHECK(crypto_sign_keypair(key, secret) == 0);
    CHECK(crypto_sign_detached(sig, NULL, text, sizeof(text), secret) == 0);
    struct clocks from = clocks_now();
    for (int64_t i = 0; i < events; i++)
        CHECK(crypto_sign_verify_detached(sig, text, sizeof(text), key) == 0);
    say("signed", events, from, 0);
}

/* ---- SQLite by hand ---- */

static void sql(sqlite3 *db, const char *text)
{
    CHECK(sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK);
}

static int64_t by_hand_total(sqlite3 *db)
{
    sqlite3_stmt *st;
    int64_t total = 0;

    CHECK(sqlite3_prepare_v2(db, "SELECT sum(qty)*1980000/3600 FROM usage GROUP BY lease", -1, &st,
                             NULL) == SQLITE_OK);
    while (sqlite3_step(st) == SQLITE_ROW)
        total += sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return total;
}

static void by_hand(const char *path, int64_t events, bool bulk)
{
    sqlite3 *db;
    sqlite3_stmt *st;

    CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    sql(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
            "CREATE TABLE usage(seq INTEGER PRIMARY KEY, lease INTEGER, qty INTEGER)");
    CHECK(sqlite3_prepare_v2(db, "INSERT INTO usage VALUES(?,?,?)", -1, &st, NULL) == SQLITE_OK);
    struct clocks from = clocks_now();
    if (bulk)
        sql(db, "BEGIN");
    for (int64_t i = 0; i < events; i++) {
        sqlite3_bind_int64(st, 1, i);
        sqlite3_bind_int64(st, 2, i % LEASES);
        sqlite3_bind_int64(st, 3, SLICE_S);
        CHECK(sqlite3_step(st) == SQLITE_DONE);
        sqlite3_reset(st);
    }
    if (bulk)
        sql(db, "COMMIT");
    int64_t total = by_hand_total(db);
    CHECK(total == expected_u(events));
    say(bulk ? "bulk" : "one", events, from, total);
    sqlite3_finalize(st);
    sqlite3_close(db);
}

int main(int argc, char **argv)
{
    int64_t n = argc > 2 ? strtoll(argv[argc > 3 ? 3 : 2], NULL, 10) : 0;

    CHECK(sodium_init() >= 0);
    if (argc == 3 && str_eq(argv[1], "memory"))
        in_memory(n);
    else if (argc == 3 && str_eq(argv[1], "signed"))
        signatures(n);
    else if (argc == 5 && str_eq(argv[1], "durable"))
        durable(argv[2], n, strtoll(argv[4], NULL, 10), 1);
    else if (argc == 6 && str_eq(argv[1], "durable"))
        durable(argv[2], n, strtoll(argv[4], NULL, 10), strtoll(argv[5], NULL, 10));
    else if (argc == 4 && str_eq(argv[1], "sync"))
        disk_alone(argv[2], n);
    else if (argc == 4 && (str_eq(argv[1], "one") || str_eq(argv[1], "bulk")))
        by_hand(argv[2], n, str_eq(argv[1], "bulk"));
    else
        return 2;
    return 0;
}
