/* cp.h: the two sides of a copy. Data goes through one shared OpenSSH connection; a file arrives in
 * NAME.suanli-part and gets its name when its SHA-256 is proven. What a broken copy left is kept
 * only when its bytes are a prefix of the source. */
#pragma once

#include "base/vec.h"
#include "cli/cli.h"

#define CP_PART ".suanli-part"
#define CP_DIGEST_SIZE 65

struct remote {
    struct cli *c;
    struct ssh_words base; /* owned: ssh and its options, target last */
    char folder[64];       /* ours, holds the control socket */
    bool open;
};
/* Connects once. Exit code. */
int remote_open(struct remote *r, struct cli *c, const json_t *instance);
void remote_close(struct remote *r);
/* Starts `sh -c script` there; *ret_in and *ret_out are our ends (NULL: not wanted). Returns the
 * child's pid, or -1. */
int remote_start(struct remote *r, const char *script, int *ret_in, int *ret_out);
/* Exit code of the child: that of the script, 255 for transport. */
int remote_finish(int pid);
/* Runs a script and takes its output, at most 64 MiB. Exit code. */
int remote_output(struct remote *r, const char *script, struct strbuf *out);

struct copy_total {
    int64_t files, bytes, resumed, skipped; /* bytes: sent now; resumed: already there */
    int64_t size_all, done_all;             /* for the time left */
    utime_t started;
};
/* Shows rate and time left of the whole. */
void copy_progress(struct cli *c, const char *name, struct copy_total *t, int64_t more);
/* SHA-256 of the first n bytes of a file (n < 0: all), as hex. */
bool digest_file(int fd, int64_t n, char ret_hex[CP_DIGEST_SIZE]);

/* One thing to copy, by its path below the source. */
struct item {
    char *path; /* owned; "" is the source itself */
    int64_t size;
    int mode;
    bool folder, done;
};
struct item_list {
    VEC(struct item) v;
};
struct copy {
    struct cli *c;
    struct remote r;
    struct copy_total total;
    struct item_list items;
    const char *here, *there; /* borrowed: where the source lands */
};
/* Print why and return the exit code; code is that of the remote script. */
int copy_failed_here(struct copy *k, const char *call, const char *path);
int copy_failed_there(struct copy *k, int code, const char *path);
char *copy_below(const char *base, const char *path); /* owned by the caller */
/* "name='path'; " for a script; ~ is the home there. */
void copy_script_path(struct strbuf *s, const char *name, const char *path);
bool copy_write(int fd, const char *data, size_t len);

/* cp_batch.c: folders at once, and small files that are new on the other side in one tar stream
 * each way; what it did is marked done, the rest goes file by file. */
int batch_upload(struct copy *k);
void batch_download(struct copy *k);
