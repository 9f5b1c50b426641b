/* Erase, basic: every byte the image has on the layer below is overwritten, synced, given back.
 *
 *   record "erasing" (synced) → overwrite extent by extent, record every 256 MiB → sync
 *   → record the sum → give the blocks back → unlink → sync the folder → record "erased"
 *
 * Freeing blocks alone leaves all data on the disk below; only the overwrite counts. It reaches all
 * of it because an attached image never loses blocks (loop.h). A crash at any point leaves the
 * record "erasing", which bars the disk from ever being attached, and the next call starts over
 * from the first extent: bytes and time in the record are of all tries. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/disk.h"
#include "node/loop.h"
#include "node/sys.h"

#define CHUNK ((size_t)1 << 20)
#define RECORD_EVERY (256 * MIB)
#define EXTENTS 128

struct eraser {
    const struct node_paths *p; /* borrowed */
    struct id disk;
    int fd;
    struct disk_record rec;
    utime_t since;
    int64_t unrecorded;
    char *zeros; /* owned */
};

static enum err progress_save(struct eraser *x, struct refusal *why)
{
    struct clock *clock = clock_system();
    utime_t now = clock->boot_ms(clock);

    x->rec.ms += now - x->since;
    x->since = now;
    x->unrecorded = 0;
    return disk_record_save(x->p, x->disk, &x->rec, why);
}

static enum err overwrite(struct eraser *x, int64_t from, int64_t to, struct refusal *why)
{
    while (from < to) {
        ssize_t n = pwrite(x->fd, x->zeros, MIN((size_t)(to - from), CHUNK), from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return sys_fail(why, "overwrite");
        from += n;
        x->rec.bytes += n;
        x->unrecorded += n;
        if (x->unrecorded >= RECORD_EVERY) {
            if (fdatasync(x->fd) != 0)
                return sys_fail(why, "overwrite");
            TRY(progress_save(x, why));
        }
    }
    return ERR_OK;
}

/* All extents, also those marked unwritten: they too may hold something below. The whole last block
 * is written, past the end of the file: it belongs to it. */
static enum err overwrite_extents(struct eraser *x, struct refusal *why)
{
    AUTO_FREE struct fiemap *map = mem_alloc(sizeof(*map) + EXTENTS * sizeof(struct fiemap_extent));
    uint64_t at = 0;

    for (;;) {
        *map = (struct fiemap){.fm_start = at,
                               .fm_length = FIEMAP_MAX_OFFSET - at,
                               .fm_flags = FIEMAP_FLAG_SYNC,
                               .fm_extent_count = EXTENTS};
        if (ioctl(x->fd, FS_IOC_FIEMAP, map) != 0)
            return sys_fail(why, "FIEMAP");
        if (map->fm_mapped_extents == 0)
            return ERR_OK;
        for (uint32_t i = 0; i < map->fm_mapped_extents; i++) {
            const struct fiemap_extent *e = &map->fm_extents[i];
            at = e->fe_logical + e->fe_length;
            TRY(overwrite(x, (int64_t)e->fe_logical, (int64_t)at, why));
            if (e->fe_flags & FIEMAP_EXTENT_LAST)
                return ERR_OK;
        }
    }
}

/* For file systems without FIEMAP (tmpfs): where there is data. */
static enum err overwrite_data(struct eraser *x, struct refusal *why)
{
    off_t at = 0;

    while ((at = lseek(x->fd, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(x->fd, at, SEEK_HOLE);
        if (end < 0)
            return sys_fail(why, "SEEK_HOLE");
        TRY(overwrite(x, at, end, why));
        at = end;
    }
    return errno == ENXIO ? ERR_OK : sys_fail(why, "SEEK_DATA");
}

static enum err wipe(struct eraser *x, struct refusal *why)
{
    struct clock *clock = clock_system();
    struct stat st;

    x->since = clock->boot_ms(clock);
    enum err e = overwrite_extents(x, why);
    if (e == ERR_SYSTEM && (errno == EOPNOTSUPP || errno == ENOTTY))
        e = overwrite_data(x, why);
    TRY(e);
    if (fsync(x->fd) != 0)
        return sys_fail(why, "overwrite");
    TRY(progress_save(x, why));
    /* Only now is anything freed. Where holes cannot be punched the unlink frees it all the same.
     */
    if (fstat(x->fd, &st) == 0)
        (void)!fallocate(x->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, st.st_size);
    return ERR_OK;
}

static enum err erase_open(const struct node_paths *p, struct id disk, int *ret_fd,
                           struct refusal *why)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;

    TRY(disk_lock(p, disk, &fd, &st, why));
    if (!loop_wait_gone(&st, 500))
        return sys_refuse(why, ERR_DISK_IN_USE, "name", disk.s, "instance", "a guest", NULL);
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

enum err disk_erase(const struct node_paths *p, struct id disk, struct refusal *why)
{
    struct eraser x = {.p = p, .disk = disk};
    char path[PATH_MAX];
    AUTO_CLOSE int fd = -1;

    sys_clear(why);
    TRY(disk_record_load(p, disk, &x.rec, why));
    if (x.rec.state == DISK_ERASED)
        return ERR_OK;
    enum err e = erase_open(p, disk, &fd, why);
    if (e == ERR_NOT_FOUND && x.rec.state == DISK_NONE)
        return e;
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (e == ERR_OK) {
        x.rec.state = DISK_ERASING;
        TRY(disk_record_save(p, disk, &x.rec, why));
        x.fd = fd;
        AUTO_FREE char *zeros = mem_alloc(CHUNK);
        x.zeros = zeros;
        TRY(wipe(&x, why));
        TRY(disk_path(p, disk, "img", path, why));
        if (unlink(path) != 0)
            return sys_fail(why, path);
        TRY(sys_dir_sync(p->disks, why));
    }
    x.rec.state = DISK_ERASED;
    sys_clear(why);
    return disk_record_save(p, disk, &x.rec, why);
}
