/* replay.h: an operator's own history through the policies of the platform, here and without a
 * server. Shared by the readers and the two replays. */
#pragma once

#include "base/vec.h"
#include "cli/cli.h"

#define REPLAY_ROWS_MAX 4000000
#define REPLAY_COLUMNS_MAX 24

/* A file with a head line and commas between the fields; no quotes. */
struct csv {
    FILE *file; /* owned */
    const char *path;
    size_t line;
    char *text; /* owned */
    size_t size;
    char *field[REPLAY_COLUMNS_MAX]; /* of the line in text */
    size_t fields;
    int column[REPLAY_COLUMNS_MAX]; /* where each wanted column is; -1: not there */
};
/* wanted: names, NULL ends; the first `required` of them must be there. */
enum err csv_open(struct csv *f, const char *path, const char *const *wanted, size_t required,
                  struct refusal *ret_why);
/* The next line that is not empty; false at the end. */
bool csv_next(struct csv *f);
const char *csv_str(const struct csv *f, size_t column); /* "" when it is not there */
enum err csv_i64(const struct csv *f, size_t column, int64_t min, int64_t max, int64_t *ret_v,
                 struct refusal *ret_why);
enum err csv_wrong(const struct csv *f, const char *what, struct refusal *ret_why);
void csv_close(struct csv *f);
#define AUTO_CSV CLEANUP(csv_close)

/* "90%", "1.1": as a share; "recorded": 0. False: not such a number, or not in 0.01 … 100. */
bool replay_load(const char *text, double *ret_share);
double replay_cpu_ms(void); /* of this process */

/* What runs, by its end: v.at[0] is the next (when v.len > 0). vec_fini(&v) at the end. */
struct replay_end {
    int64_t at_s;
    int32_t item;
    uint32_t version; /* of the item's run; an older one was called back */
};
struct replay_ends {
    VEC(struct replay_end) v;
};
void replay_ends_push(struct replay_ends *h, struct replay_end e);
struct replay_end replay_ends_pop(struct replay_ends *h);

int replay_jobs(struct cli *c, struct call *call);
int replay_spot(struct cli *c, struct call *call);
