/* idle.h: when a lease does nothing (product.md 4.7). Pure; times are boot-time ms of the node.
 *
 * Idle = every leased card under 5 % for idle_ms; without cards: CPU under 2 % of the leased cores,
 * averaged over a minute (a quarter of idle_ms where that is shorter), so that a keep-alive or an
 * open silent terminal is no activity. A card whose load cannot be read counts as busy: nothing is
 * guessed. The notice comes a lead before the action. When only some cards idle that long, their
 * set is told once each time it grows. */
#pragma once

#include "domain/types.h"

#define IDLE_GPU_PCT 5
#define IDLE_CPU_PERMILLE 20
#define IDLE_CPU_WINDOW_MS 60000
#define IDLE_LEAD_MS 300000

struct idle_rule {
    int64_t idle_ms; /* 0: no rule */
    enum idle_action action;
    int32_t gpu_count;
    int32_t cpu_milli; /* leased cores in thousandths */
};

struct idle_sample {
    utime_t now;
    int32_t util_pct[INSTANCE_GPUS_MAX]; /* -1 unknown */
    int64_t cpu_us;                      /* counter since the guest began, not an increment */
};

/* Zeroed at birth; may be kept over a restart of its keeper. */
struct idle_state {
    utime_t active_at[INSTANCE_GPUS_MAX]; /* last moment each card was busy */
    utime_t cpu_active_at;
    utime_t window_at; /* begin of the CPU window; 0: nothing seen yet */
    int64_t window_cpu_us;
    bool warned, acted;
    uint32_t told; /* cards of the last partial notice, one bit each */
};

enum idle_verdict {
    IDLE_NOTHING,
    IDLE_WARN,    /* once per idle stretch: the notice */
    IDLE_ACT,     /* once per idle stretch: the action of the rule */
    IDLE_PARTIAL, /* the cards in `cards` idle, others work */
};

struct idle_result {
    enum idle_verdict verdict;
    int64_t idle_ms; /* how long the whole lease has been idle; 0 while busy */
    int64_t left_ms; /* until the action; 0 without a rule */
    uint32_t cards;  /* cards idle for idle_ms, one bit each */
};

int64_t idle_lead_ms(int64_t idle_ms); /* how long before the action the notice comes */
void idle_step(struct idle_state *s, const struct idle_rule *rule, const struct idle_sample *sample,
               struct idle_result *ret_result);
/* The slept time of a suspend is nobody's idleness: moves all marks on. */
void idle_skip(struct idle_state *s, int64_t slept_ms);
