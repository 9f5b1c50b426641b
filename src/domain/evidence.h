/* evidence.h: what a node says about one slice of a lease, as the bytes that it signs.
 *
 * The node signs where the numbers are made (Ed25519, base/sign.h); the control plane checks
 * against the key that it knows of the node and keeps the signature beside the slice; `bill verify`
 * checks it again at home. The bytes are fixed, so that all three mean the same: the words
 * "suanli.slice.1", boot and lease, each with its NUL, then the numbers as 64-bit big-endian in the
 * order of the struct (docs/node-protocol.md). Pure. */
#pragma once

#include "base/id.h"

#define EVIDENCE_BOOT_SIZE 40

struct evidence {
    char boot[EVIDENCE_BOOT_SIZE];
    struct id lease;
    int64_t seq, epoch;
    bool running, gpus_ok;
    utime_t t0_ms, t1_ms; /* the node's boot-time clock */
    int64_t cpu_us, memory_bytes, rx_bytes, tx_bytes, disk_used_mib, gpu_util_pct, gpu_memory_mib;
};
#define EVIDENCE_BYTES_MAX (16 + EVIDENCE_BOOT_SIZE + ID_SIZE + 13 * 8)

/* Number of bytes. */
size_t evidence_bytes(const struct evidence *e, unsigned char ret_bytes[EVIDENCE_BYTES_MAX]);
