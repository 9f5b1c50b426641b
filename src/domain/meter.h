/* meter.h: which seconds count, once (money.md 1.6, 1.7; I9, I10, I14).
 *
 * A usage slice is keyed by (source, boot, seq). Same key and payload: acknowledged, no effect.
 * Same key, other payload: refused and alarmed. Per window (subject, meter) a cursor says up to
 * which second everything is decided: only seconds beyond it count, a slice that begins after it is
 * parked until the gap is filled, by usage or by a void slice of the agent. Pure. */
#pragma once

#include "domain/types.h"

#define METER_BOOT_SIZE 40
#define METER_TOLERANCE_MS 2000
#define METER_CLOCK_STEP_MS 1000

struct usage_slice {
    char source[ID_SIZE]; /* node */
    char boot[METER_BOOT_SIZE];
    int64_t seq;
    struct id subject; /* lease, disk */
    enum meter meter;
    int64_t t0_s, t1_s;        /* whole seconds, t0 <= t1 */
    int64_t qty_per_s;         /* cards, MiB, ... */
    bool voided;               /* nothing happened in [t0, t1): moves the cursor, bills nothing */
    unsigned char payload[32]; /* hash of everything the source said about it */
};

enum meter_verdict { METER_NEW, METER_DUPLICATE, METER_CONFLICT, METER_PARKED };
const char *meter_verdict_name(enum meter_verdict v); /* new duplicate conflict parked */

/* New billable seconds that a slice brought: quantity = (to − from)·qty_per_s. Empty: from == to.
 */
struct meter_gain {
    int64_t from_s, to_s;
    int64_t qty_per_s;
    size_t slice; /* index in the array given to meter_drain */
};

/* Compares with the stored slice of the same key (NULL: none). METER_NEW: go on with meter_take. */
enum meter_verdict meter_dedupe(const struct usage_slice *known, const struct usage_slice *s);
/* Takes a slice that passed meter_dedupe: METER_NEW moves the cursor and sets the gain;
 * METER_PARKED leaves both alone. ERR_VALIDATION for t1 < t0 or a negative quantity. */
enum err meter_take(int64_t *cursor_s, const struct usage_slice *s, enum meter_verdict *ret_verdict,
                    struct meter_gain *ret_gain);
/* After the cursor moved: takes parked slices of the same window until none fits. Sorts parked by
 * t0; the first ret_taken of them are done, their gains are in gains (room for n). */
void meter_drain(int64_t *cursor_s, struct usage_slice *parked, size_t n, struct meter_gain *gains,
                 size_t *ret_taken);
/* Hash of the payload fields: subject, meter, t0, t1, qty, void. */
void meter_payload_hash(struct usage_slice *s);

/* Whole seconds inside [ready, end): [⌈ready⌉, ⌊end⌋); empty (from == to) when there is none. */
void meter_billable(utime_t ready_ms, utime_t end_ms, int64_t *ret_from_s, int64_t *ret_to_s);
/* How much of what the node says the control plane believes: the node's boot-time delta, at most
 * its own boot-time delta plus the tolerance. */
int64_t meter_evidenced_ms(int64_t node_delta_ms, int64_t own_delta_ms);
/* True: the wall clock and the boot-time clock disagree by more than a second: alarm, no new starts
 * until resolved; charges are not touched. */
bool meter_clock_stepped(int64_t wall_delta_ms, int64_t boot_delta_ms);

/* State × meter (money.md 1.8). */
bool meter_cards_run(enum instance_state state);
bool meter_traffic_runs(enum instance_state state);
/* The meter a disk runs on; false: free. by_platform: stopped by the platform, not by the user. A
 * data disk is an object of its own: where its instance has no right to it, it is charged as
 * detached; only an unreachable node or a platform stop makes it free. */
bool meter_for_disk(enum instance_state state, enum disk_kind kind, bool by_platform,
                    enum meter *ret_meter);
