#include "domain/place_mix.h"

#include <stdlib.h>

static bool same_kind(const struct place_kind *k, const struct pool_demand *d)
{
    return k->cpu_milli == d->cpu_milli && k->cards == d->cards && k->milli == d->milli &&
           k->memory_mib == d->memory_mib && k->models == d->models;
}

static size_t lightest(const struct place_mix *m)
{
    size_t at = 0;

    for (size_t i = 1; i < m->count; i++)
        if (m->kind[i].weight < m->kind[at].weight)
            at = i;
    return at;
}

void place_mix_add(struct place_mix *m, const struct pool_demand *d, double weight)
{
    size_t at = 0;

    weight *= d->nodes > 1 ? d->nodes : 1;
    m->total += weight;
    while (at < m->count && !same_kind(&m->kind[at], d))
        at++;
    if (at == m->count) {
        struct place_kind k = {.cards = d->cards,
                               .milli = d->milli,
                               .cpu_milli = d->cpu_milli,
                               .memory_mib = d->memory_mib,
                               .models = d->models};

        if (m->count < PLACE_KINDS_MAX) {
            m->count++;
        } else {
            at = lightest(m);
            k.weight = m->kind[at].weight;
        }
        m->kind[at] = k;
    }
    m->kind[at].weight += weight;
}

void place_mix_see(struct place_mix *m, const struct pool_demand *d)
{
    place_mix_add(m, d, 1);
    if (++m->seen % PLACE_FADE_EVERY)
        return;
    for (size_t i = 0; i < m->count; i++)
        m->kind[i].weight /= 2;
    m->total /= 2;
}

void place_mix_guess(struct place_mix *m, const struct pool *p, double weight)
{
    static const int32_t sizes[] = {1, 2, 4, 8};
    static const double often[] = {0.7, 0.15, 0.1, 0.05};
    int64_t cpu = 0, mib = 0, cards = 0;

    for (size_t i = 0; i < p->count; i++) {
        const struct pool_node *n = &p->node[i];

        if (!n->card_count)
            continue;
        cpu += n->cpu_milli;
        mib += n->memory_mib;
        cards += n->card_count;
    }
    for (size_t i = 0; cards && i < ARRAY_LEN(sizes); i++) {
        struct pool_demand d = {.cards = sizes[i],
                                .milli = POOL_WHOLE,
                                .cpu_milli = (int32_t)(cpu / cards * sizes[i] * 3 / 4),
                                .memory_mib = mib / cards * sizes[i] * 3 / 4};

        place_mix_add(m, &d, weight * often[i]);
    }
}

#define ORDER(a, b)                                                                                \
    do {                                                                                           \
        if ((a) != (b))                                                                            \
            return (a) < (b) ? -1 : 1;                                                             \
    } while (0)

static int kind_compare(const void *va, const void *vb)
{
    const struct place_kind *a = va, *b = vb;

    ORDER(a->cards, b->cards);
    ORDER(a->milli, b->milli);
    ORDER(a->models, b->models);
    ORDER(a->cpu_milli, b->cpu_milli);
    ORDER(a->memory_mib, b->memory_mib);
    return 0;
}

void place_mix_sort(struct place_mix *m)
{
    qsort(m->kind, m->count, sizeof(m->kind[0]), kind_compare);
}
