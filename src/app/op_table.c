#include "app/op_table.h"

const struct op_row op_rows[] = {
#define OP(name, method, path, access, flags, cli, schema, summary)                                \
    {#name, OP_##method, path, ACCESS_##access, flags, cli, #schema, summary, op_##name},
#define ARG(op, place, name, type, required, help)
#include "app/operations.def"
#undef OP
#undef ARG
};
const size_t op_row_count = ARRAY_LEN(op_rows);

const struct op_arg op_args[] = {
#define OP(name, method, path, access, flags, cli, schema, summary)
#define ARG(op, place, name, type, required, help)                                                 \
    {#op, #name, ARG_##place, ARG_##type, required, help},
#include "app/operations.def"
#undef OP
#undef ARG
};
const size_t op_arg_count = ARRAY_LEN(op_args);

const char *const schema_names[] = {
#define SCHEMA(name) #name,
#define FIELD(schema, name, type, help)
#include "app/schemas.def"
#undef SCHEMA
#undef FIELD
};
const size_t schema_count = ARRAY_LEN(schema_names);

const struct schema_field schema_fields[] = {
#define SCHEMA(name)
#define FIELD(schema, name, type, help) {#schema, #name, #type, help},
#include "app/schemas.def"
#undef SCHEMA
#undef FIELD
};
const size_t schema_field_count = ARRAY_LEN(schema_fields);

const struct op_arg *op_args_of(const struct op_row *row, size_t *ret_count)
{
    const struct op_arg *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < op_arg_count; i++)
        if (str_eq(op_args[i].op, row->name)) {
            first = first ? first : &op_args[i];
            n++;
        }
    *ret_count = n;
    return first;
}

bool op_arg_in_path(const struct op_row *row, const struct op_arg *arg)
{
    size_t n = strlen(arg->name);

    if (arg->place != ARG_PATH)
        return false;
    for (const char *p = strchr(row->path, '{'); p; p = strchr(p + 1, '{'))
        if (strncmp(p + 1, arg->name, n) == 0 && p[n + 1] == '}')
            return true;
    return false;
}

const char *op_method_name(enum op_method m)
{
    static const char *const names[] = {"GET", "POST", "PUT", "DELETE"};

    return names[m];
}

bool op_is_list(const struct op_row *row)
{
    size_t n = strlen(row->schema);

    return n > 5 && str_eq(row->schema + n - 5, "_list");
}
