/* openapi.h: the OpenAPI 3.1 document, made from operations.def and schemas.def. Pure. */
#pragma once

#include "base/str.h"

/* Whole document; the same bytes each time. */
void openapi_write(struct strbuf *out);
