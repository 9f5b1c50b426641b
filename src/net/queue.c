#include "net/queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t came;
    void **ring; /* owned */
    size_t max, head, len;
    bool closed;
};

struct queue *queue_new(size_t max)
{
    struct queue *q = mem_alloc(sizeof(*q));
    pthread_condattr_t attr;

    CHECK(max > 0);
    q->ring = mem_realloc(NULL, max, sizeof(*q->ring));
    q->max = max;
    /* Waits must not follow a step of the wall clock. */
    CHECK(pthread_condattr_init(&attr) == 0);
    CHECK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_mutex_init(&q->lock, NULL) == 0);
    CHECK(pthread_cond_init(&q->came, &attr) == 0);
    pthread_condattr_destroy(&attr);
    return q;
}

void queue_free(struct queue *q)
{
    if (!q)
        return;
    CHECK(q->len == 0);
    pthread_cond_destroy(&q->came);
    pthread_mutex_destroy(&q->lock);
    free(q->ring);
    free(q);
}

bool queue_push(struct queue *q, void *item)
{
    CHECK(pthread_mutex_lock(&q->lock) == 0);
    bool fits = !q->closed && q->len < q->max;
    if (fits) {
        q->ring[(q->head + q->len) % q->max] = item;
        q->len++;
        pthread_cond_signal(&q->came);
    }
    CHECK(pthread_mutex_unlock(&q->lock) == 0);
    return fits;
}

static struct timespec deadline_in(int64_t wait_ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)(wait_ms / MS_PER_S);
    t.tv_nsec += (long)(wait_ms % MS_PER_S) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

size_t queue_pop(struct queue *q, void **ret_items, size_t max, int64_t wait_ms)
{
    size_t n = 0;

    CHECK(pthread_mutex_lock(&q->lock) == 0);
    if (wait_ms > 0 && q->len == 0 && !q->closed) {
        struct timespec until = deadline_in(wait_ms);
        while (q->len == 0 && !q->closed)
            if (pthread_cond_timedwait(&q->came, &q->lock, &until) != 0)
                break;
    }
    while (n < max && q->len > 0) {
        ret_items[n++] = q->ring[q->head];
        q->head = (q->head + 1) % q->max;
        q->len--;
    }
    if (q->len > 0)
        pthread_cond_signal(&q->came);
    CHECK(pthread_mutex_unlock(&q->lock) == 0);
    return n;
}

void queue_close(struct queue *q)
{
    CHECK(pthread_mutex_lock(&q->lock) == 0);
    q->closed = true;
    pthread_cond_broadcast(&q->came);
    CHECK(pthread_mutex_unlock(&q->lock) == 0);
}

bool queue_closed(struct queue *q)
{
    CHECK(pthread_mutex_lock(&q->lock) == 0);
    bool closed = q->closed;
    CHECK(pthread_mutex_unlock(&q->lock) == 0);
    return closed;
}

size_t queue_len(struct queue *q)
{
    CHECK(pthread_mutex_lock(&q->lock) == 0);
    size_t n = q->len;
    CHECK(pthread_mutex_unlock(&q->lock) == 0);
    return n;
}
