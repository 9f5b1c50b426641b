/* container.h: the OCI configuration of one guest and the exec of the runtime. Called by the
 * starter (a child of the guard), as root, in the helper's mount namespace. */
#pragma once

#include "node/guest.h"

/* Chosen once at start of the helper. */
struct container_runtime {
    char name[16]; /* "crun" or "runc" */
    int fd;        /* owned: a sealed copy in memory; nobody can write to what we run */
};

#define CONTAINER_ENV_MAX 128
#define CONTAINER_BINDS_MAX 64

/* One extra mount or device of the guest, from a fixed list of ours. */
struct container_bind {
    char source[GUEST_PATH_SIZE], target[200];
    bool read_only;
};
struct container_device {
    char path[64];
    uint32_t major, minor;
    bool block;
};

struct container_spec {
    const struct node_paths *paths; /* borrowed */
    const char *cgroup;             /* borrowed: "/suanli-<tag>" */
    const char *server;             /* borrowed: of sshd_bundle_init */
    struct id lease;
    const struct priv_guest *guest; /* borrowed */
    uint32_t range_base;
    const char *env[CONTAINER_ENV_MAX]; /* borrowed, "K=V", each name once */
    size_t env_count;
    struct container_bind binds[CONTAINER_BINDS_MAX];
    size_t bind_count;
    struct container_device devices[PRIV_GPUS_MAX + 16];
    size_t device_count;
};

/* want: "auto", "crun" or "runc". Tries the first that is installed with a throw-away container of
 * nothing but our PID 1; the answer is kept for this boot. ERR_RUNTIME with the reasons. */
enum err container_runtime_init(const struct node_config *cfg, const char *want,
                                struct container_runtime *ret_runtime, struct refusal *why);

/* RUN/leases/<lease>/config.json from the spec: root is RUN/leases/<lease>/root, network namespace
 * RUN/leases/<lease>/net. */
enum err container_config_write(const struct container_spec *s, struct refusal *why);
/* Starts it. out_fd becomes its standard output and error. On success the process is in ret_pid and
 * is a child of the nearest subreaper. */
enum err container_run(const struct node_paths *p, const struct container_runtime *rt,
                       struct id lease, int out_fd, int *ret_pid, struct refusal *why);
