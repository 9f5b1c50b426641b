/* One 65,536-id range per lease. The table is a text file, one "slot lease" a line, rewritten
 * whole; its first line holds the slot given last, so that a range rests as long as possible before
 * it is used again. */
#include "node/userns.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/vec.h"
#include "node/paths.h"
#include "node/sys.h"

struct range {
    int64_t slot;
    struct id lease;
};

struct range_table {
    int64_t last;
    VEC(struct range) rows;
};

#define TABLE_BYTES_MAX (USERNS_SLOTS * 40)

static void table_fini(struct range_table *t)
{
    vec_fini(&t->rows);
}
#define AUTO_TABLE CLEANUP(table_fini)

static void table_path(const struct node_paths *p, char *buf, size_t size)
{
    CHECK(str_printf(buf, size, "%s/ranges", p->priv));
}

static enum err table_load(const struct node_paths *p, struct range_table *t, struct refusal *why)
{
    char path[PATH_MAX];
    AUTO_FREE char *text = mem_alloc(TABLE_BYTES_MAX);

    /* Two nodes on one machine begin far from each other. */
    *t = (struct range_table){.last = (int64_t)strtoul(p->tag, NULL, 16) % USERNS_SLOTS};
    table_path(p, path, sizeof(path));
    if (sys_read_small(path, text, TABLE_BYTES_MAX) < 0)
        return access(path, F_OK) == 0 ? sys_fail(why, path) : ERR_OK;
    for (char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = '\0';
        char *name = strchr(line, ' ');
        int64_t slot;
        if (!name)
            return refusef(why, ERR_CORRUPT, "what", "%s", path);
        *name++ = '\0';
        if (str_parse_i64(line, -1, USERNS_SLOTS - 1, &slot) != ERR_OK)
            return refusef(why, ERR_CORRUPT, "what", "%s", path);
        if (str_eq(name, "last")) {
            t->last = slot;
            continue;
        }
        struct range *r = vec_push(&t->rows);
        r->slot = slot;
        if (!str_copy(r->lease.s, sizeof(r->lease.s), name))
            return refusef(why, ERR_CORRUPT, "what", "%s", path);
    }
    return ERR_OK;
}

static enum err table_save(const struct node_paths *p, const struct range_table *t,
                           struct refusal *why)
{
    char path[PATH_MAX];
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, TABLE_BYTES_MAX);
    strbuf_addf(&b, "%" PRId64 " last\n", t->last);
    for (size_t i = 0; i < t->rows.len; i++)
        strbuf_addf(&b, "%" PRId64 " %s\n", t->rows.at[i].slot, t->rows.at[i].lease.s);
    CHECK(!b.overflow);
    table_path(p, path, sizeof(path));
    return sys_write_durable(path, b.data, b.len, 0600, why);
}

static bool slot_taken(const struct range_table *t, int64_t slot)
{
    for (size_t i = 0; i < t->rows.len; i++)
        if (t->rows.at[i].slot == slot)
            return true;
    return false;
}

enum err userns_range_take(const struct node_paths *p, struct id lease, uint32_t *ret_base,
                           struct refusal *why)
{
    AUTO_TABLE struct range_table t;

    TRY(table_load(p, &t, why));
    VEC_FOREACH (r, &t.rows)
        if (str_eq(r->lease.s, lease.s)) {
            *ret_base = USERNS_BASE + (uint32_t)r->slot * USERNS_IDS;
            return ERR_OK;
        }
    if (!paths_id_ok(lease) || t.rows.len >= USERNS_SLOTS)
        return refusef(why, ERR_CAPACITY_NONE, "what", "id range");
    int64_t slot = t.last;
    do
        slot = (slot + 1) % USERNS_SLOTS;
    while (slot_taken(&t, slot));
    t.last = slot;
    *vec_push(&t.rows) = (struct range){.slot = slot, .lease = lease};
    TRY(table_save(p, &t, why));
    *ret_base = USERNS_BASE + (uint32_t)slot * USERNS_IDS;
    return ERR_OK;
}

void userns_range_give(const struct node_paths *p, struct id lease)
{
    AUTO_TABLE struct range_table t;

    if (table_load(p, &t, NULL) != ERR_OK)
        return;
    for (size_t i = 0; i < t.rows.len; i++)
        if (str_eq(t.rows.at[i].lease.s, lease.s)) {
            t.rows.at[i] = t.rows.at[--t.rows.len];
            /* A range that could not be given back is merely not used again. */
            (void)!table_save(p, &t, NULL);
            return;
        }
}

enum err userns_map(int pid, uint32_t base, struct refusal *why)
{
    char path[64], map[64];

    str_printf(map, sizeof(map), "0 %" PRIu32 " %d\n", base, USERNS_IDS);
    str_printf(path, sizeof(path), "/proc/%d/uid_map", pid);
    TRY(sys_write_text(path, map, why));
    str_printf(path, sizeof(path), "/proc/%d/gid_map", pid);
    return sys_write_text(path, map, why);
}

enum err userns_open(uint32_t base, int *ret_fd, struct refusal *why)
{
    char path[64];

    /* A short-lived child owns the namespace until the descriptor does. It must not outlive us, nor
     * keep what we hold: the lock of a lease would never be free again. */
    pid_t parent = getpid();
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid < 0)
        return sys_fail(why, "clone of a user namespace");
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
            _exit(1);
        close_range(0, ~0U, 0);
        for (;;)
            pause();
    }
    enum err e = userns_map(pid, base, why);
    str_printf(path, sizeof(path), "/proc/%d/ns/user", pid);
    int fd = e == ERR_OK ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (e == ERR_OK && fd < 0)
        e = sys_fail(why, path);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    TRY(e);
    *ret_fd = fd;
    return ERR_OK;
}
