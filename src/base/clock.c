#include "base/clock.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static utime_t read_ms(clockid_t id)
{
    struct timespec ts;

    CHECK(clock_gettime(id, &ts) == 0);
    return (utime_t)ts.tv_sec * MS_PER_S + ts.tv_nsec / 1000000;
}

static utime_t system_wall(struct clock *c UNUSED)
{
    return read_ms(CLOCK_REALTIME);
}

static utime_t system_boot(struct clock *c UNUSED)
{
    return read_ms(CLOCK_BOOTTIME);
}

struct clock *clock_system(void)
{
    static struct clock c = {.wall_ms = system_wall, .boot_ms = system_boot};

    return &c;
}

bool clock_boot_id(char ret_id[BOOT_ID_SIZE])
{
    char raw[37];
    size_t out = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    ssize_t n = read(fd, raw, sizeof(raw));
    close(fd);
    for (ssize_t i = 0; i < n && out < BOOT_ID_SIZE - 1; i++)
        if (raw[i] != '-' && raw[i] != '\n')
            ret_id[out++] = raw[i];
    ret_id[out] = '\0';
    return out == BOOT_ID_SIZE - 1;
}
