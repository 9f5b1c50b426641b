/* An invoice's document as bytes from anywhere: as pages by the renderer, and as XML. A document
 * that is none is refused; what is drawn or written ends. */
#include <stdlib.h>

#include "app/invoice.h"
#include "render/invoice_pdf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* What the font libraries keep until the end is theirs. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libfontconfig\nleak:libpango\nleak:libcairo\n";
}

static cairo_status_t count(void *user, const unsigned char *bytes, unsigned n)
{
    size_t *sum = user;

    (void)bytes;
    *sum += n;
    return CAIRO_STATUS_SUCCESS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_JSON json_t *document = NULL;
    AUTO_STRBUF struct strbuf xml;
    char *text = mem_alloc(size + 1);
    struct refusal why;
    size_t written = 0;

    if (size)
        memcpy(text, data, size);
    strbuf_init(&xml, 1 << 20);
    enum err e = invoice_xml(text, &xml, &why);
    CHECK(e == ERR_OK || e == ERR_CORRUPT);
    if (json_parse(text, strlen(text), 16 << 20, &document, NULL) == ERR_OK) {
        e = invoice_pdf(document, NULL, count, &written, &why);
        CHECK(e == ERR_OK || e == ERR_VALIDATION || e == ERR_SYSTEM);
        CHECK(e != ERR_OK || written > 0);
    }
    free(text);
    return 0;
}
