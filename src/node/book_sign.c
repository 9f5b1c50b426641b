/* book_sign.c: the node's key, and its signature on what it measured. The key is made once and
 * stays in the agent's folder; the control plane learns its public half with the first report. */
#include "node/book_record.h"

#include <errno.h>

#include "domain/evidence.h"
#include "node/sys.h"

#define KEY_PATH_SIZE 512

enum err book_key_open(struct book *b, const char *dir, struct refusal *why)
{
    char path[KEY_PATH_SIZE], text[2 * SIGN_SEED_SIZE + 2];
    unsigned char seed[SIGN_SEED_SIZE];

    if (!sign_open() || !str_printf(path, sizeof(path), "%s/node.key", dir))
        return refusef(why, ERR_SYSTEM, "call", "node.key");
    ssize_t n = sys_read_small(path, text, sizeof(text));
    if (n < 0 && errno == ENOENT) {
        sign_seed(seed);
        hex_write(seed, sizeof(seed), text);
        TRY(sys_write_durable(path, text, strlen(text), 0600, why));
    } else if (n < 0) {
        return sys_fail(why, "read node.key");
    } else if (!hex_read(text, seed, sizeof(seed))) {
        /* Never replaced in silence: evidence with another key would not be charged. */
        (void)refusef(why, ERR_CORRUPT, "what", "%s", path);
        refusal_set(why, "why", "not the 64 hex digits of a key");
        return ERR_CORRUPT;
    }
    sign_key_of(seed, &b->key);
    return ERR_OK;
}

void book_slice_sign(const struct book *b, struct meter_slice *s)
{
    struct evidence e = {.lease = s->lease,
                         .seq = s->seq,
                         .epoch = s->epoch,
                         .running = !s->voided,
                         .gpus_ok = s->gpus_ok,
                         .t0_ms = s->t0,
                         .t1_ms = s->t1,
                         .cpu_us = s->cpu_us,
                         .memory_bytes = s->memory_bytes,
                         .rx_bytes = s->rx_bytes,
                         .tx_bytes = s->tx_bytes,
                         .disk_used_mib = s->disk_used_mib,
                         .gpu_util_pct = s->gpu_util_pct,
                         .gpu_memory_mib = s->gpu_memory_mib};
    unsigned char bytes[EVIDENCE_BYTES_MAX];
    bool ok = str_copy(e.boot, sizeof(e.boot), s->boot);

    CHECK(ok);
    sign_make(&b->key, bytes, evidence_bytes(&e, bytes), s->sig);
    s->has_sig = true;
}
