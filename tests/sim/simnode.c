#include "simnode.h"

#include "base/str.h"
#include "domain/evidence.h"

static int64_t boot_ms(const struct simnode *n, int64_t world_ms)
{
    return world_ms - n->boot_at_ms;
}

static void new_boot(struct simnode *n, int64_t world_ms)
{
    n->boot_number++;
    n->boot_at_ms = world_ms - 1000; /* a second passed since the kernel began */
    n->seq = 0;
    CHECK(str_printf(n->boot, sizeof(n->boot), "boot%s%" PRId64, n->name, n->boot_number));
}

static void make_key(struct simnode *n)
{
    unsigned char seed[SIGN_SEED_SIZE] = {0};

    CHECK(sign_open() && strlen(n->name) < sizeof(seed));
    memcpy(seed, n->name, strlen(n->name));
    sign_key_of(seed, &n->key);
}

void simnode_init(struct simnode *n, int number, const char *model, int gpus, int64_t world_ms)
{
    memset(n, 0, sizeof(*n));
    CHECK(str_printf(n->name, sizeof(n->name), "node%d", number));
    CHECK(str_copy(n->model, sizeof(n->model), model));
    n->gpu_count = gpus;
    n->cores = 16;
    n->memory_mib = 65536;
    n->disk_mib = 4 << 20;
    n->port_min = 20000;
    n->port_max = 20199;
    make_key(n);
    new_boot(n, world_ms);
}

void simnode_sign(const struct simnode *n, struct sim_slice *s)
{
    struct evidence e = {.seq = s->seq,
                         .epoch = s->epoch,
                         .running = true,
                         .gpus_ok = true,
                         .t0_ms = s->t0,
                         .t1_ms = s->t1,
                         .cpu_us = SIM_CPU_US,
                         .memory_bytes = SIM_MEMORY_BYTES,
                         .rx_bytes = SIM_RX_BYTES,
                         .tx_bytes = s->tx_bytes};
    unsigned char bytes[EVIDENCE_BYTES_MAX], sig[SIGN_SIZE];

    CHECK(str_copy(e.boot, sizeof(e.boot), s->boot) && str_copy(e.lease.s, ID_SIZE, s->lease));
    sign_make(&n->key, bytes, evidence_bytes(&e, bytes), sig);
    hex_write(sig, SIGN_SIZE, s->sig);
}

/* Moves metering up to a moment, in pieces of at most ten seconds. */
static void meter(struct simnode *n, struct sim_lease *l, int64_t until)
{
    while (l->metered_boot < until && n->slice_count < SIM_SLICES_MAX) {
        struct sim_slice *s = &n->slices[n->slice_count++];

        *s = (struct sim_slice){
            .seq = ++n->seq, .epoch = l->epoch, .t0 = l->metered_boot, .tx_bytes = n->tx_bytes};
        s->t1 = MIN(until, s->t0 + SIM_SLICE_MS);
        CHECK(str_copy(s->boot, sizeof(s->boot), n->boot));
        CHECK(str_copy(s->lease, sizeof(s->lease), l->id));
        l->metered_boot = s->t1;
        simnode_sign(n, s);
    }
}

static void end(struct simnode *n, struct sim_lease *l, int64_t at, const char *reason)
{
    if (l->phase == SIM_RUNNING) {
        meter(n, l, at);
        n->card_ms += l->gpu_count * (at - l->ready_boot);
    }
    l->phase = SIM_ENDED;
    l->ended_boot = at;
    CHECK(str_copy(l->end, sizeof(l->end), reason));
}

static bool disks_ready(const struct simnode *n, const struct sim_lease *l)
{
    for (int i = 0; i < l->disk_count; i++) {
        bool there = false;

        for (int k = 0; k < n->disk_count; k++)
            there |= str_eq(n->disks[k].id, l->disks[i]) && !n->disks[k].erase;
        if (!there)
            return false;
    }
    return true;
}

/* The next thing that happens to a lease up to now; false: nothing more. */
static bool lease_step(struct simnode *n, struct sim_lease *l, int64_t now)
{
    int64_t hard = MIN(l->paid_boot, l->ends_boot) + (n->overruns ? 7000 : 0);
    int64_t ready = l->began_boot + l->prepare_ms;
    bool kill = str_eq(l->want, "kill"), stop = kill || str_eq(l->want, "stop");

    if (l->phase == SIM_ENDED) {
        l->clean = l->clean || now >= l->ended_boot + 500;
        return false;
    }
    if (stop && l->stop_boot < 0)
        l->stop_boot = now;
    if (l->phase == SIM_PREPARING) {
        if (stop) {
            end(n, l, now, "user_stop");
        } else if (now < MIN(ready, hard) || (now >= ready && !disks_ready(n, l))) {
            return false;
        } else if (hard < ready) {
            end(n, l, hard, "balance");
        } else if (l->fails) {
            end(n, l, ready, "start_failed");
            CHECK(str_copy(l->error, sizeof(l->error), "runtime"));
        } else {
            l->phase = SIM_RUNNING;
            l->ready_boot = l->started_boot = l->metered_boot = ready;
        }
        return true;
    }
    if (stop && (kill || now >= l->stop_boot + 2000)) {
        end(n, l, MAX(MIN(l->stop_boot + (kill ? 0 : 2000), hard), l->ready_boot), "user_stop");
        return true;
    }
    if (now >= hard) {
        end(n, l, MAX(hard, l->ready_boot),
            l->paid_boot < l->ends_boot ? "balance" : "end_reached");
        return true;
    }
    meter(n, l, now);
    return false;
}

void simnode_live(struct simnode *n, int64_t world_ms)
{
    int64_t now = boot_ms(n, world_ms);

    for (int i = 0; i < n->lease_count; i++)
        while (lease_step(n, &n->leases[i], now)) {
        }
    for (int i = 0; i < n->disk_count; i++)
        if (n->disks[i].erase && now >= n->disks[i].erase_due_boot)
            n->disks[i].erased = true;
}

void simnode_guest_exit(struct simnode *n, struct sim_lease *l, int64_t world_ms, const char *why,
                        int64_t code)
{
    if (l->phase != SIM_RUNNING)
        return;
    end(n, l, boot_ms(n, world_ms), why);
    l->exit_code = code;
}

void simnode_reboot(struct simnode *n, int64_t world_ms)
{
    simnode_live(n, world_ms);
    new_boot(n, world_ms);
    n->seen = 0;
    for (int i = 0; i < n->lease_count; i++) {
        struct sim_lease *l = &n->leases[i];

        if (l->phase == SIM_ENDED) {
            l->ended_boot = -1; /* it was another boot's clock */
        } else {
            if (l->phase == SIM_RUNNING)
                n->card_ms += l->gpu_count * (l->metered_boot - l->ready_boot);
            l->phase = SIM_ENDED;
            l->ended_boot = -1;
            CHECK(str_copy(l->end, sizeof(l->end), "node_lost"));
        }
        l->ready_boot = -1;
        l->clean = true;
    }
    for (int i = 0; i < n->disk_count; i++)
        n->disks[i].erase_due_boot = 0;
}

/* the report */

static json_t *or_null(int64_t v)
{
    return v < 0 ? json_null() : json_integer(v);
}

static json_t *report_lease(const struct sim_lease *l)
{
    static const char *const phases[] = {"preparing", "running", "ended"};
    json_t *o =
        json_pack("{s:s,s:s,s:I,s:s,s:i,s:i,s:s,s:o,s:o}", "lease", l->id, "instance", l->instance,
                  "epoch", (json_int_t)l->epoch, "state", phases[l->phase], "step", 1, "step_count",
                  3, "detail", "simulated", "ready_boot_ms", or_null(l->ready_boot),
                  "ended_boot_ms", or_null(l->phase == SIM_ENDED ? l->ended_boot : -1));

    CHECK(o);
    if (l->phase == SIM_ENDED) {
        CHECK(json_object_set_new(o, "end", json_string(l->end)) == 0);
        CHECK(json_object_set_new(o, "exit_code", json_integer(l->exit_code)) == 0);
        CHECK(json_object_set_new(o, "clean", json_boolean(l->clean)) == 0);
    }
    if (l->error[0])
        CHECK(json_object_set_new(
                  o, "error",
                  json_pack("{s:s,s:{s:s}}", "code", l->error, "params", "why", "simulated")) == 0);
    CHECK(json_object_set_new(o, "host_key", json_string("ssh-ed25519 AAAAsim")) == 0);
    return o;
}

static json_t *report_disk(const struct simnode *n, const struct sim_disk *d)
{
    const char *state = d->erased ? "erased" : d->erase ? "erasing" : "ready";
    json_t *o;

    for (int i = 0; i < n->lease_count && !d->erase; i++)
        for (int k = 0; k < n->leases[i].disk_count; k++)
            if (str_eq(n->leases[i].disks[k], d->id) && n->leases[i].phase == SIM_RUNNING)
                state = "attached";
    o = json_pack("{s:s,s:s,s:I,s:I}", "disk", d->id, "state", state, "size_mib",
                  (json_int_t)d->size_mib, "used_mib", (json_int_t)10);
    CHECK(o);
    if (d->erased)
        CHECK(json_object_set_new(o, "erase",
                                  json_pack("{s:s,s:I,s:I}", "method", "basic", "bytes",
                                            (json_int_t)10 << 20, "ms", (json_int_t)40)) == 0);
    return o;
}

static json_t *report_inventory(const struct simnode *n)
{
    json_t *o, *gpus = json_array();
    char key[SIGN_KEY_TEXT];

    for (int i = 0; i < n->gpu_count; i++) {
        char uuid[UUID_SIZE];

        CHECK(str_printf(uuid, sizeof(uuid), "GPU-%s-%d", n->name, i));
        CHECK(json_array_append_new(gpus, json_pack("{s:s,s:s,s:I,s:b,s:b}", "uuid", uuid, "model",
                                                    n->model, "memory_mib", (json_int_t)24564,
                                                    "simulated", 1, "healthy", 1)) == 0);
    }
    hex_write(n->key.open, SIGN_KEY_SIZE, key);
    o = json_pack("{s:s,s:s,s:i,s:I,s:I,s:I,s:s,s:s,s:b,s:s,s:s,s:b,s:s,s:i,s:i,s:o}", "hostname",
                  n->name, "key", key, "cores", n->cores, "memory_mib", (json_int_t)n->memory_mib,
                  "disk_mib", (json_int_t)n->disk_mib, "disk_free_mib", (json_int_t)n->disk_mib,
                  "runtime", "sim", "cgroup", "v2", "simulated", 1, "driver", "550.54", "cuda",
                  "12.4", "online_grow", 1, "ssh_host", "127.0.0.1", "port_min", n->port_min,
                  "port_max", n->port_max, "gpus", gpus);
    CHECK(o);
    return o;
}

/* Slices of one boot: the oldest that is not empty; older boots go first. */
static json_t *report_slices(const struct simnode *n, const char **ret_boot)
{
    json_t *list = json_array();

    *ret_boot = n->slice_count ? n->slices[0].boot : n->boot;
    for (int i = 0; i < n->slice_count && json_array_size(list) < 200; i++) {
        const struct sim_slice *s = &n->slices[i];

        if (!str_eq(s->boot, *ret_boot))
            break;
        CHECK(json_array_append_new(
                  list, json_pack("{s:I,s:s,s:I,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:i,s:s}", "seq",
                                  (json_int_t)s->seq, "lease", s->lease, "epoch",
                                  (json_int_t)s->epoch, "state", "running", "t0", (json_int_t)s->t0,
                                  "t1", (json_int_t)s->t1, "cpu_us", (json_int_t)SIM_CPU_US,
                                  "memory_bytes", (json_int_t)SIM_MEMORY_BYTES, "rx_bytes",
                                  (json_int_t)SIM_RX_BYTES, "tx_bytes", (json_int_t)s->tx_bytes,
                                  "gpus_ok", 1, "sig", s->sig)) == 0);
    }
    return list;
}

json_t *simnode_report(struct simnode *n, int64_t world_ms, int64_t wait_ms, int64_t *ret_sent)
{
    json_t *o, *leases = json_array(), *disks = json_array(), *slices;
    const char *boot;

    *ret_sent = boot_ms(n, world_ms);
    for (int i = 0; i < n->lease_count; i++)
        CHECK(json_array_append_new(leases, report_lease(&n->leases[i])) == 0);
    for (int i = 0; i < n->disk_count; i++)
        CHECK(json_array_append_new(disks, report_disk(n, &n->disks[i])) == 0);
    slices = report_slices(n, &boot);
    o = json_pack("{s:i,s:s,s:I,s:I,s:I,s:b,s:o,s:o,s:o,s:o,s:[],s:[],s:o}", "proto", 1, "boot",
                  n->boot, "boot_ms", (json_int_t)*ret_sent, "seen", (json_int_t)n->seen, "wait_ms",
                  (json_int_t)wait_ms, "full", 1, "inventory", report_inventory(n), "leases",
                  leases, "disks", disks, "images", json_array(), "unknown", "logs", "slices",
                  slices);
    CHECK(o);
    if (!str_eq(boot, n->boot))
        CHECK(json_object_set_new(o, "slices_boot", json_string(boot)) == 0);
    return o;
}

/* the answer */

static int64_t get_i64(const json_t *o, const char *key, int64_t def)
{
    int64_t v;

    return json_get_i64(o, key, def, &v) ? v : def;
}

static const char *get_str(const json_t *o, const char *key)
{
    const char *v = "";

    return json_get_str(o, key, "", &v) ? v : "";
}

static struct sim_lease *lease_slot(struct simnode *n, const char *id, bool *ret_new)
{
    for (int i = 0; i < n->lease_count; i++)
        if (str_eq(n->leases[i].id, id)) {
            *ret_new = false;
            return &n->leases[i];
        }
    CHECK(n->lease_count < SIM_LEASES_MAX);
    *ret_new = true;
    memset(&n->leases[n->lease_count], 0, sizeof(n->leases[0]));
    return &n->leases[n->lease_count++];
}

static void lease_new(struct sim_lease *l, const json_t *o, int64_t sent)
{
    const json_t *v;
    size_t i;

    CHECK(str_copy(l->id, sizeof(l->id), get_str(o, "lease")));
    CHECK(str_copy(l->instance, sizeof(l->instance), get_str(o, "instance")));
    l->epoch = get_i64(o, "epoch", 0);
    l->began_boot = sent;
    l->ready_boot = l->ended_boot = l->stop_boot = l->started_boot = -1;
    l->prepare_ms = 1500;
    json_array_foreach(json_object_get(o, "gpus"), i, v)
        CHECK(str_copy(l->gpus[l->gpu_count++], UUID_SIZE, json_string_value(v)));
    CHECK(str_copy(l->disks[l->disk_count++], ID_SIZE, get_str(o, "system_disk")));
    json_array_foreach(json_object_get(o, "data"), i, v)
        CHECK(str_copy(l->disks[l->disk_count++], ID_SIZE, get_str(v, "disk")));
    /* an image of this name cannot be started */
    l->fails = str_eq(get_str(o, "image") + strlen("sha256:"), "bad");
}

static void answer_leases(struct simnode *n, int64_t sent, const json_t *leases)
{
    const json_t *o;
    int kept = 0;
    size_t i;

    for (int k = 0; k < n->lease_count; k++)
        n->leases[k].wanted = false;
    json_array_foreach(leases, i, o)
    {
        bool is_new;
        struct sim_lease *l = lease_slot(n, get_str(o, "lease"), &is_new);

        if (is_new)
            lease_new(l, o, sent);
        l->wanted = true;
        CHECK(str_copy(l->want, sizeof(l->want), get_str(o, "want")));
        l->paid_boot = sent + get_i64(o, "paid_for_ms", 0);
        l->ends_boot = json_is_null(json_object_get(o, "ends_in_ms"))
                           ? INT64_MAX
                           : sent + get_i64(o, "ends_in_ms", 0);
        l->grace_ms = get_i64(o, "grace_ms", 0);
        if (is_new && !str_eq(l->want, "run")) {
            l->phase = SIM_ENDED;
            l->ended_boot = sent;
            l->clean = true;
            CHECK(str_copy(l->end, sizeof(l->end), "user_stop"));
        }
    }
    /* forgotten only when it is over, clean, and nobody names it any more */
    for (int k = 0; k < n->lease_count; k++)
        if (n->leases[k].wanted || n->leases[k].phase != SIM_ENDED || !n->leases[k].clean)
            n->leases[kept++] = n->leases[k];
    n->lease_count = kept;
}

static void answer_disks(struct simnode *n, int64_t sent, const json_t *disks)
{
    bool named[SIM_DISKS_MAX] = {false};
    const json_t *o;
    int kept = 0;
    size_t i;

    json_array_foreach(disks, i, o)
    {
        int k;

        for (k = 0; k < n->disk_count && !str_eq(n->disks[k].id, get_str(o, "disk")); k++) {
        }
        if (k == n->disk_count) {
            CHECK(n->disk_count < SIM_DISKS_MAX);
            n->disks[n->disk_count++] = (struct sim_disk){0};
            CHECK(str_copy(n->disks[k].id, ID_SIZE, get_str(o, "disk")));
        }
        named[k] = true;
        n->disks[k].size_mib = get_i64(o, "size_mib", 0);
        if (str_eq(get_str(o, "want"), "erased") && !n->disks[k].erase) {
            n->disks[k].erase = true;
            n->disks[k].erase_due_boot = sent + 3000;
        }
    }
    for (int k = 0; k < n->disk_count; k++)
        if (named[k] || !n->disks[k].erased)
            n->disks[kept++] = n->disks[k];
    n->disk_count = kept;
}

void simnode_answer(struct simnode *n, int64_t sent, const char *answer)
{
    AUTO_JSON json_t *o = json_loads(answer, 0, NULL);
    int64_t ack = get_i64(o, "ack_seq", 0);
    int drop = 0;

    CHECK(o);
    n->seen = get_i64(o, "version", 0);
    while (drop < n->slice_count && n->slices[drop].seq <= ack &&
           str_eq(n->slices[drop].boot, n->slices[0].boot))
        drop++;
    n->slice_count -= drop;
    memmove(n->slices, n->slices + drop, (size_t)n->slice_count * sizeof(n->slices[0]));
    answer_leases(n, sent, json_object_get(o, "leases"));
    answer_disks(n, sent, json_object_get(o, "disks"));
}
