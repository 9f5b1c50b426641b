/* metrics.h: the text of /metrics (Prometheus 0.0.4). Cards under the names of NVIDIA's DCGM
 * exporter, so that existing dashboards work; everything else begins with suanli_. A reader's
 * thread with its own store. */
#pragma once

#include "app/core.h"

struct metrics_http {
    int64_t requests, refused, streams, connections, inbox, inbox_max;
};
/* ERR_STORE. */
enum err metrics_write(const struct core *c, struct store *store, const struct metrics_http *http,
                       utime_t now, struct strbuf *out);
