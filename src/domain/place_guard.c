/* place_guard.c: how much a place for a large demand is worth. With R demands of its kind still to
 * come and S places left, using one up costs the demand with the chance that R is at least S
 * (Littlewood's rule for seats of a better class). R is taken as normal around its mean. */
#include <math.h>

#include "domain/place_int.h"

#define GUARD_STEP (1.0 / 16) /* of a chance: smaller moves change no score */

static uint64_t types_that_hold(const struct place_kind *k, const struct look_type *type,
                                size_t types)
{
    uint64_t mask = 0;

    for (size_t t = 0; t < types; t++)
        if (type[t].cards >= k->cards && type[t].cpu_milli >= k->cpu_milli &&
            type[t].memory_mib >= k->memory_mib && (!k->models || k->models >> type[t].model & 1))
            mask |= 1ULL << t;
    return mask;
}

static struct place_guard *guard_of(struct place_guards *g, int32_t cards, uint64_t types)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->guard[i].cards == cards && g->guard[i].types == types)
            return &g->guard[i];
    if (g->count == PLACE_GUARDS_MAX)
        return NULL;
    g->guard[g->count] = (struct place_guard){.cards = cards, .types = types};
    return &g->guard[g->count++];
}

/* Demands at least as large that could hold on no other machines use the same places up. */
static void needs_build(const struct place_guards *g, struct place_guard *of)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct place_guard *k = &g->guard[i];
        double places = (double)k->cards / of->cards;

        if (k->cards < of->cards || k->types & ~of->types)
            continue;
        of->mean += k->rate * places;
        of->spread += k->rate * places * places;
    }
}

void place_guards_build(struct place_guards *g, const struct place_mix *m,
                        const struct look_type *type, size_t types)
{
    g->count = 0;
    g->epoch++;
    /* the largest first: they are hardest to place, and the table may be too small */
    for (size_t i = m->count; i-- > 0;) {
        const struct place_kind *k = &m->kind[i];
        uint64_t mask = k->cards > 1 ? types_that_hold(k, type, types) : 0;
        struct place_guard *at = mask ? guard_of(g, k->cards, mask) : NULL;

        if (!at)
            continue;
        at->rate += k->weight;
        at->cpu_milli += k->weight * k->cpu_milli;
        at->memory_mib += k->weight * (double)k->memory_mib;
    }
    for (size_t i = 0; i < g->count; i++) {
        g->guard[i].cpu_milli /= g->guard[i].rate;
        g->guard[i].memory_mib /= g->guard[i].rate;
        g->guard[i].rate /= m->total;
    }
    for (size_t i = 0; i < g->count; i++)
        needs_build(g, &g->guard[i]);
}

bool place_guard_watches(const struct place_guard *g, const struct pool_node *n, uint32_t type)
{
    return (g->types >> type & 1) && !n->drain && !n->exclusive;
}

int64_t place_guard_places(const struct place_guard *g, int64_t whole, int64_t cpu_milli,
                           int64_t memory_mib)
{
    int64_t there = whole / g->cards;

    if (there && g->cpu_milli > 0)
        there = MIN(there, (int64_t)((double)cpu_milli / g->cpu_milli));
    if (there && g->memory_mib > 0)
        there = MIN(there, (int64_t)((double)memory_mib / g->memory_mib));
    return there;
}

void place_guards_due(struct place_guards *g, double demands)
{
    for (size_t i = 0; i < g->count; i++) {
        struct place_guard *k = &g->guard[i];
        double spread = sqrt(demands * k->spread) + 1e-9;
        double over = ((double)k->places - 0.5 - demands * k->mean) / spread;
        double chance = over > 6 ? 0 : over < -6 ? 1 : 0.5 * erfc(over / sqrt(2));

        if (fabs(chance - k->due) < GUARD_STEP && (chance > 0 || k->due <= 0))
            continue;
        g->epoch += chance != k->due; /* 0 stays 0 */
        k->due = chance;
    }
}

double place_guards_toll(const struct place_guards *g, uint64_t pattern, int32_t cards,
                         uint64_t types)
{
    double toll = 0;

    for (size_t i = 0; i < g->count && pattern; i++, pattern >>= PLACE_LOSS_BITS) {
        const struct place_guard *k = &g->guard[i];
        int64_t lost = (int64_t)(pattern & ((1U << PLACE_LOSS_BITS) - 1));

        /* a demand of the guarded kind uses the places that were kept for it */
        if (cards >= k->cards && !(types & ~k->types))
            lost = MAX(lost - cards / k->cards, (int64_t)0);
        toll += (double)lost * k->due * k->cards * POOL_WHOLE;
    }
    return toll;
}
