/* op_table.h: operations.def and schemas.def as tables. */
#pragma once

#include "app/op.h"
#include "base/msg.h"

enum arg_place { ARG_PATH, ARG_QUERY, ARG_BODY };
enum arg_type {
    ARG_STR,
    ARG_I64,
    ARG_BOOL,
    ARG_DURATION,
    ARG_SIZE,
    ARG_TIME,
    ARG_MONEY,
    ARG_LIST,
    ARG_OBJ
};
struct op_arg {
    const char *op, *name;
    enum arg_place place; /* ARG_PATH: a word of the CLI; in the body when the path lacks {name} */
    enum arg_type type;
    bool required;
    const char *help;
};
extern const struct op_arg op_args[];
extern const size_t op_arg_count;

/* The op's rows of op_args, adjacent; NULL and 0 when it has none. */
const struct op_arg *op_args_of(const struct op_row *row, size_t *ret_count);
/* Is the argument a {name} of the path? */
bool op_arg_in_path(const struct op_row *row, const struct op_arg *arg);
const char *op_method_name(enum op_method m);
/* Answers are pages: the operation takes limit and cursor. */
bool op_is_list(const struct op_row *row);

struct schema_field {
    const char *schema, *name, *type, *help; /* type: STR I64 BOOL TIME MONEY OBJ, LIST_OF(x), x */
};
extern const char *const schema_names[];
extern const size_t schema_count;
extern const struct schema_field schema_fields[];
extern const size_t schema_field_count;
