/* sys.h: small helpers over the system for the node's drivers: durable files, folders, tools by
 * exec. Errors come as ERR_SYSTEM with the call and the reason. Any single-threaded process. */
#pragma once

#include <sys/types.h>

#include "base/str.h"

/* ERR_SYSTEM from errno as it stands. */
enum err sys_fail(struct refusal *why, const char *call);
/* A refusal with its parameters: key, value, key, value, …, NULL. */
enum err sys_refuse(struct refusal *why, enum err code, ...) __attribute__((sentinel));
/* Forgets what an earlier call left in why. */
void sys_clear(struct refusal *why);

/* Every byte, over signals; false with errno otherwise. */
bool sys_write_all(int fd, const char *p, size_t len);
/* The file is either as before or whole: written beside, synced, renamed, folder synced. */
enum err sys_write_durable(const char *path, const void *data, size_t len, mode_t mode,
                           struct refusal *why);
/* A short text into a file that exists (proc, sysfs, maps). */
enum err sys_write_text(const char *path, const char *text, struct refusal *why);
/* At most size - 1 bytes, NUL-terminated; -1 with errno set when it cannot be read. */
ssize_t sys_read_small(const char *path, char *buf, size_t size);
enum err sys_dir_sync(const char *path, struct refusal *why);
/* Makes the folder, or gives it this owner and mode; refuses what is not a plain folder. */
enum err sys_dir_ensure(const char *path, mode_t mode, uid_t uid, gid_t gid, struct refusal *why);
/* Removes name below dirfd with all in it, never following a link nor leaving the file system.
 * False when something is left. */
bool sys_remove_tree(int dirfd, const char *name);
/* A new file name in to_dir with the bytes of from (links followed) and this mode. */
bool sys_file_copy(const char *from, int to_dir, const char *name, mode_t mode);
/* The root of a mount (of whatever kind). False when it does not exist. */
bool sys_is_mount(const char *path);

/* One tool by exec: clean environment, no descriptor above 2, killed at the time-out. */
struct sys_tool {
    const char *const *argv;    /* borrowed; argv[0] is looked up in the system's own folders */
    const char *input;          /* borrowed; NULL: nothing on stdin */
    int netns_fd;               /* enter this network namespace first; 0: stay (a zeroed struct) */
    const char *env;            /* borrowed; one more "KEY=value" in its environment; may be NULL */
    bool (*prepare)(void *arg); /* in the tool's process just before exec; may be NULL */
    void *prepare_arg;          /* borrowed */
    int64_t timeout_ms;         /* 0: 60 s */
    int ok_max;                 /* exit codes up to this are a success */
    char output[512];           /* out: the end of what it wrote on stdout and stderr, one line */
};
enum err sys_tool_run(struct sys_tool *t, struct refusal *why);
