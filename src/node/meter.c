#include "node/meter.h"

/* [t0, t1) in pieces of at most slice_ms, the increments in the last one. */
static void emit_span(struct meter_lease *m, utime_t t1, int64_t slice_ms, meter_emit_fn *emit,
                      void *user)
{
    int64_t step = MIN(MAX(slice_ms, (int64_t)1), (int64_t)METER_SLICE_MS_MAX);

    if (m->t0 >= t1)
        return;
    while (m->t0 < t1) {
        utime_t border = MIN(t1, (m->t0 / step + 1) * step);
        struct meter_slice s = {.voided = m->kind != METER_LIVE,
                                .gpus_ok = m->kind != METER_CARDS_BAD,
                                .t0 = m->t0,
                                .t1 = border,
                                .slept_base = m->slept_base};

        s.memory_bytes = m->memory_max;
        s.disk_used_mib = m->disk_used_mib;
        s.gpu_memory_mib = m->gpu_memory_max;
        if (m->util_count > 0)
            s.gpu_util_pct = (int32_t)(m->util_sum / m->util_count);
        s.total = m->at_t0;
        if (border == t1) {
            s.cpu_us = MAX(m->at_last.cpu_us - m->at_t0.cpu_us, (int64_t)0);
            s.rx_bytes = MAX(m->at_last.rx_bytes - m->at_t0.rx_bytes, (int64_t)0);
            s.tx_bytes = MAX(m->at_last.tx_bytes - m->at_t0.tx_bytes, (int64_t)0);
            s.total = m->at_last;
        }
        m->t0 = border;
        emit(user, &s);
    }
    m->at_t0 = m->at_last;
    m->memory_max = m->memory_last;
    m->gpu_memory_max = m->gpu_memory_last;
    m->util_sum = m->util_count = 0;
}

void meter_begin(struct meter_lease *m, utime_t ready, int64_t slept_base, bool gpus_ok)
{
    memset(m, 0, sizeof(*m));
    m->open = true;
    m->t0 = m->last = ready;
    m->slept_base = slept_base;
    m->gpus_ok = gpus_ok;
    m->kind = gpus_ok ? METER_LIVE : METER_CARDS_BAD;
}

void meter_resume(struct meter_lease *m, const struct meter_slice *last)
{
    meter_begin(m, last->t1, last->slept_base, last->gpus_ok);
    m->at_t0 = m->at_last = last->total;
}

/* What follows `last` is of this kind; closes the open slice first when it is of another. */
static void span_kind(struct meter_lease *m, enum meter_kind kind, int64_t slice_ms,
                      meter_emit_fn *emit, void *user)
{
    if (m->kind != kind)
        emit_span(m, m->last, slice_ms, emit, user);
    m->kind = kind;
}

static void totals_take(struct meter_lease *m, const struct meter_sample *s)
{
    /* A counter that went back (its cgroup is gone) says nothing. */
    m->at_last.cpu_us = MAX(m->at_last.cpu_us, s->total.cpu_us);
    m->at_last.rx_bytes = MAX(m->at_last.rx_bytes, s->total.rx_bytes);
    m->at_last.tx_bytes = MAX(m->at_last.tx_bytes, s->total.tx_bytes);
    m->memory_max = MAX(m->memory_max, s->memory_bytes);
    m->gpu_memory_max = MAX(m->gpu_memory_max, s->gpu_memory_mib);
    m->memory_last = s->memory_bytes;
    m->gpu_memory_last = s->gpu_memory_mib;
    m->disk_used_mib = s->disk_used_mib;
    m->util_sum += s->gpu_util_pct;
    m->util_count++;
}

/* Moves the proof on to `to`. */
static void advance(struct meter_lease *m, utime_t to, const struct meter_sample *s,
                    int64_t slice_ms, meter_emit_fn *emit, void *user)
{
    int64_t base = s->now - s->mono;
    int64_t slept = base - m->slept_base;

    if (slept > METER_SLEPT_MS) {
        /* When exactly it slept is not known, only how long: the gap starts with it. */
        span_kind(m, METER_SLEPT, slice_ms, emit, user);
        m->last = MIN(m->last + slept, to);
        m->slept_base = base;
    }
    if (s->doubt) {
        span_kind(m, METER_SLEPT, slice_ms, emit, user);
        m->last = MAX(m->last, to);
    }
    span_kind(m, m->gpus_ok && s->gpus_ok ? METER_LIVE : METER_CARDS_BAD, slice_ms, emit, user);
    m->last = MAX(m->last, to);
    m->gpus_ok = s->gpus_ok;
    totals_take(m, s);
}

void meter_feed(struct meter_lease *m, const struct meter_sample *s, int64_t slice_ms,
                meter_emit_fn *emit, void *user)
{
    if (!m->open || s->now < m->last)
        return;
    advance(m, s->now, s, slice_ms, emit, user);
    /* On the grid, not at the sample: the rest belongs to the next slice. */
    emit_span(m, m->last / slice_ms * slice_ms, slice_ms, emit, user);
}

void meter_end(struct meter_lease *m, utime_t end, const struct meter_sample *s, int64_t slice_ms,
               meter_emit_fn *emit, void *user)
{
    if (!m->open)
        return;
    if (end > m->last)
        advance(m, end, s, slice_ms, emit, user);
    emit_span(m, m->last, slice_ms, emit, user);
    m->open = false;
}

void meter_cut(struct meter_lease *m, int64_t slice_ms, meter_emit_fn *emit, void *user)
{
    if (!m->open)
        return;
    emit_span(m, m->last, slice_ms, emit, user);
    m->open = false;
}
