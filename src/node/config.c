/* config.c: one struct of texts and numbers filled by the table in config.def, then checked. */
#include "node/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

enum key_type {
    KEY_PATH,
    KEY_TEXT,
    KEY_NAME,
    KEY_FLAG,
    KEY_NET,
    KEY_GPU,
    KEY_RUNTIME,
    KEY_SSH,
    KEY_NUMBER
};

struct key {
    const char *name, *def, *help;
    enum key_type type;
    int64_t def_int, min, max;
};

enum key_index {
#define KEY(name, type, def, help) INDEX_##name,
#define KEY_INT(name, def, min, max, help) INDEX_##name,
#include "node/config.def"
#undef KEY
#undef KEY_INT
    INDEX_COUNT
};

#define TYPE_PATH KEY_PATH
#define TYPE_TEXT KEY_TEXT
#define TYPE_NAME KEY_NAME
#define TYPE_FLAG KEY_FLAG
#define TYPE_NET KEY_NET
#define TYPE_GPU KEY_GPU
#define TYPE_RUNTIME KEY_RUNTIME
#define TYPE_SSH KEY_SSH
static const struct key keys[] = {
#define KEY(n, t, d, h) {.name = #n, .def = d, .help = h, .type = TYPE_##t},
#define KEY_INT(n, d, lo, hi, h)                                                                   \
    {.name = #n, .def_int = d, .help = h, .type = KEY_NUMBER, .min = lo, .max = hi},
#include "node/config.def"
#undef KEY
#undef KEY_INT
};

struct value {
    char text[256];
    int64_t number;
    unsigned line; /* 0: the default */
};

static enum err value_bad(const char *where, const struct key *k, const char *why_not,
                          struct refusal *why)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%s", where);

    refusal_setf(why, "why", "%s: %s", k->name, why_not);
    return e;
}

/* Texts end up in command lines, rule batches and file names: printable ASCII, no quotes. */
static bool text_is_plain(const char *s)
{
    for (; *s; s++) {
        if (*s < ' ' || *s > '~' || strchr("\"'\\`$", *s))
            return false;
    }
    return true;
}

static bool net_parse(const char *s, uint32_t *ret_base, uint32_t *ret_bits)
{
    char address[32];
    const char *slash = strchr(s, '/');
    struct in_addr in;
    int64_t bits;

    if (!slash || (size_t)(slash - s) >= sizeof(address))
        return false;
    memcpy(address, s, (size_t)(slash - s));
    address[slash - s] = '\0';
    if (inet_pton(AF_INET, address, &in) != 1 || str_parse_i64(slash + 1, 8, 28, &bits) != ERR_OK)
        return false;
    uint32_t base = ntohl(in.s_addr);
    if (base & ((1u << (32 - (unsigned)bits)) - 1))
        return false;
    *ret_base = base;
    *ret_bits = (uint32_t)bits;
    return true;
}

static enum err value_set(const struct key *k, const char *text, const char *where, struct value *v,
                          struct refusal *why)
{
    uint32_t base, bits;

    if (!str_copy(v->text, sizeof(v->text), text) || !text_is_plain(text))
        return value_bad(where, k, "too long, or with characters that are not allowed", why);
    switch (k->type) {
    case KEY_NUMBER:
        if (str_parse_i64(text, k->min, k->max, &v->number) != ERR_OK) {
            char range[96];
            (void)str_printf(range, sizeof(range), "a whole number from %lld to %lld",
                             (long long)k->min, (long long)k->max);
            return value_bad(where, k, range, why);
        }
        return ERR_OK;
    case KEY_PATH:
        if (*text && (*text != '/' || strstr(text, "/../")))
            return value_bad(where, k, "an absolute path", why);
        return ERR_OK;
    case KEY_FLAG:
        v->number = str_eq(text, "yes");
        if (!str_eq(text, "yes") && !str_eq(text, "no"))
            return value_bad(where, k, "yes or no", why);
        return ERR_OK;
    case KEY_NET:
        if (!net_parse(text, &base, &bits))
            return value_bad(where, k, "a network like 10.213.0.0/16", why);
        return ERR_OK;
    case KEY_RUNTIME:
        if (!str_eq(text, "auto") && !str_eq(text, "crun") && !str_eq(text, "runc"))
            return value_bad(where, k, "auto, crun or runc", why);
        return ERR_OK;
    case KEY_SSH:
        if (!str_eq(text, "auto") && !str_eq(text, "openssh") && !str_eq(text, "dropbear"))
            return value_bad(where, k, "auto, openssh or dropbear", why);
        return ERR_OK;
    case KEY_GPU:
        if (!str_eq(text, "none") && !str_eq(text, "nvml") && !str_eq(text, "auto") &&
            !str_starts(text, "sim:"))
            return value_bad(where, k, "none, nvml, auto or sim:COUNT*MODEL:MIB", why);
        return ERR_OK;
    case KEY_NAME:
    case KEY_TEXT:
        return ERR_OK;
    }
    return ERR_OK;
}

static char *text_trim(char *s)
{
    s += strspn(s, " \t");
    for (size_t n = strlen(s); n && strchr(" \t\r\n", s[n - 1]); n--)
        s[n - 1] = '\0';
    return s;
}

static enum err line_read(char *line, const char *where, unsigned number, struct value *values,
                          struct refusal *why)
{
    char *text = text_trim(line), *eq;
    enum err e;

    if (!*text || *text == '#')
        return ERR_OK;
    eq = strchr(text, '=');
    if (!eq) {
        e = refusef(why, ERR_VALIDATION, "field", "%s", where);
        refusal_set(why, "why", "expected \"key = value\"");
        return e;
    }
    *eq = '\0';
    const char *name = text_trim(text);
    for (size_t i = 0; i < INDEX_COUNT; i++) {
        if (!str_eq(keys[i].name, name))
            continue;
        if (values[i].line)
            return value_bad(where, &keys[i], "given twice", why);
        values[i].line = number;
        return value_set(&keys[i], text_trim(eq + 1), where, &values[i], why);
    }
    e = refusef(why, ERR_VALIDATION, "field", "%s", where);
    refusal_setf(why, "why", "there is no key %.60s", name);
    return e;
}

static enum err file_read(const char *path, struct value *values, struct refusal *why)
{
    FILE *f = fopen(path, "re");
    char line[1024], where[300];
    enum err e = ERR_OK;

    if (!f) {
        e = refusef(why, ERR_VALIDATION, "field", "%s", path);
        refusal_set(why, "why", strerror(errno));
        return e;
    }
    for (unsigned n = 1; e == ERR_OK && fgets(line, sizeof(line), f); n++) {
        (void)str_printf(where, sizeof(where), "%s:%u", path, n);
        e = line_read(line, where, n, values, why);
    }
    fclose(f);
    return e;
}

/* FNV-1a over the state folder: stable, short, and different for two nodes on one machine. */
static uint32_t tag_of(const char *s)
{
    uint32_t h = 2166136261u;

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

static bool paths_fill(struct node_config *c)
{
    struct node_paths *p = &c->paths;
    bool ok = str_copy(p->state, sizeof(p->state), c->state);

    ok &= str_printf(p->staging, sizeof(p->staging), "%s/agent/staging", c->state);
    ok &= str_printf(p->priv, sizeof(p->priv), "%s/priv", c->state);
    ok &= str_printf(p->images, sizeof(p->images), "%s/priv/images", c->state);
    ok &= str_printf(p->disks, sizeof(p->disks), "%s/priv/disks", c->state);
    ok &= str_printf(p->leases, sizeof(p->leases), "%s/priv/leases", c->state);
    ok &= str_printf(p->instances, sizeof(p->instances), "%s/priv/instances", c->state);
    ok &= str_printf(p->tag, sizeof(p->tag), "%08x", tag_of(c->state));
    ok &= str_printf(p->run, sizeof(p->run), "/run/suanli-%s", p->tag);
    ok &= str_printf(c->net.table, sizeof(c->net.table), "suanli_%s", p->tag);
    ok &= str_printf(c->net.link, sizeof(c->net.link), "sl%s", p->tag);
    return ok;
}

static enum err values_take(const struct value *v, struct node_config *c, struct refusal *why)
{
    bool ok = true;

    ok &= str_copy(c->state, sizeof(c->state), v[INDEX_state].text);
    ok &= str_copy(c->control, sizeof(c->control), v[INDEX_control].text);
    ok &= str_copy(c->ca_file, sizeof(c->ca_file), v[INDEX_ca_file].text);
    ok &= v[INDEX_token_file].text[0]
              ? str_copy(c->token_file, sizeof(c->token_file), v[INDEX_token_file].text)
              : str_printf(c->token_file, sizeof(c->token_file), "%s/token", c->state);
    ok &= str_copy(c->user, sizeof(c->user), v[INDEX_user].text);
    ok &= str_copy(c->ssh_host, sizeof(c->ssh_host), v[INDEX_ssh_host].text);
    ok &= str_copy(c->gpu, sizeof(c->gpu), v[INDEX_gpu].text);
    ok &= str_copy(c->gpu_knobs, sizeof(c->gpu_knobs), v[INDEX_gpu_knobs].text);
    ok &= str_copy(c->nvidia_proc, sizeof(c->nvidia_proc), v[INDEX_nvidia_proc].text);
    ok &= str_copy(c->runtime, sizeof(c->runtime), v[INDEX_runtime].text);
    ok &= str_copy(c->ssh_server, sizeof(c->ssh_server), v[INDEX_ssh_server].text);
    ok &= str_copy(c->images, sizeof(c->images), v[INDEX_images].text);
    ok &= net_parse(v[INDEX_net].text, &c->net.base, &c->net.bits);
    c->net.nat_out = v[INDEX_nat_out].number;
    c->net.port_min = (uint16_t)v[INDEX_port_min].number;
    c->net.port_max = (uint16_t)v[INDEX_port_max].number;
    c->slice_s = v[INDEX_slice_s].number;
    c->pool_mib = v[INDEX_pool_mib].number;
    c->private_registries = v[INDEX_private_registries].number;
    if (!c->state[0] || c->state[1] == '\0' || strlen(c->state) > 120)
        return value_bad("state", &keys[INDEX_state], "a folder of at most 120 characters", why);
    ok &= paths_fill(c);
    ok &= v[INDEX_cgroup].text[0]
              ? str_copy(c->cgroup, sizeof(c->cgroup), v[INDEX_cgroup].text)
              : str_printf(c->cgroup, sizeof(c->cgroup), "/suanli-%s", c->paths.tag);
    if (!ok)
        return value_bad("configuration", &keys[INDEX_state], "a value is too long", why);
    if (c->net.port_min > c->net.port_max)
        return value_bad("port_min", &keys[INDEX_port_min], "not above port_max", why);
    if (!str_starts(c->control, "unix:/") && !str_starts(c->control, "https://") &&
        !str_starts(c->control, "http://127.0.0.1"))
        return value_bad("control", &keys[INDEX_control], "unix:/PATH or https://HOST:PORT", why);
    if (c->cgroup[0] != '/' || strstr(c->cgroup, "..") || !c->cgroup[1])
        return value_bad("cgroup", &keys[INDEX_cgroup], "a path below the root, like /suanli", why);
    return ERR_OK;
}

enum err config_load(const char *path, struct node_config *ret_cfg, struct refusal *why)
{
    struct value values[INDEX_COUNT] = {0};
    struct node_config c = {0};

    for (size_t i = 0; i < INDEX_COUNT; i++) {
        if (keys[i].type == KEY_NUMBER)
            values[i].number = keys[i].def_int;
        else
            TRY(value_set(&keys[i], keys[i].def, "default", &values[i], why));
    }
    if (path)
        TRY(file_read(path, values, why));
    TRY(values_take(values, &c, why));
    *ret_cfg = c;
    return ERR_OK;
}

static void key_print(FILE *out, enum key_index i, const char *text)
{
    fprintf(out, "# %s\n%s%s = %s\n", keys[i].help, *text ? "" : "#", keys[i].name, text);
}

static void key_print_int(FILE *out, enum key_index i, int64_t v)
{
    char text[32];

    (void)str_printf(text, sizeof(text), "%lld", (long long)v);
    key_print(out, i, text);
}

void config_print(const struct node_config *c, FILE *out)
{
    char text[64], address[INET_ADDRSTRLEN];
    struct in_addr in = {.s_addr = htonl(c->net.base)};

    inet_ntop(AF_INET, &in, address, sizeof(address));
    (void)str_printf(text, sizeof(text), "%s/%u", address, c->net.bits);
    key_print(out, INDEX_state, c->state);
    key_print(out, INDEX_control, c->control);
    key_print(out, INDEX_ca_file, c->ca_file);
    key_print(out, INDEX_token_file, c->token_file);
    key_print(out, INDEX_user, c->user);
    key_print(out, INDEX_net, text);
    key_print(out, INDEX_nat_out, c->net.nat_out ? "yes" : "no");
    key_print(out, INDEX_ssh_host, c->ssh_host);
    key_print_int(out, INDEX_port_min, c->net.port_min);
    key_print_int(out, INDEX_port_max, c->net.port_max);
    key_print(out, INDEX_gpu, c->gpu);
    key_print(out, INDEX_gpu_knobs, c->gpu_knobs);
    key_print(out, INDEX_nvidia_proc, c->nvidia_proc);
    key_print(out, INDEX_runtime, c->runtime);
    key_print(out, INDEX_ssh_server, c->ssh_server);
    key_print_int(out, INDEX_slice_s, c->slice_s);
    key_print_int(out, INDEX_pool_mib, c->pool_mib);
    key_print(out, INDEX_images, c->images);
    key_print(out, INDEX_private_registries, c->private_registries ? "yes" : "no");
    key_print(out, INDEX_cgroup, c->cgroup);
}
