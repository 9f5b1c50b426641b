#include "cli/cp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vec.h"

static void items_fini(struct item_list *l)
{
    VEC_FOREACH (i, &l->v)
        free(i->path);
    vec_fini(&l->v);
}

int copy_failed_here(struct copy *k, const char *call, const char *path)
{
    struct refusal why;

    (void)refusef(&why, ERR_SYSTEM, "call", "%s %s", call, path);
    refusal_set(&why, "why", strerror(errno));
    return fail(k->c, &why);
}

int copy_failed_there(struct copy *k, int code, const char *path)
{
    struct refusal why;

    if (interrupted())
        return 130;
    if (code == 255) {
        (void)refusef(&why, ERR_UNREACHABLE, "what", "%s", tr("the instance"));
        fail(k->c, &why);
        say(k->c, "%s", tr("What was copied is kept; the same command goes on from there."));
        return 8;
    }
    (void)refusef(&why, ERR_SYSTEM, "call", "%s", path);
    refusal_setf(&why, "why", tr("the instance answered %d"), code);
    return fail(k->c, &why);
}

/* Joins below; "" stays the folder itself. Owned by the caller. */
char *copy_below(const char *base, const char *path)
{
    return *path ? path_join(base, path) : mem_strdup(base);
}

void copy_script_path(struct strbuf *s, const char *name, const char *path)
{
    strbuf_addf(s, "%s=", name);
    /* ~ is the home there; a relative path starts there anyway */
    shell_quote(s, str_starts(path, "~/") ? path + 2 : str_eq(path, "~") ? "." : path);
    strbuf_add(s, "; ");
}

/* What is there of a file: "SIZE HASH" of the whole, and of its part. */
static int remote_state(struct copy *k, const char *path, int64_t prefix, int64_t *ret_size,
                        char ret_hex[CP_DIGEST_SIZE])
{
    AUTO_STRBUF struct strbuf s = {0}, out = {0};

    strbuf_init(&s, 1 << 16);
    strbuf_init(&out, 4096);
    copy_script_path(&s, "f", path);
    strbuf_add(&s,
               "[ -f \"$f\" ] || { echo -1; exit 0; }; n=$(wc -c <\"$f\") || exit 1; echo $n; ");
    if (prefix >= 0)
        strbuf_addf(&s, "head -c %" PRId64 " \"$f\" | sha256sum | cut -c1-64", prefix);
    else
        strbuf_add(&s, "sha256sum <\"$f\" | cut -c1-64");
    int e = remote_output(&k->r, strbuf_str(&s), &out);
    char *nl = strchr(strbuf_str(&out), '\n');
    if (e || !nl)
        return e ? e : 255;
    *nl = '\0';
    if (str_parse_i64(out.data, -1, INT64_MAX, ret_size) != ERR_OK)
        return 1;
    nl[1 + strcspn(nl + 1, "\n")] = '\0';
    ret_hex[0] = '\0';
    (void)str_copy(ret_hex, CP_DIGEST_SIZE, nl + 1);
    return 0;
}

bool copy_write(int fd, const char *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, data + done, len - done);
        if (n < 0 && (errno != EINTR || interrupted()))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static int upload_bytes(struct copy *k, int fd, const struct item *i, const char *part,
                        int64_t from)
{
    AUTO_STRBUF struct strbuf s = {0};
    char data[65536];
    int in = -1;
    int64_t at = from;

    strbuf_init(&s, 1 << 16);
    copy_script_path(&s, "p", part);
    strbuf_addf(&s, "cat %s \"$p\"", from > 0 ? ">>" : ">");
    int pid = remote_start(&k->r, strbuf_str(&s), &in, NULL);
    if (pid < 0)
        return 255;
    while (at < i->size && !interrupted()) {
        ssize_t n = pread(fd, data, (size_t)MIN((int64_t)sizeof(data), i->size - at), at);
        if (n <= 0 || !copy_write(in, data, (size_t)n))
            break;
        at += n;
        copy_progress(k->c, *i->path ? i->path : k->here, &k->total, n);
    }
    fd_close_ptr(&in);
    int e = remote_finish(pid);
    return e ? e : at < i->size ? 255 : 0;
}

static int upload_name(struct copy *k, const struct item *i, const char *part, const char *dst,
                       const char *hex)
{
    AUTO_STRBUF struct strbuf s = {0}, out = {0};

    strbuf_init(&s, 1 << 16);
    strbuf_init(&out, 4096);
    copy_script_path(&s, "p", part);
    copy_script_path(&s, "d", dst);
    strbuf_addf(&s, "[ \"$(sha256sum <\"$p\" | cut -c1-64)\" = %s ] || { rm -f \"$p\"; exit 9; }; ",
                hex);
    strbuf_addf(&s, "chmod %o \"$p\" && mv -f \"$p\" \"$d\"", (unsigned)i->mode & 0777);
    return remote_output(&k->r, strbuf_str(&s), &out);
}

static int upload_file(struct copy *k, const struct item *i)
{
    AUTO_FREE char *src = copy_below(k->here, i->path);
    AUTO_FREE char *dst = copy_below(k->there, i->path);
    AUTO_STRBUF struct strbuf part = {0};
    char mine[CP_DIGEST_SIZE], theirs[CP_DIGEST_SIZE], whole[CP_DIGEST_SIZE];
    int64_t have;
    AUTO_CLOSE int fd = open(src, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return copy_failed_here(k, "open", src);
    strbuf_init(&part, 8192);
    strbuf_addf(&part, "%s" CP_PART, dst);
    if (!digest_file(fd, -1, whole))
        return interrupted() ? 130 : copy_failed_here(k, "read", src);
    int e = remote_state(k, dst, -1, &have, theirs);
    if (!e && have == i->size && str_eq(whole, theirs)) {
        k->total.skipped++;
        k->total.done_all += i->size;
        return 0;
    }
    if (!e)
        e = remote_state(k, strbuf_str(&part), i->size, &have, theirs);
    if (e)
        return copy_failed_there(k, e, dst);
    bool keep = have > 0 && have <= i->size && digest_file(fd, have, mine) && str_eq(mine, theirs);
    have = keep ? have : 0;
    k->total.resumed += have;
    k->total.done_all += have;
    e = upload_bytes(k, fd, i, strbuf_str(&part), have);
    if (!e)
        e = upload_name(k, i, strbuf_str(&part), dst, whole);
    k->total.files += !e;
    return e ? copy_failed_there(k, e, dst) : 0;
}

static int list_here(struct copy *k, const char *path)
{
    AUTO_FREE char *full = copy_below(k->here, path);
    struct stat st;

    if (*path ? lstat(full, &st) : stat(full, &st))
        return copy_failed_here(k, "stat", full);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
        say(k->c, tr("left out (no file or folder): %s"), full);
        return 0;
    }
    *vec_push(&k->items.v) = (struct item){.path = mem_strdup(path),
                                           .size = S_ISREG(st.st_mode) ? st.st_size : 0,
                                           .mode = (int)(st.st_mode & 0777),
                                           .folder = S_ISDIR(st.st_mode)};
    k->total.size_all += S_ISREG(st.st_mode) ? st.st_size : 0;
    if (!S_ISDIR(st.st_mode))
        return 0;
    DIR *d = opendir(full);
    int e = d ? 0 : copy_failed_here(k, "open", full);
    for (struct dirent *entry; !e && d && (entry = readdir(d));) {
        if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
            continue;
        AUTO_FREE char *next = *path ? path_join(path, entry->d_name) : mem_strdup(entry->d_name);
        e = list_here(k, next);
    }
    if (d)
        closedir(d);
    return e;
}

/* A destination that is a folder takes the source under its own name, as cp does. */
static int place_there(struct copy *k, char **ret_there)
{
    AUTO_STRBUF struct strbuf s = {0}, out = {0};
    const char *slash = strrchr(k->here, '/'), *name = slash && slash[1] ? slash + 1 : k->here;

    strbuf_init(&s, 1 << 16);
    strbuf_init(&out, 64);
    copy_script_path(&s, "d", *k->there ? k->there : ".");
    strbuf_add(&s, "[ -d \"$d\" ] && echo d || echo n");
    int e = remote_output(&k->r, strbuf_str(&s), &out);
    if (e)
        return copy_failed_there(k, e, k->there);
    bool into = str_starts(strbuf_str(&out), "d") && !str_eq(name, ".") && !str_eq(name, "..");
    *ret_there =
        into ? path_join(*k->there ? k->there : ".", name) : mem_strdup(*k->there ? k->there : ".");
    return 0;
}

static int upload(struct copy *k)
{
    AUTO_FREE char *there = NULL;
    int e = list_here(k, "");

    if (!e)
        e = place_there(k, &there);
    k->there = there;
    if (!e)
        e = batch_upload(k);
    VEC_FOREACH (i, &k->items.v) {
        if (e || interrupted())
            break;
        if (!i->folder && !i->done)
            e = upload_file(k, i);
    }
    k->there = NULL;
    return interrupted() ? 130 : e;
}

/* The instance is not trusted with our files: only plain paths below the destination. */
static bool path_is_below(const char *p)
{
    for (; *p; p += strcspn(p, "/"), p += *p == '/') {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
    }
    return true;
}

/* "d SIZE MODE ./path\0" and "f …" for each entry; "f SIZE MODE \0" for a single file. */
static int list_parse(struct copy *k, const char *p, const char *end)
{
    while (p < end) {
        struct item i = {.folder = *p == 'd'};
        char *rest;
        errno = 0;
        if ((*p != 'd' && *p != 'f') || p[1] != ' ')
            return 1;
        i.size = strtoll(p + 2, &rest, 10);
        if (*rest != ' ' || i.size < 0)
            return 1;
        i.mode = (int)strtol(rest + 1, &rest, 8) & 0777;
        if (*rest != ' ')
            return 1;
        const char *path = rest + 1;
        p = path + strlen(path) + 1;
        path += str_starts(path, "./") ? 2 : str_eq(path, ".") ? 1 : 0;
        if (!path_is_below(path)) {
            say(k->c, tr("left out (not below the source): %s"), path);
            continue;
        }
        i.path = mem_strdup(path);
        i.size = i.folder ? 0 : i.size;
        k->total.size_all += i.size;
        *vec_push(&k->items.v) = i;
    }
    return 0;
}

static int list_there(struct copy *k)
{
    static const char one[] =
        "printf \"f %s %s \\0\" \"$(wc -c <\"$s\")\" \"$(stat -c %a \"$s\")\"";
    static const char many[] =
        "cd \"$s\" || exit 1; find . -type d -exec sh -c 'for f; do printf \"d 0 %s %s\\0\" "
        "\"$(stat -c %a \"$f\")\" \"$f\"; done' sh {} +; find . -type f ! -name '*" CP_PART
        "' -exec sh -c "
        "'for f; do printf \"f %s %s %s\\0\" \"$(stat -c %s \"$f\")\" "
        "\"$(stat -c %a \"$f\")\" \"$f\"; done' sh {} +";
    AUTO_STRBUF struct strbuf s = {0}, out = {0};

    strbuf_init(&s, 1 << 16);
    strbuf_init(&out, 64 << 20);
    copy_script_path(&s, "s", *k->there ? k->there : ".");
    strbuf_addf(&s, "if [ -d \"$s\" ]; then %s; elif [ -f \"$s\" ]; then %s; else exit 44; fi",
                many, one);
    int e = remote_output(&k->r, strbuf_str(&s), &out);
    if (e == 44) {
        struct refusal why;
        (void)refusef(&why, ERR_NOT_FOUND, "what", "%s", tr("file"));
        refusal_set(&why, "name", k->there);
        refusal_set(&why, "verb", "ssh NAME -- ls");
        return fail(k->c, &why);
    }
    if (e || out.overflow)
        return copy_failed_there(k, e, k->there);
    return list_parse(k, strbuf_str(&out), strbuf_str(&out) + out.len)
               ? copy_failed_there(k, 1, k->there)
               : 0;
}

static int download_bytes(struct copy *k, int fd, const struct item *i, const char *src,
                          int64_t from)
{
    AUTO_STRBUF struct strbuf s = {0};
    char data[65536];
    int out = -1;
    int64_t at = from;
    ssize_t n = 0;

    strbuf_init(&s, 1 << 16);
    copy_script_path(&s, "f", src);
    strbuf_addf(&s, "tail -c +%" PRId64 " \"$f\"", from + 1);
    int pid = remote_start(&k->r, strbuf_str(&s), NULL, &out);
    if (pid < 0)
        return 255;
    while (!interrupted() && at < i->size) {
        n = read(out, data, (size_t)MIN((int64_t)sizeof(data), i->size - at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || pwrite(fd, data, (size_t)n, at) != n)
            break;
        at += n;
        copy_progress(k->c, *i->path ? i->path : k->there, &k->total, n);
    }
    fd_close_ptr(&out);
    int e = remote_finish(pid);
    return at == i->size ? 0 : e ? e : 255;
}

static int download_file(struct copy *k, const struct item *i)
{
    AUTO_FREE char *src = copy_below(*k->there ? k->there : ".", i->path);
    AUTO_FREE char *dst = copy_below(k->here, i->path);
    AUTO_STRBUF struct strbuf part = {0};
    char mine[CP_DIGEST_SIZE], theirs[CP_DIGEST_SIZE];
    struct stat st;
    int64_t size, have;

    strbuf_init(&part, 8192);
    strbuf_addf(&part, "%s" CP_PART, dst);
    AUTO_CLOSE int old = open(dst, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    AUTO_CLOSE int fd = open(strbuf_str(&part), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || fstat(fd, &st) != 0)
        return copy_failed_here(k, "create", strbuf_str(&part));
    have = st.st_size <= i->size ? st.st_size : 0;
    int e = remote_state(k, src, -1, &size, theirs);
    if (e || size != i->size)
        return copy_failed_there(k, e ? e : 1, src);
    if (old >= 0 && digest_file(old, -1, mine) && str_eq(mine, theirs)) {
        k->total.skipped++;
        k->total.done_all += i->size;
        unlink(strbuf_str(&part));
        return 0;
    }
    char whole[CP_DIGEST_SIZE];
    (void)str_copy(whole, sizeof(whole), theirs);
    if (have > 0) {
        e = remote_state(k, src, have, &size, theirs);
        have = !e && digest_file(fd, have, mine) && str_eq(mine, theirs) ? have : 0;
    }
    if (e || ftruncate(fd, have) != 0)
        return copy_failed_there(k, e ? e : 1, src);
    k->total.resumed += have;
    k->total.done_all += have;
    e = download_bytes(k, fd, i, src, have);
    if (e)
        return copy_failed_there(k, e, src);
    if (!digest_file(fd, -1, mine) || !str_eq(mine, whole)) {
        unlink(strbuf_str(&part));
        return copy_failed_there(k, 9, src);
    }
    if (fchmod(fd, (mode_t)i->mode) != 0 || rename(strbuf_str(&part), dst) != 0)
        return copy_failed_here(k, "rename", dst);
    k->total.files++;
    return 0;
}

static int download(struct copy *k)
{
    AUTO_FREE char *here = NULL;
    struct stat st;
    const char *slash = strrchr(k->there, '/'), *name = slash ? slash + 1 : k->there;
    int e = list_there(k);

    bool named = *name && !str_eq(name, ".") && !str_eq(name, "..") && !str_eq(name, "~");
    here = stat(k->here, &st) == 0 && S_ISDIR(st.st_mode) && named ? path_join(k->here, name)
                                                                   : mem_strdup(k->here);
    k->here = here;
    VEC_FOREACH (i, &k->items.v) {
        AUTO_FREE char *dst = copy_below(here, i->path);
        if (!e && i->folder && mkdir(dst, (mode_t)i->mode | 0700) != 0 && errno != EEXIST)
            e = copy_failed_here(k, "mkdir", dst);
    }
    if (!e)
        batch_download(k);
    VEC_FOREACH (i, &k->items.v) {
        if (e || interrupted())
            break;
        if (!i->folder && !i->done)
            e = download_file(k, i);
    }
    k->here = NULL;
    return interrupted() ? 130 : e;
}

/* "NAME:path" names an instance; "./a:b" and "/a:b" are paths here. Returns the path or NULL. */
static const char *remote_part(const char *word, char *name, size_t size)
{
    size_t n = strcspn(word, ":/");

    if (word[n] != ':' || n == 0 || !str_printf(name, size, "%.*s", (int)n, word))
        return NULL;
    return word + n + 1;
}

static int report(struct copy *k)
{
    char bytes[32], rate[32], resumed[32];
    struct clock *clock = clock_system();
    utime_t ms = MAX(clock->boot_ms(clock) - k->total.started, (utime_t)1);
    const struct copy_total *t = &k->total;

    progress_end(k->c);
    text_bytes(t->bytes, bytes, sizeof(bytes));
    text_bytes(t->bytes * MS_PER_S / ms, rate, sizeof(rate));
    text_bytes(t->resumed, resumed, sizeof(resumed));
    if (k->c->json)
        printf("{\"files\":%" PRId64 ",\"bytes\":%" PRId64 ",\"resumed_bytes\":%" PRId64
               ",\"skipped_files\":%" PRId64 ",\"ms\":%" PRId64 "}\n",
               t->files, t->bytes, t->resumed, t->skipped, (int64_t)ms);
    if (k->c->quiet)
        return 0;
    say(k->c, tr("%" PRId64 " files, %s at %s/s"), t->files, bytes, rate);
    if (t->resumed)
        say(k->c, tr("%s were there from an earlier try"), resumed);
    if (t->skipped)
        say(k->c, tr("%" PRId64 " files were there already"), t->skipped);
    return 0;
}

int cmd_cp(struct cli *c, struct call *call)
{
    const char *src = arg_str(call, "src"), *dst = arg_str(call, "dst");
    char name[128], other[128];
    const char *from = remote_part(src, name, sizeof(name));
    const char *to = remote_part(dst, from ? other : name, sizeof(name));
    AUTO_ANSWER struct answer a = {0};
    struct copy k = {.c = c};
    struct clock *clock = clock_system();
    int e;

    answer_init(&a);
    if (!from == !to)
        return fail_usage(c, "%s",
                          tr("cp: exactly one side is NAME:path (the other is a path here)"));
    e = ssh_instance(c, name, &a);
    if (e)
        return e;
    interrupt_watch();
    signal(SIGPIPE, SIG_IGN);
    k.total.started = clock->boot_ms(clock);
    k.here = from ? dst : src;
    k.there = from ? from : to;
    e = remote_open(&k.r, c, a.json);
    if (e)
        e = copy_failed_there(&k, e, name);
    else
        e = from ? download(&k) : upload(&k);
    remote_close(&k.r);
    items_fini(&k.items);
    if (e == 130)
        say(c, "%s", tr("What was copied is kept; the same command goes on from there."));
    return e ? e : report(&k);
}
