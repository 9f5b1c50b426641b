/* simnode.h: a node that is all arithmetic: it speaks docs/node-protocol.md in JSON, keeps a
 * journal over restarts, meters, and ends its guests by its own boot-time clock. Its clock is the
 * world's time plus an offset; a reboot starts a new boot. */
#pragma once

#include "base/id.h"
#include "base/json.h"
#include "base/sign.h"
#include "domain/types.h"

#define SIM_LEASES_MAX 64
#define SIM_DISKS_MAX 256
#define SIM_SLICES_MAX 4096
#define SIM_GPUS_MAX 8
#define SIM_SLICE_MS 10000

enum sim_phase { SIM_PREPARING, SIM_RUNNING, SIM_ENDED };

struct sim_lease {
    char id[ID_SIZE], instance[ID_SIZE];
    int64_t epoch;
    enum sim_phase phase;
    bool wanted; /* named in the last answer */
    char want[8];
    int64_t paid_boot, ends_boot, grace_ms; /* on this boot's clock; INT64_MAX: no end */
    int64_t began_boot, ready_boot, ended_boot, stop_boot; /* -1: not */
    int64_t metered_boot;                                  /* slices reach up to here */
    int64_t started_boot; /* ready_boot, kept for the books of the simulation */
    char end[24];
    int64_t exit_code;
    char error[24];
    bool clean, fails;
    int64_t prepare_ms;
    char gpus[SIM_GPUS_MAX][UUID_SIZE];
    int gpu_count;
    char disks[INSTANCE_DISKS_MAX + 1][ID_SIZE];
    int disk_count;
};
struct sim_disk {
    char id[ID_SIZE];
    int64_t size_mib;
    bool erase, erased;
    int64_t erase_due_boot;
};
struct sim_slice {
    char sig[SIGN_TEXT]; /* "": it forgot to sign */
    char boot[33], lease[ID_SIZE];
    int64_t seq, epoch, t0, t1, tx_bytes;
};

struct simnode {
    struct id id;
    char name[NAME_SIZE], model[GPU_MODEL_SIZE];
    int gpu_count, cores;
    int64_t memory_mib, disk_mib;
    uint16_t port_min, port_max;
    bool cut;           /* neither sends nor hears */
    bool overruns;      /* the planted bug: a guest outlives its end by some seconds */
    int64_t boot_at_ms; /* world time of its boot */
    int64_t boot_number;
    char boot[33];
    int64_t seen, seq; /* seq: of this boot */
    int64_t tx_bytes;  /* what each slice of its guests sent */
    int64_t card_ms;   /* what its guests had, for the books of the simulation */
    struct sim_lease leases[SIM_LEASES_MAX];
    int lease_count;
    struct sim_disk disks[SIM_DISKS_MAX];
    int disk_count;
    struct sim_slice slices[SIM_SLICES_MAX];
    int slice_count;
    struct sign_key key; /* not of its boot: it outlives them */
};

/* What every slice of a simulated guest says. */
#define SIM_CPU_US 1000
#define SIM_MEMORY_BYTES (1 << 20)
#define SIM_RX_BYTES 100
/* Signs the slice as it is now. */
void simnode_sign(const struct simnode *n, struct sim_slice *s);
void simnode_init(struct simnode *n, int number, const char *model, int gpus, int64_t world_ms);
/* Lives up to that moment: prepares, runs, meters, ends, erases. */
void simnode_live(struct simnode *n, int64_t world_ms);
/* The machine goes down and comes up: guests are gone, the journal is there. */
void simnode_reboot(struct simnode *n, int64_t world_ms);
/* A guest ends by itself. */
void simnode_guest_exit(struct simnode *n, struct sim_lease *l, int64_t world_ms, const char *end,
                        int64_t code);
/* The body of POST /v1/node/sync; a new reference. ret_sent: boot-time ms. */
json_t *simnode_report(struct simnode *n, int64_t world_ms, int64_t wait_ms, int64_t *ret_sent);
/* Acts on an answer to the report that was sent at sent (of this boot). */
void simnode_answer(struct simnode *n, int64_t sent, const char *answer);
