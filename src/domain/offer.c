#include "domain/offer.h"

#include "base/units.h"
#include "domain/money.h"
#include "domain/place.h"

static const char *const fields[] = {"gpu", "vram",   "price", "count",
                                     "cpu", "memory", "trust", "node"};

static enum err filter_bad(struct refusal *why, const char *word, const char *text)
{
    (void)refusef(why, ERR_VALIDATION, "field", "filter %s", word);
    refusal_set(why, "why", text);
    return ERR_VALIDATION;
}

/* Decimal text times scale, exact: vram>=24, price<2.5. */
static bool scaled(const char *s, int64_t scale, int64_t *ret_v)
{
    int64_t v = 0;
    size_t digits = 0;

    for (; *s >= '0' && *s <= '9'; s++, digits++) {
        if (v > INT64_MAX / scale / 20)
            return false;
        v = v * 10 + (*s - '0');
    }
    v *= scale;
    if (*s == '.') {
        int64_t part = scale;

        for (s++; *s >= '0' && *s <= '9'; s++, digits++) {
            part /= 10;
            v += part * (*s - '0');
        }
    }
    *ret_v = v;
    return digits && !*s;
}

static bool term_value(struct offer_term *t, const char *text)
{
    switch (t->field) {
    case OFFER_GPU:
    case OFFER_TRUST:
    case OFFER_NODE:
        return t->op == OFFER_EQ || t->field == OFFER_TRUST;
    case OFFER_VRAM:
    case OFFER_MEMORY:
        return scaled(text, 1024, &t->value) || size_parse_mib(text, &t->value) == ERR_OK;
    case OFFER_PRICE:
        return scaled(text, MICRO_PER_MAJOR, &t->value);
    case OFFER_COUNT:
    case OFFER_CPU:
        return scaled(text, 1, &t->value) && !strchr(text, '.');
    }
    return false;
}

static bool term_op(const char *s, enum offer_op *ret_op, size_t *ret_len)
{
    static const struct {
        const char *text;
        enum offer_op op;
    } ops[] = {
        {">=", OFFER_GE}, {"<=", OFFER_LE}, {"=", OFFER_EQ}, {"<", OFFER_LT}, {">", OFFER_GT}};

    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        size_t len = strlen(ops[i].text);

        if (strncmp(s, ops[i].text, len) == 0) {
            *ret_op = ops[i].op;
            *ret_len = len;
            return true;
        }
    }
    return false;
}

static enum err parse_order(struct offer_filter *f, const char *v, struct refusal *why)
{
    f->falling = *v == '-';
    v += f->falling;
    if (strcmp(v, "price") == 0)
        f->order = OFFER_BY_PRICE;
    else if (strcmp(v, "vram") == 0)
        f->order = OFFER_BY_VRAM;
    else if (strcmp(v, "free") == 0)
        f->order = OFFER_BY_FREE;
    else
        return filter_bad(why, "order", "price, vram or free");
    return ERR_OK;
}

static enum err parse_term(struct offer_filter *f, const char *word, struct refusal *why)
{
    size_t name_len = strcspn(word, "<>="), op_len;
    struct offer_term t = {0};
    size_t i;

    if (!term_op(word + name_len, &t.op, &op_len))
        return filter_bad(why, word, "expected name=value, name>=value, ...");
    if (name_len == 5 && strncmp(word, "order", 5) == 0)
        return parse_order(f, word + name_len + op_len, why);
    for (i = 0; i < ARRAY_LEN(fields); i++)
        if (strlen(fields[i]) == name_len && strncmp(fields[i], word, name_len) == 0)
            break;
    if (i == ARRAY_LEN(fields))
        return filter_bad(why, word, "gpu, vram, price, count, cpu, memory, trust, node or order");
    t.field = (enum offer_field)i;
    word += name_len + op_len;
    if (strlen(word) >= sizeof(t.text) || !*word || !term_value(&t, word))
        return filter_bad(why, fields[i], "this value or comparison does not fit");
    memcpy(t.text, word, strlen(word) + 1);
    if (f->count == OFFER_TERMS_MAX)
        return filter_bad(why, fields[i], "too many conditions");
    f->terms[f->count++] = t;
    return ERR_OK;
}

enum err offer_filter_parse(const char *text, struct offer_filter *ret_f, struct refusal *why)
{
    struct offer_filter f = {0};

    while (*text) {
        size_t len = strcspn(text, " ");
        char word[80];

        if (len >= sizeof(word))
            return filter_bad(why, "", "a condition is too long");
        memcpy(word, text, len);
        word[len] = 0;
        if (len)
            TRY(parse_term(&f, word, why));
        text += len;
        text += *text == ' ';
    }
    *ret_f = f;
    return ERR_OK;
}

static bool compare(enum offer_op op, int64_t a, int64_t b)
{
    switch (op) {
    case OFFER_EQ:
        return a == b;
    case OFFER_LE:
        return a <= b;
    case OFFER_GE:
        return a >= b;
    case OFFER_LT:
        return a < b;
    case OFFER_GT:
        return a > b;
    }
    return false;
}

/* every offer of this platform is the operator's own, the highest grade there is */
static bool trust_matches(const struct offer_term *t)
{
    bool is_operator = strcmp(t->text, "operator") == 0;

    return t->op == OFFER_EQ ? is_operator : t->op == OFFER_GE;
}

static bool term_matches(const struct offer_term *t, const struct offer *o)
{
    switch (t->field) {
    case OFFER_GPU:
        return place_model_match(t->text, o->gpu) != 0;
    case OFFER_VRAM:
        /* makers round: a 24 GB card shows a little less than 24 GiB */
        return compare(t->op, (o->vram_mib + 1023) / 1024 * 1024, t->value);
    case OFFER_PRICE:
        return compare(t->op, o->price_u, t->value);
    case OFFER_COUNT:
        return compare(t->op, o->count_max, t->value);
    case OFFER_CPU:
        return compare(t->op, o->cpu_max, t->value);
    case OFFER_MEMORY:
        return compare(t->op, o->memory_mib_max, t->value);
    case OFFER_TRUST:
        return trust_matches(t);
    case OFFER_NODE:
        return strcmp(t->text, o->node_name) == 0;
    }
    return false;
}

bool offer_matches(const struct offer_filter *f, const struct offer *o)
{
    for (size_t i = 0; i < f->count; i++)
        if (!term_matches(&f->terms[i], o))
            return false;
    return true;
}

static int64_t order_key(const struct offer_filter *f, const struct offer *o)
{
    switch (f->order) {
    case OFFER_BY_PRICE:
        return o->price_u;
    case OFFER_BY_VRAM:
        return o->vram_mib;
    case OFFER_BY_FREE:
        return o->free;
    }
    return 0;
}

static bool comes_after(const struct offer_filter *f, const struct offer *a, const struct offer *b)
{
    int64_t ka = order_key(f, a), kb = order_key(f, b);

    if (ka != kb)
        return f->falling ? ka < kb : ka > kb;
    if (a->price_u != b->price_u)
        return a->price_u > b->price_u;
    return strcmp(a->id.s, b->id.s) > 0;
}

void offer_sort(const struct offer_filter *f, struct offer *offers, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && comes_after(f, &offers[j - 1], &offers[j]); j--) {
            struct offer t = offers[j];

            offers[j] = offers[j - 1];
            offers[j - 1] = t;
        }
}
