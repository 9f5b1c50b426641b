#include "domain/queue_int.h"

/* The run time against its estimate, in sixteenths, that `part` of the leases did not pass. */
static int64_t ratio_of(const struct queue *q, double part)
{
    uint64_t sum = 0, upto = 0;

    for (size_t i = 0; i < ARRAY_LEN(q->ratio); i++)
        sum += q->ratio[i];
    if (sum < QUEUE_EXPERIENCE)
        return 16;
    for (size_t i = 0; i < ARRAY_LEN(q->ratio); i++) {
        upto += q->ratio[i];
        if ((double)upto >= part * (double)sum)
            return (int64_t)i + 1;
    }
    return (int64_t)ARRAY_LEN(q->ratio);
}

static void *copy(const void *p, size_t len, size_t size)
{
    return len ? mem_dup(p, len * size) : NULL;
}
#define COPY(v)                                                                                    \
    do {                                                                                           \
        (v)->at = copy((v)->at, (v)->len, sizeof(*(v)->at));                                       \
        (v)->cap = (v)->len;                                                                       \
    } while (0)

static void queue_copy(const struct queue *q, struct queue *ret_q)
{
    *ret_q = *q;
    COPY(&ret_q->nodes);
    COPY(&ret_q->run);
    COPY(&ret_q->spare_slots);
    COPY(&ret_q->classes);
    COPY(&ret_q->projects);
    COPY(&ret_q->suits);
    VEC_FOREACH (s, &ret_q->suits)
        s->fits = copy(s->fits, MAX(q->nodes.len, (size_t)1), sizeof(*s->fits));
    COPY(&ret_q->held);
    COPY(&ret_q->when);
    COPY(&ret_q->picked);
    COPY(&ret_q->nodes_picked);
    VEC_FOREACH (r, &ret_q->run)
        r->node = r->there ? copy(r->node, (size_t)r->demand.nodes, sizeof(*r->node)) : NULL;
    VEC_FOREACH (c, &ret_q->classes) {
        *c = mem_dup(*c, sizeof(**c));
        COPY(&(*c)->list);
    }
}

static int64_t played_end(const struct queue *q, const struct queue_run *r, int64_t ratio)
{
    int64_t end = r->started_s + (r->demand.run_s * ratio + 15) / 16;

    return MAX(end, q->now_s + 1);
}

/* Ends what ends next, all of it; false: nothing runs. */
static bool play_ends(struct queue *q, int64_t ratio, int64_t *ret_now)
{
    int64_t now = INT64_MAX;

    VEC_FOREACH (r, &q->run)
        if (r->there)
            now = MIN(now, played_end(q, r, ratio));
    for (int32_t i = 0; now != INT64_MAX && i < (int32_t)q->run.len; i++)
        if (q->run.at[i].there && played_end(q, &q->run.at[i], ratio) <= now)
            queue_end(q, i, now);
    *ret_now = now;
    return now != INT64_MAX;
}

static struct queue_wait *wait_find(struct queue_wait *waits, size_t count, uint64_t id)
{
    size_t from = 0, to = count;

    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (waits[mid].id < id)
            from = mid + 1;
        else
            to = mid;
    }
    return from < count && waits[from].id == id ? &waits[from] : NULL;
}

enum bar { BAR_EARLY, BAR_LIKELY, BAR_LATE };

static int64_t *bar_of(struct queue_estimate *e, enum bar which)
{
    return which == BAR_EARLY ? &e->early_s : which == BAR_LIKELY ? &e->likely_s : &e->late_s;
}

/* Plays on until all of them started. */
static void play(const struct queue *from, int64_t ratio, int steps, struct queue_wait *waits,
                 size_t count, enum bar which)
{
    struct queue q;
    struct queue_plan plan = {0};
    int64_t now = from->now_s;
    size_t left = count;

    queue_copy(from, &q);
    for (int step = 0; step < steps && left; step++) {
        if (!play_ends(&q, ratio, &now))
            break; /* nothing runs: they never start */
        queue_decide(&q, now, &plan);
        VEC_FOREACH (slot, &plan.start) {
            struct queue_wait *w = wait_find(waits, count, q.run.at[*slot].demand.id);

            if (!w)
                continue;
            left--;
            *bar_of(&w->start, which) = now;
        }
    }
    queue_plan_fini(&plan);
    queue_fini(&q);
}

void queue_estimate_all(const struct queue *q, int steps, struct queue_wait *waits, size_t count)
{
    for (size_t i = 0; i < count; i++)
        waits[i].start = (struct queue_estimate){INT64_MAX, INT64_MAX, INT64_MAX};
    play(q, ratio_of(q, 0.1), steps, waits, count, BAR_EARLY);
    play(q, ratio_of(q, 0.5), steps, waits, count, BAR_LIKELY);
    play(q, ratio_of(q, 0.9), steps, waits, count, BAR_LATE);
    for (size_t i = 0; i < count; i++) {
        struct queue_estimate *e = &waits[i].start;
        /* who comes first may differ between the plays: the bar spans what was seen */
        e->early_s = MIN(e->early_s, e->likely_s);
        e->late_s = MAX(e->late_s, e->likely_s);
    }
}

void queue_estimate(const struct queue *q, uint64_t id, int steps, struct queue_estimate *ret_e)
{
    struct queue_wait w = {.id = id};

    queue_estimate_all(q, steps, &w, 1);
    *ret_e = w.start;
}
