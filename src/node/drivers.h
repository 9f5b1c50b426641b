/* drivers.h: the seam between the root helper (priv, guard, container) and what it drives (image,
 * disk, network, userns). All of it runs as root in the helper's private mount namespace; blocking
 * calls are made in a child. Every call is idempotent: done already is done. Single thread. */
#pragma once

#include "node/privmsg.h"

/* Folders of one node, all below the state folder; made by paths_init with their owners and modes.
 */
struct node_paths {
    char state[256];     /* STATE */
    char staging[300];   /* STATE/agent/staging: the agent's; OCI layouts arrive here */
    char priv[300];      /* STATE/priv: root, 0700 */
    char images[320];    /* STATE/priv/images/<hex>.erofs (or <hex>/ when unpacked) */
    char disks[320];     /* STATE/priv/disks/<disk id>.img */
    char leases[320];    /* STATE/priv/leases/<lease id>/ */
    char instances[320]; /* STATE/priv/instances/<instance id>/: host keys */
    /* A tmpfs that exists only in the helper's private mount namespace, reachable for the id ranges
     * of guests (mode 0711 all the way). Every mount target and pin handed to a driver is below
     * run/leases/<lease id>/; a driver's own pins and mounts go to run/<driver>/. Gone with the
     * namespace, which the supervisor, the helper and every guard hold. */
    char run[64];
    char tag[9]; /* 8 hex digits of the state folder: two nodes on one machine never mix names */
};

struct node_net {
    uint32_t base, bits; /* the node's own range, e.g. 10.213.0.0/16; .1 is the bridge */
    uint16_t port_min, port_max;
    bool nat_out;   /* may switch on forwarding in the host's namespace */
    char table[32]; /* name of the one nft table in the host's namespace */
    char link[16];  /* name of the one veth in the host's namespace */
};

/* userns.c: id ranges. Lease number n (0-based, below 30000) owns ids [base + n*65536, +65536). */
#define USERNS_IDS 65536
enum err userns_range_take(const struct node_paths *p, struct id lease, uint32_t *ret_base,
                           struct refusal *why); /* durable; same lease → same range */
void userns_range_give(const struct node_paths *p, struct id lease);
enum err userns_open(uint32_t base, int *ret_fd, struct refusal *why); /* fd for idmapped mounts */

/* image.c */
enum err image_import(const struct node_paths *p, const char *digest, const char *staging_name,
                      struct refusal *why); /* blocking; see image.h for limits */
void image_stat(const struct node_paths *p, const char *digest, struct priv_rep *rep);
enum err image_remove(const struct node_paths *p, const char *digest, struct refusal *why);
/* Read-only lower at the folder `target`, owners shifted by userns_fd. */
enum err image_mount(const struct node_paths *p, const char *digest, int userns_fd,
                     const char *target, struct refusal *why);
/* Image config kept from import; JSON text, at most 64 KiB; owned by caller: {"env":["K=V"],
 * "argv":["…"],"workdir":"/","user":"…","labels":{},"architecture":"amd64","os":"linux"}. */
enum err image_config(const struct node_paths *p, const char *digest, char **ret_json,
                      struct refusal *why);

/* disk.c: a loop ext4 image from a sparse template; bytes accounted in full against the pool. */
enum err disk_ensure(const struct node_paths *p, struct id disk, int64_t size_mib,
                     struct refusal *why);
void disk_stat(const struct node_paths *p, struct id disk, struct priv_rep *rep);
enum err disk_attach(const struct node_paths *p, struct id disk, struct id lease, int userns_fd,
                     const char *target, struct refusal *why);
enum err disk_detach(const struct node_paths *p, struct id disk, const char *target,
                     struct refusal *why);
enum err disk_erase(const struct node_paths *p, struct id disk, struct refusal *why); /* blocking */
enum err disk_forget(const struct node_paths *p, struct id disk, struct refusal *why);
bool disk_online_grow(void); /* probed once */

/* network.c: everything lives in one namespace of the node's own behind one veth pair. */
enum err network_init(const struct node_paths *p, const struct node_net *n, struct refusal *why);
/* Makes (or finds) the guest's namespace pinned at `pin` and wires it. */
enum err network_guest_create(const struct node_paths *p, const struct node_net *n, struct id lease,
                              uint32_t address, const char *pin, struct refusal *why);
enum err network_guest_remove(const struct node_paths *p, const struct node_net *n, struct id lease,
                              uint32_t address, const char *pin, struct refusal *why);
enum err network_ports_set(const struct node_net *n, struct id lease, uint32_t address,
                           const struct priv_port *ports, size_t count, struct refusal *why);
enum err network_counters(const struct node_paths *p, struct id lease, int64_t *ret_rx,
                          int64_t *ret_tx); /* as the guest sees them */
void network_fini(const struct node_paths *p,
                  const struct node_net *n); /* removes all that is ours */

/* cgroup.c */
enum cgroup_layout { CGROUP_V2, CGROUP_HYBRID, CGROUP_V1 };
enum cgroup_layout cgroup_layout_probe(void);
void cgroup_init(const char *root); /* "/suanli-<tag>": ours below every controller */
void cgroup_meter(struct id lease, struct priv_rep *rep);     /* rep->meter, zero where unknown */
enum err cgroup_remove(struct id lease, struct refusal *why); /* retries EBUSY for some ms */
void cgroup_fini(void); /* our own folder, unless a guest still lives in it */

/* What exists here of the given kind and belongs to no lease in `leases`: for PRIV_LIST (S8). */
void strays_list(const struct node_paths *p, const struct node_net *n, const struct id *leases,
                 size_t count, struct priv_rep *rep);
