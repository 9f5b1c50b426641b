/* book.h: all the agent knows, in memory, and its durable part as records of the journal.
 *
 * Kept: leases (what was last told, epoch, ends as boot ms, how far they got), disks and images
 * wanted, slices not yet acknowledged, the sequence counter, epochs of forgotten leases. A function
 * that changes the durable part adds the record; the caller syncs (journal_sync) before it acts.
 * Single thread. */
#pragma once

#include "base/clock.h"
#include "base/vec.h"
#include "domain/idle.h"
#include "node/imageneed.h"
#include "node/journal.h"
#include "node/meter.h"
#include "node/want.h"

#define BOOK_TOMBS_MAX 2048

struct lease_row {
    struct want_lease want; /* as last told for an epoch that counts */
    bool named;             /* in the last answer */
    enum rec_phase phase;
    int64_t epoch;
    char boot[BOOT_ID_SIZE]; /* of all times below */
    uint32_t address;
    utime_t ready, ended;             /* boot ms; 0: not */
    enum end_reason end, stop_reason; /* stop_reason: why we asked it to stop */
    int32_t exit_code;
    struct refusal error; /* code 0: none */
    bool cleaned;
    bool told; /* its clean end arrived at the control plane */
    char host_key[256];
    int64_t notice_seen;
    char *report; /* owned JSON of the first-boot report; NULL: not yet */
    bool report_ok;
    int64_t memory_peak_mib, gpu_memory_peak_mib;
    struct meter_lease meter;
    struct idle_state idle;
    int64_t idle_ms;
    uint32_t idle_cards; /* idle while others work, one bit each */
    bool idle_due;
    /* found; not kept */
    bool found;
    enum rec_guest guest;
    int64_t guest_epoch;
    int32_t pid;
    bool guard_alive, oom, at_deadline;
    int32_t guest_exit;
    utime_t guest_ready, guest_ended;
    struct priv_deadline guard;
    enum err fail;
    struct refusal fail_why;
    uint32_t step, step_us[GUEST_STEP_COUNT];
    utime_t taken_at, seen_at, asked_at, clean_at, sampled_at;
    bool adopted; /* found running without a record: proven from now on only */
    enum rec_want asked;
    bool ports_set, keys_set; /* the helper has them as wanted */
    uint64_t log_from;
    char *log_data; /* owned; output on its way */
    size_t log_len;
    uint64_t log_at;
    bool log_sent, sent_clean; /* in the request in flight */
    bool cards_ok;
    uint32_t disk_told; /* two bits a disk: warned at 80, at 95 */
};

enum disk_order { DISK_ORDER_NONE, DISK_ORDER_MAKE, DISK_ORDER_ERASE };

struct disk_row {
    struct want_disk want;
    bool named;
    /* found; not kept */
    bool found;
    enum rec_disk_state state;
    int64_t size_mib, used_mib, inodes, inodes_used;
    int64_t erased_bytes, erase_ms;
    enum disk_order order; /* given and not yet seen done or failed */
    utime_t seen_at, retry_at, ordered_at;
    uint32_t failures;
    struct refusal why; /* of the last try; code 0: none */
};

struct image_row {
    struct want_image want;
    bool named;
    bool unsaved; /* no record of it yet */
    /* found; not kept */
    bool found;
    enum rec_item state;
    bool fetching, importing;
    int64_t bytes;
    struct image_need need; /* when ready */
    char staging[64];       /* folder the import reads; "" none */
    utime_t seen_at, failed_at, retry_at;
    uint32_t failures;
    struct refusal why;
};

/* A source without a digest; asked anew after a restart, so not kept. */
struct resolve_row {
    char source[WANT_SOURCE_SIZE];
    char digest[PRIV_DIGEST_SIZE]; /* "": not known yet */
    bool named, fetching;
    utime_t retry_at;
    uint32_t failures;
    struct refusal why;
};

struct tomb {
    struct id lease;
    int64_t epoch;
};

struct book {
    struct journal *journal; /* owned */
    struct sign_key key;     /* of this node: what it measures carries its signature */
    char boot[BOOT_ID_SIZE];
    VEC(struct lease_row *) leases; /* owned */
    VEC(struct disk_row *) disks;
    VEC(struct image_row *) images;
    VEC(struct resolve_row) resolves;
    VEC(struct meter_slice) slices; /* by boot as they came, then by seq */
    int64_t seq_next;               /* of this boot */
    VEC(struct tomb) tombs;
};

/* Replays the journal of dir for this boot, and reads the node's key there (made the first time).
 * Leases of an earlier boot that had begun are ended at their last evidence (node_lost); those that
 * had not are dropped and will be told anew. ret_fresh: there was no journal. Synced. */
enum err book_open(struct book *b, const char *dir, const char *boot, bool *ret_fresh,
                   struct refusal *why);
void book_close(struct book *b);
/* ERR_STORE: leave. Compacts when the file has grown. */
enum err book_sync(struct book *b, struct refusal *why);

struct lease_row *book_lease(struct book *b, struct id lease); /* may be NULL */
struct lease_row *book_lease_add(struct book *b, struct id lease);
void book_lease_save(struct book *b, const struct lease_row *l);
void book_lease_drop(struct book *b, struct lease_row *l, bool tomb); /* l is freed */
/* Makes it new for `want.epoch`: nothing of an earlier epoch is left in it. */
void book_lease_renew(struct book *b, struct lease_row *l);
struct disk_row *book_disk(struct book *b, struct id disk);
void book_disk_drop(struct book *b, struct disk_row *d);
struct image_row *book_image(struct book *b, const char *digest);
struct image_row *book_image_add(struct book *b, const char *digest); /* wanted, not recorded */
void book_image_drop(struct book *b, struct image_row *m);
/* Takes an answer: named leases, disks, images. Ends that differ by less than half a second are
 * the same end seen through another delay: the earlier one stays. Records what changed. */
void book_take(struct book *b, const struct want *w);
/* Gives the slice its boot, seq and signature and keeps it. */
void book_slice_add(struct book *b, const struct lease_row *l, struct meter_slice *s);
/* Slices of that boot up to seq are safe. */
void book_slices_ack(struct book *b, const char *boot, int64_t seq);
bool book_lease_settled(const struct book *b, const struct lease_row *l);
