/* core.h: the control plane without I/O but the store: messages in, one transaction a batch,
 * answers out after the commit that makes them true.
 *
 *     core_submit(...) any number of times; core_run_batch(core, now): BEGIN; for each message
 *     SAVEPOINT, handler, RELEASE or ROLLBACK; COMMIT; then the replies. What arrives meanwhile is
 *     the next batch (group commit).
 *
 * Everything here belongs to the thread that owns the writing store; the daemon puts a bounded
 * queue in front. Time comes in with each batch, randomness through the id maker, so that a
 * simulator runs this very code. Operations with OPF_READ may instead be run by core_read() in a
 * reader's thread on its own read-only connection.
 *
 * A node_sync that asks to wait (wait_ms) is held by the core itself and answered when something
 * newer is wanted of that node or the time is over; run a batch at least once a second. */
#pragma once

#include "app/op.h"
#include "store/store.h"

struct core_config {
    char currency[CURRENCY_SIZE]; /* of new projects: "CNY" */
    char zone[NAME_SIZE];         /* billing zone of new projects: "Asia/Shanghai" */
    int64_t default_for_s;        /* when neither for, until nor no_end is given; 0: must be said */
    int64_t idle_s;               /* 1800 */
    int64_t stop_grace_ms;        /* 30000 */
    int64_t node_silent_ms;       /* 30000 */
    int64_t keep_stopped_ms;      /* 15 days */
    int64_t term_s;               /* 600 */
    int64_t system_disk_mib;      /* 20480, when nothing is said */
    int64_t seat_memory_mib;      /* memory per core of a seat when nothing is said: 2048 */
    int64_t scarcity_min_pct;     /* limits of the scarcity price of a model, 100 is even: 0 */
    int64_t scarcity_max_pct;     /* 400; 0: scarcity plays no part */
    int64_t spot_notice_s;        /* before a reclaimed run ends: 120 */
    int64_t spot_free_s;          /* a reclaim within that time costs nothing: 3600 */
    int64_t price_second_pct;     /* a larger change of a price needs two operators; 0: none */
    int64_t price_second_amount;  /* the same in whole units of the currency; 0: none */
    bool test_channel;            /* top-ups by a channel that nobody pays anything on */
    char ssh_user[NAME_SIZE];     /* "root" */
    char backup_dir[TEXT_SIZE];   /* "": backups are refused */
};
struct core_config core_config_default(void);

/* Both clocks at one moment (base/clock.h) and the boot they belong to. */
struct core_now {
    utime_t wall_ms, boot_ms;
    char boot[33];
};

struct core_reply {
    enum err code;             /* ERR_OK: answer is the JSON */
    const struct refusal *why; /* borrowed, with code != ERR_OK */
    const char *answer;        /* borrowed until the callback returns */
    size_t answer_len;
    bool replayed; /* by its Idempotency-Key */
};
typedef void core_reply_fn(void *user, const struct core_reply *r);

struct core_request {
    const struct op_row *row;
    struct principal who;
    enum lang lang;
    char request_id[ID_SIZE];
    char idem_key[TEXT_SIZE]; /* "" when the operation takes none */
    bool dry_run;
    char *path_arg[OP_PATH_ARGS_MAX]; /* owned, or NULL */
    json_t *body, *query;             /* owned; NULL counts as an empty object */
    utime_t boot_ms;                  /* arrival, on the clock of core_now.boot_ms */
    core_reply_fn *reply;             /* called once, after the commit; never NULL */
    void *reply_user;
};

struct core;
/* Reads the ledger clock and the alarm from the store (migrated already). store: borrowed, the
 * writing one. ids: copied. ERR_STORE. */
enum err core_init(struct core **ret_c, struct store *store, const struct core_config *config,
                   struct id_maker ids, const struct core_now *now, struct refusal *why);
/* Unanswered messages get ERR_UNAVAILABLE. */
void core_fini(struct core *c);

/* Takes the request's owned parts, always. ERR_BUSY when CORE_PENDING_MAX wait: nothing was kept
 * but the owned parts are freed and reply is not called. */
#define CORE_PENDING_MAX 1024
enum err core_submit(struct core *c, struct core_request *r);
/* One transaction over all that was submitted, a tick when one is due, then the replies.
 * ERR_STORE: nothing of the batch happened, its requests were refused so; when store_is_broken()
 * the process should end. */
enum err core_run_batch(struct core *c, const struct core_now *now, struct refusal *why);
/* ms of core_now.boot_ms at which the next batch is due when nothing arrives before. */
utime_t core_next_ms(const struct core *c);
/* Answers OPF_READ operations from a reader's connection; any thread with its own store. */
void core_read(const struct core *c, struct store *reader, const struct core_request *r,
               const struct core_now *now);
void core_request_fini(struct core_request *r); /* frees the owned parts */

/* For handlers. */
const struct core_config *core_config_of(const struct core *c);
struct id core_id(struct core *c, const char *prefix);
void core_random(struct core *c, void *buf, size_t size); /* for secrets */
bool core_clock_alarm(const struct core *c); /* a step of the clock: no new starts (B22) */
enum err core_clock_clear(struct op *op);    /* by check_run clear_clock */
/* Ids of the last event that is committed; the feed's readers wait for it to grow. Any thread. */
int64_t core_event_last(const struct core *c);

/* Counters for /metrics; any thread. */
struct core_stats {
    int64_t batches, messages, refused, replayed, ticks, commit_failures;
    int64_t held; /* node_sync requests that wait */
};
void core_stats_get(const struct core *c, struct core_stats *ret_s);
