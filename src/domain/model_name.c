#include <stdlib.h>

#include "base/str.h"
#include "domain/model.h"

#define KEY_MAX 96

/* Words that change the weights of a model, not its shape. */
static const char *const plain_words[] = {
    "instruct", "chat", "base", "it",  "hf",      "meta",     "coder", "math", "preview", "gguf",
    "bnb",      "awq",  "gptq", "fp8", "int4",    "int8",     "4bit",  "8bit", "bf16",    "fp16",
    "2507",     "2407", "2409", "pt",  "dynamic", "thinking", "sft",   "dpo",  "unsloth", "mlx"};
/* … and those that say how they are kept. */
static const struct {
    const char *word;
    enum size_format format;
} format_words[] = {{"awq", SIZE_AWQ4},  {"gptq", SIZE_GPTQ4}, {"fp8", SIZE_FP8},
                    {"int8", SIZE_INT8}, {"8bit", SIZE_INT8},  {"4bit", SIZE_NF4_DQ},
                    {"bnb", SIZE_NF4_DQ}};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_plain(const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(plain_words); i++)
        if (str_eq(word, plain_words[i]))
            return true;
    return false;
}

static void note_format(const char *word, enum size_format *f)
{
    for (size_t i = 0; i < ARRAY_LEN(format_words); i++)
        if (str_eq(word, format_words[i].word) &&
            (*f == SIZE_FORMAT_NONE || format_words[i].format == SIZE_INT8))
            *f = *f == SIZE_GPTQ4 ? SIZE_GPTQ8 : format_words[i].format;
}

/* A file type of GGUF at the end of the name ("Q4_K_M"); cuts it off. */
static void take_file_type(char *name, enum size_format *f)
{
    for (char *p = name; *p; p++) {
        if (p > name && (p[-1] == '-' || p[-1] == '.' || p[-1] == ' ' || p[-1] == ':')) {
            enum size_format found = size_format_named(p);
            if (found != SIZE_FORMAT_NONE && size_format_row(found)->kind == SIZE_KIND_MIX) {
                *f = found;
                p[-1] = '\0';
                return;
            }
        }
    }
}

/* The name without owner, case, marks and plain words: "qwen2.5 7b instruct" → "qwen257b". */
static void name_key(const char *name, char key[KEY_MAX], enum size_format *ret_f)
{
    const char *slash = strrchr(name, '/');
    char copy[KEY_MAX], word[KEY_MAX];
    size_t n = 0;

    *ret_f = SIZE_FORMAT_NONE;
    key[0] = '\0';
    if (!str_copy(copy, sizeof(copy), slash && slash[1] ? slash + 1 : name))
        return;
    size_t len = strlen(copy);
    if (len > 5 && str_eq(copy + len - 5, ".gguf"))
        copy[len - 5] = '\0';
    take_file_type(copy, ret_f);
    for (const char *p = copy; *p;) {
        size_t k = strcspn(p, "-_ :"), w = 0;
        for (size_t i = 0; i < k; i++)
            if (p[i] != '.')
                word[w++] = lower(p[i]);
        word[w] = '\0';
        note_format(word, ret_f);
        if (!is_plain(word)) {
            memcpy(key + n, word, w);
            n += w;
        }
        p += k + (p[k] != '\0');
    }
    key[n] = '\0';
}

static bool key_fits(const struct model_row *r, const char *key)
{
    char other[KEY_MAX], one[KEY_MAX];
    enum size_format none;

    name_key(r->m.name, other, &none);
    if (str_eq(other, key))
        return true;
    for (const char *p = r->aliases ? r->aliases : ""; *p;) {
        size_t k = strcspn(p, ",");
        if (str_printf(one, sizeof(one), "%.*s", (int)k, p)) {
            name_key(one, other, &none);
            if (str_eq(other, key))
                return true;
        }
        p += k + (p[k] == ',');
    }
    return false;
}

/* The nearest names, for the refusal. */
static void name_near(const char *key, char *buf, size_t size)
{
    size_t best = SIZE_MAX;
    const struct model_row *near = NULL;

    for (size_t i = 0; i < model_row_count; i++) {
        char other[KEY_MAX];
        enum size_format none;
        name_key(model_rows[i].m.name, other, &none);
        size_t d = str_distance(key, other);
        if (d < best) {
            best = d;
            near = &model_rows[i];
        }
    }
    if (!near || !str_copy(buf, size, near->m.name))
        buf[0] = '\0';
}

enum err model_named(const char *name, struct size_model *ret_m, struct refusal *why)
{
    char key[KEY_MAX], near[SIZE_NAME_MAX];
    enum size_format f;

    name_key(name, key, &f);
    for (size_t i = 0; *key && i < model_row_count; i++) {
        if (!key_fits(&model_rows[i], key))
            continue;
        *ret_m = model_rows[i].m;
        if (f != SIZE_FORMAT_NONE)
            ret_m->stored = f;
        size_model_default(ret_m);
        return ERR_OK;
    }
    name_near(key, near, sizeof(near));
    enum err e = refusef(why, ERR_MODEL_UNKNOWN, "name", "%.80s", name);
    refusal_set(why, "near", near);
    return e;
}

const struct model_row *model_near(int64_t params)
{
    const struct model_row *near = NULL;
    int64_t best = INT64_MAX;

    for (size_t i = 0; i < model_row_count; i++) {
        struct size_model m = model_rows[i].m;
        struct size_params p;
        if (m.moe.experts || m.mla.kv_lora || !m.gated)
            continue;
        size_model_default(&m);
        size_params(&m, &p);
        int64_t d =
            (int64_t)p.total > params ? (int64_t)p.total - params : params - (int64_t)p.total;
        if (d < best) {
            best = d;
            near = &model_rows[i];
        }
    }
    return near;
}

bool model_params_parse(const char *s, int64_t *ret_n)
{
    static const struct {
        char unit;
        int64_t times;
    } units[] = {{'k', 1000}, {'m', 1000000}, {'b', 1000000000}, {'t', 1000000000000}};
    int64_t whole = 0, part = 0, scale = 1, times = 1;
    size_t n = strspn(s, "0123456789"), digits = 0;

    if (n == 0 || n > 15)
        return false;
    for (size_t i = 0; i < n; i++)
        whole = whole * 10 + (s[i] - '0');
    if (s[n] == '.') {
        digits = strspn(s + n + 1, "0123456789");
        if (digits == 0 || digits > 9)
            return false;
        for (size_t i = 0; i < digits; i++, scale *= 10)
            part = part * 10 + (s[n + 1 + i] - '0');
        n += digits + 1;
    }
    for (size_t i = 0; s[n] && i < ARRAY_LEN(units); i++)
        times = lower(s[n]) == units[i].unit ? units[i].times : times;
    if (s[n] ? s[n + 1] != '\0' || times == 1 : scale > 1)
        return false;
    if (__builtin_mul_overflow(whole, times, &whole) || __builtin_mul_overflow(part, times, &part))
        return false;
    whole += part / scale;
    if (whole <= 0 || whole > INT64_C(1000000000000000))
        return false;
    *ret_n = whole;
    return true;
}
