/* idle.c: see idle.h for the rule.
 *
 *   sample            | what it does
 *   card >= 5 %       | that card was active now
 *   card unknown      | as active
 *   CPU window >= 2 % | the seat was active at the window's end
 *   all marks old     | idle since the youngest mark; warn at idle_ms - lead, act at idle_ms */
#include "domain/idle.h"

int64_t idle_lead_ms(int64_t idle_ms)
{
    return MIN((int64_t)IDLE_LEAD_MS, idle_ms / 3);
}

static void cpu_window(struct idle_state *s, const struct idle_rule *rule,
                       const struct idle_sample *sample)
{
    int64_t length = MIN((int64_t)IDLE_CPU_WINDOW_MS, MAX(rule->idle_ms / 4, (int64_t)1000));
    int64_t passed = sample->now - s->window_at;

    if (passed < length)
        return;
    int64_t used_us = sample->cpu_us - s->window_cpu_us;
    /* used / (passed * cores) in thousandths; passed ms = passed * 1000 us; cores = milli / 1000 */
    int64_t limit_us = passed * MAX(rule->cpu_milli, 1) * IDLE_CPU_PERMILLE / 1000;
    if (used_us < 0 || used_us >= limit_us)
        s->cpu_active_at = sample->now;
    s->window_at = sample->now;
    s->window_cpu_us = sample->cpu_us;
}

static void begin(struct idle_state *s, const struct idle_sample *sample)
{
    for (size_t i = 0; i < INSTANCE_GPUS_MAX; i++)
        s->active_at[i] = sample->now;
    s->cpu_active_at = sample->now;
    s->window_at = sample->now;
    s->window_cpu_us = sample->cpu_us;
}

static void cards_mark(struct idle_state *s, const struct idle_rule *rule,
                       const struct idle_sample *sample)
{
    for (int32_t i = 0; i < rule->gpu_count; i++)
        if (sample->util_pct[i] < 0 || sample->util_pct[i] >= IDLE_GPU_PCT)
            s->active_at[i] = sample->now;
}

static utime_t youngest_mark(const struct idle_state *s, const struct idle_rule *rule)
{
    utime_t t = rule->gpu_count > 0 ? s->active_at[0] : s->cpu_active_at;

    for (int32_t i = 1; i < rule->gpu_count; i++)
        t = MAX(t, s->active_at[i]);
    return t;
}

static uint32_t cards_idle(const struct idle_state *s, const struct idle_rule *rule, utime_t now)
{
    uint32_t set = 0;

    for (int32_t i = 0; i < rule->gpu_count; i++)
        if (now - s->active_at[i] >= rule->idle_ms)
            set |= 1U << i;
    return set;
}

void idle_step(struct idle_state *s, const struct idle_rule *rule, const struct idle_sample *sample,
               struct idle_result *ret_result)
{
    struct idle_result r = {.verdict = IDLE_NOTHING};

    CHECK(rule->gpu_count >= 0 && rule->gpu_count <= INSTANCE_GPUS_MAX);
    if (s->window_at == 0)
        begin(s, sample);
    cards_mark(s, rule, sample);
    cpu_window(s, rule, sample);
    r.idle_ms = MAX(sample->now - youngest_mark(s, rule), (int64_t)0);
    if (rule->idle_ms > 0) {
        int64_t lead = idle_lead_ms(rule->idle_ms);

        r.left_ms = MAX(rule->idle_ms - r.idle_ms, (int64_t)0);
        r.cards = cards_idle(s, rule, sample->now);
        if (r.idle_ms < rule->idle_ms - lead)
            s->warned = s->acted = false;
        if (r.idle_ms >= rule->idle_ms && s->warned && !s->acted) {
            s->acted = true;
            r.verdict = IDLE_ACT;
        } else if (r.idle_ms >= rule->idle_ms - lead && !s->warned) {
            s->warned = true;
            r.verdict = IDLE_WARN;
        } else if (r.idle_ms < rule->idle_ms && (r.cards & ~s->told) != 0) {
            r.verdict = IDLE_PARTIAL;
        }
        s->told = r.cards;
    }
    *ret_result = r;
}

void idle_skip(struct idle_state *s, int64_t slept_ms)
{
    if (s->window_at == 0)
        return;
    for (size_t i = 0; i < INSTANCE_GPUS_MAX; i++)
        s->active_at[i] += slept_ms;
    s->cpu_active_at += slept_ms;
    s->window_at += slept_ms;
}
