/* cgroup.c: reading and removing the cgroups that the runtime made. Two layouts: unified (v2), and
 * v1 with one tree per controller, which a hybrid machine uses for limits as well. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "node/cgroup.h"
#include "node/sys.h"

#define CGROUP_TOP "/sys/fs/cgroup"
#define CGROUP2_MAGIC 0x63677270

static char root[128] = "/suanli";
static const char *const controllers[] = {"cpu",      "cpuacct", "memory", "pids",       "devices",
                                          "freezer",  "blkio",   "cpuset", "systemd",    "net_cls",
                                          "net_prio", "hugetlb", "rdma",   "perf_event", "misc"};

void cgroup_init(const char *new_root)
{
    CHECK(str_copy(root, sizeof(root), new_root));
}

enum cgroup_layout cgroup_layout_probe(void)
{
    struct statfs fs;
    struct stat st;

    if (statfs(CGROUP_TOP, &fs) == 0 && fs.f_type == CGROUP2_MAGIC)
        return CGROUP_V2;
    /* The folder stays where the mount on it is hidden from the runtime. */
    return stat(CGROUP_TOP "/unified", &st) == 0 ? CGROUP_HYBRID : CGROUP_V1;
}

static bool file_path(const char *controller, struct id lease, const char *file, char path[320])
{
    if (cgroup_layout_probe() == CGROUP_V2)
        return str_printf(path, 320, CGROUP_TOP "%s/%s/%s", root, lease.s, file);
    return str_printf(path, 320, CGROUP_TOP "/%s%s/%s/%s", controller, root, lease.s, file);
}

static int64_t number_read(const char *controller, struct id lease, const char *file)
{
    char path[320], text[64];

    if (!file_path(controller, lease, file, path) || sys_read_small(path, text, sizeof(text)) <= 0)
        return 0;
    return strtoll(text, NULL, 10);
}

/* The value after "key " in a file of such lines. */
static int64_t keyed_read(const char *controller, struct id lease, const char *file,
                          const char *key)
{
    char path[320], text[4096];
    size_t n = strlen(key);

    if (!file_path(controller, lease, file, path) || sys_read_small(path, text, sizeof(text)) <= 0)
        return 0;
    for (const char *p = text; p; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (strncmp(p, key, n) == 0 && p[n] == ' ')
            return strtoll(p + n + 1, NULL, 10);
    }
    return 0;
}

void cgroup_meter(struct id lease, struct priv_rep *rep)
{
    if (cgroup_layout_probe() == CGROUP_V2) {
        rep->meter.cpu_us = keyed_read("", lease, "cpu.stat", "usage_usec");
        rep->meter.memory_bytes = number_read("", lease, "memory.current");
        rep->meter.memory_peak_bytes = number_read("", lease, "memory.peak");
        rep->meter.oom_kills = keyed_read("", lease, "memory.events", "oom_kill");
        rep->meter.pids = number_read("", lease, "pids.current");
        return;
    }
    rep->meter.cpu_us = number_read("cpuacct", lease, "cpuacct.usage") / 1000;
    rep->meter.memory_bytes = number_read("memory", lease, "memory.usage_in_bytes");
    rep->meter.memory_peak_bytes = number_read("memory", lease, "memory.max_usage_in_bytes");
    rep->meter.oom_kills = keyed_read("memory", lease, "memory.oom_control", "oom_kill");
    rep->meter.pids = number_read("pids", lease, "pids.current");
}

bool cgroup_has(struct id lease, int pid)
{
    char path[64], text[4096];

    if (!str_printf(path, sizeof(path), "/proc/%d/cgroup", pid) ||
        sys_read_small(path, text, sizeof(text)) <= 0)
        return false;
    return strstr(text, lease.s) != NULL;
}

void cgroup_kill(struct id lease)
{
    char path[320], line[32];

    if (cgroup_layout_probe() == CGROUP_V2 && file_path("", lease, "cgroup.kill", path) &&
        sys_write_text(path, "1", NULL) == ERR_OK)
        return;
    if (!file_path("pids", lease, "cgroup.procs", path))
        return;
    /* A process may fork while the list is read: until it is empty, at most a few rounds. */
    for (int round = 0; round < 50; round++) {
        FILE *f = fopen(path, "re");
        int count = 0;
        if (!f)
            return;
        for (; fgets(line, sizeof(line), f); count++)
            kill((pid_t)strtol(line, NULL, 10), SIGKILL);
        fclose(f);
        if (!count)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

/* Just after the last process died the kernel may still say EBUSY. */
static enum err folder_remove(const char *path, struct refusal *why)
{
    for (int i = 0; i < 100; i++) {
        if (rmdir(path) == 0 || errno == ENOENT)
            return ERR_OK;
        if (errno != EBUSY)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return sys_fail(why, "rmdir of a cgroup");
}

enum err cgroup_remove(struct id lease, struct refusal *why)
{
    char path[320];
    enum err first = ERR_OK;

    if (cgroup_layout_probe() == CGROUP_V2) {
        CHECK(str_printf(path, sizeof(path), CGROUP_TOP "%s/%s", root, lease.s));
        return folder_remove(path, why);
    }
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
        CHECK(str_printf(path, sizeof(path), CGROUP_TOP "/%s%s/%s", controllers[i], root, lease.s));
        enum err e = folder_remove(path, why);
        if (e != ERR_OK && first == ERR_OK)
            first = e;
    }
    return first;
}

void cgroup_fini(void)
{
    char path[320];

    /* A folder that is not empty or not there stays as it is. */
    if (cgroup_layout_probe() == CGROUP_V2) {
        CHECK(str_printf(path, sizeof(path), CGROUP_TOP "%s", root));
        if (rmdir(path) < 0)
            errno = 0;
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
        CHECK(str_printf(path, sizeof(path), CGROUP_TOP "/%s%s", controllers[i], root));
        if (rmdir(path) < 0)
            errno = 0;
    }
}
