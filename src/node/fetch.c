#include "node/fetch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "node/dialguard.h"
#include "node/paths.h"
#include "node/sys.h"

#define MANIFEST_MAX (4 << 20)
#define LAYERS_MAX 128
#define PULL_MS (6 * 3600 * 1000)

static enum err pull_fail(struct refusal *why, const char *cause)
{
    return sys_refuse(why, ERR_IMAGE_PULL, "why", cause, NULL);
}

static enum err not_found(struct refusal *why, const char *source)
{
    return sys_refuse(why, ERR_IMAGE_NOT_FOUND, "name", source, NULL);
}

static enum err copy_fail(struct refusal *why)
{
    if (errno == ENOSPC || errno == EDQUOT)
        return sys_refuse(why, ERR_NO_SPACE, "where", "the staging folder", "need", "more", NULL);
    return sys_fail(why, "copy into the staging folder");
}

/* Layouts on this machine */

static bool hex_of(const char *digest, const char **ret_hex)
{
    if (!digest || !paths_digest_ok(digest))
        return false;
    *ret_hex = digest + 7;
    return true;
}

static enum err blob_copy(int from_dir, int to_dir, const char *digest, struct refusal *why)
{
    const char *hex;
    struct stat st;
    off_t left;

    if (!hex_of(digest, &hex))
        return pull_fail(why, "malformed digest in the image");
    AUTO_CLOSE int from = openat(from_dir, hex, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (from < 0 || fstat(from, &st) != 0 || !S_ISREG(st.st_mode))
        return pull_fail(why, "a part of the image is missing");
    AUTO_CLOSE int to = openat(to_dir, hex, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to < 0)
        return copy_fail(why);
    for (left = st.st_size; left > 0;) {
        ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)left, 0);
        if (n < 0)
            return copy_fail(why);
        if (n == 0)
            return pull_fail(why, "a part of the image was cut");
        left -= n;
    }
    return ERR_OK;
}

static enum err json_read(int dir, const char *name, json_t **ret_v, struct refusal *why)
{
    AUTO_FREE char *text = mem_alloc(MANIFEST_MAX);
    AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, MANIFEST_MAX);

    if (n <= 0 || n == MANIFEST_MAX ||
        json_parse(text, (size_t)n, MANIFEST_MAX, ret_v, NULL) != ERR_OK)
        return pull_fail(why, "malformed or missing manifest");
    return ERR_OK;
}

/* Manifest, config and layers of `digest`; the content is checked again where it counts, on import.
 */
static enum err blobs_copy(int from, int to, const char *digest, struct refusal *why)
{
    AUTO_JSON json_t *m = NULL;
    const char *hex, *d;
    json_t *v;
    size_t i;

    if (!hex_of(digest, &hex))
        return refusef(why, ERR_VALIDATION, "field", "digest");
    TRY(blob_copy(from, to, digest, why));
    TRY(json_read(to, hex, &m, why));
    const json_t *layers = json_object_get(m, "layers");
    if (!json_get_str(json_object_get(m, "config"), "digest", NULL, &d) || !d ||
        json_array_size(layers) == 0 || json_array_size(layers) > LAYERS_MAX)
        return pull_fail(why, "not an image manifest");
    TRY(blob_copy(from, to, d, why));
    json_array_foreach(layers, i, v)
    {
        if (!json_get_str(v, "digest", NULL, &d))
            return pull_fail(why, "not an image manifest");
        TRY(blob_copy(from, to, d, why));
    }
    return ERR_OK;
}

static int staging_open(const struct node_config *cfg, const char *name)
{
    char path[PATH_MAX];
    static const char *const parts[] = {"", "/blobs", "/blobs/sha256"};

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (!str_printf(path, sizeof(path), "%s/%s%s", cfg->paths.staging, name, parts[i]) ||
            (mkdir(path, 0700) != 0 && errno != EEXIST))
            return -1;
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* The digest the layout's index gives for a tag, or its first; "" when it names none. */
static void index_digest(int layout, const char *tag, char digest[PRIV_DIGEST_SIZE])
{
    AUTO_JSON json_t *index = NULL;
    const char *d, *ref;
    json_t *v;
    size_t i;

    digest[0] = '\0';
    if (json_read(layout, "index.json", &index, NULL) != ERR_OK)
        return;
    json_array_foreach(json_object_get(index, "manifests"), i, v)
    {
        const json_t *notes = json_object_get(v, "annotations");
        if (!json_get_str(v, "digest", "", &d) ||
            !json_get_str(notes, "org.opencontainers.image.ref.name", "", &ref))
            continue;
        if (!digest[0] || (*tag && str_eq(ref, tag)))
            (void)!str_copy(digest, PRIV_DIGEST_SIZE, d);
    }
}

static enum err layout_fetch(const struct node_config *cfg, const char *folder, const char *tag,
                             const char *source, const char *digest, const char *name,
                             char ret_digest[PRIV_DIGEST_SIZE], struct refusal *why)
{
    char got[PRIV_DIGEST_SIZE];
    AUTO_CLOSE int layout = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (layout < 0)
        return not_found(why, source);
    AUTO_CLOSE int from = openat(layout, "blobs/sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0)
        return not_found(why, source);
    index_digest(layout, tag, got);
    if (!*digest && !paths_digest_ok(got))
        return not_found(why, source);
    if (*digest && faccessat(from, digest + 7, R_OK, 0) != 0)
        return sys_refuse(why, ERR_IMAGE_DIGEST, "got", got[0] ? got : "nothing", "want", digest,
                          NULL);
    AUTO_CLOSE int to = staging_open(cfg, name);
    if (to < 0)
        return copy_fail(why);
    TRY(blobs_copy(from, to, *digest ? digest : got, why));
    CHECK(str_copy(ret_digest, PRIV_DIGEST_SIZE, *digest ? digest : got));
    return ERR_OK;
}

/* Registries */

/* "host[:port]/repository[:tag][@digest]". The host is always named: which one a short name would
 * mean differs from machine to machine. */
static bool reference_split(const char *ref, char host[256], char repository[512], char tag[256])
{
    size_t first = strcspn(ref, "/");
    const char *rest = ref + first + 1, *at = strchr(ref, '@');

    if (ref[first] != '/' || !str_printf(host, 256, "%.*s", (int)first, ref) ||
        !(strpbrk(host, ".:") || str_eq(host, "localhost")) || (at && !paths_digest_ok(at + 1)))
        return false;
    size_t end = strcspn(rest, "@");
    const char *slash = memrchr(rest, '/', end);
    const char *colon =
        memchr(slash ? slash : rest, ':', (size_t)(rest + end - (slash ? slash : rest)));
    tag[0] = '\0';
    if (colon && !str_printf(tag, 256, "%.*s", (int)(rest + end - colon), colon))
        return false;
    if (colon)
        end = (size_t)(colon - rest);
    if (end == 0 || !str_printf(repository, 512, "%.*s", (int)end, rest))
        return false;
    return strspn(repository, "abcdefghijklmnopqrstuvwxyz0123456789._-/") == strlen(repository) &&
           strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") ==
               strlen(host) &&
           strspn(tag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:") ==
               strlen(tag) &&
           host[0] != '-';
}

static enum err host_check(const char *host, struct refusal *why)
{
    char name[256], cause[160];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    bool bad = false;

    if (host[0] == '[') {
        if (!str_printf(name, sizeof(name), "%.*s", (int)strcspn(host + 1, "]"), host + 1))
            return pull_fail(why, "malformed host");
    } else if (!str_printf(name, sizeof(name), "%.*s", (int)strcspn(host, ":"), host)) {
        return pull_fail(why, "malformed host");
    }
    int rc = getaddrinfo(name, NULL, &hints, &list);
    if (rc != 0) {
        str_printf(cause, sizeof(cause), "%.80s: %.60s", name, gai_strerror(rc));
        return pull_fail(why, cause);
    }
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        bad |= dialguard_forbidden(a->ai_addr);
    freeaddrinfo(list);
    if (bad) {
        str_printf(cause, sizeof(cause),
                   "%.80s is an address of this machine or its private network", name);
        return pull_fail(why, cause);
    }
    return ERR_OK;
}

/* skopeo's "dir" form keeps the manifest as the registry has it, so its digest stays what it was:
 * a conversion would change it. Its files become a layout by renaming. */
static enum err dir_to_layout(const struct node_config *cfg, const char *name, const char *temp,
                              const char *digest, char ret_digest[PRIV_DIGEST_SIZE],
                              struct refusal *why)
{
    char got[PRIV_DIGEST_SIZE] = "sha256:";
    unsigned char hash[crypto_hash_sha256_BYTES];
    AUTO_FREE char *text = mem_alloc(MANIFEST_MAX);
    AUTO_CLOSE int from = open(temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int to = staging_open(cfg, name);
    AUTO_CLOSE int m = from < 0 ? -1 : openat(from, "manifest.json", O_RDONLY | O_CLOEXEC);
    ssize_t n = m < 0 ? -1 : read(m, text, MANIFEST_MAX);

    if (to < 0)
        return copy_fail(why);
    if (n <= 0 || n == MANIFEST_MAX)
        return pull_fail(why, "no manifest came");
    crypto_hash_sha256(hash, (const unsigned char *)text, (size_t)n);
    sodium_bin2hex(got + 7, sizeof(got) - 7, hash, sizeof(hash));
    if (*digest && !str_eq(got, digest))
        return sys_refuse(why, ERR_IMAGE_DIGEST, "got", got, "want", digest, NULL);
    if (renameat(from, "manifest.json", from, got + 7) != 0)
        return copy_fail(why);
    TRY(blobs_copy(from, to, got, why));
    CHECK(str_copy(ret_digest, PRIV_DIGEST_SIZE, got));
    return ERR_OK;
}

static enum err registry_fail(const struct sys_tool *tool, const char *source, struct refusal *why)
{
    if (strstr(tool->output, "manifest unknown") || strstr(tool->output, "name unknown") ||
        strstr(tool->output, "repository does not exist"))
        return not_found(why, source);
    if (strstr(tool->output, "no space left"))
        return sys_refuse(why, ERR_NO_SPACE, "where", "the staging folder", "need", "more", NULL);
    size_t len = strlen(tool->output);
    return pull_fail(why, len == 0 ? "skopeo cannot be run or timed out"
                                   : tool->output + (len > 180 ? len - 180 : 0));
}

static enum err registry_fetch(const struct node_config *cfg, const char *source,
                               const char *digest, const char *name,
                               char ret_digest[PRIV_DIGEST_SIZE], struct refusal *why)
{
    char host[256], repository[512], tag[256], from[1024], temp[PATH_MAX], to[PATH_MAX + 8],
        env[PATH_MAX];

    if (!reference_split(source + strlen("docker://"), host, repository, tag))
        return pull_fail(why, "write it as docker://HOST/REPOSITORY:TAG or …@sha256:DIGEST");
    if (!cfg->private_registries)
        TRY(host_check(host, why));
    if (!str_printf(temp, sizeof(temp), "%s/%s.pull", cfg->paths.staging, name) ||
        !str_printf(env, sizeof(env), "TMPDIR=%s", cfg->paths.staging))
        return refusef(why, ERR_INTERNAL, "why", "path too long");
    str_printf(to, sizeof(to), "dir:%s", temp);
    const char *named = strchr(source, '@');
    str_printf(from, sizeof(from), "docker://%s/%s%s%s", host, repository,
               *digest || named ? "@" : tag,
               *digest ? digest
               : named ? named + 1
                       : "");
    sys_remove_tree(AT_FDCWD, temp);
    const char *argv[] = {"skopeo",
                          "--insecure-policy",
                          "copy",
                          "--quiet",
                          "--retry-times",
                          "3",
                          cfg->private_registries ? "--src-tls-verify=false" : "--src-no-creds",
                          from,
                          to,
                          NULL};
    struct sys_tool tool = {.argv = argv, .env = env, .timeout_ms = PULL_MS};
    enum err e = cfg->private_registries ? sys_tool_run(&tool, NULL) : dialguard_run(&tool, why);
    if (e == ERR_FORBIDDEN)
        e = pull_fail(why,
                      "the registry leads to an address of this machine or its private network");
    else if (e == ERR_SYSTEM)
        e = registry_fail(&tool, source, why);
    else if (e == ERR_OK)
        e = dir_to_layout(cfg, name, temp, digest, ret_digest, why);
    sys_remove_tree(AT_FDCWD, temp);
    return e;
}

static enum err oci_fetch(const struct node_config *cfg, const char *source, const char *digest,
                          const char *name, char ret_digest[PRIV_DIGEST_SIZE], struct refusal *why)
{
    char folder[PATH_MAX];
    const char *path = source + strlen("oci:");
    const char *slash = strrchr(path, '/');
    const char *tag = slash ? strchr(slash, ':') : NULL;

    if (path[0] != '/' || !str_printf(folder, sizeof(folder), "%.*s",
                                      (int)(tag ? (size_t)(tag - path) : strlen(path)), path))
        return not_found(why, source);
    return layout_fetch(cfg, folder, tag ? tag + 1 : "", source, digest, name, ret_digest, why);
}

/* Building needs rights the agent has given up for good: the operator's `images/build` leaves the
 * layout in the folder of the configuration. */
static enum err recipe_fetch(const struct node_config *cfg, const char *source, const char *digest,
                             const char *name, char ret_digest[PRIV_DIGEST_SIZE],
                             struct refusal *why)
{
    char folder[PATH_MAX];
    const char *recipe = source + strlen("recipe:");

    if (!paths_name_ok(recipe) ||
        !str_printf(folder, sizeof(folder), "%s%s/%s", cfg->images[0] ? cfg->images : cfg->state,
                    cfg->images[0] ? "" : "/recipes", recipe))
        return not_found(why, source);
    return layout_fetch(cfg, folder, "", source, digest, name, ret_digest, why);
}

enum err fetch_image(const struct node_config *cfg, const char *source, const char *digest,
                     const char *name, char ret_digest[PRIV_DIGEST_SIZE], struct refusal *why)
{
    sys_clear(why);
    if ((*digest && !paths_digest_ok(digest)) || !paths_name_ok(name))
        return refusef(why, ERR_VALIDATION, "field", "digest or name");
    if (sodium_init() < 0)
        return refusef(why, ERR_INTERNAL, "why", "sodium");
    if (str_starts(source, "docker://"))
        return registry_fetch(cfg, source, digest, name, ret_digest, why);
    if (str_starts(source, "oci:"))
        return oci_fetch(cfg, source, digest, name, ret_digest, why);
    if (str_starts(source, "recipe:"))
        return recipe_fetch(cfg, source, digest, name, ret_digest, why);
    return not_found(why, source);
}
