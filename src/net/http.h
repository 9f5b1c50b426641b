/* http.h: HTTP/1.1 in front, by libmicrohttpd: sockets, TLS, limits, long polls and streams. Knows
 * no route and no store.
 *
 * A request arrives whole (headers and body, both bounded) in one of the HTTP threads. The handler
 * answers on the spot with http_reply(), or calls http_park() first and answers later from any
 * thread; a parked exchange costs no thread. Every exchange is answered exactly once. */
#pragma once

#include "base/err.h"
#include "base/mem.h"

#define HTTP_HEADERS_MAX 8
#define HTTP_VALUE_MAX 512

struct http_server;
struct http_exchange;

/* Valid until the answer. Empty string = absent. Values longer than their array are refused with
 * 431 before the handler is called, doubled ones with 400. */
struct http_request {
    char method[12];
    const char *path;  /* as sent, not decoded, without the query; borrowed */
    const char *query; /* as sent, after the '?'; "" when absent; borrowed */
    const char *body;  /* body_len bytes and a NUL; borrowed */
    size_t body_len;
    char authorization[HTTP_VALUE_MAX], language[HTTP_VALUE_MAX], idempotency_key[HTTP_VALUE_MAX];
    char project[HTTP_VALUE_MAX], last_event_id[64], content_type[128];
    char peer[64]; /* numeric address; "unix" over the Unix socket */
};

typedef void http_handler(void *user, struct http_exchange *x);
/* What is wrong with a request that never reaches the handler; writes the body of the answer. */
typedef char *http_refuser(void *user, const struct http_request *r, int status,
                           const char *request_id);
/* Largest body for this path; asked before the body is read. */
typedef size_t http_body_max(void *user, const char *method, const char *path);

struct http_config {
    const char *host;               /* numeric address; NULL: no TCP */
    uint16_t port;                  /* 0: chosen by the kernel, see http_port() */
    const char *unix_path;          /* NULL: no Unix socket; a stale one is replaced */
    const char *cert_pem, *key_pem; /* NULL: plain, allowed on loopback only */
    unsigned threads, connections_max;
    int64_t request_ms_max; /* from the first byte to the last of a request */
    int64_t idle_ms_max;
    http_handler *handle;
    http_refuser *refused;
    http_body_max *body_max;
    void *user; /* borrowed */
};

struct http_header {
    const char *name, *value; /* copied */
};

/* ERR_SYSTEM (call, why), ERR_VALIDATION (plain TCP on an address that is not loopback, bad TLS).
 */
enum err http_start(const struct http_config *config, struct http_server **ret_s,
                    struct refusal *why);
uint16_t http_port(const struct http_server *s);
size_t http_connections(const struct http_server *s);
/* No new connections from now on; parked exchanges must still be answered. */
void http_quiesce(struct http_server *s);
/* Everything was answered and every stream ended. */
void http_stop(struct http_server *s);

const struct http_request *http_request(const struct http_exchange *x);
const char *http_request_id(const struct http_exchange *x);
/* Owner's mark on the exchange; borrowed. */
void http_park(struct http_exchange *x);
/* body: TAKE, from malloc; NULL with len 0. Headers beside the standard ones, at most
 * HTTP_HEADERS_MAX. Afterwards x is gone for the caller. */
void http_reply(struct http_exchange *x, int status, const char *type, char *body, size_t len,
                const struct http_header *headers, size_t header_count);

/* Streams. http_stream_start() is the answer; the exchange becomes a stream that one thread at a
 * time writes. */
struct http_stream;
struct http_stream *http_stream_start(struct http_exchange *x, const char *type);
/* Copies. false: the client has gone or does not keep up; only http_stream_end() is left to do. */
bool http_stream_write(struct http_stream *st, const char *data, size_t len);
/* The client has hung up. The writing thread only; ask now and then. */
bool http_stream_gone(struct http_stream *st);
/* Free places for writes before a slow client is given up. */
size_t http_stream_room(const struct http_stream *st);
void http_stream_end(struct http_stream *st); /* st is gone */
