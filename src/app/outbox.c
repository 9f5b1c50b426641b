#include "app/outbox.h"

#include "base/msg.h"

enum err event_emit(struct op *op, struct id project, struct id instance, const char *kind,
                    const char *text, const char *fmt, ...)
{
    struct event e = {.at = op->now, .project = project, .instance = instance};
    AUTO_JSON json_t *data = NULL;
    char *json;
    va_list ap;

    va_start(ap, fmt);
    data = json_vpack_ex(NULL, 0, fmt, ap);
    va_end(ap);
    CHECK(data);
    json = json_dumps(data, JSON_COMPACT);
    CHECK(json && str_copy(e.kind, sizeof(e.kind), kind) && str_copy(e.text, sizeof(e.text), text));
    if (!str_copy(e.data, sizeof(e.data), json))
        CHECK(str_copy(e.data, sizeof(e.data), "{}"));
    free(json);
    return store_event_add(op->store, &e);
}

static void add_param(struct strbuf *b, const json_t *data, const char *key, size_t len)
{
    char name[32];
    json_t *v;

    if (len >= sizeof(name))
        return;
    memcpy(name, key, len);
    name[len] = 0;
    v = json_object_get(data, name);
    if (json_is_string(v))
        strbuf_add(b, json_string_value(v));
    else if (json_is_integer(v))
        strbuf_addf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
}

void event_text(const struct event *e, enum lang lang, char *buf, size_t size)
{
    AUTO_JSON json_t *data = json_loads(e->data, 0, NULL);
    const char *t = msg_tr(lang, e->text);
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, size - 1);
    while (*t) {
        const char *end = *t == '{' ? strchr(t, '}') : NULL;

        if (end) {
            add_param(&b, data, t + 1, (size_t)(end - t - 1));
            t = end + 1;
        } else {
            strbuf_add_n(&b, t++, 1);
        }
    }
    if (!str_copy(buf, size, strbuf_str(&b)))
        buf[0] = 0;
}

static enum err outbox_put(struct op *op, struct id node, const char *kind, const char *target,
                           const char *body)
{
    struct outbox o = {.node = node, .at = op->now};

    TRY(store_node_bump(op->store, node));
    TRY(store_node_version(op->store, node, &o.version));
    if (!str_copy(o.target, sizeof(o.target), target))
        return refusef(&op->why, ERR_VALIDATION, "field", "%s", "lease");
    CHECK(str_copy(o.kind, sizeof(o.kind), kind));
    if (!str_copy(o.body, sizeof(o.body), body))
        o.body[0] = 0;
    return store_outbox_add(op->store, &o);
}

enum err outbox_kill_unknown(struct op *op, struct id node, const char *lease)
{
    return outbox_put(op, node, "kill_unknown", lease, "");
}
