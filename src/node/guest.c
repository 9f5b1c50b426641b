#include "node/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "node/sys.h"

#define GUEST_MAGIC "SLGUEST1"

utime_t guest_now(void)
{
    struct timespec ts;

    CHECK(clock_gettime(CLOCK_BOOTTIME, &ts) == 0);
    return (utime_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

bool guest_path(const struct node_paths *p, struct id lease, const char *name,
                char ret_path[GUEST_PATH_SIZE])
{
    return str_printf(ret_path, GUEST_PATH_SIZE, "%s/%s%s%s", p->leases, lease.s, *name ? "/" : "",
                      name);
}

bool guest_run_path(const struct node_paths *p, struct id lease, const char *name,
                    char ret_path[GUEST_PATH_SIZE])
{
    return str_printf(ret_path, GUEST_PATH_SIZE, "%s/leases/%s%s%s", p->run, lease.s,
                      *name ? "/" : "", name);
}

/* FNV-1a, 64 bit: finds a torn or foreign file, not a forger (the folder is root's). */
static uint64_t record_sum(const struct guest_record *rec)
{
    const unsigned char *b = (const unsigned char *)rec;
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < offsetof(struct guest_record, sum); i++)
        h = (h ^ b[i]) * 1099511628211u;
    return h;
}

enum err guest_load(const struct node_paths *p, struct id lease, struct guest_record *ret_rec,
                    struct refusal *why)
{
    char path[GUEST_PATH_SIZE], folder[GUEST_PATH_SIZE];
    struct guest_record rec;
    struct stat st;

    CHECK(guest_path(p, lease, "record", path) && guest_path(p, lease, "", folder));
    if (stat(folder, &st) < 0)
        return refusef(why, ERR_NOT_FOUND, "name", "%s", lease.s);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return refusef(why, ERR_CORRUPT, "what", "%s", lease.s);
    ssize_t n = read(fd, &rec, sizeof(rec));
    if (n != (ssize_t)sizeof(rec) || memcmp(rec.magic, GUEST_MAGIC, sizeof(rec.magic)) != 0 ||
        rec.size != sizeof(rec) || rec.sum != record_sum(&rec) || strcmp(rec.lease.s, lease.s) != 0)
        return refusef(why, ERR_CORRUPT, "what", "%s", lease.s);
    *ret_rec = rec;
    return ERR_OK;
}

enum err guest_save(const struct node_paths *p, struct guest_record *rec, bool durable,
                    struct refusal *why)
{
    char path[GUEST_PATH_SIZE], fresh[GUEST_PATH_SIZE];

    memcpy(rec->magic, GUEST_MAGIC, sizeof(rec->magic));
    rec->size = sizeof(*rec);
    rec->sum = record_sum(rec);
    CHECK(guest_path(p, rec->lease, "record", path) &&
          guest_path(p, rec->lease, "record.new", fresh));
    if (durable)
        return sys_write_durable(path, rec, sizeof(*rec), 0600, why);
    AUTO_CLOSE int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || write(fd, rec, sizeof(*rec)) != (ssize_t)sizeof(*rec) || rename(fresh, path) < 0)
        return sys_fail(why, "write of the guest's record");
    return ERR_OK;
}

void guest_progress_load(const struct node_paths *p, struct id lease,
                         struct guest_progress *ret_progress)
{
    char path[GUEST_PATH_SIZE];
    struct guest_progress g;

    memset(ret_progress, 0, sizeof(*ret_progress));
    CHECK(guest_run_path(p, lease, "progress", path));
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && pread(fd, &g, sizeof(g), 0) == (ssize_t)sizeof(g))
        *ret_progress = g;
}

enum err guest_lock(const struct node_paths *p, struct id lease, int *ret_fd)
{
    char path[GUEST_PATH_SIZE];

    CHECK(guest_path(p, lease, "", path));
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return ERR_NOT_FOUND;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return ERR_BUSY;
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

uint64_t process_start_ticks(int pid)
{
    char path[64], text[1024];
    char *p;

    if (!str_printf(path, sizeof(path), "/proc/%d/stat", pid) ||
        sys_read_small(path, text, sizeof(text)) <= 0)
        return 0;
    /* The name may hold anything, so count from its last bracket; the start is field 22. */
    p = strrchr(text, ')');
    for (int i = 2; p && i < 22; i++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}
