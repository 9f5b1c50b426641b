/* op.h: what an operation's handler sees. A handler runs in the core thread (or, with OPF_READ, in
 * a reader with its own read-only connection), inside a savepoint: loads rows, asks the domain,
 * saves rows, adds events; returns ERR_OK after writing its answer, or a refusal in op->why and
 * nothing of it stays. It never waits, never reads a clock, never calls a driver. */
#pragma once

#include "base/json.h"
#include "domain/authz.h"

struct store;
struct core;

enum op_method { OP_GET, OP_POST, OP_PUT, OP_DELETE };
enum op_flags { OPF_READ = 1, OPF_IDEM = 2, OPF_DRYRUN = 4, OPF_STREAM = 8, OPF_FILE = 16 };

/* Who asks, after authn. */
struct principal {
    struct id user, project, token, node; /* node only for ACCESS_NODE */
    char user_name[NAME_SIZE], project_name[NAME_SIZE];
    enum role role; /* in the project */
    bool is_operator;
};

struct op;
typedef enum err op_handler(struct op *op);

struct op_row {
    const char *name;
    enum op_method method;
    const char *path;
    enum access access;
    unsigned flags;
    const char *cli, *schema, *summary;
    op_handler *run; /* NULL in the CLI, which has no handlers */
};

#define OP_PATH_ARGS_MAX 3
struct op {
    const struct op_row *row;
    struct core *core;   /* borrowed */
    struct store *store; /* borrowed: the writing or a read-only connection */
    utime_t now;         /* ledger clock, ms */
    enum lang lang;
    struct principal who;
    char request_id[ID_SIZE];
    bool dry_run;
    const char *path_arg[OP_PATH_ARGS_MAX]; /* in the order of the path, decoded */
    const json_t *body;  /* object; never NULL; names and types already checked against ARG rows */
    const json_t *query; /* object of strings, checked likewise */
    struct json_writer out; /* the answer */
    struct refusal why;
    char object[NAME_SIZE]; /* set by the handler: what it was about, for the audit entry */
};

extern const struct op_row op_rows[];
extern const size_t op_row_count;

/* The handlers, one for each row. */
#define OP(name, method, path, access, flags, cli, schema, summary) op_handler op_##name;
#define ARG(op, place, name, type, required, help)
#include "app/operations.def"
#undef OP
#undef ARG
