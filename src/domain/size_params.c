/* Parameters of a transformer, part by part, from its configuration.
 *
 *   attention  h*a*d + h*g*d + h*g*dv + a*dv*h
 *   latent     rq*(h + a*(dn+dr)) or h*a*(dn+dr);  rkv*(h + a*(dn+dv)) + h*dr;  a*dv*h
 *   mlp        3*h*f gated, 2*h*f plain
 *   experts    E*3*h*fe + h*E router + 3*h*fs shared
 *   ends       V*h, once when tied
 *
 * Sums stay under 2^53 (size_model_check), so the doubles are exact whole numbers. */
#include "base/msg.h"
#include "domain/size_sum.h"

#define COUNT_MAX 9007199254740992.0 /* 2^53 */

static int64_t value_dim(const struct size_model *m)
{
    return m->value_dim ? m->value_dim : m->head_dim;
}

void size_model_default(struct size_model *m)
{
    if (m->kv_heads == 0)
        m->kv_heads = m->heads;
    if (m->head_dim == 0 && m->heads > 0)
        m->head_dim = m->hidden / m->heads;
    if (m->norms == 0)
        m->norms = 2;
    if (m->moe.experts > 0 && m->moe.active == 0)
        m->moe.active = 1;
}

static enum err no(struct refusal *why, const char *field, const char *text)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%s", field);

    refusal_set(why, "why", text);
    return e;
}

struct bound {
    const char *field;
    int64_t value, min, max;
};

static enum err check_bounds(const struct bound *b, size_t count, struct refusal *why)
{
    for (size_t i = 0; i < count; i++)
        if (b[i].value < b[i].min || b[i].value > b[i].max)
            return no(why, b[i].field, N_("no model that is known has such a size"));
    return ERR_OK;
}

static enum err check_heads(const struct size_model *m, struct refusal *why)
{
    if (m->mla.kv_lora == 0 && (m->kv_heads > m->heads || m->heads % m->kv_heads != 0))
        return no(why, "kv_heads", N_("it must divide the number of heads"));
    if (m->kv_layers > m->layers)
        return no(why, "kv_layers", N_("it is more than there are layers"));
    if (m->moe.active > m->moe.experts)
        return no(why, "active_experts", N_("it is more than there are experts"));
    if (m->moe.dense_first > m->layers)
        return no(why, "dense_layers", N_("it is more than there are layers"));
    return ERR_OK;
}

enum err size_model_check(const struct size_model *m, struct refusal *why)
{
    const struct bound bound[] = {
        {"layers", m->layers, 1, 10000},
        {"hidden", m->hidden, 1, 1 << 20},
        {"ffn", m->ffn, 0, 1 << 22},
        {"heads", m->heads, 1, 1 << 16},
        {"kv_heads", m->kv_heads, 1, 1 << 16},
        {"head_dim", m->head_dim, 1, 1 << 16},
        {"value_dim", m->value_dim, 0, 1 << 16},
        {"vocab", m->vocab, 0, 1 << 26},
        {"positions", m->positions, 0, 1 << 26},
        {"norms", m->norms, 0, 16},
        {"q_lora", m->mla.q_lora, 0, 1 << 20},
        {"kv_lora", m->mla.kv_lora, 0, 1 << 20},
        {"nope", m->mla.nope, 0, 1 << 16},
        {"rope", m->mla.rope, 0, 1 << 16},
        {"value", m->mla.value, 0, 1 << 16},
        {"experts", m->moe.experts, 0, 1 << 16},
        {"active_experts", m->moe.active, 0, 1 << 16},
        {"expert_ffn", m->moe.ffn, 0, 1 << 22},
        {"shared_ffn", m->moe.shared_ffn, 0, 1 << 24},
        {"dense_layers", m->moe.dense_first, 0, 10000},
        {"expert_every", m->moe.every, 0, 10000},
        {"mtp_layers", m->mtp_layers, 0, 100},
        {"window", m->window, 0, 1 << 30},
        {"window_every", m->window_every, 0, 10000},
        {"kv_layers", m->kv_layers, 0, 10000},
        {"state_bytes", m->state_bytes, 0, (int64_t)1 << 40},
        {"linear_params", m->linear_params, 0, (int64_t)1 << 40},
        {"tower_params", m->tower_params, 0, (int64_t)1 << 40},
        {"tower_tokens", m->tower_tokens, 0, 1 << 26},
        {"context", m->context_max, 0, (int64_t)1 << 40},
        {"parameters", m->params_exact, 0, (int64_t)1 << 50},
        {"bytes", m->weight_bytes, 0, (int64_t)1 << 52},
    };
    struct size_params p;

    TRY(check_bounds(bound, ARRAY_LEN(bound), why));
    TRY(check_heads(m, why));
    size_params(m, &p);
    if (!(p.total < COUNT_MAX / 16))
        return no(why, "parameters", N_("no model that is known has such a size"));
    return ERR_OK;
}

/* Attention of one layer: its matrices, and what is no matrix. */
static double attention(const struct size_model *m, double *ret_other, double *ret_max,
                        double *ret_rows)
{
    double h = (double)m->hidden, a = (double)m->heads, g = (double)m->kv_heads;
    double d = (double)m->head_dim, dv = (double)value_dim(m);

    if (m->mla.kv_lora > 0) {
        const struct size_mla *l = &m->mla;
        double rq = (double)l->q_lora, rkv = (double)l->kv_lora;
        double nope = (double)l->nope, rope = (double)l->rope, value = (double)l->value;
        double q = rq > 0 ? rq * (h + a * (nope + rope)) : h * a * (nope + rope);
        *ret_other = rq + rkv;
        *ret_rows = rq + a * (nope + rope) + rkv + rope + a * (nope + value) + h;
        *ret_max = MAX(a * value * h, rq > 0 ? rq * a * (nope + rope) : q);
        return q + rkv * (h + a * (nope + value)) + h * rope + a * value * h;
    }
    *ret_other = (m->qkv_bias ? a * d + g * d + g * dv : 0) + (m->out_bias ? h : 0) +
                 (m->qk_norm ? 2 * d : 0);
    *ret_rows = a * d + g * d + g * dv + h;
    *ret_max = h * a * MAX(d, dv);
    return h * a * d + h * g * d + h * g * dv + a * dv * h;
}

static double mlp_matrices(const struct size_model *m)
{
    return m->gated ? 3 : 2;
}

static double mlp_bias(const struct size_model *m, double f)
{
    return m->mlp_bias ? (mlp_matrices(m) - 1) * f + (double)m->hidden : 0;
}

/* How many layers hold experts. */
static double expert_layers(const struct size_model *m)
{
    if (m->moe.experts == 0)
        return 0;
    int64_t from = m->layers - m->moe.dense_first, every = MAX(m->moe.every, 1);
    return (double)(from / every);
}

struct layer {
    double linear, other, active, experts, matrix_max, rows;
};

static struct layer layer(const struct size_model *m, bool experts, bool attends)
{
    double h = (double)m->hidden, per = mlp_matrices(m) * h, attn_other = 0, attn_max = 0;
    double rows = 0;
    struct layer l = {.other = (double)m->norms * h * (m->norm == SIZE_LAYERNORM ? 2 : 1)};
    double attn = attention(m, &attn_other, &attn_max, &rows);

    if (!attends && m->linear_params > 0) {
        attn = (double)m->linear_params;
        attn_other = 0;
    }
    l.other += attn_other;
    l.linear = l.active = attn;
    l.matrix_max = attn_max;
    l.rows = rows;
    if (!experts) {
        double f = (double)m->ffn;
        l.linear += per * f;
        l.rows += (mlp_matrices(m) - 1) * f + h;
        l.active += per * f;
        l.other += mlp_bias(m, f);
        l.matrix_max = MAX(l.matrix_max, h * f);
        return l;
    }
    double e = (double)m->moe.experts, f = (double)m->moe.ffn, s = (double)m->moe.shared_ffn;
    l.experts = e * per * f;
    l.rows += (mlp_matrices(m) - 1) * (e * f + s) + (e + (s > 0)) * h;
    l.linear += l.experts + per * s;
    l.active += (double)m->moe.active * per * f + per * s;
    l.other +=
        h * e + (m->moe.router_bias ? e : 0) + (m->moe.shared_gate ? h : 0) + e * mlp_bias(m, f);
    l.matrix_max = MAX(l.matrix_max, h * MAX(f, s));
    return l;
}

static void add(struct size_params *p, const struct layer *l, double times)
{
    p->linear += times * l->linear;
    p->other += times * l->other;
    p->experts += times * l->experts;
    p->rows += times * l->rows;
    p->active += times * (l->active + l->other);
    if (times > 0) {
        p->layer = MAX(p->layer, l->linear + l->other);
        p->matrix_max = MAX(p->matrix_max, l->matrix_max);
    }
}

void size_params(const struct size_model *m, struct size_params *ret_p)
{
    double h = (double)m->hidden, layers = (double)m->layers, moe = expert_layers(m);
    double attends = m->kv_layers > 0 ? (double)m->kv_layers : layers;
    struct layer dense = layer(m, false, true), expert = layer(m, true, true);
    double norm_final = m->no_final_norm ? 0 : h * (m->norm == SIZE_LAYERNORM ? 2 : 1);

    *ret_p = (struct size_params){.embed = (double)m->vocab * h,
                                  .head = m->tied ? 0 : (double)m->vocab * h};
    add(ret_p, &dense, layers - moe);
    add(ret_p, &expert, moe);
    if (m->linear_params > 0 && attends < layers) { /* the others attend in another way */
        struct layer plain = layer(m, moe > 0, true), other = layer(m, moe > 0, false);
        double n = layers - attends;
        ret_p->linear += n * (other.linear - plain.linear);
        ret_p->other += n * (other.other - plain.other);
        ret_p->active += n * (other.active + other.other - plain.active - plain.other);
    }
    double active = ret_p->active, mtp = (double)m->mtp_layers;
    add(ret_p, moe > 0 ? &expert : &dense, mtp);
    double rest = norm_final + (double)m->positions * h + (m->head_bias ? (double)m->vocab : 0) +
                  (double)m->tower_params;
    ret_p->linear += mtp * 2 * h * h;
    ret_p->other += rest + mtp * 3 * h;
    ret_p->active = active + rest + ret_p->embed + ret_p->head; /* MTP drafts, it does not answer */
    ret_p->total = ret_p->linear + ret_p->other + ret_p->embed + ret_p->head;
}

int64_t size_params_total(const struct size_model *m)
{
    struct size_params p;

    if (m->params_exact > 0)
        return m->params_exact;
    size_params(m, &p);
    return (int64_t)p.total;
}

int64_t size_params_active(const struct size_model *m)
{
    struct size_params p;

    size_params(m, &p);
    if (m->params_exact > 0 && m->moe.experts == 0)
        return m->params_exact;
    return (int64_t)p.active;
}
