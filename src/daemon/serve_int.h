/* serve_int.h: shared by the files of the daemon's server only. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "app/authn.h"
#include "app/feed.h"
#include "app/metrics.h"
#include "app/router.h"
#include "base/clock.h"
#include "daemon/serve.h"
#include "net/http.h"
#include "net/queue.h"

#define READERS_MAX 32
#define STREAMS_MAX 256

struct serve {
    struct daemon_config config;
    struct store *store;                 /* owned; the core thread's while it runs */
    struct core *core;                   /* owned; the same */
    struct http_server *_Atomic http;    /* requests may come before http_start has returned it */
    struct queue *inbox, *reads, *feeds; /* of struct call, struct call, struct stream */
    pthread_t core_thread, feed_thread, readers[READERS_MAX];
    int reader_count;
    bool core_runs, feed_runs;
    struct login_gate *gate; /* core thread */
    char boot[BOOT_ID_SIZE];
    enum lang lang;         /* of those who name none */
    char *openapi, *errors; /* owned; made once */
    utime_t started_ms;     /* wall */
    bool recovering;        /* core thread */
    int64_t heads_day;      /* core thread: the daily heads before it are in their file */
    atomic_bool recovery_told, failed;
    _Atomic int64_t core_beat_ms; /* boot clock of the last batch */
    _Atomic int64_t requests, refused, streams;
};

/* One request on its way from its HTTP thread to its answer. */
struct call {
    struct serve *s;
    struct http_exchange *x; /* NULL: only its token was used */
    struct route route;      /* row NULL: /metrics */
    json_t *body, *query;    /* owned */
    struct refusal why;      /* what is wrong with the arguments; told after authn */
    struct credentials cred;
    enum lang lang;
    char idem_key[TEXT_SIZE], request_id[ID_SIZE], peer[64];
    bool dry_run;
    bool open_to_all; /* /metrics: asked from this machine */
    utime_t boot_ms;
};

/* One open stream; the feed thread's. */
struct stream {
    struct http_stream *out;
    struct feed feed;
    struct credentials cred;
    const struct op_row *row;
    utime_t wrote_ms, checked_ms, looked_ms; /* boot clock */
};

/* serve.c */
struct core_now serve_now(const struct serve *s);
void call_free(struct call *c);
void call_refuse(struct call *c, const struct refusal *why);
enum err serve_open_reader(const struct serve *s, struct store **ret_store, struct refusal *why);
/* front.c: the http_config callbacks; user is the struct serve */
http_handler front_handle;
http_refuser front_refused;
http_body_max front_body_max;
/* streams.c */
void stream_open(struct call *c, struct store *reader, const struct principal *who); /* TAKES c */
void *feed_run(void *serve);
/* setup.c: what the core thread looks after between batches */
void setup_take_code(struct serve *s);
