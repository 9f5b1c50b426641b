#include "app/problem.h"

#include "base/msg.h"

/* Words that we chose ("instance", "it is required") are in the catalogue as well. Names, paths and
 * fields are the asker's own and stay as they are, also where one is spelled like such a word. */
static bool is_ours(const char *key)
{
    static const char *const keys[] = {"what",    "why",  "state", "action",
                                       "actions", "role", "where"};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (str_eq(keys[i], key))
            return true;
    return false;
}

static struct refusal translate(const struct refusal *why, enum lang lang)
{
    struct refusal r = {0};

    (void)refuse(&r, why->code);
    for (size_t i = 0; i < why->param_count; i++)
        refusal_set(&r, why->params[i].key,
                    is_ours(why->params[i].key) ? msg_tr(lang, why->params[i].value)
                                                : why->params[i].value);
    return r;
}

void problem_write(const struct refusal *why, enum lang lang, const char *request_id,
                   struct strbuf *out)
{
    struct refusal r = translate(why, lang);
    struct json_writer w;
    char text[1024];

    json_writer_init(&w, out);
    json_object_begin(&w, NULL);
    json_strf(&w, "type", "/v1/errors#%s", err_code(why->code));
    refusal_text(&r, lang, text, sizeof(text));
    json_str(&w, "title", text);
    json_i64(&w, "status", err_http(why->code));
    json_str(&w, "code", err_code(why->code));
    json_str(&w, "detail", text);
    refusal_next(&r, lang, text, sizeof(text));
    json_str(&w, "next", text);
    json_str(&w, "request_id", request_id);
    json_object_begin(&w, "params");
    for (size_t i = 0; i < why->param_count; i++)
        json_str(&w, why->params[i].key, why->params[i].value);
    json_object_finish(&w);
    json_object_finish(&w);
}

int64_t problem_retry_s(const struct refusal *why)
{
    int64_t s = 1;

    if (err_http(why->code) != 503 && err_http(why->code) != 429)
        return 0;
    for (size_t i = 0; i < why->param_count; i++)
        if (str_eq(why->params[i].key, "wait_s") &&
            str_parse_i64(why->params[i].value, 1, 3600, &s) != ERR_OK)
            s = 1;
    return s;
}

void problem_catalogue_write(struct strbuf *out)
{
    static const struct {
        enum err e;
        int exit;
        const char *en, *en_next, *zh, *zh_next;
    } rows[] = {
#define ERR(name, http, exit, en, en_next, zh, zh_next)                                            \
    {ERR_##name, exit, en, en_next, zh, zh_next},
#include "base/errors.def"
#undef ERR
    };
    struct json_writer w;

    json_writer_init(&w, out);
    json_object_begin(&w, NULL);
    json_array_begin(&w, "items");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_object_begin(&w, NULL);
        json_str(&w, "code", err_code(rows[i].e));
        json_i64(&w, "status", err_http(rows[i].e));
        json_i64(&w, "exit", rows[i].exit);
        json_str(&w, "en", rows[i].en);
        json_str(&w, "en_next", rows[i].en_next);
        json_str(&w, "zh-CN", rows[i].zh);
        json_str(&w, "zh-CN_next", rows[i].zh_next);
        json_object_finish(&w);
    }
    json_array_finish(&w);
    json_object_finish(&w);
}
