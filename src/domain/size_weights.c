/* Bytes of weights in each format, and the formats themselves. */
#include "domain/size_sum.h"

static const struct size_format_row rows[SIZE_FORMATS] = {
    {"", SIZE_KIND_PLAIN, 1, 2, -1},
#define FORMAT(id, name, kind, weights, bytes, gguf) {name, SIZE_KIND_##kind, weights, bytes, gguf},
#include "domain/size_format.def"
#undef FORMAT
};

const struct size_format_row *size_format_row(enum size_format f)
{
    CHECK(f >= 0 && f < SIZE_FORMATS);
    return &rows[f];
}

double size_bits(enum size_format f)
{
    const struct size_format_row *r = size_format_row(f);

    return 8.0 * (double)r->bytes / (double)r->weights;
}

enum size_format size_format_gguf(int type)
{
    for (int f = 1; f < SIZE_FORMATS; f++)
        if (rows[f].gguf == type && type >= 0)
            return (enum size_format)f;
    return SIZE_FORMAT_NONE;
}

static char lower(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '-' ? '_' : c;
}

static bool same(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b))
        a++, b++;
    return *a == '\0' && *b == '\0';
}

enum size_format size_format_named(const char *name)
{
    static const struct {
        const char *name;
        enum size_format f;
    } other[] = {
        {"fp32", SIZE_F32},        {"float32", SIZE_F32},       {"fp16", SIZE_F16},
        {"float16", SIZE_F16},     {"half", SIZE_F16},          {"bfloat16", SIZE_BF16},
        {"fp8_e4m3", SIZE_FP8},    {"fp8_e5m2", SIZE_FP8},      {"float8", SIZE_FP8},
        {"int4", SIZE_NF4_DQ},     {"4bit", SIZE_NF4_DQ},       {"bnb_4bit", SIZE_NF4_DQ},
        {"fp4", SIZE_NF4},         {"nf4_double", SIZE_NF4_DQ}, {"8bit", SIZE_INT8},
        {"bnb_8bit", SIZE_INT8},   {"llm_int8", SIZE_INT8},     {"gptq", SIZE_GPTQ4},
        {"gptq_4bit", SIZE_GPTQ4}, {"gptq_8bit", SIZE_GPTQ8},   {"awq_int4", SIZE_AWQ4},
        {"awq_4bit", SIZE_AWQ4},   {"int8_w8a8", SIZE_W8A8},    {"smoothquant", SIZE_W8A8},
    };

    for (int f = 1; f < SIZE_FORMATS; f++)
        if (strcmp(rows[f].name, name) == 0)
            return (enum size_format)f;
    for (int f = SIZE_FORMATS - 1; f > 0; f--) /* file types before tensor types */
        if (same(rows[f].name, name))
            return (enum size_format)f;
    for (size_t i = 0; i < ARRAY_LEN(other); i++)
        if (same(other[i].name, name))
            return other[i].f;
    return SIZE_FORMAT_NONE;
}

int64_t size_weight_bytes(const struct size_model *m, enum size_format f)
{
    const struct size_format_row *r = size_format_row(f);
    struct size_params p;

    if (m->weight_bytes > 0 && (f == m->stored || f == SIZE_FORMAT_NONE))
        return m->weight_bytes;
    size_params(m, &p);
    if (m->params_exact > 0) { /* what the formula does not know is taken as matrices */
        p.linear = MAX(0, p.linear + ((double)m->params_exact - p.total));
        p.total = (double)m->params_exact;
    }
    double bytes = size_bits(f) / 8;
    switch (r->kind) {
    case SIZE_KIND_PLAIN:
        return size_whole(p.total * bytes);
    case SIZE_KIND_HF: {
        double scales = f == SIZE_INT8 || f == SIZE_W8A8 ? 4 * p.rows : 0;
        double kept = f == SIZE_MXFP4 ? p.linear - p.experts : 0; /* only experts are in 4 bit */
        return size_whole((p.linear - kept) * bytes + 2 * kept + scales +
                          2 * (p.embed + p.head + p.other));
    }
    case SIZE_KIND_BLOCK:
        return size_whole((p.linear + p.embed + p.head) * bytes + 4 * p.other);
    case SIZE_KIND_MIX:
        break;
    }
    return size_gguf_bytes(m, f);
}
