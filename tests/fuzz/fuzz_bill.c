/* The lines of a bill file, as bytes from anywhere: each is refused or taken, never more. The first
 * byte says whether checksums are made anew, so that what is behind them is reached too. */
#include <stdlib.h>

#include "base/sha256.h"
#include "cli/bill_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_BILL_CHECK struct bill_check *c = bill_check_new(NULL);
    unsigned char digest[SHA256_SIZE] = {0};
    bool reseal = size > 0 && data[0] % 2 == 0;
    const char *at = (const char *)data + 1, *end = (const char *)data + size;
    struct refusal why;
    enum err e = ERR_OK;

    while (size > 0 && at < end && e == ERR_OK) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        AUTO_STRBUF struct strbuf line = {0};

        if (!stop)
            stop = end;
        strbuf_init(&line, BILL_LINE_MAX + 64);
        strbuf_add_n(&line, at, (size_t)(stop - at));
        if (reseal) { /* the line is what comes before its checksum */
            struct sha256 h;
            char hex[2 * SHA256_SIZE + 1];

            sha256_init(&h);
            sha256_add(&h, digest, sizeof(digest));
            sha256_add(&h, at, (size_t)(stop - at));
            sha256_finish(&h, digest);
            hex_write(digest, sizeof(digest), hex);
            hex[16] = '\0';
            strbuf_addf(&line, ",\"sum\":\"%s\"}", hex);
        }
        e = bill_check_line(c, strbuf_str(&line), line.len, &why);
        at = stop + 1;
    }
    if (e == ERR_OK)
        e = bill_check_finish(c, &why);
    if (e != ERR_OK && e != ERR_BILL_DIFFERS)
        abort();
    return 0;
}
