#include "domain/pool.h"


#include "base/mem.h"

static const char *const bars[] = {"fits", "pinned", "model",  "zone",      "trust",
                                   "plan", "price",  "drain",  "exclusive", "cards",
                                   "link", "cpu",    "memory", "disk",      "ports"};

_Static_assert(ARRAY_LEN(bars) == POOL_BAR_COUNT, "one name per bar");

const char *pool_bar_name(enum pool_bar b)
{
    CHECK((size_t)b < ARRAY_LEN(bars));
    return bars[b];
}

/* FNV-1a over the id, then the finish of a 64-bit mixer, so that near ids are far apart. */
uint64_t pool_key(const char *id)
{
    uint64_t h = 1469598103934665603ULL;

    for (; *id; id++)
        h = (h ^ (uint8_t)*id) * 1099511628211ULL;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdULL;
    h ^= h >> 33;
    return h ? h : 1;
}

void pool_init(struct pool *p)
{
    *p = (struct pool){0};
}

void pool_fini(struct pool *p)
{
    mem_free_ptr(&p->node);
    *p = (struct pool){0};
}

uint32_t pool_add(struct pool *p, const struct pool_node *n)
{
    CHECK(p->count < POOL_NODES_MAX && n->card_count >= 0 && n->card_count <= POOL_CARDS_MAX);
    if (p->count == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 64;
        p->node = mem_realloc(p->node, p->cap, sizeof(*p->node));
    }
    p->node[p->count] = *n;
    for (int32_t i = 0; i < n->card_count; i++) {
        const struct pool_card *c = &n->card[i];

        CHECK(c->model < POOL_MODELS_MAX && c->free_milli >= 0 && c->free_milli <= POOL_WHOLE);
        p->models |= 1ULL << c->model;
        p->cards += !c->out;
        p->free_milli += c->out ? 0 : c->free_milli;
    }
    return (uint32_t)p->count++;
}

static bool card_will_do(const struct pool_card *c, const struct pool_demand *d)
{
    return !c->out && (!d->models || d->models >> c->model & 1);
}

bool pool_card_fits(const struct pool_card *c, const struct pool_demand *d)
{
    return card_will_do(c, d) && c->free_milli >= d->milli;
}

/* Cards that fit, free or (empty) as if nothing were taken; of one link group unless link is -1. */
static int32_t cards_that_fit(const struct pool_node *n, const struct pool_demand *d, bool empty,
                              int link)
{
    int32_t count = 0;

    for (int32_t i = 0; i < n->card_count; i++) {
        const struct pool_card *c = &n->card[i];

        if (link >= 0 && c->link != link)
            continue;
        count += empty ? card_will_do(c, d) : pool_card_fits(c, d);
    }
    return count;
}

/* The link group with the fewest cards that suffices; -1: none. */
static int link_group(const struct pool_node *n, const struct pool_demand *d, bool empty)
{
    int32_t fewest = INT32_MAX;
    int best = -1;

    for (int32_t i = 0; i < n->card_count; i++) {
        int link = n->card[i].link;
        int32_t count = link ? cards_that_fit(n, d, empty, link) : 0;

        if (count >= d->cards && (count < fewest || (count == fewest && link < best))) {
            fewest = count;
            best = link;
        }
    }
    return best;
}

static enum pool_bar told(enum pool_bar b, int64_t need, int64_t have, int64_t *ret_need,
                          int64_t *ret_have)
{
    if (ret_need)
        *ret_need = need;
    if (ret_have)
        *ret_have = have;
    return b;
}

/* What no departure would change. */
static enum pool_bar bar_of_kind(const struct pool_node *n, const struct pool_demand *d,
                                 int64_t *need, int64_t *have)
{
    int64_t price = n->price[d->plan];

    if (d->pinned && d->pinned != n->key)
        return told(POOL_PINNED, 1, 0, need, have);
    if (d->cards) {
        int32_t there = cards_that_fit(n, d, true, -1);

        if (!there)
            return told(POOL_MODEL, d->cards, 0, need, have);
    }
    if (d->zones && !(d->zones >> n->zone & 1))
        return told(POOL_ZONE, 1, 0, need, have);
    if (n->trust < d->trust_min)
        return told(POOL_TRUST, d->trust_min, n->trust, need, have);
    if (!(n->plans >> d->plan & 1))
        return told(POOL_PLAN, 1, 0, need, have);
    if (d->price_max && price > d->price_max)
        return told(POOL_PRICE, price, d->price_max, need, have);
    return POOL_FITS;
}

static enum pool_bar bar_of_amounts(const struct pool_node *n, const struct pool_demand *d,
                                    bool empty, int64_t *need, int64_t *have)
{
    int64_t cpu = empty ? n->cpu_milli : n->cpu_free_milli;
    int64_t mib = empty ? n->memory_mib : n->memory_free_mib;
    int64_t disk = empty ? n->disk_mib : n->disk_free_mib;
    int64_t ports = empty ? n->ports : n->ports_free;

    if (d->cards) {
        int32_t there = cards_that_fit(n, d, empty, -1);

        if (there < d->cards)
            return told(POOL_CARDS, d->cards, there, need, have);
        if (d->linked && d->cards > 1 && link_group(n, d, empty) < 0)
            return told(POOL_LINK, d->cards, 0, need, have);
    }
    if (d->cpu_milli > cpu)
        return told(POOL_CPU, d->cpu_milli, MAX(cpu, (int64_t)0), need, have);
    if (d->memory_mib > mib)
        return told(POOL_MEMORY, d->memory_mib, MAX(mib, (int64_t)0), need, have);
    if (d->disk_mib > disk)
        return told(POOL_DISK, d->disk_mib, MAX(disk, (int64_t)0), need, have);
    if (d->ports > ports)
        return told(POOL_PORTS, d->ports, MAX(ports, (int64_t)0), need, have);
    return POOL_FITS;
}

enum pool_bar pool_bar(const struct pool_node *n, const struct pool_demand *d, int64_t *ret_need,
                       int64_t *ret_have)
{
    enum pool_bar b = bar_of_kind(n, d, ret_need, ret_have);

    if (b != POOL_FITS)
        return b;
    if (n->drain)
        return told(POOL_DRAIN, 1, 0, ret_need, ret_have);
    if (n->exclusive || (d->exclusive && n->holdings))
        return told(POOL_EXCLUSIVE, 0, n->holdings, ret_need, ret_have);
    return bar_of_amounts(n, d, false, ret_need, ret_have);
}

enum pool_bar pool_bar_empty(const struct pool_node *n, const struct pool_demand *d)
{
    enum pool_bar b = bar_of_kind(n, d, NULL, NULL);

    if (b == POOL_FITS && n->drain)
        b = POOL_DRAIN;
    return b == POOL_FITS ? bar_of_amounts(n, d, true, NULL, NULL) : b;
}

void pool_pick(const struct pool *p, uint32_t node, const struct pool_demand *d,
               struct pool_part *ret_part)
{
    const struct pool_node *n = &p->node[node];
    int link = d->linked && d->cards > 1 ? link_group(n, d, false) : -1;
    uint64_t taken = 0;

    *ret_part = (struct pool_part){.node = node, .cards = d->cards};
    for (int32_t got = 0; got < d->cards; got++) {
        int32_t best = -1;

        for (int32_t i = 0; i < n->card_count; i++) {
            const struct pool_card *c = &n->card[i];

            if (taken >> i & 1 || !pool_card_fits(c, d) || (link >= 0 && c->link != link))
                continue;
            if (best < 0 || c->free_milli < n->card[best].free_milli)
                best = i;
        }
        CHECK(best >= 0);
        taken |= 1ULL << best;
    }
    for (int32_t i = 0, k = 0; i < n->card_count; i++)
        if (taken >> i & 1)
            ret_part->card[k++] = (uint8_t)i;
}

/* sign 1: taken, -1: given back. */
static void move(struct pool *p, const struct pool_demand *d, const struct pool_part *part,
                 int32_t sign)
{
    CHECK(part->node < p->count);
    struct pool_node *n = &p->node[part->node];

    n->cpu_free_milli -= sign * d->cpu_milli;
    n->memory_free_mib -= sign * d->memory_mib;
    n->disk_free_mib -= sign * d->disk_mib;
    n->ports_free -= sign * d->ports;
    n->holdings += sign;
    for (int32_t i = 0; i < part->cards; i++) {
        CHECK(part->card[i] < n->card_count);
        struct pool_card *c = &n->card[part->card[i]];

        c->free_milli = (int16_t)(c->free_milli - sign * d->milli);
        CHECK(c->free_milli >= 0 && c->free_milli <= POOL_WHOLE);
        p->free_milli -= c->out ? 0 : sign * d->milli;
    }
    CHECK(n->cpu_free_milli >= 0 && n->memory_free_mib >= 0 && n->disk_free_mib >= 0 &&
          n->ports_free >= 0 && n->holdings >= 0);
}

void pool_start(struct pool *p, const struct pool_demand *d, const struct pool_part *part)
{
    CHECK(part->node < p->count && part->cards == d->cards);
    struct pool_node *n = &p->node[part->node];

    CHECK(!n->exclusive && (!d->exclusive || !n->holdings));
    n->exclusive = d->exclusive;
    move(p, d, part, 1);
}

void pool_end(struct pool *p, const struct pool_demand *d, const struct pool_part *part)
{
    move(p, d, part, -1);
    if (d->exclusive)
        p->node[part->node].exclusive = false;
}

static bool node_check(const struct pool_node *n, int64_t *cards, int64_t *free_milli)
{
    bool ok = n->cpu_free_milli >= 0 && n->cpu_free_milli <= n->cpu_milli &&
              n->memory_free_mib >= 0 && n->memory_free_mib <= n->memory_mib &&
              n->disk_free_mib >= 0 && n->disk_free_mib <= n->disk_mib && n->ports_free >= 0 &&
              n->ports_free <= n->ports && n->holdings >= 0 && (!n->exclusive || n->holdings == 1);

    for (int32_t i = 0; i < n->card_count; i++) {
        const struct pool_card *c = &n->card[i];

        ok &= c->free_milli >= 0 && c->free_milli <= POOL_WHOLE;
        *cards += !c->out;
        *free_milli += c->out ? 0 : c->free_milli;
    }
    return ok;
}

bool pool_check(const struct pool *p)
{
    int64_t cards = 0, free_milli = 0;
    bool ok = true;

    for (size_t i = 0; i < p->count; i++)
        ok &= node_check(&p->node[i], &cards, &free_milli);
    return ok && cards == p->cards && free_milli == p->free_milli;
}
