/* undo.c: everything that start.c made, in the opposite order. Each step works on what is left of a
 * start that got anywhere, and may be repeated. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "node/cgroup.h"
#include "node/start.h"
#include "node/sys.h"

static enum err mount_remove(const struct node_paths *p, struct id lease, const char *name,
                             struct refusal *why)
{
    char path[GUEST_PATH_SIZE];

    CHECK(guest_run_path(p, lease, name, path));
    /* More than one at the same place: a start that was repeated. */
    for (int i = 0; i < 8 && sys_is_mount(path); i++) {
        if (umount2(path, UMOUNT_NOFOLLOW) < 0)
            return sys_fail(why, "umount");
    }
    return ERR_OK;
}

/* The driver knows its disks; the folder is only where they were seen. */
static enum err disk_leave(const struct node_paths *p, struct id lease, struct id disk,
                           const char *name, struct refusal *why)
{
    char path[GUEST_PATH_SIZE];

    CHECK(guest_run_path(p, lease, name, path));
    if (disk.s[0])
        TRY(disk_detach(p, disk, path, why));
    return mount_remove(p, lease, name, why);
}

static void runtime_state_remove(const struct node_paths *p, struct id lease)
{
    char path[GUEST_PATH_SIZE];

    CHECK(str_printf(path, sizeof(path), "%s/runtime", p->run));
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        sys_remove_tree(fd, lease.s);
}

static bool folder_remove(const char *parent, struct id lease)
{
    AUTO_CLOSE int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || sys_remove_tree(fd, lease.s);
}

enum err start_rest_remove(const struct node_config *cfg, const struct guest_record *rec,
                           struct refusal *why)
{
    const struct node_paths *p = &cfg->paths;
    char path[GUEST_PATH_SIZE];

    cgroup_kill(rec->lease);
    TRY(cgroup_remove(rec->lease, why));
    runtime_state_remove(p, rec->lease);
    CHECK(guest_run_path(p, rec->lease, "pid", path));
    unlink(path);
    TRY(mount_remove(p, rec->lease, "sys", why));
    CHECK(guest_run_path(p, rec->lease, "net", path));
    return network_guest_remove(p, &cfg->net, rec->lease, rec->spec.address, path, why);
}

enum err start_undo(const struct node_config *cfg, const struct guest_record *rec,
                    struct refusal *why)
{
    const struct node_paths *p = &cfg->paths;
    const struct priv_guest *g = &rec->spec;
    char path[GUEST_PATH_SIZE], name[16];

    cgroup_kill(rec->lease);
    CHECK(guest_run_path(p, rec->lease, "net", path));
    TRY(network_guest_remove(p, &cfg->net, rec->lease, g->address, path, why));
    TRY(mount_remove(p, rec->lease, "ssh", why));
    TRY(mount_remove(p, rec->lease, "sys", why));
    TRY(mount_remove(p, rec->lease, "root", why));
    TRY(mount_remove(p, rec->lease, "image", why));
    for (uint32_t i = 0; i < g->data_count; i++) {
        CHECK(str_printf(name, sizeof(name), "data%u", i));
        TRY(disk_leave(p, rec->lease, g->data[i].disk, name, why));
    }
    TRY(disk_leave(p, rec->lease, g->system_disk, "disk", why));
    TRY(cgroup_remove(rec->lease, why));
    runtime_state_remove(p, rec->lease);
    inject_undo(p, rec->lease);
    userns_range_give(p, rec->lease);
    CHECK(str_printf(path, sizeof(path), "%s/leases", p->run));
    if (!folder_remove(path, rec->lease) || !folder_remove(p->leases, rec->lease))
        return refusef(why, ERR_SYSTEM, "call", "removal of the lease's folder");
    return ERR_OK;
}
