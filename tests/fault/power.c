#include "power.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

#define SHM_SIZE 32768
#define FILES_MAX 4

struct image {
    char name[FILE_OP_NAME];
    bool exists;
    unsigned char *bytes; /* owned */
    size_t len, cap;
};

uint64_t power_below(uint64_t *io_x, uint64_t n)
{
    uint64_t x = *io_x;

    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    *io_x = x;
    return (x >> 8) % n;
}

static void path_of(char path[PATH_MAX], const char *folder, const char *name)
{
    CHECK(str_printf(path, PATH_MAX, "%s/%s", folder, name));
}

static void image_resize(struct image *m, size_t len)
{
    if (len > m->cap) {
        m->cap = len + len / 2;
        m->bytes = mem_realloc(m->bytes, m->cap, 1);
    }
    if (len > m->len)
        memset(m->bytes + m->len, 0, len - m->len);
    m->len = len;
}

static void image_read(struct image *m, const char *folder)
{
    char path[PATH_MAX];
    struct stat st;

    path_of(path, folder, m->name);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    m->exists = fd >= 0;
    m->len = 0;
    if (!m->exists) {
        CHECK(errno == ENOENT);
        return;
    }
    CHECK(fstat(fd, &st) == 0);
    image_resize(m, (size_t)st.st_size);
    for (size_t at = 0; at < m->len;) {
        ssize_t n = read(fd, m->bytes + at, m->len - at);

        CHECK(n > 0);
        at += (size_t)n;
    }
}

static void image_write(const struct image *m, const char *folder)
{
    char path[PATH_MAX];

    path_of(path, folder, m->name);
    if (!m->exists) {
        CHECK(unlink(path) == 0 || errno == ENOENT);
        return;
    }
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    for (size_t at = 0; at < m->len;) {
        ssize_t n = write(fd, m->bytes + at, m->len - at);

        CHECK(n > 0);
        at += (size_t)n;
    }
}

static size_t images_read(struct image *m, const char *from, const char *stem,
                          const char *const *ends)
{
    size_t n = 0;

    for (; ends[n]; n++) {
        CHECK(n < FILES_MAX && str_printf(m[n].name, sizeof(m[n].name), "%s%s", stem, ends[n]));
        image_read(&m[n], from);
    }
    return n;
}

static void images_write(struct image *m, size_t n, const char *folder)
{
    for (size_t i = 0; i < n; i++) {
        image_write(&m[i], folder);
        free(m[i].bytes);
    }
}

void power_copy(const char *from, const char *folder, const char *stem, const char *const *ends)
{
    struct image m[FILES_MAX] = {0};

    images_write(m, images_read(m, from, stem, ends), folder);
}

struct power_state {
    struct image m[FILES_MAX];
    size_t n;
};

struct power_state *power_state_read(const char *folder, const char *stem, const char *const *ends)
{
    struct power_state *s = mem_alloc(sizeof(*s));

    s->n = images_read(s->m, folder, stem, ends);
    return s;
}

bool power_state_eq(const struct power_state *a, const struct power_state *b)
{
    bool same = a->n == b->n;

    for (size_t i = 0; i < a->n && same; i++)
        same = a->m[i].exists == b->m[i].exists && a->m[i].len == b->m[i].len &&
               (!a->m[i].len || memcmp(a->m[i].bytes, b->m[i].bytes, a->m[i].len) == 0);
    return same;
}

void power_state_free(struct power_state *s)
{
    for (size_t i = 0; s && i < s->n; i++)
        free(s->m[i].bytes);
    free(s);
}

/* ---- the draw ---- */

static bool is_synced(const struct calls *c, size_t i, size_t n)
{
    const struct file_op *o = &c->ops.at[i];
    bool link = o->kind == FILE_MADE || o->kind == FILE_REMOVED;

    for (size_t k = i + 1; k < n; k++) {
        const struct file_op *s = &c->ops.at[k];

        if (link ? s->kind == FOLDER_SYNCED : s->kind == FILE_SYNCED && str_eq(s->name, o->name))
            return true;
    }
    return false;
}

static void put(struct image *m, const struct file_op *o, size_t from, size_t to)
{
    if ((size_t)o->at + to > m->len)
        image_resize(m, (size_t)o->at + to);
    memcpy(m->bytes + (size_t)o->at + from, o->bytes + from, to - from);
}

/* Ends of the sectors that a write touches, counted from the disk's own borders. */
static size_t sector_end(const struct file_op *o, size_t from)
{
    size_t at = (size_t)o->at + from;

    return MIN(o->len, (at / POWER_SECTOR + 1) * POWER_SECTOR - (size_t)o->at);
}

static void put_some(struct image *m, const struct file_op *o, uint64_t *io_x)
{
    for (size_t from = 0, to; from < o->len; from = to) {
        to = sector_end(o, from);
        if (power_below(io_x, 2))
            put(m, o, from, to);
    }
}

static void put_begin(struct image *m, const struct file_op *o, uint64_t *io_x)
{
    size_t end = (size_t)power_below(io_x, o->len);

    put(m, o, 0, end);
}

static void apply(struct image *m, const struct file_op *o)
{
    if (o->kind == FILE_WRITTEN) {
        put(m, o, 0, o->len);
    } else if (o->kind == FILE_CUT) {
        image_resize(m, (size_t)o->at);
    } else if (o->kind == FILE_MADE) {
        m->exists = true;
        m->len = 0;
    } else if (o->kind == FILE_REMOVED) {
        m->exists = false;
    }
}

static struct image *image_of(struct image *m, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(m[i].name, name))
            return &m[i];
    return NULL;
}

static void garble_shm(const char *folder, const char *stem, uint64_t *io_x)
{
    struct image m = {.exists = true};

    CHECK(str_printf(m.name, sizeof(m.name), "%s-shm", stem));
    image_resize(&m, SHM_SIZE);
    for (size_t i = 0; i < m.len; i++)
        m.bytes[i] = (unsigned char)power_below(io_x, 256);
    image_write(&m, folder);
    free(m.bytes);
}

void power_cut(const char *from, const char *folder, const char *stem, const char *const *ends,
               const struct calls *c, size_t n, enum power_draw draw, uint64_t *io_x)
{
    struct image m[FILES_MAX] = {0};
    size_t files = images_read(m, from, stem, ends);

    for (size_t i = 0; i < n; i++) {
        const struct file_op *o = &c->ops.at[i];
        struct image *one = image_of(m, files, o->name);

        if (!one) {
            CHECK(o->kind == FOLDER_SYNCED || strstr(o->name, "-shm"));
            continue;
        }
        if (is_synced(c, i, n) || (draw == POWER_TORN && i + 1 < n))
            apply(one, o);
        else if (draw == POWER_TORN && o->kind == FILE_WRITTEN)
            put_begin(one, o, io_x);
        else if (draw == POWER_ANY && o->kind == FILE_WRITTEN && power_below(io_x, 3) == 0)
            put_some(one, o, io_x);
        else if (draw == POWER_ANY && power_below(io_x, 2))
            apply(one, o);
    }
    images_write(m, files, folder);
    if (draw == POWER_ANY) {
        garble_shm(folder, stem, io_x);
    } else {
        char path[PATH_MAX];

        CHECK(str_printf(path, sizeof(path), "%s/%s-shm", folder, stem));
        CHECK(unlink(path) == 0 || errno == ENOENT);
    }
}
