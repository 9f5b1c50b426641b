/* watch.c: what a running guest does: evidence, idleness, full disks, output. Once a second. */
#include "node/agent_int.h"

#include "base/log.h"
#include "base/msg.h"

#include <stdlib.h>

#define DISK_WARN_MS 10000
#define STALL_MS 30000 /* longer than any call of ours may take */
#define LOG_CHUNKS 6   /* of PRIV_TEXT_MAX bytes, per lease and request */

struct emit {
    struct agent *a;
    struct lease_row *l;
};

static void emit_slice(void *user, struct meter_slice *s)
{
    struct emit *e = user;

    book_slice_add(&e->a->book, e->l, s);
    e->a->soft = true;
}

/* ---- notices ---- */

/* Replaces {a} and {b}; both languages, as nobody knows who reads the guest's terminal. */
static void fill(struct strbuf *out, const char *text, const char *a, const char *b)
{
    for (; *text != '\0'; text++) {
        bool first = strncmp(text, "{a}", 3) == 0;

        if (first || strncmp(text, "{b}", 3) == 0) {
            strbuf_add(out, first ? a : b);
            text += 2;
        } else {
            strbuf_add_n(out, text, 1);
        }
    }
    strbuf_add(out, "\n");
}

void watch_notice(struct agent *a, struct lease_row *l, const char *text)
{
    struct priv_req req = {.lease = l->want.lease};
    struct priv_rep rep;
    struct refusal why;

    req.text_len = (uint32_t)MIN(strlen(text), sizeof(req.text) - 1);
    memcpy(req.text, text, req.text_len);
    enum err e = helper_call(&a->helper, PRIV_NOTICE, &req, &rep, &why);
    if (e != ERR_OK)
        log_warn("lease=%s notice: %s", l->want.lease.s, err_code(e));
}

static void notice_both(struct agent *a, struct lease_row *l, const char *english, const char *x,
                        const char *y)
{
    AUTO_STRBUF struct strbuf out = {0};

    strbuf_init(&out, 2048);
    fill(&out, msg_tr(LANG_ZH, english), x, y);
    fill(&out, english, x, y);
    watch_notice(a, l, strbuf_str(&out));
}

/* ---- samples ---- */

static struct meter_sample sample(struct agent *a, struct lease_row *l, utime_t now)
{
    struct priv_rep rep;
    struct refusal why;
    struct meter_sample s = {
        .now = now, .mono = agent_mono(), .gpus_ok = agent_cards_ok(a, &l->want)};
    const struct disk_row *d = book_disk(&a->book, l->want.system_disk);
    int64_t util = 0;

    s.mono -= agent_now() - now; /* what passed since `now` was read is not sleep */
    if (l->guest == REC_GUEST_RUNNING &&
        helper_ask(&a->helper, PRIV_METER, l->want.lease, &rep, &why) == ERR_OK) {
        s.total = (struct meter_counters){rep.meter.cpu_us, rep.meter.rx_bytes, rep.meter.tx_bytes};
        s.memory_bytes = rep.meter.memory_bytes;
        l->memory_peak_mib = MAX(l->memory_peak_mib, rep.meter.memory_peak_bytes >> 20);
    }
    for (uint32_t i = 0; i < l->want.gpu_count; i++) {
        const struct gpu_card *c = gpu_find(&a->cards, l->want.gpus[i]);

        util += c != NULL && c->util_pct > 0 ? c->util_pct : 0;
        s.gpu_memory_mib += c != NULL ? c->memory_used_mib : 0;
    }
    if (l->want.gpu_count > 0)
        s.gpu_util_pct = (int32_t)(util / l->want.gpu_count);
    l->gpu_memory_peak_mib = MAX(l->gpu_memory_peak_mib, s.gpu_memory_mib);
    s.disk_used_mib = d != NULL ? d->used_mib : 0;
    return s;
}

/* Stopped for so long, everything else here was perhaps stopped as well: in doubt it is free. */
static bool stalled(const struct lease_row *l, utime_t now)
{
    return l->sampled_at != 0 && now - l->sampled_at > STALL_MS;
}

static void cards_changed(struct agent *a, struct lease_row *l, bool ok)
{
    if (ok == l->cards_ok)
        return;
    l->cards_ok = ok;
    a->urgent = true;
    log_warn("lease=%s cards %s", l->want.lease.s,
             ok ? "are back" : "LOST: nothing counts until they are back");
    if (!ok)
        notice_both(a, l,
                    N_("A card of this instance no longer answers. Nothing is charged for cards "
                       "until it is back."),
                    "", "");
}

/* ---- idle ---- */

static void idle_cards_text(const struct lease_row *l, uint32_t set, char *buf, size_t size)
{
    size_t at = 0;

    buf[0] = '\0';
    for (uint32_t i = 0; i < l->want.gpu_count; i++)
        if ((set & (1U << i)) != 0 && at + 4 < size) {
            (void)str_printf(buf + at, size - at, "%s%u", at > 0 ? "," : "", i);
            at = strlen(buf);
        }
}

static void idle_tell(struct agent *a, struct lease_row *l, const struct idle_result *r)
{
    char x[64], y[64];

    switch (r->verdict) {
    case IDLE_NOTHING:
        break;
    case IDLE_WARN:
        (void)str_printf(x, sizeof(x), "%" PRId64, r->idle_ms / 60000);
        (void)str_printf(y, sizeof(y), "%" PRId64, (r->left_ms + 59999) / 60000);
        notice_both(a, l,
                    l->want.idle_action == IDLE_ACTION_STOP
                        ? N_("Idle for {a} min. The instance will be stopped in {b} min unless it "
                             "works; the disk is kept.")
                        : N_("Idle for {a} min. The cards go on costing."),
                    x, y);
        a->urgent = true;
        break;
    case IDLE_ACT:
        if (l->want.idle_action == IDLE_ACTION_STOP) {
            l->idle_due = true;
            notice_both(a, l,
                        N_("The instance is being stopped because it is idle; the disk is kept."),
                        "", "");
        }
        book_lease_save(&a->book, l);
        a->urgent = true;
        break;
    case IDLE_PARTIAL:
        idle_cards_text(l, r->cards, x, sizeof(x));
        (void)str_printf(y, sizeof(y), "%d", (int)l->want.gpu_count - __builtin_popcount(r->cards));
        notice_both(
            a, l, N_("Cards {a} idle while others work: a shape with {b} card(s) would do."), x, y);
        a->urgent = true;
        break;
    }
}

static void idle_look(struct agent *a, struct lease_row *l, const struct meter_sample *s)
{
    struct idle_rule rule = {.idle_ms = l->want.idle_ms,
                             .action = l->want.idle_action,
                             .gpu_count = (int32_t)l->want.gpu_count,
                             .cpu_milli = l->want.cpu_milli};
    struct idle_sample x = {.now = s->now, .cpu_us = s->total.cpu_us};
    struct idle_result r;
    int64_t slept = (s->now - s->mono) - l->meter.slept_base;

    for (uint32_t i = 0; i < l->want.gpu_count; i++) {
        const struct gpu_card *c = gpu_find(&a->cards, l->want.gpus[i]);

        /* A lost card does not work: its load is not the renter's fault, but no activity either. */
        x.util_pct[i] = c == NULL || !c->healthy ? 0 : c->util_pct;
    }
    if (s->doubt)
        slept = s->now - l->sampled_at;
    if (slept > METER_SLEPT_MS)
        idle_skip(&l->idle, slept);
    idle_step(&l->idle, &rule, &x, &r);
    l->idle_ms = r.idle_ms;
    l->idle_cards = r.idle_ms < l->want.idle_ms ? r.cards : 0;
    if (!l->idle_due)
        idle_tell(a, l, &r);
}

/* ---- disks ---- */

static void disk_warn(struct agent *a, struct lease_row *l, uint32_t index, struct id disk)
{
    const struct disk_row *d = book_disk(&a->book, disk);
    uint32_t bit80 = 1U << (2 * index), bit95 = 2U << (2 * index);
    char pct_text[16];

    if (d == NULL || d->size_mib <= 0)
        return;
    int64_t pct = d->used_mib * 100 / d->size_mib;
    if (d->inodes > 0)
        pct = MAX(pct, d->inodes_used * 100 / d->inodes);
    (void)str_printf(pct_text, sizeof(pct_text), "%" PRId64, pct);
    uint32_t due = pct >= 95 ? bit95 : pct >= 80 ? bit80 : 0;
    if (pct < 75)
        l->disk_told &= ~(bit80 | bit95);
    if (due == 0 || (l->disk_told & due) != 0)
        return;
    l->disk_told |= due | bit80;
    notice_both(a, l,
                N_("Disk {a} is {b} % full. A full disk stops writes of this instance only; grow "
                   "it or delete files."),
                index == 0 ? "/" : l->want.data[index - 1].mount, pct_text);
    log_info("lease=%s disk=%s full_pct=%s", l->want.lease.s, disk.s, pct_text);
    a->urgent = true;
}

static void disks_warn(struct agent *a, struct lease_row *l)
{
    disk_warn(a, l, 0, l->want.system_disk);
    for (uint32_t i = 0; i < l->want.data_count; i++)
        disk_warn(a, l, i + 1, l->want.data[i].disk);
}

/* ---- output ---- */

static void log_pump(struct agent *a, struct lease_row *l)
{
    AUTO_STRBUF struct strbuf out = {0};
    uint64_t from = l->log_from;

    if (!l->want.want_logs || l->log_data != NULL)
        return;
    strbuf_init(&out, LOG_CHUNKS * PRIV_TEXT_MAX);
    for (int i = 0; i < LOG_CHUNKS; i++) {
        struct priv_req req = {.lease = l->want.lease};
        struct priv_rep rep;
        struct refusal why;

        req.log.from = from;
        if (helper_call(&a->helper, PRIV_GUEST_LOG, &req, &rep, &why) != ERR_OK ||
            rep.text_len == 0 || rep.text_len > PRIV_TEXT_MAX)
            break;
        uint64_t begin = rep.log.next - rep.text_len;
        if (begin != from && out.len > 0)
            break; /* what lay between is gone: the next piece begins anew */
        if (out.len == 0)
            l->log_at = begin;
        strbuf_add_n(&out, rep.text, rep.text_len);
        from = rep.log.next;
    }
    if (out.len == 0)
        return;
    l->log_len = out.len;
    l->log_data = strbuf_take(&out);
    a->soft = true;
}

/* ---- all ---- */

void watch_begin(struct agent *a, struct lease_row *l)
{
    utime_t now = agent_now();

    l->ready = l->guest_ready;
    l->cards_ok = agent_cards_ok(a, &l->want);
    meter_begin(&l->meter, l->adopted ? now : l->ready, now - agent_mono(), l->cards_ok);
    memset(&l->idle, 0, sizeof(l->idle));
    agent_disks_look_again(a, l);
    firstboot_report(a, l);
    book_lease_save(&a->book, l);
    a->urgent = true;
    const uint32_t *us = l->step_us;
    log_info("lease=%s epoch=%" PRId64 " reachable taken_ms=%" PRId64 " ready_ms=%" PRId64
             " disk_us=%u image_us=%u network_us=%u runtime_us=%u ssh_us=%u",
             l->want.lease.s, l->epoch, l->taken_at, l->ready, us[GUEST_STEP_DISK],
             us[GUEST_STEP_IMAGE], us[GUEST_STEP_NETWORK], us[GUEST_STEP_RUNTIME],
             us[GUEST_STEP_SSH]);
}

void watch_end(struct agent *a, struct lease_row *l, utime_t now)
{
    struct emit e = {a, l};
    struct meter_sample s = sample(a, l, now);

    s.doubt = stalled(l, now);
    if (l->guest == REC_GUEST_ENDED && l->guest_ended > 0)
        meter_end(&l->meter, l->guest_ended, &s, a->cfg->slice_s * MS_PER_S, emit_slice, &e);
    else
        meter_cut(&l->meter, a->cfg->slice_s * MS_PER_S, emit_slice, &e);
    log_pump(a, l);
}

static void guest_watch(struct agent *a, struct lease_row *l, utime_t now, bool warn_disks)
{
    struct emit e = {a, l};
    struct meter_sample s = sample(a, l, now);

    /* Stopped for so long, everything else here was perhaps stopped as well: in doubt it is free.
     */
    s.doubt = l->sampled_at != 0 && now - l->sampled_at > STALL_MS;
    cards_changed(a, l, s.gpus_ok);
    idle_look(a, l, &s); /* before the meter: both look at the same mark of slept time */
    meter_feed(&l->meter, &s, a->cfg->slice_s * MS_PER_S, emit_slice, &e);
    l->sampled_at = now;
    if (warn_disks)
        disks_warn(a, l);
    log_pump(a, l);
}

void watch_guests(struct agent *a, utime_t now)
{
    bool warn_disks = now - a->disks_warn_at >= DISK_WARN_MS;

    if (now - a->watch_at < MS_PER_S)
        return;
    a->watch_at = now;
    if (warn_disks)
        a->disks_warn_at = now;
    VEC_FOREACH (l, &a->book.leases)
        /* Alive is what the helper said a moment ago, not what it said once. */
        if ((*l)->phase == REC_STARTED && (*l)->ready > 0 && (*l)->found &&
            (*l)->guest == REC_GUEST_RUNNING && (*l)->guard_alive &&
            now - (*l)->seen_at < 2 * MS_PER_S)
            guest_watch(a, *l, (*l)->seen_at, warn_disks);
}
