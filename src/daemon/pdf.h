/* pdf.h: runs suanli-invoice, a process without network and rights, and takes its PDF. */
#pragma once

#include "base/str.h"

/* json: what the program reads. The bytes are the caller's (free). A reader's thread; waits at most
 * PDF_WAIT_MS. ERR_UNSUPPORTED: the program is not there; ERR_TIMEOUT; ERR_SYSTEM (call). */
#define PDF_WAIT_MS 20000
#define PDF_MAX ((size_t)32 << 20)
enum err pdf_render(const char *json, size_t len, char **ret_pdf, size_t *ret_len,
                    struct refusal *why);
