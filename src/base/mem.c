#include "base/mem.h"

#include <stdlib.h>
#include <unistd.h>

void *mem_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);

    CHECK(p);
    return p;
}

void *mem_realloc(void *p, size_t count, size_t size)
{
    size_t bytes;

    CHECK(!__builtin_mul_overflow(count, size, &bytes));
    p = realloc(p, bytes ? bytes : 1);
    CHECK(p);
    return p;
}

void *mem_dup(const void *p, size_t size)
{
    void *copy = mem_alloc(size);

    if (size)
        memcpy(copy, p, size);
    return copy;
}

char *mem_strdup(const char *s)
{
    return mem_dup(s, strlen(s) + 1);
}

void mem_free_ptr(void *pp)
{
    void *p;

    memcpy(&p, pp, sizeof(p));
    free(p);
}

struct arena_block {
    struct arena_block *next;
    size_t size, used;
    _Alignas(16) char data[];
};

void arena_init(struct arena *a, size_t ceiling)
{
    *a = (struct arena){.ceiling = ceiling};
}

void arena_fini(struct arena *a)
{
    while (a->head) {
        struct arena_block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
    *a = (struct arena){0};
}

void *arena_alloc(struct arena *a, size_t size)
{
    size_t need = (size + 15) & ~(size_t)15;

    if (a->failed || need < size || need > a->ceiling - a->used) {
        a->failed = true;
        return NULL;
    }
    if (!a->head || a->head->size - a->head->used < need) {
        size_t block = MAX(need, (size_t)4096);
        struct arena_block *b = mem_alloc(sizeof(*b) + block);
        b->size = block;
        b->next = a->head;
        a->head = b;
    }
    void *p = a->head->data + a->head->used;
    a->head->used += need;
    a->used += need;
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = arena_alloc(a, n);

    if (p)
        memcpy(p, s, n);
    return p;
}

void fd_close_ptr(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
