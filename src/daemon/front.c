/* front.c: what happens in an HTTP thread: bytes into a call, into a queue. */
#include "app/problem.h"
#include "base/msg.h"
#include "daemon/serve_int.h"

#define BODY_MAX (256 * 1024)
#define NODE_BODY_MAX (8 * 1024 * 1024)
#define PROBLEM_MAX (16 * 1024)
#define CORE_STUCK_MS (10 * MS_PER_S)

static enum lang pick_lang(const struct serve *s, const char *accept)
{
    if (!accept[0] || accept[0] == '*')
        return s->lang;
    return msg_lang(accept);
}

static void reply_problem(struct http_exchange *x, struct serve *s, const struct refusal *why,
                          const char *allow)
{
    struct strbuf out;
    char wait[24];
    struct http_header headers[3];
    size_t n = 0;
    enum lang lang = pick_lang(s, http_request(x)->language);
    int64_t retry = problem_retry_s(why);

    strbuf_init(&out, PROBLEM_MAX);
    problem_write(why, lang, http_request_id(x), &out);
    headers[n++] = (struct http_header){"Content-Language", lang == LANG_ZH ? "zh-CN" : "en"};
    if (allow && allow[0])
        headers[n++] = (struct http_header){"Allow", allow};
    if (retry > 0 && str_printf(wait, sizeof(wait), "%" PRId64, retry))
        headers[n++] = (struct http_header){"Retry-After", wait};
    if (err_http(why->code) == 401)
        headers[n++] = (struct http_header){"WWW-Authenticate", "Bearer"};
    atomic_fetch_add(&s->refused, 1);
    size_t len = out.len;
    http_reply(x, err_http(why->code), "application/problem+json", strbuf_take(&out), len, headers,
               MIN(n, ARRAY_LEN(headers)));
}

char *front_refused(void *user, const struct http_request *r, int status, const char *request_id)
{
    struct serve *s = user;
    struct refusal why = {0};
    struct strbuf out;

    switch (status) {
    case 413:
        (void)refusef(&why, ERR_TOO_LARGE, "what", "body");
        refusal_setf(&why, "max", "%zu", front_body_max(s, r->method, r->path));
        break;
    case 414:
        (void)refusef(&why, ERR_TOO_LARGE, "what", "address");
        refusal_set(&why, "max", "4096");
        break;
    case 431:
        (void)refusef(&why, ERR_TOO_LARGE, "what", "header");
        refusal_setf(&why, "max", "%d", HTTP_VALUE_MAX);
        break;
    case 405:
        (void)refusef(&why, ERR_METHOD, "method", "%.20s", r->method);
        break;
    default:
        (void)refusef(&why, ERR_PROTOCOL, "why", "doubled or contradicting headers");
        break;
    }
    strbuf_init(&out, PROBLEM_MAX);
    problem_write(&why, pick_lang(s, r->language), request_id, &out);
    atomic_fetch_add(&s->requests, 1);
    atomic_fetch_add(&s->refused, 1);
    return strbuf_take(&out);
}

size_t front_body_max(void *user UNUSED, const char *method, const char *path)
{
    if (str_eq(method, "GET") || str_eq(method, "HEAD"))
        return 0;
    return str_eq(path, "/v1/node/sync") ? NODE_BODY_MAX : BODY_MAX;
}

void call_refuse(struct call *c, const struct refusal *why)
{
    struct http_exchange *x = c->x;
    struct serve *s = c->s;

    call_free(c);
    reply_problem(x, s, why, NULL);
}

/* health */

static void reply_text(struct http_exchange *x, int status, const char *type, struct strbuf *out)
{
    size_t len = out->len;

    http_reply(x, status, type, strbuf_take(out), len, NULL, 0);
}

static void reply_health(struct http_exchange *x)
{
    struct strbuf out;
    struct json_writer w;

    strbuf_init(&out, 1024);
    json_writer_init(&w, &out);
    json_object_begin(&w, NULL);
    json_str(&w, "status", "ok");
    json_str(&w, "version", SUANLI_VERSION);
    json_object_finish(&w);
    reply_text(x, 200, "application/json", &out);
}

static bool ready_part(struct json_writer *w, const char *name, bool good, const char *what)
{
    json_object_begin(w, name);
    json_flag(w, "ok", good);
    json_str(w, "why", good ? NULL : what);
    json_object_finish(w);
    return good;
}

/* Says which part is down. */
static void reply_ready(struct http_exchange *x, struct serve *s)
{
    struct strbuf out, parts;
    struct json_writer w, p;
    int64_t age = serve_now(s).boot_ms - atomic_load(&s->core_beat_ms);
    bool good = true;

    strbuf_init(&parts, 2048);
    json_writer_init(&p, &parts);
    json_object_begin(&p, NULL);
    good &= ready_part(&p, "store", !atomic_load(&s->failed), "writing failed; see the log");
    good &= ready_part(&p, "core", age < CORE_STUCK_MS, "no batch for ten seconds");
    good &= ready_part(&p, "inbox", queue_len(s->inbox) < (size_t)s->config.inbox_max, "full");
    good &= ready_part(&p, "clock", !core_clock_alarm(s->core), "it jumped: suanli admin check");
    good &= ready_part(&p, "recovery", !atomic_load(&s->recovery_told),
                       "restored from a copy; new leases wait until every node reported");
    json_object_finish(&p);
    strbuf_init(&out, 4096);
    json_writer_init(&w, &out);
    json_object_begin(&w, NULL);
    json_flag(&w, "ready", good);
    json_raw(&w, "parts", strbuf_str(&parts));
    json_object_finish(&w);
    strbuf_fini(&parts);
    reply_text(x, good ? 200 : 503, "application/json", &out);
}

static void reply_fixed(struct http_exchange *x, const char *text)
{
    http_reply(x, 200, "application/json", mem_strdup(text), strlen(text), NULL, 0);
}

/* calls */

static struct call *call_new(struct serve *s, struct http_exchange *x)
{
    const struct http_request *r = http_request(x);
    struct call *c = mem_alloc(sizeof(*c));

    c->s = s;
    c->x = x;
    c->lang = pick_lang(s, r->language);
    credentials_read(r->authorization, r->project, &c->cred);
    memcpy(c->request_id, http_request_id(x), sizeof(c->request_id));
    memcpy(c->peer, r->peer, sizeof(c->peer));
    c->boot_ms = serve_now(s).boot_ms;
    return c;
}

void call_free(struct call *c)
{
    route_fini(&c->route);
    json_decref(c->body);
    json_decref(c->query);
    explicit_bzero(c, sizeof(*c));
    mem_free_ptr(&c);
}

static enum err read_body(struct call *c, const struct http_request *r)
{
    size_t max = front_body_max(c->s, r->method, r->path);

    if (r->body_len > 0 && r->content_type[0] && !str_starts(r->content_type, "application/json"))
        return refusef(&c->why, ERR_BAD_JSON, "why", "Content-Type must be application/json");
    return router_body(c->route.row, r->body, r->body_len, max, &c->body, &c->why);
}

/* Everything about the arguments; what is wrong is told only to those who may ask. */
static enum err read_args(struct call *c, const struct http_request *r)
{
    const struct op_row *row = c->route.row;

    TRY(router_path_args(&c->route, &c->why));
    TRY(router_query(row, r->query, &c->query, &c->why));
    if ((row->flags & OPF_STREAM) && r->last_event_id[0])
        CHECK(json_object_set_new(c->query, "last_event_id", json_string(r->last_event_id)) == 0);
    TRY(read_body(c, r));
    c->dry_run = router_dry_run(row, c->query, c->body);
    TRY(router_idem_key(row, r->idempotency_key, c->dry_run, &c->why));
    if (row->flags & OPF_IDEM)
        (void)str_copy(c->idem_key, sizeof(c->idem_key), r->idempotency_key);
    return ERR_OK;
}

static void send_call(struct call *c, struct queue *q)
{
    struct refusal why = {0};

    http_park(c->x);
    if (queue_push(q, c))
        return;
    (void)refuse(&why, ERR_BUSY);
    call_refuse(c, &why);
}

static void route_call(struct http_exchange *x, struct serve *s)
{
    const struct http_request *r = http_request(x);
    struct refusal why = {0};
    struct route route;
    char allow[ALLOW_SIZE];

    if (router_match(r->method, r->path, &route, allow, &why) != ERR_OK) {
        reply_problem(x, s, &why, allow);
        return;
    }
    struct call *c = call_new(s, x);
    c->route = route;
    if (!route.row->run) {
        (void)refusef(&why, ERR_UNSUPPORTED, "what", "%s", route.row->name);
        call_refuse(c, &why);
        return;
    }
    (void)read_args(c, r);
    send_call(c, route.row->flags & (OPF_READ | OPF_STREAM) ? s->reads : s->inbox);
}

static bool is_local(const char *peer)
{
    return str_eq(peer, "unix") || str_starts(peer, "127.") || str_eq(peer, "::1");
}

void front_handle(void *user, struct http_exchange *x)
{
    struct serve *s = user;
    const struct http_request *r = http_request(x);
    bool get = str_eq(r->method, "GET") || str_eq(r->method, "HEAD");

    atomic_fetch_add(&s->requests, 1);
    if (get && str_eq(r->path, "/healthz")) {
        reply_health(x);
    } else if (get && str_eq(r->path, "/readyz")) {
        reply_ready(x, s);
    } else if (get && str_eq(r->path, "/v1/openapi.json")) {
        reply_fixed(x, s->openapi);
    } else if (get && str_eq(r->path, "/v1/errors")) {
        reply_fixed(x, s->errors);
    } else if (get && str_eq(r->path, "/metrics")) {
        struct call *c = call_new(s, x);
        c->open_to_all = str_eq(s->config.metrics, "local") && is_local(r->peer);
        send_call(c, s->reads);
    } else {
        route_call(x, s);
    }
}
