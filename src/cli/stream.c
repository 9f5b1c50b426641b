/* stream.c: answers that go on. Three forms are understood: server-sent events (data: one JSON
 * object; id: where to resume), one JSON object a line, and a plain list with items. */
#include <stdlib.h>

#include "cli/transport.h"

struct stream {
    struct answer *a;
    api_item *on_item;
    void *user;
    CURL *curl;
    bool events, lines; /* by the Content-Type; neither: the whole body is one document */
    bool typed, ended;
    struct strbuf line, data;
    char last_id[64];
    size_t items;
};

static void stream_object(struct stream *s, const char *text, size_t len)
{
    AUTO_JSON json_t *v = NULL;

    if (len == 0 || s->ended || json_parse(text, len, ANSWER_MAX, &v, NULL) != ERR_OK)
        return;
    s->items++;
    AUTO_FREE char *raw = mem_alloc(len + 1);
    memcpy(raw, text, len);
    if (!s->on_item(s->user, v, raw))
        s->ended = true;
}

/* One line without its end. */
static void stream_line(struct stream *s, const char *line, size_t len)
{
    if (len && line[len - 1] == '\r')
        len--;
    if (s->lines) {
        stream_object(s, line, len);
    } else if (len == 0) {
        stream_object(s, strbuf_str(&s->data), s->data.len);
        strbuf_reset(&s->data);
    } else if (len > 5 && memcmp(line, "data:", 5) == 0) {
        size_t skip = line[5] == ' ' ? 6 : 5;
        if (s->data.len)
            strbuf_add(&s->data, "\n");
        strbuf_add_n(&s->data, line + skip, len - skip);
    } else if (len > 3 && memcmp(line, "id:", 3) == 0) {
        size_t skip = line[3] == ' ' ? 4 : 3;
        str_printf(s->last_id, sizeof(s->last_id), "%.*s", (int)(len - skip), line + skip);
    }
}

static size_t on_stream(char *data, size_t size, size_t count, void *user)
{
    struct stream *s = user;
    size_t len = size * count;
    long status = 0;

    if (!s->typed) {
        char *type = NULL;
        curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_getinfo(s->curl, CURLINFO_CONTENT_TYPE, &type);
        s->a->status = status;
        s->events = status == 200 && type && str_starts(type, "text/event-stream");
        s->lines = status == 200 && type && strstr(type, "ndjson");
        s->lines = s->lines || (status == 200 && type && strstr(type, "jsonl"));
        s->typed = true;
    }
    if (!s->events && !s->lines) {
        strbuf_add_n(&s->a->body, data, len);
        return s->a->body.overflow ? 0 : len;
    }
    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\n') {
            strbuf_add_n(&s->line, data + i, 1);
            continue;
        }
        stream_line(s, strbuf_str(&s->line), s->line.len);
        strbuf_reset(&s->line);
    }
    return s->ended || s->line.overflow || s->data.overflow ? 0 : len;
}

/* A document instead of a stream: a list of items, or one item. */
static void stream_document(struct stream *s)
{
    size_t i;
    json_t *v;

    if (json_parse(strbuf_str(&s->a->body), s->a->body.len, ANSWER_MAX, &s->a->json, NULL) !=
        ERR_OK)
        return;
    const json_t *items = json_object_get(s->a->json, "items");
    if (!items) {
        s->on_item(s->user, s->a->json, strbuf_str(&s->a->body));
        return;
    }
    json_array_foreach(items, i, v)
    {
        char *raw = json_dumps(v, JSON_COMPACT);
        bool more = s->on_item(s->user, v, raw ? raw : "");
        free(raw);
        if (!more)
            break;
    }
}

static CURLcode stream_once(struct cli *c, struct stream *s, const char *path, struct refusal *why)
{
    char resume[96];

    s->typed = s->events = s->lines = false;
    strbuf_reset(&s->line);
    strbuf_reset(&s->data);
    strbuf_reset(&s->a->body);
    curl_easy_reset(s->curl);
    if (transport_url(c, path, s->curl, why) != ERR_OK)
        return CURLE_URL_MALFORMAT;
    struct curl_slist *headers = transport_headers(
        c, "text/event-stream, application/x-ndjson, application/json, application/problem+json",
        NULL, false);
    if (*s->last_id && str_printf(resume, sizeof(resume), "Last-Event-ID: %s", s->last_id))
        headers = curl_slist_append(headers, resume);
    transport_options(c, s->curl);
    curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, on_stream);
    curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, s);
    /* a live stream says something every 15 s; silence means the connection is dead */
    curl_easy_setopt(s->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(s->curl, CURLOPT_LOW_SPEED_TIME, 60L);
    CURLcode code = curl_easy_perform(s->curl);
    curl_slist_free_all(headers);
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &s->a->status);
    return code;
}

/* True when the stream broke in a way that a new connection mends. */
static bool stream_again(struct cli *c, struct stream *s, CURLcode code, bool follow, int *tries)
{
    bool broke = code != CURLE_OK || s->events;
    bool refused = s->a->status >= 400 && s->a->status != 503;

    if (!follow || s->ended || interrupted() || refused || !broke)
        return false;
    *tries = s->items ? 0 : *tries + 1;
    s->items = 0;
    if (*tries > 10)
        return false;
    if (*tries == 1)
        say(c, "%s", tr("The connection broke; trying again."));
    pause_ms(*tries == 0 ? 200 : 1000);
    return !interrupted();
}

bool api_stream(struct cli *c, const char *path, bool follow, api_item *on_item, void *user,
                struct answer *a)
{
    struct stream s = {.a = a, .on_item = on_item, .user = user, .curl = curl_easy_init()};
    int tries = 0;
    CURLcode code;

    CHECK(s.curl);
    strbuf_init(&s.line, 4 << 20);
    strbuf_init(&s.data, 4 << 20);
    (void)refuse(&a->why, ERR_OK);
    do {
        code = stream_once(c, &s, path, &a->why);
    } while (a->why.code == ERR_OK && stream_again(c, &s, code, follow, &tries));
    if (s.lines && s.line.len)
        stream_line(&s, strbuf_str(&s.line), s.line.len);
    if (s.events && s.data.len)
        stream_line(&s, "", 0);
    bool done = a->why.code == ERR_OK && (s.ended || (code == CURLE_OK && a->status == 200));
    if (done && !s.events && !s.lines && a->body.len)
        stream_document(&s);
    strbuf_fini(&s.line);
    strbuf_fini(&s.data);
    curl_easy_cleanup(s.curl);
    if (done)
        return true;
    if (a->why.code == ERR_OK && code != CURLE_OK && code != CURLE_WRITE_ERROR)
        a->status = 0, a->exit = err_exit(transport_error(c, code, &a->why));
    if (a->why.code != ERR_OK)
        a->exit = err_exit(a->why.code);
    if (a->exit == 0 && json_parse(strbuf_str(&a->body), a->body.len, ANSWER_MAX, &a->json, NULL))
        a->json = NULL;
    if (!interrupted())
        a->exit = fail_answer(c, a);
    return false;
}
