#include "base/id.h"

#include <stdio.h>
#include <sys/random.h>

static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

static void system_fill(struct id_maker *m UNUSED, void *buf, size_t size)
{
    CHECK(size <= 256 && getrandom(buf, size, 0) == (ssize_t)size);
}

/* splitmix64 */
static void seeded_fill(struct id_maker *m, void *buf, size_t size)
{
    unsigned char *p = buf;

    for (size_t i = 0; i < size; i++) {
        uint64_t z = m->state += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        p[i] = (unsigned char)((z ^ (z >> 31)) >> 56);
    }
}

struct id_maker id_maker_system(void)
{
    return (struct id_maker){.fill = system_fill};
}

struct id_maker id_maker_seeded(uint64_t seed)
{
    return (struct id_maker){.fill = seeded_fill, .state = seed};
}

struct id id_make(struct id_maker *m, const char *prefix)
{
    unsigned char raw[ID_RANDOM_LEN];
    char letters[ID_RANDOM_LEN + 1];
    struct id id;

    m->fill(m, raw, sizeof(raw));
    for (size_t i = 0; i < ID_RANDOM_LEN; i++)
        letters[i] = alphabet[raw[i] & 31];
    letters[ID_RANDOM_LEN] = '\0';
    int n = snprintf(id.s, sizeof(id.s), "%.4s_%s", prefix, letters);
    CHECK(n > 0 && (size_t)n < sizeof(id.s));
    return id;
}
