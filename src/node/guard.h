/* guard.h: one small process per guest. It is the parent of the guest's PID 1 (by being the nearest
 * subreaper), keeps its exit status, its output and its clock, and can do nothing else: it holds
 * CAP_KILL only, sits in an empty network namespace and behind a list of system calls.
 *
 * The end of a guest needs nobody but its guard: helper, agent and control plane may be gone. */
#pragma once

#include "node/start.h"

#define GUARD_MAGIC 0x534c4744u
/* Killing takes a moment; the signal goes out this much before the hard end, so that nothing lives
 * when it comes (and never more than a second before). */
#define GUARD_KILL_AHEAD_MS 700
#define GUARD_BORN_LIMIT_MS 60000 /* life of a guest that nobody has given an end yet */
#define GUARD_STARTS_MAX 3        /* a start whose guard is killed is tried again so often */
#define GUARD_RING_SIZE (1024 * 1024)
#define GUARD_READY_STEP_MS 20

enum guard_op { GUARD_DEADLINE = 1, GUARD_STOP };
struct guard_msg {
    uint32_t magic, op;
    struct priv_deadline deadline;
};
struct guard_reply {
    uint32_t magic, error;
};

/* A guest's first record; saved by the helper before anything of the guest is made. */
void guard_record_init(struct guest_record *rec);
/* In a fresh child of the helper that has closed what it does not need. lock_fd (owned) holds the
 * lease's lock. Starts the guest of rec and never returns. */
_Noreturn void guard_main_start(const struct helper_env *env, struct guest_record *rec,
                                int lock_fd);
/* The same for a guest that lost its guard: finds it by pid and start time, goes on with the
 * deadline of the record; the exit code is then unknown. Ends the record when it is gone. */
_Noreturn void guard_main_adopt(const struct helper_env *env, struct guest_record *rec,
                                int lock_fd);
/* From the helper: one message, its answer. ERR_UNAVAILABLE: no guard; ERR_BUSY: no answer in time.
 */
enum err guard_call(const struct node_paths *p, struct id lease, const struct guard_msg *msg,
                    struct refusal *why);
/* Output from offset `from` on, at most size bytes; what the ring has lost is skipped. */
size_t guard_output_read(const struct node_paths *p, struct id lease, uint64_t from, void *buf,
                         size_t size, uint64_t *ret_next);
