/* start.h: from nothing to a running container, and back to nothing. Both run in a child process
 * of their own, as root, in the helper's mount namespace; both may be repeated. */
#pragma once

#include "node/container.h"
#include "node/gpu.h"

/* What the helper found out once at its start; inherited by its children. */
struct helper_env {
    struct node_config cfg;
    struct container_runtime runtime;
    char server[16];
    struct gpu_list *gpus; /* owned: the inventory that requests are checked against */
};

struct start_result {
    enum err err;
    struct refusal why;
    int32_t pid;
    uint32_t range_base;
    char host_key[256];
};

/* progress_fd: the guest's progress file, kept up to date. ret_probe_fd: a TCP socket in the
 * namespace that reaches the guest. */
enum err start_guest(const struct helper_env *env, const struct guest_record *rec, int out_fd,
                     int progress_fd, struct start_result *ret_result, int *ret_probe_fd);
/* A socket for the ready probe, non-blocking. */
enum err start_probe_open(const struct node_config *cfg, int *ret_fd, struct refusal *why);
/* Removes all of an ended lease but its record, which goes last of all. */
enum err start_undo(const struct node_config *cfg, const struct guest_record *rec,
                    struct refusal *why);

/* What a start that was cut off may have left running or half made; after it, start_guest may be
 * called again: disks and mounts that are there are found. */
enum err start_rest_remove(const struct node_config *cfg, const struct guest_record *rec,
                           struct refusal *why);

/* inject.c: device nodes and files of the cards, from a fixed list. ERR_NOT_FOUND: no such card. */
enum err inject_cards(const struct helper_env *env, const struct guest_record *rec,
                      struct container_spec *spec, char *env_text, size_t env_size,
                      struct refusal *why);
void inject_undo(const struct node_paths *p, struct id lease);
/* Reads the inventory: simulated cards by their source, real ones from the driver's own files. */
enum err inject_init(const struct node_config *cfg, struct gpu_list *ret_list, struct refusal *why);
