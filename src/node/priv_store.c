/* priv_store.c: the helper's answers about the machine, images and disks. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "node/disk.h"
#include "node/helperint.h"
#include "node/paths.h"
#include "node/sys.h"

#define STRAYS_FRESH_MS 5000

enum err priv_hello(struct helper_state *h, struct priv_rep *rep)
{
    static const char *const layouts[] = {"v2", "hybrid", "v1"};
    const struct node_config *cfg = &h->env.cfg;
    struct utsname u;
    struct rlimit files;

    CHECK(uname(&u) == 0 && getrlimit(RLIMIT_NOFILE, &files) == 0);
    (void)str_copy(rep->hello.runtime, sizeof(rep->hello.runtime),
                   h->starts_possible ? h->env.runtime.name : "");
    (void)str_copy(rep->hello.cgroup, sizeof(rep->hello.cgroup), layouts[cgroup_layout_probe()]);
    (void)str_copy(rep->hello.ssh_server, sizeof(rep->hello.ssh_server), h->env.server);
    (void)str_copy(rep->hello.image_driver, sizeof(rep->hello.image_driver), "erofs");
    (void)str_copy(rep->hello.disk_driver, sizeof(rep->hello.disk_driver), "loop");
    (void)str_copy(rep->hello.kernel, sizeof(rep->hello.kernel), u.release);
    TRY(disk_pool(&cfg->paths, &rep->hello.pool_mib, &rep->hello.pool_free_mib, &rep->why));
    if (cfg->pool_mib && cfg->pool_mib < rep->hello.pool_mib) {
        int64_t used = rep->hello.pool_mib - rep->hello.pool_free_mib;
        rep->hello.pool_mib = cfg->pool_mib;
        rep->hello.pool_free_mib = MAX(0, cfg->pool_mib - used);
    }
    rep->hello.nofile_max = (int32_t)MIN(files.rlim_max, (rlim_t)1048576);
    rep->hello.online_grow = disk_online_grow();
    rep->hello.nat_out = cfg->net.nat_out;
    rep->hello.net_base = cfg->net.base;
    rep->hello.net_bits = cfg->net.bits;
    /* Why nothing can be started here, for the operator: not an error of this question. */
    if (!h->starts_possible)
        rep->why = h->start_why;
    return ERR_OK;
}

struct store_arg {
    struct helper_state *h;
    const struct priv_req *req;
};

/* ---- images ---- */

static enum err import_run(void *arg, struct refusal *why)
{
    struct store_arg *a = arg;

    return image_import(&a->h->env.cfg.paths, a->req->image.digest, a->req->image.name, why);
}

static enum err remove_run(void *arg, struct refusal *why)
{
    struct store_arg *a = arg;

    return image_remove(&a->h->env.cfg.paths, a->req->image.digest, why);
}

struct image_use {
    const struct node_paths *paths;
    const char *digest;
    struct id by;
};

static bool image_used(void *arg, struct id lease)
{
    struct image_use *u = arg;
    struct guest_record *rec AUTO_FREE = mem_alloc(sizeof(*rec));

    if (guest_load(u->paths, lease, rec, NULL) == ERR_OK && str_eq(rec->spec.image, u->digest))
        u->by = lease;
    return !u->by.s[0];
}

enum err priv_image(struct helper_state *h, const struct priv_req *req, struct priv_rep *rep)
{
    struct store_arg a = {.h = h, .req = req};
    const char *key = req->image.digest + 7; /* without "sha256:" */
    struct image_use use = {.paths = &h->env.cfg.paths, .digest = req->image.digest};
    struct priv_rep *now AUTO_FREE = mem_alloc(sizeof(*now));

    image_stat(&h->env.cfg.paths, req->image.digest, now);
    if (req->op == PRIV_IMAGE_STAT) {
        rep->image = now->image;
        rep->why = now->why;
        if (jobs_running(&h->jobs, JOB_IMPORT, key)) {
            rep->image.state = IMAGE_WORKING;
        } else if (now->image.state != IMAGE_READY) {
            rep->image.fail = (uint32_t)jobs_last(&h->jobs, JOB_IMPORT, key, &rep->why);
            rep->image.state = rep->image.fail ? IMAGE_FAILED : IMAGE_NONE;
        }
        return ERR_OK;
    }
    if (req->op == PRIV_IMAGE_IMPORT) {
        if (now->image.state == IMAGE_READY)
            return ERR_OK;
        if (!jobs_running(&h->jobs, JOB_IMPORT, key))
            jobs_forget(&h->jobs, JOB_IMPORT, key);
        return jobs_start(&h->jobs, JOB_IMPORT, key, import_run, &a, helper_child, &rep->why);
    }
    helper_leases_each(use.paths, image_used, &use);
    if (use.by.s[0])
        return sys_refuse(&rep->why, ERR_IN_USE, "what", "image", "name", req->image.digest, "by",
                          use.by.s, NULL);
    if (jobs_running(&h->jobs, JOB_IMPORT, key))
        return refuse(&rep->why, ERR_BUSY);
    jobs_forget(&h->jobs, JOB_IMPORT, key);
    return jobs_start(&h->jobs, JOB_IMAGE_REMOVE, key, remove_run, &a, helper_child, &rep->why);
}

/* ---- disks ---- */

static enum err ensure_run(void *arg, struct refusal *why)
{
    struct store_arg *a = arg;

    return disk_ensure(&a->h->env.cfg.paths, a->req->lease, a->req->disk.size_mib, why);
}

static enum err erase_run(void *arg, struct refusal *why)
{
    struct store_arg *a = arg;

    return disk_erase(&a->h->env.cfg.paths, a->req->lease, why);
}

struct disk_use {
    const struct node_paths *paths;
    struct id disk, by;
};

static bool disk_used(void *arg, struct id lease)
{
    struct disk_use *u = arg;
    struct guest_record *rec AUTO_FREE = mem_alloc(sizeof(*rec));

    if (guest_load(u->paths, lease, rec, NULL) != ERR_OK)
        return true;
    if (str_eq(rec->spec.system_disk.s, u->disk.s))
        u->by = lease;
    for (uint32_t i = 0; i < rec->spec.data_count; i++) {
        if (str_eq(rec->spec.data[i].disk.s, u->disk.s))
            u->by = lease;
    }
    return !u->by.s[0];
}

static enum err disk_state(struct helper_state *h, struct id disk, struct priv_rep *rep)
{
    disk_stat(&h->env.cfg.paths, disk, rep);
    if (jobs_running(&h->jobs, JOB_ERASE, disk.s)) {
        rep->disk.state = DISK_ERASING;
        return ERR_OK;
    }
    /* Not there yet is not "none": who was told so would forget what is there a moment later. */
    if (jobs_running(&h->jobs, JOB_DISK, disk.s))
        return rep->disk.state == DISK_NONE ? refuse(&rep->why, ERR_BUSY) : ERR_OK;
    /* How the last attempt failed, as the error of this question. */
    TRY(jobs_last(&h->jobs, JOB_DISK, disk.s, &rep->why));
    return jobs_last(&h->jobs, JOB_ERASE, disk.s, &rep->why);
}

enum err priv_disk(struct helper_state *h, const struct priv_req *req, struct priv_rep *rep)
{
    struct store_arg a = {.h = h, .req = req};
    struct disk_use use = {.paths = &h->env.cfg.paths, .disk = req->lease};
    struct priv_rep *now AUTO_FREE = mem_alloc(sizeof(*now));
    const char *key = req->lease.s;

    if (req->op == PRIV_DISK_STAT)
        return disk_state(h, req->lease, rep);
    if (req->op == PRIV_DISK_ENSURE) {
        disk_stat(&h->env.cfg.paths, req->lease, now);
        if ((now->disk.state == DISK_READY || now->disk.state == DISK_ATTACHED) &&
            now->disk.size_mib >= req->disk.size_mib)
            return ERR_OK;
        if (!jobs_running(&h->jobs, JOB_DISK, key))
            jobs_forget(&h->jobs, JOB_DISK, key);
        return jobs_start(&h->jobs, JOB_DISK, key, ensure_run, &a, helper_child, &rep->why);
    }
    helper_leases_each(use.paths, disk_used, &use);
    if (use.by.s[0])
        return sys_refuse(&rep->why, ERR_DISK_IN_USE, "name", key, "instance", use.by.s, NULL);
    if (jobs_running(&h->jobs, JOB_DISK, key))
        return refuse(&rep->why, ERR_BUSY);
    if (req->op == PRIV_DISK_FORGET) {
        if (jobs_running(&h->jobs, JOB_ERASE, key))
            return refuse(&rep->why, ERR_BUSY);
        jobs_forget(&h->jobs, JOB_DISK, key);
        jobs_forget(&h->jobs, JOB_ERASE, key);
        return disk_forget(&h->env.cfg.paths, req->lease, &rep->why);
    }
    return jobs_start(&h->jobs, JOB_ERASE, key, erase_run, &a, helper_child, &rep->why);
}

/* ---- what is here ---- */

static bool lease_collect(void *arg, struct id lease)
{
    struct priv_rep *rep = arg;

    if (rep->list.lease_count == ARRAY_LEN(rep->list.leases))
        return false;
    rep->list.leases[rep->list.lease_count++] = lease;
    return true;
}

static void disks_collect(const struct node_paths *p, struct priv_rep *rep)
{
    DIR *dir = opendir(p->disks);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) && rep->list.disk_count < ARRAY_LEN(rep->list.disks)) {
        struct id disk;
        size_t n = strcspn(entry->d_name, ".");
        if (!str_printf(disk.s, sizeof(disk.s), "%.*s", (int)n, entry->d_name) ||
            !paths_id_ok(disk) || !str_starts(disk.s, "dsk_"))
            continue;
        bool known = false;
        for (uint32_t i = 0; i < rep->list.disk_count; i++)
            known |= str_eq(rep->list.disks[i].s, disk.s);
        if (!known)
            rep->list.disks[rep->list.disk_count++] = disk;
    }
    if (dir)
        closedir(dir);
}

static void strays_path(const struct node_paths *p, char path[GUEST_PATH_SIZE])
{
    CHECK(str_printf(path, GUEST_PATH_SIZE, "%s/strays", p->run));
}

/* Looking needs the firewall's tool, so a child looks and the answer is the last one's. */
static enum err strays_run(void *arg, struct refusal *why)
{
    struct store_arg *a = arg;
    const struct node_config *cfg = &a->h->env.cfg;
    struct priv_rep *rep AUTO_FREE = mem_alloc(sizeof(*rep));
    char path[GUEST_PATH_SIZE];

    helper_leases_each(&cfg->paths, lease_collect, rep);
    strays_list(&cfg->paths, &cfg->net, rep->list.leases, rep->list.lease_count, rep);
    strays_path(&cfg->paths, path);
    return sys_write_durable(path, &rep->list, sizeof(rep->list), 0600, why);
}

enum err priv_list(struct helper_state *h, struct priv_rep *rep)
{
    const struct node_paths *p = &h->env.cfg.paths;
    struct priv_rep *last AUTO_FREE = mem_alloc(sizeof(*last));
    struct store_arg a = {.h = h};
    char path[GUEST_PATH_SIZE];

    helper_leases_each(p, lease_collect, rep);
    disks_collect(p, rep);
    strays_path(p, path);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && read(fd, &last->list, sizeof(last->list)) == (ssize_t)sizeof(last->list)) {
        rep->list.stray_count = MIN(last->list.stray_count, (uint32_t)ARRAY_LEN(rep->list.strays));
        memcpy(rep->list.strays, last->list.strays, sizeof(rep->list.strays));
    }
    if (guest_now() >= h->strays_at &&
        jobs_start(&h->jobs, JOB_STRAYS, "all", strays_run, &a, helper_child, NULL) == ERR_OK)
        h->strays_at = guest_now() + STRAYS_FRESH_MS;
    return ERR_OK;
}
