/* feed.h: what a stream sends next: events and the output of an instance, as server-sent events.
 * Readers' threads, each with its own store; the daemon keeps the connections and the clock.
 *
 * Records: "id:" where to resume (Last-Event-ID), "event:" the kind, "data:" one line of JSON in
 * the shape of schemas.def (event, log_chunk). */
#pragma once

#include "app/core.h"

#define FEED_EVENTS_BATCH 200
#define FEED_LOG_BATCH (32 * 1024) /* bytes of output in one record */

enum feed_kind { FEED_EVENTS, FEED_LOGS };
struct feed {
    enum feed_kind kind;
    enum lang lang;
    bool follow;
    struct id project;  /* whose; FEED_EVENTS: empty for an operator, who sees everything */
    struct id instance; /* FEED_EVENTS: only this one, or empty; FEED_LOGS: whose output */
    struct id lease;    /* FEED_LOGS: whose output `after` counts in */
    int64_t after;      /* FEED_EVENTS: id of the last event sent; FEED_LOGS: next byte */
};

/* Reads the arguments of event_list or instance_logs; last_event_id of the query says where it goes
 * on. Refuses like an operation does. */
enum err feed_open(struct op *op, struct feed *ret_f);
/* Appends what is new to out, a bounded piece, and moves on. Nothing appended: there is nothing
 * new. ERR_STORE. */
enum err feed_next(struct feed *f, struct store *store, struct strbuf *out);
/* Nothing can come any more: not followed, or the instance has ended. Ask after an empty piece. */
enum err feed_ended(const struct feed *f, struct store *store, bool *ret_ended);
