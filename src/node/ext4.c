#include "node/ext4.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include "node/loop.h"
#include "node/mounts.h"
#include "node/sys.h"

#define MIB ((int64_t)1 << 20)
#define BLOCK_SIZE_EXT4 4096
#define KEPT_BACK_MIB 16
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, uint64_t)

/* The leading part of the superblock at byte 1024; little-endian on disk. */
struct superblock {
    uint32_t inodes, blocks_lo, reserved_lo, free_blocks_lo, free_inodes, first_block, log_block;
    uint8_t skip1[0x38 - 0x1C];
    uint16_t magic;
    uint8_t skip2[0x60 - 0x3A];
    uint32_t incompat;
    uint8_t skip3[0x150 - 0x64];
    uint32_t blocks_hi, reserved_hi, free_blocks_hi;
};
_Static_assert(offsetof(struct superblock, magic) == 0x38, "layout of the superblock");
_Static_assert(offsetof(struct superblock, blocks_hi) == 0x150, "layout of the superblock");
#define INCOMPAT_64BIT 0x80

static enum err superblock_read(int fd, struct superblock *sb, struct refusal *why)
{
    if (pread(fd, sb, sizeof(*sb), 1024) != (ssize_t)sizeof(*sb) || le16toh(sb->magic) != 0xEF53 ||
        le32toh(sb->log_block) > 6)
        return sys_refuse(why, ERR_CORRUPT, "what", "the file system of a disk", "why",
                          "no superblock", NULL);
    return ERR_OK;
}

static uint64_t wide(const struct superblock *sb, uint32_t lo, uint32_t hi)
{
    bool is64 = le32toh(sb->incompat) & INCOMPAT_64BIT;

    return le32toh(lo) | (is64 ? (uint64_t)le32toh(hi) << 32 : 0);
}

static uint64_t block_bytes(const struct superblock *sb)
{
    return 1024u << le32toh(sb->log_block);
}

enum err ext4_size(int fd, int64_t *ret_bytes, struct refusal *why)
{
    struct superblock sb;

    TRY(superblock_read(fd, &sb, why));
    *ret_bytes = (int64_t)(wide(&sb, sb.blocks_lo, sb.blocks_hi) * block_bytes(&sb));
    return ERR_OK;
}

enum err ext4_usage(int fd, int64_t *ret_used_mib, int64_t *ret_inodes, int64_t *ret_inodes_used,
                    struct refusal *why)
{
    struct superblock sb;

    TRY(superblock_read(fd, &sb, why));
    uint64_t blocks = wide(&sb, sb.blocks_lo, sb.blocks_hi);
    uint64_t left = wide(&sb, sb.free_blocks_lo, sb.free_blocks_hi);
    *ret_used_mib = left > blocks ? 0 : (int64_t)((blocks - left) * block_bytes(&sb)) / MIB;
    *ret_inodes = le32toh(sb.inodes);
    *ret_inodes_used = (int64_t)le32toh(sb.inodes) - le32toh(sb.free_inodes);
    return ERR_OK;
}

static enum err mkfs(const char *path, int64_t size_mib, struct refusal *why)
{
    /* The file is all holes, so inode tables are zero already and the journal needs no wiping. */
    char reserve[16];
    const char *argv[] = {"mkfs.ext4",
                          "-q",
                          "-F",
                          "-b",
                          "4096",
                          "-m",
                          reserve,
                          "-E",
                          "lazy_journal_init=1,lazy_itable_init=0,assume_storage_prezeroed=1,"
                          "packed_meta_blocks=1,nodiscard,root_owner=0:0",
                          path,
                          NULL};
    struct sys_tool tool = {.argv = argv};
    int64_t milli = MIN(KEPT_BACK_MIB * 100000 / size_mib, (int64_t)5000);

    str_printf(reserve, sizeof(reserve), "%d.%03d", (int)(milli / 1000), (int)(milli % 1000));
    return sys_tool_run(&tool, why);
}

enum err ext4_make(const char *path, int64_t size_mib, struct refusal *why)
{
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0 || ftruncate(fd, size_mib * MIB) != 0)
        return sys_fail(why, path);
    TRY(mkfs(path, size_mib, why));
    if (fsync(fd) != 0)
        return sys_fail(why, path);
    return ERR_OK;
}

enum err ext4_grow_offline(const char *path, struct refusal *why)
{
    const char *check[] = {"e2fsck", "-f", "-p", path, NULL};
    const char *resize[] = {"resize2fs", path, NULL};
    struct sys_tool first = {.argv = check, .ok_max = 1, .timeout_ms = 600 * 1000};
    struct sys_tool then = {.argv = resize, .timeout_ms = 600 * 1000};

    TRY(sys_tool_run(&first, why));
    TRY(sys_tool_run(&then, why));
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fsync(fd) != 0)
        return sys_fail(why, path);
    return ERR_OK;
}

static enum err grow_mount(int root, int64_t bytes, struct refusal *why)
{
    uint64_t blocks = (uint64_t)bytes / BLOCK_SIZE_EXT4;

    if (ioctl(root, EXT4_IOC_RESIZE_FS, &blocks) != 0)
        return sys_fail(why, "EXT4_IOC_RESIZE_FS");
    return ERR_OK;
}

/* The ioctl needs a descriptor inside the file system; a second, detached mount of the same device
 * gives one wherever the guest's own mount may be. */
enum err ext4_grow_online(const char *dev, int64_t bytes, struct refusal *why)
{
    AUTO_CLOSE int mount = -1;

    TRY(mounts_make("ext4", dev, NULL, 0, MOUNT_ATTR_NODEV, &mount, why));
    AUTO_CLOSE int root = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return sys_fail(why, dev);
    return grow_mount(root, bytes, why);
}

bool ext4_online_grow_probe(void)
{
    char path[40], dev[LOOP_NAME_SIZE];
    AUTO_CLOSE int file = memfd_create("grow", MFD_CLOEXEC);
    AUTO_CLOSE int kept = file < 0 ? -1 : dup(file); /* not close-on-exec: for mkfs */
    AUTO_CLOSE int loop = -1;

    if (kept < 0 || ftruncate(file, 32 * MIB) != 0)
        return false;
    str_printf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), kept);
    return mkfs(path, 32, NULL) == ERR_OK && ftruncate(file, 48 * MIB) == 0 &&
           loop_attach(file, false, dev, &loop, NULL) == ERR_OK &&
           ext4_grow_online(dev, 48 * MIB, NULL) == ERR_OK;
}
