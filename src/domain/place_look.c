#include "domain/place_look.h"

#define FRAGMENT_WEIGHT 0.1 /* of the fragmentation in the look-ahead */
#define IDLE_MIN 50         /* milli: less is as good as nothing */
#define SEAT_ROUNDS 8       /* halvings when the share of seats is sought */

/* fragmentation */

static double fragment(const struct place_look *l, const struct look_state *s)
{
    double usable = 0;
    int64_t idle = 0;

    for (int32_t i = 0; i < s->cards; i++)
        idle += s->free[i];
    for (size_t g = 0; g < l->groups && idle; g++) {
        const struct look_group *k = &l->group[g];
        int64_t useful = 0;
        int32_t fit = 0;
        size_t at = k->to;

        while (at > k->from && l->threshold[at - 1] > s->cpu_milli)
            at--;
        if (at == k->from)
            continue;
        for (int32_t i = 0; i < s->cards; i++) {
            bool will = s->free[i] >= k->milli && (!k->models || k->models >> s->model[i] & 1);

            fit += will;
            useful += will ? s->free[i] : 0;
        }
        if (fit >= k->cards)
            usable += l->reach[at - 1] * (double)useful;
    }
    return (double)idle - usable;
}

/* The mix is sorted: kinds that differ in cores (and memory) alone stand together. */
static void groups_build(struct place_look *l, const struct place_mix *m)
{
    size_t at = 0;

    l->groups = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct place_kind *k = &m->kind[i];
        struct look_group *g = l->groups ? &l->group[l->groups - 1] : NULL;

        if (!k->cards)
            continue;
        if (!g || g->cards != k->cards || g->milli != k->milli || g->models != k->models) {
            g = &l->group[l->groups++];
            *g = (struct look_group){k->cards, k->milli, k->models, at, at};
        }
        l->threshold[at] = k->cpu_milli;
        l->reach[at] = k->weight / m->total + (at > g->from ? l->reach[at - 1] : 0);
        g->to = ++at;
    }
}

/* look-ahead */

static uint64_t draw(uint64_t *state) /* xorshift64*: fixed streams, not chance */
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717ULL;
}

static double draw_unit(uint64_t *state)
{
    return (double)(draw(state) >> 11) / 9007199254740992.0;
}

static void steps_build(struct place_look *l)
{
    l->steps = 0;
    for (int16_t size = 0; size <= POOL_WHOLE; size++) {
        bool there = false;

        for (size_t g = 0; g < l->groups && !there; g++)
            there = l->group[g].milli == size;
        if (!there && size)
            continue;
        if (l->steps == LOOK_STEPS_MAX) /* the rest count as the largest */
            l->steps--;
        l->step[l->steps++] = size;
    }
    for (size_t k = 0; k < LOOK_STREAMS; k++)
        for (size_t b = 0; b < l->steps; b++) {
            l->next[k][b][LOOK_LENGTH] = LOOK_LENGTH;
            for (size_t i = LOOK_LENGTH; i-- > 0;)
                l->next[k][b][i] =
                    l->offer[k][i].milli <= l->step[b] ? (uint8_t)i : l->next[k][b][i + 1];
        }
}

/* A stream is a stratified sample of the mix in an order of its own. */
static void stream_build(struct place_look *l, const struct place_mix *m, size_t k, uint64_t *state)
{
    uint8_t order[LOOK_LENGTH];
    double offset = draw_unit(state), sum = m->kind[0].weight;
    size_t kind = 0;

    for (size_t i = 0; i < LOOK_LENGTH; i++)
        order[i] = (uint8_t)i;
    for (size_t i = LOOK_LENGTH - 1; i > 0; i--) {
        size_t j = (size_t)(draw(state) % (i + 1));
        uint8_t was = order[i];

        order[i] = order[j];
        order[j] = was;
    }
    for (size_t i = 0; i < LOOK_LENGTH; i++) {
        double at = ((double)i + offset) / LOOK_LENGTH * m->total;

        while (sum <= at && kind + 1 < m->count)
            sum += m->kind[++kind].weight;
        l->offer[k][order[i]] = (struct look_offer){.cpu_milli = m->kind[kind].cpu_milli,
                                                    .milli = (int16_t)m->kind[kind].milli,
                                                    .cards = (uint8_t)m->kind[kind].cards,
                                                    .luck = (float)draw_unit(state),
                                                    .models = m->kind[kind].models};
    }
}

static bool model_will_do(const struct look_state *s, const struct look_offer *o, int32_t card)
{
    return !o->models || o->models >> s->model[card] & 1;
}

/* Takes the offer's one card, the tightest that suffices; false when there is none. */
static bool take_one(struct look_state *s, const struct look_offer *o)
{
    int32_t best = -1;
    int16_t least = INT16_MAX;

    for (int32_t i = 0; i < s->cards; i++) {
        bool better = s->free[i] >= o->milli && s->free[i] < least && model_will_do(s, o, i);

        best = better ? i : best;
        least = better ? s->free[i] : least;
    }
    if (best < 0)
        return false;
    s->free[best] = (int16_t)(least - o->milli);
    return true;
}

/* Several cards; which of them is all one, they are whole as good as always. */
static bool take_more(struct look_state *s, const struct look_offer *o)
{
    int32_t at[POOL_CARDS_MAX], count = 0;

    for (int32_t i = 0; i < s->cards; i++) {
        at[count] = i;
        count += s->free[i] >= o->milli && model_will_do(s, o, i);
    }
    if (count < o->cards)
        return false;
    for (int32_t i = 0; i < o->cards; i++)
        s->free[at[i]] = (int16_t)(s->free[at[i]] - o->milli);
    return true;
}

/* The largest card size asked for that the node could still give. */
static size_t step_of(const struct place_look *l, const struct look_state *s, size_t b)
{
    int16_t most = 0;

    for (int32_t i = 0; i < s->cards; i++)
        most = s->free[i] > most ? s->free[i] : most;
    while (b > 0 && l->step[b] > most)
        b--;
    return b;
}

/* What one stream leaves idle; adds the cores that its seats took. */
static int64_t roll(const struct place_look *l, const struct look_state *start, size_t first,
                    int64_t idle, size_t k, double *seat_cpu)
{
    struct look_state s;
    const struct look_offer *offer = l->offer[k];
    float seats = l->seats[start->type];
    size_t b = first;

    s.cpu_milli = start->cpu_milli;
    s.cards = start->cards;
    memcpy(s.free, start->free, (size_t)s.cards * sizeof(s.free[0]));
    memcpy(s.model, start->model, (size_t)s.cards * sizeof(s.model[0]));
    for (size_t i = l->next[k][b][0]; i < LOOK_LENGTH && idle >= IDLE_MIN;
         i = l->next[k][b][i + 1]) {
        const struct look_offer *o = &offer[i];

        if (o->cpu_milli > s.cpu_milli)
            continue;
        if (!o->cards) {
            if (o->luck < seats) {
                s.cpu_milli -= o->cpu_milli;
                *seat_cpu += o->cpu_milli;
            }
        } else if (o->cards == 1 ? take_one(&s, o) : take_more(&s, o)) {
            s.cpu_milli -= o->cpu_milli;
            idle -= (int64_t)o->cards * o->milli;
            b = step_of(l, &s, b);
        }
    }
    return idle;
}

static double rolls(const struct place_look *l, const struct look_state *s, double *ret_seat_cpu)
{
    size_t first = step_of(l, s, l->steps - 1);
    int64_t idle = 0, now = 0;
    double seat_cpu = 0;

    for (int32_t i = 0; i < s->cards; i++)
        now += s->free[i];
    for (size_t k = 0; k < LOOK_STREAMS; k++)
        idle += roll(l, s, first, now, k, &seat_cpu);
    *ret_seat_cpu = seat_cpu / LOOK_STREAMS;
    return (double)idle / LOOK_STREAMS;
}

static double spare_of(const struct look_type *t, double per_card)
{
    return t->cards ? (double)t->cpu_milli / t->cards - per_card : (double)t->cpu_milli;
}

/* Cores of seats that the machines of each type will host: the types with the most cores to spare
 * a card first, what is left over by cores. */
static void seats_share(const struct place_look *l, double per_card, double seats, double *ret_cpu)
{
    bool done[LOOK_TYPES_MAX] = {false};
    double all = 0;

    for (size_t r = 0; r < l->types; r++) {
        size_t best = LOOK_TYPES_MAX;

        for (size_t t = 0; t < l->types; t++)
            if (!done[t] && (best == LOOK_TYPES_MAX ||
                             spare_of(&l->type[t], per_card) > spare_of(&l->type[best], per_card)))
                best = t;
        done[best] = true;
        double there = spare_of(&l->type[best], per_card) * (double)l->type[best].count *
                       MAX(l->type[best].cards, 1);
        ret_cpu[best] = there < 0 ? 0 : there > seats ? seats : there;
        seats -= ret_cpu[best];
        all += (double)l->type[best].cpu_milli * (double)l->type[best].count;
    }
    for (size_t t = 0; t < l->types; t++)
        ret_cpu[t] += seats * l->type[t].cpu_milli * (double)l->type[t].count / MAX(all, 1.0);
}

static void seats_build(struct place_look *l, const struct place_mix *m)
{
    double carded = 0, seats = 0, cards = 0, want[LOOK_TYPES_MAX], demands;

    for (size_t t = 0; t < l->types; t++)
        cards += (double)l->type[t].cards * (double)l->type[t].count;
    for (size_t i = 0; i < m->count; i++)
        *(m->kind[i].cards ? &carded : &seats) += m->kind[i].weight * m->kind[i].cpu_milli;
    memset(l->seats, 0, sizeof(l->seats));
    if (seats <= 0 || cards <= 0 || l->card_milli <= 0)
        return;
    demands = cards * POOL_WHOLE / l->card_milli; /* until every card is taken */
    seats_share(l, carded / m->total * demands / cards, seats / m->total * demands, want);
    for (size_t t = 0; t < l->types; t++) {
        struct look_state s = {
            .cpu_milli = l->type[t].cpu_milli, .cards = l->type[t].cards, .type = (uint32_t)t};
        double each = want[t] / (double)MAX(l->type[t].count, (int64_t)1), got, low = 0, high = 1;

        for (int32_t i = 0; i < s.cards; i++) {
            s.free[i] = POOL_WHOLE;
            s.model[i] = l->type[t].model;
        }
        for (int r = 0; r < SEAT_ROUNDS; r++) {
            l->seats[t] = (float)((low + high) / 2);
            (void)rolls(l, &s, &got);
            *(got > each ? &high : &low) = (low + high) / 2;
        }
        l->seats[t] = high < 0.01 ? 0 : (float)high;
    }
}

void place_look_build(struct place_look *l, const struct place_mix *m)
{
    uint64_t state = 88172645463325252ULL;

    CHECK(m->count && m->total > 0);
    groups_build(l, m);
    l->card_milli = 0;
    for (size_t i = 0; i < m->count; i++)
        l->card_milli += m->kind[i].weight / m->total * m->kind[i].cards * m->kind[i].milli;
    if (l->policy == PLACE_FAST)
        return;
    for (size_t k = 0; k < LOOK_STREAMS; k++)
        stream_build(l, m, k, &state);
    steps_build(l);
    seats_build(l, m);
}

double place_look_idle(const struct place_look *l, const struct look_state *s)
{
    double seat_cpu, f = fragment(l, s);

    return l->policy == PLACE_FAST ? f : rolls(l, s, &seat_cpu) + FRAGMENT_WEIGHT * f;
}
