#include "node/start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "node/network.h"
#include "node/paths.h"
#include "node/sshd.h"
#include "node/sys.h"

#define IMAGE_CONFIG_MAX 65536

/* A step that runs beside the others, in a child; its outcome is in memory that both see. */
struct side {
    pid_t pid; /* 0: not running */
    struct outcome {
        bool told;
        enum err err;
        struct refusal why;
    } * outcome;
};

struct starting {
    const struct helper_env *env;
    const struct node_paths *paths;
    const struct guest_record *rec;
    struct container_spec *spec;
    struct guest_progress progress;
    int progress_fd;
    uint64_t step_from_us;
    uint32_t base;
    int userns; /* owned */
    int root;   /* owned: the assembled root */
    struct side network, ports, key;
    json_t *image; /* owned */
    char card_env[2048];
};

static uint64_t now_us(void)
{
    struct timespec ts;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* Closes the running step and opens the next; what people see while they wait. */
static void step_set(struct starting *s, enum guest_step step)
{
    uint64_t now = now_us();

    s->progress.step_us[s->progress.step] += (uint32_t)(now - s->step_from_us);
    s->step_from_us = now;
    s->progress.step = step;
    if (pwrite(s->progress_fd, &s->progress, sizeof(s->progress), 0) < 0)
        errno = 0; /* only a display */
}

static enum err run_folder(const struct starting *s, const char *name, mode_t mode,
                           char path[GUEST_PATH_SIZE], struct refusal *why)
{
    CHECK(guest_run_path(s->paths, s->rec->lease, name, path));
    /* A start that is resumed finds mounts there: their roots are not ours to change. */
    return sys_is_mount(path) ? ERR_OK : sys_dir_ensure(path, mode, 0, 0, why);
}

/* ---- steps beside ---- */

static enum err side_begin(struct starting *s, struct side *side,
                           enum err (*fn)(struct starting *s, struct refusal *why),
                           struct refusal *why)
{
    pid_t parent = getpid();

    side->outcome = mmap(NULL, sizeof(*side->outcome), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (side->outcome == MAP_FAILED)
        return sys_fail(why, "mmap");
    side->pid = fork();
    if (side->pid < 0)
        return sys_fail(why, "fork");
    if (side->pid > 0)
        return ERR_OK;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    side->outcome->err = fn(s, &side->outcome->why);
    side->outcome->told = true;
    _exit(0);
}

/* Nothing when it was never begun, or waited for already. */
static enum err side_finish(struct side *side, struct refusal *why)
{
    if (side->pid <= 0)
        return ERR_OK;
    while (waitpid(side->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    side->pid = 0;
    if (!side->outcome->told)
        return refusef(why, ERR_INTERNAL, "why", "a step of the start was cut short");
    if (side->outcome->err != ERR_OK)
        *why = side->outcome->why;
    return side->outcome->err;
}

/* ---- acting with the guest's root as owner ---- */

/* Files made now belong to the guest's root, and are allowed on its shifted mounts; the overlay
 * keeps the rights of whoever mounts it, so the capabilities that setfsuid takes come back. */
static enum err owner_enter(uint32_t base, struct refusal *why)
{
    static const cap_value_t wanted[] = {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_CHOWN,
                                         CAP_FOWNER,       CAP_FSETID,          CAP_MKNOD};

    setfsgid(base);
    setfsuid(base);
    cap_t caps = cap_get_proc();
    bool ok = caps && cap_set_flag(caps, CAP_EFFECTIVE, ARRAY_LEN(wanted), wanted, CAP_SET) == 0 &&
              cap_set_proc(caps) == 0;
    cap_free(caps);
    return ok ? ERR_OK : sys_fail(why, "capset");
}

static void owner_leave(void)
{
    setfsuid(0);
    setfsgid(0);
}

/* ---- disk, image, root ---- */

static enum err disks_attach(struct starting *s, struct refusal *why)
{
    const struct priv_guest *g = &s->rec->spec;
    char path[GUEST_PATH_SIZE], name[16];

    TRY(run_folder(s, "disk", 0711, path, why));
    TRY(disk_attach(s->paths, g->system_disk, s->rec->lease, s->userns, path, why));
    for (uint32_t i = 0; i < g->data_count; i++) {
        CHECK(str_printf(name, sizeof(name), "data%u", i));
        TRY(run_folder(s, name, 0711, path, why));
        TRY(disk_attach(s->paths, g->data[i].disk, s->rec->lease, s->userns, path, why));
        struct container_bind *b = &s->spec->binds[s->spec->bind_count++];
        CHECK(str_copy(b->source, sizeof(b->source), path) &&
              str_copy(b->target, sizeof(b->target), g->data[i].mount));
    }
    return ERR_OK;
}

static bool file_put(int dir, const char *name, const char *text, uint32_t owner)
{
    AUTO_CLOSE int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
           fchown(fd, owner, owner) == 0;
}

/* The host's name servers that a guest can reach: none of its own loopback. */
static void resolvers_write(struct strbuf *out)
{
    static const char *const files[] = {"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"};
    char text[4096];

    for (size_t i = 0; i < ARRAY_LEN(files) && !out->len; i++) {
        if (sys_read_small(files[i], text, sizeof(text)) <= 0)
            continue;
        for (char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
            size_t n = strcspn(line, "\n");
            if (str_starts(line, "nameserver ") && !str_starts(line + 11, "127.") &&
                !str_starts(line + 11, "::1") && n < 80) {
                strbuf_add_n(out, line, n);
                strbuf_add(out, "\n");
            }
        }
    }
}

/* A layer of ours between the image and what the renter wrote: names, resolvers, our mount point.
 * A link of the image at such a place is hidden by it, never followed. */
static enum err inject_layer(struct starting *s, struct refusal *why)
{
    const char *host = s->rec->spec.hostname;
    char path[GUEST_PATH_SIZE], hosts[256], name[72];
    AUTO_STRBUF struct strbuf resolvers;
    uint32_t o = s->base;

    strbuf_init(&resolvers, 4096);
    resolvers_write(&resolvers);
    TRY(run_folder(s, "inject", 0755, path, why));
    AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || (mkdirat(dir, "etc", 0755) < 0 && errno != EEXIST) ||
        (mkdirat(dir, ".suanli", 0755) < 0 && errno != EEXIST))
        return sys_fail(why, "mkdir");
    AUTO_CLOSE int etc = openat(dir, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    CHECK(str_printf(hosts, sizeof(hosts), "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n",
                     host) &&
          str_printf(name, sizeof(name), "%s\n", host));
    if (etc < 0 || !file_put(etc, "hosts", hosts, o) || !file_put(etc, "hostname", name, o) ||
        !file_put(etc, "resolv.conf", strbuf_str(&resolvers), o) || fchown(etc, o, o) < 0 ||
        fchown(dir, o, o) < 0 || fchownat(dir, ".suanli", o, o, AT_SYMLINK_NOFOLLOW) < 0)
        return sys_fail(why, "write of the guest's names");
    return ERR_OK;
}

static enum err overlay_mount(struct starting *s, struct refusal *why)
{
    char disk[GUEST_PATH_SIZE], root[GUEST_PATH_SIZE], image[GUEST_PATH_SIZE];
    char inject[GUEST_PATH_SIZE], upper[GUEST_PATH_SIZE + 8], work[GUEST_PATH_SIZE + 8];
    char options[4 * GUEST_PATH_SIZE];

    TRY(run_folder(s, "root", 0711, root, why));
    if (sys_is_mount(root))
        return ERR_OK;
    CHECK(guest_run_path(s->paths, s->rec->lease, "disk", disk) &&
          guest_run_path(s->paths, s->rec->lease, "image", image) &&
          guest_run_path(s->paths, s->rec->lease, "inject", inject));
    CHECK(str_printf(upper, sizeof(upper), "%s/upper", disk) &&
          str_printf(work, sizeof(work), "%s/work", disk) &&
          str_printf(options, sizeof(options), "lowerdir=%s:%s,upperdir=%s,workdir=%s", inject,
                     image, upper, work));
    if ((mkdir(upper, 0755) < 0 && errno != EEXIST) || (mkdir(work, 0700) < 0 && errno != EEXIST))
        return sys_fail(why, "mkdir on the system disk");
    if (mount("overlay", root, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
        return sys_fail(why, "mount of the overlay");
    return ERR_OK;
}

/* A folder below the root, made where it is missing, with no link anywhere on the way: neither the
 * image nor an earlier life of this disk can turn a mount of ours somewhere else. */
static enum err root_folder(struct starting *s, const char *target, struct refusal *why)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve =
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    char path[256];

    CHECK(str_copy(path, sizeof(path), target + strspn(target, "/")));
    for (char *end = path; end; end++) {
        end = strchr(end, '/');
        if (end)
            *end = '\0';
        int fd = (int)syscall(SYS_openat2, s->root, path, &how, sizeof(how));
        if (fd < 0 && errno == ENOENT && mkdirat(s->root, path, 0755) == 0)
            fd = (int)syscall(SYS_openat2, s->root, path, &how, sizeof(how));
        if (fd < 0)
            return refusef(why, ERR_IMAGE_HOSTILE, "why", "/%s is not a plain folder", path);
        close(fd);
        if (!end)
            break;
        *end = '/';
    }
    return ERR_OK;
}

static enum err root_check(struct starting *s, struct refusal *why)
{
    static const char *const ours[] = {"/proc", "/sys", "/dev", "/run", "/.suanli"};
    char root[GUEST_PATH_SIZE];

    CHECK(guest_run_path(s->paths, s->rec->lease, "root", root));
    s->root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (s->root < 0)
        return sys_fail(why, "open of the guest's root");
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        TRY(root_folder(s, ours[i], why));
    for (uint32_t i = 0; i < s->rec->spec.data_count; i++)
        TRY(root_folder(s, s->rec->spec.data[i].mount, why));
    return ERR_OK;
}

static enum err root_make(struct starting *s, struct refusal *why)
{
    char path[GUEST_PATH_SIZE];

    TRY(run_folder(s, "image", 0711, path, why));
    TRY(image_mount(s->paths, s->rec->spec.image, s->userns, path, why));
    TRY(inject_layer(s, why));
    TRY(owner_enter(s->base, why));
    enum err e = overlay_mount(s, why);
    if (e == ERR_OK)
        e = root_check(s, why);
    owner_leave();
    return e;
}

/* ---- network ---- */

static enum err netns_enter(const char *path, int *ret_back, struct refusal *why)
{
    AUTO_CLOSE int back = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (back < 0 || fd < 0 || setns(fd, CLONE_NEWNET) < 0)
        return sys_fail(why, "setns");
    *ret_back = TAKE_FD(back);
    return ERR_OK;
}

/* The namespace belongs to the machine, not to the guest's user namespace: what its root would
 * otherwise have by right is allowed here, port 22 and ping. */
static enum err netns_ready(struct starting *s, const char *net, struct refusal *why)
{
    char path[GUEST_PATH_SIZE];
    int back = -1;

    TRY(run_folder(s, "sys", 0755, path, why));
    TRY(netns_enter(net, &back, why));
    enum err e = sys_write_text("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0", why);
    if (sys_write_text("/proc/sys/net/ipv4/ping_group_range", "0 2147483647", NULL) != ERR_OK)
        errno = 0; /* no ping then */
    if (e == ERR_OK && !sys_is_mount(path) &&
        mount("sysfs", path, "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        e = sys_fail(why, "mount of sysfs");
    CHECK(setns(back, CLONE_NEWNET) == 0);
    close(back);
    return e;
}

static enum err network_make(struct starting *s, struct refusal *why)
{
    char pin[GUEST_PATH_SIZE];

    CHECK(guest_run_path(s->paths, s->rec->lease, "net", pin));
    TRY(network_guest_create(s->paths, &s->env->cfg.net, s->rec->lease, s->rec->spec.address, pin,
                             why));
    return netns_ready(s, pin, why);
}

/* The rule batch is the one slow exec: it is waited for at the end only. */
static enum err ports_make(struct starting *s, struct refusal *why)
{
    const struct priv_guest *g = &s->rec->spec;

    return network_ports_set(&s->env->cfg.net, s->rec->lease, g->address, g->ports, g->port_count,
                             why);
}

enum err start_probe_open(const struct node_config *cfg, int *ret_fd, struct refusal *why)
{
    AUTO_CLOSE int node = -1;
    AUTO_CLOSE int back = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    TRY(network_open(&cfg->paths, &node, why));
    if (back < 0 || setns(node, CLONE_NEWNET) < 0)
        return sys_fail(why, "setns");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(setns(back, CLONE_NEWNET) == 0);
    if (fd < 0)
        return sys_fail(why, "socket");
    *ret_fd = fd;
    return ERR_OK;
}

/* ---- environment ---- */

static void env_add(struct container_spec *spec, const char *text)
{
    size_t name = strcspn(text, "=") + 1, i = 0;

    if (!strchr(text, '=') || strlen(text) >= 8192 || !str_utf8_ok(text))
        return;
    while (i < spec->env_count && strncmp(spec->env[i], text, name) != 0)
        i++;
    if (i < CONTAINER_ENV_MAX)
        spec->env[i] = text;
    if (i == spec->env_count && i < CONTAINER_ENV_MAX)
        spec->env_count++;
}

/* Image first, then the node, then the renter: later ones replace earlier ones. */
static enum err env_collect(struct starting *s, struct refusal *why)
{
    char *text AUTO_FREE = NULL;
    struct refusal ignored;

    env_add(s->spec, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    if (image_config(s->paths, s->rec->spec.image, &text, &ignored) == ERR_OK && text &&
        json_parse(text, strlen(text), IMAGE_CONFIG_MAX, &s->image, &ignored) == ERR_OK) {
        json_t *list = json_object_get(s->image, "env"), *item;
        size_t i;
        json_array_foreach(list, i, item)
        {
            if (json_is_string(item))
                env_add(s->spec, json_string_value(item));
        }
    }
    env_add(s->spec, "HOME=/root");
    /* Vendor hooks of whatever runtime stay away. */
    env_add(s->spec, "NVIDIA_VISIBLE_DEVICES=void");
    TRY(inject_cards(s->env, s->rec, s->spec, s->card_env, sizeof(s->card_env), why));
    for (const char *e = s->card_env; *e; e += strlen(e) + 1)
        env_add(s->spec, e);
    for (const char *e = s->rec->spec.env; *e; e += strlen(e) + 1)
        env_add(s->spec, e);
    return ERR_OK;
}

static enum err key_make(struct starting *s, struct refusal *why)
{
    char line[256];

    return sshd_host_key(s->paths, s->rec->spec.instance, line, why);
}

static enum err access_make(struct starting *s, struct start_result *r)
{
    char ours[GUEST_PATH_SIZE], target[GUEST_PATH_SIZE];

    TRY(env_collect(s, &r->why));
    TRY(side_finish(&s->key, &r->why));
    TRY(sshd_host_key(s->paths, s->rec->spec.instance, r->host_key, &r->why));
    TRY(sshd_lease_write(s->paths, s->rec->lease, s->rec->spec.instance, s->base, s->spec->env,
                         s->spec->env_count, &r->why));
    CHECK(guest_path(s->paths, s->rec->lease, "ssh", ours));
    TRY(run_folder(s, "ssh", 0755, target, &r->why));
    if (!sys_is_mount(target) && mount(ours, target, NULL, MS_BIND, NULL) < 0)
        return sys_fail(&r->why, "bind of the lease's folder");
    return ERR_OK;
}

/* ---- the whole ---- */

static enum err steps_run(struct starting *s, int out_fd, struct start_result *r)
{
    TRY(side_begin(s, &s->network, network_make, &r->why));
    TRY(side_begin(s, &s->key, key_make, &r->why));
    TRY(userns_range_take(s->paths, s->rec->lease, &s->base, &r->why));
    r->range_base = s->spec->range_base = s->base;
    /* So that the guest can open /dev/stdout again. */
    if (fchown(out_fd, s->base, s->base) < 0)
        return sys_fail(&r->why, "chown of the output");
    TRY(userns_open(s->base, &s->userns, &r->why));
    TRY(disks_attach(s, &r->why));
    step_set(s, GUEST_STEP_IMAGE);
    TRY(root_make(s, &r->why));
    step_set(s, GUEST_STEP_NETWORK);
    TRY(side_finish(&s->network, &r->why));
    if (s->rec->spec.port_count)
        TRY(side_begin(s, &s->ports, ports_make, &r->why));
    step_set(s, GUEST_STEP_RUNTIME);
    TRY(access_make(s, r));
    TRY(container_config_write(s->spec, &r->why));
    return container_run(s->paths, &s->env->runtime, s->rec->lease, out_fd, &r->pid, &r->why);
}

enum err start_guest(const struct helper_env *env, const struct guest_record *rec, int out_fd,
                     int progress_fd, struct start_result *ret_result, int *ret_probe_fd)
{
    struct container_spec *spec AUTO_FREE = mem_alloc(sizeof(*spec));
    struct start_result *r = ret_result;
    struct starting s = {.env = env,
                         .paths = &env->cfg.paths,
                         .rec = rec,
                         .spec = spec,
                         .progress_fd = progress_fd,
                         .userns = -1,
                         .root = -1,
                         .step_from_us = now_us()};

    memset(r, 0, sizeof(*r));
    spec->paths = &env->cfg.paths;
    spec->cgroup = env->cfg.cgroup;
    spec->server = env->server;
    spec->lease = rec->lease;
    spec->guest = &rec->spec;
    enum err e = steps_run(&s, out_fd, r);
    if (e == ERR_OK) {
        step_set(&s, GUEST_STEP_SSH);
        e = start_probe_open(&env->cfg, ret_probe_fd, &r->why);
    }
    struct side *sides[] = {&s.network, &s.key, &s.ports};
    for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
        struct refusal why = {0};
        enum err side = side_finish(sides[i], &why);
        if (e == ERR_OK && side != ERR_OK) {
            e = side;
            r->why = why;
        }
    }
    r->err = e;
    json_decref(s.image);
    if (s.userns >= 0)
        close(s.userns);
    if (s.root >= 0)
        close(s.root);
    return r->err;
}
