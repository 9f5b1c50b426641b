/* A model from foreign bytes: the first byte chooses the reader. A refusal names what and why, and
 * what is taken can be counted. */
#include "domain/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err read_it(int how, const uint8_t *p, size_t n, struct size_model *m,
                        struct refusal *why)
{
    struct model_tensors t = {0};
    int64_t total;

    switch (how) {
    case 0:
        return model_config(p, n, NULL, m, why);
    case 1:
        return model_config(p, n, "llama", m, why);
    case 2:
        return model_gguf(p, n, m, why);
    case 3:
        TRY(model_safetensors_add(p, n, -1, &t, why));
        return model_take_tensors(&t, m, why);
    default:
        TRY(model_index(p, n, &total, why));
        CHECK(total >= 0);
        return refusef(why, ERR_MODEL_FILE, "why", "an index alone");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct size_model m = {0};
    struct refusal why = {0};
    struct size_params p;

    if (size < 1)
        return 0;
    enum err e = read_it(data[0] % 5, data + 1, size - 1, &m, &why);
    if (e == ERR_OK) {
        CHECK(m.layers > 0 && m.hidden > 0 && m.heads > 0 && m.weight_bytes >= 0);
        size_params(&m, &p);
        CHECK(p.total >= 0 && p.active <= p.total);
    } else {
        CHECK(why.code == e && why.param_count > 0);
    }
    return 0;
}
