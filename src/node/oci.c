#include "node/oci.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "node/paths.h"
#include "node/sys.h"
#include "node/unpack.h"

#define LAYERS_MAX 128
#define MANIFEST_MAX (4 << 20)
#define CHUNK (256 << 10)

#if defined(__x86_64__)
#define HOST_ARCH "amd64"
#elif defined(__aarch64__)
#define HOST_ARCH "arm64"
#else
#error "name this machine's architecture as OCI does"
#endif

struct oci_image {
    json_t *manifest, *config; /* owned */
    size_t layer_count;
    char layers[LAYERS_MAX][PRIV_DIGEST_SIZE];   /* as fetched */
    char diff_ids[LAYERS_MAX][PRIV_DIGEST_SIZE]; /* uncompressed */
    int64_t tar_bytes[LAYERS_MAX];
    char config_digest[PRIV_DIGEST_SIZE];
};

static void image_fini(struct oci_image *im)
{
    json_decref(im->manifest);
    json_decref(im->config);
}

static enum err malformed(struct refusal *why, const char *what)
{
    return refusef(why, ERR_IMAGE_HOSTILE, "why", "malformed image: %s", what);
}

static enum err blob_open(const char *digest, int *ret_fd, int64_t *ret_size, struct refusal *why)
{
    char path[PATH_MAX];
    struct stat st;

    if (!paths_digest_ok(digest))
        return malformed(why, "digest");
    str_printf(path, sizeof(path), "/layout/blobs/sha256/%s", digest + 7);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) != 0)
        return malformed(why, "a blob is missing");
    *ret_size = st.st_size;
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

static enum err blob_json(const char *digest, json_t **ret_v, struct refusal *why)
{
    AUTO_CLOSE int fd = -1;
    int64_t size;

    TRY(blob_open(digest, &fd, &size, why));
    if (size > MANIFEST_MAX)
        return malformed(why, "manifest too large");
    AUTO_FREE char *text = mem_alloc((size_t)size + 1);
    if (read(fd, text, (size_t)size) != size)
        return sys_fail(why, "read of a blob");
    if (json_parse(text, (size_t)size, MANIFEST_MAX, ret_v, NULL) != ERR_OK)
        return malformed(why, "not JSON");
    return json_is_object(*ret_v) ? ERR_OK : malformed(why, "not an object");
}

/* A descriptor's digest, its size held against the blob. */
static enum err descriptor_take(const json_t *d, char digest[PRIV_DIGEST_SIZE], struct refusal *why)
{
    AUTO_CLOSE int fd = -1;
    int64_t size = 0, have = 0;

    if (!json_is_object(d) || !json_get_text(d, "digest", digest, PRIV_DIGEST_SIZE) ||
        !json_get_i64(d, "size", -1, &size))
        return malformed(why, "descriptor");
    TRY(blob_open(digest, &fd, &have, why));
    return size == have ? ERR_OK : malformed(why, "size of a blob");
}

static enum err image_load(struct oci_image *im, const char *digest, struct refusal *why)
{
    const char *arch;

    TRY(blob_json(digest, &im->manifest, why));
    TRY(descriptor_take(json_object_get(im->manifest, "config"), im->config_digest, why));
    TRY(blob_json(im->config_digest, &im->config, why));
    if (!json_get_str(im->config, "architecture", "", &arch))
        return malformed(why, "architecture");
    if (!str_eq(arch, HOST_ARCH))
        return sys_refuse(why, ERR_IMAGE_DRIVER, "need", arch, "have", HOST_ARCH, NULL);
    const json_t *layers = json_object_get(im->manifest, "layers");
    const json_t *ids = json_object_get(json_object_get(im->config, "rootfs"), "diff_ids");
    im->layer_count = json_array_size(layers);
    if (im->layer_count == 0 || im->layer_count > LAYERS_MAX ||
        json_array_size(ids) != im->layer_count)
        return malformed(why, "layers");
    for (size_t i = 0; i < im->layer_count; i++) {
        TRY(descriptor_take(json_array_get(layers, i), im->layers[i], why));
        const char *id = json_string_value(json_array_get(ids, i));
        if (!id || !str_copy(im->diff_ids[i], PRIV_DIGEST_SIZE, id) || !paths_digest_ok(id))
            return malformed(why, "diff id");
    }
    return ERR_OK;
}

/* The program that uncompresses; NULL: it is a plain archive. */
static const char *const *unpacker_of(int fd)
{
    static const char *const gzip[] = {"gzip", "-dc", NULL};
    static const char *const zstd[] = {"zstd", "-dcq", "--memory=512MB", NULL};
    static const char *const xz[] = {"xz", "-dcq", NULL};
    unsigned char m[6] = {0};

    if (pread(fd, m, sizeof(m), 0) < 2)
        return NULL;
    if (m[0] == 0x1f && m[1] == 0x8b)
        return gzip;
    if (memcmp(m, "\x28\xb5\x2f\xfd", 4) == 0)
        return zstd;
    return memcmp(m,
                  "\xfd"
                  "7zXZ",
                  5) == 0
               ? xz
               : NULL;
}

static int stream_start(int blob, const char *const *argv, pid_t *ret_pid)
{
    int out[2];

    if (pipe2(out, O_CLOEXEC) != 0)
        return -1;
    *ret_pid = fork();
    if (*ret_pid == 0) {
        char *const env[] = {(char *)"PATH=/usr/bin:/bin", NULL};
        AUTO_CLOSE int quiet = open("/dev/null", O_WRONLY);
        if (dup2(blob, 0) < 0 || dup2(out[1], 1) < 0 || dup2(quiet, 2) < 0)
            _exit(126);
        close_range(3, ~0U, 0);
        execvpe(argv[0], (char *const *)argv, env);
        _exit(127);
    }
    close(out[1]);
    if (*ret_pid < 0) {
        close(out[0]);
        return -1;
    }
    return out[0];
}

static enum err space_fail(struct refusal *why, int64_t need)
{
    char text[32];

    str_printf(text, sizeof(text), "%" PRId64 " MiB", (need >> 20) + 1);
    return sys_refuse(why, ERR_NO_SPACE, "where", "the image store", "need", text, NULL);
}

/* One layer: uncompressed, scanned, hashed and laid down in one pass; out -1: only scanned. */
static enum err layer_copy(struct tar_scan *scan, int in, int out, int64_t space,
                           unsigned char hash[crypto_hash_sha256_BYTES], struct refusal *why)
{
    crypto_hash_sha256_state state;
    AUTO_FREE char *buf = mem_alloc(CHUNK);

    crypto_hash_sha256_init(&state);
    for (;;) {
        ssize_t n = read(in, buf, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sys_fail(why, "read of a layer");
        if (n == 0)
            break;
        TRY(tar_feed(scan, buf, (size_t)n, why));
        if (out < 0)
            continue;
        crypto_hash_sha256_update(&state, (const unsigned char *)buf, (size_t)n);
        /* Three times: the archive, the tree, the image. */
        if (scan->bytes > space / 3)
            return space_fail(why, scan->bytes * 3);
        if (write(out, buf, (size_t)n) != n)
            return errno == ENOSPC ? space_fail(why, scan->bytes * 3)
                                   : sys_fail(why, "write of a layer");
    }
    crypto_hash_sha256_final(&state, hash);
    return tar_layer_finish(scan, why);
}

static void digest_text(const unsigned char hash[crypto_hash_sha256_BYTES],
                        char digest[PRIV_DIGEST_SIZE])
{
    memcpy(digest, "sha256:", 7);
    sodium_bin2hex(digest + 7, PRIV_DIGEST_SIZE - 7, hash, crypto_hash_sha256_BYTES);
}

/* Where umoci finds the layer: a fresh file, or, when the blob is the plain archive itself, a link.
 */
static enum err layer_place(const struct oci_image *im, size_t i, bool same, int *ret_fd,
                            struct refusal *why)
{
    char path[PATH_MAX], blob[PATH_MAX];

    str_printf(path, sizeof(path), "/work/oci/blobs/sha256/%s", im->diff_ids[i] + 7);
    str_printf(blob, sizeof(blob), "/layout/blobs/sha256/%s", im->diff_ids[i] + 7);
    unlink(path);
    if (same)
        return symlink(blob, path) == 0 ? ERR_OK : sys_fail(why, "layer");
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return sys_fail(why, "layer");
    *ret_fd = fd;
    return ERR_OK;
}

static enum err layer_take(struct oci_image *im, size_t i, struct tar_scan *scan, int64_t space,
                           struct refusal *why)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    char got[PRIV_DIGEST_SIZE];
    AUTO_CLOSE int blob = -1;
    AUTO_CLOSE int out = -1;
    pid_t pid = 0;
    int64_t before = scan->bytes, size;
    int status = 0;

    TRY(blob_open(im->layers[i], &blob, &size, why));
    const char *const *argv = unpacker_of(blob);
    bool same = !argv && str_eq(im->layers[i], im->diff_ids[i]);
    TRY(layer_place(im, i, same, &out, why));
    AUTO_CLOSE int in = argv ? stream_start(blob, argv, &pid) : dup(blob);
    if (in < 0)
        return sys_fail(why, "unpacker of a layer");
    tar_layer_begin(scan);
    enum err e = layer_copy(scan, in, out, space, hash, why);
    if (pid > 0) {
        if (e != ERR_OK)
            kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
    }
    TRY(e);
    if (status != 0)
        return malformed(why, "a layer cannot be uncompressed");
    im->tar_bytes[i] = scan->bytes - before;
    if (same)
        return ERR_OK;
    digest_text(hash, got);
    if (!str_eq(got, im->diff_ids[i]))
        return sys_refuse(why, ERR_IMAGE_DIGEST, "got", got, "want", im->diff_ids[i], NULL);
    return ERR_OK;
}

/* Nothing here needs to survive a crash: the importer syncs what it keeps. */
static enum err file_write(const char *path, const char *data, size_t len, struct refusal *why)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        return sys_fail(why, path);
    return ERR_OK;
}

static enum err blob_write(const struct strbuf *b, char digest[PRIV_DIGEST_SIZE],
                           struct refusal *why)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    char path[PATH_MAX];

    crypto_hash_sha256(hash, (const unsigned char *)b->data, b->len);
    digest_text(hash, digest);
    str_printf(path, sizeof(path), "/work/oci/blobs/sha256/%s", digest + 7);
    return file_write(path, b->data, b->len, why);
}

static void descriptor_json(struct json_writer *w, const char *key, const char *type,
                            const char *digest, int64_t size)
{
    json_object_begin(w, key);
    json_strf(w, "mediaType", "application/vnd.oci.image.%s", type);
    json_str(w, "digest", digest);
    json_i64(w, "size", size);
}

/* A layout of our own around the uncompressed layers, for umoci. */
static enum err layout_write(const struct oci_image *im, struct refusal *why)
{
    static const char version[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
    char config[PRIV_DIGEST_SIZE], manifest[PRIV_DIGEST_SIZE];
    AUTO_STRBUF struct strbuf b;
    struct json_writer w;

    strbuf_init(&b, MANIFEST_MAX);
    AUTO_FREE char *text = json_dumps(im->config, JSON_COMPACT);
    CHECK(text);
    strbuf_add(&b, text);
    TRY(blob_write(&b, config, why));
    int64_t config_size = (int64_t)b.len;
    strbuf_reset(&b);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_i64(&w, "schemaVersion", 2);
    descriptor_json(&w, "config", "config.v1+json", config, config_size);
    json_object_finish(&w);
    json_array_begin(&w, "layers");
    for (size_t i = 0; i < im->layer_count; i++) {
        descriptor_json(&w, NULL, "layer.v1.tar", im->diff_ids[i], im->tar_bytes[i]);
        json_object_finish(&w);
    }
    json_array_finish(&w);
    json_object_finish(&w);
    TRY(blob_write(&b, manifest, why));
    int64_t manifest_size = (int64_t)b.len;
    strbuf_reset(&b);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_i64(&w, "schemaVersion", 2);
    json_array_begin(&w, "manifests");
    descriptor_json(&w, NULL, "manifest.v1+json", manifest, manifest_size);
    json_object_begin(&w, "annotations");
    json_str(&w, "org.opencontainers.image.ref.name", "image");
    json_object_finish(&w);
    json_object_finish(&w);
    json_array_finish(&w);
    json_object_finish(&w);
    TRY(file_write("/work/oci/index.json", b.data, b.len, why));
    return file_write("/work/oci/oci-layout", version, strlen(version), why);
}

static enum err tool_step(const char *const *argv, const char *what, int64_t space,
                          struct refusal *why)
{
    struct sys_tool tool = {.argv = argv, .timeout_ms = image_limits.time_ms_max};
    struct statvfs vfs;

    if (sys_tool_run(&tool, NULL) == ERR_OK)
        return ERR_OK;
    if (strstr(tool.output, "o space left") ||
        (statvfs("/work", &vfs) == 0 && vfs.f_bavail * vfs.f_frsize < (8u << 20)))
        return space_fail(why, space);
    const char *end = tool.output + strlen(tool.output);
    return refusef(why, ERR_IMAGE_HOSTILE, "why", "%s: %s", what,
                   end - tool.output > 150 ? end - 150 : tool.output);
}

/* After all layers: the mount points of the kernel's own file systems are plain folders. */
static enum err folders_ensure(struct refusal *why)
{
    static const char *const names[] = {"proc", "sys", "dev"};
    struct stat st;
    AUTO_CLOSE int root = open("/work/root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (mkdirat(root, names[i], 0755) == 0)
            continue;
        if (fstatat(root, names[i], &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode))
            return refusef(why, ERR_IMAGE_HOSTILE, "why", "not a plain folder: %s", names[i]);
    }
    return ERR_OK;
}

static void strings_add(json_t *to, const json_t *list)
{
    const json_t *v;
    size_t i;

    json_array_foreach(list, i, v)
    {
        if (json_is_string(v))
            json_array_append(to, (json_t *)v);
    }
}

/* What the node needs of the config, small, without its history, under the node's own names:
 * architecture, os, env, argv (entry point and command), workdir, user, labels. */
static enum err config_write(const struct oci_image *im, struct refusal *why)
{
    static const char *const same[][2] = {
        {"WorkingDir", "workdir"}, {"User", "user"}, {"Labels", "labels"}};
    const json_t *from = json_object_get(im->config, "config");
    AUTO_JSON json_t *keep = json_object();
    json_t *env = json_array(), *argv = json_array(), *v;

    strings_add(env, json_object_get(from, "Env"));
    strings_add(argv, json_object_get(from, "Entrypoint"));
    strings_add(argv, json_object_get(from, "Cmd"));
    json_object_set_new(keep, "env", env);
    json_object_set_new(keep, "argv", argv);
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        if ((v = json_object_get(from, same[i][0])))
            json_object_set(keep, same[i][1], v);
    if ((v = json_object_get(im->config, "architecture")))
        json_object_set(keep, "architecture", v);
    if ((v = json_object_get(im->config, "os")))
        json_object_set(keep, "os", v);
    AUTO_FREE char *text = json_dumps(keep, JSON_COMPACT);
    CHECK(text);
    if (strlen(text) >= IMAGE_CONFIG_MAX)
        return malformed(why, "config too large");
    return file_write("/work/config.json", text, strlen(text), why);
}

static enum err image_build(struct oci_image *im, struct tar_scan *scan, int64_t space,
                            struct refusal *why)
{
    static const char *const unpack[] = {"umoci",   "--log=error",     "raw",        "unpack",
                                         "--image", "/work/oci:image", "/work/root", NULL};
    static const char *const build[] = {
        "mkfs.erofs",        "-U",         "00000000-0000-0000-0000-000000000000",
        "/work/image.erofs", "/work/root", NULL};

    for (size_t i = 0; i < im->layer_count; i++)
        TRY(layer_take(im, i, scan, space, why));
    TRY(layout_write(im, why));
    TRY(tool_step(unpack, "unpacking", scan->bytes * 3, why));
    TRY(folders_ensure(why));
    sys_remove_tree(AT_FDCWD, "/work/oci");
    TRY(tool_step(build, "building", scan->bytes * 3, why));
    return config_write(im, why);
}

enum err oci_unpack(const char *digest, int64_t space, struct refusal *why)
{
    struct oci_image im = {0};
    struct tar_scan scan;

    if (sodium_init() < 0 || mkdir("/work/oci", 0755) != 0 || mkdir("/work/oci/blobs", 0755) != 0 ||
        mkdir("/work/oci/blobs/sha256", 0755) != 0)
        return sys_fail(why, "work folder");
    umask(022);
    tar_scan_init(&scan, &image_limits.tar);
    enum err e = image_load(&im, digest, why);
    if (e == ERR_OK)
        e = image_build(&im, &scan, space, why);
    tar_scan_fini(&scan);
    image_fini(&im);
    return e;
}
