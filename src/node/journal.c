#include "node/journal.h"

#include "base/log.h"
#include "node/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL_FILE_MAX (256 << 20)
#define JOURNAL_BATCH_MAX (16 << 20)
#define JOURNAL_COMPACT_MIN (1 << 20)
#define JOURNAL_RESERVE (2 << 20)
#define CRC_SIZE 9 /* eight hex digits and a blank */

struct journal {
    int dir, fd;         /* owned */
    off_t size;          /* good bytes in the file */
    off_t size_compact;  /* after the last compaction */
    struct strbuf batch; /* lines not yet written */
    bool broken;
};

static uint32_t crc32(const void *data, size_t len)
{
    const unsigned char *p = data;
    uint32_t crc = 0xffffffffU;

    for (size_t i = 0; i < len; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = (crc >> 1) ^ (0xedb88320U & (0U - (crc & 1U)));
    }
    return ~crc;
}

static enum err fail(struct journal *j, const char *what, struct refusal *why)
{
    j->broken = true;
    return refusef(why, ERR_STORE, "why", "node journal, %s: %s", what, strerror(errno));
}

json_t *journal_line_parse(const char *line, size_t len)
{
    char crc[CRC_SIZE];
    json_t *v = NULL;

    if (len <= CRC_SIZE || len > JOURNAL_RECORD_MAX + CRC_SIZE)
        return NULL;
    (void)str_printf(crc, sizeof(crc), "%08" PRIx32, crc32(line + CRC_SIZE, len - CRC_SIZE));
    if (memcmp(crc, line, CRC_SIZE - 1) != 0 || line[CRC_SIZE - 1] != ' ')
        return NULL;
    if (json_parse(line + CRC_SIZE, len - CRC_SIZE, JOURNAL_RECORD_MAX, &v, NULL) != ERR_OK)
        return NULL;
    if (!json_is_object(v)) {
        json_decref(v);
        return NULL;
    }
    return v;
}

/* Returns the length of the good part. */
static size_t replay_text(const char *text, size_t len, journal_replay_fn *replay, void *user)
{
    size_t at = 0;

    while (at < len) {
        const char *end = memchr(text + at, '\n', len - at);
        json_t *v = end != NULL ? journal_line_parse(text + at, (size_t)(end - text) - at) : NULL;

        if (v == NULL)
            break;
        replay(user, v);
        json_decref(v);
        at = (size_t)(end - text) + 1;
    }
    return at;
}

static enum err read_whole(int fd, char **ret_text, size_t *ret_len)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || st.st_size > JOURNAL_FILE_MAX)
        return ERR_STORE;
    AUTO_FREE char *text = mem_alloc((size_t)st.st_size + 1);
    size_t len = 0;
    while (len < (size_t)st.st_size) {
        ssize_t n = pread(fd, text + len, (size_t)st.st_size - len, (off_t)len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ERR_STORE;
        len += (size_t)n;
    }
    *ret_text = TAKE(text);
    *ret_len = len;
    return ERR_OK;
}

/* The tail may be evidence for somebody: it is kept beside the journal, once. */
static void tail_keep(struct journal *j, const char *tail, size_t len)
{
    AUTO_CLOSE int fd =
        openat(j->dir, "journal.bad", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, tail, len) != (ssize_t)len)
        log_warn("journal: the dropped tail could not be kept");
}

static enum err replay_file(struct journal *j, journal_replay_fn *replay, void *user,
                            struct refusal *why)
{
    AUTO_FREE char *text = NULL;
    size_t len = 0;

    if (read_whole(j->fd, &text, &len) != ERR_OK)
        return fail(j, "read", why);
    size_t good = replay_text(text, len, replay, user);
    if (good < len) {
        log_error("journal: %zu bytes after byte %zu are not whole records and are DROPPED "
                  "(torn write or damage); kept as journal.bad",
                  len - good, good);
        tail_keep(j, text + good, len - good);
        if (ftruncate(j->fd, (off_t)good) != 0 || fdatasync(j->fd) != 0)
            return fail(j, "truncate", why);
    }
    j->size = (off_t)good;
    j->size_compact = 0;
    return ERR_OK;
}

/* Space put aside, so that ends and erases can still be written when the disk is full. */
static void reserve_make(struct journal *j)
{
    AUTO_CLOSE int fd = openat(j->dir, "journal.reserve", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd >= 0 && posix_fallocate(fd, 0, JOURNAL_RESERVE) != 0)
        log_warn("journal: no space to put aside for a full disk");
}

enum err journal_open(const char *dir, journal_replay_fn *replay, void *user,
                      struct journal **ret_journal, bool *ret_fresh, struct refusal *why)
{
    struct journal *j = mem_alloc(sizeof(*j));
    enum err e = ERR_OK;

    j->fd = -1;
    strbuf_init(&j->batch, JOURNAL_BATCH_MAX);
    j->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (j->dir < 0) {
        e = fail(j, "open folder", why);
        goto out;
    }
    *ret_fresh = faccessat(j->dir, "journal", F_OK, 0) != 0;
    j->fd = openat(j->dir, "journal", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (j->fd < 0 || fsync(j->dir) != 0) {
        e = fail(j, "open", why);
        goto out;
    }
    e = replay_file(j, replay, user, why);
out:
    if (e != ERR_OK) {
        journal_close(j);
        return e;
    }
    reserve_make(j);
    *ret_journal = j;
    return ERR_OK;
}

void journal_close(struct journal *j)
{
    if (j == NULL)
        return;
    strbuf_fini(&j->batch);
    fd_close_ptr(&j->fd);
    fd_close_ptr(&j->dir);
    free(j);
}

void journal_add(struct journal *j, const char *json)
{
    size_t len = strlen(json);

    CHECK(len <= JOURNAL_RECORD_MAX && memchr(json, '\n', len) == NULL);
    strbuf_addf(&j->batch, "%08" PRIx32 " ", crc32(json, len));
    strbuf_add_n(&j->batch, json, len);
    strbuf_add(&j->batch, "\n");
    CHECK(!j->batch.overflow);
}

/* Full disk: cut back what was half written, give up the reserve and try once more. */
static bool write_full(struct journal *j)
{
    if (errno != ENOSPC || ftruncate(j->fd, j->size) != 0)
        return false;
    log_error("journal: the disk is full; the reserve is used");
    return unlinkat(j->dir, "journal.reserve", 0) == 0 &&
           sys_write_all(j->fd, j->batch.data, j->batch.len);
}

enum err journal_sync(struct journal *j, struct refusal *why)
{
    if (j->broken) {
        errno = EIO;
        return fail(j, "an earlier write failed", why);
    }
    if (j->batch.len == 0)
        return ERR_OK;
    if (!sys_write_all(j->fd, j->batch.data, j->batch.len) && !write_full(j))
        return fail(j, "write", why);
    if (fdatasync(j->fd) != 0)
        return fail(j, "sync", why);
    j->size += (off_t)j->batch.len;
    strbuf_reset(&j->batch);
    return ERR_OK;
}

enum err journal_compact(struct journal *j, journal_dump_fn *dump, void *user, bool now,
                         struct refusal *why)
{
    TRY(journal_sync(j, why));
    if (!now && j->size < MAX((off_t)JOURNAL_COMPACT_MIN, 4 * j->size_compact))
        return ERR_OK;
    dump(user, j);
    AUTO_CLOSE int fd =
        openat(j->dir, "journal.new", O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || !sys_write_all(fd, strbuf_str(&j->batch), j->batch.len) || fdatasync(fd) != 0) {
        /* The old file is still whole and is kept; a full disk is not the end. */
        bool full = errno == ENOSPC;

        strbuf_reset(&j->batch);
        return full ? ERR_OK : fail(j, "compact", why);
    }
    if (renameat(j->dir, "journal.new", j->dir, "journal") != 0 || fsync(j->dir) != 0)
        return fail(j, "rename", why);
    close(j->fd);
    j->fd = TAKE_FD(fd);
    j->size = j->size_compact = (off_t)j->batch.len;
    strbuf_reset(&j->batch);
    reserve_make(j);
    return ERR_OK;
}
