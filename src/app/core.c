#include "app/core_int.h"

#include <sodium.h>
#include <stdlib.h>

#include "app/node_sync.h"
#include "app/tick.h"
#include "base/log.h"

#define ANSWER_MAX (8 << 20)
#define TICK_MS 1000

struct core_config core_config_default(void)
{
    return (struct core_config){
        .currency = "CNY",
        .zone = "Asia/Shanghai",
        .default_for_s = 4 * 3600,
        .idle_s = 1800,
        .stop_grace_ms = 30000,
        .node_silent_ms = 30000,
        .keep_stopped_ms = 15ll * 86400 * 1000,
        .term_s = 600,
        .spot_notice_s = 120,
        .spot_free_s = 3600,
        .scarcity_max_pct = 400,
        .system_disk_mib = 20480,
        .seat_memory_mib = 2048,
        .ssh_user = "root",
    };
}

void core_request_fini(struct core_request *r)
{
    for (size_t i = 0; i < OP_PATH_ARGS_MAX; i++) {
        free(r->path_arg[i]);
        r->path_arg[i] = NULL;
    }
    json_decref(r->body);
    json_decref(r->query);
    r->body = r->query = NULL;
}

const struct core_config *core_config_of(const struct core *c)
{
    return &c->config;
}

struct id core_id(struct core *c, const char *prefix)
{
    return id_make(&c->ids, prefix);
}

void core_random(struct core *c, void *buf, size_t size)
{
    c->ids.fill(&c->ids, buf, size);
}

int64_t core_event_last(const struct core *c)
{
    return __atomic_load_n(&c->event_last, __ATOMIC_ACQUIRE);
}

#define COUNT(c, field, n) __atomic_add_fetch(&(c)->stats.field, n, __ATOMIC_RELAXED)

void core_stats_get(const struct core *c, struct core_stats *ret_s)
{
#define GET(field) ret_s->field = __atomic_load_n(&c->stats.field, __ATOMIC_RELAXED)
    GET(batches);
    GET(messages);
    GET(refused);
    GET(replayed);
    GET(ticks);
    GET(commit_failures);
    GET(held);
#undef GET
}

enum err core_init(struct core **ret_c, struct store *store, const struct core_config *config,
                   struct id_maker ids, const struct core_now *now, struct refusal *why)
{
    struct core *c = mem_alloc(sizeof(*c));

    c->store = store;
    c->config = *config;
    c->ids = ids;
    engine_local_init(&c->engine);
    if (core_clock_start(c, now) != ERR_OK || store_event_last(store, &c->event_last) != ERR_OK) {
        core_fini(c);
        return store_refuse(store, why);
    }
    c->tick_due_ms = now->boot_ms;
    *ret_c = c;
    return ERR_OK;
}

static void reply_refused(const struct core_request *r, const struct refusal *why)
{
    struct core_reply reply = {.code = why->code, .why = why};

    r->reply(r->reply_user, &reply);
}

void core_fini(struct core *c)
{
    struct refusal why = {0};

    (void)refusef(&why, ERR_UNAVAILABLE, "why", "the server is stopping");
    VEC_FOREACH (m, &c->pending) {
        reply_refused(&m->request, &why);
        core_request_fini(&m->request);
    }
    VEC_FOREACH (m, &c->held) {
        reply_refused(&m->request, &why);
        core_request_fini(&m->request);
    }
    vec_fini(&c->pending);
    vec_fini(&c->held);
    engine_fini(&c->engine);
    free(c);
}

enum err core_submit(struct core *c, struct core_request *r)
{
    struct core_message *m;

    CHECK(r->row && r->reply);
    if (c->pending.len >= CORE_PENDING_MAX) {
        core_request_fini(r);
        return ERR_BUSY;
    }
    m = vec_push(&c->pending);
    m->request = *r;
    for (size_t i = 0; i < OP_PATH_ARGS_MAX; i++)
        r->path_arg[i] = NULL;
    r->body = r->query = NULL;
    if (!m->request.body)
        m->request.body = json_object();
    if (!m->request.query)
        m->request.query = json_object();
    return ERR_OK;
}

utime_t core_next_ms(const struct core *c)
{
    utime_t next = c->tick_due_ms;

    if (c->pending.len)
        return 0;
    for (size_t i = 0; i < c->held.len; i++)
        next = MIN(next, c->held.at[i].hold_until_ms);
    return next;
}

/* one message */

static void op_open(struct op *op, struct core *c, struct store *s, const struct core_request *r,
                    utime_t now, struct strbuf *out)
{
    *op = (struct op){.row = r->row,
                      .core = c,
                      .store = s,
                      .now = now,
                      .lang = r->lang,
                      .who = r->who,
                      .dry_run = r->dry_run,
                      .body = r->body,
                      .query = r->query};
    memcpy(op->request_id, r->request_id, sizeof(op->request_id));
    for (size_t i = 0; i < OP_PATH_ARGS_MAX; i++)
        op->path_arg[i] = r->path_arg[i];
    json_writer_init(&op->out, out);
}

/* What makes two requests the same one: operation, path and body. */
static void request_hash(const struct core_request *r, char ret_hash[HASH_TEXT_SIZE])
{
    unsigned char raw[32];
    crypto_generichash_state st;
    char *body = json_dumps(r->body, JSON_SORT_KEYS | JSON_COMPACT);

    CHECK(body && crypto_generichash_init(&st, NULL, 0, sizeof(raw)) == 0);
#define ADD(text) crypto_generichash_update(&st, (const unsigned char *)(text), strlen(text) + 1)
    CHECK(ADD(r->row->name) == 0);
    for (size_t i = 0; i < OP_PATH_ARGS_MAX && r->path_arg[i]; i++)
        CHECK(ADD(r->path_arg[i]) == 0);
    CHECK(ADD(body) == 0);
#undef ADD
    CHECK(crypto_generichash_final(&st, raw, sizeof(raw)) == 0);
    CHECK(sodium_bin2hex(ret_hash, HASH_TEXT_SIZE, raw, sizeof(raw)));
    free(body);
}

static struct id idem_scope(const struct core_request *r)
{
    return r->who.project.s[0] ? r->who.project : r->who.user;
}

/* ERR_NOT_FOUND: a new key. ERR_OK: the stored answer is in m. */
static enum err idem_find(struct core *c, struct core_message *m, const char *hash)
{
    struct idem known;
    enum err e = store_idem_get(c->store, idem_scope(&m->request), m->request.idem_key, &known);

    if (e != ERR_OK)
        return e;
    if (!str_eq(known.hash, hash)) {
        store_idem_fini(&known);
        return refuse(&m->why, ERR_IDEMPOTENCY_MISMATCH);
    }
    m->answer = TAKE(known.answer);
    m->replayed = true;
    COUNT(c, replayed, 1);
    return ERR_OK;
}

/* A secret is shown once and kept nowhere: a repeated request gets the same answer without it. */
static char *without_secrets(const struct core_request *r, const char *answer)
{
    static const char *const fields[] = {"token", "code", "codes", "key"};
    AUTO_JSON json_t *v = NULL;
    char *text;

    if (!strstr(r->row->schema, "_new"))
        return mem_strdup(answer);
    v = json_loads(answer, 0, NULL);
    for (size_t i = 0; v && i < ARRAY_LEN(fields); i++)
        if (json_object_get(v, fields[i]))
            CHECK(json_object_set_new(v, fields[i], json_null()) == 0);
    text = v ? json_dumps(v, JSON_COMPACT) : NULL;
    CHECK(text);
    return text;
}

static enum err idem_keep(struct core *c, struct core_message *m, const char *hash, utime_t now)
{
    struct idem row = {.project = idem_scope(&m->request), .at = now};
    enum err e;

    CHECK(str_copy(row.key, sizeof(row.key), m->request.idem_key));
    CHECK(str_copy(row.hash, sizeof(row.hash), hash));
    row.answer = without_secrets(&m->request, m->answer);
    e = store_idem_save(c->store, &row);
    store_idem_fini(&row);
    return e;
}

static enum err audit_write(struct core *c, const struct op *op, const char *result)
{
    struct audit a = {.at = op->now, .project = op->who.project, .user = op->who.user};

    (void)str_copy(a.actor, sizeof(a.actor), op->who.user_name);
    (void)str_copy(a.action, sizeof(a.action), op->row->name);
    (void)str_copy(a.result, sizeof(a.result), result);
    (void)str_copy(a.object, sizeof(a.object), op->object);
    for (size_t i = 0; !a.object[0] && i < OP_PATH_ARGS_MAX && op->path_arg[i]; i++)
        (void)str_copy(a.object, sizeof(a.object), op->path_arg[i]);
    memcpy(a.request_id, op->request_id, sizeof(a.request_id));
    return store_audit_add(c->store, &a);
}

static bool wants_audit(const struct core_request *r)
{
    return !(r->row->flags & (OPF_READ | OPF_STREAM)) && r->row->access != ACCESS_NODE &&
           !r->dry_run;
}

/* The handler inside its savepoint, with everything that belongs to its effect. */
static enum err message_effect(struct core *c, struct core_message *m, struct op *op,
                               struct strbuf *out)
{
    bool keyed = m->request.idem_key[0] && !m->request.dry_run;
    char hash[HASH_TEXT_SIZE];
    enum err e;

    if (keyed) {
        request_hash(&m->request, hash);
        e = idem_find(c, m, hash);
        if (e != ERR_NOT_FOUND)
            return e;
    }
    if (!m->request.row->run)
        return refusef(&op->why, ERR_INTERNAL, "why", "%s has no handler", m->request.row->name);
    TRY(m->request.row->run(op));
    if (out->overflow)
        return refusef(&op->why, ERR_TOO_LARGE, "what", "%s", "The answer");
    m->answer_len = out->len;
    m->answer = strbuf_take(out);
    if (!m->answer)
        m->answer = mem_strdup("{}");
    if (keyed)
        TRY(idem_keep(c, m, hash, op->now));
    return wants_audit(&m->request) ? audit_write(c, op, "ok") : ERR_OK;
}

static enum err message_run(struct core *c, struct core_message *m, utime_t now)
{
    AUTO_STRBUF struct strbuf out;
    size_t told = c->engine.told_count;
    struct op op;
    enum err e;

    strbuf_init(&out, ANSWER_MAX);
    op_open(&op, c, c->store, &m->request, now, &out);
    COUNT(c, messages, 1);
    TRY(store_mark(c->store));
    e = message_effect(c, m, &op, &out);
    if (e == ERR_OK && !m->request.dry_run)
        return store_mark_keep(c->store);
    TRY(store_mark_undo(c->store));
    c->engine.told_count = told; /* nothing of it is to be told */
    if (e == ERR_OK)
        return ERR_OK;
    if (m->why.code == ERR_OK)
        m->why = op.why;
    if (e == ERR_STORE && m->why.code != e)
        (void)store_refuse(c->store, &m->why);
    else if (m->why.code != e)
        (void)refusef(&m->why, e, "why", "%s", err_code(e));
    free(TAKE(m->answer));
    COUNT(c, refused, 1);
    if (store_is_broken(c->store))
        return ERR_STORE;
    return wants_audit(&m->request) ? audit_write(c, &op, err_code(e)) : ERR_OK;
}

/* the batch */

static enum err tell_nodes(struct core *c)
{
    struct id node;

    while (engine_told(&c->engine, &node))
        TRY(store_node_bump(c->store, node));
    return ERR_OK;
}

static enum err batch_effects(struct core *c, struct core_messages *batch, bool tick, utime_t now)
{
    int64_t changes = store_changes(c->store);

    VEC_FOREACH (m, batch)
        TRY(message_run(c, m, now));
    if (tick)
        TRY(tick_run(c, now));
    TRY(tell_nodes(c));
    c->dirty = store_changes(c->store) != changes;
    return c->dirty ? core_clock_save(c) : ERR_OK;
}

static enum err batch_commit(struct core *c, struct core_messages *batch, bool tick, utime_t now)
{
    TRY(store_begin(c->store));
    TRY(batch_effects(c, batch, tick, now));
    if (c->dirty)
        return store_commit(c->store);
    store_rollback(c->store);
    return ERR_OK;
}

static void message_reply(struct core_message *m)
{
    struct core_reply reply = {.code = m->why.code,
                               .why = m->why.code == ERR_OK ? NULL : &m->why,
                               .answer = m->answer,
                               .answer_len = m->answer ? strlen(m->answer) : 0,
                               .replayed = m->replayed};

    m->request.reply(m->request.reply_user, &reply);
    core_request_fini(&m->request);
    free(TAKE(m->answer));
}

/* A node's report is in; its answer waits for news. Only the newest request of a node waits. */
static void node_hold(struct core *c, struct core_message *m)
{
    VEC_FOREACH (h, &c->held)
        if (str_eq(h->request.who.node.s, m->request.who.node.s))
            h->hold_until_ms = 0;
    free(TAKE(m->answer));
    m->hold_until_ms = m->request.boot_ms + node_sync_wait_ms(&m->request);
    *vec_push(&c->held) = *m;
}

static void node_reply(struct core *c, struct core_message *m)
{
    AUTO_STRBUF struct strbuf out;
    struct op op;
    enum err e;

    strbuf_init(&out, ANSWER_MAX);
    op_open(&op, c, c->store, &m->request, core_ledger_at(c, m->request.boot_ms), &out);
    e = node_want_write(&op);
    if (e == ERR_STORE)
        (void)store_refuse(c->store, &m->why);
    else if (e != ERR_OK)
        m->why = op.why;
    else
        m->answer = strbuf_take(&out);
    message_reply(m);
}

static void held_run(struct core *c, utime_t boot_ms)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->held.len; i++) {
        struct core_message m = c->held.at[i];
        int64_t version = INT64_MAX;

        if (store_node_version(c->store, m.request.who.node, &version) != ERR_OK)
            version = INT64_MAX; /* answered with what is wrong */
        if (version == node_sync_seen(&m.request) && boot_ms < m.hold_until_ms)
            c->held.at[kept++] = m;
        else
            node_reply(c, &m);
    }
    c->held.len = kept;
    __atomic_store_n(&c->stats.held, (int64_t)kept, __ATOMIC_RELAXED);
}

static void batch_refuse(struct core *c, struct core_messages *batch, struct refusal *why)
{
    struct id node;

    store_rollback(c->store);
    (void)store_refuse(c->store, why);
    COUNT(c, commit_failures, 1);
    while (engine_told(&c->engine, &node)) {
    }
    VEC_FOREACH (m, batch) {
        free(TAKE(m->answer));
        m->why = *why;
        message_reply(m);
    }
}

enum err core_run_batch(struct core *c, const struct core_now *now, struct refusal *why)
{
    struct core_messages batch = c->pending;
    bool tick = now->boot_ms >= c->tick_due_ms;
    utime_t ledger = core_clock_step(c, now);
    enum err e;

    c->pending = (struct core_messages){0};
    e = batch_commit(c, &batch, tick, ledger);
    COUNT(c, batches, 1);
    if (e != ERR_OK) {
        batch_refuse(c, &batch, why);
        vec_fini(&batch);
        return ERR_STORE;
    }
    if (tick) {
        c->tick_due_ms = now->boot_ms + TICK_MS;
        COUNT(c, ticks, 1);
    }
    if (c->dirty) {
        int64_t last = c->event_last;

        if (store_event_last(c->store, &last) == ERR_OK)
            __atomic_store_n(&c->event_last, last, __ATOMIC_RELEASE);
    }
    VEC_FOREACH (m, &batch) {
        if (m->why.code == ERR_OK && str_eq(m->request.row->name, "node_sync"))
            node_hold(c, m);
        else
            message_reply(m);
    }
    vec_fini(&batch);
    held_run(c, now->boot_ms);
    return ERR_OK;
}

void core_read(const struct core *c, struct store *reader, const struct core_request *r,
               const struct core_now *now)
{
    AUTO_STRBUF struct strbuf out;
    struct core_reply reply = {0};
    struct op op;

    CHECK(r->row->flags & (OPF_READ | OPF_STREAM));
    strbuf_init(&out, ANSWER_MAX);
    /* A reading handler gets the core for its configuration only. */
    op_open(&op, (struct core *)c, reader, r, core_ledger_at(c, now->boot_ms), &out);
    reply.code = store_begin(reader);
    if (reply.code == ERR_OK)
        reply.code = r->row->run(&op);
    store_rollback(reader);
    if (reply.code == ERR_OK && out.overflow)
        reply.code = refusef(&op.why, ERR_TOO_LARGE, "what", "%s", "The answer");
    if (reply.code == ERR_STORE && op.why.code != ERR_STORE)
        (void)store_refuse(reader, &op.why);
    else if (reply.code != ERR_OK && op.why.code != reply.code)
        (void)refusef(&op.why, reply.code, "why", "%s", err_code(reply.code));
    reply.why = reply.code == ERR_OK ? NULL : &op.why;
    reply.answer = strbuf_str(&out);
    reply.answer_len = out.len;
    r->reply(r->reply_user, &reply);
}
