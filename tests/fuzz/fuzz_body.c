/* A JSON body for any operation: it is refused with a typed error, or it is an object of its ARG
 * rows. The first byte chooses the operation. */
#include <stdlib.h>

#include "app/router.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct refusal why = {0};
    json_t *body = NULL;

    if (size == 0)
        return 0;
    const struct op_row *row = &op_rows[data[0] % op_row_count];
    char *text = malloc(size); /* exact size, so that reading beyond it is seen */
    CHECK(text);
    memcpy(text, data + 1, size - 1);
    enum err e = router_body(row, text, size - 1, 65536, &body, &why);
    if (e == ERR_OK) {
        CHECK(json_is_object(body));
        (void)router_dry_run(row, NULL, body);
    } else {
        CHECK(why.code == e && body == NULL);
    }
    json_decref(body);
    free(text);
    return 0;
}
