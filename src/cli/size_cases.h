/* size_cases.h: published and measured cases of memory use (tests/golden/sizing-cases.tsv is such a
 * file): what each row was, what the estimate says of it, and how far off that is. Used by
 * `suanli size --cases` and by tools/size-fit, which must not see things differently. */
#pragma once

#include <stdio.h>

#include "domain/size.h"

#define CASES_MAX 20000
#define CASE_LINE_MAX 8192

/* What a row's figure is of. The first six have goals. */
enum case_family {
    CASE_EXACT, /* weights, files, caches, buffers */
    CASE_INFER,
    CASE_LORA,
    CASE_QLORA,
    CASE_FULL,
    CASE_BUDGET, /* what an engine leaves for its cache; errors are shares of the card */
    CASE_PRETRAIN,
    CASE_FAMILIES
};

struct size_case {
    char id[16], model_name[96], task[32], settings[1024], measures[160], note[160], group[96],
        kind[32];
    char family_name[24];
    int64_t bytes, resolution;
    enum case_family family;
    bool known;       /* can be estimated */
    bool scored;      /* measured, and of something with a goal */
    const char *skip; /* static: why it is not scored */
    struct size_model model;
    struct size_job job;
    double times;                         /* cards the figure is summed over */
    double exact;                         /* CASE_EXACT: predicted from sizes alone */
    int64_t card;                         /* CASE_BUDGET */
    bool load_only;                       /* the figure is taken after loading */
    bool states_only;                     /* or between two steps */
    bool length_unsaid, recompute_unsaid; /* assumed: the interval spans what else it may be */
    bool settled;                         /* or long after it: its peak is not in it */
};

/* Rows of a file, owned by the caller (free). Refused: ERR_VALIDATION with line and reason. */
enum err cases_read(FILE *f, const char *name, struct size_case **ret_c, size_t *ret_n,
                    struct refusal *why);
/* The estimate of one case with these constants; false when there is none. */
bool case_estimate(const struct size_case *c, const double coef[SIZE_COEFS],
                   const struct size_spread *spread, struct size_range *ret_r);
const char *case_family_name(enum case_family f);

/* One row judged. Rows of a group that the constants were fitted to are judged by those fitted
 * without it: a model is never scored by its own figures. */
struct case_verdict {
    struct size_range predicted;
    double error; /* predicted over measured, less 1; an engine's budget: of the card's memory */
    bool left_out, inside;
    bool unsafe; /* the high end, by which a verdict goes, is more than 5 % too low (peaks only) */
};
/* False when the case cannot be estimated. */
bool case_judge(const struct size_case *c, struct case_verdict *ret_v);

struct case_score {
    int64_t n, inside, unsafe, left_out;
    double mean, median, p90; /* of the error's size */
};
/* Of the scored rows, by family. */
void cases_score(const struct size_case *c, size_t n, struct case_score ret_s[CASE_FAMILIES]);
struct case_goal {
    double median, p90; /* 0: none */
};
struct case_goal case_goal(enum case_family f);
