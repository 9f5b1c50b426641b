#include "app/node_evidence.h"

#include "app/outbox.h"
#include "base/msg.h"
#include "domain/evidence.h"

#define TELL_EVERY_MS (3600 * MS_PER_S)

static enum err key_event(struct op *op, const struct node *n, const char *kind, const char *text,
                          const struct node_key *k)
{
    char hex[SIGN_KEY_TEXT];

    hex_write(k->key, SIGN_KEY_SIZE, hex);
    return event_emit(op, (struct id){""}, (struct id){""}, kind, text, "{s:s,s:s}", "node",
                      n->name, "key", hex);
}

/* A key that was never seen of this node, or was once. */
static enum err key_shown(struct op *op, const struct node *n, struct node_key *shown,
                          struct node_word *w)
{
    bool known = shown->id != 0;

    if (!w->keyed) {
        shown->active = true;
        shown->since_ms = op->now;
        TRY(proof_key_save(op->store, shown));
        *w = (struct node_word){.keyed = true, .key = *shown};
        return key_event(op, n, "node.key", N_("Node {node} signs its usage with key {key}."),
                         shown);
    }
    w->refused = memcmp(shown->key, w->key.key, SIGN_KEY_SIZE) != 0;
    if (!w->refused || known)
        return ERR_OK;
    shown->active = false;
    shown->since_ms = op->now;
    TRY(proof_key_save(op->store, shown));
    return key_event(
        op, n, "node.key_refused",
        N_("Node {node} shows another key, {key}. Its usage is not charged until it is "
           "trusted again: suanli admin node trust {node}"),
        shown);
}

enum err node_word_take(struct op *op, const struct node *n, const char *key,
                        struct node_word *ret_w)
{
    struct node_key shown = {.node = n->id};
    struct node_word w = {0};
    enum err e = proof_key_active(op->store, n->id, &w.key);

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    w.keyed = e == ERR_OK;
    if (key && key[0]) {
        if (!hex_read(key, shown.key, SIGN_KEY_SIZE))
            return refusef(&op->why, ERR_PROTOCOL, "why", "key of the inventory");
        e = proof_key_find(op->store, n->id, shown.key, &shown);
        if (e != ERR_OK && e != ERR_NOT_FOUND)
            return e;
        TRY(key_shown(op, n, &shown, &w));
    }
    *ret_w = w;
    return ERR_OK;
}

enum err node_word_check(const struct node_word *w, const char *boot, const char *sig,
                         struct funds_slice *f, int64_t *io_refused)
{
    struct evidence e = {.lease = f->lease,
                         .seq = f->seq,
                         .epoch = f->epoch,
                         .running = f->running,
                         .gpus_ok = f->gpus_ok,
                         .t0_ms = f->t0_ms,
                         .t1_ms = f->t1_ms,
                         .cpu_us = f->cpu_us,
                         .memory_bytes = f->memory_bytes,
                         .rx_bytes = f->rx_bytes,
                         .tx_bytes = f->tx_bytes,
                         .disk_used_mib = f->disk_used_mib,
                         .gpu_util_pct = f->gpu_util_pct,
                         .gpu_memory_mib = f->gpu_memory_mib};
    unsigned char bytes[EVIDENCE_BYTES_MAX];

    if (!w->keyed)
        return ERR_OK;
    if (!str_copy(e.boot, sizeof(e.boot), boot))
        return ERR_PROTOCOL;
    f->said_gpus_ok = f->gpus_ok;
    if (hex_read(sig, f->sig, SIGN_SIZE) &&
        sign_check(w->key.key, bytes, evidence_bytes(&e, bytes), f->sig)) {
        f->key = w->key.id;
        return ERR_OK;
    }
    f->running = false; /* evidence of nothing: time goes on and nothing is charged */
    ++*io_refused;
    return ERR_OK;
}

enum err node_word_tell(struct op *op, const struct node *n, struct node_word *w, int64_t refused)
{
    if (!refused || w->refused || op->now - w->key.told_ms < TELL_EVERY_MS)
        return ERR_OK;
    w->key.told_ms = op->now;
    TRY(proof_key_save(op->store, &w->key));
    return event_emit(op, (struct id){""}, (struct id){""}, "node.evidence_refused",
                      N_("Node {node} sent usage without the right signature; it is not charged."),
                      "{s:s,s:I}", "node", n->name, "slices", (json_int_t)refused);
}
