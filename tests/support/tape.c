#include "tape.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/mem.h"

#define SHRINK_TRIES 20000
#define FIXED_SEED 20260101

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static void push(struct tape *t, uint64_t v)
{
    CHECK(t->len < TAPE_CHOICES_MAX);
    if (t->len == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 256;
        t->at = mem_realloc(t->at, t->cap, sizeof(t->at[0]));
    }
    t->at[t->len++] = v;
}

static void restart(struct tape *t, bool playing)
{
    t->pos = 0;
    t->playing = playing;
    t->message[0] = '\0';
}

void tape_record(struct tape *t, uint64_t seed)
{
    restart(t, false);
    t->len = 0;
    t->state = seed;
}

void tape_play(struct tape *t, const uint64_t *choices, size_t n)
{
    restart(t, true);
    t->len = 0;
    for (size_t i = 0; i < n; i++)
        push(t, choices[i]);
}

void tape_play_bytes(struct tape *t, const uint8_t *data, size_t n)
{
    uint64_t v = 0;

    restart(t, true);
    t->len = 0;
    for (size_t i = 0; i < n; i++) { /* a byte below 128 ends a choice, so short inputs say much */
        v = v << 7 | (data[i] & 0x7F);
        if (data[i] < 0x80) {
            push(t, v);
            v = 0;
        }
    }
}

void tape_fini(struct tape *t)
{
    free(t->at);
    *t = (struct tape){0};
}

uint64_t tape_below(struct tape *t, uint64_t n)
{
    uint64_t v;

    CHECK(n > 0);
    if (!t->playing) {
        v = next_random(&t->state) % n;
        push(t, v);
    } else {
        v = t->pos < t->len ? t->at[t->pos] % n : 0;
    }
    t->pos++;
    return v;
}

int64_t tape_range(struct tape *t, int64_t low, int64_t high)
{
    CHECK(low <= high);
    uint64_t width = (uint64_t)high - (uint64_t)low;
    uint64_t v = width == UINT64_MAX ? tape_below(t, UINT64_MAX) : tape_below(t, width + 1);

    return (int64_t)((uint64_t)low + v);
}

bool tape_chance(struct tape *t, unsigned percent)
{
    return tape_below(t, 100) >= 100 - percent;
}

int64_t tape_size(struct tape *t, int64_t max)
{
    int bits = 64 - __builtin_clzll((uint64_t)max | 1);
    uint64_t kind = tape_below(t, (uint64_t)bits + 4);
    int64_t edge;

    CHECK(max >= 0);
    if (kind <= (uint64_t)bits) {
        int64_t top = kind >= 63 ? INT64_MAX : (INT64_C(1) << kind) - 1;
        return (int64_t)tape_below(t, (uint64_t)MIN(top, max) + 1);
    }
    edge = (int64_t)tape_below(t, 3);
    return MAX(max - edge, (int64_t)0);
}

static struct {
    int64_t n, sum, max;
} lengths; /* of the law that runs */

int64_t tape_length(struct tape *t, int64_t max)
{
    uint64_t kind = tape_below(t, 8);
    int64_t length = tape_range(t, 1, MAX(kind < 6 ? max / 8 : kind < 7 ? max / 2 : max, 1));

    lengths.n++;
    lengths.sum += length;
    lengths.max = MAX(lengths.max, length);
    return length;
}

bool tape_moment(struct tape *t)
{
    return tape_chance(t, 25);
}

void tape_shuffle(struct tape *t, size_t *index, size_t n)
{
    for (size_t i = 0; i < n; i++)
        index[i] = i;
    for (size_t i = 0; i + 1 < n; i++) {
        size_t j = i + tape_below(t, n - i), keep = index[i];
        index[i] = index[j];
        index[j] = keep;
    }
}

bool tape_fail(struct tape *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(t->message, sizeof(t->message), fmt, ap);
    va_end(ap);
    return false;
}

/* ---- shrinking ---- */

struct shrinker {
    struct tape *best; /* fails */
    struct tape trial;
    tape_law *law;
    unsigned tries;
};

/* Runs what is in trial; when it still fails it becomes the best. Choices that were never read are
 * cut off. */
static bool still_fails(struct shrinker *s)
{
    if (s->tries == 0)
        return false;
    s->tries--;
    restart(&s->trial, true);
    if (s->law(&s->trial))
        return false;
    s->trial.len = MIN(s->trial.len, s->trial.pos);
    struct tape keep = *s->best;
    *s->best = s->trial;
    s->trial = keep;
    return true;
}

static void copy_best(struct shrinker *s)
{
    s->trial.len = 0;
    for (size_t i = 0; i < s->best->len; i++)
        push(&s->trial, s->best->at[i]);
}

static bool drop_chunks(struct shrinker *s, size_t size)
{
    bool better = false;

    for (size_t from = 0; from + size <= s->best->len && s->tries > 0;) {
        copy_best(s);
        memmove(s->trial.at + from, s->trial.at + from + size,
                (s->trial.len - from - size) * sizeof(s->trial.at[0]));
        s->trial.len -= size;
        if (still_fails(s))
            better = true;
        else
            from += size;
    }
    return better;
}

static bool lower_value(struct shrinker *s, size_t i, uint64_t value)
{
    copy_best(s);
    s->trial.at[i] = value;
    return still_fails(s);
}

static bool lower_values(struct shrinker *s)
{
    bool better = false;

    for (size_t i = 0; i < s->best->len && s->tries > 0; i++) {
        uint64_t low = 0;
        if (s->best->at[i] == 0)
            continue;
        if (lower_value(s, i, 0)) {
            better = true;
            continue;
        }
        while (i < s->best->len && low + 1 < s->best->at[i] && s->tries > 0) {
            uint64_t middle = low + (s->best->at[i] - low) / 2;
            if (lower_value(s, i, middle))
                better = true;
            else
                low = middle;
        }
    }
    return better;
}

void tape_shrink(struct tape *t, tape_law *law, unsigned tries)
{
    struct shrinker s = {.best = t, .law = law, .tries = tries};
    bool better = true;

    while (better && s.tries > 0) {
        better = false;
        for (size_t size = t->len / 2; size > 0; size /= 2)
            better = drop_chunks(&s, size) || better;
        better = lower_values(&s) || better;
    }
    tape_fini(&s.trial);
}

/* ---- running ---- */

struct options {
    uint64_t cases, seed;
    bool seeded, whole;
    const char *only;
};

static void report_failure(const struct tape_test *test, struct tape *t, uint64_t seed, uint64_t i)
{
    printf("# seed %" PRIu64 " case %" PRIu64 ": %s\n", seed, i, t->message);
    tape_shrink(t, test->law, SHRINK_TRIES);
    printf("# smallest: %s\n# again: --replay %s", t->message, test->name);
    for (size_t c = 0; c < t->len && c < 400; c++)
        printf(" %" PRIu64, t->at[c]);
    printf("\n");
}

static bool run_cases(const struct tape_test *test, uint64_t seed, uint64_t cases)
{
    struct tape t = {0};
    bool held = true;

    for (uint64_t i = 0; i < cases && held; i++) {
        uint64_t mix = seed + i * UINT64_C(0xD1B54A32D192ED03);
        tape_record(&t, next_random(&mix));
        held = test->law(&t);
        if (!held)
            report_failure(test, &t, seed, i);
    }
    tape_fini(&t);
    return held;
}

static bool run_test(const struct tape_test *test, const struct options *o)
{
    unsigned share = test->share && !o->whole ? test->share : 100;
    uint64_t cases = o->cases * share / 100, fresh = 0;

    lengths.n = lengths.sum = lengths.max = 0;
    if (o->seeded)
        return run_cases(test, o->seed, cases);
    if (getrandom(&fresh, sizeof(fresh), 0) != sizeof(fresh))
        fresh = 1;
    printf("# %s: %" PRIu64 " cases of seed %d, %" PRIu64 " of seed %" PRIu64 "\n", test->name,
           cases, FIXED_SEED, cases / 10, fresh);
    return run_cases(test, FIXED_SEED, cases) && run_cases(test, fresh, cases / 10);
}

static int replay(const struct tape_test *tests, size_t n, char **argv, int argc)
{
    for (size_t i = 0; i < n && argc > 0; i++) {
        struct tape t = {0};
        if (strcmp(tests[i].name, argv[0]) != 0)
            continue;
        tape_play(&t, NULL, 0);
        for (int c = 1; c < argc; c++)
            push(&t, strtoull(argv[c], NULL, 10));
        bool held = tests[i].law(&t);
        printf("1..1\n%s 1 - %s %s\n", held ? "ok" : "not ok", tests[i].name, t.message);
        tape_fini(&t);
        return held ? 0 : 1;
    }
    fprintf(stderr, "no such law\n");
    return 2;
}

int tape_main(const struct tape_test *tests, size_t n, int argc, char **argv)
{
    struct options o = {.cases = getenv("SUANLI_LONG") ? 1000000 : 20000};
    size_t ran = 0;
    bool all = true;

    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--long") == 0) {
            o.cases = 1000000;
        } else if (strcmp(argv[i], "--whole") == 0) {
            o.whole = true;
        } else if (strcmp(argv[i], "--cases") == 0 && more) {
            o.cases = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0 && more) {
            o.seed = strtoull(argv[++i], NULL, 10);
            o.seeded = true;
        } else if (strcmp(argv[i], "--only") == 0 && more) {
            o.only = argv[++i];
        } else if (strcmp(argv[i], "--replay") == 0 && more) {
            return replay(tests, n, argv + i + 1, argc - i - 1);
        } else {
            fprintf(stderr, "usage: [--long | --cases N] [--whole] [--seed N] [--only NAME] "
                            "[--replay NAME CHOICE...]\n");
            return 2;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (o.only && strcmp(tests[i].name, o.only) != 0)
            continue;
        bool held = run_test(&tests[i], &o);
        if (lengths.n > 0)
            printf("# lengths: %" PRId64 ".%" PRId64 " in the mean, %" PRId64 " at most\n",
                   lengths.sum / lengths.n, lengths.sum * 10 / lengths.n % 10, lengths.max);
        printf("%s %zu - %s\n", held ? "ok" : "not ok", ++ran, tests[i].name);
        fflush(stdout);
        all = all && held;
    }
    printf("1..%zu\n", ran);
    return all && ran > 0 ? 0 : 1;
}
