/* size_choice.h: from an estimate to a choice: which cards hold the job and how many of them, how
 * long it takes there, what it costs at the prices that are offered, what would make it smaller,
 * and the steps from a first trial to serving. Floating point as in size.h; money crosses the
 * border once, rounded to whole micro-units, and is an estimate, never a charge. Pure, any thread.
 *
 * A card holds a job when the expected need is at most 92 % of what the card really gives; it holds
 * it surely when the high end of the interval is within it as well. */
#pragma once

#include "domain/card.h"
#include "domain/offer.h"
#include "domain/size_ask.h"

#define SIZE_FILL 0.92
#define SIZE_COUNTS 5 /* 1, 2, 4, 8, 16 cards */
#define SIZE_WAYS_MAX 12
#define SIZE_STAGES 3
#define SIZE_ADVICE_MAX 4

enum size_verdict { SIZE_NO, SIZE_TIGHT, SIZE_FITS };
const char *size_verdict_name(enum size_verdict v); /* "fits", "tight", "no" */

/* One card, so many of it. */
struct size_place {
    const struct card_row *card; /* NULL: an offered card that the catalogue does not know */
    const struct offer *offer;   /* borrowed; the cheapest that gives them; NULL: not here */
    char name[GPU_MODEL_SIZE];
    int64_t usable; /* bytes of one card */
    int64_t count;
    struct size_job job; /* with its layout */
    enum size_verdict verdict;
    struct size_range need;    /* of the fullest card */
    struct size_range seconds; /* training: of the whole job, with setting up; 0 unknown speed */
    int64_t tokens_s, tokens_s_all; /* inference: one sequence; all of them together */
    int64_t sequences;              /* inference: at the same time */
    int64_t cost_u, cost_high_u;    /* training: the job; inference: an hour; -1 not offered */
    int64_t cost_million_u;         /* inference: a million tokens, all sequences busy; -1 */
};
struct size_places {
    struct size_place *at; /* owned */
    size_t len, cap;
};

/* A change that makes the job smaller. */
struct size_way {
    const char *text; /* static, catalogue key: "activation checkpointing" */
    char flags[40];   /* to paste: "--checkpointing full" */
    struct size_range total;
    int64_t class_gib; /* the smallest usual card that then holds it; 0 none */
};
struct size_stage {
    const char *name, *why; /* static, catalogue keys */
    const char *flags;      /* static: what differs from the question, "" nothing */
    bool found;
    struct size_place place;
    int64_t hours;    /* to rent for, whole */
    int64_t cost_u;   /* of those hours; -1 not offered */
    int64_t disk_gib; /* data disk to ask for */
};
enum size_advice_kind {
    SIZE_ADVICE_QUANTISE,
    SIZE_ADVICE_QLORA,
    SIZE_ADVICE_CARD,
    SIZE_ADVICE_DISTIL
};
struct size_advice {
    enum size_advice_kind kind;
    char subject[SIZE_NAME_MAX]; /* a card, a model */
    int64_t need;                /* bytes it then needs */
    int64_t saves_u;             /* an hour; -1 unknown */
};

struct size_choice {
    struct size_places places; /* all counts that hold it, by count, then memory of the card */
    size_t small, cheap,
        fast; /* indexes into places; SIZE_MAX none. small: fewest, smallest, then quickest */
    struct size_way ways[SIZE_WAYS_MAX];
    size_t way_count;
    struct size_stage stage[SIZE_STAGES];
    size_t stage_count;
    struct size_advice advice[SIZE_ADVICE_MAX];
    size_t advice_count;
    struct size_disk disk;
};
/* offers: what this platform offers now; 0 of them when it is not known. ret_c is owned: fini. */
enum err size_choose(const struct size_ask *a, const struct offer *offers, size_t offer_count,
                     struct size_choice *ret_c, struct refusal *why);
void size_choice_fini(struct size_choice *f);
/* The smallest usual card (nominal GiB) that holds so many bytes; 0 none. */
int64_t size_class_gib(int64_t bytes);
/* Share of the card's published rate that training reaches, for --explain. */
double size_efficiency(const struct size_job *j, const struct card_row *card, int64_t count);
/* "suanli rent --gpu 'RTX 4090' --count 2 --disk data:100GiB --for 4h"; false (and "") when the
 * stage found nothing here to rent. */
#define SIZE_RENT_MAX 200
bool size_rent_line(const struct size_stage *s, char *buf, size_t size);
