#include "daemon/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/funds.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/msg.h"
#include "base/units.h"
#include "daemon/serve_int.h"
#include "store/rows_close.h"

#define ADMIN "admin"
#define ADMIN_CODE_LIFE_MS ((int64_t)86400 * MS_PER_S)
#define HAND_OVER_TRIES 100
#define HAND_OVER_WAIT_US (100 * 1000)
#define PATH_MAX_TEXT 320

static enum err system_error(const char *call, const char *path, struct refusal *why)
{
    int number = errno;
    enum err e = refusef(why, ERR_SYSTEM, "call", "%s %.150s", call, path);

    refusal_set(why, "why", strerror(number));
    return e;
}

static utime_t wall_ms(void)
{
    struct clock *c = clock_system();

    return c->wall_ms(c);
}

/* lock */

static void read_holder(int fd, char *buf, size_t size)
{
    ssize_t n = pread(fd, buf, size - 1, 0);

    buf[n > 0 ? n : 0] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
}

enum err setup_lock(const struct daemon_config *c, int *ret_fd, struct refusal *why)
{
    char path[PATH_MAX_TEXT], text[128], since[40];

    CHECK(str_printf(path, sizeof(path), "%s.lock", c->store));
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return system_error("open", path, why);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return system_error("flock", path, why);
        read_holder(fd, text, sizeof(text));
        (void)refusef(why, ERR_IN_USE, "what", "store");
        refusal_set(why, "name", c->store);
        refusal_setf(why, "by", "suanlid %s", text[0] ? text : "(starting)");
        return ERR_IN_USE;
    }
    time_format(wall_ms(), since, sizeof(since));
    CHECK(str_printf(text, sizeof(text), "pid %d since %s\n", getpid(), since));
    size_t n = strlen(text);
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, n, 0) != (ssize_t)n)
        return system_error("write", path, why);
    *ret_fd = TAKE_FD(fd);
    return ERR_OK;
}

enum err setup_store(const struct daemon_config *c, struct store **ret_s, struct refusal *why)
{
    AUTO_STORE struct store *s = NULL;

    TRY(store_open(c->store, STORE_WRITE, &s, why));
    TRY(store_migrate(s, why));
    *ret_s = TAKE(s);
    return ERR_OK;
}

static enum err zone_load(const char *name, struct refusal *why)
{
    AUTO_FREE unsigned char *data = mem_alloc(CONFIG_ZONE_MAX);
    size_t n = config_zone_read(name, data, CONFIG_ZONE_MAX);
    struct zone z;

    if (funds_zone(name, &z) || (n > 0 && funds_zone_add(name, data, n) == ERR_OK))
        return ERR_OK;
    enum err e = refusef(why, ERR_VALIDATION, "field", "zone %.60s", name);
    refusal_set(why, "why", "no zone of that name in /usr/share/zoneinfo (package tzdata)");
    return e;
}

enum err setup_zones(const struct daemon_config *c, struct store *store, struct refusal *why)
{
    struct project_list projects = {0};

    TRY(zone_load(c->zone, why));
    enum err e = store_project_list(store, &projects);
    if (e != ERR_OK)
        e = store_refuse(store, why);
    for (size_t i = 0; e == ERR_OK && i < projects.len; i++) {
        struct zone_change change;

        e = zone_load(projects.at[i].zone, why);
        if (e != ERR_OK || zone_change_get(store, projects.at[i].id, &change) != ERR_OK)
            continue;
        e = zone_load(change.before, why);
        if (e == ERR_OK)
            e = zone_load(change.zone, why);
    }
    vec_fini(&projects);
    return e;
}

enum err setup_content(const struct daemon_config *c, struct store *store, struct refusal *why)
{
    struct image i;

    if (!c->default_image[0])
        return ERR_OK;
    enum err e = store_image_get(store, c->default_image, &i);
    if (e == ERR_NOT_FOUND) {
        log_warn("event=default_image_missing name=%s", c->default_image);
        return ERR_OK;
    }
    if (e != ERR_OK)
        return store_refuse(store, why);
    if (i.is_default)
        return ERR_OK;
    struct image old;
    e = store_begin(store);
    if (e == ERR_OK && store_image_default(store, &old) == ERR_OK && old.is_default) {
        old.is_default = false;
        e = store_image_save(store, &old);
    }
    i.is_default = true;
    if (e == ERR_OK)
        e = store_image_save(store, &i);
    if (e == ERR_OK)
        e = store_commit(store);
    if (e != ERR_OK) {
        (void)store_refuse(store, why);
        store_rollback(store);
    }
    return e;
}

/* the first operator */

static enum err make_admin(struct store *store, const char *currency, const char *zone, utime_t now,
                           struct user *ret_u)
{
    struct id_maker ids = id_maker_system();
    struct user u = {.id = id_make(&ids, "usr"), .is_operator = true, .created_at = now};
    struct project p = {.id = id_make(&ids, "prj"), .created_at = now};

    CHECK(str_copy(u.name, sizeof(u.name), ADMIN) && str_copy(p.name, sizeof(p.name), ADMIN));
    (void)str_copy(p.currency, sizeof(p.currency), currency);
    (void)str_copy(p.zone, sizeof(p.zone), zone);
    TRY(store_project_save(store, &p));
    u.project = p.id;
    TRY(store_user_save(store, &u));
    TRY(store_member_set(store, p.id, u.id, ROLE_OWNER));
    *ret_u = u;
    return ERR_OK;
}

static enum err save_code(struct store *store, const struct daemon_config *c, const char *hash,
                          utime_t now)
{
    struct user u;
    struct audit a = {.at = now};

    enum err e = store_user_get_name(store, ADMIN, &u);
    if (e == ERR_NOT_FOUND)
        e = make_admin(store, c->currency, c->zone, now, &u);
    TRY(e);
    TRY(store_code_save(store, hash, u.id, now + ADMIN_CODE_LIFE_MS));
    a.user = u.id;
    CHECK(str_copy(a.actor, sizeof(a.actor), "suanlid") &&
          str_copy(a.action, sizeof(a.action), "admin_code") &&
          str_copy(a.object, sizeof(a.object), ADMIN) &&
          str_copy(a.result, sizeof(a.result), "ok"));
    return store_audit_add(store, &a);
}

static enum err store_code(struct store *store, const struct daemon_config *c, const char *hash,
                           struct refusal *why)
{
    enum err e = store_begin(store);

    if (e == ERR_OK)
        e = save_code(store, c, hash, wall_ms());
    if (e == ERR_OK)
        e = store_commit(store);
    if (e != ERR_OK) {
        (void)store_refuse(store, why);
        store_rollback(store);
    }
    return e;
}

static void code_path(const struct daemon_config *c, char *buf, size_t size)
{
    CHECK(str_printf(buf, size, "%s.code", c->store));
}

/* The daemon's side of the hand-over: only a file of our own user, which nobody else can write. */
void setup_take_code(struct serve *s)
{
    char path[PATH_MAX_TEXT], hash[HASH_TEXT_SIZE + 1] = "";
    struct stat st;
    struct refusal why = {0};

    code_path(&s->config, path, sizeof(path));
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                (st.st_uid == geteuid() || st.st_uid == 0) && !(st.st_mode & 0022) &&
                st.st_size == HASH_TEXT_SIZE - 1 &&
                read(fd, hash, HASH_TEXT_SIZE - 1) == HASH_TEXT_SIZE - 1;
    if (good && store_code(s->store, &s->config, hash, &why) != ERR_OK)
        log_error("event=admin_code_failed code=%s", err_code(why.code));
    else
        log_info("event=admin_code accepted=%d", good);
    (void)unlink(path);
}

/* A daemon has the store: leave the hash beside it and wait until it is taken. */
static enum err hand_over(const struct daemon_config *c, const char *hash, struct refusal *why)
{
    char path[PATH_MAX_TEXT], part[PATH_MAX_TEXT + 8];

    code_path(c, path, sizeof(path));
    CHECK(str_printf(part, sizeof(part), "%s.new", path));
    (void)unlink(part);
    AUTO_CLOSE int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return system_error("open", part, why);
    if (write(fd, hash, HASH_TEXT_SIZE - 1) != HASH_TEXT_SIZE - 1 || fsync(fd) < 0 ||
        rename(part, path) < 0)
        return system_error("write", path, why);
    for (int i = 0; i < HAND_OVER_TRIES; i++) {
        if (access(path, F_OK) < 0)
            return ERR_OK;
        usleep(HAND_OVER_WAIT_US);
    }
    (void)unlink(path);
    return refusef(why, ERR_UNREACHABLE, "what", "suanlid");
}

enum err setup_admin_code(const struct daemon_config *c, struct refusal *why)
{
    struct id_maker ids = id_maker_system();
    unsigned char raw[32];
    char code[SECRET_SIZE], hash[HASH_TEXT_SIZE];
    AUTO_STORE struct store *store = NULL;
    AUTO_CLOSE int lock = -1;

    ids.fill(&ids, raw, sizeof(raw));
    authn_code_from(raw, code);
    authn_hash(code, hash);
    enum err e = setup_lock(c, &lock, why);
    if (e == ERR_IN_USE) {
        TRY(hand_over(c, hash, why));
    } else {
        TRY(e);
        TRY(setup_store(c, &store, why));
        TRY(store_code(store, c, hash, why));
    }
    printf("%s\n", code);
    return ERR_OK;
}

/* restore */

static enum err mark_restored(const char *path, struct refusal *why)
{
    AUTO_STORE struct store *s = NULL;

    TRY(store_open(path, STORE_WRITE, &s, why));
    TRY(store_migrate(s, why));
    enum err e = store_begin(s);
    if (e == ERR_OK)
        e = store_meta_set(s, "recovery", "1");
    if (e == ERR_OK)
        e = store_commit(s);
    return e == ERR_OK ? ERR_OK : store_refuse(s, why);
}

/* The old store stays beside the new one, with its log, under the time of the restore. */
static enum err put_aside(const struct daemon_config *c, struct refusal *why)
{
    static const char *const tails[] = {"", "-wal", "-shm"};
    char from[PATH_MAX_TEXT], to[PATH_MAX_TEXT + 64];
    utime_t now = wall_ms();

    for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
        CHECK(str_printf(from, sizeof(from), "%s%s", c->store, tails[i]));
        CHECK(str_printf(to, sizeof(to), "%s.before-restore-%" PRId64 "%s", c->store,
                         now / MS_PER_S, tails[i]));
        if (rename(from, to) < 0 && errno != ENOENT)
            return system_error("rename", from, why);
    }
    return ERR_OK;
}

static enum err sync_folder(const char *path, struct refusal *why)
{
    char folder[PATH_MAX_TEXT];

    CHECK(str_copy(folder, sizeof(folder), path));
    char *slash = strrchr(folder, '/');
    CHECK(slash);
    slash[slash == folder] = '\0';
    AUTO_CLOSE int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && fsync(fd) == 0 ? ERR_OK : system_error("fsync", folder, why);
}

enum err setup_restore(const struct daemon_config *c, const char *file, struct refusal *why)
{
    char fresh[PATH_MAX_TEXT], side[PATH_MAX_TEXT + 8];
    AUTO_CLOSE int lock = -1;
    AUTO_STORE struct store *copy = NULL;
    int64_t bytes;

    TRY(setup_lock(c, &lock, why));
    CHECK(str_printf(fresh, sizeof(fresh), "%s.restoring", c->store));
    (void)unlink(fresh);
    TRY(store_open(file, STORE_READ, &copy, why));
    TRY(store_integrity(copy, why));
    /* Through the backup interface, so that a copy with its own log comes over whole. */
    TRY(store_backup(copy, fresh, &bytes, why));
    TRY(mark_restored(fresh, why));
    for (int i = 0; i < 2; i++) {
        CHECK(str_printf(side, sizeof(side), "%s%s", fresh, i ? "-shm" : "-wal"));
        (void)unlink(side); /* empty: the connection that wrote it was closed */
    }
    TRY(put_aside(c, why));
    if (rename(fresh, c->store) < 0)
        return system_error("rename", fresh, why);
    TRY(sync_folder(c->store, why));
    fprintf(stderr, "%s: %" PRId64 " bytes; no new leases until every node reported\n", c->store,
            bytes);
    return ERR_OK;
}
