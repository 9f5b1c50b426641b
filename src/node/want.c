#include "node/want.h"

#include <stdlib.h>

#define ID_PREFIX_MAX 4

static bool id_ok(const char *s)
{
    const char *sep = strchr(s, '_');

    if (sep == NULL || sep == s || sep - s > ID_PREFIX_MAX || strlen(s) >= ID_SIZE ||
        sep[1] == '\0')
        return false;
    for (; *s != '\0'; s++)
        if (!(*s >= 'a' && *s <= 'z') && !(*s >= '0' && *s <= '9') && *s != '_')
            return false;
    return true;
}

static bool get_id(const json_t *o, const char *key, struct id *ret_id)
{
    memset(ret_id, 0, sizeof(*ret_id));
    return json_get_text(o, key, ret_id->s, sizeof(ret_id->s)) && id_ok(ret_id->s);
}

static bool get_range(const json_t *o, const char *key, int64_t def, int64_t min, int64_t max,
                      int64_t *ret_v)
{
    return json_get_i64(o, key, def, ret_v) && *ret_v >= min && *ret_v <= max;
}

/* A duration from `sent`, null or absent: never. */
static bool get_end(const json_t *o, const char *key, utime_t sent, utime_t *ret_t)
{
    const json_t *v = json_object_get(o, key);
    int64_t ms;

    *ret_t = UTIME_NEVER;
    if (v == NULL || json_is_null(v))
        return true;
    if (!get_range(o, key, 0, INT64_MIN / 4, INT64_MAX / 4, &ms))
        return false;
    *ret_t = sent + ms;
    return true;
}

static bool get_want(const json_t *o, enum rec_want *ret_want)
{
    static const struct {
        const char *name;
        enum rec_want want;
    } rows[] = {{"run", REC_RUN}, {"stop", REC_STOP}, {"kill", REC_KILL}, {"clean", REC_CLEAN}};
    const char *s = NULL;

    if (!json_get_str(o, "want", NULL, &s) || s == NULL)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_eq(rows[i].name, s)) {
            *ret_want = rows[i].want;
            return true;
        }
    return false;
}

/* ["a","b"] → "a\0b\0\0" */
static bool get_list(const json_t *o, const char *key, char *buf, size_t size)
{
    const json_t *a = json_object_get(o, key);
    size_t at = 0;

    memset(buf, 0, size);
    for (size_t i = 0; i < json_array_size(a); i++) {
        const char *s = json_string_value(json_array_get(a, i));
        size_t len = s != NULL ? strlen(s) : 0;

        if (s == NULL || len == 0 || at + len + 2 > size)
            return false;
        memcpy(buf + at, s, len);
        at += len + 1;
    }
    return a == NULL || json_is_null(a) || json_is_array(a);
}

static bool get_keys(const json_t *o, char *buf, size_t size)
{
    const json_t *a = json_object_get(o, "keys");
    size_t at = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < json_array_size(a); i++) {
        const char *s = json_string_value(json_array_get(a, i));

        if (s == NULL || strpbrk(s, "\r\n") != NULL)
            return false;
        if (at + strlen(s) + 2 > size)
            break; /* the rest does not fit; the first ones still let the owner in */
        memcpy(buf + at, s, strlen(s));
        at += strlen(s);
        buf[at++] = '\n';
        buf[at] = '\0';
    }
    return true;
}

static bool get_gpus(const json_t *o, struct want_lease *l)
{
    const json_t *a = json_object_get(o, "gpus");

    if (json_array_size(a) > PRIV_GPUS_MAX)
        return false;
    l->gpu_count = (uint32_t)json_array_size(a);
    for (uint32_t i = 0; i < l->gpu_count; i++) {
        const char *s = json_string_value(json_array_get(a, i));

        if (s == NULL || s[0] == '\0' || !str_copy(l->gpus[i], GPU_UUID_SIZE, s))
            return false;
    }
    (void)json_get_text(o, "gpu_model", l->gpu_model, sizeof(l->gpu_model));
    return get_range(o, "gpu_memory_mib", 0, 0, INT32_MAX, &l->gpu_memory_mib);
}

static bool get_data(const json_t *o, struct want_lease *l)
{
    const json_t *a = json_object_get(o, "data");

    if (json_array_size(a) > PRIV_DISKS_MAX)
        return false;
    l->data_count = (uint32_t)json_array_size(a);
    for (uint32_t i = 0; i < l->data_count; i++) {
        const json_t *d = json_array_get(a, i);

        if (!get_id(d, "disk", &l->data[i].disk) ||
            !json_get_text(d, "mount", l->data[i].mount, sizeof(l->data[i].mount)))
            return false;
    }
    return true;
}

static bool get_ports(const json_t *o, struct want_lease *l)
{
    const json_t *a = json_object_get(o, "ports");

    if (json_array_size(a) > PRIV_PORTS_MAX)
        return false;
    l->port_count = (uint32_t)json_array_size(a);
    for (uint32_t i = 0; i < l->port_count; i++) {
        const json_t *p = json_array_get(a, i);
        int64_t guest, host;
        bool udp;

        if (!get_range(p, "guest", 0, 1, 65535, &guest) ||
            !get_range(p, "host", 0, 0, 65535, &host) || !json_get_bool(p, "udp", false, &udp))
            return false;
        l->ports[i] = (struct priv_port){(uint16_t)guest, (uint16_t)host, udp ? 1 : 0};
    }
    return true;
}

static bool get_notices(const json_t *o, struct want_lease *l)
{
    const json_t *a = json_object_get(o, "notices");
    size_t count = json_array_size(a);
    size_t first = count > WANT_NOTICES_MAX ? count - WANT_NOTICES_MAX : 0;

    for (size_t i = first; i < count; i++) {
        const json_t *n = json_array_get(a, i);
        struct want_notice *x = &l->notices[l->notice_count];
        const char *text = NULL;

        if (!get_range(n, "id", 0, 1, INT64_MAX, &x->id) || !json_get_str(n, "text", "", &text))
            return false;
        (void)str_printf(x->text, sizeof(x->text), "%s", text);
        l->notice_count++;
    }
    return true;
}

static bool get_idle(const json_t *o, struct want_lease *l)
{
    const char *action = NULL;

    if (!get_range(o, "idle_s", 0, 0, INT32_MAX, &l->idle_ms) ||
        !json_get_str(o, "idle_action", "stop", &action))
        return false;
    l->idle_ms *= MS_PER_S;
    l->idle_action = str_eq(action, "notice") ? IDLE_ACTION_NOTICE : IDLE_ACTION_STOP;
    return true;
}

static bool get_reason(const json_t *o, struct want_lease *l)
{
    const char *s = NULL;

    l->reason = END_NONE;
    if (!json_get_str(o, "reason", "", &s))
        return false;
    if (s[0] != '\0' && !end_reason_find(s, &l->reason))
        l->reason = END_OPERATOR; /* a reason of a newer control plane: still an order */
    return true;
}

static bool get_shape(const json_t *o, struct want_lease *l)
{
    int64_t cpu, pids;

    if (!get_range(o, "cpu_milli", 1000, 1, 1 << 24, &cpu) ||
        !get_range(o, "memory_mib", 0, 1, INT64_C(1) << 40, &l->memory_mib) ||
        !get_range(o, "pids_max", 4096, 1, 1 << 22, &pids) ||
        !get_range(o, "grace_ms", 30000, 0, 3600000, &l->grace_ms))
        return false;
    l->cpu_milli = (int32_t)cpu;
    l->pids_max = (int32_t)pids;
    return true;
}

bool want_lease_parse(const json_t *o, utime_t sent_boot_ms, struct want_lease *ret_lease,
                      char *ret_why, size_t why_size)
{
    struct want_lease *l = ret_lease;
    const char *field = NULL;

    memset(l, 0, sizeof(*l));
    if (!get_id(o, "lease", &l->lease))
        field = "lease";
    else if (!get_range(o, "epoch", 0, 1, INT64_MAX / 2, &l->epoch))
        field = "epoch";
    else if (!get_want(o, &l->want))
        field = "want";
    else if (!get_reason(o, l))
        field = "reason";
    else if (!get_end(o, "paid_for_ms", sent_boot_ms, &l->paid_until))
        field = "paid_for_ms";
    else if (!get_end(o, "ends_in_ms", sent_boot_ms, &l->ends_at))
        field = "ends_in_ms";
    else if (l->want != REC_RUN)
        (void)get_id(o, "instance", &l->instance); /* an end needs no more than this */
    else if (!get_id(o, "instance", &l->instance))
        field = "instance";
    else if (!get_shape(o, l))
        field = "shape";
    else if (!json_get_text(o, "image", l->image, sizeof(l->image)))
        field = "image";
    else if (!get_gpus(o, l))
        field = "gpus";
    else if (!get_id(o, "system_disk", &l->system_disk) || !get_data(o, l))
        field = "disks";
    else if (!get_ports(o, l))
        field = "ports";
    else if (!get_list(o, "argv", l->argv, sizeof(l->argv)) ||
             !get_list(o, "env", l->env, sizeof(l->env)))
        field = "argv";
    else if (!get_keys(o, l->keys, sizeof(l->keys)))
        field = "keys";
    else if (!get_idle(o, l) || !get_notices(o, l))
        field = "idle";
    if (l->want != REC_RUN && field == NULL &&
        !get_range(o, "grace_ms", 30000, 0, 3600000, &l->grace_ms))
        field = "grace_ms";
    if (field != NULL) {
        (void)str_printf(ret_why, why_size, "lease %s: %s", l->lease.s, field);
        return false;
    }
    (void)json_get_text(o, "name", l->name, sizeof(l->name));
    (void)json_get_bool(o, "want_logs", false, &l->want_logs);
    (void)json_get_bool(o, "simulated", false, &l->simulated);
    return true;
}

bool want_disk_parse(const json_t *o, struct want_disk *ret_disk)
{
    const char *s = NULL;

    memset(ret_disk, 0, sizeof(*ret_disk));
    if (!get_id(o, "disk", &ret_disk->disk) || !json_get_str(o, "want", NULL, &s) || s == NULL)
        return false;
    (void)get_id(o, "instance", &ret_disk->instance);
    if (str_eq(s, "erased"))
        ret_disk->want = REC_DISK_GONE;
    else if (str_eq(s, "present"))
        ret_disk->want = REC_DISK_PRESENT;
    else
        return false;
    return get_range(o, "size_mib", 0, 0, INT64_C(1) << 40, &ret_disk->size_mib);
}

bool want_image_parse(const json_t *o, struct want_image *ret_image)
{
    const char *s = NULL;

    memset(ret_image, 0, sizeof(*ret_image));
    if (!json_get_text(o, "digest", ret_image->digest, sizeof(ret_image->digest)) ||
        ret_image->digest[0] == '\0' || !json_get_str(o, "want", NULL, &s) || s == NULL)
        return false;
    (void)json_get_text(o, "source", ret_image->source, sizeof(ret_image->source));
    ret_image->present = str_eq(s, "present");
    return ret_image->present || str_eq(s, "absent");
}

static void bad_entry(struct want *w, const char *why)
{
    if (w->bad++ == 0)
        (void)str_printf(w->bad_why, sizeof(w->bad_why), "%s", why);
}

static void leases_parse(struct want *w, utime_t sent)
{
    const json_t *a = json_object_get(w->doc, "leases");

    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *o = json_array_get(a, i);
        char why[96] = "too many leases";

        if (w->lease_count < RECONCILE_LEASES_MAX &&
            want_lease_parse(o, sent, &w->leases[w->lease_count], why, sizeof(why)))
            w->lease_docs[w->lease_count++] = o;
        else
            bad_entry(w, why);
    }
}

static void items_parse(struct want *w)
{
    const json_t *disks = json_object_get(w->doc, "disks");
    const json_t *images = json_object_get(w->doc, "images");
    const json_t *kill = json_object_get(w->doc, "kill_unknown");
    const json_t *resolve = json_object_get(w->doc, "resolve");

    for (size_t i = 0; i < json_array_size(disks); i++)
        if (w->disk_count < RECONCILE_DISKS_MAX &&
            want_disk_parse(json_array_get(disks, i), &w->disks[w->disk_count]))
            w->disk_count++;
        else
            bad_entry(w, "disk");
    for (size_t i = 0; i < json_array_size(images); i++)
        if (w->image_count < RECONCILE_IMAGES_MAX &&
            want_image_parse(json_array_get(images, i), &w->images[w->image_count]))
            w->image_count++;
        else
            bad_entry(w, "image");
    for (size_t i = 0; i < json_array_size(resolve); i++) {
        const char *s = json_string_value(json_array_get(resolve, i));

        if (s != NULL && w->resolve_count < WANT_RESOLVE_MAX &&
            str_copy(w->resolve[w->resolve_count], WANT_SOURCE_SIZE, s))
            w->resolve_count++;
        else
            bad_entry(w, "resolve");
    }
    for (size_t i = 0; i < json_array_size(kill); i++) {
        const char *s = json_string_value(json_array_get(kill, i));

        if (s != NULL && id_ok(s) && w->kill_count < RECONCILE_LEASES_MAX)
            (void)str_copy(w->kill_unknown[w->kill_count++].s, ID_SIZE, s);
        else
            bad_entry(w, "kill_unknown");
    }
}

enum err want_parse(const char *text, size_t len, utime_t sent_boot_ms, struct want **ret_want,
                    struct refusal *why)
{
    json_t *doc = NULL;

    TRY(json_parse(text, len, WANT_TEXT_MAX, &doc, why));
    struct want *w = mem_alloc(sizeof(*w));
    w->doc = doc;
    if (!json_is_object(doc) || !get_range(doc, "version", -1, 0, INT64_MAX, &w->version) ||
        !get_range(doc, "ack_seq", 0, 0, INT64_MAX, &w->ack_seq) ||
        !json_is_array(json_object_get(doc, "leases"))) {
        want_free(w);
        return refusef(why, ERR_PROTOCOL, "why", "answer without version, ack_seq or leases");
    }
    leases_parse(w, sent_boot_ms);
    items_parse(w);
    *ret_want = w;
    return ERR_OK;
}

void want_free(struct want *w)
{
    if (w == NULL)
        return;
    json_decref(w->doc);
    free(w);
}
