/* transport.h: what whole answers (client.c) and streams (stream.c) share. */
#pragma once

#include <curl/curl.h>

#include "cli/cli.h"

/* Sets the address of path; ERR_AUTH_REQUIRED when no server is known. */
enum err transport_url(struct cli *c, const char *path, CURL *curl, struct refusal *why);
/* Owned by the caller: curl_slist_free_all. */
struct curl_slist *transport_headers(struct cli *c, const char *accept, const char *idem_key,
                                     bool has_body);
void transport_options(struct cli *c, CURL *curl);
enum err transport_error(struct cli *c, CURLcode code, struct refusal *why);
