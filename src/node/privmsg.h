/* privmsg.h: what the unprivileged agent may ask of the root helper.
 *
 * One request, one reply, each exactly one fixed-size struct over a SOCK_SEQPACKET socket pair.
 * The helper trusts nothing in it: ids must have the form of an id, counts and sizes are checked
 * against its own limits, devices against its own inventory, and no field is a path of the agent's
 * choosing (mount points inside the guest are names below /mnt or /root, checked).
 *
 * All operations are level-triggered and may be repeated. Slow work (image import, guest start,
 * erase) runs in a child; the reply says "working" and the agent asks again with the STAT form.
 * Times are boot-time milliseconds (CLOCK_BOOTTIME) of this machine. */
#pragma once

#include "base/id.h"

#define PRIV_VERSION 1
#define PRIV_DISKS_MAX 8
#define PRIV_PORTS_MAX 16
#define PRIV_GPUS_MAX 16
#define PRIV_TEXT_MAX 12288
#define PRIV_LIST_MAX 256
#define PRIV_DIGEST_SIZE 72 /* "sha256:" + 64 hex + NUL */
#define GPU_UUID_SIZE 48

enum priv_op {
    PRIV_HELLO = 1,    /* what this machine can do: rep.hello */
    PRIV_IMAGE_IMPORT, /* image: agent's staging folder "staging/<name>" is an OCI layout; async */
    PRIV_IMAGE_STAT,
    PRIV_IMAGE_REMOVE,
    PRIV_DISK_ENSURE, /* disk: create, or grow to size_mib (never shrinks) */
    PRIV_DISK_STAT,
    PRIV_DISK_ERASE,  /* async; a disk in use is refused with ERR_DISK_IN_USE */
    PRIV_DISK_FORGET, /* after an erase: drop the record */
    PRIV_GUEST_START, /* guest: async, by a new guard */
    PRIV_GUEST_STAT,
    PRIV_GUEST_DEADLINE,  /* deadline */
    PRIV_GUEST_STOP,      /* deadline.grace_ms: TERM now, KILL after the grace */
    PRIV_GUEST_CLEAN,     /* removes all that belongs to an ended lease; async: GUEST_STAT says
                           * GUEST_NONE when nothing is left; ERR_STATE while the guest lives */
    PRIV_GUEST_LOG,       /* log.from; text_len bytes of output */
    PRIV_KEYS_SET,        /* text: authorized_keys of the lease, whole */
    PRIV_NOTICE,          /* text: appended to the notices the guest sees */
    PRIV_REPORT,          /* text: the first-boot report, shown at login */
    PRIV_PORTS_SET,       /* guest.ports of the lease, whole */
    PRIV_METER,           /* rep.meter */
    PRIV_LIST,            /* rep.list: leases and disks that exist here, and what belongs to none */
    PRIV_INSTANCE_FORGET, /* lease field holds the instance id: drop its host keys */
};

enum guest_state { GUEST_NONE, GUEST_PREPARING, GUEST_RUNNING, GUEST_ENDED };
/* Steps shown to the renter while preparing; failures name the one they happened in. */
enum guest_step {
    GUEST_STEP_DISK,
    GUEST_STEP_IMAGE,
    GUEST_STEP_NETWORK,
    GUEST_STEP_RUNTIME,
    GUEST_STEP_SSH,
    GUEST_STEP_COUNT
};
enum disk_state { DISK_NONE, DISK_READY, DISK_ATTACHED, DISK_ERASING, DISK_ERASED, DISK_BROKEN };
enum image_state { IMAGE_NONE, IMAGE_WORKING, IMAGE_READY, IMAGE_FAILED };

struct priv_port {
    uint16_t guest, host; /* host 0: not published */
    uint8_t udp;
};

struct priv_guest {
    struct id instance;
    int64_t epoch;
    char image[PRIV_DIGEST_SIZE];
    char hostname[64];
    struct id system_disk;
    struct {
        struct id disk;
        char mount[64]; /* "/root/data": absolute, below /mnt or /root, no dot segments */
    } data[PRIV_DISKS_MAX];
    uint32_t data_count;
    int32_t cpu_milli; /* 1000 = one core */
    int64_t memory_mib;
    int32_t pids_max;
    char gpus[PRIV_GPUS_MAX][GPU_UUID_SIZE];
    uint32_t gpu_count;
    uint32_t address; /* host order, inside the node's own range; chosen by the agent, checked */
    struct priv_port ports[PRIV_PORTS_MAX];
    uint32_t port_count;
    /* The command beside SSH; empty: none (the guest lives until stopped). argv and env are
     * NUL-separated lists, ended by an empty string. */
    char argv[2048], env[4096];
    /* The end it is born with, so that no moment is without one (as in priv_deadline). hard 0: a
     * minute from now, until PRIV_GUEST_DEADLINE says more; UTIME_NEVER: no end. */
    utime_t soft_end_boot_ms, hard_end_boot_ms;
};

struct priv_deadline {
    int64_t epoch;
    utime_t soft_end_boot_ms; /* the stop signal goes out; UTIME_NEVER: none */
    utime_t hard_end_boot_ms; /* nothing of the guest lives after this */
    int64_t grace_ms;         /* GUEST_STOP only */
};

struct priv_req {
    uint32_t version, op;
    uint64_t serial;
    struct id lease; /* or the disk, or the instance, as the op says */
    union {
        struct priv_guest guest;
        struct priv_deadline deadline;
        struct {
            char digest[PRIV_DIGEST_SIZE]; /* of the manifest, as the control plane knows it */
            char name[64];                 /* folder below the agent's staging folder */
        } image;
        struct {
            int64_t size_mib;
        } disk;
        struct {
            uint64_t from;
        } log;
    };
    uint32_t text_len;
    char text[PRIV_TEXT_MAX];
};

struct priv_rep {
    uint32_t version, op;
    uint64_t serial;
    uint32_t error; /* enum err; 0 = done, or under way where the op is async */
    struct refusal why;
    union {
        struct {
            char runtime[16], cgroup[16], image_driver[16], disk_driver[16], ssh_server[16];
            char kernel[64];
            int64_t pool_mib, pool_free_mib; /* where disks live */
            int32_t nofile_max;
            uint8_t online_grow, nat_out;
            uint32_t net_base, net_bits; /* the node's own range, host order */
        } hello;
        struct {
            uint32_t state; /* enum image_state */
            int64_t bytes;
            uint32_t fail; /* enum err, detail in why */
            char need_driver[32], need_cuda[16], framework[64]; /* imageneed.h; when ready */
        } image;
        struct {
            uint32_t state; /* enum disk_state */
            int64_t size_mib, used_mib, inodes, inodes_used;
            int64_t erased_bytes, erase_ms; /* of the last erase */
        } disk;
        struct {
            uint32_t state, step; /* enum guest_state, guest_step */
            int64_t epoch;
            int32_t pid;
            uint8_t guard_alive, oom, killed_at_deadline;
            int32_t exit_code; /* 128 + signal when killed; -1 unknown */
            /* ready: SSH accepted. 0: not yet. ended: the last proof of life where nobody saw the
             * end; 0 with GUEST_ENDED: it ended in an earlier boot of the machine. */
            utime_t started_boot_ms, ready_boot_ms, ended_boot_ms;
            struct priv_deadline deadline;
            uint32_t fail;      /* enum err of a failed start, detail in why */
            char host_key[256]; /* "ssh-ed25519 AAAA…" */
            uint32_t step_us[GUEST_STEP_COUNT];
        } guest;
        struct {
            int64_t cpu_us, memory_bytes, memory_peak_bytes, pids, oom_kills;
            int64_t rx_bytes, tx_bytes; /* as the guest sees them */
        } meter;
        struct {
            uint64_t next;
        } log;
        struct {
            uint32_t lease_count, disk_count, stray_count;
            struct id leases[PRIV_LIST_MAX / 4], disks[PRIV_LIST_MAX / 4];
            char strays[32][96]; /* "mount /…", "cgroup …", "loop …", "element …" of no lease */
        } list;
    };
    uint32_t text_len;
    char text[PRIV_TEXT_MAX];
};
