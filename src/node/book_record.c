#include "node/book_record.h"

#include <stdlib.h>

#define RECORD_MAX JOURNAL_RECORD_MAX

struct record {
    struct strbuf text;
    struct json_writer w;
};

static void record_begin(struct record *r, const char *kind)
{
    strbuf_init(&r->text, RECORD_MAX);
    json_writer_init(&r->w, &r->text);
    json_object_begin(&r->w, NULL);
    json_str(&r->w, "k", kind);
}

static void record_add(struct book *b, struct record *r)
{
    json_object_finish(&r->w);
    CHECK(!r->text.overflow);
    journal_add(b->journal, strbuf_str(&r->text));
    strbuf_fini(&r->text);
}

static void write_list(struct json_writer *w, const char *key, const char *list)
{
    json_array_begin(w, key);
    for (; *list != '\0'; list += strlen(list) + 1)
        json_str(w, NULL, list);
    json_array_finish(w);
}

/* The same words as in the answer, so that one parser reads both; the ends apart. */
static void write_want(struct json_writer *w, const struct want_lease *l)
{
    json_object_begin(w, "doc");
    json_str(w, "lease", l->lease.s);
    json_str(w, "instance", l->instance.s);
    json_str(w, "name", l->name);
    json_i64(w, "epoch", l->epoch);
    json_str(w, "want", "run");
    json_i64(w, "grace_ms", l->grace_ms);
    json_str(w, "image", l->image);
    json_i64(w, "cpu_milli", MAX(l->cpu_milli, 1));
    json_i64(w, "memory_mib", MAX(l->memory_mib, (int64_t)1));
    json_i64(w, "pids_max", MAX(l->pids_max, 1));
    json_array_begin(w, "gpus");
    for (uint32_t i = 0; i < l->gpu_count; i++)
        json_str(w, NULL, l->gpus[i]);
    json_array_finish(w);
    json_str(w, "gpu_model", l->gpu_model);
    json_i64(w, "gpu_memory_mib", l->gpu_memory_mib);
    json_str(w, "system_disk", l->system_disk.s);
    json_array_begin(w, "data");
    for (uint32_t i = 0; i < l->data_count; i++) {
        json_object_begin(w, NULL);
        json_str(w, "disk", l->data[i].disk.s);
        json_str(w, "mount", l->data[i].mount);
        json_object_finish(w);
    }
    json_array_finish(w);
    json_array_begin(w, "ports");
    for (uint32_t i = 0; i < l->port_count; i++) {
        json_object_begin(w, NULL);
        json_i64(w, "guest", l->ports[i].guest);
        json_i64(w, "host", l->ports[i].host);
        json_flag(w, "udp", l->ports[i].udp != 0);
        json_object_finish(w);
    }
    json_array_finish(w);
    write_list(w, "argv", l->argv);
    write_list(w, "env", l->env);
    json_i64(w, "idle_s", l->idle_ms / MS_PER_S);
    json_str(w, "idle_action", l->idle_action == IDLE_ACTION_NOTICE ? "notice" : "stop");
    json_flag(w, "simulated", l->simulated);
    json_object_finish(w);
    json_str(w, "keys", l->keys);
}

static void write_error(struct json_writer *w, const struct refusal *e)
{
    json_str(w, "error", e->code == ERR_OK ? "" : err_code(e->code));
    json_object_begin(w, "error_params");
    for (size_t i = 0; e->code != ERR_OK && i < e->param_count; i++)
        json_str(w, e->params[i].key, e->params[i].value);
    json_object_finish(w);
}

utime_t book_idle_mark(const struct lease_row *l)
{
    utime_t t = l->want.gpu_count > 0 ? 0 : l->idle.cpu_active_at;

    for (uint32_t i = 0; i < l->want.gpu_count; i++)
        t = MAX(t, l->idle.active_at[i]);
    return t;
}

static void write_meter(struct json_writer *w, const struct lease_row *l)
{
    json_object_begin(w, "meter");
    json_flag(w, "open", l->meter.open);
    json_i64(w, "t0", l->meter.t0);
    json_i64(w, "slept", l->meter.slept_base);
    json_flag(w, "ok", l->meter.gpus_ok);
    json_i64(w, "cpu", l->meter.at_t0.cpu_us);
    json_i64(w, "rx", l->meter.at_t0.rx_bytes);
    json_i64(w, "tx", l->meter.at_t0.tx_bytes);
    json_i64(w, "idle_at", book_idle_mark(l));
    json_object_finish(w);
}

void book_lease_save(struct book *b, const struct lease_row *l)
{
    struct record r;
    struct json_writer *w = &r.w;

    record_begin(&r, "lease");
    write_want(w, &l->want);
    json_i64(w, "want", l->want.want);
    json_i64(w, "paid", l->want.paid_until);
    json_i64(w, "ends", l->want.ends_at);
    json_str(w, "reason", end_reason_name(l->want.reason));
    json_flag(w, "named", l->named);
    json_i64(w, "phase", l->phase);
    json_i64(w, "epoch", l->epoch);
    json_str(w, "boot", l->boot);
    json_i64(w, "address", l->address);
    json_i64(w, "ready", l->ready);
    json_i64(w, "ended", l->ended);
    json_str(w, "end", end_reason_name(l->end));
    json_str(w, "stop", end_reason_name(l->stop_reason));
    json_i64(w, "exit", l->exit_code);
    write_error(w, &l->error);
    json_flag(w, "cleaned", l->cleaned);
    json_flag(w, "told", l->told);
    json_str(w, "host_key", l->host_key);
    json_i64(w, "notice", l->notice_seen);
    json_raw(w, "report", l->report);
    json_flag(w, "report_ok", l->report_ok);
    json_i64(w, "peak", l->memory_peak_mib);
    json_i64(w, "gpu_peak", l->gpu_memory_peak_mib);
    json_flag(w, "idle_due", l->idle_due);
    write_meter(w, l);
    record_add(b, &r);
}

void book_disk_save(struct book *b, const struct disk_row *d, bool gone)
{
    struct record r;

    record_begin(&r, "disk");
    json_str(&r.w, "disk", d->want.disk.s);
    json_str(&r.w, "instance", d->want.instance.s);
    json_i64(&r.w, "size_mib", d->want.size_mib);
    json_str(&r.w, "want", d->want.want == REC_DISK_GONE ? "erased" : "present");
    json_flag(&r.w, "named", d->named);
    json_flag(&r.w, "gone", gone);
    record_add(b, &r);
}

void book_image_save(struct book *b, const struct image_row *m, bool gone)
{
    struct record r;

    record_begin(&r, "image");
    json_str(&r.w, "digest", m->want.digest);
    json_str(&r.w, "source", m->want.source);
    json_str(&r.w, "want", m->want.present ? "present" : "absent");
    json_flag(&r.w, "gone", gone);
    record_add(b, &r);
}

void book_slice_save(struct book *b, const struct meter_slice *s, utime_t idle_at)
{
    struct record r;
    struct json_writer *w = &r.w;

    record_begin(&r, "slice");
    json_str(w, "boot", s->boot);
    json_i64(w, "seq", s->seq);
    json_str(w, "lease", s->lease.s);
    json_i64(w, "epoch", s->epoch);
    json_flag(w, "void", s->voided);
    json_flag(w, "ok", s->gpus_ok);
    json_i64(w, "t0", s->t0);
    json_i64(w, "t1", s->t1);
    json_i64(w, "cpu_us", s->cpu_us);
    json_i64(w, "rx", s->rx_bytes);
    json_i64(w, "tx", s->tx_bytes);
    json_i64(w, "mem", s->memory_bytes);
    json_i64(w, "disk", s->disk_used_mib);
    json_i64(w, "gmem", s->gpu_memory_mib);
    json_i64(w, "util", s->gpu_util_pct);
    json_i64(w, "cpu_all", s->total.cpu_us);
    json_i64(w, "rx_all", s->total.rx_bytes);
    json_i64(w, "tx_all", s->total.tx_bytes);
    json_i64(w, "slept", s->slept_base);
    json_i64(w, "idle_at", idle_at);
    if (s->has_sig) {
        char sig[SIGN_TEXT];

        hex_write(s->sig, SIGN_SIZE, sig);
        json_str(w, "sig", sig);
    }
    record_add(b, &r);
}

void book_seq_save(struct book *b)
{
    struct record r;

    record_begin(&r, "boot");
    json_str(&r.w, "boot", b->boot);
    json_i64(&r.w, "seq", b->seq_next);
    record_add(b, &r);
}

void book_drop_save(struct book *b, struct id lease, int64_t epoch)
{
    struct record r;

    record_begin(&r, "drop");
    json_str(&r.w, "lease", lease.s);
    json_i64(&r.w, "epoch", epoch);
    record_add(b, &r);
}

void book_ack_save(struct book *b, const char *boot, int64_t seq)
{
    struct record r;

    record_begin(&r, "ack");
    json_str(&r.w, "boot", boot);
    json_i64(&r.w, "seq", seq);
    record_add(b, &r);
}

/* ---- replay ---- */

static void error_parse(const json_t *o, struct refusal *e)
{
    const json_t *params = json_object_get(o, "error_params");
    const char *code = "", *key;
    json_t *v;
    enum err found;

    (void)json_get_str(o, "error", "", &code);
    if (!err_find(code, &found) || found == ERR_OK)
        return;
    (void)refuse(e, found);
    json_object_foreach((json_t *)(uintptr_t)params, key,
                        v) if (e->param_count < REFUSAL_PARAMS_MAX && json_is_string(v))
        refusal_set(e, key, json_string_value(v));
}

static int64_t num(const json_t *o, const char *key)
{
    int64_t v = 0;

    return json_get_i64(o, key, 0, &v) ? v : 0;
}

static bool flag(const json_t *o, const char *key)
{
    bool v = false;

    return json_get_bool(o, key, false, &v) && v;
}

static enum end_reason reason(const json_t *o, const char *key)
{
    const char *s = "";
    enum end_reason r = END_NONE;

    if (json_get_str(o, key, "", &s) && s != NULL && s[0] != '\0')
        (void)end_reason_find(s, &r);
    return r;
}

static void idle_resume(struct lease_row *l, utime_t at)
{
    for (size_t i = 0; i < INSTANCE_GPUS_MAX; i++)
        l->idle.active_at[i] = at;
    l->idle.cpu_active_at = at;
    l->idle.window_at = at > 0 ? l->meter.t0 : 0; /* where the counter stood */
    l->idle.window_cpu_us = l->meter.at_t0.cpu_us;
}

static void meter_parse(const json_t *o, struct lease_row *l)
{
    const json_t *m = json_object_get(o, "meter");

    if (!flag(m, "open"))
        return;
    meter_begin(&l->meter, num(m, "t0"), num(m, "slept"), flag(m, "ok"));
    l->meter.at_t0 = l->meter.at_last =
        (struct meter_counters){num(m, "cpu"), num(m, "rx"), num(m, "tx")};
    idle_resume(l, num(m, "idle_at"));
}

static void replay_lease(struct book *b, const json_t *o)
{
    struct want_lease want;
    char why[96];
    const json_t *report = json_object_get(o, "report");

    if (!want_lease_parse(json_object_get(o, "doc"), 0, &want, why, sizeof(why)))
        /* An end that came before its shape: nothing to run, but the record counts. */
        if (want.lease.s[0] == '\0')
            return;
    struct lease_row *l = book_lease(b, want.lease);
    if (l == NULL)
        l = book_lease_add(b, want.lease);
    memset(&l->meter, 0, sizeof(l->meter));
    l->want = want;
    l->want.want = (enum rec_want)num(o, "want");
    l->want.paid_until = num(o, "paid");
    l->want.ends_at = num(o, "ends");
    l->want.reason = reason(o, "reason");
    (void)json_get_text(o, "keys", l->want.keys, sizeof(l->want.keys));
    l->named = flag(o, "named");
    l->phase = (enum rec_phase)num(o, "phase");
    l->epoch = num(o, "epoch");
    (void)json_get_text(o, "boot", l->boot, sizeof(l->boot));
    l->address = (uint32_t)num(o, "address");
    l->ready = num(o, "ready");
    l->ended = num(o, "ended");
    l->end = reason(o, "end");
    l->stop_reason = reason(o, "stop");
    l->exit_code = (int32_t)num(o, "exit");
    memset(&l->error, 0, sizeof(l->error));
    error_parse(o, &l->error);
    l->cleaned = flag(o, "cleaned");
    l->told = flag(o, "told");
    (void)json_get_text(o, "host_key", l->host_key, sizeof(l->host_key));
    l->notice_seen = num(o, "notice");
    free(l->report);
    l->report = json_is_object(report) ? json_dumps(report, JSON_COMPACT) : NULL;
    l->report_ok = flag(o, "report_ok");
    l->memory_peak_mib = num(o, "peak");
    l->gpu_memory_peak_mib = num(o, "gpu_peak");
    l->idle_due = flag(o, "idle_due");
    meter_parse(o, l);
}

static void replay_slice(struct book *b, const json_t *o)
{
    struct meter_slice s = {.seq = num(o, "seq"), .epoch = num(o, "epoch")};

    if (!json_get_text(o, "boot", s.boot, sizeof(s.boot)) ||
        !json_get_text(o, "lease", s.lease.s, sizeof(s.lease.s)))
        return;
    s.voided = flag(o, "void");
    s.gpus_ok = flag(o, "ok");
    s.t0 = num(o, "t0");
    s.t1 = num(o, "t1");
    s.cpu_us = num(o, "cpu_us");
    s.rx_bytes = num(o, "rx");
    s.tx_bytes = num(o, "tx");
    s.memory_bytes = num(o, "mem");
    s.disk_used_mib = num(o, "disk");
    s.gpu_memory_mib = num(o, "gmem");
    s.gpu_util_pct = (int32_t)num(o, "util");
    s.total = (struct meter_counters){num(o, "cpu_all"), num(o, "rx_all"), num(o, "tx_all")};
    s.slept_base = num(o, "slept");
    char sig[SIGN_TEXT];
    s.has_sig = json_get_text(o, "sig", sig, sizeof(sig)) && hex_read(sig, s.sig, SIGN_SIZE);
    *vec_push(&b->slices) = s;
    if (str_eq(s.boot, b->boot))
        b->seq_next = MAX(b->seq_next, s.seq + 1);
    struct lease_row *l = book_lease(b, s.lease);
    if (l != NULL && l->epoch == s.epoch && str_eq(l->boot, s.boot) && l->meter.open) {
        meter_resume(&l->meter, &s);
        idle_resume(l, num(o, "idle_at"));
    }
}

static void replay_item(struct book *b, const json_t *o, bool is_disk)
{
    struct want_disk d;
    struct want_image m;

    if (is_disk && want_disk_parse(o, &d)) {
        struct disk_row *row = book_disk(b, d.disk);

        if (row == NULL && !flag(o, "gone")) {
            row = mem_alloc(sizeof(*row));
            *vec_push(&b->disks) = row;
        }
        if (row != NULL && flag(o, "gone")) {
            VEC_DROP(&b->disks, row);
            free(row);
        } else if (row != NULL) {
            row->want = d;
            row->named = true;
        }
    } else if (!is_disk && want_image_parse(o, &m)) {
        struct image_row *row = book_image(b, m.digest);

        if (row == NULL && !flag(o, "gone")) {
            row = mem_alloc(sizeof(*row));
            *vec_push(&b->images) = row;
        }
        if (row != NULL && flag(o, "gone")) {
            VEC_DROP(&b->images, row);
            free(row);
        } else if (row != NULL) {
            row->want = m;
            row->named = true;
        }
    }
}

void book_replay(void *user, const json_t *o)
{
    struct book *b = user;
    const char *k = "", *boot = "";
    struct id lease = {""};

    (void)json_get_str(o, "k", "", &k);
    (void)json_get_str(o, "boot", "", &boot);
    if (str_eq(k, "lease")) {
        replay_lease(b, o);
    } else if (str_eq(k, "slice")) {
        replay_slice(b, o);
    } else if (str_eq(k, "ack")) {
        book_slices_drop(b, boot, num(o, "seq"));
    } else if (str_eq(k, "boot")) {
        if (str_eq(boot, b->boot))
            b->seq_next = MAX(b->seq_next, num(o, "seq"));
    } else if (str_eq(k, "drop") && json_get_text(o, "lease", lease.s, sizeof(lease.s))) {
        struct lease_row *l = book_lease(b, lease);

        if (num(o, "epoch") > 0)
            book_tomb_add(b, lease, num(o, "epoch"));
        if (l != NULL) {
            VEC_DROP(&b->leases, l);
            book_lease_free(l);
        }
    } else if (str_eq(k, "disk") || str_eq(k, "image")) {
        replay_item(b, o, str_eq(k, "disk"));
    }
}

void book_dump(void *user, struct journal *j UNUSED)
{
    struct book *b = user;

    book_seq_save(b);
    VEC_FOREACH (t, &b->tombs)
        book_drop_save(b, t->lease, t->epoch);
    VEC_FOREACH (d, &b->disks)
        book_disk_save(b, *d, false);
    VEC_FOREACH (m, &b->images)
        if (!(*m)->unsaved)
            book_image_save(b, *m, false);
    VEC_FOREACH (s, &b->slices)
        book_slice_save(b, s, 0);
    /* After the slices: a lease's own record knows best how far it is metered. */
    VEC_FOREACH (l, &b->leases)
        if ((*l)->phase != REC_NONE)
            book_lease_save(b, *l);
}
