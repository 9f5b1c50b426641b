/* streams.c: open server-sent-event streams. One thread looks for what is new and writes it; a
 * client that does not keep up is cut and resumes with Last-Event-ID. */
#include "base/log.h"
#include "daemon/serve_int.h"

#define LOOK_MS 200
#define HEARTBEAT_MS (15 * MS_PER_S)
#define RECHECK_MS MS_PER_S
#define PIECE_MAX (4 * 1024 * 1024)
#define ROOM_LEAST 4

static enum err open_feed(struct call *c, struct store *reader, const struct principal *who,
                          struct feed *ret_f, struct refusal *why)
{
    struct op op = {.row = c->route.row,
                    .core = c->s->core,
                    .store = reader,
                    .now = serve_now(c->s).wall_ms,
                    .lang = c->lang,
                    .who = *who,
                    .body = c->body,
                    .query = c->query};

    for (size_t i = 0; i < OP_PATH_ARGS_MAX; i++)
        op.path_arg[i] = c->route.path_arg[i];
    memcpy(op.request_id, c->request_id, sizeof(op.request_id));
    enum err e = feed_open(&op, ret_f);
    *why = op.why;
    return e;
}

void stream_open(struct call *c, struct store *reader, const struct principal *who)
{
    struct serve *s = c->s;
    struct stream *st = mem_alloc(sizeof(*st));
    struct refusal why = {0};

    enum err e = open_feed(c, reader, who, &st->feed, &why);
    if (e == ERR_OK && atomic_fetch_add(&s->streams, 1) >= STREAMS_MAX) {
        atomic_fetch_sub(&s->streams, 1);
        e = refuse(&why, ERR_BUSY);
    }
    if (e != ERR_OK) {
        mem_free_ptr(&st);
        call_refuse(c, &why);
        return;
    }
    st->row = c->route.row;
    st->cred = c->cred;
    st->wrote_ms = st->checked_ms = c->boot_ms;
    struct http_exchange *x = c->x;
    call_free(c);
    st->out = http_stream_start(x, "text/event-stream");
    if (!queue_push(s->feeds, st)) {
        http_stream_end(st->out);
        atomic_fetch_sub(&s->streams, 1);
        mem_free_ptr(&st);
    }
}

/* A token that was revoked or has expired ends its streams as well. */
static bool may_still(struct serve *s, struct store *store, struct stream *st, utime_t boot_ms)
{
    struct principal who;
    struct refusal why = {0};

    if (boot_ms - st->checked_ms < RECHECK_MS)
        return true;
    st->checked_ms = boot_ms;
    return authn_check(store, st->row, &st->cred, serve_now(s).wall_ms, &who, NULL, &why) == ERR_OK;
}

/* False: the stream is over. */
static bool feed_one(struct serve *s, struct store *store, struct stream *st, struct strbuf *piece)
{
    utime_t boot_ms = serve_now(s).boot_ms;
    bool ended = false;

    if (http_stream_gone(st->out) || !may_still(s, store, st, boot_ms))
        return false;
    while (http_stream_room(st->out) >= ROOM_LEAST) {
        strbuf_reset(piece);
        if (feed_next(&st->feed, store, piece) != ERR_OK || piece->overflow)
            return false;
        if (piece->len == 0) {
            if (feed_ended(&st->feed, store, &ended) != ERR_OK || ended)
                return false;
            break;
        }
        if (!http_stream_write(st->out, piece->data, piece->len))
            return false;
        st->wrote_ms = boot_ms;
    }
    if (boot_ms - st->wrote_ms >= HEARTBEAT_MS) {
        st->wrote_ms = boot_ms;
        return http_stream_write(st->out, ":\n\n", 3);
    }
    return true;
}

static void stream_end(struct serve *s, struct stream *st)
{
    http_stream_end(st->out);
    atomic_fetch_sub(&s->streams, 1);
    mem_free_ptr(&st);
}

void *feed_run(void *user)
{
    struct serve *s = user;
    struct stream *open[STREAMS_MAX];
    struct store *store = NULL;
    struct refusal why = {0};
    struct strbuf piece;
    size_t n = 0;

    bool good = serve_open_reader(s, &store, &why) == ERR_OK;
    if (!good)
        log_error("event=feed_store_failed");
    strbuf_init(&piece, PIECE_MAX);
    while (!queue_closed(s->feeds)) {
        void *item;
        int64_t wait = n ? LOOK_MS : MS_PER_S;
        while (n < STREAMS_MAX && queue_pop(s->feeds, &item, 1, wait) == 1) {
            open[n++] = item;
            wait = 0;
        }
        for (size_t i = 0; i < n;)
            if (good && feed_one(s, store, open[i], &piece)) {
                i++;
            } else {
                stream_end(s, open[i]);
                open[i] = open[--n];
            }
    }
    for (size_t i = 0; i < n; i++)
        stream_end(s, open[i]);
    for (void *item; queue_pop(s->feeds, &item, 1, 0) == 1;)
        stream_end(s, item);
    strbuf_fini(&piece);
    store_close(store);
    return NULL;
}
