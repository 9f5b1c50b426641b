#include "node/sshd.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/paths.h"
#include "node/sys.h"

#define KEYS_LINES_MAX 256
#define NOTICES_MAX 16384

/* ---- host keys ---- */

static void put_u32(struct strbuf *b, uint32_t v)
{
    unsigned char raw[4] = {(unsigned char)(v >> 24), (unsigned char)(v >> 16),
                            (unsigned char)(v >> 8), (unsigned char)v};

    strbuf_add_n(b, raw, sizeof(raw));
}

static void put_string(struct strbuf *b, const void *p, size_t n)
{
    put_u32(b, (uint32_t)n);
    strbuf_add_n(b, p, n);
}

static void put_base64(struct strbuf *out, const void *p, size_t n, size_t columns)
{
    char text[1024];

    CHECK(sodium_base64_encoded_len(n, sodium_base64_VARIANT_ORIGINAL) <= sizeof(text));
    sodium_bin2base64(text, sizeof(text), p, n, sodium_base64_VARIANT_ORIGINAL);
    for (size_t i = 0, len = strlen(text); i < len; i += columns) {
        strbuf_add_n(out, text + i, MIN(columns, len - i));
        strbuf_add(out, columns < len ? "\n" : "");
    }
}

static const char key_type[] = "ssh-ed25519";

/* The format of OpenSSH's PROTOCOL.key, without encryption: the folder is root's. */
static void key_openssh(struct strbuf *out, const unsigned char *pk, const unsigned char *sk)
{
    static const char magic[] = "openssh-key-v1";
    AUTO_STRBUF struct strbuf pub, sec, all;

    strbuf_init(&pub, 256);
    strbuf_init(&sec, 512);
    strbuf_init(&all, 1024);
    put_string(&pub, key_type, sizeof(key_type) - 1);
    put_string(&pub, pk, crypto_sign_PUBLICKEYBYTES);
    uint32_t check = randombytes_random();
    put_u32(&sec, check);
    put_u32(&sec, check);
    put_string(&sec, key_type, sizeof(key_type) - 1);
    put_string(&sec, pk, crypto_sign_PUBLICKEYBYTES);
    put_string(&sec, sk, crypto_sign_SECRETKEYBYTES);
    put_string(&sec, "", 0);
    for (unsigned char i = 1; sec.len % 8; i++)
        strbuf_add_n(&sec, &i, 1);
    strbuf_add_n(&all, magic, sizeof(magic));
    put_string(&all, "none", 4);
    put_string(&all, "none", 4);
    put_string(&all, "", 0);
    put_u32(&all, 1);
    put_string(&all, pub.data, pub.len);
    put_string(&all, sec.data, sec.len);
    strbuf_add(out, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
    put_base64(out, all.data, all.len, 70);
    strbuf_add(out, "-----END OPENSSH PRIVATE KEY-----\n");
    sodium_memzero(sec.data, sec.len);
    sodium_memzero(all.data, all.len);
}

static enum err key_make(const char *folder, struct refusal *why)
{
    unsigned char pk[crypto_sign_PUBLICKEYBYTES], sk[crypto_sign_SECRETKEYBYTES];
    AUTO_STRBUF struct strbuf text, blob, line;
    char path[GUEST_PATH_SIZE];

    strbuf_init(&text, 2048);
    strbuf_init(&blob, 512);
    strbuf_init(&line, 512);
    CHECK(sodium_init() >= 0);
    crypto_sign_keypair(pk, sk);
    key_openssh(&text, pk, sk);
    CHECK(str_printf(path, sizeof(path), "%s/host_key", folder));
    TRY(sys_write_durable(path, text.data, text.len, 0600, why));
    put_string(&blob, key_type, sizeof(key_type) - 1);
    put_string(&blob, sk, sizeof(sk));
    CHECK(str_printf(path, sizeof(path), "%s/host_key.dropbear", folder));
    TRY(sys_write_durable(path, blob.data, blob.len, 0600, why));
    strbuf_reset(&blob);
    put_string(&blob, key_type, sizeof(key_type) - 1);
    put_string(&blob, pk, sizeof(pk));
    strbuf_addf(&line, "%s ", key_type);
    put_base64(&line, blob.data, blob.len, 200);
    sodium_memzero(sk, sizeof(sk));
    /* Last: where this file is, the others are whole. */
    CHECK(str_printf(path, sizeof(path), "%s/host_key.pub", folder));
    return sys_write_durable(path, line.data, line.len, 0600, why);
}

enum err sshd_host_key(const struct node_paths *p, struct id instance, char ret_line[256],
                       struct refusal *why)
{
    char folder[GUEST_PATH_SIZE], path[GUEST_PATH_SIZE];

    CHECK(str_printf(folder, sizeof(folder), "%s/%s", p->instances, instance.s) &&
          str_printf(path, sizeof(path), "%s/host_key.pub", folder));
    TRY(sys_dir_ensure(folder, 0700, 0, 0, why));
    if (access(path, R_OK) < 0)
        TRY(key_make(folder, why));
    if (sys_read_small(path, ret_line, 256) <= 0)
        return sys_fail(why, "read of the host key");
    ret_line[strcspn(ret_line, "\n")] = '\0';
    return ERR_OK;
}

void sshd_host_key_forget(const struct node_paths *p, struct id instance)
{
    AUTO_CLOSE int fd = open(p->instances, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        sys_remove_tree(fd, instance.s);
}

/* ---- the folder of a lease ---- */

/* Written beside and renamed: the guest sees the old text or the new one. */
static enum err lease_file_write(const struct node_paths *p, struct id lease, const char *name,
                                 uint32_t owner, mode_t mode, const void *data, size_t len,
                                 struct refusal *why)
{
    char path[GUEST_PATH_SIZE], fresh[GUEST_PATH_SIZE];

    CHECK(str_printf(path, sizeof(path), "%s/%s/ssh/%s", p->leases, lease.s, name) &&
          str_printf(fresh, sizeof(fresh), "%s/%s/ssh.new.%s", p->leases, lease.s, name));
    AUTO_CLOSE int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len || fchmod(fd, mode) < 0 ||
        fchown(fd, owner, owner) < 0 || rename(fresh, path) < 0)
        return sys_fail(why, "write into the lease's folder");
    return ERR_OK;
}

static bool env_is_plain(const char *s)
{
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

    if (n == 0 || s[n] != '=' || (*s >= '0' && *s <= '9'))
        return false;
    for (; *s; s++) {
        if ((unsigned char)*s < ' ' || *s == 0x7f)
            return false;
    }
    return true;
}

static void config_text(struct strbuf *out, const char *const *env, size_t env_count)
{
    bool first = true;

    strbuf_add(out, "Port 22\n"
                    "HostKey /.suanli/lease/host_key\n"
                    "AuthorizedKeysFile /.suanli/lease/authorized_keys\n"
                    /* its folder is ours and read-only; to the guest it belongs to nobody */
                    "StrictModes no\n"
                    "PubkeyAuthentication yes\n"
                    "PasswordAuthentication no\n"
                    "KbdInteractiveAuthentication no\n"
                    "HostbasedAuthentication no\n"
                    "PermitRootLogin prohibit-password\n"
                    "UsePAM no\n"
                    "UseDNS no\n"
                    "X11Forwarding no\n"
                    "AllowTcpForwarding yes\n"
                    "AllowAgentForwarding yes\n"
                    "PrintMotd yes\n"
                    "PrintLastLog no\n"
                    "PidFile none\n"
                    "Subsystem sftp internal-sftp\n"
                    "AcceptEnv LANG LC_*\n"
                    "LoginGraceTime 30\n"
                    "MaxStartups 50:30:100\n"
                    "MaxSessions 64\n"
                    "LogLevel FATAL\n");
    /* Only the first SetEnv line counts, so all of them are on it. */
    for (size_t i = 0; i < env_count; i++) {
        if (!env_is_plain(env[i]))
            continue;
        strbuf_add(out, first ? "SetEnv \"" : " \"");
        first = false;
        for (const char *s = env[i]; *s; s++) {
            if (*s == '"' || *s == '\\')
                strbuf_add(out, "\\");
            strbuf_add_n(out, s, 1);
        }
        strbuf_add(out, "\"");
    }
    strbuf_add(out, first ? "" : "\n");
}

static enum err key_copy(const struct node_paths *p, struct id lease, struct id instance,
                         const char *name, uint32_t owner, struct refusal *why)
{
    char path[GUEST_PATH_SIZE], data[2048];

    CHECK(str_printf(path, sizeof(path), "%s/%s/%s", p->instances, instance.s, name));
    ssize_t n = sys_read_small(path, data, sizeof(data));
    if (n <= 0)
        return sys_fail(why, "read of the host key");
    enum err e = lease_file_write(p, lease, name, owner, 0600, data, (size_t)n, why);
    sodium_memzero(data, sizeof(data));
    return e;
}

enum err sshd_lease_write(const struct node_paths *p, struct id lease, struct id instance,
                          uint32_t owner, const char *const *env, size_t env_count,
                          struct refusal *why)
{
    char folder[GUEST_PATH_SIZE], keys[GUEST_PATH_SIZE];
    AUTO_STRBUF struct strbuf text;

    strbuf_init(&text, 65536);
    CHECK(guest_path(p, lease, "ssh", folder) && guest_path(p, lease, "ssh/authorized_keys", keys));
    TRY(sys_dir_ensure(folder, 0755, 0, 0, why));
    config_text(&text, env, env_count);
    TRY(lease_file_write(p, lease, "sshd_config", owner, 0644, text.data, text.len, why));
    TRY(key_copy(p, lease, instance, "host_key", owner, why));
    TRY(key_copy(p, lease, instance, "host_key.dropbear", owner, why));
    /* Keys that came before the start stay. */
    if (access(keys, F_OK) < 0)
        TRY(lease_file_write(p, lease, "authorized_keys", owner, 0644, "", 0, why));
    return ERR_OK;
}

/* "type base64[ comment]": no options, so a key can do nothing but log in. */
static bool key_line_ok(const char *line, size_t n)
{
    static const char *const types[] = {"ssh-ed25519 ",
                                        "ssh-rsa ",
                                        "ecdsa-sha2-nistp256 ",
                                        "ecdsa-sha2-nistp384 ",
                                        "ecdsa-sha2-nistp521 ",
                                        "sk-ssh-ed25519@openssh.com ",
                                        "sk-ecdsa-sha2-nistp256@openssh.com "};
    bool known = false;

    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        known |= n > strlen(types[i]) && strncmp(line, types[i], strlen(types[i])) == 0;
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            return false;
    }
    return known;
}

enum err sshd_keys_set(const struct node_paths *p, struct id lease, uint32_t owner,
                       const char *text, struct refusal *why)
{
    AUTO_STRBUF struct strbuf out;
    size_t lines = 0;

    strbuf_init(&out, PRIV_TEXT_MAX + 1);
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, "\n");
        if (n) {
            if (!key_line_ok(s, n) || ++lines > KEYS_LINES_MAX)
                return refusef(why, ERR_VALIDATION, "field", "keys");
            strbuf_add_n(&out, s, n);
            strbuf_add(&out, "\n");
        }
        s += n + (s[n] == '\n');
    }
    return lease_file_write(p, lease, "authorized_keys", owner, 0644, strbuf_str(&out), out.len,
                            why);
}

/* Texts from outside reach a terminal here: control characters become '?'. */
static void text_add_plain(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        strbuf_add_n(out, (c < ' ' && c != '\n' && c != '\t') || c == 0x7f ? "?" : text, 1);
    }
    if (out->len && out->data[out->len - 1] != '\n')
        strbuf_add(out, "\n");
}

static enum err motd_write(const struct node_paths *p, struct id lease, uint32_t owner,
                           struct refusal *why)
{
    static const char *const parts[] = {"report", "notices"};
    AUTO_STRBUF struct strbuf all;

    strbuf_init(&all, 65536);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        char path[GUEST_PATH_SIZE], text[NOTICES_MAX + 1];
        CHECK(str_printf(path, sizeof(path), "%s/%s/ssh/%s", p->leases, lease.s, parts[i]));
        if (sys_read_small(path, text, sizeof(text)) > 0)
            strbuf_add(&all, text);
    }
    return lease_file_write(p, lease, "motd", owner, 0644, strbuf_str(&all), all.len, why);
}

enum err sshd_report_set(const struct node_paths *p, struct id lease, uint32_t owner,
                         const char *text, struct refusal *why)
{
    AUTO_STRBUF struct strbuf out;

    strbuf_init(&out, PRIV_TEXT_MAX + 2);
    text_add_plain(&out, text);
    TRY(lease_file_write(p, lease, "report", owner, 0644, strbuf_str(&out), out.len, why));
    return motd_write(p, lease, owner, why);
}

enum err sshd_notice_add(const struct node_paths *p, struct id lease, uint32_t owner,
                         const char *text, struct refusal *why)
{
    char path[GUEST_PATH_SIZE], old[NOTICES_MAX + 1] = "";
    AUTO_STRBUF struct strbuf out;

    strbuf_init(&out, sizeof(old) + PRIV_TEXT_MAX + 2);
    CHECK(guest_path(p, lease, "ssh/notices", path));
    if (sys_read_small(path, old, sizeof(old)) > 0)
        strbuf_add(&out, old);
    text_add_plain(&out, text);
    /* The newest are kept, from the start of a line. */
    const char *from = strbuf_str(&out);
    if (out.len > NOTICES_MAX - 1) {
        from += out.len - (NOTICES_MAX - 1);
        from += strcspn(from, "\n") + 1;
    }
    TRY(lease_file_write(p, lease, "notices", owner, 0644, from, strlen(from), why));
    return motd_write(p, lease, owner, why);
}
