/* The ledger clock of the core (money.md 1.6, B22). */
#include "app/core_int.h"
#include "base/log.h"
#include "domain/meter.h"

utime_t core_ledger_at(const struct core *c, utime_t boot_ms)
{
    return c->clock.base_ms + (boot_ms - c->clock.base_boot_ms);
}

enum err core_clock_start(struct core *c, const struct core_now *now)
{
    struct core_clock *k = &c->clock;
    char boot[33];
    int64_t last, wall, boot_ms, alarm;
    bool found;

    TRY(store_meta_get(c->store, "clock.boot", boot, sizeof(boot), &found));
    TRY(store_meta_get_i64(c->store, "clock.ledger", 0, &last));
    TRY(store_meta_get_i64(c->store, "clock.wall", 0, &wall));
    TRY(store_meta_get_i64(c->store, "clock.boot_ms", 0, &boot_ms));
    TRY(store_meta_get_i64(c->store, "clock.alarm", 0, &alarm));
    k->alarm = alarm != 0;
    if (found && str_eq(boot, now->boot) && now->boot_ms >= boot_ms) {
        k->base_ms = last + (now->boot_ms - boot_ms);
        if (meter_clock_stepped(now->wall_ms - wall, now->boot_ms - boot_ms))
            k->alarm = true;
    } else {
        /* a machine that comes up with a clock behind what was booked already is wrong */
        if (found && now->wall_ms < last - METER_CLOCK_STEP_MS)
            k->alarm = true;
        k->base_ms = MAX(last + 1, now->wall_ms);
    }
    k->base_boot_ms = now->boot_ms;
    k->last_ms = k->base_ms;
    k->wall_ms = now->wall_ms;
    k->boot_ms = now->boot_ms;
    memcpy(k->boot, now->boot, sizeof(k->boot));
    c->listening_since = k->base_ms;
    return ERR_OK;
}

utime_t core_clock_step(struct core *c, const struct core_now *now)
{
    struct core_clock *k = &c->clock;

    if (!k->alarm && meter_clock_stepped(now->wall_ms - k->wall_ms, now->boot_ms - k->boot_ms)) {
        k->alarm = true;
        log_error("clock_step wall_delta_ms=%" PRId64 " boot_delta_ms=%" PRId64
                  " new starts wait for: admin check --clear-clock",
                  now->wall_ms - k->wall_ms, now->boot_ms - k->boot_ms);
        c->alarm_news = true;
    }
    k->wall_ms = now->wall_ms;
    k->boot_ms = now->boot_ms;
    k->last_ms = MAX(k->last_ms + 1, core_ledger_at(c, now->boot_ms));
    return k->last_ms;
}

enum err core_clock_save(struct core *c)
{
    TRY(store_meta_set(c->store, "clock.boot", c->clock.boot));
    TRY(store_meta_set_i64(c->store, "clock.ledger", c->clock.last_ms));
    TRY(store_meta_set_i64(c->store, "clock.wall", c->clock.wall_ms));
    TRY(store_meta_set_i64(c->store, "clock.boot_ms", c->clock.boot_ms));
    return store_meta_set_i64(c->store, "clock.alarm", c->clock.alarm);
}

bool core_clock_alarm(const struct core *c)
{
    return c->clock.alarm;
}

enum err core_clock_clear(struct op *op)
{
    op->core->clock.alarm = false;
    return store_meta_set_i64(op->store, "clock.alarm", 0);
}
