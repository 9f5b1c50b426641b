#include "daemon/serve.h"

#include <stdlib.h>

#include "app/cursor.h"
#include "app/funds.h"
#include "app/openapi.h"
#include "app/problem.h"
#include "base/log.h"
#include "base/msg.h"
#include "daemon/pdf.h"
#include "daemon/prices.h"
#include "daemon/serve_int.h"
#include "daemon/heads.h"
#include "net/tls.h"

#define BATCH_MAX 256
#define BEAT_MS 500
#define METRICS_MAX (4 * 1024 * 1024)
#define OPENAPI_MAX (1024 * 1024)

struct core_now serve_now(const struct serve *s)
{
    struct clock *c = clock_system();
    struct core_now now = {.wall_ms = c->wall_ms(c), .boot_ms = c->boot_ms(c)};

    memcpy(now.boot, s->boot, sizeof(now.boot));
    return now;
}

/* answers */

static const char *answer_type(const struct op_row *row)
{
    if (row->flags & OPF_FILE)
        return "application/pdf";
    if (!(row->flags & OPF_STREAM))
        return "application/json";
    return row->flags & OPF_READ ? "application/x-ndjson" : "text/event-stream";
}

/* Login codes and voucher codes are typed, so they may be guessed. */
static bool takes_code(const struct op_row *row)
{
    return str_eq(row->name, "login") || str_eq(row->name, "voucher_redeem");
}

/* This answer tells whether a code was right. */
static bool is_guess(const struct op_row *row, enum err code)
{
    return str_eq(row->name, "login") ||
           (takes_code(row) && (code == ERR_OK || code == ERR_VOUCHER_INVALID));
}

/* core_reply_fn: after the commit that makes it true. */
static void on_reply(void *user, const struct core_reply *r)
{
    struct call *c = user;
    struct serve *s = c->s;
    struct http_exchange *x = c->x;
    struct http_header headers[2] = {
        {"Content-Language", c->lang == LANG_ZH ? "zh-CN" : "en"},
        {"Idempotency-Replayed", "true"},
    };

    if (is_guess(c->route.row, r->code))
        login_gate_result(s->gate, c->peer, c->boot_ms, r->code == ERR_OK);
    log_debug("event=answer op=%s code=%s request=%s ms=%" PRId64, c->route.row->name,
              err_code(r->code), c->request_id, serve_now(s).boot_ms - c->boot_ms);
    if (r->code != ERR_OK) {
        if (err_http(r->code) == 500)
            log_error("event=refused op=%s code=%s request=%s", c->route.row->name,
                      err_code(r->code), c->request_id);
        call_refuse(c, r->why);
        return;
    }
    size_t len = r->answer_len;
    char *body = NULL;
    if (c->route.row->flags & OPF_FILE) {
        struct refusal why = {0};
        if (pdf_render(r->answer, r->answer_len, &body, &len, &why) != ERR_OK) {
            call_refuse(c, &why);
            return;
        }
    } else {
        body = mem_alloc(r->answer_len + 1);
        memcpy(body, r->answer, r->answer_len);
    }
    const char *type = answer_type(c->route.row);
    call_free(c);
    http_reply(x, 200, type, body, len, headers, r->replayed ? 2 : 1);
}

/* A reader cannot write that a token was used: the core thread does, with a call that nobody waits
 * for. A full inbox has more important things. */
static void touch_later(struct call *c)
{
    struct call *t = mem_alloc(sizeof(*t));

    t->s = c->s;
    t->cred = c->cred;
    if (!queue_push(c->s->inbox, t))
        call_free(t);
}

/* authn, then what was wrong with the arguments. The call is answered when it returns false. */
static bool admit(struct call *c, struct store *store, struct principal *ret_who, bool *ret_touch)
{
    struct refusal why = {0};
    struct core_now now = serve_now(c->s);

    if (authn_check(store, c->route.row, &c->cred, now.wall_ms, ret_who, ret_touch, &why) ==
            ERR_OK &&
        c->why.code == ERR_OK)
        return true;
    if (why.code == ERR_OK)
        why = c->why;
    call_refuse(c, &why);
    return false;
}

static void fill_request(struct call *c, const struct principal *who, struct core_request *ret_r)
{
    struct core_request r = {.row = c->route.row,
                             .who = *who,
                             .lang = c->lang,
                             .dry_run = c->dry_run,
                             .body = TAKE(c->body),
                             .query = TAKE(c->query),
                             .boot_ms = c->boot_ms,
                             .reply = on_reply,
                             .reply_user = c};

    memcpy(r.request_id, c->request_id, sizeof(r.request_id));
    memcpy(r.idem_key, c->idem_key, sizeof(r.idem_key));
    for (size_t i = 0; i < OP_PATH_ARGS_MAX; i++)
        r.path_arg[i] = TAKE(c->route.path_arg[i]);
    *ret_r = r;
}

/* core thread */

/* A restored copy may not know what was leased after it was made: nothing new starts until every
 * node has said what runs there. */
static bool recovery_refuses(struct serve *s, const struct call *c, struct refusal *why)
{
    static const char *const starts[] = {"instance_create", "instance_start", "instance_extend"};
    struct node_list nodes = {0};
    char missing[NAME_SIZE] = "";

    if (!s->recovering)
        return false;
    if (store_node_list(s->store, &nodes) != ERR_OK)
        CHECK(str_copy(missing, sizeof(missing), "?"));
    for (size_t i = 0; i < nodes.len; i++)
        if (nodes.at[i].state != NODE_NEW && nodes.at[i].seen_at < s->started_ms)
            (void)str_copy(missing, sizeof(missing), nodes.at[i].name);
    vec_fini(&nodes);
    if (!missing[0] && store_meta_set(s->store, "recovery", "0") == ERR_OK) {
        s->recovering = false;
        atomic_store(&s->recovery_told, false);
        log_info("event=recovery_over");
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        if (str_eq(starts[i], c->route.row->name)) {
            (void)refusef(why, ERR_UNAVAILABLE, "why",
                          c->lang == LANG_ZH
                              ? "已从备份恢复，正在等待节点 %s 上报"
                              : "restored from a copy; waiting for node %s to report",
                          missing);
            return true;
        }
    return false;
}

/* A node that has acted on orders this store never gave: somebody put an older copy in place. */
static void notice_rollback(struct serve *s, const struct call *c, const struct principal *who)
{
    int64_t seen = 0, version = 0;

    if (s->recovering || !who->node.s[0] || !json_get_i64(c->body, "seen", 0, &seen) ||
        store_node_version(s->store, who->node, &version) != ERR_OK || seen <= version)
        return;
    log_error("event=older_store node=%s seen=%" PRId64 " version=%" PRId64, who->user_name, seen,
              version);
    if (store_meta_set(s->store, "recovery", "1") != ERR_OK)
        return;
    s->recovering = true;
    s->started_ms = serve_now(s).wall_ms;
    atomic_store(&s->recovery_told, true);
}

static void submit(struct serve *s, struct call *c, bool *ret_touch)
{
    struct refusal why = {0};
    struct principal who;
    struct core_request r;

    if (!admit(c, s->store, &who, ret_touch))
        return;
    notice_rollback(s, c, &who);
    if ((takes_code(c->route.row) &&
         login_gate_check(s->gate, c->peer, c->boot_ms, &why) != ERR_OK) ||
        recovery_refuses(s, c, &why)) {
        call_refuse(c, &why);
        return;
    }
    fill_request(c, &who, &r);
    if (core_submit(s->core, &r) != ERR_OK) {
        (void)refuse(&why, ERR_BUSY);
        call_refuse(c, &why);
    }
}

static void run_batch(struct serve *s, void **calls, size_t n)
{
    struct refusal why = {0};
    char touched[16][HASH_TEXT_SIZE];
    size_t touched_count = 0;

    for (size_t i = 0; i < n; i++) {
        struct call *c = calls[i];
        char hash[HASH_TEXT_SIZE];
        bool touch = false;
        memcpy(hash, c->cred.token_hash, sizeof(hash));
        if (c->x) {
            submit(s, c, &touch);
        } else {
            touch = true;
            call_free(c);
        }
        if (touch && touched_count < ARRAY_LEN(touched))
            memcpy(touched[touched_count++], hash, sizeof(hash));
    }
    struct core_now now = serve_now(s);
    if (core_run_batch(s->core, &now, &why) != ERR_OK || store_is_broken(s->store)) {
        char text[512];
        refusal_text(&why, LANG_EN, text, sizeof(text));
        log_error("event=batch_failed broken=%d text=\"%s\"", store_is_broken(s->store), text);
        if (store_is_broken(s->store))
            atomic_store(&s->failed, true);
    }
    for (size_t i = 0; i < touched_count && !store_is_broken(s->store); i++)
        if (authn_touch(s->store, touched[i], now.wall_ms) != ERR_OK)
            log_warn("event=token_touch_failed");
    atomic_store(&s->core_beat_ms, now.boot_ms);
}

/* The heads of the days that are over go into a file beside the store, once a day. */
static void publish_heads(struct serve *s)
{
    int64_t today = serve_now(s).wall_ms / (INT64_C(86400) * MS_PER_S);
    struct refusal why = {0};
    char text[512];

    if (today == s->heads_day)
        return;
    if (heads_append(s->store, s->config.store, today, &why) == ERR_OK) {
        s->heads_day = today;
        return;
    }
    refusal_text(&why, LANG_EN, text, sizeof(text));
    log_warn("event=heads_not_written text=\"%s\"", text);
}

static void *core_run(void *user)
{
    struct serve *s = user;
    void *calls[BATCH_MAX];
    utime_t code_ms = 0;

    while (!queue_closed(s->inbox) || queue_len(s->inbox) > 0) {
        int64_t wait = core_next_ms(s->core) - serve_now(s).boot_ms;
        size_t n = queue_pop(s->inbox, calls, BATCH_MAX, MIN(MAX(wait, (int64_t)0), BEAT_MS));
        run_batch(s, calls, n);
        if (serve_now(s).boot_ms - code_ms >= BEAT_MS) {
            code_ms = serve_now(s).boot_ms;
            setup_take_code(s);
            publish_heads(s);
        }
    }
    return NULL;
}

/* readers */

enum err serve_open_reader(const struct serve *s, struct store **ret_store, struct refusal *why)
{
    return store_open(s->config.store, STORE_READ, ret_store, why);
}

static void answer_metrics(struct call *c, struct store *store)
{
    static const struct op_row row = {.name = "metrics", .access = ACCESS_OPERATOR};
    struct serve *s = c->s;
    struct core_now now = serve_now(s);
    struct principal who;
    struct refusal why = {0};
    struct strbuf out;

    if (!c->open_to_all &&
        authn_check(store, &row, &c->cred, now.wall_ms, &who, NULL, &why) != ERR_OK) {
        call_refuse(c, &why);
        return;
    }
    const struct http_server *front = atomic_load(&s->http);
    struct metrics_http http = {.requests = atomic_load(&s->requests),
                                .refused = atomic_load(&s->refused),
                                .streams = atomic_load(&s->streams),
                                .connections = front ? (int64_t)http_connections(front) : 0,
                                .inbox = (int64_t)queue_len(s->inbox),
                                .inbox_max = s->config.inbox_max};
    strbuf_init(&out, METRICS_MAX);
    if (metrics_write(s->core, store, &http, now.wall_ms, &out) != ERR_OK) {
        (void)store_refuse(store, &why);
        strbuf_fini(&out);
        call_refuse(c, &why);
        return;
    }
    struct http_exchange *x = c->x;
    call_free(c);
    size_t len = out.len;
    http_reply(x, 200, "text/plain; version=0.0.4", strbuf_take(&out), len, NULL, 0);
}

static void read_call(struct serve *s, struct store *store, struct call *c)
{
    struct core_now now = serve_now(s);
    struct principal who;
    struct core_request r;
    bool touch = false;

    if (!c->route.row) {
        answer_metrics(c, store);
        return;
    }
    if (!admit(c, store, &who, &touch))
        return;
    if (touch)
        touch_later(c);
    if ((c->route.row->flags & OPF_STREAM) && !(c->route.row->flags & OPF_READ)) {
        stream_open(c, store, &who);
        return;
    }
    fill_request(c, &who, &r);
    core_read(s->core, store, &r, &now);
    core_request_fini(&r);
}

static void *reader_run(void *user)
{
    struct serve *s = user;
    struct store *store = NULL;
    struct refusal why = {0};
    void *item;

    enum err e = serve_open_reader(s, &store, &why);
    while (!queue_closed(s->reads) || queue_len(s->reads) > 0) {
        if (queue_pop(s->reads, &item, 1, MS_PER_S) == 0)
            continue;
        if (e != ERR_OK)
            call_refuse(item, &why);
        else
            read_call(s, store, item);
    }
    store_close(store);
    return NULL;
}

/* start and stop */

static struct core_config core_config_from(const struct daemon_config *c)
{
    struct core_config k = core_config_default();

    (void)str_copy(k.currency, sizeof(k.currency), c->currency);
    (void)str_copy(k.zone, sizeof(k.zone), c->zone);
    k.default_for_s = c->default_for_s;
    k.idle_s = c->idle_s;
    k.stop_grace_ms = c->stop_grace_s * MS_PER_S;
    k.node_silent_ms = c->node_silent_s * MS_PER_S;
    k.keep_stopped_ms = c->keep_stopped_days * 86400 * MS_PER_S;
    k.term_s = c->term_s;
    k.test_channel = str_eq(c->test_channel, "yes");
    k.spot_notice_s = c->spot_notice_s;
    k.spot_free_s = c->spot_free_s;
    k.scarcity_min_pct = c->scarcity_min_pct;
    k.scarcity_max_pct = c->scarcity_max_pct;
    k.price_second_pct = c->price_second_pct;
    k.price_second_amount = c->price_second_amount;
    (void)str_copy(k.backup_dir, sizeof(k.backup_dir), c->backup_folder);
    return k;
}

static enum err init_books(struct serve *s, struct refusal *why)
{
    struct id_maker ids = id_maker_system();
    char recovery[8];
    bool found;

    enum err e = store_begin(s->store);
    if (e == ERR_OK)
        e = funds_init(s->store, &ids);
    if (e == ERR_OK)
        e = cursor_init(s->store, &ids);
    if (e == ERR_OK)
        e = store_meta_get(s->store, "recovery", recovery, sizeof(recovery), &found);
    if (e == ERR_OK) {
        s->recovering = found && str_eq(recovery, "1");
        atomic_store(&s->recovery_told, s->recovering);
        e = store_commit(s->store);
    }
    if (e != ERR_OK) {
        enum err told = store_refuse(s->store, why);
        store_rollback(s->store);
        return told;
    }
    return ERR_OK;
}

static enum err start_core(struct serve *s, struct refusal *why)
{
    struct core_config k = core_config_from(&s->config);
    struct core_now now = serve_now(s);

    TRY(init_books(s, why));
    TRY(core_init(&s->core, s->store, &k, id_maker_system(), &now, why));
    if (s->config.prices[0])
        TRY(prices_load_file(s->core, s->store, s->config.prices, &now, why));
    atomic_store(&s->core_beat_ms, now.boot_ms);
    return ERR_OK;
}

static enum err start_threads(struct serve *s, struct refusal *why)
{
    if (pthread_create(&s->core_thread, NULL, core_run, s) != 0)
        return refusef(why, ERR_SYSTEM, "call", "pthread_create");
    s->core_runs = true;
    if (pthread_create(&s->feed_thread, NULL, feed_run, s) != 0)
        return refusef(why, ERR_SYSTEM, "call", "pthread_create");
    s->feed_runs = true;
    while (s->reader_count < MIN(s->config.readers, (int64_t)READERS_MAX)) {
        if (pthread_create(&s->readers[s->reader_count], NULL, reader_run, s) != 0)
            return refusef(why, ERR_SYSTEM, "call", "pthread_create");
        s->reader_count++;
    }
    return ERR_OK;
}

static enum err start_http(struct serve *s, struct refusal *why)
{
    const struct daemon_config *c = &s->config;
    struct tls_files tls = {0};

    if (c->tls_cert[0])
        TRY(tls_load(c->tls_cert, c->tls_key, &tls, why));
    struct http_config h = {.host = c->host[0] ? c->host : NULL,
                            .port = c->port,
                            .unix_path = c->unix_socket[0] ? c->unix_socket : NULL,
                            .cert_pem = tls.cert_pem,
                            .key_pem = tls.key_pem,
                            .threads = (unsigned)c->http_threads,
                            .connections_max = (unsigned)c->connections_max,
                            .request_ms_max = 30 * MS_PER_S,
                            .idle_ms_max = 60 * MS_PER_S,
                            .handle = front_handle,
                            .refused = front_refused,
                            .body_max = front_body_max,
                            .user = s};
    struct http_server *front = NULL;
    enum err e = http_start(&h, &front, why);
    atomic_store(&s->http, front);
    tls_fini(&tls);
    return e;
}

static enum err start_all(struct serve *s, struct refusal *why)
{
    struct strbuf out;

    strbuf_init(&out, OPENAPI_MAX);
    openapi_write(&out);
    CHECK(!out.overflow);
    s->openapi = strbuf_take(&out);
    strbuf_init(&out, OPENAPI_MAX);
    problem_catalogue_write(&out);
    CHECK(!out.overflow);
    s->errors = strbuf_take(&out);
    TRY(start_core(s, why));
    TRY(start_threads(s, why));
    return start_http(s, why);
}

enum err serve_start(const struct daemon_config *config, struct store *store, struct serve **ret_s,
                     struct refusal *why)
{
    struct serve *s = mem_alloc(sizeof(*s));

    s->config = *config;
    s->store = store;
    s->lang = msg_lang(config->language);
    s->gate = mem_alloc(sizeof(*s->gate));
    s->inbox = queue_new((size_t)config->inbox_max);
    s->reads = queue_new((size_t)config->inbox_max);
    s->feeds = queue_new(STREAMS_MAX);
    if (!clock_boot_id(s->boot))
        (void)str_copy(s->boot, sizeof(s->boot), "none");
    s->started_ms = serve_now(s).wall_ms;
    enum err e = start_all(s, why);
    if (e != ERR_OK) {
        serve_stop(s);
        return e;
    }
    *ret_s = s;
    return ERR_OK;
}

uint16_t serve_port(const struct serve *s)
{
    return http_port(s->http);
}

bool serve_failed(const struct serve *s)
{
    return atomic_load(&s->failed);
}

void serve_stop(struct serve *s)
{
    if (s->http)
        http_quiesce(s->http);
    queue_close(s->inbox);
    queue_close(s->reads);
    queue_close(s->feeds);
    for (int i = 0; i < s->reader_count; i++)
        (void)pthread_join(s->readers[i], NULL);
    if (s->feed_runs)
        (void)pthread_join(s->feed_thread, NULL);
    if (s->core_runs)
        (void)pthread_join(s->core_thread, NULL);
    /* Held requests of nodes are answered here, before HTTP goes. */
    struct core *core = TAKE(s->core);
    if (core)
        core_fini(core);
    http_stop(s->http);
    store_close(s->store);
    queue_free(s->inbox);
    queue_free(s->reads);
    queue_free(s->feeds);
    mem_free_ptr(&s->openapi);
    mem_free_ptr(&s->errors);
    mem_free_ptr(&s->gate);
    mem_free_ptr(&s);
}
