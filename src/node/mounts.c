#include "node/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/sys.h"

/* What the kernel wrote into the context's log: "e message" lines. */
static enum err context_reason(int ctx, struct refusal *why, const char *fs)
{
    char line[200];
    int saved = errno;
    ssize_t n = read(ctx, line, sizeof(line) - 1);

    errno = saved;
    if (n <= 2)
        return sys_fail(why, fs);
    line[n] = '\0';
    return sys_refuse(why, ERR_SYSTEM, "call", fs, "why", line + 2, NULL);
}

static bool context_fill(int ctx, const char *source, const struct mount_opt *opts, size_t count)
{
    if (fsconfig(ctx, FSCONFIG_SET_STRING, "source", source, 0) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (fsconfig(ctx, opts[i].value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, opts[i].key,
                     opts[i].value, 0) != 0)
            return false;
    return fsconfig(ctx, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0;
}

enum err mounts_make(const char *fs, const char *source, const struct mount_opt *opts, size_t count,
                     uint64_t attrs, int *ret_fd, struct refusal *why)
{
    AUTO_CLOSE int ctx = fsopen(fs, FSOPEN_CLOEXEC);

    if (ctx < 0)
        return sys_fail(why, fs);
    if (!context_fill(ctx, source, opts, count))
        return context_reason(ctx, why, fs);
    int fd = fsmount(ctx, FSMOUNT_CLOEXEC, (unsigned)attrs);
    if (fd < 0)
        return context_reason(ctx, why, fs);
    *ret_fd = fd;
    return ERR_OK;
}

enum err mounts_clone(const char *path, int *ret_fd, struct refusal *why)
{
    int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

    if (fd < 0)
        return sys_fail(why, "open_tree");
    *ret_fd = fd;
    return ERR_OK;
}

enum err mounts_idmap(int fd, int userns_fd, uint64_t attrs, struct refusal *why)
{
    struct mount_attr attr = {.attr_set = attrs};

    if (userns_fd >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)userns_fd;
    }
    if (mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) != 0)
        return sys_fail(why, "id-mapped mount");
    return ERR_OK;
}

enum err mounts_attach(int fd, const char *target, struct refusal *why)
{
    if (mkdir(target, 0755) != 0 && errno != EEXIST)
        return sys_fail(why, target);
    AUTO_CLOSE int to = open(target, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return sys_fail(why, target);
    if (move_mount(fd, "", to, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return sys_fail(why, "move_mount");
    return ERR_OK;
}
