#include "node/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "node/ext4.h"
#include "node/loop.h"
#include "node/mounts.h"
#include "node/paths.h"
#include "node/sys.h"

#define TEMPLATES_MAX 8
#define POOL_MARGIN_MIB_MAX 1024

static enum err setup_fail(struct refusal *why, struct id disk)
{
    char cause[REFUSAL_VALUE_MAX] = "unknown";

    if (why && why->code != ERR_OK)
        refusal_text(why, LANG_EN, cause, sizeof(cause));
    return sys_refuse(why, ERR_DISK_SETUP, "name", disk.s, "why", cause, NULL);
}

static enum err state_refuse(struct refusal *why, struct id disk, const char *state,
                             const char *action)
{
    return sys_refuse(why, ERR_STATE, "name", disk.s, "state", state, "action", action, NULL);
}

static enum err in_use_refuse(struct refusal *why, struct id disk, const char *by)
{
    return sys_refuse(why, ERR_DISK_IN_USE, "name", disk.s, "instance", by, NULL);
}

enum err disk_path(const struct node_paths *p, struct id disk, const char *suffix,
                   char ret_path[PATH_MAX], struct refusal *why)
{
    if (!paths_id_ok(disk))
        return refusef(why, ERR_VALIDATION, "field", "disk");
    CHECK(str_printf(ret_path, PATH_MAX, "%s/%s.%s", p->disks, disk.s, suffix));
    return ERR_OK;
}

enum err disk_record_load(const struct node_paths *p, struct id disk, struct disk_record *ret_r,
                          struct refusal *why)
{
    char path[PATH_MAX], text[128], state[16];

    *ret_r = (struct disk_record){.state = DISK_NONE};
    TRY(disk_path(p, disk, "rec", path, why));
    if (sys_read_small(path, text, sizeof(text)) < 0)
        return errno == ENOENT ? ERR_OK : sys_fail(why, path);
    if (sscanf(text, "%15s %" SCNd64 " %" SCNd64, state, &ret_r->bytes, &ret_r->ms) != 3)
        return refusef(why, ERR_CORRUPT, "what", "%s", path);
    ret_r->state = str_eq(state, "erased") ? DISK_ERASED : DISK_ERASING;
    return ERR_OK;
}

enum err disk_record_save(const struct node_paths *p, struct id disk, const struct disk_record *r,
                          struct refusal *why)
{
    char path[PATH_MAX], text[128];

    TRY(disk_path(p, disk, "rec", path, why));
    str_printf(text, sizeof(text), "%s %" PRId64 " %" PRId64 "\n",
               r->state == DISK_ERASED ? "erased" : "erasing", r->bytes, r->ms);
    return sys_write_durable(path, text, strlen(text), 0600, why);
}

enum err disk_lock(const struct node_paths *p, struct id disk, int *ret_fd, struct stat *ret_st,
                   struct refusal *why)
{
    char path[PATH_MAX];

    TRY(disk_path(p, disk, "img", path, why));
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return sys_refuse(why, ERR_NOT_FOUND, "what", "disk", "name", disk.s, NULL);
    if (fd < 0 || fstat(fd, ret_st) != 0)
        return sys_fail(why, path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return in_use_refuse(why, disk, "other work on it");
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

/* What all images here may still grow into. */
static int64_t promised_bytes(const struct node_paths *p)
{
    DIR *dir = opendir(p->disks);
    int64_t sum = 0;
    struct dirent *e;
    struct stat st;

    if (!dir)
        return 0;
    while ((e = readdir(dir))) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot && str_eq(dot, ".img") && strncmp(e->d_name, "template-", 9) != 0 &&
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            sum += MAX(st.st_size - st.st_blocks * 512, (int64_t)0);
    }
    closedir(dir);
    return sum;
}

enum err disk_pool(const struct node_paths *p, int64_t *ret_mib, int64_t *ret_free_mib,
                   struct refusal *why)
{
    struct statvfs vfs;

    if (statvfs(p->disks, &vfs) != 0)
        return sys_fail(why, "statvfs of the pool");
    int64_t total = (int64_t)(vfs.f_blocks * vfs.f_frsize / (uint64_t)MIB);
    int64_t avail = (int64_t)(vfs.f_bavail * vfs.f_frsize / (uint64_t)MIB);
    int64_t margin = MIN(total / 50, (int64_t)POOL_MARGIN_MIB_MAX);
    *ret_mib = total;
    *ret_free_mib = MAX(avail - margin - promised_bytes(p) / MIB, (int64_t)0);
    return ERR_OK;
}

/* Held from looking at what is left until it is taken; other processes create disks too. */
static enum err pool_lock(const struct node_paths *p, int *ret_fd, struct refusal *why)
{
    AUTO_CLOSE int fd = open(p->disks, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return sys_fail(why, "lock of the pool");
    while (flock(fd, LOCK_EX) != 0)
        if (errno != EINTR)
            return sys_fail(why, "lock of the pool");
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

static enum err pool_take(const struct node_paths *p, int64_t mib, struct refusal *why)
{
    int64_t total, left;

    TRY(disk_pool(p, &total, &left, why));
    if (mib <= left)
        return ERR_OK;
    char need[32];
    str_printf(need, sizeof(need), "%" PRId64 " MiB", mib);
    return sys_refuse(why, ERR_NO_SPACE, "where", "the disk pool", "need", need, NULL);
}

/* An overwrite must hit the blocks that held the data: copy-on-write pools are not ours. */
static enum err pool_check(const struct node_paths *p, struct refusal *why)
{
    static const uint32_t cow[] = {0x9123683E /* btrfs */, 0x2fc12fc1 /* zfs */, 0xca451a4e};
    struct statfs fs;

    if (statfs(p->disks, &fs) != 0)
        return sys_fail(why, "statfs of the pool");
    for (size_t i = 0; i < ARRAY_LEN(cow); i++)
        if ((uint32_t)fs.f_type == cow[i])
            return sys_refuse(why, ERR_UNSUPPORTED, "what", "this disk pool", "why",
                              "a copy-on-write file system cannot be overwritten in place", NULL);
    return ERR_OK;
}

/* The oldest templates go when there are too many sizes about. */
static void templates_trim(const struct node_paths *p)
{
    for (;;) {
        DIR *dir = opendir(p->disks);
        char oldest[256] = "";
        time_t when = 0;
        int count = 0;
        struct dirent *e;
        struct stat st;
        if (!dir)
            return;
        while ((e = readdir(dir))) {
            if (strncmp(e->d_name, "template-", 9) != 0 ||
                fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
                continue;
            count++;
            if (!oldest[0] || st.st_mtime < when) {
                str_printf(oldest, sizeof(oldest), "%s", e->d_name);
                when = st.st_mtime;
            }
        }
        bool gone = count <= TEMPLATES_MAX || unlinkat(dirfd(dir), oldest, 0) != 0;
        closedir(dir);
        if (gone)
            return;
    }
}

/* An empty file system of this size, made once; holes everywhere but in its few metadata. */
static enum err template_open(const struct node_paths *p, int64_t size_mib, int *ret_fd,
                              struct refusal *why)
{
    char path[PATH_MAX], temp[PATH_MAX];

    CHECK(str_printf(path, sizeof(path), "%s/template-%" PRId64, p->disks, size_mib));
    CHECK(str_printf(temp, sizeof(temp), "%s.new", path));
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        TRY(ext4_make(temp, size_mib, why));
        if (rename(temp, path) != 0)
            return sys_fail(why, "rename of a template");
        templates_trim(p);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    if (fd < 0)
        return sys_fail(why, path);
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

static bool copy_sparse(int from, int to)
{
    struct stat st;
    off_t at = 0;

    if (fstat(from, &st) != 0 || ftruncate(to, st.st_size) != 0)
        return false;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(from, at, SEEK_HOLE), out = at;
        if (end < 0)
            return false;
        while (at < end) {
            ssize_t n = copy_file_range(from, &at, to, &out, (size_t)(end - at), 0);
            if (n <= 0)
                return false;
        }
    }
    return errno == ENXIO;
}

static enum err disk_create(const struct node_paths *p, struct id disk, int64_t size_mib,
                            struct refusal *why)
{
    char path[PATH_MAX], temp[PATH_MAX];
    AUTO_CLOSE int from = -1;
    AUTO_CLOSE int pool = -1;

    TRY(disk_path(p, disk, "img", path, why));
    TRY(disk_path(p, disk, "new", temp, why));
    TRY(pool_check(p, why));
    TRY(pool_lock(p, &pool, why));
    if (access(path, F_OK) == 0)
        return ERR_OK;
    TRY(pool_take(p, size_mib, why));
    TRY(template_open(p, size_mib, &from, why));
    AUTO_CLOSE int to = open(temp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0 || !copy_sparse(from, to) || fdatasync(to) != 0 || rename(temp, path) != 0) {
        enum err e = sys_fail(why, "copy of the template");
        unlink(temp);
        return e;
    }
    return sys_dir_sync(p->disks, why);
}

/* The image is bigger than its file system after a grow, or after a crash inside one. */
static enum err disk_grow(const struct node_paths *p, struct id disk, int fd, int64_t size_mib,
                          struct refusal *why)
{
    char path[PATH_MAX], dev[LOOP_NAME_SIZE];
    AUTO_CLOSE int loop = -1;
    struct stat st;
    int64_t want = size_mib * MIB, have;

    TRY(disk_path(p, disk, "img", path, why));
    if (fstat(fd, &st) != 0)
        return sys_fail(why, path);
    TRY(ext4_size(fd, &have, why));
    if (st.st_size >= want && have >= st.st_size / MIB * MIB)
        return ERR_OK;
    bool live = loop_find(&st, dev, &loop);
    if (live && !disk_online_grow())
        return sys_refuse(why, ERR_UNSUPPORTED, "what", "growing a disk in use", "why",
                          "this kernel grows only detached disks: stop the instance first", NULL);
    if (st.st_size < want) {
        AUTO_CLOSE int pool = -1;
        TRY(pool_lock(p, &pool, why));
        TRY(pool_take(p, (want - st.st_size + MIB - 1) / MIB, why));
        if (ftruncate(fd, want) != 0 || fsync(fd) != 0)
            return sys_fail(why, "growing the image");
    }
    if (!live)
        return ext4_grow_offline(path, why);
    TRY(loop_resize(loop, why));
    return ext4_grow_online(dev, MAX(want, (int64_t)st.st_size), why);
}

enum err disk_ensure(const struct node_paths *p, struct id disk, int64_t size_mib,
                     struct refusal *why)
{
    struct disk_record rec;
    struct stat st;
    AUTO_CLOSE int fd = -1;

    sys_clear(why);
    if (size_mib < DISK_MIB_MIN || size_mib > DISK_MIB_MAX)
        return refusef(why, ERR_VALIDATION, "field", "size_mib");
    TRY(disk_record_load(p, disk, &rec, why));
    if (rec.state != DISK_NONE)
        return state_refuse(why, disk, "erasing", "use");
    enum err e = disk_lock(p, disk, &fd, &st, why);
    if (e == ERR_NOT_FOUND)
        e = disk_create(p, disk, size_mib, why);
    else if (e == ERR_OK)
        e = disk_grow(p, disk, fd, size_mib, why);
    if (e == ERR_SYSTEM)
        return setup_fail(why, disk);
    if (e == ERR_OK)
        sys_clear(why);
    return e;
}

/* Where in this mount namespace the device is mounted. */
static bool mount_find(const char *dev, char *buf, size_t size)
{
    char want[32], have[32], line[PATH_MAX + 512], path[PATH_MAX];
    struct stat st;
    FILE *f = fopen("/proc/self/mountinfo", "re");
    bool found = false;

    if (!f)
        return false;
    if (stat(dev, &st) == 0) {
        str_printf(want, sizeof(want), "%u:%u", major(st.st_rdev), minor(st.st_rdev));
        while (!found && fgets(line, sizeof(line), f))
            found = sscanf(line, "%*d %*d %31s %*s %4095s", have, path) == 2 &&
                    str_eq(have, want) && str_copy(buf, size, path);
    }
    fclose(f);
    return found;
}

void disk_stat(const struct node_paths *p, struct id disk, struct priv_rep *rep)
{
    struct disk_record rec;
    char path[PATH_MAX], dev[LOOP_NAME_SIZE], at[PATH_MAX];
    struct stat st;
    struct statvfs vfs;

    memset(&rep->disk, 0, sizeof(rep->disk));
    rep->disk.state = DISK_NONE;
    if (disk_record_load(p, disk, &rec, NULL) != ERR_OK ||
        disk_path(p, disk, "img", path, NULL) != ERR_OK)
        return;
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    rep->disk.erased_bytes = rec.bytes;
    rep->disk.erase_ms = rec.ms;
    if (fd < 0 || fstat(fd, &st) != 0) {
        rep->disk.state = rec.state;
        return;
    }
    rep->disk.size_mib = st.st_size / MIB;
    bool live = loop_find(&st, dev, NULL);
    rep->disk.state = rec.state != DISK_NONE ? rec.state : live ? DISK_ATTACHED : DISK_READY;
    if (live && mount_find(dev, at, sizeof(at)) && statvfs(at, &vfs) == 0) {
        /* Its own metadata included, as in the superblock: full means used == size. */
        rep->disk.used_mib =
            rep->disk.size_mib - (int64_t)(vfs.f_bfree * vfs.f_frsize / (uint64_t)MIB);
        rep->disk.inodes = (int64_t)vfs.f_files;
        rep->disk.inodes_used = (int64_t)(vfs.f_files - vfs.f_ffree);
    } else if (rec.state == DISK_NONE && ext4_usage(fd, &rep->disk.used_mib, &rep->disk.inodes,
                                                    &rep->disk.inodes_used, NULL) != ERR_OK)
        rep->disk.state = DISK_BROKEN;
}

static enum err attach_locked(const struct node_paths *p, struct id disk, const struct stat *st,
                              int userns_fd, const char *target, struct refusal *why)
{
    static const struct mount_opt opts[] = {{"noinit_itable", NULL}, {"errors", "remount-ro"}};
    char dev[LOOP_NAME_SIZE], at[PATH_MAX], path[PATH_MAX];
    AUTO_CLOSE int loop = -1;
    AUTO_CLOSE int mount = -1;
    struct disk_record rec;

    TRY(disk_record_load(p, disk, &rec, why));
    if (rec.state != DISK_NONE)
        return state_refuse(why, disk, "erasing", "attach");
    if (loop_find(st, dev, NULL)) {
        if (mount_find(dev, at, sizeof(at)) && str_eq(at, target))
            return ERR_OK;
        return in_use_refuse(why, disk, "another lease");
    }
    if (sys_is_mount(target))
        return in_use_refuse(why, disk, target);
    /* Opened anew: the device keeps the open file, and with it any lock on it. */
    TRY(disk_path(p, disk, "img", path, why));
    AUTO_CLOSE int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return sys_fail(why, path);
    TRY(loop_attach(file, false, dev, &loop, why));
    TRY(mounts_make("ext4", dev, opts, ARRAY_LEN(opts), MOUNT_ATTR_NODEV, &mount, why));
    TRY(mounts_idmap(mount, userns_fd, MOUNT_ATTR_NODEV, why));
    return mounts_attach(mount, target, why);
}

enum err disk_attach(const struct node_paths *p, struct id disk, struct id lease UNUSED,
                     int userns_fd, const char *target, struct refusal *why)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;

    sys_clear(why);
    TRY(disk_lock(p, disk, &fd, &st, why));
    enum err e = attach_locked(p, disk, &st, userns_fd, target, why);
    return e == ERR_SYSTEM ? setup_fail(why, disk) : e;
}

enum err disk_detach(const struct node_paths *p, struct id disk, const char *target,
                     struct refusal *why)
{
    char path[PATH_MAX];
    struct stat st;

    sys_clear(why);
    TRY(disk_path(p, disk, "img", path, why));
    if (sys_is_mount(target) && umount2(target, UMOUNT_NOFOLLOW) != 0)
        return errno == EBUSY ? in_use_refuse(why, disk, target) : sys_fail(why, "umount");
    if (stat(path, &st) != 0)
        return errno == ENOENT ? ERR_OK : sys_fail(why, path);
    /* The device goes a moment after its last mount, which may be in a dying guest. */
    if (!loop_wait_gone(&st, 2000))
        return in_use_refuse(why, disk, "a guest that has not ended");
    return ERR_OK;
}

enum err disk_forget(const struct node_paths *p, struct id disk, struct refusal *why)
{
    struct disk_record rec;
    char path[PATH_MAX];

    sys_clear(why);
    TRY(disk_record_load(p, disk, &rec, why));
    TRY(disk_path(p, disk, "img", path, why));
    if (rec.state == DISK_NONE && access(path, F_OK) != 0)
        return ERR_OK;
    if (rec.state != DISK_ERASED)
        return state_refuse(why, disk, rec.state == DISK_ERASING ? "erasing" : "ready", "forget");
    TRY(disk_path(p, disk, "rec", path, why));
    if (unlink(path) != 0 && errno != ENOENT)
        return sys_fail(why, path);
    return sys_dir_sync(p->disks, why);
}

bool disk_online_grow(void)
{
    static int known = -1;

    if (known < 0)
        known = ext4_online_grow_probe();
    return known;
}
