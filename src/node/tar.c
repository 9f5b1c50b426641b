#include "node/tar.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"

#define BLOCK 512
#define EXTRA_MAX (1 << 20)

/* ustar header fields: offset and size */
#define F_NAME 0, 100
#define F_SIZE 124, 12
#define F_SUM 148
#define F_TYPE 156
#define F_LINK 157, 100
#define F_MAGIC 257
#define F_PREFIX 345, 155

static enum err hostile(struct refusal *why, const char *what, const char *path)
{
    char text[REFUSAL_VALUE_MAX];
    size_t n;

    str_printf(text, sizeof(text), "%s%s%.120s", what, *path ? ": " : "", path);
    n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            text[i] = '?';
    return refusef(why, ERR_IMAGE_HOSTILE, "why", "%s", text);
}

/* Sets */

static void set_reset(struct tar_set *s)
{
    free(s->at);
    *s = (struct tar_set){0};
}

static bool set_has(const struct tar_set *s, uint64_t h)
{
    if (!s->cap)
        return false;
    for (size_t i = h & (s->cap - 1); s->at[i]; i = (i + 1) & (s->cap - 1))
        if (s->at[i] == h)
            return true;
    return false;
}

static void set_place(struct tar_set *s, uint64_t h)
{
    size_t i = h & (s->cap - 1);

    while (s->at[i])
        i = (i + 1) & (s->cap - 1);
    s->at[i] = h;
}

static void set_add(struct tar_set *s, uint64_t h)
{
    if (set_has(s, h))
        return;
    if (s->len * 2 >= s->cap) {
        struct tar_set old = *s;
        s->cap = old.cap ? old.cap * 2 : 256;
        s->at = mem_alloc(s->cap * sizeof(*s->at));
        for (size_t i = 0; i < old.cap; i++)
            if (old.at[i])
                set_place(s, old.at[i]);
        free(old.at);
    }
    set_place(s, h);
    s->len++;
}

/* FNV-1a. Somebody who makes two names collide has his own image refused, nothing more. */
static uint64_t hash_name(const char *s, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
    return h ? h : 1;
}

void tar_scan_init(struct tar_scan *t, const struct tar_limits *limits)
{
    *t = (struct tar_scan){.limits = limits, .size = -1};
}

static void extras_drop(struct tar_scan *t)
{
    free(t->path);
    free(t->link);
    t->path = t->link = NULL;
    t->size = -1;
}

void tar_layer_begin(struct tar_scan *t)
{
    set_reset(&t->seen);
    set_reset(&t->links);
    extras_drop(t);
    t->part = TAR_HEADER;
    t->have = 0;
    t->zero_seen = false;
}

void tar_scan_fini(struct tar_scan *t)
{
    tar_layer_begin(t);
    free(t->extra);
    t->extra = NULL;
}

/* Paths */

/* "./a//b/" becomes "a/b". */
static enum err path_clean(const struct tar_scan *t, const char *raw, char *buf, int *ret_depth,
                           struct refusal *why)
{
    size_t len = 0;
    int depth = 0;

    if (raw[0] == '/')
        return hostile(why, "absolute path", raw);
    if (strlen(raw) > t->limits->path_max)
        return hostile(why, "path too long", raw);
    for (const char *p = raw; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return hostile(why, "path leaves the image", raw);
        if (n > 255)
            return hostile(why, "name too long", raw);
        if (n > 0 && !(n == 1 && p[0] == '.')) {
            if (len)
                buf[len++] = '/';
            memcpy(buf + len, p, n);
            len += n;
            depth++;
        }
        p += n + (p[n] == '/');
    }
    buf[len] = '\0';
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)buf[i] < ' ' || buf[i] == 0x7f)
            return hostile(why, "control character in a name", raw);
    if (depth > t->limits->depth_max)
        return hostile(why, "too deep", raw);
    *ret_depth = depth;
    return ERR_OK;
}

static bool below_link(const struct tar_scan *t, const char *path)
{
    for (const char *p = path; (p = strchr(p, '/')); p++)
        if (set_has(&t->links, hash_name(path, (size_t)(p - path))))
            return true;
    return false;
}

static enum err whiteout_check(const char *path, char type, struct refusal *why)
{
    const char *name = strrchr(path, '/');

    name = name ? name + 1 : path;
    if (!str_starts(name, ".wh."))
        return ERR_OK;
    if (type != '0')
        return hostile(why, "whiteout that is no plain file", path);
    name += 4;
    if (str_eq(name, "") || str_eq(name, ".") || str_eq(name, "..") ||
        (str_starts(name, ".wh.") && !str_eq(name, ".wh..opq")))
        return hostile(why, "malformed whiteout", path);
    return ERR_OK;
}

static enum err link_check(const struct tar_scan *t, const char *path, const char *target,
                           struct refusal *why)
{
    AUTO_FREE char *clean = mem_alloc(t->limits->path_max + 1);
    int depth;

    if (target[0] == '/')
        return hostile(why, "hard link to an absolute path", path);
    TRY(path_clean(t, target, clean, &depth, why));
    if (depth == 0 || below_link(t, clean))
        return hostile(why, "hard link through a link", path);
    return ERR_OK;
}

static bool kernel_folder(const char *path)
{
    return str_eq(path, "proc") || str_eq(path, "sys") || str_eq(path, "dev");
}

static enum err entry_check(struct tar_scan *t, const char *raw, const char *target, char type,
                            struct refusal *why)
{
    AUTO_FREE char *path = mem_alloc(t->limits->path_max + 1);
    int depth;

    if (type == '3' || type == '4')
        return hostile(why, "device node", raw);
    if (type == 'S')
        return hostile(why, "sparse file", raw);
    if (!strchr("01256", type))
        return hostile(why, "unknown kind of entry", raw);
    TRY(path_clean(t, raw, path, &depth, why));
    if (depth == 0)
        return type == '5' ? ERR_OK : hostile(why, "the root is no folder", raw);
    if (kernel_folder(path) && type != '5')
        return hostile(why, "not a plain folder", path);
    if (below_link(t, path))
        return hostile(why, "entry below a link of the same layer", path);
    TRY(whiteout_check(path, type, why));
    uint64_t h = hash_name(path, strlen(path));
    if (set_has(&t->seen, h))
        return hostile(why, "entry that is there twice", path);
    if (type == '1')
        TRY(link_check(t, path, target, why));
    if (type == '2' && (target[0] == '\0' || strlen(target) > t->limits->path_max))
        return hostile(why, "malformed link", path);
    if (type != '5')
        set_add(&t->seen, h);
    if (type == '2')
        set_add(&t->links, h);
    return ERR_OK;
}

/* Headers */

static bool number_parse(const unsigned char *p, size_t n, int64_t *ret_v)
{
    uint64_t v = 0;
    size_t i = 0;

    if (p[0] & 0x80) { /* base 256; negative sizes are not for us */
        if (p[0] != 0x80)
            return false;
        for (i = 1; i < n; i++) {
            if (v >> 55)
                return false;
            v = v << 8 | p[i];
        }
        *ret_v = (int64_t)v;
        return true;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(p[i] - '0');
    for (; i < n; i++)
        if (p[i] != ' ' && p[i] != '\0')
            return false;
    *ret_v = (int64_t)v;
    return true;
}

static bool sum_ok(const unsigned char *b)
{
    int64_t want, sum = 8 * ' ';

    for (size_t i = 0; i < BLOCK; i++)
        if (i < F_SUM || i >= F_SUM + 8)
            sum += b[i];
    return number_parse(b + F_SUM, 8, &want) && want == sum;
}

static bool block_is_zero(const unsigned char *b)
{
    for (size_t i = 0; i < BLOCK; i++)
        if (b[i])
            return false;
    return true;
}

static void field(const unsigned char *b, size_t at, size_t size, char *dst)
{
    size_t n = strnlen((const char *)b + at, size);

    memcpy(dst, b + at, n);
    dst[n] = '\0';
}

/* The name as the header gives it: prefix/name in POSIX archives. */
static void header_name(const unsigned char *b, char buf[260])
{
    char prefix[156] = "", name[101];

    field(b, F_NAME, name);
    if (memcmp(b + F_MAGIC, "ustar\0", 6) == 0)
        field(b, F_PREFIX, prefix);
    str_printf(buf, 260, "%s%s%s", prefix, prefix[0] ? "/" : "", name);
}

static enum err extra_begin(struct tar_scan *t, char type, int64_t size, struct refusal *why)
{
    if (size <= 0 || size > EXTRA_MAX)
        return hostile(why, "oversized header", "");
    free(t->extra);
    t->extra = mem_alloc((size_t)size + 1);
    t->extra_type = type;
    t->extra_len = size;
    t->left = (size + BLOCK - 1) / BLOCK * BLOCK;
    t->have = 0;
    t->part = TAR_EXTRA;
    return ERR_OK;
}

static enum err header_take(struct tar_scan *t, struct refusal *why)
{
    const unsigned char *b = t->block;
    char name[260], target[101];
    char type = (char)b[F_TYPE];
    int64_t size;

    if (block_is_zero(b)) {
        t->part = t->zero_seen ? TAR_END : TAR_HEADER;
        t->zero_seen = true;
        return ERR_OK;
    }
    if (t->zero_seen || !sum_ok(b) || !number_parse(b + 124, 12, &size))
        return hostile(why, "damaged archive", "");
    if (strchr("xgLK", type) && type)
        return extra_begin(t, type, size, why);
    if (type == '\0' || type == '7')
        type = '0';
    header_name(b, name);
    field(b, F_LINK, target);
    const char *path = t->path ? t->path : name;
    if (type == '0' && *path && path[strlen(path) - 1] == '/')
        type = '5';
    TRY(entry_check(t, path, t->link ? t->link : target, type, why));
    if (type != '0')
        size = 0;
    else if (t->size >= 0)
        size = t->size;
    if (++t->entries > t->limits->entries_max)
        return hostile(why, "too many entries", "");
    /* The bytes themselves are counted as they come by; a size alone must not lie ahead of them. */
    if (size > t->limits->bytes_max - t->bytes)
        return hostile(why, "larger than allowed when unpacked", path);
    extras_drop(t);
    t->left = (size + BLOCK - 1) / BLOCK * BLOCK;
    t->part = t->left ? TAR_SKIP : TAR_HEADER;
    return ERR_OK;
}

static enum err pax_pair(struct tar_scan *t, const char *key, const char *value, size_t len,
                         struct refusal *why)
{
    bool global = t->extra_type == 'g';

    if (str_starts(key, "GNU.sparse."))
        return hostile(why, "sparse file", "");
    if (str_starts(key, "SCHILY.xattr.trusted.") || str_starts(key, "SCHILY.xattr.user.overlay."))
        return hostile(why, "attribute that steers an overlay", key);
    bool path = str_eq(key, "path"), link = str_eq(key, "linkpath"), size = str_eq(key, "size");
    if (!path && !link && !size)
        return ERR_OK;
    if (global || strlen(value) != len)
        return hostile(why, "malformed extended header", key);
    if (size)
        return str_parse_i64(value, 0, INT64_MAX / 4, &t->size) == ERR_OK
                   ? ERR_OK
                   : hostile(why, "malformed extended header", key);
    char **slot = path ? &t->path : &t->link;
    free(*slot);
    *slot = mem_strdup(value);
    return ERR_OK;
}

/* Records "LENGTH KEY=VALUE\n", LENGTH counting itself. */
static enum err pax_take(struct tar_scan *t, struct refusal *why)
{
    char *p = t->extra, *end = t->extra + t->extra_len;

    while (p < end) {
        char *rest;
        unsigned long len = *p >= '0' && *p <= '9' ? strtoul(p, &rest, 10) : 0;
        if (len < 5 || len > (unsigned long)(end - p) || rest[0] != ' ' || p[len - 1] != '\n')
            return hostile(why, "malformed extended header", "");
        p[len - 1] = '\0';
        char *value = memchr(rest, '=', (size_t)(p + len - rest));
        if (!value)
            return hostile(why, "malformed extended header", "");
        *value++ = '\0';
        TRY(pax_pair(t, rest + 1, value, (size_t)(p + len - 1 - value), why));
        p += len;
    }
    return ERR_OK;
}

static enum err extra_take(struct tar_scan *t, struct refusal *why)
{
    t->part = TAR_HEADER;
    t->have = 0;
    if (t->extra_type == 'x' || t->extra_type == 'g')
        return pax_take(t, why);
    char **slot = t->extra_type == 'L' ? &t->path : &t->link;
    if (strlen(t->extra) + 1 < (size_t)t->extra_len)
        return hostile(why, "zero byte in a name", t->extra);
    free(*slot);
    *slot = mem_strdup(t->extra);
    return ERR_OK;
}

/* Takes what fits into the present part; returns how much. */
static size_t part_take(struct tar_scan *t, const unsigned char *p, size_t size)
{
    size_t n = size;

    if (t->part == TAR_HEADER) {
        n = MIN(size, BLOCK - t->have);
        memcpy(t->block + t->have, p, n);
        t->have += n;
    } else if (t->part != TAR_END) {
        n = (size_t)MIN((int64_t)size, t->left);
        if (t->part == TAR_EXTRA && (int64_t)t->have < t->extra_len)
            memcpy(t->extra + t->have, p, MIN(n, (size_t)t->extra_len - t->have));
        t->have += n;
        t->left -= (int64_t)n;
    }
    return n;
}

enum err tar_feed(struct tar_scan *t, const void *bytes, size_t size, struct refusal *why)
{
    const unsigned char *p = bytes;

    if ((int64_t)size > t->limits->bytes_max - t->bytes)
        return hostile(why, "larger than allowed when unpacked", "");
    t->bytes += (int64_t)size;
    while (size > 0) {
        size_t n = part_take(t, p, size);
        p += n;
        size -= n;
        if (t->part == TAR_HEADER && t->have == BLOCK) {
            t->have = 0;
            TRY(header_take(t, why));
        } else if (t->part == TAR_EXTRA && t->left == 0) {
            TRY(extra_take(t, why));
        } else if (t->part == TAR_SKIP && t->left == 0) {
            t->part = TAR_HEADER;
            t->have = 0;
        }
    }
    return ERR_OK;
}

enum err tar_layer_finish(struct tar_scan *t, struct refusal *why)
{
    /* Some writers leave the closing blocks out; a cut inside an entry is damage. */
    if (t->part == TAR_END || (t->part == TAR_HEADER && t->have == 0 && !t->path && !t->link))
        return ERR_OK;
    return hostile(why, "damaged archive", "it ends inside an entry");
}
