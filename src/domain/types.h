/* types.h: the nouns of product.md as values. No pointers inside, so a row of the store is a struct
 * and a struct can cross threads. Amounts are in micro-units (money.h), times in ms UTC, memory and
 * disks in MiB, shares of a core in thousandths. Empty string = absent. */
#pragma once

#include "base/id.h"

#define NAME_SIZE 64
#define TEXT_SIZE 200
#define DIGEST_SIZE 72
#define GPU_MODEL_SIZE 40
#define UUID_SIZE 48
#define INSTANCE_GPUS_MAX 16
#define INSTANCE_DISKS_MAX 8
#define INSTANCE_PORTS_MAX 16
#define NODE_GPUS_MAX 64
#define CURRENCY_SIZE 4

/* product.md 3 */
enum instance_state {
    INSTANCE_QUEUED,
    INSTANCE_PREPARING,
    INSTANCE_RUNNING,
    INSTANCE_PREEMPTING,
    INSTANCE_STOPPING,
    INSTANCE_STOPPED,
    INSTANCE_UNREACHABLE,
    INSTANCE_RELEASING,
    INSTANCE_RELEASED,
    INSTANCE_FAILED,
    INSTANCE_STATE_COUNT
};

enum end_reason {
    END_NONE,
    END_USER_STOP,
    END_USER_RELEASE,
    END_REACHED,
    END_IDLE,
    END_BUDGET,
    END_BALANCE,
    END_RECLAIMED,
    END_NODE_LOST,
    END_GUEST_EXIT,
    END_GUEST_OOM,
    END_GPU_OOM,
    END_START_FAILED,
    END_OPERATOR,
    END_REASON_COUNT
};

enum end_action { END_ACTION_STOP, END_ACTION_RELEASE };
enum idle_action { IDLE_ACTION_STOP, IDLE_ACTION_NOTICE };
enum plan { PLAN_ON_DEMAND, PLAN_SPOT, PLAN_DAY, PLAN_WEEK, PLAN_MONTH, PLAN_YEAR };
enum role { ROLE_NONE, ROLE_VIEWER, ROLE_MEMBER, ROLE_OWNER, ROLE_SUPPLIER, ROLE_OPERATOR };

/* What is metered; each is a SKU class with its own price. */
enum meter {
    METER_NONE = -1,     /* stored: of a disk that costs nothing now, of a line of no meter */
    METER_GPU,           /* card-seconds, sku "gpu.<model>" */
    METER_CPU,           /* seat-seconds of a CPU-only seat, sku "cpu.seat": cores x seconds */
    METER_DISK,          /* MiB-seconds of a disk while its instance runs, sku "disk" */
    METER_DISK_STOPPED,  /* MiB-seconds, system disk of a stopped instance, sku "disk.stopped" */
    METER_DISK_DETACHED, /* MiB-seconds, data disk beside a running instance, sku "disk.detached" */
    METER_EGRESS,        /* bytes out, sku "egress" */
    METER_NODE,          /* seconds of having a node alone, sku "exclusive.gpu.<model>" */
    METER_INGRESS,       /* bytes in, sku "ingress" */
    METER_COUNT
};

/* What is rented: cards or a CPU-only seat (gpu_count 0). */
struct shape {
    char gpu_model[GPU_MODEL_SIZE]; /* "" when gpu_count is 0 */
    int32_t gpu_count;
    int32_t cpu_milli;
    int64_t memory_mib;
    int64_t system_disk_mib;
    bool exclusive; /* its node has nobody else; only with cards */
};

struct demand_seen { /* demand that came lately; cpu_milli, memory_mib 0 with cards: their share */
    struct shape shape;
    int64_t count;
};

struct port {
    uint16_t guest, host;
};

struct instance {
    struct id id, project, owner; /* owner: the user who rented */
    char name[NAME_SIZE];
    char labels[TEXT_SIZE]; /* "k=v,k=v" */
    enum instance_state state;
    enum end_reason reason;
    struct refusal why; /* why queued or failed; code 0: none */
    utime_t since, created_at;
    utime_t ends_at; /* UTIME_NEVER: --no-end */
    enum end_action then;
    utime_t kept_until; /* stopped: when the data goes; 0 otherwise */
    struct shape shape;
    bool no_gpu; /* running on the same disk without its cards */
    bool simulated;
    enum plan plan;
    char image[DIGEST_SIZE], image_name[NAME_SIZE];
    struct id node, lease; /* lease: the live one, or empty */
    struct id system_disk;
    struct id data_disk[INSTANCE_DISKS_MAX];
    int32_t data_count;
    struct port ports[INSTANCE_PORTS_MAX];
    int32_t port_count;
    char host_key[256];
    int64_t idle_s;
    enum idle_action idle_action;
    struct id price_gpu, price_cpu; /* price versions that bind it now */
    int64_t version;
};

enum lease_state {
    LEASE_GRANTED,  /* hold made, the node was told */
    LEASE_RUNNING,  /* reachable since ready_at */
    LEASE_STOPPING, /* the stop was accepted; nothing is charged for cards any more */
    LEASE_ENDED,    /* the node says the guest is gone, evidence is settled */
    LEASE_CLOSED,   /* the node removed everything; devices are free again */
};

/* One unbroken holding of devices on one node. */
struct lease {
    struct id id, instance, node;
    int64_t epoch;
    enum lease_state state;
    char gpus[INSTANCE_GPUS_MAX][UUID_SIZE];
    int32_t gpu_count;
    utime_t granted_at, ready_at, stop_at, ended_at; /* 0: not yet; controller's ledger clock */
    utime_t paid_until, ends_at;
    utime_t evidence_until; /* proof of life up to here */
    int64_t grace_ms;
    enum end_reason reason;
    struct id hold; /* pending transfer of the current term, or empty */
    int32_t exit_code;
    int32_t cpu_milli; /* what it runs with: a start without cards is smaller than its shape */
    int64_t memory_mib;
    int32_t limit; /* what made the current term short: enum term_limit of term.h */
    bool exclusive; /* it has its node alone */
};

enum node_state { NODE_NEW, NODE_READY, NODE_DRAINING, NODE_SILENT };

struct node_gpu {
    char uuid[UUID_SIZE], model[GPU_MODEL_SIZE];
    int64_t memory_mib;
    bool simulated, healthy;
    int32_t util_pct;
    struct id lease; /* who holds it; empty: free */
};

struct node {
    struct id id;
    char name[NAME_SIZE];
    enum node_state state;
    bool drain;
    utime_t seen_at;
    char boot[33];
    utime_t anchor_ms; /* ledger clock minus the node's boot clock, of this boot */
    int64_t version;   /* of what is wanted here */
    int32_t cores;
    int64_t memory_mib, disk_mib;
    char driver[32], cuda[16], runtime[16], cgroup[16], kernel[64], ssh_host[64];
    uint16_t port_min, port_max;
    bool simulated, online_grow;
    struct node_gpu gpus[NODE_GPUS_MAX];
    int32_t gpu_count;
};

enum disk_kind { DISK_SYSTEM, DISK_DATA };
enum disk_life {
    DISK_LIFE_WANTED, /* the node is making it; not charged */
    DISK_LIFE_READY,
    DISK_LIFE_ERASING, /* asked for; free of charge, retried until proven */
    DISK_LIFE_ERASED,
};

struct disk {
    struct id id, project, node, instance; /* instance: where it is attached, or empty */
    char name[NAME_SIZE];
    enum disk_kind kind;
    enum disk_life life;
    int64_t size_mib, used_mib;
    char mount[NAME_SIZE];
    utime_t created_at, ready_at, kept_until;
    char erased_method[16]; /* "basic" */
    int64_t erased_bytes, erase_ms;
};

struct image {
    char digest[DIGEST_SIZE], name[NAME_SIZE], source[TEXT_SIZE];
    int64_t bytes;
    char need_driver[32], need_cuda[16]; /* from labels and NVIDIA_REQUIRE_* */
    bool is_default;
    utime_t created_at;
};

const char *instance_state_name(enum instance_state s); /* "running" */
bool instance_state_find(const char *name, enum instance_state *ret_s);
const char *end_reason_name(enum end_reason r);
bool end_reason_find(const char *name, enum end_reason *ret_r);
bool meter_is_traffic(enum meter m); /* bytes, whenever they flow; no seconds */
const char *meter_name(enum meter m);
const char *role_name(enum role r);
bool role_find(const char *name, enum role *ret_r);
const char *plan_name(enum plan p);
