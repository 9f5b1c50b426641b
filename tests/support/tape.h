/* tape.h: the choice tape. Every random decision of a property test, of the simulator or of a fuzz
 * target is drawn from here, so that a run is a list of numbers: recorded from a seed, replayed
 * from a list or from a fuzzer's bytes, and made smaller while it still fails.
 *
 * Smaller choices must mean simpler cases: 0 is "the plain thing". A tape that is played to its end
 * goes on with zeros. Single thread. */
#pragma once

#include "base/base.h"

#define TAPE_MESSAGE_SIZE 200
#define TAPE_CHOICES_MAX (1 << 20)

struct tape {
    uint64_t *at; /* owned: the choices so far, each as it was given out */
    size_t len, cap, pos;
    uint64_t state;                  /* of the generator */
    bool playing;                    /* reads at[]; else draws from the generator and records */
    char message[TAPE_MESSAGE_SIZE]; /* why the property failed */
};
void tape_record(struct tape *t, uint64_t seed);
void tape_play(struct tape *t, const uint64_t *choices, size_t n);
/* Choices from a fuzzer's bytes: eight at a time would waste them, so each choice takes as many as
 * its range needs. */
void tape_play_bytes(struct tape *t, const uint8_t *data, size_t n);
void tape_fini(struct tape *t);

uint64_t tape_below(struct tape *t, uint64_t n);               /* 0 … n−1; n 0: CHECK */
int64_t tape_range(struct tape *t, int64_t low, int64_t high); /* inclusive; simplest: low */
bool tape_chance(struct tape *t, unsigned percent);            /* simplest: false */
/* 0 … max with every order of magnitude as likely as the next, and the edges often. */
int64_t tape_size(struct tape *t, int64_t max);
/* How long a life is, 1 … max: six of eight up to an eighth of it, one up to the half, one up to
 * all; so a law sees many beginnings and some long lives. Mean and longest are printed. */
int64_t tape_length(struct tape *t, int64_t max);
/* Is this one of the moments at which everything is proven? One in four. A life ends anywhere and
 * is proven at its end, so no step is left out. */
bool tape_moment(struct tape *t);
/* Shuffles indices 0 … n−1; simplest: in order. */
void tape_shuffle(struct tape *t, size_t *index, size_t n);

/* Fails the property with a message: `return tape_fail(t, "sum %d", n);`. Always false. */
bool tape_fail(struct tape *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define TAPE_MUST(t, cond)                                                                         \
    do {                                                                                           \
        if (!(cond))                                                                               \
            return tape_fail(t, "%s (line %d)", #cond, __LINE__);                                  \
    } while (0)

/* A law: true when it held for the case that the tape describes. */
typedef bool tape_law(struct tape *t);
/* Makes a failing tape smaller, in place, with at most tries runs of the law; leaves it ready to be
 * read (at, len) with the message of the smallest failure. */
void tape_shrink(struct tape *t, tape_law *law, unsigned tries);

struct tape_test {
    const char *name;
    tape_law *law;
    unsigned share; /* percent of the cases; 0 means 100: slow laws take fewer */
};
/* Main of a property test: TAP on stdout. Options: --long (1,000,000 cases; so does
 * SUANLI_LONG in the environment), --cases N, --seed N, --whole (no law takes fewer),
 * --only NAME, --replay NAME CHOICE... Default: 20,000 cases of a fixed seed and 2,000 of a new
 * one, which is printed. */
int tape_main(const struct tape_test *tests, size_t n, int argc, char **argv);
