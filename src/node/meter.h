/* meter.h: usage slices of one lease, whole from ready to end, without gap or overlap.
 *
 * A sample says "the guest lived up to this moment, by the word of its guard" (the guard holds the
 * guest from birth to exit, so a missing sample in between, because the agent was away, loses
 * nothing). A slice is evidence when the cards were good at both of its ends; else it is void: it
 * moves time on and bills nothing. Time the machine slept (the boot clock ran on while the
 * monotonic clock stood) is void too. Counters go in as totals and come out as increments.
 *
 * Pure but for the emit callback. Times are ms of CLOCK_BOOTTIME and CLOCK_MONOTONIC. Source of the
 * rule: money.md 1.6. */
#pragma once

#include "base/id.h"
#include "base/sign.h"

#define METER_SLICE_MS_MAX 10000
#define METER_SLEPT_MS 500 /* less is the clocks' own noise */

struct meter_counters {
    int64_t cpu_us, rx_bytes, tx_bytes; /* totals since the guest began */
};

struct meter_sample {
    utime_t now, mono;
    bool gpus_ok;
    bool doubt; /* the keeper itself stood still since its last sample: that time is void */
    struct meter_counters total;
    int64_t memory_bytes, disk_used_mib, gpu_memory_mib;
    int32_t gpu_util_pct; /* mean of the cards; 0 without */
};

struct meter_slice {
    char boot[33];
    int64_t seq;
    struct id lease;
    int64_t epoch;
    bool voided;
    bool gpus_ok;
    utime_t t0, t1;
    int64_t cpu_us, memory_bytes, rx_bytes, tx_bytes, disk_used_mib, gpu_memory_mib;
    int32_t gpu_util_pct;
    bool has_sig; /* false: kept by a version that did not sign */
    unsigned char sig[SIGN_SIZE];
    /* Where the next slice goes on after a restart; not told to the control plane. */
    struct meter_counters total;
    int64_t slept_base; /* boot minus monotonic clock at t1 */
};

enum meter_kind { METER_LIVE, METER_CARDS_BAD, METER_SLEPT };

struct meter_lease {
    bool open;
    utime_t t0;   /* everything before is in a closed slice */
    utime_t last; /* proven up to here */
    int64_t slept_base;
    bool gpus_ok;         /* at `last` */
    enum meter_kind kind; /* of the open slice */
    struct meter_counters at_t0, at_last;
    int64_t memory_max, memory_last, disk_used_mib, gpu_memory_max, gpu_memory_last;
    int64_t util_sum, util_count;
};

/* Fills boot, seq, lease and epoch, and keeps the slice. */
typedef void meter_emit_fn(void *user, struct meter_slice *s);

/* Begins at the moment the guest became reachable. */
void meter_begin(struct meter_lease *m, utime_t ready, int64_t slept_base, bool gpus_ok);
/* Goes on after the last slice that was kept. */
void meter_resume(struct meter_lease *m, const struct meter_slice *last);
/* The guest lives at s->now. Closes slices at each multiple of slice_ms of the boot clock (so that
 * all leases close together), when the cards change, and around slept time. */
void meter_feed(struct meter_lease *m, const struct meter_sample *s, int64_t slice_ms,
                meter_emit_fn *emit, void *user);
/* The guest lived up to `end` (at most: earlier than what is proven shortens nothing) and no
 * longer. */
void meter_end(struct meter_lease *m, utime_t end, const struct meter_sample *s, int64_t slice_ms,
               meter_emit_fn *emit, void *user);
/* The end is known only by absence: closes at the last proven moment. */
void meter_cut(struct meter_lease *m, int64_t slice_ms, meter_emit_fn *emit, void *user);
