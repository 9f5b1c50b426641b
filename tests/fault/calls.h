/* calls.h: runs a function in a process of its own, counts its system calls, kills it at one of
 * them, and notes what it does to the files of one folder: enough to say what a disk holds when the
 * power goes. Threads and further processes of the function are not followed. */
#pragma once

#include "base/vec.h"

enum file_op_kind { FILE_MADE, FILE_WRITTEN, FILE_CUT, FILE_REMOVED, FILE_SYNCED, FOLDER_SYNCED };
#define FILE_OP_NAME 32
struct file_op {
    enum file_op_kind kind;
    long call;               /* number of the system call, from 1 */
    char name[FILE_OP_NAME]; /* inside the folder */
    int64_t at;              /* FILE_WRITTEN: offset; FILE_CUT: the new length */
    size_t len;
    unsigned char *bytes; /* owned; FILE_WRITTEN */
};
struct calls {
    long count;   /* of system calls that were begun */
    long told_at; /* the call at whose beginning *told was true for the first time; 0: never */
    bool killed;  /* it was; else it ended with status, as waitpid says it */
    int status;
    VEC(struct file_op) ops; /* only when noted */
};
/* run(arg) in a child; its end is exit code 0. It is killed instead of doing its kill_at-th system
 * call (0: it lives). told: in memory that both share, or NULL. folder: what is noted, or NULL. A
 * call that changes a file there and that is not understood fails a CHECK. */
void calls_run(void (*run)(void *arg), void *arg, const bool *told, const char *folder,
               long kill_at, struct calls *ret_c);
void calls_fini(struct calls *c);
