/* Path and query of a request line: refused, or a row with arguments that are UTF-8 and whose
 * printed form finds the same row again. The method comes first, up to a blank. */
#include <stdlib.h>

#include "app/router.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_query(const struct op_row *row, const char *query)
{
    struct refusal why = {0};
    json_t *q = NULL;
    enum err e = router_query(row, query, &q, &why);

    CHECK(e == ERR_OK ? json_is_object(q) : why.code == e);
    json_decref(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct refusal why = {0};
    struct route r;
    char allow[ALLOW_SIZE];
    char *text = malloc(size + 1);

    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    char *blank = strchr(text, ' ');
    const char *method = blank ? text : "GET";
    char *path = blank ? blank + 1 : text;
    if (blank)
        *blank = '\0';
    char *mark = strchr(path, '?');
    if (mark)
        *mark = '\0';
    if (router_match(method, path, &r, allow, &why) == ERR_OK) {
        for (size_t i = 0; i < OP_PATH_ARGS_MAX; i++)
            CHECK(!r.path_arg[i] || str_utf8_ok(r.path_arg[i]));
        (void)router_path_args(&r, &why);
        check_query(r.row, mark ? mark + 1 : "");
        route_fini(&r);
    } else {
        CHECK(why.code == ERR_NOT_FOUND || (why.code == ERR_METHOD && allow[0]));
    }
    check_query(&op_rows[size % op_row_count], path);
    free(text);
    return 0;
}
