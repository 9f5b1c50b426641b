#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cp.h"

#define BATCH_FILE_MAX (1 << 20)
#define BATCH_NAME_MAX 97           /* ustar's 100 with "./" before it */
#define BATCH_NAMES_MAX (12 * 1024) /* of one script: a word of a command line has 128 KiB */
#define BATCH_LIST_MAX (64 << 20)
#define BLOCK 512

/* What is there already: one NUL-ended name after the other, sorted. */
struct names {
    struct strbuf text;
    VEC(const char *) v;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool names_have(const struct names *n, const char *name)
{
    return n->v.len && bsearch(&name, n->v.at, n->v.len, sizeof(n->v.at[0]), by_text);
}

/* False: no tar or no find there, or too much to list. */
static bool names_there(struct copy *k, struct names *n)
{
    AUTO_STRBUF struct strbuf s = {0};

    strbuf_init(&s, 1 << 16);
    strbuf_init(&n->text, BATCH_LIST_MAX);
    copy_script_path(&s, "d", k->there);
    strbuf_add(&s, "command -v tar >/dev/null && cd \"$d\" && find . -type f -print0");
    if (remote_output(&k->r, strbuf_str(&s), &n->text) != 0 || n->text.overflow)
        return false;
    for (const char *p = strbuf_str(&n->text), *end = p + n->text.len; p < end; p += strlen(p) + 1)
        *vec_push(&n->v) = str_starts(p, "./") ? p + 2 : p;
    if (n->v.len)
        qsort(n->v.at, n->v.len, sizeof(n->v.at[0]), by_text);
    return true;
}

static int make_folders(struct copy *k)
{
    AUTO_STRBUF struct strbuf s = {0}, out = {0};
    int e = 0;

    strbuf_init(&s, 1 << 20);
    strbuf_init(&out, 4096);
    VEC_FOREACH (i, &k->items.v) {
        if (!i->folder)
            continue;
        AUTO_FREE char *dst = copy_below(k->there, i->path);
        copy_script_path(&s, "d", dst);
        strbuf_add(&s, "mkdir -p \"$d\" || exit 1; ");
        if (s.len > BATCH_NAMES_MAX && !e) {
            e = remote_output(&k->r, s.data, &out);
            strbuf_reset(&s);
        }
    }
    if (s.len && !e)
        e = remote_output(&k->r, s.data, &out);
    return e ? copy_failed_there(k, e, k->there) : 0;
}

static bool is_small(const struct item *i)
{
    return !i->folder && i->size <= BATCH_FILE_MAX && *i->path && strlen(i->path) <= BATCH_NAME_MAX;
}

static void tar_header(char h[BLOCK], const struct item *i)
{
    unsigned sum = 0;

    memset(h, 0, BLOCK);
    str_printf(h, 100, "./%s", i->path);
    str_printf(h + 100, 8, "%07o", (unsigned)i->mode);
    str_printf(h + 108, 8, "%07o", 0U);
    str_printf(h + 116, 8, "%07o", 0U);
    str_printf(h + 124, 12, "%011" PRIo64, (uint64_t)i->size);
    str_printf(h + 136, 12, "%011" PRIo64, (uint64_t)time(NULL));
    memset(h + 148, ' ', 8);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    for (int n = 0; n < BLOCK; n++)
        sum += (unsigned char)h[n];
    str_printf(h + 148, 7, "%06o", sum);
}

/* Header, bytes, filling. False: the file changed, or the other side is gone. */
static bool tar_send(struct copy *k, int out, const struct item *i)
{
    AUTO_FREE char *src = copy_below(k->here, i->path);
    AUTO_FREE char *data = mem_alloc(BLOCK + BATCH_FILE_MAX + BLOCK);
    AUTO_CLOSE int fd = open(src, O_RDONLY | O_CLOEXEC);
    size_t size = (size_t)i->size, padded = (size + BLOCK - 1) / BLOCK * BLOCK;

    tar_header(data, i);
    if (fd < 0 || pread(fd, data + BLOCK, BATCH_FILE_MAX, 0) != (ssize_t)size)
        return false;
    return copy_write(out, data, BLOCK + padded);
}

int batch_upload(struct copy *k)
{
    struct names there = {0};
    AUTO_STRBUF struct strbuf s = {0};
    char part[256], end[2 * BLOCK] = {0};
    int in = -1, pid = -1;
    int e = make_folders(k);
    bool good = !e && k->items.v.len > 2 && names_there(k, &there);

    strbuf_init(&s, 1 << 16);
    copy_script_path(&s, "d", k->there);
    strbuf_add(&s, "cd \"$d\" && umask 0 && exec tar -xf -");
    VEC_FOREACH (i, &k->items.v) {
        str_printf(part, sizeof(part), "%.100s" CP_PART, i->path);
        if (!good || interrupted() || !is_small(i) || names_have(&there, i->path) ||
            names_have(&there, part))
            continue;
        if (pid < 0)
            pid = remote_start(&k->r, strbuf_str(&s), &in, NULL);
        good = pid >= 0 && tar_send(k, in, i);
        i->done = good;
        copy_progress(k->c, i->path, &k->total, good ? i->size : 0);
    }
    if (pid >= 0) {
        good = good && copy_write(in, end, sizeof(end));
        fd_close_ptr(&in);
        int code = remote_finish(pid);
        e = code || !good ? copy_failed_there(k, code ? code : 1, k->there) : 0;
    }
    VEC_FOREACH (i, &k->items.v)
        k->total.files += i->done;
    strbuf_fini(&there.text);
    vec_fini(&there.v);
    return e;
}

/* Names of the next batch that are new here, as words of a script; *next moves behind them. */
static void batch_names(struct copy *k, size_t *next, struct strbuf *out)
{
    struct stat st;

    for (; *next < k->items.v.len && out->len < BATCH_NAMES_MAX; (*next)++) {
        const struct item *i = &k->items.v.at[*next];
        AUTO_FREE char *dst = copy_below(k->here, i->path);
        AUTO_STRBUF struct strbuf part = {0};
        strbuf_init(&part, 8192);
        strbuf_addf(&part, "%s" CP_PART, dst);
        if (!is_small(i) || lstat(dst, &st) == 0 || lstat(strbuf_str(&part), &st) == 0)
            continue;
        AUTO_FREE char *name = path_join(".", i->path);
        strbuf_add(out, " ");
        shell_quote(out, name);
    }
}

/* The item a header names, at or behind *at; only what was asked for is taken. */
static struct item *header_item(struct copy *k, const char h[BLOCK], size_t *at)
{
    char name[101], octal[13];
    const char *path = name;
    int64_t size = 0;

    str_printf(name, sizeof(name), "%.100s", h);
    str_printf(octal, sizeof(octal), "%.12s", h + 124);
    path += str_starts(path, "./") ? 2 : 0;
    for (const char *p = octal; *p >= '0' && *p <= '7'; p++)
        size = size * 8 + (*p - '0');
    for (; *at < k->items.v.len; (*at)++) {
        struct item *i = &k->items.v.at[*at];
        if (str_eq(i->path, path))
            return h[156] == '0' && is_small(i) && i->size == size ? i : NULL;
    }
    return NULL;
}

static bool tar_take(struct copy *k, FILE *from, struct item *i, char *data)
{
    AUTO_FREE char *dst = copy_below(k->here, i->path);
    AUTO_STRBUF struct strbuf part = {0};
    size_t size = (size_t)i->size, padded = (size + BLOCK - 1) / BLOCK * BLOCK;

    if (fread(data, 1, padded, from) != padded)
        return false;
    strbuf_init(&part, 8192);
    strbuf_addf(&part, "%s" CP_PART, dst);
    AUTO_CLOSE int fd =
        open(strbuf_str(&part), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !copy_write(fd, data, size) || fchmod(fd, (mode_t)i->mode) != 0 ||
        rename(strbuf_str(&part), dst) != 0) {
        unlink(strbuf_str(&part));
        return false;
    }
    i->done = true;
    k->total.files++;
    copy_progress(k->c, i->path, &k->total, i->size);
    return true;
}

/* False: something was not as asked; the rest goes file by file. */
static bool batch_get(struct copy *k, const char *names, size_t at)
{
    AUTO_STRBUF struct strbuf s = {0};
    AUTO_FREE char *data = mem_alloc(BATCH_FILE_MAX + BLOCK);
    char h[BLOCK];
    int out = -1;
    bool good = true;

    strbuf_init(&s, 1 << 20);
    copy_script_path(&s, "s", *k->there ? k->there : ".");
    strbuf_addf(&s, "cd \"$s\" && exec tar -cf -%s 2>/dev/null", names);
    int pid = remote_start(&k->r, strbuf_str(&s), NULL, &out);
    if (pid < 0)
        return false;
    FILE *from = fdopen(out, "r");
    CHECK(from);
    while (good && !interrupted() && fread(h, 1, BLOCK, from) == BLOCK && h[0]) {
        struct item *i = header_item(k, h, &at);
        good = i && tar_take(k, from, i, data);
    }
    while (good && fread(h, 1, BLOCK, from) == BLOCK)
        ; /* tar fills its last record */
    if (!good)
        kill(pid, SIGTERM);
    fclose(from);
    return remote_finish(pid) == 0 && good;
}

void batch_download(struct copy *k)
{
    size_t next = 0;
    bool good = k->items.v.len > 2;

    while (good && next < k->items.v.len && !interrupted()) {
        AUTO_STRBUF struct strbuf names = {0};
        size_t from = next;
        strbuf_init(&names, BATCH_NAMES_MAX * 8);
        batch_names(k, &next, &names);
        good = names.len == 0 || batch_get(k, strbuf_str(&names), from);
    }
}
