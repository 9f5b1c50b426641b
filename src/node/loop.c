#include "node/loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/sys.h"

/* With discard_max_bytes 0 the driver also refuses "write zeroes", and the block layer writes them.
 */
static enum err holes_forbid(int number, struct refusal *why)
{
    char path[80], text[32];

    str_printf(path, sizeof(path), "/sys/block/loop%d/queue/discard_max_bytes", number);
    if (sys_read_small(path, text, sizeof(text)) > 0 && strcmp(text, "0\n") == 0)
        return ERR_OK;
    return sys_write_text(path, "0\n", why);
}

enum err loop_attach(int file, bool read_only, char ret_name[LOOP_NAME_SIZE], int *ret_fd,
                     struct refusal *why)
{
    struct loop_config config = {.fd = (uint32_t)file};
    AUTO_CLOSE int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

    if (control < 0)
        return sys_fail(why, "/dev/loop-control");
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | (read_only ? LO_FLAGS_READ_ONLY : 0);
    /* Another process may take the free number between the two calls. */
    for (int tries = 0; tries < 64; tries++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0)
            return sys_fail(why, "LOOP_CTL_GET_FREE");
        str_printf(ret_name, LOOP_NAME_SIZE, "/dev/loop%d", number);
        AUTO_CLOSE int fd = open(ret_name, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
        if (fd < 0)
            return sys_fail(why, ret_name);
        if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
            if (!read_only)
                TRY(holes_forbid(number, why));
            *ret_fd = TAKE_FD(fd);
            return ERR_OK;
        }
        if (errno != EBUSY)
            return sys_fail(why, "LOOP_CONFIGURE");
    }
    errno = EBUSY;
    return sys_fail(why, "LOOP_CONFIGURE");
}

void loop_each(void (*each)(void *user, const char *name, const char *file), void *user)
{
    DIR *dir = opendir("/sys/block");
    struct dirent *e;
    char path[300], file[PATH_MAX];

    if (!dir)
        return;
    while ((e = readdir(dir))) {
        if (strncmp(e->d_name, "loop", 4) != 0)
            continue;
        str_printf(path, sizeof(path), "/sys/block/%s/loop/backing_file", e->d_name);
        if (sys_read_small(path, file, sizeof(file)) <= 0)
            continue;
        file[strcspn(file, "\n")] = '\0';
        each(user, e->d_name, file);
    }
    closedir(dir);
}

struct loop_search {
    const struct stat *file; /* borrowed */
    char name[LOOP_NAME_SIZE];
    int fd;
};

/* By device and inode: the path in sysfs is as seen by whoever attached it. */
static void search_one(void *user, const char *name, const char *file UNUSED)
{
    struct loop_search *s = user;
    struct loop_info64 info;
    char path[LOOP_NAME_SIZE];

    if (s->fd >= 0 || !str_printf(path, sizeof(path), "/dev/%s", name))
        return;
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) != 0 || info.lo_inode != s->file->st_ino ||
        major(info.lo_device) != major(s->file->st_dev) ||
        minor(info.lo_device) != minor(s->file->st_dev))
        return;
    str_printf(s->name, sizeof(s->name), "%s", path);
    s->fd = TAKE_FD(fd);
}

bool loop_find(const struct stat *file, char ret_name[LOOP_NAME_SIZE], int *ret_fd)
{
    struct loop_search s = {.file = file, .fd = -1};

    loop_each(search_one, &s);
    if (s.fd < 0)
        return false;
    if (ret_name)
        memcpy(ret_name, s.name, LOOP_NAME_SIZE);
    if (ret_fd)
        *ret_fd = s.fd;
    else
        close(s.fd);
    return true;
}

bool loop_wait_gone(const struct stat *file, int64_t ms)
{
    struct clock *clock = clock_system();
    utime_t until = clock->boot_ms(clock) + ms;

    while (loop_find(file, NULL, NULL)) {
        struct timespec pause = {.tv_nsec = 2000000};
        if (clock->boot_ms(clock) >= until)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

enum err loop_resize(int fd, struct refusal *why)
{
    if (ioctl(fd, LOOP_SET_CAPACITY, 0) != 0)
        return sys_fail(why, "LOOP_SET_CAPACITY");
    return ERR_OK;
}
