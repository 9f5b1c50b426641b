#include "domain/meter.h"

#include <stdlib.h>

#include "base/sha256.h"

const char *meter_verdict_name(enum meter_verdict v)
{
    static const char *const names[] = {"new", "duplicate", "conflict", "parked"};

    CHECK((size_t)v < ARRAY_LEN(names));
    return names[v];
}

enum meter_verdict meter_dedupe(const struct usage_slice *known, const struct usage_slice *s)
{
    if (!known)
        return METER_NEW;
    bool same = memcmp(known->payload, s->payload, sizeof(s->payload)) == 0;
    return same ? METER_DUPLICATE : METER_CONFLICT;
}

enum err meter_take(int64_t *cursor_s, const struct usage_slice *s, enum meter_verdict *ret_verdict,
                    struct meter_gain *ret_gain)
{
    if (s->t1_s < s->t0_s || s->qty_per_s < 0)
        return ERR_VALIDATION;
    *ret_gain = (struct meter_gain){.qty_per_s = s->qty_per_s};
    if (s->t0_s > *cursor_s) {
        *ret_verdict = METER_PARKED;
        return ERR_OK;
    }
    *ret_verdict = METER_NEW;
    ret_gain->from_s = *cursor_s;
    ret_gain->to_s = MAX(*cursor_s, s->t1_s);
    *cursor_s = ret_gain->to_s;
    if (s->voided)
        ret_gain->from_s = ret_gain->to_s;
    return ERR_OK;
}

static int by_begin(const void *a, const void *b)
{
    const struct usage_slice *x = a, *y = b;

    if (x->t0_s != y->t0_s)
        return x->t0_s < y->t0_s ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

void meter_drain(int64_t *cursor_s, struct usage_slice *parked, size_t n, struct meter_gain *gains,
                 size_t *ret_taken)
{
    size_t taken = 0;

    qsort(parked, n, sizeof(parked[0]), by_begin);
    for (; taken < n; taken++) {
        enum meter_verdict verdict;

        if (meter_take(cursor_s, &parked[taken], &verdict, &gains[taken]) != ERR_OK ||
            verdict == METER_PARKED)
            break;
        gains[taken].slice = taken;
    }
    *ret_taken = taken;
}

static void add_i64(struct sha256 *h, int64_t v)
{
    unsigned char bytes[8];

    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)v >> (56 - 8 * i));
    sha256_add(h, bytes, sizeof(bytes));
}

void meter_payload_hash(struct usage_slice *s)
{
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, s->subject.s, strlen(s->subject.s) + 1);
    add_i64(&h, s->meter);
    add_i64(&h, s->t0_s);
    add_i64(&h, s->t1_s);
    add_i64(&h, s->qty_per_s);
    add_i64(&h, s->voided);
    sha256_finish(&h, s->payload);
}

static int64_t floor_s(utime_t ms)
{
    return ms / MS_PER_S - (ms % MS_PER_S < 0);
}

void meter_billable(utime_t ready_ms, utime_t end_ms, int64_t *ret_from_s, int64_t *ret_to_s)
{
    int64_t from = floor_s(ready_ms) + (ready_ms % MS_PER_S != 0);

    *ret_from_s = from;
    *ret_to_s = MAX(from, floor_s(end_ms));
}

int64_t meter_evidenced_ms(int64_t node_delta_ms, int64_t own_delta_ms)
{
    return MAX(MIN(node_delta_ms, own_delta_ms + METER_TOLERANCE_MS), 0);
}

bool meter_clock_stepped(int64_t wall_delta_ms, int64_t boot_delta_ms)
{
    int64_t difference = wall_delta_ms - boot_delta_ms;

    return difference > METER_CLOCK_STEP_MS || difference < -METER_CLOCK_STEP_MS;
}

/* ---- state × meter ---- */

#define FREE METER_NONE

static const struct {
    bool cards, traffic;
    enum meter system_disk, data_disk;
} state_meters[INSTANCE_STATE_COUNT] = {
    [INSTANCE_QUEUED] = {false, false, FREE, METER_DISK_DETACHED},
    [INSTANCE_PREPARING] = {false, false, FREE, METER_DISK_DETACHED},
    [INSTANCE_RUNNING] = {true, true, METER_DISK, METER_DISK},
    [INSTANCE_PREEMPTING] = {true, true, METER_DISK, METER_DISK},
    [INSTANCE_STOPPING] = {false, true, METER_DISK, METER_DISK},
    [INSTANCE_STOPPED] = {false, false, METER_DISK_STOPPED, METER_DISK_DETACHED},
    [INSTANCE_UNREACHABLE] = {false, false, FREE, FREE},
    [INSTANCE_RELEASING] = {false, false, FREE, METER_DISK_DETACHED},
    [INSTANCE_RELEASED] = {false, false, FREE, METER_DISK_DETACHED},
    [INSTANCE_FAILED] = {false, false, FREE, METER_DISK_DETACHED},
};

bool meter_cards_run(enum instance_state state)
{
    CHECK((size_t)state < INSTANCE_STATE_COUNT);
    return state_meters[state].cards;
}

bool meter_traffic_runs(enum instance_state state)
{
    CHECK((size_t)state < INSTANCE_STATE_COUNT);
    return state_meters[state].traffic;
}

bool meter_for_disk(enum instance_state state, enum disk_kind kind, bool by_platform,
                    enum meter *ret_meter)
{
    CHECK((size_t)state < INSTANCE_STATE_COUNT);
    enum meter m =
        kind == DISK_SYSTEM ? state_meters[state].system_disk : state_meters[state].data_disk;

    if (m == FREE || (by_platform && state == INSTANCE_STOPPED))
        return false;
    *ret_meter = m;
    return true;
}
