/* runtime.c: which runtime, found out by trying it: a throw-away container with the same
 * configuration that guests get, in which our PID 1 says that it could run. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "node/cgroup.h"
#include "node/container.h"
#include "node/sys.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* A copy that nobody can write to, not even through /proc/PID/exe of what runs it. Both runtimes
 * know such a copy and save themselves making their own at every start. */
static int sealed_copy(const char *path)
{
    AUTO_CLOSE int in = open(path, O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int out = memfd_create("runtime", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ssize_t n;

    if (in < 0 || out < 0)
        return -1;
    do {
        n = sendfile(out, in, NULL, 1 << 20);
    } while (n > 0);
    if (n < 0 || fchmod(out, 0500) < 0 || fcntl(out, F_ADD_SEALS, SEALS) < 0)
        return -1;
    return TAKE_FD(out);
}

static bool runtime_open(const char *name, struct container_runtime *ret_runtime)
{
    static const char *const folders[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                          "/usr/bin"};
    char path[64];

    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        CHECK(str_printf(path, sizeof(path), "%s/%s", folders[i], name));
        if (access(path, X_OK) < 0)
            continue;
        ret_runtime->fd = sealed_copy(path);
        return ret_runtime->fd >= 0 && str_copy(ret_runtime->name, sizeof(ret_runtime->name), name);
    }
    return false;
}

/* Folders only; the network namespace of the trial is our own, as nothing but PID 1 runs in it. */
static enum err trial_folders(const struct node_paths *p, struct id lease, struct refusal *why)
{
    static const char *const folders[] = {
        "", "root", "sys", "ssh", "root/proc", "root/dev", "root/sys", "root/run", "root/.suanli"};
    char path[GUEST_PATH_SIZE];

    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        CHECK(guest_run_path(p, lease, folders[i], path));
        TRY(sys_dir_ensure(path, 0755, 0, 0, why));
    }
    CHECK(guest_run_path(p, lease, "net", path));
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || mount("/proc/self/ns/net", path, NULL, MS_BIND, NULL) < 0)
        return sys_fail(why, "bind of a namespace");
    return ERR_OK;
}

static enum err trial_run(const struct node_config *cfg, const struct container_runtime *rt,
                          struct id lease, struct refusal *why)
{
    struct container_spec *spec AUTO_FREE = mem_alloc(sizeof(*spec));
    struct priv_guest *guest AUTO_FREE = mem_alloc(sizeof(*guest));
    int pid, status;

    *guest = (struct priv_guest){
        .hostname = "trial", .cpu_milli = 1000, .memory_mib = 64, .pids_max = 64};
    *spec = (struct container_spec){.paths = &cfg->paths,
                                    .cgroup = cfg->cgroup,
                                    .server = "--probe",
                                    .lease = lease,
                                    .guest = guest,
                                    .range_base = 16 * USERNS_IDS};
    TRY(trial_folders(&cfg->paths, lease, why));
    TRY(container_config_write(spec, why));
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    TRY(container_run(&cfg->paths, rt, lease, null, &pid, why));
    if (waitpid(pid, &status, 0) != pid || status != 0)
        return refusef(why, ERR_RUNTIME, "why", "the trial container ended with %d", status);
    return ERR_OK;
}

static void trial_remove(const struct node_paths *p, struct id lease)
{
    char path[GUEST_PATH_SIZE];
    struct refusal ignored;

    cgroup_kill(lease);
    if (cgroup_remove(lease, &ignored) != ERR_OK)
        errno = 0; /* shows up among the strays */
    CHECK(guest_run_path(p, lease, "net", path));
    umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
    CHECK(str_printf(path, sizeof(path), "%s/leases", p->run));
    AUTO_CLOSE int leases = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sys_remove_tree(leases, lease.s);
    CHECK(str_printf(path, sizeof(path), "%s/runtime", p->run));
    AUTO_CLOSE int state = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sys_remove_tree(state, lease.s);
}

enum err container_runtime_init(const struct node_config *cfg, const char *want,
                                struct container_runtime *ret_runtime, struct refusal *why)
{
    static const char *const names[] = {"crun", "runc"};
    struct id lease = {"try_runtime"};
    char path[GUEST_PATH_SIZE], known[16] = "";
    enum err e = refusef(why, ERR_RUNTIME, "why", "neither crun nor runc is installed");

    CHECK(str_printf(path, sizeof(path), "%s/runtime.name", cfg->paths.run));
    if (sys_read_small(path, known, sizeof(known)) > 0 &&
        (str_eq(want, "auto") || str_eq(want, known)) && runtime_open(known, ret_runtime))
        return ERR_OK;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct container_runtime rt;
        if (!(str_eq(want, "auto") || str_eq(want, names[i])) || !runtime_open(names[i], &rt))
            continue;
        trial_remove(&cfg->paths, lease);
        e = trial_run(cfg, &rt, lease, why);
        trial_remove(&cfg->paths, lease);
        if (e == ERR_OK) {
            *ret_runtime = rt;
            return sys_write_durable(path, rt.name, strlen(rt.name), 0600, why);
        }
        log_warn("event=runtime_refused runtime=%s why=\"%s\"", names[i], why->params[0].value);
        close(rt.fd);
    }
    return e;
}
