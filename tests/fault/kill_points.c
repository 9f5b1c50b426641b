/* Every step by which money moves, killed at each of its system calls, and with the power cut at
 * each of its writes. After each: the store opens, whole; it says what it said before the step or
 * what it says after it, to the last column, and after it when the answer was out; and the
 * same request again ends in what it says after the step. Every law is proven on both states; a
 * state that is one of them to the last column keeps them. Some are killed a second time in
 * the repeat.
 *
 *     kill_points [STEP…]
 *
 * The core is the product's, the clock a virtual one (tests/sim/world.h), so that the same moment
 * gives the same rows and nothing has to be left out of the comparison. Only where no key was given
 * (a node's report, a channel's notice and file, the clock) does asking twice leave a trace of its
 * own, which dump_effects() leaves out after the repeat: the audit and when something was heard
 * last. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/funds_check.h"
#include "base/clock.h"
#include "dump.h"
#include "money_life.h"
#include "power.h"

#define WORKERS_MAX 16
#define PROBLEM_SIZE 2000
#define ANSWER_SIZE (64 << 10)
#define SECOND_KILL 23 /* every so many points the repeat is killed too */

static const char *const files[] = {"", "-wal", "-shm", NULL};
static const char *const disk_files[] = {"", "-wal", NULL}; /* what outlives a machine */

/* What the processes of one worker share. */
struct shared {
    struct world_reply reply; /* reply.come: the answer is out */
    char answer[ANSWER_SIZE], problem[PROBLEM_SIZE];
    long kills, states, cuts, second, failures, longest;
};

struct campaign {
    char root[64];
    const char *const *only; /* NULL-terminated names of steps; empty: all */
    int workers, draws;
    uint64_t seed;
    long tests, failed, points;
    struct shared *shared[WORKERS_MAX];
};

/* One worker on one step. */
struct work {
    struct world world; /* as it is before the step, with another file */
    const struct step *step;
    struct shared *shared;
    char folder[80], base[80];
    char *before, *after, *before_effects, *after_effects, *answer;
    bool told;  /* it must be as after the step */
    bool twice; /* the step may have been taken two times */
    uint64_t x;
    struct power_state *known; /* owned; what was verified last after a kill */
    bool known_told;
};

static void *share(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(p != MAP_FAILED);
    return p;
}

/* ---- the step, in a process of its own ---- */

static void take_step(void *arg)
{
    struct work *k = arg;

    world_open(&k->world);
    step_take(&k->world, k->step, &k->shared->reply);
    if (k->shared->reply.answer)
        CHECK(str_copy(k->shared->answer, ANSWER_SIZE, k->shared->reply.answer));
    world_close(&k->world);
}

static bool was_told(const struct work *k)
{
    return k->shared->reply.come && k->shared->reply.code == ERR_OK;
}

/* ---- what must hold afterwards ---- */

static void problem(struct work *k, const char *what, const char *text)
{
    if (!k->shared->problem[0])
        (void)snprintf(k->shared->problem, PROBLEM_SIZE, "%s: %s", what, text);
}

static void refused(struct work *k, const char *what, const struct refusal *why)
{
    char text[400];

    refusal_text(why, LANG_EN, text, sizeof(text));
    problem(k, what, text);
}

static void laws(struct work *k)
{
    struct store *s = k->world.store;
    struct funds_check books;
    struct refusal why = {0};
    char text[300] = "";

    CHECK(store_begin(s) == ERR_OK);
    if (funds_check_run(s, WORLD_T0 + k->world.now_ms, &books, &why) != ERR_OK)
        refused(k, "laws", &why);
    for (size_t i = 0; i < books.n; i++)
        if (!books.rows[i].pass)
            problem(k, books.rows[i].id, books.rows[i].text);
    store_rollback(s);
    if (!world_laws(&k->world, text, sizeof(text)))
        problem(k, "laws", text);
}

/* exactly: to the last column; else but for the trace of asking twice. */
static void compare(struct work *k, const char *what, const char *got, bool exactly)
{
    char text[1200], *effects = exactly ? NULL : dump_effects(got);

    if (dump_differs(exactly ? got : effects, exactly ? k->after : k->after_effects, text,
                     sizeof(text)))
        problem(k, what, text);
    free(effects);
}

static void found_state(struct work *k, const char *got)
{
    bool old = str_eq(got, k->before);

    if (k->told && old)
        problem(k, "lost", "the answer was out, and nothing of it is there");
    else if (!old)
        compare(k, "neither old nor new", got, k->step->keyed || !k->twice);
    if (k->twice || getenv("SUANLI_LONG"))
        laws(k);
}

static void verify(void *arg)
{
    struct work *k = arg;
    struct refusal why = {0};

    world_open(&k->world);
    struct dumper *d = dumper_open(k->world.file);
    char *got = dumper_text(d);
    found_state(k, got);
    free(got);
    if (store_integrity(k->world.store, &why) != ERR_OK)
        refused(k, "integrity", &why);
    step_take(&k->world, k->step, &k->shared->reply);
    if (k->step->kind == STEP_CALL && !was_told(k))
        refused(k, "the repeat was refused", &k->shared->reply.why);
    else if (k->step->keyed && !str_eq(k->shared->reply.answer, k->answer))
        problem(k, "another answer", k->shared->reply.answer);
    got = dumper_text(d);
    compare(k, "after the repeat", got, k->step->keyed);
    free(got);
    dumper_close(d);
    world_close(&k->world);
}

/* Runs verify() in a process that may die of what it finds. */
static void verified(struct work *k, const char *what)
{
    struct shared *s = k->shared;
    int status = 0;

    s->problem[0] = '\0';
    s->reply = (struct world_reply){0};
    (void)fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        verify(k);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0)
        problem(k, "who opened it", "died of it");
    if (!s->problem[0])
        return;
    if (s->failures++ < 3)
        printf("# %s %s: %s\n", k->step->name, what, s->problem);
}

/* ---- the faults ---- */

/* What opens it does the same on the same bytes: between two system calls that change no file, one
 * proof will do. */
static bool is_known(struct work *k)
{
    struct power_state *now = power_state_read(k->folder, "store", files);
    bool known = k->known && k->known_told == k->told && power_state_eq(k->known, now);

    power_state_free(k->known);
    k->known = now;
    k->known_told = k->told;
    return known;
}

/* Kills the step; false: it has no n-th system call any more. */
static bool kill_step(struct work *k, long n)
{
    struct calls c;

    k->shared->reply = (struct world_reply){0};
    calls_run(take_step, k, NULL, NULL, n, &c);
    k->told |= was_told(k);
    CHECK(c.killed || c.status == 0);
    return c.killed;
}

static bool killed_at(struct work *k, long n, long count)
{
    char what[80];

    k->told = k->twice = false;
    power_copy(k->base, k->folder, "store", files);
    if (!kill_step(k, n))
        return false;
    k->shared->kills++;
    if (!is_known(k)) {
        CHECK(str_printf(what, sizeof(what), "killed at system call %ld of %ld", n, count));
        verified(k, what);
        k->shared->states++;
    }
    if (n % SECOND_KILL != 1)
        return true;
    long second = 1 + (long)power_below(&k->x, (uint64_t)count);
    k->told = false;
    k->twice = true;
    power_copy(k->base, k->folder, "store", files);
    (void)kill_step(k, n);
    (void)kill_step(k, second);
    CHECK(str_printf(what, sizeof(what), "killed at system call %ld, then at %ld", n, second));
    verified(k, what);
    k->shared->second++;
    return true;
}

static void cut_after(struct work *k, const struct calls *c, size_t n, enum power_draw draw)
{
    char what[80];

    power_cut(k->base, k->folder, "store", disk_files, c, n, draw, &k->x);
    k->twice = false;
    k->told = c->told_at && (n == c->ops.len || c->ops.at[n].call >= c->told_at);
    CHECK(str_printf(what, sizeof(what), "with the power cut after change %zu of %zu (%d)", n,
                     c->ops.len, (int)draw));
    verified(k, what);
    k->shared->cuts++;
}

/* Before and after each sync nothing but what was synced; after each write it is torn; after each
 * change some of what is not synced yet. */
static void cuts(struct work *k, const struct calls *c, size_t n, int draws)
{
    enum file_op_kind kind = n ? c->ops.at[n - 1].kind : FILE_SYNCED;
    bool next_syncs = n == c->ops.len || c->ops.at[n].kind == FILE_SYNCED;

    if (kind == FILE_SYNCED || kind == FOLDER_SYNCED || next_syncs)
        cut_after(k, c, n, POWER_NOTHING);
    if (kind == FILE_WRITTEN)
        cut_after(k, c, n, POWER_TORN);
    for (int i = 0; i < draws; i++)
        cut_after(k, c, n, POWER_ANY);
}

static void worker(struct campaign *m, struct work *k, const struct calls *c, int number)
{
    int64_t begin = clock_system()->boot_ms(clock_system());

    CHECK(str_printf(k->folder, sizeof(k->folder), "%s/%d", m->root, number));
    CHECK(str_printf(k->world.file, sizeof(k->world.file), "%s/store", k->folder));
    k->shared = m->shared[number];
    k->x = (m->seed + 1) * 1000003 + (uint64_t)number;
    long each = (c->count + m->workers - 1) / m->workers, last = (number + 1) * each;
    for (long n = 1 + number * each; n <= last || number + 1 == m->workers; n++)
        if (!killed_at(k, n, c->count))
            break;
    for (size_t n = (size_t)number; n <= c->ops.len; n += (size_t)m->workers)
        cuts(k, c, n, m->draws);
    k->shared->longest = clock_system()->boot_ms(clock_system()) - begin;
}

/* ---- a step ---- */

static void print_result(struct campaign *m, const struct work *k, const struct calls *c)
{
    struct shared sum = {0};

    for (int i = 0; i < m->workers; i++) {
        const struct shared *s = m->shared[i];

        sum.kills += s->kills;
        sum.states += s->states;
        sum.cuts += s->cuts;
        sum.second += s->second;
        sum.failures += s->failures;
        sum.longest = MAX(sum.longest, s->longest);
    }
    m->tests++;
    m->points += sum.kills + sum.second + sum.cuts;
    m->failed += sum.failures != 0;
    printf("%s %ld - %s: old or new, and one effect, after %ld kills and %ld cuts of the power\n",
           sum.failures ? "not ok" : "ok", m->tests, k->step->name, sum.kills, sum.cuts);
    printf("# %ld system calls, %zu changes of files, %ld states, %ld killed twice, %ld failures, "
           "%ld ms\n",
           c->count, c->ops.len, sum.states, sum.second, sum.failures, sum.longest);
    (void)fflush(stdout);
}

/* A state that the others are held against. */
static char *lawful(struct work *k, const char *file)
{
    char *text = dump_store(file);
    uint64_t boots = k->world.boots; /* a start that must not change which ids follow */

    k->shared->problem[0] = '\0';
    world_open(&k->world);
    laws(k);
    world_close(&k->world);
    k->world.boots = boots;
    if (k->shared->problem[0])
        printf("# %s: %s\n", k->step->name, k->shared->problem);
    CHECK(!k->shared->problem[0]);
    return text;
}

/* The step without a fault: what it leaves, and all its changes. */
static void reference(struct campaign *m, struct work *k, struct calls *ret_c)
{
    char file[96];

    k->shared = m->shared[0];
    k->shared->reply = (struct world_reply){0};
    CHECK(str_printf(file, sizeof(file), "%s/store", k->folder));
    memcpy(k->world.file, file, sizeof(file));
    power_copy(k->base, k->folder, "store", files);
    k->before = lawful(k, file);
    power_copy(k->base, k->folder, "store", files);
    calls_run(take_step, k, &k->shared->reply.come, k->folder, 0, ret_c);
    CHECK(ret_c->status == 0);
    CHECK(k->step->kind != STEP_CALL || (was_told(k) && ret_c->told_at));
    k->answer = mem_strdup(k->shared->answer);
    k->after = lawful(k, file);
    k->before_effects = dump_effects(k->before);
    k->after_effects = dump_effects(k->after);
    CHECK(!str_eq(k->before_effects, k->after_effects));
}

/* The log was moved into the file by the step's commit, not by the end of the process. */
static bool moves_log(const struct calls *c)
{
    VEC_FOREACH (o, &c->ops)
        if (o->kind == FILE_WRITTEN && str_eq(o->name, "store"))
            return o->call < c->told_at;
    return false;
}

static bool is_wanted(const struct campaign *m, const char *name)
{
    for (const char *const *at = m->only; *at; at++)
        if (str_eq(*at, name))
            return true;
    return !m->only[0];
}

static void run_workers(struct campaign *m, struct work *k, const struct calls *c)
{
    pid_t pids[WORKERS_MAX];

    (void)fflush(stdout);
    for (int i = 0; i < m->workers; i++) {
        memset(m->shared[i], 0, sizeof(*m->shared[i]));
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            worker(m, k, c, i);
            (void)fflush(stdout);
            _exit(0);
        }
    }
    for (int i = 0; i < m->workers; i++) {
        int status = 0;

        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        m->shared[i]->failures += status != 0;
    }
}

static void visit(void *user, struct world *w, const struct step *s)
{
    struct campaign *m = user;
    struct calls c;

    if (!is_wanted(m, s->name) || (s->long_log && !m->only[0] && !getenv("SUANLI_LONG")))
        return;
    struct work *k = mem_alloc(sizeof(*k));
    k->world = *w;
    k->world.store = NULL; /* the life's own; other processes open other files */
    k->world.core = NULL;
    k->step = s;
    CHECK(str_printf(k->base, sizeof(k->base), "%s/base", m->root));
    CHECK(str_printf(k->folder, sizeof(k->folder), "%s/0", m->root));
    power_copy(w->dir, k->base, "store", disk_files);
    reference(m, k, &c);
    CHECK(!s->long_log || moves_log(&c));
    run_workers(m, k, &c);
    print_result(m, k, &c);
    calls_fini(&c);
    free(k->before);
    free(k->after);
    free(k->before_effects);
    free(k->after_effects);
    free(k->answer);
    free(k);
}

/* ---- the program ---- */

static void make_folders(struct campaign *m)
{
    char path[80];

    CHECK(str_copy(m->root, sizeof(m->root),
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm/kill-XXXXXX" : "/tmp/kill-XXXXXX"));
    CHECK(mkdtemp(m->root));
    CHECK(str_printf(path, sizeof(path), "%s/base", m->root) && mkdir(path, 0700) == 0);
    for (int i = 0; i < m->workers; i++) {
        CHECK(str_printf(path, sizeof(path), "%s/%d", m->root, i) && mkdir(path, 0700) == 0);
        m->shared[i] = share(sizeof(*m->shared[i]));
    }
}

static void remove_folder(const char *path)
{
    char file[100];

    for (size_t i = 0; files[i]; i++)
        if (str_printf(file, sizeof(file), "%s/store%s", path, files[i]))
            (void)unlink(file);
    (void)rmdir(path);
}

static void remove_folders(const struct campaign *m)
{
    char path[80];

    for (int i = -1; i < m->workers; i++) {
        CHECK(i < 0 ? str_printf(path, sizeof(path), "%s/base", m->root)
                    : str_printf(path, sizeof(path), "%s/%d", m->root, i));
        remove_folder(path);
    }
    (void)rmdir(m->root);
}

int main(int argc, char **argv)
{
    const char *seed = getenv("SUANLI_SEED");
    struct campaign m = {.only = (const char *const *)(argv + (argc > 0)), .draws = 1};
    struct world *w = mem_alloc(sizeof(*w));
    int64_t n = 0;

    m.workers = (int)MIN(MAX(sysconf(_SC_NPROCESSORS_ONLN), 1l), (long)WORKERS_MAX);
    if (getenv("SUANLI_LONG"))
        m.draws = 12;
    if (seed && str_parse_i64(seed, 1, INT64_MAX / 2, &n) == ERR_OK)
        m.seed = (uint64_t)n;
    else
        m.seed = (uint64_t)clock_system()->wall_ms(clock_system());
    printf("# seed %" PRIu64 "\n", m.seed);
    make_folders(&m);
    money_life(w, visit, &m);
    world_fini(w);
    free(w);
    remove_folders(&m);
    printf("# %ld points\n1..%ld\n", m.points, m.tests);
    return m.failed || !m.tests;
}
