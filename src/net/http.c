#include "net/http.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "net/queue.h"

#define FD_MAX 65536
#define HEADER_BYTES_MAX (32 * 1024)
#define URI_MAX 4096
#define STREAM_CHUNKS_MAX 512
#define REAP_MS 500
#define REPLY_MS_MAX (120 * MS_PER_S)

struct http_server {
    struct http_config config;
    struct MHD_Daemon *tcp, *local; /* owned */
    char unix_path[108];
    uint16_t port;
    bool tls;
    pthread_t reaper;
    bool reaper_runs;
    struct queue *stop; /* owned; closed when the reaper should end */
    atomic_size_t connections;
    /* By descriptor: boot-clock ms by which its present phase must be over; 0: no limit. */
    _Atomic int64_t deadline[FD_MAX];
};

struct chunk {
    size_t len;
    char data[];
};

struct http_stream {
    struct queue *chunks; /* owned; closed: the writer is done */
    struct MHD_Connection *conn;
    /* Who turns it from true to false resumes the connection; while it is true the connection
     * cannot go away. */
    atomic_bool suspended;
    atomic_bool gone;
    atomic_int refs;
    struct chunk *now; /* owned by the HTTP thread */
    size_t sent;
};

struct http_exchange {
    struct http_server *server; /* borrowed */
    struct MHD_Connection *conn;
    char *uri; /* owned; path and query point into it */
    struct http_request req;
    char request_id[ID_SIZE];
    struct strbuf body;
    size_t body_seen;
    bool begun, parked, handled;
    /* the answer */
    bool answered;
    int status;
    char *reply; /* owned */
    size_t reply_len;
    char type[64];
    char header_name[HTTP_HEADERS_MAX][48], header_value[HTTP_HEADERS_MAX][256];
    size_t header_count;
    struct http_stream *stream; /* until send_answer: the library's share is ours to drop */
};

static int64_t now_ms(void)
{
    struct clock *c = clock_system();

    return c->boot_ms(c);
}

static int conn_fd(struct MHD_Connection *conn)
{
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);

    return i && i->connect_fd >= 0 && i->connect_fd < FD_MAX ? i->connect_fd : -1;
}

static void set_deadline(struct http_server *s, struct MHD_Connection *conn, int64_t in_ms)
{
    int fd = conn_fd(conn);

    if (fd >= 0)
        atomic_store(&s->deadline[fd], in_ms ? now_ms() + in_ms : 0);
}

/* streams */

static void stream_unref(struct http_stream *st)
{
    void *c;

    if (atomic_fetch_sub(&st->refs, 1) != 1)
        return;
    while (queue_pop(st->chunks, &c, 1, 0) == 1)
        free(c);
    queue_free(st->chunks);
    free(st->now);
    free(st);
}

static void stream_gone(void *user)
{
    struct http_stream *st = user;

    atomic_store(&st->gone, true);
    stream_unref(st);
}

static void stream_kick(struct http_stream *st)
{
    if (atomic_exchange(&st->suspended, false))
        MHD_resume_connection(st->conn);
}

static ssize_t stream_read(void *user, uint64_t pos UNUSED, char *buf, size_t max)
{
    struct http_stream *st = user;
    void *item;

    if (!st->now) {
        if (queue_pop(st->chunks, &item, 1, 0) == 1) {
            st->now = item;
            st->sent = 0;
        } else if (queue_closed(st->chunks) && queue_len(st->chunks) == 0) {
            return MHD_CONTENT_READER_END_OF_STREAM;
        } else {
            MHD_suspend_connection(st->conn);
            atomic_store(&st->suspended, true);
            /* The writer may have come between the look and the suspend. */
            if (queue_len(st->chunks) > 0 || queue_closed(st->chunks))
                stream_kick(st);
            return 0;
        }
    }
    size_t n = MIN(max, st->now->len - st->sent);
    memcpy(buf, st->now->data + st->sent, n);
    st->sent += n;
    if (st->sent == st->now->len) {
        free(st->now);
        st->now = NULL;
    }
    return (ssize_t)n;
}

struct http_stream *http_stream_start(struct http_exchange *x, const char *type)
{
    struct http_stream *st = mem_alloc(sizeof(*st));

    CHECK(!x->answered);
    st->chunks = queue_new(STREAM_CHUNKS_MAX);
    st->conn = x->conn;
    atomic_store(&st->refs, 2);
    x->stream = st;
    x->status = MHD_HTTP_OK;
    CHECK(str_copy(x->type, sizeof(x->type), type));
    x->answered = true;
    if (x->parked)
        MHD_resume_connection(x->conn);
    return st;
}

bool http_stream_write(struct http_stream *st, const char *data, size_t len)
{
    if (atomic_load(&st->gone))
        return false;
    if (len == 0)
        return true;
    struct chunk *c = mem_alloc(sizeof(*c) + len);
    c->len = len;
    memcpy(c->data, data, len);
    if (!queue_push(st->chunks, c)) {
        free(c);
        return false;
    }
    stream_kick(st);
    return true;
}

bool http_stream_gone(struct http_stream *st)
{
    if (atomic_load(&st->gone))
        return true;
    /* Who holds the mark keeps the connection suspended, so its descriptor cannot go away. */
    if (!atomic_exchange(&st->suspended, false))
        return false;
    struct pollfd p = {.fd = conn_fd(st->conn), .events = POLLRDHUP};
    bool closed = poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
    atomic_store(&st->suspended, true);
    /* The HTTP thread may have wanted to go on meanwhile. */
    if (queue_len(st->chunks) > 0)
        stream_kick(st);
    return closed;
}

size_t http_stream_room(const struct http_stream *st)
{
    size_t used = queue_len(st->chunks);

    return atomic_load(&st->gone) || used >= STREAM_CHUNKS_MAX ? 0 : STREAM_CHUNKS_MAX - used;
}

void http_stream_end(struct http_stream *st)
{
    queue_close(st->chunks);
    stream_kick(st);
    stream_unref(st);
}

/* one exchange */

const struct http_request *http_request(const struct http_exchange *x)
{
    return &x->req;
}

const char *http_request_id(const struct http_exchange *x)
{
    return x->request_id;
}

void http_park(struct http_exchange *x)
{
    CHECK(!x->parked && !x->answered);
    x->parked = true;
    MHD_suspend_connection(x->conn);
}

void http_reply(struct http_exchange *x, int status, const char *type, char *body, size_t len,
                const struct http_header *headers, size_t header_count)
{
    CHECK(!x->answered && header_count <= HTTP_HEADERS_MAX);
    x->status = status;
    CHECK(str_copy(x->type, sizeof(x->type), type));
    x->reply = body;
    x->reply_len = len;
    for (size_t i = 0; i < header_count; i++) {
        CHECK(str_copy(x->header_name[i], sizeof(x->header_name[i]), headers[i].name));
        CHECK(str_copy(x->header_value[i], sizeof(x->header_value[i]), headers[i].value));
    }
    x->header_count = header_count;
    x->answered = true;
    if (x->parked)
        MHD_resume_connection(x->conn);
}

static void add_headers(struct http_exchange *x, struct MHD_Response *r)
{
    (void)MHD_add_response_header(r, "Content-Type", x->type);
    (void)MHD_add_response_header(r, "X-Request-Id", x->request_id);
    (void)MHD_add_response_header(r, "Cache-Control", "no-store");
    (void)MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(r, "Content-Security-Policy",
                                  "default-src 'none'; frame-ancestors 'none'");
    (void)MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    if (x->server->tls)
        (void)MHD_add_response_header(r, "Strict-Transport-Security", "max-age=31536000");
    for (size_t i = 0; i < x->header_count; i++)
        (void)MHD_add_response_header(r, x->header_name[i], x->header_value[i]);
}

static enum MHD_Result send_answer(struct http_exchange *x)
{
    struct MHD_Response *r;

    if (x->stream) {
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 * 1024, stream_read,
                                              TAKE(x->stream), stream_gone);
        set_deadline(x->server, x->conn, 0);
    } else {
        r = MHD_create_response_from_buffer(x->reply_len, TAKE(x->reply), MHD_RESPMEM_MUST_FREE);
        set_deadline(x->server, x->conn, REPLY_MS_MAX);
    }
    CHECK(r);
    add_headers(x, r);
    enum MHD_Result ok = MHD_queue_response(x->conn, (unsigned)x->status, r);
    MHD_destroy_response(r);
    return ok;
}

static enum MHD_Result refuse_now(struct http_exchange *x, int status)
{
    char *body = x->server->config.refused(x->server->config.user, &x->req, status, x->request_id);
    struct http_header close_it = {"Connection", "close"};

    http_reply(x, status, "application/problem+json", body, strlen(body), &close_it, 1);
    return send_answer(x);
}

/* Walks the headers once: copies those we know, notes what is doubled or too long. */
struct header_walk {
    struct http_request *req;
    bool bad, large;
    unsigned lengths, encodings;
    uint64_t length;
};

static void take_header(struct header_walk *w, char *buf, size_t size, const char *value)
{
    if (buf[0])
        w->bad = true;
    else if (!str_copy(buf, size, value))
        w->large = true;
}

static enum MHD_Result walk_header(void *user, enum MHD_ValueKind kind UNUSED, const char *name,
                                   const char *value)
{
    struct header_walk *w = user;
    struct http_request *q = w->req;
    const struct {
        const char *name;
        char *buf;
        size_t size;
    } known[] = {
        {"Authorization", q->authorization, sizeof(q->authorization)},
        {"Accept-Language", q->language, sizeof(q->language)},
        {"Idempotency-Key", q->idempotency_key, sizeof(q->idempotency_key)},
        {"X-Suanli-Project", q->project, sizeof(q->project)},
        {"Last-Event-ID", q->last_event_id, sizeof(q->last_event_id)},
        {"Content-Type", q->content_type, sizeof(q->content_type)},
    };

    if (!value)
        value = "";
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcasecmp(name, known[i].name) == 0)
            take_header(w, known[i].buf, known[i].size, value);
    if (strcasecmp(name, "Content-Length") == 0) {
        int64_t n = 0;
        w->lengths++;
        w->bad = w->bad || str_parse_i64(value, 0, INT64_MAX, &n) != ERR_OK;
        w->length = (uint64_t)n;
    }
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        w->encodings++;
        w->bad = w->bad || strcasecmp(value, "chunked") != 0;
    }
    return MHD_YES;
}

static void set_peer(struct http_exchange *x)
{
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(x->conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = i ? i->client_addr : NULL;
    const char *ok = NULL;

    if (a && a->sa_family == AF_INET)
        ok = inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr,
                       x->req.peer, sizeof(x->req.peer));
    else if (a && a->sa_family == AF_INET6)
        ok = inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                       x->req.peer, sizeof(x->req.peer));
    if (!ok)
        CHECK(str_copy(x->req.peer, sizeof(x->req.peer), "unix"));
}

/* Headers are here, the body is not yet. */
static enum MHD_Result begin(struct http_exchange *x, struct MHD_Connection *conn,
                             const char *method)
{
    const struct http_config *c = &x->server->config;
    struct header_walk w = {.req = &x->req};

    x->begun = true;
    x->conn = conn;
    set_peer(x);
    (void)MHD_get_connection_values(conn, MHD_HEADER_KIND, walk_header, &w);
    if (!str_copy(x->req.method, sizeof(x->req.method), method))
        return refuse_now(x, MHD_HTTP_METHOD_NOT_ALLOWED);
    if (!x->uri || strlen(x->uri) > URI_MAX)
        return refuse_now(x, MHD_HTTP_URI_TOO_LONG);
    if (w.bad || w.lengths > 1 || w.encodings > 1 || (w.lengths && w.encodings))
        return refuse_now(x, MHD_HTTP_BAD_REQUEST);
    if (w.large)
        return refuse_now(x, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE);
    size_t max = c->body_max(c->user, x->req.method, x->req.path);
    strbuf_init(&x->body, max + 1);
    if (w.length > max)
        return refuse_now(x, MHD_HTTP_CONTENT_TOO_LARGE);
    return MHD_YES;
}

static enum MHD_Result take_body(struct http_exchange *x, const char *data, size_t *size)
{
    x->body_seen += *size;
    /* A chunked body says its size only by coming: read on a little to be able to answer. */
    if (x->body_seen > 2 * x->body.max + 65536)
        return MHD_NO;
    if (x->body_seen < x->body.max)
        strbuf_add_n(&x->body, data, *size);
    *size = 0;
    return MHD_YES;
}

static enum MHD_Result access_request(void *user, struct MHD_Connection *conn,
                                      const char *url UNUSED, const char *method,
                                      const char *version UNUSED, const char *data, size_t *size,
                                      void **cls)
{
    struct http_exchange *x = *cls;
    struct http_server *s = user;

    if (!x)
        return MHD_NO;
    if (x->answered)
        return send_answer(x);
    if (!x->begun)
        return begin(x, conn, method);
    if (*size > 0)
        return take_body(x, data, size);
    CHECK(!x->handled);
    x->handled = true;
    set_deadline(s, conn, 0);
    if (x->body_seen >= x->body.max)
        return refuse_now(x, MHD_HTTP_CONTENT_TOO_LARGE);
    x->req.body = strbuf_str(&x->body);
    x->req.body_len = x->body.len;
    s->config.handle(s->config.user, x);
    if (x->parked)
        return MHD_YES; /* we are called again when it was resumed, with the answer */
    CHECK(x->answered);
    return send_answer(x);
}

/* Called with the request line: the birth of an exchange. */
static void *begin_uri(void *user, const char *uri, struct MHD_Connection *conn)
{
    struct http_server *s = user;
    struct http_exchange *x = mem_alloc(sizeof(*x));
    struct id_maker maker = id_maker_system();
    struct id id = id_make(&maker, "req");

    x->server = s;
    x->conn = conn;
    x->uri = mem_strdup(uri);
    x->req.path = x->uri;
    x->req.query = "";
    x->req.body = "";
    char *mark = strchr(x->uri, '?');
    if (mark) {
        *mark = '\0';
        x->req.query = mark + 1;
    }
    memcpy(x->request_id, id.s, sizeof(x->request_id));
    set_deadline(s, conn, s->config.request_ms_max);
    return x;
}

static void request_done(void *user, struct MHD_Connection *conn, void **cls,
                         enum MHD_RequestTerminationCode why UNUSED)
{
    struct http_server *s = user;
    struct http_exchange *x = *cls;

    set_deadline(s, conn, s->config.idle_ms_max + s->config.request_ms_max);
    if (!x)
        return;
    *cls = NULL;
    /* The client went between the answer and its sending. */
    if (x->stream)
        stream_gone(x->stream);
    free(x->reply);
    free(x->uri);
    strbuf_fini(&x->body);
    free(x);
}

static void connection_notice(void *user, struct MHD_Connection *conn, void **cls UNUSED,
                              enum MHD_ConnectionNotificationCode code)
{
    struct http_server *s = user;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        atomic_fetch_add(&s->connections, 1);
        set_deadline(s, conn, s->config.request_ms_max);
    } else {
        atomic_fetch_sub(&s->connections, 1);
        set_deadline(s, conn, 0);
    }
}

/* Cuts those who drip: libmicrohttpd's own time limit starts again with each byte. */
static void *reap(void *user)
{
    struct http_server *s = user;

    void *nothing;

    while (!queue_closed(s->stop)) {
        int64_t now = now_ms();
        for (int fd = 0; fd < FD_MAX; fd++) {
            int64_t d = atomic_load_explicit(&s->deadline[fd], memory_order_relaxed);
            if (d != 0 && d < now && atomic_compare_exchange_strong(&s->deadline[fd], &d, 0))
                (void)shutdown(fd, SHUT_RDWR);
        }
        (void)queue_pop(s->stop, &nothing, 1, REAP_MS);
    }
    return NULL;
}

/* The path stays as it was sent; the router decodes segment by segment. */
static size_t no_unescape(void *user UNUSED, struct MHD_Connection *conn UNUSED, char *s)
{
    return strlen(s);
}

static void library_log(void *user UNUSED, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);
static void library_log(void *user UNUSED, const char *fmt, va_list ap)
{
    char line[256];

    (void)vsnprintf(line, sizeof(line), fmt, ap);
    line[strcspn(line, "\n")] = '\0';
    log_debug("event=http_library text=\"%s\"", line);
}

static struct MHD_Daemon *start_daemon(struct http_server *s, int fd, bool tls)
{
    const struct http_config *c = &s->config;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    /* One address does not take every place; most of them, as it may be a proxy. */
    unsigned per_address = c->connections_max - c->connections_max / 4;
    struct MHD_OptionItem more[4] = {{MHD_OPTION_END, 0, NULL}};

    if (tls) {
        flags |= MHD_USE_TLS;
        more[0] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)c->cert_pem};
        more[1] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)c->key_pem};
        more[2] = (struct MHD_OptionItem){
            MHD_OPTION_HTTPS_PRIORITIES, 0,
            (void *)(uintptr_t) "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE"};
        more[3] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    }
    return MHD_start_daemon(
        flags, 0, NULL, NULL, access_request, s, MHD_OPTION_EXTERNAL_LOGGER, library_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE, c->threads,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, per_address, MHD_OPTION_CONNECTION_LIMIT,
        c->connections_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(c->idle_ms_max / MS_PER_S),
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED, request_done, s,
        MHD_OPTION_NOTIFY_CONNECTION, connection_notice, s, MHD_OPTION_URI_LOG_CALLBACK, begin_uri,
        s, MHD_OPTION_UNESCAPE_CALLBACK, no_unescape, NULL, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
}

static enum err system_error(struct refusal *why, const char *call)
{
    int number = errno;
    enum err e = refusef(why, ERR_SYSTEM, "call", "%s", call);

    refusal_set(why, "why", strerror(number));
    return e;
}

struct address {
    struct sockaddr_storage a;
    socklen_t len;
    bool loopback;
};

static bool address_parse(const char *host, uint16_t port, struct address *ret_a)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    memset(ret_a, 0, sizeof(*ret_a));
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(&ret_a->a, &v4, ret_a->len = sizeof(v4));
        ret_a->loopback = (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(&ret_a->a, &v6, ret_a->len = sizeof(v6));
        ret_a->loopback = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
        return true;
    }
    return false;
}

static enum err listen_tcp(struct http_server *s, int *ret_fd, struct refusal *why)
{
    AUTO_CLOSE int fd = -1;
    struct address at;
    int one = 1;

    if (!address_parse(s->config.host, s->config.port, &at)) {
        enum err e = refusef(why, ERR_VALIDATION, "field", "listen");
        refusal_setf(why, "why", "%s is not a numeric address", s->config.host);
        return e;
    }
    if (!at.loopback && !s->config.cert_pem) {
        enum err e = refusef(why, ERR_VALIDATION, "field", "listen");
        refusal_setf(why, "why", "%s is not loopback and needs tls_cert and tls_key",
                     s->config.host);
        return e;
    }
    fd = socket(at.a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
        return system_error(why, "socket");
    if (bind(fd, (struct sockaddr *)(void *)&at.a, at.len) < 0)
        return system_error(why, "bind");
    if (listen(fd, 1024) < 0 || getsockname(fd, (struct sockaddr *)(void *)&at.a, &at.len) < 0)
        return system_error(why, "listen");
    s->port = ntohs(at.a.ss_family == AF_INET ? ((struct sockaddr_in *)(void *)&at.a)->sin_port
                                              : ((struct sockaddr_in6 *)(void *)&at.a)->sin6_port);
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

static enum err listen_unix(struct http_server *s, int *ret_fd, struct refusal *why)
{
    AUTO_CLOSE int fd = -1;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat st;

    if (!str_copy(at.sun_path, sizeof(at.sun_path), s->config.unix_path)) {
        enum err e = refusef(why, ERR_VALIDATION, "field", "unix_socket");
        refusal_set(why, "why", "the path is longer than 107 bytes");
        return e;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return system_error(why, "socket");
    /* The store's lock was taken before: whoever left a socket here is not running any more. */
    if (lstat(at.sun_path, &st) == 0 && S_ISSOCK(st.st_mode) && unlink(at.sun_path) < 0)
        return system_error(why, "unlink");
    if (bind(fd, (struct sockaddr *)(void *)&at, sizeof(at)) < 0)
        return system_error(why, "bind");
    /* As open as loopback is: who connects still needs a token. */
    if (chmod(at.sun_path, 0666) < 0 || listen(fd, 256) < 0)
        return system_error(why, "listen");
    memcpy(s->unix_path, at.sun_path, sizeof(s->unix_path));
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

static enum err start_all(struct http_server *s, struct refusal *why)
{
    int fd = -1;

    if (s->config.host) {
        TRY(listen_tcp(s, &fd, why));
        s->tcp = start_daemon(s, fd, s->config.cert_pem != NULL);
        if (!s->tcp) {
            (void)close(fd);
            enum err e = refusef(why, ERR_VALIDATION, "field", "tls_cert");
            refusal_set(why, "why", "the server did not start: check tls_cert and tls_key");
            return e;
        }
    }
    if (s->config.unix_path) {
        TRY(listen_unix(s, &fd, why));
        s->local = start_daemon(s, fd, false);
        if (!s->local) {
            (void)close(fd);
            return system_error(why, "MHD_start_daemon");
        }
    }
    if (pthread_create(&s->reaper, NULL, reap, s) != 0)
        return system_error(why, "pthread_create");
    s->reaper_runs = true;
    return ERR_OK;
}

enum err http_start(const struct http_config *config, struct http_server **ret_s,
                    struct refusal *why)
{
    struct http_server *s = mem_alloc(sizeof(*s));

    CHECK(config->handle && config->refused && config->body_max && config->threads > 0);
    s->config = *config;
    s->stop = queue_new(1);
    s->tls = config->cert_pem != NULL;
    enum err e = start_all(s, why);
    if (e != ERR_OK) {
        http_stop(s);
        return e;
    }
    s->config.cert_pem = s->config.key_pem = NULL; /* the library has its own copies */
    *ret_s = s;
    return ERR_OK;
}

uint16_t http_port(const struct http_server *s)
{
    return s->port;
}

size_t http_connections(const struct http_server *s)
{
    return atomic_load(&s->connections);
}

static void quiesce_one(struct MHD_Daemon *d)
{
    int fd = d ? MHD_quiesce_daemon(d) : -1;

    if (fd >= 0)
        (void)close(fd);
}

void http_quiesce(struct http_server *s)
{
    quiesce_one(s->tcp);
    quiesce_one(s->local);
    if (s->unix_path[0])
        (void)unlink(s->unix_path);
    s->unix_path[0] = '\0';
}

void http_stop(struct http_server *s)
{
    if (!s)
        return;
    queue_close(s->stop);
    if (s->reaper_runs)
        (void)pthread_join(s->reaper, NULL);
    if (s->tcp)
        MHD_stop_daemon(s->tcp);
    if (s->local)
        MHD_stop_daemon(s->local);
    if (s->unix_path[0])
        (void)unlink(s->unix_path);
    queue_free(s->stop);
    free(s);
}
