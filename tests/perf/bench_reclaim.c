/* Victims for a gang of 512 cards among 100,000 spot leases, against the plainest thing that could
 * be done with them: sorting them by what they lose. CPU time, both in this process. Prints TAP. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "domain/reclaim.h"

#define NODES 12500
#define CARDS 8
#define ROUNDS 21
#define RATIO_MAX 0.25 /* of the sort */

static double cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static int up(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

struct lost {
    int64_t loss;
    int32_t slot;
};

static int by_loss(const void *a, const void *b)
{
    const struct lost *x = a, *y = b;

    if (x->loss != y->loss)
        return x->loss < y->loss ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static void fill(struct pool *pool, struct reclaim *r)
{
    const struct pool_demand one = {.nodes = 1, .cards = 1, .milli = POOL_WHOLE};
    uint64_t state = 42;

    for (uint64_t i = 0; i < NODES; i++) {
        struct pool_node n = {.key = i * UINT64_C(0x9E3779B97F4A7C15) | 1,
                              .plans = (1 << POOL_PLAN_COUNT) - 1,
                              .card_count = CARDS};
        for (int32_t k = 0; k < CARDS; k++)
            n.card[k].free_milli = POOL_WHOLE;
        pool_add(pool, &n);
    }
    reclaim_init(r, pool);
    for (uint32_t i = 0; i < NODES * CARDS; i++) {
        struct pool_part part;
        pool_pick(pool, i / CARDS, &one, &part);
        pool_start(pool, &one, &part);
        reclaim_add(r, i + 1, &one, &part, 1000000 - (int64_t)(next(&state) % 1800), 0);
    }
}

int main(void)
{
    const struct pool_demand gang = {.nodes = 64, .cards = CARDS, .milli = POOL_WHOLE};
    struct lost *lost = mem_alloc(sizeof(*lost) * NODES * CARDS);
    double choose[ROUNDS], sort[ROUNDS];
    struct reclaim_plan plan = {0};
    struct pool pool;
    struct reclaim r;
    bool right = true;

    pool_init(&pool);
    fill(&pool, &r);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t now = 1000000 + i;
        double t = cpu_us();
        right = right && reclaim_choose(&r, &gang, now, &plan) == RECLAIM_TAKE &&
                plan.victim.len == 512;
        choose[i] = cpu_us() - t;
        t = cpu_us();
        for (int32_t k = 0; k < NODES * CARDS; k++) {
            const struct reclaim_lease *l = &r.lease.at[k];
            lost[k] = (struct lost){(now - l->saved_s) * l->weight, k};
        }
        qsort(lost, NODES * CARDS, sizeof(*lost), by_loss);
        sort[i] = cpu_us() - t;
    }
    qsort(choose, ROUNDS, sizeof(*choose), up);
    qsort(sort, ROUNDS, sizeof(*sort), up);
    double ratio = choose[ROUNDS / 2] / sort[ROUNDS / 2];
    printf("1..2\n%sok 1 - 512 of 100,000 leases are found\n", right ? "" : "not ");
    printf("# median %.0f us (fastest %.0f), sorting the leases %.0f us: ratio %.3f\n",
           choose[ROUNDS / 2], choose[0], sort[ROUNDS / 2], ratio);
    printf("%sok 2 - in at most %.2f of the time that sorting them takes\n",
           ratio <= RATIO_MAX ? "" : "not ", RATIO_MAX);
    reclaim_plan_fini(&plan);
    reclaim_fini(&r);
    pool_fini(&pool);
    free(lost);
    return !right || ratio > RATIO_MAX;
}
