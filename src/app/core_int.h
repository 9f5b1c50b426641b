/* core_int.h: inside the core and its ticks only. */
#pragma once

#include "app/core.h"
#include "engine/engine.h"

struct core_message {
    struct core_request request; /* its parts are owned */
    struct refusal why;
    char *answer; /* owned */
    size_t answer_len;
    bool replayed;
    utime_t hold_until_ms; /* boot clock */
};
struct core_messages {
    struct core_message *at;
    size_t len, cap;
};

/* The ledger clock: strictly increasing ms. Between batches it follows the boot-time clock, so that
 * a step of the wall clock moves no charge; only a new boot of the machine looks at the wall again.
 */
struct core_clock {
    utime_t last_ms;               /* given out last */
    utime_t base_ms, base_boot_ms; /* ledger = base + (boot − base_boot); fixed at start */
    utime_t wall_ms, boot_ms;      /* of the last batch */
    char boot[33];
    bool alarm; /* the wall clock stepped: no new starts until an operator clears it */
};

struct core {
    struct store *store; /* borrowed */
    struct core_config config;
    struct id_maker ids;
    struct engine engine;
    struct core_clock clock;
    utime_t listening_since; /* ledger clock of the start: silence is counted from here */
    struct core_messages pending, held;
    utime_t tick_due_ms;  /* boot clock */
    utime_t slow_tick_ms; /* ledger clock of the last slow tick */
    utime_t line_told_ms; /* … when places in line were told last */
    bool alarm_news;      /* the alarm went on and nobody was told yet */
    bool dirty;           /* the running batch changed something */
    int64_t event_last;
    struct core_stats stats;
};

/* ledger_clock.c */
enum err core_clock_start(struct core *c, const struct core_now *now);
utime_t core_clock_step(struct core *c, const struct core_now *now);
enum err core_clock_save(struct core *c);
utime_t core_ledger_at(const struct core *c, utime_t boot_ms);
