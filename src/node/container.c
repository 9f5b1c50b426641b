#include "node/container.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "node/cgroup.h"
#include "node/syscalls.h"
#include "node/sys.h"

#define CONFIG_MAX (256 * 1024)

/* The whole list: no SYS_ADMIN, NET_ADMIN, NET_RAW, MKNOD, SYS_PTRACE, SYS_MODULE, … */
static const char *const capabilities[] = {
    "CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER",  "CAP_FSETID",           "CAP_KILL",
    "CAP_SETGID", "CAP_SETUID",       "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT",
    "CAP_SETFCAP"};
static const char *const masked[] = {
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kallsyms",
    "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/proc/kmsg",
    "/proc/modules",
    /* whose disks this machine holds, and how busy they are */
    "/proc/partitions", "/proc/diskstats", "/proc/fs", "/proc/swaps", "/sys/block",
    "/sys/class/block", "/sys/class/bdi", "/sys/dev/block", "/sys/devices/virtual/bdi",
    "/sys/devices/virtual/block", "/sys/firmware", "/sys/kernel", "/sys/fs", "/sys/module",
    "/sys/devices/virtual/powercap", "/sys/devices/virtual/dmi", "/sys/power"};
static const char *const read_only[] = {"/proc/bus", "/proc/irq", "/proc/sys",
                                        "/proc/sysrq-trigger"};

static void strings_write(struct json_writer *w, const char *key, const char *const *list,
                          size_t count)
{
    json_array_begin(w, key);
    for (size_t i = 0; i < count; i++)
        json_str(w, NULL, list[i]);
    json_array_finish(w);
}

static void rlimit_write(struct json_writer *w, const char *name, int which, rlim_t soft,
                         rlim_t hard)
{
    struct rlimit own;

    /* Never above our own: raising needs a capability that a node need not have. */
    CHECK(getrlimit((__rlimit_resource_t)which, &own) == 0);
    hard = MIN(hard, own.rlim_max);
    soft = MIN(soft, hard);
    if (hard == RLIM_INFINITY)
        return;
    json_object_begin(w, NULL);
    json_str(w, "type", name);
    json_i64(w, "soft", (int64_t)soft);
    json_i64(w, "hard", (int64_t)hard);
    json_object_finish(w);
}

static void process_write(struct json_writer *w, const struct container_spec *s)
{
    static const char *const sets[] = {"bounding", "effective", "permitted"};

    json_object_begin(w, "process");
    json_flag(w, "terminal", false);
    json_object_begin(w, "user");
    json_i64(w, "uid", 0);
    json_i64(w, "gid", 0);
    json_object_finish(w);
    json_array_begin(w, "args");
    json_str(w, NULL, "/.suanli/init");
    json_str(w, NULL, s->server);
    if (s->guest->argv[0]) {
        json_str(w, NULL, "--");
        for (const char *a = s->guest->argv; *a; a += strlen(a) + 1)
            json_str(w, NULL, a);
    }
    json_array_finish(w);
    strings_write(w, "env", s->env, s->env_count);
    json_str(w, "cwd", "/");
    json_object_begin(w, "capabilities");
    for (size_t i = 0; i < ARRAY_LEN(sets); i++)
        strings_write(w, sets[i], capabilities, ARRAY_LEN(capabilities));
    json_object_finish(w);
    json_array_begin(w, "rlimits");
    rlimit_write(w, "RLIMIT_NOFILE", RLIMIT_NOFILE, 65536, 1048576);
    /* A crash must not run the machine's own core handler. */
    rlimit_write(w, "RLIMIT_CORE", RLIMIT_CORE, 0, 0);
    json_array_finish(w);
    /* The SSH server works with it: it only gives privileges up. Set-user-id programs of the image
     * (sudo, su) gain nothing; the renter is root anyway. */
    json_flag(w, "noNewPrivileges", true);
    json_i64(w, "oomScoreAdj", 400);
    json_object_finish(w);
}

static void mount_write(struct json_writer *w, const char *target, const char *type,
                        const char *source, const char *options)
{
    json_object_begin(w, NULL);
    json_str(w, "destination", target);
    json_str(w, "type", type);
    json_str(w, "source", source);
    json_array_begin(w, "options");
    for (const char *o = options; *o;) {
        size_t n = strcspn(o, ",");
        json_strf(w, NULL, "%.*s", (int)n, o);
        o += n + (o[n] == ',');
    }
    json_array_finish(w);
    json_object_finish(w);
}

static void mounts_write(struct json_writer *w, const struct container_spec *s)
{
    char path[GUEST_PATH_SIZE], shm[96];

    CHECK(str_printf(shm, sizeof(shm), "nosuid,noexec,nodev,mode=1777,size=%lldk",
                     (long long)s->guest->memory_mib * 512));
    json_array_begin(w, "mounts");
    mount_write(w, "/proc", "proc", "proc", "nosuid,noexec,nodev");
    mount_write(w, "/dev", "tmpfs", "tmpfs", "nosuid,strictatime,mode=755,size=4096k");
    mount_write(w, "/dev/pts", "devpts", "devpts",
                "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5");
    mount_write(w, "/dev/shm", "tmpfs", "shm", shm);
    mount_write(w, "/dev/mqueue", "mqueue", "mqueue", "nosuid,noexec,nodev");
    /* Our own instance of it, made inside the guest's network namespace: the guest cannot mount one
     * itself, and the host's would show the host's interfaces. */
    CHECK(guest_run_path(s->paths, s->lease, "sys", path));
    mount_write(w, "/sys", "bind", path, "bind,ro,nosuid,noexec,nodev");
    mount_write(w, "/run", "tmpfs", "tmpfs", "nosuid,nodev,mode=755,size=65536k");
    CHECK(str_printf(path, sizeof(path), "%s/ssh", s->paths->run));
    mount_write(w, "/.suanli", "bind", path, "bind,ro,nosuid,nodev");
    CHECK(guest_run_path(s->paths, s->lease, "ssh", path));
    mount_write(w, "/.suanli/lease", "bind", path, "bind,ro,nosuid,nodev,noexec");
    for (size_t i = 0; i < s->bind_count; i++)
        mount_write(w, s->binds[i].target, "bind", s->binds[i].source,
                    s->binds[i].read_only ? "bind,ro,nosuid,nodev" : "bind,rw,nosuid,nodev");
    json_array_finish(w);
}

static void device_rules_write(struct json_writer *w, const struct container_spec *s)
{
    json_array_begin(w, "devices");
    json_object_begin(w, NULL);
    json_flag(w, "allow", false);
    json_str(w, "access", "rwm");
    json_object_finish(w);
    for (size_t i = 0; i < s->device_count; i++) {
        json_object_begin(w, NULL);
        json_flag(w, "allow", true);
        json_str(w, "type", s->devices[i].block ? "b" : "c");
        json_i64(w, "major", s->devices[i].major);
        json_i64(w, "minor", s->devices[i].minor);
        json_str(w, "access", "rw");
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void devices_write(struct json_writer *w, const struct container_spec *s)
{
    json_array_begin(w, "devices");
    for (size_t i = 0; i < s->device_count; i++) {
        json_object_begin(w, NULL);
        json_str(w, "path", s->devices[i].path);
        json_str(w, "type", s->devices[i].block ? "b" : "c");
        json_i64(w, "major", s->devices[i].major);
        json_i64(w, "minor", s->devices[i].minor);
        json_i64(w, "fileMode", 0666);
        json_i64(w, "uid", 0);
        json_i64(w, "gid", 0);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void resources_write(struct json_writer *w, const struct container_spec *s)
{
    const struct priv_guest *g = s->guest;
    int64_t memory = g->memory_mib * 1024 * 1024;

    json_object_begin(w, "resources");
    device_rules_write(w, s);
    json_object_begin(w, "memory");
    json_i64(w, "limit", memory);
    /* Memory and swap together; v1 machines without swap accounting refuse the key. */
    if (cgroup_layout_probe() == CGROUP_V2 ||
        access("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", F_OK) == 0)
        json_i64(w, "swap", memory);
    json_object_finish(w);
    json_object_begin(w, "cpu");
    json_i64(w, "shares", MAX(2, (int64_t)g->cpu_milli * 1024 / 1000));
    json_i64(w, "quota", (int64_t)g->cpu_milli * 100);
    json_i64(w, "period", 100000);
    json_object_finish(w);
    json_object_begin(w, "pids");
    json_i64(w, "limit", g->pids_max);
    json_object_finish(w);
    json_object_finish(w);
}

static void namespaces_write(struct json_writer *w, const struct container_spec *s)
{
    static const char *const own[] = {"pid", "ipc", "uts", "mount", "cgroup", "user"};
    char path[GUEST_PATH_SIZE];

    json_array_begin(w, "namespaces");
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        json_object_begin(w, NULL);
        json_str(w, "type", own[i]);
        json_object_finish(w);
    }
    CHECK(guest_run_path(s->paths, s->lease, "net", path));
    json_object_begin(w, NULL);
    json_str(w, "type", "network");
    json_str(w, "path", path);
    json_object_finish(w);
    json_array_finish(w);
}

static void ids_write(struct json_writer *w, const char *key, uint32_t base)
{
    json_array_begin(w, key);
    json_object_begin(w, NULL);
    json_i64(w, "containerID", 0);
    json_i64(w, "hostID", base);
    json_i64(w, "size", USERNS_IDS);
    json_object_finish(w);
    json_array_finish(w);
}

static void config_build(struct json_writer *w, const struct container_spec *s)
{
    char path[GUEST_PATH_SIZE];

    json_object_begin(w, NULL);
    json_str(w, "ociVersion", "1.0.2");
    process_write(w, s);
    json_object_begin(w, "root");
    CHECK(guest_run_path(s->paths, s->lease, "root", path));
    json_str(w, "path", path);
    json_flag(w, "readonly", false);
    json_object_finish(w);
    json_str(w, "hostname", s->guest->hostname);
    mounts_write(w, s);
    json_object_begin(w, "linux");
    ids_write(w, "uidMappings", s->range_base);
    ids_write(w, "gidMappings", s->range_base);
    namespaces_write(w, s);
    resources_write(w, s);
    devices_write(w, s);
    json_strf(w, "cgroupsPath", "%s/%s", s->cgroup, s->lease.s);
    seccomp_guest_write(w);
    strings_write(w, "maskedPaths", masked, ARRAY_LEN(masked));
    strings_write(w, "readonlyPaths", read_only, ARRAY_LEN(read_only));
    json_object_finish(w);
    json_object_finish(w);
}

enum err container_config_write(const struct container_spec *s, struct refusal *why)
{
    AUTO_STRBUF struct strbuf text;
    struct json_writer w;
    char path[GUEST_PATH_SIZE];

    strbuf_init(&text, CONFIG_MAX);
    json_writer_init(&w, &text);
    config_build(&w, s);
    if (text.overflow)
        return refusef(why, ERR_RUNTIME, "why", "the configuration is too long");
    CHECK(guest_run_path(s->paths, s->lease, "config.json", path));
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || write(fd, text.data, text.len) != (ssize_t)text.len)
        return sys_fail(why, "write of the runtime's configuration");
    return ERR_OK;
}

/* In the child. Nothing of our environment and no descriptor but the three goes along. */
static void runtime_exec(const struct node_paths *p, const struct container_runtime *rt,
                         struct id lease, int out_fd)
{
    static const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    char root[GUEST_PATH_SIZE], log[GUEST_PATH_SIZE], bundle[GUEST_PATH_SIZE];
    char pid_file[GUEST_PATH_SIZE];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    CHECK(str_printf(root, sizeof(root), "%s/runtime", p->run));
    CHECK(guest_run_path(p, lease, "runtime.log", log) && guest_run_path(p, lease, "", bundle) &&
          guest_run_path(p, lease, "pid", pid_file));
    const char *argv[] = {rt->name, "--root",     root,     "--log",    log,     "run", "--bundle",
                          bundle,   "--pid-file", pid_file, "--detach", lease.s, NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int runtime = fcntl(rt->fd, F_DUPFD_CLOEXEC, 10);
    int out = fcntl(out_fd, F_DUPFD_CLOEXEC, 10);
    dup2(null, 0);
    dup2(out, 1);
    dup2(out, 2);
    for (int fd = 3; fd < 10; fd++)
        close(fd);
    close_range(10, ~0u, CLOSE_RANGE_CLOEXEC);
    if (chdir("/") == 0)
        fexecve(runtime, (char *const *)argv, (char *const *)env);
    _exit(127);
}

static enum err runtime_failed(const struct node_paths *p, struct id lease, int status,
                               struct refusal *why)
{
    char path[GUEST_PATH_SIZE], text[2048] = "";

    CHECK(guest_run_path(p, lease, "runtime.log", path));
    if (sys_read_small(path, text, sizeof(text)) > 0)
        text[strcspn(text, "\n")] = '\0';
    return refusef(why, ERR_RUNTIME, "why", "%s (status %d)", text[0] ? text : "no reason given",
                   status);
}

enum err container_run(const struct node_paths *p, const struct container_runtime *rt,
                       struct id lease, int out_fd, int *ret_pid, struct refusal *why)
{
    char path[GUEST_PATH_SIZE], text[32];
    int status;
    pid_t pid = fork();

    if (pid < 0)
        return sys_fail(why, "fork");
    if (pid == 0)
        runtime_exec(p, rt, lease, out_fd);
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return sys_fail(why, "waitpid");
    }
    if (status != 0)
        return runtime_failed(p, lease, status, why);
    CHECK(guest_run_path(p, lease, "pid", path));
    if (sys_read_small(path, text, sizeof(text)) <= 0 || strtol(text, NULL, 10) <= 1)
        return refusef(why, ERR_RUNTIME, "why", "the runtime left no process id");
    *ret_pid = (int)strtol(text, NULL, 10);
    return ERR_OK;
}
