/* invoice_pdf.h: an invoice's neutral document (format suanli.invoice/1) as pages, in Chinese and
 * English, with embedded fonts and text that can be taken out again. Amounts are texts here and are
 * printed as they came. One thread. */
#pragma once

#include <cairo.h>

#include "base/json.h"

/* gateway_no: the tax gateway's number, or NULL. write: gets the bytes of the PDF. ERR_VALIDATION
 * (field, why): not such a document; ERR_SYSTEM: the bytes could not be written. */
enum err invoice_pdf(const json_t *document, const char *gateway_no, cairo_write_func_t write,
                     void *user, struct refusal *why);
