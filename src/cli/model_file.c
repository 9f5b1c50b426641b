#include "cli/model_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/msg.h"
#include "base/str.h"
#include "cli/config.h"
#include "domain/model.h"

#define ENTRIES_MAX 20000
#define FILES_MAX 2000
#define FIRST_READ ((size_t)4 << 20)

static bool ends(const char *s, const char *tail)
{
    size_t a = strlen(s), b = strlen(tail);

    return a >= b && str_eq(s + a - b, tail);
}

bool model_file_meant(const char *word)
{
    struct stat st;

    if (ends(word, ".gguf") || ends(word, ".safetensors"))
        return strchr(word, '/') || stat(word, &st) == 0;
    return ends(word, ".json") || word[0] == '.' || word[0] == '/' || word[0] == '~' ||
           (word[0] && ends(word, "/")) || stat(word, &st) == 0;
}

static enum err no_file(const char *path, struct refusal *why)
{
    enum err e = refuse(why, ERR_NOT_FOUND);

    refusal_set(why, "what", N_("file or folder"));
    refusal_setf(why, "name", "%.180s", path);
    refusal_set(why, "verb", "size --list");
    return e;
}

static enum err broken(const char *path, const char *text, struct refusal *why)
{
    enum err e = refusef(why, ERR_MODEL_FILE, "what", "%.180s", path);

    refusal_set(why, "why", text);
    return e;
}

/* The reader names the format; people look for the file. */
static enum err named(const char *path, enum err e, struct refusal *why)
{
    const char *colon = NULL;
    char field[80] = "";

    if (e != ERR_MODEL_FILE || why->param_count == 0)
        return e;
    colon = strchr(why->params[0].value, ':');
    if (colon)
        str_copy(field, sizeof(field), colon);
    size_t n = strlen(path);
    snprintf(why->params[0].value, sizeof(why->params[0].value), "%s%s",
             n > 100 ? path + n - 100 : path, field);
    return e;
}

/* A regular file, or nothing: a pipe or a device must not make us wait. */
static enum err file_open(const char *path, int *ret_fd, int64_t *ret_size, struct refusal *why)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return no_file(path, why);
    if (fd < 0 || fstat(fd, &st) != 0) {
        enum err e = refusef(why, ERR_SYSTEM, "call", "open %.150s", path);
        refusal_set(why, "why", strerror(errno));
        return e;
    }
    if (!S_ISREG(st.st_mode))
        return broken(path, N_("it is not a regular file"), why);
    *ret_size = st.st_size;
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

static enum err bytes_read(int fd, const char *path, int64_t at, uint8_t *buf, size_t want,
                           size_t *ret_n, struct refusal *why)
{
    size_t n = 0;

    while (n < want) {
        ssize_t got = pread(fd, buf + n, want - n, at + (int64_t)n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            enum err e = refusef(why, ERR_SYSTEM, "call", "read %.150s", path);
            refusal_set(why, "why", strerror(errno));
            return e;
        }
        if (got == 0)
            break;
        n += (size_t)got;
    }
    *ret_n = n;
    return ERR_OK;
}

/* A whole small file. */
static enum err text_read(const char *path, size_t max, uint8_t **ret_text, size_t *ret_n,
                          struct refusal *why)
{
    AUTO_CLOSE int fd = -1;
    AUTO_FREE uint8_t *text = NULL;
    int64_t size;

    TRY(file_open(path, &fd, &size, why));
    if (size > (int64_t)max)
        return broken(path, N_("it is larger than such a file ever is"), why);
    text = mem_alloc((size_t)size + 1);
    TRY(bytes_read(fd, path, 0, text, (size_t)size, ret_n, why));
    *ret_text = TAKE(text);
    return ERR_OK;
}

static enum err config_load_model(const char *path, const char *like, struct size_model *m,
                                  struct refusal *why)
{
    AUTO_FREE uint8_t *text = NULL;
    size_t n;

    TRY(text_read(path, MODEL_CONFIG_MAX, &text, &n, why));
    return named(path, model_config(text, n, like, m, why), why);
}

/* "x-00001-of-00003.gguf": the bytes of all parts. Leaves *ret_bytes alone for other names. */
static enum err parts_size(const char *path, int64_t *ret_bytes, struct refusal *why)
{
    const char *of = strstr(path, "-00001-of-");
    AUTO_FREE char *part = mem_strdup(path);
    int64_t count, sum = 0;
    char digits[6];

    if (!of || strlen(of) != strlen("-00001-of-00003.gguf") ||
        !str_printf(digits, sizeof(digits), "%.5s", of + 10) ||
        str_parse_i64(digits, 1, FILES_MAX, &count) != ERR_OK)
        return ERR_OK;
    for (int64_t i = 1; i <= count; i++) {
        struct stat st;
        snprintf(part + (of - path), strlen(of) + 1, "-%05d-of-%s.gguf", (int)i, digits);
        if (stat(part, &st) != 0)
            return no_file(part, why);
        sum += S_ISREG(st.st_mode) ? st.st_size : 0;
    }
    *ret_bytes = sum;
    return ERR_OK;
}

static enum err gguf_load(const char *path, struct size_model *m, struct refusal *why)
{
    AUTO_CLOSE int fd = -1;
    AUTO_FREE uint8_t *bytes = NULL;
    int64_t size;
    enum err e = ERR_OK;

    TRY(file_open(path, &fd, &size, why));
    for (size_t want = FIRST_READ;; want *= 4) {
        size_t n;
        bytes = mem_realloc(bytes, want, 1);
        TRY(bytes_read(fd, path, 0, bytes, want, &n, why));
        e = model_gguf(bytes, n, m, why);
        if (e == ERR_OK && m->weight_bytes == 0)
            return parts_size(path, &m->weight_bytes, why);
        if (e == ERR_OK || n < want || want >= MODEL_GGUF_MAX)
            return named(path, e, why);
    }
}

/* headers: bytes of the headers read so far; all files of a folder share one limit. */
static enum err tensors_add(const char *path, size_t *headers, struct model_tensors *t,
                            struct refusal *why)
{
    AUTO_CLOSE int fd = -1;
    AUTO_FREE uint8_t *text = NULL;
    uint8_t first[8] = {0};
    int64_t size;
    size_t n, len;

    TRY(file_open(path, &fd, &size, why));
    TRY(bytes_read(fd, path, 0, first, sizeof(first), &n, why));
    TRY(named(path, model_safetensors_header(first, (int64_t)n < 8 ? 0 : size, &len, why), why));
    *headers += len;
    if (*headers > MODEL_HEADER_MAX)
        return broken(path, N_("its header says it is larger than any header"), why);
    text = mem_alloc(len + 1);
    TRY(bytes_read(fd, path, 8, text, len, &n, why));
    return named(path, model_safetensors_add(text, n, size - 8 - (int64_t)len, t, why), why);
}

/* ---- folders ---- */

struct folder {
    char *safetensors[FILES_MAX], *gguf[FILES_MAX]; /* owned names */
    size_t safetensors_count, gguf_count;
    bool config;
    char *index; /* owned */
};

static void folder_fini(struct folder *f)
{
    for (size_t i = 0; i < f->safetensors_count; i++)
        free(f->safetensors[i]);
    for (size_t i = 0; i < f->gguf_count; i++)
        free(f->gguf[i]);
    free(f->index);
}

static int name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void folder_entry(struct folder *f, const char *name)
{
    if (str_eq(name, "config.json"))
        f->config = true;
    else if (ends(name, ".safetensors.index.json") && !f->index)
        f->index = mem_strdup(name);
    else if (ends(name, ".safetensors") && f->safetensors_count < FILES_MAX)
        f->safetensors[f->safetensors_count++] = mem_strdup(name);
    else if (ends(name, ".gguf") && f->gguf_count < FILES_MAX)
        f->gguf[f->gguf_count++] = mem_strdup(name);
}

static enum err folder_list(const char *path, struct folder *f, struct refusal *why)
{
    DIR *d = opendir(path);
    const struct dirent *e;
    size_t seen = 0;

    if (!d)
        return no_file(path, why);
    while ((e = readdir(d)) && ++seen <= ENTRIES_MAX)
        folder_entry(f, e->d_name);
    closedir(d);
    if (seen > ENTRIES_MAX)
        return broken(path, N_("it holds too many files for a model"), why);
    qsort(f->safetensors, f->safetensors_count, sizeof(char *), name_order);
    qsort(f->gguf, f->gguf_count, sizeof(char *), name_order);
    return ERR_OK;
}

/* "x-00002-of-00003.safetensors": how many parts there are; 0 for other names. */
static int64_t parts_of(const char *name)
{
    static const char like[] = "-00001-of-00003.safetensors";
    size_t n = strlen(name), k = sizeof(like) - 1;
    int64_t count;
    char digits[6];

    if (n < k || !str_printf(digits, sizeof(digits), "%.5s", name + n - k + 10) ||
        memcmp(name + n - k + 6, "-of-", 4) != 0 ||
        str_parse_i64(digits, 1, 99999, &count) != ERR_OK)
        return 0;
    return count;
}

/* Without an index nothing but the names tells that a download stopped half way. */
static bool parts_whole(const struct folder *f)
{
    int64_t want = 0, have = 0;

    for (size_t i = 0; i < f->safetensors_count; i++) {
        int64_t n = parts_of(f->safetensors[i]);
        want = MAX(want, n);
        have += n > 0;
    }
    return have >= want;
}

/* The bytes of all files when they are here, else what the index says. */
static enum err folder_weights(const char *path, const struct folder *f, struct size_model *m,
                               struct refusal *why)
{
    AUTO_FREE struct model_tensors *t = mem_alloc(sizeof(*t));
    int64_t total = 0;
    size_t headers = 0;

    for (size_t i = 0; i < f->safetensors_count; i++) {
        AUTO_FREE char *file = path_join(path, f->safetensors[i]);
        TRY(tensors_add(file, &headers, t, why));
    }
    if (f->index) {
        AUTO_FREE char *file = path_join(path, f->index);
        AUTO_FREE uint8_t *text = NULL;
        size_t n;
        TRY(text_read(file, MODEL_INDEX_MAX, &text, &n, why));
        TRY(named(file, model_index(text, n, &total, why), why));
    }
    if (total == 0 && !parts_whole(f))
        return broken(path, N_("parts of it are missing: is the download whole?"), why);
    if (t->count > 0 && t->bytes >= total)
        return named(path, model_take_tensors(t, m, why), why);
    if (m->layers == 0)
        return broken(path, N_("its tensors do not tell the shape; put its config.json beside it"),
                      why);
    m->weight_bytes = total;
    return ERR_OK;
}

static enum err folder_load(const char *path, const char *like, struct size_model *m,
                            const char **ret_source, struct refusal *why)
{
    AUTO_FREE struct folder *f = mem_alloc(sizeof(*f));
    enum err e = folder_list(path, f, why);

    if (e == ERR_OK && f->config) {
        AUTO_FREE char *file = path_join(path, "config.json");
        *ret_source = "config.json";
        e = config_load_model(file, like, m, why);
    }
    if (e == ERR_OK && (f->safetensors_count || f->index)) {
        *ret_source = f->safetensors_count ? "safetensors" : *ret_source;
        e = folder_weights(path, f, m, why);
    } else if (e == ERR_OK && !f->config &&
               (f->gguf_count == 1 || (f->gguf_count && strstr(f->gguf[0], "-00001-of-")))) {
        AUTO_FREE char *file = path_join(path, f->gguf[0]);
        *ret_source = "gguf";
        e = gguf_load(file, m, why);
    } else if (e == ERR_OK && !f->config) {
        e = broken(path,
                   f->gguf_count ? N_("it holds several GGUF files; name one")
                                 : N_("it holds no config.json, safetensors or GGUF file"),
                   why);
    }
    folder_fini(f);
    return e;
}

enum err model_file_load(const char *path, const char *like, struct size_model *ret_m,
                         const char **ret_source, struct refusal *why)
{
    struct size_model m = {0};
    struct stat st;
    const char *base = strrchr(path, '/');
    enum err e;

    if (stat(path, &st) != 0)
        return no_file(path, why);
    base = base ? base + 1 : path;
    if (S_ISDIR(st.st_mode)) {
        e = folder_load(path, like, &m, ret_source, why);
    } else if (ends(path, ".gguf")) {
        *ret_source = "gguf";
        e = gguf_load(path, &m, why);
    } else if (ends(path, ".safetensors") || ends(path, ".index.json")) {
        AUTO_FREE struct folder *f = mem_alloc(sizeof(*f));
        AUTO_FREE char *folder =
            base == path ? mem_strdup(".") : strndup(path, (size_t)(base - path));
        if (!parts_of(base))
            folder_entry(f, base); /* else all parts and their index are meant */
        e = parts_of(base) ? folder_list(folder, f, why) : ERR_OK;
        AUTO_FREE char *beside = path_join(folder, "config.json");
        *ret_source = "safetensors";
        if (e == ERR_OK && access(beside, F_OK) == 0)
            e = config_load_model(beside, like, &m, why);
        e = e == ERR_OK ? folder_weights(folder, f, &m, why) : e;
        folder_fini(f);
    } else {
        *ret_source = "config.json";
        e = config_load_model(path, like, &m, why);
    }
    if (e != ERR_OK)
        return e;
    /* people know it by the folder's name */
    if (S_ISDIR(st.st_mode) || !ends(path, ".json"))
        (void)str_printf(m.name, sizeof(m.name), "%.90s", base);
    *ret_m = m;
    return ERR_OK;
}
