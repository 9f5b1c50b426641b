/* gpu.h: the cards of this machine, whoever tells about them.
 *
 * Three sources behind one interface: NVML (dlopen of libnvidia-ml.so.1, own prototypes; a missing
 * symbol means "not supported" and shows as -1), a simulation (marked as such on every card), none.
 * Single thread. Sizes in MiB, power in W, temperatures in degrees C, shares in percent. */
#pragma once

#include "node/privmsg.h"

#define GPU_CARDS_MAX 64
#define GPU_NAME_SIZE 64

struct gpu_card {
    char uuid[GPU_UUID_SIZE];
    char model[GPU_NAME_SIZE]; /* "RTX 4090": without the maker's name and brand */
    char bus[32];              /* PCI address, "" when unknown */
    int32_t minor;             /* /dev/nvidia<minor>; -1 unknown */
    int64_t memory_mib, memory_used_mib;
    int32_t util_pct, power_w, temp_c; /* -1 unknown */
    int64_t ecc_errors;                /* uncorrected since boot; -1 unknown */
    int32_t processes;                 /* -1 unknown */
    bool healthy; /* answers, is not lost, and no uncorrected error is pending */
    bool simulated;
};

struct gpu_list {
    struct gpu_card at[GPU_CARDS_MAX];
    size_t count;
    char driver[32], cuda[16]; /* "550.54", "12.4"; "" without a driver */
    bool simulated;
    /* Nearness of two cards as NVML counts it (0 same board, 10, 20, 30, 40, 50 other socket);
     * 255 unknown. */
    uint8_t topology[GPU_CARDS_MAX][GPU_CARDS_MAX];
};

struct gpu; /* one opened source */

/* spec: "none"; "nvml"; "auto" (nvml where its library loads, else none);
 * "sim:4*RTX 4090:24564" (count * model : MiB). seed makes the UUIDs of simulated cards differ
 * from node to node (the state folder's path); knobs is a file of gpu_sim.c, may be absent.
 * Errors: ERR_USAGE (bad spec), ERR_UNSUPPORTED (no library, no driver). */
enum err gpu_open(const char *spec, const char *seed, const char *knobs, struct gpu **ret_gpu,
                  struct refusal *why);
void gpu_close(struct gpu *g); /* NULL is fine */
/* Reads all cards anew. A card that no longer answers is in the list with healthy = false where
 * the source still counts it, and missing where it does not. ERR_UNAVAILABLE: nothing could be
 * read; the list is empty. */
enum err gpu_read(struct gpu *g, struct gpu_list *ret_list, struct refusal *why);
const struct gpu_card *gpu_find(const struct gpu_list *l, const char *uuid); /* may be NULL */

/* For the sources only. */
struct gpu_driver {
    const char *name;
    enum err (*read)(void *self, struct gpu_list *ret_list, struct refusal *why);
    void (*close)(void *self);
};
enum err gpu_nvml_open(const struct gpu_driver **ret_driver, void **ret_self, struct refusal *why);
enum err gpu_sim_open(const char *spec, const char *seed, const char *knobs,
                      const struct gpu_driver **ret_driver, void **ret_self, struct refusal *why);
