#include "node/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "node/disk.h"
#include "node/imageneed.h"
#include "node/loop.h"
#include "node/mounts.h"
#include "node/paths.h"
#include "node/sys.h"
#include "node/userns.h"

struct image_limits image_limits = {
    .tar = {.bytes_max = (int64_t)128 << 30,
            .entries_max = 4000000,
            .depth_max = 128,
            .path_max = 4000},
    .blob_bytes_max = (int64_t)64 << 30,
    .time_ms_max = 3600 * 1000,
    .blobs_max = 512,
};

#define CHUNK ((size_t)1 << 20)

static enum err image_path(const struct node_paths *p, const char *digest, const char *suffix,
                           char ret_path[PATH_MAX], struct refusal *why)
{
    if (!paths_digest_ok(digest))
        return refusef(why, ERR_VALIDATION, "field", "digest");
    CHECK(str_printf(ret_path, PATH_MAX, "%s/%s.%s", p->images, digest + 7, suffix));
    return ERR_OK;
}

static enum err shared_path(const struct node_paths *p, const char *digest, char ret_path[PATH_MAX],
                            struct refusal *why)
{
    char folder[PATH_MAX];

    if (!paths_digest_ok(digest))
        return refusef(why, ERR_VALIDATION, "field", "digest");
    CHECK(str_printf(folder, sizeof(folder), "%s/images", p->run));
    TRY(sys_dir_ensure(folder, 0700, 0, 0, why));
    CHECK(str_printf(ret_path, PATH_MAX, "%s/images/%s", p->run, digest + 7));
    return ERR_OK;
}

static enum err import_path(const struct node_paths *p, const char *digest, char ret_path[PATH_MAX],
                            struct refusal *why)
{
    if (!paths_digest_ok(digest))
        return refusef(why, ERR_VALIDATION, "field", "digest");
    CHECK(str_printf(ret_path, PATH_MAX, "%s/.import-%s", p->images, digest + 7));
    return ERR_OK;
}

static bool image_ready(const struct node_paths *p, const char *digest, struct stat *ret_st)
{
    char path[PATH_MAX];

    return image_path(p, digest, "erofs", path, NULL) == ERR_OK && lstat(path, ret_st) == 0 &&
           S_ISREG(ret_st->st_mode);
}

/* Copies one blob and holds its content against its name. */
static enum err blob_copy(int from, int to_dir, const char *name, int64_t *budget,
                          struct refusal *why)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    char got[crypto_hash_sha256_BYTES * 2 + 1];
    crypto_hash_sha256_state state;
    AUTO_FREE unsigned char *buf = mem_alloc(CHUNK);
    AUTO_CLOSE int to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (to < 0)
        return sys_fail(why, "blob");
    crypto_hash_sha256_init(&state);
    for (;;) {
        ssize_t n = read(from, buf, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sys_fail(why, "read of a blob");
        if (n == 0)
            break;
        *budget -= n;
        if (*budget < 0)
            return sys_refuse(why, ERR_NO_SPACE, "where", "the image store", "need",
                              "more than is left", NULL);
        crypto_hash_sha256_update(&state, buf, (size_t)n);
        if (write(to, buf, (size_t)n) != n)
            return errno == ENOSPC ? sys_refuse(why, ERR_NO_SPACE, "where", "the image store",
                                                "need", "more than is left", NULL)
                                   : sys_fail(why, "write of a blob");
    }
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(got, sizeof(got), hash, sizeof(hash));
    if (!str_eq(got, name))
        return sys_refuse(why, ERR_IMAGE_DIGEST, "got", got, "want", name, NULL);
    return ERR_OK;
}

static int open_beneath(int dir, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};

    return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* The agent's folder may change under us; what counts is the copy, whose content is checked. */
static enum err blobs_copy(int from_dir, int to_dir, int64_t budget, struct refusal *why)
{
    int count = 0;
    struct stat st;
    struct dirent *e;
    enum err err = ERR_OK;
    DIR *dir = fdopendir(from_dir);

    if (!dir) {
        close(from_dir);
        return sys_fail(why, "blobs");
    }
    while (err == ERR_OK && (e = readdir(dir))) {
        if (strlen(e->d_name) != 64 || strspn(e->d_name, "0123456789abcdef") != 64)
            continue;
        AUTO_CLOSE int from = open_beneath(dirfd(dir), e->d_name, O_RDONLY);
        if (from < 0 || fstat(from, &st) != 0 || !S_ISREG(st.st_mode))
            err = refusef(why, ERR_IMAGE_HOSTILE, "why", "a blob is no plain file");
        else if (++count > image_limits.blobs_max)
            err = refusef(why, ERR_IMAGE_HOSTILE, "why", "too many blobs");
        else
            err = blob_copy(from, to_dir, e->d_name, &budget, why);
    }
    closedir(dir);
    return err;
}

static enum err layout_copy(const struct node_paths *p, const char *digest, const char *name,
                            int folder, int64_t space, struct refusal *why)
{
    char path[96];
    AUTO_CLOSE int staging = open(p->staging, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int64_t budget = MIN(space, image_limits.blob_bytes_max);

    str_printf(path, sizeof(path), "%s/blobs/sha256", name);
    AUTO_CLOSE int from = staging < 0 ? -1 : open_beneath(staging, path, O_RDONLY | O_DIRECTORY);
    if (from < 0)
        return refusef(why, ERR_IMAGE_NOT_FOUND, "name", "%s", name);
    if (mkdirat(folder, "layout", 0755) != 0 || mkdirat(folder, "layout/blobs", 0755) != 0 ||
        mkdirat(folder, "layout/blobs/sha256", 0755) != 0)
        return sys_fail(why, "import folder");
    AUTO_CLOSE int to =
        openat(folder, "layout/blobs/sha256", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return sys_fail(why, "import folder");
    TRY(blobs_copy(TAKE_FD(from), to, budget, why));
    if (faccessat(to, digest + 7, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return sys_refuse(why, ERR_IMAGE_DIGEST, "got", "other content", "want", digest, NULL);
    return ERR_OK;
}

/* A file the confined process made: plain, one name, nobody else holds it any more. */
static enum err result_open(int folder, const char *name, int64_t size_max, int *ret_fd,
                            int64_t *ret_size, struct refusal *why)
{
    struct stat st;
    AUTO_CLOSE int fd = open_beneath(folder, name, O_RDWR);

    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
        st.st_size > size_max)
        return refusef(why, ERR_INTERNAL, "why", "the unpacker left no %s", name);
    *ret_size = st.st_size;
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

/* The image becomes selectable by the last rename, whole and synced. */
static enum err result_keep(const struct node_paths *p, const char *digest, int folder,
                            struct refusal *why)
{
    char json[PATH_MAX], image[PATH_MAX], text[IMAGE_CONFIG_MAX];
    AUTO_CLOSE int config = -1;
    AUTO_CLOSE int erofs = -1;
    int64_t config_size = 0, erofs_size = 0;

    TRY(image_path(p, digest, "json", json, why));
    TRY(image_path(p, digest, "erofs", image, why));
    TRY(result_open(folder, "work/config.json", IMAGE_CONFIG_MAX - 1, &config, &config_size, why));
    TRY(result_open(folder, "work/image.erofs", INT64_MAX, &erofs, &erofs_size, why));
    if (read(config, text, (size_t)config_size) != config_size)
        return sys_fail(why, "image config");
    TRY(sys_write_durable(json, text, (size_t)config_size, 0600, why));
    if (fchown(erofs, 0, 0) != 0 || fchmod(erofs, 0400) != 0 || fsync(erofs) != 0 ||
        renameat(folder, "work/image.erofs", AT_FDCWD, image) != 0)
        return sys_fail(why, "image");
    return sys_dir_sync(p->images, why);
}

static enum err import_in(const struct node_paths *p, const char *digest, const char *name,
                          const char *path, int folder, struct refusal *why)
{
    int64_t total, left;

    TRY(disk_pool(p, &total, &left, why));
    TRY(layout_copy(p, digest, name, folder, left * MIB, why));
    if (mkdirat(folder, "work", 0700) != 0 || mkdirat(folder, "root", 0700) != 0 ||
        fchownat(folder, "work", USERNS_IMPORT_BASE, USERNS_IMPORT_BASE, AT_SYMLINK_NOFOLLOW) != 0)
        return sys_fail(why, "import folder");
    TRY(disk_pool(p, &total, &left, why));
    TRY(unpack_run(path, digest, left * MIB, why));
    return result_keep(p, digest, folder, why);
}

/* What a crash left goes first; its processes may still be dying. */
static enum err leftovers_remove(int folder, struct refusal *why)
{
    struct timespec pause = {.tv_nsec = 20000000};

    for (int tries = 0; tries < 150; tries++) {
        if (sys_remove_tree(folder, "work") && sys_remove_tree(folder, "layout") &&
            sys_remove_tree(folder, "root"))
            return ERR_OK;
        nanosleep(&pause, NULL);
    }
    return sys_fail(why, "removing an old import");
}

enum err image_import(const struct node_paths *p, const char *digest, const char *staging_name,
                      struct refusal *why)
{
    char path[PATH_MAX];
    struct stat st;

    sys_clear(why);
    TRY(import_path(p, digest, path, why));
    if (!paths_name_ok(staging_name))
        return refusef(why, ERR_VALIDATION, "field", "name");
    /* Whole, but the last import may have died before it cleared its folder. */
    bool ready = image_ready(p, digest, &st);
    if (ready && access(path, F_OK) != 0)
        return ERR_OK;
    if (sodium_init() < 0 || (mkdir(path, 0700) != 0 && errno != EEXIST))
        return sys_fail(why, "import folder");
    AUTO_CLOSE int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return sys_fail(why, "import folder");
    if (flock(folder, LOCK_EX | LOCK_NB) != 0)
        return ready ? ERR_OK : refuse(why, ERR_BUSY);
    TRY(leftovers_remove(folder, why));
    enum err e = ready ? ERR_OK : import_in(p, digest, staging_name, path, folder, why);
    sys_remove_tree(AT_FDCWD, path);
    return e;
}

/* What cannot be read is not known; the image can be used without it. */
static void need_stat(const struct node_paths *p, const char *digest, struct priv_rep *rep)
{
    AUTO_FREE char *text = NULL;
    AUTO_JSON json_t *config = NULL;
    struct image_need need;
    struct refusal ignored;

    if (image_config(p, digest, &text, &ignored) != ERR_OK || !text ||
        json_parse(text, strlen(text), IMAGE_CONFIG_MAX, &config, &ignored) != ERR_OK)
        return;
    image_need_read(config, &need);
    memcpy(rep->image.need_driver, need.driver, sizeof(rep->image.need_driver));
    memcpy(rep->image.need_cuda, need.cuda, sizeof(rep->image.need_cuda));
    memcpy(rep->image.framework, need.framework, sizeof(rep->image.framework));
}

void image_stat(const struct node_paths *p, const char *digest, struct priv_rep *rep)
{
    char path[PATH_MAX];
    struct stat st;

    memset(&rep->image, 0, sizeof(rep->image));
    rep->image.state = IMAGE_NONE;
    if (image_ready(p, digest, &st)) {
        rep->image.state = IMAGE_READY;
        rep->image.bytes = st.st_size;
        need_stat(p, digest, rep);
        return;
    }
    if (import_path(p, digest, path, NULL) != ERR_OK)
        return;
    AUTO_CLOSE int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0 && flock(folder, LOCK_SH | LOCK_NB) != 0)
        rep->image.state = IMAGE_WORKING;
}

/* Mounts of the same file system in this mount namespace, the shared one not counted. */
static int mounts_of(const char *base)
{
    char want[32], have[32], line[PATH_MAX + 512], at[PATH_MAX];
    struct stat st;
    int count = 0;
    FILE *f = fopen("/proc/self/mountinfo", "re");

    if (!f)
        return 0;
    if (stat(base, &st) == 0) {
        str_printf(want, sizeof(want), "%u:%u", major(st.st_dev), minor(st.st_dev));
        while (fgets(line, sizeof(line), f))
            if (sscanf(line, "%*d %*d %31s %*s %4095s", have, at) == 2 && str_eq(have, want) &&
                !str_eq(at, base))
                count++;
    }
    fclose(f);
    return count;
}

enum err image_remove(const struct node_paths *p, const char *digest, struct refusal *why)
{
    char path[PATH_MAX];

    sys_clear(why);
    TRY(shared_path(p, digest, path, why));
    if (sys_is_mount(path)) {
        if (mounts_of(path) > 0)
            return sys_refuse(why, ERR_IN_USE, "what", "image", "name", digest, "by", "a lease",
                              NULL);
        if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) != 0)
            return sys_fail(why, "umount of an image");
    }
    rmdir(path);
    TRY(image_path(p, digest, "erofs", path, why));
    if (unlink(path) != 0 && errno != ENOENT)
        return sys_fail(why, path);
    TRY(image_path(p, digest, "json", path, why));
    if (unlink(path) != 0 && errno != ENOENT)
        return sys_fail(why, path);
    TRY(import_path(p, digest, path, why));
    if (access(path, F_OK) == 0 && !sys_remove_tree(AT_FDCWD, path))
        return sys_fail(why, path);
    return sys_dir_sync(p->images, why);
}

/* Straight from the file; before kernel 6.12 by a read-only loop device. */
static enum err erofs_mount(const char *path, int *ret_fd, struct refusal *why)
{
    const uint64_t attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV;
    char dev[LOOP_NAME_SIZE];
    AUTO_CLOSE int loop = -1;

    if (mounts_make("erofs", path, NULL, 0, attrs, ret_fd, why) == ERR_OK)
        return ERR_OK;
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return sys_fail(why, path);
    TRY(loop_attach(file, true, dev, &loop, why));
    return mounts_make("erofs", dev, NULL, 0, attrs, ret_fd, why);
}

enum err image_mount(const struct node_paths *p, const char *digest, int userns_fd,
                     const char *target, struct refusal *why)
{
    char path[PATH_MAX], base[PATH_MAX];
    AUTO_CLOSE int mount = -1;
    AUTO_CLOSE int copy = -1;
    struct stat st;

    sys_clear(why);
    TRY(image_path(p, digest, "erofs", path, why));
    TRY(shared_path(p, digest, base, why));
    if (!image_ready(p, digest, &st))
        return refusef(why, ERR_IMAGE_NOT_FOUND, "name", "%s", digest);
    if (sys_is_mount(target))
        return ERR_OK;
    if (!sys_is_mount(base)) {
        TRY(erofs_mount(path, &mount, why));
        TRY(mounts_attach(mount, base, why));
    }
    TRY(mounts_clone(base, &copy, why));
    TRY(mounts_idmap(copy, userns_fd, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, why));
    return mounts_attach(copy, target, why);
}

enum err image_config(const struct node_paths *p, const char *digest, char **ret_json,
                      struct refusal *why)
{
    char path[PATH_MAX];
    AUTO_FREE char *text = mem_alloc(IMAGE_CONFIG_MAX);

    sys_clear(why);
    TRY(image_path(p, digest, "json", path, why));
    if (sys_read_small(path, text, IMAGE_CONFIG_MAX) < 0)
        return errno == ENOENT ? refusef(why, ERR_IMAGE_NOT_FOUND, "name", "%s", digest)
                               : sys_fail(why, path);
    *ret_json = TAKE(text);
    return ERR_OK;
}

const char *image_driver(void)
{
    AUTO_CLOSE int fs = fsopen("erofs", FSOPEN_CLOEXEC);
    struct utsname u;
    int major_version = 0, minor_version = 0;

    if (fs < 0)
        return "none";
    if (uname(&u) == 0 && sscanf(u.release, "%d.%d", &major_version, &minor_version) == 2 &&
        (major_version > 6 || (major_version == 6 && minor_version >= 12)))
        return "erofs-file";
    return "erofs-loop";
}
