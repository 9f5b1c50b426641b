#include "app/openapi.h"

#include "app/op_table.h"
#include "app/router.h"

static void text_schema(struct json_writer *w, const char *type, const char *format)
{
    json_str(w, "type", type);
    if (format)
        json_str(w, "format", format);
}

/* Type of an argument, as members of an open object. */
static void arg_schema(struct json_writer *w, enum arg_type type)
{
    switch (type) {
    case ARG_STR:
        text_schema(w, "string", NULL);
        break;
    case ARG_I64:
        text_schema(w, "integer", "int64");
        break;
    case ARG_BOOL:
        text_schema(w, "boolean", NULL);
        break;
    case ARG_DURATION:
        text_schema(w, "string", "suanli-duration");
        break;
    case ARG_SIZE:
        text_schema(w, "string", "suanli-size");
        break;
    case ARG_TIME:
        text_schema(w, "string", "date-time");
        break;
    case ARG_MONEY:
        text_schema(w, "string", "decimal");
        break;
    case ARG_LIST:
        text_schema(w, "array", NULL);
        json_object_begin(w, "items");
        text_schema(w, "string", NULL);
        json_object_finish(w);
        break;
    case ARG_OBJ:
        text_schema(w, "object", NULL);
        break;
    }
}

static void parameter(struct json_writer *w, const char *name, const char *in, bool required,
                      const char *help, enum arg_type type)
{
    json_object_begin(w, NULL);
    json_str(w, "name", name);
    json_str(w, "in", in);
    json_flag(w, "required", required);
    json_str(w, "description", help);
    json_object_begin(w, "schema");
    arg_schema(w, type);
    json_object_finish(w);
    json_object_finish(w);
}

static void parameters(struct json_writer *w, const struct op_row *row)
{
    size_t n;
    const struct op_arg *args = op_args_of(row, &n);

    json_array_begin(w, "parameters");
    for (size_t i = 0; i < n; i++) {
        if (op_arg_in_path(row, &args[i]))
            parameter(w, args[i].name, "path", true, args[i].help, args[i].type);
        else if (args[i].place == ARG_QUERY)
            parameter(w, args[i].name, "query", args[i].required, args[i].help, args[i].type);
    }
    if (op_is_list(row)) {
        parameter(w, "limit", "query", false, "items on a page, 1 to 200 (default 100)", ARG_I64);
        parameter(w, "cursor", "query", false, "next_cursor of the page before", ARG_STR);
    }
    if (row->flags & OPF_DRYRUN)
        parameter(w, "dry_run", "query", false, "says what would happen, changes nothing",
                  ARG_BOOL);
    if (row->flags & OPF_IDEM)
        parameter(w, "Idempotency-Key", "header", true,
                  "fresh random value; the same key and body give the same answer", ARG_STR);
    if (row->flags & OPF_STREAM) {
        parameter(w, "Last-Event-ID", "header", false, "id of the last record seen", ARG_STR);
        parameter(w, "last_event_id", "query", false, "the same, for those who set no headers",
                  ARG_STR);
    }
    if (row->access != ACCESS_PUBLIC && row->access != ACCESS_NODE)
        parameter(w, "X-Suanli-Project", "header", false,
                  "name or id of a project of yours (default: the token's)", ARG_STR);
    json_array_finish(w);
}

static bool in_body(const struct op_row *row, const struct op_arg *a)
{
    return a->place == ARG_BODY || (a->place == ARG_PATH && !op_arg_in_path(row, a));
}

static void body_schema(struct json_writer *w, const struct op_row *row)
{
    size_t n;
    const struct op_arg *args = op_args_of(row, &n);

    json_object_begin(w, "schema");
    json_str(w, "type", "object");
    if (row->access == ACCESS_NODE) {
        json_str(w, "description", "docs/node-protocol.md");
        json_object_finish(w);
        return;
    }
    json_flag(w, "additionalProperties", false);
    json_object_begin(w, "properties");
    for (size_t i = 0; i < n; i++) {
        if (!in_body(row, &args[i]))
            continue;
        json_object_begin(w, args[i].name);
        arg_schema(w, args[i].type);
        json_str(w, "description", args[i].help);
        json_object_finish(w);
    }
    if (row->flags & OPF_DRYRUN) {
        json_object_begin(w, "dry_run");
        arg_schema(w, ARG_BOOL);
        json_object_finish(w);
    }
    json_object_finish(w);
    json_array_begin(w, "required");
    for (size_t i = 0; i < n; i++)
        if (in_body(row, &args[i]) && args[i].required)
            json_str(w, NULL, args[i].name);
    json_array_finish(w);
    json_object_finish(w);
}

static const char *answer_type(const struct op_row *row)
{
    if (row->flags & OPF_FILE)
        return "application/pdf";
    if (!(row->flags & OPF_STREAM))
        return "application/json";
    return row->flags & OPF_READ ? "application/x-ndjson" : "text/event-stream";
}

static void ref(struct json_writer *w, const char *schema)
{
    json_strf(w, "$ref", "#/components/schemas/%s", schema);
}

/* schema NULL: bytes */
static void content(struct json_writer *w, const char *type, const char *schema)
{
    json_object_begin(w, "content");
    json_object_begin(w, type);
    json_object_begin(w, "schema");
    if (schema) {
        ref(w, schema);
    } else {
        json_str(w, "type", "string");
        json_str(w, "format", "binary");
    }
    json_object_finish(w);
    json_object_finish(w);
    json_object_finish(w);
}

static void responses(struct json_writer *w, const struct op_row *row)
{
    json_object_begin(w, "responses");
    json_object_begin(w, "200");
    json_str(w, "description", row->flags & OPF_STREAM ? "one of these for each record" : "done");
    content(w, answer_type(row), row->flags & OPF_FILE ? NULL : row->schema);
    json_object_finish(w);
    json_object_begin(w, "default");
    json_str(w, "description", "refused: a problem document (RFC 9457)");
    content(w, "application/problem+json", "problem");
    json_object_finish(w);
    json_object_finish(w);
}

static const char *access_text(enum access a)
{
    static const char *const texts[ACCESS_COUNT] = {"public", "node",     "viewer",  "member",
                                                    "owner",  "supplier", "operator"};

    return texts[a];
}

static void operation(struct json_writer *w, const struct op_row *row)
{
    static const char *const verbs[] = {"get", "post", "put", "delete"};

    json_object_begin(w, verbs[row->method]);
    json_str(w, "operationId", row->name);
    json_str(w, "summary", row->summary);
    json_str(w, "x-least-role", access_text(row->access));
    if (row->cli[0])
        json_strf(w, "x-cli", "suanli %s", row->cli);
    if (row->access == ACCESS_PUBLIC) {
        json_array_begin(w, "security");
        json_array_finish(w);
    }
    parameters(w, row);
    if (row->method != OP_GET) {
        json_object_begin(w, "requestBody");
        json_object_begin(w, "content");
        json_object_begin(w, "application/json");
        body_schema(w, row);
        json_object_finish(w);
        json_object_finish(w);
        json_object_finish(w);
    }
    responses(w, row);
    json_object_finish(w);
}

static void paths(struct json_writer *w)
{
    json_object_begin(w, "paths");
    for (size_t i = 0; i < op_row_count; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || str_eq(op_rows[k].path, op_rows[i].path);
        if (seen)
            continue;
        json_object_begin(w, op_rows[i].path);
        for (size_t k = i; k < op_row_count; k++)
            if (str_eq(op_rows[k].path, op_rows[i].path))
                operation(w, &op_rows[k]);
        json_object_finish(w);
    }
    json_object_finish(w);
}

/* A value that does not exist is null, so every type allows it. */
static void nullable(struct json_writer *w, const char *type, const char *format)
{
    json_array_begin(w, "type");
    json_str(w, NULL, type);
    json_str(w, NULL, "null");
    json_array_finish(w);
    if (format)
        json_str(w, "format", format);
}

static void nullable_ref(struct json_writer *w, const char *schema)
{
    json_array_begin(w, "anyOf");
    json_object_begin(w, NULL);
    ref(w, schema);
    json_object_finish(w);
    json_object_begin(w, NULL);
    json_str(w, "type", "null");
    json_object_finish(w);
    json_array_finish(w);
}

static void list_schema(struct json_writer *w, const char *type)
{
    char item[NAME_SIZE];

    CHECK(str_printf(item, sizeof(item), "%.*s", (int)strlen(type) - 9, type + 8));
    json_str(w, "type", "array");
    json_object_begin(w, "items");
    if (str_eq(item, "STR"))
        json_str(w, "type", "string");
    else
        ref(w, item);
    json_object_finish(w);
}

static void field_schema(struct json_writer *w, const char *type)
{
    if (str_eq(type, "STR"))
        nullable(w, "string", NULL);
    else if (str_eq(type, "I64"))
        nullable(w, "integer", "int64");
    else if (str_eq(type, "BOOL"))
        nullable(w, "boolean", NULL);
    else if (str_eq(type, "TIME"))
        nullable(w, "string", "date-time");
    else if (str_eq(type, "OBJ"))
        nullable(w, "object", NULL);
    else if (str_eq(type, "MONEY"))
        nullable_ref(w, "money");
    else if (str_starts(type, "LIST_OF("))
        list_schema(w, type);
    else
        nullable_ref(w, type);
}

static void schema(struct json_writer *w, const char *name)
{
    json_object_begin(w, name);
    json_str(w, "type", "object");
    json_object_begin(w, "properties");
    for (size_t i = 0; i < schema_field_count; i++) {
        const struct schema_field *f = &schema_fields[i];
        if (!str_eq(f->schema, name))
            continue;
        json_object_begin(w, f->name);
        field_schema(w, f->type);
        if (f->help[0])
            json_str(w, "description", f->help);
        json_object_finish(w);
    }
    json_object_finish(w);
    json_array_begin(w, "required");
    for (size_t i = 0; i < schema_field_count; i++)
        if (str_eq(schema_fields[i].schema, name))
            json_str(w, NULL, schema_fields[i].name);
    json_array_finish(w);
    json_object_finish(w);
}

static void money_schema(struct json_writer *w)
{
    json_object_begin(w, "money");
    json_str(w, "type", "object");
    json_object_begin(w, "properties");
    json_object_begin(w, "amount");
    text_schema(w, "string", "decimal");
    json_str(w, "pattern", "^-?[0-9]+(\\.[0-9]{1,6})?$");
    json_object_finish(w);
    json_object_begin(w, "currency");
    text_schema(w, "string", NULL);
    json_str(w, "pattern", "^[A-Z]{3}$");
    json_object_finish(w);
    json_object_finish(w);
    json_array_begin(w, "required");
    json_str(w, NULL, "amount");
    json_str(w, NULL, "currency");
    json_array_finish(w);
    json_object_finish(w);
}

static void components(struct json_writer *w)
{
    json_object_begin(w, "components");
    json_object_begin(w, "securitySchemes");
    json_object_begin(w, "token");
    json_str(w, "type", "http");
    json_str(w, "scheme", "bearer");
    json_object_finish(w);
    json_object_finish(w);
    json_object_begin(w, "schemas");
    money_schema(w);
    for (size_t i = 0; i < schema_count; i++)
        schema(w, schema_names[i]);
    json_object_finish(w);
    json_object_finish(w);
}

void openapi_write(struct strbuf *out)
{
    struct json_writer w;

    json_writer_init(&w, out);
    json_object_begin(&w, NULL);
    json_str(&w, "openapi", "3.1.0");
    json_object_begin(&w, "info");
    json_str(&w, "title", "Suanli");
    json_str(&w, "version", "1");
    json_object_finish(&w);
    json_array_begin(&w, "security");
    json_object_begin(&w, NULL);
    json_array_begin(&w, "token");
    json_array_finish(&w);
    json_object_finish(&w);
    json_array_finish(&w);
    paths(&w);
    components(&w);
    json_object_finish(&w);
}
