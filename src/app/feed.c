#include "app/feed.h"

#include "app/op_people.h"
#include "app/outbox.h"

#define ONE_SHOT_PIECES 64

static const char *query_arg(const struct op *op, const char *name)
{
    return json_string_value(json_object_get(op->query, name)); /* NULL when absent */
}

/* The newest lease of an instance; ret_id stays empty when it never had one. */
static enum err newest_lease(struct store *store, struct id instance, struct lease *ret_l)
{
    struct lease_list list = {0};

    memset(ret_l, 0, sizeof(*ret_l));
    enum err e = store_lease_list_instance(store, instance, &list);
    for (size_t i = 0; i < list.len; i++)
        if (!ret_l->id.s[0] || list.at[i].granted_at >= ret_l->granted_at)
            *ret_l = list.at[i];
    vec_fini(&list);
    return e;
}

/* "123" for events; "lea_…:123" for output. */
static enum err resume_at(struct op *op, struct feed *f, const char *text)
{
    char lease[ID_SIZE];
    const char *colon = strrchr(text, ':');

    if (f->kind == FEED_EVENTS)
        return str_parse_i64(text, 0, INT64_MAX, &f->after) == ERR_OK
                   ? ERR_OK
                   : refuse(&op->why, ERR_CURSOR);
    if (!colon || !str_printf(lease, sizeof(lease), "%.*s", (int)(colon - text), text) ||
        str_parse_i64(colon + 1, 0, INT64_MAX, &f->after) != ERR_OK)
        return refuse(&op->why, ERR_CURSOR);
    /* Output of an older lease is not gone on with: the newest begins. */
    if (!str_eq(lease, f->lease.s))
        f->after = 0;
    return ERR_OK;
}

enum err feed_open(struct op *op, struct feed *ret_f)
{
    bool logs = str_eq(op->row->name, "instance_logs");
    const char *follow = query_arg(op, "follow"), *last = query_arg(op, "last_event_id");
    const char *name = logs ? op->path_arg[0] : query_arg(op, "instance");
    struct feed f = {.kind = logs ? FEED_LOGS : FEED_EVENTS,
                     .lang = op->lang,
                     .follow = follow && str_eq(follow, "true"),
                     .project = op->who.project};
    struct instance *i = mem_alloc(sizeof(*i));
    struct lease l;
    enum err e = ERR_OK;

    if (name)
        e = store_instance_lookup(op->store, op->who.project, name, i, &op->why);
    f.instance = i->id;
    mem_free_ptr(&i);
    TRY(e);
    if (logs) {
        TRY(people_try(op, newest_lease(op->store, f.instance, &l)));
        f.lease = l.id;
    } else if (op->who.is_operator && !name) {
        memset(&f.project, 0, sizeof(f.project));
    }
    if (last && last[0])
        TRY(resume_at(op, &f, last));
    *ret_f = f;
    return ERR_OK;
}

static void write_event(const struct feed *f, const struct event *e, struct strbuf *out)
{
    struct json_writer w;
    char text[1024];

    event_text(e, f->lang, text, sizeof(text));
    strbuf_addf(out, "id: %" PRId64 "\nevent: %s\ndata: ", e->id, e->kind);
    json_writer_init(&w, out);
    json_object_begin(&w, NULL);
    json_i64(&w, "id", e->id);
    json_time(&w, "at", e->at);
    json_str(&w, "kind", e->kind);
    json_str(&w, "instance", e->instance.s[0] ? e->instance.s : NULL);
    json_str(&w, "text", text);
    json_raw(&w, "data", e->data[0] ? e->data : "{}");
    json_object_finish(&w);
    strbuf_add(out, "\n\n");
}

static enum err next_events(struct feed *f, struct store *store, struct strbuf *out)
{
    struct event_list list = {0};

    enum err e =
        store_event_list(store, f->project, f->instance, f->after, FEED_EVENTS_BATCH, &list);
    for (size_t i = 0; i < list.len; i++) {
        write_event(f, &list.at[i], out);
        f->after = list.at[i].id;
    }
    vec_fini(&list);
    return e;
}

/* Bytes of a well-formed UTF-8 character at p, 0: not one, -1: cut off at the end. */
static int utf8_len(const unsigned char *p, size_t n)
{
    size_t want = p[0] < 0x80                   ? 1
                  : p[0] >= 0xC2 && p[0] < 0xE0 ? 2
                  : p[0] >= 0xE0 && p[0] < 0xF0 ? 3
                  : p[0] >= 0xF0 && p[0] < 0xF5 ? 4
                                                : 0;
    char one[5] = {0};

    if (want == 0)
        return 0;
    for (size_t i = 1; i < want; i++) {
        if (i == n)
            return -1;
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    }
    memcpy(one, p, want);
    return str_utf8_ok(one) ? (int)want : 0;
}

/* Output of a guest is any bytes: what is no UTF-8 becomes U+FFFD, NUL too. A character that is cut
 * off at the end stays for the next piece. Returns the bytes used. */
static size_t clean_text(const unsigned char *p, size_t n, struct strbuf *out)
{
    size_t i = 0;

    while (i < n) {
        int len = p[i] == 0 ? 0 : utf8_len(p + i, n - i);
        if (len < 0)
            break;
        if (len == 0)
            strbuf_add(out, "\xEF\xBF\xBD");
        else
            strbuf_add_n(out, p + i, (size_t)len);
        i += len ? (size_t)len : 1;
    }
    return i;
}

static void write_log(struct feed *f, const unsigned char *p, size_t n, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf text;
    struct json_writer w;

    strbuf_init(&text, 4 * FEED_LOG_BATCH);
    size_t used = clean_text(p, n, &text);
    if (used == 0)
        return;
    strbuf_addf(out, "id: %s:%" PRId64 "\nevent: log\ndata: ", f->lease.s,
                f->after + (int64_t)used);
    json_writer_init(&w, out);
    json_object_begin(&w, NULL);
    json_i64(&w, "from", f->after);
    json_str(&w, "text", strbuf_str(&text));
    json_object_finish(&w);
    strbuf_add(out, "\n\n");
    f->after += (int64_t)used;
}

static enum err next_log(struct feed *f, struct store *store, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf raw;
    struct lease l;
    int64_t from = 0;

    TRY(newest_lease(store, f->instance, &l));
    if (!l.id.s[0])
        return ERR_OK;
    strbuf_init(&raw, LOG_KEEP + FEED_LOG_BATCH);
    TRY(store_log_read(store, f->lease.s[0] ? f->lease : l.id, f->after, &raw, &from));
    if (raw.len == 0 && !str_eq(l.id.s, f->lease.s)) {
        f->lease = l.id; /* it was started again */
        f->after = 0;
        TRY(store_log_read(store, f->lease, 0, &raw, &from));
    }
    if (raw.len == 0)
        return ERR_OK;
    f->after = from;
    write_log(f, (const unsigned char *)raw.data, MIN(raw.len, (size_t)FEED_LOG_BATCH), out);
    return ERR_OK;
}

enum err feed_next(struct feed *f, struct store *store, struct strbuf *out)
{
    return f->kind == FEED_EVENTS ? next_events(f, store, out) : next_log(f, store, out);
}

enum err feed_ended(const struct feed *f, struct store *store, bool *ret_ended)
{
    struct instance *i;

    *ret_ended = !f->follow;
    if (f->kind == FEED_EVENTS || !f->follow)
        return ERR_OK;
    i = mem_alloc(sizeof(*i));
    enum err e = store_instance_get_any(store, f->instance, i);
    *ret_ended = e == ERR_OK && (i->state == INSTANCE_STOPPED || i->state == INSTANCE_RELEASED ||
                                 i->state == INSTANCE_FAILED);
    mem_free_ptr(&i);
    return e;
}

/* Without a connection to keep: everything there is, in one answer. */
static enum err one_shot(struct op *op)
{
    struct feed f;

    TRY(feed_open(op, &f));
    for (int i = 0; i < ONE_SHOT_PIECES; i++) {
        size_t before = op->out.out->len;
        TRY(people_try(op, feed_next(&f, op->store, op->out.out)));
        if (op->out.out->len == before)
            break;
    }
    return ERR_OK;
}

enum err op_event_list(struct op *op)
{
    return one_shot(op);
}

enum err op_instance_logs(struct op *op)
{
    return one_shot(op);
}
