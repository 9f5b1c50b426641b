#include "node/privcheck.h"

#include "base/str.h"
#include "node/paths.h"

#define DISK_MIB_MAX (64ll * 1024 * 1024)
#define MEMORY_MIB_MAX (16ll * 1024 * 1024)
#define CPU_MILLI_MAX 4096000
#define PIDS_MAX 4194304
#define GRACE_MS_MAX 3600000

static enum err bad(struct refusal *why, const char *field, const char *text)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%s", field);

    refusal_set(why, "why", text);
    return e;
}

static bool id_is(struct id id, const char *prefix)
{
    return paths_id_ok(id) && str_starts(id.s, prefix);
}

static bool ended(const char *s, size_t size)
{
    return memchr(s, '\0', size) != NULL;
}

/* NUL-separated, ended by an empty string inside the field; count is bounded. */
static bool list_ok(const char *s, size_t size, size_t count_max, bool env)
{
    size_t at = 0, count = 0;

    while (at < size && s[at]) {
        size_t n = strnlen(s + at, size - at);
        if (at + n >= size || ++count > count_max || !str_utf8_ok(s + at))
            return false;
        if (env && (s[at] == '=' || !strchr(s + at, '=')))
            return false;
        at += n + 1;
    }
    return at < size;
}

/* "/root/x" or "/mnt/x": plain components, nothing hidden, nothing that climbs. */
static bool mount_ok(const char *s, size_t size)
{
    size_t n = strnlen(s, size);

    if (n == size || n < 6 || s[n - 1] == '/' ||
        !(str_starts(s, "/root/") || str_starts(s, "/mnt/")))
        return false;
    if (strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") != n)
        return false;
    return !strstr(s, "/.") && !strstr(s, "//");
}

static bool hostname_ok(const char *s, size_t size)
{
    return ended(s, size) && str_is_name(s);
}

static enum err ports_check(const struct priv_guest *g, const struct node_net *net,
                            struct refusal *why)
{
    if (g->port_count > PRIV_PORTS_MAX)
        return bad(why, "ports", "too many");
    for (uint32_t i = 0; i < g->port_count; i++) {
        const struct priv_port *p = &g->ports[i];
        if (p->guest == 0 || p->udp > 1)
            return bad(why, "ports", "not a port");
        if (p->host && (p->host < net->port_min || p->host > net->port_max))
            return bad(why, "ports", "outside the node's range");
        for (uint32_t k = 0; k < i; k++) {
            if (p->host && g->ports[k].host == p->host && g->ports[k].udp == p->udp)
                return bad(why, "ports", "published twice");
        }
    }
    return ERR_OK;
}

static bool disks_ok(const struct priv_guest *g)
{
    if (g->data_count > PRIV_DISKS_MAX || !id_is(g->system_disk, "dsk_"))
        return false;
    for (uint32_t i = 0; i < g->data_count; i++) {
        if (!id_is(g->data[i].disk, "dsk_") ||
            !mount_ok(g->data[i].mount, sizeof(g->data[i].mount)))
            return false;
        if (strcmp(g->data[i].disk.s, g->system_disk.s) == 0)
            return false;
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(g->data[i].disk.s, g->data[k].disk.s) == 0 ||
                strcmp(g->data[i].mount, g->data[k].mount) == 0)
                return false;
        }
    }
    return true;
}

static bool cards_ok(const struct priv_guest *g, const struct gpu_list *gpus)
{
    if (g->gpu_count > PRIV_GPUS_MAX)
        return false;
    for (uint32_t i = 0; i < g->gpu_count; i++) {
        if (!ended(g->gpus[i], sizeof(g->gpus[i])) || !gpu_find(gpus, g->gpus[i]))
            return false;
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(g->gpus[i], g->gpus[k]) == 0)
                return false;
        }
    }
    return true;
}

/* Inside our own range, and neither its name, the bridge (.1) nor the broadcast address. */
static bool address_ok(uint32_t address, const struct node_net *net)
{
    uint32_t hosts = (1u << (32 - net->bits)) - 1, host = address - net->base;

    return address > net->base && host > 1 && host < hosts;
}

static enum err guest_check(const struct priv_guest *g, const struct node_config *cfg,
                            const struct gpu_list *gpus, struct refusal *why)
{
    if (!id_is(g->instance, "ins_") || g->epoch < 0)
        return bad(why, "instance", "not an id of an instance, or no epoch");
    if (!ended(g->image, sizeof(g->image)) || !paths_digest_ok(g->image))
        return bad(why, "image", "not a digest");
    if (!hostname_ok(g->hostname, sizeof(g->hostname)))
        return bad(why, "hostname", "not a host name");
    if (!disks_ok(g))
        return bad(why, "disks", "not ids of disks, or a place that is not below /mnt or /root");
    if (g->cpu_milli < 50 || g->cpu_milli > CPU_MILLI_MAX)
        return bad(why, "cpu_milli", "out of range");
    if (g->memory_mib < 16 || g->memory_mib > MEMORY_MIB_MAX)
        return bad(why, "memory_mib", "out of range");
    if (g->pids_max < 16 || g->pids_max > PIDS_MAX)
        return bad(why, "pids_max", "out of range");
    if (!cards_ok(g, gpus))
        return bad(why, "gpus", "not cards of this node");
    if (!address_ok(g->address, &cfg->net))
        return bad(why, "address", "outside the node's own range");
    if (!list_ok(g->argv, sizeof(g->argv), 128, false))
        return bad(why, "argv", "not a list of texts");
    if (!list_ok(g->env, sizeof(g->env), 64, true))
        return bad(why, "env", "not a list of K=V");
    if (g->soft_end_boot_ms < 0 || g->hard_end_boot_ms < 0)
        return bad(why, "end", "negative");
    return ports_check(g, &cfg->net, why);
}

static enum err deadline_check(const struct priv_deadline *d, struct refusal *why)
{
    if (d->epoch < 0 || d->soft_end_boot_ms < 0 || d->hard_end_boot_ms < 0)
        return bad(why, "deadline", "negative");
    if (d->grace_ms < 0 || d->grace_ms > GRACE_MS_MAX)
        return bad(why, "grace_ms", "out of range");
    return ERR_OK;
}

static enum err text_check(struct priv_req *req, struct refusal *why)
{
    if (req->text_len >= PRIV_TEXT_MAX)
        return bad(why, "text", "too long");
    req->text[req->text_len] = '\0';
    if (strlen(req->text) != req->text_len || !str_utf8_ok(req->text))
        return bad(why, "text", "not a text");
    return ERR_OK;
}

enum err priv_check(struct priv_req *req, const struct node_config *cfg,
                    const struct gpu_list *gpus, struct refusal *why)
{
    if (req->version != PRIV_VERSION)
        return refusef(why, ERR_PROTOCOL, "why", "version %u, not %d", req->version, PRIV_VERSION);
    if (req->op < PRIV_HELLO || req->op > PRIV_INSTANCE_FORGET)
        return refusef(why, ERR_PROTOCOL, "why", "unknown operation %u", req->op);
    switch ((enum priv_op)req->op) {
    case PRIV_HELLO:
    case PRIV_LIST:
        return ERR_OK;
    case PRIV_IMAGE_IMPORT:
        if (!ended(req->image.name, sizeof(req->image.name)) || !paths_name_ok(req->image.name))
            return bad(why, "name", "not a folder of the staging area");
        __attribute__((fallthrough));
    case PRIV_IMAGE_STAT:
    case PRIV_IMAGE_REMOVE:
        if (!ended(req->image.digest, PRIV_DIGEST_SIZE) || !paths_digest_ok(req->image.digest))
            return bad(why, "digest", "not a digest");
        return ERR_OK;
    case PRIV_DISK_ENSURE:
        if (req->disk.size_mib < 16 || req->disk.size_mib > DISK_MIB_MAX)
            return bad(why, "size_mib", "out of range");
        __attribute__((fallthrough));
    case PRIV_DISK_STAT:
    case PRIV_DISK_ERASE:
    case PRIV_DISK_FORGET:
        return id_is(req->lease, "dsk_") ? ERR_OK : bad(why, "disk", "not an id of a disk");
    case PRIV_INSTANCE_FORGET:
        return id_is(req->lease, "ins_") ? ERR_OK : bad(why, "instance", "not an id");
    case PRIV_GUEST_START:
    case PRIV_GUEST_STAT:
    case PRIV_GUEST_DEADLINE:
    case PRIV_GUEST_STOP:
    case PRIV_GUEST_CLEAN:
    case PRIV_GUEST_LOG:
    case PRIV_KEYS_SET:
    case PRIV_NOTICE:
    case PRIV_REPORT:
    case PRIV_PORTS_SET:
    case PRIV_METER:
        break;
    }
    if (!id_is(req->lease, "lea_"))
        return bad(why, "lease", "not an id of a lease");
    if (req->op == PRIV_GUEST_START)
        return guest_check(&req->guest, cfg, gpus, why);
    if (req->op == PRIV_GUEST_DEADLINE || req->op == PRIV_GUEST_STOP)
        return deadline_check(&req->deadline, why);
    if (req->op == PRIV_PORTS_SET)
        return ports_check(&req->guest, &cfg->net, why);
    if (req->op == PRIV_KEYS_SET || req->op == PRIV_NOTICE || req->op == PRIV_REPORT)
        return text_check(req, why);
    return ERR_OK;
}
