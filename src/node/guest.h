/* guest.h: what is known of one guest, in two places:
 *
 *   STATE/priv/leases/<lease>/record   durable; survives the helper, the guard and a power cut
 *   RUN/leases/<lease>/progress        on a tmpfs; steps of the start and the last proof of life
 *
 * The guard of a guest is alive exactly while the lease folder is locked: the lock belongs to an
 * open description that the guard inherited, so the kernel drops it with the last of its holders.
 * Whoever gets the lock may write the record. */
#pragma once

#include "base/clock.h"
#include "base/str.h"
#include "node/config.h"

struct guest_record {
    char magic[8];
    uint32_t size, starts; /* starts: attempts, where guards were killed in the middle of one */
    char boot[BOOT_ID_SIZE];
    struct id lease;
    struct priv_guest spec;
    uint32_t state; /* enum guest_state: PREPARING, RUNNING, ENDED */
    int32_t pid, guard_pid;
    uint64_t pid_start, guard_start; /* clock ticks since boot: a pid alone may be reused */
    uint32_t range_base;
    struct priv_deadline deadline;
    utime_t started_boot_ms, ready_boot_ms, ended_boot_ms;
    int32_t exit_code; /* 128 + signal; -1 unknown */
    uint8_t oom, killed_at_deadline, stopping;
    utime_t stop_kill_boot_ms; /* while stopping: KILL then */
    uint32_t fail;             /* enum err of a failed start or clean */
    struct refusal why;
    uint32_t step, step_us[GUEST_STEP_COUNT];
    char host_key[256];
    uint64_t sum; /* over all before it */
};

struct guest_progress {
    uint32_t step, step_us[GUEST_STEP_COUNT];
    utime_t alive_boot_ms, ready_boot_ms;
    uint64_t output; /* bytes the guest ever wrote */
};

#define GUEST_PATH_SIZE 400

/* Path of a file of the lease in its durable or its runtime folder; name "" for the folder. */
bool guest_path(const struct node_paths *p, struct id lease, const char *name,
                char ret_path[GUEST_PATH_SIZE]);
bool guest_run_path(const struct node_paths *p, struct id lease, const char *name,
                    char ret_path[GUEST_PATH_SIZE]);

/* ERR_NOT_FOUND: no folder; ERR_CORRUPT: a folder without a whole record. */
enum err guest_load(const struct node_paths *p, struct id lease, struct guest_record *ret_rec,
                    struct refusal *why);
/* Whole or as before; synced where durable is asked for. */
enum err guest_save(const struct node_paths *p, struct guest_record *rec, bool durable,
                    struct refusal *why);
/* All zero where there is none. */
void guest_progress_load(const struct node_paths *p, struct id lease,
                         struct guest_progress *ret_progress);
/* Takes the lock: ret_fd (owned) holds it. ERR_BUSY: a guard lives; ERR_NOT_FOUND: no folder. */
enum err guest_lock(const struct node_paths *p, struct id lease, int *ret_fd);

/* Start time of a process in clock ticks since boot; 0 when there is none. */
uint64_t process_start_ticks(int pid);
static inline bool process_is(int pid, uint64_t start)
{
    return pid > 0 && start && process_start_ticks(pid) == start;
}
utime_t guest_now(void); /* boot-time ms */
