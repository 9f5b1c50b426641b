/* The daemon's configuration file: refused with the place, or printed and read back the same. */
#include <stdlib.h>

#include "base/str.h"
#include "daemon/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct daemon_config a, b;
    struct refusal why = {0};
    char *text = malloc(size + 1), *again = NULL;
    size_t n = 0;

    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    if (daemon_config_parse("f", text, &a, &why) == ERR_OK) {
        FILE *f = open_memstream(&again, &n);
        CHECK(f);
        daemon_config_print(&a, LANG_EN, f);
        (void)fclose(f);
        CHECK(daemon_config_parse("f", again, &b, &why) == ERR_OK);
        CHECK(memcmp(&a, &b, sizeof(a)) == 0);
        free(again);
    } else {
        CHECK(why.code == ERR_VALIDATION && why.param_count == 2);
    }
    free(text);
    return 0;
}
