/* firstboot.c: what the renter got against what he pays for. What cannot be measured here is left
 * out, never assumed. */
#include "node/agent_int.h"

#include "base/log.h"
#include "base/msg.h"

#include <stdio.h>
#include <stdlib.h>

#define MEMORY_SLACK_PCT 99 /* measured may miss a page or two */
#define CARD_MEMORY_PCT 90  /* a card shows less than its nominal size */
#define UNKNOWN (-1)

struct measured {
    int64_t memory_mib, cpu_milli; /* UNKNOWN: not readable */
    uint32_t cards_ok;
    bool ok;
};

static bool read_line(const char *path, char *buf, size_t size)
{
    FILE *f = fopen(path, "re");

    if (f == NULL)
        return false;
    bool ok = fgets(buf, (int)size, f) != NULL;
    fclose(f);
    if (ok)
        buf[strcspn(buf, "\n")] = '\0';
    return ok;
}

static int64_t read_number(const char *base, const char *path, const char *file)
{
    char name[512], text[64];
    int64_t v;

    if (!str_printf(name, sizeof(name), "/sys/fs/cgroup/%s%s/%s", base, path, file) ||
        !read_line(name, text, sizeof(text)))
        return UNKNOWN;
    text[strcspn(text, " ")] = '\0';
    return str_parse_i64(text, 0, INT64_MAX, &v) == ERR_OK ? v : UNKNOWN;
}

/* Where the process sits in this hierarchy ("memory", "cpu", or "" for v2). */
static bool cgroup_path(int pid, const char *controller, char *buf, size_t size)
{
    char name[64], line[512];
    bool found = false;

    (void)str_printf(name, sizeof(name), "/proc/%d/cgroup", pid);
    FILE *f = fopen(name, "re");
    if (f == NULL)
        return false;
    while (!found && fgets(line, sizeof(line), f) != NULL) {
        char *list = strchr(line, ':');
        char *path = list != NULL ? strchr(list + 1, ':') : NULL;

        if (path == NULL)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        char *save = NULL;
        if (controller[0] == '\0')
            found = list[1] == '\0' && str_copy(buf, size, path);
        for (char *c = strtok_r(list + 1, ",", &save); c != NULL && !found;
             c = strtok_r(NULL, ",", &save))
            found = str_eq(c, controller) && str_copy(buf, size, path);
    }
    fclose(f);
    return found;
}

/* The smallest limit on the way up: the guest may have made groups of its own below ours. */
static int64_t smallest(const char *base, char *path, const char *file)
{
    int64_t least = UNKNOWN;

    for (;;) {
        int64_t v = read_number(base, path, file);
        char *slash = strrchr(path, '/');

        if (v >= 0 && (least < 0 || v < least))
            least = v;
        if (slash == NULL || slash == path)
            return least;
        *slash = '\0';
    }
}

static int64_t memory_measure(const struct agent *a, int pid)
{
    char path[300];
    int64_t bytes = UNKNOWN;

    if (cgroup_path(pid, "memory", path, sizeof(path)))
        bytes = smallest("memory", path, "memory.limit_in_bytes");
    else if (cgroup_path(pid, "", path, sizeof(path)))
        bytes = smallest("", path, "memory.max");
    /* No limit at all is the whole machine. */
    return bytes < 0 ? UNKNOWN : MIN(bytes >> 20, a->memory_mib);
}

static int64_t cpu_measure(int pid)
{
    char path[300], name[512], text[64];

    if (cgroup_path(pid, "cpu", path, sizeof(path))) {
        char copy[300];

        memcpy(copy, path, sizeof(copy));
        int64_t quota = smallest("cpu", path, "cpu.cfs_quota_us");
        int64_t period = smallest("cpu", copy, "cpu.cfs_period_us");
        return quota > 0 && period > 0 ? quota * 1000 / period : UNKNOWN;
    }
    if (!cgroup_path(pid, "", path, sizeof(path)) ||
        !str_printf(name, sizeof(name), "/sys/fs/cgroup%s/cpu.max", path) ||
        !read_line(name, text, sizeof(text)))
        return UNKNOWN;
    char *period_text = strchr(text, ' ');
    int64_t quota, period;
    if (period_text == NULL)
        return UNKNOWN;
    *period_text++ = '\0';
    if (str_parse_i64(text, 1, INT32_MAX, &quota) != ERR_OK ||
        str_parse_i64(period_text, 1, INT32_MAX, &period) != ERR_OK)
        return UNKNOWN;
    return quota * 1000 / period;
}

static bool card_as_paid(const struct want_lease *w, const struct gpu_card *c)
{
    return c != NULL && c->healthy && c->simulated == w->simulated &&
           (w->gpu_model[0] == '\0' || strcasecmp(w->gpu_model, c->model) == 0) &&
           c->memory_mib * 100 >= w->gpu_memory_mib * CARD_MEMORY_PCT;
}

/* A size of 0 was not read yet (the helper may just be coming back): that is no mismatch. */
static bool disk_as_paid(const struct disk_row *d)
{
    return d == NULL || d->size_mib == 0 || d->size_mib >= d->want.size_mib;
}

static bool disks_as_paid(struct agent *a, const struct lease_row *l)
{
    const struct want_lease *w = &l->want;
    bool ok = disk_as_paid(book_disk(&a->book, w->system_disk));

    for (uint32_t i = 0; i < w->data_count; i++)
        ok = ok && disk_as_paid(book_disk(&a->book, w->data[i].disk));
    return ok;
}

static struct measured measure(struct agent *a, const struct lease_row *l)
{
    const struct want_lease *w = &l->want;
    struct measured m = {.memory_mib = memory_measure(a, l->pid), .cpu_milli = cpu_measure(l->pid)};

    for (uint32_t i = 0; i < w->gpu_count; i++)
        if (card_as_paid(w, gpu_find(&a->cards, w->gpus[i])))
            m.cards_ok |= 1U << i;
    m.ok = m.cards_ok == (w->gpu_count >= 32 ? UINT32_MAX : (1U << w->gpu_count) - 1) &&
           (m.memory_mib < 0 || m.memory_mib * 100 >= w->memory_mib * MEMORY_SLACK_PCT) &&
           (m.cpu_milli < 0 || m.cpu_milli >= w->cpu_milli) && disks_as_paid(a, l);
    return m;
}

static void json_measured(struct json_writer *w, const char *key, int64_t v)
{
    if (v < 0)
        json_none(w, key);
    else
        json_i64(w, key, v);
}

static void disk_json(struct agent *a, struct json_writer *w, struct id disk, const char *mount)
{
    const struct disk_row *d = book_disk(&a->book, disk);

    json_object_begin(w, NULL);
    json_str(w, "disk", disk.s);
    json_str(w, "mount", mount);
    json_i64(w, "size_mib", d != NULL ? d->size_mib : 0);
    json_i64(w, "paid_mib", d != NULL ? d->want.size_mib : 0);
    json_i64(w, "free_mib", d != NULL ? MAX(d->size_mib - d->used_mib, (int64_t)0) : 0);
    json_flag(w, "survives_stop", true);
    json_flag(w, "survives_release", !str_eq(mount, "/"));
    json_object_finish(w);
}

/* NULL: the image does not say. */
static const char *framework_of(struct agent *a, const struct want_lease *w)
{
    const struct image_row *m = book_image(&a->book, w->image);

    return m != NULL && m->need.framework[0] != '\0' ? m->need.framework : NULL;
}

static char *report_json(struct agent *a, const struct lease_row *l, const struct measured *m)
{
    const struct want_lease *want = &l->want;
    struct json_writer w;
    struct strbuf out;

    strbuf_init(&out, 65536);
    json_writer_init(&w, &out);
    json_object_begin(&w, NULL);
    json_array_begin(&w, "gpus");
    for (uint32_t i = 0; i < want->gpu_count; i++) {
        const struct gpu_card *c = gpu_find(&a->cards, want->gpus[i]);

        json_object_begin(&w, NULL);
        json_str(&w, "uuid", want->gpus[i]);
        json_str(&w, "model", c != NULL ? c->model : NULL);
        json_str(&w, "paid_model", want->gpu_model[0] != '\0' ? want->gpu_model : NULL);
        json_i64(&w, "memory_mib", c != NULL ? c->memory_mib : 0);
        json_flag(&w, "simulated", c != NULL && c->simulated);
        json_flag(&w, "ok", (m->cards_ok & (1U << i)) != 0);
        json_object_finish(&w);
    }
    json_array_finish(&w);
    json_str(&w, "driver", a->cards.driver[0] != '\0' ? a->cards.driver : NULL);
    json_str(&w, "cuda", a->cards.cuda[0] != '\0' ? a->cards.cuda : NULL);
    json_str(&w, "framework", framework_of(a, want));
    json_measured(&w, "cpu_milli", m->cpu_milli);
    json_i64(&w, "paid_cpu_milli", want->cpu_milli);
    json_measured(&w, "memory_mib", m->memory_mib);
    json_i64(&w, "paid_memory_mib", want->memory_mib);
    json_array_begin(&w, "disks");
    disk_json(a, &w, want->system_disk, "/");
    for (uint32_t i = 0; i < want->data_count; i++)
        disk_json(a, &w, want->data[i].disk, want->data[i].mount);
    json_array_finish(&w);
    json_flag(&w, "simulated", want->simulated);
    json_flag(&w, "ok", m->ok);
    json_object_finish(&w);
    return strbuf_take(&out);
}

static void disk_text(struct agent *a, struct strbuf *out, enum lang lang, struct id disk,
                      const char *mount)
{
    const struct disk_row *d = book_disk(&a->book, disk);

    if (d == NULL)
        return;
    strbuf_addf(out, "  %-12s %" PRId64 " MiB, %s %" PRId64 " MiB; %s\n", mount, d->size_mib,
                msg_tr(lang, "free"), MAX(d->size_mib - d->used_mib, (int64_t)0),
                str_eq(mount, "/") ? msg_tr(lang, "kept at stop, erased at release")
                                   : msg_tr(lang, "kept at stop and at release"));
}

static void report_text(struct agent *a, struct lease_row *l, const struct measured *m,
                        enum lang lang, struct strbuf *out)
{
    const struct want_lease *w = &l->want;

    if (w->simulated)
        strbuf_addf(out, "%s\n",
                    msg_tr(lang, "SIMULATED cards: for trying out, they compute nothing"));
    for (uint32_t i = 0; i < w->gpu_count; i++) {
        const struct gpu_card *c = gpu_find(&a->cards, w->gpus[i]);

        strbuf_addf(out, "  GPU %u: %s, %" PRId64 " MiB, %s  [%s]\n", i, c != NULL ? c->model : "-",
                    c != NULL ? c->memory_mib : 0, w->gpus[i],
                    (m->cards_ok & (1U << i)) != 0 ? msg_tr(lang, "as paid")
                                                   : msg_tr(lang, "NOT as paid"));
    }
    if (a->cards.driver[0] != '\0')
        strbuf_addf(out, "  %s %s, CUDA %s\n", msg_tr(lang, "driver"), a->cards.driver,
                    a->cards.cuda);
    if (framework_of(a, w) != NULL)
        strbuf_addf(out, "  %s: %s\n", msg_tr(lang, "framework of the image"), framework_of(a, w));
    strbuf_addf(out, "  %s: %d.%03d", msg_tr(lang, "cores"), w->cpu_milli / 1000,
                w->cpu_milli % 1000);
    if (m->cpu_milli >= 0)
        strbuf_addf(out, " (%s %" PRId64 ".%03" PRId64 ")", msg_tr(lang, "measured"),
                    m->cpu_milli / 1000, m->cpu_milli % 1000);
    strbuf_addf(out, "; %s: %" PRId64 " MiB", msg_tr(lang, "memory"), w->memory_mib);
    if (m->memory_mib >= 0)
        strbuf_addf(out, " (%s %" PRId64 ")", msg_tr(lang, "measured"), m->memory_mib);
    strbuf_add(out, "\n");
    disk_text(a, out, lang, w->system_disk, "/");
    for (uint32_t i = 0; i < w->data_count; i++)
        disk_text(a, out, lang, w->data[i].disk, w->data[i].mount);
    strbuf_addf(out, "%s\n",
                m->ok ? msg_tr(lang, "What you got is what you pay for.")
                      : msg_tr(lang, "What you got is NOT what you pay for: this is "
                                     "reported and not charged."));
}

void firstboot_report(struct agent *a, struct lease_row *l)
{
    struct priv_req req = {.lease = l->want.lease};
    struct priv_rep rep;
    struct refusal why;
    AUTO_STRBUF struct strbuf out = {0};
    struct measured m = measure(a, l);

    free(l->report);
    l->report = report_json(a, l, &m);
    l->report_ok = m.ok;
    strbuf_init(&out, PRIV_TEXT_MAX - 1);
    report_text(a, l, &m, LANG_ZH, &out);
    strbuf_add(&out, "\n");
    report_text(a, l, &m, LANG_EN, &out);
    req.text_len = (uint32_t)out.len;
    memcpy(req.text, strbuf_str(&out), out.len);
    enum err e = helper_call(&a->helper, PRIV_REPORT, &req, &rep, &why);
    if (e != ERR_OK)
        log_warn("lease=%s report: %s", l->want.lease.s, err_code(e));
    if (!m.ok)
        log_warn("lease=%s is not what is paid for", l->want.lease.s);
}
