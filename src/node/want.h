/* want.h: the control plane's answer, parsed (docs/node-protocol.md). Foreign bytes: everything is
 * bounded, a lease or disk that is not understood is left out and told through `bad`, never
 * guessed. Durations become boot-time ms of this machine, counted from when the request was sent.
 */
#pragma once

#include "base/json.h"
#include "domain/reconcile.h"
#include "node/privmsg.h"

#define WANT_TEXT_MAX (8 << 20)
#define WANT_KEYS_SIZE 8192
#define WANT_NOTICES_MAX 8
#define WANT_NOTICE_SIZE 512
#define WANT_SOURCE_SIZE 256
#define WANT_RESOLVE_MAX 32

struct want_notice {
    int64_t id;
    char text[WANT_NOTICE_SIZE];
};

struct want_lease {
    struct id lease, instance;
    char name[64];
    int64_t epoch;
    enum rec_want want;
    utime_t paid_until, ends_at; /* boot ms; UTIME_NEVER: none */
    int64_t grace_ms;
    enum end_reason reason; /* why it should stop; END_NONE while it should run */
    char image[PRIV_DIGEST_SIZE];
    int32_t cpu_milli;
    int64_t memory_mib;
    int32_t pids_max;
    char gpus[PRIV_GPUS_MAX][GPU_UUID_SIZE];
    uint32_t gpu_count;
    char gpu_model[64];     /* what is paid for; "" not said */
    int64_t gpu_memory_mib; /* 0 not said */
    struct id system_disk;
    struct {
        struct id disk;
        char mount[64];
    } data[PRIV_DISKS_MAX];
    uint32_t data_count;
    struct priv_port ports[PRIV_PORTS_MAX];
    uint32_t port_count;
    char argv[2048], env[4096]; /* NUL-separated, ended by an empty string */
    char keys[WANT_KEYS_SIZE];  /* authorized_keys, one a line */
    int64_t idle_ms;            /* 0: no idle rule */
    enum idle_action idle_action;
    struct want_notice notices[WANT_NOTICES_MAX];
    uint32_t notice_count;
    bool want_logs;
    bool simulated;
};

struct want_disk {
    struct id disk, instance;
    int64_t size_mib;
    enum rec_disk_want want;
};

struct want_image {
    char digest[PRIV_DIGEST_SIZE];
    char source[WANT_SOURCE_SIZE];
    bool present;
};

struct want {
    int64_t version, ack_seq;
    struct want_lease leases[RECONCILE_LEASES_MAX];
    const json_t *lease_docs[RECONCILE_LEASES_MAX]; /* borrowed from doc */
    size_t lease_count;
    struct want_disk disks[RECONCILE_DISKS_MAX];
    size_t disk_count;
    struct want_image images[RECONCILE_IMAGES_MAX];
    size_t image_count;
    char resolve[WANT_RESOLVE_MAX][WANT_SOURCE_SIZE]; /* sources without a digest */
    size_t resolve_count;
    struct id kill_unknown[RECONCILE_LEASES_MAX];
    size_t kill_count;
    json_t *doc; /* owned */
    size_t bad;  /* entries left out */
    char bad_why[96];
};

/* sent_boot_ms: when the request went out. Errors: ERR_PROTOCOL, ERR_BAD_JSON, ERR_TOO_LARGE.
 * ret_want is owned (want_free); it is large, so it lives on the heap. */
enum err want_parse(const char *text, size_t len, utime_t sent_boot_ms, struct want **ret_want,
                    struct refusal *why);
void want_free(struct want *w); /* NULL is fine */
/* One lease object; false when it cannot be understood (ret_why: which field). */
bool want_lease_parse(const json_t *o, utime_t sent_boot_ms, struct want_lease *ret_lease,
                      char *ret_why, size_t why_size);
bool want_disk_parse(const json_t *o, struct want_disk *ret_disk);
bool want_image_parse(const json_t *o, struct want_image *ret_image);
