/* Foreign bytes of the node: the control plane's answer, the journal, an image's config. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "node/imageneed.h"
#include "node/journal.h"
#include "node/want.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_alloc(size + 1);
    struct want *w = NULL;
    struct refusal why;

    memcpy(text, data, size);
    if (want_parse(text, size, 1000, &w, &why) == ERR_OK) {
        for (size_t i = 0; i < w->lease_count; i++) {
            CHECK(w->leases[i].epoch > 0 && w->leases[i].lease.s[0] != '\0');
            CHECK(w->leases[i].grace_ms >= 0 && w->leases[i].gpu_count <= PRIV_GPUS_MAX);
        }
        want_free(w);
    }
    json_decref(journal_line_parse(text, size));
    AUTO_JSON json_t *config = NULL;
    struct image_need need;
    if (json_parse(text, size, 65536, &config, NULL) == ERR_OK) {
        image_need_read(config, &need);
        CHECK(strnlen(need.driver, sizeof(need.driver)) < sizeof(need.driver));
        CHECK(strnlen(need.framework, sizeof(need.framework)) < sizeof(need.framework));
    }
    free(text);
    return 0;
}
