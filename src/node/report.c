/* report.c: the request of docs/node-protocol.md: all that is, complete each time. */
#include "node/agent_int.h"

#include <sodium.h>

#define REQUEST_MAX (32 << 20)

static void cards_json(const struct agent *a, struct json_writer *w)
{
    json_array_begin(w, "gpus");
    for (size_t i = 0; i < a->cards.count; i++) {
        const struct gpu_card *c = &a->cards.at[i];

        /* One that says nothing of itself, or says to be another, cannot be offered. */
        if (c->uuid[0] == '\0' || c->model[0] == '\0' || gpu_find(&a->cards, c->uuid) != c)
            continue;
        json_object_begin(w, NULL);
        json_str(w, "uuid", c->uuid);
        json_str(w, "model", c->model);
        json_i64(w, "memory_mib", c->memory_mib);
        json_i64(w, "memory_used_mib", c->memory_used_mib);
        json_flag(w, "simulated", c->simulated);
        json_flag(w, "healthy", c->healthy);
        json_i64(w, "util_pct", c->util_pct);
        json_i64(w, "power_w", c->power_w);
        json_i64(w, "temp_c", c->temp_c);
        json_i64(w, "ecc_errors", c->ecc_errors);
        json_i64(w, "processes", c->processes);
        json_str(w, "bus", c->bus);
        json_array_begin(w, "topology");
        for (size_t k = 0; k < a->cards.count; k++)
            json_i64(w, NULL, a->cards.topology[i][k]);
        json_array_finish(w);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void inventory_json(const struct agent *a, struct json_writer *w)
{
    const struct node_net *net = &a->cfg->net;
    char key[SIGN_KEY_TEXT];

    json_object_begin(w, "inventory");
    json_str(w, "hostname", a->hostname);
    hex_write(a->book.key.open, SIGN_KEY_SIZE, key);
    json_str(w, "key", key);
    json_i64(w, "cores", a->cores);
    json_i64(w, "memory_mib", a->memory_mib);
    json_i64(w, "disk_mib", a->hello.hello.pool_mib);
    json_i64(w, "disk_free_mib", a->hello.hello.pool_free_mib);
    json_str(w, "kernel", a->hello.hello.kernel);
    json_str(w, "runtime", a->hello.hello.runtime);
    json_str(w, "cgroup", a->hello.hello.cgroup);
    json_str(w, "ssh_server", a->hello.hello.ssh_server);
    json_flag(w, "simulated", a->cards.simulated);
    json_str(w, "driver", a->cards.driver);
    json_str(w, "cuda", a->cards.cuda);
    json_flag(w, "online_grow", a->hello.hello.online_grow != 0);
    json_flag(w, "nat_out", a->hello.hello.nat_out != 0);
    json_str(w, "ssh_host", a->cfg->ssh_host);
    json_i64(w, "port_min", net->port_min);
    json_i64(w, "port_max", net->port_max);
    cards_json(a, w);
    json_object_finish(w);
}

static void error_json(struct json_writer *w, const struct refusal *e)
{
    if (e->code == ERR_OK) {
        json_none(w, "error");
        return;
    }
    json_object_begin(w, "error");
    json_str(w, "code", err_code(e->code));
    json_object_begin(w, "params");
    for (size_t i = 0; i < e->param_count; i++)
        json_str(w, e->params[i].key, e->params[i].value);
    json_object_finish(w);
    json_object_finish(w);
}

static void time_or_none(struct json_writer *w, const char *key, utime_t t)
{
    if (t > 0)
        json_i64(w, key, t);
    else
        json_none(w, key);
}

static const char *step_name(const struct agent *a, const struct lease_row *l, int64_t *ret_step)
{
    static const char *const names[AGENT_STEPS] = {"disk", "image", "network", "runtime", "ssh"};
    uint32_t step = l->phase == REC_STARTED ? MIN(l->step, (uint32_t)AGENT_STEPS - 1) : 0;

    for (size_t i = 0; l->phase == REC_NEW && i < a->book.images.len; i++) {
        const struct image_row *m = a->book.images.at[i];

        if (str_eq(m->want.digest, l->want.image) && m->state == REC_ITEM_WORKING)
            step = GUEST_STEP_IMAGE;
    }
    *ret_step = step + 1;
    return names[step];
}

static void ports_json(const struct lease_row *l, struct json_writer *w)
{
    json_array_begin(w, "ports");
    for (uint32_t i = 0; i < l->want.port_count; i++) {
        json_object_begin(w, NULL);
        json_i64(w, "guest", l->want.ports[i].guest);
        json_i64(w, "host", l->want.ports[i].host);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void idle_json(const struct lease_row *l, struct json_writer *w)
{
    json_i64(w, "idle_s", l->idle_ms / MS_PER_S);
    json_array_begin(w, "idle_cards");
    for (uint32_t i = 0; i < l->want.gpu_count; i++)
        if ((l->idle_cards & (1U << i)) != 0)
            json_str(w, NULL, l->want.gpus[i]);
    json_array_finish(w);
}

static void lease_json(struct agent *a, const struct lease_row *l, utime_t now,
                       struct json_writer *w)
{
    utime_t end = MIN(l->want.paid_until, l->want.ends_at);
    const struct disk_row *d = book_disk(&a->book, l->want.system_disk);
    bool running = l->phase == REC_STARTED && l->ready > 0;
    int64_t step;

    json_object_begin(w, NULL);
    json_str(w, "lease", l->want.lease.s);
    json_str(w, "instance", l->want.instance.s);
    json_i64(w, "epoch", l->epoch);
    json_str(w, "state", l->phase == REC_ENDED ? "ended" : running ? "running" : "preparing");
    json_str(w, "detail", step_name(a, l, &step));
    json_i64(w, "step", step);
    json_i64(w, "step_count", AGENT_STEPS);
    json_i64(w, "pid", l->pid);
    if (!str_eq(l->boot, a->book.boot))
        json_str(w, "boot", l->boot);
    time_or_none(w, "ready_boot_ms", l->ready);
    time_or_none(w, "ended_boot_ms", l->ended);
    json_str(w, "end", l->phase == REC_ENDED ? end_reason_name(l->end) : NULL);
    if (l->phase == REC_ENDED && l->exit_code >= 0)
        json_i64(w, "exit_code", l->exit_code);
    else
        json_none(w, "exit_code");
    error_json(w, &l->error);
    json_str(w, "host_key", l->host_key);
    ports_json(l, w);
    json_i64(w, "disk_used_mib", d != NULL ? d->used_mib : 0);
    json_i64(w, "memory_peak_mib", l->memory_peak_mib);
    json_i64(w, "gpu_memory_peak_mib", l->gpu_memory_peak_mib);
    json_flag(w, "gpus_ok", l->cards_ok);
    idle_json(l, w);
    json_raw(w, "report", l->report);
    json_flag(w, "report_ok", l->report == NULL || l->report_ok);
    if (end == UTIME_NEVER || l->phase == REC_ENDED)
        json_none(w, "run_for_ms");
    else
        json_i64(w, "run_for_ms", MAX(end - now, (utime_t)0));
    json_flag(w, "clean", l->phase == REC_ENDED && l->cleaned);
    json_object_finish(w);
}

static const char *disk_word(const struct disk_row *d)
{
    switch (d->state) {
    case REC_DISK_NONE:
        return d->want.want == REC_DISK_GONE ? "erased" : NULL;
    case REC_DISK_READY:
        return d->want.want == REC_DISK_GONE ? "erasing" : "ready";
    case REC_DISK_ATTACHED:
        return "attached";
    case REC_DISK_ERASING:
        return "erasing";
    case REC_DISK_ERASED:
        return "erased";
    case REC_DISK_BROKEN:
        break;
    }
    return "broken";
}

static void disks_json(const struct agent *a, struct json_writer *w)
{
    json_array_begin(w, "disks");
    for (size_t i = 0; i < a->book.disks.len; i++) {
        const struct disk_row *d = a->book.disks.at[i];
        const char *word = d->found ? disk_word(d) : NULL;

        /* No answer of the helper is not "no disk": nothing is said of it. */
        if (word == NULL && d->why.code == ERR_OK)
            continue;
        json_object_begin(w, NULL);
        json_str(w, "disk", d->want.disk.s);
        json_str(w, "state", word != NULL ? word : "broken");
        json_i64(w, "size_mib", d->size_mib);
        json_i64(w, "used_mib", d->used_mib);
        if (word != NULL && str_eq(word, "erased")) {
            json_object_begin(w, "erase");
            json_str(w, "method", "basic");
            json_i64(w, "bytes", d->erased_bytes);
            json_i64(w, "ms", d->erase_ms);
            json_object_finish(w);
        }
        error_json(w, &d->why);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static const char *image_word(enum rec_item s)
{
    switch (s) {
    case REC_ITEM_NONE:
        return NULL;
    case REC_ITEM_WORKING:
        return "working";
    case REC_ITEM_READY:
        return "ready";
    case REC_ITEM_FAILED:
        break;
    }
    return "failed";
}

static void images_json(const struct agent *a, struct json_writer *w)
{
    json_array_begin(w, "images");
    for (size_t i = 0; i < a->book.images.len; i++) {
        const struct image_row *m = a->book.images.at[i];
        const char *word = m->found ? image_word(m->state) : NULL;

        if (word == NULL)
            continue;
        json_object_begin(w, NULL);
        json_str(w, "digest", m->want.digest);
        json_str(w, "state", word);
        json_i64(w, "bytes", m->bytes);
        if (m->state == REC_ITEM_READY) {
            json_str(w, "need_driver", m->need.driver);
            json_str(w, "need_cuda", m->need.cuda);
        }
        error_json(w, &m->why);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void resolved_json(const struct agent *a, struct json_writer *w)
{
    json_array_begin(w, "resolved");
    for (size_t i = 0; i < a->book.resolves.len; i++) {
        const struct resolve_row *r = &a->book.resolves.at[i];

        if (r->digest[0] == '\0' && r->why.code == ERR_OK)
            continue;
        json_object_begin(w, NULL);
        json_str(w, "source", r->source);
        json_str(w, "digest", r->digest[0] != '\0' ? r->digest : NULL);
        error_json(w, &r->why);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void unknown_json(const struct agent *a, struct json_writer *w)
{
    json_array_begin(w, "unknown");
    for (size_t i = 0; i < a->unknown_count; i++) {
        json_object_begin(w, NULL);
        json_str(w, "lease", a->unknown[i].lease.s);
        json_i64(w, "pid", a->unknown[i].pid);
        json_object_finish(w);
    }
    for (size_t i = 0; i < a->book.leases.len; i++) {
        const struct lease_row *l = a->book.leases.at[i];

        if (l->named || l->phase != REC_STARTED)
            continue;
        json_object_begin(w, NULL);
        json_str(w, "lease", l->want.lease.s);
        json_i64(w, "pid", l->pid);
        json_object_finish(w);
    }
    json_array_finish(w);
    json_array_begin(w, "strays");
    for (size_t i = 0; i < a->stray_count; i++)
        json_str(w, NULL, a->strays[i]);
    json_array_finish(w);
}

static void sig_json(struct json_writer *w, const struct meter_slice *s)
{
    char sig[SIGN_TEXT];

    if (!s->has_sig)
        return;
    hex_write(s->sig, SIGN_SIZE, sig);
    json_str(w, "sig", sig);
}

/* Slices of one boot a request, the oldest boot first. */
static void slices_json(struct agent *a, struct json_writer *w)
{
    const char *boot = a->book.slices.len > 0 ? a->book.slices.at[0].boot : a->book.boot;
    size_t told = 0;

    (void)str_copy(a->sent_slices_boot, sizeof(a->sent_slices_boot), boot);
    if (!str_eq(boot, a->book.boot))
        json_str(w, "slices_boot", boot);
    json_array_begin(w, "slices");
    for (size_t i = 0; i < a->book.slices.len && told < AGENT_SLICES_PER_REQUEST; i++) {
        const struct meter_slice *s = &a->book.slices.at[i];

        if (!str_eq(s->boot, boot))
            continue;
        told++;
        json_object_begin(w, NULL);
        json_i64(w, "seq", s->seq);
        json_str(w, "lease", s->lease.s);
        json_i64(w, "epoch", s->epoch);
        json_str(w, "state", s->voided ? "void" : "running");
        json_i64(w, "t0", s->t0);
        json_i64(w, "t1", s->t1);
        json_i64(w, "cpu_us", s->cpu_us);
        json_i64(w, "memory_bytes", s->memory_bytes);
        json_i64(w, "rx_bytes", s->rx_bytes);
        json_i64(w, "tx_bytes", s->tx_bytes);
        json_i64(w, "disk_used_mib", s->disk_used_mib);
        json_i64(w, "gpu_util_pct", s->gpu_util_pct);
        json_i64(w, "gpu_memory_mib", s->gpu_memory_mib);
        json_i64(w, "gpus_ok", s->gpus_ok ? 1 : 0);
        sig_json(w, s);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void logs_json(const struct agent *a, struct json_writer *w)
{
    json_array_begin(w, "logs");
    for (size_t i = 0; i < a->book.leases.len; i++) {
        const struct lease_row *l = a->book.leases.at[i];

        if (l->log_data == NULL)
            continue;
        size_t size = sodium_base64_encoded_len(l->log_len, sodium_base64_VARIANT_ORIGINAL);
        AUTO_FREE char *text = mem_alloc(size);
        (void)sodium_bin2base64(text, size, (const unsigned char *)l->log_data, l->log_len,
                                sodium_base64_VARIANT_ORIGINAL);
        json_object_begin(w, NULL);
        json_str(w, "lease", l->want.lease.s);
        json_i64(w, "from", (int64_t)l->log_at);
        json_str(w, "data_b64", text);
        json_object_finish(w);
    }
    json_array_finish(w);
}

char *report_build(struct agent *a, utime_t now, int64_t wait_ms)
{
    struct json_writer w;
    struct strbuf out;

    strbuf_init(&out, REQUEST_MAX);
    json_writer_init(&w, &out);
    json_object_begin(&w, NULL);
    json_i64(&w, "proto", 1);
    json_str(&w, "boot", a->book.boot);
    json_i64(&w, "boot_ms", now);
    json_i64(&w, "seen", a->seen);
    json_i64(&w, "wait_ms", wait_ms);
    json_flag(&w, "full", true);
    inventory_json(a, &w);
    json_array_begin(&w, "leases");
    for (size_t i = 0; i < a->book.leases.len; i++) {
        const struct lease_row *l = a->book.leases.at[i];

        /* Nobody names it and it lives: it is told as unknown. */
        if (l->phase != REC_NONE && (l->named || l->phase == REC_ENDED))
            lease_json(a, l, now, &w);
    }
    json_array_finish(&w);
    disks_json(a, &w);
    images_json(a, &w);
    resolved_json(a, &w);
    unknown_json(a, &w);
    slices_json(a, &w);
    logs_json(a, &w);
    json_object_finish(&w);
    CHECK(!out.overflow);
    return strbuf_take(&out);
}
