#include "domain/evidence.h"

static unsigned char *add_text(unsigned char *at, const char *s)
{
    size_t n = strlen(s) + 1;

    memcpy(at, s, n);
    return at + n;
}

size_t evidence_bytes(const struct evidence *e, unsigned char ret_bytes[EVIDENCE_BYTES_MAX])
{
    const int64_t numbers[] = {e->seq,           e->epoch,    e->running,       e->gpus_ok,
                               e->t0_ms,         e->t1_ms,    e->cpu_us,        e->memory_bytes,
                               e->rx_bytes,      e->tx_bytes, e->disk_used_mib, e->gpu_util_pct,
                               e->gpu_memory_mib};
    unsigned char *at = ret_bytes;

    at = add_text(at, "suanli.slice.1");
    at = add_text(at, e->boot);
    at = add_text(at, e->lease.s);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        for (size_t k = 0; k < 8; k++)
            *at++ = (unsigned char)((uint64_t)numbers[i] >> (56 - 8 * k));
    return (size_t)(at - ret_bytes);
}
