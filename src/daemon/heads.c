#include "daemon/heads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "store/rows_proof.h"

#define DAYS_AT_ONCE 1000
#define LINE_MAX_BYTES 128
#define MS_PER_DAY (INT64_C(86400) * MS_PER_S)

static enum err fail(struct refusal *why, const char *call)
{
    const char *text = strerror(errno);

    (void)refusef(why, ERR_SYSTEM, "call", "%s ledger-heads", call);
    refusal_set(why, "why", text);
    return ERR_SYSTEM;
}

/* The last whole line's day, or -1; ret_torn: what follows it has no end. */
static bool last_day(int fd, int64_t *ret_day, bool *ret_torn)
{
    char buf[2 * LINE_MAX_BYTES + 1];
    struct stat st;
    utime_t at;

    *ret_day = -1;
    *ret_torn = false;
    if (fstat(fd, &st) != 0)
        return false;
    off_t from = MAX(st.st_size - (off_t)sizeof(buf) + 1, (off_t)0);
    ssize_t n = pread(fd, buf, sizeof(buf) - 1, from);
    if (n < 0)
        return false;
    buf[n] = '\0';
    *ret_torn = n > 0 && buf[n - 1] != '\n';
    char *end = strrchr(buf, '\n');
    if (!end)
        return true;
    *end = '\0';
    char *line = strrchr(buf, '\n'), stamp[40];
    if (str_printf(stamp, sizeof(stamp), "%.10sT00:00:00Z", line ? line + 1 : buf) &&
        time_parse(stamp, &at) == ERR_OK)
        *ret_day = at / MS_PER_DAY;
    return true;
}

static bool add_line(int fd, const struct ledger_day_row *d)
{
    char line[LINE_MAX_BYTES], day[40], hash[2 * LEDGER_HASH_SIZE + 1];

    time_format(d->day * MS_PER_DAY, day, sizeof(day));
    hex_write(d->hash, sizeof(d->hash), hash);
    return str_printf(line, sizeof(line), "%.10s %" PRId64 " %s\n", day, d->seq, hash) &&
           write(fd, line, strlen(line)) == (ssize_t)strlen(line);
}

enum err heads_append(struct store *s, const char *store_path, int64_t today, struct refusal *why)
{
    const char *slash = strrchr(store_path, '/');
    struct ledger_day_list list = {0};
    char path[512];
    int64_t last = -1;
    bool torn = false, ok;

    if (!str_printf(path, sizeof(path), "%.*sledger-heads",
                    slash ? (int)(slash - store_path + 1) : 0, store_path))
        return refusef(why, ERR_USAGE, "what", "store path");
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return fail(why, "open");
    ok = last_day(fd, &last, &torn) && (!torn || write(fd, "\n", 1) == 1);
    enum err e = ok ? proof_days(s, last + 1, DAYS_AT_ONCE, &list) : fail(why, "read");
    for (size_t i = 0; e == ERR_OK && i < list.len && list.at[i].day < today; i++)
        if (!add_line(fd, &list.at[i]))
            e = fail(why, "write");
    if (e == ERR_OK && fsync(fd) != 0)
        e = fail(why, "sync");
    vec_fini(&list);
    (void)close(fd);
    return e == ERR_STORE ? store_refuse(s, why) : e;
}
