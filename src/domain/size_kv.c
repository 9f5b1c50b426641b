/* What inference keeps for a token and for a sequence.
 *
 *   grouped   L_kv * (g*d*bk + g*dv*bv)      g / t on a rank, at least one head
 *   latent    L * (rkv + dr) * bk            naive: L * (a*(dn+dr)*bk + a*dv*bv)
 *   window    min(s, window) in the layers that have one
 *   hybrid    only the layers with attention, and a constant state for a sequence */
#include "domain/size_sum.h"

static double element(enum size_format f) /* bytes */
{
    if (f == SIZE_FORMAT_NONE)
        return 2;
    if (f == SIZE_FP8 || f == SIZE_INT8 || f == SIZE_W8A8)
        return 1; /* scales are kept for the whole tensor */
    return size_bits(f) / 8;
}

/* Of one layer with attention. */
static double layer_token(const struct size_model *m, const struct size_kv *kv, int64_t tp)
{
    double bk = element(kv->k), bv = element(kv->v);

    if (m->mla.kv_lora > 0 && !kv->mla_naive) {
        double latent = (double)m->mla.kv_lora;
        return (latent + (double)m->mla.rope) * bk + (kv->mla_transposed ? latent * bk : 0);
    }
    if (m->mla.kv_lora > 0) {
        double a = (double)((m->heads + tp - 1) / tp);
        return a * (double)(m->mla.nope + m->mla.rope) * bk + a * (double)m->mla.value * bv;
    }
    double g = (double)((m->kv_heads + tp - 1) / tp);
    return g * (double)m->head_dim * bk +
           g * (double)(m->value_dim ? m->value_dim : m->head_dim) * bv;
}

static int64_t cache_layers(const struct size_model *m)
{
    return m->kv_layers > 0 ? m->kv_layers : m->layers;
}

int64_t size_kv_token(const struct size_model *m, const struct size_kv *kv)
{
    return size_whole(layer_token(m, kv, 1) * (double)cache_layers(m));
}

int64_t size_kv_sequence(const struct size_model *m, const struct size_kv *kv, int64_t tokens,
                         int64_t tp)
{
    double each = layer_token(m, kv, MAX(tp, 1)), s = (double)tokens;
    double layers = (double)cache_layers(m), windowed = 0;

    if (m->window > 0 && !kv->window_full)
        windowed =
            m->window_every > 0 ? layers - (double)(cache_layers(m) / m->window_every) : layers;
    double in_window = MIN(s, (double)m->window);
    return size_whole(each * ((layers - windowed) * s + windowed * in_window) +
                      (double)m->state_bytes);
}

int64_t size_kv_tokens(int64_t bytes, int64_t token_bytes, int64_t block)
{
    if (bytes <= 0 || token_bytes <= 0 || block <= 0)
        return 0;
    return bytes / token_bytes / block * block;
}
