/* suanli-invoice: one JSON document on stdin, one PDF on stdout. Exit 0, or 1 with a reason on
 * stderr. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "render/invoice_pdf.h"
#include "render/sandbox.h"

#define INPUT_MAX ((size_t)16 << 20)

static int refused(const struct refusal *why)
{
    char text[512];

    refusal_text(why, LANG_EN, text, sizeof(text));
    fprintf(stderr, "suanli-invoice: %s\n", text);
    return 1;
}

static enum err read_all(struct strbuf *in, struct refusal *why)
{
    char part[65536];
    ssize_t n;

    while ((n = read(STDIN_FILENO, part, sizeof(part))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return refusef(why, ERR_SYSTEM, "call", "read");
        if (in->len + (size_t)n > INPUT_MAX)
            return refusef(why, ERR_TOO_LARGE, "what", "the document");
        strbuf_add_n(in, part, (size_t)n);
    }
    return ERR_OK;
}

static cairo_status_t write_all(void *user, const unsigned char *data, unsigned int len)
{
    (void)user;
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return CAIRO_STATUS_WRITE_ERROR;
        data += n;
        len -= (unsigned int)n;
    }
    return CAIRO_STATUS_SUCCESS;
}

static enum err render(const struct strbuf *in, struct refusal *why)
{
    AUTO_JSON json_t *v = NULL;
    const json_t *document;
    const char *gateway = NULL;

    TRY(json_parse(in->data ? in->data : "", in->len, INPUT_MAX, &v, why));
    document = json_object_get(v, "document");
    if (!json_is_object(document) || !json_get_str(v, "gateway_number", NULL, &gateway)) {
        (void)refusef(why, ERR_VALIDATION, "field", "document");
        refusal_set(why, "why", "an object with document and gateway_number is expected");
        return ERR_VALIDATION;
    }
    return invoice_pdf(document, gateway, write_all, NULL, why);
}

int main(void)
{
    AUTO_STRBUF struct strbuf in;
    struct refusal why = {0};

    strbuf_init(&in, INPUT_MAX + 1);
    if (sandbox_enter(&why) != ERR_OK || read_all(&in, &why) != ERR_OK ||
        render(&in, &why) != ERR_OK)
        return refused(&why);
    return 0;
}
