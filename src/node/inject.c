/* inject.c: cards into a guest. The request names UUIDs; everything else (nodes, files, minors)
 * comes from this machine's own inventory. Nothing of an image and no vendor hook takes part.
 *
 * Simulated cards are a memory file each, below /dev/suanli-sim, with a text beside them that says
 * so. NVIDIA cards are their device nodes plus the driver's user-space files, bound read-only at
 * /usr/local/nvidia (the place vendors' images already search). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "node/start.h"
#include "node/sys.h"

/* Of the driver's release, same version as the kernel module: never from the image. */
static const char *const nvidia_libraries[] = {
    "libcuda.so.*",          "libcudadebugger.so.*",      "libnvidia-ml.so.*",
    "libnvidia-cfg.so.*",    "libnvidia-nvscp.so.*",      "libnvidia-ptxjitcompiler.so.*",
    "libnvidia-nvvm.so.*",   "libnvidia-gpucomp.so.*",    "libnvidia-allocator.so.*",
    "libnvidia-opencl.so.*", "libnvidia-tileiras.so.*",   "libnvcuvid.so.*",
    "libnvidia-encode.so.*", "libnvidia-opticalflow.so.*"};
static const char *const nvidia_programs[] = {"nvidia-smi", "nvidia-debugdump",
                                              "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"};
static const char *const nvidia_shared[] = {"/dev/nvidiactl", "/dev/nvidia-uvm",
                                            "/dev/nvidia-uvm-tools"};
static const char *const library_folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib",
                                              "/usr/lib/aarch64-linux-gnu"};

/* ---- inventory ---- */

static bool field_read(const char *text, const char *key, char *buf, size_t size)
{
    const char *p = strstr(text, key);

    if (!p)
        return false;
    p += strlen(key);
    p += strspn(p, " \t:");
    size_t n = strcspn(p, " \t\n");
    return n < size && str_printf(buf, size, "%.*s", (int)n, p);
}

/* "GPU UUID: GPU-…" and "Device Minor: 0" of each card, from the kernel driver itself. */
static void nvidia_read(const char *proc, struct gpu_list *list)
{
    char folder[160];
    struct dirent *entry;

    CHECK(str_printf(folder, sizeof(folder), "%s/gpus", proc));
    DIR *dir = opendir(folder);

    while (dir && (entry = readdir(dir)) && list->count < GPU_CARDS_MAX) {
        char path[320], text[2048], minor[16];
        struct gpu_card *card = &list->at[list->count];
        if (entry->d_name[0] == '.' ||
            !str_printf(path, sizeof(path), "%s/%.100s/information", folder, entry->d_name) ||
            sys_read_small(path, text, sizeof(text)) <= 0)
            continue;
        memset(card, 0, sizeof(*card));
        if (field_read(text, "GPU UUID", card->uuid, sizeof(card->uuid)) &&
            field_read(text, "Device Minor", minor, sizeof(minor))) {
            card->minor = (int32_t)strtol(minor, NULL, 10);
            list->count++;
        }
    }
    if (dir)
        closedir(dir);
}

/* ---- simulated cards ---- */

static bool sim_path(const struct node_paths *p, struct id lease, const char *name,
                     char path[GUEST_PATH_SIZE])
{
    return str_printf(path, GUEST_PATH_SIZE, "%s/sim%s%s%s%s", p->run, lease.s[0] ? "/" : "",
                      lease.s, *name ? "/" : "", name);
}

/* All cards together bound the file system; what a guest writes counts against its own memory. */
static enum err sim_mount(const struct helper_env *env, struct refusal *why)
{
    char path[GUEST_PATH_SIZE], options[96];
    int64_t mib = 16;

    for (size_t i = 0; i < env->gpus->count; i++)
        mib += env->gpus->at[i].memory_mib;
    CHECK(sim_path(&env->cfg.paths, (struct id){""}, "", path) &&
          str_printf(options, sizeof(options), "mode=0711,size=%lldm", (long long)mib));
    TRY(sys_dir_ensure(path, 0711, 0, 0, why));
    if (!sys_is_mount(path) &&
        mount("sim", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0)
        return sys_fail(why, "mount for simulated cards");
    return ERR_OK;
}

static enum err file_make(const char *folder, const char *name, uint32_t owner, mode_t mode,
                          int64_t bytes, const char *text, struct refusal *why)
{
    char path[GUEST_PATH_SIZE + 32];

    CHECK(str_printf(path, sizeof(path), "%s/%s", folder, name));
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ||
        (bytes && ftruncate(fd, bytes) < 0) || fchmod(fd, mode) < 0 || fchown(fd, owner, owner) < 0)
        return sys_fail(why, "file of a simulated card");
    return ERR_OK;
}

static enum err sim_inject(const struct helper_env *env, const struct guest_record *rec,
                           struct container_spec *spec, struct refusal *why)
{
    struct container_bind *b = &spec->binds[spec->bind_count++];
    AUTO_STRBUF struct strbuf text;

    strbuf_init(&text, 8192);
    TRY(sim_mount(env, why));
    CHECK(sim_path(&env->cfg.paths, rec->lease, "", b->source) &&
          str_copy(b->target, sizeof(b->target), "/dev/suanli-sim"));
    TRY(sys_dir_ensure(b->source, 0755, 0, 0, why));
    strbuf_add(&text, "SIMULATED CARDS. No computation happens here: each file is the memory of a "
                      "card\nthat does not exist.\n");
    for (uint32_t i = 0; i < rec->spec.gpu_count; i++) {
        const struct gpu_card *c = gpu_find(env->gpus, rec->spec.gpus[i]);
        char name[16];
        CHECK(c && str_printf(name, sizeof(name), "card%u", i));
        strbuf_addf(&text, "%s %s %s %lld MiB\n", name, c->uuid, c->model,
                    (long long)c->memory_mib);
        TRY(file_make(b->source, name, spec->range_base, 0600, c->memory_mib * 1024 * 1024, "",
                      why));
    }
    return file_make(b->source, "SIMULATED", 0, 0444, 0, strbuf_str(&text), why);
}

void inject_undo(const struct node_paths *p, struct id lease)
{
    char path[GUEST_PATH_SIZE];

    CHECK(sim_path(p, (struct id){""}, "", path));
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        sys_remove_tree(fd, lease.s);
}

/* ---- NVIDIA ---- */

static bool device_add(struct container_spec *spec, const char *path)
{
    struct stat st;
    struct container_device *d = &spec->devices[spec->device_count];

    if (spec->device_count == ARRAY_LEN(spec->devices) || stat(path, &st) < 0 ||
        !S_ISCHR(st.st_mode))
        return false;
    *d = (struct container_device){.major = major(st.st_rdev), .minor = minor(st.st_rdev)};
    spec->device_count++;
    return str_copy(d->path, sizeof(d->path), path);
}

/* The files that go along, with a sum over names, sizes and times: another driver, another folder.
 */
struct driver_files {
    glob_t found;     /* owned */
    size_t libraries; /* the first ones; programs follow */
    uint64_t sum;
};

static void driver_files_find(struct driver_files *d)
{
    char pattern[300];
    struct stat st;

    memset(d, 0, sizeof(*d));
    d->sum = 14695981039346656037u;
    for (size_t i = 0; i < ARRAY_LEN(library_folders); i++) {
        for (size_t k = 0; k < ARRAY_LEN(nvidia_libraries); k++) {
            CHECK(str_printf(pattern, sizeof(pattern), "%s/%s", library_folders[i],
                             nvidia_libraries[k]));
            glob(pattern, d->found.gl_pathc ? GLOB_APPEND : 0, NULL, &d->found);
        }
    }
    d->libraries = d->found.gl_pathc;
    for (size_t k = 0; k < ARRAY_LEN(nvidia_programs); k++) {
        CHECK(str_printf(pattern, sizeof(pattern), "/usr/bin/%s", nvidia_programs[k]));
        glob(pattern, d->found.gl_pathc ? GLOB_APPEND : 0, NULL, &d->found);
    }
    for (size_t i = 0; i < d->found.gl_pathc; i++) {
        if (stat(d->found.gl_pathv[i], &st) < 0)
            continue;
        uint64_t parts[3] = {(uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec, st.st_ino};
        for (size_t k = 0; k < sizeof(parts); k++)
            d->sum = (d->sum ^ ((const unsigned char *)parts)[k]) * 1099511628211u;
    }
}

static enum err driver_copy(int priv, const struct driver_files *d, const char *name,
                            struct refusal *why)
{
    sys_remove_tree(priv, "nvidia.new");
    if (mkdirat(priv, "nvidia.new", 0755) < 0)
        return sys_fail(why, "mkdir for the driver");
    AUTO_CLOSE int top = openat(priv, "nvidia.new", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0 || mkdirat(top, "lib64", 0755) < 0 || mkdirat(top, "bin", 0755) < 0)
        return sys_fail(why, "mkdir for the driver");
    AUTO_CLOSE int lib = openat(top, "lib64", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int bin = openat(top, "bin", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < d->found.gl_pathc; i++) {
        char real[PATH_MAX];
        const char *from = d->found.gl_pathv[i], *base = strrchr(from, '/') + 1;
        int to = i < d->libraries ? lib : bin;
        if (!realpath(from, real))
            continue;
        /* Once under its own name, and as a link under the others. */
        const char *own = strrchr(real, '/') + 1;
        bool ok = sys_file_copy(real, to, own, 0755) || errno == EEXIST;
        if (ok && !str_eq(base, own))
            ok = symlinkat(own, to, base) == 0 || errno == EEXIST;
        if (!ok)
            return sys_fail(why, "copy of the driver's files");
    }
    if (syncfs(top) < 0 || renameat(priv, "nvidia.new", priv, name) < 0)
        return sys_fail(why, "rename of the driver's folder");
    return ERR_OK;
}

/* STATE/priv/nvidia-<sum>, bound to RUN/nvidia. Copied, so that an upgrade of the driver's package
 * changes nothing under a running guest, and nothing but this list is in reach. */
static enum err driver_folder_init(const struct node_paths *p, struct refusal *why)
{
    struct driver_files d;
    char name[64], path[GUEST_PATH_SIZE], target[GUEST_PATH_SIZE];
    AUTO_CLOSE int priv = open(p->priv, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum err e = ERR_OK;

    driver_files_find(&d);
    CHECK(str_printf(name, sizeof(name), "nvidia-%016" PRIx64, d.sum) &&
          str_printf(path, sizeof(path), "%s/%s", p->priv, name) &&
          str_printf(target, sizeof(target), "%s/nvidia", p->run));
    if (access(path, F_OK) < 0)
        e = driver_copy(priv, &d, name, why);
    globfree(&d.found);
    TRY(e);
    TRY(sys_dir_ensure(target, 0755, 0, 0, why));
    if (sys_is_mount(target))
        umount2(target, MNT_DETACH | UMOUNT_NOFOLLOW);
    if (mount(path, target, NULL, MS_BIND, NULL) < 0)
        return sys_fail(why, "bind of the driver's folder");
    return ERR_OK;
}

static enum err nvidia_inject(const struct helper_env *env, const struct guest_record *rec,
                              struct container_spec *spec, struct refusal *why)
{
    struct container_bind *b = &spec->binds[spec->bind_count++];
    char node[64];

    for (uint32_t i = 0; i < rec->spec.gpu_count; i++) {
        const struct gpu_card *c = gpu_find(env->gpus, rec->spec.gpus[i]);
        CHECK(c && str_printf(node, sizeof(node), "/dev/nvidia%d", c->minor));
        if (!device_add(spec, node))
            return refusef(why, ERR_UNAVAILABLE, "why", "%s is not there", node);
    }
    for (size_t i = 0; i < ARRAY_LEN(nvidia_shared); i++) {
        if (!device_add(spec, nvidia_shared[i]) && i == 0)
            return refusef(why, ERR_UNAVAILABLE, "why", "%s is not there", nvidia_shared[i]);
    }
    b->read_only = true;
    CHECK(str_copy(b->target, sizeof(b->target), "/usr/local/nvidia"));
    CHECK(str_printf(b->source, sizeof(b->source), "%s/nvidia", env->cfg.paths.run));
    return ERR_OK;
}

/* ---- both ---- */

static void env_line(char **at, char *end, const char *text)
{
    size_t n = strlen(text) + 1;

    CHECK((size_t)(end - *at) > n);
    memcpy(*at, text, n);
    *at += n;
    **at = '\0';
}

enum err inject_cards(const struct helper_env *env, const struct guest_record *rec,
                      struct container_spec *spec, char *env_text, size_t env_size,
                      struct refusal *why)
{
    char *at = env_text, line[1200] = "SUANLI_SIMULATED_GPUS=";

    *at = '\0';
    if (rec->spec.gpu_count == 0)
        return ERR_OK;
    for (uint32_t i = 0; i < rec->spec.gpu_count; i++) {
        if (!gpu_find(env->gpus, rec->spec.gpus[i]))
            return sys_refuse(why, ERR_NOT_FOUND, "what", "card", "name", rec->spec.gpus[i], NULL);
    }
    if (env->gpus->simulated) {
        for (uint32_t i = 0; i < rec->spec.gpu_count; i++) {
            size_t n = strlen(line);
            CHECK(str_printf(line + n, sizeof(line) - n, "%s%s", i ? "," : "", rec->spec.gpus[i]));
        }
        env_line(&at, env_text + env_size, line);
        return sim_inject(env, rec, spec, why);
    }
    env_line(&at, env_text + env_size, "LD_LIBRARY_PATH=/usr/local/nvidia/lib64");
    env_line(&at, env_text + env_size, "NVIDIA_DRIVER_CAPABILITIES=compute,utility");
    return nvidia_inject(env, rec, spec, why);
}

enum err inject_init(const struct node_config *cfg, struct gpu_list *ret_list, struct refusal *why)
{
    struct gpu *g;

    memset(ret_list, 0, sizeof(*ret_list));
    if (!str_starts(cfg->gpu, "sim:")) {
        if (!str_eq(cfg->gpu, "none"))
            nvidia_read(cfg->nvidia_proc, ret_list);
        return ret_list->count ? driver_folder_init(&cfg->paths, why) : ERR_OK;
    }
    TRY(gpu_open(cfg->gpu, cfg->state, "", &g, why));
    enum err e = gpu_read(g, ret_list, why);
    gpu_close(g);
    return e;
}
